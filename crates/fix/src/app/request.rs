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
    /// ClOrdID(11): the participant's identifier of the request.
    pub cl_ord_id: ClOrdId,
    /// Symbol(55): the instrument to trade.
    pub instrument: InstrumentId,
    /// Side(54): whether the order buys or sells.
    pub side: Side,
    /// Order type, from OrdType(40) and ExecInst(18).
    pub order_type: OrderType,
    /// TimeInForce(59): how long the order lives.
    pub time_in_force: TimeInForce,
    /// Flags of the order, as in [`types::Command::flags`].
    pub flags: u8,
    /// OrderQty(38): quantity in total, lots, executions included.
    pub qty: Qty,
    /// Price(44): limit price; 0: none.
    pub price: Price,
    /// StopPx(99), or the distance, 0 or above, that PegOffsetValue(211) stands for; 0: none.
    pub stop_price: Price,
    /// MinQty(110): lots that must trade on entry; 0: none.
    pub min_qty: u32,
    /// Lots displayed at a time; 0: all.
    pub display_qty: u32,
    /// End of a good-till-date order, ns since the epoch; 0: none.
    pub expire_at: Nanos,
    /// What happens instead of a trade with an order of the same self-trade group.
    pub self_trade: SelfTrade,
}

/// A participant's request about orders, read and checked as far as possible without state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// NewOrderSingle(D): a new order.
    New {
        /// Terms of the new order.
        terms: Terms,
        /// PossResend(97): perhaps sent before under another number.
        resent: bool,
    },
    /// OrderCancelReplaceRequest(G): new terms for an open order.
    Replace {
        /// OrigClOrdID(41): identifier of the order to replace.
        original: ClOrdId,
        /// Terms of the order from now on.
        terms: Terms,
    },
    /// OrderCancelRequest(F): cancels all that is open of one order.
    Cancel {
        /// OrigClOrdID(41): identifier of the order to cancel.
        original: ClOrdId,
        /// ClOrdID(11): identifier of the request.
        cl_ord_id: ClOrdId,
        /// Symbol(55) of the request, which has to be that of the order.
        instrument: InstrumentId,
        /// Side(54) of the request, which has to be that of the order.
        side: Side,
    },
    /// OrderMassCancelRequest(q): cancels all orders of the account that match.
    MassCancel {
        /// ClOrdID(11): identifier of the request.
        cl_ord_id: ClOrdId,
        /// Instrument whose orders are cancelled; `None`: those of all instruments.
        instrument: Option<InstrumentId>,
        /// Side whose orders are cancelled; `None`: both sides.
        side: Option<Side>,
    },
    /// OrderStatusRequest(H): asks for the status of one order.
    Status {
        /// ClOrdID(11): identifier of the order.
        cl_ord_id: ClOrdId,
    },
}

/// Why a request is refused before it reaches the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// BusinessRejectReason(380), for a BusinessMessageReject(j).
    pub business: u8,
    /// OrdRejReason(103), for an ExecutionReport(8); 99: none of the other codes.
    pub order: u8,
    /// CxlRejReason(102), for an OrderCancelReject(9); 99: none of the other codes.
    pub cancel: u8,
    /// Text(58): the reason in words.
    pub text: &'static str,
}

impl Refusal {
    const fn new(business: u8, order: u8, text: &'static str) -> Refusal {
        Refusal { business, order, cancel: 99, text }
    }

