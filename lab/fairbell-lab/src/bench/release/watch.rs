//! A clock that notices when the thread that reads it lost its core, and what the kernel says of that.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use net::Timekeeper;
use types::{ClockReading, Nanos};

/// A longer time between two readings is a gap: nothing that a receiver does takes so long.
pub const GAP_NS: u64 = 20 * Nanos::MICRO;
/// No send takes so long: a longer one had no core all the time.
pub const SEND_NS: u64 = 50 * Nanos::MICRO;
/// Gaps kept of a slice.
const GAPS: usize = 1 << 16;

/// The process's clock for one thread that reads it again and again: it keeps the gaps between two
/// readings that are longer than [`GAP_NS`].
pub struct Watch {
    last: AtomicU64,
    count: AtomicUsize,
    gaps: Box<[(AtomicU64, AtomicU64)]>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl Watch {
    /// One that stays as long as the process does, because clocks are copied freely.
    pub fn start() -> &'static Watch {
        let gaps = (0..GAPS).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect();
        let (last, count) = (AtomicU64::new(u64::MAX), AtomicUsize::new(0));
        Box::leak(Box::new(Watch { last, count, gaps }))
    }

    /// Forgets all gaps: the next reading is the first.
    pub fn begin(&self) {
        self.last.store(u64::MAX, Relaxed);
        self.count.store(0, Relaxed);
    }

    /// The gaps, oldest first: last reading before and first after. What was beyond the room is lost.
    pub fn gaps(&self) -> Vec<(Nanos, Nanos)> {
        let kept = self.gaps.iter().take(self.count.load(Relaxed));
        kept.map(|(from, to)| (Nanos(from.load(Relaxed)), Nanos(to.load(Relaxed)))).collect()
    }
}

impl Timekeeper for Watch {
    fn reading(&self, process: Nanos) -> ClockReading {
        let last = self.last.load(Relaxed);
        self.last.store(process.0, Relaxed);
        if process.0 > last.saturating_add(GAP_NS) {
            let count = self.count.load(Relaxed);
            if let Some((from, to)) = self.gaps.get(count) {
                from.store(last, Relaxed);
                to.store(process.0, Relaxed);
                self.count.store(count + 1, Relaxed);
            }
        }
        ClockReading { now: process, bound_ns: 0 }
    }
}

/// Whether the core was away between a deadline and its stamp: a gap that begins before the deadline and
/// ends after it, or one that covers more than [`SEND_NS`] of the time between them. `gaps` are in order.
pub fn taken_away(gaps: &[(Nanos, Nanos)], deadline: Nanos, stamp: Nanos) -> bool {
    let first = gaps.partition_point(|(_, to)| *to <= deadline);
    let near = gaps.iter().skip(first).take_while(|(from, _)| *from < stamp);
    near.into_iter().any(|&(from, to)| {
        let covered = to.min(stamp).since(from.max(deadline));
        from < deadline || covered > SEND_NS
    })
}

/// What the kernel says of the calling thread: time on a core and time waiting for one, ns.
pub fn waited() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap_or(0));
    [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_kept_and_deadlines_in_them_told_from_others() {
        let watch = Watch::start();
        for us in [10, 11, 40, 41, 60, 200] {
            assert_eq!(watch.reading(Nanos(us * 1_000)).now, Nanos(us * 1_000));
        }
        let gaps = watch.gaps();
        assert_eq!(gaps, [(Nanos(11_000), Nanos(40_000)), (Nanos(60_000), Nanos(200_000))]);
        let taken = |deadline, stamp| taken_away(&gaps, Nanos(deadline), Nanos(stamp));
        // In a gap, even at its end.
        assert!(taken(11_001, 15_000) && taken(39_999, 41_000) && taken(100_000, 201_000));
        // Before it, and after it.
        assert!(!taken(10_000, 10_500) && !taken(40_000, 41_000) && !taken(200_000, 201_000));
        // Sent in it, which is no wonder unless it takes too long.
        assert!(!taken(59_900, 60_000 + SEND_NS) && taken(59_900, 60_001 + SEND_NS));
        watch.begin();
        watch.reading(Nanos(900_000));
        assert!(watch.gaps().is_empty());
    }

    #[test]
    fn the_kernel_counts_the_time_of_a_thread() {
        let [before, _] = waited();
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 20 {}
        let [after, _] = waited();
        assert!(after > before, "{before} {after}");
    }
}
