//! One write at a time through `io_uring`: the kernel writes and syncs it while its caller goes on.
//!
//! The buffer belongs to the ring from the submission to the completion, so it stays where it is as
//! long as the device may read it.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, squeue::Flags, types};
use rustix::io::Errno;

use crate::buffer::AlignedBuf;
use crate::storage::FileId;

/// Entries of the ring's queues: a write and its sync, with room to spare.
const ENTRIES: u32 = 4;
/// Numbers that tell the two operations, write and sync, apart.
const WRITE: u64 = 1;
const SYNC: u64 = 2;

/// A write that the kernel is carrying out.
pub(crate) struct UnderWay {
    pub(crate) file: FileId,
    pub(crate) at: u64,
    pub(crate) buffer: AlignedBuf,
}

/// Result of a write: bytes written, and whether they are durable.
pub(crate) type Ended = Result<(usize, bool), Errno>;

/// The ring, and the write that it carries out at present.
pub(crate) struct Ring {
    ring: IoUring,
    under_way: Option<UnderWay>,
}

impl Ring {
    /// Asks the kernel for a ring.
    ///
    /// # Errors
    /// The kernel's: it has none, or does not allow it.
    pub(crate) fn new() -> Result<Ring, Option<Errno>> {
        let ring = IoUring::new(ENTRIES).map_err(|error| Errno::from_io_error(&error))?;
        Ok(Ring { ring, under_way: None })
    }

    /// Begins to write and sync; returns the write when the kernel does not take it.
    pub(crate) fn begin(
        &mut self,
        fd: BorrowedFd<'_>,
        write: UnderWay,
    ) -> Result<(), (UnderWay, Option<Errno>)> {
        let (bytes, fd) = (write.buffer.bytes(), types::Fd(fd.as_raw_fd()));
        let Ok(len) = u32::try_from(bytes.len()) else {
            return Err((write, Some(Errno::FBIG)));
        };
        if self.under_way.is_some() {
            return Err((write, Some(Errno::BUSY)));
        }
        // A write that is cut short breaks the link, and nothing is synced.
        let entries = [
            opcode::Write::new(fd, bytes.as_ptr(), len)
                .offset(write.at)
                .build()
                .flags(Flags::IO_LINK)
                .user_data(WRITE),
            opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build().user_data(SYNC),
        ];
        // SAFETY: the buffer and the file stay valid until both operations have completed: the buffer
        // is kept in `under_way`, which only `finish` and `drop` take, after they have waited; the
        // kernel holds the file from the submission below on.
        let pushed = unsafe { self.ring.submission().push_multiple(&entries) };
        if pushed.is_err() {
            return Err((write, Some(Errno::BUSY)));
        }
        self.under_way = Some(write);
        // Interrupted, they are submitted by whoever waits.
        match self.ring.submit() {
            Err(error) if Errno::from_io_error(&error) != Some(Errno::INTR) => {
                // Nothing is known of them; the buffer stays here for good.
                std::mem::forget(self.under_way.take());
                let write = UnderWay { file: FileId(0), at: 0, buffer: AlignedBuf::default() };
                Err((write, Errno::from_io_error(&error)))
            }
            _ => Ok(()),
        }
    }

    /// Waits for the write that is going on; `None` when there is none.
    pub(crate) fn finish(&mut self) -> Option<(UnderWay, Ended)> {
        self.under_way.as_ref()?;
        let ended = self.wait();
        let write = self.under_way.take()?;
        match ended {
            Ok(ended) => Some((write, ended)),
            Err(errno) => {
                // It may still be read by the device: it is never freed.
                let UnderWay { file, at, buffer } = write;
                std::mem::forget(buffer);
                Some((UnderWay { file, at, buffer: AlignedBuf::default() }, Err(errno)))
            }
        }
    }

    /// Waits for both operations. An error means that they may not have completed.
    fn wait(&mut self) -> Result<Ended, Errno> {
        let (mut wrote, mut synced) = (None, None);
        while wrote.is_none() || synced.is_none() {
            for done in self.ring.completion() {
                match done.user_data() {
                    WRITE => wrote = Some(done.result()),
                    _ => synced = Some(done.result()),
                }
            }
            if wrote.is_some() && synced.is_some() {
                break;
            }
            if let Err(error) = self.ring.submit_and_wait(1) {
                match Errno::from_io_error(&error) {
                    Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                    errno => return Err(errno.unwrap_or(Errno::IO)),
                }
            }
        }
        let (wrote, synced) = (wrote.unwrap_or(0), synced.unwrap_or(0));
        let written = match usize::try_from(wrote) {
            Ok(written) => written,
            Err(_) => return Ok(Err(Errno::from_raw_os_error(-wrote))),
        };
        // A broken link: there is more to write.
        if synced == -Errno::CANCELED.raw_os_error() {
            return Ok(Ok((written, false)));
        }
        match synced {
            0.. => Ok(Ok((written, true))),
            errno => Ok(Err(Errno::from_raw_os_error(-errno))),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The device must not read what has been freed.
        let _ = self.finish();
    }
}
