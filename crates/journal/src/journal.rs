//! The journal itself: appending, group commit, watermark, truncation, reading back.

use crate::batch::{Batch, Record, records};
use crate::buffer::AlignedBuf;
use crate::commit::InFlight;
use crate::config::Config;
use crate::error::{Damage, JournalError};
use crate::examine::{Examined, examine, remains};
use crate::known::Unread;
use crate::layout::{
    FORMAT, FrameHeader, FrameKind, NUMBER_MAX, Place, SegmentHeader, segment_name,
};
use crate::life::Life;
use crate::mend::Doubt;
use crate::peers::{self, Peer, Peers};
use crate::recover::{End, Recovery, Segment, Truncation, note_truncation};
use crate::register::{MARK, Register, VOTE, Vote};
use crate::scan::{Extent, Found, Scanner};
use crate::storage::{DiskError, Storage};
use crate::waypoints::{Waypoint, Waypoints};
use crate::{SnapshotInfo, group, install, whole};

/// What a journal has counted since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Number of batches written.
    pub batches: u64,
    /// Number of records in those batches.
    pub records: u64,
    /// Number of bytes written, padding included.
    pub bytes: u64,
    /// Number of segments that were begun.
    pub segments: u64,
    /// How often the watermark's own file was written.
    pub marks: u64,
}

/// An open journal; see the crate's contract.
pub struct Journal<S> {
    pub(crate) storage: S,
    pub(crate) config: Config,
    pub(crate) segments: Vec<Segment>,
    pub(crate) truncations: Vec<Truncation>,
    /// Snapshots found whole at the start or written since, in ascending order.
    pub(crate) snapshots: Vec<SnapshotInfo>,
    /// Each term with the first position that has it, from the first record on.
    pub(crate) terms: Vec<(u64, u64)>,
    /// Records of the group's own, appended or durable, with their positions; the first may stand
    /// before the log, where a snapshot says what it said.
    pub(crate) groups: Vec<(u64, Vec<u8>)>,
    /// Format version of the segments that are made.
    pub(crate) format: u32,
    /// Term of the record before the first; 0 when it is not known.
    pub(crate) base_term: u64,
    pub(crate) scanner: Scanner,
    pub(crate) unread: Option<Unread>,
    pub(crate) waypoints: Waypoints,
    mark: Register,
    vote: Register,
    doubt: Doubt,
    life: Life,
    peers: Option<Peers>,
    pub(crate) batch: Batch,
    /// The batch that is being written; `None`: none is.
    pub(crate) in_flight: Option<InFlight>,
    /// Memory for the batch behind the next one.
    pub(crate) spare: AlignedBuf,
    /// Offset of the next frame in its segment, bytes, and the frame's number.
    pub(crate) offset: u64,
    pub(crate) frame: u64,
    pub(crate) committed: u64,
    marked: u64,
    pub(crate) closed: bool,
    pub(crate) stats: Stats,
}

