//! Compares the state digests of the replicas at equal positions, and finds one that differs from
//! the majority.

use std::collections::BTreeMap;

use crate::{Membership, ReplicaId};

/// Most positions whose digests are kept.
const POSITIONS_MAX: usize = 64;

/// State digests of the replicas, for comparison.
#[derive(Clone, Default, Debug)]
pub(crate) struct Digests {
    /// Digest of each replica, by position.
    known: BTreeMap<u64, BTreeMap<ReplicaId, u64>>,
    compared: u64,
}

/// A replica whose state differs from that of the majority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Divergence {
    pub(crate) who: ReplicaId,
    pub(crate) position: u64,
}

impl Digests {
    /// Takes the digest of a replica. Returns the replica that differs once a majority of the
    /// voters agree on another digest for the position.
    pub(crate) fn take(
        &mut self,
        who: ReplicaId,
        position: u64,
        digest: u64,
        members: &Membership,
    ) -> Vec<Divergence> {
        let told = self.known.entry(position).or_default();
        if told.insert(who, digest) == Some(digest) {
            return Vec::new();
        }
        let agree = |digest: u64| {
            told.iter().filter(|(who, known)| **known == digest && members.votes(**who)).count()
        };
        let most = told.values().copied().find(|digest| agree(*digest) >= members.quorum());
        let odd = |most: u64| {
            let differs = told.iter().filter(move |(_, digest)| **digest != most);
            differs.map(|(who, _)| Divergence { who: *who, position }).collect()
        };
        let found: Vec<Divergence> = most.map(odd).unwrap_or_default();
        self.compared += u64::from(most.is_some());
        while self.known.len() > POSITIONS_MAX {
            // The oldest goes: whoever is so far behind compares the next ones.
            self.known.pop_first();
        }
        found
    }

    /// Number of positions at which a majority agreed.
    pub(crate) fn compared(&self) -> u64 {
        self.compared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn founders() -> Membership {
        Membership::founders(&Config { learners: 1, ..Config::new(1, ReplicaId(1), 3) })
    }

    #[test]
    fn who_differs_from_most_is_named_whoever_is_heard_first() {
        let (one, two, three) = (ReplicaId(1), ReplicaId(2), ReplicaId(3));
        let odd = vec![Divergence { who: two, position: 8 }];
        let mut digests = Digests::default();
        assert!(digests.take(two, 8, 5, &founders()).is_empty());
        assert!(digests.take(one, 8, 7, &founders()).is_empty(), "one against one says nothing");
        assert_eq!(digests.take(three, 8, 7, &founders()), odd);
        let mut digests = Digests::default();
        assert!(digests.take(one, 8, 7, &founders()).is_empty());
        assert!(digests.take(three, 8, 7, &founders()).is_empty());
        assert_eq!(digests.take(two, 8, 5, &founders()), odd);
        assert!(digests.take(two, 16, 5, &founders()).is_empty());
        assert!(digests.compared() > 0);
    }

    #[test]
    fn whoever_only_listens_is_compared_and_not_counted() {
        let (one, four) = (ReplicaId(1), ReplicaId(4));
        let mut digests = Digests::default();
        assert!(digests.take(four, 8, 5, &founders()).is_empty());
        assert!(digests.take(one, 8, 5, &founders()).is_empty());
        assert!(
            digests.take(ReplicaId(2), 8, 7, &founders()).is_empty(),
            "one and a listener are not most"
        );
        assert_eq!(digests.take(ReplicaId(3), 8, 7, &founders()).len(), 2);
    }

    #[test]
    fn memory_is_bounded() {
        let mut digests = Digests::default();
        for position in 0..10_000 {
            digests.take(ReplicaId(1), position, 1, &founders());
        }
        assert!(digests.known.len() <= POSITIONS_MAX);
    }
}
