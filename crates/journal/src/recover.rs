//! What stands on the disk: every segment from the first to the last frame, without changing it.
//!
//! Where the frames end, the watermark decides. At or below it, or before another whole frame, the
//! end is damage: frames are written one at a time, each after the one before is durable, so a
//! whole later frame proves that this one was. Above it, it is a write that was cut short.

use crate::batch::records;
use crate::config::Config;
use crate::error::{Damage, JournalError};
use crate::known::{Known, behind};
use crate::layout::{FrameHeader, FrameKind, SegmentHeader, SegmentRead, number_of, segment_name};
use crate::register::{MARK, Register, VOTE, Vote};
use crate::scan::{Extent, Found, Scanner};
use crate::storage::Storage;

/// First bytes of a segment that say how large its blocks are.
const PROBE: usize = crate::layout::BLOCK_MIN;

/// A write that was cut short by a crash, and has been removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    /// Number of the segment that the write went to.
    pub segment: u64,
    /// Offset at which it began, bytes.
    pub offset: u64,
    /// Number of bytes that it covered.
    pub bytes: u64,
    /// In what way the write was incomplete.
    pub damage: Damage,
}

/// What opening a journal has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// Whether the journal was made by this opening.
    pub created: bool,
    /// First position that can be read.
    pub first: u64,
    /// Position of the last record; 0: the log is empty.
    pub last: u64,
    /// Last position that was known to be committed.
    pub committed: u64,
    /// Newest term of the server, and its vote in that term.
    pub vote: Vote,
    /// Number of times the journal was opened, this time included.
    pub lives: u64,
    /// Whether the folder is, or may be, an older copy of itself ([`crate::Journal::is_set_back`]).
    pub set_back: bool,
    /// A write that was cut short and has been removed; `None`: there was none.
    pub tail: Option<Tail>,
    /// Number of copies of watermark and vote that could not be read, while another copy could.
    pub damaged_copies: u32,
    /// Number of frames that were read.
    pub frames: u64,
    /// Number of segments of the log.
    pub segments: u64,
    /// Number of segments that were not read ([`Config::read_later`]).
    pub unread: u64,
    /// Position of the newest whole snapshot; `None`: there is none.
    pub snapshot: Option<u64>,
    /// Number of snapshots that are damaged.
    pub damaged_snapshots: u32,
}

/// A segment of the log, with the header it has on the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) extent: Extent,
}

impl Segment {
    /// Where the segment's first frame has to be, and what it has to continue.
    pub(crate) fn end(&self) -> End {
        End {
            offset: self.extent.block as u64,
            frame: self.header.first_frame,
            next: self.header.first_position,
            chain: self.header.chain,
        }
    }
}

/// An uncommitted suffix was taken back: earlier frames' records after `kept` don't count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Truncation {
    pub(crate) frame: u64,
    pub(crate) kept: u64,
}

/// Where the next frame goes and what it must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) offset: u64,
    pub(crate) frame: u64,
    pub(crate) next: u64,
    pub(crate) chain: u64,
}

/// Everything that was found in a folder.
pub(crate) struct Survey {
    pub(crate) mark: Register,
    pub(crate) vote: Register,
    pub(crate) damaged_copies: u32,
    pub(crate) segments: Vec<Segment>,
    /// Segments that an installed snapshot stands for, and that are still there.
    pub(crate) left_over: Vec<u64>,
    pub(crate) truncations: Vec<Truncation>,
    /// Each term with the first position that has it.
    pub(crate) terms: Vec<(u64, u64)>,
    /// Records of the group's own, with their positions.
    pub(crate) groups: Vec<(u64, Vec<u8>)>,
    pub(crate) end: End,
    pub(crate) committed: u64,
    pub(crate) frames: u64,
    pub(crate) tail: Option<Tail>,
    /// Number of the segment before which nothing was read; `None`: all was read.
    pub(crate) unread: Option<u64>,
}

/// Numbers of the segments that are there, in order.
pub(crate) fn segment_numbers(names: &[String]) -> Vec<u64> {
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_of(name, "log-")).collect();
    numbers.sort_unstable();
    numbers
}

