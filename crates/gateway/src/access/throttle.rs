//! How many requests an account may send: a bucket for orders, another one for cancels.
//!
//! Judged by the gateway's own clock before a request has a transport number, and never logged
//! (corner 20); the engine's message limit is a rule of the log besides. Cancels have a bucket of
//! their own, so that however many orders come, cancels still get through. Buckets are kept by
//! account: logging in again at this gateway buys nothing.
//!
//! Refusing costs the gateway, too, so refusals have a third bucket. A session that has emptied it
//! rests: nothing is read from it for a moment, and what it writes waits in its own socket.

use std::collections::VecDeque;

use types::{AccountId, CommandKind, Nanos};

use crate::access::bucket::{Bucket, Rate};
use crate::context::is_cancel;

/// How long a session rests that was refused too much.
const REST_NS: u64 = 10 * Nanos::MILLI;

/// What one account may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Throttle {
    /// New orders and replaces.
    pub orders: Rate,
    /// Cancels and mass cancels.
    pub cancels: Rate,
}

impl Throttle {
    /// Any number of everything.
    pub const UNLIMITED: Throttle = Throttle { orders: Rate::UNLIMITED, cancels: Rate::UNLIMITED };

    /// So many orders, and twice as many cancels.
    pub fn new(orders: Rate) -> Throttle {
        let cancels =
            Rate { per_s: orders.per_s.saturating_mul(2), burst: orders.burst.saturating_mul(2) };
        Throttle { orders, cancels }
    }
}

/// One account's buckets.
#[derive(Clone, Copy, Debug, Default)]
struct Buckets {
    orders: Bucket,
    cancels: Bucket,
    refusals: Bucket,
    /// Nothing is read from its session.
    rests: bool,
}

/// All accounts' buckets.
#[derive(Debug)]
pub(crate) struct Throttles {
    /// By account number.
    accounts: Vec<Buckets>,
    /// Those that rest, and until when; in order of time.
    resting: VecDeque<(Nanos, AccountId)>,
}

impl Throttles {
    /// Full buckets, none for accounts that are not named.
    pub(crate) fn new(of: impl Iterator<Item = (AccountId, Throttle)>, most: usize) -> Throttles {
        let mut accounts = vec![Buckets::default(); most + 1];
        for (account, throttle) in of {
            if let Some(buckets) = accounts.get_mut(usize::from(account.0)) {
                *buckets = Buckets {
                    orders: Bucket::new(throttle.orders),
                    cancels: Bucket::new(throttle.cancels),
                    refusals: Bucket::new(throttle.cancels),
                    rests: false,
                };
            }
        }
        Throttles { resting: VecDeque::with_capacity(accounts.len()), accounts }
    }

