//! A proxy of the tree: first copy of market data downwards at once, orders and delays upwards.
//!
//! It rewrites the hop header and never touches what is behind it. Market data goes to the own
//! children first, then to those of H siblings. An order goes to the candidate above that its
//! attempt number points at; nothing is kept, the gateway re-sends (rule 3), unless
//! [`ProxyConfig::upstream`] has orders queue and leave at a pace. Delay reports are
//! merged per round. Everything else, and everything unreadable, is dropped and counted.
//!
//! Epochs: market data of a later epoch than the proxy's makes it follow; of an earlier one it is
//! dropped, as are delay reports of any other. Orders pass in every epoch, up the tree of that
//! epoch if it is known; they are idempotent at the engine.

use types::{
    Channel, ClockReading, Nanos, Node, NodeId, Outbox, Peer, limits::DUPLICATE_FILTER_SLOTS,
};

use crate::{
    control::{self, ControlHeader, ControlKind, DetourBody, StatusBody},
    deadline::all_reduce::{DelayLimits, DelayValue, ReduceStats, RoundTable},
    emit,
    feed::duplicate_filter::{Arrival, DuplicateFilter, FilterStats},
    feed::repair_cache::{CacheConfig, CacheStats, RepairCache},
    frame::{
        self, DataBody, DelayBody, FrameKind, HopHeader, ORDER_DEFERRED, OrderBody,
        RepairRequestBody,
    },
    orders::upstream_queue::{UpstreamConfig, UpstreamQueue, UpstreamStats},
    tree::child_sequence::ChildSequence,
    tree::failover_routes::FailoverRoutes,
    tree::topology::{ROOT, Tree},
    tree::tree_position::TreePosition,
};
use zerocopy::{FromBytes, IntoBytes};

/// Settings of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyConfig {
    /// Number of ids that the duplicate filter spans.
    pub filter_slots: usize,
    /// Bounds on the values that the all-reduce believes.
    pub delay: DelayLimits,
    /// Serve the children first that have been slowest so far ([`ChildSequence`]).
    pub slowest_first: bool,
    /// Orders wait in a queue and leave at a pace; `None`: they pass straight through.
    pub upstream: Option<UpstreamConfig>,
    /// Size of the repair cache of a proxy directly above receivers; `None`: no cache.
    pub cache: Option<CacheConfig>,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        ProxyConfig {
            filter_slots: DUPLICATE_FILTER_SLOTS,
            delay: DelayLimits::default(),
            slowest_first: false,
            upstream: None,
            cache: None,
        }
    }
}

/// What a [`Proxy`] has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProxyStats {
    /// Copies of market data that came.
    pub received: u64,
    /// Datagrams of market data passed on (first copies).
    pub forwarded: u64,
    /// Number of copies of market data sent to children.
    pub copies_sent: u64,
    /// Number of orders passed upwards.
    pub orders_up: u64,
    /// Unreadable datagrams, and those of another tree.
    pub malformed: u64,
    /// Readable ones that are not for a proxy, or come from where they should not.
    pub unexpected: u64,
    /// Duplicates, missing copies and refusals of market data.
    pub filter: FilterStats,
    /// What the delay all-reduce has counted.
    pub reduce: ReduceStats,
    /// Orders that wait and leave at a pace.
    pub upstream: UpstreamStats,
    /// What the repair cache has counted.
    pub cache: CacheStats,
}

/// A proxy: passes the feed down the tree and orders up.
pub struct Proxy {
    tree: Tree,
    node: NodeId,
    filter: DuplicateFilter,
    position: TreePosition,
    rounds: RoundTable,
    child_sequence: Option<ChildSequence>,
    upstream: Option<UpstreamQueue>,
    cache: Option<RepairCache>,
    routes: FailoverRoutes,
    /// Routes around dead nodes in the tree of the next epoch, and in that of the last one.
    next_routes: FailoverRoutes,
    former_routes: FailoverRoutes,
    detoured: Vec<NodeId>,
    config: ProxyConfig,
    /// The tree of the next epoch, until it begins.
    prepared: Option<Tree>,
    /// The tree of the last epoch and its filter, for what is still on its way.
    former: Option<(Tree, DuplicateFilter)>,
    stats: ProxyStats,
}

