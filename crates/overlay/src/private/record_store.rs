//! Append-only streams of fixed-length records, one per account.
//!
//! Records lie in chunks cut from large segments, so that an append touches one place and memory is
//! asked for rarely: one segment for every 128 chunks, and now and then a longer chunk list. The
//! store is derived from the log; it may be bounded by a total number of records.
//!
//! With a spill store each chunk is spilled there once it is full, and memory holds the newest full
//! chunks of all streams together, up to a number, besides one per stream that fills. What is in
//! the spill store is read back for whoever asks. A chunk that the spill store does not take stays
//! in memory and is tried again. A stream's place in the spill store comes in runs, of 128 chunks
//! and then each twice as long as the one before, so that knowing where its records are costs less
//! than 64 numbers however long it gets. What a run has not come to takes no room in a spill store
//! with holes.
//!
//! The chunks in the spill store may be bounded, too. At the bound either there is no room
//! ([`RecordStore::has_room`]), or the oldest part of the longest stream is given up. What is given up
//! follows from the records alone, never from how long a disk takes: stores that were given the same
//! records can answer the same. Room is given back afterwards, where checkpoints are made behind the
//! one before the last ([`RecordStore::written_down`]), so that each of these finds what it leans on.

use std::collections::VecDeque;

use types::{Packer, SpillStore, Unpacker};

/// Number of records per chunk.
const CHUNK_RECORDS: u64 = 64;
/// Chunks per segment of memory, and in the first run in the spill store.
const SEGMENT_CHUNKS: usize = 128;
/// Number of chunks that are given up together.
const BATCH: u64 = 64;
/// Full chunks that may wait for the spill store before there is no room.
const WAITING_MAX: usize = 1_024;
/// Runs of a stream: the last ones are longer than any spill store.
const RUNS_MAX: usize = 40;

#[derive(Default)]
struct Stream {
    /// Number of records stored so far.
    len: u64,
    /// Places in memory of its newest chunks, in order.
    chunks: VecDeque<u32>,
    /// Chunks before these, which are in the spill store alone, and all chunks that are there.
    gone: u64,
    put: u64,
    /// Number of chunks from the beginning that can no longer be read, and of those in the spill store the
    /// number whose room was given back.
    given_up: u64,
    freed: u64,
    /// Where its runs begin in the spill store, in chunks, in order.
    runs: Vec<u64>,
}

impl Stream {
    /// Number of chunks that are full.
    fn full(&self) -> u64 {
        self.len / CHUNK_RECORDS
    }
}

/// Records that are on the disk instead of in memory.
struct Spilled {
    spill: Box<dyn SpillStore>,
    /// Full chunks in memory, by their streams, the oldest first, and the most of them.
    full: VecDeque<u32>,
    full_max: usize,
    /// The first of them that are in the spill store, too.
    put: usize,
    /// Number of chunk places that runs stand for.
    places_used: u64,
    /// Full chunks that were not given up.
    held: u64,
    /// Chunks on it, the most of them, and whether the oldest go at that.
    chunks: u64,
    chunks_max: u64,
    gives_up: bool,
    /// For each stream, how much was given up at the checkpoint before the last and at the last;
    /// `None`: there are no checkpoints.
    written: Option<[Vec<u64>; 2]>,
    /// The spill store did not give room back when it was asked last.
    owes: bool,
    /// A chunk read back: whose, which, and its bytes.
    read: Option<(usize, u64)>,
    bytes: Vec<u8>,
}

/// The streams; positions count from 1.
pub(crate) struct RecordStore {
    record_len: usize,
    records_max: u64,
    records: u64,
    streams: Vec<Stream>,
    segments: Vec<Box<[u8]>>,
    chunks_used: usize,
    spilled: Option<Spilled>,
}

impl RecordStore {
    /// `streams` empty streams, together for at most `records_max` records of `record_len` bytes.
    pub(crate) fn new(streams: usize, record_len: usize, records_max: u64) -> RecordStore {
        let mut all = Vec::new();
        all.resize_with(streams, Stream::default);
        RecordStore {
            record_len,
            records_max,
            records: 0,
            streams: all,
            segments: Vec::new(),
            chunks_used: 0,
            spilled: None,
        }
    }

