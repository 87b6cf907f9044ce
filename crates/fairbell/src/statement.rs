//! `fairbell statement`: what everybody traded, closing prices, the trade file, and whether log,
//! statements and feed tell of the same.

mod days;

use std::collections::BTreeMap;

use clap::Args;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use engine::statement::{Difference, Ledger, Statement, Tape, TradeLine, reconcile};
use engine::{Engine, Output};
use serde_json::{Value, json};
use types::{AccountId, InstrumentId, Nanos, Price};

use crate::log::{open, progress};
use crate::report::numbers::{grouped, lots};
use host::failure::{Failure, on};
use host::files;

/// Options of `fairbell statement`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell statement --log out/exchange.log                    all participants\n  \
    fairbell statement --log out/exchange.log --participant 3\n  \
    fairbell statement --day 2                                   opening, dealings, closing\n  \
    fairbell statement --day 2026-11-27 --json\n  \
    fairbell statement --log out/exchange.log --trades trades.csv\n  \
    fairbell statement --config cluster.toml --log one/journal --log two/journal    of all shards")]
pub struct StatementArgs {
    /// The log; again for those of a venue's other shards
    #[arg(long, value_name = "FILE", default_value = "out/exchange.log")]
    pub log: Vec<PathBuf>,
    /// Of this account only
    #[arg(long, value_name = "N")]
    pub participant: Option<u16>,
    /// Of one day: its number in the log, from 1, or its date; or all days one by one
    #[arg(long, value_name = "DAY", value_parser = days::wanted)]
    pub day: Option<days::Wanted>,
    /// Write every trade to FILE as CSV
    #[arg(long, value_name = "FILE")]
    pub trades: Option<PathBuf>,
    /// Configuration that the log was written under, or the venue's cluster.toml [default: fairbell.toml when
    /// it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Differences that are shown one by one.
const SHOWN_MAX: usize = 20;

/// What a log comes to.
struct Drawn {
    engine: Engine,
    ledger: Ledger,
    differences: Vec<Difference>,
}

/// Draws up what a log says.
fn draw(path: &Path, args: &StatementArgs, also: &[engine::Config]) -> Result<Drawn, Failure> {
    let opened = open(path, args.config.as_deref(), also)?.whole(path)?;
    let bar = progress(opened.records);
    let (mut engine, mut output) = (Engine::new(opened.config), Output::default());
    let (mut ledger, mut tape) = (Ledger::default(), Tape::default());
    for input in opened.reader {
        let input = input.map_err(|error| on(path, error))?;
        output.clear();
        let _ = engine.apply(&input, &mut output);
        ledger.take_all(&output);
        output.market.iter().for_each(|(_, event)| tape.take(event));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let differences = reconcile(&ledger, &tape, &engine);
    Ok(Drawn { engine, ledger, differences })
}

/// The shards that logs are of: each once.
///
/// # Errors
/// Two logs of one shard, or of venues with other numbers of shards.
fn shards_of<'a>(
    paths: &[PathBuf],
    engines: impl Iterator<Item = &'a Engine>,
) -> Result<String, Failure> {
    let known = |of: &Engine| (of.config().shard, of.config().shards);
    let all: Vec<&Engine> = engines.collect();
    for (at, (path, one)) in paths.iter().zip(&all).enumerate() {
        let twice = all.iter().take(at).position(|other| known(other) == known(one));
        if let Some(other) = twice {
            let why = format!("is of the same shard as {}: name each once", paths[other].display());
            return Err(on(path, why));
        }
        if all.first().is_some_and(|first| known(first).1 != known(one).1) {
            return Err(on(path, "is of a venue with another number of shards"));
        }
    }
    let shards = all.first().map_or(1, |first| known(first).1);
    let lacks =
        (0..shards).map(types::ShardId).filter(|of| !all.iter().any(|one| known(one).0 == *of));
    let lacks: Vec<String> = lacks.map(|of| (of.0 + 1).to_string()).collect();
    Ok(match lacks.is_empty() {
        true => String::new(),
        false => format!("of {shards} shards, without number {}", lacks.join(", ")),
    })
}

/// Draws everything up and prints it; a difference is a failure.
pub fn run(args: &StatementArgs, also: &[engine::Config]) -> Result<(), Failure> {
    if let Some(wanted) = &args.day {
        return days::run(args, wanted, also);
    }
    let all = args.log.iter().map(|path| draw(path, args, also)).collect::<Result<Vec<_>, _>>()?;
    let lacks = shards_of(&args.log, all.iter().map(|one| &one.engine))?;
    if let Some(path) = &args.trades {
        let trades =
            all.iter().flat_map(|one| one.ledger.trades().map(move |trade| (&one.engine, trade)));
        let file = files::create_apart(path, &args.log)?;
        write_trades(trades, file).map_err(|error| on(path, error))?;
    }
    // Each instrument is on one shard at a time, so what an account has in all is all of these.
    let mut statements: BTreeMap<(AccountId, InstrumentId), Statement> = BTreeMap::new();
    for (of, statement) in all.iter().flat_map(|one| one.ledger.statements()) {
        statements.entry(of).or_default().add(&statement);
    }
    let shown = |account: &AccountId| args.participant.is_none_or(|wanted| wanted == account.0);
    let lines: Vec<_> = statements.iter().filter(|((account, _), _)| shown(account)).collect();
    let differences: Vec<&Difference> = all.iter().flat_map(|one| &one.differences).collect();
    if args.json {
        println!("{:#}", document(&lines, &all, (&differences, &lacks)));
    } else {
        print(&lines, &all, (&differences, &lacks));
    }
    match differences.len() {
        0 => Ok(()),
        count => Err(Failure::Run(format!("{count} differences between log, statements and feed"))),
    }
}

type Lines<'a> = [(&'a (AccountId, InstrumentId), &'a Statement)];

/// What an instrument comes to in all logs: it may have moved from one shard to another.
struct Traded<'a> {
    of: &'a types::Instrument,
    /// 0: none.
    closing: Price,
    trades: u64,
    /// Lots of the trades that were not broken.
    volume: u64,
}

