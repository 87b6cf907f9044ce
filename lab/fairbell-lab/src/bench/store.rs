//! The post-trade store fed with a generated log, beside the engine alone on the same log.
//!
//! Both replay the same inputs in turns, in one thread, so that they meet the same machine; what
//! the store adds is the shaping of rows and SQLite. The file is written as while an exchange runs:
//! with the write-ahead log, in batches, indexes included.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use engine::{Engine, Output};
use store::{Account, Origin, Query, Store, StoreError, StoreWriter, Table};
use types::Input;

use crate::log::{Generated, generated};
use fairbell::report::numbers::grouped;
use host::failure::{Failure, on};

/// Options of `fairbell-lab bench store`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench store                         orders and rows per second\n  \
    fairbell-lab bench store --commands 1000000 --runs 5 --json")]
pub struct StoreBenchArgs {
    /// Commands of the log
    #[arg(long, value_name = "N", default_value_t = 200_000,
          value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    pub commands: u64,
    /// Turns of each
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Folder for the store's file, which is removed again
    #[arg(long, value_name = "DIR", default_value = "out/bench-store")]
    pub dir: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// One turn of the store.
#[derive(Clone, Copy, Default)]
struct Turn {
    seconds: f64,
    orders: u64,
    trades: u64,
    rows: u64,
    bytes: u64,
}

/// A folder that goes with the run.
struct Removed<'a>(&'a PathBuf);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        // What can't be removed now is made anew next time.
        let _ = std::fs::remove_dir_all(self.0);
    }
}

/// Measures and prints.
pub fn run(args: &StoreBenchArgs) -> Result<(), Failure> {
    let wrong = |error: std::io::Error| on(&args.dir, error);
    std::fs::create_dir_all(&args.dir).map_err(wrong)?;
    let _files = Removed(&args.dir);
    let inputs: Vec<Input> =
        Generated::new(1, args.commands).take(args.commands as usize).collect();
    let (mut alone, mut kept) = (Vec::new(), Vec::new());
    for turn in 0..args.runs {
        alone.push(replay(&inputs));
        let file = args.dir.join(format!("{turn}.db"));
        kept.push(keep(&file, &inputs).map_err(|error| on(&file, error))?);
        std::fs::remove_file(&file).map_err(wrong)?;
    }
    alone.sort_by(f64::total_cmp);
    kept.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let engine = alone.get(alone.len() / 2).copied().unwrap_or_default();
    let store = kept.get(kept.len() / 2).copied().unwrap_or_default();
    let per_s = |count: u64, seconds: f64| (count as f64 / seconds.max(1e-9)).round();
    let document = serde_json::json!({
        "commands": args.commands,
        "runs": args.runs,
        "engine_seconds": engine,
        "engine_inputs_per_s": per_s(args.commands, engine),
        "store_seconds": store.seconds,
        "store_inputs_per_s": per_s(args.commands, store.seconds),
        "orders": store.orders,
        "trades": store.trades,
        "rows": store.rows,
        "orders_per_s": per_s(store.orders, store.seconds),
        "rows_per_s": per_s(store.rows, store.seconds),
        "bytes_per_row": store.bytes as f64 / store.rows.max(1) as f64,
        "times_the_engine": store.seconds / engine.max(1e-9),
    });
    if args.json {
        println!("{document:#}");
        return Ok(());
    }
    let rate = |key: &str| grouped(document[key].as_f64().unwrap_or(0.0) as u64);
    println!("engine alone   {} inputs/s", rate("engine_inputs_per_s"));
    println!(
        "with store     {} inputs/s, {} orders/s, {} rows/s: {:.1} times the engine's time",
        rate("store_inputs_per_s"),
        rate("orders_per_s"),
        rate("rows_per_s"),
        store.seconds / engine.max(1e-9)
    );
    println!(
        "{} orders, {} trades, {} rows of {:.0} bytes; medians of {} turns",
        grouped(store.orders),
        grouped(store.trades),
        grouped(store.rows),
        document["bytes_per_row"].as_f64().unwrap_or(0.0),
        args.runs
    );
    Ok(())
}

/// Seconds of the engine alone.
fn replay(inputs: &[Input]) -> f64 {
    let (mut engine, mut out) = (Engine::new(generated::config()), Output::default());
    let started = Instant::now();
    for input in inputs {
        out.clear();
        let _ = engine.apply(input, &mut out);
    }
    started.elapsed().as_secs_f64()
}

fn keep(file: &std::path::Path, inputs: &[Input]) -> Result<Turn, StoreError> {
    let config = generated::config();
    let origin = Origin {
        rules_version: engine::RULES_VERSION,
        config_digest: config.digest(),
        log: 1,
        session: "BENCH".to_string(),
        midnight: 0,
    };
    let account = |id: usize| Account { id: id as u16, name: id.to_string(), ..Account::default() };
    let accounts: Vec<Account> = (1..=config.accounts_max).map(account).collect();
    let started = Instant::now();
    let store = Store::open(file, &origin, &accounts, &config.instruments)?;
    let mut keeper = StoreWriter::new(store, config)?;
    for input in inputs {
        keeper.take(input)?;
    }
    keeper.flush()?;
    let rows = keeper.rows();
    keeper.into_parts().1.close()?;
    let seconds = started.elapsed().as_secs_f64();
    let bytes = std::fs::metadata(file).map_or(0, |file| file.len());
    let query = Query::open(file)?;
    let (orders, trades) = (query.count(Table::Orders)?, query.count(Table::Trades)?);
    Ok(Turn { seconds, orders, trades, rows, bytes })
}
