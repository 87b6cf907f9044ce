//! The root's downward side: ITCH messages into MoldUDP64 packets, one overlay datagram each.
//!
//! A datagram leaves when the packet is full, or when the caller flushes and the last one left at
//! least a linger ago (default 0: at once), so that a lone message never waits and many share a
//! datagram; a message never splits. It is stamped at that moment (corner 12) with
//! t_sent and deadline = t_sent + OWD_G, or 0 while there is no estimate. Release times
//! (deadline + bound) never run backwards, or a shrinking estimate would have receivers break
//! sequence or miss deadlines.
//!
//! A publisher that follows another one ([`Publisher::follow`]) makes the same messages and sends
//! nothing. Of their release times it knows what it is told ([`Publisher::learn`]). When it takes
//! over ([`Publisher::take_over`]), what it was not told of gets the latest release time that
//! anybody can have given it: now, the largest delay and the largest clock bound that are believed.
//!
//! While nothing is sent, heartbeats tell receivers the next sequence number, so that the loss of
//! the last datagram is noticed: first after `heartbeat_min_ns`, then at doubling distances. They
//! have overlay ids but are not traced, so no latency statistics are fed by them. After the end of
//! the session they say so.
//!
//! The publisher also serves repairs and takes the all-reduced delays. The log position of a
//! message is not known here: feed sequence numbers are dense from 1 (corner 4).

use types::{
    Channel, ClockReading, FeedSeq, Nanos, NodeId, Outbox, Packer, Peer, ShardId, SpillStore,
    TRACE_SHARD_SHIFT, Trace, TracePoint, Unpacker, limits::MOLD_PACKET_BUILT_MAX,
};

use crate::{
    control::{self, ControlHeader, ControlKind},
    deadline::all_reduce::{DelayLimits, DelayReducer},
    deadline::estimator::Estimator,
    feed::answers::TokenMaker,
    feed::duplicate_filter::TERM_SHIFT,
    feed::feed_session::FeedSession,
    feed::feed_trail::BLOCK,
    feed::hedger::{HedgeMode, Hedger},
    feed::mold::{END_OF_SESSION, HEADER_LEN, Header, PREFIX_LEN, Session},
    feed::parity::ParityEncoder,
    feed::retransmission::{RetransmissionStore, StoreConfig},
    frame::{self, DATA_PARITY, DataBody, DelayBody, FrameKind, HopHeader, RepairRequestBody},
    tree::child_sequence::ChildSequence,
    tree::failover_routes::{DETOUR_SPAN, FailoverRoutes},
    tree::topology::{ROOT, Tree},
};

/// Numbers that are never reached, and far from overflow.
const NUMBER_MAX: u64 = 1 << 62;

/// Settings of a publisher: packets, timers, repair, deadlines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublisherConfig {
    /// Name of the stream's first MoldUDP64 session.
    pub session: Session,
    /// Longest MoldUDP64 packet, in bytes; cut to [`MOLD_PACKET_BUILT_MAX`].
    pub packet_max: usize,
    /// Least time between two datagrams that are not full, in ns: the longest that a message waits
    /// for company.
    pub linger_ns: u64,
    /// First heartbeat after the last data, in ns.
    pub heartbeat_min_ns: u64,
    /// Largest distance of heartbeats, in ns.
    pub heartbeat_max_ns: u64,
    /// Bounds of the retransmission store.
    pub store: StoreConfig,
    /// Bounds on the values that the all-reduce believes.
    pub delay: DelayLimits,
    /// How delays become deadlines; those that need samples need `delay.samples`.
    pub estimator: Estimator,
    /// Which messages are hedged, and with how many copies.
    pub hedge: HedgeMode,
    /// A parity block for every so many datagrams; 0: none.
    pub parity: u16,
    /// Serve the children first that have been slowest so far.
    pub slowest_first: bool,
    /// The shard that it publishes for, as its traces name it.
    pub shard: ShardId,
}

impl PublisherConfig {
    /// The default settings for a stream with this first session.
    pub fn new(session: Session) -> PublisherConfig {
        PublisherConfig {
            session,
            packet_max: MOLD_PACKET_BUILT_MAX,
            linger_ns: 0,
            heartbeat_min_ns: Nanos::MILLI,
            heartbeat_max_ns: 100 * Nanos::MILLI,
            store: StoreConfig::default(),
            delay: DelayLimits::default(),
            estimator: Estimator::default(),
            hedge: HedgeMode::default(),
            parity: 0,
            slowest_first: false,
            shard: ShardId(0),
        }
    }
}

