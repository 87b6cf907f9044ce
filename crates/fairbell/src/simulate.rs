//! `fairbell sim`: whole exchanges in the deterministic simulator, one per seed; random scenarios,
//! scenarios from files, and attacks.

use std::io::IsTerminal;
use std::ops::Range;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use sim::exchange::{Figures, Scenario, SeedReport, Summary, run_seeds};

use crate::cli::{DEFAULT_ORDERS, SimArgs};
use crate::failure::Failure;

mod attacks;
mod fuzz;
mod replicas;
mod run;
mod scenario;
mod zones;

pub use attacks::AttackArgs;
pub use fuzz::FuzzArgs;
pub use replicas::ReplicasArgs;
pub use zones::ZonesArgs;

/// Other ways to simulate.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Sim {
    /// Random scenarios: every seed another tree, other links, clocks and faults
    Fuzz(FuzzArgs),
    /// A participant up to no good, and what others have to bear of it
    Attack(AttackArgs),
    /// Groups of replicas: crashes, partitions, failing disks, clients that send again
    Replicas(ReplicasArgs),
    /// Groups of replicas in two zones: what each layout costs, and what is left without a zone
    Zones(ZonesArgs),
}

/// Runs the seeds and prints their sums; fails when a seed does.
pub fn run(args: &SimArgs) -> Result<(), Failure> {
    match &args.what {
        Some(Sim::Fuzz(args)) => return fuzz::run(args),
        Some(Sim::Attack(args)) => return attacks::run(args),
        Some(Sim::Replicas(args)) => return replicas::run(args),
        Some(Sim::Zones(args)) => return zones::run(args),
        None => {}
    }
    if let Some(file) = &args.scenario {
        return run::run(args, file);
    }
    let seeds = args.seeds();
    let mut scenario = Scenario { orders: args.orders, ..Scenario::default() };
    if args.orders != DEFAULT_ORDERS {
        scenario.command = format!("fairbell sim --orders {}", args.orders);
    }
    let bar = progress(seeds.end.saturating_sub(seeds.start), "seeds");
    let summary = run_seeds(seeds.clone(), threads(), &scenario, &told(&bar));
    bar.finish_and_clear();
    if args.json {
        let mut document = document(&summary, &seeds);
        document["orders_per_seed"] = args.orders.into();
        println!("{document:#}");
    } else {
        print(&summary);
    }
    verdict(&summary)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |threads| threads.get())
}

fn progress(count: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(count);
    if !std::io::stderr().is_terminal() || count < 2 {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let template = format!("{{pos}}/{{len}} {what} {{wide_bar}} {{eta}} {{msg}}");
    let style = ProgressStyle::with_template(&template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn told(bar: &ProgressBar) -> impl Fn(u64, u64) + Sync + '_ {
    |done, failed| {
        bar.set_position(done);
        if failed > 0 {
            bar.set_message(format!("{failed} failed"));
        }
    }
}

fn verdict(summary: &Summary) -> Result<(), Failure> {
    match summary.failed {
        0 => Ok(()),
        failed => Err(Failure::Run(format!("{failed} of {} seeds failed", summary.seeds))),
    }
}

fn print(summary: &Summary) {
    println!("{} seeds, {} failed", summary.seeds, summary.failed);
    table(summary.total.iter());
    summary.reports.iter().for_each(|report| println!("{report}"));
}

fn table(figures: impl Iterator<Item = (&'static str, u64)>) {
    for (name, sum) in figures {
        println!("  {:<20} {sum:>14}", name.replace('_', " "));
    }
}

fn sums(total: &Figures) -> Value {
    total.iter().map(|(name, sum)| (name.to_string(), Value::from(sum))).collect()
}

fn document(summary: &Summary, seeds: &Range<u64>) -> Value {
    json!({
        "first_seed": seeds.start,
        "seeds": summary.seeds,
        "failed": summary.failed,
        "sums": sums(&summary.total),
        "failures": summary.reports.iter().map(failed).collect::<Vec<_>>(),
    })
}

fn failed(report: &SeedReport) -> Value {
    let reasons =
        report.failures.iter().map(|f| json!({ "checker": f.checker.name(), "reason": f.reason }));
    json!({
        "seed": report.seed,
        "again": report.again,
        "failures": reasons.collect::<Vec<_>>(),
    })
}
