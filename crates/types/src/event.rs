//! The engine's outputs: execution reports to one account, market events to everybody.
//!
//! Each [`ExecutionReport`] becomes one message of the account's private stream and each
//! [`MarketEvent`] one ITCH message; `wire` encodes both.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::{
    AccountId, ClOrdId, FeedSeq, InstrumentId, MatchNumber, Nanos, OrderRef, OrderType, Price, Qty,
    Side, TimeInForce, UserRefNum,
};

/// Kind of an execution report.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum ExecutionKind {
    /// A new order was taken (it may trade right after).
    Accepted = 1,
    /// A new order or a replace was refused: `reject`.
    Rejected = 2,
    /// Open quantity went away without trading: `qty` lots of it, `cancel_reason` says why.
    Canceled = 3,
    /// `qty` lots traded at `price`.
    Executed = 4,
    /// The order `orig_user_ref` goes on as `user_ref` with `qty` open lots at `price`.
    Replaced = 5,
    /// A cancel came too late, or named no order of this account: `reject`.
    CancelRejected = 6,
    /// The order changed without the participant asking (a peg found another price): `price`.
    Restated = 7,
    /// A stop order became active.
    Triggered = 8,
    /// The trade `match_number` of this order was broken by the exchange: `qty`, `price`.
    TradeBroken = 9,
    /// The trade `match_number` of this order was corrected: `qty` lots at `price` from now on.
    TradeCorrected = 10,
    /// Answer to a mass cancel: `qty` orders were cancelled.
    MassCanceled = 11,
    /// The place that a [`crate::CommandKind::SessionSlot`] asked for: its `qty` and `session_seq`,
    /// in `flags` what was done of it. Nothing happened to any order.
    SessionSlot = 12,
    /// The records of another shard follow here: see [`crate::MergeRecord`]. In the home's stream of an
    /// account only; no client is told of it.
    StreamReference = 13,
}

/// Why a request was refused.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum RejectReason {
    /// The request was not refused.
    None = 0,
    /// No such instrument.
    UnknownInstrument = 1,
    /// Quantity is zero or above the instrument's maximum.
    InvalidQuantity = 2,
    /// Price is zero, negative or not a multiple of the tick.
    InvalidPrice = 3,
    /// Price is above what the instrument (and a 32-bit ITCH price) allows.
    PriceTooHigh = 4,
    /// A post-only order would have traded.
    PostOnlyWouldTrade = 5,
    /// The order meant is unknown, done, or not this account's.
    UnknownOrder = 6,
    /// The market is not open.
    MarketClosed = 7,
    /// A capacity of the exchange is used up (open orders, price levels, log).
    CapacityReached = 8,
    /// The replace leaves nothing open.
    NothingLeft = 9,
    /// A field has a value this exchange does not support, or a combination that has no meaning.
    Unsupported = 10,
    /// This kind of order is not taken in the market's present phase.
    NotInThisPhase = 11,
    /// Trading in the instrument is halted.
    Halted = 12,
    /// The price is outside the instrument's static collar.
    PriceCollar = 13,
    /// The price is further from the market than the account's fat-finger limit.
    FatFinger = 14,
    /// Above the account's largest quantity of one order.
    OrderQuantityLimit = 15,
    /// Above the account's largest value of one order.
    OrderNotionalLimit = 16,
    /// The account has as many open orders as it may.
    OpenOrdersLimit = 17,
    /// The account's position could exceed its limit.
    PositionLimit = 18,
    /// The account's open value could exceed its credit.
    CreditLimit = 19,
    /// The account sends more messages than it may.
    MessageRate = 20,
    /// The account has an open order with this identifier.
    DuplicateClOrdId = 21,
    /// The account, or the exchange, is blocked by a kill switch.
    Killed = 22,
    /// The stop price, trail distance or peg offset is no valid price.
    InvalidStopPrice = 23,
    /// More is to be displayed, or to trade at once, than the order has, or the two don't go with
    /// its type.
    InvalidQuantityTerms = 24,
    /// The expiry lies in the past or is missing.
    InvalidExpiry = 25,
    /// An order with this key is open.
    DuplicateOrder = 26,
    /// The part of a limit that this shard may use is used up, though not the whole limit: more was
    /// asked for, and the same order may pass a moment later under another number.
    ShardAllotment = 27,
}

