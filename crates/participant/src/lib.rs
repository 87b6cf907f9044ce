//! The other side of the exchange: order flow, client sessions, and a driver that plays one
//! through the others.
//!
//! - [`sample`] (a recorded venue) and [`generator`] (zero intelligence) yield [`FlowMessage`]s;
//!   [`schedule`] merges sources into one open-loop timetable; [`venue`] compares trades.
//! - [`ledger`] keeps every request of one account against its answers: exactly once, or counted.
//! - [`client`] is one OUCH session over SoupBinTCP that survives its connections; [`Driver`] is
//!   the node that owns the clients and plays the timetable; [`tape`] is what they saw.
//! - [`load`] plays an even timetable of orders against any OUCH or FIX door and counts answers.
//!
//! Nothing here knows the exchange's internals, a socket or a clock: a client sees bytes and is
//! told the time, so that the same objects run against real gateways and in the simulator. Only
//! [`sample::load`] reads files, before anything starts.

pub mod client;
pub mod decimal;
mod driver;
pub mod flow;
pub mod generator;
pub mod ledger;
pub mod load;
mod opening;
mod rows;
pub mod sample;
pub mod schedule;
mod special;
pub mod tape;
pub mod venue;

pub use client::{Client, ClientConfig, ClientCounters};
pub use driver::{Driver, DriverConfig, Phase, Status};
pub use flow::{Action, FlowMessage, PARTICIPANTS, participant_of};
pub use generator::{Generator, GeneratorConfig};
pub use ledger::{Ledger, LedgerCounts, NotAsked, RequestKind};
pub use sample::{Sample, SampleCounts, SampleError};
pub use schedule::{Schedule, Source};
pub use special::Special;
pub use tape::{JoinedTrade, Latency, Sighting, Tape, TapeConfig};
pub use venue::{Comparison, Trade, VenueTrades};
