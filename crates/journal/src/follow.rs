//! Following a journal that somebody else is writing: its committed records, as they come.
//!
//! Contract:
//! - [`Follower::poll`] shows the next committed records, in order, each once, and never one that
//!   may still be taken back: a record counts when the watermark's file, or a later frame, says so.
//! - Nothing is changed and nobody is waited for: the writer does not know of it. A frame that is
//!   not whole yet is looked at again with the next poll. With a watermark beyond it, it is damage.
//! - Of a journal that is the only copy whatever is whole counts, for who asks for that
//!   ([`Follower::take_all`]): the writer takes it for committed when it opens it next.
//! - Memory: one window to read through, and records that are not committed yet. When those reach
//!   [`HELD_MAX`] nothing more is read: no exchange lets so much wait.
//!
//! Not checked here: whether older parts are whole ([`crate::verify`] does).

use std::collections::VecDeque;

use crate::batch::{Record, records};
use crate::error::{Damage, JournalError};
use crate::layout::{FrameHeader, FrameKind, LABEL_LEN};
use crate::recover::{End, Segment, open_segment, segment_numbers};
use crate::register::{MARK, Register};
use crate::scan::{Found, Scanner};
use crate::storage::{DiskErrorKind, Storage};

/// Most bytes of records that are held because they are not known to be committed yet.
pub const HELD_MAX: usize = 16 << 20;

/// A record that was read and has not been shown yet.
struct Held {
    position: u64,
    term: u64,
    group: bool,
    bytes: Box<[u8]>,
}

/// Reads a journal while another process writes it; the module documentation has the contract.
pub struct Follower<S> {
    storage: S,
    scanner: Scanner,
    mark: Register,
    label: [u8; LABEL_LEN],
    segment: Option<Segment>,
    at: End,
    committed: u64,
    shown: u64,
    held: VecDeque<Held>,
    held_bytes: usize,
    all: bool,
}

impl<S: Storage> Follower<S> {
    /// Follows the journal in a folder from the record after this position on (0: from the first).
    ///
    /// # Errors
    /// [`JournalError::Position`] when that record is kept no more, [`JournalError::Register`] and
    /// the disk's "it is not there" when there is no journal yet; those of reading.
    pub fn open(mut storage: S, after: u64) -> Result<Follower<S>, JournalError> {
        let mark = Register::<3>::open(&mut storage, MARK, None)?.register;
        let (journal, [committed, ..]) = (mark.journal(), mark.words);
        let mut segment: Option<Segment> = None;
        for number in segment_numbers(&storage.names()?).into_iter().rev() {
            let found = match open_segment(&mut storage, journal, number) {
                Ok(Ok(found)) => found,
                Ok(Err(damage)) => return Err(refuse(number, 0, damage, after + 1, committed)),
                // The oldest go while it is looked at.
                Err(JournalError::Disk(e)) if e.kind == DiskErrorKind::Missing => break,
                Err(error) => return Err(error),
            };
            if let Some(later) = segment.replace(found) {
                storage.close(later.extent.file);
            }
            if found.header.first_position <= after + 1 || found.header.installed {
                break;
            }
        }
        if segment.is_some_and(|segment| segment.header.first_position > after + 1) {
            return Err(JournalError::Position(after + 1));
        }
        let label = segment.map_or([0; LABEL_LEN], |segment| segment.header.label);
        let none = End { offset: 0, frame: 1, next: 1, chain: 0 };
        Ok(Follower {
            storage,
            scanner: Scanner::new(),
            mark,
            label,
            at: segment.map_or(none, |segment| segment.end()),
            committed: segment.map_or(0, |segment| segment.header.committed),
            segment,
            shown: after,
            held: VecDeque::new(),
            held_bytes: 0,
            all: false,
        })
    }

    /// Treats every whole record as committed. For a journal that is the only copy
    /// ([`crate::Config::alone`]): in others, records that are not committed may be taken back.
    pub fn take_all(&mut self) {
        self.all = true;
    }

    /// Name of the journal, from its files.
    pub fn id(&self) -> u64 {
        self.mark.journal()
    }

    /// Label of the journal's records; zeros before the first segment exists.
    pub fn label(&self) -> [u8; LABEL_LEN] {
        self.label
    }

    /// Last position that is known to be committed, shown or not.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Last position that was read, committed or not.
    pub fn read_to(&self) -> u64 {
        self.at.next - 1
    }

    /// Last position that was shown; 0: none.
    pub fn shown(&self) -> u64 {
        self.shown
    }

