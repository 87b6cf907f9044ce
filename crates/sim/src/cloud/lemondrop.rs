//! LemonDrop's accuracy against the limit of its iterations (thesis, appendix A.5.6).
//!
//! The thesis' listing adds a Q to P without taking a P away; the objective then only grows with
//! the step, the step found is the search's least (about 6e-6), and the result is the first
//! direction, whatever the limit. So one iteration here is the thesis' LemonDrop, and the corrected
//! algorithm shows what more of them buy. Times come from the caller, who has a clock.

use planner::campaign::place;
use planner::cloud::{Cloud, CloudModel};
use planner::faq::{FaqOptions, Placement, Qap};
use planner::objective::Goal;
use planner::polish::two_opt;
use planner::{Square, Tree};
use types::SplitMix64;

use super::report::{Check, Curve, Figure, Report, Row, Run};
use super::seeds;
use super::stats::Estimate;
use super::treebuilder::{SHAPE, VMS};

/// Limits of iterations compared.
pub const LIMITS: [usize; 7] = [1, 2, 5, 10, 30, 100, 1_000];
const MESSAGES: usize = 3_000;
const PROBES: usize = 400;
/// Starts of the search that the others are compared with.
const STARTS: usize = 100;

/// What one way to place did in one cloud.
#[derive(Clone, Copy, Default, Debug)]
struct Outcome {
    /// Objective over the best known, less 1, in percent.
    gap: f64,
    iterations: f64,
    worst_p90_ns: f64,
    worst_stddev_ns: f64,
}

/// The delays that LemonDrop sees in the cloud of a seed: medians of a mesh.
pub fn delays(seed: u64) -> Square {
    Cloud::new(CloudModel::default(), VMS, seed)
        .mesh(PROBES, &mut SplitMix64::new(seed ^ 0x1E3))
        .median
}

/// A placement at a limit of iterations, with no other way to stop.
pub fn limited(qap: &Qap, iterations: usize) -> Placement {
    qap.solve(&FaqOptions { iterations, tolerance: 0.0, ..FaqOptions::default() })
}

/// By limit; then with 2-opt at 30; then many starts with 2-opt; then for the worst leaf.
fn compare(seed: u64) -> Vec<Outcome> {
    let cloud = Cloud::new(CloudModel::default(), VMS, seed);
    let mesh = cloud.mesh(PROBES, &mut SplitMix64::new(seed ^ 0x1E3));
    let qap = Qap::tree(SHAPE, mesh.median.clone());
    let mut found: Vec<Placement> = LIMITS.iter().map(|limit| limited(&qap, *limit)).collect();
    let mut polished = limited(&qap, 30);
    two_opt(&qap, &mut polished);
    found.push(polished);
    found.push(best_known(&qap, seed));
    let worst_leaf = place(Goal::WorstLeaf, SHAPE, &mesh, seed);
    found.push(Placement {
        cost: qap.cost(&worst_leaf),
        vms: worst_leaf,
        iterations: 0,
        converged: true,
    });
    let least = found.iter().map(|placement| placement.cost).fold(f64::INFINITY, f64::min);
    let outcome = |placement: &Placement| {
        let tree = Tree::new(SHAPE, placement.vms.clone()).expect("a placement is a tree");
        let (leaves, _) = cloud.evaluate(&tree, MESSAGES, &mut SplitMix64::new(seed));
        let worst = leaves.into_iter().max_by(|a, b| a.p90_ns.total_cmp(&b.p90_ns));
        let worst = worst.unwrap_or_default();
        Outcome {
            gap: 100.0 * (placement.cost / least - 1.0),
            iterations: placement.iterations as f64,
            worst_p90_ns: worst.p90_ns,
            worst_stddev_ns: worst.stddev_ns,
        }
    };
    found.iter().map(outcome).collect()
}

/// The best of many starts, each polished.
fn best_known(qap: &Qap, seed: u64) -> Placement {
    let one = |start: u64| {
        let options = FaqOptions { starts: 2, seed: seed << 8 | start, ..FaqOptions::default() };
        let mut placement = qap.solve(&options);
        two_opt(qap, &mut placement);
        placement
    };
    let all = (0..STARTS as u64).map(one);
    all.min_by(|a, b| a.cost.total_cmp(&b.cost)).unwrap_or_else(|| limited(qap, 1))
}