    /// Spills full chunks and keeps the newest ones in memory, `memory_max` records of them.
    /// False when there are records already, and the store is as it was.
    pub(crate) fn spill_to(&mut self, spill: Box<dyn SpillStore>, memory_max: u64) -> bool {
        if self.records > 0 {
            return false;
        }
        self.spilled = Some(Spilled {
            spill,
            full: VecDeque::new(),
            full_max: usize::try_from(memory_max / CHUNK_RECORDS).unwrap_or(usize::MAX).max(1),
            put: 0,
            places_used: 0,
            held: 0,
            chunks: 0,
            chunks_max: u64::MAX,
            gives_up: false,
            written: None,
            owes: false,
            read: None,
            bytes: vec![0; self.chunk_bytes()],
        });
        true
    }

    /// At most so many bytes in the spill store; at that the oldest part of the longest stream
    /// goes, or there is no room. Of no effect without a spill store.
    pub(crate) fn bound_spill(&mut self, bytes: u64, gives_up: bool) {
        let chunk = self.chunk_bytes() as u64;
        if let Some(spilled) = &mut self.spilled {
            spilled.chunks_max = (bytes / chunk.max(1)).max(BATCH);
            spilled.gives_up = gives_up;
        }
    }

    /// Number of bytes in the spill store.
    pub(crate) fn in_spill_store(&self) -> u64 {
        self.spilled.as_ref().map_or(0, |spilled| spilled.chunks) * self.chunk_bytes() as u64
    }

    /// Whether there is room for the records of further inputs: the spill store is neither full nor
    /// too far behind. Records that come all the same are kept.
    #[inline]
    pub(crate) fn has_room(&mut self) -> bool {
        let Some(spilled) = &self.spilled else { return self.records < self.records_max };
        let owes = spilled.owes;
        if spilled.full.len() - spilled.put > WAITING_MAX {
            self.put_full();
        }
        if owes {
            self.free();
        }
        let fits = |spilled: &Spilled| {
            spilled.full.len() - spilled.put <= WAITING_MAX
                && (spilled.chunks < spilled.chunks_max || (spilled.gives_up && !spilled.owes))
        };
        self.records < self.records_max && self.spilled.as_ref().is_none_or(fits)
    }

    /// The first position of a stream that can be had.
    pub(crate) fn first(&self, stream: usize) -> u64 {
        self.streams.get(stream).map_or(1, |stream| stream.given_up * CHUNK_RECORDS + 1)
    }

    /// Gives up a lot of the longest stream if there is too much, at most the older half of it: its newest
    /// messages may be on their way for the first time.
    fn give_up(&mut self) {
        let RecordStore { streams, spilled, .. } = self;
        let over = |spilled: &&mut Spilled| spilled.gives_up && spilled.held > spilled.chunks_max;
        let Some(spilled) = spilled.as_mut().filter(over) else { return };
        while spilled.held > spilled.chunks_max {
            let longest = streams.iter_mut().max_by_key(|stream| stream.full() - stream.given_up);
            let Some(stream) = longest else { return };
            let at = stream.given_up;
            let half = at + (stream.full() - at).div_ceil(2);
            let end = (at / BATCH + 1).saturating_mul(BATCH).min(half);
            assert!(end > at, "the longest has some");
            (stream.given_up, spilled.read) = (end, None);
            spilled.held -= end - at;
        }
        self.free();
    }

    /// Returns the room of records that were given up to the spill store.
    #[cold]
    fn free(&mut self) {
        let chunk_bytes = self.chunk_bytes();
        let RecordStore { streams, spilled, .. } = self;
        let Some(spilled) = spilled else { return };
        spilled.owes = false;
        for (number, stream) in streams.iter_mut().enumerate() {
            let kept = spilled.written.as_ref().map(|[before, _]| before.get(number).copied());
            let most =
                stream.given_up.min(stream.put).min(kept.map_or(u64::MAX, |of| of.unwrap_or(0)));
            while stream.freed < most {
                // A run at a time.
                let (run, within) = place(stream.freed);
                let end = most.min(stream.freed + run_len(run) - within);
                let Some(at) = offset(&stream.runs, stream.freed, chunk_bytes) else { break };
                let count = end - stream.freed;
                if !spilled.spill.free(at, count * chunk_bytes as u64) {
                    // It is asked again: a disk may be busy.
                    spilled.owes = true;
                    return;
                }
                spilled.chunks -= count;
                stream.freed = end;
            }
        }
    }

    /// From now on room is given back only behind the checkpoint before the last.
    pub(crate) fn free_behind_checkpoints(&mut self) {
        let all = || vec![0; self.streams.len()];
        let written = Some([all(), all()]);
        if let Some(spilled) = &mut self.spilled {
            spilled.written = written;
        }
    }

