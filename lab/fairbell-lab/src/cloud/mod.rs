//! `fairbell-lab cloud`: a venue of many machines in a network in a box.
//!
//! Each machine is a process of `fairbell node` in a network namespace of its own, with a wrong clock
//! of its own; a relay delays every packet between them as a profile says. Participants trade, and
//! what came of it is judged by the truth, which only the box knows: requests by their answers, books
//! by a replay of the log, clocks and deliveries by CLOCK_MONOTONIC.

mod faults;
mod floor;
mod measure;
mod site;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use emulator::{Network, Profile, StartError};
use fairbell::options::duration;
use fairbell::report::Quantiles;
use fairbell::up::report_quantiles;
use host::failure::{Failure, on};
use host::fleet::file::{NodeRole, Port};
use host::fleet::messages::Operation;
use host::sockets::io;
use net::Clock;
use serde::Serialize;
use telemetry::Recorder;
use types::Nanos;

use faults::Fault;
use measure::Clocks;
use site::{Plan, Site};

/// Options of `fairbell-lab cloud`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab cloud                              25 hosts, three roots, three hops, 60 s\n  \
    fairbell-lab cloud --hosts 7 --depth 2 --duration 20s --profile clean\n  \
    fairbell-lab cloud --fault kill:leader@10s --fault rotate@20s --fault revoke:edge-2@30s
  \
    fairbell-lab cloud --no-sync --duration 10s     control: clocks that nobody keeps\n  \
    fairbell-lab cloud --no-hold --duration 10s     control: nothing is held back\n\n\
    It needs root, network namespaces and /dev/net/tun, and leaves nothing behind; where they are\n\
    refused it says so and exits with 3.")]
pub struct CloudArgs {
    /// Hosts, the participants' among them
    #[arg(long, value_name = "N", default_value_t = 25,
          value_parser = clap::value_parser!(u32).range(4..=64))]
    pub hosts: u32,
    /// Replicas of the root: 1, 3 or 5
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub roots: u32,
    /// Hops from the root to an edge
    #[arg(long, value_name = "D", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=4))]
    pub depth: u32,
    /// Children of a proxy
    #[arg(long, value_name = "F", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub fanout: u32,
    /// Proxies that stand by, and take the place of one that is silent for a second
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=8))]
    pub standby: u32,
    /// What the paths are like: clean, table1, standard, straggler, lossy, two-zones, asymmetric
    #[arg(long, value_name = "NAME", default_value = "table1")]
    pub profile: String,
    /// Requests per second, all participants together
    #[arg(long, value_name = "N", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub rate: u64,
    /// Length of the trading
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub duration: Duration,
    /// Compare direct unicast, the tree and the hedged tree for so long each [default: not]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub compare: Option<Duration>,
    /// Largest offset of a machine's free-running clock, us
    #[arg(long, value_name = "US", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub offset_us: u64,
    /// Its largest drift, ppb
    #[arg(long, value_name = "PPB", default_value_t = 50_000,
          value_parser = clap::value_parser!(u64).range(0..=200_000))]
    pub drift_ppb: u64,
    /// Fixes the draws of delays, offsets and requests
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Do something to a machine while it trades; again for further ones: KIND:NODE@TIME[+LENGTH],
    /// KIND of kill, pause, cut, cut-out, slow, step, restart, revoke, rotate, old-disk, replace, upgrade, NODE
    /// also `leader`
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<Fault>,
    /// Control: nobody keeps the clocks, and each claims 10 us
    #[arg(long)]
    pub no_sync: bool,
    /// Control: the feed is released as it comes
    #[arg(long)]
    pub no_hold: bool,
    /// Folder of the machines' files; what was there is removed
    #[arg(long, value_name = "DIR", default_value = "out/cloud")]
    pub out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Quantiles of values in ns.
fn quantiles_of(values: &[u64]) -> Quantiles {
    let mut recorder = Recorder::new();
    values.iter().for_each(|value| recorder.record(*value));
    report_quantiles(&recorder.summary())
}

/// What one run came to.
#[derive(Serialize, Clone, Debug)]
struct Outcome {
    name: &'static str,
    hosts: usize,
    requests_sent: u64,
    requests_answered: u64,
    requests_lost: u64,
    answered_twice: u64,
    books_equal: bool,
    books_compared: u64,
    /// What `fairbell cluster status` said of the last ten seconds.
    live: serde_json::Value,
    /// Of the tree at the end; 1: it is the first one.
    tree_epoch: u64,
    /// Roots that were the reference of the clocks, one after another.
    clock_references: usize,
    clock_readings: usize,
    clock_error_ns: Quantiles,
    clock_bound_ns: Quantiles,
    clock_beyond_bound: u64,
    clock_bound_held: bool,
    messages: u64,
    oml_arrival_ns: Quantiles,
    oml_release_ns: Quantiles,
    dws_ns: Quantiles,
    dws_floor_ns: Quantiles,
    p_fair: Option<f64>,
    fair_window_ns: u64,
    p_on_time: Option<f64>,
    round_trip_ns: Quantiles,
    /// What was done to machines, and how long until they were back, ms.
    faults: Vec<(String, u64)>,
    problems: Vec<String>,
}

