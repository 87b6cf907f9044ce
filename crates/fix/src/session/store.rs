//! What has been sent, for resends.
//!
//! Only the bodies of application messages are kept: session messages are never sent again, a gap
//! fill covers them. A store may be a window on something larger, such as an account's replicated
//! stream, and then answer [`Stored::Pending`] until it has what is asked for (corner 2).

use std::collections::VecDeque;

use types::Nanos;

/// MsgType(35), of one to three characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MsgType {
    bytes: [u8; 3],
    length: u8,
}

impl MsgType {
    /// The MsgType in `text`; `None` when it is empty or longer than three characters.
    pub const fn of(text: &[u8]) -> Option<MsgType> {
        let bytes = match *text {
            [a] => [a, 0, 0],
            [a, b] => [a, b, 0],
            [a, b, c] => [a, b, c],
            _ => return None,
        };
        Some(MsgType { bytes, length: text.len() as u8 })
    }

    /// The characters, as in a message.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }
}

/// What a store has under a MsgSeqNum(34).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// No message to be sent again: a session message, or one that is not kept any more.
    Nothing,
    /// An application message; its body has been appended to the buffer given.
    Application {
        /// MsgType(35) of the message.
        msg_type: MsgType,
        /// Time at which the message was first sent.
        at: Nanos,
    },
    /// The store does not know yet; ask again later.
    Pending,
}

/// Keeps what a session sends, by MsgSeqNum(34): dense, from 1.
pub trait Store {
    /// MsgSeqNum(34) of the next message.
    fn next(&self) -> u32;
    /// Gives the next number to a session message, of which nothing is kept.
    fn push_admin(&mut self);
    /// An application message takes the next number. `body`: its fields between SendingTime and
    /// CheckSum.
    fn push_application(&mut self, at: Nanos, msg_type: MsgType, body: &[u8]);
    /// Looks the message `seq` up, and appends its body if there is one.
    fn read(&mut self, seq: u32, body: &mut Vec<u8>) -> Stored;
    /// Begins the numbers at 1 again and drops everything.
    fn reset(&mut self);
    /// Goes on with the number `next`; the numbers in between are gap-filled.
    fn skip_to(&mut self, next: u32);
    /// The session is about to be used: takes the memory it may need, so that it needs none later.
    fn prepare(&mut self) {}
    /// The session is not used any more: as [`Store::reset`], and gives its memory back.
    fn release(&mut self) {
        self.reset();
    }
}

/// The last bodies of messages within fixed bounds, by keys that ascend.
#[derive(Clone, Debug)]
pub(super) struct Bodies {
    kept: VecDeque<Kept>,
    bytes: VecDeque<u8>,
    /// Number of bytes that have been dropped from the front.
    gone: u64,
    messages_max: usize,
    bytes_max: usize,
    /// Number of bodies that were dropped, or not kept at all.
    dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    key: u64,
    msg_type: MsgType,
    at: Nanos,
    /// Offset of the body, counted from the first byte ever kept.
    start: u64,
    length: usize,
}

impl Bodies {
    pub(super) fn new(messages_max: usize, bytes_max: usize) -> Bodies {
        let (kept, bytes) = (VecDeque::new(), VecDeque::new());
        Bodies { kept, bytes, gone: 0, messages_max, bytes_max, dropped: 0 }
    }

    /// Keeps a body whose key is larger than all before it; the oldest ones are dropped to make
    /// room.
    pub(super) fn push(&mut self, key: u64, at: Nanos, msg_type: MsgType, body: &[u8]) {
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
        self.kept.push_back(Kept { key, msg_type, at, start, length: body.len() });
        self.bytes.extend(body);
    }

    /// Type and time of the message with this key, whose body is appended to `body`; `None`: not
    /// kept.
    pub(super) fn read(&self, key: u64, body: &mut Vec<u8>) -> Option<(MsgType, Nanos)> {
        let at = self.kept.binary_search_by_key(&key, |kept| kept.key).ok()?;
        let kept = self.kept.get(at)?;
        let start = (kept.start - self.gone) as usize;
        body.extend(self.bytes.range(start..start + kept.length));
        Some((kept.msg_type, kept.at))
    }

    fn clear(&mut self) {
        self.kept.clear();
        self.bytes.clear();
    }

    /// Reserves the memory of both bounds at once; systems give it out only when it is written to.
    pub(super) fn prepare(&mut self) {
        self.kept.reserve(self.messages_max.saturating_sub(self.kept.len()));
        self.bytes.reserve(self.bytes_max.saturating_sub(self.bytes.len()));
    }
}

/// The last messages of a session in memory, within fixed bounds; what is older is gap-filled.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    next: u32,
    bodies: Bodies,
}

impl MemoryStore {
    /// A store that keeps at most `messages_max` messages and `bytes_max` bytes.
    pub fn new(messages_max: usize, bytes_max: usize) -> MemoryStore {
        MemoryStore { next: 1, bodies: Bodies::new(messages_max, bytes_max) }
    }

    /// Number of bytes kept, at most `bytes_max`.
    pub fn held(&self) -> usize {
        self.bodies.bytes.len()
    }

    /// Number of messages whose bodies were dropped or never kept, so that a resend cannot bring them.
    pub fn dropped(&self) -> u64 {
        self.bodies.dropped
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
        self.bodies.push(u64::from(self.next), at, msg_type, body);
        self.next = self.next.saturating_add(1);
    }

    fn read(&mut self, seq: u32, body: &mut Vec<u8>) -> Stored {
        match self.bodies.read(u64::from(seq), body) {
            Some((msg_type, at)) => Stored::Application { msg_type, at },
            None => Stored::Nothing,
        }
    }

    fn reset(&mut self) {
        self.next = 1;
        self.bodies.clear();
    }

    fn skip_to(&mut self, next: u32) {
        self.next = self.next.max(next);
    }

    fn prepare(&mut self) {
        self.bodies.prepare();
    }

    fn release(&mut self) {
        self.next = 1;
        let dropped = self.bodies.dropped;
        let bodies = Bodies::new(self.bodies.messages_max, self.bodies.bytes_max);
        self.bodies = Bodies { dropped, ..bodies };
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
        assert_eq!((store.next(), store.dropped(), store.held()), (11, 3, 8));
        let mut body = Vec::new();
        assert_eq!(store.read(6, &mut body), Stored::Nothing);
        let found = Stored::Application { msg_type: kind, at: Nanos(4) };
        assert_eq!(store.read(10, &mut body), found);
        assert_eq!(body, [4; 4]);
        assert_eq!(store.read(9, &mut body), Stored::Nothing);
        store.push_application(Nanos(9), kind, &[0; 11]);
        assert_eq!((store.next(), store.dropped()), (12, 4));
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
