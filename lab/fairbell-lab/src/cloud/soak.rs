//! `fairbell-lab cloud soak`: a venue that trades for hours while something is done to a machine every minute, and
//! whose memory has to stay flat.
//!
//! Machines of the first zone and all roots keep their processes: they are cut off, stopped for a while, slowed, and leaders
//! change, but they are not restarted, so that what they keep in memory shows. All other machines are killed and
//! restarted, too. The sizes of the processes that lived from the start to the end are judged ([`crate::flat`]); of the others the last
//! size is told. Requests, books, clocks and releases are judged as in every box.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use fairbell::options::duration;
use fairbell::report::Quantiles;
use fairbell::up::report_quantiles;
use host::failure::{Failure, on};
use host::fleet::file::NodeRole;
use host::sockets::io;
use serde::Serialize;

use super::checks::{Checker, Checks, tamper};
use super::faults::{self, Fault, Kind};
use super::participants::Participants;
use super::site::{Plan, Site, ZONES};
use super::snapshots::{self, Served};
use super::{MAIN, SEGMENT_MIB, STARTING_US, Shape, edges, start, told, venue, watched};
use crate::flat::{self, Judged, Series};
use crate::resident::resident_of;

/// Options of `fairbell-lab cloud soak`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab cloud soak                                  4 hours, a fault every minute, 500 requests/s\n  \
    fairbell-lab cloud soak --for 15m --warm-up 5m --json\n  \
    fairbell-lab cloud soak --for 3m --warm-up 1m --every 20s --control leak    must be found not flat\n  \
    fairbell-lab cloud soak --for 2m --warm-up 30s --every 20s --control lost   must be found to have lost one\n\n\
    Ctrl-C or SIGTERM ends it early: what was played until then is judged and printed.\n\n\
    Exit code 1 when memory was not flat within 2 %, a request has no answer or two, books differ, or another\n\
    checker of the box found something. It needs what `fairbell-lab cloud` needs.")]
pub struct SoakArgs {
    /// Length of the trading
    #[arg(long = "for", value_name = "TIME", default_value = "4h", value_parser = duration)]
    time: Duration,
    /// Of it, what is not judged: what is bounded fills
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = duration)]
    warm_up: Duration,
    /// From the beginning of a fault to the next one
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    every: Duration,
    /// Between two looks at the sizes of all processes
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    look_every: Duration,
    /// Requests per second, all participants together
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(10..=100_000))]
    rate: u64,
    /// Hosts, the participants' among them
    #[arg(long, value_name = "N", default_value_t = 9,
          value_parser = clap::value_parser!(u32).range(8..=64))]
    hosts: u32,
    /// What the paths are like
    #[arg(long, value_name = "NAME", default_value = "table1")]
    profile: String,
    /// Fixes the draws of delays, offsets and requests
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Have something to find: the sizes of a process grow by 64 KiB at each look, or an answer is kept from its
    /// participant
    #[arg(long, value_name = "NAME")]
    control: Option<Control>,
    /// Folder of the machines' files; what was there is removed
    #[arg(long, value_name = "DIR", default_value = "out/cloud-soak")]
    out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What a control has the judges find.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// What is judged grows
    Leak,
    /// An answer is lost
    Lost,
}

/// What a control's process grows by at each look, bytes.
const LEAK: u64 = 64 << 10;
/// How long a fault lasts.
const LASTS: Duration = Duration::from_secs(1);
/// Longest wait for everybody after one.
const ALL_MAX: Duration = Duration::from_secs(60);
/// How far clocks are off, us, and how fast they go, ppb, at most.
const WRONG: (u64, u64) = (10_000, 50_000);
/// Inputs and reports that a root keeps in memory: filled in the warm-up. Memory is locked where that is allowed:
/// what was asked for at the start and is written to hours later does not look like growth. Roots have the feed of some minutes, so that an
/// edge that starts again has the older part of its books of another one's snapshot.
const KEPT: &str = "[memory]\ninputs = 65536\nreports = 65536\nrepair_mib = 2\n";

