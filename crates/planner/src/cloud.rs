//! A synthetic cloud: delays of every pair of VMs, stragglers known.
//!
//! A hop takes base + median * X, X log-normal around 1. Base and median are scaled by a factor of
//! the ordered pair and by one of each VM; a straggler adds a fixed time to every hop into or out
//! of it and has more spread; now and then a hop takes much longer. Made of the four basic operations
//! and square roots alone, so a seed gives the same delays everywhere; the normal variable is the
//! sum of twelve uniform ones less 6, which is close in the middle and has no tail beyond 6 sigma.

use serde::{Deserialize, Serialize};
use types::SplitMix64;

use crate::matrix::Square;
use crate::objective::Hops;
use crate::stats::{Messages, Summary};
use crate::tree::Tree;

/// Parameters of a synthetic cloud.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CloudModel {
    /// Fixed part of a hop's delay, ns.
    pub base_ns: f64,
    /// Median of the random part of a hop's delay, ns.
    pub median_ns: f64,
    /// Sigma of the random part's log-normal.
    pub sigma: f64,
    /// Sigma of the log-normal factor between ordered pairs.
    pub pair_sigma: f64,
    /// Sigma of the log-normal factor of each VM, one for sending and one for receiving.
    pub vm_sigma: f64,
    /// Number of VMs that are stragglers.
    pub stragglers: usize,
    /// What each end of a hop that is a straggler adds, in nanoseconds.
    pub straggler_ns: f64,
    /// Sigma of a straggler's hops over that of others.
    pub straggler_spread: f64,
    /// Share of the hops that take a spike, in a million.
    pub spike_ppm: u64,
    /// Mean additional delay of a spike, ns.
    pub spike_ns: f64,
    /// Time between two copies that a VM sends, ns.
    pub copy_ns: f64,
}

impl Default for CloudModel {
    /// Hops of about 70 us as the thesis' tables suggest (worst leaf of a random tree of depth 3:
    /// median 256 us, 90th percentile 383 us), one VM in eight a straggler.
    fn default() -> CloudModel {
        CloudModel {
            base_ns: 22_000.0,
            median_ns: 34_000.0,
            sigma: 0.60,
            pair_sigma: 0.15,
            vm_sigma: 0.12,
            stragglers: 3,
            straggler_ns: 25_000.0,
            straggler_spread: 1.5,
            spike_ppm: 300,
            spike_ns: 1_500_000.0,
            copy_ns: 3_280.0,
        }
    }
}

impl CloudModel {
    /// The straggler test: everybody alike, three VMs with 60 us more and twice the spread.
    pub fn straggler_test() -> CloudModel {
        CloudModel {
            straggler_ns: 60_000.0,
            straggler_spread: 2.0,
            pair_sigma: 0.1,
            vm_sigma: 0.05,
            ..CloudModel::default()
        }
    }

    /// Whether all figures are usable: finite, not negative, sums far from overflow.
    pub fn is_sound(&self) -> bool {
        let times = [self.base_ns, self.median_ns, self.straggler_ns, self.spike_ns, self.copy_ns];
        let factors = [self.sigma, self.pair_sigma, self.vm_sigma, self.straggler_spread / 4.0];
        times.iter().all(|time| (0.0..=1e9).contains(time))
            && factors.iter().all(|factor| (0.0..=2.0).contains(factor))
            && self.spike_ppm <= 1_000_000
    }
}

/// One cloud of a kind, fixed by a seed.
#[derive(Clone, Debug)]
pub struct Cloud {
    model: CloudModel,
    factor: Square,
    straggler: Vec<bool>,
}

impl Cloud {
    /// A cloud of `vms` machines; `seed` fixes their delays.
    pub fn new(model: CloudModel, vms: usize, seed: u64) -> Cloud {
        let mut rng = SplitMix64::new(SplitMix64::mix(seed ^ 0x00C1_00D5));
        let mut straggler = vec![false; vms];
        let order = crate::faq::shuffled(vms, &mut rng);
        for vm in order.into_iter().take(model.stragglers) {
            straggler[vm] = true;
        }
        let mut each =
            || -> Vec<f64> { (0..vms).map(|_| exp(model.vm_sigma * normal(&mut rng))).collect() };
        let (sends, receives) = (each(), each());
        let factor = Square::from_fn(vms, |i, j| {
            sends[i] * receives[j] * exp(model.pair_sigma * normal(&mut rng))
        });
        Cloud { model, factor, straggler }
    }

