//! What the consensus library sees of the log: terms of all positions, recent records; for earlier
//! ones it asks, and is asked back when they have been read.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use journal::Vote;
use raft::eraftpb::{ConfState, Entry, EntryData, EntryType, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, StorageError};

use crate::{Fetch, Membership, ReplicaId, disk::Recovered};

/// Most replicas that may wait for reads of the journal at one time.
const ASKED_MAX: usize = 64;

/// The log as the consensus library sees it.
pub(crate) struct LogView {
    own: ReplicaId,
    /// Membership as far as changes are applied here, beginning with the founders.
    membership: Membership,
    founders: Membership,
    /// Memberships as far as applied, encoded, each with the position from which on it holds, back
    /// to the beginning of the log.
    groups: Vec<(u64, Vec<u8>)>,
    vote: Vote,
    committed: u64,
    /// Position before the first record that can be read, and its term.
    before: (u64, u64),
    last: u64,
    /// Each term with the first position that has it.
    terms: Vec<(u64, u64)>,
    /// The last records, without gaps.
    recent: VecDeque<Entry>,
    /// Earlier records that were read from the journal for the library's next look.
    read: Vec<Entry>,
    asked: RefCell<Asked>,
    /// Replicas that need entries which are no longer here.
    behind: RefCell<BTreeSet<u64>>,
}

#[derive(Default)]
struct Asked {
    next: u64,
    new: Vec<Fetch>,
    /// Reads under way: number, first position, and the library's context.
    waiting: Vec<(u64, u64, GetEntriesContext)>,
}

impl LogView {
    pub(crate) fn new(own: ReplicaId, founders: Membership, recovered: Recovered) -> LogView {
        let Recovered { vote, before, last, committed, terms, tail, groups, .. } = recovered;
        let newest = groups.last().and_then(|(_, group)| Membership::read(group));
        let recent = tail.into_iter().map(into_library).collect();
        LogView {
            own,
            membership: newest.unwrap_or_else(|| founders.clone()),
            founders,
            groups,
            vote,
            committed,
            before,
            last,
            terms,
            recent,
            read: Vec::new(),
            asked: RefCell::default(),
            behind: RefCell::default(),
        }
    }

    /// Appends entries, in the place of those that had their positions; gives the last position
    /// kept when some are taken back.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Option<u64> {
        let first = entries.first()?.index;
        assert!(first > self.before.0, "what a snapshot stands for is not appended again");
        let kept = (first <= self.last).then_some(first.saturating_sub(1));
        if let Some(kept) = kept {
            self.last = kept;
            self.terms.retain(|(begins, _)| *begins <= kept);
            while self.recent.back().is_some_and(|entry| entry.index > kept) {
                self.recent.pop_back();
            }
        }
        for entry in entries {
            assert_eq!(entry.index, self.last + 1, "a log has no gap");
            let before = self.terms.last().map_or(self.before.1, |(_, term)| *term);
            assert!(entry.term >= before, "terms never fall along a log");
            if self.terms.last().is_none_or(|(_, term)| *term != entry.term) {
                self.terms.push((entry.index, entry.term));
            }
            self.last = entry.index;
            self.recent.push_back(entry.clone());
        }
        self.assert_whole();
        kept
    }

    /// The last records are in a row up to the last position, and nothing is before the log.
    fn assert_whole(&self) {
        assert!(self.before.0 <= self.last);
        let ends = self.recent.front().zip(self.recent.back());
        assert!(ends.is_none_or(|(first, last)| {
            let len = self.recent.len() as u64;
            first.index > self.before.0
                && last.index == self.last
                && first.index + len == last.index + 1
        }));
    }

    /// Drops records before a position from memory; they must have been applied.
    pub(crate) fn forget_before(&mut self, position: u64) {
        while self.recent.front().is_some_and(|entry| entry.index < position) {
            self.recent.pop_front();
        }
    }

    /// Voters and learners as of the last applied change, for the library.
    pub(crate) fn conf_state(&self) -> ConfState {
        self.membership.conf_state(self.own)
    }

    /// Members of the group as of the last applied change.
    pub(crate) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Membership at a position, encoded; empty for the founders.
    pub(crate) fn group_at(&self, position: u64) -> &[u8] {
        let place = self.groups.partition_point(|(from, _)| *from <= position);
        let known = place.checked_sub(1).and_then(|place| self.groups.get(place));
        known.map_or(&[], |(_, group)| group)
    }

    /// Membership at a position that a snapshot stands for.
    pub(crate) fn membership_of(&self, group: &[u8]) -> Membership {
        Membership::read(group).unwrap_or_else(|| self.founders.clone())
    }

    /// Applies a change of the membership at a position.
    pub(crate) fn change(&mut self, position: u64, group: Vec<u8>, membership: Membership) {
        assert!(position <= self.last, "a change is in the log when it is applied");
        self.groups.push((position, group));
        self.membership = membership;
    }

    /// Replaces the log by a snapshot that stands for everything up to a position.
    pub(crate) fn install(&mut self, position: u64, term: u64, group: Vec<u8>) {
        self.membership = self.membership_of(&group);
        self.groups.clear();
        if !group.is_empty() {
            self.groups.push((position, group));
        }
        (self.before, self.last) = ((position, term), position);
        self.terms.clear();
        self.recent.clear();
        self.read.clear();
        self.assert_whole();
    }

    /// Sets the position behind which reads of the journal begin.
    pub(crate) fn begin_behind(&mut self, position: u64, term: u64) {
        if position <= self.before.0 || position > self.last {
            return;
        }
        self.before = (position, term);
        let begun = self.terms.partition_point(|(begins, _)| *begins <= position + 1);
        self.terms.drain(..begun.saturating_sub(1));
        let told = self.groups.partition_point(|(from, _)| *from <= position);
        self.groups.drain(..told.saturating_sub(1));
        self.forget_before(position + 1);
        self.assert_whole();
    }

    /// Replicas that need records which are no longer here, heard since the last call.
    pub(crate) fn behind(&self) -> BTreeSet<u64> {
        std::mem::take(&mut self.behind.borrow_mut())
    }

    /// Removes and returns the reads of the journal that are needed.
    pub(crate) fn asked(&self) -> Vec<Fetch> {
        std::mem::take(&mut self.asked.borrow_mut().new)
    }

    /// Keeps entries that were read, for the library to look at next.
    pub(crate) fn put_read(&mut self, entries: Vec<Entry>) {
        self.read = entries;
    }

    /// The library's contexts that waited for the read with this number.
    pub(crate) fn waiting_for(&self, number: u64) -> Vec<GetEntriesContext> {
        let mut asked = self.asked.borrow_mut();
        asked.waiting.extract_if(.., |(known, ..)| *known == number).map(|(.., who)| who).collect()
    }

    pub(crate) fn before(&self) -> u64 {
        self.before.0
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    fn ask(&self, from: u64, to: u64, bytes: u64, context: GetEntriesContext) {
        let mut asked = self.asked.borrow_mut();
        if asked.waiting.len() >= ASKED_MAX {
            // The library asks again when it hears of the replica that lags.
            return;
        }
        // Every answer of one that lags makes the library ask; what is being read is read once.
        let under_way = asked.waiting.iter().find(|(_, begins, _)| *begins == from);
        let number = match under_way {
            Some((number, ..)) => *number,
            None => {
                asked.next += 1;
                let number = asked.next;
                asked.new.push(Fetch { number, from, to, bytes });
                number
            }
        };
        asked.waiting.push((number, from, context));
        assert!(asked.waiting.len() <= ASKED_MAX && asked.new.len() <= asked.waiting.len());
    }
}

