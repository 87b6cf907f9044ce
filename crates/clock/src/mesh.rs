//! Who probes whom: every node knows the whole mesh from the number of nodes and a seed.
//!
//! A ring keeps the mesh in one piece; the rest of each node's choices are random, which makes
//! many short loops, and loops are what errors are corrected by. Both ends of an edge probe each
//! other, so a node has about twice as many neighbours as it chose itself.

use types::SplitMix64;

/// Nodes of a mesh at most: the reference solves a dense system of that size once a window.
pub const NODES_MAX: usize = 512;

/// The edges as pairs of places with the smaller one first, in ascending order. Each node chooses
/// `per_node` others, or all there are.
pub fn edges(nodes: usize, per_node: usize, seed: u64) -> Vec<(usize, usize)> {
    let nodes = nodes.min(NODES_MAX);
    let mut rng = SplitMix64::new(seed ^ 0x3E5B);
    let mut edges = Vec::new();
    for node in 0..nodes {
        let mut chosen = vec![(node + 1) % nodes];
        if per_node + 1 >= nodes {
            chosen = (0..nodes).filter(|other| *other != node).collect();
        }
        while chosen.len() < per_node.min(nodes - 1) {
            let other = rng.below(nodes as u64) as usize;
            if other != node && !chosen.contains(&other) {
                chosen.push(other);
            }
        }
        let with = |other: &usize| (node.min(*other), node.max(*other));
        edges.extend(chosen.iter().map(with).filter(|(a, b)| a != b));
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_enough_neighbours_and_small_meshes_are_complete() {
        for nodes in [2, 3, 5, 11, 12, 40, 100] {
            let edges = edges(nodes, 10, 7);
            let degree = |node| edges.iter().filter(|(a, b)| *a == node || *b == node).count();
            assert!((0..nodes).all(|node| degree(node) >= 10.min(nodes - 1)), "{nodes}");
            assert!(edges.iter().all(|(a, b)| a < b && *b < nodes));
            if nodes <= 11 {
                assert_eq!(edges.len(), nodes * (nodes - 1) / 2);
            }
        }
        assert!(edges(1, 10, 7).is_empty() && edges(0, 10, 7).is_empty());
        assert_ne!(edges(40, 10, 7), edges(40, 10, 8));
    }
}
