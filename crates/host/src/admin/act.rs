//! What an operator's action does: questions to nodes between two of their inputs, and commands of
//! the log.
//!
//! Whatever changes the engine's state is an input of the log, with the operator's name in its
//! `cl_ord_id`, so a replay comes to the same state. Sessions and locks are the gateways' and in no
//! log.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use engine::Applied;
use exchange::{Role, Root, set_phase};
use gateway::Gateway;
use net::LoopHandle;
use serde_json::json;
use types::{
    AccountId, ClOrdId, ClockReading, Command, CommandKind, InstrumentId, NodeId, Outbox, Phase,
    Price, Qty, Seq,
};

use super::audit::Who;
use super::members;
use super::protocol::Reply;
use super::rules::{self, Kills, refused_by_engine, rule_of};
use super::shards;
use crate::admin::action::{Action, LIMITS, PARAMETERS, PHASES};
use crate::alarms::Alarms;
use crate::config::Config;
use crate::replica::line::RootLine;

/// Longest wait for nodes: a loop that does not answer for so long has other troubles.
pub(super) const WAIT: Duration = Duration::from_secs(3);

/// How often it is looked whether what was given is durable.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What became of commands that were given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Given {
    /// They are in the log and applied.
    Done,
    /// They are in the log, and applied once that is durable.
    Waits,
    /// One was not logged, or the engine refused it.
    Refused(Option<Applied>),
}

/// A running exchange, to its operators.
pub struct Exchange {
    pub(super) config: Config,
    pub(super) root: RootLine,
    edges: LoopHandle<Role>,
    /// By gateway number less one; none: they are on machines of their own.
    pub(super) gateways: Vec<NodeId>,
    pub(super) alarms: Alarms,
}

impl Exchange {
    /// The exchange of a configuration: the way to its root, and the loop of its gateways.
    pub fn new(
        config: &Config,
        root: RootLine,
        edges: LoopHandle<Role>,
        gateways: Vec<NodeId>,
    ) -> Exchange {
        let alarms = Alarms::default();
        Exchange { config: config.clone(), root, edges, gateways, alarms }
    }

    /// Whose status names these.
    pub fn with_alarms(self, alarms: &Alarms) -> Exchange {
        Exchange { alarms: alarms.clone(), ..self }
    }

    /// Carries out an action, and says what came of it.
    pub fn perform(&self, who: &Who, action: &Action) -> Reply {
        let outcome = match action {
            Action::Status => self.status(),
            Action::Sessions => self.sessions(),
            Action::Disconnect { account } => self.disconnect(account),
            Action::Lock { account } => self.lock(account, true),
            Action::Unlock { account } => self.lock(account, false),
            Action::ReplaceProxy { proxy, by } => self.replace_proxy(*proxy, *by),
            Action::Replicas { what } => members::perform(&self.root, what),
            Action::Revive { account } => self.revive(who, account),
            other => command(&self.config, other).and_then(|commands| self.give(who, commands)),
        };
        outcome.unwrap_or_else(Reply::refused)
    }

    /// Puts commands into the log, one after the other, until one is refused.
    fn give(&self, who: &Who, commands: Vec<Command>) -> Result<Reply, String> {
        let tag = ClOrdId(who.tag());
        let account = commands.first().map_or(AccountId(0), |command| command.account);
        let commands: Vec<Command> =
            commands.into_iter().map(|command| Command { cl_ord_id: tag, ..command }).collect();
        let rule = commands.first().map_or("", rule_of);
        let (placed, here) = (self.placed()?, Some(self.config.shard_place().id));
        let own = |of: &Command| shards::target(&self.config, &placed, of) == here;
        if self.config.shards.count() > 1 && !commands.iter().all(own) {
            return self.give_shards(commands, rule);
        }
        let (outcome, open, given) = self.on_root(move |root, now, out| {
            let open = open_orders(root, account);
            let (mut outcome, mut given) = (Given::Refused(None), Vec::new());
            for command in commands {
                // Orders may follow it into the log at once: of those nothing is said here.
                let seq = Seq(root.log().len() as u64 + 1);
                let applied = root.operator(now, command, out);
                given.extend(is_of(root, seq, tag).then_some(seq));
                outcome = match applied {
                    Some(Applied::Done) => Given::Done,
                    // It is in the log, and applied once that is durable.
                    None if given.last() == Some(&seq) => Given::Waits,
                    other => Given::Refused(other),
                };
                if let Given::Refused(_) = outcome {
                    break;
                }
            }
            (outcome, (open, open_orders(root, account)), given)
        })?;
        let seq = given.last().map_or(0, |last| last.0);
        match outcome {
            Given::Done | Given::Waits => {
                let (before, mut after) = open;
                if outcome == Given::Waits {
                    after = self.wait_for(&given, tag, (account, rule))?;
                }
                let text = match before == after {
                    true => format!("done, input {seq} of the log"),
                    false => {
                        format!("done, input {seq} of the log; open orders {before}, now {after}")
                    }
                };
                let data = json!({
                    "log_seq": seq, "open_orders_before": before, "open_orders_after": after,
                });
                Ok(Reply::done(text, data))
            }
            Given::Refused(Some(other)) => Err(refused_by_engine(other, seq, rule)),
            Given::Refused(None) => {
                Err("not logged: the log is full, or the exchange is closing".to_string())
            }
        }
    }

