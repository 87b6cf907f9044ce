//! What an operator's action does: questions to nodes between two of their inputs, and commands of
//! the log.
//!
//! Whatever changes the engine's state is an input of the log, with the operator's name in its
//! `cl_ord_id`, so a replay comes to the same state. Sessions and locks are the gateways' and in no
//! log.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use engine::Applied;
use exchange::{
    Capacity, FIX_DOOR, Refusals, Role, Root, SessionInfo, gateway_capacities, set_phase,
};
use gateway::Gateway;
use net::LoopHandle;
use serde_json::{Value, json};
use types::{
    AccountId, ClOrdId, ClockReading, Command, CommandKind, InstrumentId, InstrumentParam, Nanos,
    NodeId, Outbox, Phase, Price, Qty, Seq,
};

use super::audit::Who;
use super::members;
use super::protocol::Reply;
use super::shards;
use crate::admin::action::{Action, LIMITS, PARAMETERS, PHASES};
use crate::alarms::{self, Alarms};
use crate::capacities;
use crate::config::Config;
use crate::refused;
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
    root: RootLine,
    edges: LoopHandle<Role>,
    /// By gateway number less one.
    gateways: Vec<NodeId>,
    alarms: Alarms,
}

/// A gateway as operators see it.
struct GatewayView {
    connections: usize,
    sessions: Vec<SessionInfo>,
    waiting: (usize, usize),
    locked: Vec<AccountId>,
    capacities: [Capacity; 2],
    refusals: Refusals,
    now: Nanos,
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

    fn disconnect(&self, account: &str) -> Result<Reply, String> {
        let id = one_account(&self.config, account)?;
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

    fn views(&self) -> Result<Vec<(usize, GatewayView)>, String> {
        let accounts = self.config.accounts.0.len() as u16;
        self.on_gateways(move |gateway, now, _| GatewayView {
            connections: gateway.connections(),
            sessions: gateway.logged_on(),
            waiting: gateway.requests_waiting(),
            locked: (1..=accounts).map(AccountId).filter(|id| gateway.is_locked(*id)).collect(),
            capacities: gateway_capacities(gateway),
            refusals: gateway.refusals().clone(),
            now: now.now,
        })
    }

    fn sessions(&self) -> Result<Reply, String> {
        let mut lines = vec![format!(
            "{:<8} {:>7} {:<5} {:>9} {:>10} {:>10} {:>8}",
            "account", "gateway", "door", "for s", "in", "out", "waiting"
        )];
        let (mut list, mut refusals) = (Vec::new(), Vec::new());
        for (number, view) in self.views()? {
            let listed = refused::listed(number, &view.refusals, view.now);
            refusals.extend(listed.into_iter().map(|(line, _)| line));
            for session in &view.sessions {
                let name = self.name(session.account);
                let door = if session.conn.door() == FIX_DOOR { "FIX" } else { "OUCH" };
                let for_s = view.now.since(session.since) as f64 / 1e9;
                let SessionInfo { messages_in, messages_out, waiting, .. } = *session;
                lines.push(format!(
                    "{name:<8} {number:>7} {door:<5} {for_s:>9.1} {messages_in:>10} \
                     {messages_out:>10} {waiting:>8}"
                ));
                list.push(json!({
                    "account": name, "number": session.account.0, "gateway": number, "door": door,
                    "since_ns": session.since.0, "for_ns": view.now.since(session.since),
                    "messages_in": messages_in, "messages_out": messages_out, "waiting": waiting,
                }));
            }
        }
        lines.extend(refusals);
        Ok(Reply::done(lines.join("\n"), Value::Array(list)))
    }

    fn status(&self) -> Result<Reply, String> {
        let accounts = self.config.accounts.0.len() as u16;
        let phases = self.config.instruments.0.len() as u16;
        let (mut data, killed, mut full) = self.on_root(move |root, _, _| {
            let engine = root.engine();
            let phase = |id| engine.phase(InstrumentId(id)).map_or("", phase_name);
            let answers = root.publishers().map(|publisher| publisher.store().answers());
            let answers = answers.map(|of| {
                json!({
                    "proven": of.proven, "tokens": of.tokens, "over_rate": of.over_rate,
                    "unproven_bytes_in": of.unproven_in, "unproven_bytes_out": of.unproven_out,
                })
            });
            let answers: Vec<Value> = answers.collect();
            let killed = |id: &u16| engine.standing(AccountId(*id)).is_some_and(|s| s.killed);
            let data = json!({
                "day_open": engine.is_open(),
                "log": log_of(root),
                "feed_next": engine.feed_next().0,
                "open_orders": engine.open_orders(),
                "all_killed": engine.is_killed(),
                "retransmission": answers,
                "phases": (1..=phases).map(phase).collect::<Vec<_>>(),
            });
            (data, (1..=accounts).filter(killed).collect::<Vec<_>>(), root.capacities())
        })?;
        let views = self.views()?;
        full.extend(views.iter().flat_map(|(_, view)| view.capacities));
        full.extend(capacities::journal_disk(&self.config));
        let (full, capacities) = capacities::told(&capacities::fullest(full));
        let mut locked: Vec<AccountId> =
            views.iter().flat_map(|(_, view)| view.locked.iter().copied()).collect();
        locked.sort_unstable();
        locked.dedup();
        let names = |ids: &[AccountId]| ids.iter().map(|id| self.name(*id)).collect::<Vec<_>>();
        let killed = names(&killed.into_iter().map(AccountId).collect::<Vec<_>>());
        let locked = names(&locked);
        let instruments: Vec<Value> = (self.config.instruments.0.iter())
            .zip(data["phases"].as_array().cloned().unwrap_or_default())
            .map(|(entry, phase)| json!({ "symbol": entry.symbol, "phase": phase }))
            .collect();
        let gateways: Vec<Value> = (views.iter())
            .map(|(number, view)| {
                json!({
                    "gateway": number, "connections": view.connections,
                    "sessions": view.sessions.len(), "requests_waiting": view.waiting.0,
                    "requests_in_flight": view.waiting.1,
                })
            })
            .collect();
        let (mut text, alarms) = alarms::told(&self.alarms.standing());
        let (lines, shards) = self.shards_seen()?;
        text.extend(lines);
        if !shards.is_null() {
            data["shards"] = shards;
        }
        text.push(format!(
            "day {}, {} open orders, input {} of the log {}, feed at {}",
            if data["day_open"] == json!(true) { "open" } else { "closed" },
            data["open_orders"],
            data["log"]["inputs"],
            room_of(&data["log"]),
            data["feed_next"],
        ));
        let phases =
            instruments.iter().map(|of| format!("{} {}", word(&of["symbol"]), word(&of["phase"])));
        text.push(format!("phases: {}", phases.collect::<Vec<_>>().join(", ")));
        let sessions: usize = views.iter().map(|(_, view)| view.sessions.len()).sum();
        text.push(format!(
            "{} of {} gateways answer, {sessions} sessions",
            views.len(),
            self.gateways.len()
        ));
        if data["all_killed"] == json!(true) {
            text.push("kill switch of the whole exchange is on".to_string());
        }
        text.extend(full);
        text.extend((!killed.is_empty()).then(|| format!("killed: {}", killed.join(" "))));
        text.extend((!locked.is_empty()).then(|| format!("locked: {}", locked.join(" "))));
        let (refused, refusals) = refused::counts(views.iter().map(|(_, view)| &view.refusals));
        let listed = |(number, view): &(usize, GatewayView)| {
            refused::listed(*number, &view.refusals, view.now)
        };
        let listed = views.iter().flat_map(listed).map(|(_, document)| document);
        let refusals = json!({ "counts": refusals, "last": listed.collect::<Vec<_>>() });
        text.extend(refused);
        for (key, value) in [
            ("alarms", alarms),
            ("capacities", capacities),
            ("instruments", json!(instruments)),
            ("gateways", json!(gateways)),
            ("killed", json!(killed)),
            ("locked", json!(locked)),
            ("logons_refused", refusals),
        ] {
            data[key] = value;
        }
        if let Some(data) = data.as_object_mut() {
            data.remove("phases");
        }
        Ok(Reply::done(text.join("\n"), data))
    }

    fn name(&self, account: AccountId) -> String {
        let place = usize::from(account.0).checked_sub(1);
        let entry = place.and_then(|place| self.config.accounts.0.get(place));
        entry.map_or_else(|| account.0.to_string(), |entry| entry.username.clone())
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
        from.recv_timeout(WAIT)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => {
                    "the root did not answer in time; look at its state again"
                }
                // What is asked of a root that does not lead is dropped.
                RecvTimeoutError::Disconnected => "this root does not lead: ask the one that does",
            })
            .map_err(str::to_string)
    }

    /// The answers of the gateways that are alive, by their numbers.
    fn on_gateways<T: Send + 'static>(
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

