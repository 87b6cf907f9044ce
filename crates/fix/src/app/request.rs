//! What participants ask for, out of messages that are valid by their dictionary.
//!
//! What needs no state is checked here, what needs some is the engine's to check, so that its
//! answer lies in the log. Quantities are whole lots, prices have at most four decimals.

use types::{
    ClOrdId, InstrumentId, Nanos, ORDER_HIDDEN, ORDER_POST_ONLY, OrderType, Price, Qty, SelfTrade,
    Side, TimeInForce,
};

use super::Symbols;
use crate::value;
use crate::view::Message;

/// The terms of an order, of NewOrderSingle and OrderCancelReplaceRequest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The participant's identifier of the request.
    pub cl_ord_id: ClOrdId,
    /// On what.
    pub instrument: InstrumentId,
    /// Which side.
    pub side: Side,
    /// How it is priced.
    pub order_type: OrderType,
    /// How long it lives.
    pub time_in_force: TimeInForce,
    /// Flags of [`types::Command`].
    pub flags: u8,
    /// Lots in total.
    pub qty: Qty,
    /// Limit price, or 0.
    pub price: Price,
    /// Stop price, distance or offset, or 0.
    pub stop_price: Price,
    /// Lots that must trade on entry, or 0.
    pub min_qty: u32,
    /// Lots displayed at a time, or 0.
    pub display_qty: u32,
    /// End of a good-till-date order, or 0.
    pub expire_at: Nanos,
    /// Self-trade prevention.
    pub self_trade: SelfTrade,
}

/// A request about orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// NewOrderSingle.
    New {
        /// What.
        terms: Terms,
        /// PossResend(97): perhaps sent before under another number.
        resent: bool,
    },
    /// OrderCancelReplaceRequest.
    Replace {
        /// Identifier of the order.
        original: ClOrdId,
        /// What it becomes.
        terms: Terms,
    },
    /// OrderCancelRequest.
    Cancel {
        /// Identifier of the order.
        original: ClOrdId,
        /// Identifier of the request.
        cl_ord_id: ClOrdId,
        /// On what.
        instrument: InstrumentId,
        /// The order's side.
        side: Side,
    },
    /// OrderMassCancelRequest.
    MassCancel {
        /// Identifier of the request.
        cl_ord_id: ClOrdId,
        /// On what; `None`: on everything.
        instrument: Option<InstrumentId>,
        /// Which side; `None`: both.
        side: Option<Side>,
    },
    /// OrderStatusRequest.
    Status {
        /// Identifier of the order.
        cl_ord_id: ClOrdId,
    },
}

/// Why a request is refused before it reaches the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// BusinessRejectReason(380).
    pub business: u8,
    /// OrdRejReason(103); 99: none of the others.
    pub order: u8,
    /// CxlRejReason(102); 99: none of the others.
    pub cancel: u8,
    /// Text(58).
    pub text: &'static str,
}

impl Refusal {
    const fn new(business: u8, order: u8, text: &'static str) -> Refusal {
        Refusal { business, order, cancel: 99, text }
    }

    /// The message type is not one for participants, or not of this door.
    pub const UNSUPPORTED_TYPE: Refusal = Refusal::new(3, 11, "Unsupported Message Type");
    /// ClOrdID(11) or OrigClOrdID(41) is too long or has characters it may not have.
    pub const IDENTIFIER: Refusal =
        Refusal::new(0, 99, "ClOrdID must be 1 to 14 printable characters without blanks");
    /// No such instrument.
    pub const SYMBOL: Refusal = Refusal::new(2, 1, "Unknown symbol");
    /// OrderQty(38) is missing.
    pub const NO_QUANTITY: Refusal = Refusal::new(5, 13, "OrderQty is required");
    /// A quantity is no whole number of lots, or too large.
    pub const QUANTITY: Refusal = Refusal::new(0, 13, "Quantities are whole lots of 32 bits");
    /// A price has more than four decimals, or is too large.
    pub const PRICE: Refusal = Refusal::new(0, 99, "Prices have at most four decimals");
    /// Price(44) is missing.
    pub const NO_PRICE: Refusal = Refusal::new(5, 99, "Price is required for this OrdType");
    /// Price(44) is there and should not be.
    pub const PRICE_UNWANTED: Refusal = Refusal::new(0, 11, "Price does not go with this OrdType");
    /// StopPx(99) or PegOffsetValue(211) is missing.
    pub const NO_STOP: Refusal = Refusal::new(5, 99, "StopPx is required for this OrdType");
    /// StopPx(99) is there and should not be.
    pub const STOP_UNWANTED: Refusal = Refusal::new(0, 11, "StopPx does not go with this OrdType");
    /// ExpireTime(126) is missing, or there without need.
    pub const EXPIRY: Refusal =
        Refusal::new(5, 99, "ExpireTime goes with TimeInForce 6, and only with it");
    /// ExecInst(18) does not fit OrdType(40).
    pub const EXEC_INST: Refusal = Refusal::new(0, 11, "ExecInst does not go with this OrdType");
    /// A code no rule of this exchange knows.
    pub const CODE: Refusal = Refusal::new(0, 11, "Unsupported value");
    /// An order with this identifier is open.
    pub const DUPLICATE: Refusal = Refusal::new(0, 6, "ClOrdID is that of another order");
    /// No open order has the identifier.
    pub const UNKNOWN_ORDER: Refusal =
        Refusal { business: 1, order: 5, cancel: 1, text: "Unknown order" };
    /// The order is done.
    pub const TOO_LATE: Refusal =
        Refusal { business: 0, order: 5, cancel: 0, text: "Order is done" };
    /// Symbol, side or type are not those of the order.
    pub const MISMATCH: Refusal =
        Refusal::new(0, 11, "Symbol, Side and OrdType must be those of the order");
    /// No more requests are taken until answers come.
    pub const BUSY: Refusal = Refusal::new(4, 99, "Too many requests unanswered");
}

