//! The types that pass between a replica and its consensus: records, writes, and the work of one
//! step.

use std::sync::Arc;

use journal::{Peer, SnapshotInfo, TERMS_UNHEARD, Vote};
use raft::eraftpb::EntryData;

use crate::{DecodeError, ReplicaId};

/// Bound of the terms that are believed: a message with this term or a later one is refused, so
/// that terms can still grow.
pub(crate) const TERM_MAX: u64 = 1 << 62;
/// Bound of the positions of snapshots that other replicas offer.
pub(crate) const POSITION_MAX: u64 = 1 << 61;

const _: () = assert!(TERM_MAX < u64::MAX - TERMS_UNHEARD, "a term behind all that were told");

/// A record of the log with its position and term.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Position of the entry, from 1.
    pub position: u64,
    /// Term of the leader that made the record.
    pub term: u64,
    /// Contents of the application's record; empty for the record with which a leader begins, and
    /// for the group's own.
    pub record: EntryData,
    /// Membership of the group from here on, encoded; empty unless the entry changes it.
    pub group: Vec<u8>,
}

/// What a replica knows of its place in the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// Newest term that the replica knows.
    pub term: u64,
    /// Leader of that term; `None`: not known.
    pub leader: Option<ReplicaId>,
    /// Whether the replica is the leader of that term.
    pub leading: bool,
}

/// A complete snapshot of another replica's state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Install {
    /// Position, length, term and digest of the snapshot.
    pub info: SnapshotInfo,
    /// Membership of the group at the snapshot's position, encoded; empty for the founders.
    pub group: Vec<u8>,
    /// Bytes of the snapshot, whose digest was checked.
    pub bytes: Arc<Vec<u8>>,
}

/// What has to be durable, in this order: what is known of the disk and of others, term and vote, a
/// snapshot in the place of the log, what is taken back, records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Write {
    /// Term and vote, when they have changed.
    pub vote: Option<Vote>,
    /// A snapshot that replaces everything up to its position; the log begins behind it.
    pub install: Option<Box<Install>>,
    /// Last position to keep; entries after it are removed first.
    pub kept: Option<u64>,
    /// Records to be appended, in order.
    pub entries: Vec<Entry>,
    /// Last position that is known to be committed.
    pub committed: u64,
    /// Whether the folder was found to be an older copy of itself.
    pub set_back: bool,
    /// The replica may have promised anything in terms up to this one, and its folder is no copy any
    /// more.
    pub doubt: Option<u64>,
    /// Promises of other replicas, when they are to be recorded.
    pub peers: Option<Vec<Peer>>,
}

impl Write {
    /// Takes the next write in, so that both take one sync; gives it back when it can't be.
    ///
    /// # Errors
    /// The next write, when it has to be done by itself.
    #[expect(clippy::result_large_err, reason = "it is given back as it came, without allocating")]
    pub fn join(&mut self, next: Write) -> Result<(), Write> {
        let follows = self.entries.last().zip(next.entries.first());
        let follows = follows.is_some_and(|(last, first)| last.position + 1 == first.position);
        let apart = next.set_back || next.doubt.is_some() || next.peers.is_some();
        let apart = apart || next.vote.is_some() || next.install.is_some() || next.kept.is_some();
        if apart || !follows {
            return Err(next);
        }
        self.entries.extend(next.entries);
        self.committed = self.committed.max(next.committed);
        assert!(self.is_in_order(), "two writes that follow each other are one");
        Ok(())
    }
}

/// A read of the journal, for a replica that lags behind the records in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// Number of the request, which comes back with the answer.
    pub number: u64,
    /// Position of the first record wanted.
    pub from: u64,
    /// Position of the last record wanted; the answer may hold fewer.
    pub to: u64,
    /// Approximate number of bytes wanted at most; at least one record is given.
    pub bytes: u64,
}

/// The work of one step, to be done in the order of the fields.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Work {
    /// Number of the work, dense; to be given to `RaftGroup::written`.
    pub number: u64,
    /// Messages that may leave at once, each with its recipient.
    pub sends: Vec<(ReplicaId, Vec<u8>)>,
    /// Entries that have to be made durable.
    pub write: Option<Write>,
    /// Messages that may leave once `write` is durable, each with its recipient.
    pub after: Vec<(ReplicaId, Vec<u8>)>,
    /// A snapshot that is durable here now, and from which the state has to be made.
    pub restore: Option<Install>,
    /// Entries that are committed, and durable here.
    pub committed: Vec<Entry>,
    /// Entries that have to be read from the journal.
    pub fetch: Vec<Fetch>,
    /// Replicas that need entries which this leader's log no longer holds.
    pub behind: Vec<ReplicaId>,
}

/// Why a message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The bytes cannot be decoded as a message.
    Decode(DecodeError),
    /// The leader knows more of this replica's log than is here: the disk has lost records.
    LogLost {
        /// Last position that the leader believes this replica to have.
        told: u64,
        /// Last position of this replica's log.
        last: u64,
    },
    /// The leader has another record at a position where this replica holds a committed one: an
    /// operator has made a replica the leader that lacks that record.
    Overruled {
        /// First position at which the records differ.
        position: u64,
    },
}
