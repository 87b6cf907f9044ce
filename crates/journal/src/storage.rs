//! The operations that a journal needs of a disk, and their errors.

use std::fmt;

use crate::buffer::AlignedBuf;

/// An open file of a [`Storage`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FileId(pub u32);

/// Kind of an error of a disk operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskErrorKind {
    /// There is no room left on the disk.
    Full,
    /// The user's or the folder's quota is used up.
    Quota,
    /// The file would be longer than the process may make one.
    Limit,
    /// The file, or the part of it that is needed, does not exist.
    Missing,
    /// Another error, with the operating system's number (errno).
    System(i32),
    /// Fewer bytes were written than asked for.
    Short,
    /// The machine has crashed; in simulations only.
    Crashed,
}

/// A disk error: operation, file and reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskError {
    /// The operation that failed, in words.
    pub doing: &'static str,
    /// Name of the file that the operation was on.
    pub name: String,
    /// Kind of the error.
    pub kind: DiskErrorKind,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.doing, self.name)?;
        match self.kind {
            DiskErrorKind::Full => f.write_str("no room left on the disk"),
            DiskErrorKind::Quota => f.write_str("no room left: the quota is used up"),
            DiskErrorKind::Limit => f.write_str(
                "no room left: the file would be longer than this process may make one (ulimit -f)",
            ),
            DiskErrorKind::Missing => f.write_str("it is not there"),
            DiskErrorKind::System(number) => {
                write!(f, "{}", std::io::Error::from_raw_os_error(number))
            }
            DiskErrorKind::Short => f.write_str("less was written than should have been"),
            DiskErrorKind::Crashed => f.write_str("the machine has crashed"),
        }
    }
}

impl std::error::Error for DiskError {}

/// What the file system knows of a file, by which the file is told from a copy; 0 for a figure that
/// it does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp {
    /// Number of the file in the file system (inode); a copy has another one.
    pub number: u64,
    /// Time at which the file was made, ns since the Unix epoch; distinguishes files that had the
    /// same number.
    pub made_ns: u64,
    /// When anything of it was changed last, its contents, owner or mode, ns since the Unix epoch.
    pub changed_ns: u64,
}

/// How a write that was begun stands.
pub enum Begun {
    /// The write has ended: its buffer, and whether it is durable.
    Over(AlignedBuf, Result<(), DiskError>),
    /// The write goes on; [`Storage::finish`] tells how it ends.
    UnderWay,
}

/// One folder of a disk. Offsets and lengths of reads and writes are multiples of the journal's
/// block, and buffers begin at a page. A write is durable after [`Storage::sync`] of its file, a
/// name after [`Storage::sync_names`]; before that a crash may take any part of it away.
pub trait Storage {
    /// Names of all files, in any order.
    ///
    /// # Errors
    /// The disk's.
    fn names(&mut self) -> Result<Vec<String>, DiskError>;

    /// Makes a file of `bytes` zero bytes whose room is reserved, or makes an existing one so.
    ///
    /// # Errors
    /// [`DiskErrorKind::Full`] when there is no room; otherwise the disk's.
    fn create(&mut self, name: &str, bytes: u64) -> Result<FileId, DiskError>;

    /// Opens a file and says how long it is.
    ///
    /// # Errors
    /// [`DiskErrorKind::Missing`] for a name that is not there; otherwise the disk's.
    fn open(&mut self, name: &str) -> Result<(FileId, u64), DiskError>;

    /// Closes a file, whose number is not valid any more.
    fn close(&mut self, file: FileId);

    /// What a file is told from its copies by; nothing where that can't be said.
    ///
    /// # Errors
    /// [`DiskErrorKind::Missing`] for a name that is not there; otherwise the disk's.
    fn stamp(&mut self, _name: &str) -> Result<Stamp, DiskError> {
        Ok(Stamp::default())
    }

    /// Fills the buffer from a place in a file.
    ///
    /// # Errors
    /// [`DiskErrorKind::Missing`] beyond its end; otherwise the disk's.
    fn read(&mut self, file: FileId, at: u64, into: &mut [u8]) -> Result<(), DiskError>;

    /// Writes all the bytes at a place within a file's length.
    ///
    /// # Errors
    /// The disk's; then any part of it may have been written.
    fn write(&mut self, file: FileId, at: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Returns once what was written to the file is durable.
    ///
    /// # Errors
    /// The disk's; then nothing is known of what was written since the last success.
    fn sync(&mut self, file: FileId) -> Result<(), DiskError>;

    /// Begins a write that is to be durable, as by [`Storage::write`] and [`Storage::sync`], and keeps
    /// the buffer until it is; one at a time. What can't do that does it at once.
    fn begin(&mut self, file: FileId, at: u64, buffer: AlignedBuf) -> Begun {
        let done = self.write(file, at, buffer.bytes()).and_then(|()| self.sync(file));
        Begun::Over(buffer, done)
    }

    /// Waits for the write under way; nothing when there is none.
    fn finish(&mut self) -> Option<(AlignedBuf, Result<(), DiskError>)> {
        None
    }

    /// Gives a file another name, whole or not at all, in place of any file that had it.
    ///
    /// # Errors
    /// The disk's.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a name.
    ///
    /// # Errors
    /// The disk's.
    fn remove(&mut self, name: &str) -> Result<(), DiskError>;

    /// Returns once all changes of names are durable.
    ///
    /// # Errors
    /// The disk's.
    fn sync_names(&mut self) -> Result<(), DiskError>;
}

impl<S: Storage + ?Sized> Storage for &mut S {
    fn names(&mut self) -> Result<Vec<String>, DiskError> {
        (**self).names()
    }

    fn create(&mut self, name: &str, bytes: u64) -> Result<FileId, DiskError> {
        (**self).create(name, bytes)
    }

    fn open(&mut self, name: &str) -> Result<(FileId, u64), DiskError> {
        (**self).open(name)
    }

    fn close(&mut self, file: FileId) {
        (**self).close(file);
    }

    fn stamp(&mut self, name: &str) -> Result<Stamp, DiskError> {
        (**self).stamp(name)
    }

    fn read(&mut self, file: FileId, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        (**self).read(file, at, into)
    }

    fn write(&mut self, file: FileId, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        (**self).write(file, at, bytes)
    }

    fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
        (**self).sync(file)
    }

    fn begin(&mut self, file: FileId, at: u64, buffer: AlignedBuf) -> Begun {
        (**self).begin(file, at, buffer)
    }

    fn finish(&mut self) -> Option<(AlignedBuf, Result<(), DiskError>)> {
        (**self).finish()
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        (**self).rename(from, to)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        (**self).remove(name)
    }

    fn sync_names(&mut self) -> Result<(), DiskError> {
        (**self).sync_names()
    }
}
