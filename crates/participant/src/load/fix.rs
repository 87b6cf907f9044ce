//! FIX 4.2, 4.4 and 5.0 SP2, the initiator's side.
//!
//! The first Logon resets both directions' numbers, later ones go on with them: what was missed is
//! asked for by ResendRequest. A resend that the other side asks for is answered with one gap fill;
//! requests without an answer go out again as new messages with PossResend. Identifiers are the
//! run's text, `N` for orders or `C` for cancels, and the order's number in base 36.

use std::collections::VecDeque;

use fix::encode::{Pen, Writer};
use fix::value::{self, Places};
use fix::{FieldIndex, Frame, Framer, Message, Version, tag};
use types::{Instrument, Nanos, Side};

use super::door::{Heard, Login};
use super::requests::{Answer, Kind, Request};

const HEARTBEAT_S: u64 = 30;
/// Silence after which the other side is asked, and after which it is given up.
const ASK_NS: u64 = 45 * Nanos::SECOND;
const DEAD_NS: u64 = 75 * Nanos::SECOND;
/// Messages remembered for Reject(3), which names only their numbers.
const RECENT: usize = 4_096;
/// Rejected on the session's or the business level: these plus the reason given.
const SESSION_REJECT: u16 = 2_000;
const BUSINESS_REJECT: u16 = 1_000;
/// Largest message that is accepted, bytes.
const MESSAGE_MAX: usize = 16 << 10;

/// Which request an identifier belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Id {
    order: u32,
    cancel: bool,
}

/// A FIX session of one client.
#[derive(Debug)]
pub struct FixDoor {
    version: Version,
    sender: Vec<u8>,
    target: Vec<u8>,
    username: Vec<u8>,
    password: Vec<u8>,
    symbol: Vec<u8>,
    run: Vec<u8>,
    framer: Framer,
    index: FieldIndex,
    pen: Pen,
    next_out: u32,
    expected: u32,
    /// Asked to resend from this number on, and not got it yet.
    asked: Option<u32>,
    logged_on: bool,
    /// Text of the Logout that refused the last Logon.
    refusal: String,
    /// A Logon has been sent in some connection.
    begun: bool,
    /// Whether a logout was sent.
    leaving: bool,
    last_sent: Nanos,
    last_heard: Nanos,
    tested: bool,
    recent: VecDeque<(u32, Id)>,
}

impl FixDoor {
    /// A session of `names` (ours, theirs), not yet connected.
    pub fn new(
        version: Version,
        names: (&str, &str),
        login: &Login,
        instrument: &Instrument,
        run: &str,
    ) -> FixDoor {
        FixDoor {
            version,
            sender: names.0.as_bytes().to_vec(),
            target: names.1.as_bytes().to_vec(),
            username: login.username.as_bytes().to_vec(),
            password: login.password.as_bytes().to_vec(),
            symbol: instrument.symbol.0.trim_ascii_end().to_vec(),
            run: run.as_bytes().to_vec(),
            framer: Framer::new(MESSAGE_MAX),
            index: FieldIndex::default(),
            pen: Pen::default(),
            next_out: 1,
            expected: 1,
            asked: None,
            logged_on: false,
            refusal: String::new(),
            begun: false,
            leaving: false,
            last_sent: Nanos(0),
            last_heard: Nanos(0),
            tested: false,
            recent: VecDeque::with_capacity(RECENT),
        }
    }

    /// Sends the Logon.
    pub fn connect(&mut self, now: Nanos, out: &mut Vec<u8>) {
        self.framer = Framer::new(MESSAGE_MAX);
        (self.asked, self.tested, self.last_heard) = (None, false, now);
        let first = !std::mem::replace(&mut self.begun, true);
        if first {
            (self.next_out, self.expected) = (1, 1);
        }
        let version = self.version;
        let login = (self.username.clone(), self.password.clone());
        self.message(now, b"A", None, out, |writer| {
            writer.uint(tag::ENCRYPT_METHOD, 0);
            writer.uint(tag::HEART_BT_INT, HEARTBEAT_S);
            if first {
                writer.flag(tag::RESET_SEQ_NUM_FLAG, true);
            }
            writer.foreign(tag::USERNAME, &login.0);
            writer.foreign(tag::PASSWORD, &login.1);
            if version == Version::Fix50Sp2 {
                writer.text(tag::DEFAULT_APPL_VER_ID, b"9");
            }
        });
    }

