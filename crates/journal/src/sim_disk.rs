//! A disk that exists in memory and fails on purpose, the same way for the same seed.
//!
//! What was written and not synced is at the mercy of a crash: each write may be there whole, not
//! at all, or some of its sectors. Names likewise, in the order in which they were changed. A crash
//! can be set to happen at any operation ([`SimDisk::crash_at`]); after it every operation fails
//! until [`SimDisk::restart`]. Faults beyond that are drawn per operation ([`DiskFaults`]), and
//! counted. No clock: how long a disk takes is added up in [`DiskStats::busy_ns`].

use std::collections::BTreeMap;

use types::SplitMix64;

use crate::buffer::AlignedBuf;
use crate::storage::{Begun, DiskError, DiskErrorKind, FileId, Stamp, Storage};

/// Unit that a disk writes entirely or not at all, bytes.
const SECTOR: usize = 512;

/// How often each fault happens, in permille of the operations that it can happen to (0..=1,000).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskFaults {
    /// A write stops part of the way, with an error.
    pub short: u64,
    /// A write lands at another place of a file, and claims success.
    pub misdirected: u64,
    /// A sync claims success and does nothing.
    pub lying: u64,
    /// A durable bit flips.
    pub corrupt: u64,
    /// A sync or a read fails with an error.
    pub failing: u64,
    /// An operation takes a thousand times as long.
    pub slow: u64,
    /// Bytes that all files together may have; 0: no limit.
    pub room: u64,
}

/// What a simulated disk has counted: operations and faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskStats {
    /// Number of operations so far.
    pub operations: u64,
    /// Number of crashes so far.
    pub crashes: u64,
    /// Number of writes of which a crash kept some sectors.
    pub torn: u64,
    /// Number of writes of which a crash kept nothing.
    pub lost: u64,
    /// Number of writes that stopped part of the way.
    pub short: u64,
    /// Number of writes that landed at another place.
    pub misdirected: u64,
    /// Number of syncs that claimed success without effect.
    pub lies: u64,
    /// Number of durable bits that were flipped.
    pub corrupted: u64,
    /// Number of operations that failed without effect.
    pub failed: u64,
    /// Number of files for which there was no room.
    pub full: u64,
    /// Number of operations that took a thousand times as long.
    pub slow: u64,
    /// Simulated time that all operations took, ns.
    pub busy_ns: u64,
}

#[derive(Clone, Default)]
struct Content {
    durable: Vec<u8>,
    /// Contents as a reader sees them, durable or not.
    current: Vec<u8>,
    /// Writes since the last sync: offset and bytes.
    pending: Vec<(usize, Vec<u8>)>,
    /// Number of the file, as a file system has one, which tells it from its copies.
    number: u64,
}

#[derive(Clone)]
enum NameChange {
    Set(String, usize),
    Remove(String),
}

/// A simulated disk with one folder of files.
#[derive(Clone)]
pub struct SimDisk {
    contents: Vec<Content>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pending_names: Vec<NameChange>,
    open: BTreeMap<u32, (usize, String)>,
    next: u32,
    /// Number of files made so far.
    made: u64,
    /// The write that has begun and has not finished.
    begun: Option<(FileId, AlignedBuf)>,
    rng: SplitMix64,
    faults: DiskFaults,
    crash_at: Option<u64>,
    crashed: bool,
    stats: DiskStats,
}

