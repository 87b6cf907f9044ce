//! Market data for those without the feed, the list of instruments, and the state of trading.

use types::{Price, Qty, Side, Symbol, TradingState};

use super::Symbols;
use crate::encode::Writer;
use crate::tag;
use crate::value;
use crate::version::Version;
use crate::view::Message;

/// Most instruments of one MarketDataRequest.
pub const SYMBOLS_MAX: usize = 256;

/// A MarketDataRequest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarketDataRequest<'a> {
    /// MDReqID(262).
    pub id: &'a [u8],
    /// What is wanted.
    pub subscription: Subscription,
    /// Price levels of each side; 0: all.
    pub depth: u32,
    /// Buy side, sell side, trades.
    pub wanted: [bool; 3],
    /// On what.
    pub symbols: Vec<Symbol>,
}

/// SubscriptionRequestType(263).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subscription {
    /// As it is now.
    Snapshot,
    /// As it is now, and how it changes.
    Updates,
    /// No longer.
    End,
}

/// Why a MarketDataRequest is refused: MDReqRejReason(281).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MarketDataRefusal {
    /// No such instrument.
    UnknownSymbol = b'0',
    /// A subscription has this identifier.
    DuplicateId = b'1',
    /// Another SubscriptionRequestType.
    Subscription = b'4',
    /// MarketDepth is no number.
    Depth = b'5',
    /// Full refreshes only are not sent.
    UpdateType = b'6',
    /// Another kind of entry, or too many instruments.
    EntryType = b'8',
}

impl MarketDataRefusal {
    fn text(self) -> &'static str {
        match self {
            MarketDataRefusal::UnknownSymbol => "Unknown symbol",
            MarketDataRefusal::DuplicateId => "MDReqID in use",
            MarketDataRefusal::Subscription => "Unsupported SubscriptionRequestType",
            MarketDataRefusal::Depth => "Unsupported MarketDepth",
            MarketDataRefusal::UpdateType => "Unsupported MDUpdateType",
            MarketDataRefusal::EntryType => "Unsupported MDEntryType or too many symbols",
        }
    }
}

/// Reads a MarketDataRequest that is valid by its dictionary.
pub fn market_data_request<'a>(
    message: &Message<'a>,
    symbols: &Symbols,
) -> Result<MarketDataRequest<'a>, MarketDataRefusal> {
    let get = |tag: tag::Tag| message.get(tag.number);
    let subscription = match get(tag::SUBSCRIPTION_REQUEST_TYPE) {
        Some(b"0") => Subscription::Snapshot,
        Some(b"1") => Subscription::Updates,
        Some(b"2") => Subscription::End,
        _ => return Err(MarketDataRefusal::Subscription),
    };
    let depth = get(tag::MARKET_DEPTH).and_then(value::uint);
    let depth =
        depth.and_then(|depth| u32::try_from(depth).ok()).ok_or(MarketDataRefusal::Depth)?;
    if get(tag::MD_UPDATE_TYPE).is_some_and(|kind| kind != b"1") {
        return Err(MarketDataRefusal::UpdateType);
    }
    if get(tag::AGGREGATED_BOOK).is_some_and(|aggregated| aggregated != b"Y") {
        return Err(MarketDataRefusal::UpdateType);
    }
    let mut wanted = [false; 3];
    let kinds = message.group(tag::NO_MD_ENTRY_TYPES.number, tag::MD_ENTRY_TYPE.number);
    for kind in kinds {
        let place = match kind.get(tag::MD_ENTRY_TYPE.number) {
            Some(b"0") => 0,
            Some(b"1") => 1,
            Some(b"2") => 2,
            _ => return Err(MarketDataRefusal::EntryType),
        };
        if let Some(wanted) = wanted.get_mut(place) {
            *wanted = true;
        }
    }
    let mut found = Vec::new();
    for instance in message.group(tag::NO_RELATED_SYM.number, tag::SYMBOL.number) {
        let instrument = instance.get(tag::SYMBOL.number).and_then(|name| symbols.find(name));
        let instrument = instrument.ok_or(MarketDataRefusal::UnknownSymbol)?;
        if found.len() >= SYMBOLS_MAX {
            return Err(MarketDataRefusal::EntryType);
        }
        found.push(instrument.symbol);
    }
    let id = get(tag::MD_REQ_ID).unwrap_or(&[]);
    Ok(MarketDataRequest { id, subscription, depth, wanted, symbols: found })
}

/// Writes the body of a MarketDataRequestReject.
pub fn write_refusal(id: &[u8], refusal: MarketDataRefusal, writer: &mut Writer<'_>) {
    writer.foreign(tag::MD_REQ_ID, id);
    writer.char(tag::MD_REQ_REJ_REASON, refusal as u8);
    writer.text(tag::TEXT, refusal.text().as_bytes());
}

