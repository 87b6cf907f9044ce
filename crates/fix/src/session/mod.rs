//! The session layer of an acceptor, without I/O: messages, time and timers in, bytes out.
//!
//! A [`Session`] lives as long as its sequence numbers, across connections; the
//! [`crate::Acceptor`] ties it to one connection at a time. Given the same calls it writes the
//! same bytes. Memory is bounded: a queue of messages that came early, a store with bounds of its
//! own, one message. Order of checks: BeginString, MsgSeqNum there, dictionary, SendingTime,
//! CompIDs, sequence. A message refused by dictionary uses its number if that was the next one.

mod config;
mod inbound;
pub(crate) mod logon;
mod outbound;
mod port;
mod slots;
mod store;

use types::Nanos;

use crate::dictionary::{Checker, Fault, RejectReason};
use crate::encode::Writer;
use crate::tag::{self, Tag};
use crate::value;
use crate::view::{FieldIndex, Message};
use inbound::{Gap, Queue, Waiting};

pub use config::{Ending, SessionConfig};
pub use outbound::Outbound;
pub use port::Port;
pub use slots::Slot;
pub use store::{MemoryStore, MsgType, Store, Stored};

/// Silence, in tenths of HeartBtInt, after which a TestRequest is sent.
const TEST_AFTER_TENTHS: u64 = 12;
/// Silence, in tenths of HeartBtInt, after which the counterparty counts as dead.
const DEAD_AFTER_TENTHS: u64 = 24;
/// TestReqID(112) of the session's own TestRequests.
const TEST: &[u8] = b"TEST";

/// Routing fields of a message, each with the field that carries it in an answer.
const REVERSED: [(Tag, Tag); 6] = [
    (tag::DELIVER_TO_COMP_ID, tag::ON_BEHALF_OF_COMP_ID),
    (tag::DELIVER_TO_SUB_ID, tag::ON_BEHALF_OF_SUB_ID),
    (tag::ON_BEHALF_OF_COMP_ID, tag::DELIVER_TO_COMP_ID),
    (tag::ON_BEHALF_OF_SUB_ID, tag::DELIVER_TO_SUB_ID),
    (tag::DELIVER_TO_LOCATION_ID, tag::ON_BEHALF_OF_LOCATION_ID),
    (tag::ON_BEHALF_OF_LOCATION_ID, tag::DELIVER_TO_LOCATION_ID),
];

/// The application layer behind a session, as the session calls it.
pub trait Application {
    /// Whether the Logon's credentials are right for the session (its index). If that is not
    /// known yet, the Logon waits for [`crate::Acceptor::try_again`], and claims nothing meanwhile.
    fn logon(&mut self, session: usize, message: &Message<'_>) -> Proof;

    /// Whether the session's numbers are known here. If not, the Logon, whose credentials are
    /// right, waits for [`crate::Acceptor::resume`].
    fn ready(&mut self, _session: usize) -> bool {
        true
    }

    /// A Heartbeat in sequence that answers a TestRequest with this TestReqID.
    fn heartbeat(&mut self, _session: usize, _test_req_id: &[u8]) {}

    /// An application message in sequence, valid by its dictionary, or of a type that the version
    /// has and the dictionary has not. Answers go through `port`.
    fn message<S: Store>(
        &mut self,
        session: usize,
        now: Nanos,
        message: &Message<'_>,
        port: &mut Port<'_, S>,
    );
}

/// Which step of its life a session is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Away,
    On,
    /// A Logout was sent; the connection ends with the answer, or at this time.
    Leaving(Nanos),
}

/// Result of checking a Logon's credentials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// The credentials are those of the session's account.
    Right,
    /// The credentials are not those of the session's account; the Logon is refused.
    Wrong,
    /// The check takes time; [`crate::Acceptor::try_again`] tells when it is over.
    Later,
}

impl From<bool> for Proof {
    fn from(right: bool) -> Proof {
        if right { Proof::Right } else { Proof::Wrong }
    }
}

