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

const _: () = assert!(CHUNK.is_multiple_of(BLOCK));

/// The log holds as many records as it may, or its spill store takes no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFull {
    /// Records it holds.
    pub capacity: usize,
}

impl std::fmt::Display for LogFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the input log is full at {} records", self.capacity)
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
        true
    }

    /// Engine time of the last input; 0 before the first.
    #[inline]
    pub fn last_t_seq(&self) -> Nanos {
        self.last_t_seq
    }

    /// Whether it takes another record of a participant. Tries again to spill what waits for that.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        let waits = self.spilled.as_ref().map_or(0, |spilled| self.len - spilled.len);
        let below = self.capacity - (self.capacity / 16).min(InputLog::RESERVE);
        self.len < below && (waits < BLOCK || self.put_blocks()) && !self.is_over()
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
            let waits = self.spilled.as_ref().map_or(0, |spilled| self.len - spilled.len);
            if waits >= BLOCK + InputLog::RESERVE {
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
        let records = chunk.get(within..within + count).unwrap_or(&[]);
        let put =
            !records.is_empty() && spilled.spill.put((from * RECORD) as u64, records.as_bytes());
        if put {
            spilled.len += records.len();
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
        self.chunks.push_back(chunk);
    }

    /// Takes back everything after the first `len` inputs; false, with nothing changed, when the
    /// last of these is no longer in memory.
    #[must_use]
    pub fn cut(&mut self, len: usize) -> bool {
        if len >= self.len {
            return true;
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
        match put && self.spilled.as_mut().is_none_or(|spilled| spilled.spill.flush()) {
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
mod tests {
    use super::*;
    use types::{CommandKind, MemorySpill};

    fn draft(t_in: u64) -> Draft {
        Draft {
            t_in: Nanos(t_in),
            source: Source::default(),
            flags: 0,
            command: Command::new(CommandKind::Cancel),
        }
    }

    #[test]
    fn positions_are_dense_and_time_never_runs_back() {
        let capacity = CHUNK + 3;
        let mut log = InputLog::new(capacity);
        for n in 0..capacity as u64 {
            let now = if n % 2 == 0 { 1_000 + n } else { 500 };
            let input = log.append(Nanos(now), draft(n)).expect("room");
            assert_eq!(input.seq, Seq(n + 1));
        }
        assert_eq!(log.append(Nanos(9_999), draft(0)), Err(LogFull { capacity }));
        assert_eq!((log.len(), log.room()), (capacity, Some(0)));
        assert!(log.iter().map(|input| input.t_seq).is_sorted());
        assert!(log.iter().enumerate().all(|(i, input)| input.t_in == Nanos(i as u64)));
        assert_eq!(log.get(Seq(CHUNK as u64 + 1)).map(|input| input.seq.0), Some(4_097));
        assert_eq!(log.get(Seq(0)), None);
        assert_eq!(log.get(Seq(capacity as u64 + 1)), None);
        assert_eq!(log.in_memory(), capacity, "without a spill store all of it");
        assert!(log.records().eq(log.iter().copied()));
    }

    const MANY: u64 = 3 * InputLog::MEMORY_MIN as u64 + 77;

    fn spilled(spill: MemorySpill) -> InputLog {
        let mut log = InputLog::new(usize::MAX);
        assert!(log.spill_to(Box::new(spill), 0));
        log
    }

    #[test]
    fn with_a_spill_memory_is_bounded_and_nothing_is_lost() {
        let mut log = spilled(MemorySpill::default());
        let most = InputLog::MEMORY_MIN + 2 * CHUNK;
        for n in 0..MANY {
            log.append(Nanos(n), draft(n)).expect("room");
            assert!(log.in_memory() <= most && log.chunks.len() <= most / CHUNK);
        }
        assert!(log.in_memory() >= InputLog::MEMORY_MIN && log.len() as u64 == MANY);
        let expected = || (0..MANY).map(Nanos);
        assert!(log.records().map(|input| input.t_in).eq(expected()));
        let last = Seq(MANY - 1);
        assert!(log.after(last).map(|input| input.seq).eq([Seq(MANY)]));
        assert!(log.get(Seq(1)).is_none() && log.get(last).is_some());
        log.finish().expect("room");
        let spilled = log.spilled.as_ref().expect("it is");
        assert_eq!(spilled.len as u64, MANY);
        let mut bytes = [0; RECORD];
        assert!(spilled.spill.get((MANY - 1) * RECORD as u64, &mut bytes));
        assert_eq!(Input::try_read_from_bytes(&bytes).expect("an input").seq, Seq(MANY));
        assert!(!log.spill_to(Box::new(MemorySpill::default()), 0), "it has begun");
    }

    #[test]
    fn what_was_cut_off_is_written_anew() {
        for (keep, spill) in [(0, false), (BLOCK, true), (CHUNK, true), (CHUNK + 70, false)] {
            let mut log = InputLog::new(usize::MAX);
            assert!(!spill || log.spill_to(Box::new(MemorySpill::default()), 0));
            for n in 0..2 * CHUNK as u64 + 5 {
                log.append(Nanos(100 + n), draft(n)).expect("room");
            }
            assert!(log.cut(usize::MAX) && log.cut(keep));
            assert_eq!((log.len(), log.in_memory()), (keep, keep));
            for n in keep as u64..3 * CHUNK as u64 {
                // Time goes on from what was kept.
                let input = log.append(Nanos(100 + n), draft(7 * n)).expect("room");
                assert_eq!((input.seq, input.t_seq), (Seq(n + 1), Nanos(100 + n)));
            }
            let expected = |n: u64| if n < keep as u64 { n } else { 7 * n };
            let all = (0..3 * CHUNK as u64).map(|n| Nanos(expected(n)));
            assert!(log.iter().map(|input| input.t_in).eq(all));
            log.finish().expect("room");
            assert!(log.records().eq(log.iter().copied()));
        }
        let mut log = spilled(MemorySpill::default());
        (0..MANY).for_each(|n| assert!(log.append(Nanos(n), draft(n)).is_ok()));
        assert!(!log.cut(3) && log.len() as u64 == MANY, "that has left memory");
    }

    #[test]
    fn a_log_goes_on_behind_a_record_that_was_packed() {
        let mut log = InputLog::new(CHUNK * 2);
        (0..CHUNK as u64 + 9).for_each(|n| assert!(log.append(Nanos(n), draft(n)).is_ok()));
        let packed = |log: &InputLog, at| {
            let mut bytes = Vec::new();
            log.pack(Seq(at), &mut Packer::new(&mut bytes)).then_some(bytes)
        };
        let last = CHUNK as u64 + 3;
        let bytes = packed(&log, last).expect("it is there");
        assert_eq!((packed(&log, 0), packed(&log, CHUNK as u64 + 10)), (None, None));
        let mut other = InputLog::new(CHUNK * 2);
        assert_eq!(other.unpack(&mut Unpacker::new(&bytes)), Some(()));
        assert_eq!((other.len(), other.lacks(), other.in_memory()), (last as usize, CHUNK + 2, 1));
        assert!(other.cut(last as usize) && other.append(Nanos(1), draft(7)).is_ok());
        let input = other.get(Seq(last + 1)).expect("appended");
        assert_eq!((input.t_in, input.t_seq), (Nanos(7), Nanos(last - 1)), "time goes on");
        assert!(other.cut(last as usize), "as far as it was taken up");
        (last..2 * CHUNK as u64).for_each(|n| assert!(other.append(Nanos(n), draft(n)).is_ok()));
        assert!(other.after(Seq(last)).eq(log.after(Seq(last)).chain(other.after(Seq(last + 6)))));
        assert_eq!(other.append(Nanos(0), draft(0)), Err(LogFull { capacity: 2 * CHUNK }));
        // What is cut, is no input, or does not fit.
        assert_eq!(other.unpack(&mut Unpacker::new(&bytes)), None, "it has begun");
        let unpack =
            |capacity, bytes: &[u8]| InputLog::new(capacity).unpack(&mut Unpacker::new(bytes));
        assert_eq!(unpack(CHUNK, &bytes), None);
        assert_eq!(unpack(CHUNK * 2, &bytes[1..]), None);
        assert_eq!(unpack(CHUNK * 2, &[0; RECORD]), None);
        assert_eq!(spilled(MemorySpill::default()).unpack(&mut Unpacker::new(&bytes)), None);
        assert_eq!(packed(&spilled(MemorySpill::default()), 1), None);
    }

    #[test]
    fn a_log_that_was_taken_up_anywhere_has_all_that_comes_after() {
        for last in [1, 2, 63, 64, 65, CHUNK as u64 - 1, CHUNK as u64, CHUNK as u64 + 1] {
            let mut log = InputLog::new(CHUNK * 5);
            (0..last).for_each(|n| assert!(log.append(Nanos(n), draft(n)).is_ok()));
            let mut bytes = Vec::new();
            assert!(log.pack(Seq(last), &mut Packer::new(&mut bytes)));
            let mut other = InputLog::new(CHUNK * 5);
            assert_eq!(other.unpack(&mut Unpacker::new(&bytes)), Some(()));
            (last..4 * CHUNK as u64).for_each(|n| {
                assert_eq!(other.append(Nanos(n), draft(n)), log.append(Nanos(n), draft(n)));
            });
            assert!(other.after(Seq(last - 1)).eq(log.after(Seq(last - 1))), "behind {last}");
            let cut = 3 * CHUNK + 100;
            assert!(other.cut(cut) && log.cut(cut));
            assert_eq!(other.get(Seq(cut as u64)), log.get(Seq(cut as u64)));
            assert!(other.append(Nanos(0), draft(0)).is_ok());
            assert_eq!((other.get(Seq(cut as u64 + 2)), other.len()), (None, cut + 1));
        }
    }

    #[test]
    fn what_the_spill_does_not_take_is_not_logged() {
        let room = 10 * BLOCK;
        let mut log = spilled(MemorySpill::with_max(room * RECORD));
        let mut taken = 0;
        while log.has_room() {
            log.append(Nanos(taken), draft(taken)).expect("room");
            taken += 1;
        }
        // A block more than there is room for: it is found out when it is full.
        assert_eq!(taken as usize, room + BLOCK);
        // Who steers the market is heard for longer, and then not either.
        let others = (0..MANY).take_while(|n| log.append(Nanos(*n), draft(*n)).is_ok()).count();
        assert_eq!(others, InputLog::RESERVE);
        assert!(!log.has_room() && log.finish().is_err());
        assert_eq!(log.len(), room + BLOCK + InputLog::RESERVE);
    }

    /// A spill store that takes nothing while it is told to.
    #[derive(Clone, Default)]
    struct Sometimes(std::sync::Arc<std::sync::Mutex<(MemorySpill, bool)>>);

    impl SpillStore for Sometimes {
        fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
            let mut held = self.0.lock().expect("whole");
            !held.1 && held.0.put(at, bytes)
        }

        fn get(&self, at: u64, into: &mut [u8]) -> bool {
            self.0.lock().expect("whole").0.get(at, into)
        }

        fn free(&mut self, at: u64, len: u64) -> bool {
            self.0.lock().expect("whole").0.free(at, len)
        }
    }

    #[test]
    fn a_log_goes_on_when_its_spill_takes_something_again_and_lacks_nothing() {
        let spill = Sometimes::default();
        let mut log = InputLog::new(0);
        assert!(log.spill_to(Box::new(spill.clone()), 0));
        let mut appended = 0;
        for round in 0..40 {
            let fails = round % 2 == 1;
            spill.0.lock().expect("whole").1 = fails;
            for _ in 0..if fails { InputLog::RESERVE } else { 3 * CHUNK + 17 } {
                log.append(Nanos(appended), draft(appended)).expect("room in the reserve");
                appended += 1;
            }
            assert_eq!(log.has_room(), !fails, "round {round}");
            let most = InputLog::MEMORY_MIN + InputLog::RESERVE + 3 * CHUNK;
            assert!(log.in_memory() <= most, "{} in memory", log.in_memory());
        }
        spill.0.lock().expect("whole").1 = false;
        log.finish().expect("room");
        assert!(log.records().map(|input| input.t_in).eq((0..appended).map(Nanos)));
    }

    #[test]
    fn the_oldest_part_of_a_spill_is_given_up_and_the_log_has_no_end() {
        let spill = Sometimes::default();
        let mut log = InputLog::new(0);
        assert!(log.spill_to(Box::new(spill.clone()), 0));
        let most = 20 * CHUNK;
        log.bound_spill(most);
        assert!(!log.give_up_before(Seq(2)), "that is not spilled");
        for n in 0..200 * CHUNK as u64 {
            if !log.has_room() {
                assert_eq!(log.in_spill_store(), (most, most), "at {n}");
                assert!(log.give_up_before(Seq(n - 15 * CHUNK as u64 + 1)), "at {n}");
                assert!(log.has_room() && log.lacks() > 0);
            }
            log.append(Nanos(n), draft(n)).expect("room");
        }
        let used = spill.0.lock().expect("whole").0.used();
        assert!(used <= (most * RECORD) as u64 + 8_192, "{used} bytes in the spill store");
        let first = log.lacks() as u64;
        assert_eq!(first, 180 * CHUNK as u64);
        assert!(log.records().map(|input| input.t_in).eq((first..log.len() as u64).map(Nanos)));
        assert!(!log.give_up_before(Seq(1)), "it went before");
        // Control: where nothing is given up, those who steer fill the reserve, and then it is
        // over.
        let mut log = spilled(MemorySpill::default());
        log.bound_spill(most);
        (0..most as u64).for_each(|n| assert!(log.append(Nanos(n), draft(n)).is_ok()));
        assert!(!log.has_room());
        let others = (0..MANY).take_while(|n| log.append(Nanos(*n), draft(*n)).is_ok()).count();
        assert_eq!(others, InputLog::RESERVE);
    }

    #[test]
    fn a_log_that_others_keep_holds_the_newest_alone() {
        let mut log = InputLog::new(0);
        log.keep_newest(0);
        for n in 0..MANY {
            assert!(log.has_room());
            log.append(Nanos(n), draft(n)).expect("room");
        }
        assert!(log.in_memory() <= InputLog::MEMORY_MIN + 2 * CHUNK, "{}", log.in_memory());
        let first = log.lacks() as u64;
        assert!(log.records().map(|input| input.t_in).eq((first..MANY).map(Nanos)));
        assert!(log.cut(MANY as usize - 70) && log.len() as u64 == MANY - 70);
        let mut bytes = Vec::new();
        assert!(log.pack(Seq(MANY - 71), &mut Packer::new(&mut bytes)));
        assert_eq!(log.room(), None);
    }

    #[test]
    fn a_full_log_keeps_a_reserve_for_those_who_steer() {
        let mut log = InputLog::new(InputLog::RESERVE * 16);
        let mut taken = 0;
        while log.has_room() {
            log.append(Nanos(0), draft(0)).expect("room");
            taken += 1;
        }
        assert_eq!(taken, InputLog::RESERVE * 15);
        let others = (0..MANY).take_while(|n| log.append(Nanos(*n), draft(*n)).is_ok()).count();
        assert_eq!((others, log.room()), (InputLog::RESERVE, Some(0)));
    }
}
