//! Trees of proxies by all strategies, from measured delays, for a root and leaves that stay.
//!
//! TreeBuilder's selection goes from the root down and takes for each parent the best of K random
//! candidates; LemonDrop places all proxies at once so that the sum of the hops' medians is least (FAQ
//! with root and leaves held at their places, then 2-opt), by the worst leaf's 90th percentile or by
//! the expected last leaf (annealed from there); REVISE changes the present tree by a few VMs. Whoever
//! stands in a layer and stays in it keeps the place: with parents that change for every message the
//! places of a layer are alike.

use serde::Serialize;
use types::SplitMix64;

use crate::anneal::{AnnealOptions, anneal};
use crate::faq::{FaqOptions, Qap};
use crate::matrix::Square;
use crate::objective::Objective;
use crate::polish::{spares, two_opt_for};
use crate::revise::replace_at;
use crate::routes::{LOST, Play, Probes, Routes, play};
use crate::score::Strategy;

/// Largest number of VMs for which FAQ is tried: its work grows with the cube.
const FAQ_MAX: usize = 200;
/// Most random draws of one search.
const DRAWS: u64 = 20_000_000;
/// Most moves of one search.
const MOVES_MAX: u64 = 2_000;
/// Number of messages per slice that a search plays.
const MESSAGES: usize = 16;
/// Most VMs that REVISE replaces.
const REVISED_MAX: usize = 4;
/// Smallest gain for which REVISE replaces VMs, as a share of the tree's latency.
const LEAST_GAIN: f64 = 0.01;

/// A placement problem: which proxies, and by which measurements.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// The paths of messages through the tree.
    pub routes: &'a Routes,
    /// Measured delays between VMs.
    pub probes: &'a Probes,
    /// VM of the root.
    pub root: usize,
    /// VMs that may be proxies, the present ones among them.
    pub pool: &'a [usize],
    /// VM of each leaf, by place.
    pub leaves: &'a [usize],
    /// VM of each present proxy, by place.
    pub present: &'a [usize],
    /// Places of the proxies that may change.
    pub free: &'a [usize],
    /// Slices of time whose measurements trees are chosen by.
    pub slices: &'a [usize],
    /// Time that a sender needs for one copy, ns.
    pub copy_ns: u64,
    /// Candidates probed for each parent (K).
    pub candidates: usize,
    /// Seed of all random draws.
    pub seed: u64,
}

/// A tree that a strategy proposes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Proposal {
    /// Name of the strategy.
    pub strategy: String,
    /// VM of each proxy, by place.
    pub proxies: Vec<usize>,
    /// What it takes by the probes that it was chosen by, ns: the mean of the middle half of
    /// messages' OML.
    pub cost_ns: f64,
}

/// Objective of a search for a placement.
#[derive(Clone, Copy)]
enum Goal {
    Total,
    WorstLeaf,
    Last,
}

/// Placements of the free places: numbers of [`Placing::pool`].
struct Placing<'a> {
    problem: &'a Problem<'a>,
    /// VMs that may stand at a free place.
    pool: Vec<usize>,
    goal: Goal,
    /// Figures that are the same for all objectives.
    known: &'a Known,
}

/// Figures by which placements of a problem are judged.
struct Known {
    /// Copies from place to place over all messages: sender, receiver, copies per message.
    loads: Vec<(usize, usize, f64)>,
    /// Median delay of each pair of VMs, ns.
    median: Square,
    /// 90th percentile of the delay of each pair of VMs, ns.
    p90: Square,
}

/// Delay assumed for a pair of which nothing arrived, ns: far longer than any tree takes.
const NEVER_NS: f64 = 1e9;

