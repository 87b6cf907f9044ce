//! Ranges of a long log: whatever was taken back since, whatever was read before, and without
//! reading the log from its beginning.

use journal::{Config, Journal, SimDisk};
use types::SplitMix64;

fn config(segment_bytes: u64) -> Config {
    let label = *b"records of a test, any bytes    ";
    let (block, batch_bytes) = (512, 4 << 10);
    Config { block, segment_bytes, batch_bytes, alone: false, ..Config::new(5, label) }
}

struct Log {
    journal: Journal<SimDisk>,
    /// Term of each record, which is another one wherever something else stood before.
    model: Vec<u64>,
    term: u64,
}

impl Log {
    fn grow(&mut self, random: &mut SplitMix64, batches: u64) {
        for _ in 0..batches {
            for _ in 0..=random.below(40) {
                let position = self.model.len() as u64 + 1;
                let bytes = position.to_le_bytes();
                if self.journal.append(self.term, &bytes).is_ok() {
                    self.model.push(self.term);
                }
            }
            self.journal.flush().expect("a disk that works");
        }
    }

    fn take_back(&mut self, random: &mut SplitMix64) {
        let most = (self.model.len() as u64 - self.journal.committed()).min(600);
        let kept = self.model.len() as u64 - random.below(most + 1);
        self.journal.truncate(kept).expect("not committed");
        self.model.truncate(kept as usize);
        self.term += 1;
    }

    fn check(&mut self, from: u64, to: u64) {
        let mut due = from;
        let model = &self.model;
        let read = self.journal.read(from, to, |record| {
            assert_eq!(record.position, due);
            assert_eq!(record.bytes, due.to_le_bytes());
            assert_eq!(record.term, model[due as usize - 1], "position {due}");
            due += 1;
        });
        read.expect("whole");
        assert_eq!(due, to.min(self.model.len() as u64).max(from - 1) + 1);
    }
}

#[test]
fn any_range_is_what_stands_there_now() {
    for seed in 0..6 {
        let random = &mut SplitMix64::new(seed);
        let (journal, _) = Journal::open(SimDisk::new(seed), &config(64 << 10)).expect("a journal");
        let mut log = Log { journal, model: Vec::new(), term: 1 };
        for round in 0..60 {
            log.grow(random, 10);
            let held = log.model.len() as u64;
            if random.below(3) == 0 {
                log.take_back(random);
            }
            if random.below(4) == 0 {
                log.journal.commit_to(held / 2);
            }
            for _ in 0..4 {
                let from = 1 + random.below(log.model.len() as u64);
                log.check(from, from + random.below(600));
            }
            if round % 20 == 19 {
                let mut disk = log.journal.into_storage();
                disk.restart();
                log.journal = Journal::open(disk, &config(64 << 10)).expect("a journal").0;
            }
        }
        assert!(log.model.len() > 4_000, "seed {seed}: {}", log.model.len());
    }
}

#[test]
fn a_range_at_the_end_costs_no_more_than_one_at_the_beginning() {
    let random = &mut SplitMix64::new(9);
    let (journal, _) = Journal::open(SimDisk::new(9), &config(8 << 20)).expect("a journal");
    let mut log = Log { journal, model: Vec::new(), term: 1 };
    log.grow(random, 3_000);
    let operations = |log: &mut Log| log.journal.storage_mut().stats().operations;
    let cost = |log: &mut Log, from: u64| {
        let before = operations(log);
        log.check(from, from + 20);
        operations(log) - before
    };
    let last = log.model.len() as u64 - 20;
    let (first, end) = (cost(&mut log, 1), cost(&mut log, last));
    assert!(end <= first + 1, "{first} operations at the beginning, {end} at the end");
}
