//! What the nodes of a machine saw of each datagram of the feed, in a file.
//!
//! Records of [`RECORD`] bytes, little-endian: point u8 (0 published, 1 arrived, 2 released, 3
//! released late, 4 released blocked), a zero byte, node u16, four zero bytes, message id u64, time u64
//! (ns on the clock of the machine), value u64 (see [`TracePoint`]).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use exchange::Role;
use net::{Loop, TraceReceiver, trace_channel};
use types::{Nanos, NodeId, Trace, TracePoint};

use super::node::NodeOptions;
use crate::deployment::{TRACE_BATCH, TRACE_BATCHES};
use crate::failure::{Failure, on};

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

/// Where the traces of a loop go.
pub struct TraceFile {
    from: TraceReceiver,
    to: BufWriter<File>,
}

impl TraceFile {
    /// The file of a machine that is to write one, for the nodes of this loop; a root and the other
    /// nodes of its machine each have their own.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn open(options: &NodeOptions, of: &mut Loop<Role>) -> Result<Option<TraceFile>, Failure> {
        if !options.traces {
            return Ok(None);
        }
        let path = options.dir.join(FILE);
        let file = File::options().create(true).append(true).open(&path);
        let to = BufWriter::with_capacity(1 << 20, file.map_err(|error| on(&path, error))?);
        let (sender, from) = trace_channel(TRACE_BATCHES, TRACE_BATCH);
        of.send_traces(sender);
        Ok(Some(TraceFile { from, to }))
    }

    /// Writes what comes until the loop has ended.
    ///
    /// # Errors
    /// The file's.
    pub fn write(mut self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::Run(format!("{FILE}: {error}"));
        let (mut runs, mut outcome) = (true, Ok(()));
        while runs && outcome.is_ok() {
            std::thread::sleep(LOOK_EVERY);
            let to = &mut self.to;
            runs = self.from.drain(|batch| {
                for trace in batch {
                    if outcome.is_ok() {
                        outcome = to.write_all(&encode(trace));
                    }
                }
            });
        }
        outcome.and_then(|()| self.to.flush()).map_err(failed)
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