impl RejectReason {
    /// Every reason but [`RejectReason::None`], in order.
    pub const ALL: [RejectReason; 27] = [
        RejectReason::UnknownInstrument,
        RejectReason::InvalidQuantity,
        RejectReason::InvalidPrice,
        RejectReason::PriceTooHigh,
        RejectReason::PostOnlyWouldTrade,
        RejectReason::UnknownOrder,
        RejectReason::MarketClosed,
        RejectReason::CapacityReached,
        RejectReason::NothingLeft,
        RejectReason::Unsupported,
        RejectReason::NotInThisPhase,
        RejectReason::Halted,
        RejectReason::PriceCollar,
        RejectReason::FatFinger,
        RejectReason::OrderQuantityLimit,
        RejectReason::OrderNotionalLimit,
        RejectReason::OpenOrdersLimit,
        RejectReason::PositionLimit,
        RejectReason::CreditLimit,
        RejectReason::MessageRate,
        RejectReason::DuplicateClOrdId,
        RejectReason::Killed,
        RejectReason::InvalidStopPrice,
        RejectReason::InvalidQuantityTerms,
        RejectReason::InvalidExpiry,
        RejectReason::DuplicateOrder,
        RejectReason::ShardAllotment,
    ];
}

/// Why open quantity was cancelled.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum CancelReason {
    /// The order was not cancelled.
    None = 0,
    /// The participant asked for it.
    Requested = 1,
    /// Remainder of an immediate-or-cancel or market order.
    ImmediateOrCancel = 2,
    /// End of the trading day.
    EndOfDay = 3,
    /// A fill-or-kill order could not trade in full, or a minimum quantity was not there.
    NotEnough = 4,
    /// It would have traded with an order of its own group.
    SelfTrade = 5,
    /// A mass cancel, by the participant or an operator.
    MassCancel = 6,
    /// Its session ended.
    Disconnect = 7,
    /// Its date is past.
    Expired = 8,
    /// It was for an auction that has ended.
    AuctionOver = 9,
    /// A kill switch was thrown.
    Killed = 10,
    /// Trading further would have left the dynamic price collar.
    Collar = 11,
    /// A capacity of the book was used up when it became active or was priced anew.
    Capacity = 12,
    /// Its instrument is no longer traded.
    Delisted = 13,
    /// One of its prices is no multiple of the instrument's new tick.
    TickSize = 14,
}

/// Which side of a trade an execution was.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum Liquidity {
    /// Not an execution.
    None = 0,
    /// Rested in the book.
    Added = 1,
    /// Came in and traded.
    Removed = 2,
    /// Traded in the opening auction.
    OpeningCross = 3,
    /// Traded in the closing auction.
    ClosingCross = 4,
    /// Traded in the auction after a halt or a volatility interruption.
    ResumingCross = 5,
    /// Traded in a batch auction during the day.
    IntradayCross = 6,
}

impl From<CrossKind> for Liquidity {
    fn from(kind: CrossKind) -> Liquidity {
        match kind {
            CrossKind::Opening => Liquidity::OpeningCross,
            CrossKind::Closing => Liquidity::ClosingCross,
            CrossKind::Resuming => Liquidity::ResumingCross,
            CrossKind::Intraday => Liquidity::IntradayCross,
        }
    }
}

/// Terms of an order that only some have; as they were asked for, and zero where they were not.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct OrderTerms {
    /// Lots displayed at a time.
    pub display_qty: u32,
    /// Lots that must trade on entry.
    pub min_qty: u32,
    /// Stop price, distance of a trailing stop or offset of a peg.
    pub stop_price: Price,
    /// End of a good-till-date order.
    pub expire_at: Nanos,
}

impl OrderTerms {
    /// Whether no bit is set.
    #[inline]
    pub fn is_none(&self) -> bool {
        *self == OrderTerms::default()
    }
}

