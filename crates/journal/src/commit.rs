//! Group commit: records that are appended while a batch is being written are written with the next
//! batch.

use crate::Journal;
use crate::buffer::AlignedBuf;
use crate::config::Marks;
use crate::error::JournalError;
use crate::layout::{NUMBER_MAX, Place};
use crate::recover::note_term;
use crate::scan::Extent;
use crate::storage::{Begun, DiskError, Storage};
use crate::waypoints::Waypoint;

/// A batch that is being written to the disk.
pub(crate) struct InFlight {
    pub(crate) first: u64,
    records: u64,
    pub(crate) chain_before: u64,
    segment: u64,
    bytes: u64,
}

impl<S: Storage> Journal<S> {
    /// Appends a record of a term and gives its position. It is durable after the next flush.
    ///
    /// # Errors
    /// [`JournalError::BatchFull`], [`JournalError::TooLong`], [`JournalError::Closed`]; nothing
    /// has changed.
    pub fn append(&mut self, term: u64, record: &[u8]) -> Result<u64, JournalError> {
        self.take(term, false, record)
    }

    pub(crate) fn take(
        &mut self,
        term: u64,
        group: bool,
        record: &[u8],
    ) -> Result<u64, JournalError> {
        if self.closed {
            return Err(JournalError::Closed);
        }
        if crate::batch::record_len(record.len()) > self.config.batch_bytes {
            return Err(JournalError::TooLong(record.len()));
        }
        if !self.batch.fits(record.len()) {
            return Err(JournalError::BatchFull);
        }
        let position = self.batch.next();
        if position + 1 >= NUMBER_MAX {
            return Err(JournalError::Position(position));
        }
        note_term(&mut self.terms, position, term);
        self.batch.push(term, group, record);
        assert_eq!(self.last(), position, "the record has the position that is told");
        Ok(position)
    }

    /// Makes everything appended durable, with one write and one sync, and gives the position up
    /// to which everything is. Without anything appended it does nothing.
    ///
    /// # Errors
    /// [`JournalError::Full`], after which it may be tried again; after others only
    /// [`JournalError::Closed`] follows.
    pub fn flush(&mut self) -> Result<u64, JournalError> {
        self.begin_flush()?;
        self.settle()?;
        assert_eq!(self.durable(), self.last(), "all that was appended is durable");
        Ok(self.durable())
    }

    /// Begins to make everything appended durable and returns while that goes on, if the storage
    /// can; records may be appended meanwhile. It waits for what was begun before, and gives the
    /// position up to which everything is durable. [`Journal::flush`] and [`Journal::settle`] wait for
    /// the rest.
    ///
    /// # Errors
    /// As [`Journal::flush`].
    pub fn begin_flush(&mut self) -> Result<u64, JournalError> {
        if self.closed {
            return Err(JournalError::Closed);
        }
        let durable = self.durable();
        self.settle()?;
        assert!(self.durable() >= durable, "what is durable stays");
        if self.batch.count > 0 {
            let begun = self.begin_batch();
            let landed = self.close_on(begun)?;
            if landed {
                self.has_landed()?;
            }
        }
        Ok(self.durable())
    }

    /// Whether a write has been begun and not been waited for.
    pub fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Waits for the write that was begun, if there is one.
    ///
    /// # Errors
    /// As [`Journal::flush`].
    pub fn settle(&mut self) -> Result<(), JournalError> {
        if self.in_flight.is_none() {
            return Ok(());
        }
        if self.closed {
            return Err(JournalError::Closed);
        }
        let landed = match self.storage.finish() {
            Some((buffer, done)) => self.land(buffer, done),
            None => Err(JournalError::Closed),
        };
        self.close_on(landed)?;
        self.has_landed()
    }

