//! Market data for those without the feed, the list of instruments, and the state of trading.

use types::{InstrumentId, MatchNumber, Nanos, Price, Qty, Side, Symbol, TradingState};

use super::Symbols;
use crate::encode::Writer;
use crate::tag;
use crate::value;
use crate::version::Version;
use crate::view::Message;

/// Most instruments of one MarketDataRequest.
pub const SYMBOLS_MAX: usize = 256;

/// The contents of a MarketDataRequest(V).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarketDataRequest<'a> {
    /// MDReqID(262): the client's name for the request and its subscription.
    pub id: &'a [u8],
    /// SubscriptionRequestType(263): snapshot, updates, or the end of a subscription.
    pub subscription: Subscription,
    /// MarketDepth(264): price levels of each side; 0: all of them.
    pub depth: u32,
    /// MDEntryType(269): whether bids, offers and trades are wanted, in this order.
    pub wanted: [bool; 3],
    /// MDUpdateType(265) 0: every update is a full refresh.
    pub full: bool,
    /// Instruments that the request names, at most [`SYMBOLS_MAX`].
    pub instruments: Vec<InstrumentId>,
}

/// Kind of a subscription: SubscriptionRequestType(263).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subscription {
    /// `0`: one snapshot, without updates.
    Snapshot,
    /// `1`: a snapshot, then updates.
    Updates,
    /// `2`: the end of an earlier subscription.
    End,
}

/// Why a MarketDataRequest is refused: MDReqRejReason(281).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MarketDataRefusal {
    /// `0`: the exchange has no such instrument.
    UnknownSymbol = b'0',
    /// `1`: another subscription of the session has this MDReqID.
    DuplicateId = b'1',
    /// `2`: the request is for more than one session gets at a time.
    TooMuch = b'2',
    /// `3`: this gateway has no market data.
    Unavailable = b'3',
    /// `4`: the SubscriptionRequestType is not supported.
    Subscription = b'4',
    /// `5`: the MarketDepth is not a number.
    Depth = b'5',
    /// `6`: the MDUpdateType is not supported.
    UpdateType = b'6',
    /// `7`: single orders were asked for; only price levels are available.
    Aggregation = b'7',
    /// `8`: the MDEntryType is not supported.
    EntryType = b'8',
    /// No subscription has this MDReqID; FIX has no code for that, and none is sent.
    UnknownId = 0,
    /// NoRelatedSym(146) is 0: the request is for no instrument; told as [`Self::UnknownSymbol`].
    NoSymbols = 1,
    /// NoMDEntryTypes(267) is 0: nothing is wanted of them; told as [`Self::EntryType`].
    NoEntryTypes = 2,
}

