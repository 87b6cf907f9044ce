//! Entries: consecutive records of a stream, in one piece.
//!
//! In a stream of Redis an entry has the id `LIFE-FIRST` (when the producer began, ms since 1970, and the
//! number of the entry's first record) and the fields `v` (1), `kind`, `count` and `data`. In a file it is 24 bytes,
//! little-endian (length of the data u32, CRC-32 of all that follows u32, number of the first record u64, count
//! u32, kind u8, three zero bytes), and the data. An entry without records says that its producer has ended:
//! its number is the one that the next record would have had.

use crate::record::{RECORD, RecordKind};

/// Records of an entry at most.
pub const COUNT_MAX: usize = 1_024;
/// Bytes before the data of an entry in a file.
pub const HEAD: usize = 24;

/// Consecutive records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What they are.
    pub kind: RecordKind,
    /// Number of the first one.
    pub first: u64,
    /// The records, one behind the other.
    pub data: Vec<u8>,
}

impl Entry {
    /// An entry without records yet.
    pub fn new(kind: RecordKind, first: u64) -> Entry {
        Entry { kind, first, data: Vec::new() }
    }

    /// How many records it has.
    pub fn count(&self) -> u64 {
        (self.data.len() / RECORD) as u64
    }

    /// The number behind its last record.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.count())
    }

    /// Whether a record of that number may follow in it.
    pub fn takes(&self, number: u64) -> bool {
        number == self.end() && self.data.len() < COUNT_MAX * RECORD
    }

    /// As bytes of a file.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&(self.data.len() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&(self.count() as u32).to_le_bytes());
        out.extend_from_slice(&[self.kind.number(), 0, 0, 0]);
        out.extend_from_slice(&self.data);
        let sum = crc32fast::hash(&out[start + 8..]);
        out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
    }

    /// The entry that `bytes` begin with, and its length there. `None`: it is cut short or none.
    pub fn decode(bytes: &[u8]) -> Option<(Entry, usize)> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..at + 4)?.first_chunk()?));
        let length = word(0)? as usize;
        if length > COUNT_MAX * RECORD || !length.is_multiple_of(RECORD) {
            return None;
        }
        let whole = bytes.get(..HEAD + length)?;
        if crc32fast::hash(&whole[8..]) != word(4)? {
            return None;
        }
        let first = u64::from_le_bytes(*whole.get(8..16)?.first_chunk()?);
        let kind = RecordKind::of(*whole.get(20)?)?;
        let entry = Entry { kind, first, data: whole[HEAD..].to_vec() };
        (word(16)? as u64 == entry.count() && first > 0).then_some((entry, HEAD + length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_entry_takes_only_what_follows_and_has_an_end() {
        let mut entry = Entry::new(RecordKind::Orders, 5);
        assert!(entry.takes(5) && !entry.takes(6));
        entry.data.extend_from_slice(&[1; RECORD]);
        assert!(entry.takes(6) && !entry.takes(5));
        entry.data.resize(COUNT_MAX * RECORD, 2);
        assert!(!entry.takes(entry.end()));
    }

    proptest! {
        #[test]
        fn entries_are_read_as_written_and_damage_is_seen(
            first in 1..u64::MAX / 2, count in 0usize..40, fill: u8, at: usize, bit in 0u8..8,
        ) {
            let entry =
                Entry { kind: RecordKind::Releases, first, data: vec![fill; count * RECORD] };
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            let length = bytes.len();
            bytes.extend_from_slice(b"more");
            prop_assert_eq!(Entry::decode(&bytes), Some((entry.clone(), length)));
            for cut in [0, 1, HEAD - 1, length - 1] {
                prop_assert_eq!(Entry::decode(&bytes[..cut.min(length - 1)]), None);
            }
            bytes[at % length] ^= 1 << bit;
            prop_assert!(Entry::decode(&bytes).is_none_or(|(found, _)| found != entry));
        }

        #[test]
        fn other_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Entry::decode(&bytes);
        }
    }
}
