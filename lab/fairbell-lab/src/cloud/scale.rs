//! `fairbell-lab cloud scale`: edges come and go with the load while participants trade.
//!
//! The replica that leads decides, by `[scale]` of the cluster file; machines are started and stopped by a
//! program of the operator's (`fairbell-lab cloud machine`), which asks this process. Half of the participants
//! trade all the time, the others for the time of the peak. Participants who lose their session go to the least loaded
//! edges that the venue names.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use fairbell::options::duration;
use fairbell::report::Quantiles;
use host::failure::{Failure, on};
use host::fleet::file::NodeRole;
use host::fleet::messages::Operation;
use host::fleet::scale::ScaleSettings;
use host::sockets::io;
use participant::load::{Load, LoadCounts, Seen};
use serde::Serialize;
use types::Nanos;

use super::checks::RECONNECT_NS;
use super::measure;
use super::participants::{COUNT, Flow, Participants, Tamper};
use super::service::Notes;
use super::site::{Plan, Site};
use super::{MAIN, SEGMENT_MIB, STARTING_US, Shape, quantiles_of, start, told, venue};
use crate::drill::Told;

/// Options of `fairbell-lab cloud scale`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab cloud scale                                     500, 5,000 and 500 requests/s on 2 to 8 edges\n  \
    fairbell-lab cloud scale --low 100 --high 800 --up-at 250 --down-at 150 --most 4 --peak 15s\n  \
    fairbell-lab cloud scale --control stuck --peak 12s          control: no machine comes\n\n\
    Exit code 1 when a request was lost or answered twice, books differ, a session was not served again within\n\
    a second, or edges did not come and go. It needs what `fairbell-lab cloud` needs.")]
pub struct ScaleArgs {
    /// Requests per second before and after the peak
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(10..=50_000))]
    low: u64,
    /// Requests per second in the peak
    #[arg(long, value_name = "N", default_value_t = 5_000,
          value_parser = clap::value_parser!(u64).range(20..=100_000))]
    high: u64,
    /// Length of the peak
    #[arg(long, value_name = "TIME", default_value = "45s", value_parser = duration)]
    peak: Duration,
    /// Edges at least
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u16).range(1..=16))]
    least: u16,
    /// Edges at most
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(2..=16))]
    most: u16,
    /// Requests per second of an edge above which edges are added
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    up_at: u64,
    /// Requests per second of the others below which an edge goes
    #[arg(long, value_name = "N", default_value_t = 600)]
    down_at: u64,
    /// How long the load has to be like that
    #[arg(long, value_name = "TIME", default_value = "2s")]
    after: String,
    /// From one change to the next
    #[arg(long, value_name = "TIME", default_value = "4s")]
    cool_down: String,
    /// Replicas of the root: 1, 3 or 5
    #[arg(long, value_name = "N", default_value_t = 3)]
    roots: u32,
    /// What the paths are like
    #[arg(long, value_name = "NAME", default_value = "clean")]
    profile: String,
    /// Fixes the draws of delays, offsets and requests
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Control: have something to find: stuck (no machine comes), lost (an answer is kept back)
    #[arg(long, value_name = "WHAT", value_parser = ["stuck", "lost"], hide = true)]
    control: Option<String>,
    /// Folder of the machines' files; what was there is removed
    #[arg(long, value_name = "DIR", default_value = "out/cloud-scale")]
    out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Options of `fairbell-lab cloud machine`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab cloud machine box.sock start edge-3    as [scale] command of a box runs it")]
pub struct MachineArgs {
    /// Socket of the process that has the box
    socket: PathBuf,
    /// start or stop
    #[arg(value_parser = ["start", "stop"])]
    what: String,
    /// Name of a node
    node: String,
}

/// Longest wait for logins and answers beside the trading.
const LOGINS: Duration = Duration::from_secs(60);
/// Trading before the peak.
const WARM: Duration = Duration::from_secs(4);
/// Longest wait, beyond the cool-down of each, until all edges that are not needed have gone.
const GONE_MAX: Duration = Duration::from_secs(30);
/// Between two looks at edges and load.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How many edges there were at a time.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
struct Sample {
    at_ms: u64,
    edges: u64,
    requests_per_s: u64,
}

