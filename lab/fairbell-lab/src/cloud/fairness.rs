//! `fairbell-lab cloud fairness`: what makes the feed fairer, switched on and off by turns.
//!
//! Each seed is one cloud, in which the same venue trades twice: with the paper's tree and estimator, and with
//! children served slowest first, path-disjoint hedging and a percentile of messages, which send no copy more. Who is
//! first changes from seed to seed. Beside both stand what this machine and the relay's delays alone allow.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use emulator::{Model, Network};
use fairbell::options::duration;
use fairbell::report::Quantiles;
use fairbell::up::report_quantiles;
use host::failure::{Failure, on};
use host::sockets::io;
use overlay::topology::Tree;
use serde::Serialize;
use sim::cloud::stats::Estimate;
use types::{Nanos, NodeId};

use super::checks::Checks;
use super::participants::Participants;
use super::site::{Plan, Site};
use super::{ASYMMETRY_US, MAIN, SEGMENT_MIB, Shape, edges, floor, measure, quantiles_of};
use super::{start, told, venue, watched};

/// Options of `fairbell-lab cloud fairness`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab cloud fairness                               ten clouds of twelve hosts, 20 s each way, 60 times slower\n  \
    fairbell-lab cloud fairness --seeds 4 --profile straggler --target 99\n  \
    fairbell-lab cloud fairness --slow 1                      as quick as the profile: this machine decides who is late\n  \
    fairbell-lab cloud fairness --control same                control: both turns are without it\n\n\
    Exit code 1 when a request was lost, books differ, a clock was beyond its bound, or the share of messages\n\
    on time does not rise by more than its interval. It needs what `fairbell-lab cloud` needs.")]
pub struct FairnessArgs {
    /// Clouds, one after another; each has two turns
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Fixes the draws of the first cloud's delays, offsets and requests
    #[arg(long, value_name = "S", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    seed: u64,
    /// Hosts, the participants' among them
    #[arg(long, value_name = "N", default_value_t = 12,
          value_parser = clap::value_parser!(u32).range(4..=64))]
    hosts: u32,
    /// Replicas of the root: 1, 3 or 5
    #[arg(long, value_name = "N", default_value_t = 1)]
    roots: u32,
    /// Hops from the root to an edge
    #[arg(long, value_name = "D", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=4))]
    depth: u32,
    /// Children of a proxy
    #[arg(long, value_name = "F", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    fanout: u32,
    /// Siblings whose children a proxy helps
    #[arg(long, value_name = "H", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(0..=3))]
    hedge: u32,
    /// What the paths are like
    #[arg(long, value_name = "NAME", default_value = "standard")]
    profile: String,
    /// Slow motion: all times of the profile so many times as long; what this machine adds weighs less
    #[arg(long, value_name = "TIMES", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=100))]
    slow: u64,
    /// Messages on time that are aimed at when it is on, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 98.7, value_parser = target)]
    target: f64,
    /// Requests per second, all participants together
    #[arg(long, value_name = "N", default_value_t = 400,
          value_parser = clap::value_parser!(u64).range(50..=20_000))]
    rate: u64,
    /// Length of the trading of each turn
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration)]
    duration: Duration,
    /// Of that, before anything is measured: delays are learned
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = duration)]
    warm_up: Duration,
    /// Control: what is measured must not differ: same (both turns are without it)
    #[arg(long, value_name = "WHAT", value_parser = ["same"])]
    control: Option<String>,
    /// Folder of the machines' files; what was there is removed
    #[arg(long, value_name = "DIR", default_value = "out/cloud-fairness")]
    out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Messages whose way over the relay alone is drawn, and time between them.
const DRAWN: u64 = 2_000;
const DRAWN_EVERY_NS: u64 = 2 * Nanos::MILLI;
/// Instants that the machine's floor is made of.
const INSTANTS: usize = 500;

fn target(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (50.0..=99.9).contains(value));
    value.ok_or_else(|| "a number from 50 to 99.9".to_string())
}

