//! What operators look at: how the exchange is, and who is logged on.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use exchange::{Capacity, FIX_DOOR, Refusals, Root, SessionInfo, gateway_capacities};
use replication::ReplicaId;
use serde_json::{Value, json};
use types::{AccountId, InstrumentId, Nanos, Phase};

use super::act::Exchange;
use super::action::PHASES;
use super::protocol::Reply;
use crate::alarms;
use crate::capacities;
use crate::refused;

/// Where sessions are, of a root that has no gateway beside it.
const ELSEWHERE: &str =
    "sessions are the edges', on machines of their own: `fairbell cluster status` counts them";
/// Longest wait for the replica's loop where nothing else is asked of it.
const ANSWER: Duration = Duration::from_secs(1);

/// A replica that does not lead, as it knows the group.
struct Follower {
    leader: Option<ReplicaId>,
    term: u64,
    last: u64,
    committed: u64,
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

    /// The replica behind the line, if there is one, which does not lead.
    fn follower(&self) -> Option<Follower> {
        let (to, from) = sync_channel(1);
        let asked = self.root.call_member(move |member, _, _| {
            let (replica, leads) = (member.replica(), member.leading().is_some());
            let follower = Follower {
                leader: replica.standing().leader,
                term: replica.standing().term,
                last: replica.last(),
                committed: replica.committed(),
            };
            let _ = to.try_send((!leads).then_some(follower));
        });
        // A root that is in no group drops the question.
        asked.ok().and_then(|()| from.recv_timeout(ANSWER).ok()).flatten()
    }

    /// Why nothing is asked of this root, and whom to ask.
    pub(super) fn not_leading(&self) -> String {
        let leader = self.follower().and_then(|follower| follower.leader);
        match leader {
            Some(leader) => format!("this root does not lead: ask replica {}", leader.0),
            None => "this root does not lead, and knows of none that does: `fairbell cluster roots` says \
                     how each stands"
                .to_string(),
        }
    }

    /// What a replica that does not lead knows: its own alarms, and how far it has the log.
    fn status_of_follower(&self, of: &Follower) -> Reply {
        let (mut text, alarms) = alarms::told(&self.alarms.standing());
        text.push(match of.leader {
            Some(leader) => format!(
                "this root does not lead: replica {} does, in term {}; ask that for the exchange's state",
                leader.0, of.term
            ),
            None => format!("this root does not lead, and knows of none that does, in term {}", of.term),
        });
        text.push(format!(
            "its log goes up to {}, of which {} are committed",
            of.last, of.committed
        ));
        let data = json!({
            "leading": false, "leader": of.leader.map(|leader| leader.0), "term": of.term,
            "log": { "inputs": of.last, "committed": of.committed }, "alarms": alarms,
        });
        Reply::done(text.join("\n"), data)
    }

    pub(super) fn sessions(&self) -> Result<Reply, String> {
        if self.gateways.is_empty() {
            return Ok(Reply::done(ELSEWHERE, Value::Array(Vec::new())));
        }
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

    pub(super) fn status(&self) -> Result<Reply, String> {
        // Among the replicas of one process whoever leads is asked.
        if let Some(of) = self.follower().filter(|_| !self.root.is_group()) {
            return Ok(self.status_of_follower(&of));
        }
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
        text.push(match self.gateways.len() {
            0 => ELSEWHERE.to_string(),
            all => format!("{} of {all} gateways answer, {sessions} sessions", views.len()),
        });
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

    pub(super) fn name(&self, account: AccountId) -> String {
        let place = usize::from(account.0).checked_sub(1);
        let entry = place.and_then(|place| self.config.accounts.0.get(place));
        entry.map_or_else(|| account.0.to_string(), |entry| entry.username.clone())
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
