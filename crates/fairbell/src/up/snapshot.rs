//! `--from DIR`: the state of an exchange that has ended, as the beginning of another one.

use std::fs;
use std::path::Path;

use host::failure::{Failure, on};

/// Folders below one another, at most, in a journal.
const DEPTH_MAX: usize = 4;

/// Copies the journal in `from` to `to`, which must be no folder yet or an empty one.
///
/// # Errors
/// There is no journal, something is at `to`, or the disk refuses.
pub fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let files = fs::read_dir(from).map_err(|error| on(from, error))?;
    if files.count() == 0 {
        return Err(on(from, "--from: no journal: the folder is empty"));
    }
    if fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
        let why = "--from: another journal is there: name an empty folder in journal.dir, or go on with that one";
        return Err(on(to, why));
    }
    all(from, to, DEPTH_MAX)
}

fn all(from: &Path, to: &Path, depth: usize) -> Result<(), Failure> {
    fs::create_dir_all(to).map_err(|error| on(to, error))?;
    for entry in fs::read_dir(from).map_err(|error| on(from, error))? {
        let entry = entry.map_err(|error| on(from, error))?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|error| on(&path, error))?;
        if kind.is_dir() && depth > 0 {
            all(&path, &copy, depth - 1)?;
        } else if kind.is_file() {
            fs::copy(&path, &copy).map_err(|error| on(&path, error))?;
        } else {
            return Err(on(&path, "--from: a journal has files and folders only"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_made_of_what_is_there_and_over_nothing() {
        let folder = std::env::temp_dir().join(format!("fairbell-from-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        assert!(copy(&from, &to).is_err(), "nothing there");
        fs::create_dir_all(from.join("below")).expect("a folder");
        fs::write(from.join("log"), b"abc").expect("a file");
        fs::write(from.join("below/more"), b"de").expect("a file");
        copy(&from, &to).expect("copied");
        assert_eq!(fs::read(to.join("log")).expect("the file"), b"abc");
        assert_eq!(fs::read(to.join("below/more")).expect("the file"), b"de");
        let again = copy(&from, &to).expect_err("something is there").to_string();
        assert!(again.contains("another journal"), "{again}");
        std::os::unix::fs::symlink("log", from.join("link")).expect("a link");
        assert!(copy(&from, &folder.join("other")).is_err(), "no links");
        fs::remove_dir_all(folder).expect("it was there");
    }
}
