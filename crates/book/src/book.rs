//! The book itself: matching, resting, and taking orders out again.

use types::{OrderRef, Price, Qty, Side, displayed_book};

use crate::ladder::Ladder;
use crate::order::{Handle, Order, Terms};
use crate::slab::{NIL, Slab};

/// What a book has room for. Reserved in full when the book is made (memory is touched as it is
/// used).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Resting orders, both sides together.
    pub orders: u32,
    /// Price levels of each side.
    pub levels: u32,
}

/// Which capacity is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// No slot for another order.
    Orders,
    /// No place for another price on this side.
    Levels,
}

/// One trade, told while it happens.
#[derive(Clone, Copy, Debug)]
pub struct Fill<'a> {
    /// The resting order after the trade; gone from the book when nothing of it is open.
    pub maker: &'a Order,
    /// Lots traded, at the maker's price.
    pub qty: Qty,
}

/// One price level as seen from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Depth {
    /// The price.
    pub price: Price,
    /// Open lots of all its orders.
    pub qty: Qty,
    /// Number of orders.
    pub orders: u32,
}

/// A limit order book. See the crate's contract.
#[derive(Clone, Debug)]
pub struct Book {
    pub(crate) slab: Slab,
    pub(crate) bids: Ladder,
    pub(crate) asks: Ladder,
}

impl Book {
    /// An empty book.
    ///
    /// # Panics
    /// When `capacity.orders` is `u32::MAX`, which means "none" inside.
    pub fn new(capacity: Capacity) -> Book {
        Book {
            slab: Slab::new(capacity.orders),
            bids: Ladder::new(Side::Buy, capacity.levels),
            asks: Ladder::new(Side::Sell, capacity.levels),
        }
    }

    /// Whether an order of `side` at `price` would trade at once.
    pub fn would_trade(&self, side: Side, price: Price) -> bool {
        let ladder = self.ladder(side.opposite());
        ladder.best().is_some_and(|best| best.key >= ladder.key(price))
    }

    /// Whether an order of `side` for `qty` lots at `price` can be taken in, if `leaving` (an order
    /// of the same side that is about to be replaced by it) is taken out first. What it trades at
    /// once needs no room; only what would rest is refused.
    ///
    /// # Errors
    /// The capacity that is used up.
    pub fn room(
        &self,
        side: Side,
        price: Price,
        qty: Qty,
        leaving: Option<Handle>,
    ) -> Result<(), Full> {
        let leaving = leaving.and_then(|handle| self.get(handle));
        // An order that trades and then rests has taken every order in its reach: a slot is free.
        let trades = self.would_trade(side, price);
        if self.slab.is_full() && leaving.is_none() && !trades {
            return Err(Full::Orders);
        }
        let ladder = self.ladder(side);
        if !ladder.is_full() || ladder.find(ladder.key(price)).is_ok() {
            return Ok(());
        }
        // A level that only the leaving order holds up goes with it.
        let alone = |order: &Order| {
            let level = ladder.find(ladder.key(order.price));
            order.side == side && level.is_ok_and(|index| ladder.at(index).orders == 1)
        };
        let trades_in_full = || trades && self.reaches(side, price, qty);
        if leaving.is_some_and(alone) || trades_in_full() { Ok(()) } else { Err(Full::Levels) }
    }

    /// Whether the other side has `qty` lots at `price` or better.
    fn reaches(&self, side: Side, price: Price, qty: Qty) -> bool {
        let ladder = self.ladder(side.opposite());
        let worst = ladder.key(price);
        let mut lots = 0;
        for level in ladder.levels().iter().rev().take_while(|level| level.key >= worst) {
            lots += level.qty;
            if lots >= qty.0 {
                return true;
            }
        }
        false
    }

