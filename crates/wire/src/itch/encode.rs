//! Encodes market events as ITCH 5.0 messages.

use types::limits::PRICE_MAX;
use types::{
    FeedSeq, Instrument, InstrumentId, MarketEvent, MatchNumber, Nanos, OrderRef, Price, Qty,
    TradingState,
};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};

use super::field::{Printable, Side, Time};
use super::messages::{
    AddOrder, BrokenTrade, CrossTrade, Header, LuldAuctionCollar, NetOrderImbalance, OrderCancel,
    OrderDelete, OrderExecuted, OrderExecutedWithPrice, OrderReplace, StockDirectory,
    StockTradingAction, SystemEvent, Trade,
};
use crate::error::{DAY_NS, qty_u32, since_midnight};
use crate::place::{appended, fill};
use crate::{EncodeError, SymbolTable};

/// Encodes the public events, with times that begin anew every midnight; see the module for the choices it makes.
#[derive(Clone, Debug)]
pub struct Encoder {
    symbols: SymbolTable,
    midnight: Nanos,
}

impl Encoder {
    /// An encoder for `instruments`; times count from the last midnight, of which `midnight` is the first.
    pub fn new(instruments: &[Instrument], midnight: Nanos) -> Encoder {
        Encoder { symbols: SymbolTable::new(instruments), midnight }
    }

    /// Appends events that happened at one engine time, one message after another. On an error those
    /// before it are appended.
    pub fn encode_all(
        &self,
        events: &[(FeedSeq, MarketEvent)],
        t_seq: Nanos,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        for (_, event) in events {
            match self.encode_frequent(event, t_seq, out) {
                Some(encoded) => _ = encoded?,
                None => _ = self.encode(event, t_seq, out)?,
            }
        }
        Ok(())
    }

    /// Appends `event`, which happened at engine time `t_seq`, as exactly one message and returns
    /// its length in bytes. On an error nothing is appended.
    pub fn encode(
        &self,
        event: &MarketEvent,
        t_seq: Nanos,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        if let Some(encoded) = self.encode_frequent(event, t_seq, out) {
            return encoded;
        }
        let ns = since_midnight(t_seq, self.midnight)?;
        let time = Time::new(ns).ok_or(EncodeError::Time(t_seq))?;
        let header = |kind, instrument: InstrumentId| Header {
            kind,
            locate: U16::new(instrument.0),
            tracking: U16::new(0),
            time,
        };
        Ok(match *event {
            MarketEvent::SystemEvent { code } => {
                let header = header(SystemEvent::KIND, InstrumentId(0));
                append(&SystemEvent { header, code: code.into() }, out)
            }
            MarketEvent::Directory { instrument } => {
                let header = header(StockDirectory::KIND, instrument);
                append(&directory(header, self.stock(instrument)?), out)
            }
            MarketEvent::TradingAction { instrument, state } => {
                let header = header(StockTradingAction::KIND, instrument);
                append(&trading_action(header, self.stock(instrument)?, state), out)
            }
            MarketEvent::Collar { instrument, reference, upper, lower, extension } => {
                let message = LuldAuctionCollar {
                    header: header(LuldAuctionCollar::KIND, instrument),
                    stock: self.stock(instrument)?,
                    reference_price: price4(reference)?,
                    upper_price: price4(upper)?,
                    lower_price: price4(lower)?,
                    extension: U32::new(extension),
                };
                append(&message, out)
            }
            MarketEvent::Imbalance { instrument, .. } => {
                let header = header(NetOrderImbalance::KIND, instrument);
                append(&imbalance(header, self.stock(instrument)?, event)?, out)
            }
            MarketEvent::OrderExecutedWithPrice { instrument, .. }
            | MarketEvent::Trade { instrument, .. }
            | MarketEvent::CrossTrade { instrument, .. }
            | MarketEvent::BrokenTrade { instrument, .. } => {
                self.encode_trade(event, header(0, instrument), out)?
            }
            // Encoded above.
            MarketEvent::AddOrder { .. }
            | MarketEvent::OrderCancel { .. }
            | MarketEvent::OrderDelete { .. }
            | MarketEvent::OrderReplace { .. }
            | MarketEvent::OrderExecuted { .. } => return Err(EncodeError::MissingCode),
        })
    }

    /// Encodes the most frequent events: orders that are added, changed, deleted, or executed at
    /// their own price. `None` for other events.
    #[inline(always)]
    fn encode_frequent(
        &self,
        event: &MarketEvent,
        t_seq: Nanos,
        out: &mut Vec<u8>,
    ) -> Option<Result<usize, EncodeError>> {
        match *event {
            MarketEvent::AddOrder { instrument, order_ref, side, qty, price } => {
                Some(self.put_add(instrument, order_ref, side, qty, price, t_seq, out))
            }
            MarketEvent::OrderDelete { instrument, order_ref } => {
                Some(self.put_delete(instrument, order_ref, t_seq, out))
            }
            MarketEvent::OrderExecuted { instrument, order_ref, qty, match_number } => {
                Some(self.put_executed(instrument, order_ref, qty, match_number, t_seq, out))
            }
            MarketEvent::OrderReplace { instrument, old_ref, new_ref, qty, price } => {
                Some(self.put_replace(instrument, [old_ref, new_ref], qty, price, t_seq, out))
            }
            MarketEvent::OrderCancel { instrument, order_ref, qty } => {
                Some(self.put_cancel(instrument, order_ref, qty, t_seq, out))
            }
            _ => None,
        }
    }

