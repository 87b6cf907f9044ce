//! A matching engine for experiments on queues: unit orders, limit prices on a short ladder,
//! price-time priority. What trades when is all they need of an exchange.

use std::collections::VecDeque;

/// Which side an order is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Buys.
    Bid,
    /// Sells.
    Ask,
}

/// The book.
pub struct Market {
    bids: Vec<VecDeque<u32>>,
    asks: Vec<VecDeque<u32>>,
}

impl Market {
    /// An empty book with prices 0 up to `levels`.
    pub fn new(levels: usize) -> Market {
        Market { bids: vec![VecDeque::new(); levels], asks: vec![VecDeque::new(); levels] }
    }

    /// Takes the order `id`; gives the resting order that it trades with, or rests it.
    ///
    /// # Panics
    /// When the price is not on the ladder.
    pub fn take(&mut self, id: u32, side: Side, price: usize) -> Option<u32> {
        let best = match side {
            Side::Bid => self.asks[..=price].iter_mut().find(|level| !level.is_empty()),
            Side::Ask => self.bids[price..].iter_mut().rev().find(|level| !level.is_empty()),
        };
        if let Some(maker) = best.and_then(VecDeque::pop_front) {
            return Some(maker);
        }
        match side {
            Side::Bid => self.bids[price].push_back(id),
            Side::Ask => self.asks[price].push_back(id),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_price_first_then_oldest() {
        let mut market = Market::new(10);
        assert_eq!(market.take(1, Side::Ask, 5), None);
        assert_eq!(market.take(2, Side::Ask, 4), None);
        assert_eq!(market.take(3, Side::Ask, 4), None);
        assert_eq!(market.take(4, Side::Bid, 3), None);
        assert_eq!(market.take(5, Side::Bid, 9), Some(2));
        assert_eq!(market.take(6, Side::Bid, 4), Some(3));
        assert_eq!(market.take(7, Side::Bid, 4), None);
        assert_eq!(market.take(8, Side::Ask, 0), Some(7));
        assert_eq!(market.take(9, Side::Ask, 0), Some(4));
    }
}
