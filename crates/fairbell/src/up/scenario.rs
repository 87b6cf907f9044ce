//! `--scenario FILE`: orders, generated flow and faults at given times of the play, the same each time.
//!
//! The file's times count from the start of play. Orders are entered by the built-in participants, each over
//! its own session; faults are an operator's actions, carried out by the exchange's own socket, and machines
//! that die. What is random comes of the seed.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use host::admin::action::Action as AdminAction;
use host::admin::protocol::Request;
use host::config::Config;
use host::failure::{Failure, on};
use participant::{Action, FlowMessage, Generator, GeneratorConfig, Special};
use serde::Deserialize;
use types::{Instrument, Nanos, OrderType, Price, Qty, Side, SplitMix64, TimeInForce};

use crate::options;

/// Messages of a scenario at most, those of generated flow counted.
const MESSAGES_MAX: usize = 1_000_000;
/// Names that orders of the file get in the flow begin here, which no generator reaches.
const NAMED_IDS: u64 = 1 << 50;
/// Between the numbers of two generated flows.
const FLOW_IDS: u64 = 1 << 32;
/// In whose name faults are done.
const NAME: &str = "scenario";

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct File {
    /// Of what is generated, instead of `flow.seed`.
    seed: Option<u64>,
    #[serde(rename = "order", default)]
    orders: Vec<NewEntry>,
    #[serde(rename = "replace", default)]
    replaces: Vec<ReplaceEntry>,
    #[serde(rename = "cancel", default)]
    cancels: Vec<CancelEntry>,
    #[serde(rename = "flow", default)]
    flows: Vec<FlowEntry>,
    #[serde(rename = "fault", default)]
    faults: Vec<FaultEntry>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct NewEntry {
    at: String,
    id: String,
    #[serde(default = "first")]
    account: u8,
    symbol: String,
    side: String,
    qty: String,
    price: Option<String>,
    #[serde(default = "day")]
    time_in_force: String,
    #[serde(default)]
    post_only: bool,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct ReplaceEntry {
    at: String,
    id: String,
    by: String,
    qty: String,
    price: String,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct CancelEntry {
    at: String,
    id: String,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct FlowEntry {
    at: String,
    #[serde(rename = "for")]
    lasts: String,
    symbol: String,
    rate: u64,
    #[serde(default = "hundred")]
    price: String,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct FaultEntry {
    at: String,
    kind: String,
    of: String,
}

fn first() -> u8 {
    1
}

fn day() -> String {
    "day".to_string()
}

fn hundred() -> String {
    "100".to_string()
}

/// What goes wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An operator's action.
    Operator(AdminAction),
    /// A proxy dies; its number from 1.
    Proxy(u16),
    /// A gateway dies, with the receiver on its machine; its number from 1.
    Gateway(u16),
}

/// A scenario that was read; times are ns after the start of play.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed of what is random.
    pub seed: u64,
    /// Requests, by time.
    pub messages: VecDeque<(u64, FlowMessage)>,
    /// Faults, by time.
    pub faults: VecDeque<(u64, Fault)>,
}

/// Orders of the file, by their names: number in the flow, instrument, participant.
type Named<'a> = BTreeMap<&'a str, (u64, Instrument, u8)>;

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// It can't be read, or says what can't be; the entry is named.
    pub fn read(path: &Path, config: &Config) -> Result<Scenario, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| on(path, error))?;
        Scenario::parse(&text, config).map_err(|why| on(path, why))
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// What it says can't be.
    pub fn parse(text: &str, config: &Config) -> Result<Scenario, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let seed = file.seed.unwrap_or(config.flow.seed);
        let mut messages = Vec::new();
        let mut named = Named::new();
        for entry in &file.orders {
            let of = |why: String| format!("[[order]] {:?}: {why}", entry.id);
            messages.push(new_order(entry, config, &mut named).map_err(of)?);
        }
        // A replacement of a replacement is found whatever their order in the file.
        let mut waiting: Vec<&ReplaceEntry> = file.replaces.iter().collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut failed = None;
            waiting.retain(|entry| match replace(entry, &mut named) {
                Ok(Some(message)) => {
                    messages.push(message);
                    false
                }
                Ok(None) => true,
                Err(why) => {
                    failed = Some(format!("[[replace]] {:?}: {why}", entry.id));
                    false
                }
            });
            match (failed, waiting.first()) {
                (Some(why), _) => return Err(why),
                (None, Some(entry)) if waiting.len() == before => {
                    return Err(format!("[[replace]] {:?}: no order of this id", entry.id));
                }
                _ => {}
            }
        }
        for entry in &file.cancels {
            let of = |why: String| format!("[[cancel]] {:?}: {why}", entry.id);
            let at = time(&entry.at).map_err(of)?;
            let found = named.get(entry.id.as_str()).copied();
            let (id, instrument, participant) =
                found.ok_or_else(|| of("no order of this id".to_string()))?;
            messages.push((at, message(id, instrument, participant, Action::Cancel)));
        }
        let mut seeds = SplitMix64::new(seed);
        for (place, entry) in file.flows.iter().enumerate() {
            let of = |why: String| format!("[[flow]] of {:?}: {why}", entry.symbol);
            let room = MESSAGES_MAX.saturating_sub(messages.len());
            let played = (seeds.next_u64(), place as u64 * FLOW_IDS);
            messages.extend(generated(entry, config, played, room).map_err(of)?);
        }
        if messages.len() > MESSAGES_MAX {
            return Err(format!("a scenario has {MESSAGES_MAX} requests at most"));
        }
        let mut faults = Vec::new();
        for entry in &file.faults {
            let of = |why: String| format!("[[fault]] {:?}: {why}", entry.kind);
            faults.push((time(&entry.at).map_err(of)?, fault(entry, config).map_err(of)?));
        }
        // Those of one time stay in the order of the file.
        messages.sort_by_key(|(at, _)| *at);
        faults.sort_by_key(|(at, _)| *at);
        Ok(Scenario { seed, messages: messages.into(), faults: faults.into() })
    }

    /// When its last request is due, ns after the start of play.
    pub fn play_ns(&self) -> u64 {
        self.messages.back().map_or(0, |(at, _)| *at)
    }
}

