//! Whole meshes in virtual time: what is left of the clocks' errors, beside the comparators.
//!
//! The truth is known here, so errors and bounds can be judged. The reference's clock is true time;
//! all others are wrong by milliseconds and wander. The comparators ask the reference itself, over
//! links of the same kind.

use types::{Nanos, NodeId, SplitMix64};

use crate::agent::{Agent, AgentConfig, AgentStats};
use crate::solver::SolverStats;
use crate::star::{Estimator, Exchange, Kalman, MinimumDelay};
use crate::world::{ClockModel, WanderingClock, World};

/// True time at which simulations start.
pub const START: Nanos = Nanos(1_000_000 * Nanos::SECOND);
/// Time between two looks at all clocks, ns.
const LOOK_NS: u64 = 50 * Nanos::MILLI;

/// Settings of a simulation of clocks.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Number of nodes, the reference (node 0) included.
    pub nodes: usize,
    /// Seed of everything random except the delays.
    pub seed: u64,
    /// Length of the run in true time, ns.
    pub run_ns: u64,
    /// True time after which errors are counted, ns.
    pub settle_ns: u64,
    /// Model of the nodes' free-running clocks.
    pub clocks: ClockModel,
    /// Settings of the agents; node and members are filled in for each.
    pub agent: AgentConfig,
    /// Time between two exchanges of a comparator, ns.
    pub exchange_every_ns: u64,
    /// True time after the start at which the reference fails for good, ns; `None`: never.
    pub reference_fails_ns: Option<u64>,
}

impl Plan {
    /// The usual run: 30 s, of which the last 10 count, offsets up to 10 ms, drifts up to 50 ppm that wander by 20 ppb a second.
    pub fn new(nodes: usize, seed: u64) -> Plan {
        Plan {
            nodes,
            seed,
            run_ns: 30 * Nanos::SECOND,
            settle_ns: 20 * Nanos::SECOND,
            clocks: ClockModel { offset_ns: 10 * Nanos::MILLI, drift_ppb: 50_000, wander_ppb: 20 },
            agent: AgentConfig::new(NodeId(0), &[], NodeId(0)),
            exchange_every_ns: 5 * Nanos::MILLI,
            reference_fails_ns: None,
        }
    }
}

/// One look at one disciplined clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// True time since the start, in ns.
    pub at_ns: u64,
    /// Node whose clock was read.
    pub node: usize,
    /// Disciplined reading less true time, in ns.
    pub error_ns: i64,
    /// Bound that the clock gave with its reading, ns.
    pub bound_ns: u64,
}

/// Result of a simulation of clocks.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SimulatedClocks {
    /// All looks after settling, in the order of time, then node.
    pub looks: Vec<Look>,
    /// Number of looks at clocks that had no reading yet.
    pub without_reading: u64,
    /// Errors of the minimum-delay estimator at the same times, in ns.
    pub minimum_delay: Vec<i64>,
    /// Errors of the Kalman filter at the same times, in ns.
    pub kalman: Vec<i64>,
    /// Sum of the agents' counters over all nodes.
    pub agents: AgentStats,
    /// Figures of the reference's last solution.
    pub solver: SolverStats,
    /// Half of the interval that causality leaves for each node's clock in the last solution, ns.
    pub causal_ns: Vec<u64>,
    /// Mean number of neighbours per node.
    pub neighbours: f64,
}

impl SimulatedClocks {
    /// Absolute errors in ascending order, in ns.
    pub fn errors(&self) -> Vec<u64> {
        sorted(self.looks.iter().map(|look| look.error_ns.unsigned_abs()))
    }

    /// Bounds in ascending order, in ns.
    pub fn bounds(&self) -> Vec<u64> {
        sorted(self.looks.iter().map(|look| look.bound_ns))
    }

    /// Share of the looks at which the bound held.
    pub fn held(&self) -> f64 {
        let held = self.looks.iter().filter(|look| look.error_ns.unsigned_abs() <= look.bound_ns);
        held.count() as f64 / self.looks.len().max(1) as f64
    }
}

/// The absolute values of errors, in ascending order.
pub fn sizes(errors: &[i64]) -> Vec<u64> {
    sorted(errors.iter().map(|error| error.unsigned_abs()))
}

fn sorted(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values
}

