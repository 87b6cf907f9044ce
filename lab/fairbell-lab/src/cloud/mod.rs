//! `fairbell-lab cloud`: a venue of many machines in a network in a box.
//!
//! Each machine is a process of `fairbell node` in a network namespace of its own, with a wrong clock
//! of its own; a relay delays every packet between them as a profile says. Participants trade, and
//! what came of it is judged by the truth, which only the box knows: requests by their answers, books
//! by a replay of the log, clocks and deliveries by CLOCK_MONOTONIC.

mod checks;
mod drill;
mod fairness;
mod faults;
mod floor;
mod folders;
mod measure;
mod participants;
mod plans;
mod prometheus;
mod provision;
mod scale;
mod service;
mod shards;
mod site;
mod snapshots;
mod soak;
mod strategies;
mod web_client;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use emulator::{Network, Profile, StartError};
use fairbell::options::duration;
use fairbell::report::Quantiles;
use fairbell::up::report_quantiles;
use host::failure::{Failure, on};
use host::sockets::io;
use net::Clock;
use net::plane::PlaneKind;
use serde::Serialize;
use telemetry::Recorder;
use types::Nanos;

use checks::{Checker, Checks, Window};
use drill::DrillArgs;
use faults::{Cast, Fault};
use measure::{Clocks, Early};
use participants::Participants;
use prometheus::{Prometheus, Watched};
use site::{Plan, Site};
use strategies::Played;
use web_client::WebOrders;

/// Options of `fairbell-lab cloud`.
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    fairbell-lab cloud                              25 hosts, three roots, three hops, 60 s\n  \
    fairbell-lab cloud --hosts 7 --depth 2 --duration 20s --profile clean\n  \
    fairbell-lab cloud --fault kill:leader@10s --fault rotate@20s --fault revoke:edge-2@30s
  \
    fairbell-lab cloud --prometheus /usr/bin/prometheus --fault kill:edge-1@10s+5s --alert FairbellDown
  \
    fairbell-lab cloud --strategy out/strategies/maker.wasm --strategy-settings lots=1000
  \
    fairbell-lab cloud --no-sync --duration 10s     control: clocks that nobody keeps\n  \
    fairbell-lab cloud --no-hold --duration 10s     control: nothing is held back\n\n\
    It needs root, network namespaces and /dev/net/tun, and leaves nothing behind; where they are\n\
    refused it says so and exits with 3."
)]
pub struct CloudArgs {
    /// Something else than one run
    #[command(subcommand)]
    pub what: Option<What>,
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
    /// Machines have IPv6 addresses (fd77::/64) and no others in the venue's file
    #[arg(long)]
    pub ipv6: bool,
    /// How overlay datagrams leave the machines, the first that can be had; several times for several
    #[arg(long = "data-plane", value_name = "NAME", default_value = "udp")]
    pub planes: Vec<PlaneKind>,
    /// Proxies and edges have duplicates dropped in front of their stacks
    #[arg(long)]
    pub duplicate_filter: bool,
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
    /// KIND of kill, pause, cut, cut-out, slow, step, restart, revoke, rotate, old-disk, replace, disk-full,
    /// zone-lost, lead, upgrade, interface-down, program-detached, xdp-taken, none, NODE also `leader` or `reference` (whose clock all follow), of a zone `zone-1` to `zone-3`, of `lead` also `next`
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<Fault>,
    /// The program that machines start with, for `upgrade`: scripts/old-binary builds one [default: this one]
    #[arg(long, value_name = "PROGRAM")]
    pub from: Option<PathBuf>,
    /// Have this Prometheus read every machine, the web door on the first edge among what there is to read: each
    /// query of the dashboards and alerts must have data
    #[arg(long, value_name = "PROGRAM")]
    pub prometheus: Option<PathBuf>,
    /// This alert must fire when the faults begin, and not before; again for further ones
    #[arg(long = "alert", value_name = "NAME", requires = "prometheus")]
    pub alerts: Vec<String>,
    /// Run this module as a strategy at the last edge; what it heard there must have it ask for the same once more
    #[arg(long, value_name = "MODULE", conflicts_with = "prometheus")]
    pub strategy: Option<PathBuf>,
    /// What the module is told at its start
    #[arg(long, value_name = "TEXT", default_value = "", requires = "strategy")]
    pub strategy_settings: String,
    /// Control: have something for this checker to find; again for further ones: lost, twice, books, gap
    #[arg(long = "control", value_name = "CHECKER", value_parser = checks::control, hide = true)]
    pub controls: Vec<Checker>,
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

/// What else can be done in a box.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// Each fault many times, and what it cost participants
    Drill(DrillArgs),
    /// Hours of trading with a fault every minute: nothing lost, memory flat
    Soak(soak::SoakArgs),
    /// Trees planned while participants trade, with slow machines and without
    Plan(plans::PlanArgs),
    /// Shards whose leaders die while participants trade on all of them
    Shards(shards::ShardsArgs),
    /// More hosts asked for than a venue needs, the best of them kept
    Provision(provision::ProvisionArgs),
    /// Edges that come and go with the load while participants trade
    Scale(scale::ScaleArgs),
    /// What makes the feed fairer, switched on and off by turns
    Fairness(fairness::FairnessArgs),
    /// Asks the process that has a box to start or stop a machine
    #[command(hide = true)]
    Machine(scale::MachineArgs),
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
    #[serde(flatten)]
    checks: Checks,
    clock_error_ns: Quantiles,
    clock_bound_ns: Quantiles,
    messages: u64,
    oml_arrival_ns: Quantiles,
    oml_release_ns: Quantiles,
    dws_ns: Quantiles,
    dws_floor_ns: Quantiles,
    p_fair: Option<f64>,
    fair_window_ns: u64,
    p_on_time: Option<f64>,
    round_trip_ns: Quantiles,
    #[serde(skip_serializing_if = "Option::is_none")]
    prometheus: Option<Watched>,
    #[serde(skip_serializing_if = "Option::is_none")]
    web_orders: Option<WebOrders>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<serde_json::Value>,
    /// What is wrong with that.
    #[serde(skip)]
    unwatched: Vec<String>,
}

