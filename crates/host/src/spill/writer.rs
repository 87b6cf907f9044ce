//! A thread for each file of a spill store that does what it wants of the disk, so that no node waits
//! for one. A file that takes nothing holds up no other.
//!
//! What is put waits in a queue of at most some 8 MiB and is written in order; until it is written
//! it is read back from there. A write that fails is tried again every 50 ms, and nothing is taken
//! meanwhile. A read that the page cache can't serve is begun and asked for again.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{IoSliceMut, Result};
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::log_file::{LogHeader, RECORD_LEN};
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use types::SpillStore;

use crate::files;

/// Bytes that may wait to be written; one more job is taken below it, however long.
const WAITING_MAX: usize = 8 << 20;
/// Between two attempts of a job that fails.
const RETRY: Duration = Duration::from_millis(50);

/// What the thread does.
#[derive(Clone)]
enum Job {
    Write { file: Arc<File>, at: u64, bytes: Arc<Vec<u8>> },
    Free { file: Arc<File>, at: u64, len: u64 },
    Replace { path: PathBuf, bytes: Arc<Vec<u8>> },
    Remove(PathBuf),
}

impl Job {
    fn len(&self) -> usize {
        match self {
            Job::Write { bytes, .. } | Job::Replace { bytes, .. } => bytes.len(),
            Job::Free { .. } | Job::Remove(_) => 0,
        }
    }

    fn perform(&self) -> Result<()> {
        match self {
            Job::Write { file, at, bytes } => file.write_all_at(bytes, *at),
            Job::Free { file, at, len } => Ok(punch(file, *at, *len)?),
            Job::Replace { path, bytes } => files::replace(path, bytes),
            Job::Remove(path) => match std::fs::remove_file(path) {
                // It is of no use, and does no harm.
                Ok(()) | Err(_) => Ok(()),
            },
        }
    }
}

fn punch(file: &File, at: u64, len: u64) -> rustix::io::Result<()> {
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len)
}

#[derive(Default)]
struct State {
    /// Jobs not done, the one under way first.
    jobs: VecDeque<Job>,
    /// Bytes of these.
    bytes: usize,
    /// Jobs taken and jobs done so far.
    taken: u64,
    done: u64,
    /// Attempts that failed so far, and whether the last one did.
    failures: u64,
    failing: bool,
    /// Nobody will give more.
    closed: bool,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Something was taken, or it was closed.
    news: Condvar,
    /// Something was done, or failed.
    progress: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a job, which `make` makes with a buffer; false when too much waits, or the disk fails.
    fn take(&self, make: impl FnOnce(Vec<u8>) -> Job) -> bool {
        let mut state = self.lock();
        if state.failing || state.bytes >= WAITING_MAX {
            return false;
        }
        let job = make(state.spare.pop().unwrap_or_default());
        state.bytes += job.len();
        state.taken += 1;
        state.jobs.push_back(job);
        drop(state);
        self.news.notify_one();
        true
    }

    /// Does jobs until it is closed and there are none, or the disk fails then.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            let Some(job) = state.jobs.front().cloned() else {
                if state.closed {
                    return;
                }
                state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let done = job.perform();
            state = self.lock();
            state.failing = done.is_err();
            if state.failing {
                state.failures += 1;
                self.progress.notify_all();
                if state.closed {
                    return;
                }
                let waited = self.news.wait_timeout(state, RETRY);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            state.bytes -= job.len();
            state.done += 1;
            state.jobs.pop_front();
            if let Job::Write { bytes, .. } = job
                && let Some(mut bytes) = Arc::into_inner(bytes)
            {
                bytes.clear();
                state.spare.push(bytes);
            }
            self.progress.notify_all();
        }
    }

    /// Waits until all that was taken is done; false when an attempt fails meanwhile, or the last one
    /// did.
    fn wait(&self) -> bool {
        let mut state = self.lock();
        let (end, failures) = (state.taken, state.failures);
        while state.done < end && state.failures == failures && !state.failing {
            state = self.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.done >= end
    }
}

/// Closes the queue when nobody has it any more.
struct Handle(Arc<Queue>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.news.notify_all();
    }
}

/// The thread of a file; it ends with the last copy of this and the file's spill store.
#[derive(Clone)]
pub struct SpillWriter(Arc<Handle>);

impl SpillWriter {
    fn start() -> Result<SpillWriter> {
        let queue = Arc::new(Queue::default());
        let handle = SpillWriter(Arc::new(Handle(Arc::clone(&queue))));
        std::thread::Builder::new().name("spill".to_string()).spawn(move || queue.serve())?;
        Ok(handle)
    }

