//! One flipped bit at any of a thousand places of the committed part is found, with segment and
//! offset; above it, it is cut off and reported. A follower's copy restores service.

use std::ops::ControlFlow;

use journal::{Config, Journal, JournalError, SimDisk, Storage, Vote, export, mend, verify};
use types::SplitMix64;

fn config() -> Config {
    Config {
        block: 512,
        segment_bytes: 16_384,
        batch_bytes: 4_096,
        ..Config::new(5, *b"records of a test, any bytes    ")
    }
}

/// A journal of 300 records over several segments, closed well; then a batch whose write was not
/// finished, if asked for.
fn disk(tail: bool) -> (SimDisk, Vec<Vec<u8>>) {
    let mut disk = SimDisk::new(3);
    let mut rng = SplitMix64::new(9);
    let (mut journal, _) = Journal::open(&mut disk, &config()).expect("a new journal");
    let mut records = Vec::new();
    for n in 0..300 {
        let record: Vec<u8> = (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect();
        journal.append(1, &record).expect("room");
        records.push(record);
        if n % 7 == 0 {
            journal.flush().expect("a disk that works");
        }
    }
    journal.flush().expect("a disk that works");
    journal.into_storage();
    if tail {
        // The watermark as it was before the last batch.
        let mark = disk.bytes("mark").expect("a watermark").to_vec();
        let (mut journal, _) = Journal::open(&mut disk, &config()).expect("a journal");
        for _ in 0..10 {
            journal.append(1, &[0xee; 150]).expect("room");
        }
        journal.flush().expect("a disk that works");
        journal.into_storage();
        disk.put("mark", &mark);
    }
    (disk, records)
}

/// Segments' names with their used bytes.
fn used(disk: &mut SimDisk) -> Vec<(String, u64)> {
    let found = verify(disk).expect("a whole journal");
    found.segments.iter().map(|s| (format!("log-{:016x}", s.number), s.used)).collect()
}

#[test]
fn a_thousand_flips_in_the_committed_part_are_found_every_time() {
    let (whole, _) = disk(false);
    let segments = used(&mut whole.clone());
    assert!(segments.len() > 3);
    let all: u64 = segments.iter().map(|(_, used)| used * 8).sum();
    let mut rng = SplitMix64::new(1);
    for n in 0..1_000 {
        let mut bit = rng.next_u64() % all;
        let hit = |(_, used): &&(String, u64)| {
            let here = bit < used * 8;
            if !here {
                bit -= used * 8;
            }
            here
        };
        let (name, _) = segments.iter().find(hit).expect("a place");
        let mut disk = whole.clone();
        assert!(disk.flip(name, bit));
        let before: Vec<Vec<u8>> =
            segments.iter().map(|(name, _)| disk.bytes(name).unwrap_or(&[]).to_vec()).collect();
        let error = match Journal::open(&mut disk, &config()) {
            Err(error) => error,
            Ok(_) => panic!("flip {n}, bit {bit} of {name}: not found"),
        };
        let JournalError::Corrupt { segment, offset, .. } = &error else {
            panic!("flip {n}, bit {bit} of {name}: {error}");
        };
        assert_eq!(format!("log-{segment:016x}"), *name, "flip {n}");
        // The frame that begins there holds the bit.
        assert!(*offset <= bit / 8 && bit / 8 < offset + 4_096 + 512, "flip {n}: {error}");
        let text = error.to_string();
        assert!(text.contains(&format!("{name}, offset {offset}")), "{text}");
        assert!(text.contains("follower"), "{text}");
        for ((name, _), bytes) in segments.iter().zip(before) {
            assert_eq!(disk.bytes(name), Some(&bytes[..]), "a refusal changes nothing");
        }
    }
}

#[test]
fn flips_in_the_uncommitted_tail_are_cut_and_reported() {
    let (whole, records) = disk(true);
    let committed = used(&mut disk(false).0);
    let with_tail = used(&mut whole.clone());
    let (name, to) = with_tail.last().expect("segments").clone();
    let from = committed.iter().find(|(known, _)| *known == name).map_or(512, |(_, used)| *used);
    assert!(to > from, "a tail in the last segment");
    let mut rng = SplitMix64::new(2);
    for n in 0..200 {
        let bit = from * 8 + rng.below((to - from) * 8);
        let mut disk = whole.clone();
        assert!(disk.flip(&name, bit));
        let (mut journal, recovery) = Journal::open(&mut disk, &config()).expect("a tail is cut");
        let tail = recovery.tail.unwrap_or_else(|| panic!("flip {n} was not reported"));
        assert_eq!((tail.offset, format!("log-{:016x}", tail.segment)), (from, name.clone()));
        assert_eq!(journal.last(), records.len() as u64);
        // What was cut off is gone for good, and the journal goes on.
        journal.append(2, b"after").expect("room");
        assert_eq!(journal.flush(), Ok(records.len() as u64 + 1));
        journal.into_storage();
        let found = verify(&mut disk).expect("a whole journal");
        assert_eq!((found.last, found.tail), (records.len() as u64 + 1, None));
    }
}

#[test]
fn a_follower_s_copy_restores_service() {
    let (mut disk, records) = disk(false);
    let mut copy = disk.clone();
    assert!(disk.flip("log-0000000000000002", 9_000));
    assert!(Journal::open(&mut disk, &config()).is_err());
    for name in copy.names().expect("names") {
        let bytes = copy.bytes(&name).expect("a file").to_vec();
        disk.put(&name, &bytes);
    }
    let (mut journal, recovery) = Journal::open(&mut disk, &config()).expect("restored");
    assert_eq!(recovery.last, records.len() as u64);
    let mut read = Vec::new();
    journal.read(1, u64::MAX, |record| read.push(record.bytes.to_vec())).expect("records");
    assert_eq!(read, records);
}

#[test]
fn one_copy_of_watermark_or_vote_may_be_damaged() {
    for name in ["mark", "vote"] {
        for slot in [0, 4_096 * 8] {
            let (mut disk, records) = disk(false);
            assert!(disk.flip(name, slot + 200));
            let (journal, recovery) = Journal::open(&mut disk, &config()).expect("another copy");
            assert_eq!((recovery.damaged_copies, journal.last()), (1, records.len() as u64));
            let (_, recovery) = Journal::open(&mut disk, &config()).expect("healed");
            assert_eq!(recovery.damaged_copies, 0);
        }
        let (mut disk, _) = disk(false);
        assert!(disk.flip(name, 200) && disk.flip(name, 4_096 * 8 + 200));
        let refused = Journal::open(&mut disk, &config()).err();
        assert!(matches!(refused, Some(JournalError::Register(of)) if of == name), "{refused:?}");
    }
}

#[test]
fn missing_segments_and_foreign_journals_are_refused() {
    let (whole, _) = disk(false);
    for number in [1u64, 2, 4] {
        let mut disk = whole.clone();
        disk.take(&format!("log-{number:016x}"));
        let refused = Journal::open(&mut disk, &config()).err();
        assert!(matches!(refused, Some(JournalError::Corrupt { .. })), "{number}: {refused:?}");
    }
    let other = Config { id: 6, ..config() };
    let refused = Journal::open(&mut whole.clone(), &other).err();
    assert_eq!(refused, Some(JournalError::Foreign("name")));
    let other = Config { label: [0; 32], ..config() };
    let refused = Journal::open(&mut whole.clone(), &other).err();
    assert_eq!(refused, Some(JournalError::Foreign("label")));
}

#[test]
fn export_shows_every_record_that_counts() {
    let (mut disk, records) = disk(false);
    let mut read = Vec::new();
    export(&mut disk, |record| {
        read.push(record.bytes.to_vec());
        ControlFlow::Continue(())
    })
    .expect("a whole journal");
    assert_eq!(read, records);
    let mut count = 0;
    export(&mut disk, |_| {
        count += 1;
        if count == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .expect("a whole journal");
    assert_eq!(count, 10);
}

/// Its log is set aside, its vote stays and its term is over; whatever operation of the disk the
/// machine stops in, it opens with the doubt or can be mended again.
#[test]
fn a_mended_journal_is_empty_and_remembers_its_vote_wherever_the_machine_stops() {
    let (mut damaged, _) = disk(false);
    let mut journal = Journal::open(&mut damaged, &config()).expect("a journal").0;
    journal.set_vote(Vote { term: 7, voted_for: 2 }).expect("a disk that works");
    journal.into_storage();
    let (name, used) = used(&mut damaged).remove(0);
    assert!(damaged.flip(&name, used * 4));
    let mut whole = damaged.clone();
    let mended = mend(&mut whole).expect("its vote is whole");
    assert_eq!((mended.id, mended.doubt), (5, 7));
    assert!(mended.aside.len() > 3, "{:?}", mended.aside);
    let operations = whole.stats().operations - damaged.stats().operations;
    assert!(operations > 10, "{operations}");
    for stop in 0..=operations {
        let mut disk = damaged.clone();
        disk.crash_at(stop);
        let stopped = mend(&mut disk).is_err();
        assert_eq!(stopped, stop < operations, "operation {stop} of {operations}");
        disk.restart();
        let opened = Journal::open(&mut disk, &config());
        if opened.as_ref().is_ok_and(|(journal, _)| journal.doubt() == 0) || opened.is_err() {
            drop(opened);
            mend(&mut disk).expect("once more");
        }
        let (journal, found) = Journal::open(&mut disk, &config()).expect("an empty journal");
        assert!((7..9).contains(&journal.doubt()), "{}", journal.doubt());
        assert_eq!(journal.vote(), Vote { term: journal.doubt() + 1, voted_for: 0 });
        assert_eq!((found.first, found.last, found.committed), (1, 0, 0), "operation {stop}");
    }
}
