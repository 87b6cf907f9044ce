//! A receiver of market data: first copy wins, hold until the common deadline, hand on in feed
//! sequence, exactly once; gaps are repaired from the retransmission server (corners 12 to 15).
//!
//! A datagram is handed on, as the MoldUDP64 packet it carries, to one peer on the feed channel
//! when everything before it has been and the receiver's own clock reads deadline + bound (no
//! deadline: at once). The bound is the fleet's, so all wait the same. [`Receiver::watermark`] is
//! the last message handed on; the embedding role compares it before and after a call.
//!
//! After its time a datagram leaves `late_self` when it came too late itself, `late_blocked` when
//! it waited for an earlier one. Gaps are asked for after a wait that follows the spread of copies.
//! A receiver that hears nothing from the tree for `silence_ns` asks what it misses: with no hedge
//! and a dead parent there is nobody else to tell it. Once a round it reports its delay estimate.
//!
//! What the server no longer has, and gaps longer than a limit, are jumped over: see
//! [`crate::skip`].
//!
//! Not guaranteed: anything against forged datagrams, which are to be refused before they get here.
//! A deadline further away than `hold_limit_ns` is taken as a mistake and cut to that, counted.

use types::{
    Channel, ClockReading, FeedSeq, Nanos, NodeId, Outbox, Peer, SplitMix64, TRACE_SHARD_SHIFT,
    Trace, TracePoint,
    limits::{DUPLICATE_FILTER_SLOTS, HOLD_MAX},
};
use zerocopy::IntoBytes;

use crate::{
    control::StatusBody,
    deadline::delay::{OwdEstimator, PERMILLE},
    deadline::hold::{Fields, HoldBuffer, Insert},
    deadline::samples::ReceiverSamples,
    emit,
    feed::duplicate_filter::{Arrival, DuplicateFilter, FilterStats},
    feed::feed_session::FeedSession,
    feed::gaps::{Gaps, Spread},
    feed::mold::{END_OF_SESSION, HEADER_LEN, Header, Packet, Session},
    feed::parity::ParityDecoder,
    feed::retransmission::REPAIR_DATAGRAMS_MAX,
    feed::skip::{Skip, SkipStats},
    feed::subscribers::Subscribers,
    frame::{
        self, DATA_OLDEST, DATA_PARITY, DataBody, DelayBody, FrameKind, HopHeader,
        RepairRequestBody,
    },
    tree::topology::{ROOT, Tree},
    tree::tree_position::TreePosition,
};

/// Requests sent per timeout at most.
const REQUESTS_MAX: usize = 8;
/// First copies whose arrival times are remembered for the spread, at most; no more than the filter
/// spans.
const ARRIVALS: usize = 1_024;
/// A packet further ahead of the last release than this is not believed.
const AHEAD_MAX: u64 = 1 << 32;

/// Settings of a receiver: what it takes, holds and repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverConfig {
    /// Name of the stream's first MoldUDP64 session; others are refused.
    pub session: Session,
    /// Address to which released packets are sent.
    pub feed: Peer,
    /// What its datagrams to other nodes leave by.
    pub channel: Channel,
    /// Position of the first message to hand on.
    pub first: FeedSeq,
    /// Number of ids that the duplicate filter spans.
    pub filter_slots: usize,
    /// Most datagrams that are held at a time.
    pub hold_max: usize,
    /// Longest hold of a datagram, in ns.
    pub hold_limit_ns: u64,
    /// Delays the estimate is taken over.
    pub owd_window: usize,
    /// Part of each thousand of them that the estimate covers.
    pub owd_permille: u32,
    /// Shortest wait before a gap is asked for, in ns.
    pub gap_min_ns: u64,
    /// Longest wait before a gap is asked for, in ns.
    pub gap_max_ns: u64,
    /// Least time between two requests for one gap, in ns; or twice the delay estimate.
    pub retry_ns: u64,
    /// Most time between two requests for one gap, in ns.
    pub retry_max_ns: u64,
    /// Silence of the tree after which the server is asked, in ns; longer than the publisher's
    /// heartbeat distance.
    pub silence_ns: u64,
    /// Messages of a round whose delays are reported one by one; as `DelayLimits::samples`.
    pub samples: usize,
    /// Whether a gap is first asked for at the proxies above, then at the server.
    pub ask_parents: bool,
    /// A gap is waited for up to so much longer, differently by receiver, in ns: what all miss is
    /// not asked for by all at once.
    pub gap_jitter_ns: u64,
    /// Whether the publisher sends parity blocks, and this receiver uses them.
    pub parity: bool,
    /// Whether anything is asked for at all; off only to show what would be missing.
    pub repairs: bool,
    /// A gap of more messages is jumped over; 0: none is.
    pub skip_gap: u64,
    /// Largest clock bound, ns, with which others wait for it; beyond, it is in quarantine.
    pub bound_max_ns: u64,
}

