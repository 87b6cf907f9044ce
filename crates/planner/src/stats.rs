//! Summaries of one-way delays: per VM, per second, and per message over all leaves.
//!
//! Delays are signed nanoseconds: two clocks that disagree may make one negative. A percentile is
//! the smallest sample that at least that share of the samples does not exceed.

use serde::{Deserialize, Serialize};

/// What one VM saw of a job: the figures that strategies may use.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// 90th percentile of the delays, ns.
    pub p90_ns: f64,
    /// 75th percentile of the delays, ns.
    pub p75_ns: f64,
    /// Median of the delays, ns.
    pub p50_ns: f64,
    /// 25th percentile of the delays, ns.
    pub p25_ns: f64,
    /// Mean of the delays, ns.
    pub mean_ns: f64,
    /// Standard deviation of the delays (of the population), ns.
    pub stddev_ns: f64,
    /// Number of probes that arrived.
    pub received: u64,
    /// Number of probes that did not arrive.
    pub lost: u64,
}

impl Summary {
    /// Summary of these delays, of `expected` probes that were sent. Reorders the samples.
    pub fn of(samples: &mut [i64], expected: u64) -> Summary {
        let received = samples.len() as u64;
        let lost = expected.saturating_sub(received);
        if samples.is_empty() {
            return Summary { lost, ..Summary::default() };
        }
        samples.sort_unstable();
        let count = samples.len() as f64;
        let mean = samples.iter().map(|ns| *ns as f64).sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum();
        Summary {
            p90_ns: percentile(samples, 0.90),
            p75_ns: percentile(samples, 0.75),
            p50_ns: percentile(samples, 0.50),
            p25_ns: percentile(samples, 0.25),
            mean_ns: mean,
            stddev_ns: (squares / count).sqrt(),
            received,
            lost,
        }
    }

    /// Share of the probes that were lost, 0 to 1.
    pub fn loss(&self) -> f64 {
        let sent = self.received + self.lost;
        if sent == 0 { 0.0 } else { self.lost as f64 / sent as f64 }
    }
}

/// A percentile (0 to 1) of sorted samples; 0 of none.
pub fn percentile(sorted: &[i64], part: f64) -> f64 {
    let rank = (sorted.len() as f64 * part).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).wrapping_sub(1)).map_or(0.0, |ns| *ns as f64)
}

/// Quantiles at 1/points, 2/points ... 1 of sorted samples, as a drawing of the distribution.
pub fn quantiles(sorted: &[i64], points: usize) -> Vec<i64> {
    if sorted.is_empty() {
        return Vec::new();
    }
    let at = |point: usize| percentile(sorted, point as f64 / points.max(1) as f64) as i64;
    (1..=points).map(at).collect()
}

/// Standard deviations of consecutive slices of a series of delays in the order of sending;
/// `None` in the series is a lost probe, a slice without arrivals has deviation 0.
pub fn deviations(series: &[Option<i64>], slice: usize) -> Vec<f64> {
    let of = |slice: &[Option<i64>]| {
        let mut arrived: Vec<i64> = slice.iter().flatten().copied().collect();
        Summary::of(&mut arrived, slice.len() as u64).stddev_ns
    };
    series.chunks(slice.max(1)).map(of).collect()
}

/// Per-message figures of a tree, which per-leaf percentiles hide: one late leaf of eight makes
/// every message late while seven leaves look well.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Messages {
    /// Delay of the last leaf (overall multicast latency), over messages that reached all leaves.
    pub oml: Summary,
    /// Delay of the last leaf less that of the first leaf, ns.
    pub spread: Summary,
    /// Quantiles of the OML at equal steps of probability, ns.
    pub oml_quantiles_ns: Vec<i64>,
}

impl Messages {
    /// Statistics over messages, from one series per leaf.
    pub fn of(leaves: &[Vec<Option<i64>>], points: usize) -> Messages {
        let messages = leaves.iter().map(Vec::len).max().unwrap_or(0);
        let (mut oml, mut spread) = (Vec::with_capacity(messages), Vec::with_capacity(messages));
        for message in 0..messages {
            let mut range = Some((i64::MAX, i64::MIN));
            for leaf in leaves {
                let at = leaf.get(message).copied().flatten();
                range = range.zip(at).map(|((low, high), at)| (low.min(at), high.max(at)));
            }
            if let Some((low, high)) = range {
                oml.push(high);
                spread.push(high - low);
            }
        }
        let summary = Summary::of(&mut oml, messages as u64);
        Messages {
            spread: Summary::of(&mut spread, messages as u64),
            oml: summary,
            oml_quantiles_ns: quantiles(&oml, points),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_one_to_a_hundred() {
        let mut samples: Vec<i64> = (1..=100).rev().collect();
        let summary = Summary::of(&mut samples, 110);
        assert_eq!((summary.p90_ns, summary.p75_ns), (90.0, 75.0));
        assert_eq!((summary.p50_ns, summary.p25_ns), (50.0, 25.0));
        assert_eq!((summary.mean_ns, summary.received, summary.lost), (50.5, 100, 10));
        assert!((summary.stddev_ns - 28.866_07).abs() < 1e-4);
        assert!((summary.loss() - 10.0 / 110.0).abs() < 1e-12);
        let none = Summary::of(&mut [], 7);
        assert_eq!((none.lost, none.p90_ns, none.loss()), (7, 0.0, 1.0));
    }

    #[test]
    fn quantiles_and_slices() {
        let sorted: Vec<i64> = (1..=10).collect();
        assert_eq!(quantiles(&sorted, 5), [2, 4, 6, 8, 10]);
        assert!(quantiles(&[], 5).is_empty());
        let series = [Some(1), Some(1), None, Some(3), Some(5)];
        assert_eq!(deviations(&series, 2), [0.0, 0.0, 0.0]);
        assert_eq!(deviations(&[Some(1), Some(3)], 2), [1.0]);
    }

    #[test]
    fn the_last_leaf_makes_the_message_and_a_lost_copy_excludes_it() {
        let leaves = vec![vec![Some(10), Some(20), None], vec![Some(30), Some(5), Some(1)]];
        let messages = Messages::of(&leaves, 2);
        assert_eq!((messages.oml.received, messages.oml.lost), (2, 1));
        assert_eq!((messages.oml.p90_ns, messages.oml.p50_ns), (30.0, 20.0));
        assert_eq!(messages.spread.p90_ns, 20.0);
        assert_eq!(messages.oml_quantiles_ns, [20, 30]);
        // What a leaf's own percentiles hide: each message has another slow leaf.
        let late = |m: usize, leaf: usize| Some(if m == leaf { 100 } else { 1 });
        let turns: Vec<Vec<Option<i64>>> =
            (0..20).map(|leaf| (0..20).map(|m| late(m, leaf)).collect()).collect();
        let leaf = Summary::of(&mut turns[0].iter().flatten().copied().collect::<Vec<_>>(), 20);
        assert_eq!((leaf.p90_ns, Messages::of(&turns, 1).oml.p50_ns), (1.0, 100.0));
    }
}
