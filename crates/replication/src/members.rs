//! Who is in a group: a record of the log, from which every replica knows it.
//!
//! The founders are what every replica was told when the group was made ([`crate::Config`]). Each
//! change is a record of the group's own ([`journal::Record::group`]) that says who is in it from then
//! on, whole, so that the last such record is all there is to know. It takes effect where it is
//! applied; one that is taken back was never anything. Numbers are not used again: a removed replica
//! may wake up with what it had, and nobody shall take it for another.
//!
//! Written form, little-endian: what the consensus library wants to know of a change (changes u8, per
//! change kind u8, member u64), then version u8 · number u64 · members u8 · per member number u8, votes u8 (0, 1),
//! length u8 and bytes of its place · removed u8 · a u8 for each. Numbers rise.

use std::collections::{BTreeMap, BTreeSet};

use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};

use crate::{Config, Refusal, ReplicaId};

/// Most voters of a group, and most learners.
pub const VOTERS_MAX: usize = 9;
/// Longest address of a member, bytes ([`Member::place`]).
pub const PLACE_MAX: usize = 80;
/// Version of the encoded membership.
const WRITTEN: u8 = 1;

const _: () = assert!(PLACE_MAX <= u8::MAX as usize, "its length is written in a byte");
const _: () = assert!(2 * VOTERS_MAX <= u8::MAX as usize, "so are their number and numbers");

/// What the group knows of one of its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Whether the member votes and counts for majorities; others are learners.
    pub votes: bool,
    /// Address of the member, in a form that the group's operator chooses; empty for founders,
    /// whose addresses are configured.
    pub place: Vec<u8>,
}

/// The members of a group, as of one change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// Number of changes before this membership.
    pub number: u64,
    members: BTreeMap<ReplicaId, Member>,
    removed: BTreeSet<ReplicaId>,
}

/// A change of a group's membership.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Adds a learner: it gets the log and has no vote.
    AddLearner {
        /// Number of the learner; no member may have had it before.
        id: ReplicaId,
        /// Address of the learner, which the others are told as it is, at most [`PLACE_MAX`] bytes.
        place: Vec<u8>,
    },
    /// Makes a learner that has caught up a voter.
    Promote(ReplicaId),
    /// Removes a member; its number is never used again.
    Remove(ReplicaId),
}

impl Membership {
    /// Members that the group was made with.
    pub fn founders(config: &Config) -> Membership {
        let member = |id: u8| {
            let votes = id <= config.replicas;
            (ReplicaId(id), Member { votes, place: Vec::new() })
        };
        let members = (1..=config.founders()).map(member).collect();
        Membership { number: 0, members, removed: BTreeSet::new() }
    }

    /// All members, in order of their numbers.
    pub fn members(&self) -> impl Iterator<Item = (ReplicaId, &Member)> {
        self.members.iter().map(|(id, member)| (*id, member))
    }

    /// All members but one, in order.
    pub fn others(&self, own: ReplicaId) -> impl Iterator<Item = ReplicaId> {
        self.members.keys().copied().filter(move |id| *id != own)
    }

    /// Members with a vote, in order.
    pub fn voters(&self) -> impl Iterator<Item = ReplicaId> {
        self.members.iter().filter(|(_, member)| member.votes).map(|(id, _)| *id)
    }

    /// The member with this number; `None`: there is none.
    pub fn get(&self, id: ReplicaId) -> Option<&Member> {
        self.members.get(&id)
    }

    /// Whether this member has a vote.
    pub fn votes(&self, id: ReplicaId) -> bool {
        self.members.get(&id).is_some_and(|member| member.votes)
    }

    /// Whether one was of them and is not any more.
    pub fn is_removed(&self, id: ReplicaId) -> bool {
        self.removed.contains(&id)
    }

    /// Those that were of them and are not any more, in order.
    pub fn removed(&self) -> impl Iterator<Item = ReplicaId> {
        self.removed.iter().copied()
    }

    /// Number of voters that make a majority.
    pub fn quorum(&self) -> usize {
        self.voters().count() / 2 + 1
    }

    /// What a change makes of it.
    ///
    /// # Errors
    /// Why it can't be made, whoever runs and whatever they have.
    pub fn after(&self, change: &Change) -> Result<Membership, Refusal> {
        let mut next = Membership { number: self.number + 1, ..self.clone() };
        match change {
            Change::AddLearner { id, place } => {
                if id.0 == 0 || self.is_removed(*id) {
                    return Err(Refusal::Used(*id));
                }
                let learners = self.members.len() - self.voters().count();
                if self.members.contains_key(id) {
                    return Err(Refusal::Known(*id));
                }
                if learners >= VOTERS_MAX || place.len() > PLACE_MAX {
                    return Err(Refusal::Room);
                }
                next.members.insert(*id, Member { votes: false, place: place.clone() });
            }
            Change::Promote(id) => {
                let voters = self.voters().count();
                let member = next.members.get_mut(id).ok_or(Refusal::Unknown(*id))?;
                if member.votes {
                    return Err(Refusal::Known(*id));
                }
                if voters >= VOTERS_MAX {
                    return Err(Refusal::Room);
                }
                member.votes = true;
            }
            Change::Remove(id) => {
                next.members.remove(id).ok_or(Refusal::Unknown(*id))?;
                next.removed.insert(*id);
                if next.voters().next().is_none() {
                    return Err(Refusal::Last);
                }
            }
        }
        assert!((1..=VOTERS_MAX).contains(&next.voters().count()), "somebody votes");
        Ok(next)
    }

