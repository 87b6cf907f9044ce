//! The rows of the tables, independent of a database.

use types::{
    AccountId, CancelReason, ClOrdId, Command, ExecutionReport, InstrumentId, Liquidity,
    MatchNumber, Nanos, OrderRef, Price, Qty, RejectReason, Side, UserRefNum,
};

/// State of an order, the column `state` of orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderState {
    /// The order has open lots.
    Open,
    /// All lots that were open have traded.
    Filled,
    /// The rest of the order was cancelled.
    Cancelled,
    /// The order was replaced by another one.
    Replaced,
    /// The order was rejected.
    Rejected,
    /// Its instrument has gone to another shard, and the order with it.
    Moved,
}

impl OrderState {
    /// The word for the state in the table.
    pub fn name(self) -> &'static str {
        match self {
            OrderState::Open => "open",
            OrderState::Filled => "filled",
            OrderState::Cancelled => "cancelled",
            OrderState::Replaced => "replaced",
            OrderState::Rejected => "rejected",
            OrderState::Moved => "moved",
        }
    }
}

/// One order, from its acceptance (or from its acceptance as a replacement) to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Number of the report that first told of the order, among all reports of the log, from 1.
    pub id: u64,
    /// Position in the log of the request that made the order.
    pub seq: u64,
    /// Id of the first order of the chain of replacements; the order's own if it replaces none.
    pub root: u64,
    /// Id of the order that this one replaced or was to replace; 0: none, or unknown.
    pub replaces: u64,
    /// The account that it belongs to.
    pub account: AccountId,
    /// Instrument that the order is for.
    pub instrument: InstrumentId,
    /// Participant's number of the order.
    pub user_ref: UserRefNum,
    /// The participant's own identifier, as entered.
    pub cl_ord_id: ClOrdId,
    /// Whether the order buys or sells.
    pub side: Side,
    /// Terms other than side, price and quantity.
    pub terms: Terms,
    /// Limit price at present; 0: none.
    pub price: Price,
    /// Open quantity when the order began, lots; of a refused order the quantity asked for.
    pub qty: Qty,
    /// Quantity traded since, lots; trades that were broken later count.
    pub filled: u64,
    /// Quantity cancelled since, lots.
    pub cancelled: u64,
    /// Open quantity at present, lots.
    pub leaves: Qty,
    /// State of the order at present.
    pub state: OrderState,
    /// Reason of a rejection; [`RejectReason::None`]: the order was accepted.
    pub reject: RejectReason,
    /// Reason of the last cancellation; [`CancelReason::None`]: no lots were cancelled.
    pub cancel: CancelReason,
    /// Public reference that the order had when it was entered.
    pub order_ref: OrderRef,
    /// The gateway that its request came through.
    pub gateway: u16,
    /// Time at which the gateway received it.
    pub t_in: Nanos,
    /// Engine time at which the order began.
    pub t_seq: Nanos,
    /// Engine time of the order's last change.
    pub t_last: Nanos,
    /// Number of the venue's day on which it began, from 1 ([`engine::daily`]).
    pub day: u32,
    /// Whether the store has the row already, so that it is updated and not inserted.
    pub(crate) stored: bool,
    /// Whether the row has changed since it was written.
    pub(crate) dirty: bool,
}

/// Terms of an order other than side, price and quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Type of the order: how its price is given.
    pub order_type: types::OrderType,
    /// Time in force of the order.
    pub time_in_force: types::TimeInForce,
    /// Flags, as [`Command::flags`].
    pub flags: u8,
    /// Stop price, trail distance or peg offset; 0: none.
    pub stop_price: Price,
    /// Lots displayed at a time; 0: all.
    pub display_qty: u32,
    /// Lots that must trade on entry; 0: none.
    pub min_qty: u32,
    /// End of a good-till-date order, ns since the epoch; 0: none.
    pub expire_at: Nanos,
}

impl Terms {
    /// Terms from the request, or from the report where the exchange has decided otherwise.
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