    /// Trades up to `qty` lots against the other side, best price first and first come first served
    /// within a price, no worse than `limit` (`None`: at any price). Returns what is left.
    pub fn take(
        &mut self,
        side: Side,
        limit: Option<Price>,
        qty: Qty,
        mut on_fill: impl FnMut(Fill<'_>),
    ) -> Qty {
        let Book { slab, bids, asks } = self;
        let ladder = match side {
            Side::Buy => asks,
            Side::Sell => bids,
        };
        let worst = limit.map_or(i64::MIN, |price| ladder.key(price));
        let mut left = qty;
        while left.0 > 0 {
            let Some(level) = ladder.best_mut().filter(|best| best.key >= worst) else { break };
            while left.0 > 0 && level.head != NIL {
                let slot = level.head;
                let entry = slab.at_mut(slot);
                let traded = Qty(left.0.min(entry.order.open().0));
                entry.order.fill(traded);
                left.0 -= traded.0;
                level.qty -= traded.0;
                on_fill(Fill { maker: &entry.order, qty: traded });
                if entry.order.open().0 == 0 {
                    level.head = entry.next;
                    level.orders -= 1;
                    slab.remove(slot);
                }
            }
            if level.head == NIL {
                debug_assert!(level.qty == 0 && level.orders == 0);
                ladder.pop();
            } else {
                slab.at_mut(level.head).prev = NIL;
            }
        }
        self.debug_check();
        left
    }

    /// Puts an order last in the queue of its price.
    ///
    /// # Errors
    /// [`Full`], with nothing changed.
    ///
    /// # Panics
    /// When nothing of it is open, or when it would trade: match it first.
    pub fn rest(&mut self, order: Order) -> Result<Handle, Full> {
        assert!(order.open().0 > 0, "an order without open quantity rests");
        assert!(!self.would_trade(order.side, order.price), "a crossing order rests");
        self.room(order.side, order.price, order.open(), None)?;
        let ladder = match order.side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        };
        let key = ladder.key(order.price);
        let index = ladder.find(key).unwrap_or_else(|index| {
            ladder.insert(index, key);
            index
        });
        let level = ladder.at_mut(index);
        let slot = self.slab.insert(order);
        self.slab.at_mut(slot).prev = level.tail;
        match level.tail {
            NIL => level.head = slot,
            tail => self.slab.at_mut(tail).next = slot,
        }
        level.tail = slot;
        level.orders += 1;
        level.qty += order.open().0;
        self.debug_check();
        Ok(self.slab.handle(slot))
    }

    /// Takes an order out. `None` when the handle is stale.
    pub fn cancel(&mut self, handle: Handle) -> Option<Order> {
        let slot = self.slab.find(handle)?;
        let order = self.slab.at(slot).order;
        let index = self.level_of(&order);
        self.unlink(slot, index);
        let ladder = self.ladder_mut(order.side);
        if ladder.at(index).orders == 0 {
            ladder.remove(index);
        }
        self.debug_check();
        Some(order)
    }

    /// Sets the open quantity of an order to `open`, which is above zero and at most the present
    /// one; it keeps its place. Returns the order afterwards, `None` when the handle is stale or
    /// `open` is out of that range.
    pub fn reduce(&mut self, handle: Handle, open: Qty) -> Option<Order> {
        let slot = self.slab.find(handle)?;
        let order = &mut self.slab.at_mut(slot).order;
        let less = order.open().0.checked_sub(open.0)?;
        if open.0 == 0 {
            return None;
        }
        order.set_open(open);
        let order = *order;
        let index = self.level_of(&order);
        self.ladder_mut(order.side).at_mut(index).qty -= less;
        self.debug_check();
        Some(order)
    }

    /// As [`Book::reduce`], and gives the order its new terms: a replace that keeps its place.
    pub fn amend(&mut self, handle: Handle, terms: Terms) -> Option<Order> {
        self.reduce(handle, terms.open)?;
        let slot = self.slab.find(handle)?;
        let order = &mut self.slab.at_mut(slot).order;
        order.owner = terms.owner;
        order.time_in_force = terms.time_in_force;
        order.flags = terms.flags;
        Some(*order)
    }