impl ReceiverConfig {
    /// The defaults for `session`, releasing to `feed`.
    pub fn new(session: Session, feed: Peer) -> ReceiverConfig {
        ReceiverConfig {
            session,
            feed,
            channel: Channel::OVERLAY,
            first: FeedSeq(1),
            filter_slots: DUPLICATE_FILTER_SLOTS,
            hold_max: HOLD_MAX,
            hold_limit_ns: Nanos::SECOND,
            owd_window: 1_000,
            owd_permille: PERMILLE,
            gap_min_ns: 200 * Nanos::MICRO,
            gap_max_ns: 5 * Nanos::MILLI,
            retry_ns: Nanos::MILLI,
            retry_max_ns: 100 * Nanos::MILLI,
            silence_ns: 350 * Nanos::MILLI,
            samples: 0,
            ask_parents: false,
            gap_jitter_ns: 0,
            parity: false,
            repairs: true,
            skip_gap: 1 << 20,
            bound_max_ns: u64::MAX,
        }
    }
}

/// What a [`Receiver`] has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverStats {
    /// Copies of market data that came through the tree.
    pub received: u64,
    /// Duplicates, missing copies and refusals of those.
    pub filter: FilterStats,
    /// Unreadable datagrams, those of another tree or session, and unbelievable ones.
    pub malformed: u64,
    /// Readable ones that are not for a receiver, or come from where they should not.
    pub unexpected: u64,
    /// Number of heartbeats and end-of-session datagrams.
    pub heartbeats: u64,
    /// Number of packets handed on.
    pub released_packets: u64,
    /// Number of messages handed on.
    pub released_messages: u64,
    /// Sum of the times from arrival to release, in ns.
    pub hold_ns_sum: u64,
    /// Packets handed on after their time because they came late.
    pub late_self: u64,
    /// Packets handed on after their time because an earlier one was missing.
    pub late_blocked: u64,
    /// First copies whose messages were here already, through repair.
    pub superseded: u64,
    /// Number of requests to the retransmission server.
    pub repairs_requested: u64,
    /// Repair datagrams that brought something new.
    pub repairs_filled: u64,
    /// Repair datagrams that came for nothing.
    pub repairs_useless: u64,
    /// Number of requests sent to proxies.
    pub parents_asked: u64,
    /// Parity blocks that made up a missing datagram.
    pub parity_filled: u64,
    /// Datagrams given up because too many were held.
    pub hold_dropped: u64,
    /// Deadlines that were cut to the longest hold.
    pub deadlines_cut: u64,
    /// Counters of messages that were skipped because the receiver was too far behind.
    pub skip: SkipStats,
    /// Rounds in quarantine, in which nothing of this receiver counted for the fleet.
    pub quarantined: u64,
}