    /// Notes that the packed state is a checkpoint; what only the one before the last needs may go.
    pub(crate) fn written_down(&mut self) {
        let RecordStore { streams, spilled, .. } = self;
        let Some([before, last]) = spilled.as_mut().and_then(|of| of.written.as_mut()) else {
            return;
        };
        std::mem::swap(before, last);
        last.clear();
        last.extend(streams.iter().map(|stream| stream.given_up));
        self.free();
    }

    /// Bytes of a chunk of such records.
    pub(crate) fn chunk_len(record_len: usize) -> usize {
        record_len * CHUNK_RECORDS as usize
    }

    fn chunk_bytes(&self) -> usize {
        RecordStore::chunk_len(self.record_len)
    }

    /// Appends a record of the right length; `None` when the store is full or knows no such stream.
    /// Returns the record's position.
    pub(crate) fn append(&mut self, stream: usize, record: &[u8]) -> Option<u64> {
        if self.records >= self.records_max || record.len() != self.record_len {
            return None;
        }
        let len = self.streams.get(stream)?.len;
        if len.is_multiple_of(CHUNK_RECORDS) {
            let chunk = self.free_chunk()?;
            self.streams.get_mut(stream)?.chunks.push_back(chunk);
        }
        let chunk = *self.streams.get(stream)?.chunks.back()?;
        let start = (len % CHUNK_RECORDS) as usize * self.record_len;
        let place = chunk_mut(&mut self.segments, chunk, self.record_len)?;
        place.get_mut(start..start + self.record_len)?.copy_from_slice(record);
        let target = self.streams.get_mut(stream)?;
        target.len += 1;
        let (position, is_full) = (target.len, target.len.is_multiple_of(CHUNK_RECORDS));
        self.records += 1;
        if let Some(spilled) = self.spilled.as_mut().filter(|_| is_full) {
            spilled.full.push_back(stream as u32);
            spilled.held += 1;
            self.give_up();
            self.put_full();
            self.wait_for_spill();
        }
        Some(position)
    }

    /// A place in memory for a chunk: that of the oldest full one, if there are enough of these and
    /// it is in the spill store, else a new one.
    fn free_chunk(&mut self) -> Option<u32> {
        self.put_full();
        if let Some(spilled) = &mut self.spilled
            && spilled.full.len() >= spilled.full_max
            && spilled.put > 0
            && let Some(owner) = spilled.full.pop_front()
        {
            spilled.put -= 1;
            let owner = self.streams.get_mut(owner as usize)?;
            owner.gone += 1;
            return owner.chunks.pop_front();
        }
        let chunk = u32::try_from(self.chunks_used).ok()?;
        if self.chunks_used == self.segments.len() * SEGMENT_CHUNKS {
            let segment = vec![0; self.chunk_bytes() * SEGMENT_CHUNKS].into_boxed_slice();
            self.segments.push(segment);
        }
        self.chunks_used += 1;
        Some(chunk)
    }

    /// Spills the full chunks that are not yet, as far as the spill store takes them.
    fn put_full(&mut self) {
        while self.spilled.as_ref().is_some_and(|spilled| spilled.put < spilled.full.len()) {
            if !self.put_one() {
                return;
            }
        }
    }

    /// A start appends faster than a disk writes, and waits for it once too much is in memory.
    fn wait_for_spill(&mut self) {
        let waits = |spilled: &Spilled| spilled.full.len() - spilled.put > 2 * WAITING_MAX;
        if self.spilled.as_mut().is_some_and(|spilled| waits(spilled) && spilled.spill.flush()) {
            self.put_full();
        }
    }

    /// Spills the oldest full chunk that is not yet.
    fn put_one(&mut self) -> bool {
        let RecordStore { streams, segments, spilled, record_len, .. } = self;
        let Some(spilled) = spilled else { return false };
        let Some(&owner) = spilled.full.get(spilled.put) else { return false };
        let Some(stream) = streams.get_mut(owner as usize) else { return false };
        // Chunks of a stream become full, and are spilled, in their order.
        let at = stream.put;
        let Some(&chunk) = stream.chunks.get((at - stream.gone) as usize) else { return false };
        let (run, _) = place(at);
        if run == stream.runs.len() {
            if run == RUNS_MAX {
                return false;
            }
            stream.runs.push(spilled.places_used);
            spilled.places_used += run_len(run);
        }
        let Some(bytes) = chunk_mut(segments, chunk, *record_len) else { return false };
        let Some(offset) = offset(&stream.runs, at, bytes.len()) else { return false };
        if !spilled.spill.put(offset, bytes) {
            return false;
        }
        stream.put += 1;
        spilled.put += 1;
        spilled.chunks += 1;
        true
    }

