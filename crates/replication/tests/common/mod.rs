//! A group on simulated disks with an exact network: messages arrive in order, at once, unless cut.

use std::collections::VecDeque;

use journal::{Journal, JournalError, SimDisk};
use replication::{
    Action, Config, Entry, ProposeError, Replica, ReplicaId, fetch, kept, perform, recover,
};
use types::Nanos;

pub const TICK: u64 = 10_000_000;

/// What a test's replicas make of the log.
pub trait State {
    fn new() -> Self;
    fn apply(&mut self, entry: &Entry);
    fn digest(&self) -> u64;

    /// A snapshot of it.
    fn save(&self) -> Vec<u8> {
        panic!("no snapshots in this test")
    }

    /// What a snapshot was taken of.
    fn load(_: &[u8]) -> Self
    where
        Self: Sized,
    {
        panic!("no snapshots in this test")
    }
}

pub struct Node<S> {
    pub replica: Replica,
    pub journal: Journal<SimDisk>,
    pub state: S,
    pub said: Vec<Action>,
    pub fetched: u64,
}

pub struct Group<S> {
    pub nodes: Vec<Option<Node<S>>>,
    pub disks: Vec<Option<SimDisk>>,
    /// Replicas that nobody hears and that hear nobody.
    pub cut: Vec<u8>,
    /// Replicas whose disks do nothing any more.
    pub hung: Vec<u8>,
    pub now: u64,
    /// Everything that was delivered, with who it was for.
    pub delivered: Vec<(u8, Vec<u8>)>,
    /// Whether a message gets through, by its number.
    pub passes: fn(u64, &[u8]) -> bool,
    /// The newest version that each replica speaks when it is started the next time.
    pub newest: Vec<u8>,
    /// Times that a machine stopped in the middle of an operation of its disk.
    pub crashes: u64,
    sent: u64,
    mail: VecDeque<(u8, u8, Vec<u8>)>,
    config: Config,
}

pub fn config(replicas: u8) -> Config {
    Config { digest_every: 8, window: 16, ..Config::new(5, ReplicaId(1), replicas) }
}

pub fn journal_config() -> journal::Config {
    journal::Config {
        block: 512,
        segment_bytes: 16 << 10,
        batch_bytes: 8 << 10,
        alone: false,
        ..journal::Config::new(5, [b'g'; 32])
    }
}

impl<S: State> Group<S> {
    pub fn new(config: Config) -> Group<S> {
        let count = usize::from(config.replicas + config.learners);
        let disks = (0..count as u64).map(|seed| Some(SimDisk::new(seed))).collect();
        let nodes = (0..count).map(|_| None).collect();
        let (cut, hung, mail) = (Vec::new(), Vec::new(), VecDeque::new());
        let mut group = Group {
            nodes,
            disks,
            cut,
            hung,
            now: 0,
            delivered: Vec::new(),
            passes: |_, _| true,
            newest: vec![config.newest; count],
            crashes: 0,
            sent: 0,
            mail,
            config,
        };
        (1..=count as u8).for_each(|id| group.start(id));
        group
    }

    pub fn start(&mut self, id: u8) {
        let place = usize::from(id) - 1;
        let disk = self.disks[place].take().expect("stopped before");
        let (mut journal, _) = Journal::open(disk, &journal_config()).expect("a good journal");
        let newest = kept(&journal).snapshot.map(|info| info.position);
        let from = newest.unwrap_or(0);
        let mut state = match newest {
            Some(position) => S::load(&journal.read_snapshot(position).expect("whole")),
            None => S::new(),
        };
        let recovered = recover(&mut journal, |record| {
            if record.position <= from {
                return;
            }
            let (position, term, record) = (record.position, record.term, record.bytes.to_vec());
            state.apply(&Entry { position, term, record: record.into(), group: Vec::new() });
        });
        let newest = self.newest[place];
        let start = self.now << 8 | u64::from(id);
        let config = Config { id: ReplicaId(id), start, newest, ..self.config.clone() };
        let replica = Replica::new(config, recovered.expect("readable"), Nanos(self.now));
        let replica = replica.expect("a good configuration");
        let (said, fetched) = (Vec::new(), 0);
        self.nodes[place] = Some(Node { replica, journal, state, said, fetched });
    }

