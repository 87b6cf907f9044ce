//! Kinds of orders beyond limit and market, in generated flow.

use types::{Nanos, OrderType, Price, SelfTrade, TimeInForce};
use wire::ouch::{NewOrder, Terms};

/// Term of a new order beside price, quantity and time in force.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Special {
    /// No special term.
    #[default]
    None,
    /// An eighth displayed at a time.
    Iceberg,
    /// Hidden.
    Hidden,
    /// Post only, priced away instead of refused.
    Slide,
    /// A quarter must trade at once.
    MinQuantity,
    /// Fill or kill.
    FillOrKill,
    /// Market to limit: the rest rests at the last price.
    MarketToLimit,
    /// The flow's price is the stop price.
    Stop,
    /// The flow's price is limit and stop price.
    StopLimit,
    /// The flow's price is the distance.
    TrailingStop,
    /// The flow's price is the offset.
    PegPrimary,
    /// Half way between the best prices.
    PegMid,
    /// Good till a date one minute away.
    GoodTillDate,
    /// For the closing auction.
    AtTheClose,
    /// Cancels own resting orders rather than trade with them.
    SelfTrade,
    /// Expires this many milliseconds after it is sent.
    Brief(u16),
}

impl Special {
    /// Every kind but [`Special::None`] and [`Special::Brief`].
    pub const ALL: [Special; 14] = [
        Special::Iceberg,
        Special::Hidden,
        Special::Slide,
        Special::MinQuantity,
        Special::FillOrKill,
        Special::MarketToLimit,
        Special::Stop,
        Special::StopLimit,
        Special::TrailingStop,
        Special::PegPrimary,
        Special::PegMid,
        Special::GoodTillDate,
        Special::AtTheClose,
        Special::SelfTrade,
    ];

    /// The life such an order has.
    pub fn time_in_force(self) -> TimeInForce {
        match self {
            Special::MinQuantity => TimeInForce::ImmediateOrCancel,
            Special::FillOrKill => TimeInForce::FillOrKill,
            Special::GoodTillDate | Special::Brief(_) => TimeInForce::GoodTillDate,
            Special::AtTheClose => TimeInForce::AtTheClose,
            _ => TimeInForce::Day,
        }
    }

    /// The terms to send now with `order`, whose price is put right.
    pub(crate) fn terms(self, order: &mut NewOrder, now: Nanos) -> Terms {
        let part = |of: u64| u32::try_from((order.qty.0 / of).max(1)).unwrap_or(u32::MAX);
        let mut terms = Terms::default();
        match self {
            Special::None | Special::FillOrKill | Special::AtTheClose => {}
            Special::Iceberg => terms.display_qty = part(8),
            Special::Hidden => terms.hidden = true,
            Special::Slide => terms.slide = true,
            Special::MinQuantity => terms.min_qty = part(4),
            Special::GoodTillDate => terms.live_s = 60,
            Special::Brief(ms) => terms.expire_at = now.after(u64::from(ms) * Nanos::MILLI),
            Special::SelfTrade => terms.self_trade = SelfTrade::CancelOldest,
            Special::MarketToLimit => terms.order_type = OrderType::MarketToLimit,
            Special::StopLimit => {
                terms.order_type = OrderType::StopLimit;
                terms.stop_price = order.price.unwrap_or(Price(0));
            }
            Special::Stop => take_price(order, &mut terms, OrderType::Stop),
            Special::TrailingStop => take_price(order, &mut terms, OrderType::TrailingStop),
            Special::PegPrimary => take_price(order, &mut terms, OrderType::PegPrimary),
            Special::PegMid => take_price(order, &mut terms, OrderType::PegMid),
        }
        terms
    }
}

/// The price becomes the stop price; the order has no limit.
fn take_price(order: &mut NewOrder, terms: &mut Terms, order_type: OrderType) {
    terms.order_type = order_type;
    terms.stop_price = order.price.take().unwrap_or(Price(0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{
        ClOrdId, Instrument, InstrumentId, ORDER_HIDDEN, Qty, Side, Symbol, UserRefNum, limits,
    };
    use wire::{SymbolTable, ouch};

    /// The command an order becomes.
    fn command(special: Special, qty: u64) -> types::Command {
        let symbol = Symbol::new("TEST").expect("valid");
        let mut order = NewOrder {
            user_ref: UserRefNum(1),
            side: Side::Buy,
            qty: Qty(qty),
            symbol,
            price: Some(Price(700)),
            time_in_force: special.time_in_force(),
            post_only: false,
            cl_ord_id: ClOrdId::default(),
        };
        let terms = special.terms(&mut order, Nanos(3));
        let mut bytes = Vec::new();
        ouch::encode_enter_order_with(&order, &terms, &mut bytes).expect("encodable");
        let table = SymbolTable::new(&[Instrument {
            id: InstrumentId(1),
            symbol,
            tick: Price(1),
            price_max: Price(limits::PRICE_MAX),
            qty_max: Qty(limits::QTY_MAX),
            lot_decimals: 0,
        }]);
        let inbound = ouch::parse_inbound(&bytes).expect("well-formed");
        ouch::to_command(&inbound, &table, Nanos(5)).expect("served")
    }

    #[test]
    fn every_kind_says_what_it_means() {
        for special in Special::ALL {
            assert_eq!(command(special, 80).time_in_force, special.time_in_force(), "{special:?}");
        }
        assert_eq!(command(Special::Iceberg, 80).display_qty, 10);
        assert_eq!(command(Special::Iceberg, 1).display_qty, 1);
        assert_eq!(command(Special::MinQuantity, 80).min_qty, 20);
        assert_eq!(command(Special::Hidden, 1).flags, ORDER_HIDDEN);
        assert_eq!(command(Special::GoodTillDate, 1).expire_at, Nanos(5 + 60 * Nanos::SECOND));
        assert_eq!(command(Special::Brief(7), 1).expire_at, Nanos(3 + 7 * Nanos::MILLI));
        assert_eq!(command(Special::SelfTrade, 1).self_trade, SelfTrade::CancelOldest);
        let priced = |special| {
            let command = command(special, 1);
            (command.order_type, command.price.0, command.stop_price.0)
        };
        assert_eq!(priced(Special::None), (OrderType::Limit, 700, 0));
        assert_eq!(priced(Special::Stop), (OrderType::Stop, 0, 700));
        assert_eq!(priced(Special::StopLimit), (OrderType::StopLimit, 700, 700));
        assert_eq!(priced(Special::TrailingStop), (OrderType::TrailingStop, 0, 700));
        assert_eq!(priced(Special::PegPrimary), (OrderType::PegPrimary, 0, 700));
    }
}
