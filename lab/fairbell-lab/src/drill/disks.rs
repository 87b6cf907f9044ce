//! Disks that go wrong: small ones of memory that fill, bits that flip, and folders that are copied.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use journal::{Folder, FolderConfig};
use types::SplitMix64;

use host::failure::{Failure, on};

/// Size of a disk.
const BYTES: u64 = 1 << 30;
/// The file that takes all the room.
const FILLER: &str = "filler";

/// A `tmpfs` for each replica's folder; gone with it.
#[derive(Default)]
pub struct Disks {
    mounted: Vec<PathBuf>,
}

impl Disks {
    /// Mounts them.
    pub fn mount(folders: impl Iterator<Item = PathBuf>) -> Result<Disks, Failure> {
        let mut disks = Disks::default();
        for folder in folders {
            std::fs::create_dir_all(&folder).map_err(|error| on(&folder, error))?;
            let size = format!("size={BYTES},mode=0700");
            let made = Command::new("mount")
                .args(["-t", "tmpfs", "-o", &size, "fairbell-drill"])
                .arg(&folder)
                .output();
            let made = made.map_err(|error| on(Path::new("mount"), error))?;
            if !made.status.success() {
                let why = String::from_utf8_lossy(&made.stderr);
                let need = "this drill needs the right to mount a tmpfs (root)";
                return Err(on(&folder, format!("{}: {need}", why.trim())));
            }
            disks.mounted.push(folder);
        }
        Ok(disks)
    }

    /// Leaves no room on a disk; false for one that is not there.
    pub fn fill(&self, number: usize) -> Result<bool, Failure> {
        let Some(folder) = self.mounted.get(number) else { return Ok(false) };
        let path = folder.join(FILLER);
        let mut file = std::fs::File::create(&path).map_err(|error| on(&path, error))?;
        let block = vec![0; 1 << 20];
        loop {
            match file.write(&block) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(true),
                Err(error) => return Err(on(&path, error)),
            }
        }
    }

    /// Makes room again.
    pub fn clear(&self, number: usize) -> Result<(), Failure> {
        let Some(folder) = self.mounted.get(number) else { return Ok(()) };
        let path = folder.join(FILLER);
        std::fs::remove_file(&path).map_err(|error| on(&path, error))
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        for folder in &self.mounted {
            // What still uses it lets it go later.
            let _ = Command::new("umount").arg("--lazy").arg(folder).status();
        }
    }
}

/// Copies a folder of files that nobody writes, to a place where none is.
pub fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(to).map_err(|error| on(to, error))?;
    let entries = std::fs::read_dir(from).map_err(|error| on(from, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| on(from, error))?;
        let kind = entry.file_type().map_err(|error| on(from, error))?;
        let (path, there) = (entry.path(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&path, &there)?;
        } else if kind.is_file() {
            std::fs::copy(&path, &there).map_err(|error| on(&path, error))?;
        }
    }
    Ok(())
}

/// Puts an older copy in the place of a folder whose process does not run.
pub fn set_back(dir: &Path, older: &Path) -> Result<(), Failure> {
    std::fs::remove_dir_all(dir).map_err(|error| on(dir, error))?;
    copy(older, dir)?;
    std::fs::remove_dir_all(older).map_err(|error| on(older, error))
}

/// Flips one bit somewhere in the committed part of a journal that nobody has open: its segment and
/// offset.
pub fn flip(dir: &Path, seed: u64) -> Result<(u64, u64), Failure> {
    let wrong = |error: String| on(dir, error);
    let config = FolderConfig { direct: false, ..FolderConfig::default() };
    let mut folder = Folder::open_unlocked(dir, config).map_err(|error| on(dir, error))?;
    let found = journal::verify(&mut folder).map_err(|error| wrong(error.to_string()))?;
    // The last frames may be what a write cut short: half of the last segment surely is not.
    let last = found.segments.len().saturating_sub(1);
    let room = |(at, segment): (usize, &journal::SegmentReport)| {
        let from = u64::from(found.block);
        let used = if at == last { segment.used / 2 } else { segment.used };
        (segment.number, from, used.max(from + 1))
    };
    let places: Vec<(u64, u64, u64)> = found.segments.iter().enumerate().map(room).collect();
    let mut rng = SplitMix64::new(seed);
    let drawn = rng.below(places.len().max(1) as u64) as usize;
    let place = places.get(drawn).ok_or_else(|| wrong("nothing in it".to_string()))?;
    let offset = place.1 + rng.below(place.2 - place.1);
    let path = dir.join(format!("log-{:016x}", place.0));
    let io = |error: std::io::Error| on(&path, error);
    let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(io)?;
    let mut byte = [0];
    file.seek(SeekFrom::Start(offset)).map_err(io)?;
    file.read_exact(&mut byte).map_err(io)?;
    byte[0] ^= 1 << rng.below(8);
    file.seek(SeekFrom::Start(offset)).map_err(io)?;
    file.write_all(&byte).map_err(io)?;
    file.sync_all().map_err(io)?;
    Ok((place.0, offset))
}
