//! Files that are there whole or not at all.

use crate::error::JournalError;
use crate::storage::{DiskError, FileId, Storage};

/// Writes a file of so many bytes under another name, then gives it its own, durable and open on return:
/// a name that is there is of a whole file.
///
/// # Errors
/// [`JournalError::Full`] without room for it, with nothing changed; the disk's.
pub(crate) fn put<S: Storage>(
    storage: &mut S,
    name: &str,
    bytes: u64,
    fill: impl FnOnce(&mut S, FileId) -> Result<(), DiskError>,
) -> Result<FileId, JournalError> {
    let temporary = format!("{name}.new");
    let file = match storage.create(&temporary, bytes) {
        Ok(file) => file,
        Err(error) => {
            // What there is of it would keep room from others.
            let _ = storage.remove(&temporary);
            return Err(JournalError::full(error));
        }
    };
    let put = fill(storage, file)
        .and_then(|()| storage.sync(file))
        .and_then(|()| storage.rename(&temporary, name))
        .and_then(|()| storage.sync_names());
    if let Err(error) = put {
        storage.close(file);
        return Err(error.into());
    }
    Ok(file)
}