/// What a [`Publisher`] has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PublisherStats {
    /// Number of messages published.
    pub messages: u64,
    /// Datagrams with messages, each counted once whatever the number of children.
    pub datagrams: u64,
    /// Number of heartbeats and end-of-session datagrams.
    pub heartbeats: u64,
    /// Number of parity blocks sent.
    pub parities: u64,
    /// Number of datagrams stamped with a deadline.
    pub deadlines: u64,
    /// Frames that were unreadable or are not for a publisher.
    pub malformed: u64,
}

/// Why a message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushError {
    /// The message is longer than a packet allows.
    TooLong,
    /// The session has ended; nothing is published any more.
    SessionOver,
}

/// Release times that a publisher tells its followers; of one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeedRelease {
    /// One past the last message that was sent and confirmed.
    pub end: FeedSeq,
    /// All before it are public from then on at the latest: deadline + bound on the publisher's
    /// clock; release times never run backwards.
    pub release: Nanos,
    /// OWD_G, in ns; 0 while there is no estimate.
    pub owd_ns: u64,
    /// The fleet's largest clock bound, in ns.
    pub bound_ns: u64,
}

/// The publisher at the root of one tree.
pub struct Publisher {
    tree: Tree,
    /// The session of the present day.
    session: FeedSession,
    config: PublisherConfig,
    store: RetransmissionStore,
    reducer: DelayReducer,
    hedger: Hedger,
    parity: Option<ParityEncoder>,
    child_sequence: Option<ChildSequence>,
    routes: FailoverRoutes,
    detour_number: u64,
    detoured: Vec<NodeId>,
    /// The packet being filled; its first 20 bytes are written when it leaves.
    packet: Vec<u8>,
    /// Number of messages in `packet`.
    count: u16,
    /// Sequence number of the next message.
    next_seq: u64,
    next_id: u64,
    /// When the oldest message of `packet` came.
    /// When the next datagram may leave that is not full.
    flush_from: Nanos,
    last_release: Nanos,
    heartbeat_at: Nanos,
    heartbeat_ns: u64,
    ended: bool,
    /// Whether another root publishes and this one only follows.
    follows: bool,
    /// Delay and clock bound of the fleet as that one said last, in ns.
    told_delay: (u64, u64),
    /// The clock bound that is stamped until receivers have reported theirs, ns.
    bound_ns: u64,
    stats: PublisherStats,
}

/// Terms that are told apart, so that ids stay within those of traces.
const TERMS_MAX: u64 = 0xFFFF;

impl Publisher {
    /// A publisher whose first message has sequence number 1; its first timeout is due at once.
    pub fn new(tree: Tree, config: PublisherConfig) -> Publisher {
        let least = HEADER_LEN + PREFIX_LEN;
        let packet_max = config.packet_max.clamp(least, MOLD_PACKET_BUILT_MAX);
        let mut packet = Vec::with_capacity(MOLD_PACKET_BUILT_MAX);
        packet.resize(HEADER_LEN, 0);
        Publisher {
            tree,
            session: FeedSession::first(config.session),
            config: PublisherConfig { packet_max, ..config },
            store: RetransmissionStore::new(tree, config.session, config.store),
            reducer: DelayReducer::with_estimator(tree, config.delay, config.estimator),
            hedger: Hedger::new(config.hedge),
            parity: (config.parity > 0).then(|| ParityEncoder::new(config.parity)),
            child_sequence: config.slowest_first.then(|| ChildSequence::new(&tree, ROOT)),
            routes: FailoverRoutes::default(),
            detour_number: 0,
            detoured: Vec::new(),
            packet,
            count: 0,
            next_seq: 1,
            next_id: 1,
            flush_from: Nanos(0),
            last_release: Nanos(0),
            heartbeat_at: Nanos(0),
            heartbeat_ns: config.heartbeat_min_ns.max(1),
            ended: false,
            follows: false,
            told_delay: (0, 0),
            bound_ns: 0,
            stats: PublisherStats::default(),
        }
    }