/// The fields of a request as they stand.
#[derive(Default)]
struct Raw<'a> {
    cl_ord_id: &'a [u8],
    original: &'a [u8],
    symbol: &'a [u8],
    side: u8,
    order_type: u8,
    life: u8,
    qty: &'a [u8],
    price: &'a [u8],
    stop: &'a [u8],
    offset: &'a [u8],
    min_qty: &'a [u8],
    display: Option<&'a [u8]>,
    exec_inst: &'a [u8],
    expire: &'a [u8],
    self_trade: u8,
    mass: u8,
    resent: bool,
}

fn first(value: &[u8]) -> u8 {
    value.first().copied().unwrap_or(0)
}

impl<'a> Raw<'a> {
    #[inline]
    fn read(message: &Message<'a>) -> Raw<'a> {
        let mut raw = Raw { life: b'0', ..Raw::default() };
        for field in message.fields() {
            let value = field.value;
            match field.tag {
                11 => raw.cl_ord_id = value,
                18 => raw.exec_inst = value,
                38 => raw.qty = value,
                40 => raw.order_type = first(value),
                41 => raw.original = value,
                44 => raw.price = value,
                54 => raw.side = first(value),
                55 => raw.symbol = value,
                59 => raw.life = first(value),
                97 => raw.resent = value == b"Y",
                99 => raw.stop = value,
                110 => raw.min_qty = value,
                111 | 1138 => raw.display = Some(value),
                126 => raw.expire = value,
                211 => raw.offset = value,
                530 => raw.mass = first(value),
                2964 => raw.self_trade = first(value),
                _ => {}
            }
        }
        raw
    }

    fn side(&self) -> Result<Side, Refusal> {
        match self.side {
            b'1' => Ok(Side::Buy),
            b'2' => Ok(Side::Sell),
            _ => Err(Refusal::CODE),
        }
    }

    #[inline]
    fn instrument(&self, symbols: &Symbols) -> Result<InstrumentId, Refusal> {
        symbols.find(self.symbol).map(|instrument| instrument.id).ok_or(Refusal::SYMBOL)
    }

    #[inline]
    fn terms(&self, symbols: &Symbols) -> Result<Terms, Refusal> {
        let (order_type, exec_flags) = self.order_type()?;
        let (price, stop_price) = self.prices(order_type)?;
        if self.qty.is_empty() {
            return Err(Refusal::NO_QUANTITY);
        }
        let display = self.display.map(lots).transpose()?;
        // Displaying nothing is another thing than displaying everything.
        let hidden = if display == Some(0) { ORDER_HIDDEN } else { 0 };
        let min_qty = if self.min_qty.is_empty() { 0 } else { lots(self.min_qty)? };
        let (time_in_force, expire_at) = self.life()?;
        Ok(Terms {
            cl_ord_id: cl_ord_id(self.cl_ord_id)?,
            instrument: self.instrument(symbols)?,
            side: self.side()?,
            order_type,
            time_in_force,
            flags: exec_flags | hidden,
            qty: Qty(u64::from(lots(self.qty)?)),
            price,
            stop_price,
            min_qty,
            display_qty: display.unwrap_or(0),
            expire_at,
            self_trade: match self.self_trade {
                0 => SelfTrade::Allow,
                b'1' => SelfTrade::CancelNewest,
                b'2' => SelfTrade::CancelOldest,
                b'3' => SelfTrade::CancelBoth,
                _ => return Err(Refusal::CODE),
            },
        })
    }

    /// OrdType and ExecInst together.
    #[inline]
    fn order_type(&self) -> Result<(OrderType, u8), Refusal> {
        let plain = match (self.order_type, self.exec_inst) {
            (b'P', b"R") => return Ok((OrderType::PegPrimary, 0)),
            (b'P', b"M") => return Ok((OrderType::PegMid, 0)),
            (b'P', b"a") => return Ok((OrderType::TrailingStop, 0)),
            (b'1', _) => OrderType::Market,
            (b'2', _) => OrderType::Limit,
            (b'3', _) => OrderType::Stop,
            (b'4', _) => OrderType::StopLimit,
            (b'K', _) => OrderType::MarketToLimit,
            _ => return Err(Refusal::EXEC_INST),
        };
        match self.exec_inst {
            b"" => Ok((plain, 0)),
            b"6" => Ok((plain, ORDER_POST_ONLY)),
            _ => Err(Refusal::EXEC_INST),
        }
    }

    /// Price, and stop price or offset; each where it belongs and nowhere else.
    #[inline]
    fn prices(&self, order_type: OrderType) -> Result<(Price, Price), Refusal> {
        let read = |text: &[u8]| value::price(text).ok_or(Refusal::PRICE);
        let limit = match order_type {
            OrderType::Limit | OrderType::StopLimit if self.price.is_empty() => {
                return Err(Refusal::NO_PRICE);
            }
            OrderType::Limit | OrderType::StopLimit => read(self.price)?,
            // A peg may have a limit.
            OrderType::PegPrimary | OrderType::PegMid if !self.price.is_empty() => {
                read(self.price)?
            }
            _ if !self.price.is_empty() => return Err(Refusal::PRICE_UNWANTED),
            _ => Price(0),
        };
        let offset = if self.offset.is_empty() { Price(0) } else { read(self.offset)? };
        let stop = match order_type {
            OrderType::Stop | OrderType::StopLimit if self.stop.is_empty() => {
                return Err(Refusal::NO_STOP);
            }
            OrderType::Stop | OrderType::StopLimit => read(self.stop)?,
            OrderType::TrailingStop if self.offset.is_empty() => return Err(Refusal::NO_STOP),
            // A sell's trail lies below the market and is written as a negative offset.
            OrderType::TrailingStop => Price(offset.0.saturating_abs()),
            OrderType::PegPrimary => offset,
            _ if !self.stop.is_empty() || offset != Price(0) => {
                return Err(Refusal::STOP_UNWANTED);
            }
            _ => Price(0),
        };
        Ok((limit, stop))
    }

    #[inline]
    fn life(&self) -> Result<(TimeInForce, Nanos), Refusal> {
        let life = match self.life {
            b'0' => TimeInForce::Day,
            b'1' => TimeInForce::GoodTillCancelled,
            b'2' => TimeInForce::AtTheOpen,
            b'3' => TimeInForce::ImmediateOrCancel,
            b'4' => TimeInForce::FillOrKill,
            b'6' => TimeInForce::GoodTillDate,
            b'7' => TimeInForce::AtTheClose,
            _ => return Err(Refusal::CODE),
        };
        match (life, self.expire) {
            (TimeInForce::GoodTillDate, text) => {
                let at = value::timestamp(text).ok_or(Refusal::EXPIRY)?;
                Ok((life, at))
            }
            (_, b"") => Ok((life, Nanos(0))),
            _ => Err(Refusal::EXPIRY),
        }
    }
}

fn lots(text: &[u8]) -> Result<u32, Refusal> {
    let lots = value::qty(text).and_then(|qty| u32::try_from(qty.0).ok());
    lots.ok_or(Refusal::QUANTITY)
}

/// An identifier as the exchange keeps it.
pub fn cl_ord_id(text: &[u8]) -> Result<ClOrdId, Refusal> {
    let mut padded = [b' '; 14];
    let place = padded.get_mut(..text.len()).filter(|_| !text.is_empty());
    let place = place.ok_or(Refusal::IDENTIFIER)?;
    if !text.iter().all(u8::is_ascii_graphic) {
        return Err(Refusal::IDENTIFIER);
    }
    place.copy_from_slice(text);
    Ok(ClOrdId(padded))
}

/// Reads a request about orders; `Ok(None)`: the message is none.
#[inline]
pub fn parse(message: &Message<'_>, symbols: &Symbols) -> Result<Option<Request>, Refusal> {
    let msg_type = match message.msg_type() {
        [msg_type] => *msg_type,
        _ => return Ok(None),
    };
    if !matches!(msg_type, b'D' | b'F' | b'G' | b'H' | b'q') {
        return Ok(None);
    }
    let raw = Raw::read(message);
    Ok(Some(match msg_type {
        b'D' => Request::New { terms: raw.terms(symbols)?, resent: raw.resent },
        b'G' => Request::Replace { original: cl_ord_id(raw.original)?, terms: raw.terms(symbols)? },
        b'F' => Request::Cancel {
            original: cl_ord_id(raw.original)?,
            cl_ord_id: cl_ord_id(raw.cl_ord_id)?,
            instrument: raw.instrument(symbols)?,
            side: raw.side()?,
        },
        b'H' => Request::Status { cl_ord_id: cl_ord_id(raw.cl_ord_id)? },
        _ => Request::MassCancel {
            cl_ord_id: cl_ord_id(raw.cl_ord_id)?,
            instrument: match (raw.mass, raw.symbol) {
                (b'1', _) => Some(raw.instrument(symbols)?),
                (b'7', b"") => None,
                _ => return Err(Refusal::CODE),
            },
            side: if raw.side == 0 { None } else { Some(raw.side()?) },
        },
    }))
}