/// Instruments of all shards, in the configuration's order.
fn instruments(all: &[Drawn]) -> Vec<Traded<'_>> {
    let known = all.first().map_or(&[][..], |one| &one.engine.config().instruments[..]);
    let new = |of| Traded { of, closing: Price(0), trades: 0, volume: 0 };
    let mut traded: Vec<Traded<'_>> = known.iter().map(new).collect();
    let mut last = vec![Nanos(0); traded.len()];
    let slot = |of: InstrumentId| usize::from(of.0).wrapping_sub(1);
    for one in all {
        let mut here = vec![Nanos(0); traded.len()];
        for trade in one.ledger.trades() {
            let Some(of) = traded.get_mut(slot(trade.instrument)) else { continue };
            of.trades += 1;
            of.volume += if trade.broken { 0 } else { trade.qty.0 };
            here[slot(trade.instrument)] = trade.t_seq;
        }
        // The shard that trades it knows its closing price; without that one's log, the one that was last.
        for (at, of) in traded.iter_mut().enumerate() {
            let since = match one.engine.phase(of.of.id) {
                Some(_) => Nanos(u64::MAX),
                None => here[at],
            };
            let closing = one.engine.closing_price(of.of.id);
            if closing != Price(0) && since >= last[at] {
                (of.closing, last[at]) = (closing, since);
            }
        }
    }
    traded
}

fn symbol(engine: &Engine, id: InstrumentId) -> (String, u8) {
    let found = engine.config().instruments.iter().find(|instrument| instrument.id == id);
    found.map_or_else(|| (id.to_string(), 0), |of| (of.symbol.to_string(), of.lot_decimals))
}