/// Time of an entry: a number and a unit, or `0`.
fn time(text: &str) -> Result<u64, String> {
    if matches!(text, "0" | "0s" | "0ms") {
        return Ok(0);
    }
    options::duration(text)
        .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        .map_err(|why| format!("{text:?}: {why}"))
}

fn instrument(config: &Config, symbol: &str) -> Result<Instrument, String> {
    let all = config.instruments();
    let found = all.iter().find(|one| one.symbol.as_str() == symbol);
    found.copied().ok_or_else(|| format!("no instrument {symbol:?}"))
}

fn quantity(text: &str, of: &Instrument) -> Result<Qty, String> {
    let lots = web::decimal::lots(text, of).filter(|lots| (1..=u64::from(u32::MAX)).contains(lots));
    let places = of.lot_decimals;
    lots.map(Qty).ok_or_else(|| format!("qty: a decimal above 0 with at most {places} places"))
}

fn price(text: &str) -> Result<Price, String> {
    let price = web::decimal::price(text).filter(|price| price.0 > 0);
    price.ok_or_else(|| "price: a decimal above 0 with at most 4 places".to_string())
}

fn message(id: u64, instrument: Instrument, participant: u8, action: Action) -> FlowMessage {
    FlowMessage { id, participant, instrument: instrument.id, action, special: Special::None }
}

