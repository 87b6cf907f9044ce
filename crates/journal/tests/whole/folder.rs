//! The same on real files, in a folder that is removed again; and a journal that an earlier
//! version wrote.

use std::path::{Path, PathBuf};

use journal::{Config, Folder, FolderConfig, Journal, JournalError, SimDisk, Syncing, verify};

/// A folder for one test; gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("journal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config() -> Config {
    Config {
        segment_bytes: 64 << 10,
        batch_bytes: 8 << 10,
        ..Config::new(5, *b"records of a test, any bytes    ")
    }
}

#[test]
fn every_way_of_writing_gives_the_same_journal() {
    let ways = [
        (true, Syncing::Fdatasync, true),
        (true, Syncing::Uring, true),
        (false, Syncing::Uring, false),
        (false, Syncing::Fdatasync, false),
        (true, Syncing::Dsync, false),
        (false, Syncing::Never, true),
    ];
    let mut chains = Vec::new();
    for (direct, syncing, zeroed) in ways {
        let scratch = Scratch::new(&format!("{direct}-{syncing:?}-{zeroed}"));
        let folder = || Folder::open(&scratch.0, FolderConfig { direct, syncing, zeroed });
        if let Some(why) = folder().err().filter(|_| syncing == Syncing::Uring) {
            // Where containers are not allowed to use it.
            eprintln!("not tested: {why}");
            continue;
        }
        let (mut journal, recovery) =
            Journal::open(folder().expect("a folder"), &config()).expect("a new journal");
        assert!(recovery.created);
        assert!(folder().is_err(), "somebody else has it");
        for n in 0..600u64 {
            journal.append(1, &[n as u8; 128]).expect("room");
            if n % 5 == 0 {
                journal.flush().expect("a disk that works");
            } else if n % 5 == 2 {
                assert!(journal.begin_flush().expect("a disk that works") <= n + 1);
            }
            if n == 400 {
                journal.write_snapshot(300, &n.to_le_bytes()).expect("room");
            }
        }
        journal.flush().expect("a disk that works");
        assert!(journal.stats().segments > 3);
        drop(journal);
        let (mut journal, recovery) =
            Journal::open(folder().expect("a folder"), &config()).expect("the same journal");
        assert_eq!((recovery.last, recovery.tail), (600, None));
        assert_eq!(recovery.snapshot, Some(300));
        assert!(recovery.first > 1 && recovery.first <= 301, "from {}", recovery.first);
        let mut due = recovery.first;
        let check = |record: journal::Record<'_>| {
            assert_eq!((record.position, record.bytes), (due, &[(due - 1) as u8; 128][..]));
            due += 1;
        };
        journal.read(recovery.first, 600, check).expect("records");
        assert_eq!(due, 601);
        assert_eq!(journal.read_snapshot(300), Ok(400u64.to_le_bytes().to_vec()));
        chains.push(journal.chain());
    }
    assert!(chains.windows(2).all(|pair| pair[0] == pair[1]), "{chains:?}");
}

/// Files that version 1 wrote, committed beside the tests.
fn golden(version: u32) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("vectors/v{version}"));
    let entries = std::fs::read_dir(&folder).expect("vectors");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_string();
        (name, std::fs::read(path).expect("a file"))
    };
    entries.map(read).collect()
}

fn golden_config() -> Config {
    Config {
        block: 512,
        segment_bytes: 4_096,
        batch_bytes: 1_024,
        alone: false,
        ..Config::new(0x0123_4567_89ab_cdef, *b"golden records of version one   ")
    }
}

/// What the golden journal was asked to do.
fn golden_history(journal: &mut Journal<&mut SimDisk>) {
    let put = |journal: &mut Journal<&mut SimDisk>, term: u64, from: u64, to: u64| {
        for n in from..=to {
            let record = format!("record {n} of term {term}");
            journal.append(term, record.as_bytes()).expect("room");
            if n % 3 == 0 {
                journal.flush().expect("a disk that works");
            }
        }
        journal.flush().expect("a disk that works");
    };
    put(journal, 1, 1, 30);
    journal.commit_to(25);
    journal.write_snapshot(20, b"what the first twenty amount to").expect("room");
    journal.set_vote(journal::Vote { term: 2, voted_for: 3 }).expect("a disk that works");
    journal.truncate(27).expect("not committed");
    put(journal, 2, 28, 40);
    journal.commit_to(33);
    journal.write_mark().expect("a disk that works");
}

