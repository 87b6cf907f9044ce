//! The book's invariants, checked in full: by tests after every step, and by debug builds as long
//! as the book is small.

use types::Side;

use crate::Book;
use crate::slab::NIL;

/// Books up to this many orders are checked after every change in debug builds; larger ones would
/// make every debug run quadratic.
const SMALL: usize = 16;

/// An invariant that does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The best bid is not below the best ask.
    Crossed,
    /// The prices of a side are not strictly sorted.
    Unsorted(Side),
    /// A level has no order.
    EmptyLevel(Side),
    /// A level's quantity or number of orders is not the sum over its queue.
    Totals(Side),
    /// A queue's links do not run forth and back through the same orders.
    Links(Side),
    /// An order in a queue has another price or side than its level, or nothing open.
    Misplaced(Side),
    /// A slot in a queue is free, or a used slot is in no queue.
    Dangling,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "order book invariant broken: {self:?}")
    }
}

impl std::error::Error for Fault {}

impl Book {
    /// Checks every invariant; linear in the size of the book.
    ///
    /// # Errors
    /// The first [`Fault`] found.
    pub fn check(&self) -> Result<(), Fault> {
        if let (Some(bid), Some(ask)) = (self.best(Side::Buy), self.best(Side::Sell))
            && bid.price >= ask.price
        {
            return Err(Fault::Crossed);
        }
        let queued = self.check_side(Side::Buy)? + self.check_side(Side::Sell)?;
        let live = (0..self.slab.touched()).filter(|&slot| self.slab.is_live(slot)).count();
        if queued != live || live != self.len() {
            return Err(Fault::Dangling);
        }
        Ok(())
    }

    /// Checks one side and returns how many orders its queues hold.
    fn check_side(&self, side: Side) -> Result<usize, Fault> {
        let ladder = self.ladder(side);
        if !ladder.levels().is_sorted_by(|a, b| a.key < b.key) {
            return Err(Fault::Unsorted(side));
        }
        let mut queued = 0;
        for level in ladder.levels() {
            if level.orders == 0 {
                return Err(Fault::EmptyLevel(side));
            }
            let (mut slot, mut prev, mut qty, mut orders) = (level.head, NIL, 0, 0);
            while slot != NIL {
                if !self.slab.is_live(slot) || orders > level.orders {
                    return Err(Fault::Dangling);
                }
                let entry = self.slab.at(slot);
                if entry.prev != prev {
                    return Err(Fault::Links(side));
                }
                let order = &entry.order;
                if order.side != side || ladder.key(order.price) != level.key || order.open().0 == 0
                {
                    return Err(Fault::Misplaced(side));
                }
                qty += order.open().0;
                orders += 1;
                (prev, slot) = (slot, entry.next);
            }
            if level.tail != prev {
                return Err(Fault::Links(side));
            }
            if (qty, orders) != (level.qty, level.orders) {
                return Err(Fault::Totals(side));
            }
            queued += orders as usize;
        }
        Ok(queued)
    }

    pub(crate) fn debug_check(&self) {
        if cfg!(debug_assertions) && self.slab.touched() as usize <= SMALL {
            self.check().expect("the book keeps its invariants");
        }
    }
}
