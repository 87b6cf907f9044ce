//! A folder of the operating system as storage: preallocated files, direct writes, data syncs.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{self, Access, AtFlags, FallocateFlags, Mode, OFlags, StatxFlags, StatxTimestamp};
use rustix::io::Errno;

use crate::buffer::AlignedBuf;
use crate::register::{DOUBT, LIFE, MARK, PEERS, VOTE};
use crate::ring::{Ring, UnderWay};
use crate::storage::{Begun, DiskError, DiskErrorKind, FileId, Stamp, Storage};

/// Number of zero bytes written at a time when a file is made.
const ZEROS: usize = 1 << 20;

/// By what means a write becomes durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Syncing {
    /// A call of `fdatasync` after each write.
    #[default]
    Fdatasync,
    /// The file is opened with `O_DSYNC`: the write itself returns when it is.
    Dsync,
    /// `fdatasync` by the kernel, through `io_uring`, while the journal goes on with the next batch:
    /// [`crate::Journal::begin_flush`]. Linux 5.6, where it is allowed.
    Uring,
    /// Not at all: for measuring, and for journals that need not survive the machine.
    Never,
}

/// How files are opened and made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FolderConfig {
    /// Whether files are written past the page cache (`O_DIRECT`); where the file system cannot,
    /// through it.
    pub direct: bool,
    /// By what means a write becomes durable.
    pub syncing: Syncing,
    /// Write zeros into new files, so that later writes change no block map; otherwise their room
    /// is only reserved.
    pub zeroed: bool,
}

impl Default for FolderConfig {
    fn default() -> FolderConfig {
        FolderConfig { direct: true, syncing: Syncing::Fdatasync, zeroed: true }
    }
}

struct Open {
    name: String,
    fd: OwnedFd,
}

/// A folder; one process at a time, which its `lock` file sees to.
pub struct Folder {
    path: PathBuf,
    dir: OwnedFd,
    _lock: Option<File>,
    config: FolderConfig,
    /// Whether files really are written past the page cache.
    direct: bool,
    files: BTreeMap<u32, Open>,
    next: u32,
    ring: Option<Ring>,
    /// Whether files are opened for reading only.
    looks: bool,
}

