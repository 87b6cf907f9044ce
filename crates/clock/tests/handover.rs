//! Other references: clocks stay as close to each other as they say, whoever is followed.
//!
//! The judge knows no reference: any two clocks that have a reading may differ by the sum of their
//! bounds at most, at any moment, and none runs backwards.

use clock::world::{ClockModel, WanderingClock, World};
use clock::{Agent, AgentConfig};
use types::{ClockReading, Nanos, NodeId, SplitMix64};

const START: Nanos = Nanos(1_000_000 * Nanos::SECOND);
const NODES: u16 = 9;
/// Nodes that may be the reference.
const ROOTS: [NodeId; 3] = [NodeId(0), NodeId(1), NodeId(2)];
const LOOK_NS: u64 = 50 * Nanos::MILLI;

fn hop(rng: &mut SplitMix64) -> u64 {
    let radius = (-2.0 * rng.unit().max(1e-12).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * rng.unit()).cos();
    (10_100.0 + 15_600.0 * (0.447 * normal).exp()) as u64
}

fn agent(me: u16, heirs: &[NodeId]) -> Agent {
    let members: Vec<NodeId> = (0..NODES).map(NodeId).collect();
    let mut config = AgentConfig::new(NodeId(me), &members, NodeId(u16::MAX));
    config.per_node = 6;
    config.heirs = heirs.to_vec();
    Agent::new(config)
}

struct Run<D> {
    world: World<D>,
    last: Vec<Nanos>,
    /// Pairs of readings compared, and those further apart than their bounds allow.
    compared: u64,
    apart: u64,
    backwards: u64,
    /// Nodes that stopped.
    gone: Vec<usize>,
}

fn start(seed: u64, heirs: &[NodeId]) -> Run<impl FnMut(usize, usize, Nanos) -> Option<u64>> {
    let mut rng = SplitMix64::new(seed ^ 0xC10C);
    let model = ClockModel { offset_ns: 10 * Nanos::MILLI, drift_ppb: 50_000, wander_ppb: 20 };
    let clock = |_| WanderingClock::new(model, START, 60 * Nanos::SECOND, &mut rng);
    let clocks = (0..NODES).map(clock).collect();
    let agents = (0..NODES).map(|me| agent(me, heirs)).collect();
    let mut hops = SplitMix64::new(seed ^ 0xDE1A);
    let world = World::new(agents, clocks, START, move |_, _, _| Some(hop(&mut hops)));
    let last = vec![Nanos(0); usize::from(NODES)];
    Run { world, last, compared: 0, apart: 0, backwards: 0, gone: Vec::new() }
}

impl<D: FnMut(usize, usize, Nanos) -> Option<u64>> Run<D> {
    /// Goes on for so many seconds; the largest bound at the end.
    fn on(&mut self, seconds: f64) -> u64 {
        let until = self.world.now().after((seconds * 1e9) as u64);
        let mut widest = 0;
        while self.world.now() < until {
            self.world.run_until(self.world.now().after(LOOK_NS).min(until));
            let mut readings: Vec<ClockReading> = Vec::new();
            for node in (0..usize::from(NODES)).filter(|node| !self.gone.contains(node)) {
                let Some(reading) = self.world.reading(node) else { continue };
                self.backwards += u64::from(reading.now < self.last[node]);
                self.last[node] = reading.now;
                readings.push(reading);
            }
            for (at, one) in readings.iter().enumerate() {
                for other in &readings[..at] {
                    self.compared += 1;
                    let apart = one.now.0.abs_diff(other.now.0);
                    self.apart += u64::from(apart > one.bound_ns.saturating_add(other.bound_ns));
                }
            }
            widest = readings.iter().map(|reading| reading.bound_ns).max().unwrap_or(0);
        }
        widest
    }

    fn stop(&mut self, node: usize) {
        self.world.kill(node);
        self.gone.push(node);
    }

    /// Tells all but some whose clock is followed.
    fn appoint(&mut self, reference: NodeId, epoch: u64, but: &[usize]) {
        for node in (0..usize::from(NODES)).filter(|node| !but.contains(node)) {
            self.world.follow(node, reference, epoch);
        }
    }

