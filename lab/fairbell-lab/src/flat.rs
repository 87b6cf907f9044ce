//! Whether the memory of processes stays flat: sizes over time, their level after a warm-up, and their slope.
//!
//! A process is flat when the median of its last window is within [`BAND`] percent of that of its first window
//! after the warm-up, and the line of least squares through all sizes after it rises or falls by no more over
//! that time. A window is an hour, or a quarter of what is judged where that is shorter.

use serde::Serialize;
use sim::cloud::stats;

/// Size that memory may leave its level by, percent.
pub const BAND: f64 = 2.0;
/// Longest window, s.
const WINDOW_S: f64 = 3_600.0;
/// Fewest sizes that can be judged.
const FEWEST: usize = 12;

/// Sizes of one process.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// Whose they are.
    pub name: String,
    /// Time since the start, s, and size, bytes, in order of time.
    pub samples: Vec<(f64, u64)>,
}

/// What is said of a series.
#[derive(Serialize, Clone, PartialEq, Debug, Default)]
pub struct Judged {
    /// Whose memory it is.
    pub name: String,
    /// Median of the first window after the warm-up, bytes.
    pub first_bytes: u64,
    /// Median of the last window, bytes.
    pub last_bytes: u64,
    /// The last window over the first, percent above it.
    pub change_percent: f64,
    /// Least squares over the time judged, percent of the first window's median.
    pub slope_percent: f64,
    /// Largest size after the warm-up, bytes.
    pub most_bytes: u64,
    /// Time judged, s.
    pub judged_s: f64,
    /// Sizes judged.
    pub samples: usize,
    /// Change and slope are within [`BAND`].
    pub flat: bool,
}

impl Judged {
    /// Why it does not count as flat; none where it does.
    pub fn complaint(&self) -> Option<String> {
        let Judged { name, change_percent, slope_percent, samples, .. } = self;
        match self.flat {
            true => None,
            false if *samples < FEWEST => Some(format!(
                "memory: {name}: {samples} sizes behind the warm-up, {FEWEST} or more can be judged"
            )),
            false => Some(format!(
                "memory: {name} is not flat: {change_percent:+.2} %, by its slope {slope_percent:+.2} %"
            )),
        }
    }
}

/// Rise of the line of least squares, bytes per second; 0 of less than two times.
fn slope(samples: &[(f64, u64)]) -> f64 {
    let count = samples.len().max(1) as f64;
    let mean_at = samples.iter().map(|(at, _)| at).sum::<f64>() / count;
    let mean = samples.iter().map(|(_, size)| *size as f64).sum::<f64>() / count;
    let over: f64 = samples.iter().map(|(at, size)| (at - mean_at) * (*size as f64 - mean)).sum();
    let under: f64 = samples.iter().map(|(at, _)| (at - mean_at) * (at - mean_at)).sum();
    if under > 0.0 { over / under } else { 0.0 }
}

/// Judges a series whose first `warm_up_s` seconds do not count.
pub fn judge(series: &Series, warm_up_s: f64) -> Judged {
    let from = series.samples.partition_point(|(at, _)| *at < warm_up_s);
    let judged = series.samples.get(from..).unwrap_or(&[]);
    let (Some((begin, _)), Some((end, _))) = (judged.first(), judged.last()) else {
        return Judged { name: series.name.clone(), ..Judged::default() };
    };
    let time = end - begin;
    let window = (time / 4.0).min(WINDOW_S);
    let within = |from: f64, to: f64| {
        let inside = judged.iter().filter(move |(at, _)| (from..=to).contains(at));
        stats::median(&mut inside.map(|(_, size)| *size).collect::<Vec<u64>>())
    };
    let (first, last) = (within(*begin, begin + window), within(end - window, *end));
    let percent = |bytes: f64| 100.0 * bytes / (first.max(1) as f64);
    let change_percent = percent(last as f64 - first as f64);
    let slope_percent = percent(slope(judged) * time);
    let inside = |value: f64| value.abs() <= BAND;
    Judged {
        name: series.name.clone(),
        first_bytes: first,
        last_bytes: last,
        change_percent,
        slope_percent,
        most_bytes: judged.iter().map(|(_, size)| *size).max().unwrap_or(0),
        judged_s: time,
        samples: judged.len(),
        flat: judged.len() >= FEWEST && inside(change_percent) && inside(slope_percent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(size: impl Fn(u64) -> u64) -> Series {
        let samples = (0..1_000).map(|at| (at as f64, size(at))).collect();
        Series { name: "root-1".to_string(), samples }
    }

    #[test]
    fn what_grows_before_the_warm_up_ends_is_flat_and_what_goes_on_growing_is_not() {
        let bounded = series(|at| 100_000_000 + 100_000 * at.min(200) + at % 7 * 1_000);
        let found = judge(&bounded, 250.0);
        assert!(found.flat && found.samples == 750, "{found:?}");
        assert!(!judge(&bounded, 0.0).flat, "control: the warm-up counts");
        // 5 KB a second of 100 MB are 3.7 % in 750 s.
        let leaks = series(|at| 100_000_000 + 5_000 * at);
        let found = judge(&leaks, 250.0);
        assert!(!found.flat && (3.0..4.0).contains(&found.slope_percent), "{found:?}");
        let shrinks = series(|at| 100_000_000 - 5_000 * at);
        assert!(!judge(&shrinks, 250.0).flat, "neither is what falls");
    }

    #[test]
    fn a_hump_that_ends_where_it_began_is_within_the_band_and_a_step_is_not() {
        let hump = series(|at| if (600..650).contains(&at) { 104_000_000 } else { 100_000_000 });
        let found = judge(&hump, 100.0);
        assert!(found.flat && found.most_bytes == 104_000_000, "{found:?}");
        let step = series(|at| if at > 900 { 103_000_000 } else { 100_000_000 });
        let found = judge(&step, 100.0);
        assert!(found.change_percent.abs() < BAND, "its last window has it for less than half");
        let early = series(|at| if at > 700 { 103_000_000 } else { 100_000_000 });
        assert!(!judge(&early, 100.0).flat);
    }

    #[test]
    fn nothing_and_little_is_not_flat() {
        assert!(!judge(&Series::default(), 0.0).flat);
        let few =
            Series { name: "edge-1".to_string(), samples: series(|_| 7).samples[..5].to_vec() };
        let said = judge(&few, 0.0).complaint();
        assert!(said.is_some_and(|said| said.contains("edge-1: 5 sizes")));
        let short = Series { samples: series(|_| 7).samples[..5].to_vec(), ..Series::default() };
        assert!(!judge(&short, 0.0).flat && !judge(&short, 100.0).flat);
    }
}