    /// From the report alone, of an order that is open.
    pub(crate) fn of_open(report: &ExecutionReport) -> Terms {
        Terms {
            order_type: report.order_type,
            time_in_force: report.time_in_force,
            flags: report.flags,
            stop_price: report.terms.stop_price,
            display_qty: report.terms.display_qty,
            min_qty: report.terms.min_qty,
            expire_at: report.terms.expire_at,
        }
    }
}

/// One trade between two orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trade {
    /// Match number of the trade.
    pub match_number: MatchNumber,
    /// Position in the log of the input that made the trade.
    pub seq: u64,
    /// Engine time of the trade.
    pub t_seq: Nanos,
    /// Instrument that traded.
    pub instrument: InstrumentId,
    /// Price at which the lots traded.
    pub price: Price,
    /// Quantity that traded, lots.
    pub qty: Qty,
    /// Side that came in and traded; `None` in an auction.
    pub aggressor: Option<Side>,
    /// Liquidity of the side that the first report is about; tells continuous trading from
    /// auctions.
    pub liquidity: Liquidity,
    /// Feed position of the message that prints the trade.
    pub public_after: u64,
    /// Number of the venue's day, from 1 ([`engine::daily`]).
    pub day: u32,
    /// The side that bought.
    pub buy: Party,
    /// The side that sold.
    pub sell: Party,
}

/// The buyer or the seller of a trade.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Party {
    /// The account on this side.
    pub account: AccountId,
    /// Id of the order ([`Order::id`]); 0: the store has no such order.
    pub order: u64,
    /// Participant's number of the order.
    pub user_ref: UserRefNum,
    /// The participant's own identifier of the order.
    pub cl_ord_id: ClOrdId,
}

/// Open lots that went away without trading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cancel {
    /// Number of the report among all reports of the log, from 1.
    pub id: u64,
    /// Position in the log of the input that caused the cancel.
    pub seq: u64,
    /// Id of the order ([`Order::id`]); 0: the store has no such order.
    pub order: u64,
    /// The account that it belongs to.
    pub account: AccountId,
    /// Instrument of the order.
    pub instrument: InstrumentId,
    /// Participant's number of the order.
    pub user_ref: UserRefNum,
    /// The request's own identifier, if it had one, otherwise the order's.
    pub cl_ord_id: ClOrdId,
    /// Quantity that was cancelled, lots.
    pub qty: Qty,
    /// Quantity that stays open, lots.
    pub leaves: Qty,
    /// Reason of the cancel.
    pub reason: CancelReason,
    /// Engine time of the cancel.
    pub t_seq: Nanos,
}

/// A trade that an operator has broken or corrected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amendment {
    /// Number of the first report about it among all reports of the log, from 1.
    pub id: u64,
    /// Position in the log of the operator's command.
    pub seq: u64,
    /// Match number of the trade that was changed.
    pub match_number: MatchNumber,
    /// Whether it was broken; otherwise it was corrected.
    pub broken: bool,
    /// Price from now on.
    pub price: Price,
    /// Lots from now on; 0 when broken.
    pub qty: Qty,
    /// Name of the operator, as the command has it.
    pub operator: ClOrdId,
    /// Engine time of the change.
    pub t_seq: Nanos,
}

/// A cancel or mass cancel that was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Number of the report among all reports of the log, from 1.
    pub id: u64,
    /// Position of the request in the log.
    pub seq: u64,
    /// The account that it belongs to.
    pub account: AccountId,
    /// Instrument that the request names; 0: none.
    pub instrument: InstrumentId,
    /// Participant's number of the order that was to be cancelled, or of the request.
    pub user_ref: UserRefNum,
    /// Identifier of the request itself.
    pub cl_ord_id: ClOrdId,
    /// Whether it was a mass cancel.
    pub mass: bool,
    /// Reason of the refusal.
    pub reason: RejectReason,
    /// Engine time of the refusal.
    pub t_seq: Nanos,
}
