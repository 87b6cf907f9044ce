//! Snapshots beside the log: what whoever reads the records has made of them up to a position.
//!
//! `snap-<position>`: one header of 4 KiB, then the bytes, padded with zeros. Header: magic
//! `FBJRNSNP` · format u32 · checksum u32 · journal u64 · position u64 · bytes u64 · their checksum
//! u32 · 0 u32 · label 32 bytes. Written under another name, synced, then renamed: a name that is
//! there is of a whole snapshot, unless the disk has lost some of it since.

use crate::buffer::AlignedBuf;
use crate::config::Config;
use crate::error::JournalError;
use crate::journal::Journal;
use crate::layout::{FORMAT, block_crc, number_of, put, round_up, u32_at, u64_at};
use crate::storage::Storage;

const MAGIC: &[u8; 8] = b"FBJRNSNP";
const HEADER: usize = 4_096;
const CRC: usize = 12;
const LABEL: usize = 48;
/// Bytes written or read at a time.
const CHUNK: usize = 64 << 10;
/// No snapshot is longer.
const BYTES_MAX: u64 = 1 << 36;

/// A snapshot that is there and whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotInfo {
    /// Records that it stands for.
    pub position: u64,
    /// Its length, bytes.
    pub bytes: u64,
}

/// Snapshots in a folder.
pub(crate) struct Listed {
    pub(crate) whole: Vec<SnapshotInfo>,
    pub(crate) damaged: u32,
}

fn name_of(position: u64) -> String {
    format!("snap-{position:016x}")
}

/// All snapshots, in order; each is read through.
pub(crate) fn list(storage: &mut impl Storage, config: &Config) -> Result<Listed, JournalError> {
    let names = storage.names()?;
    let mut positions: Vec<u64> = names.iter().filter_map(|n| number_of(n, "snap-")).collect();
    positions.sort_unstable();
    let mut listed = Listed { whole: Vec::new(), damaged: 0 };
    for position in positions {
        match load(storage, config, position, |_| {}) {
            Ok(bytes) => listed.whole.push(SnapshotInfo { position, bytes }),
            Err(JournalError::Snapshot(_)) => listed.damaged += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(listed)
}

/// Reads a snapshot piece by piece; gives its length once it has been found whole.
fn load(
    storage: &mut impl Storage,
    config: &Config,
    position: u64,
    mut take: impl FnMut(&[u8]),
) -> Result<u64, JournalError> {
    let damaged = || JournalError::Snapshot(position);
    let (file, len) = storage.open(&name_of(position))?;
    let mut buffer = AlignedBuf::default();
    buffer.resize(HEADER);
    if len < HEADER as u64 {
        storage.close(file);
        return Err(damaged());
    }
    storage.read(file, 0, buffer.bytes_mut())?;
    let header = buffer.bytes();
    let sealed = u32_at(header, CRC) == block_crc(header, CRC);
    let (bytes, crc) = (u64_at(header, 32), u32_at(header, 40));
    let ours = header.starts_with(MAGIC)
        && u32_at(header, 8) == FORMAT
        && u64_at(header, 16) == config.id
        && u64_at(header, 24) == position
        && header.get(LABEL..LABEL + config.label.len()) == Some(&config.label[..])
        && bytes <= BYTES_MAX
        && len >= HEADER as u64 + bytes;
    if !sealed || !ours {
        storage.close(file);
        return Err(damaged());
    }
    let (mut hasher, mut done) = (crc32fast::Hasher::new(), 0);
    while done < bytes {
        let left = usize::try_from(bytes - done).unwrap_or(usize::MAX).min(CHUNK);
        buffer.resize(round_up(left, HEADER));
        storage.read(file, HEADER as u64 + done, buffer.bytes_mut())?;
        let piece = buffer.bytes().get(..left).unwrap_or(&[]);
        hasher.update(piece);
        take(piece);
        done += left as u64;
    }
    storage.close(file);
    if hasher.finalize() == crc { Ok(bytes) } else { Err(damaged()) }
}

impl<S: Storage> Journal<S> {
    /// Writes a snapshot for everything up to a committed position, durable on return. Then older
    /// snapshots than are to be kept go, and segments that the oldest kept one does not need.
    ///
    /// # Errors
    /// [`JournalError::Position`] when the position is not committed, with nothing changed;
    /// [`JournalError::Full`], after which the journal goes on as before; the disk's.
    pub fn write_snapshot(&mut self, position: u64, bytes: &[u8]) -> Result<(), JournalError> {
        if position > self.committed() {
            return Err(JournalError::Position(position));
        }
        // The log must never lack a commit that a snapshot has.
        self.write_mark()?;
        let written = self.put_snapshot(position, bytes);
        self.close_on(written)?;
        let retained = self.retain();
        self.close_on(retained)
    }

    fn put_snapshot(&mut self, position: u64, bytes: &[u8]) -> Result<(), JournalError> {
        let (name, temporary) = (name_of(position), format!("{}.new", name_of(position)));
        let len = (HEADER + round_up(bytes.len(), HEADER)) as u64;
        let file = match self.storage.create(&temporary, len) {
            Ok(file) => file,
            Err(error) => {
                // What there is of it would keep room from others.
                let _ = self.storage.remove(&temporary);
                return Err(JournalError::full(error));
            }
        };
        let mut buffer = AlignedBuf::with_capacity(CHUNK);
        buffer.resize(HEADER);
        let header = buffer.bytes_mut();
        put(header, 0, MAGIC);
        put(header, 8, &FORMAT.to_le_bytes());
        put(header, 16, &self.config.id.to_le_bytes());
        put(header, 24, &position.to_le_bytes());
        put(header, 32, &(bytes.len() as u64).to_le_bytes());
        put(header, 40, &crc32fast::hash(bytes).to_le_bytes());
        put(header, LABEL, &self.config.label);
        let crc = block_crc(header, CRC);
        put(header, CRC, &crc.to_le_bytes());
        self.storage.write(file, 0, buffer.bytes())?;
        for (piece, at) in bytes.chunks(CHUNK).zip((HEADER as u64..).step_by(CHUNK)) {
            buffer.clear();
            buffer.extend(piece);
            buffer.resize(round_up(piece.len(), HEADER));
            self.storage.write(file, at, buffer.bytes())?;
        }
        self.storage.sync(file)?;
        self.storage.close(file);
        self.storage.rename(&temporary, &name)?;
        self.storage.sync_names()?;
        Ok(())
    }

    fn retain(&mut self) -> Result<(), JournalError> {
        let listed = list(&mut self.storage, &self.config)?;
        let surplus = listed.whole.len().saturating_sub(self.config.snapshots_kept.max(1));
        let (old, kept) = listed.whole.split_at(surplus);
        for info in old {
            self.storage.remove(&name_of(info.position))?;
        }
        if let Some(oldest) = kept.first() {
            self.forget_before(oldest.position + 1)?;
        }
        Ok(())
    }

    /// The snapshots that are there and whole, in order.
    ///
    /// # Errors
    /// The disk's.
    pub fn snapshots(&mut self) -> Result<Vec<SnapshotInfo>, JournalError> {
        Ok(list(&mut self.storage, &self.config)?.whole)
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
}
