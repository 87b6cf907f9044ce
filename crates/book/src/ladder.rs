//! The price levels of one side, in an array sorted with the best at the end.
//!
//! Levels compare by a key that is higher for the better price: the price of a bid, its negative
//! for an ask. So both sides run through the same code.

use types::{Price, Side};

use crate::slab::NIL;

/// Levels at the best end that are searched one by one before halving: most orders are near.
const NEAR: usize = 8;

/// One price with the queue of its orders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub(crate) key: i64,
    /// Sum of the open lots in the queue.
    pub(crate) qty: u64,
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) orders: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Ladder {
    side: Side,
    levels: Vec<Level>,
    capacity: usize,
}

impl Ladder {
    pub(crate) fn new(side: Side, capacity: u32) -> Ladder {
        let capacity = capacity as usize;
        Ladder { side, levels: Vec::with_capacity(capacity), capacity }
    }

    /// The key of a price on this side.
    pub(crate) fn key(&self, price: Price) -> i64 {
        match self.side {
            Side::Buy => price.0,
            Side::Sell => -price.0,
        }
    }

    /// The price of a key of this side.
    pub(crate) fn price(&self, key: i64) -> Price {
        match self.side {
            Side::Buy => Price(key),
            Side::Sell => Price(-key),
        }
    }

    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels
    }

    pub(crate) fn best(&self) -> Option<&Level> {
        self.levels.last()
    }

    pub(crate) fn best_mut(&mut self) -> Option<&mut Level> {
        self.levels.last_mut()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.levels.len() == self.capacity
    }

    pub(crate) fn at(&self, index: usize) -> &Level {
        &self.levels[index]
    }

    pub(crate) fn at_mut(&mut self, index: usize) -> &mut Level {
        &mut self.levels[index]
    }

    /// Where the level is (`Ok`), or where it would go (`Err`).
    pub(crate) fn find(&self, key: i64) -> Result<usize, usize> {
        let near = self.levels.len().saturating_sub(NEAR);
        for (index, level) in self.levels.iter().enumerate().skip(near).rev() {
            if level.key == key {
                return Ok(index);
            }
            if level.key < key {
                return Err(index + 1);
            }
        }
        self.levels[..near].binary_search_by(|level| level.key.cmp(&key))
    }

    /// Inserts an empty level; the caller puts an order into it at once.
    pub(crate) fn insert(&mut self, index: usize, key: i64) {
        assert!(!self.is_full(), "insert into a full ladder");
        self.levels.insert(index, Level { key, qty: 0, head: NIL, tail: NIL, orders: 0 });
    }

    pub(crate) fn remove(&mut self, index: usize) {
        debug_assert!(self.levels[index].orders == 0, "a level with orders is removed");
        self.levels.remove(index);
    }

    pub(crate) fn pop(&mut self) {
        debug_assert!(self.levels.last().is_none_or(|level| level.orders == 0));
        self.levels.pop();
    }

    /// Drops every level whose queue has run empty.
    pub(crate) fn drop_empty(&mut self) {
        self.levels.retain(|level| level.orders != 0);
    }
}
