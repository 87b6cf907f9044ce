//! FIX: one acceptor for all connections, one session per account that has one.

pub(crate) mod application;
pub(crate) mod door;
pub(crate) mod market;
mod market_data;
mod session_state;
mod side;