impl Folder {
    /// Opens a folder for a journal, and makes it if need be.
    ///
    /// # Errors
    /// When it can't be made, opened or locked (another process has it), or there is no `io_uring`.
    pub fn open(path: &Path, config: FolderConfig) -> Result<Folder, DiskError> {
        // What was acknowledged is nobody else's to read.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
            failed("making", &path.display().to_string(), Errno::from_io_error(&error))
        })?;
        let mut folder = Folder::open_unlocked(path, config)?;
        let lock = path.join("lock");
        let name = lock.display().to_string();
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&lock);
        let file = file.map_err(|e| failed("opening", &name, Errno::from_io_error(&e)))?;
        file.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => {
                failed("another process has this journal: locking", &name, Some(Errno::BUSY))
            }
            std::fs::TryLockError::Error(error) => {
                failed("locking", &name, Errno::from_io_error(&error))
            }
        })?;
        folder._lock = Some(file);
        folder.looks = false;
        if config.syncing == Syncing::Uring {
            let ring = Ring::new().map_err(|errno| failed("setting up io_uring for", &name, errno));
            folder.ring = Some(ring?);
        }
        Ok(folder)
    }

    /// Opens an existing folder to look at it, for reading only; somebody else may be writing it.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn open_unlocked(path: &Path, config: FolderConfig) -> Result<Folder, DiskError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let name = path.display().to_string();
        let dir = fs::open(path, flags, Mode::empty());
        let dir = dir.map_err(|errno| failed("opening", &name, Some(errno)))?;
        let direct = config.direct;
        let files = BTreeMap::new();
        let path = path.to_path_buf();
        Ok(Folder {
            path,
            dir,
            _lock: None,
            config,
            direct,
            files,
            next: 0,
            ring: None,
            looks: true,
        })
    }

    /// Whether a journal could be written here: every file that a start opens, and new ones.
    ///
    /// # Errors
    /// The first thing that can't, with the system's reason.
    pub fn check_writable(&mut self) -> Result<(), DiskError> {
        let access = Access::WRITE_OK | Access::EXEC_OK;
        let allowed = fs::accessat(&self.dir, ".", access, AtFlags::EACCESS);
        let path = self.path.display().to_string();
        allowed.map_err(|errno| failed("writing", &path, Some(errno)))?;
        let written = |name: &String| {
            let registers = [MARK, VOTE, DOUBT, LIFE, PEERS, "lock"];
            registers.contains(&name.as_str()) || name.starts_with("log-")
        };
        for name in self.names()?.iter().filter(|name| written(name)) {
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            match fs::openat(&self.dir, name.as_str(), flags, Mode::empty()) {
                // Its writer removed it after the names were read.
                Err(Errno::NOENT) if !self.names()?.contains(name) => {}
                opened => {
                    drop(opened.map_err(|errno| failed("opening for writing", name, Some(errno)))?)
                }
            }
        }
        Ok(())
    }

    /// Path of the folder on the host.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether files are written past the page cache; known after the first was opened.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    fn open_file(&mut self, name: &str, create: bool) -> Result<FileId, DiskError> {
        let access = if self.looks { OFlags::RDONLY } else { OFlags::RDWR };
        let mut flags = access | OFlags::CLOEXEC;
        if create {
            flags |= OFlags::CREATE | OFlags::TRUNC;
        }
        if self.config.syncing == Syncing::Dsync {
            flags |= OFlags::DSYNC;
        }
        let mode = Mode::RUSR | Mode::WUSR;
        let open = |flags| fs::openat(&self.dir, name, flags, mode);
        let opened = match self.direct {
            true => match open(flags | OFlags::DIRECT) {
                Err(Errno::INVAL) => {
                    self.direct = false;
                    open(flags)
                }
                opened => opened,
            },
            false => open(flags),
        };
        let fd = opened.map_err(|errno| failed("opening", name, Some(errno)))?;
        let id = self.next;
        self.next += 1;
        self.files.insert(id, Open { name: name.to_string(), fd });
        Ok(FileId(id))
    }

    fn file(&self, file: FileId, doing: &'static str) -> Result<&Open, DiskError> {
        let name = String::new();
        self.files.get(&file.0).ok_or(DiskError { doing, name, kind: DiskErrorKind::Missing })
    }

    fn fill_with_zeros(&mut self, file: FileId, bytes: u64) -> Result<(), DiskError> {
        let mut zeros = AlignedBuf::with_capacity(ZEROS);
        zeros.resize(ZEROS);
        let mut at = 0;
        while at < bytes {
            let len = usize::try_from(bytes - at).unwrap_or(ZEROS).min(ZEROS);
            self.write(file, at, zeros.bytes().get(..len).unwrap_or(&[]))?;
            at += len as u64;
        }
        Ok(())
    }
}

fn failed(doing: &'static str, name: &str, errno: Option<Errno>) -> DiskError {
    let kind = match errno {
        Some(Errno::NOSPC) => DiskErrorKind::Full,
        Some(Errno::DQUOT) => DiskErrorKind::Quota,
        Some(Errno::FBIG) => DiskErrorKind::Limit,
        Some(Errno::NOENT) => DiskErrorKind::Missing,
        Some(errno) => DiskErrorKind::System(errno.raw_os_error()),
        None => DiskErrorKind::System(0),
    };
    DiskError { doing, name: name.to_string(), kind }
}

