//! The laboratory's program: what proves and measures the exchange, and is run by no venue.
//!
//! It links the product's library, so that what is drilled, attacked and measured is what is deployed.
//! Conventions are the product's: results on standard output, everything else on standard error, exit
//! codes 0, 1 and 2.

use std::ffi::OsString;

pub mod arbitrate;
pub mod attack;
pub mod backtest;
pub mod bench;
pub mod check;
pub mod cli;
pub mod clock;
pub mod cloud;
pub mod drill;
pub mod flat;
pub mod log;
pub mod own_feed;
pub mod replay;
pub mod reproduce;
pub mod resident;
pub mod simulate;
pub mod web;

use check::Check;
use cli::{Clock, Command, Feed};
use host::failure::Failure;

/// What drills and attacks start as processes: the product's own commands, in this program, too.
const PRODUCT: &[&str] =
    &["admin", "agent", "cluster", "journal", "load", "node", "query", "replica", "up"];

/// Runs one command line, the program's name first.
///
/// # Errors
/// Wrong usage, and what the command says.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let args: Vec<OsString> = args.into_iter().collect();
    if args.get(1).is_some_and(|name| PRODUCT.iter().any(|known| name == known)) {
        return fairbell::run(args);
    }
    let Some(cli) = fairbell::cli::parse::<cli::Cli>(args)? else { return Ok(()) };
    let generated = [log::generated::config()];
    match cli.command {
        Command::Attack(args) => attack::run(&args),
        Command::Backtest(args) => backtest::run(&args),
        Command::Bench(args) => bench::run(&args.bench),
        Command::Check(args) => match args.check {
            Check::Book(args) => check::book(&args),
        },
        Command::Clock(args) => match args.clock {
            Clock::Simulate(args) => clock::run(&args),
        },
        Command::Cloud(args) => cloud::run(&args),
        Command::Drill(args) => drill::run(&args.what),
        Command::Explain(args) => fairbell::explain::run(&args, &generated),
        Command::Feed(args) => match args.feed {
            Feed::Arbitrate(args) => arbitrate::run(&args),
            Feed::Own(args) => own_feed::run(&args),
        },
        Command::Log(args) => log::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Sim(args) => simulate::run(&args),
        Command::Statement(args) => fairbell::statement::run(&args, &generated),
        Command::Web(args) => web::run(&args),
    }
}
