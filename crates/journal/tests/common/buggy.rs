//! A disk with a bug of the journal's author in between.

use journal::{AlignedBuf, Begun, DiskError, FileId, SimDisk, Storage};

use super::Fault;

/// A disk with a bug between it and the journal.
pub struct Buggy<'a> {
    disk: &'a mut SimDisk,
    fault: Option<Fault>,
    /// Files of the vote, and of the log.
    votes: Vec<FileId>,
    logs: Vec<FileId>,
    /// Of these, the one whose sync is still to come.
    late: Option<FileId>,
    /// Snapshots from elsewhere.
    installed: Vec<FileId>,
    /// The write under way.
    begun: Option<(FileId, AlignedBuf)>,
}

impl<'a> Buggy<'a> {
    pub fn new(disk: &'a mut SimDisk, fault: Option<Fault>) -> Buggy<'a> {
        let (votes, logs, installed) = (Vec::new(), Vec::new(), Vec::new());
        Buggy { disk, fault, votes, logs, late: None, installed, begun: None }
    }
}

impl Storage for Buggy<'_> {
    fn names(&mut self) -> Result<Vec<String>, DiskError> {
        self.disk.names()
    }

    fn create(&mut self, name: &str, bytes: u64) -> Result<FileId, DiskError> {
        let file = self.disk.create(name, bytes)?;
        if name.starts_with("log-") {
            self.logs.push(file);
        } else if name.starts_with("inst-") {
            self.installed.push(file);
        }
        Ok(file)
    }

    fn open(&mut self, name: &str) -> Result<(FileId, u64), DiskError> {
        let (file, len) = self.disk.open(name)?;
        if name == "vote" {
            self.votes.push(file);
        } else if name.starts_with("log-") {
            self.logs.push(file);
        }
        Ok((file, len))
    }

    fn close(&mut self, file: FileId) {
        self.disk.close(file);
    }

    fn read(&mut self, file: FileId, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.disk.read(file, at, into)
    }

    fn write(&mut self, file: FileId, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        if self.fault == Some(Fault::VoteForgotten) && self.votes.contains(&file) {
            return Ok(());
        }
        if let Some(late) = self.late.take() {
            self.disk.sync(late)?;
        }
        self.disk.write(file, at, bytes)
    }

    fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
        if self.fault == Some(Fault::AckBeforeSync) && self.logs.contains(&file) {
            self.late = Some(file);
            return Ok(());
        }
        if self.fault == Some(Fault::InstalledUnsynced) && self.installed.contains(&file) {
            return Ok(());
        }
        self.disk.sync(file)
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
        self.disk.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.disk.remove(name)?;
        let next = name.strip_prefix("log-").and_then(|n| u64::from_str_radix(n, 16).ok());
        if let Some(next) = next.filter(|_| self.fault == Some(Fault::SegmentForgottenTooEarly))
            && !name.ends_with(".new")
        {
            self.disk.remove(&format!("log-{:016x}", next + 1))?;
        }
        Ok(())
    }

    fn sync_names(&mut self) -> Result<(), DiskError> {
        self.disk.sync_names()
    }
}
