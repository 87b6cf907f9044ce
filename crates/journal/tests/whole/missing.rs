//! Whatever is taken out of a folder: who only looks finds what a start refuses, with the same words.

use journal::{Config, Journal, JournalError, SimDisk, Storage, Vote, mend, restore_vote, verify};

fn config() -> Config {
    Config {
        block: 512,
        segment_bytes: 4_096,
        batch_bytes: 2_048,
        ..Config::new(5, *b"records of a test, any bytes    ")
    }
}

/// A journal of 100 records, each in a block of its own, closed well; if asked for with snapshots at 40
/// and 80, which take the segments before them away.
fn disk(snapshots: bool) -> SimDisk {
    let mut disk = SimDisk::new(3);
    let (mut journal, _) = Journal::open(&mut disk, &config()).expect("a new journal");
    journal.set_vote(Vote { term: 3, voted_for: 2 }).expect("a disk that works");
    for n in 1..=100u64 {
        journal.append(3, &n.to_le_bytes()).expect("room");
        journal.flush().expect("a disk that works");
        if snapshots && n % 40 == 0 {
            journal.write_snapshot(n, b"all of it").expect("room");
        }
    }
    journal.into_storage();
    disk
}

fn segments(disk: &mut SimDisk) -> Vec<String> {
    let found = verify(disk).expect("a whole journal");
    found.segments.iter().map(|segment| format!("log-{:016x}", segment.number)).collect()
}

/// What a look says, and a start, which leaves all as it was.
fn refusal(mut disk: SimDisk, what: &str) -> JournalError {
    let looked = verify(&mut disk).expect_err(what);
    let before = disk.names().expect("names");
    let Err(started) = Journal::open(&mut disk, &config()) else { panic!("{what}: it starts") };
    assert_eq!(looked, started, "{what}");
    assert_eq!(disk.names().expect("names"), before, "{what}: nothing is changed");
    started
}

#[test]
fn a_segment_that_is_missing_is_found_wherever_it_was() {
    let mut whole = disk(false);
    let names = segments(&mut whole);
    assert!(names.len() > 5);
    for (place, name) in names.iter().enumerate() {
        let mut lacking = whole.clone();
        lacking.take(name);
        let text = refusal(lacking, name).to_string();
        match place {
            0 => {
                let before = format!("{}, offset 0: the files before it are missing", names[1]);
                assert!(text.contains(&before), "{text}");
            }
            _ => {
                assert!(text.contains(&format!("{name}, offset 0: the file is missing")), "{text}")
            }
        }
    }
    // Several of them, and all.
    for (from, to) in [(0, 3), (2, 5), (names.len() - 2, names.len()), (0, names.len())] {
        let mut lacking = whole.clone();
        names[from..to].iter().for_each(|name| lacking.take(name));
        refusal(lacking, "several");
    }
}

#[test]
fn a_register_that_is_missing_or_damaged_is_found() {
    for name in ["mark", "vote"] {
        let mut lacking = disk(false);
        lacking.take(name);
        let text = refusal(lacking, name).to_string();
        assert!(text.contains(&format!("no copy of the file {name:?} can be read")), "{text}");
        assert!(!text.contains("open it again"), "{text}");
        let mut damaged = disk(false);
        assert!(damaged.flip(name, 3) && damaged.flip(name, 4_096 * 8 + 3));
        refusal(damaged, name);
    }
    // The doubt of a server that was mended.
    let mut mended = disk(false);
    mend(&mut mended).expect("one of a group");
    assert!(mended.flip("doubt", 3) && mended.flip("doubt", 4_096 * 8 + 3));
    let error = refusal(mended, "doubt");
    assert_eq!(error, JournalError::Register("doubt"));
}

#[test]
fn a_snapshot_that_is_missing_or_damaged_is_found_where_the_log_needs_it() {
    let mut whole = disk(true);
    let found = verify(&mut whole).expect("whole");
    let positions: Vec<u64> = found.snapshots.iter().map(|info| info.position).collect();
    assert_eq!(positions, [40, 80]);
    assert!(found.first > 1 && found.first <= 41, "{}", found.first);
    let name = |position: u64| format!("snap-{position:016x}");
    // The older one reaches the log, too.
    let mut lacking = whole.clone();
    lacking.take(&name(80));
    assert!(verify(&mut lacking).is_ok() && Journal::open(&mut lacking, &config()).is_ok());
    for damage in [SimDisk::take, |disk: &mut SimDisk, name: &str| assert!(disk.flip(name, 500))] {
        let mut lacking = whole.clone();
        positions.iter().for_each(|position| damage(&mut lacking, &name(*position)));
        let text = refusal(lacking, "both").to_string();
        assert!(text.contains("no snapshot that is whole stands for them"), "{text}");
    }
    // Without watermark and log it is no empty folder.
    let mut remains = whole.clone();
    segments(&mut whole).iter().for_each(|name| remains.take(name));
    remains.take("mark");
    assert_eq!(refusal(remains, "a snapshot alone"), JournalError::Register("mark"));
}

#[test]
fn a_lost_vote_is_made_again_only_where_it_is_lost() {
    let mut whole = disk(false);
    assert!(matches!(restore_vote(&mut whole), Err(JournalError::Position(_))));
    whole.take("vote");
    restore_vote(&mut whole).expect("a disk that works");
    let (journal, recovery) = Journal::open(&mut whole, &config()).expect("a journal");
    assert_eq!((journal.vote(), recovery.last), (Vote::default(), 100));
}
