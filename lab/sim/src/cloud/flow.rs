//! How one message spreads down the tree: the overlay's rules applied layer by layer.
//!
//! Every node sends to its own children first and then to those of H siblings, one copy after the
//! other, from the thread that is free first; a node forwards its first copy. The same cloud gives
//! the same arrival times as the real nodes under [`super::nodes`] as long as no message overtakes
//! another at a node, which a test compares; this way is some ten times faster.

use overlay::{child_sequence::ChildSequence, topology::Tree};
use types::NodeId;

use super::link::{Cloud, THREADS_MAX};

/// No copy came.
pub const LOST: u64 = u64::MAX;

/// What nodes spend on one datagram, in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Service {
    /// The root, with each copy.
    pub root_copy_ns: u64,
    /// A proxy, with the first copy that comes.
    pub receive_ns: u64,
    /// A proxy, with each copy it sends.
    pub copy_ns: u64,
    /// A receiver, with each copy that comes; 0: receivers are never busy.
    pub edge_ns: u64,
}

/// A message on its way through one cloud.
pub struct Flow {
    tree: Tree,
    cloud: Cloud,
    /// Arrival of the message at each node, true time.
    arrival: Vec<u64>,
    /// Until when the threads of each node are busy.
    busy: Vec<[u64; THREADS_MAX]>,
    /// Copies sent so far.
    copies: u64,
    first_receiver: usize,
    service: Service,
    /// Until when each receiver is busy.
    edges_busy: Vec<u64>,
    /// What each sender knows of its children, if slow ones are served first.
    orders: Vec<ChildSequence>,
}

impl Flow {
    /// Messages of `tree` in `cloud`, which must have been made for the tree's layers.
    pub fn new(tree: Tree, cloud: Cloud) -> Flow {
        let nodes = tree.topology.nodes();
        let first_receiver = nodes - tree.topology.receivers();
        let copy_ns = cloud.profile().copy_ns;
        let service = Service { root_copy_ns: copy_ns, copy_ns, ..Service::default() };
        Flow {
            tree,
            cloud,
            arrival: vec![LOST; nodes],
            busy: vec![[0; THREADS_MAX]; nodes],
            copies: 0,
            first_receiver,
            service,
            edges_busy: vec![0; tree.topology.receivers()],
            orders: Vec::new(),
        }
    }

    /// Nodes spend these times instead of the profile's time for a copy.
    pub fn serve_at(&mut self, service: Service) {
        self.service = service;
    }

    /// Has every sender serve those children first that it has heard to be slowest.
    pub fn serve_slowest_first(&mut self) {
        let senders = (0..self.first_receiver as u16).map(NodeId);
        self.orders = senders.map(|node| ChildSequence::new(&self.tree, node)).collect();
    }

    /// `child` reports to `parent` how slow it is.
    pub fn report(&mut self, parent: NodeId, child: NodeId, owd_ns: u64) {
        if let Some(order) = self.orders.get_mut(usize::from(parent.0)) {
            order.learn(child, owd_ns);
        }
    }

    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The cloud.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// Copies sent so far.
    pub fn copies(&self) -> u64 {
        self.copies
    }

    /// Sends message `id` (from 1) at `sent_at` with hedging `hedge`; messages in order of time.
    /// Arrival times at the receivers, [`LOST`] where no copy came.
    pub fn send(&mut self, id: u64, sent_at: u64, hedge: usize) -> &[u64] {
        self.arrival.fill(LOST);
        self.arrival[0] = sent_at;
        let key = self.cloud.message_key(id);
        let threads = self.cloud.profile().threads;
        let Service { root_copy_ns, receive_ns, copy_ns, edge_ns } = self.service;
        for node in 0..self.first_receiver {
            let arrived = self.arrival[node];
            if arrived == LOST {
                continue;
            }
            let busy = &mut self.busy[node][..threads];
            let thread = (0..threads).min_by_key(|thread| busy[*thread]).unwrap_or(0);
            let mut at = arrived.max(busy[thread]);
            let copy_ns = match node {
                0 => root_copy_ns,
                _ => {
                    at += receive_ns;
                    copy_ns
                }
            };
            let from = NodeId(node as u16);
            let children = self.tree.topology.children(from, id, hedge, self.tree.dynamic);
            let (cloud, arrival) = (&mut self.cloud, &mut self.arrival);
            let (first, edges_busy) = (self.first_receiver, &mut self.edges_busy);
            let mut copy = |child: NodeId| {
                at += copy_ns;
                self.copies += 1;
                if let Some(delay) = cloud.delay_ns(key, from.0, child.0, at) {
                    let mut arrived = at + delay;
                    if edge_ns > 0
                        && let Some(busy) = usize::from(child.0)
                            .checked_sub(first)
                            .and_then(|i| edges_busy.get_mut(i))
                    {
                        arrived = arrived.max(*busy) + edge_ns;
                        *busy = arrived;
                    }
                    let arrival = &mut arrival[usize::from(child.0)];
                    *arrival = (*arrival).min(arrived);
                }
            };
            match self.orders.get_mut(node) {
                Some(order) => order.arrange(children).iter().copied().for_each(&mut copy),
                None => children.for_each(&mut copy),
            }
            self.busy[node][thread] = at;
        }
        &self.arrival[self.first_receiver..]
    }

    /// Arrival times of the last message at all nodes, by node number.
    pub fn arrivals(&self) -> &[u64] {
        &self.arrival
    }
}
