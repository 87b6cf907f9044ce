//! A ring of the last trades of a ledger's accounts, in order of match numbers, for corrections.

use std::collections::VecDeque;

use types::{MatchNumber, Price, Side};

/// One side of a trade as it was last told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trade {
    pub(super) qty: u64,
    pub(super) price: Price,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    match_number: MatchNumber,
    side: Side,
    /// The trade as it stands; `None`: it was broken.
    trade: Option<Trade>,
}

/// The last trades, in ascending order of match numbers.
#[derive(Clone, Debug)]
pub(super) struct Trades {
    ring: VecDeque<Entry>,
    most: usize,
}

impl Trades {
    /// A ring for the last `most` trades, at least one.
    pub(super) fn new(most: usize) -> Trades {
        Trades { ring: VecDeque::new(), most: most.max(1) }
    }

    /// Reserves the memory for all of them.
    pub(super) fn prepare(&mut self) {
        self.ring.reserve(self.most.saturating_sub(self.ring.len()));
    }

    fn find(&mut self, match_number: MatchNumber, side: Side) -> Option<&mut Entry> {
        let at = self.ring.partition_point(|entry| entry.match_number < match_number);
        let of_match = self.ring.range_mut(at..);
        of_match
            .take_while(|entry| entry.match_number == match_number)
            .find(|entry| entry.side == side)
    }

    /// Records a trade or its correction, and returns what it was before. A trade that is not known
    /// and has a lower number than the newest one is not recorded.
    pub(super) fn put(
        &mut self,
        match_number: MatchNumber,
        side: Side,
        trade: Trade,
    ) -> Option<Trade> {
        if let Some(entry) = self.find(match_number, side) {
            return entry.trade.replace(trade);
        }
        if self.ring.back().is_none_or(|last| last.match_number <= match_number) {
            if self.ring.len() >= self.most {
                self.ring.pop_front();
            }
            self.ring.push_back(Entry { match_number, side, trade: Some(trade) });
        }
        None
    }

    /// Marks a trade as broken and returns what it was.
    pub(super) fn take(&mut self, match_number: MatchNumber, side: Side) -> Option<Trade> {
        self.find(match_number, side)?.trade.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_both_sides_of_the_last_trades() {
        let mut trades = Trades::new(4);
        let trade = |qty| Trade { qty, price: Price(1) };
        for number in 1..=3 {
            assert_eq!(trades.put(MatchNumber(number), Side::Sell, trade(number)), None);
            assert_eq!(trades.put(MatchNumber(number), Side::Buy, trade(number)), None);
        }
        assert_eq!(trades.take(MatchNumber(1), Side::Buy), None, "forgotten");
        assert_eq!(trades.put(MatchNumber(1), Side::Buy, trade(9)), None);
        assert_eq!(trades.put(MatchNumber(2), Side::Buy, trade(8)), Some(trade(2)));
        assert_eq!(trades.take(MatchNumber(2), Side::Buy), Some(trade(8)));
        assert_eq!(trades.take(MatchNumber(2), Side::Buy), None, "once");
        assert_eq!(trades.take(MatchNumber(2), Side::Sell), Some(trade(2)));
    }
}
