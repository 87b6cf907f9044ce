//! TreeBuilder (thesis, algorithm 2): grow a tree from the root down, probing K candidates for one
//! parent at a time and taking the F best.
//!
//! A [`Builder`] asks questions and is told answers, so the same code builds from real probes and
//! from a synthetic cloud. It can also fill part of a tree anew ([`Builder::reselect`]). The pool
//! is sliced by a seeded generator: equal seeds offer equal first candidates to every strategy. A VM
//! that does not answer leaves the pool; a parent that does not is replaced and asked for again.

use std::fmt;

use serde::{Deserialize, Serialize};
use types::SplitMix64;

use crate::score::Strategy;
use crate::stats::Summary;
use crate::tree::{Shape, Tree};

/// Which of the ranked candidates to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Pick {
    /// The candidates with the best scores.
    Best,
    /// The worst, to see what stragglers do.
    Worst,
    /// Random candidates, which are not probed.
    Rand,
}

/// Why a tree can't be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// The pool has fewer VMs left than the tree needs.
    PoolTooSmall,
    /// Fewer candidates per parent (K) than children (F) are asked for.
    FewCandidates,
    /// The root, or a VM of the tree, is not in the pool.
    Unknown,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PlanError::PoolTooSmall => "the pool has fewer living VMs than the tree needs",
            PlanError::FewCandidates => "candidates (K) must be at least the fan-out (F)",
            PlanError::Unknown => "a VM of the tree is not in the pool",
        })
    }
}

impl std::error::Error for PlanError {}

/// Settings of a [`Builder`].
#[derive(Clone, PartialEq, Debug)]
pub struct BuildOptions {
    /// Depth and fan-out of the tree.
    pub shape: Shape,
    /// Candidates probed for each parent (K); at least the fan-out.
    pub candidates: usize,
    /// Which of the ranked candidates are taken.
    pub pick: Pick,
    /// Strategy by which candidates are ranked.
    pub strategy: Strategy,
    /// Seed of the random choice of candidates.
    pub seed: u64,
}

/// A probe job that a [`Builder`] asks for: the delays from one VM to others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// VM that sends the probes.
    pub parent: usize,
    /// VMs that receive the probes and report.
    pub candidates: Vec<usize>,
}

/// Builds a tree layer by layer.
#[derive(Clone, Debug)]
pub struct Builder {
    options: BuildOptions,
    vms: Vec<Option<usize>>,
    pool: Vec<usize>,
    rng: SplitMix64,
    /// Positions whose children are still to be chosen; the next one is last.
    wanted: Vec<usize>,
    asked: Option<Question>,
}

