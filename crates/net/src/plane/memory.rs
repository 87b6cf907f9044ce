//! Memory that a data plane shares with the kernel: values of maps, rings and frames of AF_XDP.
//!
//! Words are atomics, as in [`crate::mapped`]. Frames are bytes, of which each is the kernel's or ours at
//! one time; the rings say whose.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A mapping of so many bytes, a multiple of eight, aligned to a page.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is owned by this value alone and is not tied to a thread; through shared references
// there is no way to it but by atomics.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps what a descriptor (a map of one value, a ring of a socket) has at `offset`.
    ///
    /// # Errors
    /// The kernel's: it refuses more than there is.
    pub fn of(fd: impl AsFd, bytes: usize, offset: u64) -> io::Result<Memory> {
        let bytes = bytes.next_multiple_of(8).max(8);
        // SAFETY: the system chooses the address, so nothing else is mapped over; the length is not zero,
        // and for the descriptors that come here the kernel refuses a mapping beyond what they have.
        let start = unsafe {
            let hint = std::ptr::null_mut();
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            mmap(hint, bytes, rights, MapFlags::SHARED | MapFlags::POPULATE, fd, offset)?
        };
        Memory::new(start, bytes)
    }

    /// Memory of our own, of zeros.
    ///
    /// # Errors
    /// The kernel's.
    pub fn own(bytes: usize) -> io::Result<Memory> {
        let bytes = bytes.next_multiple_of(8).max(8);
        // SAFETY: as above, without a descriptor.
        let start = unsafe {
            let hint = std::ptr::null_mut();
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(hint, bytes, rights, MapFlags::PRIVATE | MapFlags::POPULATE)?
        };
        Memory::new(start, bytes)
    }

    fn new(start: *mut std::ffi::c_void, bytes: usize) -> io::Result<Memory> {
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Memory { start, bytes })
    }

    /// Where it is, for the kernel.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// All of it as words.
    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: pages are aligned beyond a word; there are this many words, as long as `self` lives;
        // every bit pattern is an atomic word, and atomics may change under a shared reference.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / 8) }
    }

    /// The half word at a byte offset, a multiple of four.
    ///
    /// # Panics
    /// Beyond the end, and between half words.
    #[inline(always)]
    pub fn half(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.bytes, "a half word of this memory");
        // SAFETY: inside the mapping and aligned, as was just checked; the rest as above.
        unsafe { &*self.start.as_ptr().add(at).cast::<AtomicU32>() }
    }

    /// Bytes that the kernel has no claim on now; of memory that has no words in use by others.
    ///
    /// # Panics
    /// Beyond the end.
    #[inline(always)]
    pub fn bytes_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        assert!(at <= self.bytes && len <= self.bytes - at, "bytes of this memory");
        // SAFETY: inside the mapping, as was just checked; `&mut self` excludes other references of this
        // process. That the kernel neither reads nor writes a frame while it is ours is its contract of
        // the rings; were it broken, bytes would be wrong and nothing else, for no bit pattern is invalid.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `of` or `own`, and no reference to it can be left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
