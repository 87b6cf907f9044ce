//! Which orders are taken (2), which replaces keep their place (5.3), and room (10).

use types::{
    NewOrder, ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, OrderType, Phase, Price,
    RejectReason, Side, TimeInForce,
};

use super::{Market, Model, Order, Place};

use OrderType::{
    Limit, Market as MarketOrder, MarketToLimit, PegMid, PegPrimary, Stop, StopLimit, TrailingStop,
};
use TimeInForce::{
    AtTheClose, AtTheOpen, Day, FillOrKill, GoodTillCancelled, GoodTillDate, ImmediateOrCancel,
};

impl Model {
    /// Rule 2 in its order. `replaced` is the order a replace is about and whether the new terms
    /// keep its place. The answer is the terms as they will be treated (a slide has happened).
    pub(super) fn check(
        &self,
        book: usize,
        new: &NewOrder,
        replaced: Option<(&Order, bool)>,
    ) -> Result<NewOrder, RejectReason> {
        let market = &self.markets[book];
        let own_key = replaced.is_some_and(|(old, _)| old.key() == new.key);
        if self.get(new.key).is_some() && !own_key {
            return Err(RejectReason::DuplicateOrder); // 2.1
        }
        if !supported(new) {
            return Err(RejectReason::Unsupported); // 2.2
        }
        if new.display_qty > new.qty || new.min_qty > new.qty {
            return Err(RejectReason::InvalidQuantityTerms); // 2.3
        }
        let unit = market.config.ticks.unit();
        let stop_price_fits = match new.order_type {
            Stop | StopLimit | TrailingStop => new.stop_price > Price(0),
            PegPrimary => new.stop_price >= Price(0) && new.stop_price.0 % unit.0 == 0,
            Limit | MarketOrder | MarketToLimit | PegMid => new.stop_price == Price(0),
        };
        if !stop_price_fits {
            return Err(RejectReason::InvalidStopPrice); // 2.4
        }
        let kept = replaced.is_some_and(|(_, kept)| kept);
        check_phase(market.phase, new, kept)?; // 2.5
        let terms = slide(market, new)?; // 2.6
        if !kept {
            self.check_room(book, &terms, replaced.map(|(old, _)| old))?; // 2.7
        }
        Ok(terms)
    }

    /// Rule 10.1 to 10.3. `old` is the order that is replaced: regarded as gone.
    fn check_room(
        &self,
        book: usize,
        new: &NewOrder,
        old: Option<&Order>,
    ) -> Result<(), RejectReason> {
        let mut market = self.markets[book].clone();
        if let Some(old) = old {
            market.remove(old.key());
        }
        let order = Order::incoming(*new, types::OrderRef(0));
        let enough = self.order_place_for(&market, &order, old.is_some())
            && self.level_for(&market, &order)
            && self.list_place_for(&market, &order);
        if enough { Ok(()) } else { Err(RejectReason::CapacityReached) }
    }

    /// 10.1: a free place among all open orders, or no need of one.
    fn order_place_for(&self, market: &Market, order: &Order, replaces: bool) -> bool {
        if replaces || self.len() < self.capacity.orders as usize {
            return true;
        }
        // Only what is matched at once can do without: not what waits, and not stops and pegs.
        if market.phase != Phase::Continuous || order.waits_in(market.phase) {
            return false;
        }
        let would_trade = market.best(order.side().opposite()).is_some_and(|p| order.takes(p));
        match order.order_type {
            MarketOrder => true,
            Limit | MarketToLimit => order.immediate() || would_trade,
            Stop | StopLimit | TrailingStop | PegPrimary | PegMid => false,
        }
    }

    /// 10.2: a level for a limit order that would rest, or no need of one.
    fn level_for(&self, market: &Market, order: &Order) -> bool {
        if order.order_type != Limit || order.waits_in(market.phase) {
            return true;
        }
        if market.phase == Phase::Continuous {
            let covered = market.fillable(order, false) >= u64::from(order.open);
            if order.immediate() || covered {
                return true;
            }
        }
        self.has_level_room(market, order.side(), order.price)
    }

    /// Whether a price has a level or its side has room for one more (10.2).
    pub(super) fn has_level_room(&self, market: &Market, side: Side, price: Price) -> bool {
        let prices = market.prices(side);
        prices.contains(&price) || prices.len() < self.capacity.levels as usize
    }

    /// 10.3: a place in the stop list or the peg list, if it goes to one.
    fn list_place_for(&self, market: &Market, order: &Order) -> bool {
        let stops = market.orders.iter().filter(|o| o.place == Place::StopList).count();
        match order.order_type {
            Stop | StopLimit | TrailingStop => stops < self.capacity.stops as usize,
            PegPrimary | PegMid => market.pegs().len() < self.capacity.pegs as usize,
            Limit | MarketOrder | MarketToLimit => true,
        }
    }
}

