//! What participants ask for, out of messages that are valid by their dictionary.
//!
//! What needs no state is checked here, what needs some is the engine's to check, so that its
//! answer lies in the log. Quantities are whole lots, prices have at most four decimals.

use types::{
    ClOrdId, InstrumentId, Nanos, ORDER_HIDDEN, ORDER_POST_ONLY, OrderType, Price, Qty, SelfTrade,
    Side, TimeInForce,
};

use super::Symbols;
use crate::tag;
use crate::value;
use crate::view::Message;

/// The terms of an order, of NewOrderSingle and OrderCancelReplaceRequest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The participant's identifier of the request.
    pub cl_ord_id: ClOrdId,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Side of the order.
    pub side: Side,
    /// Type of the order.
    pub order_type: OrderType,
    /// Time in force.
    pub time_in_force: TimeInForce,
    /// Flags of [`types::Command`].
    pub flags: u8,
    /// Total quantity, lots.
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
        /// Terms of the order.
        terms: Terms,
        /// PossResend(97): perhaps sent before under another number.
        resent: bool,
    },
    /// OrderCancelReplaceRequest.
    Replace {
        /// Identifier of the order.
        original: ClOrdId,
        /// New terms.
        terms: Terms,
    },
    /// OrderCancelRequest.
    Cancel {
        /// Identifier of the order.
        original: ClOrdId,
        /// Identifier of the request.
        cl_ord_id: ClOrdId,
        /// The instrument.
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
        /// Side; `None`: both.
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
    /// ExpireTime(126) and ExpireDate(432) are both missing or both there, or there without need.
    pub const EXPIRY: Refusal = Refusal::new(
        5,
        99,
        "Either ExpireTime or ExpireDate goes with TimeInForce 6, only with it",
    );
    /// ExecInst(18) does not fit OrdType(40).
    pub const EXEC_INST: Refusal = Refusal::new(0, 11, "ExecInst does not go with this OrdType");
    /// A code no rule of this exchange knows.
    pub const CODE: Refusal = Refusal::new(0, 11, "Unsupported value");
    /// An order with this identifier is open.
    pub const DUPLICATE: Refusal = Refusal::new(0, 6, "ClOrdID is that of another order");
    /// No open order has the identifier.
    pub const UNKNOWN_ORDER: Refusal =
        Refusal { business: 1, order: 5, cancel: 1, text: "Unknown order" };
    /// The order has ended.
    pub const TOO_LATE: Refusal =
        Refusal { business: 0, order: 5, cancel: 0, text: "Order is done" };
    /// Symbol, side or type are not those of the order.
    pub const MISMATCH: Refusal =
        Refusal::new(0, 11, "Symbol, Side and OrdType must be those of the order");
    /// The session has no such service.
    pub const UNAVAILABLE: Refusal = Refusal::new(4, 99, "Not available on this session");
    /// The session only listens.
    pub const READ_ONLY: Refusal = Refusal::new(4, 99, "A drop-copy session takes no requests");
    /// The session is for market data.
    pub const MARKET_DATA_ONLY: Refusal =
        Refusal::new(4, 99, "A market-data session takes no orders");
    /// No more requests are taken until answers come.
    pub const BUSY: Refusal = Refusal::new(4, 99, "Too many requests unanswered");
    /// More requests than the session may send.
    pub const RATE: Refusal = Refusal::new(0, 3, "Above the request rate of this session");
    /// The log can't take any request at the moment.
    pub const SUSPENDED: Refusal = Refusal::new(4, 99, "The exchange's log stands still");
}

/// The fields of a request: where each is among the message's, by its place here.
struct Raw<'a> {
    message: &'a Message<'a>,
    /// 0, where BeginString is: the field is not there.
    at: [u16; PLACES],
}

const PLACES: usize = 32;
/// Fields by tag in the order of their places, from 1; the two ways to say one thing share theirs.
const FIELDS: [(u32, usize); 19] = [
    (tag::CL_ORD_ID.number, CL_ORD_ID),
    (tag::EXEC_INST.number, EXEC_INST),
    (tag::ORDER_QTY.number, QTY),
    (tag::ORD_TYPE.number, ORDER_TYPE),
    (tag::ORIG_CL_ORD_ID.number, ORIGINAL),
    (tag::PRICE.number, PRICE),
    (tag::SIDE.number, SIDE),
    (tag::SYMBOL.number, SYMBOL),
    (tag::TIME_IN_FORCE.number, LIFE),
    (tag::POSS_RESEND.number, RESENT),
    (tag::STOP_PX.number, STOP),
    (tag::MIN_QTY.number, MIN_QTY),
    (tag::MAX_FLOOR.number, DISPLAY),
    (tag::DISPLAY_QTY.number, DISPLAY),
    (tag::EXPIRE_TIME.number, EXPIRE),
    (tag::EXPIRE_DATE.number, EXPIRE_DATE),
    (tag::PEG_DIFFERENCE.number, OFFSET),
    (tag::MASS_CANCEL_REQUEST_TYPE.number, MASS),
    (tag::SELF_MATCH_PREVENTION_INSTRUCTION.number, SELF_TRADE),
];
const CL_ORD_ID: usize = 1;
const EXEC_INST: usize = 2;
const QTY: usize = 3;
const ORDER_TYPE: usize = 4;
const ORIGINAL: usize = 5;
const PRICE: usize = 6;
const SIDE: usize = 7;
const SYMBOL: usize = 8;
const LIFE: usize = 9;
const RESENT: usize = 10;
const STOP: usize = 11;
const MIN_QTY: usize = 12;
const DISPLAY: usize = 13;
const EXPIRE: usize = 14;
const OFFSET: usize = 15;
const MASS: usize = 16;
const SELF_TRADE: usize = 17;
const EXPIRE_DATE: usize = 18;