impl Storage for Folder {
    fn names(&mut self) -> Result<Vec<String>, DiskError> {
        let fail = |errno| failed("listing", &self.path.display().to_string(), Some(errno));
        let entries = fs::Dir::read_from(&self.dir).map_err(fail)?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(fail)?;
            // A journal gives no other names than such.
            names.extend(entry.file_name().to_str().ok().map(str::to_string));
        }
        Ok(names)
    }

    fn create(&mut self, name: &str, bytes: u64) -> Result<FileId, DiskError> {
        let file = self.open_file(name, true)?;
        let fd = &self.file(file, "making")?.fd;
        let reserved = match fs::fallocate(fd, FallocateFlags::empty(), 0, bytes) {
            // A file system that can't reserve room is told the length alone.
            Err(Errno::OPNOTSUPP) => fs::ftruncate(fd, bytes),
            reserved => reserved,
        };
        let made = reserved.map_err(|errno| failed("making", name, Some(errno)));
        let made = match self.config.zeroed {
            true => made.and_then(|()| self.fill_with_zeros(file, bytes)),
            false => made,
        };
        if let Err(error) = made {
            self.close(file);
            return Err(error);
        }
        Ok(file)
    }

    fn open(&mut self, name: &str) -> Result<(FileId, u64), DiskError> {
        let file = self.open_file(name, false)?;
        let stat = fs::fstat(&self.file(file, "opening")?.fd);
        let stat = stat.map_err(|errno| failed("opening", name, Some(errno)))?;
        Ok((file, u64::try_from(stat.st_size).unwrap_or(0)))
    }

    fn close(&mut self, file: FileId) {
        self.files.remove(&file.0);
    }

    fn stamp(&mut self, name: &str) -> Result<Stamp, DiskError> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME | StatxFlags::CTIME;
        let stat = match fs::statx(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW, wanted) {
            Err(Errno::NOSYS) => return Ok(Stamp::default()),
            stat => stat.map_err(|errno| failed("looking at", name, Some(errno)))?,
        };
        let ns = |flag: StatxFlags, time: StatxTimestamp| {
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            let ns = seconds.saturating_mul(1_000_000_000) + u64::from(time.tv_nsec);
            if stat.stx_mask & flag.bits() == 0 { 0 } else { ns }
        };
        Ok(Stamp {
            number: stat.stx_ino,
            made_ns: ns(StatxFlags::BTIME, stat.stx_btime),
            changed_ns: ns(StatxFlags::CTIME, stat.stx_ctime),
        })
    }

    fn read(&mut self, file: FileId, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let open = self.file(file, "reading")?;
        let mut done = 0;
        while done < into.len() {
            let rest = into.get_mut(done..).unwrap_or(&mut []);
            match rustix::io::pread(&open.fd, rest, at + done as u64) {
                Ok(0) => return Err(failed("reading", &open.name, Some(Errno::NOENT))),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("reading", &open.name, Some(errno))),
            }
        }
        Ok(())
    }

    fn write(&mut self, file: FileId, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let open = self.file(file, "writing")?;
        let mut done = 0;
        while done < bytes.len() {
            let rest = bytes.get(done..).unwrap_or(&[]);
            match rustix::io::pwrite(&open.fd, rest, at + done as u64) {
                Ok(0) => {
                    let kind = DiskErrorKind::Short;
                    return Err(DiskError { doing: "writing", name: open.name.clone(), kind });
                }
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("writing", &open.name, Some(errno))),
            }
        }
        Ok(())
    }

    fn sync(&mut self, file: FileId) -> Result<(), DiskError> {
        let open = self.file(file, "syncing")?;
        match self.config.syncing {
            Syncing::Fdatasync | Syncing::Uring => {
                fs::fdatasync(&open.fd).map_err(|e| failed("syncing", &open.name, Some(e)))
            }
            Syncing::Dsync | Syncing::Never => Ok(()),
        }
    }

    fn begin(&mut self, file: FileId, at: u64, buffer: AlignedBuf) -> Begun {
        let Some(ring) = &mut self.ring else {
            let done = self.write(file, at, buffer.bytes()).and_then(|()| self.sync(file));
            return Begun::Over(buffer, done);
        };
        let Some(open) = self.files.get(&file.0) else {
            let kind = DiskErrorKind::Missing;
            let error = DiskError { doing: "writing", name: String::new(), kind };
            return Begun::Over(buffer, Err(error));
        };
        match ring.begin(open.fd.as_fd(), UnderWay { file, at, buffer }) {
            Ok(()) => Begun::UnderWay,
            Err((write, errno)) => {
                Begun::Over(write.buffer, Err(failed("writing", &open.name, errno)))
            }
        }
    }

    fn finish(&mut self) -> Option<(AlignedBuf, Result<(), DiskError>)> {
        let (UnderWay { file, at, buffer }, ended) = self.ring.as_mut()?.finish()?;
        let name = self.files.get(&file.0).map_or("", |open| &open.name);
        let ended = match ended {
            Ok((_, true)) => Ok(()),
            // Cut short: the rest as usual.
            Ok((done, false)) => {
                let rest = buffer.bytes().get(done..).unwrap_or(&[]);
                self.write(file, at + done as u64, rest).and_then(|()| self.sync(file))
            }
            Err(errno) => Err(failed("writing", name, Some(errno))),
        };
        Some((buffer, ended))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let renamed = fs::renameat(&self.dir, from, &self.dir, to);
        renamed.map_err(|errno| failed("renaming", from, Some(errno)))?;
        if let Some(open) = self.files.values_mut().find(|open| open.name == from) {
            open.name = to.to_string();
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        match fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed("removing", name, Some(errno))),
        }
    }

    fn sync_names(&mut self) -> Result<(), DiskError> {
        if self.config.syncing == Syncing::Never {
            return Ok(());
        }
        let synced = fs::fsync(self.dir.as_fd());
        synced.map_err(|e| failed("syncing", &self.path.display().to_string(), Some(e)))
    }
}
