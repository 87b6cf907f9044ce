//! A publisher, proxies and receivers over links that drop, repeat and reorder: every receiver
//! hands on every message exactly once, in sequence, never before its deadline.
//!
//! Everything follows from the seed; a failing check names it.

use std::collections::BinaryHeap;

use overlay::{
    frame::{self, DataBody, FrameKind, HopHeader},
    mold::Packet,
    proxy::{Proxy, ProxyConfig, ProxyStats},
    publisher::{Publisher, PublisherConfig},
    receiver::{Receiver, ReceiverConfig, ReceiverStats},
    retransmission::StoreStats,
    topology::{ROOT, Topology, Tree},
};
use types::{
    Channel, ClockReading, FeedSeq, Nanos, Node, NodeId, Op, Outbox, Peer, SplitMix64, TracePoint,
};

const SESSION: [u8; 10] = *b"FAIRBELL01";
const FEED: Peer = Peer::Addr(1);
const START: u64 = 1_000 * Nanos::SECOND;

/// A whole run, but for its seed.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    layers: (usize, usize, usize),
    hedge: usize,
    dynamic: bool,
    messages: u64,
    /// Of a thousand datagrams per link: lost, sent twice.
    loss: u64,
    twice: u64,
    /// Links add up to this much delay at random, in ns.
    jitter_ns: u64,
    repairs: bool,
    /// A proxy that dies in the middle.
    kill: Option<NodeId>,
}

const CALM: Scenario = Scenario {
    layers: (2, 3, 9),
    hedge: 1,
    dynamic: true,
    messages: 4_000,
    loss: 0,
    twice: 0,
    jitter_ns: 20_000,
    repairs: true,
    kill: None,
};

const ROUGH: Scenario = Scenario { loss: 10, twice: 10, jitter_ns: 400_000, ..CALM };

/// What is on its way, earliest first; ties in the order of sending.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: std::cmp::Reverse<u64>,
    order: std::cmp::Reverse<u64>,
    to: u16,
    /// `None`: a timer.
    bytes: Option<Vec<u8>>,
}

struct World {
    scenario: Scenario,
    seed: u64,
    rng: SplitMix64,
    now: u64,
    events: BinaryHeap<Event>,
    sent: u64,
    publisher: Publisher,
    proxies: Vec<Proxy>,
    receivers: Vec<Receiver>,
    /// Next timer event of each node.
    timers: Vec<u64>,
    /// Next message each receiver must hand on.
    expected: Vec<u64>,
    /// (id, release time) of what was published with a deadline.
    published: Vec<(u64, u64)>,
    on_time: u64,
    late: u64,
}

struct Totals {
    receivers: Vec<ReceiverStats>,
    proxies: Vec<ProxyStats>,
    store: StoreStats,
    on_time: u64,
    late: u64,
    complete: bool,
    owd_g: Option<u64>,
}

impl Totals {
    fn sum(&self, of: impl Fn(&ReceiverStats) -> u64) -> u64 {
        self.receivers.iter().map(of).sum()
    }
}

fn run(scenario: Scenario, seed: u64) -> Totals {
    let (depth, fanout, receivers) = scenario.layers;
    let topology = Topology::new(depth, fanout, receivers).unwrap();
    let tree = Tree {
        topology,
        hedge: scenario.hedge,
        dynamic: scenario.dynamic,
        epoch: 1,
        stream: 0,
        round_ns: 5 * Nanos::MILLI,
    };
    let small = ProxyConfig { filter_slots: 8_192, ..ProxyConfig::default() };
    let config = ReceiverConfig {
        filter_slots: 8_192,
        repairs: scenario.repairs,
        ..ReceiverConfig::new(SESSION, FEED)
    };
    let mut world = World {
        scenario,
        seed,
        rng: SplitMix64::new(seed),
        now: START,
        events: BinaryHeap::new(),
        sent: 0,
        publisher: Publisher::new(tree, PublisherConfig::new(SESSION)),
        proxies: topology.proxy_ids().map(|node| Proxy::new(tree, node, small)).collect(),
        receivers: topology.receiver_ids().map(|node| Receiver::new(tree, node, config)).collect(),
        timers: vec![u64::MAX; topology.nodes()],
        expected: vec![1; receivers],
        published: Vec::new(),
        on_time: 0,
        late: 0,
    };
    world.play();
    Totals {
        receivers: world.receivers.iter().map(Receiver::stats).collect(),
        proxies: world.proxies.iter().map(Proxy::stats).collect(),
        store: world.publisher.store().stats(),
        on_time: world.on_time,
        late: world.late,
        complete: world.expected.iter().all(|next| *next == scenario.messages + 1),
        owd_g: world.publisher.delay().owd_g(Nanos(world.now)),
    }
}

