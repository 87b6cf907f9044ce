//! Settings of a replica.

use types::Nanos;

use crate::members::VOTERS_MAX;
use crate::wire::{OLDEST, PART_MAX, VERSION};

const _: () = assert!(VOTERS_MAX == 9, "the bound that `Config::check` has for those that vote");
const _: () = assert!(OLDEST < VERSION && PART_MAX <= u32::MAX as usize);

/// A replica's number in its group, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReplicaId(pub u8);

impl std::fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "replica {}", self.0)
    }
}

/// What a replica is told when it starts; all but `id` are equal in a group.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the group: messages of another are refused.
    pub group: u64,
    /// Number of this replica in its group, from 1.
    pub id: ReplicaId,
    /// How many there were when the group was made, numbered from 1: an odd number up to 9. Who is in
    /// it since then the log says ([`crate::Membership`]); one with a later number waits until it says
    /// so of it.
    pub replicas: u8,
    /// Followers that nobody waits for and that elect nobody, numbered after the replicas: copies
    /// elsewhere, a moment behind; those there were when the group was made.
    pub learners: u8,
    /// Seed of the random election timeouts.
    pub seed: u64,
    /// Names this start of it: a number that no other start has, so that answers to its questions are
    /// told from those to an earlier start's.
    pub start: u64,
    /// Length of a tick, ns; larger than 0.
    pub tick_ns: u64,
    /// A leader is heard of every so many ticks.
    pub heartbeat_ticks: u32,
    /// Without having heard of one for once to twice so many ticks, a replica asks for votes.
    pub election_ticks: u32,
    /// Most bytes of records in one message.
    pub message_bytes: u64,
    /// Messages with records on their way to one replica.
    pub in_flight: u32,
    /// Most bytes of records that a leader has and most have not.
    pub uncommitted_bytes: u64,
    /// Applied records that are kept in memory for those who lag; earlier ones are read from the
    /// journal.
    pub window: u64,
    /// Most bytes of a snapshot in one message, at most [`crate::PART_MAX`].
    pub part_bytes: u32,
    /// Longest snapshot that is taken from others, bytes: it is collected in memory.
    pub snapshot_bytes: u64,
    /// Ticks of silence after which a snapshot is no longer sent to a replica.
    pub sending_ticks: u32,
    /// The digest is told at positions that are a multiple of this; 0 for never.
    pub digest_every: u64,
    /// The newest version of the messages that it speaks, [`crate::OLDEST`] to [`crate::VERSION`].
    pub newest: u8,
}

/// Why a configuration makes no replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// An odd number from 1 to 9 of replicas and at most 9 learners, numbered from 1.
    Replicas,
    /// Ticks are longer than nothing, and elections take longer than heartbeats.
    Ticks,
    /// Bounds of bytes contradict each other: a message has to fit the uncommitted records, both
    /// have to be above 0, and a snapshot's part has to be above 0 and at most the longest
    /// snapshot.
    Bytes,
    /// A version of the messages that is not spoken.
    Version,
    /// The recovered parts contradict each other.
    Recovered,
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ConfigError::Replicas => {
                "a group has 1, 3, 5, 7 or 9 replicas, and at most 9 learners, numbered from 1"
            }
            ConfigError::Ticks => "an election takes more ticks than a heartbeat, each some time",
            ConfigError::Bytes => {
                "message bytes, uncommitted bytes, messages in flight, parts of snapshots"
            }
            ConfigError::Version => "a version of the messages that is spoken here",
            ConfigError::Recovered => "the log does not fit its commit watermark",
        })
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// The usual one: ticks of 10 ms, a heartbeat every two, elections after 100 to 200 ms.
    pub fn new(group: u64, id: ReplicaId, replicas: u8) -> Config {
        Config {
            group,
            id,
            replicas,
            learners: 0,
            seed: group,
            start: 0,
            tick_ns: 10_000_000,
            heartbeat_ticks: 2,
            election_ticks: 10,
            message_bytes: 256 << 10,
            in_flight: 64,
            uncommitted_bytes: 8 << 20,
            window: 16_384,
            part_bytes: 256 << 10,
            snapshot_bytes: 1 << 30,
            sending_ticks: 300,
            digest_every: 1_024,
            newest: VERSION,
        }
    }

    /// Whether a replica can be made of it.
    ///
    /// # Errors
    /// Whether the values can be used together.
    pub fn check(&self) -> Result<(), ConfigError> {
        let odd = self.replicas % 2 == 1 && self.replicas <= 9;
        if !odd || self.learners > 9 || self.id.0 == 0 {
            return Err(ConfigError::Replicas);
        }
        let Config { tick_ns, heartbeat_ticks, election_ticks, .. } = *self;
        if tick_ns == 0 || heartbeat_ticks == 0 || election_ticks <= heartbeat_ticks {
            return Err(ConfigError::Ticks);
        }
        let none = self.message_bytes == 0 || self.in_flight == 0;
        let parts = (1..=PART_MAX).contains(&(self.part_bytes as usize));
        if none || !parts || self.uncommitted_bytes < self.message_bytes {
            return Err(ConfigError::Bytes);
        }
        if !(OLDEST..=VERSION).contains(&self.newest) {
            return Err(ConfigError::Version);
        }
        Ok(())
    }

    /// Replicas and learners, when the group was made.
    pub fn founders(&self) -> u8 {
        self.replicas.saturating_add(self.learners)
    }

    /// All other replicas the group was made with.
    pub fn peers(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        let own = self.id;
        (1..=self.founders()).map(ReplicaId).filter(move |id| *id != own)
    }

    /// Majority of the voters with which the group was made.
    pub fn quorum(&self) -> usize {
        usize::from(self.replicas) / 2 + 1
    }

    /// Time of the tick after `now`.
    pub(crate) fn tick_after(&self, now: Nanos) -> Nanos {
        Nanos(now.0.saturating_add(self.tick_ns))
    }
}
