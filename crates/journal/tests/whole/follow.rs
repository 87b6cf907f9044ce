//! A follower beside a writer: everything committed, once and in order, and nothing else.

use std::path::PathBuf;

use journal::{
    Config, Damage, Folder, FolderConfig, Follower, Installed, Journal, JournalError, Syncing,
};
use types::SplitMix64;

/// A folder for one test; gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("follow-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }

    fn folder(&self) -> Folder {
        Folder::open(&self.0, FAST).expect("a folder")
    }

    fn look(&self) -> Folder {
        Folder::open_unlocked(&self.0, FAST).expect("a folder")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const FAST: FolderConfig = FolderConfig { direct: false, syncing: Syncing::Never, zeroed: false };

fn config(alone: bool) -> Config {
    let label = *b"records of a test, any bytes    ";
    let (block, segment_bytes, batch_bytes) = (512, 16 << 10, 4 << 10);
    Config { block, segment_bytes, batch_bytes, alone, ..Config::new(5, label) }
}

/// Random appending, flushing, committing, taking back, installing and reopening, with a follower that
/// polls now and then and is opened again now and then.
fn history(seed: u64, alone: bool) {
    let scratch = Scratch::new(&format!("{seed}-{alone}"));
    let mut random = SplitMix64::new(seed);
    let (mut journal, _) = Journal::open(scratch.folder(), &config(alone)).expect("a journal");
    let mut follower = Follower::open(scratch.look(), 0).expect("a journal");
    // What stands at each position now, by the writer's own book.
    let (mut model, mut seen): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    for step in 0..400u64 {
        match random.below(13) {
            0..5 => {
                let word = random.next_u64();
                let len = random.below(30) as usize * 8 + 8;
                let mut bytes = vec![step as u8; len];
                bytes[..8].copy_from_slice(&word.to_le_bytes());
                if journal.append(1, &bytes).is_ok() {
                    model.push(word);
                }
            }
            5..7 => drop(journal.flush().expect("room")),
            7 if !alone => {
                let upto = journal.committed() + random.below(6);
                journal.commit_to(upto);
            }
            8 if !alone => {
                let durable = journal.durable();
                let kept = durable.saturating_sub(random.below(4)).max(journal.committed());
                journal.truncate(kept).expect("not committed");
                model.truncate(journal.last() as usize);
            }
            9 => journal.write_mark().expect("a disk that works"),
            10 if random.below(8) == 0 => {
                drop(journal);
                let opened = Journal::open(scratch.folder(), &config(alone));
                journal = opened.expect("the journal").0;
                model.truncate(journal.last() as usize);
            }
            11 if random.below(4) == 0 => {
                let after = follower.shown();
                match Follower::open(scratch.look(), after) {
                    // Behind a snapshot; the next poll finds that, too.
                    Err(JournalError::Position(_)) => {}
                    opened => follower = opened.expect("the journal"),
                }
            }
            12 if !alone && random.below(6) == 0 => {
                // Others went on without it: what it has beyond what is committed is not what they have.
                journal.flush().expect("room");
                let (from, beyond) = (journal.committed(), random.below(9));
                model.truncate(from as usize);
                model.extend((0..beyond).map(|_| random.next_u64()));
                let (position, chain) = (from + beyond, random.next_u64());
                if position > 0 {
                    let taken =
                        Installed { position, term: 1, chain, group: b"", bytes: b"all of it" };
                    journal.install(&taken).expect("room");
                }
            }
            _ => {
                let most = 1 + random.below(40) as usize;
                let polled = follower.poll(most, |record| {
                    assert_eq!(record.position, seen.len() as u64 + 1, "seed {seed}");
                    let (word, _) = record.bytes.split_first_chunk().expect("eight bytes");
                    seen.push(u64::from_le_bytes(*word));
                });
                if matches!(polled, Err(JournalError::Position(_))) {
                    // The snapshot says what it may not read any more.
                    let behind = journal.first() - 1;
                    assert!(!alone && seen.len() as u64 <= behind, "seed {seed}");
                    seen.extend(&model[seen.len()..behind as usize]);
                    follower = Follower::open(scratch.look(), behind).expect("the journal");
                } else {
                    assert!(polled.is_ok_and(|count| count <= most), "seed {seed}");
                }
                assert!(seen.len() as u64 <= journal.committed(), "seed {seed}: not committed");
            }
        }
        assert_eq!(seen, model[..seen.len()], "seed {seed}: taken back after it was shown");
    }
    journal.flush().expect("room");
    journal.commit_to(journal.durable());
    journal.write_mark().expect("a disk that works");
    let mut polled = 1;
    while polled > 0 {
        let take = |record: journal::Record<'_>| {
            let (word, _) = record.bytes.split_first_chunk().expect("eight bytes");
            seen.push(u64::from_le_bytes(*word));
        };
        polled = match follower.poll(7, take) {
            Err(JournalError::Position(_)) => {
                let behind = journal.first() - 1;
                seen.extend(&model[seen.len()..behind as usize]);
                follower = Follower::open(scratch.look(), behind).expect("the journal");
                1
            }
            polled => polled.expect("a whole journal"),
        };
    }
    assert_eq!(seen, model, "seed {seed}");
    assert_eq!((follower.committed(), follower.id()), (model.len() as u64, 5));
}

