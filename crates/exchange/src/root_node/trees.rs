//! Which tree there is: changes are commands of the log, and follow from it.
//!
//! The tree changes its shape, or proxies' VMs are replaced by others that stand by: the same tree
//! with other VMs at some places. Whoever leads puts the change into the log; once that is durable it
//! begins the next epoch, as told in [`overlay::membership`], so nothing is lost, repeated or
//! reordered, and the VM that leaves passes on what is still on its way. It stays away from all places
//! from then on, whatever shape the tree changes to, as long as there are others. Every root that
//! has applied the same log, in a group or after a start, has the same tree of the same epoch.

use engine::TreeRecord;
use overlay::membership::Membership;
use overlay::topology::{Topology, Tree};
use types::{ClockReading, Command, CommandKind, NodeAction, NodeId, Outbox, UserRefNum};

use super::Root;
use crate::config::{ExchangeConfig, ExchangeError};
use crate::{TreeShape, downlinks};

mod arrange;

/// Why proxies were not replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplaceError {
    /// Without a roll call nobody knows who lives.
    NoRollCall,
    /// Another root of the group leads.
    Follows,
    /// Another change is under way, or each stream has a tree of its own.
    Busy,
    /// One has no place in the tree.
    NoPlace,
    /// Nobody who answers stands by, or not the one named.
    NoStandby,
    /// More nodes than a tree can tell of would stand at other places than their own.
    TooMany,
    /// The proxies there are do not suffice for that shape, or the tree keeps its shape.
    NoShape,
    /// The log is full, or the session has ended.
    NoRoom,
}

impl std::fmt::Display for ReplaceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReplaceError::NoRollCall => "there is no roll call (overlay.roll_call_ms)",
            ReplaceError::Follows => "another root leads",
            ReplaceError::Busy => "the tree is changing already, or there are trees by symbol",
            ReplaceError::NoPlace => "it is no proxy with a place in the tree",
            ReplaceError::NoStandby => "no proxy that answers stands by (overlay.standby)",
            ReplaceError::TooMany => "too many have moved already",
            ReplaceError::NoShape => {
                "there are too few proxies for that shape, or the tree keeps its own"
            }
            ReplaceError::NoRoom => "the log is full, or the session has ended",
        })
    }
}

impl std::error::Error for ReplaceError {}

/// The trees that a root may have.
pub(super) struct Trees {
    /// Of the present tree.
    pub(super) epoch: u32,
    /// The configured one, and its shape.
    first: Tree,
    first_shape: TreeShape,
    /// Trees by shape, for those that the tree may change to.
    shapes: Vec<(TreeShape, Tree)>,
    /// Changes of the log that were followed.
    followed: u32,
    /// A proxy that is silent for so long is replaced, ns; 0: none is.
    replace_after_ns: u64,
    /// Changes that the log has once what was asked for last is in it.
    asked: u32,
}

impl Trees {
    pub(super) fn new(config: &ExchangeConfig, first: &Tree) -> Result<Trees, ExchangeError> {
        Ok(Trees {
            epoch: first.epoch,
            first: *first,
            first_shape: TreeShape { depth: config.depth, fanout: config.fanout },
            shapes: downlinks::shapes(config)?,
            replace_after_ns: config.options.replace_after_ns,
            followed: 0,
            asked: 0,
        })
    }

    /// What was asked for and is not in the log never will be.
    pub(super) fn forget_asked(&mut self) {
        self.asked = self.followed;
    }

    /// The tree of a shape, everybody at the own place.
    fn shaped(&self, shape: TreeShape) -> Option<Tree> {
        self.shapes.iter().find(|(known, _)| *known == shape).map(|(_, tree)| *tree)
    }

    /// The tree of any shape that the proxies there are suffice for, everybody at the own place: one of the
    /// options' or another, in which every node has the number that it has in the first one. `None` with
    /// spare proxies or trees by symbol, which keep their shape.
    fn shaped_any(&self, shape: TreeShape) -> Option<Tree> {
        self.shaped(shape).or_else(|| {
            let first = &self.first.topology;
            let (hedging, receivers_at) = (*first.hedging(), first.receiver_ids().next()?);
            let fixed = hedging.spares > 0 || first.only_plane().is_some();
            let topology = Topology::new(shape.depth, shape.fanout, first.receivers()).ok()?;
            let topology = topology.with_hedging(hedging).ok()?;
            let topology = topology.with_receivers_at(receivers_at).ok()?;
            let fits = topology.receiver_ids().next() == Some(receivers_at);
            (fits && !fixed).then_some(Tree { topology, ..self.first })
        })
    }

