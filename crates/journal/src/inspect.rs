//! Reads and checks a journal without changing it.

use std::ops::ControlFlow;

use crate::batch::{Record, records};
use crate::config::Config;
use crate::error::JournalError;
use crate::examine::{Examined, examine};
use crate::layout::{FORMAT, LABEL_LEN};
use crate::recover::{Tail, Truncation, open_segment, segment_numbers, survey};
use crate::register::{MARK, Register, VOTE, Vote};
use crate::snapshot::{self, SnapshotInfo};
use crate::storage::Storage;

/// One segment as it is on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentReport {
    /// Number of the segment, from its file's name.
    pub number: u64,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Position of the first record in the segment.
    pub first_position: u64,
    /// Number of whole frames in the segment.
    pub frames: u64,
    /// Bytes of those frames, padding included.
    pub used: u64,
}

/// What is on the disk, with all of it read and checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    /// Name of the journal, from its files.
    pub id: u64,
    /// Label that says of which kind the records are.
    pub label: [u8; LABEL_LEN],
    /// Newest version of the layout in the log.
    pub format: u32,
    /// Block size: unit of writing, bytes.
    pub block: u32,
    /// First position that can be read.
    pub first: u64,
    /// Position of the last record; 0: the log is empty.
    pub last: u64,
    /// Last position that is known to be committed.
    pub committed: u64,
    /// Term of the last record; 0: the log is empty.
    pub last_term: u64,
    /// Value of the checksum chain after the last record.
    pub chain: u64,
    /// Newest term of the server, and its vote in that term.
    pub vote: Vote,
    /// Reports on the segments, in order.
    pub segments: Vec<SegmentReport>,
    /// Number of records in frames, those that were taken back later included.
    pub records: u64,
    /// Number of truncations whose records are still in the log.
    pub truncations: usize,
    /// A write that was cut short, which opening the journal will remove; `None`: there is none.
    pub tail: Option<Tail>,
    /// Number of copies of watermark and vote that cannot be read, while another copy can.
    pub damaged_copies: u32,
    /// Snapshots that are whole, in ascending order of their positions.
    pub snapshots: Vec<SnapshotInfo>,
    /// Number of snapshots that are damaged.
    pub damaged_snapshots: u32,
}

/// The name of the journal in a folder; `None` when there is none.
///
/// # Errors
/// [`JournalError::Register`] when it can't be read; the disk's.
pub fn identify(storage: &mut impl Storage) -> Result<Option<u64>, JournalError> {
    if !storage.names()?.iter().any(|name| name == MARK) {
        return Ok(None);
    }
    Ok(Some(Register::<3>::open(storage, MARK, None)?.register.journal()))
}

/// What the records of the journal in a folder are; `None` without a segment whose header can be read.
///
/// # Errors
/// The disk's.
pub fn label(storage: &mut impl Storage) -> Result<Option<[u8; LABEL_LEN]>, JournalError> {
    let Some(id) = identify(storage)? else { return Ok(None) };
    for number in segment_numbers(&storage.names()?).into_iter().rev() {
        if let Ok(segment) = open_segment(storage, id, number)? {
            return Ok(Some(segment.header.label));
        }
    }
    Ok(None)
}

/// Reads and checks a whole journal, by what a start does before it changes anything: what it would
/// refuse is refused here.
///
/// # Errors
/// As [`crate::Journal::open`]; nothing is changed in any case.
pub fn verify(storage: &mut impl Storage) -> Result<Verified, JournalError> {
    Ok(check(storage)?.0)
}