fn new_order<'a>(
    entry: &'a NewEntry,
    config: &Config,
    named: &mut Named<'a>,
) -> Result<(u64, FlowMessage), String> {
    let players = config.flow.participants;
    if !(1..=players).contains(&u32::from(entry.account)) {
        return Err(format!("account: 1 to {players}, the built-in participants"));
    }
    let instrument = instrument(config, &entry.symbol)?;
    let side = match entry.side.as_str() {
        "buy" => Side::Buy,
        "sell" => Side::Sell,
        _ => return Err("side: buy or sell".to_string()),
    };
    let lives = web::request::TIMES_IN_FORCE.iter().find(|(name, _)| *name == entry.time_in_force);
    let (_, time_in_force) = lives.ok_or("time_in_force: day, gtc, ioc or fok")?;
    let limit = entry.price.as_deref().map(price).transpose()?;
    let id = NAMED_IDS + named.len() as u64;
    let participant = entry.account - 1;
    if named.insert(&entry.id, (id, instrument, participant)).is_some() {
        return Err("another order has this id".to_string());
    }
    let action = Action::New {
        side,
        qty: quantity(&entry.qty, &instrument)?,
        price: limit.unwrap_or(Price(0)),
        order_type: if limit.is_some() { OrderType::Limit } else { OrderType::Market },
        post_only: entry.post_only,
        time_in_force: match (limit, *time_in_force) {
            // A market order rests nowhere.
            (None, TimeInForce::Day) => TimeInForce::ImmediateOrCancel,
            (_, lives) => lives,
        },
    };
    Ok((time(&entry.at)?, message(id, instrument, participant, action)))
}

/// `None`: the order that it replaces is not known yet.
fn replace<'a>(
    entry: &'a ReplaceEntry,
    named: &mut Named<'a>,
) -> Result<Option<(u64, FlowMessage)>, String> {
    let Some((orig, instrument, participant)) = named.get(entry.id.as_str()).copied() else {
        return Ok(None);
    };
    let id = NAMED_IDS + named.len() as u64;
    if named.insert(&entry.by, (id, instrument, participant)).is_some() {
        return Err(format!("by: another order has the id {:?}", entry.by));
    }
    let (qty, price) = (quantity(&entry.qty, &instrument)?, price(&entry.price)?);
    let action = Action::Replace { orig, qty, price };
    Ok(Some((time(&entry.at)?, message(id, instrument, participant, action))))
}

/// Flow of an instrument, at even intervals, from a seed and with numbers of its own.
fn generated(
    entry: &FlowEntry,
    config: &Config,
    (seed, first_id): (u64, u64),
    room: usize,
) -> Result<Vec<(u64, FlowMessage)>, String> {
    let instrument = instrument(config, &entry.symbol)?;
    let (at, lasts) = (time(&entry.at)?, time(&entry.lasts)?);
    if entry.rate == 0 {
        return Err("rate: 1 or more a second".to_string());
    }
    let count = u128::from(entry.rate) * u128::from(lasts) / u128::from(Nanos::SECOND);
    let count = usize::try_from(count).ok().filter(|count| *count <= room);
    let count = count.ok_or_else(|| format!("a scenario has {MESSAGES_MAX} requests at most"))?;
    let mut settings = GeneratorConfig::new(instrument, price(&entry.price)?, seed);
    let players = u8::try_from(config.flow.participants).unwrap_or(u8::MAX);
    settings.participants = players.min(participant::PARTICIPANTS);
    let mut flow = Generator::new(settings);
    let due = |place: usize| {
        let after = place as u128 * u128::from(Nanos::SECOND) / u128::from(entry.rate);
        at.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    };
    let of = |place: usize| {
        let mut message = flow.next_message();
        message.id += first_id;
        if let Action::Replace { orig, .. } = &mut message.action {
            *orig += first_id;
        }
        (due(place), message)
    };
    Ok((0..count).map(of).collect())
}

fn fault(entry: &FaultEntry, config: &Config) -> Result<Fault, String> {
    let of = || entry.of.clone();
    let number = |most: u32| {
        let number =
            entry.of.parse::<u16>().ok().filter(|number| (1..=most).contains(&u32::from(*number)));
        number.ok_or_else(|| format!("of: 1 to {most}"))
    };
    let symbol = || {
        if entry.of != "all" {
            instrument(config, &entry.of)?;
        }
        Ok::<String, String>(of())
    };
    let account = |all: bool| {
        let known = config.accounts.0.iter().any(|account| account.username == entry.of);
        match known || (all && entry.of == "all") {
            true => Ok(of()),
            false => Err(format!("no account {:?}", entry.of)),
        }
    };
    Ok(match entry.kind.as_str() {
        "halt" => Fault::Operator(AdminAction::Halt { instrument: symbol()? }),
        "resume" => Fault::Operator(AdminAction::Resume { instrument: symbol()? }),
        "kill-account" => Fault::Operator(AdminAction::Kill { account: account(true)? }),
        "revive-account" => Fault::Operator(AdminAction::Revive { account: account(true)? }),
        "disconnect" => Fault::Operator(AdminAction::Disconnect { account: account(false)? }),
        "lock" => Fault::Operator(AdminAction::Lock { account: account(false)? }),
        "unlock" => Fault::Operator(AdminAction::Unlock { account: account(false)? }),
        "kill-proxy" => Fault::Proxy(number(host::deployment::proxies(config))?),
        "kill-gateway" => Fault::Gateway(number(config.overlay.receivers)?),
        _ => {
            let all = "halt, resume, kill-account, revive-account, disconnect, lock, unlock, \
                       kill-proxy and kill-gateway";
            return Err(format!("there are {all}"));
        }
    })
}

