//! What segments hold that will not change any more, written down whenever one is begun: whoever
//! knows what their records say need not wait at a start until they are read, and has them read
//! through beside its work ([`Journal::read_on`]).
//!
//! File `known`, rewritten whole under another name and renamed: magic, format, CRC-32 of the rest, then
//! journal, segment, frame, position and chain that come next, counts of terms, of the group's own
//! records and of truncations, and these. It is a help: whatever is wrong with it, the log is read.

use crate::Journal;
use crate::buffer::AlignedBuf;
use crate::error::{Damage, JournalError};
use crate::layout::{FrameHeader, FrameKind, GROUP_MAX, block_crc, put, round_up, u32_at, u64_at};
use crate::recover::{End, Segment, Truncation, forget_before};
use crate::scan::{Found, Scanner};
use crate::storage::{DiskErrorKind, Storage};
use crate::whole;

const NAME: &str = "known";
const MAGIC: &[u8; 8] = b"FBKNOWN\0";
const FORMAT: u32 = 1;
/// Offset of the checksum in the file, bytes.
const CRC: usize = 12;
const HEADER: usize = 80;
/// Longest file of facts that is read, bytes.
const BYTES_MAX: u64 = 1 << 26;

/// Facts about the log before a segment, which will not change any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    /// The segment, and what its header has to say.
    pub(crate) segment: u64,
    pub(crate) end: End,
    pub(crate) terms: Vec<(u64, u64)>,
    pub(crate) groups: Vec<(u64, Vec<u8>)>,
    pub(crate) truncations: Vec<Truncation>,
}