    /// Begins the term of a root that took over: ids continue above those of all earlier terms, so
    /// that nodes that heard this one drop what an earlier leader still sends. Announces the feed's
    /// position at once.
    pub fn begin_term(&mut self, term: u64) {
        let first = term.min(TERMS_MAX) << TERM_SHIFT;
        self.next_id = self.next_id.max(first | 1);
        self.detour_number = self.detour_number.max(first);
        (self.heartbeat_at, self.heartbeat_ns) = (Nanos(0), self.config.heartbeat_min_ns.max(1));
    }

    /// What was counted since the start.
    pub fn stats(&self) -> PublisherStats {
        self.stats
    }

    /// The retransmission server, for its totals.
    pub fn store(&self) -> &RetransmissionStore {
        &self.store
    }

    /// Sets how addresses prove themselves: [`RetransmissionStore::prove_by`].
    pub fn prove_by(&mut self, salt: u64, maker: TokenMaker) {
        self.store.prove_by(salt, maker);
    }

    /// The all-reduce, for OWD_G and its totals.
    pub fn delay(&self) -> &DelayReducer {
        &self.reducer
    }

    /// Which messages are hedged, and how much at present.
    pub fn hedger(&self) -> &Hedger {
        &self.hedger
    }

    /// The tree of a later epoch takes over with the next datagram; all nodes should have been told
    /// it before (`prepare`). Overlay ids, the feed and its deadlines go on.
    pub fn change_tree(&mut self, tree: Tree) {
        if tree.epoch <= self.tree.epoch {
            return;
        }
        self.tree = tree;
        self.store.change_tree(tree);
        self.reducer.change_tree(tree);
        self.child_sequence = self.config.slowest_first.then(|| ChildSequence::new(&tree, ROOT));
        self.routes = FailoverRoutes::default();
    }

    /// These proxies are dead, and no others: tells every proxy, and sends around them.
    pub fn set_dead(&mut self, dead: &[NodeId], out: &mut Outbox) {
        let header =
            ControlHeader::new(ControlKind::Detour, ROOT, self.tree.epoch, self.tree.stream);
        let end = self.tree.topology.id_end() as u16;
        for first in (1..end).step_by(usize::from(DETOUR_SPAN)) {
            self.detour_number += 1;
            let body = FailoverRoutes::message(self.detour_number, NodeId(first), dead);
            self.routes.apply(&body);
            for proxy in self.tree.topology.proxy_ids() {
                control::send(out, proxy, header, &body, &[]);
            }
        }
    }

    /// The nodes that are believed to be dead, and the routes around them.
    pub fn failover_routes(&self) -> &FailoverRoutes {
        &self.routes
    }

    /// The sequence number the next message will get.
    pub fn feed_next(&self) -> FeedSeq {
        FeedSeq(self.next_seq)
    }

    /// Adds one message to the packet being filled, which is sent first when there is no room.
    pub fn push_message(
        &mut self,
        now: ClockReading,
        message: &[u8],
        out: &mut Outbox,
    ) -> Result<FeedSeq, PushError> {
        if self.ended {
            return Err(PushError::SessionOver);
        }
        let block = PREFIX_LEN + message.len();
        if HEADER_LEN + block > self.config.packet_max {
            return Err(PushError::TooLong);
        }
        let full = self.packet.len() + block > self.config.packet_max;
        if full || self.count == END_OF_SESSION - 1 {
            self.send_packet(now.now, out);
        }
        self.packet.extend_from_slice(&(message.len() as u16).to_be_bytes());
        self.packet.extend_from_slice(message);
        self.count += 1;
        self.next_seq += 1;
        self.stats.messages += 1;
        Ok(FeedSeq(self.next_seq - 1))
    }

    /// Sends what waits, if the last datagram is long enough ago; to be called when the caller has
    /// no more messages at hand.
    pub fn flush(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.count > 0 && self.flush_from <= now.now {
            self.send_packet(now.now, out);
        }
    }

    /// A new day: what waits is sent, and the next message is the first of the stream's next session.
    /// The session before it is over for the public. Before the first message there is nothing to
    /// end.
    pub fn begin_session(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.next_seq == 1 || self.ended {
            return;
        }
        self.send_packet(now.now, out);
        self.session = self.session.next(self.next_seq - 1);
        self.store.begin_session(self.session);
    }

    /// The session of the present day.
    pub fn session(&self) -> FeedSession {
        self.session
    }

