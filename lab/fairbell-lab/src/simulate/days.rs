//! `fairbell-lab sim days`: a venue over many days without a restart, settled every day.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;
use fairbell::options::seeds;
use host::failure::Failure;
use serde_json::{Value, json};
use sim::days::{Counts, Options, Report, Sabotage, engine_config, run_seed, run_seeds};
use store::{Account, Filter, Origin, Place, Query, Store, StoreWriter};

use super::{progress, threads, told};

/// Options of `fairbell-lab sim days`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab sim days                          seven days, one seed\n  \
    fairbell-lab sim days --days 7 --seed 42 --json\n  \
    fairbell-lab sim days --seeds 0..100           many weeks, their sums\n\n\
    Each day the books of all listeners, the statements, each trader's own ledger and the store have to tell\n\
    of the same; an instrument is listed, one delisted, ticks change, proxies and connections fail.")]
pub struct DaysArgs {
    /// Days without a restart
    #[arg(long, value_name = "N", default_value_t = 7,
          value_parser = clap::value_parser!(u32).range(2..=100))]
    pub days: u32,
    /// This seed
    #[arg(long, value_name = "S", default_value_t = 1, conflicts_with = "seeds")]
    pub seed: u64,
    /// Many seeds, first..last, the last one not included; the store is made for one seed alone
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    pub seeds: Option<Range<u64>>,
    /// Requests of each day
    #[arg(long, value_name = "N", default_value_t = 400,
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub requests: u32,
    /// Keep the post-trade store of the seed in this file [default: it is removed]
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    pub store: Option<PathBuf>,
    /// A seeded bug, which the checks have to find
    #[arg(long, value_name = "NAME")]
    pub bug: Option<Bug>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Seeded bugs.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// An edge goes on with the first day's session
    OldSession,
    /// A trader misses one fill of seven
    ForgetFill,
    /// Of what an edge hands on when a day begins, the last packet and all repairs of it are lost
    LoseOpening,
}

impl Bug {
    fn sabotage(self) -> Sabotage {
        match self {
            Bug::OldSession => Sabotage::OldSession,
            Bug::ForgetFill => Sabotage::ForgetFill,
            Bug::LoseOpening => Sabotage::LoseOpening,
        }
    }
}

/// Runs them and prints what came of each day.
pub fn run(args: &DaysArgs) -> Result<(), Failure> {
    let sabotage = args.bug.map(Bug::sabotage);
    let options = Options { days: args.days, requests: args.requests, sabotage };
    if let Some(seeds) = &args.seeds {
        return many(args, seeds.clone(), &options);
    }
    let mut report = run_seed(args.seed, &options);
    let kept = args.store.clone().unwrap_or_else(|| {
        let name = format!("fairbell-days-{}-{}.sqlite", std::process::id(), args.seed);
        std::env::temp_dir().join(name)
    });
    let settled = settle(&mut report, &kept);
    if args.store.is_none() {
        // Nobody else knows it.
        let _ = store::remove(&Place::from(kept.as_path()));
    }
    let settled = settled?;
    match args.json {
        true => println!("{:#}", document(args, &report, &settled)),
        false => print(args, &report, &settled),
    }
    match report.failures.first() {
        None => Ok(()),
        Some(first) => {
            let (days, seed) = (args.days, args.seed);
            let again = format!("fairbell-lab sim days --days {days} --seed {seed}");
            Err(Failure::Run(format!("{again}: {first}")))
        }
    }
}

fn many(args: &DaysArgs, seeds: Range<u64>, options: &Options) -> Result<(), Failure> {
    let bar = progress(seeds.end.saturating_sub(seeds.start), "venues");
    let summary = run_seeds(seeds.clone(), threads(), options, &told(&bar));
    bar.finish_and_clear();
    let found = |(seed, what): &(u64, String)| json!({ "seed": seed, "what": what });
    match args.json {
        true => println!(
            "{:#}",
            json!({
                "days": args.days,
                "first_seed": seeds.start,
                "seeds": summary.seeds,
                "failed": summary.failed,
                "found": summary.found.iter().map(found).collect::<Vec<_>>(),
                "counts": counts(&summary.counts),
            })
        ),
        false => {
            println!("{} venues of {} days, {} failed", summary.seeds, args.days, summary.failed);
            summary.found.iter().for_each(|(seed, what)| println!("  seed {seed}: {what}"));
            super::table(summary.counts.all().into_iter());
        }
    }
    match summary.failed {
        0 => Ok(()),
        failed => Err(Failure::Run(format!("{failed} of {} venues failed", summary.seeds))),
    }
}

