//! What operators want of a venue's roots.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use engine::Nodes;
use replication::{Refusal, ReplicaId};
use serde_json::json;
use types::{NodeAction, NodeId};

use super::greeting::slot;
use super::{ANSWER, COMMIT, Server, lock, set_node};
use crate::fleet::credentials::OPERATOR;
use crate::fleet::file::Port;
use crate::fleet::messages::{FromRoot, Operation};

/// Longest that a root which is to stop waits for others to lead, and for one of them.
const RETIRE_MAX: Duration = Duration::from_secs(2);
const RETIRE_EACH: Duration = Duration::from_millis(700);
/// How long it may go on before it sees that it is to stop.
const RETIRE_LOOK: Duration = Duration::from_millis(10);
/// Positions of the log that whoever is to lead may lack: more is written meanwhile, and trading waits.
const RETIRE_BEHIND_MAX: u64 = 1_000;

impl Server {
    /// Does what an operator wants; else why not, and whether it may be otherwise in a moment.
    pub(super) fn operate(&self, operation: &Operation) -> Result<FromRoot, (String, bool)> {
        let number = |name: &str| {
            let found = self.venue.file.node(name).map_err(|why| (why.to_string(), false))?;
            Ok::<u32, (String, bool)>(found.0.into())
        };
        let command = |command, done: &dyn Fn(&Nodes) -> bool| {
            self.command(command, done).map_err(|why| (why, true))
        };
        let epoch = self.standing().nodes.key_epoch();
        let text = match operation {
            Operation::Status => return Ok(self.status()),
            Operation::Replica => return self.replica(),
            Operation::Revoke { node, generation } => {
                let caller = if node == OPERATOR { 0 } else { number(node)? as u16 };
                let at = slot(caller);
                let shown = lock(&self.generations).get(&caller).copied().unwrap_or(0);
                // Whoever has joined with a token may have a later one than the operator's files say.
                let issued = self.standing().nodes.get(at).issued;
                let upto = (*generation).max(shown).max(issued);
                let set = set_node(NodeAction::Revoke, at, upto, OPERATOR);
                command(set, &|nodes| nodes.get(at).revoked >= upto)?;
                let epoch = self.standing().nodes.key_epoch();
                let data = json!({ "key_epoch": epoch, "revoked": upto });
                let what = format!("{node}: certificates up to generation {upto} are refused");
                let text = format!("{what}; keys are of epoch {epoch}");
                return Ok(FromRoot::Answer { text, data });
            }
            Operation::Token { node, digest, valid_s } => {
                return self.grant(node, digest, *valid_s);
            }
            Operation::Rotate => {
                let set = set_node(NodeAction::RotateKeys, 0, 0, OPERATOR);
                command(set, &|nodes| nodes.key_epoch() > epoch)?;
                "all nodes are given other keys".to_string()
            }
            Operation::Replace { nodes, by } => self.replace(nodes, by)?,
            Operation::Plan(request) => return self.plan(request).map(|plan| Server::told(&plan)),
            Operation::LastPlan => return self.last_plan().map(|plan| Server::told(&plan)),
            Operation::Lead { node } => {
                let to = self.hand_over(node)?;
                let data = json!({ "leader": to });
                return Ok(FromRoot::Answer { text: format!("{node} leads"), data });
            }
            Operation::Drain { node, on } => {
                let at = number(node)?;
                let set = set_node(NodeAction::Drain, at, u32::from(*on), OPERATOR);
                command(set, &|nodes| nodes.get(at).drained == *on)?;
                let what = if *on { "ends its sessions and stops" } else { "may join again" };
                format!("{node} {what}")
            }
        };
        let epoch = self.standing().nodes.key_epoch();
        let data = json!({ "key_epoch": epoch });
        Ok(FromRoot::Answer { text: format!("{text}; keys are of epoch {epoch}"), data })
    }

    /// How this replica stands.
    pub(super) fn replica(&self) -> Result<FromRoot, (String, bool)> {
        let status = self.replica.status();
        let status = status.ok_or_else(|| ("its loop does not answer".to_string(), true))?;
        Ok(FromRoot::Answer { text: status.to_string(), data: json!(status) })
    }

    /// The overlay node of a proxy's machine.
    pub(super) fn proxy(&self, name: &str) -> Result<NodeId, (String, bool)> {
        let (number, _) = self.venue.file.node(name).map_err(|why| (why.to_string(), false))?;
        let mut here = self.venue.overlay.iter().filter(|(_, machine, _)| *machine == number);
        let proxy = here.find(|(.., port)| *port == Port::Proxy).map(|(id, ..)| *id);
        proxy.ok_or_else(|| (format!("{name} is no proxy and does not stand by"), false))
    }

    /// Name of the machine of an overlay node.
    pub(super) fn machine(&self, id: NodeId) -> &str {
        let number = self.venue.overlay.iter().find(|(of, ..)| *of == id).map(|of| of.1);
        let node = number.and_then(|number| self.venue.file.numbered(number));
        node.map_or("", |node| &node.name[..])
    }

