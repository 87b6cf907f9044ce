//! How often BEST trees keep known stragglers out, over many synthetic clouds, by real probes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use planner::cloud::{Cloud, CloudModel};
use planner::schema::{Experiment, Kind, Run};
use planner::score::Strategy;
use serde_json::json;

use super::{PlanArgs, local};
use host::failure::Failure;

/// Share of the trees that must be free of stragglers.
const LEAST: f64 = 0.95;
/// Candidates per parent: with 4, three stragglers in one slice leave no choice, and late in a
/// build of 15 out of 25 that happens in one tree of twenty.
const CANDIDATES: usize = 8;
/// Length of a job unless asked for otherwise.
const JOB_MS: u32 = 400;

/// Runs the test.
pub fn run(args: &PlanArgs, experiment: &Experiment, runs: u32) -> Result<(), Failure> {
    let stop = crate::options::interrupted()?;
    let mut clean: BTreeMap<String, u32> = BTreeMap::new();
    let mut failures = 0;
    for seed in 0..u64::from(runs) {
        let seed = experiment.seed.wrapping_add(seed);
        let model = CloudModel::straggler_test();
        let cloud = Arc::new(Cloud::new(model, experiment.local.vms, seed));
        let one = one(args, experiment, seed);
        let results = local::run(one, Arc::clone(&cloud), None, &stop)?;
        // The controller's end sets it.
        stop.store(false, std::sync::atomic::Ordering::Relaxed);
        failures += results.failures.len();
        for run in &results.runs {
            let free = run.tree.as_ref().is_some_and(|tree| {
                cloud.stragglers().iter().all(|straggler| !tree.vms.contains(straggler))
            });
            *clean.entry(run.run.name.clone()).or_default() += u32::from(free);
        }
        eprintln!("run {} of {runs}: {clean:?} free of stragglers", seed - experiment.seed + 1);
    }
    let share = |clean: &u32| f64::from(*clean) / f64::from(runs);
    if args.json {
        let shares: BTreeMap<&String, f64> =
            clean.iter().map(|(name, clean)| (name, share(clean))).collect();
        let passes = clean.values().all(|clean| share(clean) >= LEAST);
        println!(
            "{}",
            json!({"runs": runs, "vms": experiment.local.vms, "stragglers": 3,
                "free_of_stragglers": shares, "failed_jobs": failures, "passes": passes})
        );
    } else {
        println!("trees without any of 3 stragglers among {}:", experiment.local.vms);
        for (name, clean) in &clean {
            println!("  {name:14} {clean} of {runs} ({:.0} %)", 100.0 * share(clean));
        }
    }
    match clean.iter().find(|(_, clean)| share(clean) < LEAST) {
        None => Ok(()),
        Some((name, clean)) => Err(Failure::Run(format!(
            "{name}: only {clean} of {runs} trees are free of stragglers"
        ))),
    }
}

fn one(args: &PlanArgs, experiment: &Experiment, seed: u64) -> Experiment {
    let mut one = Experiment { seed, ..experiment.clone() };
    let job = args.job.unwrap_or(Duration::from_millis(JOB_MS.into()));
    one.probes.duration_ms = u32::try_from(job.as_millis()).unwrap_or(u32::MAX);
    one.local.cloud = CloudModel::straggler_test();
    let best = |name: &str, strategy| Run {
        candidates: CANDIDATES,
        root: "egress".to_string(),
        repeats: 0,
        ..Run::new(name, Kind::Best, strategy)
    };
    one.runs = vec![
        best("BEST-P50", Strategy::P50),
        best("BEST-P90", Strategy::P90),
        best("BEST-WEIGHTED", Strategy::Weighted),
    ];
    one
}
