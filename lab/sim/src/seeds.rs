//! Many seeds on a few threads. Each seed is a world of its own; threads share nothing but the counter of
//! seeds and the sum, which does not depend on them where adding reports does not depend on their order.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs `run` for every seed on `threads` threads and sums the reports.
///
/// `panicked` makes the report of a seed that panicked, with the panic's text. `add` adds a report to the sum
/// and returns how many seeds are done and how many of them have failed, which `progress` is told.
pub(crate) fn sum<R, S: Default + Send>(
    seeds: Range<u64>,
    threads: usize,
    run: impl Fn(u64) -> R + Sync,
    panicked: impl Fn(u64, &str) -> R + Sync,
    add: impl Fn(&mut S, R) -> (u64, u64) + Sync,
    progress: impl Fn(u64, u64) + Sync,
) -> S {
    let (next, sum) = (AtomicU64::new(seeds.start), Mutex::new(S::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let report = catch_unwind(AssertUnwindSafe(|| run(seed)));
            let report = report.unwrap_or_else(|panic| panicked(seed, text(panic.as_ref())));
            let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
            let (done, failed) = add(&mut sum, report);
            drop(sum);
            progress(done, failed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
