//! `fairbell-lab drill`: real faults in real processes while clients trade, and what came of it.

mod checks;
mod disks;
mod early;
mod fault;
mod old_disk;
mod relay;
mod roots;
mod site;
mod stores;
pub mod strangers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use participant::load::{LoadConfig, Login, Mark, Protocol};
use serde::Serialize;
use types::{Instrument, Nanos, Peer};

use checks::Findings;
pub use checks::Told;
use early::{Eager, Ear, Heard};
use fairbell::options::duration;
use fault::{Away, Done, Fault};
use host::failure::{Failure, on};
use host::fleet::credentials::KEYS;
use roots::Roots;
use site::{CLIENTS, Site};
use stores::{Askers, Stores};
use strangers::StrangersArgs;

/// Options of `fairbell-lab drill`.
#[derive(Args, Clone, Debug)]
pub struct Drills {
    /// Which one
    #[command(subcommand)]
    pub what: Drill,
}

/// Drills.
#[derive(Subcommand, Clone, Debug)]
pub enum Drill {
    /// Kill the leader, again and again
    Failover(DrillArgs),
    /// Stop the leader, let another one lead, let it go on
    Pause(DrillArgs),
    /// Cut the leader off from the other replicas, mend it later
    Partition(DrillArgs),
    /// Kill gateways with their receivers, one after another; clients go to others
    Gateway(DrillArgs),
    /// Fill the leader's disk, make room again when another one leads (needs the right to mount)
    FullDisk(DrillArgs),
    /// Kill the leader, flip a bit of its journal, have it found and mended
    Rot(DrillArgs),
    /// Lose a replica with its disk, put another one in its place, then kill the leader
    Replace(DrillArgs),
    /// Kill all replicas at once, and start them from their disks
    Group(DrillArgs),
    /// Set folders of replicas back to older copies: nine arrangements in turn, so 90 times are ten of
    /// each
    OldDisk(DrillArgs),
    /// People without a key at every listening port, while a group starts, and loses its leaders
    Strangers(StrangersArgs),
    /// Ask all replicas' retransmission servers for what comes next, and kill the leader meanwhile
    Early(EarlyArgs),
}

/// Options of the drill of early bytes.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab drill early --times 5             nothing may be heard before its release\n  \
    fairbell-lab drill early --control             a follower that gives out all it has: it must be heard\n\n\
    The last receiver's clock is ahead, so that every datagram is held for hold.cap_ms. Nobody dies\n\
    with --control. The exit code is 1 when anything was heard early.")]
pub struct EarlyArgs {
    #[command(flatten)]
    drill: DrillArgs,
    /// One of the followers is told that all of the feed is released
    #[arg(long)]
    control: bool,
}

/// Options of a drill.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab drill failover                    20 leaders killed under 10,000 requests/s\n  \
    fairbell-lab drill failover --times 3 --rate 1000 --json\n  \
    fairbell-lab drill pause --times 5 --keep --dir drill\n  \
    fairbell-lab drill failover --times 5 --rate 1000 --stores   ask the replicas' stores meanwhile\n  \
    fairbell-lab drill replace --times 5 --json    a replica's disk is lost, then the leader dies\n  \
    fairbell-lab drill group --times 5 --every 40s --checkpoint-every 0   by all inputs, for comparison\n  \
    fairbell-lab drill old-disk --times 90        nine arrangements of folders set back, ten times each\n\n\
    Three processes are replicas of the root; proxies, gateways, listeners and clients are this\n\
    one. The exit code is 1 when anything acknowledged was lost, told twice, or differs.")]