    /// Begins to write the batch; true when the write has ended already.
    fn begin_batch(&mut self) -> Result<bool, JournalError> {
        assert!(self.in_flight.is_none(), "one write at a time: a crash tears one frame");
        assert!(self.batch.count > 0, "a frame of records has some");
        let bytes = self.batch.padded() as u64;
        let Extent { file, segment, .. } = self.room_for(bytes)?;
        let (first, records) = (self.batch.first, u64::from(self.batch.count));
        let chain_before = self.batch.chain_before();
        let place = Place { journal: self.config.id, segment, offset: self.offset };
        let spare = std::mem::take(&mut self.spare);
        let buffer = self.batch.take(place, (self.frame, self.committed), spare);
        assert_eq!(buffer.len() as u64, bytes, "it takes the room that was made for it");
        self.in_flight = Some(InFlight { first, records, chain_before, segment, bytes });
        match self.storage.begin(file, self.offset, buffer) {
            Begun::Over(buffer, done) => self.land(buffer, done).map(|()| true),
            Begun::UnderWay => Ok(false),
        }
    }

    /// Handles the end of the batch's write, successful or not.
    fn land(
        &mut self,
        buffer: AlignedBuf,
        done: Result<(), DiskError>,
    ) -> Result<(), JournalError> {
        self.spare = buffer;
        done?;
        let landed = self.in_flight.take().expect("only what was begun ends");
        assert_eq!(landed.first + landed.records, self.batch.first, "the next one goes on from it");
        let InFlight { first: position, segment, bytes, records, .. } = landed;
        let (offset, frame) = (self.offset, self.frame);
        self.waypoints.note(Waypoint { position, segment, offset, frame });
        self.stats.batches += 1;
        self.stats.records += records;
        self.stats.bytes += bytes;
        self.offset += bytes;
        self.frame += 1;
        Ok(())
    }

    /// Updates the positions after a write that is durable.
    fn has_landed(&mut self) -> Result<(), JournalError> {
        assert!(self.in_flight.is_none());
        if self.config.alone {
            assert!(self.durable() >= self.committed, "what is committed stays");
            self.committed = self.durable();
        }
        self.assert_positions();
        match self.config.marks {
            Marks::BeforeAck => self.write_mark(),
            Marks::Behind => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::SimDisk;
    use crate::config::Config;

    use super::*;

    fn journal() -> Journal<SimDisk> {
        let config = Config { batch_bytes: 8 << 10, alone: false, ..Config::new(1, [0; 32]) };
        let config = Config { block: 512, segment_bytes: 16 << 10, ..config };
        let mut journal = Journal::open(SimDisk::new(1), &config).expect("an empty disk").0;
        assert_eq!(journal.append(1, b"one"), Ok(1));
        assert_eq!(journal.flush(), Ok(1));
        journal
    }

    #[test]
    #[should_panic(expected = "what is committed is durable here")]
    fn control_nothing_is_committed_that_is_not_durable() {
        let mut journal = journal();
        journal.committed = 2;
        journal.assert_positions();
    }

    #[test]
    #[should_panic(expected = "no mark is ahead of what it marks")]
    fn control_the_mark_follows_the_commit() {
        let mut journal = journal();
        journal.commit_to(1);
        journal.write_mark().expect("room");
        journal.committed = 0;
        journal.assert_positions();
    }

    #[test]
    #[should_panic(expected = "the next one goes on from it")]
    fn control_a_write_that_lands_is_followed_by_the_next_position() {
        let mut journal = journal();
        journal.append(1, b"two").expect("room");
        let flight = InFlight { first: 1, records: 2, chain_before: 0, segment: 1, bytes: 512 };
        journal.in_flight = Some(flight);
        let _ = journal.land(AlignedBuf::default(), Ok(()));
    }

    #[test]
    #[should_panic(expected = "one write at a time")]
    fn control_a_second_write_waits_for_the_first() {
        let mut journal = journal();
        journal.append(1, b"two").expect("room");
        let flight = InFlight { first: 1, records: 1, chain_before: 0, segment: 1, bytes: 512 };
        journal.in_flight = Some(flight);
        let _ = journal.begin_batch();
    }

    #[test]
    fn there_is_no_position_beyond_what_a_header_may_say() {
        let mut journal = journal();
        let last = NUMBER_MAX - 1;
        journal.batch.begin(last, 0);
        assert_eq!(journal.append(1, b"two"), Err(JournalError::Position(last)));
    }
}
