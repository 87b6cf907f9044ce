//! `fairbell query`: orders and trades out of the post-trade store, also while it is fed, and ticks out
//! of the files of a ticker plant.

mod ticks;

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use jiff::civil::Date;
use serde_json::{Value, json};
use store::{Filter, OrderLine, PartyLine, Place, Query, TradeLine};
use types::{Nanos, Price};

use crate::report::numbers::{grouped, lots};
use crate::store::{at, place, place_of};
use host::failure::Failure;

/// Nanoseconds of a day.
const DAY_NS: u64 = 86_400 * Nanos::SECOND;

/// Options of `fairbell query`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell query orders --participant GUEST            the last 100 orders of an account\n  \
    fairbell query orders --state open --limit 0         every open order\n  \
    fairbell query trades --instrument BTCUSD --since 09:30 --until 10:00 --json\n  \
    fairbell query trades --participant GUESTS           of a firm, on either side\n  \
    fairbell query orders --day 3 --state cancelled      of the third day of the venue\n  \
    fairbell query trades --file one.sqlite --file two.sqlite     of two shards, in the order of time\n  \
    fairbell query ticks --dir /var/lib/ticks --symbol BTCUSD")]
pub struct QueryArgs {
    /// What to ask for.
    #[command(subcommand)]
    pub what: What,
}

/// What can be asked for.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// Orders, each with its state now
    #[command(after_help = "Examples:\n  \
        fairbell query orders --participant 3 --state cancelled\n  \
        fairbell query orders --since 2026-11-22T09:30:00 --json")]
    Orders(OrdersArgs),
    /// Trades, each with both sides, as they stand now
    #[command(after_help = "Examples:\n  \
        fairbell query trades --limit 20\n  \
        fairbell query trades --state corrected --json")]
    Trades(TradesArgs),
    /// Trades and best prices as a ticker plant heard them
    #[command(after_help = "Examples:\n  \
        fairbell query ticks --dir /var/lib/ticks --kind trade --from 09:30 --to 09:31\n  \
        fairbell query ticks --file ticks-01763769600000000000.parquet --limit 0 --json")]
    Ticks(ticks::TicksArgs),
}