impl Proxy {
    /// A proxy for the node `node` of `tree`.
    pub fn new(tree: Tree, node: NodeId, config: ProxyConfig) -> Proxy {
        let copies = tree.copies(node);
        Proxy {
            tree,
            node,
            filter: DuplicateFilter::new(config.filter_slots, tree.epoch, copies),
            position: TreePosition::new(&tree, node),
            rounds: RoundTable::new(tree, node, config.delay),
            child_sequence: config.slowest_first.then(|| ChildSequence::new(&tree, node)),
            upstream: config.upstream.map(UpstreamQueue::new),
            cache: cache(&tree, node, &config),
            routes: FailoverRoutes::default(),
            next_routes: FailoverRoutes::default(),
            former_routes: FailoverRoutes::default(),
            detoured: Vec::new(),
            config,
            prepared: None,
            former: None,
            stats: ProxyStats::default(),
        }
    }

    /// What was counted since the start.
    pub fn stats(&self) -> ProxyStats {
        ProxyStats {
            filter: self.filter.stats(),
            reduce: self.rounds.stats(),
            upstream: self.upstream.as_ref().map(UpstreamQueue::stats).unwrap_or_default(),
            cache: self.cache.as_ref().map(RepairCache::stats).unwrap_or_default(),
            ..self.stats
        }
    }

    /// Tells the proxy the tree of a later epoch, in which it has the same number. It takes over
    /// with the first datagram of that epoch; datagrams of the present one, which may still be on
    /// their way then, go on through the present tree, and orders go up the tree of the epoch that
    /// they were sent in.
    pub fn prepare(&mut self, tree: Tree) {
        // News may come in any order: nothing undoes what is known of a later epoch.
        let known = self.prepared.map_or(self.tree.epoch, |tree| tree.epoch);
        if tree.epoch > known {
            self.next_routes = FailoverRoutes::default();
            self.prepared = Some(tree);
        }
    }

    /// The tree of the epoch it lives in.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Nodes that the proxy was told are dead.
    pub fn failover_routes(&self) -> &FailoverRoutes {
        &self.routes
    }

    fn change_tree(&mut self, tree: Tree) {
        let copies = tree.copies(self.node);
        let filter = DuplicateFilter::new(self.config.filter_slots, tree.epoch, copies)
            .counting_on(self.filter.stats());
        let former = std::mem::replace(&mut self.filter, filter);
        let left = std::mem::replace(&mut self.tree, tree);
        self.former = (former.epoch() < tree.epoch).then_some((left, former));
        self.position = TreePosition::new(&tree, self.node);
        self.rounds = RoundTable::new(tree, self.node, self.config.delay);
        self.child_sequence =
            self.config.slowest_first.then(|| ChildSequence::new(&tree, self.node));
        let dead = std::mem::take(&mut self.next_routes);
        self.former_routes = std::mem::replace(&mut self.routes, dead);
        if self.cache.is_none() {
            self.cache = cache(&tree, self.node, &self.config);
        }
    }

    /// The tree and the dead of an epoch; of the present one if that epoch is unknown.
    fn of_epoch(&self, epoch: u32) -> (&Tree, &FailoverRoutes) {
        let former = self.former.as_ref().map(|(tree, _)| (tree, &self.former_routes));
        let next = self.prepared.as_ref().map(|tree| (tree, &self.next_routes));
        let other = former.into_iter().chain(next).find(|(tree, _)| tree.epoch == epoch);
        other.unwrap_or((&self.tree, &self.routes))
    }

