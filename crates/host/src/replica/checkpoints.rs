//! Checkpoints of a replica's root in its folder, so that a start needs not apply the whole day.
//!
//! `checkpoints/at-<position>` are the two newest, each whole under that name ([`exchange::Checkpoint`]).
//! Beside them lie the files that the root spills to, of blocks with a checksum each: `streams`,
//! private streams, and `feed-<n>`, what can be asked for again. They are synced before a checkpoint
//! counts, and what they hold up to there does not change any more: what they hold beyond it is
//! written again.
//!
//! All of it is made of the log, which stays what counts. A checkpoint that does not fit is passed
//! over; when none does, the files begin anew and the inputs are applied from the first.

use std::fs::{File, OpenOptions};
use std::io::Result as IoResult;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use exchange::{Checkpoint, ExchangeConfig, Keep, NewLink, Root};
use journal::{Folder, Journal};
use overlay::{private_sender::PrivateStreams, publisher::Publisher};
use types::{Checked, ExecutionReport, SpillStore};

use crate::config::Memory;
use crate::failure::Failure;
use crate::spill::{FileSpill, SpillWriter, streams_in};

/// Their folder in a replica's.
const FOLDER: &str = "checkpoints";
const NAME: &str = "at-";
/// Checkpoints kept: one that turns out to be damaged leaves another.
const KEPT: usize = 2;
/// No checkpoint is longer.
const BYTES_MAX: u64 = 1 << 34;

/// What is said when a private stream can't be read back.
pub const DAMAGED: &str = "a file beside its checkpoints is damaged: they are given up; start it \
                           again, and it applies the inputs of its journal";

/// How a replica begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// Behind its newest checkpoint that fits, and it writes others.
    Checkpoint,
    /// By applying its inputs, from the first on.
    Inputs,
    /// With all that is in its journal, whether it was committed or not, and all of it in memory: its
    /// group has ended.
    Ended,
}

/// A root made of a checkpoint, or a new one.
pub struct Begun {
    /// The root, as it stands at `position`.
    pub root: Box<Root>,
    /// Makes its guards.
    pub reguard: Option<NewLink>,
    /// Position in the journal that it stands at; 0 for a new one.
    pub position: u64,
    /// Its files, where it is to be written down.
    pub files: Option<Files>,
}

/// The files beside checkpoints.
pub struct Files {
    folder: PathBuf,
    /// Those of the spill stores, and the threads that write them.
    spills: Vec<(SpillWriter, File)>,
    genesis: Vec<u8>,
}

/// A root as it was written down, on its way to the disk.
pub struct Taken {
    /// Position in the journal.
    pub position: u64,
    inputs: u64,
    root: Vec<u8>,
}

/// What checkpoints of this life cost.
#[derive(Default)]
pub struct Cost {
    busy: AtomicBool,
    /// Memory of the one that was written last, for the next one.
    spare: Mutex<Vec<u8>>,
    /// Checkpoints written.
    pub written: AtomicU64,
    /// The longest that the loop took to write one down, ns.
    pub longest_ns: AtomicU64,
    /// Length of the newest, bytes.
    pub bytes: AtomicU64,
}

impl Cost {
    fn spare(&self) -> MutexGuard<'_, Vec<u8>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_root(exchange: &ExchangeConfig) -> Result<(Box<Root>, Option<NewLink>), Failure> {
    exchange::group_root(exchange, exchange::random_life)
        .map_err(|error| Failure::Usage(error.to_string()))
}

/// A root that stands where the newest checkpoint does that fits the journal, or a new one.
///
/// # Errors
/// Files that can't be had; an exchange that is none.
pub fn begin(
    how: Begin,
    (dir, memory): (&Path, &Memory),
    exchange: &ExchangeConfig,
    genesis: &[u8],
    journal: &mut Journal<Folder>,
) -> Result<Begun, Failure> {
    if how == Begin::Ended {
        let (root, reguard) = new_root(exchange)?;
        return Ok(Begun { root, reguard, position: 0, files: None });
    }
    if how == Begin::Inputs {
        return without((dir, memory), exchange);
    }
    let folder = dir.join(FOLDER);
    let begun = behind((&folder, memory), exchange, genesis, journal)?;
    begun.or_else(|error| {
        // Nothing depends on them: a disk without room, for instance.
        eprintln!("{}: {error}; it goes on without checkpoints", folder.display());
        without((dir, memory), exchange)
    })
}

