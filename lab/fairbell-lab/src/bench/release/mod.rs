//! Release accuracy: from a deadline to the kernel's transmit stamp, of one receiver on a core of its own.
//!
//! The receiver is that of an edge, behind its link, in the loop that a node hosts it in; packets come to
//! it as from the node above, some 30 ms ahead of their deadlines. Beside it, in alternating slices over the same
//! socket: a bare loop that spins on the clock to deadlines of the same kind and sends (the floor),
//! and, as a control, the receiver in a loop that sleeps. Everything else is on other cores.
//!
//! Stamps are CLOCK_REALTIME, deadlines of the loop's clock; both are the same oscillator at the same
//! rate, so readings of both beside each other before and after a slice give the distance, and half
//! of the closest pair's width how wrong it may be. A deadline at which the core was away (a gap of
//! more than 20 us in the thread's readings of its clock contains it, or the send took more than 50 us)
//! is in the first figures and not in the second.

mod slices;
mod stamps;
mod watch;
mod window;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};
use telemetry::plot::{self, Curve, Figure};

use fairbell::options::{Switch, duration};
use host::failure::Failure;
use slices::{Ground, Slice, WARM_UP, Who};
use window::{Window, window};

/// Options of `fairbell-lab bench release`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench release                        36 s: receiver, floor and control in turns\n  \
    chrt -f 10 fairbell-lab bench release             on a machine that does other work, too\n  \
    fairbell-lab bench release --core 3 --rate 5000 --clock-bound-ns 800 --json")]
pub struct ReleaseArgs {
    /// Time of measurement, all slices together
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "36s")]
    pub duration: Duration,
    /// Deadlines per second
    #[arg(long, value_name = "N", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(10..=20_000))]
    pub rate: u64,
    /// The core of the receiver, which nothing else should run on [default: the last one]
    #[arg(long, value_name = "N")]
    pub core: Option<usize>,
    /// Whether the receiver is behind its link, as in a venue
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    pub sealed: Switch,
    /// How wrong each receiver's clock may be, for the window of many [default: the 99th percentile that
    /// docs/clock.md has for the agents' bound on the links of the paper's Table 1]
    #[arg(long, value_name = "NS", default_value_t = 1_720)]
    pub clock_bound_ns: u64,
    /// Start of what is drawn: distances of deadlines, receivers of a window
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write a plot of the distributions to FOLDER, as SVG and PNG
    #[arg(long, value_name = "FOLDER")]
    pub plot: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Longest slice.
const SLICE_MAX: Duration = Duration::from_secs(2);
/// Receivers whose window is told.
const RECEIVERS: [u32; 3] = [10, 100, 1_000];
/// In which order slices are played; the first one changes from round to round.
const PLAYERS: [Who; 3] = [Who::Receiver, Who::Floor, Who::Sleeping];

/// Measures and prints.
///
/// # Errors
/// No such core; no sockets; a kernel without stamps; datagrams that got lost.
pub fn run(args: &ReleaseArgs) -> Result<(), Failure> {
    let found = measure(args)?;
    let files = match &args.plot {
        Some(folder) => plot::write(&[figure(&found)], folder)
            .map_err(|error| Failure::Run(format!("{}: {error}", folder.display())))?,
        None => Vec::new(),
    };
    match args.json {
        true => println!("{:#}", document(args, &found, &files)),
        false => {
            print(args, &found);
            files.iter().for_each(|file| println!("{}", file.display()));
        }
    }
    Ok(())
}

/// All slices of one kind.
#[derive(Default)]
struct Played {
    /// From deadline to stamp, ns, sorted.
    all: Vec<i64>,
    /// Those at which the core was there.
    undisturbed: Vec<i64>,
    /// Median and 99th percentile of these in each slice, ns.
    slices: Vec<[i64; 2]>,
    /// Gaps in the thread's readings, ns.
    gaps: Vec<u64>,
    /// How long it waited for a core, and how long it had one, ns.
    waited_ns: [u64; 2],
    fed_late: u64,
    uncertainty_ns: u64,
}

