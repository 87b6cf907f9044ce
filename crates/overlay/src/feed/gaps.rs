//! What a receiver misses of the feed, and when it should ask (corner 13).
//!
//! A message is missing when a later one, or a heartbeat, shows that it was sent. Asking at once
//! would turn every reordering into a repair, so the receiver waits as long as copies of one
//! message are usually apart ([`Spread`]), which has nothing to do with the way to the root. An
//! unanswered request is repeated at doubling distances.
//!
//! The list of gaps is bounded: beyond [`GAPS_MAX`] gaps are joined, which asks for too much but
//! forgets nothing.

use types::Nanos;

/// Most separate gaps that are remembered.
pub const GAPS_MAX: usize = 64;
/// Doublings of the distance between requests.
const BACKOFF_MAX: u32 = 10;

/// A gap in the received messages: `from..to` are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Sequence number of the first missing message.
    pub from: u64,
    /// Number after the last missing message.
    pub to: u64,
    /// Time at which the gap was noticed.
    pub since: Nanos,
    /// Time at which the messages are asked for next.
    pub ask_at: Nanos,
    /// How often it was asked for.
    pub asked: u32,
}

/// The gaps of one feed, in order, disjoint.
pub struct Gaps {
    list: Vec<Gap>,
    /// One past the last message known to have been sent.
    known_end: u64,
}

impl Gaps {
    /// No gaps; messages are expected from number `first` on.
    pub fn new(first: u64) -> Gaps {
        Gaps { list: Vec::with_capacity(GAPS_MAX), known_end: first }
    }

    /// One past the last message known to have been sent.
    pub fn known_end(&self) -> u64 {
        self.known_end
    }

    /// All gaps, in ascending order of their numbers.
    pub fn list(&self) -> &[Gap] {
        &self.list
    }

    /// Every message before `end` has been sent: those not known yet are missing.
    pub fn learn(&mut self, end: u64, now: Nanos, wait_ns: u64) {
        if end > self.known_end {
            let from = std::mem::replace(&mut self.known_end, end);
            self.insert(Gap { from, to: end, since: now, ask_at: now + wait_ns, asked: 0 });
        }
    }

    /// Messages `from..to` came. The oldest gap they closed or made smaller, as it was before.
    pub fn fill(&mut self, from: u64, to: u64, now: Nanos, wait_ns: u64) -> Option<Gap> {
        if self.list.is_empty() && from <= self.known_end {
            self.known_end = self.known_end.max(to);
            return None;
        }
        self.learn(from, now, wait_ns);
        self.known_end = self.known_end.max(to);
        let first = self.list.partition_point(|gap| gap.to <= from);
        let touched = self.list.get(first).copied().filter(|gap| gap.from < to);
        let mut index = first;
        while let Some(gap) = self.list.get_mut(index).filter(|gap| gap.from < to) {
            let (left, right) = (gap.from < from, gap.to > to);
            if left && right {
                let rest = Gap { from: to, ..*gap };
                if self.list.len() < GAPS_MAX {
                    self.list[index].to = from;
                    self.list.insert(index + 1, rest);
                }
                break;
            } else if left {
                gap.to = from;
                index += 1;
            } else if right {
                gap.from = to;
                index += 1;
            } else {
                self.list.remove(index);
            }
        }
        touched
    }

    /// Messages `from..to`, which had come, were given up again.
    pub fn reopen(&mut self, from: u64, to: u64, now: Nanos, wait_ns: u64) {
        self.fill(from, to, now, wait_ns);
        self.insert(Gap { from, to, since: now, ask_at: now + wait_ns, asked: 0 });
    }

    /// When the next request is due; [`Nanos::NEVER`] while nothing is missing.
    pub fn next_ask(&self) -> Nanos {
        self.list.iter().map(|gap| gap.ask_at).min().unwrap_or(Nanos::NEVER)
    }

    /// The first gap whose request is due, now taken as asked for; the next request is `retry_ns`
    /// away, doubled with each one already made, up to `retry_max_ns`.
    pub fn ask(&mut self, now: Nanos, retry_ns: u64, retry_max_ns: u64) -> Option<Gap> {
        let gap = self.list.iter_mut().find(|gap| gap.ask_at <= now)?;
        let distance = retry_ns.saturating_mul(1 << gap.asked.min(BACKOFF_MAX));
        gap.asked = gap.asked.saturating_add(1);
        gap.ask_at = now + distance.clamp(1, retry_max_ns.max(1));
        Some(*gap)
    }

    /// A request was answered in part: asks for the rest of the gap at `from` in `retry_ns`.
    pub fn progress(&mut self, from: u64, now: Nanos, retry_ns: u64) {
        if let Some(gap) = self.list.iter_mut().find(|gap| gap.to > from)
            && gap.asked > 0
        {
            gap.asked = 1;
            gap.ask_at = now + retry_ns.max(1);
        }
    }

