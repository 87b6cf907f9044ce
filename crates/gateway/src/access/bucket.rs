//! The token bucket of everything that has a rate at a gateway: requests, attempts to log on,
//! passwords to be hashed, slots of FIX sessions. By the caller's clock.

use types::Nanos;

/// A bucket's size and how fast it fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rate {
    /// How many per second in the long run; 0: no limit. The time for one is whole nanoseconds, so
    /// rates that don't divide a second evenly are a little higher.
    pub per_s: u64,
    /// How many at once; 0: as many as in a second.
    pub burst: u64,
}

impl Rate {
    /// Any number.
    pub const UNLIMITED: Rate = Rate { per_s: 0, burst: 0 };
}

/// What is left of a rate: the time at which the bucket is full again. One that has no limit is
/// always full.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    /// Time that one takes; 0: none.
    each_ns: u64,
    /// Time that all of a full bucket take.
    room_ns: u64,
    full_at: Nanos,
}

impl Bucket {
    /// A full one.
    pub(crate) fn new(rate: Rate) -> Bucket {
        let Some(each_ns) = Nanos::SECOND.checked_div(rate.per_s) else { return Bucket::default() };
        let burst = if rate.burst == 0 { rate.per_s } else { rate.burst };
        Bucket::every(each_ns, burst)
    }

    /// A full one of `burst` that gets one more in each `each_ns`; 0: it has no limit.
    pub(crate) fn every(each_ns: u64, burst: u64) -> Bucket {
        Bucket { each_ns, room_ns: each_ns.saturating_mul(burst), full_at: Nanos(0) }
    }

    /// When it is full again if one is taken.
    fn without_one(&self, now: Nanos) -> Nanos {
        self.full_at.max(now).after(self.each_ns)
    }

    /// Whether one is left.
    pub(crate) fn has(&self, now: Nanos) -> bool {
        self.without_one(now).since(now) <= self.room_ns
    }

    /// Takes one; false when there is none.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos) -> bool {
        let full_at = self.without_one(now);
        let taken = full_at.since(now) <= self.room_ns;
        if taken {
            self.full_at = full_at;
        }
        taken
    }

    /// Gives one back.
    pub(crate) fn give_back(&mut self) {
        self.full_at = Nanos(self.full_at.0.saturating_sub(self.each_ns));
    }

    /// When there will be one, if nothing is taken until then.
    pub(crate) fn next(&self) -> Nanos {
        Nanos(self.full_at.after(self.each_ns).0.saturating_sub(self.room_ns))
    }

    /// As full as it can be.
    pub(crate) fn is_full(&self, now: Nanos) -> bool {
        self.full_at <= now
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const START: Nanos = Nanos(1_000 * Nanos::SECOND);

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::new(Rate { burst: 3, per_s: 2 });
        let mut takes = |now: Nanos| (0..10).filter(|_| bucket.take(now)).count();
        assert_eq!((takes(START), takes(START)), (3, 0));
        assert_eq!(takes(START.after(Nanos::SECOND)), 2);
        assert_eq!(takes(START.after(60 * Nanos::SECOND)), 3);
        let next = bucket.next();
        assert!(!bucket.has(Nanos(next.0 - 1)) && bucket.has(next));
        assert!(!bucket.is_full(next));
        bucket.give_back();
        assert!(bucket.has(Nanos(next.0 - 1)), "one is back");
        assert!(bucket.is_full(START.after(120 * Nanos::SECOND)));
    }

    #[test]
    fn without_a_rate_there_is_always_one() {
        let mut bucket = Bucket::new(Rate::UNLIMITED);
        assert!((0..1_000).all(|_| bucket.has(START) && bucket.take(START)));
        assert!(bucket.is_full(START) && bucket.next() <= START);
    }

    proptest! {
        #[test]
        fn never_more_than_burst_and_rate_allow(
            burst in 1u64..20, per_s in 1u64..50, steps in vec(0u64..400_000_000, 1..200),
        ) {
            let mut bucket = Bucket::new(Rate { burst, per_s });
            let (mut now, mut taken) = (START, 0u64);
            for step in steps {
                now = now.after(step);
                let has = bucket.has(now);
                prop_assert_eq!(bucket.take(now), has);
                taken += u64::from(has);
            }
            let most = burst + now.since(START) * per_s / Nanos::SECOND + 1;
            prop_assert!(taken <= most, "{taken} of {most}");
        }
    }
}
