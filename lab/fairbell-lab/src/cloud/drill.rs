//! `fairbell-lab cloud drill`: each fault many times, each kind in a venue of its own, and what it cost
//! participants.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use emulator::Network;
use fairbell::options::duration;
use fairbell::report::Quantiles;
use host::failure::{Failure, on};
use host::fleet::file::NodeRole;
use host::sockets::io;
use net::plane::PlaneKind;
use serde::Serialize;

use super::checks::{Checker, Checks, Window};
use super::faults::{self, Fault, KINDS, Kind};
use super::participants::Participants;
use super::service::Service;
use super::site::{Plan, Site, ZONES};
use super::{
    MAIN, SMALL_MIB, STARTING_US, Shape, edges, quantiles_of, start, told, venue, watched,
    with_planes,
};

/// Options of `fairbell-lab cloud drill`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab cloud drill                                   each fault twenty times\n  \
    fairbell-lab cloud drill --times 3 --only kill --only zone-lost\n  \
    fairbell-lab cloud drill --data-plane tc-clone --times 2 --only kill --only interface-down --only program-detached
  \
    fairbell-lab cloud drill --only upgrade --from \"$(scripts/old-binary v0.2.0)\" --json\n\n\
    Exit code 1 when a checker found something. `none` is the same without a fault: the floor. A stepped\n\
    clock has to be found by the checker of clocks, and by no other. It needs what `fairbell-lab cloud` needs,\n\
    and loop devices and mkfs.ext4 for disks that fill and lose their power.")]
pub struct DrillArgs {
    /// How often each fault is
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    times: u32,
    /// This drill alone; again for further ones
    #[arg(long = "only", value_name = "NAME", value_parser = kind)]
    only: Vec<Kind>,
    /// From the end of a fault to the next one
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    every: Duration,
    /// How long a fault lasts, where that can be chosen
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    lasts: Duration,
    /// Hosts, the participants' among them
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(7..=64))]
    hosts: u32,
    /// Hops from the root to an edge
    #[arg(long, value_name = "D", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=4))]
    depth: u32,
    /// Children of a proxy
    #[arg(long, value_name = "F", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    fanout: u32,
    /// What the paths are like
    #[arg(long, value_name = "NAME", default_value = "table1")]
    profile: String,
    /// Requests per second, all participants together
    #[arg(long, value_name = "N", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(100..=100_000))]
    rate: u64,
    /// How overlay datagrams leave the machines, the first that can be had; several times for several
    #[arg(long = "data-plane", value_name = "NAME", default_value = "udp")]
    planes: Vec<PlaneKind>,
    /// Proxies and edges have duplicates dropped in front of their stacks
    #[arg(long)]
    duplicate_filter: bool,
    /// Fixes the draws of delays, offsets and requests
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The program that machines are upgraded from, and go back to every other time [default: this one]
    #[arg(long, value_name = "PROGRAM")]
    from: Option<PathBuf>,
    /// Folder of the machines' files; what was there is removed
    #[arg(long, value_name = "DIR", default_value = "out/cloud-drill")]
    out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn kind(name: &str) -> Result<Kind, String> {
    let known = KINDS.iter().find(|(known, _)| *known == name);
    let names = || KINDS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    known.map(|(_, kind)| *kind).ok_or_else(|| format!("{name:?} is none of {}", names()))
}

/// Longest trading of one drill: it is stopped when the faults have been.
const LONGEST: Duration = Duration::from_secs(3_600);
/// Longest wait for everybody between two faults.
const ALL_MAX: Duration = Duration::from_secs(30);
/// Trading before the first fault.
const WARM: Duration = Duration::from_secs(3);
/// How far clocks are off, us, and how fast they go, ppb, at most.
const WRONG: (u64, u64) = (10_000, 50_000);

/// What one drill came to.
#[derive(Serialize, Clone, Debug)]
struct Row {
    drill: &'static str,
    times: usize,
    /// Of the worst client after each fault.
    to_serve_ns: Quantiles,
    /// Of the request that waited longest after each fault.
    longest_wait_ns: Quantiles,
    sessions_ended: usize,
    /// Of those that were on again.
    reconnect_ns: Quantiles,
    /// Until all machines were back.
    took_ms: Quantiles,
    #[serde(flatten)]
    checks: Checks,
    complaints: Vec<String>,
}

/// What the command prints.
#[derive(Serialize, Clone, Debug)]
struct Report {
    profile: String,
    hosts: u32,
    rate_per_s: u64,
    seed: u64,
    times: u32,
    data_plane: Vec<&'static str>,
    duplicate_filter: bool,
    from: Option<PathBuf>,
    drills: Vec<Row>,
}

