//! The rows, before they have a database.

use types::{
    AccountId, CancelReason, ClOrdId, Command, ExecutionReport, InstrumentId, Liquidity,
    MatchNumber, Nanos, OrderRef, Price, Qty, RejectReason, Side, UserRefNum,
};

/// Where an order is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderState {
    /// The order has open lots.
    Open,
    /// The order was filled, or what was left of it was.
    Filled,
    /// The rest of the order was cancelled.
    Cancelled,
    /// The order was replaced by another one.
    Replaced,
    /// The order was rejected.
    Rejected,
}

impl OrderState {
    /// Name of the state in the table.
    pub fn name(self) -> &'static str {
        match self {
            OrderState::Open => "open",
            OrderState::Filled => "filled",
            OrderState::Cancelled => "cancelled",
            OrderState::Replaced => "replaced",
            OrderState::Rejected => "rejected",
        }
    }
}

/// One order: from its acceptance, or its acceptance as another's replacement, to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Number of the report that told of it first, among all reports of the log, from 1.
    pub id: u64,
    /// Place of its request in the log.
    pub seq: u64,
    /// Of the first order of its chain of replacements: its own, if it replaces none.
    pub root: u64,
    /// The order it replaced, or would have; 0: none, or unknown.
    pub replaces: u64,
    /// The account that it belongs to.
    pub account: AccountId,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Number of the order.
    pub user_ref: UserRefNum,
    /// The participant's own identifier.
    pub cl_ord_id: ClOrdId,
    /// Side.
    pub side: Side,
    /// Terms beside side, price and quantity.
    pub terms: Terms,
    /// Price, as it is now.
    pub price: Price,
    /// Lots open when it began; of a refused one the lots asked for.
    pub qty: Qty,
    /// Lots traded since; trades broken later count.
    pub filled: u64,
    /// Quantity cancelled since, lots.
    pub cancelled: u64,
    /// Open quantity, lots.
    pub leaves: Qty,
    /// State.
    pub state: OrderState,
    /// Reason of a rejection.
    pub reject: RejectReason,
    /// Why lots were cancelled last.
    pub cancel: CancelReason,
    /// Public reference when it was entered.
    pub order_ref: OrderRef,
    /// The gateway that its request came through.
    pub gateway: u16,
    /// Time at which the gateway received it.
    pub t_in: Nanos,
    /// When it began, engine time.
    pub t_seq: Nanos,
    /// When it changed last, engine time.
    pub t_last: Nanos,
    /// Number of the venue's day on which it began, from 1 ([`engine::daily`]).
    pub day: u32,
    /// Whether the store has it, so that it is changed there and not put in.
    pub(crate) stored: bool,
    /// Whether it has changed since.
    pub(crate) dirty: bool,
}

/// Terms of an order beside side, price and quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Type of the order.
    pub order_type: types::OrderType,
    /// Time in force.
    pub time_in_force: types::TimeInForce,
    /// Flags, as [`Command::flags`].
    pub flags: u8,
    /// Stop price, trail distance or peg offset; 0: none.
    pub stop_price: Price,
    /// Lots displayed at a time; 0: all.
    pub display_qty: u32,
    /// Lots that must trade on entry; 0: none.
    pub min_qty: u32,
    /// End of a good-till-date order; 0: none.
    pub expire_at: Nanos,
}

impl Terms {
    /// From the request, and from the report where the exchange has decided otherwise.
    pub(crate) fn of(command: &Command, report: &ExecutionReport) -> Terms {
        Terms {
            order_type: report.order_type,
            time_in_force: report.time_in_force,
            flags: report.flags,
            stop_price: command.stop_price,
            display_qty: command.display_qty,
            min_qty: command.min_qty,
            expire_at: command.expire_at,
        }
    }
}

/// One trade between two orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trade {
    /// Match number.
    pub match_number: MatchNumber,
    /// Place of the input that made it.
    pub seq: u64,
    /// Engine time.
    pub t_seq: Nanos,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Price.
    pub price: Price,
    /// Quantity, lots.
    pub qty: Qty,
    /// Side that came in and traded; `None` in an auction.
    pub aggressor: Option<Side>,
    /// How the first side told traded.
    pub liquidity: Liquidity,
    /// Feed position that prints it.
    pub public_after: u64,
    /// Number of the venue's day, from 1 ([`engine::daily`]).
    pub day: u32,
    /// The buyer.
    pub buy: Party,
    /// The seller.
    pub sell: Party,
}

/// One side of a trade.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Party {
    /// The account on this side.
    pub account: AccountId,
    /// [`Order::id`]; 0: the store has no such order.
    pub order: u64,
    /// The order's number.
    pub user_ref: UserRefNum,
    /// The participant's own identifier.
    pub cl_ord_id: ClOrdId,
}

/// Open lots that went away without trading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cancel {
    /// Number of its report.
    pub id: u64,
    /// Place of the input that did it.
    pub seq: u64,
    /// [`Order::id`]; 0: the store has no such order.
    pub order: u64,
    /// The account that it belongs to.
    pub account: AccountId,
    /// The instrument.
    pub instrument: InstrumentId,
    /// The order's number.
    pub user_ref: UserRefNum,
    /// The request's own identifier, if it had one, otherwise the order's.
    pub cl_ord_id: ClOrdId,
    /// Quantity, lots.
    pub qty: Qty,
    /// Quantity that stays open, lots.
    pub leaves: Qty,
    /// Reason of the cancel.
    pub reason: CancelReason,
    /// Engine time.
    pub t_seq: Nanos,
}

/// A trade broken or corrected by an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amendment {
    /// Number of the first report that told of it.
    pub id: u64,
    /// Place of the operator's command.
    pub seq: u64,
    /// Match number of the trade.
    pub match_number: MatchNumber,
    /// Whether it was broken; otherwise it was corrected.
    pub broken: bool,
    /// New price.
    pub price: Price,
    /// Lots from now on; 0 when broken.
    pub qty: Qty,
    /// Operator, as the log says.
    pub operator: ClOrdId,
    /// Engine time.
    pub t_seq: Nanos,
}

/// A cancel or mass cancel that was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Number of its report.
    pub id: u64,
    /// Position of the request in the log.
    pub seq: u64,
    /// The account that it belongs to.
    pub account: AccountId,
    /// On what; 0: not said.
    pub instrument: InstrumentId,
    /// The order's number, or the request's.
    pub user_ref: UserRefNum,
    /// The request's own identifier.
    pub cl_ord_id: ClOrdId,
    /// Whether it was a mass cancel.
    pub mass: bool,
    /// Reason of the refusal.
    pub reason: RejectReason,
    /// Engine time.
    pub t_seq: Nanos,
}
