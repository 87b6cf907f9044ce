//! What passes between a replica and its consensus: records, what has to be written, one step's work.

use std::sync::Arc;

use journal::{Peer, SnapshotInfo, TERMS_UNHEARD, Vote};
use raft::eraftpb::EntryData;

use crate::{DecodeError, ReplicaId};

/// Terms that replicas tell are below this: whoever hears of a later one is told a lie, and terms
/// still grow.
pub(crate) const TERM_MAX: u64 = 1 << 62;
/// Positions of snapshots that replicas offer are below this: no journal has more.
pub(crate) const POSITION_MAX: u64 = 1 << 61;

const _: () = assert!(TERM_MAX < u64::MAX - TERMS_UNHEARD, "a term behind all that were told");

/// A record of the log, with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Position of the entry, from 1.
    pub position: u64,
    /// The term of the leader that made it.
    pub term: u64,
    /// The record; empty for the one that a leader begins with, which is nobody's, and for those of
    /// the group's own.
    pub record: EntryData,
    /// Who is in the group from here on, written down; empty unless that changes here.
    pub group: Vec<u8>,
}

/// State of a replica in its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// The newest term it knows.
    pub term: u64,
    /// The leader of that term, as far as it knows.
    pub leader: Option<ReplicaId>,
    /// Whether it is the leader.
    pub leading: bool,
}

/// A snapshot of another replica's state, whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Install {
    /// Position, length, term and digest of it.
    pub info: SnapshotInfo,
    /// Who was in the group there, written down; empty for the founders.
    pub group: Vec<u8>,
    /// Bytes of the snapshot, whose digest was checked.
    pub bytes: Arc<Vec<u8>>,
}

/// What has to be durable, in this order: what is known of the disk and of others, term and vote, a
/// snapshot in the place of the log, what is taken back, records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Write {
    /// Term and vote, when they changed.
    pub vote: Option<Vote>,
    /// It stands for everything up to its position, and the log begins behind it.
    pub install: Option<Box<Install>>,
    /// Last position to keep; entries after it are removed first.
    pub kept: Option<u64>,
    /// Records to be appended, in order.
    pub entries: Vec<Entry>,
    /// Last position that is committed.
    pub committed: u64,
    /// The folder is an older copy of itself.
    pub set_back: bool,
    /// The replica may have promised anything in terms up to this one, and its folder is no copy any
    /// more.
    pub doubt: Option<u64>,
    /// What is known of the others, when that is to be written down.
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

/// Records that have to be read from the journal for a replica that lags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// Number of the request.
    pub number: u64,
    /// First position.
    pub from: u64,
    /// Last position; fewer may be given.
    pub to: u64,
    /// About how many bytes are wanted at most; at least one record.
    pub bytes: u64,
}

/// One step's work, in the order of the fields.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Work {
    /// To be given to `RaftGroup::written`; dense.
    pub number: u64,
    /// Messages that may leave at once.
    pub sends: Vec<(ReplicaId, Vec<u8>)>,
    /// Entries that have to be made durable.
    pub write: Option<Write>,
    /// Messages that may leave when it is.
    pub after: Vec<(ReplicaId, Vec<u8>)>,
    /// A snapshot that is durable here now: the state is to be made of it.
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
    /// The message can't be decoded.
    Decode(DecodeError),
    /// A leader knows more of this replica's log than there is: the disk has lost it.
    LogLost {
        /// Last position that the leader believes to be here.
        told: u64,
        /// Last position that is here.
        last: u64,
    },
    /// A leader has another record where this replica holds one that was committed: somebody made it
    /// the leader who could not know that.
    Overruled {
        /// First such position.
        position: u64,
    },
}
