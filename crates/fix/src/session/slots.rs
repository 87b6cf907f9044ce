//! Numbers given by an account's stream: MsgSeqNum is the position there, so that any gateway
//! knows which number every message had (corner 2).
//!
//! A record of the stream is an application message and has its number. Any other message (session
//! messages, answers to questions, refusals) waits here until a slot asked for it comes back with
//! the stream; a slot nobody here waits for is one of an earlier gateway's, and gap-filled. Nothing
//! goes out before the answer to the Logon has its number. Bounded by the caller, who closes a
//! session that makes too many messages wait.
//!
//! Answers and refusals are in no stream: those that had or asked for a slot here are kept beyond the
//! end of the connection, by ticket, and come again when the stream is read again here.

use std::collections::VecDeque;

use types::Nanos;

use super::outbound::Outbound;
use super::store::{MsgType, Store};
use crate::encode::Writer;

/// A message that waits for its number.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    msg_type: MsgType,
    body: Vec<u8>,
    /// Whether it is an application message, which is kept for resends.
    keep: bool,
    /// Whether numbers begin at 1 with this message.
    reset: bool,
    /// Time at which the message was written and began to wait.
    at: Nanos,
    /// Ticket under which a slot was asked for; `None`: not asked yet.
    asked: Option<u64>,
    /// Mark under which the body is written anew; `None`: it is not.
    mark: Option<u64>,
}

/// Answers of a session that are kept beyond its connections, and bytes of their bodies.
pub(super) const ANSWERS_MAX: usize = 1_024;
pub(super) const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Messages that wait for numbers, and messages whose numbers wait for the end of a resend.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    waiting: VecDeque<Waiting>,
    pub(super) granted: VecDeque<(u32, Waiting)>,
    /// Whether numbers begin again with the next message.
    pub(super) reset_next: bool,
    /// Number that the Logon expects next: from there on what lies below the number of its answer is
    /// resent.
    pub(super) resend_from: Option<u32>,
    /// Empty buffers for bodies, to be used again.
    spare: Vec<Vec<u8>>,
}

/// Bytes reserved for a body; most need fewer.
const BODY: usize = 256;
/// Most empty buffers that are kept.
const SPARE_MAX: usize = 64;

impl Slots {
    pub(super) fn clear(&mut self) {
        *self = Slots::default();
    }

    fn recycle(&mut self, waiting: Waiting) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(waiting.body);
        }
    }
}

/// What became of a slot of the account's stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// The slot's number went to the first message that waits.
    Used,
    /// The slot's number belongs to no message that waits here.
    Passed,
    /// Numbers should have begun again and have not, or the other way round: the session can't
    /// go on.
    Broken,
}

impl<S: Store> Outbound<S> {
    /// From now on an account's stream gives the numbers.
    pub fn number_by_stream(&mut self) {
        self.slots = Some(Slots::default());
    }

    /// The next waiting message that no slot was asked for counts as asked for now, under a ticket of
    /// the caller's, larger than those before it; whether numbers are to begin again with it.
    pub fn ask_slot(&mut self, ticket: u64) -> Option<bool> {
        let slots = self.slots.as_mut()?;
        let next = slots.waiting.iter_mut().find(|waiting| waiting.asked.is_none())?;
        next.asked = Some(ticket);
        Some(next.reset)
    }

    /// Whether [`Outbound::ask_slot`] has a slot waiting.
    pub fn is_asking(&self) -> bool {
        let slots = self.slots.as_ref();
        slots.is_some_and(|slots| slots.waiting.iter().any(|waiting| waiting.asked.is_none()))
    }

    /// Drops the waiting messages for which no slot was asked; they are not sent.
    pub fn drop_unasked(&mut self) {
        if let Some(slots) = &mut self.slots {
            slots.waiting.retain(|waiting| waiting.asked.is_some());
        }
    }

    /// Whether the first waiting message is the one for which a slot was asked under this ticket.
    pub fn awaits(&self, ticket: u64) -> bool {
        let first = self.slots.as_ref().and_then(|slots| slots.waiting.front());
        first.is_some_and(|first| first.asked == Some(ticket))
    }

    /// Drops the message whose slot was asked for under this ticket; it is not sent.
    pub fn drop_asked(&mut self, ticket: u64) {
        if let Some(slots) = &mut self.slots {
            slots.waiting.retain(|waiting| waiting.asked != Some(ticket));
        }
    }

    /// Ends a connection: drops what waits. Application messages whose slots were asked for are kept
    /// in `answers` until the slots come.
    pub(super) fn end_slots(&mut self) {
        let Some(slots) = &mut self.slots else { return };
        for waiting in slots.waiting.iter().filter(|waiting| waiting.keep) {
            if let Some(ticket) = waiting.asked {
                self.answers.push(ticket, waiting.at, waiting.msg_type, &waiting.body);
            }
        }
        slots.clear();
    }

    /// Number of messages that wait for a number, or have one and have not left.
    pub fn waiting(&self) -> usize {
        self.slots.as_ref().map_or(0, |slots| slots.waiting.len() + slots.granted.len())
    }