    /// Shows `visit` the next committed records, at most so many; says how many there were. None
    /// does not mean that there is no more, only that it is not known to be committed yet.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] when what is committed can't be read; the disk's. It may be tried
    /// again, or opened again at the position shown last.
    pub fn poll(
        &mut self,
        most: usize,
        mut visit: impl FnMut(Record<'_>),
    ) -> Result<usize, JournalError> {
        // First, so that whatever it says is there must be found.
        self.mark.reread(&mut self.storage)?;
        self.scanner.forget();
        let mut count = 0;
        while count < most {
            self.note_mark();
            let committed = self.committed;
            let Some(next) = self.held.pop_front_if(|first| first.position <= committed) else {
                if self.held_bytes >= HELD_MAX || !self.advance()? {
                    break;
                }
                continue;
            };
            assert!(self.held_bytes >= next.bytes.len(), "what is held is counted");
            assert_eq!(next.position, self.shown + 1, "each record is shown once, in order");
            self.held_bytes -= next.bytes.len();
            self.shown = next.position;
            count += 1;
            visit(Record::of(next.position, next.term, next.group, &next.bytes));
        }
        assert!(!self.held.is_empty() || self.held_bytes == 0, "what is held is counted");
        Ok(count)
    }

    /// The watermark counts once all frames before it are read: one of them may take records back. And only
    /// in the segment that was the last then: that one may begin behind a snapshot which took the place of
    /// what stands before it, with what others never had.
    fn note_mark(&mut self) {
        let [committed, frame, segment] = self.mark.words;
        let read = self.segment.map_or(0, |own| own.header.number);
        if self.at.frame >= frame && read >= segment {
            self.committed = self.committed.max(committed);
        }
        if self.all {
            self.committed = self.committed.max(self.read_to());
        }
    }

    /// Reads one more frame; false when there is none yet.
    fn advance(&mut self) -> Result<bool, JournalError> {
        let Some(segment) = self.segment else { return self.next_segment(1) };
        let (extent, at) = (segment.extent, self.at);
        let damage = match self.scanner.frame(&mut self.storage, &extent, at.offset)? {
            Found::Frame(header, payload) if follows(&header, &at) => {
                if header.kind == FrameKind::Truncation {
                    self.held.retain(|held| held.position < header.first);
                    self.held_bytes = self.held.iter().map(|held| held.bytes.len()).sum();
                }
                let shown = self.shown;
                for record in records(&header, payload).flatten().filter(|r| r.position > shown) {
                    let (position, term) = (record.position, record.term);
                    let (group, bytes) = record.content();
                    self.held_bytes += bytes.len();
                    self.held.push_back(Held { position, term, group, bytes: bytes.into() });
                }
                self.committed = self.committed.max(header.committed);
                self.at = End {
                    offset: at.offset + header.padded(extent.block) as u64,
                    frame: at.frame + 1,
                    next: header.first.saturating_add(u64::from(header.count)),
                    chain: header.chain_after,
                };
                return Ok(true);
            }
            Found::Frame(..) => Damage::Order,
            Found::Bad(damage) => damage,
            Found::End => Damage::Missing,
        };
        if self.next_segment(extent.segment + 1)? {
            return Ok(true);
        }
        let [marked, frame, _] = self.mark.words;
        if self.committed >= at.next || marked >= at.next || frame > at.frame {
            let committed = self.committed.max(marked);
            return Err(refuse(extent.segment, at.offset, damage, at.next, committed));
        }
        Ok(false)
    }

    /// Opens the segment with this number and goes on in it, if it exists.
    fn next_segment(&mut self, number: u64) -> Result<bool, JournalError> {
        let next = match open_segment(&mut self.storage, self.mark.journal(), number) {
            Err(JournalError::Disk(error)) if error.kind == DiskErrorKind::Missing => {
                let names = segment_numbers(&self.storage.names()?);
                if names.first().is_some_and(|first| *first > number) {
                    return Err(JournalError::Position(self.at.next));
                }
                return Ok(false);
            }
            found => found?,
        };
        let refused = |damage, next, committed| Err(refuse(number, 0, damage, next, committed));
        let next = match next {
            Ok(next) => next,
            Err(damage) => return refused(damage, self.at.next, self.committed),
        };
        let goes_on = End { offset: self.at.offset, ..next.end() } == self.at;
        let begins = next.header.first_position;
        let lacks = self.segment.is_none() && begins > self.shown + 1;
        if lacks || self.segment.is_some() && !goes_on && next.header.installed {
            return Err(JournalError::Position(self.at.next));
        }
        if self.segment.is_some() && !goes_on {
            return refused(Damage::Order, self.at.next, self.committed);
        }
        if let Some(former) = self.segment.replace(next) {
            self.storage.close(former.extent.file);
        }
        self.label = next.header.label;
        self.at = next.end();
        self.committed = self.committed.max(next.header.committed);
        Ok(true)
    }
}

/// Whether a frame is the one that has to come next.
fn follows(header: &FrameHeader, at: &End) -> bool {
    let fits = match header.kind {
        FrameKind::Records => header.first == at.next && header.chain_before == at.chain,
        FrameKind::Truncation => header.first >= 1 && header.first <= at.next,
    };
    header.frame == at.frame && fits
}

fn refuse(
    segment: u64,
    offset: u64,
    damage: Damage,
    position: u64,
    committed: u64,
) -> JournalError {
    JournalError::Corrupt { segment, offset, damage, position, committed }
}