/// Whether the terms of an order are supported: rule 2.2, item by item.
fn supported(new: &NewOrder) -> bool {
    let kind = new.order_type;
    let life = new.time_in_force;
    let staying_limit = kind == Limit && matches!(life, Day | GoodTillCancelled | GoodTillDate);
    let flag = |bit: u8| new.flags & bit != 0;
    let (post_only, slide) = (flag(ORDER_POST_ONLY), flag(ORDER_POST_ONLY_SLIDE));
    let hidden = flag(ORDER_HIDDEN);

    if post_only && slide {
        return false;
    }
    if (post_only || slide) && (!staying_limit || hidden || new.min_qty > 0) {
        return false;
    }
    // Pegs may carry the flag; they are never displayed anyway.
    let peg = matches!(kind, PegPrimary | PegMid);
    if hidden && !peg && (!staying_limit || new.display_qty > 0) {
        return false;
    }
    if new.display_qty > 0 && !staying_limit {
        return false;
    }
    let min_life = !matches!(life, FillOrKill | AtTheOpen | AtTheClose);
    if new.min_qty > 0 && !(matches!(kind, Limit | MarketOrder | MarketToLimit) && min_life) {
        return false;
    }
    let life_fits = match kind {
        Limit => true,
        MarketOrder => life != GoodTillDate,
        MarketToLimit => {
            matches!(life, Day | GoodTillCancelled | ImmediateOrCancel | GoodTillDate)
        }
        Stop | StopLimit | TrailingStop | PegPrimary | PegMid => {
            matches!(life, Day | GoodTillCancelled | GoodTillDate)
        }
    };
    let price_fits = match kind {
        MarketOrder | MarketToLimit | Stop | TrailingStop => new.price == Price(0),
        Limit | StopLimit => new.price > Price(0),
        PegPrimary | PegMid => new.price >= Price(0),
    };
    life_fits && price_fits
}

/// Whether the phase takes the order, by rules 2.5 and 5.4.
fn check_phase(phase: Phase, new: &NewOrder, kept: bool) -> Result<(), RejectReason> {
    match phase {
        Phase::Closed => return Err(RejectReason::MarketClosed),
        Phase::Halt if kept => return Ok(()),
        Phase::Halt => return Err(RejectReason::Halted),
        _ => {}
    }
    let peg = matches!(new.order_type, PegPrimary | PegMid);
    let refused_in_call = new.time_in_force == FillOrKill
        || new.time_in_force == ImmediateOrCancel && phase != Phase::Batch
        || new.flags & (ORDER_POST_ONLY | ORDER_POST_ONLY_SLIDE) != 0
        || new.order_type == MarketToLimit
        || new.min_qty > 0
        || peg;
    let opening = matches!(phase, Phase::PreOpen | Phase::OpeningCall);
    if phase.is_call() && refused_in_call || new.time_in_force == AtTheOpen && !opening {
        return Err(RejectReason::NotInThisPhase);
    }
    Ok(())
}

/// 2.6; in calls these flags have been refused.
fn slide(market: &Market, new: &NewOrder) -> Result<NewOrder, RejectReason> {
    let mut terms = *new;
    let best = market.best(new.side.opposite());
    let Some(best) = best.filter(|best| match new.side {
        Side::Buy => *best <= new.price,
        Side::Sell => *best >= new.price,
    }) else {
        return Ok(terms);
    };
    if new.flags & ORDER_POST_ONLY != 0 {
        return Err(RejectReason::PostOnlyWouldTrade);
    }
    if new.flags & ORDER_POST_ONLY_SLIDE != 0 {
        terms.price = match new.side {
            Side::Buy => market.config.ticks.below(best),
            Side::Sell => market.config.ticks.above(best),
        };
        if terms.price <= Price(0) {
            return Err(RejectReason::PostOnlyWouldTrade);
        }
    }
    Ok(terms)
}

impl Order {
    /// Whether this order, replaced by these terms, may keep its place (5.3).
    pub(super) fn keeps_place(&self, new: &NewOrder) -> bool {
        let queued = self.in_level() || self.place == Place::MarketQueue;
        let hidden = |flags: u8| flags & ORDER_HIDDEN;
        let post_only = new.flags & (ORDER_POST_ONLY | ORDER_POST_ONLY_SLIDE) != 0;
        let life = new.time_in_force;
        queued
            && !self.is_peg()
            && new.price == self.price
            && new.qty <= self.open
            && hidden(new.flags) == hidden(self.terms.flags)
            && new.display_qty == self.terms.display_qty
            && !post_only
            && !matches!(life, ImmediateOrCancel | FillOrKill)
            && (!matches!(life, AtTheOpen | AtTheClose) || life == self.terms.time_in_force)
    }
}
