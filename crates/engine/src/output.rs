//! Where the engine puts what follows from an input, and how reports are filled in.

use book::Order;
use types::{
    CancelReason, Command, ExecutionKind, ExecutionReport, FeedSeq, InstrumentId, Liquidity,
    MarketEvent, MatchNumber, Nanos, OrderRef, Price, Qty, RejectReason, UserRefNum,
};

/// Events of one or several inputs, in order. The caller clears and reuses it: no allocation once
/// it has grown to the largest input (an end of day tells of every day order).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// Messages for private streams, each for the account it names.
    pub executions: Vec<ExecutionReport>,
    /// Messages for the feed, each with its position.
    pub market: Vec<(FeedSeq, MarketEvent)>,
}

impl Output {
    /// Room for `executions` and `market` events before anything is allocated.
    pub fn with_capacity(executions: usize, market: usize) -> Output {
        Output { executions: Vec::with_capacity(executions), market: Vec::with_capacity(market) }
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.executions.clear();
        self.market.clear();
    }
}

/// The numbers the engine gives out: each dense from 1.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    pub(crate) order_ref: OrderRef,
    pub(crate) match_number: MatchNumber,
    pub(crate) feed: FeedSeq,
}

impl Numbers {
    pub(crate) fn new() -> Numbers {
        Numbers { order_ref: OrderRef(1), match_number: MatchNumber(1), feed: FeedSeq(1) }
    }

    pub(crate) fn next_order_ref(&mut self) -> OrderRef {
        self.order_ref.0 += 1;
        OrderRef(self.order_ref.0 - 1)
    }

    pub(crate) fn next_match(&mut self) -> MatchNumber {
        self.match_number.0 += 1;
        MatchNumber(self.match_number.0 - 1)
    }

    /// Puts an event on the feed and says where.
    pub(crate) fn publish(&mut self, event: MarketEvent, out: &mut Output) -> FeedSeq {
        let position = self.feed;
        out.market.push((position, event));
        self.feed.0 += 1;
        position
    }
}

/// A report about an order as it now is; `qty` zero, set what the kind names.
pub(crate) fn about_order(
    kind: ExecutionKind,
    instrument: InstrumentId,
    order: &Order,
    t_seq: Nanos,
) -> ExecutionReport {
    ExecutionReport {
        kind,
        side: order.side,
        order_type: order.order_type,
        time_in_force: order.time_in_force,
        flags: order.flags,
        reject: RejectReason::None,
        cancel_reason: CancelReason::None,
        liquidity: Liquidity::None,
        account: order.owner.account,
        instrument,
        user_ref: order.owner.user_ref,
        orig_user_ref: UserRefNum(0),
        reserved: [0; 4],
        qty: Qty(0),
        leaves: order.open(),
        price: order.price,
        order_ref: order.order_ref,
        match_number: MatchNumber(0),
        public_after: FeedSeq(0),
        t_seq,
        cl_ord_id: order.owner.cl_ord_id,
        reserved2: [0; 2],
    }
}

/// The answer to a request that is refused: its own fields, nothing open.
pub(crate) fn refusal(
    kind: ExecutionKind,
    command: &Command,
    reject: RejectReason,
    t_seq: Nanos,
) -> ExecutionReport {
    ExecutionReport {
        kind,
        side: command.side,
        order_type: command.order_type,
        time_in_force: command.time_in_force,
        flags: command.flags,
        reject,
        cancel_reason: CancelReason::None,
        liquidity: Liquidity::None,
        account: command.account,
        instrument: command.instrument,
        user_ref: command.user_ref,
        orig_user_ref: command.orig_user_ref,
        reserved: [0; 4],
        qty: command.qty,
        leaves: Qty(0),
        price: Price(command.price.0),
        order_ref: OrderRef(0),
        match_number: MatchNumber(0),
        public_after: FeedSeq(0),
        t_seq,
        cl_ord_id: command.cl_ord_id,
        reserved2: [0; 2],
    }
}