/// Which rows, of orders and trades alike.
#[derive(Args, Clone, Debug)]
pub struct RowArgs {
    /// Of this participant: account number, login, CompID, or firm
    #[arg(long, value_name = "WHO", value_parser = NonEmptyStringValueParser::new())]
    pub participant: Option<String>,
    /// On this instrument: symbol or number
    #[arg(long, value_name = "SYMBOL", value_parser = NonEmptyStringValueParser::new())]
    pub instrument: Option<String>,
    /// Not before: HH:MM:SS.fraction of the day of the log, YYYY-MM-DDTHH:MM:SS, or ns; UTC
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Before, in the same forms
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Of this day of the venue, from 1: orders that began on it, trades made on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub day: Option<u32>,
    /// Rows at most, the last ones; 0: all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u64,
    /// The store's file, or postgres://USER:PASSWORD@HOST:PORT/DATABASE#SCHEMA; again for those of a venue's
    /// other shards [default: as the configuration says in store]
    #[arg(long, value_name = "FILE")]
    pub file: Vec<String>,
    /// Configuration file, or the venue's cluster.toml [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Options of `fairbell query orders`.
#[derive(Args, Clone, Debug)]
pub struct OrdersArgs {
    /// Which rows.
    #[command(flatten)]
    pub rows: RowArgs,
    /// In this state
    #[arg(long, value_name = "STATE", value_parser = store::ORDER_STATES)]
    pub state: Option<String>,
}

/// Options of `fairbell query trades`.
#[derive(Args, Clone, Debug)]
pub struct TradesArgs {
    /// Which rows.
    #[command(flatten)]
    pub rows: RowArgs,
    /// In this state
    #[arg(long, value_name = "STATE", value_parser = store::TRADE_STATES)]
    pub state: Option<String>,
}

/// Asks and prints.
pub fn run(args: &QueryArgs) -> Result<(), Failure> {
    let (rows, state) = match &args.what {
        What::Orders(args) => (&args.rows, &args.state),
        What::Trades(args) => (&args.rows, &args.state),
        What::Ticks(args) => return ticks::run(args),
    };
    let places = places(rows)?;
    let open = |place: &Place| {
        let wrong = |error| at(place, error);
        let query = Query::open(place).map_err(wrong)?;
        let held = query.freeze().map_err(wrong)?.applied;
        Ok((query, held))
    };
    let stores = places.iter().map(open).collect::<Result<Vec<(Query, u64)>, Failure>>()?;
    let (Some(store), Some((query, _))) = (places.first(), stores.first()) else {
        return Err(Failure::Usage("--file: which store".to_string()));
    };
    let wrong = |error| at(store, error);
    let midnight = query.midnight().map_err(wrong)?;
    let time = |option: &str, text: &Option<String>| match text.as_deref() {
        None => Ok(None),
        Some(text) => moment(text, midnight).map(Some).ok_or_else(|| no_moment(option, text)),
    };
    let filter = Filter {
        participant: rows.participant.clone(),
        instrument: rows.instrument.clone(),
        state: state.clone(),
        since: time("since", &rows.since)?,
        until: time("until", &rows.until)?,
        day: rows.day,
        limit: Some(rows.limit).filter(|limit| *limit > 0),
    };
    known(query, &filter).map_err(wrong)??;
    let mut out = Out { json: rows.json, first: true };
    let held: Vec<u64> = stores.iter().map(|(_, held)| *held).collect();
    out.begin(&held);
    let count = match (&args.what, stores.len()) {
        (What::Orders(_), 1) => query.orders(&filter, |line| out.order(&line)),
        (What::Trades(_), 1) => query.trades(&filter, |line| out.trade(&line)),
        (What::Orders(_), _) => {
            let ask = |query: &Query, lines: &mut Vec<OrderLine>| {
                query.orders(&filter, |line| lines.push(line))
            };
            let lines = together(&stores, &filter, ask, |line| (line.t_ns, line.seq))
                .map_err(|(place, error)| at(&places[place], error))?;
            lines.iter().for_each(|line| out.order(line));
            Ok(lines.len())
        }
        (What::Trades(_), _) => {
            let ask = |query: &Query, lines: &mut Vec<TradeLine>| {
                query.trades(&filter, |line| lines.push(line))
            };
            let lines = together(&stores, &filter, ask, |line| (line.t_ns, line.seq))
                .map_err(|(place, error)| at(&places[place], error))?;
            lines.iter().for_each(|line| out.trade(line));
            Ok(lines.len())
        }
        (What::Ticks(_), _) => Ok(0),
    };
    let count = count.map_err(wrong)?;
    out.end(count, rows.limit, &held);
    Ok(())
}

/// The stores that are asked: those named, or those that the settings have, one of each shard.
fn places(rows: &RowArgs) -> Result<Vec<Place>, Failure> {
    if !rows.file.is_empty() {
        let places = rows.file.iter().map(|text| place(text)).collect::<Result<Vec<_>, _>>()?;
        let is_same = |one: &Place, other: &Place| match (one, other) {
            (Place::File(one), Place::File(other)) => {
                let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
                real(one) == real(other)
            }
            _ => one == other,
        };
        for (at, one) in places.iter().enumerate() {
            if let Some(other) = places.iter().take(at).find(|other| is_same(one, other)) {
                let why = format!("--file {one}: is the same store as {other}: name each once");
                return Err(Failure::Usage(why));
            }
        }
        return Ok(places);
    }
    let config = host::fleet::shards::settings(rows.config.as_deref())?;
    let shards = (0..config.shards.count()).map(types::ShardId);
    shards.map(|shard| place_of(&config.clone().with_shard(shard))).collect()
}

/// Rows of several stores in the order of their times, the last ones if there is a limit; which store failed.
fn together<T>(
    stores: &[(Query, u64)],
    filter: &Filter,
    ask: impl Fn(&Query, &mut Vec<T>) -> Result<usize, store::StoreError>,
    order: impl Fn(&T) -> (i64, i64),
) -> Result<Vec<T>, (usize, store::StoreError)> {
    let mut lines = Vec::new();
    for (place, (query, _)) in stores.iter().enumerate() {
        ask(query, &mut lines).map_err(|error| (place, error))?;
    }
    lines.sort_by_key(order);
    let most =
        filter.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let beyond = lines.len().saturating_sub(most);
    lines.drain(..beyond);
    Ok(lines)
}

/// Up to which input the stores hold: a number, or a list of those of several.
fn inputs(held: &[u64]) -> Value {
    match held {
        [one] => json!(one),
        several => json!(several),
    }
}

/// A name that nobody has is a mistake, not an answer of no rows.
fn known(query: &Query, filter: &Filter) -> Result<Result<(), Failure>, store::StoreError> {
    let stranger = |option: &str, name: &str| {
        Ok(Err(Failure::Usage(format!("--{option}: the store knows no {name:?}"))))
    };
    match &filter.participant {
        Some(name) if query.accounts(name)?.is_empty() => return stranger("participant", name),
        _ => {}
    }
    match &filter.instrument {
        Some(name) if query.instruments(name)?.is_empty() => stranger("instrument", name),
        _ => Ok(Ok(())),
    }
}

/// A time in any of the forms, ns since the epoch.
pub(crate) fn moment(text: &str, midnight: u64) -> Option<u64> {
    if text.bytes().all(|c| c.is_ascii_digit()) {
        return text.parse().ok();
    }
    let (day, clock) = match text.split_once(['T', ' ']) {
        Some((date, clock)) => (date_of(date)?, clock.trim_end_matches('Z')),
        None if text.contains('-') => (date_of(text)?, "00:00"),
        None => (midnight, text),
    };
    day.checked_add(clock_of(clock)?)
}

/// Why a text is no time.
fn no_moment(option: &str, text: &str) -> Failure {
    let date = text.split(['T', ' ']).next().unwrap_or(text);
    let why = match written_date(date) {
        Some((1_970.., 1.., 1..)) if date_of(date).is_none() => format!("there is no day {date}"),
        _ => {
            let forms = "HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]] or nanoseconds";
            format!("must be {forms}, is {text:?}")
        }
    };
    Failure::Usage(format!("--{option}: {why}"))
}

fn number(text: &str, most: u64) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number <= most)
}

