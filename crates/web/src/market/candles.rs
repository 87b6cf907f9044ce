//! Trades by the minute, and by longer spans made of minutes.

use std::collections::VecDeque;

use serde_json::{Value, json};
use types::{Instrument, Price};

use crate::decimal::lots_text;

/// Minutes that are remembered: two days.
const MINUTES_MAX: usize = 2_880;
/// A minute, ms.
const MINUTE_MS: u64 = 60_000;

/// Spans by name, ms.
pub const SPANS: [(&str, u64); 5] = [
    ("1m", MINUTE_MS),
    ("5m", 5 * MINUTE_MS),
    ("15m", 15 * MINUTE_MS),
    ("1h", 60 * MINUTE_MS),
    ("1d", 1_440 * MINUTE_MS),
];

/// What traded in a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candle {
    /// Its begin, ms since the epoch.
    pub at_ms: u64,
    open: Price,
    high: Price,
    low: Price,
    close: Price,
    lots: u64,
    trades: u64,
}

impl Candle {
    fn join(&mut self, later: &Candle) {
        self.high = self.high.max(later.high);
        self.low = self.low.min(later.low);
        self.close = later.close;
        self.lots = self.lots.saturating_add(later.lots);
        self.trades += later.trades;
    }

    pub(super) fn json(&self, of: &Instrument) -> Value {
        json!({
            "time_ms": self.at_ms,
            "open": self.open.to_string(), "high": self.high.to_string(),
            "low": self.low.to_string(), "close": self.close.to_string(),
            "volume": lots_text(self.lots, of.lot_decimals), "trades": self.trades,
        })
    }
}

/// Candles of one instrument, of minutes in which something traded, oldest first.
#[derive(Clone, Default, Debug)]
pub(super) struct Candles(VecDeque<Candle>);

impl Candles {
    /// A trade at `time_ms` since the epoch; the minute it is of. One that comes late, after a trade of a
    /// later minute, counts to that.
    pub(super) fn trade(&mut self, time_ms: u64, price: Price, lots: u64) -> Candle {
        let at_ms = time_ms - time_ms % MINUTE_MS;
        let [open, high, low, close] = [price; 4];
        let own = Candle { at_ms, open, high, low, close, lots, trades: 1 };
        match self.0.back_mut() {
            Some(last) if last.at_ms >= at_ms => {
                last.join(&own);
                *last
            }
            _ => {
                if self.0.len() >= MINUTES_MAX {
                    self.0.pop_front();
                }
                self.0.push_back(own);
                own
            }
        }
    }

    /// The last candles of a span, newest first.
    pub(super) fn last(&self, span_ms: u64, most: usize) -> Vec<Candle> {
        let mut all: Vec<Candle> = Vec::new();
        for minute in &self.0 {
            let at_ms = minute.at_ms - minute.at_ms % span_ms.max(MINUTE_MS);
            match all.last_mut() {
                Some(last) if last.at_ms == at_ms => last.join(minute),
                _ => all.push(Candle { at_ms, ..*minute }),
            }
        }
        all.into_iter().rev().take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use types::SplitMix64;

    use super::*;

    #[test]
    fn minutes_add_up_to_longer_spans() {
        println!("seed 28");
        let mut rng = SplitMix64::new(28);
        let (mut candles, mut time_ms) = (Candles::default(), 1_790_000_000_000);
        let mut trades = Vec::new();
        for _ in 0..2_000 {
            time_ms += rng.below(20_000);
            let (price, lots) = (Price(100 + rng.below(50) as i64), 1 + rng.below(9));
            let minute = candles.trade(time_ms, price, lots);
            assert_eq!(minute.at_ms, time_ms - time_ms % MINUTE_MS);
            trades.push((time_ms, price, lots));
        }
        for (name, span) in SPANS {
            for candle in candles.last(span, usize::MAX) {
                let within = || {
                    trades
                        .iter()
                        .filter(|(at, ..)| (candle.at_ms..candle.at_ms + span).contains(at))
                };
                let prices = || within().map(|(_, price, _)| *price);
                let due = Candle {
                    at_ms: candle.at_ms,
                    open: prices().next().expect("a trade"),
                    high: prices().max().expect("a trade"),
                    low: prices().min().expect("a trade"),
                    close: prices().next_back().expect("a trade"),
                    lots: within().map(|(.., lots)| lots).sum(),
                    trades: within().count() as u64,
                };
                assert_eq!(candle, due, "{name}");
            }
        }
        assert_eq!(candles.last(MINUTE_MS, 3).len(), 3);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_late_trades_count() {
        let mut candles = Candles::default();
        for minute in 0..MINUTES_MAX as u64 + 10 {
            candles.trade(minute * MINUTE_MS, Price(5), 1);
        }
        assert_eq!(candles.0.len(), MINUTES_MAX);
        let late = candles.trade(0, Price(7), 2);
        assert_eq!((late.high, late.lots, late.trades), (Price(7), 3, 2));
    }
}
