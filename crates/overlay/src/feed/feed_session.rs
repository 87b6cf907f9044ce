//! The day's session of a stream, inside the tree and outside.
//!
//! Inside the tree a stream is one sequence of messages, numbered from 1 for as long as its log lives:
//! watermarks, repairs and deadlines go over a roll of the day without a word. What the public hears
//! are sessions, one a day, each numbered from 1. A packet is of one session. In the tree it carries, in
//! the ten bytes of the session's name, which session that is and how many messages came before it, so
//! that whoever hands it on needs to have heard nothing else: the first session as its name, later ones
//! as a count above 0x8000 (2 bytes, which no name begins with), a check of the stream's name (2) and
//! the messages before it (6), big-endian.

use crate::feed::mold::{Header, Session};
use types::{FEED_SESSIONS, later_session};

/// Set in the first byte of what is no name.
const LATER: u8 = 0x80;
/// Messages before a session are fewer than this.
const BASE_MAX: u64 = 1 << 48;

/// One session of a stream: a trading day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeedSession {
    /// Name of the stream's first session.
    first: Session,
    /// Number of sessions before it in the stream.
    count: u16,
    /// Number of messages before its first message, in all earlier sessions.
    base: u64,
}

/// What tells streams apart in a packet of a later session.
fn check(name: &Session) -> u16 {
    name.iter().fold(0x2F1D, |sum: u16, byte| sum.rotate_left(5) ^ u16::from(*byte))
}

impl FeedSession {
    /// The first session of a stream.
    pub fn first(name: Session) -> FeedSession {
        FeedSession { first: name, count: 0, base: 0 }
    }

    /// A later session of the stream; `None` when the numbers are out of range.
    pub fn at(name: Session, count: u16, base: u64) -> Option<FeedSession> {
        let sound = count < 0x8000 && base < BASE_MAX && (count > 0 || base == 0);
        sound.then_some(FeedSession { first: name, count, base })
    }

    /// The one behind it, after `base` messages of the stream in all.
    pub fn next(self, base: u64) -> FeedSession {
        assert!(base >= self.base && base < BASE_MAX, "messages of a stream are counted upwards");
        // Names come again after so many.
        let count = if self.count + 1 >= 0x7FFF { 0x7FFF % FEED_SESSIONS } else { self.count + 1 };
        FeedSession { first: self.first, count: count.max(1), base }
    }

    /// Name of the stream's first session.
    pub(crate) fn at_first(&self) -> Session {
        self.first
    }

    /// Number of sessions before this one in the stream.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Number of messages before its first message, in all earlier sessions.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Name of the session in the public's MoldUDP64 packets.
    pub fn name(&self) -> Session {
        later_session(self.first, self.count % FEED_SESSIONS)
    }

    /// How packets in the tree call it.
    pub fn inside(&self) -> Session {
        if self.count == 0 {
            return self.first;
        }
        let mut bytes = [0; 10];
        let [high, low] = self.count.to_be_bytes();
        bytes[..2].copy_from_slice(&[high | LATER, low]);
        bytes[2..4].copy_from_slice(&check(&self.first).to_be_bytes());
        bytes[4..].copy_from_slice(&self.base.to_be_bytes()[2..]);
        bytes
    }

    /// The session of a packet in the tree of the stream whose first session has this name; `None` for
    /// one of another stream.
    pub fn of(name: &Session, inside: &Session) -> Option<FeedSession> {
        if inside == name {
            return Some(FeedSession::first(*name));
        }
        let [high, low, a, b, base @ ..] = *inside;
        if high & LATER == 0 || u16::from_be_bytes([a, b]) != check(name) {
            return None;
        }
        let count = u16::from_be_bytes([high & !LATER, low]);
        let base = base.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        FeedSession::at(*name, count, base).filter(|_| count > 0)
    }

    /// A header as the public reads it, of one in the tree; `None` when it names nothing of this session.
    pub fn public(&self, header: Header) -> Option<Header> {
        let seq = header.seq.checked_sub(self.base).filter(|seq| *seq > 0)?;
        Some(Header { session: self.name(), seq, ..header })
    }

    /// Whether a packet begins in it, as far as its numbers say.
    pub fn holds(&self, header: &Header) -> bool {
        header.seq > self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_found_in_what_its_packets_carry() {
        let name = *b"FAIRBELL01";
        let first = FeedSession::first(name);
        assert_eq!(first.inside(), name);
        let mut session = first;
        for day in 1..2_000u64 {
            session = session.next(day * 1_000_003);
            let inside = session.inside();
            assert_eq!(FeedSession::of(&name, &inside), Some(session));
            assert_eq!(FeedSession::of(b"FAIRBELL02", &inside), None);
            let header = Header { session: inside, seq: session.base() + 7, count: 3 };
            let public = session.public(header).expect("of this session");
            assert_eq!((public.seq, public.count), (7, 3));
            assert_eq!(public.session, later_session(name, (day % 1_296) as u16));
            assert_eq!(session.public(Header { seq: session.base(), ..header }), None);
        }
        for wrong in [[0xFF; 10], [0; 10], [0x80; 10]] {
            assert_eq!(FeedSession::of(&name, &wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn counts_never_run_over() {
        let mut session = FeedSession::first(*b"FAIRBELL01");
        for day in 0..70_000 {
            let next = session.next(day);
            assert_eq!(next.name(), later_session(session.name(), 1), "day {day}");
            assert!(FeedSession::of(b"FAIRBELL01", &next.inside()) == Some(next));
            session = next;
        }
    }
}
