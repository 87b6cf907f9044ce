//! One simulated machine: a replica, its journal on its disk, its ledger; and what happens when the
//! disk fails or the machine stops.

use std::collections::{BTreeSet, VecDeque};

use journal::{Config as JournalConfig, Journal, JournalError, SimDisk, mend};
use replication::{
    Action, Config, Entry, Fetch, Recovered, Replica, ReplicaId, Write, fetch, perform, recover,
};
use types::Nanos;

use super::ledger::{Ledger, Request};
use super::options::Bug;

/// A snapshot every so many positions.
pub(super) const SNAPSHOT_EVERY: u64 = 48;
/// Name of the journals and of the group.
const GROUP: u64 = 77;
/// Queued writes that share a sync at most.
const JOIN_MAX: usize = 64;

pub(super) fn group_config(id: u8, replicas: u8, seed: u64, digest_every: u64) -> Config {
    Config {
        seed,
        message_bytes: 2_048,
        in_flight: 8,
        uncommitted_bytes: 64 << 10,
        window: 24,
        digest_every,
        ..Config::new(GROUP, ReplicaId(id), replicas)
    }
}

fn journal_config() -> JournalConfig {
    JournalConfig {
        block: 512,
        segment_bytes: 192 << 10,
        batch_bytes: 8 << 10,
        alone: false,
        // No replica shall be further behind than the log reaches.
        snapshots_kept: 1 << 20,
        ..JournalConfig::new(GROUP, *b"a group of simulated replicas...")
    }
}

/// Position, term and bytes of a record.
pub(super) type LogRecord = (u64, u64, Vec<u8>);

/// Something for the disk to do.
enum Job {
    Write(u64, Write),
    Fetch(Fetch),
    Snapshot(u64, Vec<u8>),
}

/// What a job came to.
pub(super) enum Done {
    Written(u64, Vec<Entry>),
    Fetched(u64, Vec<Entry>),
    Nothing,
}

/// A machine that runs.
pub(super) struct Up {
    pub(super) replica: Replica,
    pub(super) ledger: Ledger,
    journal: Journal<SimDisk>,
    jobs: VecDeque<Job>,
    /// The job under way ends in this.
    pub(super) under_way: Option<Done>,
    pub(super) serving: Option<u64>,
    /// Requests on their way through the log.
    pub(super) pending: BTreeSet<(u64, u64)>,
    /// Packets of the feed sent in this term.
    pub(super) packets: u64,
}

/// A machine.
pub(super) struct Machine {
    pub(super) id: u8,
    pub(super) up: Option<Up>,
    /// The disk of one that does not run.
    pub(super) disk: Option<SimDisk>,
    /// Times it was started.
    pub(super) life: u32,
    /// Nothing of it is done before.
    pub(super) paused_until: u64,
    /// Its disk may rot.
    pub(super) rots: bool,
    /// What keeps it from ever starting again.
    pub(super) lost: Option<String>,
    pub(super) tails: u64,
}

/// How starting went.
pub(super) enum Started {
    Runs,
    Again,
    /// Its log was damaged and is set aside; started again it gets it from the others.
    Mended,
    Lost,
}

impl Machine {
    pub(super) fn new(id: u8, seed: u64) -> Machine {
        Machine {
            id,
            up: None,
            disk: Some(SimDisk::new(seed)),
            life: 0,
            paused_until: 0,
            rots: false,
            lost: None,
            tails: 0,
        }
    }

    /// Starts with what is on the disk.
    pub(super) fn start(&mut self, config: &Config, bug: Option<Bug>, now: u64) -> Started {
        let Some(disk) = self.disk.take() else { return Started::Runs };
        // Opening takes the disk; when it fails, the machine tries again with it.
        let mut kept = disk.clone();
        kept.set_faults(Default::default());
        self.life += 1;
        match self.open(disk, config, bug, now) {
            Ok(up) => {
                self.up = Some(up);
                Started::Runs
            }
            Err(JournalError::Disk(_) | JournalError::Full(_)) => {
                kept.restart();
                self.disk = Some(kept);
                Started::Again
            }
            Err(error) => {
                let mended = if self.rots { mend(&mut kept) } else { Err(error) };
                let started = match mended {
                    Ok(_) => Started::Mended,
                    Err(JournalError::Disk(_)) => {
                        kept.restart();
                        Started::Again
                    }
                    Err(error) => {
                        self.lost = Some(error.to_string());
                        Started::Lost
                    }
                };
                self.disk = Some(kept);
                started
            }
        }
    }