impl MarketDataRefusal {
    fn text(self) -> &'static str {
        match self {
            MarketDataRefusal::UnknownSymbol => "Unknown symbol",
            MarketDataRefusal::DuplicateId => "MDReqID in use",
            MarketDataRefusal::TooMuch => "Too much at a time",
            MarketDataRefusal::Unavailable => "No market data at this gateway",
            MarketDataRefusal::Subscription => "Unsupported SubscriptionRequestType",
            MarketDataRefusal::Depth => "Unsupported MarketDepth",
            MarketDataRefusal::UpdateType => "Unsupported MDUpdateType",
            MarketDataRefusal::Aggregation => "Only price levels are available",
            MarketDataRefusal::EntryType => "Unsupported MDEntryType",
            MarketDataRefusal::UnknownId => "Unknown MDReqID",
            MarketDataRefusal::NoSymbols => "NoRelatedSym must be above 0",
            MarketDataRefusal::NoEntryTypes => "NoMDEntryTypes must be above 0",
        }
    }

    /// MDReqRejReason(281); `None`: FIX has no code, and the field is left out.
    fn code(self) -> Option<u8> {
        match self {
            MarketDataRefusal::UnknownId => None,
            MarketDataRefusal::NoSymbols => MarketDataRefusal::UnknownSymbol.code(),
            MarketDataRefusal::NoEntryTypes => MarketDataRefusal::EntryType.code(),
            coded => Some(coded as u8),
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
    let id = get(tag::MD_REQ_ID).unwrap_or(&[]);
    let (wanted, instruments) = ([false; 3], Vec::new());
    let mut request =
        MarketDataRequest { id, subscription, depth: 0, wanted, full: false, instruments };
    if subscription == Subscription::End {
        return Ok(request);
    }
    let depth = get(tag::MARKET_DEPTH).and_then(value::uint);
    request.depth =
        depth.and_then(|depth| u32::try_from(depth).ok()).ok_or(MarketDataRefusal::Depth)?;
    request.full = match get(tag::MD_UPDATE_TYPE) {
        Some(b"0") => true,
        None | Some(b"1") => false,
        Some(_) => return Err(MarketDataRefusal::UpdateType),
    };
    if get(tag::AGGREGATED_BOOK).is_some_and(|aggregated| aggregated != b"Y") {
        return Err(MarketDataRefusal::Aggregation);
    }
    let kinds = message.group(tag::NO_MD_ENTRY_TYPES.number, tag::MD_ENTRY_TYPE.number);
    for kind in kinds {
        let place = match kind.get(tag::MD_ENTRY_TYPE.number) {
            Some(b"0") => 0,
            Some(b"1") => 1,
            Some(b"2") => 2,
            _ => return Err(MarketDataRefusal::EntryType),
        };
        if let Some(wanted) = request.wanted.get_mut(place) {
            *wanted = true;
        }
    }
    if request.wanted == [false; 3] {
        return Err(MarketDataRefusal::NoEntryTypes);
    }
    for instance in message.group(tag::NO_RELATED_SYM.number, tag::SYMBOL.number) {
        let instrument = instance.get(tag::SYMBOL.number).and_then(|name| symbols.find(name));
        let instrument = instrument.ok_or(MarketDataRefusal::UnknownSymbol)?.id;
        if request.instruments.len() >= SYMBOLS_MAX {
            return Err(MarketDataRefusal::TooMuch);
        }
        if !request.instruments.contains(&instrument) {
            request.instruments.push(instrument);
        }
    }
    if request.instruments.is_empty() {
        return Err(MarketDataRefusal::NoSymbols);
    }
    Ok(request)
}

/// Writes the body of a MarketDataRequestReject.
pub fn write_refusal(id: &[u8], refusal: MarketDataRefusal, writer: &mut Writer<'_>) {
    writer.foreign(tag::MD_REQ_ID, id);
    if let Some(code) = refusal.code() {
        writer.char(tag::MD_REQ_REJ_REASON, code);
    }
    writer.text(tag::TEXT, refusal.text().as_bytes());
}

/// One price level of a book, as the displayed orders make it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Side of the book that the level is on.
    pub side: Side,
    /// Price of all orders of the level.
    pub price: Price,
    /// Displayed quantity at the price, lots.
    pub qty: Qty,
    /// Number of displayed orders at the price.
    pub orders: u32,
}

/// How a level changed: MDUpdateAction(279).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Update {
    /// `0`: the level is new; there was none at this price.
    New = b'0',
    /// `1`: the quantity displayed at the price has changed.
    Change = b'1',
    /// `2`: no displayed order is left at the price.
    Delete = b'2',
}

fn entry_type(side: Side) -> u8 {
    b'0' + side as u8
}

/// A trade of the public feed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Print {
    /// Match number of the trade: MDEntryID(278).
    pub match_number: MatchNumber,
    /// Price at which the lots traded.
    pub price: Price,
    /// Quantity that traded, lots.
    pub qty: Qty,
    /// When the exchange published the trade, or that it was broken, ns since the epoch.
    pub at: Nanos,
    /// Side of the order that took; `None` in a cross, where none did.
    pub aggressor: Option<Side>,
    /// Whether the trade was broken; then only its number counts.
    pub broken: bool,
}

