//! An exchange's log in a journal on disk: what its records are, who writes it, how it stands.

pub mod health;
pub mod kept;
pub mod read;
pub mod reader;

use journal::{DiskErrorKind, JournalError};

/// What a journal with this label complains of, and what to do.
pub fn advice(label: Option<[u8; 32]>, error: &JournalError) -> String {
    let vote = matches!(error, JournalError::Register("vote"));
    let replica = label == Some(crate::replica::node::LABEL);
    let lone = label == Some(kept::LABEL);
    let hint = match error {
        JournalError::Register(_) if vote && lone => {
            "this exchange stands alone and has promised nothing: `fairbell journal mend` makes the \
             file again"
        }
        JournalError::Register(_) if vote && replica => {
            "put another replica in its place, with a number that was never used: `fairbell admin \
             replicas replace`"
        }
        JournalError::Corrupt { .. } | JournalError::Register(_) if replica => {
            "as one of a group it can have it again from the others: `fairbell journal mend`"
        }
        JournalError::Disk(error) => match error.kind {
            DiskErrorKind::System(1 | 13) => {
                "folder and files have to belong to the user that starts it"
            }
            DiskErrorKind::System(30) => "its file system is mounted read-only",
            _ => return error.to_string(),
        },
        _ => return error.to_string(),
    };
    format!("{error}; {hint}")
}

/// Name of a segment's file.
pub fn file_of(segment: u64) -> String {
    format!("log-{segment:016x}")
}
