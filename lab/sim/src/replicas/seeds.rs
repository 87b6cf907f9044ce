//! Many seeds of groups of replicas.

use std::ops::Range;

use super::{Checker, Counts, Found, Options, Report, Summary, run};

/// Runs seeds on some threads; `progress` hears how many are done and have failed. A panic is found
/// by [`Checker::Panic`]. The summary does not depend on the threads.
pub fn run_seeds(
    seeds: Range<u64>,
    threads: usize,
    options: &Options,
    progress: &(impl Fn(u64, u64) + Sync),
) -> Summary {
    let panicked = |seed, text: &str| {
        let found = vec![Found { checker: Checker::Panic, what: text.to_string() }];
        Report { seed, found, counts: Counts::default(), failovers_ns: vec![], digest: 0 }
    };
    let add = |summary: &mut Summary, report| {
        summary.add(report);
        (summary.seeds, summary.failures)
    };
    let run = |seed| run(seed, options);
    let mut summary: Summary = crate::seeds::sum(seeds, threads, run, panicked, add, progress);
    summary.failovers_ns.sort_unstable();
    summary
}
