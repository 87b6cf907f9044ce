//! Backtests: a recorded market lives on in the exchange's own engine, with a strategy in it.
//!
//! - A [`Recording`] is what a market-by-order feed told, venue by venue the same: orders that came,
//!   traded, shrank, went. It is made of ITCH messages ([`ItchReader`]), of a
//!   DBN file ([`read_dbn`]), of LOBSTER's files ([`read_lobster`]), of best prices and trades in the
//!   ticker plant's files ([`TickReader`]), or put together by the caller from any other format.
//! - [`Market`] enters the recorded orders into an [`engine::Engine`] and has their recorded trades
//!   happen by orders of the other side, so that whoever stands before them in the book trades first.
//! - A [`strategy::Strategy`] sees the engine's feed and its own reports late by a configured delay, and its
//!   requests arrive late by another; [`run`] is the loop, [`Outcome`] what it came to.
//!
//! What the strategy does to others ends with the recorded events: an order it was served before
//! shrinks as recorded; lots it took are not there for the recorded trade; nobody reacts to it.
//! Whole numbers only, one seed: the same input gives the same digest everywhere. Memory is bounded
//! by the recording.

mod account;
mod calls;
mod data_book;
mod dbn;
mod equality;
mod itch;
mod lobster;
mod market;
mod observer;
mod outcome;
mod record;
mod run;
mod tick_files;
mod venue;

pub use account::{Account, Fees, Fill, Holding};
pub use data_book::{Check, DEPTH, DataBook, Edit, Excluded, Levels, Lots, Step};
pub use dbn::{DbnError, read_dbn};
pub use equality::{Best, Compared, Equality, Shares};
pub use itch::{ItchReader, ReadError};
pub use lobster::{LobsterError, read_lobster};
pub use market::{Market, MarketCounters};
pub use observer::Observer;
pub use outcome::{Markout, Outcome, Point};
pub use record::{Printed, Record, Recording, RecordingError, What};
pub use run::{Config, Delay, run, run_observed};
pub use tick_files::{Tick, TickReader};
