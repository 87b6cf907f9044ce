//! Changing who is in the group: what a leader refuses, and what whoever was removed is told.
//!
//! One change at a time (Ongaro, "Consensus: Bridging Theory and Practice", 4.1 to 4.3): a leader
//! takes one when it has applied the one before and a record of its own term, so that of two
//! memberships in use at once any two majorities have somebody in common. Somebody new listens first,
//! so that nobody waits for whoever lacks the log. A leader removes no one whose absence would leave
//! too few that run, and removes itself by letting another one lead first.

use std::collections::VecDeque;

use crate::wire::{Body, CHANGES};
use crate::{Action, Change, Membership, Replica, ReplicaId};

/// Why a change is not made; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The replica is not the leader, or not ready to serve; perhaps the one given is.
    NotLeading(Option<ReplicaId>),
    /// The change is about the leader itself, which hands leadership to the replica given: ask that
    /// one.
    HandsOver(ReplicaId),
    /// Some replica speaks a version of the messages, at most this one, that knows no changes.
    Version(u8),
    /// Another change is in progress, or may be.
    Pending,
    /// Too much is on its way: again when some of it is committed.
    Busy,
    /// The number was used before, or is 0.
    Used(ReplicaId),
    /// The replica already is what the change would make it.
    Known(ReplicaId),
    /// None of the group has this number.
    Unknown(ReplicaId),
    /// There are as many as there can be, or the place is too long.
    Room,
    /// The removal would leave no voter in the group.
    Last,
    /// The replica has not been heard from lately.
    Silent(ReplicaId),
    /// The replica has the log up to the first position only; the second is the one that all others
    /// had an election timeout ago.
    Lags(ReplicaId, u64, u64),
    /// So few of those that would be counted were heard of lately, and so many are needed.
    TooFew(usize, usize),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::NotLeading(Some(leader)) => write!(f, "not the leader: ask {leader}"),
            Refusal::NotLeading(None) => {
                f.write_str("not the leader, and none is known: again later")
            }
            Refusal::HandsOver(to) => write!(f, "it leads, and lets {to} lead first: ask that"),
            Refusal::Version(known) => write!(
                f,
                "a replica speaks version {known} of the messages, which knows no changes of \
                 membership, or has not said yet what it speaks: upgrade all first"
            ),
            Refusal::Pending => f.write_str("another change is on its way: again when it is made"),
            Refusal::Busy => f.write_str("too much is on its way: again later"),
            Refusal::Used(id) => write!(f, "{id}: a number that was used before; take a new one"),
            Refusal::Known(id) => write!(f, "{id} is in the group as that"),
            Refusal::Unknown(id) => write!(f, "{id} is not in the group"),
            Refusal::Room => write!(
                f,
                "no room: at most {} that are counted, as many that listen, and {} bytes of a place",
                crate::VOTERS_MAX,
                crate::PLACE_MAX
            ),
            Refusal::Last => f.write_str("the last one that is counted can't be removed"),
            Refusal::Silent(id) => write!(f, "{id} was not heard of lately: does it run?"),
            Refusal::Lags(id, has, due) => {
                write!(f, "{id} has the log up to {has}, and {due} is needed: again when it has")
            }
            Refusal::TooFew(run, needed) => write!(
                f,
                "{run} of those left would run, and {needed} are needed: start or replace others first"
            ),
        }
    }
}

impl std::error::Error for Refusal {}

/// A leader reminds one of those removed after so many ticks.
const REMINDED: u64 = 16;

/// State of a leader about a change of the members.
#[derive(Clone, Default, Debug)]
pub(crate) struct Changing {
    /// Committed position at each of the last ticks, for the length of an election timeout.
    committed: VecDeque<u64>,
    /// Of this term and this membership: the first record after it was applied.
    confirmed: Option<(u64, u64, u64)>,
}

impl Changing {
    pub(crate) fn tick(&mut self, election_ticks: u32, committed: u64) {
        assert!(self.committed.back().is_none_or(|last| *last <= committed), "commits stay");
        self.committed.push_back(committed);
        while self.committed.len() > election_ticks as usize {
            self.committed.pop_front();
        }
    }
}

impl Replica {
    /// Membership of the group, as far as changes are applied here.
    pub fn membership(&self) -> &Membership {
        self.core.membership()
    }

    /// Whether a leader may have a change on its way.
    pub fn is_changing(&self) -> bool {
        self.core.is_changing()
    }

    /// Position up to which the leader knows another replica's durable log to equal its own.
    pub fn matched(&self, id: ReplicaId) -> Option<u64> {
        self.core.matched(id)
    }

    /// Whether a leader knows that most of today's voters hold durably that they are that, so that
    /// they elect one another whatever becomes of the others. Before, whoever stops for good may
    /// leave a group behind that needs it: a replica that starts again counts a change only once a
    /// record after it says that it is committed.
    pub fn is_settled(&self) -> bool {
        let members = self.core.membership();
        let Some(term) = self.serving else { return false };
        let from = match self.changing.confirmed {
            _ if members.number == 0 => 0,
            Some((of, number, from)) if (of, number) == (term, members.number) => from,
            _ => return false,
        };
        let holds = |id: &ReplicaId| self.core.matched(*id).is_some_and(|to| to >= from);
        members.voters().filter(holds).count() >= members.quorum()
    }

