//! Reads a configuration, remembers where each value was set, and checks values and relations.
//!
//! Order: syntax, then unknown keys, types and ranges in the order of the file (first complaint
//! wins), then options of the command line, then relations between keys. One complaint is one line:
//! `fairbell.toml:12: overlay.fanout: must be 1..=64, is 0`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Config;
use super::keys::{self, Given, KEYS, LISTS};

/// The configuration file read when no other is named and this one exists.
pub const CONFIG_FILE: &str = "fairbell.toml";
/// Doors without TLS.
const PLAIN: &str = "doors.plain";

/// One line that says what is wrong and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError(String);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Where a value was set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    Line(usize),
    Option(&'static str),
}

/// A configuration on its way: read, perhaps overridden, not yet checked as a whole.
#[derive(Clone, Debug)]
pub struct Loaded {
    config: Config,
    name: String,
    origins: BTreeMap<String, Origin>,
    is_file: bool,
}

/// The configuration in `path`, or the usual one, checked as a whole.
///
/// # Errors
/// What is wrong with it, and where.
pub fn read(path: Option<&Path>) -> Result<Config, ConfigError> {
    Loaded::usual(path)?.finish()
}

/// The same, for whoever opens the gateways' doors.
///
/// # Errors
/// As for [`read`], and what is wrong with the doors' certificates, keys and accounts.
pub fn read_with_doors(path: Option<&Path>) -> Result<Config, ConfigError> {
    Loaded::usual(path)?.finish_with_doors()
}

impl Loaded {
    /// The built-in defaults.
    pub fn defaults() -> Loaded {
        let name = "built-in defaults".to_string();
        Loaded { config: Config::default(), name, origins: BTreeMap::new(), is_file: false }
    }

    /// The file at `path`; without one [`CONFIG_FILE`] if it exists, else the defaults.
    ///
    /// # Errors
    /// What is wrong with the file, and where.
    pub fn usual(path: Option<&Path>) -> Result<Loaded, ConfigError> {
        match path {
            Some(path) => Loaded::file(path),
            None if Path::new(CONFIG_FILE).exists() => Loaded::file(Path::new(CONFIG_FILE)),
            None => Ok(Loaded::defaults()),
        }
    }

    /// The sample's folder, as an option of the command line names it.
    ///
    /// # Errors
    /// That the value may not be so.
    pub fn set_sample(&mut self, folder: Option<&Path>) -> Result<(), ConfigError> {
        let Some(folder) = folder else { return Ok(()) };
        let text = folder.to_string_lossy().into_owned();
        self.set("flow.sample", "--sample", text, |config, folder| config.flow.sample = folder)
    }

