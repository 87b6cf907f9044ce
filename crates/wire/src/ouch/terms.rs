//! The terms of an order that travel in optional fields: reading and writing them.

use types::{
    Nanos, ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, OrderType, Price, RejectReason,
    SelfTrade, Side,
};

use super::appendage::{Appendage, Element, Writer, tag};
use crate::EncodeError;

/// Seconds to live must be less than a day (appendix B).
pub(super) const DAY_S: u32 = 86_400;

/// What a client may ask for beyond the plain fields of an order; the default asks for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// How it is priced. [`OrderType::Limit`] without a price is a market order. The type of an
    /// order can't be replaced: there it only says what [`Terms::stop_price`] is.
    pub order_type: OrderType,
    /// Post only: priced one tick away instead of being refused.
    pub slide: bool,
    /// Whether nothing of the order is displayed.
    pub hidden: bool,
    /// Lots displayed at a time; 0: all.
    pub display_qty: u32,
    /// Lots that must trade on entry; 0: none.
    pub min_qty: u32,
    /// Stop price, distance of a trailing stop, or offset of a peg away from the market.
    pub stop_price: Price,
    /// Seconds to live of a good-till-date order, below 86,400; 0: the end is not given in seconds.
    pub live_s: u32,
    /// End of a good-till-date order, ns since the epoch; 0: the end is not given as a time.
    pub expire_at: Nanos,
    /// Self-trade prevention of the order; [`SelfTrade::Allow`]: the account's own rule.
    pub self_trade: SelfTrade,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            order_type: OrderType::Limit,
            slide: false,
            hidden: false,
            display_qty: 0,
            min_qty: 0,
            stop_price: Price(0),
            live_s: 0,
            expire_at: Nanos(0),
            self_trade: SelfTrade::Allow,
        }
    }
}

impl Terms {
    fn is_peg(&self) -> bool {
        matches!(self.order_type, OrderType::PegPrimary | OrderType::PegMid)
    }

    /// Whether the fields can carry it: stop prices are positive, peg offsets have 32 bits.
    pub(super) fn check(&self) -> Result<(), EncodeError> {
        let fits = if self.is_peg() {
            i32::try_from(self.stop_price.0).is_ok()
        } else {
            self.stop_price.0 >= 0
        };
        if fits { Ok(()) } else { Err(EncodeError::Price(self.stop_price)) }
    }

    /// Appends the terms that differ from the default; `with_type` is false for a replace.
    /// [`Terms::check`] has to come before.
    pub(super) fn write(&self, post_only: bool, with_type: bool, writer: &mut Writer<'_>) {
        let mut put_u32 = |tag, value: u32| {
            if value != 0 {
                writer.put(tag, &value.to_be_bytes());
            }
        };
        put_u32(tag::MIN_QTY, self.min_qty);
        put_u32(tag::MAX_FLOOR, self.display_qty);
        put_u32(tag::EXPIRE_TIME, self.live_s);
        if with_type {
            put_type(self.order_type, writer);
        }
        if self.stop_price.0 != 0 && self.is_peg() {
            writer.put(tag::PEG_OFFSET, &(self.stop_price.0 as i32).to_be_bytes());
        } else if self.stop_price.0 != 0 {
            writer.put(tag::STOP_PRICE, &self.stop_price.0.to_be_bytes());
        }
        if self.expire_at.0 != 0 {
            writer.put(tag::EXPIRE_AT, &self.expire_at.0.to_be_bytes());
        }
        match (self.slide, post_only) {
            (true, _) => _ = writer.put(tag::POST_ONLY, b"S"),
            (false, true) => _ = writer.put(tag::POST_ONLY, b"P"),
            (false, false) => {}
        }
        if let Some(code) = self_trade_code(self.self_trade) {
            writer.put(tag::SELF_TRADE, &[code]);
        }
    }
}

