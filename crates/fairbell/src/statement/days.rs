//! `fairbell statement --day`: what each account opened a day with, dealt and closed with.

use std::path::Path;

use engine::daily::{Daily, DayLine, DayStatement};
use engine::statement::{Ledger, TradeLine};
use engine::{Engine, Output};
use host::config::Config;
use host::failure::{Failure, on};
use host::files;
use serde_json::{Value, json};
use types::{AccountId, InstrumentId, Price};

use super::{SHOWN_MAX, StatementArgs, shards_of, symbol, write_trades};
use crate::log::{open, progress};
use crate::report::numbers::{grouped, lots};

/// Which days are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Every day of the log.
    All,
    /// By number, from 1.
    Number(u32),
    /// By date, as in `2026-11-27`.
    Date(String),
}

/// `all`, a number, or a date.
pub fn wanted(text: &str) -> Result<Wanted, String> {
    if text == "all" {
        return Ok(Wanted::All);
    }
    if let Ok(number) = text.parse() {
        return if number > 0 {
            Ok(Wanted::Number(number))
        } else {
            Err("days count from 1".into())
        };
    }
    let shape = text.bytes().zip(*b"0000-00-00").all(|(byte, like)| match like {
        b'0' => byte.is_ascii_digit(),
        like => byte == like,
    });
    match shape && text.len() == 10 {
        true => Ok(Wanted::Date(text.to_string())),
        false => Err("write a number from 1, a date like 2026-11-27, or all".into()),
    }
}

/// What the log of one shard comes to, day by day.
struct Drawn {
    engine: Engine,
    days: Vec<DayStatement>,
    ledger: Ledger,
}

fn draw(path: &Path, args: &StatementArgs, also: &[engine::Config]) -> Result<Drawn, Failure> {
    let opened = open(path, args.config.as_deref(), also)?.whole(path)?;
    let bar = progress(opened.records);
    let (mut engine, mut output) = (Engine::new(opened.config), Output::default());
    let mut daily = Daily::new();
    for input in opened.reader {
        let input = input.map_err(|error| on(path, error))?;
        output.clear();
        let applied = engine.apply(&input, &mut output);
        daily.take(&input, applied, &output, &engine);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let (days, ledger) = daily.finish(&engine);
    Ok(Drawn { engine, days, ledger })
}

/// Draws up the days and prints those asked for, shard by shard where there are several logs; a
/// difference on any day is a failure.
pub fn run(args: &StatementArgs, wanted: &Wanted, also: &[engine::Config]) -> Result<(), Failure> {
    let config = host::fleet::shards::settings(args.config.as_deref())?;
    let all: Vec<Drawn> =
        args.log.iter().map(|path| draw(path, args, also)).collect::<Result<_, _>>()?;
    let lacks = shards_of(&args.log, all.iter().map(|one| &one.engine))?;
    let date = |day: &DayStatement| date(day, &config).unwrap_or("not begun".to_string());
    let is_shown = |day: &DayStatement| match wanted {
        Wanted::All => true,
        Wanted::Number(number) => day.day == *number,
        Wanted::Date(asked) => date(day) == *asked,
    };
    let shown: Vec<(&Engine, &DayStatement)> = all
        .iter()
        .flat_map(|one| one.days.iter().map(move |day| (&one.engine, day)))
        .filter(|(_, day)| is_shown(day))
        .collect();
    if shown.is_empty() {
        let days = all.iter().flat_map(|one| &one.days);
        let known: Vec<String> = days.map(|of| format!("{} ({})", of.day, date(of))).collect();
        let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
        return Err(Failure::Usage(format!("--day: the log has no such day; it has {known}")));
    }
    if let Some(path) = &args.trades {
        let of_shown = |one: &'_ Drawn| {
            let mut trades = one.ledger.trades();
            let of_days = one.days.iter().flat_map(|day| {
                let of_day: Vec<&TradeLine> = trades.by_ref().take(day.trades as usize).collect();
                of_day.into_iter().filter(|_| is_shown(day))
            });
            of_days.cloned().collect::<Vec<TradeLine>>()
        };
        let trades: Vec<Vec<TradeLine>> = all.iter().map(of_shown).collect();
        let lines = all.iter().zip(&trades);
        let lines = lines.flat_map(|(one, of)| of.iter().map(move |trade| (&one.engine, trade)));
        let file = files::create_apart(path, &args.log)?;
        write_trades(lines, file).map_err(|error| on(path, error))?;
    }
    let days = all.iter().flat_map(|one| &one.days);
    let differences: usize = days.map(|day| day.differences.len()).sum();
    if args.json {
        let days: Vec<Value> =
            shown.iter().map(|(engine, day)| document(day, args, engine, &config)).collect();
        let document = json!({
            "days": days, "shards_missing": lacks,
            "differences": differences, "reconciled": differences == 0,
        });
        println!("{document:#}");
    } else {
        for (engine, day) in &shown {
            if all.len() > 1 {
                println!("Shard {}", engine.config().shard.0 + 1);
            }
            print(day, args, engine, &date(day));
        }
        if !lacks.is_empty() {
            println!("{lacks}");
        }
    }
    match differences {
        0 => Ok(()),
        count => Err(Failure::Run(format!("{count} differences between the days' statements"))),
    }
}