fn check_golden(disk: &mut SimDisk) {
    let found = verify(disk).expect("a whole journal");
    assert_eq!((found.last, found.committed, found.truncations), (40, 33, 1));
    let (mut journal, recovery) = Journal::open(disk, &golden_config()).expect("readable");
    assert_eq!((recovery.snapshot, recovery.tail, recovery.damaged_copies), (Some(20), None, 0));
    assert_eq!(recovery.vote, journal::Vote { term: 2, voted_for: 3 });
    let mut due = recovery.first;
    let check = |record: journal::Record<'_>| {
        let term = if record.position <= 27 { 1 } else { 2 };
        let text = format!("record {} of term {term}", record.position);
        assert_eq!((record.position, record.term), (due, term));
        assert_eq!(record.bytes, text.as_bytes());
        due += 1;
    };
    journal.read(recovery.first, 40, check).expect("records");
    assert_eq!(due, 41);
    let snapshot = journal.read_snapshot(20).expect("whole");
    assert_eq!(snapshot, b"what the first twenty amount to");
    // It goes on in whatever format is written now.
    assert_eq!(journal.append(3, b"a later version's"), Ok(41));
    assert_eq!(journal.flush(), Ok(41));
}

/// An upgrade: what version 1 left is read, and written on. The vectors are made by
/// `WRITE_VECTORS=1 cargo test -p journal`, and only when there is a new version.
#[test]
fn a_journal_of_version_1_is_readable_for_ever() {
    if std::env::var_os("WRITE_VECTORS").is_some() {
        let mut disk = SimDisk::new(0);
        let (mut journal, _) = Journal::open(&mut disk, &golden_config()).expect("a new journal");
        golden_history(&mut journal);
        journal.into_storage();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/v1");
        std::fs::create_dir_all(&folder).expect("a folder");
        for name in journal::Storage::names(&mut disk).expect("names") {
            let bytes = disk.bytes(&name).expect("a file");
            std::fs::write(folder.join(&name), bytes).expect("written");
        }
    }
    let mut disk = SimDisk::new(0);
    let files = golden(1);
    assert!(files.len() >= 4, "{} files", files.len());
    files.iter().for_each(|(name, bytes)| disk.put(name, bytes));
    check_golden(&mut disk);
}

#[test]
fn a_later_version_s_journal_is_refused_by_name() {
    let mut disk = SimDisk::new(0);
    let mut segment = Vec::new();
    for (name, bytes) in golden(1) {
        if name.starts_with("log-") {
            segment = bytes.clone();
            segment[8] = 3;
            segment[12..16].fill(0);
            let crc = crc32fast::hash(&segment[..512]);
            segment[12..16].copy_from_slice(&crc.to_le_bytes());
            disk.put(&name, &segment);
        } else {
            disk.put(&name, &bytes);
        }
    }
    assert!(!segment.is_empty());
    match Journal::open(&mut disk, &golden_config()).err() {
        Some(JournalError::Format(name, 3)) => assert!(name.starts_with("log-")),
        other => panic!("{other:?}"),
    }
}

/// Segments come and go while a replica that runs takes its checkpoints; who only looks is not stopped by it.
#[test]
fn a_file_that_its_writer_removes_meanwhile_is_not_missing() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let scratch = Scratch::new("meanwhile");
    let mut folder =
        Folder::open(&scratch.0, FolderConfig { direct: false, ..FolderConfig::default() })
            .expect("a folder");
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for n in (0u64..).take_while(|_| !over.load(Ordering::Relaxed)) {
                let name = scratch.0.join(format!("log-{n:016}"));
                std::fs::write(&name, b"").expect("room");
                std::fs::remove_file(&name).expect("it was there");
            }
        });
        let checked = (0..2_000).try_for_each(|_| folder.check_writable());
        over.store(true, Ordering::Relaxed);
        checked.expect("nothing hinders a start");
    });
    std::os::unix::fs::symlink("nowhere", scratch.0.join("log-lost")).expect("a link");
    let error = folder.check_writable().expect_err("it is named, and can't be opened");
    assert!(error.to_string().contains("log-lost"), "{error}");
}