/// Appends the field that names an order type; limit and market have none.
pub(super) fn put_type(order_type: OrderType, writer: &mut Writer<'_>) {
    let (tag, code) = match order_type {
        OrderType::Limit | OrderType::Market => return,
        OrderType::MarketToLimit => (tag::MARKET_TO_LIMIT, b'Y'),
        OrderType::Stop => (tag::STOP_TYPE, b'S'),
        OrderType::StopLimit => (tag::STOP_TYPE, b'L'),
        OrderType::TrailingStop => (tag::STOP_TYPE, b'T'),
        OrderType::PegPrimary => (tag::PRICE_TYPE, b'R'),
        OrderType::PegMid => (tag::PRICE_TYPE, b'M'),
    };
    writer.put(tag, &[code]);
}

/// Code of a self-trade rule; `None` for the rule that is expressed by leaving the field out.
fn self_trade_code(self_trade: SelfTrade) -> Option<u8> {
    match self_trade {
        SelfTrade::Allow => None,
        SelfTrade::CancelNewest => Some(b'N'),
        SelfTrade::CancelOldest => Some(b'O'),
        SelfTrade::CancelBoth => Some(b'B'),
        SelfTrade::Decrement => Some(b'D'),
    }
}

/// Terms that the optional fields of a request ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    /// [`types::Command::flags`] that the fields ask for, without [`ORDER_HIDDEN`].
    pub flags: u8,
    /// Order type that a field names; `None`: limit or market, depending on the price.
    pub order_type: Option<OrderType>,
    pub stop_price: Price,
    pub display_qty: u32,
    pub min_qty: u32,
    pub live_s: u32,
    pub expire_at: Nanos,
    pub self_trade: SelfTrade,
    /// Cross type of a replace: `N`, `O` or `C`.
    pub cross_type: u8,
    pub side: Option<Side>,
}

impl Asked {
    /// Terms of a request without optional fields.
    pub const NOTHING: Asked = Asked {
        flags: 0,
        order_type: None,
        stop_price: Price(0),
        display_qty: 0,
        min_qty: 0,
        live_s: 0,
        expire_at: Nanos(0),
        self_trade: SelfTrade::Allow,
        cross_type: b'N',
        side: None,
    };

    /// Reads the optional fields. One that would change how the order trades and is not served
    /// must have the value that means "no"; the others (firm, routing, reporting) change nothing
    /// here.
    #[inline]
    pub fn read(appendage: &Appendage<'_>) -> Result<Asked, RejectReason> {
        if appendage.is_empty() {
            return Ok(Asked::NOTHING);
        }
        Asked::read_elements(appendage)
    }

    fn read_elements(appendage: &Appendage<'_>) -> Result<Asked, RejectReason> {
        let mut asked = Asked::NOTHING;
        for Element { tag, value } in appendage.iter() {
            asked.element(tag, value)?;
        }
        Ok(asked)
    }

