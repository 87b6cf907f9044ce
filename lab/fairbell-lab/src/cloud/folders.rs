//! Folders of machines: emptied, copied.

use std::path::Path;

use host::failure::{Failure, on};

/// Removes what is in a folder, and leaves the folder: it may be a mounted disk's.
///
/// # Errors
/// The system's.
pub fn empty_folder(dir: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(dir).map_err(|error| on(dir, error))? {
        let path = entry.map_err(|error| on(dir, error))?.path();
        let removed = match path.is_dir() {
            true => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
        removed.map_err(|error| on(&path, error))?;
    }
    Ok(())
}

/// Copies a folder and what is in it.
///
/// # Errors
/// The system's.
pub fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    host::files::folder(to)?;
    for entry in std::fs::read_dir(from).map_err(|error| on(from, error))? {
        let entry = entry.map_err(|error| on(from, error))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().map_err(|error| on(&source, error))?.is_dir() {
            true => copy_folder(&source, &target)?,
            false => drop(std::fs::copy(&source, &target).map_err(|error| on(&source, error))?),
        }
    }
    Ok(())
}
