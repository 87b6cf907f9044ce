//! Records of the group's own: what whoever keeps servers together says, beside the application's.
//!
//! They have positions, terms and a place in the chain as all records. A server must know what the
//! last of them says wherever its log begins, so every snapshot's header says it again, and the
//! oldest snapshot that the log goes on behind stands for those before it. The first one begins a
//! segment of a later format: a version that knows none refuses the log instead of taking them for
//! the application's.

use crate::error::JournalError;
use crate::journal::Journal;
use crate::layout::{FORMAT_GROUP, GROUP_MAX};
use crate::snapshot::Listed;
use crate::storage::Storage;

impl<S: Storage> Journal<S> {
    /// Appends a record of the group's own, which the application's readers see as an empty one. The
    /// first begins a segment of another format, so everything before it is durable then.
    ///
    /// # Errors
    /// As [`Journal::append`], also for one that is empty or longer than [`GROUP_MAX`]; and those of
    /// [`Journal::flush`]. The record was not appended.
    pub fn append_group(&mut self, term: u64, record: &[u8]) -> Result<u64, JournalError> {
        if record.is_empty() || record.len() > GROUP_MAX {
            return Err(JournalError::TooLong(record.len()));
        }
        if self.format != FORMAT_GROUP {
            self.flush()?;
            let begun = self.begin_segment(FORMAT_GROUP);
            self.close_on(begun)?;
        }
        assert_eq!(self.format, FORMAT_GROUP, "older versions would take it for another record");
        let position = self.take(term, true, record)?;
        self.groups.push((position, record.to_vec()));
        Ok(position)
    }

    /// Contents of the last record of the group's own up to a position, durable or not; `None`:
    /// there was none. For positions before the oldest snapshot only records still in the log are
    /// known.
    pub fn group_at(&self, position: u64) -> Option<&[u8]> {
        let place = self.groups.partition_point(|(at, _)| *at <= position);
        let told = place.checked_sub(1).and_then(|place| self.groups.get(place));
        told.map(|(_, group)| group.as_slice())
    }

    /// Records of the group's own, in order, with their positions. The first may stand before the
    /// log: then its position is that of the snapshot that says what it said.
    pub fn groups(&self) -> &[(u64, Vec<u8>)] {
        &self.groups
    }
}

/// Those in a log that begins at a position, and before them what the oldest snapshot says that it
/// goes on behind.
pub(crate) fn known(
    first: u64,
    mut log: Vec<(u64, Vec<u8>)>,
    snapshots: &Listed,
) -> Vec<(u64, Vec<u8>)> {
    let mut told = snapshots.whole.iter().zip(&snapshots.groups);
    let Some((info, group)) = told.find(|(info, _)| info.position + 1 >= first) else { return log };
    let in_log = log.first().is_some_and(|(position, _)| *position <= info.position);
    if !group.is_empty() && !in_log {
        log.insert(0, (info.position, group.clone()));
    }
    log
}
