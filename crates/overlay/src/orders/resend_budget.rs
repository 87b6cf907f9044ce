//! How many re-sends a sender may make: a token bucket, so that re-sends never feed on themselves.
//!
//! A re-send is worth its cost when the copies before it were lost and makes things worse when they
//! only wait in a queue. Which of the two it was is known afterwards: the receiver counts the
//! messages of which a re-sent copy was the first to come. So a useful re-send pays for itself and
//! for another one, and recovery from loss doubles with every round trip until it has all it needs;
//! useless ones live on a share of the new messages and a small constant rate. It is full at the
//! start, enough to send everything once more that one acknowledgement can speak of.

use types::Nanos;

/// Settings of the budget for re-sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BudgetConfig {
    /// Number of re-sends allowed per thousand new messages.
    pub share_permille: u32,
    /// Re-sends per second besides: what probes a path that has lost everything.
    pub per_second: u32,
    /// Most re-sends that can be saved up.
    pub burst: u32,
}

impl Default for BudgetConfig {
    /// A tenth of the new messages, 50 per second besides, 256 at once.
    fn default() -> Self {
        BudgetConfig { share_permille: 100, per_second: 50, burst: 256 }
    }
}

/// Tokens are counted in billionths, so that nanoseconds earn whole ones.
const TOKEN: u64 = 1_000_000_000;
/// Tokens given back for a re-send that was necessary: its own and one more.
const USEFUL_TOKENS: u64 = 2;
/// Longest time that earns at once, far beyond what fills any sensible bucket.
const EARNING_MAX_NS: u64 = 60 * Nanos::SECOND;

/// Token bucket that bounds re-sends by the number of new messages.
#[derive(Clone, Debug)]
pub struct ResendBudget {
    config: BudgetConfig,
    filled: u64,
    /// Until when time has been counted; `None` before the first reading.
    counted: Option<Nanos>,
}

impl ResendBudget {
    /// A budget with a full bucket.
    pub fn new(config: BudgetConfig) -> ResendBudget {
        let mut budget = ResendBudget { config, filled: 0, counted: None };
        budget.filled = budget.most();
        budget
    }

    /// Counts a new message, which adds to the budget.
    pub fn sent(&mut self) {
        self.earn(u64::from(self.config.share_permille) * (TOKEN / 1_000));
    }

    /// Gives tokens back for this many re-sends that were necessary.
    pub fn useful(&mut self, resends: u32) {
        self.earn((u64::from(resends) * USEFUL_TOKENS).saturating_mul(TOKEN));
    }

    /// Fills the bucket as at the start, after another root has taken over.
    pub fn refill(&mut self) {
        self.filled = self.most();
    }

    /// Pays for one re-send; false when there is nothing to pay with.
    pub fn pay(&mut self, now: Nanos) -> bool {
        let since = self.counted.map_or(0, |counted| now - counted).min(EARNING_MAX_NS);
        self.counted = Some(self.counted.map_or(now, |counted| counted.max(now)));
        self.earn(since.saturating_mul(self.config.per_second.into()));
        let pays = self.filled >= TOKEN;
        self.filled -= if pays { TOKEN } else { 0 };
        pays
    }

    /// When time alone will have earned the next re-send, as of the last [`ResendBudget::pay`].
    pub fn next_at(&self) -> Nanos {
        let missing = TOKEN.saturating_sub(self.filled);
        match (self.counted, self.config.per_second) {
            (None, _) => Nanos(0),
            (Some(_), 0) => Nanos::NEVER,
            (Some(counted), rate) => counted.after(missing.div_ceil(rate.into())),
        }
    }

    fn most(&self) -> u64 {
        u64::from(self.config.burst.max(1)) * TOKEN
    }

    fn earn(&mut self, billionths: u64) {
        self.filled = self.filled.saturating_add(billionths).min(self.most());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: Nanos = Nanos(1_790_000_000_000_000_000);

    #[test]
    fn earns_by_messages_by_time_and_by_use() {
        let config = BudgetConfig { share_permille: 100, per_second: 50, burst: 4 };
        let mut budget = ResendBudget::new(config);
        let paid = |budget: &mut ResendBudget, ms: u64| {
            (0..100).filter(|_| budget.pay(START + ms * Nanos::MILLI)).count()
        };
        assert_eq!(paid(&mut budget, 0), 4, "full at the start");
        assert_eq!(budget.next_at(), START + 20 * Nanos::MILLI);
        assert_eq!(paid(&mut budget, 19), 0);
        assert_eq!(paid(&mut budget, 20), 1);
        (0..10).for_each(|_| budget.sent());
        assert_eq!(paid(&mut budget, 20), 1);
        budget.useful(1);
        assert_eq!(paid(&mut budget, 20), 2);
        budget.useful(u32::MAX);
        assert_eq!(paid(&mut budget, 20), 4, "never more than the burst");
        assert_eq!(paid(&mut budget, 10), 0, "a clock that went back earns nothing");
        let mut none = ResendBudget::new(BudgetConfig { per_second: 0, ..config });
        assert_eq!((paid(&mut none, 0), none.next_at()), (4, Nanos::NEVER));
    }

    proptest! {
        #[test]
        fn never_more_than_was_earned(steps in prop::collection::vec((0u64..5, 0u64..40), 1..300)) {
            let config = BudgetConfig { share_permille: 100, per_second: 50, burst: 16 };
            let (mut budget, mut now) = (ResendBudget::new(config), START);
            let (mut paid, mut earned_permille) = (0, 16_000);
            for (kind, amount) in steps {
                match kind {
                    0 => {
                        now = now + amount * Nanos::MILLI;
                        earned_permille += amount * 50;
                    }
                    1 => (0..amount).for_each(|_| { budget.sent(); earned_permille += 100; }),
                    2 => { budget.useful(1); earned_permille += 2_000; }
                    _ => paid += (0..amount).filter(|_| budget.pay(now)).count() as u64,
                }
                prop_assert!(paid * 1_000 <= earned_permille);
            }
        }
    }
}