/// Hours, minutes, seconds with a fraction.
fn clock_of(text: &str) -> Option<u64> {
    let mut parts = text.split(':');
    let (hours, minutes) = (number(parts.next()?, 23)?, number(parts.next()?, 59)?);
    let (seconds, fraction) = match parts.next() {
        None => ("0", ""),
        Some(seconds) => seconds.split_once('.').unwrap_or((seconds, "")),
    };
    if parts.next().is_some() || fraction.len() > 9 {
        return None;
    }
    let fraction = match fraction {
        "" => 0,
        some => number(some, u64::MAX)? * 10_u64.pow(9 - some.len() as u32),
    };
    let seconds = hours * 3_600 + minutes * 60 + number(seconds, 59)?;
    Some(seconds * Nanos::SECOND + fraction)
}

/// Year, month and day of `YYYY-MM-DD`, each no larger than it can be.
fn written_date(text: &str) -> Option<(u64, u64, u64)> {
    let mut parts = text.split('-');
    let date =
        (number(parts.next()?, 2_500)?, number(parts.next()?, 12)?, number(parts.next()?, 31)?);
    parts.next().is_none().then_some(date)
}

/// Midnight of a date of the Gregorian calendar, ns since the epoch; `None` for a day that there is not, or
/// before 1970.
fn date_of(text: &str) -> Option<u64> {
    let (year, month, day) = written_date(text)?;
    let date = Date::new(year as i16, month as i8, day as i8).ok()?;
    u64::try_from(date.duration_since(Date::constant(1_970, 1, 1)).as_nanos()).ok()
}

/// `2026-11-22T09:30:00.000000001Z`.
fn stamp(ns: i64) -> String {
    let ns = u64::try_from(ns).unwrap_or(0);
    let (days, rest) = (ns / DAY_NS + 719_468, ns % DAY_NS);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let of = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of + of / 4 - of / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + of + u64::from(month > 9), (month + 2) % 12 + 1);
    let (seconds, fraction) = (rest / Nanos::SECOND, rest % Nanos::SECOND);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{fraction:09}Z")
}

/// Rows on their way out, one at a time.
struct Out {
    json: bool,
    first: bool,
}

fn amount(value: i64, decimals: u8) -> String {
    lots(u64::try_from(value).unwrap_or(0), decimals)
}

