//! The retransmission server: the last datagrams of the feed, and answers to who misses some.
//!
//! Receivers of the tree ask by [`RepairRequestBody`] and get [`FrameKind::Repair`] frames with the
//! id, times and deadline of the original (corner 13), at most [`REPAIR_DATAGRAMS_MAX`] per
//! request. Anybody else sends a MoldUDP64 request and gets one packet that starts exactly at the
//! message asked for, with as many whole messages as fit. Such an answer never contains what
//! receivers still hold: a datagram is served to the public only when its release time is known and
//! has passed on the server's clock, so that asking is no way to be early. Who publishes knows it
//! from its own stamp. Who only follows keeps datagrams unstamped
//! ([`RetransmissionStore::keep_unstamped`]) and serves nothing of them, to anybody, before it is
//! told ([`RetransmissionStore::stamp`]).
//!
//! How much anybody is answered is for [`Answers`] to say: an address that has not proved itself
//! gets three times the bytes of its requests.
//!
//! Memory is fixed at start-up: a ring of bytes and a ring of entries, the oldest making room. Who
//! asks for what is no longer there is told the first message that still is, receivers by a repair
//! with [`DATA_OLDEST`], the public by a heartbeat of that number.

mod public;

use std::collections::VecDeque;

use types::{
    FeedSeq, Nanos, NodeId, Outbox, Packer, SpillStore, Unpacker, limits::MOLD_PACKET_MAX,
};
use zerocopy::FromZeros;

use crate::{
    emit,
    feed::answers::{AnswerConfig, AnswerStats, Answers, TokenMaker},
    feed::feed_session::FeedSession,
    feed::feed_trail::{self, FeedTrail},
    feed::mold::{self, Header, Packet, Session},
    frame::{DATA_OLDEST, DataBody, FrameKind, HopHeader, RepairRequestBody},
    tree::topology::{ROOT, Tree},
};

/// Datagrams sent in answer to one request at most.
pub const REPAIR_DATAGRAMS_MAX: usize = 32;

/// Bounds of a [`RetransmissionStore`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreConfig {
    /// Most datagrams that are kept.
    pub datagrams: usize,
    /// Most bytes kept; room for at least one packet is always there.
    pub bytes: usize,
    /// All of its memory is touched at the start, so that no page of it comes later.
    pub touched: bool,
    /// How much anybody may be answered.
    pub answers: AnswerConfig,
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            datagrams: 65_536,
            bytes: 16 << 20,
            touched: false,
            answers: AnswerConfig::default(),
        }
    }
}

/// What a [`RetransmissionStore`] has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreStats {
    /// Number of repair requests of receivers.
    pub repair_requests: u64,
    /// Number of datagrams sent again to receivers.
    pub repaired_datagrams: u64,
    /// Number of MoldUDP64 requests of the public.
    pub public_requests: u64,
    /// Packets sent in answer to those.
    pub public_replies: u64,
    /// Requests for messages that are no longer kept.
    pub too_old: u64,
    /// Public requests for messages not yet published, or still held by the receivers.
    pub too_early: u64,
    /// Requests that make no sense: unreadable, another session, another stream, not a receiver.
    pub refused: u64,
}

struct Stored {
    seq: u64,
    end: u64,
    body: DataBody,
    /// Position in the endless byte ring; the place is this modulo its size.
    at: u64,
    len: usize,
}

impl Stored {
    /// Nothing, but not nothing but zeros, which would stay on a page that is not there.
    fn nothing() -> Stored {
        Stored { seq: 1, end: 1, body: DataBody::new_zeroed(), at: 0, len: 0 }
    }
}

