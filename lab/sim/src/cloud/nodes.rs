//! The overlay's own nodes in a modelled cloud: publisher, proxies and receivers unchanged, without
//! an exchange around them.
//!
//! An event is one datagram handed to a node, one timer, or one message published; nothing is
//! batched. Bytes of a datagram are stored once for all copies on their way. Delays come from
//! [`Cloud`], so the arrival times equal those of [`super::flow`] where no message overtakes
//! another. Datagrams are not sealed here.

use overlay::{
    all_reduce::DelayLimits,
    estimator::Estimator,
    frame::{DataBody, FrameKind, HopHeader},
    proxy::{Proxy, ProxyConfig},
    publisher::{Publisher, PublisherConfig},
    receiver::{Receiver, ReceiverConfig, ReceiverStats},
    retransmission::StoreConfig,
    topology::Tree,
};
use types::{Channel, ClockReading, Nanos, Node, Op, Outbox, Peer, Span, TracePoint};

use super::{
    link::{Cloud, THREADS_MAX},
    wheel::Wheel,
};

const SESSION: [u8; 10] = *b"CLOUD00001";
/// Messages whose traces are kept at one time; the delivery of a message must be over by then.
const TRACED: usize = 4_096;
/// Timers further away than this are far.
const FAR: u64 = 4 * Nanos::MILLI;
/// No timeout has this time.
const UNASKED: u64 = u64::MAX - 1;
/// Clocks begin here, so that no reading is negative.
const START: u64 = Nanos::SECOND;

/// Sizes of the nodes' tables, smaller than a real node's so that thousands fit the caches, and how
/// deadlines are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Ids a duplicate filter spans.
    pub filter_slots: usize,
    /// Datagrams a receiver holds.
    pub hold_max: usize,
    /// Delays an estimate is taken over.
    pub owd_window: usize,
    /// How the root makes deadlines of them.
    pub estimator: Estimator,
    /// Messages of a round whose delays are reported one by one.
    pub samples: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        let estimator = Estimator::MaxOfPercentiles;
        Sizes { filter_slots: 64, hold_max: 64, owd_window: 100, estimator, samples: 0 }
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
    /// Whether it carried a deadline, and how long after sending.
    pub stamped: bool,
    /// Time from sending to the deadline, in ns; 0 without one.
    pub allowed_ns: u64,
}

/// What happens next, in 8 bytes: kind, node and payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event(u64);

/// A datagram reaches a node.
const DATAGRAM: u64 = 0;
/// A node's timer is due.
const TIMER: u64 = 1;
/// The next message is published.
const PUBLISH: u64 = 2;

impl Event {
    fn datagram(node: u16, slot: u32) -> Event {
        Event(DATAGRAM << 48 | u64::from(node) << 32 | u64::from(slot))
    }

    fn timer(node: u16) -> Event {
        Event(TIMER << 48 | u64::from(node) << 32)
    }

    fn kind(self) -> u64 {
        self.0 >> 48
    }

    fn node(self) -> u16 {
        (self.0 >> 32) as u16
    }

    fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// Which node it is, by its place in a list.
#[derive(Clone, Copy)]
enum Who {
    Root,
    Proxy(usize),
    Receiver(usize),
}

/// What the simulator keeps of a node.
#[derive(Clone, Copy)]
struct Place {
    /// Reading of its clock minus true time, in ns.
    clock_ns: i64,
    /// True times of its timer events in the queue: the next one soon and the next one far away;
    /// [`u64::MAX`] for none. A far one stays when a sooner one is wanted, so the queue's heap does
    /// not fill with timers that were overtaken.
    soon: u64,
    far: u64,
    /// The timeout that those are for, by its own clock; [`UNASKED`] when one has come since.
    asked: u64,
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
    places: Vec<Place>,
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
        let store = StoreConfig { datagrams: 4_096, bytes: 1 << 20, ..StoreConfig::default() };
        let delay = DelayLimits { samples: sizes.samples, ..DelayLimits::default() };
        let estimator = sizes.estimator;
        let config = PublisherConfig { store, delay, estimator, ..PublisherConfig::new(SESSION) };
        let receiver = ReceiverConfig {
            filter_slots: sizes.filter_slots,
            hold_max: sizes.hold_max,
            owd_window: sizes.owd_window,
            samples: sizes.samples,
            ..ReceiverConfig::new(SESSION, Peer::Addr(0))
        };
        let filter_slots = sizes.filter_slots;
        let proxy = ProxyConfig { filter_slots, delay, ..ProxyConfig::default() };
        let nodes = tree.topology.nodes();
        let place = |node| Place {
            clock_ns: cloud.clock_ns(node),
            soon: u64::MAX,
            far: u64::MAX,
            asked: UNASKED,
        };
        let places = (0..nodes).map(place).collect();
        let mut world = NodeWorld {
            cloud,
            publisher: Publisher::new(tree, config),
            proxies: tree.topology.proxy_ids().map(|node| Proxy::new(tree, node, proxy)).collect(),
            edges: (tree.topology.receiver_ids())
                .map(|node| Receiver::new(tree, node, receiver))
                .collect(),
            places,
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
        (0..nodes as u16).for_each(|node| world.set_timer(START, node, Nanos(0)));
        world
    }