/// One receiver, to be embedded in an edge node.
pub struct Receiver {
    tree: Tree,
    node: NodeId,
    config: ReceiverConfig,
    /// Further addresses to which released packets are sent.
    subscribers: Subscribers,
    /// Session of the message handed on last, and the session name that packets in the tree carry.
    session: FeedSession,
    inside: Session,
    filter: DuplicateFilter,
    position: TreePosition,
    /// (id, time) of first copies, by id modulo the length.
    arrivals: Box<[(u64, Nanos)]>,
    spread: Spread,
    hold: HoldBuffer,
    gaps: Gaps,
    owd: OwdEstimator,
    samples: ReceiverSamples,
    parity: Option<ParityDecoder>,
    /// First message not yet handed on.
    next: u64,
    /// When everything handed on so far had arrived.
    ready_at: Nanos,
    /// A heartbeat or end of session to pass on once everything before it is.
    notice: Option<Header>,
    report_at: Nanos,
    silent_at: Nanos,
    /// The tree was silent and has not been heard since.
    probing: bool,
    /// Repair datagrams since the last request.
    repaired: u64,
    /// The tree of the next epoch, until it begins.
    prepared: Option<Tree>,
    /// Earliest time at which something may be due.
    wake: Nanos,
    /// Filter of the last epoch, for what is still on its way.
    former: Option<DuplicateFilter>,
    skip: Skip,
    stats: ReceiverStats,
}

impl Receiver {
    /// The receiver `node` of `tree`; its first timeout is due at once.
    pub fn new(tree: Tree, node: NodeId, config: ReceiverConfig) -> Receiver {
        let copies = tree.copies(node);
        let arrivals = config.filter_slots.next_power_of_two().clamp(64, ARRIVALS);
        Receiver {
            tree,
            node,
            config,
            subscribers: Subscribers::of(config.feed),
            session: FeedSession::first(config.session),
            inside: config.session,
            filter: DuplicateFilter::new(config.filter_slots, tree.epoch, copies),
            position: TreePosition::new(&tree, node),
            arrivals: vec![(0, Nanos(0)); arrivals].into_boxed_slice(),
            spread: Spread::default(),
            hold: HoldBuffer::new(config.hold_max),
            gaps: Gaps::new(config.first.0),
            owd: OwdEstimator::new(config.owd_window, config.owd_permille),
            samples: ReceiverSamples::new(config.samples, tree.round_ns),
            parity: config.parity.then(ParityDecoder::new),
            next: config.first.0,
            ready_at: Nanos(0),
            notice: None,
            report_at: Nanos(0),
            silent_at: Nanos(0),
            probing: false,
            repaired: 0,
            prepared: None,
            wake: Nanos(0),
            former: None,
            skip: Skip::new(config.skip_gap),
            stats: ReceiverStats::default(),
        }
    }

    /// What was counted since the start.
    pub fn stats(&self) -> ReceiverStats {
        ReceiverStats { filter: self.filter.stats(), skip: self.skip.stats(), ..self.stats }
    }

    /// Position of the last message handed on.
    pub fn watermark(&self) -> FeedSeq {
        FeedSeq(self.next.saturating_sub(1))
    }

    /// The last message that receivers are free to hand on at `now`, as far as is known here: also
    /// while this one waits for an earlier one, because release times rise with the feed.
    pub fn public(&self, now: Nanos) -> FeedSeq {
        let due = self.hold.end_of_due(now).unwrap_or(0);
        FeedSeq(self.next.max(due).saturating_sub(1))
    }

    /// Number of datagrams that are held.
    pub fn held(&self) -> usize {
        self.hold.len()
    }

    /// Whether messages known to have been sent are missing.
    pub fn has_gap(&self) -> bool {
        !self.gaps.list().is_empty()
    }

    /// Whether it has heard the feed at all. Until then it does not know what it misses.
    pub fn has_heard(&self) -> bool {
        self.stats.received > 0
    }

    /// Tells the receiver the tree of a later epoch, in which it has the same number; see
    /// `Proxy::prepare`. The feed goes on by its own sequence numbers: nothing is lost, repeated or
    /// reordered by the change. A tree in which it is no receiver is none for it.
    pub fn prepare(&mut self, tree: Tree) {
        if tree.epoch > self.status().known && tree.topology.is_receiver(self.node) {
            self.prepared = Some(tree);
        }
    }

