//! Operators' commands in a venue of several shards.
//!
//! What concerns one instrument goes to the shard that has it, everything else to all. A root carries out
//! what is its own shard's at once. What is another's, or for all, the first shard's leader gives a
//! number and passes on ([`Root::direct`]): each shard carries it out once, in the order of the numbers, also
//! one that is away now and comes back.

use std::time::Instant;

use exchange::Root;
use serde_json::{Value, json};
use types::{ClockReading, Command, CommandKind, InstrumentParam, ShardId};

use super::act::{Exchange, LOOK_EVERY, WAIT};
use super::protocol::Reply;
use crate::config::Config;

/// Bits of a match number behind which its shard stands.
const MATCH_SHARD_SHIFT: u32 = 48;

/// The shard that a command is for; `None`: all. `placed` says where instruments are that have moved, by number
/// less one.
pub(super) fn target(
    config: &Config,
    placed: &[Option<ShardId>],
    command: &Command,
) -> Option<ShardId> {
    match command.kind {
        CommandKind::BustTrade | CommandKind::CorrectTrade => {
            Some(ShardId((command.qty.0 >> MATCH_SHARD_SHIFT) as u16))
        }
        // Where an instrument is to be concerns all.
        CommandKind::SetInstrument if command.param == InstrumentParam::Shard as u8 => None,
        _ => {
            let place = usize::from(command.instrument.0).checked_sub(1)?;
            let moved = placed.get(place).copied().flatten();
            Some(moved.unwrap_or_else(|| config.shard_place().shard_of(place)))
        }
    }
}

/// The shard that somebody names, from 0.
///
/// # Errors
/// Where there is one alone, and a name of none.
pub(super) fn named(config: &Config, text: &str) -> Result<u64, String> {
    if config.shards.count() < 2 {
        return Err("this venue has one shard: its instruments are nowhere else".to_string());
    }
    let found = config.shards.find(text);
    found.map(|of| u64::from(of.0)).ok_or_else(|| {
        let all: Vec<String> =
            (0..config.shards.count()).map(|of| config.shards.name(ShardId(of))).collect();
        format!("there is no such shard; there are {}", all.join(", "))
    })
}

/// How far each shard has come with the commands for all, and when the others were heard of.
struct Seen {
    carried_out: Vec<Option<u32>>,
    heard_ns: Vec<Option<u64>>,
}

fn seen(root: &Root, now: ClockReading, shards: u16) -> Seen {
    let own = root.engine().config().shard;
    let of = |shard: ShardId| match shard == own {
        true => Some((root.engine().directive(), now.now)),
        false => root.heard_of(shard).map(|(at, carried_out)| (carried_out, at)),
    };
    let all: Vec<_> = (0..shards).map(ShardId).map(of).collect();
    Seen {
        carried_out: all.iter().map(|one| one.map(|(number, _)| number)).collect(),
        heard_ns: all.iter().map(|one| one.map(|(_, at)| now.now.since(at))).collect(),
    }
}

/// What became of commands in one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ShardOutcome {
    Done,
    Refused,
    /// It has them, and has not told what came of them.
    Unknown,
    /// It does not have them.
    Waits,
}

/// Of a shard that has the commands or not, by what it has told of those that are for it.
fn shard_outcome(has: bool, outcomes: Vec<Option<bool>>) -> ShardOutcome {
    match has {
        false => ShardOutcome::Waits,
        true if outcomes.contains(&Some(false)) => ShardOutcome::Refused,
        true if outcomes.contains(&None) => ShardOutcome::Unknown,
        true => ShardOutcome::Done,
    }
}

impl Exchange {
    /// Where instruments are that have moved to another shard, by number less one.
    pub(super) fn placed(&self) -> Result<Vec<Option<ShardId>>, String> {
        if self.config.shards.count() < 2 {
            return Ok(Vec::new());
        }
        self.on_root(|root, _, _| {
            let engine = root.engine();
            let ids = engine.config().instruments.iter().map(|instrument| instrument.id);
            ids.map(|id| engine.placed(id)).collect()
        })
    }

