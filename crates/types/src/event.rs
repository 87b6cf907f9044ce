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
    /// The records of another shard follow here: see [`crate::MergeRecord`]; or, without a quantity, an
    /// instrument is elsewhere from here on: see [`crate::PlaceRecord`]. In the home's stream of an account
    /// only; no client is told of it.
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
    /// The instrument number is 0 or not listed in this shard.
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
    /// The order would have traded with an order of its own self-trade group.
    SelfTrade = 5,
    /// A mass cancel, by the participant or an operator.
    MassCancel = 6,
    /// The session that entered the order ended, with cancel on disconnect in force.
    Disconnect = 7,
    /// The order's `expire_at` has been reached.
    Expired = 8,
    /// The order was for the opening or closing auction only, and that auction has ended.
    AuctionOver = 9,
    /// A kill switch was thrown.
    Killed = 10,
    /// Trading further would have left the dynamic price collar.
    Collar = 11,
    /// A bound of the book was reached when the order became active or was priced anew.
    Capacity = 12,
    /// The instrument is no longer traded.
    Delisted = 13,
    /// A price of the order is no multiple of the instrument's new tick.
    TickSize = 14,
}

/// Which side of a trade an execution was.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum Liquidity {
    /// The report is not about an execution.
    None = 0,
    /// The order rested in the book and was traded against.
    Added = 1,
    /// The order came in and traded against a resting order.
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
    /// Lots displayed at a time; 0: all.
    pub display_qty: u32,
    /// Lots that must trade on entry; 0: none.
    pub min_qty: u32,
    /// Stop price, distance of a trailing stop or offset of a peg.
    pub stop_price: Price,
    /// End of a good-till-date order.
    pub expire_at: Nanos,
}

impl OrderTerms {
    /// Whether all terms are zero.
    #[inline]
    pub fn is_none(&self) -> bool {
        // One branch: all of them nearly always are.
        let OrderTerms { display_qty, min_qty, stop_price, expire_at } = *self;
        u64::from(display_qty | min_qty) | stop_price.0 as u64 | expire_at.0 == 0
    }
}

/// One message of an account's private stream, 120 bytes. Everything an answer says is in it, so
/// that any gateway writes the same answer, whoever took the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ExecutionReport {
    /// What happened; decides what `qty`, `price` and `flags` hold.
    pub kind: ExecutionKind,
    /// Side of the order.
    pub side: Side,
    /// Type of the order.
    pub order_type: OrderType,
    /// Time in force of the order.
    pub time_in_force: TimeInForce,
    /// Command flags of the order; [`crate::REFUSED_MASS_CANCEL`] or 0 when a cancel is refused.
    pub flags: u8,
    /// Why the request was refused; [`RejectReason::None`] when it was not.
    pub reject: RejectReason,
    /// Why open quantity was cancelled; [`CancelReason::None`] in other reports.
    pub cancel_reason: CancelReason,
    /// Whether an execution added or removed liquidity.
    pub liquidity: Liquidity,
    /// Account whose stream the report is in.
    pub account: AccountId,
    /// Instrument of the order; 0: none or all.
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
    /// Padding; zero.
    pub reserved2: [u8; 2],
    /// Terms of the order, or of the refused request; all zero in a report about a trade that was
    /// broken or corrected.
    pub terms: OrderTerms,
}

const _: () = assert!(size_of::<ExecutionReport>() == 120);

/// System event codes of ITCH 5.0 §1.1, in the order of a day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SystemEventCode {
    /// `O`: start of messages, always the first message of the day.
    StartOfMessages = b'O',
    /// `S`: system hours begin; orders are accepted from now on.
    StartOfSystemHours = b'S',
    /// `Q`: market hours begin.
    StartOfMarketHours = b'Q',
    /// `M`: market hours have ended.
    EndOfMarketHours = b'M',
    /// `E`: system hours have ended; no more orders are accepted today.
    EndOfSystemHours = b'E',
    /// `C`: end of messages, always the last message of the day.
    EndOfMessages = b'C',
}

/// Trading states of ITCH 5.0 §1.2.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum TradingState {
    /// `H`: trading is halted.
    Halted = b'H',
    /// `P`: trading is paused by a volatility interruption.
    Paused = b'P',
    /// `Q`: quotation only, that is, a call phase: orders are collected and do not trade.
    QuotationOnly = b'Q',
    /// `T`: continuous trading.
    Trading = b'T',
}

/// Which auction a cross was; codes of ITCH 5.0 §1.5.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CrossKind {
    /// `O`: the opening auction.
    Opening = b'O',
    /// `C`: the closing auction.
    Closing = b'C',
    /// `H`: the auction after a halt or a volatility interruption.
    Resuming = b'H',
    /// `I`: a batch auction during the day.
    Intraday = b'I',
}

/// Direction of an imbalance; codes of ITCH 5.0 §1.6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ImbalanceSide {
    /// `B`: more lots to buy than to sell.
    Buy = b'B',
    /// `S`: more lots to sell than to buy.
    Sell = b'S',
    /// `N`: equally many lots on both sides.
    None = b'N',
    /// `O`: no price at which anything would trade.
    Insufficient = b'O',
}

