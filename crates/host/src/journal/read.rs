//! The inputs in a journal on disk, in order: of a lone exchange, or of a replica of a group.
//!
//! A lone exchange's journal holds its genesis, then inputs; everything that is durable counts. A
//! replica's also holds the group's own records and its leaders' first ones, which are passed over, and
//! what counts is what is committed: the rest may be taken back. Where its log begins behind a snapshot
//! the inputs up to there are the snapshot's. For readers, while nobody or somebody writes.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use engine::log_file::{LogHeader, write_header, write_input};
use journal::{Folder, FolderConfig, Record, Verified};
use types::Input;

use super::kept::{self, Genesis, input_of};
use crate::failure::{Failure, on};
use crate::replica::node;

/// Bytes of a log that are handed on together.
const PIECE: usize = 1 << 18;
/// Pieces that may wait for whoever reads.
const WAITING: usize = 4;
/// What a journal says that is of no exchange.
pub const NO_LOG: &str = "holds no log of an exchange";

/// Opens a folder for looking; through the page cache, as any reader.
pub fn look(dir: &Path) -> Result<Folder, Failure> {
    let config = FolderConfig { direct: false, ..FolderConfig::default() };
    Folder::open_unlocked(dir, config).map_err(|error| on(dir, error))
}

/// The inputs as they come by, checked to follow one another.
struct Reading<B, E> {
    dir: PathBuf,
    begin: Option<B>,
    each: E,
    /// Inputs shown.
    held: u64,
    /// Positions that count: all, or those that are committed.
    until: u64,
    /// Positions that a snapshot stood for.
    behind: u64,
}

impl<B, E> Reading<B, E>
where
    B: FnOnce(&Genesis) -> Result<(), Failure>,
    E: FnMut(&Input) -> Result<(), Failure>,
{
    /// What is found first: whose journal it is, and the inputs of its snapshot.
    fn start(&mut self, folder: &mut Folder, found: &Verified) -> Result<(), Failure> {
        let replica = found.label == node::LABEL;
        if !replica && found.label != kept::LABEL {
            return Err(on(&self.dir, NO_LOG));
        }
        self.until = if replica { found.committed } else { found.last };
        if found.first == 1 {
            return Ok(());
        }
        let (named, dir) = ((found.id, found.label), self.dir.clone());
        let newest = journal::newest_snapshot(folder, named, self.until);
        let newest = newest.map_err(|error| on(&dir, error))?;
        let Some((info, bytes)) = newest.filter(|_| replica) else {
            let first = found.first;
            return Err(on(&dir, format!("the inputs before position {first} are not there")));
        };
        let none = || on(&dir, format!("the snapshot at {} is none of an exchange", info.position));
        let genesis =
            exchange::compacted_genesis(&bytes).and_then(Genesis::read).ok_or_else(none)?;
        self.open(&genesis)?;
        self.behind = info.position;
        exchange::compacted_inputs(&bytes).ok_or_else(none)?.iter().try_for_each(|i| self.show(i))
    }

    fn open(&mut self, genesis: &Genesis) -> Result<(), Failure> {
        self.begin.take().map_or(Ok(()), |begin| begin(genesis))
    }

    fn show(&mut self, input: &Input) -> Result<(), Failure> {
        self.held += 1;
        (self.each)(input)
    }

    fn take(&mut self, record: Record<'_>) -> Result<(), Failure> {
        if record.position <= self.behind || record.bytes.is_empty() {
            return Ok(());
        }
        if self.begin.is_some() {
            let genesis = Genesis::read(record.bytes).ok_or_else(|| on(&self.dir, NO_LOG))?;
            return self.open(&genesis);
        }
        if Genesis::read(record.bytes).is_some() {
            // A leader of the group's beginning gave it once more.
            return Ok(());
        }
        let position = record.position;
        let input = input_of(record.bytes);
        let input =
            input.ok_or_else(|| on(&self.dir, format!("position {position} holds no input")))?;
        if input.seq.0 != self.held + 1 {
            let (seq, held) = (input.seq.0, self.held);
            let why = format!("position {position} holds input {seq}, {held} came before");
            return Err(on(&self.dir, why));
        }
        self.show(&input)
    }
}

/// Shows `each` the inputs of a journal, in order, after `begin` has heard what exchange it is of; says
/// how many there were.
///
/// # Errors
/// What is wrong with the journal, and theirs.
pub fn inputs(
    dir: &Path,
    begin: impl FnOnce(&Genesis) -> Result<(), Failure>,
    each: impl FnMut(&Input) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let (dir, begin) = (dir.to_path_buf(), Some(begin));
    let reading = Reading { dir: dir.clone(), begin, each, held: 0, until: 0, behind: 0 };
    let reading = std::cell::RefCell::new(reading);
    let failed = std::cell::RefCell::new(Ok(()));
    let going = |step: Result<(), Failure>| match step {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            *failed.borrow_mut() = Err(error);
            ControlFlow::Break(())
        }
    };
    let shown = journal::read_all(
        &mut look(&dir)?,
        |folder, found| going(reading.borrow_mut().start(folder, found)),
        |record| {
            let mut reading = reading.borrow_mut();
            if record.position > reading.until {
                return ControlFlow::Break(());
            }
            going(reading.take(record))
        },
    );
    failed.into_inner()?;
    shown.map_err(|error| on(&dir, error))?;
    let Reading { begin, held, .. } = reading.into_inner();
    if begin.is_some() { Err(on(&dir, NO_LOG)) } else { Ok(held) }
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
}
