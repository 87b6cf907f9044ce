//! Errors of a journal.

use std::fmt;

use crate::layout::segment_name;
use crate::register::VOTE;
use crate::storage::{DiskError, DiskErrorKind};

/// Kind of damage at a place in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// No frame begins there.
    NoFrame,
    /// A frame begins there and its checksum does not fit.
    Checksum,
    /// A whole frame, but not the one that follows the one before.
    Order,
    /// A frame whose records make no sense.
    Records,
    /// The header of the segment is damaged.
    Header,
    /// The segment's file is not there.
    Missing,
    /// Files before the segment's are not there, and no snapshot stands for them.
    Before,
    /// The segment ends where a frame was expected.
    Ended,
    /// Bytes that nothing was ever written to are not zero.
    Unused,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Damage::NoFrame => "there is no frame",
            Damage::Checksum => "the frame's checksum does not fit",
            Damage::Order => "the frame does not follow the one before",
            Damage::Records => "the frame's records make no sense",
            Damage::Header => "the segment's header is damaged",
            Damage::Missing => "the file is missing",
            Damage::Before => {
                "the files before it are missing, and no snapshot that is whole stands for them"
            }
            Damage::Ended => "nothing follows there: it was lost, or the file after it is missing",
            Damage::Unused => "bytes that were never written are not zero",
        })
    }
}

/// Why a journal refuses; what it says names the place and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JournalError {
    /// The disk. The journal has to be opened again.
    Disk(DiskError),
    /// No room for another segment. Nothing was lost, and [`crate::Journal::flush`] may be tried
    /// again once there is.
    Full(DiskError),
    /// The committed part is damaged.
    Corrupt {
        /// Number of the segment.
        segment: u64,
        /// Offset in it, bytes.
        offset: u64,
        /// Kind of the damage.
        damage: Damage,
        /// First position that can't be read.
        position: u64,
        /// Last position that was known to be committed.
        committed: u64,
    },
    /// The file of the watermark or of the vote has no readable copy.
    Register(&'static str),
    /// The snapshot for this position is damaged.
    Snapshot(u64),
    /// A file of another format version; its name, and the version.
    Format(String, u32),
    /// It belongs to another journal, or its records are of another kind.
    Foreign(&'static str),
    /// Its server has never been one of a group: nobody else has what it lacks.
    NoGroup,
    /// A batch is full: flush first.
    BatchFull,
    /// The record is longer than a batch may be.
    TooLong(usize),
    /// What was asked for can't be: the position is not there, or is committed.
    Position(u64),
    /// The configuration makes no journal.
    Config,
    /// An error came before; the journal has to be opened again.
    Closed,
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::Disk(error) => write!(f, "{error}"),
            JournalError::Full(error) => {
                write!(f, "{error}; make room (older segments, snapshots) and try again")
            }
            JournalError::Corrupt { segment, offset, damage, position, committed } => write!(
                f,
                "{}, offset {offset}: {damage}, at position {position} of {committed} committed \
                 ones; this is no torn write: nothing was changed, put this folder aside and go on \
                 from a follower's copy of the journal or from a backup",
                segment_name(*segment)
            ),
            JournalError::Register(name) if *name == VOTE => write!(
                f,
                "no copy of the file {name:?} can be read: what its server has promised is not \
                 known; nothing was changed, and one of a group must never take part again under \
                 its number"
            ),
            JournalError::Register(name) => write!(
                f,
                "no copy of the file {name:?} can be read; nothing was changed, put this folder \
                 aside and go on from a follower's copy of the journal"
            ),
            JournalError::Snapshot(position) => {
                write!(f, "the snapshot at position {position} is damaged; use an older one")
            }
            JournalError::Format(name, format) => {
                write!(f, "{name}: format {format} is not known to this version")
            }
            JournalError::Foreign(what) => write!(f, "not this journal: its {what} is another"),
            JournalError::NoGroup => f.write_str(
                "its server has never been one of a group: nobody else has this log, go on from a \
                 backup",
            ),
            JournalError::BatchFull => f.write_str("the batch is full: flush first"),
            JournalError::TooLong(bytes) => write!(f, "a record of {bytes} bytes is too long"),
            JournalError::Position(at) => write!(f, "position {at} can't be used for that"),
            JournalError::Config => f.write_str("the configuration makes no journal"),
            JournalError::Closed => {
                f.write_str("an error came before: the journal has to be opened again")
            }
        }
    }
}

impl std::error::Error for JournalError {}

impl From<DiskError> for JournalError {
    fn from(error: DiskError) -> JournalError {
        JournalError::Disk(error)
    }
}

impl JournalError {
    /// Whether it is a lack of room, after which the journal goes on.
    pub(crate) fn full(error: DiskError) -> JournalError {
        match error.kind {
            DiskErrorKind::Full | DiskErrorKind::Quota | DiskErrorKind::Limit => {
                JournalError::Full(error)
            }
            _ => JournalError::Disk(error),
        }
    }
}
