//! Whether an order finds room (10), and what it could trade (3.3).

use types::{NewOrder, OrderType, Phase, RejectReason, SelfTrade, Side, TimeInForce};

use crate::book_ops::BookOps;
use crate::books::Sink;
use crate::order::{Home, Kind, NIL, Order, immediate};

/// Self-trade rules of an order that looks before it trades.
#[derive(Clone, Copy)]
pub(crate) struct Caution {
    group: u16,
    self_trade: SelfTrade,
}

impl Caution {
    pub(crate) const NONE: Caution = Caution { group: 0, self_trade: SelfTrade::Allow };

    pub(crate) fn of(order: &Order) -> Caution {
        Caution { group: order.group, self_trade: order.self_trade }
    }

    pub(crate) fn is_needed(&self) -> bool {
        self.group != 0 && self.self_trade != SelfTrade::Allow
    }
}

impl<S: Sink> BookOps<'_, S> {
    /// What is open at prices within the limit and the collar, counted up to `wanted` (3.3).
    pub(crate) fn fillable(&self, side: Side, price: i64, wanted: u64, caution: Caution) -> u64 {
        let ladder = self.market.opposite(side);
        let limit = self.market.limit_key(side, price);
        let (mut sum, mut next) = (0, ladder.best());
        while let Some(place) = next {
            let at = ladder.key_at(place);
            if sum >= wanted || at < limit || self.outside_collar(ladder.price(at)) {
                break;
            }
            let own = if caution.is_needed() {
                self.group_lots(side, place, caution.group)
            } else {
                None
            };
            match own {
                None => sum += ladder.level(place).open,
                Some(own) if caution.self_trade == SelfTrade::CancelOldest => {
                    sum += ladder.level(place).open - own;
                }
                Some(_) => break,
            }
            next = ladder.worse(place);
        }
        sum
    }

    /// Lots open of a group's orders in a level of the side opposite to `side`; `None` if it has no
    /// order there.
    fn group_lots(&self, side: Side, place: u32, group: u16) -> Option<u64> {
        let ladder = self.market.opposite(side);
        let mut lots = None;
        for head in [ladder.level(place).queue.head, ladder.hidden(place).head] {
            let mut slot = head;
            while slot != NIL {
                let order = self.order(slot);
                if order.group == group {
                    lots = Some(lots.unwrap_or(0) + u64::from(order.open));
                }
                slot = order.next;
            }
        }
        lots
    }

    /// Rule 2.7. `old` is the order a replace is about, as good as gone.
    pub(crate) fn check_room(
        &self,
        order: &NewOrder,
        price: i64,
        old: Option<&Order>,
    ) -> Result<(), RejectReason> {
        let full = Err(RejectReason::CapacityReached);
        let continuous = self.continuous();
        let at_once = continuous && immediate(order.order_type, order.time_in_force);
        let close = order.time_in_force == TimeInForce::AtTheClose;
        let waits = close && self.market.phase != Phase::ClosingCall;
        let matched = matches!(order.order_type, OrderType::Limit | OrderType::MarketToLimit);
        let meets = continuous && matched && !waits && self.market.crosses(order.side, price);
        let free = (at_once && !waits && !order.order_type.stop()) || meets || old.is_some();
        if self.shared.slab.is_full() && !free {
            return full;
        }
        let rests = order.order_type == OrderType::Limit && !waits && !at_once;
        if rests && !self.has_level(order.side, price, order.qty, old) {
            return full;
        }
        let was_stop = old.is_some_and(|old| old.order_type.stop());
        if order.order_type.stop() && !was_stop && self.market.stops_full() {
            return full;
        }
        let was_peg = old.is_some_and(|old| old.order_type.peg());
        if order.order_type.peg() && !was_peg && self.market.pegs.is_full() {
            return full;
        }
        Ok(())
    }

    /// Whether there is room for the order's price level, by rule 10.2.
    #[inline(never)]
    pub(crate) fn has_level(&self, side: Side, price: i64, qty: u32, old: Option<&Order>) -> bool {
        let own = self.market.own(side);
        if own.has_room(own.key(price)) {
            return true;
        }
        let alone = old.is_some_and(|old| {
            matches!(old.home, Home::Shown | Home::Hidden) && own.level(old.place).orders == 1
        });
        let wanted = u64::from(qty);
        alone || (self.continuous() && self.fillable(side, price, wanted, Caution::NONE) >= wanted)
    }
}