    /// Sends what waits and ends the session.
    pub fn end_session(&mut self, now: ClockReading, out: &mut Outbox) {
        self.send_packet(now.now, out);
        self.ended = true;
        self.heartbeat_ns = self.config.heartbeat_min_ns.max(1);
        self.heartbeat(now.now, out);
    }

    /// A frame for the publisher: a delay report or a repair request. Others are counted.
    pub fn handle_frame(
        &mut self,
        now: ClockReading,
        header: &HopHeader,
        rest: &[u8],
        out: &mut Outbox,
    ) {
        match header.kind {
            FrameKind::Delay => match frame::body::<DelayBody>(rest) {
                Ok((body, samples)) => {
                    if let Some(order) = &mut self.child_sequence {
                        order.learn(header.sender, body.owd_ns);
                    }
                    if self.reducer.handle_delay(now.now, header.sender, &body, samples) {
                        self.hedger.learn(self.reducer.last_samples());
                    }
                }
                _ => self.stats.malformed += 1,
            },
            FrameKind::RepairRequest => match frame::body::<RepairRequestBody>(rest) {
                Ok((body, [])) => self.store.handle_repair_request(header.sender, &body, out),
                _ => self.stats.malformed += 1,
            },
            _ => self.stats.malformed += 1,
        }
    }

    /// A datagram on the feed channel: a MoldUDP64 request of anybody.
    pub fn handle_public_request(
        &mut self,
        now: ClockReading,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.store.handle_public_request(now.now, from, bytes, out);
    }

    /// Handles the timers of linger, heartbeat and all-reduce that are due.
    pub fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.flush(now, out);
        if self.reducer.handle_timeout(now.now) {
            self.hedger.learn(self.reducer.last_samples());
        }
        if self.heartbeat_at <= now.now {
            self.heartbeat(now.now, out);
        }
    }

    /// Next time at which [`Publisher::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Nanos {
        let linger = match self.count {
            0 => Nanos::NEVER,
            _ => self.flush_from,
        };
        linger.min(self.heartbeat_at).min(self.reducer.next_timeout())
    }

    fn send_packet(&mut self, now: Nanos, out: &mut Outbox) {
        if self.count == 0 {
            return;
        }
        self.flush_from = now.after(self.config.linger_ns);
        let seq = self.next_seq - u64::from(self.count);
        let header = Header { session: self.session.inside(), seq, count: self.count };
        self.packet[..HEADER_LEN].copy_from_slice(&header.bytes());
        if self.follows {
            let body = self.body(now);
            self.store.keep_unstamped(&body, &self.packet);
            return self.begin_packet();
        }
        let body = self.stamp(now);
        self.store.keep(&body, &self.packet);
        let packet = std::mem::take(&mut self.packet);
        self.send_down(&body, &packet, out);
        self.packet = packet;
        let (point, value) = (TracePoint::Published, body.deadline.0);
        let id = Trace::message(body.stream | self.config.shard.0 << TRACE_SHARD_SHIFT, body.id);
        out.trace(Trace { point, node: ROOT, id, at: body.t_sent, value });
        let parity_due = self.parity.as_mut().is_some_and(|p| p.add(&body, &self.packet));
        if parity_due {
            self.send_parity(now, out);
        }
        self.begin_packet();
        self.stats.deadlines += u64::from(body.deadline != Nanos(0));
        self.heartbeat_ns = self.config.heartbeat_min_ns.max(1);
        self.heartbeat_at = now + self.heartbeat_ns;
    }

    /// The packet that was filled has been dealt with.
    fn begin_packet(&mut self) {
        self.packet.truncate(HEADER_LEN);
        self.count = 0;
        self.stats.datagrams += 1;
    }

    fn send_parity(&mut self, now: Nanos, out: &mut Outbox) {
        let body = DataBody { flags: DATA_PARITY, ..self.body(now) };
        let Some(mut parity) = self.parity.take() else { return };
        self.send_down(&body, parity.take(body.id), out);
        self.parity = Some(parity);
        self.stats.parities += 1;
    }

    fn stamp(&mut self, now: Nanos) -> DataBody {
        let mut body = self.body(now);
        let owd_ns = self.reducer.owd_g(now);
        let bound_ns = match self.reducer.bound_ns() {
            0 => self.bound_ns,
            reported => reported,
        };
        let bound_ns = bound_ns.min(u64::from(u32::MAX));
        // Without an estimate nothing is held, but for what was stamped before.
        if owd_ns.is_some() || self.last_release > now {
            let due = now.after(owd_ns.map_or(0, |owd_ns| owd_ns + bound_ns));
            self.last_release = self.last_release.max(due);
            body.bound_ns = bound_ns as u32;
            body.deadline = Nanos(self.last_release.since(Nanos(bound_ns)));
        }
        body
    }

    fn heartbeat(&mut self, now: Nanos, out: &mut Outbox) {
        let count = if self.ended { END_OF_SESSION } else { 0 };
        // Messages that still linger have not been sent: they are not missing yet.
        let seq = self.next_seq - u64::from(self.count);
        let header = Header { session: self.session.inside(), seq, count };
        let body = self.body(now);
        self.send_down(&body, &header.bytes(), out);
        self.stats.heartbeats += 1;
        self.heartbeat_at = now + self.heartbeat_ns;
        self.heartbeat_ns = (2 * self.heartbeat_ns).min(self.config.heartbeat_max_ns.max(1));
    }

    fn body(&mut self, now: Nanos) -> DataBody {
        let id = self.next_id;
        self.next_id += 1;
        let stream = self.tree.stream;
        DataBody {
            id,
            t_sent: now,
            deadline: Nanos(0),
            bound_ns: 0,
            stream,
            hedge: self.hedger.stamp(id),
            flags: 0,
        }
    }

    fn send_down(&mut self, body: &DataBody, packet: &[u8], out: &mut Outbox) {
        let header = HopHeader::new(FrameKind::Data, ROOT, self.tree.epoch);
        let span = out.write(|buffer| frame::encode(buffer, header, body, packet));
        let mut send = |child| out.datagram(Channel::OVERLAY, Peer::Node(child), span);
        if !self.routes.is_empty() {
            self.routes.children(&self.tree, ROOT, body.id, body.hedge, &mut self.detoured);
            self.detoured.iter().copied().for_each(send);
            return;
        }
        let children = self.tree.children_stamped(ROOT, body.id, body.hedge);
        match &mut self.child_sequence {
            Some(order) => order.arrange(children).iter().copied().for_each(send),
            None => children.for_each(&mut send),
        }
    }
}