impl Problem<'_> {
    /// VM of every place, with these proxies.
    pub fn vms(&self, proxies: &[usize]) -> Vec<usize> {
        let all = std::iter::once(self.root).chain(proxies.iter().copied());
        all.chain(self.leaves.iter().copied()).collect()
    }

    /// What a tree takes by the probes that trees are chosen by, ns.
    pub fn cost(&self, proxies: &[usize]) -> f64 {
        let how = Play {
            slices: self.slices,
            messages: MESSAGES,
            copy_ns: self.copy_ns,
            seed: self.seed,
        };
        let mut all: Vec<i64> = play(self.routes, &self.vms(proxies), self.probes, &how)
            .into_iter()
            .flatten()
            .collect();
        all.sort_unstable();
        let quarter = all.len() / 4;
        let middle = all.get(quarter..all.len() - quarter).unwrap_or(&[]);
        // A message that misses a leaf is repaired, which takes far longer than any tree.
        let ns = |oml: &i64| if *oml == LOST { NEVER_NS } else { *oml as f64 };
        middle.iter().map(ns).sum::<f64>() / middle.len().max(1) as f64
    }

    fn known(&self) -> Known {
        let n = self.probes.vms();
        let (mut median, mut p90) = (Square::filled(n, NEVER_NS), Square::filled(n, NEVER_NS));
        for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))) {
            let seen = self.probes.summary(from, to, self.slices);
            if seen.received > 0 {
                median.set(from, to, seen.p50_ns);
                p90.set(from, to, seen.p90_ns);
            }
        }
        Known { loads: self.loads(), median, p90 }
    }

    /// Sums of copies by pair of places, per message.
    fn loads(&self) -> Vec<(usize, usize, f64)> {
        let mut loads = std::collections::BTreeMap::<(usize, usize), f64>::new();
        let each = 1.0 / self.routes.messages.len().max(1) as f64;
        for hop in self.routes.messages.iter().flatten() {
            *loads.entry((hop.from.into(), hop.to.into())).or_default() += each;
        }
        loads.into_iter().map(|((from, to), load)| (from, to, load)).collect()
    }

    /// VMs of the pool that don't stand at a place that stays.
    fn movable(&self) -> Vec<usize> {
        let stays = |vm: &usize| {
            let at = self.present.iter().position(|of| of == vm);
            at.is_some_and(|at| !self.free.contains(&(at + 1)))
        };
        self.pool.iter().copied().filter(|vm| !stays(vm)).collect()
    }

    /// Proxies with other VMs at the free places, each VM that stays in its layer at its present place.
    fn settled(&self, at_free: &[usize]) -> Vec<usize> {
        let mut wanted = self.present.to_vec();
        for (place, vm) in self.free.iter().zip(at_free) {
            if let Some(slot) = wanted.get_mut(place - 1) {
                *slot = *vm;
            }
        }
        for layer in &self.routes.layers {
            let here: Vec<usize> =
                self.free.iter().copied().filter(|at| layer.contains(at)).collect();
            let comes: Vec<usize> =
                here.iter().filter_map(|at| wanted.get(at - 1).copied()).collect();
            let was = |at: &usize| self.present.get(at - 1).copied();
            let mut new =
                comes.iter().filter(|vm| !here.iter().any(|at| was(at) == Some(**vm))).copied();
            for at in &here {
                let keeps = was(at).filter(|vm| comes.contains(vm));
                if let (Some(slot), Some(vm)) =
                    (wanted.get_mut(at - 1), keeps.or_else(|| new.next()))
                {
                    *slot = vm;
                }
            }
        }
        wanted
    }

    /// Trees of all strategies without repetitions, the present one first.
    pub fn proposals(&self) -> Vec<Proposal> {
        let mut all = vec![("PRESENT", self.present.to_vec())];
        let pool = self.movable();
        if !self.free.is_empty() && pool.len() >= self.free.len() {
            let best = |strategy: &Strategy| self.selected(&pool, Some((strategy, false)));
            all.push(("BEST-WEIGHTED", best(&Strategy::Weighted)));
            all.push(("BEST-P90", best(&Strategy::P90)));
            all.push(("BEST-P50", best(&Strategy::P50)));
            all.push(("RAND", self.selected(&pool, None)));
            all.push(("WORST-P90", self.selected(&pool, Some((&Strategy::P90, true)))));
            let known = self.known();
            let placing = |goal| Placing { problem: self, pool: pool.clone(), goal, known: &known };
            let lemon = self.lemon(&placing(Goal::Total));
            let annealed = |goal| {
                let placing = placing(goal);
                let moves = DRAWS / placing.draws().max(1);
                let options = AnnealOptions { moves: moves.clamp(100, MOVES_MAX), seed: self.seed };
                placing.vms(&anneal(&placing, &lemon, pool.len(), &options).0)
            };
            all.push(("LEMON", placing(Goal::Total).vms(&lemon)));
            all.push(("LEMON-WORST-LEAF", annealed(Goal::WorstLeaf)));
            all.push(("LEMON-EXPECTED-MAX", annealed(Goal::Last)));
            all.push(("REVISE", self.revised(&placing(Goal::Last))));
        }
        let settled = |(strategy, proxies): (&str, Vec<usize>)| {
            let at_free: Vec<usize> =
                self.free.iter().filter_map(|at| proxies.get(at - 1).copied()).collect();
            let kept = self.settled(&at_free);
            let (cost, kept_cost) = (self.cost(&proxies), self.cost(&kept));
            // Where places of a layer are not alike, moving about in it may be worth it.
            let keep = kept_cost <= cost * 1.01;
            Proposal {
                strategy: strategy.to_string(),
                proxies: if keep { kept } else { proxies },
                cost_ns: if keep { kept_cost } else { cost },
            }
        };
        all.into_iter().map(settled).collect()
    }

    /// TreeBuilder's selection; without a strategy at random.
    fn selected(&self, pool: &[usize], by: Option<(&Strategy, bool)>) -> Vec<usize> {
        let mut proxies = self.present.to_vec();
        let mut rest = pool.to_vec();
        let mut rng = SplitMix64::new(SplitMix64::mix(self.seed));
        for parent in 0..self.routes.leaves.start {
            let children: Vec<usize> = self
                .routes
                .own
                .iter()
                .filter(|(from, to)| *from == parent && self.free.contains(to))
                .map(|(_, to)| *to)
                .collect();
            if children.is_empty() {
                continue;
            }
            let take = match by {
                Some(_) => self.candidates.max(children.len()),
                None => children.len(),
            };
            for at in 0..take.min(rest.len()) {
                let with = at + rng.below((rest.len() - at) as u64) as usize;
                rest.swap(at, with);
            }
            let mut candidates: Vec<usize> = rest.iter().copied().take(take).collect();
            let vm = parent.checked_sub(1).map_or(Some(self.root), |at| proxies.get(at).copied());
            if let (Some((strategy, worst)), Some(vm)) = (by, vm) {
                let badness =
                    |to: &usize| strategy.badness(&self.probes.summary(vm, *to, self.slices));
                candidates.sort_by(|a, b| badness(a).total_cmp(&badness(b)));
                if worst {
                    candidates.reverse();
                }
            }
            for (child, vm) in children.iter().zip(&candidates) {
                if let Some(slot) = proxies.get_mut(child - 1) {
                    *slot = *vm;
                }
                rest.retain(|of| of != vm);
            }
        }
        proxies
    }

    /// The least sum of medians that FAQ and 2-opt find, as numbers of the pool.
    fn lemon(&self, placing: &Placing<'_>) -> Vec<usize> {
        let mut start = placing.present();
        let mut least = two_opt_for(placing, &mut start, placing.pool.len());
        if let Some(mut other) = self.faq(placing) {
            let cost = two_opt_for(placing, &mut other, placing.pool.len());
            if cost < least {
                (start, least) = (other, cost);
            }
        }
        debug_assert!(least.is_finite());
        start
    }

    /// FAQ over all VMs and places; `None` where a part of the tree stays, or there are too many.
    ///
    /// The problem has no places that are held. What a VM takes to itself does it: root and leaves earn
    /// so much at places with a load on themselves that they stand there, the root before all.
    fn faq(&self, placing: &Placing<'_>) -> Option<Vec<usize>> {
        let places = self.routes.leaves.end;
        let all: Vec<usize> = self.vms(&placing.pool);
        if self.free.len() < self.routes.proxies() || all.len() > FAQ_MAX {
            return None;
        }
        let (leaves, pool) = (self.routes.leaves.clone(), placing.pool.len());
        let class = |vm: usize| match vm {
            0 => 2.0,
            vm if vm > pool => 1.0,
            _ => 0.0,
        };
        let mut delay = Square::from_fn(all.len(), |i, j| {
            if i == j { 0.0 } else { placing.known.median.at(all[i], all[j]).min(1e8) }
        });
        let largest = (0..all.len()).flat_map(|i| delay.row(i)).fold(1.0f64, |a, b| a.max(*b));
        for vm in 0..all.len() {
            delay.set(vm, vm, -class(vm) * largest * self.routes.copies().max(1) as f64);
        }
        let mut load = Square::filled(places, 0.0);
        placing.known.loads.iter().for_each(|(from, to, of)| load.set(*from, *to, *of));
        load.set(0, 0, 2.0);
        leaves.for_each(|leaf| load.set(leaf, leaf, 1.0));
        let options = FaqOptions { seed: self.seed, starts: 3, ..FaqOptions::default() };
        let found = Qap::new(&load, delay).solve(&options).vms;
        let ours = |vm: &usize| (1..=pool).contains(vm);
        let mut placed: Vec<Option<usize>> = (1..=self.routes.proxies())
            .map(|place| found.get(place).filter(|vm| ours(vm)).map(|vm| vm - 1))
            .collect();
        let taken: Vec<usize> = placed.iter().flatten().copied().collect();
        let mut spare = spares(&taken, pool).into_iter();
        placed.iter_mut().filter(|of| of.is_none()).for_each(|of| *of = spare.next());
        placed.into_iter().collect()
    }

    /// The present tree with at most [`REVISED_MAX`] VMs replaced, the largest gain first.
    fn revised(&self, placing: &Placing<'_>) -> Vec<usize> {
        let mut vms = placing.present();
        let least_ns = LEAST_GAIN * placing.cost(&vms);
        for _ in 0..REVISED_MAX {
            let spare = spares(&vms, placing.pool.len());
            let each = (0..vms.len()).filter_map(|at| replace_at(placing, &vms, at, &spare));
            let best = each.max_by(|a, b| a.gain.total_cmp(&b.gain));
            let Some(best) = best.filter(|best| best.gain >= least_ns) else { break };
            if let Some(slot) = vms.get_mut(best.position) {
                *slot = best.new;
            }
        }
        placing.vms(&vms)
    }
}

