//! A small world for agents: wandering clocks, a given delay for every datagram, virtual time.
//!
//! The agents are the very ones that run on sockets. Delays come from the caller, who knows the
//! cloud; everything else follows from a seed. The bigger simulator of the exchange is built on
//! clocks whose drift stays the same, which is not what has to be shown here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use types::{ClockReading, Nanos, Node, NodeId, Op, Outbox, Peer, SplitMix64};

use crate::agent::Agent;

/// Limits of the errors of simulated free-running clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockModel {
    /// Largest offset at the start, in ns.
    pub offset_ns: u64,
    /// Largest drift, in parts of 10^9.
    pub drift_ppb: u64,
    /// Standard deviation of a drift's change within a second, in parts of 10^9.
    pub wander_ppb: u64,
}

/// Length of a stretch of constant drift.
const STRETCH_NS: u64 = 50 * Nanos::MILLI;

/// A free-running clock whose drift walks at random between limits.
#[derive(Clone, Debug)]
pub struct WanderingClock {
    /// Reading and drift (parts of 10^12) at the start of each stretch.
    stretches: Vec<(i64, i64)>,
    origin: Nanos,
}

impl WanderingClock {
    /// A clock for true times from `origin` to `run_ns` later; the last stretch goes on.
    pub fn new(model: ClockModel, origin: Nanos, run_ns: u64, rng: &mut SplitMix64) -> Self {
        let around =
            |most: u64, rng: &mut SplitMix64| ((2.0 * rng.unit() - 1.0) * most as f64) as i64;
        let limit = model.drift_ppb as i64 * 1_000;
        let mut reading = origin.0 as i64 + around(model.offset_ns, rng);
        let mut drift = around(model.drift_ppb * 1_000, rng);
        let per_second = Nanos::SECOND as f64 / STRETCH_NS as f64;
        let step = model.wander_ppb as f64 * 1_000.0 / per_second.sqrt();
        let mut stretches = Vec::new();
        for _ in 0..=run_ns / STRETCH_NS {
            stretches.push((reading, drift));
            reading += STRETCH_NS as i64 + gained(STRETCH_NS as i64, drift);
            // Twelve uniform numbers are normal enough.
            let normal = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
            drift = (drift + (step * normal) as i64).clamp(-limit, limit);
        }
        WanderingClock { stretches, origin }
    }

    /// A clock that is always right.
    pub fn perfect(origin: Nanos) -> WanderingClock {
        WanderingClock { stretches: vec![(origin.0 as i64, 0)], origin }
    }

    /// The reading at a true time.
    pub fn read(&self, at: Nanos) -> Nanos {
        let stretch = (at.since(self.origin) / STRETCH_NS) as usize;
        let stretch = stretch.min(self.stretches.len() - 1);
        let (reading, drift) = self.stretches[stretch];
        let passed = (at.since(self.origin) - stretch as u64 * STRETCH_NS) as i64;
        Nanos((reading + passed + gained(passed, drift)).max(0) as u64)
    }

    /// About the first true time at which the clock reads `reading` or more, a few ns late at most.
    pub fn true_time(&self, reading: Nanos) -> Nanos {
        if reading == Nanos::NEVER {
            return Nanos::NEVER;
        }
        let wanted = i64::try_from(reading.0).unwrap_or(i64::MAX);
        let next = self.stretches.partition_point(|(start, _)| *start <= wanted);
        let stretch = next.saturating_sub(1);
        let (start, drift) = self.stretches[stretch];
        let passed = (wanted - start).max(0);
        let at = self.origin.0 + stretch as u64 * STRETCH_NS + passed as u64;
        let at = Nanos((at as i64 - gained(passed, drift)).max(0) as u64);
        // Drift of the drift: below 1 ns in 10 ms at 300 ppm; step over what is left.
        (0..8)
            .map(|step| at.after(step))
            .find(|at| self.read(*at) >= reading)
            .unwrap_or(at.after(8))
    }
}

fn gained(passed: i64, drift_ppt: i64) -> i64 {
    (i128::from(passed) * i128::from(drift_ppt)).div_euclid(1_000_000_000_000) as i64
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A node's timer, if it is still the latest.
    Timer { node: usize, generation: u64 },
    /// A datagram arrives; its bytes are in the slab.
    Arrival { node: usize, from: usize, slot: usize },
}

/// Agents, their clocks, and what is on its way between them.
pub struct World<D> {
    agents: Vec<Option<Agent>>,
    clocks: Vec<WanderingClock>,
    delay: D,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pushed: u64,
    generations: Vec<(u64, Nanos)>,
    slab: Vec<Vec<u8>>,
    free: Vec<usize>,
    out: Outbox,
    now: Nanos,
    datagrams: u64,
}

