//! Logon: the first message of a connection, and the reset in mid-session.

use types::Nanos;

use super::inbound::Gap;
use super::{Application, Ending, Entry, Proof, Session, State, Store};
use crate::tag;
use crate::value;
use crate::view::Message;

impl<S: Store> Session<S> {
    /// The first message of a connection, a Logon with this session's BeginString and CompIDs.
    /// `Err`: the connection ends, after what was written has left.
    pub(crate) fn handle_logon<A: Application>(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        app: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<Entry, Ending> {
        if self.verify(now, message).is_err() {
            return Err(Ending::BadLogon);
        }
        let (seq, heart_bt_s) = self.terms(message).ok_or(Ending::BadLogon)?;
        let reset = message.flag(tag::RESET_SEQ_NUM_FLAG.number);
        if reset && seq != 1 {
            return Err(Ending::BadLogon);
        }
        match app.logon(self.index, message) {
            Proof::Right => {}
            Proof::Wrong => return Err(Ending::NotAuthorized),
            Proof::Later => return Ok(Entry::Unproved),
        }
        if !app.ready(self.index) {
            return Ok(Entry::Later);
        }
        if reset || self.config.reset_on_logon {
            self.reset();
        }
        let expected = self.next_in;
        let duplicate = message.flag(tag::POSS_DUP_FLAG.number);
        if seq < expected && !duplicate {
            let text = format!("MsgSeqNum too low, expecting {expected} but received {seq}");
            self.send_logout(now, &text, out);
            return Err(Ending::SequenceTooLow);
        }
        // Its numbers go on, ours have begun anew: it is told to, and begins behind its Logon.
        let begins_anew = self.config.reset_on_logon && self.config.tells_reset && seq > 1;
        let wanted = self.wanted(message);
        let says_expected = wanted.is_some();
        let wanted = wanted.filter(|_| !begins_anew);
        let own = self.outbound.next();
        if let Some(wanted) = wanted.filter(|&wanted| wanted > own) {
            let text = format!(
                "NextExpectedMsgSeqNum too high, expecting at most {own} but received {wanted}"
            );
            self.note_ahead(wanted, own);
            self.send_logout(now, &text, out);
            return Err(Ending::BadLogon);
        }
        self.state = State::On;
        self.outbound.connect();
        self.heart_bt_ns = heart_bt_s * Nanos::SECOND;
        self.last_received = now;
        self.test_sent = false;
        if seq == expected {
            self.advance(seq);
        }
        self.answer(now, heart_bt_s, reset || begins_anew, says_expected, out);
        if seq > expected && !begins_anew {
            self.queue.keep(seq, None);
            if wanted.is_some() {
                // Our answer has said what we expect; what is missing comes unasked.
                self.gap = Some(Gap { until: seq - 1, asked_at: now });
            } else {
                self.ask_for_gap(now, seq, out);
            }
        }
        if let Some(wanted) = wanted.filter(|&wanted| wanted < own) {
            self.outbound.resend_after_logon(now, wanted, out);
        }
        Ok(Entry::Done)
    }

    /// The counterparty knows of a message that was never sent, as far as is known here: its number,
    /// and the next to be sent. What it was told of before is not in our log, or it is wrong.
    pub(crate) fn take_ahead(&mut self) -> Option<(u32, u32)> {
        self.ahead.take()
    }

    pub(super) fn note_ahead(&mut self, asked: u32, next: u32) {
        // Where numbers begin anew with every Logon, earlier ones prove nothing.
        if !self.config.reset_on_logon {
            self.ahead = Some((asked, next));
        }
    }

    /// MsgSeqNum and HeartBtInt of a Logon, if both are acceptable.
    fn terms(&self, message: &Message<'_>) -> Option<(u32, u64)> {
        let heart_bt_s = message.get(tag::HEART_BT_INT.number).and_then(value::uint)?;
        let version = self.config.rules.version.appl_ver_id();
        let stated = message.get(tag::DEFAULT_APPL_VER_ID.number);
        let version_fits = version.is_none_or(|wanted| stated == Some(wanted.as_bytes()));
        let plain = message.get(tag::ENCRYPT_METHOD.number) == Some(b"0");
        let seq = message.seq_num().filter(|&seq| seq > 0)?;
        let acceptable = version_fits && plain && heart_bt_s <= self.config.heart_bt_int_max_s;
        acceptable.then_some((seq, heart_bt_s))
    }

    fn wanted(&self, message: &Message<'_>) -> Option<u32> {
        let stated = message.get(tag::NEXT_EXPECTED_MSG_SEQ_NUM.number).and_then(value::uint)?;
        u32::try_from(stated).ok().filter(|&wanted| wanted > 0)
    }

    fn answer(
        &mut self,
        now: Nanos,
        heart_bt_s: u64,
        reset: bool,
        says_expected: bool,
        out: &mut Vec<u8>,
    ) {
        let version = self.config.rules.version;
        let next_in = u64::from(self.next_in);
        self.outbound.send_admin(now, b"A", out, |writer| {
            writer.char(tag::ENCRYPT_METHOD, b'0');
            writer.uint(tag::HEART_BT_INT, heart_bt_s);
            if reset {
                writer.flag(tag::RESET_SEQ_NUM_FLAG, true);
            }
            if says_expected {
                writer.uint(tag::NEXT_EXPECTED_MSG_SEQ_NUM, next_in);
            }
            if let Some(id) = version.appl_ver_id() {
                writer.text(tag::DEFAULT_APPL_VER_ID, id.as_bytes());
            }
        });
    }

    /// A Logon with ResetSeqNumFlag on a live connection: both sides begin at 1 again.
    pub(super) fn reset_in_session(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        seq: u32,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        let terms = self.terms(message);
        let Some((_, heart_bt_s)) = terms.filter(|_| seq == 1) else {
            self.logout(now, "Logon with ResetSeqNumFlag not acceptable", out);
            return None;
        };
        self.reset();
        self.heart_bt_ns = heart_bt_s * Nanos::SECOND;
        self.advance(seq);
        self.answer(now, heart_bt_s, true, false, out);
        None
    }

    fn reset(&mut self) {
        self.received_before = self.received().max(self.received_elsewhere);
        self.next_in = 1;
        self.gap = None;
        self.queue.clear();
        self.outbound.reset();
    }
}
