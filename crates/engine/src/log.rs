//! The input log: gives each input its position and engine time.
//!
//! Records lie in chunks that are allocated as the log grows and never moved, so that an append is
//! a copy of one record, and an allocation only once per chunk.
//!
//! With a spill store the log is spilled there as it grows, block by block, and memory holds the
//! newest records only, in chunks that are used again: memory does not grow with time, and nothing
//! is lost. A log that somebody else keeps (a replica's journal) holds the newest alone
//! ([`InputLog::keep_newest`]).
//!
//! A log has no end unless it is given one. It is near its end when so many records lie in its
//! spill store as may, when the spill store takes no more, or at its capacity. Then
//! [`InputLog::has_room`] says no, for what participants want; [`InputLog::RESERVE`] records more
//! are taken of those that steer the market, which never ask.

use std::collections::VecDeque;

use types::{Command, Input, Nanos, Packer, Seq, Source, SpillStore, Unpacker};
use zerocopy::{IntoBytes, TryFromBytes};

/// Records per chunk (512 KiB).
const CHUNK: usize = 4_096;
/// Records spilled at a time (8 KiB); a chunk is a whole number of these.
const BLOCK: usize = 64;
/// Bytes of a record.
const RECORD: usize = size_of::<Input>();

const _: () = assert!(CHUNK.is_multiple_of(BLOCK), "a block does not span two chunks");
const _: () = assert!(RECORD == 128, "the layout of spilled records");
const _: () = assert!(InputLog::MEMORY_MIN >= 2 * CHUNK && InputLog::RESERVE >= BLOCK);

/// The log holds as many records as it may, or its spill store takes no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFull {
    /// Records it holds.
    pub capacity: usize,
}

impl std::fmt::Display for LogFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the input log has {} records and takes no more: it is full, or its file takes no more",
            self.capacity
        )
    }
}

impl std::error::Error for LogFull {}

/// An input before it has its place in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draft {
    /// When the gateway received the request.
    pub t_in: Nanos,
    /// Transport key.
    pub source: Source,
    /// As [`Input::flags`].
    pub flags: u64,
    /// The request.
    pub command: Command,
}

/// Where the log is spilled.
struct Spilled {
    spill: Box<dyn SpillStore>,
    /// Records on it, a whole number of blocks until the log is finished.
    len: usize,
    /// Records before these were given up.
    from: usize,
    /// Most records on it.
    most: usize,
}

/// The ordered inputs of one shard.
pub struct InputLog {
    /// The oldest in memory first; all but the last are full.
    chunks: VecDeque<Vec<Input>>,
    /// Most chunks in memory, as long as what is older is somewhere else.
    chunks_max: usize,
    /// Records before these.
    gone: usize,
    len: usize,
    capacity: usize,
    last_t_seq: Nanos,
    spilled: Option<Spilled>,
}

impl std::fmt::Debug for InputLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InputLog of {} records, {} of them in memory", self.len, self.in_memory())
    }
}

impl InputLog {
    /// The fewest records that a log with bounded memory keeps there: more than may wait for
    /// anything.
    pub const MEMORY_MIN: usize = 65_536;
    /// Records for those who steer the market, beyond what participants may fill; fewer where the
    /// capacity is small.
    pub const RESERVE: usize = 4_096;

    /// An empty log for at most `capacity` records of 128 bytes; 0: it has no end.
    pub fn new(capacity: usize) -> InputLog {
        InputLog {
            chunks: VecDeque::new(),
            chunks_max: usize::MAX,
            gone: 0,
            len: 0,
            capacity: if capacity == 0 { usize::MAX } else { capacity },
            last_t_seq: Nanos(0),
            spilled: None,
        }
    }

    /// Spills the log from now on, each record at its position less one times 128 bytes, and
    /// keeps the newest `memory_max` in memory, at least [`InputLog::MEMORY_MIN`] and up to a chunk
    /// more. False when there are records already, and the log is as it was.
    #[must_use]
    pub fn spill_to(&mut self, spill: Box<dyn SpillStore>, memory_max: usize) -> bool {
        if self.len == 0 {
            self.spilled = Some(Spilled { spill, len: 0, from: 0, most: usize::MAX });
            self.keep_newest(memory_max);
        }
        self.len == 0
    }

