//! What must hold of a venue of several shards in the end, from the logs of its shards alone: the merged
//! stream of each account, the parts of limits at every moment, the operators' commands.

use engine::{Applied, Config, Engine, MoveFault, Moved, Output, Told};
use types::{
    AccountId, CommandKind, ExecutionReport, Input, LimitKind, MergeRecord, PlaceRecord, ShardId,
};

use crate::shards::Ledger;

/// What the logs say.
pub(super) struct Audit {
    /// By account less one: the merged stream.
    pub(super) merged: Vec<Vec<ExecutionReport>>,
    /// References in it; records of limits moved.
    pub(super) references: u64,
    pub(super) granted: u64,
    pub(super) trades: u64,
    /// Open orders that went to another shard with their instrument; instruments that did.
    pub(super) moved: u64,
    pub(super) moves: u64,
    /// By shard: digest of the state that its log leads to.
    states: Vec<u64>,
}

impl Audit {
    /// Each shard's leader is what its log says.
    pub(super) fn check_states<'a>(
        &self,
        roots: impl Iterator<Item = Option<&'a exchange::Root>>,
    ) -> Result<(), String> {
        for (shard, (root, state)) in roots.zip(&self.states).enumerate() {
            if root.is_none_or(|root| root.engine().state_digest() != *state) {
                return Err(format!("the leader of shard {shard} is not what its log says"));
            }
        }
        Ok(())
    }
}

/// Plays all logs in the order of time, and checks limits after each input; `fault`: by rules with a mistake.
///
/// # Errors
/// What does not hold.
pub(super) fn audit(
    configs: &[Config],
    logs: &[Vec<Input>],
    limits: &[(LimitKind, u64)],
    fault: Option<MoveFault>,
) -> Result<Audit, String> {
    let accounts = configs[0].accounts_max;
    let mut engines: Vec<Engine> = configs.iter().cloned().map(Engine::new).collect();
    for (engine, fault) in engines.iter_mut().zip(std::iter::repeat(fault)) {
        fault.into_iter().for_each(|fault| engine.move_wrongly(fault));
    }
    let mut ledger = Ledger::new(configs.len(), accounts, limits);
    let mut streams: Vec<Vec<Vec<ExecutionReport>>> =
        vec![vec![Vec::new(); accounts]; configs.len()];
    let (mut granted, mut trades, mut moved, mut placed) = (0, 0, 0, 0);
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
        for told in out.in_order() {
            concerned.push(match told {
                Told::Report(report) => {
                    streams[shard][usize::from(report.account.0) - 1].push(*report);
                    trades += u64::from(report.kind == types::ExecutionKind::Executed);
                    ledger.note(shard, input.t_in.0, report)?;
                    report.account
                }
                Told::Moved(of) => {
                    ledger.note_moved(shard, of)?;
                    match of {
                        Moved::Order { came, report } => {
                            moved += u64::from(*came);
                            report.account
                        }
                        Moved::Position { account, .. } => *account,
                    }
                }
            });
        }
        placed +=
            out.executions.iter().filter(|report| PlaceRecord::told(report).is_some()).count();
        let known: Vec<&Engine> = engines.iter().collect();
        for account in concerned.into_iter().filter(|account| account.0 != 0) {
            ledger.check(&known, account)?;
        }
    }
    check_directives(logs)?;
    check_places(&engines, &ledger)?;
    let mut references = 0;
    let merge = |number: usize| {
        let home = configs[0].home_of(AccountId(number as u16 + 1));
        let mut used = vec![0; configs.len()];
        let mut merged = Vec::new();
        for report in &streams[usize::from(home.0)][number] {
            if PlaceRecord::told(report).is_some() {
                continue;
            }
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
    let moves = placed as u64 / accounts as u64;
    let states = engines.iter().map(Engine::state_digest).collect();
    Ok(Audit { merged: merged?, references, granted, trades, moved, moves, states })
}

/// Each instrument is traded by one shard, and what accounts have there is what they were told of.
fn check_places(engines: &[Engine], ledger: &Ledger) -> Result<(), String> {
    let config = engines[0].config();
    for instrument in config.instruments.iter().map(|instrument| instrument.id) {
        let at: Vec<usize> =
            (0..engines.len()).filter(|at| engines[*at].phase(instrument).is_some()).collect();
        let wanted = engines[0].placed(instrument).map(|shard| usize::from(shard.0));
        if at.len() != 1 || wanted.is_some_and(|wanted| at != [wanted]) {
            return Err(format!("{instrument:?} is traded by {at:?}, and was to be by {wanted:?}"));
        }
        if engines.iter().any(|engine| engine.moving(instrument).is_some()) {
            return Err(format!("{instrument:?} has not arrived"));
        }
    }
    for account in (1..=config.accounts_max as u16).map(AccountId) {
        let all = || {
            let of = |engine: &'_ Engine| -> Vec<engine::Position> {
                let ids = config.instruments.iter().map(|of| of.id);
                ids.map(|id| engine.position(account, id)).collect()
            };
            engines.iter().flat_map(of)
        };
        let lots: i64 = all().map(|position| position.lots).sum();
        let open: usize = engines
            .iter()
            .filter_map(|engine| engine.standing(account))
            .map(|standing| standing.open_orders as usize)
            .sum();
        if (lots, open) != ledger.held(account) {
            let told = ledger.held(account);
            return Err(format!(
                "{account:?} has {lots} lots, {open} orders; it was told {told:?}"
            ));
        }
    }
    Ok(())
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
