//! The inputs of an exchange's journals, in order and each once, while somebody writes them or nobody.
//!
//! One journal, or those of the replicas of one group: their inputs have the same positions and numbers, so
//! whoever has read one goes on in another at the same place.
//!
//! What counts is what the folder itself says is committed: the watermark in its file `mark`, the `committed`
//! of a frame or of a segment's header behind the record, or a snapshot that stands for it. A replica writes
//! there only what its group has committed (`replication`: `Write::committed`; of a quiet group within some
//! 30 ms), so nothing that is read is ever taken back, and no vote or term is needed to know that.
//!
//! - Where the log begins behind a snapshot, taken there or installed, the inputs up to there are the
//!   snapshot's. That holds also when it happens while the log is read.
//! - A folder that can't be read any more, or whose replica has stopped: another one's is gone on with.
//! - Nothing is changed, and nobody is waited for.
//! - Memory: a window for each folder that is read, and the bytes of a snapshot while it is passed on.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use journal::{DiskErrorKind, Folder, Follower, JournalError, Record};
use types::Input;

use super::kept::{self, Genesis, input_of};
use super::read::{NO_LOG, look};
use crate::failure::{Failure, on};
use crate::replica::node;

/// So long after the last record of a folder the others are looked at, too.
pub const QUIET: Duration = Duration::from_millis(500);
/// So long after a folder could not be read it is tried again, where there are others.
const AGAIN: Duration = Duration::from_secs(5);
/// Attempts to read a folder: its oldest files may go, or a snapshot come, while it is opened.
const TRIES: u32 = 10;
/// Attempts when something else is wrong.
const TRIES_WRONG: u32 = 2;
/// Time between two.
const BETWEEN: Duration = Duration::from_millis(2);
/// Names of replicas' folders in that of their group, before the number.
const REPLICA: &str = "replica-";
/// Where a node of a venue has its journal.
pub const OF_NODE: &str = "journal";
/// Bytes of an input.
const INPUT: usize = size_of::<Input>();

/// The folders of journals that a path stands for: itself when it holds one, those of replicas in it
/// (`replica-1` and so on, in order), or that of a node (`journal`). Itself when there are none yet. The
/// replicas come first where the path is known to be that of a group.
pub fn folders(path: &Path, of_group: bool) -> Vec<PathBuf> {
    let itself = || vec![path.to_path_buf()];
    if !of_group && holds_journal(path) {
        return itself();
    }
    let number = |name: &str| name.strip_prefix(REPLICA)?.parse::<u32>().ok();
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some((number(entry.file_name().to_str()?)?, entry.path())))
        .filter(|(_, path)| path.is_dir())
        .collect();
    found.sort_unstable();
    let node = path.join(OF_NODE);
    match found.is_empty() {
        true if holds_journal(&node) => vec![node],
        true => itself(),
        false => found.into_iter().map(|(_, path)| path).collect(),
    }
}

fn holds_journal(path: &Path) -> bool {
    // One that can't be read is one all the same.
    look(path).is_ok_and(|mut folder| !matches!(journal::identify(&mut folder), Ok(None)))
}

/// Why a folder gave no more.
enum Trouble {
    /// The log begins behind what was read, or its files went while they were looked at.
    Behind(Failure),
    /// It can't be read.
    Journal(Failure),
    /// Whoever the inputs are passed on to takes no more.
    Each(Failure),
}

/// Who the inputs are passed on to.
type Each<'a> = &'a mut dyn FnMut(&Input) -> Result<(), Failure>;

/// A folder that is read.
struct Source {
    dir: PathBuf,
    follower: Option<Follower<Folder>>,
    /// What was wrong with it, and when.
    failed: Option<(Failure, Instant)>,
}

/// A snapshot that stands for what a log has not: its position and its bytes.
type Behind = (u64, Vec<u8>);
/// A journal opened for following, perhaps behind a snapshot.
type Opened = (Follower<Folder>, Option<Behind>);

impl Source {
    fn new(dir: PathBuf) -> Source {
        Source { dir, follower: None, failed: None }
    }

