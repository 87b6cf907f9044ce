//! `fairbell-lab sim`: whole exchanges in the deterministic simulator, one per seed; random scenarios,
//! scenarios from files, and attacks.

use clap::Args;
use fairbell::options::{seed, seeds};
use std::io::IsTerminal;
use std::ops::Range;
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use sim::venue::{Figures, Scenario, SeedReport, Summary, run_seeds};

use host::failure::Failure;

mod attacks;
mod days;
mod fuzz;
mod replicas;
mod run;
mod scenario;
mod shards;
mod soak;
mod strategies;
mod zones;

pub use attacks::AttackArgs;
pub use days::DaysArgs;
pub use fuzz::FuzzArgs;
pub use replicas::ReplicasArgs;
pub use soak::SoakArgs;
pub use strategies::StrategySimArgs;
pub use zones::ZonesArgs;

/// Orders of a simulated seed.
pub const DEFAULT_ORDERS: u64 = 500;

/// Options of `fairbell-lab sim`.
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    fairbell-lab sim                         seeds 0 to 999\n  \
    fairbell-lab sim --seed 42 --orders 2000 one seed again, longer\n  \
    fairbell-lab sim --seeds 0..50 --json    sums as one JSON document\n  \
    fairbell-lab sim fuzz                    ten thousand random scenarios\n  \
    fairbell-lab sim --scenario scenarios/storm.toml   a scenario from a file\n  \
    fairbell-lab sim attack order-spam       an attack and what others have to bear\n  \
    fairbell-lab sim replicas                ten thousand groups of replicas under faults\n\n\
    Every seed is a network with losses, duplicates, reordering and delays. A seed passes when all\n\
    books are equal and every order was answered exactly once."
)]
pub struct SimArgs {
    /// Other ways to simulate
    #[command(subcommand)]
    pub what: Option<crate::simulate::Sim>,
    /// A scenario file: network, faults, participants, length
    #[arg(long, value_name = "FILE", conflicts_with = "orders")]
    pub scenario: Option<PathBuf>,
    /// Folder for the figures of a scenario
    #[arg(long, value_name = "DIR", requires = "scenario", default_value = "out/scenario")]
    pub out: PathBuf,
    /// Seeds to run, first..last, the last one not included [default: 0..1000; of a scenario 0..5]
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    pub seeds: Option<Range<u64>>,
    /// This seed alone
    #[arg(long, value_name = "S", value_parser = seed, conflicts_with = "seeds")]
    pub seed: Option<u64>,
    /// Orders of each seed
    #[arg(long, value_name = "N", default_value_t = DEFAULT_ORDERS,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub orders: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl SimArgs {
    /// The seeds asked for.
    pub fn seeds(&self) -> Range<u64> {
        let usual = 0..if self.scenario.is_some() { 5 } else { 1_000 };
        let seeds = self.seeds.clone().unwrap_or(usual);
        self.seed.map_or(seeds, |seed| seed..seed + 1)
    }
}

/// Other ways to simulate.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Sim {
    /// Random scenarios: every seed another tree, other links, clocks and faults
    Fuzz(FuzzArgs),
    /// A participant up to no good, and what others have to bear of it
    Attack(AttackArgs),
    /// Groups of replicas: crashes, partitions, failing disks, clients that send again
    Replicas(ReplicasArgs),
    /// A venue over many days without a restart: nights, orders that stay, instruments that change
    Days(DaysArgs),
    /// Days of trading with a fault every minute, in minutes: nothing lost, memory flat
    Soak(SoakArgs),
    /// Groups of replicas in two zones: what each layout costs, and what is left without a zone
    Zones(ZonesArgs),
    /// A participant's program beside an edge: what it hears and when, and the same orders again
    Strategy(StrategySimArgs),
}

/// Runs the seeds and prints their sums; fails when a seed does.
pub fn run(args: &SimArgs) -> Result<(), Failure> {
    match &args.what {
        Some(Sim::Fuzz(args)) => return fuzz::run(args),
        Some(Sim::Attack(args)) => return attacks::run(args),
        Some(Sim::Replicas(args)) => return replicas::run(args),
        Some(Sim::Days(args)) => return days::run(args),
        Some(Sim::Soak(args)) => return soak::run(args),
        Some(Sim::Zones(args)) => return zones::run(args),
        Some(Sim::Strategy(args)) => return strategies::run(args),
        None => {}
    }
    if let Some(file) = &args.scenario {
        return run::run(args, file);
    }
    let seeds = args.seeds();
    let mut scenario = Scenario { orders: args.orders, ..Scenario::default() };
    if args.orders != DEFAULT_ORDERS {
        scenario.command = format!("fairbell-lab sim --orders {}", args.orders);
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
