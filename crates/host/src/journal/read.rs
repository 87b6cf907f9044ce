//! The inputs in a journal on disk, in order: of a lone exchange, or of a replica of a group.
//!
//! For readers that want all that is there now, while nobody or somebody writes; [`super::reader`] reads, and
//! goes on. A lone exchange's journal holds its genesis, then inputs; everything that is durable counts. A
//! replica's also holds the group's own records and its leaders' first ones, which are passed over, and
//! what counts is what is committed: the rest may be taken back. Where its log begins behind a snapshot
//! the inputs up to there are the snapshot's.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use engine::log_file::{LogHeader, write_header, write_input};
use journal::{Folder, FolderConfig, JournalError, Storage, Verified};
use types::Input;

use super::kept::{self, Genesis};
use super::reader::{InputReader, folders};
use crate::failure::{Failure, on};
use crate::replica::node;

/// Bytes of a log that are handed on together.
const PIECE: usize = 1 << 18;
/// Pieces that may wait for whoever reads.
const WAITING: usize = 4;
/// Records read at a time.
const AT_ONCE: u64 = 1 << 14;
/// Attempts to check a journal that somebody writes.
const TRIES: u32 = 10;
/// What a journal says that is of no exchange.
pub const NO_LOG: &str = "holds no log of an exchange";

/// Opens a folder for looking; through the page cache, as any reader.
pub fn look(dir: &Path) -> Result<Folder, Failure> {
    let config = FolderConfig { direct: false, ..FolderConfig::default() };
    Folder::open_unlocked(dir, config).map_err(|error| on(dir, error))
}

/// A whole journal, checked as a start would: of those that a path stands for ([`folders`]) the one with
/// most committed records. While somebody writes it, its oldest files may go meanwhile.
///
/// # Errors
/// What a start would refuse of the first folder, when it would refuse all of them.
fn checked(path: &Path) -> Result<(PathBuf, Verified), Failure> {
    let (mut best, mut failed): (Option<(PathBuf, Verified)>, Option<Failure>) = (None, None);
    for dir in folders(path, false) {
        match verified(&dir) {
            Err(error) => drop(failed.get_or_insert_with(|| on(&dir, error))),
            Ok(found) if best.as_ref().is_some_and(|(_, b)| b.committed >= found.committed) => {}
            Ok(found) => best = Some((dir, found)),
        }
    }
    let nothing = || failed.unwrap_or_else(|| on(path, NO_LOG));
    best.ok_or_else(nothing)
}

