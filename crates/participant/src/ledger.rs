//! Exactly once, as a participant can check it: every request against every answer.
//!
//! New orders and replaces have a UserRefNum of their own and are answered exactly once, however
//! often they were sent. A cancel has none: OUCH answers it under the number of its order, once
//! for each time it was sent (a re-sent cancel may find its order gone and be refused).
//! `lost` is what was asked and never answered, `duplicates` what was answered more often than
//! allowed, `violations` what contradicts the order's life (more executed than open, answers to
//! nothing that was asked).

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
};

use types::{InstrumentId, Nanos, Qty, RejectReason, Side, SplitMix64, UserRefNum};

use crate::flow::{Action, FlowMessage};

/// Kind of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RequestKind {
    /// Enter an order.
    New,
    /// Replace an order by another.
    Replace,
    /// Cancel an order.
    Cancel,
}

/// One request: its kind and the number it is answered under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Kind of the request.
    pub kind: RequestKind,
    /// Of the order entered, the replacing order, or the order to be cancelled.
    pub user_ref: UserRefNum,
}

/// Why a message was not turned into a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAsked {
    /// The ledger has no room for another order.
    Full,
    /// It cancels or replaces an order that was never entered here.
    UnknownOrder,
    /// The order was entered before, or its cancel was asked for before.
    Repeated,
    /// No OUCH message can carry it: unknown instrument, quantity over 32 bits, negative price.
    NotEncodable,
}

/// Times and counts of one request.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// When it should have been sent; `None` when it is not timed.
    scheduled: Option<Nanos>,
    asked: bool,
    sends: u8,
    answers: u8,
}

/// State of one UserRefNum.
#[derive(Clone, Copy, Debug)]
struct Entry {
    message: FlowMessage,
    side: Side,
    entry: Tally,
    cancel: Tally,
    /// Open lots as the answers so far tell.
    open: u64,
}

/// The first answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstAnswer {
    /// When the request should have been sent; `None` when it is not timed.
    pub scheduled: Option<Nanos>,
}

/// Terms with which an order was entered or replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// The request that made it.
    pub message: FlowMessage,
    /// Side; a replacement has that of the order it replaces.
    pub side: Side,
    /// Open lots as the answers so far tell.
    pub open: Qty,
}

/// Counts of the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LedgerCounts {
    /// Requests taken into the ledger.
    pub asked: u64,
    /// Requests that have an answer.
    pub answered: u64,
    /// Sends beyond the first of each request.
    pub resends: u64,
    /// Answers beyond what is allowed.
    pub duplicates: u64,
    /// Answers that contradict what was asked or the order's life.
    pub violations: u64,
    /// New orders accepted.
    pub accepted: u64,
    /// Replaces accepted.
    pub replaced: u64,
    /// Cancels accepted.
    pub canceled: u64,
    /// Cancels that came too late: the order was done.
    pub cancels_late: u64,
    /// Cancels that answer no cancel request of ours: immediate-or-cancel rests, end of the day,
    /// auctions, mass cancels, self-trade prevention.
    pub canceled_unasked: u64,
    /// Messages that answer no request and leave open quantity as it is: orders priced anew or
    /// triggered, trades broken or corrected, mass cancels done.
    pub notices: u64,
    /// Executions.
    pub executions: u64,
    /// Refused new orders and replaces by [`RejectReason`] (index: its number).
    pub rejects: [u64; REASONS],
}

/// Number of reject reasons, `None` included.
pub const REASONS: usize = RejectReason::ALL.len() + 1;
const _: () = assert!(RejectReason::ShardAllotment as usize + 1 == REASONS);

impl LedgerCounts {
    /// Requests without any answer.
    pub fn lost(&self) -> u64 {
        self.asked - self.answered
    }

    /// Adds the counts of another ledger.
    pub fn add(&mut self, other: &LedgerCounts) {
        self.asked += other.asked;
        self.answered += other.answered;
        self.resends += other.resends;
        self.duplicates += other.duplicates;
        self.violations += other.violations;
        self.accepted += other.accepted;
        self.replaced += other.replaced;
        self.canceled += other.canceled;
        self.cancels_late += other.cancels_late;
        self.canceled_unasked += other.canceled_unasked;
        self.notices += other.notices;
        self.executions += other.executions;
        self.rejects.iter_mut().zip(other.rejects).for_each(|(sum, count)| *sum += count);
    }
}