    /// The position the next record of a stream will have.
    pub(crate) fn next(&self, stream: usize) -> u64 {
        self.streams.get(stream).map_or(1, |stream| stream.len + 1)
    }

    /// Most records of full chunks in memory.
    pub(crate) fn memory_max(&self) -> u64 {
        self.spilled
            .as_ref()
            .map_or(u64::MAX, |of| (of.full_max as u64).saturating_mul(CHUNK_RECORDS))
    }

    /// Records in memory, room of chunks that fill included.
    pub(crate) fn in_memory(&self) -> u64 {
        self.chunks_used as u64 * CHUNK_RECORDS
    }

    /// The bytes of the records from `position`, as many as lie together, at most `max` of them;
    /// empty when there is none, or none in memory.
    pub(crate) fn run(&self, stream: usize, position: u64, max: u64) -> &[u8] {
        self.find(stream, position, max).and_then(|found| found.1).unwrap_or(&[])
    }

    /// As [`RecordStore::run`], read back from the spill store where that has them; empty also when
    /// it can't be read. `None` while a disk has to be waited for: ask again.
    pub(crate) fn fetch(&mut self, stream: usize, position: u64, max: u64) -> Option<&[u8]> {
        if position < self.first(stream) {
            return Some(&[]);
        }
        let Some((place, held)) = self.find(stream, position, max) else { return Some(&[]) };
        if held.is_some() {
            return Some(self.run(stream, position, max));
        }
        let (chunk, range) = place;
        let chunk_bytes = self.chunk_bytes();
        let (Some(spilled), Some(target)) = (&mut self.spilled, self.streams.get(stream)) else {
            return Some(&[]);
        };
        if spilled.read != Some((stream, chunk)) {
            spilled.read = None;
            let Some(offset) = offset(&target.runs, chunk, chunk_bytes) else { return Some(&[]) };
            if !spilled.spill.get_now(offset, &mut spilled.bytes)? {
                return Some(&[]);
            }
            spilled.read = Some((stream, chunk));
        }
        Some(spilled.bytes.get(range).unwrap_or(&[]))
    }

    /// Where the records are: the chunk of the stream and the bytes within it; these, if they are
    /// in memory. `None` when there is no such record.
    fn find(&self, stream: usize, position: u64, max: u64) -> Option<(Place, Option<&[u8]>)> {
        let (target, skip) = (self.streams.get(stream)?, position.checked_sub(1)?);
        let (chunk, first) = (skip / CHUNK_RECORDS, skip % CHUNK_RECORDS);
        let left = target.len.checked_sub(skip).filter(|left| *left > 0)?;
        let count = left.min(CHUNK_RECORDS - first).min(max);
        let start = first as usize * self.record_len;
        let range = start..start + count as usize * self.record_len;
        let inside = chunk.checked_sub(target.gone).and_then(|at| target.chunks.get(at as usize));
        let held = inside.and_then(|place| {
            let place = *place as usize;
            let begin = (place % SEGMENT_CHUNKS) * self.chunk_bytes();
            let segment = self.segments.get(place / SEGMENT_CHUNKS)?;
            segment.get(begin + range.start..begin + range.end)
        });
        Some(((chunk, range), held))
    }
}

impl RecordStore {
    /// Packs what is not in the spill store: lengths, places, what was given up, and unfinished
    /// chunks. False, with anything appended, without a spill store or while full chunks wait for
    /// it.
    pub(crate) fn pack(&self, to: &mut Packer<'_>) -> bool {
        let whole = |spilled: &&Spilled| spilled.put == spilled.full.len();
        let Some(spilled) = self.spilled.as_ref().filter(whole) else {
            return false;
        };
        to.count(self.streams.len());
        to.u64(spilled.places_used);
        for stream in &self.streams {
            to.u64(stream.len);
            to.count(stream.runs.len());
            stream.runs.iter().for_each(|run| to.u64(*run));
            to.u64(stream.given_up);
            to.u64(stream.freed);
            let fills = stream.len % CHUNK_RECORDS;
            let held = stream.chunks.back().filter(|_| fills > 0);
            let held = held.and_then(|chunk| chunk_of(&self.segments, *chunk, self.record_len));
            let bytes = held.and_then(|bytes| bytes.get(..fills as usize * self.record_len));
            to.raw(bytes.unwrap_or(&[]));
        }
        true
    }

