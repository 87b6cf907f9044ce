//! `fairbell query ticks`: trades and best prices out of the files that `fairbell feed serve --ticks`
//! writes, also while it writes them.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use host::failure::Failure;
use serde_json::{Value, json};
use ticks::{Filter, Tick};

use super::{clock_of, moment, no_moment, stamp};
use crate::report::numbers::grouped;

/// Options of `fairbell query ticks`.
#[derive(Args, Clone, Debug)]
pub struct TicksArgs {
    /// Folder that the plant writes, or one of its files
    #[arg(long, visible_alias = "file", value_name = "PATH", required = true)]
    pub dir: PathBuf,
    /// Of this symbol
    #[arg(long, value_name = "SYMBOL", value_parser = NonEmptyStringValueParser::new())]
    pub symbol: Option<String>,
    /// Of these kinds only: quote, trade, broken, gap, side_dead, side_alive, stale, fresh
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_parser = KINDS)]
    pub kind: Vec<String>,
    /// Not before: HH:MM:SS.fraction of the venue's day as sent, YYYY-MM-DDTHH:MM:SS as heard, or ns
    /// since 1970 as heard; UTC
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Before, in the same forms
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Rows at most, the last ones; 0: all
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub limit: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Kinds of rows.
const KINDS: [&str; 8] =
    ["quote", "trade", "broken", "gap", "side_dead", "side_alive", "stale", "fresh"];

/// A time of day as sent, or a moment as heard.
enum Bound {
    OfDay(i64),
    Heard(i64),
}

fn bound(option: &str, text: &str) -> Result<Bound, Failure> {
    let signed = |ns: u64| i64::try_from(ns).ok();
    if let Some(of_day) = clock_of(text).and_then(signed) {
        return Ok(Bound::OfDay(of_day));
    }
    moment(text, 0).and_then(signed).map(Bound::Heard).ok_or_else(|| no_moment(option, text))
}

fn filter(args: &TicksArgs) -> Result<Filter, Failure> {
    let mut filter =
        Filter { symbol: args.symbol.clone(), kinds: args.kind.clone(), ..Filter::default() };
    match args.from.as_ref().map(|text| bound("from", text)).transpose()? {
        Some(Bound::OfDay(at)) => filter.day_from = Some(at),
        Some(Bound::Heard(at)) => filter.from = Some(at),
        None => {}
    }
    match args.to.as_ref().map(|text| bound("to", text)).transpose()? {
        Some(Bound::OfDay(at)) => filter.day_until = Some(at),
        Some(Bound::Heard(at)) => filter.until = Some(at),
        None => {}
    }
    Ok(filter)
}

/// Asks and prints.
pub(super) fn run(args: &TicksArgs) -> Result<(), Failure> {
    let filter = filter(args)?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut out = Out { json: args.json, rows: 0 };
    let mut last: VecDeque<Tick> = VecDeque::new();
    let mut found = 0_u64;
    let report = ticks::read(&args.dir, &filter, |tick| {
        found += 1;
        if limit == 0 {
            out.row(&tick);
        } else {
            if last.len() == limit {
                last.pop_front();
            }
            last.push_back(tick);
        }
        ControlFlow::Continue(())
    });
    let report =
        report.map_err(|error| Failure::Usage(format!("{}: {error}", args.dir.display())))?;
    last.iter().for_each(|tick| out.row(tick));
    out.end(found, &report);
    match report.complaints.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(report.complaints.join("\n"))),
    }
}

struct Out {
    json: bool,
    rows: u64,
}

fn price(units: Option<i64>) -> Option<String> {
    units.map(Tick::price_text)
}

fn document(tick: &Tick) -> Value {
    json!({
        "heard_ns": tick.heard, "time_ns": tick.time, "line": tick.line,
        "sequence": tick.sequence, "kind": tick.kind, "symbol": tick.symbol,
        "participant": tick.participant, "contract": tick.contract,
        "price": price(tick.price), "size": tick.size, "trade": tick.trade, "taker": tick.taker,
        "bid": price(tick.bid), "bid_size": tick.bid_size,
        "offer": price(tick.offer), "offer_size": tick.offer_size, "until": tick.until,
    })
}

impl Out {
    /// Only once something was read: a folder that is none is a complaint and no document.
    fn begin(&self) {
        if self.json && self.rows == 0 {
            println!("{{\n  \"rows\": [");
        }
    }

    fn row(&mut self, tick: &Tick) {
        self.begin();
        self.rows += 1;
        if self.json {
            let comma = if self.rows == 1 { "" } else { ",\n" };
            print!("{comma}    {}", document(tick));
            return;
        }
        let side = |of: Option<i64>, size: Option<i64>| match (of, size) {
            (Some(of), Some(size)) => format!("{} x {size}", Tick::price_text(of)),
            _ => "-".to_string(),
        };
        let what = match tick.kind.as_str() {
            "trade" => format!(
                "{} {}",
                side(tick.price, tick.size),
                tick.taker.as_ref().map_or(String::new(), |taker| format!("({taker} took)"))
            ),
            "quote" => {
                format!("{} / {}", side(tick.bid, tick.bid_size), side(tick.offer, tick.offer_size))
            }
            "side_dead" | "side_alive" => {
                format!("side {}", tick.participant.as_deref().unwrap_or("?"))
            }
            "gap" => format!("up to {}", tick.until.unwrap_or(0)),
            _ => String::new(),
        };
        let number = tick.trade.map_or(String::new(), |number| format!(" trade {number}"));
        println!(
            "{:<30} {:>3} {:>10} {:<10} {:<10} {}{}{number}",
            stamp(tick.heard),
            tick.line,
            tick.sequence,
            tick.kind,
            tick.symbol.as_deref().unwrap_or("-"),
            tick.contract.as_ref().map_or(String::new(), |contract| format!("{contract} ")),
            what.trim_end(),
        );
    }

    fn end(&self, found: u64, report: &ticks::ReadReport) {
        self.begin();
        if self.json {
            let last = if self.rows == 0 { "" } else { "\n" };
            println!(
                "{last}  ],\n  \"count\": {}, \"found\": {found}, \"files\": {}, \"looked_at\": {}, \
                 \"torn\": {}\n}}",
                self.rows, report.files, report.ticks, report.torn
            );
            return;
        }
        let more = if found > self.rows { ", the last ones; --limit 0 shows all" } else { "" };
        println!(
            "{} of {} rows{more}; {} files",
            grouped(self.rows),
            grouped(found),
            grouped(report.files)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_as_sent_and_anything_longer_as_heard() {
        assert!(matches!(bound("from", "09:30"), Ok(Bound::OfDay(34_200_000_000_000))));
        assert!(matches!(bound("from", "1970-01-01T00:00:01"), Ok(Bound::Heard(1_000_000_000))));
        assert!(matches!(bound("from", "12345"), Ok(Bound::Heard(12_345))));
        for wrong in ["", "nine", "25:00", "99999999999999999999999"] {
            assert!(bound("to", wrong).is_err(), "{wrong}");
        }
    }
}