impl Placing<'_> {
    /// The present VMs at the free places, as indexes of the pool.
    fn present(&self) -> Vec<usize> {
        let number = |at: &usize| {
            let vm = self.problem.present.get(at - 1)?;
            self.pool.iter().position(|of| of == vm)
        };
        let mut found: Vec<Option<usize>> = self.problem.free.iter().map(number).collect();
        let taken: Vec<usize> = found.iter().flatten().copied().collect();
        let mut spare = spares(&taken, self.pool.len()).into_iter();
        found.iter_mut().filter(|of| of.is_none()).for_each(|of| *of = spare.next());
        found.into_iter().flatten().collect()
    }

    /// The proxies by place with these numbers of the pool at the free places.
    fn vms(&self, numbers: &[usize]) -> Vec<usize> {
        let mut proxies = self.problem.present.to_vec();
        for (place, number) in self.problem.free.iter().zip(numbers) {
            if let (Some(slot), Some(vm)) = (proxies.get_mut(place - 1), self.pool.get(*number)) {
                *slot = *vm;
            }
        }
        proxies
    }

    /// Number of delays that one evaluation draws.
    fn draws(&self) -> u64 {
        (self.problem.slices.len() * MESSAGES * self.problem.routes.copies()) as u64
    }
}

impl Objective for Placing<'_> {
    fn cost(&self, numbers: &[usize]) -> f64 {
        let proxies = self.vms(numbers);
        match self.goal {
            Goal::Last => self.problem.cost(&proxies),
            Goal::Total => {
                let vms = self.problem.vms(&proxies);
                let hop = |(from, to, load): &(usize, usize, f64)| {
                    load * self.known.median.at(vms[*from], vms[*to])
                };
                self.known.loads.iter().map(hop).sum()
            }
            Goal::WorstLeaf => self.worst_leaf(&proxies),
        }
    }
}

