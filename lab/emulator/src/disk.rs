//! A host's disk: a file system of its own in a file, that can fill, and that can lose its power.
//!
//! It is ext4 on a loop device. Without power nothing more is written to the file, so what the file system
//! had only in memory is gone, its own journal's open transaction included; the next mount recovers as
//! after a power cut. What a program has written past the page cache, and has not synced, is in the file:
//! a real disk may lose it from its own cache, and may tear it, which the simulated disk of the crate
//! `journal` does.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate};

use crate::sys;

/// The file that takes all the room.
const FILLER: &str = "filler";
/// The least that is tried to be taken, bytes.
const CRUMB: u64 = 4 << 10;

/// A mounted disk. Dropping it unmounts it and removes its file.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    at: PathBuf,
}

/// Gives the calling thread, and the threads and programs that it starts later, mounts of their own, which
/// go with the last of them, however they end. To be called before any disk is made.
///
/// # Errors
/// What the kernel answers, above all without the right to do so.
pub fn own_mounts() -> io::Result<()> {
    sys::leave_for_own_mounts()?;
    run(Command::new("mount").args(["--make-rprivate", "/"]))
}

impl Disk {
    /// Makes a disk of so many bytes in the file `image`, and mounts it at the folder `at`, which it makes.
    /// Only what is written takes room in the file.
    ///
    /// # Errors
    /// The system's; where there is no `mkfs.ext4`, no loop device or no right to mount.
    pub fn make(image: &Path, at: &Path, bytes: u64) -> io::Result<Disk> {
        std::fs::create_dir_all(at)?;
        File::create(image)?.set_len(bytes)?;
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(image))?;
        // From here on dropping it clears away.
        let disk = Disk { image: image.to_path_buf(), at: at.to_path_buf() };
        disk.power_on()?;
        std::fs::remove_dir(at.join("lost+found"))?;
        Ok(disk)
    }

    /// Cuts the power: what is not in the file by now is lost. Nobody may have anything of it open.
    ///
    /// # Errors
    /// The system's; when somebody uses it.
    pub fn power_off(&self) -> io::Result<()> {
        sys::shut_down(File::open(&self.at)?)?;
        run(Command::new("umount").arg(&self.at))
    }

    /// Mounts it, after it recovered.
    ///
    /// # Errors
    /// The system's.
    pub fn power_on(&self) -> io::Result<()> {
        run(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.at))
    }

    /// Takes all its room; how many bytes that was.
    ///
    /// # Errors
    /// The system's, but that there is no more room.
    pub fn fill(&self) -> io::Result<u64> {
        let file = File::create(self.at.join(FILLER))?;
        let (mut taken, mut piece) = (0, 1 << 30);
        while piece >= CRUMB {
            match fallocate(&file, FallocateFlags::empty(), taken, piece) {
                Ok(()) => taken += piece,
                Err(rustix::io::Errno::NOSPC) => piece /= 2,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(taken)
    }

    /// Gives the room back.
    ///
    /// # Errors
    /// The system's.
    pub fn clear(&self) -> io::Result<()> {
        std::fs::remove_file(self.at.join(FILLER))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What still uses it lets it go later; one without power is not mounted.
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.at));
        let _ = std::fs::remove_file(&self.image);
    }
}

/// Runs a program; what it complained of.
fn run(command: &mut Command) -> io::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|why| io::Error::new(why.kind(), format!("{name}: {why}")))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(format!("{name}: {}", said.trim())))
        }
    }
}
