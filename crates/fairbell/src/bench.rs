//! `fairbell bench`: measurements beside a floor taken in the same run.

mod echo;
mod rtt;

pub use rtt::run as rtt;
