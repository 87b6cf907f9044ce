//! The post-trade store: orders, trades, cancels and corrections in tables that can be asked, made
//! from the log and from nothing else.
//!
//! Contract:
//! - [`Feeder`] replays the log through the engine and shapes its reports into rows; [`Store`]
//!   writes them into a file of SQLite's or into PostgreSQL, many inputs a transaction. The place in the log up to which the store
//!   holds is written in the same transaction: after a crash at any point every input counts
//!   exactly once. [`StoreWriter`] is both together.
//! - Never on the order path: whoever feeds it reads the log from where it is durable already.
//! - What was fed twice changes nothing; a gap, another exchange's log, or a log whose reports are
//!   not those that the store was made of is refused, and so is another schema: the store is then
//!   made anew from the log.
//! - Readers ([`Query`]) see a whole number of transactions and never wait for the writer. All
//!   values go in as bound parameters.
//! - Memory: the engine's, a row per open order, and one batch.
//! - [`differences`] holds two stores against each other, row by row.
//!
//! Not here: where the log is kept, files of other makes, printing.

mod compare;
mod db;
mod error;
mod feeder;
mod names;
mod place;
mod query;
mod row_builder;
mod rows;
mod schema;
mod store;
mod store_writer;

pub use compare::{Difference, Found, differences, disagreements};
pub use error::StoreError;
pub use feeder::{Batch, Feeder, Progress};
pub use place::{Place, ServerPlace};
pub use query::{
    Counts, Filter, ORDER_STATES, OrderLine, PartyLine, Query, TRADE_STATES, Table, TradeLine,
};
pub use rows::{Amendment, Cancel, Order, OrderState, Party, Refusal, Terms, Trade};
pub use schema::{SCHEMA, TABLES};
pub use store::{Account, Origin, Store};
pub use store_writer::{BATCH_ROWS, StoreWriter};

/// Removes a store, if it is there, and nothing else.
///
/// # Errors
/// [`StoreError::Foreign`]: what is there is no store; the database's, or the file's.
pub fn remove(place: &Place) -> Result<(), StoreError> {
    db::remove(place)
}

/// Puts a store that was made, and closed, into a place, and removes the store that was there.
///
/// # Errors
/// [`StoreError::Foreign`]: what is there is no store; the database's, or the files'.
pub fn replace(place: &Place, made: &Place) -> Result<(), StoreError> {
    db::replace(place, made)
}