    /// The machine stops at once.
    pub fn kill(&mut self, id: u8) {
        let place = usize::from(id) - 1;
        let node = self.nodes[place].take().expect("runs");
        let mut disk = node.journal.into_storage();
        disk.restart();
        self.disks[place] = Some(disk);
    }

    pub fn node(&mut self, id: u8) -> &mut Node<S> {
        self.nodes[usize::from(id) - 1].as_mut().expect("runs")
    }

    pub fn leader(&self) -> Option<u8> {
        let serves =
            |node: &Option<Node<S>>| node.as_ref().is_some_and(|n| n.replica.serving().is_some());
        let places: Vec<usize> =
            (0..self.nodes.len()).filter(|p| serves(&self.nodes[*p])).collect();
        let newest = places
            .into_iter()
            .max_by_key(|place| self.nodes[*place].as_ref().map(|node| node.replica.serving()));
        newest.map(|place| place as u8 + 1)
    }

    /// Time passes, tick by tick.
    pub fn pass(&mut self, ticks: u64) {
        for _ in 0..ticks {
            self.now += TICK;
            for id in 1..=self.nodes.len() as u8 {
                let now = Nanos(self.now);
                self.with(id, |node, out| node.replica.handle_timeout(now, out));
            }
            self.deliver();
        }
    }

    /// Until somebody serves.
    pub fn elect(&mut self) -> u8 {
        for _ in 0..500 {
            self.pass(1);
            if let Some(id) = self.leader() {
                return id;
            }
        }
        panic!("nobody leads");
    }

    pub fn propose(&mut self, id: u8, records: Vec<Vec<u8>>) -> Result<(), ProposeError> {
        let mut done = Ok(());
        self.with(id, |node, out| {
            done = node.replica.propose(records.iter().map(Vec::as_slice), out)
        });
        self.deliver();
        done
    }

    pub fn deliver(&mut self) {
        while let Some((from, to, bytes)) = self.mail.pop_front() {
            self.sent += 1;
            let passes = (self.passes)(self.sent, &bytes);
            if passes && !self.cut.contains(&from) && !self.cut.contains(&to) {
                self.delivered.push((to, bytes.clone()));
                self.with(to, |node, out| node.replica.handle_message(&bytes, out));
            }
        }
    }

    pub fn with(&mut self, id: u8, act: impl FnOnce(&mut Node<S>, &mut Vec<Action>)) {
        let Some(Some(node)) = self.nodes.get_mut(usize::from(id) - 1) else { return };
        let mut out = Vec::new();
        act(node, &mut out);
        let (mut todo, mut crashed) = (VecDeque::from(out), false);
        while let Some(action) = todo.pop_front() {
            let mut more = Vec::new();
            node.said.push(action.clone());
            match action {
                Action::Send { to, bytes } => self.mail.push_back((id, to.0, bytes)),
                Action::Write { .. } if self.hung.contains(&id) => {}
                Action::Write { number, write } => {
                    match perform(&mut node.journal, &write) {
                        Err(JournalError::Disk(_)) if node.journal.storage_mut().has_crashed() => {
                            crashed = true;
                            break;
                        }
                        done => done.expect("a disk that works"),
                    }
                    node.replica.handle_written(number, &mut more);
                }
                Action::Fetch(wanted) => {
                    node.fetched += 1;
                    let entries = fetch(&mut node.journal, &wanted).expect("readable");
                    node.replica.handle_fetched(wanted.number, entries, &mut more);
                }
                Action::ReadSnapshot(wanted) => {
                    let (at, most) = (wanted.offset, wanted.most);
                    let part = node.journal.read_snapshot_part(wanted.position, at, most);
                    let part = part.expect("readable");
                    node.replica.handle_snapshot_read(&wanted, &part, &mut more);
                }
                Action::Restore(install) => node.state = S::load(&install.bytes),
                Action::TakeSnapshot => {
                    let position = node.replica.applied();
                    node.journal.commit_to(position);
                    node.journal.write_snapshot(position, &node.state.save()).expect("room");
                    let kept = kept(&node.journal);
                    node.replica.handle_kept(&kept, &mut more);
                }
                Action::Apply(entry) => {
                    node.state.apply(&entry);
                    if node.replica.wants_digest(entry.position) {
                        let digest = node.state.digest();
                        node.replica.tell_digest(entry.position, digest, &mut more);
                    }
                }
                _ => {}
            }
            todo.extend(more);
        }
        if crashed {
            self.crashes += 1;
            self.kill(id);
            self.start(id);
        }
    }
}
