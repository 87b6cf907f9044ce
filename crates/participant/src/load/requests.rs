//! One client's requests and what became of them: exactly one answer each, or counted.

use std::collections::BTreeMap;

use types::{Nanos, Price, Side};

/// Kind of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A new order.
    New,
    /// A replacement of one.
    Replace,
    /// A cancel.
    Cancel,
}

/// Answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The order was accepted.
    Accepted,
    /// The order, or the replacement, was refused; the protocol's reason.
    Rejected(u16),
    /// The order replaced an older one.
    Replaced,
    /// Cancelled because it was asked for.
    Canceled,
    /// Cancelled without having been asked for; no answer to anything.
    Removed,
    /// The order expired; it answers no request.
    Expired,
    /// The cancel was refused: nothing to cancel.
    CancelRejected,
}

/// Counts over all clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoadCounts {
    /// Requests of the timetable that were sent.
    pub asked: u64,
    /// Requests with an answer.
    pub answered: u64,
    /// Without one; so far, or for good at the end.
    pub lost: u64,
    /// Further answers to answered requests.
    pub duplicates: u64,
    /// Answers and messages that belong to nothing we asked.
    pub stray: u64,
    /// Requests sent again after a connection had ended.
    pub resent: u64,
    /// Requests that have no wire format; a fault of ours.
    pub unsendable: u64,
    /// Orders accepted.
    pub accepted: u64,
    /// Orders replaced.
    pub replaced: u64,
    /// Orders cancelled as asked.
    pub canceled: u64,
    /// Cancels of orders that were gone.
    pub cancels_rejected: u64,
    /// Of them, further answers to cancels that were sent again: by then their orders were gone.
    pub cancels_rejected_again: u64,
    /// Orders and replacements refused, by the protocol's reason.
    pub rejected: BTreeMap<u16, u64>,
    /// Executions, one for each side that is ours.
    pub executions: u64,
    /// Lots that were executed.
    pub executed_lots: u64,
    /// Orders whose time was over.
    pub expired: u64,
    /// Executions of those after that was said.
    pub executed_expired: u64,
    /// Logins accepted.
    pub logins: u64,
    /// Logins refused, or not answered before the connection was closed.
    pub logins_refused: u64,
    /// The same by reason, as the other side said; the first 16 reasons.
    pub refusals: BTreeMap<String, u64>,
    /// Connections that ended, refused ones too.
    pub connections_lost: u64,
}

/// Reasons for refused logins that are counted apart.
const REASONS_MAX: usize = 16;

impl LoadCounts {
    /// Records that a login was refused.
    pub(super) fn note_refusal(&mut self, why: &str) {
        self.logins_refused += 1;
        if self.refusals.len() < REASONS_MAX || self.refusals.contains_key(why) {
            *self.refusals.entry(why.to_string()).or_default() += 1;
        }
    }
}

/// A limit order: of one side, at a price or better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitOrder {
    /// Whether it buys or sells.
    pub side: Side,
    /// The worst price it takes, above zero.
    pub price: Price,
    /// Quantity in lots, at least 1.
    pub lots: u32,
    /// When it ends, since the epoch, whole milliseconds; `None`: with the day.
    pub expire_at: Option<Nanos>,
}

/// One request, as the doors send it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Kind of the request.
    pub kind: Kind,
    /// Number of the order it is about: the new one of a replacement.
    pub order: u32,
    /// Number of the order replaced.
    pub original: u32,
    /// What the order says; of a cancel, the order it is about.
    pub terms: LimitOrder,
    /// Whether it was sent before.
    pub sent: bool,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    request: Request,
    due: Nanos,
    /// The new order or replacement has its answer.
    answered: bool,
    /// Open lots after the answer.
    open: u32,
    /// The exchange said that its time was over.
    expired: bool,
    /// When its cancel was due, until that is answered.
    cancel: Option<Nanos>,
    /// A cancel has been asked for and answered.
    canceled: bool,
    /// How often the cancel has been sent, and how often it was answered: as often at most, since a
    /// cancel has no number of its own.
    cancel_sends: u8,
    cancel_answers: u8,
}

/// See the module. Orders are numbered densely from a first number on.
#[derive(Debug)]
pub struct Requests {
    first: u32,
    slots: Vec<Slot>,
    waiting: u64,
    /// Orders with a time to end of which something is open.
    ending: u64,
}

impl Requests {
    /// Room for `requests` without growing.
    pub fn with_capacity(requests: usize) -> Requests {
        Requests { first: 1, slots: Vec::with_capacity(requests), waiting: 0, ending: 0 }
    }

    /// Number of requests without an answer.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Numbers up to this one are used; ignored once orders have been numbered.
    pub fn begin_after(&mut self, order: u32) {
        if self.slots.is_empty() {
            self.first = self.first.max(order.saturating_add(1));
        }
    }