impl SimDisk {
    /// An empty disk without faults; `seed` fixes what faults do.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk {
            contents: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            open: BTreeMap::new(),
            next: 0,
            made: 0,
            begun: None,
            rng: SplitMix64::new(seed),
            faults: DiskFaults::default(),
            crash_at: None,
            crashed: false,
            stats: DiskStats::default(),
        }
    }

    /// Sets the faults that happen from now on.
    pub fn set_faults(&mut self, faults: DiskFaults) {
        self.faults = faults;
    }

    /// Lets the machine crash in the operation with this number, counted from now; that operation
    /// happens in part.
    pub fn crash_at(&mut self, operation: u64) {
        self.crash_at = Some(self.stats.operations + operation);
    }

    /// Whether the machine has crashed and not restarted.
    pub fn has_crashed(&self) -> bool {
        self.crashed
    }

    /// What was counted since the disk was made.
    pub fn stats(&self) -> DiskStats {
        self.stats
    }

    /// The machine starts again: what was not durable is there, gone, or partly there. Also without
    /// a crash before, which is then now.
    pub fn restart(&mut self) {
        self.stats.crashes += 1;
        self.crash_at = None;
        self.crashed = false;
        self.begun = None;
        self.open.clear();
        for change in std::mem::take(&mut self.pending_names) {
            // A file system's journal keeps names in order: after the first that is lost, none.
            if self.rng.permille(300) {
                break;
            }
            apply(&mut self.durable_names, change);
        }
        self.names.clone_from(&self.durable_names);
        for index in 0..self.contents.len() {
            let pending = std::mem::take(&mut self.contents[index].pending);
            for (at, bytes) in pending {
                self.keep_some(index, at, &bytes);
            }
            let content = &mut self.contents[index];
            content.current.clone_from(&content.durable);
        }
        self.forget_unnamed();
    }

    /// Keeps a random part of a write, as a crash does.
    fn keep_some(&mut self, index: usize, at: usize, bytes: &[u8]) {
        let draw = self.rng.below(4);
        if draw == 0 {
            self.stats.lost += 1;
            return;
        }
        let mut left = 0;
        for (place, sector) in (at..).step_by(SECTOR).zip(bytes.chunks(SECTOR)) {
            if draw == 1 || self.rng.below(2) == 0 {
                overwrite(&mut self.contents[index].durable, place, sector);
            } else {
                left += 1;
            }
        }
        self.stats.torn += u64::from(left > 0);
    }

    /// Removes the files whose names were not durable, as a restart does.
    fn forget_unnamed(&mut self) {
        for index in 0..self.contents.len() {
            if !self.names.values().any(|named| *named == index) {
                self.contents[index] = Content::default();
            }
        }
    }

    /// Replaces the files by an older copy, durably, as a copying program does: they become other
    /// files under the same names. Only while the machine does not run.
    pub fn set_back(&mut self, older: &SimDisk) {
        self.set_back_unseen(older);
        for index in 0..self.contents.len() {
            self.contents[index].number = self.new_number();
        }
    }

    /// Replaces the files by an older copy below the file system, as resetting a whole volume does:
    /// the files cannot be told from those before. Only while the machine does not run.
    pub fn set_back_unseen(&mut self, older: &SimDisk) {
        let durable = |content: &Content| {
            let (durable, current) = (content.durable.clone(), content.durable.clone());
            Content { durable, current, pending: Vec::new(), number: content.number }
        };
        self.contents = older.contents.iter().map(durable).collect();
        self.names.clone_from(&older.durable_names);
        self.durable_names.clone_from(&older.durable_names);
        self.pending_names.clear();
        self.open.clear();
        self.begun = None;
    }

    fn new_number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Flips a bit of a file, durably; false when there is no such place.
    pub fn flip(&mut self, name: &str, bit: u64) -> bool {
        let Some(index) = self.names.get(name).copied() else { return false };
        let content = &mut self.contents[index];
        let at = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        if at >= content.durable.len() {
            return false;
        }
        content.durable[at] ^= 1 << (bit % 8);
        content.current[at] ^= 1 << (bit % 8);
        self.stats.corrupted += 1;
        true
    }

    /// Contents of a file as a reader sees them; `None`: there is no such file.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        Some(&self.contents.get(*self.names.get(name)?)?.current)
    }

    /// Puts a file on the disk, durably.
    pub fn put(&mut self, name: &str, bytes: &[u8]) {
        let index = self.contents.len();
        let (durable, current) = (bytes.to_vec(), bytes.to_vec());
        let number = self.new_number();
        self.contents.push(Content { durable, current, pending: Vec::new(), number });
        self.names.insert(name.to_string(), index);
        self.durable_names.insert(name.to_string(), index);
    }

    /// Removes a file, durably.
    pub fn take(&mut self, name: &str) {
        self.names.remove(name);
        self.durable_names.remove(name);
    }

    /// Counts an operation; an error when it, or one before, is the last. Says whether this is the
    /// one at which the crash comes: it happens in part.
    fn step(&mut self, doing: &'static str, name: &str) -> Result<bool, DiskError> {
        if self.crashed {
            return Err(crashed(doing, name));
        }
        let now = self.stats.operations;
        self.stats.operations += 1;
        let slow = self.rng.permille(self.faults.slow);
        self.stats.slow += u64::from(slow);
        self.stats.busy_ns += if slow { 50_000_000 } else { 50_000 };
        if self.crash_at.is_some_and(|at| at <= now) {
            self.crashed = true;
            return Ok(true);
        }
        if self.rng.permille(self.faults.corrupt) {
            self.rot();
        }
        Ok(false)
    }

    /// Flips a random bit of a random file, durably.
    fn rot(&mut self) {
        let count = self.names.len() as u64;
        let pick = self.rng.below(count) as usize;
        let Some((name, index)) = self.names.iter().nth(pick) else { return };
        let (name, bits) = (name.clone(), self.contents[*index].durable.len() as u64 * 8);
        let bit = self.rng.below(bits.max(1));
        self.flip(&name, bit);
    }

    fn named(&self, file: FileId, doing: &'static str) -> Result<(usize, String), DiskError> {
        let kind = DiskErrorKind::Missing;
        self.open.get(&file.0).cloned().ok_or(DiskError { doing, name: String::new(), kind })
    }

    fn opened(&mut self, index: usize, name: &str) -> FileId {
        let id = self.next;
        self.next += 1;
        self.open.insert(id, (index, name.to_string()));
        FileId(id)
    }

    fn in_use(&self) -> u64 {
        let live = self.names.values().chain(self.open.values().map(|(index, _)| index));
        let live: std::collections::BTreeSet<usize> = live.copied().collect();
        live.iter().map(|index| self.contents[*index].current.len() as u64).sum()
    }

    fn change_names(&mut self, change: NameChange) {
        apply(&mut self.names, change.clone());
        self.pending_names.push(change);
    }

    fn put_pending(&mut self, index: usize, at: usize, bytes: &[u8]) {
        let content = &mut self.contents[index];
        overwrite(&mut content.current, at, bytes);
        content.pending.push((at, bytes.to_vec()));
    }

    /// A write that goes astray, to another sector of the same or another file.
    fn misdirect(&mut self, bytes: &[u8]) {
        let pick = self.rng.below(self.names.len() as u64) as usize;
        let Some(index) = self.names.values().nth(pick).copied() else { return };
        let sectors = (self.contents[index].current.len() / SECTOR) as u64;
        let at = self.rng.below(sectors.max(1)) as usize * SECTOR;
        let room = self.contents[index].current.len().saturating_sub(at);
        let bytes = bytes.get(..bytes.len().min(room)).unwrap_or(&[]).to_vec();
        self.put_pending(index, at, &bytes);
        self.stats.misdirected += 1;
    }
}