fn names() -> Vec<String> {
    let limits = LIMITS.iter().map(|limit| match limit {
        1 => "1 iteration (the thesis' listing)".to_string(),
        _ => format!("at most {limit} iterations"),
    });
    let others = ["30 iterations and 2-opt", "100 starts and 2-opt", "worst leaf, annealed"];
    limits.chain(others.map(ToString::to_string)).collect()
}

/// The experiment.
pub fn run(run: &mut Run) -> Report {
    let all = seeds::map(run.seeds, compare);
    (run.progress)(1.0);
    let column = |at: usize, of: fn(&Outcome) -> f64| -> Vec<f64> {
        all.iter().map(|cloud| of(&cloud[at])).collect()
    };
    let mut rows = Vec::new();
    let names = names();
    // Runs A, B and C of the appendix: p90 and stddev of the worst receiver at limits 1,000, 10,000
    // and 100,000; by the argument above all three are the first direction.
    let published = |name: &str| name.starts_with("1 iteration").then_some((295e3, 83.35e3));
    for (at, name) in names.iter().enumerate() {
        let gap = column(at, |o| o.gap);
        rows.push(Row::new(format!("{name}: objective over best known"), "%", None, &gap));
        if at < LIMITS.len() {
            let used = column(at, |o| o.iterations);
            rows.push(Row::new(format!("{name}: iterations used"), "", None, &used));
        }
        let published = published(name);
        let (p90, deviation) = (column(at, |o| o.worst_p90_ns), column(at, |o| o.worst_stddev_ns));
        rows.push(Row::new(format!("{name}: worst leaf, p90"), "ns", published.map(|p| p.0), &p90));
        let what = format!("{name}: worst leaf, stddev");
        rows.push(Row::new(what, "ns", published.map(|p| p.1), &deviation));
    }
    let gap = |at: usize| Estimate::of(&column(at, |o| o.gap)).mean;
    let p90 = |at: usize| Estimate::of(&column(at, |o| o.worst_p90_ns)).mean;
    let (thirty, last) = (4, names.len() - 1);
    let points = LIMITS.iter().enumerate().map(|(at, limit)| ((*limit as f64).log10(), gap(at)));
    Report {
        name: "lemondrop",
        title: "LemonDrop: accuracy against the limit of iterations",
        model: format!(
            "{VMS} VMs, D=3, F=2, medians of {PROBES} probes per pair; best known: {STARTS} starts \
             with 2-opt"
        ),
        seeds: run.seeds,
        checks: vec![
            Check::new("gap at 30 iterations over gap at 1", gap(thirty) / gap(0), 0.0, 0.9),
            Check::new("gap with 2-opt, %", gap(LIMITS.len()), 0.0, gap(thirty)),
            Check::new("annealed worst leaf over 30 iterations", p90(last) / p90(thirty), 0.0, 1.0),
        ],
        figures: vec![Figure {
            file: "lemondrop",
            title: "Objective over best known by limit of iterations".into(),
            x: "limit of iterations (power of ten)",
            y: "gap (%)",
            curves: vec![Curve { name: "corrected FAQ".into(), points: points.collect() }],
        }],
        rows,
        notes: vec![
            "The published runs took 0.0381 s, 11.26 s and 111.94 s at limits of 1,000, 10,000 and \
             100,000 iterations and tolerances of 1e-4, 2.2e-5 and 1.7e-5: the same first \
             direction over and over. Their differences (295, 273 and 285 us) are those of three clusters' \
             states, not of the algorithm."
                .into(),
            "The objective is a sum over edges; the worst leaf is not, so a smaller gap need not \
             make it better. Placing for the worst leaf does."
                .into(),
        ],
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_iterations_and_polish_come_closer() {
        let report = run(&mut Run { seeds: 6, progress: &mut |_| () });
        for check in &report.checks[..2] {
            assert!(check.holds(), "{check:?}");
        }
    }

    #[test]
    fn the_first_direction_is_what_the_listing_gives() {
        // The listing by hand: the least step keeps P at the barycentre but for a trace of Q, and
        // the projection finds that trace.
        for seed in 0..5 {
            let qap = Qap::tree(SHAPE, delays(seed));
            let one = limited(&qap, 1);
            assert_eq!(one.iterations, 1);
            assert!(limited(&qap, 30).cost <= one.cost);
        }
    }
}
