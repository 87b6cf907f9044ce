//! Many seeds of venues of several shards, in whichever of their worlds.

use std::ops::Range;

/// What is counted in one seed, and can be added up.
pub trait Tally: Copy + Default + Send {
    /// Adds the counts of another seed.
    fn add(&mut self, other: &Self);
}

macro_rules! counts {
    ($($name:ident $what:literal),* $(,)?) => {
        /// What happened in one seed or many.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Counts { $(#[doc = $what] pub $name: u64,)* }

        impl Counts {
            /// Names and values, in a fixed order.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        impl $crate::shards::Tally for Counts {
            fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }
        }
    };
}
pub(crate) use counts;

/// What a seed came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeedReport<C> {
    /// The seed.
    pub seed: u64,
    /// What a check found; `None`: nothing.
    pub failed: Option<String>,
    /// What happened.
    pub counts: C,
    /// Digest of what happened: equal whenever the seed is played.
    pub digest: u64,
}

/// Failing seeds that are kept with what was found.
const KEPT: usize = 20;

/// What many seeds came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary<C> {
    /// Seeds played.
    pub seeds: u64,
    /// Seeds in which a check found something.
    pub failed: u64,
    /// The lowest of them, and what was found.
    pub found: Vec<(u64, String)>,
    /// What happened in all seeds.
    pub counts: C,
}

impl<C: Tally> Summary<C> {
    fn add(&mut self, report: SeedReport<C>) {
        self.seeds += 1;
        self.counts.add(&report.counts);
        if let Some(what) = report.failed {
            self.failed += 1;
            self.found.push((report.seed, what));
            self.found.sort();
            self.found.truncate(KEPT);
        }
    }
}

/// Sums the reports of all seeds; see [`super::run_seeds`].
pub(crate) fn run_many<C: Tally>(
    seeds: Range<u64>,
    threads: usize,
    run: impl Fn(u64) -> SeedReport<C> + Sync,
    progress: &(impl Fn(u64, u64) + Sync),
) -> Summary<C> {
    let panicked = |seed, text: &str| {
        let failed = Some(format!("panic: {text}"));
        SeedReport { seed, failed, counts: C::default(), digest: 0 }
    };
    let add = |summary: &mut Summary<C>, report| {
        summary.add(report);
        (summary.seeds, summary.failed)
    };
    crate::seeds::sum(seeds, threads, run, panicked, add, progress)
}
