//! A recording out of the ticker plant's files: best prices and trades, and nothing behind them.
//!
//! The best price of a side stands in the book as orders of as many lots as were told, which come and
//! go as the quotes say; its recorded trades touch none of them. Queues are not in the files, so an
//! order of a strategy that rests at a best price is never given a trade at that price. It trades when
//! nobody else is at its price by the quotes and somebody traded at a price that is worse for it, as
//! many lots as that trade had, or when the best price of the other side comes to its own. Orders that come take what the best price has.

use std::collections::BTreeMap;

use types::{InstrumentId, Nanos, Side, Symbol};

use crate::data_book::{Check, Excluded, Levels};
use crate::record::{Record, Recording, RecordingError, What};

/// Decimals of prices in the files.
const DECIMALS: u32 = 8;
const DAY_NS: u64 = 86_400 * Nanos::SECOND;
/// The time of day of a line runs back by more than this when another day begins.
const NEXT_DAY_NS: u64 = 60 * Nanos::SECOND;

/// A row of the plant's files, as far as it matters here. Prices in 10^-8 of the currency.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tick {
    /// Time as sent, in ns; of a venue of ours since its midnight.
    pub time: i64,
    /// Number of the line of the plant.
    pub line: i32,
    /// Number of the message on its line; of a gap the first one lost.
    pub sequence: i64,
    /// `quote`, `trade`, `gap`; others are passed over.
    pub kind: String,
    /// Symbol; none of what is about a line.
    pub symbol: Option<String>,
    /// It is of an option contract.
    pub contract: bool,
    /// Price of a trade, in units of 10^-8 of the currency.
    pub price: Option<i64>,
    /// Size of a trade, lots.
    pub size: Option<i64>,
    /// Who took in a trade: `buy` or `sell`.
    pub taker: Option<String>,
    /// Best bid after a quote.
    pub bid: Option<i64>,
    /// Size at the best bid, lots.
    pub bid_size: Option<i64>,
    /// Best offer after a quote.
    pub offer: Option<i64>,
    /// Size at the best offer, lots.
    pub offer_size: Option<i64>,
    /// Of a gap, the first message not lost.
    pub until: Option<i64>,
}

/// A price and the lots at it, as told.
type Told = Option<(i64, i64)>;

#[derive(Clone, Copy, Debug)]
enum Said {
    /// Best prices of buyers and of sellers.
    Best([Told; 2]),
    Trade {
        price: i64,
        size: i64,
        taker: Option<Side>,
    },
}

/// A tick, as far as it matters here.
#[derive(Clone, Copy, Debug)]
struct Heard {
    time: Nanos,
    line: i32,
    symbol: Symbol,
    said: Said,
}

/// Takes ticks one by one, in the order of the files, of the instruments `chosen` (none: of all).
/// Ticks of option contracts are left out and counted with [`Recording::left_out`].
#[derive(Debug)]
pub struct TickReader {
    collected: Collected,
    chosen: Vec<Symbol>,
    records_max: usize,
}

impl TickReader {
    /// A reader that keeps at most `records_max` events.
    pub fn new(chosen: Vec<Symbol>, records_max: usize) -> TickReader {
        TickReader { collected: Collected::default(), chosen, records_max }
    }

    /// Takes the next tick.
    ///
    /// # Errors
    /// There are too many.
    pub fn take(&mut self, tick: &Tick) -> Result<(), RecordingError> {
        self.collected.take(tick, &self.chosen);
        match self.collected.heard.len() > self.records_max {
            true => Err(RecordingError::Records(self.records_max)),
            false => Ok(()),
        }
    }

    /// What was kept, and how many messages the plant never heard.
    ///
    /// # Errors
    /// There are too many instruments or events.
    pub fn finish(self) -> Result<(Recording, u64), RecordingError> {
        let lost = self.collected.lost;
        Ok((self.collected.recording(self.records_max)?, lost))
    }
}

#[derive(Debug, Default)]
struct Collected {
    heard: Vec<Heard>,
    /// By line: midnight of its day, and the time of its last tick.
    clocks: BTreeMap<i32, (u64, u64)>,
    lost: u64,
    left_out: u64,
}

