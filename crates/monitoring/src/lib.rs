//! What running nodes tell other people's tools: metrics for Prometheus, records for Redis Streams or files,
//! and the export of these records to Parquet and CSV.
//!
//! Nothing here knows what an exchange is. Whoever has figures makes [`metric::Samples`] of them, and
//! [`door::serve`] hands a page of them to whoever asks by HTTP. Whoever has records pushes them into a
//! bounded queue without waiting ([`queue`]); a thread of its own takes them out and writes them
//! ([`writer`]). Each stream of records has numbers of its own, dense from 1, given before anything can be
//! lost: whoever reads them knows exactly how many are missing ([`account`]), whatever the reason.

pub mod account;
pub mod door;
pub mod entry;
pub mod export;
pub mod files;
pub mod metric;
pub mod process;
pub mod queries;
pub mod queue;
pub mod record;
pub mod streams;
pub mod table;
pub mod writer;