impl<S: Storage> Journal<S> {
    /// Opens the journal in a folder, or makes one in an empty folder. What a write cut short is
    /// removed; nothing else is changed before everything has been read.
    ///
    /// # Errors
    /// [`JournalError`]; nothing was changed when it says that the committed part is damaged.
    pub fn open(mut storage: S, config: &Config) -> Result<(Journal<S>, Recovery), JournalError> {
        if !config.is_sound() {
            return Err(JournalError::Config);
        }
        let names = storage.names()?;
        let created = prepare(&mut storage, config, &names)?;
        let examined = examine(&mut storage, Some(config), |_, _, _, _| {})?;
        let Examined { doubt, found, snapshots, snapshot } = examined;
        install::settle(&mut storage, &found)?;
        let first = found.segments.first().map_or(1, |segment| segment.header.first_position);
        let life = Life::begin(&mut storage, config.id, config.server)?;
        let peers = peers::open(&mut storage, config.id, &names)?;
        let End { offset, frame, next, chain } = found.end;
        // Nobody takes a snapshot of what is not committed: it knows when the watermark's newer copy
        // can't be read.
        let committed = found.committed.max(snapshot.unwrap_or(0).min(next - 1));
        let block = block_of(&found.segments, config);
        let config = Config { block, ..config.clone() };
        if !config.is_sound() {
            return Err(JournalError::Config);
        }
        let mut journal = Journal {
            batch: Batch::new(block, config.batch_bytes, next, chain),
            in_flight: None,
            spare: AlignedBuf::default(),
            storage,
            config,
            base_term: base_term(first, &found.segments, &snapshots.whole),
            groups: group::known(first, found.groups, &snapshots),
            format: found.segments.last().map_or(FORMAT, |segment| segment.header.format),
            snapshots: snapshots.whole,
            segments: found.segments,
            truncations: found.truncations,
            terms: found.terms,
            scanner: Scanner::new(),
            unread: found.unread.map(Unread::before),
            waypoints: Waypoints::new(),
            marked: found.mark.words[0],
            mark: found.mark,
            vote: found.vote,
            doubt,
            life,
            peers,
            offset,
            frame,
            committed,
            closed: false,
            stats: Stats::default(),
        };
        if journal.segments.is_empty() {
            journal.begin_segment(FORMAT)?;
        }
        if let Some(tail) = found.tail {
            journal.erase(tail.offset, tail.bytes)?;
        }
        // What was read may never have been synced: the machine could still lose it.
        journal.sync_last()?;
        journal.storage.sync_names()?;
        if journal.config.alone {
            journal.committed = next - 1;
        }
        journal.write_mark()?;
        let recovery = Recovery {
            created,
            first,
            last: next - 1,
            committed,
            vote: journal.vote(),
            lives: journal.lives(),
            set_back: journal.is_set_back(),
            tail: found.tail,
            damaged_copies: found.damaged_copies,
            frames: found.frames,
            segments: journal.segments.len() as u64,
            unread: journal.unread() as u64,
            snapshot,
            damaged_snapshots: snapshots.damaged,
        };
        if found.damaged_copies > 0 {
            journal.heal_registers()?;
        }
        journal.assert_positions();
        Ok((journal, recovery))
    }

    /// Checks that the positions are in order: position in the watermark's file, committed,
    /// durable, appended. A disk that contradicts this is refused by a start.
    pub(crate) fn assert_positions(&self) {
        assert!(self.marked <= self.committed, "no mark is ahead of what it marks");
        assert!(self.committed <= self.durable(), "what is committed is durable here");
        assert!(self.durable() <= self.last(), "what is durable was appended");
        assert!(self.first() <= self.durable() + 1, "a log begins where its records do");
    }

    /// Writes both copies of watermark and vote again.
    fn heal_registers(&mut self) -> Result<(), JournalError> {
        let (mark, vote) = (self.mark.words, self.vote.words);
        self.mark.write_both(&mut self.storage, mark)?;
        self.vote.write_both(&mut self.storage, vote)?;
        Ok(())
    }

    /// Says that everything up to a position is committed; positions that are not durable here and
    /// those that are known already change nothing. The next batch carries it, or
    /// [`Journal::write_mark`].
    pub fn commit_to(&mut self, position: u64) {
        self.committed = self.committed.max(position.min(self.durable()));
        self.assert_positions();
    }

    /// Writes the watermark to its own file, if that is behind: for when there is nothing else to
    /// write.
    ///
    /// # Errors
    /// The disk's; only [`JournalError::Closed`] follows.
    pub fn write_mark(&mut self) -> Result<(), JournalError> {
        if self.closed {
            return Err(JournalError::Closed);
        }
        if self.committed > self.marked {
            // With the number of the last segment: without it nobody would miss that file.
            let segment = self.segments.last().map_or(0, |segment| segment.header.number);
            let words = [self.committed, self.frame, segment];
            let written = self.mark.write(&mut self.storage, words).map_err(JournalError::Disk);
            self.close_on(written)?;
            self.marked = self.committed;
            self.stats.marks += 1;
        }
        Ok(())
    }

    /// Value of the watermark in its own file.
    pub(crate) fn marked(&self) -> u64 {
        self.marked
    }

