//! The venue's nodes as the log knows them: their lives, whose certificates are refused, who is to
//! stop, the epoch of the keys between them, and how the tree has changed.
//!
//! Nodes are numbered from 1 by the venue's cluster file. The engine does nothing with them: they
//! are in its state so that every replica of the root, and every restart, knows the same.

use types::{Command, Digest, NodeAction};

use crate::codec::{Reader, SnapshotError, Writer};
use crate::lives::Lives;

/// Nodes of a venue at most.
pub const NODES_MAX: usize = 1_024;

/// How a node stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeStanding {
    lives: Lives,
    /// Certificates up to this generation are refused; 0: none are.
    pub revoked: u32,
    /// It is to end its sessions and stop.
    pub drained: bool,
}

impl NodeStanding {
    /// Starts of the node so far; 0: none.
    pub fn life(&self) -> u32 {
        self.lives.newest()
    }

    /// The life that a boot nonce was given, if that is among the last eight.
    pub fn life_of(&self, nonce: u32) -> Option<u32> {
        self.lives.of(nonce)
    }
}

/// How the tree between the root and the receivers differs from the configured one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeRecord {
    /// Changes so far: each is a tree of an epoch of its own.
    pub changes: u32,
    /// Depth and fanout, where they are not the configured ones.
    pub shape: Option<(u16, u16)>,
    /// Proxies that were replaced since the shape last changed, in order, and who came; 0: nobody.
    pub replaced: Vec<(u16, u16)>,
}

impl TreeRecord {
    /// Replacements of a shape at most.
    pub const REPLACED_MAX: usize = 64;

    /// Takes a change; false, and nothing done, for one that there can't be.
    pub fn apply(&mut self, action: NodeAction, first: u32, second: u32) -> bool {
        let (Ok(one), Ok(other)) = (u16::try_from(first), u16::try_from(second)) else {
            return false;
        };
        let Some(changes) = self.changes.checked_add(1).filter(|_| one != 0) else { return false };
        match action {
            NodeAction::ReplaceProxy => {
                let room = self.replaced.len() < TreeRecord::REPLACED_MAX;
                if !room || one == other {
                    return false;
                }
                self.replaced.push((one, other));
            }
            NodeAction::ShapeTree if other != 0 => {
                (self.shape, self.replaced) = (Some((one, other)), Vec::new());
            }
            _ => return false,
        }
        self.changes = changes;
        true
    }

    fn write(&self, out: &mut Writer) {
        out.u32(self.changes);
        let (depth, fanout) = self.shape.unwrap_or_default();
        out.u32(u32::from(depth) << 16 | u32::from(fanout));
        out.u64(self.replaced.len() as u64);
        let pairs = self.replaced.iter().map(|(old, new)| u32::from(*old) << 16 | u32::from(*new));
        pairs.for_each(|pair| out.u32(pair));
    }

    fn read(from: &mut Reader) -> Result<TreeRecord, SnapshotError> {
        let halves = |both: u32| ((both >> 16) as u16, both as u16);
        let (changes, shape) = (from.u32()?, halves(from.u32()?));
        let mut record = TreeRecord { changes, ..TreeRecord::default() };
        record.shape = Some(shape).filter(|(depth, _)| *depth > 0);
        for _ in 0..from.count(TreeRecord::REPLACED_MAX)? {
            record.replaced.push(halves(from.u32()?));
        }
        Ok(record)
    }

    fn fold(&self, digest: &mut Digest) {
        if self.changes > 0 {
            let (depth, fanout) = self.shape.unwrap_or_default();
            digest.fold(u64::from(self.changes) << 32 | u64::from(depth) << 16 | u64::from(fanout));
            for (old, new) in &self.replaced {
                digest.fold(u64::from(*old) << 16 | u64::from(*new));
            }
        }
    }
}

/// All nodes, by number; slots appear with a node's first command.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    slots: Vec<NodeStanding>,
    key_epoch: u32,
    tree: TreeRecord,
}

