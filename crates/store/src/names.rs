//! Words that stand in the tables for codes. They are part of the schema: a changed word needs
//! another version of it.

use types::{CancelReason, Liquidity, OrderType, RejectReason, TimeInForce};

pub(crate) fn order_type(of: OrderType) -> &'static str {
    match of {
        OrderType::Limit => "limit",
        OrderType::Market => "market",
        OrderType::MarketToLimit => "market-to-limit",
        OrderType::Stop => "stop",
        OrderType::StopLimit => "stop-limit",
        OrderType::TrailingStop => "trailing-stop",
        OrderType::PegPrimary => "peg-primary",
        OrderType::PegMid => "peg-mid",
    }
}

pub(crate) fn time_in_force(of: TimeInForce) -> &'static str {
    match of {
        TimeInForce::Day => "day",
        TimeInForce::GoodTillCancelled => "gtc",
        TimeInForce::ImmediateOrCancel => "ioc",
        TimeInForce::FillOrKill => "fok",
        TimeInForce::GoodTillDate => "gtd",
        TimeInForce::AtTheOpen => "opening",
        TimeInForce::AtTheClose => "closing",
    }
}

/// Word for the kind of a trade: continuous trading, or which auction.
pub(crate) fn trade_kind(of: Liquidity) -> &'static str {
    match of {
        Liquidity::None | Liquidity::Added | Liquidity::Removed => "continuous",
        Liquidity::OpeningCross => "opening",
        Liquidity::ClosingCross => "closing",
        Liquidity::ResumingCross => "resuming",
        Liquidity::IntradayCross => "intraday",
    }
}

pub(crate) fn cancel_reason(of: CancelReason) -> &'static str {
    match of {
        CancelReason::None => "none",
        CancelReason::Requested => "requested",
        CancelReason::ImmediateOrCancel => "immediate-or-cancel",
        CancelReason::EndOfDay => "end-of-day",
        CancelReason::NotEnough => "not-enough",
        CancelReason::SelfTrade => "self-trade",
        CancelReason::MassCancel => "mass-cancel",
        CancelReason::Disconnect => "disconnect",
        CancelReason::Expired => "expired",
        CancelReason::AuctionOver => "auction-over",
        CancelReason::Killed => "killed",
        CancelReason::Collar => "collar",
        CancelReason::Capacity => "capacity",
        CancelReason::Delisted => "delisted",
        CancelReason::TickSize => "tick-size",
    }
}

pub(crate) fn reject_reason(of: RejectReason) -> &'static str {
    match of {
        RejectReason::None => "none",
        RejectReason::UnknownInstrument => "unknown-instrument",
        RejectReason::InvalidQuantity => "invalid-quantity",
        RejectReason::InvalidPrice => "invalid-price",
        RejectReason::PriceTooHigh => "price-too-high",
        RejectReason::PostOnlyWouldTrade => "post-only-would-trade",
        RejectReason::UnknownOrder => "unknown-order",
        RejectReason::MarketClosed => "market-closed",
        RejectReason::CapacityReached => "capacity-reached",
        RejectReason::NothingLeft => "nothing-left",
        RejectReason::Unsupported => "unsupported",
        RejectReason::NotInThisPhase => "not-in-this-phase",
        RejectReason::Halted => "halted",
        RejectReason::PriceCollar => "price-collar",
        RejectReason::FatFinger => "fat-finger",
        RejectReason::OrderQuantityLimit => "order-quantity-limit",
        RejectReason::OrderNotionalLimit => "order-notional-limit",
        RejectReason::OpenOrdersLimit => "open-orders-limit",
        RejectReason::PositionLimit => "position-limit",
        RejectReason::CreditLimit => "credit-limit",
        RejectReason::MessageRate => "message-rate",
        RejectReason::DuplicateClOrdId => "duplicate-clordid",
        RejectReason::Killed => "killed",
        RejectReason::InvalidStopPrice => "invalid-stop-price",
        RejectReason::InvalidQuantityTerms => "invalid-quantity-terms",
        RejectReason::InvalidExpiry => "invalid-expiry",
        RejectReason::DuplicateOrder => "duplicate-order",
        RejectReason::ShardAllotment => "shard-allotment",
    }
}