impl Placing<'_> {
    /// The largest sum of a leaf's hops' 90th percentiles, ns: by the slowest of the parents that a place
    /// may have, because it is the parent of some messages.
    fn worst_leaf(&self, proxies: &[usize]) -> f64 {
        let vms = self.problem.vms(proxies);
        let mut worst = vec![0.0f64; vms.len()];
        for (from, to, _) in &self.known.loads {
            let hop = self.known.p90.at(vms[*from], vms[*to]);
            worst[*to] = worst[*to].max(worst[*from] + hop);
        }
        let leaves = worst.get(self.problem.routes.leaves.clone()).unwrap_or(&[]);
        leaves.iter().fold(0.0, |a, b| a.max(*b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{Cloud, CloudModel};
    use crate::noise::{Rule, SLICES, chosen_by, judge, judged_by};
    use crate::routes::tests::{probed, routes};

    const RULE: Rule = Rule::DEFAULT;

    /// A pool of ten, six of them proxies of two layers, and six leaves behind a root.
    struct Venue {
        cloud: Cloud,
        routes: Routes,
        probes: Probes,
    }

    const LEAVES: [usize; 6] = [11, 12, 13, 14, 15, 16];
    const POOL: [usize; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    const PRESENT: [usize; 6] = [1, 2, 3, 4, 5, 6];
    const FREE: [usize; 6] = PRESENT;

    fn alike() -> CloudModel {
        CloudModel { pair_sigma: 0.0, vm_sigma: 0.0, spike_ppm: 0, ..CloudModel::straggler_test() }
    }

    fn venue(slow: &[usize], hedge: usize, seed: u64) -> Venue {
        let cloud = Cloud::with_stragglers(alike(), 17, slow, seed);
        let probes = probed(&cloud, 200, SLICES, seed);
        Venue { cloud, routes: routes(&[2, 4, 6], hedge), probes }
    }

    impl Venue {
        fn problem<'a>(&'a self, slices: &'a [usize], seed: u64) -> Problem<'a> {
            Problem {
                routes: &self.routes,
                probes: &self.probes,
                root: 0,
                pool: &POOL,
                leaves: &LEAVES,
                present: &PRESENT,
                free: &FREE,
                slices,
                copy_ns: 2_700,
                candidates: 6,
                seed,
            }
        }

        /// The best tree by some slices, and whether it counts by others.
        fn decided(
            &self,
            chosen: &[usize],
            judged: &[usize],
            rule: &Rule,
            seed: u64,
        ) -> (Proposal, bool) {
            let problem = self.problem(chosen, seed);
            let all = problem.proposals();
            let best =
                all.into_iter().min_by(|a, b| a.cost_ns.total_cmp(&b.cost_ns)).expect("present");
            let how = Play { slices: judged, messages: 60, copy_ns: 2_700, seed };
            let of =
                |proxies: &[usize]| play(&self.routes, &problem.vms(proxies), &self.probes, &how);
            let counts = judge(&of(&PRESENT), &of(&best.proxies), rule, seed).counts;
            (best, counts)
        }
    }

    #[test]
    fn a_pool_of_equals_is_left_alone() {
        let (chosen, judged) = (chosen_by(SLICES), judged_by(SLICES));
        let (mut changed, mut naive) = (Vec::new(), 0);
        // Five series of 20 plans: by chance alone one of them changes in one of ten such tests, and the seeds
        // are fixed.
        for seed in 0..100 {
            let venue = venue(&[], 0, seed);
            if venue.decided(&chosen, &judged, &RULE, seed).1 {
                changed.push(seed);
            }
            if seed < 20 {
                // What the cut and the least gain are for: judged by what it was chosen by, chance wins.
                let rule = Rule { alpha: 0.05, least: 0.0 };
                naive += usize::from(venue.decided(&chosen, &chosen, &rule, seed).1);
            }
        }
        assert!(changed.is_empty(), "changed at seeds {changed:?}");
        assert!(naive >= 5, "the control finds a gain where there is none: {naive} of 20");
    }

    #[test]
    fn one_straggler_is_moved_away() {
        let (chosen, judged) = (chosen_by(SLICES), judged_by(SLICES));
        let mut kept = Vec::new();
        for seed in 0..100 {
            let slow = 1 + seed as usize % 6;
            let (best, counts) = venue(&[slow], 0, seed).decided(&chosen, &judged, &RULE, seed);
            if !counts || best.proxies.contains(&slow) {
                kept.push((seed, slow, best));
            }
        }
        assert!(kept.len() <= 5, "kept: {kept:?}");
    }

    #[test]
    fn strategies_know_a_straggler_but_those_that_look_for_one_or_nowhere() {
        let venue = venue(&[2, 5], 1, 3);
        assert_eq!(venue.cloud.stragglers(), [2, 5]);
        let slices: Vec<usize> = chosen_by(SLICES);
        let problem = venue.problem(&slices, 3);
        let all = problem.proposals();
        let of = |name: &str| all.iter().find(|of| of.strategy == name).expect("made");
        assert_eq!((all[0].strategy.as_str(), &all[0].proxies[..]), ("PRESENT", &PRESENT[..]));
        for name in ["LEMON", "LEMON-WORST-LEAF", "LEMON-EXPECTED-MAX", "REVISE"] {
            let tree = of(name);
            assert!(!tree.proxies.contains(&2) && !tree.proxies.contains(&5), "{tree:?}");
            assert!(tree.cost_ns < of("PRESENT").cost_ns, "{name}");
        }
        assert!(of("WORST-P90").cost_ns > of("LEMON-EXPECTED-MAX").cost_ns);
        for tree in &all {
            let mut vms = tree.proxies.clone();
            vms.sort_unstable();
            vms.dedup();
            assert!(vms.len() == 6 && vms.iter().all(|vm| POOL.contains(vm)), "{tree:?}");
        }
        // Whoever stays stays at the place.
        let revised = &of("REVISE").proxies;
        assert!(PRESENT.iter().zip(revised).all(|(was, is)| was == is || !revised.contains(was)));
        assert_eq!(problem.proposals(), all, "a seed says it all");
    }

    #[test]
    fn a_subtree_alone_changes_and_a_pool_without_spares_changes_places_at_most() {
        let venue = venue(&[2, 3], 0, 5);
        let slices = chosen_by(SLICES);
        let free = venue.routes.subtree(2);
        assert_eq!(free, [2, 5, 6]);
        let problem = Problem { free: &free, ..venue.problem(&slices, 5) };
        for tree in problem.proposals() {
            assert_eq!([0, 2, 3].map(|at| tree.proxies[at]), [1, 3, 4], "{tree:?}");
        }
        let best = |problem: &Problem<'_>| {
            let all = problem.proposals();
            all.into_iter().min_by(|a, b| a.cost_ns.total_cmp(&b.cost_ns)).expect("present")
        };
        assert!(!best(&problem).proxies.contains(&2));
        let problem = Problem { pool: &PRESENT, ..venue.problem(&slices, 5) };
        assert!(best(&problem).proxies.iter().all(|vm| PRESENT.contains(vm)));
        let problem = Problem { free: &[], ..problem };
        assert_eq!(problem.proposals().len(), 1);
    }
}
