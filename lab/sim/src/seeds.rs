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
    let (next, sum) = (AtomicU64::new(0), Mutex::new(S::default()));
    let work = || {
        loop {
            let Some(seed) = take(&next, &seeds) else { return };
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

/// The next seed of a range; `next` counts those that were taken, from 0, and so does not pass the largest number.
pub(crate) fn take(next: &AtomicU64, seeds: &Range<u64>) -> Option<u64> {
    let taken = next.fetch_add(1, Ordering::Relaxed);
    (taken < seeds.end.saturating_sub(seeds.start)).then(|| seeds.start + taken)
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_up_to_the_largest_are_run_once() {
        let first = u64::MAX - 3;
        let add = |sum: &mut Vec<u64>, seed| {
            sum.push(seed);
            (sum.len() as u64, 0)
        };
        let panicked = |_: u64, text: &str| panic!("{text}");
        let mut ran: Vec<u64> = sum(first..u64::MAX, 4, |seed| seed, panicked, add, |_, _| {});
        ran.sort_unstable();
        assert_eq!(ran, [first, first + 1, first + 2]);
    }
}
