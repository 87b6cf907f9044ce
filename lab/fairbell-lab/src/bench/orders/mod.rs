//! `fairbell-lab bench orders`: a workload of FIX orders from a scenario file, beside what was published of it and
//! beside a bare TCP echo of the same run; or the same at rising rates, with the knee.
//!
//! Every order is immediate or cancel and nothing rests, so each is accepted and cancelled at once. Each has five stamps on its
//! way: due, sent, at the gateway, taken by the engine, heard; and a sixth when the client's program has read the last
//! answer (`bench::rtt::ioc`). What a latency is counts from when the order was due.

mod scenario;
mod sweep;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fairbell::options::duration;
use host::failure::Failure;
use serde::Serialize;
use telemetry::plot;

use super::rtt::ioc::{self, IocFound, Stamps};
use scenario::FIGURES;
pub(crate) use scenario::OrderScenario;
pub(crate) use sweep::{Swept, figure, play};

/// Options of `fairbell-lab bench orders`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench orders scenarios/papers/fx-trading.toml           60 s at 10,000/s, beside 240 and 345 us\n  \
    fairbell-lab bench orders scenarios/papers/aws-prototype.toml --for 10s --json\n  \
    fairbell-lab bench orders scenarios/papers/fx-trading.toml --sweep   rate x clients x bytes, with the knee\n  \
    fairbell-lab bench orders scenarios/papers/fx-trading.toml --rate 20000 --clients 50 --bytes 300 --unpinned")]
pub struct OrdersArgs {
    /// Scenario file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Play rates, clients and sizes of the file's sweep, and find the knees
    #[arg(long)]
    pub sweep: bool,
    /// Length, of each rate of a sweep, too [default: the file's]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub time: Option<Duration>,
    /// Orders a second [default: the file's]
    #[arg(long, value_name = "N", conflicts_with = "sweep", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: Option<u64>,
    /// FIX sessions, of a sweep, too [default: the file's]
    #[arg(long, value_name = "N")]
    pub clients: Option<usize>,
    /// Bytes of an order, of a sweep, too [default: the file's]
    #[arg(long, value_name = "BYTES")]
    pub bytes: Option<usize>,
    /// Exchange and clients run on any core
    #[arg(long)]
    pub unpinned: bool,
    /// Folder of the sweep's figure, SVG and PNG
    #[arg(long, value_name = "DIR", default_value = "out/orders")]
    pub out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Totals of orders in ascending order, ns.
pub(crate) fn totals(stamps: &[Stamps]) -> Vec<u64> {
    let mut all: Vec<u64> = stamps.iter().map(Stamps::total).collect();
    all.sort_unstable();
    all
}

/// The value that so many thousandths of sorted ones do not exceed, ns; NaN of none.
pub(crate) fn quantile(sorted: &[u64], permille: usize) -> f64 {
    if sorted.is_empty() { f64::NAN } else { clock::simulate::quantile(sorted, permille) as f64 }
}

/// Orders a second from the first one's being due to the last answer.
fn completed_per_s(stamps: &[Stamps]) -> f64 {
    let first = stamps.iter().map(|of| of.due).min().unwrap_or(0);
    let last = stamps.iter().map(|of| of.completed).max().unwrap_or(0);
    stamps.len() as f64 * 1e9 / last.saturating_sub(first).max(1) as f64
}

/// A latency beside others.
#[derive(Serialize, Clone, PartialEq, Debug)]
struct Line {
    figure: &'static str,
    us: f64,
    /// Of a bare TCP echo in the same run; none of what it was not taken.
    floor_us: Option<f64>,
    /// Least and most of the source.
    published_us: Option<[f64; 2]>,
}

/// Names of the stages between the stamps.
pub(crate) const STAGES: [&str; 5] =
    ["sender late", "client to gateway", "gateway to engine", "engine to client", "reading"];

#[derive(Serialize, Clone, Debug)]
struct Document<'a> {
    scenario: &'a str,
    rate_per_s: u64,
    clients: usize,
    bytes: [usize; 2],
    pinned: bool,
    seconds: f64,
    orders: usize,
    answered_per_s: f64,
    latency: Vec<Line>,
    /// Median and 99th percentile of each stage, us.
    stages: Vec<(&'static str, f64, f64)>,
}

/// Plays and prints.
///
/// # Errors
/// A file that is no scenario, sockets, orders without their answer.
pub fn run(args: &OrdersArgs) -> Result<(), Failure> {
    let mut scenario = OrderScenario::read(&args.file)?;
    scenario.pinned &= !args.unpinned;
    // What is not played stays as the file has it.
    match args.sweep {
        true => {
            let sweep = &mut scenario.sweep;
            sweep.duration = args.time.unwrap_or(sweep.duration);
            sweep.clients = args.clients.map_or(sweep.clients.clone(), |clients| vec![clients]);
            sweep.bytes = args.bytes.map_or(sweep.bytes.clone(), |bytes| vec![bytes]);
        }
        false => {
            scenario.duration = args.time.unwrap_or(scenario.duration);
            scenario.clients = args.clients.unwrap_or(scenario.clients);
            scenario.bytes = args.bytes.unwrap_or(scenario.bytes);
        }
    }
    scenario.rate = args.rate.unwrap_or(scenario.rate);
    scenario.check().map_err(Failure::Usage)?;
    match args.sweep {
        true => swept(args, &scenario),
        false => once(args, &scenario),
    }
}

fn once(args: &OrdersArgs, scenario: &OrderScenario) -> Result<(), Failure> {
    let found = ioc::measure(scenario.flow(scenario.duration))?;
    let stages = (0..STAGES.len()).map(|at| {
        let mut of: Vec<u64> = found.stamps.iter().map(|stamps| stamps.stages()[at]).collect();
        of.sort_unstable();
        (STAGES[at], quantile(&of, 500) / 1e3, quantile(&of, 990) / 1e3)
    });
    let document = Document {
        scenario: &scenario.name,
        rate_per_s: scenario.rate,
        clients: scenario.clients,
        bytes: found.bytes,
        pinned: scenario.pinned,
        seconds: scenario.duration.as_secs_f64(),
        orders: found.stamps.len(),
        answered_per_s: completed_per_s(&found.stamps),
        latency: lines(scenario, &found),
        stages: stages.collect(),
    };
    if args.json {
        let text = serde_json::to_string_pretty(&document);
        println!("{}", text.map_err(|error| Failure::Run(error.to_string()))?);
        return Ok(());
    }
    println!(
        "{}: {} orders/s from {} FIX clients, {} bytes each, for {} s{}: {} orders, {:.0} answered a second",
        scenario.name,
        scenario.rate,
        scenario.clients,
        found.bytes[0],
        document.seconds,
        if scenario.pinned { ", pinned" } else { "" },
        document.orders,
        document.answered_per_s,
    );
    println!("  us                        ours  floor, TCP echo   published");
    for Line { figure, us, floor_us, published_us } in &document.latency {
        let floor = floor_us.map_or("-".to_string(), |us| format!("{us:.1}"));
        let published = published_us.map_or("-".to_string(), |[from, to]| match from == to {
            true => format!("{from}"),
            false => format!("{from} to {to}"),
        });
        println!("  {figure:<20} {us:>9.1} {floor:>16} {published:>11}");
    }
    println!("  stage, us                  p50       p99");
    for (stage, p50, p99) in &document.stages {
        println!("  {stage:<20} {p50:>9.1} {p99:>9.1}");
    }
    Ok(())
}

fn lines(scenario: &OrderScenario, found: &IocFound) -> Vec<Line> {
    let sorted = totals(&found.stamps);
    let mean = |of: &[u64]| of.iter().map(|ns| *ns as f64).sum::<f64>() / of.len().max(1) as f64;
    let of = |sorted: &[u64], figure: &str| match figure {
        "average" => mean(sorted),
        "least" => quantile(sorted, 0),
        "p50" => quantile(sorted, 500),
        "p95" => quantile(sorted, 950),
        "p99" => quantile(sorted, 990),
        "p99.9" => quantile(sorted, 999),
        _ => quantile(sorted, 1_000),
    };
    let line = |figure: &'static str| Line {
        figure,
        us: of(&sorted, figure) / 1e3,
        floor_us: (!found.floor.is_empty()).then(|| of(&found.floor, figure) / 1e3),
        published_us: (scenario.published.iter())
            .find(|known| known.figure == figure)
            .map(|known| known.us),
    };
    FIGURES.into_iter().map(line).collect()
}