impl Known {
    fn write(&self, journal: u64, block: usize) -> AlignedBuf {
        let mut bytes = vec![0; HEADER];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &FORMAT.to_le_bytes());
        let End { frame, next, chain, .. } = self.end;
        let words = [journal, self.segment, frame, next, chain].into_iter();
        let counts = [self.terms.len(), self.groups.len(), self.truncations.len()];
        for (word, at) in words.chain(counts.map(|n| n as u64)).zip((16..).step_by(8)) {
            put(&mut bytes, at, &word.to_le_bytes());
        }
        let pairs = self.terms.iter().copied();
        let cuts = self.truncations.iter().map(|cut| (cut.frame, cut.kept));
        for (a, b) in pairs.chain(cuts) {
            bytes.extend_from_slice(&a.to_le_bytes());
            bytes.extend_from_slice(&b.to_le_bytes());
        }
        for (position, group) in &self.groups {
            bytes.extend_from_slice(&position.to_le_bytes());
            bytes.extend_from_slice(&(group.len() as u64).to_le_bytes());
            bytes.extend_from_slice(group);
        }
        bytes.resize(round_up(bytes.len(), block), 0);
        let crc = block_crc(&bytes, CRC);
        put(&mut bytes, CRC, &crc.to_le_bytes());
        let mut buffer = AlignedBuf::with_capacity(bytes.len());
        buffer.grow(bytes.len()).copy_from_slice(&bytes);
        buffer
    }

    fn read(bytes: &[u8], journal: u64) -> Option<Known> {
        let sealed = bytes.len() >= HEADER && u32_at(bytes, CRC) == block_crc(bytes, CRC);
        let ours = bytes.starts_with(MAGIC) && u32_at(bytes, 8) == FORMAT;
        if !sealed || !ours || u64_at(bytes, 16) != journal {
            return None;
        }
        let mut rest = bytes.get(HEADER..)?;
        let mut word = || {
            let (word, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u64::from_le_bytes(*word))
        };
        let [terms, groups, cuts] = [56, 64, 72].map(|at| u64_at(bytes, at));
        let mut pairs = |count: u64| -> Option<Vec<(u64, u64)>> {
            (0..count).map(|_| Some((word()?, word()?))).collect()
        };
        let (terms, cuts) = (pairs(terms)?, pairs(cuts)?);
        let mut told = Vec::new();
        for _ in 0..groups {
            let (position, after) = rest.split_first_chunk()?;
            let (len, after) = after.split_first_chunk()?;
            let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
            let (group, after) = after.split_at_checked(len).filter(|_| len <= GROUP_MAX)?;
            told.push((u64::from_le_bytes(*position), group.to_vec()));
            rest = after;
        }
        let end = End {
            offset: 0,
            frame: u64_at(bytes, 32),
            next: u64_at(bytes, 40),
            chain: u64_at(bytes, 48),
        };
        let truncations =
            cuts.into_iter().map(|(frame, kept)| Truncation { frame, kept }).collect();
        Some(Known { segment: u64_at(bytes, 24), end, terms, groups: told, truncations })
    }

    /// The facts that were written last for the journal; `None`: they cannot be read.
    pub(crate) fn find(storage: &mut impl Storage, journal: u64) -> Option<Known> {
        let (file, len) = storage.open(NAME).ok()?;
        let mut buffer = AlignedBuf::default();
        // What was cut elsewhere can't be read in whole blocks.
        let fits = len <= BYTES_MAX && len.is_multiple_of(crate::layout::BLOCK_MIN as u64);
        let read = fits.then(|| {
            buffer.resize(len as usize);
            storage.read(file, 0, buffer.bytes_mut())
        });
        storage.close(file);
        read?.ok()?;
        Known::read(buffer.bytes(), journal)
    }

    /// Whether the segment that it stands before is there and goes on from it; `others` are those that
    /// need not be read then.
    pub(crate) fn fits<'a>(
        &self,
        own: Option<&Segment>,
        mut others: impl Iterator<Item = Option<&'a Segment>>,
    ) -> bool {
        let goes_on = own.is_some_and(|own| End { offset: 0, ..own.end() } == self.end);
        let goes_on = goes_on && self.is_in_order();
        let before = |other: &Segment| other.header.first_position <= self.end.next;
        goes_on && others.all(|other| other.is_some_and(before))
    }

    /// Whether the facts are in order and all lie before the segment.
    fn is_in_order(&self) -> bool {
        let End { next, frame, .. } = self.end;
        let Known { terms, groups, truncations, .. } = self;
        terms.is_sorted_by(|a, b| a.0 < b.0)
            && groups.is_sorted_by(|a, b| a.0 < b.0)
            && truncations.is_sorted_by(|a, b| a.frame < b.frame && a.kept < b.kept)
            && terms.last().is_none_or(|(begins, _)| *begins < next)
            && groups.last().is_none_or(|(position, _)| *position < next)
            && truncations.last().is_none_or(|cut| cut.frame < frame)
    }

    /// Leaves out what a log does not say that begins with this segment.
    pub(crate) fn since(mut self, first: &Segment) -> Known {
        let (position, frame) = (first.header.first_position, first.header.first_frame);
        forget_before(&mut self.terms, position);
        if let Some((begins, _)) = self.terms.first_mut() {
            *begins = position.max(*begins);
        }
        self.groups.retain(|(at, _)| *at >= position);
        self.truncations.retain(|cut| cut.frame >= frame);
        self
    }
}

/// Where a frame ends, if it is the next one.
pub(crate) fn behind(end: End, frame: &FrameHeader, block: usize) -> Option<End> {
    let next = match frame.kind {
        FrameKind::Records => Some(end.next)
            .filter(|next| *next == frame.first && frame.chain_before == end.chain)
            .and_then(|next| next.checked_add(u64::from(frame.count))),
        FrameKind::Truncation => {
            Some(frame.first).filter(|first| *first >= 1 && *first <= end.next)
        }
    };
    next.filter(|_| frame.frame == end.frame).map(|next| End {
        offset: end.offset + frame.padded(block) as u64,
        frame: frame.frame + 1,
        next,
        chain: frame.chain_after,
    })
}

/// Segments that were not read at the start and are still to be read.
pub(crate) struct Unread {
    /// The segment that is being read, and the offset reached.
    segment: u64,
    end: Option<End>,
    /// Number of the segment at which reading ends.
    until: u64,
    scanner: Scanner,
}