/// Does each drill so many times, and prints what they cost participants.
///
/// # Errors
/// [`Failure::Unavailable`] where there can be no box; what checkers found.
pub fn run(args: &DrillArgs) -> Result<(), Failure> {
    emulator::own_mounts().map_err(|error| Failure::Unavailable(error.to_string()))?;
    let profile = super::profile(&args.profile)?;
    let network = start(args.hosts, profile, args.seed)?;
    let mut drills = Vec::new();
    for (name, kind) in KINDS {
        if !args.only.is_empty() && !args.only.contains(kind) {
            continue;
        }
        let has_programs = args.planes.contains(&PlaneKind::TcClone) || args.duplicate_filter;
        if kind.needs_programs() && !has_programs {
            eprintln!("{name}: left out, because machines attach no program with these settings");
            continue;
        }
        let row = one(args, &network, *kind).unwrap_or_else(|why| Row {
            complaints: vec![format!("{name}: run: {why}")],
            ..Row::of(*kind, Checks::default())
        });
        row.complaints.iter().for_each(|what| eprintln!("{what}"));
        eprintln!("{}", line(&row));
        drills.push(row);
    }
    let report = Report {
        profile: args.profile.clone(),
        hosts: args.hosts,
        rate_per_s: args.rate,
        seed: args.seed,
        times: args.times,
        data_plane: args.planes.iter().map(|kind| kind.name()).collect(),
        duplicate_filter: args.duplicate_filter,
        from: args.from.clone(),
        drills,
    };
    let complaints: Vec<String> =
        report.drills.iter().flat_map(|row| row.complaints.iter().cloned()).collect();
    let print = |report: &Report| {
        println!("{HEAD}");
        report.drills.iter().for_each(|row| println!("{}", line(row)));
    };
    told(&report, args.json, print, &complaints)
}

/// Whom the fault is done to at a time, from 0: everybody in turn who can have it.
fn target(args: &DrillArgs, kind: Kind, site: &Site<'_>, time: usize) -> String {
    let named =
        |role| site.places(role).into_iter().map(|place| site.file.nodes[place].name.clone());
    let (roots, proxies, edges): (Vec<_>, Vec<_>, Vec<_>) = (
        named(NodeRole::Root).collect(),
        named(NodeRole::Proxy).collect(),
        named(NodeRole::Edge).collect(),
    );
    let of = |names: &[String], time: usize| names[time % names.len()].clone();
    match kind {
        Kind::None | Kind::Rotate | Kind::Upgrade => String::new(),
        Kind::ZoneLost => format!("zone-{}", time % ZONES + 1),
        Kind::Lead => "next".to_string(),
        // Each proxy in turn leaves the tree, and takes its place again.
        Kind::Replace if time.is_multiple_of(2) => of(&proxies, time / 2),
        Kind::Replace => of(&named(NodeRole::Standby).collect::<Vec<_>>(), 0),
        Kind::OldDisk => of(&roots, time),
        Kind::DiskFull if time.is_multiple_of(2) => "leader".to_string(),
        Kind::DiskFull => of(&roots, time / 2),
        // The filter of duplicates is in front of those who hear the feed.
        Kind::ProgramDetached if !args.planes.contains(&PlaneKind::TcClone) => {
            if time.is_multiple_of(2) { of(&proxies, time / 2) } else { of(&edges, time / 2) }
        }
        // Not a root: the first one's clock is the truth, and no root issues itself another certificate.
        Kind::Step | Kind::Revoke if time.is_multiple_of(3) => of(&proxies, time / 3),
        Kind::Step | Kind::Revoke => of(&edges, time),
        _ => match time % 4 {
            0 => "leader".to_string(),
            1 => of(&edges, time / 4),
            2 => of(&proxies, time / 4),
            _ => of(&roots, time / 4),
        },
    }
}

/// One kind of fault, in a venue of its own.
fn one(args: &DrillArgs, network: &Network, kind: Kind) -> Result<Row, Failure> {
    // Only where one is to come for another: by itself none does.
    let standby = u32::from(kind == Kind::Replace);
    let shape = Shape {
        standby,
        name: MAIN,
        depth: args.depth,
        hedge: 1,
        edges: edges(args.hosts - standby, ZONES as u32, (args.depth, args.fanout))?,
        fanout: args.fanout,
        segment_mib: SMALL_MIB,
        asymmetry_us: STARTING_US,
    };
    let dir = args.out.join(kind.name());
    if dir.exists() {
        std::fs::remove_dir_all(&dir).map_err(|error| on(&dir, error))?;
    }
    let own = std::env::current_exe().map_err(io)?;
    let plan = Plan {
        venue: with_planes(venue(&shape, "huygens", true), &args.planes, args.duplicate_filter),
        shards: 1,
        roots: ZONES,
        offset_us: WRONG.0,
        drift_ppb: WRONG.1,
        seed: args.seed,
        ipv6: false,
        web: false,
        disks: true,
        snapshots: false,
        idle: 0,
        scale: Default::default(),
        hosts: Vec::new(),
        programs: [args.from.clone().unwrap_or_else(|| own.clone()), own],
    };
    let mut site = Site::start(network, &plan, &dir)?;
    site.keep_journals()?;
    let trade = (args.rate, args.seed);
    let trading = Participants::start(&site, trade, LONGEST, Default::default())?;
    let clock = trading.clock;
    let (clocks, (load, struck)) = watched(&site, || {
        trading.wait_for_trading()?;
        std::thread::sleep(WARM);
        let mut struck = Vec::new();
        for time in 0..args.times as usize {
            let target = target(args, kind, &site, time);
            // A full disk is found out after a while, and then takes a while to matter.
            let lasts = args.lasts * if kind == Kind::DiskFull { 4 } else { 1 };
            let fault = Fault::now(kind, &target, lasts);
            let one = faults::strike(&site, clock, &fault)?;
            site.wait_all(ALL_MAX)?;
            let (name, number, all) = (kind.name(), time + 1, args.times);
            eprintln!("{name} {target}: {number} of {all}, over after {} ms", one.took_ms);
            struck.push(one);
            std::thread::sleep(args.every);
        }
        Ok((trading.end()?, struck))
    })?;
    let checks = Checks::of(&mut site, (&load, &clocks), (&struck, clock.now()), &[])?;
    drop(site);
    // What held takes no room any more.
    let row = Row::of(kind, checks);
    if row.complaints.is_empty() {
        std::fs::remove_dir_all(&dir).map_err(|error| on(&dir, error))?;
    }
    Ok(row)
}

