//! Which node stands at which place of a tree.
//!
//! Places are what the arithmetic of [`crate::topology`] numbers; at first every node stands at the
//! place of its own number. A VM that turns out to be slow changes places with one that stands by,
//! and nobody else moves: the list names those who stand elsewhere, so it is a permutation of its
//! own. Bounded, copied with the tree, and free while everybody stands at the own place.

use types::NodeId;

/// Most nodes that stand at another place than their own: as many as the log's record has steps for.
pub const MOVED_MAX: usize = 64;

/// Nodes that are at another node's place in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seating {
    count: u8,
    /// (place, node) by place; zeros behind `count`.
    moved: [(u16, u16); MOVED_MAX],
}

impl Default for Seating {
    fn default() -> Self {
        Seating { count: 0, moved: [(0, 0); MOVED_MAX] }
    }
}

impl Seating {
    /// The seating of these (place, node) pairs; `None` when they are no permutation, name a node
    /// that stands at its own place, or are too many.
    pub fn of(pairs: &[(u16, u16)]) -> Option<Seating> {
        let mut moved = [(0, 0); MOVED_MAX];
        let seated = moved.get_mut(..pairs.len())?;
        seated.copy_from_slice(pairs);
        seated.sort_unstable();
        let twice = seated.array_windows().any(|[a, b]| a.0 == b.0);
        let there = |node: u16| seated.iter().filter(|(_, other)| *other == node).count() == 1;
        let closed = seated.iter().all(|&(place, node)| place != node && there(place));
        (!twice && closed).then_some(Seating { count: pairs.len() as u8, moved })
    }

    /// The (place, node) pairs, by place.
    pub fn moved(&self) -> &[(u16, u16)] {
        self.moved.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// The same with two nodes at each other's places; `None` when too many have moved.
    pub fn exchanged(&self, a: NodeId, b: NodeId) -> Option<Seating> {
        let (of_a, of_b) = (self.place(a), self.place(b));
        let mut pairs: Vec<(u16, u16)> = self.moved().to_vec();
        pairs.retain(|(place, _)| u32::from(*place) != of_a && u32::from(*place) != of_b);
        let seats = [(of_a as u16, b.0), (of_b as u16, a.0)];
        pairs.extend(seats.iter().filter(|(place, node)| place != node));
        pairs.dedup();
        Seating::of(&pairs)
    }

    /// Whether every node is at its own place.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.count == 0
    }

    /// Node that stands at a place of the tree.
    #[inline]
    pub fn node(&self, place: u32) -> NodeId {
        if self.is_plain() {
            return NodeId(place as u16);
        }
        // Asked for every copy of every datagram.
        let found = self.moved().binary_search_by_key(&place, |(of, _)| u32::from(*of));
        let found = found.ok().and_then(|at| self.moved.get(at));
        NodeId(found.map_or(place as u16, |(_, node)| *node))
    }

    /// Place of the tree at which a node stands.
    #[inline]
    pub fn place(&self, node: NodeId) -> u32 {
        if self.is_plain() {
            return node.0.into();
        }
        let found = self.moved().iter().find(|(_, of)| *of == node.0);
        found.map_or(node.0, |(place, _)| *place).into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_permutations_are_seatings() {
        assert_eq!(Seating::of(&[]), Some(Seating::default()));
        assert!(Seating::of(&[(3, 7), (7, 3)]).is_some());
        assert_eq!(Seating::of(&[(7, 3), (3, 7)]), Seating::of(&[(3, 7), (7, 3)]));
        for bad in [&[(3, 7)][..], &[(3, 3)], &[(3, 7), (7, 7)], &[(3, 7), (3, 7)]] {
            assert_eq!(Seating::of(bad), None, "{bad:?}");
        }
        let ring = |nodes: u16| -> Vec<(u16, u16)> {
            (0..nodes).map(|at| (at, (at + 1) % nodes)).collect()
        };
        let most = Seating::of(&ring(MOVED_MAX as u16)).expect("as many as there may be");
        assert_eq!((most.node(63), most.place(NodeId(0))), (NodeId(0), 63));
        assert_eq!((most.node(64), most.node(7)), (NodeId(64), NodeId(8)));
        assert_eq!(Seating::of(&ring(MOVED_MAX as u16 + 1)), None);
    }

    #[test]
    fn back_at_the_own_places_it_is_the_plain_one() {
        let once = Seating::default().exchanged(NodeId(2), NodeId(9)).unwrap();
        assert_eq!((once.node(2), once.place(NodeId(2))), (NodeId(9), 9));
        assert_eq!(once.exchanged(NodeId(2), NodeId(9)), Some(Seating::default()));
        assert_eq!(once.exchanged(NodeId(4), NodeId(4)), Some(once));
    }

    proptest! {
        #[test]
        fn places_and_nodes_are_inverse_after_any_exchanges(
            swaps in prop::collection::vec((1u16..78, 1u16..78), 0..60),
        ) {
            let mut seating = Seating::default();
            let mut table: Vec<u16> = (0..80).collect();
            for (a, b) in swaps {
                let Some(next) = seating.exchanged(NodeId(a), NodeId(b)) else { continue };
                seating = next;
                let place = |node| table.iter().position(|of| *of == node).unwrap();
                let (of_a, of_b) = (place(a), place(b));
                table.swap(of_a, of_b);
            }
            for (place, node) in (0u32..).zip(&table) {
                prop_assert_eq!(seating.node(place), NodeId(*node));
                prop_assert_eq!(seating.place(NodeId(*node)), place);
            }
            prop_assert_eq!(Seating::of(seating.moved()), Some(seating));
        }

        #[test]
        fn arbitrary_pairs_never_panic(pairs in prop::collection::vec(any::<(u16, u16)>(), 0..12)) {
            let _ = Seating::of(&pairs).map(|seating| seating.exchanged(NodeId(1), NodeId(2)));
        }
    }
}