    /// Reads the file at `path`.
    pub fn file(path: &Path) -> Result<Loaded, ConfigError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError(format!("{name}: cannot be read: {error}")))?;
        Loaded::text(&name, &text)
    }

    /// Reads `text`; `name` stands for the file in complaints.
    pub fn text(name: &str, text: &str) -> Result<Loaded, ConfigError> {
        let syntax = |error: toml::de::Error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            ConfigError(format!("{name}:{line}: {message}"))
        };
        let document = DeTable::parse(text).map_err(syntax)?;
        let mut walk = Walk { text, origins: BTreeMap::new(), complaints: Vec::new() };
        walk.document(document.get_ref());
        if let Some((at, complaint)) = walk.complaints.iter().min_by_key(|(at, _)| *at) {
            return Err(ConfigError(format!("{name}:{}: {complaint}", line_of(text, *at))));
        }
        let mut config: Config = toml::from_str(text).map_err(syntax)?;
        if config.doors.tls() {
            config.doors.plain &= walk.origins.contains_key(PLAIN);
        }
        Ok(Loaded { config, name: name.to_string(), origins: walk.origins, is_file: true })
    }

    /// Sets the key at `path` from the command line's `option`, after checking the value.
    pub fn set<T: Clone>(
        &mut self,
        path: &str,
        option: &'static str,
        value: T,
        assign: impl FnOnce(&mut Config, T),
    ) -> Result<(), ConfigError>
    where
        Given: From<T>,
    {
        let complaint = keys::find(path).and_then(|key| key.kind.complaint(&value.clone().into()));
        if let Some(complaint) = complaint {
            return Err(ConfigError(format!("{option}: {path}: {complaint}")));
        }
        assign(&mut self.config, value);
        self.origins.insert(path.to_string(), Origin::Option(option));
        Ok(())
    }

    /// As [`Loaded::finish`], for whoever opens the gateways' doors: a file has to say itself that
    /// they may be plain.
    pub fn finish_with_doors(self) -> Result<Config, ConfigError> {
        let said = !self.is_file || self.origins.contains_key(PLAIN);
        let name = self.name.clone();
        let config = self.finish()?;
        if said || config.doors.tls() {
            return Ok(config);
        }
        let why = "must be there and true for doors without TLS, on the loopback address; or give \
                   doors.certificate";
        Err(ConfigError(format!("{name}: {PLAIN}: {why}")))
    }

    /// Checks relations between keys and hands out the configuration.
    pub fn finish(self) -> Result<Config, ConfigError> {
        match relations(&self.config).into_iter().next() {
            None => Ok(self.config),
            Some([first, second]) => {
                // Of the two keys that do not fit together, blame the one that was set.
                let blame_second =
                    !self.origins.contains_key(&first.0) && self.origins.contains_key(&second.0);
                let (path, complaint) = if blame_second { second } else { first };
                let place = match self.origins.get(&path) {
                    Some(Origin::Line(line)) => format!("{}:{line}", self.name),
                    Some(Origin::Option(option)) => option.to_string(),
                    None => self.name,
                };
                Err(ConfigError(format!("{place}: {path}: {complaint}")))
            }
        }
    }
}

/// Compares every key of a document with the table.
struct Walk<'t> {
    text: &'t str,
    origins: BTreeMap<String, Origin>,
    /// Byte position and what is wrong there.
    complaints: Vec<(usize, String)>,
}

impl Walk<'_> {
    fn document(&mut self, document: &DeTable<'_>) {
        for (name, value) in document {
            let (at, name) = (name.span().start, name.get_ref().as_ref());
            if let Some((list, most)) = LISTS.iter().find(|(list, _)| *list == name) {
                self.list(list, *most, value);
            } else if KEYS.iter().any(|key| section(key.path) == name) {
                match value.get_ref() {
                    DeValue::Table(table) => self.table(name, name, table),
                    _ => self.complaints.push((at, format!("{name}: must be a table, [{name}]"))),
                }
            } else {
                self.complaints.push((at, format!("{name}: unknown section")));
            }
        }
    }

    fn list(&mut self, list: &str, most: usize, value: &Spanned<DeValue<'_>>) {
        let DeValue::Array(entries) = value.get_ref() else {
            let complaint = format!("{list}: must be a list of tables, [[{list}]]");
            return self.complaints.push((value.span().start, complaint));
        };
        if !(1..=most).contains(&entries.len()) {
            let complaint = format!("{list}: must have 1..={most} entries, has {}", entries.len());
            self.complaints.push((value.span().start, complaint));
        }
        for (index, entry) in entries.iter().enumerate() {
            let path = format!("{list}[{index}]");
            let at = entry.span().start;
            self.origins.insert(path.clone(), Origin::Line(line_of(self.text, at)));
            let DeValue::Table(table) = entry.get_ref() else {
                self.complaints.push((at, format!("{path}: must be a table")));
                continue;
            };
            self.table(list, &path, table);
            for key in KEYS.iter().filter(|key| key.required && section(key.path) == list) {
                let name = &key.path[list.len() + 1..];
                if !table.keys().any(|given| given.get_ref() == name) {
                    self.complaints.push((at, format!("{path}.{name}: is missing")));
                }
            }
        }
    }

    /// `section` is the name in the table of keys, `path` the one that people are shown.
    fn table(&mut self, section: &str, path: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let (at, name) = (name.span().start, name.get_ref());
            let shown = format!("{path}.{name}");
            let known = format!("{section}.{name}");
            match keys::find(&known) {
                None => {
                    let hint = keys::nearest(&known)
                        .map_or(String::new(), |near| format!("; did you mean {near}?"));
                    self.complaints.push((at, format!("{shown}: unknown key{hint}")));
                }
                Some(key) => {
                    if let Some(complaint) = key.kind.complaint(&Given::from(value.get_ref())) {
                        self.complaints.push((at, format!("{shown}: {complaint}")));
                    }
                }
            }
            self.origins.insert(shown, Origin::Line(line_of(self.text, at)));
        }
    }
}

