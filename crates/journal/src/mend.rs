//! A server of a group begins again on an empty log, without forgetting what it has promised.
//!
//! What a damaged log held others hold, too, as long as most disks are whole. But the server may have
//! said of a record that it has it, and that record may have been committed for that: until it has it
//! again it must not help to elect a leader that lacks it. So `doubt`, a register, names the last
//! term in which it may have said so, and the server takes no part in that term any more. A leader of
//! a later term holds everything that was committed before; once this server has a record that such
//! a leader made it has all that came before it, and the doubt is over.

use crate::error::JournalError;
use crate::register::{DOUBT, MARK, Register, VOTE};
use crate::storage::Storage;

/// What was done to a damaged journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mended {
    /// Name of the journal.
    pub id: u64,
    /// The last term in which it may have said to have what it lacks now.
    pub doubt: u64,
    /// Files that were set aside, by their new names: for an inquiry; nothing reads them.
    pub aside: Vec<String>,
}

/// Sets the log and the snapshots in a folder aside, so that [`crate::Journal::open`] begins an empty
/// log; term and vote, and the doubt, stay. A crash at any point leaves a journal that opens with the
/// doubt, or one to be mended again.
///
/// # Errors
/// [`JournalError::Register`] when the vote can't be read: nobody knows what it has promised, and it
/// must never take part again; [`JournalError::NoGroup`]; the disk's.
pub fn mend(storage: &mut impl Storage) -> Result<Mended, JournalError> {
    let mut vote = Register::open(storage, VOTE, None)?.register;
    let (id, names) = (vote.journal(), storage.names()?);
    // Terms only grow, so an earlier doubt is part of this one.
    let [doubt, ..] = vote.words;
    if doubt == 0 {
        return Err(JournalError::NoGroup);
    }
    Register::create(storage, DOUBT, id, [doubt, 0, 0]).map_err(JournalError::full)?;
    vote.write_both(storage, [doubt + 1, 0, 0])?;
    Register::create(storage, MARK, id, [0; 3]).map_err(JournalError::full)?;
    let mut aside = Vec::new();
    for name in names.iter().filter(|name| name.starts_with("log-") || name.starts_with("snap-")) {
        let kept = format!("damaged-{doubt:x}-{name}");
        storage.rename(name, &kept)?;
        aside.push(kept);
    }
    storage.sync_names()?;
    Ok(Mended { id, doubt, aside })
}
