//! What a placement costs: the sum of hops, the worst leaf's percentile, the expected last leaf.
//!
//! LemonDrop's sum is not what an exchange with hold-and-release needs: everybody waits for the
//! last leaf. The other two take hops as independent with known mean and variance, and sums of hops
//! as normal: good enough to compare trees, not to predict one.

use serde::{Deserialize, Serialize};

use crate::faq::Qap;
use crate::matrix::Square;
use crate::tree::Shape;

/// A cost of placements, the lower the better.
pub trait Objective {
    /// The cost of VMs by position.
    ///
    /// # Panics
    /// When a VM is none of the pool's.
    fn cost(&self, vms: &[usize]) -> f64;
}

impl Objective for Qap {
    fn cost(&self, vms: &[usize]) -> f64 {
        Qap::cost(self, vms)
    }
}

/// Objective by which a tree is placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Sum of the median delays of all hops (LemonDrop's in-network time).
    #[default]
    TotalTime,
    /// The 90th percentile of the worst leaf's delay.
    WorstLeaf,
    /// The expected delay of the last leaf.
    ExpectedMax,
}

/// Delays of every ordered pair of VMs, as a mesh measured them, ns.
#[derive(Clone, PartialEq, Debug)]
pub struct Hops {
    /// Median delay of each pair, ns.
    pub median: Square,
    /// Mean delay of each pair, ns.
    pub mean: Square,
    /// Variance of each pair's delays, ns².
    pub variance: Square,
}

impl Hops {
    /// Number of VMs of the mesh.
    pub fn n(&self) -> usize {
        self.median.n()
    }

    /// Only these VMs, renumbered in this order.
    ///
    /// # Panics
    /// When a VM is none of the pool's.
    pub fn only(&self, vms: &[usize]) -> Hops {
        let pick = |of: &Square| Square::from_fn(vms.len(), |i, j| of.at(vms[i], vms[j]));
        Hops { median: pick(&self.median), mean: pick(&self.mean), variance: pick(&self.variance) }
    }

    /// A measure of mean delays away from a VM to all others: how good a root it is.
    pub fn egress(&self, vm: usize) -> f64 {
        let others = (0..self.n()).filter(|other| *other != vm);
        others.map(|other| self.median.at(vm, other)).sum::<f64>() / (self.n() - 1).max(1) as f64
    }
}

/// The 0.9 quantile of the standard normal distribution.
pub(crate) const Z90: f64 = 1.281_551_565_544_6;

/// The largest of mean + z sigma over all leaves.
#[derive(Clone, Copy, Debug)]
pub struct WorstLeaf<'a> {
    shape: Shape,
    hops: &'a Hops,
}

impl<'a> WorstLeaf<'a> {
    /// The objective for trees of this shape.
    pub fn new(shape: Shape, hops: &'a Hops) -> WorstLeaf<'a> {
        WorstLeaf { shape, hops }
    }

    /// The leaf position with the largest percentile, and that.
    ///
    /// # Panics
    /// When a VM is none of the pool's.
    pub fn worst(&self, vms: &[usize]) -> (usize, f64) {
        let mut sums = vec![(0.0, 0.0); vms.len()];
        let mut worst = (0, f64::NEG_INFINITY);
        let leaves = self.shape.leaves();
        for (parent, child) in self.shape.edges() {
            let (from, to) = (vms[parent], vms[child]);
            let (mean, variance) = sums[parent];
            let mean = mean + self.hops.mean.at(from, to);
            let variance = variance + self.hops.variance.at(from, to);
            sums[child] = (mean, variance);
            if leaves.contains(&child) {
                let percentile = mean + Z90 * f64::sqrt(variance);
                if percentile > worst.1 {
                    worst = (child, percentile);
                }
            }
        }
        worst
    }
}

impl Objective for WorstLeaf<'_> {
    fn cost(&self, vms: &[usize]) -> f64 {
        self.worst(vms).1
    }
}

