//! Pegged orders: their list and how they follow the best displayed prices (7).

use types::{OrderEvent, OrderRef, OrderType, Side, limits::PRICE_MAX};

use crate::book_ops::BookOps;
use crate::books::Sink;
use crate::order::{Home, Order};
use crate::take::Taken;

/// Passes in a row, so that two pegs that chase each other end (7.3).
const PASSES: usize = 8;

/// The pegs of a book, those in a level and those that are parked, in order of arrival.
#[derive(Debug)]
pub(crate) struct Pegs {
    /// (Order reference, slot), in ascending order of references.
    list: Vec<(u64, u32)>,
    capacity: u32,
    /// Best displayed bid and ask at the last pass, 0 for none.
    pub(crate) seen: [i64; 2],
    /// A pass is needed although the prices are the same.
    pub(crate) due: bool,
}

impl Pegs {
    pub(crate) fn new(capacity: u32) -> Pegs {
        let list = Vec::with_capacity(capacity as usize);
        Pegs { list, capacity, seen: [0; 2], due: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= self.capacity as usize
    }

    pub(crate) fn insert(&mut self, order_ref: u64, slot: u32) {
        let at = self.list.partition_point(|&(other, _)| other < order_ref);
        self.list.insert(at, (order_ref, slot));
    }

    pub(crate) fn remove(&mut self, order_ref: u64) {
        let at = self.list.partition_point(|&(other, _)| other < order_ref);
        debug_assert_eq!(self.list.get(at).map(|p| p.0), Some(order_ref), "a peg is not listed");
        self.list.remove(at);
    }

    /// The first peg that came after the one with this reference.
    pub(crate) fn after(&self, order_ref: u64) -> Option<(u64, u32)> {
        let at = self.list.partition_point(|&(other, _)| other <= order_ref);
        self.list.get(at).copied()
    }

    /// Slots of the book's pegs, in their order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.list.iter().map(|&(_, slot)| slot)
    }

    pub(crate) fn is_sound(&self, ref_of: impl Fn(u32) -> u64) -> bool {
        let sorted = self.list.is_sorted_by(|a, b| a.0 < b.0);
        sorted && self.list.iter().all(|&(order_ref, slot)| ref_of(slot) == order_ref)
    }
}

/// The price of a peg at these best displayed prices, 0 for none (7.2).
fn peg_price(order: &Order, [bid, ask]: [i64; 2]) -> i64 {
    let price = match (order.order_type, order.side) {
        (OrderType::PegPrimary, Side::Buy) if bid > 0 => bid.saturating_sub(order.stop_price),
        (OrderType::PegPrimary, Side::Sell) if ask > 0 => ask.saturating_add(order.stop_price),
        (OrderType::PegMid, Side::Buy) if bid > 0 && ask > 0 => (bid + ask) / 2,
        (OrderType::PegMid, Side::Sell) if bid > 0 && ask > 0 => (bid + ask + 1) / 2,
        _ => return 0,
    };
    let capped = match order.side {
        _ if order.limit == 0 => price,
        Side::Buy => price.min(order.limit),
        Side::Sell => price.max(order.limit),
    };
    if (1..=PRICE_MAX).contains(&capped) { capped } else { 0 }
}

impl<S: Sink> BookOps<'_, S> {
    /// Puts a loose peg, parked, at the end of the list.
    pub(crate) fn add_peg(&mut self, slot: u32) {
        let order = self.order_mut(slot);
        order.home = Home::Parked;
        let order_ref = order.order_ref;
        self.market.pegs.insert(order_ref, slot);
        self.market.pegs.due = true;
        self.market.settle_fast();
        self.tell(slot, OrderEvent::Added { instead_of: OrderRef(0) });
    }

    /// Gives the pegs their prices, as often as that changes the best displayed ones.
    pub(crate) fn reprice_pegs(&mut self) {
        for _ in 0..PASSES {
            if self.market.pegs.is_empty() {
                return;
            }
            let now = [self.market.displayed(Side::Buy), self.market.displayed(Side::Sell)];
            let pegs = &mut self.market.pegs;
            if !pegs.due && pegs.seen == now {
                return;
            }
            (pegs.due, pegs.seen) = (false, now);
            let mut after = 0;
            while let Some((order_ref, slot)) = self.market.pegs.after(after) {
                after = order_ref;
                self.reprice(slot, now);
                if !self.continuous() {
                    return;
                }
            }
        }
    }

    fn reprice(&mut self, slot: u32, now: [i64; 2]) {
        let order = *self.order(slot);
        let price = peg_price(&order, now);
        if price == order.price {
            return;
        }
        self.take_out(slot);
        self.restate(slot, price);
        if price == 0 {
            self.order_mut(slot).home = Home::Parked;
            return;
        }
        let limit = self.market.limit_key(order.side, price);
        match self.take(slot, limit) {
            Taken::Ended => {}
            Taken::Done if self.order(slot).open == 0 => self.forget(slot),
            Taken::Done => self.rest_peg(slot),
            Taken::Outside(outside) => {
                self.tell(slot, OrderEvent::Interrupted { price: types::Price(outside) });
                self.rest_peg(slot);
                self.interrupt();
            }
        }
    }

    fn rest_peg(&mut self, slot: u32) {
        let (side, price) = (self.order(slot).side, self.order(slot).price);
        let ladder = self.market.own_mut(side);
        let key = ladder.key(price);
        match ladder.find_or_make(key, false) {
            Some(place) => self.append_hidden(place, slot),
            None => self.cancel_rest(slot, types::CancelReason::Capacity),
        }
    }

    /// Parks every peg that has a price (7.4).
    pub(crate) fn park_pegs(&mut self) {
        let mut after = 0;
        while let Some((order_ref, slot)) = self.market.pegs.after(after) {
            after = order_ref;
            if self.order(slot).price != 0 {
                self.take_out(slot);
                self.restate(slot, 0);
                self.order_mut(slot).home = Home::Parked;
            }
        }
    }
}
