//! The sessions of a stream, one a day, as one run of positions.
//!
//! A listener counts the messages of all its sessions on: its position of a message is the number in its
//! session and the messages of the sessions before it, as far as it heard of them. So a gap may go over a
//! roll like over anything else, and is asked for session by session.
//!
//! A session may be counted on only once its end is known, by the packet that says so: from a receiver,
//! which sends it between the two sessions, or from a retransmission server, which answers so when it is
//! asked for what comes after the last message. Until then what is heard of a later session is left, and
//! repaired afterwards. A session out of turn is believed with the second packet in a row that names it.

use std::collections::VecDeque;

use types::{later_session, sessions_later};
use wire::moldudp::Session;

/// Most sessions of which something may be missing at one time.
const OPEN_MAX: usize = 64;

/// A session that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    session: Session,
    /// Number of positions before the session's first message.
    offset: u64,
}

/// What the session name of a packet stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Named {
    /// A session that is counted: positions before its first message, and whether it is the last one.
    At {
        /// Number of positions before the session's first message.
        offset: u64,
        /// Whether the session is the last one known.
        last: bool,
    },
    /// A session that is later than all that are counted.
    Later,
    /// A session that is over and taken.
    Past,
    /// A session of another stream.
    Other,
}

/// The sessions from that of the next message on.
#[derive(Debug)]
pub(super) struct Sessions {
    /// The session that the listener began with.
    first: Session,
    known: VecDeque<Known>,
    /// Whether the last session is over.
    over: bool,
    /// The latest session that was heard of.
    heard: Session,
    /// A later session that only one packet was of so far, which is not believed yet.
    suspect: Option<Session>,
}

impl Sessions {
    pub fn new(session: Session) -> Sessions {
        let known = VecDeque::from([Known { session, offset: 0 }]);
        Sessions { first: session, known, over: false, heard: session, suspect: None }
    }

    fn front(&self) -> Known {
        *self.known.front().expect("there is always one")
    }

    fn back(&self) -> Known {
        *self.known.back().expect("there is always one")
    }

    /// The session of the next message, and the positions before its first.
    pub fn present(&self) -> (Session, u64) {
        let Known { session, offset } = self.front();
        (session, offset)
    }

    /// The last session that is counted.
    pub fn last(&self) -> Session {
        self.back().session
    }

    /// The latest session that was heard of.
    pub fn latest(&self) -> Session {
        self.heard
    }

    /// The session of a position, its number there, and one past the last position known to be of it.
    pub fn of(&self, position: u64, known: u64) -> (Session, u64, u64) {
        let place = self.known.partition_point(|known| known.offset < position).max(1) - 1;
        let of = self.known.get(place).copied().unwrap_or(self.back());
        let end = self.known.get(place + 1).map_or(known, |next| next.offset + 1);
        (of.session, position.saturating_sub(of.offset), end)
    }

    /// Positions before the first message of a session that is counted.
    pub fn offset_of(&self, session: Session) -> Option<u64> {
        let known = self.known.iter().rev().find(|known| known.session == session);
        known.map(|known| known.offset)
    }

    /// What the name of a packet's session says, once for each packet.
    pub fn named(&mut self, session: Session) -> Named {
        let place = self.known.iter().rposition(|known| known.session == session);
        if let Some(place) = place {
            let (offset, last) = (self.known[place].offset, place + 1 == self.known.len());
            return Named::At { offset, last };
        }
        if let Some(later) = sessions_later(self.back().session.0, session.0) {
            // What a damaged packet says is not said twice.
            let due = self.over && later == 1;
            if !due && self.suspect.replace(session) != Some(session) {
                return Named::Other;
            }
            if sessions_later(self.heard.0, session.0).is_some() {
                self.heard = session;
            }
            return Named::Later;
        }
        let since = sessions_later(self.first.0, session.0);
        match since.and(sessions_later(session.0, self.front().session.0)) {
            Some(_) => Named::Past,
            None => Named::Other,
        }
    }

    /// The last session has `end` as the position after its last message. What comes next, if it was
    /// heard of, is counted from there.
    pub fn end(&mut self, end: u64) {
        self.over = true;
        self.go_on(end);
    }

    /// Counts on with the next session, if the last is over and a later one was heard of.
    pub fn go_on(&mut self, end: u64) {
        let last = self.back().session;
        if self.over && self.heard != last && self.known.len() < OPEN_MAX {
            let session = Session(later_session(last.0, 1));
            self.known.push_back(Known { session, offset: end.saturating_sub(1) });
            self.over = false;
        }
    }

    /// Whether the last session is over.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether a later session was heard of than the last that is counted: that has ended, and where is
    /// not known.
    pub fn awaits_end(&self) -> bool {
        !self.over && self.heard != self.back().session
    }

    /// The position of the first message of the session after that of the next message.
    pub fn next_start(&self) -> Option<u64> {
        self.known.get(1).map(|second| second.offset + 1)
    }

    /// Everything before a position was taken: sessions before it are past.
    pub fn taken(&mut self, next: u64) {
        while self.known.get(1).is_some_and(|second| second.offset < next) {
            self.known.pop_front();
        }
    }

    /// Goes on in a session with the message `number`, at `position` or later, whatever comes before; the
    /// position.
    pub fn jump(&mut self, session: Session, number: u64, position: u64) -> u64 {
        if let Some(offset) = self.offset_of(session) {
            return offset + number;
        }
        let offset = position.saturating_sub(number).max(self.back().offset);
        self.known.clear();
        self.known.push_back(Known { session, offset });
        self.over = false;
        if sessions_later(self.heard.0, session.0).is_some() {
            self.heard = session;
        }
        offset + number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_go_on_over_sessions_of_which_the_end_is_known() {
        let name = |later| Session(later_session(*b"FAIRBELL01", later));
        let mut sessions = Sessions::new(name(0));
        assert_eq!(sessions.named(name(0)), Named::At { offset: 0, last: true });
        assert_eq!(sessions.named(Session(*b"FAIRBELL02")), Named::Other);
        assert_eq!(sessions.named(name(2)), Named::Other, "once is nothing");
        assert!(!sessions.awaits_end());
        assert_eq!(sessions.named(name(2)), Named::Later);
        assert!(sessions.awaits_end());
        sessions.end(11);
        // Nothing is known of the end of the second one.
        assert_eq!(sessions.named(name(1)), Named::At { offset: 10, last: true });
        assert!(sessions.awaits_end() && !sessions.is_over());
        assert_eq!(sessions.of(10, 11), (name(0), 10, 11));
        assert_eq!(sessions.of(11, 13), (name(1), 1, 13));
        sessions.end(11);
        assert_eq!(sessions.named(name(2)), Named::At { offset: 10, last: true });
        assert!(!sessions.awaits_end());
        sessions.taken(10);
        assert_eq!(sessions.present(), (name(0), 0));
        sessions.taken(11);
        assert_eq!(sessions.present(), (name(2), 10));
        assert_eq!(sessions.named(name(0)), Named::Past);
        assert_eq!(sessions.jump(name(7), 5, 90), 90);
        assert_eq!((sessions.present(), sessions.latest()), ((name(7), 85), name(7)));
        assert_eq!(sessions.jump(name(7), 9, 90), 94);
    }
}