/// What the command prints.
#[derive(Serialize, Clone, Default, Debug)]
struct Report {
    profile: String,
    seed: u64,
    machines: usize,
    low_per_s: u64,
    high_per_s: u64,
    least: u16,
    most: u16,
    /// Edges before the peak, at most in it, and at the end.
    edges_before: u64,
    edges_in_peak: u64,
    edges_after: u64,
    /// What the program was asked for, in order.
    started: Vec<String>,
    stopped: Vec<String>,
    requests_sent: u64,
    requests_answered: u64,
    requests_lost: u64,
    answered_twice: u64,
    told: Told,
    logged: Told,
    books_equal: bool,
    books_compared: u64,
    /// Sessions that ended because their edge left or had more than its share, and were on again.
    sessions_moved: usize,
    /// Until a session was on again.
    reconnect_ns: Quantiles,
    /// Until its participant had a normal answer again.
    served_ns: Quantiles,
    /// Sessions that were not served again within a second, or not at all.
    sessions_late: usize,
    samples: Vec<Sample>,
    complaints: Vec<String>,
}

/// What came of the trading.
struct Traded {
    loads: Vec<Load>,
    samples: Vec<Sample>,
    /// When the peak began and ended, ms.
    peak: (u64, u64),
}

/// What the program has done.
#[derive(Default)]
struct Asked {
    started: Vec<String>,
    stopped: Vec<String>,
}

/// Runs the box.
///
/// # Errors
/// [`Failure::Unavailable`] where it can't be made; what went wrong in it.
pub fn run(args: &ScaleArgs) -> Result<(), Failure> {
    if args.least >= args.most || args.low >= args.high {
        let why = "--least below --most and --low below --high: else nothing comes or goes";
        return Err(Failure::Usage(why.to_string()));
    }
    let profile = super::profile(&args.profile)?;
    let shape = Shape {
        name: MAIN,
        depth: 2,
        hedge: 1,
        edges: args.most.into(),
        fanout: args.most.into(),
        standby: 0,
        segment_mib: SEGMENT_MIB,
        asymmetry_us: STARTING_US,
    };
    // Few participants stand for many: none is refused for its rate, which no log would say.
    let settings =
        venue(&shape, "huygens", true) + "\n[gateway]\norders_per_s = 0\norders_burst = 0\n";
    let proxies = {
        let read =
            host::config::Loaded::text("box", &settings).and_then(host::config::Loaded::finish)?;
        host::deployment::proxies(&read)
    };
    let hosts = args.roots + proxies + u32::from(args.most) + 1;
    let network = start(hosts, profile, args.seed)?;
    if args.out.exists() {
        std::fs::remove_dir_all(&args.out).map_err(|error| on(&args.out, error))?;
    }
    let own = std::env::current_exe().map_err(io)?;
    let socket = std::env::temp_dir().join(format!("fairbell-box-{}.sock", std::process::id()));
    let words = [&own.to_string_lossy()[..], "cloud", "machine", &socket.to_string_lossy()];
    let plan = Plan {
        venue: settings,
        roots: args.roots as usize,
        shards: 1,
        offset_us: 10_000,
        drift_ppb: 50_000,
        seed: args.seed,
        ipv6: false,
        web: false,
        disks: false,
        snapshots: true,
        programs: [own.clone(), own.clone()],
        idle: usize::from(args.most - args.least),
        hosts: Vec::new(),
        scale: ScaleSettings {
            by: "command".to_string(),
            least: args.least,
            most: args.most,
            up_at: args.up_at,
            down_at: args.down_at,
            after: args.after.clone(),
            cool_down: args.cool_down.clone(),
            command: words.map(String::from).to_vec(),
            ..ScaleSettings::default()
        },
    };
    let mut site = Site::start(&network, &plan, &args.out)?;
    let machines = site.file.nodes.len();
    let least = args.least;
    if !args.json {
        eprintln!("{} of {machines} machines are up, {least} edges", machines - plan.idle);
    }
    let stuck = args.control.as_deref() == Some("stuck");
    let (asked, stop) = (Mutex::new(Asked::default()), AtomicBool::new(false));
    let Traded { loads, samples, peak } = std::thread::scope(|scope| {
        let (site, asked, stop) = (&site, &asked, &stop);
        let socket = &socket;
        let door = UnixListener::bind(socket).map_err(|error| on(socket, error))?;
        door.set_nonblocking(true).map_err(io)?;
        scope.spawn(move || serve(&door, site, asked, stuck, stop));
        let traded = trade(args, site);
        stop.store(true, Ordering::Relaxed);
        traded
    })
    .inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
    let _ = std::fs::remove_file(&socket);
    let asked = asked.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut report = Report {
        profile: args.profile.clone(),
        seed: args.seed,
        machines,
        low_per_s: args.low,
        high_per_s: args.high,
        least: args.least,
        most: args.most,
        started: asked.started,
        stopped: asked.stopped,
        ..Report::default()
    };
    report.count(&samples, peak);
    report.judge(&mut site, &loads)?;
    drop(site);
    report.complaints = complaints(&report);
    told(&report, args.json, print, &report.complaints)
}

