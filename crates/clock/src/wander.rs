//! How far oscillators wander, by what the fits of windows that share no probe say of one another.
//!
//! Of a clock whose drift walks at random by w within a second, the second difference of offsets T
//! apart has variance 2/3 w^2 T^3. The fits' own errors only add to it, so its mean square is an
//! estimate from above, and the better the longer T is. Three spacings are kept, because the longest
//! tells nothing for its first two lengths. The estimate of all nodes stands for each; a node whose
//! own residuals stand out from the others' is taken at the configured maximum.
//!
//! Nobody is taken at more than that maximum, which is what is known of the oscillators, until the
//! residuals refute it: their lower limit, less twice what the fits' errors explain. Then the bound
//! follows the residuals wherever they lead, and [`Wander::is_beyond`] says so.

use std::collections::VecDeque;

/// Spacings of second differences, in lengths of an estimate's span: 2, 4 and 8 s with default
/// settings.
const SPACINGS: [u32; 3] = [1, 2, 4];
/// Number of windows that a mean remembers, approximately.
const MEMORY: f64 = 64.0;
/// Standard deviations of a mean square that its limits lie away.
const LIMIT: f64 = 3.0;
/// A node whose mean square is so many times the others' stands out.
const APART: f64 = 9.0;
/// Samples count up to so many times the median of their window as it should be.
const CLIPPED: f64 = 16.0;
/// A filter that takes oscillators for better than this, in ns per s, forgets too slowly.
const LEAST: f64 = 20.0;
/// Median of the square of a standard normal variable.
const MEDIAN: f64 = 0.4549;

/// A mean over the last [`MEMORY`] windows.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    value: f64,
    samples: f64,
}

impl Mean {
    fn take(&mut self, value: f64) {
        self.samples = (self.samples + 1.0).min(MEMORY);
        self.value += (value - self.value) / self.samples;
    }
}

/// The mean squares of second differences at one spacing.
#[derive(Clone, Debug)]
struct Spacing {
    /// Length of the spacing, windows.
    windows: u32,
    /// Divisor of a square in ns^2, s^3.
    scale: f64,
    /// Of all nodes, in (ns/s)^2 per s; and of that, what errors of fits explain.
    all: Mean,
    noise: Mean,
    /// Number of nodes in the last mean.
    nodes: f64,
    own: Vec<Mean>,
}

impl Spacing {
    /// Largest part by which the mean square may be off.
    fn limit(&self) -> f64 {
        // Neighbouring windows share most of their samples.
        let apart = 1.0 + self.all.samples / (4.0 * f64::from(self.windows));
        LIMIT * (2.0 / (self.nodes * apart).max(1.0)).sqrt()
    }

    fn upper(&self) -> f64 {
        self.all.value * (1.0 + self.limit())
    }

    fn lower(&self) -> f64 {
        self.all.value * (1.0 - self.limit()) - 2.0 * self.noise.value
    }
}

/// Estimates of the wander of all nodes' clocks.
#[derive(Clone, Debug)]
pub struct Wander {
    /// Largest wander by the configuration, ns per s.
    most: f64,
    spacings: Vec<Spacing>,
    fixes: Vec<VecDeque<Seen>>,
}

/// An estimate of a node's offset in one window.
#[derive(Clone, Copy, Debug)]
struct Seen {
    window: u32,
    /// Moment in ns of the reference's clock, offset in ns, variance of its error.
    at: i64,
    offset: f64,
    variance: f64,
}

/// Square of a second difference and what errors of its fixes explain of that, in ns^2. Windows may
/// end late: the moments are not quite as far apart as they should be.
fn second_difference(first: &Seen, middle: &Seen, last: &Seen) -> (f64, f64) {
    let apart = |later: &Seen, earlier: &Seen| later.at.wrapping_sub(earlier.at) as f64;
    let ratio = apart(last, middle) / apart(middle, first).max(1.0);
    let difference = last.offset - middle.offset - ratio * (middle.offset - first.offset);
    let noise = last.variance + (1.0 + ratio).powi(2) * middle.variance;
    (difference * difference, noise + ratio * ratio * first.variance)
}

