//! The venue's nodes as the log knows them: their lives, whose certificates are refused, who is to
//! stop, the epoch of the keys between them, and how the tree has changed.
//!
//! Nodes are numbered from 1 by the venue's cluster file. The engine does nothing with them: they
//! are in its state so that every replica of the root, and every restart, knows the same.

use types::{Command, Digest, Nanos, NodeAction};

use crate::codec::{Reader, SnapshotError, Writer};
use crate::lives::Lives;
use crate::tokens::JoinToken;

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
    /// The one-time token that was given for it last, used or not.
    pub token: Option<JoinToken>,
    /// Generation of the newest certificate that a token was used for; 0: none was.
    pub issued: u32,
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

    /// Carries out a [`types::CommandKind::SetNode`] at engine time `now`; false, and nothing done, when
    /// it names no action or no node that can be, or no token that is good.
    pub(crate) fn apply(&mut self, command: &Command, now: Nanos) -> bool {
        let Some(action) = NodeAction::of(command.param) else { return false };
        let (number, operand) = (command.orig_user_ref.0, command.user_ref.0);
        match action {
            NodeAction::RotateKeys => return number == 0 && self.begin_epoch(),
            NodeAction::ReplaceProxy | NodeAction::ShapeTree => {
                return self.tree.apply(action, number, operand);
            }
            NodeAction::Join
            | NodeAction::Revoke
            | NodeAction::Drain
            | NodeAction::GrantToken
            | NodeAction::UseToken => {}
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
                // Whoever has the certificate may have the token, too.
                slot.token = slot.token.filter(|_| !more);
                more && self.begin_epoch()
            }
            NodeAction::Drain => {
                slot.drained = operand != 0;
                operand <= 1
            }
            NodeAction::GrantToken => {
                let granted = JoinToken::granted(command, now);
                slot.token = granted.or(slot.token);
                granted.is_some()
            }
            NodeAction::UseToken => {
                let used = slot.token.and_then(|token| token.used(command, now));
                let next = slot.issued.max(slot.revoked).max(operand).checked_add(1);
                let Some((used, next)) = used.zip(next) else { return false };
                (slot.token, slot.issued) = (Some(used), next);
                true
            }
            NodeAction::RotateKeys | NodeAction::ReplaceProxy | NodeAction::ShapeTree => false,
        }
    }

    /// Whether a token was ever given: then a snapshot has a part about them.
    pub(crate) fn has_tokens(&self) -> bool {
        self.slots.iter().any(|slot| slot.token.is_some() || slot.issued > 0)
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
        if self.has_tokens() {
            for slot in &self.slots {
                out.u32(slot.issued);
                slot.token.unwrap_or_default().write(out);
            }
        }
    }

    /// `with_tokens`: the snapshot has a part about tokens.
    pub(crate) fn read(
        &mut self,
        from: &mut Reader,
        with_tokens: bool,
    ) -> Result<(), SnapshotError> {
        self.key_epoch = from.u32()?;
        for _ in 0..from.count(NODES_MAX)? {
            let lives = Lives::read(from)?;
            let (revoked, drained) = (from.u32()?, from.bool()?);
            self.slots.push(NodeStanding { lives, revoked, drained, ..NodeStanding::default() });
        }
        self.tree = TreeRecord::read(from)?;
        if with_tokens {
            for slot in &mut self.slots {
                slot.issued = from.u32()?;
                let token = JoinToken::read(from)?;
                slot.token = Some(token).filter(|token| *token != JoinToken::default());
            }
        }
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
        if self.has_tokens() {
            for slot in &self.slots {
                digest.fold(u64::from(slot.issued));
                slot.token.unwrap_or_default().fold(digest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use types::{CommandKind, UserRefNum};

    use super::*;

    fn set(nodes: &mut Nodes, action: u8, number: u32, operand: u32) -> bool {
        let command = Command {
            param: action,
            user_ref: UserRefNum(operand),
            orig_user_ref: UserRefNum(number),
            ..Command::new(CommandKind::SetNode)
        };
        nodes.apply(&command, Nanos(0))
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
        for (action, number) in
            [(0, 1), (9, 1), (7, 1), (8, 1), (1, 0), (1, NODES_MAX as u32 + 1), (4, 1)]
        {
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
        read.read(&mut Reader::new(&bytes), false).expect("whole");
        assert_eq!((read.slots.clone(), read.key_epoch), (nodes.slots.clone(), nodes.key_epoch));
        assert_eq!(read.tree, nodes.tree);
        for len in 0..bytes.len() {
            let cut = Nodes::default().read(&mut Reader::new(&bytes[..len]), false);
            assert!(cut.is_err(), "{len}");
        }
    }

    const MINUTE: u64 = 60 * Nanos::SECOND;

    #[test]
    fn a_token_is_used_once_for_one_key_until_it_ends_or_another_one_is_given() {
        let mut nodes = Nodes::default();
        let mut at = |now: u64, command| {
            let done = nodes.apply(&command, Nanos(now));
            (done, nodes.get(2).issued)
        };
        let (first, second, mine, others) = ([1, 2], [3, 4], [5, 6], [7, 8]);
        assert_eq!(at(0, JoinToken::use_up(2, first, mine, 0)), (false, 0), "none was given");
        assert_eq!(at(0, JoinToken::grant(2, first, Nanos(MINUTE))), (true, 0));
        assert_eq!(at(1, JoinToken::use_up(3, first, mine, 0)), (false, 0), "another node's");
        assert_eq!(at(1, JoinToken::use_up(2, second, mine, 0)), (false, 0), "another token");
        assert_eq!(at(1, JoinToken::use_up(2, first, mine, 4)), (true, 5), "behind what there was");
        assert_eq!(at(2, JoinToken::use_up(2, first, others, 4)), (false, 5), "for another key");
        assert_eq!(at(2, JoinToken::use_up(2, first, mine, 4)), (false, 5), "no second generation");
        // A later one takes its place, and ends.
        assert_eq!(at(3, JoinToken::grant(2, second, Nanos(MINUTE))), (true, 5));
        assert_eq!(at(4, JoinToken::use_up(2, first, others, 0)), (false, 5));
        assert_eq!(at(MINUTE, JoinToken::use_up(2, second, others, 0)), (false, 5), "it has ended");
        assert_eq!(
            at(MINUTE, JoinToken::grant(2, first, Nanos(MINUTE))),
            (false, 5),
            "over already"
        );
        // What the first one was is forgotten, and so it is none.
        assert_eq!(at(MINUTE, JoinToken::use_up(2, first, others, 0)), (false, 5));
    }

    #[test]
    fn a_revocation_takes_the_token_and_the_next_certificate_is_not_refused() {
        let mut nodes = Nodes::default();
        assert!(nodes.apply(&JoinToken::grant(1, [1, 1], Nanos(9)), Nanos(0)));
        assert!(set(&mut nodes, NodeAction::Revoke as u8, 1, 7));
        assert!(!nodes.apply(&JoinToken::use_up(1, [1, 1], [2, 2], 0), Nanos(1)));
        assert!(nodes.apply(&JoinToken::grant(1, [3, 3], Nanos(9)), Nanos(1)));
        assert!(nodes.apply(&JoinToken::use_up(1, [3, 3], [2, 2], 0), Nanos(1)));
        assert_eq!((nodes.get(1).issued, nodes.get(1).revoked), (8, 7));
        assert!(nodes.apply(&JoinToken::grant(1, [4, 4], Nanos(9)), Nanos(1)));
        assert!(!nodes.apply(&JoinToken::use_up(1, [4, 4], [2, 2], u32::MAX), Nanos(1)));
    }

    #[test]
    fn tokens_are_read_as_written_count_in_the_digest_and_cut_bytes_are_refused() {
        let digest = |nodes: &Nodes| {
            let mut digest = Digest::default();
            nodes.fold(&mut digest);
            digest.0
        };
        let mut nodes = Nodes::default();
        assert!(set(&mut nodes, NodeAction::Join as u8, 3, 7));
        let before = digest(&nodes);
        assert!(!nodes.has_tokens());
        assert!(nodes.apply(&JoinToken::grant(2, [1, u64::MAX], Nanos(MINUTE)), Nanos(0)));
        let granted = digest(&nodes);
        assert!(nodes.apply(&JoinToken::use_up(2, [1, u64::MAX], [3, 4], 0), Nanos(1)));
        assert!(before != granted && granted != digest(&nodes));
        let mut bytes = Vec::new();
        nodes.write(&mut Writer { bytes: &mut bytes });
        let mut read = Nodes::default();
        read.read(&mut Reader::new(&bytes), true).expect("whole");
        assert_eq!((&read.slots, digest(&read)), (&nodes.slots, digest(&nodes)));
        assert!(!read.apply(&JoinToken::use_up(2, [1, u64::MAX], [9, 9], 0), Nanos(2)), "used up");
        for len in 0..bytes.len() {
            let cut = Nodes::default().read(&mut Reader::new(&bytes[..len]), true);
            assert!(cut.is_err(), "{len}");
        }
    }
}
