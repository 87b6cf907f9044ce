//! Handles Logon(A): as the first message of a connection, and as a reset of a live session.

use types::Nanos;

use super::inbound::Gap;
use super::{Application, Ending, Entry, Proof, Session, State, Store};
use crate::dictionary::{Fault, RejectReason};
use crate::encode::{Pen, Writer};
use crate::tag;
use crate::value;
use crate::view::Message;

/// Text(58) of every refusal of credentials.
const NOT_AUTHORIZED: &str = "Logon refused";

/// The refusal of a Logon.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) ending: Ending,
    /// What is wrong with the Logon, in words; empty: the sender has not proved who it is.
    pub(crate) why: String,
}

impl<S: Store> Session<S> {
    /// The first message of a connection, a Logon with this session's BeginString and CompIDs.
    /// `Err`: the connection ends, after what was written has left.
    pub(crate) fn handle_logon<A: Application>(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        app: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<Entry, Refused> {
        let reset = message.flag(tag::RESET_SEQ_NUM_FLAG.number);
        match app.logon(self.index, message) {
            Proof::Right => {}
            Proof::Wrong => {
                // A Logout takes a number of the session, which a stranger's words must not cost it;
                // where numbers begin anew with the next Logon it costs nothing.
                if reset || self.config.reset_on_logon {
                    refuse(now, message, NOT_AUTHORIZED, out);
                }
                return Err(Refused { ending: Ending::NotAuthorized, why: String::new() });
            }
            Proof::Later => return Ok(Entry::Unproved),
        }
        if !app.ready(self.index) {
            return Ok(Entry::Later);
        }
        let (seq, heart_bt_s) = match self.acceptable(now, message) {
            Ok(terms) => terms,
            Err(why) => {
                self.send_logout(now, &why, out);
                return Err(Refused { ending: Ending::BadLogon, why });
            }
        };
        if self.config.reset_on_logon {
            self.reset();
        }
        // What a Logon asks to begin anew begins anew once it is accepted.
        let (expected, own) = if reset { (1, 1) } else { self.numbers() };
        let duplicate = message.flag(tag::POSS_DUP_FLAG.number);
        if seq < expected && !duplicate {
            let text = format!("MsgSeqNum too low, expecting {expected} but received {seq}");
            self.send_logout(now, &text, out);
            return Err(Refused { ending: Ending::SequenceTooLow, why: text });
        }
        // Its numbers go on, ours have begun anew: it is told to, and begins behind its Logon.
        let anew = self.config.reset_on_logon || (own, expected) == (1, 1);
        let begins_anew = anew && self.config.tells_reset && seq > 1;
        let wanted = self.wanted(message);
        let says_expected = wanted.is_some();
        let wanted = wanted.filter(|_| !begins_anew);
        if let Some(wanted) = wanted.filter(|&wanted| wanted > own) {
            let text = too_high(own, wanted);
            if !reset {
                self.note_ahead(wanted, own);
            }
            self.send_logout(now, &text, out);
            return Err(Refused { ending: Ending::BadLogon, why: text });
        }
        if reset {
            self.reset();
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
        if let Some(wanted) = wanted {
            self.outbound.resend_after_logon(now, wanted, out);
        }
        Ok(Entry::Done)
    }

    /// Removes and returns what [`crate::Ahead`] tells: the number of a message that the
    /// counterparty knows of and that was never sent from here, and the next number to be sent.
    pub(crate) fn take_ahead(&mut self) -> Option<(u32, u32)> {
        self.ahead.take()
    }

    pub(super) fn note_ahead(&mut self, asked: u32, next: u32) {
        // Where numbers begin anew with every Logon, earlier ones prove nothing.
        if !self.config.reset_on_logon {
            self.ahead = Some((asked, next));
        }
    }

    /// MsgSeqNum(34) and HeartBtInt(108) of a Logon that is valid and asks for nothing but what is
    /// agreed; else what is wrong, in words.
    fn acceptable(&mut self, now: Nanos, message: &Message<'_>) -> Result<(u32, u64), String> {
        match self.verify(now, message) {
            Ok(()) => {}
            Err(Fault { reason: RejectReason::SendingTime, .. }) => {
                let most = self.config.latency_max_ns / Nanos::SECOND;
                return Err(format!("SendingTime is more than {most} s from the exchange's clock"));
            }
            Err(Fault { reason, tag: Some(tag) }) => {
                return Err(format!("{}: tag {tag}", reason.text()));
            }
            Err(Fault { reason, tag: None }) => return Err(reason.text().to_string()),
        }
        self.terms(message)
    }

    /// MsgSeqNum(34) and HeartBtInt(108) in seconds of a valid Logon that asks for nothing but what
    /// is agreed, at the start of a connection or later; else what is wrong, in words.
    fn terms(&self, message: &Message<'_>) -> Result<(u32, u64), String> {
        let most = self.config.heart_bt_int_max_s;
        let heart_bt_s = message.get(tag::HEART_BT_INT.number).and_then(value::uint);
        let heart_bt_s = heart_bt_s.filter(|&seconds| seconds <= most);
        let heart_bt_s = heart_bt_s.ok_or_else(|| format!("HeartBtInt must be 0 to {most}"))?;
        let stated = message.get(tag::DEFAULT_APPL_VER_ID.number);
        if let Some(wanted) = self.config.rules.version.appl_ver_id()
            && stated != Some(wanted.as_bytes())
        {
            return Err(format!("DefaultApplVerID must be {wanted}"));
        }
        if message.get(tag::ENCRYPT_METHOD.number) != Some(b"0") {
            return Err("EncryptMethod must be 0".to_string());
        }
        let seq = message.seq_num().filter(|&seq| seq > 0).ok_or("MsgSeqNum must be above 0")?;
        if message.flag(tag::RESET_SEQ_NUM_FLAG.number) && seq != 1 {
            return Err("ResetSeqNumFlag Y goes with MsgSeqNum 1".to_string());
        }
        if message.get(tag::NEW_PASSWORD.number).is_some() {
            return Err("The operator changes passwords, NewPassword does not".to_string());
        }
        Ok((seq, heart_bt_s))
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

    /// Handles a Logon with ResetSeqNumFlag(141) on a live connection: both sides begin at 1 again,
    /// unless the Logon is refused, which resets nothing.
    pub(super) fn reset_in_session(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        let wanted = self.wanted(message);
        let terms = self.terms(message).and_then(|terms| match wanted {
            Some(wanted) if wanted > 1 => Err(too_high(1, wanted)),
            _ => Ok(terms),
        });
        match terms {
            Err(why) => self.logout(now, &why, out),
            Ok((seq, heart_bt_s)) => {
                self.reset();
                self.heart_bt_ns = heart_bt_s * Nanos::SECOND;
                self.advance(seq);
                self.answer(now, heart_bt_s, true, wanted.is_some(), out);
            }
        }
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

/// Why NextExpectedMsgSeqNum(789) is refused where the next message of this side is number `own`.
fn too_high(own: u32, wanted: u32) -> String {
    format!("NextExpectedMsgSeqNum too high, expecting at most {own} but received {wanted}")
}

/// Appends a Logout for a Logon that no session takes, or whose numbers begin anew: its number is 1
/// and it is not stored. Appends nothing for a Logon whose header cannot be answered.
pub(crate) fn refuse(now: Nanos, logon: &Message<'_>, text: &str, out: &mut Vec<u8>) {
    let version = std::str::from_utf8(logon.begin_string()).ok();
    let version = version.filter(|text| text.starts_with("FIX") && text.len() <= VERSION_MAX);
    let name =
        |tag: tag::Tag| logon.get(tag.number).filter(|name| (1..=NAME_MAX).contains(&name.len()));
    let (Some(version), Some(their), Some(own)) =
        (version, name(tag::SENDER_COMP_ID), name(tag::TARGET_COMP_ID))
    else {
        return;
    };
    let mut pen = Pen::default();
    let mut writer = Writer::message(out, &mut pen, version, b"5");
    writer.uint(tag::MSG_SEQ_NUM, 1);
    writer.foreign(tag::SENDER_COMP_ID, own);
    writer.stamp(tag::SENDING_TIME, now);
    writer.foreign(tag::TARGET_COMP_ID, their);
    writer.text(tag::TEXT, text.as_bytes());
    writer.finish();
}

/// Longest BeginString(8) and CompID, bytes, for which a Logout is written.
const VERSION_MAX: usize = 8;
const NAME_MAX: usize = 64;
