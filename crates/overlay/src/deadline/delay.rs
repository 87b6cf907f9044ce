//! One-way delays as one receiver sees them, for the deadline all-reduce (Jasper §8, appendix E).
//!
//! A receiver keeps the delay of the first copy of each of the last `window` datagrams and reports
//! a percentile of them (the paper: the 95th) once a round. A round in which nothing came keeps the
//! last estimate, a little smaller each time, and after [`EMPTY_ROUNDS_MAX`] of them the receiver
//! reports nothing: who hears nothing has no say (corner 15).

/// Part of each thousand of the samples that the paper's estimate covers.
pub const PERMILLE: u32 = 950;
/// Rounds without a sample after which an estimate is given up.
pub const EMPTY_ROUNDS_MAX: u32 = 64;
/// An empty round takes 1 / 2^this off the estimate.
const DECAY_SHIFT: u32 = 6;

/// Percentile of the last one-way delays of a receiver.
pub struct OwdEstimator {
    samples: Vec<u64>,
    scratch: Vec<u64>,
    window: usize,
    permille: usize,
    next: usize,
    fresh: bool,
    estimate_ns: Option<u64>,
    empty_rounds: u32,
}

impl OwdEstimator {
    /// An estimator over the last `window` samples (at least 1) that covers `permille` of each
    /// thousand (1 to 1,000).
    pub fn new(window: usize, permille: u32) -> OwdEstimator {
        let window = window.max(1);
        let permille = permille.clamp(1, 1_000) as usize;
        OwdEstimator {
            samples: Vec::with_capacity(window),
            scratch: Vec::with_capacity(window),
            window,
            permille,
            next: 0,
            fresh: false,
            estimate_ns: None,
            empty_rounds: 0,
        }
    }

    /// Adds one measured one-way delay, ns.
    pub fn sample(&mut self, owd_ns: u64) {
        if self.samples.len() < self.window {
            self.samples.push(owd_ns);
        } else {
            self.samples[self.next] = owd_ns;
        }
        self.next = (self.next + 1) % self.window;
        self.fresh = true;
    }

    /// The estimate of the last closed round.
    pub fn estimate_ns(&self) -> Option<u64> {
        self.estimate_ns
    }

    /// What covers `permille` of each thousand (1 to 1,000) of the window; `None` without samples.
    pub fn percentile_ns(&mut self, permille: u32) -> Option<u64> {
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.samples);
        let permille = permille.clamp(1, 1_000) as usize;
        let rank = (self.scratch.len() * permille).div_ceil(1_000).checked_sub(1)?;
        Some(*self.scratch.select_nth_unstable(rank).1)
    }

    /// Closes a round and gives its estimate.
    pub fn close_round(&mut self) -> Option<u64> {
        if std::mem::take(&mut self.fresh) {
            self.empty_rounds = 0;
            self.estimate_ns = self.percentile_ns(self.permille as u32);
        } else {
            self.empty_rounds += 1;
            let kept = |ns: u64| ns - (ns >> DECAY_SHIFT);
            self.estimate_ns = self.estimate_ns.map(kept);
            if self.empty_rounds >= EMPTY_ROUNDS_MAX {
                self.estimate_ns = None;
            }
        }
        self.estimate_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_95th_percentile_of_the_last_window() {
        let mut estimator = OwdEstimator::new(100, PERMILLE);
        assert_eq!(estimator.close_round(), None);
        (1..=1_000).for_each(|ns| estimator.sample(ns));
        assert_eq!(estimator.close_round(), Some(995), "901..=1000 are left, 995 is the 95th");
        estimator.sample(1);
        assert_eq!(estimator.close_round(), Some(995));
    }

    #[test]
    fn few_samples_give_their_maximum() {
        let mut estimator = OwdEstimator::new(1_000, PERMILLE);
        [5, 9, 7].into_iter().for_each(|ns| estimator.sample(ns));
        assert_eq!(estimator.close_round(), Some(9));
    }

    #[test]
    fn empty_rounds_shrink_the_estimate_and_end_it() {
        let mut estimator = OwdEstimator::new(10, PERMILLE);
        estimator.sample(64_000);
        assert_eq!(estimator.close_round(), Some(64_000));
        assert_eq!(estimator.close_round(), Some(63_000));
        let rest: Vec<_> = (0..100).map(|_| estimator.close_round()).collect();
        assert!(rest[61].is_some() && rest[62..].iter().all(Option::is_none));
        estimator.sample(5);
        assert_eq!(estimator.close_round(), Some(64_000), "the window remembers");
    }
}
