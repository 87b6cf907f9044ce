//! What can only be seen while the exchange runs, from outside and with true time at hand.
//!
//! The watch reads every datagram and every stream byte as it is sent, and trusts no node: what is
//! public, when, and what it says come from the root's own frames; what was handed on and what
//! clients were told from the bytes that edges send. From that it checks the order and the time of
//! releases and that no execution precedes its tick, stream by stream, and notes the digest of each
//! stream's bytes.

mod unseen;

use std::collections::{BTreeMap, BTreeSet};

use exchange::ExchangeConfig;
use feed::StreamDigest;
use overlay::{
    aes_gcm::KeySource,
    control::{ControlHeader, ControlKind},
    frame::{self, DATA_OLDEST, DATA_PARITY, DataBody, FrameKind, HopHeader},
    tap::Tap,
    topology::Tree,
};
use types::{Channel, ConnId, Nanos, NodeId};
use wire::{
    glimpse::EndOfSnapshot,
    itch::{self, Message},
    moldudp::{self, Packet},
    ouch::{self, Outbound},
    soupbin::{Framer, SERVER_PACKET_MAX, ServerPacket},
};

use super::{
    child_set::{ChildSets, Copy},
    early::{Early, On, Outlet},
    report::{Checker, Failures},
    timings::Delivery,
};
use crate::world::{Sent, Written};

/// One datagram of market data as the root published it.
#[derive(Clone, Copy)]
struct Published {
    seq: u64,
    end: u64,
    deadline: Nanos,
    bound_ns: u64,
}

/// One stream of the feed.
struct Stream {
    session: [u8; 10],
    child_sets: ChildSets,
    last_id: u64,
    published: Vec<Published>,
    /// What became of each of them.
    deliveries: Vec<Delivery>,
    digest: StreamDigest,
    /// Where there are several roots: what was published while something before it was known to the
    /// root that published it alone, by its first number; the time, and the datagram.
    ahead: BTreeMap<u64, (Nanos, Vec<u8>)>,
    /// All messages, in order, from number 1 on.
    messages: Vec<Box<[u8]>>,
    last_match: u64,
}

impl Stream {
    fn end(&self) -> u64 {
        self.published.last().map_or(1, |last| last.end)
    }
}

/// Where a message is: its stream, and its number there.
type At = (usize, u64);

/// What an edge has done so far.
#[derive(Default)]
struct Edge {
    /// By stream: the next message to be handed on in its present life.
    next: Vec<u64>,
    /// And in all its lives.
    furthest: Vec<u64>,
    /// By stream: the root told its present life that nothing before this message is kept any more.
    lost_before: Vec<u64>,
    /// Its deliveries count for what others have of the exchange.
    honest: bool,
    /// The smallest of: release, by true time, less what it had to wait for.
    margin_ns: i64,
    /// By its own clock: how much too early at worst, and which message that was.
    early: (u64, u64),
}

/// The watch over one run.
pub struct Watch {
    root: usize,
    /// The publisher and the proxies have lower numbers than this.
    first_edge: usize,
    edges: BTreeMap<usize, Edge>,
    streams: Vec<Stream>,
    /// The first message that prints each trade, by match number.
    prints: BTreeMap<u64, At>,
    /// Each uncrossing, by its number, which follows those of its trades.
    crosses: BTreeMap<u64, At>,
    sessions: BTreeMap<(usize, ConnId), Framer>,
    /// What opens datagrams between nodes; none where they are in clear.
    tap: Option<Tap<KeySource>>,
    /// Stream and number of messages that an edge handed on and no root was seen to send.
    unseen: BTreeSet<(usize, u64)>,
    /// Nodes that the sender of the datagram which is looked at can seal to, as bits.
    reached: u64,
    /// Roots serve in turn: one may publish what comes after messages that the one before it had
    /// not sent, and that whoever misses them has to ask for.
    several_roots: bool,
    /// Who serves snapshots, and of which stream in which connection.
    snapshots: Option<usize>,
    snapshot_of: BTreeMap<ConnId, Option<usize>>,
    /// Who listens over FIX, and what the last bytes to it in each connection were.
    eavesdropper: Option<usize>,
    fix: BTreeMap<(usize, ConnId), Vec<u8>>,
    early: Early,
    /// Executions that were sent to clients after their tick.
    pub executions: u64,
    /// Order frames that edges sent again.
    pub resends: u64,
    /// Repair frames that the root sent.
    pub repairs: u64,
    /// Notices to go around a proxy.
    pub detours: u64,
    /// What does not hold.
    pub failures: Failures,
}