/// The same in every process; flow ids are ours, so nobody aims for collisions.
#[derive(Default)]
struct FlowHasher(u64);

impl Hasher for FlowHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = SplitMix64::mix(self.0 ^ value);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type FlowMap = HashMap<(InstrumentId, u64), u32, BuildHasherDefault<FlowHasher>>;

/// The requests of one account over one trading day.
#[derive(Debug)]
pub struct Ledger {
    /// Entries; the index is UserRefNum - 1.
    entries: Vec<Entry>,
    by_flow: FlowMap,
    /// Requests in the order they were asked; answered ones leave lazily from the front.
    order: VecDeque<Ask>,
    max: usize,
    counts: LedgerCounts,
}

impl Ledger {
    /// Room for `orders_max` new orders and replaces.
    pub fn new(orders_max: usize) -> Ledger {
        Ledger {
            entries: Vec::new(),
            by_flow: FlowMap::default(),
            order: VecDeque::new(),
            max: orders_max.min(u32::MAX as usize - 1),
            counts: LedgerCounts::default(),
        }
    }

    /// Counts so far.
    pub fn counts(&self) -> LedgerCounts {
        self.counts
    }

    /// Number of requests without an answer.
    pub fn outstanding(&self) -> u64 {
        self.counts.lost()
    }

    /// The order behind a number.
    pub fn order(&self, user_ref: UserRefNum) -> Option<Known> {
        let entry = self.entries.get(index(user_ref)?)?;
        Some(Known { message: entry.message, side: entry.side, open: Qty(entry.open) })
    }

    /// Whether a number was given to a new order or to a replace.
    pub fn kind(&self, user_ref: UserRefNum) -> RequestKind {
        match self.order(user_ref).map(|known| known.message.action) {
            Some(Action::Replace { .. }) => RequestKind::Replace,
            _ => RequestKind::New,
        }
    }

    /// The number of an order by its flow id.
    pub fn find(&self, instrument: InstrumentId, id: u64) -> Option<UserRefNum> {
        self.by_flow.get(&(instrument, id)).copied().map(UserRefNum)
    }

    /// Takes a request in; a new order or replace gets the next UserRefNum.
    ///
    /// # Errors
    /// See [`NotAsked`]; the ledger is unchanged then.
    pub fn ask(&mut self, message: FlowMessage, scheduled: Option<Nanos>) -> Result<Ask, NotAsked> {
        let FlowMessage { id, instrument, action, .. } = message;
        let tally = Tally { scheduled, asked: true, sends: 0, answers: 0 };
        let ask = match action {
            Action::New { side, .. } => {
                let user_ref = self.append(message, side, tally)?;
                Ask { kind: RequestKind::New, user_ref }
            }
            Action::Replace { orig, .. } => {
                let orig = self.find(instrument, orig).and_then(|orig| self.order(orig));
                let side = orig.ok_or(NotAsked::UnknownOrder)?.side;
                let user_ref = self.append(message, side, tally)?;
                Ask { kind: RequestKind::Replace, user_ref }
            }
            Action::Cancel => {
                let user_ref = self.find(instrument, id).ok_or(NotAsked::UnknownOrder)?;
                let entry = self.entry_mut(user_ref).ok_or(NotAsked::UnknownOrder)?;
                if entry.cancel.asked {
                    return Err(NotAsked::Repeated);
                }
                entry.cancel = tally;
                Ask { kind: RequestKind::Cancel, user_ref }
            }
        };
        self.counts.asked += 1;
        self.order.push_back(ask);
        Ok(ask)
    }

    fn append(
        &mut self,
        message: FlowMessage,
        side: Side,
        entry: Tally,
    ) -> Result<UserRefNum, NotAsked> {
        if self.entries.len() >= self.max {
            return Err(NotAsked::Full);
        }
        let key = (message.instrument, message.id);
        if self.by_flow.contains_key(&key) {
            return Err(NotAsked::Repeated);
        }
        self.entries.push(Entry { message, side, entry, cancel: Tally::default(), open: 0 });
        let user_ref = self.entries.len() as u32;
        self.by_flow.insert(key, user_ref);
        Ok(UserRefNum(user_ref))
    }