/// What the messages to one subscription about one instrument have in common.
#[derive(Clone, Copy, Debug)]
pub struct Refresh<'a> {
    /// FIX version of the session.
    pub version: Version,
    /// MDReqID(262) of the subscription that the message belongs to.
    pub id: &'a [u8],
    /// Symbol of the instrument that the message is about.
    pub symbol: &'a Symbol,
    /// When the exchange last published something on the instrument, ns since the epoch; `None`:
    /// never yet.
    pub at: Option<Nanos>,
    /// RptSeq(83) of the last entry of an incremental refresh, or of the last full one, before.
    pub told: u64,
}

impl Refresh<'_> {
    fn write_time(&self, at: Option<Nanos>, writer: &mut Writer<'_>) {
        if let Some(at) = at {
            writer.date_and_time(tag::MD_ENTRY_DATE, tag::MD_ENTRY_TIME, at);
        }
    }

    /// Writes RptSeq(83), which only FIX 5.0 SP2 has in these messages.
    fn write_number(&self, number: u64, writer: &mut Writer<'_>) {
        if self.version == Version::Fix50Sp2 {
            writer.uint(tag::RPT_SEQ, number);
        }
    }
}

/// Side of the order that took, as Text(58): FIX has AggressorSide(2446) in extension packs alone,
/// which the dictionaries that come with FIX engines may not have.
fn write_aggressor(print: &Print, writer: &mut Writer<'_>) {
    match print.aggressor {
        Some(Side::Buy) => writer.text(tag::TEXT, b"BUY"),
        Some(Side::Sell) => writer.text(tag::TEXT, b"SELL"),
        None => {}
    }
}

/// Writes the body of a MarketDataSnapshotFullRefresh: bids from the best, then offers, then the
/// last trade if there is one.
pub fn write_snapshot(
    refresh: &Refresh<'_>,
    levels: &[Level],
    last: Option<&Print>,
    writer: &mut Writer<'_>,
) {
    writer.foreign(tag::MD_REQ_ID, refresh.id);
    writer.padded(tag::SYMBOL, &refresh.symbol.0);
    writer.uint(tag::NO_MD_ENTRIES, levels.len() as u64 + u64::from(last.is_some()));
    let (mut side, mut place) = (Side::Buy, 0);
    for level in levels {
        place = if level.side == side { place + 1 } else { 1 };
        side = level.side;
        writer.char(tag::MD_ENTRY_TYPE, entry_type(level.side));
        writer.price(tag::MD_ENTRY_PX, level.price);
        writer.uint(tag::MD_ENTRY_SIZE, level.qty.0);
        refresh.write_time(refresh.at, writer);
        writer.uint(tag::NUMBER_OF_ORDERS, u64::from(level.orders));
        writer.uint(tag::MD_ENTRY_POSITION_NO, place);
        refresh.write_number(refresh.told, writer);
    }
    if let Some(print) = last {
        writer.char(tag::MD_ENTRY_TYPE, b'2');
        writer.price(tag::MD_ENTRY_PX, print.price);
        writer.uint(tag::MD_ENTRY_SIZE, print.qty.0);
        refresh.write_time(Some(print.at), writer);
        write_aggressor(print, writer);
        refresh.write_number(refresh.told, writer);
    }
}

