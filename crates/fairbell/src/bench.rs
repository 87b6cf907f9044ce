//! `fairbell bench`: the book, the engine, the FIX codec, and a round trip, the latter two beside a
//! floor taken in the same run.

pub mod book;
mod echo;
pub mod fix;
pub mod pipeline;
mod rtt;

pub use rtt::run as rtt;
