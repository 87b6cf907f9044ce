//! Connects a replica to its journal: what is recovered, written and read.

use journal::{Installed, Journal, JournalError, Peer, Record, SnapshotInfo, Storage, Vote};

use crate::members::version_of;
use crate::{Entry, Fetch, Install, Membership, Write};

/// State from which a replica continues after a start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Term and vote that the replica has promised.
    pub vote: Vote,
    /// The position before the first that can be read, and its term; (0, 0) for the whole log.
    pub before: (u64, u64),
    /// Position of the last record of the replica's log.
    pub last: u64,
    /// Position up to which records were known to be committed; the replica's state holds them.
    pub committed: u64,
    /// Each term with the first position that has it, in ascending order.
    pub terms: Vec<(u64, u64)>,
    /// Entries behind `committed`, in order.
    pub tail: Vec<Entry>,
    /// Committed memberships, each with the position from which on it holds; empty: the founders
    /// are the members.
    pub groups: Vec<(u64, Vec<u8>)>,
    /// The last term in which it may have said to have what it has lost since (`journal::mend`); 0
    /// for none.
    pub doubt: u64,
    /// The only replica that it may elect meanwhile, by an operator's command
    /// (`journal::yield_to`); 0: none.
    pub sponsor: u64,
    /// Number of starts of the replica, this one included.
    pub lives: u64,
    /// Whether the folder is, or may be, an older copy of itself.
    pub set_back: bool,
    /// Promises of other replicas that this one had recorded.
    pub peers: Vec<Peer>,
    /// Newest snapshot of this replica, for replicas that need records from before its log.
    pub snapshot: Option<SnapshotInfo>,
}

/// The range of positions that a journal keeps, for [`crate::Replica::handle_kept`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Position before the first record, and that position's term.
    pub before: (u64, u64),
    /// Newest snapshot, when the log continues behind it; `None`: the log is complete.
    pub snapshot: Option<SnapshotInfo>,
}

/// Range that a journal keeps now.
pub fn kept<S: Storage>(journal: &Journal<S>) -> Kept {
    let base = journal.first() - 1;
    // A log whose first record was made by a version that did not write down the term before it
    // begins behind that record, whose term is known.
    let known = journal.term_at(base).map(|term| (base, term));
    let before = known.or_else(|| Some((base + 1, journal.term_at(base + 1)?)));
    let before = before.unwrap_or((base, 0));
    let committed = journal.committed();
    let fits = |info: &SnapshotInfo| {
        info.term > 0 && (before.0..=committed).contains(&info.position) && info.position > 0
    };
    let snapshot = journal.snapshots().iter().copied().rfind(fits);
    Kept { before, snapshot }
}