/// Published datagrams, kept to answer repair requests.
pub struct RetransmissionStore {
    tree: Tree,
    /// Sessions so far, the present one last; never empty.
    sessions: VecDeque<FeedSession>,
    datagrams: usize,
    entries: VecDeque<Stored>,
    bytes: Box<[u8]>,
    /// Position of the next byte in the endless ring.
    write_at: u64,
    /// Where what is kept is spilled, too.
    trail: Option<FeedTrail>,
    answers: Answers,
    /// One past the last message whose release time is known; those before it are, too.
    stamped: u64,
    /// Message from which on the public is answered nothing, stamped or not, because the publisher
    /// that stamped it may have been replaced.
    confirmed: u64,
    /// The last that was told of release times: one past the last message, deadline, bound in ns.
    told: (u64, Nanos, u32),
    stats: StoreStats,
}

impl RetransmissionStore {
    /// An empty store of the publisher of `session`.
    pub fn new(tree: Tree, session: Session, config: StoreConfig) -> RetransmissionStore {
        let datagrams = config.datagrams.max(1);
        let mut entries = VecDeque::with_capacity(datagrams);
        let bytes = config.bytes.max(MOLD_PACKET_MAX);
        let bytes = match config.touched {
            true => vec![1; bytes],
            false => vec![0; bytes],
        };
        if config.touched {
            entries.resize_with(entries.capacity(), Stored::nothing);
            entries.clear();
        }
        RetransmissionStore {
            tree,
            sessions: VecDeque::from([FeedSession::first(session)]),
            datagrams,
            entries,
            bytes: bytes.into_boxed_slice(),
            write_at: 0,
            trail: None,
            answers: Answers::new(config.answers),
            stamped: 1,
            confirmed: u64::MAX,
            told: (1, Nanos(0), 0),
            stats: StoreStats::default(),
        }
    }

    /// What was counted since the start.
    pub fn stats(&self) -> StoreStats {
        self.stats
    }

    /// Counters of public requests and answers.
    pub fn answers(&self) -> AnswerStats {
        self.answers.stats()
    }

    /// Sets how addresses prove themselves: [`Answers::prove_by`].
    pub fn prove_by(&mut self, salt: u64, maker: TokenMaker) {
        self.answers.prove_by(salt, maker);
    }

    /// Receivers are those of another tree from now on, frames of its epoch.
    pub fn change_tree(&mut self, tree: Tree) {
        self.tree = tree;
    }

    /// Position of the oldest message that is kept; `None`: none is.
    pub fn oldest(&self) -> Option<FeedSeq> {
        self.entries.front().map(|entry| FeedSeq(entry.seq))
    }

    /// Keeps a packet as it was sent. Packets come in feed sequence; one that was before, has no
    /// messages or is longer than [`MOLD_PACKET_MAX`] is not kept. Behind a hole the store begins anew:
    /// what it has is always one piece, and who asks for what is before that is told so.
    pub fn keep(&mut self, body: &DataBody, packet: &[u8]) {
        self.keep_unstamped(body, packet);
        self.stamped = self.end();
    }

    /// As [`RetransmissionStore::keep`], for a packet of another publisher: no one gets it before
    /// its release time is known.
    pub fn keep_unstamped(&mut self, body: &DataBody, packet: &[u8]) {
        if self.keep_in_memory(body, packet)
            && let Some(trail) = &mut self.trail
        {
            trail.append(body, packet);
        }
        let (end, deadline, bound_ns) = self.told;
        if end > self.stamped {
            self.stamp(end, deadline, bound_ns);
        }
    }

    /// Messages before number `end` are public from `deadline` + `bound_ns` on, or were before:
    /// what has no release time yet gets this one, also what comes later. 0 as deadline: they are
    /// public.
    pub fn stamp(&mut self, end: u64, deadline: Nanos, bound_ns: u32) {
        if end >= self.told.0 {
            self.told = (end, deadline, bound_ns);
        }
        let first = self.position(self.stamped);
        for entry in self.entries.range_mut(first..).take_while(|entry| entry.end <= end) {
            (entry.body.deadline, entry.body.bound_ns) = (deadline, bound_ns);
            self.stamped = entry.end;
        }
    }

    /// Whether anything is kept whose release time is not known.
    pub fn has_unstamped(&self) -> bool {
        self.stamped < self.end()
    }