    fn entry_mut(&mut self, user_ref: UserRefNum) -> Option<&mut Entry> {
        self.entries.get_mut(index(user_ref)?)
    }

    fn tally_mut(&mut self, ask: Ask) -> Option<&mut Tally> {
        let entry = self.entry_mut(ask.user_ref)?;
        let tally = match ask.kind {
            RequestKind::Cancel => &mut entry.cancel,
            RequestKind::New | RequestKind::Replace => &mut entry.entry,
        };
        tally.asked.then_some(tally)
    }

    /// Notes that a request was sent, for the first time or again.
    pub fn sent(&mut self, ask: Ask) {
        if let Some(tally) = self.tally_mut(ask) {
            let again = tally.sends > 0;
            tally.sends = tally.sends.saturating_add(1);
            self.counts.resends += u64::from(again);
        }
    }

    /// Requests without an answer, in the order they were asked, into `out`.
    pub fn unanswered(&mut self, out: &mut Vec<Ask>) {
        out.clear();
        let order = std::mem::take(&mut self.order);
        out.extend(order.iter().filter(|&&ask| self.is_open(ask)));
        self.order = order;
        self.order.clear();
        self.order.extend(out.iter());
    }

    fn is_open(&self, ask: Ask) -> bool {
        let entry = index(ask.user_ref).and_then(|index| self.entries.get(index));
        entry.is_some_and(|entry| match ask.kind {
            RequestKind::Cancel => entry.cancel.answers == 0,
            RequestKind::New | RequestKind::Replace => entry.entry.answers == 0,
        })
    }

    /// Records an answer.
    fn answer(&mut self, ask: Ask) -> Option<FirstAnswer> {
        let Some(tally) = self.tally_mut(ask).filter(|tally| tally.sends > 0) else {
            self.counts.violations += 1;
            return None;
        };
        let allowed = if ask.kind == RequestKind::Cancel { tally.sends } else { 1 };
        tally.answers = tally.answers.saturating_add(1);
        let (first, excess) = (tally.answers == 1, tally.answers > allowed);
        let scheduled = tally.scheduled;
        self.counts.answered += u64::from(first);
        self.counts.duplicates += u64::from(excess);
        while let Some(&ask) = self.order.front()
            && !self.is_open(ask)
        {
            self.order.pop_front();
        }
        first.then_some(FirstAnswer { scheduled })
    }

    /// A new order was accepted with `qty` lots. Like the methods below it gives something only
    /// when this was the first answer to the request.
    pub fn accepted(&mut self, user_ref: UserRefNum, qty: Qty) -> Option<FirstAnswer> {
        let first = self.answer(Ask { kind: RequestKind::New, user_ref })?;
        self.counts.accepted += 1;
        self.set_open(user_ref, qty);
        Some(first)
    }

    /// A replace was done: `qty` lots are open under the new number, none under the old.
    pub fn replaced(
        &mut self,
        orig: UserRefNum,
        user_ref: UserRefNum,
        qty: Qty,
    ) -> Option<FirstAnswer> {
        let first = self.answer(Ask { kind: RequestKind::Replace, user_ref })?;
        self.counts.replaced += 1;
        self.set_open(orig, Qty(0));
        self.set_open(user_ref, qty);
        Some(first)
    }

    fn set_open(&mut self, user_ref: UserRefNum, qty: Qty) {
        match self.entry_mut(user_ref) {
            Some(entry) => entry.open = qty.0,
            None => self.counts.violations += 1,
        }
    }

    /// A new order or replace was refused.
    pub fn rejected(&mut self, user_ref: UserRefNum, reason: RejectReason) -> Option<FirstAnswer> {
        let first = self.answer(Ask { kind: self.kind(user_ref), user_ref })?;
        if let Some(count) = self.counts.rejects.get_mut(reason as usize) {
            *count += 1;
        }
        Some(first)
    }

