//! Where a node lays down what it keeps and seldom needs, so that its memory stays bounded.

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
}
