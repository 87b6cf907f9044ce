//! Answers to anybody: by the numbers of the day's sessions, within what their address may get.

use std::collections::VecDeque;

use types::{Channel, Nanos, Outbox, Packer, Peer, Unpacker, limits::MOLD_PACKET_MAX};

use super::RetransmissionStore;
use crate::feed::answers::{Allowance, PublicRequest};
use crate::feed::feed_session::FeedSession;
use crate::feed::mold::{self, Header, Packet, Session};

/// Sessions whose messages can be asked for by number.
const SESSIONS_MAX: usize = 1_024;

impl RetransmissionStore {
    /// Begins another session: messages kept from now on belong to it.
    pub fn begin_session(&mut self, session: FeedSession) {
        if self.sessions.len() >= SESSIONS_MAX {
            self.sessions.pop_front();
        }
        self.sessions.push_back(session);
    }

    /// Writes down where the sessions begin.
    pub(crate) fn pack_sessions(&self, to: &mut Packer<'_>) {
        to.count(self.sessions.len());
        for session in &self.sessions {
            to.u32(session.count().into());
            to.u64(session.base());
        }
    }

    /// Restores packed sessions, and returns the present one.
    pub(crate) fn unpack_sessions(&mut self, from: &mut Unpacker<'_>) -> Option<FeedSession> {
        let name = self.sessions.front()?.at_first();
        let count = from.count(12)?;
        if !(1..=SESSIONS_MAX).contains(&count) {
            return None;
        }
        let mut sessions: VecDeque<FeedSession> = VecDeque::with_capacity(count);
        for _ in 0..count {
            let of = u16::try_from(from.u32()?).ok()?;
            let session = FeedSession::at(name, of, from.u64()?)?;
            if sessions.back().is_some_and(|last| {
                session.base() < last.base() || last.next(session.base()) != session
            }) {
                return None;
            }
            sessions.push_back(session);
        }
        self.sessions = sessions;
        self.sessions.back().copied()
    }

    /// The session that the public calls by this name, and one past the stream's last message of it.
    fn session_of(&self, name: &Session) -> Option<(FeedSession, u64)> {
        let place = self.sessions.iter().rposition(|session| session.name() == *name)?;
        let session = *self.sessions.get(place)?;
        let end = self.sessions.get(place + 1).map_or(u64::MAX, |next| next.base() + 1);
        Some((session, end))
    }

    /// Answers a MoldUDP64 request of anybody (specification 1.0, "Request Packet"), as far as it
    /// may be answered: see [`crate::answers`].
    pub fn handle_public_request(
        &mut self,
        now: Nanos,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let Some(request) = PublicRequest::read(bytes).filter(|request| {
            let session = self.session_of(&request.wanted.session);
            // Number 0 was taken as 1 as long as there was one session.
            let numbered = session.is_some_and(|(of, _)| of.base() == 0 || request.wanted.seq > 0);
            numbered && request.wanted.count > 0
        }) else {
            self.stats.refused += 1;
            return;
        };
        self.stats.public_requests += 1;
        let allowance = self.answers.judge(now, from, &request);
        if let Some(token) = allowance.token {
            let head = Header { count: 0, ..request.wanted }.bytes();
            let span = out.write(|buffer| {
                buffer.extend_from_slice(&head);
                buffer.extend_from_slice(&token);
            });
            out.datagram(Channel::FEED, from, span);
        }
        let (sent, needed) = self.answer(now, from, (request.wanted, &allowance), out);
        self.answers.spend(now, &allowance, sent, needed);
    }

    /// Bytes sent, and how many the shortest answer would take; none where there is nothing to say.
    fn answer(
        &mut self,
        now: Nanos,
        from: Peer,
        (wanted, allowance): (Header, &Allowance),
        out: &mut Outbox,
    ) -> (usize, usize) {
        let Some((session, end)) = self.session_of(&wanted.session) else { return (0, 0) };
        let number = session.base().saturating_add(wanted.seq);
        if number >= end {
            return self.answer_end(now, from, (session, end, allowance), out);
        }
        if let Some(oldest) = self.entries.front().filter(|oldest| number < oldest.seq) {
            self.stats.too_old += 1;
            // That it exists is no secret once it is public; before, nobody can be waiting for it.
            if !self.is_public(oldest, now) {
                return (0, 0);
            }
            if allowance.room < mold::HEADER_LEN {
                return (0, mold::HEADER_LEN);
            }
            // The first that there is of this session, or its end.
            let count = if oldest.seq < end { 0 } else { mold::END_OF_SESSION };
            let header = Header { session: wanted.session, seq: oldest.seq.min(end), count };
            return self.say(from, session.public(header), out);
        }
        let first = self.position(number);
        let Some(entry) = self.entries.get(first).filter(|entry| self.is_public(entry, now)) else {
            self.stats.too_early += 1;
            return (0, 0);
        };
        let skip = number.saturating_sub(entry.seq).min(u64::from(u16::MAX)) as u16;
        let blocks = Packet::parse(self.packet(entry)).and_then(|packet| packet.skip(skip));
        let block = blocks.and_then(mold::block).map_or(0, |(block, _)| block.len());
        let needed = mold::HEADER_LEN + block;
        if allowance.room < needed {
            return (0, needed);
        }
        let range = (first, number, end);
        let span = out.write(|buffer| self.repack(range, wanted, (now, allowance.room), buffer));
        out.datagram(Channel::FEED, from, span);
        self.stats.public_replies += 1;
        (out.bytes(span).len(), needed)
    }

