//! Who may read what a process writes: its user alone.

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

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

/// A file to be written from what lies in `sources`: files, or folders such as journals. It is none of them and
/// in none of them.
///
/// # Errors
/// Says which source `path` would destroy; the system's.
pub fn create_apart(path: &Path, sources: &[PathBuf]) -> Result<File, Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let place = folder.unwrap_or(Path::new(".")).canonicalize().map_err(|error| on(path, error))?;
    let there =
        path.canonicalize().unwrap_or_else(|_| place.join(path.file_name().unwrap_or_default()));
    for source in sources {
        if source.canonicalize().is_ok_and(|source| there.starts_with(source)) {
            return Err(on(
                path,
                format!("{} is read from and would be damaged", source.display()),
            ));
        }
    }
    create(path).map_err(|error| on(path, error))
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
    fn no_file_is_written_in_the_place_of_what_it_is_made_from() {
        let dir = std::env::temp_dir().join(format!("fairbell-apart-{}", std::process::id()));
        let journal = dir.join("journal");
        folder(&journal).expect("folders");
        let (log, segment) = (dir.join("day.log"), journal.join("log-1"));
        [&log, &segment].iter().for_each(|file| std::fs::write(file, "kept").expect("written"));
        std::os::unix::fs::symlink(&segment, dir.join("link")).expect("linked");
        let sources = [log.clone(), journal.clone()];
        for wrong in
            [&log, &segment, &journal.join("new"), &dir.join("link"), &dir.join("./day.log")]
        {
            let refused = create_apart(wrong, &sources).map(|_| ()).expect_err("a source");
            assert!(refused.to_string().contains("would be damaged"), "{refused}");
        }
        assert_eq!([&log, &segment].map(|file| std::fs::read(file).expect("read")), [b"kept"; 2]);
        create_apart(&dir.join("day.csv"), &sources).expect("beside them");
        create_apart(&dir.join("none/day.csv"), &sources).expect_err("no such folder");
        std::fs::remove_dir_all(&dir).expect("removed");
    }

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