impl Played {
    fn add(&mut self, slice: Slice) {
        let there = slice.lateness.iter().filter(|(_, away)| !away);
        let mut there: Vec<i64> = there.map(|(ns, _)| *ns).collect();
        there.sort_unstable();
        self.slices.push([quantile(&there, 500), quantile(&there, 990)]);
        self.undisturbed.append(&mut there);
        self.all.extend(slice.lateness.iter().map(|(ns, _)| ns));
        self.undisturbed.sort_unstable();
        self.all.sort_unstable();
        self.gaps.extend(slice.gaps);
        self.waited_ns = std::array::from_fn(|at| self.waited_ns[at] + slice.waited_ns[at]);
        self.fed_late += slice.fed_late;
        self.uncertainty_ns = self.uncertainty_ns.max(slice.uncertainty_ns);
    }
}

/// What a run found.
struct Found {
    taken: &'static str,
    core: Option<usize>,
    /// Slices of each kind, and deadlines of each that count.
    rounds: u64,
    deadlines: usize,
    /// As [`PLAYERS`].
    played: [Played; 3],
    windows: Vec<Window>,
}

fn measure(args: &ReleaseArgs) -> Result<Found, Failure> {
    let each = args.duration / PLAYERS.len() as u32;
    let rounds = each.as_nanos().div_ceil(SLICE_MAX.as_nanos()).max(1) as u64;
    let deadlines = (u128::from(args.rate) * each.as_nanos() / 1_000_000_000) as usize;
    let deadlines = deadlines / rounds as usize;
    if deadlines < 2 * WARM_UP {
        let least = 2 * WARM_UP;
        return Err(Failure::Usage(format!(
            "--duration: a slice must have {least} deadlines, not {deadlines}"
        )));
    }
    let cores = Cores::part(args.core)?;
    let ground = Ground::new(cores.own, args.sealed == Switch::On, args.rate, deadlines)?;
    let mut played: [Played; 3] = Default::default();
    for round in 0..rounds {
        if !args.json {
            eprintln!("round {} of {rounds}: receiver, floor, sleeping receiver", round + 1);
        }
        for turn in 0..PLAYERS.len() {
            let at = (turn + round as usize) % PLAYERS.len();
            let seed = args.seed.wrapping_mul(1_000).wrapping_add(round);
            played[at].add(ground.play(PLAYERS[at], seed)?);
        }
    }
    let lateness = &played[0].undisturbed;
    let windows = RECEIVERS.iter().filter_map(|n| window(lateness, *n, args.seed)).collect();
    let (taken, core, deadlines) = (ground.taken.name(), cores.own, deadlines - WARM_UP);
    Ok(Found { taken, core, rounds, deadlines, played, windows })
}

/// The receiver's core, and the others for everything else while this lives.
struct Cores {
    before: CpuSet,
    own: Option<usize>,
}

impl Cores {
    fn part(wanted: Option<usize>) -> Result<Cores, Failure> {
        let failed = |error| Failure::Run(format!("which cores there are: {error}"));
        let before = sched_getaffinity(None).map_err(failed)?;
        let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core)).collect();
        if let Some(core) = wanted.filter(|core| !usable.contains(core)) {
            return Err(Failure::Usage(format!("--core: no core {core} here: {usable:?}")));
        }
        // One core is everybody's.
        let own = wanted.or(usable.last().copied()).filter(|_| usable.len() > 1);
        if let Some(own) = own {
            let mut others = before;
            others.unset(own);
            sched_setaffinity(None, &others).map_err(failed)?;
        }
        Ok(Cores { before, own })
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn quantile(sorted: &[i64], permille: usize) -> i64 {
    let at = (sorted.len() * permille).div_ceil(1_000).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0)
}

