//! Many seeds on some threads, each group within one of them.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::{Checker, Counts, Found, Options, Report, Summary, run};

/// Runs seeds on some threads; `progress` hears how many are done and have failed. A panic is found
/// by [`Checker::Panic`]. The summary does not depend on the threads.
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
            let (done, failed) = (summary.seeds, summary.failures);
            drop(summary);
            progress(done, failed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.failovers_ns.sort_unstable();
    summary
}

fn panicked(seed: u64, panic: &(dyn Any + Send)) -> Report {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let found = vec![Found { checker: Checker::Panic, what: text.to_string() }];
    Report { seed, found, counts: Counts::default(), failovers_ns: vec![], digest: 0 }
}