impl Watch {
    /// Watches the root, the proxies and the edges, of which one may be dishonest.
    pub fn new(
        root: usize,
        edges: std::ops::Range<usize>,
        dishonest: Option<usize>,
        config: &ExchangeConfig,
        trees: &[Tree],
    ) -> Watch {
        let edge = |index| {
            let honest = Some(index) != dishonest;
            let (next, furthest) = (vec![1; trees.len()], vec![1; trees.len()]);
            let lost_before = vec![0; trees.len()];
            let (margin_ns, early) = (i64::MAX, (0, 0));
            (index, Edge { next, furthest, lost_before, honest, margin_ns, early })
        };
        let stream = |tree: &Tree| Stream {
            session: config.session_of(tree.stream),
            child_sets: ChildSets::new(*tree),
            last_id: 0,
            published: Vec::new(),
            deliveries: Vec::new(),
            digest: StreamDigest::default(),
            ahead: BTreeMap::new(),
            messages: Vec::new(),
            last_match: 0,
        };
        Watch {
            root,
            first_edge: edges.start,
            edges: edges.map(edge).collect(),
            streams: trees.iter().map(stream).collect(),
            prints: BTreeMap::new(),
            crosses: BTreeMap::new(),
            sessions: BTreeMap::new(),
            tap: None,
            unseen: BTreeSet::new(),
            reached: u64::MAX,
            several_roots: false,
            snapshots: None,
            snapshot_of: BTreeMap::new(),
            eavesdropper: None,
            fix: BTreeMap::new(),
            early: Early::new(trees.len(), 0),
            executions: 0,
            resends: 0,
            repairs: 0,
            detours: 0,
            failures: Failures::default(),
        }
    }

    /// Datagrams between nodes are sealed; this opens them.
    pub fn open_with(&mut self, tap: Option<Tap<KeySource>>) {
        self.tap = tap;
    }

    /// Several roots serve in turn.
    pub fn several_roots(&mut self) {
        self.several_roots = true;
    }

    /// Clocks are right within `bound_ns`; who serves snapshots, and who listens where it can.
    pub fn look_for_early(
        &mut self,
        bound_ns: u64,
        snapshots: Option<usize>,
        eavesdropper: Option<usize>,
    ) {
        self.early = Early::new(self.streams.len(), bound_ns);
        (self.snapshots, self.eavesdropper) = (snapshots, eavesdropper);
    }

    /// How often something was looked at that left by a way out.
    pub fn looked(&self, outlet: Outlet) -> u64 {
        self.early.looked(outlet)
    }

    /// Streams of the feed.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Digest of all messages published in a stream, and the number after the last one.
    pub fn published(&self, stream: usize) -> (u64, u64) {
        self.streams.get(stream).map_or((0, 1), |stream| (stream.digest.value(), stream.end()))
    }

    /// Digest of the messages published in a stream from number `first` on.
    pub fn published_since(&self, stream: usize, first: u64) -> u64 {
        let mut digest = StreamDigest::default();
        let skip = first.saturating_sub(1) as usize;
        let messages = self.streams.get(stream).map_or(&[][..], |stream| &stream.messages);
        messages.iter().skip(skip).for_each(|message| digest.push(message));
        digest.value()
    }