    fn slot(&mut self, order: u32) -> Option<&mut Slot> {
        self.slots.get_mut(order.checked_sub(self.first)? as usize)
    }

    /// So many lots of an order are open now.
    fn leave(&mut self, order: u32, open: u32) {
        if let Some(slot) = self.slot(order) {
            let ends = slot.open > 0 && open == 0 && slot.request.terms.expire_at.is_some();
            slot.open = open;
            self.ending -= u64::from(ends);
        }
    }

    /// A new order, or the replacement of `original` when that is not 0.
    pub fn add(&mut self, original: u32, terms: LimitOrder, due: Nanos) -> Request {
        let kind = if original == 0 { Kind::New } else { Kind::Replace };
        let order = self.first.saturating_add(self.slots.len() as u32);
        let request = Request { kind, order, original, terms, sent: false };
        self.slots.push(Slot {
            request,
            due,
            answered: false,
            open: terms.lots,
            expired: false,
            cancel: None,
            canceled: false,
            cancel_sends: 0,
            cancel_answers: 0,
        });
        self.waiting += 1;
        self.ending += u64::from(terms.expire_at.is_some());
        request
    }

    /// A cancel of `order`; `None` if that has one already.
    pub fn cancel(&mut self, order: u32, due: Nanos) -> Option<Request> {
        let slot = self.slot(order)?;
        if slot.cancel.is_some() || slot.canceled {
            return None;
        }
        slot.cancel = Some(due);
        let request = Request { kind: Kind::Cancel, sent: false, ..slot.request };
        self.waiting += 1;
        Some(request)
    }

    /// Records that it was sent.
    pub fn note_sent(&mut self, request: &Request) {
        if let Some(slot) = self.slot(request.order) {
            match request.kind {
                Kind::Cancel => slot.cancel_sends = slot.cancel_sends.saturating_add(1),
                Kind::New | Kind::Replace => slot.request.sent = true,
            }
        }
    }

    /// The terms of an order.
    pub fn terms(&self, order: u32) -> Option<LimitOrder> {
        let slot = self.slots.get(order.checked_sub(self.first)? as usize)?;
        Some(slot.request.terms)
    }

    /// The latest time at which an order ends by itself, since the epoch; `None`: none does.
    pub fn last_end(&self) -> Option<Nanos> {
        self.slots.iter().filter_map(|slot| slot.request.terms.expire_at).max()
    }

    /// Whether an order is open that ends by itself: the exchange will tell of it.
    pub fn awaits_ends(&self) -> bool {
        self.ending > 0
    }

    /// An answer; when it is the first to its request: what was asked and when that was due.
    pub fn answered(
        &mut self,
        order: u32,
        answer: Answer,
        counts: &mut LoadCounts,
    ) -> Option<(Kind, Nanos)> {
        let Some(slot) = self.slot(order) else {
            counts.stray += 1;
            return None;
        };
        let (kind, original) = (slot.request.kind, slot.request.original);
        match answer {
            Answer::Replaced => self.leave(original, 0),
            Answer::Removed | Answer::Expired | Answer::Canceled | Answer::Rejected(_) => {
                self.leave(order, 0);
            }
            Answer::Accepted | Answer::CancelRejected => {}
        }
        let slot = self.slot(order)?;
        let first = match answer {
            Answer::Removed | Answer::Expired => {
                slot.expired |= answer == Answer::Expired;
                counts.expired += u64::from(answer == Answer::Expired);
                return None;
            }
            Answer::Canceled | Answer::CancelRejected => {
                slot.cancel_answers = slot.cancel_answers.saturating_add(1);
                let again = answer == Answer::CancelRejected && slot.canceled;
                if again && slot.cancel_answers <= slot.cancel_sends {
                    counts.cancels_rejected += 1;
                    counts.cancels_rejected_again += 1;
                    return None;
                }
                let first = slot.cancel.take().map(|due| (Kind::Cancel, due));
                slot.canceled |= first.is_some();
                first
            }
            Answer::Accepted | Answer::Replaced | Answer::Rejected(_) => {
                let refused = matches!(answer, Answer::Rejected(_));
                let fits = refused || (answer == Answer::Replaced) == (kind == Kind::Replace);
                let first = (!slot.answered && fits).then_some((kind, slot.due));
                slot.answered |= fits;
                first
            }
        };
        if first.is_none() {
            counts.duplicates += 1;
            return None;
        }
        self.waiting -= 1;
        counts.answered += 1;
        match answer {
            Answer::Accepted => counts.accepted += 1,
            Answer::Replaced => counts.replaced += 1,
            Answer::Canceled => counts.canceled += 1,
            Answer::CancelRejected => counts.cancels_rejected += 1,
            Answer::Rejected(reason) => *counts.rejected.entry(reason).or_default() += 1,
            Answer::Removed | Answer::Expired => {}
        }
        first
    }

