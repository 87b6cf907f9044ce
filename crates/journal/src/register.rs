//! Few words in a file of their own, in two slots, so that one of them is always whole.
//!
//! `mark`: how far the log is committed. Slots are written in turns; a torn write leaves the one
//! before. `vote`: term and vote. Both slots are written one after the other, each with a sync, so
//! that a vote that was given is there even when one slot goes bad later. `doubt`: see
//! [`crate::mend()`]. `life`: see `life`. `peers`: what is known of others ([`PEERS_MAX`]).
//!
//! Slot of 4 KiB: magic `FBJRNREG` · format u32 · checksum u32 · journal u64 · sequence u64 · words u64
//! (three, where nothing else is said) · zeros; the checksum is over the slot with itself as zero.

use crate::buffer::AlignedBuf;
use crate::error::JournalError;
use crate::layout::{FORMAT, block_crc, put, u32_at, u64_at};
use crate::storage::{DiskError, FileId, Storage};

const MAGIC: &[u8; 8] = b"FBJRNREG";
const SLOT: usize = 4_096;
const CRC: usize = 12;
const WORDS: usize = 32;

/// Name of the commit watermark's file.
pub(crate) const MARK: &str = "mark";
/// Name of the file of term and vote.
pub(crate) const VOTE: &str = "vote";

/// Name of the file of the last term in which a server may have promised what it has lost.
pub(crate) const DOUBT: &str = "doubt";

/// Name of the file of a server's starts, and of how the folder's files were told from copies.
pub(crate) const LIFE: &str = "life";

/// Name of the file of what is known of other servers.
pub(crate) const PEERS: &str = "peers";

/// Most other servers of which promises are kept: all others of a group.
pub const PEERS_MAX: usize = 18;

/// What a server has promised: a term, and its vote in that term.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Vote {
    /// Newest term that the server knows.
    pub term: u64,
    /// Server it voted for in that term; 0: none.
    pub voted_for: u64,
}

/// Words that survive a crash, three of them unless said otherwise.
pub(crate) struct Register<const N: usize = 3> {
    file: FileId,
    journal: u64,
    sequence: u64,
    pub(crate) words: [u64; N],
    buffer: AlignedBuf,
}

/// What was read from a register's file.
pub(crate) struct Opened<const N: usize> {
    pub(crate) register: Register<N>,
    pub(crate) damaged: u32,
}

impl<const N: usize> Register<N> {
    /// Makes the file under its name, or another one in its place: whole or not at all.
    pub(crate) fn create(
        storage: &mut impl Storage,
        name: &'static str,
        journal: u64,
        words: [u64; N],
    ) -> Result<Register<N>, DiskError> {
        const { assert!(WORDS + 8 * N <= SLOT, "the words are within a slot") };
        let temporary = format!("{name}.new");
        let file = storage.create(&temporary, 2 * SLOT as u64)?;
        let buffer = AlignedBuf::with_capacity(2 * SLOT);
        let mut register = Register { file, journal, sequence: 1, words, buffer };
        register.write_slot(storage, 0)?;
        register.write_slot(storage, 1)?;
        storage.rename(&temporary, name)?;
        storage.sync_names()?;
        Ok(register)
    }

    /// Reads the newest readable slot. The journal's own name follows from it when not given.
    pub(crate) fn open(
        storage: &mut impl Storage,
        name: &'static str,
        journal: Option<u64>,
    ) -> Result<Opened<N>, JournalError> {
        let (file, len) = storage.open(name)?;
        let mut buffer = AlignedBuf::with_capacity(2 * SLOT);
        if len < 2 * SLOT as u64 {
            return Err(JournalError::Register(name));
        }
        buffer.resize(2 * SLOT);
        storage.read(file, 0, buffer.bytes_mut())?;
        let (best, damaged) = newest(buffer.bytes());
        let (of, sequence, words) = best.ok_or(JournalError::Register(name))?;
        if journal.is_some_and(|journal| journal != of) {
            return Err(JournalError::Foreign("name"));
        }
        let register = Register { file, journal: of, sequence, words, buffer };
        Ok(Opened { register, damaged })
    }

    /// Closes the register's file.
    pub(crate) fn close(self, storage: &mut impl Storage) {
        storage.close(self.file);
    }

    pub(crate) fn journal(&self) -> u64 {
        self.journal
    }

    /// Reads newer words that another process has written since.
    pub(crate) fn reread(&mut self, storage: &mut impl Storage) -> Result<(), DiskError> {
        self.buffer.clear();
        self.buffer.resize(2 * SLOT);
        storage.read(self.file, 0, self.buffer.bytes_mut())?;
        // Both slots are never written at one time; what is half written counts when it is whole.
        if let (Some((journal, sequence, words)), _) = newest(self.buffer.bytes())
            && journal == self.journal
            && sequence > self.sequence
        {
            (self.sequence, self.words) = (sequence, words);
        }
        Ok(())
    }

    /// Writes new words over the older slot; durable on return.
    pub(crate) fn write(
        &mut self,
        storage: &mut impl Storage,
        words: [u64; N],
    ) -> Result<(), DiskError> {
        self.words = words;
        self.sequence += 1;
        self.write_slot(storage, self.sequence % 2)
    }

    /// Writes the words into both slots, one after the other.
    pub(crate) fn write_both(
        &mut self,
        storage: &mut impl Storage,
        words: [u64; N],
    ) -> Result<(), DiskError> {
        self.words = words;
        self.sequence += 1;
        self.write_slot(storage, 0)?;
        self.write_slot(storage, 1)
    }

    fn write_slot(&mut self, storage: &mut impl Storage, slot: u64) -> Result<(), DiskError> {
        self.buffer.clear();
        self.buffer.resize(SLOT);
        let bytes = self.buffer.bytes_mut();
        put(bytes, 0, MAGIC);
        put(bytes, 8, &FORMAT.to_le_bytes());
        put(bytes, 16, &self.journal.to_le_bytes());
        put(bytes, 24, &self.sequence.to_le_bytes());
        for (at, word) in (WORDS..).step_by(8).zip(self.words) {
            put(bytes, at, &word.to_le_bytes());
        }
        let crc = block_crc(bytes, CRC);
        put(bytes, CRC, &crc.to_le_bytes());
        storage.write(self.file, slot * SLOT as u64, self.buffer.bytes())?;
        storage.sync(self.file)
    }
}

/// Contents of a slot: name of the journal, sequence number, words.
type Slot<const N: usize> = (u64, u64, [u64; N]);

/// The newest readable slot, and the number of slots that cannot be read.
fn newest<const N: usize>(bytes: &[u8]) -> (Option<Slot<N>>, u32) {
    let (slots, _) = bytes.as_chunks::<SLOT>();
    let read = || slots.iter().map(|slot| read_slot(slot));
    let damaged = read().filter(Option::is_none).count() as u32;
    (read().flatten().max_by_key(|(_, sequence, _)| *sequence), damaged)
}

fn read_slot<const N: usize>(slot: &[u8]) -> Option<Slot<N>> {
    let sealed = u32_at(slot, CRC) == block_crc(slot, CRC);
    if !slot.starts_with(MAGIC) || !sealed || u32_at(slot, 8) != FORMAT {
        return None;
    }
    let words = std::array::from_fn(|place| u64_at(slot, WORDS + 8 * place));
    Some((u64_at(slot, 16), u64_at(slot, 24), words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_slot_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(read_slot::<3>(&bytes), None);
        }
    }
}