    /// What became of what was published, in the order in which it was.
    pub fn take_deliveries(&mut self) -> Vec<Delivery> {
        let take = |stream: &mut Stream| std::mem::take(&mut stream.deliveries);
        let mut all: Vec<Delivery> = self.streams.iter_mut().flat_map(take).collect();
        all.sort_by_key(|delivery| delivery.at);
        all
    }

    /// An edge starts anew: it hands on from the beginning.
    pub fn restarted(&mut self, node: usize) {
        if let Some(edge) = self.edges.get_mut(&node) {
            edge.next.fill(1);
            edge.lost_before.fill(0);
            self.sessions.retain(|(from, _), _| *from != node);
            self.fix.retain(|(from, _), _| *from != node);
        }
    }

    /// The verdicts that need the whole run.
    pub fn judge(&mut self) {
        let ends: Vec<u64> = self.streams.iter().map(Stream::end).collect();
        for (index, edge) in &self.edges {
            let next = &edge.next;
            self.failures.check(Checker::NoLoss, *next == ends, || {
                format!("edge {index} handed on up to {next:?}, published was up to {ends:?}")
            });
            let (early_ns, seq) = edge.early;
            self.failures.check(Checker::ReleaseDeadline, early_ns == 0, || {
                format!("edge {index} handed on message {seq} {early_ns} ns early by its own clock")
            });
            let margin_ns = edge.margin_ns;
            let kept = margin_ns >= 0 || !edge.honest;
            self.failures.check(Checker::ReleaseTrueTime, kept, || {
                format!("edge {index} handed on {} ns too early by true time", -margin_ns)
            });
        }
        let first = self.unseen.first();
        self.failures.check(Checker::ReleaseOrder, first.is_none(), || {
            format!("edges handed on {first:?} (stream, message), which no root published")
        });
        self.streams.iter().for_each(|stream| stream.child_sets.judge(&mut self.failures));
        let (prints, crosses) = (&self.prints, &self.crosses);
        self.early.judge(&mut self.failures, |number| tick_of(prints, crosses, number));
        let repeated = self.tap.as_ref().map_or(0, Tap::repeated);
        self.failures.check(Checker::FreshNonces, repeated == 0, || {
            format!("{repeated} times a key and a nonce sealed what they had not sealed before")
        });
    }

    /// Trades that were printed one by one: all but those of an auction between two orders of
    /// which nothing was displayed.
    pub fn prints(&self) -> u64 {
        self.prints.len() as u64
    }

    /// Uncrossings that traded.
    pub fn crosses(&self) -> u64 {
        self.crosses.len() as u64
    }

    /// Where the feed tells of a trade: by itself, or with the uncrossing it was part of.
    fn tick_of(&self, number: u64) -> Option<At> {
        tick_of(&self.prints, &self.crosses, number)
    }

    /// Something leaves by a way out.
    fn leaves(&mut self, at: Nanos, outlet: Outlet, node: usize, on: On) {
        let (prints, crosses) = (&self.prints, &self.crosses);
        self.early.leaves(at, outlet, node, on, |number| tick_of(prints, crosses, number));
    }

    /// The stream of a session of the feed.
    fn stream_of(&self, session: &[u8; 10]) -> Option<usize> {
        self.streams.iter().position(|stream| stream.session == *session)
    }

    /// A retransmission server answers: messages, or which is the first that it still has.
    fn retransmitted(&mut self, sent: &Sent<'_>) {
        let Ok(packet) = Packet::parse(sent.bytes) else { return };
        let Some(of) = self.stream_of(&packet.session().0) else { return };
        if moldudp::parse_token(packet.session(), sent.bytes).is_some() {
            return;
        }
        let last = packet.next_seq().saturating_sub(1).max(packet.seq());
        self.leaves(sent.at, Outlet::Retransmission, sent.from, On::Message(of, last));
    }

