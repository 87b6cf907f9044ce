//! One machine of a group: a member, its journal on its disk, and what happens when the disk fails
//! or the machine stops.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering},
};

use exchange::{ExchangeConfig, Life, Member, MemberError, Role, group_root};
use journal::{Config as JournalConfig, Journal, JournalError, SimDisk};
use replication::{Action, Config, Entry, Fetch, ReplicaId, Write, fetch, perform};
use types::{ClockReading, Nanos, SplitMix64};

/// Name of the journals and of the group.
const GROUP: u64 = 78;
/// Queued writes that share a sync at most.
const JOIN_MAX: usize = 64;
/// What the group begins with.
const GENESIS: &[u8] = b"the exchange of a seed";

fn journal_config() -> JournalConfig {
    JournalConfig {
        block: 512,
        segment_bytes: 256 << 10,
        batch_bytes: 8 << 10,
        alone: false,
        ..JournalConfig::new(GROUP, *b"a simulated exchange's inputs...")
    }
}

fn group_config(id: u8, replicas: u8, seed: u64) -> Config {
    Config {
        seed,
        message_bytes: 4 << 10,
        in_flight: 8,
        uncommitted_bytes: 256 << 10,
        window: 64,
        digest_every: 32,
        ..Config::new(GROUP, ReplicaId(id), replicas)
    }
}

/// Something for the disk to do.
enum Job {
    Write(u64, Write),
    Fetch(Fetch),
}

/// What a job came to.
pub(super) enum Done {
    Written(u64),
    Fetched(u64, Vec<Entry>),
}

/// A machine that runs.
pub(super) struct Up {
    pub(super) role: Role,
    pub(super) journal: Journal<SimDisk>,
    jobs: VecDeque<Job>,
    /// The job under way ends in this.
    pub(super) under_way: Option<Done>,
}

/// A machine.
pub(super) struct Machine {
    pub(super) id: u8,
    pub(super) up: Option<Up>,
    /// The disk of one that does not run.
    disk: Option<SimDisk>,
    /// Times it was started.
    pub(super) life: u32,
    /// Nothing of it is done before.
    pub(super) paused_until: Nanos,
    /// It hears nobody, and nobody hears it, before.
    pub(super) cut_until: Nanos,
    /// Its clock's error against the group's.
    offset_ns: i64,
    /// What keeps it from ever starting again.
    pub(super) lost: Option<String>,
}

impl Machine {
    pub(super) fn new(id: u8, seed: u64, offset_ns: i64) -> Machine {
        Machine {
            id,
            up: None,
            disk: Some(SimDisk::new(seed)),
            life: 0,
            paused_until: Nanos(0),
            cut_until: Nanos(0),
            offset_ns,
            lost: None,
        }
    }

    /// What its clock reads.
    pub(super) fn reading(&self, now: ClockReading) -> ClockReading {
        ClockReading { now: Nanos(now.now.0.saturating_add_signed(self.offset_ns)), ..now }
    }

    /// When its member wants to be called, by the group's clock.
    pub(super) fn next_timeout(&self) -> Nanos {
        use types::Node;
        let wanted = self.up.as_ref().map_or(Nanos::NEVER, |up| up.role.next_timeout());
        if wanted == Nanos::NEVER {
            return wanted;
        }
        Nanos(wanted.0.saturating_add_signed(-self.offset_ns)).max(self.paused_until)
    }

    pub(super) fn member(&self) -> Option<&Member> {
        self.up.as_ref()?.role.as_member()
    }

    pub(super) fn leading(&self) -> Option<u64> {
        self.member()?.leading()
    }

    /// Starts with what is on the disk; whether it is to be tried again.
    pub(super) fn start(
        &mut self,
        (config, replicas): (&ExchangeConfig, u8),
        now: ClockReading,
    ) -> bool {
        let Some(disk) = self.disk.take() else { return false };
        // Opening takes the disk; when it fails, the machine tries again with it.
        let mut kept = disk.clone();
        kept.set_faults(Default::default());
        self.life += 1;
        match self.open(disk, (config, replicas), self.reading(now)) {
            Ok(up) => {
                self.up = Some(up);
                false
            }
            Err(MemberError::Journal(JournalError::Disk(_) | JournalError::Full(_))) => {
                kept.restart();
                self.disk = Some(kept);
                true
            }
            Err(error) => {
                self.disk = Some(kept);
                self.lost = Some(error.to_string());
                false
            }
        }
    }

