//! Who is in the group changes while things go wrong: an operator with fresh machines at hand.
//!
//! It wants one thing at a time, asks whoever serves until that is made, and only then wants the next:
//! one machine more, one less, another one in the place of one whose disk is gone. It keeps faults
//! recoverable: disks that rot or are gone are always fewer than half of those that are counted.

use std::collections::VecDeque;

use replication::{Change, Membership, Refusal, ReplicaId, Stop};

use super::driver::Machine;
use super::world::{Event, MS, World};

/// Machines that there ever are: each new one has a number of its own.
const MACHINES_MAX: usize = 12;

/// What the operator is about.
#[derive(Default)]
pub(super) struct Operator {
    /// Changes still to be made, in order.
    wants: VecDeque<Change>,
    /// Who is in the group, as far as anybody ever had it applied.
    known: Option<Membership>,
}

impl Operator {
    pub(super) fn is_idle(&self) -> bool {
        self.wants.is_empty()
    }
}

/// Whether a change is made.
fn is_made(change: &Change, members: &Membership) -> bool {
    match change {
        Change::AddLearner { id, .. } => members.get(*id).is_some() || members.is_removed(*id),
        Change::Promote(id) => members.votes(*id),
        Change::Remove(id) => members.is_removed(*id),
    }
}

impl World {
    /// Who is in the group, as whoever knows most has applied it.
    pub(super) fn members(&self) -> Option<&Membership> {
        let ups = self.machines.iter().filter_map(|machine| machine.up.as_ref());
        let known = ups.map(|up| up.replica.membership()).chain(&self.operator.known);
        known.max_by_key(|members| members.number)
    }

    /// The operator looks around.
    pub(super) fn operate(&mut self) {
        let next = (20 + self.rng.below(60)) * MS;
        self.after(next, Event::Operate);
        let Some(members) = self.members().cloned() else { return };
        self.operator.known = Some(members.clone());
        // Whose disk is gone next is to be counted by those who know of the last change.
        if !self.is_counted_on(members.number) {
            return;
        }
        while let Some(change) = self.operator.wants.pop_front_if(|c| is_made(c, &members)) {
            match change {
                Change::AddLearner { .. } => self.counts.members_added += 1,
                Change::Promote(_) => self.counts.members_promoted += 1,
                Change::Remove(_) => self.counts.members_removed += 1,
            }
        }
        match self.operator.wants.front().cloned() {
            Some(change) => self.ask_for(&change),
            None if !self.healed => self.want(&members),
            None => {}
        }
    }

    /// Whether somebody says that most hold this membership durably.
    fn is_counted_on(&self, number: u64) -> bool {
        let mut ups = self.machines.iter().filter_map(|machine| machine.up.as_ref());
        ups.any(|up| up.replica.membership().number == number && up.replica.is_settled())
    }

    /// Asks somebody who serves; perhaps one that is deposed and does not know.
    fn ask_for(&mut self, change: &Change) {
        let serves = |machine: &&Machine| {
            machine.paused_until <= self.now
                && machine.up.as_ref().is_some_and(|up| up.serving.is_some())
        };
        let serving: Vec<u8> = self.machines.iter().filter(serves).map(|m| m.id).collect();
        if serving.is_empty() {
            return;
        }
        let id = serving[self.rng.below(serving.len() as u64) as usize];
        let mut actions = Vec::new();
        let Some(up) = self.up(id) else { return };
        match up.replica.change(change, &mut actions) {
            Ok(_) => {}
            Err(Refusal::HandsOver(_)) => self.counts.handed_over += 1,
            Err(_) => self.counts.changes_refused += 1,
        }
        self.act(id, actions);
    }

    fn want(&mut self, members: &Membership) {
        let voters: Vec<u8> = members.voters().map(|id| id.0).collect();
        let count = voters.len();
        // Of those counted, and without one of them: whose disks rot, or are gone.
        let lost = |without: u8| {
            let lost = |id: &&u8| {
                let machine = &self.machines[usize::from(**id) - 1];
                **id != without && (machine.rots || machine.gone || machine.lost.is_some())
            };
            voters.iter().filter(lost).count()
        };
        let victim = voters[self.rng.below(count as u64) as usize];
        let shrinks = count > 2 && 2 * lost(victim) < count - 1;
        let replaces =
            2 * (lost(victim) + 1) < count && !self.machines[usize::from(victim) - 1].gone;
        let room = self.machines.len() < MACHINES_MAX;
        let remove = Change::Remove(ReplicaId(victim));
        match self.rng.below(6) {
            0 | 1 if replaces && room => {
                let new = self.fresh_machine();
                self.lose_machine(victim);
                self.operator.wants.extend([add(new), Change::Promote(ReplicaId(new)), remove]);
            }
            2 | 3 if room && count < 5 => {
                let new = self.fresh_machine();
                self.operator.wants.extend([add(new), Change::Promote(ReplicaId(new))]);
            }
            4 | 5 if shrinks => self.operator.wants.push_back(remove),
            // One that is taken back before it is counted.
            0 if room => {
                let new = self.fresh_machine();
                self.operator.wants.extend([add(new), Change::Remove(ReplicaId(new))]);
            }
            _ => {}
        }
    }

    /// One more machine, with an empty disk and a number that nobody had.
    fn fresh_machine(&mut self) -> u8 {
        let id = self.machines.len() as u8 + 1;
        let short = self.options.has_short_logs(self.seed);
        let machine = Machine::new(id, self.rng.next_u64(), short);
        self.machines.push(machine);
        self.sides.push(0);
        self.clients.iter_mut().for_each(|client| client.replicas = id);
        self.after(0, Event::Start(id));
        id
    }

    /// A machine stops and its disk is gone.
    fn lose_machine(&mut self, id: u8) {
        self.counts.machines_gone += 1;
        self.kill(id);
        let machine = self.machine(id);
        (machine.gone, machine.disk) = (true, None);
    }

    /// A replica takes part in nothing any more: it was removed, or something is wrong.
    pub(super) fn has_stopped(&mut self, id: u8, why: Stop) {
        let known = self.members().is_some_and(|members| members.is_removed(ReplicaId(id)));
        if matches!(why, Stop::Removed { .. }) && known {
            self.counts.told_removed += 1;
            self.count_transfers(id);
            let machine = self.machine(id);
            machine.stop();
            machine.gone = true;
        } else {
            self.stopped.push((id, why.to_string()));
        }
    }

    /// Whether all is made that the operator wants, and whoever was removed knows.
    pub(super) fn is_operated(&self) -> bool {
        let removed = |machine: &Machine| {
            self.members().is_some_and(|members| members.is_removed(ReplicaId(machine.id)))
        };
        let told = |machine: &Machine| machine.gone || machine.lost.is_some() || !removed(machine);
        self.operator.is_idle() && self.machines.iter().all(told)
    }
}

fn add(id: u8) -> Change {
    Change::AddLearner { id: ReplicaId(id), place: vec![id; 6] }
}
