//! A group of three that is only its disks: who leads, who hears, who stops, by a seed. What it writes
//! goes through `replication::perform`, as a replica's writes do.

use std::path::{Path, PathBuf};

use engine::{Engine, Output};
use host::config::{Config, Loaded};
use host::journal::kept::{self, Genesis};
use host::replica::node::LABEL;
use journal::{Folder, FolderConfig, Journal, Syncing};
use replication::{Entry, Install, Write};
use types::{Input, Nanos, Seq, SplitMix64};
use zerocopy::IntoBytes;

use super::Scratch;
use super::flow::Flow;

/// A day as a lone exchange had it, by a seed.
pub struct Day {
    scratch: Scratch,
    pub config: Config,
    pub journal: PathBuf,
    pub genesis: Vec<u8>,
    pub inputs: Vec<Input>,
}

impl Day {
    pub fn new(name: &str, seed: u64, inputs: usize) -> Day {
        let scratch = Scratch::new(&format!("{name}-{seed}"));
        let journal = scratch.at("alone");
        let config = Loaded::text("day.toml", "").and_then(Loaded::finish).expect("a day");
        let of = host::deployment::engine_config(&config);
        let genesis = Genesis {
            rules_version: engine::RULES_VERSION,
            config_digest: of.digest(),
            session: *b"FAIR000001",
            midnight: Nanos(0),
        };
        let (mut flow, mut engine) = (Flow::new(seed), Engine::new(of));
        let mut out = Output::default();
        let next = |_| {
            let input = flow.next_input(engine.books().last_match_number().0);
            out.clear();
            let _ = engine.apply(&input, &mut out);
            input
        };
        let inputs: Vec<Input> = (0..inputs).map(next).collect();
        std::fs::create_dir_all(&journal).expect("a folder");
        let mut log = open(&journal, &journal::Config::new(76, kept::LABEL));
        let genesis = genesis.bytes().to_vec();
        let records = inputs.iter().map(IntoBytes::as_bytes);
        for record in std::iter::once(genesis.as_slice()).chain(records) {
            log.append(1, record).expect("room");
            log.flush().expect("room");
        }
        let last = log.last();
        log.commit_to(last);
        log.write_mark().expect("a disk that works");
        drop(log);
        Day { scratch, config, journal, genesis, inputs }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.scratch.at(name)
    }
}

/// One replica's disk.
struct Disk {
    dir: PathBuf,
    /// Nothing while it has stopped.
    journal: Option<Journal<Folder>>,
    log: Vec<Entry>,
}

/// The group.
pub struct Group {
    disks: Vec<Disk>,
    genesis: Vec<u8>,
    inputs: Vec<Input>,
    leader: usize,
    term: u64,
    committed: u64,
    /// Changes of leader.
    pub leaders: u64,
    /// Records that were on a leader's disk and were taken back.
    pub taken_back: u64,
    /// Snapshots that were put in the place of a log.
    pub installed: u64,
    /// What the leader before has that others lack.
    tail: Option<Vec<Input>>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Group { leaders, taken_back, committed, term, .. } = self;
        write!(f, "{leaders} leaders, {taken_back} taken back, {committed} in term {term}")
    }
}

fn open(dir: &Path, config: &journal::Config) -> Journal<Folder> {
    let folder = FolderConfig { syncing: Syncing::Never, direct: false, zeroed: false };
    let folder = Folder::open(dir, folder).expect("a folder");
    let config = journal::Config { batch_bytes: 16 << 10, ..config.clone() };
    let config = journal::Config { block: 512, segment_bytes: 64 << 10, alone: false, ..config };
    Journal::open(folder, &config).expect("a journal").0
}

/// A replica's.
fn open_replica(dir: &Path) -> Journal<Folder> {
    open(dir, &journal::Config::new(77, LABEL))
}

