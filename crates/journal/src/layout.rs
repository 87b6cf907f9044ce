//! Bytes of segments and frames; little-endian, version 1, or 2 for segments with records of the
//! group's own.
//!
//! Segment `log-<number>`: one block of header, then frames, each beginning at a block, then zeros.
//! Header: magic `FBJRNSEG` · format u32 · checksum u32 · journal u64 · segment number u64 ·
//! segment bytes u64 · block u32 · flags u32 (1: installed) · first frame u64 · first position u64 ·
//! chain before it u64 · committed u64 · label 32 bytes · term of the record before it u64 (0: not
//! known); the checksum is over the block with itself as zero. A segment that is installed begins a
//! log behind a snapshot from elsewhere: segments before it don't count.
//!
//! Frame: one batch, written at once, padded with zeros to whole blocks. Header: magic u32 ·
//! checksum u32 · payload bytes u32 · kind u32 (1 records, 2 truncation) · frame u64 · first
//! position u64 · records u32 · 0 u32 · committed u64 · chain before u64 · chain after u64. The
//! checksum covers journal, segment and offset (a frame elsewhere is none) and everything after
//! it, padding too. Payload: per record length u32 · whose u32 (0 the application's; 1 the group's own,
//! in format 2 alone) · term u64 · bytes, padded to 8.
//! A truncation has no payload; its first position is the next one to be given again.
//!
//! Chain: 0, then per record the fold of its term, its length (and 1 << 32 for one of the group's
//! own) and its bytes in words of eight.

use types::Digest;

/// Version of the layout that is written.
pub const FORMAT: u32 = 1;
/// Version of segments that hold records of the group's own, or come after one that does, and of
/// snapshots that say what they said. Versions that know none of them refuse it.
pub const FORMAT_GROUP: u32 = 2;
/// Longest record of the group's own, bytes: the header of a snapshot has room for it.
pub const GROUP_MAX: usize = 2_048;
/// Smallest block size, bytes.
pub const BLOCK_MIN: usize = 512;
/// Largest block size, bytes.
pub const BLOCK_MAX: usize = 65_536;
/// Length of a label, bytes.
pub const LABEL_LEN: usize = 32;
/// Length of a frame's header, bytes.
pub(crate) const FRAME_HEADER: usize = 64;
/// Length of a record's header, bytes.
pub(crate) const RECORD_HEADER: usize = 16;

/// Bound of the numbers of positions, frames and segments: all are below this.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;
/// Most bytes of a frame's payload, and of a batch.
pub(crate) const PAYLOAD_MAX: usize = 1 << 30;
/// Largest size of a segment, bytes.
pub(crate) const SEGMENT_MAX: u64 = 1 << 40;

const _: () = assert!(BLOCK_MIN.is_power_of_two() && BLOCK_MAX.is_power_of_two());
const _: () = assert!(SEGMENT_HEADER <= BLOCK_MIN && FRAME_HEADER <= BLOCK_MIN);
const _: () = assert!(RECORD_HEADER.is_multiple_of(8) && FRAME_HEADER.is_multiple_of(8));
const _: () = assert!(PAYLOAD_MAX + FRAME_HEADER + BLOCK_MAX <= u32::MAX as usize);
const _: () = assert!(GROUP_MAX + RECORD_HEADER <= PAYLOAD_MAX);
const _: () = assert!(PAYLOAD_MAX as u64 + 2 * BLOCK_MAX as u64 <= SEGMENT_MAX);

const SEGMENT_MAGIC: &[u8; 8] = b"FBJRNSEG";
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"FBJF");
const KIND_RECORDS: u32 = 1;
const KIND_TRUNCATION: u32 = 2;
/// Flag of a segment that begins behind a snapshot from elsewhere.
const INSTALLED: u32 = 1;
/// Offset of the checksum in a segment's header, bytes.
const SEGMENT_CRC: usize = 12;
/// Length of the part of a segment's header that is used, bytes.
const SEGMENT_HEADER: usize = 80 + LABEL_LEN + 8;

