//! From one receiver's lateness to the window of many: the time between the first and the last release.

use types::SplitMix64;

/// Windows drawn for one number of receivers.
const DRAWS: usize = 2_000;

/// The window of independent receivers whose clocks agree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    /// How many receivers.
    pub receivers: u32,
    /// Mean of the drawn windows, ns.
    pub mean_ns: f64,
    /// What 95 of 100 drawn windows are in, ns.
    pub interval_ns: [i64; 2],
}

/// The window of `receivers`, each as late as one drawn from `lateness` (sorted, in ns); none for an
/// empty one. The same `seed` gives the same.
pub fn window(lateness: &[i64], receivers: u32, seed: u64) -> Option<Window> {
    let count = lateness.len() as u64;
    let mut random = SplitMix64::new(seed ^ u64::from(receivers));
    let mut windows = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let (mut first, mut last) = (u64::MAX, 0);
        for _ in 0..receivers {
            // Sorted: the least place is the least lateness.
            let place = random.below(count.max(1));
            (first, last) = (first.min(place), last.max(place));
        }
        windows.push(lateness.get(last as usize)? - lateness.get(first as usize)?);
    }
    windows.sort_unstable();
    let at = |permille: usize| windows[(windows.len() - 1) * permille / 1_000];
    let mean_ns = windows.iter().sum::<i64>() as f64 / windows.len() as f64;
    Some(Window { receivers, mean_ns, interval_ns: [at(25), at(975)] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_of_a_uniform_lateness_is_as_in_theory() {
        // Of n uniform draws from 0..1 the window is (n - 1) / (n + 1) at the mean.
        let uniform: Vec<i64> = (0..100_000).collect();
        for receivers in [2, 10, 100] {
            let found = window(&uniform, receivers, 7).expect("draws");
            let n = f64::from(receivers);
            let theory = 100_000.0 * (n - 1.0) / (n + 1.0);
            assert!((found.mean_ns - theory).abs() < 1_200.0, "{found:?} {theory}");
            let [low, high] = found.interval_ns.map(|ns| ns as f64);
            assert!(low < found.mean_ns && found.mean_ns < high);
            assert_eq!(window(&uniform, receivers, 7), Some(found));
            assert_ne!(window(&uniform, receivers, 8), Some(found));
        }
    }

    #[test]
    fn one_late_in_a_thousand_shows_among_a_thousand_receivers_and_not_among_ten() {
        let mut lateness = vec![500; 999];
        lateness.push(90_000);
        let of = |receivers| window(&lateness, receivers, 1).expect("draws").mean_ns;
        assert!(of(10) < 2_000.0 && of(1_000) > 50_000.0, "{} {}", of(10), of(1_000));
        assert_eq!(window(&[], 10, 1), None);
        assert_eq!(window(&[7], 10, 1).expect("draws").interval_ns, [0, 0]);
    }
}
