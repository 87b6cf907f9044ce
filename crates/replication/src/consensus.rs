//! The boundary to the consensus library: what a replica needs of it, in our own words.

use std::sync::Arc;

use journal::{Peer, SnapshotInfo, Vote};

use crate::{Change, DecodeError, Membership, ReplicaId};

/// A record of the log, with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its position, from 1.
    pub position: u64,
    /// The term of the leader that made it.
    pub term: u64,
    /// The record; empty for the one that a leader begins with, which is nobody's, and for those of
    /// the group's own.
    pub record: Vec<u8>,
    /// Who is in the group from here on, written down; empty unless that changes here.
    pub group: Vec<u8>,
}

/// Where a replica stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// The newest term it knows.
    pub term: u64,
    /// The leader of that term, as far as it knows.
    pub leader: Option<ReplicaId>,
    /// It is the leader.
    pub leading: bool,
}

/// A snapshot of another replica's state, whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Install {
    /// Position, length, term and digest of it.
    pub info: SnapshotInfo,
    /// Who was in the group there, written down; empty for the founders.
    pub group: Vec<u8>,
    /// Its bytes, whose digest fits.
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
    /// Everything after this position is taken back first.
    pub kept: Option<u64>,
    /// Records to be appended, in order.
    pub entries: Vec<Entry>,
    /// Everything up to here is committed.
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
        Ok(())
    }
}

/// Records that have to be read from the journal for a replica that lags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// Names the request.
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
    /// To be given to [`Consensus::written`]; dense.
    pub number: u64,
    /// Messages that may leave at once.
    pub sends: Vec<(ReplicaId, Vec<u8>)>,
    /// What has to be durable.
    pub write: Option<Write>,
    /// Messages that may leave when it is.
    pub after: Vec<(ReplicaId, Vec<u8>)>,
    /// A snapshot that is durable here now: the state is to be made of it.
    pub restore: Option<Install>,
    /// What is committed, and durable here.
    pub committed: Vec<Entry>,
    /// What has to be read.
    pub fetch: Vec<Fetch>,
    /// Who lacks what this leader's log does not hold any more.
    pub behind: Vec<ReplicaId>,
}

/// Why a message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It can't be read.
    Decode(DecodeError),
    /// A leader knows more of this replica's log than there is: the disk has lost it.
    LogLost {
        /// What the leader believes to be here.
        told: u64,
        /// What is.
        last: u64,
    },
    /// A leader has another record where this replica holds one that was committed: somebody made it
    /// the leader who could not know that.
    Overruled {
        /// The first such position.
        position: u64,
    },
}

/// A consensus library, sans I/O.
pub trait Consensus {
    /// A tick has passed.
    fn tick(&mut self);
    /// A message came in.
    ///
    /// # Errors
    /// [`Refused`], with nothing changed.
    fn receive(&mut self, from: ReplicaId, message: &[u8]) -> Result<(), Refused>;
    /// Takes records to be replicated, all or none; false when it leads nobody or too much is
    /// uncommitted.
    fn propose(&mut self, records: Vec<Vec<u8>>) -> bool;
    /// The next work, if there is any.
    fn work(&mut self) -> Option<Work>;
    /// All work up to a number is durable.
    fn written(&mut self, number: u64);
    /// What was to be read; without entries when that failed.
    fn fetched(&mut self, number: u64, entries: Vec<Entry>);
    /// The log here begins behind this position, of this term.
    fn begins_behind(&mut self, position: u64, term: u64);
    /// Whether a snapshot stands for nothing but what this log holds.
    fn holds(&self, info: &SnapshotInfo) -> bool;
    /// Whether a snapshot is on its way to the disk, or to the state.
    fn is_installing(&self) -> bool;
    /// A snapshot that the leader has: whole, or without its bytes when this log
    /// [holds](Consensus::holds) that. Either way the leader will hear how far this replica is.
    /// False when nobody leads this replica, and nothing came of it.
    fn install(&mut self, info: &SnapshotInfo, whole: Option<Install>) -> bool;
    /// Where it stands.
    fn standing(&self) -> Standing;
    /// Whether a leader that has applied everything up to a position has applied all that was
    /// committed before its time: an entry of its own term is among it.
    fn may_serve(&self, applied: u64) -> bool;
    /// Everything up to here is committed.
    fn committed(&self) -> u64;
    /// The last position that is appended here, durable or not.
    fn last(&self) -> u64;
    /// The position before the first that its log holds.
    fn before(&self) -> u64;
    /// It elects nobody before it has a record of a later term than this; 0: it does.
    fn doubt(&self) -> u64;
    /// The only one that it may elect meanwhile, by an operator's word.
    fn sponsor(&self) -> Option<ReplicaId>;
    /// It may have promised anything in terms up to this one, and goes on in the next: it elects
    /// nobody before it has a record of a later one.
    fn doubt_from(&mut self, term: u64);
    /// Asks for votes at once: for tests and for handing over.
    fn campaign(&mut self);
    /// Who is in the group, as far as it is applied here.
    fn membership(&self) -> &Membership;
    /// Who was in the group at a position that is applied, written down; empty for the founders.
    fn group_at(&self, position: u64) -> &[u8];
    /// Whether a change may be on its way that is not applied here.
    fn is_changing(&self) -> bool;
    /// Takes a change of who is in the group to be replicated, and says at which position; nothing
    /// when it leads nobody or too much is uncommitted.
    fn change(&mut self, change: &Change, next: &Membership) -> Option<u64>;
    /// How far the leader knows the log of another one to be like its own, durably.
    fn matched(&self, id: ReplicaId) -> Option<u64>;
    /// Takes a record of nobody's to be replicated, and says at which position: with it goes what is
    /// committed by now. Nothing when it leads nobody or too much is uncommitted.
    fn confirm(&mut self) -> Option<u64>;
    /// Lets another one lead, as soon as that has what this leader has; for an election timeout
    /// nothing is taken.
    fn hand_over(&mut self, to: ReplicaId);
}
