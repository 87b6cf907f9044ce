//! The rows, before they have a database.

use types::{
    AccountId, CancelReason, ClOrdId, Command, ExecutionReport, InstrumentId, Liquidity,
    MatchNumber, Nanos, OrderRef, Price, Qty, RejectReason, Side, UserRefNum,
};

/// Where an order is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderState {
    /// It has open lots.
    Open,
    /// All its lots traded, or what was left of it did.
    Filled,
    /// What was left of it was cancelled.
    Cancelled,
    /// Another one goes on instead of it.
    Replaced,
    /// It was never taken.
    Rejected,
}

impl OrderState {
    /// Its word in the table.
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
    /// Its number.
    pub user_ref: UserRefNum,
    /// The participant's own identifier.
    pub cl_ord_id: ClOrdId,
    /// Side.
    pub side: Side,
    /// What else was asked for.
    pub terms: Terms,
    /// Price, as it is now.
    pub price: Price,
    /// Lots open when it began; of a refused one the lots asked for.
    pub qty: Qty,
    /// Lots traded since; trades broken later count.
    pub filled: u64,
    /// Lots cancelled since.
    pub cancelled: u64,
    /// Lots open now.
    pub leaves: Qty,
    /// Where it is in its life.
    pub state: OrderState,
    /// Why it was refused.
    pub reject: RejectReason,
    /// Why lots were cancelled last.
    pub cancel: CancelReason,
    /// Its public reference when it began.
    pub order_ref: OrderRef,
    /// The gateway that its request came through.
    pub gateway: u16,
    /// When that received it.
    pub t_in: Nanos,
    /// When it began, engine time.
    pub t_seq: Nanos,
    /// When it changed last, engine time.
    pub t_last: Nanos,
    /// Whether the store has it, so that it is changed there and not put in.
    pub(crate) stored: bool,
    /// Whether it has changed since.
    pub(crate) dirty: bool,
}

/// What an order asks for beyond side, price and lots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// How it is priced.
    pub order_type: types::OrderType,
    /// How long it lives.
    pub time_in_force: types::TimeInForce,
    /// As [`Command::flags`].
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
    /// Its number.
    pub match_number: MatchNumber,
    /// Place of the input that made it.
    pub seq: u64,
    /// Engine time.
    pub t_seq: Nanos,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Price.
    pub price: Price,
    /// Lots.
    pub qty: Qty,
    /// Side that came in and traded; `None` in an auction.
    pub aggressor: Option<Side>,
    /// How the first side told traded.
    pub liquidity: Liquidity,
    /// Feed position that prints it.
    pub public_after: u64,
    /// Who bought.
    pub buy: Party,
    /// Who sold.
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
    /// Lots.
    pub qty: Qty,
    /// Lots that stay open.
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
    /// The trade.
    pub match_number: MatchNumber,
    /// Broken, not corrected.
    pub broken: bool,
    /// Price from now on.
    pub price: Price,
    /// Lots from now on; 0 when broken.
    pub qty: Qty,
    /// Who did it, as the log says.
    pub operator: ClOrdId,
    /// Engine time.
    pub t_seq: Nanos,
}

/// A cancel or mass cancel that was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Number of its report.
    pub id: u64,
    /// Place of the request.
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
