//! Matching in proportion to the displayed lots (4.4).

use crate::book_ops::BookOps;
use crate::books::Sink;
use crate::order::NIL;

impl<S: Sink> BookOps<'_, S> {
    /// Shares an incoming order among the displayed orders of a level once; false when self-trade
    /// prevention ended it.
    pub(crate) fn share_level(
        &mut self,
        taker: u32,
        place: u32,
        top_order: bool,
        min_allocation: u32,
    ) -> bool {
        let side = self.order(taker).side.opposite();
        if self.market.own(side).level(place).queue.head == NIL {
            return true;
        }
        if !self.avoid_own(taker, place) {
            return false;
        }
        // The walk may have emptied the queue, the level with it.
        let ladder = self.market.own(side);
        if ladder.best_place != place || ladder.level(place).queue.head == NIL {
            return true;
        }
        let price = ladder.best_price;
        let (lots, offered) = (u64::from(self.order(taker).open), ladder.level(place).shown);
        if lots >= offered {
            self.take_all(taker, place, price);
        } else {
            self.share(taker, place, price, top_order, min_allocation);
        }
        true
    }

    /// Walks the displayed queue once and deals with the orders of the incoming one's group; false
    /// when the incoming order is gone.
    fn avoid_own(&mut self, taker: u32, place: u32) -> bool {
        let side = self.order(taker).side.opposite();
        let mut slot = self.market.own(side).level(place).queue.head;
        while slot != NIL {
            let (next, order_ref) = (self.order(slot).next, self.order(slot).order_ref);
            if self.conflict(taker, slot) {
                if !self.prevent(taker, slot) {
                    return false;
                }
                let replenished = self.order(slot).home == crate::order::Home::Shown
                    && self.order(slot).order_ref != order_ref;
                // One that was last and went to the end again is met again there.
                slot = if next == NIL && replenished { slot } else { next };
            } else {
                slot = next;
            }
        }
        true
    }

    /// Every displayed order trades its shown lots.
    fn take_all(&mut self, taker: u32, place: u32, price: i64) {
        let side = self.order(taker).side.opposite();
        let mut turns = self.queue_len(place, side);
        let mut slot = self.market.own(side).level(place).queue.head;
        while turns > 0 {
            let (next, qty) = (self.order(slot).next, self.order(slot).shown);
            self.trade_lots(taker, slot, qty, price);
            slot = next;
            turns -= 1;
        }
    }

    fn queue_len(&self, place: u32, side: types::Side) -> u32 {
        let (mut slot, mut orders) = (self.market.own(side).level(place).queue.head, 0);
        while slot != NIL {
            orders += 1;
            slot = self.order(slot).next;
        }
        orders
    }

    /// Fewer lots come in than are displayed: each order gets its share.
    fn share(&mut self, taker: u32, place: u32, price: i64, top_order: bool, min: u32) {
        let side = self.order(taker).side.opposite();
        let level = self.market.own(side).level(place);
        let (mut slot, mut offered) = (level.queue.head, level.shown);
        let last = level.queue.tail;
        if top_order {
            let (next, shown) = (self.order(slot).next, self.order(slot).shown);
            let qty = shown.min(self.order(taker).open);
            self.trade_lots(taker, slot, qty, price);
            if self.order(taker).open == 0 || slot == last {
                return;
            }
            (slot, offered) = (next, offered - u64::from(shown));
        }
        let lots = u64::from(self.order(taker).open);
        let share_of = |shown: u32| {
            let share = (u128::from(lots) * u128::from(shown) / u128::from(offered)) as u32;
            if share < min { 0 } else { share }
        };
        let mut rest = lots;
        let mut walk = slot;
        loop {
            rest -= u64::from(share_of(self.order(walk).shown));
            if walk == last {
                break;
            }
            walk = self.order(walk).next;
        }
        loop {
            let (next, shown) = (self.order(slot).next, self.order(slot).shown);
            let share = share_of(shown);
            let more = rest.min(u64::from(shown - share)) as u32;
            rest -= u64::from(more);
            if share + more > 0 {
                self.trade_lots(taker, slot, share + more, price);
            }
            if slot == last {
                return;
            }
            slot = next;
        }
    }
}