/// The value that `permille` of a thousand do not exceed; 0 for none.
pub fn quantile(sorted: &[u64], permille: usize) -> u64 {
    let rank = (sorted.len() * permille).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Runs a plan; `delay` gives the time from one place to another at a true time. `told` hears what
/// part is done.
pub fn run(
    plan: &Plan,
    mut delay: impl FnMut(usize, usize, Nanos) -> Option<u64>,
    mut told: impl FnMut(f64),
) -> SimulatedClocks {
    let clocks = clocks(plan);
    let mut outcome = SimulatedClocks::default();
    let compared = compare(plan, &clocks, &mut delay);
    (outcome.minimum_delay, outcome.kalman) = compared;
    let members: Vec<NodeId> = (0..plan.nodes).map(|node| NodeId(node as u16)).collect();
    let agent = |me: usize| {
        Agent::new(AgentConfig {
            me: members[me],
            members: members.clone(),
            reference: members[0],
            seed: plan.seed,
            ..plan.agent.clone()
        })
    };
    let agents: Vec<Agent> = (0..plan.nodes).map(agent).collect();
    outcome.neighbours =
        agents.iter().map(Agent::neighbours).sum::<usize>() as f64 / plan.nodes.max(1) as f64;
    let mut world = World::new(agents, clocks, START, &mut delay);
    let mut failure = plan.reference_fails_ns;
    for step in 1..=plan.run_ns / LOOK_NS {
        let at_ns = step * LOOK_NS;
        world.run_until(START.after(at_ns));
        if failure.is_some_and(|at| at <= at_ns) {
            outcome.solver = world.agent(0).and_then(Agent::solver_stats).unwrap_or_default();
            world.kill(0);
            failure = None;
        }
        told(at_ns as f64 / plan.run_ns as f64);
        if at_ns <= plan.settle_ns {
            continue;
        }
        for node in 1..plan.nodes {
            match world.reading(node) {
                None => outcome.without_reading += 1,
                Some(reading) => outcome.looks.push(Look {
                    at_ns,
                    node,
                    error_ns: reading.now.0.wrapping_sub(world.now().0) as i64,
                    bound_ns: reading.bound_ns,
                }),
            }
        }
    }
    if let Some(solver) = world.agent(0).and_then(Agent::solver_stats) {
        outcome.solver = solver;
    }
    for agent in (0..plan.nodes).filter_map(|node| world.agent(node)) {
        outcome.causal_ns.extend(agent.correction().map(|correction| correction.causal_ns));
        add(&mut outcome.agents, &agent.stats());
    }
    outcome
}

fn clocks(plan: &Plan) -> Vec<WanderingClock> {
    let mut rng = SplitMix64::new(plan.seed ^ 0xC10C);
    let clock = |node: usize| match node {
        0 => WanderingClock::perfect(START),
        _ => WanderingClock::new(plan.clocks, START, plan.run_ns, &mut rng),
    };
    (0..plan.nodes).map(clock).collect()
}

fn add(sum: &mut AgentStats, one: &AgentStats) {
    sum.probes_sent += one.probes_sent;
    sum.probes_received += one.probes_received;
    sum.pairs_pure += one.pairs_pure;
    sum.pairs_impure += one.pairs_impure;
    sum.pairs_skipped += one.pairs_skipped;
    sum.bytes_sent += one.bytes_sent;
    sum.datagrams_sent += one.datagrams_sent;
    sum.corrections += one.corrections;
    sum.refused += one.refused;
}

/// Errors of the two comparators, minimum delay and Kalman filter, ns.
fn compare(
    plan: &Plan,
    clocks: &[WanderingClock],
    delay: &mut impl FnMut(usize, usize, Nanos) -> Option<u64>,
) -> (Vec<i64>, Vec<i64>) {
    let mut errors = (Vec::new(), Vec::new());
    for (node, clock) in clocks.iter().enumerate().skip(1) {
        let mut minimum = MinimumDelay::new(500 * Nanos::MILLI, 8);
        let mut kalman = Kalman::new(plan.clocks.wander_ppb as f64);
        let every = plan.exchange_every_ns.max(1);
        for step in 1..plan.run_ns / every {
            let at_ns = step * every;
            let sent = START.after(at_ns);
            if let Some(exchange) = exchange(clock, node, sent, delay) {
                minimum.exchange(&exchange);
                kalman.exchange(&exchange);
            }
            if at_ns > plan.settle_ns && at_ns % LOOK_NS < every {
                // A look comes when the reply is there: some time after it was asked for.
                let look = sent.after(every / 2);
                let raw = clock.read(look);
                let truth = raw.0.wrapping_sub(look.0) as i64 as f64;
                let error = |offset: f64| (truth - offset) as i64;
                errors.0.extend(minimum.offset_ns(raw).map(error));
                errors.1.extend(kalman.offset_ns(raw).map(error));
            }
        }
    }
    errors
}

fn exchange(
    clock: &WanderingClock,
    node: usize,
    sent: Nanos,
    delay: &mut impl FnMut(usize, usize, Nanos) -> Option<u64>,
) -> Option<Exchange> {
    let arrived = sent.after(delay(node, 0, sent)?);
    let returned = arrived.after(delay(0, node, arrived)?);
    let (own_sent, own_returned) = (clock.read(sent), clock.read(returned));
    Some(Exchange { sent: own_sent, arrived, replied: arrived, returned: own_returned })
}