    /// Opens the journal after a position; behind its newest snapshot where its log begins there.
    fn open(&self, after: u64) -> Result<Option<Opened>, Trouble> {
        let missing = |error: &JournalError| matches!(error, JournalError::Disk(error) if error.kind == DiskErrorKind::Missing);
        let wrong = |error: JournalError| match missing(&error) {
            true => Trouble::Behind(on(&self.dir, error)),
            false => Trouble::Journal(on(&self.dir, error)),
        };
        if !self.dir.exists() {
            return Ok(None);
        }
        let folder = || look(&self.dir).map_err(Trouble::Journal);
        let mut looked = folder()?;
        let Some(id) = journal::identify(&mut looked).map_err(wrong)? else { return Ok(None) };
        match Follower::open(folder()?, after) {
            Err(JournalError::Position(_)) => {}
            follower => return follower.map(|f| Some((f, None))).map_err(wrong),
        }
        let label = journal::label(&mut looked).map_err(wrong)?.unwrap_or_default();
        let newest = journal::newest_snapshot(&mut looked, (id, label), u64::MAX).map_err(wrong)?;
        let Some((info, bytes)) = newest.filter(|(info, _)| info.position > after) else {
            let why = "its log begins behind a snapshot, and no whole one is there";
            return Err(Trouble::Behind(on(&self.dir, why)));
        };
        match Follower::open(folder()?, info.position) {
            Err(error @ JournalError::Position(_)) => Err(Trouble::Behind(on(&self.dir, error))),
            follower => follower.map(|f| Some((f, Some((info.position, bytes))))).map_err(wrong),
        }
    }
}

/// The inputs of a snapshot that were not passed on yet.
#[derive(Default)]
struct Packed {
    bytes: Vec<u8>,
    at: usize,
}

/// What was read so far.
#[derive(Default)]
struct Progress {
    genesis: Option<Genesis>,
    /// Position of the last record.
    position: u64,
    /// Number of the last input.
    input: u64,
    packed: Packed,
    /// Name of the journal: the group's, where there is one.
    id: Option<u64>,
    label: [u8; 32],
}

impl Progress {
    /// Takes the place of the log up to a snapshot's position.
    fn take_snapshot(&mut self, dir: &Path, (position, bytes): Behind) -> Result<(), Failure> {
        let none = || on(dir, format!("the snapshot at {position} is none of an exchange"));
        let genesis = exchange::compacted_genesis(&bytes).and_then(Genesis::read);
        let genesis = genesis.ok_or_else(none)?;
        let from = exchange::compacted_from(&bytes).ok_or_else(none)?;
        let skip = usize::try_from(self.input).ok().and_then(|held| held.checked_mul(INPUT));
        let at =
            usize::try_from(from).ok().zip(skip).and_then(|(from, skip)| from.checked_add(skip));
        let Some(at) = at.filter(|at| *at <= bytes.len()) else {
            let held = self.input;
            let why =
                format!("the snapshot at {position} ends before input {held}, which was read");
            return Err(on(dir, why));
        };
        self.genesis.get_or_insert(genesis);
        (self.position, self.packed) = (position, Packed { bytes, at });
        Ok(())
    }

    /// Inputs of the snapshot that are left.
    fn packed(&self) -> u64 {
        (self.packed.bytes.len().saturating_sub(self.packed.at) / INPUT) as u64
    }

    /// Passes inputs of the snapshot on.
    fn unpack(&mut self, most: usize, each: Each<'_>) -> Result<usize, Failure> {
        let mut count = 0;
        while count < most {
            let rest = self.packed.bytes.get(self.packed.at..).unwrap_or(&[]);
            let Some(bytes) = rest.get(..INPUT) else {
                self.packed = Packed::default();
                break;
            };
            let input = input_of(bytes).filter(|input| input.seq.0 == self.input + 1);
            let none =
                || format!("the snapshot at {} lacks input {}", self.position, self.input + 1);
            let input = input.ok_or_else(|| Failure::Run(none()))?;
            each(&input)?;
            self.input += 1;
            self.packed.at += INPUT;
            count += 1;
        }
        Ok(count)
    }

