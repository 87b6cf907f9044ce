//! What a session is told of an order: an event, and how the order stands after it.

use types::{
    AccountId, CancelReason, ClOrdId, ExecutionKind, ExecutionReport, InstrumentId, Liquidity,
    MatchNumber, Nanos, OrderRef, OrderTerms, OrderType, Price, Qty, RejectReason, Side,
    TimeInForce,
};

use super::orders::{Order, account_of};

/// Status of an order, OrdStatus(39), as far as all versions have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The command has been sent to the engine and is not answered yet.
    Pending,
    /// The order is open and nothing of it has traded.
    New,
    /// The order is open and part of it has traded.
    PartiallyFilled,
    /// All lots of the order have traded.
    Filled,
    /// The order was cancelled before all of it traded.
    Canceled,
    /// The order was ended by its own terms (time in force or expiry).
    Expired,
    /// The order was refused.
    Rejected,
}

impl Status {
    pub(super) fn is_open(self) -> bool {
        matches!(self, Status::Pending | Status::New | Status::PartiallyFilled)
    }
}

/// Kind of the request that was refused; decides which message tells the refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// A new order, or a cancel of one order.
    Order,
    /// A replace of an order.
    Replace,
    /// A mass cancel, told by OrderMassCancelReport(r).
    Mass,
}

/// An event of an order and the order's state after it: the content of an ExecutionReport(8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Execution {
    /// Kind of the event; `None`: the report answers a request for the order's status.
    pub kind: Option<ExecutionKind>,
    /// Position of the report in the account's stream, from which ExecID(17) is made.
    pub position: u64,
    /// Account of the order in a ledger of several accounts; otherwise 0.
    pub account: AccountId,
    /// ClOrdID(11): of the request that changed the order, else of the order.
    pub cl_ord_id: ClOrdId,
    /// OrigClOrdID(41): the order's identifier before the request; `None`: it has not changed.
    pub original: Option<ClOrdId>,
    /// Status of the order after the event.
    pub status: Status,
    /// Instrument that the order is for.
    pub instrument: InstrumentId,
    /// Side that the order is on.
    pub side: Side,
    /// Type of the order; decides OrdType(40) and parts of ExecInst(18).
    pub order_type: OrderType,
    /// How long the order lives: TimeInForce(59).
    pub time_in_force: TimeInForce,
    /// Flags of the order, as in [`types::Command::flags`].
    pub flags: u8,
    /// Terms that only some orders have; zero where they do not apply.
    pub terms: OrderTerms,
    /// Public reference of the order, OrderID(37); 0: none yet.
    pub order_ref: OrderRef,
    /// Quantity of the order in total, lots: OrderQty(38).
    pub qty: Qty,
    /// Open quantity, lots: LeavesQty(151).
    pub leaves: Qty,
    /// Quantity that has traded so far, lots: CumQty(14).
    pub cum: Qty,
    /// Sum of price × lots over all trades of the order, for AvgPx(6).
    pub value: i128,
    /// Limit price; 0: the order has none.
    pub price: Price,
    /// Quantity of the trade, lots: LastQty(32); 0 when the event is no trade.
    pub last_qty: Qty,
    /// Price of the trade: LastPx(31); 0 when the event is no trade.
    pub last_price: Price,
    /// Match number of the trade; 0 when the event is no trade.
    pub match_number: MatchNumber,
    /// Whether the trade added or removed liquidity.
    pub liquidity: Liquidity,
    /// Why the request was refused.
    pub reject: RejectReason,
    /// Why open quantity was cancelled.
    pub cancel_reason: CancelReason,
    /// Kind of the request that was refused, when the event is a refusal.
    pub asked: Asked,
    /// Time of the report, ns since the epoch: TransactTime(60).
    pub at: Nanos,
}

/// An order as far as a single report describes it, for reports about an order that the ledger does
/// not know.
pub(super) fn stranger(key: u64, report: &ExecutionReport) -> Order {
    Order {
        key,
        cl_ord_id: report.cl_ord_id,
        original: None,
        instrument: report.instrument,
        side: report.side,
        order_type: report.order_type,
        time_in_force: report.time_in_force,
        flags: report.flags,
        terms: report.terms,
        order_ref: report.order_ref,
        qty: report.qty.0,
        leaves: report.leaves.0,
        cum: 0,
        value: 0,
        price: report.price,
        status: Status::Rejected,
        retired: false,
        successor: 0,
        replaced_by: 0,
        root: 0,
        at: report.t_seq,
    }
}

pub(super) fn told(order: &Order, original: Option<ClOrdId>, position: u64) -> Execution {
    Execution {
        kind: None,
        position,
        account: account_of(order.key),
        cl_ord_id: order.cl_ord_id,
        original,
        status: order.status,
        instrument: order.instrument,
        side: order.side,
        order_type: order.order_type,
        time_in_force: order.time_in_force,
        flags: order.flags,
        terms: order.terms,
        order_ref: order.order_ref,
        qty: Qty(order.qty),
        leaves: Qty(order.leaves),
        cum: Qty(order.cum),
        value: order.value,
        price: order.price,
        last_qty: Qty(0),
        last_price: Price(0),
        match_number: MatchNumber(0),
        liquidity: Liquidity::None,
        reject: RejectReason::None,
        cancel_reason: CancelReason::None,
        asked: Asked::Order,
        at: order.at,
    }
}