impl From<&DeValue<'_>> for Given {
    fn from(value: &DeValue<'_>) -> Given {
        match value {
            DeValue::Boolean(on) => Given::Switch(*on),
            DeValue::String(text) => Given::Text(text.to_string()),
            DeValue::Integer(n) => i128::from_str_radix(n.as_str(), n.radix())
                .map_or(Given::Other("a number out of range"), Given::Whole),
            DeValue::Float(x) => {
                x.as_str().parse().map_or(Given::Other("not a number"), Given::Decimal)
            }
            DeValue::Datetime(_) => Given::Other("a date"),
            DeValue::Array(list) => {
                let text = |one: &Spanned<DeValue<'_>>| match one.get_ref() {
                    DeValue::String(text) => Some(text.to_string()),
                    _ => None,
                };
                let texts = list.iter().map(text).collect::<Option<Vec<_>>>();
                let texts = texts.filter(|texts| !texts.is_empty());
                texts.map_or(Given::Other("a list"), Given::Texts)
            }
            DeValue::Table(_) => Given::Other("a table"),
        }
    }
}

impl From<bool> for Given {
    fn from(on: bool) -> Given {
        Given::Switch(on)
    }
}

impl From<u32> for Given {
    fn from(n: u32) -> Given {
        Given::Whole(n.into())
    }
}

impl From<u64> for Given {
    fn from(n: u64) -> Given {
        Given::Whole(n.into())
    }
}

impl From<String> for Given {
    fn from(text: String) -> Given {
        Given::Text(text)
    }
}