    /// The membership, encoded for the log, with the change that makes it of the one before.
    pub(crate) fn write(&self, change: &Change) -> Vec<u8> {
        let (change_type, id) = match change {
            Change::AddLearner { id, .. } => (ConfChangeType::AddLearnerNode, id),
            Change::Promote(id) => (ConfChangeType::AddNode, id),
            Change::Remove(id) => (ConfChangeType::RemoveNode, id),
        };
        let single = ConfChangeSingle { change_type, node_id: u64::from(id.0) };
        let told = ConfChangeV2 {
            changes: vec![single],
            context: self.bytes(),
            ..ConfChangeV2::default()
        };
        // A single change has a written form.
        let bytes = told.write().unwrap_or_default();
        assert_eq!(Membership::read(&bytes).as_ref(), Some(self), "it is read as written");
        bytes
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![WRITTEN];
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.push(self.members.len() as u8);
        for (id, member) in &self.members {
            bytes.extend_from_slice(&[id.0, u8::from(member.votes), member.place.len() as u8]);
            bytes.extend_from_slice(&member.place);
        }
        bytes.push(self.removed.len() as u8);
        bytes.extend(self.removed.iter().map(|id| id.0));
        bytes
    }

    /// Reads the written form; nothing when it makes no sense.
    pub(crate) fn read(bytes: &[u8]) -> Option<Membership> {
        if bytes.len() > journal::GROUP_MAX {
            return None;
        }
        let told = ConfChangeV2::read(bytes).filter(|told| !told.changes.is_empty())?;
        let (version, rest) = told.context.split_first()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (count, mut rest) = rest.split_first()?;
        let mut members = BTreeMap::new();
        for _ in 0..*count {
            let ([id, votes, len], more) = rest.split_first_chunk()?;
            let (place, more) = more.split_at_checked(usize::from(*len))?;
            let rises = members.keys().next_back().is_none_or(|last: &ReplicaId| last.0 < *id);
            if *id == 0 || *votes > 1 || place.len() > PLACE_MAX || !rises {
                return None;
            }
            members.insert(ReplicaId(*id), Member { votes: *votes == 1, place: place.to_vec() });
            rest = more;
        }
        let (count, removed) = rest.split_first()?;
        let apart = removed.iter().all(|id| !members.contains_key(&ReplicaId(*id)));
        let sound = removed.len() == usize::from(*count) && removed.is_sorted_by(|a, b| a < b);
        let removed = removed.iter().copied().map(ReplicaId).collect();
        let known = Membership { number: u64::from_le_bytes(*number), members, removed };
        let voters = known.voters().count();
        let bounded = (1..=VOTERS_MAX).contains(&voters);
        let bounded = bounded && known.members.len() - voters <= VOTERS_MAX;
        (*version == WRITTEN && apart && sound && bounded).then_some(known)
    }

    /// The membership in the library's form, at replica `own`. A replica that has not learned yet
    /// that it was added counts as a learner: the log or a snapshot that says so is on its way to
    /// it.
    pub(crate) fn conf_state(&self, own: ReplicaId) -> ConfState {
        let number = |id: ReplicaId| u64::from(id.0);
        let mut learners: Vec<u64> =
            self.members().filter(|(_, member)| !member.votes).map(|(id, _)| number(id)).collect();
        if self.get(own).is_none() && !self.is_removed(own) {
            learners.push(number(own));
        }
        ConfState { voters: self.voters().map(number).collect(), learners, ..ConfState::default() }
    }
}

/// Version of an encoded membership, for versions that cannot decode it.
pub(crate) fn version_of(bytes: &[u8]) -> u8 {
    ConfChangeV2::read(bytes).and_then(|told| told.context.first().copied()).unwrap_or(0)
}

