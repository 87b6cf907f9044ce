//! The deterministic simulator: a world in which the exchange's own nodes run unchanged, with
//! virtual time, faulty links and wrong clocks, and the scenarios and checkers that use it.
//!
//! A seed decides everything; a failing one is all that is needed to see the failure again.

mod clock;
pub mod cloud;
pub mod days;
mod link;
mod queue;
pub mod replicas;
mod seeds;
pub mod shards;
pub mod strategies;
pub mod venue;
mod world;
pub mod zones;

pub use clock::{DRIFT_PPB_MAX, SimClock};
pub use link::{Bursts, GROUPS_MAX, LinkModel, LinkStats, Links, PathQueue, Weather, WeatherStats};
pub use world::{
    Blow, Fault, NoTap, Place, Sent, Tap, Verdict, World, WorldStats, Written, address,
};
