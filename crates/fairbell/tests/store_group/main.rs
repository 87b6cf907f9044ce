//! The store beside a group of replicas: fed from one replica's folder, and another one's after that one
//! stops, it holds what a store holds that is fed from the whole log.
//!
//! `model` is a group that is only its disks: real journals, written by what a replica writes with.

#[path = "../../../engine/tests/whole/bench.rs"]
#[allow(dead_code)]
mod bench;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../../engine/tests/whole/flow.rs"]
#[allow(dead_code)]
mod flow;
mod model;
mod node;
#[path = "../../../host/tests/common/ports.rs"]
mod ports;
mod run;
mod server;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fairbell::store::Places;
use fairbell::store::follow::{Feed, Writing};
use host::journal::reader::InputReader;
use store::{Found, Place, Query, StoreWriter, differences};
use types::{Input, SplitMix64};

use model::{Day, Group};

/// A folder for one test; gone with it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Scratch(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn feed(day: &Day, journal: &Path, file: &Path) -> Option<Feed> {
    let (journal, store) = (journal.to_path_buf(), Place::from(file));
    let places = Places { config: day.config.clone(), journal, store };
    Feed::open(&places, Writing::Hurried).expect("journal and store can be read")
}

/// A store of everything that is committed in a folder now.
fn fed_whole(day: &Day, journal: &Path, file: &Path) -> Feed {
    let mut feed = feed(day, journal, file).expect("a log");
    feed.run(Duration::ZERO, &mut |_, all| all).expect("all is read");
    feed
}

/// Rows in which two stores differ.
pub fn differ(due: &Path, found: &Path) -> (u64, u64) {
    let (due, found) = (Query::open(due).expect("a store"), Query::open(found).expect("a store"));
    let mut into = Found::keeping(3);
    differences(&due, &found, &mut into).expect("both can be asked");
    (into.rows, into.count)
}

/// Readers of one replica's folder each, beside the group; whatever they pass on is the day's.
struct Readers<'a> {
    day: &'a Day,
    of: Vec<InputReader>,
    /// Inputs that were passed on, of all.
    count: u64,
}

impl Readers<'_> {
    fn new<'a>(day: &'a Day, dir: &Path) -> Readers<'a> {
        let of = |number| InputReader::of(&dir.join(format!("replica-{number}")), false);
        Readers { day, of: (1..=3).map(of).collect(), count: 0 }
    }

    fn step(&mut self, random: &mut SplitMix64) {
        let place = random.below(3) as usize;
        let (reader, count) = (&mut self.of[place], &mut self.count);
        let mut each = |input: &Input| {
            let due = &self.day.inputs[input.seq.0 as usize - 1];
            assert!(input == due, "input {} of replica {} was taken back", input.seq.0, place + 1);
            *count += 1;
            Ok(())
        };
        let most = 1 + random.below(200) as usize;
        reader.poll(most, &mut each).expect("it goes on");
    }
}