impl Wander {
    /// Nothing known yet but that drifts change by `most_ppb` parts of 10^9 within a second at most.
    /// Estimates span `span` windows of `window_ns`.
    pub fn new(nodes: usize, most_ppb: f64, span: u32, window_ns: u64) -> Wander {
        let spacing = |lengths: u32| {
            let windows = lengths * span.max(1);
            let seconds = f64::from(windows) * window_ns as f64 / 1e9;
            let own = vec![Mean::default(); nodes];
            let (all, noise) = (Mean::default(), Mean::default());
            Spacing { windows, scale: 2.0 / 3.0 * seconds.powi(3), all, noise, nodes: 0.0, own }
        };
        Wander {
            most: most_ppb,
            spacings: SPACINGS.map(spacing).to_vec(),
            fixes: vec![VecDeque::new(); nodes],
        }
    }

    /// Takes a window's fix of a node: a moment of the reference's clock, the offset in ns, and the
    /// variance of its error.
    pub fn take(&mut self, node: usize, window: u32, at: i64, offset: f64, variance: f64) {
        let keep = 1 + 2 * self.spacings.iter().map(|one| one.windows).max().unwrap_or(0) as usize;
        let fixes = &mut self.fixes[node];
        fixes.push_back(Seen { window, at, offset, variance });
        while fixes.len() > keep {
            fixes.pop_front();
        }
    }

    /// A node's clock has stepped: what was before says nothing.
    pub fn forget(&mut self, node: usize) {
        self.fixes[node].clear();
    }

    /// The fixes of a window are complete.
    pub fn end(&mut self, window: u32) {
        for spacing in &mut self.spacings {
            let sample = |fixes: &VecDeque<Seen>| {
                let back = |times: u32| {
                    let wanted = window.wrapping_sub(times * spacing.windows);
                    fixes.iter().rev().find(|seen| seen.window == wanted)
                };
                let (square, noise) = second_difference(back(2)?, back(1)?, back(0)?);
                Some((square / spacing.scale, noise / spacing.scale))
            };
            let samples: Vec<Option<(f64, f64)>> = self.fixes.iter().map(sample).collect();
            let mut squares: Vec<f64> = samples.iter().flatten().map(|one| one.0).collect();
            if squares.is_empty() {
                continue;
            }
            squares.sort_by(f64::total_cmp);
            let clip = CLIPPED * squares[squares.len() / 2] / MEDIAN;
            let count = squares.len() as f64;
            spacing.nodes = count;
            spacing.all.take(squares.iter().map(|square| square.min(clip)).sum::<f64>() / count);
            spacing.noise.take(samples.iter().flatten().map(|one| one.1).sum::<f64>() / count);
            for (own, sample) in spacing.own.iter_mut().zip(&samples) {
                if let Some((square, _)) = sample {
                    own.take(*square);
                }
            }
        }
    }

    fn told(&self) -> impl Iterator<Item = &Spacing> {
        self.spacings.iter().filter(|spacing| spacing.all.samples > 0.0)
    }

    /// Whether residuals say that drifts change by more than the configured maximum.
    pub fn is_beyond(&self) -> bool {
        self.told().any(|spacing| spacing.lower() > self.most * self.most)
    }

    /// Upper limit of a drift's standard deviation within a second, of all nodes, in ns per s.
    pub fn all(&self) -> f64 {
        let upper = self.told().map(Spacing::upper).reduce(f64::min);
        let cap = if self.is_beyond() { f64::INFINITY } else { self.most };
        upper.map_or(self.most, |upper| upper.sqrt().min(cap))
    }

    /// The likely value, less what errors of fits explain, in ns per s.
    pub fn likely(&self) -> f64 {
        let least = self.all().min(LEAST);
        let likely = |spacing: &Spacing| (spacing.all.value - spacing.noise.value).max(0.0).sqrt();
        self.told().last().map_or(least, |longest| likely(longest).clamp(least, self.all()))
    }

