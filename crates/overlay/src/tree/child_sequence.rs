//! Which child gets its copy first: the historically slowest (decisions: OML p50 -6 %, no extra
//! copies).
//!
//! A parent hears each child's delay whenever the all-reduce makes it that child's parent, and keeps
//! a running mean per node of the next layer. Own children still come before all others; within
//! either part the slowest is first, ties and nodes not heard of in the tree's order. Deterministic,
//! no allocation once warm.

use types::NodeId;

use crate::{
    tree::hedging::Children,
    tree::seating::Seating,
    tree::topology::{ROOT, Tree},
};

/// Weight of a new report is 1 / 2^this.
const MEAN_SHIFT: u32 = 3;

/// Delays of possible children, as one parent has measured them.
#[derive(Clone, Debug)]
pub struct ChildSequence {
    /// First place of the next layer.
    first: u32,
    seating: Seating,
    /// Mean delay by index in that layer; 0: never heard.
    mean_ns: Vec<u64>,
    list: Vec<NodeId>,
}

impl ChildSequence {
    /// No measurements of the layer below `node` so far.
    pub fn new(tree: &Tree, node: NodeId) -> ChildSequence {
        let layer = match tree.topology.locate(node) {
            Some((layer, _)) => layer + 1,
            None => 0,
        };
        let size = if node == ROOT || layer > 0 { tree.topology.layers().get(layer) } else { None };
        let seating = *tree.topology.seating();
        let first = tree.topology.node_id(layer, 0).map_or(0, |node| seating.place(node));
        let size = size.map_or(0, |size| *size as usize);
        ChildSequence { first, seating, mean_ns: vec![0; size], list: Vec::new() }
    }

    /// A node below said how slow it is.
    pub fn learn(&mut self, child: NodeId, owd_ns: u64) {
        let index = self.seating.place(child).wrapping_sub(self.first) as usize;
        let Some(mean) = self.mean_ns.get_mut(index) else { return };
        *mean = match *mean {
            0 => owd_ns.max(1),
            mean => (mean - (mean >> MEAN_SHIFT) + (owd_ns >> MEAN_SHIFT)).max(1),
        };
    }

    /// The children in the order in which to send.
    pub fn arrange(&mut self, children: Children) -> &[NodeId] {
        let own = children.own_count();
        self.list.clear();
        self.list.extend(children);
        let (first, seating, mean_ns) = (self.first, &self.seating, &self.mean_ns);
        let slowest = |node: &NodeId| {
            let index = seating.place(*node).wrapping_sub(first) as usize;
            std::cmp::Reverse(mean_ns.get(index).copied().unwrap_or(0))
        };
        let (own, others) = self.list.split_at_mut(own);
        insertion_sort(own, slowest);
        insertion_sort(others, slowest);
        &self.list
    }
}

/// Stable, in place; the lists are a few nodes long and nearly sorted.
fn insertion_sort<K: Ord>(list: &mut [NodeId], key: impl Fn(&NodeId) -> K) {
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && key(&list[at - 1]) > key(&list[at]) {
            list.swap(at - 1, at);
            at -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::topology::Topology;
    use proptest::prelude::*;

    fn tree() -> Tree {
        let topology = Topology::new(2, 3, 9).unwrap();
        Tree { topology, hedge: 1, dynamic: true, epoch: 1, stream: 0, round_ns: 1 }
    }

    #[test]
    fn the_slowest_child_comes_first_but_own_children_before_others() {
        let mut order = ChildSequence::new(&tree(), NodeId(1));
        let plain: Vec<_> = tree().children(NodeId(1), 0).collect();
        assert_eq!(order.arrange(tree().children(NodeId(1), 0)), plain);
        order.learn(NodeId(5), 100);
        order.learn(NodeId(6), 300);
        order.learn(NodeId(9), 900);
        order.learn(NodeId(77), 900);
        let arranged: Vec<u16> =
            order.arrange(tree().children(NodeId(1), 0)).iter().map(|node| node.0).collect();
        assert_eq!(arranged, [6, 5, 4, 9, 7, 8]);
        (0..60).for_each(|_| order.learn(NodeId(6), 8));
        assert_eq!(order.arrange(tree().children(NodeId(1), 0))[0], NodeId(5), "it recovered");
        let mut root = ChildSequence::new(&tree(), ROOT);
        root.learn(NodeId(3), 5);
        assert_eq!(root.arrange(tree().children(ROOT, 7))[0], NodeId(3));
    }

    proptest! {
        #[test]
        fn the_same_nodes_whatever_is_known(
            reports in prop::collection::vec((0u16..20, any::<u64>()), 0..60), id in any::<u64>(),
        ) {
            let mut order = ChildSequence::new(&tree(), NodeId(2));
            reports.into_iter().for_each(|(node, ns)| order.learn(NodeId(node), ns));
            let children = tree().children(NodeId(2), id);
            let own = children.own_count();
            let mut plain: Vec<_> = children.clone().collect();
            let mut arranged = order.arrange(children).to_vec();
            arranged[..own].sort_unstable();
            plain[..own].sort_unstable();
            arranged[own..].sort_unstable();
            plain[own..].sort_unstable();
            prop_assert_eq!(arranged, plain);
        }
    }
}
