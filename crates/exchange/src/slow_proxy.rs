//! A node that hears everything later than it came: for trials of a slow VM on a fast machine.
//!
//! What comes over the overlay waits as long as whoever makes the trial says, sender by sender;
//! then the node gets it as if it had come only now. The node itself is not changed. Bounded: what
//! comes while too much waits is dropped, as by a full queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use types::{Channel, ClockReading, ConnId, Nanos, Node, Outbox, Peer, Remote};

use crate::Role;

/// Datagrams that may wait.
const WAITING_MAX: usize = 1 << 16;

/// How much later a datagram of a sender is heard, in ns; asked once per datagram.
pub type Lag = dyn FnMut(Peer) -> u64 + Send;

/// A node and its lag.
pub struct SlowProxy {
    node: Role,
    lag: Box<Lag>,
    /// When due, number, place in `kept`.
    waiting: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    kept: Vec<(Peer, Vec<u8>)>,
    free: Vec<usize>,
    number: u64,
    dropped: u64,
}

impl SlowProxy {
    /// `node`, slow by `lag`.
    pub fn new(node: Role, lag: Box<Lag>) -> SlowProxy {
        let (waiting, kept, free) = (BinaryHeap::new(), Vec::new(), Vec::new());
        SlowProxy { node, lag, waiting, kept, free, number: 0, dropped: 0 }
    }

    /// The node.
    pub fn node(&self) -> &Role {
        &self.node
    }

    pub(crate) fn node_mut(&mut self) -> &mut Role {
        &mut self.node
    }

    /// Datagrams dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn keep(&mut self, due: Nanos, from: Peer, bytes: &[u8]) {
        if self.waiting.len() >= WAITING_MAX {
            self.dropped += 1;
            return;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.kept.push((from, Vec::new()));
            self.kept.len() - 1
        });
        if let Some((sender, kept)) = self.kept.get_mut(place) {
            *sender = from;
            kept.clear();
            kept.extend_from_slice(bytes);
        }
        self.number += 1;
        self.waiting.push(Reverse((due, self.number, place)));
        self.assert_places();
    }

    /// Each place is waiting or free.
    fn assert_places(&self) {
        assert!(self.waiting.len() + self.free.len() == self.kept.len());
        assert!(self.kept.len() <= WAITING_MAX);
    }
}

impl Node for SlowProxy {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        if channel == Channel::OVERLAY {
            let due = now.now.after((self.lag)(from));
            self.keep(due, from, bytes);
        } else {
            self.node.handle_datagram(now, channel, from, bytes, out);
        }
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        while let Some(Reverse((due, _, place))) = self.waiting.peek().copied()
            && due <= now.now
        {
            self.waiting.pop();
            self.free.push(place);
            if let Some((from, bytes)) = self.kept.get(place) {
                self.node.handle_datagram(now, Channel::OVERLAY, *from, bytes, out);
            }
        }
        if self.node.next_timeout() <= now.now {
            self.node.handle_timeout(now, out);
        }
    }

    fn next_timeout(&self) -> Nanos {
        let due = self.waiting.peek().map_or(Nanos::NEVER, |Reverse((due, ..))| *due);
        self.node.next_timeout().min(due)
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.node.handle_connect(now, conn, out);
    }

    fn handle_accept(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        remote: &Remote,
        out: &mut Outbox,
    ) {
        self.node.handle_accept(now, conn, remote, out);
    }

    fn handle_work(&mut self, now: ClockReading, ticket: u64, answer: &[u8], out: &mut Outbox) {
        self.node.handle_work(now, ticket, answer, out);
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        self.node.handle_stream(now, conn, bytes, out);
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.node.handle_close(now, conn, out);
    }

    fn handle_unread(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.node.handle_unread(now, conn, out);
    }

    fn handle_durable(&mut self, now: ClockReading, position: u64, out: &mut Outbox) {
        self.node.handle_durable(now, position, out);
    }

    fn wants_stream(&self, conn: ConnId) -> bool {
        self.node.wants_stream(conn)
    }
}

#[cfg(test)]
mod tests {
    use overlay::proxy::{Proxy, ProxyConfig};
    use overlay::topology::{Topology, Tree};
    use types::NodeId;

    use super::*;

    #[test]
    fn what_comes_is_heard_when_its_lag_is_over_and_in_order_of_that() {
        let topology = Topology::new(2, 2, 4).unwrap();
        let tree = Tree { topology, hedge: 0, dynamic: true, epoch: 1, stream: 0, round_ns: 1 };
        let proxy = Proxy::new(tree, NodeId(1), ProxyConfig::default());
        let lag = |from: Peer| if from == Peer::Node(NodeId(0)) { 500 } else { 100 };
        let mut slow = SlowProxy::new(Role::Proxy(Box::new(proxy)), Box::new(lag));
        let at = |ns| ClockReading { now: Nanos(ns), bound_ns: 0 };
        let mut out = Outbox::default();
        let mut hear = |slow: &mut SlowProxy, ns, from| {
            let peer = Peer::Node(NodeId(from));
            slow.handle_datagram(at(ns), Channel::OVERLAY, peer, b"noise", &mut out);
        };
        hear(&mut slow, 1_000, 0);
        hear(&mut slow, 1_200, 3);
        let heard = |slow: &SlowProxy| match slow.node() {
            Role::Proxy(proxy) => proxy.stats().malformed,
            _ => 0,
        };
        assert_eq!((heard(&slow), slow.next_timeout()), (0, Nanos(1_300)));
        slow.handle_timeout(at(1_300), &mut Outbox::default());
        assert_eq!((heard(&slow), slow.next_timeout()), (1, Nanos(1_500)));
        slow.handle_timeout(at(1_600), &mut Outbox::default());
        assert_eq!((heard(&slow), slow.next_timeout()), (2, Nanos::NEVER));
        // Bounded.
        (0..WAITING_MAX + 7).for_each(|_| hear(&mut slow, 2_000, 3));
        assert_eq!((slow.dropped(), slow.kept.len()), (7, WAITING_MAX));
    }
}
