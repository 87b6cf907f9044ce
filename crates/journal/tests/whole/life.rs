//! A folder that was set back to an older copy is found out; one that was not never is, wherever its
//! machine stops.

use std::path::{Path, PathBuf};

use journal::{
    Config, Folder, FolderConfig, Journal, JournalError, Peer, SimDisk, Storage, TERMS_UNHEARD,
    Vote, begin_in_doubt, mend, promises, yield_to,
};

fn config() -> Config {
    Config {
        block: 512,
        segment_bytes: 16 << 10,
        batch_bytes: 8 << 10,
        alone: false,
        ..Config::new(5, [b'l'; 32])
    }
}

/// Some records in a term, with a vote in it, committed.
fn write<S: Storage>(storage: S, term: u64, records: u64) -> S {
    let (mut journal, _) = Journal::open(storage, &config()).expect("a good journal");
    journal.set_vote(Vote { term, voted_for: 2 }).expect("a disk that works");
    for number in 0..records {
        journal.append(term, &number.to_le_bytes()).expect("room");
        journal.flush().expect("a disk that works");
    }
    journal.commit_to(journal.durable());
    journal.into_storage()
}

fn is_set_back(disk: &mut SimDisk) -> bool {
    Journal::open(disk, &config()).expect("a good journal").0.is_set_back()
}

#[test]
fn an_older_copy_is_found_out_and_stays_one_until_its_promises_are_known() {
    let mut disk = write(SimDisk::new(1), 3, 20);
    disk.restart();
    let older = disk.clone();
    let mut disk = write(disk, 4, 20);
    disk.restart();
    assert!(!is_set_back(&mut disk), "the folder that it wrote");
    disk.restart();
    disk.set_back(&older);
    assert!(promises(&mut disk).expect("readable").set_back);
    for _ in 0..3 {
        assert!(is_set_back(&mut disk));
        disk.restart();
    }
    let (mut journal, found) = Journal::open(&mut disk, &config()).expect("a good journal");
    assert!(found.set_back && found.lives > 3, "{found:?}");
    assert!(journal.doubt_from(2).is_err(), "a term before the one that it knows");
    journal.doubt_from(9).expect("a disk that works");
    assert!(!journal.is_set_back());
    drop(journal);
    disk.restart();
    let (journal, _) = Journal::open(&mut disk, &config()).expect("a good journal");
    assert_eq!((journal.is_set_back(), journal.doubt()), (false, 9));
    assert_eq!(journal.vote(), Vote { term: 10, voted_for: 0 });
}

/// Whatever operation the machine stops in, at a first start or a later one, its own folder is none
/// that was set back; and one that was stays that.
#[test]
fn no_crash_makes_a_folder_a_copy_or_a_copy_its_own() {
    let whole = {
        let mut disk = write(SimDisk::new(2), 3, 5);
        disk.restart();
        disk
    };
    let mut copy = whole.clone();
    copy.set_back(&whole);
    for (begins, set_back) in [(SimDisk::new(3), false), (whole, false), (copy, true)] {
        let mut tried = begins.clone();
        drop(Journal::open(&mut tried, &config()).expect("a good journal"));
        let operations = tried.stats().operations - begins.stats().operations;
        for stop in 0..operations {
            let mut disk = begins.clone();
            disk.crash_at(stop);
            assert!(Journal::open(&mut disk, &config()).is_err(), "operation {stop}");
            disk.restart();
            assert_eq!(is_set_back(&mut disk), set_back, "operation {stop} of {operations}");
        }
    }
}

#[test]
fn a_start_that_cant_read_whether_it_is_a_copy_takes_it_for_one() {
    let mut disk = write(SimDisk::new(4), 3, 5);
    disk.restart();
    assert!(disk.flip("life", 8 * 40));
    assert!(!is_set_back(&mut disk), "one of two copies");
    disk.restart();
    assert!(disk.flip("life", 8 * 40) && disk.flip("life", 8 * (4_096 + 40)));
    assert!(is_set_back(&mut disk));
}

