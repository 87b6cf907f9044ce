//! Private streams: each account's records from the root to the gateway where it is logged on.

pub mod merge;
pub mod receiver;
mod record_store;
pub mod sender;
