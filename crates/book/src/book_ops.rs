//! One book at work: the shared slab and index, the book's own state and who listens.
//!
//! The other modules add to [`BookOps`] what they know: entering, taking, replacing, auctions, ...

use types::{CancelReason, OrderEvent, OrderType, Price};

use crate::books::{Shared, Sink};
use crate::market::Market;
use crate::order::{Home, Kind, Order};

pub(crate) struct BookOps<'a, S> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) market: &'a mut Market,
    pub(crate) sink: &'a mut S,
}

impl<S: Sink> BookOps<'_, S> {
    #[inline(always)]
    pub(crate) fn tell(&mut self, slot: u32, event: OrderEvent) {
        self.sink.tell(event, &self.shared.slab[slot], None);
    }

    #[inline(always)]
    pub(crate) fn order(&self, slot: u32) -> &Order {
        &self.shared.slab[slot]
    }

    #[inline(always)]
    pub(crate) fn order_mut(&mut self, slot: u32) -> &mut Order {
        &mut self.shared.slab[slot]
    }

    /// Forgets an order that is in no queue any more.
    #[inline(always)]
    pub(crate) fn forget(&mut self, slot: u32) {
        self.shared.delist(slot);
        let order = &self.shared.slab[slot];
        if !self.market.fast && order.order_type.peg() {
            self.market.pegs.remove(order.order_ref);
            self.market.settle_fast();
        }
        self.release(slot);
    }

    /// Frees the slot of an order that is in no queue and not in the index.
    #[inline(always)]
    pub(crate) fn release(&mut self, slot: u32) {
        self.market.len -= 1;
        self.shared.free(slot);
    }

    /// Takes an order out of whatever it is in, leaving it loose.
    #[inline]
    pub(crate) fn take_out(&mut self, slot: u32) {
        match self.order(slot).home {
            Home::Shown => self.unlink_shown(slot),
            Home::Free | Home::Loose | Home::Parked => {}
            _ => self.take_out_rare(slot),
        }
        self.order_mut(slot).home = Home::Loose;
    }

    #[inline(never)]
    fn take_out_rare(&mut self, slot: u32) {
        let order = *self.order(slot);
        match order.home {
            Home::Hidden => self.unlink_hidden(slot),
            Home::Market => {
                let queue = &mut self.market.queues[order.side as usize];
                crate::queues::unlink(&mut self.shared.slab, queue, slot);
            }
            Home::Waiting => {
                crate::queues::unlink(&mut self.shared.slab, &mut self.market.waiting, slot);
            }
            Home::Stop => {
                let trails = order.order_type == OrderType::TrailingStop;
                let stops = &mut self.market.stops[order.side as usize];
                stops.remove(order.trigger, order.order_ref, trails);
                self.market.settle_fast();
            }
            Home::Shown | Home::Free | Home::Loose | Home::Parked => {}
        }
    }

    /// Cancels what is open of an order, wherever it is.
    #[inline]
    pub(crate) fn cancel_rest(&mut self, slot: u32, reason: CancelReason) {
        self.take_out(slot);
        let order = self.order_mut(slot);
        let (qty, shown) = (order.open, order.shown);
        (order.open, order.shown) = (0, 0);
        self.shared.tally.went(qty);
        self.tell(slot, OrderEvent::Canceled { qty, shown, reason });
        self.forget(slot);
    }

    /// What follows every command: pegs find their prices, stops that are due become active.
    #[inline(always)]
    pub(crate) fn settle(&mut self) {
        if !self.market.fast {
            self.settle_rare();
        }
    }

    #[inline(never)]
    fn settle_rare(&mut self) {
        while self.continuous() {
            self.reprice_pegs();
            if !self.continuous() {
                return;
            }
            self.follow_trigger();
            let Some(slot) = self.next_due_stop() else { return };
            self.activate(slot);
        }
    }

    pub(crate) fn continuous(&self) -> bool {
        self.market.phase == types::Phase::Continuous
    }

    /// Whether a price lies outside the dynamic collar.
    pub(crate) fn outside_collar(&self, price: i64) -> bool {
        self.market.collar.is_some_and(|(low, high)| price < low || price > high)
    }

    /// Changes an order's price and tells it (pegs).
    pub(crate) fn restate(&mut self, slot: u32, price: i64) {
        let order = self.order_mut(slot);
        let from = Price(std::mem::replace(&mut order.price, price));
        self.tell(slot, OrderEvent::Repriced { from });
    }
}
