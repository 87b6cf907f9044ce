//! Checks a client's requests and turns them into commands for the engine.

use types::limits::PRICE_MARKET;
use types::{
    ClOrdId, Command, CommandKind, Nanos, OrderType, Price, Qty, RejectReason, Side, Symbol,
    TimeInForce, UserRefNum,
};

use super::appendage::Appendage;
use super::messages::{CancelOrder, EnterOrder, Inbound, MassCancel, ReplaceOrder};
use super::terms::{Asked, DAY_S};
use super::{codes, terms};
use crate::SymbolTable;

/// A request that never becomes a command, with what an answer to it must name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusedRequest {
    /// Number of the request; 0 when its message has none.
    pub user_ref: UserRefNum,
    /// The client's own identifier, blank when its message has none.
    pub cl_ord_id: ClOrdId,
    /// Reason told to the participant.
    pub reason: RejectReason,
}

/// Checks everything about a request that needs no state and makes it a command; the caller fills
/// in the account. `now` is when the request was received: seconds to live count from it. What
/// needs state (tick, limits, the order meant, the market's phase), and which terms go together,
/// is the engine's to check, so that its answer lies in the log.
#[inline]
pub fn to_command(
    message: &Inbound<'_>,
    symbols: &SymbolTable,
    now: Nanos,
) -> Result<Command, RefusedRequest> {
    let mut command = Command::new(CommandKind::NewOrder);
    let done = match message {
        Inbound::EnterOrder(order, more) => new_order(order, more, symbols, now, &mut command),
        Inbound::ReplaceOrder(replace, more) => replace_order(replace, more, now, &mut command),
        Inbound::CancelOrder(cancel, more) => cancel_order(cancel, more, &mut command),
        Inbound::MassCancel(request, more) => mass_cancel(request, more, symbols, &mut command),
        // A modify may only turn one kind of selling into another, and there is but one here.
        Inbound::ModifyOrder(..)
        | Inbound::DisableOrderEntry(..)
        | Inbound::EnableOrderEntry(..)
        | Inbound::AccountQuery(..) => Err(RejectReason::Unsupported),
    };
    match done {
        Ok(()) => Ok(command),
        Err(reason) => Err(refused(message, reason)),
    }
}

#[cold]
fn refused(message: &Inbound<'_>, reason: RejectReason) -> RefusedRequest {
    let blank = [b' '; 14];
    let (user_ref, cl_ord_id) = match message {
        Inbound::EnterOrder(order, _) => (order.user_ref.get(), order.cl_ord_id),
        Inbound::ReplaceOrder(replace, _) => (replace.user_ref.get(), replace.cl_ord_id),
        Inbound::CancelOrder(cancel, _) => (cancel.user_ref.get(), blank),
        Inbound::MassCancel(request, _) => (request.user_ref.get(), blank),
        Inbound::ModifyOrder(modify, _) => (modify.user_ref.get(), blank),
        Inbound::DisableOrderEntry(request, _) => (request.user_ref.get(), blank),
        Inbound::EnableOrderEntry(request, _) => (request.user_ref.get(), blank),
        Inbound::AccountQuery(..) => (0, blank),
    };
    RefusedRequest { user_ref: UserRefNum(user_ref), cl_ord_id: ClOrdId(cl_ord_id), reason }
}

/// Optional fields are read apart: what is said of an order without any is known beforehand.
#[inline]
fn new_order(
    order: &EnterOrder,
    appendage: &Appendage<'_>,
    symbols: &SymbolTable,
    now: Nanos,
    command: &mut Command,
) -> Result<(), RejectReason> {
    if appendage.is_empty() {
        return new_order_as(order, || Ok(Asked::NOTHING), symbols, now, command);
    }
    new_order_with_fields(order, appendage, symbols, now, command)
}

#[inline(never)]
fn new_order_with_fields(
    order: &EnterOrder,
    appendage: &Appendage<'_>,
    symbols: &SymbolTable,
    now: Nanos,
    command: &mut Command,
) -> Result<(), RejectReason> {
    new_order_as(order, || Asked::read(appendage), symbols, now, command)
}

#[inline(always)]
pub(super) fn new_order_as(
    order: &EnterOrder,
    asked: impl FnOnce() -> Result<Asked, RejectReason>,
    symbols: &SymbolTable,
    now: Nanos,
    command: &mut Command,
) -> Result<(), RejectReason> {
    command.instrument = symbols.id(Symbol(order.symbol)).ok_or(RejectReason::UnknownInstrument)?;
    command.side = codes::side(order.side).ok_or(RejectReason::Unsupported)?;
    let asked = asked()?;
    let capacity_known = matches!(order.capacity, b'A' | b'P' | b'R' | b'O');
    let served = asked.side.is_none() && asked.cross_type == b'N' && capacity_known;
    if !served || !matches!(order.sweep, b'Y' | b'N') {
        return Err(RejectReason::Unsupported);
    }
    set_life(command, order.time_in_force, order.cross_type, &asked, now)?;
    set_terms(command, &asked, order.display)?;
    command.user_ref = UserRefNum(order.user_ref.get());
    command.qty = Qty(u64::from(order.quantity.get()));
    let market = order.price.get() == PRICE_MARKET;
    let by_price = if market { OrderType::Market } else { OrderType::Limit };
    command.order_type = asked.order_type.unwrap_or(by_price);
    command.price = price(order.price.get())?;
    command.cl_ord_id = ClOrdId(order.cl_ord_id);
    Ok(())
}

