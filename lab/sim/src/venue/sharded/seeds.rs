//! Many seeds of venues of several shards as they are deployed.

use std::ops::Range;

use super::{Counts, Options, Report, run};

/// Failing seeds that are kept with what was found.
const KEPT: usize = 20;

/// What many seeds came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Seeds played.
    pub seeds: u64,
    /// Seeds in which a check found something.
    pub failed: u64,
    /// The lowest of them, and what was found.
    pub found: Vec<(u64, String)>,
    /// What happened in all seeds.
    pub counts: Counts,
}

impl Summary {
    fn add(&mut self, report: Report) {
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

/// Runs seeds on some threads; `progress` hears how many are done and have failed. A panic is a
/// failure. The summary does not depend on the threads.
pub fn run_seeds(
    seeds: Range<u64>,
    threads: usize,
    options: &Options,
    progress: &(impl Fn(u64, u64) + Sync),
) -> Summary {
    let panicked = |seed, text: &str| {
        let failed = Some(format!("panic: {text}"));
        Report { seed, failed, counts: Counts::default(), digest: 0 }
    };
    let add = |summary: &mut Summary, report| {
        summary.add(report);
        (summary.seeds, summary.failed)
    };
    crate::seeds::sum(seeds, threads, |seed| run(seed, options), panicked, add, progress)
}
