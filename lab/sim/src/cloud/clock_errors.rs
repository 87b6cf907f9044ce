//! How wrong the clocks of the experiments' hosts are: as the clock agents leave them, or as assumed.
//!
//! The agents are those of crate `clock`, run in virtual time over a cloud of the same profile: a
//! mesh of one reference, which has true time and is the experiments' root, and [`MESH`] hosts. Up to
//! so many receivers have a mesh to themselves; more share three meshes, at different
//! moments, as a mesh of thousands would be another experiment. Errors are looked at every 50 ms.

use std::ops::Range;
use std::sync::Arc;

use clock::simulate::{Plan, START, SimulatedClocks, quantile};
use types::{Nanos, SplitMix64};

use super::{
    link::{Cloud, Profile},
    report::{ClockSource, Row, Run},
    seeds,
};

/// ClockErrors of a mesh, its reference left out.
pub const MESH: usize = 110;
/// Meshes of a seed at most.
const MESHES_MAX: usize = 3;
/// Between two looks.
const LOOK_NS: u64 = 50 * Nanos::MILLI;
/// Agents run so long before errors count, and so long they count; longer runs begin again.
const SETTLE_NS: u64 = 8 * Nanos::SECOND;
const COUNT_NS: u64 = 3 * Nanos::SECOND;

/// Errors of all receivers' clocks during a run.
#[derive(Clone, PartialEq, Debug)]
pub struct ClockErrors {
    /// By host, then by look: reading less true time, in ns.
    errors: Vec<Vec<i64>>,
    /// Median of the bounds that the agents publish, in ns; 0 for assumed errors.
    bound_ns: u64,
}

/// Delay of a probe from one node to another at a true time.
pub fn probes(
    profile: &Profile,
    seed: u64,
    nodes: usize,
    run_ns: u64,
) -> impl FnMut(usize, usize, Nanos) -> Option<u64> + use<> {
    let mut cloud = Cloud::new(profile, seed, &[nodes as u32 - 1], run_ns);
    let mut message = 0u64;
    move |from, to, at| {
        message += 1;
        let key = cloud.message_key(message);
        cloud.delay_ns(key, from as u16, to as u16, at.since(START))
    }
}

/// Agents of a plan over a cloud.
pub fn mesh(profile: &Profile, plan: &Plan) -> SimulatedClocks {
    let delay = probes(profile, plan.seed, plan.nodes, plan.run_ns);
    clock::simulate::run(plan, delay, |_| {})
}

impl ClockErrors {
    /// What agents leave in the cloud of a seed, for so many receivers.
    pub fn agents(profile: &Profile, seed: u64, receivers: usize) -> ClockErrors {
        let meshes = receivers.div_ceil(MESH).clamp(1, MESHES_MAX) as u64;
        let (mut errors, mut bounds) = (Vec::new(), Vec::new());
        for number in 0..meshes {
            let own = if number == 0 { seed } else { SplitMix64::mix(seed ^ number << 48) };
            let mut plan = Plan::new(MESH + 1, own);
            (plan.settle_ns, plan.run_ns) = (SETTLE_NS, SETTLE_NS + COUNT_NS);
            // No comparators.
            plan.exchange_every_ns = plan.run_ns;
            let outcome = mesh(profile, &plan);
            let first = errors.len();
            errors.resize(first + MESH, Vec::new());
            for look in &outcome.looks {
                errors[first + look.node - 1].push(look.error_ns);
                bounds.push(look.bound_ns);
            }
        }
        bounds.sort_unstable();
        ClockErrors { errors, bound_ns: quantile(&bounds, 500) }
    }

    /// What the profile assumes: the errors that the cloud drew for its last nodes, the receivers.
    pub fn assumed(cloud: &Cloud, receivers: Range<usize>) -> ClockErrors {
        ClockErrors {
            errors: receivers.map(|node| vec![cloud.clock_ns(node)]).collect(),
            bound_ns: 0,
        }
    }

    /// Reading less true time of a receiver's clock, so long after the beginning of a run.
    pub fn error_ns(&self, receiver: usize, at_ns: u64) -> i64 {
        let series = &self.errors[receiver % self.errors.len()];
        // Receivers that share a host's series are at different moments of it.
        let look = (at_ns / LOOK_NS) as usize + receiver / self.errors.len() * 7;
        series[look % series.len()]
    }

    /// A number that changes when errors may.
    pub fn look(at_ns: u64) -> u64 {
        at_ns / LOOK_NS
    }

    /// The largest error, in ns.
    pub fn largest_ns(&self) -> u64 {
        self.sizes().max().unwrap_or(0)
    }

    fn sizes(&self) -> impl Iterator<Item = u64> {
        self.errors.iter().flatten().map(|error| error.unsigned_abs())
    }
}