/// Trades at the low rate, at the high one, and at the low one until edges have gone; the loads, and how many edges
/// there were, with when the peak began and ended.
fn trade(args: &ScaleArgs, site: &Site<'_>) -> Result<Traded, Failure> {
    let flow = |numbers: std::ops::RangeInclusive<u32>| Flow {
        numbers: numbers.collect(),
        ..Flow::default()
    };
    let (base, surge) = (flow(1..=COUNT / 2), flow(COUNT / 2 + 1..=COUNT));
    let tamper = Tamper { lose: args.control.as_deref() == Some("lost"), double: false };
    // Each request of the timetable has its place in memory from the start.
    let each = site.file.scale.cool_down.trim_end_matches('s').parse::<u64>().unwrap_or(60) + 4;
    let patience = GONE_MAX + Duration::from_secs(each * u64::from(args.most - args.least));
    let begin = |flow: &Flow, rate, longest, tamper| {
        Participants::start_flow(site, (flow, (rate, args.seed)), longest, tamper)
    };
    let begun = Instant::now();
    let ms = || begun.elapsed().as_millis() as u64;
    let mut samples = Vec::new();
    let steady = begin(&base, args.low, WARM + args.peak + patience + LOGINS, tamper)?;
    steady.wait_for_trading()?;
    let mut look = |all: &[&Participants]| -> Result<u64, Failure> {
        let sample = look(site, all, ms())?;
        samples.push(sample);
        Ok(sample.edges)
    };
    let until = Instant::now() + WARM;
    while Instant::now() < until {
        look(&[&steady])?;
        std::thread::sleep(LOOK_EVERY);
    }
    let from = ms();
    let more = begin(&surge, args.high - args.low, args.peak + LOGINS, Tamper::default())?;
    more.wait_for_trading()?;
    let until = Instant::now() + args.peak;
    while Instant::now() < until {
        look(&[&steady, &more])?;
        std::thread::sleep(LOOK_EVERY);
    }
    let peak = (from, ms());
    let more = more.end()?;
    let until = Instant::now() + patience;
    // With a moment to see that none comes back.
    let mut few_since = None::<Instant>;
    while Instant::now() < until && few_since.is_none_or(|at| at.elapsed() < Duration::from_secs(3))
    {
        match look(&[&steady])? <= u64::from(args.least) {
            true => drop(few_since.get_or_insert_with(Instant::now)),
            false => few_since = None,
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let steady = steady.end()?;
    Ok(Traded { loads: vec![steady, more], samples, peak })
}

/// How many edges there are and what they take; tells participants which of them are least loaded, as edges tell
/// those who subscribe.
fn look(site: &Site<'_>, all: &[&Participants], at_ms: u64) -> Result<Sample, Failure> {
    let status = site.operate(&Operation::Status)?;
    let rows = status["nodes"].as_array().cloned().unwrap_or_default();
    let edges = site.places(NodeRole::Edge);
    let name = |place: &usize| &site.file.nodes[*place].name;
    let mut up: Vec<(u64, usize)> = (edges.iter().enumerate())
        .filter_map(|(at, place)| {
            let row = rows.iter().find(|row| row["node"] == name(place).as_str())?;
            (row["is"] == "up").then(|| (row["health"]["sessions"].as_u64().unwrap_or(0), at))
        })
        .collect();
    up.sort_unstable();
    let firsts: Vec<usize> = up.iter().map(|(_, at)| *at).cycle().take(COUNT as usize).collect();
    if !up.is_empty() {
        all.iter().for_each(|one| one.prefer(firsts.clone()));
    }
    let requests_per_s = status["scale"]["requests_per_s"].as_u64().unwrap_or(0);
    Ok(Sample { at_ms, edges: up.len() as u64, requests_per_s })
}

/// Does what the program asks for, until `stop`.
fn serve(
    door: &UnixListener,
    site: &Site<'_>,
    asked: &Mutex<Asked>,
    stuck: bool,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = door.accept() else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
        let mut line = String::new();
        let read = BufReader::new(&stream).read_line(&mut line);
        let done = read.map_err(io).and_then(|_| obey(site, line.trim(), asked, stuck));
        let answer = done.map_or_else(|why| why.to_string(), |()| "done".to_string());
        let _ = writeln!(&stream, "{answer}");
    }
}

fn obey(site: &Site<'_>, line: &str, asked: &Mutex<Asked>, stuck: bool) -> Result<(), Failure> {
    let (what, name) = line.split_once(' ').unwrap_or((line, ""));
    let place = usize::from(site.file.node(name)?.0) - 1;
    let mut asked = asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match what {
        "start" => asked.started.push(name.to_string()),
        _ => asked.stopped.push(name.to_string()),
    }
    if stuck {
        return Ok(());
    }
    // One that has left has ended by itself.
    site.stop(place)?;
    if what == "start" { site.revive(place) } else { Ok(()) }
}

/// Asks the process that has a box to start or stop a machine: what `[scale] command` runs there.
///
/// # Errors
/// Why it is not done.
pub fn machine(args: &MachineArgs) -> Result<(), Failure> {
    let at = |error: std::io::Error| on(&args.socket, error);
    let stream = UnixStream::connect(&args.socket).map_err(at)?;
    writeln!(&stream, "{} {}", args.what, args.node).map_err(at)?;
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer).map_err(at)?;
    match answer.trim() {
        "done" => Ok(()),
        why => Err(Failure::Run(format!("{}: {why}", path(&args.socket)))),
    }
}

