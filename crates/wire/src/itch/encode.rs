//! Market events to ITCH 5.0 messages.

use types::limits::PRICE_MAX;
use types::{Instrument, InstrumentId, MarketEvent, Nanos, OrderRef, Price, Qty, TradingState};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};

use super::field::Time;
use super::messages::{
    AddOrder, Header, OrderCancel, OrderDelete, OrderExecuted, OrderReplace, StockDirectory,
    StockTradingAction, SystemEvent,
};
use crate::error::{qty_u32, since_midnight};
use crate::{EncodeError, SymbolTable};

/// Encodes the public events of one trading day; see the module for the choices it makes.
#[derive(Clone, Debug)]
pub struct Encoder {
    symbols: SymbolTable,
    midnight: Nanos,
}

impl Encoder {
    /// An encoder for `instruments`; times count from `midnight`.
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
        let ns = since_midnight(t_seq, self.midnight, Time::MAX)?;
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
            MarketEvent::AddOrder { instrument, order_ref, side, qty, price } => {
                let message = AddOrder {
                    header: header(AddOrder::KIND, instrument),
                    order_ref: reference(order_ref),
                    side: side.into(),
                    shares: shares(qty)?,
                    stock: self.stock(instrument)?,
                    price: price4(price)?,
                };
                append(&message, out)
            }
            MarketEvent::OrderExecuted { instrument, order_ref, qty, match_number } => {
                let message = OrderExecuted {
                    header: header(OrderExecuted::KIND, instrument),
                    order_ref: reference(order_ref),
                    shares: shares(qty)?,
                    match_number: U64::new(match_number.0),
                };
                append(&message, out)
            }
            MarketEvent::OrderCancel { instrument, order_ref, qty } => {
                let header = header(OrderCancel::KIND, instrument);
                let (order_ref, shares) = (reference(order_ref), shares(qty)?);
                append(&OrderCancel { header, order_ref, shares }, out)
            }
            MarketEvent::OrderDelete { instrument, order_ref } => {
                let header = header(OrderDelete::KIND, instrument);
                append(&OrderDelete { header, order_ref: reference(order_ref) }, out)
            }
            MarketEvent::OrderReplace { instrument, old_ref, new_ref, qty, price } => {
                let message = OrderReplace {
                    header: header(OrderReplace::KIND, instrument),
                    old_ref: reference(old_ref),
                    new_ref: reference(new_ref),
                    shares: shares(qty)?,
                    price: price4(price)?,
                };
                append(&message, out)
            }
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
