//! Who may read what a process writes: its user alone.

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::Mode;

use crate::failure::{Failure, on};

/// From now on whatever this process makes has mode 0600, folders 0700, wherever nothing stricter is
/// asked for: journals, logs, reports, spilled streams, audit files.
pub fn keep_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Makes a folder, with those above it that are missing, which nobody else may enter.
///
/// # Errors
/// The system's.
pub fn folder(path: &Path) -> Result<(), Failure> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| on(path, error))
}

/// An empty file, mode 0600 also when another one was there.
///
/// # Errors
/// The system's.
pub fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Writes a whole file, as [`create`] makes it.
///
/// # Errors
/// The system's.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
    use std::io::Write;
    create(path)?.write_all(bytes.as_ref())
}

/// Behind the name of a file that [`replace`] has not finished.
pub const UNFINISHED: &str = ".new";

/// Writes a whole file durably and then gives it its name, in the place of another one if there was
/// any: under that name there is never a part of it.
///
/// # Errors
/// The system's; nothing is left of it then.
pub fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let mut unfinished = path.as_os_str().to_os_string();
    unfinished.push(UNFINISHED);
    let written = create(Path::new(&unfinished)).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let done = written.and_then(|()| std::fs::rename(&unfinished, path));
    if done.is_err() {
        // What there is of it would keep room from others.
        let _ = std::fs::remove_file(&unfinished);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_open_to_others_is_closed_when_it_is_written_again() {
        let dir = std::env::temp_dir().join(format!("fairbell-modes-{}", std::process::id()));
        folder(&dir.join("a/b")).expect("folders");
        let mode =
            |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(
            (mode(&dir), mode(&dir.join("a")), mode(&dir.join("a/b"))),
            (0o700, 0o700, 0o700)
        );
        let file = dir.join("exchange.log");
        std::fs::write(&file, "old and longer").expect("written");
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("set");
        write(&file, "new").expect("written");
        assert_eq!((mode(&file), std::fs::read(&file).expect("read")), (0o600, b"new".to_vec()));
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
