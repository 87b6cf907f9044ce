//! One member with its journal on a simulated disk.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use exchange::{
    Checkpoint, ExchangeConfig, Life, Member, MemberError, NewLink, Role, Root, compact, group_root,
};
use journal::{Config as JournalConfig, Journal, SimDisk};
use overlay::{private_sender::PrivateStreams, publisher::Publisher};
use replication::{Action, Config, Entry, Kept, ReplicaId, SnapshotRead, fetch, kept, perform};
use types::{Checked, ClockReading, ExecutionReport, MemorySpill, SpillStore};

use crate::world::MEMBERS;

/// Something that a member wants to have happen elsewhere.
pub enum Said {
    Send(ReplicaId, Vec<u8>),
    Written(u64),
    Fetched(u64, Vec<Entry>),
    Kept(Kept),
    Read(SnapshotRead, Vec<u8>),
}

/// A spill store whose bytes outlive the root.
#[derive(Clone, Default)]
pub struct Lasting(Arc<Mutex<MemorySpill>>);

impl SpillStore for Lasting {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.0.lock().expect("whole").put(at, bytes)
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.lock().expect("whole").get(at, into)
    }

    fn free(&mut self, at: u64, len: u64) -> bool {
        self.0.lock().expect("whole").free(at, len)
    }
}

/// Roots written down: position, inputs, bytes.
type Taken = Arc<Mutex<Vec<(u64, u64, Vec<u8>)>>>;

/// A member's place.
pub struct Machine {
    pub number: usize,
    pub role: Option<Role>,
    pub genesis: Vec<u8>,
    /// Times it was started.
    pub life: u32,
    /// Terms in which it led.
    pub terms: Vec<u64>,
    /// Times it was told that others differ.
    pub differs: u32,
    /// It takes a snapshot every so many positions, and gives up the log before.
    pub snapshot_every: u64,
    /// Its root is written down every so many positions; 0: never, and none of them is used.
    pub checkpoint_every: u64,
    /// Most bytes of private streams in its spill store; none: any.
    pub streams_max: Option<u64>,
    /// Those that are on its disk, the newest last.
    pub checkpoints: Arc<Mutex<Vec<Vec<u8>>>>,
    /// What lies beside them.
    pub feed: Lasting,
    streams: Lasting,
    taken: Taken,
    /// Inputs that the last start took from one.
    pub restored: u64,
    seed: u64,
    journal: Option<Journal<SimDisk>>,
    disk: Option<SimDisk>,
}

fn journal_config() -> JournalConfig {
    JournalConfig {
        block: 512,
        segment_bytes: 64 << 10,
        batch_bytes: 32 << 10,
        alone: false,
        ..JournalConfig::new(1, *b"a group of members of a test....")
    }
}

impl Machine {
    pub fn new(number: usize, seed: u64) -> Machine {
        Machine {
            number,
            role: None,
            genesis: b"an exchange under test".to_vec(),
            life: 0,
            terms: Vec::new(),
            differs: 0,
            snapshot_every: 0,
            checkpoint_every: 0,
            streams_max: None,
            checkpoints: Arc::default(),
            feed: Lasting::default(),
            streams: Lasting::default(),
            taken: Arc::default(),
            restored: 0,
            seed,
            journal: None,
            disk: Some(SimDisk::new(seed ^ number as u64)),
        }
    }

    pub fn start(&mut self, config: &ExchangeConfig, now: ClockReading) -> Result<(), MemberError> {
        let disk = self.disk.take().expect("it does not run");
        let (mut journal, _) = Journal::open(disk, &journal_config()).expect("an honest disk");
        let id = ReplicaId(self.number as u8 + 1);
        let group = Config {
            seed: self.seed,
            digest_every: 16,
            window: 64,
            message_bytes: 16 << 10,
            part_bytes: 5_000,
            ..Config::new(77, id, MEMBERS as u8)
        };
        let (position, root, new_link) = self.begin(config, &mut journal);
        self.restored = root.engine().applied();
        self.life += 1;
        let parts = (now, new_link);
        let genesis = self.genesis.clone();
        let opened = Member::open_behind(position, root, group, genesis, &mut journal, parts);
        match opened {
            Ok(mut member) => {
                member.take_snapshots_every(self.snapshot_every);
                let taken = Arc::clone(&self.taken);
                let keep = Box::new(move |position, root: &Root| {
                    let mut bytes = Vec::new();
                    assert!(root.checkpoint(&mut bytes), "it has spill stores and inputs");
                    let inputs = root.engine().applied();
                    taken.lock().expect("whole").push((position, inputs, bytes));
                    true
                });
                member.write_checkpoints_every(self.checkpoint_every, keep);
                self.role = Some(Role::Member(Box::new(member)));
                self.journal = Some(journal);
                Ok(())
            }
            Err(error) => {
                self.disk = Some(journal.into_storage());
                Err(error)
            }
        }
    }

