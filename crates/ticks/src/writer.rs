//! Writes ticks into the files of a folder.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use feed::plant::Update;

use crate::parquet_file;
use crate::spool::{Spool, SpoolReader};

/// Name of the file that is locked by the folder's writer.
const LOCK: &str = "writer.lock";
/// Endings of the names of spools, of finished files, and of files that are being made.
pub(crate) const SPOOL: &str = "open";
pub(crate) const PARQUET: &str = "parquet";
const PARTIAL: &str = "partial";

/// Sizes and number of a writer's files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriterConfig {
    /// Number of ticks per Parquet file.
    pub rows: usize,
    /// Most files that are kept; beyond it the oldest is removed. 0: all are kept.
    pub files: usize,
}

impl Default for WriterConfig {
    fn default() -> WriterConfig {
        WriterConfig { rows: 1 << 20, files: 0 }
    }
}

/// What a writer has counted since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriterCounters {
    /// Number of ticks appended.
    pub ticks: u64,
    /// Number of Parquet files finished.
    pub files: u64,
    /// Number of those files that were made from a spool of an earlier writer.
    pub mended: u64,
    /// Number of files removed because more than [`WriterConfig::files`] were there.
    pub removed: u64,
}

/// Appends ticks to a folder; a folder has one writer at a time.
#[derive(Debug)]
pub struct TickWriter {
    dir: PathBuf,
    config: WriterConfig,
    spool: Option<(PathBuf, Spool)>,
    counters: WriterCounters,
    /// The locked file; the lock ends with the writer.
    _lock: File,
}

fn invalid(detail: String) -> std::io::Error {
    std::io::Error::other(detail)
}

impl TickWriter {
    /// Takes a folder, which is made where it does not exist. What an earlier writer left unfinished
    /// becomes a Parquet file.
    ///
    /// # Errors
    /// The folder cannot be written, or another writer has it.
    pub fn open(dir: &Path, config: WriterConfig) -> std::io::Result<TickWriter> {
        std::fs::create_dir_all(dir)?;
        let lock = File::create(dir.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(invalid("another process writes ticks here".to_string()));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let counters = WriterCounters::default();
        let config = WriterConfig { rows: config.rows.max(1), ..config };
        let mut writer =
            TickWriter { dir: dir.to_path_buf(), config, spool: None, counters, _lock: lock };
        for path in crate::read::with_ending(dir, PARTIAL)? {
            std::fs::remove_file(path)?;
        }
        for path in crate::read::with_ending(dir, SPOOL)? {
            writer.seal(&path)?;
            writer.counters.mended += 1;
        }
        Ok(writer)
    }

    /// What was counted since the writer was opened.
    pub fn counters(&self) -> WriterCounters {
        self.counters
    }

    /// Appends ticks; the last of them may stay in memory until [`TickWriter::flush`].
    ///
    /// # Errors
    /// The disk refuses.
    pub fn append(&mut self, updates: &[Update]) -> std::io::Result<()> {
        for update in updates {
            if self.spool.is_none() {
                self.spool = Some(self.create(update)?);
            }
            let Some((_, spool)) = &mut self.spool else { continue };
            spool.append(update)?;
            self.counters.ticks += 1;
            if spool.rows >= self.config.rows {
                self.finish()?;
            }
        }
        Ok(())
    }

    /// A new spool, named by its first tick so that names are in order of time.
    fn create(&self, first: &Update) -> std::io::Result<(PathBuf, Spool)> {
        let mut stamp = first.heard.0;
        loop {
            let path = self.dir.join(format!("ticks-{stamp:020}.{SPOOL}"));
            if !path.with_extension(PARQUET).exists() {
                match Spool::create(&path) {
                    Ok(spool) => return Ok((path, spool)),
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
            }
            stamp = stamp.checked_add(1).ok_or_else(|| invalid("no name is left".to_string()))?;
        }
    }

    /// Everything appended is with the operating system.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.spool.iter_mut().try_for_each(|(_, spool)| spool.flush())
    }

    /// Makes a Parquet file of what is being written.
    ///
    /// # Errors
    /// The disk refuses; nothing is lost.
    pub fn finish(&mut self) -> std::io::Result<()> {
        self.flush()?;
        match self.spool.take() {
            Some((path, _)) => self.seal(&path),
            None => Ok(()),
        }
    }

    fn seal(&mut self, spool: &Path) -> std::io::Result<()> {
        let finished = spool.with_extension(PARQUET);
        // A writer may have been killed between the two.
        if !finished.exists() {
            let partial = spool.with_extension(PARTIAL);
            let rows = SpoolReader::open(spool)?;
            let written = parquet_file::write(&partial, rows)?;
            match written {
                0 => std::fs::remove_file(&partial)?,
                _ => {
                    std::fs::rename(&partial, &finished)?;
                    File::open(&self.dir)?.sync_all()?;
                    self.counters.files += 1;
                }
            }
        }
        std::fs::remove_file(spool)?;
        self.retire()
    }

    fn retire(&mut self) -> std::io::Result<()> {
        if self.config.files == 0 {
            return Ok(());
        }
        let files = crate::read::with_ending(&self.dir, PARQUET)?;
        let extra = files.len().saturating_sub(self.config.files);
        for path in files.iter().take(extra) {
            std::fs::remove_file(path)?;
            self.counters.removed += 1;
        }
        Ok(())
    }
}