    /// Takes everything after `kept` back, durably; the next record gets the position after it.
    ///
    /// # Errors
    /// [`JournalError::Position`] when any of it is committed, with nothing changed; those of
    /// [`Journal::flush`].
    pub fn truncate(&mut self, kept: u64) -> Result<(), JournalError> {
        if kept < self.committed {
            return Err(JournalError::Position(kept));
        }
        self.flush()?;
        if kept >= self.durable() {
            return Ok(());
        }
        let truncated = self.write_truncation(kept);
        self.close_on(truncated)?;
        assert_eq!((self.durable(), self.last()), (kept, kept), "nothing is left behind it");
        self.assert_positions();
        Ok(())
    }

    fn write_truncation(&mut self, kept: u64) -> Result<(), JournalError> {
        assert!(self.in_flight.is_none() && self.batch.count == 0, "all is written or given up");
        assert!(self.committed <= kept && kept < self.durable());
        let chain = self.chain_at(kept)?;
        let block = self.config.block;
        let extent = self.room_for(block as u64)?;
        let header = FrameHeader {
            payload: 0,
            kind: FrameKind::Truncation,
            frame: self.frame,
            first: kept + 1,
            count: 0,
            committed: self.committed,
            chain_before: chain,
            chain_after: chain,
        };
        let place = Place { journal: self.config.id, segment: extent.segment, offset: self.offset };
        let mut buffer = AlignedBuf::with_capacity(block);
        buffer.resize(block);
        header.write(place, buffer.bytes_mut());
        self.storage.write(extent.file, self.offset, buffer.bytes())?;
        self.storage.sync(extent.file)?;
        note_truncation(&mut self.truncations, self.frame, kept);
        self.waypoints.cut_after(kept);
        self.terms.retain(|(begins, _)| *begins <= kept);
        self.groups.retain(|(position, _)| *position <= kept);
        self.offset += block as u64;
        self.frame += 1;
        self.batch.begin(kept + 1, chain);
        Ok(())
    }

    /// The chain after the record at a durable position that can still be read.
    ///
    /// # Errors
    /// [`JournalError::Position`] for others; those of reading.
    pub fn chain_at(&mut self, position: u64) -> Result<u64, JournalError> {
        if position == self.durable() {
            let before = |batch: &InFlight| batch.chain_before;
            return Ok(self.in_flight.as_ref().map_or(self.batch.chain_before(), before));
        }
        let first = self.segments.first().map(|segment| segment.header);
        if let Some(header) = first.filter(|header| header.first_position == position + 1) {
            return Ok(header.chain);
        }
        let mut found = None;
        self.walk(position, position, |_, chain| found = Some(chain))?;
        found.ok_or(JournalError::Position(position))
    }

    /// Term of the record at an appended position, or at the one before the first; `None`: another
    /// position, or the term was never recorded.
    pub fn term_at(&self, position: u64) -> Option<u64> {
        if position + 1 == self.first() {
            return Some(self.base_term).filter(|term| *term > 0 || position == 0);
        }
        let place = self.terms.partition_point(|(begins, _)| *begins <= position);
        let begun = place.checked_sub(1).and_then(|place| self.terms.get(place));
        begun.filter(|_| (self.first()..=self.last()).contains(&position)).map(|(_, term)| *term)
    }

    /// Where each term begins of those that appended records have, in order; the first may begin
    /// earlier than can be read.
    pub fn terms(&self) -> &[(u64, u64)] {
        &self.terms
    }

    /// Remembers term and vote; durable, in both copies, on return.
    ///
    /// # Errors
    /// [`JournalError::Position`] for a term before the one known; the disk's.
    pub fn set_vote(&mut self, vote: Vote) -> Result<(), JournalError> {
        if self.closed {
            return Err(JournalError::Closed);
        }
        if vote.term < self.vote().term {
            return Err(JournalError::Position(vote.term));
        }
        let words = [vote.term, vote.voted_for, 0];
        let written = self.vote.write_both(&mut self.storage, words).map_err(JournalError::Disk);
        self.close_on(written)
    }

    /// Newest term of the server, and its vote in that term.
    pub fn vote(&self) -> Vote {
        let [term, voted_for, _] = self.vote.words;
        Vote { term, voted_for }
    }

