//! A root's snapshot: the inputs of its log, closely packed.
//!
//! Whoever leads must have all private streams from their first message on, and they are longer than
//! the inputs that they follow from. So a snapshot holds the inputs, 128 bytes each, and whoever gets
//! it applies them: it takes nothing from the root while it runs, two replicas write the same bytes,
//! and it is right whenever the log is. What it saves is the journal's own form, in which a lone
//! input takes a block, and the segments that a replica which was away would need.
//!
//! Bytes, little-endian: magic `FBINPUTS` · version u32 · length of the genesis u32 · genesis (the
//! group's first record, which says what exchange it is) · inputs from the first on.

use journal::{Journal, JournalError, Storage};
use types::Input;
use zerocopy::TryFromBytes;

const MAGIC: &[u8; 8] = b"FBINPUTS";
const VERSION: u32 = 1;
const HEADER: usize = 16;
/// Bytes of an input.
const INPUT: usize = size_of::<Input>();

const _: () = assert!(HEADER == MAGIC.len() + 8 && INPUT == 128, "the layout that is documented");

/// A snapshot that was read.
pub(crate) struct InputSnapshot<'a> {
    pub(crate) genesis: &'a [u8],
    inputs: &'a [u8],
}

impl<'a> InputSnapshot<'a> {
    /// Nothing when it is none, or of another version.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<InputSnapshot<'a>> {
        let (header, rest) = bytes.split_at_checked(HEADER)?;
        let (magic, sizes) = header.split_first_chunk()?;
        let (version, len) = sizes.split_first_chunk()?;
        let (version, len) = (u32::from_le_bytes(*version), len.first_chunk()?);
        let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
        let (genesis, inputs) = rest.split_at_checked(len)?;
        let whole = magic == MAGIC && version == VERSION && len > 0;
        (whole && inputs.len().is_multiple_of(INPUT)).then_some(InputSnapshot { genesis, inputs })
    }

    /// The inputs after the first so many, in order; nothing in the place of one that is none, or
    /// not the next one.
    pub(crate) fn after(&self, held: u64) -> impl Iterator<Item = Option<Input>> {
        let skip = usize::try_from(held).unwrap_or(usize::MAX).saturating_mul(INPUT);
        let rest = self.inputs.get(skip..).unwrap_or(&[]);
        (held + 1..).zip(rest.chunks_exact(INPUT)).map(|(seq, bytes)| {
            Input::try_read_from_bytes(bytes).ok().filter(|input| input.seq.0 == seq)
        })
    }
}

/// The snapshot of everything that a replica's journal holds up to a committed position: the newest
/// snapshot before, and the records since. Nothing before the group has begun.
///
/// # Errors
/// The journal's.
pub fn compact<S: Storage>(
    journal: &mut Journal<S>,
    to: u64,
) -> Result<Option<Vec<u8>>, JournalError> {
    let (mut bytes, from) = newest_before(journal, to)?;
    journal.read(from, to, |record| {
        let is_input = record.bytes.len() == INPUT;
        if bytes.is_empty() && !record.bytes.is_empty() {
            bytes.extend_from_slice(MAGIC);
            bytes.extend_from_slice(&VERSION.to_le_bytes());
            bytes.extend_from_slice(&(record.bytes.len() as u32).to_le_bytes());
            bytes.extend_from_slice(record.bytes);
        } else if is_input {
            // Others are a leader's first, or the genesis once more.
            bytes.extend_from_slice(record.bytes);
        }
    })?;
    Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
}

/// The bytes of the newest whole snapshot up to a position, and the position after its own.
fn newest_before<S: Storage>(
    journal: &mut Journal<S>,
    to: u64,
) -> Result<(Vec<u8>, u64), JournalError> {
    let known: Vec<u64> = journal.snapshots().iter().map(|info| info.position).collect();
    for position in known.into_iter().rev().filter(|position| *position <= to) {
        match journal.read_snapshot(position) {
            // The disk has changed it since: an older one does, with more of the log.
            Err(JournalError::Snapshot(_)) => {}
            bytes => return Ok((bytes?, position + 1)),
        }
    }
    Ok((Vec::new(), 1))
}

