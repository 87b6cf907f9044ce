//! Errors of a journal, with what an operator can do about each.

use std::fmt;

use crate::layout::segment_name;
use crate::register::VOTE;
use crate::storage::{DiskError, DiskErrorKind};

/// Kind of damage at an offset of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The bytes do not begin a frame.
    NoFrame,
    /// A frame begins here, but its checksum does not match.
    Checksum,
    /// A whole frame, but not the one that has to follow the frame before.
    Order,
    /// A whole frame whose records cannot be decoded.
    Records,
    /// The header of the segment is damaged.
    Header,
    /// The file of the segment is missing.
    Missing,
    /// Earlier files are missing, and no snapshot stands for them.
    Before,
    /// The file ends where a frame was expected.
    Ended,
    /// Bytes that were never written are not zero.
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
    /// The disk reported an error; the journal has to be opened again.
    Disk(DiskError),
    /// No room for another segment. Nothing was lost, and [`crate::Journal::flush`] may be tried
    /// again once there is.
    Full(DiskError),
    /// The committed part of the log is damaged.
    Corrupt {
        /// Number of the damaged segment.
        segment: u64,
        /// Offset of the damage in the segment, bytes.
        offset: u64,
        /// What is damaged.
        damage: Damage,
        /// First position that cannot be read.
        position: u64,
        /// Last position that was known to be committed.
        committed: u64,
    },
    /// The file of the watermark or of the vote has no readable copy; which of them.
    Register(&'static str),
    /// The snapshot for this position is damaged.
    Snapshot(u64),
    /// A file has a format version that cannot be read: its name and the version.
    Format(String, u32),
    /// The files are another journal's, or their records are of another kind; which of the two.
    Foreign(&'static str),
    /// The folder is that of another server of the group.
    Server {
        /// Whose it is.
        of: u64,
        /// Who opens it.
        server: u64,
    },
    /// The journal's server was never in a group, so no other server has what it lacks.
    NoGroup,
    /// The batch is full; it has to be flushed first.
    BatchFull,
    /// The record is longer than a batch may be; its length, bytes.
    TooLong(usize),
    /// The request is impossible for this position: it is not there, or it is committed.
    Position(u64),
    /// The settings make no journal ([`crate::Config::is_sound`]).
    Config,
    /// An earlier error has closed the journal; it has to be opened again.
    Closed,
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::Disk(error) => write!(f, "{error}"),
            JournalError::Full(error) => {
                write!(f, "{error}; make room on the disk, but not in the journal's folder")
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
            JournalError::Server { of, server } => write!(
                f,
                "it is the folder of number {of} of the group, with its votes, and this is number \
                 {server}: name each its own folder"
            ),
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
