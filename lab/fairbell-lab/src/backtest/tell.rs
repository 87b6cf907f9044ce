//! The report of a backtest: text, JSON, plots.

use std::fmt::Write;
use telemetry::plot::{Curve, Figure};

use backtest::{Equality, Excluded, Markout, Shares};
use serde_json::{Value, json};
use strategy::heard::Replayed;

use super::Told;

impl Told<'_> {
    /// Price units of a whole unit of money.
    fn unit(&self) -> f64 {
        10_f64.powi(self.read.recording.price_decimals as i32)
    }

    fn money(&self, value: i128) -> f64 {
        value as f64 / self.unit()
    }

    /// Gain of a lot.
    fn each(&self, markout: Markout) -> Option<f64> {
        (markout.lots > 0).then(|| self.money(markout.gain) / markout.lots as f64)
    }

    fn seconds(&self, at: types::Nanos) -> f64 {
        at.0.saturating_sub(self.outcome.span.0.0) as f64 / 1e9
    }

    fn lots(&self) -> (u64, u64) {
        let ids = self.read.recording.instruments().iter().map(|instrument| instrument.id);
        let holdings = ids.map(|id| self.outcome.account.holding(id));
        holdings.fold((0, 0), |(made, taken), h| (made + h.made, taken + h.taken))
    }
}

pub fn text(told: &Told<'_>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_text(told, &mut text);
    text
}

/// What a replay came to, for people.
pub fn replayed(of: &Replayed) -> String {
    let mut text = format!(
        "heard: {} messages, {} reports, told {} times\nasked for: {} orders, {} cancels; {} of {} \
         requests of the record are the same\n",
        of.messages, of.reports, of.told, of.orders, of.cancels, of.equal, of.recorded
    );
    if let Some((at, then, now)) = &of.first_difference {
        text += &format!("first difference at byte {at}: then {then}, now {now}\n");
    }
    if let Some((at, left)) = of.cut {
        let what = match left {
            0 => "what was heard last was not told any more".to_string(),
            left => format!("{left} bytes of an entry whose end is missing"),
        };
        text += &format!("cut off at byte {at}: {what}\n");
    }
    for (when, why) in [("then", &of.failed_then), ("now", &of.failed_now)] {
        if let Some(why) = why {
            text += &format!("stopped {when}: {why}\n");
        }
    }
    text + &format!("digest {:016x}\n", of.digest)
}

/// The same as JSON.
pub fn replayed_json(of: &Replayed) -> Value {
    let difference = of.first_difference.as_ref();
    json!({
        "messages": of.messages, "reports": of.reports, "told": of.told,
        "orders": of.orders, "cancels": of.cancels,
        "recorded": of.recorded, "equal": of.equal, "same": of.is_equal(),
        "first_difference": difference.map(|(at, then, now)| {
            json!({ "byte": at, "then": then, "now": now })
        }),
        "cut": of.cut.map(|(at, left)| json!({ "byte": at, "left": left })),
        "stopped_then": of.failed_then, "stopped_now": of.failed_now,
        "digest": format!("{:016x}", of.digest),
    })
}

