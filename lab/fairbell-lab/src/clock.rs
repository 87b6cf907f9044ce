//! `fairbell-lab clock simulate`: Huygens in a modelled cloud beside its comparators.
//!
//! Links are those of the paper's experiments (`sim::cloud`), clocks wander, and the truth is known.
//! The command fails when a demand is not met; demands are made of symmetric links only.

use clap::Args;
use fairbell::options::{Switch, duration};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;
use telemetry::plot::{Curve, Figure};

use clock::simulate::{Plan, SimulatedClocks, quantile, sizes};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use sim::cloud::link::{Cloud, Profile};
use sim::cloud::report::Check;
use sim::cloud::stats::cdf_us;
use types::{Nanos, SplitMix64};

use host::failure::Failure;
use telemetry::plot;

/// Whose base delays differ by direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum AsymmetryOf {
    /// Each path's: one direction of each, drawn up to the largest.
    Paths,
    /// Odd nodes hear even ones later.
    Nodes,
}

/// Options of `fairbell-lab clock simulate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab clock simulate                          a hundred nodes, Table-1 links, 30 s\n  \
    fairbell-lab clock simulate --nodes 100 --seed 3 --json\n  \
    fairbell-lab clock simulate --loops off              what the network effect is worth\n  \
    fairbell-lab clock simulate --asymmetry-us 8         base delays that differ by direction\n  \
    fairbell-lab clock simulate --asymmetry-us 8 --asymmetry-of nodes    the bound breaks\n  \
    fairbell-lab clock simulate --asymmetry-us 8 --asymmetry-of nodes --assume-us 8    covered\n  \
    fairbell-lab clock simulate --wander-ppb 500         oscillators that wander far")]
pub struct SimulateArgs {
    /// Nodes, the reference included
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u16).range(2..=512))]
    pub nodes: u16,
    /// Seed of clocks, delays and mesh
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Length; errors count after the first 20 s
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub duration: Duration,
    /// Links: table1, standard, gcp-like
    #[arg(long, value_name = "NAME", default_value = "table1")]
    pub profile: String,
    /// Neighbours that each node chooses
    #[arg(long, value_name = "K", default_value_t = 10,
          value_parser = clap::value_parser!(u16).range(1..=100))]
    pub neighbours: u16,
    /// Largest offset of a clock at the start, ms
    #[arg(long, value_name = "MS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub offset_ms: u64,
    /// Largest drift, ppm
    #[arg(long, value_name = "PPM", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(0..=500))]
    pub drift_ppm: u64,
    /// Standard deviation of a drift's change within a second, ppb
    #[arg(long, value_name = "PPB", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub wander_ppb: u64,
    /// Change of a pair's spacing up to which it is pure, us
    #[arg(long, value_name = "US", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub pure_us: u64,
    /// Paths of a hundred that have a long queue, one way, in any spell of 3 s
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=50))]
    pub congested: u64,
    /// Largest difference of the two directions' base delays, us
    #[arg(long, value_name = "US", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub asymmetry_us: u64,
    /// Whose asymmetry: drawn for each path, or odd nodes hear everything later by all of it, which
    /// no loop shows
    #[arg(long, value_name = "paths|nodes", value_enum, default_value_t = AsymmetryOf::Paths)]
    pub asymmetry_of: AsymmetryOf,
    /// Largest wander that bounds begin with, ppb
    #[arg(long, value_name = "PPB", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub wander_max_ppb: u32,
    /// Estimate the wander; off: --wander-max-ppb is taken for the truth
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    pub estimate_wander: Switch,
    /// Asymmetry that bounds are to cover, us
    #[arg(long, value_name = "US", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=1_000))]
    pub assume_us: u64,
    /// Correction over loops
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    pub loops: Switch,
    /// Folder for figures
    #[arg(long, value_name = "DIR", default_value = "out/clock")]
    pub out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Bytes of Ethernet, IPv4, UDP and seal around a datagram.
