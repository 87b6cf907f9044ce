//! The engine's outputs: execution reports to one account, market events to everybody.
//!
//! Each [`ExecutionReport`] becomes one message of the account's private stream and each
//! [`MarketEvent`] one ITCH message; `wire` encodes both.

use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::{
    AccountId, ClOrdId, FeedSeq, InstrumentId, MatchNumber, Nanos, OrderRef, OrderType, Price, Qty,
    Side, TimeInForce, UserRefNum,
};

/// What happened to a request or an order.
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
}

/// Why a request was refused.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum RejectReason {
    /// Not refused.
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
    /// A field has a value this exchange does not support.
    Unsupported = 10,
}

/// Why open quantity was cancelled.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum CancelReason {
    /// Not cancelled.
    None = 0,
    /// The participant asked.
    Requested = 1,
    /// Remainder of an immediate-or-cancel or market order.
    ImmediateOrCancel = 2,
    /// End of the trading day.
    EndOfDay = 3,
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
}

/// One message of an account's private stream, 96 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ExecutionReport {
    /// What happened.
    pub kind: ExecutionKind,
    /// Side of the order.
    pub side: Side,
    /// Limit or market.
    pub order_type: OrderType,
    /// Life of the order.
    pub time_in_force: TimeInForce,
    /// Command flags of the order.
    pub flags: u8,
    /// For rejects.
    pub reject: RejectReason,
    /// For cancels.
    pub cancel_reason: CancelReason,
    /// For executions.
    pub liquidity: Liquidity,
    /// Whose stream.
    pub account: AccountId,
    /// On what.
    pub instrument: InstrumentId,
    /// The request or order.
    pub user_ref: UserRefNum,
    /// For replaces, the order that was replaced.
    pub orig_user_ref: UserRefNum,
    /// Zero.
    pub reserved: [u8; 4],
    /// Lots (see the kind).
    pub qty: Qty,
    /// Open lots after the event.
    pub leaves: Qty,
    /// Limit price (accepted, replaced) or trade price (executed).
    pub price: Price,
    /// The order's public reference; 0 when rejected.
    pub order_ref: OrderRef,
    /// For executions.
    pub match_number: MatchNumber,
    /// The feed position that must be public before this message may reach the participant
    /// (corner 16); 0 when nothing of it prints.
    pub public_after: FeedSeq,
    /// Engine time.
    pub t_seq: Nanos,
    /// Echo of the participant's identifier.
    pub cl_ord_id: ClOrdId,
    /// Zero.
    pub reserved2: [u8; 2],
}

const _: () = assert!(size_of::<ExecutionReport>() == 96);

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
    /// Quotation only.
    QuotationOnly = b'Q',
    /// Trading.
    Trading = b'T',
}

/// One public event: exactly one ITCH 5.0 message, at one feed position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarketEvent {
    /// A step of the day.
    SystemEvent {
        /// Which.
        code: SystemEventCode,
    },
    /// An instrument exists.
    Directory {
        /// Which; symbol and tick are looked up by the encoder.
        instrument: InstrumentId,
    },
    /// An instrument's trading state.
    TradingAction {
        /// Which.
        instrument: InstrumentId,
        /// Its state from now on.
        state: TradingState,
    },
    /// An order rests in the book, last in its price level.
    AddOrder {
        /// On what.
        instrument: InstrumentId,
        /// Its public reference.
        order_ref: OrderRef,
        /// Its side.
        side: Side,
        /// Displayed lots.
        qty: Qty,
        /// Its price.
        price: Price,
    },
    /// A resting order traded at its own price.
    OrderExecuted {
        /// On what.
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
        /// On what.
        instrument: InstrumentId,
        /// The resting order.
        order_ref: OrderRef,
        /// Lots that went away.
        qty: Qty,
    },
    /// A resting order is gone without trading.
    OrderDelete {
        /// On what.
        instrument: InstrumentId,
        /// The order.
        order_ref: OrderRef,
    },
    /// A resting order is replaced and goes last in its (new) price level.
    OrderReplace {
        /// On what.
        instrument: InstrumentId,
        /// The order that goes.
        old_ref: OrderRef,
        /// The order that comes, same side.
        new_ref: OrderRef,
        /// Displayed lots.
        qty: Qty,
        /// Its price.
        price: Price,
    },
}