/// A new root that is not written down: its private streams lie in a file without a name.
fn without((dir, memory): (&Path, &Memory), exchange: &ExchangeConfig) -> Result<Begun, Failure> {
    let (mut root, reguard) = new_root(exchange)?;
    let (inputs, reports) = memory.newest();
    let spills =
        streams_in(dir).map(|streams| root.spill_streams_to(inputs, (streams, reports)))?;
    bound(&mut root, memory);
    match spills {
        true => Ok(Begun { root, reguard, position: 0, files: None }),
        false => Err(Failure::Run("a root that has begun".to_string())),
    }
}

/// The same with files, if they can be had.
fn behind(
    (folder, memory): (&Path, &Memory),
    exchange: &ExchangeConfig,
    genesis: &[u8],
    journal: &mut Journal<Folder>,
) -> Result<IoResult<Begun>, Failure> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let found = made.and_then(|()| known(folder));
    let positions = match found {
        Ok(positions) => positions,
        Err(error) => return Ok(Err(error)),
    };
    let files = |spills| {
        let (folder, genesis) = (folder.to_path_buf(), genesis.to_vec());
        Some(Files { folder, spills, genesis })
    };
    for position in positions.into_iter().rev() {
        let Some(kept) = read(folder, position) else { continue };
        if kept.genesis != genesis {
            let why = "checkpoints of another exchange, session or configuration";
            return Ok(Err(std::io::Error::other(why)));
        }
        if !kept.fits(genesis, journal) {
            continue;
        }
        let (mut root, reguard) = new_root(exchange)?;
        // What is missing is found out when it is read.
        let Ok(spills) = attach(&mut root, (exchange, memory), folder, false) else { break };
        bound(&mut root, memory);
        if root.restore(&kept.root).is_ok() && root.engine().applied() == kept.inputs {
            return Ok(Ok(Begun { root, reguard, position, files: files(spills) }));
        }
    }
    let (mut root, reguard) = new_root(exchange)?;
    let attached =
        forget(folder).and_then(|()| attach(&mut root, (exchange, memory), folder, true));
    bound(&mut root, memory);
    Ok(attached.map(|spills| Begun { root, reguard, position: 0, files: files(spills) }))
}

/// Bounds a root's private streams as its settings say. Its log lasts: whoever lags gets that.
fn bound(root: &mut Root, memory: &Memory) {
    if let Some((_, streams)) = memory.disk().filter(|_| memory.recycles()) {
        root.bound_streams(streams, true);
    }
}

/// Positions of the checkpoints there, in order.
fn known(folder: &Path) -> IoResult<Vec<u64>> {
    let mut positions = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        let name = file.file_name();
        if name.to_str().is_some_and(|name| name.ends_with(crate::files::UNFINISHED)) {
            // Whoever wrote it is no more: there is one who writes, and it looks in between.
            std::fs::remove_file(file.path())?;
            continue;
        }
        let number = name.to_str().and_then(|name| name.strip_prefix(NAME));
        positions.extend(number.and_then(|number| u64::from_str_radix(number, 16).ok()));
    }
    positions.sort_unstable();
    Ok(positions)
}

fn path(folder: &Path, position: u64) -> PathBuf {
    folder.join(format!("{NAME}{position:016x}"))
}

/// One that is whole, and what its name says.
fn read(folder: &Path, position: u64) -> Option<Checkpoint> {
    let path = path(folder, position);
    let len = std::fs::metadata(&path).ok()?.len();
    let bytes = std::fs::read(&path).ok().filter(|_| len <= BYTES_MAX)?;
    Checkpoint::read(&bytes).filter(|kept| kept.position == position)
}