    /// Makes a message wait for its number.
    pub(super) fn wait(
        &mut self,
        now: Nanos,
        msg_type: MsgType,
        keep: bool,
        build: impl FnOnce(&mut Writer<'_>),
    ) {
        let Some(slots) = &mut self.slots else { return };
        let mut body = slots.spare.pop().unwrap_or_else(|| Vec::with_capacity(BODY));
        body.clear();
        build(&mut Writer::fields(&mut body, &mut self.pen));
        let reset = std::mem::take(&mut slots.reset_next);
        let (asked, mark) = (None, None);
        slots.waiting.push_back(Waiting { msg_type, body, keep, reset, at: now, asked, mark });
        self.last_sent = now;
    }

    /// Marks the message that was written last, for [`Outbound::revise`]; whether it waits.
    pub(super) fn mark(&mut self, mark: u64) -> bool {
        let last = self.slots.as_mut().and_then(|slots| slots.waiting.back_mut());
        let Some(last) = last else { return false };
        last.mark = Some(mark);
        true
    }

    /// Mark of the first waiting message that has one.
    pub(crate) fn first_marked(&self) -> Option<u64> {
        self.slots.as_ref()?.waiting.iter().find_map(|waiting| waiting.mark)
    }

    /// Writes the body of the message with this mark anew, if it still waits for its number.
    pub(crate) fn revise(&mut self, mark: u64, build: impl FnOnce(&mut Writer<'_>)) {
        let Some(slots) = &mut self.slots else { return };
        if let Some(waiting) = slots.waiting.iter_mut().find(|one| one.mark == Some(mark)) {
            waiting.body.clear();
            build(&mut Writer::fields(&mut waiting.body, &mut self.pen));
        }
    }

    /// The stream has come to a slot, asked for under a ticket, here or elsewhere; `reset`: numbers
    /// begin again with it.
    pub fn slot(&mut self, now: Nanos, ticket: u64, reset: bool, out: &mut Vec<u8>) -> Slot {
        let ours = self.awaits(ticket);
        let waiting = self.slots.as_mut().filter(|_| ours).and_then(|s| s.waiting.pop_front());
        if reset {
            self.store.reset();
            self.job = None;
        }
        let Some(waiting) = waiting else {
            if self.connected && reset {
                self.store.push_admin();
                return Slot::Broken;
            }
            self.again(now, ticket, out);
            return Slot::Passed;
        };
        let seq = self.store.next();
        match waiting.keep {
            true => {
                self.store.push_application(now, waiting.msg_type, &waiting.body);
                self.answers.push(ticket, now, waiting.msg_type, &waiting.body);
            }
            false => self.store.push_admin(),
        }
        if waiting.reset != reset {
            return Slot::Broken;
        }
        let logon = waiting.msg_type.as_bytes() == b"A";
        if self.job.is_some() && self.connected {
            if let Some(slots) = &mut self.slots {
                slots.granted.push_back((seq, waiting));
            }
        } else {
            self.write(now, seq, &waiting, out);
            self.connected |= logon;
            if let Some(slots) = &mut self.slots {
                slots.recycle(waiting);
            }
        }
        if logon {
            let from = self.slots.as_mut().and_then(|slots| slots.resend_from.take());
            // Records may have come since the Logon was handled: only now is it known what is missed.
            if let Some(from) = from.filter(|&from| from < seq) {
                self.resend(from, 0);
            }
            self.pump(now, out);
        }
        Slot::Used
    }

    /// Sends the message of an earlier slot again if it is kept here; otherwise a gap fill covers
    /// it.
    fn again(&mut self, now: Nanos, ticket: u64, out: &mut Vec<u8>) {
        let mut body = std::mem::take(&mut self.scratch);
        body.clear();
        match self.answers.read(ticket, &mut body) {
            None => self.pass(now, out),
            Some((msg_type, at)) => {
                let seq = self.store.next();
                self.store.push_application(at, msg_type, &body);
                if self.connected && self.job.is_none() {
                    self.whole(now, msg_type.as_bytes(), seq, None, out, |writer| {
                        writer.raw(&body);
                    });
                }
            }
        }
        self.scratch = body;
    }

    fn write(&mut self, now: Nanos, seq: u32, waiting: &Waiting, out: &mut Vec<u8>) {
        let msg_type = waiting.msg_type.as_bytes();
        self.whole(now, msg_type, seq, None, out, |writer| writer.raw(&waiting.body));
    }

    /// Whether the message with this number waits for the end of a resend.
    pub(super) fn is_granted(&self, seq: u32) -> bool {
        let granted = self.slots.as_ref().and_then(|slots| slots.granted.front());
        granted.is_some_and(|(number, _)| *number == seq)
    }

    pub(super) fn send_granted(&mut self, now: Nanos, out: &mut Vec<u8>) {
        let granted = self.slots.as_mut().and_then(|slots| slots.granted.pop_front());
        if let Some((seq, waiting)) = granted {
            self.write(now, seq, &waiting, out);
            if let Some(slots) = &mut self.slots {
                slots.recycle(waiting);
            }
        }
    }

    /// Resends what the counterparty, which expects the number `from` next, misses below the answer to
    /// its Logon; where a stream gives the numbers, once that answer has its own.
    pub(super) fn resend_after_logon(&mut self, now: Nanos, from: u32, out: &mut Vec<u8>) {
        match &mut self.slots {
            Some(slots) => slots.resend_from = Some(from),
            // The answer has just had the last number.
            None if from < self.store.next().saturating_sub(1) => {
                self.resend(from, 0);
                self.pump(now, out);
            }
            None => {}
        }
    }
}