impl Collected {
    fn take(&mut self, tick: &Tick, chosen: &[Symbol]) {
        let said = match tick.kind.as_str() {
            "quote" => {
                let best = [(tick.bid, tick.bid_size), (tick.offer, tick.offer_size)];
                Said::Best(best.map(|(price, size)| price.zip(size)))
            }
            "trade" => {
                let taker = match tick.taker.as_deref() {
                    Some("buy") => Some(Side::Buy),
                    Some("sell") => Some(Side::Sell),
                    _ => None,
                };
                let (price, size) = (tick.price.unwrap_or(0), tick.size.unwrap_or(0));
                Said::Trade { price, size, taker }
            }
            "gap" => {
                let count = tick.until.unwrap_or(0).saturating_sub(tick.sequence);
                self.lost = self.lost.saturating_add(u64::try_from(count).unwrap_or(0));
                return;
            }
            _ => return,
        };
        let symbol = tick.symbol.as_deref().and_then(Symbol::new);
        let Some(symbol) = symbol.filter(|_| !tick.contract) else {
            self.left_out += 1;
            return;
        };
        let time = self.time(tick.line, u64::try_from(tick.time).unwrap_or(0));
        if chosen.is_empty() || chosen.contains(&symbol) {
            self.heard.push(Heard { time, line: tick.line, symbol, said });
        }
    }

    /// Time of a tick of a line; it goes on where another day begins.
    fn time(&mut self, line: i32, sent: u64) -> Nanos {
        let (midnight, last) = self.clocks.entry(line).or_default();
        if last.saturating_sub(midnight.saturating_add(sent)) > NEXT_DAY_NS {
            *midnight = midnight.saturating_add(DAY_NS);
        }
        let time = midnight.saturating_add(sent);
        *last = time.max(*last);
        Nanos(time)
    }

    /// Decimals that all prices together need, at least four.
    fn decimals(&self) -> u32 {
        let needed = |price: i64| {
            let fits = |places: &u32| price % 10_i64.pow(DECIMALS - places) == 0;
            (4..DECIMALS).find(fits).unwrap_or(DECIMALS)
        };
        let prices = self.heard.iter().flat_map(|heard| match heard.said {
            Said::Best(best) => best.map(|side| side.map_or(0, |(price, _)| price)),
            Said::Trade { price, .. } => [price, 0],
        });
        prices.map(needed).max().unwrap_or(4)
    }

    fn recording(self, records_max: usize) -> Result<Recording, RecordingError> {
        let decimals = self.decimals();
        let mut recording = Recording::new(decimals);
        recording.left_out = self.left_out;
        let books = BTreeMap::new();
        let unit = 10_i64.pow(DECIMALS - decimals);
        let mut reader = Reader { recording, books, unit, records_max, orders: 0 };
        for heard in &self.heard {
            reader.take(heard)?;
        }
        Ok(reader.recording)
    }
}

/// A side's best price: its orders, which are as many lots together as were told.
#[derive(Clone, Debug, Default)]
struct Top {
    price: u32,
    /// Orders at the level: reference and lots.
    orders: Vec<(u64, u32)>,
}

impl Top {
    fn lots(&self) -> u32 {
        self.orders.iter().map(|(_, lots)| lots).sum()
    }
}

#[derive(Debug)]
struct Reader {
    recording: Recording,
    books: BTreeMap<(i32, Symbol), (InstrumentId, [Top; 2])>,
    /// Of a price here in those of the files.
    unit: i64,
    records_max: usize,
    orders: u64,
}

impl Reader {
    /// A price and lots that an order of the exchange can have.
    fn sound(&self, (price, size): (i64, i64)) -> Option<(u32, u32)> {
        let price = u32::try_from(price / self.unit).ok().filter(|price| *price > 0)?;
        Some((price, u32::try_from(size).ok().filter(|size| *size > 0)?))
    }

    fn push(
        &mut self,
        time: Nanos,
        instrument: InstrumentId,
        what: What,
    ) -> Result<(), RecordingError> {
        self.recording.push(Record { time, instrument, what }, self.records_max)
    }

    fn take(&mut self, heard: &Heard) -> Result<(), RecordingError> {
        let key = (heard.line, heard.symbol);
        let (instrument, tops) = match self.books.remove(&key) {
            Some(known) => known,
            None => (self.recording.instrument(heard.symbol)?, Default::default()),
        };
        let tops = match heard.said {
            Said::Best(best) => self.quote(heard.time, instrument, tops, best)?,
            Said::Trade { price, size, taker } => {
                match self.sound((price, size)) {
                    Some((price, qty)) => {
                        let side = taker.map(Side::opposite);
                        let print = What::Print { aggressor: None, qty, price };
                        let what = side.map_or(print, |_| What::Trade { side, qty, price });
                        self.push(heard.time, instrument, what)?;
                    }
                    None => self.recording.left_out += 1,
                }
                tops
            }
        };
        self.books.insert(key, (instrument, tops));
        Ok(())
    }

