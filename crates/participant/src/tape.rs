//! What the clients of one driver saw, in bounded lists that the owner drains.

use std::collections::BTreeMap;

use types::{InstrumentId, Liquidity, MatchNumber, Nanos, Price, Qty, Side};

use crate::{ledger::RequestKind, venue::Trade};

/// Time from when a request was due to its first answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latency {
    /// Index of the client that asked.
    pub client: u8,
    /// Kind of the request.
    pub kind: RequestKind,
    /// Time of the answer.
    pub at: Nanos,
    /// Nanoseconds since the request was due.
    pub ns: u64,
}

/// One side of a trade, as its participant saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sighting {
    /// Index of the client.
    pub client: u8,
    /// Time of the execution.
    pub at: Nanos,
    /// Match number of the trade.
    pub match_number: MatchNumber,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Flow id of the order that traded.
    pub id: u64,
    /// Its side.
    pub side: Side,
    /// Quantity, lots.
    pub qty: Qty,
    /// Price of the trade.
    pub price: Price,
    /// Whether it rested or came in.
    pub liquidity: Liquidity,
}

/// A trade of which both sides have been seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JoinedTrade {
    /// Match number.
    pub match_number: MatchNumber,
    /// The instrument.
    pub instrument: InstrumentId,
    /// The trade, with flow ids of its orders.
    pub trade: Trade,
}

/// Bounds of a [`Tape`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapeConfig {
    /// Latencies kept until they are drained.
    pub latencies_max: usize,
    /// Sightings kept until they are drained.
    pub sightings_max: usize,
    /// Trades kept, and trades of which one side is missing.
    pub trades_max: usize,
}

impl Default for TapeConfig {
    fn default() -> Self {
        TapeConfig { latencies_max: 1 << 20, sightings_max: 1 << 18, trades_max: 1 << 20 }
    }
}

/// The lists, and what did not fit or fit together.
#[derive(Debug, Default)]
pub struct Tape {
    config: TapeConfig,
    latencies: Vec<Latency>,
    sightings: Vec<Sighting>,
    halves: BTreeMap<MatchNumber, Sighting>,
    trades: Vec<JoinedTrade>,
    overflowed: u64,
    mismatched: u64,
}

impl Tape {
    /// An empty tape.
    pub fn new(config: TapeConfig) -> Tape {
        Tape { config, ..Tape::default() }
    }

    /// Hands over and forgets the latencies.
    pub fn drain_latencies(&mut self, each: impl FnMut(Latency)) {
        self.latencies.drain(..).for_each(each);
    }

    /// Hands over and forgets the executions as participants saw them.
    pub fn drain_sightings(&mut self, each: impl FnMut(Sighting)) {
        self.sightings.drain(..).for_each(each);
    }

    /// Trades of which both sides were seen, in order of the second sight.
    pub fn trades(&self) -> &[JoinedTrade] {
        &self.trades
    }

    /// Executions whose other side has not been seen.
    pub fn unmatched(&self) -> u64 {
        self.halves.len() as u64
    }

    /// Pairs of executions with one match number that differ in instrument, price or quantity, or
    /// are of the same side.
    pub fn mismatched(&self) -> u64 {
        self.mismatched
    }

    /// Entries left out because a list was full.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    pub(crate) fn latency(&mut self, latency: Latency) {
        push(&mut self.latencies, latency, self.config.latencies_max, &mut self.overflowed);
    }

    pub(crate) fn sighting(&mut self, seen: Sighting) {
        push(&mut self.sightings, seen, self.config.sightings_max, &mut self.overflowed);
        let Some(other) = self.halves.remove(&seen.match_number) else {
            if self.halves.len() < self.config.trades_max {
                self.halves.insert(seen.match_number, seen);
            } else {
                self.overflowed += 1;
            }
            return;
        };
        let same = other.instrument == seen.instrument
            && (other.price, other.qty) == (seen.price, seen.qty)
            && other.side == seen.side.opposite();
        if !same {
            self.mismatched += 1;
            return;
        }
        let (buy, sell) = match seen.side {
            Side::Buy => (seen.id, other.id),
            Side::Sell => (other.id, seen.id),
        };
        let Sighting { match_number, instrument, price, qty, .. } = seen;
        let joined =
            JoinedTrade { match_number, instrument, trade: Trade { buy, sell, price, qty } };
        push(&mut self.trades, joined, self.config.trades_max, &mut self.overflowed);
    }
}

fn push<T>(list: &mut Vec<T>, item: T, max: usize, overflowed: &mut u64) {
    if list.len() < max {
        list.push(item);
    } else {
        *overflowed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(number: u64, id: u64, side: Side, qty: u64) -> Sighting {
        Sighting {
            client: 0,
            at: Nanos(1),
            match_number: MatchNumber(number),
            instrument: InstrumentId(1),
            id,
            side,
            qty: Qty(qty),
            price: Price(100),
            liquidity: Liquidity::Added,
        }
    }

    #[test]
    fn both_sides_make_a_trade_in_either_order() {
        let mut tape = Tape::new(TapeConfig::default());
        tape.sighting(seen(1, 7, Side::Buy, 5));
        tape.sighting(seen(2, 8, Side::Sell, 3));
        tape.sighting(seen(2, 7, Side::Buy, 3));
        tape.sighting(seen(1, 9, Side::Sell, 5));
        let ids: Vec<_> = tape.trades().iter().map(|t| (t.trade.buy, t.trade.sell)).collect();
        assert_eq!((ids, tape.unmatched()), (vec![(7, 8), (7, 9)], 0));
        tape.sighting(seen(3, 7, Side::Buy, 5));
        tape.sighting(seen(3, 9, Side::Buy, 5));
        tape.sighting(seen(4, 7, Side::Buy, 5));
        assert_eq!((tape.mismatched(), tape.unmatched(), tape.overflowed()), (1, 1, 0));
    }

    #[test]
    fn lists_are_bounded() {
        let config = TapeConfig { latencies_max: 1, sightings_max: 1, trades_max: 1 };
        let mut tape = Tape::new(config);
        (1..=3).for_each(|number| tape.sighting(seen(number, 1, Side::Buy, 1)));
        assert_eq!((tape.unmatched(), tape.overflowed()), (1, 4));
        let mut sightings = 0;
        tape.drain_sightings(|_| sightings += 1);
        assert_eq!(sightings, 1);
    }
}
