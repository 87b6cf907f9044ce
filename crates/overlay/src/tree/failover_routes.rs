//! Dead proxies, routed around until a new tree takes over.
//!
//! The next living node of the same layer and plane stands in for a dead one: whoever would send to
//! the dead one sends to it, and it serves the dead one's children after its own. Everybody works
//! that out from the list of the dead alone, which the root spreads as a [`DetourBody`], numbered so
//! that old news does not undo newer. A node that has not heard it yet loses nothing but what
//! hedging and repair give back anyway. Receivers are never stood in for.

use types::NodeId;

use crate::{
    control::DetourBody,
    tree::topology::{Topology, Tree},
};

/// Nodes that one message can speak of.
pub const DETOUR_SPAN: u16 = 256;

/// Nodes that one node was told are dead.
#[derive(Clone, Debug, Default)]
pub struct FailoverRoutes {
    number: u64,
    /// Nodes that are believed to be dead, in ascending order.
    dead: Vec<NodeId>,
}

impl FailoverRoutes {
    /// Whether no node is believed to be dead.
    pub fn is_empty(&self) -> bool {
        self.dead.is_empty()
    }

    /// Nodes that are believed to be dead, in ascending order.
    pub fn dead(&self) -> &[NodeId] {
        &self.dead
    }

    /// Takes a message; `false` when it is older than what is known.
    pub fn apply(&mut self, body: &DetourBody) -> bool {
        if body.number <= self.number {
            return false;
        }
        self.number = body.number;
        let span = body.first.0..=body.first.0.saturating_add(DETOUR_SPAN - 1);
        self.dead.retain(|node| !span.contains(&node.0));
        let named =
            (0..DETOUR_SPAN).filter(|bit| body.dead[usize::from(bit / 64)] >> (bit % 64) & 1 == 1);
        self.dead.extend(named.filter_map(|bit| body.first.0.checked_add(bit)).map(NodeId));
        self.dead.sort_unstable();
        true
    }

    /// The root's side: the message that says who of the nodes from `first` on is dead.
    pub fn message(number: u64, first: NodeId, dead: &[NodeId]) -> DetourBody {
        let mut body = DetourBody { number, dead: [0; 4], first, reserved: [0; 6] };
        for node in dead {
            let bit = node.0.wrapping_sub(first.0);
            if bit < DETOUR_SPAN {
                body.dead[usize::from(bit / 64)] |= 1 << (bit % 64);
            }
        }
        body
    }

    /// Who takes that node's part: itself while it lives, `None` when its whole layer is dead.
    pub fn living(&self, topology: &Topology, node: NodeId) -> Option<NodeId> {
        if self.dead.binary_search(&node).is_err() || topology.is_receiver(node) {
            return Some(node);
        }
        let siblings = topology.plane_siblings(node)?;
        let size = siblings.len() as u32;
        let seating = topology.seating();
        let place = seating.place(node) - siblings.start;
        (1..size)
            .map(|step| seating.node(siblings.start + (place + step) % size))
            .find(|sibling| self.dead.binary_search(sibling).is_err())
    }

    /// To whom `node` sends a message while these are dead, in order: its own children and nieces,
    /// then those of the dead it stands in for.
    pub fn children(&self, tree: &Tree, node: NodeId, id: u64, stamp: u8, list: &mut Vec<NodeId>) {
        list.clear();
        let stands_in = |dead: &&NodeId| self.living(&tree.topology, **dead) == Some(node);
        let parts = std::iter::once(&node).chain(self.dead.iter().filter(stands_in));
        for part in parts {
            for child in tree.children_stamped(*part, id, stamp) {
                let Some(child) = self.living(&tree.topology, child) else { continue };
                if child != node && !list.contains(&child) {
                    list.push(child);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::topology::ROOT;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn old_news_does_not_undo_newer() {
        let mut routes = FailoverRoutes::default();
        assert!(routes.apply(&FailoverRoutes::message(2, NodeId(1), &[NodeId(3), NodeId(200)])));
        assert!(!routes.apply(&FailoverRoutes::message(1, NodeId(1), &[])));
        assert_eq!(routes.dead(), [NodeId(3), NodeId(200)]);
        assert!(routes.apply(&FailoverRoutes::message(3, NodeId(100), &[])));
        assert_eq!(routes.dead(), [NodeId(3)], "only what the message speaks of changes");
    }

    proptest! {
        #[test]
        fn everybody_alive_is_reached_while_a_layer_has_one_living_node(
            layers in prop::collection::vec(1usize..12, 2..5),
            dead in prop::collection::btree_set(1u16..40, 0..12),
            id in any::<u64>(), hedge in 0usize..3, (a, b) in (1u16..40, 1u16..40),
        ) {
            let topology = Topology::from_layers(&layers).unwrap();
            let topology = topology.with_exchanged(NodeId(a), NodeId(b)).unwrap_or(topology);
            let tree =
                Tree { topology, hedge, dynamic: true, epoch: 1, stream: 0, round_ns: 1 };
            let proxies: BTreeSet<NodeId> = topology.proxy_ids().collect();
            let dead: Vec<NodeId> =
                dead.into_iter().map(NodeId).filter(|node| proxies.contains(node)).collect();
            let mut routes = FailoverRoutes::default();
            routes.apply(&FailoverRoutes::message(1, NodeId(1), &dead));
            let whole = (0..layers.len() - 1).any(|layer| {
                (0..layers[layer]).all(|i| dead.contains(&topology.node_id(layer, i).unwrap()))
            });
            let (mut heard, mut list) = (BTreeSet::from([ROOT]), Vec::new());
            // By place: who sends comes before whom it sends to.
            for node in (0..topology.nodes() as u32).map(|place| topology.seating().node(place)) {
                if heard.contains(&node) {
                    routes.children(&tree, node, id, 0, &mut list);
                    prop_assert!(list.iter().all(|child| !dead.contains(child)));
                    heard.extend(list.iter().copied());
                }
            }
            let all = topology.nodes() - dead.len();
            prop_assert!(whole || heard.len() == all, "{} of {}", heard.len(), all);
        }
    }
}