    /// A cloud in which these VMs are the stragglers, whatever number the model says.
    pub fn with_stragglers(model: CloudModel, vms: usize, slow: &[usize], seed: u64) -> Cloud {
        let mut cloud = Cloud::new(CloudModel { stragglers: 0, ..model }, vms, seed);
        cloud.straggler.iter_mut().enumerate().for_each(|(vm, is)| *is = slow.contains(&vm));
        cloud
    }

    /// Number of VMs of the cloud.
    pub fn vms(&self) -> usize {
        self.straggler.len()
    }

    /// Numbers of the stragglers, ascending.
    pub fn stragglers(&self) -> Vec<usize> {
        (0..self.vms()).filter(|vm| self.straggler[*vm]).collect()
    }

    /// Whether the VM is a straggler.
    pub fn is_straggler(&self, vm: usize) -> bool {
        self.straggler.get(vm).copied().unwrap_or(false)
    }

    /// The delay of one copy from one VM to another, in nanoseconds.
    ///
    /// # Panics
    /// When a VM is none of the cloud's.
    pub fn delay_ns(&self, from: usize, to: usize, rng: &mut SplitMix64) -> u64 {
        let model = &self.model;
        let (extra, sigma) = self.straggling(from, to);
        let random = exp(sigma * normal(rng));
        let mut delay =
            self.factor.at(from, to) * (model.base_ns + model.median_ns * random) + extra;
        if rng.below(1_000_000) < model.spike_ppm {
            delay += model.spike_ns * 2.0 * rng.unit();
        }
        delay as u64
    }

    /// Delay that stragglers add to a hop, and its sigma.
    fn straggling(&self, from: usize, to: usize) -> (f64, f64) {
        let ends = usize::from(self.straggler[from]) + usize::from(self.straggler[to]);
        let spread = if ends > 0 { self.model.straggler_spread } else { 1.0 };
        (self.model.straggler_ns * ends as f64, self.model.sigma * spread)
    }

    /// The true delays of every ordered pair of VMs.
    pub fn truth(&self) -> Hops {
        let n = self.vms();
        let model = &self.model;
        let (mut median, mut mean) = (Square::filled(n, 0.0), Square::filled(n, 0.0));
        let mut variance = Square::filled(n, 0.0);
        let spikes = model.spike_ppm as f64 / 1e6;
        for i in 0..n {
            for j in (0..n).filter(|j| *j != i) {
                let (extra, sigma) = self.straggling(i, j);
                let (factor, square) = (self.factor.at(i, j), sigma * sigma);
                median.set(i, j, factor * (model.base_ns + model.median_ns) + extra);
                let random = model.median_ns * exp(square / 2.0);
                mean.set(i, j, factor * (model.base_ns + random) + extra + spikes * model.spike_ns);
                let spread = (factor * random).powi(2) * (exp(square) - 1.0);
                // A spike is uniform on 0..2 spike_ns: mean square 4/3 of the square.
                let spike = spikes * model.spike_ns.powi(2) * (4.0 / 3.0 - spikes);
                variance.set(i, j, spread + spike);
            }
        }
        Hops { median, mean, variance }
    }

    /// What a job of `probes` from one VM to another would report.
    ///
    /// # Panics
    /// When a VM is none of the cloud's.
    pub fn probe(&self, from: usize, to: usize, probes: usize, rng: &mut SplitMix64) -> Summary {
        let mut samples: Vec<i64> =
            (0..probes).map(|_| self.delay_ns(from, to, rng) as i64).collect();
        Summary::of(&mut samples, probes as u64)
    }

    /// A whole mesh of `probes` per ordered pair.
    pub fn mesh(&self, probes: usize, rng: &mut SplitMix64) -> Hops {
        let n = self.vms();
        let (mut median, mut mean) = (Square::filled(n, 0.0), Square::filled(n, 0.0));
        let mut variance = Square::filled(n, 0.0);
        for i in 0..n {
            for j in (0..n).filter(|j| *j != i) {
                let summary = self.probe(i, j, probes, rng);
                median.set(i, j, summary.p50_ns);
                mean.set(i, j, summary.mean_ns);
                variance.set(i, j, summary.stddev_ns.powi(2));
            }
        }
        Hops { median, mean, variance }
    }

    /// `messages` through a tree: one series of delays per leaf, in the order of positions.
    ///
    /// # Panics
    /// When the tree has VMs outside the cloud.
    pub fn multicast(
        &self,
        tree: &Tree,
        messages: usize,
        rng: &mut SplitMix64,
    ) -> Vec<Vec<Option<i64>>> {
        let leaves = tree.shape.leaves();
        let mut series = vec![Vec::with_capacity(messages); leaves.len()];
        let mut at = vec![0u64; tree.vms.len()];
        for _ in 0..messages {
            for (parent, child) in tree.shape.edges() {
                let turn = (child - 1) % tree.shape.fanout;
                let wait = (self.model.copy_ns * turn as f64) as u64;
                let hop = self.delay_ns(tree.vms[parent], tree.vms[child], rng);
                at[child] = at[parent] + wait + hop;
                if leaves.contains(&child) {
                    series[child - leaves.start].push(Some(at[child] as i64));
                }
            }
        }
        series
    }

