//! Deadline estimators as the root runs them on what receivers report: the overlay's own
//! ([`overlay::estimator`], [`overlay::delay`]), fed with what the rounds of the all-reduce bring.
//!
//! Per message the root needs one number D (deadline = t_sent + D). Three ways to it:
//! the paper's, the maximum over receivers of each one's percentile of its own delays over the last
//! window; a percentile of the per-message maximum of sampled messages; and a controller that hears
//! one bit a sampled message, whether any receiver missed it.
//!
//! Rounds last 50 ms and all receivers report in every one (the experiments lose no reports). What
//! a report of round r says of single messages is about those sent in round r - 2, the 64 that all
//! receivers pick alike.

use overlay::{
    estimator::{Estimator as Rule, EstimatorState},
    samples::{REPORT_LAG, SAMPLE_MISSED, SAMPLE_STAMPED, SAMPLES_MAX, Sample, SampleSet},
};

/// Delays a receiver takes its percentile of (paper §8 leaves it open).
pub const WINDOW: usize = 1_000;
/// Sampled messages that a percentile of the maximum is taken of.
const SAMPLED: u16 = 1_000;
/// No delay counts for more, as in `overlay::all_reduce::DelayLimits`.
const CAP_NS: u64 = 50_000_000;
/// Rounds whose messages are remembered.
const KEPT: usize = REPORT_LAG as usize + 1;

/// Which estimator, and what it aims at (parts of a thousand).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Maximum over receivers of this percentile of their delays; the paper's is 950.
    MaxOfPercentiles(u32),
    /// This percentile of the per-message maximum.
    OfMaximum(u16),
    /// One-bit controller that aims at this share of messages without a miss.
    OneBit(u16),
}

impl Kind {
    /// A name for tables.
    pub fn name(&self) -> String {
        let part = |permille: u32| match permille % 10 {
            0 => format!("{}", permille / 10),
            rest => format!("{}.{rest}", permille / 10),
        };
        match *self {
            Kind::MaxOfPercentiles(permille) => format!("max of p{}s", part(permille)),
            Kind::OfMaximum(permille) => format!("p{} of the maximum", part(permille.into())),
            Kind::OneBit(permille) => format!("one-bit, target {} %", part(permille.into())),
        }
    }

    /// The overlay's.
    pub fn rule(&self) -> Rule {
        match *self {
            Kind::MaxOfPercentiles(_) => Rule::MaxOfPercentiles,
            Kind::OfMaximum(permille) => Rule::MessagePercentile { permille, window: SAMPLED },
            Kind::OneBit(permille) => Rule::MissRate { permille },
        }
    }

    /// Which percentile receivers report.
    pub fn permille(&self) -> u32 {
        match *self {
            Kind::MaxOfPercentiles(permille) => permille,
            _ => overlay::delay::PERMILLE,
        }
    }
}

/// What the receivers together say of the messages of recent rounds.
pub struct Rounds {
    /// Sampled messages of the last rounds, the present one last.
    sets: [SampleSet; KEPT],
    receivers: u16,
}

impl Rounds {
    /// Nothing heard of `receivers` receivers.
    pub fn new(receivers: usize) -> Rounds {
        let sets = std::array::from_fn(|_| SampleSet::new(SAMPLES_MAX));
        Rounds { sets, receivers: receivers as u16 }
    }

    /// All receivers have a message of the present round, the slowest of them after `owd_ns` by its
    /// own clock.
    pub fn arrived(&mut self, id: u64, owd_ns: u64) {
        let owd_ns = owd_ns.min(u64::from(u32::MAX)) as u32;
        self.sets[KEPT - 1].add(Sample { id, owd_ns, receivers: self.receivers, flags: 0 });
    }

    /// The next round begins: its number of receivers and the messages that its reports are about.
    pub fn begin(&mut self) -> (u32, &[Sample]) {
        self.sets.rotate_left(1);
        self.sets[KEPT - 1].clear();
        (self.receivers.into(), self.sets[0].as_slice())
    }
}