    /// A datagram is sent.
    pub fn datagram(&mut self, sent: &Sent<'_>) {
        if sent.channel == Channel::OVERLAY {
            let Some(mut tap) = self.tap.take() else { return self.frame(sent) };
            match tap.open(NodeId(sent.to as u16), sent.bytes).map(|clear| clear.is_some()) {
                Ok(false) => {}
                Ok(true) => {
                    let nodes = tap.reached(NodeId(sent.from as u16)).filter(|node| node.0 < 64);
                    self.reached = nodes.fold(0, |bits, node| bits | 1 << node.0);
                    self.frame(&Sent { bytes: tap.clear(), ..*sent });
                }
                Err(why) => self.failures.add(Checker::Sound, || {
                    format!("node {} sent node {} what opens nowhere: {why:?}", sent.from, sent.to)
                }),
            }
            self.tap = Some(tap);
        } else if sent.channel == Channel::FEED && self.edges.contains_key(&sent.from) {
            self.released(sent);
        } else if sent.channel == Channel::FEED && sent.from == self.root {
            self.retransmitted(sent);
        }
    }

    fn frame(&mut self, sent: &Sent<'_>) {
        if let Some((header, _)) = ControlHeader::read(sent.bytes) {
            let stream = self.streams.get_mut(usize::from(header.stream));
            if let Some(stream) = stream.filter(|_| header.kind == ControlKind::Detour) {
                stream.child_sets.detour();
                self.detours += 1;
            }
            return;
        }
        let Ok((header, rest)) = HopHeader::read(sent.bytes) else {
            let (from, at) = (sent.from, sent.at);
            self.failures.add(Checker::Sound, || format!("node {from} sent no frame at {at:?}"));
            return;
        };
        let from_root = sent.from == self.root;
        if header.kind == FrameKind::Data && sent.from < self.first_edge {
            let Ok((body, _)) = frame::body::<DataBody>(rest) else { return };
            let Some(stream) = self.streams.get_mut(usize::from(body.stream)) else {
                let from = sent.from;
                self.failures.add(Checker::ChildSet, || format!("node {from}: no such stream"));
                return;
            };
            let copy = Copy { id: body.id, epoch: header.epoch, stamp: body.hedge };
            stream.child_sets.copy((sent.from, sent.to), copy, self.reached);
        }
        if from_root && matches!(header.kind, FrameKind::Data | FrameKind::Repair) {
            self.stamped(sent.at, rest);
        }
        match header.kind {
            FrameKind::Data if from_root => self.publish(sent.at, rest),
            FrameKind::Repair if from_root => {
                self.repairs += 1;
                self.told_of_loss(sent.to, rest);
                if self.several_roots {
                    self.publish(sent.at, rest);
                }
            }
            FrameKind::Order if header.attempt > 0 && self.edges.contains_key(&sent.from) => {
                self.resends += 1;
            }
            _ => {}
        }
    }

    /// A root that led sent messages with this deadline, and no datagram of it got out.
    pub fn unheard(&mut self, at: Nanos, stream: usize, messages: (u64, u64), deadline: Nanos) {
        self.early.published(at, stream, messages, deadline);
        self.owned_up(stream, messages);
    }

    /// The root says when messages are public.
    fn stamped(&mut self, at: Nanos, rest: &[u8]) {
        let Ok((body, packet)) = frame::body::<DataBody>(rest) else { return };
        if let (true, Ok(packet)) = (body.flags & DATA_PARITY == 0, Packet::parse(packet)) {
            let (stream, messages) = (usize::from(body.stream), (packet.seq(), packet.next_seq()));
            // It may have waited for the lives of its receivers, sealed; whoever asks needs not.
            let at_once = body.deadline == Nanos(0);
            let due = if at_once { body.t_sent.min(at) } else { body.deadline };
            self.early.published(at, stream, messages, due);
            self.owned_up(stream, messages);
            self.compare(stream, &packet);
        }
    }

