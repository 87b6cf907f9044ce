//! A snapshot from elsewhere in the place of a log that reaches it no more, and what goes afterwards.
//!
//! [`Journal::install`] writes the snapshot as `inst-<position>`, then makes the next segment, whose
//! header says that it begins behind it. The segment's name is the moment: before it the old log
//! counts and the snapshot is nothing, after it the other way round. Then the snapshot gets its own
//! name, and what it stands for goes. A start ([`settle`]) finishes whatever a crash interrupted.

use crate::error::JournalError;
use crate::journal::Journal;
use crate::layout::{FORMAT_GROUP, GROUP_MAX, NUMBER_MAX, SegmentHeader, number_of, segment_name};
use crate::recover::{Segment, Survey, Truncation, forget_before};
use crate::snapshot::{self, Place, name_of, waiting};
use crate::storage::{DiskError, Storage};
use crate::waypoints::Waypoints;

/// A snapshot of the same log that another server took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Installed<'a> {
    /// Position up to which the snapshot stands for the records.
    pub position: u64,
    /// Term of the record at that position.
    pub term: u64,
    /// Value of the checksum chain after the snapshot's position.
    pub chain: u64,
    /// Contents of the last record of the group's own up to that position; empty: there is none.
    pub group: &'a [u8],
    /// Contents of the snapshot, as the application made them.
    pub bytes: &'a [u8],
}

/// Finishes an installation that a crash interrupted, or takes it back.
pub(crate) fn settle(storage: &mut impl Storage, found: &Survey) -> Result<(), DiskError> {
    let first = found.segments.first().map(|segment| segment.header);
    let stands = first.filter(|header| header.installed).map(|header| header.first_position - 1);
    let mut changed = false;
    for name in storage.names()? {
        let below = |position: u64| stands.is_some_and(|stands| position < stands);
        let old = number_of(&name, "snap-").is_some_and(below)
            || number_of(&name, "log-").is_some_and(|number| found.left_over.contains(&number));
        match number_of(&name, "inst-") {
            Some(position) if stands == Some(position) => {
                storage.rename(&name, &name_of(position))?;
            }
            Some(_) => storage.remove(&name)?,
            None if old => storage.remove(&name)?,
            None => continue,
        }
        changed = true;
    }
    if changed { storage.sync_names() } else { Ok(()) }
}

impl<S: Storage> Journal<S> {
    /// Puts a snapshot that was taken elsewhere in the place of all records up to its position. A
    /// log that holds that record goes on behind it; another one is given up whole, and the next
    /// record gets the position after the snapshot's. Durable on return, with everything up to there
    /// committed; a crash leaves either what was there before or this.
    ///
    /// # Errors
    /// [`JournalError::Position`] for a position before what is committed, or beyond any, and
    /// [`JournalError::TooLong`] for a record of the group's own that is, with nothing changed;
    /// [`JournalError::Full`], after which the journal goes on as before; the disk's.
    pub fn install(&mut self, taken: &Installed<'_>) -> Result<(), JournalError> {
        if self.closed {
            return Err(JournalError::Closed);
        }
        let position = taken.position;
        if position == 0 || position < self.committed() || position >= NUMBER_MAX - 1 {
            return Err(JournalError::Position(position));
        }
        if taken.group.len() > GROUP_MAX {
            return Err(JournalError::TooLong(taken.group.len()));
        }
        self.settle()?;
        if position > self.durable() && position <= self.last() {
            self.flush()?;
        }
        // Of the only copy all that is durable is committed.
        if position < self.committed() {
            return Err(JournalError::Position(position));
        }
        if self.term_at(position) == Some(taken.term)
            && position <= self.durable()
            && self.chain_at(position)? == taken.chain
        {
            self.commit_to(position);
            self.write_mark()?;
            let Installed { term, chain, group, bytes, .. } = *taken;
            let written = self.put_snapshot(Place { position, term, chain, group }, bytes);
            self.close_on(written)?;
        } else {
            let begun = self.begin_behind(taken);
            self.close_on(begun)?;
            self.write_mark()?;
        }
        self.retain(position)?;
        assert!(self.committed() >= position, "what a snapshot stands for is committed");
        self.assert_positions();
        Ok(())
    }

