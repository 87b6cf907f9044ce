//! The batch that is filled for the next write, encoded as it will be in its frame; and its
//! decoding.

use crate::buffer::AlignedBuf;
use crate::layout::{
    FRAME_HEADER, FrameHeader, FrameKind, GROUP_MAX, Place, RECORD_HEADER, chain_record, round_up,
    u32_at, u64_at,
};

/// One record of a journal, as it is read back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Position of the record, from 1.
    pub position: u64,
    /// Term in which the record was appended.
    pub term: u64,
    /// Contents of the application's record; empty for a record of the group's own.
    pub bytes: &'a [u8],
    /// Contents of a record of the group's own (its membership); empty for a record of the
    /// application.
    pub group: &'a [u8],
}

impl<'a> Record<'a> {
    /// A record of the application, or of the group's own.
    pub(crate) fn of(position: u64, term: u64, group: bool, bytes: &'a [u8]) -> Record<'a> {
        let (bytes, group) = if group { (&[][..], bytes) } else { (bytes, &[][..]) };
        Record { position, term, bytes, group }
    }

    /// Whether it is a record of the group's own, and its contents.
    pub(crate) fn content(&self) -> (bool, &'a [u8]) {
        if self.group.is_empty() { (false, self.bytes) } else { (true, self.group) }
    }

    /// Value of the checksum chain after the record.
    pub(crate) fn chain(&self, before: u64) -> u64 {
        let (group, bytes) = self.content();
        chain_record(before, self.term, group, bytes)
    }
}

/// Bytes that a record takes in a batch.
pub(crate) fn record_len(bytes: usize) -> usize {
    RECORD_HEADER + round_up(bytes, 8)
}

/// The batch that is being filled with records.
pub(crate) struct Batch {
    buffer: AlignedBuf,
    block: usize,
    most: usize,
    pub(crate) first: u64,
    pub(crate) count: u32,
    chain_before: u64,
    chain_after: u64,
}

impl Batch {
    pub(crate) fn new(block: usize, most: usize, first: u64, chain: u64) -> Batch {
        let mut buffer = AlignedBuf::with_capacity(round_up(FRAME_HEADER + most, block));
        buffer.resize(FRAME_HEADER);
        Batch { buffer, block, most, first, count: 0, chain_before: chain, chain_after: chain }
    }

    /// Whether a record of `bytes` bytes still fits the batch.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.buffer.len() - FRAME_HEADER + record_len(bytes) <= self.most
    }

    pub(crate) fn push(&mut self, term: u64, group: bool, record: &[u8]) {
        assert!(self.fits(record.len()), "whoever pushes has asked");
        let place = self.buffer.grow(record_len(record.len()));
        if let Some((header, rest)) = place.split_first_chunk_mut::<RECORD_HEADER>() {
            header[..4].copy_from_slice(&(record.len() as u32).to_le_bytes());
            header[4..8].copy_from_slice(&u32::from(group).to_le_bytes());
            header[8..].copy_from_slice(&term.to_le_bytes());
            let (bytes, padding) = rest.split_at_mut(record.len().min(rest.len()));
            bytes.copy_from_slice(record);
            padding.fill(0);
        }
        self.chain_after = chain_record(self.chain_after, term, group, record);
        self.count += 1;
        assert!(self.buffer.len() <= FRAME_HEADER + self.most, "a batch is bounded");
        assert!(self.buffer.len().is_multiple_of(8), "records stand at multiples of eight bytes");
    }

    /// Position that the next record will have.
    pub(crate) fn next(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// Value of the checksum chain after the last record.
    pub(crate) fn chain(&self) -> u64 {
        self.chain_after
    }

    /// Value of the checksum chain before the first record.
    pub(crate) fn chain_before(&self) -> u64 {
        self.chain_before
    }

    /// Length of the batch's frame, padding included, bytes.
    pub(crate) fn padded(&self) -> usize {
        round_up(self.buffer.len(), self.block)
    }

    /// Completes the frame and returns it; the next batch begins behind it, in the memory `spare`.
    pub(crate) fn take(
        &mut self,
        place: Place,
        (frame, committed): (u64, u64),
        spare: AlignedBuf,
    ) -> AlignedBuf {
        let payload = self.buffer.len() - FRAME_HEADER;
        assert!(payload <= self.most, "a payload is bounded");
        let header = FrameHeader {
            payload: payload as u32,
            kind: FrameKind::Records,
            frame,
            first: self.first,
            count: self.count,
            committed,
            chain_before: self.chain_before,
            chain_after: self.chain_after,
        };
        self.buffer.resize(round_up(FRAME_HEADER + payload, self.block));
        assert_eq!(self.buffer.len(), header.padded(self.block), "whoever reads goes on there");
        header.write(place, self.buffer.bytes_mut());
        let taken = std::mem::replace(&mut self.buffer, spare);
        let (next, chain) = (self.next(), self.chain_after);
        self.begin(next, chain);
        assert!(self.count == 0 && self.first == next, "positions go on behind the batch");
        taken
    }

    /// Begins a batch at a position, and drops the records in it.
    pub(crate) fn begin(&mut self, first: u64, chain: u64) {
        assert!(first > 0, "positions are dense from 1");
        self.buffer.clear();
        self.buffer.resize(FRAME_HEADER);
        (self.first, self.count) = (first, 0);
        (self.chain_before, self.chain_after) = (chain, chain);
    }
}

/// The records of a frame's payload; ends early, with `None` as its last item, where they make no
/// sense.
pub(crate) fn records<'a>(header: &FrameHeader, payload: &'a [u8]) -> Records<'a> {
    Records { rest: payload, position: header.first, left: header.count, failed: false }
}