    /// The last term in which this server may have said to have a record that was lost, see
    /// [`crate::mend()`]; 0 for none. It is the reader's to know when that is over.
    pub fn doubt(&self) -> u64 {
        self.doubt.term
    }

    /// The only server that this one may elect while it is in [doubt](Journal::doubt), by an operator's
    /// word ([`crate::yield_to`]); 0 for none.
    pub fn sponsor(&self) -> u64 {
        self.doubt.sponsor
    }

    /// Number of times the journal was opened, this time included.
    pub fn lives(&self) -> u64 {
        self.life.lives()
    }

    /// Whether the folder is an older copy of itself, or may be: what its server has promised since is
    /// not known, until [`Journal::doubt_from`] says so.
    pub fn is_set_back(&self) -> bool {
        self.life.set_back()
    }

    /// The folder is an older copy of itself, as others know; durable on return.
    ///
    /// # Errors
    /// The disk's.
    pub fn note_set_back(&mut self) -> Result<(), JournalError> {
        if self.closed {
            return Err(JournalError::Closed);
        }
        let said = self.life.say(&mut self.storage, true);
        self.close_on(said)
    }

    /// Its server may have promised anything in terms up to this one, and nothing in later ones: it
    /// goes on in the next, and [`Journal::doubt`] says so. Durable on return; a crash before leaves
    /// a folder that is set back, if it was.
    ///
    /// # Errors
    /// [`JournalError::Position`] for a term before the one known; the disk's.
    pub fn doubt_from(&mut self, term: u64) -> Result<(), JournalError> {
        if self.closed {
            return Err(JournalError::Closed);
        }
        if term < self.vote().term {
            return Err(JournalError::Position(term));
        }
        let last = self.durable();
        let doubted = self.write_doubt(Doubt { term, sponsor: 0, last });
        self.close_on(doubted)
    }

    fn write_doubt(&mut self, doubt: Doubt) -> Result<(), JournalError> {
        doubt.write(&mut self.storage, self.config.id)?;
        self.doubt = doubt;
        self.vote.write_both(&mut self.storage, [doubt.term + 1, 0, 0])?;
        self.life.say(&mut self.storage, false)
    }

    /// Promises of other servers that are known here; durable as of [`Journal::set_peers`].
    pub fn peers(&self) -> Vec<Peer> {
        self.peers.as_ref().map(peers::read).unwrap_or_default()
    }

    /// Remembers what is known of other servers, at most [`crate::PEERS_MAX`]; durable on return.
    ///
    /// # Errors
    /// The disk's.
    pub fn set_peers(&mut self, known: &[Peer]) -> Result<(), JournalError> {
        if self.closed {
            return Err(JournalError::Closed);
        }
        let written = peers::write(&mut self.storage, self.config.id, &mut self.peers, known);
        self.close_on(written)
    }

