//! How many requests an account may send: a bucket for orders, another one for cancels.
//!
//! Judged by the gateway's own clock before a request has a transport number, and never logged
//! (corner 20); the engine's message limit is a rule of the log besides. Cancels have a bucket of
//! their own, so that however many orders come, cancels still get through. Buckets are kept by
//! account: logging in again at this gateway buys nothing.

use types::{AccountId, CommandKind, Nanos};

use crate::bucket::{Bucket, Rate};

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
}

/// All accounts' buckets.
#[derive(Debug)]
pub(crate) struct Throttles {
    /// By account number.
    accounts: Vec<Buckets>,
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
                };
            }
        }
        Throttles { accounts }
    }

    /// Whether one more request may go on; takes it from its bucket.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos, account: AccountId, kind: CommandKind) -> bool {
        let Some(buckets) = self.accounts.get_mut(usize::from(account.0)) else { return true };
        match kind {
            CommandKind::Cancel | CommandKind::MassCancel => buckets.cancels.take(now),
            _ => buckets.orders.take(now),
        }
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
    fn a_clock_that_stands_still_fills_nothing() {
        let mut of = throttles(Rate { per_s: 10, burst: 5 });
        assert_eq!(taken(&mut of, NOW, CommandKind::NewOrder), 5);
        assert_eq!(taken(&mut of, Nanos(0), CommandKind::NewOrder), 0);
        assert_eq!((0..100).filter(|_| of.take_refusal(NOW, ONE)).count(), 10);
    }
}
