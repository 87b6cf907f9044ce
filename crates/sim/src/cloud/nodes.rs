//! The overlay's own nodes in a modelled cloud: publisher, proxies and receivers unchanged, without
//! an exchange around them.
//!
//! An event is one datagram handed to a node, one timer, or one message published; nothing is
//! batched. Bytes of a datagram are stored once for all copies on their way. Delays come from
//! [`Cloud`], so the arrival times equal those of [`super::flow`] where no message overtakes
//! another. Datagrams are not sealed here.

use overlay::{
    frame::{DataBody, FrameKind, HopHeader},
    proxy::{Proxy, ProxyConfig},
    publisher::{Publisher, PublisherConfig},
    receiver::{Receiver, ReceiverConfig, ReceiverStats},
    retransmission::StoreConfig,
    topology::Tree,
};
use types::{Channel, ClockReading, Nanos, Node, Op, Outbox, Peer, TracePoint};

use super::{
    link::{Cloud, THREADS_MAX},
    wheel::Wheel,
};

const SESSION: [u8; 10] = *b"CLOUD00001";
/// Messages whose traces are kept at one time; the delivery of a message must be over by then.
const TRACED: usize = 4_096;
/// Timers further away than this are far.
const FAR: u64 = 4 * Nanos::MILLI;
/// Clocks begin here, so that no reading is negative.
const START: u64 = Nanos::SECOND;

/// Sizes of the nodes' tables, smaller than a real node's so that thousands fit the caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Ids a duplicate filter spans.
    pub filter_slots: usize,
    /// Datagrams a receiver holds.
    pub hold_max: usize,
    /// Delays an estimate is taken over.
    pub owd_window: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes { filter_slots: 64, hold_max: 64, owd_window: 100 }
    }
}

/// What became of one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// Overlay id, 0 for none.
    pub id: u64,
    /// When it was sent, true time.
    pub sent_at: u64,
    /// Last first copy at a receiver, true time.
    pub last_arrival: u64,
    /// Receivers it reached.
    pub arrived: u32,
    /// Receivers that handed it on.
    pub released: u32,
    /// Receivers that did so after its deadline.
    pub late: u32,
    /// First and last hand-off, true time.
    pub first_release: u64,
    /// Last hand-off, true time.
    pub last_release: u64,
    /// Whether it carried a deadline.
    pub stamped: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Payload `slot` reaches a node.
    Datagram {
        node: u16,
        slot: u32,
    },
    Timer {
        node: u16,
    },
    /// The next message is published.
    Publish,
}

/// Which node it is, by its place in a list.
#[derive(Clone, Copy)]
enum Who {
    Root,
    Proxy(usize),
    Receiver(usize),
}

#[derive(Default)]
struct Payload {
    bytes: Vec<u8>,
    references: u32,
}

/// The nodes and what is on its way between them.
pub struct NodeWorld {
    cloud: Cloud,
    publisher: Publisher,
    /// Nodes 1 and up; those after them are the receivers.
    proxies: Vec<Proxy>,
    edges: Vec<Receiver>,
    /// True times of a node's timer events in the queue: the next one soon and the next one far
    /// away; [`u64::MAX`] for none. A far one stays when a sooner one is wanted, so the queue's
    /// heap does not fill with timers that were overtaken.
    timers: Vec<(u64, u64)>,
    busy: Vec<[u64; THREADS_MAX]>,
    wheel: Wheel<Event>,
    pool: Vec<Payload>,
    free: Vec<u32>,
    out: Outbox,
    deliveries: Vec<Delivery>,
    /// Messages delivered to everybody, in order of completion, if asked for.
    finished: Vec<Delivery>,
    receivers: u32,
    interval_ns: u64,
    left: u64,
    message: Vec<u8>,
    events: u64,
    datagrams: u64,
    /// Distinguishes datagrams that are no market data.
    other: u64,
}

