//! A client's request as a command to the engine.

use types::limits::PRICE_MARKET;
use types::{
    ClOrdId, Command, CommandKind, ORDER_POST_ONLY, OrderType, Price, Qty, RejectReason, Side,
    Symbol, TimeInForce, UserRefNum,
};

use super::appendage::{Appendage, tag};
use super::codes;
use super::messages::{CancelOrder, EnterOrder, Inbound, ReplaceOrder};
use crate::SymbolTable;

/// A request that never becomes a command, with what an answer to it must name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusedRequest {
    /// Number of the request; 0 when its message has none.
    pub user_ref: UserRefNum,
    /// The client's own identifier, blank when its message has none.
    pub cl_ord_id: ClOrdId,
    /// Why.
    pub reason: RejectReason,
}

/// Checks everything about a request that needs no state and makes it a command; the caller fills
/// in the account. What needs state (tick, limits, the order meant, the market's phase) is the
/// engine's to check, so that its answer lies in the log.
pub fn to_command(message: &Inbound<'_>, symbols: &SymbolTable) -> Result<Command, RefusedRequest> {
    match message {
        Inbound::EnterOrder(order, appendage) => {
            new_order(order, appendage, symbols).map_err(|reason| RefusedRequest {
                user_ref: UserRefNum(order.user_ref.get()),
                cl_ord_id: ClOrdId(order.cl_ord_id),
                reason,
            })
        }
        Inbound::ReplaceOrder(replace, appendage) => {
            replace_order(replace, appendage).map_err(|reason| RefusedRequest {
                user_ref: UserRefNum(replace.user_ref.get()),
                cl_ord_id: ClOrdId(replace.cl_ord_id),
                reason,
            })
        }
        Inbound::CancelOrder(cancel, appendage) => {
            cancel_order(cancel, appendage).map_err(|reason| refused(cancel.user_ref.get(), reason))
        }
        Inbound::ModifyOrder(m, _) => Err(refused(m.user_ref.get(), RejectReason::Unsupported)),
        Inbound::MassCancel(m, _) => Err(refused(m.user_ref.get(), RejectReason::Unsupported)),
        Inbound::DisableOrderEntry(m, _) => {
            Err(refused(m.user_ref.get(), RejectReason::Unsupported))
        }
        Inbound::EnableOrderEntry(m, _) => {
            Err(refused(m.user_ref.get(), RejectReason::Unsupported))
        }
        Inbound::AccountQuery(..) => Err(refused(0, RejectReason::Unsupported)),
    }
}

fn refused(user_ref: u32, reason: RejectReason) -> RefusedRequest {
    RefusedRequest { user_ref: UserRefNum(user_ref), cl_ord_id: ClOrdId::default(), reason }
}

fn new_order(
    order: &EnterOrder,
    appendage: &Appendage<'_>,
    symbols: &SymbolTable,
) -> Result<Command, RejectReason> {
    let mut command = Command::new(CommandKind::NewOrder);
    command.instrument = symbols.id(Symbol(order.symbol)).ok_or(RejectReason::UnknownInstrument)?;
    command.side = match order.side {
        b'B' => Side::Buy,
        b'S' => Side::Sell,
        _ => return Err(RejectReason::Unsupported),
    };
    let capacity_known = matches!(order.capacity, b'A' | b'P' | b'R' | b'O');
    if order.cross_type != b'N' || !capacity_known {
        return Err(RejectReason::Unsupported);
    }
    command.time_in_force = life(order.time_in_force, order.display, order.sweep)?;
    command.flags = flags(appendage)?;
    command.user_ref = UserRefNum(order.user_ref.get());
    command.qty = Qty(u64::from(order.quantity.get()));
    if order.price.get() == PRICE_MARKET {
        command.order_type = OrderType::Market;
    } else {
        command.price = limit_price(order.price.get())?;
    }
    command.cl_ord_id = ClOrdId(order.cl_ord_id);
    Ok(command)
}

fn replace_order(
    replace: &ReplaceOrder,
    appendage: &Appendage<'_>,
) -> Result<Command, RejectReason> {
    if replace.price.get() == PRICE_MARKET {
        return Err(RejectReason::Unsupported);
    }
    let mut command = Command::new(CommandKind::Replace);
    command.time_in_force = life(replace.time_in_force, replace.display, replace.sweep)?;
    command.flags = flags(appendage)?;
    command.orig_user_ref = UserRefNum(replace.orig_user_ref.get());
    command.user_ref = UserRefNum(replace.user_ref.get());
    command.qty = Qty(u64::from(replace.quantity.get()));
    command.price = limit_price(replace.price.get())?;
    command.cl_ord_id = ClOrdId(replace.cl_ord_id);
    Ok(command)
}

fn cancel_order(cancel: &CancelOrder, appendage: &Appendage<'_>) -> Result<Command, RejectReason> {
    flags(appendage)?;
    let mut command = Command::new(CommandKind::Cancel);
    command.user_ref = UserRefNum(cancel.user_ref.get());
    command.qty = Qty(u64::from(cancel.quantity.get()));
    Ok(command)
}

fn life(time_in_force: u8, display: u8, sweep: u8) -> Result<TimeInForce, RejectReason> {
    if display != b'Y' || !matches!(sweep, b'Y' | b'N') {
        return Err(RejectReason::Unsupported);
    }
    codes::time_in_force(time_in_force).ok_or(RejectReason::Unsupported)
}

fn limit_price(price: u64) -> Result<Price, RejectReason> {
    i64::try_from(price).map(Price).map_err(|_| RejectReason::PriceTooHigh)
}

/// Command flags from the optional fields. A field that would change how the order trades must
/// have the value that means "no"; the others (firm, routing, reporting) change nothing here.
fn flags(appendage: &Appendage<'_>) -> Result<u8, RejectReason> {
    let mut flags = 0;
    for element in appendage.iter() {
        let served = match (element.tag, element.value) {
            (tag::POST_ONLY, b"P") => {
                flags |= ORDER_POST_ONLY;
                true
            }
            (tag::POST_ONLY, value) => value == b"N",
            (tag::PRICE_TYPE | tag::DISCRETION_PRICE_TYPE, value) => value == b"L",
            (tag::SIDE, _) => false,
            (
                tag::MIN_QTY
                | tag::MAX_FLOOR
                | tag::PEG_OFFSET
                | tag::DISCRETION_PRICE
                | tag::DISCRETION_PEG_OFFSET
                | tag::RANDOM_RESERVES
                | tag::EXPIRE_TIME
                | tag::USER_REF_IDX,
                value,
            ) => value.iter().all(|&byte| byte == 0),
            _ => true,
        };
        if !served {
            return Err(RejectReason::Unsupported);
        }
    }
    Ok(flags)
}
