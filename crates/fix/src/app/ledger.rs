//! An account's orders as FIX speaks of them.
//!
//! The engine knows an order by its number and tells what happened; a participant knows it by
//! ClOrdID and wants to be told how it stands. The ledger is built from the account's stream of
//! reports alone, so that any gateway can rebuild it; answers name their request, and requests in
//! flight are only remembered so that an order can be cancelled, and a replace be followed by the next
//! one, before it is answered. Memory: open orders (bounded by the engine), a bounded number of done
//! ones for late questions, of refused ones for what follows them, and of trades for their
//! corrections; nothing is allocated once that has been reached.

use std::collections::VecDeque;

use types::{
    AccountId, CancelReason, ClOrdId, Command, CommandKind, ExecutionKind, ExecutionReport,
    InstrumentId, Nanos, OrderRef, Price, Qty, REFUSED_MASS_CANCEL, UserRefNum,
};

pub use super::execution::{Asked, Execution, Status};
use super::execution::{stranger, told};
use super::orders::{Order, Orders, account_of, key};
use super::refused::Refused;
use super::request::{Refusal, Request, Terms};
use super::trades::{Trade, Trades};

/// Bounds of a [`Ledger`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LedgerLimits {
    /// Most orders that are done and still known.
    pub done_max: usize,
    /// Most trades that are remembered, so that a correction can tell what it corrects.
    pub trades_max: usize,
    /// Most requests without an answer.
    pub pending_max: usize,
    /// Secret number that is mixed into the hash of identifiers, so that participants cannot choose
    /// identifiers that are slow to find.
    pub salt: u64,
}

/// Account number used in the keys of a ledger of one account, which does not need to tell accounts
/// apart.
const OWN: AccountId = AccountId(0);

impl Default for LedgerLimits {
    fn default() -> LedgerLimits {
        LedgerLimits { done_max: 4_096, trades_max: 16_384, pending_max: 4_096, salt: 0 }
    }
}

/// A request without an answer yet that is no new order.
#[derive(Clone, Copy, Debug)]
enum Pending {
    /// A replace, with the new quantity in total, lots.
    Replace(u64),
    Mass,
}

/// An account's orders by number and by identifier, with what was told of each.
#[derive(Clone, Debug)]
pub struct Ledger {
    limits: LedgerLimits,
    /// Whether the ledger holds orders of several accounts; then the account is part of an order's
    /// key.
    shared: bool,
    orders: Orders,
    /// Keys of orders that are done, the oldest first.
    done: VecDeque<u64>,
    trades: Trades,
    refused: Refused,
    /// Requests without an answer that are no new orders, each with its UserRefNum.
    pending: VecDeque<(u32, Pending)>,
    unanswered: usize,
    last_ref: u32,
}

impl Ledger {
    /// A ledger of one account, without orders.
    pub fn new(limits: LedgerLimits) -> Ledger {
        Ledger {
            limits,
            shared: false,
            orders: Orders::new(limits.salt),
            done: VecDeque::new(),
            trades: Trades::new(limits.trades_max),
            refused: Refused::new(limits.pending_max),
            pending: VecDeque::new(),
            unanswered: 0,
            last_ref: 0,
        }
    }

    /// A ledger of several accounts, without orders, for copies of their reports.
    pub fn shared(limits: LedgerLimits) -> Ledger {
        Ledger { shared: true, ..Ledger::new(limits) }
    }

    /// Reserves the memory that the ledger needs as long as orders that are open and replaces that are
    /// under way are together no more than requests that may be unanswered.
    pub fn prepare(&mut self) {
        self.orders.prepare(self.limits.done_max.saturating_add(self.limits.pending_max));
        self.done.reserve(self.limits.done_max);
        self.trades.prepare();
        self.refused.prepare();
        self.pending.reserve(self.limits.pending_max);
    }

    /// The key of the order `user_ref` of the account that `report` is about.
    #[inline]
    fn key(&self, report: &ExecutionReport, user_ref: UserRefNum) -> u64 {
        key(if self.shared { report.account } else { OWN }, user_ref.0)
    }

    /// Number of orders known, open and done.
    pub fn len(&self) -> usize {
        self.orders.len()
    }

    /// Whether no order is known.
    pub fn is_empty(&self) -> bool {
        self.orders.len() == 0
    }

