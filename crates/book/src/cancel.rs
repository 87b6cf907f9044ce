//! Cancelling one order or many, and reducing (5.1, 5.2, 5.5).

use types::{CancelReason, OrderEvent, RejectReason, Side};

use crate::book_ops::BookOps;
use crate::books::Sink;
use crate::index::Found;
use crate::order::{Home, NIL, Order};

impl<S: Sink> BookOps<'_, S> {
    #[inline(always)]
    pub(crate) fn cancel(&mut self, found: Found) {
        let slot = found.slot;
        let order = &mut self.shared.slab[slot];
        if !self.market.fast || order.home != Home::Shown {
            self.cancel_rest(slot, CancelReason::Requested);
            return self.settle();
        }
        let (qty, shown, place) = (order.open, order.shown, order.place);
        let (prev, next, side) = (order.prev, order.next, order.side);
        (order.open, order.shown) = (0, 0);
        let event = OrderEvent::Canceled { qty, shown, reason: CancelReason::Requested };
        self.sink.tell(event, order, None);
        let ladder = &mut self.market.ladders[side as usize];
        ladder.leave(place, prev, next, qty, shown);
        self.shared.tally.went(qty);
        self.shared.index.clear(found);
        self.shared.delist_id(slot);
        self.market.len -= 1;
        self.shared.slab.unlink(prev, next);
        self.shared.free(slot);
    }

    #[inline(always)]
    pub(crate) fn reduce(&mut self, slot: u32, open: u32) -> Result<(), RejectReason> {
        let now = self.order(slot).open;
        if open == 0 || open >= now {
            return Err(RejectReason::InvalidQuantity);
        }
        let qty = now - open;
        let shown = self.shrink(slot, qty);
        self.shared.tally.went(qty);
        self.tell(slot, OrderEvent::Reduced { qty, shown, reason: CancelReason::Requested });
        self.settle();
        Ok(())
    }

    /// Cancels the orders `wanted` says yes to; returns how many.
    pub(crate) fn cancel_where(
        &mut self,
        reason: CancelReason,
        mut wanted: impl FnMut(&Order) -> bool,
    ) -> u64 {
        let mut count = 0;
        self.for_each(|ops, slot| {
            if wanted(ops.order(slot)) {
                ops.cancel_rest(slot, reason);
                count += 1;
            }
        });
        count
    }

    /// Does something to every order of the book, in the order of a mass cancel; it may remove the
    /// order it is shown, and no other.
    fn for_each(&mut self, mut act: impl FnMut(&mut Self, u32)) {
        for side in [Side::Buy, Side::Sell] {
            let mut next = self.market.own(side).best();
            while let Some(place) = next {
                let ladder = self.market.own(side);
                next = ladder.worse(place);
                let heads = [ladder.level(place).queue.head, ladder.hidden(place).head];
                heads.into_iter().for_each(|head| self.for_each_queued(head, &mut act));
            }
        }
        for head in self.market.queues.map(|queue| queue.head) {
            self.for_each_queued(head, &mut act);
        }
        for side in 0..2 {
            let mut next = self.market.stops[side].slots().next();
            while let Some(slot) = next {
                let (trigger, order_ref) = (self.order(slot).trigger, self.order(slot).order_ref);
                act(self, slot);
                next = self.market.stops[side].after(trigger, order_ref);
            }
        }
        let mut after = 0;
        while let Some((order_ref, slot)) = self.market.pegs.after(after) {
            after = order_ref;
            if self.order(slot).home == Home::Parked {
                act(self, slot);
            }
        }
        self.for_each_queued(self.market.waiting.head, &mut act);
    }

    fn for_each_queued(&mut self, head: u32, act: &mut impl FnMut(&mut Self, u32)) {
        let mut slot = head;
        while slot != NIL {
            let next = self.order(slot).next;
            act(self, slot);
            slot = next;
        }
    }
}