    fn handle_data(&mut self, header: &HopHeader, rest: &[u8], out: &mut Outbox) {
        let stream = self.tree.stream;
        let Some((body, _)) =
            frame::body::<DataBody>(rest).ok().filter(|(body, _)| body.stream == stream)
        else {
            self.stats.malformed += 1;
            return;
        };
        self.stats.received += 1;
        if let Some(tree) = self.prepared.take_if(|tree| tree.epoch == header.epoch) {
            self.change_tree(tree);
        }
        let of_former = |former: &&mut (Tree, DuplicateFilter)| former.1.epoch() == header.epoch;
        if let Some((tree, filter)) = self.former.as_mut().filter(of_former) {
            let id = tree.topology.dense_id(self.node, body.id);
            if filter.accept(header.epoch, id, None) == Arrival::First {
                let hop = HopHeader::new(FrameKind::Data, self.node, header.epoch);
                let packet = &rest[size_of::<DataBody>()..];
                let span = out.write(|buffer| frame::encode(buffer, hop, &body, packet));
                for child in tree.children_stamped(self.node, body.id, body.hedge) {
                    out.datagram(Channel::OVERLAY, Peer::Node(child), span);
                    self.stats.copies_sent += 1;
                }
                self.stats.forwarded += 1;
            }
            return;
        }
        let (parent, copies) = self.position.parent(&self.tree, body.id, body.hedge, header.sender);
        let id = self.tree.topology.dense_id(self.node, body.id);
        if self.filter.accept_one_of(header.epoch, id, parent, copies) != Arrival::First {
            return;
        }
        let hop = HopHeader::new(FrameKind::Data, self.node, self.filter.epoch());
        let span =
            out.write(|buffer| frame::encode(buffer, hop, &body, &rest[size_of::<DataBody>()..]));
        let children = self.tree.children_stamped(self.node, body.id, body.hedge);
        let mut send = |child| {
            out.datagram(Channel::OVERLAY, Peer::Node(child), span);
            self.stats.copies_sent += 1;
        };
        if !self.routes.is_empty() {
            let (tree, node) = (&self.tree, self.node);
            self.routes.children(tree, node, body.id, body.hedge, &mut self.detoured);
            self.detoured.iter().copied().for_each(send);
        } else {
            match &mut self.child_sequence {
                Some(order) => order.arrange(children).iter().copied().for_each(send),
                None => children.for_each(&mut send),
            }
        }
        self.stats.forwarded += 1;
        if let Some(cache) = &mut self.cache {
            cache.keep(&body, &rest[size_of::<DataBody>()..]);
        }
    }

    /// A copy of market data that had come before was dropped in front of the proxy: it counts as if it
    /// had come.
    pub fn note_copy(&mut self, header: &HopHeader, body: &DataBody) {
        if body.stream != self.tree.stream || header.epoch != self.filter.epoch() {
            return;
        }
        let (parent, _) = self.position.parent(&self.tree, body.id, body.hedge, header.sender);
        let id = self.tree.topology.dense_id(self.node, body.id);
        self.stats.received += u64::from(self.filter.note_copy(header.epoch, id, parent));
    }

    fn handle_order(&mut self, now: Nanos, header: &HopHeader, rest: &[u8], out: &mut Outbox) {
        let Ok((body, payload)) = frame::body::<OrderBody>(rest) else {
            self.stats.malformed += 1;
            return;
        };
        let (tree, detours) = self.of_epoch(header.epoch);
        let layer = |node| tree.topology.locate(node).map(|(layer, _)| layer);
        // Orders only ever climb, so they cannot go round in circles.
        let from_below = layer(header.sender) == layer(self.node).map(|layer| layer + 1);
        let epoch = tree.epoch;
        let next = tree.topology.up_hop(self.node, tree.hedge, epoch, header.attempt);
        let next = next.and_then(|next| detours.living(&tree.topology, next));
        let Some(next) = next.filter(|_| from_below) else {
            self.stats.unexpected += 1;
            return;
        };
        self.stats.orders_up += 1;
        if let Some(upstream) = &mut self.upstream {
            upstream.take(now, header, &body, rest);
            self.pump(now, out);
            return;
        }
        let hop = HopHeader::new(FrameKind::Order, self.node, epoch);
        let flags = header.flags & ORDER_DEFERRED;
        emit::send(out, next, HopHeader { attempt: header.attempt, flags, ..hop }, &body, payload);
    }

    /// Sends what the upstream may send.
    fn pump(&mut self, now: Nanos, out: &mut Outbox) {
        let Some(upstream) = &mut self.upstream else { return };
        let (tree, node, epoch) = (&self.tree, self.node, self.filter.epoch());
        let detours = &self.routes;
        let way = |attempt| {
            let next = tree.topology.up_hop(node, tree.hedge, epoch, attempt)?;
            detours.living(&tree.topology, next)
        };
        upstream.pump(now, HopHeader::new(FrameKind::Order, node, epoch), way, out);
    }

