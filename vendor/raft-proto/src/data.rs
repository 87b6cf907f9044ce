//! What an entry says.

use std::fmt;
use std::ops::Deref;

/// Bytes that lie in the entry itself, so that copying them allocates nothing.
const INLINE: usize = 134;

/// The bytes of an entry: up to 134 of them in the entry itself, more on the heap.
#[derive(Clone)]
pub enum EntryData {
    /// Length and bytes; what is behind the length is 0.
    Inline(u8, [u8; INLINE]),
    /// More than fit in the entry.
    Heap(Vec<u8>),
}

const _: () = assert!(INLINE <= u8::MAX as usize && size_of::<EntryData>() == 136);

impl Default for EntryData {
    fn default() -> EntryData {
        EntryData::Inline(0, [0; INLINE])
    }
}

impl Deref for EntryData {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            EntryData::Inline(len, bytes) => bytes.get(..usize::from(*len)).unwrap_or(bytes),
            EntryData::Heap(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for EntryData {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for EntryData {
    fn from(bytes: &[u8]) -> EntryData {
        let mut inline = [0; INLINE];
        match (u8::try_from(bytes.len()), inline.get_mut(..bytes.len())) {
            (Ok(len), Some(place)) => {
                place.copy_from_slice(bytes);
                EntryData::Inline(len, inline)
            }
            _ => EntryData::Heap(bytes.to_vec()),
        }
    }
}

impl From<Vec<u8>> for EntryData {
    fn from(bytes: Vec<u8>) -> EntryData {
        if bytes.len() > INLINE { EntryData::Heap(bytes) } else { bytes.as_slice().into() }
    }
}

impl PartialEq for EntryData {
    fn eq(&self, other: &EntryData) -> bool {
        **self == **other
    }
}

impl Eq for EntryData {}

impl fmt::Debug for EntryData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_are_given_back() {
        for len in [0, 1, INLINE - 1, INLINE, INLINE + 1, 255, 256, 5_000] {
            let bytes: Vec<u8> = (0..len).map(|n| n as u8 ^ 0x5a).collect();
            for data in [EntryData::from(bytes.as_slice()), EntryData::from(bytes.clone())] {
                assert_eq!((&*data, matches!(data, EntryData::Heap(_))), (&*bytes, len > INLINE));
                assert_eq!(data.clone(), data);
            }
        }
        assert_ne!(EntryData::from(&[1, 0][..]), EntryData::from(&[1][..]));
    }
}
