//! `fairbell bench`: the book, the engine, market data, the FIX codec, and a round trip, the latter
//! three beside a floor taken in the same run.

pub mod book;
pub mod decode;
mod echo;
pub mod fix;
pub mod pipeline;
mod rtt;

pub use rtt::run as rtt;
