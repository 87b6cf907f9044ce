//! Segments that need not be read at a start: the same is known as by reading them, and damage in them
//! is found all the same, a bit later.

use journal::{Config, Journal, JournalError, SimDisk, Storage, Vote};
use types::SplitMix64;

fn config(read_later: bool) -> Config {
    Config {
        block: 512,
        segment_bytes: 8_192,
        batch_bytes: 4_096,
        alone: false,
        read_later,
        ..Config::new(5, *b"records of a test, any bytes    ")
    }
}

/// A journal over many segments, with terms, records of the group's own, and some taken back.
fn disk(seed: u64) -> SimDisk {
    let mut disk = SimDisk::new(seed);
    let mut rng = SplitMix64::new(seed);
    let (mut journal, _) = Journal::open(&mut disk, &config(true)).expect("a new journal");
    let mut term = 1;
    for n in 0..500 {
        let record: Vec<u8> = (0..rng.below(150)).map(|_| rng.next_u64() as u8).collect();
        match rng.below(40) {
            0 => term += 1,
            1 => drop(journal.append_group(term, b"who is in it").expect("room")),
            _ => drop(journal.append(term, &record).expect("room")),
        }
        if n % 7 == 0 {
            journal.flush().expect("a disk that works");
            if rng.below(4) == 0 && journal.last() > journal.committed() + 3 {
                journal.truncate(journal.last() - rng.below(3)).expect("not committed");
            }
            journal.commit_to(journal.last().saturating_sub(rng.below(9)));
        }
    }
    journal.flush().expect("a disk that works");
    journal.set_vote(Vote { term, voted_for: 1 }).expect("a disk that works");
    journal.commit_to(journal.last());
    journal.write_mark().expect("a disk that works");
    journal.into_storage();
    disk
}

type Facts = (u64, u64, u64, u64, Vec<(u64, u64)>, Vec<(u64, Vec<u8>)>);

/// What is known of a journal, and how many of its segments were not read.
fn open(disk: &mut SimDisk, later: bool) -> Result<(Facts, u64), JournalError> {
    let (journal, found) = Journal::open(disk, &config(later))?;
    let ends = (journal.first(), journal.last(), journal.committed(), journal.chain());
    let (terms, groups) = (journal.terms().to_vec(), journal.groups().to_vec());
    Ok(((ends.0, ends.1, ends.2, ends.3, terms, groups), found.unread))
}

fn read_on(journal: &mut Journal<impl Storage>) -> Result<(), JournalError> {
    while !journal.read_on(700)? {}
    Ok(())
}

#[test]
fn what_was_not_read_is_known_and_read_later() {
    for seed in 0..20 {
        let whole = disk(seed);
        let (due, unread) = open(&mut whole.clone(), false).expect("a whole journal");
        assert!(unread == 0 && due.4.len() > 3 && due.5.len() > 3, "seed {seed}: {due:?}");
        let (found, unread) = open(&mut whole.clone(), true).expect("a whole journal");
        assert_eq!(found, due, "seed {seed}");
        assert!(unread > 3, "seed {seed}: {unread}");

        let mut disk = whole.clone();
        let (mut journal, recovery) =
            Journal::open(&mut disk, &config(true)).expect("a whole journal");
        assert_eq!((journal.unread() as u64, journal.read_on(1)), (recovery.unread, Ok(false)));
        // Some are given up meanwhile.
        journal.write_snapshot(due.1 / 2, b"all before").expect("committed");
        read_on(&mut journal).expect("nothing is damaged");
        assert_eq!((journal.unread(), journal.read_on(1)), (0, Ok(true)));
        let of_half = journal.first();
        journal.into_storage();
        assert!(of_half > 1);
        // A log that begins later.
        let (due, _) = open(&mut disk.clone(), false).expect("a whole journal");
        let (found, unread) = open(&mut disk, true).expect("a whole journal");
        assert_eq!(found, due, "seed {seed}, from {of_half}");
        assert!(unread > 0, "seed {seed}: {unread}");
    }
}

#[test]
fn a_flipped_bit_is_found_at_the_start_or_beside_the_work_and_named() {
    let whole = disk(1);
    let names = whole.clone().names().expect("names");
    let mut logs: Vec<String> = names.into_iter().filter(|name| name.starts_with("log-")).collect();
    logs.sort_unstable();
    let (mut rng, mut late) = (SplitMix64::new(4), 0);
    for n in 0..1_000 {
        let mut disk = whole.clone();
        let name = &logs[rng.below(logs.len() as u64) as usize];
        let bit = rng.below(8 * 8_192);
        assert!(disk.flip(name, bit));
        let due = match Journal::open(&mut disk.clone(), &config(false)) {
            // The bit was never written to.
            Ok(_) => continue,
            Err(JournalError::Corrupt { segment, offset, .. }) => (segment, offset),
            Err(error) => panic!("flip {n}: {error}"),
        };
        let (mut journal, _) = match Journal::open(&mut disk, &config(true)) {
            Ok(opened) => opened,
            Err(JournalError::Corrupt { segment, offset, .. }) => {
                assert_eq!((segment, offset), due, "flip {n}");
                continue;
            }
            Err(error) => panic!("flip {n}: {error}"),
        };
        late += 1;
        let error = read_on(&mut journal).expect_err("damage");
        let JournalError::Corrupt { segment, offset, .. } = error else {
            panic!("flip {n}: {error}");
        };
        assert_eq!((segment, offset), due, "flip {n}, bit {bit} of {name}");
        assert_eq!(journal.append(99, b"more"), Err(JournalError::Closed));
    }
    assert!(late > 300, "{late}");
}

/// Whatever is wrong with the file that helps, the log is read.
#[test]
fn a_help_that_is_damaged_or_of_another_log_is_none() {
    let whole = disk(2);
    let (due, _) = open(&mut whole.clone(), false).expect("a whole journal");
    let bytes = whole.bytes("known").expect("it was written").to_vec();
    let mut rng = SplitMix64::new(7);
    let check = |disk: &mut SimDisk, what: &str| {
        let (found, unread) = open(disk, true).expect("a whole journal");
        assert_eq!((found, unread), (due.clone(), 0), "{what}");
    };
    for _ in 0..300 {
        let mut disk = whole.clone();
        let bit = rng.below(bytes.len() as u64 * 8);
        assert!(disk.flip("known", bit));
        check(&mut disk, &format!("bit {bit}"));
    }
    for len in [0, 1, 511, 512, bytes.len() - 512, bytes.len() - 1] {
        let mut disk = whole.clone();
        disk.put("known", &bytes[..len]);
        check(&mut disk, &format!("{len} bytes"));
    }
    let mut one = whole.clone();
    one.put("known", disk(3).bytes("known").expect("it was written"));
    check(&mut one, "of another log");
    let mut one = whole.clone();
    one.take("known");
    check(&mut one, "gone");
}
