//! Snapshots beside the log: what whoever reads the records has made of them up to a position.
//!
//! `snap-<position>`: one header of 4 KiB, then the bytes, padded with zeros. Header: magic
//! `FBJRNSNP` · format u32 · checksum u32 · journal u64 · position u64 · bytes u64 · their checksum
//! u32 · 0 u32 · label 32 bytes · term and chain at the position u64 each (0: not told) ·
//! length u32 · 0 u32 · what the last record of the group's own up to there says, in format 2 alone.
//! Written under another name, synced, then renamed: a name that is there is of a whole snapshot,
//! unless the disk has lost some of it since.

use types::Digest;

use crate::buffer::AlignedBuf;
use crate::config::Config;
use crate::error::JournalError;
use crate::journal::Journal;
use crate::layout::{
    FORMAT, FORMAT_GROUP, GROUP_MAX, LABEL_LEN, block_crc, number_of, put, round_up, u32_at, u64_at,
};
use crate::storage::{DiskError, FileId, Storage};
use crate::whole;

const MAGIC: &[u8; 8] = b"FBJRNSNP";
const HEADER: usize = 4_096;
const CRC: usize = 12;
const LABEL: usize = 48;
const TERM: usize = 80;
const CHAIN: usize = 88;
const GROUP: usize = 96;
/// Number of bytes that are written or read at a time.
const CHUNK: usize = 64 << 10;

const _: () = assert!(LABEL + LABEL_LEN <= TERM && CHAIN + 8 <= GROUP);
const _: () = assert!(GROUP + 8 + GROUP_MAX <= HEADER, "what the group says is in the header");
const _: () = assert!(CHUNK.is_multiple_of(HEADER) && HEADER.is_power_of_two());
/// Longest snapshot, bytes.
const BYTES_MAX: u64 = 1 << 36;

/// A snapshot that is there and whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotInfo {
    /// Position up to which the snapshot stands for the records.
    pub position: u64,
    /// Length of the snapshot's contents, bytes.
    pub bytes: u64,
    /// Term of the record at that position; 0: not recorded.
    pub term: u64,
    /// Value of the checksum chain after the snapshot's position.
    pub chain: u64,
    /// Digest of the snapshot's bytes: [`snapshot_digest`].
    pub digest: u64,
}

/// Where in the log a snapshot belongs.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) position: u64,
    pub(crate) term: u64,
    pub(crate) chain: u64,
    /// Contents of the last record of the group's own up to there; empty: there is none.
    pub(crate) group: &'a [u8],
}

/// Digest of a snapshot's contents, 64 bits.
pub fn snapshot_digest(bytes: &[u8]) -> u64 {
    let mut digest = Digest::default();
    bytes.chunks(CHUNK).for_each(|piece| fold(&mut digest, piece));
    digest.0
}

/// Folds the next [`CHUNK`] bytes of a snapshot, or its last.
fn fold(digest: &mut Digest, piece: &[u8]) {
    let (words, rest) = piece.as_chunks::<8>();
    words.iter().for_each(|word| digest.fold(u64::from_le_bytes(*word)));
    let mut word = [0; 8];
    put(&mut word, 0, rest);
    digest.fold(u64::from_le_bytes(word));
    digest.fold(piece.len() as u64);
}

/// The snapshots in a folder that count.
pub(crate) struct Listed {
    pub(crate) whole: Vec<SnapshotInfo>,
    /// Contents of the last record of the group's own before each snapshot; empty: there was none.
    pub(crate) groups: Vec<Vec<u8>>,
    pub(crate) damaged: u32,
}

pub(crate) fn name_of(position: u64) -> String {
    format!("snap-{position:016x}")
}

/// Name of a snapshot from elsewhere that does not count yet.
pub(crate) fn waiting(position: u64) -> String {
    format!("inst-{position:016x}")
}

