//! How many copies each message gets: as the tree says, every second one none, or as many as pay.
//!
//! [`HedgeMode::OddOnly`] sends even ids without second copies, so that one run measures both.
//! [`HedgeMode::Adaptive`] measures all the time: of every 8 messages one is sent with one copy
//! more and one with one copy less, and the sampled per-message maxima of the three kinds are
//! compared at their 90th percentile. A copy more is taken up when it saves at least
//! `gain_permille` of the delay, one is given up when doing without costs less than half of that;
//! the gap between the two, and a full window between decisions, keep it from swinging. Needs
//! samples in the all-reduce. Deterministic.

use crate::deadline::samples::Sample;

/// Number of ids whose stamps are remembered.
const STAMPS: usize = 4_096;
/// Samples of a kind that a decision takes, and at most keeps.
const KIND_LEAST: usize = 64;
/// Percentile that is compared, in tenths.
const TENTHS: usize = 9;

/// Which messages are hedged, and with how many copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HedgeMode {
    /// Every message, by the H of the tree.
    #[default]
    Tree,
    /// Odd ids by the tree's H, even ones not.
    OddOnly,
    /// As many as measured gain justifies.
    Adaptive {
        /// H at the start.
        first: u8,
        /// Largest H that may be chosen, at most 8.
        most: u8,
        /// A copy more must save so many thousandths of the delay.
        gain_permille: u16,
    },
}

/// Chooses the hedging factor H message by message.
#[derive(Clone, Debug)]
pub struct Hedger {
    mode: HedgeMode,
    hedge: u8,
    /// (id, H) by id modulo the length; empty unless adaptive.
    stamps: Vec<(u64, u8)>,
    /// Maxima of sampled messages with one copy less, as many, one more.
    maxima: [Vec<u32>; 3],
    changes: u64,
}

impl Hedger {
    /// Begins with what the mode says.
    pub fn new(mode: HedgeMode) -> Hedger {
        let (hedge, stamps) = match mode {
            HedgeMode::Adaptive { first, most, .. } => (first.min(most).min(8), STAMPS),
            _ => (0, 0),
        };
        let maxima =
            std::array::from_fn(|_| Vec::with_capacity(if stamps > 0 { KIND_LEAST } else { 0 }));
        Hedger { mode, hedge, stamps: vec![(0, 0); stamps], maxima, changes: 0 }
    }

    /// Present H of an adaptive hedger.
    pub fn hedge(&self) -> u8 {
        self.hedge
    }

    /// Number of times that H changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Hedging factor to stamp on message `id` ([`crate::frame::DataBody::hedge`]).
    pub fn stamp(&mut self, id: u64) -> u8 {
        match self.mode {
            HedgeMode::Tree => 0,
            HedgeMode::OddOnly => u8::from(id.is_multiple_of(2)),
            HedgeMode::Adaptive { most, .. } => {
                let hedge = match id % 8 {
                    3 => self.hedge.saturating_sub(1),
                    7 => (self.hedge + 1).min(most.min(8)),
                    _ => self.hedge,
                };
                self.stamps[id as usize % STAMPS] = (id, hedge);
                hedge + 1
            }
        }
    }

    /// Takes a round's samples and decides when there are enough.
    pub fn learn(&mut self, samples: &[Sample]) {
        let HedgeMode::Adaptive { most, gain_permille, .. } = self.mode else { return };
        for sample in samples {
            let (id, hedge) = self.stamps[sample.id as usize % STAMPS];
            let kind = (i16::from(hedge) - i16::from(self.hedge) + 1) as usize;
            if id == sample.id
                && let Some(maxima) = self.maxima.get_mut(kind)
                && maxima.len() < KIND_LEAST
            {
                maxima.push(sample.owd_ns);
            }
        }
        let (less, as_now, more) = (self.tail(0), self.tail(1), self.tail(2));
        let Some(as_now) = as_now else { return };
        let gain = u64::from(gain_permille.min(1_000));
        let most = most.min(8);
        let decided = match (less, more) {
            _ if self.hedge < most && more.is_none() => return,
            _ if self.hedge > 0 && less.is_none() => return,
            (_, Some(more)) if self.hedge < most && more * 1_000 <= as_now * (1_000 - gain) => {
                self.hedge + 1
            }
            (Some(less), _) if self.hedge > 0 && less * (2_000 - gain) <= as_now * 2_000 => {
                self.hedge - 1
            }
            _ => self.hedge,
        };
        self.changes += u64::from(decided != self.hedge);
        self.hedge = decided;
        self.maxima.iter_mut().for_each(Vec::clear);
    }

    fn tail(&mut self, kind: usize) -> Option<u64> {
        let maxima = &mut self.maxima[kind];
        if maxima.len() < KIND_LEAST {
            return None;
        }
        let rank = maxima.len() * TENTHS / 10;
        Some(u64::from(*maxima.select_nth_unstable(rank).1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::SplitMix64;

    fn settle(gain: impl Fn(u8) -> u32) -> (u8, u64) {
        let mode = HedgeMode::Adaptive { first: 1, most: 4, gain_permille: 50 };
        let (mut hedger, mut rng) = (Hedger::new(mode), SplitMix64::new(3));
        for round in 0..4_000u64 {
            let samples: Vec<Sample> = (0..16)
                .map(|k| {
                    let id = round * 16 + k + 1;
                    let hedge = hedger.stamp(id) - 1;
                    let owd_ns = gain(hedge) + rng.below(20_000) as u32;
                    Sample { id, owd_ns, receivers: 1, flags: 0 }
                })
                .collect();
            hedger.learn(&samples);
        }
        (hedger.hedge(), hedger.changes())
    }

    #[test]
    fn takes_what_pays_and_gives_back_what_does_not() {
        assert_eq!(settle(|hedge| [500_000, 300_000, 200_000][usize::from(hedge.min(2))]), (2, 1));
        assert_eq!(settle(|_| 300_000).0, 0, "copies that save nothing are given up");
        assert_eq!(settle(|hedge| 900_000 >> hedge), (4, 3), "never beyond the most");
    }

    #[test]
    fn odd_only_sends_even_ids_plainly() {
        let mut hedger = Hedger::new(HedgeMode::OddOnly);
        assert_eq!([1, 2, 3, 4].map(|id| hedger.stamp(id)), [0, 1, 0, 1]);
        assert_eq!(Hedger::new(HedgeMode::Tree).stamp(2), 0);
    }
}