    /// `qty` lots of an order were cancelled, because we `asked` or by themselves.
    pub fn canceled(&mut self, user_ref: UserRefNum, qty: Qty, asked: bool) -> Option<FirstAnswer> {
        let first = if asked {
            self.answer(Ask { kind: RequestKind::Cancel, user_ref })
        } else {
            self.counts.canceled_unasked += 1;
            None
        };
        self.counts.canceled += u64::from(first.is_some());
        self.take_open(user_ref, qty);
        first
    }

    /// A cancel found no open order.
    pub fn cancel_rejected(&mut self, user_ref: UserRefNum) -> Option<FirstAnswer> {
        let first = self.answer(Ask { kind: RequestKind::Cancel, user_ref })?;
        self.counts.cancels_late += 1;
        Some(first)
    }

    /// `qty` lots of an order traded; the order, when we know it.
    pub fn executed(&mut self, user_ref: UserRefNum, qty: Qty) -> Option<Known> {
        self.counts.executions += 1;
        self.take_open(user_ref, qty);
        self.order(user_ref)
    }

    /// Something about an order that answers no request: restated, triggered, a trade of it broken
    /// or corrected. It must be about an order that was accepted.
    pub fn noticed(&mut self, user_ref: UserRefNum) {
        self.counts.notices += 1;
        let entry = index(user_ref).and_then(|index| self.entries.get(index));
        if entry.is_none_or(|entry| entry.entry.answers == 0) {
            self.counts.violations += 1;
        }
    }

    /// A mass cancel was done: by an operator's or the gateway's wish, or our own.
    pub fn mass_canceled(&mut self) {
        self.counts.notices += 1;
    }

    fn take_open(&mut self, user_ref: UserRefNum, qty: Qty) {
        let open = self.entry_mut(user_ref).map(|entry| &mut entry.open);
        match open.map(|open| open.checked_sub(qty.0).map(|left| *open = left)) {
            Some(Some(())) => {}
            _ => self.counts.violations += 1,
        }
    }

    /// The other side said something that no request of ours explains.
    pub fn violation(&mut self) {
        self.counts.violations += 1;
    }
}