impl Out {
    fn begin(&self, held: &[u64]) {
        if self.json {
            println!("{{\n  \"up_to_input\": {},\n  \"rows\": [", inputs(held));
        }
    }

    fn row(&mut self, document: &Value) {
        let comma = if self.first { "" } else { ",\n" };
        print!("{comma}    {document}");
        self.first = false;
    }

    fn order(&mut self, line: &OrderLine) {
        if self.json {
            return self.row(&order(line));
        }
        if self.first {
            println!(
                "{:<30} {:<14} {:>9} {:<14} {:<8} {:<4} {:>14} {:>16} {:>16} {:>16} state",
                "time",
                "participant",
                "number",
                "ClOrdID",
                "symbol",
                "side",
                "price",
                "lots",
                "filled",
                "open"
            );
            self.first = false;
        }
        let decimals = line.lot_decimals;
        println!(
            "{:<30} {:<14} {:>9} {:<14} {:<8} {:<4} {:>14} {:>16} {:>16} {:>16} {}{}",
            stamp(line.t_ns),
            line.participant,
            line.user_ref,
            line.cl_ord_id,
            line.symbol,
            line.side,
            Price(line.price).to_string(),
            amount(line.qty, decimals),
            amount(line.filled, decimals),
            amount(line.leaves, decimals),
            line.state,
            line.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})")),
        );
    }

    fn trade(&mut self, line: &TradeLine) {
        if self.json {
            return self.row(&trade(line));
        }
        if self.first {
            println!(
                "{:<30} {:>10} {:<8} {:>14} {:>16} {:<14} {:<14} {:<10} state",
                "time", "trade", "symbol", "price", "lots", "buyer", "seller", "kind"
            );
            self.first = false;
        }
        println!(
            "{:<30} {:>10} {:<8} {:>14} {:>16} {:<14} {:<14} {:<10} {}",
            stamp(line.t_ns),
            line.match_number,
            line.symbol,
            Price(line.price).to_string(),
            amount(line.qty, line.lot_decimals),
            line.buy.participant,
            line.sell.participant,
            line.kind,
            line.state,
        );
    }

    fn end(&self, count: usize, limit: u64, held: &[u64]) {
        if self.json {
            println!("{}  ],\n  \"count\": {count}\n}}", if self.first { "" } else { "\n" });
            return;
        }
        let full = limit > 0 && count as u64 == limit;
        let more = if full { ", the last ones; --limit 0 shows all" } else { "" };
        let held: Vec<String> = held.iter().map(|input| grouped(*input)).collect();
        let (stores, inputs) = if held.len() == 1 {
            ("the store holds", "input")
        } else {
            ("the stores hold", "inputs")
        };
        println!("{} rows{more}; {stores} {inputs} {}", grouped(count as u64), held.join(" and "));
    }
}

fn order(line: &OrderLine) -> Value {
    json!({
        "id": line.id,
        "log_seq": line.seq,
        "root": line.root,
        "replaces": line.replaces,
        "account": line.account,
        "participant": line.participant,
        "firm": line.firm,
        "symbol": line.symbol,
        "user_ref": line.user_ref,
        "cl_ord_id": line.cl_ord_id,
        "side": line.side,
        "order_type": line.order_type,
        "time_in_force": line.time_in_force,
        "price": line.price,
        "stop_price": line.stop_price,
        "lots": line.qty,
        "filled_lots": line.filled,
        "cancelled_lots": line.cancelled,
        "open_lots": line.leaves,
        "state": line.state,
        "reason": line.reason,
        "order_ref": line.order_ref,
        "gateway": line.gateway,
        "t_in_ns": line.t_in,
        "t_ns": line.t_ns,
        "t_last_ns": line.t_last,
        "day": line.day,
    })
}

