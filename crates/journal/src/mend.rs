//! A server of a group begins again on an empty log, without forgetting what it has promised.
//!
//! What a damaged log held others hold, too, as long as most disks are whole. But the server may have
//! said of a record that it has it, and that record may have been committed for that: until it has it
//! again it must not help to elect a leader that lacks it. So `doubt`, a register, names the last
//! term in which it may have said so, and the server takes no part in that term any more. A leader of
//! a later term holds everything that was committed before; once this server has a record that such
//! a leader made it has all that came before it, and the doubt is over.
//!
//! A folder that was set back to an older copy does not even know that term: then the others say so
//! ([`crate::Journal::doubt_from`]). Where those that are in no doubt are too few to elect anybody, an
//! operator may name the one whose log counts ([`yield_to`]): it is elected by those in doubt, too.

use crate::error::JournalError;
use crate::life::Life;
use crate::register::{DOUBT, MARK, Register, VOTE};
use crate::storage::Storage;

/// Elections that a folder's server may have voted in since it was copied and that none of those heard of
/// who are asked about it: so many terms are passed over, so that it votes in none for the second time.
pub const TERMS_UNHEARD: u64 = 1 << 16;

/// Promises of a server that may have been lost with its damaged files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Doubt {
    /// The last term in which there may be some; 0 for no doubt.
    pub(crate) term: u64,
    /// The only server that it may elect meanwhile; 0: none.
    pub(crate) sponsor: u64,
    /// Position up to which it had the log, at least.
    pub(crate) last: u64,
}

impl Doubt {
    pub(crate) fn read(storage: &mut impl Storage, journal: u64) -> Result<Doubt, JournalError> {
        let register: Register = Register::open(storage, DOUBT, Some(journal))?.register;
        let [term, sponsor, last] = register.words;
        Ok(Doubt { term, sponsor, last })
    }

    pub(crate) fn write(
        &self,
        storage: &mut impl Storage,
        journal: u64,
    ) -> Result<(), JournalError> {
        let words = [self.term, self.sponsor, self.last];
        let made = Register::create(storage, DOUBT, journal, words).map_err(JournalError::full)?;
        made.close(storage);
        Ok(())
    }
}

/// Report on a damaged journal that was set aside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mended {
    /// Name of the journal.
    pub id: u64,
    /// The last term in which it may have said to have what it lacks now, as far as the folder knows.
    pub doubt: u64,
    /// The folder is an older copy of itself, so it may have promised something in later terms, too.
    pub set_back: bool,
    /// Last position of the log that the server had at least, and may have acknowledged.
    pub held: u64,
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
    let mut vote: Register = Register::open(storage, VOTE, None)?.register;
    let (id, names) = (vote.journal(), storage.names()?);
    // Terms only grow, so an earlier doubt is part of this one.
    let [doubt, ..] = vote.words;
    if doubt == 0 {
        return Err(JournalError::NoGroup);
    }
    let held = held(storage, id, &names)?;
    let life = Life::let_change(storage, id)?;
    Doubt { term: doubt, sponsor: 0, last: held }.write(storage, id)?;
    vote.write_both(storage, [doubt + 1, 0, 0])?;
    Register::create(storage, MARK, id, [0; 3]).map_err(JournalError::full)?;
    let mut aside = Vec::new();
    for name in names.iter().filter(|name| name.starts_with("log-") || name.starts_with("snap-")) {
        let kept = format!("damaged-{doubt:x}-{name}");
        storage.rename(name, &kept)?;
        aside.push(kept);
    }
    storage.sync_names()?;
    Ok(Mended { id, doubt, set_back: life.set_back(), held, aside })
}

/// Last position of the log: as far as it can be read or, if it was set aside before, as recorded
/// then.
fn held(storage: &mut impl Storage, id: u64, names: &[String]) -> Result<u64, JournalError> {
    let has = |name: &str| names.iter().any(|known| known == name);
    let known = match crate::inspect::verify(storage) {
        Ok(found) => found.last,
        Err(JournalError::Corrupt { committed, position, .. }) => committed.max(position - 1),
        Err(JournalError::Disk(error)) if has(MARK) => return Err(error.into()),
        Err(_) => 0,
    };
    let earlier =
        if has(DOUBT) { Doubt::read(storage, id).map_or(0, |doubt| doubt.last) } else { 0 };
    Ok(known.max(earlier))
}

