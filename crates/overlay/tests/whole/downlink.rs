//! A publisher, proxies and receivers over links that drop, repeat and reorder: every receiver
//! hands on every message exactly once, in sequence, never before its deadline.
//!
//! Everything follows from the seed; a failing check names it.

use std::collections::BinaryHeap;

use overlay::{
    all_reduce::DelayLimits,
    estimator::Estimator,
    frame::{self, DataBody, FrameKind, HopHeader},
    hedger::HedgeMode,
    hedging::{HedgePolicy, Hedging},
    mold::Packet,
    proxy::{Proxy, ProxyConfig, ProxyStats},
    publisher::{Publisher, PublisherConfig},
    receiver::{Receiver, ReceiverConfig, ReceiverStats},
    repair_cache::CacheConfig,
    retransmission::StoreStats,
    topology::{DEPTH_MAX, ROOT, Topology, Tree},
};
use types::{
    Channel, ClockReading, FeedSeq, Nanos, Node, NodeId, Op, Outbox, Peer, SplitMix64, TracePoint,
};

const SESSION: [u8; 10] = *b"FAIRBELL01";
const FEED: Peer = Peer::Addr(1);
/// Above all node numbers.
const SPARE: usize = 1 << 20;
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
    options: Options,
}

/// What is off by default.
#[derive(Clone, Copy, Debug)]
struct Options {
    hedging: Hedging,
    mode: HedgeMode,
    estimator: Estimator,
    parity: u16,
    ask_parents: bool,
    slowest_first: bool,
    /// Who died is told to everybody.
    detour: bool,
    /// Half way another tree takes over.
    change: bool,
    /// And nobody below the root was told it.
    unprepared: bool,
}