    /// The message type is not one that participants send, or this door does not serve it.
    pub const UNSUPPORTED_TYPE: Refusal = Refusal::new(3, 11, "Unsupported Message Type");
    /// ClOrdID(11) or OrigClOrdID(41) is too long or has characters it may not have.
    pub const IDENTIFIER: Refusal =
        Refusal::new(0, 99, "ClOrdID must be 1 to 14 printable characters without blanks");
    /// Symbol(55) is not the name of an instrument.
    pub const SYMBOL: Refusal = Refusal::new(2, 1, "Unknown symbol");
    /// Symbol(55) is missing of a mass cancel for one instrument.
    pub const NO_SYMBOL: Refusal =
        Refusal::new(5, 1, "Symbol is required for MassCancelRequestType 1");
    /// Symbol(55) is given of a mass cancel for all instruments.
    pub const SYMBOL_UNWANTED: Refusal =
        Refusal::new(0, 11, "Symbol does not go with MassCancelRequestType 7");
    /// OrderQty(38) is missing, and the message type requires it.
    pub const NO_QUANTITY: Refusal = Refusal::new(5, 13, "OrderQty is required");
    /// A quantity is not a whole number of lots, or it is too large.
    pub const QUANTITY: Refusal = Refusal::new(0, 13, "Quantities are whole lots of 32 bits");
    /// A price has more than four decimals, or is no number.
    pub const PRICE: Refusal = Refusal::new(0, 99, "Prices have at most four decimals");
    /// Price(44) is larger than any price can be.
    pub const PRICE_TOO_HIGH: Refusal = Refusal::new(0, 99, "Price is too high");
    /// Price(44) is 0 or negative.
    pub const PRICE_TOO_LOW: Refusal = Refusal::new(0, 99, "Price must be above 0");
    /// StopPx(99) is larger than any price can be.
    pub const STOP_TOO_HIGH: Refusal = Refusal::new(0, 99, "StopPx is too high");
    /// PegOffsetValue(211) is larger than any price can be, whatever its sign.
    pub const OFFSET_TOO_LARGE: Refusal = Refusal::new(0, 99, "PegOffsetValue is too large");
    /// Price(44) is missing, and OrdType(40) requires it.
    pub const NO_PRICE: Refusal = Refusal::new(5, 99, "Price is required for this OrdType");
    /// Price(44) is given, and OrdType(40) does not allow it.
    pub const PRICE_UNWANTED: Refusal = Refusal::new(0, 11, "Price does not go with this OrdType");
    /// StopPx(99) is missing, and OrdType(40) requires it.
    pub const NO_STOP: Refusal = Refusal::new(5, 99, "StopPx is required for this OrdType");
    /// StopPx(99) is given, and OrdType(40) does not allow it.
    pub const STOP_UNWANTED: Refusal = Refusal::new(0, 11, "StopPx does not go with this OrdType");
    /// PegOffsetValue(211) is missing of a trailing stop.
    pub const NO_OFFSET: Refusal =
        Refusal::new(5, 99, "PegOffsetValue is required for a trailing stop");
    /// PegOffsetValue(211) is given, and OrdType(40) does not allow it.
    pub const OFFSET_UNWANTED: Refusal =
        Refusal::new(0, 11, "PegOffsetValue does not go with this OrdType");
    /// PegOffsetValue(211) is given of a midpoint peg.
    pub const MID_OFFSET: Refusal =
        Refusal::new(0, 11, "PegOffsetValue does not go with a midpoint peg");
    /// PegOffsetValue(211) of a primary peg would place the order on the far side of the best price.
    pub const PEG_OFFSET: Refusal = Refusal::new(
        0,
        99,
        "PegOffsetValue of a primary peg is 0 or below to buy, 0 or above to sell",
    );
    /// PegOffsetValue(211) of a trailing stop is 0 or lies on the wrong side of the market.
    pub const TRAIL_OFFSET: Refusal =
        Refusal::new(0, 99, "PegOffsetValue of a trailing stop is above 0 to buy, below 0 to sell");
    /// ExpireTime(126) and ExpireDate(432) are both missing or both given, or one is given without
    /// need.
    pub const EXPIRY: Refusal = Refusal::new(
        5,
        99,
        "Either ExpireTime or ExpireDate goes with TimeInForce 6, only with it",
    );
    /// ExecInst(18) does not fit OrdType(40).
    pub const EXEC_INST: Refusal = Refusal::new(0, 11, "ExecInst does not go with this OrdType");
    /// A field has a code that this exchange does not support.
    pub const CODE: Refusal = Refusal::new(0, 11, "Unsupported value");
    /// ClOrdID(11) is that of an open order.
    pub const DUPLICATE: Refusal = Refusal::new(0, 6, "ClOrdID is that of another order");
    /// OrigClOrdID(41) is not the identifier of an open order.
    pub const UNKNOWN_ORDER: Refusal =
        Refusal { business: 1, order: 5, cancel: 1, text: "Unknown order" };
    /// The order to cancel or replace has already ended.
    pub const TOO_LATE: Refusal =
        Refusal { business: 0, order: 5, cancel: 0, text: "Order is done" };
    /// A replace of the order has no answer yet; later requests name the ClOrdID(11) of that.
    pub const UNDER_WAY: Refusal =
        Refusal { business: 0, order: 99, cancel: 3, text: "A replace of the order is under way" };
    /// Symbol(55), Side(54) or OrdType(40) differ from those of the order.
    pub const MISMATCH: Refusal =
        Refusal::new(0, 11, "Symbol, Side and OrdType must be those of the order");
    /// The service is not available in this session.
    pub const UNAVAILABLE: Refusal = Refusal::new(4, 99, "Not available on this session");
    /// The session is a drop-copy session, which takes no requests.
    pub const READ_ONLY: Refusal = Refusal::new(4, 99, "A drop-copy session takes no requests");
    /// The session is for market data only and takes no orders.
    pub const MARKET_DATA_ONLY: Refusal =
        Refusal::new(4, 99, "A market-data session takes no orders");
    /// Too many requests are unanswered; no more are taken until answers come.
    pub const BUSY: Refusal = Refusal::new(4, 99, "Too many requests unanswered");
    /// The session sends more requests than its rate limit allows.
    pub const RATE: Refusal = Refusal::new(0, 3, "Above the request rate of this session");
    /// The exchange's log cannot take any request at the moment.
    pub const SUSPENDED: Refusal = Refusal::new(4, 99, "The exchange's log stands still");
}