const AROUND: u64 = 14 + 20 + 8 + overlay::seal::OVERHEAD as u64;
/// Length of a congested spell.
const SPELL_NS: u64 = 3 * Nanos::SECOND;
/// Points of a curve.
const POINTS: usize = 200;

/// Simulates and prints.
pub fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let Some(profile) = Profile::named(&args.profile) else {
        return Err(Failure::Usage(format!("--profile: no profile {:?}", args.profile)));
    };
    let plan = plan(args)?;
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::new(1_000),
        false => ProgressBar::hidden(),
    };
    let told = |part: f64| bar.set_position((part * 1e3) as u64);
    let outcome = clock::simulate::run(&plan, delays(args, &profile, plan.run_ns), told);
    bar.finish_and_clear();
    let figures = figures(&outcome);
    let files = plot::write(&figures, &args.out).map_err(|error| {
        Failure::Run(format!("cannot write figures to {}: {error}", args.out.display()))
    })?;
    let checks = if args.asymmetry_us == 0 { checks(&outcome) } else { Vec::new() };
    let document = document(args, &plan, &outcome, &checks);
    if args.json {
        println!("{document:#}");
    } else {
        print(args, &document, &checks);
        files.iter().for_each(|file| println!("figure: {}", file.display()));
    }
    match checks.iter().find(|check| !check.holds()) {
        None => Ok(()),
        Some(check) => Err(Failure::Run(format!("not met: {}", check.what))),
    }
}

fn plan(args: &SimulateArgs) -> Result<Plan, Failure> {
    let mut plan = Plan::new(args.nodes.into(), args.seed);
    plan.run_ns = u64::try_from(args.duration.as_nanos()).unwrap_or(u64::MAX);
    if plan.run_ns <= plan.settle_ns || plan.run_ns > 3_600 * Nanos::SECOND {
        return Err(Failure::Usage("--duration: more than 20s and at most 1h".to_string()));
    }
    plan.clocks.offset_ns = args.offset_ms * Nanos::MILLI;
    plan.clocks.drift_ppb = args.drift_ppm * 1_000;
    plan.clocks.wander_ppb = args.wander_ppb;
    plan.agent.per_node = args.neighbours.into();
    plan.agent.tolerance_ns = args.pure_us * Nanos::MICRO;
    plan.agent.solver.asymmetry_ns = args.assume_us * Nanos::MICRO;
    plan.agent.solver.wander_max_ppb = f64::from(args.wander_max_ppb);
    plan.agent.solver.estimate_wander = args.estimate_wander == Switch::On;
    plan.agent.solver.correct_loops = args.loops == Switch::On;
    Ok(plan)
}

/// Delay of a datagram: the profile's, a path's own asymmetry, and queues of congested spells.
fn delays(
    args: &SimulateArgs,
    profile: &Profile,
    run_ns: u64,
) -> impl FnMut(usize, usize, Nanos) -> Option<u64> + use<> {
    let layers = [u32::from(args.nodes) - 1];
    let start = clock::simulate::START;
    let mut cloud = Cloud::new(profile, args.seed, &layers, run_ns);
    let mut rng = SplitMix64::new(args.seed ^ 0x9E0E);
    let (salt, asymmetry, congested) = (rng.next_u64(), args.asymmetry_us, args.congested);
    let of = args.asymmetry_of;
    let mut message = 0u64;
    move |from, to, at| {
        message += 1;
        let key = cloud.message_key(message);
        let delay = cloud.delay_ns(key, from as u16, to as u16, at.since(start))?;
        // One direction of each pair has the whole difference: drawn by the pair.
        let pair = (from.min(to) * 1_024 + from.max(to)) as u64;
        let drawn = SplitMix64::mix(salt ^ pair);
        let longer = (drawn >> 63 == 1) == (from < to);
        let base = match of {
            AsymmetryOf::Paths if longer => (drawn >> 1) % (asymmetry * Nanos::MICRO + 1),
            AsymmetryOf::Nodes if from % 2 < to % 2 => asymmetry * Nanos::MICRO,
            _ => 0,
        };
        let spell = at.0 / SPELL_NS;
        let path = SplitMix64::mix(salt ^ (from * 1_024 + to) as u64 ^ spell << 32);
        let queue = match path % 100 < congested {
            true => 20_000 + rng.below(100_000),
            false => 0,
        };
        Some(delay + base + queue)
    }
}

