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
//! - Matching is `book`'s; limits, collars, phases, days, operators' commands and what everybody is
//!   told of it all is decided here.
//! - Every structure is bounded by [`Config`] and reserved at the start; after an account's and a
//!   gateway's first message, applying an order, replace or cancel does not allocate (the caller
//!   reuses its `Output`).
//! - [`log`] is the in-memory input log and [`log_file`] its bytes, [`replay`] feeds a log to a
//!   fresh engine, [`Engine::write_snapshot`] saves one between two inputs; [`schedule`] says when
//!   commands of the day are due, [`explain`] and [`statement`] tell what a log amounts to.
//!
//! Not here: authentication, sequencing by `t_in`, encoding, files. A source that claims to be
//! gateway 0 is believed: the root's ingress must never let such a datagram in.

mod ahead;
mod allot;
mod allotter;
mod apply;
mod between;
mod codec;
mod config;
mod counters;
pub mod daily;
mod day;
mod engine_events;
pub mod explain;
mod image;
mod listing;
mod lives;
pub mod log;
pub mod log_file;
mod market;
mod moves;
mod nodes;
mod operator;
mod orders;
mod output;
mod phases;
mod replay;
mod risk;
pub mod schedule;
mod sessions;
mod shard;
mod snapshot;
mod sources;
mod state;
pub mod statement;
mod terms;
mod tokens;
mod trades;

pub use allot::Allotment;
pub use allotter::{AllotNote, AllotSteps, Allotter};
pub use apply::{Applied, Engine, RULES_VERSION};
pub use between::DIRECTIVES_KEPT;
pub use codec::{SnapshotError, digest_of};
pub use config::{COLLAR_MAX_BP, Config, ConfigError, InstrumentRules, Limits};
pub use counters::{Counters, InstrumentCounters};
pub use image::{DisplayedBook, ImageError};
pub use moves::LeavingInstrument;
#[doc(hidden)]
pub use moves::MoveFault;
pub use nodes::{NODES_MAX, NodeStanding, Nodes, TreeRecord};
pub use output::{Moved, Output, Told};
pub use replay::{
    PositionDigests, ReplayDigests, ReplayError, replay, replay_digests, replay_digests_from,
    replay_from,
};
#[doc(hidden)]
pub use risk::AllotFault;
pub use risk::{AllotTotals, AllotWant};
pub use snapshot::SnapshotHeader;
pub use sources::USER_REF_WINDOW;
pub use state::{Position, Standing};
pub use tokens::JoinToken;
