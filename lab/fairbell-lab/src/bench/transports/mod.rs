//! Gateway to engine and back over five transports, the same orders and the same engine: our own
//! reliable datagrams, a Redis list with LMOVE, one with pipelined LPOP, and ZeroMQ's REQ and DEALER.
//!
//! Every transport plays slices in turn with the others, so that all meet the same machine; who
//! begins changes from round to round. The timetable is open loop: latency counts from when an order
//! was due, and a sender that must wait for an answer before it may send again is charged with the
//! waiting. The bytes of orders and reports are the same, sockets are loopback's, nobody encrypts,
//! and whoever waits sleeps in the kernel. Ours is the whole root: ingress, sequencer without a
//! window, log, engine, feed and private streams; behind the others log and engine alone do the work.

mod engine_host;
#[cfg(test)]
mod list_server;
mod ours;
mod redis_lists;
mod resp;
mod tally;
#[cfg(feature = "transports")]
mod zeromq;

use std::time::Duration;

use clap::Args;
use telemetry::Recorder;
use types::Nanos;

use fairbell::options::duration;
use fairbell::report::numbers;
use fairbell::up::report_quantiles;
use host::failure::Failure;
use tally::{Slice, Timetable};

/// Options of `fairbell-lab bench transports`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    scripts/bench-transports.sh              builds with ZeroMQ, starts a Redis, runs all five\n  \
    fairbell-lab bench transports --redis 127.0.0.1:6379 --rate 1000 --json\n\n\
    ZeroMQ is in builds with the feature `transports` only; others leave it out and say so.")]
pub struct TransportsArgs {
    /// Address of a Redis server (7.0 or later) whose lists fairbell:* may be used
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
    pub redis: String,
    /// Orders and cancels per second, open loop
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: u64,
    /// Length of one slice
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "3s")]
    pub slice: Duration,
    /// Slices of each transport
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub slices: u32,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl TransportsArgs {
    /// What a slice of these options is.
    ///
    /// # Errors
    /// Too few requests or more than the log can hold.
    fn timetable(&self) -> Result<Timetable, Failure> {
        let requests = u128::from(self.rate) * self.slice.as_nanos() / u128::from(Nanos::SECOND);
        let most = engine_host::REQUESTS_MAX;
        let requests = u32::try_from(requests).ok().filter(|n| (2..=most).contains(n));
        let requests = requests.ok_or_else(|| {
            Failure::Usage(format!("--slice: a slice must have 2 to {most} requests"))
        })?;
        Ok(Timetable { rate: self.rate, requests })
    }

    #[cfg(test)]
    fn of_a_test() -> TransportsArgs {
        TransportsArgs {
            redis: String::new(),
            rate: 1_000,
            slice: Duration::from_millis(300),
            slices: 1,
            json: true,
        }
    }
}

type Play = fn(&TransportsArgs, Timetable) -> Result<Slice, Failure>;

/// Name of each transport, and how a slice of it is played.
const TRANSPORTS: &[(&str, Play)] = &[
    ("ours", ours::play),
    ("redis_lmove", redis_lists::play_lmove),
    ("redis_lpop_pipelined", redis_lists::play_lpop),
    #[cfg(feature = "transports")]
    ("zeromq_req", zeromq::play_req),
    #[cfg(feature = "transports")]
    ("zeromq_dealer", zeromq::play_dealer),
];

/// Published by the source for the whole round trip of an order, client to gateway to engine and
/// back in FIX over its brokerless transport, at 10,000/s: lowest and highest median and 99th
/// percentile of its instance types, us.
const SOURCE_US: [[u64; 2]; 2] = [[55, 124], [75, 157]];

/// All slices of a transport.
#[derive(Default)]
struct Found {
    all: Recorder,
    /// Median and 99th percentile of each slice, ns.
    slices: Vec<[u64; 2]>,
    unanswered: u64,
    wrong: u64,
}

