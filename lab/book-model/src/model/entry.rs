//! Entering an order (3) and where its rest goes (10.4).

use types::{
    CancelReason, ORDER_HIDDEN, OrderEvent, OrderRef, OrderType, Phase, Price, SelfTrade, Side,
};

use super::matching::Matched;
use super::{Market, Model, Order, Place};

impl Model {
    /// Enters an accepted, replacing or triggered order by the phase of its market. `displayed`
    /// is the displayed reference of the order it replaces.
    pub(super) fn enter(&mut self, book: usize, mut order: Order, displayed: Option<OrderRef>) {
        let phase = self.markets[book].phase;
        let mut stopped_by_collar = false;
        let entered = if order.waits_in(phase) {
            self.put_last(book, order, Place::Waiting, None) // 3.1, 3.2
        } else if is_stop(order.order_type) {
            order.effective_stop = self.markets[book].first_effective_stop(&order); // 6.3
            self.put_last(book, order, Place::StopList, None)
        } else if order.is_peg() {
            self.markets[book].pegs_saw = None; // 7.3: a peg was entered
            self.put_last(book, order, Place::Parked, None)
        } else if phase == Phase::Continuous {
            let (entered, matched) = self.enter_continuous(book, order, displayed);
            stopped_by_collar = matched == Matched::Collar;
            entered
        } else {
            self.rest(book, order, displayed) // 3.1
        };
        if let Some(order_ref) = displayed
            && entered.shown == 0
        {
            self.tell(book, OrderEvent::Withdrawn { order_ref }, &entered); // 5.3
        }
        if stopped_by_collar {
            self.enter_phase(book, Phase::VolatilityCall); // 4.7
        }
    }

    /// 3.2 for what is matched: the order as it is afterwards, and what ended the matching.
    fn enter_continuous(
        &mut self,
        book: usize,
        mut order: Order,
        displayed: Option<OrderRef>,
    ) -> (Order, Matched) {
        if !self.has_enough(book, &order) {
            return (
                self.tell_canceled(book, order, CancelReason::NotEnough),
                Matched::AsFarAsPossible,
            );
        }
        let (matched, last_trade) = self.match_incoming(book, &mut order);
        if order.open == 0 {
            return (order, matched);
        }
        let stays = !order.immediate();
        let entered = match (order.order_type, matched, last_trade) {
            (OrderType::Limit, _, _) if stays => self.rest(book, order, displayed),
            (_, Matched::Collar, _) => self.tell_canceled(book, order, CancelReason::Collar),
            (OrderType::MarketToLimit, _, Some(price)) if stays => {
                order.price = self.markets[book].valid_price(order.side(), price);
                if order.price == Price(0) {
                    let gone = self.tell_canceled(book, order, CancelReason::ImmediateOrCancel);
                    return (gone, matched);
                }
                order.order_type = OrderType::Limit;
                self.rest(book, order, displayed)
            }
            _ => self.tell_canceled(book, order, CancelReason::ImmediateOrCancel),
        };
        (entered, matched)
    }

    /// 3.3: whether a FOK order or one with a minimum quantity finds enough.
    fn has_enough(&self, book: usize, order: &Order) -> bool {
        let needed = match order.terms.time_in_force {
            types::TimeInForce::FillOrKill => order.open,
            _ => order.terms.min_qty,
        };
        self.markets[book].fillable(order, true) >= u64::from(needed)
    }

    /// Rests what is left of an order in its level or market queue, last; or cancels it when there
    /// is no room after all (10.4). The order as it is afterwards.
    pub(super) fn rest(&mut self, book: usize, order: Order, displayed: Option<OrderRef>) -> Order {
        if !self.has_room_to_rest(book, &order) {
            return self.tell_canceled(book, order, CancelReason::Capacity);
        }
        let place = resting_place(&order);
        self.put_last(book, order, place, displayed)
    }

    /// 10.4: a place among the orders, and a level if it needs one.
    pub(super) fn has_room_to_rest(&self, book: usize, order: &Order) -> bool {
        let in_level = order.order_type != OrderType::Market;
        self.len() < self.capacity.orders as usize
            && (!in_level || self.has_level_room(&self.markets[book], order.side(), order.price))
    }

    /// Puts an order at the end of a queue and tells that it was `Added`: the order as it is then.
    fn put_last(
        &mut self,
        book: usize,
        mut order: Order,
        place: Place,
        displayed: Option<OrderRef>,
    ) -> Order {
        order.shown = if place == Place::Displayed { order.displays() } else { 0 };
        let order = self.put_silently(book, order, place);
        let instead_of = displayed.filter(|_| order.shown > 0).unwrap_or(OrderRef(0));
        self.tell(book, OrderEvent::Added { instead_of }, &order);
        order
    }

    /// Puts an order at the end of a queue.
    pub(super) fn put_silently(&mut self, book: usize, mut order: Order, place: Place) -> Order {
        self.last_turn += 1;
        order.turn = self.last_turn;
        order.place = place;
        self.markets[book].orders.push(order);
        order
    }
}

impl Market {
    /// 3.3: open lots that an order would find; 10.2 asks without self-trade rules.
    pub(super) fn fillable(&self, order: &Order, self_trade_rules: bool) -> u64 {
        let other = order.side().opposite();
        let mut fillable = 0;
        for price in self.prices(other) {
            if !order.takes(price) || !self.collar_allows(price) {
                break;
            }
            let mut level = self.level(other, price);
            let own = level.iter().any(|o| self_trade_rules && order.prevents(o));
            if own && order.terms.self_trade != SelfTrade::CancelOldest {
                break;
            }
            level.retain(|o| !(self_trade_rules && order.prevents(o)));
            fillable += level.iter().map(|o| u64::from(o.open)).sum::<u64>();
        }
        fillable
    }

    /// 3.2: where the rest of a market-to-limit order goes; 0: nowhere.
    fn valid_price(&self, side: Side, price: Price) -> Price {
        let ticks = &self.config.ticks;
        match side {
            _ if ticks.fits(price) => price,
            Side::Buy => ticks.below(price),
            Side::Sell => ticks.above(price),
        }
    }
}

/// The queue an order with this type and these flags rests in (3.1, 3.2).
fn resting_place(order: &Order) -> Place {
    let hidden = order.terms.flags & ORDER_HIDDEN != 0;
    match order.order_type {
        OrderType::Market => Place::MarketQueue,
        _ if hidden => Place::Hidden,
        _ => Place::Displayed,
    }
}

fn is_stop(kind: OrderType) -> bool {
    matches!(kind, OrderType::Stop | OrderType::StopLimit | OrderType::TrailingStop)
}