/// `bytes` rounded up to a multiple of `block`, a power of two.
#[inline]
pub(crate) fn round_up(bytes: usize, block: usize) -> usize {
    assert!(block.is_power_of_two());
    (bytes + block - 1) & !(block - 1)
}

/// Name of the file of the segment with this number.
pub(crate) fn segment_name(number: u64) -> String {
    format!("log-{number:016x}")
}

/// Number of the segment in a file's name, or of the snapshot's position.
pub(crate) fn number_of(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let plain =
        digits.len() == 16 && digits.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(digits, 16).ok().filter(|_| plain)
}

/// The four bytes at an offset as a number, little-endian; 0 where there are none.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u32::from_le_bytes(*word.unwrap_or(&[0; 4]))
}

/// The eight bytes at an offset as a number, little-endian; 0 where there are none.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u64::from_le_bytes(*word.unwrap_or(&[0; 8]))
}

/// Copies bytes to an offset of `to`.
pub(crate) fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    assert!(at + bytes.len() <= to.len(), "a field that does not fit would be left out");
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Checksum of a block whose own four bytes at `at` count as zero.
pub(crate) fn block_crc(block: &[u8], at: usize) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(block.get(..at).unwrap_or(&[]));
    crc.update(&[0; 4]);
    crc.update(block.get(at + 4..).unwrap_or(&[]));
    crc.finalize()
}

/// Value of the checksum chain after one more record.
pub(crate) fn chain_record(chain: u64, term: u64, group: bool, record: &[u8]) -> u64 {
    let mut digest = Digest(chain);
    digest.fold(term);
    digest.fold(record.len() as u64 | u64::from(group) << 32);
    let (words, rest) = record.as_chunks::<8>();
    words.iter().for_each(|word| digest.fold(u64::from_le_bytes(*word)));
    if !rest.is_empty() {
        let mut word = [0; 8];
        put(&mut word, 0, rest);
        digest.fold(u64::from_le_bytes(word));
    }
    digest.0
}

/// The header of a segment: its first block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    pub(crate) format: u32,
    pub(crate) journal: u64,
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) block: u32,
    pub(crate) first_frame: u64,
    pub(crate) first_position: u64,
    pub(crate) chain: u64,
    pub(crate) committed: u64,
    pub(crate) label: [u8; LABEL_LEN],
    /// Term of the record before the first; 0 when it is not known.
    pub(crate) term: u64,
    /// Earlier segments don't count: a snapshot that was taken elsewhere stands for them.
    pub(crate) installed: bool,
}

/// Result of reading the first block of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentRead {
    Good(SegmentHeader),
    /// The format version is not one that can be read.
    Format(u32),
    Bad,
}

impl SegmentHeader {
    /// Fills a block, which is zero.
    pub(crate) fn write(&self, block: &mut [u8]) {
        put(block, 0, SEGMENT_MAGIC);
        put(block, 8, &self.format.to_le_bytes());
        let words = [self.journal, self.number, self.bytes, u64::from(self.block)];
        let more = [self.first_frame, self.first_position, self.chain, self.committed];
        for (at, word) in (16..).step_by(8).zip(words.into_iter().chain(more)) {
            put(block, at, &word.to_le_bytes());
        }
        put(block, 44, &(u32::from(self.installed) * INSTALLED).to_le_bytes());
        put(block, 80, &self.label);
        put(block, 112, &self.term.to_le_bytes());
        let crc = block_crc(block, SEGMENT_CRC);
        put(block, SEGMENT_CRC, &crc.to_le_bytes());
        assert_eq!(SegmentHeader::read(block), SegmentRead::Good(*self), "it is read as written");
    }

