//! Where a node lays down what it keeps and seldom needs, so that its memory stays bounded.

use crate::Digest;

/// Bytes by their offset; whoever composes the nodes gives them one, a file for instance.
///
/// Called between two inputs of the node, so it must be quick: a few KiB at a time. Nothing a
/// node decides may depend on how long it takes, and what was put is read back as it was.
pub trait Shelf: Send {
    /// Keeps bytes at an offset; false when they could not be kept, and may be tried again.
    #[must_use]
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool;

    /// Reads what was put there, all of it; false when it can't be read.
    #[must_use]
    fn get(&self, at: u64, into: &mut [u8]) -> bool;
}

/// A shelf in memory, for simulations and tests.
#[derive(Clone, Debug, Default)]
pub struct MemoryShelf {
    bytes: Vec<u8>,
    max: Option<usize>,
}

impl MemoryShelf {
    /// A shelf for offsets below `max`, where nothing can be put beyond that.
    pub fn with_max(max: usize) -> MemoryShelf {
        MemoryShelf { bytes: Vec::new(), max: Some(max) }
    }
}

impl Shelf for MemoryShelf {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        let Some(at) = usize::try_from(at).ok() else { return false };
        let Some(end) = at.checked_add(bytes.len()) else { return false };
        if self.max.is_some_and(|max| end > max) {
            return false;
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes.get_mut(at..end).is_some_and(|place| {
            place.copy_from_slice(bytes);
            true
        })
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        let held = usize::try_from(at).ok().and_then(|at| {
            let end = at.checked_add(into.len())?;
            self.bytes.get(at..end)
        });
        held.is_some_and(|held| {
            into.copy_from_slice(held);
            true
        })
    }
}

/// A shelf of blocks of one length, each with a checksum behind it: what was changed since it was put,
/// or is another block, is not read. Whoever puts anything else is refused.
pub struct Checked<S> {
    shelf: S,
    block: usize,
    stored: Vec<u8>,
}

/// Bytes of a block's checksum.
const SUM: usize = 8;

impl<S: Shelf> Checked<S> {
    /// Blocks of `block` bytes on `shelf`, where each takes eight more.
    pub fn new(shelf: S, block: usize) -> Checked<S> {
        Checked { shelf, block: block.max(1), stored: Vec::with_capacity(block + SUM) }
    }

    /// Where the block is on the shelf, and its number; `None` when these bytes are no block.
    fn place(&self, at: u64, len: usize) -> Option<(u64, u64)> {
        let whole = len == self.block && at.is_multiple_of(self.block as u64);
        let number = at / self.block as u64;
        Some((number.checked_mul((self.block + SUM) as u64).filter(|_| whole)?, number))
    }
}

/// The number is part of it: a block that landed elsewhere is none.
fn sum(number: u64, bytes: &[u8]) -> u64 {
    let mut digest = Digest(number ^ 0xB10C);
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().for_each(|word| digest.fold(u64::from_le_bytes(*word)));
    rest.iter().for_each(|byte| digest.fold(u64::from(*byte)));
    digest.0
}

impl<S: Shelf> Shelf for Checked<S> {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        let Some((place, number)) = self.place(at, bytes.len()) else { return false };
        self.stored.clear();
        self.stored.extend_from_slice(bytes);
        self.stored.extend_from_slice(&sum(number, bytes).to_le_bytes());
        self.shelf.put(place, &self.stored)
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        let Some((place, number)) = self.place(at, into.len()) else { return false };
        let mut stored = vec![0; self.block + SUM];
        if !self.shelf.get(place, &mut stored) {
            return false;
        }
        let Some((bytes, known)) = stored.split_last_chunk::<SUM>() else { return false };
        into.copy_from_slice(bytes);
        sum(number, bytes) == u64::from_le_bytes(*known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_read_and_nothing_else() {
        let mut shelf = MemoryShelf::with_max(16);
        let mut read = [0; 4];
        assert!(!shelf.get(0, &mut read));
        assert!(shelf.put(8, &[1, 2, 3, 4]) && shelf.get(8, &mut read));
        assert_eq!(read, [1, 2, 3, 4]);
        assert!(!shelf.get(9, &mut read), "it does not reach so far");
        assert!(!shelf.put(13, &[0; 4]) && shelf.put(12, &[0; 4]), "nothing beyond its end");
        assert!(!shelf.put(u64::MAX, &[0; 4]) && !shelf.get(u64::MAX, &mut read));
    }
    #[test]
    fn a_block_that_changed_or_landed_elsewhere_is_not_read() {
        let mut shelf = Checked::new(MemoryShelf::default(), 12);
        let mut read = [0; 12];
        assert!(shelf.put(0, &[1; 12]) && shelf.put(24, &[3; 12]));
        assert!(shelf.get(24, &mut read) && read == [3; 12]);
        assert!(!shelf.get(12, &mut read), "nothing was put there");
        for at in [1, 11] {
            assert!(!shelf.put(at, &[0; 12]) && !shelf.get(at, &mut read), "no block begins there");
        }
        assert!(!shelf.put(0, &[0; 11]) && !shelf.get(0, &mut read[..11]) && !shelf.put(0, &[]));
        for bit in 0..8 * 20 {
            shelf.shelf.bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!shelf.get(0, &mut read), "bit {bit}");
            shelf.shelf.bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(shelf.get(0, &mut read) && read == [1; 12]);
        let (first, third) = (shelf.shelf.bytes[..20].to_vec(), shelf.shelf.bytes[40..].to_vec());
        shelf.shelf.bytes[40..].copy_from_slice(&first);
        assert!(!shelf.get(24, &mut read) && third != first, "another block");
    }
}