/// Faults of machines that keep their processes.
const LIVING: [Kind; 5] = [Kind::Cut, Kind::Pause, Kind::Slow, Kind::CutOut, Kind::InterfaceDown];
/// Faults of the others, between those.
const DEADLY: [Kind; 2] = [Kind::Kill, Kind::Restart];

/// Which fault is the n-th, and whose: machines that live, leaders and keys, machines that die, by turns.
fn nth(n: usize, living: &[String], mortal: &[String]) -> Fault {
    let of = |names: &[String], turn: usize| names[turn % names.len().max(1)].clone();
    let turn = n / 4;
    let (kind, target) = match n % 4 {
        0 => (LIVING[turn % LIVING.len()], of(living, turn)),
        1 if turn % 5 == 4 => (Kind::Rotate, String::new()),
        1 => (Kind::Lead, "next".to_string()),
        2 if !mortal.is_empty() => (DEADLY[turn % DEADLY.len()], of(mortal, turn)),
        _ if !mortal.is_empty() => (LIVING[turn % LIVING.len()], of(mortal, turn)),
        _ => (LIVING[n % LIVING.len()], of(living, n)),
    };
    Fault::now(kind, &target, LASTS)
}

/// A process and the sizes it had.
#[derive(Default)]
struct Process {
    number: u32,
    series: Series,
}

/// All processes of a site, each with its sizes.
#[derive(Default)]
struct Sizes {
    /// By place, one after another.
    lives: Vec<Vec<Process>>,
}

impl Sizes {
    fn look(&mut self, at: f64, place: usize, name: &str, number: Option<u32>, bytes: Option<u64>) {
        let (Some(number), Some(bytes)) = (number, bytes) else { return };
        if self.lives.len() <= place {
            self.lives.resize_with(place + 1, Vec::new);
        }
        let of = &mut self.lives[place];
        if of.last().is_none_or(|last| last.number != number) {
            let series = Series { name: name.to_string(), samples: Vec::new() };
            of.push(Process { number, series });
        }
        if let Some(last) = of.last_mut() {
            last.series.samples.push((at, bytes));
        }
    }

    /// What is said of the processes that lived all the time.
    fn judged(&self, warm_up_s: f64) -> Vec<Judged> {
        let whole = self.lives.iter().filter(|of| of.len() == 1).flatten();
        whole.map(|process| flat::judge(&process.series, warm_up_s)).collect()
    }

    fn mortals(&self) -> Vec<Mortal> {
        let more = self.lives.iter().filter(|of| of.len() > 1);
        let last = |of: &Process| of.series.samples.last().map_or(0, |(_, bytes)| *bytes);
        more.map(|of| Mortal {
            name: of.first().map_or(String::new(), |one| one.series.name.clone()),
            lives: of.len(),
            first_bytes: of.first().map_or(0, last),
            last_bytes: of.last().map_or(0, last),
        })
        .collect()
    }
}

/// A machine that was started again.
#[derive(Serialize, Clone, Debug)]
struct Mortal {
    name: String,
    lives: usize,
    /// At the end of its first life, bytes.
    first_bytes: u64,
    /// At the end, bytes.
    last_bytes: u64,
}