    /// Keeps the newest `memory_max` records in memory, at least [`InputLog::MEMORY_MIN`] and up to
    /// a chunk more: somebody else has the older ones.
    pub fn keep_newest(&mut self, memory_max: usize) {
        self.chunks_max = memory_max.max(InputLog::MEMORY_MIN).div_ceil(CHUNK) + 1;
    }

    /// Most records in memory, rounded up to whole parts of it.
    pub fn memory_max(&self) -> usize {
        self.chunks_max.saturating_mul(CHUNK)
    }

    /// At most so many records in the spill store, besides the reserve; of no effect without one.
    pub fn bound_spill(&mut self, records: usize) {
        if let Some(spilled) = &mut self.spilled {
            spilled.most = records.max(BLOCK);
        }
    }

    /// Records in the spill store, and the most that there may be.
    pub fn in_spill_store(&self) -> (usize, usize) {
        self.spilled.as_ref().map_or((0, 0), |spilled| (spilled.len - spilled.from, spilled.most))
    }

    /// Gives up the records of the spill store before a position, so that their room can be used
    /// again. False, with nothing changed, when it does not give room back, or they are not all on
    /// it.
    #[must_use]
    pub fn give_up_before(&mut self, seq: Seq) -> bool {
        let Some(spilled) = &mut self.spilled else { return false };
        let wanted = usize::try_from(seq.0.saturating_sub(1)).unwrap_or(usize::MAX);
        if wanted > spilled.len || wanted < spilled.from {
            return false;
        }
        let (at, count) = ((spilled.from * RECORD) as u64, wanted - spilled.from);
        if count > 0 && !spilled.spill.free(at, (count * RECORD) as u64) {
            return false;
        }
        spilled.from = wanted;
        self.assert_positions();
        true
    }

    /// Where records are, in the order of their ages: given up, spilled, in memory. Without a spill
    /// store somebody else may have those that left memory.
    fn assert_positions(&self) {
        assert!(self.gone <= self.len && self.len <= self.capacity);
        assert!(self.in_memory() <= self.chunks.len() * CHUNK, "chunks hold what is in memory");
        if let Some(spilled) = &self.spilled {
            assert!(spilled.from <= spilled.len, "only what was spilled is given up");
            assert!(spilled.len <= self.len, "only what was appended is spilled");
            assert!(self.gone <= spilled.len, "only what was spilled leaves memory");
        }
    }

    /// Engine time of the last input; 0 before the first.
    #[inline]
    pub fn last_t_seq(&self) -> Nanos {
        self.last_t_seq
    }