    /// Its root, behind the newest checkpoint that fits, and where that is.
    fn begin(
        &mut self,
        config: &ExchangeConfig,
        journal: &mut Journal<SimDisk>,
    ) -> (u64, Box<Root>, Option<NewLink>) {
        let (base, drawn) =
            ((self.number as u64) << 48 | u64::from(self.life) << 16, Arc::default());
        let new = || {
            // Each time it leads, of each time it was started.
            let drawn: Arc<AtomicU64> = Arc::clone(&drawn);
            let lives = move || Some(Life::of(base + drawn.fetch_add(1, Ordering::Relaxed)));
            group_root(config, lives).expect("a possible exchange")
        };
        if self.checkpoint_every == 0 {
            let (root, new_link) = new();
            return (0, root, new_link);
        }
        let known = self.checkpoints.lock().expect("whole").clone();
        for bytes in known.iter().rev() {
            let Some(kept) = Checkpoint::read(bytes) else { continue };
            let (mut root, new_link) = new();
            self.spill_to(&mut root);
            if kept.fits(&self.genesis, journal) && root.restore(&kept.root).is_ok() {
                return (kept.position, root, new_link);
            }
        }
        (self.streams, self.feed) = (Lasting::default(), Lasting::default());
        self.checkpoints.lock().expect("whole").clear();
        let (mut root, new_link) = new();
        self.spill_to(&mut root);
        (0, root, new_link)
    }

    fn spill_to(&self, root: &mut Root) {
        let block = PrivateStreams::spill_block(size_of::<ExecutionReport>());
        let streams = Box::new(Checked::new(self.streams.clone(), block));
        let feed: Box<dyn SpillStore> =
            Box::new(Checked::new(self.feed.clone(), Publisher::SPILL_BLOCK));
        assert!(root.spill_output_to((streams, 128), vec![feed], 0));
        if let Some(most) = self.streams_max {
            root.bound_streams(most, true);
        }
    }

    /// First position that its journal can read.
    pub fn first(&self) -> u64 {
        self.journal.as_ref().map_or(0, Journal::first)
    }

    pub fn stop(&mut self) {
        self.role = None;
        if let Some(journal) = self.journal.take() {
            let mut disk = journal.into_storage();
            disk.restart();
            self.disk = Some(disk);
        }
    }

    pub fn member(&self) -> Option<&Member> {
        self.role.as_ref()?.as_member()
    }

    pub fn root(&self) -> Option<&Root> {
        self.role.as_ref()?.as_root()
    }

    pub fn leading(&self) -> Option<u64> {
        self.member()?.leading()
    }

    pub fn stopped(&self) -> Option<&str> {
        self.member()?.stopped()
    }

    /// Does what the disk has to do, and says what else there is.
    pub fn work(&mut self) -> Vec<Said> {
        let Some(member) = self.role.as_mut().and_then(Role::as_member_mut) else {
            return Vec::new();
        };
        let Some(journal) = &mut self.journal else { return Vec::new() };
        let mut said = Vec::new();
        let written_down = std::mem::take(&mut *self.taken.lock().expect("one thread"));
        for action in member.take_actions() {
            match action {
                Action::Send { to, bytes } => said.push(Said::Send(to, bytes)),
                Action::Write { number, write } => {
                    perform(journal, &write).expect("a disk that works");
                    said.push(Said::Written(number));
                }
                Action::Fetch(wanted) => {
                    let entries = fetch(journal, &wanted).expect("a disk that works");
                    said.push(Said::Fetched(wanted.number, entries));
                }
                Action::ReadSnapshot(wanted) => {
                    let (at, most) = (wanted.offset, wanted.most);
                    let part = journal.read_snapshot_part(wanted.position, at, most);
                    said.push(Said::Read(wanted, part.unwrap_or_default()));
                }
                Action::TakeSnapshot => {
                    let position = journal.committed();
                    let taken = compact(journal, position).expect("a disk that works");
                    if let Some(bytes) = taken {
                        journal.write_snapshot(position, &bytes).expect("a disk that works");
                        journal.retain(position).expect("a disk that works");
                        said.push(Said::Kept(kept(journal)));
                    }
                }
                Action::Restore(_) => panic!("the member's own"),
                Action::Lead { term } => self.terms.push(term),
                Action::Differs { .. } => self.differs += 1,
                Action::Follow { .. } | Action::Stop(_) => {}
                Action::Apply(_) | Action::Notice(_) | Action::Confirmed(_) => {
                    panic!("the member's own")
                }
            }
        }
        for (position, inputs, root) in written_down {
            // A member may apply what it has not written yet.
            if position > journal.durable() {
                continue;
            }
            journal.commit_to(position);
            let chain = journal.chain_at(position).expect("a disk that works");
            let genesis = self.genesis.clone();
            let whole = Checkpoint { genesis, position, chain, inputs, root };
            self.checkpoints.lock().expect("one thread").push(whole.bytes());
        }
        said
    }
}