    /// The root may tell an edge that it no longer keeps what the edge asks for.
    fn told_of_loss(&mut self, to: usize, rest: &[u8]) {
        let Ok((body, packet)) = frame::body::<DataBody>(rest) else { return };
        if let (true, Ok(packet)) = (body.flags & DATA_OLDEST != 0, Packet::parse(packet))
            && let Some(edge) = self.edges.get_mut(&to)
            && let Some(lost) = edge.lost_before.get_mut(usize::from(body.stream))
        {
            *lost = (*lost).max(packet.seq());
        }
    }

    /// Whether a message may have been released by now, at true time `at`, by somebody whose clock is
    /// right.
    fn is_public(&self, (stream, seq): At, at: Nanos) -> bool {
        let Some(stream) = self.streams.get(stream) else { return false };
        let place = stream.published.partition_point(|published| published.end <= seq);
        stream.published.get(place).is_some_and(|published| {
            published.deadline.0.saturating_sub(2 * published.bound_ns) <= at.0
        })
    }

    /// Takes in a datagram of the root; it comes once per child, the first one counts.
    fn publish(&mut self, at: Nanos, rest: &[u8]) {
        let Ok((body, packet)) = frame::body::<DataBody>(rest) else { return };
        if body.flags & DATA_PARITY != 0 {
            return;
        }
        let Ok(packet) = Packet::parse(packet) else {
            self.failures.add(Checker::Sound, || "the root published no packet".to_string());
            return;
        };
        let place = usize::from(body.stream);
        let Some(stream) = self.streams.get_mut(place) else { return };
        if self.several_roots {
            // Whoever says it first has published it, under whatever id.
            let (seq, end, due) = (packet.seq(), packet.next_seq(), stream.end());
            if packet.messages().next().is_none() || end <= due {
                return;
            }
            if seq > due {
                stream.ahead.entry(seq).or_insert_with(|| (at, rest.to_vec()));
                return;
            }
        } else if body.id <= stream.last_id {
            return;
        }
        stream.last_id = body.id;
        let right = packet.session().0 == stream.session;
        self.failures.check(Checker::FeedEqual, right, || {
            format!("stream {place} speaks of another session")
        });
        if packet.is_heartbeat() || packet.is_end_of_session() {
            return;
        }
        let (seq, end) = (packet.seq(), packet.next_seq());
        let due = stream.end();
        let follows = seq == due || self.several_roots && seq < due;
        self.failures.check(Checker::FeedEqual, follows, || {
            format!("published message {seq} when {due} was due")
        });
        let known = due.saturating_sub(seq);
        let seq = seq + known;
        let bound_ns = u64::from(body.bound_ns);
        let published = Published { seq, end, deadline: body.deadline, bound_ns };
        self.append(at, place, published, packet.messages().skip(known as usize));
    }

    /// Notes where trades are told of in messages from number `first` on.
    fn read_trades(&mut self, place: usize, first: u64, messages: &[&[u8]]) {
        for (number, message) in (first..).zip(messages.iter().copied()) {
            let position = (place, number);
            match itch::parse(message) {
                Ok(Message::OrderExecuted(m)) => self.print(position, m.match_number.get(), false),
                Ok(Message::Trade(m)) => self.print(position, m.match_number.get(), false),
                Ok(Message::OrderExecutedWithPrice(m)) => {
                    self.print(position, m.match_number.get(), true);
                }
                Ok(Message::CrossTrade(m)) => {
                    self.print(position, m.match_number.get(), false);
                    let number = m.match_number.get();
                    self.prints.remove(&number);
                    self.crosses.insert(number, position);
                }
                Ok(_) => {}
                Err(error) => {
                    let why = || format!("message {position:?}: {error:?}");
                    self.failures.add(Checker::Sound, why);
                }
            }
        }
    }