/// A mean over clouds and the half-width of its 95 % interval (Student), 0 of one cloud.
#[derive(Serialize, Clone, Copy, PartialEq, Debug)]
struct Mean {
    mean: f64,
    half_width: f64,
}

impl Mean {
    fn of(values: impl Iterator<Item = f64>) -> Mean {
        let Estimate { mean, half_width } = Estimate::of(&values.collect::<Vec<f64>>());
        Mean { mean, half_width }
    }
}

/// What one turn came to.
#[derive(Serialize, Clone, Default, Debug)]
struct Turn {
    seed: u64,
    /// Whether it was on.
    on: bool,
    /// Messages with a deadline, after the warm-up.
    messages: u64,
    /// Of these, released everywhere within the window, in true time, and on time by own clocks; percent.
    fair_percent: f64,
    on_time_percent: f64,
    /// 1 us and twice the median bound of the clocks in the first turn in this cloud.
    window_ns: u64,
    oml_arrival_ns: Quantiles,
    oml_release_ns: Quantiles,
    dws_ns: Quantiles,
    /// From the root to the last edge by the relay's delays alone.
    relay_ns: Quantiles,
    clock_error_ns: Quantiles,
    #[serde(flatten)]
    checks: Checks,
}

/// All turns of one kind.
#[derive(Serialize, Clone, Copy, Debug)]
struct Side {
    fair_percent: Mean,
    on_time_percent: Mean,
    oml_release_us: Mean,
    relay_us: Mean,
}

impl Side {
    fn of(turns: &[Turn], on: bool) -> Side {
        let mean = |field: fn(&Turn) -> f64| {
            Mean::of(turns.iter().filter(|turn| turn.on == on).map(field))
        };
        Side {
            fair_percent: mean(|turn| turn.fair_percent),
            on_time_percent: mean(|turn| turn.on_time_percent),
            oml_release_us: mean(|turn| turn.oml_release_ns.p50 as f64 / 1e3),
            relay_us: mean(|turn| turn.relay_ns.p50 as f64 / 1e3),
        }
    }
}

/// What the command prints.
#[derive(Serialize, Clone, Debug)]
struct Report {
    profile: String,
    slow: u64,
    hosts: u32,
    edges: u32,
    seeds: Vec<u64>,
    off: Side,
    on: Side,
    /// By cloud, with it less without it: messages on time everywhere, and fair ones, points; median release OML more,
    /// percent.
    on_time_points: Mean,
    fairer_points: Mean,
    dearer_percent: Mean,
    /// So many threads that wait for the same instant: how far apart they act, and how often within the window.
    floor_dws_ns: Quantiles,
    floor_fair_percent: f64,
    clock_error_ns: Quantiles,
    turns: Vec<Turn>,
    complaints: Vec<String>,
}

/// Runs all turns.
///
/// # Errors
/// [`Failure::Unavailable`] where there can be no box; what was not as it has to be.
pub fn run(args: &FairnessArgs) -> Result<(), Failure> {
    if args.warm_up >= args.duration {
        return Err(Failure::Usage("--warm-up: shorter than --duration".to_string()));
    }
    let profile = super::profile(&args.profile)?.slowed(args.slow);
    let edges = edges(args.hosts, args.roots, (args.depth, args.fanout))?;
    if args.out.exists() {
        std::fs::remove_dir_all(&args.out).map_err(|error| on(&args.out, error))?;
    }
    let spreads = floor::spreads(edges as usize, INSTANTS)?;
    let mut turns: Vec<Turn> = Vec::new();
    for seed in args.seed..args.seed + args.seeds {
        let mut window_ns = None;
        for is_on in order(seed) {
            let network = start(args.hosts, profile.clone(), seed)?;
            let turn = turn(args, (&network, edges), (seed, is_on), window_ns)?;
            window_ns = Some(turn.window_ns);
            if !args.json {
                eprintln!("{}", line(&turn));
            }
            turns.push(turn);
        }
    }
    let report = report(args, edges, &spreads, turns);
    told(&report, args.json, print, &report.complaints)
}

