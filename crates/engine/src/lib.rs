//! One engine shard: the deterministic state machine behind the exchange.
//!
//! [`Engine::apply`] takes one [`types::Input`] of the ordered log and appends what follows from it
//! to the caller's [`Output`]: execution reports for accounts, market events for the feed. Nothing
//! else goes in: no clock, randomness, thread, float or hash order. The same inputs give the same
//! outputs and the same [`Engine::state_digest`] everywhere (corners 5 and 7).
//!
//! - Exactly once (corner 1): transport duplicates are found per (gateway, incarnation), repeated
//!   requests per (account, user_ref); see [`Applied`]. Every new order, replace and cancel that is
//!   neither gets exactly one answer: accepted, replaced, cancelled, or refused with a reason.
//! - Private fills (corner 16): an execution names the feed position that has to be public first.
//! - Every structure is bounded by [`Config`] and reserved at the start; after an account's and a
//!   gateway's first message, applying an order, replace or cancel does not allocate (the caller
//!   reuses its `Output`).
//! - [`log`] is the in-memory input log, [`replay`] feeds a log to a fresh engine, and
//!   [`replay_digests`] computes the displayed books at any feed position (corners 7 and 17).
//!
//! Not here: authentication, sequencing by `t_in`, encoding. A source that claims to be gateway 0
//! is believed: the root's ingress must never let such a datagram in.

mod apply;
mod config;
mod counters;
mod day;
mod image;
mod index;
pub mod log;
mod orders;
mod output;
mod replay;
mod sources;
mod terms;

pub use apply::{Applied, Engine};
pub use config::{Config, ConfigError};
pub use counters::{Counters, InstrumentCounters};
pub use image::{DisplayedBook, ImageError};
pub use output::Output;
pub use replay::{PositionDigests, ReplayDigests, ReplayError, replay, replay_digests};
pub use sources::USER_REF_WINDOW;
