//! What the nodes of a machine saw of each datagram of the feed: for the roots, sampled, and on trial in
//! a file.
//!
//! Records of [`RECORD`] bytes, little-endian: point u8 (0 published, 1 arrived, 2 released, 3
//! released late, 4 released blocked), a zero byte, node u16, four zero bytes, message id u64, time u64
//! (ns on the clock of the machine), value u64 (see [`TracePoint`]). The id of a message of another shard
//! than the first has that one's number in it ([`split`]).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use exchange::Role;
use net::{Loop, TraceReceiver, trace_channel};
use types::{Nanos, NodeId, ShardId, TRACE_ID_BITS, TRACE_SHARD_SHIFT, Trace, TracePoint};

use super::messages::{OBSERVED_MAX, Observed};
use super::node::NodeOptions;
use super::observer::Observation;
use crate::deployment::{TRACE_BATCH, TRACE_BATCHES};
use crate::failure::{Failure, on};
use crate::telemetry::Releases;

/// Bytes of a record.
pub const RECORD: usize = 32;
/// The file, in the folder of a machine.
pub const FILE: &str = "traces.bin";
/// Between two looks for traces.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const POINTS: [TracePoint; 5] = [
    TracePoint::Published,
    TracePoint::Arrived,
    TracePoint::Released,
    TracePoint::ReleasedLate,
    TracePoint::ReleasedBlocked,
];

/// Observations that wait for the control connection at most.
const WAITING_MAX: usize = 4_096;

/// Observations of a machine on their way to the replica that leads.
#[derive(Debug)]
pub struct Sampled {
    /// Of how many datagrams one is observed; 0: none.
    every: u64,
    waiting: Mutex<Observed>,
}

