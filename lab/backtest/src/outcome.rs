//! What a backtest came to.

use types::{InstrumentId, Nanos};

use crate::account::{Account, Fill};
use crate::equality::Equality;
use crate::market::MarketCounters;

/// What trades were worth some time later, by the middle of the best prices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Markout {
    /// Quantity of the trades that are counted, lots.
    pub lots: u64,
    /// Gain of them all, price units times lots.
    pub gain: i128,
}

/// The strategy at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// Time that the point is for.
    pub time: Nanos,
    /// What it would have if it sold everything at the middle, price units times lots.
    pub equity: i128,
    /// Lots held of the first instrument.
    pub lots: i64,
    /// Best bid plus best offer of the first instrument.
    pub twice_middle: i64,
}

/// What a backtest came to. Money is in price units times lots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How record and books got on.
    pub market: MarketCounters,
    /// How often the engine's books were the data's own.
    pub equality: Equality,
    /// Trades that the record tells.
    pub prints: u64,
    /// Recorded orders that live at the end, and lots of them that the books lack.
    pub missing: (usize, u64),
    /// Number of the strategy's orders.
    pub orders: u64,
    /// Number of the strategy's cancels.
    pub cancels: u64,
    /// Number of the strategy's requests that were refused.
    pub refused: u64,
    /// Trades of the strategy, in order.
    pub fills: Vec<Fill>,
    /// What the strategy holds at the end.
    pub account: Account,
    /// Equity at the end, with holdings valued at the last known middle of the best prices; where
    /// there never was one, at the price at which the strategy traded last.
    pub equity: i128,
    /// Largest equity less what came after it.
    pub drawdown: i128,
    /// Largest holding of any instrument, long or short.
    pub lots_max: u64,
    /// Markout of trades of orders that rested.
    pub made: Markout,
    /// Markout of trades of orders that came in.
    pub taken: Markout,
    /// Course of the strategy over the backtest.
    pub points: Vec<Point>,
    /// Instruments that it holds lots of and that never had a middle.
    pub unpriced: Vec<InstrumentId>,
    /// Of every message that the engine sent to the public and to the strategy.
    pub digest: u64,
    /// Time of the first and of the last event.
    pub span: (Nanos, Nanos),
}