impl Unread {
    /// All segments with a number below `until`.
    pub(crate) fn before(until: u64) -> Unread {
        Unread { segment: 0, end: None, until, scanner: Scanner::new() }
    }
}

impl<S: Storage> Journal<S> {
    /// Number of segments that were left out at the start ([`crate::Config::read_later`]) and have
    /// not been read since.
    pub fn unread(&self) -> usize {
        let Some(unread) = &self.unread else { return 0 };
        let number =
            |segment: &&Segment| (unread.segment..unread.until).contains(&segment.header.number);
        self.segments.iter().filter(number).count()
    }

    /// Reads on in the segments that were not read at the start, some `bytes` of them, as the start
    /// would have; true when there is nothing left to read.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] for damage, the disk's; only [`JournalError::Closed`] follows.
    pub fn read_on(&mut self, bytes: u64) -> Result<bool, JournalError> {
        if self.closed {
            return Err(JournalError::Closed);
        }
        let Some(mut unread) = self.unread.take() else { return Ok(true) };
        let read = self.read_some(&mut unread, bytes);
        if !self.close_on(read)? {
            self.unread = Some(unread);
        }
        Ok(self.unread.is_none())
    }

    fn read_some(&mut self, unread: &mut Unread, bytes: u64) -> Result<bool, JournalError> {
        let mut left = bytes;
        loop {
            // Segments may have been given up meanwhile.
            let at = self.segments.partition_point(|one| one.header.number < unread.segment);
            let Some(segment) = self.segments.get(at).copied() else { return Ok(true) };
            let number = segment.header.number;
            let known = unread.end.filter(|_| number == unread.segment);
            if number >= unread.until {
                return Ok(true);
            }
            let mut end = known.unwrap_or(segment.end());
            let found = unread.scanner.frame(&mut self.storage, &segment.extent, end.offset)?;
            let damage = match found {
                Found::Frame(frame, _) => match behind(end, &frame, segment.extent.block) {
                    Some(next) => {
                        left = left.saturating_sub(next.offset - end.offset);
                        end = next;
                        None
                    }
                    None => Some(Damage::Order),
                },
                Found::Bad(damage) => Some(damage),
                Found::End => Some(Damage::Order),
            };
            (unread.segment, unread.end) = (number, Some(end));
            if let Some(damage) = damage {
                let next = self.segments.get(at + 1).map(Segment::end);
                // Its frames end where the next segment's begin, or too early.
                if next.map(|next| End { offset: end.offset, ..next }) != Some(end) {
                    return Err(JournalError::Corrupt {
                        segment: number,
                        offset: end.offset,
                        damage,
                        position: end.next,
                        committed: self.committed,
                    });
                }
                (unread.segment, unread.end) = (number + 1, None);
            }
            if left == 0 {
                return Ok(false);
            }
        }
    }

    /// Writes the facts before the segment that was just begun; without room on the disk they are
    /// not written.
    pub(crate) fn write_known(&mut self) -> Result<(), JournalError> {
        let Some(segment) = self.segments.last().filter(|_| self.config.read_later) else {
            return Ok(());
        };
        let end = End { offset: 0, ..segment.end() };
        let known = Known {
            segment: segment.header.number,
            end,
            terms: self.terms.iter().copied().filter(|(begins, _)| *begins < end.next).collect(),
            groups: self.groups.iter().filter(|(at, _)| *at < end.next).cloned().collect(),
            truncations: self.truncations.clone(),
        };
        let buffer = known.write(self.config.id, self.config.block);
        let put = whole::put(&mut self.storage, NAME, buffer.len() as u64, |storage, file| {
            storage.write(file, 0, buffer.bytes())
        });
        match put {
            Err(JournalError::Full(e) | JournalError::Disk(e)) if e.kind == DiskErrorKind::Full => {
                Ok(())
            }
            put => {
                self.storage.close(put?);
                Ok(())
            }
        }
    }
}
