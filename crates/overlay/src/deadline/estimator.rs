//! From what receivers report to the delay that deadlines allow (Jasper §8; decisions on P(F)).
//!
//! * [`Estimator::MaxOfPercentiles`], the paper's: the maximum of the receivers' percentiles. The
//!   chances to miss add up over receivers, so P(F) falls as they get more.
//! * [`Estimator::MessagePercentile`]: a percentile of the per-message maximum over receivers, from
//!   sampled messages. A message that some reporting receiver lacks counts as infinitely late.
//! * [`Estimator::MissRate`]: closes the loop on one bit per sampled message, "somebody was late",
//!   by stochastic approximation (Robbins and Monro): with target P a miss widens the window by
//!   g P of itself, a hit narrows it by g (1 - P), which rests where misses are 1 - P. The step g
//!   falls from 1/16 to 1/128, so that changes of the network are followed, and all samples of a
//!   round together move the window by a quarter at most. This one sees head-of-line blocking and
//!   clock error too, which delays do not show.
//!
//! All integer, deterministic, and blind to everything but reports. Both new ones use the paper's
//! value until they have [`SAMPLES_LEAST`] samples; caps are applied before values get here.

use crate::deadline::samples::{SAMPLE_MISSED, SAMPLE_STAMPED, Sample};

/// Samples before a sampled estimate counts.
pub const SAMPLES_LEAST: usize = 32;
/// Largest window of the message percentile.
const WINDOW_MAX: usize = 16_384;
/// Fraction bits of the controlled window.
const FRACTION: u32 = 16;
/// 1 / g at the beginning, and what it grows to, one step every [`GAIN_AGE`] samples.
const GAIN_FIRST: u64 = 16;
const GAIN_LAST: u64 = 128;
const GAIN_AGE: u64 = 4;
/// 1 / g is at least this times the samples of the round: they are of messages that were all sent
/// with the same window, several rounds ago, and must not each move it as if they were news.
const GAIN_ROUND: u64 = 4;

/// How the fleet's delay is estimated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Estimator {
    /// The maximum of the receivers' own percentiles.
    #[default]
    MaxOfPercentiles,
    /// Percentile of the maxima over all receivers of each message, permille (1..=1000).
    MessagePercentile {
        /// Part of a thousand, 1 to 1,000.
        permille: u16,
        /// Over so many of the last sampled messages.
        window: u16,
    },
    /// Share of messages that no receiver gets late, permille (1..=1000).
    MissRate {
        /// Part of a thousand, 1 to 999.
        permille: u16,
    },
}

impl Estimator {
    /// Whether receivers have to send samples of single messages for it.
    pub fn samples(self) -> bool {
        self != Estimator::MaxOfPercentiles
    }
}

/// State of the estimator that the root uses.
#[derive(Clone, Debug)]
pub struct EstimatorState {
    kind: Estimator,
    cap_ns: u64,
    /// Maxima of the last sampled messages.
    maxima: Vec<u64>,
    scratch: Vec<u64>,
    window: usize,
    next: usize,
    /// The controlled window, with [`FRACTION`] fraction bits; 0 before it starts.
    controlled: u64,
    /// Number of samples that were used.
    taken: u64,
    missed: u64,
}

impl EstimatorState {
    /// No sample yet; no estimate is ever above `cap_ns`.
    pub fn new(kind: Estimator, cap_ns: u64) -> EstimatorState {
        let window = match kind {
            Estimator::MessagePercentile { window, .. } => {
                usize::from(window).clamp(SAMPLES_LEAST, WINDOW_MAX)
            }
            _ => 0,
        };
        EstimatorState {
            kind,
            cap_ns,
            maxima: Vec::with_capacity(window),
            scratch: Vec::with_capacity(window),
            window,
            next: 0,
            controlled: 0,
            taken: 0,
            missed: 0,
        }
    }