    fn judge(&self, seed: u64) {
        assert!(self.compared > 1_000, "seed {seed}: {}", self.compared);
        assert_eq!((self.apart, self.backwards), (0, 0), "seed {seed}");
    }
}

#[test]
fn another_reference_goes_on_where_the_one_before_it_stopped() {
    for seed in 0..8 {
        let mut run = start(seed, &ROOTS);
        run.appoint(ROOTS[0], 1, &[]);
        run.on(6.0);
        run.stop(0);
        let alone = run.on(3.0);
        run.appoint(ROOTS[2], 2, &[]);
        run.on(12.0);
        run.stop(2);
        run.on(3.0);
        run.appoint(ROOTS[1], 3, &[]);
        let widest = run.on(12.0);
        run.judge(seed);
        // Twice as wide at most, where going on alone would have made it ten times (see below).
        assert!(widest < 2 * alone, "seed {seed}: {widest} {alone}");
    }
}

#[test]
fn without_another_reference_bounds_grow() {
    let mut run = start(1, &ROOTS);
    run.appoint(ROOTS[0], 1, &[]);
    run.on(6.0);
    run.stop(0);
    let alone = run.on(3.0);
    assert!(run.on(27.0) > 3 * alone);
    run.judge(1);
}

/// Told late, or by nobody: those who still follow the one before say how wrong that may be.
#[test]
fn who_does_not_hear_of_it_keeps_its_bound_until_it_does() {
    for seed in 20..28 {
        let mut run = start(seed, &ROOTS);
        run.appoint(ROOTS[0], 1, &[]);
        run.on(6.0);
        // The reference lives and half of the nodes go on following it.
        run.appoint(ROOTS[1], 2, &[0, 3, 4, 5]);
        run.on(4.0);
        run.appoint(ROOTS[1], 2, &[]);
        run.on(10.0);
        // And now it stops, and some hear nothing from anybody.
        run.stop(1);
        run.on(2.0);
        run.appoint(ROOTS[2], 3, &[6, 7, 8]);
        run.on(20.0);
        run.judge(seed);
    }
}

#[test]
fn control_clocks_of_two_references_part_when_nobody_allows_for_it() {
    let apart = |heirs: &[NodeId]| -> u64 {
        let parted = |seed| {
            let mut run = start(seed, heirs);
            run.appoint(ROOTS[0], 1, &[]);
            run.on(6.0);
            // Two references for good, which nobody who follows one of them knows of the other.
            run.appoint(ROOTS[1], 2, &[0, 3, 4, 5]);
            run.on(50.0);
            run.apart
        };
        (40..44).map(parted).sum()
    };
    assert!(apart(&ROOTS) > 0);
}

#[test]
fn one_that_starts_again_without_a_line_is_approached_slowly() {
    for seed in 60..66 {
        let mut run = start(seed, &ROOTS);
        run.appoint(ROOTS[0], 1, &[]);
        run.on(6.0);
        run.world.restart(1, agent(1, &ROOTS));
        run.world.follow(1, ROOTS[1], 2);
        // Alone it is on its own time; all others claim the difference from when they hear of it.
        let before = run.world.reading(5).expect("a reading").now;
        run.appoint(ROOTS[1], 2, &[1]);
        run.apart = 0;
        run.on(40.0);
        let all: Vec<u64> = (0..9).filter_map(|n| run.world.reading(n)).map(|r| r.now.0).collect();
        let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
        assert!(most - least < 20_000, "seed {seed}: {}", most - least);
        assert_eq!(run.backwards, 0, "seed {seed}");
        assert!(run.world.reading(5).expect("a reading").now > before);
    }
}

#[test]
fn old_epochs_and_strangers_change_nothing() {
    let mut one = agent(4, &ROOTS);
    assert!(one.follow(Nanos(5), ROOTS[1], 7));
    assert!(!one.follow(Nanos(6), ROOTS[2], 7) && !one.follow(Nanos(6), ROOTS[2], 6));
    assert!(!one.follow(Nanos(6), NodeId(NODES), 8) && !one.is_reference());
    assert_eq!(one.reference(), (ROOTS[1], 7));
    assert!(one.follow(Nanos(6), NodeId(4), 8) && one.is_reference());
    let first = one.reading(Nanos(7)).expect("its own clock");
    assert_eq!((first.now, first.bound_ns), (Nanos(7), 0));
}