    /// Waits until these inputs of an operator are durable and applied, and none was refused; open orders of an account
    /// then. Another leader may have put others in their places. `rule`: of what they have to be.
    fn wait_for(
        &self,
        given: &[Seq],
        tag: ClOrdId,
        (account, rule): (AccountId, &str),
    ) -> Result<u64, String> {
        let (until, last) = (Instant::now() + WAIT, given.last().map_or(0, |last| last.0));
        while Instant::now() < until {
            let given = given.to_vec();
            let found = self.on_root(move |root, _, _| {
                let outcome = |seq| root.outcome(seq).filter(|_| is_of(root, seq, tag));
                let mut outcomes = given.iter().map(|seq| (seq.0, outcome(*seq)));
                let refused = outcomes.find(|(_, outcome)| *outcome != Some(Applied::Done));
                (root.engine().applied() >= last).then(|| (refused, open_orders(root, account)))
            })?;
            match found {
                Some((None, open)) => return Ok(open),
                Some((Some((seq, Some(other))), _)) => {
                    return Err(refused_by_engine(other, seq, rule));
                }
                Some((Some((seq, None)), _)) => {
                    return Err(format!(
                        "input {seq} of the log is applied; what came of it is not known here any more"
                    ));
                }
                None => std::thread::sleep(LOOK_EVERY),
            }
        }
        Err(format!(
            "given as input {last} of the log, which is not durable yet: it happens when the log goes on"
        ))
    }

    /// Takes orders of an account, or of all, again; says which kill switches are still on.
    fn revive(&self, who: &Who, account: &str) -> Result<Reply, String> {
        let id = account_id(&self.config, account)?;
        let action = Action::Revive { account: account.to_string() };
        let commands = command(&self.config, &action)?;
        let accounts = self.config.accounts.0.len() as u16;
        let kills = || self.on_root(move |root, _, _| Kills::of(root, accounts));
        let before = kills()?;
        let mut reply = self.give(who, commands)?;
        // What was done is done, whatever can be said of the others.
        if let Ok(after) = kills() {
            reply.text += &after.still_on(id, &before, |of| self.name(of));
        }
        Ok(reply)
    }

    /// What is asked of gateways needs some beside the root.
    fn needs_gateways(&self, account: &str, instead: &str) -> Result<(), String> {
        match self.gateways.is_empty() {
            true => Err(format!(
                "{account}: sessions and logons are the edges', on machines of their own, and a fleet's root \
                 tells them nothing of this: {instead}"
            )),
            false => Ok(()),
        }
    }

    fn disconnect(&self, account: &str) -> Result<Reply, String> {
        let id = one_account(&self.config, account)?;
        let instead = format!(
            "`kill {account}` cancels its orders and refuses new ones; `fairbell cluster drain EDGE` ends all \
             sessions of an edge"
        );
        self.needs_gateways(account, &instead)?;
        let found = self.on_gateways(move |gateway, now, out| gateway.disconnect(now, id, out))?;
        let at = found.iter().find(|(_, done)| *done).map(|(number, _)| *number);
        match at {
            Some(number) => Ok(Reply::done(
                format!("{account} is disconnected from gateway {number}"),
                json!({ "gateway": number }),
            )),
            None => Err(format!("{account} is logged on nowhere")),
        }
    }