impl Group {
    pub fn new(dir: &Path, day: &Day) -> Group {
        let disk = |number| {
            let dir = dir.join(format!("replica-{number}"));
            std::fs::create_dir_all(&dir).expect("a folder");
            Disk { journal: Some(open_replica(&dir)), dir, log: Vec::new() }
        };
        let mut group = Group {
            disks: (1..=3).map(disk).collect(),
            genesis: day.genesis.clone(),
            inputs: day.inputs.clone(),
            leader: 0,
            term: 1,
            committed: 0,
            leaders: 1,
            taken_back: 0,
            installed: 0,
            tail: None,
        };
        group.begin();
        group
    }

    /// All inputs are committed.
    pub fn is_over(&self) -> bool {
        self.committed_inputs() == self.inputs.len() as u64
    }

    pub fn committed_inputs(&self) -> u64 {
        let known = self.disks.iter().find(|disk| disk.log.len() as u64 >= self.committed);
        let log = &known.expect("most have it").log;
        log.iter().take(self.committed as usize).filter(|entry| entry.record.len() == 128).count()
            as u64
    }

    /// What is on the disk of the leader before, and will be taken back.
    pub fn uncommitted_tail(&self) -> Option<&Vec<Input>> {
        self.tail.as_ref()
    }

    fn inputs_of(&self, of: usize) -> usize {
        self.disks[of].log.iter().filter(|entry| entry.record.len() == 128).count()
    }

    /// What a leader writes first; it says what exchange it is, where its log does not.
    fn begin(&mut self) {
        self.append(Vec::new());
        let genesis = self.genesis.clone();
        let log = &self.disks[self.leader].log;
        if log.iter().all(|entry| *entry.record != *genesis) {
            self.append(genesis);
        }
    }

    fn is_in_turn(&self, of: usize) -> bool {
        let held = self.disks[of].log.iter().filter(|entry| entry.record.len() == 128);
        held.zip(&self.inputs).all(|(entry, input)| *entry.record == *input.as_bytes())
    }

    fn append(&mut self, record: Vec<u8>) {
        let disk = &mut self.disks[self.leader];
        let position = disk.log.len() as u64 + 1;
        let entry = Entry { position, term: self.term, record: record.into(), group: Vec::new() };
        disk.log.push(entry.clone());
        let write = Write { entries: vec![entry], committed: self.committed, ..Write::default() };
        let journal = disk.journal.as_mut().expect("it leads");
        replication::perform(journal, &write).expect("room");
    }

    /// Gives a replica what the leader has.
    fn replicate(&mut self, to: usize) {
        let leader = self.leader;
        if to == leader || self.disks[to].journal.is_none() {
            return;
        }
        let theirs = self.disks[leader].log.clone();
        let ours = &self.disks[to].log;
        let same = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        let kept = (same < ours.len()).then_some(same as u64);
        self.taken_back += (ours.len() - same) as u64;
        let first = self.disks[leader].journal.as_ref().map_or(1, Journal::first);
        let mut write = Write { kept, committed: self.committed, ..Write::default() };
        if (same as u64) + 1 < first {
            // The leader has given that part up.
            let from = self.disks[leader].journal.as_mut().expect("it leads");
            let info = *from.snapshots().last().expect("a snapshot stands for it");
            let bytes = from.read_snapshot(info.position).expect("whole");
            let group = Vec::new();
            write.install = Some(Box::new(Install { info, group, bytes: bytes.into() }));
            write.kept = None;
            self.installed += 1;
            write.entries = theirs[info.position as usize..].to_vec();
        } else {
            write.entries = theirs[same..].to_vec();
        }
        if write.entries.is_empty() {
            write.kept = None;
        }
        let journal = self.disks[to].journal.as_mut().expect("it runs");
        replication::perform(journal, &write).expect("room");
        self.disks[to].log = theirs;
    }

    /// What most have, of the leader's own term, is committed.
    fn commit(&mut self) {
        let log = &self.disks[self.leader].log;
        let held = |position: usize| {
            let same = |disk: &&Disk| disk.log.get(position - 1) == log.get(position - 1);
            self.disks.iter().filter(same).count() >= 2
        };
        let newest = (1..=log.len()).rev().find(|position| held(*position));
        let own = |position: &usize| log[*position - 1].term == self.term;
        if let Some(position) = newest.filter(own) {
            self.committed = self.committed.max(position as u64);
        }
    }

