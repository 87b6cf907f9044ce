//! The input log in memory: gives each input its position and engine time.
//!
//! Records lie in chunks that are allocated as the log grows and never moved, so that an append is
//! a copy of one record, and an allocation only once per chunk. The capacity is a hard bound: a
//! full log says so and takes nothing more.

use types::{Command, Input, Nanos, Seq, Source};

/// Records per chunk (512 KiB).
const CHUNK: usize = 4_096;

/// The log holds as many records as it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFull {
    /// Its capacity in records.
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

/// The ordered inputs of one shard.
#[derive(Clone, Debug)]
pub struct InputLog {
    chunks: Vec<Vec<Input>>,
    len: usize,
    capacity: usize,
    last_t_seq: Nanos,
}

impl InputLog {
    /// An empty log for at most `capacity` records of 128 bytes; only the list of chunks is
    /// reserved now.
    pub fn new(capacity: usize) -> InputLog {
        let chunks = Vec::with_capacity(capacity.div_ceil(CHUNK));
        InputLog { chunks, len: 0, capacity, last_t_seq: Nanos(0) }
    }

    /// Appends an input: its position is the next one, its engine time `now`, or that of the input
    /// before it when the clock has gone back.
    ///
    /// # Errors
    /// [`LogFull`], with nothing changed.
    pub fn append(&mut self, now: Nanos, draft: Draft) -> Result<Input, LogFull> {
        if self.len == self.capacity {
            return Err(LogFull { capacity: self.capacity });
        }
        if self.len == self.chunks.len() * CHUNK {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.last_t_seq = self.last_t_seq.max(now);
        let input = Input {
            seq: Seq(self.len as u64 + 1),
            t_in: draft.t_in,
            t_seq: self.last_t_seq,
            source: draft.source,
            flags: draft.flags,
            command: draft.command,
        };
        self.chunks[self.len / CHUNK].push(input);
        self.len += 1;
        Ok(input)
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Records it may hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Records it still takes.
    pub fn room(&self) -> usize {
        self.capacity - self.len
    }

    /// The record at a position.
    pub fn get(&self, seq: Seq) -> Option<&Input> {
        let index = usize::try_from(seq.0.checked_sub(1)?).ok()?;
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// The records after a position, in order.
    pub fn after(&self, seq: Seq) -> impl Iterator<Item = &Input> {
        (seq.0..self.len as u64).map_while(|index| self.get(Seq(index + 1)))
    }

    /// All records in order.
    pub fn iter(&self) -> impl Iterator<Item = &Input> {
        self.chunks.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::CommandKind;

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
        assert_eq!((log.len(), log.room()), (capacity, 0));
        assert!(log.iter().map(|input| input.t_seq).is_sorted());
        assert!(log.iter().enumerate().all(|(i, input)| input.t_in == Nanos(i as u64)));
        assert_eq!(log.get(Seq(CHUNK as u64 + 1)).map(|input| input.seq.0), Some(4_097));
        assert_eq!(log.get(Seq(0)), None);
        assert_eq!(log.get(Seq(capacity as u64 + 1)), None);
    }
}