    /// One past the last message that has a release time.
    pub fn stamped(&self) -> FeedSeq {
        FeedSeq(self.stamped)
    }

    /// One past the last message that the public gets once it is released.
    pub fn confirmed(&self) -> FeedSeq {
        FeedSeq(self.stamped.min(self.confirmed))
    }

    /// From now on what is kept waits for [`RetransmissionStore::confirm`] besides.
    pub fn await_confirmation(&mut self) {
        self.confirmed = self.stamped;
    }

    /// Marks messages before number `end` as stamped by a publisher that was entitled to.
    pub fn confirm(&mut self, end: FeedSeq) {
        self.confirmed = self.confirmed.max(end.0);
    }

    /// Begins to follow another publisher: messages that were not confirmed lose their release
    /// times.
    pub fn follow(&mut self) {
        (self.stamped, self.confirmed) = (self.stamped.min(self.confirmed), u64::MAX);
        self.told = (1, Nanos(0), 0);
    }

    /// One past the last message kept.
    fn end(&self) -> u64 {
        self.entries.back().map_or(1, |last| last.end)
    }

    /// Spills what is kept as it comes. False when something is kept already.
    pub(crate) fn spill_to(&mut self, spill: Box<dyn SpillStore>) -> bool {
        if self.entries.is_empty() {
            self.trail = Some(FeedTrail::new(spill));
        }
        self.entries.is_empty()
    }

    /// Writes down what is not in the spill store; false without one, or while that takes nothing.
    pub(crate) fn pack(&self, to: &mut Packer<'_>) -> bool {
        // From its place in the ring on everything lies as it did.
        to.u64(self.entries.front().map_or(self.write_at, |oldest| oldest.at));
        self.trail.as_ref().is_some_and(|trail| trail.pack(to))
    }

    /// Restores a packed store, which ends before the message `end`.
    pub(crate) fn unpack(&mut self, from: &mut Unpacker<'_>, end: u64) -> Option<()> {
        let mut trail = self.trail.take().filter(|_| self.entries.is_empty())?;
        let heads = (feed_trail::HEAD as u64).saturating_mul(self.datagrams as u64);
        let most = heads.saturating_add(self.bytes.len() as u64);
        self.write_at = from.u64().filter(|at| *at < 1 << 62)?;
        trail.unpack(from, most, |body, packet| self.keep_in_memory(body, packet))?;
        self.trail = Some(trail);
        // Bodies were spilled as they came: which of them have their release time is not known.
        self.end().eq(&end).then_some(())
    }

    /// Keeps a datagram in memory; returns whether there was room.
    fn keep_in_memory(&mut self, body: &DataBody, packet: &[u8]) -> bool {
        let Some(parsed) = Packet::parse(packet) else { return false };
        let seq = parsed.header.seq;
        let follows = self.entries.back().is_none_or(|last| last.end <= seq);
        if parsed.messages() == 0 || packet.len() > MOLD_PACKET_MAX || !follows {
            return false;
        }
        if self.entries.back().is_some_and(|last| last.end < seq) {
            while let Some(oldest) = self.entries.pop_front() {
                self.trail.iter_mut().for_each(|trail| trail.forget(oldest.len));
            }
        }
        let (size, len) = (self.bytes.len() as u64, packet.len() as u64);
        let tail = size - self.write_at % size;
        let at = if len > tail { self.write_at + tail } else { self.write_at };
        let end = at + len;
        while self.entries.len() >= self.datagrams
            || self.entries.front().is_some_and(|oldest| oldest.at + size < end)
        {
            let oldest = self.entries.pop_front();
            if let Some((trail, oldest)) = self.trail.as_mut().zip(oldest) {
                trail.forget(oldest.len);
            }
        }
        let place = (at % size) as usize;
        self.bytes[place..place + packet.len()].copy_from_slice(packet);
        self.write_at = end;
        let (seq, end) = (parsed.header.seq, parsed.end());
        self.entries.push_back(Stored { seq, end, body: *body, at, len: packet.len() });
        true
    }