    /// As leader, writes an empty record after a change, by which the others learn that the change
    /// is committed.
    pub(crate) fn confirm_change(&mut self) {
        let number = self.core.membership().number;
        let Some(term) = self.serving.filter(|_| number > 0) else { return };
        if self.changing.confirmed.is_some_and(|(of, at, _)| (of, at) == (term, number)) {
            return;
        }
        if let Some(position) = self.core.confirm() {
            self.changing.confirmed = Some((term, number, position));
        }
    }

    /// Changes who is in the group, when the record is committed; says at which position that is,
    /// if this leader leads so long. It is made when [`Replica::membership`] says so, and to be
    /// counted on when [`Replica::is_settled`] does.
    ///
    /// # Errors
    /// [`Refusal`], with nothing changed; after [`Refusal::HandsOver`] another one is about to lead.
    pub fn change(&mut self, change: &Change, out: &mut Vec<Action>) -> Result<u64, Refusal> {
        if self.stopped.is_some() || self.serving.is_none() {
            return Err(Refusal::NotLeading(self.standing.leader));
        }
        let agreed = self.agreed_version();
        if agreed < CHANGES {
            return Err(Refusal::Version(agreed));
        }
        if self.core.is_changing() {
            return Err(Refusal::Pending);
        }
        let next = self.core.membership().after(change)?;
        match change {
            Change::AddLearner { .. } => {}
            Change::Promote(id) => self.has_caught_up(*id)?,
            Change::Remove(id) => {
                self.goes_on_without(*id, &next)?;
                if *id == self.config.id {
                    let to = self.successor(&next).ok_or(Refusal::Busy)?;
                    self.core.hand_over(to);
                    self.go_on(out);
                    return Err(Refusal::HandsOver(to));
                }
            }
        }
        if self.is_far_behind() {
            return Err(Refusal::Busy);
        }
        let position = self.core.change(change, &next).ok_or(Refusal::Busy)?;
        self.go_on(out);
        Ok(position)
    }

    /// Hands leadership to another replica as soon as that has all records of this leader; until
    /// then, for an election timeout at most, no records are taken. Asked again meanwhile, it
    /// changes nothing.
    ///
    /// # Errors
    /// [`Refusal`], with nothing changed: no voter has that number, or it is not heard.
    pub fn hand_over(&mut self, to: ReplicaId, out: &mut Vec<Action>) -> Result<(), Refusal> {
        if self.stopped.is_some() || self.serving.is_none() {
            return Err(Refusal::NotLeading(self.standing.leader));
        }
        if !self.core.membership().votes(to) {
            return Err(Refusal::Unknown(to));
        }
        if !self.runs(to) {
            return Err(Refusal::Silent(to));
        }
        if to != self.config.id {
            self.core.hand_over(to);
            self.go_on(out);
        }
        Ok(())
    }

    fn runs(&self, id: ReplicaId) -> bool {
        id == self.config.id || self.versions.heard_within(id, self.config.election_ticks)
    }

    /// Whether a replica is heard and has all that was committed an election timeout ago, so that
    /// it delays no one.
    fn has_caught_up(&self, id: ReplicaId) -> Result<(), Refusal> {
        if !self.runs(id) {
            return Err(Refusal::Silent(id));
        }
        let has = self.core.matched(id).unwrap_or(0);
        let due = self.changing.committed.front().copied().unwrap_or(u64::MAX);
        if has < due { Err(Refusal::Lags(id, has, due)) } else { Ok(()) }
    }

    fn goes_on_without(&self, id: ReplicaId, next: &Membership) -> Result<(), Refusal> {
        let run = next.voters().filter(|voter| self.runs(*voter)).count();
        let counted = self.core.membership().votes(id);
        if counted && run < next.quorum() {
            return Err(Refusal::TooFew(run, next.quorum()));
        }
        Ok(())
    }

    /// Replica that may lead next: the running one with the longest log.
    fn successor(&self, next: &Membership) -> Option<ReplicaId> {
        let runs = next.voters().filter(|voter| self.runs(*voter));
        runs.max_by_key(|voter| self.core.matched(*voter))
    }

    /// A replica that is in the group no more has sent something. The leader tells it so when most of
    /// today's voters know: before, those who do not may need the vote of the one that was removed.
    pub(crate) fn answer_removed(&self, from: ReplicaId, out: &mut Vec<Action>) {
        if self.is_settled() {
            let number = self.core.membership().number;
            self.tell(from, &Body::Removed { number }, out);
        }
    }

    /// One that was away when it was removed, and knows nobody of today's members, asks nobody who
    /// could tell it: so a leader says so to one after the other, now and then.
    pub(crate) fn remind_removed(&self, out: &mut Vec<Action>) {
        let removed = self.core.membership().removed().count();
        let ticks = self.versions.ticks();
        if removed == 0 || !ticks.is_multiple_of(REMINDED) {
            return;
        }
        let turn = ticks / REMINDED % removed as u64;
        let whose = self.core.membership().removed().nth(turn as usize);
        whose.into_iter().for_each(|id| self.answer_removed(id, out));
    }
}