/// Whether it is on, turn by turn: another one is first in each cloud.
fn order(seed: u64) -> [bool; 2] {
    let first = seed.is_multiple_of(2);
    [first, !first]
}

/// The settings of a turn: those of the paper, or what is tried.
fn settings(args: &FairnessArgs, edges: u32, is_on: bool) -> String {
    let shape = Shape {
        name: MAIN,
        depth: args.depth,
        hedge: args.hedge,
        edges,
        fanout: args.fanout,
        standby: 0,
        segment_mib: SEGMENT_MIB,
        asymmetry_us: ASYMMETRY_US,
    };
    let plain = venue(&shape, "huygens", true);
    match is_on {
        false => plain.replacen("[hold]\n", "[hold]\npercentile = 95.0\n", 1),
        true => plain
            .replacen("[overlay]\n", "[overlay]\nslowest_first = true\nhedging = \"path-disjoint\"\n", 1)
            .replacen(
                "[hold]\n",
                &format!(
                    "[hold]\nestimator = \"message-percentile\"\ntarget_percent = {:.1}\nsamples = 64\n",
                    args.target
                ),
                1,
            ),
    }
}

/// One venue from its start to its end.
fn turn(
    args: &FairnessArgs,
    (network, edges): (&Network, u32),
    (seed, is_on): (u64, bool),
    window_ns: Option<u64>,
) -> Result<Turn, Failure> {
    let dir = args.out.join(format!("{seed}-{}", if is_on { "on" } else { "off" }));
    let own = std::env::current_exe().map_err(io)?;
    let plan = Plan {
        venue: settings(args, edges, is_on && args.control.is_none()),
        roots: args.roots as usize,
        shards: 1,
        offset_us: 10_000,
        drift_ppb: 50_000,
        seed,
        ipv6: false,
        web: false,
        disks: false,
        snapshots: true,
        programs: [own.clone(), own],
        idle: 0,
        scale: Default::default(),
        hosts: Vec::new(),
    };
    let mut site = Site::start(network, &plan, &dir)?;
    site.keep_journals()?;
    let trading = Participants::start(&site, (args.rate, seed), args.duration, Default::default())?;
    let clock = trading.clock;
    let (clocks, (load, from)) = watched(&site, || {
        trading.wait_for_trading()?;
        let from = clock.now().after(args.warm_up.as_nanos() as u64);
        Ok((trading.wait()?, from))
    })?;
    let checks = Checks::of(&mut site, (&load, &clocks), (&[], clock.now()), &[])?;
    let own_window = Nanos::MICRO + 2 * quantiles_of(&clocks.bounds()).p50;
    let window_ns = window_ns.unwrap_or(own_window);
    let delivery = measure::deliveries(&site, &clocks, from, window_ns)?.delivery;
    let trees = site.exchange()?.trees().map_err(|error| Failure::Run(error.to_string()))?;
    let relay = match trees.first() {
        Some(tree) => relayed(tree, &host_of(&site)?, network.model(seed)),
        None => Vec::new(),
    };
    let percent = |part: Option<f64>| 100.0 * part.unwrap_or(0.0);
    Ok(Turn {
        seed,
        on: is_on,
        messages: delivery.messages - delivery.without_deadline,
        fair_percent: percent(delivery.p_fair),
        on_time_percent: percent(delivery.p_on_time),
        window_ns,
        oml_arrival_ns: report_quantiles(&delivery.oml_arrival_ns),
        oml_release_ns: report_quantiles(&delivery.oml_release_ns),
        dws_ns: report_quantiles(&delivery.dws_ns),
        relay_ns: quantiles_of(&relay),
        clock_error_ns: quantiles_of(&clocks.errors()),
        checks,
    })
}