impl Outcome {
    /// What is wrong with it.
    fn complaints(&self) -> Vec<String> {
        let complaints = self.checks.complaints().into_iter().map(|(_, what)| what);
        let complaints = complaints.chain(self.unwatched.iter().cloned());
        complaints.map(|what| format!("{}: {what}", self.name)).collect()
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
    match &args.what {
        Some(What::Drill(drill)) => drill::run(drill),
        Some(What::Soak(soak)) => soak::run(soak),
        Some(What::Plan(plan)) => plans::run(plan),
        Some(What::Shards(shards)) => shards::run(shards),
        Some(What::Provision(provision)) => provision::run(provision),
        Some(What::Scale(scale)) => scale::run(scale),
        Some(What::Fairness(fairness)) => fairness::run(fairness),
        Some(What::Machine(machine)) => scale::machine(machine),
        None => run_one(args),
    }
}

fn run_one(args: &CloudArgs) -> Result<(), Failure> {
    let profile = profile(&args.profile)?;
    let name = profile.name;
    // Without proxies nobody can take the place of one.
    let standby = if args.depth > 1 { args.standby } else { 0 };
    let hosts = args.hosts.saturating_sub(standby);
    let edges = edges(hosts, args.roots, (args.depth, args.fanout))?;
    let proxies = host::deployment::proxies(&tree(edges, (args.depth, args.fanout)));
    let counts = [("root", args.roots), ("proxy", proxies), ("edge", edges), ("standby", standby)];
    Cast { counts, trading: args.duration }.check(&args.faults)?;
    let disks = args.faults.iter().any(Fault::needs_disks);
    if disks {
        emulator::own_mounts().map_err(|error| Failure::Unavailable(error.to_string()))?;
    }
    let network = start(args.hosts, profile, args.seed)?;
    say(args, &format!("{} hosts joined by a relay, profile {name}; it is checked", args.hosts));
    let check = network.check(4_000).map_err(io)?;
    let segment_mib = if disks { SMALL_MIB } else { SEGMENT_MIB };
    let asymmetry_us = if args.faults.is_empty() { ASYMMETRY_US } else { STARTING_US };
    let shape = |name, depth, hedge| {
        let fanout = args.fanout;
        let standby = if depth > 1 { standby } else { 0 };
        Shape { name, depth, hedge, edges, fanout, standby, segment_mib, asymmetry_us }
    };
    let floor = quantiles_of(&floor::spreads(edges as usize, 500)?);
    let mut compared = Vec::new();
    if let Some(time) = args.compare {
        let ways =
            [("direct unicast", 1, 0), ("tree", args.depth, 0), ("hedged tree", args.depth, 1)];
        for (way, depth, hedge) in ways {
            compared.push(play(args, &network, &shape(way, depth, hedge), time, floor)?);
        }
    }
    let main = play(args, &network, &shape(MAIN, args.depth, 1), args.duration, floor)?;
    let report = Report {
        profile: name,
        seed: args.seed,
        relay_ks_distance: check.relay_distance,
        relay_lateness_ns: report_quantiles(&check.lateness),
        main,
        compared,
    };
    let mut complaints = report.main.complaints();
    complaints.extend(report.compared.iter().flat_map(Outcome::complaints));
    told(&report, args.json, print, &complaints)
}

/// Tells what came of a command, as one JSON document or printed for people.
///
/// # Errors
/// What it complains of.
fn told<R: Serialize>(
    report: &R,
    json: bool,
    print: impl FnOnce(&R),
    complaints: &[String],
) -> Result<(), Failure> {
    match json {
        true => {
            let text = serde_json::to_string_pretty(report);
            println!("{}", text.map_err(|error| Failure::Run(error.to_string()))?);
        }
        false => print(report),
    }
    match complaints.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(complaints.join("; "))),
    }
}