/// Iterator over the records of a frame; see [`records`].
pub(crate) struct Records<'a> {
    rest: &'a [u8],
    position: u64,
    left: u32,
    failed: bool,
}

impl<'a> Records<'a> {
    fn take(&mut self) -> Option<Record<'a>> {
        let (len, term) = (u32_at(self.rest, 0) as usize, u64_at(self.rest, 8));
        let group = match u32_at(self.rest, 4) {
            0 => false,
            1 if (1..=GROUP_MAX).contains(&len) => true,
            _ => return None,
        };
        let bytes = self.rest.get(RECORD_HEADER..)?.get(..len)?;
        self.rest = self.rest.get(record_len(len)..)?;
        let record = Record::of(self.position, term, group, bytes);
        (self.position, self.left) = (self.position.checked_add(1)?, self.left - 1);
        Some(record)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Option<Record<'a>>;

    fn next(&mut self) -> Option<Option<Record<'a>>> {
        if self.failed || (self.left == 0 && self.rest.is_empty()) {
            return None;
        }
        let record = if self.left == 0 { None } else { self.take() };
        self.failed = record.is_none();
        Some(record)
    }
}

/// Whether the payload holds the records that the header says, and the chain fits.
pub(crate) fn consistent(header: &FrameHeader, payload: &[u8]) -> bool {
    let chain =
        records(header, payload).try_fold((header.chain_before, 0u32), |(chain, n), record| {
            let record = record?;
            Some((record.chain(chain), n + 1))
        });
    chain == Some((header.chain_after, header.count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: Place = Place { journal: 1, segment: 1, offset: 512 };

    #[test]
    #[should_panic(expected = "whoever pushes has asked")]
    fn control_a_batch_takes_no_more_than_it_has_room_for() {
        let mut batch = Batch::new(512, 64, 1, 0);
        (0..4).for_each(|_| batch.push(1, false, b"sixteen bytes..."));
    }

    proptest! {
        #[test]
        fn records_are_read_back(all in proptest::collection::vec((any::<u64>(), any::<bool>(),
            proptest::collection::vec(any::<u8>(), 1..40)), 0..20)) {
            let mut batch = Batch::new(512, 4_096, 7, 99);
            for (term, group, bytes) in &all {
                prop_assert!(batch.fits(bytes.len()));
                batch.push(*term, *group, bytes);
            }
            let taken = batch.take(PLACE, (3, 6), AlignedBuf::default());
            let bytes = taken.bytes();
            prop_assert_eq!((batch.first, batch.count), (7 + all.len() as u64, 0));
            prop_assert_eq!(bytes.len() % 512, 0);
            let header = FrameHeader::claim(bytes).expect("a frame");
            prop_assert!(FrameHeader::sealed(PLACE, bytes));
            let payload = &bytes[FRAME_HEADER..FRAME_HEADER + header.payload as usize];
            prop_assert!(consistent(&header, payload));
            let read: Option<Vec<Record>> = records(&header, payload).collect();
            let read = read.expect("whole records");
            prop_assert_eq!(read.len(), all.len());
            for ((record, (term, group, bytes)), position) in read.iter().zip(&all).zip(7..) {
                prop_assert_eq!(*record, Record::of(position, *term, *group, bytes));
            }
        }

        #[test]
        fn no_payload_makes_it_panic(
            payload in proptest::collection::vec(any::<u8>(), 0..200),
            count in 0u32..9,
            first: u64,
        ) {
            let header = FrameHeader { payload: payload.len() as u32, kind: FrameKind::Records,
                frame: 1, first, count, committed: 0, chain_before: 0, chain_after: 0 };
            let _ = consistent(&header, &payload);
            prop_assert!(records(&header, &payload).count() <= count as usize + 1);
        }
    }
}
