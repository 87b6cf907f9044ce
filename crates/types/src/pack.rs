//! Integers and byte strings in a row, for state that a node saves and reads back: little-endian,
//! and read with bounds, so that no input makes a reader panic or reserve much memory.

/// Appends words to a buffer.
pub struct Packer<'a> {
    bytes: &'a mut Vec<u8>,
}

impl<'a> Packer<'a> {
    /// A packer that appends to `bytes`.
    pub fn new(bytes: &'a mut Vec<u8>) -> Packer<'a> {
        Packer { bytes }
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Appends four bytes, little endian.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends eight bytes, little endian.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a length or a count as eight bytes, little endian.
    pub fn count(&mut self, value: usize) {
        self.u64(value as u64);
    }

    /// Appends bytes without a length; the reader has to know how many there are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends what `fill` writes, with its length in bytes before it (eight bytes, little endian).
    pub fn section(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        self.u64(0);
        fill(self.bytes);
        let length = (self.bytes.len() - at - 8) as u64;
        if let Some(place) = self.bytes.get_mut(at..at + 8) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }
}

/// Reads integers and byte strings from a slice; every read is `None` when too few bytes are left.
pub struct Unpacker<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Unpacker<'a> {
    /// A reader that stands at the first byte of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Unpacker<'a> {
        Unpacker { bytes, at: 0 }
    }

    /// Number of bytes read so far.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Reads this many bytes; `None` if there are fewer.
    pub fn raw(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..)?.get(..length)?;
        self.at += length;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.raw(N)?.first_chunk().copied()
    }

    /// Reads one byte; `None` at the end of the slice.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Reads a byte as a flag; `None` for a value other than 0 and 1.
    pub fn bool(&mut self) -> Option<bool> {
        self.u8().filter(|byte| *byte < 2).map(|byte| byte == 1)
    }

    /// Reads four bytes, little endian; `None` if there are fewer.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads eight bytes, little endian; `None` if there are fewer.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a count of elements of at least `each` bytes; `None` when so many elements cannot be
    /// in the rest of the slice.
    pub fn count(&mut self, each: usize) -> Option<usize> {
        let count = usize::try_from(self.u64()?).ok()?;
        let left = self.bytes.len() - self.at;
        (count.checked_mul(each.max(1))? <= left).then_some(count)
    }

    /// Reads a byte string with its length before it, as [`Packer::section`] writes it.
    pub fn section(&mut self) -> Option<&'a [u8]> {
        let length = self.count(1)?;
        self.raw(length)
    }

    /// Checks that all bytes were read; `None` when some are left.
    pub fn end(&self) -> Option<()> {
        (self.at == self.bytes.len()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_read_and_nothing_beyond() {
        let mut bytes = Vec::new();
        let mut to = Packer::new(&mut bytes);
        to.u8(1);
        to.u32(2);
        to.u64(3);
        to.section(|bytes| bytes.extend_from_slice(b"four"));
        to.count(2);
        to.raw(b"abcd");
        let read = |bytes: &[u8]| {
            let mut from = Unpacker::new(bytes);
            let first = (from.bool()?, from.u32()?, from.u64()?, from.section()?.to_vec());
            let count = from.count(2)?;
            let rest = from.raw(2 * count)?.to_vec();
            from.end()?;
            Some((first, count, rest))
        };
        let whole = ((true, 2, 3, b"four".to_vec()), 2, b"abcd".to_vec());
        assert_eq!(read(&bytes), Some(whole));
        for len in 0..bytes.len() {
            assert_eq!(read(&bytes[..len]), None, "{len} bytes");
        }
        bytes.push(0);
        assert_eq!(read(&bytes), None, "one too many");
        // A count that nothing can follow asks for no memory.
        assert_eq!(Unpacker::new(&[0xff; 8]).count(1), None);
        assert_eq!(Unpacker::new(&[0xff; 8]).section(), None);
        assert_eq!(Unpacker::new(&[2]).bool(), None);
    }
}