    /// Nanoseconds since midnight, in the last six bytes.
    #[inline(always)]
    fn time(&self, t_seq: Nanos) -> Result<[u8; 8], EncodeError> {
        const _: () = assert!(DAY_NS <= Time::MAX, "a time of day has six bytes");
        Ok(since_midnight(t_seq, self.midnight)?.to_be_bytes())
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn put_add(
        &self,
        instrument: InstrumentId,
        order_ref: OrderRef,
        side: types::Side,
        qty: Qty,
        price: Price,
        t_seq: Nanos,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        const PREPARED: [u8; size_of::<AddOrder>()] = prepared(AddOrder::KIND);
        let (time, stock) = (self.time(t_seq)?, self.stock(instrument)?);
        let (shares, price) = (qty_u32(qty)?, price_u32(price)?);
        let to = appended(&PREPARED, out);
        fill_header!(to, AddOrder, instrument, time);
        fill!(to, AddOrder.order_ref, order_ref.0.to_be_bytes());
        fill!(to, AddOrder.side, [Side::from(side) as u8]);
        fill!(to, AddOrder.shares, shares.to_be_bytes());
        fill!(to, AddOrder.stock, stock);
        fill!(to, AddOrder.price, price.to_be_bytes());
        Ok(PREPARED.len())
    }

    #[inline(always)]
    fn put_delete(
        &self,
        instrument: InstrumentId,
        order_ref: OrderRef,
        t_seq: Nanos,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        const PREPARED: [u8; size_of::<OrderDelete>()] = prepared(OrderDelete::KIND);
        let time = self.time(t_seq)?;
        let to = appended(&PREPARED, out);
        fill_header!(to, OrderDelete, instrument, time);
        fill!(to, OrderDelete.order_ref, order_ref.0.to_be_bytes());
        Ok(PREPARED.len())
    }

    #[inline(always)]
    fn put_executed(
        &self,
        instrument: InstrumentId,
        order_ref: OrderRef,
        qty: Qty,
        match_number: MatchNumber,
        t_seq: Nanos,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        const PREPARED: [u8; size_of::<OrderExecuted>()] = prepared(OrderExecuted::KIND);
        let (time, shares) = (self.time(t_seq)?, qty_u32(qty)?);
        let to = appended(&PREPARED, out);
        fill_header!(to, OrderExecuted, instrument, time);
        fill!(to, OrderExecuted.order_ref, order_ref.0.to_be_bytes());
        fill!(to, OrderExecuted.shares, shares.to_be_bytes());
        fill!(to, OrderExecuted.match_number, match_number.0.to_be_bytes());
        Ok(PREPARED.len())
    }

    #[inline(always)]
    fn put_replace(
        &self,
        instrument: InstrumentId,
        [old_ref, new_ref]: [OrderRef; 2],
        qty: Qty,
        price: Price,
        t_seq: Nanos,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        const PREPARED: [u8; size_of::<OrderReplace>()] = prepared(OrderReplace::KIND);
        let (time, shares, price) = (self.time(t_seq)?, qty_u32(qty)?, price_u32(price)?);
        let to = appended(&PREPARED, out);
        fill_header!(to, OrderReplace, instrument, time);
        fill!(to, OrderReplace.old_ref, old_ref.0.to_be_bytes());
        fill!(to, OrderReplace.new_ref, new_ref.0.to_be_bytes());
        fill!(to, OrderReplace.shares, shares.to_be_bytes());
        fill!(to, OrderReplace.price, price.to_be_bytes());
        Ok(PREPARED.len())
    }

    #[inline(always)]
    fn put_cancel(
        &self,
        instrument: InstrumentId,
        order_ref: OrderRef,
        qty: Qty,
        t_seq: Nanos,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        const PREPARED: [u8; size_of::<OrderCancel>()] = prepared(OrderCancel::KIND);
        let (time, shares) = (self.time(t_seq)?, qty_u32(qty)?);
        let to = appended(&PREPARED, out);
        fill_header!(to, OrderCancel, instrument, time);
        fill!(to, OrderCancel.order_ref, order_ref.0.to_be_bytes());
        fill!(to, OrderCancel.shares, shares.to_be_bytes());
        Ok(PREPARED.len())
    }

    /// Encodes trades and broken trades. The header's type byte is filled in here.
    fn encode_trade(
        &self,
        event: &MarketEvent,
        header: Header,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        let header = |kind| Header { kind, ..header };
        Ok(match *event {
            MarketEvent::OrderExecutedWithPrice {
                order_ref,
                qty,
                match_number,
                printable,
                price,
                ..
            } => {
                let message = OrderExecutedWithPrice {
                    header: header(OrderExecutedWithPrice::KIND),
                    order_ref: reference(order_ref),
                    shares: shares(qty)?,
                    match_number: U64::new(match_number.0),
                    printable: if printable { Printable::Yes } else { Printable::No },
                    price: price4(price)?,
                };
                append(&message, out)
            }
            MarketEvent::Trade { instrument, side, qty, price, match_number } => {
                let message = Trade {
                    header: header(Trade::KIND),
                    order_ref: U64::new(0),
                    side: side.into(),
                    shares: shares(qty)?,
                    stock: self.stock(instrument)?,
                    price: price4(price)?,
                    match_number: U64::new(match_number.0),
                };
                append(&message, out)
            }
            MarketEvent::CrossTrade { instrument, qty, price, match_number, kind } => {
                let message = CrossTrade {
                    header: header(CrossTrade::KIND),
                    shares: U64::new(qty.0),
                    stock: self.stock(instrument)?,
                    price: price4(price)?,
                    match_number: U64::new(match_number.0),
                    cross_type: kind as u8,
                };
                append(&message, out)
            }
            MarketEvent::BrokenTrade { match_number, .. } => {
                let match_number = U64::new(match_number.0);
                append(&BrokenTrade { header: header(BrokenTrade::KIND), match_number }, out)
            }
            _ => return Err(EncodeError::MissingCode),
        })
    }

    #[inline]
    fn stock(&self, instrument: InstrumentId) -> Result<[u8; 8], EncodeError> {
        let symbol = self.symbols.symbol(instrument);
        symbol.map(|symbol| symbol.0).ok_or(EncodeError::UnknownInstrument(instrument))
    }
}

/// A directory entry with the constants the module documents.
fn directory(header: Header, stock: [u8; 8]) -> StockDirectory {
    StockDirectory {
        header,
        stock,
        market_category: b' ',
        financial_status: b'N',
        round_lot_size: U32::new(1),
        round_lots_only: b'N',
        issue_classification: b'Q',
        issue_sub_type: *b"Z ",
        authenticity: b'P',
        short_sale_threshold: b'N',
        ipo: b'N',
        luld_tier: b' ',
        etp: b'N',
        etp_leverage: U32::new(0),
        inverse: b'N',
    }
}

/// A trading action without a reason.
fn trading_action(header: Header, stock: [u8; 8], state: TradingState) -> StockTradingAction {
    StockTradingAction { header, stock, state: state.into(), reserved: b' ', reason: [b' '; 4] }
}

/// An imbalance with the letter for the near price's deviation worked out.
fn imbalance(
    header: Header,
    stock: [u8; 8],
    event: &MarketEvent,
) -> Result<NetOrderImbalance, EncodeError> {
    let MarketEvent::Imbalance { paired, imbalance, side, far, near, reference, kind, .. } = *event
    else {
        return Err(EncodeError::MissingCode);
    };
    Ok(NetOrderImbalance {
        header,
        paired_shares: U64::new(paired.0),
        imbalance_shares: U64::new(imbalance.0),
        direction: side as u8,
        stock,
        far_price: price4(far)?,
        near_price: price4(near)?,
        reference_price: price4(reference)?,
        cross_type: kind as u8,
        price_variation: price_variation(near, reference),
    })
}

/// How far `near` is from `reference`, by the table of letters of ITCH 5.0 §1.6: whole percents
/// up to 9, then tens of percents; a space when one of the prices is missing.
fn price_variation(near: Price, reference: Price) -> u8 {
    if near.0 <= 0 || reference.0 <= 0 {
        return b' ';
    }
    let percent = i128::from(near.0.abs_diff(reference.0)) * 100 / i128::from(reference.0);
    match percent {
        0 => b'L',
        1..=9 => b'0' + percent as u8,
        10..=19 => b'A',
        20..=29 => b'B',
        _ => b'C',
    }
}

fn append(message: &(impl IntoBytes + Immutable), out: &mut Vec<u8>) -> usize {
    let bytes = message.as_bytes();
    out.extend_from_slice(bytes);
    bytes.len()
}

/// A message with this type byte; every other field is zero and still has to be filled in.
const fn prepared<const N: usize>(kind: u8) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[0] = kind;
    bytes
}

/// Fills in instrument and time; the type byte is already there, and the tracking number stays 0.
macro_rules! fill_header {
    ($to:ident, $of:ident, $instrument:ident, $time:ident) => {
        // The two bytes before the time are the tracking number's: those of the time above are 0, too.
        fill!($to, $of.header.tracking, $time);
        fill!($to, $of.header.locate, $instrument.0.to_be_bytes());
    };
}
use fill_header;

fn reference(order_ref: OrderRef) -> U64 {
    U64::new(order_ref.0)
}

fn shares(qty: Qty) -> Result<U32, EncodeError> {
    qty_u32(qty).map(U32::new)
}

fn price4(price: Price) -> Result<U32, EncodeError> {
    price_u32(price).map(U32::new)
}

#[inline]
fn price_u32(price: Price) -> Result<u32, EncodeError> {
    const _: () = assert!(PRICE_MAX == u32::MAX as i64);
    u32::try_from(price.0).map_err(|_| EncodeError::Price(price))
}
