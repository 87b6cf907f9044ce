//! Memory whose first byte is at the start of a page, as direct I/O needs it.

use crate::layout::BLOCK_MAX;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Alignment in bytes that every block device accepts.
const PAGE: usize = 4_096;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

const _: () = assert!(size_of::<Page>() == PAGE && align_of::<Page>() == PAGE);
const _: () = assert!(BLOCK_MAX.is_multiple_of(PAGE), "whole blocks are whole pages");

/// A growing run of bytes in aligned memory; what it does not use is unspecified.
#[derive(Clone, Default)]
pub struct AlignedBuf {
    pages: Vec<Page>,
    len: usize,
}

impl AlignedBuf {
    /// An empty buffer that holds `bytes` bytes without growing.
    pub(crate) fn with_capacity(bytes: usize) -> AlignedBuf {
        AlignedBuf { pages: vec![Page([0; PAGE]); bytes.div_ceil(PAGE)], len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Sets the length to `len` bytes; new bytes are zero.
    pub(crate) fn resize(&mut self, len: usize) {
        self.reserve(len);
        let from = self.len;
        self.len = len;
        self.assert_holds();
        if let Some(grown) = self.bytes_mut().get_mut(from..) {
            grown.fill(0);
        }
    }

    /// Lengthens the buffer and returns the new bytes, all of which the caller has to write.
    pub(crate) fn grow(&mut self, bytes: usize) -> &mut [u8] {
        let from = self.len;
        self.reserve(from + bytes);
        self.len += bytes;
        self.assert_holds();
        &mut self.pages.as_mut_bytes()[from..from + bytes]
    }

    /// Checks that the bytes in use are within the allocated memory.
    fn assert_holds(&self) {
        assert!(self.len <= self.pages.len() * PAGE);
    }

    /// The bytes in use; the first is at the start of a page.
    pub fn bytes(&self) -> &[u8] {
        self.pages.as_bytes().get(..self.len).unwrap_or(&[])
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.pages.as_mut_bytes().get_mut(..self.len).unwrap_or(&mut [])
    }

    fn reserve(&mut self, bytes: usize) {
        let pages = bytes.div_ceil(PAGE);
        if pages > self.pages.len() {
            self.pages.resize(pages.max(self.pages.len() * 2), Page([0; PAGE]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_and_grows_with_zeros() {
        let mut buffer = AlignedBuf::with_capacity(10);
        buffer.grow(5_000).fill(7);
        buffer.resize(4_000);
        buffer.resize(9_000);
        assert_eq!(buffer.bytes().as_ptr() as usize % PAGE, 0);
        assert!(buffer.bytes()[..4_000].iter().all(|byte| *byte == 7));
        assert!(buffer.bytes()[4_000..].iter().all(|byte| *byte == 0));
        assert_eq!(buffer.len(), 9_000);
    }
}