    /// Block size that the first bytes claim, for reading the rest of the block.
    pub(crate) fn block_of(start: &[u8]) -> Option<usize> {
        let block = u32_at(start, 40) as usize;
        let fits = (BLOCK_MIN..=BLOCK_MAX).contains(&block) && block.is_power_of_two();
        (start.starts_with(SEGMENT_MAGIC) && fits).then_some(block)
    }

    /// Reads a segment's header from its first block.
    pub(crate) fn read(block: &[u8]) -> SegmentRead {
        let sealed = u32_at(block, SEGMENT_CRC) == block_crc(block, SEGMENT_CRC);
        if !block.starts_with(SEGMENT_MAGIC) || !sealed {
            return SegmentRead::Bad;
        }
        let format = u32_at(block, 8);
        if !(FORMAT..=FORMAT_GROUP).contains(&format) {
            return SegmentRead::Format(format);
        }
        let word = |at| u64_at(block, at);
        let label = block.get(80..).and_then(|rest| rest.first_chunk());
        let header = SegmentHeader {
            format,
            journal: word(16),
            number: word(24),
            bytes: word(32),
            block: u32_at(block, 40),
            first_frame: word(48),
            first_position: word(56),
            chain: word(64),
            committed: word(72),
            label: *label.unwrap_or(&[0; LABEL_LEN]),
            term: word(112),
            installed: u32_at(block, 44) & INSTALLED != 0,
        };
        let fits = header.block as usize == block.len()
            && header.bytes.is_multiple_of(u64::from(header.block))
            && (u64::from(header.block)..=SEGMENT_MAX).contains(&header.bytes)
            && (header.first_frame | header.first_position | header.number) < NUMBER_MAX;
        if fits { SegmentRead::Good(header) } else { SegmentRead::Bad }
    }
}

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameKind {
    Records,
    Truncation,
}

/// The header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameHeader {
    pub(crate) payload: u32,
    pub(crate) kind: FrameKind,
    pub(crate) frame: u64,
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) committed: u64,
    pub(crate) chain_before: u64,
    pub(crate) chain_after: u64,
}

/// Where a frame stands: part of its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) journal: u64,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
}

fn frame_crc(place: Place, bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    [place.journal, place.segment, place.offset].iter().for_each(|w| crc.update(&w.to_le_bytes()));
    crc.update(bytes.get(8..).unwrap_or(&[]));
    crc.finalize()
}

impl FrameHeader {
    /// Writes the header before the payload and seals the padded frame.
    pub(crate) fn write(&self, place: Place, bytes: &mut [u8]) {
        assert!(bytes.len() >= FRAME_HEADER + self.payload as usize, "the frame is whole");
        assert!(bytes.len().is_multiple_of(BLOCK_MIN), "a frame is padded to whole blocks");
        let kind = match self.kind {
            FrameKind::Records => KIND_RECORDS,
            FrameKind::Truncation => KIND_TRUNCATION,
        };
        put(bytes, 0, &FRAME_MAGIC.to_le_bytes());
        put(bytes, 8, &self.payload.to_le_bytes());
        put(bytes, 12, &kind.to_le_bytes());
        put(bytes, 16, &self.frame.to_le_bytes());
        put(bytes, 24, &self.first.to_le_bytes());
        put(bytes, 32, &u64::from(self.count).to_le_bytes());
        put(bytes, 40, &self.committed.to_le_bytes());
        put(bytes, 48, &self.chain_before.to_le_bytes());
        put(bytes, 56, &self.chain_after.to_le_bytes());
        let crc = frame_crc(place, bytes);
        put(bytes, 4, &crc.to_le_bytes());
        assert_eq!(FrameHeader::claim(bytes), Some(*self), "it is read as written");
    }

    /// Length of the frame with its padding, bytes.
    pub(crate) fn padded(&self, block: usize) -> usize {
        round_up(FRAME_HEADER + self.payload as usize, block)
    }

