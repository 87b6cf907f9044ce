//! `fairbell-lab cloud shards`: participants trade on all shards of a venue, the root that leads one of
//! them is killed again and again, and what the others' participants saw meanwhile is compared with what
//! they see when nothing is done.
//!
//! Windows of equal length take turns: in one nothing is done, at the beginning of the next one the
//! leader of a shard is killed, each shard in turn. Of each window and shard comes the 99th percentile of
//! the time from when a request was due to its answer. The other shards' windows with a kill are compared
//! with those without by a permutation test. As a control so is the shard that was hit, and so are guests:
//! participants who trade on a shard that is there while the one that is their account's home is not, and whose
//! reports wait for it (docs/shards.md).

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fairbell::options::duration;
use host::failure::{Failure, on};
use host::sockets::io;
use participant::load::{Load, LoadCounts, Seen};
use serde::Serialize;
use types::{Nanos, ShardId, SplitMix64};

use super::measure;
use super::participants::{COUNT, Flow, Participants};
use super::site::{Plan, Site};
use super::{MAIN, SEGMENT_MIB, STARTING_US, Shape, start, told, venue};
use crate::drill::Told;

/// Options of `fairbell-lab cloud shards`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab cloud shards                            two shards, each leader killed six times\n  \
    fairbell-lab cloud shards --shards 3 --times 4 --rate 600\n  \
    fairbell-lab cloud shards --roots 1 --times 2        groups of one: a shard is away until its root is back\n\n\
    Exit code 1 when a request was lost or answered twice, books differ, or the other shards' answers took\n\
    longer than without a kill by more than chance explains. It needs what `fairbell-lab cloud` needs.")]
pub struct ShardsArgs {
    /// Shards, each with an instrument that its participants trade
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u16).range(2..=3))]
    shards: u16,
    /// Replicas of each shard's root: 1, 3 or 5
    #[arg(long, value_name = "N", default_value_t = 3)]
    roots: u32,
    /// Edges
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=8))]
    edges: u32,
    /// How often the leader of each shard is killed
    #[arg(long, value_name = "N", default_value_t = 6,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    times: u32,
    /// Length of a window
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = duration)]
    window: Duration,
    /// How long a killed process is away
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    lasts: Duration,
    /// What the paths are like
    #[arg(long, value_name = "NAME", default_value = "clean")]
    profile: String,
    /// Requests per second, all participants together
    #[arg(long, value_name = "N", default_value_t = 400,
          value_parser = clap::value_parser!(u64).range(50..=20_000))]
    rate: u64,
    /// Fixes the draws of delays, offsets, requests and permutations
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Folder of the machines' files; what was there is removed
    #[arg(long, value_name = "DIR", default_value = "out/cloud-shards")]
    out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Longest trading: it is stopped when the kills have been.
const LONGEST: Duration = Duration::from_secs(3_600);
/// Longest wait for a machine that was killed.
const BACK_MAX: Duration = Duration::from_secs(30);
/// Trading before the first window.
const WARM: Duration = Duration::from_secs(2);
/// Permutations of a test, and the share of them that is called chance at least.
const PERMUTATIONS: usize = 2_000;
const ALPHA: f64 = 0.01;
/// Instruments of the box by shard: with up to three shards each has one of the three first.
const SYMBOLS: [&str; 3] = ["BTCUSD", "GENA", "GENB"];
const MIDDLE_TICKS: i64 = 78_000;

/// A span of time, and whose leader was killed at its beginning.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: Nanos,
    to: Nanos,
    killed: Option<ShardId>,
}

/// Windows of a shard with and without something done, and whether chance explains the difference.
#[derive(Serialize, Clone, Debug, Default)]
struct Compared {
    /// 99th percentiles of the windows, ns, in order of time.
    quiet_p99_ns: Vec<u64>,
    killed_p99_ns: Vec<u64>,
    /// Of all requests of these windows together.
    quiet_all_p99_ns: u64,
    killed_all_p99_ns: u64,
    /// Share of permutations in which the windows with a kill are as much longer, or more.
    p: f64,
}