    /// Sends a packet that is a header only; returns bytes sent and bytes needed.
    fn say(&self, to: Peer, header: Option<Header>, out: &mut Outbox) -> (usize, usize) {
        let Some(header) = header else { return (0, 0) };
        let span = out.store(&header.bytes());
        out.datagram(Channel::FEED, to, span);
        (mold::HEADER_LEN, mold::HEADER_LEN)
    }

    /// The session was over before the message that is asked for: says so, once the next one is public.
    fn answer_end(
        &mut self,
        now: Nanos,
        from: Peer,
        (session, end, allowance): (FeedSession, u64, &Allowance),
        out: &mut Outbox,
    ) -> (usize, usize) {
        let next = self.entries.get(self.position(end));
        if !next.is_some_and(|next| self.is_public(next, now)) {
            self.stats.too_early += 1;
            return (0, 0);
        }
        if allowance.room < mold::HEADER_LEN {
            return (0, mold::HEADER_LEN);
        }
        self.stats.public_replies += 1;
        let header = Header { session: session.inside(), seq: end, count: mold::END_OF_SESSION };
        self.say(from, session.public(header), out)
    }

    /// Appends one packet of the session of `request` with the messages from the stream's `number` on:
    /// at most `request.count`, at most `room` bytes, only public ones and none from `end` on.
    fn repack(
        &self,
        (first, number, end): (usize, u64, u64),
        request: Header,
        (now, room): (Nanos, usize),
        buffer: &mut Vec<u8>,
    ) {
        let start = buffer.len();
        buffer.extend_from_slice(&Header { count: 0, ..request }.bytes());
        let mut count = 0u16;
        'packets: for entry in self.entries.range(first..) {
            let Some(packet) = Packet::parse(self.packet(entry)) else { break };
            if entry.seq >= end || !self.is_public(entry, now) {
                break;
            }
            let skip = number.saturating_sub(entry.seq).min(u64::from(u16::MAX)) as u16;
            let mut blocks = packet.skip(skip).unwrap_or(&[]);
            while let Some((block, rest)) = mold::block(blocks) {
                let full = buffer.len() - start + block.len() > room.min(MOLD_PACKET_MAX);
                if full || count == request.count || count == mold::END_OF_SESSION - 1 {
                    break 'packets;
                }
                buffer.extend_from_slice(block);
                count += 1;
                blocks = rest;
            }
        }
        let header = Header { count, ..request }.bytes();
        buffer[start..start + mold::HEADER_LEN].copy_from_slice(&header);
    }
}

#[cfg(test)]
mod tests {
    use types::{Op, later_session};

    use super::*;
    use crate::feed::retransmission::StoreConfig;
    use crate::frame::DataBody;
    use crate::tree::topology::{Topology, Tree};

    const NAME: Session = *b"FAIRBELL01";

    fn store(datagrams: usize) -> RetransmissionStore {
        let topology = Topology::new(1, 1, 1).expect("a tree");
        let tree = Tree { topology, hedge: 0, dynamic: true, epoch: 1, stream: 0, round_ns: 1_000 };
        RetransmissionStore::new(tree, NAME, StoreConfig { datagrams, ..StoreConfig::default() })
    }

    /// Messages of four bytes each, which are their numbers in the stream.
    fn keep(store: &mut RetransmissionStore, session: FeedSession, seq: u64, count: u16) {
        let mut bytes = Header { session: session.inside(), seq, count }.bytes().to_vec();
        for number in seq..seq + u64::from(count) {
            bytes.extend_from_slice(&4u16.to_be_bytes());
            bytes.extend_from_slice(&(number as u32).to_be_bytes());
        }
        let body = DataBody {
            id: seq,
            t_sent: Nanos(1),
            deadline: Nanos(0),
            bound_ns: 0,
            stream: 0,
            hedge: 0,
            flags: 0,
        };
        store.keep(&body, &bytes);
    }