/// The changes that make one of these of the other; each can be made by itself.
pub(crate) fn steps(from: &ConfState, to: &ConfState) -> Vec<ConfChangeSingle> {
    let single = |change_type, id: &u64| ConfChangeSingle { change_type, node_id: *id };
    let known =
        |state: &ConfState, id: &u64| state.voters.contains(id) || state.learners.contains(id);
    let learns = |id: &&u64| !from.learners.contains(id);
    let votes = |id: &&u64| !from.voters.contains(id);
    let gone = |id: &&u64| !known(to, id);
    let added = to.learners.iter().filter(learns);
    let added = added.map(|id| single(ConfChangeType::AddLearnerNode, id));
    let promoted = to.voters.iter().filter(votes).map(|id| single(ConfChangeType::AddNode, id));
    let removed = from.voters.iter().chain(&from.learners).filter(gone);
    let removed = removed.map(|id| single(ConfChangeType::RemoveNode, id));
    added.chain(promoted).chain(removed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FOUR: ReplicaId = ReplicaId(4);

    fn founders() -> Membership {
        Membership::founders(&Config { learners: 1, ..Config::new(1, ReplicaId(1), 3) })
    }

    fn ids(ids: impl Iterator<Item = ReplicaId>) -> Vec<u8> {
        ids.map(|id| id.0).collect()
    }

    #[test]
    fn changes_are_single_steps_and_numbers_are_never_used_again() {
        let first = founders();
        assert_eq!(
            (ids(first.voters()), first.quorum(), first.votes(FOUR)),
            (vec![1, 2, 3], 2, false)
        );
        let add =
            |id, place: &[u8]| Change::AddLearner { id: ReplicaId(id), place: place.to_vec() };
        let four = first.after(&Change::Promote(FOUR)).unwrap();
        assert_eq!((four.number, ids(four.voters()), four.quorum()), (1, vec![1, 2, 3, 4], 3));
        let five = four.after(&add(9, b"there")).unwrap();
        assert_eq!(five.get(ReplicaId(9)).unwrap().place, b"there");
        let gone = five.after(&Change::Remove(ReplicaId(1))).unwrap();
        assert_eq!((ids(gone.voters()), ids(gone.removed())), (vec![2, 3, 4], vec![1]));
        for (change, refusal) in [
            (add(1, b""), Refusal::Used(ReplicaId(1))),
            (add(0, b""), Refusal::Used(ReplicaId(0))),
            (add(2, b""), Refusal::Known(ReplicaId(2))),
            (add(7, &[0; PLACE_MAX + 1]), Refusal::Room),
            (Change::Promote(ReplicaId(2)), Refusal::Known(ReplicaId(2))),
            (Change::Promote(ReplicaId(1)), Refusal::Unknown(ReplicaId(1))),
            (Change::Remove(ReplicaId(1)), Refusal::Unknown(ReplicaId(1))),
        ] {
            assert_eq!(gone.after(&change), Err(refusal), "{change:?}");
        }
        let two = gone.after(&Change::Remove(ReplicaId(2))).unwrap();
        let one = two.after(&Change::Remove(ReplicaId(3))).unwrap();
        assert_eq!(one.after(&Change::Remove(FOUR)), Err(Refusal::Last));
    }

    #[test]
    fn the_largest_fits_where_it_is_kept() {
        let member = |id| (ReplicaId(id), Member { votes: id <= 9, place: vec![id; PLACE_MAX] });
        let members: BTreeMap<_, _> = (1..=18).map(member).collect();
        let removed = (19..=255).map(ReplicaId).collect();
        let largest = Membership { number: u64::MAX, members, removed };
        let bytes = largest.write(&Change::Promote(ReplicaId(1)));
        assert!(bytes.len() <= journal::GROUP_MAX, "{}", bytes.len());
        assert_eq!(Membership::read(&bytes), Some(largest));
    }

    #[test]
    fn the_library_is_told_of_single_steps() {
        let first = founders();
        let at = |membership: &Membership| membership.conf_state(ReplicaId(1));
        let add = Change::AddLearner { id: ReplicaId(7), place: vec![] };
        for (change, kind, id) in [
            (add, ConfChangeType::AddLearnerNode, 7),
            (Change::Promote(FOUR), ConfChangeType::AddNode, 4),
            (Change::Remove(ReplicaId(2)), ConfChangeType::RemoveNode, 2),
            (Change::Remove(FOUR), ConfChangeType::RemoveNode, 4),
        ] {
            let next = first.after(&change).unwrap();
            let step = ConfChangeSingle { change_type: kind, node_id: id };
            assert_eq!(steps(&at(&first), &at(&next)), [step], "{change:?}");
        }
        assert_eq!(
            first.conf_state(ReplicaId(9)).learners,
            [4, 9],
            "not yet heard that it was added"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_what_is_read_was_written(
            place in any::<prop::sample::Index>(), value: u8, cut in any::<prop::sample::Index>(),
        ) {
            let add = Change::AddLearner { id: ReplicaId(7), place: b"somewhere".to_vec() };
            let known = founders().after(&Change::Remove(ReplicaId(2))).unwrap().after(&add).unwrap();
            let mut bytes = known.write(&add);
            prop_assert_eq!(Membership::read(&bytes), Some(known));
            let place = place.index(bytes.len());
            bytes[place] = value;
            if let Some(other) = Membership::read(&bytes) {
                prop_assert_eq!(&other.write(&add)[10..], &bytes[10..]);
            }
            bytes.truncate(cut.index(bytes.len()));
            let _ = Membership::read(&bytes);
        }
    }
}
