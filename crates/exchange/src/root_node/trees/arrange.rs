//! A whole seating of the tree at once: who shall stand at each place.
//!
//! The log knows one step, a proxy that stands by takes the place of another one, so an arrangement
//! is a row of them in one change. Proxies that exchange places go by way of one that stands by.

use engine::TreeRecord;
use overlay::topology::Tree;
use types::{ClockReading, NodeAction, NodeId, Outbox};

use super::{Change, ReplaceError, answers, replaced, with};
use crate::TreeShape;
use crate::root_node::Root;

impl Root {
    /// Begins the tree in which these proxies stand at the places between the root and the receivers, in
    /// their order; gives the steps that it takes, 0 for the present tree. Orders, market data and
    /// private streams go on meanwhile.
    ///
    /// # Errors
    /// [`ReplaceError`]; nothing changes then.
    pub fn arrange_proxies(
        &mut self,
        now: ClockReading,
        wanted: &[NodeId],
        out: &mut Outbox,
    ) -> Result<usize, ReplaceError> {
        let shape = self.trees.shape(self.engine.nodes().tree());
        self.arrange_tree(now, shape, wanted, out)
    }

    /// The same in a tree of another shape, whether the options have it or not: any that the proxies
    /// there are suffice for, those that stand by among them.
    ///
    /// # Errors
    /// [`ReplaceError`]; nothing changes then.
    pub fn arrange_tree(
        &mut self,
        now: ClockReading,
        shape: TreeShape,
        wanted: &[NodeId],
        out: &mut Outbox,
    ) -> Result<usize, ReplaceError> {
        let membership = self.ready_to_change()?;
        let record = self.engine.nodes().tree().clone();
        let tree = self.trees.of(&record);
        let shaped = self.trees.shaped_any(shape).ok_or(ReplaceError::NoShape)?;
        let other = self.trees.shape(&record) != shape;
        if wanted.len() != seated(&shaped).len() || has_twice(wanted) {
            return Err(ReplaceError::NoPlace);
        }
        let present = seated(&tree);
        let dead = |node: &NodeId| !present.contains(node) && !answers(membership, *node);
        if wanted.iter().any(dead) {
            return Err(ReplaceError::NoStandby);
        }
        let changes = match other {
            true => Err(ReplaceError::TooMany),
            false => steps(&tree, wanted).and_then(|steps| fit(&record, steps)),
        };
        let changes = match changes {
            Ok(changes) => changes,
            // From everybody's own place the list begins anew.
            Err(ReplaceError::TooMany) => {
                let (Ok(depth), Ok(fanout)) =
                    (u16::try_from(shape.depth), u16::try_from(shape.fanout))
                else {
                    return Err(ReplaceError::TooMany);
                };
                let mut changes = vec![(NodeAction::ShapeTree, depth, fanout)];
                let plain = with(record.clone(), changes[0]).ok_or(ReplaceError::TooMany)?;
                changes.extend(steps(&self.trees.of(&plain), wanted)?);
                fit(&record, changes)?
            }
            Err(why) => return Err(why),
        };
        if !changes.is_empty() {
            self.log_changes(now, &changes, out)?;
        }
        Ok(changes.len())
    }
}

/// Who stands at the places between root and receivers, in order.
fn seated(tree: &Tree) -> Vec<NodeId> {
    let topology = &tree.topology;
    let layers = 0..topology.depth().saturating_sub(1);
    layers.flat_map(|layer| (0..).map_while(move |at| topology.node_id(layer, at))).collect()
}

fn has_twice(nodes: &[NodeId]) -> bool {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    sorted.array_windows().any(|[a, b]| a == b)
}

/// The changes, if the record takes them all.
fn fit(record: &TreeRecord, changes: Vec<Change>) -> Result<Vec<Change>, ReplaceError> {
    let all = changes.iter().try_fold(record.clone(), |record, change| with(record, *change));
    all.map(|_| changes).ok_or(ReplaceError::TooMany)
}

