//! A tree of depth D and fan-out F, in breadth-first order, and the VMs that stand in it.
//!
//! Position 0 is the root, the children of position i are F i + 1 to F i + F (thesis, appendix
//! A.6.1 for the counts).

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Largest number of positions of a tree.
pub const POSITIONS_MAX: usize = 4_096;

/// Depth and fan-out of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Hops from the root to a leaf (D), at least 1.
    pub depth: usize,
    /// Children of an internal position (F), at least 1.
    pub fanout: usize,
}

impl Shape {
    /// A shape, when it has one hop, one child and at most [`POSITIONS_MAX`] positions.
    pub fn new(depth: usize, fanout: usize) -> Option<Shape> {
        let shape = Shape { depth, fanout };
        (depth > 0 && fanout > 0 && shape.checked_positions().is_some()).then_some(shape)
    }

    fn checked_positions(&self) -> Option<usize> {
        let mut total = 1usize;
        let mut layer = 1usize;
        for _ in 0..self.depth.min(POSITIONS_MAX + 1) {
            layer = layer.checked_mul(self.fanout)?;
            total = total.checked_add(layer).filter(|total| *total <= POSITIONS_MAX)?;
        }
        Some(total)
    }

    /// Number of positions (N of the thesis).
    pub fn positions(&self) -> usize {
        self.checked_positions().unwrap_or(POSITIONS_MAX)
    }

    /// Number of positions that have children (the thesis' I).
    pub fn internal(&self) -> usize {
        (self.positions() - 1) / self.fanout
    }

    /// Positions without children (L), the last ones.
    pub fn leaves(&self) -> Range<usize> {
        self.internal()..self.positions()
    }

    /// Position of the parent; `None` for the root.
    pub fn parent(&self, position: usize) -> Option<usize> {
        (position > 0).then(|| (position - 1) / self.fanout)
    }

    /// Positions of the children; empty for a leaf.
    pub fn children(&self, position: usize) -> Range<usize> {
        if position >= self.internal() {
            return 0..0;
        }
        self.fanout * position + 1..self.fanout * position + self.fanout + 1
    }

    /// A position and all below it, in breadth-first order.
    pub fn subtree(&self, position: usize) -> Vec<usize> {
        let mut found = vec![position];
        let mut next = 0;
        while let Some(&at) = found.get(next) {
            found.extend(self.children(at));
            next += 1;
        }
        found
    }

    /// All pairs (parent, child), ascending by child.
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> {
        let shape = *self;
        (1..self.positions()).map(move |child| ((child - 1) / shape.fanout, child))
    }
}

/// A shape with a VM at every position.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tree {
    /// Depth and fan-out of the tree.
    pub shape: Shape,
    /// Index of the VM at each position, all different.
    pub vms: Vec<usize>,
}

impl Tree {
    /// A tree, when there is exactly one VM for every position and none stands twice.
    pub fn new(shape: Shape, vms: Vec<usize>) -> Option<Tree> {
        let mut sorted = vms.clone();
        sorted.sort_unstable();
        let distinct = sorted.windows(2).all(|pair| pair[0] != pair[1]);
        (vms.len() == shape.positions() && distinct).then_some(Tree { shape, vms })
    }

    /// VM at the root of the tree.
    pub fn root(&self) -> usize {
        self.vms.first().copied().unwrap_or_default()
    }

    /// Position of a VM; `None`: it is not in the tree.
    pub fn position(&self, vm: usize) -> Option<usize> {
        self.vms.iter().position(|at| *at == vm)
    }

    /// Positions at which another tree of the same shape has another VM: (position, ours, theirs).
    pub fn changes(&self, other: &Tree) -> Vec<(usize, usize, usize)> {
        let pairs = self.vms.iter().zip(&other.vms).enumerate();
        pairs.filter(|(_, (a, b))| a != b).map(|(at, (a, b))| (at, *a, *b)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_the_thesis() {
        // (F^(D+1) - 1) / (F - 1), and D + 1 for F = 1.
        for (depth, fanout, positions, internal) in
            [(3, 2, 15, 7), (2, 10, 111, 11), (4, 1, 5, 4), (1, 25, 26, 1)]
        {
            let shape = Shape::new(depth, fanout).unwrap();
            assert_eq!((shape.positions(), shape.internal()), (positions, internal));
            assert_eq!(shape.leaves().len(), fanout.pow(depth as u32));
            assert_eq!(shape.edges().count(), positions - 1);
            for (parent, child) in shape.edges() {
                assert_eq!(shape.parent(child), Some(parent));
                assert!(shape.children(parent).contains(&child));
            }
        }
        for (depth, fanout) in [(0, 2), (2, 0), (12, 2), (usize::MAX, 1), (1, usize::MAX)] {
            assert_eq!(Shape::new(depth, fanout), None);
        }
    }

    #[test]
    fn subtrees_and_changes() {
        let shape = Shape::new(3, 2).unwrap();
        assert_eq!(shape.subtree(2), [2, 5, 6, 11, 12, 13, 14]);
        assert_eq!(shape.subtree(9), [9]);
        assert_eq!(shape.subtree(0).len(), 15);
        let small = Shape::new(1, 2).unwrap();
        let tree = Tree::new(small, vec![4, 7, 9]).unwrap();
        assert_eq!((tree.root(), tree.position(9), tree.position(5)), (4, Some(2), None));
        let other = Tree::new(small, vec![4, 8, 9]).unwrap();
        assert_eq!(tree.changes(&other), [(1, 7, 8)]);
        assert_eq!(Tree::new(small, vec![4, 4, 9]), None);
        assert_eq!(Tree::new(small, vec![4, 5]), None);
    }
}