    /// Name, number and count of the answer, and the stream's numbers of its messages.
    fn asked(
        store: &mut RetransmissionStore,
        later: u16,
        seq: u64,
    ) -> Option<(Session, u64, u16, Vec<u32>)> {
        let mut out = Outbox::default();
        let session = later_session(NAME, later);
        let mut request = Header { session, seq, count: 50 }.bytes().to_vec();
        request.extend_from_slice(&[0; 500]);
        store.handle_public_request(
            Nanos(1 << 40),
            Peer::Addr(u64::from(later)),
            &request,
            &mut out,
        );
        let [Op::Datagram { bytes, .. }] = out.ops() else { return None };
        let bytes = out.bytes(*bytes);
        let (header, mut blocks) = Header::read(bytes)?;
        let mut numbers = Vec::new();
        while let Some((block, rest)) = mold::block(blocks) {
            numbers.push(u32::from_be_bytes(*block.last_chunk()?));
            blocks = rest;
        }
        Some((header.session, header.seq, header.count, numbers))
    }

    #[test]
    fn each_day_is_asked_for_by_its_own_numbers() {
        let mut store = store(100);
        let first = FeedSession::first(NAME);
        keep(&mut store, first, 1, 3);
        keep(&mut store, first, 4, 2);
        // Six messages beyond: none is there yet, and nothing says that the session ends.
        assert_eq!(asked(&mut store, 0, 6), None);
        let second = first.next(5);
        store.begin_session(second);
        assert_eq!(asked(&mut store, 0, 6), None, "the next one has no message yet");
        keep(&mut store, second, 6, 4);
        let name = |later| later_session(NAME, later);
        let end = mold::END_OF_SESSION;
        assert_eq!(asked(&mut store, 0, 2), Some((name(0), 2, 4, vec![2, 3, 4, 5])));
        for beyond in [6, 7, 1 << 62, u64::MAX] {
            assert_eq!(asked(&mut store, 0, beyond), Some((name(0), 6, end, vec![])), "{beyond}");
        }
        assert_eq!(asked(&mut store, 1, 1), Some((name(1), 1, 4, vec![6, 7, 8, 9])));
        assert_eq!(asked(&mut store, 1, 5), None);
        assert_eq!(asked(&mut store, 1, 0), None, "no message has this number");
        assert_eq!((asked(&mut store, 2, 1), store.stats().refused), (None, 2));
        // What was packed names the same sessions.
        let mut bytes = Vec::new();
        store.pack_sessions(&mut Packer::new(&mut bytes));
        let mut other = super::tests::store(100);
        assert_eq!(other.unpack_sessions(&mut Unpacker::new(&bytes)), Some(second));
        for short in 0..bytes.len() {
            let mut other = super::tests::store(100);
            assert_eq!(other.unpack_sessions(&mut Unpacker::new(&bytes[..short])), None);
        }
    }

    #[test]
    fn a_day_that_is_no_longer_kept_is_answered_by_its_end() {
        let mut store = store(2);
        let first = FeedSession::first(NAME);
        keep(&mut store, first, 1, 3);
        let second = first.next(3);
        store.begin_session(second);
        keep(&mut store, second, 4, 3);
        keep(&mut store, second, 7, 3);
        let name = |later| later_session(NAME, later);
        assert_eq!(asked(&mut store, 0, 1), Some((name(0), 4, mold::END_OF_SESSION, vec![])));
        keep(&mut store, second, 10, 1);
        assert_eq!(asked(&mut store, 1, 1), Some((name(1), 4, 0, vec![])), "the first there is");
    }

    #[test]
    fn behind_a_packet_that_is_too_long_it_begins_anew() {
        let mut store = store(100);
        let first = FeedSession::first(NAME);
        keep(&mut store, first, 1, 3);
        keep(&mut store, first, 4, 400);
        assert_eq!(asked(&mut store, 0, 4), None, "it was too long to be kept");
        keep(&mut store, first, 404, 2);
        keep(&mut store, first, 406, 2);
        let name = later_session(NAME, 0);
        assert_eq!(asked(&mut store, 0, 404), Some((name, 404, 4, vec![404, 405, 406, 407])));
        assert_eq!(asked(&mut store, 0, 1), Some((name, 404, 0, vec![])));
    }
}