    /// Number of samples that were used.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Number of those messages that some receiver got late or not at all.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Takes the samples of a round that `reporters` receivers reported in, whose maximum of
    /// percentiles is `owd_ns`; returns the delay to allow, in ns.
    pub fn round(&mut self, owd_ns: u64, reporters: u32, samples: &[Sample]) -> u64 {
        match self.kind {
            Estimator::MaxOfPercentiles => owd_ns,
            Estimator::MessagePercentile { permille, .. } => {
                samples.iter().for_each(|sample| self.keep(sample, reporters));
                self.percentile(permille).unwrap_or(owd_ns)
            }
            Estimator::MissRate { permille } => {
                if self.controlled == 0 {
                    self.controlled = owd_ns.max(1).min(self.cap_ns) << FRACTION;
                }
                let steepness = (GAIN_FIRST + self.taken / GAIN_AGE).min(GAIN_LAST);
                let steepness = steepness.max(GAIN_ROUND * samples.len() as u64);
                let mut steer = |sample| self.steer(sample, reporters, permille, steepness);
                samples.iter().for_each(&mut steer);
                self.controlled >> FRACTION
            }
        }
    }

    fn keep(&mut self, sample: &Sample, reporters: u32) {
        let lost = u32::from(sample.receivers) < reporters;
        let owd_ns = if lost { self.cap_ns } else { u64::from(sample.owd_ns).min(self.cap_ns) };
        self.taken += 1;
        self.missed += u64::from(lost || sample.flags & SAMPLE_MISSED != 0);
        if self.maxima.len() < self.window {
            self.maxima.push(owd_ns);
        } else {
            self.maxima[self.next] = owd_ns;
        }
        self.next = (self.next + 1) % self.window;
    }

    fn percentile(&mut self, permille: u16) -> Option<u64> {
        if self.maxima.len() < SAMPLES_LEAST {
            return None;
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.maxima);
        let permille = usize::from(permille.clamp(1, 1_000));
        let rank = (self.scratch.len() * permille).div_ceil(1_000) - 1;
        Some(*self.scratch.select_nth_unstable(rank).1)
    }

    fn steer(&mut self, sample: &Sample, reporters: u32, permille: u16, steepness: u64) {
        if sample.flags & SAMPLE_STAMPED == 0 {
            return;
        }
        let target = u64::from(permille.clamp(1, 999));
        let missed = u32::from(sample.receivers) < reporters || sample.flags & SAMPLE_MISSED != 0;
        let thousandth = self.controlled / (1_000 * steepness);
        self.controlled = match missed {
            true => (self.controlled + thousandth * target).min(self.cap_ns << FRACTION),
            false => (self.controlled - thousandth * (1_000 - target)).max(1 << FRACTION),
        };
        self.taken += 1;
        self.missed += u64::from(missed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(owd_ns: u32, receivers: u16, flags: u16) -> Sample {
        Sample { id: 1, owd_ns, receivers, flags }
    }

    #[test]
    fn few_samples_leave_the_papers_value() {
        let kind = Estimator::MessagePercentile { permille: 950, window: 100 };
        let mut state = EstimatorState::new(kind, 1_000_000);
        let round: Vec<_> = (0..31).map(|_| sample(5, 3, 0)).collect();
        assert_eq!(state.round(77, 3, &round), 77);
        assert_eq!(state.round(77, 3, &round[..1]), 5);
        let mut paper = EstimatorState::new(Estimator::default(), 1_000_000);
        assert_eq!(paper.round(77, 3, &round), 77);
    }

    #[test]
    fn a_message_somebody_lacks_is_infinitely_late() {
        let kind = Estimator::MessagePercentile { permille: 1_000, window: 100 };
        let mut state = EstimatorState::new(kind, 9_000);
        let round: Vec<_> = (0..40).map(|_| sample(5, 3, 0)).collect();
        assert_eq!(state.round(77, 3, &round), 5);
        assert_eq!(state.round(77, 3, &[sample(5, 2, 0)]), 9_000);
        assert_eq!(state.missed(), 1);
    }

    #[test]
    fn a_receiver_that_is_always_late_gets_no_further_than_the_cap() {
        let mut state = EstimatorState::new(Estimator::MissRate { permille: 950 }, 50_000);
        let late = [sample(5, 3, SAMPLE_MISSED | SAMPLE_STAMPED); 64];
        let hit = [sample(5, 3, SAMPLE_STAMPED); 64];
        for _ in 0..100 {
            state.round(1_000, 3, &late);
        }
        assert_eq!(state.round(1_000, 3, &[]), 50_000);
        for _ in 0..1_000 {
            state.round(1_000, 3, &hit);
        }
        let least = state.round(1_000, 3, &[]);
        assert!(least < 10, "and down to nothing when nobody is late: {least}");
        let unstamped = [sample(5, 3, SAMPLE_MISSED); 64];
        assert_eq!(state.round(1_000, 3, &unstamped), least);
    }
}
