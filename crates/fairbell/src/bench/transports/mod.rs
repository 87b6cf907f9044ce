//! Gateway to engine and back over four transports, the same orders and the same engine: our own
//! reliable datagrams, a Redis list with LMOVE, one with pipelined LPOP, and ZeroMQ.
//!
//! Every transport plays slices in turn with the others, so that all meet the same machine. The
//! timetable is open loop: latency counts from when an order was due, and a sender that must wait
//! for an answer before it may send again is charged with the waiting. No transport encrypts. Ours
//! is the whole root: ingress, sequencer without a window, log, engine, feed and private streams;
//! behind the others the engine alone does the work.

mod host;
mod ours;
mod redis_lists;
mod resp;
#[cfg(feature = "transports")]
mod zeromq;

use std::time::Duration;

use clap::Args;
use telemetry::Recorder;
use types::Nanos;

use crate::Failure;
use crate::cli::duration;
use crate::report::numbers;
use crate::up::report_quantiles;

/// Options of `fairbell bench transports`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    scripts/bench-transports.sh              builds with the transports, starts Redis, runs this\n  \
    fairbell bench transports --redis 127.0.0.1:6379 --rate 10000 --json\n\n\
    ZeroMQ is in builds with the feature `transports` only.")]
pub struct TransportsArgs {
    /// Address of a Redis server whose lists fairbell:* may be used
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

/// One slice's timetable.
#[derive(Clone, Copy, Debug)]
struct Timetable {
    /// Requests per second.
    rate: u64,
    /// Requests in all.
    requests: u32,
}

impl Timetable {
    /// When request `number` (from 1) is due, from the start of the slice, ns.
    fn due_ns(&self, number: u32) -> u64 {
        u64::from(number.saturating_sub(1)) * Nanos::SECOND / self.rate
    }
}

/// What a slice leaves.
struct Slice {
    latency: Recorder,
    /// Requests without an answer when patience ended.
    lost: u64,
}

/// How long the last answers may take.
const PATIENCE: Duration = Duration::from_secs(10);

type Play = fn(&TransportsArgs, Timetable) -> Result<Slice, Failure>;

/// Name of each transport, and how a slice of it is played.
const TRANSPORTS: &[(&str, Play)] = &[
    ("ours", ours::play),
    ("redis_lmove", redis_lists::play_lmove),
    ("redis_lpop_pipelined", redis_lists::play_lpop),
    #[cfg(feature = "transports")]
    ("zeromq_req_dealer", zeromq::play),
];

/// Published by the source for the whole round trip of an order, client to gateway to engine and
/// back in FIX over its brokerless transport, at 10,000/s: lowest and highest median and 99th
/// percentile of its instance types, us.
const SOURCE_US: [[u64; 2]; 2] = [[55, 124], [75, 157]];

/// Measures and prints.
pub fn run(args: &TransportsArgs) -> Result<(), Failure> {
    if !cfg!(feature = "transports") {
        return Err(Failure::Usage(
            "this build has no ZeroMQ: scripts/bench-transports.sh makes one that has".into(),
        ));
    }
    let requests = u128::from(args.rate) * args.slice.as_nanos() / u128::from(Nanos::SECOND);
    let requests =
        u32::try_from(requests).ok().filter(|requests| (2..=host::MAX).contains(requests));
    let Some(requests) = requests else {
        return Err(Failure::Usage(format!(
            "--slice: a slice must have 2 to {} requests",
            host::MAX
        )));
    };
    let timetable = Timetable { rate: args.rate, requests };
    let mut results: Vec<(Recorder, Vec<[u64; 2]>, u64)> =
        TRANSPORTS.iter().map(|_| (Recorder::new(), Vec::new(), 0)).collect();
    for round in 0..args.slices {
        for ((name, play), (all, slices, lost)) in TRANSPORTS.iter().zip(&mut results) {
            if !args.json {
                eprintln!("slice {} of {}: {name}", round + 1, args.slices);
            }
            let slice = play(args, timetable)?;
            all.merge(&slice.latency);
            slices.push([slice.latency.quantile(0.5), slice.latency.quantile(0.99)]);
            *lost += slice.lost;
        }
    }
    print(args, &results);
    match results.iter().map(|(_, _, lost)| lost).sum() {
        0 => Ok(()),
        lost => Err(Failure::Run(format!("{lost:?} requests without an answer"))),
    }
}

fn print(args: &TransportsArgs, results: &[(Recorder, Vec<[u64; 2]>, u64)]) {
    let ours = results.first().map_or((1, 1), |(all, ..)| (all.quantile(0.5), all.quantile(0.99)));
    let ratio = |of: u64, to: u64| of as f64 / to.max(1) as f64;
    if args.json {
        let rows = TRANSPORTS.iter().zip(results).map(|((name, _), (all, slices, lost))| {
            serde_json::json!({
                "transport": name,
                "latency_ns": report_quantiles(&all.summary()),
                "slices_p50_p99_ns": slices,
                "lost": lost,
                "p50_to_ours": ratio(all.quantile(0.5), ours.0),
                "p99_to_ours": ratio(all.quantile(0.99), ours.1),
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
        return;
    }
    println!(
        "order due to answered, us        p50        p99      p99.9  p50 to ours  p99 to ours"
    );
    for ((name, _), (all, _, lost)) in TRANSPORTS.iter().zip(results) {
        let of = all.summary();
        let [p50, p99, p999] = [of.p50, of.p99, of.p999].map(numbers::micros);
        let (median, tail) = (ratio(of.p50, ours.0), ratio(of.p99, ours.1));
        let lost = if *lost > 0 { format!("  {lost} lost") } else { String::new() };
        println!("  {name:<22} {p50:>10} {p99:>10} {p999:>10} {median:>11.2}x {tail:>11.2}x{lost}");
    }
    let [[low, high], [low99, high99]] = SOURCE_US;
    println!(
        "  {:<22} {:>10} {:>10}",
        "the source, with FIX",
        format!("{low}-{high}"),
        format!("{low99}-{high99}")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_of_ours_answers_every_request() {
        let args = TransportsArgs {
            redis: String::new(),
            rate: 1_000,
            slice: Duration::from_millis(300),
            slices: 1,
            json: true,
        };
        let slice = ours::play(&args, Timetable { rate: 1_000, requests: 300 }).unwrap();
        assert_eq!((slice.latency.count(), slice.lost), (300, 0));
    }

    #[test]
    fn requests_are_due_evenly() {
        let timetable = Timetable { rate: 10_000, requests: 5 };
        assert_eq!([1, 2, 3].map(|n| timetable.due_ns(n)), [0, 100_000, 200_000]);
    }
}
