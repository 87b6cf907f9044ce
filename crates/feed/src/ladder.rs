//! One side of one book: price levels in a sorted vector, best at the end, each a queue of orders.
//!
//! Most messages touch prices near the best one, where inserting into the vector moves little.

use types::{OrderRef, Price, Qty, Side};

use crate::orders::{NONE, Orders, Slot};

/// A price of a book with the displayed orders at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Price of the level.
    pub price: Price,
    /// Displayed quantity of all its orders, lots.
    pub qty: Qty,
    /// Number of orders at the price.
    pub orders: u32,
}

#[derive(Clone, Copy, Debug)]
struct Rung {
    price: u32,
    orders: u32,
    qty: u64,
    head: Slot,
    tail: Slot,
}

impl Rung {
    fn level(&self) -> Level {
        Level { price: Price(self.price.into()), qty: Qty(self.qty), orders: self.orders }
    }
}

/// The price levels of one side of a book.
#[derive(Debug)]
pub(crate) struct Ladder {
    side: Side,
    rungs: Vec<Rung>,
}

impl Ladder {
    pub fn new(side: Side) -> Ladder {
        Ladder { side, rungs: Vec::new() }
    }

    /// Rank of a price on this side; a better price has a larger rank.
    fn rank(&self, price: u32) -> u32 {
        if self.side == Side::Buy { price } else { !price }
    }

    fn search(&self, price: u32) -> Result<usize, usize> {
        let rank = self.rank(price);
        self.rungs.binary_search_by_key(&rank, |rung| self.rank(rung.price))
    }

    /// Puts the order in `slot` last in the queue of its price.
    pub fn push(&mut self, orders: &mut Orders, slot: Slot) {
        let (price, qty) = (orders.get(slot).price, orders.get(slot).qty);
        let index = match self.search(price) {
            Ok(index) => index,
            Err(index) => {
                let rung = Rung { price, orders: 0, qty: 0, head: NONE, tail: NONE };
                self.rungs.insert(index, rung);
                index
            }
        };
        let Some(rung) = self.rungs.get_mut(index) else { return };
        let tail = rung.tail;
        rung.orders += 1;
        rung.qty += u64::from(qty);
        rung.tail = slot;
        if tail == NONE {
            rung.head = slot;
        } else {
            orders.get_mut(tail).next = slot;
        }
        let order = orders.get_mut(slot);
        (order.prev, order.next) = (tail, NONE);
    }

    /// Takes the order in `slot` out of its queue; the slot itself stays taken.
    pub fn unlink(&mut self, orders: &mut Orders, slot: Slot) {
        let order = *orders.get(slot);
        let Ok(index) = self.search(order.price) else { return };
        let Some(rung) = self.rungs.get_mut(index) else { return };
        rung.orders -= 1;
        rung.qty -= u64::from(order.qty);
        match order.prev {
            NONE => rung.head = order.next,
            prev => orders.get_mut(prev).next = order.next,
        }
        match order.next {
            NONE => rung.tail = order.prev,
            next => orders.get_mut(next).prev = order.prev,
        }
        if rung.orders == 0 {
            self.rungs.remove(index);
        }
    }

    /// Takes `qty` lots, fewer than it has, from the order in `slot`; it keeps its place.
    pub fn reduce(&mut self, orders: &mut Orders, slot: Slot, qty: u32) {
        let order = orders.get_mut(slot);
        order.qty -= qty;
        let price = order.price;
        if let Ok(index) = self.search(price)
            && let Some(rung) = self.rungs.get_mut(index)
        {
            rung.qty -= u64::from(qty);
        }
    }

    /// Levels from the best to the worst.
    pub fn levels(&self) -> impl Iterator<Item = Level> + '_ {
        self.rungs.iter().rev().map(Rung::level)
    }

    /// Orders from the best level to the worst, each level from first to last.
    pub fn orders<'a>(
        &'a self,
        orders: &'a Orders,
    ) -> impl Iterator<Item = (OrderRef, Price, Qty)> + 'a {
        self.rungs.iter().rev().flat_map(move |rung| {
            let head = (rung.head != NONE).then_some(rung.head);
            std::iter::successors(head, move |&slot| {
                let next = orders.get(slot).next;
                (next != NONE).then_some(next)
            })
            .map(move |slot| {
                let order = orders.get(slot);
                (OrderRef(order.order_ref), Price(order.price.into()), Qty(order.qty.into()))
            })
        })
    }
}