/// What the command prints.
#[derive(Serialize, Clone, Debug)]
struct Report {
    profile: String,
    hosts: u32,
    rate_per_s: u64,
    seed: u64,
    seconds: f64,
    warm_up_s: f64,
    faults_struck: usize,
    /// Each kind with how often it was.
    kinds: Vec<(&'static str, usize)>,
    band_percent: f64,
    /// Processes that lived all the time.
    memory: Vec<Judged>,
    restarted: Vec<Mortal>,
    /// What each snapshot server served at the end.
    snapshots: Vec<Served>,
    flat: bool,
    round_trip_ns: Quantiles,
    longest_wait_ns: Quantiles,
    #[serde(flatten)]
    checks: Checks,
    complaints: Vec<String>,
}

/// Has a venue trade, and judges it.
///
/// # Errors
/// [`Failure::Unavailable`] where there can be no box; what was found.
pub fn run(args: &SoakArgs) -> Result<(), Failure> {
    if args.warm_up >= args.time || args.every < LASTS * 2 || args.look_every.is_zero() {
        let why =
            "--warm-up ends before --for does, --every is 2s or more, and --look-every above 0";
        return Err(Failure::Usage(why.to_string()));
    }
    let network = start(args.hosts, super::profile(&args.profile)?, args.seed)?;
    if args.out.exists() {
        std::fs::remove_dir_all(&args.out).map_err(|error| on(&args.out, error))?;
    }
    let report = play(args, &network)?;
    told(&report, args.json, print, &report.complaints)?;
    // What failed can be looked at.
    std::fs::remove_dir_all(&args.out).map_err(|error| on(&args.out, error))
}

fn plan(args: &SoakArgs) -> Result<Plan, Failure> {
    let shape = Shape {
        name: MAIN,
        depth: 2,
        hedge: 1,
        edges: edges(args.hosts, ZONES as u32, (2, 3))?,
        fanout: 3,
        standby: 0,
        segment_mib: SEGMENT_MIB,
        asymmetry_us: STARTING_US,
    };
    let settings = venue(&shape, "huygens", true);
    // What this process may, those of the machines may, too.
    let locks = host::limits::lock_memory()
        .inspect_err(|why| eprintln!("what is written to first can look like growth: {why}"))
        .is_ok();
    let own = std::env::current_exe().map_err(io)?;
    Ok(Plan {
        venue: settings.replacen(
            "[memory]\nrepair_mib = 16\n",
            &format!("{KEPT}lock = {locks}\n"),
            1,
        ),
        shards: 1,
        roots: ZONES,
        offset_us: WRONG.0,
        drift_ppb: WRONG.1,
        seed: args.seed,
        ipv6: false,
        web: false,
        disks: false,
        snapshots: true,
        idle: 0,
        scale: Default::default(),
        hosts: Vec::new(),
        programs: [own.clone(), own],
    })
}

/// Names of the machines that keep their processes, and of the others.
fn parted(site: &Site<'_>) -> (Vec<String>, Vec<String>) {
    let zone = site.zone("zone-1");
    let roots = site.places(NodeRole::Root);
    let lives = |place: &usize| roots.contains(place) || zone.contains(place);
    let (living, mortal): (Vec<usize>, Vec<usize>) = (0..site.file.nodes.len()).partition(lives);
    let names = |places: Vec<usize>| {
        places.into_iter().map(|place| site.file.nodes[place].name.clone()).collect()
    };
    (names(living), names(mortal))
}

fn play(args: &SoakArgs, network: &emulator::Network) -> Result<Report, Failure> {
    let mut site = Site::start(network, &plan(args)?, &args.out)?;
    let (living, mortal) = parted(&site);
    let controls: Vec<Checker> =
        (args.control == Some(Control::Lost)).then_some(Checker::Lost).into_iter().collect();
    // Trading ends when it is told to.
    let longest = args.time + Duration::from_secs(600);
    let trading = Participants::start(&site, (args.rate, args.seed), longest, tamper(&controls))?;
    let stop = fairbell::options::interrupted()?;
    let (clock, sizes) = (trading.clock, Mutex::new(Sizes::default()));
    let locked = || sizes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (mut seconds, mut served) = (0.0, Vec::new());
    let (clocks, (load, struck)) = watched(&site, || {
        trading.wait_for_trading()?;
        let begun = Instant::now();
        let over = AtomicBool::new(false);
        let struck = std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let at = begun.elapsed().as_secs_f64();
                    for (place, node) in site.file.nodes.iter().enumerate() {
                        let number = site.process(place);
                        let bytes = number.and_then(|number| resident_of(&number.to_string()));
                        locked().look(at, place, &node.name, number, bytes);
                    }
                    std::thread::sleep(args.look_every);
                }
            });
            let struck = strike(args, &site, (clock, begun, &stop), (&living, &mortal));
            over.store(true, Ordering::Relaxed);
            let looked = looking.join();
            looked.map_err(|_| Failure::Run("who looked at memory panicked".to_string()))?;
            struck
        })?;
        seconds = begun.elapsed().as_secs_f64();
        let load = trading.end()?;
        served = snapshots::served(&site)?;
        Ok((load, struck))
    })?;
    let checks = Checks::of(&mut site, (&load, &clocks), (&struck, clock.now()), &controls)?;
    drop(site);
    let warm_up_s = args.warm_up.as_secs_f64();
    let mut sizes = sizes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if args.control == Some(Control::Leak) {
        leak(&mut sizes);
    }
    let memory = sizes.judged(warm_up_s);
    let flat = !memory.is_empty() && memory.iter().all(|of| of.flat);
    let mut complaints: Vec<String> =
        checks.complaints().into_iter().map(|(_, what)| what).collect();
    complaints.extend(memory.iter().filter_map(Judged::complaint));
    let behind = snapshots::behind(&served).map(|of| &of.name);
    complaints.extend(behind.map(|name| format!("snapshots: {name} serves old books or none")));
    if memory.is_empty() {
        complaints.push("memory: no process lived from the start to the end".to_string());
    }
    let waits = checks.faults.iter().map(|window| window.service.longest_wait_ns);
    let longest_wait_ns = super::quantiles_of(&waits.collect::<Vec<_>>());
    let of = |kind: Kind| struck.iter().filter(|one| one.fault.kind() == kind).count();
    let kinds = faults::KINDS.iter().map(|(name, kind)| (*name, of(*kind)));
    Ok(Report {
        profile: args.profile.clone(),
        hosts: args.hosts,
        rate_per_s: args.rate,
        seed: args.seed,
        seconds,
        warm_up_s,
        faults_struck: struck.len(),
        kinds: kinds.filter(|(_, count)| *count > 0).collect(),
        band_percent: flat::BAND,
        memory,
        restarted: sizes.mortals(),
        snapshots: served,
        flat,
        round_trip_ns: report_quantiles(&load.timings().all().summary()),
        longest_wait_ns,
        checks,
        complaints,
    })
}

