//! Matching an incoming order with the resting ones of the other side (4).

use types::{Allocation, CancelReason, OrderEvent, Price, SelfTrade};

use super::{Model, Order, Place};

/// What ended the matching of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Matched {
    /// It has no lots left, or nothing on the other side is within its limit.
    AsFarAsPossible,
    /// The dynamic collar (4.7); `Interrupted` has been told.
    Collar,
}

impl Model {
    /// 4: matches an order, which is in no list meanwhile, as far as possible. Also the price of
    /// its last trade. When self-trade prevention ends it the order has no lots left.
    pub(super) fn match_incoming(
        &mut self,
        book: usize,
        incoming: &mut Order,
    ) -> (Matched, Option<Price>) {
        let other = incoming.side().opposite();
        let mut last_trade = None;
        while incoming.open > 0 {
            let market = &self.markets[book];
            let Some(price) = market.best(other).filter(|price| incoming.takes(*price)) else {
                break; // 4.1
            };
            if !market.collar_allows(price) {
                self.tell(book, OrderEvent::Interrupted { price }, incoming); // 4.7
                return (Matched::Collar, last_trade);
            }
            let first = market.level(other, price)[0];
            let traded_before = incoming.traded;
            match market.config.allocation {
                Allocation::ProRata { top_order, min_allocation }
                    if first.place == Place::Displayed =>
                {
                    self.prevent_in_level(book, incoming, price);
                    self.share_level(book, incoming, price, top_order, min_allocation);
                }
                _ if incoming.prevents(&first) => self.prevent(book, incoming, &first),
                _ => self.trade(book, incoming, first.key(), tradable(incoming, &first)),
            }
            if incoming.traded > traded_before {
                last_trade = Some(price);
            }
        }
        (Matched::AsFarAsPossible, last_trade)
    }

    /// 4.2: a trade of `qty` lots with a resting order, at that one's price.
    fn trade(&mut self, book: usize, incoming: &mut Order, resting: u64, qty: u32) {
        let match_number = self.take_match_number();
        let maker = self.markets[book].find_mut(resting);
        let shown = maker.consume(qty);
        maker.traded += qty;
        let (maker, price) = (*maker, maker.price);
        incoming.open -= qty;
        incoming.traded += qty;
        self.markets[book].last_price = price; // 1.4
        let event =
            OrderEvent::Traded { qty, price, match_number, shown, other_shown: 0, auction: false };
        self.tell_trade(book, event, &maker, incoming);
        if maker.open == 0 {
            self.markets[book].remove(resting); // 4.6
        } else {
            self.replenish(book, resting);
        }
    }

    /// 4.3: an iceberg whose shown lots are used up displays the next, last in its queue.
    pub(super) fn replenish(&mut self, book: usize, key: u64) {
        let order = *self.markets[book].find_mut(key);
        if order.place != Place::Displayed || order.shown > 0 || order.open == 0 {
            return;
        }
        let mut order = self.markets[book].remove(key);
        let old_ref = order.order_ref;
        order.order_ref = self.take_ref();
        order.shown = order.terms.display_qty.min(order.open);
        let order = self.put_silently(book, order, Place::Displayed);
        self.tell(book, OrderEvent::Replenished { old_ref }, &order);
    }

    /// 4.5: instead of a trade with `resting`.
    fn prevent(&mut self, book: usize, incoming: &mut Order, resting: &Order) {
        let cancel_newest = |model: &mut Model, incoming: &mut Order| {
            *incoming = model.tell_canceled(book, *incoming, CancelReason::SelfTrade);
        };
        let cancel_oldest = |model: &mut Model| {
            let order = model.markets[book].remove(resting.key());
            model.tell_canceled(book, order, CancelReason::SelfTrade);
        };
        match incoming.terms.self_trade {
            SelfTrade::Allow => unreachable!("such an order prevents nothing"),
            SelfTrade::CancelNewest => cancel_newest(self, incoming),
            SelfTrade::CancelOldest => cancel_oldest(self),
            SelfTrade::CancelBoth => {
                cancel_oldest(self);
                cancel_newest(self, incoming);
            }
            SelfTrade::Decrement => self.decrement(book, incoming, resting),
        }
    }

    /// 4.5, Decrement: both lose what would have traded, the resting one first.
    fn decrement(&mut self, book: usize, incoming: &mut Order, resting: &Order) {
        let (qty, reason) = (tradable(incoming, resting), CancelReason::SelfTrade);
        let order = self.markets[book].find_mut(resting.key());
        let shown = order.consume(qty);
        let order = *order;
        if order.open == 0 {
            self.markets[book].remove(order.key());
            self.tell(book, OrderEvent::Canceled { qty, shown, reason }, &order);
        } else {
            self.tell(book, OrderEvent::Reduced { qty, shown, reason }, &order);
            self.replenish(book, order.key());
        }
        incoming.open -= qty;
        let event = if incoming.open == 0 {
            OrderEvent::Canceled { qty, shown: 0, reason }
        } else {
            OrderEvent::Reduced { qty, shown: 0, reason }
        };
        self.tell(book, event, incoming);
    }

    /// 4.5 for pro-rata: no order of the group is left in the displayed queue of the level, or
    /// nothing of the incoming one.
    fn prevent_in_level(&mut self, book: usize, incoming: &mut Order, price: Price) {
        while incoming.open > 0 {
            let displayed = self.displayed(book, incoming, price);
            let Some(own) = displayed.iter().find(|o| incoming.prevents(o)) else {
                return;
            };
            self.prevent(book, incoming, own);
        }
    }

    /// 4.4: one turn of sharing the displayed lots of a level.
    fn share_level(
        &mut self,
        book: usize,
        incoming: &mut Order,
        price: Price,
        top_order: bool,
        min_allocation: u32,
    ) {
        let mut queue = self.displayed(book, incoming, price);
        let lots = |queue: &[Order]| queue.iter().map(|o| u64::from(o.shown)).sum::<u64>();
        if incoming.open == 0 || queue.is_empty() {
            return;
        }
        if u64::from(incoming.open) >= lots(&queue) {
            for order in queue {
                self.trade(book, incoming, order.key(), order.shown);
            }
            return;
        }
        if top_order {
            let first = queue.remove(0);
            self.trade(book, incoming, first.key(), tradable(incoming, &first));
        }
        let (left, displayed) = (u64::from(incoming.open), lots(&queue));
        let share = |order: &Order| -> u32 {
            let share = (left * u64::from(order.shown) / displayed) as u32;
            if share < min_allocation { 0 } else { share }
        };
        let shares: Vec<u32> = queue.iter().map(share).collect();
        let mut rest = incoming.open - shares.iter().sum::<u32>();
        for (order, share) in queue.iter().zip(shares) {
            let more = rest.min(order.shown - share);
            rest -= more;
            if share + more > 0 {
                self.trade(book, incoming, order.key(), share + more);
            }
        }
    }

    /// The displayed queue an incoming order meets at a price.
    fn displayed(&self, book: usize, incoming: &Order, price: Price) -> Vec<Order> {
        let mut level = self.markets[book].level(incoming.side().opposite(), price);
        level.retain(|o| o.place == Place::Displayed);
        level
    }
}

/// Lots that would trade with the first of a queue (4.2).
fn tradable(incoming: &Order, resting: &Order) -> u32 {
    incoming.open.min(if resting.place == Place::Displayed { resting.shown } else { resting.open })
}