/// The host of each node of the tree, the root's first.
fn host_of(site: &Site<'_>) -> Result<Vec<usize>, Failure> {
    let mut hosts = vec![0];
    for (node, machine, _) in site.file.overlay(&site.config)? {
        let at = usize::from(node.0);
        if hosts.len() <= at {
            hosts.resize(at + 1, 0);
        }
        hosts[at] = usize::from(machine) - 1;
    }
    Ok(hosts)
}

/// Times from the root to the last receiver when only the relay takes time, the first copy counting, ns.
fn relayed(tree: &Tree, hosts: &[usize], mut model: Model) -> Vec<u64> {
    let one = |id: u64| {
        let mut arrived = vec![None::<u64>; hosts.len()];
        arrived[0] = Some(0);
        // Layer by layer: whoever sends has a lower number than whom it sends to.
        for node in 0..hosts.len() {
            let Some(sent) = arrived[node] else { continue };
            for child in tree.children(NodeId(node as u16), id) {
                let child = usize::from(child.0);
                let (Some(to), Some(known)) = (hosts.get(child), arrived.get(child)) else {
                    continue;
                };
                let at = sent + model.idle_delay_ns(hosts[node], *to, id * DRAWN_EVERY_NS);
                arrived[child] = Some(known.map_or(at, |known| known.min(at)));
            }
        }
        let receivers = tree.topology.receiver_ids();
        receivers.filter_map(|id| *arrived.get(usize::from(id.0))?).max()
    };
    (1..=DRAWN).filter_map(one).collect()
}

/// All turns together.
fn report(args: &FairnessArgs, edges: u32, spreads: &[u64], turns: Vec<Turn>) -> Report {
    let pairs = || {
        turns
            .chunks_exact(2)
            .map(|two| if two[0].on { (&two[1], &two[0]) } else { (&two[0], &two[1]) })
    };
    let on_time_points =
        Mean::of(pairs().map(|(off, on)| on.on_time_percent - off.on_time_percent));
    let fairer_points = Mean::of(pairs().map(|(off, on)| on.fair_percent - off.fair_percent));
    let oml = |turn: &Turn| turn.oml_release_ns.p50 as f64;
    let dearer_percent = Mean::of(pairs().map(|(off, on)| (oml(on) / oml(off) - 1.0) * 100.0));
    let within = |turn: &Turn| spreads.iter().filter(|spread| **spread <= turn.window_ns).count();
    let shares = turns.iter().map(|turn| 100.0 * within(turn) as f64 / spreads.len().max(1) as f64);
    let errors: Vec<u64> = turns.iter().map(|turn| turn.clock_error_ns.p99).collect();
    let mut report = Report {
        profile: args.profile.clone(),
        slow: args.slow,
        hosts: args.hosts,
        edges,
        seeds: (args.seed..args.seed + args.seeds).collect(),
        off: Side::of(&turns, false),
        on: Side::of(&turns, true),
        on_time_points,
        fairer_points,
        dearer_percent,
        floor_dws_ns: quantiles_of(spreads),
        floor_fair_percent: Mean::of(shares).mean,
        clock_error_ns: quantiles_of(&errors),
        complaints: Vec::new(),
        turns,
    };
    report.complaints = complaints(&report);
    report
}

/// What of all turns is not as it has to be.
fn complaints(of: &Report) -> Vec<String> {
    let mut all = Vec::new();
    for turn in &of.turns {
        let name = format!("seed {} {}", turn.seed, if turn.on { "on" } else { "off" });
        let found = turn.checks.complaints().into_iter();
        all.extend(found.map(|(_, what)| format!("{name}: {what}")));
        if turn.messages == 0 {
            all.push(format!("{name}: run: no message with a deadline"));
        }
    }
    let Mean { mean, half_width } = of.on_time_points;
    if mean.is_nan() || mean - half_width <= 0.0 {
        all.push(format!("gain: {mean:.2} +- {half_width:.2} points of messages on time"));
    }
    all
}

