//! Credits that come back evenly, two seconds' worth at most: what a key or an address may ask for.

/// Seconds' worth of credits that may be saved up.
pub(crate) const SAVED_S: u64 = 2;

/// Credits of one key or address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// Credits at `at_ms`, in thousandths of one; below zero after an answer that cost more than was left.
    thousandths: i64,
    /// When that was so, ms since the epoch.
    at_ms: u64,
}

/// Most thousandths that can be saved up where so many credits come back in a second.
fn most(per_s: u32) -> i64 {
    i64::from(per_s) * 1_000 * SAVED_S as i64
}

impl Bucket {
    /// All the credits that can be saved up where so many come back in a second.
    pub fn full(per_s: u32, now_ms: u64) -> Bucket {
        Bucket { thousandths: most(per_s), at_ms: now_ms }
    }

    /// Thousandths of a credit now; below zero where some are owed. A clock that is set back gives nothing.
    pub fn thousandths(&self, per_s: u32, now_ms: u64) -> i64 {
        let back = now_ms.saturating_sub(self.at_ms).saturating_mul(u64::from(per_s));
        self.thousandths.saturating_add_unsigned(back).min(most(per_s))
    }

    /// Whether it has all that can be saved up.
    pub fn is_full(&self, per_s: u32, now_ms: u64) -> bool {
        self.thousandths(per_s, now_ms) == most(per_s)
    }

    /// Takes so many credits if there are as many; what is left then, or is left without, in thousandths.
    ///
    /// # Errors
    /// There are fewer.
    pub fn take(&mut self, per_s: u32, now_ms: u64, cost: u32) -> Result<i64, i64> {
        let now = self.thousandths(per_s, now_ms);
        let left = now - i64::from(cost) * 1_000;
        if left < 0 && cost > 0 {
            return Err(now);
        }
        *self = Bucket { thousandths: left, at_ms: now_ms.max(self.at_ms) };
        Ok(left)
    }

    /// Takes so many credits, whether there are as many or not.
    pub fn owe(&mut self, cost: u64) {
        let cost = i64::try_from(cost.saturating_mul(1_000)).unwrap_or(i64::MAX);
        self.thousandths = self.thousandths.saturating_sub(cost);
    }
}
