//! Stops (6) and pegs (7), and what happens after each command.

use types::{CancelReason, OrderEvent, OrderType, Phase, Price, Side, Trigger};

use super::matching::Matched;
use super::{Market, Model, Order, Place};

/// Peg passes in a row (7.3).
const MAX_PASSES: usize = 8;

impl Market {
    /// 6.2: what the stops of a side look at.
    fn trigger_price(&self, side: Side) -> Option<Price> {
        match self.config.trigger {
            Trigger::LastTrade => Some(self.last_price).filter(|price| *price != Price(0)),
            Trigger::Touch => self.best_displayed(side.opposite()),
        }
    }

    /// 6.3: where a stop begins.
    pub(super) fn first_effective_stop(&self, stop: &Order) -> Option<Price> {
        match stop.order_type {
            OrderType::TrailingStop => self.trailed(stop),
            _ => Some(stop.terms.stop_price),
        }
    }

    /// 6.3: where the present trigger price alone puts a trailing stop.
    fn trailed(&self, stop: &Order) -> Option<Price> {
        let trigger = self.trigger_price(stop.side())?;
        Some(match stop.side() {
            Side::Buy => Price(trigger.0.saturating_add(stop.terms.stop_price.0)),
            Side::Sell => Price(trigger.0.saturating_sub(stop.terms.stop_price.0)),
        })
    }

    /// 6.3, 6.4: trailing stops follow.
    fn follow(&mut self) {
        for at in 0..self.orders.len() {
            let stop = self.orders[at];
            if stop.place != Place::StopList || stop.order_type != OrderType::TrailingStop {
                continue;
            }
            let Some(trailed) = self.trailed(&stop) else { continue };
            self.orders[at].effective_stop = Some(match (stop.effective_stop, stop.side()) {
                (None, _) => trailed,
                (Some(before), Side::Buy) => before.min(trailed),
                (Some(before), Side::Sell) => before.max(trailed),
            });
        }
    }

    /// 6.2, 6.4: the first buy stop that is due, or if none the first such sell stop.
    fn due(&self) -> Option<Order> {
        let is_due = |stop: &Order| {
            let (Some(stop_price), Some(trigger)) =
                (stop.effective_stop, self.trigger_price(stop.side()))
            else {
                return false;
            };
            stop_price > Price(0)
                && match stop.side() {
                    Side::Buy => trigger >= stop_price,
                    Side::Sell => trigger <= stop_price,
                }
        };
        let first = |side| self.stops(side).into_iter().find(is_due);
        first(Side::Buy).or_else(|| first(Side::Sell))
    }

    /// 7.1, 7.2: the price of a peg beside these best displayed prices; `None`: it is parked.
    fn peg_price(&self, peg: &Order, bid: Option<Price>, ask: Option<Price>) -> Option<Price> {
        let (side, offset) = (peg.side(), peg.terms.stop_price.0);
        let price = match (peg.order_type, side) {
            (OrderType::PegPrimary, Side::Buy) => bid?.0 - offset,
            (OrderType::PegPrimary, Side::Sell) => ask?.0 + offset,
            (_, Side::Buy) => (bid?.0 + ask?.0).div_euclid(2),
            (_, Side::Sell) => (bid?.0 + ask?.0 + 1).div_euclid(2),
        };
        let cap = peg.terms.price.0;
        let capped = match side {
            _ if cap == 0 => price,
            Side::Buy => price.min(cap),
            Side::Sell => price.max(cap),
        };
        (capped > 0).then_some(Price(capped))
    }
}

impl Model {
    /// 6.4: in continuous trading, after each command.
    pub(super) fn after_command(&mut self, book: usize) {
        loop {
            self.price_pegs(book);
            if self.markets[book].phase != Phase::Continuous {
                return;
            }
            self.markets[book].follow();
            let Some(stop) = self.markets[book].due() else {
                return;
            };
            let mut order = self.markets[book].remove(stop.key());
            order.place = Place::Incoming;
            order.order_type = match order.order_type {
                OrderType::StopLimit => OrderType::Limit,
                _ => OrderType::Market,
            };
            self.tell(book, OrderEvent::Triggered, &order);
            self.enter(book, order, None);
        }
    }

    /// 7.3: peg passes until the best displayed prices are those the last pass worked with.
    fn price_pegs(&mut self, book: usize) {
        for _ in 0..MAX_PASSES {
            let market = &self.markets[book];
            let (bid, ask) = (market.best_displayed(Side::Buy), market.best_displayed(Side::Sell));
            if market.phase != Phase::Continuous || market.pegs_saw == Some((bid, ask)) {
                return;
            }
            self.markets[book].pegs_saw = Some((bid, ask));
            for peg in self.markets[book].pegs() {
                // It may have traded meanwhile, and the phase may have changed.
                let market = &self.markets[book];
                if let Some(peg) = market.find(peg.key()).copied()
                    && market.phase == Phase::Continuous
                {
                    let price = market.peg_price(&peg, bid, ask);
                    self.price_peg(book, &peg, price);
                }
            }
        }
    }

    /// 7.3: one peg gets its price.
    fn price_peg(&mut self, book: usize, peg: &Order, price: Option<Price>) {
        let price = price.unwrap_or(Price(0));
        if price == peg.price {
            return;
        }
        let from = peg.price;
        let mut peg = self.markets[book].remove(peg.key());
        peg.price = price;
        self.tell(book, OrderEvent::Repriced { from }, &peg);
        if price == Price(0) {
            self.put_silently(book, peg, Place::Parked);
            return;
        }
        let (matched, _) = self.match_incoming(book, &mut peg);
        if peg.open > 0 {
            if self.has_room_to_rest(book, &peg) {
                self.put_silently(book, peg, Place::Hidden);
            } else {
                self.tell_canceled(book, peg, CancelReason::Capacity); // 10.4
            }
        }
        if matched == Matched::Collar {
            self.enter_phase(book, Phase::VolatilityCall); // 4.7
        }
    }

    /// 7.4: pegs that have a price are parked.
    pub(super) fn park_pegs(&mut self, book: usize) {
        for peg in self.markets[book].pegs() {
            if peg.place == Place::Hidden {
                self.price_peg(book, &peg, None);
            }
        }
    }
}
