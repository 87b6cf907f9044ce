//! Appendix F: the delay of a receiver when hops are independent and uniform, with hedging.
//!
//! Twice: the recursion read literally, in which the H + 1 ways to a node share nothing, and the
//! tree as it is, in which they share ancestors. Both agree up to D = 2.

use telemetry::plot::{Curve, Figure};
use types::SplitMix64;

use super::report::{Check, Options, Report, Row, Run};
use super::seeds;

const FANOUT: usize = 3;
const ITERATIONS: u64 = 100_000;
/// Receivers of all trees of a case, and trees, at most.
const RECEIVERS_MAX: u64 = 2_000_000;
const TREES_MAX: u64 = 25_000;

/// Delay by the recursion with fresh draws everywhere.
fn independent(depth: usize, hedge: usize, rng: &mut SplitMix64) -> f64 {
    if depth == 1 {
        // Layer 0 has the root as its only parent.
        return rng.unit();
    }
    let way = |rng: &mut SplitMix64| independent(depth - 1, hedge, rng) + rng.unit();
    (0..=hedge).map(|_| way(rng)).fold(f64::INFINITY, f64::min)
}

/// Delays of all receivers of one tree; parents floor(i / F) - j wrap around. Receivers are not alike:
/// whether the two ways to one share a grandparent depends on its place.
fn shared<'r>(
    depth: usize,
    fanout: usize,
    hedge: usize,
    rng: &mut SplitMix64,
    rows: &'r mut [Vec<f64>; 2],
) -> &'r [f64] {
    rows[0].clear();
    rows[0].extend((0..fanout).map(|_| rng.unit()));
    for _ in 1..depth {
        let [above, below] = rows;
        let parents = above.len();
        below.clear();
        for child in 0..parents * fanout {
            let ways = 0..=hedge.min(parents - 1);
            let way = |j: usize, rng: &mut SplitMix64| {
                above[(child / fanout + parents - j) % parents] + rng.unit()
            };
            below.push(ways.map(|j| way(j, rng)).fold(f64::INFINITY, f64::min));
        }
        rows.swap(0, 1);
    }
    &rows[0]
}

/// Mean, standard deviation and 200 points of the distribution.
struct Summary {
    mean: f64,
    deviation: f64,
    points: Vec<(f64, f64)>,
}

fn summary(mut values: Vec<f64>) -> Summary {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    values.sort_by(f64::total_cmp);
    let point =
        |i: usize| (values[(i * values.len() / 200).min(values.len() - 1)], i as f64 / 200.0);
    Summary { mean, deviation: variance.sqrt(), points: (0..=200).map(point).collect() }
}

/// Delays that a seed draws, of either kind.
fn draws(kind: usize, depth: usize, fanout: usize, hedge: usize, seed: u64) -> Vec<f64> {
    let mut rng = SplitMix64::new(SplitMix64::mix(seed) ^ 0xF);
    if kind == 0 {
        return (0..ITERATIONS).map(|_| independent(depth, hedge, &mut rng)).collect();
    }
    let mut buffers = [Vec::new(), Vec::new()];
    let trees = RECEIVERS_MAX / (fanout as u64).saturating_pow(depth as u32).max(1);
    let mut values = Vec::new();
    for _ in 0..trees.clamp(10, TREES_MAX) {
        values.extend_from_slice(shared(depth, fanout, hedge, &mut rng, &mut buffers));
    }
    values
}

/// Why there are no trees of the fan-out that was asked for.
pub fn fault(options: &Options) -> Option<&'static str> {
    let many = options.fanout.is_some_and(|fanout| fanout > 10);
    many.then_some("--fanout: at most 10, as trees have four layers")
}

