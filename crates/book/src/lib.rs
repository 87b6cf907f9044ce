//! The limit order book of one instrument: price-time priority, and the primitives from which the
//! engine composes its order types.
//!
//! A [`Book`] is deterministic and knows no accounts, sessions, clocks or feeds: what it needs to
//! say about an order travels with it as an opaque [`Owner`]. Orders live in a slab and are linked
//! into one first-in-first-out queue per price; the prices of a side are an array sorted with the
//! best at the end, so that the busy end moves without shifting the rest. Both have a fixed
//! capacity, reserved at the start: nothing allocates later, and what does not fit is refused
//! with [`Full`] before anything has changed.
//!
//! How the order types map: limit = [`Book::take`] up to its price, then [`Book::rest`];
//! immediate-or-cancel and market = `take` alone; post-only = refused when
//! [`Book::would_trade`]; reduce = [`Book::reduce`]; replace = [`Book::amend`] where the order
//! keeps its place, otherwise [`Book::cancel`], `take`, `rest`.
//!
//! Not guaranteed: prices and quantities are checked for the instrument's rules by the engine, not
//! here; quantities above [`types::limits::QTY_MAX`] are a caller's bug and assert.

mod book;
mod check;
mod ladder;
mod order;
mod slab;

pub use book::{Book, Capacity, Depth, Fill, Full};
pub use check::Fault;
pub use order::{Handle, Order, Owner, Terms};