    /// Answers a receiver. Frames carry the store's epoch.
    pub fn handle_repair_request(
        &mut self,
        sender: NodeId,
        request: &RepairRequestBody,
        out: &mut Outbox,
    ) {
        if !self.tree.topology.is_receiver(sender) || request.stream != self.tree.stream {
            self.stats.refused += 1;
            return;
        }
        self.stats.repair_requests += 1;
        let end = request.from.0.saturating_add(u64::from(request.count)).min(self.stamped);
        let header = HopHeader::new(FrameKind::Repair, ROOT, self.tree.epoch);
        let oldest = self.entries.front().filter(|entry| entry.end <= self.stamped);
        if let Some(oldest) = oldest.filter(|entry| request.from.0 < entry.seq) {
            self.stats.too_old += 1;
            let body = DataBody { flags: DATA_OLDEST, ..oldest.body };
            emit::send(out, sender, header, &body, &self.heartbeat(oldest));
        }
        for index in (self.position(request.from.0)..self.entries.len()).take(REPAIR_DATAGRAMS_MAX)
        {
            let entry = &self.entries[index];
            if entry.seq >= end {
                break;
            }
            emit::send(out, sender, header, &entry.body, self.packet(entry));
            self.stats.repaired_datagrams += 1;
        }
    }

    /// A packet in the tree without messages that names the first one of an entry.
    fn heartbeat(&self, entry: &Stored) -> [u8; mold::HEADER_LEN] {
        let read = Header::read(self.packet(entry)).map(|(header, _)| header.session);
        let session = read.unwrap_or_default();
        Header { session, seq: entry.seq, count: 0 }.bytes()
    }

    /// Index of the first entry that ends after `seq`.
    fn position(&self, seq: u64) -> usize {
        self.entries.partition_point(|entry| entry.end <= seq)
    }

    fn packet(&self, entry: &Stored) -> &[u8] {
        let place = (entry.at % self.bytes.len() as u64) as usize;
        &self.bytes[place..place + entry.len]
    }

