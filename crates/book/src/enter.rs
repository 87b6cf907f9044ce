//! Taking new orders (2) and entering them (3).

use types::{
    CancelReason, NewOrder, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, OrderEvent, OrderRef,
    OrderType, Phase, Price, RejectReason, Side, TimeInForce, limits::PRICE_MAX,
};

use crate::book_ops::BookOps;
use crate::books::Sink;
use crate::index::{IdHash, Vacancy};
use crate::order::{Home, Kind, Order};
use crate::room::Caution;
use crate::take::Taken;
use crate::terms;

impl<S: Sink> BookOps<'_, S> {
    /// Enters a new order, whose key no open one has: matches it and lets the rest of it rest.
    #[inline(always)]
    pub(crate) fn submit(&mut self, order: &NewOrder, id_hash: IdHash) -> Result<(), RejectReason> {
        let vacancy = self.shared.vacancy(order.key);
        let Some(units) = self.plain_units(order) else {
            // A copy, so that terms which take the plain path need not lie in memory.
            let order = *order;
            return self.submit_rare(&order, id_hash, vacancy);
        };
        let at_once = order.time_in_force == TimeInForce::ImmediateOrCancel;
        let limit = self.market.opposite(order.side).key_of(units);
        let meets = self.market.opposite(order.side).best_key >= limit;
        // Whether it meets anything is asked once: nobody could predict that.
        let enters = meets | at_once;
        if self.shared.slab.is_full() & !enters {
            return Err(RejectReason::CapacityReached);
        }
        if self.lacks_level(order.side, order.price.0, order.qty, None) && !at_once {
            return Err(RejectReason::CapacityReached);
        }
        let (number, order_ref) = (self.market.number, self.shared.next_ref());
        let slot = self.shared.slab.take();
        let stored = &mut self.shared.slab[slot];
        *stored = Order::new(number, order_ref, &terms::plain(order), id_hash);
        self.sink.tell(OrderEvent::Accepted, stored, None);
        self.shared.note_end(slot);
        self.market.len += 1;
        self.shared.tally.came(order.qty);
        if enters {
            self.match_plain(slot, units, limit, OrderRef(0), Some(vacancy));
        } else {
            self.shared.enlist(vacancy, slot);
            self.rest_new(slot, order.side, order.qty, units, OrderRef(0));
        }
        Ok(())
    }

    /// Matches a plain order that was just stored, and rests or cancels what is left. With a `vacancy` it is
    /// not in the index so far, and goes there only if it rests: trades take keys out, and put none in.
    #[inline(never)]
    pub(crate) fn match_plain(
        &mut self,
        slot: u32,
        units: u64,
        limit: u64,
        instead_of: OrderRef,
        vacancy: Option<Vacancy>,
    ) {
        self.take_plain(slot, limit);
        let order = self.order_mut(slot);
        let open = order.open;
        if open != 0 && order.time_in_force != TimeInForce::ImmediateOrCancel {
            if let Some(vacancy) = vacancy {
                self.shared.enlist(vacancy, slot);
            }
            return self.rest_at(slot, units, instead_of);
        }
        if open != 0 {
            order.open = 0;
            self.shared.tally.went(open);
            let reason = CancelReason::ImmediateOrCancel;
            self.tell(slot, OrderEvent::Canceled { qty: open, shown: 0, reason });
        }
        match vacancy {
            Some(_) => self.release(slot),
            None => self.forget(slot),
        }
        if instead_of != OrderRef(0) {
            self.tell(slot, OrderEvent::Withdrawn { order_ref: instead_of });
        }
    }

    /// The price in units if a plain path may take these terms now.
    #[inline(always)]
    pub(crate) fn plain_units(&self, order: &NewOrder) -> Option<u64> {
        let ladder = self.market.own(order.side);
        let units = ladder.units(order.price.0);
        let fits = (units as i64).wrapping_mul(ladder.unit()) == order.price.0;
        (self.market.fast & terms::is_plain(order) & fits).then_some(units)
    }

    /// Whether there is no level for an order that would rest, judged before anything changes.
    #[inline(always)]
    pub(crate) fn lacks_level(
        &self,
        side: Side,
        price: i64,
        qty: u32,
        old: Option<&Order>,
    ) -> bool {
        let own = self.market.own(side);
        own.levels == own.capacity && !self.has_level(side, price, qty, old)
    }

    /// Rests a plain order that was just stored: what [`BookOps::rest_at`] does, without reading back
    /// what is known.
    #[inline(always)]
    pub(crate) fn rest_new(
        &mut self,
        slot: u32,
        side: Side,
        qty: u32,
        units: u64,
        instead_of: OrderRef,
    ) {
        let ladder = &mut self.market.ladders[side as usize];
        let key = ladder.key_of(units);
        let Some(place) = ladder.find_or_make(key, true) else {
            return self.cancel_rest(slot, CancelReason::Capacity);
        };
        let level = ladder.level_mut(place);
        let tail = level.queue.append(slot);
        level.open += u64::from(qty);
        level.shown += u64::from(qty);
        level.orders += 1;
        self.shared.slab[tail].next = slot;
        let order = &mut self.shared.slab[slot];
        (order.prev, order.place, order.shown, order.home) = (tail, place, qty, Home::Shown);
        self.sink.tell(OrderEvent::Added { instead_of }, order, None);
    }

    /// Rests a displayed limit order at its price, which is `units`.
    #[inline(always)]
    pub(crate) fn rest_at(&mut self, slot: u32, units: u64, instead_of: OrderRef) {
        let order = &mut self.shared.slab[slot];
        order.shown = order.portion();
        let ladder = &mut self.market.ladders[order.side as usize];
        let key = ladder.key_of(units);
        let Some(place) = ladder.find_or_make(key, true) else {
            order.shown = 0;
            return self.cancel_rest(slot, CancelReason::Capacity);
        };
        self.append_shown(place, slot);
        self.tell(slot, OrderEvent::Added { instead_of });
    }

    #[inline(never)]
    fn submit_rare(
        &mut self,
        order: &NewOrder,
        id_hash: IdHash,
        vacancy: Vacancy,
    ) -> Result<(), RejectReason> {
        let price = self.admit(order)?;
        if self.market.phase == Phase::Halt {
            return Err(RejectReason::Halted);
        }
        self.check_room(order, price, None)?;
        let order_ref = self.shared.next_ref();
        let slot = self.shared.slab.take();
        *self.order_mut(slot) = Order::new(self.market.number, order_ref, order, id_hash);
        if !order.order_type.peg() {
            self.order_mut(slot).price = price;
        }
        self.shared.enlist(vacancy, slot);
        self.shared.note_end(slot);
        self.market.len += 1;
        self.shared.tally.came(order.qty);
        self.tell(slot, OrderEvent::Accepted);
        self.enter(slot, OrderRef(0));
        self.settle();
        Ok(())
    }

    /// Rules 2.2 to 2.6 but for Halt; the price the order is treated at.
    pub(crate) fn admit(&self, order: &NewOrder) -> Result<i64, RejectReason> {
        let own = self.market.own(order.side);
        terms::check_terms(order, own.unit(), self.market.ticks.unit().0)?;
        terms::check_phase(order, self.market.phase)?;
        let price = order.price.0;
        if order.flags & (ORDER_POST_ONLY | ORDER_POST_ONLY_SLIDE) == 0
            || !self.continuous()
            || !self.market.crosses(order.side, price)
        {
            return Ok(price);
        }
        let best = Price(self.market.opposite(order.side).best_price);
        let slid = match order.side {
            Side::Buy => self.market.ticks.below(best).0,
            Side::Sell => self.market.ticks.above(best).0,
        };
        if order.flags & ORDER_POST_ONLY != 0 || !(1..=PRICE_MAX).contains(&slid) {
            return Err(RejectReason::PostOnlyWouldTrade);
        }
        Ok(slid)
    }

    /// Enters a loose order that has been told of (3). `instead_of`: the displayed reference it
    /// replaces, 0 for none.
    pub(crate) fn enter(&mut self, slot: u32, instead_of: OrderRef) {
        let interrupted = if self.continuous() {
            self.enter_continuous(slot, instead_of)
        } else {
            self.enter_call(slot, instead_of);
            false
        };
        // A slot that was freed meanwhile still holds the order as it ended.
        if instead_of != OrderRef(0) && self.order(slot).home != Home::Shown {
            self.tell(slot, OrderEvent::Withdrawn { order_ref: instead_of });
        }
        if interrupted {
            self.interrupt();
        }
    }

    fn enter_call(&mut self, slot: u32, instead_of: OrderRef) {
        let order = self.order(slot);
        let closing = self.market.phase == Phase::ClosingCall;
        match order.order_type {
            _ if order.time_in_force == TimeInForce::AtTheClose && !closing => self.wait(slot),
            OrderType::Stop | OrderType::StopLimit | OrderType::TrailingStop => self.add_stop(slot),
            OrderType::Market => {
                let side = order.side as usize;
                self.order_mut(slot).home = Home::Market;
                let queue = &mut self.market.queues[side];
                crate::queues::append(&mut self.shared.slab, queue, slot);
                self.tell(slot, OrderEvent::Added { instead_of: OrderRef(0) });
            }
            _ => self.rest(slot, instead_of),
        }
    }

    fn wait(&mut self, slot: u32) {
        self.order_mut(slot).home = Home::Waiting;
        crate::queues::append(&mut self.shared.slab, &mut self.market.waiting, slot);
        self.tell(slot, OrderEvent::Added { instead_of: OrderRef(0) });
    }

    /// Puts a loose order with a price into its level, last of its queue.
    pub(crate) fn rest(&mut self, slot: u32, instead_of: OrderRef) {
        if self.shared.slab.is_over() {
            return self.cancel_rest(slot, CancelReason::Capacity);
        }
        let order = self.order(slot);
        if !order.hidden() {
            let units = self.market.own(order.side).units(order.price);
            return self.rest_at(slot, units, instead_of);
        }
        let ladder = &mut self.market.ladders[order.side as usize];
        let key = ladder.key(self.shared.slab[slot].price);
        let Some(place) = ladder.find_or_make(key, false) else {
            return self.cancel_rest(slot, CancelReason::Capacity);
        };
        self.append_hidden(place, slot);
        self.tell(slot, OrderEvent::Added { instead_of: OrderRef(0) });
    }

    /// Returns whether the collar stopped it.
    fn enter_continuous(&mut self, slot: u32, instead_of: OrderRef) -> bool {
        let order = *self.order(slot);
        if order.time_in_force == TimeInForce::AtTheClose {
            self.wait(slot);
        } else if order.order_type.stop() {
            self.add_stop(slot);
        } else if order.order_type.peg() {
            self.add_peg(slot);
        } else if self.looks_before(&order) {
            self.cancel_rest(slot, CancelReason::NotEnough);
        } else {
            return self.match_incoming(slot, &order, instead_of);
        }
        false
    }

    /// Whether an order that wants a quantity at once cannot have it (3.3).
    fn looks_before(&self, order: &Order) -> bool {
        let wanted = match order.time_in_force {
            TimeInForce::FillOrKill => order.open,
            _ => order.min_qty,
        };
        let wanted = u64::from(wanted);
        wanted > 0 && self.fillable(order.side, order.price, wanted, Caution::of(order)) < wanted
    }

    fn match_incoming(&mut self, slot: u32, before: &Order, instead_of: OrderRef) -> bool {
        let limit = self.market.limit_key(before.side, before.price);
        let outcome = self.take(slot, limit);
        if outcome == Taken::Ended {
            return false;
        }
        if let Taken::Outside(price) = outcome {
            self.tell(slot, OrderEvent::Interrupted { price: Price(price) });
            if before.order_type == OrderType::Limit && !before.immediate() {
                self.rest(slot, instead_of);
            } else {
                self.cancel_rest(slot, CancelReason::Collar);
            }
            return true;
        }
        if self.order(slot).open == 0 {
            self.forget(slot);
        } else if before.immediate() {
            self.cancel_rest(slot, CancelReason::ImmediateOrCancel);
        } else if before.order_type == OrderType::MarketToLimit {
            self.settle_price(slot, before.traded, instead_of);
        } else {
            self.rest(slot, instead_of);
        }
        false
    }

    /// What is left of a market-to-limit order rests at the price of its last trade, if it traded.
    fn settle_price(&mut self, slot: u32, traded_before: u32, instead_of: OrderRef) {
        let order = self.order(slot);
        let last = Price(self.market.last);
        let price = match order.side {
            _ if order.traded == traded_before => Price(0),
            _ if self.market.ticks.fits(last) => last,
            Side::Buy => self.market.ticks.below(last),
            Side::Sell => self.market.ticks.above(last),
        };
        if !(1..=PRICE_MAX).contains(&price.0) {
            return self.cancel_rest(slot, CancelReason::ImmediateOrCancel);
        }
        let order = self.order_mut(slot);
        (order.order_type, order.price) = (OrderType::Limit, price.0);
        self.rest(slot, instead_of);
    }
}