/// The venue's date on which a day was opened.
fn date(day: &DayStatement, config: &Config) -> Option<String> {
    (day.began.0 > 0).then(|| config.calendar.date(day.began))
}

/// The accounts asked for.
fn lines<'a>(
    day: &'a DayStatement,
    args: &StatementArgs,
) -> impl Iterator<Item = (&'a (AccountId, InstrumentId), &'a DayLine)> {
    let only = args.participant;
    day.lines.iter().filter(move |((account, _), _)| only.is_none_or(|only| only == account.0))
}

fn signed(value: i64, decimals: u8) -> String {
    format!("{}{}", if value < 0 { "-" } else { "" }, lots(value.unsigned_abs(), decimals))
}

/// Price units times lots as units of the quote currency with two digits, towards zero.
fn money(value: i128, lot_decimals: u8) -> String {
    let scale = i128::from(Price::ONE) * 10i128.pow(u32::from(lot_decimals));
    let cents = value.unsigned_abs() * 100 / scale.unsigned_abs();
    let whole = u64::try_from(cents / 100).unwrap_or(u64::MAX);
    format!("{}{}.{:02}", if value < 0 { "-" } else { "" }, grouped(whole), cents % 100)
}

fn print(day: &DayStatement, args: &StatementArgs, engine: &Engine, date: &str) {
    let end = if day.ended.is_some() { "" } else { ", not ended" };
    println!("Day {} ({date}{end}): {} trades", day.day, grouped(day.trades));
    println!(
        "{:>7}  {:<8} {:>14} {:>14} {:>14} {:>10} {:>14} {:>18} {:>18} {:>6}",
        "account",
        "",
        "opening",
        "bought",
        "sold",
        "amended",
        "closing",
        "cash before",
        "cash",
        "open"
    );
    for ((account, instrument), line) in lines(day, args) {
        let (symbol, decimals) = symbol(engine, *instrument);
        println!(
            "{:>7}  {symbol:<8} {:>14} {:>14} {:>14} {:>10} {:>14} {:>18} {:>18} {:>6}",
            account.to_string(),
            signed(line.opening, decimals),
            lots(line.bought, decimals),
            lots(line.sold, decimals),
            signed(line.amended, decimals),
            signed(line.closing, decimals),
            money(line.opening_cash, decimals),
            money(line.closing_cash(), decimals),
            grouped(line.open_orders),
        );
    }
    let shown = day.differences.iter().take(SHOWN_MAX);
    shown.for_each(|difference| println!("differs: {difference:?}"));
    let verdict = if day.differences.is_empty() { "PASS" } else { "FAIL" };
    let count = grouped(day.differences.len() as u64);
    println!("{verdict}: opening, dealings and closing of day {}, {count} differences\n", day.day);
}

fn document(day: &DayStatement, args: &StatementArgs, engine: &Engine, config: &Config) -> Value {
    let line = |((account, instrument), line): (&(AccountId, InstrumentId), &DayLine)| {
        json!({
            "account": account.0,
            "symbol": symbol(engine, *instrument).0,
            "opening_lots": line.opening,
            "bought_lots": line.bought,
            "sold_lots": line.sold,
            "amended_lots": line.amended,
            "closing_lots": line.closing,
            "opening_cash": line.opening_cash.to_string(),
            "bought_value": line.bought_value.to_string(),
            "sold_value": line.sold_value.to_string(),
            "amended_cash": line.amended_cash.to_string(),
            "closing_cash": line.closing_cash().to_string(),
            "orders": line.orders,
            "open_orders": line.open_orders,
            "open_lots": line.open_lots,
        })
    };
    let first = day.differences.iter().take(SHOWN_MAX).map(|of| format!("{of:?}"));
    json!({
        "shard": engine.config().shard.0 + 1,
        "day": day.day,
        "date": date(day, config),
        "began_ns": day.began.0,
        "ended_ns": day.ended.map(|at| at.0),
        "inputs": day.inputs,
        "trades": day.trades,
        "statements": lines(day, args).map(line).collect::<Vec<_>>(),
        "differences": day.differences.len(),
        "first_differences": first.collect::<Vec<_>>(),
        "reconciled": day.differences.is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_numbers_or_dates() {
        assert_eq!(wanted("all"), Ok(Wanted::All));
        assert_eq!(wanted("3"), Ok(Wanted::Number(3)));
        assert_eq!(wanted("2026-11-27"), Ok(Wanted::Date("2026-11-27".to_string())));
        for wrong in ["0", "-1", "", "2026-11-2", "26-11-27", "2026-11-271", "today"] {
            assert!(wanted(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn money_has_two_digits() {
        let one = i128::from(Price::ONE);
        assert_eq!(money(one * 5 / 2, 0), "2.50");
        assert_eq!(money(-one * 1_234_567 / 100, 0), "-12,345.67");
        assert_eq!(money(one * 100_000_000, 8), "1.00");
    }
}
