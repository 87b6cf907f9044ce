//! Which combinations of terms there are (2.2 to 2.5).

use types::{
    NewOrder, ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, OrderType, Phase, Price,
    RejectReason, TimeInForce, limits::PRICE_MAX,
};

use crate::order::Kind;

const POST_ONLY: u8 = ORDER_POST_ONLY | ORDER_POST_ONLY_SLIDE;

/// A limit order without anything special, the one case the fast path takes, if its price is a
/// multiple of the unit.
#[inline(always)]
pub(crate) fn is_plain(order: &NewOrder) -> bool {
    use TimeInForce::{Day, GoodTillCancelled, GoodTillDate, ImmediateOrCancel};
    let special = u64::from(order.flags)
        | u64::from(order.display_qty)
        | u64::from(order.min_qty)
        | order.stop_price.0 as u64;
    let lives = 1u8 << Day as u8
        | 1 << GoodTillCancelled as u8
        | 1 << GoodTillDate as u8
        | 1 << ImmediateOrCancel as u8;
    // A group that would have to be looked for among the resting orders is not plain.
    let free = (order.self_trade as u8 == 0) | (order.group == 0);
    let price = order.price.0;
    (special == 0)
        & (order.order_type as u8 == OrderType::Limit as u8)
        & (lives >> order.time_in_force as u8 & 1 == 1)
        & free
        & (order.qty != 0)
        & ((price.wrapping_sub(1) as u64) < PRICE_MAX as u64)
}

/// The same terms of an order that [`is_plain`]: what is then zero is written as such, not looked up again.
#[inline(always)]
pub(crate) fn plain(order: &NewOrder) -> NewOrder {
    debug_assert!(is_plain(order), "its terms are as these");
    NewOrder {
        order_type: OrderType::Limit,
        flags: 0,
        display_qty: 0,
        min_qty: 0,
        stop_price: Price(0),
        ..*order
    }
}

/// Rules 2.2 to 2.4, and that prices are such as a ladder can hold.
pub(crate) fn check_terms(order: &NewOrder, unit: i64, tick: i64) -> Result<(), RejectReason> {
    if !(combines(order) && price_combines(order)) {
        return Err(RejectReason::Unsupported);
    }
    if order.display_qty > order.qty || order.min_qty > order.qty {
        return Err(RejectReason::InvalidQuantityTerms);
    }
    let stop = order.stop_price.0;
    let stop_fits = match order.order_type {
        OrderType::Stop | OrderType::StopLimit | OrderType::TrailingStop => stop > 0,
        OrderType::PegPrimary => stop >= 0 && stop % tick == 0,
        _ => stop == 0,
    };
    if !stop_fits {
        return Err(RejectReason::InvalidStopPrice);
    }
    if order.qty == 0 {
        return Err(RejectReason::InvalidQuantity);
    }
    if order.price.0 > PRICE_MAX || order.price.0 % unit != 0 {
        return Err(RejectReason::InvalidPrice);
    }
    Ok(())
}

/// The combinations of 2.2 besides those with the price.
fn combines(order: &NewOrder) -> bool {
    use TimeInForce::{AtTheClose, AtTheOpen, FillOrKill, GoodTillDate, ImmediateOrCancel};
    let life = order.time_in_force;
    let limit = order.order_type == OrderType::Limit;
    let auction_only = matches!(life, AtTheOpen | AtTheClose);
    let resting = !auction_only && !matches!(life, ImmediateOrCancel | FillOrKill);
    let hidden = order.flags & ORDER_HIDDEN != 0;
    let by_flags = match order.flags & POST_ONLY {
        0 => true,
        POST_ONLY => false,
        _ => limit && resting && !hidden && order.min_qty == 0,
    };
    let known = order.flags & !(POST_ONLY | ORDER_HIDDEN) == 0;
    let peg = order.order_type.peg();
    let by_hidden = !hidden || peg || (limit && resting && order.display_qty == 0);
    let by_display = order.display_qty == 0 || (limit && resting);
    let by_min = order.min_qty == 0
        || (matches!(
            order.order_type,
            OrderType::Limit | OrderType::Market | OrderType::MarketToLimit
        ) && !auction_only
            && life != FillOrKill);
    let by_life = match order.order_type {
        OrderType::Limit => true,
        OrderType::Market => life != GoodTillDate,
        OrderType::MarketToLimit => resting || life == ImmediateOrCancel,
        _ => resting,
    };
    known && by_flags && by_hidden && by_display && by_min && by_life
}

fn price_combines(order: &NewOrder) -> bool {
    match order.order_type {
        OrderType::Limit | OrderType::StopLimit => order.price.0 > 0,
        OrderType::PegPrimary | OrderType::PegMid => order.price.0 >= 0,
        _ => order.price.0 == 0,
    }
}

/// Rule 2.5 but for Halt, which a replace that keeps its place passes.
pub(crate) fn check_phase(order: &NewOrder, phase: Phase) -> Result<(), RejectReason> {
    let life = order.time_in_force;
    if phase == Phase::Closed {
        return Err(RejectReason::MarketClosed);
    }
    if phase == Phase::Halt {
        return Ok(());
    }
    let opening = matches!(phase, Phase::PreOpen | Phase::OpeningCall);
    let not_in_call = life == TimeInForce::FillOrKill
        || (life == TimeInForce::ImmediateOrCancel && phase != Phase::Batch)
        || order.flags & POST_ONLY != 0
        || order.min_qty > 0
        || order.order_type == OrderType::MarketToLimit
        || order.order_type.peg();
    if (phase.is_call() && not_in_call) || (life == TimeInForce::AtTheOpen && !opening) {
        return Err(RejectReason::NotInThisPhase);
    }
    Ok(())
}
