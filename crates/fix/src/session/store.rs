//! What has been sent, for resends.
//!
//! Only the bodies of application messages are kept: session messages are never sent again, a gap
//! fill covers them. A store may be a window on something larger, such as an account's replicated
//! stream, and then answer [`Stored::Pending`] until it has what is asked for (corner 2).

use std::collections::VecDeque;

use types::Nanos;

/// MsgType(35) of at most three characters, as all are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MsgType {
    bytes: [u8; 3],
    length: u8,
}

impl MsgType {
    /// `None`: empty or too long.
    pub const fn of(text: &[u8]) -> Option<MsgType> {
        let bytes = match *text {
            [a] => [a, 0, 0],
            [a, b] => [a, b, 0],
            [a, b, c] => [a, b, c],
            _ => return None,
        };
        Some(MsgType { bytes, length: text.len() as u8 })
    }

    /// As it stands on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }
}

/// What there is under a MsgSeqNum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// Nothing to be sent again.
    Nothing,
    /// An application message; its body has been appended to the buffer given.
    Application {
        /// Its type.
        msg_type: MsgType,
        /// When it was sent first.
        at: Nanos,
    },
    /// To be asked for again later.
    Pending,
}

/// Keeps what a session sends. Numbers are dense from 1.
pub trait Store {
    /// MsgSeqNum of the next message.
    fn next(&self) -> u32;
    /// A session message takes the next number.
    fn push_admin(&mut self);
    /// An application message takes the next number. `body`: its fields between SendingTime and
    /// CheckSum.
    fn push_application(&mut self, at: Nanos, msg_type: MsgType, body: &[u8]);
    /// Looks `seq` up; appends the body, if there is one.
    fn read(&mut self, seq: u32, body: &mut Vec<u8>) -> Stored;
    /// Begins again at 1, with nothing kept.
    fn reset(&mut self);
    /// Goes on at `next`; what is left out is gap-filled.
    fn skip_to(&mut self, next: u32);
    /// The session is about to be used: takes the memory it may need, so that it needs none later.
    fn prepare(&mut self) {}
    /// The session is not used any more: as [`Store::reset`], and gives its memory back.
    fn release(&mut self) {
        self.reset();
    }
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    seq: u32,
    msg_type: MsgType,
    at: Nanos,
    /// Where its body begins, counted from the first byte ever kept.
    start: u64,
    length: usize,
}

/// The last messages of a session in memory, within fixed bounds; what is older is gap-filled.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    next: u32,
    kept: VecDeque<Kept>,
    bytes: VecDeque<u8>,
    /// Bytes that have left at the front.
    gone: u64,
    messages_max: usize,
    bytes_max: usize,
    /// Messages that a resend can no longer bring.
    pub dropped: u64,
}

impl MemoryStore {
    /// A store of at most so many messages and bytes.
    pub fn new(messages_max: usize, bytes_max: usize) -> MemoryStore {
        MemoryStore {
            next: 1,
            kept: VecDeque::new(),
            bytes: VecDeque::new(),
            gone: 0,
            messages_max,
            bytes_max,
            dropped: 0,
        }
    }

    /// Bytes kept.
    pub fn held(&self) -> usize {
        self.bytes.len()
    }
}

impl Store for MemoryStore {
    fn next(&self) -> u32 {
        self.next
    }

    fn push_admin(&mut self) {
        self.next = self.next.saturating_add(1);
    }

    fn push_application(&mut self, at: Nanos, msg_type: MsgType, body: &[u8]) {
        let seq = self.next;
        self.next = self.next.saturating_add(1);
        if body.len() > self.bytes_max || self.messages_max == 0 {
            self.dropped += 1;
            return;
        }
        while self.kept.len() >= self.messages_max || self.bytes.len() + body.len() > self.bytes_max
        {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes.drain(..oldest.length);
            self.gone += oldest.length as u64;
            self.dropped += 1;
        }
        let start = self.gone + self.bytes.len() as u64;
        self.kept.push_back(Kept { seq, msg_type, at, start, length: body.len() });
        self.bytes.extend(body);
    }

    fn read(&mut self, seq: u32, body: &mut Vec<u8>) -> Stored {
        let Ok(at) = self.kept.binary_search_by_key(&seq, |kept| kept.seq) else {
            return Stored::Nothing;
        };
        let Some(kept) = self.kept.get(at) else { return Stored::Nothing };
        let start = (kept.start - self.gone) as usize;
        body.extend(self.bytes.range(start..start + kept.length));
        Stored::Application { msg_type: kept.msg_type, at: kept.at }
    }

    fn reset(&mut self) {
        self.next = 1;
        self.kept.clear();
        self.bytes.clear();
    }

    fn skip_to(&mut self, next: u32) {
        self.next = self.next.max(next);
    }

    /// Both bounds at once: systems give memory out when it is written to.
    fn prepare(&mut self) {
        self.kept.reserve(self.messages_max.saturating_sub(self.kept.len()));
        self.bytes.reserve(self.bytes_max.saturating_sub(self.bytes.len()));
    }

    fn release(&mut self) {
        self.reset();
        self.kept = VecDeque::new();
        self.bytes = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_within_both_bounds() {
        let mut store = MemoryStore::new(3, 10);
        let kind = MsgType::of(b"8").unwrap();
        for number in 0..5u8 {
            store.push_admin();
            store.push_application(Nanos(u64::from(number)), kind, &[number; 4]);
        }
        assert_eq!((store.next(), store.dropped, store.held()), (11, 3, 8));
        let mut body = Vec::new();
        assert_eq!(store.read(6, &mut body), Stored::Nothing);
        let found = Stored::Application { msg_type: kind, at: Nanos(4) };
        assert_eq!(store.read(10, &mut body), found);
        assert_eq!(body, [4; 4]);
        assert_eq!(store.read(9, &mut body), Stored::Nothing);
        store.push_application(Nanos(9), kind, &[0; 11]);
        assert_eq!((store.next(), store.dropped), (12, 4));
        store.reset();
        assert_eq!((store.next(), store.held()), (1, 0));
    }

    #[test]
    fn message_types_have_one_to_three_characters() {
        assert_eq!(MsgType::of(b"AE").unwrap().as_bytes(), b"AE");
        assert_eq!(MsgType::of(b""), None);
        assert_eq!(MsgType::of(b"ABCD"), None);
    }
}
