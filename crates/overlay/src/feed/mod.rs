//! Market data downwards: published, forwarded, received once, and what is missing repaired.

pub mod answers;
pub mod duplicate_filter;
pub mod feed_session;
mod feed_trail;
pub mod gaps;
pub mod hedger;
pub mod mold;
pub mod parity;
pub mod proxy;
pub mod publisher;
pub mod receiver;
pub mod repair_cache;
pub mod retransmission;
pub mod skip;
pub mod subscribers;