/// Reads everything, but for what [`Config::read_later`] says. `visit` sees each good frame with its
/// segment and its offset.
pub(crate) fn survey(
    storage: &mut impl Storage,
    config: Option<&Config>,
    mut visit: impl FnMut(&Extent, u64, &FrameHeader, &[u8]),
) -> Result<Survey, JournalError> {
    let names = storage.names()?;
    let mark = Register::<3>::open(storage, MARK, config.map(|config| config.id))?;
    let journal = mark.register.journal();
    let vote = Register::open(storage, VOTE, Some(journal))?;
    let [committed, ..] = mark.register.words;
    let mut survey = Survey {
        mark: mark.register,
        vote: vote.register,
        damaged_copies: mark.damaged + vote.damaged,
        segments: Vec::new(),
        left_over: Vec::new(),
        truncations: Vec::new(),
        terms: Vec::new(),
        groups: Vec::new(),
        end: End { offset: 0, frame: 1, next: 1, chain: 0 },
        committed,
        frames: 0,
        tail: None,
        unread: None,
    };
    let numbers = segment_numbers(&names);
    if numbers.is_empty() && committed > 0 {
        return Err(survey.refuse(1, 0, Damage::Missing));
    }
    // The watermark's file names the last segment that there was; 0: of an earlier version.
    let last = numbers.last().copied().unwrap_or(0);
    let [_, _, made] = survey.mark.words;
    let mut opened = open_counted(storage, journal, &numbers)?;
    survey.left_over = numbers.get(..numbers.len() - opened.len()).unwrap_or(&[]).to_vec();
    let later = config.is_some_and(|config| config.read_later);
    let known = later.then(|| Known::find(storage, journal)).flatten();
    let mut known = known.and_then(|known| survey.trust(known, &opened));
    let mut scanner = Scanner::new();
    while let Some((number, segment)) = opened.pop() {
        let due = survey.segments.last().map_or(number, |last| last.header.number + 1);
        if number != due {
            return Err(survey.refuse(due, 0, Damage::Missing));
        }
        let segment = match segment {
            Ok(segment) => segment,
            Err(damage) => return Err(survey.refuse(number, 0, damage)),
        };
        if config.is_some_and(|config| config.label != segment.header.label) {
            return Err(JournalError::Foreign("label"));
        }
        if survey.unread.is_some_and(|unread| number < unread) {
            survey.committed = survey.committed.max(segment.header.committed);
            survey.segments.push(segment);
            continue;
        }
        if let Some(known) = known.take() {
            survey.take_over(known);
        }
        let ends = opened.is_empty();
        if ends && last < made {
            // All that is there is read first, so that the place is told where it ends.
            survey.add(storage, &mut scanner, segment, false, &mut visit)?;
            break;
        }
        survey.add(storage, &mut scanner, segment, ends, &mut visit)?;
    }
    if last < made {
        return Err(survey.refuse(last + 1, 0, Damage::Missing));
    }
    Ok(survey)
}

/// Number of a segment, and its header or what is wrong with it.
type Opened = (u64, Result<Segment, Damage>);

/// Opens segments from the last one back to the one behind a snapshot from elsewhere, or the first.
fn open_counted(
    storage: &mut impl Storage,
    journal: u64,
    numbers: &[u64],
) -> Result<Vec<Opened>, JournalError> {
    let mut opened = Vec::with_capacity(numbers.len());
    for number in numbers.iter().rev() {
        let segment = open_segment(storage, journal, *number)?;
        let begins = segment.as_ref().is_ok_and(|segment| segment.header.installed);
        opened.push((*number, segment));
        if begins {
            break;
        }
    }
    Ok(opened)
}

/// Opens the file of a segment and reads its header.
pub(crate) fn open_segment(
    storage: &mut impl Storage,
    journal: u64,
    number: u64,
) -> Result<Result<Segment, Damage>, JournalError> {
    let name = segment_name(number);
    let (file, len) = storage.open(&name)?;
    let mut buffer = crate::buffer::AlignedBuf::with_capacity(PROBE);
    buffer.resize(crate::layout::BLOCK_MAX.min(usize::try_from(len).unwrap_or(usize::MAX)));
    storage.read(file, 0, buffer.bytes_mut())?;
    let Some(block) = SegmentHeader::block_of(buffer.bytes()) else {
        return Ok(Err(Damage::Header));
    };
    match SegmentHeader::read(buffer.bytes().get(..block).unwrap_or(&[])) {
        SegmentRead::Format(format) => Err(JournalError::Format(name, format)),
        SegmentRead::Bad => Ok(Err(Damage::Header)),
        SegmentRead::Good(header) if header.number != number || header.journal != journal => {
            Ok(Err(Damage::Header))
        }
        // A file that was cut by somebody else is damaged where it ends.
        SegmentRead::Good(header) => {
            let bytes = header.bytes.min(len - len % block as u64);
            let extent = Extent { file, journal, segment: number, block, bytes };
            Ok(Ok(Segment { header, extent }))
        }
    }
}

impl Survey {
    fn refuse(&self, segment: u64, offset: u64, damage: Damage) -> JournalError {
        let (position, committed) = (self.end.next, self.committed);
        JournalError::Corrupt { segment, offset, damage, position, committed }
    }

