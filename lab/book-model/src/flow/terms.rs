//! The terms of the orders a [`Flow`] enters.

use types::{
    ClOrdId, Nanos, NewOrder, ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, OrderType,
    Phase, Price, SelfTrade, Side, TimeInForce,
};

use super::{Flow, Theme, pick};
use crate::kind::Kind;
use crate::model::{Market, Model, Order};

impl Flow {
    fn kind(&mut self, phase: Phase) -> Kind {
        use Kind::*;
        let focus: &[Kind] = match self.profile.theme {
            Theme::Mixed => &Kind::ALL,
            Theme::Taking => &[LimitIoc, LimitFok, MinQty, Market, MarketFok, MarketToLimit, Limit],
            Theme::Auctions => {
                &[LimitAtOpen, LimitAtClose, Market, MarketAtOpen, MarketAtClose, Iceberg, Limit]
            }
            Theme::Stops => &[Stop, StopLimit, TrailingStop, Limit, MarketIoc],
            Theme::Pegs => &[PegMid, PegPrimary, Hidden, Limit, PegMid],
            Theme::Crowded => {
                &[Limit, LimitAtClose, MarketToLimit, StopLimit, PegPrimary, PegMid, MinQty]
            }
            Theme::Collar => &[Limit, Hidden, Iceberg, MinQty, MarketToLimit, StopLimit, PegMid],
            Theme::Pennies => &[Limit, Slide, PostOnly, PegPrimary, StopLimit, TrailingStop],
            Theme::Terms => &[Limit, Market, MarketAtClose, Stop],
            Theme::Lasting => &[
                MinQty,
                MinQty,
                MinQty,
                MarketToLimit,
                MarketToLimit,
                MarketToLimit,
                PostOnly,
                PostOnly,
                Slide,
                Slide,
                Limit,
                StopLimit,
                PegMid,
                PegPrimary,
                Stop,
                TrailingStop,
            ],
        };
        let focused = if self.profile.theme == Theme::Lasting { 70 } else { 50 };
        let kind = match self.rng.below(100) {
            draw if draw < focused => pick(&mut self.rng, focus),
            50..=79 => pick(&mut self.rng, &[Limit, Limit, Iceberg, Hidden]),
            _ => pick(&mut self.rng, &Kind::ALL),
        };
        // In calls, most of what is refused there is drawn again, so that they fill.
        let refused = matches!(
            kind,
            LimitFok | MinQty | PostOnly | Slide | MarketToLimit | PegPrimary | PegMid
        );
        if phase.is_call() && refused && self.rng.permille(700) {
            return pick(&mut self.rng, &[Limit, Limit, Market]);
        }
        kind
    }

    pub(super) fn new_order(&mut self, book: u16, model: &Model) -> NewOrder {
        let key = self.fresh_key();
        let side = self.side();
        if self.rng.permille(self.profile.broken_permille) {
            let kind = pick(&mut self.rng, &Kind::ALL);
            let mut order = self.order_of(kind, key, side);
            if self.rng.permille(250) {
                order.key = self.key(book, model);
            } else {
                self.spoil(kind, &mut order);
            }
            return order;
        }
        let kind = self.kind(model.market(book).phase());
        let mut order = self.order_of(kind, key, side);
        let lasting = self.profile.theme == Theme::Lasting;
        if lasting && model.market(book).phase().is_call() && self.rng.permille(500) {
            self.aim_in_call(&mut order, model.market(book));
        }
        let aimed = if lasting { 800 } else { 500 };
        if matches!(kind, Kind::MinQty | Kind::MarketToLimit) && self.rng.permille(aimed) {
            self.aim(&mut order, model.market(book));
        }
        order
    }