    fn lock(&self, account: &str, locked: bool) -> Result<Reply, String> {
        let id = one_account(&self.config, account)?;
        let instead = match locked {
            true => {
                format!("`kill {account}` cancels its orders and refuses new ones until `revive`")
            }
            false => format!("nobody is locked there; `revive {account}` ends a `kill`"),
        };
        self.needs_gateways(account, &instead)?;
        let told = self.on_gateways(move |gateway, _, _| gateway.lock(id, locked))?;
        let done = told.iter().filter(|(_, done)| *done).count();
        let word = if locked { "locked" } else { "unlocked" };
        if done == 0 {
            return Err(format!("no gateway could be told: {account} is not {word}"));
        }
        let text = format!("{account} is {word} at {done} of {} gateways", self.gateways.len());
        Ok(Reply::done(text, json!({ "gateways": done, "of": self.gateways.len() })))
    }

    fn replace_proxy(&self, proxy: u16, by: Option<u16>) -> Result<Reply, String> {
        let done = self.on_root(move |root, now, out| {
            root.replace_proxy(now, NodeId(proxy), by.map(NodeId), out)
        })?;
        let new = done.map_err(|error| format!("proxy {proxy}: {error}"))?;
        let text = format!("proxy {new} takes the place of {proxy} with the next tree");
        Ok(Reply::done(text, json!({ "old": proxy, "new": new.0 })))
    }

    pub(super) fn on_root<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Root, ClockReading, &mut Outbox) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (to, from) = sync_channel(1);
        let asked = self.root.call(move |root, now, out| {
            let _ = to.try_send(call(root, now, out));
        });
        asked.map_err(|error| format!("the root was not asked: {error}"))?;
        from.recv_timeout(WAIT).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                "the root did not answer in time; look at its state again".to_string()
            }
            // What is asked of a root that does not lead is dropped.
            RecvTimeoutError::Disconnected => self.not_leading(),
        })
    }

    /// The answers of the gateways that are alive, by their numbers.
    pub(super) fn on_gateways<T: Send + 'static>(
        &self,
        call: impl Fn(&mut Gateway, ClockReading, &mut Outbox) -> T + Clone + Send + 'static,
    ) -> Result<Vec<(usize, T)>, String> {
        let (to, from) = sync_channel(self.gateways.len().max(1));
        for (number, node) in (1..).zip(&self.gateways) {
            let (call, to): (_, SyncSender<(usize, T)>) = (call.clone(), to.clone());
            let asked = self.edges.call(*node, move |role, now, out| {
                let answer = role.with_edge(out, |edge, out| call(edge.gateway_mut(), now, out));
                if let Some(answer) = answer {
                    let _ = to.try_send((number, answer));
                }
            });
            asked.map_err(|error| format!("gateway {number} was not asked: {error}"))?;
        }
        drop(to);
        let until = Instant::now() + WAIT;
        let mut answers = Vec::new();
        // Ends early once nobody is left who could answer: calls to gateways that died are dropped.
        while let Ok(answer) = from.recv_timeout(until.saturating_duration_since(Instant::now())) {
            answers.push(answer);
        }
        answers.sort_by_key(|(number, _)| *number);
        Ok(answers)
    }
}

fn open_orders(root: &Root, account: AccountId) -> u64 {
    match account {
        AccountId(0) => root.engine().open_orders() as u64,
        account => root.engine().standing(account).map_or(0, |s| u64::from(s.open_orders)),
    }
}