    /// The command for a request, with the account left to the caller. A new order that is possibly
    /// resent (PossResend) and already known is refused with [`Refusal::DUPLICATE`]; the caller
    /// answers with its status.
    #[inline]
    pub fn command(&mut self, request: &Request) -> Result<Command, Refusal> {
        if self.unanswered >= self.limits.pending_max {
            return Err(Refusal::BUSY);
        }
        match request {
            Request::New { terms, .. } => self.new_order(terms),
            Request::Replace { original, terms } => self.replace(original, terms),
            Request::Cancel { original, cl_ord_id, instrument, side } => {
                let (user_ref, order) = self.open(original)?;
                if (order.instrument, order.side) != (*instrument, *side) {
                    return Err(Refusal::MISMATCH);
                }
                let mut command = Command::new(CommandKind::Cancel);
                command.user_ref = UserRefNum(user_ref);
                command.cl_ord_id = *cl_ord_id;
                Ok(command)
            }
            Request::MassCancel { cl_ord_id, instrument, side } => {
                let mut command = Command::new(CommandKind::MassCancel);
                command.user_ref = self.next_ref();
                command.instrument = instrument.unwrap_or(InstrumentId(0));
                command.param = side.map_or(0, |side| side as u8 + 1);
                command.cl_ord_id = *cl_ord_id;
                self.pending.push_back((command.user_ref.0, Pending::Mass));
                self.unanswered += 1;
                Ok(command)
            }
            Request::Status { .. } => Err(Refusal::UNSUPPORTED_TYPE),
        }
    }

    fn next_ref(&mut self) -> UserRefNum {
        self.last_ref = self.last_ref.saturating_add(1);
        UserRefNum(self.last_ref)
    }

    #[inline]
    fn new_order(&mut self, terms: &Terms) -> Result<Command, Refusal> {
        if self.is_open(&terms.cl_ord_id) {
            return Err(Refusal::DUPLICATE);
        }
        let mut command = Command::new(CommandKind::NewOrder);
        fill(&mut command, terms);
        command.user_ref = self.next_ref();
        let order = Order {
            key: key(OWN, command.user_ref.0),
            cl_ord_id: terms.cl_ord_id,
            original: None,
            instrument: terms.instrument,
            side: terms.side,
            order_type: terms.order_type,
            time_in_force: terms.time_in_force,
            flags: terms.flags,
            terms: command.terms(),
            order_ref: OrderRef(0),
            qty: terms.qty.0,
            leaves: terms.qty.0,
            cum: 0,
            value: 0,
            price: terms.price,
            status: Status::Pending,
            retired: false,
            successor: 0,
            replaced_by: 0,
            root: 0,
            at: Nanos(0),
        };
        self.insert(order);
        self.unanswered += 1;
        Ok(command)
    }

    fn replace(&mut self, original: &ClOrdId, terms: &Terms) -> Result<Command, Refusal> {
        let (user_ref, order) = self.open(original)?;
        let order = *order;
        let same = (order.instrument, order.side, order.order_type);
        if same != (terms.instrument, terms.side, terms.order_type) {
            return Err(Refusal::MISMATCH);
        }
        if self.is_open(&terms.cl_ord_id) {
            return Err(Refusal::DUPLICATE);
        }
        let mut command = Command::new(CommandKind::Replace);
        fill(&mut command, terms);
        command.user_ref = self.next_ref();
        command.orig_user_ref = UserRefNum(user_ref);
        self.pending.push_back((command.user_ref.0, Pending::Replace(terms.qty.0)));
        self.unanswered += 1;
        // Requests on it may follow before it is answered. Nobody is told of it until then.
        if let Some(original) = self.orders.get_mut(key(OWN, user_ref)) {
            original.replaced_by = command.user_ref.0;
        }
        let root = if order.root == 0 { user_ref } else { order.root };
        let key = key(OWN, command.user_ref.0);
        let cl_ord_id = terms.cl_ord_id;
        self.insert(Order {
            key,
            cl_ord_id,
            root,
            replaced_by: 0,
            status: Status::Pending,
            ..order
        });
        Ok(command)
    }

    fn is_open(&self, id: &ClOrdId) -> bool {
        self.orders.by_id(OWN, id).is_some_and(|order| order.status.is_open())
    }

    fn open(&self, id: &ClOrdId) -> Result<(u32, &Order), Refusal> {
        let order = self.orders.by_id(OWN, id).ok_or(Refusal::UNKNOWN_ORDER)?;
        if order.successor != 0 {
            return Err(Refusal::UNKNOWN_ORDER);
        }
        if !order.status.is_open() {
            return Err(Refusal::TOO_LATE);
        }
        if order.replaced_by != 0 {
            return Err(Refusal::UNDER_WAY);
        }
        Ok((order.key as u32, order))
    }