/// What a shard came to.
#[derive(Serialize, Clone, Debug, Default)]
struct Row {
    shard: String,
    symbol: String,
    kills: usize,
    requests_sent: u64,
    requests_answered: u64,
    requests_lost: u64,
    answered_twice: u64,
    books_equal: bool,
    books_compared: u64,
    told: Told,
    logged: Told,
    /// While the leader of another shard was killed: unchanged.
    others_killed: Compared,
    /// While its own was, the control: longer.
    own_killed: Compared,
    /// Guests, while the leader of their home was killed: their reports wait for it.
    guests_home_killed: Compared,
    problems: Vec<String>,
}

/// What the command prints.
#[derive(Serialize, Clone, Debug)]
struct Report {
    profile: String,
    seed: u64,
    machines: usize,
    rate_per_s: u64,
    window_ms: u64,
    shards: Vec<Row>,
    complaints: Vec<String>,
}

/// Runs the box.
///
/// # Errors
/// [`Failure::Unavailable`] where it can't be made; what went wrong in it.
pub fn run(args: &ShardsArgs) -> Result<(), Failure> {
    let profile = super::profile(&args.profile)?;
    let shape = Shape {
        name: MAIN,
        depth: 2,
        hedge: 1,
        edges: args.edges,
        fanout: 2,
        standby: 0,
        segment_mib: SEGMENT_MIB,
        asymmetry_us: STARTING_US,
    };
    let settings = venue(&shape, "huygens", true);
    let proxies = {
        let read =
            host::config::Loaded::text("box", &settings).and_then(host::config::Loaded::finish)?;
        host::deployment::proxies(&read)
    };
    let hosts = args.roots * u32::from(args.shards) + proxies + args.edges + 1;
    let network = start(hosts, profile, args.seed)?;
    if args.out.exists() {
        std::fs::remove_dir_all(&args.out).map_err(|error| on(&args.out, error))?;
    }
    let own = std::env::current_exe().map_err(io)?;
    let plan = Plan {
        venue: settings,
        roots: args.roots as usize,
        shards: args.shards,
        offset_us: 10_000,
        drift_ppb: 50_000,
        seed: args.seed,
        ipv6: false,
        web: false,
        disks: false,
        snapshots: false,
        idle: 0,
        scale: Default::default(),
        hosts: Vec::new(),
        programs: [own.clone(), own],
    };
    let mut site = Site::start(&network, &plan, &args.out)?;
    let machines = site.file.nodes.len();
    if !args.json {
        eprintln!("{machines} machines of {} shards are up", args.shards);
    }
    // Of each shard those at home there, then its guests.
    let begin = |(at, flow): (u64, Flow)| {
        let rate = args.rate * flow.numbers.len() as u64 / u64::from(COUNT);
        let seeded = (rate.max(1), args.seed + at);
        Participants::start_flow(&site, (&flow, seeded), LONGEST, Default::default())
    };
    let flows = (0..args.shards).flat_map(|shard| flows(shard, args.shards));
    let trading = (0..).zip(flows).map(begin).collect::<Result<Vec<_>, _>>()?;
    trading.iter().try_for_each(Participants::wait_for_trading)?;
    std::thread::sleep(WARM);
    // One process: all loads read one clock.
    let clock = trading[0].clock;
    let mut windows = Vec::new();
    for time in 0..args.times {
        for shard in (0..args.shards).map(ShardId) {
            for killed in [None, Some(shard)] {
                let from = clock.now();
                if let Some(shard) = killed {
                    kill_leader(&site, shard, args.lasts)?;
                }
                let spent = Duration::from_nanos(clock.now().since(from));
                std::thread::sleep(args.window.saturating_sub(spent));
                let to = from.after(args.window.as_nanos() as u64);
                windows.push(Window { from, to, killed });
                if let Some(shard) = killed {
                    wait_back(&site, shard)?;
                    if !args.json {
                        let (name, of) = (site.file.of_shard(shard).shard_name(), args.times);
                        eprintln!("{name}: leader killed {} of {of} times", time + 1);
                    }
                }
            }
        }
    }
    let loads = Participants::end_all(trading)?;
    let leaders = site.file.shard_ids().map(|shard| site.leader_of(shard));
    let leaders = leaders.collect::<Result<Vec<_>, _>>()?;
    let listeners = site.end()?;
    let mut rows = Vec::new();
    for ((shard, loads), leader) in site.file.shard_ids().zip(loads.chunks(2)).zip(leaders) {
        let [load, guests] = loads else { continue };
        let log = measure::log_of(&site, (shard, leader), &listeners, None)?;
        let mut problems = log.problems;
        problems.extend(log.gaps);
        let home = ShardId((shard.0 + 1) % args.shards);
        let all = [load.counts(), guests.counts()];
        let sum = |of: fn(&LoadCounts) -> u64| all.iter().map(of).sum::<u64>();
        rows.push(Row {
            shard: site.file.of_shard(shard).shard_name(),
            symbol: SYMBOLS[usize::from(shard.0)].to_string(),
            kills: windows.iter().filter(|window| window.killed == Some(shard)).count(),
            requests_sent: sum(|of| of.asked),
            requests_answered: sum(|of| of.answered),
            requests_lost: sum(|of| of.lost),
            answered_twice: sum(|of| of.duplicates + of.stray),
            books_equal: log.books_equal,
            books_compared: log.positions,
            told: both(Told::clients(&all[0]), Told::clients(&all[1])),
            logged: log.told,
            others_killed: compared(load, &windows, args.seed, |of| of != shard),
            own_killed: compared(load, &windows, args.seed, |of| of == shard),
            guests_home_killed: compared(guests, &windows, args.seed, |of| of == home),
            problems,
        });
    }
    let complaints: Vec<String> = rows.iter().flat_map(complaints).collect();
    let report = Report {
        profile: args.profile.clone(),
        seed: args.seed,
        machines,
        rate_per_s: args.rate,
        window_ms: args.window.as_millis() as u64,
        shards: rows,
        complaints: complaints.clone(),
    };
    drop(site);
    told(&report, args.json, print, &complaints)
}

