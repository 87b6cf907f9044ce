//! Percentiles, means and confidence intervals of samples.

/// The value that at least `part` (0 to 1) of the samples do not exceed; reorders them.
///
/// # Panics
/// When there are no samples: nothing has no percentile.
pub fn percentile(samples: &mut [u64], part: f64) -> u64 {
    assert!(!samples.is_empty(), "a percentile of nothing");
    let rank = (samples.len() as f64 * part).ceil().max(1.0) as usize;
    *samples.select_nth_unstable(rank.min(samples.len()) - 1).1
}

/// The median; reorders the samples.
pub fn median(samples: &mut [u64]) -> u64 {
    percentile(samples, 0.5)
}

/// The median of those of `all` messages that reached everybody; `None` when it was half of them or
/// fewer, as those few are not like all.
pub fn mostly(complete: &mut [u64], all: u64) -> Option<f64> {
    (2 * complete.len() as u64 > all).then(|| median(complete) as f64)
}

/// The median of runs and the ends of an interval that holds the true median with 95 %: order
/// statistics by the binomial distribution, which ask nothing of the runs' distribution. Fewer than
/// six runs cannot promise 95 %: their interval is the range. `None` without runs.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let (low, high) = (sorted.get(n.wrapping_sub(1) / 2)?, sorted.get(n / 2)?);
    let middle = (low + high) / 2.0;
    // The chance that at most `rank` of n values lie below the true median; 2.5 % on either side.
    let (mut rank, mut chance, mut below) = (0, 0.5_f64.powi(n as i32), 0.0);
    while below + chance <= 0.025 && rank < n / 2 {
        below += chance;
        chance *= (n - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    let outer = rank.saturating_sub(1);
    Some((middle, *sorted.get(outer)?, *sorted.get(n - 1 - outer)?))
}

/// Mean and half-width of its 95 % confidence interval (Student's t), over independent runs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Estimate {
    /// Mean over the runs.
    pub mean: f64,
    /// Half-width of the interval; 0 for a single run.
    pub half_width: f64,
}

impl Estimate {
    /// Of one value per run; of none, not a number.
    pub fn of(values: &[f64]) -> Estimate {
        let n = values.len();
        if n == 0 {
            return Estimate { mean: f64::NAN, half_width: f64::NAN };
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        if n == 1 {
            return Estimate { mean, half_width: 0.0 };
        }
        let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
        let error = (squares / (n - 1) as f64 / n as f64).sqrt();
        Estimate { mean, half_width: student_t(n - 1) * error }
    }
}

/// The quotient of two means over the same runs in the same order, and half the width of its 95 % interval; no width where
/// there are fewer than two runs, or not as many of one as of the other.
pub fn paired_ratio(of: &[f64], to: &[f64]) -> (f64, Option<f64>) {
    let base = Estimate::of(to).mean;
    let ratio = Estimate::of(of).mean / base;
    let paired = of.len() == to.len() && of.len() > 1;
    let width = paired.then(|| {
        let left: Vec<f64> = of.iter().zip(to).map(|(of, to)| of - ratio * to).collect();
        Estimate::of(&left).half_width / base.abs()
    });
    (ratio, width)
}

/// Two-sided 95 % point of Student's t.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    TABLE.get(freedom.wrapping_sub(1)).copied().unwrap_or(1.96 + 2.5 / freedom.max(1) as f64)
}

/// Points of the cumulative distribution: (value in us, share of samples at or below), at most
/// `points` of them.
pub fn cdf_us(samples: &[u64], points: usize) -> Vec<(f64, f64)> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    let at = |point: usize| {
        let rank = ((point + 1) * n).div_ceil(points.max(1)).clamp(1, n);
        (sorted[rank - 1] as f64 / 1e3, rank as f64 / n as f64)
    };
    (0..points.min(n)).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_and_never_understate() {
        let mut samples: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(percentile(&mut samples, 0.95), 95);
        assert_eq!(percentile(&mut samples, 0.951), 96);
        assert_eq!((median(&mut samples), percentile(&mut samples, 0.0)), (50, 1));
        assert_eq!(percentile(&mut samples, 1.0), 100);
        assert_eq!(mostly(&mut [5, 6], 3), Some(5.0));
        assert_eq!(mostly(&mut [5], 3), None, "the one that came says nothing of three");
        assert_eq!(mostly(&mut [], 3), None);
    }

    #[test]
    #[should_panic(expected = "a percentile of nothing")]
    fn nothing_has_no_median() {
        median(&mut []);
    }

    #[test]
    fn no_runs_have_no_mean() {
        assert!(Estimate::of(&[]).mean.is_nan());
    }

    #[test]
    fn intervals_follow_students_t() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]);
        assert_eq!(estimate.mean, 2.0);
        assert!((estimate.half_width - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        assert_eq!(Estimate::of(&[7.0]), Estimate { mean: 7.0, half_width: 0.0 });
    }

    #[test]
    fn a_quotient_is_as_sure_as_its_pairs_are_alike() {
        // Runs differ by half, their quotients do not.
        let (ratio, width) = paired_ratio(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]);
        assert!(ratio == 0.5 && width.is_some_and(|width| width < 1e-12), "{width:?}");
        // Student's t of one degree, 12.706, times 0.5 / 2: what is left of each pair is 0.5.
        let (ratio, width) = paired_ratio(&[1.5, 2.5], &[2.0, 2.0]);
        assert!(ratio == 1.0 && width.is_some_and(|width| (width - 3.1765).abs() < 1e-3));
        assert_eq!(paired_ratio(&[1.0], &[2.0]), (0.5, None));
        assert_eq!(paired_ratio(&[1.0, 1.0], &[2.0]), (0.5, None));
    }

    #[test]
    fn a_medians_interval_is_the_range_of_few_runs_and_ranks_of_many() {
        assert_eq!(median_interval(&[]), None);
        assert_eq!(median_interval(&[7.0]), Some((7.0, 7.0, 7.0)));
        assert_eq!(median_interval(&[3.0, 1.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(median_interval(&[5.0, 1.0, 3.0]), Some((3.0, 1.0, 5.0)));
        let of = |n: u32| median_interval(&(1..=n).map(f64::from).collect::<Vec<_>>());
        // Tables of the sign test: ranks 1 and 6 of 6, 2 and 8 of 9, 3 and 10 of 12, 6 and 15 of 20.
        assert_eq!(of(6), Some((3.5, 1.0, 6.0)));
        assert_eq!(of(9), Some((5.0, 2.0, 8.0)));
        assert_eq!(of(12), Some((6.5, 3.0, 10.0)));
        assert_eq!(of(20), Some((10.5, 6.0, 15.0)));
    }

    #[test]
    fn distributions_end_at_one() {
        let points = cdf_us(&[3_000, 1_000, 2_000, 4_000], 2);
        assert_eq!(points, [(2.0, 0.5), (4.0, 1.0)]);
        assert!(cdf_us(&[], 10).is_empty());
    }
}
