//! A proxy of the tree: first copy of market data downwards at once, orders and delays upwards.
//!
//! It rewrites the hop header and never touches what is behind it. Market data goes to the own
//! children first, then to those of H siblings. An order goes to the candidate above that its
//! attempt number points at; nothing is kept, the gateway re-sends (rule 3). Delay reports are
//! merged per round. Everything else, and everything unreadable, is dropped and counted.
//!
//! Epochs: market data of a later epoch than the proxy's makes it follow; of an earlier one it is
//! dropped, as are delay reports of any other. Orders pass in every epoch, they are idempotent at
//! the engine.

use types::{
    Channel, ClockReading, Nanos, Node, NodeId, Outbox, Peer, limits::DUPLICATE_FILTER_SLOTS,
};

use crate::{
    all_reduce::{DelayLimits, DelayValue, ReduceStats, RoundTable},
    duplicate_filter::{Arrival, DuplicateFilter, FilterStats},
    emit,
    frame::{self, DataBody, DelayBody, FrameKind, HopHeader, OrderBody},
    topology::{ROOT, Tree},
};

/// Settings of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyConfig {
    /// Ids its duplicate filter spans.
    pub filter_slots: usize,
    /// Bounds of the all-reduce.
    pub delay: DelayLimits,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        ProxyConfig { filter_slots: DUPLICATE_FILTER_SLOTS, delay: DelayLimits::default() }
    }
}

/// Totals of a [`Proxy`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProxyStats {
    /// Copies of market data that came.
    pub received: u64,
    /// Datagrams of market data passed on (first copies).
    pub forwarded: u64,
    /// Copies of market data sent.
    pub copies_sent: u64,
    /// Orders passed upwards.
    pub orders_up: u64,
    /// Unreadable datagrams, and those of another tree.
    pub malformed: u64,
    /// Readable ones that are not for a proxy, or come from where they should not.
    pub unexpected: u64,
    /// Duplicates, missing copies and refusals of market data.
    pub filter: FilterStats,
    /// The delay all-reduce.
    pub reduce: ReduceStats,
}

/// One proxy.
pub struct Proxy {
    tree: Tree,
    node: NodeId,
    filter: DuplicateFilter,
    rounds: RoundTable,
    stats: ProxyStats,
}

impl Proxy {
    /// The proxy `node` of `tree`.
    pub fn new(tree: Tree, node: NodeId, config: ProxyConfig) -> Proxy {
        let copies = tree.topology.copies(node, tree.hedge);
        Proxy {
            tree,
            node,
            filter: DuplicateFilter::new(config.filter_slots, tree.epoch, copies),
            rounds: RoundTable::new(tree, node, config.delay),
            stats: ProxyStats::default(),
        }
    }

    /// Totals.
    pub fn stats(&self) -> ProxyStats {
        ProxyStats { filter: self.filter.stats(), reduce: self.rounds.stats(), ..self.stats }
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
        let mut parents = self.tree.parents(self.node, body.id);
        let parent = parents.position(|parent| parent == header.sender);
        if self.filter.accept(header.epoch, body.id, parent) != Arrival::First {
            return;
        }
        let hop = HopHeader::new(FrameKind::Data, self.node, self.filter.epoch());
        let span =
            out.write(|buffer| frame::encode(buffer, hop, &body, &rest[size_of::<DataBody>()..]));
        for child in self.tree.children(self.node, body.id) {
            out.datagram(Channel::OVERLAY, Peer::Node(child), span);
            self.stats.copies_sent += 1;
        }
        self.stats.forwarded += 1;
    }

    fn handle_order(&mut self, header: &HopHeader, rest: &[u8], out: &mut Outbox) {
        let Ok((body, payload)) = frame::body::<OrderBody>(rest) else {
            self.stats.malformed += 1;
            return;
        };
        let layer = |node| self.tree.topology.locate(node).map(|(layer, _)| layer);
        // Orders only ever climb, so they cannot go round in circles.
        let from_below = layer(header.sender) == layer(self.node).map(|layer| layer + 1);
        let (hedge, epoch) = (self.tree.hedge, self.filter.epoch());
        let next = self.tree.topology.up_hop(self.node, hedge, epoch, header.attempt);
        let Some(next) = next.filter(|_| from_below) else {
            self.stats.unexpected += 1;
            return;
        };
        let hop = HopHeader::new(FrameKind::Order, self.node, epoch);
        emit::send(out, next, HopHeader { attempt: header.attempt, ..hop }, &body, payload);
        self.stats.orders_up += 1;
    }

    fn handle_delay(&mut self, now: Nanos, header: &HopHeader, rest: &[u8], out: &mut Outbox) {
        let Ok((body, [])) = frame::body::<DelayBody>(rest) else {
            self.stats.malformed += 1;
            return;
        };
        if header.epoch != self.filter.epoch() {
            self.stats.unexpected += 1;
            return;
        }
        if let Some((round, value)) = self.rounds.report(now, header.sender, &body) {
            self.report_up(round, value, out);
        }
    }

    fn report_up(&self, round: u64, value: DelayValue, out: &mut Outbox) {
        let parent = self.tree.reduce_parent(self.node, round).unwrap_or(ROOT);
        let hop = HopHeader::new(FrameKind::Delay, self.node, self.filter.epoch());
        let DelayValue { owd_ns, bound_ns, receivers } = value;
        let stream = self.tree.stream;
        let body = DelayBody { round, owd_ns, bound_ns, receivers, stream, reserved: 0 };
        emit::send(out, parent, hop, &body, &[]);
    }
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
        match HopHeader::read(bytes) {
            Ok((header, rest)) if channel == Channel::OVERLAY => match header.kind {
                FrameKind::Data => self.handle_data(&header, rest, out),
                FrameKind::Order => self.handle_order(&header, rest, out),
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
    }

    fn next_timeout(&self) -> Nanos {
        self.rounds.next_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;
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
        let body = DataBody { id, t_sent, deadline, bound_ns: 4, stream: 0, reserved: 0 };
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
                DelayBody { round: 10, owd_ns, bound_ns: 1, receivers: 1, stream: 0, reserved: 0 };
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
            DelayBody { round: 10, owd_ns: 5, bound_ns: 1, receivers: 1, stream: 0, reserved: 0 };
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