    pub fn refusal(&self) -> &str {
        &self.refusal
    }

    /// Says goodbye; the answer is the end.
    pub fn logout(&mut self, now: Nanos, out: &mut Vec<u8>) {
        self.leaving = true;
        self.message(now, b"5", None, out, |_| {});
    }

    pub fn handle_close(&mut self) {
        self.logged_on = false;
    }

    /// Writes a message; `number`: the one it repeats, as a gap fill does.
    fn message(
        &mut self,
        now: Nanos,
        msg_type: &[u8],
        number: Option<u32>,
        out: &mut Vec<u8>,
        build: impl FnOnce(&mut Writer<'_>),
    ) {
        let begin_string = self.version.begin_string();
        let mut writer = Writer::message(out, &mut self.pen, begin_string, msg_type);
        writer.uint(tag::MSG_SEQ_NUM, u64::from(number.unwrap_or(self.next_out)));
        if number.is_some() {
            writer.flag(tag::POSS_DUP_FLAG, true);
        }
        writer.foreign(tag::SENDER_COMP_ID, &self.sender);
        writer.stamp(tag::SENDING_TIME, now);
        writer.foreign(tag::TARGET_COMP_ID, &self.target);
        if number.is_some() {
            writer.stamp(tag::ORIG_SENDING_TIME, now);
        }
        build(&mut writer);
        writer.finish();
        if number.is_none() {
            self.next_out += 1;
        }
        self.last_sent = now;
    }

    pub fn send(&mut self, now: Nanos, request: &Request, again: bool, out: &mut Vec<u8>) -> bool {
        if !self.logged_on {
            return false;
        }
        let cancel = request.kind == Kind::Cancel;
        let id = Id { order: request.order, cancel };
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((self.next_out, id));
        let original = match request.kind {
            Kind::New => None,
            Kind::Replace => Some(Id { order: request.original, cancel: false }),
            Kind::Cancel => Some(Id { order: request.order, cancel: false }),
        };
        let (own, original) = (self.text(id), original.map(|id| self.text(id)));
        let msg_type: &[u8] = match request.kind {
            Kind::New => b"D",
            Kind::Replace => b"G",
            Kind::Cancel => b"F",
        };
        let (symbol, old) = (self.symbol.clone(), self.version == Version::Fix42);
        self.message(now, msg_type, None, out, |writer| {
            if again {
                writer.flag(tag::POSS_RESEND, true);
            }
            if let Some(original) = original {
                writer.text(tag::ORIG_CL_ORD_ID, original.as_bytes());
            }
            writer.text(tag::CL_ORD_ID, own.as_bytes());
            if old && !cancel {
                writer.char(tag::HANDL_INST, b'1');
            }
            writer.text(tag::SYMBOL, &symbol);
            writer.char(tag::SIDE, if request.terms.side == Side::Buy { b'1' } else { b'2' });
            writer.stamp(tag::TRANSACT_TIME, now);
            if !cancel {
                writer.uint(tag::ORDER_QTY, u64::from(request.terms.lots));
                writer.char(tag::ORD_TYPE, b'2');
                writer.decimal(tag::PRICE, request.terms.price.0, Places::Four);
                writer.char(tag::TIME_IN_FORCE, request.terms.expire_at.map_or(b'0', |_| b'6'));
                if let Some(at) = request.terms.expire_at {
                    writer.stamp(tag::EXPIRE_TIME, at);
                }
            }
        });
        true
    }

    fn text(&self, id: Id) -> Text {
        let mut text = Text::default();
        self.run.iter().for_each(|byte| text.push(*byte));
        text.push(if id.cancel { b'C' } else { b'N' });
        // Seven digits of base 36 hold every number.
        let digits: [u8; 7] =
            std::array::from_fn(|at| (id.order / 36u32.pow(6 - at as u32) % 36) as u8);
        for digit in digits {
            text.push(if digit < 10 { b'0' + digit } else { b'A' + digit - 10 });
        }
        text
    }

    /// The request an identifier of this run belongs to.
    fn read(run: &[u8], text: &[u8]) -> Option<Id> {
        let (kind, digits) = text.strip_prefix(run)?.split_first()?;
        let cancel = match kind {
            b'N' => false,
            b'C' => true,
            _ => return None,
        };
        if digits.len() != 7 {
            return None;
        }
        let number = std::str::from_utf8(digits).ok()?;
        let order = u32::from_str_radix(number, 36).ok()?;
        Some(Id { order, cancel })
    }

    pub fn handle_bytes(
        &mut self,
        now: Nanos,
        mut bytes: &[u8],
        out: &mut Vec<u8>,
        mut on: impl FnMut(Heard),
    ) {
        self.last_heard = now;
        self.tested = false;
        while !bytes.is_empty() {
            let mut framer = std::mem::replace(&mut self.framer, Framer::new(0));
            let mut index = std::mem::take(&mut self.index);
            let taken = framer.push(bytes);
            bytes = bytes.get(taken..).unwrap_or(&[]);
            while let Some(frame) = framer.next_frame() {
                let message = match frame {
                    Frame::Message(message) => index.parse(message).ok(),
                    Frame::Garbled => None,
                };
                match message {
                    Some(message) => self.take(now, &message, out, &mut on),
                    None => on(Heard::Stray),
                }
            }
            (self.framer, self.index) = (framer, index);
            if taken == 0 {
                on(Heard::Over);
                return;
            }
        }
    }

    /// One message, in or out of sequence.
    fn take(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        out: &mut Vec<u8>,
        on: &mut impl FnMut(Heard),
    ) {
        let (kind, number) = (message.msg_type(), message.seq_num().unwrap_or(0));
        if kind == b"4" {
            let next = message.get(tag::NEW_SEQ_NO.number).and_then(value::uint).unwrap_or(0);
            let next = u32::try_from(next).unwrap_or(0);
            // A gap fill counts in its place only.
            if number <= self.expected || !message.flag(tag::GAP_FILL_FLAG.number) {
                self.expected = self.expected.max(next);
                self.asked = None;
            }
            return;
        }
        if kind == b"A" && message.flag(tag::RESET_SEQ_NUM_FLAG.number) {
            self.expected = number;
        }
        if kind == b"A" && !self.logged_on {
            self.logged_on = true;
            on(Heard::LoggedIn);
        }
        if kind == b"5" && !self.logged_on {
            // Whatever its number: no session has begun.
            let text = message.get(tag::TEXT.number).unwrap_or(b"Logout without a reason");
            self.refusal = String::from_utf8_lossy(text).into_owned();
            return on(Heard::Refused { is_final: true });
        }
        if number < self.expected {
            return;
        }
        if number > self.expected {
            if self.asked != Some(self.expected) {
                let from = self.expected;
                self.asked = Some(from);
                self.message(now, b"2", None, out, |writer| {
                    writer.uint(tag::BEGIN_SEQ_NO, u64::from(from));
                    writer.uint(tag::END_SEQ_NO, 0);
                });
            }
            // It comes again, in its place; a goodbye does not.
            if kind == b"5" {
                on(Heard::Over);
            }
            return;
        }
        self.expected += 1;
        match kind {
            b"1" => {
                let id = message.get(tag::TEST_REQ_ID.number).unwrap_or(b"?").to_vec();
                self.message(now, b"0", None, out, |writer| writer.foreign(tag::TEST_REQ_ID, &id));
            }
            b"2" => {
                let from = message.get(tag::BEGIN_SEQ_NO.number).and_then(value::uint);
                let from = from.and_then(|from| u32::try_from(from).ok()).unwrap_or(1);
                let next = u64::from(self.next_out);
                self.message(now, b"4", Some(from), out, |writer| {
                    writer.flag(tag::GAP_FILL_FLAG, true);
                    writer.uint(tag::NEW_SEQ_NO, next);
                });
            }
            b"5" => {
                if !self.leaving {
                    self.message(now, b"5", None, out, |_| {});
                }
                on(Heard::Over);
            }
            b"0" | b"A" => {}
            _ => {
                if let Some(heard) = self.answer(message) {
                    on(heard);
                }
            }
        }
    }

    /// Meaning of an application message, or of a Reject, for our requests.
    fn answer(&self, message: &Message<'_>) -> Option<Heard> {
        let number = |tag: tag::Tag| message.get(tag.number).and_then(value::uint).unwrap_or(0);
        let reason = |tag: tag::Tag| u16::try_from(number(tag)).unwrap_or(u16::MAX);
        let id = |tag: tag::Tag| message.get(tag.number).and_then(|t| FixDoor::read(&self.run, t));
        let refused = |id: Id, reason: u16| {
            let answer = if id.cancel { Answer::CancelRejected } else { Answer::Rejected(reason) };
            Heard::Answer { order: id.order, answer }
        };
        match message.msg_type() {
            b"8" => execution(message, id(tag::CL_ORD_ID)?, reason(tag::ORD_REJ_REASON)),
            b"9" => Some(refused(id(tag::CL_ORD_ID)?, reason(tag::CXL_REJ_REASON))),
            b"j" => {
                let why = BUSINESS_REJECT.saturating_add(reason(tag::BUSINESS_REJECT_REASON));
                Some(refused(id(tag::BUSINESS_REJECT_REF_ID)?, why))
            }
            b"3" => {
                let of = number(tag::REF_SEQ_NUM);
                let known = self.recent.iter().find(|(number, _)| u64::from(*number) == of);
                let why = SESSION_REJECT.saturating_add(reason(tag::SESSION_REJECT_REASON));
                Some(known.map_or(Heard::Stray, |(_, id)| refused(*id, why)))
            }
            _ => Some(Heard::Stray),
        }
    }

    pub fn handle_timeout(&mut self, now: Nanos, out: &mut Vec<u8>) -> bool {
        if !self.logged_on {
            return true;
        }
        if now.since(self.last_heard) >= DEAD_NS {
            return false;
        }
        if now.since(self.last_heard) >= ASK_NS && !self.tested {
            self.tested = true;
            self.message(now, b"1", None, out, |writer| writer.text(tag::TEST_REQ_ID, b"TEST"));
        }
        if now.since(self.last_sent) >= HEARTBEAT_S * Nanos::SECOND {
            self.message(now, b"0", None, out, |_| {});
        }
        true
    }

    pub fn next_timeout(&self) -> Nanos {
        if !self.logged_on {
            return Nanos::NEVER;
        }
        let patience = if self.tested { DEAD_NS } else { ASK_NS };
        let beat = self.last_sent.after(HEARTBEAT_S * Nanos::SECOND);
        beat.min(self.last_heard.after(patience))
    }
}

/// Meaning of an ExecutionReport for the request `id`.
fn execution(message: &Message<'_>, id: Id, reason: u16) -> Option<Heard> {
    let order = id.order;
    let answer = match message.get(tag::EXEC_TYPE.number)? {
        b"0" => Answer::Accepted,
        b"5" => Answer::Replaced,
        b"8" => Answer::Rejected(reason),
        b"4" if id.cancel => Answer::Canceled,
        b"C" => Answer::Expired,
        b"4" | b"3" => Answer::Removed,
        b"F" | b"1" | b"2" => {
            let lots = message.get(tag::LAST_QTY.number).and_then(value::uint).unwrap_or(0);
            return Some(Heard::Executed { order, lots });
        }
        _ => return None,
    };
    Some(Heard::Answer { order, answer })
}

/// A short text without allocation.
#[derive(Clone, Copy, Debug, Default)]
struct Text {
    bytes: [u8; 16],
    len: usize,
}

impl Text {
    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.len) {
            *slot = byte;
            self.len += 1;
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}