    fn insert(&mut self, order: Order) {
        self.orders.insert(order);
        self.last_ref = self.last_ref.max(order.key as u32);
    }

    /// Undoes a command that was not taken after all (the uplink is full).
    pub fn withdraw(&mut self, command: &Command) {
        let user_ref = command.user_ref.0;
        match command.kind {
            CommandKind::NewOrder => {
                self.orders.remove(key(OWN, user_ref));
                self.answered();
            }
            CommandKind::Cancel => {}
            _ => {
                self.answer(user_ref);
                self.not_replaced(key(OWN, command.orig_user_ref.0), key(OWN, user_ref));
            }
        }
    }

    /// Forgets a replace that was under way, from the order `original` to the order `key`.
    fn not_replaced(&mut self, original: u64, key: u64) {
        if let Some(order) = self.orders.get_mut(original)
            && order.replaced_by == key as u32
        {
            order.replaced_by = 0;
        }
        if self.orders.get(key).is_some_and(|order| order.root != 0) {
            self.orders.remove(key);
        }
    }

    fn answered(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// Removes the request with this number, which has been answered.
    fn answer(&mut self, user_ref: u32) -> Option<Pending> {
        let at = self.pending.binary_search_by_key(&user_ref, |(number, _)| *number).ok()?;
        let (_, pending) = self.pending.remove(at)?;
        self.answered();
        Some(pending)
    }

    /// Makes the next request get the number `user_ref`, unless one as high has been given out:
    /// numbers follow those of the requests, so that they are the same at every gateway.
    pub fn skip_to(&mut self, user_ref: UserRefNum) {
        self.last_ref = self.last_ref.max(user_ref.0.saturating_sub(1));
    }

    /// The order as replaces have left it: the last of the orders that replaced one another.
    fn current(&self, mut order: Order) -> Option<Order> {
        // Those that were replaced are among those that are done.
        for _ in 0..=self.limits.done_max.max(1) {
            if order.successor == 0 {
                return Some(order);
            }
            let successor = key(account_of(order.key), order.successor);
            order = *self.orders.get(successor)?;
        }
        None
    }

    /// The identifier of the order or of the refused request `key`, and how the order stands; of a
    /// replace that was refused, the order that it was about. Only what reports have told of counts.
    fn named(&self, key: u64) -> (Option<ClOrdId>, Option<Order>) {
        if let Some(order) = self.orders.get(key).filter(|order| order.root == 0) {
            return (Some(order.cl_ord_id), self.current(*order));
        }
        let Some((id, of)) = self.refused.get(key) else { return (None, None) };
        (Some(id), self.orders.get(of).and_then(|order| self.current(*order)))
    }

    /// Status of the order with this ClOrdID, open or done; a replaced order is found by its former
    /// identifier, too, and one that is being replaced by that of the replace.
    pub fn status(&self, id: &ClOrdId, position: u64, now: Nanos) -> Option<Execution> {
        let mut order = self.orders.by_id(OWN, id)?;
        if order.root != 0 {
            order = self.orders.get(key(OWN, order.root))?;
        }
        let order = &self.current(*order)?;
        Some(Execution { at: now, ..told(order, None, position) })
    }

    /// Applies the report at `position` of the account's stream, and returns what a FIX session is
    /// to be told of it.
    #[inline]
    pub fn apply(&mut self, report: &ExecutionReport, position: u64) -> Execution {
        let key = self.key(report, report.user_ref);
        self.last_ref = self.last_ref.max(report.user_ref.0);
        let mut execution = match report.kind {
            ExecutionKind::Accepted => self.accepted(key, report),
            ExecutionKind::Rejected => self.rejected(key, report),
            ExecutionKind::Replaced => self.replaced(key, report),
            ExecutionKind::CancelRejected => self.cancel_rejected(key, report),
            ExecutionKind::MassCanceled => {
                self.answer(report.user_ref.0);
                told(&stranger(key, report), None, 0)
            }
            // Of the session, not of an order; the session deals with it.
            ExecutionKind::SessionSlot | ExecutionKind::StreamReference => {
                told(&stranger(key, report), None, 0)
            }
            _ => self.changed(key, report),
        };
        execution.kind = Some(report.kind);
        execution.position = position;
        execution.at = report.t_seq;
        execution.reject = report.reject;
        execution.cancel_reason = report.cancel_reason;
        execution.liquidity = report.liquidity;
        execution.match_number = report.match_number;
        if report.kind == ExecutionKind::MassCanceled {
            execution.cum = report.qty;
        }
        let done = self.orders.get_mut(key).filter(|order| !order.status.is_open());
        if let Some(order) = done.filter(|order| !order.retired) {
            order.retired = true;
            self.retire(key);
        }
        execution
    }

    /// The order `key`, if it has no answer yet.
    fn awaited(&self, key: u64) -> Option<&Order> {
        self.orders.get(key).filter(|order| order.status == Status::Pending)
    }

    /// The replace that is under way of the order `key`, which had no answer when that was asked for.
    fn replaced_by(&self, key: u64) -> u32 {
        self.awaited(key).map_or(0, |order| order.replaced_by)
    }

    fn accepted(&mut self, key: u64, report: &ExecutionReport) -> Execution {
        let replaced_by = self.replaced_by(key);
        if self.awaited(key).is_some() {
            self.answered();
        }
        let order = Order { status: Status::New, replaced_by, ..stranger(key, report) };
        self.insert(order);
        told(&order, None, 0)
    }

    fn rejected(&mut self, key: u64, report: &ExecutionReport) -> Execution {
        if report.orig_user_ref.0 != 0 {
            // A replace: the order it was about goes on.
            self.answer(report.user_ref.0);
            let original = self.key(report, report.orig_user_ref);
            self.not_replaced(original, key);
            let (named, order) = self.named(original);
            let known = self.orders.get(original).is_some();
            self.refused.put_replace(key, report.cl_ord_id, (original, known));
            let order = order.unwrap_or_else(|| stranger(key, report));
            let execution = told(&order, None, 0);
            return Execution {
                cl_ord_id: report.cl_ord_id,
                original: Some(named.unwrap_or(order.cl_ord_id)),
                asked: Asked::Replace,
                ..execution
            };
        }
        if self.awaited(key).is_some() {
            self.answered();
            self.orders.remove(key);
        }
        self.refused.put(key, report.cl_ord_id);
        told(&Order { status: Status::Rejected, leaves: 0, ..stranger(key, report) }, None, 0)
    }

    fn replaced(&mut self, key: u64, report: &ExecutionReport) -> Execution {
        let old_key = self.key(report, report.orig_user_ref);
        let old = self.orders.get(old_key).copied();
        if let Some(gone) = self.orders.get_mut(old_key) {
            // Its identifier may still be named, by what has crossed with the replace.
            (gone.successor, gone.status, gone.leaves) = (report.user_ref.0, Status::Canceled, 0);
            gone.replaced_by = 0;
            if !std::mem::replace(&mut gone.retired, true) {
                self.retire(old_key);
            }
        }
        let (cum, value) = old.map_or((0, 0), |old| (old.cum, old.value));
        let asked = match self.answer(report.user_ref.0) {
            Some(Pending::Replace(qty)) => qty,
            _ => report.leaves.0 + cum,
        };
        let status = if cum > 0 { Status::PartiallyFilled } else { Status::New };
        let original = old.map(|old| old.cl_ord_id);
        let (qty, replaced_by) = (asked, self.replaced_by(key));
        let order =
            Order { qty, cum, value, status, original, replaced_by, ..stranger(key, report) };
        self.insert(order);
        told(&order, original, 0)
    }

    fn cancel_rejected(&mut self, key: u64, report: &ExecutionReport) -> Execution {
        let unknown = || Order { status: Status::Rejected, ..stranger(key, report) };
        if report.flags & REFUSED_MASS_CANCEL != 0 {
            self.answer(report.user_ref.0);
            return Execution { asked: Asked::Mass, ..told(&unknown(), None, 0) };
        }
        let (named, order) = self.named(key);
        let order = order.unwrap_or_else(unknown);
        let named = named.unwrap_or(order.cl_ord_id);
        let (cl_ord_id, original) = (request_id(report, &named), Some(named));
        Execution { cl_ord_id, original, ..told(&order, None, 0) }
    }

    /// Applies a report about an order that is or was in the book.
    #[inline]
    fn changed(&mut self, key: u64, report: &ExecutionReport) -> Execution {
        let (qty, price) = (report.qty.0, report.price);
        let (number, side, trade) = (report.match_number, report.side, Trade { qty, price });
        let told_of = match report.kind {
            ExecutionKind::Executed | ExecutionKind::TradeCorrected => {
                self.trades.put(number, side, trade)
            }
            ExecutionKind::TradeBroken => self.trades.take(number, side),
            _ => None,
        };
        let key = match self.orders.get(key) {
            Some(order) if order.successor == 0 => key,
            // A trade of before a replace.
            Some(order) => self.current(*order).map_or(key, |order| order.key),
            None => {
                // From before what this ledger has kept.
                let open = report.leaves.0 > 0;
                let status = if open { Status::New } else { Status::Canceled };
                self.insert(Order { status, ..stranger(key, report) });
                key
            }
        };
        let Some(order) = self.orders.get_mut(key) else {
            return told(&stranger(key, report), None, 0);
        };
        let mut original = order.original;
        let mut cl_ord_id = order.cl_ord_id;
        match report.kind {
            ExecutionKind::Executed => {
                order.trade(qty, price);
                order.leaves = report.leaves.0;
                let filled = order.leaves == 0;
                order.status = if filled { Status::Filled } else { Status::PartiallyFilled };
            }
            ExecutionKind::Canceled => {
                order.leaves = report.leaves.0;
                if order.leaves == 0 {
                    order.status = ended(report.cancel_reason);
                } else {
                    order.qty = order.cum + order.leaves;
                }
                let asked = request_id(report, &order.cl_ord_id);
                // Over other doors a cancel may have no identifier.
                let named = asked != order.cl_ord_id || report.session_seq > 0;
                if named && report.cancel_reason == CancelReason::Requested {
                    original = Some(order.cl_ord_id);
                    cl_ord_id = asked;
                }
            }
            ExecutionKind::Restated => {
                order.price = price;
                order.leaves = report.leaves.0;
            }
            ExecutionKind::TradeBroken => {
                order.untrade(qty, price);
                if order.cum == 0 && order.status == Status::PartiallyFilled {
                    order.status = Status::New;
                }
            }
            ExecutionKind::TradeCorrected => {
                if let Some(before) = told_of {
                    order.untrade(before.qty, before.price);
                    order.trade(qty, price);
                }
            }
            _ => {}
        }
        order.at = report.t_seq;
        let execution = told(order, original, 0);
        Execution { cl_ord_id, last_qty: Qty(qty), last_price: price, ..execution }
    }

    /// Marks an order as done; it stays known until `done_max` others are done.
    fn retire(&mut self, key: u64) {
        while self.done.len() >= self.limits.done_max.max(1) {
            // Its number may be an open order's by now: over OUCH they begin again with a day.
            let oldest = self.done.pop_front();
            let done =
                oldest.filter(|key| self.orders.get(*key).is_some_and(|order| order.retired));
            if let Some(oldest) = done {
                self.orders.remove(oldest);
            }
        }
        self.done.push_back(key);
    }
}

impl Order {
    fn trade(&mut self, qty: u64, price: Price) {
        self.cum += qty;
        self.value += i128::from(price.0) * i128::from(qty);
    }