/// The place of each tag; 0: of no interest.
static PLACE_OF: [u8; 2_965] = {
    let mut places = [0; 2_965];
    let mut at = 0;
    while at < FIELDS.len() {
        places[FIELDS[at].0 as usize] = FIELDS[at].1 as u8;
        at += 1;
    }
    places
};

fn first(value: &[u8]) -> u8 {
    value.first().copied().unwrap_or(0)
}

impl<'a> Raw<'a> {
    /// Finds the fields; of two alike the last.
    #[inline]
    fn read(message: &'a Message<'a>) -> Raw<'a> {
        let mut at = [0; PLACES];
        for (index, field) in message.fields().enumerate() {
            let place = PLACE_OF.get(field.tag as usize).copied().unwrap_or(0);
            at[usize::from(place) % PLACES] = index as u16;
        }
        at[0] = 0;
        Raw { message, at }
    }

    #[inline]
    fn get(&self, place: usize) -> Option<&'a [u8]> {
        let at = self.at[place % PLACES];
        if at == 0 { None } else { self.message.field(usize::from(at)).map(|field| field.value) }
    }

    /// Value of the field; empty if it is missing.
    #[inline]
    fn text(&self, place: usize) -> &'a [u8] {
        self.get(place).unwrap_or(&[])
    }

    /// The first character of the value, or 0.
    #[inline]
    fn code(&self, place: usize) -> u8 {
        first(self.text(place))
    }

    fn side(&self) -> Result<Side, Refusal> {
        match self.code(SIDE) {
            b'1' => Ok(Side::Buy),
            b'2' => Ok(Side::Sell),
            _ => Err(Refusal::CODE),
        }
    }

    #[inline]
    fn instrument(&self, symbols: &Symbols) -> Result<InstrumentId, Refusal> {
        symbols.find(self.text(SYMBOL)).map(|instrument| instrument.id).ok_or(Refusal::SYMBOL)
    }

    #[inline(always)]
    fn terms(&self, symbols: &Symbols) -> Result<Terms, Refusal> {
        let (order_type, exec_flags) = self.order_type()?;
        let (price, stop_price) = self.prices(order_type)?;
        let qty = self.text(QTY);
        if qty.is_empty() {
            return Err(Refusal::NO_QUANTITY);
        }
        let display = self.get(DISPLAY).map(lots).transpose()?;
        // Displaying nothing is another thing than displaying everything.
        let hidden = if display == Some(0) { ORDER_HIDDEN } else { 0 };
        let min_qty = self.text(MIN_QTY);
        let min_qty = if min_qty.is_empty() { 0 } else { lots(min_qty)? };
        let (time_in_force, expire_at) = self.life()?;
        Ok(Terms {
            cl_ord_id: cl_ord_id(self.text(CL_ORD_ID))?,
            instrument: self.instrument(symbols)?,
            side: self.side()?,
            order_type,
            time_in_force,
            flags: exec_flags | hidden,
            qty: Qty(u64::from(lots(qty)?)),
            price,
            stop_price,
            min_qty,
            display_qty: display.unwrap_or(0),
            expire_at,
            self_trade: match self.code(SELF_TRADE) {
                0 => SelfTrade::Allow,
                b'1' => SelfTrade::CancelNewest,
                b'2' => SelfTrade::CancelOldest,
                b'3' => SelfTrade::CancelBoth,
                _ => return Err(Refusal::CODE),
            },
        })
    }

    /// Order type that OrdType and ExecInst give together.
    #[inline]
    fn order_type(&self) -> Result<(OrderType, u8), Refusal> {
        let exec_inst = self.text(EXEC_INST);
        let plain = match (self.code(ORDER_TYPE), exec_inst) {
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
        match exec_inst {
            b"" => Ok((plain, 0)),
            b"6" => Ok((plain, ORDER_POST_ONLY)),
            _ => Err(Refusal::EXEC_INST),
        }
    }

    /// Price, and stop price or offset; each where it belongs and nowhere else.
    #[inline]
    fn prices(&self, order_type: OrderType) -> Result<(Price, Price), Refusal> {
        let (price, stop, offset) = (self.text(PRICE), self.text(STOP), self.text(OFFSET));
        let read = |text: &[u8]| value::price(text).ok_or(Refusal::PRICE);
        let limit = match order_type {
            OrderType::Limit | OrderType::StopLimit if price.is_empty() => {
                return Err(Refusal::NO_PRICE);
            }
            OrderType::Limit | OrderType::StopLimit => read(price)?,
            // A peg may have a limit.
            OrderType::PegPrimary | OrderType::PegMid if !price.is_empty() => read(price)?,
            _ if !price.is_empty() => return Err(Refusal::PRICE_UNWANTED),
            _ => Price(0),
        };
        let trailing = !offset.is_empty();
        let offset = if trailing { read(offset)? } else { Price(0) };
        let stop = match order_type {
            OrderType::Stop | OrderType::StopLimit if stop.is_empty() => {
                return Err(Refusal::NO_STOP);
            }
            OrderType::Stop | OrderType::StopLimit => read(stop)?,
            OrderType::TrailingStop if !trailing => return Err(Refusal::NO_STOP),
            // A sell's trail lies below the market and is written as a negative offset.
            OrderType::TrailingStop => Price(offset.0.saturating_abs()),
            OrderType::PegPrimary => offset,
            _ if !stop.is_empty() || offset != Price(0) => {
                return Err(Refusal::STOP_UNWANTED);
            }
            _ => Price(0),
        };
        Ok((limit, stop))
    }

    #[inline]
    fn life(&self) -> Result<(TimeInForce, Nanos), Refusal> {
        let life = match self.get(LIFE).map_or(b'0', first) {
            b'0' => TimeInForce::Day,
            b'1' => TimeInForce::GoodTillCancelled,
            b'2' => TimeInForce::AtTheOpen,
            b'3' => TimeInForce::ImmediateOrCancel,
            b'4' => TimeInForce::FillOrKill,
            b'6' => TimeInForce::GoodTillDate,
            b'7' => TimeInForce::AtTheClose,
            _ => return Err(Refusal::CODE),
        };
        let at = match (life, self.text(EXPIRE), self.text(EXPIRE_DATE)) {
            (TimeInForce::GoodTillDate, time, b"") => value::timestamp(time),
            (TimeInForce::GoodTillDate, b"", date) => end_of(date),
            (_, b"", b"") => Some(Nanos(0)),
            _ => None,
        };
        at.map(|at| (life, at)).ok_or(Refusal::EXPIRY)
    }
}