/// When messages are public, between a publisher and those who follow it.
impl Publisher {
    /// Release times as followers have to know them.
    pub fn release(&self, now: Nanos) -> FeedRelease {
        FeedRelease {
            end: self.store.confirmed(),
            release: self.last_release,
            owd_ns: self.reducer.owd_g(now).unwrap_or(0),
            bound_ns: self.reducer.bound_ns(),
        }
    }

    /// Begins to follow another publisher: sends nothing, and knows only release times it is told
    /// or has stamped.
    pub fn follow(&mut self) {
        self.follows = true;
        self.store.follow();
    }

    /// One past the last message that was sent.
    pub fn sent(&self) -> FeedSeq {
        self.store.stamped()
    }

    /// This publisher was the one to publish when it had sent the messages before number `end`.
    /// Whether that is news.
    pub fn confirm(&mut self, end: FeedSeq) -> bool {
        let before = self.store.confirmed();
        if !self.follows {
            self.store.confirm(end);
        }
        before != self.store.confirmed()
    }

    /// What the one that publishes says. What a publisher hears that does not follow changes
    /// nothing.
    pub fn learn(&mut self, now: ClockReading, told: &FeedRelease) {
        if !self.follows {
            return;
        }
        self.last_release = self.last_release.max(told.release);
        self.told_delay = (told.owd_ns, told.bound_ns);
        // Two clocks: neither is further off than its bound.
        let bound_ns = told.bound_ns.max(now.bound_ns).min(u64::from(u32::MAX));
        let deadline = told.release.since(Nanos(told.bound_ns)).max(1);
        self.store.stamp(told.end.0, Nanos(deadline), bound_ns as u32);
    }

