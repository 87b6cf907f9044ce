//! Which version of the messages every replica speaks: a group is upgraded, and taken back, one
//! replica at a time.
//!
//! To each other replica the newest version goes that both speak; the oldest one while it is not
//! known. Replicas say what they speak every so many ticks ([`crate::wire::Body::Hello`]). Versions
//! before that message say so by what they send: whoever sends an older version than it was sent has
//! been put back to that, or does not know yet, and then hears it with the next greeting. What is
//! known of a replica that says nothing for a while is forgotten: it may have been put back, and
//! wait for a message that it can read.

use std::collections::BTreeMap;

use crate::ReplicaId;
use crate::wire::{OLDEST, Spoken};

/// Heartbeats from one greeting to the next.
const HEARTBEATS: u32 = 10;
/// Intervals between greetings after which a silent replica's version is forgotten.
const PATIENCE: u32 = 3;

/// Versions that other replicas speak, and when they are greeted next.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    newest: u8,
    /// Newest version that each replica speaks, and the tick at which it was last heard.
    heard: BTreeMap<ReplicaId, (u8, u64)>,
    /// Ticks from one greeting to the next.
    every: u64,
    ticks: u64,
}

impl Versions {
    /// Versions of a replica that speaks up to version `newest`.
    pub(crate) fn new(newest: u8, heartbeat_ticks: u32) -> Versions {
        let every = u64::from(heartbeat_ticks.saturating_mul(HEARTBEATS).max(1));
        Versions { newest, heard: BTreeMap::new(), every, ticks: 0 }
    }

    /// Lowest and highest version that this replica speaks.
    pub(crate) fn own(&self) -> Spoken {
        Spoken { oldest: OLDEST, newest: self.newest }
    }

    /// Version in which messages to a replica are encoded.
    pub(crate) fn with(&self, to: ReplicaId) -> u8 {
        self.heard.get(&to).map_or(OLDEST, |(newest, _)| self.newest.min(*newest))
    }

    /// Notes that a message of this version came from a replica.
    pub(crate) fn heard(&mut self, from: ReplicaId, version: u8) {
        let (newest, last) = self.heard.entry(from).or_insert((version, 0));
        if version != self.newest.min(*newest) {
            *newest = version;
        }
        *last = self.ticks;
    }

    /// Notes what versions a replica says to speak.
    pub(crate) fn told(&mut self, from: ReplicaId, spoken: Spoken) {
        self.heard.insert(from, (spoken.newest, self.ticks));
    }

    /// Number of ticks since the start.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Whether anything came from a replica during the last so many ticks.
    pub(crate) fn heard_within(&self, id: ReplicaId, ticks: u32) -> bool {
        self.heard.get(&id).is_some_and(|(_, last)| self.ticks - *last < u64::from(ticks))
    }

    /// Whether the others are to be greeted at this tick.
    pub(crate) fn tick(&mut self) -> bool {
        let now = self.ticks;
        self.ticks += 1;
        let patience = self.every * u64::from(PATIENCE);
        self.heard.retain(|_, (_, last)| now - *last <= patience);
        // Not in step with heartbeats: their answers, still in the older version, would follow every
        // greeting and take it back.
        now.is_multiple_of(self.every + 1) && self.newest > OLDEST
    }

    /// The newest version that this replica and all of these speak of which anything was heard
    /// lately; the oldest while that is fewer than `quorum` with itself.
    pub(crate) fn agreed(&self, others: impl Iterator<Item = ReplicaId>, quorum: usize) -> u8 {
        let known = others.filter_map(|other| self.heard.get(&other));
        let (count, newest) =
            known.fold((1, self.newest), |(count, least), (of, _)| (count + 1, least.min(*of)));
        if count >= quorum { newest } else { OLDEST.min(newest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::VERSION;

    const ONE: ReplicaId = ReplicaId(1);
    const TWO: ReplicaId = ReplicaId(2);

    fn agreed(versions: &Versions) -> u8 {
        versions.agreed([ONE, TWO].into_iter(), 2)
    }

    fn speaks(newest: u8) -> Spoken {
        Spoken { oldest: OLDEST, newest }
    }

    #[test]
    fn the_oldest_is_spoken_until_others_are_known() {
        let mut versions = Versions::new(VERSION, 2);
        assert_eq!((versions.with(ONE), agreed(&versions)), (OLDEST, OLDEST));
        versions.heard(ONE, OLDEST);
        assert_eq!((versions.with(ONE), agreed(&versions)), (OLDEST, OLDEST));
        versions.told(ONE, speaks(VERSION + 4));
        assert_eq!(versions.with(ONE), VERSION, "no newer one than its own");
        assert_eq!(agreed(&versions), VERSION, "the other one is away");
        versions.heard(TWO, OLDEST);
        assert_eq!(agreed(&versions), OLDEST);
        versions.told(TWO, speaks(VERSION));
        assert_eq!(agreed(&versions), VERSION);
    }

    #[test]
    fn who_is_put_back_is_spoken_to_in_its_version_and_followed_when_it_rises() {
        let mut versions = Versions::new(VERSION, 2);
        for one in [ONE, TWO] {
            versions.told(one, speaks(VERSION + 1));
            versions.heard(one, VERSION);
        }
        assert_eq!(agreed(&versions), VERSION, "a message of the common one changes nothing");
        versions.heard(TWO, OLDEST);
        assert_eq!((versions.with(TWO), agreed(&versions)), (OLDEST, OLDEST));
        assert_eq!(versions.with(ONE), VERSION);
        versions.heard(TWO, VERSION);
        assert_eq!(agreed(&versions), VERSION);
    }

    #[test]
    fn whoever_says_nothing_is_sent_the_oldest_again() {
        let mut versions = Versions::new(VERSION, 2);
        versions.told(ONE, speaks(VERSION));
        for _ in 0..61 {
            assert_eq!(versions.with(ONE), VERSION);
            versions.heard(TWO, OLDEST);
            versions.tick();
        }
        versions.tick();
        assert_eq!((versions.with(ONE), versions.with(TWO)), (OLDEST, OLDEST));
        versions.told(ONE, speaks(VERSION));
        assert_eq!(versions.with(ONE), VERSION);
    }

    #[test]
    fn others_are_greeted_at_first_and_from_time_to_time() {
        let greeted = |newest: u8| {
            let mut versions = Versions::new(newest, 2);
            (0..100).filter(|_| versions.tick()).collect::<Vec<u32>>()
        };
        assert_eq!(greeted(VERSION), [0, 21, 42, 63, 84], "not with every heartbeat");
        assert_eq!(greeted(OLDEST), [0; 0], "the oldest version has no greeting");
    }
}