/// Who trades on a shard: participants whose account is at home there, and a guest from the next shard.
fn flows(shard: u16, shards: u16) -> [Flow; 2] {
    let homes = |home: u16| {
        let at_home = |number: &u32| (number - 1) % u32::from(shards) == u32::from(home);
        let mut at_home: Vec<u32> = (1..=COUNT).filter(at_home).collect();
        let guest = at_home.pop();
        (at_home, guest)
    };
    let flow = |numbers: Vec<u32>| Flow {
        symbol: SYMBOLS[usize::from(shard)].to_string(),
        middle_ticks: MIDDLE_TICKS,
        numbers,
    };
    let guest = homes((shard + 1) % shards).1;
    [flow(homes(shard).0), flow(guest.into_iter().collect())]
}

/// What two were told, together.
pub fn both(one: Told, other: Told) -> Told {
    Told {
        accepted: one.accepted + other.accepted,
        replaced: one.replaced + other.replaced,
        canceled: one.canceled + other.canceled,
        cancels_rejected: one.cancels_rejected + other.cancels_rejected,
        rejected: one.rejected + other.rejected,
        executions: one.executions + other.executions,
        executed_lots: one.executed_lots + other.executed_lots,
        expired: one.expired + other.expired,
    }
}

/// Kills the process of the root that leads a shard, and starts it again after a while.
fn kill_leader(site: &Site<'_>, shard: ShardId, lasts: Duration) -> Result<(), Failure> {
    let place = site.leader_of(shard)?;
    site.kill(place);
    std::thread::sleep(lasts);
    site.revive(place)
}