    /// It publishes from now on. What it was not told of may have been sent just before: it is held
    /// as long as the largest delay and the largest clock bounds that are believed, and so is what
    /// follows. The fleet's delay is what the one before said, until reports come. One of `several`
    /// may be succeeded without hearing of it: the public gets what it sends when that is
    /// confirmed.
    pub fn take_over(&mut self, now: ClockReading, several: bool) {
        self.follows = false;
        if several {
            self.store.await_confirmation();
        }
        let (owd_ns, told_ns) = std::mem::take(&mut self.told_delay);
        if owd_ns > 0 {
            self.reducer.go_on(now.now, owd_ns, told_ns);
        }
        let bound_ns = told_ns.max(now.bound_ns).min(u64::from(u32::MAX));
        self.bound_ns = bound_ns;
        if self.store.has_unstamped() || self.count > 0 {
            let limits = self.config.delay;
            let longest_ns = limits.owd_max_ns + limits.bound_max_ns.max(bound_ns) + now.bound_ns;
            self.last_release = self.last_release.max(now.now.after(longest_ns));
            // What still waits in the packet is stamped when it leaves.
            let end = self.next_seq - u64::from(self.count);
            let deadline = self.last_release.since(Nanos(bound_ns)).max(1);
            self.store.stamp(end, Nanos(deadline), bound_ns as u32);
        }
    }
}

/// A publisher's state, packed and unpacked: numbers, the unfinished packet, and the retransmission
/// store, most of it in a spill store. What the tree tells it (delays, dead nodes, hedging, an open
/// parity group) is not packed: a restored publisher hears it anew.
impl Publisher {
    /// Bytes of one put in the spill store.
    pub const SPILL_BLOCK: usize = BLOCK;

    /// Spills what the retransmission store keeps as it comes. False when it keeps something
    /// already.
    #[must_use]
    pub fn spill_to(&mut self, spill: Box<dyn SpillStore>) -> bool {
        self.store.spill_to(spill)
    }

    /// Writes down what is not in the spill store. False without one, or while that takes nothing.
    #[must_use]
    pub fn pack(&self, to: &mut Packer<'_>) -> bool {
        to.u64(self.next_seq);
        to.u64(self.next_id);
        to.u64(self.flush_from.0);
        to.u64(self.last_release.0);
        let stats = self.stats;
        let PublisherStats { messages, datagrams, heartbeats, parities, deadlines, malformed } =
            stats;
        for count in [messages, datagrams, heartbeats, parities, deadlines, malformed] {
            to.u64(count);
        }
        to.u32(self.count.into());
        to.section(|bytes| bytes.extend_from_slice(self.packet.get(HEADER_LEN..).unwrap_or(&[])));
        self.store.pack_sessions(to);
        self.store.pack(to)
    }