#[test]
fn it_sees_what_is_committed_once_and_in_order() {
    for seed in 0..60 {
        history(seed, seed % 2 == 0);
    }
}

/// A snapshot takes the place of a log with a tail that others never had. The watermark says then that
/// everything up to the snapshot is committed: of the log behind it, not of the one that was given up.
#[test]
fn a_tail_that_a_snapshot_took_the_place_of_is_never_shown() {
    let scratch = Scratch::new("given-up");
    let (mut journal, _) = Journal::open(scratch.folder(), &config(false)).expect("a journal");
    for n in 1..=9u64 {
        journal.append(1, &n.to_le_bytes()).expect("room");
        journal.flush().expect("room");
    }
    journal.commit_to(5);
    journal.write_mark().expect("a disk that works");
    let mut beside = Follower::open(scratch.look(), 0).expect("a journal");
    assert_eq!(beside.poll(99, |_| {}), Ok(5));
    let taken = Installed { position: 20, term: 2, chain: 77, group: b"", bytes: b"all of it" };
    journal.install(&taken).expect("room");
    let shown =
        |record: journal::Record<'_>| panic!("position {} is not committed", record.position);
    assert_eq!(beside.poll(99, shown), Err(JournalError::Position(10)));
    assert_eq!((beside.shown(), beside.committed()), (5, 5));
    let mut behind = Follower::open(scratch.look(), 20).expect("the journal");
    assert_eq!(behind.committed(), 20);
    journal.append(2, b"the next one").expect("room");
    journal.flush().expect("room");
    journal.commit_to(21);
    journal.write_mark().expect("a disk that works");
    assert_eq!(behind.poll(99, |record| assert_eq!(record.position, 21)), Ok(1));
}

#[test]
fn what_is_committed_and_damaged_is_refused_and_what_is_torn_is_waited_for() {
    let scratch = Scratch::new("damage");
    let (mut journal, _) = Journal::open(scratch.folder(), &config(true)).expect("a journal");
    for n in 0..3u8 {
        journal.append(1, &[n; 40]).expect("room");
        journal.flush().expect("room");
    }
    let segment = scratch.0.join("log-0000000000000001");
    let whole = std::fs::read(&segment).expect("a segment");
    // The third frame, which no watermark says is committed, as if half written.
    let mut torn = whole.clone();
    torn[512 * 3 + 100] ^= 1;
    std::fs::write(&segment, &torn).expect("written");
    let mut follower = Follower::open(scratch.look(), 0).expect("a journal");
    assert_eq!(follower.poll(9, |_| {}), Ok(1), "the second is known by the third");
    std::fs::write(&segment, &whole).expect("written");
    assert_eq!(follower.poll(9, |_| {}), Ok(1));
    journal.write_mark().expect("a disk that works");
    assert_eq!(follower.poll(9, |_| {}), Ok(1));
    // The same with a watermark beyond it.
    std::fs::write(&segment, &torn).expect("written");
    let mut follower = Follower::open(scratch.look(), 2).expect("a journal");
    let refused = follower.poll(9, |_| {});
    let place = (1, 512 * 3, Damage::Checksum);
    assert!(
        matches!(refused, Err(JournalError::Corrupt { segment, offset, damage, .. })
            if (segment, offset, damage) == place),
        "{refused:?}"
    );
}

#[test]
fn what_is_kept_no_more_is_said() {
    let scratch = Scratch::new("kept");
    let (mut journal, _) = Journal::open(scratch.folder(), &config(true)).expect("a journal");
    for n in 0..300u64 {
        journal.append(1, &n.to_le_bytes()).expect("room");
        journal.flush().expect("room");
    }
    journal.write_snapshot(250, b"all of it").expect("room");
    assert!(journal.first() > 1);
    let gone = Follower::open(scratch.look(), 0);
    assert_eq!(gone.err(), Some(JournalError::Position(1)));
    let mut follower = Follower::open(scratch.look(), 250).expect("a journal");
    assert_eq!(follower.poll(99, |_| {}), Ok(50));
}