    /// In a call: makes an order of the kind that meets one that came from continuous trading, or
    /// uses up what an iceberg shows.
    fn aim_in_call(&mut self, order: &mut NewOrder, market: &Market) {
        let sought = |o: &&Order| {
            let to_limit = o.terms.order_type == OrderType::MarketToLimit;
            o.shown > 0 && (o.shown < o.open || to_limit)
        };
        let targets: Vec<&Order> = market.open_orders().iter().filter(sought).collect();
        if targets.is_empty() {
            return;
        }
        let target = pick(&mut self.rng, &targets);
        if matches!(order.order_type, OrderType::Limit | OrderType::Market) {
            order.side = target.side().opposite();
            order.qty = target.shown;
            (order.display_qty, order.min_qty) = (0, 0);
        }
        if order.order_type == OrderType::Limit {
            order.price = target.price;
        }
    }

    /// Aims at the best level of the other side: more lots than it has, so that a rest is left; or
    /// just as many, of which some may be of the same group.
    fn aim(&mut self, order: &mut NewOrder, market: &Market) {
        let other = order.side.opposite();
        let Some(price) = market.best(other) else { return };
        let level = market.level(other, price);
        let lots: u32 = level.iter().map(|o| o.open).sum();
        order.min_qty = order.min_qty.min(lots);
        order.qty = lots + 1 + self.rng.below(16) as u32;
        order.display_qty = order.display_qty.min(1);
        let limited = order.price != Price(0) && self.profile.prices.contains(&price);
        let far = match order.side {
            Side::Buy => self.profile.prices.last(),
            Side::Sell => self.profile.prices.first(),
        };
        match (self.profile.theme, far) {
            _ if !limited => {}
            (Theme::Collar, Some(far)) => {
                (order.price, order.min_qty) = (*far, 1);
                if order.display_qty == 0 && self.rng.permille(400) {
                    order.time_in_force = TimeInForce::ImmediateOrCancel;
                    order.expire_at = Nanos(0);
                }
            }
            (Theme::Crowded, _) => {
                (order.price, order.qty) = (price, lots.max(1));
                (order.min_qty, order.group) = (1, pick(&mut self.rng, &level).terms.group);
            }
            _ => order.price = price,
        }
    }

    /// Sound terms of a kind.
    pub(super) fn order_of(&mut self, kind: Kind, key: u64, side: Side) -> NewOrder {
        let price = self.price_of(side);
        let mut order = NewOrder::limit(key, side, price, self.lots());
        order.order_type = kind.order_type();
        order.group = self.rng.below(self.profile.groups + 1) as u16;
        order.session = self.rng.below(3) as u16;
        order.self_trade = pick(
            &mut self.rng,
            &[
                SelfTrade::Allow,
                SelfTrade::CancelNewest,
                SelfTrade::CancelOldest,
                SelfTrade::CancelBoth,
                SelfTrade::Decrement,
            ],
        );
        order.cl_ord_id = ClOrdId([b'a' + (self.rng.below(26) as u8); 14]);
        order.time_in_force = self.life_of(kind);
        self.price_terms(kind, &mut order);
        self.quantity_terms(kind, &mut order);
        if order.time_in_force == TimeInForce::GoodTillDate {
            order.expire_at = Nanos(self.now + self.rng.below(60));
        }
        order
    }

    fn life_of(&mut self, kind: Kind) -> TimeInForce {
        use TimeInForce::*;
        let lives: &[TimeInForce] = match kind {
            Kind::LimitIoc | Kind::MarketIoc => &[ImmediateOrCancel],
            Kind::LimitFok | Kind::MarketFok => &[FillOrKill],
            Kind::LimitAtOpen | Kind::MarketAtOpen => &[AtTheOpen],
            Kind::LimitAtClose | Kind::MarketAtClose => &[AtTheClose],
            Kind::Market => &[Day, GoodTillCancelled],
            Kind::MinQty | Kind::MarketToLimit => {
                &[Day, GoodTillCancelled, GoodTillDate, ImmediateOrCancel]
            }
            _ => &[Day, GoodTillCancelled, GoodTillDate],
        };
        let dated = if self.profile.theme == Theme::Lasting { 600 } else { 200 };
        if lives.contains(&GoodTillDate) && self.rng.permille(dated) {
            return GoodTillDate;
        }
        pick(&mut self.rng, lives)
    }