    /// The tree of the epoch it lives in.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// What it knows of epochs, in answer to a call of the root.
    pub fn status(&self) -> StatusBody {
        let (present, next) = (self.filter.epoch(), self.prepared.as_ref());
        StatusBody { known: next.map_or(self.tree.epoch, |tree| tree.epoch), present }
    }

    /// The MoldUDP64 session that it releases: that of the packet handed on last.
    pub fn session(&self) -> [u8; 10] {
        self.session.name()
    }

    /// The number in its session of the message that is handed on next.
    pub fn session_next(&self) -> u64 {
        self.next.saturating_sub(self.session.base()).max(1)
    }

    /// Further addresses to which released packets are sent.
    pub fn subscribers(&mut self) -> &mut Subscribers {
        &mut self.subscribers
    }

    /// How long a gap noticed now would be waited for before it is asked for, in ns.
    pub fn gap_wait_ns(&self) -> u64 {
        let wait_ns = self.spread.estimate_ns().saturating_mul(2);
        let wait_ns = wait_ns.min(self.config.gap_max_ns).max(self.config.gap_min_ns);
        match self.config.gap_jitter_ns {
            0 => wait_ns,
            jitter_ns => {
                let place = u64::from(self.node.0) << 32 | self.next & 0xFFFF_FFFF;
                wait_ns + SplitMix64::mix(place) % jitter_ns
            }
        }
    }

    /// A frame for the receiver: market data or a repair. Others are counted.
    pub fn handle_frame(
        &mut self,
        now: ClockReading,
        header: &HopHeader,
        rest: &[u8],
        out: &mut Outbox,
    ) {
        if !matches!(header.kind, FrameKind::Data | FrameKind::Repair) {
            self.stats.unexpected += 1;
            return;
        }
        match frame::body::<DataBody>(rest) {
            Ok((body, packet)) if body.stream == self.tree.stream => {
                self.handle_data(now, header, &body, packet, out);
            }
            _ => self.stats.malformed += 1,
        }
    }

    /// Market data or a repair, already taken apart: `packet` is the MoldUDP64 packet.
    pub fn handle_data(
        &mut self,
        now: ClockReading,
        header: &HopHeader,
        body: &DataBody,
        packet: &[u8],
        out: &mut Outbox,
    ) {
        let fresh = match header.kind {
            FrameKind::Repair if self.lives_in(header.epoch) && self.asks(header.sender) => true,
            FrameKind::Data => self.first_copy(now.now, header, body),
            _ => {
                self.stats.unexpected += 1;
                false
            }
        };
        if fresh && header.kind == FrameKind::Repair && body.flags & DATA_OLDEST != 0 {
            self.handle_oldest(now.now, header.sender, body, packet, out);
        } else if fresh && body.flags & DATA_PARITY != 0 {
            self.handle_parity(now.now, body, packet, out);
        } else if fresh {
            if let Some(parity) = self.parity.as_mut().filter(|_| header.kind == FrameKind::Data) {
                parity.saw(body, packet);
            }
            self.take(now.now, body, packet, header.kind == FrameKind::Repair, out);
            self.release(now.now, out);
        }
        if fresh {
            self.wake = self.due();
        }
    }