pub struct DrillArgs {
    /// How often
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub times: u32,
    /// From one fault to the next
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "4s")]
    pub every: Duration,
    /// How long a leader that is hit stays away, unless another one takes longer to lead
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub away: Duration,
    /// Positions between two snapshots of a replica, 0 for none: with some, log files are of 2 MiB
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    pub snapshot_every: u64,
    /// Positions between two checkpoints of a replica's root, 0 for none: then a start applies all
    /// inputs
    #[arg(long, value_name = "N", default_value_t = 50_000,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    pub checkpoint_every: u64,
    /// Replicas
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u8).range(3..=9))]
    pub replicas: u8,
    /// Requests per second, open loop
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: u64,
    /// Clients over OUCH
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub clients: u32,
    /// Seed of the flow
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// A store beside each replica, asked all the time, and journals read on the disks of those that run
    #[arg(long)]
    pub stores: bool,
    /// Folder for the replicas' journals [default: one of its own, removed at the end]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Leave the folder
    #[arg(long, requires = "dir")]
    pub keep: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Gateways that may die.
const GATEWAYS_MAX: u32 = 8;
/// Replicas that may be replaced: numbers are never used again.
const REPLACED_MAX: u32 = 100;
/// How long a new leader may take, and everything at the end.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long clients wait for their last answers.
const DRAIN: Duration = Duration::from_secs(30);
/// Of a thousand new orders: those good for a millisecond to two seconds.
const EXPIRING: u64 = 150;

/// Runs a drill and tells of it.
pub fn run(drill: &Drill) -> Result<(), Failure> {
    let mut control = false;
    let (fault, args) = match drill {
        Drill::Early(early) => {
            control = early.control;
            (Fault::Early, &early.drill)
        }
        Drill::Failover(args) => (Fault::Kill, args),
        Drill::Pause(args) => (Fault::Pause, args),
        Drill::Partition(args) => (Fault::Partition, args),
        Drill::Gateway(args) => (Fault::Gateway, args),
        Drill::FullDisk(args) => (Fault::Fill, args),
        Drill::Rot(args) => (Fault::Rot, args),
        Drill::Replace(args) => (Fault::Replace, args),
        Drill::Group(args) => (Fault::Group, args),
        Drill::Strangers(args) => return strangers::run(args),
        Drill::OldDisk(args) => (Fault::OldDisk, args),
    };
    let (most, what) = match fault {
        Fault::Gateway => (GATEWAYS_MAX, "gateways"),
        Fault::Replace => (REPLACED_MAX, "replacements"),
        _ => (u32::MAX, "faults"),
    };
    if args.times > most {
        return Err(Failure::Usage(format!("--times: at most {most} {what}")));
    }
    if fault == Fault::OldDisk && args.replicas != 3 {
        return Err(Failure::Usage(
            "--replicas: three, of which one or two are set back".to_string(),
        ));
    }
    if args.replicas % 2 == 0 {
        return Err(Failure::Usage("--replicas: an odd number".to_string()));
    }
    let own = std::env::temp_dir().join(format!("fairbell-drill-{}", std::process::id()));
    let dir = args.dir.clone().unwrap_or(own);
    std::fs::create_dir_all(&dir).map_err(|error| on(&dir, error))?;
    let outcome = play((fault, control), args, &dir);
    if !args.keep {
        // Only what the drill has made.
        let made = 0..usize::from(args.replicas) + fault.reserve(args);
        let made = made.map(|number| roots::folder(&dir, number));
        made.chain([dir.join(KEYS)]).for_each(|folder| drop(std::fs::remove_dir_all(folder)));
        let _ = std::fs::remove_file(dir.join("authority.pem"));
        if args.dir.is_none() && outcome.is_ok() {
            let _ = std::fs::remove_dir_all(&dir);
        }
    }
    let report = outcome?;
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&report).unwrap_or_default()),
        false => print(&report),
    }
    match report.holds {
        true => Ok(()),
        false => {
            Err(Failure::Run("something was lost, told early or twice, or differs".to_string()))
        }
    }
}

/// Times, ns.
#[derive(Serialize, Clone, Debug, Default)]
struct Times {
    p50: u64,
    max: u64,
    all: Vec<u64>,
}

impl Times {
    fn of(mut all: Vec<u64>) -> Times {
        let in_order = all.clone();
        all.sort_unstable();
        let p50 = all.get(all.len() / 2).copied().unwrap_or(0);
        Times { p50, max: all.last().copied().unwrap_or(0), all: in_order }
    }
}