/// An estimator at work.
pub struct Estimator {
    kind: Kind,
    state: EstimatorState,
    /// In force, in ns; `None` before the first report.
    current: Option<u64>,
    /// By message id modulo the length: (id, stamped, missed).
    fates: Vec<(u64, bool, bool)>,
    scratch: Vec<Sample>,
}

impl Estimator {
    /// One that has heard nothing; rounds have at most `messages` messages.
    pub fn new(kind: Kind, messages: usize) -> Estimator {
        Estimator {
            kind,
            state: EstimatorState::new(kind.rule(), CAP_NS),
            current: None,
            fates: vec![(0, false, false); messages * (KEPT + 1)],
            scratch: Vec::new(),
        }
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// D for the next message.
    pub fn delay_ns(&self) -> Option<u64> {
        self.current
    }

    /// What became of a message: by the receivers' clocks the last of them could hand it on
    /// `needed_ns` after it was sent. Receivers report it if it was sampled.
    pub fn saw(&mut self, id: u64, needed_ns: u64) {
        let place = id as usize % self.fates.len();
        let missed = self.current.is_some_and(|delay_ns| needed_ns > delay_ns);
        self.fates[place] = (id, self.current.is_some(), missed);
    }

    /// The reports of a round are in: the maximum of the receivers' percentiles and the samples.
    pub fn reports(&mut self, owd_ns: u64, receivers: u32, samples: &[Sample]) {
        self.scratch.clear();
        for sample in samples {
            let (id, stamped, missed) = self.fates[sample.id as usize % self.fates.len()];
            let known = id == sample.id;
            let stamped = if known && stamped { SAMPLE_STAMPED } else { 0 };
            let missed = if known && missed { SAMPLE_MISSED } else { 0 };
            self.scratch.push(Sample { flags: stamped | missed, ..*sample });
        }
        self.current = Some(self.state.round(owd_ns, receivers, &self.scratch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::stats::percentile;
    use types::SplitMix64;

    const ROUND: usize = 250;

    fn hits(kind: Kind, messages: usize, drift: u64) -> f64 {
        let (mut estimator, mut rng) = (Estimator::new(kind, ROUND), SplitMix64::new(3));
        let (mut rounds, mut window) = (Rounds::new(7), Vec::new());
        let (mut hit, mut stamped) = (0, 0);
        for message in 0..messages {
            if message % ROUND == 0 && message > 0 {
                let recent = window.len().saturating_sub(WINDOW);
                let owd_ns = percentile(&mut window[recent..].to_vec(), 0.95);
                let (receivers, samples) = rounds.begin();
                estimator.reports(owd_ns, receivers, samples);
            }
            let needed = 100_000 + rng.below(50_000) + drift * message as u64;
            if let Some(delay) = estimator.delay_ns().filter(|_| message >= 5_000) {
                stamped += 1;
                hit += usize::from(needed <= delay);
            }
            let id = message as u64 + 1;
            estimator.saw(id, needed);
            rounds.arrived(id, needed);
            window.push(needed);
        }
        assert_eq!(stamped, messages - 5_000);
        hit as f64 / stamped as f64
    }

    #[test]
    fn percentiles_and_controller_meet_their_targets() {
        for kind in [Kind::OfMaximum(950), Kind::MaxOfPercentiles(950), Kind::OneBit(950)] {
            let share = hits(kind, 60_000, 0);
            assert!((share - 0.95).abs() < 0.01, "{kind:?} {share}");
        }
    }

    #[test]
    fn the_controller_follows_a_drift_that_windows_miss() {
        let (controlled, window) =
            (hits(Kind::OneBit(950), 40_000, 20), hits(Kind::OfMaximum(950), 40_000, 20));
        assert!(controlled > 0.9, "{controlled}");
        assert!(window < 0.6, "control: always a window late, {window}");
    }

    #[test]
    fn names_say_what_is_meant() {
        assert_eq!(Kind::MaxOfPercentiles(975).name(), "max of p97.5s");
        assert_eq!(Kind::OneBit(990).name(), "one-bit, target 99 %");
    }
}