impl Outcome {
    /// What is wrong with it.
    fn complaints(&self) -> Vec<String> {
        let mut complaints = self.problems.clone();
        let mut wrong = |is: bool, what: String| complaints.extend(is.then_some(what));
        wrong(self.requests_sent == 0, "nothing was sent".to_string());
        wrong(self.requests_lost > 0, format!("{} requests lost", self.requests_lost));
        wrong(self.answered_twice > 0, format!("{} answered twice", self.answered_twice));
        wrong(!self.books_equal, "books differ".to_string());
        let beyond = self.clock_beyond_bound;
        wrong(beyond > 0, format!("UNFAIR: {beyond} clock readings are beyond their bound"));
        wrong(self.clock_readings == 0, "no clock was read".to_string());
        complaints.into_iter().map(|what| format!("{}: {what}", self.name)).collect()
    }
}

/// What the command prints.
#[derive(Serialize, Clone, Debug)]
struct Report {
    profile: &'static str,
    seed: u64,
    relay_ks_distance: f64,
    relay_lateness_ns: Quantiles,
    #[serde(flatten)]
    main: Outcome,
    compared: Vec<Outcome>,
}

/// Runs the box.
///
/// # Errors
/// [`Failure::Unavailable`] where it can't be made; what went wrong in it.
pub fn run(args: &CloudArgs) -> Result<(), Failure> {
    let profile = Profile::named(&args.profile).ok_or_else(|| {
        Failure::Usage(format!("--profile: one of {}", Profile::NAMES.join(", ")))
    })?;
    let name = profile.name;
    let mut config = emulator::Config::new(args.hosts as usize, profile);
    config.seed = args.seed;
    let network = Network::start(config).map_err(|error| match error {
        StartError::Config(_) => Failure::Usage(error.to_string()),
        StartError::Refused { .. } => Failure::Unavailable(error.to_string()),
    })?;
    say(args, &format!("{} hosts joined by a relay, profile {name}; it is checked", args.hosts));
    let check = network.check(4_000).map_err(io)?;
    let edges = edges(args, args.depth)?;
    let floor = quantiles_of(&floor::spreads(edges as usize, 500)?);
    let mut compared = Vec::new();
    if let Some(time) = args.compare {
        let ways =
            [("direct unicast", 1, 0), ("tree", args.depth, 0), ("hedged tree", args.depth, 1)];
        for (way, depth, hedge) in ways {
            let shape = Shape { name: way, depth, hedge, edges };
            compared.push(play(args, &network, &shape, time, floor)?);
        }
    }
    let shape = Shape { name: MAIN, depth: args.depth, hedge: 1, edges };
    let main = play(args, &network, &shape, args.duration, floor)?;
    let report = Report {
        profile: name,
        seed: args.seed,
        relay_ks_distance: check.relay_distance,
        relay_lateness_ns: report_quantiles(&check.lateness),
        main,
        compared,
    };
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&report);
            println!("{}", text.map_err(|error| Failure::Run(error.to_string()))?);
        }
        false => print(&report),
    }
    let mut complaints = report.main.complaints();
    complaints.extend(report.compared.iter().flat_map(Outcome::complaints));
    match complaints.first() {
        None => Ok(()),
        Some(_) => Err(Failure::Run(complaints.join("; "))),
    }
}

/// Name of the run that is judged and hurt; the others are compared.
const MAIN: &str = "main";

/// The tree of one run.
struct Shape {
    name: &'static str,
    depth: u32,
    hedge: u32,
    edges: u32,
}

fn say(args: &CloudArgs, what: &str) {
    if !args.json {
        eprintln!("{what}");
    }
}

/// As many edges as the hosts leave room for.
fn edges(args: &CloudArgs, depth: u32) -> Result<u32, Failure> {
    let fits = |edges: &u32| {
        let mut config = host::config::Config::default();
        config.overlay.depth = depth;
        config.overlay.fanout = args.fanout;
        config.overlay.receivers = *edges;
        config.overlay.hedge = 1;
        let standby = if depth > 1 { args.standby } else { 0 };
        1 + args.roots + host::deployment::proxies(&config) + standby + edges <= args.hosts
    };
    let most = (1..args.hosts).rev().find(fits);
    most.ok_or_else(|| Failure::Usage("--hosts: too few for one edge".to_string()))
}

