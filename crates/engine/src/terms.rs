//! Rules a request must meet on its own, before the book is asked: the reasons for refusing it.
//!
//! They are checked in a fixed order, so that a request with several faults always gets the same
//! reason: flags, quantity, limit price, static collar, stop price, expiry. Which terms go
//! together, and what the phase allows, is the book's to say (docs/matching.md, section 2).

use types::{
    Command, Nanos, ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, OrderType, Price,
    RejectReason, TimeInForce,
};

use crate::market::Market;

const FLAGS: u8 = ORDER_POST_ONLY | ORDER_POST_ONLY_SLIDE | ORDER_HIDDEN;

/// Checks the terms of a new order, or of a replace of an order of `order_type`; gives its limit
/// price (0: none).
#[inline(always)]
pub(crate) fn check(
    command: &Command,
    order_type: OrderType,
    market: &Market,
    now: Nanos,
) -> Result<Price, RejectReason> {
    if command.flags & !FLAGS != 0 {
        return Err(RejectReason::Unsupported);
    }
    let qty = command.qty;
    if qty.0 == 0 || qty > market.qty_max || qty < market.qty_min {
        return Err(RejectReason::InvalidQuantity);
    }
    // First what nearly all are: no table of types has to be looked into.
    let price = match order_type == OrderType::Limit {
        true => check_price(command.price, market)?,
        false => check_rare(command, order_type, market)?,
    };
    let good_till_date = command.time_in_force == TimeInForce::GoodTillDate;
    let expires = command.expire_at.0 != 0;
    if good_till_date != expires || (good_till_date && command.expire_at <= now) {
        return Err(RejectReason::InvalidExpiry);
    }
    Ok(price)
}

/// Limit and stop price of all other types than limit orders.
#[cold]
#[inline(never)]
fn check_rare(
    command: &Command,
    order_type: OrderType,
    market: &Market,
) -> Result<Price, RejectReason> {
    let price = match order_type {
        // A market order's price means nothing, whatever it is.
        OrderType::Market => Price(0),
        OrderType::Limit | OrderType::StopLimit => check_price(command.price, market)?,
        OrderType::PegPrimary | OrderType::PegMid if command.price.0 != 0 => {
            check_price(command.price, market)?
        }
        _ => command.price,
    };
    check_stop(command.stop_price, order_type, market)?;
    Ok(price)
}

#[inline(always)]
fn check_price(price: Price, market: &Market) -> Result<Price, RejectReason> {
    if price.0 <= 0 {
        return Err(RejectReason::InvalidPrice);
    }
    if price > market.price_max {
        return Err(RejectReason::PriceTooHigh);
    }
    if !market.fits(price) {
        return Err(RejectReason::InvalidPrice);
    }
    if price < market.low || price > market.high {
        return Err(RejectReason::PriceCollar);
    }
    Ok(price)
}

/// Stop prices are prices; distances and offsets only have to be as small as one.
fn check_stop(price: Price, order_type: OrderType, market: &Market) -> Result<(), RejectReason> {
    let stop = matches!(order_type, OrderType::Stop | OrderType::StopLimit);
    let out_of_range = !(0..=market.price_max.0).contains(&price.0);
    if out_of_range || (stop && !market.fits(price)) {
        return Err(RejectReason::InvalidStopPrice);
    }
    Ok(())
}
