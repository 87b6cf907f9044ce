//! `fairbell bench`: the book, the engine, market data, the FIX codec, the planner, the journal, and a
//! round trip, the latter five beside a floor or a peer taken in the same run.

pub mod book;
pub mod decode;
mod echo;
pub mod fix;
pub mod journal;
pub mod pipeline;
pub mod plan;
mod rtt;

pub use rtt::run as rtt;
