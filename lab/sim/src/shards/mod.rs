//! Venues of several shards: limits that span them, operators' commands for all of them, and orders
//! that never wait for a shard they are not for.
//!
//! Each shard is an engine behind a log: an input is applied once it is durable, a leader that dies
//! loses what was not, the next one begins with a snapshot and the log. Between shards, and between
//! participants and shards, messages are lost, doubled, delayed and reordered; shards are away, and
//! links between them are cut. The group that makes a log durable is not simulated here but in
//! [`crate::replicas`].
//!
//! A seed passes when
//! - the parts of each limit and what is on its way are never more than the limit, and what a ledger
//!   of the whole venue counts from the reports alone is never more either;
//! - each request is answered exactly once, and within [`ANSWERED_WITHIN_NS`] of time in which its
//!   own shard has a leader, whatever the others do;
//! - each shard carries out the operators' commands once and in the same order;
//! - every restart, and a replay of the whole log, gives an equal digest;
//! - when all faults are over, an account can use all that is left of its limit in any one shard.

mod checks;
mod seeds;
mod world;

use std::ops::Range;

pub(crate) use checks::Ledger;
use engine::AllotFault;
use types::Nanos;

pub use seeds::{SeedReport, Summary, Tally};
pub(crate) use seeds::{counts, run_many};

/// How long a request may take while its shard has a leader, whatever the links lose.
pub const ANSWERED_WITHIN_NS: u64 = 700 * Nanos::MILLI;

/// A mistake that the checks have to find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// One in the engine.
    Engine(AllotFault),
    /// Grants are told before they are durable, so that a home can forget them.
    SpeaksEarly,
    /// A shard answers nothing while another one has no leader.
    WaitsForOthers,
}

/// How it is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Shards of the venue, 2 to [`types::limits::SHARDS_MAX`].
    pub shards: u16,
    /// A mistake, for tests.
    pub sabotage: Option<Sabotage>,
}

counts! {
    requests "Requests of participants that were answered.",
    accepted "Orders taken.",
    trades "Executions, each side counted.",
    short "Orders refused because the shard's part of a limit was used up.",
    granted "Grants recorded.",
    returned "Returns recorded.",
    directives "Operators' commands for all shards, each shard counted.",
    lowered "Limits lowered by an operator.",
    lost "Messages lost.",
    doubled "Messages doubled.",
    crashes "Leaders that died.",
    forgotten "Inputs that died with their leader before they were durable.",
    snapshots "Restarts that began with a snapshot.",
    cuts "Links between shards that were cut.",
    filled "Limits used up in one shard after all faults.",
}

/// What a seed came to; the digest is of all shards' states at the end.
pub type Report = SeedReport<Counts>;

/// Plays one seed.
pub fn run(seed: u64, options: &Options) -> Report {
    world::World::new(seed, options).play()
}

/// Plays seeds on some threads; `progress` hears how many are done and have failed. A panic is a failure. The
/// summary does not depend on the threads.
pub fn run_seeds(
    seeds: Range<u64>,
    threads: usize,
    options: &Options,
    progress: &(impl Fn(u64, u64) + Sync),
) -> Summary<Counts> {
    run_many(seeds, threads, |seed| run(seed, options), progress)
}