impl<D: FnMut(usize, usize, Nanos) -> Option<u64>> World<D> {
    /// A world of agents whose node ids are their places. `delay` gives the time that a datagram
    /// from one place to another takes at a true time, `None` when it is lost.
    pub fn new(agents: Vec<Agent>, clocks: Vec<WanderingClock>, origin: Nanos, delay: D) -> Self {
        let count = agents.len();
        let mut world = World {
            agents: agents.into_iter().map(Some).collect(),
            clocks,
            delay,
            queue: BinaryHeap::new(),
            pushed: 0,
            generations: vec![(0, Nanos::NEVER); count],
            slab: Vec::new(),
            free: Vec::new(),
            out: Outbox::default(),
            now: origin,
            datagrams: 0,
        };
        // Nodes start at different moments of the first ten milliseconds.
        for node in 0..count {
            let start = SplitMix64::mix(node as u64) % (10 * Nanos::MILLI);
            world.push(origin.after(start), Event::Timer { node, generation: 0 });
        }
        world
    }

    /// True time of the simulation.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Datagrams handed to links so far.
    pub fn datagrams(&self) -> u64 {
        self.datagrams
    }

    /// The agent of a node, if it is running.
    pub fn agent(&self, node: usize) -> Option<&Agent> {
        self.agents.get(node)?.as_ref()
    }

    /// The free-running clock of a node.
    pub fn clock(&self, node: usize) -> &WanderingClock {
        &self.clocks[node]
    }

    /// The disciplined reading of a node now.
    pub fn reading(&mut self, node: usize) -> Option<ClockReading> {
        let raw = self.clocks[node].read(self.now);
        self.agents.get_mut(node)?.as_mut()?.reading(raw)
    }

    /// Stops a node for good.
    pub fn kill(&mut self, node: usize) {
        self.agents[node] = None;
    }

    /// A node is told whose clock is followed from now on; see [`Agent::follow`].
    pub fn follow(&mut self, node: usize, reference: NodeId, epoch: u64) -> bool {
        let mut followed = false;
        self.call(node, |agent, now, _| followed = agent.follow(now.now, reference, epoch));
        followed
    }

    /// A node's process starts again, on the same free-running clock.
    pub fn restart(&mut self, node: usize, agent: Agent) {
        self.agents[node] = Some(agent);
        self.generations[node] = (self.generations[node].0 + 1, Nanos::NEVER);
        self.push(self.now, Event::Timer { node, generation: self.generations[node].0 });
    }

    /// Runs the simulation up to the true time `until`.
    pub fn run_until(&mut self, until: Nanos) {
        while let Some(Reverse((at, ..))) = self.queue.peek() {
            if *at > until.0 {
                break;
            }
            let Some(Reverse((at, _, event))) = self.queue.pop() else { break };
            self.now = Nanos(at);
            match event {
                Event::Timer { node, generation } => {
                    if self.generations[node].0 == generation {
                        self.generations[node].1 = Nanos::NEVER;
                        self.call(node, |agent, now, out| agent.handle_timeout(now, out));
                    }
                }
                Event::Arrival { node, from, slot } => {
                    let bytes = std::mem::take(&mut self.slab[slot]);
                    let peer = Peer::Node(NodeId(from as u16));
                    self.call(node, |agent, now, out| {
                        agent.handle_datagram(now, types::Channel::OVERLAY, peer, &bytes, out);
                    });
                    self.slab[slot] = bytes;
                    self.free.push(slot);
                }
            }
        }
        self.now = until;
    }

    fn push(&mut self, at: Nanos, event: Event) {
        self.pushed += 1;
        self.queue.push(Reverse((at.0, self.pushed, event)));
    }

    fn call(&mut self, node: usize, input: impl FnOnce(&mut Agent, ClockReading, &mut Outbox)) {
        let now = ClockReading { now: self.clocks[node].read(self.now), bound_ns: u64::MAX };
        let Some(agent) = self.agents[node].as_mut() else { return };
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        input(agent, now, &mut out);
        let next = agent.next_timeout();
        for op in out.ops() {
            let Op::Datagram { to: Peer::Node(to), bytes, .. } = *op else { continue };
            let to = usize::from(to.0);
            self.datagrams += 1;
            if let Some(delay) = (self.delay)(node, to, self.now) {
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.slab.push(Vec::new());
                    self.slab.len() - 1
                });
                self.slab[slot].clear();
                self.slab[slot].extend_from_slice(out.bytes(bytes));
                self.push(self.now.after(delay), Event::Arrival { node: to, from: node, slot });
            }
        }
        self.out = out;
        if next != self.generations[node].1 {
            self.generations[node] = (self.generations[node].0 + 1, next);
            if next != Nanos::NEVER {
                let at = self.clocks[node].true_time(next).max(self.now);
                let generation = self.generations[node].0;
                self.push(at, Event::Timer { node, generation });
            }
        }
    }
}