    /// Takes the next record.
    fn take(&mut self, dir: &Path, record: &Record<'_>, each: Each<'_>) -> Result<(), Trouble> {
        assert_eq!(record.position, self.position + 1, "records are taken in order, each once");
        self.position = record.position;
        // Records of the group itself, and its leaders' first ones.
        if record.bytes.is_empty() {
            return Ok(());
        }
        let wrong = |why: String| Trouble::Journal(on(dir, why));
        if self.genesis.is_none() {
            let genesis = Genesis::read(record.bytes).ok_or_else(|| wrong(NO_LOG.to_string()))?;
            self.genesis = Some(genesis);
            return Ok(());
        }
        if Genesis::read(record.bytes).is_some() {
            // A leader of the group's beginning gave it once more.
            return Ok(());
        }
        let (position, held) = (record.position, self.input);
        let input = input_of(record.bytes);
        let input = input.ok_or_else(|| wrong(format!("position {position} holds no input")))?;
        let seq = input.seq.0;
        if seq != held + 1 {
            return Err(wrong(format!(
                "position {position} holds input {seq}, {held} came before"
            )));
        }
        each(&input).map_err(Trouble::Each)?;
        self.input = seq;
        Ok(())
    }

    /// Takes what a folder has beyond what was read. `count` is how many records there were.
    fn advance(
        &mut self,
        source: &mut Source,
        (most, all): (usize, bool),
        each: Each<'_>,
        count: &mut usize,
    ) -> Result<(), Trouble> {
        if source.follower.is_none() {
            let Some((mut follower, behind)) = source.open(self.position)? else { return Ok(()) };
            let dir = &source.dir;
            if *self.id.get_or_insert(follower.id()) != follower.id() {
                let why = "is the journal of another exchange or group than the ones beside it";
                return Err(Trouble::Journal(on(dir, why)));
            }
            self.label = follower.label();
            if all && self.label == kept::LABEL {
                follower.take_all();
            }
            source.follower = Some(follower);
            if let Some(behind) = behind {
                self.take_snapshot(dir, behind).map_err(Trouble::Journal)?;
                *count += 1;
                return Ok(());
            }
        }
        let Source { dir, follower: Some(follower), .. } = source else { return Ok(()) };
        while *count < most {
            let mut failed = Ok(());
            let polled = follower.poll(most - *count, |record| {
                // One that lags has records that another one had before.
                if failed.is_ok() && record.position > self.position {
                    failed = self.take(dir, &record, each);
                    *count += usize::from(failed.is_ok());
                }
            });
            failed?;
            match polled {
                Ok(0) => break,
                Ok(_) => {}
                Err(error @ JournalError::Position(_)) => {
                    return Err(Trouble::Behind(on(dir, error)));
                }
                Err(error) => return Err(Trouble::Journal(on(dir, error))),
            }
            self.label = follower.label();
            if ![kept::LABEL, node::LABEL].contains(&self.label) {
                return Err(Trouble::Journal(on(dir, NO_LOG)));
            }
        }
        Ok(())
    }
}

/// Who reads; see the module.
pub struct InputReader {
    /// Where to look for folders, and whether it is a group's; nothing for one that was given.
    root: Option<(PathBuf, bool)>,
    sources: Vec<Source>,
    /// The one that is read now.
    at: usize,
    progress: Progress,
    /// Of a lone exchange what is durable counts, also beyond the watermark.
    all: bool,
    /// When a record was read last, or the other folders were looked at.
    since: Option<Instant>,
    notices: Vec<String>,
}

impl InputReader {
    /// Of the journals that a path stands for, as [`folders`] says, also of those that come to it later.
    pub fn of(path: &Path, of_group: bool) -> InputReader {
        InputReader::new(Some((path.to_path_buf(), of_group)), folders(path, of_group))
    }

