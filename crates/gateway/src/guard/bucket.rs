//! A token bucket and a counter of failures, by the caller's clock.

use types::Nanos;

use super::terms::TryRate;

/// Allows so many at once and so many more a second. Counts in nanoseconds' worth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    each_ns: u64,
    most_ns: u64,
    left_ns: u64,
    counted_at: Nanos,
}

impl Bucket {
    /// A full one. A rate of 0 a second never fills again.
    pub fn new(rate: TryRate) -> Bucket {
        let each_ns = Nanos::SECOND.checked_div(rate.per_s.into()).unwrap_or(u64::MAX / 2);
        let each_ns = each_ns.max(1);
        let most_ns = each_ns.saturating_mul(rate.burst.into());
        Bucket { each_ns, most_ns, left_ns: most_ns, counted_at: Nanos(0) }
    }

    fn fill(&mut self, now: Nanos) {
        let more = now.since(self.counted_at);
        self.counted_at = self.counted_at.max(now);
        self.left_ns = self.left_ns.saturating_add(more).min(self.most_ns);
    }

    /// Whether one is left.
    pub fn has(&mut self, now: Nanos) -> bool {
        self.fill(now);
        self.left_ns >= self.each_ns
    }

    /// Takes one, if one is left.
    pub fn take(&mut self, now: Nanos) {
        if self.has(now) {
            self.left_ns -= self.each_ns;
        }
    }

    /// Gives one back.
    pub fn give_back(&mut self) {
        self.left_ns = self.left_ns.saturating_add(self.each_ns).min(self.most_ns);
    }

    /// When there will be one.
    pub fn next(&self) -> Nanos {
        self.counted_at.after(self.each_ns.saturating_sub(self.left_ns))
    }

    /// As full as it can be.
    pub fn is_full(&mut self, now: Nanos) -> bool {
        self.fill(now);
        self.left_ns >= self.most_ns
    }
}

/// Failures of late, and the lockout they led to.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Failures {
    count: u32,
    since: Nanos,
    locked_until: Nanos,
}

impl Failures {
    /// One more; true when that locks. Failures older than `window_ns` are forgotten, all together.
    pub fn note(&mut self, now: Nanos, most: u32, window_ns: u64) -> bool {
        if now.since(self.since) >= window_ns {
            *self = Failures { since: now, ..Failures::default() };
        }
        self.count += 1;
        let locks = most > 0 && self.count >= most;
        if locks {
            *self = Failures { locked_until: now.after(window_ns), ..Failures::default() };
        }
        locks
    }

    pub fn is_locked(&self, now: Nanos) -> bool {
        now < self.locked_until
    }

    /// Nothing of it matters any more.
    pub fn is_over(&self, now: Nanos, window_ns: u64) -> bool {
        !self.is_locked(now) && (self.count == 0 || now.since(self.since) >= window_ns)
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
        let mut bucket = Bucket::new(TryRate { burst: 3, per_s: 2 });
        let mut takes = |now: Nanos| {
            (0..10).filter(|_| bucket.has(now).then(|| bucket.take(now)).is_some()).count()
        };
        assert_eq!((takes(START), takes(START)), (3, 0));
        assert_eq!(takes(START.after(Nanos::SECOND)), 2);
        assert_eq!(takes(START.after(60 * Nanos::SECOND)), 3);
        let next = bucket.next();
        assert!(!bucket.has(Nanos(next.0 - 1)) && bucket.has(next));
        let mut never = Bucket::new(TryRate { burst: 0, per_s: 0 });
        assert!(!never.has(START.after(u64::MAX / 4)));
    }

    #[test]
    fn failures_lock_for_a_time_and_are_forgotten() {
        let (mut failures, window) = (Failures::default(), 30 * Nanos::SECOND);
        assert!(!failures.note(START, 3, window) && !failures.note(START, 3, window));
        assert!(failures.note(START, 3, window) && failures.is_locked(START));
        assert!(!failures.is_locked(START.after(window)));
        assert!(failures.is_over(START.after(window), window));
        assert!(!failures.note(START.after(window), 3, window), "it begins anew");
        let late = START.after(3 * window);
        assert!(!failures.note(late, 2, window), "the first of these is forgotten");
        let mut off = Failures::default();
        assert!((0..100).all(|_| !off.note(START, 0, window)), "0 never locks");
    }

    proptest! {
        #[test]
        fn never_more_than_burst_and_rate_allow(
            burst in 0u32..20, per_s in 1u32..50, steps in vec(0u64..400_000_000, 1..200),
        ) {
            let mut bucket = Bucket::new(TryRate { burst, per_s });
            let (mut now, mut taken) = (START, 0u64);
            for step in steps {
                now = now.after(step);
                if bucket.has(now) {
                    bucket.take(now);
                    taken += 1;
                }
            }
            let most = u64::from(burst) + now.since(START) * u64::from(per_s) / Nanos::SECOND + 1;
            prop_assert!(taken <= most, "{taken} of {most}");
        }
    }
}