    /// Publishes `messages` messages, `interval_ns` apart from `first_at` (after [`NodeWorld::new`]
    /// or the last call, counted from the start), and runs until `quiet_ns` after the last.
    pub fn run(&mut self, first_at: u64, messages: u64, interval_ns: u64, quiet_ns: u64) {
        (self.left, self.interval_ns) = (messages, interval_ns.max(1));
        self.finished.reserve(messages as usize);
        if messages > 0 {
            self.wheel.push(START + first_at, Event(PUBLISH << 48));
        }
        let end = START + first_at + messages * self.interval_ns + quiet_ns;
        while let Some((at, event)) = self.wheel.pop_until(end) {
            if let Some(next) = self.wheel.glimpse() {
                self.fetch(next);
            }
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
        let clock_ns = self.places[usize::from(node)].clock_ns;
        ClockReading { now: Nanos(at.saturating_add_signed(clock_ns)), bound_ns: 0 }
    }

    /// Fetches the node of an event that comes soon: a thousand of them do not fit the nearer caches.
    #[inline]
    fn fetch(&self, event: Event) {
        let node = event.node();
        book::prefetch(&self.places[usize::from(node)]);
        match self.who(node) {
            Who::Receiver(at) => book::prefetch_whole(&self.edges[at]),
            Who::Proxy(at) => book::prefetch_whole(&self.proxies[at]),
            Who::Root => {}
        }
    }

    fn step(&mut self, at: u64, event: Event) {
        self.events += 1;
        let node = event.node();
        let due = match event.kind() {
            DATAGRAM => self.deliver(at, node, event.slot()),
            TIMER => match self.fire(at, node) {
                Some(due) => due,
                None => {
                    // An earlier one took its place.
                    self.events -= 1;
                    return;
                }
            },
            _ => self.publish(at),
        };
        if !self.out.is_empty() {
            self.drain(at, node);
        }
        if due.0 != self.places[usize::from(node)].asked {
            self.set_timer(at, node, due);
        }
    }

    fn publish(&mut self, at: u64) -> Nanos {
        let now = self.reading(0, at);
        // The publisher takes every message of this size until its session ends.
        let _ = self.publisher.push_message(now, &self.message, &mut self.out);
        self.publisher.flush(now, &mut self.out);
        self.left -= 1;
        if self.left > 0 {
            self.wheel.push(at + self.interval_ns, Event(PUBLISH << 48));
        }
        self.publisher.next_timeout()
    }

    /// Calls the node if the timer still stands; when it wants to be called next.
    fn fire(&mut self, at: u64, node: u16) -> Option<Nanos> {
        let place = &mut self.places[usize::from(node)];
        if place.soon == at {
            place.soon = u64::MAX;
        } else if place.far == at {
            place.far = u64::MAX;
        } else {
            return None;
        }
        place.asked = UNASKED;
        let now = self.reading(node, at);
        Some(match self.who(node) {
            Who::Root => {
                self.publisher.handle_timeout(now, &mut self.out);
                self.publisher.next_timeout()
            }
            Who::Proxy(at) => {
                self.proxies[at].handle_timeout(now, &mut self.out);
                self.proxies[at].next_timeout()
            }
            Who::Receiver(at) => {
                self.edges[at].handle_timeout(now, &mut self.out);
                self.edges[at].next_timeout()
            }
        })
    }

    /// Hands a datagram to its node; when that wants to be called next.
    fn deliver(&mut self, at: u64, node: u16, slot: u32) -> Nanos {
        let now = self.reading(node, at);
        let who = self.who(node);
        let payload = &mut self.pool[slot as usize];
        payload.references -= 1;
        if payload.references == 0 {
            self.free.push(slot);
        }
        match who {
            Who::Proxy(at) => {
                let (channel, from) = (Channel::OVERLAY, Peer::Addr(0));
                let proxy = &mut self.proxies[at];
                proxy.handle_datagram(now, channel, from, &payload.bytes, &mut self.out);
                proxy.next_timeout()
            }
            Who::Receiver(at) => {
                let receiver = &mut self.edges[at];
                if let Ok((header, rest)) = HopHeader::read(&payload.bytes) {
                    receiver.handle_frame(now, &header, rest, &mut self.out);
                }
                receiver.next_timeout()
            }
            Who::Root => {
                if let Ok((header, rest)) = HopHeader::read(&payload.bytes) {
                    self.publisher.handle_frame(now, &header, rest, &mut self.out);
                }
                self.publisher.next_timeout()
            }
        }
    }

    fn drain(&mut self, at: u64, node: u16) {
        if self.out.ops().iter().any(|op| overlay_copy(op).is_some()) {
            self.send(at, node);
        }
        for index in 0..self.out.traces().len() {
            let trace = self.out.traces()[index];
            let clock_ns = self.places[usize::from(trace.node.0)].clock_ns;
            self.note(
                trace.point,
                trace.id,
                trace.at.0.saturating_add_signed(-clock_ns),
                trace.value,
            );
        }
        self.out.clear();
    }

    /// Puts the copies that a node makes on their way, one after the other.
    fn send(&mut self, at: u64, node: u16) {
        let out = std::mem::take(&mut self.out);
        let (threads, copy_ns) = (self.cloud.profile().threads, self.cloud.profile().copy_ns);
        let busy = &self.busy[usize::from(node)][..threads];
        let thread = (0..threads).min_by_key(|thread| busy[*thread]).unwrap_or(0);
        let mut leaves = at.max(busy[thread]);
        let (mut last, mut slot, mut key, mut references) = (None, 0, 0, 0);
        for op in out.ops() {
            let Some((to, span)) = overlay_copy(op) else { continue };
            if last != Some(span) {
                self.settle(last.is_some(), slot, references);
                (slot, key) = self.store(out.bytes(span));
                (last, references) = (Some(span), 0);
            }
            leaves += copy_ns;
            self.datagrams += 1;
            if let Some(delay) = self.cloud.delay_ns(key, node, to, leaves) {
                references += 1;
                self.wheel.push(leaves + delay, Event::datagram(to, slot));
            }
        }
        self.settle(last.is_some(), slot, references);
        self.busy[usize::from(node)][thread] = leaves;
        self.out = out;
    }

    /// So many copies of a payload are on their way.
    fn settle(&mut self, stored: bool, slot: u32, references: u32) {
        if stored {
            self.pool[slot as usize].references = references;
            if references == 0 {
                self.free.push(slot);
            }
        }
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
                let (stamped, allowed_ns) = (value != 0, value.saturating_sub(at));
                *delivery =
                    Delivery { id, sent_at: at, stamped, allowed_ns, ..Delivery::default() };
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

    fn set_timer(&mut self, at: u64, node: u16, due: Nanos) {
        let place = &mut self.places[usize::from(node)];
        place.asked = due.0;
        if due == Nanos::NEVER {
            return;
        }
        let due = due.0.saturating_add_signed(-place.clock_ns).max(at);
        let timer = if due - at > FAR { &mut place.far } else { &mut place.soon };
        if due < *timer {
            *timer = due;
            self.wheel.push(due, Event::timer(node));
        }
    }
}

/// A datagram between nodes: to whom, and which bytes.
fn overlay_copy(op: &Op) -> Option<(u16, Span)> {
    match *op {
        Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(to), bytes } => {
            Some((to.0, bytes))
        }
        _ => None,
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

    #[test]
    fn real_nodes_and_the_model_of_hold_and_release_make_the_same_deadlines() {
        use crate::cloud::{deadline::Kind, hold_release, stats::median};
        let profile =
            Profile { loss_ppm: 0, clock_error_ns: 0.0, spikes: None, ..Profile::standard() };
        let (layers, hedge, messages) = (vec![4, 30], 1, 9_000);
        for kind in [Kind::MaxOfPercentiles(950), Kind::OfMaximum(950)] {
            let tree = table1::tree(&layers, hedge, true);
            let cloud = Cloud::new(&profile, 4, tree.topology.layers(), 10 * Nanos::SECOND);
            let estimator = kind.rule();
            let sizes = Sizes { owd_window: 1_000, estimator, samples: 64, ..Sizes::default() };
            let mut world = NodeWorld::new(tree, cloud, sizes);
            world.run(0, messages, hold_release::INTERVAL_NS, 10 * Nanos::MILLI);
            let settled = &world.finished()[hold_release::WARM_UP..];
            let mut allowed: Vec<u64> = settled.iter().map(|one| one.allowed_ns).collect();
            let on_time = settled.iter().filter(|one| one.late == 0).count();
            let setup = hold_release::Setup {
                layers: layers.clone(),
                hedge,
                messages: messages as usize,
                profile: profile.clone(),
                ..hold_release::Setup::standard(30, hedge, 0, 4)
            };
            let (_, outcomes) = hold_release::run(&setup, &[kind]);
            let ratio = median(&mut allowed) as f64 / outcomes[0].oml_release_ns;
            let share = on_time as f64 / settled.len() as f64;
            assert!((ratio - 1.0).abs() < 0.02, "{kind:?} {ratio}");
            assert!((share - outcomes[0].p_on_time).abs() < 0.03, "{kind:?} {share} {outcomes:?}");
        }
    }
}