/// The commands of the log that an action is; for all others than those handled elsewhere.
fn command(config: &Config, action: &Action) -> Result<Vec<Command>, String> {
    let new = Command::new;
    let command = match action {
        Action::Kill { account } => {
            Command { account: account_id(config, account)?, param: 1, ..new(CommandKind::Kill) }
        }
        Action::Revive { account } => {
            Command { account: account_id(config, account)?, ..new(CommandKind::Kill) }
        }
        Action::Halt { instrument } => set_phase(instrument_id(config, instrument)?, Phase::Halt),
        Action::Resume { instrument } => {
            return Ok(resume(config, instrument_id(config, instrument)?));
        }
        Action::Phase { instrument, phase } => {
            let place = PHASES.iter().position(|name| name == phase).ok_or("no such phase")?;
            let phase = Phase::ALL.get(place).copied().ok_or("no such phase")?;
            set_phase(instrument_id(config, instrument)?, phase)
        }
        Action::Uncross { instrument } => {
            Command { instrument: instrument_id(config, instrument)?, ..new(CommandKind::Uncross) }
        }
        Action::MassCancel { account, instrument, side } => Command {
            account: account_id(config, account)?,
            instrument: instrument_id(config, instrument)?,
            param: match side.as_deref() {
                None => 0,
                Some("buy") => 1,
                Some("sell") => 2,
                Some(other) => return Err(format!("{other} is no side: buy or sell")),
            },
            ..new(CommandKind::MassCancel)
        },
        Action::SetLimit { account, limit, value } => {
            let place = LIMITS.iter().position(|name| name == limit).ok_or("no such limit")?;
            let value = if value == "none" { u64::MAX } else { number(value)? };
            Command {
                account: account_id(config, account)?,
                param: place as u8,
                qty: Qty(value),
                ..new(CommandKind::SetLimit)
            }
        }
        Action::SetInstrument { instrument, parameter, value } => {
            let place = PARAMETERS.iter().position(|name| name == parameter);
            let place = place.ok_or("no such parameter")?;
            let (price, qty) = match place {
                0 | 5 => (self::price(value)?, Qty(0)),
                7 => (Price(0), Qty(shards::named(config, value)?)),
                _ => (Price(0), Qty(number(value)?)),
            };
            let instrument = match instrument_id(config, instrument)? {
                InstrumentId(0) => return Err("set-instrument is about one instrument".to_string()),
                one => one,
            };
            let param = place as u8;
            Command { instrument, param, price, qty, ..new(CommandKind::SetInstrument) }
        }
        Action::BustTrade { match_number } => {
            Command { qty: Qty(*match_number), ..new(CommandKind::BustTrade) }
        }
        Action::CorrectTrade { match_number, price, lots } => {
            let price = self::price(price)?;
            rules::corrected(config, price, *lots)?;
            let qty = Qty(*match_number);
            Command { qty, price, min_qty: *lots, ..new(CommandKind::CorrectTrade) }
        }
        Action::ExpireOrders => new(CommandKind::ExpireOrders),
        Action::StartOfDay => Command { param: 1, ..new(CommandKind::StartOfDay) },
        Action::EndOfDay => new(CommandKind::EndOfDay),
        Action::Status
        | Action::Sessions
        | Action::Disconnect { .. }
        | Action::Lock { .. }
        | Action::Unlock { .. }
        | Action::ReplaceProxy { .. }
        | Action::Replicas { .. } => return Err("no command of the log".to_string()),
    };
    Ok(vec![command])
}

/// Whether an input of the log is this operator's.
fn is_of(root: &Root, seq: Seq, tag: ClOrdId) -> bool {
    root.log().get(seq).is_some_and(|input| input.command.cl_ord_id == tag)
}

/// Back to trading, each instrument in its own way.
fn resume(config: &Config, instrument: InstrumentId) -> Vec<Command> {
    let entries = (1..).map(InstrumentId).zip(&config.instruments.0);
    let wanted = entries.filter(|(id, _)| instrument.0 == 0 || *id == instrument);
    let phase = |batch_ms| if batch_ms > 0 { Phase::Batch } else { Phase::Continuous };
    wanted.map(|(id, entry)| set_phase(id, phase(entry.batch_ms))).collect()
}

/// An account by user name or number, or 0 for all.
fn account_id(config: &Config, text: &str) -> Result<AccountId, String> {
    if text == "all" {
        return Ok(AccountId(0));
    }
    one_account(config, text)
}

fn one_account(config: &Config, text: &str) -> Result<AccountId, String> {
    let accounts = &config.accounts.0;
    let named = accounts.iter().position(|entry| entry.username == text).map(|at| at + 1);
    let number = named.or_else(|| text.parse().ok().filter(|n| (1..=accounts.len()).contains(n)));
    number.map(|n| AccountId(n as u16)).ok_or_else(|| format!("no account {}", shown(text)))
}

/// An instrument by symbol or number, or 0 for all.
fn instrument_id(config: &Config, text: &str) -> Result<InstrumentId, String> {
    if text == "all" {
        return Ok(InstrumentId(0));
    }
    let entries = &config.instruments.0;
    let named = entries.iter().position(|entry| entry.symbol == text).map(|at| at + 1);
    let number = named.or_else(|| text.parse().ok().filter(|n| (1..=entries.len()).contains(n)));
    number.map(|n| InstrumentId(n as u16)).ok_or_else(|| format!("no instrument {}", shown(text)))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{} is no whole number", shown(text)))
}

