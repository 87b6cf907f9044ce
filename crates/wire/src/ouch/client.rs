//! Encodes the four requests of a client: enter, replace, cancel and mass cancel.

use types::limits::PRICE_MARKET;
use types::{ClOrdId, Price, Qty, Side, Symbol, TimeInForce, UserRefNum};
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U32, U64};

use super::appendage::{Writer, tag};
use super::codes::{self, cross_type_code, time_in_force_code};
use super::messages::{CancelOrder, EnterOrder, MassCancel, ReplaceOrder};
use super::terms::Terms;
use crate::EncodeError;
use crate::error::qty_u32;

/// A new order, as a client asks for it ([`encode_enter_order`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewOrder {
    /// Number of the order, larger than all before it.
    pub user_ref: UserRefNum,
    /// Whether the order buys or sells.
    pub side: Side,
    /// Quantity of the order, lots (at most 32 bits).
    pub qty: Qty,
    /// Symbol of the instrument to trade.
    pub symbol: Symbol,
    /// Limit price; `None` for a market order and others that have none.
    pub price: Option<Price>,
    /// How long the order lives.
    pub time_in_force: TimeInForce,
    /// Post only: rest or be refused.
    pub post_only: bool,
    /// The client's own identifier, echoed in answers; spaces: none.
    pub cl_ord_id: ClOrdId,
}

/// A replace of an open order, as a client asks for it ([`encode_replace`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplaceRequest {
    /// Number of the order that is replaced.
    pub orig_user_ref: UserRefNum,
    /// Number of the replacement, larger than all before it.
    pub user_ref: UserRefNum,
    /// Lots in total, including what has traded.
    pub qty: Qty,
    /// New limit price; 0 for orders that have none.
    pub price: Price,
    /// How long the replacement lives.
    pub time_in_force: TimeInForce,
    /// Post only: rest or be refused.
    pub post_only: bool,
    /// The client's own identifier, echoed in answers; spaces: none.
    pub cl_ord_id: ClOrdId,
}

/// Appends an Enter Order message; an error (quantity over 32 bits, negative price, or the very
/// price that stands for "market") appends nothing. Capacity is agency, no sweep, visible.
pub fn encode_enter_order(order: &NewOrder, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    encode_enter_order_with(order, &Terms::default(), out)
}

/// Appends an Enter Order message with further terms; errors as in [`encode_enter_order`], and
/// for a stop price that is negative or a peg offset beyond 32 bits.
pub fn encode_enter_order_with(
    order: &NewOrder,
    terms: &Terms,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    terms.check()?;
    let message = EnterOrder {
        kind: EnterOrder::KIND,
        user_ref: U32::new(order.user_ref.0),
        side: codes::Side::from(order.side) as u8,
        quantity: U32::new(qty_u32(order.qty)?),
        symbol: order.symbol.0,
        price: order.price.map_or(Ok(U64::new(PRICE_MARKET)), limit_price)?,
        time_in_force: time_in_force_code(order.time_in_force),
        display: if terms.hidden { b'N' } else { b'Y' },
        capacity: b'A',
        sweep: b'N',
        cross_type: cross_type_code(order.time_in_force),
        cl_ord_id: order.cl_ord_id.0,
    };
    out.extend_from_slice(message.as_bytes());
    terms.write(order.post_only, true, &mut Writer::new(out));
    Ok(())
}

/// Appends a Replace Order message; errors as in [`encode_enter_order`].
pub fn encode_replace(request: &ReplaceRequest, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    encode_replace_with(request, &Terms::default(), out)
}

/// Appends a Replace Order message with further terms; errors as in [`encode_enter_order_with`].
pub fn encode_replace_with(
    request: &ReplaceRequest,
    terms: &Terms,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    terms.check()?;
    let message = ReplaceOrder {
        kind: ReplaceOrder::KIND,
        orig_user_ref: U32::new(request.orig_user_ref.0),
        user_ref: U32::new(request.user_ref.0),
        quantity: U32::new(qty_u32(request.qty)?),
        price: limit_price(request.price)?,
        time_in_force: time_in_force_code(request.time_in_force),
        display: if terms.hidden { b'N' } else { b'Y' },
        sweep: b'N',
        cl_ord_id: request.cl_ord_id.0,
    };
    out.extend_from_slice(message.as_bytes());
    let mut writer = Writer::new(out);
    let cross_type = cross_type_code(request.time_in_force);
    if cross_type != b'N' {
        writer.put(tag::CROSS_TYPE, &[cross_type]);
    }
    terms.write(request.post_only, false, &mut writer);
    Ok(())
}

/// Appends a Mass Cancel message: all orders of the account, of one symbol, of one side.
pub fn encode_mass_cancel(
    user_ref: UserRefNum,
    symbol: Option<Symbol>,
    side: Option<Side>,
    out: &mut Vec<u8>,
) {
    let message = MassCancel {
        kind: MassCancel::KIND,
        user_ref: U32::new(user_ref.0),
        firm: [b' '; 4],
        symbol: symbol.map_or([b' '; 8], |symbol| symbol.0),
    };
    out.extend_from_slice(message.as_bytes());
    if let Some(side) = side {
        Writer::new(out).put(tag::SIDE, &[codes::Side::from(side) as u8]);
    }
}

/// Appends a Cancel Order message: the order shall have `qty` lots in total, including what has
/// traded (0: cancel all that is open). A quantity over 32 bits appends nothing.
pub fn encode_cancel(user_ref: UserRefNum, qty: Qty, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let message = CancelOrder {
        kind: CancelOrder::KIND,
        user_ref: U32::new(user_ref.0),
        quantity: U32::new(qty_u32(qty)?),
    };
    out.extend_from_slice(message.as_bytes());
    Ok(())
}

fn limit_price(price: Price) -> Result<U64, EncodeError> {
    match u64::try_from(price.0) {
        Ok(units) if units != PRICE_MARKET => Ok(U64::new(units)),
        _ => Err(EncodeError::Price(price)),
    }
}
