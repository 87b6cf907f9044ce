//! The kinds of orders that the coverage table tells apart.

use types::{
    NewOrder, ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, OrderType, TimeInForce,
};

/// An order type, with the terms that change how it is treated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A displayed limit order that may rest.
    Limit,
    /// A limit order, immediate or cancel.
    LimitIoc,
    /// A limit order, fill or kill.
    LimitFok,
    /// A limit order with a minimum quantity.
    MinQty,
    /// A limit order with a display quantity.
    Iceberg,
    /// A limit order of which nothing is displayed.
    Hidden,
    /// A limit order that must not trade on entry.
    PostOnly,
    /// A limit order that must not trade on entry, and is priced anew instead of being refused.
    Slide,
    /// A limit order at the open.
    LimitAtOpen,
    /// A limit order at the close.
    LimitAtClose,
    /// A market order, day or good till cancelled.
    Market,
    /// A market order, immediate or cancel.
    MarketIoc,
    /// A market order, fill or kill.
    MarketFok,
    /// A market order at the open.
    MarketAtOpen,
    /// A market order at the close.
    MarketAtClose,
    /// A market order whose rest becomes a limit order.
    MarketToLimit,
    /// A stop order, which becomes a market order.
    Stop,
    /// A stop order that becomes a limit order.
    StopLimit,
    /// A stop order whose stop price follows the market.
    TrailingStop,
    /// An order pegged to the best displayed price of its own side.
    PegPrimary,
    /// An order pegged to the middle of the best displayed prices.
    PegMid,
}

impl Kind {
    /// All kinds, in the order of the variants.
    pub const ALL: [Kind; 21] = [
        Kind::Limit,
        Kind::LimitIoc,
        Kind::LimitFok,
        Kind::MinQty,
        Kind::Iceberg,
        Kind::Hidden,
        Kind::PostOnly,
        Kind::Slide,
        Kind::LimitAtOpen,
        Kind::LimitAtClose,
        Kind::Market,
        Kind::MarketIoc,
        Kind::MarketFok,
        Kind::MarketAtOpen,
        Kind::MarketAtClose,
        Kind::MarketToLimit,
        Kind::Stop,
        Kind::StopLimit,
        Kind::TrailingStop,
        Kind::PegPrimary,
        Kind::PegMid,
    ];

    /// The kind of an order with these terms; of several that fit, the first of those asked for
    /// here.
    pub fn of(order: &NewOrder) -> Kind {
        let flag = |bit: u8| order.flags & bit != 0;
        match (order.order_type, order.time_in_force) {
            (OrderType::Limit, _) if flag(ORDER_POST_ONLY) => Kind::PostOnly,
            (OrderType::Limit, _) if flag(ORDER_POST_ONLY_SLIDE) => Kind::Slide,
            (OrderType::Limit, _) if flag(ORDER_HIDDEN) => Kind::Hidden,
            (OrderType::Limit, _) if order.min_qty > 0 => Kind::MinQty,
            (OrderType::Limit, _) if order.display_qty > 0 => Kind::Iceberg,
            (OrderType::Limit, TimeInForce::ImmediateOrCancel) => Kind::LimitIoc,
            (OrderType::Limit, TimeInForce::FillOrKill) => Kind::LimitFok,
            (OrderType::Limit, TimeInForce::AtTheOpen) => Kind::LimitAtOpen,
            (OrderType::Limit, TimeInForce::AtTheClose) => Kind::LimitAtClose,
            (OrderType::Limit, _) => Kind::Limit,
            (OrderType::Market, TimeInForce::ImmediateOrCancel) => Kind::MarketIoc,
            (OrderType::Market, TimeInForce::FillOrKill) => Kind::MarketFok,
            (OrderType::Market, TimeInForce::AtTheOpen) => Kind::MarketAtOpen,
            (OrderType::Market, TimeInForce::AtTheClose) => Kind::MarketAtClose,
            (OrderType::Market, _) => Kind::Market,
            (OrderType::MarketToLimit, _) => Kind::MarketToLimit,
            (OrderType::Stop, _) => Kind::Stop,
            (OrderType::StopLimit, _) => Kind::StopLimit,
            (OrderType::TrailingStop, _) => Kind::TrailingStop,
            (OrderType::PegPrimary, _) => Kind::PegPrimary,
            (OrderType::PegMid, _) => Kind::PegMid,
        }
    }

    /// The order type of all orders of the kind.
    pub fn order_type(self) -> OrderType {
        match self {
            Kind::Market
            | Kind::MarketIoc
            | Kind::MarketFok
            | Kind::MarketAtOpen
            | Kind::MarketAtClose => OrderType::Market,
            Kind::MarketToLimit => OrderType::MarketToLimit,
            Kind::Stop => OrderType::Stop,
            Kind::StopLimit => OrderType::StopLimit,
            Kind::TrailingStop => OrderType::TrailingStop,
            Kind::PegPrimary => OrderType::PegPrimary,
            Kind::PegMid => OrderType::PegMid,
            _ => OrderType::Limit,
        }
    }

    /// Name of the kind in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Limit => "limit",
            Kind::LimitIoc => "limit IOC",
            Kind::LimitFok => "limit FOK",
            Kind::MinQty => "limit, minimum quantity",
            Kind::Iceberg => "iceberg",
            Kind::Hidden => "hidden",
            Kind::PostOnly => "post-only",
            Kind::Slide => "post-only, sliding",
            Kind::LimitAtOpen => "limit at the open",
            Kind::LimitAtClose => "limit at the close",
            Kind::Market => "market",
            Kind::MarketIoc => "market IOC",
            Kind::MarketFok => "market FOK",
            Kind::MarketAtOpen => "market at the open",
            Kind::MarketAtClose => "market at the close",
            Kind::MarketToLimit => "market to limit",
            Kind::Stop => "stop",
            Kind::StopLimit => "stop-limit",
            Kind::TrailingStop => "trailing stop",
            Kind::PegPrimary => "primary peg",
            Kind::PegMid => "mid peg",
        }
    }
}