impl Nodes {
    /// The epoch of the keys between nodes: how many times they were changed.
    pub fn key_epoch(&self) -> u32 {
        self.key_epoch
    }

    /// How the tree has changed.
    pub fn tree(&self) -> &TreeRecord {
        &self.tree
    }

    /// How a node stands; as new for one that nothing was said of.
    pub fn get(&self, number: u32) -> NodeStanding {
        let slot = (number as usize).checked_sub(1).and_then(|index| self.slots.get(index));
        slot.copied().unwrap_or_default()
    }

    /// Carries out a [`types::CommandKind::SetNode`]; false, and nothing done, when it names no
    /// action or no node that can be.
    pub(crate) fn apply(&mut self, command: &Command) -> bool {
        let Some(action) = NodeAction::of(command.param) else { return false };
        let (number, operand) = (command.orig_user_ref.0, command.user_ref.0);
        match action {
            NodeAction::RotateKeys => return number == 0 && self.begin_epoch(),
            NodeAction::ReplaceProxy | NodeAction::ShapeTree => {
                return self.tree.apply(action, number, operand);
            }
            NodeAction::Join | NodeAction::Revoke | NodeAction::Drain => {}
        }
        let index = number as usize;
        if index == 0 || index > NODES_MAX {
            return false;
        }
        if self.slots.len() < index {
            self.slots.resize(index, NodeStanding::default());
        }
        let slot = &mut self.slots[index - 1];
        match action {
            NodeAction::Join => {
                slot.lives.of(operand).or_else(|| slot.lives.begin(operand)).is_some()
            }
            NodeAction::Revoke => {
                let more = operand > slot.revoked;
                slot.revoked = slot.revoked.max(operand);
                more && self.begin_epoch()
            }
            NodeAction::Drain => {
                slot.drained = operand != 0;
                operand <= 1
            }
            NodeAction::RotateKeys | NodeAction::ReplaceProxy | NodeAction::ShapeTree => false,
        }
    }

    fn begin_epoch(&mut self) -> bool {
        let next = self.key_epoch.checked_add(1);
        self.key_epoch = next.unwrap_or(self.key_epoch);
        next.is_some()
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u32(self.key_epoch);
        out.u64(self.slots.len() as u64);
        for slot in &self.slots {
            slot.lives.write(out);
            out.u32(slot.revoked);
            out.u8(u8::from(slot.drained));
        }
        self.tree.write(out);
    }

    pub(crate) fn read(&mut self, from: &mut Reader) -> Result<(), SnapshotError> {
        self.key_epoch = from.u32()?;
        for _ in 0..from.count(NODES_MAX)? {
            let lives = Lives::read(from)?;
            self.slots.push(NodeStanding { lives, revoked: from.u32()?, drained: from.bool()? });
        }
        self.tree = TreeRecord::read(from)?;
        Ok(())
    }

    /// Nothing where nothing was ever said of a node: digests are as they were before there were any.
    pub(crate) fn fold(&self, digest: &mut Digest) {
        self.tree.fold(digest);
        if self.slots.is_empty() && self.key_epoch == 0 {
            return;
        }
        digest.fold(u64::from(self.key_epoch));
        for slot in &self.slots {
            slot.lives.fold(digest);
            digest.fold(u64::from(slot.revoked) << 1 | u64::from(slot.drained));
        }
    }
}

#[cfg(test)]
mod tests {
    use types::{CommandKind, UserRefNum};

    use super::*;

    fn set(nodes: &mut Nodes, action: u8, number: u32, operand: u32) -> bool {
        nodes.apply(&Command {
            param: action,
            user_ref: UserRefNum(operand),
            orig_user_ref: UserRefNum(number),
            ..Command::new(CommandKind::SetNode)
        })
    }