fn profile(name: &str) -> Result<Profile, Failure> {
    let known = Profile::named(name);
    known.ok_or_else(|| Failure::Usage(format!("--profile: one of {}", Profile::NAMES.join(", "))))
}

/// With more hosts a core than this the relay between them spins for [`SPIN_NS`] before a packet is due and no longer:
/// the core time that it takes then delays packets more than it is late without.
const HOSTS_PER_CORE: usize = 6;
/// Without it packets are 5 us late, 0.3 (Kolmogorov-Smirnov) from the model of `table1`.
const SPIN_NS: u64 = 5_000;

/// Hosts that are joined.
fn start(hosts: u32, profile: Profile, seed: u64) -> Result<Network, Failure> {
    let usual = emulator::Config::new(hosts as usize, profile);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let spin_ns = if hosts as usize > HOSTS_PER_CORE * cores { SPIN_NS } else { usual.spin_ns };
    let config = emulator::Config { seed, spin_ns, ..usual };
    Network::start(config).map_err(|error| match error {
        StartError::Config(_) => Failure::Usage(error.to_string()),
        StartError::Refused { .. } => Failure::Unavailable(error.to_string()),
    })
}

/// Segments of the roots' journals, and small ones that fill a disk's last room soon.
const SEGMENT_MIB: u32 = 8;
/// See [`SEGMENT_MIB`].
const SMALL_MIB: u32 = 2;
/// How much longer one way between two machines may take than the other, us: what their processes wait for
/// a core, for they share those of one machine.
const ASYMMETRY_US: u32 = 500;
/// The same where machines start while others trade: they wait for longer.
const STARTING_US: u32 = 2_000;
/// Name of the run that is judged and hurt; the others are compared.
const MAIN: &str = "main";

/// The tree of one run.
struct Shape {
    name: &'static str,
    depth: u32,
    hedge: u32,
    edges: u32,
    fanout: u32,
    standby: u32,
    segment_mib: u32,
    asymmetry_us: u32,
}

fn say(args: &CloudArgs, what: &str) {
    if !args.json {
        eprintln!("{what}");
    }
}

/// The tree to so many edges.
fn tree(edges: u32, (depth, fanout): (u32, u32)) -> host::config::Config {
    let mut config = host::config::Config::default();
    config.overlay.depth = depth;
    config.overlay.fanout = fanout;
    config.overlay.receivers = edges;
    config.overlay.hedge = 1;
    config
}

/// As many edges as the hosts leave room for.
fn edges(hosts: u32, roots: u32, shape: (u32, u32)) -> Result<u32, Failure> {
    let proxies = |edges| host::deployment::proxies(&tree(edges, shape));
    let fits = |edges: &u32| 1 + roots + proxies(*edges) + edges <= hosts;
    let most = (1..hosts).rev().find(fits);
    most.ok_or_else(|| Failure::Usage("--hosts: too few for one edge".to_string()))
}

/// The settings of the venue.
fn venue(shape: &Shape, clocks: &str, hold: bool) -> String {
    let Shape { depth, hedge, edges, fanout, segment_mib, asymmetry_us, .. } = shape;
    let standby = match shape.standby {
        0 => String::new(),
        count => format!("standby = {count}\nreplace_after_ms = 1000\n"),
    };
    format!(
        "[overlay]\ndepth = {depth}\nfanout = {fanout}\nreceivers = {edges}\nhedge = {hedge}\n{standby}\n\
         [hold]\nenabled = {hold}\nclock_bound_ns = 10000\n\n\
         [clock]\nsource = \"{clocks}\"\npure_us = 300\nneighbours = 4\nprobe_every_ms = 50\n\
         asymmetry_us = {asymmetry_us}\n\n\
         [engine]\nopen_orders_max = 20000\n\n[memory]\nrepair_mib = 16\n\n\
         [day]\nauctions = false\n\n[journal]\nsegment_mib = {segment_mib}\n"
    )
}

