//! One latency distribution with bounded memory.

use hdrhistogram::Histogram;

/// Values up to here (60 s) are told apart; larger ones share the last bucket, but `max` and
/// `mean` stay exact.
const TRACKED_MAX_NS: u64 = 60_000_000_000;
/// Points of the tail of [`Recorder::cdf`], where the fraction above halves from point to point.
const CDF_TAIL_POINTS: usize = 64;

/// What a report prints of a distribution; nanoseconds. All zero when `count` is.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LatencySummary {
    /// Number of values.
    pub count: u64,
    /// Smallest value, exact.
    pub min: u64,
    /// Median; this and the other quantiles within the recorder's resolution.
    pub p50: u64,
    /// 90 % are at or below.
    pub p90: u64,
    /// 99 % are at or below.
    pub p99: u64,
    /// 99.9 % are at or below.
    pub p999: u64,
    /// Largest value, exact.
    pub max: u64,
    /// Arithmetic mean, exact up to rounding.
    pub mean: f64,
}

/// Collects nanosecond values.
#[derive(Clone, Debug)]
pub struct Recorder {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    sum: u128,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder::new()
    }
}

impl Recorder {
    /// Quantiles within 0.1 %; about 220 KiB.
    pub fn new() -> Recorder {
        Recorder::with_digits(3)
    }

    /// Quantiles within 1 %; about 30 KiB.
    pub fn coarse() -> Recorder {
        Recorder::with_digits(2)
    }

    fn with_digits(digits: u8) -> Recorder {
        // Constant arguments within the ranges that the library documents (low >= 1, high >= 2 low,
        // at most 5 digits).
        let histogram = Histogram::new_with_bounds(1, TRACKED_MAX_NS, digits).expect("valid");
        Recorder { histogram, min: u64::MAX, max: 0, sum: 0 }
    }

    /// Adds one value.
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        self.sum += u128::from(ns);
    }

    /// Adds all values of another recorder (of any resolution).
    pub fn merge(&mut self, other: &Recorder) {
        // Both track the same range, so nothing can be out of range.
        let _ = self.histogram.add(&other.histogram);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// Forgets all values, keeps the memory.
    pub fn clear(&mut self) {
        self.histogram.reset();
        (self.min, self.max, self.sum) = (u64::MAX, 0, 0);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The value at or below which a fraction `quantile` (0 to 1) of the values lies; 0 when empty.
    pub fn quantile(&self, quantile: f64) -> u64 {
        if self.count() == 0 {
            return 0;
        }
        self.histogram.value_at_quantile(quantile).clamp(self.min, self.max)
    }

    /// Summary: count, extremes, mean and percentiles.
    pub fn summary(&self) -> LatencySummary {
        if self.count() == 0 {
            return LatencySummary::default();
        }
        LatencySummary {
            count: self.count(),
            min: self.min,
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max: self.max,
            mean: self.sum as f64 / self.count() as f64,
        }
    }

    /// The cumulative distribution as rising points (nanoseconds, fraction at or below), for
    /// plots: about `points` of them evenly over the fractions and up to 64 more in the tail. The
    /// last has fraction 1; empty when nothing was recorded.
    pub fn cdf(&self, points: usize) -> Vec<(u64, f64)> {
        let count = self.count();
        let step = 1.0 / points.max(1) as f64;
        let mut cdf: Vec<(u64, f64)> = Vec::with_capacity(points.saturating_add(CDF_TAIL_POINTS));
        let mut below = 0;
        for bucket in self.histogram.iter_recorded() {
            below += bucket.count_since_last_iteration();
            let fraction = below as f64 / count as f64;
            let last = cdf.last().map_or(0.0, |&(_, fraction)| fraction);
            let even = fraction - last >= step;
            let tail = 1.0 - fraction <= (1.0 - last) / 2.0;
            if even || tail || cdf.is_empty() {
                cdf.push((bucket.value_iterated_to().clamp(self.min, self.max), fraction));
            }
        }
        cdf
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_recorder_is_all_zero() {
        let recorder = Recorder::new();
        assert_eq!(recorder.summary(), LatencySummary::default());
        assert_eq!(recorder.quantile(0.5), 0);
        assert!(recorder.cdf(10).is_empty());
    }

    #[test]
    fn sums_up_a_known_distribution() {
        let mut recorder = Recorder::new();
        (1..=1_000).for_each(|us| recorder.record(us * 1_000));
        let summary = recorder.summary();
        let near = |value: u64, expected: u64| value.abs_diff(expected) * 1_000 <= expected;
        assert_eq!((summary.count, summary.min, summary.max), (1_000, 1_000, 1_000_000));
        assert!(near(summary.p50, 500_000) && near(summary.p90, 900_000));
        assert!(near(summary.p99, 990_000) && near(summary.p999, 999_000));
        assert!((summary.mean - 500_500.0).abs() < 1e-6);
        recorder.clear();
        assert_eq!(recorder.summary(), LatencySummary::default());
    }

    #[test]
    fn values_beyond_the_range_keep_their_maximum() {
        let mut recorder = Recorder::coarse();
        recorder.record(u64::MAX);
        recorder.record(0);
        let summary = recorder.summary();
        assert_eq!((summary.min, summary.max, summary.count), (0, u64::MAX, 2));
    }

    #[test]
    fn merging_equals_recording() {
        let (mut all, mut one, mut two) = (Recorder::new(), Recorder::new(), Recorder::new());
        for i in 0..5_000u64 {
            let ns = i * i % 77_777;
            all.record(ns);
            if i % 3 == 0 { &mut one } else { &mut two }.record(ns);
        }
        one.merge(&two);
        assert_eq!(one.summary(), all.summary());
    }

    proptest! {
        #[test]
        fn a_cdf_rises_to_one_within_its_bound(
            values in prop::collection::vec(0u64..100_000_000_000, 1..500),
            points in 1usize..50,
        ) {
            let mut recorder = Recorder::coarse();
            values.iter().for_each(|ns| recorder.record(*ns));
            let cdf = recorder.cdf(points);
            prop_assert!(cdf.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1));
            prop_assert_eq!(cdf.last().map(|point| point.1), Some(1.0));
            prop_assert!(cdf.len() <= points + CDF_TAIL_POINTS + 1);
            let summary = recorder.summary();
            prop_assert!(summary.min <= summary.p50 && summary.p50 <= summary.p90);
            prop_assert!(summary.p90 <= summary.p99 && summary.p99 <= summary.p999);
            prop_assert!(summary.p999 <= summary.max);
        }
    }
}
