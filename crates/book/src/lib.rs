//! The order books of a shard: docs/matching.md made fast.
//!
//! [`Books`] is deterministic and knows no accounts, clocks, wires or feeds: it is told what to do
//! with orders named by a key, and tells a [`Sink`] what happens, in order. All books share one
//! slab of orders and one index of keys; prices live in pages of 64 levels. Everything is reserved
//! at the start: nothing allocates later, and what does not fit is refused before anything changes.
//!
//! Not guaranteed: quantities and prices against an instrument's limits and an account's rights are
//! the engine's to check; the books refuse only what would break them.

mod auction;
mod book_ops;
mod books;
mod cancel;
mod check;
mod enter;
mod expiry;
mod huge;
mod index;
mod ladder;
mod market;
mod order;
mod page_index;
mod pages;
mod pegs;
mod phase;
mod pro_rata;
mod queues;
mod replace;
mod room;
mod slab;
mod snapshot;
mod stops;
mod take;
mod terms;
mod view;

pub use books::{BookConfig, Books, Capacity, Sink};
pub use check::Fault;
pub use huge::{prefetch, prefetch_whole};
pub use index::{Found, IdHash, Trace, fold_multiply, random_odd};
pub use order::Order;
pub use snapshot::SnapshotError;
pub use view::Depth;
