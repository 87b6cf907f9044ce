//! Many seeds on some threads, each venue within one of them.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

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
    let (next, summary) = (AtomicU64::new(seeds.start), Mutex::new(Summary::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let report = catch_unwind(AssertUnwindSafe(|| run(seed, options)));
            let report = report.unwrap_or_else(|panic| panicked(seed, panic.as_ref()));
            let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
            summary.add(report);
            let (done, failed) = (summary.seeds, summary.failed);
            drop(summary);
            progress(done, failed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn panicked(seed: u64, panic: &(dyn Any + Send)) -> Report {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let failed = Some(format!("panic: {text}"));
    Report { seed, failed, counts: Counts::default(), digest: 0 }
}