/// The log as operators see it; `room` is null where it has no end.
fn log_of(root: &Root) -> Value {
    let fill = root.fill();
    json!({
        "inputs": root.log().len(), "room": root.log().room(), "given_up": fill.given_up,
        "bytes_on_disk": fill.log.0, "streams_bytes_on_disk": fill.streams.0,
        "held_back": fill.held_back,
    })
}

/// How much it still takes, for people.
fn room_of(log: &Value) -> String {
    let room = log["room"].as_u64().map(|room| format!("with room for {room}"));
    let room = room.unwrap_or_else(|| "without end".to_string());
    match log["held_back"] == json!(true) {
        true => format!("{room} but no room on its disk: ORDERS WAIT"),
        false => room,
    }
}

fn phase_name(phase: Phase) -> &'static str {
    PHASES.get(phase as usize).copied().unwrap_or("")
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("")
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
            let instrument = instrument_id(config, instrument)?;
            let param = place as u8;
            Command { instrument, param, price, qty, ..new(CommandKind::SetInstrument) }
        }
        Action::BustTrade { match_number } => {
            Command { qty: Qty(*match_number), ..new(CommandKind::BustTrade) }
        }
        Action::CorrectTrade { match_number, price, lots } => Command {
            qty: Qty(*match_number),
            price: self::price(price)?,
            min_qty: *lots,
            ..new(CommandKind::CorrectTrade)
        },
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

fn refused_by_engine(applied: Applied, seq: u64, rule: &str) -> String {
    format!("the engine refused it: {applied:?}, input {seq} of the log{rule}")
}

/// What the engine asks of the value that a command sets, in words for its operator; empty where that
/// depends on more.
fn rule_of(command: &Command) -> &'static str {
    if command.kind != CommandKind::SetInstrument {
        return "";
    }
    match InstrumentParam::from_code(command.param) {
        Some(InstrumentParam::Reference) => {
            "; a reference price is a multiple of the tick in force and at most price_max, 0 is none"
        }
        Some(InstrumentParam::StaticCollar | InstrumentParam::DynamicCollar) => {
            "; a collar is at most 10000 hundredths of a percent, 0 is none"
        }
        Some(InstrumentParam::QtyMin) => "; qty-min is 1 to qty-max",
        Some(InstrumentParam::QtyMax) => "; qty-max is at least qty-min, and of 32 bits",
        Some(InstrumentParam::Tick) => "; a tick is above 0 and at most price_max",
        Some(InstrumentParam::Listed) => "; listed is 0 or 1",
        Some(InstrumentParam::Shard | InstrumentParam::Placed) | None => "",
    }
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
