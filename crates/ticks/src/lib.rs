//! Ticks of the ticker plant in files: a folder of Parquet files, and one that is being written.
//!
//! - [`TickWriter`] appends [`Update`](feed::plant::Update)s to a spool, records of one size each with
//!   its checksum, and makes a Parquet file of every full one. What was appended before the writer was
//!   killed can be read; the next writer of the folder makes Parquet of it.
//! - [`read`] gives the [`Tick`]s of a file or folder in order, those of a spool that is being written
//!   included, a row group at a time.
//! - [`Tick`] is a row: what an update says, in the words of those who read tables.
//!
//! Memory is bounded by a row group, whatever is in the files, and no bytes of them make a panic.

mod parquet_file;
mod read;
mod row;
mod spool;
mod writer;

pub use read::{Filter, ReadReport, read};
pub use row::Tick;
pub use writer::{TickWriter, WriterConfig, WriterCounters};

/// Rows of a row group: what is in memory at one time.
pub const GROUP_ROWS: usize = 1 << 16;