impl World {
    fn play(&mut self) {
        for node in 0..self.timers.len() as u16 {
            self.set_timer(node);
        }
        let step = 50 * Nanos::MICRO;
        let mut out = Outbox::default();
        let mut message = 1;
        while message <= self.scenario.messages {
            self.run_until(self.now + step);
            if let Some(dead) = self.scenario.kill.filter(|_| message > self.scenario.messages / 2)
            {
                self.timers[dead.0 as usize] = 0;
            }
            out.clear();
            let clock = self.clock();
            let last = (message + self.rng.below(3)).min(self.scenario.messages);
            for message in message..=last {
                let pushed = self.publisher.push_message(clock, &message.to_be_bytes(), &mut out);
                assert_eq!(pushed, Ok(FeedSeq(message)), "seed {}", self.seed);
            }
            self.publisher.flush(clock, &mut out);
            self.drain(0, &out);
            message = last + 1;
        }
        out.clear();
        self.publisher.end_session(self.clock(), &mut out);
        self.drain(0, &out);
        self.run_until(self.now + 3 * Nanos::SECOND);
    }

    fn run_until(&mut self, end: u64) {
        let mut out = Outbox::default();
        while self.events.peek().is_some_and(|event| event.at.0 <= end) {
            let Some(event) = self.events.pop() else { break };
            self.now = event.at.0;
            if self.is_dead(event.to)
                || (event.bytes.is_none() && self.timers[event.to as usize] != self.now)
            {
                continue;
            }
            out.clear();
            self.deliver(event.to, event.bytes.as_deref(), &mut out);
            self.drain(event.to, &out);
        }
        self.now = end;
    }

    fn deliver(&mut self, to: u16, bytes: Option<&[u8]>, out: &mut Outbox) {
        let clock = self.clock();
        let first_receiver = 1 + self.proxies.len();
        match (to as usize, bytes) {
            (0, None) => self.publisher.handle_timeout(clock, out),
            (0, Some(bytes)) => {
                let (header, rest) = HopHeader::read(bytes).unwrap();
                self.publisher.handle_frame(clock, &header, rest, out);
            }
            (node, None) if node < first_receiver => {
                self.proxies[node - 1].handle_timeout(clock, out)
            }
            (node, Some(bytes)) if node < first_receiver => {
                let proxy = &mut self.proxies[node - 1];
                proxy.handle_datagram(clock, Channel::OVERLAY, Peer::Node(ROOT), bytes, out);
            }
            (node, None) => self.receivers[node - first_receiver].handle_timeout(clock, out),
            (node, Some(bytes)) => {
                let (header, rest) = HopHeader::read(bytes).unwrap();
                self.receivers[node - first_receiver].handle_frame(clock, &header, rest, out);
            }
        }
    }

    /// Does what a node asked for and checks what it handed on.
    fn drain(&mut self, from: u16, out: &Outbox) {
        let mut released = out
            .traces()
            .iter()
            .filter(|trace| !matches!(trace.point, TracePoint::Arrived | TracePoint::Published));
        for op in out.ops() {
            match *op {
                Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(to), bytes } => {
                    let bytes = out.bytes(bytes);
                    if from == 0 && HopHeader::read(bytes).unwrap().0.kind == FrameKind::Data {
                        self.note_published(bytes);
                    }
                    self.send(to.0, bytes);
                }
                Op::Datagram { channel: Channel::FEED, to: FEED, bytes } => {
                    let packet = Packet::parse(out.bytes(bytes)).expect("a whole packet");
                    if packet.messages() > 0 {
                        let trace = released.next().expect("each release is traced");
                        assert_eq!(trace.node, NodeId(from));
                        self.check_release(from, &packet, trace.id, trace.point);
                    }
                }
                ref other => panic!("unexpected {other:?}, seed {}", self.seed),
            }
        }
        assert!(released.next().is_none(), "seed {}", self.seed);
        self.set_timer(from);
    }

    fn check_release(&mut self, node: u16, packet: &Packet, id: u64, point: TracePoint) {
        let seed = self.seed;
        let next = &mut self.expected[node as usize - 1 - self.proxies.len()];
        assert_eq!(packet.header.seq, *next, "node {node} broke sequence, seed {seed}");
        let mut blocks = packet.blocks;
        for message in packet.header.seq..packet.end() {
            let (block, rest) = overlay::mold::block(blocks).unwrap();
            assert_eq!(block[2..], message.to_be_bytes(), "node {node}, seed {seed}");
            blocks = rest;
        }
        *next = packet.end();
        let index = self.published.binary_search_by_key(&id, |(id, _)| *id);
        let (_, release_at) = self.published[index.expect("only what was published")];
        assert!(self.now >= release_at, "node {node} was early, seed {seed}");
        if release_at > 0 {
            let late = point != TracePoint::Released;
            assert_eq!(late, self.now > release_at, "node {node} at {point:?}, seed {seed}");
            *(if late { &mut self.late } else { &mut self.on_time }) += 1;
        }
    }

    fn note_published(&mut self, bytes: &[u8]) {
        let (body, _) = frame::body::<DataBody>(HopHeader::read(bytes).unwrap().1).unwrap();
        if self.published.last().is_none_or(|(id, _)| *id < body.id) {
            let due = match body.deadline {
                Nanos(0) => 0,
                deadline => deadline.0 + u64::from(body.bound_ns),
            };
            self.published.push((body.id, due));
        }
    }

    fn send(&mut self, to: u16, bytes: &[u8]) {
        if self.rng.permille(self.scenario.loss) {
            return;
        }
        let copies = 1 + u64::from(self.rng.permille(self.scenario.twice));
        for _ in 0..copies {
            let at = self.now + 30 * Nanos::MICRO + self.rng.below(self.scenario.jitter_ns);
            self.push(at, to, Some(bytes.to_vec()));
        }
    }

    fn set_timer(&mut self, node: u16) {
        let first_receiver = 1 + self.proxies.len();
        let wanted = match node as usize {
            0 => self.publisher.next_timeout(),
            node if node < first_receiver => self.proxies[node - 1].next_timeout(),
            node => self.receivers[node - first_receiver].next_timeout(),
        };
        if self.is_dead(node) || wanted == Nanos::NEVER {
            return;
        }
        let at = wanted.0.max(self.now);
        self.timers[node as usize] = at;
        self.push(at, node, None);
    }

    fn is_dead(&self, node: u16) -> bool {
        self.timers[node as usize] == 0
    }

    fn push(&mut self, at: u64, to: u16, bytes: Option<Vec<u8>>) {
        self.sent += 1;
        let (at, order) = (std::cmp::Reverse(at), std::cmp::Reverse(self.sent));
        self.events.push(Event { at, order, to, bytes });
    }

    fn clock(&self) -> ClockReading {
        ClockReading { now: Nanos(self.now), bound_ns: 250 }
    }
}