/// The end of a day, UTC.
fn end_of(date: &[u8]) -> Option<Nanos> {
    const DAY_NS: u64 = 86_400 * Nanos::SECOND;
    value::date(date)?.checked_add(1)?.checked_mul(DAY_NS).map(Nanos)
}

fn lots(text: &[u8]) -> Result<u32, Refusal> {
    let lots = value::qty(text).and_then(|qty| u32::try_from(qty.0).ok());
    lots.ok_or(Refusal::QUANTITY)
}

/// An identifier as the exchange keeps it.
pub fn cl_ord_id(text: &[u8]) -> Result<ClOrdId, Refusal> {
    let mut padded = [b' '; 14];
    if text.is_empty() || text.len() > padded.len() {
        return Err(Refusal::IDENTIFIER);
    }
    for (place, byte) in padded.iter_mut().zip(text) {
        if !byte.is_ascii_graphic() {
            return Err(Refusal::IDENTIFIER);
        }
        *place = *byte;
    }
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
        b'D' | b'G' => {
            let replaces = msg_type == b'G';
            let original = replaces.then(|| cl_ord_id(raw.text(ORIGINAL))).transpose()?;
            let terms = raw.terms(symbols)?;
            match original {
                Some(original) => Request::Replace { original, terms },
                None => Request::New { terms, resent: raw.text(RESENT) == b"Y" },
            }
        }
        b'F' => Request::Cancel {
            original: cl_ord_id(raw.text(ORIGINAL))?,
            cl_ord_id: cl_ord_id(raw.text(CL_ORD_ID))?,
            instrument: raw.instrument(symbols)?,
            side: raw.side()?,
        },
        b'H' => Request::Status { cl_ord_id: cl_ord_id(raw.text(CL_ORD_ID))? },
        _ => Request::MassCancel {
            cl_ord_id: cl_ord_id(raw.text(CL_ORD_ID))?,
            instrument: match (raw.code(MASS), raw.text(SYMBOL)) {
                (b'1', _) => Some(raw.instrument(symbols)?),
                (b'7', b"") => None,
                _ => return Err(Refusal::CODE),
            },
            side: if raw.code(SIDE) == 0 { None } else { Some(raw.side()?) },
        },
    }))
}
