//! Who is told of all that happens, for files.

use types::Nanos;

use crate::account::Fill;
use crate::equality::Compared;
use strategy::MarketTrade;

/// Is told of trades and best prices as they happen at the exchange.
pub trait Observer {
    /// A trade of the record.
    fn trade(&mut self, trade: &MarketTrade);
    /// A trade of the strategy.
    fn fill(&mut self, fill: &Fill);
    /// Best prices after an event of the record at `now`.
    fn best(&mut self, now: Nanos, compared: &Compared);
}

/// An observer that writes nothing down, for runs without files.
pub(crate) struct Unobserved;

impl Observer for Unobserved {
    fn trade(&mut self, _: &MarketTrade) {}
    fn fill(&mut self, _: &Fill) {}
    fn best(&mut self, _: Nanos, _: &Compared) {}
}