/// One public event: exactly one ITCH 5.0 message, at one feed position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarketEvent {
    /// A step of the trading day (ITCH `S`).
    SystemEvent {
        /// The step of the day that begins.
        code: SystemEventCode,
    },
    /// An instrument that is traded today, told at the start of the day (ITCH `R`).
    Directory {
        /// Number of the instrument; its symbol and tick are looked up by the encoder.
        instrument: InstrumentId,
    },
    /// The trading state of an instrument changes (ITCH `H`).
    TradingAction {
        /// Instrument whose state changes.
        instrument: InstrumentId,
        /// Its state from now on.
        state: TradingState,
    },
    /// An order rests in the book, last in the queue of its price (ITCH `A`).
    AddOrder {
        /// Instrument of the order.
        instrument: InstrumentId,
        /// Public reference of the order.
        order_ref: OrderRef,
        /// Side that the order rests on.
        side: Side,
        /// Lots that the order displays.
        qty: Qty,
        /// Limit price that the order rests at.
        price: Price,
    },
    /// A resting order traded at its own price (ITCH `E`).
    OrderExecuted {
        /// Instrument of the order.
        instrument: InstrumentId,
        /// Reference of the resting order.
        order_ref: OrderRef,
        /// Quantity that traded, lots.
        qty: Qty,
        /// Match number of the trade.
        match_number: MatchNumber,
    },
    /// A resting order lost quantity without trading and keeps its place (ITCH `X`).
    OrderCancel {
        /// Instrument of the order.
        instrument: InstrumentId,
        /// Reference of the resting order.
        order_ref: OrderRef,
        /// Displayed lots that were cancelled.
        qty: Qty,
    },
    /// A resting order left the book without trading (ITCH `D`).
    OrderDelete {
        /// Instrument of the order.
        instrument: InstrumentId,
        /// Reference of the order that left.
        order_ref: OrderRef,
    },
    /// A resting order is replaced and goes last in the queue of its (new) price (ITCH `U`).
    OrderReplace {
        /// Instrument of both orders.
        instrument: InstrumentId,
        /// Reference of the order that is replaced.
        old_ref: OrderRef,
        /// Reference of the order that takes its place, on the same side.
        new_ref: OrderRef,
        /// Lots that the new order displays.
        qty: Qty,
        /// Limit price of the new order.
        price: Price,
    },
    /// A displayed order traded at another price than its own, as in an auction (ITCH `C`).
    OrderExecutedWithPrice {
        /// Instrument of the order.
        instrument: InstrumentId,
        /// Reference of the displayed order.
        order_ref: OrderRef,
        /// Displayed quantity that traded, lots.
        qty: Qty,
        /// Match number of the trade.
        match_number: MatchNumber,
        /// Whether it counts in time and sales; false when a [`MarketEvent::CrossTrade`] does.
        printable: bool,
        /// Price at which the lots traded.
        price: Price,
    },
    /// A trade of a resting order that was not displayed (ITCH `P`).
    Trade {
        /// Instrument that traded.
        instrument: InstrumentId,
        /// Side of the resting order.
        side: Side,
        /// Lots that traded.
        qty: Qty,
        /// Price at which the lots traded.
        price: Price,
        /// Match number of the trade.
        match_number: MatchNumber,
    },
    /// All trades of one uncrossing in one sum (ITCH `Q`).
    CrossTrade {
        /// Instrument that was uncrossed.
        instrument: InstrumentId,
        /// Lots that traded in the uncrossing, each trade counted once.
        qty: Qty,
        /// Auction price, the same for all its trades.
        price: Price,
        /// Match number of the cross.
        match_number: MatchNumber,
        /// Auction that was uncrossed: opening, closing, resuming or batch.
        kind: CrossKind,
    },
    /// The exchange broke a trade that had been published (ITCH `B`).
    BrokenTrade {
        /// Instrument that had traded.
        instrument: InstrumentId,
        /// Match number of the broken trade.
        match_number: MatchNumber,
    },
    /// Net order imbalance of a call phase (ITCH `I`).
    Imbalance {
        /// Instrument that is in a call phase.
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
        /// Reference price of the instrument.
        reference: Price,
        /// Auction that the call leads to.
        kind: CrossKind,
    },
    /// Price range outside which nothing trades in continuous trading (ITCH `J`).
    Collar {
        /// Instrument that the collar applies to.
        instrument: InstrumentId,
        /// Reference price in the middle of the collar.
        reference: Price,
        /// Highest price at which orders may trade.
        upper: Price,
        /// Lowest price at which orders may trade.
        lower: Price,
        /// How often the collar was widened today.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_term_alone_is_a_term() {
        let none = OrderTerms::default();
        assert!(none.is_none());
        for some in [
            OrderTerms { display_qty: 1 << 31, ..none },
            OrderTerms { min_qty: 1, ..none },
            OrderTerms { stop_price: Price(i64::MIN), ..none },
            OrderTerms { expire_at: Nanos(1 << 63), ..none },
        ] {
            assert!(!some.is_none(), "{some:?}");
        }
    }
}
