//! `fairbell bench`: the book, the engine, and a round trip beside a floor taken in the same run.

pub mod book;
mod echo;
pub mod pipeline;
mod rtt;

pub use rtt::run as rtt;
