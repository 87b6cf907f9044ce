//! `fairbell clock`: synchronized clocks, simulated and real, and what they are worth.
//!
//! The algorithm is the crate `clock`; here are its hosts. See docs/clock.md.

pub(crate) mod agent;
mod report;
mod simulate;
pub(crate) mod source;

use crate::cli::{Clock, ClockArgs};
use crate::failure::Failure;

/// Runs the command.
pub fn run(args: &ClockArgs) -> Result<(), Failure> {
    match &args.clock {
        Clock::Simulate(args) => simulate::run(args),
        Clock::Agent(args) => agent::run(args),
        Clock::Status(args) => source::run(args),
        Clock::Report(args) => report::run(args),
    }
}

/// What MiFID II's RTS 25 allows a gateway with latencies below a millisecond, against UTC, in ns.
const RTS25_NS: u64 = 100_000;