fn path(of: &Path) -> String {
    of.display().to_string()
}

/// What a session that ended between two logins waited, ns; `None`: it was never so again.
#[derive(PartialEq, Eq, Debug)]
struct Move {
    /// Until it was on again.
    on_ns: Option<u64>,
    /// Until its participant had a normal answer again.
    served_ns: Option<u64>,
}

/// Of each session that ended between two logins what it waited.
fn moves(notes: &Notes) -> Vec<Move> {
    let mut all = Vec::new();
    let (mut is_on, mut open) = (false, None::<(Nanos, Option<u64>)>);
    for (at, what) in notes {
        match *what {
            Seen::LoggedIn => {
                is_on = true;
                if let Some((ended, on)) = &mut open {
                    on.get_or_insert(at.since(*ended));
                }
            }
            Seen::Ended => {
                if std::mem::take(&mut is_on) && open.is_none() {
                    open = Some((*at, None));
                }
            }
            Seen::Answered { taken, .. } => {
                if let Some((ended, on @ Some(_))) = open.filter(|_| taken) {
                    all.push(Move { on_ns: on, served_ns: Some(at.since(ended)) });
                    open = None;
                }
            }
        }
    }
    all.extend(open.map(|(_, on_ns)| Move { on_ns, served_ns: None }));
    all
}