impl NodeWorld {
    /// Nodes of `tree` in `cloud` (made for its layers).
    pub fn new(tree: Tree, cloud: Cloud, sizes: Sizes) -> NodeWorld {
        let store = StoreConfig { datagrams: 4_096, bytes: 1 << 20 };
        let config = PublisherConfig { store, ..PublisherConfig::new(SESSION) };
        let receiver = ReceiverConfig {
            filter_slots: sizes.filter_slots,
            hold_max: sizes.hold_max,
            owd_window: sizes.owd_window,
            ..ReceiverConfig::new(SESSION, Peer::Addr(0))
        };
        let proxy = ProxyConfig { filter_slots: sizes.filter_slots, ..ProxyConfig::default() };
        let nodes = tree.topology.nodes();
        let mut world = NodeWorld {
            cloud,
            publisher: Publisher::new(tree, config),
            proxies: tree.topology.proxy_ids().map(|node| Proxy::new(tree, node, proxy)).collect(),
            edges: (tree.topology.receiver_ids())
                .map(|node| Receiver::new(tree, node, receiver))
                .collect(),
            timers: vec![(u64::MAX, u64::MAX); nodes],
            busy: vec![[0; THREADS_MAX]; nodes],
            wheel: Wheel::default(),
            pool: Vec::new(),
            free: Vec::new(),
            out: Outbox::default(),
            deliveries: vec![Delivery::default(); TRACED],
            finished: Vec::new(),
            receivers: tree.topology.receivers() as u32,
            interval_ns: 0,
            left: 0,
            message: vec![0; 64],
            events: 0,
            datagrams: 0,
            other: 0,
        };
        (0..nodes as u16).for_each(|node| world.ask_timer(START, node));
        world
    }

    /// Publishes `messages` messages, `interval_ns` apart from `first_at` (after [`NodeWorld::new`]
    /// or the last call, counted from the start), and runs until `quiet_ns` after the last.
    pub fn run(&mut self, first_at: u64, messages: u64, interval_ns: u64, quiet_ns: u64) {
        (self.left, self.interval_ns) = (messages, interval_ns.max(1));
        if messages > 0 {
            self.wheel.push(START + first_at, Event::Publish);
        }
        let end = START + first_at + messages * self.interval_ns + quiet_ns;
        while let Some((at, event)) = self.wheel.pop_until(end) {
            self.step(at, event);
        }
    }

    /// Datagrams handled, timers and publications so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Datagrams sent so far, lost ones included.
    pub fn datagrams(&self) -> u64 {
        self.datagrams
    }

    /// Messages that everybody has handed on, in the order in which that was complete.
    pub fn finished(&self) -> &[Delivery] {
        &self.finished
    }

    /// Totals of all receivers together: (late by own fault, blocked by an earlier one, repairs
    /// that brought something).
    pub fn totals(&self) -> (u64, u64, u64) {
        let stats = self.edges.iter().map(Receiver::stats);
        stats.fold((0, 0, 0), |sum, stats: ReceiverStats| {
            (sum.0 + stats.late_self, sum.1 + stats.late_blocked, sum.2 + stats.repairs_filled)
        })
    }

    fn who(&self, node: u16) -> Who {
        let at = usize::from(node);
        match at {
            0 => Who::Root,
            at if at <= self.proxies.len() => Who::Proxy(at - 1),
            at => Who::Receiver(at - 1 - self.proxies.len()),
        }
    }

    fn reading(&self, node: u16, at: u64) -> ClockReading {
        let now = Nanos(at.saturating_add_signed(self.cloud.clock_ns(usize::from(node))));
        ClockReading { now, bound_ns: 0 }
    }