fn index(user_ref: UserRefNum) -> Option<usize> {
    (user_ref.0 as usize).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::Special;
    use types::{OrderType, Price, TimeInForce};

    const FIRST: Option<FirstAnswer> = Some(FirstAnswer { scheduled: Some(Nanos(5)) });

    fn new(id: u64) -> FlowMessage {
        let action = Action::New {
            side: Side::Buy,
            qty: Qty(10),
            price: Price(100),
            order_type: OrderType::Limit,
            post_only: false,
            time_in_force: TimeInForce::Day,
        };
        let (instrument, special) = (InstrumentId(1), Special::None);
        FlowMessage { id, participant: 0, instrument, action, special }
    }

    fn with(id: u64, action: Action) -> FlowMessage {
        FlowMessage { action, ..new(id) }
    }

    /// A ledger with orders 1 and 2 entered and accepted, and the cancel of 1 sent.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::new(8);
        for message in [new(7), new(8), with(7, Action::Cancel)] {
            let ask = ledger.ask(message, Some(Nanos(5))).expect("room");
            ledger.sent(ask);
        }
        assert_eq!(ledger.accepted(UserRefNum(1), Qty(10)), FIRST);
        assert_eq!(ledger.accepted(UserRefNum(2), Qty(10)), FIRST);
        ledger
    }

    #[test]
    fn a_clean_life_has_nothing_to_complain_about() {
        let mut ledger = ledger();
        assert!(ledger.executed(UserRefNum(2), Qty(10)).is_some());
        assert_eq!(ledger.canceled(UserRefNum(1), Qty(10), true), FIRST);
        let counts = ledger.counts();
        assert_eq!((counts.lost(), counts.duplicates, counts.violations), (0, 0, 0));
        assert_eq!((counts.asked, counts.accepted, counts.canceled), (3, 2, 1));
    }

    #[test]
    fn a_dropped_answer_is_one_lost() {
        assert_eq!(ledger().counts().lost(), 1);
        let mut asks = Vec::new();
        let mut ledger = ledger();
        ledger.unanswered(&mut asks);
        assert_eq!(asks, [Ask { kind: RequestKind::Cancel, user_ref: UserRefNum(1) }]);
    }

    #[test]
    fn a_second_answer_is_one_duplicate() {
        let mut ledger = ledger();
        assert_eq!(ledger.accepted(UserRefNum(2), Qty(10)), None);
        assert_eq!(ledger.counts().duplicates, 1);
        ledger.cancel_rejected(UserRefNum(1));
        ledger.cancel_rejected(UserRefNum(1));
        let counts = ledger.counts();
        assert_eq!((counts.duplicates, counts.lost(), counts.cancels_late), (2, 0, 1));
    }

    #[test]
    fn a_resent_cancel_may_be_answered_twice_and_a_resent_order_may_not() {
        let mut ledger = ledger();
        ledger.sent(Ask { kind: RequestKind::Cancel, user_ref: UserRefNum(1) });
        ledger.canceled(UserRefNum(1), Qty(10), true);
        ledger.cancel_rejected(UserRefNum(1));
        assert_eq!(ledger.counts().duplicates, 0);
        ledger.sent(Ask { kind: RequestKind::New, user_ref: UserRefNum(2) });
        ledger.accepted(UserRefNum(2), Qty(10));
        assert_eq!((ledger.counts().duplicates, ledger.counts().resends), (1, 2));
    }

    #[test]
    fn answers_that_nothing_explains_are_violations() {
        let mut ledger = ledger();
        ledger.accepted(UserRefNum(9), Qty(1));
        ledger.cancel_rejected(UserRefNum(2));
        ledger.executed(UserRefNum(2), Qty(11));
        ledger.executed(UserRefNum(0), Qty(1));
        ledger.replaced(UserRefNum(1), UserRefNum(2), Qty(1));
        assert_eq!(ledger.counts().violations, 4);
        assert_eq!(ledger.counts().duplicates, 1, "the replace answers request 2 again");
    }

    #[test]
    fn notices_change_nothing_and_must_be_about_an_order() {
        let mut ledger = ledger();
        ledger.noticed(UserRefNum(1));
        ledger.mass_canceled();
        assert_eq!((ledger.counts().notices, ledger.counts().violations), (2, 0));
        assert_eq!(ledger.order(UserRefNum(1)).map(|known| known.open), Some(Qty(10)));
        let ask = ledger.ask(new(9), None).expect("room");
        for unknown in [ask.user_ref, UserRefNum(0), UserRefNum(99)] {
            ledger.noticed(unknown);
        }
        assert_eq!((ledger.counts().notices, ledger.counts().violations), (5, 3));
    }

    #[test]
    fn every_reject_reason_has_its_count() {
        for reason in RejectReason::ALL {
            let mut ledger = Ledger::new(1);
            let ask = ledger.ask(new(1), None).expect("room");
            ledger.sent(ask);
            ledger.rejected(ask.user_ref, reason);
            let rejects = ledger.counts().rejects;
            assert_eq!((rejects[reason as usize], rejects.iter().sum::<u64>()), (1, 1));
        }
    }

    #[test]
    fn replaces_carry_the_open_quantity_over() {
        let mut ledger = ledger();
        let action = Action::Replace { orig: 8, qty: Qty(20), price: Price(99) };
        let ask = ledger.ask(with(9, action), None).expect("room");
        ledger.sent(ask);
        ledger.executed(UserRefNum(2), Qty(4));
        assert_eq!(
            ledger.replaced(UserRefNum(2), ask.user_ref, Qty(16)),
            Some(FirstAnswer { scheduled: None })
        );
        ledger.executed(ask.user_ref, Qty(16));
        assert_eq!(ledger.counts().violations, 0);
        ledger.executed(UserRefNum(2), Qty(1));
        assert_eq!(ledger.counts().violations, 1);
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let mut ledger = ledger();
        assert_eq!(ledger.ask(new(7), None), Err(NotAsked::Repeated));
        assert_eq!(ledger.ask(with(7, Action::Cancel), None), Err(NotAsked::Repeated));
        assert_eq!(ledger.ask(with(99, Action::Cancel), None), Err(NotAsked::UnknownOrder));
        let mut small = Ledger::new(1);
        small.ask(new(1), None).expect("room for one");
        assert_eq!(small.ask(new(2), None), Err(NotAsked::Full));
    }
}