    /// Of one folder, and of a lone exchange everything in it, also what its watermark does not say to be
    /// committed: a start takes it for that.
    pub fn whole(dir: &Path) -> InputReader {
        InputReader { all: true, ..InputReader::new(None, vec![dir.to_path_buf()]) }
    }

    fn new(root: Option<(PathBuf, bool)>, dirs: Vec<PathBuf>) -> InputReader {
        InputReader {
            root,
            sources: dirs.into_iter().map(Source::new).collect(),
            at: 0,
            progress: Progress::default(),
            all: false,
            since: None,
            notices: Vec::new(),
        }
    }

    /// What exchange it is; nothing while that is not committed. No input is passed on for it.
    ///
    /// # Errors
    /// As [`InputReader::poll`].
    pub fn genesis(&mut self) -> Result<Option<Genesis>, Failure> {
        while self.progress.genesis.is_none() {
            if self.look(1, &mut |_| Ok(()))? == 0 {
                break;
            }
        }
        Ok(self.progress.genesis)
    }

    /// Passes on the next inputs, of at most so many records; says how many records there were. Fewer
    /// than `most` do not mean that there are no more, only that none is known to be committed yet.
    ///
    /// # Errors
    /// What is wrong with the journal, when no folder can be gone on with; and `each`'s, after which the
    /// reader is of no use any more.
    pub fn poll(&mut self, most: usize, each: Each<'_>) -> Result<usize, Failure> {
        let mut count = 0;
        if self.genesis()?.is_none() {
            return Ok(count);
        }
        while count < most {
            let found = match self.progress.unpack(most - count, each)? {
                0 => self.look(most - count, each)?,
                unpacked => unpacked,
            };
            if found == 0 {
                break;
            }
            count += found;
        }
        Ok(count)
    }

    /// Takes what the folder that is read has; when there is nothing for long, what others have.
    fn look(&mut self, most: usize, each: Each<'_>) -> Result<usize, Failure> {
        let count = self.take(self.at, most, each)?;
        let nothing = self.progress.position == 0;
        let quiet = nothing || self.since.is_none_or(|since| since.elapsed() >= QUIET);
        let failed = self.sources.get(self.at).is_none_or(|own| own.failed.is_some());
        if count > 0 || !quiet && !failed {
            return Ok(count);
        }
        self.look_around(most, each)
    }

    /// As [`InputReader::poll`], from any folder that has more than was read; each is looked at, however
    /// lately there was more in the one that is read. For whoever wants to end with all that is there.
    ///
    /// # Errors
    /// As there.
    pub fn look_around(&mut self, most: usize, each: Each<'_>) -> Result<usize, Failure> {
        let unpacked = self.progress.unpack(most, each)?;
        if unpacked > 0 {
            return Ok(unpacked);
        }
        self.find_more();
        let count = self.sources.len();
        for step in 0..count {
            let place = (self.at + step) % count;
            self.reopen_if_replaced(place);
            let before = self.progress.input;
            let found = self.take(place, most, each)?;
            if found > 0 {
                self.go_on_with(place, before);
                return Ok(found);
            }
        }
        self.since = Some(Instant::now());
        // With one that can be read there is nothing to complain of.
        let all = self.sources.iter().all(|source| source.failed.is_some());
        let own = self.sources.get_mut(self.at).filter(|_| all).and_then(|own| own.failed.take());
        own.map_or(Ok(0), |(why, _)| Err(why))
    }

    /// Folders that came since.
    fn find_more(&mut self) {
        let Some((root, of_group)) = &self.root else { return };
        let known = folders(root, *of_group);
        if self.progress.position == 0 {
            // What was taken for a journal's folder may be that of a group by now.
            (self.sources, self.at) = (known.into_iter().map(Source::new).collect(), 0);
            return;
        }
        for dir in known {
            if self.sources.iter().all(|source| source.dir != dir) {
                self.sources.push(Source::new(dir));
            }
        }
    }

