//! Storage for data that a node keeps but seldom needs, so that the node's memory stays bounded.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::Digest;

/// Bytes by their offset. The code that composes the nodes gives each a store, for instance a file.
///
/// Called between two inputs of the node, so it must be quick: a few KiB at a time. Nothing a
/// node decides may depend on how long it takes, and what was put is read back as it was.
pub trait SpillStore: Send {
    /// Keeps bytes at an offset, without waiting for a disk; false when they were not taken, and may
    /// be tried again.
    #[must_use]
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool;

    /// Reads what was put there, all of it, and waits for a disk if it has to: for starts, ends and
    /// audits. False when it can't be read.
    #[must_use]
    fn get(&self, at: u64, into: &mut [u8]) -> bool;

    /// As [`SpillStore::get`], without waiting: `None` when a disk has to be waited for. Ask again in
    /// a while; the bytes are fetched meanwhile.
    #[must_use]
    fn get_now(&self, at: u64, into: &mut [u8]) -> Option<bool> {
        Some(self.get(at, into))
    }

    /// What lies in `len` bytes from an offset on is not needed any more: its room may be used for
    /// something else, and it can't be read. False for a spill store that gives no room back.
    #[must_use]
    fn free(&mut self, at: u64, len: u64) -> bool {
        let _ = (at, len);
        false
    }

    /// Waits until all that was put is where it is kept; false when that fails.
    #[must_use]
    fn flush(&mut self) -> bool {
        true
    }
}

/// A spill store in memory, for simulations and tests: pages that something was put on.
#[derive(Clone, Debug, Default)]
pub struct MemorySpill {
    pages: BTreeMap<u64, Vec<u8>>,
    max: Option<u64>,
}

/// Bytes of a page of [`MemorySpill`].
const PAGE: u64 = 4_096;

impl MemorySpill {
    /// A spill store for offsets below `max`, where nothing can be put beyond that.
    pub fn with_max(max: usize) -> MemorySpill {
        MemorySpill { pages: BTreeMap::new(), max: Some(max as u64) }
    }

    /// Bytes of the pages that are in use.
    pub fn used(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// The pages that hold `len` bytes from an offset on: their number, the bytes within, and how
    /// many of the `len` come before.
    fn pieces(at: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>, usize)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let (page, from) = ((at + done as u64) / PAGE, (at + done as u64) % PAGE);
            let count = (len - done).min((PAGE - from) as usize);
            let piece = (page, from as usize..from as usize + count, done);
            done += count;
            (count > 0).then_some(piece)
        })
    }
}

impl SpillStore for MemorySpill {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        let Some(end) = at.checked_add(bytes.len() as u64) else { return false };
        if self.max.is_some_and(|max| end > max) {
            return false;
        }
        for (page, within, before) in MemorySpill::pieces(at, bytes.len()) {
            let page = self.pages.entry(page).or_default();
            page.resize(page.len().max(within.end), 0);
            page[within.clone()].copy_from_slice(&bytes[before..before + within.len()]);
        }
        true
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        if at.checked_add(into.len() as u64).is_none() {
            return false;
        }
        MemorySpill::pieces(at, into.len()).all(|(page, within, before)| {
            let held = self.pages.get(&page).and_then(|page| page.get(within));
            held.is_some_and(|held| {
                into[before..before + held.len()].copy_from_slice(held);
                true
            })
        })
    }

    fn free(&mut self, at: u64, len: u64) -> bool {
        let (first, end) = (at.div_ceil(PAGE), at.saturating_add(len) / PAGE);
        let whole: Vec<u64> = self.pages.range(first..end.max(first)).map(|(n, _)| *n).collect();
        whole.iter().for_each(|page| drop(self.pages.remove(page)));
        true
    }
}

/// A spill store of blocks of one length, each with a checksum behind it. A block that has changed
/// since it was put, or that belongs to another offset, cannot be read; writes of any other length
/// or offset are refused.
pub struct Checked<S> {
    spill: S,
    block: usize,
    stored: Vec<u8>,
}

/// Bytes of a block's checksum.
const SUM: usize = 8;

impl<S: SpillStore> Checked<S> {
    /// A store of blocks of `block` bytes in `spill`, where each takes eight bytes more.
    pub fn new(spill: S, block: usize) -> Checked<S> {
        Checked { spill, block: block.max(1), stored: Vec::with_capacity(block + SUM) }
    }

    /// Offset of the block in `spill` and its number; `None` when offset and length are not those
    /// of a block.
    fn place(&self, at: u64, len: usize) -> Option<(u64, u64)> {
        let whole = len == self.block && at.is_multiple_of(self.block as u64);
        let number = at / self.block as u64;
        Some((number.checked_mul((self.block + SUM) as u64).filter(|_| whole)?, number))
    }

