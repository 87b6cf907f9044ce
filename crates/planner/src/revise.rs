//! Changing a live tree as little as possible: one VM replaced, or a few, each for a gain.
//!
//! Re-selecting a subtree by probes is [`crate::build::Builder::reselect`]. Here the delays are
//! known (from a mesh or from the traffic itself) and a spare takes one position; the rest of the
//! tree keeps its VMs, so its neighbours alone must hear of the new epoch.

use crate::objective::Objective;
use crate::tree::Tree;

/// A tree in which every message may go through every VM of a layer, as parents change with each:
/// it is as slow as the slowest VM of every layer makes it.
#[derive(Clone, PartialEq, Debug)]
pub struct Layers {
    /// Number of VMs in each layer; positions count through the layers.
    pub sizes: Vec<usize>,
    /// Delay that each VM adds to a message that passes it.
    pub delay: Vec<f64>,
}

impl Objective for Layers {
    /// What the slowest way takes; a VM of unknown delay is infinitely slow.
    fn cost(&self, vms: &[usize]) -> f64 {
        let mut rest = vms;
        let mut sum = 0.0;
        for size in &self.sizes {
            let (layer, below) = rest.split_at((*size).min(rest.len()));
            let delay = |vm: &usize| self.delay.get(*vm).copied().unwrap_or(f64::INFINITY);
            sum += layer.iter().map(delay).fold(0.0, f64::max);
            rest = below;
        }
        sum
    }
}

/// Replacement of one VM by another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Replacement {
    /// Position of the tree that gets another VM, in breadth-first order.
    pub position: usize,
    /// VM that leaves the position.
    pub old: usize,
    /// VM that takes the position.
    pub new: usize,
    /// Decrease of the objective; above 0 for a gain.
    pub gain: f64,
}

/// The best spare for a position; `None` without spares. The gain may be negative: somebody has to
/// replace a dead VM.
///
/// # Panics
/// When the tree or a spare is outside the objective's pool.
pub fn replace(
    objective: &impl Objective,
    tree: &Tree,
    position: usize,
    spares: &[usize],
) -> Option<Replacement> {
    replace_at(objective, &tree.vms, position, spares)
}

/// As [`replace`], for VMs by position in a tree of any form.
///
/// # Panics
/// When a VM or a spare is outside the objective's pool.
pub fn replace_at(
    objective: &impl Objective,
    vms: &[usize],
    position: usize,
    spares: &[usize],
) -> Option<Replacement> {
    let old = *vms.get(position)?;
    let before = objective.cost(vms);
    let spares = spares.iter().filter(|spare| !vms.contains(spare));
    let mut vms = vms.to_vec();
    let mut with = |new: usize| {
        vms[position] = new;
        Replacement { position, old, new, gain: before - objective.cost(&vms) }
    };
    spares.map(|spare| with(*spare)).max_by(|a, b| a.gain.total_cmp(&b.gain))
}

/// At most `most` replacements, the largest gain first, each of at least `least_gain`; gives the
/// new tree too. The root stays when `keep_root`.
///
/// # Panics
/// When the tree or a spare is outside the objective's pool.
pub fn improve(
    objective: &impl Objective,
    tree: &Tree,
    spares: &[usize],
    most: usize,
    least_gain: f64,
    keep_root: bool,
) -> (Tree, Vec<Replacement>) {
    let mut tree = tree.clone();
    let mut spares: Vec<usize> =
        spares.iter().copied().filter(|spare| !tree.vms.contains(spare)).collect();
    let mut made = Vec::new();
    while made.len() < most {
        let positions = usize::from(keep_root)..tree.vms.len();
        let best = positions
            .filter_map(|position| replace(objective, &tree, position, &spares))
            .max_by(|a, b| a.gain.total_cmp(&b.gain));
        let Some(best) = best.filter(|best| best.gain >= least_gain.max(f64::MIN_POSITIVE)) else {
            break;
        };
        tree.vms[best.position] = best.new;
        spares.retain(|spare| *spare != best.new);
        spares.push(best.old);
        made.push(best);
    }
    (tree, made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{Cloud, CloudModel};
    use crate::objective::WorstLeaf;
    use crate::tree::Shape;

    #[test]
    fn the_straggler_goes_and_nobody_else() {
        let shape = Shape::new(3, 2).unwrap();
        for seed in 0..20 {
            let cloud = Cloud::new(CloudModel::straggler_test(), 25, seed);
            let straggler = cloud.stragglers()[0];
            let mut vms: Vec<usize> = (0..25).filter(|vm| !cloud.is_straggler(*vm)).collect();
            let spares = vms.split_off(15);
            vms[4] = straggler;
            let truth = cloud.truth();
            let objective = WorstLeaf::new(shape, &truth);
            let tree = Tree::new(shape, vms).unwrap();
            let (revised, made) = improve(&objective, &tree, &spares, 1, 1_000.0, true);
            assert_eq!((made.len(), made[0].position, made[0].old), (1, 4, straggler), "{seed}");
            assert!(made[0].gain > 50e3, "seed {seed}: {:?}", made[0]);
            assert_eq!(tree.changes(&revised).len(), 1);
            let before = objective.cost(&tree.vms);
            assert!((before - objective.cost(&revised.vms) - made[0].gain).abs() < 1e-6);
        }
    }

    #[test]
    fn the_slowest_of_its_layer_goes_and_only_for_a_gain() {
        let delay = vec![10.0, 70.0, 12.0, 11.0, 9.0, 65.0];
        let layers = Layers { sizes: vec![2, 2], delay };
        let vms = [0, 1, 2, 3];
        assert_eq!(layers.cost(&vms), 82.0);
        let best = |spares: &[usize]| {
            let each = (0..vms.len()).filter_map(|at| replace_at(&layers, &vms, at, spares));
            each.max_by(|a, b| a.gain.total_cmp(&b.gain)).unwrap()
        };
        let good = best(&[4, 5]);
        assert_eq!((good.position, good.old, good.new, good.gain), (1, 1, 4, 60.0));
        assert_eq!(best(&[5]).gain, 5.0);
        // Nobody knows how slow number 9 is.
        assert!(best(&[9]).gain < 0.0);
    }

    #[test]
    fn a_dead_one_is_replaced_at_a_loss_and_without_spares_nobody() {
        let shape = Shape::new(1, 2).unwrap();
        let model = CloudModel { stragglers: 0, ..CloudModel::default() };
        let truth = Cloud::new(model, 5, 3).truth();
        let objective = WorstLeaf::new(shape, &truth);
        let tree = Tree::new(shape, vec![0, 1, 2]).unwrap();
        let change = replace(&objective, &tree, 1, &[3, 4, 2]).unwrap();
        assert!([3, 4].contains(&change.new) && change.old == 1);
        assert_eq!(replace(&objective, &tree, 1, &[0, 2]), None);
        assert_eq!(replace(&objective, &tree, 9, &[4]), None);
        // No replacement without a gain.
        let (same, made) = improve(&objective, &tree, &[3, 4], 5, 1e9, false);
        assert_eq!((same, made.len()), (tree, 0));
    }
}
