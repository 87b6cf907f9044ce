//! When to give up waiting for an acknowledgement: the estimator of RFC 6298 in integers.
//!
//! Only messages sent once give samples (Karn): of a re-sent one nobody knows which copy was
//! answered. When nothing but re-sent messages is ever answered, the timeout may be too short for
//! the path, so it doubles, but at most twice: under heavy loss clean samples can
//! be absent for long, and waiting ever longer would keep them away. Beyond that the backoff of
//! each message alone finds the path's time.

/// Smoothed round-trip time and the timeout derived from it, all in nanoseconds.
#[derive(Clone, Debug)]
pub struct RoundTrip {
    initial_ns: u64,
    floor_ns: u64,
    ceiling_ns: u64,
    /// Smoothed time and mean deviation; `None` before the first sample.
    smoothed: Option<(u64, u64)>,
    /// Doublings because timeouts came without any clean sample between them.
    doublings: u32,
}

/// Doublings of the common timeout.
const DOUBLINGS_MAX: u32 = 2;
/// Doublings for one message: more than any ceiling needs, and in range for shifts.
const BACKOFF_MAX: u32 = 16;

impl RoundTrip {
    /// Timeouts start at `initial_ns` and stay within `floor_ns ..= ceiling_ns`.
    pub fn new(initial_ns: u64, floor_ns: u64, ceiling_ns: u64) -> RoundTrip {
        let ceiling_ns = ceiling_ns.max(floor_ns);
        RoundTrip { initial_ns, floor_ns, ceiling_ns, smoothed: None, doublings: 0 }
    }

    /// A message sent once was answered after `rtt_ns` (RFC 6298 §2.2, §2.3).
    pub fn sample(&mut self, rtt_ns: u64) {
        // A sample beyond the ceiling teaches nothing more than the ceiling does.
        let rtt = rtt_ns.min(self.ceiling_ns);
        self.doublings = 0;
        self.smoothed = Some(match self.smoothed {
            None => (rtt, rtt / 2),
            Some((srtt, var)) => {
                (srtt - srtt / 8 + rtt / 8, var - var / 4 + srtt.abs_diff(rtt) / 4)
            }
        });
    }

    /// A message sent once was not answered in time.
    pub fn timed_out(&mut self) {
        self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
    }

    /// How long to wait for the answer to a message that has been sent `attempt + 1` times.
    pub fn timeout_ns(&self, attempt: u32) -> u64 {
        let base = match self.smoothed {
            None => self.initial_ns,
            Some((srtt, var)) => srtt.saturating_add(var.saturating_mul(4)),
        };
        let shift = (self.doublings + attempt.min(BACKOFF_MAX)).min(BACKOFF_MAX);
        let base = base.clamp(self.floor_ns, self.ceiling_ns);
        base.saturating_mul(1 << shift).min(self.ceiling_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::RoundTrip;

    #[test]
    fn follows_the_path_and_backs_off() {
        let mut rtt = RoundTrip::new(30_000, 10_000, 200_000);
        let attempts = [0, 1, 9].map(|attempt| rtt.timeout_ns(attempt));
        assert_eq!(attempts, [30_000, 60_000, 200_000]);
        rtt.sample(40_000);
        assert_eq!(rtt.timeout_ns(0), 40_000 + 4 * 20_000);
        (0..50).for_each(|_| rtt.sample(40_000));
        let steady = rtt.timeout_ns(0);
        assert!((40_000..41_000).contains(&steady), "{steady}");
        rtt.timed_out();
        assert_eq!(rtt.timeout_ns(0), 2 * steady);
        rtt.sample(40_000);
        assert!(rtt.timeout_ns(0) <= steady);
        (0..200).for_each(|_| rtt.sample(0));
        assert_eq!(rtt.timeout_ns(0), 10_000, "never below the floor");
        (0..100).for_each(|_| rtt.timed_out());
        assert_eq!(rtt.timeout_ns(0), 40_000, "two doublings");
        assert_eq!(rtt.timeout_ns(u32::MAX), 200_000, "never above the ceiling");
        (0..100).for_each(|_| rtt.sample(u64::MAX));
        assert_eq!(rtt.timeout_ns(0), 200_000);
    }
}