/// The fields of a request: for each place of [`FIELDS`], which field of the message holds it.
struct Raw<'a> {
    message: &'a Message<'a>,
    /// Index of the field in the message, by place; 0 (where BeginString is): the field is not
    /// there.
    at: [u16; PLACES],
}

const PLACES: usize = 32;
/// Tags of the fields that are read, each with its place from 1; two tags for the same thing share
/// one place.
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

/// Place of each tag below 2,965; 0: the field is not read.
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
    /// Finds the fields of a message; of two with the same tag, the last.
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

    /// Value of the field at a place; empty if the field is missing.
    #[inline]
    fn text(&self, place: usize) -> &'a [u8] {
        self.get(place).unwrap_or(&[])
    }

    /// First byte of the value of the field at a place; 0 if the field is missing.
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

    /// Order type and flags that OrdType(40) and ExecInst(18) give together.
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

    /// Limit price and stop price or offset, each given exactly where the order type has it.
    #[inline]
    fn prices(&self, order_type: OrderType) -> Result<(Price, Price), Refusal> {
        let (price, stop, offset) = (self.text(PRICE), self.text(STOP), self.text(OFFSET));
        let read = |text: &[u8], too_large: Refusal| {
            value::price(text).ok_or_else(|| unread(text, too_large))
        };
        let limited = |text: &[u8]| match read(text, Refusal::PRICE_TOO_HIGH) {
            Ok(Price(..=0)) => Err(Refusal::PRICE_TOO_LOW),
            Err(Refusal::PRICE_TOO_HIGH) if text.starts_with(b"-") => Err(Refusal::PRICE_TOO_LOW),
            read => read,
        };
        let limit = match order_type {
            OrderType::Limit | OrderType::StopLimit if price.is_empty() => {
                return Err(Refusal::NO_PRICE);
            }
            OrderType::Limit | OrderType::StopLimit => limited(price)?,
            // A peg may have a limit.
            OrderType::PegPrimary | OrderType::PegMid if !price.is_empty() => limited(price)?,
            _ if !price.is_empty() => return Err(Refusal::PRICE_UNWANTED),
            _ => Price(0),
        };
        let trailing = !offset.is_empty();
        let offset = match trailing {
            true => read(offset, Refusal::OFFSET_TOO_LARGE)?,
            false => Price(0),
        };
        let stop = match order_type {
            OrderType::Stop | OrderType::StopLimit if stop.is_empty() => {
                return Err(Refusal::NO_STOP);
            }
            OrderType::Stop | OrderType::StopLimit => read(stop, Refusal::STOP_TOO_HIGH)?,
            OrderType::TrailingStop if !trailing => return Err(Refusal::NO_OFFSET),
            OrderType::TrailingStop => match peg_offset(order_type, self.side()?, offset) {
                Price(..=0) => return Err(Refusal::TRAIL_OFFSET),
                distance => distance,
            },
            OrderType::PegPrimary => match peg_offset(order_type, self.side()?, offset) {
                Price(..0) => return Err(Refusal::PEG_OFFSET),
                distance => distance,
            },
            _ if !stop.is_empty() => return Err(Refusal::STOP_UNWANTED),
            OrderType::PegMid if offset != Price(0) => return Err(Refusal::MID_OFFSET),
            _ if offset != Price(0) => return Err(Refusal::OFFSET_UNWANTED),
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

/// Why a text is no price: it has too many decimals, or it is `too_large`.
#[cold]
#[inline(never)]
fn unread(text: &[u8], too_large: Refusal) -> Refusal {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, decimals) = match digits.iter().position(|byte| *byte == b'.') {
        Some(at) => (digits.get(..at).unwrap_or(&[]), digits.get(at + 1..).unwrap_or(&[])),
        None => (digits, &[][..]),
    };
    let fits = decimals.len() <= 4 || decimals.iter().skip(4).all(|byte| *byte == b'0');
    let figures = whole.iter().chain(decimals).all(u8::is_ascii_digit);
    let long = whole.iter().skip_while(|byte| **byte == b'0').count() > 14;
    if figures && fits && long { too_large } else { Refusal::PRICE }
}

/// PegOffsetValue(211) of an order as the engine's distance, and the distance as PegOffsetValue.
/// FIX adds a signed offset to the price that is pegged to. The engine's distance, 0 or above,
/// lies below that price for a primary peg that buys and a trailing stop that sells, above it for
/// the other two.
pub(super) fn peg_offset(order_type: OrderType, side: Side, offset: Price) -> Price {
    let below = (order_type == OrderType::TrailingStop) == (side == Side::Sell);
    if below { Price(offset.0.saturating_neg()) } else { offset }
}

/// The end of the day `YYYYMMDD`: the midnight after it, UTC; at most [`Nanos::NEVER`].
fn end_of(date: &[u8]) -> Option<Nanos> {
    const DAY_NS: u64 = 86_400 * Nanos::SECOND;
    Some(Nanos(value::date(date)?.saturating_add(1).saturating_mul(DAY_NS)))
}

fn lots(text: &[u8]) -> Result<u32, Refusal> {
    let lots = value::qty(text).and_then(|qty| u32::try_from(qty.0).ok());
    lots.ok_or(Refusal::QUANTITY)
}

/// An identifier as the exchange keeps it: 1 to 14 printable bytes, padded.
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

/// Reads a request about orders; `Ok(None)`: the message is of another type.
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
                (b'1', b"") => return Err(Refusal::NO_SYMBOL),
                (b'1', _) => Some(raw.instrument(symbols)?),
                (b'7', b"") => None,
                (b'7', _) => return Err(Refusal::SYMBOL_UNWANTED),
                _ => return Err(Refusal::CODE),
            },
            side: if raw.code(SIDE) == 0 { None } else { Some(raw.side()?) },
        },
    }))
}
