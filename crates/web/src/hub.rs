//! Public updates on their way to WebSockets: each has a queue of its own, and what it is not subscribed to
//! does not come into it.
//!
//! Queues are bounded: whoever is [`BEHIND_MAX`] updates behind loses what waits and is told so. Updates are
//! put into queues by the thread that serves the connections, so that waking one costs no system call.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::market::{Event, Topic};

/// Updates that a WebSocket may be behind.
pub(crate) const BEHIND_MAX: usize = 4_096;

/// What a queue has for its connection.
#[derive(Debug)]
pub(crate) enum Came {
    /// An update.
    Update(Arc<Event>),
    /// Updates were lost.
    Behind,
    /// The connection is to end.
    Closed,
}

#[derive(Default)]
struct Waiting {
    updates: VecDeque<Arc<Event>>,
    behind: bool,
    closed: bool,
    waker: Option<Waker>,
}

impl Waiting {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn lose(&mut self) {
        self.updates = VecDeque::new();
        self.behind = true;
    }
}

/// The queue of one connection.
#[derive(Default)]
pub(crate) struct Mailbox(Mutex<Waiting>);

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailbox {
    /// Puts an update behind the others.
    fn put(&self, update: &Arc<Event>) {
        let mut waiting = locked(&self.0);
        if waiting.behind {
            return;
        }
        if waiting.updates.len() < BEHIND_MAX {
            waiting.updates.push_back(Arc::clone(update));
        } else {
            waiting.lose();
        }
        waiting.wake();
    }

    /// Its connection is to end.
    pub fn close(&self) {
        let mut waiting = locked(&self.0);
        waiting.closed = true;
        waiting.wake();
    }

    /// The first of what waits.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Came> {
        let mut waiting = locked(&self.0);
        if waiting.closed {
            return Poll::Ready(Came::Closed);
        }
        if std::mem::take(&mut waiting.behind) {
            return Poll::Ready(Came::Behind);
        }
        if let Some(update) = waiting.updates.pop_front() {
            return Poll::Ready(Came::Update(update));
        }
        match &mut waiting.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

/// Mailboxes by an instrument's place and the topic.
type Mailboxes = HashMap<(usize, Topic), Vec<Arc<Mailbox>>>;

/// Who is subscribed to what.
#[derive(Default)]
pub(crate) struct Hub(Mutex<Mailboxes>);

impl Hub {
    /// From now on updates of a topic of the instrument at this place go there.
    pub fn subscribe(&self, of: (usize, Topic), mailbox: &Arc<Mailbox>) {
        locked(&self.0).entry(of).or_default().push(Arc::clone(mailbox));
    }

    /// No longer.
    pub fn unsubscribe(&self, of: (usize, Topic), mailbox: &Arc<Mailbox>) {
        let mut topics = locked(&self.0);
        if let Some(all) = topics.get_mut(&of) {
            all.retain(|one| !Arc::ptr_eq(one, mailbox));
            if all.is_empty() {
                topics.remove(&of);
            }
        }
    }

    /// Whether anybody is subscribed.
    pub fn wants(&self, of: (usize, Topic)) -> bool {
        locked(&self.0).contains_key(&of)
    }

    /// Puts updates into the queues of those who are subscribed.
    pub fn deliver(&self, updates: &[Arc<Event>]) {
        let topics = locked(&self.0);
        for update in updates {
            for mailbox in topics.get(&(update.instrument, update.topic)).into_iter().flatten() {
                mailbox.put(update);
            }
        }
    }

    /// Updates are lost to all.
    pub fn lose(&self) {
        for mailbox in locked(&self.0).values().flatten() {
            let mut waiting = locked(&mailbox.0);
            waiting.lose();
            waiting.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::poll_fn;
    use serde_json::json;
    use types::{Instrument, InstrumentId, Price, Qty, Symbol, limits};

    use super::*;

    fn update(instrument: usize, topic: Topic, seq: u64) -> Arc<Event> {
        let of = Instrument {
            id: InstrumentId(1),
            symbol: Symbol::new("AAA").expect("a symbol"),
            tick: Price(100),
            price_max: Price(limits::PRICE_MAX),
            qty_max: Qty(limits::QTY_MAX),
            lot_decimals: 0,
        };
        Arc::new(Event::told(instrument, topic, seq, (of, json!({ "seq": seq }))))
    }

    fn next(of: &Mailbox) -> Option<Result<u64, &'static str>> {
        poll_fn(|cx| of.poll_next(cx)).now_or_never().map(|came| match came {
            Came::Update(update) => Ok(update.seq),
            Came::Behind => Err("behind"),
            Came::Closed => Err("closed"),
        })
    }

    #[test]
    fn updates_go_to_who_is_subscribed_in_their_order() {
        let (hub, one, other) = (Hub::default(), Arc::<Mailbox>::default(), Arc::default());
        hub.subscribe((0, Topic::Book), &one);
        hub.subscribe((0, Topic::Ticker), &one);
        hub.subscribe((1, Topic::Book), &other);
        hub.deliver(&[
            update(0, Topic::Book, 1),
            update(1, Topic::Book, 2),
            update(0, Topic::Ticker, 3),
            update(0, Topic::Trades, 4),
        ]);
        assert_eq!([next(&one), next(&one), next(&one)], [Some(Ok(1)), Some(Ok(3)), None]);
        assert_eq!([next(&other), next(&other)], [Some(Ok(2)), None]);
        hub.unsubscribe((0, Topic::Book), &one);
        assert!(!hub.wants((0, Topic::Book)) && hub.wants((0, Topic::Ticker)));
        hub.deliver(&[update(0, Topic::Book, 5)]);
        assert_eq!(next(&one), None);
        one.close();
        assert_eq!(next(&one), Some(Err("closed")));
    }

    #[test]
    fn a_queue_is_bounded_and_says_that_it_lost_updates() {
        let (hub, slow, fast) = (Hub::default(), Arc::<Mailbox>::default(), Arc::default());
        hub.subscribe((0, Topic::Book), &slow);
        hub.subscribe((0, Topic::Book), &fast);
        for seq in 0..2 * BEHIND_MAX as u64 {
            hub.deliver(&[update(0, Topic::Book, seq)]);
            assert!(locked(&slow.0).updates.len() <= BEHIND_MAX);
            assert_eq!(next(&fast), Some(Ok(seq)), "another's queue is its own");
        }
        assert_eq!([next(&slow), next(&slow)], [Some(Err("behind")), None]);
        hub.deliver(&[update(0, Topic::Book, 7)]);
        assert_eq!(next(&slow), Some(Ok(7)), "and goes on");
        hub.lose();
        assert_eq!(next(&fast), Some(Err("behind")));
    }
}