    /// The shape that a record says.
    fn shape(&self, record: &TreeRecord) -> TreeShape {
        record.shape.map_or(self.first_shape, |(depth, fanout)| TreeShape {
            depth: depth.into(),
            fanout: fanout.into(),
        })
    }

    /// The tree that a record says. Replacements that don't go with its shape are passed over.
    fn of(&self, record: &TreeRecord) -> Tree {
        let mut tree = self.shaped_any(self.shape(record)).unwrap_or(self.first);
        for (old, new) in &record.replaced {
            tree = replaced(&tree, NodeId(*old), NodeId(*new)).unwrap_or(tree);
        }
        Tree { epoch: self.first.epoch.saturating_add(record.changes), ..tree }
    }
}

/// A tree with an idle proxy at the place of another one.
fn replaced(tree: &Tree, old: NodeId, new: NodeId) -> Option<Tree> {
    let topology = &tree.topology;
    let fit = has_place(tree, old) && topology.idle_ids().any(|idle| idle == new);
    let topology = topology.with_exchanged(old, new).filter(|_| fit)?;
    Some(Tree { topology, ..*tree })
}

fn has_place(tree: &Tree, node: NodeId) -> bool {
    tree.topology.locate(node).is_some() && !tree.topology.is_receiver(node)
}

/// Who was replaced and has not come back, in order.
fn benched(record: &TreeRecord) -> Vec<NodeId> {
    let mut away: Vec<NodeId> = Vec::new();
    for (old, new) in &record.replaced {
        away.retain(|node| node.0 != *new);
        away.push(NodeId(*old));
    }
    away
}

/// One change of the tree.
type Change = (NodeAction, u16, u16);

/// A record with a change more; `None` where it takes no more.
fn with(mut record: TreeRecord, (action, one, other): Change) -> Option<TreeRecord> {
    record.apply(action, one.into(), other.into()).then_some(record)
}

impl Root {
    /// Begins to move everybody to the tree of another shape, one of the options' or the first one;
    /// false for others, for the present one, while a change is under way, without a roll call, with several streams,
    /// whose trees keep their shape, or where another root leads. Orders, market data and private
    /// streams go on meanwhile.
    pub fn change_tree(&mut self, now: ClockReading, shape: TreeShape, out: &mut Outbox) -> bool {
        let (Some(tree), Ok(known)) = (self.trees.shaped(shape), self.ready_to_change()) else {
            return false;
        };
        if self.trees.shape(self.engine.nodes().tree()) == shape {
            return false;
        }
        let (Ok(depth), Ok(fanout)) = (u16::try_from(shape.depth), u16::try_from(shape.fanout))
        else {
            return false;
        };
        let mut changes = vec![(NodeAction::ShapeTree, depth, fanout)];
        let away = benched(self.engine.nodes().tree());
        let mut tree = tree;
        for old in &away {
            // As far as others stand by.
            let fit = |node: &NodeId| !away.contains(node) && answers(known, *node);
            let new = tree.topology.idle_ids().find(fit).filter(|_| has_place(&tree, *old));
            let next = new.and_then(|new| replaced(&tree, *old, new));
            changes.push((NodeAction::ReplaceProxy, old.0, next.and(new).map_or(0, |new| new.0)));
            tree = next.unwrap_or(tree);
        }
        self.log_changes(now, &changes, out).is_ok()
    }

    /// Begins to put a proxy that stands by at the place of each of these: the one named, or else the
    /// one that answers soonest, those that were replaced themselves last. Gives who comes, in their order. Orders,
    /// market data and private streams go on meanwhile.
    ///
    /// # Errors
    /// [`ReplaceError`]; nothing changes then.
    pub fn replace_proxies(
        &mut self,
        now: ClockReading,
        wanted: &[(NodeId, Option<NodeId>)],
        out: &mut Outbox,
    ) -> Result<Vec<NodeId>, ReplaceError> {
        let membership = self.ready_to_change()?;
        let mut record = self.engine.nodes().tree().clone();
        let mut tree = self.trees.of(&record);
        let (mut changes, mut come) = (Vec::new(), Vec::new());
        for (old, _) in wanted {
            if !has_place(&tree, *old) {
                return Err(ReplaceError::NoPlace);
            }
        }
        for (old, new) in wanted {
            let leaves = |node: &NodeId| wanted.iter().any(|(old, _)| old == node);
            let away = benched(&record);
            let standing_by = standing_by(membership, &tree).filter(|(_, node)| !leaves(node));
            let new = match new {
                Some(new) => standing_by.map(|(_, node)| node).find(|node| node == new),
                None => standing_by
                    .map(|(ns, node)| (away.contains(&node), ns, node))
                    .min()
                    .map(|of| of.2),
            };
            let new = new.ok_or(ReplaceError::NoStandby)?;
            tree = replaced(&tree, *old, new).ok_or(ReplaceError::TooMany)?;
            let change = (NodeAction::ReplaceProxy, old.0, new.0);
            record = with(record, change).ok_or(ReplaceError::TooMany)?;
            changes.push(change);
            come.push(new);
        }
        self.log_changes(now, &changes, out)?;
        Ok(come)
    }

