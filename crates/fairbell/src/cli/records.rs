//! Options of the commands that read and write input logs, and of the checks.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::load;
use crate::config::Config;
use crate::failure::Failure;

/// Options of `fairbell log`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell log write --commands 1000000 --out day.log\n  \
    fairbell log write --commands 5000000 --out day.log --snapshot-at 2500000 --snapshot day.snap\n  \
    fairbell log replay day.log --from 2500000 --json      from the start\n  \
    fairbell log replay day.log --snapshot day.snap --json from half way: equal digests\n  \
    fairbell log dry-run out/exchange.log kill --account 3  what an operator's command would do")]
pub struct LogArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub log: Log,
}

/// What can be done with a log.
#[derive(Subcommand, Clone, Debug)]
pub enum Log {
    /// Write a log of generated commands of all kinds, through gateway decoding and engine
    Write(WriteArgs),
    /// Replay a log, from its start or from a snapshot, and print digests
    Replay(LogReplayArgs),
    /// Say what an operator's command would do at the end of a log; nothing is written
    DryRun(DryRunArgs),
}

/// Options of `fairbell log write`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell log write --commands 1000000 --out day.log\n  \
    fairbell log write --commands 50000 --out a.log --snapshot-at 25000 --snapshot a.snap")]
pub struct WriteArgs {
    /// Commands to write
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub commands: u64,
    /// The log
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Write a snapshot after this many commands
    #[arg(long, value_name = "K", requires = "snapshot")]
    pub snapshot_at: Option<u64>,
    /// The snapshot's file
    #[arg(long, value_name = "FILE", requires = "snapshot_at")]
    pub snapshot: Option<PathBuf>,
    /// Seed of everything drawn
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Options of `fairbell log replay`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell log replay out/exchange.log            digests of state and messages\n  \
    fairbell log replay a.log --from 25000 --json   outputs after 25,000 commands only\n  \
    fairbell log replay a.log --snapshot a.snap     from half way: the same digests")]
pub struct LogReplayArgs {
    /// The log
    #[arg(value_name = "FILE")]
    pub log: PathBuf,
    /// Begin with this snapshot instead of an empty exchange
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub snapshot: Option<PathBuf>,
    /// Digest outputs from after this many commands only, as a replay from a snapshot does
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub from: u64,
    /// Configuration that the log was written under [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Options of `fairbell log dry-run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell log dry-run out/exchange.log kill --account 3\n  \
    fairbell log dry-run out/exchange.log cancel --instrument 2 --side buy\n  \
    fairbell log dry-run out/exchange.log phase --instrument 2 --phase halt")]
pub struct DryRunArgs {
    /// The log
    #[arg(value_name = "FILE")]
    pub log: PathBuf,
    /// The command.
    #[command(subcommand)]
    pub operation: Operation,
    /// Configuration that the log was written under [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
}

/// An operator's commands.
#[derive(Subcommand, Clone, Debug)]
pub enum Operation {
    /// Kill switch: cancel everything of an account and refuse its orders
    #[command(after_help = "Examples:\n  fairbell log dry-run out/exchange.log kill --account 3")]
    Kill {
        /// The account; 0 for all
        #[arg(long, value_name = "N")]
        account: u16,
    },
    /// Cancel orders
    #[command(after_help = "Examples:\n  \
        fairbell log dry-run out/exchange.log cancel --instrument 2 --side buy")]
    Cancel {
        /// Of this account only
        #[arg(long, value_name = "N", default_value_t = 0)]
        account: u16,
        /// Of this instrument only
        #[arg(long, value_name = "N", default_value_t = 0)]
        instrument: u16,
        /// Of this side only
        #[arg(long, value_name = "SIDE", value_parser = ["buy", "sell"])]
        side: Option<String>,
    },
    /// Change the phase of an instrument
    #[command(after_help = "Examples:\n  \
        fairbell log dry-run out/exchange.log phase --instrument 2 --phase halt")]
    Phase {
        /// The instrument; 0 for all
        #[arg(long, value_name = "N", default_value_t = 0)]
        instrument: u16,
        /// The phase
        #[arg(long, value_name = "PHASE", value_parser = PHASES)]
        phase: String,
    },
    /// End the trading day
    #[command(after_help = "Examples:\n  fairbell log dry-run out/exchange.log end-of-day")]
    EndOfDay,
}

/// Names of phases, in the order of their numbers.
pub const PHASES: [&str; 8] =
    ["closed", "pre-open", "opening", "continuous", "halt", "volatility", "closing", "batch"];

/// Options of `fairbell explain`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell explain 3:17 --log out/exchange.log     request 17 of account 3\n  \
    fairbell explain 4711 --log out/exchange.log     the order with this reference on the feed\n  \
    fairbell explain 3:17 --log out/exchange.log --json")]
pub struct ExplainArgs {
    /// account:number of the request, or the order's reference on the feed
    #[arg(value_name = "ORDER")]
    pub order: String,
    /// The log
    #[arg(long, value_name = "FILE", default_value = "out/exchange.log")]
    pub log: PathBuf,
    /// Configuration that the log was written under [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Options of `fairbell statement`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell statement --log out/exchange.log                    all participants\n  \
    fairbell statement --log out/exchange.log --participant 3\n  \
    fairbell statement --log out/exchange.log --trades trades.csv")]
pub struct StatementArgs {
    /// The log
    #[arg(long, value_name = "FILE", default_value = "out/exchange.log")]
    pub log: PathBuf,
    /// Of this account only
    #[arg(long, value_name = "N")]
    pub participant: Option<u16>,
    /// Write every trade to FILE as CSV
    #[arg(long, value_name = "FILE")]
    pub trades: Option<PathBuf>,
    /// Configuration that the log was written under [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Options of `fairbell check`.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// What to check.
    #[command(subcommand)]
    pub check: Check,
}

/// The checks.
#[derive(Subcommand, Clone, Debug)]
pub enum Check {
    /// The order book against a naive model of the same rules, by random commands
    Book(CheckBookArgs),
    /// A configuration: every key, the certificates and keys it names, what accounts need
    Config(crate::tls::CheckConfigArgs),
}

/// Options of `fairbell check book`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell check book                              a minute of seeds\n  \
    fairbell check book --seconds 600 --seed-from 1000000\n  \
    fairbell check book --seed 4711                  one seed again")]
pub struct CheckBookArgs {
    /// How long
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub seconds: u64,
    /// First seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed_from: u64,
    /// This seed alone
    #[arg(long, value_name = "S", conflicts_with_all = ["seconds", "seed_from"])]
    pub seed: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The configuration named, or the usual one, checked as a whole.
pub fn config(path: Option<&std::path::Path>) -> Result<Config, Failure> {
    Ok(load(path)?.finish()?)
}

/// The same, for whoever opens the gateways' doors.
pub fn config_with_doors(path: Option<&std::path::Path>) -> Result<Config, Failure> {
    Ok(load(path)?.finish_with_doors()?)
}