/// The settings of the venue.
fn venue(args: &CloudArgs, shape: &Shape) -> String {
    let Shape { depth, hedge, edges, .. } = shape;
    let source = if args.no_sync { "system" } else { "huygens" };
    let hold = !args.no_hold;
    let standby = match args.standby {
        0 => String::new(),
        _ if *depth == 1 => String::new(),
        count => format!("standby = {count}\nreplace_after_ms = 1000\n"),
    };
    format!(
        "[overlay]\ndepth = {depth}\nfanout = {}\nreceivers = {edges}\nhedge = {hedge}\n{standby}\n\
         [hold]\nenabled = {hold}\nclock_bound_ns = 10000\n\n\
         [clock]\nsource = \"{source}\"\npure_us = 300\nneighbours = 4\nprobe_every_ms = 50\n\
         asymmetry_us = 500\n\n\
         [engine]\nopen_orders_max = 20000\n\n[memory]\nrepair_mib = 16\n\n\
         [day]\nauctions = false\n\n[journal]\nsegment_mib = 8\n",
        args.fanout
    )
}

/// One venue from its start to its end.
fn play(
    args: &CloudArgs,
    network: &Network,
    shape: &Shape,
    time: Duration,
    dws_floor_ns: Quantiles,
) -> Result<Outcome, Failure> {
    let dir = args.out.join(shape.name.replace(' ', "-"));
    if dir.exists() {
        std::fs::remove_dir_all(&dir).map_err(|error| on(&dir, error))?;
    }
    let plan = Plan {
        venue: venue(args, shape),
        roots: args.roots as usize,
        offset_us: args.offset_us,
        drift_ppb: args.drift_ppb,
        seed: args.seed,
    };
    let mut site = Site::start(network, &plan, &dir)?;
    let nodes = site.file.nodes.len();
    say(args, &format!("{}: {nodes} machines are up; {} s of trading", shape.name, time.as_secs()));
    let stop = AtomicBool::new(false);
    let from = Clock::start(0).now().after(2 * Nanos::SECOND);
    let faults = if shape.name == MAIN { &args.faults[..] } else { &[] };
    site.keep_journals()?;
    let (clocks, load, done) = std::thread::scope(|scope| {
        let (site, stop) = (&site, &stop);
        let watching = scope.spawn(move || Clocks::watch(site, stop));
        let faults = scope.spawn(move || faults::play(site, faults));
        let load = trade(args, site, time);
        let done = faults.join().unwrap_or_else(|_| Err(Failure::Run("faults panicked".into())));
        std::thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
        (watching.join().unwrap_or_default(), load, done)
    });
    let (load, faults) = (load?, done?);
    let (leader, _) = site.status()?;
    let status = site.operate(&Operation::Status)?;
    let tree_epoch = status["tree_epoch"].as_u64().unwrap_or(0);
    let leader = usize::try_from(leader).unwrap_or(1).max(1) - 1;
    let listeners = site.end()?;
    let books = measure::books(&site, leader, &listeners)?;
    let (errors, beyond) = clocks.errors();
    let bounds = quantiles_of(&clocks.bounds());
    let window_ns = Nanos::MICRO + 2 * bounds.p50;
    let seen = measure::deliveries(&site, &clocks, from, window_ns)?;
    let delivery = &seen.delivery;
    let count = |key: &str| load[key].as_u64().unwrap_or(0);
    let quantile = |key: &str| load["latency_ns"][key].as_u64().unwrap_or(0);
    Ok(Outcome {
        name: shape.name,
        hosts: nodes + 1,
        requests_sent: count("asked"),
        requests_answered: count("answered"),
        requests_lost: count("lost"),
        answered_twice: count("duplicates"),
        books_equal: books.equal,
        books_compared: books.positions,
        tree_epoch,
        live: status["fairness"].clone(),
        clock_references: clocks.references(),
        clock_readings: errors.len(),
        clock_error_ns: quantiles_of(&errors),
        clock_bound_ns: bounds,
        clock_beyond_bound: beyond,
        clock_bound_held: beyond == 0 && !errors.is_empty(),
        messages: delivery.messages,
        oml_arrival_ns: report_quantiles(&delivery.oml_arrival_ns),
        oml_release_ns: report_quantiles(&delivery.oml_release_ns),
        dws_ns: report_quantiles(&delivery.dws_ns),
        dws_floor_ns,
        p_fair: delivery.p_fair,
        fair_window_ns: seen.window_ns,
        p_on_time: delivery.p_on_time,
        round_trip_ns: Quantiles {
            p50: quantile("p50"),
            p99: quantile("p99"),
            max: quantile("max"),
            ..Quantiles::default()
        },
        faults,
        problems: books.problems,
    })
}