/// Waits until all roots of a shard are up and have its log.
fn wait_back(site: &Site<'_>, shard: ShardId) -> Result<(), Failure> {
    site.roots_of(shard).into_iter().try_for_each(|place| site.wait_for(place, BACK_MAX))
}

/// Times from when a request was due to its answer, of the requests due in a window, ns.
fn waits(load: &Load, window: &Window) -> Vec<u64> {
    let all = load.seen().flatten().filter_map(|(at, what)| match what {
        Seen::Answered { due, .. } if *due >= window.from && *due < window.to => {
            Some(at.since(*due))
        }
        _ => None,
    });
    all.collect()
}

fn p99(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    let rank = (values.len() * 99).div_ceil(100).max(1);
    values.get(rank - 1).copied().unwrap_or(0)
}

/// A shard's windows without a kill, beside those in which the leader of a shard was killed that `counts`.
fn compared(
    load: &Load,
    windows: &[Window],
    seed: u64,
    counts: impl Fn(ShardId) -> bool,
) -> Compared {
    let of = |wanted: &dyn Fn(Option<ShardId>) -> bool| {
        let waited: Vec<Vec<u64>> = windows
            .iter()
            .filter(|window| wanted(window.killed))
            .map(|window| waits(load, window))
            .collect();
        let all = p99(&mut waited.concat());
        let each = waited.into_iter().map(|mut waits| p99(&mut waits));
        (each.collect::<Vec<u64>>(), all)
    };
    let (quiet, quiet_all) = of(&|killed: Option<ShardId>| killed.is_none());
    let (killed, killed_all) = of(&|killed: Option<ShardId>| killed.is_some_and(&counts));
    Compared {
        p: permuted(&quiet, &killed, seed),
        quiet_p99_ns: quiet,
        killed_p99_ns: killed,
        quiet_all_p99_ns: quiet_all,
        killed_all_p99_ns: killed_all,
    }
}

/// Share of permutations of the values in which those of the second list rank as high or higher together:
/// a permutation test of ranks (Mann and Whitney), so one long wait for a core decides nothing.
fn permuted(one: &[u64], other: &[u64], seed: u64) -> f64 {
    let mut all: Vec<u64> = one.iter().chain(other).copied().collect();
    let rank = |of: &[u64]| -> usize {
        of.iter().map(|value| one.iter().chain(other).filter(|lower| *lower < value).count()).sum()
    };
    let found = rank(other);
    let mut random = SplitMix64::new(seed);
    let mut as_high = 0;
    for _ in 0..PERMUTATIONS {
        for at in (1..all.len()).rev() {
            all.swap(at, (random.next_u64() % (at as u64 + 1)) as usize);
        }
        as_high += usize::from(rank(&all[one.len()..]) >= found);
    }
    as_high as f64 / PERMUTATIONS as f64
}

/// What is wrong with a shard.
fn complaints(row: &Row) -> Vec<String> {
    let name = &row.shard;
    let mut all = Vec::new();
    let mut wrong = |is: bool, what: String| all.extend(is.then(|| format!("{name}: {what}")));
    wrong(row.requests_sent == 0, "run: nothing was sent".to_string());
    let lost = row.requests_lost.max(row.requests_sent.saturating_sub(row.requests_answered));
    wrong(lost > 0, format!("lost: {lost} requests have no answer"));
    wrong(row.answered_twice > 0, format!("twice: {} answers too many", row.answered_twice));
    wrong(
        row.told != row.logged,
        format!("told: participants heard {:?}, and the log says {:?}", row.told, row.logged),
    );
    wrong(!row.books_equal, format!("books: they differ: {}", row.problems.join("; ")));
    wrong(row.books_equal && row.books_compared == 0, "books: none were compared".to_string());
    let ms = |ns: u64| ns as f64 / 1e6;
    let Compared { quiet_all_p99_ns, killed_all_p99_ns, p, .. } = row.others_killed;
    wrong(
        p < ALPHA,
        format!(
            "others: p99 {:.1} ms while another shard's leader was killed, {:.1} ms without, p {p:.4}",
            ms(killed_all_p99_ns),
            ms(quiet_all_p99_ns)
        ),
    );
    all
}