    /// What was published after what is now known.
    fn publish_ahead(&mut self, place: usize) {
        let Some(stream) = self.streams.get_mut(place) else { return };
        let end = stream.end();
        if let Some(first) = stream.ahead.first_entry()
            && *first.key() <= end
        {
            let (at, rest) = first.remove();
            self.publish(at, &rest);
            self.publish_ahead(place);
        }
    }

    /// A message prints trade `number`; both orders of an auction trade may print it.
    fn print(&mut self, position: At, number: u64, twice: bool) {
        let Some(stream) = self.streams.get_mut(position.0) else { return };
        let last = stream.last_match;
        stream.last_match = number.max(last);
        let follows = number > last || twice && number == last;
        self.failures.check(Checker::Sound, follows, || {
            format!("message {position:?} prints trade {number} after {last}")
        });
        self.prints.entry(number).or_insert(position);
    }

    /// An edge hands on a packet.
    fn released(&mut self, sent: &Sent<'_>) {
        let (from, at) = (sent.from, sent.at);
        let Ok(packet) = Packet::parse(sent.bytes) else {
            self.failures.add(Checker::Sound, || format!("edge {from} released no packet"));
            return;
        };
        let session = packet.session().0;
        let Some(of) = self.streams.iter().position(|stream| stream.session == session) else {
            self.failures.add(Checker::Sound, || format!("edge {from}: no such session"));
            return;
        };
        let seq = packet.seq();
        let public = seq > 1 && self.is_public((of, seq - 1), at);
        let Some(edge) = self.edges.get_mut(&sent.from) else { return };
        // What the root no longer keeps may be jumped over, once it is public.
        if seq > edge.next[of] && seq <= edge.lost_before[of] && public {
            edge.next[of] = seq;
        }
        let next = edge.next[of];
        let again = seq < next;
        self.failures.check(Checker::NoDuplicate, !again, || {
            format!("edge {from} handed on message {seq} when {next} was due, at {}", at.0)
        });
        self.failures.check(Checker::ReleaseOrder, seq <= next, || {
            format!("edge {from} handed on message {seq} when {next} was due, at {}", at.0)
        });
        if packet.is_heartbeat() || packet.is_end_of_session() {
            return;
        }
        edge.next[of] = packet.next_seq().max(next);
        if edge.honest {
            let last = packet.next_seq().saturating_sub(1);
            self.leaves(at, Outlet::Feed, from, On::Message(of, last));
        }
        if self.several_roots && packet.count() > 0 && self.streams[of].end() == seq {
            self.take_unseen(at, of, &packet);
        }
        let Some(edge) = self.edges.get_mut(&sent.from) else { return };
        let stream = &mut self.streams[of];
        let place = stream.published.partition_point(|published| published.end <= seq);
        let (Some(published), Some(delivery)) =
            (stream.published.get(place), stream.deliveries.get_mut(place))
        else {
            self.failures.add(Checker::ReleaseOrder, || {
                format!("edge {from} handed on message {seq}, which was not published")
            });
            return;
        };
        if edge.honest && seq >= edge.furthest[of] {
            edge.furthest[of] = packet.next_seq();
            delivery.first = delivery.first.min(at);
            delivery.last = at;
            delivery.receivers += 1;
        }
        if published.deadline == Nanos(0) || published.seq > seq {
            return;
        }
        let due = published.deadline.after(published.bound_ns);
        edge.early = edge.early.max((due.since(sent.reading), seq));
        let allowed = published.deadline.0.saturating_sub(2 * published.bound_ns);
        edge.margin_ns = edge.margin_ns.min(at.0 as i64 - allowed as i64);
    }

