//! `fairbell clock`: synchronized clocks, and what they are worth.
//!
//! The algorithm is the crate `clock`; here are its hosts. See docs/clock.md.

mod agent;
mod report;
mod source;

use clap::{Args, Subcommand};
use host::failure::Failure;

/// Options of `fairbell clock`.
#[derive(Args, Clone, Debug)]
pub struct ClockArgs {
    /// What to do.
    #[command(subcommand)]
    pub clock: Clock,
}

/// What can be done about clocks.
#[derive(Subcommand, Clone, Debug)]
pub enum Clock {
    /// Keep this machine's clock with others' by probes over UDP
    Agent(agent::AgentArgs),
    /// Which clock this machine has, and what its agent says
    Status(source::StatusArgs),
    /// Judge agents' traces: skew, drift, and the 100 us of RTS 25
    Report(report::ReportArgs),
}

/// Runs the command.
pub fn run(args: &ClockArgs) -> Result<(), Failure> {
    match &args.clock {
        Clock::Agent(args) => agent::run(args),
        Clock::Status(args) => source::run(args),
        Clock::Report(args) => report::run(args),
    }
}

/// What MiFID II's RTS 25 allows a gateway with latencies below a millisecond, against UTC, in ns.
pub(crate) const RTS25_NS: u64 = 100_000;