/// How far clocks are from the reference's that agents keep in the standard cloud of a seed, ns, sorted.
pub(crate) fn skews(nodes: u16, seed: u64) -> Vec<u64> {
    let plan = Plan::new(nodes.into(), seed);
    let layers = [u32::from(nodes) - 1];
    let mut cloud = Cloud::new(&Profile::standard(), seed, &layers, plan.run_ns);
    let start = clock::simulate::START;
    let mut message = 0;
    let delay = |from: usize, to: usize, at: Nanos| {
        message += 1;
        let key = cloud.message_key(message);
        cloud.delay_ns(key, from as u16, to as u16, at.since(start))
    };
    clock::simulate::run(&plan, delay, |_| {}).errors()
}

fn checks(outcome: &SimulatedClocks) -> Vec<Check> {
    let error = quantile(&outcome.errors(), 990);
    let bound = quantile(&outcome.bounds(), 500);
    vec![
        Check::new("99th percentile of the error, ns", error as f64, 0.0, 1_000.0),
        Check::new("share of readings within their bound", outcome.held(), 0.999, 1.0),
        Check::new(
            "median bound over that percentile",
            bound as f64 / error.max(1) as f64,
            0.0,
            3.0,
        ),
        Check::new("readings missing", outcome.without_reading as f64, 0.0, 0.0),
    ]
}

fn summary(sorted: &[u64]) -> Value {
    let at = |permille| quantile(sorted, permille);
    json!({"p50_ns": at(500), "p90_ns": at(900), "p99_ns": at(990), "p999_ns": at(999),
        "max_ns": at(1_000)})
}

fn document(
    args: &SimulateArgs,
    plan: &Plan,
    outcome: &SimulatedClocks,
    checks: &[Check],
) -> Value {
    let mut causal = outcome.causal_ns.clone();
    causal.sort_unstable();
    let agents = &outcome.agents;
    let seconds = plan.run_ns as f64 / 1e9 * plan.nodes as f64;
    let bytes = agents.bytes_sent + agents.datagrams_sent * AROUND;
    let pairs = (agents.pairs_pure + agents.pairs_impure).max(1) as f64;
    let check = |check: &Check| {
        json!({"what": check.what, "ours": check.ours, "least": check.allowed.0,
            "most": check.allowed.1, "holds": check.holds()})
    };
    json!({
        "nodes": plan.nodes, "seed": args.seed, "profile": args.profile,
        "duration_s": plan.run_ns as f64 / 1e9, "loops": plan.agent.solver.correct_loops,
        "offset_ms": args.offset_ms, "drift_ppm": args.drift_ppm, "wander_ppb": args.wander_ppb,
        "asymmetry_us": args.asymmetry_us, "assumed_us": args.assume_us,
        "congested_percent": args.congested,
        "error": summary(&outcome.errors()),
        "bound": summary(&outcome.bounds()),
        "bound_held": outcome.held(),
        "causal": summary(&causal),
        "minimum_delay": summary(&sizes(&outcome.minimum_delay)),
        "kalman": summary(&sizes(&outcome.kalman)),
        "wander_estimate_ppb": outcome.solver.wander_ppb,
        "wander_alarms": outcome.solver.wander_alarms,
        "edges": outcome.solver.edges_used,
        "edges_doubted": outcome.solver.edges_doubted,
        "edge_sigma_ns": outcome.solver.edge_sigma_ns,
        "neighbours": outcome.neighbours,
        "pure_share": agents.pairs_pure as f64 / pairs,
        "datagrams_per_node_s": agents.datagrams_sent as f64 / seconds,
        "mbit_per_node_s": bytes as f64 * 8.0 / 1e6 / seconds,
        "checks": checks.iter().map(check).collect::<Vec<_>>(),
        "passes": checks.iter().all(Check::holds),
    })
}