    fn handle_repair_request(
        &mut self,
        now: Nanos,
        header: &HopHeader,
        rest: &[u8],
        out: &mut Outbox,
    ) {
        let stream = self.tree.stream;
        let request = match frame::body::<RepairRequestBody>(rest) {
            Ok((request, [])) if request.stream == stream => request,
            _ => {
                self.stats.malformed += 1;
                return;
            }
        };
        let below = self.tree.topology.is_above(self.node, header.sender);
        let Some(cache) = self.cache.as_mut().filter(|_| below) else {
            self.stats.unexpected += 1;
            return;
        };
        let repair = RepairCache::header(self.node, self.filter.epoch());
        cache.handle_request(now, header.sender, &request, repair, out);
    }

    fn handle_control(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) {
        match ControlHeader::read(bytes) {
            // Orders are of no stream.
            Some((header, rest)) if header.kind == ControlKind::HopReport => {
                if let Some(upstream) = &mut self.upstream {
                    upstream.handle_report(now, header.sender, rest);
                    self.pump(now, out);
                }
            }
            Some((header, rest)) if header.stream == self.tree.stream => match header.kind {
                ControlKind::Detour if header.sender == ROOT => {
                    let next = self.prepared.is_some_and(|tree| tree.epoch == header.epoch);
                    match DetourBody::read_from_bytes(rest) {
                        Ok(body) if header.epoch == self.filter.epoch() => {
                            self.routes.apply(&body);
                        }
                        Ok(body) if next => {
                            self.next_routes.apply(&body);
                        }
                        _ => self.stats.malformed += 1,
                    }
                }
                ControlKind::Tree if header.sender == ROOT => self.handle_tree(rest, out),
                _ => self.stats.unexpected += 1,
            },
            _ => self.stats.malformed += 1,
        }
    }

    /// The root's call: the tree that is, or the one that comes.
    fn handle_tree(&mut self, rest: &[u8], out: &mut Outbox) {
        let Some(tree) = control::told_tree(rest, self.tree.stream) else {
            self.stats.malformed += 1;
            return;
        };
        self.prepare(tree);
        let known = self.prepared.map_or(self.tree.epoch, |tree| tree.epoch);
        let present = self.filter.epoch();
        let header = ControlHeader::new(ControlKind::Status, self.node, present, self.tree.stream);
        control::send(out, ROOT, header, &StatusBody { known, present }, &[]);
    }

    fn handle_delay(&mut self, now: Nanos, header: &HopHeader, rest: &[u8], out: &mut Outbox) {
        let Ok((body, samples)) = frame::body::<DelayBody>(rest) else {
            self.stats.malformed += 1;
            return;
        };
        if header.epoch != self.filter.epoch() {
            self.stats.unexpected += 1;
            return;
        }
        if let Some(order) = &mut self.child_sequence {
            order.learn(header.sender, body.owd_ns);
        }
        if let Some((round, value)) = self.rounds.report(now, header.sender, &body, samples) {
            self.report_up(round, value, out);
        }
    }

    fn report_up(&self, round: u64, value: DelayValue, out: &mut Outbox) {
        let parent = self.tree.reduce_parent(self.node, round).unwrap_or(ROOT);
        let hop = HopHeader::new(FrameKind::Delay, self.node, self.filter.epoch());
        let DelayValue { owd_ns, bound_ns, receivers } = value;
        let stream = self.tree.stream;
        let list = self.rounds.samples(round);
        let samples = list.len() as u16;
        let body = DelayBody { round, owd_ns, bound_ns, receivers, stream, samples };
        emit::send(out, parent, hop, &body, list.as_bytes());
    }
}

/// The cache of a proxy right above receivers, if it is to have one.
fn cache(tree: &Tree, node: NodeId, config: &ProxyConfig) -> Option<RepairCache> {
    let below = tree.topology.receiver_ids().next();
    let serves_receivers = below.is_some_and(|leaf| tree.topology.is_above(node, leaf));
    config.cache.filter(|_| serves_receivers).map(RepairCache::new)
}