/// Promises of the server that a folder holds; see [`promises`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promises {
    /// Name of the journal.
    pub id: u64,
    /// The newest term it knows.
    pub term: u64,
    /// The last term in which it may have promised what it has lost, 0 for none; over when the log
    /// has a record of a later one.
    pub doubt: u64,
    /// The only server that it may elect while in doubt; 0: none.
    pub sponsor: u64,
    /// The folder is an older copy of itself, or may be.
    pub set_back: bool,
    /// Last position of the log that the server had at least, now or before it was set aside, and
    /// may have acknowledged.
    pub held: u64,
}

/// Reads what a folder says of its server's promises, and whether it is a copy; changes nothing that
/// counts.
///
/// # Errors
/// [`JournalError::Register`]; the disk's.
pub fn promises(storage: &mut impl Storage) -> Result<Promises, JournalError> {
    let vote: Register = Register::open(storage, VOTE, None)?.register;
    let (id, names) = (vote.journal(), storage.names()?);
    let has = |name: &str| names.iter().any(|known| known == name);
    let doubt = if has(DOUBT) { Doubt::read(storage, id)? } else { Doubt::default() };
    let set_back = has(crate::register::LIFE) && Life::look(storage, id)?;
    let held = held(storage, id, &names)?;
    let Doubt { term, sponsor, .. } = doubt;
    Ok(Promises { id, term: vote.words[0], doubt: term, sponsor, set_back, held })
}

/// By an operator's word the log of server `to` counts, and server `own`, whose folder this is and who
/// is in doubt, may elect it and nobody else: its own log is set aside, unless it is the one that
/// counts. What `own` had acknowledged and `to` lacks is lost by that. A crash at any point leaves a
/// folder that is in doubt as before, or to be treated again.
///
/// # Errors
/// As [`mend()`].
pub fn yield_to(storage: &mut impl Storage, (own, to): (u64, u64)) -> Result<Mended, JournalError> {
    let mended = match own == to {
        false => mend(storage)?,
        true => {
            let Promises { id, term, set_back, held, .. } = promises(storage)?;
            Mended { id, doubt: term, set_back, held, aside: Vec::new() }
        }
    };
    let Mended { id, set_back, held, .. } = mended;
    let doubt = mended.doubt + if set_back { TERMS_UNHEARD } else { 0 };
    let mut life = Life::let_change(storage, id)?;
    Doubt { term: doubt, sponsor: to, last: held }.write(storage, id)?;
    let mut vote: Register = Register::open(storage, VOTE, Some(id))?.register;
    let [term, ..] = vote.words;
    vote.write_both(storage, [term.max(doubt + 1), 0, 0])?;
    life.say(storage, false)?;
    Ok(Mended { doubt, ..mended })
}

/// Makes the journal `id` of a server whose disk is gone, in a folder that has none: what the server had
/// promised nobody knows, so it elects server `to` and nobody else, by an operator's word, until it has
/// the log of that. `beyond`: a number above all its terms and all its starts, of which others know; with
/// one that is not they say so at its start, and it takes part in nothing. A crash at any point leaves a
/// folder to be treated again.
///
/// # Errors
/// [`JournalError::Foreign`] for a folder with a journal in it, or with parts of one; the disk's.
pub fn begin_in_doubt(
    storage: &mut impl Storage,
    id: u64,
    (to, beyond): (u64, u64),
) -> Result<Mended, JournalError> {
    let names = storage.names()?;
    let of_journal =
        |name: &String| name == MARK || name.starts_with("log-") || name.starts_with("snap-");
    if names.iter().any(of_journal) {
        return Err(JournalError::Foreign("folder"));
    }
    let doubt = beyond.saturating_add(TERMS_UNHEARD);
    Doubt { term: doubt, sponsor: to, last: 0 }.write(storage, id)?;
    let words = [doubt + 1, 0, 0];
    Register::create(storage, VOTE, id, words).map_err(JournalError::full)?.close(storage);
    Life::found(storage, id, doubt)?;
    // From here on there is a journal.
    Register::create(storage, MARK, id, [0; 3]).map_err(JournalError::full)?.close(storage);
    storage.sync_names()?;
    Ok(Mended { id, doubt, set_back: true, held: 0, aside: Vec::new() })
}