/// A folder made by an earlier version has no `life`: from now on it has.
#[test]
fn a_folder_without_one_gets_one() {
    let mut disk = write(SimDisk::new(5), 3, 5);
    disk.restart();
    for name in ["life", "place"] {
        disk.take(name);
    }
    assert!(!is_set_back(&mut disk));
    disk.restart();
    let older = disk.clone();
    disk.set_back(&older);
    assert!(is_set_back(&mut disk));
}

#[test]
fn mending_a_copy_leaves_it_one_and_an_operators_word_ends_it() {
    let mut disk = write(SimDisk::new(6), 3, 20);
    disk.restart();
    let older = disk.clone();
    disk = write(disk, 4, 20);
    disk.restart();
    disk.set_back(&older);
    let mut mended = disk.clone();
    let done = mend(&mut mended).expect("its vote is whole");
    assert!(done.set_back && done.held >= 19, "{done:?}");
    assert!(is_set_back(&mut mended));
    // Another one's log counts: its own goes.
    let mut other = disk.clone();
    let done = yield_to(&mut other, (1, 3)).expect("its vote is whole");
    assert_eq!((done.doubt, done.aside.is_empty()), (3 + TERMS_UNHEARD, false));
    let (journal, found) = Journal::open(&mut other, &config()).expect("a good journal");
    assert_eq!((journal.is_set_back(), journal.doubt(), journal.sponsor()), (false, done.doubt, 3));
    assert_eq!((found.last, journal.vote().term), (0, done.doubt + 1));
    // Its own counts: it stays.
    let done = yield_to(&mut disk, (1, 1)).expect("its vote is whole");
    let (journal, found) = Journal::open(&mut disk, &config()).expect("a good journal");
    assert_eq!((journal.is_set_back(), journal.doubt(), journal.sponsor()), (false, done.doubt, 1));
    assert_eq!(found.last, 20);
}

/// In place of a disk that is gone: wherever the machine stops there is a folder in doubt, or one to be
/// treated again; never a journal that elects whom it likes.
#[test]
fn a_disk_that_is_gone_is_begun_anew_in_doubt_whatever_stops_it() {
    let mut whole = SimDisk::new(8);
    let done = begin_in_doubt(&mut whole, 5, (3, 900)).expect("empty");
    let operations = whole.stats().operations;
    assert!(operations > 10, "{operations}");
    for stop in 0..=operations {
        let mut disk = SimDisk::new(9);
        disk.crash_at(stop);
        let finished = begin_in_doubt(&mut disk, 5, (3, 900)).is_ok();
        assert_eq!(finished, stop == operations, "operation {stop}");
        disk.restart();
        if journal::identify(&mut disk).expect("readable").is_none() {
            begin_in_doubt(&mut disk, 5, (3, 900)).expect("treated again");
        }
        let again = begin_in_doubt(&mut disk, 5, (3, 900));
        assert!(matches!(again, Err(JournalError::Foreign(_))), "operation {stop}");
        let (journal, found) = Journal::open(&mut disk, &config()).expect("a good journal");
        let said = (journal.is_set_back(), journal.doubt(), journal.sponsor(), found.last);
        assert_eq!(said, (false, 900 + TERMS_UNHEARD, 3, 0), "operation {stop}");
        assert_eq!(journal.vote(), Vote { term: done.doubt + 1, voted_for: 0 });
        assert!(found.lives > 900, "more starts than others know of");
    }
    let mut used = write(SimDisk::new(10), 3, 5);
    used.restart();
    let before = used.stats().operations;
    assert!(begin_in_doubt(&mut used, 5, (3, 900)).is_err(), "it has a journal");
    assert!(used.stats().operations - before < 3, "nothing was changed");
}