/// The group's first record in a snapshot that [`compact`] made; nothing when it is none.
pub fn compacted_genesis(bytes: &[u8]) -> Option<&[u8]> {
    Some(InputSnapshot::read(bytes)?.genesis)
}

/// Where the inputs in a snapshot that [`compact`] made begin, of which these are the first bytes;
/// nothing when it is none.
pub fn compacted_from(head: &[u8]) -> Option<u64> {
    let (header, _) = head.split_at_checked(HEADER)?;
    let len = u32::from_le_bytes(*header.last_chunk()?);
    let whole = HEADER.checked_add(len as usize)?;
    InputSnapshot::read(head.get(..whole)?).map(|_| whole as u64)
}

/// The inputs in a snapshot that [`compact`] made; nothing when it is none.
pub fn compacted_inputs(bytes: &[u8]) -> Option<Vec<Input>> {
    InputSnapshot::read(bytes)?.after(0).collect()
}

#[cfg(test)]
mod tests {
    use journal::{Config, SimDisk};
    use types::{Command, CommandKind, Nanos, Seq, Source};
    use zerocopy::IntoBytes;

    use super::*;

    fn input(seq: u64) -> Input {
        let command = Command::new(CommandKind::StartOfDay);
        let (t_in, t_seq) = (Nanos(seq), Nanos(seq + 1));
        Input { seq: Seq(seq), t_in, t_seq, source: Source::default(), flags: 0, command }
    }

    #[test]
    fn it_holds_the_inputs_however_often_it_is_made_anew() {
        let config = Config { batch_bytes: 8 << 10, ..Config::new(1, [0; 32]) };
        let config = Config { block: 512, segment_bytes: 16 << 10, ..config };
        let mut journal = Journal::open(SimDisk::new(1), &config).expect("an empty disk").0;
        assert_eq!(compact(&mut journal, 0), Ok(None));
        journal.append(1, b"").expect("room");
        journal.flush().expect("room");
        assert_eq!(compact(&mut journal, 1), Ok(None), "the group has not begun");
        for record in [&b"an exchange"[..], b"", b"an exchange"] {
            journal.append(1, record).expect("room");
        }
        for seq in 1..=200 {
            journal.append(2, input(seq).as_bytes()).expect("room");
            journal.flush().expect("room");
            if seq % 60 == 0 {
                let position = journal.durable();
                let bytes = compact(&mut journal, position).expect("readable").expect("begun");
                journal.write_snapshot(position, &bytes).expect("room");
                journal.retain(position).expect("a disk that works");
                assert_eq!(bytes.len(), HEADER + b"an exchange".len() + seq as usize * INPUT);
            }
        }
        assert!(journal.first() > 100, "{}", journal.first());
        let position = journal.durable();
        let bytes = compact(&mut journal, position).expect("readable").expect("begun");
        let all: Vec<Input> = (1..=200).map(input).collect();
        assert_eq!(compacted_inputs(&bytes), Some(all));
        let from = HEADER + b"an exchange".len();
        assert_eq!(compacted_from(&bytes[..500]), Some(from as u64));
        assert!((0..from).all(|len| compacted_from(&bytes[..len]).is_none()));
        let read = InputSnapshot::read(&bytes).expect("whole");
        assert_eq!(read.genesis, b"an exchange");
        assert_eq!(read.after(198).collect::<Vec<_>>(), [Some(input(199)), Some(input(200))]);
        assert_eq!(read.after(900).count(), 0);
        // What lacks one, or is cut, is seen.
        let mut lacking = bytes.clone();
        lacking.drain(HEADER + 11..HEADER + 11 + INPUT);
        assert_eq!(compacted_inputs(&lacking), None);
        assert!(InputSnapshot::read(&bytes[..bytes.len() - 1]).is_none());
        for len in 0..HEADER + 11 {
            assert!(InputSnapshot::read(&bytes[..len]).is_none(), "{len} bytes");
        }
    }
}