/// A day whose leaders change, with a follower of the group's folder that is given up and opened again.
/// Gives how often a snapshot was installed, and how often another folder was gone on with.
fn history(seed: u64) -> (u64, usize) {
    let day = &Day::new("store-group", seed, 900);
    let (dir, file) = (day.at("journal"), day.at("store.db"));
    let mut random = SplitMix64::new(seed);
    let mut group = Group::new(&dir, day);
    let mut follower = None;
    let (mut restarts, mut before, mut turned) = (0, 0, 0);
    let committed = |_: &StoreWriter, input: &Input| {
        let due = &day.inputs[input.seq.0 as usize - 1];
        assert!(input == due, "seed {seed}: input {} was taken back", input.seq.0);
    };
    let mut readers = Readers::new(day, &dir);
    while !group.is_over() {
        group.step(&mut random);
        readers.step(&mut random);
        let Some(open) = &mut follower else {
            follower = feed(day, &dir, &file);
            continue;
        };
        match random.below(12) {
            0..3 => {
                open.step(committed).expect("it goes on");
                open.keeper.flush().expect("a disk that works");
            }
            // Other folders are looked at, too.
            3 => while open.step_anywhere(committed).expect("it goes on") > 0 {},
            // As if it were killed: what it took and has not written is gone.
            4 if random.below(3) == 0 => {
                follower = None;
                restarts += 1;
            }
            _ => {}
        }
        if let Some(open) = &mut follower {
            turned += open.take_notices().len();
            let taken = open.keeper.taken().applied;
            assert!(taken <= group.committed_inputs(), "seed {seed}: {taken} were not committed");
            let stored = open.keeper.stored().applied;
            assert!(stored >= before, "seed {seed}: the store went back");
            before = stored;
        }
    }
    assert!(group.leaders > 2 && group.taken_back > 0 && restarts > 0, "seed {seed}: {group:?}");
    assert!(readers.count > 300, "seed {seed}: {} were read", readers.count);
    drop(follower);
    group.settle();
    let fed = fed_whole(day, &dir, &file);
    assert_eq!(fed.keeper.stored().applied, day.inputs.len() as u64, "seed {seed}");
    assert_eq!(fed.behind(), 0);
    // The leader's log alone, the log of the lone exchange that the day is of, and each replica's.
    let (alone, due) = (day.journal.clone(), day.at("due.db"));
    let whole = fed_whole(day, &alone, &due);
    assert_eq!(whole.keeper.stored(), fed.keeper.stored(), "seed {seed}: other reports");
    let (rows, count) = differ(&due, &file);
    assert!(rows > 100 && count == 0, "seed {seed}: {count} of {rows} rows differ");
    for number in 1..=3 {
        let (replica, one) = (dir.join(format!("replica-{number}")), day.at("one.db"));
        drop(fed_whole(day, &replica, &one));
        assert_eq!(differ(&due, &one).1, 0, "seed {seed}: replica {number}");
        let mut read = Vec::new();
        let each = |input: &Input| {
            read.push(*input);
            Ok(())
        };
        let count = host::journal::read::inputs(&replica, |_| Ok(()), each).expect("a log");
        assert_eq!(count, read.len() as u64);
        assert!(read == day.inputs, "seed {seed}: replica {number} exports another log");
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", one.display()));
        }
    }
    (group.installed, turned)
}

#[test]
fn a_store_fed_from_replicas_equals_one_fed_from_the_leaders_log() {
    let all: Vec<(u64, usize)> = (0..24).map(history).collect();
    let some = all.iter().any(|seen| seen.0 > 0) && all.iter().any(|seen| seen.1 > 0);
    assert!(some, "too little happened: {all:?}");
}

/// Negative control: who takes what is not committed has rows of what was taken back.
#[test]
fn a_follower_that_takes_an_uncommitted_tail_is_caught() {
    let day = Day::new("store-group-control", 7, 900);
    let mut random = SplitMix64::new(7);
    let mut group = Group::new(&day.at("journal"), &day);
    let mut caught = 0;
    while !group.is_over() && caught == 0 {
        group.step(&mut random);
        let Some(tail) = group.uncommitted_tail() else { continue };
        if !tail.iter().any(|input| day.inputs.get(input.seq.0 as usize - 1) != Some(input)) {
            continue;
        }
        let file = day.at("heedless.db");
        let Some(heedless) = feed(&day, &day.at("journal"), &file) else { continue };
        let mut heedless = heedless.keeper;
        for due in &day.inputs {
            // By position and number it is the next one, as good as any.
            let taken = tail.iter().find(|input| input.seq == due.seq).unwrap_or(due);
            heedless.take(taken).expect("the next one");
        }
        heedless.flush().expect("written");
        drop(heedless);
        let due = day.at("due.db");
        drop(fed_whole(&day, &day.journal, &due));
        caught = differ(&due, &file).1;
    }
    assert!(caught > 0, "nothing was taken back");
}