fn trade(line: &TradeLine) -> Value {
    let party = |party: &PartyLine| {
        json!({
            "account": party.account,
            "participant": party.participant,
            "firm": party.firm,
            "order": party.order,
            "user_ref": party.user_ref,
            "cl_ord_id": party.cl_ord_id,
        })
    };
    json!({
        "match_number": line.match_number,
        "log_seq": line.seq,
        "t_ns": line.t_ns,
        "symbol": line.symbol,
        "price": line.price,
        "lots": line.qty,
        "traded_price": line.traded_price,
        "traded_lots": line.traded_qty,
        "state": line.state,
        "kind": line.kind,
        "aggressor": line.aggressor,
        "feed_position": line.feed_position,
        "buy": party(&line.buy),
        "sell": party(&line.sell),
        "day": line.day,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_in_every_form() {
        let midnight = 1_763_769_600 * Nanos::SECOND;
        let at = |hours: u64, rest: u64| Some(midnight + hours * 3_600 * Nanos::SECOND + rest);
        assert_eq!(moment("2025-11-22", 0), at(0, 0));
        assert_eq!(moment("2025-11-22T09:00:00.5", 7), at(9, 500_000_000));
        assert_eq!(moment("2025-11-22 09:00Z", 7), at(9, 0));
        assert_eq!(moment("09:00:01", midnight), at(9, Nanos::SECOND));
        assert_eq!(moment("12345", midnight), Some(12_345));
        assert_eq!(moment("1970-01-01", 7), Some(0));
        assert_eq!(moment("2000-03-01", 7), Some(951_868_800 * Nanos::SECOND));
        for wrong in ["", "x", "25:00", "09:00:00:00", "2025-13-01", "2025-11-22T", "1:2.5"] {
            assert_eq!(moment(wrong, midnight), None, "{wrong}");
        }
        assert_eq!(stamp(midnight as i64 + 1), "2025-11-22T00:00:00.000000001Z");
        assert_eq!(stamp(951_782_400_000_000_000), "2000-02-29T00:00:00.000000000Z");
    }

    #[test]
    fn days_that_there_are_not_are_refused_by_name() {
        for there in ["2024-02-29", "2000-02-29", "2026-12-31", "2026-04-30", "2026-02-28"] {
            assert!(moment(there, 0).is_some(), "{there}");
        }
        for (wrong, why) in [
            ("2026-02-30", "--since: there is no day 2026-02-30"),
            ("2026-02-29T09:30", "--since: there is no day 2026-02-29"),
            ("2100-02-29", "--since: there is no day 2100-02-29"),
            ("2026-04-31", "--since: there is no day 2026-04-31"),
            ("2026-04-32", "--since: must be HH:MM"),
            ("2026-04-30T25:00", "--since: must be HH:MM"),
            ("", "--since: must be HH:MM"),
        ] {
            assert_eq!(moment(wrong, 0), None, "{wrong}");
            let said = no_moment("since", wrong).to_string();
            assert!(said.starts_with(why), "{wrong}: {said}");
        }
    }

    #[test]
    fn names_are_not_empty_and_each_store_is_asked_once() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            query: QueryArgs,
        }
        let read = |words: &[&str]| {
            let line = [&["query", "orders"], words].concat();
            <Line as clap::Parser>::try_parse_from(line).map(|line| line.query.what)
        };
        assert!(read(&["--participant", "GUEST", "--instrument", "BTCUSD"]).is_ok());
        assert!(read(&["--participant", ""]).is_err() && read(&["--instrument", ""]).is_err());
        let asked = |words: &[&str]| match read(words) {
            Ok(What::Orders(args)) => places(&args.rows).map_err(|why| why.to_string()),
            _ => Err("no query of orders".to_string()),
        };
        assert_eq!(asked(&["--file", "a.db", "--file", "b.db"]).map(|all| all.len()), Ok(2));
        // One file by two names, where there is one: any will do.
        let manifest = format!("{}/./Cargo.toml", env!("CARGO_MANIFEST_DIR"));
        for twice in [
            ["a.db", "a.db"],
            [concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), &manifest[..]],
            ["postgres://u:word@h/d", "postgres://u:word@h/d#fairbell"],
        ] {
            let why = asked(&["--file", twice[0], "--file", twice[1]]).expect_err("refused");
            assert!(why.contains("name each once") && !why.contains("word"), "{why}");
        }
    }

    proptest! {
        #[test]
        fn every_day_is_written_and_read_alike(ns in 0..10_000_000_000_000_000_000_u64 / 2) {
            prop_assert_eq!(moment(&stamp(ns as i64), 0), Some(ns));
        }

        #[test]
        fn nothing_typed_makes_it_panic(text in ".{0,30}") {
            let _ = moment(&text, 0);
        }
    }
}
