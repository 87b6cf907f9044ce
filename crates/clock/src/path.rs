//! One incoming path: coded pairs are matched, judged and kept as the chain of a window.
//!
//! A coded pair is two probes a known spacing apart. A pair that arrives with another spacing met
//! something on the way that only one of the two met: a queue, an interrupt, another tenant. It is
//! impure and tells little; both halves are refused (Geng et al., section 3.1). Memory is bounded:
//! points are reduced to their chain as soon as there are [`POINTS`] of them, which loses nothing.

use types::Nanos;

use crate::hull::{Point, Side, reduce};
use crate::wire::{OFFSET_MAX_NS, Probe};

/// Points that wait before they are reduced.
pub const POINTS: usize = 512;

/// Counts of probe pairs in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PairCounts {
    /// Number of pairs that were used.
    pub pure: u64,
    /// Pairs that were refused because their spacing had changed.
    pub impure: u64,
}

/// What the receiver of probes keeps of one path.
#[derive(Clone, Debug)]
pub struct Path {
    /// Above: the receiver's clock is the first end's, by which moments are told.
    side: Side,
    tolerance_ns: u64,
    points: Vec<Point>,
    /// First half of the latest pair: number, sent, arrived.
    first: Option<(u32, Nanos, Nanos)>,
    counts: PairCounts,
}

impl Path {
    /// A path whose probes bound the offset from `side`'s point of view; pairs whose spacing
    /// changes by more than `tolerance_ns` are impure.
    pub fn new(side: Side, tolerance_ns: u64) -> Path {
        let points = Vec::with_capacity(POINTS + 2);
        Path { side, tolerance_ns, points, first: None, counts: PairCounts::default() }
    }

    /// A probe has arrived at `at` on the receiver's free-running clock.
    pub fn arrived(&mut self, probe: &Probe, at: Nanos) {
        if !probe.second {
            self.first = Some((probe.number, probe.sent, at));
            return;
        }
        let Some((number, sent, arrived)) = self.first.take() else { return };
        if number != probe.number {
            return;
        }
        let spacing = |later: Nanos, earlier: Nanos| later.0.wrapping_sub(earlier.0) as i64;
        let change = spacing(at, arrived).abs_diff(spacing(probe.sent, sent));
        if change > self.tolerance_ns {
            self.counts.impure += 1;
            return;
        }
        self.counts.pure += 1;
        self.keep(sent, arrived);
        self.keep(probe.sent, at);
        if self.points.len() >= POINTS {
            reduce(&mut self.points, self.side);
            // A chain this long has lost its use as a summary; half of it is a wider bound.
            if self.points.len() >= POINTS / 2 {
                let mut at = 0usize;
                self.points.retain(|_| {
                    at += 1;
                    at.is_multiple_of(2)
                });
            }
        }
    }

    fn keep(&mut self, sent: Nanos, arrived: Nanos) {
        let difference = arrived.0.wrapping_sub(sent.0) as i64;
        if !(-OFFSET_MAX_NS..=OFFSET_MAX_NS).contains(&difference) {
            return;
        }
        let point = match self.side {
            Side::Below => Point { x: sent.0 as i64, y: difference },
            Side::Above => Point { x: arrived.0 as i64, y: -difference },
        };
        self.points.push(point);
    }

    /// The chain and counts of the window that ends now; the next one begins with
    /// [`Path::begin`].
    pub fn end(&mut self) -> (&[Point], PairCounts) {
        reduce(&mut self.points, self.side);
        (&self.points, self.counts)
    }

    /// Begins a window: forgets the last one.
    pub fn begin(&mut self) {
        self.points.clear();
        self.counts = PairCounts::default();
    }
}

#[cfg(test)]
mod tests {
    use types::NodeId;

    use super::*;

    fn pair(path: &mut Path, number: u32, sent: u64, spacing: u64, arrivals: [u64; 2]) {
        for (second, arrived) in [(false, arrivals[0]), (true, arrivals[1])] {
            let sent = Nanos(sent + u64::from(second) * spacing);
            let probe = Probe { from: NodeId(0), to: NodeId(1), number, second, sent };
            path.arrived(&probe, Nanos(arrived));
        }
    }

    #[test]
    fn pairs_that_were_pulled_apart_or_pushed_together_are_refused() {
        let mut path = Path::new(Side::Below, 100);
        pair(&mut path, 1, 1_000, 200, [2_000, 2_300]);
        pair(&mut path, 2, 5_000, 200, [6_000, 6_301]);
        pair(&mut path, 3, 9_000, 200, [10_000, 10_099]);
        let (points, counts) = path.end();
        assert_eq!(points, [Point { x: 1_000, y: 1_000 }, Point { x: 1_200, y: 1_100 }]);
        assert_eq!(counts, PairCounts { pure: 1, impure: 2 });
        path.begin();
        assert_eq!(path.end(), (&[][..], PairCounts::default()));
    }

    #[test]
    fn halves_without_their_other_half_tell_nothing() {
        let mut path = Path::new(Side::Above, 100);
        let probe = |number, second| Probe {
            from: NodeId(0),
            to: NodeId(1),
            number,
            second,
            sent: Nanos(10),
        };
        path.arrived(&probe(1, true), Nanos(50));
        path.arrived(&probe(2, false), Nanos(50));
        path.arrived(&probe(3, true), Nanos(50));
        path.arrived(&probe(2, true), Nanos(50));
        assert_eq!(path.end().1, PairCounts::default());
    }

    #[test]
    fn memory_is_bounded_and_the_chain_stays_the_same() {
        let mut path = Path::new(Side::Below, u64::MAX);
        let mut all = Vec::new();
        let mut rng = types::SplitMix64::new(3);
        for number in 0..5_000u32 {
            let sent = u64::from(number) * 10_000;
            let arrivals = [sent + 5_000 + rng.below(9_000), sent + 5_200 + rng.below(9_000)];
            pair(&mut path, number, sent, 200, arrivals);
            all.push(Point { x: sent as i64, y: (arrivals[0] - sent) as i64 });
            all.push(Point { x: sent as i64 + 200, y: (arrivals[1] - sent - 200) as i64 });
        }
        assert!(path.points.capacity() <= 2 * POINTS);
        reduce(&mut all, Side::Below);
        assert_eq!(path.end().0, all);
    }
}