/// One message of an account's private stream, 120 bytes. Everything an answer says is in it, so
/// that any gateway writes the same answer, whoever took the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ExecutionReport {
    /// Kind of the report.
    pub kind: ExecutionKind,
    /// Side of the order.
    pub side: Side,
    /// Type of the order.
    pub order_type: OrderType,
    /// Time in force of the order.
    pub time_in_force: TimeInForce,
    /// Command flags of the order; [`crate::REFUSED_MASS_CANCEL`] or 0 when a cancel is refused.
    pub flags: u8,
    /// Reason of a rejection.
    pub reject: RejectReason,
    /// Reason of a cancellation.
    pub cancel_reason: CancelReason,
    /// Whether an execution added or removed liquidity.
    pub liquidity: Liquidity,
    /// Account whose stream the report is in.
    pub account: AccountId,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Participant's number of the request or order.
    pub user_ref: UserRefNum,
    /// For replaces, the order that was replaced.
    pub orig_user_ref: UserRefNum,
    /// The first report that a request of a numbered session causes carries its
    /// [`crate::Command::session_seq`]; otherwise 0. In a copy, which lies in the stream of another
    /// account than the one it names: its position in that one's own stream.
    pub session_seq: u32,
    /// Quantity, lots; which quantity depends on the kind.
    pub qty: Qty,
    /// Open lots after the event.
    pub leaves: Qty,
    /// Limit price (accepted, replaced; 0: none, also of a peg) or trade price (executed).
    pub price: Price,
    /// The order's public reference; 0 when rejected.
    pub order_ref: OrderRef,
    /// Match number of an execution.
    pub match_number: MatchNumber,
    /// The feed position that must be public before this message may reach the participant
    /// (corner 16); 0 when nothing of it prints.
    pub public_after: FeedSeq,
    /// Engine time of the input that caused it.
    pub t_seq: Nanos,
    /// Echo of the participant's identifier: the order's, but of an answer the request's. A cancel
    /// without one ([`CancelReason::Requested`]) is told of under the order's.
    pub cl_ord_id: ClOrdId,
    /// Reserved; zero.
    pub reserved2: [u8; 2],
    /// The order's, or of a refused request its own; none where the report is about a trade that
    /// is broken or corrected.
    pub terms: OrderTerms,
}

const _: () = assert!(size_of::<ExecutionReport>() == 120);

/// System event codes of ITCH 5.0 §1.1, in the order of a day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SystemEventCode {
    /// Start of messages.
    StartOfMessages = b'O',
    /// Start of system hours.
    StartOfSystemHours = b'S',
    /// Start of market hours.
    StartOfMarketHours = b'Q',
    /// End of market hours.
    EndOfMarketHours = b'M',
    /// End of system hours.
    EndOfSystemHours = b'E',
    /// End of messages.
    EndOfMessages = b'C',
}

/// Trading states of ITCH 5.0 §1.2.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum TradingState {
    /// Halted.
    Halted = b'H',
    /// Paused: a volatility interruption.
    Paused = b'P',
    /// Quotation only: a call phase.
    QuotationOnly = b'Q',
    /// Trading.
    Trading = b'T',
}

/// Which auction a cross was; codes of ITCH 5.0 §1.5.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CrossKind {
    /// Opening auction.
    Opening = b'O',
    /// Closing auction.
    Closing = b'C',
    /// After a halt or a volatility interruption.
    Resuming = b'H',
    /// A batch auction during the day.
    Intraday = b'I',
}

/// Direction of an imbalance; codes of ITCH 5.0 §1.6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ImbalanceSide {
    /// There is more to buy.
    Buy = b'B',
    /// There is more to sell.
    Sell = b'S',
    /// There is no imbalance.
    None = b'N',
    /// There are not enough orders to tell.
    Insufficient = b'O',
}