/// Writes the body of a MarketDataIncrementalRefresh: trades, then levels.
pub fn write_updates<'a>(
    refresh: &Refresh<'_>,
    prints: impl ExactSizeIterator<Item = &'a Print>,
    updates: &[(Update, Level)],
    writer: &mut Writer<'_>,
) {
    writer.foreign(tag::MD_REQ_ID, refresh.id);
    writer.uint(tag::NO_MD_ENTRIES, (prints.len() + updates.len()) as u64);
    let mut numbers = refresh.told + 1..;
    for (print, number) in prints.zip(&mut numbers) {
        let update = if print.broken { Update::Delete } else { Update::New };
        writer.char(tag::MD_UPDATE_ACTION, update as u8);
        writer.char(tag::MD_ENTRY_TYPE, b'2');
        writer.uint(tag::MD_ENTRY_ID, print.match_number.0);
        writer.padded(tag::SYMBOL, &refresh.symbol.0);
        if !print.broken {
            writer.price(tag::MD_ENTRY_PX, print.price);
            writer.uint(tag::MD_ENTRY_SIZE, print.qty.0);
        }
        refresh.write_time(Some(print.at), writer);
        if !print.broken {
            write_aggressor(print, writer);
        }
        refresh.write_number(number, writer);
    }
    for ((update, level), number) in updates.iter().zip(numbers) {
        writer.char(tag::MD_UPDATE_ACTION, *update as u8);
        writer.char(tag::MD_ENTRY_TYPE, entry_type(level.side));
        writer.padded(tag::SYMBOL, &refresh.symbol.0);
        writer.price(tag::MD_ENTRY_PX, level.price);
        if *update != Update::Delete {
            writer.uint(tag::MD_ENTRY_SIZE, level.qty.0);
        }
        refresh.write_time(refresh.at, writer);
        if *update != Update::Delete {
            writer.uint(tag::NUMBER_OF_ORDERS, u64::from(level.orders));
        }
        refresh.write_number(number, writer);
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
/// TradingSessionID(336), in FIX 5.0 SP2 the Symbol(55) of a day's session. `id`: the request it
/// answers, if any.
pub fn write_trading_status(
    version: Version,
    id: Option<&[u8]>,
    symbol: &Symbol,
    state: TradingState,
    writer: &mut Writer<'_>,
) {
    if let Some(id) = id {
        writer.foreign(tag::TRAD_SES_REQ_ID, id);
    }
    if version == Version::Fix50Sp2 {
        writer.char(tag::TRADING_SESSION_ID, b'1');
        writer.padded(tag::SYMBOL, &symbol.0);
    } else {
        writer.padded(tag::TRADING_SESSION_ID, &symbol.0);
    }
    let code = match state {
        TradingState::Halted => b'1',
        TradingState::Trading => b'2',
        TradingState::QuotationOnly | TradingState::Paused => b'4',
    };
    writer.char(tag::TRAD_SES_STATUS, code);
    writer.text(tag::TEXT, state_text(state));
}

fn state_text(state: TradingState) -> &'static [u8] {
    match state {
        TradingState::Halted => b"Halted",
        TradingState::Trading => b"Trading",
        TradingState::QuotationOnly => b"Call",
        TradingState::Paused => b"Volatility interruption",
    }
}

/// Writes the body of a SecurityStatus. `id`: the request it answers; `state`: `None` before the
/// day has begun, or for an unknown symbol.
pub fn write_security_status(
    version: Version,
    id: &[u8],
    symbol: &[u8],
    state: Option<TradingState>,
    writer: &mut Writer<'_>,
) {
    writer.foreign(tag::SECURITY_STATUS_REQ_ID, id);
    writer.foreign(tag::SYMBOL, symbol);
    let old = version == Version::Fix42;
    let code = match state {
        Some(TradingState::Halted) => 2,
        Some(TradingState::Trading) => 17,
        // FIX 4.2 has a word for the indicative prices of a call alone.
        Some(TradingState::QuotationOnly | TradingState::Paused) if old => 5,
        Some(TradingState::QuotationOnly) => 21,
        Some(TradingState::Paused) => 23,
        None => 19,
    };
    writer.uint(tag::SECURITY_TRADING_STATUS, code);
    if !old {
        writer.text(tag::TEXT, state.map_or(&b"Not traded"[..], state_text));
    }
}
