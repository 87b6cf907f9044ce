//! A node's place in a tree, worked out once: which of a message's senders a copy came from.
//!
//! [`Tree::parents_stamped`] derives everything anew for each copy. Where hedging is the paper's
//! (neighbouring siblings, one plane) all but a remainder is the same for every message, and that
//! remainder for every copy of one message; elsewhere the tree is asked.

use types::NodeId;

use crate::{
    tree::hedging::HedgePolicy,
    tree::topology::{ROOT, Tree},
};

/// Position of a node in the tree, as far as it is the same for every message.
#[derive(Clone, Copy, Debug)]
struct Plain {
    /// Place of index 0 of the layer above, and its size.
    first: u32,
    width: u32,
    /// The block of its own layer that the node lies in.
    block: u32,
    /// Senders of a message that is hedged as the tree is.
    copies: u32,
    /// Product of the sizes of the proxy layers below the senders'.
    radix: u64,
    /// Message last asked about, and the index of its own parent.
    id: u64,
    own: u32,
}

/// The place of one node in the tree.
#[derive(Clone, Copy, Debug)]
pub struct TreePosition {
    node: NodeId,
    plain: Option<Plain>,
}

impl TreePosition {
    /// The place of `node` in `tree`.
    pub fn new(tree: &Tree, node: NodeId) -> TreePosition {
        TreePosition { node, plain: TreePosition::plain(tree, node) }
    }

    fn plain(tree: &Tree, node: NodeId) -> Option<Plain> {
        let topology = &tree.topology;
        let hedging = topology.hedging();
        if hedging.policy != HedgePolicy::Sibling || hedging.planes > 1 {
            return None;
        }
        let (layer, index) = topology.locate(node)?;
        let layers = topology.layers();
        let copies = tree.parents(node, 0).len() as u32;
        let (id, own) = (0, 0);
        let Some(above) = layer.checked_sub(1) else {
            let first = u32::from(ROOT.0);
            return Some(Plain { first, width: 1, block: 0, copies, radix: 1, id, own });
        };
        let width = layers[above];
        let block = (index as u64 * u64::from(width) / u64::from(layers[layer])) as u32;
        let below = &layers[layer..layers.len() - 1];
        let radix = below.iter().map(|size| u64::from(*size)).product();
        let first = topology.seating().place(topology.node_id(above, 0)?);
        let mut plain = Plain { first, width, block, copies, radix, id, own };
        plain.own = plain.own(0, tree.dynamic);
        Some(plain)
    }

    /// Which of the senders of message `id` (stamped as `frame::DataBody::hedge` says) `sender` is,
    /// if any, and how many there are. `tree` must be the one the place was made for.
    #[inline]
    pub fn parent(
        &mut self,
        tree: &Tree,
        id: u64,
        stamp: u8,
        sender: NodeId,
    ) -> (Option<usize>, usize) {
        let Some(plain) = &mut self.plain else {
            let mut parents = tree.parents_stamped(self.node, id, stamp);
            let copies = parents.len();
            return (parents.position(|parent| parent == sender), copies);
        };
        if id != plain.id {
            (plain.id, plain.own) = (id, plain.own(id, tree.dynamic));
        }
        let copies = match stamp {
            0 => plain.copies,
            stamp => u32::from(stamp).min(plain.width),
        };
        // Senders stand before the own parent, with wrap: that many steps back.
        let index = tree.topology.seating().place(sender).wrapping_sub(plain.first);
        let back = match plain.own >= index {
            true => plain.own - index,
            false => (plain.own + plain.width).wrapping_sub(index),
        };
        let found = index < plain.width && back < copies;
        (found.then_some(back as usize), copies as usize)
    }
}

impl Plain {
    fn own(&self, id: u64, dynamic: bool) -> u32 {
        let offset = match dynamic {
            true => (id / self.radix % u64::from(self.width)) as u32,
            false => 0,
        };
        match self.block >= offset {
            true => self.block - offset,
            false => self.block + self.width - offset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{tree::hedging::Hedging, tree::topology::Topology};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_the_tree(
            layers in prop::collection::vec(1usize..30, 1..5),
            ids in prop::collection::vec(0u64..5_000, 1..9),
            hedge in 0usize..5,
            stamp in 0u8..7,
            disjoint in any::<bool>(),
            dynamic in any::<bool>(),
            moved in any::<bool>(),
        ) {
            let policy = match disjoint {
                true => HedgePolicy::PathDisjoint,
                false => HedgePolicy::Sibling,
            };
            let hedging = Hedging { policy, ..Hedging::default() };
            let topology = Topology::from_layers(&layers).unwrap().with_hedging(hedging).unwrap();
            let last = topology.nodes() as u16 - topology.receivers() as u16;
            let topology = topology.with_receivers_at(NodeId(last + 1)).unwrap();
            let exchanged = topology.with_exchanged(NodeId(1), NodeId(last));
            let topology = if moved { exchanged.unwrap() } else { topology };
            let tree = Tree { topology, hedge, dynamic, epoch: 1, stream: 0, round_ns: 1 };
            for node in (1..topology.id_end() as u16).map(NodeId) {
                let mut position = TreePosition::new(&tree, node);
                for id in &ids {
                    let parents: Vec<_> = tree.parents_stamped(node, *id, stamp).collect();
                    for sender in (0..topology.id_end() as u16).map(NodeId) {
                        let place = parents.iter().position(|parent| *parent == sender);
                        let found = position.parent(&tree, *id, stamp, sender);
                        prop_assert_eq!(found, (place, parents.len()));
                    }
                }
            }
        }
    }
}