    /// Takes out every order that `wanted` says, bids before asks, best price first, in queue
    /// order, and tells `on_removed` of each.
    pub fn remove_where(
        &mut self,
        mut wanted: impl FnMut(&Order) -> bool,
        mut on_removed: impl FnMut(&Order),
    ) {
        for side in [Side::Buy, Side::Sell] {
            for index in (0..self.ladder(side).levels().len()).rev() {
                let mut slot = self.ladder(side).at(index).head;
                while slot != NIL {
                    let (order, next) = (self.slab.at(slot).order, self.slab.at(slot).next);
                    if wanted(&order) {
                        self.unlink(slot, index);
                        on_removed(&order);
                    }
                    slot = next;
                }
            }
            self.ladder_mut(side).drop_empty();
        }
        self.debug_check();
    }

    /// The order a handle names, if it still rests.
    pub fn get(&self, handle: Handle) -> Option<&Order> {
        self.slab.find(handle).map(|slot| &self.slab.at(slot).order)
    }

    /// Number of resting orders.
    pub fn len(&self) -> usize {
        self.slab.len() as usize
    }

    /// Whether nothing rests.
    pub fn is_empty(&self) -> bool {
        self.slab.len() == 0
    }

    /// The best level of a side.
    pub fn best(&self, side: Side) -> Option<Depth> {
        self.depth(side).next()
    }

    /// The levels of a side, best first.
    pub fn depth(&self, side: Side) -> impl Iterator<Item = Depth> {
        let ladder = self.ladder(side);
        ladder.levels().iter().rev().map(|level| Depth {
            price: ladder.price(level.key),
            qty: Qty(level.qty),
            orders: level.orders,
        })
    }

    /// The orders of a side, best price first and in queue order within a price.
    pub fn orders(&self, side: Side) -> impl Iterator<Item = &Order> {
        self.ladder(side).levels().iter().rev().flat_map(|level| {
            let head = (level.head != NIL).then(|| self.slab.at(level.head));
            std::iter::successors(head, |entry| {
                (entry.next != NIL).then(|| self.slab.at(entry.next))
            })
            .map(|entry| &entry.order)
        })
    }

    /// Digest of the displayed book; see [`types::displayed_book`].
    pub fn displayed_digest(&self) -> u64 {
        displayed_book(self.displayed(Side::Buy), self.displayed(Side::Sell))
    }

    fn displayed(&self, side: Side) -> impl Iterator<Item = (OrderRef, Price, Qty)> {
        self.orders(side).map(|order| (order.order_ref, order.price, order.open()))
    }

    pub(crate) fn ladder(&self, side: Side) -> &Ladder {
        match side {
            Side::Buy => &self.bids,
            Side::Sell => &self.asks,
        }
    }

    fn ladder_mut(&mut self, side: Side) -> &mut Ladder {
        match side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        }
    }

    fn level_of(&self, order: &Order) -> usize {
        let ladder = self.ladder(order.side);
        ladder.find(ladder.key(order.price)).expect("a resting order's price has a level")
    }

    /// Takes a slot out of its queue and frees it; an empty level is left to the caller.
    fn unlink(&mut self, slot: u32, index: usize) {
        let entry = *self.slab.at(slot);
        if entry.prev != NIL {
            self.slab.at_mut(entry.prev).next = entry.next;
        }
        if entry.next != NIL {
            self.slab.at_mut(entry.next).prev = entry.prev;
        }
        let level = self.ladder_mut(entry.order.side).at_mut(index);
        if level.head == slot {
            level.head = entry.next;
        }
        if level.tail == slot {
            level.tail = entry.prev;
        }
        level.orders -= 1;
        level.qty -= entry.order.open().0;
        self.slab.remove(slot);
    }
}