    /// Header that the first bytes claim, unchecked; `None` when no frame begins there.
    pub(crate) fn claim(start: &[u8]) -> Option<FrameHeader> {
        let kind = match (u32_at(start, 0), u32_at(start, 12)) {
            (FRAME_MAGIC, KIND_RECORDS) => FrameKind::Records,
            (FRAME_MAGIC, KIND_TRUNCATION) => FrameKind::Truncation,
            _ => return None,
        };
        let header = FrameHeader {
            payload: u32_at(start, 8),
            kind,
            frame: u64_at(start, 16),
            first: u64_at(start, 24),
            count: u32_at(start, 32),
            committed: u64_at(start, 40),
            chain_before: u64_at(start, 48),
            chain_after: u64_at(start, 56),
        };
        (header.payload as usize <= PAYLOAD_MAX).then_some(header)
    }

    /// Whether the padded frame is whole and stands where it was written to.
    pub(crate) fn sealed(place: Place, bytes: &[u8]) -> bool {
        u32_at(bytes, 4) == frame_crc(place, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: Place = Place { journal: 9, segment: 2, offset: 1_024 };

    fn frame() -> (FrameHeader, Vec<u8>) {
        let header = FrameHeader {
            payload: 24,
            kind: FrameKind::Records,
            frame: 5,
            first: 17,
            count: 1,
            committed: 16,
            chain_before: 3,
            chain_after: 4,
        };
        let mut bytes = vec![0; header.padded(BLOCK_MIN)];
        header.write(PLACE, &mut bytes);
        (header, bytes)
    }

    #[test]
    fn frames_are_good_in_their_own_place_alone() {
        let (header, bytes) = frame();
        assert_eq!(FrameHeader::claim(&bytes), Some(header));
        assert!(FrameHeader::sealed(PLACE, &bytes));
        for place in [
            Place { journal: 8, ..PLACE },
            Place { segment: 1, ..PLACE },
            Place { offset: 512, ..PLACE },
        ] {
            assert!(!FrameHeader::sealed(place, &bytes), "{place:?}");
        }
    }

    #[test]
    #[should_panic(expected = "a field that does not fit would be left out")]
    fn control_no_field_is_left_out() {
        put(&mut [0; 8], 6, &[1; 3]);
    }

    #[test]
    #[should_panic(expected = "it is read as written")]
    fn control_a_header_that_would_be_refused_is_not_written() {
        let header = SegmentHeader {
            format: FORMAT,
            journal: 1,
            number: NUMBER_MAX,
            bytes: 4_096,
            block: BLOCK_MIN as u32,
            first_frame: 1,
            first_position: 1,
            chain: 0,
            committed: 0,
            label: [0; LABEL_LEN],
            term: 0,
            installed: false,
        };
        header.write(&mut [0; BLOCK_MIN]);
    }

    #[test]
    fn the_chain_tells_records_terms_and_lengths_apart() {
        let base = chain_record(0, 1, false, b"abc");
        for other in [
            chain_record(1, 1, false, b"abc"),
            chain_record(0, 2, false, b"abc"),
            chain_record(0, 1, true, b"abc"),
        ] {
            assert_ne!(base, other);
        }
        assert_ne!(base, chain_record(0, 1, false, b"abc\0"));
        assert_ne!(base, chain_record(0, 1, false, b"abd"));
    }

    #[test]
    fn names_are_read_back() {
        assert_eq!(number_of(&segment_name(0xab), "log-"), Some(0xab));
        for name in ["log-", "log-1", "log-00000000000000ABX", "log-+000000000000001", "mark"] {
            assert_eq!(number_of(name, "log-"), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_flipped_bit_breaks_a_frame(bit in 0usize..BLOCK_MIN * 8) {
            let (_, mut bytes) = frame();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(FrameHeader::claim(&bytes).is_none() || !FrameHeader::sealed(PLACE, &bytes));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
            let _ = (SegmentHeader::block_of(&bytes), SegmentHeader::read(&bytes));
            let _ = (FrameHeader::claim(&bytes), FrameHeader::sealed(PLACE, &bytes));
        }
    }
}
