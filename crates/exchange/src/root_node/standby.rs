//! A proxy's VM is replaced by one that stands by: the same tree with another VM at one place.
//!
//! The next epoch begins as with any change of tree, when everybody who lives knows it, so nothing
//! is lost, repeated or reordered; the VM that leaves passes on what is still on its way. It stays
//! away from all places from then on, whatever shape the tree changes to, as long as there are
//! others.

use overlay::membership::Membership;
use overlay::topology::Tree;
use types::{ClockReading, NodeId, Outbox};

use super::Root;
use crate::TreeShape;

/// Why a proxy was not replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplaceError {
    /// Without a roll call nobody knows who lives.
    NoRollCall,
    /// In a group of roots the tree keeps its shape.
    Group,
    /// Another change is under way, or each stream has a tree of its own.
    Busy,
    /// It has no place in the tree.
    NoPlace,
    /// Nobody who answers stands by, or not the one named.
    NoStandby,
    /// More nodes than a tree can tell of would stand at other places than their own.
    TooMany,
}

impl std::fmt::Display for ReplaceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReplaceError::NoRollCall => "there is no roll call (overlay.roll_call_ms)",
            ReplaceError::Group => "several roots serve in turn: the tree keeps its shape",
            ReplaceError::Busy => "the tree is changing already, or there are trees by symbol",
            ReplaceError::NoPlace => "it is no proxy with a place in the tree",
            ReplaceError::NoStandby => "no proxy that answers stands by (overlay.standby)",
            ReplaceError::TooMany => "too many have moved already",
        })
    }
}

impl std::error::Error for ReplaceError {}

/// The trees that a root may have.
pub(super) struct Trees {
    pub(super) epoch: u32,
    /// Trees by shape, for those that the tree may change to.
    pub(super) shapes: Vec<(TreeShape, Tree)>,
    /// Proxies that were replaced, in order.
    pub(super) benched: Vec<NodeId>,
}

impl Root {
    /// Begins to put a proxy that stands by at the place of `old`: `new`, or else the one that
    /// answers soonest and was not replaced before. Gives who comes. Orders, market data and
    /// private streams go on meanwhile.
    ///
    /// # Errors
    /// [`ReplaceError`]; nothing changes then.
    pub fn replace_proxy(
        &mut self,
        now: ClockReading,
        old: NodeId,
        new: Option<NodeId>,
        out: &mut Outbox,
    ) -> Result<NodeId, ReplaceError> {
        if self.group.is_some() {
            return Err(ReplaceError::Group);
        }
        let membership = self.membership().ok_or(ReplaceError::NoRollCall)?;
        let topology = &membership.tree().topology;
        topology.locate(old).filter(|_| !topology.is_receiver(old)).ok_or(ReplaceError::NoPlace)?;
        let new = match new {
            Some(new) => Some(new).filter(|new| standing_by(membership).any(|of| of.1 == *new)),
            None => {
                let fresh = |of: &(u64, NodeId)| !self.trees.benched.contains(&of.1);
                standing_by(membership).filter(fresh).min().map(|(_, node)| node)
            }
        };
        let new = new.ok_or(ReplaceError::NoStandby)?;
        let tree = membership.with_replaced(old, new).ok_or(ReplaceError::TooMany)?;
        if !self.downlinks.change_tree(now.now, tree, out) {
            return Err(ReplaceError::Busy);
        }
        self.trees.benched.retain(|node| *node != new);
        self.trees.benched.push(old);
        Ok(new)
    }

    /// Proxies whose place somebody else has taken.
    pub fn benched(&self) -> &[NodeId] {
        &self.trees.benched
    }

    /// A tree with those who were replaced kept out of it, as far as others stand by.
    pub(super) fn seated(&self, tree: Tree) -> Tree {
        let Some(membership) = self.membership() else { return tree };
        let lives = |node: &NodeId| membership.round_trips().any(|(of, _)| of == *node);
        let mut topology = tree.topology;
        for node in &self.trees.benched {
            let fit = |node: &NodeId| !self.trees.benched.contains(node) && lives(node);
            let Some(other) = topology.idle_ids().find(fit) else { break };
            if topology.locate(*node).is_some() {
                topology = topology.with_exchanged(*node, other).unwrap_or(topology);
            }
        }
        Tree { topology, ..tree }
    }
}

/// Who answers and has no place, with the median round trip; unknown ones last.
fn standing_by(membership: &Membership) -> impl Iterator<Item = (u64, NodeId)> {
    let idle: Vec<NodeId> = membership.tree().topology.idle_ids().collect();
    let known = membership.round_trips().filter(move |(node, _)| idle.contains(node));
    known.map(|(node, ns)| (ns.unwrap_or(u64::MAX), node))
}
