//! A member that begins behind a checkpoint of its root, and has some written.

use types::{ClockReading, Node, Outbox};

use super::Member;
use crate::Root;

/// Writes down the root as it is after the record at a position, or leaves it for this time; whether
/// it did. Called between two records, so it must be quick.
pub type Keep = Box<dyn FnMut(u64, &Root) -> bool + Send>;

/// A leader, for which everybody waits, does so this many times more seldom: when a group stops as a
/// whole, most of it are followers.
const LEADER_SELDOM: u64 = 4;

/// When the root is written down.
pub(super) struct Keeping {
    every: u64,
    keep: Keep,
}

impl Member {
    /// From now on the root is written down ([`Root::checkpoint`]) so many positions behind the last
    /// time, also that of an earlier life, four times as many while it leads, and when a snapshot is
    /// asked for: what the log gives up then is before both. 0: never.
    pub fn write_checkpoints_every(&mut self, positions: u64, keep: Keep) {
        self.keeping = (positions > 0).then_some(Keeping { every: positions, keep });
    }

    /// Has the root written down if it is time for that; it has taken the record at this position.
    pub(super) fn keep_checkpoint(&mut self, now: ClockReading, position: u64, out: &mut Outbox) {
        let asked = self.snapshot_every > 0 && self.snapshot_at == position;
        let seldom = if self.leading.is_some() { LEADER_SELDOM } else { 1 };
        let due = |keeping: &Keeping| {
            position.saturating_sub(self.kept_at) >= keeping.every.saturating_mul(seldom)
        };
        if self.stopped.is_some() || !self.keeping.as_ref().is_some_and(|k| due(k) || asked) {
            return;
        }
        // A leader applies what is committed with the step; here it is wanted up to this one.
        if self.leading.is_some() {
            self.state.role.handle_durable(now, self.state.inputs, out);
        }
        let root = self.state.role.as_root();
        if let Some((keeping, root)) = self.keeping.as_mut().zip(root)
            && root.engine().applied() == self.state.inputs
        {
            assert!(position >= self.kept_at, "what is written down is newer");
            self.kept_at = position;
            if (keeping.keep)(position, root) {
                let nobody = &mut self.state.nobody;
                let _ = self.state.role.with_root(nobody, |root, _| root.written_down());
            }
        }
    }
}