/// The steps from a tree to the one in which these stand at its places.
fn steps(tree: &Tree, wanted: &[NodeId]) -> Result<Vec<Change>, ReplaceError> {
    let mut tree = *tree;
    let mut changes = Vec::new();
    let mut step = |tree: &mut Tree, old: NodeId, new: NodeId| {
        *tree = replaced(tree, old, new).ok_or(ReplaceError::TooMany)?;
        changes.push((NodeAction::ReplaceProxy, old.0, new.0));
        Ok::<(), ReplaceError>(())
    };
    for (place, comes) in wanted.iter().enumerate() {
        let stands = seated(&tree);
        let Some(leaves) = stands.get(place).filter(|node| *node != comes) else { continue };
        let idle: Vec<NodeId> = tree.topology.idle_ids().collect();
        match stands.iter().position(|node| node == comes) {
            None if idle.contains(comes) => {}
            None => return Err(ReplaceError::NoStandby),
            Some(from) => {
                // Whoever is to stand there in the end, if not placed yet.
                let last = wanted.get(from).filter(|node| idle.contains(node));
                let other = last.or(idle.first()).ok_or(ReplaceError::NoStandby)?;
                step(&mut tree, *comes, *other)?;
            }
        }
        step(&mut tree, *leaves, *comes)?;
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use overlay::topology::Topology;
    use types::SplitMix64;

    use super::*;

    /// Two layers of two and four proxies, six receivers, and three that stand by.
    fn tree() -> Tree {
        let topology = Topology::from_layers(&[2, 4, 6]).expect("a tree");
        let topology = topology.with_receivers_at(NodeId(10)).expect("room");
        Tree { topology, hedge: 1, dynamic: true, epoch: 1, stream: 0, round_ns: 1 }
    }

    fn after(tree: &Tree, changes: &[Change]) -> Tree {
        let step = |tree: Tree, (_, old, new): &Change| {
            replaced(&tree, NodeId(*old), NodeId(*new)).expect("a step that can be")
        };
        changes.iter().fold(*tree, step)
    }

    #[test]
    fn any_arrangement_is_reached() {
        let mut rng = SplitMix64::new(7);
        for _ in 0..2_000 {
            let mut from = tree();
            // From a tree in which some stand elsewhere already.
            for _ in 0..rng.below(3) {
                let (stands, idle) = (seated(&from), from.topology.idle_ids().next());
                let old = stands[rng.below(6) as usize];
                from = replaced(&from, old, idle.expect("three")).unwrap_or(from);
            }
            let mut all: Vec<NodeId> = (1..=9).map(NodeId).collect();
            for at in 0..6 {
                all.swap(at, at + rng.below(9 - at as u64) as usize);
            }
            all.truncate(6);
            let changes = steps(&from, &all).expect("nine never are too many");
            assert_eq!(seated(&after(&from, &changes)), all);
        }
    }

    #[test]
    fn more_than_a_tree_can_tell_of_are_too_many() {
        let topology = Topology::from_layers(&[40, 40]).expect("a tree");
        let topology = topology.with_receivers_at(NodeId(81)).expect("room");
        let from = Tree { topology, ..tree() };
        let with = |come: u16| -> Vec<NodeId> {
            (1..=40).map(|node| NodeId(if node <= come { 40 + node } else { node })).collect()
        };
        let most = steps(&from, &with(32)).expect("64 stand elsewhere then");
        assert_eq!((most.len(), seated(&after(&from, &most))), (32, with(32)));
        assert_eq!(steps(&from, &with(33)), Err(ReplaceError::TooMany));
    }

    #[test]
    fn nothing_is_done_for_the_present_tree_and_two_change_places_in_three_steps() {
        let from = tree();
        let stands = seated(&from);
        assert_eq!(steps(&from, &stands), Ok(Vec::new()));
        let mut other = stands.clone();
        other.swap(0, 3);
        let changes = steps(&from, &other).expect("room");
        assert_eq!((changes.len(), seated(&after(&from, &changes))), (3, other));
        let mut strange = stands;
        strange[2] = NodeId(40);
        assert_eq!(steps(&from, &strange), Err(ReplaceError::NoStandby));
        assert!(has_twice(&[NodeId(1), NodeId(2), NodeId(1)]));
    }

    #[test]
    fn a_record_takes_so_many_steps_and_no_more() {
        let mut record = TreeRecord::default();
        let step: Change = (NodeAction::ReplaceProxy, 1, 7);
        for _ in 0..TreeRecord::REPLACED_MAX {
            record = with(record, step).expect("room");
        }
        assert_eq!(fit(&record, vec![step]), Err(ReplaceError::TooMany));
        assert!(fit(&record, vec![(NodeAction::ShapeTree, 3, 2), step]).is_ok());
    }
}