fn print(lines: &Lines<'_>, all: &[Drawn], (differences, lacks): (&[&Difference], &str)) {
    let Some(Drawn { engine, .. }) = all.first() else { return };
    println!(
        "{:>7}  {:<8} {:>9} {:>16} {:>16} {:>16} {:>9} {:>20}",
        "account", "", "orders", "bought", "sold", "position", "open", "traded value"
    );
    for ((account, instrument), statement) in lines {
        let (symbol, decimals) = symbol(engine, *instrument);
        let position = statement.position();
        let sign = if position < 0 { "-" } else { "" };
        println!(
            "{:>7}  {symbol:<8} {:>9} {:>16} {:>16} {:>16} {:>9} {:>20}",
            account.to_string(),
            grouped(statement.orders),
            lots(statement.bought, decimals),
            lots(statement.sold, decimals),
            format!("{sign}{}", lots(position.unsigned_abs(), decimals)),
            grouped(statement.open_orders),
            value(statement.notional(), decimals),
        );
    }
    println!();
    for Traded { of, closing, trades, volume } in instruments(all) {
        let closing = if closing == Price(0) { "none".to_string() } else { closing.to_string() };
        let (trades, volume) = (grouped(trades), lots(volume, of.lot_decimals));
        println!("{:<8} closing price {closing}, {trades} trades, volume {volume}", of.symbol);
    }
    println!();
    differences.iter().take(SHOWN_MAX).for_each(|difference| println!("differs: {difference:?}"));
    let verdict = if differences.is_empty() { "PASS" } else { "FAIL" };
    println!(
        "{verdict}: log, statements and feed of {} trades, {} differences",
        grouped(trades(all)),
        grouped(differences.len() as u64)
    );
    if !lacks.is_empty() {
        println!("{lacks}");
    }
}

fn trades(all: &[Drawn]) -> u64 {
    all.iter().map(|one| one.ledger.trades().count() as u64).sum()
}

/// Price units times lots as whole units of the quote currency, rounded down.
fn value(value: i128, lot_decimals: u8) -> String {
    let scale = i128::from(Price::ONE) * 10i128.pow(u32::from(lot_decimals));
    grouped(u64::try_from(value / scale).unwrap_or(u64::MAX))
}

fn document(
    lines: &Lines<'_>,
    all: &[Drawn],
    (differences, lacks): (&[&Difference], &str),
) -> Value {
    let Some(Drawn { engine, .. }) = all.first() else { return Value::Null };
    let statement = |((account, instrument), s): &(&(AccountId, InstrumentId), &Statement)| {
        json!({
            "account": account.0,
            "symbol": symbol(engine, *instrument).0,
            "orders": s.orders,
            "bought_lots": s.bought,
            "sold_lots": s.sold,
            "position_lots": s.position(),
            "bought_value": s.bought_value.to_string(),
            "sold_value": s.sold_value.to_string(),
            "open_orders": s.open_orders,
            "open_lots": s.open_lots,
        })
    };
    let traded = instruments(all);
    let price = |of: &Traded<'_>| Some(of.closing.0).filter(|price| *price != 0);
    let closing = traded.iter().map(|of| (of.of.symbol.to_string(), json!(price(of))));
    let instrument = |of: &Traded<'_>| {
        json!({
            "symbol": of.of.symbol.to_string(), "closing_price": price(of),
            "trades": of.trades, "volume_lots": of.volume,
        })
    };
    json!({
        "statements": lines.iter().map(statement).collect::<Vec<_>>(),
        "closing_prices": closing.collect::<serde_json::Map<_, _>>(),
        "instruments": traded.iter().map(instrument).collect::<Vec<_>>(),
        "trades": trades(all),
        "shards": all.iter().map(|one| one.engine.config().shard.0 + 1).collect::<Vec<_>>(),
        "lacks": lacks,
        "differences": differences.len(),
        "first_differences":
            differences.iter().take(SHOWN_MAX).map(|d| format!("{d:?}")).collect::<Vec<_>>(),
        "reconciled": differences.is_empty(),
    })
}

fn write_trades<'a>(
    trades: impl Iterator<Item = (&'a Engine, &'a TradeLine)>,
    file: File,
) -> std::io::Result<()> {
    let mut file = BufWriter::new(file);
    writeln!(
        file,
        "match_number,time_ns,symbol,price,lots,auction,broken,buyer,buy_order,seller,sell_order"
    )?;
    for (engine, trade) in trades {
        writeln!(
            file,
            "{},{},{},{},{},{},{},{},{},{},{}",
            trade.match_number,
            trade.t_seq.0,
            symbol(engine, trade.instrument).0,
            trade.price,
            trade.qty.0,
            trade.auction,
            trade.broken,
            trade.buy.0,
            trade.buy.1,
            trade.sell.0,
            trade.sell.1
        )?;
    }
    file.flush()
}