/// Participants trade from a host of their own, over all edges; what `fairbell load` says of it.
fn trade(args: &CloudArgs, site: &Site<'_>, time: Duration) -> Result<serde_json::Value, Failure> {
    let mut command = Command::new(std::env::current_exe().map_err(io)?);
    command.args(["load", "--protocol", "ouch", "--json", "--tls", "--server-name", "box"]);
    command.arg("--ca").arg(site.file.authority_path());
    for place in site.places(NodeRole::Edge) {
        let at = site.file.at(&site.file.nodes[place], Port::Ouch)?;
        command.arg("--address").arg(at.to_string());
    }
    let seconds = format!("{}ms", time.as_millis());
    command.args(["--login", "FLOW0{n}:flow", "--clients", "8", "--symbol", "BTCUSD"]);
    command.args(["--price", "78000", "--tick", "1", "--duration", &seconds]);
    command.args(["--rate", &args.rate.to_string(), "--seed", &args.seed.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = site.participants().spawn(&mut command).map_err(io)?;
    let output = child.wait_with_output().map_err(io)?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        Failure::Run(format!("the participants: {error}: {}", said.trim()))
    })
}

fn print(report: &Report) {
    let us = |ns: u64| ns as f64 / 1e3;
    println!(
        "profile {}, seed {}; relay: KS distance {:.4}, late by {:.1} us at p50, {:.1} at p99",
        report.profile,
        report.seed,
        report.relay_ks_distance,
        us(report.relay_lateness_ns.p50),
        us(report.relay_lateness_ns.p99)
    );
    for outcome in report.compared.iter().chain([&report.main]) {
        println!("\n{} ({} hosts)", outcome.name, outcome.hosts);
        println!(
            "  requests {}, answered {}, lost {}, answered twice {}; round trip {:.0} us p50, {:.0} p99",
            outcome.requests_sent,
            outcome.requests_answered,
            outcome.requests_lost,
            outcome.answered_twice,
            us(outcome.round_trip_ns.p50),
            us(outcome.round_trip_ns.p99)
        );
        println!(
            "  books equal: {} at {} positions; tree of epoch {}",
            outcome.books_equal, outcome.books_compared, outcome.tree_epoch
        );
        println!(
            "  clocks: {} references; error {:.1} us p50, {:.1} p99, {:.1} most; bound {:.1} p50; {} of {} \
             readings beyond their bound",
            outcome.clock_references,
            us(outcome.clock_error_ns.p50),
            us(outcome.clock_error_ns.p99),
            us(outcome.clock_error_ns.max),
            us(outcome.clock_bound_ns.p50),
            outcome.clock_beyond_bound,
            outcome.clock_readings
        );
        println!(
            "  delivery of {} messages, us p50 / p99: to the last arrival {:.0} / {:.0}, to the last \
             release {:.0} / {:.0}, window {:.0} / {:.0} (floor {:.0} / {:.0})",
            outcome.messages,
            us(outcome.oml_arrival_ns.p50),
            us(outcome.oml_arrival_ns.p99),
            us(outcome.oml_release_ns.p50),
            us(outcome.oml_release_ns.p99),
            us(outcome.dws_ns.p50),
            us(outcome.dws_ns.p99),
            us(outcome.dws_floor_ns.p50),
            us(outcome.dws_floor_ns.p99)
        );
        let live = |key: &str, at: &str| us(outcome.live[key][at].as_u64().unwrap_or(0));
        println!(
            "  live, last 10 s of {} sampled messages: to the last release {:.0} / {:.0}, window {:.0} / \
             {:.0}; fair: surely {:.1} %, perhaps {:.1} %; {} of {} orders out of turn, {} surely",
            outcome.live["messages"],
            live("oml_release_ns", "p50"),
            live("oml_release_ns", "p99"),
            live("dws_ns", "p50"),
            live("dws_ns", "p99"),
            100.0 * outcome.live["p_fair"][0].as_f64().unwrap_or(0.0),
            100.0 * outcome.live["p_fair"][1].as_f64().unwrap_or(0.0),
            outcome.live["orders"]["inverted"],
            outcome.live["orders"]["orders"],
            outcome.live["orders"]["surely_inverted"]
        );
        for (what, ms) in &outcome.faults {
            println!("  {what}: {ms} ms");
        }
        println!(
            "  fair (all within {:.1} us): {}; on time by their own clocks: {}",
            us(outcome.fair_window_ns),
            percent(outcome.p_fair),
            percent(outcome.p_on_time)
        );
    }
}

fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_string(), |part| format!("{:.2} %", 100.0 * part))
}