/// One public event: exactly one ITCH 5.0 message, at one feed position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarketEvent {
    /// A step of the day.
    SystemEvent {
        /// The step of the day that begins.
        code: SystemEventCode,
    },
    /// An instrument is traded.
    Directory {
        /// Which; symbol and tick are looked up by the encoder.
        instrument: InstrumentId,
    },
    /// The trading state of an instrument changes.
    TradingAction {
        /// The instrument whose state changes.
        instrument: InstrumentId,
        /// Its state from now on.
        state: TradingState,
    },
    /// An order rests in the book, last in its price level.
    AddOrder {
        /// The instrument.
        instrument: InstrumentId,
        /// Public reference of the order.
        order_ref: OrderRef,
        /// Side of the order.
        side: Side,
        /// Displayed lots.
        qty: Qty,
        /// Price of the order.
        price: Price,
    },
    /// A resting order traded at its own price.
    OrderExecuted {
        /// The instrument.
        instrument: InstrumentId,
        /// The resting order.
        order_ref: OrderRef,
        /// Lots traded.
        qty: Qty,
        /// The trade.
        match_number: MatchNumber,
    },
    /// A resting order lost quantity and keeps its place.
    OrderCancel {
        /// The instrument.
        instrument: InstrumentId,
        /// The resting order.
        order_ref: OrderRef,
        /// Lots that were cancelled.
        qty: Qty,
    },
    /// A resting order is gone without trading.
    OrderDelete {
        /// The instrument.
        instrument: InstrumentId,
        /// The order.
        order_ref: OrderRef,
    },
    /// A resting order is replaced and goes last in its (new) price level.
    OrderReplace {
        /// The instrument.
        instrument: InstrumentId,
        /// Reference of the order that is replaced.
        old_ref: OrderRef,
        /// The order that comes, same side.
        new_ref: OrderRef,
        /// Displayed lots.
        qty: Qty,
        /// Price of the new order.
        price: Price,
    },
    /// A displayed order traded at another price than its own, as in an auction.
    OrderExecutedWithPrice {
        /// The instrument.
        instrument: InstrumentId,
        /// The displayed order.
        order_ref: OrderRef,
        /// Lots traded.
        qty: Qty,
        /// The trade.
        match_number: MatchNumber,
        /// Whether it counts in time and sales; false when a [`MarketEvent::CrossTrade`] does.
        printable: bool,
        /// The price of the trade.
        price: Price,
    },
    /// A trade of an order that was not displayed.
    Trade {
        /// The instrument.
        instrument: InstrumentId,
        /// Side of the resting order.
        side: Side,
        /// Lots traded.
        qty: Qty,
        /// The price.
        price: Price,
        /// The trade.
        match_number: MatchNumber,
    },
    /// All trades of one uncrossing.
    CrossTrade {
        /// The instrument.
        instrument: InstrumentId,
        /// Lots traded.
        qty: Qty,
        /// The auction price.
        price: Price,
        /// The cross.
        match_number: MatchNumber,
        /// Opening or closing auction.
        kind: CrossKind,
    },
    /// A trade was broken.
    BrokenTrade {
        /// The instrument.
        instrument: InstrumentId,
        /// Match number of the broken trade.
        match_number: MatchNumber,
    },
    /// Net order imbalance of a call phase.
    Imbalance {
        /// The instrument.
        instrument: InstrumentId,
        /// Lots that would trade at the reference price.
        paired: Qty,
        /// Lots that would be left over at the indicative price.
        imbalance: Qty,
        /// Side of the imbalance.
        side: ImbalanceSide,
        /// Price at which orders for this auction alone would clear (here the indicative price).
        far: Price,
        /// Price at which all orders would clear: the indicative price.
        near: Price,
        /// The reference price.
        reference: Price,
        /// Opening or closing auction.
        kind: CrossKind,
    },
    /// The price range outside which nothing trades in continuous trading.
    Collar {
        /// The instrument.
        instrument: InstrumentId,
        /// Reference price in the middle of the collar.
        reference: Price,
        /// Highest price.
        upper: Price,
        /// Lowest price.
        lower: Price,
        /// How often it was widened today.
        extension: u32,
    },
}

impl MarketEvent {
    /// Instrument of the event; `None` if it concerns the whole market.
    pub fn instrument(&self) -> Option<InstrumentId> {
        match *self {
            MarketEvent::SystemEvent { .. } => None,
            MarketEvent::Directory { instrument }
            | MarketEvent::TradingAction { instrument, .. }
            | MarketEvent::AddOrder { instrument, .. }
            | MarketEvent::OrderExecuted { instrument, .. }
            | MarketEvent::OrderExecutedWithPrice { instrument, .. }
            | MarketEvent::OrderCancel { instrument, .. }
            | MarketEvent::OrderDelete { instrument, .. }
            | MarketEvent::OrderReplace { instrument, .. }
            | MarketEvent::Trade { instrument, .. }
            | MarketEvent::CrossTrade { instrument, .. }
            | MarketEvent::BrokenTrade { instrument, .. }
            | MarketEvent::Imbalance { instrument, .. }
            | MarketEvent::Collar { instrument, .. } => Some(instrument),
        }
    }
}