/// Settings in which Prometheus finds everything that there is to read.
fn with_metrics(settings: String, ipv6: bool) -> String {
    let at = if ipv6 { "[::]" } else { "0.0.0.0" };
    // Whoever follows the journal has to know that there is one.
    let journal = "[journal]\ndurability = \"replicated\"\n";
    settings.replacen("[journal]\n", journal, 1)
        + &format!(
            "\n[telemetry]\nlisten = \"{at}:{}\"\nrecords = \"files\"\n\n[store]\nfollow = true\n",
            prometheus::METRICS_PORT
        )
}

/// Settings in which datagrams leave the machines like that.
fn with_planes(settings: String, planes: &[PlaneKind], filter: bool) -> String {
    let names: Vec<&str> = planes.iter().map(|kind| kind.name()).collect();
    let more = format!("[overlay]\ndata_plane = {names:?}\nduplicate_filter = {filter}\n");
    settings.replacen("[overlay]\n", &more, 1)
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
    let faults = if shape.name == MAIN { &args.faults[..] } else { &[] };
    let watcher = args.prometheus.as_deref().filter(|_| shape.name == MAIN);
    let settings = venue(shape, if args.no_sync { "system" } else { "huygens" }, !args.no_hold);
    let settings = match watcher {
        Some(_) => with_metrics(settings, args.ipv6),
        None => settings,
    };
    let module = args.strategy.as_deref().filter(|_| shape.name == MAIN);
    let played = module.map(|module| Played::new(module, &args.strategy_settings, &dir));
    let played = played.transpose()?;
    let lines = played.as_ref().map(|played| played.lines(shape.edges));
    let settings = settings + &lines.unwrap_or_default();
    let own = std::env::current_exe().map_err(io)?;
    let plan = Plan {
        venue: with_planes(settings, &args.planes, args.duplicate_filter),
        web: watcher.is_some(),
        disks: faults.iter().any(Fault::needs_disks),
        snapshots: true,
        programs: [args.from.clone().unwrap_or_else(|| own.clone()), own],
        idle: 0,
        scale: Default::default(),
        hosts: Vec::new(),
        shards: 1,
        roots: args.roots as usize,
        offset_us: args.offset_us,
        drift_ppb: args.drift_ppb,
        seed: args.seed,
        ipv6: args.ipv6,
    };
    let mut site = Site::start(network, &plan, &dir)?;
    let nodes = site.file.nodes.len();
    say(args, &format!("{}: {nodes} machines are up; {} s of trading", shape.name, time.as_secs()));
    let folder = dir.join("prometheus");
    let reader = watcher.map(|program| Prometheus::start(&site, program, &folder)).transpose()?;
    let from = Clock::start(0).now().after(2 * Nanos::SECOND);
    site.keep_journals()?;
    let tamper = checks::tamper(&args.controls);
    let trading = Participants::start(&site, (args.rate, args.seed), time, tamper)?;
    let clock = trading.clock;
    let (clocks, (load, done, watched_by)) = watched(&site, || {
        trading.wait_for_trading()?;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looking = reader.as_ref().map(|reader| {
                let (site, over) = (&site, &over);
                let looking = scope.spawn(move || reader.watch((clock, &args.alerts[..]), over));
                (looking, scope.spawn(move || web_client::trade(site)))
            });
            let done = faults::play(&site, clock, faults);
            let load = done.and_then(|done| Ok((trading.wait()?, done)));
            over.store(true, Ordering::Relaxed);
            let panicked = || Failure::Run("who looked at Prometheus panicked".to_string());
            let watched_by = looking.map(|(looking, trading)| {
                let orders = trading.join().map_err(|_| panicked())??;
                Ok::<_, Failure>((looking.join().map_err(|_| panicked())??, orders))
            });
            let (load, done) = load?;
            Ok((load, done, watched_by.transpose()?))
        })
    })?;
    drop(reader);
    let ends = (&done[..], clock.now());
    let mut checks = Checks::of(&mut site, (&load, &clocks), ends, &args.controls)?;
    let first_fault = done.first().map(|struck| struck.at);
    let mut unwatched = Vec::new();
    if let Some((seen, orders)) = &watched_by {
        unwatched = seen.complaints(&args.alerts, first_fault);
        checks.told.accepted += orders.accepted;
        checks.told.rejected += orders.rejected;
        let lacking = orders.unanswered;
        unwatched
            .extend((lacking > 0).then(|| format!("web door: {lacking} orders have no answer")));
    }
    let (prometheus, web_orders) = watched_by.unzip();
    let again = played.map(|played| played.again(&site, &checks.strategies)).transpose()?;
    let strategy = again.map(|(told, complaint)| {
        unwatched.extend(complaint);
        told
    });
    let errors = clocks.errors();
    let bounds = quantiles_of(&clocks.bounds());
    let window_ns = Nanos::MICRO + 2 * bounds.p50;
    let seen = measure::deliveries(&site, &clocks, from, window_ns)?;
    let delivery = &seen.delivery;
    Ok(Outcome {
        name: shape.name,
        hosts: nodes + 1,
        checks,
        clock_error_ns: quantiles_of(&errors),
        clock_bound_ns: bounds,
        messages: delivery.messages,
        oml_arrival_ns: report_quantiles(&delivery.oml_arrival_ns),
        oml_release_ns: report_quantiles(&delivery.oml_release_ns),
        dws_ns: report_quantiles(&delivery.dws_ns),
        dws_floor_ns,
        p_fair: delivery.p_fair,
        fair_window_ns: seen.window_ns,
        p_on_time: delivery.p_on_time,
        round_trip_ns: report_quantiles(&load.timings().all().summary()),
        prometheus,
        web_orders,
        strategy,
        unwatched,
    })
}