impl Found {
    fn take(&mut self, slice: &Slice) {
        self.all.merge(&slice.latency);
        self.slices.push([slice.latency.quantile(0.5), slice.latency.quantile(0.99)]);
        self.unanswered += slice.unanswered;
        self.wrong += slice.wrong;
    }

    /// Least and most of a slice's figure (0: median, 1: 99th percentile), ns.
    fn range(&self, figure: usize) -> [u64; 2] {
        let of = |slice: &[u64; 2]| slice[figure.min(1)];
        let (least, most) = (self.slices.iter().map(of).min(), self.slices.iter().map(of).max());
        [least.unwrap_or(0), most.unwrap_or(0)]
    }
}

/// Measures and prints.
///
/// # Errors
/// No Redis at the address, no sockets, or requests without their answer.
pub fn run(args: &TransportsArgs) -> Result<(), Failure> {
    if !cfg!(feature = "transports") {
        eprintln!("no ZeroMQ in this build: scripts/bench-transports.sh makes one that has it");
    }
    let found = play(args)?;
    match args.json {
        true => print_json(args, &found),
        false => print(&found),
    }
    let unanswered: u64 = found.iter().map(|found| found.unanswered).sum();
    let wrong: u64 = found.iter().map(|found| found.wrong).sum();
    if unanswered + wrong > 0 {
        let what = format!("{unanswered} requests without an answer, {wrong} wrong answers");
        return Err(Failure::Run(what));
    }
    Ok(())
}

/// All slices of all transports, in turns.
fn play(args: &TransportsArgs) -> Result<Vec<Found>, Failure> {
    let timetable = args.timetable()?;
    let mut found: Vec<Found> = TRANSPORTS.iter().map(|_| Found::default()).collect();
    for round in 0..args.slices {
        for turn in 0..TRANSPORTS.len() {
            let place = (turn + round as usize) % TRANSPORTS.len();
            let (name, play) = TRANSPORTS[place];
            if !args.json {
                eprintln!("slice {} of {}: {name}", round + 1, args.slices);
            }
            found[place].take(&play(args, timetable)?);
        }
    }
    Ok(found)
}

