//! Who was sent what down the tree, against the rule that says who should be.
//!
//! A node that sends a datagram of market data to anybody must have sent it to every node whose
//! parent it is for that datagram, and to nobody else. The two sides are computed apart: nodes ask
//! for children, this asks each node for its parents. Repair hides a wrong child set from all
//! checks of what is heard, so this one looks at the copies themselves.

use std::collections::BTreeMap;

use overlay::topology::Tree;
use types::NodeId;

use super::report::{Checker, Failures};

/// A copy of a datagram of market data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    /// Of the datagram.
    pub(super) id: u64,
    /// Of the tree, as its sender knows it.
    pub(super) epoch: u32,
    /// Hedging, as the root stamped it.
    pub(super) stamp: u8,
}

/// Nodes that a sender sent a datagram to, and those that it could seal to at the first of them, as
/// bits.
#[derive(Clone, Copy, Default)]
struct SentTo {
    nodes: u64,
    reached: u64,
}

/// The copies of one run.
pub(super) struct ChildSets {
    tree: Tree,
    nodes: usize,
    /// By datagram: its stamp of hedging, and per sender what was sent to whom.
    sent: BTreeMap<u64, (u8, Vec<SentTo>)>,
    /// The tree has changed or dead nodes are routed around: the rule alone says too little.
    open: bool,
}

impl ChildSets {
    /// Of a tree with at most 64 nodes; a larger one is not watched.
    pub(super) fn new(tree: Tree) -> ChildSets {
        let nodes = tree.topology.nodes();
        ChildSets { tree, nodes, sent: BTreeMap::new(), open: nodes > 64 }
    }

    /// `from`, who can seal to the nodes `reached`, sends a copy to `to`.
    pub(super) fn copy(&mut self, (from, to): (usize, usize), copy: Copy, reached: u64) {
        self.open |= copy.epoch != self.tree.epoch;
        if self.open || from >= self.nodes || to >= self.nodes {
            return;
        }
        let fresh = || (copy.stamp, vec![SentTo::default(); self.nodes]);
        let sent = &mut self.sent.entry(copy.id).or_insert_with(fresh).1[from];
        if sent.nodes == 0 {
            sent.reached = reached;
        }
        sent.nodes |= 1 << to;
    }

    /// A node was told to go round another one.
    pub(super) fn detour(&mut self) {
        self.open = true;
    }

    /// At the end of the run: datagrams whose copies were not those of the rule.
    pub(super) fn judge(&self, failures: &mut Failures) {
        if self.open {
            return;
        }
        let mut due = vec![0u64; self.nodes];
        for (&id, (stamp, sent)) in &self.sent {
            due.fill(0);
            for child in 1..self.nodes {
                for NodeId(parent) in self.tree.parents_stamped(NodeId(child as u16), id, *stamp) {
                    due[usize::from(parent)] |= 1 << child;
                }
            }
            for (from, (SentTo { nodes, reached }, &due)) in sent.iter().zip(&due).enumerate() {
                let (more, less) = (nodes & !due, due & !nodes & reached);
                failures.check(Checker::ChildSet, *nodes == 0 || more | less == 0, || {
                    format!(
                        "node {from} sent datagram {id} to {} nodes too many and {} too few \
                         ({more:#x}, {less:#x})",
                        more.count_ones(),
                        less.count_ones()
                    )
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overlay::topology::Topology;

    #[test]
    fn the_rule_passes_and_one_child_more_or_less_fails() {
        for (depth, fanout, receivers, hedge) in [(1, 9, 5, 0), (2, 3, 9, 1), (3, 2, 7, 2)] {
            let topology = Topology::new(depth, fanout, receivers).unwrap();
            let tree = Tree { topology, hedge, dynamic: true, epoch: 1, stream: 0, round_ns: 1 };
            let run = |tamper: Option<(u64, bool)>, reached: u64| {
                let mut sets = ChildSets::new(tree);
                for id in 1..50 {
                    let copy = Copy { id, epoch: 1, stamp: 0 };
                    for from in 0..topology.nodes() {
                        let children: Vec<_> = tree.children(NodeId(from as u16), id).collect();
                        let wrong = tamper.filter(|(bad, _)| *bad == id && from == 0);
                        let skip = usize::from(wrong.is_some_and(|(_, more)| !more));
                        for child in children.iter().skip(skip) {
                            sets.copy((from, usize::from(child.0)), copy, reached);
                        }
                        if wrong.is_some_and(|(_, more)| more) {
                            sets.copy((from, topology.nodes() - 1), copy, reached);
                            sets.copy((from, 0), copy, reached);
                        }
                    }
                }
                let mut failures = Failures::default();
                sets.judge(&mut failures);
                failures.into_vec().len()
            };
            assert_eq!(run(None, u64::MAX), 0);
            assert_eq!(run(Some((7, false)), u64::MAX), usize::from(receivers > 1));
            assert_eq!(run(Some((7, true)), u64::MAX), 1);
            assert_eq!(run(Some((7, false)), 0), 0, "nobody can be sealed to yet");
            assert_eq!(run(Some((7, true)), 0), 1);
        }
    }
}
