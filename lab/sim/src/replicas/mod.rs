//! A group of replicas in a world of its own: their journals on simulated disks, their messages on a
//! faulty network, clients that send again until they are answered, receivers of a feed.
//!
//! A seed decides everything. Faults come for a while, each kind counted ([`Counts`]); then all is
//! mended, and at the end [`Checker`]s look at what clients, receivers and replicas hold. Bugs can be
//! put in on purpose ([`Bug`]), to see that a checker finds each.

mod check;
mod client;
mod driver;
mod faults;
mod ledger;
mod operator;
mod options;
mod receiver;
mod report;
mod seeds;
mod transfers;
mod world;

pub use options::{Bug, Options};
pub use report::{Checker, Counts, Found, Report, Summary};
pub use seeds::run_seeds;
pub use world::run;