fn price(text: &str) -> Result<Price, String> {
    types::decimal::price(text).ok_or_else(|| format!("{} is no price", shown(text)))
}

/// What somebody wrote, in one line and not too long.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(32).collect();
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(action: Action) -> Result<Command, String> {
        command(&Config::default(), &action).map(|commands| commands[0])
    }

    #[test]
    fn actions_are_the_commands_they_say() {
        let account = |text: &str| text.to_string();
        let kill = one(Action::Kill { account: account("FLOW03") }).unwrap();
        assert_eq!((kill.kind, kill.account, kill.param), (CommandKind::Kill, AccountId(3), 1));
        let revive = one(Action::Revive { account: account("all") }).unwrap();
        assert_eq!((revive.account, revive.param), (AccountId(0), 0));
        let halt = one(Action::Halt { instrument: account("GENB") }).unwrap();
        assert_eq!((halt.instrument, halt.param), (InstrumentId(3), Phase::Halt as u8));
        let limit = |value: &str| {
            one(Action::SetLimit {
                account: account("9"),
                limit: account("credit"),
                value: account(value),
            })
        };
        let set = limit("none").unwrap();
        assert_eq!((set.account, set.param, set.qty), (AccountId(9), 4, Qty(u64::MAX)));
        assert_eq!(limit("17").unwrap().qty, Qty(17));
        let reference = one(Action::SetInstrument {
            instrument: account("BTCUSD"),
            parameter: account("reference"),
            value: account("101.25"),
        });
        assert_eq!(reference.unwrap().price, Price(1_012_500));
        assert_eq!(one(Action::EndOfDay).unwrap().kind, CommandKind::EndOfDay);
    }

    #[test]
    fn everything_is_resumed_in_its_own_way() {
        let mut config = Config::default();
        config.instruments.0[1].batch_ms = 50;
        let all = command(&config, &Action::Resume { instrument: "all".to_string() }).unwrap();
        let phases: Vec<(u16, u8)> = all.iter().map(|c| (c.instrument.0, c.param)).collect();
        let (continuous, batch) = (Phase::Continuous as u8, Phase::Batch as u8);
        assert_eq!(phases, [(1, continuous), (2, batch), (3, continuous)]);
    }

    #[test]
    fn names_that_are_nobodys_are_refused_in_one_line() {
        for account in ["NOBODY", "0", "11", "-1", "", "FLOW01\n"] {
            let account = account.to_string();
            let why = one(Action::Kill { account }).expect_err("refused");
            assert_eq!(why.lines().count(), 1, "{why}");
        }
        assert!(one(Action::Halt { instrument: "4".to_string() }).is_err());
        let [instrument, parameter, value] = ["all", "tick", "0.01"].map(str::to_string);
        let why = one(Action::SetInstrument { instrument, parameter, value }).expect_err("refused");
        assert!(why.contains("one instrument"), "{why}");
        assert!(one_account(&Config::default(), "all").is_err(), "not where it must be one");
        let bad = Action::CorrectTrade { match_number: 1, price: "1.23456".to_string(), lots: 1 };
        assert!(one(bad).is_err());
    }

    #[test]
    fn limits_and_parameters_have_the_numbers_of_the_engine() {
        use types::{InstrumentParam, LimitKind};
        assert_eq!(LIMITS.len(), LimitKind::ALL.len());
        assert_eq!(LIMITS[LimitKind::MessageRate as usize], "messages-per-s");
        assert_eq!(LIMITS[LimitKind::FatFinger as usize], "fat-finger-bp");
        assert_eq!(PARAMETERS[InstrumentParam::QtyMax as usize], "qty-max");
        assert_eq!(PARAMETERS[InstrumentParam::Tick as usize], "tick");
        assert_eq!(PARAMETERS[InstrumentParam::Listed as usize], "listed");
        assert_eq!(PARAMETERS[InstrumentParam::Shard as usize], "shard");
        assert_eq!(PARAMETERS.len(), InstrumentParam::Placed as usize, "which is no operator's");
        assert_eq!(PHASES[Phase::VolatilityCall as usize], "volatility");
    }
}