    /// Whether it takes another record of a participant. Tries again to spill what waits for that.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        let below = self.capacity - (self.capacity / 16).min(InputLog::RESERVE);
        self.len < below && (self.unspilled() < BLOCK || self.put_blocks()) && !self.is_over()
    }

    /// As many records lie in the spill store as may.
    fn is_over(&self) -> bool {
        self.spilled.as_ref().is_some_and(|spilled| self.len - spilled.from >= spilled.most)
    }

    /// Appends an input: its position is the next one, its engine time `now`, or that of the input
    /// before it when the clock has gone back. The reserve is for whoever did not ask whether there
    /// is room.
    ///
    /// # Errors
    /// [`LogFull`], with nothing changed.
    pub fn append(&mut self, now: Nanos, draft: Draft) -> Result<Input, LogFull> {
        let full = LogFull { capacity: self.len };
        if self.len >= self.capacity {
            return Err(full);
        }
        if self.len.is_multiple_of(BLOCK) && !self.put_blocks() {
            // Whoever appends faster than a disk writes, as a start does, waits for it here.
            let most = BLOCK + InputLog::RESERVE;
            if self.unspilled() >= most
                && !(self.flush_spill() && self.put_blocks())
                && self.unspilled() >= most
            {
                return Err(full);
            }
        }
        let over = |spilled: &Spilled| {
            self.len - spilled.from >= spilled.most.saturating_add(InputLog::RESERVE)
        };
        if self.spilled.as_ref().is_some_and(over) {
            return Err(full);
        }
        self.make_room();
        self.last_t_seq = self.last_t_seq.max(now);
        let input = Input {
            seq: Seq(self.len as u64 + 1),
            t_in: draft.t_in,
            t_seq: self.last_t_seq,
            source: draft.source,
            flags: draft.flags,
            command: draft.command,
        };
        let Some(chunk) = self.chunks.back_mut() else { return Err(full) };
        assert!(chunk.len() < CHUNK, "chunks never move");
        chunk.push(input);
        self.len += 1;
        Ok(input)
    }

    /// Spills all full blocks that are not yet; false when the spill store does not take them.
    #[cold]
    fn put_all(&mut self) -> bool {
        while self.spilled.as_ref().is_some_and(|spilled| self.len - spilled.len >= BLOCK) {
            if !self.put_block(BLOCK) {
                return false;
            }
        }
        true
    }

    /// Records that wait for the spill store.
    fn unspilled(&self) -> usize {
        self.spilled.as_ref().map_or(0, |spilled| self.len - spilled.len)
    }

    /// Waits until all that was spilled is on the disk; false when that fails.
    pub fn flush_spill(&mut self) -> bool {
        self.spilled.as_mut().is_none_or(|spilled| spilled.spill.flush())
    }

    fn put_blocks(&mut self) -> bool {
        self.spilled.is_none() || self.put_all()
    }

    /// Spills a block if there are `least` records or more; false when that fails.
    fn put_block(&mut self, least: usize) -> bool {
        let Some(spilled) = &mut self.spilled else { return true };
        let from = spilled.len;
        let count = (self.len - from).min(BLOCK);
        if count < least.max(1) {
            return true;
        }
        let inside = from - self.gone;
        let chunk = self.chunks.get(inside / CHUNK).map_or(&[][..], Vec::as_slice);
        let within = inside % CHUNK;
        assert!(within + count <= CHUNK, "a block is within one chunk");
        let records = chunk.get(within..within + count).unwrap_or(&[]);
        let put =
            !records.is_empty() && spilled.spill.put((from * RECORD) as u64, records.as_bytes());
        if put {
            spilled.len += records.len();
            self.assert_positions();
        }
        put
    }

    /// Room for the next record: in the last chunk, in a new one, or in that of the oldest records,
    /// if these are spilled. Chunks of a log that was taken up begin wherever that was.
    fn make_room(&mut self) {
        if self.len < self.gone + self.chunks.len() * CHUNK {
            return;
        }
        let spilled = self.spilled.as_ref().map_or(self.len, |spilled| spilled.len);
        let mut spare = None;
        while self.chunks.len() >= self.chunks_max
            && self.chunks.front().is_some_and(|oldest| self.gone + oldest.len() <= spilled)
        {
            spare = self.chunks.pop_front();
            self.gone += spare.as_ref().map_or(0, Vec::len);
        }
        let mut chunk = spare.unwrap_or_else(|| Vec::with_capacity(CHUNK));
        chunk.clear();
        assert!(chunk.capacity() >= CHUNK, "an append does not allocate");
        self.chunks.push_back(chunk);
        self.assert_positions();
    }

    /// Takes back everything after the first `len` inputs; false, with nothing changed, when the
    /// last of these is no longer in memory, or was given up.
    #[must_use]
    pub fn cut(&mut self, len: usize) -> bool {
        if len >= self.len {
            return true;
        }
        if len < self.given_up() {
            return false;
        }
        let last = self.get(Seq(len as u64)).map(|input| input.t_seq);
        let Some(last) = last.or(Some(Nanos(0)).filter(|_| len == 0 && self.gone == 0)) else {
            return false;
        };
        self.chunks.truncate((len - self.gone) / CHUNK + 1);
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.truncate((len - self.gone) % CHUNK);
        }
        (self.len, self.last_t_seq) = (len, last);
        if let Some(spilled) = &mut self.spilled {
            spilled.len = spilled.len.min(len / BLOCK * BLOCK);
        }
        self.assert_positions();
        true
    }

    /// Writes down the place of the record at a position, which has to be in memory, for a log that
    /// goes on behind it and does not hold what was before. False for others, and for a log on a
    /// spill store, which is to be had whole.
    #[must_use]
    pub fn pack(&self, last: Seq, to: &mut Packer<'_>) -> bool {
        let record = self.get(last).filter(|_| self.spilled.is_none());
        to.raw(record.map_or(&[][..], IntoBytes::as_bytes));
        record.is_some()
    }

    /// Goes on behind the record that was packed. `None`, with nothing changed, when it is none, or
    /// this log has records already, lies in a spill store or has no room for as many.
    #[must_use]
    pub fn unpack(&mut self, from: &mut Unpacker<'_>) -> Option<()> {
        let input = Input::try_read_from_bytes(from.raw(RECORD)?).ok()?;
        let len = usize::try_from(input.seq.0).ok().filter(|len| *len <= self.capacity)?;
        if self.len > 0 || self.spilled.is_some() {
            return None;
        }
        let mut chunk = Vec::with_capacity(CHUNK);
        chunk.push(input);
        (self.gone, self.len, self.last_t_seq) = (len.checked_sub(1)?, len, input.t_seq);
        self.chunks.clear();
        self.chunks.push_back(chunk);
        self.assert_positions();
        Some(())
    }

    /// Records before the first that can be had: some, where the log was taken up in its middle,
    /// where others keep the older ones, and where those were given up.
    pub fn lacks(&self) -> usize {
        self.spilled.as_ref().map_or(self.gone, |spilled| spilled.from.min(self.gone))
    }

    /// Records before the first that is not given up; these may still be in memory.
    pub fn given_up(&self) -> usize {
        self.spilled.as_ref().map_or(0, |spilled| spilled.from)
    }

    /// Spills what is not yet: the last records. Nothing may be appended after that.
    ///
    /// # Errors
    /// [`LogFull`] when the spill store does not take them.
    pub fn finish(&mut self) -> Result<(), LogFull> {
        let put = self.put_blocks() && self.put_block(1);
        match put && self.flush_spill() {
            true => Ok(()),
            false => {
                Err(LogFull { capacity: self.spilled.as_ref().map_or(0, |spilled| spilled.len) })
            }
        }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Records it still takes by its capacity; `None` when it has no end.
    pub fn room(&self) -> Option<usize> {
        (self.capacity < usize::MAX).then(|| self.capacity - self.len)
    }

    /// Records in memory, the newest ones; all without a spill store.
    pub fn in_memory(&self) -> usize {
        self.len - self.gone
    }

    /// Whether it is spilled in a spill store as it grows.
    pub fn is_spilled(&self) -> bool {
        self.spilled.is_some()
    }

    /// The record at a position, if it is in memory.
    pub fn get(&self, seq: Seq) -> Option<&Input> {
        let index = usize::try_from(seq.0.checked_sub(1)?).ok()?.checked_sub(self.gone)?;
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// The records after a position, in order; those still in memory.
    pub fn after(&self, seq: Seq) -> impl Iterator<Item = &Input> {
        (seq.0..self.len as u64).map_while(|index| self.get(Seq(index + 1)))
    }

    /// The records in memory, in order: all of them without a spill store.
    pub fn iter(&self) -> impl Iterator<Item = &Input> {
        self.chunks.iter().flatten()
    }

    /// All records that can be had, in order, those in the spill store read back. It ends early
    /// where the spill store can't be read, so whoever needs all of them counts.
    pub fn records(&self) -> Records<'_> {
        Records { log: self, next: self.lacks(), block: vec![0; BLOCK * RECORD], read: usize::MAX }
    }
}

/// See [`InputLog::records`].
pub struct Records<'a> {
    log: &'a InputLog,
    next: usize,
    block: Vec<u8>,
    /// The block that `block` holds.
    read: usize,
}

impl Iterator for Records<'_> {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        let index = self.next;
        self.next += 1;
        if let Some(input) = self.log.get(Seq(index as u64 + 1)) {
            return Some(*input);
        }
        if index >= self.log.gone {
            return None;
        }
        let (block, place) = (index / BLOCK, index % BLOCK * RECORD);
        if self.read != block {
            let spilled = self.log.spilled.as_ref()?;
            self.read = usize::MAX;
            if !spilled.spill.get((block * BLOCK * RECORD) as u64, &mut self.block) {
                return None;
            }
            self.read = block;
        }
        let input = Input::try_read_from_bytes(self.block.get(place..place + RECORD)?).ok();
        // It is what was put there.
        input.filter(|input| input.seq == Seq(index as u64 + 1))
    }
}

#[cfg(test)]
mod tests;
