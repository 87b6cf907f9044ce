//! One simulated machine: a replica, its journal on its disk, its ledger; and what happens when the
//! disk fails or the machine stops.

use std::collections::{BTreeSet, VecDeque};

use journal::{Config as JournalConfig, DiskErrorKind, Journal, JournalError, SimDisk, Vote, mend};
use replication::{
    Action, Config, Entry, Fetch, Install, Kept, Recovered, Replica, ReplicaId, SnapshotRead,
    Write, fetch, kept, perform, recover,
};
use types::Nanos;

use super::ledger::{Ledger, Request};
use super::options::Bug;

/// A snapshot every so many positions, where logs are long and where they are short.
const SNAPSHOT_EVERY: [u64; 2] = [48, 16];
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
        part_bytes: 600,
        sending_ticks: 20,
        ..Config::new(GROUP, ReplicaId(id), replicas)
    }
}

fn journal_config(short: bool) -> JournalConfig {
    JournalConfig {
        block: 512,
        // The smallest that a batch fits in, or no second one ever.
        segment_bytes: if short { 4_608 } else { 192 << 10 },
        batch_bytes: if short { 4_000 } else { 8 << 10 },
        alone: false,
        // No replica shall be further behind than the log reaches; or it goes right behind the last.
        snapshots_kept: if short { 1 } else { 1 << 20 },
        ..JournalConfig::new(GROUP, *b"a group of simulated replicas...")
    }
}

/// Something for the disk to do.
enum Job {
    Write(u64, Write),
    Fetch(Fetch),
    Snapshot(u64, Vec<u8>),
    ReadSnapshot(SnapshotRead),
}

/// What a job came to.
pub(super) enum Done {
    Written(u64, Vec<Entry>),
    Fetched(u64, Vec<Entry>),
    Kept(Kept),
    Read(SnapshotRead, Vec<u8>),
    Nothing,
}