    /// The same for one.
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
        let come = self.replace_proxies(now, &[(old, new)], out)?;
        come.first().copied().ok_or(ReplaceError::NoStandby)
    }

    /// Replaces proxies that have been silent for too long, all of them in one change, as far as others
    /// stand by.
    pub(super) fn replace_silent(&mut self, now: ClockReading, out: &mut Outbox) {
        let after_ns = self.trees.replace_after_ns;
        if after_ns == 0 {
            return;
        }
        let Ok(membership) = self.ready_to_change() else { return };
        let placed = |node: &NodeId| has_place(membership.tree(), *node);
        let silent = membership.silent_for(now.now, after_ns).filter(placed);
        let mut wanted: Vec<_> = silent.map(|node| (node, None)).collect();
        while !wanted.is_empty() && self.replace_proxies(now, &wanted, out).is_err() {
            wanted.pop();
        }
    }

    /// Proxies whose place somebody else has taken.
    pub fn benched(&self) -> Vec<NodeId> {
        benched(self.engine.nodes().tree())
    }

    /// Whether a change could begin now, and who answers.
    fn ready_to_change(&self) -> Result<&Membership, ReplaceError> {
        if self.follows() {
            return Err(ReplaceError::Follows);
        }
        let membership = self.membership().ok_or(ReplaceError::NoRollCall)?;
        let changes = self.engine.nodes().tree().changes;
        let busy = membership.is_changing() || changes < self.trees.asked;
        match busy || self.downlinks.publishers().len() > 1 {
            true => Err(ReplaceError::Busy),
            false => Ok(membership),
        }
    }

    fn log_changes(
        &mut self,
        now: ClockReading,
        changes: &[Change],
        out: &mut Outbox,
    ) -> Result<(), ReplaceError> {
        let before = self.engine.nodes().tree().changes;
        let mut record = self.engine.nodes().tree().clone();
        for change in changes {
            record = with(record, *change).ok_or(ReplaceError::TooMany)?;
        }
        let logged = self.log.len();
        self.trees.asked = before.saturating_add(changes.len() as u32);
        for (action, one, other) in changes {
            let command = Command {
                param: *action as u8,
                orig_user_ref: UserRefNum(u32::from(*one)),
                user_ref: UserRefNum(u32::from(*other)),
                ..Command::new(CommandKind::SetNode)
            };
            let _ = self.command(now, command, out);
        }
        if self.log.len() == logged {
            self.trees.forget_asked();
            return Err(ReplaceError::NoRoom);
        }
        Ok(())
    }

    /// Begins the tree that the log says, where that is another one: who leads tells everybody first,
    /// who follows has it at once.
    pub(super) fn follow_record(&mut self, now: ClockReading, out: &mut Outbox) {
        let record = self.engine.nodes().tree();
        if record.changes == self.trees.followed {
            return;
        }
        let tree = self.trees.of(record);
        self.trees.followed = record.changes;
        self.trees.asked = self.trees.asked.max(record.changes);
        match self.follows() {
            true => self.downlinks.adopt_tree(tree),
            false => self.downlinks.change_tree(now.now, tree, out),
        };
        self.follow_tree();
    }

    /// Has the tree that the log says, told of or not.
    pub(super) fn adopt_record(&mut self) {
        let record = self.engine.nodes().tree();
        (self.trees.followed, self.trees.asked) = (record.changes, record.changes);
        let tree = self.trees.of(record);
        self.downlinks.adopt_tree(tree);
        self.follow_tree();
    }
}

/// Whether a proxy lives, as far as is known.
fn answers(membership: &Membership, node: NodeId) -> bool {
    membership.round_trips().any(|(of, _)| of == node)
}

/// Who answers and has no place in a tree, with the median round trip; unknown ones last.
fn standing_by(membership: &Membership, tree: &Tree) -> impl Iterator<Item = (u64, NodeId)> {
    let idle: Vec<NodeId> = tree.topology.idle_ids().collect();
    let known = membership.round_trips().filter(move |(node, _)| idle.contains(node));
    known.map(|(node, ns)| (ns.unwrap_or(u64::MAX), node))
}
