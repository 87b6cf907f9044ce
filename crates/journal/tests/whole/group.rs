//! Records of the group's own: beside the application's, in segments of a later format, and known
//! wherever the log begins.

use journal::{Config, FORMAT, FORMAT_GROUP, Follower, Journal, JournalError, SimDisk, Storage};

fn config() -> Config {
    Config {
        block: 512,
        segment_bytes: 4_096,
        batch_bytes: 3_072,
        alone: false,
        snapshots_kept: 1,
        ..Config::new(5, [b'g'; 32])
    }
}

fn open(disk: SimDisk) -> Journal<SimDisk> {
    Journal::open(disk, &config()).expect("a journal").0
}

fn append(journal: &mut Journal<SimDisk>, count: usize) {
    for _ in 0..count {
        journal.append(1, &[7; 300]).expect("room");
        journal.flush().expect("room");
    }
}

/// The layout in the header of every segment.
fn formats(journal: &mut Journal<SimDisk>) -> Vec<u32> {
    let mut names = journal.storage_mut().names().expect("readable");
    names.retain(|name| name.starts_with("log-"));
    names.sort();
    let disk = journal.storage_mut();
    let format = |name: &String| disk.bytes(name)?[8..12].try_into().ok().map(u32::from_le_bytes);
    names.iter().filter_map(format).collect()
}

#[test]
fn the_first_begins_a_segment_that_earlier_versions_refuse() {
    let mut journal = open(SimDisk::new(1));
    append(&mut journal, 3);
    assert_eq!(formats(&mut journal), [FORMAT]);
    // Not durable yet; it is, before the next format begins.
    journal.append(1, b"waits").expect("room");
    assert_eq!(journal.append_group(1, b"first"), Ok(5));
    assert_eq!(journal.durable(), 4);
    append(&mut journal, 9);
    let formats = formats(&mut journal);
    assert_eq!((formats[0], &formats[1..]), (FORMAT, &vec![FORMAT_GROUP; formats.len() - 1][..]));
    assert!(formats.len() > 2);
    for wrong in [&[][..], &[1; journal::GROUP_MAX + 1]] {
        assert_eq!(journal.append_group(1, wrong), Err(JournalError::TooLong(wrong.len())));
    }
    let verified = journal::verify(journal.storage_mut()).expect("whole");
    assert_eq!(verified.format, FORMAT_GROUP);
}

#[test]
fn readers_of_the_application_see_an_empty_record() {
    let mut journal = open(SimDisk::new(1));
    append(&mut journal, 1);
    journal.append_group(1, b"whoever").expect("room");
    append(&mut journal, 1);
    journal.commit_to(3);
    journal.write_mark().expect("room");
    let due = [(300, 0), (0, 7), (300, 0)];
    let mut seen = Vec::new();
    journal
        .read(1, 3, |record| seen.push((record.bytes.len(), record.group.len())))
        .expect("whole");
    assert_eq!(seen, due);
    let mut disk = journal.into_storage();
    let mut follower = Follower::open(disk.clone(), 0).expect("a journal");
    seen.clear();
    let shown = follower.poll(9, |record| seen.push((record.bytes.len(), record.group.len())));
    assert_eq!((shown, &seen[..]), (Ok(3), &due[..]));
    seen.clear();
    let exported = journal::export(&mut disk, |record| {
        seen.push((record.bytes.len(), record.group.len()));
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!((exported, &seen[..]), (Ok(()), &due[..]));
}

#[test]
fn what_it_says_is_known_behind_snapshots_and_not_after_it_was_taken_back() {
    let mut journal = open(SimDisk::new(1));
    append(&mut journal, 2);
    journal.append_group(1, b"one").expect("room");
    append(&mut journal, 20);
    journal.commit_to(20);
    journal.write_snapshot(18, b"state").expect("room");
    assert!(journal.first() > 3, "{}", journal.first());
    journal.append_group(1, b"two").expect("room");
    append(&mut journal, 2);
    let mut journal = open(journal.into_storage());
    assert_eq!(journal.group_at(18), Some(&b"one"[..]));
    assert_eq!(
        (journal.group_at(23), journal.group_at(24)),
        (Some(&b"one"[..]), Some(&b"two"[..]))
    );
    journal.truncate(23).expect("room");
    assert_eq!(journal.group_at(99), Some(&b"one"[..]));
    let journal = open(journal.into_storage());
    assert_eq!((journal.groups().len(), journal.group_at(99)), (1, Some(&b"one"[..])));
}

/// No room for the next segment: nothing is appended, and later it is.
#[test]
fn a_full_disk_takes_it_when_there_is_room() {
    let mut journal = open(SimDisk::new(1));
    append(&mut journal, 1);
    journal.storage_mut().set_faults(journal::DiskFaults { room: 1, ..<_>::default() });
    assert!(matches!(journal.append_group(1, b"one"), Err(JournalError::Full(_))));
    assert_eq!((journal.last(), journal.groups().len()), (1, 0));
    journal.storage_mut().set_faults(Default::default());
    assert_eq!(journal.append_group(1, b"one"), Ok(2));
}