/// The bytes of the newest snapshot that is whole, of those at a position or before. `stands`: as in
/// [`list`], for the one that may not have its own name yet.
pub(crate) fn newest(
    storage: &mut impl Storage,
    config: &Config,
    (to, stands): (u64, Option<u64>),
) -> Result<Option<(SnapshotInfo, Vec<u8>)>, JournalError> {
    let names = storage.names()?;
    let of = |position: u64, name: &String| (position, name.clone());
    let mut found: Vec<(u64, String)> =
        names.iter().filter_map(|n| Some(of(number_of(n, "snap-")?, n))).collect();
    let waits = |n: &&String| stands.is_some() && number_of(n, "inst-") == stands;
    found.extend(names.iter().filter(waits).filter_map(|n| Some(of(stands?, n))));
    found.sort_unstable();
    for (position, name) in found.into_iter().rev().filter(|(position, _)| *position <= to) {
        let mut bytes = Vec::new();
        match load_named(storage, config, (position, &name), |p| bytes.extend_from_slice(p)) {
            Ok(found) => return Ok(Some((found.info, bytes))),
            Err(JournalError::Snapshot(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// All snapshots that count, in order; each is read through. `stands`: where the log begins behind one
/// from elsewhere, which may not have its own name yet; earlier ones count no more.
pub(crate) fn list(
    storage: &mut impl Storage,
    config: &Config,
    stands: Option<u64>,
) -> Result<Listed, JournalError> {
    let names = storage.names()?;
    let mut positions: Vec<u64> = names.iter().filter_map(|n| number_of(n, "snap-")).collect();
    let waiting = stands.map(|position| (position, waiting(position)));
    let waiting = waiting.filter(|(_, name)| names.contains(name));
    positions.extend(waiting.iter().map(|(position, _)| *position));
    positions.retain(|position| stands.is_none_or(|stands| *position >= stands));
    positions.sort_unstable();
    positions.dedup();
    let mut listed = Listed { whole: Vec::new(), groups: Vec::new(), damaged: 0 };
    for position in positions {
        let named = waiting.as_ref().filter(|(at, _)| *at == position);
        let name = named.map_or_else(|| name_of(position), |(_, name)| name.clone());
        match load_named(storage, config, (position, &name), |_| {}) {
            Ok(found) => {
                listed.whole.push(found.info);
                listed.groups.push(found.group);
            }
            Err(JournalError::Snapshot(_)) => listed.damaged += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(listed)
}

/// Reads a snapshot piece by piece; says what it is once it has been found whole.
fn load(
    storage: &mut impl Storage,
    config: &Config,
    position: u64,
    take: impl FnMut(&[u8]),
) -> Result<Header, JournalError> {
    load_named(storage, config, (position, &name_of(position)), take)
}

/// Loads a snapshot from a file with this name.
fn load_named(
    storage: &mut impl Storage,
    config: &Config,
    (position, name): (u64, &str),
    take: impl FnMut(&[u8]),
) -> Result<Header, JournalError> {
    let (file, len) = storage.open(name)?;
    let loaded = load_file(storage, config, position, file, len, take);
    storage.close(file);
    loaded
}

/// The header of a snapshot's file.
struct Header {
    info: SnapshotInfo,
    /// Checksum of the bytes that follow.
    crc: u32,
    group: Vec<u8>,
}

/// Reads the header, if it is one; the digest in it is not known yet.
fn read_header(
    storage: &mut impl Storage,
    config: &Config,
    position: u64,
    file: FileId,
    len: u64,
) -> Result<Header, JournalError> {
    let damaged = || JournalError::Snapshot(position);
    let mut buffer = AlignedBuf::default();
    buffer.resize(HEADER);
    if len < HEADER as u64 {
        return Err(damaged());
    }
    storage.read(file, 0, buffer.bytes_mut())?;
    let header = buffer.bytes();
    let sealed = u32_at(header, CRC) == block_crc(header, CRC);
    let (bytes, crc) = (u64_at(header, 32), u32_at(header, 40));
    let group = match u32_at(header, 8) {
        FORMAT => Some(&[][..]),
        FORMAT_GROUP => group_of(header),
        _ => None,
    };
    let ours = header.starts_with(MAGIC)
        && group.is_some()
        && u64_at(header, 16) == config.id
        && u64_at(header, 24) == position
        && header.get(LABEL..LABEL + config.label.len()) == Some(&config.label[..])
        && bytes <= BYTES_MAX
        && len >= HEADER as u64 + bytes;
    if !sealed || !ours {
        return Err(damaged());
    }
    let (term, chain) = (u64_at(header, TERM), u64_at(header, CHAIN));
    let group = group.unwrap_or(&[]).to_vec();
    Ok(Header { info: SnapshotInfo { position, bytes, term, chain, digest: 0 }, crc, group })
}

fn group_of(header: &[u8]) -> Option<&[u8]> {
    let len = u32_at(header, GROUP) as usize;
    header.get(GROUP + 8..)?.get(..len).filter(|group| (1..=GROUP_MAX).contains(&group.len()))
}

fn load_file(
    storage: &mut impl Storage,
    config: &Config,
    position: u64,
    file: FileId,
    len: u64,
    mut take: impl FnMut(&[u8]),
) -> Result<Header, JournalError> {
    let Header { info, crc, group } = read_header(storage, config, position, file, len)?;
    let mut buffer = AlignedBuf::default();
    let (mut hasher, mut digest, mut done) = (crc32fast::Hasher::new(), Digest::default(), 0);
    while done < info.bytes {
        let left = usize::try_from(info.bytes - done).unwrap_or(usize::MAX).min(CHUNK);
        buffer.clear();
        buffer.resize(round_up(left, HEADER));
        storage.read(file, HEADER as u64 + done, buffer.bytes_mut())?;
        let piece = buffer.bytes().get(..left).unwrap_or(&[]);
        hasher.update(piece);
        fold(&mut digest, piece);
        take(piece);
        done += left as u64;
    }
    if hasher.finalize() != crc {
        return Err(JournalError::Snapshot(position));
    }
    Ok(Header { info: SnapshotInfo { digest: digest.0, ..info }, crc, group })
}

/// Writes a snapshot under a name, durable on return.
pub(crate) fn put_file<S: Storage>(
    journal: &mut Journal<S>,
    name: &str,
    place: Place<'_>,
    bytes: &[u8],
) -> Result<(), JournalError> {
    let (storage, config) = (&mut journal.storage, &journal.config);
    let len = (HEADER + round_up(bytes.len(), HEADER)) as u64;
    let file =
        whole::put(storage, name, len, |storage, file| fill(storage, config, file, place, bytes))?;
    storage.close(file);
    Ok(())
}

fn fill(
    storage: &mut impl Storage,
    config: &Config,
    file: FileId,
    place: Place<'_>,
    bytes: &[u8],
) -> Result<(), DiskError> {
    assert!(place.group.len() <= GROUP_MAX, "whoever reads it takes no more");
    let mut buffer = AlignedBuf::with_capacity(CHUNK);
    buffer.resize(HEADER);
    let header = buffer.bytes_mut();
    put(header, 0, MAGIC);
    let format = if place.group.is_empty() { FORMAT } else { FORMAT_GROUP };
    put(header, 8, &format.to_le_bytes());
    put(header, 16, &config.id.to_le_bytes());
    put(header, 24, &place.position.to_le_bytes());
    put(header, 32, &(bytes.len() as u64).to_le_bytes());
    put(header, 40, &crc32fast::hash(bytes).to_le_bytes());
    put(header, LABEL, &config.label);
    put(header, TERM, &place.term.to_le_bytes());
    put(header, CHAIN, &place.chain.to_le_bytes());
    put(header, GROUP, &(place.group.len() as u32).to_le_bytes());
    put(header, GROUP + 8, place.group);
    let crc = block_crc(header, CRC);
    put(header, CRC, &crc.to_le_bytes());
    storage.write(file, 0, buffer.bytes())?;
    for (piece, at) in bytes.chunks(CHUNK).zip((HEADER as u64..).step_by(CHUNK)) {
        buffer.clear();
        buffer.grow(piece.len()).copy_from_slice(piece);
        buffer.resize(round_up(piece.len(), HEADER));
        storage.write(file, at, buffer.bytes())?;
    }
    Ok(())
}

impl<S: Storage> Journal<S> {
    /// Writes a snapshot for everything up to a committed position, durable on return. Then older
    /// snapshots than are to be kept go, and segments that the oldest kept one does not need.
    ///
    /// # Errors
    /// [`JournalError::Position`] when the position is not committed, or its record is gone, with
    /// nothing changed;
    /// [`JournalError::Full`], after which the journal goes on as before; the disk's.
    pub fn write_snapshot(&mut self, position: u64, bytes: &[u8]) -> Result<(), JournalError> {
        if position > self.committed() || position + 1 < self.first() {
            return Err(JournalError::Position(position));
        }
        // The log must never lack a commit that a snapshot has.
        self.write_mark()?;
        let chain = if position == 0 { 0 } else { self.chain_at(position)? };
        let term = self.term_at(position).unwrap_or(0);
        let group = self.group_at(position).unwrap_or(&[]).to_vec();
        assert!(self.marked() >= position, "a log without its watermark lacks what is in it");
        let place = Place { position, term, chain, group: &group };
        let written = self.put_snapshot(place, bytes);
        self.close_on(written)?;
        let dropped = self.drop_old();
        self.close_on(dropped)
    }

    pub(crate) fn put_snapshot(
        &mut self,
        place: Place<'_>,
        bytes: &[u8],
    ) -> Result<(), JournalError> {
        put_file(self, &name_of(place.position), place, bytes)?;
        self.note_snapshot(place, bytes);
        Ok(())
    }

    /// A snapshot has its name now.
    pub(crate) fn note_snapshot(&mut self, place: Place<'_>, bytes: &[u8]) {
        let Place { position, term, chain, .. } = place;
        let (len, digest) = (bytes.len() as u64, snapshot_digest(bytes));
        let at = self.snapshots.partition_point(|info| info.position < position);
        self.snapshots.retain(|info| info.position != position);
        self.snapshots.insert(at, SnapshotInfo { position, bytes: len, term, chain, digest });
        let around = self.snapshots.get(at.saturating_sub(1)..).unwrap_or(&[]);
        let rises = around.iter().take(3).is_sorted_by(|a, b| a.position < b.position);
        assert!(rises, "snapshots are in order, one of a position");
    }

    fn drop_old(&mut self) -> Result<(), JournalError> {
        let surplus = self.snapshots.len().saturating_sub(self.config.snapshots_kept.max(1));
        for info in self.snapshots.drain(..surplus) {
            self.storage.remove(&name_of(info.position))?;
        }
        if let Some(oldest) = self.snapshots.first().map(|info| info.position) {
            self.forget_before(oldest + 1)?;
        }
        Ok(())
    }

    /// The snapshots that were found whole at the start, and those written since, in order.
    pub fn snapshots(&self) -> &[SnapshotInfo] {
        &self.snapshots
    }

    /// The bytes of a snapshot.
    ///
    /// # Errors
    /// [`JournalError::Snapshot`] when it is damaged; the disk's.
    pub fn read_snapshot(&mut self, position: u64) -> Result<Vec<u8>, JournalError> {
        let mut bytes = Vec::new();
        load(&mut self.storage, &self.config, position, |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// Bytes of a snapshot from an offset on, at most so many: for whoever sends it. They are not
    /// checked here.
    ///
    /// # Errors
    /// [`JournalError::Snapshot`] when its header is damaged; the disk's.
    pub fn read_snapshot_part(
        &mut self,
        position: u64,
        offset: u64,
        most: usize,
    ) -> Result<Vec<u8>, JournalError> {
        let (file, len) = self.storage.open(&name_of(position))?;
        let part = self.part_of(file, len, position, offset, most);
        self.storage.close(file);
        part
    }

    fn part_of(
        &mut self,
        file: FileId,
        len: u64,
        position: u64,
        offset: u64,
        most: usize,
    ) -> Result<Vec<u8>, JournalError> {
        let Header { info, .. } =
            read_header(&mut self.storage, &self.config, position, file, len)?;
        let left = usize::try_from(info.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = left.min(most);
        if count == 0 {
            return Ok(Vec::new());
        }
        // Whole units, from the one that holds the first byte on.
        let skip = (offset % HEADER as u64) as usize;
        let mut buffer = AlignedBuf::default();
        buffer.resize(round_up(skip + count, HEADER));
        let at = HEADER as u64 + offset - skip as u64;
        self.storage.read(file, at, buffer.bytes_mut())?;
        Ok(buffer.bytes().get(skip..skip + count).unwrap_or(&[]).to_vec())
    }
}