    fn untrade(&mut self, qty: u64, price: Price) {
        self.cum = self.cum.saturating_sub(qty);
        let left = self.value - i128::from(price.0) * i128::from(qty);
        self.value = if self.cum == 0 { 0 } else { left.max(0) };
    }
}

/// ClOrdID of the cancel that a report answers; the order's own, `named`, if the cancel had none.
fn request_id(report: &ExecutionReport, named: &ClOrdId) -> ClOrdId {
    if report.cl_ord_id == ClOrdId::default() { *named } else { report.cl_ord_id }
}

/// Final status that a cancellation with this reason leads to.
fn ended(reason: CancelReason) -> Status {
    match reason {
        CancelReason::EndOfDay | CancelReason::Expired | CancelReason::AuctionOver => {
            Status::Expired
        }
        _ => Status::Canceled,
    }
}

fn fill(command: &mut Command, terms: &Terms) {
    command.side = terms.side;
    command.order_type = terms.order_type;
    command.time_in_force = terms.time_in_force;
    command.flags = terms.flags;
    command.self_trade = terms.self_trade;
    command.instrument = terms.instrument;
    command.display_qty = terms.display_qty;
    command.qty = terms.qty;
    command.price = terms.price;
    command.stop_price = terms.stop_price;
    command.expire_at = terms.expire_at;
    command.min_qty = terms.min_qty;
    command.cl_ord_id = terms.cl_ord_id;
}