    /// Restores a packed store. It must be empty and have the spill store with its former contents.
    /// `None`, after which it must not be used, when the bytes are no packed store.
    pub(crate) fn unpack(&mut self, from: &mut Unpacker<'_>) -> Option<()> {
        let streams = from.count(16)?;
        let places_used = from.u64()?;
        if streams != self.streams.len() || self.records > 0 || self.spilled.is_none() {
            return None;
        }
        // The runs of all streams are the spill store's places, each once.
        let (mut taken, mut in_spill_store): (Vec<(u64, u64)>, u64) = (Vec::new(), 0);
        let (mut held, mut kept) = (0u64, [Vec::new(), Vec::new()]);
        for number in 0..streams {
            let len = from.u64()?;
            self.records = self.records.checked_add(len).filter(|all| *all <= self.records_max)?;
            let (chunks, fills) = (len / CHUNK_RECORDS, len % CHUNK_RECORDS);
            let runs = from.count(8)?;
            if runs > RUNS_MAX || runs != chunks.checked_sub(1).map_or(0, |last| place(last).0 + 1)
            {
                return None;
            }
            let runs: Vec<u64> = (0..runs).map(|_| from.u64()).collect::<Option<_>>()?;
            taken.extend(runs.iter().copied().zip((0..).map(run_len)));
            let (given_up, freed) = (from.u64()?, from.u64()?);
            if freed > given_up || given_up > chunks {
                return None;
            }
            in_spill_store = in_spill_store.checked_add(chunks - freed)?;
            held = held.checked_add(chunks - given_up)?;
            kept[0].push(freed);
            kept[1].push(given_up);
            let bytes = from.raw(fills as usize * self.record_len)?;
            let chunk = if fills > 0 { Some(self.free_chunk()?) } else { None };
            if let Some(chunk) = chunk {
                let place = chunk_mut(&mut self.segments, chunk, self.record_len)?;
                place.get_mut(..bytes.len())?.copy_from_slice(bytes);
            }
            let chunk = chunk.into_iter().collect();
            let stream =
                Stream { len, chunks: chunk, gone: chunks, put: chunks, given_up, freed, runs };
            *self.streams.get_mut(number)? = stream;
        }
        taken.sort_unstable();
        let follow =
            |at: u64, (from, len): (u64, u64)| (from == at).then(|| at.checked_add(len))?;
        let end = taken.into_iter().try_fold(0, follow)?;
        let spilled = self.spilled.as_mut()?;
        (spilled.places_used, spilled.chunks) = (places_used, in_spill_store);
        spilled.held = held;
        spilled.written = spilled.written.is_some().then_some(kept);
        (end == places_used).then_some(())
    }
}

/// Records within a stream: their chunk, and their bytes in it.
type Place = (u64, std::ops::Range<usize>);

/// The bytes of a chunk in memory; `None`: there is no such chunk.
fn chunk_of(segments: &[Box<[u8]>], chunk: u32, record_len: usize) -> Option<&[u8]> {
    let (chunk, len) = (chunk as usize, record_len * CHUNK_RECORDS as usize);
    let begin = (chunk % SEGMENT_CHUNKS) * len;
    segments.get(chunk / SEGMENT_CHUNKS)?.get(begin..begin + len)
}

/// The bytes of a chunk in memory, for writing; `None`: there is no such chunk.
fn chunk_mut(segments: &mut [Box<[u8]>], chunk: u32, record_len: usize) -> Option<&mut [u8]> {
    let (chunk, len) = (chunk as usize, record_len * CHUNK_RECORDS as usize);
    let begin = (chunk % SEGMENT_CHUNKS) * len;
    segments.get_mut(chunk / SEGMENT_CHUNKS)?.get_mut(begin..begin + len)
}

/// Number of chunks of a stream's run with this index.
fn run_len(run: usize) -> u64 {
    (SEGMENT_CHUNKS as u64) << run
}

/// A chunk's run, and its place in that: run `n` begins behind `2^n - 1` times the first one's
/// length.
fn place(chunk: u64) -> (usize, u64) {
    let run = (chunk / SEGMENT_CHUNKS as u64 + 1).ilog2() as usize;
    (run, chunk - (run_len(run) - SEGMENT_CHUNKS as u64))
}

/// Where a stream's chunk is in the spill store.
fn offset(runs: &[u64], chunk: u64, chunk_bytes: usize) -> Option<u64> {
    let (run, within) = place(chunk);
    runs.get(run)?.checked_add(within)?.checked_mul(chunk_bytes as u64)
}

#[cfg(test)]
mod tests;
