//! Simulated annealing over placements, for objectives that are no sum.
//!
//! A move exchanges two positions, or a position with a spare VM; the temperature falls
//! geometrically from the spread of random placements' costs to a thousandth of it. Ends with
//! 2-opt, so the result is a local optimum at least.

use types::SplitMix64;

use crate::faq::shuffled;
use crate::objective::Objective;
use crate::polish::{spares, two_opt_for};

/// Settings of simulated annealing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnnealOptions {
    /// Number of moves that the annealing tries.
    pub moves: u64,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for AnnealOptions {
    fn default() -> AnnealOptions {
        AnnealOptions { moves: 30_000, seed: 0 }
    }
}

/// Number of random placements from which the spread of costs is estimated.
const PROBES: usize = 32;

/// The best placement found, from `start`, of VMs below `pool`; and its cost.
///
/// # Panics
/// When the start names a VM outside the pool.
pub fn anneal(
    objective: &impl Objective,
    start: &[usize],
    pool: usize,
    options: &AnnealOptions,
) -> (Vec<usize>, f64) {
    let mut rng = SplitMix64::new(options.seed);
    let positions = start.len();
    let mut vms = start.to_vec();
    let mut spare = spares(&vms, pool);
    let mut cost = objective.cost(&vms);
    let (mut best, mut least) = (vms.clone(), cost);
    let mut temperature = spread(objective, positions, pool, &mut rng);
    let cooling = 0.001f64.powf(1.0 / options.moves.max(1) as f64);
    for _ in 0..options.moves {
        let a = rng.below(positions as u64) as usize;
        let b = rng.below((positions + spare.len()) as u64) as usize;
        exchange(&mut vms, &mut spare, a, b);
        let changed = objective.cost(&vms);
        let rise = changed - cost;
        if rise <= 0.0 || rng.unit() < (-rise / temperature).exp() {
            cost = changed;
            if cost < least {
                least = cost;
                best.copy_from_slice(&vms);
            }
        } else {
            exchange(&mut vms, &mut spare, a, b);
        }
        temperature *= cooling;
    }
    let least = two_opt_for(objective, &mut best, pool);
    (best, least)
}

/// Exchanges position `a` with position `b`, or with a spare when `b` lies beyond the positions;
/// its own inverse.
fn exchange(vms: &mut [usize], spare: &mut [usize], a: usize, b: usize) {
    match b.checked_sub(vms.len()) {
        None => vms.swap(a, b),
        Some(b) => std::mem::swap(&mut vms[a], &mut spare[b]),
    }
}

/// Standard deviation of the costs of random placements, never 0.
fn spread(objective: &impl Objective, positions: usize, pool: usize, rng: &mut SplitMix64) -> f64 {
    let mut draw = || {
        let mut vms = shuffled(pool, rng);
        vms.truncate(positions);
        objective.cost(&vms)
    };
    let costs: Vec<f64> = (0..PROBES).map(|_| draw()).collect();
    let mean = costs.iter().sum::<f64>() / PROBES as f64;
    let squares: f64 = costs.iter().map(|cost| (cost - mean).powi(2)).sum();
    (squares / PROBES as f64).sqrt().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Square;
    use crate::objective::{Hops, WorstLeaf};
    use crate::tree::Shape;

    #[test]
    fn annealing_beats_a_random_placement_and_repeats_itself() {
        let mut rng = SplitMix64::new(9);
        let mean = Square::from_fn(20, |_, _| 50.0 + 50.0 * rng.unit());
        let hops = Hops { median: mean.clone(), mean, variance: Square::filled(20, 100.0) };
        let objective = WorstLeaf::new(Shape::new(2, 3).unwrap(), &hops);
        let start: Vec<usize> = (0..13).collect();
        let options = AnnealOptions { moves: 5_000, seed: 1 };
        let (vms, cost) = anneal(&objective, &start, 20, &options);
        assert!(cost < 0.9 * objective.cost(&start), "{cost}");
        assert_eq!((objective.cost(&vms), anneal(&objective, &start, 20, &options).0), (cost, vms));
    }
}
