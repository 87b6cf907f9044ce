//! A replica's disk: one thread does its writes and reads in order. Writes that wait share one sync.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use exchange::{ExchangeConfig, Member, Role};
use journal::{Folder, Journal, JournalError};
use net::{ControlError, LoopHandle};
use replication::{Fetch, SnapshotRead, Write};
use types::{ClockReading, Outbox};

use super::checkpoints::{self, Taken};
use crate::journal::health::Health;

/// How long the disk is idle before the watermark is written.
const IDLE: Duration = Duration::from_millis(5);
/// How long it waits for room on the disk before it tries again.
const RETRY: Duration = Duration::from_millis(50);
/// What the start did not read is read in pieces of so many bytes, each so long after the one before:
/// others wait no longer for that.
const PIECE: u64 = 256 << 10;
const BETWEEN: Duration = Duration::from_millis(5);

/// What the replica wants of its disk.
pub enum Job {
    /// Make this durable.
    Write {
        /// Its number.
        number: u64,
        /// Term, vote and records.
        write: Write,
    },
    /// Read this.
    Fetch(Fetch),
    /// Read a part of a snapshot.
    ReadSnapshot(SnapshotRead),
    /// Take a snapshot of all that is committed.
    TakeSnapshot,
    /// Say where in the journal a checkpoint belongs, and pass it on.
    Place(Taken),
    /// Everything up to this position, which is durable here by then, is committed: the watermark says
    /// so with the next write, or once the disk is idle. For whoever reads the journal.
    Commit(u64),
}

/// Does jobs until there is nobody to give any, or `stop` is set and there are none.
///
/// # Errors
/// The journal's: the replica must take part in nothing after that.
pub fn serve(
    mut journal: Journal<Folder>,
    jobs: &Receiver<Job>,
    root: &LoopHandle<Role>,
    placed: &Sender<(Taken, Option<u64>)>,
    (stop, health): (&AtomicBool, &Health),
) -> Result<(), JournalError> {
    let mut next = None;
    let mut read = Some(Instant::now());
    loop {
        if read.is_some_and(|last| last.elapsed() >= BETWEEN) {
            read = (!journal.read_on(PIECE)?).then(Instant::now);
        }
        let job = match next.take() {
            Some(job) => job,
            None => match jobs.recv_timeout(IDLE) {
                Ok(job) => job,
                Err(RecvTimeoutError::Timeout) => {
                    if stop.load(Ordering::Relaxed) {
                        return journal.write_mark();
                    }
                    // What can't be written now is tried again with the next record.
                    match journal.write_mark() {
                        Ok(()) | Err(JournalError::Full(_)) => continue,
                        Err(error) => return Err(error),
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return journal.write_mark(),
            },
        };
        match job {
            Job::Write { number, write } => {
                let (number, write) = join(number, write, jobs, &mut next);
                if !perform(&mut journal, &write, root, health)? {
                    return Ok(());
                }
                tell(root, move |member, now, out| member.handle_written(now, number, out));
            }
            Job::Fetch(wanted) => {
                let entries = replication::fetch(&mut journal, &wanted).unwrap_or_default();
                let found = (wanted.number, entries);
                tell(root, move |member, now, out| member.handle_fetched(now, found, out));
            }
            Job::ReadSnapshot(wanted) => {
                let SnapshotRead { position, offset, most, .. } = wanted;
                // What can't be read is offered to nobody any more.
                let part = journal.read_snapshot_part(position, offset, most).unwrap_or_default();
                tell(root, move |member, now, out| {
                    member.handle_snapshot_read(now, (&wanted, &part), out);
                });
            }
            Job::TakeSnapshot => take_snapshot(&mut journal, root)?,
            Job::Place(taken) => {
                let chain = checkpoints::place(&mut journal, &taken);
                // Whoever writes them is there as long as this.
                let _ = placed.send((taken, chain));
            }
            Job::Commit(position) => journal.commit_to(position),
        }
    }
}

/// Takes a snapshot, gives up what is before the one before it, and says so.
fn take_snapshot(
    journal: &mut Journal<Folder>,
    root: &LoopHandle<Role>,
) -> Result<(), JournalError> {
    let position = journal.committed();
    let bytes = match exchange::compact(journal, position) {
        // The records before the log are in no snapshot that is whole: the others have them.
        Err(JournalError::Position(_)) => None,
        bytes => bytes?,
    };
    let Some(bytes) = bytes else { return Ok(()) };
    match journal.write_snapshot(position, &bytes) {
        // There will be others.
        Err(JournalError::Full(_)) => return Ok(()),
        written => written?,
    }
    let kept = replication::kept(journal);
    tell(root, move |member, now, out| member.handle_kept(now, &kept, out));
    Ok(())
}

/// Joins what waits to a write; what can't be joined is next.
fn join(
    mut number: u64,
    mut write: Write,
    jobs: &Receiver<Job>,
    next: &mut Option<Job>,
) -> (u64, Write) {
    while next.is_none() {
        match jobs.try_recv() {
            Ok(Job::Write { number: later, write: another }) => match write.join(another) {
                Ok(()) => number = later,
                Err(another) => *next = Some(Job::Write { number: later, write: another }),
            },
            Ok(fetch) => *next = Some(fetch),
            Err(_) => break,
        }
    }
    (number, write)
}

/// Makes a write durable; waits for room where the disk is full. False when the loop is over.
fn perform(
    journal: &mut Journal<Folder>,
    write: &Write,
    root: &LoopHandle<Role>,
    health: &Health,
) -> Result<bool, JournalError> {
    loop {
        match health.during(|| replication::perform(journal, write)) {
            Err(error @ JournalError::Full(_)) => {
                health.no_room(&error);
                if root.call(ExchangeConfig::ROOT, |_, _, _| {}) == Err(ControlError::Ended) {
                    return Ok(false);
                }
                std::thread::sleep(RETRY);
            }
            done => {
                done?;
                health.has_room();
                return Ok(true);
            }
        }
    }
}

/// Tells the member; waits while its loop has too much to do. A loop that has ended hears nothing.
pub fn tell(
    root: &LoopHandle<Role>,
    call: impl FnOnce(&mut Member, ClockReading, &mut Outbox) + Send + 'static,
) {
    let _ = root.call_waiting(ExchangeConfig::ROOT, move |role, now, out| {
        if let Some(member) = role.as_member_mut() {
            call(member, now, out);
        }
    });
}