    /// A node writes to a stream.
    pub fn stream(&mut self, written: &Written<'_>) {
        let from = written.from;
        if self.snapshots == Some(from) {
            return self.snapshot(written);
        }
        if !self.edges.contains_key(&from) {
            return;
        }
        if self.eavesdropper == Some(written.to) {
            return self.fix(written);
        }
        let key = (from, written.conn);
        let fresh = || Framer::new(SERVER_PACKET_MAX);
        let mut framer = self.sessions.remove(&key).unwrap_or_else(fresh);
        let mut input = written.bytes;
        while let Ok(Some(frame)) = framer.next(&mut input) {
            let Ok(ServerPacket::Sequenced(message)) = ServerPacket::parse(frame) else { continue };
            let Ok(Outbound::OrderExecuted(executed, _)) = ouch::parse_outbound(message) else {
                continue;
            };
            let number = executed.match_number.get();
            self.leaves(written.at, Outlet::Execution, from, On::Trade(number));
            let print = self.tick_of(number);
            let edge = self.edges.get(&from);
            let next = edge.map_or(&[][..], |edge| &edge.next);
            let lost = edge.map_or(&[][..], |edge| &edge.lost_before);
            let at = written.at;
            let before =
                |ends: &[u64], (of, number): At| ends.get(of).is_some_and(|end| number < *end);
            let public = print.is_some_and(|print| {
                before(next, print) || before(lost, print) && self.is_public(print, at)
            });
            self.executions += u64::from(public);
            self.failures.check(Checker::TickFirst, public, || {
                format!("edge {from} told of trade {number} (at {print:?}) before message {next:?}")
            });
        }
        self.sessions.insert(key, framer);
    }

    /// A snapshot server writes: at its end a snapshot says which message of the feed goes on.
    fn snapshot(&mut self, written: &Written<'_>) {
        let key = (written.from, written.conn);
        let fresh = || Framer::new(SERVER_PACKET_MAX);
        let mut framer = self.sessions.remove(&key).unwrap_or_else(fresh);
        let mut input = written.bytes;
        while let Ok(Some(frame)) = framer.next(&mut input) {
            match ServerPacket::parse(frame) {
                Ok(ServerPacket::LoginAccepted { session, .. }) => {
                    let of = self.stream_of(&session);
                    self.snapshot_of.insert(written.conn, of);
                }
                Ok(ServerPacket::Sequenced(message)) => {
                    let of = self.snapshot_of.get(&written.conn).copied().flatten();
                    let end = EndOfSnapshot::parse(message).ok().map(|end| end.seq - 1);
                    if let Some((of, last @ 1..)) = of.zip(end) {
                        let on = On::Message(of, last);
                        self.leaves(written.at, Outlet::Snapshot, written.from, on);
                    }
                }
                _ => {}
            }
        }
        self.sessions.insert(key, framer);
    }

    /// An edge writes to a FIX session that only listens: copies of executions name their trade in
    /// ExecID(17), market data in MDEntryID(278).
    fn fix(&mut self, written: &Written<'_>) {
        let key = (written.from, written.conn);
        let mut bytes = self.fix.remove(&key).unwrap_or_default();
        bytes.extend_from_slice(written.bytes);
        let whole = bytes.iter().rposition(|byte| *byte == SOH).map_or(0, |at| at + 1);
        for field in bytes[..whole].split(|byte| *byte == SOH) {
            let (outlet, value) = match field.split_at_checked(4) {
                Some((b"17=T", value)) => (Outlet::DropCopy, value),
                Some((b"278=", value)) => (Outlet::MarketData, value),
                _ => continue,
            };
            let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = std::str::from_utf8(&value[..digits]).ok();
            let number = number.and_then(|text| text.parse().ok());
            if let Some(number) = number {
                self.leaves(written.at, outlet, written.from, On::Trade(number));
            }
        }
        bytes.drain(..whole);
        self.fix.insert(key, bytes);
    }
}

/// Ends a field of FIX.
const SOH: u8 = 1;

/// Where the feed tells of a trade: by itself, or with the uncrossing it was part of.
fn tick_of(prints: &BTreeMap<u64, At>, crosses: &BTreeMap<u64, At>, number: u64) -> Option<At> {
    let own = prints.get(&number);
    own.or_else(|| crosses.range(number..).next().map(|(_, at)| at)).copied()
}