    /// Prices by kind: stops near the market, small distances and offsets.
    fn price_terms(&mut self, kind: Kind, order: &mut NewOrder) {
        let step = self.profile.prices[1].0 - self.profile.prices[0].0;
        let small = self.rng.below(3 * step as u64 + 1) as i64;
        match kind {
            Kind::Stop => (order.price, order.stop_price) = (Price(0), self.price()),
            Kind::StopLimit => order.stop_price = self.price(),
            Kind::TrailingStop => (order.price, order.stop_price) = (Price(0), Price(1 + small)),
            Kind::PegPrimary | Kind::PegMid => {
                if self.rng.permille(600) {
                    order.price = Price(0);
                }
                let offset = kind == Kind::PegPrimary && self.rng.permille(600);
                order.stop_price = Price(if offset { small } else { 0 });
                if self.rng.permille(100) {
                    order.flags = ORDER_HIDDEN;
                }
            }
            Kind::Market
            | Kind::MarketIoc
            | Kind::MarketFok
            | Kind::MarketAtOpen
            | Kind::MarketAtClose
            | Kind::MarketToLimit => order.price = Price(0),
            Kind::PostOnly => order.flags = ORDER_POST_ONLY,
            Kind::Slide => order.flags = ORDER_POST_ONLY_SLIDE,
            Kind::Hidden => order.flags = ORDER_HIDDEN,
            _ => {}
        }
    }

    fn quantity_terms(&mut self, kind: Kind, order: &mut NewOrder) {
        match kind {
            Kind::Iceberg => {
                order.qty += self.lots();
                order.display_qty = 1 + self.rng.below(u64::from(order.qty.min(4))) as u32;
            }
            Kind::PostOnly | Kind::Slide if self.rng.permille(600) => {
                order.qty += 2 * self.lots();
                order.display_qty = 1 + self.rng.below(2) as u32;
            }
            Kind::MinQty => {
                order.min_qty = 1 + self.rng.below(u64::from(order.qty)) as u32;
                order.qty += self.rng.below(2) as u32 * self.lots();
            }
            Kind::MarketToLimit => order.qty += self.lots(),
            _ => {}
        }
        let may =
            matches!(kind, Kind::Market | Kind::MarketIoc | Kind::MarketToLimit | Kind::Hidden);
        if may && self.rng.permille(120) {
            order.min_qty = 1 + self.rng.below(u64::from(order.qty)) as u32;
        }
        if kind == Kind::MinQty && self.rng.permille(850) {
            let lasting = order.time_in_force != TimeInForce::ImmediateOrCancel;
            order.display_qty = if lasting { order.qty.div_ceil(3) } else { 0 };
        }
    }

    /// Changes one thing so that, mostly, the terms no longer fit together.
    pub(super) fn spoil(&mut self, kind: Kind, order: &mut NewOrder) {
        use TimeInForce::*;
        let lives = [ImmediateOrCancel, FillOrKill, GoodTillDate, AtTheOpen, AtTheClose];
        let displays = matches!(kind, Kind::Iceberg | Kind::PostOnly | Kind::Slide);
        match self.rng.below(10) {
            0 => order.time_in_force = pick(&mut self.rng, &lives),
            1 => order.flags |= 1 << self.rng.below(3),
            2 => order.price = if order.price == Price(0) { Price(-1) } else { Price(0) },
            3 => order.display_qty = order.qty,
            4 => order.min_qty = order.qty,
            5 | 6 if displays => order.display_qty = order.qty + 1,
            5 | 6 => order.min_qty = order.qty + 1,
            _ if order.stop_price > Price(0) => order.stop_price = Price(-1),
            _ => order.stop_price = Price(1 - 2 * (self.rng.below(2) as i64)),
        }
    }
}