/// As [`verify`]; also the truncations whose records are still there.
fn check(storage: &mut impl Storage) -> Result<(Verified, Vec<Truncation>), JournalError> {
    let mut segments: Vec<SegmentReport> = Vec::new();
    let mut count = 0;
    let examined = examine(storage, None, |extent, offset, header, _| {
        let number = extent.segment;
        if segments.last().is_none_or(|last| last.number != number) {
            let first_position = header.first;
            segments.push(SegmentReport { number, bytes: 0, first_position, frames: 0, used: 0 });
        }
        count += u64::from(header.count);
        if let Some(last) = segments.last_mut() {
            last.frames += 1;
            last.used = offset + header.padded(extent.block) as u64;
        }
    })?;
    let Examined { found, snapshots: listed, .. } = examined;
    let first = found.segments.first();
    let report = |segment: &crate::recover::Segment| {
        let number = segment.header.number;
        let counted = segments.iter().find(|counted| counted.number == number);
        SegmentReport {
            number,
            bytes: segment.extent.bytes,
            first_position: segment.header.first_position,
            frames: counted.map_or(0, |counted| counted.frames),
            used: counted.map_or(0, |counted| counted.used),
        }
    };
    let [term, voted_for, _] = found.vote.words;
    let verified = Verified {
        id: found.mark.journal(),
        label: first.map_or([0; LABEL_LEN], |segment| segment.header.label),
        format: found.segments.last().map_or(FORMAT, |segment| segment.header.format),
        block: first.map_or(0, |segment| segment.extent.block as u32),
        first: first.map_or(1, |segment| segment.header.first_position),
        last: found.end.next - 1,
        committed: found.committed,
        last_term: found.terms.last().map_or(0, |(_, term)| *term),
        chain: found.end.chain,
        vote: Vote { term, voted_for },
        segments: found.segments.iter().map(report).collect(),
        records: count,
        truncations: found.truncations.len(),
        tail: found.tail,
        damaged_copies: found.damaged_copies,
        snapshots: listed.whole,
        damaged_snapshots: listed.damaged,
    };
    Ok((verified, found.truncations))
}

/// Shows `visit` every record that counts, from the first to the last or until it breaks; for
/// journals that nobody may change. The journal is read twice: records taken back are known first.
///
/// # Errors
/// As [`verify`].
pub fn export(
    storage: &mut impl Storage,
    visit: impl FnMut(Record<'_>) -> ControlFlow<()>,
) -> Result<(), JournalError> {
    read_all(storage, |_, _| ControlFlow::Continue(()), visit)
}

/// As [`export`]; `begin` is told first what was found, and may break.
///
/// # Errors
/// As [`verify`].
pub fn read_all<S: Storage>(
    storage: &mut S,
    begin: impl FnOnce(&mut S, &Verified) -> ControlFlow<()>,
    mut visit: impl FnMut(Record<'_>) -> ControlFlow<()>,
) -> Result<(), JournalError> {
    let (found, cuts) = check(storage)?;
    let mut going = begin(storage, &found);
    if going.is_break() {
        return Ok(());
    }
    survey(storage, None, |_, _, header, payload| {
        let gone = |position: u64| {
            cuts.iter().any(|cut: &Truncation| header.frame < cut.frame && position > cut.kept)
        };
        for record in records(header, payload).flatten() {
            if going.is_continue() && !gone(record.position) {
                going = visit(record);
            }
        }
    })?;
    Ok(())
}

/// The newest snapshot that is whole at a position or before, with its bytes; of the journal with this
/// name and label. One that was installed counts from the moment on at which the log begins behind it.
///
/// # Errors
/// The disk's, "it is not there" among them when it goes while it is looked for.
pub fn newest_snapshot(
    storage: &mut impl Storage,
    (id, label): (u64, [u8; LABEL_LEN]),
    to: u64,
) -> Result<Option<(SnapshotInfo, Vec<u8>)>, JournalError> {
    let mut stands = None;
    for number in segment_numbers(&storage.names()?).into_iter().rev() {
        let Ok(segment) = open_segment(storage, id, number)? else { continue };
        storage.close(segment.extent.file);
        if segment.header.installed {
            stands = Some(segment.header.first_position - 1);
            break;
        }
    }
    snapshot::newest(storage, &Config::new(id, label), (to, stands))
}

/// What the file of the watermark says now: everything up to there is committed, and perhaps more, as
/// frames may say. `None` when there is no journal.
///
/// # Errors
/// [`JournalError::Register`] when it can't be read; the disk's.
pub fn watermark(storage: &mut impl Storage) -> Result<Option<u64>, JournalError> {
    if !storage.names()?.iter().any(|name| name == MARK) {
        return Ok(None);
    }
    let mark = Register::<3>::open(storage, MARK, None)?.register;
    let [committed, ..] = mark.words;
    mark.close(storage);
    Ok(Some(committed))
}

/// Makes the lost file of term and vote again for a server that never voted, as the only one of its log.
/// Whoever calls it has to know that; nothing else is changed.
///
/// # Errors
/// [`JournalError::Position`] when the file is there; the disk's.
pub fn restore_vote(storage: &mut impl Storage) -> Result<(), JournalError> {
    if storage.names()?.iter().any(|name| name == VOTE) {
        return Err(JournalError::Position(0));
    }
    let id = Register::<3>::open(storage, MARK, None)?.register.journal();
    Register::create(storage, VOTE, id, [0; 3]).map_err(JournalError::full)?;
    Ok(())
}