    fn quote(
        &mut self,
        time: Nanos,
        instrument: InstrumentId,
        mut tops: [Top; 2],
        best: [Told; 2],
    ) -> Result<[Top; 2], RecordingError> {
        let due = best.map(|side| side.and_then(|side| self.sound(side)));
        let strange = best.iter().zip(due).filter(|(told, due)| told.is_some() != due.is_some());
        let strange = strange.count() as u64;
        self.recording.left_out += strange;
        // What goes first, so that the old price of a side never meets the new one of the other.
        for (top, due) in tops.iter_mut().zip(due) {
            let (price, lots) = due.unwrap_or((0, 0));
            let mut gone =
                if top.price == price { top.lots().saturating_sub(lots) } else { u32::MAX };
            while gone > 0 {
                let Some((order, has)) = top.orders.pop() else { break };
                let what = match gone < has {
                    true => What::Reduce { order, qty: gone },
                    false => What::Delete { order },
                };
                if gone < has {
                    top.orders.push((order, has - gone));
                }
                gone = gone.saturating_sub(has);
                self.push(time, instrument, what)?;
            }
            top.price = price;
        }
        for ((top, due), side) in tops.iter_mut().zip(due).zip([Side::Buy, Side::Sell]) {
            let Some((price, lots)) = due else { continue };
            let qty = lots.saturating_sub(top.lots());
            if qty > 0 {
                self.orders += 1;
                let order = self.orders;
                top.orders.push((order, qty));
                self.push(time, instrument, What::Add { order, side, qty, price })?;
            }
        }
        if strange > 0 {
            self.recording.step(instrument, None, Check::Excluded(Excluded::Price));
        } else {
            let level = |side: Option<(u32, u32)>| {
                side.map(|(price, lots)| (i64::from(price), u64::from(lots))).into_iter().collect()
            };
            let (sides, complete) = (due.map(level), due.map(|side| side.is_none()));
            self.recording.step_to_levels(instrument, Levels { sides, complete });
        }
        Ok(tops)
    }
}

#[cfg(test)]
mod tests {
    use types::SplitMix64;

    use super::*;
    use crate::{Config, Delay, Outcome, run};
    use strategy::{Desk, Idle, Strategy};

    fn quote(time: i64, bid: Told, offer: Told) -> Tick {
        let (bid, bid_size) = bid.unzip();
        let (offer, offer_size) = offer.unzip();
        let (kind, symbol) = ("quote".to_string(), Some("A".to_string()));
        Tick { time, kind, symbol, bid, bid_size, offer, offer_size, ..Tick::default() }
    }

    fn trade(time: i64, price: i64, size: i64, taker: Option<&str>) -> Tick {
        let (kind, symbol) = ("trade".to_string(), Some("A".to_string()));
        let (price, size, taker) = (Some(price), Some(size), taker.map(str::to_string));
        Tick { time, kind, symbol, price, size, taker, ..Tick::default() }
    }

    fn recording(ticks: &[Tick]) -> Recording {
        let mut collected = Collected::default();
        ticks.iter().for_each(|tick| collected.take(tick, &[]));
        collected.recording(10_000).expect("room")
    }

    /// Buys 5 for `price` at the first quote.
    struct Buys(i64, bool);

    impl Strategy for Buys {
        fn name(&self) -> &str {
            "buys"
        }

        fn on_book(&mut self, instrument: InstrumentId, desk: &mut Desk<'_>) {
            if !std::mem::replace(&mut self.1, true) {
                let terms = (5, types::Price(self.0));
                desk.send(instrument, Side::Buy, terms, types::TimeInForce::Day, false);
            }
        }
    }

    fn plays(ticks: &[Tick], strategy: &mut dyn Strategy) -> Outcome {
        let none = Delay::default();
        let config = Config { feed: none, orders: none, ..Config::default() };
        run(&recording(ticks), config, strategy).expect("events")
    }

