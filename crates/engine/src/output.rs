//! Where the engine puts what follows from an input, and how reports are filled in.

use book::Order;
use types::{
    AccountId, CancelReason, ClOrdId, Command, ExecutionKind, ExecutionReport, FeedSeq,
    InstrumentId, Liquidity, MarketEvent, MatchNumber, Nanos, OrderRef, OrderTerms, Qty,
    RejectReason, UserRefNum,
};

/// Events of one or several inputs, in order. The caller clears and reuses it: no allocation once
/// it has grown to the largest input (an end of day tells of every day order).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// Messages for private streams, each for the account it names.
    pub executions: Vec<ExecutionReport>,
    /// Messages for the feed, each with its position.
    pub market: Vec<(FeedSeq, MarketEvent)>,
    /// What came from another shard with an instrument, or went to one, each with how many of `executions` were
    /// before it. Nobody is told of it: it is for whoever draws up from one shard's log what accounts have.
    moved: Vec<(usize, Moved)>,
}

/// Something about an account, see [`Output::in_order`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told<'a> {
    /// A message of its stream.
    Report(&'a ExecutionReport),
    /// What it has in an instrument that came, or went.
    Moved(&'a Moved),
}

/// Something of an account that an instrument took along to another shard, or brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// An open order: as it would be told of if it were taken now.
    Order {
        /// It came; otherwise it went.
        came: bool,
        /// Kind [`ExecutionKind::Accepted`], with the lots that are open.
        report: ExecutionReport,
    },
    /// A position.
    Position {
        /// Account that holds it.
        account: AccountId,
        /// Instrument that is held.
        instrument: InstrumentId,
        /// By how many lots it is larger here now.
        lots: i64,
        /// Price of the account's last trade in it; 0: none, and where it went.
        mark: types::Price,
    },
}

impl Output {
    /// Room for `executions` and `market` events before anything is allocated.
    pub fn with_capacity(executions: usize, market: usize) -> Output {
        let (executions, market) = (Vec::with_capacity(executions), Vec::with_capacity(market));
        Output { executions, market, moved: Vec::new() }
    }

    /// Appends a report, which so far has no identifier, and gives it this one: copied to where it stays,
    /// not to a report that is copied then.
    #[inline(always)]
    pub(crate) fn report(&mut self, report: ExecutionReport, id: &ClOrdId) {
        self.executions.push(report);
        if let Some(last) = self.executions.last_mut() {
            last.cl_ord_id = *id;
        }
    }

    /// Something came with an instrument, or went, after the executions so far.
    pub(crate) fn tell_moved(&mut self, moved: Moved) {
        self.moved.push((self.executions.len(), moved));
    }

    /// Executions and what moved, in the order in which it happened.
    pub fn in_order(&self) -> impl Iterator<Item = Told<'_>> {
        let (mut reports, mut moved) = (self.executions.iter(), self.moved.iter().peekable());
        let mut told = 0;
        std::iter::from_fn(move || {
            if let Some((_, moved)) = moved.next_if(|(after, _)| *after <= told) {
                return Some(Told::Moved(moved));
            }
            told += 1;
            reports.next().map(Told::Report)
        })
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.executions.clear();
        self.market.clear();
        self.moved.clear();
    }
}

/// Where the feed stands. Between two days nothing is told but of broken and corrected trades: the next
/// one begins with all there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Feed {
    /// Position of the next market event: dense from 1.
    pub(crate) next: FeedSeq,
    /// Between two days.
    pub(crate) silent: bool,
}

impl Feed {
    /// Puts an event on the feed and says where; between two days, where the last one was put.
    #[inline]
    pub(crate) fn publish(&mut self, event: MarketEvent, out: &mut Output) -> FeedSeq {
        if self.silent {
            return FeedSeq(self.next.0.saturating_sub(1));
        }
        self.publish_always(event, out)
    }

    /// The same, also between two days.
    #[inline]
    pub(crate) fn publish_always(&mut self, event: MarketEvent, out: &mut Output) -> FeedSeq {
        let position = self.next;
        out.market.push((position, event));
        self.next.0 += 1;
        position
    }
}

/// The account an order's key names.
#[inline]
pub(crate) fn account_of(key: u64) -> AccountId {
    AccountId((key >> 32) as u16)
}

/// The key of an account's order.
#[inline]
pub(crate) fn key_of(account: AccountId, user_ref: UserRefNum) -> u64 {
    u64::from(account.0) << 32 | u64::from(user_ref.0)
}

/// A report about an order as it now is, for [`Output::report`] with the order's identifier; `qty` zero,
/// set what the kind names.
#[inline]
pub(crate) fn about_order(
    kind: ExecutionKind,
    instrument: InstrumentId,
    order: &Order,
    t_seq: Nanos,
) -> ExecutionReport {
    ExecutionReport {
        kind,
        side: order.side(),
        order_type: order.order_type(),
        time_in_force: order.time_in_force(),
        flags: order.flags(),
        reject: RejectReason::None,
        cancel_reason: CancelReason::None,
        liquidity: Liquidity::None,
        account: account_of(order.key()),
        instrument,
        user_ref: UserRefNum(order.key() as u32),
        orig_user_ref: UserRefNum(0),
        session_seq: 0,
        qty: Qty(0),
        leaves: Qty(u64::from(order.open())),
        price: order.price(),
        order_ref: order.order_ref(),
        match_number: MatchNumber(0),
        public_after: FeedSeq(0),
        t_seq,
        cl_ord_id: ClOrdId::BLANK,
        reserved2: [0; 2],
        terms: terms_of(order),
    }
}

#[inline]
fn terms_of(order: &Order) -> OrderTerms {
    OrderTerms {
        display_qty: order.display_qty(),
        min_qty: order.min_qty(),
        stop_price: order.stop_price(),
        expire_at: order.expire_at(),
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
        session_seq: 0,
        qty: command.qty,
        leaves: Qty(0),
        price: command.price,
        order_ref: OrderRef(0),
        match_number: MatchNumber(0),
        public_after: FeedSeq(0),
        t_seq,
        cl_ord_id: command.cl_ord_id,
        reserved2: [0; 2],
        terms: command.terms(),
    }
}