    /// Another one leads, which has all that is committed.
    fn elect(&mut self) {
        let former = self.leader;
        // Who logged an order out of turn leads no more before it has taken that back: the day that is
        // committed is to be the one that was played.
        let others = (0..3).filter(|of| *of != former && self.disks[*of].journal.is_some());
        let others = others.filter(|of| self.is_in_turn(*of));
        let newest = |of: &usize| {
            let log = &self.disks[*of].log;
            (log.last().map_or(0, |entry| entry.term), log.len())
        };
        let Some(next) = others.max_by_key(newest) else { return };
        // Of those two it is one of most, and nobody else votes: both must hear each other.
        let whole = self.disks[next].log.len() as u64 >= self.committed;
        let voters = (0..3).filter(|of| newest(of) <= newest(&next)).count();
        if !whole || voters < 2 {
            return;
        }
        let (before, after) = (&self.disks[former].log, &self.disks[next].log);
        let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
        let of = |entry: &Entry| host::journal::kept::input_of(&entry.record);
        let tail: Vec<Input> = before[same..].iter().filter_map(of).collect();
        self.tail = Some(tail).filter(|tail| !tail.is_empty());
        (self.leader, self.term, self.leaders) = (next, self.term + 1, self.leaders + 1);
        self.begin();
    }

    /// Something happens.
    pub fn step(&mut self, random: &mut SplitMix64) {
        let one = random.below(3) as usize;
        match random.below(20) {
            0..6 => {
                for _ in 0..1 + random.below(12) {
                    let next = self.inputs_of(self.leader);
                    let Some(input) = self.inputs.get(next) else { break };
                    let bytes = input.as_bytes().to_vec();
                    self.append(bytes);
                }
            }
            6..12 => self.replicate(one),
            12..15 => self.commit(),
            // It hears nobody any more, and logs an order that another leader will not have in this
            // place: its sender sends it again, after the others.
            15 => {
                let next = self.inputs_of(self.leader);
                if let Some(later) = self.inputs.get(next + 1) {
                    let seq = Seq(next as u64 + 1);
                    let bytes = Input { seq, ..*later }.as_bytes().to_vec();
                    self.append(bytes);
                    let before = self.leaders;
                    self.elect();
                    if self.leaders == before {
                        self.give_up_last();
                    }
                }
            }
            16 => {
                if let Some(journal) = &mut self.disks[one].journal {
                    journal.write_mark().expect("a disk that works");
                }
            }
            17 => self.snapshot(one),
            18 if one != self.leader => {
                // It stops, or starts again.
                self.disks[one].journal = match self.disks[one].journal.take() {
                    Some(_) => None,
                    None => Some(open_replica(&self.disks[one].dir)),
                };
            }
            _ => {}
        }
    }

    /// Nobody else can lead: the order is taken back by the leader itself, as one does that starts again.
    fn give_up_last(&mut self) {
        let disk = &mut self.disks[self.leader];
        disk.log.pop();
        let kept = disk.log.len() as u64;
        let journal = disk.journal.as_mut().expect("it leads");
        journal.truncate(kept).expect("not committed");
        self.taken_back += 1;
    }

    fn snapshot(&mut self, of: usize) {
        let Some(journal) = &mut self.disks[of].journal else { return };
        let position = journal.committed();
        let compact = exchange::compact(journal, position).expect("read");
        if let Some(bytes) = compact.filter(|_| position > 20) {
            journal.write_snapshot(position, &bytes).expect("room");
            journal.retain(position).expect("a disk that works");
        }
    }

    /// All hear of all.
    pub fn settle(&mut self) {
        for disk in &mut self.disks {
            disk.journal.get_or_insert_with(|| open_replica(&disk.dir));
        }
        (0..3).for_each(|of| self.replicate(of));
        self.commit();
        let committed = self.committed;
        for disk in &mut self.disks {
            let journal = disk.journal.as_mut().expect("it runs");
            journal.commit_to(committed);
            journal.write_mark().expect("a disk that works");
        }
    }
}
