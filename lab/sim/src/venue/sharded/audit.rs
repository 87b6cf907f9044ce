//! What must hold of a venue of several shards in the end, from the logs of its shards alone: the merged
//! stream of each account, the parts of limits at every moment, the operators' commands.

use engine::{Applied, Config, Engine, Output};
use types::{AccountId, CommandKind, ExecutionReport, Input, LimitKind, MergeRecord, ShardId};

use crate::shards::Ledger;

/// What the logs say.
pub(super) struct Audit {
    /// By account less one: the merged stream.
    pub(super) merged: Vec<Vec<ExecutionReport>>,
    /// References in it; records of limits moved.
    pub(super) references: u64,
    pub(super) granted: u64,
    pub(super) trades: u64,
}

/// Plays all logs in the order of time, and checks limits after each input.
///
/// # Errors
/// What does not hold.
pub(super) fn audit(
    configs: &[Config],
    logs: &[Vec<Input>],
    limits: &[(LimitKind, u64)],
) -> Result<Audit, String> {
    let accounts = configs[0].accounts_max;
    let mut engines: Vec<Engine> = configs.iter().cloned().map(Engine::new).collect();
    let mut ledger = Ledger::new(configs.len(), accounts, limits);
    let mut streams: Vec<Vec<Vec<ExecutionReport>>> =
        vec![vec![Vec::new(); accounts]; configs.len()];
    let (mut granted, mut trades) = (0, 0);
    let mut inputs: Vec<(usize, &Input)> = Vec::new();
    for (shard, log) in logs.iter().enumerate() {
        inputs.extend(log.iter().map(|input| (shard, input)));
    }
    // What one shard does after it has heard of another has a later time than that.
    inputs.sort_by_key(|(shard, input)| (input.t_seq, *shard, input.seq));
    let mut out = Output::default();
    for (shard, input) in inputs {
        out.clear();
        let applied = engines[shard].apply(input, &mut out);
        let command = &input.command;
        if command.kind == CommandKind::SetLimit
            && applied == Applied::Done
            && configs[shard].home_of(command.account) == ShardId(shard as u16)
            && let Some(kind) = LimitKind::from_code(command.param)
        {
            ledger.set_limit(command.account, kind, command.qty.0);
        }
        granted += u64::from(command.kind == CommandKind::Allot && applied == Applied::Done);
        let mut concerned = vec![command.account];
        for report in &out.executions {
            streams[shard][usize::from(report.account.0) - 1].push(*report);
            trades += u64::from(report.kind == types::ExecutionKind::Executed);
            ledger.note(shard, input.t_in.0, report)?;
            concerned.push(report.account);
        }
        let known: Vec<&Engine> = engines.iter().collect();
        for account in concerned.into_iter().filter(|account| account.0 != 0) {
            ledger.check(&known, account)?;
        }
    }
    check_directives(logs)?;
    let mut references = 0;
    let merge = |number: usize| {
        let home = configs[0].home_of(AccountId(number as u16 + 1));
        let mut used = vec![0; configs.len()];
        let mut merged = Vec::new();
        for report in &streams[usize::from(home.0)][number] {
            let Some(MergeRecord { shard, up_to, .. }) = MergeRecord::told(report) else {
                merged.push(*report);
                continue;
            };
            references += 1;
            let (shard, up_to) = (usize::from(shard.0), up_to as usize);
            let new = streams[shard][number].get(used[shard]..up_to);
            merged.extend_from_slice(new.ok_or("the home refers to what is not there")?);
            used[shard] = up_to;
        }
        for (shard, stream) in streams.iter().enumerate().filter(|(n, _)| *n != usize::from(home.0))
        {
            if used[shard] != stream[number].len() {
                let (used, all) = (used[shard], stream[number].len());
                return Err(format!(
                    "account {}: {used} of {all} of shard {shard} merged",
                    number + 1
                ));
            }
        }
        Ok(merged)
    };
    let merged: Result<Vec<_>, String> = (0..accounts).map(merge).collect();
    Ok(Audit { merged: merged?, references, granted, trades })
}

/// Each shard carries out the operators' commands once and in the same order.
fn check_directives(logs: &[Vec<Input>]) -> Result<(), String> {
    let numbered = |log: &Vec<Input>| {
        let numbered = log.iter().map(|input| (input.source.gateway.0, input.command));
        let numbered = numbered.filter(|(from, command)| *from == 0 && command.session_seq != 0);
        let mut seen: Vec<_> = Vec::new();
        for (_, command) in numbered {
            if command.session_seq as usize == seen.len() + 1 {
                seen.push(command);
            }
        }
        seen
    };
    let first = numbered(&logs[0]);
    for (shard, log) in logs.iter().enumerate() {
        if numbered(log) != first {
            return Err(format!("shard {shard} carried out other commands for all than the first"));
        }
    }
    Ok(())
}