const PLAIN: Options = Options {
    hedging: Hedging {
        policy: HedgePolicy::Sibling,
        layers: [Hedging::TREE; DEPTH_MAX],
        spares: 0,
        planes: 1,
    },
    mode: HedgeMode::Tree,
    estimator: Estimator::MaxOfPercentiles,
    parity: 0,
    ask_parents: false,
    slowest_first: false,
    detour: false,
    change: false,
    unprepared: false,
};

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
    options: PLAIN,
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
    tree: Tree,
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
    let options = scenario.options;
    let topology = topology.with_hedging(options.hedging).unwrap();
    let tree = Tree {
        topology,
        hedge: scenario.hedge,
        dynamic: scenario.dynamic,
        epoch: 1,
        stream: 0,
        round_ns: 5 * Nanos::MILLI,
    };
    let samples = if options.estimator.samples() { 8 } else { 0 };
    let delay = DelayLimits { samples, ..DelayLimits::default() };
    let small = ProxyConfig {
        filter_slots: 8_192,
        delay,
        slowest_first: options.slowest_first,
        cache: options.ask_parents.then(CacheConfig::default),
        ..ProxyConfig::default()
    };
    let publisher = PublisherConfig {
        delay,
        estimator: options.estimator,
        hedge: options.mode,
        parity: options.parity,
        slowest_first: options.slowest_first,
        ..PublisherConfig::new(SESSION)
    };
    let config = ReceiverConfig {
        filter_slots: 8_192,
        repairs: scenario.repairs,
        samples,
        ask_parents: options.ask_parents,
        gap_jitter_ns: if options.ask_parents { 100_000 } else { 0 },
        parity: options.parity > 0,
        ..ReceiverConfig::new(SESSION, FEED)
    };
    let mut world = World {
        scenario,
        tree,
        seed,
        rng: SplitMix64::new(seed),
        now: START,
        events: BinaryHeap::new(),
        sent: 0,
        publisher: Publisher::new(tree, publisher),
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
            let half = message > self.scenario.messages / 2;
            out.clear();
            if let Some(dead) = self.scenario.kill.filter(|dead| half && !self.is_dead(dead.0)) {
                self.timers[dead.0 as usize] = 0;
                if self.scenario.options.detour {
                    self.publisher.set_dead(&[dead], &mut out);
                }
            }
            if self.scenario.options.change && half && self.tree.epoch == 1 {
                self.change_tree();
            }
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
        let first_receiver = 1 + self.plain_proxies();
        let to = self.place(to);
        match (to, bytes) {
            (0, None) => self.publisher.handle_timeout(clock, out),
            (0, Some(bytes)) => {
                let (header, rest) = HopHeader::read(bytes).unwrap();
                self.publisher.handle_frame(clock, &header, rest, out);
            }
            (node, None) if node < first_receiver => {
                self.proxies[node - 1].handle_timeout(clock, out);
            }
            (node, None) if node >= SPARE => {
                self.proxies[node - SPARE].handle_timeout(clock, out);
            }
            (node, Some(bytes)) if node < first_receiver => {
                let proxy = &mut self.proxies[node - 1];
                proxy.handle_datagram(clock, Channel::OVERLAY, Peer::Node(ROOT), bytes, out);
            }
            (node, Some(bytes)) if node >= SPARE => {
                let proxy = &mut self.proxies[node - SPARE];
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
                    let data = |(header, _): (HopHeader, _)| header.kind == FrameKind::Data;
                    if from == 0 && HopHeader::read(bytes).is_ok_and(data) {
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
        let place = node as usize - 1 - self.plain_proxies();
        let next = &mut self.expected[place];
        assert_eq!(packet.header.seq, *next, "node {node} broke sequence, seed {seed}");
        let mut blocks = packet.blocks;
        for message in packet.header.seq..packet.end() {
            let (block, rest) = overlay::mold::block(blocks).unwrap();
            assert_eq!(block[2..], message.to_be_bytes(), "node {node}, seed {seed}");
            blocks = rest;
        }
        *next = packet.end();
        // After a change ids begin again; one of the two has been released then.
        let of_id = self.published.iter().rev().find(|(other, _)| *other == id);
        let (_, release_at) = *of_id.expect("only what was published");
        let changed = self.scenario.options.change;
        assert!(changed || self.now >= release_at, "node {node} was early, seed {seed}");
        if release_at > 0 && !self.scenario.options.change && !self.scenario.options.detour {
            let late = point != TracePoint::Released;
            assert_eq!(late, self.now > release_at, "node {node} at {point:?}, seed {seed}");
            *(if late { &mut self.late } else { &mut self.on_time }) += 1;
        }
    }

    fn note_published(&mut self, bytes: &[u8]) {
        let (body, _) = frame::body::<DataBody>(HopHeader::read(bytes).unwrap().1).unwrap();
        if self.published.last().is_none_or(|(id, _)| *id != body.id) {
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
        let first_receiver = 1 + self.plain_proxies();
        let wanted = match self.place(node) {
            0 => self.publisher.next_timeout(),
            node if node < first_receiver => self.proxies[node - 1].next_timeout(),
            node if node >= SPARE => self.proxies[node - SPARE].next_timeout(),
            node => self.receivers[node - first_receiver].next_timeout(),
        };
        if self.is_dead(node) || wanted == Nanos::NEVER {
            return;
        }
        let at = wanted.0.max(self.now);
        self.timers[node as usize] = at;
        self.push(at, node, None);
    }

    /// Proxies with numbers below the receivers'.
    fn plain_proxies(&self) -> usize {
        self.proxies.len() - self.tree.topology.spare_ids().count()
    }

    /// The node's number, or of a spare [`SPARE`] and its place among the proxies.
    fn place(&self, node: u16) -> usize {
        let spare = self.tree.topology.spare_ids().position(|spare| spare == NodeId(node));
        spare.map_or(node as usize, |spare| SPARE + self.plain_proxies() + spare)
    }

    fn change_tree(&mut self) {
        let Tree { hedge, topology, .. } = self.tree;
        let hedge = if self.scenario.hedge == 0 { 0 } else { hedge + 1 };
        // Without a hedge a wider tree of the same nodes, else one more copy.
        let topology = match hedge {
            0 => narrower(&topology),
            _ => topology,
        };
        self.tree = Tree { epoch: 2, hedge, topology, dynamic: false, ..self.tree };
        if !self.scenario.options.unprepared {
            self.proxies.iter_mut().for_each(|proxy| proxy.prepare(self.tree));
            self.receivers.iter_mut().for_each(|receiver| receiver.prepare(self.tree));
        }
        self.publisher.change_tree(self.tree);
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

#[test]
fn every_way_of_hedging_loses_nothing() {
    let spares = Hedging { policy: HedgePolicy::ExtraFanout, spares: 1, ..PLAIN.hedging };
    let disjoint = Hedging { policy: HedgePolicy::PathDisjoint, ..PLAIN.hedging };
    let planes = Hedging { planes: 2, ..PLAIN.hedging };
    let adaptive = HedgeMode::Adaptive { first: 1, most: 2, gain_permille: 50 };
    let bit = Estimator::MissRate { permille: 950 };
    for (seed, hedging, mode, estimator) in [
        (1, spares, HedgeMode::Tree, PLAIN.estimator),
        (2, disjoint, HedgeMode::OddOnly, PLAIN.estimator),
        (3, planes, HedgeMode::Tree, bit),
        (4, PLAIN.hedging, adaptive, Estimator::MessagePercentile { permille: 950, window: 200 }),
    ] {
        let options = Options { hedging, mode, estimator, slowest_first: true, ..PLAIN };
        let layers = (3, 3, 18);
        let totals = run(Scenario { layers, messages: 1_500, options, ..CALM }, seed);
        assert!(totals.complete, "seed {seed}");
        assert_eq!(totals.sum(|stats| stats.repairs_requested), 0, "seed {seed}");
        assert_eq!(totals.sum(|stats| stats.filter.strays + stats.filter.copies_missing), 0);
        let proxies = totals.proxies.iter();
        let strays: u64 =
            proxies.map(|stats| stats.filter.strays + stats.filter.copies_missing).sum();
        assert_eq!(strays, 0, "seed {seed}");
        assert!(totals.owd_g.is_some_and(|owd_ns| (60_000..250_000).contains(&owd_ns)));
        let rough = run(Scenario { layers, messages: 600, options, ..ROUGH }, seed);
        assert!(rough.complete, "seed {seed}");
    }
}

#[test]
fn caches_above_the_receivers_repair_most_losses() {
    let options = Options { ask_parents: true, ..PLAIN };
    let totals = run(Scenario { hedge: 0, options, ..ROUGH }, 8);
    let plain = run(Scenario { hedge: 0, ..ROUGH }, 8);
    assert!(totals.complete && totals.sum(|stats| stats.parents_asked) > 0);
    let cached: u64 = totals.proxies.iter().map(|stats| stats.cache.repaired).sum();
    assert!(cached > totals.store.repaired_datagrams, "{cached}");
    assert!(totals.store.repaired_datagrams * 2 < plain.store.repaired_datagrams);
}

#[test]
fn parity_makes_up_single_losses() {
    let options = Options { parity: 8, ..PLAIN };
    let totals = run(Scenario { hedge: 0, options, loss: 5, ..CALM }, 9);
    let plain = run(Scenario { hedge: 0, loss: 5, ..CALM }, 9);
    assert!(totals.complete && plain.complete);
    assert!(totals.sum(|stats| stats.parity_filled) > 100);
    assert!(totals.store.repaired_datagrams < plain.store.repaired_datagrams);
}

/// The same receivers under one proxy less; the last one is idle.
fn narrower(topology: &Topology) -> Topology {
    let receivers = topology.receiver_ids().next().unwrap();
    let proxies = topology.proxy_ids().count() - 1;
    let layers = Topology::from_layers(&[proxies, topology.receivers()]).unwrap();
    layers.with_receivers_at(receivers).unwrap()
}

#[test]
fn a_new_tree_that_nobody_was_told_of_loses_messages() {
    for seed in 0..3 {
        let change = Options { change: true, ..PLAIN };
        let scenario = Scenario { hedge: 0, repairs: false, ..CALM };
        let told = run(Scenario { options: change, ..scenario }, seed);
        assert!(told.complete, "seed {seed}: nothing is lost without a repair");
        assert_eq!(told.sum(|stats| stats.filter.strays), 0, "seed {seed}");
        let options = Options { unprepared: true, ..change };
        let untold = run(Scenario { options, ..scenario }, seed);
        assert!(!untold.complete, "seed {seed}: the negative control must fail");
    }
}

#[test]
fn a_new_tree_takes_over_without_a_repair() {
    for seed in 0..5 {
        let options = Options { change: true, ..PLAIN };
        let totals = run(Scenario { layers: (3, 3, 18), options, ..CALM }, seed);
        assert!(totals.complete, "seed {seed}");
        assert_eq!(totals.sum(|stats| stats.repairs_requested), 0, "seed {seed}");
        assert_eq!(totals.sum(|stats| stats.filter.stale_epoch), 0, "seed {seed}");
    }
}

#[test]
fn a_detour_does_without_the_dead_proxy() {
    for seed in 0..5 {
        let kill = Some(NodeId(2));
        let told = Options { detour: true, ..PLAIN };
        let totals = run(Scenario { kill, hedge: 0, options: told, ..CALM }, seed);
        let untold = run(Scenario { kill, hedge: 0, ..CALM }, seed);
        assert!(totals.complete && untold.complete, "seed {seed}");
        let (with, without) =
            (totals.sum(|stats| stats.repairs_filled), untold.sum(|stats| stats.repairs_filled));
        assert!(with * 20 < without, "seed {seed}: {with} repairs with, {without} without");
    }
}