/// A transport, and median and 99th percentile of each of its slices, ns.
type NamedSlices = (&'static str, Vec<[u64; 2]>);

/// For each transport of this build median and 99th percentile of its slices, ns.
///
/// # Errors
/// No Redis at the address, no sockets, or requests without their answer.
pub(crate) fn measure(
    redis: &str,
    rate: u64,
    slice: Duration,
    slices: u32,
) -> Result<Vec<NamedSlices>, Failure> {
    let args = TransportsArgs { redis: redis.to_string(), rate, slice, slices, json: true };
    let found = play(&args)?;
    if let Some(of) = found.iter().find(|of| of.unanswered + of.wrong > 0) {
        let what = format!("{} requests unanswered, {} wrong", of.unanswered, of.wrong);
        return Err(Failure::Run(what));
    }
    Ok(TRANSPORTS.iter().zip(found).map(|((name, _), of)| (*name, of.slices)).collect())
}

/// Median and 99th percentile as multiples of the first transport's, ours.
fn to_ours(found: &[Found], of: &Found) -> [f64; 2] {
    let ours = found.first().unwrap_or(of);
    let ratio = |q: f64| of.all.quantile(q) as f64 / ours.all.quantile(q).max(1) as f64;
    [ratio(0.5), ratio(0.99)]
}

fn print_json(args: &TransportsArgs, found: &[Found]) {
    let rows = TRANSPORTS.iter().zip(found).map(|((name, _), of)| {
        let [p50, p99] = to_ours(found, of);
        serde_json::json!({
            "transport": name,
            "latency_ns": report_quantiles(&of.all.summary()),
            "slices_p50_p99_ns": of.slices,
            "unanswered": of.unanswered,
            "wrong": of.wrong,
            "p50_to_ours": p50,
            "p99_to_ours": p99,
        })
    });
    let document = serde_json::json!({
        "seed": 0,
        "rate_per_s": args.rate,
        "slice_ns": u64::try_from(args.slice.as_nanos()).unwrap_or(u64::MAX),
        "slices": args.slices,
        "transports": rows.collect::<Vec<_>>(),
        "source_p50_ns": SOURCE_US[0].map(|us| us * 1_000),
        "source_p99_ns": SOURCE_US[1].map(|us| us * 1_000),
    });
    println!("{document:#}");
}

fn print(found: &[Found]) {
    println!(
        "order due to answered, us        p50        p99      p99.9         p50 of slices         \
         p99 of slices  p50 to ours  p99 to ours"
    );
    for ((name, _), of) in TRANSPORTS.iter().zip(found) {
        let all = of.all.summary();
        let [p50, p99, p999] = [all.p50, all.p99, all.p999].map(numbers::micros);
        let [medians, tails] = [0, 1].map(|figure| {
            let [least, most] = of.range(figure).map(numbers::micros);
            format!("{least}-{most}")
        });
        let [median, tail] = to_ours(found, of);
        let missing = match of.unanswered + of.wrong {
            0 => String::new(),
            _ => format!("  {} unanswered, {} wrong", of.unanswered, of.wrong),
        };
        println!(
            "  {name:<22} {p50:>10} {p99:>10} {p999:>10} {medians:>21} {tails:>21} \
             {median:>11.2}x {tail:>11.2}x{missing}"
        );
    }
    let [median, tail] = SOURCE_US.map(|[least, most]| format!("{least}-{most}"));
    println!("  {:<22} {median:>10} {tail:>10}", "the source, with FIX");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_of_ours_answers_every_request() {
        let timetable = Timetable { rate: 1_000, requests: 300 };
        let slice = ours::play(&TransportsArgs::of_a_test(), timetable).unwrap();
        assert_eq!((slice.unanswered, slice.wrong), (0, 0));
        assert_eq!(slice.latency.count(), timetable.timed());
    }

    #[cfg(feature = "transports")]
    #[test]
    fn a_slice_of_zeromq_answers_every_request() {
        let timetable = Timetable { rate: 1_000, requests: 300 };
        for play in [zeromq::play_req, zeromq::play_dealer] {
            let slice = play(&TransportsArgs::of_a_test(), timetable).unwrap();
            assert_eq!((slice.unanswered, slice.wrong), (0, 0));
            assert_eq!(slice.latency.count(), timetable.timed());
        }
    }

    #[test]
    fn a_slice_has_requests_and_not_more_than_the_log_holds() {
        let of = |rate, slice| TransportsArgs { rate, slice, ..TransportsArgs::of_a_test() };
        let requests = of(10_000, Duration::from_secs(3)).timetable().unwrap().requests;
        assert_eq!(requests, 30_000);
        assert!(of(1, Duration::from_secs(1)).timetable().is_err());
        assert!(of(1_000_000, Duration::from_secs(2)).timetable().is_err());
    }

    #[test]
    fn slices_become_a_distribution_and_ranges() {
        let slice = |ns| {
            let mut latency = Recorder::new();
            latency.record(ns);
            Slice { latency, unanswered: 0, wrong: 0 }
        };
        let mut found = [Found::default(), Found::default()];
        for (of, ns) in [(0, 50_000), (0, 30_000), (1, 60_000), (1, 90_000)] {
            found[of].take(&slice(ns));
        }
        let ours = [30_000, 50_000].map(|ns| slice(ns).latency.quantile(0.5));
        assert_eq!((found[0].range(0), found[0].range(1)), (ours, ours));
        let [median, tail] = to_ours(&found, &found[1]);
        assert!((1.9..2.1).contains(&median) && (1.7..1.9).contains(&tail), "{median} {tail}");
    }
}
