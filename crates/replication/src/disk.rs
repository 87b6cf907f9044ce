//! Between a replica and its journal: what is recovered, written and read.

use journal::{Journal, JournalError, Record, Storage, Vote};

use crate::{Entry, Fetch, Write};

/// What a replica goes on from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Term and vote.
    pub vote: Vote,
    /// The position before the first that can be read, and its term; (0, 0) for the whole log.
    pub before: (u64, u64),
    /// The last position.
    pub last: u64,
    /// Everything up to here was known to be committed; the replica's state holds it.
    pub committed: u64,
    /// Where each term begins, in order.
    pub terms: Vec<(u64, u64)>,
    /// The entries after `committed`.
    pub tail: Vec<Entry>,
    /// The last term in which it may have said to have what it has lost since (`journal::mend`); 0
    /// for none.
    pub doubt: u64,
}

/// Reads a journal through. `visit` sees every committed record, for the state to be made of them;
/// empty ones are nobody's.
///
/// # Errors
/// Those of reading.
pub fn recover<S: Storage>(
    journal: &mut Journal<S>,
    mut visit: impl FnMut(Record<'_>),
) -> Result<Recovered, JournalError> {
    let (first, last, committed) = (journal.first(), journal.durable(), journal.committed());
    let mut recovered = Recovered { last, committed, ..Recovered::default() };
    journal.read(first, last, |record| {
        let (position, term) = (record.position, record.term);
        if recovered.terms.last().is_none_or(|(_, known)| *known != term) {
            recovered.terms.push((position, term));
        }
        if position <= committed {
            visit(record);
        } else {
            recovered.tail.push(Entry { position, term, record: record.bytes.to_vec() });
        }
    })?;
    let newest = recovered.terms.last().map_or(0, |(_, term)| *term);
    recovered.vote = journal.vote();
    if recovered.vote.term < newest {
        // Its records were heard of a moment before the term itself: no vote was given in it.
        recovered.vote = Vote { term: newest, voted_for: 0 };
    }
    // A log that begins later begins behind its first record, whose term is known.
    if first > 1 {
        recovered.before = (first, recovered.terms.first().map_or(0, |(_, term)| *term));
    }
    // With a record of a later term came all that its leader held before.
    recovered.doubt = if newest > journal.doubt() { 0 } else { journal.doubt() };
    Ok(recovered)
}

/// Does what a [`Write`] says, durably. On a full disk it may be tried again, whole; after other
/// errors the journal has to be opened again, and the replica made anew.
///
/// # Errors
/// The journal's.
pub fn perform<S: Storage>(journal: &mut Journal<S>, write: &Write) -> Result<(), JournalError> {
    if let Some(vote) = write.vote {
        journal.set_vote(vote)?;
    }
    if let Some(kept) = write.kept
        && journal.last() > kept
        // Tried again: what has been appended since is what is to be written.
        && !holds(journal, write)
    {
        journal.truncate(kept)?;
    }
    journal.commit_to(write.committed);
    for entry in &write.entries {
        if entry.position <= journal.last() {
            continue;
        }
        match journal.append(entry.term, &entry.record) {
            Err(JournalError::BatchFull) => {
                journal.flush()?;
                journal.append(entry.term, &entry.record)?;
            }
            other => {
                other?;
            }
        }
    }
    journal.flush()?;
    Ok(())
}

/// Whether this write was begun before: its first entry is there already.
fn holds<S: Storage>(journal: &mut Journal<S>, write: &Write) -> bool {
    let Some(first) = write.entries.first() else { return false };
    if journal.last() > journal.durable() {
        // Only a write that was begun leaves records that are not durable.
        return true;
    }
    let mut same = false;
    let read = journal.read(first.position, first.position, |record| {
        same = record.term == first.term && record.bytes == first.record;
    });
    read.is_ok() && same
}

/// Reads what a [`Fetch`] asks for.
///
/// # Errors
/// The journal's.
pub fn fetch<S: Storage>(
    journal: &mut Journal<S>,
    wanted: &Fetch,
) -> Result<Vec<Entry>, JournalError> {
    let (mut entries, mut sum): (Vec<Entry>, u64) = (Vec::new(), 0);
    // A bounded piece at a time: how many fit is known only when they have been read.
    let mut from = wanted.from;
    while from <= wanted.to && (entries.is_empty() || sum < wanted.bytes) {
        let to = wanted.to.min(from + 255);
        let before = entries.len();
        journal.read(from, to, |Record { position, term, bytes }| {
            sum += 24 + bytes.len() as u64;
            if entries.len() == before || sum <= wanted.bytes {
                entries.push(Entry { position, term, record: bytes.to_vec() });
            }
        })?;
        if entries.len() == before {
            break;
        }
        from = to + 1;
    }
    Ok(entries)
}