    /// Begins the log anew behind a snapshot.
    fn begin_behind(&mut self, taken: &Installed<'_>) -> Result<(), JournalError> {
        assert!(self.in_flight.is_none(), "no write goes to a segment that is given up");
        let Installed { position, term, chain, group, bytes } = *taken;
        let place = Place { position, term, chain, group };
        let name = waiting(position);
        snapshot::put_file(self, &name, place, bytes)?;
        let format = if group.is_empty() { self.format } else { FORMAT_GROUP };
        let header = SegmentHeader {
            first_position: position + 1,
            chain,
            committed: position,
            term,
            format,
            installed: true,
            ..self.next_header()
        };
        let segment = match self.make_segment(header) {
            Ok(segment) => segment,
            Err(error) => {
                // The old log goes on, if the disk does.
                let _ = self.storage.remove(&name);
                return Err(error);
            }
        };
        let gone = std::mem::replace(&mut self.segments, vec![segment]);
        (self.truncations, self.terms) = (Vec::new(), Vec::new());
        let told = (!group.is_empty()).then(|| (position, group.to_vec()));
        (self.groups, self.format) = (Vec::from_iter(told), format);
        self.waypoints = Waypoints::new();
        self.scanner.forget();
        self.base_term = term;
        self.batch.begin(position + 1, chain);
        self.offset = self.config.block as u64;
        self.committed = position;
        assert_eq!((self.first(), self.last()), (position + 1, position), "it begins behind it");
        self.storage.rename(&name, &name_of(position))?;
        self.storage.sync_names()?;
        self.note_snapshot(place, bytes);
        for segment in gone {
            self.drop_segment(&segment)?;
        }
        self.storage.sync_names()?;
        Ok(())
    }

    /// Gives up records up to a position, as far as whole segments go and never beyond the newest
    /// snapshot that is whole. Older snapshots that can't be gone on from any more go, too. Says how
    /// many segments went.
    ///
    /// # Errors
    /// The disk's; only [`JournalError::Closed`] follows.
    pub fn retain(&mut self, position: u64) -> Result<u64, JournalError> {
        if self.closed {
            return Err(JournalError::Closed);
        }
        let retained = self.retain_from(position);
        self.close_on(retained)
    }

    fn retain_from(&mut self, position: u64) -> Result<u64, JournalError> {
        let Some(newest) = self.snapshots.last() else { return Ok(0) };
        let count = self.forget_before(position.min(newest.position) + 1)?;
        let first = self.first();
        let gone = self.snapshots.partition_point(|info| info.position + 1 < first);
        for info in self.snapshots.drain(..gone) {
            self.storage.remove(&name_of(info.position))?;
        }
        if gone > 0 {
            self.storage.sync_names()?;
        }
        Ok(count)
    }

    /// Forgets segments that nothing after `position` needs; says how many. A log never begins with
    /// a segment that a truncation goes back behind: its header says what stood before it then, and
    /// that was taken back.
    pub(crate) fn forget_before(&mut self, position: u64) -> Result<u64, DiskError> {
        let begins = |segment: &Segment| {
            let SegmentHeader { first_position, first_frame, .. } = segment.header;
            let behind =
                |cut: &Truncation| cut.frame >= first_frame && cut.kept + 1 < first_position;
            first_position <= position && !self.truncations.iter().any(behind)
        };
        let keep = self.segments.iter().rposition(begins).unwrap_or(0);
        if keep == 0 {
            return Ok(0);
        }
        let first = self.segments.get(keep).map_or(1, |segment| segment.header.first_position);
        assert!(first <= position, "the record that is wanted stays");
        self.base_term = self.term_at(first - 1).unwrap_or(0);
        for segment in self.segments.drain(..keep).collect::<Vec<_>>() {
            self.drop_segment(&segment)?;
        }
        self.storage.sync_names()?;
        let frame = self.segments.first().map_or(0, |segment| segment.header.first_frame);
        self.truncations.retain(|cut| cut.frame >= frame);
        forget_before(&mut self.terms, first);
        forget_before(&mut self.groups, first - 1);
        self.waypoints.forget_before(first);
        assert_eq!(self.first(), first);
        Ok(keep as u64)
    }

    fn drop_segment(&mut self, segment: &Segment) -> Result<(), DiskError> {
        self.storage.close(segment.extent.file);
        self.storage.remove(&segment_name(segment.header.number))
    }
}