/// The clocks of every seed of a run.
pub struct Clocks {
    profile: Profile,
    first_seed: u64,
    /// By seed; `None` where errors are assumed, as the clouds of the experiment have them.
    errors: Option<Vec<Arc<ClockErrors>>>,
}

impl Clocks {
    /// As the run was asked for, for so many receivers.
    pub fn of_run(run: &Run, profile: &Profile, receivers: usize) -> Clocks {
        let errors = match run.options.clocks.unwrap_or_default() {
            ClockSource::Assumed => None,
            ClockSource::Agents => {
                let agents = |seed| Arc::new(ClockErrors::agents(profile, seed, receivers));
                Some(seeds::map(run.range(), agents))
            }
        };
        Clocks { profile: profile.clone(), first_seed: run.options.first_seed, errors }
    }

    /// Those of a seed, unless they are assumed.
    pub fn of_seed(&self, seed: u64) -> Option<Arc<ClockErrors>> {
        self.errors.as_ref()?.get((seed - self.first_seed) as usize).cloned()
    }

    /// The largest error of all, in ns.
    pub fn largest_ns(&self) -> u64 {
        match &self.errors {
            None => (1.5 * self.profile.clock_error_ns) as u64,
            Some(errors) => errors.iter().map(|errors| errors.largest_ns()).max().unwrap_or(0),
        }
    }

    /// Which clocks an experiment had, for its report.
    pub fn rows(&self) -> Vec<Row> {
        let name = self.profile.name;
        let Some(errors) = &self.errors else {
            // By definition of the profile: its 99th percentile, the median of the same normal.
            let p99 = self.profile.clock_error_ns;
            let row = |what: &str, value| {
                Row::single(format!("clocks assumed, {name}: {what}"), "ns", None, value)
            };
            let p50 = p99 * 0.674_490 / 2.575_829;
            return vec![row("p50 of the error", p50), row("p99 of the error", p99)];
        };
        let quantiles = |permille| -> Vec<f64> {
            let one = |errors: &Arc<ClockErrors>| {
                let mut sizes: Vec<u64> = errors.sizes().collect();
                sizes.sort_unstable();
                quantile(&sizes, permille) as f64
            };
            errors.iter().map(one).collect()
        };
        let bounds: Vec<f64> = errors.iter().map(|errors| errors.bound_ns as f64).collect();
        let row = |what: &str, values: &[f64]| {
            Row::new(format!("clocks by the agents, {name}: {what}"), "ns", None, values)
        };
        vec![
            row("p50 of the error", &quantiles(500)),
            row("p99 of the error", &quantiles(990)),
            row("largest error", &quantiles(1_000)),
            row("median published bound", &bounds),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_errors_come_from_the_agents_and_not_from_the_profile() {
        let profile = Profile::table1();
        let errors = ClockErrors::agents(&profile, 3, 100);
        assert_eq!(errors, ClockErrors::agents(&profile, 3, 100), "a seed decides everything");
        let mut sizes: Vec<u64> = errors.sizes().collect();
        sizes.sort_unstable();
        // The profile's clocks are perfect, the agents' are not.
        let p99 = quantile(&sizes, 990);
        assert!((250..1_000).contains(&p99), "{p99}");
        assert_ne!(errors.error_ns(0, 0), errors.error_ns(1, 0));
        assert_ne!(errors.error_ns(0, 0), errors.error_ns(0, 2 * Nanos::SECOND), "clocks go on");
        assert_ne!(errors.error_ns(0, 0), errors.error_ns(MESH, 0), "shared, at another moment");
        let cloud = Cloud::new(&profile, 3, &[10, 100], 0);
        assert_eq!(ClockErrors::assumed(&cloud, 11..111).largest_ns(), 0, "control");
    }

    #[test]
    fn reports_say_which_clocks_there_were() {
        let mut told = |_| {};
        let mut run = Run::new(1, &mut told);
        (run.options.first_seed, run.options.clocks) = (7, Some(ClockSource::Assumed));
        let assumed = Clocks::of_run(&run, &Profile::standard(), 100);
        assert!(assumed.of_seed(7).is_none() && assumed.largest_ns() == 450);
        let rows = assumed.rows();
        assert!(rows[1].what.contains("assumed") && rows[1].ours.mean == 300.0, "{rows:?}");
        run.options.clocks = None;
        let agents = Clocks::of_run(&run, &Profile::standard(), 100);
        assert!(agents.of_seed(7).is_some(), "agents are the default");
        let rows = agents.rows();
        assert!(rows[1].what.contains("by the agents"), "{rows:?}");
        assert!(rows[1].ours.mean > 500.0, "{rows:?}");
        assert!(rows[3].ours.mean > rows[1].ours.mean, "{rows:?}");
    }
}