    #[test]
    fn a_nonce_is_one_life_and_no_life_is_given_twice() {
        let mut nodes = Nodes::default();
        let join = NodeAction::Join as u8;
        let mut seen = std::collections::BTreeSet::new();
        for nonce in [7, 9, 7, 11, 9, 7] {
            assert!(set(&mut nodes, join, 3, nonce));
            seen.insert((nonce, nodes.get(3).life_of(nonce).expect("just given")));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(7, 1), (9, 2), (11, 3)]);
        assert_eq!((nodes.get(3).life(), nodes.get(2).life(), nodes.key_epoch()), (3, 0, 0));
        // Beyond the remembered ones a nonce is a new start: never a life that was given before.
        (20..30).for_each(|nonce| assert!(set(&mut nodes, join, 3, nonce)));
        assert!(set(&mut nodes, join, 3, 7));
        assert_eq!(nodes.get(3).life_of(7), Some(14));
    }

    #[test]
    fn whoever_is_revoked_is_out_with_the_next_epoch_and_comes_back_with_a_later_certificate() {
        let mut nodes = Nodes::default();
        let revoke = NodeAction::Revoke as u8;
        assert!(set(&mut nodes, revoke, 1, 2) && !set(&mut nodes, revoke, 1, 1));
        assert_eq!((nodes.get(1).revoked, nodes.key_epoch()), (2, 1));
        assert!(set(&mut nodes, NodeAction::RotateKeys as u8, 0, 0));
        assert!(set(&mut nodes, NodeAction::Drain as u8, 1, 1));
        assert_eq!((nodes.get(1).drained, nodes.key_epoch()), (true, 2));
        for (action, number) in [(0, 1), (7, 1), (1, 0), (1, NODES_MAX as u32 + 1), (4, 1)] {
            assert!(!set(&mut nodes, action, number, 1), "{action} {number}");
        }
    }

    #[test]
    fn changes_of_the_tree_are_kept_in_order_and_nonsense_is_refused() {
        let mut nodes = Nodes::default();
        let (replace, shape) = (NodeAction::ReplaceProxy as u8, NodeAction::ShapeTree as u8);
        assert!(set(&mut nodes, replace, 2, 7) && set(&mut nodes, replace, 3, 0));
        assert_eq!((nodes.tree().changes, nodes.tree().shape), (2, None));
        assert_eq!(nodes.tree().replaced, [(2, 7), (3, 0)]);
        assert!(set(&mut nodes, shape, 2, 5) && set(&mut nodes, replace, 4, 7));
        let same = nodes.tree().clone();
        assert_eq!(
            (same.changes, same.shape, &same.replaced[..]),
            (4, Some((2, 5)), &[(4, 7)][..])
        );
        for (action, one, other) in
            [(replace, 0, 3), (replace, 3, 3), (replace, 1 << 16, 3), (shape, 0, 3), (shape, 2, 0)]
        {
            assert!(!set(&mut nodes, action, one, other), "{action} {one} {other}");
        }
        assert_eq!(nodes.tree(), &same);
        let more = (0..100).filter(|n| set(&mut nodes, replace, 10 + n, 200)).count();
        assert_eq!(more, TreeRecord::REPLACED_MAX - 1);
    }

    #[test]
    fn they_are_read_as_written_and_cut_bytes_are_refused() {
        let mut nodes = Nodes::default();
        for (action, number, operand) in [(1, 5, 3), (2, 2, 4), (3, 5, 1), (6, 2, 5), (5, 4, 7)] {
            assert!(set(&mut nodes, action, number, operand));
        }
        let mut bytes = Vec::new();
        nodes.write(&mut Writer { bytes: &mut bytes });
        let mut read = Nodes::default();
        read.read(&mut Reader::new(&bytes)).expect("whole");
        assert_eq!((read.slots.clone(), read.key_epoch), (nodes.slots.clone(), nodes.key_epoch));
        assert_eq!(read.tree, nodes.tree);
        for len in 0..bytes.len() {
            assert!(Nodes::default().read(&mut Reader::new(&bytes[..len])).is_err(), "{len}");
        }
    }
}