    fn open(
        &self,
        disk: SimDisk,
        (config, replicas): (&ExchangeConfig, u8),
        now: ClockReading,
    ) -> Result<Up, MemberError> {
        let opened = Journal::open(disk, &journal_config());
        let (mut journal, _) = opened.map_err(MemberError::Journal)?;
        let group = group_config(self.id, replicas, config.seed);
        // Each time it leads, of each time it was started.
        let (drawn, id, life) = (AtomicU64::new(0), u64::from(self.id), u64::from(self.life));
        let base = SplitMix64::mix(config.seed ^ id << 56 ^ life << 24);
        let lives = move || Some(Life::of(base ^ drawn.fetch_add(1, Ordering::Relaxed)));
        let (root, new_link) = group_root(config, lives).expect("the exchange was built of it");
        let around = (now, new_link);
        let member = Member::open(root, group, GENESIS.to_vec(), &mut journal, around)?;
        let role = Role::Member(Box::new(member));
        Ok(Up { role, journal, jobs: VecDeque::new(), under_way: None })
    }

    /// The machine stops at once; what was not synced is at the disk's mercy.
    pub(super) fn stop(&mut self) {
        if let Some(up) = self.up.take() {
            let mut disk = up.journal.into_storage();
            disk.restart();
            disk.set_faults(Default::default());
            self.disk = Some(disk);
        }
        self.paused_until = Nanos(0);
    }

    /// Something done to the disk, wherever it is.
    pub(super) fn with_disk(&mut self, change: impl FnOnce(&mut SimDisk)) {
        if let Some(up) = &mut self.up {
            change(up.journal.storage_mut());
        } else if let Some(disk) = &mut self.disk {
            change(disk);
        }
    }
}

impl Up {
    /// What the member wants; jobs for the disk are queued.
    pub(super) fn take_actions(&mut self) -> Vec<Action> {
        let mut others = Vec::new();
        let member = self.role.as_member_mut().into_iter();
        for action in member.flat_map(Member::take_actions) {
            match action {
                Action::Write { number, write } => self.jobs.push_back(Job::Write(number, write)),
                Action::Fetch(wanted) => self.jobs.push_back(Job::Fetch(wanted)),
                other => others.push(other),
            }
        }
        others
    }

    /// Does the next job, if none is under way; how long it takes, ns.
    ///
    /// # Errors
    /// The journal's; after one for lack of room the job is to be tried again.
    pub(super) fn begin_job(&mut self) -> Result<Option<u64>, JournalError> {
        if self.under_way.is_some() {
            return Ok(None);
        }
        let Some(job) = self.jobs.pop_front() else { return Ok(None) };
        let before = self.journal.storage_mut().stats().busy_ns;
        let done = match job {
            Job::Write(number, write) => self.write(number, write)?,
            Job::Fetch(wanted) => Done::Fetched(wanted.number, fetch(&mut self.journal, &wanted)?),
        };
        self.under_way = Some(done);
        Ok(Some(self.journal.storage_mut().stats().busy_ns - before))
    }

    /// A write, together with those that wait behind it.
    fn write(&mut self, mut number: u64, mut write: Write) -> Result<Done, JournalError> {
        for _ in 0..JOIN_MAX {
            match self.jobs.pop_front() {
                Some(Job::Write(next, more)) => match write.join(more) {
                    Ok(()) => number = next,
                    Err(more) => {
                        self.jobs.push_front(Job::Write(next, more));
                        break;
                    }
                },
                Some(other) => {
                    self.jobs.push_front(other);
                    break;
                }
                None => break,
            }
        }
        let applied = self.role.as_member().map_or(0, |member| member.replica().applied());
        write.committed = write.committed.max(applied);
        match perform(&mut self.journal, &write) {
            Ok(()) => Ok(Done::Written(number)),
            Err(error) => {
                self.jobs.push_front(Job::Write(number, write));
                Err(error)
            }
        }
    }
}