fn section(path: &str) -> &str {
    path.split_once('.').map_or(path, |(section, _)| section)
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// What does not fit together: the key to blame, and why.
/// A key and what is wrong with it.
type Complaint = (String, String);

/// Takes a complaint, as seen from either of two keys.
pub(super) type Both<'a> = dyn FnMut((&str, String), (&str, String)) + 'a;

/// What does not fit together, seen from either key.
fn relations(config: &Config) -> Vec<[Complaint; 2]> {
    let mut found = Vec::new();
    let mut both = |a: (&str, String), b: (&str, String)| {
        found.push([(a.0.to_string(), a.1), (b.0.to_string(), b.1)]);
    };
    let Config { hold, gateway, flow, .. } = config;
    let (max_hold, cap) = (gateway.max_hold_ms, hold.cap_ms);
    if max_hold < cap {
        let lower = "the latest a tick can be due";
        both(
            (
                "gateway.max_hold_ms",
                format!("must be at least hold.cap_ms ({cap}), {lower}, is {max_hold}"),
            ),
            ("hold.cap_ms", format!("must be at most gateway.max_hold_ms ({max_hold}), is {cap}")),
        );
    }
    if (1..1_024).contains(&config.ports.base) {
        let why = format!("must be 0 or 1024..=60000, is {}", config.ports.base);
        both(("ports.base", why.clone()), ("ports.base", why));
    }
    let ring = &config.ports.ring;
    if ring != super::doors::NONE
        && let Some(why) = crate::feed_ring::unfit(std::path::Path::new(ring), "edge-1000")
    {
        both(("ports.ring", why.clone()), ("ports.ring", why));
    }
    super::journal::relations(config, &mut both);
    super::calendar::relations(config, &mut both);
    let accounts = &config.accounts.0;
    let (participants, count) = (flow.participants, accounts.len());
    if participants as usize > count {
        both(
            (
                "flow.participants",
                format!("must be at most the number of accounts ({count}), is {participants}"),
            ),
            (
                "account[0].username",
                format!("{count} accounts are too few for flow.participants ({participants})"),
            ),
        );
    }
    day(config, &mut both);
    overlay(config, &mut both);
    trees(config, &mut both);
    let mut seen = BTreeSet::new();
    for (index, entry) in config.instruments.0.iter().enumerate() {
        let path = |key: &str| format!("instrument[{index}].{key}");
        if !seen.insert(entry.symbol.as_str()) {
            let why = format!("{:?} is there twice", entry.symbol);
            both((&path("symbol"), why.clone()), (&path("symbol"), why));
        }
        if entry.qty_min > entry.qty_max {
            let (least, most) = (entry.qty_min, entry.qty_max);
            both(
                (&path("qty_min"), format!("must be at most qty_max ({most}), is {least}")),
                (&path("qty_max"), format!("must be at least qty_min ({least}), is {most}")),
            );
        }
        if entry.tick > entry.price_max {
            let (most, tick) = (entry.price_max, entry.tick);
            both(
                (&path("tick"), format!("must be at most price_max ({most}), is {tick}")),
                (&path("price_max"), format!("must be at least tick ({tick}), is {most}")),
            );
        } else if entry.reference > entry.price_max {
            let (most, reference) = (entry.price_max, entry.reference);
            both(
                (&path("reference"), format!("must be at most price_max ({most}), is {reference}")),
                (
                    &path("price_max"),
                    format!("must be at least reference ({reference}), is {most}"),
                ),
            );
        } else if entry.tick.0 > 0 && entry.reference.0 % entry.tick.0 != 0 {
            let (tick, reference) = (entry.tick, entry.reference);
            both(
                (
                    &path("reference"),
                    format!("must be a multiple of tick ({tick}), is {reference}"),
                ),
                (&path("tick"), format!("must divide reference ({reference}), is {tick}")),
            );
        }
    }
    seen.clear();
    logins(config, &mut both);
    super::throttles::relations(config, &mut both);
    for (index, entry) in accounts.iter().enumerate() {
        if !seen.insert(entry.username.as_str()) {
            let path = format!("account[{index}].username");
            let why = format!("{:?} is there twice", entry.username);
            both((&path, why.clone()), (&path, why));
        }
    }
    super::doors::relations(config, &mut both);
    super::loops::relations(config, &mut both);
    super::memory::relations(config, &mut both);
    super::retransmission::relations(config, &mut both);
    super::shards::relations(config, &mut both);
    super::strategies::relations(config, &mut both);
    super::telemetry::relations(config, &mut both);
    found
}

/// Relations of the tree's keys.
fn overlay(config: &Config, both: &mut impl FnMut((&str, String), (&str, String))) {
    let overlay = &config.overlay;
    if let Err(why) = overlay.layer_hedges() {
        both(
            ("overlay.layer_hedges", why.clone()),
            ("overlay.depth", format!("layer_hedges {why}")),
        );
    }
    if overlay.planes > 1 && overlay.hedging == "extra-fanout" {
        let why = "planes and extra-fanout do not go together".to_string();
        both(("overlay.planes", why.clone()), ("overlay.hedging", why));
    }
    if overlay.standby > 0 && overlay.by_symbol() {
        let why = "nobody can stand by for trees by symbol".to_string();
        both(("overlay.standby", why.clone()), ("overlay.plane_use", why));
    }
    if overlay.replace_after_ms > 0 && (overlay.standby == 0 || overlay.roll_call_ms == 0) {
        let why = "needs overlay.standby and overlay.roll_call_ms above 0".to_string();
        both(("overlay.replace_after_ms", why.clone()), ("overlay.standby", why));
    }
    if overlay.revise_at_percent > 0 && (overlay.standby == 0 || overlay.roll_call_ms == 0) {
        let why = "needs overlay.standby and overlay.roll_call_ms above 0".to_string();
        both(("overlay.revise_at_percent", why.clone()), ("overlay.standby", why));
    }
    if overlay.queue == "none" && overlay.pacing != "free" {
        let why = format!("pacing {:?} needs a queue", overlay.pacing);
        both(("overlay.pacing", why.clone()), ("overlay.queue", why));
    }
}

/// Relations of the keys of parallel trees and ways up.
fn trees(config: &Config, both: &mut impl FnMut((&str, String), (&str, String))) {
    let overlay = &config.overlay;
    if overlay.by_symbol() && overlay.change_to().is_some_and(|shape| shape != overlay.shape()) {
        let percent = overlay.change_tree_at_percent;
        both(
            (
                "overlay.plane_use",
                format!(
                    "\"symbols\" needs overlay.change_tree_at_percent = 0, because trees by \
                     symbol keep their shape; it is {percent}"
                ),
            ),
            (
                "overlay.change_tree_at_percent",
                format!("must be 0 with plane_use \"symbols\", is {percent}"),
            ),
        );
    }
    let most = overlay.ways_max();
    if overlay.order_ways > most {
        let ways = overlay.order_ways;
        both(
            (
                "overlay.order_ways",
                format!("must be at most the parents of a gateway ({most}), is {ways}"),
            ),
            ("overlay.hedge", format!("gives a gateway {most} parents, order_ways is {ways}")),
        );
    }
    for (index, entry) in config.instruments.0.iter().enumerate() {
        let trees = if overlay.by_symbol() { overlay.planes } else { 0 };
        if entry.tree > trees {
            let (path, tree) = (format!("instrument[{index}].tree"), entry.tree);
            let why = match overlay.by_symbol() {
                true => format!("must be at most overlay.planes ({trees}), is {tree}"),
                false => "needs overlay.plane_use = \"symbols\"".to_string(),
            };
            both((&path, why.clone()), (&path, why));
        }
    }
}

/// Relations of FIX sessions.
fn logins(config: &Config, both: &mut impl FnMut((&str, String), (&str, String))) {
    let mut seen = BTreeSet::new();
    for (index, entry) in config.accounts.0.iter().enumerate() {
        let comp_id = &entry.fix_comp_id;
        for (key, value, copies) in [("fix_comp_id", comp_id, false), ("firm", &entry.firm, true)] {
            let role = entry.fix_role.as_str();
            if value.is_empty() && (role == "drop-copy" || (role == "market-data" && !copies)) {
                let path = format!("account[{index}].fix_role");
                let why = format!("{role:?} needs {key}");
                both((&path, why.clone()), (&path, why));
            }
        }
        if comp_id.is_empty() {
            continue;
        }
        if let Err((key, why)) = entry.fix_rules() {
            let path = format!("account[{index}].{key}");
            both((&path, why.clone()), (&path, why));
        }
        let path = format!("account[{index}].fix_comp_id");
        if index < config.flow.participants as usize {
            let why = "a built-in participant's account has no FIX session".to_string();
            both((&path, why.clone()), ("flow.participants", why));
        }
        if !seen.insert((comp_id, &entry.fix_version)) {
            let why = format!("{comp_id:?} is there twice");
            both((&path, why.clone()), (&path, why));
        }
    }
}

/// Relations of the trading day's keys.
fn day(config: &Config, both: &mut impl FnMut((&str, String), (&str, String))) {
    let day = &config.day;
    let all = day.halt_at_percent + day.halt_percent + day.resume_percent;
    if all > 95 {
        let why = format!("halt_at_percent, halt_percent and resume_percent make {all}, over 95");
        both(("day.halt_at_percent", why.clone()), ("day.halt_percent", why));
    }
}
