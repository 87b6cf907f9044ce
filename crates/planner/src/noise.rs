//! Whether a gain is more than chance.
//!
//! A tree that was chosen by the same probes that it is judged by always looks better than it is, so
//! the probes are cut: trees are chosen by the even slices of time ([`chosen_by`]) and judged by the
//! odd ones ([`judged_by`]). Judging is a paired permutation test: each slice gives a difference of
//! the two trees' medians, and if there is no difference each is as likely to be the other way
//! round. Slices rather than probes are permuted because probes of one time have a machine's and a
//! network's moods in common.

use serde::Serialize;
use types::SplitMix64;

use crate::routes::{LOST, quantile};

/// Number of slices up to which all permutations are counted; with more, as many are drawn at
/// random.
const EXACT_MAX: usize = 14;
/// Slices that the time of measuring is cut into. One half judges: so many that all permutations are
/// counted, and the smallest chance that can be found, 2^-14, is far below [`Rule::DEFAULT`]'s.
pub const SLICES: usize = 2 * EXACT_MAX;

/// Rule by which a gain counts as real.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rule {
    /// Probability of finding a gain where there is none, 0 to 1.
    pub alpha: f64,
    /// Smallest gain that counts, as a share of the present tree's latency.
    pub least: f64,
}

impl Rule {
    /// Of 20 plans in a row without anything to gain all change nothing in at least 98 of 100 such series:
    /// 0.999^20 is 0.980.
    pub const DEFAULT: Rule = Rule { alpha: 0.001, least: 0.05 };
}

/// The result of comparing two trees.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Verdict {
    /// Median of the slices' differences of the median OML, ns; above 0: the other tree is faster.
    pub gain_ns: f64,
    /// The gain as a share of the present tree's latency.
    pub share: f64,
    /// Probability that chance alone gives such a gain, 0 to 1.
    pub p: f64,
    /// Whether the gain counts by the rule.
    pub counts: bool,
}

/// Slices that trees are chosen by.
pub fn chosen_by(slices: usize) -> Vec<usize> {
    (0..slices).step_by(2).collect()
}

/// Slices that trees are judged by.
pub fn judged_by(slices: usize) -> Vec<usize> {
    (1..slices).step_by(2).collect()
}

/// Compares the present tree with another one, both played with the same slices and seed.
pub fn judge(present: &[Vec<i64>], other: &[Vec<i64>], rule: &Rule, seed: u64) -> Verdict {
    let medians = |of: &[Vec<i64>]| -> Vec<f64> {
        of.iter().map(|slice| quantile(&mut slice.clone(), 0.5)).collect()
    };
    let (a, b) = (medians(present), medians(other));
    let usable = |median: &f64| *median < LOST as f64;
    let pairs = a.iter().zip(&b).filter(|(a, b)| usable(a) && usable(b));
    let gains: Vec<f64> = pairs.clone().map(|(a, b)| a - b).collect();
    if gains.is_empty() {
        // A present tree that reaches nobody is left for one that does.
        let counts = !a.iter().any(usable) && !b.is_empty() && b.iter().all(usable);
        return Verdict { p: if counts { 0.0 } else { 1.0 }, counts, ..Verdict::default() };
    }
    let middle = |mut of: Vec<f64>| {
        of.sort_by(f64::total_cmp);
        let half = of.len() / 2;
        if of.len() % 2 == 1 { of[half] } else { of[half - 1].midpoint(of[half]) }
    };
    let gain_ns = middle(gains.clone());
    let takes = middle(pairs.map(|(a, _)| *a).collect());
    let share = if takes > 0.0 { gain_ns / takes } else { 0.0 };
    let p = chance(&gains, seed);
    let counts = gain_ns > 0.0 && p <= rule.alpha && share >= rule.least;
    Verdict { gain_ns, share, p, counts }
}

/// How often the gains' sum is as large when each is turned round by a coin.
fn chance(gains: &[f64], seed: u64) -> f64 {
    let sum: f64 = gains.iter().sum();
    let turned = |signs: &mut dyn FnMut(usize) -> bool| -> f64 {
        gains.iter().enumerate().map(|(at, gain)| if signs(at) { -gain } else { *gain }).sum()
    };
    // Sums of the same numbers in the same order: equal ones are equal but for rounding.
    let slack = 1e-9 * gains.iter().map(|gain| gain.abs()).sum::<f64>();
    let tries = 1u64 << gains.len().min(EXACT_MAX);
    let mut rng = SplitMix64::new(SplitMix64::mix(seed ^ 0x5167));
    let mut as_large = 0u64;
    for number in 0..tries {
        let total = match gains.len() <= EXACT_MAX {
            true => turned(&mut |at| number >> at & 1 == 1),
            false => turned(&mut |_| rng.next_u64() >> 63 == 1),
        };
        as_large += u64::from(total >= sum - slack);
    }
    match gains.len() <= EXACT_MAX {
        true => as_large as f64 / tries as f64,
        // What was observed is one of the permutations (Phipson and Smyth 2010).
        false => (as_large + 1) as f64 / (tries + 1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule { alpha: 0.05, least: 0.02 };

    fn flat(values: &[i64]) -> Vec<Vec<i64>> {
        values.iter().map(|value| vec![*value; 3]).collect()
    }

    #[test]
    fn the_test_is_exact_for_few_slices() {
        // Four gains of one sign: one permutation of 16 is as large.
        assert_eq!(chance(&[1.0, 2.0, 3.0, 4.0], 1), 1.0 / 16.0);
        assert_eq!(chance(&[-1.0, -2.0], 1), 1.0);
        assert_eq!(chance(&[0.0, 0.0], 1), 1.0);
        let many: Vec<f64> = (0..20).map(|at| if at < 15 { 1.0 } else { -1.0 }).collect();
        // P(15 or more heads of 20) is 0.0207.
        let p = chance(&many, 1);
        assert!((p - 0.0207).abs() < 0.005, "{p}");
        assert_eq!(p, chance(&many, 1), "a seed says it all");
    }

    #[test]
    fn a_gain_has_to_be_sure_large_and_a_gain() {
        let present = flat(&[100, 102, 101, 103, 99, 100]);
        let of = |values: &[i64]| judge(&present, &flat(values), &RULE, 1);
        assert!(of(&[90, 91, 92, 93, 90, 90]).counts);
        assert!(!of(&[99, 101, 100, 102, 98, 99]).counts, "sure, but small");
        assert!(!of(&[60, 140, 70, 130, 80, 120]).counts, "large, but not sure");
        assert!(!of(&[110, 111, 112, 113, 110, 110]).counts, "worse");
        assert!(!judge(&[], &[], &RULE, 1).counts);
    }

    #[test]
    fn a_tree_that_reaches_nobody_is_left_and_none_is_left_for_it() {
        let (good, none) = (flat(&[100; 6]), flat(&[LOST; 6]));
        assert!(judge(&none, &good, &RULE, 1).counts);
        assert!(!judge(&good, &none, &RULE, 1).counts && !judge(&none, &none, &RULE, 1).counts);
    }

    #[test]
    fn slices_are_for_choosing_or_for_judging() {
        assert_eq!((chosen_by(5), judged_by(5)), (vec![0, 2, 4], vec![1, 3]));
    }
}