    fn open(
        &mut self,
        disk: SimDisk,
        config: &Config,
        bug: Option<Bug>,
        now: u64,
    ) -> Result<Up, JournalError> {
        let (mut journal, found) = Journal::open(disk, &journal_config())?;
        self.tails += u64::from(found.tail.is_some());
        if found.tail.is_some() && journal.storage_mut().stats().corrupted > 0 {
            // On a disk that rots a tail may be what had been acknowledged a moment ago: the journal
            // does not promise to tell, so neither can the group (docs/replication.md, limits).
            return Err(JournalError::Foreign("tail"));
        }
        if bug == Some(Bug::TornTailAccepted) && found.tail.is_some() {
            let term = journal.vote().term.max(1);
            journal.append(term, &[0xEE; 32])?;
            journal.flush()?;
        }
        let committed = journal.committed();
        let newest = journal.snapshots()?.into_iter().rfind(|info| info.position <= committed);
        let mut ledger = match newest {
            Some(info) => Ledger::restore(&journal.read_snapshot(info.position)?),
            None => None,
        }
        .unwrap_or_else(Ledger::new);
        let recovered: Recovered = recover(&mut journal, |record| {
            if record.position > ledger.position {
                apply(&mut ledger, bug, record.position, record.bytes);
            }
        })?;
        let replica = Replica::new(config.clone(), recovered, Nanos(now))
            .map_err(|_| JournalError::Config)?;
        Ok(Up {
            replica,
            ledger,
            journal,
            jobs: VecDeque::new(),
            under_way: None,
            serving: None,
            pending: BTreeSet::new(),
            packets: 0,
        })
    }

    /// The machine stops at once; what was not synced is at the disk's mercy.
    pub(super) fn stop(&mut self) {
        if let Some(up) = self.up.take() {
            let mut disk = up.journal.into_storage();
            disk.restart();
            disk.set_faults(Default::default());
            self.disk = Some(disk);
        }
    }

    /// Something done to the disk, wherever it is.
    pub(super) fn with_disk(&mut self, change: impl FnOnce(&mut SimDisk)) {
        if let Some(up) = &mut self.up {
            up.with_disk(change);
        } else if let Some(disk) = &mut self.disk {
            change(disk);
        }
    }
}

/// Applies a record as the machine would, with the bug that lies in applying.
fn apply(
    ledger: &mut Ledger,
    bug: Option<Bug>,
    position: u64,
    record: &[u8],
) -> Option<(Request, u64)> {
    if record.is_empty() && bug == Some(Bug::NoDedupeAfterFailover) {
        ledger.forget_who();
    }
    ledger.apply(position, record)
}

impl Up {
    pub(super) fn with_disk(&mut self, change: impl FnOnce(&mut SimDisk)) {
        change(self.journal.storage_mut());
    }

    pub(super) fn apply(&mut self, bug: Option<Bug>, entry: &Entry) -> Option<(Request, u64)> {
        let applied = apply(&mut self.ledger, bug, entry.position, &entry.record);
        if entry.position.is_multiple_of(SNAPSHOT_EVERY) {
            let bytes = self.ledger.snapshot(bug == Some(Bug::SnapshotMissesOrder));
            self.jobs.push_back(Job::Snapshot(entry.position, bytes));
        }
        applied
    }

    /// Queues what the replica wants of the disk.
    pub(super) fn queue(&mut self, action: Action) {
        match action {
            Action::Write { number, write } => self.jobs.push_back(Job::Write(number, write)),
            Action::Fetch(wanted) => self.jobs.push_back(Job::Fetch(wanted)),
            _ => {}
        }
    }

    /// Does the next job; how long it takes, ns. The end is told when that is over.
    ///
    /// # Errors
    /// The journal's; after one for lack of room the job is to be tried again.
    pub(super) fn begin_job(&mut self) -> Result<Option<u64>, JournalError> {
        let Some(job) = self.jobs.pop_front() else { return Ok(None) };
        let before = self.journal.storage_mut().stats().busy_ns;
        let done = match job {
            Job::Write(number, write) => self.write(number, write)?,
            Job::Fetch(wanted) => Done::Fetched(wanted.number, fetch(&mut self.journal, &wanted)?),
            Job::Snapshot(position, bytes) => {
                self.journal.commit_to(position);
                match self.journal.write_snapshot(position, &bytes) {
                    // One less: there will be others.
                    Err(JournalError::Full(_)) => {}
                    other => other?,
                }
                Done::Nothing
            }
        };
        self.under_way = Some(done);
        Ok(Some(self.journal.storage_mut().stats().busy_ns - before))
    }

    /// A write, together with those that wait behind it.
    fn write(&mut self, mut number: u64, mut write: Write) -> Result<Done, JournalError> {
        let mut joined = 0;
        while joined < JOIN_MAX
            && let Some(Job::Write(next, _)) = self.jobs.front()
        {
            let next = *next;
            let Some(Job::Write(_, more)) = self.jobs.pop_front() else { break };
            if let Err(more) = write.join(more) {
                self.jobs.push_front(Job::Write(next, more));
                break;
            }
            number = next;
            joined += 1;
        }
        write.committed = write.committed.max(self.replica.applied());
        match perform(&mut self.journal, &write) {
            Ok(()) => Ok(Done::Written(number, write.entries)),
            Err(error) => {
                self.jobs.push_front(Job::Write(number, write));
                Err(error)
            }
        }
    }

    /// Records as the journal holds them, up to what is committed.
    ///
    /// # Errors
    /// The journal's.
    pub(super) fn records(&mut self) -> Result<Vec<LogRecord>, JournalError> {
        let mut records = Vec::new();
        let (first, to) = (self.journal.first(), self.replica.applied());
        self.journal.read(first, to, |record| {
            records.push((record.position, record.term, record.bytes.to_vec()));
        })?;
        Ok(records)
    }
}