/// Removes all checkpoints: the files beside them don't go with them any more.
fn forget(folder: &Path) -> IoResult<()> {
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        if file.file_name().to_str().is_some_and(|name| name.starts_with(NAME)) {
            std::fs::remove_file(file.path())?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Gives a new root its spill stores, empty ones or as they are.
fn attach(
    root: &mut Root,
    (exchange, memory): (&ExchangeConfig, &Memory),
    folder: &Path,
    anew: bool,
) -> IoResult<Vec<(SpillWriter, File)>> {
    let mut files = Vec::new();
    let mut spill = |name: String, block: usize| {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(anew).mode(0o600);
        let file = options.open(folder.join(name))?;
        let known = file.try_clone()?;
        let spill = FileSpill::new(file, 0, None)?;
        files.push((spill.writer(), known));
        IoResult::Ok(Box::new(Checked::new(spill, block)) as Box<dyn SpillStore>)
    };
    let record = PrivateStreams::spill_block(size_of::<ExecutionReport>());
    let streams = spill("streams".to_string(), record)?;
    let feeds = (1..=exchange.options.streams())
        .map(|stream| spill(format!("feed-{stream}"), Publisher::SPILL_BLOCK))
        .collect::<IoResult<_>>()?;
    let (inputs, reports) = memory.newest();
    match root.spill_output_to((streams, reports), feeds, inputs) {
        true => Ok(files),
        false => Err(std::io::Error::other("a root that has begun")),
    }
}

/// Writes the root down and gives it to `send`, unless the one before is not on the disk yet.
pub fn keep(cost: &Arc<Cost>, mut send: impl FnMut(Taken) + Send + 'static) -> Keep {
    let cost = Arc::clone(cost);
    Box::new(move |position, root| {
        if cost.busy.swap(true, Ordering::AcqRel) {
            return false;
        }
        let from = Instant::now();
        let room = cost.bytes.load(Ordering::Relaxed) as usize;
        let mut bytes = std::mem::take(&mut *cost.spare());
        bytes.clear();
        bytes.reserve(room + room / 8);
        if !root.checkpoint(&mut bytes) {
            *cost.spare() = bytes;
            cost.busy.store(false, Ordering::Release);
            return false;
        }
        let ns = u64::try_from(from.elapsed().as_nanos()).unwrap_or(u64::MAX);
        cost.longest_ns.fetch_max(ns, Ordering::Relaxed);
        cost.bytes.store(bytes.len() as u64, Ordering::Relaxed);
        send(Taken { position, inputs: root.engine().applied(), root: bytes });
        true
    })
}

/// Where in a journal it belongs, once that holds everything up to there: the hash chain. `None` when
/// it can't be said, and the checkpoint is of no use.
pub fn place(journal: &mut Journal<Folder>, taken: &Taken) -> Option<u64> {
    journal.commit_to(taken.position);
    // A start must know to be committed what the root has applied.
    journal.write_mark().ok()?;
    journal.chain_at(taken.position).ok().filter(|_| journal.committed() >= taken.position)
}

/// Writes checkpoints as they come, each with its place or none, until there is nobody to give any.
pub fn serve(files: &Files, taken: &Receiver<(Taken, Option<u64>)>, cost: &Cost) {
    while let Ok((taken, chain)) = taken.recv() {
        let Taken { position, inputs, root } = taken;
        let spare = match chain {
            None => root,
            Some(chain) => {
                let genesis = files.genesis.clone();
                let checkpoint = Checkpoint { genesis, position, chain, inputs, root };
                match files.write(&checkpoint) {
                    Ok(()) => drop(cost.written.fetch_add(1, Ordering::Relaxed)),
                    // There will be others; until then a start applies more.
                    Err(error) => eprintln!("{}: {error}", path(&files.folder, position).display()),
                }
                checkpoint.root
            }
        };
        *cost.spare() = spare;
        cost.busy.store(false, Ordering::Release);
    }
}

impl Files {
    /// Makes a checkpoint durable, what it leans on first, and lets older ones go.
    fn write(&self, checkpoint: &Checkpoint) -> IoResult<()> {
        for (writer, file) in &self.spills {
            if !writer.wait() {
                return Err(std::io::Error::other("what it leans on can't be written"));
            }
            file.sync_data()?;
        }
        crate::files::replace(&path(&self.folder, checkpoint.position), &checkpoint.bytes())?;
        File::open(&self.folder)?.sync_all()?;
        let known = known(&self.folder)?;
        let surplus = known.len().saturating_sub(KEPT);
        known
            .iter()
            .take(surplus)
            .try_for_each(|old| std::fs::remove_file(path(&self.folder, *old)))
    }

    /// Lets no later start use them: a file beside them is damaged.
    pub fn give_up(folder: &Path) {
        // What can't be removed is found to be damaged again.
        let _ = forget(&folder.join(FOLDER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_newest_stay_and_what_is_not_whole_is_passed_over() {
        let name = format!("fairbell-checkpoints-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = File::create(folder.join("streams")).expect("a file");
        let copy = file.try_clone().expect("a file");
        let spill = FileSpill::new(file, 0, None).expect("a thread");
        let spills = vec![(spill.writer(), copy)];
        let files = Files { folder: folder.clone(), spills, genesis: vec![1] };
        let one = |position| Checkpoint {
            genesis: vec![1],
            position,
            chain: 5,
            inputs: position,
            root: vec![7; 1_000],
        };
        for position in [3, 200, 1_000] {
            files.write(&one(position)).expect("room");
        }
        assert_eq!(known(&folder).expect("readable"), [200, 1_000]);
        assert_eq!(read(&folder, 1_000), Some(one(1_000)));
        assert_eq!(read(&folder, 3), None);
        // One that was being written, one that changed, and one under another's name.
        std::fs::write(folder.join("at-0000000000000bb8.new"), b"x").expect("written");
        std::fs::copy(path(&folder, 200), path(&folder, 2_000)).expect("copied");
        let mut bytes = std::fs::read(path(&folder, 200)).expect("read");
        bytes[500] ^= 1;
        std::fs::write(path(&folder, 200), &bytes).expect("written");
        assert_eq!(known(&folder).expect("readable"), [200, 1_000, 2_000]);
        assert_eq!((read(&folder, 200), read(&folder, 2_000)), (None, None));
        forget(&folder).expect("removed");
        assert_eq!(known(&folder).expect("readable"), [0; 0]);
        // What was being written went when somebody looked.
        let left = std::fs::read_dir(&folder).expect("readable").count();
        assert_eq!(left, 1, "the files beside them are not theirs to remove");
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    /// As if nothing had been written before: what `Begin::Checkpoint` and `Begin::Inputs` do on the first day.
    fn bounds(memory: &Memory) -> [(usize, u64); 2] {
        let name = format!("fairbell-bounds-{}-{}", std::process::id(), memory.inputs);
        let folder = std::env::temp_dir().join(name);
        let clock = net::Clock::start(0);
        let exchange = crate::deployment::exchange(&crate::config::Config::default(), &clock)
            .expect("randomness");
        let files = Folder::open(&folder.join("journal"), journal::FolderConfig::default());
        let opened = Journal::open(
            files.expect("a folder"),
            &journal::Config::new(1, crate::replica::node::LABEL),
        );
        let (mut journal, _) = opened.expect("an empty journal");
        let found = [Begin::Checkpoint, Begin::Inputs].map(|how| {
            let begun = begin(how, (&folder, memory), &exchange, &[1], &mut journal);
            let begun = begun.expect("a new root");
            assert_eq!(begun.files.is_some(), how == Begin::Checkpoint);
            begun.root.memory_max()
        });
        drop(journal);
        std::fs::remove_dir_all(&folder).expect("removed");
        found
    }

    #[test]
    fn a_replica_keeps_in_memory_what_its_settings_say() {
        let of = |inputs, reports| bounds(&Memory { inputs, reports, ..Memory::default() });
        // Inputs in whole parts of 4,096, and one more.
        assert_eq!(of(131_072, 262_144), [(135_168, 262_144); 2]);
        assert_eq!(of(65_536, 98_304), [(69_632, 98_304); 2]);
        let all = of(0, 0)[0];
        assert!(all.0 > usize::MAX / 2 && all.1 > u64::MAX / 2, "{all:?}");
    }
}