    /// Gives commands to the shards that they are for, from the first shard's leader.
    /// `rule`: of what they have to be.
    pub(super) fn give_shards(&self, commands: Vec<Command>, rule: &str) -> Result<Reply, String> {
        let (config, shards) = (&self.config, self.config.shards.count());
        let own = ShardId(config.of_shard);
        let placed = self.placed()?;
        let targets: Vec<Option<ShardId>> =
            commands.iter().map(|command| target(config, &placed, command)).collect();
        let foreign = targets.iter().find(|of| **of != Some(own));
        if let Some(of) = foreign.filter(|_| own != ShardId(0)) {
            let first = config.shards.name(ShardId(0));
            return Err(match *of {
                Some(ShardId(0)) => format!(
                    "that is shard {first}'s, and this is {}'s root: ask the root that leads {first}",
                    config.shards.name(own)
                ),
                Some(of) => format!(
                    "that is shard {}'s, and this is {}'s root: ask the root that leads {} or {first}",
                    config.shards.name(of),
                    config.shards.name(own),
                    config.shards.name(of)
                ),
                None => format!(
                    "commands for all shards get their numbers from the first: ask the root that leads {first}"
                ),
            });
        }
        if let Some(of) = targets.iter().flatten().find(|of| of.0 >= shards) {
            return Err(format!("there is no shard {}: {shards} in all", of.0 + 1));
        }
        let given = self.on_root(move |root, now, out| {
            let direct = |(command, of)| {
                let number = root.direct(now, command, out).map_err(|why| why.to_string())?;
                Ok((number, of))
            };
            commands.into_iter().zip(targets).map(direct).collect::<Result<Vec<_>, String>>()
        })??;
        let number = given.last().map_or(0, |(number, _)| *number);
        let until = Instant::now() + WAIT;
        // The others carry out the numbers alone.
        let concerned = (0..shards).map(ShardId).filter_map(|of| {
            let own = given.iter().filter(|(_, to)| to.is_none_or(|to| to == of));
            let numbers: Vec<u32> = own.map(|(number, _)| *number).collect();
            Some((of, *numbers.last()?, numbers))
        });
        let concerned: Vec<_> = concerned.collect();
        let became = loop {
            let concerned = concerned.clone();
            let became = self.on_root(move |root, now, _| {
                let carried_out = seen(root, now, shards).carried_out;
                let outcome = |(of, last, numbers): &(ShardId, u32, Vec<u32>)| {
                    let has = carried_out[usize::from(of.0)].is_some_and(|known| known >= *last);
                    shard_outcome(
                        has,
                        numbers.iter().map(|number| root.directed(*of, *number)).collect(),
                    )
                };
                concerned.iter().map(outcome).collect::<Vec<ShardOutcome>>()
            })?;
            let settled =
                |one: &ShardOutcome| matches!(one, ShardOutcome::Done | ShardOutcome::Refused);
            if became.iter().all(settled) || Instant::now() >= until {
                break became;
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let names = |wanted: ShardOutcome| -> Vec<String> {
            let of = concerned.iter().zip(&became).filter(|(_, is)| **is == wanted);
            of.map(|((shard, ..), _)| config.shards.name(*shard)).collect()
        };
        let (done, refused) = (names(ShardOutcome::Done), names(ShardOutcome::Refused));
        let (unknown, waits) = (names(ShardOutcome::Unknown), names(ShardOutcome::Waits));
        let told = [
            (&done, "done in ", ""),
            (&refused, "refused by the engine of ", rule),
            (&unknown, "it has reached ", ", what came of it there is not known yet"),
            (&waits, "not yet in ", ", which carries it out when it is there again"),
        ];
        let told = told.into_iter().filter(|(of, ..)| !of.is_empty());
        let told: Vec<String> =
            told.map(|(of, before, behind)| format!("{before}{}{behind}", of.join(", "))).collect();
        let all = if concerned.len() == usize::from(shards) { " for all shards" } else { "" };
        let text = format!("command {number}{all}: {}", told.join("; "));
        match refused.is_empty() {
            true => Ok(Reply::done(
                text,
                json!({ "directive": number, "done": done, "unknown": unknown, "waits": waits }),
            )),
            false => Err(text),
        }
    }

    /// The shards as this one's root knows them: lines, and a document.
    pub(super) fn shards_seen(&self) -> Result<(Vec<String>, Value), String> {
        let (config, shards) = (&self.config, self.config.shards.count());
        if shards == 1 {
            return Ok((Vec::new(), Value::Null));
        }
        let seen = self.on_root(move |root, now, _| seen(root, now, shards))?;
        let placed = self.placed()?;
        let place = config.shard_place();
        let symbols = |at: usize| -> Vec<&str> {
            let here = |n: usize| {
                let moved = placed.get(n).copied().flatten();
                usize::from(moved.unwrap_or_else(|| place.shard_of(n)).0) == at
            };
            let all = config.instruments.0.iter().enumerate();
            all.filter(|(n, _)| here(*n)).map(|(_, entry)| entry.symbol.as_str()).collect()
        };
        let (mut lines, mut rows) = (Vec::new(), Vec::new());
        for (at, entry) in config.shards.0.iter().enumerate() {
            let symbols = symbols(at);
            let is = match (at == usize::from(config.of_shard), seen.heard_ns[at]) {
                (true, _) => "this one".to_string(),
                (false, Some(ns)) => format!("heard of {} ms ago", ns / 1_000_000),
                (false, None) => "not heard of".to_string(),
            };
            let carried_out = seen.carried_out[at];
            let known = carried_out.map_or_else(|| "?".to_string(), |number| number.to_string());
            lines.push(format!(
                "shard {}: {}; {is}, {known} commands for all carried out",
                entry.name,
                symbols.join(" ")
            ));
            rows.push(json!({
                "shard": entry.name, "symbols": symbols, "directives": carried_out,
                "heard_ns_ago": seen.heard_ns[at], "own": at == usize::from(config.of_shard),
            }));
        }
        Ok((lines, Value::Array(rows)))
    }
}

#[cfg(test)]
mod tests {
    use types::{InstrumentId, Qty};

    use super::*;
    use crate::config::Shards;

    #[test]
    fn what_is_of_one_instrument_or_trade_is_its_shards_and_all_else_everybodys() {
        let mut config = Config::default();
        config.shards = Shards::spread(2, &config);
        let of = |kind, instrument: u16, qty: u64| {
            let instrument = InstrumentId(instrument);
            target(
                &config,
                &[None, Some(ShardId(0))],
                &Command { instrument, qty: Qty(qty), ..Command::new(kind) },
            )
        };
        assert_eq!(of(CommandKind::SetPhase, 1, 0), Some(ShardId(0)));
        assert_eq!(of(CommandKind::SetPhase, 4, 0), Some(ShardId(1)));
        assert_eq!(of(CommandKind::SetPhase, 2, 0), Some(ShardId(0)), "it has moved");
        assert_eq!(of(CommandKind::MassCancel, 2, 0), Some(ShardId(0)));
        assert_eq!(of(CommandKind::MassCancel, 0, 0), None);
        assert_eq!(of(CommandKind::Kill, 0, 0), None);
        assert_eq!(of(CommandKind::BustTrade, 0, (1 << 48) + 7), Some(ShardId(1)));
        assert_eq!(of(CommandKind::BustTrade, 0, 7), Some(ShardId(0)));
    }
}