fn apply(names: &mut BTreeMap<String, usize>, change: NameChange) {
    match change {
        NameChange::Set(name, index) => {
            names.retain(|_, known| *known != index);
            names.insert(name, index);
        }
        NameChange::Remove(name) => {
            names.remove(&name);
        }
    }
}

fn overwrite(to: &mut [u8], at: usize, bytes: &[u8]) {
    let room = to.len().saturating_sub(at).min(bytes.len());
    if let (Some(to), Some(bytes)) = (to.get_mut(at..at + room), bytes.get(..room)) {
        to.copy_from_slice(bytes);
    }
}

fn crashed(doing: &'static str, name: &str) -> DiskError {
    failed(doing, name, DiskErrorKind::Crashed)
}

fn failed(doing: &'static str, name: &str, kind: DiskErrorKind) -> DiskError {
    DiskError { doing, name: name.to_string(), kind }
}

/// Error of the operating system when a device fails (EIO).
const BROKEN: DiskErrorKind = DiskErrorKind::System(5);

impl Storage for SimDisk {
    fn names(&mut self) -> Result<Vec<String>, DiskError> {
        if self.step("listing", "the folder")? {
            return Err(crashed("listing", "the folder"));
        }
        Ok(self.names.keys().cloned().collect())
    }

    fn create(&mut self, name: &str, bytes: u64) -> Result<FileId, DiskError> {
        let last = self.step("making", name)?;
        if self.faults.room > 0 && self.in_use() + bytes > self.faults.room {
            self.stats.full += 1;
            return Err(failed("making", name, DiskErrorKind::Full));
        }
        let zeros = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        let index = self.contents.len();
        let (durable, current) = (zeros.clone(), zeros);
        let number = self.new_number();
        self.contents.push(Content { durable, current, pending: Vec::new(), number });
        self.change_names(NameChange::Set(name.to_string(), index));
        if last { Err(crashed("making", name)) } else { Ok(self.opened(index, name)) }
    }