/// A fault at each of its times, until the end or until it is interrupted.
fn strike(
    args: &SoakArgs,
    site: &Site<'_>,
    (clock, begun, stop): (net::Clock, Instant, &AtomicBool),
    (living, mortal): (&[String], &[String]),
) -> Result<Vec<faults::Struck>, Failure> {
    let mut struck = Vec::new();
    for (n, due) in (0..).map(|n: u32| (n as usize, args.every * (n + 1))) {
        // The last one is over before the end.
        if due + args.every > args.time {
            break;
        }
        if !waited(due, begun, stop) {
            return Ok(struck);
        }
        let fault = nth(n, living, mortal);
        let one = faults::strike(site, clock, &fault)?;
        site.wait_all(ALL_MAX)?;
        eprintln!(
            "{:>6.0} s: {fault}, over after {} ms",
            begun.elapsed().as_secs_f64(),
            one.took_ms
        );
        struck.push(one);
    }
    waited(args.time, begun, stop);
    Ok(struck)
}

/// Waits until so long after the beginning; `false`: it was interrupted.
fn waited(due: Duration, begun: Instant, stop: &AtomicBool) -> bool {
    while begun.elapsed() < due && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(due.saturating_sub(begun.elapsed()).min(Duration::from_millis(100)));
    }
    !stop.load(Ordering::Relaxed)
}

/// The control: what the first process is judged by grows at each look.
fn leak(sizes: &mut Sizes) {
    let first = sizes.lives.iter_mut().find(|of| of.len() == 1).and_then(|of| of.first_mut());
    let samples = first.map(|of| &mut of.series.samples).into_iter().flatten();
    samples.zip(0..).for_each(|((_, bytes), number): (_, u64)| *bytes += LEAK * number);
}