fn write_text(told: &Told<'_>, to: &mut String) -> std::fmt::Result {
    let (read, outcome) = (told.read, told.outcome);
    let (recording, market) = (&read.recording, outcome.market);
    let span = told.seconds(outcome.span.1);
    writeln!(to, "{}: {}", told.args.file.display(), read.format)?;
    writeln!(
        to,
        "{} events of {} instruments over {span:.3} s, played in {:.3} s",
        recording.records().len(),
        recording.instruments().len(),
        told.took_ns as f64 / 1e9,
    )?;
    if read.lost + read.refused + recording.left_out + recording.out_of_time > 0 {
        writeln!(
            to,
            "noticed in the file: {} messages missing, {} not ITCH 5.0, {} events left out (price \
             or quantity no order can have), {} out of time",
            read.lost, read.refused, recording.left_out, recording.out_of_time
        )?;
    }
    if read.ended == Some(false) {
        writeln!(
            to,
            "noticed in the file: the last day has no System Event C (end of messages) at its end: it \
             may be cut off between two messages"
        )?;
    }
    writeln!(to, "\nrecord and engine")?;
    writeln!(to, "  lots that traded as recorded         {:>14}", market.traded)?;
    writeln!(to, "  lots that the strategy had instead   {:>14}", market.to_strategy)?;
    writeln!(to, "  trades of orders that were not first {:>14}", market.out_of_turn)?;
    writeln!(to, "  lots traded that were not recorded   {:>14}", market.crossed)?;
    writeln!(to, "  events about unknown orders          {:>14}", market.unknown)?;
    writeln!(to, "  orders refused by the engine         {:>14}", market.refused)?;
    writeln!(to, "  lots out of orders in auctions       {:>14}", market.called)?;
    writeln!(
        to,
        "  states told, calls implied           {:>14} {}",
        market.states, market.calls_implied
    )?;
    let (live, lacking) = outcome.missing;
    writeln!(to, "  orders at the end, lots they lack    {live:>14} {lacking}")?;
    write_equality(&outcome.equality, to)?;
    let (made, taken) = told.lots();
    writeln!(to, "\nstrategy {}, seed {}", told.strategy, told.args.seed)?;
    writeln!(
        to,
        "  orders, cancels, refused             {:>14} {} {}",
        outcome.orders, outcome.cancels, outcome.refused
    )?;
    writeln!(to, "  trades                               {:>14}", outcome.fills.len())?;
    writeln!(to, "  lots by resting, coming orders       {made:>14} {taken}")?;
    writeln!(to, "  largest holding in lots              {:>14}", outcome.lots_max)?;
    let after = told.args.markout_ms;
    for (name, markout) in [("resting", outcome.made), ("coming", outcome.taken)] {
        if let Some(each) = told.each(markout) {
            let name = format!("gain of a {name} lot after {after} ms");
            writeln!(to, "  {name:<36} {each:>14.6}")?;
        }
    }
    writeln!(
        to,
        "  fees                                 {:>14.4}",
        told.money(outcome.account.paid())
    )?;
    writeln!(to, "  largest fall                         {:>14.4}", told.money(outcome.drawdown))?;
    writeln!(to, "  result, holdings at the middle       {:>14.4}", told.money(outcome.equity))?;
    if !outcome.unpriced.is_empty() {
        let count = outcome.unpriced.len();
        writeln!(
            to,
            "  holdings of {count} instruments never had a middle and count as last traded"
        )?;
    }
    writeln!(to, "digest {:016x}", outcome.digest)
}

/// `equal` of `of`, and the share.
fn share(equal: u64, of: u64) -> String {
    match of {
        0 => "0 of 0".to_string(),
        _ => format!("{equal} of {of} {:>9.4} %", equal as f64 * 100.0 / of as f64),
    }
}

fn write_equality(equality: &Equality, to: &mut String) -> std::fmt::Result {
    writeln!(to, "\nbooks equal to the data's own, by compared messages")?;
    for (name, shares) in [("outside calls", equality.outside), ("in calls", equality.calls)] {
        for (what, equal) in [
            ("best price", shares.price),
            ("best size", shares.size),
            ("ten levels", shares.levels),
        ] {
            let name = format!("{what}, {name}");
            writeln!(to, "  {name:<28} {:>36}", share(equal, shares.events))?;
        }
    }
    for (why, count) in Excluded::ALL.iter().zip(equality.excluded) {
        if count > 0 {
            writeln!(to, "  not compared after {count} messages: {}", why.name())?;
        }
    }
    if equality.unfinished > 0 {
        let count = equality.unfinished;
        writeln!(to, "  not compared after {count} messages: more of the same event follows")?;
    }
    Ok(())
}

fn shares(shares: Shares) -> Value {
    json!({
        "events": shares.events,
        "best_price": shares.price,
        "best_size": shares.size,
        "ten_levels": shares.levels,
    })
}