impl Row {
    fn of(kind: Kind, checks: Checks) -> Row {
        let drill = kind.name();
        let found = judged(kind, checks.complaints());
        let services = || checks.faults.iter().map(|window| &window.service);
        let ns = |of: fn(&Service) -> u64| quantiles_of(&services().map(of).collect::<Vec<_>>());
        let reconnects: Vec<Option<u64>> =
            services().flat_map(|service| service.reconnects_ns.iter().copied()).collect();
        let took: Vec<u64> = checks.faults.iter().map(|window: &Window| window.took_ms).collect();
        Row {
            drill,
            times: checks.faults.len(),
            to_serve_ns: ns(|service| service.to_serve_ns.unwrap_or(0)),
            longest_wait_ns: ns(|service| service.longest_wait_ns),
            sessions_ended: reconnects.len(),
            reconnect_ns: quantiles_of(&reconnects.into_iter().flatten().collect::<Vec<_>>()),
            took_ms: quantiles_of(&took),
            complaints: found.into_iter().map(|what| format!("{drill}: {what}")).collect(),
            checks,
        }
    }
}

/// What of the complaints counts: a clock that was stepped is found to be wrong, and what it released was
/// early; if it is not found, the checker is no good.
fn judged(kind: Kind, complaints: Vec<(Checker, String)>) -> Vec<String> {
    let stepped = |of: &Checker| matches!(of, Checker::Clock | Checker::Early);
    let found = complaints.iter().any(|(of, _)| *of == Checker::Clock);
    let counts = complaints.into_iter().filter(|(of, _)| kind != Kind::Step || !stepped(of));
    let mut left: Vec<String> = counts.map(|(_, what)| what).collect();
    if kind == Kind::Step && !found {
        left.push("clock: nobody saw that clocks were stepped".to_string());
    }
    left
}

const HEAD: &str = "drill            times requests  lost twice  books equal at  early  to serve, ms p50/p99  \
                    longest wait, ms p50/p99  sessions ended, on again after ms p50/p99/max";

fn line(row: &Row) -> String {
    let ms = |ns: u64| ns / 1_000_000;
    let Checks { requests_sent, requests_lost, answered_twice, books_equal, .. } = &row.checks;
    let equal =
        if *books_equal { row.checks.books_compared.to_string() } else { "DIFFER".to_string() };
    let serve = format!("{}/{}", ms(row.to_serve_ns.p50), ms(row.to_serve_ns.p99));
    let wait = format!("{}/{}", ms(row.longest_wait_ns.p50), ms(row.longest_wait_ns.p99));
    let [p50, p99, max] =
        [row.reconnect_ns.p50, row.reconnect_ns.p99, row.reconnect_ns.max].map(ms);
    format!(
        "{:<16} {:>5} {requests_sent:>8} {requests_lost:>5} {answered_twice:>5} {equal:>15} {:>6} {serve:>21} \
         {wait:>25}  {:>4}, {p50}/{p99}/{max}",
        row.drill, row.times, row.checks.releases.early, row.sessions_ended
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_to_be_seen_and_nothing_else_may_be() {
        let of =
            |checkers: &[Checker]| checkers.iter().map(|of| (*of, format!("{of:?}"))).collect();
        assert_eq!(judged(Kind::Step, of(&[Checker::Clock, Checker::Early])), [""; 0]);
        assert_eq!(judged(Kind::Step, of(&[Checker::Early])).len(), 1);
        assert_eq!(judged(Kind::Step, of(&[Checker::Clock, Checker::Lost])), ["Lost"]);
        assert_eq!(judged(Kind::Kill, of(&[Checker::Clock])), ["Clock"]);
    }
}