/// Votes and promises are one server's: whoever else opens its folder would speak for it.
#[test]
fn a_folder_is_its_first_servers_for_good_and_an_older_ones_is_taken_once() {
    let of = |server| Config { server, ..config() };
    let open = |disk: &mut SimDisk, server| {
        let opened = Journal::open(&mut *disk, &of(server)).map(|(journal, _)| journal.lives());
        disk.restart();
        opened
    };
    // One without a number, as those that were made before any was kept.
    let mut disk = write(SimDisk::new(11), 3, 5);
    disk.restart();
    assert_eq!(open(&mut disk, 2), Ok(2));
    for _ in 0..2 {
        let refused = JournalError::Server { of: 2, server: 1 };
        assert_eq!(open(&mut disk, 1), Err(refused));
    }
    assert_eq!((open(&mut disk, 2), open(&mut disk, 0)), (Ok(3), Ok(4)), "and nothing was changed");
    yield_to(&mut disk, (2, 3)).expect("mended");
    disk.restart();
    let refused = JournalError::Server { of: 2, server: 3 };
    assert_eq!((open(&mut disk, 3), open(&mut disk, 2)), (Err(refused), Ok(5)));
}

#[test]
fn what_is_known_of_others_is_there_again() {
    let mut disk = write(SimDisk::new(7), 3, 5);
    let known = [1, 7].map(|server| Peer { server, lives: 4, term: 9, position: 100 + server });
    {
        let mut journal = Journal::open(&mut disk, &config()).expect("a good journal").0;
        assert_eq!(journal.peers(), []);
        journal.set_peers(&known[..1]).expect("room");
        journal.set_peers(&known).expect("room");
    }
    disk.restart();
    let read = |disk: &mut SimDisk| Journal::open(disk, &config()).expect("good").0.peers();
    assert_eq!(read(&mut disk), known);
    disk.restart();
    // A copy that rots leaves the other; without either nothing is known.
    assert!(disk.flip("peers", 8 * 40));
    assert!(read(&mut disk).len() <= 2);
    disk.restart();
    disk.flip("peers", 8 * 41);
    disk.flip("peers", 8 * (4_096 + 41));
    assert_eq!(read(&mut disk), []);
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a folder");
    entries.map(|entry| entry.expect("readable").path()).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("room");
    for file in files(from) {
        let name = file.file_name().expect("a name").to_owned();
        std::fs::copy(&file, to.join(name)).expect("copied");
    }
}

/// On a file system: moved folders are the same, and copied ones are not, whether under a new name,
/// in the place of the folder, or over its files.
#[test]
fn copies_of_a_folder_are_found_out_and_moves_are_none() {
    let base = std::env::temp_dir().join(format!("fairbell-life-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&base);
    let (own, older) = (base.join("own"), base.join("older"));
    let settings = FolderConfig { zeroed: false, ..FolderConfig::default() };
    let open = |dir: &Path| Folder::open(dir, settings).expect("a folder");
    drop(write(open(&own), 3, 5));
    copy(&own, &older);
    drop(write(open(&own), 4, 5));
    let set_back =
        |dir: &Path| Journal::open(open(dir), &config()).expect("a good journal").0.is_set_back();
    assert!(!set_back(&own));
    let moved = base.join("moved");
    std::fs::rename(&own, &moved).expect("moved");
    assert!(!set_back(&moved), "a move is no copy");
    std::fs::rename(&moved, &own).expect("moved");

    // Over its files.
    copy(&older, &own);
    assert!(promises(&mut open(&own)).expect("readable").set_back);
    assert!(set_back(&own), "older files over the newer ones");
    // In its place.
    std::fs::remove_dir_all(&own).expect("removed");
    copy(&older, &own);
    assert!(set_back(&own), "an older folder in the place of the newer one");
    // Where it was put.
    assert!(set_back(&older), "another folder");
    std::fs::remove_dir_all(&base).expect("removed");
}
