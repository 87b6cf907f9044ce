//! Many seeds of whole exchanges.

use std::ops::Range;

use super::rekey::RekeyFigures;
use super::report::{Checker, Failure, Figures, SeedReport};

/// Reports of failed seeds kept in full.
const FAILED_MAX: usize = 16;

/// The end of many seeds.
#[derive(Clone, Default, Debug)]
pub struct Summary {
    /// Seeds run.
    pub seeds: u64,
    /// Seeds that failed.
    pub failed: u64,
    /// The lowest of the failed seeds, in full, at most 16.
    pub reports: Vec<SeedReport>,
    /// Sums over all seeds.
    pub total: Figures,
}

impl Summary {
    /// Adds the end of one seed.
    pub fn add(&mut self, report: SeedReport) {
        self.seeds += 1;
        self.total.add(&report.figures);
        if !report.failures.is_empty() {
            self.failed += 1;
            let place = self.reports.partition_point(|kept| kept.seed < report.seed);
            self.reports.insert(place, report);
            self.reports.truncate(FAILED_MAX);
        }
    }
}

/// Runs `run` for every seed on `threads` threads; `progress` hears how many are done and how
/// many of those have failed, after each one. A panic of a seed is a failure of that seed.
pub fn run_each(
    seeds: Range<u64>,
    threads: usize,
    run: &(dyn Fn(u64) -> SeedReport + Sync),
    again: &(dyn Fn(u64) -> String + Sync),
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Summary {
    let panicked = |seed, text: &str| {
        let reason = format!("panic: {text}");
        let failures = vec![Failure { checker: Checker::Sound, reason }];
        let (figures, rekeys) = (Figures::default(), RekeyFigures::default());
        SeedReport { seed, failures, figures, rekeys, event_hash: 0, again: again(seed) }
    };
    let add = |summary: &mut Summary, report| {
        summary.add(report);
        (summary.seeds, summary.failed)
    };
    crate::seeds::sum(seeds, threads, run, panicked, add, progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_runs_once_and_panics_are_failures() {
        let run = |seed: u64| {
            assert!(seed % 10 != 3, "seed {seed} is bad");
            let figures = Figures { orders: seed, ..Figures::default() };
            SeedReport {
                seed,
                failures: Vec::new(),
                figures,
                rekeys: RekeyFigures::default(),
                event_hash: seed,
                again: String::new(),
            }
        };
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let summary = run_each(10..40, 2, &run, &|seed| format!("again {seed}"), &|_, _| {});
        std::panic::set_hook(hook);
        assert_eq!((summary.seeds, summary.failed), (30, 3));
        assert_eq!(summary.total.orders, (10..40).sum::<u64>() - 13 - 23 - 33);
        let seeds: Vec<u64> = summary.reports.iter().map(|report| report.seed).collect();
        assert_eq!(seeds, [13, 23, 33]);
        let text = summary.reports[0].to_string();
        assert!(text.contains("again 13") && text.contains("sound: panic: seed 13 is bad"));
    }
}