/// A machine that runs.
pub(super) struct Up {
    pub(super) replica: Replica,
    pub(super) ledger: Ledger,
    journal: Journal<SimDisk>,
    jobs: VecDeque<Job>,
    short: bool,
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
    /// Its disk is gone, or it was removed from the group: nobody starts it again.
    pub(super) gone: bool,
    pub(super) tails: u64,
    /// Its log is short.
    pub(super) short: bool,
    /// A copy of its disk.
    pub(super) copy: Option<SimDisk>,
    /// Its disk was set back, and it does not elect yet.
    pub(super) old: bool,
    /// An earlier start has found out that it may lack something.
    known_old: bool,
    /// It speaks the newest version from its next start on.
    pub(super) upgraded: bool,
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
    pub(super) fn new(id: u8, seed: u64, short: bool) -> Machine {
        Machine {
            id,
            up: None,
            disk: Some(SimDisk::new(seed)),
            life: 0,
            paused_until: 0,
            rots: false,
            lost: None,
            gone: false,
            tails: 0,
            short,
            copy: None,
            old: false,
            known_old: false,
            upgraded: false,
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
        let (mut journal, found) = Journal::open(disk, &journal_config(self.short))?;
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
        let newest = journal.snapshots().iter().copied().rfind(|info| info.position <= committed);
        let mut ledger = match newest {
            Some(info) => Ledger::restore(&journal.read_snapshot(info.position)?),
            None => None,
        }
        .unwrap_or_else(Ledger::new);
        let mut recovered: Recovered = recover(&mut journal, |record| {
            if record.position > ledger.position {
                apply(&mut ledger, bug, record.position, record.bytes);
            }
        })?;
        if bug == Some(Bug::ChangeBeforeCommit) {
            let tail = recovered.tail.iter().filter(|entry| !entry.group.is_empty());
            recovered.groups.extend(tail.map(|entry| (entry.position, entry.group.clone())));
        }
        if bug == Some(Bug::SnapshotForgetsMembers) {
            // What stands before the log is known as of a snapshot's position.
            let told = |position| journal.snapshots().iter().any(|info| info.position == position);
            recovered.groups.retain(|(position, _)| !told(*position));
        }
        self.forget(bug, &mut recovered);
        let replica = Replica::new(config.clone(), recovered, Nanos(now))
            .map_err(|_| JournalError::Config)?;
        Ok(Up {
            replica,
            ledger,
            journal,
            jobs: VecDeque::new(),
            short: self.short,
            under_way: None,
            serving: None,
            pending: BTreeSet::new(),
            packets: 0,
        })
    }

    /// The bugs that lie in what a start knows of its disk.
    fn forget(&mut self, bug: Option<Bug>, recovered: &mut Recovered) {
        let old = recovered.set_back || recovered.doubt > 0;
        let forgets = match bug {
            Some(Bug::VoteForgotten) => {
                let newest = recovered.terms.last().map_or(recovered.before.1, |(_, term)| *term);
                recovered.vote = Vote { term: newest, voted_for: 0 };
                false
            }
            Some(Bug::MarkNotDurable) => self.known_old,
            Some(Bug::TermRepeated) => true,
            _ => false,
        };
        self.known_old = old;
        if forgets {
            (recovered.set_back, recovered.doubt) = (false, 0);
        }
    }

    /// Copies the disk as a machine finds it that stops now.
    pub(super) fn keep_copy(&mut self) {
        let mut kept = None;
        self.with_disk(|disk| {
            let mut copy = disk.clone();
            copy.restart();
            kept = Some(copy);
        });
        self.copy = kept.or(self.copy.take());
    }

    /// The copy takes the place of the disk of a machine that does not run; false without one.
    pub(super) fn set_back(&mut self) -> bool {
        let (Some(disk), Some(copy)) = (&mut self.disk, self.copy.take()) else { return false };
        disk.set_back(&copy);
        self.old = true;
        true
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
        // Whoever is getting the last one shall find it, and the log behind it.
        if self.is_snapshot_due(entry.position) && !self.replica.is_sending() {
            self.take_snapshot(bug);
        }
        applied
    }

    pub(super) fn is_snapshot_due(&self, position: u64) -> bool {
        position.is_multiple_of(SNAPSHOT_EVERY[usize::from(self.short)])
    }

    /// Takes a snapshot of what was applied, unless one waits for the disk.
    pub(super) fn take_snapshot(&mut self, bug: Option<Bug>) {
        if !self.jobs.iter().any(|job| matches!(job, Job::Snapshot(..))) && self.ledger.position > 0
        {
            let bytes = self.ledger.snapshot(bug == Some(Bug::SnapshotMissesOrder));
            self.jobs.push_back(Job::Snapshot(self.ledger.position, bytes));
        }
    }

    /// The state is what another replica's snapshot says; false when it says nothing.
    pub(super) fn restore(&mut self, bug: Option<Bug>, install: &Install) -> bool {
        let less = if bug == Some(Bug::SentSnapshotMissesOrder) { 32 } else { 0 };
        let bytes = install.bytes.get(..install.bytes.len().saturating_sub(less));
        let Some(ledger) = bytes.and_then(Ledger::restore) else { return false };
        self.ledger = ledger;
        true
    }

    /// Whether the next thing that the disk does is to put a snapshot in the place of the log.
    pub(super) fn installs_next(&self) -> bool {
        matches!(self.jobs.front(), Some(Job::Write(_, write)) if write.install.is_some())
    }

    /// Queues what the replica wants of the disk.
    pub(super) fn queue(&mut self, action: Action) {
        match action {
            Action::Write { number, write } => self.jobs.push_back(Job::Write(number, write)),
            Action::Fetch(wanted) => self.jobs.push_back(Job::Fetch(wanted)),
            Action::ReadSnapshot(wanted) => self.jobs.push_back(Job::ReadSnapshot(wanted)),
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
            Job::Fetch(wanted) => match fetch(&mut self.journal, &wanted) {
                // It was given up meanwhile.
                Err(JournalError::Position(_)) => Done::Fetched(wanted.number, Vec::new()),
                entries => Done::Fetched(wanted.number, entries?),
            },
            Job::Snapshot(position, bytes) => self.write_snapshot(position, &bytes)?,
            Job::ReadSnapshot(wanted) => {
                let SnapshotRead { position, offset, most, .. } = wanted;
                match self.journal.read_snapshot_part(position, offset, most) {
                    Err(JournalError::Snapshot(_)) => Done::Read(wanted, Vec::new()),
                    Err(JournalError::Disk(error)) if error.kind == DiskErrorKind::Missing => {
                        Done::Read(wanted, Vec::new())
                    }
                    bytes => Done::Read(wanted, bytes?),
                }
            }
        };
        self.under_way = Some(done);
        Ok(Some(self.journal.storage_mut().stats().busy_ns - before))
    }

    fn write_snapshot(&mut self, position: u64, bytes: &[u8]) -> Result<Done, JournalError> {
        self.journal.commit_to(position);
        match self.journal.write_snapshot(position, bytes) {
            // One less: there will be others; or one from another replica stands for it.
            Err(JournalError::Full(_) | JournalError::Position(_)) => return Ok(Done::Nothing),
            other => other?,
        }
        if self.short {
            self.journal.retain(position)?;
        }
        Ok(Done::Kept(kept(&self.journal)))
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

    /// Records as the journal holds them, up to what is committed, and the chain after them, which
    /// is of all records there ever were.
    ///
    /// # Errors
    /// The journal's.
    pub(super) fn records(&mut self) -> Result<(Vec<Entry>, u64), JournalError> {
        let mut records = Vec::new();
        let (first, to) = (self.journal.first(), self.replica.applied());
        self.journal.read(first, to, |record| records.push(record.into()))?;
        let chain = if to == 0 { 0 } else { self.journal.chain_at(to)? };
        Ok((records, chain))
    }
}