    /// Whether one more request may go on; takes it from its bucket.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos, account: AccountId, kind: CommandKind) -> bool {
        let Some(buckets) = self.accounts.get_mut(usize::from(account.0)) else { return true };
        match is_cancel(kind) {
            true => buckets.cancels.take(now),
            false => buckets.orders.take(now),
        }
    }

    /// One more request of a session was refused, outside the log; one too many and it rests.
    pub(crate) fn note_refusal(&mut self, now: Nanos, account: AccountId) {
        let Some(buckets) = self.accounts.get_mut(usize::from(account.0)) else { return };
        if !buckets.refusals.take(now) && !buckets.rests {
            buckets.rests = true;
            self.resting.push_back((now.after(REST_NS), account));
        }
    }

    /// Whether nothing is to be read from an account's session.
    pub(crate) fn rests(&self, account: AccountId) -> bool {
        self.accounts.get(usize::from(account.0)).is_some_and(|buckets| buckets.rests)
    }

    /// Ends the rests that are over.
    pub(crate) fn wake(&mut self, now: Nanos) {
        while let Some((until, account)) = self.resting.front().copied()
            && until <= now
        {
            self.resting.pop_front();
            if let Some(buckets) = self.accounts.get_mut(usize::from(account.0)) {
                buckets.rests = false;
            }
        }
    }

    /// When the next rest is over.
    pub(crate) fn next_timeout(&self) -> Nanos {
        self.resting.front().map_or(Nanos::NEVER, |(until, _)| *until)
    }

    /// Whether one more refusal may take a place in the log, as those of numbered sessions do; as
    /// many as cancels.
    pub(crate) fn take_refusal(&mut self, now: Nanos, account: AccountId) -> bool {
        let buckets = self.accounts.get_mut(usize::from(account.0));
        buckets.is_none_or(|buckets| buckets.refusals.take(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos(1_000 * Nanos::SECOND);
    const ONE: AccountId = AccountId(1);

    fn throttles(orders: Rate) -> Throttles {
        Throttles::new([(ONE, Throttle::new(orders))].into_iter(), 2)
    }

    fn taken(of: &mut Throttles, now: Nanos, kind: CommandKind) -> usize {
        (0..10_000).filter(|_| of.take(now, ONE, kind)).count()
    }

    #[test]
    fn a_burst_then_the_rate_and_orders_take_nothing_from_cancels() {
        let mut of = throttles(Rate { per_s: 100, burst: 30 });
        assert_eq!(taken(&mut of, NOW, CommandKind::NewOrder), 30);
        assert_eq!(taken(&mut of, NOW, CommandKind::Replace), 0, "of the same bucket");
        assert_eq!(taken(&mut of, NOW, CommandKind::Cancel), 60);
        assert_eq!(taken(&mut of, NOW, CommandKind::MassCancel), 0);
        let later = NOW.after(100 * Nanos::MILLI);
        assert_eq!(taken(&mut of, later, CommandKind::NewOrder), 10);
        assert_eq!(taken(&mut of, later, CommandKind::Cancel), 20);
        let much_later = NOW.after(60 * Nanos::SECOND);
        assert_eq!(taken(&mut of, much_later, CommandKind::NewOrder), 30, "no more than full");
    }

    #[test]
    fn without_a_burst_a_second_fits_and_without_a_rate_anything() {
        for per_s in [1, 3, 7, 1_000] {
            let mut of = throttles(Rate { per_s, burst: 0 });
            assert_eq!(taken(&mut of, NOW, CommandKind::NewOrder) as u64, per_s);
        }
        let mut of = throttles(Rate::UNLIMITED);
        assert_eq!(taken(&mut of, NOW, CommandKind::NewOrder), 10_000);
        assert!(of.take(NOW, AccountId(9), CommandKind::NewOrder), "nobody's account");
        let mut fast = throttles(Rate { per_s: u64::MAX, burst: u64::MAX });
        assert_eq!(taken(&mut fast, NOW, CommandKind::Cancel), 10_000);
    }

    #[test]
    fn who_is_refused_too_much_rests_for_a_moment() {
        let mut of = throttles(Rate { per_s: 10, burst: 5 });
        (0..10).for_each(|_| of.note_refusal(NOW, ONE));
        assert!(!of.rests(ONE) && of.next_timeout() == Nanos::NEVER);
        (0..10).for_each(|_| of.note_refusal(NOW, ONE));
        assert!(of.rests(ONE) && !of.rests(AccountId(2)));
        let over = NOW.after(REST_NS);
        assert_eq!(of.next_timeout(), over);
        of.wake(Nanos(over.0 - 1));
        assert!(of.rests(ONE));
        of.wake(over);
        assert!(!of.rests(ONE) && of.next_timeout() == Nanos::NEVER);
        // Without a rate nobody ever rests.
        let mut of = throttles(Rate::UNLIMITED);
        (0..1_000).for_each(|_| of.note_refusal(NOW, ONE));
        assert!(!of.rests(ONE));
    }

    #[test]
    fn a_clock_that_stands_still_fills_nothing() {
        let mut of = throttles(Rate { per_s: 10, burst: 5 });
        assert_eq!(taken(&mut of, NOW, CommandKind::NewOrder), 5);
        assert_eq!(taken(&mut of, Nanos(0), CommandKind::NewOrder), 0);
        assert_eq!((0..100).filter(|_| of.take_refusal(NOW, ONE)).count(), 10);
    }
}
