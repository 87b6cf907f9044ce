//! When to give up waiting for an acknowledgement: the estimator of RFC 6298 in integers.
//!
//! A sample is the time from the copy that was taken to the acknowledgement that names it, so
//! re-sent messages give samples too (as the timestamps of RFC 7323 do, and unlike under Karn's
//! rule): a path that becomes slower than the timeout is found out within one of its round trips.
//! When timeouts come and no sample does, the timeout may be too short, so it doubles, but at most
//! twice: under heavy loss samples can be absent for long, and waiting ever longer would keep them
//! away. Beyond that the backoff of each message alone finds the path's time.
//!
//! Samples come several to a round trip, so the deviation grows as the RFC says and shrinks eight
//! times slower: a machine that stood still once will do so again.

/// Smoothed round-trip time and the timeout derived from it, all in nanoseconds.
#[derive(Clone, Debug)]
pub struct RoundTrip {
    initial_ns: u64,
    floor_ns: u64,
    ceiling_ns: u64,
    /// Smoothed time and mean deviation; `None` before the first sample.
    smoothed: Option<(u64, u64)>,
    /// Doublings because timeouts came without any sample between them.
    doublings: u32,
}

/// Most doublings of the common timeout.
const DOUBLINGS_MAX: u32 = 2;
/// Doublings for one message: more than any ceiling needs, and in range for shifts.
const BACKOFF_MAX: u32 = 16;
/// A measured path may be so much slower than the ceiling of the backoff.
const MEASURED_CEILINGS: u64 = 10;

impl RoundTrip {
    /// Timeouts start at `initial_ns`, are never below `floor_ns`, and by backoff alone never above
    /// `ceiling_ns`; a path measured to be slower than that is waited for, up to ten ceilings.
    pub fn new(initial_ns: u64, floor_ns: u64, ceiling_ns: u64) -> RoundTrip {
        let ceiling_ns = ceiling_ns.max(floor_ns);
        RoundTrip { initial_ns, floor_ns, ceiling_ns, smoothed: None, doublings: 0 }
    }

    /// A copy was answered `rtt_ns` after it was sent (RFC 6298 §2.2, §2.3).
    pub fn sample(&mut self, rtt_ns: u64) {
        // A sample beyond what is ever waited for teaches nothing more.
        let rtt = rtt_ns.min(self.slowest_ns());
        self.doublings = 0;
        self.smoothed = Some(match self.smoothed {
            None => (rtt, rtt / 2),
            Some((srtt, var)) => {
                let off = srtt.abs_diff(rtt);
                let gain = if off > var { 4 } else { 32 };
                (srtt - srtt / 8 + rtt / 8, var - var / gain + off / gain)
            }
        });
    }

    /// A message was not answered in time.
    pub fn timed_out(&mut self) {
        self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
    }

    /// What was not answered says nothing of the path as it is from now on.
    pub fn forgive(&mut self) {
        self.doublings = 0;
    }

    /// How often the timeout of what is sent now for the first time is doubled.
    pub fn doublings(&self) -> u32 {
        self.doublings
    }

    /// The common timeout doubled `shift` times.
    pub fn timeout_ns(&self, shift: u32) -> u64 {
        let base = match self.smoothed {
            None => self.initial_ns.min(self.ceiling_ns),
            // Never less than an eighth: on a path without jitter the deviation dies out.
            Some((srtt, var)) => srtt.saturating_add(var.saturating_mul(4).max(srtt / 8)),
        };
        let base = base.clamp(self.floor_ns, self.slowest_ns());
        base.saturating_mul(1 << shift.min(BACKOFF_MAX)).min(self.ceiling_ns.max(base))
    }

    fn slowest_ns(&self) -> u64 {
        self.ceiling_ns.saturating_mul(MEASURED_CEILINGS)
    }
}

#[cfg(test)]
mod tests {
    use super::RoundTrip;

    #[test]
    fn follows_the_path_and_backs_off() {
        let mut rtt = RoundTrip::new(30_000, 10_000, 200_000);
        let shifts = [0, 1, 9].map(|shift| rtt.timeout_ns(shift));
        assert_eq!(shifts, [30_000, 60_000, 200_000]);
        rtt.sample(40_000);
        assert_eq!(rtt.timeout_ns(0), 40_000 + 4 * 20_000);
        (0..200).for_each(|_| rtt.sample(40_000));
        let steady = rtt.timeout_ns(0);
        assert!((45_000..46_000).contains(&steady), "{steady}");
        rtt.timed_out();
        assert_eq!(rtt.timeout_ns(rtt.doublings()), 2 * steady);
        rtt.sample(40_000);
        assert_eq!(rtt.doublings(), 0);
        (0..500).for_each(|_| rtt.sample(0));
        assert_eq!(rtt.timeout_ns(0), 10_000, "never below the floor");
        (0..100).for_each(|_| rtt.timed_out());
        assert_eq!(rtt.timeout_ns(rtt.doublings()), 40_000, "two doublings");
        assert_eq!(rtt.timeout_ns(u32::MAX), 200_000, "backoff never goes above the ceiling");
        (0..100).for_each(|_| rtt.sample(700_000));
        assert!((700_000..1_500_000).contains(&rtt.timeout_ns(0)), "a slow path is waited for");
        assert_eq!(rtt.timeout_ns(0), rtt.timeout_ns(9), "but not longer");
        (0..100).for_each(|_| rtt.sample(u64::MAX));
        assert_eq!(rtt.timeout_ns(0), 2_000_000);
    }

    #[test]
    fn one_sample_of_a_path_that_became_slow_is_enough() {
        let mut rtt = RoundTrip::new(30_000, 10_000, 200_000);
        (0..100).for_each(|_| rtt.sample(1_000));
        assert_eq!(rtt.timeout_ns(0), 10_000);
        rtt.sample(80_000);
        assert!(rtt.timeout_ns(0) > 80_000, "{}", rtt.timeout_ns(0));
    }
}