/// Result of a Logon that is not refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// The session is logged on.
    Done,
    /// The Logon has to wait until the session is ready; nothing has changed.
    Later,
    /// The Logon has to wait until its credentials are checked.
    Unproved,
}

/// One FIX session at the exchange's end; it outlives its connections.
#[derive(Clone, Debug)]
pub struct Session<S> {
    /// What is agreed for the session, and its bounds.
    pub config: SessionConfig,
    index: usize,
    state: State,
    /// Whether a connection whose Logon is not answered yet is about to have the session.
    claimed: bool,
    outbound: Outbound<S>,
    next_in: u32,
    /// Number of messages received before the numbers last began at 1.
    received_before: u32,
    /// Largest number of received messages that another gateway is known to have counted.
    received_elsewhere: u32,
    /// See [`crate::Ahead`]: the number that the counterparty named, and the next one to be sent.
    ahead: Option<(u32, u32)>,
    heart_bt_ns: u64,
    pub(crate) last_received: Nanos,
    test_sent: bool,
    gap: Option<Gap>,
    queue: Queue,
    checker: Checker,
    /// Field index for messages that come out of the queue.
    replayed: FieldIndex,
}

/// Where a message stands in the sequence of received numbers.
enum Place {
    Next,
    Early,
    Duplicate,
}

impl<S: Store> Session<S> {
    /// A session without a connection; `index` is its number at the application.
    pub fn new(index: usize, config: SessionConfig, store: S) -> Session<S> {
        let (own, their) = (&config.own_comp_id, &config.their_comp_id);
        let outbound = Outbound::new(config.rules.version, own, their, store, config.resend_slice);
        Session {
            index,
            state: State::Away,
            claimed: false,
            outbound,
            next_in: 1,
            received_before: 0,
            received_elsewhere: 0,
            ahead: None,
            heart_bt_ns: 0,
            last_received: Nanos(0),
            test_sent: false,
            gap: None,
            queue: Queue::new(config.queue_messages_max, config.queue_bytes_max),
            checker: Checker::default(),
            replayed: FieldIndex::default(),
            config,
        }
    }

    /// Whether a connection has the session or is about to have it.
    pub fn is_live(&self) -> bool {
        self.claimed || self.state != State::Away
    }

    /// Notes that a connection whose Logon waits is about to have the session, or no longer is.
    pub(crate) fn claim(&mut self, claimed: bool) {
        self.claimed = claimed;
    }

    /// MsgSeqNum(34) expected next, and MsgSeqNum(34) to be sent next.
    pub fn numbers(&self) -> (u32, u32) {
        (self.next_in, self.outbound.next())
    }

    /// Messages received and dealt with over the session's life: where numbers began again, they
    /// count on.
    pub fn received(&self) -> u32 {
        self.received_before.saturating_add(self.next_in.saturating_sub(1))
    }

    /// Takes over what a gateway that is gone received: `before` messages until numbers last began
    /// at 1, `received` in all.
    pub fn restore(&mut self, before: u32, received: u32) {
        self.received_before = before;
        self.next_in = received.saturating_sub(before).saturating_add(1);
        self.received_elsewhere = received;
    }

    /// Notes how many messages were received, perhaps elsewhere, as the account's stream tells.
    pub fn note_received(&mut self, received: u32) {
        self.received_elsewhere = self.received_elsewhere.max(received);
    }

    /// Forgets all state but the configuration: another gateway may have the session next.
    pub fn forget(&mut self) {
        self.disconnect();
        self.outbound.store.release();
        self.restore(0, 0);
    }

    /// Reserves the memory that the session may need while it is live.
    pub fn prepare(&mut self) {
        self.outbound.prepare();
    }

    /// Number of bytes of the messages that wait for earlier ones.
    pub fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Whether a resend is under way; until it is done nothing is read.
    pub fn is_resending(&self) -> bool {
        self.outbound.is_resending()
    }

