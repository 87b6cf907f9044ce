//! Trades as the engine made them, and as ticks tell them.

use std::collections::BTreeMap;

use feed::plant::{Kind, Update, symbol};
use types::{InstrumentId, MarketEvent};

use crate::log::generated;

/// Trades of an instrument: how many, their lots, and one number over all of them in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sum {
    trades: u64,
    lots: u64,
    broken: u64,
    checksum: u64,
}

impl Sum {
    fn trade(&mut self, number: u64, lots: u64) {
        self.trades += 1;
        self.lots += lots;
        self.mix(number ^ lots << 32);
    }

    fn broken(&mut self, number: u64) {
        self.broken += 1;
        self.mix(!number);
    }

    fn mix(&mut self, value: u64) {
        self.checksum = (self.checksum ^ value).wrapping_mul(0x0100_0000_01B3).rotate_left(7);
    }
}

/// Trades by the number of their symbol.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trades {
    sums: BTreeMap<u64, Sum>,
    /// Symbols by instrument.
    names: BTreeMap<InstrumentId, u64>,
}

impl Trades {
    /// All trades.
    pub fn count(&self) -> u64 {
        self.sums.values().map(|sum| sum.trades).sum()
    }

    /// What a tick says.
    pub fn tick(&mut self, update: &Update) {
        self.learn();
        let sum = self.sums.entry(update.series.symbol).or_default();
        let number = update.offer.0 as u64;
        match update.kind {
            Kind::Trade => sum.trade(number, update.bid_size),
            _ => sum.broken(number),
        }
    }

    /// What the engine says.
    pub fn event(&mut self, event: &MarketEvent) {
        self.learn();
        let Some(name) = event.instrument().and_then(|id| self.names.get(&id)) else { return };
        let sum = self.sums.entry(*name).or_default();
        match *event {
            MarketEvent::OrderExecuted { qty, match_number, .. }
            | MarketEvent::OrderExecutedWithPrice { qty, match_number, printable: true, .. }
            | MarketEvent::Trade { qty, match_number, .. }
            | MarketEvent::CrossTrade { qty, match_number, .. } => {
                sum.trade(match_number.0, qty.0);
            }
            MarketEvent::BrokenTrade { match_number, .. } => sum.broken(match_number.0),
            _ => {}
        }
    }

    fn learn(&mut self) {
        if !self.names.is_empty() {
            return;
        }
        for instrument in generated::config().instruments {
            let name = symbol(&instrument.symbol.to_string()).unwrap_or(0);
            self.names.insert(instrument.id, name);
            self.sums.insert(name, Sum::default());
        }
    }
}