    /// Last position whose record is durable.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.in_flight.as_ref().map_or(self.batch.first, |batch| batch.first) - 1
    }

    /// Position of the last record appended, durable or not; 0: none.
    pub fn last(&self) -> u64 {
        self.batch.next() - 1
    }

    /// Last position whose record is committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// First position whose record can be read.
    pub fn first(&self) -> u64 {
        self.segments.first().map_or(1, |segment| segment.header.first_position)
    }

    /// The chain after the last record appended: equal for equal records, whatever their batches.
    pub fn chain(&self) -> u64 {
        self.batch.chain()
    }

    /// What was counted since the journal was opened.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The storage, for simulators that make it fail.
    pub fn storage_mut(&mut self) -> &mut S {
        &mut self.storage
    }

    /// Closes the journal and returns its storage; writes the watermark first if that is still
    /// possible.
    pub fn into_storage(mut self) -> S {
        // Without it the last batch counts as perhaps torn: no more than after a crash.
        let _ = self.settle().and_then(|()| self.write_mark());
        self.storage
    }

    /// Shows `visit` the durable records of a range of positions, in order.
    ///
    /// # Errors
    /// [`JournalError::Position`] when the range begins before what is kept; what stands there now
    /// may be damaged.
    pub fn read(
        &mut self,
        from: u64,
        to: u64,
        mut visit: impl FnMut(Record<'_>),
    ) -> Result<(), JournalError> {
        self.walk(from, to, |record, _| visit(record))
    }

    /// Reads as [`Journal::read`], with the value of the chain after each record.
    fn walk(
        &mut self,
        from: u64,
        to: u64,
        mut visit: impl FnMut(Record<'_>, u64),
    ) -> Result<(), JournalError> {
        let to = to.min(self.durable());
        if from > to {
            return Ok(());
        }
        // Where a segment begins at or before it, it was still to come; the last such holds it.
        let holds = |segment: &Segment| segment.header.first_position <= from;
        let first = self.segments.iter().rposition(holds).ok_or(JournalError::Position(from))?;
        // A frame at or before it saves the way there.
        let known = self.waypoints.before(from).and_then(|point| {
            let of = |segment: &Segment| segment.header.number == point.segment;
            Some((self.segments.iter().position(of)?, point))
        });
        let known = known.filter(|(place, _)| *place >= first);
        let start = known.map_or(first, |(place, _)| place);
        self.scanner.forget();
        let mut due = from;
        for place in start..self.segments.len() {
            let Some(segment) = self.segments.get(place).copied() else { break };
            let last = place + 1 == self.segments.len();
            let mut at = segment.end();
            if let Some((_, point)) = known.filter(|(known, _)| *known == place) {
                (at.offset, at.frame) = (point.offset, point.frame);
            }
            while due <= to && !(last && at.offset >= self.offset) {
                let found = self.scanner.frame(&mut self.storage, &segment.extent, at.offset)?;
                let (header, payload) = match found {
                    Found::Frame(header, payload) if header.frame == at.frame => (header, payload),
                    Found::End => break,
                    Found::Frame(..) => return Err(self.damaged(&segment, at, due, Damage::Order)),
                    Found::Bad(damage) => {
                        // Nothing more, if the next segment goes on here.
                        let next = self.segments.get(place + 1).map(|next| next.header);
                        if next.is_some_and(|next| next.first_frame == at.frame) {
                            break;
                        }
                        return Err(self.damaged(&segment, at, due, damage));
                    }
                };
                let gone = |position: u64| {
                    let later = |cut: &Truncation| header.frame < cut.frame && position > cut.kept;
                    self.truncations.iter().any(later)
                };
                if header.kind == FrameKind::Records && !gone(header.first) {
                    self.waypoints.note(Waypoint {
                        position: header.first,
                        segment: segment.header.number,
                        offset: at.offset,
                        frame: at.frame,
                    });
                }
                let mut chain = header.chain_before;
                for record in records(&header, payload).flatten() {
                    chain = record.chain(chain);
                    if record.position == due && due <= to && !gone(due) {
                        visit(record, chain);
                        due += 1;
                    }
                }
                at.offset += header.padded(segment.extent.block) as u64;
                at.frame += 1;
            }
        }
        Ok(())
    }

    fn damaged(&self, segment: &Segment, at: End, due: u64, damage: Damage) -> JournalError {
        JournalError::Corrupt {
            segment: segment.header.number,
            offset: at.offset,
            damage,
            position: due,
            committed: self.committed,
        }
    }

    /// The last segment; begins another one when it has no room for `bytes` more.
    pub(crate) fn room_for(&mut self, bytes: u64) -> Result<Extent, JournalError> {
        let last = self.segments.last().ok_or(JournalError::Closed)?.extent;
        if self.offset + bytes <= last.bytes {
            return Ok(last);
        }
        self.begin_segment(self.format)?;
        let last = self.segments.last().ok_or(JournalError::Closed)?.extent;
        assert!(self.offset + bytes <= last.bytes, "a new segment has room for any frame");
        Ok(last)
    }

    pub(crate) fn begin_segment(&mut self, format: u32) -> Result<(), JournalError> {
        assert!(self.in_flight.is_none(), "a segment begins behind durable records");
        assert!(format >= self.format, "older versions must not take later records for theirs");
        let first_position = self.batch.first;
        let next = SegmentHeader {
            format,
            first_position,
            chain: self.batch.chain_before(),
            committed: self.committed,
            term: self.term_at(first_position - 1).unwrap_or(0),
            installed: false,
            ..self.next_header()
        };
        let segment = self.make_segment(next)?;
        self.segments.push(segment);
        self.format = format;
        self.offset = self.config.block as u64;
        self.write_known()
    }

    /// Header that the next segment will have.
    pub(crate) fn next_header(&self) -> SegmentHeader {
        SegmentHeader {
            format: self.format,
            journal: self.config.id,
            number: self.segments.last().map_or(1, |last| last.header.number + 1),
            bytes: self.config.segment_bytes,
            block: self.config.block as u32,
            first_frame: self.frame,
            label: self.config.label,
            first_position: 0,
            chain: 0,
            committed: 0,
            term: 0,
            installed: false,
        }
    }

    /// Makes a segment: its header is durable before its name.
    pub(crate) fn make_segment(&mut self, header: SegmentHeader) -> Result<Segment, JournalError> {
        let SegmentHeader { number, bytes, first_frame, first_position, .. } = header;
        if (number | first_frame | first_position) >= NUMBER_MAX {
            return Err(JournalError::Position(first_position));
        }
        let block = self.config.block;
        let mut buffer = AlignedBuf::with_capacity(block);
        buffer.resize(block);
        header.write(buffer.bytes_mut());
        let file = whole::put(&mut self.storage, &segment_name(number), bytes, |storage, file| {
            storage.write(file, 0, buffer.bytes())
        })?;
        let extent = Extent { file, journal: self.config.id, segment: number, block, bytes };
        self.stats.segments += 1;
        Ok(Segment { header, extent })
    }

    /// Writes zeros over what a write cut short.
    fn erase(&mut self, offset: u64, bytes: u64) -> Result<(), JournalError> {
        let Some(extent) = self.segments.last().map(|segment| segment.extent) else {
            return Ok(());
        };
        let zeros = {
            let mut buffer = AlignedBuf::with_capacity(extent.block);
            buffer.resize(extent.block);
            buffer
        };
        let mut at = offset;
        while at < offset + bytes && at < extent.bytes {
            self.storage.write(extent.file, at, zeros.bytes())?;
            at += extent.block as u64;
        }
        Ok(())
    }

    fn sync_last(&mut self) -> Result<(), DiskError> {
        match self.segments.last() {
            Some(segment) => self.storage.sync(segment.extent.file),
            None => Ok(()),
        }
    }

    /// Lets nothing more happen after an error that leaves the disk's state unknown.
    pub(crate) fn close_on<T>(
        &mut self,
        result: Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        if let Err(error) = &result
            && !matches!(error, JournalError::Full(_))
        {
            self.closed = true;
        }
        result
    }
}

/// An existing journal's block is as it was made.
fn block_of(segments: &[Segment], config: &Config) -> usize {
    segments.first().map_or(config.block, |segment| segment.extent.block)
}

/// Term of the record before the first: by the first segment, or by a snapshot of just that place.
fn base_term(first: u64, segments: &[Segment], snapshots: &[SnapshotInfo]) -> u64 {
    let told = segments.first().map_or(0, |segment| segment.header.term);
    let before = snapshots.iter().find(|info| info.position + 1 == first);
    if told > 0 { told } else { before.map_or(0, |info| info.term) }
}

/// Removes what was never finished, and makes the registers of a new journal; says whether it is.
fn prepare(
    storage: &mut impl Storage,
    config: &Config,
    names: &[String],
) -> Result<bool, JournalError> {
    for name in names.iter().filter(|name| name.ends_with(".new")) {
        storage.remove(name)?;
    }
    let has = |name: &str| names.iter().any(|known| known == name);
    if has(MARK) {
        return Ok(false);
    }
    if remains(names) {
        return Err(JournalError::Register(MARK));
    }
    if !has(VOTE) {
        Register::create(storage, VOTE, config.id, [0; 3]).map_err(JournalError::full)?;
    }
    Register::create(storage, MARK, config.id, [0; 3]).map_err(JournalError::full)?;
    Ok(true)
}