/// A replica's checkpoints since its last start.
#[derive(Serialize, Clone, Copy, Debug)]
struct Checkpoints {
    /// Inputs that its start took from one.
    restored: u64,
    written: u64,
    /// The longest that its loop took to write one down, us.
    longest_us: u64,
    bytes: u64,
}

/// A drill's report.
#[derive(Serialize, Clone, Debug)]
struct Report {
    drill: &'static str,
    seed: u64,
    replicas: u8,
    rate_per_s: u64,
    clients: u32,
    faults: u32,
    /// What was heard of whom before its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    heard: Option<Heard>,
    /// What stores beside the replicas answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    stores: Option<Stores>,
    /// What replicas said of their damaged disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    found: Vec<String>,
    /// Who took whose place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    replaced: Vec<String>,
    /// From the loss of a replica with its disk until another one was counted in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_to_replace_ns: Option<Times>,
    /// Inputs in the log at each fault.
    inputs: Vec<u64>,
    /// Positions between two checkpoints of a replica's root; 0: none.
    checkpoint_every: u64,
    /// Inputs that replicas took from checkpoints at their last start, and what writing these costs.
    checkpoints: Vec<Checkpoints>,
    /// Snapshots that replicas got from others when they came back.
    snapshots_installed: u64,
    /// The term at the end: leaders there were, at most.
    last_term: u64,
    asked: u64,
    answered: u64,
    /// From the fault to the first acknowledgement of a request sent after it; where a disk is filled,
    /// the longest time without any.
    time_to_serve_ns: Times,
    /// From the fault until another one said that it leads.
    time_to_lead_ns: Times,
    /// From a replica's coming back until it had what the others had; the next fault waits for it,
    /// since a group bears one that is missing, not two.
    time_to_rejoin_ns: Times,
    /// Request to answer, all of them.
    latency_ns: fairbell::report::Quantiles,
    #[serde(flatten)]
    findings: Findings,
    holds: bool,
}