#[inline]
fn replace_order(
    replace: &ReplaceOrder,
    appendage: &Appendage<'_>,
    now: Nanos,
    command: &mut Command,
) -> Result<(), RejectReason> {
    if appendage.is_empty() {
        return replace_order_as(replace, &Asked::NOTHING, now, command);
    }
    replace_order_with_fields(replace, appendage, now, command)
}

#[inline(never)]
fn replace_order_with_fields(
    replace: &ReplaceOrder,
    appendage: &Appendage<'_>,
    now: Nanos,
    command: &mut Command,
) -> Result<(), RejectReason> {
    replace_order_as(replace, &Asked::read(appendage)?, now, command)
}

#[inline(always)]
pub(super) fn replace_order_as(
    replace: &ReplaceOrder,
    asked: &Asked,
    now: Nanos,
    command: &mut Command,
) -> Result<(), RejectReason> {
    let served = asked.side.is_none() && asked.order_type.is_none();
    if !served || !matches!(replace.sweep, b'Y' | b'N') {
        return Err(RejectReason::Unsupported);
    }
    command.kind = CommandKind::Replace;
    set_life(command, replace.time_in_force, asked.cross_type, asked, now)?;
    set_terms(command, asked, replace.display)?;
    command.orig_user_ref = UserRefNum(replace.orig_user_ref.get());
    command.user_ref = UserRefNum(replace.user_ref.get());
    command.qty = Qty(u64::from(replace.quantity.get()));
    command.price = price(replace.price.get())?;
    command.cl_ord_id = ClOrdId(replace.cl_ord_id);
    Ok(())
}

#[inline]
fn cancel_order(
    cancel: &CancelOrder,
    appendage: &Appendage<'_>,
    command: &mut Command,
) -> Result<(), RejectReason> {
    if !appendage.is_empty() && Asked::read(appendage)? != Asked::NOTHING {
        return Err(RejectReason::Unsupported);
    }
    command.kind = CommandKind::Cancel;
    command.user_ref = UserRefNum(cancel.user_ref.get());
    command.qty = Qty(u64::from(cancel.quantity.get()));
    Ok(())
}

/// All orders of the account, or those of one symbol; the side field (ours here) narrows it to one
/// side.
fn mass_cancel(
    request: &MassCancel,
    appendage: &Appendage<'_>,
    symbols: &SymbolTable,
    command: &mut Command,
) -> Result<(), RejectReason> {
    let asked = Asked::read(appendage)?;
    if (Asked { side: None, ..asked }) != Asked::NOTHING {
        return Err(RejectReason::Unsupported);
    }
    command.kind = CommandKind::MassCancel;
    if request.symbol != [b' '; 8] {
        let instrument = symbols.id(Symbol(request.symbol));
        command.instrument = instrument.ok_or(RejectReason::UnknownInstrument)?;
    }
    command.param = match asked.side {
        None => 0,
        Some(Side::Buy) => 1,
        Some(Side::Sell) => 2,
    };
    command.user_ref = UserRefNum(request.user_ref.get());
    Ok(())
}

/// Sets time in force and expiry.
#[inline(always)]
fn set_life(
    command: &mut Command,
    time_in_force: u8,
    cross_type: u8,
    asked: &Asked,
    now: Nanos,
) -> Result<(), RejectReason> {
    let life = codes::time_in_force(time_in_force).ok_or(RejectReason::Unsupported)?;
    command.time_in_force = match (cross_type, life) {
        (b'N', life) => life,
        (b'O', TimeInForce::Day | TimeInForce::ImmediateOrCancel) => TimeInForce::AtTheOpen,
        (b'C', TimeInForce::Day | TimeInForce::ImmediateOrCancel) => TimeInForce::AtTheClose,
        _ => return Err(RejectReason::Unsupported),
    };
    command.expire_at = match (life == TimeInForce::GoodTillDate, asked.live_s, asked.expire_at) {
        (false, 0, Nanos(0)) => Nanos(0),
        (true, 0, Nanos(0)) => return Err(RejectReason::InvalidExpiry),
        (true, 0, at) => at,
        (true, 1..DAY_S, Nanos(0)) => now.after(u64::from(asked.live_s) * Nanos::SECOND),
        (true, DAY_S.., Nanos(0)) => return Err(RejectReason::InvalidExpiry),
        _ => return Err(RejectReason::Unsupported),
    };
    Ok(())
}

/// Sets the terms that new orders and replaces have in common.
#[inline(always)]
fn set_terms(command: &mut Command, asked: &Asked, display: u8) -> Result<(), RejectReason> {
    command.flags = terms::flags(asked, display)?;
    command.self_trade = asked.self_trade;
    command.display_qty = asked.display_qty;
    command.min_qty = asked.min_qty;
    command.stop_price = asked.stop_price;
    Ok(())
}

/// The price of a price field; [`PRICE_MARKET`] becomes 0, which means "no price".
#[inline]
fn price(units: u64) -> Result<Price, RejectReason> {
    if units == PRICE_MARKET {
        return Ok(Price(0));
    }
    i64::try_from(units).map(Price).map_err(|_| RejectReason::PriceTooHigh)
}
