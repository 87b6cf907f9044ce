//! Market events to ITCH 5.0 messages.

use types::limits::PRICE_MAX;
use types::{Instrument, InstrumentId, MarketEvent, Nanos, OrderRef, Price, Qty, TradingState};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};

use super::field::{Printable, Time};
use super::messages::{
    AddOrder, BrokenTrade, CrossTrade, Header, LuldAuctionCollar, NetOrderImbalance, OrderCancel,
    OrderDelete, OrderExecuted, OrderExecutedWithPrice, OrderReplace, StockDirectory,
    StockTradingAction, SystemEvent, Trade,
};
use crate::error::{qty_u32, since_midnight};
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

    /// Appends `event`, which happened at engine time `t_seq`, as exactly one message and returns
    /// its length in bytes. On an error nothing is appended.
    pub fn encode(
        &self,
        event: &MarketEvent,
        t_seq: Nanos,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
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
            MarketEvent::AddOrder { instrument, .. }
            | MarketEvent::OrderCancel { instrument, .. }
            | MarketEvent::OrderDelete { instrument, .. }
            | MarketEvent::OrderReplace { instrument, .. } => {
                self.encode_order(event, header(0, instrument), out)?
            }
            MarketEvent::OrderExecuted { instrument, .. }
            | MarketEvent::OrderExecutedWithPrice { instrument, .. }
            | MarketEvent::Trade { instrument, .. }
            | MarketEvent::CrossTrade { instrument, .. }
            | MarketEvent::BrokenTrade { instrument, .. } => {
                self.encode_trade(event, header(0, instrument), out)?
            }
        })
    }

    /// What changes the book without a trade. The header's kind is filled in here.
    fn encode_order(
        &self,
        event: &MarketEvent,
        header: Header,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        let header = |kind| Header { kind, ..header };
        Ok(match *event {
            MarketEvent::AddOrder { instrument, order_ref, side, qty, price } => {
                let message = AddOrder {
                    header: header(AddOrder::KIND),
                    order_ref: reference(order_ref),
                    side: side.into(),
                    shares: shares(qty)?,
                    stock: self.stock(instrument)?,
                    price: price4(price)?,
                };
                append(&message, out)
            }
            MarketEvent::OrderCancel { order_ref, qty, .. } => {
                let (order_ref, shares) = (reference(order_ref), shares(qty)?);
                append(&OrderCancel { header: header(OrderCancel::KIND), order_ref, shares }, out)
            }
            MarketEvent::OrderDelete { order_ref, .. } => {
                let order_ref = reference(order_ref);
                append(&OrderDelete { header: header(OrderDelete::KIND), order_ref }, out)
            }
            MarketEvent::OrderReplace { old_ref, new_ref, qty, price, .. } => {
                let message = OrderReplace {
                    header: header(OrderReplace::KIND),
                    old_ref: reference(old_ref),
                    new_ref: reference(new_ref),
                    shares: shares(qty)?,
                    price: price4(price)?,
                };
                append(&message, out)
            }
            _ => return Err(EncodeError::MissingCode),
        })
    }

    /// What traded, or no longer counts as traded. The header's kind is filled in here.
    fn encode_trade(
        &self,
        event: &MarketEvent,
        header: Header,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        let header = |kind| Header { kind, ..header };
        Ok(match *event {
            MarketEvent::OrderExecuted { order_ref, qty, match_number, .. } => {
                let message = OrderExecuted {
                    header: header(OrderExecuted::KIND),
                    order_ref: reference(order_ref),
                    shares: shares(qty)?,
                    match_number: U64::new(match_number.0),
                };
                append(&message, out)
            }
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

fn reference(order_ref: OrderRef) -> U64 {
    U64::new(order_ref.0)
}

fn shares(qty: Qty) -> Result<U32, EncodeError> {
    qty_u32(qty).map(U32::new)
}

fn price4(price: Price) -> Result<U32, EncodeError> {
    const _: () = assert!(PRICE_MAX == u32::MAX as i64);
    u32::try_from(price.0).map(U32::new).map_err(|_| EncodeError::Price(price))
}