    /// The sending half, for what the application sends unasked.
    pub fn outbound(&mut self) -> &mut Outbound<S> {
        &mut self.outbound
    }

    /// Handles the end of the connection.
    pub(crate) fn disconnect(&mut self) {
        self.state = State::Away;
        self.claimed = false;
        self.outbound.disconnect();
        self.queue.clear();
        self.gap = None;
    }

    /// Sends a Logout; the connection ends with its answer or after the configured wait. A resend
    /// under way is given up: who still wants it sees the gap and asks again.
    pub fn logout(&mut self, now: Nanos, text: &str, out: &mut Vec<u8>) {
        if self.state == State::On {
            self.outbound.give_up_resend();
            self.send_logout(now, text, out);
            self.state = State::Leaving(now.after(self.config.logout_wait_ns));
        }
    }

    /// Sends a TestRequest of the application's own; the answer is told by
    /// [`Application::heartbeat`].
    pub fn test(&mut self, now: Nanos, id: &[u8], out: &mut Vec<u8>) {
        if self.state == State::On {
            let test = |writer: &mut Writer<'_>| writer.foreign(tag::TEST_REQ_ID, id);
            self.outbound.send_admin(now, b"1", out, test);
        }
    }

    fn send_logout(&mut self, now: Nanos, text: &str, out: &mut Vec<u8>) {
        self.outbound.send_admin(now, b"5", out, |writer| {
            if !text.is_empty() {
                writer.text(tag::TEXT, text.as_bytes());
            }
        });
    }