/// Feeds the store day by day and holds it against that day's statements; rows compared, by day.
fn settle(report: &mut Report, file: &Path) -> Result<Vec<usize>, Failure> {
    let failed = |error: store::StoreError| Failure::Run(format!("store: {error}"));
    let config = engine_config();
    let accounts: Vec<Account> = (1..=config.accounts_max as u16)
        .map(|id| Account {
            id,
            name: format!("P{}", id - 1),
            comp_id: String::new(),
            firm: String::new(),
        })
        .collect();
    let origin = Origin {
        rules_version: engine::RULES_VERSION,
        config_digest: config.digest(),
        log: 1,
        session: "FAIRBELL01".to_string(),
        midnight: 0,
    };
    let place = Place::from(file);
    store::remove(&place).map_err(failed)?;
    let store = Store::open(&place, &origin, &accounts, &config.instruments).map_err(failed)?;
    let mut writer = StoreWriter::new(store, config.clone()).map_err(failed)?;
    let (mut settled, mut fed, mut wrong) = (Vec::new(), 0, Vec::new());
    for (number, day) in (1..).zip(&report.days) {
        for input in report.log.iter().skip(fed).take(day.inputs as usize - fed) {
            writer.take(input).map_err(failed)?;
        }
        fed = day.inputs as usize;
        writer.flush().map_err(failed)?;
        let query = Query::open(&place).map_err(failed)?;
        // Bought, sold and open orders by account and instrument.
        let mut sums: BTreeMap<(u16, u16), (u64, u64, u64)> = BTreeMap::new();
        let all = Filter::default();
        query
            .trades(&all, |trade| {
                let instrument = trade.instrument as u16;
                if trade.state != "broken" {
                    let qty = trade.qty as u64;
                    sums.entry((trade.buy.account as u16, instrument)).or_default().0 += qty;
                    sums.entry((trade.sell.account as u16, instrument)).or_default().1 += qty;
                }
            })
            .map_err(failed)?;
        for ((account, instrument), counts) in query.counts().map_err(failed)? {
            sums.entry((account, instrument)).or_default().2 = counts.open_orders as u64;
        }
        sums.retain(|_, sum| *sum != (0, 0, 0));
        let mut due: BTreeMap<(u16, u16), (u64, u64, u64)> = BTreeMap::new();
        for ((account, instrument), of) in &day.statements {
            due.insert((account.0, instrument.0), (of.bought, of.sold, of.open_orders));
        }
        due.retain(|_, sum| *sum != (0, 0, 0));
        if sums != due {
            wrong.push(format!("day {number}: the store has {sums:?}, the statements {due:?}"));
        }
        settled.push(due.len());
    }
    writer.into_parts().1.close().map_err(failed)?;
    report.failures.extend(wrong);
    Ok(settled)
}

fn counts(counts: &Counts) -> Value {
    let all = counts.all().into_iter();
    all.map(|(name, count)| (name.replace(' ', "_"), Value::from(count))).collect()
}

fn document(args: &DaysArgs, report: &Report, settled: &[usize]) -> Value {
    let day = |(number, (day, rows)): (usize, (&sim::days::Day, &usize))| {
        json!({
            "day": number + 1,
            "session": String::from_utf8_lossy(&day.session),
            "trades": day.trades,
            "open_orders_at_its_end": day.open,
            "inputs": day.inputs,
            "statements": day.statements.len(),
            "store_rows_equal": rows,
        })
    };
    let days = report.days.iter().zip(settled).enumerate();
    json!({
        "seed": args.seed,
        "days": days.map(day).collect::<Vec<_>>(),
        "counts": counts(&report.counts),
        "failures": report.failures,
        "verdict": if report.failures.is_empty() { "PASS" } else { "FAIL" },
    })
}

fn print(args: &DaysArgs, report: &Report, settled: &[usize]) {
    println!(
        "{:>4}  {:<10} {:>8} {:>12} {:>18}",
        "day", "session", "trades", "orders kept", "settled with store"
    );
    for (number, (day, rows)) in report.days.iter().zip(settled).enumerate() {
        let session = String::from_utf8_lossy(&day.session).into_owned();
        println!("{:>4}  {session:<10} {:>8} {:>12} {rows:>18}", number + 1, day.trades, day.open);
    }
    println!();
    super::table(report.counts.all().into_iter());
    println!();
    report.failures.iter().for_each(|failure| println!("{failure}"));
    let verdict = if report.failures.is_empty() { "PASS" } else { "FAIL" };
    println!("{verdict}: seed {}, {} of {} days settled", args.seed, report.days.len(), args.days);
}