    fn element(&mut self, tag: u8, value: &[u8]) -> Result<(), RejectReason> {
        match (tag, value) {
            (tag::MIN_QTY, value) => self.min_qty = number(value)?,
            (tag::MAX_FLOOR, value) => self.display_qty = number(value)?,
            (tag::EXPIRE_TIME, value) => self.live_s = number(value)?,
            (tag::POST_ONLY, b"P") => self.flags |= ORDER_POST_ONLY,
            (tag::POST_ONLY, b"S") => self.flags |= ORDER_POST_ONLY_SLIDE,
            (tag::PRICE_TYPE, b"R") => self.set_type(OrderType::PegPrimary)?,
            (tag::PRICE_TYPE, b"M") => self.set_type(OrderType::PegMid)?,
            (tag::STOP_TYPE, b"S") => self.set_type(OrderType::Stop)?,
            (tag::STOP_TYPE, b"L") => self.set_type(OrderType::StopLimit)?,
            (tag::STOP_TYPE, b"T") => self.set_type(OrderType::TrailingStop)?,
            (tag::MARKET_TO_LIMIT, b"Y") => self.set_type(OrderType::MarketToLimit)?,
            (tag::PEG_OFFSET, value) => {
                self.set_stop_price(i64::from(number::<u32>(value)?.cast_signed()))?;
            }
            (tag::STOP_PRICE, value) => {
                let price = i64::try_from(number::<u64>(value)?);
                self.set_stop_price(price.map_err(|_| RejectReason::InvalidStopPrice)?)?;
            }
            (tag::EXPIRE_AT, value) => self.expire_at = Nanos(number(value)?),
            (tag::SELF_TRADE, value) => self.self_trade = self_trade(value)?,
            (tag::CROSS_TYPE, &[code @ (b'N' | b'O' | b'C')]) => self.cross_type = code,
            (tag::SIDE, b"B") => self.side = Some(Side::Buy),
            (tag::SIDE, b"S") => self.side = Some(Side::Sell),
            (tag::POST_ONLY | tag::MARKET_TO_LIMIT, b"N") => {}
            (tag::PRICE_TYPE | tag::DISCRETION_PRICE_TYPE, b"L") => {}
            (tag::HANDLE_INST, b" ") => {}
            (
                tag::DISCRETION_PRICE
                | tag::DISCRETION_PEG_OFFSET
                | tag::RANDOM_RESERVES
                | tag::USER_REF_IDX,
                value,
            ) if value.iter().all(|&byte| byte == 0) => {}
            (
                tag::POST_ONLY
                | tag::PRICE_TYPE
                | tag::DISCRETION_PRICE
                | tag::DISCRETION_PRICE_TYPE
                | tag::DISCRETION_PEG_OFFSET
                | tag::RANDOM_RESERVES
                | tag::HANDLE_INST
                | tag::SIDE
                | tag::USER_REF_IDX
                | tag::STOP_TYPE
                | tag::MARKET_TO_LIMIT
                | tag::CROSS_TYPE,
                _,
            ) => return Err(RejectReason::Unsupported),
            _ => {}
        }
        Ok(())
    }

    /// Sets the order type; at most one field may name one.
    fn set_type(&mut self, order_type: OrderType) -> Result<(), RejectReason> {
        match self.order_type.replace(order_type) {
            None => Ok(()),
            Some(_) => Err(RejectReason::Unsupported),
        }
    }

    /// Sets stop price or offset; at most one field may carry one.
    fn set_stop_price(&mut self, price: i64) -> Result<(), RejectReason> {
        if price != 0 && self.stop_price.0 != 0 {
            return Err(RejectReason::Unsupported);
        }
        self.stop_price.0 += price;
        Ok(())
    }
}

fn self_trade(value: &[u8]) -> Result<SelfTrade, RejectReason> {
    match value {
        b"A" => Ok(SelfTrade::Allow),
        b"N" => Ok(SelfTrade::CancelNewest),
        b"O" => Ok(SelfTrade::CancelOldest),
        b"B" => Ok(SelfTrade::CancelBoth),
        b"D" => Ok(SelfTrade::Decrement),
        _ => Err(RejectReason::Unsupported),
    }
}

/// A big-endian number; its size was checked when the appendage was read.
fn number<T: BigEndian>(value: &[u8]) -> Result<T, RejectReason> {
    T::read(value).ok_or(RejectReason::Unsupported)
}

trait BigEndian: Sized {
    fn read(bytes: &[u8]) -> Option<Self>;
}

impl BigEndian for u32 {
    fn read(bytes: &[u8]) -> Option<u32> {
        bytes.try_into().ok().map(u32::from_be_bytes)
    }
}

impl BigEndian for u64 {
    fn read(bytes: &[u8]) -> Option<u64> {
        bytes.try_into().ok().map(u64::from_be_bytes)
    }
}

/// [`types::Command::flags`] that the display field and the optional fields ask for together.
#[inline]
pub(super) fn flags(asked: &Asked, display: u8) -> Result<u8, RejectReason> {
    match display {
        b'Y' => Ok(asked.flags),
        b'N' => Ok(asked.flags | ORDER_HIDDEN),
        _ => Err(RejectReason::Unsupported),
    }
}