    /// Restores a packed publisher before anything was published, with its spill store. `None`,
    /// after which it must not be used, when the bytes are no packed publisher.
    #[must_use]
    pub fn unpack(&mut self, from: &mut Unpacker<'_>) -> Option<()> {
        let bounded = |number: u64| Some(number).filter(|number| *number < NUMBER_MAX);
        let (next_seq, next_id) = (bounded(from.u64()?)?, bounded(from.u64()?)?);
        (self.flush_from, self.last_release) = (Nanos(from.u64()?), Nanos(bounded(from.u64()?)?));
        let mut counts = [0; 6];
        for count in &mut counts {
            *count = bounded(from.u64()?)?;
        }
        let [messages, datagrams, heartbeats, parities, deadlines, malformed] = counts;
        self.stats =
            PublisherStats { messages, datagrams, heartbeats, parities, deadlines, malformed };
        let count = u16::try_from(from.u32()?).ok().filter(|count| *count < END_OF_SESSION)?;
        let filling = from.section()?;
        let fits = HEADER_LEN + filling.len() <= self.config.packet_max;
        if !fits || (count == 0) != filling.is_empty() || next_seq <= u64::from(count) {
            return None;
        }
        self.packet.truncate(HEADER_LEN);
        self.packet.extend_from_slice(filling);
        (self.count, self.next_seq, self.next_id) = (count, next_seq, next_id);
        self.session = self.store.unpack_sessions(from)?;
        if self.session.base() >= next_seq {
            return None;
        }
        self.store.unpack(from, next_seq - u64::from(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{feed::mold::Packet, tree::topology::Topology};
    use proptest::prelude::*;
    use types::{NodeId, Op};
    use zerocopy::IntoBytes;

    const SESSION: Session = *b"FAIRBELL01";
    const ROUND: u64 = 50 * Nanos::MILLI;

    fn publisher(config: PublisherConfig) -> Publisher {
        let topology = Topology::new(2, 3, 9).unwrap();
        let tree = Tree { topology, hedge: 1, dynamic: true, epoch: 4, stream: 0, round_ns: ROUND };
        Publisher::new(tree, config)
    }

    fn at(now: u64) -> ClockReading {
        ClockReading { now: Nanos(now), bound_ns: 0 }
    }

    /// What went to node 1.
    fn sent(out: &Outbox) -> Vec<(DataBody, Vec<u8>)> {
        let to_first = |op: &Op| match *op {
            Op::Datagram { to: Peer::Node(NodeId(1)), bytes, .. } => {
                let (header, rest) = HopHeader::read(out.bytes(bytes)).unwrap();
                assert_eq!((header.kind, header.epoch), (FrameKind::Data, 4));
                let (body, payload) = frame::body::<DataBody>(rest).unwrap();
                Some((body, payload.to_vec()))
            }
            _ => None,
        };
        out.ops().iter().filter_map(to_first).collect()
    }

    fn report(publisher: &mut Publisher, now: ClockReading, owd_ns: u64, bound_ns: u64) {
        for node in 1..=3 {
            let header = HopHeader::new(FrameKind::Delay, NodeId(node), 4);
            let round = now.now.0 / ROUND;
            let body = DelayBody { round, owd_ns, bound_ns, receivers: 3, stream: 0, samples: 0 };
            publisher.handle_frame(now, &header, body.as_bytes(), &mut Outbox::default());
        }
    }

    #[test]
    fn messages_of_one_flush_share_a_datagram_and_never_split() {
        let mut publisher = publisher(PublisherConfig::new(SESSION));
        let mut out = Outbox::default();
        for seq in 1..=100u64 {
            assert_eq!(publisher.push_message(at(5), &[9; 38], &mut out), Ok(FeedSeq(seq)));
        }
        publisher.flush(at(5), &mut out);
        publisher.flush(at(5), &mut out);
        let sent = sent(&out);
        let counts: Vec<_> =
            sent.iter().map(|(_, bytes)| Packet::parse(bytes).unwrap().messages()).collect();
        assert_eq!(counts, [33, 33, 33, 1], "33 x 40 bytes fit into a packet");
        assert!(sent.iter().all(|(body, _)| body.deadline == Nanos(0)), "no estimate, no deadline");
        assert_eq!(out.ops().len(), 12, "three children each");
        assert_eq!(out.traces().len(), 4);
        assert_eq!(publisher.push_message(at(5), &[0; 1_351], &mut out), Err(PushError::TooLong));
        assert_eq!(publisher.feed_next(), FeedSeq(101));
    }

    #[test]
    fn deadlines_follow_the_estimate_and_release_times_never_run_backwards() {
        let mut publisher = publisher(PublisherConfig::new(SESSION));
        let mut out = Outbox::default();
        let start = 10 * ROUND;
        report(&mut publisher, at(start), 400_000, 1_000);
        publisher.push_message(at(start), b"a", &mut out).unwrap();
        publisher.flush(at(start), &mut out);
        // The estimate falls while that datagram is on its way.
        let later = start + ROUND;
        report(&mut publisher, at(later), 100_000, 50);
        publisher.push_message(at(later), b"b", &mut out).unwrap();
        publisher.flush(at(later), &mut out);
        let sent = sent(&out);
        assert_eq!(sent[0].0.deadline, Nanos(start + 400_000));
        assert_eq!((sent[1].0.deadline, sent[1].0.bound_ns), (Nanos(later + 100_000), 50));
        report(&mut publisher, at(later + ROUND), 90_000, 0);
        out.clear();
        for now in [later + ROUND, later + ROUND + 1] {
            publisher.push_message(at(now), b"c", &mut out).unwrap();
            publisher.flush(at(now), &mut out);
        }
        let releases: Vec<_> = self::sent(&out)
            .iter()
            .map(|(body, _)| body.deadline + u64::from(body.bound_ns))
            .collect();
        assert!(releases.is_sorted());
    }

    #[test]
    fn an_idle_publisher_says_where_the_feed_stands_ever_less_often() {
        let mut publisher = publisher(PublisherConfig::new(SESSION));
        let mut out = Outbox::default();
        publisher.push_message(at(0), b"a", &mut out).unwrap();
        publisher.flush(at(0), &mut out);
        let mut times = Vec::new();
        while times.len() < 10 {
            let now = publisher.next_timeout();
            out.clear();
            publisher.handle_timeout(at(now.0), &mut out);
            let sent = sent(&out);
            assert_eq!(Packet::parse(&sent[0].1).unwrap().header.seq, 2);
            assert!(out.traces().is_empty());
            times.push(now.0 / Nanos::MILLI);
        }
        assert_eq!(times, [1, 2, 4, 8, 16, 32, 64, 128, 228, 328]);
        out.clear();
        publisher.end_session(at(400 * Nanos::MILLI), &mut out);
        assert!(Packet::parse(&sent(&out)[0].1).unwrap().is_end_of_session());
        assert_eq!(publisher.push_message(at(0), b"a", &mut out), Err(PushError::SessionOver));
    }

    #[test]
    fn a_lone_message_leaves_at_once_and_those_behind_it_share_a_datagram() {
        let config = PublisherConfig {
            linger_ns: 2 * Nanos::MILLI,
            heartbeat_min_ns: Nanos::MILLI,
            ..PublisherConfig::new(SESSION)
        };
        let (mut publisher, mut out) = (publisher(config), Outbox::default());
        publisher.push_message(at(1), b"a", &mut out).unwrap();
        publisher.flush(at(1), &mut out);
        assert_eq!(Packet::parse(&sent(&out)[0].1).unwrap().messages(), 1);
        out.clear();
        publisher.push_message(at(2), b"b", &mut out).unwrap();
        publisher.flush(at(2), &mut out);
        assert!(out.is_empty());
        // What waits is no gap.
        publisher.handle_timeout(at(1 + Nanos::MILLI), &mut out);
        let heartbeats = sent(&out);
        assert_eq!(heartbeats.len(), 1);
        assert!(heartbeats.iter().all(|(_, bytes)| Packet::parse(bytes).unwrap().end() == 2));
        out.clear();
        assert_eq!(publisher.next_timeout(), Nanos(1 + 2 * Nanos::MILLI));
        publisher.push_message(at(2 * Nanos::MILLI), b"c", &mut out).unwrap();
        publisher.handle_timeout(at(1 + 2 * Nanos::MILLI), &mut out);
        assert_eq!(Packet::parse(&sent(&out)[0].1).unwrap().messages(), 2);
    }

    #[test]
    fn a_later_term_has_later_ids_and_says_where_the_feed_stands() {
        let mut publisher = publisher(PublisherConfig::new(SESSION));
        let mut out = Outbox::default();
        publisher.push_message(at(0), b"a", &mut out).unwrap();
        publisher.flush(at(0), &mut out);
        publisher.handle_timeout(at(100 * Nanos::MILLI), &mut out);
        let last = sent(&out).last().map(|(body, _)| body.id);
        publisher.begin_term(3);
        out.clear();
        assert_eq!(publisher.next_timeout(), Nanos(0));
        publisher.handle_timeout(at(100 * Nanos::MILLI + 1), &mut out);
        let told = sent(&out);
        assert!(Some(told[0].0.id) > last && told[0].0.id == 3 << TERM_SHIFT | 1);
        assert_eq!(Packet::parse(&told[0].1).unwrap().header.seq, 2);
        // An earlier one changes nothing.
        publisher.begin_term(2);
        out.clear();
        publisher.push_message(at(101 * Nanos::MILLI), b"b", &mut out).unwrap();
        publisher.flush(at(101 * Nanos::MILLI), &mut out);
        assert_eq!(sent(&out)[0].0.id, 3 << TERM_SHIFT | 2);
    }

    proptest! {
        #[test]
        fn arbitrary_frames_never_panic(
            kind in 1u8..13,
            sender in any::<u16>(),
            rest in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut publisher = publisher(PublisherConfig::new(SESSION));
            let mut out = Outbox::default();
            let mut bytes = HopHeader::new(FrameKind::Data, NodeId(sender), 4).as_bytes().to_vec();
            bytes[1] = kind;
            bytes.extend(rest);
            let (header, rest) = HopHeader::read(&bytes).unwrap();
            publisher.handle_frame(at(5), &header, rest, &mut out);
            publisher.handle_public_request(at(5), Peer::Addr(1), rest, &mut out);
            publisher.handle_timeout(at(6), &mut out);
        }
    }
}