fn print(report: &Report) {
    let ms = |ns: u64| ns as f64 / 1e6;
    println!(
        "profile {}, seed {}: {} machines, {} requests/s, windows of {} ms",
        report.profile, report.seed, report.machines, report.rate_per_s, report.window_ms
    );
    for row in &report.shards {
        println!(
            "\n{} ({}): leader killed {} times; requests {}, answered {}, lost {}, twice {}; books {} at {}",
            row.shard,
            row.symbol,
            row.kills,
            row.requests_sent,
            row.requests_answered,
            row.requests_lost,
            row.answered_twice,
            if row.books_equal { "equal" } else { "DIFFER" },
            row.books_compared
        );
        for (what, of) in [
            ("another shard's leader killed", &row.others_killed),
            ("control: its own leader killed", &row.own_killed),
            ("guests: their home's was killed", &row.guests_home_killed),
        ] {
            println!(
                "  {what:<31} p99 {:>8.1} ms, without {:>8.1} ms; p {:.4} ({} and {} windows)",
                ms(of.killed_all_p99_ns),
                ms(of.quiet_all_p99_ns),
                of.p,
                of.killed_p99_ns.len(),
                of.quiet_p99_ns.len()
            );
        }
    }
    report.complaints.iter().for_each(|what| println!("{what}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_are_longer_are_told_from_those_that_are_alike() {
        let quiet = [10, 12, 11, 13, 12, 30, 11, 12];
        assert!(permuted(&quiet, &[12, 11, 13, 10], 7) > 0.1, "alike");
        assert!(permuted(&quiet, &[40, 50, 45, 60], 7) < ALPHA, "longer");
        // Shorter is no complaint, and too few windows prove nothing.
        assert!(permuted(&quiet, &[1, 2, 1, 2], 7) > 0.9);
        assert!(permuted(&[10, 11], &[99], 7) > ALPHA);
    }

    #[test]
    fn each_shard_has_participants_at_home_there_and_a_guest() {
        for shards in [2, 3] {
            let all = (0..shards).flat_map(|shard| flows(shard, shards));
            let mut numbers: Vec<u32> = all.flat_map(|flow| flow.numbers).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (1..=COUNT).collect::<Vec<_>>(), "each trades once");
        }
        let [home, guest] = flows(1, 2);
        assert_eq!((home.numbers, guest.numbers), (vec![2, 4, 6], vec![7]));
    }

    fn good() -> Row {
        let told = Told { accepted: 7, ..Told::default() };
        Row {
            shard: "one".to_string(),
            requests_sent: 9,
            requests_answered: 9,
            books_equal: true,
            books_compared: 3,
            told,
            logged: told,
            others_killed: Compared { p: 0.4, ..Compared::default() },
            ..Row::default()
        }
    }

    type Injection = (&'static str, fn(&mut Row));

    #[test]
    fn each_thing_that_may_be_wrong_is_found() {
        assert_eq!(complaints(&good()), [""; 0]);
        let cases: [Injection; 7] = [
            ("lost", |row| row.requests_lost = 1),
            ("lost", |row| row.requests_answered = 8),
            ("twice", |row| row.answered_twice = 1),
            ("told", |row| row.told.accepted = 8),
            ("books", |row| row.books_equal = false),
            ("books", |row| row.books_compared = 0),
            ("others", |row| row.others_killed.p = 0.001),
        ];
        for (word, break_it) in cases {
            let mut row = good();
            break_it(&mut row);
            let found = complaints(&row);
            assert!(
                found.len() == 1 && found[0].starts_with(&format!("one: {word}: ")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn the_99th_percentile_is_the_value_that_99_of_100_are_not_above() {
        assert_eq!(p99(&mut (1..=200).collect::<Vec<_>>()), 198);
        assert_eq!((p99(&mut [7]), p99(&mut [])), (7, 0));
    }
}