/// Does something while the clocks of a site are looked at, and for a second after it.
fn watched<T: Send>(
    site: &Site<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<(Clocks, T), Failure> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| Clocks::watch(site, &stop));
        let done = work();
        std::thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
        let clocks =
            watching.join().map_err(|_| Failure::Run("who looked at clocks panicked".into()));
        Ok((clocks?, done?))
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
            outcome.checks.requests_sent,
            outcome.checks.requests_answered,
            outcome.checks.requests_lost,
            outcome.checks.answered_twice,
            us(outcome.round_trip_ns.p50),
            us(outcome.round_trip_ns.p99)
        );
        println!(
            "  books equal: {} at {} positions; tree of epoch {}",
            outcome.checks.books_equal, outcome.checks.books_compared, outcome.checks.tree_epoch
        );
        println!(
            "  clocks: {} references; error {:.1} us p50, {:.1} p99, {:.1} most; bound {:.1} p50; {} of {} \
             readings beyond their bound",
            outcome.checks.clock_references,
            us(outcome.clock_error_ns.p50),
            us(outcome.clock_error_ns.p99),
            us(outcome.clock_error_ns.max),
            us(outcome.clock_bound_ns.p50),
            outcome.checks.clock_beyond_bound,
            outcome.checks.clock_readings
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
        let live = &outcome.checks.live;
        let of = |key: &str, at: &str| us(live[key][at].as_u64().unwrap_or(0));
        println!(
            "  live, last 10 s of {} sampled messages: to the last release {:.0} / {:.0}, window {:.0} / \
             {:.0}; fair: surely {:.1} %, perhaps {:.1} %; {} of {} orders out of turn, {} surely",
            live["messages"],
            of("oml_release_ns", "p50"),
            of("oml_release_ns", "p99"),
            of("dws_ns", "p50"),
            of("dws_ns", "p99"),
            100.0 * live["p_fair"][0].as_f64().unwrap_or(0.0),
            100.0 * live["p_fair"][1].as_f64().unwrap_or(0.0),
            live["orders"]["inverted"],
            live["orders"]["orders"],
            live["orders"]["surely_inverted"]
        );
        let Early { releases, early, .. } = outcome.checks.releases;
        println!("  {early} of {releases} releases before their time");
        for Window { fault, took_ms, service, .. } in &outcome.checks.faults {
            let ms = |ns: u64| ns / Nanos::MILLI;
            println!(
                "  {fault}: over after {took_ms} ms; service again after {} ms, longest wait {} ms; {} sessions \
                 ended, on again after {} ms at most",
                service.to_serve_ns.map_or_else(|| "-".to_string(), |ns| ms(ns).to_string()),
                ms(service.longest_wait_ns),
                service.reconnects_ns.len(),
                service.reconnects_ns.iter().flatten().max().map_or(0, |ns| ms(*ns))
            );
        }
        if let Some(of) = &outcome.strategy {
            println!(
                "  strategy: {} messages heard, {} of {} requests the same once more; {} orders in the log",
                of["messages"], of["equal"], of["recorded"], outcome.checks.strategies.accepted
            );
        }
        if let Some(seen) = &outcome.prometheus {
            let with = seen.queries - seen.without_data.len() - seen.refused.len();
            println!(
                "  Prometheus read {} machines; {with} of {} queries have data",
                seen.machines, seen.queries
            );
            for one in &seen.alerts {
                println!("  alert {} {} after {} ms", one.alert, one.machine, one.after_ms);
            }
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