impl Report {
    /// Edges before, in and after the peak.
    fn count(&mut self, samples: &[Sample], (from, to): (u64, u64)) {
        let before = samples.iter().rfind(|sample| sample.at_ms < from);
        let within = samples.iter().filter(|sample| (from..to).contains(&sample.at_ms));
        self.edges_before = before.map_or(0, |sample| sample.edges);
        self.edges_in_peak = within.map(|sample| sample.edges).max().unwrap_or(0);
        self.edges_after = samples.last().map_or(0, |sample| sample.edges);
        // Changes alone.
        let mut last = None;
        let new = |sample: &&Sample| last.replace(sample.edges) != Some(sample.edges);
        self.samples = samples.iter().filter(new).copied().collect();
    }

    /// Judges by answers, by the log and by what participants noted; ends the site.
    fn judge(&mut self, site: &mut Site<'_>, loads: &[Load]) -> Result<(), Failure> {
        let leader = site.leader()?;
        let up: BTreeSet<usize> = site.standing()?.up.iter().map(|sample| sample.place).collect();
        let there: Vec<bool> =
            site.places(NodeRole::Edge).iter().map(|place| up.contains(place)).collect();
        let listeners = site.end()?;
        // Beside edges that are away nobody hears the end of the feed.
        let listeners: Vec<_> =
            listeners.into_iter().zip(there).filter(|(_, there)| *there).map(|of| of.0).collect();
        let log = measure::log(site, leader, &listeners, None)?;
        let all: Vec<LoadCounts> = loads.iter().map(Load::counts).collect();
        let sum = |of: fn(&LoadCounts) -> u64| all.iter().map(of).sum::<u64>();
        let told: Vec<Told> = all.iter().map(Told::clients).collect();
        self.requests_sent = sum(|of| of.asked);
        self.requests_answered = sum(|of| of.answered);
        self.requests_lost = sum(|of| of.lost);
        self.answered_twice = sum(|of| of.duplicates + of.stray);
        self.told = told.into_iter().reduce(super::shards::both).unwrap_or_default();
        self.logged = log.told;
        self.books_equal = log.books_equal;
        self.books_compared = log.positions;
        self.complaints = log.problems;
        self.complaints.extend(log.gaps);
        let moved: Vec<_> = loads.iter().flat_map(Load::seen).flat_map(moves).collect();
        let on: Vec<u64> = moved.iter().filter_map(|of| of.on_ns).collect();
        let served: Vec<u64> = moved.iter().filter_map(|of| of.served_ns).collect();
        self.sessions_moved = moved.len();
        self.reconnect_ns = quantiles_of(&on);
        self.served_ns = quantiles_of(&served);
        let late = |of: &&Move| of.served_ns.is_none_or(|ns| ns > RECONNECT_NS);
        self.sessions_late = moved.iter().filter(late).count();
        Ok(())
    }
}

/// What is wrong with a run.
fn complaints(of: &Report) -> Vec<String> {
    let mut all = of.complaints.clone();
    let mut wrong = |is: bool, what: String| all.extend(is.then_some(what));
    wrong(of.requests_sent == 0, "run: nothing was sent".to_string());
    let lost = of.requests_lost.max(of.requests_sent.saturating_sub(of.requests_answered));
    wrong(lost > 0, format!("lost: {lost} requests have no answer"));
    let twice = of.answered_twice;
    wrong(twice > 0, format!("twice: {twice} answers beyond one for each request"));
    // Those of the peak are gone at the end, and their open orders still trade: nobody is there to be told.
    let (more, told) = (of.logged.executions, of.told.executions);
    let lots = (of.told.executed_lots, of.logged.executed_lots);
    let same = Told { executions: more, executed_lots: lots.1, ..of.told };
    let differ = same != of.logged || told > more || lots.0 > lots.1;
    wrong(differ, format!("told: {:?}, and the log says {:?}", of.told, of.logged));
    wrong(!of.books_equal || of.books_compared == 0, "books: they differ".to_string());
    let (before, peak, after) = (of.edges_before, of.edges_in_peak, of.edges_after);
    let least = u64::from(of.least);
    wrong(before != least, format!("edges: {before} before the peak, not {least}"));
    wrong(peak <= before, format!("edges: {peak} in the peak, no more than before"));
    wrong(after != least, format!("edges: {after} after the peak, not {least}"));
    wrong(of.sessions_moved == 0, "sessions: none moved".to_string());
    let late = of.sessions_late;
    wrong(late > 0, format!("sessions: {late} were not served again within a second"));
    all
}