fn print(args: &SimulateArgs, document: &Value, checks: &[Check]) {
    println!(
        "{} nodes, seed {}, links {}: offsets up to {} ms, drifts up to {} ppm that change by {} \
         ppb within a second",
        args.nodes, args.seed, args.profile, args.offset_ms, args.drift_ppm, args.wander_ppb
    );
    println!("\n{:34}{:>10}{:>10}{:>10}{:>10}", "us", "p50", "p99", "p99.9", "max");
    let rows = [
        ("error", "error"),
        ("published bound", "bound"),
        ("bound by causality alone", "causal"),
        ("error, minimum delay (NTP's way)", "minimum_delay"),
        ("error, Kalman filter", "kalman"),
    ];
    for (name, key) in rows {
        let us = |field: &str| document[key][field].as_u64().unwrap_or(0) as f64 / 1e3;
        println!(
            "{name:34}{:>10.3}{:>10.3}{:>10.3}{:>10.3}",
            us("p50_ns"),
            us("p99_ns"),
            us("p999_ns"),
            us("max_ns")
        );
    }
    let number = |key: &str| document[key].as_f64().unwrap_or(0.0);
    println!("\nreadings within their bound: {:.4} %", number("bound_held") * 100.0);
    println!(
        "{:.0} edges, {:.0} doubted; {:.1} neighbours; {:.0} % of pairs pure",
        number("edges"),
        number("edges_doubted"),
        number("neighbours"),
        number("pure_share") * 100.0
    );
    println!(
        "wander: {:.0} ppb at most by residuals; {:.0} solutions beyond the configured maximum",
        number("wander_estimate_ppb"),
        number("wander_alarms")
    );
    println!(
        "each node sends {:.0} datagrams/s, {:.2} Mbit/s with seal and headers",
        number("datagrams_per_node_s"),
        number("mbit_per_node_s")
    );
    for check in checks {
        let verdict = if check.holds() { "holds" } else { "MISSED" };
        println!("{verdict:6} {}: {:.4} (at most {:.4})", check.what, check.ours, check.allowed.1);
    }
    if args.asymmetry_us > 0 {
        println!("no demands: an asymmetry is an error that no protocol sees");
    }
}

fn figures(outcome: &SimulatedClocks) -> Vec<Figure> {
    let curve =
        |name: &str, sorted: Vec<u64>| Curve { name: name.into(), points: cdf_us(&sorted, POINTS) };
    let cdf = Figure {
        file: "clock_errors",
        title: "Clock errors after settling".into(),
        x: "absolute error, us",
        y: "share of readings",
        curves: vec![
            curve("Huygens", outcome.errors()),
            curve("its bound", outcome.bounds()),
            curve("minimum delay", sizes(&outcome.minimum_delay)),
            curve("Kalman filter", sizes(&outcome.kalman)),
        ],
    };
    let mut worst: Vec<(f64, f64)> = Vec::new();
    let mut bounds: Vec<(f64, f64)> = Vec::new();
    for look in &outcome.looks {
        let (at, error) = (look.at_ns as f64 / 1e9, look.error_ns.unsigned_abs() as f64 / 1e3);
        let bound = look.bound_ns as f64 / 1e3;
        match (worst.last_mut(), bounds.last_mut()) {
            (Some(w), Some(b)) if w.0 == at => {
                w.1 = w.1.max(error);
                b.1 = b.1.min(bound);
            }
            _ => {
                worst.push((at, error));
                bounds.push((at, bound));
            }
        }
    }
    let time = Figure {
        file: "clock_time",
        title: "Worst error and smallest bound of all nodes".into(),
        x: "time, s",
        y: "us",
        curves: vec![
            Curve { name: "worst error".into(), points: worst },
            Curve { name: "smallest bound".into(), points: bounds },
        ],
    };
    vec![cdf, time]
}
