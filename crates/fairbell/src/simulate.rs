//! `fairbell sim`: whole exchanges in the deterministic simulator, one per seed.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sim::exchange::{Scenario, SeedReport, Summary, run_seeds};

use crate::Failure;
use crate::cli::{DEFAULT_ORDERS, SimArgs};

/// Runs the seeds and prints their sums; fails when a seed does.
pub fn run(args: &SimArgs) -> Result<(), Failure> {
    let seeds = args.seeds();
    let scenario = Scenario { orders: args.orders, ..Scenario::default() };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let bar = progress(seeds.end.saturating_sub(seeds.start));
    let summary = run_seeds(seeds.clone(), threads, &scenario, &|done, failed| {
        bar.set_position(done);
        if failed > 0 {
            bar.set_message(format!("{failed} failed"));
        }
    });
    bar.finish_and_clear();
    if args.json {
        println!("{:#}", document(&summary, &seeds, args.orders));
    } else {
        print(&summary);
        if summary.failed > 0 && args.orders != DEFAULT_ORDERS {
            println!("with these runs' option: --orders {}", args.orders);
        }
    }
    match summary.failed {
        0 => Ok(()),
        failed => Err(Failure::Run(format!("{failed} of {} seeds failed", summary.seeds))),
    }
}

fn progress(seeds: u64) -> ProgressBar {
    let bar = ProgressBar::new(seeds);
    if !std::io::stderr().is_terminal() || seeds < 2 {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{pos}/{len} seeds {wide_bar} {eta} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn print(summary: &Summary) {
    println!("{} seeds, {} failed", summary.seeds, summary.failed);
    for (name, sum) in summary.total.iter() {
        println!("  {:<20} {sum:>14}", name.replace('_', " "));
    }
    summary.reports.iter().for_each(|report| println!("{report}"));
}

fn document(summary: &Summary, seeds: &std::ops::Range<u64>, orders: u64) -> serde_json::Value {
    let sums: serde_json::Map<String, serde_json::Value> =
        summary.total.iter().map(|(name, sum)| (name.to_string(), sum.into())).collect();
    let failures: Vec<serde_json::Value> = summary.reports.iter().map(failed).collect();
    serde_json::json!({
        "first_seed": seeds.start,
        "seeds": summary.seeds,
        "orders_per_seed": orders,
        "failed": summary.failed,
        "sums": sums,
        "failures": failures,
    })
}

fn failed(report: &SeedReport) -> serde_json::Value {
    let reasons = report.failures.iter().map(|failure| {
        serde_json::json!({ "checker": failure.checker.name(), "reason": failure.reason })
    });
    serde_json::json!({ "seed": report.seed, "failures": reasons.collect::<Vec<_>>() })
}
