//! Machines with the role `learner`: the replica that leads has them get the log, all replicas shut out
//! those that are revoked.

use std::collections::BTreeMap;
use std::sync::Arc;

use replication::{Change, ReplicaId};
use serde_json::{Value, json};

use super::{Server, Standing, lock};
use crate::fleet::file::NodeRole;
use crate::replica::shut::Shut;

/// Learners that were revoked, by number of the machine.
#[derive(Default)]
pub(super) struct Learners {
    shut: Arc<Shut>,
    /// Up to which generation, and how often it had been started by then; `None` where it was
    /// revoked before this replica was started.
    revoked: BTreeMap<u16, (u32, Option<u32>)>,
}

impl Learners {
    /// Whether a machine is shut out: revoked up to `revoked`, started `life` times, of which the last
    /// certificate seen here is `shown`; `seen` says that an earlier look found it in order.
    fn judge(
        &mut self,
        (number, revoked, life): (u16, u32, u32),
        shown: Option<u32>,
        (leads, first): (bool, bool),
    ) -> bool {
        let known = self.revoked.entry(number).or_insert((0, None));
        if revoked > known.0 {
            *known = (revoked, (!first).then_some(life));
        }
        match (revoked, leads) {
            (0, _) => false,
            // Its control connection shows another certificate before it is told anything.
            (_, true) => shown.is_none_or(|shown| shown <= revoked),
            // The one that leads let it in again, or it would not have been started once more.
            (_, false) => known.1 == Some(life),
        }
    }
}

impl Server {
    /// Has this server say which replicas are shut out.
    #[must_use]
    pub fn shutting(mut self, shut: &Arc<Shut>) -> Server {
        self.learners = Learners { shut: Arc::clone(shut), ..Learners::default() }.into();
        self
    }

    /// Lets learners of the file into the group, and shuts those out that are revoked. `first`: it is
    /// the first look of this process.
    pub(super) fn keep_learners(&self, first: bool) {
        let standing = self.standing();
        if !standing.seen {
            return;
        }
        let leads = standing.term != 0;
        let mut wanted = Vec::new();
        for (number, _) in self.venue.file.of(NodeRole::Learner) {
            let Some(id) = self.venue.file.replica(number) else { continue };
            let node = standing.nodes.get(number.into());
            let shown = lock(&self.generations).get(&number).copied();
            let mut learners = lock(&self.learners);
            let is = standing.votes(id);
            // One that was made a voter is as the other roots: its process ends when it is refused.
            let shut = learners.judge((number, node.revoked, node.life()), shown, (leads, first))
                && is != Some(true);
            learners.shut.set(ReplicaId(id), shut);
            if leads && is.is_none() && !shut {
                wanted.push(ReplicaId(id));
            }
        }
        if wanted.is_empty() {
            return;
        }
        // Changes are made one at a time; what is refused now is asked for again.
        let _ = self.root.call_member(move |member, now, out| {
            let members = member.replica().membership();
            let is_new = |id: &ReplicaId| members.get(*id).is_none() && !members.is_removed(*id);
            if let Some(id) = wanted.into_iter().find(is_new) {
                let _ = member.change(now, &Change::AddLearner { id, place: Vec::new() }, out);
            }
        });
    }

    /// Who keeps the log: a line, and a row for each.
    pub(super) fn replicas(&self, standing: &Standing) -> (String, Vec<Value>) {
        let (mut words, mut rows) = (Vec::new(), Vec::new());
        for (id, (_, node)) in (1u8..).zip(self.venue.file.replicated()) {
            let is = match standing.votes(id) {
                _ if id == standing.leader => "leads",
                Some(true) => "votes",
                Some(false) => "listens",
                None => "not in the group",
            };
            let behind = standing.behind.get(usize::from(id) - 1).copied().flatten();
            words.push(match behind.filter(|_| id != standing.leader) {
                Some(behind) => format!("{} {is}, {behind} records behind", node.name),
                None => format!("{} {is}", node.name),
            });
            rows.push(json!({ "node": node.name, "replica": id, "is": is, "behind": behind }));
        }
        (format!("log: {}", words.join("; ")), rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revoked_learner_is_shut_out_until_it_shows_another_certificate() {
        let mut of = Learners::default();
        let (leads, follows) = ((true, false), (false, false));
        assert!(!of.judge((4, 0, 1), Some(1), leads), "nobody revoked it");
        assert!(of.judge((4, 1, 1), Some(1), leads));
        assert!(of.judge((4, 1, 1), Some(1), follows));
        assert!(of.judge((4, 1, 1), None, leads), "a leader that has not seen it");
        assert!(!of.judge((4, 1, 2), Some(2), leads));
        assert!(!of.judge((4, 1, 2), None, follows), "it was started again");
        assert!(of.judge((4, 2, 2), Some(2), leads), "revoked once more");
        // One that was started later knows nothing of when that was.
        let mut of = Learners::default();
        assert!(!of.judge((4, 1, 3), None, (false, true)));
        assert!(of.judge((4, 1, 3), None, leads));
    }
}