fn play((fault, control): (Fault, bool), args: &DrillArgs, dir: &Path) -> Result<Report, Failure> {
    let disks = fault.disks(dir, args.replicas)?;
    let replicas = (usize::from(args.replicas), fault.reserve(args));
    let roots = Roots::found(dir, &text(fault, args), replicas)?;
    let config = roots.config.clone();
    let instrument = config.instruments().into_iter().next_back();
    let instrument = instrument.ok_or_else(|| Failure::Usage("no instrument".to_string()))?;
    let load = |gateways| load(args, instrument, gateways);
    let early = fault == Fault::Early;
    let mut site = Site::start(roots, (dir, early), load)?;
    let first = site.leader_after(0, PATIENCE);
    first.ok_or_else(|| Failure::Run("no replica came to lead".to_string()))?;
    let eager = control.then(|| Eager::start(&mut site)).transpose()?;
    let ear = early.then(|| Ear::start(&site, config.hold.cap_ms)).transpose()?;
    let askers = args.stores.then(|| Askers::start(dir, usize::from(args.replicas))).transpose()?;
    std::thread::sleep(args.every);
    let mut done = Vec::new();
    let times = if control { 0 } else { args.times };
    for number in 0..times {
        if !args.json {
            eprint!("\r{} of {} faults", number + 1, args.times);
        }
        let seed = u64::from(number) ^ args.seed << 32;
        let away = Away { least: args.away, until_logs_are_cut: args.snapshot_every > 0 };
        done.push(fault.strike(&mut site, &disks, away, seed)?);
        std::thread::sleep(args.every.saturating_sub(args.away));
    }
    if !args.json {
        eprintln!();
    }
    let stopped = site.clients.call(CLIENTS, |load, _, _| load.stop());
    stopped.map_err(|error| Failure::Run(format!("the clients: {error}")))?;
    let from = std::time::Instant::now();
    while !site.is_over() && from.elapsed() < DRAIN + PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let heard = ear.map(Ear::end).transpose()?;
    let last_term = site.seat.held().0;
    let asked = askers.map(Askers::end).transpose()?;
    let remains = site.end()?;
    eager.map(Eager::end).transpose()?;
    let stores = asked.map(|asked| asked.judge(&remains, &config)).transpose()?;
    let findings = checks::look(&remains, &config)?;
    let checkpoints = remains.statuses.iter().flatten().map(|status| Checkpoints {
        restored: status.restored,
        written: status.checkpoints,
        longest_us: status.checkpoint_us,
        bytes: status.checkpoint_bytes,
    });
    let checkpoints = checkpoints.collect();
    let counts = remains.load.counts();
    let timings = remains.load.timings();
    let served = |(done, mark): (&Done, &Mark)| match done.silent_ns {
        Some(silent) => silent,
        None => mark.answered.map_or(u64::MAX, |at| at.since(done.at)),
    };
    let (replaced, took): (Vec<String>, Vec<u64>) =
        done.iter().filter_map(|done| done.replaced.clone()).unzip();
    let served = done.iter().zip(timings.marks()).map(served).collect();
    let time_to_serve_ns = Times::of(served);
    let in_time = heard.as_ref().is_none_or(Heard::holds);
    let stored = stores.as_ref().is_none_or(Stores::hold);
    let holds = findings.hold() && time_to_serve_ns.max < u64::MAX && in_time && stored;
    Ok(Report {
        drill: fault.name(),
        seed: args.seed,
        replicas: args.replicas,
        rate_per_s: args.rate,
        clients: args.clients,
        faults: times,
        heard,
        stores,
        inputs: done.iter().map(|done| done.inputs).collect(),
        time_to_replace_ns: (!took.is_empty()).then(|| Times::of(took)),
        replaced,
        checkpoint_every: args.checkpoint_every,
        checkpoints,
        found: done.iter().filter_map(|done| done.found.clone()).collect(),
        snapshots_installed: done.iter().map(|done| done.installed).sum(),
        last_term,
        asked: counts.asked,
        answered: counts.answered,
        time_to_serve_ns,
        time_to_lead_ns: Times::of(done.iter().map(|done| done.lead_ns).collect()),
        time_to_rejoin_ns: Times::of(done.iter().map(|done| done.rejoin_ns).collect()),
        latency_ns: fairbell::up::report_quantiles(&timings.all().summary()),
        findings,
        holds,
    })
}

/// The drill's exchange: the built-in one with nobody but these clients.
fn text(fault: Fault, args: &DrillArgs) -> String {
    let gateways = fault.gateways(args);
    let (segment_mib, snapshot_every) = match args.snapshot_every {
        0 => (fault.segment_mib(), 0),
        every => (2, every),
    };
    let stores = match args.stores {
        true => "durability = \"replicated\"\n\n[store]\nfollow = true\npoll_ms = 20\n",
        false => "",
    };
    // Longer than a follower on busy cores takes to hear of an input, so that whoever gives it out at once
    // is early.
    let hold = if fault == Fault::Early { "[hold]\nround_ms = 200\ncap_ms = 80\n\n" } else { "" };
    let mut text = format!(
        "[doors]\nplain = true\n\n[overlay]\ndepth = 2\nfanout = 2\nreceivers = {gateways}\nhedge = 1\n\
         change_tree_at_percent = 0\n\n[journal]\nsegment_mib = {segment_mib}\n\
         snapshot_every = {snapshot_every}\ncheckpoint_every = {}\n{stores}\n{hold}[day]\nauctions = false\nhalt_instrument = 0\n\n\
         [gateway]\norders_per_s = 0\n\n[limits]\nopen_orders = 0\nmessages_per_s = 0\n\n\
         [flow]\nsample = \"none\"\ngenerated_rate = 0\nparticipants = 1\n\n\
         [[account]]\nname = \"nobody\"\nusername = \"FLOW01\"\npassword = \"flow\"\n",
        args.checkpoint_every
    );
    for number in 1..=args.clients {
        text += &format!(
            "\n[[account]]\nname = \"client {number}\"\nusername = \"C{number:03}\"\n\
             password = \"secret\"\n"
        );
    }
    text
}