/// Faults that are still to come, and who carries out those of operators.
pub struct Script {
    waiting: VecDeque<(u64, Fault)>,
    operator: Option<Sender<AdminAction>>,
}

impl Script {
    /// Of a scenario, or of none. Operators' actions go to this socket, one after the other.
    ///
    /// # Errors
    /// There are such, and no socket.
    pub fn new(scenario: Option<&Scenario>, socket: Option<PathBuf>) -> Result<Script, Failure> {
        let waiting = scenario.map(|scenario| scenario.faults.clone()).unwrap_or_default();
        let acts = waiting.iter().any(|(_, fault)| matches!(fault, Fault::Operator(_)));
        let operator = match socket {
            _ if !acts => None,
            Some(socket) => {
                let (to, from) = channel();
                // Beside the thread that watches, for an answer may take a while. It ends with the script.
                std::thread::spawn(move || {
                    while let Ok(action) = from.recv() {
                        let request = Request { operator: Some(NAME.to_string()), action };
                        // What came of it is told as any operator's action is.
                        let _ = host::admin::ask(&socket, &request);
                    }
                });
                Some(to)
            }
            None => {
                let why = "--scenario: its faults need the operators' socket (admin.socket is off)";
                return Err(Failure::Usage(why.to_string()));
            }
        };
        Ok(Script { waiting, operator })
    }