    fn step(&mut self, at: u64, event: Event) {
        self.events += 1;
        let node = match event {
            Event::Datagram { node, slot } => {
                self.deliver(at, node, slot);
                node
            }
            Event::Timer { node } => {
                let (soon, far) = &mut self.timers[usize::from(node)];
                if *soon == at {
                    *soon = u64::MAX;
                } else if *far == at {
                    *far = u64::MAX;
                } else {
                    // An earlier one took its place.
                    self.events -= 1;
                    return;
                }
                let now = self.reading(node, at);
                match self.who(node) {
                    Who::Root => self.publisher.handle_timeout(now, &mut self.out),
                    Who::Proxy(at) => self.proxies[at].handle_timeout(now, &mut self.out),
                    Who::Receiver(at) => self.edges[at].handle_timeout(now, &mut self.out),
                }
                node
            }
            Event::Publish => {
                let now = self.reading(0, at);
                // The publisher takes every message of this size until its session ends.
                let _ = self.publisher.push_message(now, &self.message, &mut self.out);
                self.publisher.flush(now, &mut self.out);
                self.left -= 1;
                if self.left > 0 {
                    self.wheel.push(at + self.interval_ns, Event::Publish);
                }
                0
            }
        };
        self.drain(at, node);
        self.ask_timer(at, node);
    }

    fn deliver(&mut self, at: u64, node: u16, slot: u32) {
        let now = self.reading(node, at);
        let who = self.who(node);
        let payload = &mut self.pool[slot as usize];
        match (who, HopHeader::read(&payload.bytes)) {
            (Who::Proxy(at), _) => {
                let (channel, from) = (Channel::OVERLAY, Peer::Addr(0));
                let proxy = &mut self.proxies[at];
                proxy.handle_datagram(now, channel, from, &payload.bytes, &mut self.out);
            }
            (Who::Root, Ok((header, rest))) => {
                self.publisher.handle_frame(now, &header, rest, &mut self.out);
            }
            (Who::Receiver(at), Ok((header, rest))) => {
                self.edges[at].handle_frame(now, &header, rest, &mut self.out);
            }
            (_, Err(_)) => {}
        }
        payload.references -= 1;
        if payload.references == 0 {
            self.free.push(slot);
        }
    }

    fn drain(&mut self, at: u64, node: u16) {
        if self.out.is_empty() {
            return;
        }
        let out = std::mem::take(&mut self.out);
        let mut last = None;
        let threads = self.cloud.profile().threads;
        let busy = &self.busy[usize::from(node)][..threads];
        let thread = (0..threads).min_by_key(|thread| busy[*thread]).unwrap_or(0);
        let mut leaves = at.max(busy[thread]);
        for op in out.ops() {
            let Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(to), bytes: span } = *op
            else {
                continue;
            };
            let (slot, key) = match last {
                Some((same, slot, key)) if same == span => (slot, key),
                _ => self.store(out.bytes(span)),
            };
            last = Some((span, slot, key));
            leaves += self.cloud.profile().copy_ns;
            self.datagrams += 1;
            if let Some(delay) = self.cloud.delay_ns(key, node, to.0, leaves) {
                self.pool[slot as usize].references += 1;
                self.wheel.push(leaves + delay, Event::Datagram { node: to.0, slot });
            }
        }
        self.busy[usize::from(node)][thread] = leaves;
        for trace in out.traces() {
            let offset = self.cloud.clock_ns(usize::from(trace.node.0));
            let at = trace.at.0.saturating_add_signed(-offset);
            self.note(trace.point, trace.id, at, trace.value);
        }
        self.out = out;
        self.out.clear();
    }

    /// Keeps bytes; also what the cloud knows the message by.
    fn store(&mut self, bytes: &[u8]) -> (u32, u64) {
        let data = HopHeader::read(bytes).ok().filter(|(header, _)| header.kind == FrameKind::Data);
        let id = data.and_then(|(_, rest)| overlay::frame::body::<DataBody>(rest).ok());
        let message = id.map_or_else(
            || {
                self.other += 1;
                1 << 63 | self.other
            },
            |(body, _)| body.id,
        );
        let slot = self.free.pop().unwrap_or_else(|| {
            self.pool.push(Payload::default());
            (self.pool.len() - 1) as u32
        });
        let payload = &mut self.pool[slot as usize];
        payload.bytes.clear();
        payload.bytes.extend_from_slice(bytes);
        payload.references = 0;
        (slot, self.cloud.message_key(message))
    }

    fn note(&mut self, point: TracePoint, id: u64, at: u64, value: u64) {
        let delivery = &mut self.deliveries[id as usize % TRACED];
        match point {
            TracePoint::Published => {
                let stamped = value != 0;
                *delivery = Delivery { id, sent_at: at, stamped, ..Delivery::default() };
            }
            _ if delivery.id != id => {}
            TracePoint::Arrived => {
                delivery.arrived += 1;
                delivery.last_arrival = delivery.last_arrival.max(at);
            }
            point => {
                delivery.late += u32::from(point != TracePoint::Released);
                if delivery.released == 0 {
                    delivery.first_release = at;
                }
                delivery.released += 1;
                delivery.last_release = delivery.last_release.max(at);
                delivery.first_release = delivery.first_release.min(at);
                if delivery.released == self.receivers {
                    self.finished.push(*delivery);
                }
            }
        }
    }

    fn ask_timer(&mut self, at: u64, node: u16) {
        let due = match self.who(node) {
            Who::Root => self.publisher.next_timeout(),
            Who::Proxy(at) => self.proxies[at].next_timeout(),
            Who::Receiver(at) => self.edges[at].next_timeout(),
        };
        if due == Nanos::NEVER {
            return;
        }
        let offset = self.cloud.clock_ns(usize::from(node));
        let due = due.0.saturating_add_signed(-offset).max(at);
        let (soon, far) = &mut self.timers[usize::from(node)];
        let timer = if due - at > FAR { far } else { soon };
        if due < *timer {
            *timer = due;
            self.wheel.push(due, Event::Timer { node });
        }
    }
}