fn print(report: &Report) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let Report { seconds, rate_per_s, faults_struck, checks, .. } = report;
    println!(
        "{seconds:.0} s of trading at {rate_per_s}/s, {faults_struck} faults: {}",
        report.kinds.iter().map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(", ")
    );
    println!(
        "  requests {}, answered {}, lost {}, answered twice {}; books equal: {} at {} positions",
        checks.requests_sent,
        checks.requests_answered,
        checks.requests_lost,
        checks.answered_twice,
        checks.books_equal,
        checks.books_compared
    );
    let ms = |ns: u64| ns as f64 / 1e6;
    println!(
        "  round trip {:.1} ms p50, {:.1} p99; longest wait after a fault {:.0} ms p50, {:.0} at most",
        ms(report.round_trip_ns.p50),
        ms(report.round_trip_ns.p99),
        ms(report.longest_wait_ns.p50),
        ms(report.longest_wait_ns.max)
    );
    println!(
        "  {:<12} {:>12} {:>12} {:>9} {:>9}  judged over",
        "memory, MiB", "first window", "last window", "change", "slope"
    );
    for of in &report.memory {
        println!(
            "  {:<12} {:>12.2} {:>12.2} {:>+8.2}% {:>+8.2}%  {:.0} s{}",
            of.name,
            mib(of.first_bytes),
            mib(of.last_bytes),
            of.change_percent,
            of.slope_percent,
            of.judged_s,
            if of.flat { "" } else { ", NOT flat" }
        );
    }
    for of in &report.restarted {
        println!(
            "  {:<12} {:>12.2} {:>12.2}   {} lives, at the end of the first and of the last",
            of.name,
            mib(of.first_bytes),
            mib(of.last_bytes),
            of.lives
        );
    }
    for of in &report.snapshots {
        println!("  {:<12} serves snapshots up to message {}", of.name, of.next);
    }
    let verdict = if report.complaints.is_empty() { "holds" } else { "DOES NOT HOLD" };
    println!("  flat within {} %: {}; {verdict}", report.band_percent, report.flat);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_in_turn_and_nobody_who_is_to_live_is_killed() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
        let (living, mortal) = (names(&["root-1", "edge-1"]), names(&["edge-2", "proxy-2"]));
        let all: Vec<Fault> = (0..240).map(|n| nth(n, &living, &mortal)).collect();
        let deadly = |of: &&Fault| DEADLY.contains(&of.kind());
        assert!(all.iter().filter(deadly).all(|of| mortal.iter().any(|name| name == of.target())));
        for kind in LIVING.iter().chain(&DEADLY).chain(&[Kind::Lead, Kind::Rotate]) {
            assert!(all.iter().filter(|of| of.kind() == *kind).count() >= 10, "{}", kind.name());
        }
        for name in living.iter().chain(&mortal) {
            assert!(all.iter().filter(|of| of.target() == name).count() >= 20, "{name}");
        }
        // Without anybody to kill there are faults all the same.
        assert!((0..40).map(|n| nth(n, &living, &[])).all(|of| !DEADLY.contains(&of.kind())));
    }

    #[test]
    fn who_lived_all_the_time_is_judged_and_a_leak_is_found() {
        let mut sizes = Sizes::default();
        for at in 0..200 {
            let life = 7 + at / 100;
            sizes.look(f64::from(at), 0, "root-1", Some(5), Some(50_000_000));
            sizes.look(f64::from(at), 1, "edge-2", Some(life), Some(30_000_000 + u64::from(at)));
            // Between two lives there is nothing to see.
            sizes.look(f64::from(at), 1, "edge-2", None, None);
        }
        let judged = sizes.judged(50.0);
        assert_eq!(judged.len(), 1);
        assert!(judged[0].flat && judged[0].name == "root-1", "{judged:?}");
        let mortals = sizes.mortals();
        assert_eq!((mortals[0].lives, mortals[0].last_bytes), (2, 30_000_199));
        leak(&mut sizes);
        assert!(!sizes.judged(50.0)[0].flat, "a control");
    }
}
