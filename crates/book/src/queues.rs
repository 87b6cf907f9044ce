//! Linking orders into queues: plain ones, and the two of a level with its totals.

use types::OrderRef;

use crate::book_ops::BookOps;
use crate::books::Sink;
use crate::ladder::Queue;
use crate::order::{Home, NIL};
use crate::slab::Slab;

/// Takes an order out of a queue.
#[inline(always)]
pub(crate) fn unlink(slab: &mut Slab, queue: &mut Queue, slot: u32) {
    let order = &slab[slot];
    let (prev, next) = (order.prev, order.next);
    slab.unlink(prev, next);
    queue.unlink(prev, next);
}

/// Appends an order to a queue.
#[inline(always)]
pub(crate) fn append(slab: &mut Slab, queue: &mut Queue, slot: u32) {
    let tail = queue.append(slot);
    slab[tail].next = slot;
    let order = &mut slab[slot];
    (order.prev, order.next) = (tail, NIL);
}

impl<S: Sink> BookOps<'_, S> {
    /// Puts a loose order, its shown lots set, last in the displayed queue of a level that is marked as
    /// displaying lots.
    #[inline(always)]
    pub(crate) fn append_shown(&mut self, place: u32, slot: u32) {
        let order = &mut self.shared.slab[slot];
        (order.home, order.place) = (Home::Shown, place);
        let (open, shown) = (u64::from(order.open), u64::from(order.shown));
        let ladder = &mut self.market.ladders[order.side as usize];
        let level = ladder.level_mut(place);
        level.open += open;
        level.shown += shown;
        level.orders += 1;
        append(&mut self.shared.slab, &mut level.queue, slot);
    }

    /// Puts a loose order last in the hidden queue of a level.
    pub(crate) fn append_hidden(&mut self, place: u32, slot: u32) {
        let order = &mut self.shared.slab[slot];
        (order.home, order.place) = (Home::Hidden, place);
        let ladder = &mut self.market.ladders[order.side as usize];
        let level = ladder.level_mut(place);
        level.open += u64::from(order.open);
        level.orders += 1;
        append(&mut self.shared.slab, ladder.hidden_mut(place), slot);
    }

    #[inline(always)]
    pub(crate) fn unlink_shown(&mut self, slot: u32) {
        let order = &self.shared.slab[slot];
        let (prev, next) = (order.prev, order.next);
        let ladder = &mut self.market.ladders[order.side as usize];
        ladder.leave(order.place, prev, next, order.open, order.shown);
        self.shared.slab.unlink(prev, next);
    }

    pub(crate) fn unlink_hidden(&mut self, slot: u32) {
        let order = &self.shared.slab[slot];
        let place = order.place;
        let ladder = &mut self.market.ladders[order.side as usize];
        let level = ladder.level_mut(place);
        level.open -= u64::from(order.open);
        level.orders -= 1;
        let dark = level.shown == 0;
        unlink(&mut self.shared.slab, ladder.hidden_mut(place), slot);
        if dark {
            ladder.undisplay(place);
        }
    }

    /// Shows the next lots of an iceberg whose shown ones are used up: last in its queue, under a
    /// new reference (4.3).
    #[inline(never)]
    pub(crate) fn replenish(&mut self, slot: u32) {
        let order_ref = self.shared.next_ref();
        let order = &mut self.shared.slab[slot];
        let old_ref = OrderRef(std::mem::replace(&mut order.order_ref, order_ref));
        order.shown = order.portion();
        let (place, shown) = (order.place, u64::from(order.shown));
        let ladder = &mut self.market.ladders[order.side as usize];
        let level = ladder.level_mut(place);
        level.shown += shown;
        unlink(&mut self.shared.slab, &mut level.queue, slot);
        append(&mut self.shared.slab, &mut level.queue, slot);
        ladder.display(place);
        self.tell(slot, types::OrderEvent::Replenished { old_ref });
    }

    /// Takes lots away from a resting order, those not displayed first, and from its level. Returns
    /// how many of them were displayed.
    pub(crate) fn shrink(&mut self, slot: u32, lots: u32) -> u32 {
        let order = &mut self.shared.slab[slot];
        let shown = lots.saturating_sub(order.open - order.shown);
        self.lose(slot, lots, shown);
        shown
    }

    /// Takes `lots` open lots, `shown` of them displayed, from an order and from its level.
    #[inline(always)]
    pub(crate) fn lose(&mut self, slot: u32, lots: u32, shown: u32) {
        let order = &mut self.shared.slab[slot];
        order.open -= lots;
        order.shown -= shown;
        if matches!(order.home, Home::Shown | Home::Hidden) {
            let level = self.market.ladders[order.side as usize].level_mut(order.place);
            level.open -= u64::from(lots);
            level.shown -= u64::from(shown);
        }
    }
}