impl Sampled {
    /// One of so many datagrams; 0: none.
    pub fn new(every: u64) -> Sampled {
        Sampled { every, waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, Observed> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes those of a shard.
    fn add(&self, batch: &[Trace], shard: ShardId) {
        let own = batch.iter().map(|trace| (split(trace.id), trace));
        let own = own.filter(|((of, _), _)| *of == shard);
        let sampled = own.filter(|((_, id), _)| id.is_multiple_of(self.every));
        let mut waiting = self.waiting();
        for ((_, id), trace) in sampled {
            match waiting.seen.len() < WAITING_MAX {
                true => waiting.seen.push(Observation::of(&Trace { id, ..*trace })),
                false => waiting.lost += 1,
            }
        }
    }

    /// The next message for the roots; `None` when there is nothing to say.
    pub fn take(&self) -> Option<Observed> {
        let mut waiting = self.waiting();
        let count = waiting.seen.len().min(OBSERVED_MAX);
        let seen: Vec<Observation> = waiting.seen.drain(..count).collect();
        let lost = std::mem::take(&mut waiting.lost);
        (count > 0 || lost > 0).then_some(Observed { seen, lost })
    }
}

const SHARD_SHIFT: u32 = TRACE_ID_BITS + TRACE_SHARD_SHIFT;

/// The shard that a message is of, and its id there.
pub fn split(id: u64) -> (ShardId, u64) {
    (ShardId((id >> SHARD_SHIFT) as u16), id & ((1 << SHARD_SHIFT) - 1))
}

/// Where the traces of a loop go.
pub struct Traces {
    from: TraceReceiver,
    /// Of nodes that don't say it: the shard that they are of.
    shard: ShardId,
    /// By shard.
    sampled: Arc<[Sampled]>,
    file: Option<BufWriter<File>>,
    /// Where their records go.
    releases: Option<Releases>,
}

impl Traces {
    /// For the nodes of this loop; a root and the other nodes of its machine each have their own. `None`
    /// where nobody wants any.
    ///
    /// # Errors
    /// When the file can't be made that the options want.
    pub fn open(
        options: &NodeOptions,
        (sampled, shard): (&Arc<[Sampled]>, ShardId),
        of: &mut Loop<Role>,
    ) -> Result<Option<Traces>, Failure> {
        let is_root = of.nodes().any(|(_, role)| role.as_root().is_some());
        let name = match shard {
            ShardId(0) => "releases".to_string(),
            ShardId(other) => format!("releases-{}", other + 1),
        };
        let name = if is_root { format!("root-{name}") } else { name };
        let releases = options.telemetry.as_ref().and_then(|of| of.releases(&name));
        if !options.traces && releases.is_none() && sampled.iter().all(|of| of.every == 0) {
            return Ok(None);
        }
        let path = options.dir.join(FILE);
        let file = || File::options().create(true).append(true).open(&path);
        let file = options.traces.then(file).transpose().map_err(|error| on(&path, error))?;
        let file = file.map(|file| BufWriter::with_capacity(1 << 20, file));
        let (sender, from) = trace_channel(TRACE_BATCHES, TRACE_BATCH);
        of.send_traces(sender);
        Ok(Some(Traces { from, shard, sampled: Arc::clone(sampled), file, releases }))
    }

    /// Passes on what comes until the loop has ended.
    ///
    /// # Errors
    /// The file's.
    pub fn pass_on(mut self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::Run(format!("{FILE}: {error}"));
        let (mut runs, mut outcome) = (true, Ok(()));
        while runs && outcome.is_ok() {
            std::thread::sleep(LOOK_EVERY);
            let Traces { from, shard, sampled, file, releases } = &mut self;
            let mut told = Vec::new();
            runs = from.drain(|batch| {
                told.clear();
                told.extend(batch.iter().map(|trace| match split(trace.id) {
                    (ShardId(0), id) => {
                        Trace { id: id | u64::from(shard.0) << SHARD_SHIFT, ..*trace }
                    }
                    _ => *trace,
                }));
                let all = sampled.iter().zip((0..).map(ShardId));
                all.filter(|(of, _)| of.every > 0).for_each(|(of, shard)| of.add(&told, shard));
                if let Some(releases) = releases {
                    releases.take(&told);
                }
                let Some(to) = file else { return };
                for trace in &told {
                    if outcome.is_ok() {
                        outcome = to.write_all(&encode(trace));
                    }
                }
            });
        }
        let written = outcome.and_then(|()| self.file.as_mut().map_or(Ok(()), Write::flush));
        written.map_err(failed)
    }
}

fn encode(trace: &Trace) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[0] = POINTS.iter().position(|point| *point == trace.point).unwrap_or(0) as u8;
    record[2..4].copy_from_slice(&trace.node.0.to_le_bytes());
    for (at, word) in [(8, trace.id), (16, trace.at.0), (24, trace.value)] {
        record[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    record
}

fn decode(record: &[u8; RECORD]) -> Option<Trace> {
    let word = |at: usize| {
        let bytes = record.get(at..at + 8)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    Some(Trace {
        point: POINTS.get(usize::from(record[0])).copied()?,
        node: NodeId(u16::from_le_bytes([record[2], record[3]])),
        id: word(8)?,
        at: Nanos(word(16)?),
        value: word(24)?,
    })
}

/// The traces in a machine's folder; a record cut short at the end is left out.
///
/// # Errors
/// When the file can't be read, or holds something else.
pub fn read(dir: &Path) -> Result<Vec<Trace>, Failure> {
    let path = dir.join(FILE);
    let bytes = std::fs::read(&path).map_err(|error| on(&path, error))?;
    let (records, _) = bytes.as_chunks::<RECORD>();
    let read = records.iter().map(decode).collect::<Option<Vec<_>>>();
    read.ok_or_else(|| on(&path, "it holds no traces"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_of_so_many_is_told_and_what_has_no_room_is_counted() {
        let trace =
            |id| Trace { point: TracePoint::Arrived, node: NodeId(3), id, at: Nanos(id), value: 0 };
        let sampled = Sampled::new(4);
        assert_eq!(sampled.take(), None);
        let all: Vec<Trace> = (0..4 * (WAITING_MAX as u64 + 10)).map(trace).collect();
        // Those of another shard are not its own.
        sampled.add(&all, ShardId(1));
        assert_eq!(sampled.take(), None);
        sampled.add(&all, ShardId(0));
        let first = sampled.take().expect("observations");
        assert_eq!((first.seen.len(), first.lost), (OBSERVED_MAX, 10));
        assert_eq!(first.seen[1], Observation(1, 3, 4, 4));
        let rest = std::iter::from_fn(|| sampled.take()).map(|of| of.seen.len()).sum::<usize>();
        assert_eq!(rest, WAITING_MAX - OBSERVED_MAX);
    }

    proptest! {
        #[test]
        fn traces_are_read_as_written_and_other_bytes_never_panic(
            point in 0usize..5, node: u16, id: u64, at: u64, value: u64, other: [u8; RECORD],
        ) {
            let trace =
                Trace { point: POINTS[point], node: NodeId(node), id, at: Nanos(at), value };
            prop_assert_eq!(decode(&encode(&trace)), Some(trace));
            let _ = decode(&other);
        }
    }
}
