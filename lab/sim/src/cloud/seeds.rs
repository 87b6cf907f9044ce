//! Runs of several seeds at a time: each on a thread of its own, results in the order of the seeds,
//! so that nothing depends on how many threads there are.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::thread;

/// `work` of every seed.
pub fn map<T: Send>(seeds: Range<u64>, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let count = seeds.end.saturating_sub(seeds.start);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(count as usize);
    let next = AtomicU64::new(0);
    let take = || crate::seeds::take(&next, &seeds).map(|seed| (seed, work(seed)));
    let mut done: Vec<(u64, T)> = thread::scope(|scope| {
        let worker = || std::iter::from_fn(take).collect::<Vec<_>>();
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let own = worker();
        let joined = workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default());
        own.into_iter().chain(joined).collect()
    });
    assert_eq!(done.len() as u64, count, "a run panicked");
    done.sort_unstable_by_key(|(seed, _)| *seed);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_seeds() {
        assert_eq!(map(7..100, |seed| seed * seed), (7..100).map(|n| n * n).collect::<Vec<u64>>());
        assert!(map(5..5, |seed| seed).is_empty());
        assert_eq!(map(u64::MAX - 2..u64::MAX, |seed| seed), [u64::MAX - 2, u64::MAX - 1]);
    }
}