    /// Releases what is due, asks for what is missing, reports the delay estimate.
    pub fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.silent_at == Nanos(0) {
            self.silent_at = now.now + self.config.silence_ns;
        }
        self.release(now.now, out);
        if self.config.repairs {
            self.ask(now.now, out);
        }
        if self.report_at <= now.now {
            self.report(now, out);
        }
        self.wake = self.due();
    }

    /// Next time at which [`Receiver::handle_timeout`] has something to do.
    #[inline]
    pub fn next_timeout(&self) -> Nanos {
        self.wake
    }

    /// [`Receiver::next_timeout`], worked out: after everything but a copy that changes nothing.
    fn due(&self) -> Nanos {
        let due = match self.hold.front() {
            Some(front) if front.seq <= self.next => front.release_at,
            _ => self.jump().map_or(Nanos::NEVER, |(_, at)| at),
        };
        let ask = match self.config.repairs {
            true => self.gaps.next_ask().min(self.silent_at),
            false => Nanos::NEVER,
        };
        due.min(ask).min(self.report_at)
    }

    /// Whether that epoch is the present one, a later one, or the one that has just ended.
    fn lives_in(&self, epoch: u32) -> bool {
        let former = || self.former.as_ref().is_some_and(|former| former.epoch() == epoch);
        epoch >= self.filter.epoch() || former()
    }

    /// Whether that node may answer requests of this receiver.
    fn asks(&self, server: NodeId) -> bool {
        let parent = || self.tree.topology.is_above(server, self.node);
        server == ROOT || (self.config.ask_parents && parent())
    }

    /// A parity block: makes up what it covers if exactly one datagram of that is missing.
    fn handle_parity(&mut self, now: Nanos, body: &DataBody, block: &[u8], out: &mut Outbox) {
        let Some(mut parity) = self.parity.take() else { return };
        if let Some((made, packet)) = parity.complete(body, block) {
            self.stats.parity_filled += 1;
            self.take(now, &made, packet, true, out);
            self.release(now, out);
        }
        self.parity = Some(parity);
    }

    /// Messages known to have been sent and not handed on. A snapshot beats repair once this is
    /// more than the retransmission server keeps, or than `snapshot / repairs per second` can win
    /// back.
    pub fn behind(&self) -> u64 {
        self.gaps.known_end().saturating_sub(self.next)
    }

    fn first_copy(&mut self, now: Nanos, header: &HopHeader, body: &DataBody) -> bool {
        self.stats.received += 1;
        if let Some(tree) = self.prepared.take_if(|tree| tree.epoch == header.epoch) {
            let copies = tree.copies(self.node);
            let filter = DuplicateFilter::new(self.config.filter_slots, tree.epoch, copies)
                .counting_on(self.filter.stats());
            let former = std::mem::replace(&mut self.filter, filter);
            self.former = (former.epoch() < tree.epoch).then_some(former);
            self.position = TreePosition::new(&tree, self.node);
            self.tree = tree;
        }
        if let Some(former) = self.former.as_mut().filter(|f| f.epoch() == header.epoch) {
            return former.accept(header.epoch, body.id, None) == Arrival::First;
        }
        let (parent, copies) = self.position.parent(&self.tree, body.id, body.hedge, header.sender);
        let span = self.arrivals.len() - 1;
        let arrival = &mut self.arrivals[body.id as usize & span];
        match self.filter.accept_one_of(header.epoch, body.id, parent, copies) {
            Arrival::First => {
                *arrival = (body.id, now);
                self.owd.sample(now - body.t_sent);
                self.silent_at = now + self.config.silence_ns;
                self.probing = false;
                true
            }
            Arrival::Duplicate => {
                if arrival.0 == body.id {
                    self.spread.sample(now - arrival.1);
                }
                false
            }
            Arrival::TooOld | Arrival::StaleEpoch => false,
        }
    }

    /// A copy of market data that had come before was dropped in front of the receiver at `came`: it counts
    /// as if it had come.
    pub fn note_copy(&mut self, came: Nanos, header: &HopHeader, body: &DataBody) {
        if body.stream != self.tree.stream || header.epoch != self.filter.epoch() {
            return;
        }
        let (parent, _) = self.position.parent(&self.tree, body.id, body.hedge, header.sender);
        if !self.filter.note_copy(header.epoch, body.id, parent) {
            return;
        }
        self.stats.received += 1;
        let arrival = self.arrivals[body.id as usize & (self.arrivals.len() - 1)];
        if arrival.0 == body.id {
            self.spread.sample(came.since(arrival.1));
        }
    }

    fn take(&mut self, now: Nanos, body: &DataBody, bytes: &[u8], repair: bool, out: &mut Outbox) {
        let believed = |packet: &Packet| {
            FeedSession::of(&self.config.session, &packet.header.session)
                .is_some_and(|session| session.holds(&packet.header))
                && packet.end() - self.next.min(packet.end()) < AHEAD_MAX
        };
        let Some(packet) = Packet::parse(bytes).filter(believed) else {
            self.stats.malformed += 1;
            return;
        };
        let (seq, end, wait_ns) = (packet.header.seq, packet.end(), self.gap_wait_ns());
        if packet.messages() == 0 {
            self.stats.heartbeats += 1;
            self.gaps.learn(seq, now, wait_ns);
            if self.notice.is_none_or(|notice| notice.count == 0) {
                self.notice = Some(packet.header);
            }
            return;
        }
        let outcome = match end <= self.next {
            true => Insert::Known,
            false => self.hold.insert(&packet, bytes, self.fields(now, body)),
        };
        match outcome {
            Insert::Known if repair => self.stats.repairs_useless += 1,
            Insert::Known => self.stats.superseded += 1,
            Insert::Full => {
                self.stats.hold_dropped += 1;
                self.gaps.reopen(seq, end, now, wait_ns);
                return;
            }
            Insert::Held | Insert::Displaced { .. } => {
                self.stats.repairs_filled += u64::from(repair);
                self.stats.deadlines_cut +=
                    u64::from(body.deadline > now + self.config.hold_limit_ns);
                let stamped = body.deadline != Nanos(0);
                self.samples.arrived(body.id, body.t_sent, now - body.t_sent, stamped);
                self.trace(TracePoint::Arrived, body.id, now, 0, out);
            }
        }
        let closed = self.gaps.fill(seq, end, now, wait_ns);
        if let Insert::Displaced { from, to } = outcome {
            self.stats.hold_dropped += 1;
            self.gaps.reopen(from, to, now, wait_ns);
        }
        if repair {
            // The server answers a request with so many datagrams at most; with the last of them
            // here there is no reason to wait before asking for the rest.
            self.repaired += 1;
            let retry_ns = match self.repaired.is_multiple_of(REPAIR_DATAGRAMS_MAX as u64) {
                true => 0,
                false => self.retry_ns(),
            };
            self.gaps.progress(end, now, retry_ns);
            if self.probing {
                self.silent_at = now + retry_ns;
            }
        } else if let Some(gap) = closed {
            // It was only out of order: wait that long next time.
            self.spread.sample(now - gap.since);
        }
    }

    fn fields(&self, now: Nanos, body: &DataBody) -> Fields {
        let due = body.deadline + u64::from(body.bound_ns);
        let release_at = match body.deadline {
            Nanos(0) => Nanos(0),
            _ => due.min(now + self.config.hold_limit_ns),
        };
        Fields { id: body.id, deadline: body.deadline, release_at, arrived: now }
    }

    fn release(&mut self, now: Nanos, out: &mut Outbox) {
        loop {
            let front = self.hold.front().map(|front| (front.seq, front.end, front.release_at));
            let missing = front.is_none_or(|(seq, end, _)| seq > self.next && end > self.next);
            if missing && self.jump_over(now) {
                continue;
            }
            let Some((seq, end, release_at)) = front else { break };
            let over = end <= self.next;
            if !over && (seq > self.next || release_at > now) {
                break;
            }
            if !over && let Some(session) = self.session_at_front() {
                self.enter(session, out);
            }
            let Some(held) = self.hold.pop() else { break };
            if over {
                continue;
            }
            let session = self.session;
            let span = out.write(|buffer| {
                let start = buffer.len();
                held.append_from(self.next, buffer);
                publish_header(session, buffer, start);
            });
            self.subscribers.hand_on(span, out);
            let stamped = held.deadline != Nanos(0);
            let point = if stamped && held.arrived > held.release_at {
                self.stats.late_self += 1;
                TracePoint::ReleasedLate
            } else if stamped && self.ready_at > held.release_at {
                self.stats.late_blocked += 1;
                TracePoint::ReleasedBlocked
            } else {
                TracePoint::Released
            };
            self.samples.released(held.id, point != TracePoint::Released);
            self.stats.released_packets += 1;
            self.stats.released_messages += held.end - self.next;
            self.stats.hold_ns_sum += now - held.arrived;
            self.ready_at = self.ready_at.max(held.arrived);
            self.next = held.end;
            let (id, value) = (held.id, held.deadline.0);
            self.trace(point, id, now, value, out);
        }
        if let Some(notice) = self.notice.filter(|notice| notice.seq <= self.next) {
            let session = FeedSession::of(&self.config.session, &notice.session);
            if let Some(session) = session.filter(|_| notice.seq == self.next) {
                self.enter(session, out);
                if let Some(told) = self.session.public(notice) {
                    let span = out.store(&told.bytes());
                    self.subscribers.hand_on(span, out);
                }
            }
            self.notice = None;
        }
    }

    /// The session of the first datagram that waits, if it is another one than the last.
    fn session_at_front(&self) -> Option<FeedSession> {
        let (header, _) = Header::read(&self.hold.front()?.packet)?;
        if header.session == self.inside {
            return None;
        }
        FeedSession::of(&self.config.session, &header.session)
    }

    /// Sets the session of the next message. If it follows the last one, that one is over and its
    /// listeners are told.
    fn enter(&mut self, session: FeedSession, out: &mut Outbox) {
        if session == self.session {
            return;
        }
        let before = std::mem::replace(&mut self.session, session);
        self.inside = session.inside();
        if before.next(session.base().max(before.base())) == session
            && self.next == session.base() + 1
        {
            let end = Header { session: before.inside(), seq: self.next, count: END_OF_SESSION };
            if let Some(told) = before.public(end) {
                let span = out.store(&told.bytes());
                self.subscribers.hand_on(span, out);
            }
        }
    }

    fn ask(&mut self, now: Nanos, out: &mut Outbox) {
        let retry_ns = self.retry_ns();
        for _ in 0..REQUESTS_MAX {
            let head = self.gaps.list().first().map(|gap| gap.from);
            let Some(gap) = self.gaps.ask(now, retry_ns, self.config.retry_max_ns) else { break };
            // With no room for more, only what blocks the release is worth asking for.
            if head == Some(gap.from) || !self.hold.is_full() {
                let parents = self.tree.topology.up_candidates(
                    self.node,
                    self.tree.hedge,
                    self.filter.epoch(),
                );
                let turn = gap.asked.saturating_sub(1) as usize;
                let parent = parents.into_iter().nth(turn).filter(|_| self.config.ask_parents);
                self.stats.parents_asked += u64::from(parent.is_some());
                self.request(parent.unwrap_or(ROOT), gap.from, gap.to - gap.from, out);
            }
        }
        if self.silent_at <= now {
            self.probing = true;
            self.silent_at = now + self.config.silence_ns.max(1);
            self.request(ROOT, self.gaps.known_end(), u64::MAX, out);
        }
    }

    fn request(&mut self, server: NodeId, from: u64, count: u64, out: &mut Outbox) {
        let header = HopHeader::new(FrameKind::RepairRequest, self.node, self.filter.epoch());
        let (from, count) = (FeedSeq(from), count.min(u64::from(u32::MAX)) as u32);
        let body = RepairRequestBody { from, count, stream: self.tree.stream, reserved: 0 };
        emit::send_by((out, self.config.channel), server, header, &body, &[]);
        self.repaired = 0;
        self.stats.repairs_requested += 1;
    }

    fn report(&mut self, now: ClockReading, out: &mut Outbox) {
        let round_ns = self.tree.round_ns.max(1);
        let round = now.now.0 / round_ns;
        // Spread over an eighth of the round, or all reports would meet at the proxies at once.
        let index = self.tree.topology.locate(self.node).map_or(0, |(_, index)| index as u64);
        let stagger = round_ns / 8 * index / self.tree.topology.receivers() as u64;
        let first = self.report_at == Nanos(0);
        self.report_at = Nanos((round + 1).saturating_mul(round_ns)) + stagger;
        let Some(owd_ns) = self.owd.close_round().filter(|_| !first) else { return };
        let Some(parent) = self.tree.reduce_parent(self.node, round) else { return };
        let header = HopHeader::new(FrameKind::Delay, self.node, self.filter.epoch());
        let (stream, in_quarantine) = (self.tree.stream, self.in_quarantine(now));
        self.stats.quarantined += u64::from(in_quarantine);
        let (owd_ns, bound_ns) = if in_quarantine { (0, 0) } else { (owd_ns, now.bound_ns) };
        let list = self.samples.report(round);
        let samples = list.len() as u16;
        let body = DelayBody { round, owd_ns, bound_ns, receivers: 1, stream, samples };
        emit::send_by((out, self.config.channel), parent, header, &body, list.as_bytes());
    }

    /// Whether its clock is too uncertain for anybody to wait for it.
    pub fn in_quarantine(&self, now: ClockReading) -> bool {
        now.bound_ns > self.config.bound_max_ns
    }

    fn retry_ns(&self) -> u64 {
        let answer_ns = self.owd.estimate_ns().unwrap_or(0).saturating_mul(2);
        answer_ns.max(self.config.retry_ns).min(self.config.retry_max_ns)
    }

    fn trace(&self, point: TracePoint, id: u64, at: Nanos, value: u64, out: &mut Outbox) {
        // A node that is in several shards tells their messages apart.
        let shard = self.config.channel.shard().map_or(0, |shard| shard.0);
        let id = Trace::message(self.tree.stream | shard << TRACE_SHARD_SHIFT, id);
        out.trace(Trace { point, node: self.node, id, at, value });
    }
}