/// A world of `N` receivers under the given tree, for measuring the simulator itself.
pub fn speed_world(tree: Tree, seed: u64) -> NodeWorld {
    let run_ns = 10 * Nanos::SECOND;
    let profile = super::link::Profile::standard();
    let cloud = Cloud::new(&profile, seed, tree.topology.layers(), run_ns);
    NodeWorld::new(tree, cloud, Sizes::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{flow::Flow, link::Profile, table1};

    fn cloud(profile: &Profile, seed: u64, tree: &Tree) -> Cloud {
        Cloud::new(profile, seed, tree.topology.layers(), Nanos::SECOND)
    }

    #[test]
    fn real_nodes_and_the_flow_agree_to_the_nanosecond() {
        for (layers, hedge) in [
            (vec![10, 100], 0),
            (vec![7, 50], 2),
            (vec![4, 13, 61], 1),
            (vec![3, 9, 27, 81], 2),
            (vec![12], 0),
        ] {
            // Messages far apart, no losses (repairs are the nodes' own affair), no clock error
            // (the flow knows none).
            let profile = Profile { loss_ppm: 0, clock_error_ns: 0.0, ..Profile::standard() };
            let tree = table1::tree(&layers, hedge, true);
            let mut world = NodeWorld::new(tree, cloud(&profile, 9, &tree), Sizes::default());
            let mut flow = Flow::new(tree, cloud(&profile, 9, &tree));
            let interval = 5 * Nanos::MILLI;
            world.run(interval, 100, interval, interval);
            assert_eq!(world.finished().len(), 100);
            for delivery in world.finished() {
                let arrivals = flow.send(delivery.id, delivery.sent_at, hedge);
                let last = arrivals.iter().max().copied().unwrap();
                assert_eq!(delivery.last_arrival, last, "{layers:?} H={hedge} {delivery:?}");
            }
            assert_eq!(world.totals().2, 0);
        }
    }

    #[test]
    fn lost_messages_are_repaired_and_deadlines_come() {
        let profile = Profile { loss_ppm: 20_000, ..Profile::standard() };
        let tree = table1::tree(&[5, 40], 0, true);
        let mut world = NodeWorld::new(tree, cloud(&profile, 2, &tree), Sizes::default());
        world.run(0, 2_000, 200_000, 500 * Nanos::MILLI);
        assert_eq!(world.finished().len(), 2_000);
        assert!(world.finished().iter().any(|delivery| delivery.stamped));
        assert!(world.totals().2 > 500, "{:?}", world.totals());
    }
}