    /// Has a file written whole under its name, or not at all; false when that is not taken now.
    pub fn replace(&self, path: PathBuf, bytes: &[u8]) -> bool {
        let fill = |mut buffer: Vec<u8>| {
            buffer.extend_from_slice(bytes);
            Job::Replace { path, bytes: Arc::new(buffer) }
        };
        self.0.0.take(fill)
    }

    /// Has a file removed, if it can be; false when that is not taken now.
    pub fn remove(&self, path: PathBuf) -> bool {
        self.0.0.take(|_| Job::Remove(path))
    }

    /// Waits until all that was put is in its file; false when a write fails meanwhile.
    pub fn wait(&self) -> bool {
        self.0.0.wait()
    }
}

/// A spill store in a file, from an offset on.
pub struct FileSpill {
    writer: SpillWriter,
    file: Arc<File>,
    from: u64,
    /// Of a log, whose header says what was given up.
    header: Option<LogHeader>,
    /// The file can have holes.
    frees: bool,
}

/// Whether bytes were found among those that wait.
enum Waiting {
    Found,
    /// Some of them, or of others that overlap them.
    Partly,
    No,
}

impl FileSpill {
    /// A spill store in a file, from an offset on; `header` is that of a log, which says what was
    /// given up.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn new(file: File, from: u64, header: Option<LogHeader>) -> Result<FileSpill> {
        // Behind its end: of no effect, but refused where there are no holes.
        let frees = file.metadata().is_ok_and(|of| punch(&file, of.len(), 1).is_ok());
        Ok(FileSpill { writer: SpillWriter::start()?, file: Arc::new(file), from, header, frees })
    }

    /// The thread that writes it.
    pub fn writer(&self) -> SpillWriter {
        self.writer.clone()
    }

    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        self.writer.0.0.take(|mut buffer| {
            buffer.extend_from_slice(bytes);
            Job::Write { file: Arc::clone(&self.file), at, bytes: Arc::new(buffer) }
        })
    }

    /// Looks among what waits to be written, the newest first.
    fn find(&self, from: u64, into: &mut [u8]) -> Waiting {
        let end = from.saturating_add(into.len() as u64);
        let state = self.writer.0.0.lock();
        for job in state.jobs.iter().rev() {
            let Job::Write { file, at, bytes } = job else { continue };
            let overlaps = *at < end && from < at.saturating_add(bytes.len() as u64);
            if !Arc::ptr_eq(file, &self.file) || !overlaps {
                continue;
            }
            if *at == from && bytes.len() == into.len() {
                into.copy_from_slice(bytes);
                return Waiting::Found;
            }
            return Waiting::Partly;
        }
        Waiting::No
    }
}