    fn replace(&self, nodes: &[String], by: &[String]) -> Result<String, (String, bool)> {
        if nodes.is_empty() || !(by.is_empty() || by.len() == nodes.len()) {
            return Err(("as many come as leave".to_string(), false));
        }
        let mut wanted = Vec::new();
        for (at, old) in nodes.iter().enumerate() {
            let new = by.get(at).map(|new| self.proxy(new)).transpose()?;
            wanted.push((self.proxy(old)?, new));
        }
        let (to, from) = sync_channel(1);
        let asked = self.root.call(move |root, now, out| {
            let come = root.replace_proxies(now, &wanted, out);
            let changes = root.engine().nodes().tree().changes;
            let _ = to.try_send(come.map(|come| (come, changes)));
        });
        let busy = |why: String| (why, true);
        asked.map_err(|error| busy(error.to_string()))?;
        let told = from.recv_timeout(ANSWER).map_err(|error| busy(error.to_string()))?;
        let (come, before) = told.map_err(|why| (why.to_string(), false))?;
        let until = Instant::now() + COMMIT;
        while self.standing().nodes.tree().changes <= before && Instant::now() < until {
            self.look();
            std::thread::sleep(Duration::from_millis(2));
        }
        let changes = self.standing().nodes.tree().changes;
        if changes <= before {
            return Err(busy("not committed in time: again".to_string()));
        }
        let pairs = nodes.iter().zip(&come);
        let pairs = pairs.map(|(old, new)| format!("{} stands for {old}", self.machine(*new)));
        Ok(format!(
            "{}; the tree is of epoch {}",
            pairs.collect::<Vec<_>>().join(", "),
            changes + 1
        ))
    }

    /// Lets a root lead in place of this one; its number among the replicas once it does.
    fn hand_over(&self, node: &str) -> Result<u8, (String, bool)> {
        let (number, _) = self.venue.file.node(node).map_err(|why| (why.to_string(), false))?;
        let replica = self.venue.file.replica(number);
        let id = replica.ok_or_else(|| (format!("{node} is no root"), false))?;
        self.hand_over_to(id, COMMIT)
    }

    /// The same, by the number of a replica, within so long.
    fn hand_over_to(&self, id: u8, most: Duration) -> Result<u8, (String, bool)> {
        let (to, from) = sync_channel(1);
        let asked = self.root.call_member(move |member, now, out| {
            let _ = to.try_send(member.hand_over(now, ReplicaId(id), out));
        });
        let taken = asked.ok().and_then(|()| from.recv_timeout(ANSWER).ok());
        match taken {
            Some(Ok(())) => {}
            // Whoever leads now is asked by the other side.
            None | Some(Err(Refusal::NotLeading(_))) => {
                return Err(("this root leads no more: again".to_string(), true));
            }
            Some(Err(why)) => return Err((why.to_string(), false)),
        }
        let until = Instant::now() + most;
        while Instant::now() < until {
            self.look();
            if self.standing().leader == id {
                return Ok(id);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err((format!("replica {id} does not lead within {} ms: again", most.as_millis()), true))
    }

    /// This root is to stop: if it leads, another one leads in its place before it does. Gives the line for
    /// whoever stops it; nothing for one that does not lead. Within 2 s, and at once where there
    /// is nobody to hand over to: then the others elect one when this one is gone.
    pub fn retire(&self, own: u8) -> Option<String> {
        let begun = Instant::now();
        self.look();
        let standing = self.standing();
        if standing.term == 0 {
            return None;
        }
        let mut why = "there is no other root that has its log".to_string();
        for id in successors(own, &standing.voters_lack()) {
            let left = RETIRE_MAX.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            match self.hand_over_to(id, left.min(RETIRE_EACH)) {
                Ok(_) => {
                    let ms = begun.elapsed().as_millis();
                    return Some(format!("replica {id} leads in its place after {ms} ms: stops"));
                }
                Err((said, _)) => why = said,
            }
            if self.standing().term == 0 {
                let ms = begun.elapsed().as_millis();
                return Some(format!("leads no more after {ms} ms: stops"));
            }
        }
        Some(format!("stops while it leads: {why}"))
    }

    /// Waits until a root that is told to `stop` may, or until it is `over` by itself; what it did then.
    pub fn wait_to_retire(&self, own: u8, stop: &AtomicBool, over: &AtomicBool) -> Option<String> {
        while !stop.load(Ordering::Relaxed) {
            if over.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(RETIRE_LOOK);
        }
        if over.load(Ordering::Relaxed) { None } else { self.retire(own) }
    }
}

/// Replicas that may lead in place of this one, those that lack least first; none of those that would have
/// trading wait until they have it.
fn successors(own: u8, behind: &[Option<u64>]) -> Vec<u8> {
    let all = (1u8..).zip(behind).filter_map(|(id, behind)| Some((behind.as_ref()?, id)));
    let mut near: Vec<(&u64, u8)> =
        all.filter(|(behind, id)| *id != own && **behind <= RETIRE_BEHIND_MAX).collect();
    near.sort_unstable();
    near.into_iter().map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Standing;
    use super::*;

    #[test]
    fn whoever_lacks_least_leads_next_and_nobody_who_lacks_much() {
        assert_eq!(successors(2, &[Some(7), Some(0), Some(3)]), [3, 1]);
        assert_eq!(successors(1, &[Some(0), Some(5), Some(5), None, Some(1)]), [5, 2, 3]);
        assert_eq!(successors(1, &[Some(0), Some(RETIRE_BEHIND_MAX + 1), Some(2)]), [3]);
        assert_eq!(successors(1, &[Some(0)]), Vec::<u8>::new(), "a root alone");
        assert_eq!(successors(1, &[]), Vec::<u8>::new());
    }

    #[test]
    fn a_learner_is_not_handed_over_to_before_it_votes() {
        let mut standing = Standing {
            behind: vec![Some(0), Some(9), None, Some(0)],
            votes: vec![Some(true), Some(true), None, Some(false)],
            ..Standing::default()
        };
        assert_eq!(successors(1, &standing.voters_lack()), [2]);
        standing.votes[3] = Some(true);
        assert_eq!(successors(1, &standing.voters_lack()), [4, 2]);
    }
}
