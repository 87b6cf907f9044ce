//! Settings of a journal.

use crate::layout::{
    BLOCK_MAX, BLOCK_MIN, FRAME_HEADER, LABEL_LEN, PAYLOAD_MAX, RECORD_HEADER, SEGMENT_MAX,
    round_up,
};

/// When the commit watermark is written to its own file, apart from the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Marks {
    /// With the next batch, and by [`crate::Journal::write_mark`] when there is none: one sync per
    /// batch. Until then a disk that lied about the very last batch goes unnoticed.
    #[default]
    Behind,
    /// Before [`crate::Journal::flush`] returns: two syncs per batch, and no such gap.
    BeforeAck,
}

/// Settings with which a journal is opened. Block size, segment size and name of an existing
/// journal stay as they were when it was made.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the journal, unique, so that files of different journals are not mixed.
    pub id: u64,
    /// Number of the server of a group whose folder this is, for good: with another one opening it is
    /// refused; 0: anybody's.
    pub server: u64,
    /// Kind of the records, for the application; opening a journal with another label is refused.
    pub label: [u8; LABEL_LEN],
    /// Unit of writing, bytes: what the device writes whole, a power of two from 512 to 64 KiB.
    pub block: usize,
    /// Size of a segment's file, bytes.
    pub segment_bytes: u64,
    /// Most bytes of one batch, with 16 bytes and padding to 8 per record.
    pub batch_bytes: usize,
    /// When the commit watermark is written to its own file.
    pub marks: Marks,
    /// Whether this is the only copy of the log, so that what is durable is committed. Otherwise
    /// the caller, who counts the copies, tells what is committed by [`crate::Journal::commit_to`].
    pub alone: bool,
    /// Number of snapshots that are kept; at least one.
    pub snapshots_kept: usize,
    /// Whole segments are not read at the start, where it was written down what they hold, but by
    /// [`crate::Journal::read_on`], and by whoever reads their records: for one that knows what most of
    /// them say. It is written down whenever a segment is begun. `false`: neither.
    pub read_later: bool,
}

impl Config {
    /// The default settings: blocks of 4 KiB, segments of 64 MiB, batches of up to 1 MiB.
    pub fn new(id: u64, label: [u8; LABEL_LEN]) -> Config {
        Config {
            id,
            server: 0,
            label,
            block: 4_096,
            segment_bytes: 64 << 20,
            batch_bytes: 1 << 20,
            marks: Marks::Behind,
            alone: true,
            snapshots_kept: 2,
            read_later: false,
        }
    }

    /// Whether a journal can have these settings: a block size in range, and room for a batch in a
    /// segment.
    pub fn is_sound(&self) -> bool {
        let block = self.block;
        (BLOCK_MIN..=BLOCK_MAX).contains(&block)
            && block.is_power_of_two()
            && self.segment_bytes.is_multiple_of(block as u64)
            && (RECORD_HEADER + 8..=PAYLOAD_MAX).contains(&self.batch_bytes)
            && self.segment_bytes
                >= (block + round_up(FRAME_HEADER + self.batch_bytes, block)) as u64
            && self.segment_bytes <= SEGMENT_MAX
    }
}