impl Node for Proxy {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        _from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        if channel == Channel::OVERLAY && ControlHeader::is_control(bytes) {
            self.handle_control(now.now, bytes, out);
            return;
        }
        match HopHeader::read(bytes) {
            Ok((header, rest)) if channel == Channel::OVERLAY => match header.kind {
                FrameKind::Data => self.handle_data(&header, rest, out),
                FrameKind::Order => self.handle_order(now.now, &header, rest, out),
                FrameKind::RepairRequest => {
                    self.handle_repair_request(now.now, &header, rest, out);
                }
                FrameKind::Delay => self.handle_delay(now.now, &header, rest, out),
                _ => self.stats.unexpected += 1,
            },
            _ => self.stats.malformed += 1,
        }
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        while let Some((round, value)) = self.rounds.take_due(now.now) {
            self.report_up(round, value, out);
        }
        self.pump(now.now, out);
        if let Some(upstream) = &mut self.upstream {
            let (epoch, stream) = (self.filter.epoch(), self.tree.stream);
            let header = ControlHeader::new(ControlKind::HopReport, self.node, epoch, stream);
            upstream.handle_timeout(now.now, header, out);
        }
    }

    fn next_timeout(&self) -> Nanos {
        let upstream = self.upstream.as_ref().map_or(Nanos::NEVER, UpstreamQueue::next_timeout);
        self.rounds.next_timeout().min(upstream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::topology::Topology;
    use proptest::prelude::*;
    use types::{Op, Source};

    const ROUND: u64 = 50 * Nanos::MILLI;
    const NOW: ClockReading = ClockReading { now: Nanos(10 * ROUND), bound_ns: 0 };

    fn tree(hedge: usize) -> Tree {
        let topology = Topology::new(3, 3, 27).unwrap();
        Tree { topology, hedge, dynamic: true, epoch: 2, stream: 0, round_ns: ROUND }
    }

    fn proxy(node: u16) -> Proxy {
        Proxy::new(tree(1), NodeId(node), ProxyConfig { filter_slots: 64, ..Default::default() })
    }

    fn data(sender: u16, epoch: u32, id: u64) -> Vec<u8> {
        let (t_sent, deadline) = (Nanos(3), Nanos(9));
        let body = DataBody { id, t_sent, deadline, bound_ns: 4, stream: 0, hedge: 0, flags: 0 };
        let mut bytes = Vec::new();
        let header = HopHeader::new(FrameKind::Data, NodeId(sender), epoch);
        frame::encode(&mut bytes, header, &body, b"sealed for all we know");
        bytes
    }

    fn give(proxy: &mut Proxy, bytes: &[u8]) -> Vec<(u16, HopHeader, Vec<u8>)> {
        let mut out = Outbox::default();
        proxy.handle_datagram(NOW, Channel::OVERLAY, Peer::Addr(0), bytes, &mut out);
        let sent = |op: &Op| match *op {
            Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(to), bytes } => {
                let (header, rest) = HopHeader::read(out.bytes(bytes)).unwrap();
                (to.0, header, rest.to_vec())
            }
            _ => panic!("only to nodes"),
        };
        out.ops().iter().map(sent).collect()
    }

    #[test]
    fn the_first_copy_goes_on_untouched_and_the_second_nowhere() {
        let mut proxy = proxy(4);
        let parents: Vec<_> = tree(1).parents(NodeId(4), 1).collect();
        let sent = give(&mut proxy, &data(parents[0].0, 2, 1));
        let children: Vec<_> = tree(1).children(NodeId(4), 1).map(|node| node.0).collect();
        assert_eq!(sent.iter().map(|(to, ..)| *to).collect::<Vec<_>>(), children);
        assert!(sent.iter().all(|(_, hop, _)| (hop.sender, hop.epoch) == (NodeId(4), 2)));
        assert!(sent.iter().all(|(.., rest)| rest[..] == data(0, 0, 1)[16..]));
        assert!(give(&mut proxy, &data(parents[1].0, 2, 1)).is_empty());
        assert!(give(&mut proxy, &data(parents[1].0, 1, 2)).is_empty());
        let stats = proxy.stats();
        assert_eq!((stats.received, stats.forwarded, stats.copies_sent), (3, 1, 6));
        assert_eq!((stats.filter.duplicates, stats.filter.stale_epoch), (1, 1));
        assert_eq!(stats.filter.strays, 0);
        assert_eq!(give(&mut proxy, &data(1, 3, 1))[0].1.epoch, 3, "follows the publisher");
    }

    #[test]
    fn orders_climb_and_nothing_else_does() {
        let mut proxy = proxy(4);
        let body = OrderBody { source: Source::default(), depends_on: 1, t_in: Nanos(2) };
        let order = |sender, attempt| {
            let header = HopHeader::new(FrameKind::Order, NodeId(sender), 1);
            let mut bytes = Vec::new();
            frame::encode(&mut bytes, HopHeader { attempt, ..header }, &body, b"order");
            bytes
        };
        let hops: Vec<u16> =
            (0..4).map(|attempt| give(&mut proxy, &order(13, attempt))[0].0).collect();
        let candidates: Vec<_> =
            tree(1).topology.up_candidates(NodeId(4), 1, 2).map(|node| node.0).collect();
        assert_eq!(hops, [candidates[0], candidates[0], candidates[1], candidates[1]]);
        let (_, hop, rest) = give(&mut proxy, &order(13, 3)).remove(0);
        assert_eq!((hop.attempt, hop.sender, hop.epoch), (3, NodeId(4), 2));
        assert_eq!(rest, order(13, 3)[16..]);
        assert!(give(&mut proxy, &order(1, 0)).is_empty(), "not from above");
        assert!(give(&mut proxy, &order(5, 0)).is_empty(), "not from beside");
        let mut direct = order(13, 0);
        direct[1] = FrameKind::Private as u8;
        assert!(give(&mut proxy, &direct).is_empty());
        assert_eq!((proxy.stats().orders_up, proxy.stats().unexpected), (5, 3));
    }

    #[test]
    fn delays_of_all_children_go_up_as_one() {
        let mut proxy = proxy(4);
        let report = |sender: NodeId, owd_ns| {
            let body =
                DelayBody { round: 10, owd_ns, bound_ns: 1, receivers: 1, stream: 0, samples: 0 };
            let mut bytes = Vec::new();
            frame::encode(&mut bytes, HopHeader::new(FrameKind::Delay, sender, 2), &body, &[]);
            bytes
        };
        let children: Vec<_> = tree(0).children(NodeId(4), 10).collect();
        assert!(give(&mut proxy, &report(children[0], 50)).is_empty());
        assert!(give(&mut proxy, &report(children[1], 90)).is_empty());
        let sent = give(&mut proxy, &report(children[2], 70));
        assert_eq!(NodeId(sent[0].0), tree(1).reduce_parent(NodeId(4), 10).unwrap());
        let (body, _) = frame::body::<DelayBody>(&sent[0].2).unwrap();
        assert_eq!((body.round, body.owd_ns, body.receivers), (10, 90, 3));
        assert_eq!(proxy.next_timeout(), Nanos::NEVER);
    }

    #[test]
    fn silent_children_are_not_waited_for() {
        let mut proxy = proxy(4);
        let child = tree(0).children(NodeId(4), 10).next().unwrap();
        let body =
            DelayBody { round: 10, owd_ns: 5, bound_ns: 1, receivers: 1, stream: 0, samples: 0 };
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, HopHeader::new(FrameKind::Delay, child, 2), &body, &[]);
        give(&mut proxy, &bytes);
        let due = proxy.next_timeout();
        assert_eq!(due, NOW.now + ROUND / 4);
        let mut out = Outbox::default();
        proxy.handle_timeout(ClockReading { now: due, bound_ns: 0 }, &mut out);
        assert_eq!(out.ops().len(), 1);
        assert_eq!(proxy.stats().reduce.incomplete, 1);
    }

    proptest! {
        #[test]
        fn mutated_datagrams_never_panic(
            at in 0usize..70, value in any::<u8>(), kind in 0u8..14, cut in 0usize..71,
        ) {
            let mut bytes = data(1, 2, 1);
            bytes[1] = kind;
            bytes[at] = value;
            bytes.truncate(cut);
            let mut proxy = proxy(4);
            give(&mut proxy, &bytes);
        }
    }
}