    /// Nothing more goes wrong.
    pub fn is_over(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next machine that is to die by now, after what operators are to do by then was given to them.
    pub fn due(&mut self, played: Duration) -> Option<Fault> {
        let now = u64::try_from(played.as_nanos()).unwrap_or(u64::MAX);
        while self.waiting.front().is_some_and(|(at, _)| *at <= now) {
            match (self.waiting.pop_front(), &self.operator) {
                (Some((_, Fault::Operator(action))), Some(operator)) => {
                    // It ends later than this.
                    let _ = operator.send(action);
                }
                (Some((_, fault)), _) => return Some(fault),
                (None, _) => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        seed = 5
        [[cancel]]
        at = "3s"
        id = "c"
        [[replace]]
        at = "2s"
        id = "b"
        by = "c"
        qty = "30"
        price = "100.02"
        [[replace]]
        at = "1s"
        id = "a"
        by = "b"
        qty = "20"
        price = "100.01"
        [[order]]
        at = "0"
        id = "a"
        symbol = "GENA"
        side = "buy"
        qty = "10"
        price = "100"
        [[flow]]
        at = "500ms"
        for = "2s"
        symbol = "GENB"
        rate = 100
        [[flow]]
        at = "1s"
        for = "1s"
        symbol = "GENB"
        rate = 50
        [[fault]]
        at = "2s"
        kind = "resume"
        of = "GENA"
        [[fault]]
        at = "1500ms"
        kind = "halt"
        of = "GENA"
        [[fault]]
        at = "1700ms"
        kind = "kill-gateway"
        of = "2"
    "#;

    fn read(text: &str) -> Result<Scenario, String> {
        Scenario::parse(text, &Config::default())
    }

    #[test]
    fn a_scenario_is_the_same_each_time_and_in_order() {
        let scenario = read(FILE).expect("a scenario");
        assert_eq!(
            (scenario.seed, scenario.messages.len(), scenario.play_ns()),
            (5, 4 + 250, 3 * Nanos::SECOND)
        );
        assert!(scenario.messages.iter().is_sorted_by_key(|(at, _)| *at));
        assert_eq!(scenario.messages, read(FILE).expect("again").messages);
        let other = read(&FILE.replace("seed = 5", "seed = 6")).expect("another");
        assert_ne!(scenario.messages, other.messages);
        // What is named is found by its number, through its replacements.
        let named: Vec<&FlowMessage> =
            scenario.messages.iter().map(|(_, of)| of).filter(|of| of.id >= NAMED_IDS).collect();
        let [new, first, second, cancel] = named[..] else { panic!("{named:?}") };
        assert!(matches!(new.action, Action::New { qty: Qty(10), .. }));
        assert!(matches!(first.action, Action::Replace { orig, .. } if orig == new.id));
        assert!(matches!(second.action, Action::Replace { orig, .. } if orig == first.id));
        assert_eq!((cancel.action, cancel.id), (Action::Cancel, second.id));
        // Two flows of one instrument do not share numbers.
        let ids: Vec<u64> = scenario
            .messages
            .iter()
            .filter(|(_, of)| matches!(of.action, Action::New { .. }))
            .map(|(_, of)| of.id)
            .collect();
        let unique: std::collections::BTreeSet<u64> = ids.iter().copied().collect();
        assert_eq!(unique.len(), ids.len());
    }

    #[test]
    fn faults_come_at_their_times_and_once() {
        let scenario = read(FILE).expect("a scenario");
        let mut script = Script::new(Some(&scenario), Some("/nowhere".into())).expect("a script");
        assert_eq!(script.due(Duration::from_millis(1_000)), None);
        assert_eq!(script.waiting.len(), 3);
        assert_eq!(script.due(Duration::from_millis(1_800)), Some(Fault::Gateway(2)));
        assert_eq!((script.due(Duration::from_millis(1_900)), script.is_over()), (None, false));
        assert_eq!((script.due(Duration::from_secs(5)), script.is_over()), (None, true));
        assert!(Script::new(Some(&scenario), None).is_err(), "no socket");
        assert!(Script::new(None, None).expect("none").is_over());
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, why) in [
            (
                "id = \"a\"\n        symbol",
                "id = \"a\"\n        colour = \"red\"\n        symbol",
                "colour",
            ),
            ("at = \"0\"", "at = \"soon\"", "soon"),
            ("side = \"buy\"", "side = \"hold\"", "side"),
            ("qty = \"10\"", "qty = \"1.5\"", "qty"),
            ("price = \"100\"\n", "price = \"-1\"\n", "price"),
            ("symbol = \"GENA\"", "symbol = \"NONE\"", "NONE"),
            ("symbol = \"GENA\"", "account = 99\n        symbol = \"GENA\"", "account"),
            ("id = \"b\"\n        by = \"c\"", "id = \"z\"\n        by = \"c\"", "\"z\""),
            ("id = \"b\"\n        by = \"c\"", "id = \"b\"\n        by = \"a\"", "\"a\""),
            ("rate = 100", "rate = 0", "rate"),
            ("rate = 100", "rate = 100000000", "at most"),
            ("kind = \"halt\"", "kind = \"fire\"", "fire"),
            ("of = \"2\"", "of = \"0\"", "of: 1 to"),
        ] {
            assert!(FILE.contains(from), "{from}");
            let wrong = read(&FILE.replacen(from, to, 1)).expect_err(why);
            assert!(wrong.contains(why), "{why}: {wrong}");
        }
    }

    #[test]
    fn whatever_a_file_has_in_it_is_read_or_refused() {
        println!("seed 71");
        let mut rng = SplitMix64::new(71);
        let mut bytes = FILE.as_bytes().to_vec();
        for _ in 0..3_000 {
            let place = rng.below(bytes.len() as u64) as usize;
            let was = bytes[place];
            bytes[place] = rng.below(128) as u8;
            if let Ok(text) = std::str::from_utf8(&bytes)
                && let Ok(scenario) = read(text)
            {
                assert!(scenario.messages.len() <= MESSAGES_MAX);
            }
            bytes[place] = was;
        }
    }
}