/// One price level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Which side.
    pub side: Side,
    /// Its price.
    pub price: Price,
    /// Displayed lots.
    pub qty: Qty,
    /// Displayed orders.
    pub orders: u32,
}

/// How a level changed: MDUpdateAction(279).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Update {
    /// It was not there.
    New = b'0',
    /// It has other lots.
    Change = b'1',
    /// It is gone.
    Delete = b'2',
}

fn entry_type(side: Side) -> u8 {
    b'0' + side as u8
}

/// Writes the body of a MarketDataSnapshotFullRefresh: bids from the best, then offers.
pub fn write_snapshot(id: &[u8], symbol: Symbol, levels: &[Level], writer: &mut Writer<'_>) {
    writer.foreign(tag::MD_REQ_ID, id);
    writer.text(tag::SYMBOL, symbol.as_str().as_bytes());
    writer.uint(tag::NO_MD_ENTRIES, levels.len() as u64);
    let (mut side, mut place) = (Side::Buy, 0);
    for level in levels {
        place = if level.side == side { place + 1 } else { 1 };
        side = level.side;
        writer.char(tag::MD_ENTRY_TYPE, entry_type(level.side));
        writer.price(tag::MD_ENTRY_PX, level.price);
        writer.uint(tag::MD_ENTRY_SIZE, level.qty.0);
        writer.uint(tag::NUMBER_OF_ORDERS, u64::from(level.orders));
        writer.uint(tag::MD_ENTRY_POSITION_NO, place);
    }
}

/// Writes the body of a MarketDataIncrementalRefresh.
pub fn write_updates(
    id: &[u8],
    symbol: Symbol,
    updates: &[(Update, Level)],
    writer: &mut Writer<'_>,
) {
    writer.foreign(tag::MD_REQ_ID, id);
    writer.uint(tag::NO_MD_ENTRIES, updates.len() as u64);
    for (update, level) in updates {
        writer.char(tag::MD_UPDATE_ACTION, *update as u8);
        writer.char(tag::MD_ENTRY_TYPE, entry_type(level.side));
        writer.text(tag::SYMBOL, symbol.as_str().as_bytes());
        writer.price(tag::MD_ENTRY_PX, level.price);
        if *update != Update::Delete {
            writer.uint(tag::MD_ENTRY_SIZE, level.qty.0);
            writer.uint(tag::NUMBER_OF_ORDERS, u64::from(level.orders));
        }
    }
}

/// Writes the body of a SecurityList that answers `message`, a SecurityListRequest.
pub fn write_security_list(
    version: Version,
    message: &Message<'_>,
    symbols: &Symbols,
    writer: &mut Writer<'_>,
) {
    let id = message.get(tag::SECURITY_REQ_ID.number).unwrap_or(&[]);
    writer.foreign(tag::SECURITY_REQ_ID, id);
    let seq = u64::from(message.seq_num().unwrap_or(0));
    writer.id(tag::SECURITY_RESPONSE_ID, b'L', seq, b"");
    let one = message.get(tag::SYMBOL.number).map(|name| symbols.find(name));
    let kind = message.get(tag::SECURITY_LIST_REQUEST_TYPE.number);
    let (result, list) = match (kind, one) {
        (Some(b"4"), None) => (b'0', symbols.all()),
        (Some(b"0"), Some(Some(instrument))) => (b'0', std::slice::from_ref(instrument)),
        (Some(b"0"), Some(None)) => (b'2', &[][..]),
        _ => (b'1', &[][..]),
    };
    writer.char(tag::SECURITY_REQUEST_RESULT, result);
    writer.uint(tag::TOT_NO_RELATED_SYM, list.len() as u64);
    writer.flag(tag::LAST_FRAGMENT, true);
    if !list.is_empty() {
        writer.uint(tag::NO_RELATED_SYM, list.len() as u64);
    }
    for instrument in list {
        writer.text(tag::SYMBOL, instrument.symbol.as_str().as_bytes());
        if version == Version::Fix50Sp2 {
            writer.price(tag::MIN_PRICE_INCREMENT, instrument.tick);
        }
    }
}

/// Writes the body of a TradingSessionStatus: that of one instrument, whose symbol is the
/// TradingSessionID(336). `id`: the request it answers, if any.
pub fn write_trading_status(
    id: Option<&[u8]>,
    symbol: Symbol,
    state: TradingState,
    writer: &mut Writer<'_>,
) {
    if let Some(id) = id {
        writer.foreign(tag::TRAD_SES_REQ_ID, id);
    }
    writer.text(tag::TRADING_SESSION_ID, symbol.as_str().as_bytes());
    let (code, text) = match state {
        TradingState::Halted => (b'1', "Halted"),
        TradingState::Trading => (b'2', "Trading"),
        TradingState::QuotationOnly => (b'4', "Call"),
        TradingState::Paused => (b'4', "Volatility interruption"),
    };
    writer.char(tag::TRAD_SES_STATUS, code);
    writer.text(tag::TEXT, text.as_bytes());
}