    /// Per leaf, and per message, of such a multicast.
    ///
    /// # Panics
    /// When the tree has VMs outside the cloud.
    pub fn evaluate(
        &self,
        tree: &Tree,
        messages: usize,
        rng: &mut SplitMix64,
    ) -> (Vec<Summary>, Messages) {
        let series = self.multicast(tree, messages, rng);
        let leaf = |one: &Vec<Option<i64>>| {
            let mut samples: Vec<i64> = one.iter().flatten().copied().collect();
            Summary::of(&mut samples, messages as u64)
        };
        (series.iter().map(leaf).collect(), Messages::of(&series, 50))
    }
}

/// A random number that is close to standard normal.
fn normal(rng: &mut SplitMix64) -> f64 {
    (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
}

/// e to the x, for |x| up to 700: series of the 1/4096th part, squared twelve times.
fn exp(x: f64) -> f64 {
    let part = x.clamp(-700.0, 700.0) / 4_096.0;
    let mut value = 1.0 + part * (1.0 + part / 2.0 * (1.0 + part / 3.0 * (1.0 + part / 4.0)));
    for _ in 0..12 {
        value *= value;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Shape;

    #[test]
    fn the_exponential_is_close_enough() {
        for step in -60..=60 {
            let x = f64::from(step) / 10.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-9, "{x}");
        }
    }

    #[test]
    fn what_probes_say_is_the_truth() {
        let model = CloudModel { spike_ppm: 0, ..CloudModel::default() };
        let cloud = Cloud::new(model, 6, 1);
        let (truth, mesh) = (cloud.truth(), cloud.mesh(20_000, &mut SplitMix64::new(2)));
        for i in 0..6 {
            for j in (0..6).filter(|j| *j != i) {
                let near = |a: f64, b: f64, part: f64| (a / b - 1.0).abs() < part;
                assert!(near(mesh.median.at(i, j), truth.median.at(i, j), 0.02), "{i} {j}");
                assert!(near(mesh.mean.at(i, j), truth.mean.at(i, j), 0.02), "{i} {j}");
                assert!(near(mesh.variance.at(i, j), truth.variance.at(i, j), 0.2), "{i} {j}");
            }
        }
    }

    #[test]
    fn stragglers_are_as_many_as_asked_for_and_slow() {
        let cloud = Cloud::new(CloudModel::straggler_test(), 25, 7);
        let stragglers = cloud.stragglers();
        assert_eq!(stragglers.len(), 3);
        let others: Vec<usize> = (0..25).filter(|vm| !cloud.is_straggler(*vm)).collect();
        let mut rng = SplitMix64::new(1);
        let mut median = |to| cloud.probe(others[0], to, 2_000, &mut rng).p50_ns;
        let slower = median(stragglers[0]) - median(others[1]);
        assert!((40e3..90e3).contains(&slower), "{slower}");
        // Another seed is another cloud, the same seed the same one.
        let again = Cloud::new(CloudModel::straggler_test(), 25, 7);
        assert_eq!((again.stragglers(), again.truth()), (stragglers, cloud.truth()));
        assert_ne!(Cloud::new(CloudModel::straggler_test(), 25, 8).truth(), cloud.truth());
    }

    #[test]
    fn a_message_takes_the_sum_of_its_hops() {
        let model = CloudModel {
            sigma: 0.0,
            pair_sigma: 0.0,
            vm_sigma: 0.0,
            stragglers: 0,
            spike_ppm: 0,
            ..CloudModel::default()
        };
        let cloud = Cloud::new(model, 7, 1);
        let tree = Tree::new(Shape::new(2, 2).unwrap(), (0..7).collect()).unwrap();
        let (leaves, messages) = cloud.evaluate(&tree, 10, &mut SplitMix64::new(1));
        let hop = model.base_ns + model.median_ns;
        assert_eq!(leaves[0].p50_ns, 2.0 * hop);
        assert_eq!(messages.oml.p50_ns, 2.0 * hop + 2.0 * model.copy_ns);
        assert!(model.is_sound() && !CloudModel { sigma: f64::NAN, ..model }.is_sound());
    }
}