/// Names of the rows: the kind of slice, and whether all deadlines count.
fn rows(found: &Found) -> [(&'static str, &[i64]); 5] {
    let [receiver, floor, sleeping] = &found.played;
    [
        ("receiver", &receiver.all),
        ("receiver, core there", &receiver.undisturbed),
        ("floor", &floor.all),
        ("floor, core there", &floor.undisturbed),
        ("receiver that sleeps", &sleeping.all),
    ]
}

fn us(ns: i64) -> f64 {
    ns as f64 / 1e3
}

fn ratio(of: &[i64], to: &[i64], permille: usize) -> f64 {
    quantile(of, permille) as f64 / quantile(to, permille).max(1) as f64
}

/// The window that is promised for any number of receivers: each is at most its 99th percentile late, and the
/// clocks of two are at most twice the bound apart.
fn naive_ns(args: &ReleaseArgs, found: &Found) -> i64 {
    quantile(&found.played[0].undisturbed, 990) + 2 * args.clock_bound_ns as i64
}

fn print(args: &ReleaseArgs, found: &Found) {
    let Found { taken, core, rounds, deadlines, played: [receiver, floor, _], .. } = found;
    let core = core.map_or("no core of its own".to_string(), |core| format!("core {core}"));
    println!(
        "deadline to the kernel's transmit stamp ({taken}, software, loopback), us; {core}, {} \
         deadlines/s, {rounds} slices of {deadlines} deadlines each",
        args.rate
    );
    println!("{:<22} deadlines       min       p50       p90       p99     p99.9       max", "");
    for (name, sorted) in rows(found) {
        let at = [0, 500, 900, 990, 999, 1_000].map(|permille| us(quantile(sorted, permille)));
        let columns: String = at.iter().map(|us| format!(" {us:>9.2}")).collect();
        println!("{name:<22} {:>9}{columns}", sorted.len());
    }
    let (of, to) = (&receiver.undisturbed, &floor.undisturbed);
    println!(
        "receiver over floor, core there: {:.2} at p50, {:.2} at p99",
        ratio(of, to, 500),
        ratio(of, to, 990)
    );
    for (name, played) in [("receiver", receiver), ("floor", floor)] {
        let of_slices = |at: usize| {
            let all = played.slices.iter().map(|slice| us(slice[at]));
            let [least, most] = [f64::min, f64::max].map(|pick| all.clone().reduce(pick));
            format!("{:.2} to {:.2}", least.unwrap_or(0.0), most.unwrap_or(0.0))
        };
        println!("{name}, slices: p50 {}, p99 {}", of_slices(0), of_slices(1));
        let [waited, ran] = played.waited_ns.map(|ns| ns as f64 / 1e6);
        let longest = played.gaps.iter().max().map_or(0.0, |ns| *ns as f64 / 1e3);
        println!(
            "{name}: core away at {} of {} deadlines; {} gaps, longest {longest:.1} us; ready without \
             a core for {waited:.1} ms beside {ran:.0} ms on it; {} packets came late",
            played.all.len() - played.undisturbed.len(),
            played.all.len(),
            played.gaps.len(),
            played.fed_late,
        );
    }
    println!(
        "stamps within {} ns of the loop's clock",
        receiver.uncertainty_ns.max(floor.uncertainty_ns)
    );
    let clocks = 2 * args.clock_bound_ns;
    println!(
        "window of receivers with such cores and clocks within {} ns, us (naive sum, whatever \
         their number: {:.2}):",
        args.clock_bound_ns,
        us(naive_ns(args, found))
    );
    for Window { receivers, mean_ns, interval_ns: [low, high] } in &found.windows {
        println!(
            "  {receivers:>5}: {:.2} = {:.2} (95 of 100 in {:.2} to {:.2}) + 2 x clock bound",
            (mean_ns + clocks as f64) / 1e3,
            mean_ns / 1e3,
            us(*low),
            us(*high)
        );
    }
}

fn document(args: &ReleaseArgs, found: &Found, files: &[PathBuf]) -> Value {
    let summary = |sorted: &[i64]| {
        json!({ "count": sorted.len(), "min_ns": quantile(sorted, 0), "p50_ns": quantile(sorted, 500),
                "p90_ns": quantile(sorted, 900), "p99_ns": quantile(sorted, 990),
                "p999_ns": quantile(sorted, 999), "max_ns": quantile(sorted, 1_000) })
    };
    let one = |played: &Played| {
        json!({ "all": summary(&played.all), "core_there": summary(&played.undisturbed),
                "slices_p50_p99_ns": played.slices,
                "core_away": played.all.len() - played.undisturbed.len(), "gaps": played.gaps.len(),
                "gap_max_ns": played.gaps.iter().max(), "waited_ns": played.waited_ns[0],
                "ran_ns": played.waited_ns[1], "fed_late": played.fed_late,
                "uncertainty_ns": played.uncertainty_ns })
    };
    let [receiver, floor, sleeping] = &found.played;
    let clocks = 2 * args.clock_bound_ns;
    let windows = found.windows.iter().map(|window| {
        json!({ "receivers": window.receivers, "mean_ns": window.mean_ns,
                "interval_95_ns": window.interval_ns,
                "with_clocks_ns": window.mean_ns + clocks as f64 })
    });
    let ratios = [500, 990].map(|at| ratio(&receiver.undisturbed, &floor.undisturbed, at));
    json!({
        "bench": "release", "stamps": found.taken, "core": found.core, "rate": args.rate,
        "sealed": args.sealed == Switch::On, "slices": found.rounds, "deadlines": found.deadlines,
        "seed": args.seed, "receiver": one(receiver), "floor": one(floor),
        "sleeping": one(sleeping), "over_floor": { "p50": ratios[0], "p99": ratios[1] },
        "clock_bound_ns": args.clock_bound_ns, "naive_window_ns": naive_ns(args, found),
        "windows": windows.collect::<Vec<_>>(), "plots": files,
    })
}

/// Shares of deadlines by lateness.
fn figure(found: &Found) -> Figure {
    let curve = |(name, sorted): (&str, &[i64])| {
        let point = |permille| (us(quantile(sorted, permille)), permille as f64 / 10.0);
        Curve { name: name.to_string(), points: (0..=990).step_by(10).map(point).collect() }
    };
    let curves = rows(found).into_iter().take(4).map(curve).collect();
    Figure {
        file: "release",
        title: "Deadline to transmit stamp, but for the latest in a hundred".to_string(),
        x: "after the deadline, us",
        y: "deadlines, %",
        curves,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> ReleaseArgs {
        ReleaseArgs {
            duration: Duration::from_millis(600),
            rate: 1_000,
            core: None,
            sealed: Switch::On,
            clock_bound_ns: 1_000,
            seed: 3,
            plot: None,
            json: true,
        }
    }

    #[test]
    fn every_deadline_has_its_stamp_and_none_before_it() {
        for sealed in [Switch::On, Switch::Off] {
            let args = ReleaseArgs { sealed, ..args() };
            let found = measure(&args).expect("stamps");
            for played in &found.played {
                assert_eq!(played.all.len(), 200 - WARM_UP);
                let least = quantile(&played.all, 0);
                assert!(least + played.uncertainty_ns as i64 >= 0, "{least} ns: before its time");
                assert!(played.undisturbed.len() <= played.all.len());
            }
            assert_eq!(found.played[2].undisturbed.len(), 150, "who sleeps loses no core");
            let seen: Vec<u32> = found.windows.iter().map(|window| window.receivers).collect();
            let wider = found.windows.array_windows().all(|[a, b]| a.mean_ns <= b.mean_ns);
            assert!(seen.is_empty() || (seen == RECEIVERS && wider), "{:?}", found.windows);
            let told = document(&args, &found, &[]);
            assert_eq!(told["receiver"]["all"]["count"], 150);
            print(&args, &found);
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let told = |args: ReleaseArgs| measure(&args).map(drop).expect_err("refused").to_string();
        let why = told(ReleaseArgs { duration: Duration::from_millis(30), ..args() });
        assert!(why.contains("a slice must have 100 deadlines, not 10"), "{why}");
        let why = told(ReleaseArgs { core: Some(1_000), ..args() });
        assert!(why.contains("no core 1000 here: [0"), "{why}");
    }

    #[test]
    fn quantiles_are_of_what_is_there() {
        let sorted = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        let all = [0, 100, 500, 900, 990, 1_000].map(|permille| quantile(&sorted, permille));
        assert_eq!(all, [1, 1, 5, 9, 10, 10]);
        assert_eq!(quantile(&[], 500), 0);
        assert_eq!(ratio(&sorted, &[5], 1_000), 2.0);
    }
}
