//! Rules a request must meet on its own, before the book is asked: the reasons for refusing it.
//!
//! They are checked in a fixed order, so that a request with several faults always gets the same
//! reason: flags and combinations, quantity, price.

use types::{Command, Instrument, ORDER_POST_ONLY, OrderType, Price, RejectReason, TimeInForce};

/// Checks flags, quantity and price of a new order, or of a replace on its order's instrument.
pub(crate) fn check(command: &Command, instrument: &Instrument) -> Result<(), RejectReason> {
    if command.flags & !ORDER_POST_ONLY != 0 {
        return Err(RejectReason::Unsupported);
    }
    // An order that may only rest, and one that never rests, can't be the same order.
    if command.post_only() && !may_rest(command) {
        return Err(RejectReason::Unsupported);
    }
    if command.qty.0 == 0 || command.qty > instrument.qty_max {
        return Err(RejectReason::InvalidQuantity);
    }
    match command.order_type {
        OrderType::Limit => check_price(command.price, instrument),
        OrderType::Market => Ok(()),
    }
}

/// Whether what does not trade at once stays in the book.
pub(crate) fn may_rest(command: &Command) -> bool {
    command.order_type == OrderType::Limit
        && command.time_in_force != TimeInForce::ImmediateOrCancel
}

fn check_price(price: Price, instrument: &Instrument) -> Result<(), RejectReason> {
    if price.0 <= 0 {
        return Err(RejectReason::InvalidPrice);
    }
    if price > instrument.price_max {
        return Err(RejectReason::PriceTooHigh);
    }
    if price.0 % instrument.tick.0 != 0 {
        return Err(RejectReason::InvalidPrice);
    }
    Ok(())
}