fn print(report: &Report) {
    let ms = |ns: u64| ns / Nanos::MILLI;
    println!(
        "{} machines, profile {}, seed {}: {}, {} and {} requests/s",
        report.machines,
        report.profile,
        report.seed,
        report.low_per_s,
        report.high_per_s,
        report.low_per_s
    );
    for Sample { at_ms, edges, requests_per_s } in &report.samples {
        println!(
            "  after {:>5.1} s: {edges} edges, {requests_per_s} requests/s",
            *at_ms as f64 / 1e3
        );
    }
    println!(
        "edges: {} before the peak, {} at most in it, {} after it; started {}; stopped {}",
        report.edges_before,
        report.edges_in_peak,
        report.edges_after,
        report.started.join(" "),
        report.stopped.join(" ")
    );
    println!(
        "requests {}, answered {}, lost {}, answered twice {}; books equal: {} at {} positions",
        report.requests_sent,
        report.requests_answered,
        report.requests_lost,
        report.answered_twice,
        report.books_equal,
        report.books_compared
    );
    println!(
        "sessions moved: {}; on again after ms p50 / max {} / {}, served again {} / {}; late: {}",
        report.sessions_moved,
        ms(report.reconnect_ns.p50),
        ms(report.reconnect_ns.max),
        ms(report.served_ns.p50),
        ms(report.served_ns.max),
        report.sessions_late
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_moved_when_its_participant_is_answered_again() {
        let on = |at| (Nanos(at), Seen::LoggedIn);
        let off = |at| (Nanos(at), Seen::Ended);
        let answer = |at, taken| (Nanos(at), Seen::Answered { due: Nanos(at), taken });
        let notes = [on(1), answer(5, true), off(10), off(20), on(30), answer(40, false)];
        let moved = |on_ns, served_ns| Move { on_ns, served_ns };
        assert_eq!(moves(&notes), [moved(Some(20), None)], "a refusal is no service");
        let notes = [on(1), off(10), on(30), answer(45, true), answer(46, true), off(50)];
        assert_eq!(moves(&notes), [moved(Some(20), Some(35)), moved(None, None)]);
        assert_eq!(moves(&[on(1), answer(2, true)]), []);
    }

    #[test]
    fn each_thing_that_may_be_wrong_is_found() {
        let good = Report {
            requests_sent: 9,
            requests_answered: 9,
            books_equal: true,
            books_compared: 3,
            least: 2,
            edges_before: 2,
            edges_in_peak: 5,
            edges_after: 2,
            sessions_moved: 4,
            ..Report::default()
        };
        assert_eq!(complaints(&good), [""; 0]);
        type Inject = fn(&mut Report);
        let faults: [(&str, Inject); 9] = [
            ("lost: ", |of| of.requests_answered = 8),
            ("twice: ", |of| of.answered_twice = 1),
            ("told: ", |of| of.told.accepted = 1),
            ("books: ", |of| of.books_equal = false),
            ("edges: 3 before", |of| of.edges_before = 3),
            ("edges: 2 in the peak", |of| of.edges_in_peak = 2),
            ("edges: 3 after", |of| of.edges_after = 3),
            ("sessions: none", |of| of.sessions_moved = 0),
            ("sessions: 1 were", |of| of.sessions_late = 1),
        ];
        for (begins, inject) in faults {
            let mut report = good.clone();
            inject(&mut report);
            let found = complaints(&report);
            assert!(found.len() == 1 && found[0].starts_with(begins), "{begins}: {found:?}");
        }
    }
}