impl Builder {
    /// A whole tree below `root`, which must be in the pool.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(options: BuildOptions, pool: &[usize], root: usize) -> Result<Builder, PlanError> {
        let mut vms = vec![None; options.shape.positions()];
        vms[0] = Some(root);
        let positions = (0..options.shape.internal()).rev().collect();
        Builder::start(options, vms, pool, positions)
    }

    /// Everything below `position` of a live tree anew; the position itself and the rest of the
    /// tree stay. `pool`: the VMs alive, those of the tree among them.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn reselect(
        options: BuildOptions,
        tree: &Tree,
        position: usize,
        pool: &[usize],
    ) -> Result<Builder, PlanError> {
        let shape = tree.shape;
        let below = shape.subtree(position);
        let mut vms: Vec<Option<usize>> = tree.vms.iter().copied().map(Some).collect();
        for at in below.iter().skip(1) {
            if let Some(vm) = vms.get_mut(*at) {
                *vm = None;
            }
        }
        let positions: Vec<usize> =
            below.into_iter().rev().filter(|at| *at < shape.internal()).collect();
        Builder::start(BuildOptions { shape, ..options }, vms, pool, positions)
    }

    fn start(
        options: BuildOptions,
        vms: Vec<Option<usize>>,
        pool: &[usize],
        wanted: Vec<usize>,
    ) -> Result<Builder, PlanError> {
        if options.candidates < options.shape.fanout && options.pick != Pick::Rand {
            return Err(PlanError::FewCandidates);
        }
        if vms.iter().flatten().any(|vm| !pool.contains(vm)) {
            return Err(PlanError::Unknown);
        }
        let free: Vec<usize> =
            pool.iter().copied().filter(|vm| !vms.contains(&Some(*vm))).collect();
        if free.len() < vms.iter().filter(|vm| vm.is_none()).count() {
            return Err(PlanError::PoolTooSmall);
        }
        let rng = SplitMix64::new(SplitMix64::mix(options.seed));
        Ok(Builder { options, vms, pool: free, rng, wanted, asked: None })
    }

    /// The next job, the same until it is answered; `None` when the tree is complete.
    ///
    /// # Errors
    /// [`PlanError::PoolTooSmall`], when too many VMs died.
    pub fn ask(&mut self) -> Result<Option<Question>, PlanError> {
        while self.asked.is_none() {
            let Some(&position) = self.wanted.last() else { return Ok(None) };
            let fanout = self.options.shape.fanout;
            let open = self.vms.iter().filter(|vm| vm.is_none()).count();
            if self.pool.len() < open {
                return Err(PlanError::PoolTooSmall);
            }
            let take = match self.options.pick {
                Pick::Rand => fanout,
                _ => self.options.candidates,
            };
            let candidates = self.slice(take);
            if self.options.pick == Pick::Rand {
                self.place(position, &candidates);
                continue;
            }
            let parent = self.vms.get(position).copied().flatten().ok_or(PlanError::Unknown)?;
            self.asked = Some(Question { parent, candidates });
        }
        Ok(self.asked.clone())
    }

    /// Takes `count` random VMs out of the pool.
    fn slice(&mut self, count: usize) -> Vec<usize> {
        for at in 0..count.min(self.pool.len()) {
            let with = at + self.rng.below((self.pool.len() - at) as u64) as usize;
            self.pool.swap(at, with);
        }
        self.pool.iter().take(count).copied().collect()
    }

    fn place(&mut self, position: usize, chosen: &[usize]) {
        for (child, vm) in self.options.shape.children(position).zip(chosen) {
            self.vms[child] = Some(*vm);
        }
        self.pool.retain(|vm| !chosen.contains(vm));
        self.wanted.pop();
    }

    /// What the candidates saw; one without a summary is dead and leaves the pool. Gives those
    /// chosen, none when there are too few left and the question will be asked again.
    pub fn answer(&mut self, seen: &[(usize, Option<Summary>)]) -> Vec<usize> {
        let (Some(question), Some(&position)) = (self.asked.take(), self.wanted.last()) else {
            return Vec::new();
        };
        let of = |vm: &usize| seen.iter().find(|(seen, _)| seen == vm).and_then(|(_, s)| *s);
        let mut ranked: Vec<(f64, usize)> = Vec::new();
        for vm in &question.candidates {
            match of(vm) {
                Some(summary) if summary.received > 0 => {
                    ranked.push((self.options.strategy.badness(&summary), *vm));
                }
                _ => self.pool.retain(|of| of != vm),
            }
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        if self.options.pick == Pick::Worst {
            ranked.reverse();
        }
        let fanout = self.options.shape.fanout;
        let chosen: Vec<usize> = ranked.iter().take(fanout).map(|(_, vm)| *vm).collect();
        if chosen.len() < fanout {
            return Vec::new();
        }
        self.place(position, &chosen);
        chosen
    }

    /// The parent asked for is dead: another VM takes its place and is asked for next.
    ///
    /// # Errors
    /// [`PlanError::PoolTooSmall`], when nobody is left.
    pub fn parent_failed(&mut self) -> Result<(), PlanError> {
        self.asked = None;
        let Some(&position) = self.wanted.last() else { return Ok(()) };
        let next = self.slice(1).first().copied().ok_or(PlanError::PoolTooSmall)?;
        self.pool.retain(|vm| *vm != next);
        self.vms[position] = Some(next);
        Ok(())
    }

    /// The tree, once it is complete; `None` before.
    pub fn tree(&self) -> Option<Tree> {
        Tree::new(self.options.shape, self.vms.iter().copied().collect::<Option<Vec<_>>>()?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn options(pick: Pick, candidates: usize) -> BuildOptions {
        let shape = Shape::new(3, 2).unwrap();
        BuildOptions { shape, candidates, pick, strategy: Strategy::P50, seed: 3 }
    }

    fn summary(p50_ns: f64) -> Summary {
        Summary { p50_ns, received: 10, ..Summary::default() }
    }

    /// Answers with each VM's number as its delay.
    fn build(mut builder: Builder) -> (Tree, Vec<Question>) {
        let mut questions = Vec::new();
        while let Some(question) = builder.ask().unwrap() {
            let seen: Vec<_> =
                question.candidates.iter().map(|vm| (*vm, Some(summary(*vm as f64)))).collect();
            builder.answer(&seen);
            questions.push(question);
        }
        (builder.tree().unwrap(), questions)
    }

    #[test]
    fn best_takes_the_best_and_worst_the_worst_of_each_slice() {
        let pool: Vec<usize> = (0..25).collect();
        let (best, questions) = build(Builder::new(options(Pick::Best, 4), &pool, 9).unwrap());
        assert_eq!(questions.len(), 7);
        assert_eq!((best.root(), questions[0].parent), (9, 9));
        let mut first = questions[0].candidates.clone();
        first.sort_unstable();
        assert_eq!(best.vms[1..3], first[..2]);
        let (worst, others) = build(Builder::new(options(Pick::Worst, 4), &pool, 9).unwrap());
        // Equal seeds offer the same first slice.
        assert_eq!(others[0], questions[0]);
        assert_eq!(worst.vms[1..3], [first[3], first[2]]);
        let mean = |tree: &Tree| tree.vms.iter().sum::<usize>();
        assert!(mean(&best) < mean(&worst));
        let (rand, none) = build(Builder::new(options(Pick::Rand, 4), &pool, 9).unwrap());
        assert!(none.is_empty() && rand.vms.len() == 15);
    }

    #[test]
    fn with_all_candidates_the_best_are_found() {
        let pool: Vec<usize> = (0..25).collect();
        let (tree, _) = build(Builder::new(options(Pick::Best, 25), &pool, 0).unwrap());
        assert_eq!(tree.vms, (0..15).collect::<Vec<_>>());
    }

    #[test]
    fn a_subtree_is_selected_anew_and_the_rest_stays() {
        let pool: Vec<usize> = (0..25).collect();
        let tree = Tree::new(Shape::new(3, 2).unwrap(), (10..25).collect()).unwrap();
        let builder = Builder::reselect(options(Pick::Best, 25), &tree, 2, &pool).unwrap();
        let (revised, questions) = build(builder);
        assert_eq!(questions.iter().map(|q| q.parent).collect::<Vec<_>>(), [12, 0, 1]);
        let changed: Vec<usize> = tree.changes(&revised).iter().map(|change| change.0).collect();
        assert_eq!(changed, [5, 6, 11, 12, 13, 14]);
        assert_eq!([5, 6, 11, 12, 13, 14].map(|at| revised.vms[at]), [0, 1, 2, 3, 4, 5]);
        // A leaf has nothing below it.
        let mut leaf = Builder::reselect(options(Pick::Best, 4), &tree, 9, &pool).unwrap();
        assert_eq!((leaf.ask(), leaf.tree()), (Ok(None), Some(tree)));
    }

    #[test]
    fn the_dead_leave_the_pool_and_dead_parents_are_replaced() {
        let pool: Vec<usize> = (0..25).collect();
        let mut builder = Builder::new(options(Pick::Best, 4), &pool, 0).unwrap();
        let dead = [3, 4, 5, 6, 7];
        let mut parents_lost = 0;
        while let Some(question) = builder.ask().unwrap() {
            if question.parent == 1 {
                parents_lost += 1;
                builder.parent_failed().unwrap();
                continue;
            }
            let alive = |vm: &usize| (!dead.contains(vm)).then(|| summary(*vm as f64));
            let seen: Vec<_> = question.candidates.iter().map(|vm| (*vm, alive(vm))).collect();
            builder.answer(&seen);
        }
        let tree = builder.tree().unwrap();
        assert!(dead.iter().all(|vm| !tree.vms.contains(vm)), "{tree:?}");
        assert!(parents_lost <= 1);
    }

    #[test]
    fn what_can_not_be_built_is_refused() {
        let pool: Vec<usize> = (0..14).collect();
        let refused = |options, pool: &[usize], root| Builder::new(options, pool, root).err();
        assert_eq!(refused(options(Pick::Best, 4), &pool, 0), Some(PlanError::PoolTooSmall));
        let pool: Vec<usize> = (0..15).collect();
        assert_eq!(refused(options(Pick::Best, 1), &pool, 0), Some(PlanError::FewCandidates));
        assert_eq!(refused(options(Pick::Best, 4), &pool, 99), Some(PlanError::Unknown));
        // Everybody dies: an error, no endless loop.
        let mut builder = Builder::new(options(Pick::Best, 4), &pool, 0).unwrap();
        let end = loop {
            match builder.ask() {
                Ok(Some(_)) => drop(builder.answer(&[])),
                other => break other,
            }
        };
        assert_eq!(end, Err(PlanError::PoolTooSmall));
    }

    proptest! {
        #[test]
        fn any_answers_end_in_a_tree_or_an_error(
            seed in any::<u64>(),
            answers in prop::collection::vec((any::<bool>(), any::<f64>(), 0u64..3), 200),
        ) {
            let pool: Vec<usize> = (0..20).collect();
            let options = BuildOptions { seed, ..options(Pick::Best, 5) };
            let mut builder = Builder::new(options, &pool, 2).unwrap();
            let mut answers = answers.into_iter();
            let mut steps = 0;
            while let Ok(Some(question)) = builder.ask() {
                steps += 1;
                prop_assert!(steps < 100);
                let mut next = |vm: &usize| {
                    let (known, p50_ns, received) = answers.next().unwrap_or((true, 1.0, 1));
                    (*vm, known.then_some(Summary { p50_ns, received, ..Summary::default() }))
                };
                let seen: Vec<_> = question.candidates.iter().map(&mut next).collect();
                builder.answer(&seen);
            }
            if let Some(tree) = builder.tree() {
                prop_assert_eq!(tree.root(), 2);
            }
        }
    }
}
