//! `fairbell log dry-run`: what an operator's command would do at the end of a log.

use clap::{Args, Subcommand};
use host::admin::action::PHASES;
use std::collections::BTreeMap;
use std::path::PathBuf;

use engine::{Applied, Output};
use types::{AccountId, ClOrdId, Command, CommandKind, InstrumentId};

use super::open;
use host::failure::Failure;
use host::failure::on;

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

/// Replays the log, then tries the command on a copy of the engine.
pub fn run(args: &DryRunArgs, also: &[engine::Config]) -> Result<(), Failure> {
    let opened = open(&args.log, args.config.as_deref(), also)?;
    let (mut engine, mut output) = (opened.begin(&args.log)?, Output::default());
    for input in opened.reader {
        let input = input.map_err(|error| on(&args.log, error))?;
        if input.seq.0 <= engine.applied() {
            continue;
        }
        output.clear();
        let _: Applied = engine.apply(&input, &mut output);
    }
    let command = command(&args.operation);
    let (applied, output) = engine.dry_run(&command);
    println!("after {} commands: {:?} {}", engine.applied(), command.kind, about(&command));
    if applied != Applied::Done {
        return Err(Failure::Run(format!("the exchange would not do it: {applied:?}")));
    }
    let mut reports: BTreeMap<String, u64> = BTreeMap::new();
    for report in &output.executions {
        let line =
            format!("account {}: {:?} {:?}", report.account, report.kind, report.cancel_reason);
        *reports.entry(line).or_default() += 1;
    }
    for (line, count) in reports {
        println!("  {count:>8}  {line}");
    }
    println!(
        "would send {} execution reports and {} messages on the feed; nothing was done",
        output.executions.len(),
        output.market.len()
    );
    Ok(())
}

fn about(command: &Command) -> String {
    format!("account {} instrument {} (0: all)", command.account, command.instrument)
}

fn command(operation: &Operation) -> Command {
    let mut command = match operation {
        Operation::Kill { account } => {
            Command { account: AccountId(*account), param: 1, ..Command::new(CommandKind::Kill) }
        }
        Operation::Cancel { account, instrument, side } => Command {
            account: AccountId(*account),
            instrument: InstrumentId(*instrument),
            param: match side.as_deref() {
                Some("buy") => 1,
                Some("sell") => 2,
                _ => 0,
            },
            ..Command::new(CommandKind::MassCancel)
        },
        Operation::Phase { instrument, phase } => Command {
            instrument: InstrumentId(*instrument),
            param: PHASES.iter().position(|name| name == phase).unwrap_or(0) as u8,
            ..Command::new(CommandKind::SetPhase)
        },
        Operation::EndOfDay => Command::new(CommandKind::EndOfDay),
    };
    command.cl_ord_id = ClOrdId(*b"DRY RUN       ");
    command
}