impl SpillStore for FileSpill {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        let at =
            self.from.checked_add(at).filter(|at| at.checked_add(bytes.len() as u64).is_some());
        at.is_some_and(|at| self.write(at, bytes))
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(at) = self.from.checked_add(at) else { return false };
        match self.find(at, into) {
            Waiting::Found => return true,
            Waiting::Partly if !self.writer.wait() => return false,
            Waiting::Partly | Waiting::No => {}
        }
        self.file.read_exact_at(into, at).is_ok()
    }

    fn get_now(&self, at: u64, into: &mut [u8]) -> Option<bool> {
        let Some(at) = self.from.checked_add(at) else { return Some(false) };
        match self.find(at, into) {
            Waiting::Found => return Some(true),
            Waiting::Partly => return None,
            Waiting::No => {}
        }
        let len = into.len();
        match preadv2(&self.file, &mut [IoSliceMut::new(into)], at, ReadWriteFlags::NOWAIT) {
            Ok(read) if read == len => Some(true),
            Err(Errno::AGAIN) => {
                // The kernel reads it meanwhile, and what is likely to be wanted next.
                let ahead = NonZero::new(4 * len as u64);
                let _ = fadvise(&self.file, at, ahead, Advice::WillNeed);
                None
            }
            // The end of the file, or a file system that can't say whether one has to wait.
            Ok(_) | Err(_) => Some(self.file.read_exact_at(into, at).is_ok()),
        }
    }

    fn free(&mut self, at: u64, len: u64) -> bool {
        let (Some(from), Some(end)) = (self.from.checked_add(at), at.checked_add(len)) else {
            return false;
        };
        if !self.frees {
            return false;
        }
        // What says that it is gone comes before it goes.
        if let Some(header) = &mut self.header {
            header.given_up = end / RECORD_LEN as u64;
            let bytes = header.bytes();
            if !self.write(0, &bytes) {
                return false;
            }
        }
        let file = Arc::clone(&self.file);
        len == 0 || self.writer.0.0.take(|_| Job::Free { file, at: from, len })
    }

    fn flush(&mut self) -> bool {
        self.writer.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    fn scratch(name: &str) -> (PathBuf, File) {
        let path = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
        let file = files::create(&path).expect("a file");
        (path, file)
    }

    #[test]
    fn what_is_put_is_read_at_once_and_lies_in_the_file_after_a_flush() {
        let (path, file) = scratch("spill-order");
        let mut spill = FileSpill::new(file, 100, None).expect("a thread");
        let block = |n: u64| [n as u8 ^ (n >> 8) as u8; 4_096];
        for n in 0..1_000 {
            assert!(spill.put(n * 4_096, &block(n)), "{n}");
            let mut read = [0; 4_096];
            assert_eq!(spill.get_now(n * 4_096, &mut read), Some(true), "{n}");
            assert_eq!(read, block(n));
            // The newest of what waits for a place.
            assert!(spill.put(0, &block(n)) && spill.get(0, &mut read));
            assert_eq!(read, block(n));
        }
        assert!(spill.flush());
        let bytes = std::fs::read(&path).expect("there");
        assert_eq!(bytes.len(), 100 + 4_096_000);
        assert!((1..1_000).all(|n| bytes[100 + n * 4_096] == block(n as u64)[0]));
        let mut read = [0; 4_096];
        assert!(!spill.get(4_096_000, &mut read), "it ends before that");
        assert_eq!(spill.get_now(4_096_000, &mut read), Some(false));
        assert!(!spill.put(u64::MAX, b"x") && !spill.put(u64::MAX - 100, b"x"));
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn a_disk_that_takes_nothing_stops_whoever_puts_and_nobody_waits_for_it() {
        // A file that is open for reading only: every write fails.
        let (path, _) = scratch("spill-failing");
        let file = OpenOptions::new().read(true).open(&path).expect("there");
        let mut spill = FileSpill::new(file, 0, None).expect("a thread");
        assert!(spill.put(0, b"abcd"), "it is taken before anybody knows");
        assert!(!spill.flush(), "that fails");
        assert!(!spill.put(4, b"efgh"), "nothing is taken while it fails");
        let mut read = [0; 4];
        assert_eq!((spill.get_now(0, &mut read), &read), (Some(true), b"abcd"), "it is not lost");
        assert!(!spill.free(0, 4), "no holes in it");
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn a_file_that_takes_nothing_holds_up_no_other() {
        let [(bad, _), (good, file)] = ["spill-bad", "spill-good"].map(scratch);
        let refusing = OpenOptions::new().read(true).open(&bad).expect("there");
        let mut refusing = FileSpill::new(refusing, 0, None).expect("a thread");
        let mut taking = FileSpill::new(file, 0, None).expect("a thread");
        assert!(refusing.put(0, b"abcd") && taking.put(0, b"abcd"));
        assert!(!refusing.flush() && taking.flush());
        assert_eq!(std::fs::read(&good).expect("there"), b"abcd");
        [bad, good].iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
    }

    #[test]
    fn no_more_waits_than_there_is_room_for() {
        // Nobody serves this queue.
        let queue = Arc::new(Queue::default());
        let (path, file) = scratch("spill-full");
        let writer = SpillWriter(Arc::new(Handle(Arc::clone(&queue))));
        let mut spill =
            FileSpill { writer, file: Arc::new(file), from: 0, header: None, frees: true };
        let block = vec![7; 64 << 10];
        let taken = (0..1_000).take_while(|n| spill.put(n * (64 << 10), &block)).count();
        assert_eq!(taken, WAITING_MAX / (64 << 10));
        let mut part = vec![0; 100];
        assert_eq!(spill.get_now(5, &mut part), None, "it lies across what waits");
        let server = std::thread::spawn(move || queue.serve());
        assert!(spill.flush());
        assert_eq!(spill.get_now(5, &mut part), Some(true));
        drop(spill);
        server.join().expect("it ends with its last file");
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let (path, _) = scratch("spill-replaced");
        let writer = SpillWriter::start().expect("a thread");
        assert!(writer.replace(path.clone(), b"whole") && writer.wait());
        assert_eq!(std::fs::read(&path).expect("there"), b"whole");
        assert!(writer.remove(path.clone()) && writer.wait() && !path.exists());
        assert!(writer.replace(path.join("below"), b"x") && !writer.wait(), "no such folder");
    }
}