pub fn json(told: &Told<'_>) -> Value {
    let (read, outcome) = (told.read, told.outcome);
    let market = outcome.market;
    let (made, taken) = told.lots();
    let holdings: Vec<Value> = read
        .recording
        .instruments()
        .iter()
        .map(|instrument| (instrument.symbol, outcome.account.holding(instrument.id)))
        .filter(|(_, holding)| holding.made + holding.taken > 0)
        .map(|(symbol, holding)| {
            json!({
                "symbol": symbol.as_str(),
                "lots": holding.lots,
                "cash": told.money(holding.cash),
                "made_lots": holding.made,
                "taken_lots": holding.taken,
            })
        })
        .collect();
    json!({
        "file": told.args.file,
        "format": read.format,
        "instruments": read.recording.instruments().len(),
        "events": read.recording.records().len(),
        "messages_missing": read.lost,
        "messages_refused": read.refused,
        "events_left_out": read.recording.left_out,
        "events_out_of_time": read.recording.out_of_time,
        "end_of_messages": read.ended,
        "span_ns": outcome.span.1.0 - outcome.span.0.0,
        "took_ns": told.took_ns,
        "market": {
            "traded_lots": market.traded,
            "to_strategy_lots": market.to_strategy,
            "out_of_turn": market.out_of_turn,
            "crossed_lots": market.crossed,
            "unknown": market.unknown,
            "refused": market.refused,
            "orders_at_end": outcome.missing.0,
            "lacking_lots": outcome.missing.1,
            "auction_lots": market.called,
            "states": market.states,
            "calls_implied": market.calls_implied,
            "prints": outcome.prints,
        },
        "equal": {
            "outside_calls": shares(outcome.equality.outside),
            "in_calls": shares(outcome.equality.calls),
            "excluded": {
                "snapshot": outcome.equality.excluded[Excluded::Snapshot as usize],
                "gap": outcome.equality.excluded[Excluded::Gap as usize],
                "price": outcome.equality.excluded[Excluded::Price as usize],
                "unfinished": outcome.equality.unfinished,
            },
        },
        "strategy": told.strategy,
        "seed": told.args.seed,
        "orders": outcome.orders,
        "cancels": outcome.cancels,
        "refused": outcome.refused,
        "trades": outcome.fills.len(),
        "made_lots": made,
        "taken_lots": taken,
        "holding_max_lots": outcome.lots_max,
        "made_markout": told.each(outcome.made),
        "taken_markout": told.each(outcome.taken),
        "fees": told.money(outcome.account.paid()),
        "drawdown": told.money(outcome.drawdown),
        "result": told.money(outcome.equity),
        "unpriced_instruments": outcome.unpriced.len(),
        "holdings": holdings,
        "digest": format!("{:016x}", outcome.digest),
    })
}

/// Result, holding and price over time.
pub fn figures(told: &Told<'_>) -> Vec<Figure> {
    let symbol = told.read.recording.instruments().first().map(|instrument| instrument.symbol);
    let symbol = symbol.map_or(String::new(), |symbol| symbol.as_str().to_string());
    let course = |value: &dyn Fn(&backtest::Point) -> Option<f64>| {
        let points = told.outcome.points.iter();
        points.filter_map(|p| Some((told.seconds(p.time), value(p)?))).collect::<Vec<_>>()
    };
    let figure = |file, title: String, y, name: &str, points| Figure {
        file,
        title,
        x: "seconds",
        y,
        curves: vec![Curve { name: name.to_string(), points }],
    };
    let (unit, strategy) = (told.unit(), told.strategy.as_str());
    vec![
        figure(
            "result",
            format!("Strategy {strategy}: result, holdings at the middle, fees paid"),
            "money",
            strategy,
            course(&|p| Some(p.equity as f64 / unit)),
        ),
        figure(
            "holding",
            format!("Strategy {strategy}: lots held of {symbol}"),
            "lots",
            strategy,
            course(&|p| Some(p.lots as f64)),
        ),
        figure(
            "middle",
            format!("Middle of the best prices of {symbol}"),
            "price",
            &symbol,
            course(&|p| (p.twice_middle > 0).then(|| p.twice_middle as f64 / 2.0 / unit)),
        ),
    ]
}