    /// Files that were set aside are followed no more: others have their names.
    fn reopen_if_replaced(&mut self, place: usize) {
        let Some(source) = self.sources.get_mut(place) else { return };
        let Some(follower) = &source.follower else { return };
        let told = look(&source.dir).ok().and_then(|mut folder| {
            let named = journal::identify(&mut folder).ok()??;
            Some((named, journal::watermark(&mut folder).ok()??))
        });
        if told.is_some_and(|(named, told)| named != follower.id() || told > follower.read_to()) {
            source.follower = None;
        }
    }

    /// Goes on with a folder behind an input, and says so.
    fn go_on_with(&mut self, place: usize, input: u64) {
        let former = std::mem::replace(&mut self.at, place);
        if former == place || self.progress.position == 0 {
            return;
        }
        let Some((former, next)) = self.sources.get(former).zip(self.sources.get(place)) else {
            return;
        };
        let silent = || format!("{} has no more", former.dir.display());
        let why = former.failed.as_ref().map_or_else(silent, |(why, _)| why.to_string());
        let dir = next.dir.display();
        self.notices.push(format!("{why}: goes on with {dir} after input {input}"));
    }

    /// Takes what one folder has beyond what was read; what is wrong with it is noted there.
    fn take(&mut self, place: usize, most: usize, each: Each<'_>) -> Result<usize, Failure> {
        let others = self.sources.len() > 1;
        let Some(source) = self.sources.get_mut(place) else { return Ok(0) };
        let recently = |failed: &(Failure, Instant)| failed.1.elapsed() < AGAIN;
        if others && source.failed.as_ref().is_some_and(recently) {
            return Ok(0);
        }
        let mut count = 0;
        for tried in 1.. {
            let advanced = self.progress.advance(source, (most, self.all), each, &mut count);
            let (why, tries) = match advanced {
                Ok(()) => {
                    source.failed = None;
                    break;
                }
                Err(Trouble::Each(why)) => return Err(why),
                Err(Trouble::Behind(why)) => (why, TRIES),
                Err(Trouble::Journal(why)) => (why, TRIES_WRONG),
            };
            // Opened anew it goes on behind the last record that was read.
            source.follower = None;
            if count > 0 {
                break;
            }
            if tried >= tries {
                source.failed = Some((why, Instant::now()));
                break;
            }
            std::thread::sleep(BETWEEN);
        }
        if count > 0 {
            self.since = Some(Instant::now());
        }
        Ok(count)
    }

    fn follower(&self) -> Option<&Follower<Folder>> {
        self.sources.get(self.at)?.follower.as_ref()
    }

    /// Position of the last record that was read.
    pub fn position(&self) -> u64 {
        self.progress.position
    }

    /// Inputs of a snapshot that were not passed on yet, up to [`InputReader::position`].
    pub fn packed(&self) -> u64 {
        self.progress.packed()
    }

    /// Number of the last input that was passed on.
    pub fn input(&self) -> u64 {
        self.progress.input
    }

    /// Positions that the folder which is read knows to be committed.
    pub fn committed(&self) -> u64 {
        let told = self.follower().map_or(0, Follower::committed);
        told.max(self.progress.position)
    }

    /// Records known to be committed that were not passed on.
    pub fn behind(&self) -> u64 {
        self.committed() - self.progress.position + self.progress.packed()
    }

    /// Records that are there and were not passed on, committed or not.
    pub fn unread(&self) -> u64 {
        let there = self.follower().map_or(0, Follower::read_to);
        there.saturating_sub(self.progress.position) + self.progress.packed()
    }

    /// Name of the journal: that of the group where it is a replica's. 0 before it was read.
    pub fn id(&self) -> u64 {
        self.progress.id.unwrap_or(0)
    }

    /// Whether it is the journal of a replica.
    pub fn is_replica(&self) -> bool {
        self.progress.label == node::LABEL
    }

    /// The folder that is read.
    pub fn dir(&self) -> &Path {
        self.sources.get(self.at).map_or(Path::new(""), |source| &source.dir)
    }

    /// What there is to say since this was asked last: which folder is gone on with, and why.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}