    /// Reads a block by `get` and compares its checksum: `Some(false)` when it cannot be read or
    /// does not match, `None` when `get` has to wait.
    fn read(
        &self,
        at: u64,
        into: &mut [u8],
        get: impl FnOnce(&S, u64, &mut [u8]) -> Option<bool>,
    ) -> Option<bool> {
        let Some((place, number)) = self.place(at, into.len()) else { return Some(false) };
        let mut stored = vec![0; self.block + SUM];
        if !get(&self.spill, place, &mut stored)? {
            return Some(false);
        }
        let Some((bytes, known)) = stored.split_last_chunk::<SUM>() else { return Some(false) };
        into.copy_from_slice(bytes);
        Some(sum(number, bytes) == u64::from_le_bytes(*known))
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

impl<S: SpillStore> SpillStore for Checked<S> {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        let Some((place, number)) = self.place(at, bytes.len()) else { return false };
        self.stored.clear();
        self.stored.extend_from_slice(bytes);
        self.stored.extend_from_slice(&sum(number, bytes).to_le_bytes());
        self.spill.put(place, &self.stored)
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        self.read(at, into, |spill, at, stored| Some(spill.get(at, stored))) == Some(true)
    }

    fn get_now(&self, at: u64, into: &mut [u8]) -> Option<bool> {
        self.read(at, into, S::get_now)
    }

    /// Frees whole blocks; false, and nothing is freed, when offset or length is no multiple of a
    /// block.
    fn free(&mut self, at: u64, len: u64) -> bool {
        let (block, stored) = (self.block as u64, (self.block + SUM) as u64);
        if !at.is_multiple_of(block) || !len.is_multiple_of(block) {
            return false;
        }
        let place = |of: u64| (of / block).checked_mul(stored);
        let Some((at, len)) = place(at).zip(place(len)) else { return false };
        self.spill.free(at, len)
    }

    fn flush(&mut self) -> bool {
        self.spill.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_read_and_nothing_else() {
        let mut spill = MemorySpill::with_max(16);
        let mut read = [0; 4];
        assert!(!spill.get(0, &mut read));
        assert!(spill.put(8, &[1, 2, 3, 4]) && spill.get(8, &mut read));
        assert_eq!(read, [1, 2, 3, 4]);
        assert!(!spill.get(9, &mut read), "it does not reach so far");
        assert!(!spill.put(13, &[0; 4]) && spill.put(12, &[0; 4]), "nothing beyond its end");
        assert!(!spill.put(u64::MAX, &[0; 4]) && !spill.get(u64::MAX, &mut read));
    }

    #[test]
    fn what_was_freed_is_gone_and_its_room_with_it() {
        let mut spill = MemorySpill::default();
        let bytes: Vec<u8> = (0..5 * PAGE).map(|n| (n % 251) as u8).collect();
        assert!(spill.put(100, &bytes) && spill.used() == 6 * PAGE);
        let mut read = vec![0; bytes.len()];
        assert!(spill.get(100, &mut read) && read == bytes);
        assert!(spill.free(100, 3 * PAGE), "two whole pages of it");
        assert_eq!(spill.used(), 4 * PAGE);
        let mut one = [0; 1];
        assert!(!spill.get(PAGE, &mut one) && !spill.get(3 * PAGE - 1, &mut one));
        assert!(spill.get(3 * PAGE, &mut one) && one[0] == bytes[3 * PAGE as usize - 100]);
        assert!(spill.free(u64::MAX - 1, 9) && spill.used() == 4 * PAGE, "nothing is there");
        // Blocks of 12 bytes take 20: 400 of them are 8,000 bytes, a page and most of another.
        let mut checked = Checked::new(MemorySpill::default(), 12);
        assert!((0..600).all(|n| checked.put(n * 12, &[n as u8; 12])));
        assert!(!checked.free(6, 12) && !checked.free(0, 13), "no blocks");
        assert!(!checked.free(u64::MAX - 3, 12), "no such place");
        assert!(checked.free(0, 400 * 12));
        let mut block = [0; 12];
        assert!(!checked.get(0, &mut block) && checked.get(400 * 12, &mut block));
        assert_eq!((block, checked.spill.used()), ([144; 12], 2 * PAGE));
    }

    /// Changes a bit of a stored block.
    fn flip(spill: &mut Checked<MemorySpill>, bit: usize) {
        let (at, mut byte) = (bit as u64 / 8, [0; 1]);
        assert!(spill.spill.get(at, &mut byte));
        assert!(spill.spill.put(at, &[byte[0] ^ 1 << (bit % 8)]));
    }

    #[test]
    fn a_block_that_changed_or_landed_elsewhere_is_not_read() {
        let mut spill = Checked::new(MemorySpill::default(), 12);
        let mut read = [0; 12];
        assert!(spill.put(0, &[1; 12]) && spill.put(24, &[3; 12]));
        assert!(spill.get(24, &mut read) && read == [3; 12]);
        assert!(!spill.get(12, &mut read), "nothing was put there");
        for at in [1, 11] {
            assert!(!spill.put(at, &[0; 12]) && !spill.get(at, &mut read), "no block begins there");
        }
        assert!(!spill.put(0, &[0; 11]) && !spill.get(0, &mut read[..11]) && !spill.put(0, &[]));
        for bit in 0..8 * 20 {
            flip(&mut spill, bit);
            assert!(!spill.get(0, &mut read), "bit {bit}");
            flip(&mut spill, bit);
        }
        assert!(spill.get(0, &mut read) && read == [1; 12]);
        let (mut first, mut third) = ([0; 20], [0; 20]);
        assert!(spill.spill.get(0, &mut first) && spill.spill.get(40, &mut third));
        assert!(spill.spill.put(40, &first));
        assert!(!spill.get(24, &mut read) && third != first, "another block");
    }
}