fn load(args: &DrillArgs, instrument: Instrument, gateways: Vec<Peer>) -> LoadConfig {
    let login = |number: u32| Login {
        protocol: Protocol::Ouch,
        username: format!("C{number:03}"),
        password: "secret".to_string(),
    };
    LoadConfig {
        logins: (1..=args.clients).map(login).collect(),
        gateways,
        middle: types::Price(10_000 * instrument.tick.0),
        instrument,
        rate: args.rate,
        // It is stopped when the faults have been.
        duration_ns: 86_400 * Nanos::SECOND,
        warmup_ns: 0,
        login_timeout_ns: 60 * Nanos::SECOND,
        drain_timeout_ns: DRAIN.as_nanos() as u64,
        expiring: EXPIRING,
        seed: args.seed,
        run: "DRIL".to_string(),
    }
}

fn print(report: &Report) {
    let ms = |ns: u64| ns as f64 / 1e6;
    let Report { findings, time_to_serve_ns: serve, time_to_lead_ns: lead, .. } = report;
    let back = &report.time_to_rejoin_ns;
    println!(
        "{}: {} faults, {} replicas, {} clients, {} requests/s (seed {})",
        report.drill,
        report.faults,
        report.replicas,
        report.clients,
        report.rate_per_s,
        report.seed
    );
    println!(
        "  {}: p50 {:.0} ms, max {}",
        match report.drill {
            "full-disk" => "longest time without an answer",
            _ => "from the fault to the first answer after it",
        },
        ms(serve.p50),
        match serve.max {
            u64::MAX => "none: nothing was answered any more".to_string(),
            max => format!("{:.0} ms", ms(max)),
        }
    );
    println!("  until another leads: p50 {:.0} ms, max {:.0} ms", ms(lead.p50), ms(lead.max));
    println!(
        "  until it is one of them again: p50 {:.0} ms, max {:.0} ms",
        ms(back.p50),
        ms(back.max)
    );
    println!(
        "  {} requests, {} answered; acknowledged and lost {}, answered twice {}, unanswered {}",
        report.asked,
        report.answered,
        findings.acknowledged_lost,
        findings.duplicates,
        findings.unanswered
    );
    println!(
        "  {} good-till-date orders ended at their time; traded or ended at another time: {}",
        findings.log.expired, findings.off_time
    );
    println!("  sessions of clients that ended: {}", findings.connections_lost);
    println!("  snapshots that replicas got from others: {}", report.snapshots_installed);
    for disk in &findings.disks {
        println!("  replica {}: {} inputs, state {}", disk.replica, disk.inputs, disk.state_digest);
    }
    let equal = if findings.books_equal { "equal" } else { "NOT equal" };
    println!("  books of the feed's listeners at {} positions: {equal}", findings.positions);
    if report.drill == Fault::Group.name() {
        for (inputs, ns) in report.inputs.iter().zip(&serve.all) {
            println!("  {inputs} inputs in the log: first answer after {:.0} ms", ms(*ns));
        }
        for (number, of) in (1..).zip(&report.checkpoints) {
            println!(
                "  replica {number}: {} inputs by a checkpoint at its last start; {} written, of {} \
                 bytes, in {:.1} ms of its loop at most",
                of.restored,
                of.written,
                of.bytes,
                of.longest_us as f64 / 1e3
            );
        }
    }
    if let Some(took) = &report.time_to_replace_ns {
        let who = report.replaced.join(", ");
        println!("  replaced: {who}: p50 {:.0} ms, max {:.0} ms", ms(took.p50), ms(took.max));
    }
    if let Some(heard) = &report.heard {
        heard.print();
    }
    report.stores.iter().for_each(Stores::print);
    report.found.iter().for_each(|found| println!("  found out: {found}"));
    findings.problems.iter().for_each(|problem| println!("  {problem}"));
    println!("  {}", if report.holds { "PASS" } else { "FAIL" });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_up() {
        let times = Times::of(vec![3, 1, 2]);
        assert_eq!((times.p50, times.max, &times.all[..]), (2, 3, &[3, 1, 2][..]));
        assert_eq!(Times::of(Vec::new()).max, 0);
    }
}