/// Puts the public header in the place of the one that a packet had in the tree.
fn publish_header(session: FeedSession, buffer: &mut [u8], start: usize) {
    let read = buffer.get(start..).and_then(Header::read).map(|(header, _)| header);
    let told = read.and_then(|header| session.public(header));
    let place = buffer.get_mut(start..start + HEADER_LEN);
    if let (Some(told), Some(place)) = (told, place) {
        place.copy_from_slice(&told.bytes());
    }
}

/// Jumping over what it can't have any more; [`crate::skip`] says when.
impl Receiver {
    /// Number of messages that were jumped over.
    pub fn skipped(&self) -> u64 {
        self.skip.stats().messages
    }

    /// The root says which message is the first it still has.
    fn handle_oldest(
        &mut self,
        now: Nanos,
        sender: NodeId,
        body: &DataBody,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let Some(header) = Packet::parse(bytes).map(|packet| packet.header).filter(|header| {
            let near = header.seq - self.next.min(header.seq) < AHEAD_MAX;
            let ours = FeedSession::of(&self.config.session, &header.session).is_some();
            sender == ROOT && near && ours
        }) else {
            self.stats.malformed += 1;
            return;
        };
        let wait_ns = self.gap_wait_ns();
        self.gaps.learn(header.seq, now, wait_ns);
        self.skip.told(header.seq, self.fields(now, body).release_at);
        self.release(now, out);
    }

    /// Where to go on when what is next will not come, and when.
    fn jump(&self) -> Option<(u64, Nanos)> {
        let held = self.hold.front().map(|front| (front.seq, front.release_at));
        self.skip.target(self.next, held)
    }

    /// Jumps over what will not come, if it is time; true when the first datagram that waits is
    /// next.
    fn jump_over(&mut self, now: Nanos) -> bool {
        while let Some((to, _)) = self.jump().filter(|(_, at)| *at <= now) {
            self.skip.jumped(to - self.next);
            self.gaps.fill(self.next, to, now, 0);
            self.next = to;
            if self.hold.front().is_some_and(|front| front.seq <= to) {
                return true;
            }
        }
        false
    }
}