/// [`journal::verify`] of a folder that somebody may be writing. What is found wrong counts when it is found
/// twice, with the same files: a frame that was written between two reads looks like a hole before it.
///
/// # Errors
/// As there.
pub fn verified(dir: &Path) -> Result<Verified, JournalError> {
    let open = || {
        let config = FolderConfig { direct: false, ..FolderConfig::default() };
        Folder::open_unlocked(dir, config).map_err(JournalError::Disk)
    };
    let (mut tries, mut last) = (0, None);
    loop {
        let names = open()?.names().map_err(JournalError::Disk)?;
        let error = match journal::verify(&mut open()?) {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        tries += 1;
        let seen = Some((names, error.clone()));
        if seen == last || tries >= TRIES {
            return Err(error);
        }
        last = seen;
    }
}

/// Shows `each` the inputs of a journal, in order, after `begin` has heard what exchange it is of; says
/// how many there were. Everything in it is checked first. A path that stands for several journals
/// ([`folders`]): that of the replica with most committed records.
///
/// # Errors
/// What is wrong with the journal, and theirs.
pub fn inputs(
    path: &Path,
    begin: impl FnOnce(&Genesis) -> Result<(), Failure>,
    mut each: impl FnMut(&Input) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let (dir, found) = checked(path)?;
    let replica = found.label == node::LABEL;
    if !replica && found.label != kept::LABEL {
        return Err(on(&dir, NO_LOG));
    }
    if !replica && found.first > 1 {
        let first = found.first;
        return Err(on(&dir, format!("the inputs before position {first} are not there")));
    }
    let until = if replica { found.committed } else { found.last };
    let mut reader = InputReader::whole(&dir);
    begin(&reader.genesis()?.ok_or_else(|| on(&dir, NO_LOG))?)?;
    while reader.position() < until || reader.packed() > 0 {
        let left = until.saturating_sub(reader.position()).clamp(1, AT_ONCE);
        if reader.poll(left as usize, &mut each)? == 0 {
            let at = reader.position();
            return Err(on(&dir, format!("ends at position {at}, and held {until} a moment ago")));
        }
    }
    Ok(reader.input())
}

/// A journal's inputs as the bytes of an input log, for whoever reads those.
pub struct AsLog {
    pieces: Receiver<Result<Vec<u8>, String>>,
    piece: Vec<u8>,
    taken: usize,
}

impl AsLog {
    /// Reads a journal by a thread of its own, which ends when this is dropped.
    pub fn open(dir: &Path) -> AsLog {
        let (to, pieces) = sync_channel(WAITING);
        let dir = dir.to_path_buf();
        std::thread::spawn(move || {
            let gone = || Failure::Run("nobody reads any more".to_string());
            let piece = std::cell::RefCell::new(Vec::with_capacity(PIECE));
            let wrong = |error: std::io::Error| Failure::Run(error.to_string());
            let begin = |genesis: &Genesis| {
                let (rules_version, config_digest) = (genesis.rules_version, genesis.config_digest);
                let header = LogHeader { rules_version, config_digest, given_up: 0 };
                write_header(&mut *piece.borrow_mut(), &header).map_err(wrong)
            };
            let read = inputs(&dir, begin, |input| {
                let mut piece = piece.borrow_mut();
                write_input(&mut *piece, input).map_err(wrong)?;
                if piece.len() < PIECE {
                    return Ok(());
                }
                let full = std::mem::replace(&mut *piece, Vec::with_capacity(PIECE));
                to.send(Ok(full)).map_err(|_| gone())
            });
            // Whoever left does not want to know the rest.
            let _ = match read {
                Ok(_) => to.send(Ok(piece.into_inner())),
                Err(error) => to.send(Err(error.to_string())),
            };
        });
        AsLog { pieces, piece: Vec::new(), taken: 0 }
    }
}

impl Read for AsLog {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.taken >= self.piece.len() {
            match self.pieces.recv() {
                Ok(Ok(piece)) => (self.piece, self.taken) = (piece, 0),
                Ok(Err(why)) => return Err(std::io::Error::other(why)),
                Err(_) => return Ok(0),
            }
        }
        let rest = self.piece.get(self.taken..).unwrap_or(&[]);
        let count = rest.len().min(into.len());
        if let (Some(from), Some(into)) = (rest.get(..count), into.get_mut(..count)) {
            into.copy_from_slice(from);
        }
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use journal::{Config, Journal};
    use types::{Command, CommandKind, Nanos, Seq, Source};
    use zerocopy::IntoBytes;

    use super::*;

    fn input(seq: u64) -> Input {
        let command = Command::new(CommandKind::StartOfDay);
        let (t_in, t_seq) = (Nanos(seq), Nanos(seq + 1));
        Input { seq: Seq(seq), t_in, t_seq, source: Source::default(), flags: 0, command }
    }

    fn genesis() -> Genesis {
        let (rules_version, config_digest) = (engine::RULES_VERSION, 7);
        Genesis { rules_version, config_digest, session: *b"FAIRBELL01", midnight: Nanos(3) }
    }

    /// Control: with one look the hole before a frame that was written meanwhile counts as damage.
    #[test]
    fn a_journal_that_is_written_meanwhile_is_whole() {
        use std::sync::atomic::{AtomicBool, Ordering};

        let dir = std::env::temp_dir().join(format!("fairbell-live-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let config = FolderConfig { syncing: journal::Syncing::Never, ..FolderConfig::default() };
        let folder =
            Folder::open(&dir, FolderConfig { direct: false, ..config }).expect("a folder");
        let config = Config { batch_bytes: 4_096, ..Config::new(5, kept::LABEL) };
        let config = Config { block: 512, segment_bytes: 1 << 20, ..config };
        let mut journal = Journal::open(folder, &config).expect("a new journal").0;
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| {
                for seq in (1..50_000).take_while(|_| !over.load(Ordering::Relaxed)) {
                    journal.append(1, input(seq).as_bytes()).expect("room");
                    journal.flush().expect("room");
                }
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            let found = (0..60).try_for_each(|_| verified(&dir).map(drop));
            over.store(true, Ordering::Relaxed);
            writer.join().expect("the writer ends");
            std::fs::remove_dir_all(&dir).expect("a folder");
            found.expect("whole");
        });
    }

    /// A replica's journal of 300 inputs between the group's own records, the last 10 not committed;
    /// behind a snapshot if asked for.
    fn replica(dir: &Path, label: [u8; 32], behind: bool) -> u64 {
        let config = FolderConfig { syncing: journal::Syncing::Never, ..FolderConfig::default() };
        let folder = Folder::open(dir, config).expect("a folder");
        let config = Config { batch_bytes: 4_096, ..Config::new(5, label) };
        let config = Config { block: 512, segment_bytes: 32 << 10, alone: false, ..config };
        let mut journal = Journal::open(folder, &config).expect("a new journal").0;
        journal.append_group(1, b"the members").expect("room");
        journal.append(1, b"").expect("room");
        journal.append(1, &genesis().bytes()).expect("room");
        for seq in 1..=300 {
            if seq % 50 == 0 {
                journal.append(2, b"").expect("room");
            }
            journal.append(2, input(seq).as_bytes()).expect("room");
            journal.flush().expect("room");
            if seq <= 290 {
                journal.commit_to(journal.durable());
            }
            if behind && seq % 100 == 0 && seq < 290 {
                let position = journal.committed();
                let bytes =
                    exchange::compact(&mut journal, position).expect("read").expect("begun");
                journal.write_snapshot(position, &bytes).expect("room");
                journal.retain(position).expect("a disk that works");
            }
        }
        journal.write_mark().expect("a disk that works");
        journal.first()
    }

    fn read(dir: &Path) -> Result<Vec<u64>, Failure> {
        let (mut seqs, mut begun) = (Vec::new(), false);
        let begin = |found: &Genesis| {
            begun = *found == genesis();
            Ok(())
        };
        let count = inputs(dir, begin, |input| {
            seqs.push(input.seq.0);
            Ok(())
        })?;
        assert!(begun && count == seqs.len() as u64);
        Ok(seqs)
    }

    #[test]
    fn of_a_replica_what_is_committed_is_read_also_behind_a_snapshot() {
        for behind in [false, true] {
            let name = format!("fairbell-read-{behind}-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&dir);
            let first = replica(&dir, node::LABEL, behind);
            assert_eq!(first > 1, behind, "{first}");
            assert_eq!(read(&dir), Ok((1..=290).collect()), "{behind}");
            // The same as the bytes of a log.
            let log = engine::log_file::LogReader::new(AsLog::open(&dir)).expect("a header");
            assert_eq!(log.header().config_digest, 7);
            let read: Result<Vec<Input>, _> = log.collect();
            assert_eq!(read.expect("whole").len(), 290);
            // What went wrong is told through that, too.
            if behind {
                let names = std::fs::read_dir(&dir).expect("a folder").flatten();
                let snapshots =
                    names.filter(|e| e.file_name().to_string_lossy().starts_with("snap"));
                snapshots.for_each(|e| std::fs::remove_file(e.path()).expect("removed"));
                let log = engine::log_file::LogReader::new(AsLog::open(&dir)).map(|_| ());
                let why = log.expect_err("nothing to read").to_string();
                assert!(why.contains("no snapshot that is whole"), "{why}");
            }
            let _ = std::fs::remove_dir_all(&dir);
        }
    }

    #[test]
    fn a_journal_of_something_else_is_refused() {
        let dir = std::env::temp_dir().join(format!("fairbell-read-other-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        replica(&dir, *b"records of a test, any bytes    ", false);
        let refused = read(&dir).expect_err("no exchange's");
        assert!(refused.to_string().ends_with(NO_LOG), "{refused}");
        let _ = std::fs::remove_dir_all(&dir);
    }

    /// All that a reader passes on.
    fn follow(reader: &mut InputReader) -> Vec<u64> {
        let mut seqs = Vec::new();
        let mut each = |input: &Input| {
            seqs.push(input.seq.0);
            Ok(())
        };
        while reader.poll(7, &mut each).expect("it can be read") > 0 {}
        while reader.look_around(7, &mut each).expect("it can be read") > 0 {}
        seqs
    }

    #[test]
    fn of_a_group_any_folder_does_and_one_that_fails_is_replaced() {
        let root = std::env::temp_dir().join(format!("fairbell-group-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(&root).expect("a folder");
        let mut reader = InputReader::of(&root, false);
        assert_eq!(reader.genesis(), Ok(None), "nothing is there yet");
        let [one, two] = [1, 2].map(|number| root.join(format!("replica-{number}")));
        replica(&one, node::LABEL, false);
        assert_eq!(folders(&root, false), std::slice::from_ref(&one));
        replica(&two, node::LABEL, true);
        assert_eq!(folders(&root, false), [one.clone(), two.clone()]);
        assert_eq!(
            folders(&one, false),
            std::slice::from_ref(&one),
            "a journal's folder is itself"
        );
        assert_eq!(reader.genesis(), Ok(Some(genesis())));
        let mut seqs = Vec::new();
        let mut some = |input: &Input| {
            seqs.push(input.seq.0);
            Ok(())
        };
        reader.poll(100, &mut some).expect("it can be read");
        assert!(seqs.len() > 50 && seqs.len() < 290 && reader.dir() == one, "{}", seqs.len());
        // The folder goes, with what was not read; the other one's log begins behind a snapshot.
        std::fs::remove_dir_all(&one).expect("removed");
        seqs.extend(follow(&mut reader));
        assert_eq!((seqs, reader.dir()), ((1..=290).collect(), two.as_path()));
        let told = reader.take_notices();
        assert!(told.len() == 1 && told[0].contains("goes on with"), "{told:?}");
        assert_eq!(read(&root), Ok((1..=290).collect()), "a command takes the folder of the group");
        // That of a node.
        let at_node = root.join("node");
        std::fs::create_dir_all(&at_node).expect("a folder");
        std::fs::rename(&two, at_node.join("journal")).expect("moved");
        assert_eq!(folders(&at_node, false), [at_node.join("journal")]);
        assert_eq!(read(&at_node), Ok((1..=290).collect()));
        let _ = std::fs::remove_dir_all(&root);
    }

    /// As a crash leaves it between the segment that begins behind it and its name.
    #[test]
    fn an_installed_snapshot_is_read_before_it_has_its_own_name() {
        let root = std::env::temp_dir().join(format!("fairbell-inst-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let (from, to) = (root.join("replica-1"), root.join("replica-2"));
        std::fs::create_dir_all(&from).expect("a folder");
        replica(&from, node::LABEL, true);
        let open = |dir: &Path| {
            let config = FolderConfig { syncing: journal::Syncing::Never, ..Default::default() };
            let folder = Folder::open(dir, config).expect("a folder");
            let config = Config { alone: false, ..Config::new(5, node::LABEL) };
            Journal::open(folder, &config).expect("a journal").0
        };
        let mut theirs = open(&from);
        let info = *theirs.snapshots().last().expect("one was taken");
        let bytes = theirs.read_snapshot(info.position).expect("whole");
        let mut journal = open(&to);
        let mut reader = InputReader::of(&to, false);
        assert_eq!(reader.genesis(), Ok(None));
        let journal::SnapshotInfo { position, term, chain, .. } = info;
        let taken = journal::Installed { position, term, chain, group: b"", bytes: &bytes };
        journal.install(&taken).expect("room");
        drop(journal);
        let named = |begins: &str| to.join(format!("{begins}-{position:016x}"));
        std::fs::rename(named("snap"), named("inst")).expect("renamed");
        let seqs = follow(&mut reader);
        assert_eq!(seqs, (1..=200).collect::<Vec<_>>());
        let _ = std::fs::remove_dir_all(&root);
    }
}
