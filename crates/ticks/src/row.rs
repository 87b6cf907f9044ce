//! One row of the table of ticks.

use fast::opra::{Best, Price, Series};
use feed::plant::{Kind, Update, symbol_text};

/// What an update says. Prices in 10^-8 of the currency, sizes in lots or contracts, times in ns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tick {
    /// When it came in order at the plant, since the Unix epoch.
    pub heard: i64,
    /// Time as sent: of a venue of ours since its midnight.
    pub time: i64,
    /// Number of the line of the plant.
    pub line: i32,
    /// Sequence number of the message on its line; for a gap that of the first message lost.
    pub sequence: i64,
    /// Kind of the update: `quote`, `trade`, `broken`, `gap`, `side_dead`, `side_alive`, `stale`,
    /// `fresh`.
    pub kind: String,
    /// Symbol of the instrument; `None` when the update is about a line.
    pub symbol: Option<String>,
    /// Exchange, where a line has several; of `side_dead` and `side_alive` the side, `A` or `B`.
    pub participant: Option<String>,
    /// Month code, day, year, and strike of an option: `C150126@150`.
    pub contract: Option<String>,
    /// Price of a trade, in units of 10^-8 of the currency.
    pub price: Option<i64>,
    /// Size of a trade, lots or contracts.
    pub size: Option<i64>,
    /// Match number of a trade or of a broken trade.
    pub trade: Option<i64>,
    /// Side of the order that came in and traded: `buy` or `sell`.
    pub taker: Option<String>,
    /// Best bid after a quote, in units of 10^-8 of the currency.
    pub bid: Option<i64>,
    /// Size at the best bid, lots or contracts.
    pub bid_size: Option<i64>,
    /// Best offer after a quote, in units of 10^-8 of the currency.
    pub offer: Option<i64>,
    /// Size at the best offer, lots or contracts.
    pub offer_size: Option<i64>,
    /// For a gap, sequence number of the first message that is not lost.
    pub until: Option<i64>,
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Quote => "quote",
        Kind::Trade => "trade",
        Kind::Gap => "gap",
        Kind::SideDead => "side_dead",
        Kind::SideAlive => "side_alive",
        Kind::Stale => "stale",
        Kind::Fresh => "fresh",
        Kind::Broken => "broken",
    }
}

fn contract(series: &Series) -> Option<String> {
    let Series { month, day, year, strike, .. } = series;
    let Price(strike) = strike;
    (*month != 0).then(|| {
        let month = if month.is_ascii_alphanumeric() { char::from(*month) } else { '?' };
        format!("{month}{day:02}{year:02}@{}", decimal(*strike))
    })
}

/// A price in units of 10^-8 as decimal text, without zeros at its end.
pub(crate) fn decimal(units: i64) -> String {
    let (whole, rest) = (units.unsigned_abs() / 100_000_000, units.unsigned_abs() % 100_000_000);
    let sign = if units < 0 { "-" } else { "" };
    match rest {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{}", format!("{rest:08}").trim_end_matches('0')),
    }
}

impl Tick {
    /// The row of an update. A quote's prices are the best ones after it; where a line has several
    /// exchanges, `participant` is the one that quoted.
    pub fn of(update: &Update) -> Tick {
        let of_side = matches!(update.kind, Kind::SideDead | Kind::SideAlive);
        let participant = match (of_side, update.participant) {
            (true, side) => Some(if side == 0 { "A" } else { "B" }.to_string()),
            (false, 0) => None,
            (false, code) => Some(char::from(code).to_string()),
        };
        let tick = Tick {
            heard: signed(update.heard.0),
            time: signed(update.time),
            line: update.line.into(),
            sequence: signed(update.sequence),
            kind: name(update.kind).to_string(),
            symbol: (update.series.symbol != 0).then(|| symbol_text(update.series.symbol)),
            participant,
            contract: contract(&update.series),
            ..Tick::default()
        };
        // Only our own feed numbers trades.
        let number = (update.offer.0 != 0).then_some(update.offer.0);
        match update.kind {
            Kind::Quote => {
                // Its own sizes are exact where the best one is its own.
                let size = |best: Best, own: Price, size: u64| {
                    let own =
                        best.price == own && u64::from(best.size) == size.min(u32::MAX.into());
                    signed(if own { size } else { best.size.into() })
                };
                let side = |best: Option<Best>, own, of| {
                    (best.map(|best| best.price.0), best.map(|best| size(best, own, of)))
                };
                let (bid, bid_size) = side(update.best_bid, update.bid, update.bid_size);
                let (offer, offer_size) = side(update.best_offer, update.offer, update.offer_size);
                Tick { bid, bid_size, offer, offer_size, ..tick }
            }
            Kind::Trade => Tick {
                price: Some(update.bid.0),
                size: Some(signed(update.bid_size)),
                trade: number,
                taker: match update.bbo {
                    b'B' => Some("buy".to_string()),
                    b'S' => Some("sell".to_string()),
                    _ => None,
                },
                ..tick
            },
            Kind::Broken => Tick { trade: number, ..tick },
            Kind::Gap => Tick { time: 0, until: Some(signed(update.time)), ..tick },
            Kind::SideDead | Kind::SideAlive | Kind::Stale | Kind::Fresh => tick,
        }
    }

    /// A price in units of 10^-8 as decimal text, such as `101.25`.
    pub fn price_text(units: i64) -> String {
        decimal(units)
    }
}

#[cfg(test)]
mod tests {
    use types::Nanos;

    use super::*;

    #[test]
    fn prices_are_written_as_short_as_they_are() {
        for (units, text) in [
            (0, "0"),
            (100_000_000, "1"),
            (10_125_000_000, "101.25"),
            (-1, "-0.00000001"),
            (i64::MIN, "-92233720368.54775808"),
        ] {
            assert_eq!(decimal(units), text);
        }
    }

    #[test]
    fn sizes_beyond_32_bits_are_exact_where_the_quote_is_the_best_one() {
        let lots = 5_000_000_000;
        let best = Best { participant: 0, price: Price(7), size: u32::MAX };
        let update = Update {
            bid: Price(7),
            bid_size: lots,
            best_bid: Some(best),
            ..Update::of_line(Kind::Quote, 1, Nanos(5))
        };
        let tick = Tick::of(&update);
        assert_eq!((tick.bid, tick.bid_size, tick.offer), (Some(7), Some(lots as i64), None));
        let other = Update { bid: Price(6), ..update };
        assert_eq!(
            Tick::of(&other).bid_size,
            Some(u32::MAX.into()),
            "a control: another's is best"
        );
    }
}