    fn insert(&mut self, gap: Gap) {
        let index = self.list.partition_point(|other| other.to <= gap.from);
        if self.list.len() < GAPS_MAX {
            self.list.insert(index, gap);
        } else if let Some(last) = self.list.get_mut(index) {
            last.from = last.from.min(gap.from);
        } else if let Some(last) = self.list.last_mut() {
            last.to = last.to.max(gap.to);
        }
    }
}

/// How far apart in time the copies of a message arrive: a running high quantile.
///
/// A sample above the estimate pulls it a quarter of the way up, one below only 1/256 down; that
/// settles where about one sample in sixty is above.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spread {
    estimate_ns: u64,
}

impl Spread {
    /// Takes the time between the first and a later copy, or by which a message came out of order.
    pub fn sample(&mut self, ns: u64) {
        if ns > self.estimate_ns {
            self.estimate_ns += (ns - self.estimate_ns).div_ceil(4);
        } else {
            self.estimate_ns -= (self.estimate_ns - ns) / 256;
        }
    }

    /// The estimate in ns; 0 before any sample.
    pub fn estimate_ns(&self) -> u64 {
        self.estimate_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn ranges(gaps: &Gaps) -> Vec<(u64, u64)> {
        gaps.list().iter().map(|gap| (gap.from, gap.to)).collect()
    }

    #[test]
    fn a_later_message_shows_what_is_missing() {
        let mut gaps = Gaps::new(1);
        assert_eq!(gaps.fill(1, 4, Nanos(0), 10), None);
        assert_eq!(gaps.fill(10, 12, Nanos(5), 10), None, "opens a gap, closes none");
        assert_eq!((ranges(&gaps), gaps.next_ask()), (vec![(4, 10)], Nanos(15)));
        gaps.learn(20, Nanos(6), 10);
        assert_eq!(ranges(&gaps), [(4, 10), (12, 20)]);
        assert_eq!(gaps.fill(6, 8, Nanos(7), 10).unwrap().since, Nanos(5));
        assert_eq!(ranges(&gaps), [(4, 6), (8, 10), (12, 20)]);
        gaps.fill(1, 15, Nanos(8), 10);
        assert_eq!((ranges(&gaps), gaps.known_end()), (vec![(15, 20)], 20));
        gaps.fill(15, 25, Nanos(9), 10);
        assert_eq!((ranges(&gaps), gaps.next_ask()), (vec![], Nanos::NEVER));
        gaps.reopen(21, 25, Nanos(9), 10);
        assert_eq!(ranges(&gaps), [(21, 25)]);
    }

    #[test]
    fn requests_are_repeated_ever_less_often() {
        let mut gaps = Gaps::new(1);
        gaps.learn(5, Nanos(0), 10);
        assert_eq!(gaps.ask(Nanos(9), 4, 20), None);
        let mut times = Vec::new();
        for _ in 0..6 {
            let now = gaps.next_ask();
            times.push(now.0);
            assert_eq!(gaps.ask(now, 4, 20).map(|gap| (gap.from, gap.to)), Some((1, 5)));
        }
        assert_eq!(times, [10, 14, 22, 38, 58, 78]);
        gaps.fill(1, 2, Nanos(80), 10);
        gaps.progress(2, Nanos(80), 4);
        assert_eq!(gaps.next_ask(), Nanos(84));
    }

    #[test]
    fn the_spread_follows_the_slow_copies() {
        let mut spread = Spread::default();
        for round in 0..10_000u64 {
            spread.sample(if round % 100 < 97 { 100 } else { 1_000 });
        }
        assert!((500..=1_000).contains(&spread.estimate_ns()), "{}", spread.estimate_ns());
        (0..10_000).for_each(|_| spread.sample(0));
        assert!(spread.estimate_ns() < 300);
    }

    proptest! {
        #[test]
        fn no_missing_message_is_ever_forgotten(
            steps in prop::collection::vec((1u64..400, 0u64..6, any::<bool>()), 1..400),
        ) {
            let (mut gaps, mut missing, mut end) = (Gaps::new(1), BTreeSet::new(), 1u64);
            for (from, length, reopen) in steps {
                let to = from + length;
                missing.extend(end..from);
                end = end.max(to);
                if reopen && length > 0 {
                    gaps.reopen(from, to, Nanos(0), 1);
                    missing.extend(from..to);
                } else {
                    gaps.fill(from, to, Nanos(0), 1);
                    missing.retain(|seq| !(from..to).contains(seq));
                    end = end.max(from);
                }
                prop_assert_eq!(gaps.known_end(), end);
                prop_assert!(gaps.list().len() <= GAPS_MAX);
                prop_assert!(gaps.list().is_sorted_by(|a, b| a.to <= b.from));
                prop_assert!(gaps.list().iter().all(|gap| gap.from < gap.to));
                let ranges = gaps.list().iter().flat_map(|gap| gap.from..gap.to);
                let held: BTreeSet<u64> = ranges.collect();
                prop_assert!(held.is_superset(&missing));
            }
        }
    }
}