/// The experiment.
pub fn run(run: &mut Run) -> Report {
    let fanout = run.options.fanout.unwrap_or(FANOUT);
    let mut rows = Vec::new();
    let mut curves: [Vec<Curve>; 2] = Default::default();
    let mut means = std::collections::BTreeMap::new();
    let cases: Vec<(usize, usize)> = (1..=4).flat_map(|d| (0..=3).map(move |h| (d, h))).collect();
    for (done, (depth, hedge)) in cases.iter().copied().enumerate() {
        for (index, kind) in ["independent", "shared"].into_iter().enumerate() {
            let (mut all, mut deviations, mut points) = (Vec::new(), Vec::new(), Vec::new());
            let of_seed = |seed| summary(draws(index, depth, fanout, hedge, seed));
            for s in seeds::map(run.range(), of_seed) {
                all.push(s.mean);
                deviations.push(s.deviation);
                points = s.points;
            }
            let name = format!("{kind} copies, D={depth} H={hedge}");
            rows.push(Row::new(format!("{name}: mean"), "links", None, &all));
            rows.push(Row::new(format!("{name}: sd"), "links", None, &deviations));
            means.insert((index, depth, hedge), rows[rows.len() - 2].ours.mean);
            if depth == 3 {
                curves[index].push(Curve { name: format!("H={hedge}"), points });
            }
        }
        (run.progress)((done + 1) as f64 / cases.len() as f64);
    }
    let [independent, shared] = curves;
    let figure = |file, title: &str, curves| {
        let (x, y) = ("delay (links are U(0, 1))", "share of messages");
        Figure { file, title: title.to_string(), x, y, curves }
    };
    let demand = |what: &str, key, ours: f64, slack: f64| {
        let mean = means.get(&key).copied().unwrap_or(f64::NAN);
        Check::new(format!("{what}: mean {ours} +- {slack}"), mean, ours - slack, ours + slack)
    };
    Report {
        name: "hedging-montecarlo",
        title: "Appendix F, figure 14: delay of a receiver under hedging, links U(0, 1)",
        model: format!(
            "F={fanout}, no sending time; independent copies: {ITERATIONS} draws a seed; shared: all \
             receivers of at most {TREES_MAX} trees a seed"
        ),
        seeds: run.seeds,
        checks: if fanout != FANOUT { Vec::new() } else { vec![
            demand("independent D=3 H=0", (0, 3, 0), 1.5, 0.005),
            demand("independent D=3 H=1", (0, 3, 1), 1.015, 0.005),
            demand("independent D=3 H=2", (0, 3, 2), 0.8, 0.005),
            demand("shared D=3 H=1", (1, 3, 1), 1.04, 0.01),
        ] },
        rows,
        figures: vec![
            figure("montecarlo-independent", "Copies that share nothing, D=3", independent),
            figure("montecarlo-shared", "Copies in one tree, D=3", shared),
        ],
        notes: vec![
            "The paper prints no numbers here, only figure 14; its three statements (the spread grows \
             with D at H=0, hardly for H>=1, and most of the gain is from H=0 to 1) hold in both."
                .into(),
            "Read literally, the recursion treats the ways to a node as independent. That is exact up \
             to D=2; in a tree siblings share ancestors and the gain from D=3 on is a little less."
                .into(),
        ],
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_of_one_tree_are_not_alike() {
        // Why all of them count: the last one is worse off than the mean of its tree.
        let (mut rng, mut rows) = (SplitMix64::new(1), [Vec::new(), Vec::new()]);
        let (mut all, mut last, trees) = (0.0, 0.0, 20_000);
        for _ in 0..trees {
            let delays = shared(3, FANOUT, 1, &mut rng, &mut rows);
            all += delays.iter().sum::<f64>() / delays.len() as f64;
            last += delays.last().copied().unwrap_or(0.0);
        }
        assert!((last - all) / f64::from(trees) > 0.003, "{last} {all}");
    }

    #[test]
    fn means_are_as_calculated_elsewhere_and_the_control_is_not() {
        let report = run(&mut Run::new(1, &mut |_| ()));
        for check in &report.checks {
            assert!(check.holds(), "{check:?}");
        }
        let mean = |what: &str| {
            report.rows.iter().find(|row| row.what == format!("{what}: mean")).unwrap().ours.mean
        };
        // Without sharing, one layer further down, the difference is plain.
        let gap = mean("shared copies, D=4 H=2") - mean("independent copies, D=4 H=2");
        assert!(gap > 0.05, "{gap}");
        assert!(
            (mean("shared copies, D=2 H=2") - mean("independent copies, D=2 H=2")).abs() < 0.005
        );
    }
}