    fn open(&mut self, name: &str) -> Result<(FileId, u64), DiskError> {
        if self.step("opening", name)? {
            return Err(crashed("opening", name));
        }
        let index = self.names.get(name).copied();
        let index = index.ok_or_else(|| failed("opening", name, DiskErrorKind::Missing))?;
        let len = self.contents[index].current.len() as u64;
        Ok((self.opened(index, name), len))
    }

    fn close(&mut self, file: FileId) {
        self.open.remove(&file.0);
    }

    fn stamp(&mut self, name: &str) -> Result<Stamp, DiskError> {
        if self.step("looking at", name)? {
            return Err(crashed("looking at", name));
        }
        let index = self.names.get(name).copied();
        let index = index.ok_or_else(|| failed("looking at", name, DiskErrorKind::Missing))?;
        Ok(Stamp { number: self.contents[index].number, made_ns: 0, changed_ns: 0 })
    }

    fn read(&mut self, file: FileId, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let (index, name) = self.named(file, "reading")?;
        if self.step("reading", &name)? {
            return Err(crashed("reading", &name));
        }
        if self.rng.permille(self.faults.failing) {
            self.stats.failed += 1;
            return Err(failed("reading", &name, BROKEN));
        }
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = self.contents[index].current.get(at..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(
            bytes.ok_or_else(|| failed("reading", &name, DiskErrorKind::Missing))?,
        );
        Ok(())
    }

    fn write(&mut self, file: FileId, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let (index, name) = self.named(file, "writing")?;
        let last = self.step("writing", &name)?;
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if self.contents[index].current.len() < at.saturating_add(bytes.len()) {
            return Err(failed("writing", &name, DiskErrorKind::Missing));
        }
        if !last && self.rng.permille(self.faults.misdirected) {
            self.misdirect(bytes);
            return Ok(());
        }
        if !last && self.rng.permille(self.faults.short) {
            let most = (bytes.len() / SECTOR) as u64;
            let done = self.rng.below(most.max(1)) as usize * SECTOR;
            self.put_pending(index, at, bytes.get(..done).unwrap_or(&[]));
            self.stats.short += 1;
            return Err(failed("writing", &name, DiskErrorKind::Short));
        }
        self.put_pending(index, at, bytes);
        if last { Err(crashed("writing", &name)) } else { Ok(()) }
    }

    fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
        let (index, name) = self.named(file, "syncing")?;
        if self.step("syncing", &name)? {
            return Err(crashed("syncing", &name));
        }
        if self.rng.permille(self.faults.failing) {
            self.stats.failed += 1;
            return Err(failed("syncing", &name, BROKEN));
        }
        if self.rng.permille(self.faults.lying) {
            self.stats.lies += 1;
            return Ok(());
        }
        let content = &mut self.contents[index];
        for (at, bytes) in std::mem::take(&mut content.pending) {
            overwrite(&mut content.durable, at, &bytes);
        }
        Ok(())
    }

    fn begin(&mut self, file: FileId, at: u64, buffer: AlignedBuf) -> Begun {
        match self.write(file, at, buffer.bytes()) {
            Err(error) => Begun::Over(buffer, Err(error)),
            Ok(()) => {
                self.begun = Some((file, buffer));
                Begun::UnderWay
            }
        }
    }

    fn finish(&mut self) -> Option<(AlignedBuf, Result<(), DiskError>)> {
        let (file, buffer) = self.begun.take()?;
        Some((buffer, self.sync(file)))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let last = self.step("renaming", from)?;
        let index = self.names.get(from).copied();
        let index = index.ok_or_else(|| failed("renaming", from, DiskErrorKind::Missing))?;
        self.change_names(NameChange::Set(to.to_string(), index));
        if last { Err(crashed("renaming", from)) } else { Ok(()) }
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        let last = self.step("removing", name)?;
        if self.names.contains_key(name) {
            self.change_names(NameChange::Remove(name.to_string()));
        }
        if last { Err(crashed("removing", name)) } else { Ok(()) }
    }

    fn sync_names(&mut self) -> Result<(), DiskError> {
        if self.step("syncing", "the folder")? {
            return Err(crashed("syncing", "the folder"));
        }
        for change in std::mem::take(&mut self.pending_names) {
            apply(&mut self.durable_names, change);
        }
        Ok(())
    }
}