    /// An execution; true when nothing of the order is open any more.
    pub fn executed(&mut self, order: u32, lots: u64, counts: &mut LoadCounts) -> bool {
        counts.executions += 1;
        counts.executed_lots += lots;
        let Some(slot) = self.slot(order) else { return false };
        counts.executed_expired += u64::from(slot.expired);
        let open = slot.open.saturating_sub(u32::try_from(lots).unwrap_or(u32::MAX));
        self.leave(order, open);
        open == 0
    }

    /// Whether a cancel that was sent again may still get further answers.
    pub fn awaits_copies(&self) -> bool {
        self.slots.iter().any(|slot| slot.cancel_sends > slot.cancel_answers.max(1))
    }

    /// All requests without an answer, orders before cancels.
    pub fn unanswered(&self) -> Vec<Request> {
        let orders = self.slots.iter().filter(|slot| !slot.answered).map(|slot| slot.request);
        let cancels = self.slots.iter().filter(|slot| slot.cancel.is_some());
        let cancels = cancels.map(|slot| {
            let sent = slot.cancel_sends > 0;
            Request { kind: Kind::Cancel, sent, ..slot.request }
        });
        orders.chain(cancels).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_sent_again_may_be_refused_again_and_no_more() {
        let (mut requests, mut counts) = (Requests::with_capacity(2), LoadCounts::default());
        let terms = LimitOrder { side: Side::Buy, price: Price(1), lots: 5, expire_at: None };
        let order = requests.add(0, terms, Nanos(1)).order;
        assert!(requests.answered(order, Answer::Accepted, &mut counts).is_some());
        let cancel = requests.cancel(order, Nanos(2)).unwrap();
        requests.note_sent(&cancel);
        assert!(!requests.awaits_copies());
        let again = requests.unanswered();
        assert_eq!((again.len(), again[0].kind, again[0].sent), (1, Kind::Cancel, true));
        requests.note_sent(&again[0]);
        assert!(requests.awaits_copies());
        assert!(requests.answered(order, Answer::Canceled, &mut counts).is_some());
        assert!(requests.awaits_copies());
        assert!(requests.answered(order, Answer::CancelRejected, &mut counts).is_none());
        assert!(!requests.awaits_copies());
        assert_eq!((counts.duplicates, counts.cancels_rejected), (0, 1));
        assert_eq!(counts.cancels_rejected_again, 1);
        // A third answer to two cancels, or a second cancellation, is one too many.
        assert!(requests.answered(order, Answer::CancelRejected, &mut counts).is_none());
        assert!(requests.answered(order, Answer::Canceled, &mut counts).is_none());
        assert_eq!((counts.duplicates, counts.cancels_rejected), (2, 1));
    }

    #[test]
    fn an_execution_after_the_order_has_expired_is_counted() {
        let (mut requests, mut counts) = (Requests::with_capacity(2), LoadCounts::default());
        let expire_at = Some(Nanos(9));
        let terms = LimitOrder { side: Side::Buy, price: Price(1), lots: 5, expire_at };
        let order = requests.add(0, terms, Nanos(1)).order;
        assert!(requests.answered(order, Answer::Accepted, &mut counts).is_some());
        assert!(!requests.executed(order, 2, &mut counts));
        assert_eq!(requests.answered(order, Answer::Expired, &mut counts), None);
        assert_eq!((counts.expired, counts.executed_expired, counts.duplicates), (1, 0, 0));
        assert!(requests.executed(order, 2, &mut counts));
        assert_eq!((counts.executions, counts.executed_expired), (2, 1));
        assert_eq!(requests.last_end(), expire_at);
    }

    #[test]
    fn the_ends_of_open_orders_are_awaited() {
        let (mut requests, mut counts) = (Requests::with_capacity(8), LoadCounts::default());
        let terms = |expire_at| LimitOrder { side: Side::Buy, price: Price(1), lots: 5, expire_at };
        let mut order = |requests: &mut Requests, original| {
            let order = requests.add(original, terms(Some(Nanos(9))), Nanos(1)).order;
            let answer = if original == 0 { Answer::Accepted } else { Answer::Replaced };
            requests.answered(order, answer, &mut counts);
            order
        };
        requests.add(0, terms(None), Nanos(1));
        assert!(!requests.awaits_ends(), "it ends with the day");
        let all = [(); 5].map(|()| order(&mut requests, 0));
        let replaced = order(&mut requests, all[0]);
        requests.cancel(all[3], Nanos(2));
        for (order, answer) in [
            (all[1], Answer::Expired),
            (all[1], Answer::Expired),
            (all[2], Answer::Removed),
            (all[3], Answer::Canceled),
            (replaced, Answer::Rejected(1)),
        ] {
            assert!(requests.awaits_ends());
            requests.answered(order, answer, &mut counts);
        }
        requests.executed(all[4], 4, &mut counts);
        assert!(requests.awaits_ends());
        requests.executed(all[4], 1, &mut counts);
        assert!(!requests.awaits_ends());
    }
}
