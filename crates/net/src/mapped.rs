//! Words of a file in memory that several processes share. The only file of this crate with `unsafe`.
//!
//! Words are atomics: whatever another process does to them, a load gives some number. What a number
//! means is for whoever reads it; this file only sees to it that the memory is there. The one thing
//! that cannot be guarded against is somebody who makes the file shorter while it is mapped: reading
//! beyond its end then ends the process. Such a file belongs where only its owner may write.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The mapped words of a file.
#[derive(Debug)]
pub(crate) struct Mapped {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping is owned by this value alone and is not tied to a thread; what is in it can be
// reached through shared references to atomics only.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the first `words` words; the file must have them.
    ///
    /// # Errors
    /// A file that is shorter, no words at all, and what the system says.
    pub(crate) fn new(file: &File, words: usize, writable: bool) -> io::Result<Mapped> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let bytes = words.checked_mul(8).filter(|&bytes| bytes > 0).ok_or_else(invalid)?;
        if file.metadata()?.len() < bytes as u64 {
            return Err(invalid());
        }
        let write = if writable { ProtFlags::WRITE } else { ProtFlags::empty() };
        // SAFETY: the system chooses the address, so nothing else is mapped over; the length is not
        // zero and the file has it.
        let start = unsafe {
            let hint = std::ptr::null_mut();
            mmap(hint, bytes, ProtFlags::READ | write, MapFlags::SHARED, file, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or_else(invalid)?;
        Ok(Mapped { start, words })
    }

    /// The words. Those of a mapping that is not writable must only be loaded.
    #[inline(always)]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: pages are aligned beyond a word; the mapping has this many words and lives as long
        // as `self`; every bit pattern is an atomic word, and atomics may change under a shared
        // reference.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, and no reference to it can be left. Nothing
        // depends on its going.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}
