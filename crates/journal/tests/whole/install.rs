//! A snapshot from elsewhere in the place of the log: whatever operation of the disk the machine stops
//! in, the next start finds the log as it was, or the snapshot and nothing else.

use journal::{
    Config, Follower, Installed, Journal, JournalError, SimDisk, Storage, Vote, snapshot_digest,
};

fn config() -> Config {
    Config {
        block: 512,
        segment_bytes: 4_096,
        batch_bytes: 2_048,
        alone: false,
        ..Config::new(5, [b'i'; 32])
    }
}

fn open(disk: SimDisk) -> Journal<SimDisk> {
    Journal::open(disk, &config()).expect("a journal").0
}

/// Appends records of a term, each in a batch of its own.
fn append<S: Storage>(journal: &mut Journal<S>, term: u64, texts: &[&str]) {
    for text in texts {
        journal.append(term, text.as_bytes()).expect("room");
        journal.flush().expect("room");
    }
}

fn all<S: Storage>(journal: &mut Journal<S>) -> Vec<(u64, u64, Vec<u8>)> {
    let mut all = Vec::new();
    let (first, last) = (journal.first(), journal.last());
    journal.read(first, last, |r| all.push((r.position, r.term, r.bytes.to_vec()))).expect("whole");
    all
}

/// The log elsewhere: 40 records, the last twenty of term 4. Its snapshot at 30, and the chain there.
fn elsewhere() -> (Vec<u8>, u64) {
    let mut journal = open(SimDisk::new(9));
    let texts: Vec<String> = (1..=30).map(|n| format!("record {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    append(&mut journal, 3, &texts[..20]);
    append(&mut journal, 4, &texts[20..]);
    (vec![7; 9_000], journal.chain())
}

/// A log that has ten committed records, and five that nobody else has.
fn behind() -> SimDisk {
    let mut journal = open(SimDisk::new(4));
    let texts: Vec<String> = (1..=10).map(|n| format!("record {n}")).collect();
    append(&mut journal, 3, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    journal.commit_to(10);
    journal.write_mark().expect("room");
    journal.write_snapshot(8, b"eight").expect("room");
    append(&mut journal, 3, &["mine a", "mine b", "mine c", "mine d", "mine e"]);
    journal.set_vote(Vote { term: 4, voted_for: 2 }).expect("room");
    journal.into_storage()
}

#[test]
fn a_crash_at_any_operation_leaves_the_old_log_or_the_snapshot() {
    let (bytes, chain) = elsewhere();
    let group = &b"five of them"[..];
    let taken = Installed { position: 30, term: 4, chain, group, bytes: &bytes };
    let disk = behind();
    let old = all(&mut open(disk.clone()));
    let mut whole = open(disk.clone());
    let before = whole.storage_mut().stats().operations;
    whole.install(&taken).expect("room");
    let operations = whole.storage_mut().stats().operations - before;
    assert!(operations > 12, "{operations}");
    let mut seen = [0; 2];
    for at in 0..=operations {
        for luck in 0..4 {
            let mut journal = open(disk.clone());
            journal.storage_mut().crash_at(at);
            let stopped = journal.install(&taken).is_err();
            assert_eq!(stopped, at < operations, "operation {at} of {operations}");
            let mut disk = journal.into_storage();
            // What a crash leaves is drawn: another draw each time.
            (0..luck).for_each(|_| disk.restart());
            disk.restart();
            let mut journal = open(disk);
            assert_eq!(journal.vote(), Vote { term: 4, voted_for: 2 });
            let new = journal.first() == 31;
            seen[usize::from(new)] += 1;
            assert!(new || stopped, "installed, and not there");
            let snapshots: Vec<u64> =
                journal.snapshots().iter().map(|info| info.position).collect();
            let names = journal.storage_mut().names().expect("readable");
            assert!(!names.iter().any(|name| name.starts_with("inst-")), "{names:?}");
            if new {
                assert_eq!((all(&mut journal), snapshots), (vec![], vec![30]), "operation {at}");
                assert_eq!((journal.last(), journal.committed()), (30, 30));
                assert_eq!((journal.term_at(30), journal.chain()), (Some(4), chain));
                assert_eq!(journal.read_snapshot(30).as_deref(), Ok(&bytes[..]));
                assert_eq!(
                    (journal.group_at(30), journal.group_at(99)),
                    (Some(group), Some(group))
                );
                assert_eq!(names.iter().filter(|name| name.starts_with("log-")).count(), 1);
            } else {
                assert_eq!((all(&mut journal), snapshots), (old.clone(), vec![8]));
                assert_eq!(journal.group_at(99), None);
                assert_eq!(journal.committed(), 10);
            }
            // It goes on from either.
            append(&mut journal, 5, &["next"]);
            let last = all(&mut open(journal.into_storage())).pop().expect("one at least");
            assert_eq!(last, (if new { 31 } else { 16 }, 5, b"next".to_vec()));
        }
    }
    assert!(seen.iter().all(|count| *count > 20), "old, new: {seen:?}");
}

#[test]
fn a_log_that_holds_the_position_goes_on_behind_it() {
    let mut journal = open(SimDisk::new(3));
    let texts: Vec<String> = (1..=40).map(|n| format!("record {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    append(&mut journal, 3, &texts[..20]);
    append(&mut journal, 4, &texts[20..]);
    let (bytes, chain) = elsewhere();
    let end = journal.chain();
    journal
        .install(&Installed { position: 30, term: 4, chain, group: &[], bytes: &bytes })
        .expect("room");
    assert_eq!((journal.last(), journal.committed(), journal.chain()), (40, 30, end));
    assert!((2..=31).contains(&journal.first()), "older segments are gone: {}", journal.first());
    let first = journal.first();
    assert_eq!(all(&mut journal).first().map(|(position, ..)| *position), Some(first));
    assert_eq!(journal.term_at(first - 1), Some(if first > 21 { 4 } else { 3 }));

    // The same position with another chain is another log.
    let other = Installed { position: 30, term: 4, chain: chain ^ 1, group: &[], bytes: &bytes };
    journal.install(&other).expect("room");
    assert_eq!((journal.first(), journal.last(), journal.chain()), (31, 30, chain ^ 1));
    let before = Installed { position: 29, ..other };
    assert_eq!(
        journal.install(&before),
        Err(JournalError::Position(29)),
        "before what is committed"
    );
}

#[test]
fn ranges_terms_and_followers_know_of_the_cut() {
    let mut journal = open(behind());
    // Waypoints of the old log lead nowhere any more.
    all(&mut journal);
    let first = journal.first();
    let disk = journal.storage_mut().clone();
    let mut follower = Follower::open(disk, first - 1).expect("a journal");
    assert_eq!(follower.poll(99, |_| {}), Ok(11 - first as usize));
    let (bytes, chain) = elsewhere();
    journal
        .install(&Installed { position: 30, term: 4, chain, group: &[], bytes: &bytes })
        .expect("room");
    append(&mut journal, 6, &["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    assert!(journal.read(30, 31, |_| {}).is_err());
    let mut read = Vec::new();
    journal.read(32, 33, |r| read.push(r.bytes.to_vec())).expect("whole");
    assert_eq!(read, [b"b".to_vec(), b"c".to_vec()]);
    assert_eq!(
        [29, 30, 31, 39, 40].map(|at| journal.term_at(at)),
        [None, Some(4), Some(6), Some(6), None]
    );
    let info = journal.snapshots()[0];
    assert_eq!((info.position, info.term, info.chain), (30, 4, chain));
    assert_eq!((info.bytes, info.digest), (9_000, snapshot_digest(&bytes)));
    let parts = [(0, 4_000), (4_000, 4_097), (8_097, 4_000), (9_000, 10)];
    let read: Vec<u8> = parts
        .iter()
        .flat_map(|(at, most)| journal.read_snapshot_part(30, *at, *most).expect("readable"))
        .collect();
    assert_eq!(read, bytes);
    let disk = journal.into_storage();
    assert_eq!(Follower::open(disk.clone(), 10).err(), Some(JournalError::Position(11)));
    let mut follower = Follower::open(disk, 30).expect("from there on");
    assert!(follower.poll(99, |_| {}).is_ok());
}

#[test]
fn a_snapshot_says_what_is_committed_when_a_copy_of_the_watermark_is_damaged() {
    let mut journal = open(SimDisk::new(6));
    let texts: Vec<String> = (1..=20).map(|n| format!("record {n}")).collect();
    append(&mut journal, 3, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    journal.commit_to(10);
    journal.write_mark().expect("room");
    journal.commit_to(20);
    journal.write_snapshot(20, b"twenty").expect("room");
    let disk = journal.into_storage();
    for slot in 0..2 {
        let mut disk = disk.clone();
        assert!(disk.flip("mark", slot * 4_096 * 8 + 300));
        let (journal, found) = Journal::open(disk, &config()).expect("the other copy is whole");
        assert_eq!((found.damaged_copies, found.committed, journal.committed()), (1, 20, 20));
    }
}

#[test]
fn what_a_snapshot_stands_for_can_be_given_up() {
    let mut journal = open(SimDisk::new(2));
    let texts: Vec<String> = (1..=60).map(|n| format!("record {n}")).collect();
    append(&mut journal, 3, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    journal.commit_to(60);
    assert_eq!(journal.retain(60), Ok(0), "nothing stands for it");
    for position in [20, 40] {
        journal.write_snapshot(position, b"so far").expect("room");
    }
    assert!(journal.first() <= 21, "the older one counts as long as it is kept");
    assert!(journal.retain(u64::MAX).expect("a disk that works") > 0);
    let first = journal.first();
    assert!((22..=41).contains(&first), "{first}");
    let kept: Vec<u64> = journal.snapshots().iter().map(|info| info.position).collect();
    assert_eq!(kept, [40]);
    assert_eq!(journal.write_snapshot(first - 2, b"old"), Err(JournalError::Position(first - 2)));
    let (chain, term) = (journal.chain_at(first - 1), journal.term_at(first - 1));
    assert_eq!(term, Some(3));
    let mut journal = open(journal.into_storage());
    assert_eq!((journal.first(), journal.last()), (first, 60));
    assert_eq!((journal.chain_at(first - 1), journal.term_at(first - 1)), (chain, term));
    assert_eq!(all(&mut journal).len() as u64, 60 - first + 1);
}

#[test]
fn what_no_header_can_say_is_refused_and_changes_nothing() {
    let (bytes, chain) = elsewhere();
    let mut journal = open(behind());
    let before = all(&mut journal);
    let good = Installed { position: 30, term: 4, chain, group: b"", bytes: &bytes };
    for position in [(1 << 62) - 1, u64::MAX - 1, u64::MAX] {
        let refused = journal.install(&Installed { position, ..good });
        assert_eq!(refused, Err(JournalError::Position(position)));
    }
    let group = [1; journal::GROUP_MAX + 1];
    let refused = journal.install(&Installed { group: &group, ..good });
    assert_eq!(refused, Err(JournalError::TooLong(group.len())));
    assert_eq!(all(&mut journal), before);
    assert_eq!(journal.install(&good), Ok(()));
    assert_eq!((journal.first(), journal.last()), (31, 30));
}

#[test]
fn the_only_copy_keeps_what_an_installation_makes_durable() {
    let alone = Config { alone: true, ..config() };
    let mut journal = Journal::open(SimDisk::new(4), &alone).expect("a journal").0;
    append(&mut journal, 3, &["one"]);
    for text in ["two", "three"] {
        journal.append(3, text.as_bytes()).expect("room");
    }
    let other = Installed { position: 2, term: 3, chain: 99, group: b"", bytes: b"two" };
    assert_eq!(journal.install(&other), Err(JournalError::Position(2)), "three are committed");
    assert_eq!((journal.committed(), all(&mut journal).len()), (3, 3));
}
