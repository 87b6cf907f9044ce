//! `fairbell bench`: the book, the engine, market data, the FIX codec, the planner, the journal,
//! transports, and a round trip, most of them beside a floor or a peer taken in the same run.

pub mod book;
pub mod decode;
pub mod durability;
mod echo;
pub mod endless;
pub mod fix;
pub mod journal;
pub mod pipeline;
pub mod plan;
pub mod recovery;
mod rtt;
pub mod store;
pub mod transports;
pub mod wires;

pub use rtt::run as rtt;
