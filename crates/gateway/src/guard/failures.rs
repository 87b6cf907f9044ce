//! A counter of failures, by the caller's clock.

use types::Nanos;

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
    use super::*;

    const START: Nanos = Nanos(1_000 * Nanos::SECOND);

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
}