    /// Whether receivers have been free to hand the datagram on (on this clock) already.
    fn is_public(&self, entry: &Stored, now: Nanos) -> bool {
        let DataBody { deadline, bound_ns, .. } = entry.body;
        let due = deadline == Nanos(0) || now >= deadline + u64::from(bound_ns);
        entry.end <= self.confirmed().0 && due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{frame, tree::topology::Topology};
    use proptest::prelude::*;
    use types::{Channel, Op, Peer};

    const SESSION: Session = *b"FAIRBELL01";

    fn store(config: StoreConfig) -> RetransmissionStore {
        let topology = Topology::new(2, 3, 9).unwrap();
        let tree =
            Tree { topology, hedge: 1, dynamic: true, epoch: 1, stream: 0, round_ns: 1_000_000 };
        RetransmissionStore::new(tree, SESSION, config)
    }

    fn packet(seq: u64, messages: u16) -> Vec<u8> {
        let mut bytes = Header { session: SESSION, seq, count: messages }.bytes().to_vec();
        for message in seq..seq + u64::from(messages) {
            bytes.extend_from_slice(&8u16.to_be_bytes());
            bytes.extend_from_slice(&message.to_be_bytes());
        }
        bytes
    }

    fn body(id: u64, deadline: u64) -> DataBody {
        let (t_sent, deadline) = (Nanos(1), Nanos(deadline));
        DataBody { id, t_sent, deadline, bound_ns: 10, stream: 0, hedge: 0, flags: 0 }
    }

    fn datagrams(out: &Outbox) -> Vec<(Channel, Peer, Vec<u8>)> {
        let sent = |op: &Op| match *op {
            Op::Datagram { channel, to, bytes } => (channel, to, out.bytes(bytes).to_vec()),
            _ => panic!("only datagrams"),
        };
        out.ops().iter().map(sent).collect()
    }

    fn ask(from: u64, count: u32) -> RepairRequestBody {
        RepairRequestBody { from: FeedSeq(from), count, stream: 0, reserved: 0 }
    }

    #[test]
    fn repairs_are_the_original_datagrams() {
        let mut store = store(StoreConfig::default());
        for id in 1..=100u64 {
            store.keep(&body(id, 500 + id), &packet(id * 3 - 2, 3));
        }
        let mut out = Outbox::default();
        store.handle_repair_request(NodeId(4), &ask(5, 5), &mut out);
        let sent = datagrams(&out);
        assert_eq!(sent.len(), 2, "messages 5..10 lie in datagrams 2 and 3");
        let (header, rest) = HopHeader::read(&sent[0].2).unwrap();
        assert_eq!((header.kind, sent[0].1), (FrameKind::Repair, Peer::Node(NodeId(4))));
        let (read, payload) = frame::body::<DataBody>(rest).unwrap();
        assert_eq!((read, payload), (body(2, 502), &packet(4, 3)[..]));
        out.clear();
        store.handle_repair_request(NodeId(4), &ask(1, u32::MAX), &mut out);
        assert_eq!(out.ops().len(), REPAIR_DATAGRAMS_MAX);
        out.clear();
        store.handle_repair_request(NodeId(1), &ask(1, 1), &mut out);
        store.handle_repair_request(NodeId(4), &ask(301, 9), &mut out);
        assert!(out.is_empty(), "a proxy may not ask, and nobody gets what is not there");
        assert_eq!(store.stats().refused, 1);
    }

    #[test]
    fn old_datagrams_make_room_for_new_ones() {
        let mut store =
            store(StoreConfig { datagrams: 1_000, bytes: 2_000, ..StoreConfig::default() });
        for id in 1..=200u64 {
            store.keep(&body(id, 0), &packet(id * 10 - 9, 10));
        }
        let kept = store.entries.len();
        assert!((10..=16).contains(&kept), "{kept} packets of 120 bytes in 2000");
        for (entry, id) in store.entries.iter().zip(201 - kept as u64..) {
            assert_eq!(store.packet(entry), packet(id * 10 - 9, 10));
        }
        let mut out = Outbox::default();
        store.handle_repair_request(NodeId(4), &ask(1, 10), &mut out);
        store.handle_public_request(Nanos(1), Peer::Addr(1), &packet(1, 0)[..18], &mut out);
        let request = Header { session: SESSION, seq: 1, count: 10 }.bytes();
        store.handle_public_request(Nanos(1), Peer::Addr(1), &request, &mut out);
        let first = (200 - kept as u64) * 10 + 1;
        let sent = datagrams(&out);
        assert_eq!(sent.len(), 2, "both are told where the store begins");
        let (header, rest) = HopHeader::read(&sent[0].2).unwrap();
        let (told, payload) = frame::body::<DataBody>(rest).unwrap();
        assert_eq!((header.kind, told.flags), (FrameKind::Repair, DATA_OLDEST));
        assert_eq!((told.id, payload), (201 - kept as u64, &packet(first, 0)[..]));
        assert_eq!(sent[1], (Channel::FEED, Peer::Addr(1), packet(first, 0)));
        assert_eq!((store.stats().too_old, store.stats().refused), (2, 1));
    }

    #[test]
    fn the_public_gets_one_packet_and_nothing_before_its_time() {
        let mut store = store(StoreConfig::default());
        for id in 1..=100u64 {
            store.keep(&body(id, id * 1_000), &packet(id * 3 - 2, 3));
        }
        let mut out = Outbox::default();
        // Padded, so that any packet is an answer.
        let request = |seq, count| {
            let mut bytes = Header { session: SESSION, seq, count }.bytes().to_vec();
            bytes.resize(MOLD_PACKET_MAX.div_ceil(3), 0);
            bytes
        };
        store.handle_public_request(Nanos(9_010), Peer::Addr(7), &request(5, 4), &mut out);
        assert_eq!(datagrams(&out), [(Channel::FEED, Peer::Addr(7), packet(5, 4))]);
        out.clear();
        store.handle_public_request(Nanos(9_009), Peer::Addr(7), &request(5, 1_000), &mut out);
        assert_eq!(datagrams(&out)[0].2, packet(5, 20), "24 is the last public message");
        out.clear();
        store.handle_public_request(Nanos(9_009), Peer::Addr(7), &request(25, 1), &mut out);
        assert!(out.is_empty());
        assert_eq!(store.stats().too_early, 1);
        store.handle_public_request(Nanos(1 << 40), Peer::Addr(7), &request(1, 60_000), &mut out);
        assert_eq!(datagrams(&out)[0].2, packet(1, 137), "137 blocks of 10 bytes fill a packet");
    }

    #[test]
    fn a_plain_request_of_a_stranger_gets_three_times_its_bytes_and_the_rest_later() {
        let mut store = store(StoreConfig::default());
        (1..=100u64).for_each(|id| store.keep(&body(id, 0), &packet(id * 3 - 2, 3)));
        // The packet of a long message, as the longest of ITCH are.
        let mut long = Header { session: SESSION, seq: 301, count: 1 }.bytes().to_vec();
        long.extend_from_slice(&50u16.to_be_bytes());
        long.extend_from_slice(&[7; 50]);
        store.keep(&body(101, 0), &long);
        let mut out = Outbox::default();
        let request = |seq| Header { session: SESSION, seq, count: 500 }.bytes();
        store.handle_public_request(Nanos(1), Peer::Addr(7), &request(5), &mut out);
        assert_eq!(datagrams(&out)[0].2, packet(5, 4), "60 bytes for 20");
        out.clear();
        store.handle_public_request(Nanos(2), Peer::Addr(7), &request(301), &mut out);
        assert!(out.is_empty() && store.answers().unproven_short == 1, "72 bytes are too many");
        store.handle_public_request(Nanos(3), Peer::Addr(7), &request(301), &mut out);
        assert_eq!(datagrams(&out)[0].2, long, "but not for the second request");
    }

    #[test]
    fn who_shows_the_token_it_was_given_gets_whole_packets() {
        let mut store = store(StoreConfig::default());
        store.prove_by(3, Box::new(|bytes| std::array::from_fn(|n| bytes[n] ^ 0x5A)));
        (1..=100u64).for_each(|id| store.keep(&body(id, 0), &packet(id * 3 - 2, 3)));
        let mut out = Outbox::default();
        let mut ask = |store: &mut RetransmissionStore, from, token: &[u8]| {
            out.clear();
            let request = Header { session: SESSION, seq: 5, count: 500 }.bytes();
            let bytes = [&request[..], token].concat();
            store.handle_public_request(Nanos(1), Peer::Addr(from), &bytes, &mut out);
            datagrams(&out).into_iter().map(|(_, _, bytes)| bytes).collect::<Vec<_>>()
        };
        let first = ask(&mut store, 7, &[0; 16]);
        let [token, some] = &first[..] else { panic!("a token and what fits beside it") };
        assert_eq!((token.len(), some), (36, &packet(5, 5)));
        assert_eq!(&token[..20], packet(5, 0));
        assert_eq!(ask(&mut store, 7, &token[20..]), [packet(5, 137)]);
        assert_eq!(ask(&mut store, 8 << 16, &token[20..]).len(), 2, "not for another address");
        let stats = store.answers();
        assert_eq!((stats.proven, stats.tokens), (1, 2));
        assert!(stats.unproven_out <= 3 * stats.unproven_in);
    }

    #[test]
    fn who_follows_serves_nothing_before_it_is_told_the_release_time() {
        let mut store = store(StoreConfig::default());
        (1..=3u64).for_each(|id| store.keep_unstamped(&body(id, 0), &packet(id * 3 - 2, 3)));
        let mut out = Outbox::default();
        // Padded, so that its bytes allow for whole answers.
        let request =
            |seq| [&Header { session: SESSION, seq, count: 1_000 }.bytes()[..], &[0; 400]].concat();
        let mut ask = |store: &mut RetransmissionStore, now| {
            out.clear();
            store.handle_public_request(Nanos(now), Peer::Addr(7), &request(1), &mut out);
            store.handle_public_request(Nanos(now), Peer::Addr(7), &request(0), &mut out);
            store.handle_repair_request(NodeId(4), &ask(1, u32::MAX), &mut out);
            datagrams(&out)
        };
        assert_eq!(ask(&mut store, u64::MAX >> 1), [], "not after any time");
        // Up to the middle of the second datagram, which has to wait for the next word.
        store.stamp(6, Nanos(1_000), 10);
        let sent = ask(&mut store, 1_009);
        assert_eq!(sent.len(), 1, "what receivers get has its deadline");
        let (_, rest) = HopHeader::read(&sent[0].2).unwrap();
        let (read, payload) = frame::body::<DataBody>(rest).unwrap();
        assert_eq!((read.deadline, payload), (Nanos(1_000), &packet(1, 3)[..]));
        assert_eq!(ask(&mut store, 1_010)[0].2, packet(1, 3));
        assert!(store.has_unstamped() && store.stamped() == FeedSeq(4));
        // Told ahead of what it has, and an older word after that.
        store.stamp(13, Nanos(2_000), 10);
        store.stamp(7, Nanos(1_500), 10);
        store.keep_unstamped(&body(4, 0), &packet(10, 3));
        store.keep_unstamped(&body(5, 0), &packet(13, 3));
        assert_eq!(ask(&mut store, 2_009)[0].2, packet(1, 3), "the others wait");
        assert_eq!(ask(&mut store, 2_010)[0].2, packet(1, 12));
        assert_eq!(store.stamped(), FeedSeq(13));
        // It publishes from now on, and waits until others have heard of it.
        store.await_confirmation();
        store.keep(&body(6, 3_000), &packet(16, 3));
        assert!(!store.has_unstamped());
        assert_eq!(ask(&mut store, 9_000)[0].2, packet(1, 12));
        store.confirm(FeedSeq(19));
        assert_eq!(ask(&mut store, 9_000)[0].2, packet(1, 18));
        // What nobody has heard of is stamped by whoever publishes then.
        store.keep(&body(7, 3_000), &packet(19, 3));
        store.follow();
        assert!(store.has_unstamped() && store.stamped() == FeedSeq(19));
    }

    proptest! {
        #[test]
        fn arbitrary_requests_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            seq in 0u64..400,
            count in any::<u32>(),
        ) {
            let mut store = store(StoreConfig {
                datagrams: 20,
                bytes: 5_000,
                touched: true,
                ..StoreConfig::default()
            });
            (1..=100u64).for_each(|id| store.keep(&body(id, id), &packet(id * 3 - 2, 3)));
            store.keep(&body(0, 0), &bytes);
            let mut out = Outbox::default();
            store.handle_public_request(Nanos(1), Peer::Addr(7), &bytes, &mut out);
            let mut request = Header { session: SESSION, seq, count: count as u16 }.bytes().to_vec();
            request.resize(20 + bytes.len() * 30, 1);
            store.handle_public_request(Nanos(90), Peer::Addr(7), &request, &mut out);
            store.handle_repair_request(NodeId(4), &ask(seq, count), &mut out);
            for (channel, _, bytes) in datagrams(&out) {
                if channel == Channel::FEED {
                    let packet = Packet::parse(&bytes).unwrap();
                    prop_assert_eq!(packet.header.seq, seq);
                    prop_assert!(packet.end() <= 80 * 3 + 1, "80 + 10 ns is not over at 89");
                    prop_assert!(u32::from(packet.messages()) <= count);
                }
            }
        }
    }
}
