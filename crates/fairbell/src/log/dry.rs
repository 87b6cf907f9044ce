//! `fairbell log dry-run`: what an operator's command would do at the end of a log.

use std::collections::BTreeMap;

use engine::{Applied, Output};
use types::{AccountId, ClOrdId, Command, CommandKind, InstrumentId};

use super::open;
use crate::cli::{DryRunArgs, Operation, PHASES};
use crate::failure::Failure;
use crate::failure::on;

/// Replays the log, then tries the command on a copy of the engine.
pub fn run(args: &DryRunArgs) -> Result<(), Failure> {
    let opened = open(&args.log, args.config.as_deref())?;
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