    const CENT: i64 = 1_000_000;

    fn fills(ticks: &[Tick], price: i64) -> Vec<(u64, i64, u64)> {
        let outcome = plays(ticks, &mut Buys(price, false));
        outcome.fills.iter().map(|fill| (fill.time.0, fill.price.0, fill.qty.0)).collect()
    }

    #[test]
    fn a_resting_order_trades_behind_a_worse_price_or_when_the_other_side_comes_and_not_before() {
        let first = quote(10, Some((100 * CENT, 8)), Some((110 * CENT, 4)));
        let of = |later: &[Tick]| [std::slice::from_ref(&first), later].concat();
        // At its own price nobody knows who was first.
        assert_eq!(fills(&of(&[trade(20, 100 * CENT, 3, Some("sell"))]), 10_000), []);
        // The others at its price are gone, and sellers go on.
        let gone = quote(15, Some((99 * CENT, 8)), Some((110 * CENT, 4)));
        let through = |taker| [gone.clone(), trade(20, 99 * CENT, 3, taker)];
        assert_eq!(fills(&of(&through(Some("sell"))), 10_000), [(20, 10_000, 3)]);
        // Buyers who take, and trades without a taker, serve no buyer.
        assert_eq!(fills(&of(&through(Some("buy"))), 10_000), []);
        assert_eq!(fills(&of(&through(None)), 10_000), []);
        let comes = quote(30, Some((98 * CENT, 1)), Some((100 * CENT, 2)));
        let all = [through(Some("sell")).as_slice(), &[comes]].concat();
        assert_eq!(fills(&of(&all), 10_000), [(20, 10_000, 3), (30, 10_000, 2)]);
        // One that comes takes what is there, and the lots it took are not there again.
        let more = quote(20, Some((100 * CENT, 8)), Some((110 * CENT, 5)));
        assert_eq!(
            fills(&of(std::slice::from_ref(&more)), 11_000),
            [(10, 11_000, 4), (20, 11_000, 1)]
        );
    }

    #[test]
    fn best_prices_of_the_engine_are_those_of_random_quotes() {
        let seed = 26;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let mut ticks = Vec::new();
        for step in 0..2_000 {
            let middle = 500 + random.below(40) as i64;
            let mut side = |offset: i64| {
                let size = 1 + random.below(9) as i64;
                random.permille(900).then_some(((middle + offset) * CENT, size))
            };
            let (bid, offer) = (side(-1), side(1));
            ticks.push(quote(step * 10, bid, offer));
            if random.permille(300) {
                ticks.push(trade(step * 10 + 1, middle * CENT, 2, Some("sell")));
            }
        }
        let outcome = plays(&ticks, &mut Idle);
        let shares = outcome.equality.outside;
        assert!(shares.events >= 1_990, "{shares:?}");
        assert_eq!(
            (shares.price, shares.size, shares.levels),
            (shares.events, shares.events, shares.events)
        );
        assert_eq!(
            (outcome.market.unknown, outcome.market.crossed, outcome.market.refused),
            (0, 0, 0)
        );
    }

    #[test]
    fn days_go_on_and_whatever_no_order_can_be_is_left_out() {
        let hour = 3_600 * Nanos::SECOND as i64;
        let gap = Tick { kind: "gap".to_string(), sequence: 5, until: Some(9), ..Tick::default() };
        let contract = Tick { contract: true, ..trade(1, CENT, 1, None) };
        let ticks = [
            quote(16 * hour, Some((CENT / 100, 1)), None),
            gap,
            contract,
            quote(9 * hour, Some((-CENT, 1)), Some((i64::MAX, i64::MAX))),
            trade(9 * hour, CENT, 0, None),
            quote(10 * hour, None, Some((CENT, 7))),
        ];
        let mut collected = Collected::default();
        ticks.iter().for_each(|tick| collected.take(tick, &[]));
        assert_eq!(collected.lost, 4);
        let recording = collected.recording(100).expect("room");
        // i64::MAX needs every decimal there is.
        assert_eq!((recording.price_decimals, recording.left_out), (8, 4));
        let last = recording.records().last().expect("one");
        assert_eq!(last.time.0, 34 * hour as u64);
        let mut few = Collected::default();
        ticks.iter().for_each(|tick| few.take(tick, &[]));
        assert_eq!(few.recording(1).err(), Some(RecordingError::Records(1)));
    }
}