/// Converts an entry to the library's type.
pub(crate) fn into_library(entry: crate::Entry) -> Entry {
    let crate::Entry { position, term, record, group } = entry;
    let (entry_type, data) = match group.is_empty() {
        true => (EntryType::EntryNormal, record),
        false => (EntryType::EntryConfChangeV2, group.into()),
    };
    Entry { entry_type, index: position, term, data, ..Entry::default() }
}

/// Converts an entry of the library.
pub(crate) fn from_library(entry: Entry) -> crate::Entry {
    let Entry { entry_type, index: position, term, data, .. } = entry;
    match entry_type {
        EntryType::EntryNormal => crate::Entry { position, term, record: data, group: Vec::new() },
        _ => crate::Entry { position, term, record: EntryData::default(), group: data.to_vec() },
    }
}

fn take(entries: impl Iterator<Item = Entry>, bytes: u64) -> Vec<Entry> {
    let mut sum = 0u64;
    let fits = |entry: &Entry| {
        let first = sum == 0;
        sum = sum.saturating_add(24 + entry.data.len() as u64);
        first || sum <= bytes
    };
    entries.take_while(fits).collect()
}

impl raft::Storage for LogView {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let Vote { term, voted_for } = self.vote;
        let hard_state = HardState { term, vote: voted_for, commit: self.committed };
        Ok(RaftState { hard_state, conf_state: self.conf_state() })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.before.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        if low >= high {
            return Ok(Vec::new());
        }
        let bytes = max_size.into().unwrap_or(u64::MAX);
        for kept in [self.recent.front(), self.read.first()] {
            let Some(first) = kept.map(|entry| entry.index).filter(|first| *first <= low) else {
                continue;
            };
            let skip = usize::try_from(low - first).unwrap_or(usize::MAX);
            let below = |entry: &Entry| entry.index < high;
            let found = if self.recent.front().map(|entry| entry.index) == Some(first) {
                let known = self.recent.get(skip);
                assert!(known.is_none_or(|entry| entry.index == low), "places are positions");
                take(self.recent.iter().skip(skip).take_while(|e| below(e)).cloned(), bytes)
            } else {
                take(self.read.iter().skip(skip).take_while(|e| below(e)).cloned(), bytes)
            };
            if !found.is_empty() {
                return Ok(found);
            }
        }
        if context.can_async() {
            self.ask(low, high.saturating_sub(1), bytes, context);
            return Err(Error::Store(StorageError::LogTemporarilyUnavailable));
        }
        Err(Error::Store(StorageError::Unavailable))
    }

    fn term(&self, position: u64) -> raft::Result<u64> {
        if position == self.before.0 {
            return Ok(self.before.1);
        }
        if position < self.before.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        if position > self.last {
            return Err(Error::Store(StorageError::Unavailable));
        }
        let place = self.terms.partition_point(|(begins, _)| *begins <= position);
        let term = place.checked_sub(1).and_then(|place| self.terms.get(place));
        term.map(|(_, term)| *term).ok_or(Error::Store(StorageError::Unavailable))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.before.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last)
    }

    fn snapshot(&self, _: u64, to: u64) -> raft::Result<Snapshot> {
        // The library asks again whenever it hears of whoever needs one. Were it given one, it would
        // send nothing more before it hears that this very one came or failed; so it is sent beside
        // the library, which hears of it as of records that the other one has.
        self.behind.borrow_mut().insert(to);
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}