fn line(of: &Turn) -> String {
    let us = |ns: u64| ns as f64 / 1e3;
    format!(
        "seed {} {}: {:.2} % fair within {:.0} us, {:.2} % on time, {:.0} us to the last release p50 ({:.0} to the last arrival, \
         {:.0} by the relay alone), {} messages",
        of.seed,
        if of.on { "on" } else { "off" },
        of.fair_percent,
        us(of.window_ns),
        of.on_time_percent,
        us(of.oml_release_ns.p50),
        us(of.oml_arrival_ns.p50),
        us(of.relay_ns.p50),
        of.messages
    )
}

fn print(of: &Report) {
    let us = |ns: u64| ns as f64 / 1e3;
    let both = |Mean { mean, half_width }: Mean| format!("{mean:.2} +- {half_width:.2}");
    println!(
        "profile {} {} times slower, {} hosts, {} edges, seeds {:?}; +- is the 95 % interval over seeds (Student)",
        of.profile, of.slow, of.hosts, of.edges, of.seeds
    );
    for (name, side) in [("off", of.off), ("on ", of.on)] {
        println!(
            "{name} fair {} %, on time {} %; to the last release {} us p50, by the relay alone {} us",
            both(side.fair_percent),
            both(side.on_time_percent),
            both(side.oml_release_us),
            both(side.relay_us)
        );
    }
    println!(
        "on against off, cloud by cloud: {} points more on time, {} more fair, {} % more to the last release",
        both(of.on_time_points),
        both(of.fairer_points),
        both(of.dearer_percent)
    );
    println!(
        "floor: {} threads that wait for the same instant are {:.0} us apart p50, {:.0} p99, {:.2} % within the windows; clocks \
         are {:.1} us wrong at p99 of the median turn",
        of.edges,
        us(of.floor_dws_ns.p50),
        us(of.floor_dws_ns.p99),
        of.floor_fair_percent,
        us(of.clock_error_ns.p50)
    );
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};
    use emulator::Profile;
    use overlay::estimator::Estimator as Rule;
    use overlay::hedging::{HedgePolicy, Hedging};
    use overlay::topology::Topology;

    use super::*;

    fn parsed(args: &[&str]) -> Result<FairnessArgs, clap::Error> {
        let command = FairnessArgs::augment_args(Command::new("fairness"));
        let matches = command.try_get_matches_from([&["fairness"], args].concat())?;
        FairnessArgs::from_arg_matches(&matches)
    }

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let usual = parsed(&[]).expect("defaults");
        assert_eq!((usual.seeds, usual.slow, usual.target), (10, 60, 98.7));
        let own = parsed(&["--seeds", "3", "--target", "97.5", "--control", "same"]).expect("own");
        assert_eq!((own.seeds, own.target, own.control.as_deref()), (3, 97.5, Some("same")));
        for wrong in
            [["--target", "100"], ["--target", "x"], ["--seeds", "0"], ["--control", "other"]]
        {
            assert!(parsed(&wrong).is_err(), "{wrong:?}");
        }
        let short = parsed(&["--duration", "5s", "--warm-up", "5s"]).expect("read");
        assert!(matches!(run(&short), Err(Failure::Usage(_))), "nothing would be measured");
    }

    #[test]
    fn turns_differ_by_the_technique_alone() {
        let args = parsed(&["--target", "97.5"]).expect("options");
        let read = |is_on| {
            let text = settings(&args, 4, is_on);
            let loaded = host::config::Loaded::text("box", &text);
            let config = loaded.and_then(host::config::Loaded::finish).expect("a venue");
            (config.overlay.options(&config.hold, None), config)
        };
        let ((off, plain), (on, tried)) = (read(false), read(true));
        assert_eq!((off.estimator, plain.hold.percentile), (Rule::MaxOfPercentiles, 95.0));
        assert!(!off.slowest_first && off.hedging.policy == HedgePolicy::Sibling);
        let aimed = matches!(on.estimator, Rule::MessagePercentile { permille: 975, .. });
        assert!(aimed, "{on:?}");
        assert!(on.slowest_first && on.hedging.policy == HedgePolicy::PathDisjoint);
        let mut same = tried;
        same.overlay.slowest_first = false;
        same.overlay.hedging.clone_from(&plain.overlay.hedging);
        same.hold.estimator.clone_from(&plain.hold.estimator);
        same.hold.target_percent = plain.hold.target_percent;
        (same.hold.percentile, same.hold.samples) = (plain.hold.percentile, plain.hold.samples);
        assert_eq!((same.overlay, same.hold), (plain.overlay, plain.hold), "all else is alike");
        assert_eq!([order(4), order(5)], [[true, false], [false, true]]);
    }

    #[test]
    fn the_relay_alone_takes_a_hop_for_each_layer_and_hedging_shortens_it() {
        let topology = Topology::from_layers(&[2, 4, 8]).expect("a tree");
        let tree = |hedge| {
            let round_ns = 50 * Nanos::MILLI;
            Tree { topology, hedge, dynamic: true, epoch: 0, stream: 0, round_ns }
        };
        let hosts: Vec<usize> = (0..15).collect();
        let median = |tree: &Tree, profile: &Profile| {
            let model = Model::new(profile, &[0; 15], 3, 3);
            let mut all = relayed(tree, &hosts, model);
            assert_eq!(all.len() as u64, DRAWN);
            all.sort_unstable();
            all[all.len() / 2]
        };
        assert_eq!(median(&tree(0), &Profile::clean()), 150_000);
        let (plain, hedged) =
            (median(&tree(0), &Profile::table1()), median(&tree(1), &Profile::table1()));
        assert!(hedged < plain, "{hedged} {plain}");
        let disjoint = Hedging { policy: HedgePolicy::PathDisjoint, ..Hedging::default() };
        let disjoint = topology.with_hedging(disjoint).expect("a tree");
        let disjoint = median(&Tree { topology: disjoint, ..tree(1) }, &Profile::table1());
        assert!(disjoint < plain, "{disjoint} {plain}");
    }

    fn turns(on_time: [[f64; 2]; 3]) -> Vec<Turn> {
        let one = |(at, on): (usize, bool)| Turn {
            seed: at as u64,
            on,
            messages: 9,
            on_time_percent: on_time[at][usize::from(on)],
            window_ns: 100,
            oml_release_ns: quantiles_of(&[if on { 1_100 } else { 1_000 }]),
            checks: super::super::checks::tests::good(),
            ..Turn::default()
        };
        let all = (0..3).flat_map(|at| order(at as u64).map(|on| (at, on)));
        all.map(one).collect()
    }

    #[test]
    fn a_gain_is_one_when_it_is_beyond_its_interval() {
        let args = parsed(&["--seeds", "3", "--seed", "0"]).expect("options");
        let of = |on_time| report(&args, 4, &[50, 150], turns(on_time));
        let better = of([[80.0, 90.0], [81.0, 92.0], [79.0, 88.0]]);
        assert_eq!(better.complaints, [""; 0]);
        assert!((better.on_time_points.mean - 10.0).abs() < 1e-9, "{:?}", better.on_time_points);
        assert!((better.off.on_time_percent.mean - 80.0).abs() < 1e-9);
        assert!((9.0..11.0).contains(&better.dearer_percent.mean), "{:?}", better.dearer_percent);
        assert_eq!(better.floor_fair_percent, 50.0, "one of two instants is within the window");
        // Controls: nothing differs, and what differs may be chance.
        for on_time in [[[80.0, 80.0]; 3], [[80.0, 90.0], [90.0, 80.0], [80.0, 81.0]]] {
            let found = of(on_time).complaints;
            assert!(found.len() == 1 && found[0].starts_with("gain: "), "{found:?}");
        }
        let mut lost = turns([[80.0, 90.0]; 3]);
        lost[1].checks.requests_lost = 1;
        let found = report(&args, 4, &[50], lost).complaints;
        assert!(found.len() == 1 && found[0].starts_with("seed 0 off: lost: "), "{found:?}");
    }
}
