//! The trades a venue printed, to compare ours with.

use std::collections::BTreeMap;

use types::{Price, Qty};

/// One trade by the flow ids of both orders.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Trade {
    /// Flow id of the buy order.
    pub buy: u64,
    /// Flow id of the sell order.
    pub sell: u64,
    /// Trade price.
    pub price: Price,
    /// Quantity, lots.
    pub qty: Qty,
}

/// How our trades compare with the venue's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Comparison {
    /// Number of trades that the venue printed.
    pub venue: u64,
    /// Of them, those that happened here between the same orders at the same price and quantity.
    pub reproduced: u64,
    /// Trades here that the venue did not print.
    pub extra: u64,
}

/// The venue's trades as a multiset, and the totals by order id.
#[derive(Clone, Debug, Default)]
pub struct VenueTrades {
    count: BTreeMap<Trade, u32>,
    traded: BTreeMap<u64, u64>,
    trades: u64,
}

impl VenueTrades {
    /// Adds one trade.
    pub fn push(&mut self, trade: Trade) {
        *self.count.entry(trade).or_default() += 1;
        *self.traded.entry(trade.buy).or_default() += trade.qty.0;
        *self.traded.entry(trade.sell).or_default() += trade.qty.0;
        self.trades += 1;
    }

    /// Number of trades.
    pub fn len(&self) -> u64 {
        self.trades
    }

    /// Whether the venue printed nothing.
    pub fn is_empty(&self) -> bool {
        self.trades == 0
    }

    /// Lots that the order of this id traded in total.
    pub fn traded(&self, id: u64) -> Qty {
        Qty(self.traded.get(&id).copied().unwrap_or(0))
    }

    /// Compares as multisets of (buy id, sell id, price, quantity); order does not matter.
    pub fn compare(&self, ours: impl IntoIterator<Item = Trade>) -> Comparison {
        let mut left = self.count.clone();
        let mut comparison = Comparison { venue: self.trades, ..Comparison::default() };
        for trade in ours {
            match left.get_mut(&trade) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    comparison.reproduced += 1;
                }
                _ => comparison.extra += 1,
            }
        }
        comparison
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_as_multisets() {
        let trade = |buy, sell, price, qty| Trade { buy, sell, price: Price(price), qty: Qty(qty) };
        let mut venue = VenueTrades::default();
        for trade in [trade(1, 2, 10, 5), trade(1, 2, 10, 5), trade(3, 2, 11, 1)] {
            venue.push(trade);
        }
        assert_eq!(venue.traded(2), Qty(11));
        let all = [trade(3, 2, 11, 1), trade(1, 2, 10, 5), trade(1, 2, 10, 5)];
        assert_eq!(venue.compare(all), Comparison { venue: 3, reproduced: 3, extra: 0 });
        // The third copy of a trade printed twice, swapped sides, another quantity: all extra.
        let wrong = [all[1], all[1], all[1], trade(2, 1, 10, 5), trade(3, 2, 11, 2)];
        assert_eq!(venue.compare(wrong), Comparison { venue: 3, reproduced: 2, extra: 3 });
    }
}