/// Reads a journal through. `visit` sees every committed record, for the state to be made of them;
/// empty ones are nobody's.
///
/// A leader proposes a change of who is in the group only when it has applied the one before, and
/// whoever takes it hears with it that the one before is committed. So of several in a log all but
/// the last are, also when the watermark was not written since: a replica that asked for votes among
/// the members of two changes ago might be elected by other ones than those that are most by now.
///
/// # Errors
/// Those of reading; [`JournalError::Format`] for a change that this version can't read.
pub fn recover<S: Storage>(
    journal: &mut Journal<S>,
    visit: impl FnMut(Record<'_>),
) -> Result<Recovered, JournalError> {
    recover_after(journal, 0, visit)
}

/// The same for a state that holds everything up to a committed position already: what is before
/// the record behind it is not read.
///
/// # Errors
/// Those of reading.
pub fn recover_after<S: Storage>(
    journal: &mut Journal<S>,
    held: u64,
    mut visit: impl FnMut(Record<'_>),
) -> Result<Recovered, JournalError> {
    if let [.., (known, _), _] = journal.groups() {
        let known = *known;
        journal.commit_to(known);
    }
    let (first, last, committed) = (journal.first(), journal.durable(), journal.committed());
    for (position, group) in journal.groups() {
        if Membership::read(group).is_none() {
            let name = format!("the change of membership at position {position}");
            return Err(JournalError::Format(name, u32::from(version_of(group))));
        }
    }
    let mut recovered = Recovered { last, committed, ..Recovered::default() };
    let read_from = first.max(held.min(committed) + 1);
    let begun = journal.terms().iter().filter(|(position, _)| *position < read_from);
    recovered.terms = begun.map(|(begins, term)| ((*begins).max(first), *term)).collect();
    journal.read(read_from, last, |record| {
        let (position, term) = (record.position, record.term);
        if recovered.terms.last().is_none_or(|(_, known)| *known != term) {
            recovered.terms.push((position, term));
        }
        if position <= committed {
            visit(record);
        } else {
            recovered.tail.push(record.into());
        }
    })?;
    let Kept { before, snapshot } = kept(journal);
    (recovered.before, recovered.snapshot) = (before, snapshot);
    let applied = |(position, _): &&(u64, Vec<u8>)| *position <= committed;
    recovered.groups = journal.groups().iter().filter(applied).cloned().collect();
    let newest = recovered.terms.last().map_or(before.1, |(_, term)| *term);
    recovered.vote = journal.vote();
    if recovered.vote.term < newest {
        // Its records were heard of a moment before the term itself: no vote was given in it.
        recovered.vote = Vote { term: newest, voted_for: 0 };
    }
    // With a record of a later term came all that its leader held before.
    recovered.doubt = if newest > journal.doubt() { 0 } else { journal.doubt() };
    (recovered.sponsor, recovered.peers) = (journal.sponsor(), journal.peers());
    (recovered.lives, recovered.set_back) = (journal.lives(), journal.is_set_back());
    Ok(recovered)
}

/// Does what a [`Write`] says, durably. On a full disk it may be tried again, whole; after other
/// errors the journal has to be opened again, and the replica made anew.
///
/// # Errors
/// The journal's.
pub fn perform<S: Storage>(journal: &mut Journal<S>, write: &Write) -> Result<(), JournalError> {
    assert!(write.is_in_order(), "positions of a write follow each other");
    if write.set_back {
        journal.note_set_back()?;
    }
    if let Some(known) = &write.peers {
        journal.set_peers(known)?;
    }
    // Tried again, it is there.
    if let Some(term) = write.doubt.filter(|term| journal.vote().term <= *term) {
        journal.doubt_from(term)?;
    }
    if let Some(vote) = write.vote {
        journal.set_vote(vote)?;
    }
    if let Some(install) = &write.install {
        let Install { info, group, bytes } = install.as_ref();
        let SnapshotInfo { position, term, chain, .. } = *info;
        // Tried again: it is there.
        if journal.committed() < position || journal.term_at(position) != Some(term) {
            journal.install(&Installed { position, term, chain, group, bytes })?;
        }
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
        match append(journal, entry) {
            Err(JournalError::BatchFull) => {
                journal.flush()?;
                append(journal, entry)?;
            }
            other => {
                other?;
            }
        }
    }
    journal.flush()?;
    let last = write.entries.last().map_or(0, |entry| entry.position);
    assert!(journal.durable() >= last, "what was to be durable is");
    Ok(())
}

fn append<S: Storage>(journal: &mut Journal<S>, entry: &Entry) -> Result<u64, JournalError> {
    assert_eq!(entry.position, journal.last() + 1, "no entry is written in another's place");
    match entry.group.as_slice() {
        [] => journal.append(entry.term, &entry.record),
        group => journal.append_group(entry.term, group),
    }
}

impl From<Record<'_>> for Entry {
    fn from(record: Record<'_>) -> Entry {
        let Record { position, term, bytes, group } = record;
        Entry { position, term, record: bytes.into(), group: group.to_vec() }
    }
}

/// Whether this write was begun before: its first entry is in the journal already.
fn holds<S: Storage>(journal: &mut Journal<S>, write: &Write) -> bool {
    let Some(first) = write.entries.first() else { return false };
    if journal.last() > journal.durable() {
        // Only a write that was begun leaves records that are not durable.
        return true;
    }
    let mut same = false;
    let read = journal.read(first.position, first.position, |record| {
        same = Entry::from(record) == *first;
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
        journal.read(from, to, |record| {
            sum += 24 + (record.bytes.len() + record.group.len()) as u64;
            if entries.len() == before || sum <= wanted.bytes {
                entries.push(record.into());
            }
        })?;
        if entries.len() == before {
            break;
        }
        from = to + 1;
    }
    Ok(entries)
}
