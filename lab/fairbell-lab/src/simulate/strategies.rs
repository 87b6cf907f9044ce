//! `fairbell-lab sim strategy`: a participant's module in the simulated exchange.

use std::path::PathBuf;

use clap::Args;
use host::failure::{Failure, on};
use serde_json::json;
use sim::strategies::{Options, Report, instruments, run_seed};
use strategy::{Cage, Limits, Module, Programmed, Strategy, heard};

/// Options of `fairbell-lab sim strategy`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab sim strategy out/strategies/maker.wasm --settings \"lots=300 most=3000\"\n  \
    fairbell-lab sim strategy out/strategies/taker.wasm --settings \"lots=100 most=1000\" --orders 550000 --record out/taker.heard\n\n\
    What it asks for must be the same when it is told the same once more, outside the simulator; a record is\n\
    for `fairbell-lab backtest`. Exit code 1: the module was stopped, or a check failed.")]
pub struct StrategySimArgs {
    /// The module
    #[arg(value_name = "MODULE")]
    pub module: PathBuf,
    /// What it is told at its start
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub settings: String,
    /// Orders of the others
    #[arg(long, value_name = "N", default_value_t = 5_000,
          value_parser = clap::value_parser!(u64).range(10..=5_000_000))]
    pub orders: u64,
    /// Of them in a second
    #[arg(long, value_name = "N", default_value_t = 5_000,
          value_parser = clap::value_parser!(u64).range(10..=100_000))]
    pub rate: u64,
    /// Fixes everything
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Keep the record of what it heard and asked for
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl StrategySimArgs {
    fn start(&self) -> Result<Programmed<Cage>, Failure> {
        let bytes = std::fs::read(&self.module).map_err(|error| on(&self.module, error))?;
        let limits = Limits::default();
        let cage = Module::new("module", &bytes, &limits)
            .and_then(|module| Cage::new(&module, &self.settings, &limits));
        let cage = cage.map_err(|error| on(&self.module, error))?;
        let bounds = (limits.actions, limits.unanswered);
        Ok(Programmed::start(cage, (&instruments(), 4), bounds))
    }
}

/// Runs it.
///
/// # Errors
/// The module is none, refused to start or was stopped; a check fails; a replay asks for something else.
pub fn run(args: &StrategySimArgs) -> Result<(), Failure> {
    let options = Options { orders: args.orders, rate_per_s: args.rate, ..Options::default() };
    let report = run_seed(args.seed, &options, Box::new(args.start()?));
    if let Some(path) = &args.record {
        std::fs::write(path, &report.heard).map_err(|error| on(path, error))?;
    }
    let again = args.start()?;
    let replayed = heard::replay(&report.heard, |_, _| Ok(Box::new(again) as Box<dyn Strategy>));
    let replayed = replayed.map_err(|error| Failure::Run(format!("its record: {error}")))?;
    let Report { status, releases, repairs, messages, failures, .. } = &report;
    if args.json {
        let document = json!({
            "seed": args.seed, "messages": messages, "heard": status.messages,
            "orders": status.orders, "cancels": status.cancels, "reports": status.reports,
            "releases_checked": releases, "repairs": repairs, "stopped": status.failure,
            "replay": crate::backtest::replayed_json(&replayed), "failures": failures,
        });
        println!("{document:#}");
    } else {
        println!(
            "seed {}: {} of {messages} messages heard, {releases} releases not before their deadlines, \
             {repairs} repairs\n{} orders, {} cancels, {} reports{}",
            args.seed,
            status.messages,
            status.orders,
            status.cancels,
            status.reports,
            status.failure.as_ref().map_or(String::new(), |why| format!("; stopped: {why}")),
        );
        print!("{}", crate::backtest::replayed(&replayed));
        failures.iter().for_each(|failure| println!("failed: {failure}"));
    }
    let why = match (failures.first(), replayed.is_equal(), &status.failure) {
        (Some(failure), ..) => format!("seed {}: {failure}", args.seed),
        (None, false, _) => "a replay asks for something else".to_string(),
        (None, true, Some(why)) => {
            let why: Vec<&str> = why.split_whitespace().collect();
            format!("{}: stopped: {}", args.module.display(), why.join(" "))
        }
        (None, true, None) => return Ok(()),
    };
    Err(Failure::Run(why))
}
