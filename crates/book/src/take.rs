//! Matching: an incoming order against what rests (4).

use types::{Allocation, CancelReason, OrderEvent, SelfTrade};

use crate::book_ops::BookOps;
use crate::books::Sink;
use crate::order::{Home, NIL};

/// How the matching of an order ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// The order is filled (and still in its slot), or nothing within its limit is left.
    Done,
    /// Self-trade prevention has cancelled the rest; the order is gone.
    Ended,
    /// The next trade would be at this price, outside the dynamic collar.
    Outside(i64),
}

impl<S: Sink> BookOps<'_, S> {
    /// Matches a plain order of a fast market up to the opposite side's key `limit`.
    #[inline(always)]
    pub(crate) fn take_plain(&mut self, taker: u32, limit: u64) {
        let side = 1 - self.order(taker).side as usize;
        while self.market.ladders[side].best_key >= limit {
            let (place, price) =
                (self.market.ladders[side].best_place, self.market.ladders[side].best_price);
            let head = self.market.ladders[side].level(place).queue.head;
            let maker = if head == NIL { self.market.ladders[side].first(place) } else { head };
            self.trade(taker, maker, price);
            if self.order(taker).open == 0 {
                return;
            }
        }
    }

    /// Matches an order up to the opposite side's key `limit`.
    pub(crate) fn take(&mut self, taker: u32, limit: u64) -> Taken {
        let side = self.order(taker).side;
        while self.order(taker).open > 0 {
            let ladder = self.market.opposite(side);
            if ladder.best_key < limit {
                break;
            }
            let (place, price) = (ladder.best_place, ladder.best_price);
            let displayed = ladder.level(place).queue.head != NIL;
            if self.outside_collar(price) {
                return Taken::Outside(price);
            }
            let goes_on = match self.market.allocation {
                Allocation::ProRata { top_order, min_allocation } if displayed => {
                    self.share_level(taker, place, top_order, min_allocation)
                }
                _ => self.take_first(taker, place, price),
            };
            if !goes_on {
                return Taken::Ended;
            }
        }
        Taken::Done
    }

    /// Trades with the first order of a level; false when that ended the incoming order.
    fn take_first(&mut self, taker: u32, place: u32, price: i64) -> bool {
        let maker = self.market.opposite(self.order(taker).side).first(place);
        if self.conflict(taker, maker) {
            return self.prevent(taker, maker);
        }
        self.trade(taker, maker, price);
        true
    }

    /// Whether the two orders may not trade with each other.
    pub(crate) fn conflict(&self, taker: u32, maker: u32) -> bool {
        let order = self.order(taker);
        order.self_trade != SelfTrade::Allow
            && order.group != 0
            && order.group == self.order(maker).group
    }

    /// One trade of as many lots as the two orders can: displayed ones of a displayed maker.
    #[inline(always)]
    fn trade(&mut self, taker: u32, maker: u32, price: i64) {
        let order = self.order(maker);
        let lots = if order.home == Home::Shown { order.shown } else { order.open };
        let qty = lots.min(self.order(taker).open);
        self.trade_lots(taker, maker, qty, price);
    }

    /// One trade of `qty` lots; the maker is removed or replenished if that is due.
    #[inline(always)]
    pub(crate) fn trade_lots(&mut self, taker: u32, maker: u32, qty: u32, price: i64) {
        let match_number = self.shared.next_match();
        let order = &mut self.shared.slab[maker];
        let displayed = order.home == Home::Shown;
        let shown = if displayed { qty } else { 0 };
        order.open -= qty;
        order.shown -= shown;
        order.traded = order.traded.wrapping_add(qty);
        let level = self.market.ladders[order.side as usize].level_mut(order.place);
        level.open -= u64::from(qty);
        level.shown -= u64::from(shown);
        let incoming = &mut self.shared.slab[taker];
        incoming.open -= qty;
        incoming.traded = incoming.traded.wrapping_add(qty);
        self.market.last = price;
        self.shared.tally.traded(qty);
        let event = OrderEvent::Traded {
            qty,
            price: types::Price(price),
            match_number,
            shown,
            other_shown: 0,
            auction: false,
        };
        let (order, incoming) = (&self.shared.slab[maker], &self.shared.slab[taker]);
        if order.open == 0 {
            // It leaves the index, and the next one in the queue may trade, after this has been told.
            self.shared.prefetch(order);
            crate::huge::prefetch_whole(&self.shared.slab[order.next]);
        }
        self.sink.tell(event, order, Some(incoming));
        if order.open == 0 {
            self.take_out(maker);
            self.forget(maker);
        } else if displayed && order.shown == 0 {
            self.replenish(maker);
        }
    }

    /// What happens instead of a trade within a group (4.5); false when the incoming order is gone.
    pub(crate) fn prevent(&mut self, taker: u32, maker: u32) -> bool {
        let reason = CancelReason::SelfTrade;
        match self.order(taker).self_trade {
            SelfTrade::Allow => return true,
            SelfTrade::CancelOldest => {
                self.cancel_rest(maker, reason);
                return true;
            }
            SelfTrade::CancelNewest => {}
            SelfTrade::CancelBoth => self.cancel_rest(maker, reason),
            SelfTrade::Decrement => return self.decrement(taker, maker),
        }
        self.cancel_rest(taker, reason);
        false
    }

    fn decrement(&mut self, taker: u32, maker: u32) -> bool {
        let order = self.order(maker);
        let displayed = order.home == Home::Shown;
        let lots = if displayed { order.shown } else { order.open };
        let qty = lots.min(self.order(taker).open);
        self.drop_lots(maker, qty, if displayed { qty } else { 0 });
        self.drop_lots(taker, qty, 0)
    }

    /// Takes lots of an order away without a trade; false when it is gone.
    fn drop_lots(&mut self, slot: u32, qty: u32, shown: u32) -> bool {
        let reason = CancelReason::SelfTrade;
        self.lose(slot, qty, shown);
        self.shared.tally.went(qty);
        if self.order(slot).open == 0 {
            self.take_out(slot);
            self.tell(slot, OrderEvent::Canceled { qty, shown, reason });
            self.forget(slot);
            return false;
        }
        self.tell(slot, OrderEvent::Reduced { qty, shown, reason });
        let order = self.order(slot);
        if order.home == Home::Shown && order.shown == 0 {
            self.replenish(slot);
        }
        true
    }
}