    /// Next time at which [`Session::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Nanos {
        if self.outbound.is_resending() {
            return Nanos(0);
        }
        match self.state {
            State::Away => Nanos::NEVER,
            State::Leaving(until) => until,
            State::On if self.heart_bt_ns == 0 => Nanos::NEVER,
            State::On if self.test_sent => self.silence(DEAD_AFTER_TENTHS),
            State::On => {
                let heartbeat = self.outbound.last_sent.after(self.heart_bt_ns);
                heartbeat.min(self.silence(TEST_AFTER_TENTHS))
            }
        }
    }

    fn silence(&self, tenths: u64) -> Nanos {
        self.last_received.after(self.heart_bt_ns / 10 * tenths)
    }

    /// Sends a Heartbeat or TestRequest that is due; `Some`: the connection ends, for this reason.
    pub fn handle_timeout(&mut self, now: Nanos, out: &mut Vec<u8>) -> Option<Ending> {
        if self.outbound.is_resending() {
            self.outbound.pump(now, out);
            return None;
        }
        match self.state {
            State::Leaving(until) if now >= until => return Some(Ending::LogoutTimeout),
            State::On if self.heart_bt_ns > 0 => {}
            _ => return None,
        }
        if self.test_sent {
            return (now >= self.silence(DEAD_AFTER_TENTHS)).then_some(Ending::Silent);
        }
        if now >= self.silence(TEST_AFTER_TENTHS) {
            let test = |writer: &mut Writer<'_>| writer.text(tag::TEST_REQ_ID, TEST);
            self.outbound.send_admin(now, b"1", out, test);
            self.test_sent = true;
        } else if now >= self.outbound.last_sent.after(self.heart_bt_ns) {
            self.outbound.send_admin(now, b"0", out, |_| {});
        }
        None
    }

    /// A message on the session's connection, after its Logon.
    pub(crate) fn handle_message<A: Application>(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        app: &mut A,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        self.last_received = now;
        self.test_sent = false;
        if let State::Leaving(_) = self.state {
            return self.handle_leaving(now, message, out);
        }
        if message.begin_string() != self.config.rules.version.begin_string().as_bytes() {
            self.logout(now, "Incorrect BeginString", out);
            return None;
        }
        let Some(seq) = message.seq_num() else {
            self.logout(now, "MsgSeqNum missing", out);
            return None;
        };
        if let Err(fault) = self.verify(now, message) {
            self.reject(now, message, seq, fault, out);
            if seq == self.next_in && !matches!(message.msg_type(), b"A" | b"4") {
                self.advance(seq);
            }
            if matches!(fault.reason, RejectReason::CompId | RejectReason::SendingTime) {
                self.logout(now, "", out);
                return None;
            }
            return self.drain(now, app, out);
        }
        let ending = self.dispatch(now, message, seq, app, out);
        if ending.is_some() {
            return ending;
        }
        self.drain(now, app, out)
    }

    /// Checks everything about a message but its sequence number.
    fn verify(&mut self, now: Nanos, message: &Message<'_>) -> Result<(), Fault> {
        let config = &self.config;
        if let Some(wanted) = config.rules.version.appl_ver_id()
            && let Some(stated) = message.get(tag::APPL_VER_ID.number)
            && stated != wanted.as_bytes()
        {
            let tag = Some(tag::APPL_VER_ID.number as i32);
            return Err(Fault { reason: RejectReason::ApplicationVersion, tag });
        }
        match self.checker.check(&config.rules, config.custom_tags, message) {
            // No more is looked at than its place: the application says that it does not take it.
            Err(Fault { reason: RejectReason::InvalidMsgType, .. })
                if config.rules.version.defines(message.msg_type()) => {}
            judged => judged?,
        }
        let sent = message.get(tag::SENDING_TIME.number).and_then(value::timestamp);
        let accurate =
            sent.is_some_and(|sent| now.since(sent).max(sent.since(now)) <= config.latency_max_ns);
        if !accurate {
            return Err(Fault { reason: RejectReason::SendingTime, tag: None });
        }
        let comp_ids =
            (message.get(tag::SENDER_COMP_ID.number), message.get(tag::TARGET_COMP_ID.number));
        let agreed = (config.their_comp_id.as_bytes(), config.own_comp_id.as_bytes());
        if comp_ids != (Some(agreed.0), Some(agreed.1)) {
            return Err(Fault { reason: RejectReason::CompId, tag: None });
        }
        Ok(())
    }

    fn dispatch<A: Application>(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        seq: u32,
        app: &mut A,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        match message.msg_type() {
            b"A" if message.flag(tag::RESET_SEQ_NUM_FLAG.number) => {
                return self.reset_in_session(now, message, out);
            }
            b"4" if !message.flag(tag::GAP_FILL_FLAG.number) => {
                self.sequence_reset(now, message, seq, out);
                return None;
            }
            b"5" => {
                if seq == self.next_in {
                    self.advance(seq);
                }
                self.send_logout(now, "", out);
                return Some(Ending::LoggedOut);
            }
            b"2" => {
                self.resend_request(now, message, seq, out);
                return None;
            }
            _ => {}
        }
        match self.place(now, message, seq, out) {
            Ok(Place::Next) => {
                self.process(now, message, app, out);
                None
            }
            Ok(Place::Early) => {
                self.queue.keep(seq, Some(message.bytes()));
                self.ask_for_gap(now, seq, out);
                None
            }
            Ok(Place::Duplicate) => None,
            Err(ending) => ending,
        }
    }

    /// Finds where a message stands in the sequence; answers one that has no place there.
    fn place(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        seq: u32,
        out: &mut Vec<u8>,
    ) -> Result<Place, Option<Ending>> {
        if seq == self.next_in {
            return Ok(Place::Next);
        }
        if seq > self.next_in {
            return Ok(Place::Early);
        }
        if !message.flag(tag::POSS_DUP_FLAG.number) {
            let expected = self.next_in;
            let text = format!("MsgSeqNum too low, expecting {expected} but received {seq}");
            self.send_logout(now, &text, out);
            return Err(Some(Ending::SequenceTooLow));
        }
        if message.msg_type() == b"4" {
            return Ok(Place::Duplicate);
        }
        let time = |tag: Tag| message.get(tag.number).and_then(value::timestamp);
        let Some(original) = time(tag::ORIG_SENDING_TIME) else {
            let tag = Some(tag::ORIG_SENDING_TIME.number as i32);
            let fault = Fault { reason: RejectReason::RequiredTagMissing, tag };
            self.reject(now, message, seq, fault, out);
            return Err(None);
        };
        if time(tag::SENDING_TIME).is_none_or(|sent| original > sent) {
            let fault = Fault { reason: RejectReason::SendingTime, tag: None };
            self.reject(now, message, seq, fault, out);
            self.logout(now, "", out);
            return Err(None);
        }
        Ok(Place::Duplicate)
    }

    /// Handles the message whose turn it is, new or out of the queue.
    fn process<A: Application>(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        app: &mut A,
        out: &mut Vec<u8>,
    ) {
        let seq = self.next_in;
        match message.msg_type() {
            b"4" => return self.gap_fill(now, message, seq, out),
            b"0" => {
                if let Some(id) = message.get(tag::TEST_REQ_ID.number) {
                    app.heartbeat(self.index, id);
                }
            }
            b"3" => {}
            b"1" => {
                let id = message.get(tag::TEST_REQ_ID.number).unwrap_or(&[]);
                self.outbound
                    .send_admin(now, b"0", out, |writer| writer.foreign(tag::TEST_REQ_ID, id));
            }
            b"A" => {
                let fault = Fault { reason: RejectReason::Other, tag: None };
                self.reject(now, message, seq, fault, out);
            }
            _ => {
                let received = self.received_before.saturating_add(seq);
                let mut port = Port { outbound: &mut self.outbound, out, now, received };
                app.message(self.index, now, message, &mut port);
            }
        }
        self.advance(seq);
    }

    /// Counts the message `seq` as handled.
    fn advance(&mut self, seq: u32) {
        self.next_in = seq.saturating_add(1);
        if self.gap.is_some_and(|gap| self.next_in > gap.until) {
            self.gap = None;
        }
    }

    /// Deals with waiting messages whose turn has come; asks again for what is still missing.
    fn drain<A: Application>(
        &mut self,
        now: Nanos,
        app: &mut A,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        let mut index = std::mem::take(&mut self.replayed);
        while self.state == State::On && !self.queue.is_empty() {
            match self.queue.take(self.next_in) {
                Some(Waiting::Done) => self.advance(self.next_in),
                // It was parsed before, so it can be again.
                Some(Waiting::Message(bytes)) => match index.parse(&bytes) {
                    Ok(message) => self.process(now, &message, app, out),
                    Err(_) => self.advance(self.next_in),
                },
                None => {
                    if self.gap.is_none() && !self.queue.is_empty() {
                        self.ask_for_gap(now, self.next_in.saturating_add(1), out);
                    }
                    break;
                }
            }
        }
        self.replayed = index;
        None
    }

    /// Asks for all messages from the next number on, unless they have been asked for.
    fn ask_for_gap(&mut self, now: Nanos, seq: u32, out: &mut Vec<u8>) {
        let retry = self.config.gap_retry_ns;
        if self.gap.is_some_and(|gap| now.since(gap.asked_at) < retry) {
            return;
        }
        self.gap = Some(Gap { until: seq.saturating_sub(1), asked_at: now });
        let from = u64::from(self.next_in);
        self.outbound.send_admin(now, b"2", out, |writer| {
            writer.uint(tag::BEGIN_SEQ_NO, from);
            writer.uint(tag::END_SEQ_NO, 0);
        });
    }

    /// A ResendRequest is answered whatever its number, so that two of them cannot wait for each
    /// other.
    fn resend_request(&mut self, now: Nanos, message: &Message<'_>, seq: u32, out: &mut Vec<u8>) {
        let number = |tag: Tag| {
            let value = message.get(tag.number).and_then(value::uint);
            value.and_then(|value| u32::try_from(value).ok())
        };
        match (number(tag::BEGIN_SEQ_NO), number(tag::END_SEQ_NO)) {
            (Some(from), Some(to)) if from > self.outbound.next() && (to == 0 || to >= from) => {
                let last = self.outbound.next().saturating_sub(1);
                // No word of [`crate::Ahead`]: what was told before is known since the Logon.
                let text = format!("BeginSeqNo {from} is beyond {last}, the last message sent");
                self.logout(now, &text, out);
            }
            (Some(from), Some(to)) if from > 0 && (to == 0 || to >= from) => {
                self.outbound.resend(from, to);
                self.outbound.pump(now, out);
            }
            _ => {
                let tag = Some(tag::BEGIN_SEQ_NO.number as i32);
                let fault = Fault { reason: RejectReason::ValueIncorrect, tag };
                self.reject(now, message, seq, fault, out);
            }
        }
        if seq == self.next_in {
            self.advance(seq);
        } else if seq > self.next_in {
            self.queue.keep(seq, None);
            if self.state == State::On && !self.outbound.is_resending() {
                self.ask_for_gap(now, seq, out);
            }
        }
    }

    fn new_seq_no(message: &Message<'_>) -> Option<u32> {
        let value = message.get(tag::NEW_SEQ_NO.number).and_then(value::uint)?;
        u32::try_from(value).ok()
    }

    /// SequenceReset-Reset: its own number is not looked at.
    fn sequence_reset(&mut self, now: Nanos, message: &Message<'_>, seq: u32, out: &mut Vec<u8>) {
        match Self::new_seq_no(message) {
            Some(new) if new >= self.next_in => self.advance(new.saturating_sub(1)),
            _ => {
                let fault = Fault { reason: RejectReason::ValueIncorrect, tag: None };
                self.reject(now, message, seq, fault, out);
            }
        }
    }

    /// Handles a SequenceReset-GapFill in its turn.
    fn gap_fill(&mut self, now: Nanos, message: &Message<'_>, seq: u32, out: &mut Vec<u8>) {
        match Self::new_seq_no(message) {
            Some(new) if new > seq => self.advance(new - 1),
            _ => {
                let fault = Fault { reason: RejectReason::ValueIncorrect, tag: None };
                self.reject(now, message, seq, fault, out);
                self.advance(seq);
            }
        }
    }

    fn reject(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        seq: u32,
        fault: Fault,
        out: &mut Vec<u8>,
    ) {
        let largest = self.config.rules.version.largest_reject_reason();
        self.outbound.send_admin(now, b"3", out, |writer| {
            reverse_route(message, writer);
            writer.uint(tag::REF_SEQ_NUM, u64::from(seq));
            writer.text(tag::TEXT, fault.reason.text().as_bytes());
            if let Some(tag) = fault.tag {
                writer.int(tag::REF_TAG_ID, i64::from(tag));
            }
            writer.foreign(tag::REF_MSG_TYPE, message.msg_type());
            if fault.reason as u16 <= largest {
                writer.uint(tag::SESSION_REJECT_REASON, fault.reason as u64);
            }
        });
    }

    /// Handles a message after our Logout: only its answer and resend requests still count.
    fn handle_leaving(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        match message.msg_type() {
            b"5" => {
                if message.seq_num() == Some(self.next_in) {
                    self.advance(self.next_in);
                }
                return Some(Ending::LoggedOut);
            }
            b"2" if self.verify(now, message).is_ok() => {
                if let Some(seq) = message.seq_num() {
                    self.resend_request(now, message, seq, out);
                }
            }
            _ => {}
        }
        None
    }
}

/// Copies the routing fields of a message into its answer, the other way round; empty ones are
/// left out.
pub fn reverse_route(message: &Message<'_>, writer: &mut Writer<'_>) {
    for (from, to) in REVERSED {
        if let Some(value) = message.get(from.number) {
            writer.foreign(to, value);
        }
    }
}