    /// Whether a node's residuals are far larger than the others'.
    pub fn stands_out(&self, node: usize) -> bool {
        self.told().any(|spacing| spacing.own[node].value > APART * spacing.all.value)
    }

    /// Upper limit of one node's, in ns per s.
    pub fn of(&self, node: usize) -> f64 {
        let all = self.all();
        if self.stands_out(node) {
            let worst = self.told().map(|spacing| spacing.own[node].value).fold(0.0, f64::max);
            // A mean square of few samples may be a quarter of what it stands for.
            return (2.0 * worst.sqrt()).max(self.most).max(all);
        }
        let own = self.told().map(|spacing| spacing.own[node].value).reduce(f64::min);
        own.map_or(all, |own| all.max(own.sqrt().min(self.most)))
    }
}

#[cfg(test)]
mod tests {
    use types::SplitMix64;

    use super::*;

    const WINDOW_NS: u64 = 500_000_000;

    /// Nodes that wander, seen with errors of `error` ns; what is known after so many windows.
    fn known(wanders: &[f64], error: f64, most: f64, windows: u32, seed: u64) -> Wander {
        let mut rng = SplitMix64::new(seed);
        let mut normal = || (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        let mut wander = Wander::new(wanders.len(), most, 4, WINDOW_NS);
        let at = |window| i64::from(window) * WINDOW_NS as i64;
        let mut clocks = vec![(0.0, 0.0); wanders.len()];
        for window in 0..windows {
            for (node, (clock, w)) in clocks.iter_mut().zip(wanders).enumerate() {
                for _ in 0..10 {
                    clock.0 += clock.1 * 0.05;
                    clock.1 += w * normal() * 0.05f64.sqrt();
                }
                wander.take(node, window, at(window), clock.0 + error * normal(), error * error);
            }
            wander.end(window);
        }
        wander
    }

    #[test]
    fn the_limit_is_above_the_truth_and_near_it_once_there_are_windows_enough() {
        for (seed, truth) in (0..40).zip([20.0, 50.0, 200.0, 500.0].into_iter().cycle()) {
            let wander = known(&[truth; 50], 150.0, 1_000.0, 80, seed);
            let all = wander.all();
            assert!((truth..3.0 * truth).contains(&all), "seed {seed}: {truth} {all}");
            assert!(!wander.is_beyond(), "seed {seed}");
        }
    }

    #[test]
    fn before_there_are_windows_enough_the_configured_maximum_stands() {
        let wander = known(&[20.0; 50], 150.0, 300.0, 8, 1);
        assert_eq!((wander.all(), wander.of(3)), (300.0, 300.0));
        assert!(known(&[20.0; 50], 150.0, 300.0, 9, 1).all() < 300.0);
    }

    #[test]
    fn the_maximum_caps_the_limit_until_residuals_refute_it() {
        for seed in 0..20 {
            let within = known(&[100.0; 50], 150.0, 110.0, 60, seed);
            assert!(!within.is_beyond() && within.all() <= 110.0, "seed {seed}");
            let beyond = known(&[400.0; 50], 150.0, 110.0, 60, seed);
            assert!(beyond.is_beyond() && beyond.all() > 400.0, "seed {seed}: {}", beyond.all());
        }
    }

    #[test]
    fn a_node_that_stands_out_is_taken_at_the_maximum_and_nobody_else_is() {
        for seed in 0..20 {
            let mut wanders = [20.0; 50];
            wanders[7] = 400.0;
            let wander = known(&wanders, 150.0, 500.0, 60, seed);
            assert!(wander.of(7) >= 400.0, "seed {seed}: {}", wander.of(7));
            let others = (0..50).filter(|node| *node != 7 && wander.of(*node) > 150.0).count();
            assert!(others <= 1, "seed {seed}: {others}");
        }
    }
}