    /// Whether the segments that something is known of are there with what follows them; they are
    /// not read then.
    fn trust(&mut self, known: Known, opened: &[Opened]) -> Option<Known> {
        let own = opened.iter().position(|(number, _)| *number == known.segment)?;
        let segment = |at: usize| opened.get(at).and_then(|(_, segment)| segment.as_ref().ok());
        let others = || (own + 1..opened.len()).map(segment);
        let first = others().next_back()??;
        if !known.fits(segment(own), others()) {
            return None;
        }
        self.unread = Some(known.segment);
        Some(known.since(first))
    }

    /// Takes over facts about the part of the log that was not read.
    fn take_over(&mut self, known: Known) {
        self.end = known.end;
        (self.terms, self.groups, self.truncations) =
            (known.terms, known.groups, known.truncations);
    }

    /// Reads the frames of one segment.
    fn add(
        &mut self,
        storage: &mut impl Storage,
        scanner: &mut Scanner,
        segment: Segment,
        last: bool,
        visit: &mut impl FnMut(&Extent, u64, &FrameHeader, &[u8]),
    ) -> Result<(), JournalError> {
        let (header, extent) = (segment.header, segment.extent);
        let end = segment.end();
        if let Some(former) = self.segments.last() {
            // The one before ended where this one began, or it ended too early.
            let whole = End { offset: self.end.offset, ..end } == self.end;
            if !whole {
                return Err(self.refuse(former.header.number, self.end.offset, Damage::Order));
            }
        }
        self.end = end;
        self.committed = self.committed.max(header.committed);
        self.segments.push(segment);
        let damage = loop {
            let at = self.end.offset;
            match scanner.frame(storage, &extent, at)? {
                Found::End => break None,
                Found::Bad(damage) => break Some(damage),
                Found::Frame(frame, payload) => {
                    if !self.follow(&frame, extent.block) {
                        break Some(Damage::Order);
                    }
                    for record in records(&frame, payload).flatten() {
                        note_term(&mut self.terms, record.position, record.term);
                        if !record.group.is_empty() {
                            self.groups.push((record.position, record.group.to_vec()));
                        }
                    }
                    visit(&extent, at, &frame, payload);
                }
            }
        };
        match damage {
            Some(damage) if last => self.judge(storage, scanner, &extent, damage),
            None if last && self.committed >= self.end.next => {
                Err(self.refuse(header.number, self.end.offset, Damage::NoFrame))
            }
            _ => Ok(()),
        }
    }

    /// Counts a frame if it is the one that has to come next; false if it is not.
    fn follow(&mut self, frame: &FrameHeader, block: usize) -> bool {
        let Some(end) = behind(self.end, frame, block) else { return false };
        if frame.kind == FrameKind::Truncation {
            note_truncation(&mut self.truncations, frame.frame, frame.first - 1);
            self.terms.retain(|(begins, _)| *begins < frame.first);
            self.groups.retain(|(position, _)| *position < frame.first);
        }
        self.end = end;
        self.committed = self.committed.max(frame.committed);
        self.frames += 1;
        true
    }

    /// The last segment has no good frame where the next should be: nothing, a torn write, or
    /// damage.
    fn judge(
        &mut self,
        storage: &mut impl Storage,
        scanner: &mut Scanner,
        extent: &Extent,
        damage: Damage,
    ) -> Result<(), JournalError> {
        let (segment, offset) = (extent.segment, self.end.offset);
        let rest = scanner.rest(storage, extent, offset, self.end.frame)?;
        if self.committed >= self.end.next || rest.frame_at.is_some() {
            let nothing = rest.frame_at.is_none() && rest.used_to.is_none();
            let damage = if nothing { Damage::Ended } else { damage };
            return Err(self.refuse(segment, offset, damage));
        }
        let bytes = rest.used_to.map(|to| to - offset);
        self.tail = bytes.map(|bytes| Tail { segment, offset, bytes, damage });
        Ok(())
    }
}

/// Adds a record's term to where each term begins.
pub(crate) fn note_term(terms: &mut Vec<(u64, u64)>, position: u64, term: u64) {
    if terms.last().is_none_or(|(_, known)| *known != term) {
        assert!(terms.last().is_none_or(|(begins, _)| *begins < position), "terms are in order");
        terms.push((position, term));
    }
}

/// Forgets what holds from some position on and no longer at `position`, where something later does.
pub(crate) fn forget_before<T>(known: &mut Vec<(u64, T)>, position: u64) {
    let begun = known.partition_point(|(begins, _)| *begins <= position);
    known.drain(..begun.saturating_sub(1));
}

/// Adds a truncation; earlier ones that it makes needless go.
pub(crate) fn note_truncation(all: &mut Vec<Truncation>, frame: u64, kept: u64) {
    all.retain(|earlier| earlier.kept < kept);
    assert!(all.last().is_none_or(|earlier| earlier.frame < frame), "frames are in order");
    all.push(Truncation { frame, kept });
}