fn swept(args: &OrdersArgs, scenario: &OrderScenario) -> Result<(), Failure> {
    let sweep = &scenario.sweep;
    let told = |of: &Swept| {
        if args.json {
            return;
        }
        println!(
            "{} clients, {} bytes: rate, answered a second, p50 us, p99 us",
            of.clients, of.bytes_sent
        );
        for point in &of.points {
            let [rate, p50, p99] = [point.answered_per_s, point.p50_us, point.p99_us];
            println!("  {:>8} {rate:>10.0} {p50:>10.1} {p99:>10.1}", point.rate);
        }
        match of.knee {
            Some(knee) if knee.beyond => {
                println!("  knee: {}/s, p99 {:.1} us", knee.rate, knee.p99_us)
            }
            Some(knee) => println!("  no knee up to {}/s, p99 {:.1} us", knee.rate, knee.p99_us),
            None => println!("  not even the first rate is carried"),
        }
    };
    let all = play(scenario, (&sweep.clients, &sweep.bytes), sweep.duration, told)?;
    let files = plot::write(&[figure(&all, sweep.knee)], &args.out);
    let files = files.map_err(|error| Failure::Run(format!("{}: {error}", args.out.display())))?;
    match args.json {
        true => println!(
            "{:#}",
            serde_json::json!({ "scenario": scenario.name, "knee_times": sweep.knee, "pinned": scenario.pinned,
                                "seconds_each": sweep.duration.as_secs_f64(), "curves": all, "plots": files })
        ),
        false => files.iter().for_each(|file| println!("{}", file.display())),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figures_and_the_floor_stand_beside_ours() {
        let text = include_str!("../../../../../scenarios/papers/fx-trading.toml");
        let scenario = OrderScenario::parse(text).expect("a scenario");
        let stamps =
            |at: u64| Stamps { due: 1_000, completed: 1_000 + at * 1_000, ..Stamps::default() };
        let all = (1..=100).map(stamps).collect();
        let found = IocFound { stamps: all, floor: vec![7_000; 5], bytes: [1, 2] };
        let lines = lines(&scenario, &found);
        let of = |figure| lines.iter().find(|line| line.figure == figure).expect("a line");
        let p99 = of("p99");
        assert_eq!((p99.us, p99.floor_us, p99.published_us), (99.0, Some(7.0), Some([345.0; 2])));
        assert_eq!((of("average").us, of("average").published_us), (50.5, Some([240.0; 2])));
        assert_eq!((of("least").us, of("largest").us, of("p95").published_us), (1.0, 100.0, None));
        assert!((completed_per_s(&found.stamps) - 1e6).abs() < 1.0);
    }
}