#[test]
fn a_calm_tree_needs_no_repair_and_releases_on_time() {
    let totals = run(CALM, 1);
    assert!(totals.complete);
    assert_eq!(totals.sum(|stats| stats.repairs_requested), 0);
    assert_eq!(totals.sum(|stats| stats.filter.strays + stats.filter.too_old + stats.malformed), 0);
    assert_eq!(
        totals.proxies.iter().map(|stats| stats.malformed + stats.unexpected).sum::<u64>(),
        0
    );
    assert!(totals.owd_g.is_some_and(|owd_ns| (60_000..100_000).contains(&owd_ns)));
    let share = totals.on_time * 1_000 / (totals.on_time + totals.late);
    assert!(share > 950, "{share} of 1000 on time, {} late", totals.late);
}

#[test]
fn rough_links_lose_nothing_in_any_shape() {
    let (mut duplicates, mut repaired) = (0, 0);
    for seed in 0..40 {
        let mut rng = SplitMix64::new(seed);
        let layers =
            (1 + rng.below(4) as usize, 1 + rng.below(4) as usize, 1 + rng.below(12) as usize);
        let (hedge, dynamic) = (rng.below(4) as usize, rng.below(2) == 0);
        let totals = run(Scenario { layers, hedge, dynamic, messages: 600, ..ROUGH }, seed);
        assert!(totals.complete, "seed {seed}, {layers:?}, hedge {hedge}");
        duplicates += totals.sum(|stats| stats.filter.duplicates);
        repaired += totals.store.repaired_datagrams;
    }
    assert!(duplicates > 0 && repaired > 0);
}

#[test]
fn hedging_hides_a_dead_proxy() {
    for seed in 0..5 {
        let totals = run(Scenario { kill: Some(NodeId(2)), ..CALM }, seed);
        assert!(totals.complete, "seed {seed}");
        assert_eq!(totals.sum(|stats| stats.repairs_requested), 0, "seed {seed}");
        assert!(totals.sum(|stats| stats.filter.copies_missing) > 0, "seed {seed}");
    }
}

#[test]
fn without_hedging_repairs_do_the_work() {
    for dynamic in [true, false] {
        let scenario = Scenario { kill: Some(NodeId(2)), hedge: 0, dynamic, ..CALM };
        let totals = run(scenario, 7);
        assert!(totals.complete, "dynamic {dynamic}");
        assert!(totals.sum(|stats| stats.repairs_filled) > 0);
        assert!(totals.sum(|stats| stats.late_self) > 0);
    }
    let totals = run(Scenario { hedge: 0, ..ROUGH }, 8);
    assert!(totals.complete && totals.sum(|stats| stats.repairs_filled) > 0);
    assert!(totals.sum(|stats| stats.late_blocked) > 0);
}

#[test]
fn without_repairs_something_is_missing() {
    let totals = run(Scenario { hedge: 0, repairs: false, ..ROUGH }, 9);
    assert!(!totals.complete, "the negative control must fail");
    assert_eq!(totals.sum(|stats| stats.repairs_requested), 0);
}

#[test]
fn one_seed_is_one_run() {
    let (one, two) = (run(ROUGH, 11), run(ROUGH, 11));
    assert_eq!((one.receivers, one.store), (two.receivers, two.store));
}