/// The mean of the last leaf's delay, from the leaves up: siblings' subtrees are independent, so
/// the larger of two is taken by Clark's formulas (1961) for normal variables, then the hop above
/// is added.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedMax<'a> {
    shape: Shape,
    hops: &'a Hops,
}

impl<'a> ExpectedMax<'a> {
    /// The objective for trees of this shape.
    pub fn new(shape: Shape, hops: &'a Hops) -> ExpectedMax<'a> {
        ExpectedMax { shape, hops }
    }
}

impl Objective for ExpectedMax<'_> {
    fn cost(&self, vms: &[usize]) -> f64 {
        let mut below: Vec<Option<(f64, f64)>> = vec![None; vms.len()];
        for child in (1..vms.len()).rev() {
            let parent = (child - 1) / self.shape.fanout;
            let (from, to) = (vms[parent], vms[child]);
            let (mean, variance) = below[child].unwrap_or_default();
            let arm =
                (mean + self.hops.mean.at(from, to), variance + self.hops.variance.at(from, to));
            below[parent] = Some(below[parent].map_or(arm, |other| larger(other, arm)));
        }
        below.first().copied().flatten().unwrap_or_default().0
    }
}

/// Mean and variance of the larger of two independent normal variables.
fn larger(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let spread = (a.1 + b.1).sqrt();
    if spread <= 0.0 {
        return if a.0 >= b.0 { a } else { b };
    }
    let z = (a.0 - b.0) / spread;
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let share = cumulative(z);
    let mean = a.0 * share + b.0 * (1.0 - share) + spread * density;
    let square = (a.0 * a.0 + a.1) * share
        + (b.0 * b.0 + b.1) * (1.0 - share)
        + (a.0 + b.0) * spread * density;
    (mean, (square - mean * mean).max(0.0))
}

/// Normal distribution function, by the rational approximation 26.2.17 of Abramowitz and Stegun
/// (error below 7.5e-8).
fn cumulative(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let poly = t
        * (0.319_381_530
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = poly * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z >= 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hops(n: usize) -> Hops {
        let mean = Square::from_fn(n, |i, j| (10 * i + j) as f64);
        Hops { median: mean.clone(), mean, variance: Square::filled(n, 4.0) }
    }

    #[test]
    fn the_worst_leaf_is_the_one_with_the_longest_way() {
        let hops = hops(7);
        let objective = WorstLeaf::new(Shape::new(2, 2).unwrap(), &hops);
        // Ways to the leaves 3..=6: 1 + 13, 1 + 14, 2 + 25, 2 + 26; two hops of variance 4.
        let (leaf, cost) = objective.worst(&[0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(leaf, 6);
        assert!((cost - (28.0 + Z90 * 8f64.sqrt())).abs() < 1e-9);
    }

    #[test]
    fn the_larger_of_two_is_known_in_closed_form() {
        // Two standard normal variables: mean 1 / sqrt(pi), variance 1 - 1 / pi.
        let (mean, variance) = larger((0.0, 1.0), (0.0, 1.0));
        let pi = std::f64::consts::PI;
        assert!((mean - 1.0 / pi.sqrt()).abs() < 1e-6 && (variance - 1.0 + 1.0 / pi).abs() < 1e-6);
        // Far apart: the larger one alone; without variance the larger value.
        assert!((larger((100.0, 1.0), (0.0, 1.0)).0 - 100.0).abs() < 1e-6);
        assert_eq!(larger((1.0, 0.0), (2.0, 0.0)), (2.0, 0.0));
    }

    #[test]
    fn the_expected_maximum_is_at_least_the_longest_mean() {
        let hops = hops(7);
        let shape = Shape::new(2, 2).unwrap();
        let cost = ExpectedMax::new(shape, &hops).cost(&[0, 1, 2, 3, 4, 5, 6]);
        assert!(cost > 28.0 && cost < 32.0, "{cost}");
        assert!((hops.egress(0) - 3.5).abs() < 1e-9);
        assert_eq!(hops.only(&[2, 1]).mean.at(0, 1), 21.0);
    }
}
