//! `[[shard]]`: the instruments of a venue on several engines, each with a log, trees and private streams
//! of its own. Without any there is one, with all instruments.

use std::collections::BTreeSet;

use exchange::ShardPlace;
use serde::{Deserialize, Serialize};
use types::ShardId;

use super::Config;
use super::load::Both;

/// One shard.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ShardEntry {
    /// Its name, for people: 1 to 32 letters, digits and `-`.
    pub name: String,
    /// Symbols of its instruments; each instrument is on one shard.
    #[serde(default)]
    pub symbols: Vec<String>,
}

/// The shards, in order of their numbers, which begin at 0 and are shown from 1.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shards(pub Vec<ShardEntry>);

/// What names of shards are.
pub const NAMES: &str = "1 to 32 letters, digits and -";

/// Whether a text is a name of a shard.
pub fn is_name(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

impl Shards {
    /// So many shards, named `shard-1` and so on; instruments are given to them by turns.
    pub fn spread(count: u16, config: &Config) -> Shards {
        let of = |number: u16| {
            let symbols = config.instruments.0.iter().map(|entry| entry.symbol.clone());
            let own = symbols.skip(number.into()).step_by(count.max(1).into());
            ShardEntry { name: format!("shard-{}", number + 1), symbols: own.collect() }
        };
        Shards((0..count).map(of).collect())
    }

    /// How many there are; one where none is named.
    pub fn count(&self) -> u16 {
        (self.0.len() as u16).max(1)
    }

    /// What people call a shard.
    pub fn name(&self, shard: ShardId) -> String {
        let known = self.0.get(usize::from(shard.0)).map(|entry| entry.name.clone());
        known.unwrap_or_else(|| format!("shard-{}", shard.0 + 1))
    }

    /// The shard of a name, or of a number from 1.
    pub fn find(&self, text: &str) -> Option<ShardId> {
        let named = self.0.iter().position(|entry| entry.name == text);
        let number = text.parse::<u16>().ok().and_then(|number| number.checked_sub(1));
        let numbered = number.filter(|at| *at < self.count()).map(usize::from);
        named.or(numbered).map(|at| ShardId(at as u16))
    }
}

impl Config {
    /// The shards of the venue, and which of them this configuration is read for ([`Config::of_shard`]).
    pub fn shard_place(&self) -> ShardPlace {
        let entries = &self.shards.0;
        if entries.is_empty() {
            return ShardPlace::default();
        }
        let of = |symbol: &String| {
            let place = entries.iter().position(|entry| entry.symbols.contains(symbol));
            ShardId(place.unwrap_or(0) as u16)
        };
        ShardPlace {
            id: ShardId(self.of_shard),
            shards: entries.len() as u16,
            of: self.instruments.0.iter().map(|entry| of(&entry.symbol)).collect(),
        }
    }

    /// The same configuration as one shard has it: its engine, log and statements are of that one.
    #[must_use]
    pub fn with_shard(mut self, shard: ShardId) -> Config {
        self.of_shard = shard.0;
        self
    }
}

/// What is wrong with the shards: a key behind `shard`, like `[1].symbols`, and why.
///
/// # Errors
/// The first thing.
pub fn check(config: &Config) -> Result<(), (String, String)> {
    let entries = &config.shards.0;
    let (mut names, mut placed) = (BTreeSet::new(), BTreeSet::new());
    for (at, entry) in entries.iter().enumerate() {
        if !is_name(&entry.name) {
            return Err((format!("[{at}].name"), format!("must be {NAMES}, is {:?}", entry.name)));
        }
        if !names.insert(&entry.name) {
            return Err((format!("[{at}].name"), format!("{:?} is there twice", entry.name)));
        }
        let key = format!("[{at}].symbols");
        if entry.symbols.is_empty() {
            let why = format!("{} has no instrument: give it at least one", entry.name);
            return Err((key, why));
        }
        for symbol in &entry.symbols {
            if !config.instruments.0.iter().any(|known| known.symbol == *symbol) {
                return Err((key, format!("{symbol:?} is no [[instrument]]")));
            }
            if !placed.insert(symbol) {
                let holds = |other: &&ShardEntry| other.symbols.contains(symbol);
                let first = entries.iter().find(holds).map_or("", |first| &first.name[..]);
                return Err((key, format!("{symbol:?} is on {first} already: on one shard only")));
            }
        }
    }
    let lacking = config.instruments.0.iter().find(|known| !placed.contains(&known.symbol));
    if let Some(lacking) = lacking.filter(|_| !entries.is_empty()) {
        let why = format!("{:?} is on none: name it in the symbols of one", lacking.symbol);
        return Err(("[0].symbols".to_string(), why));
    }
    if entries.len() > 1 && config.memory.recycles() {
        let why = "a gateway reads an account's private streams from the beginning, so several shards \
                   need memory.when_full = \"refuse\"";
        return Err(("[0].name".to_string(), why.to_string()));
    }
    Ok(())
}

/// What does not fit together.
pub(super) fn relations(config: &Config, both: &mut Both<'_>) {
    if let Err((key, why)) = check(config) {
        let path = format!("shard{key}");
        both((&path, why.clone()), (&path, why));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Loaded;
    use super::*;

    const INSTRUMENTS: &str = "[[instrument]]\nsymbol = \"AAA\"\n[[instrument]]\nsymbol = \"BBB\"\n\
                               [[instrument]]\nsymbol = \"CCC\"\n";

    fn read(shards: &str) -> Result<Config, String> {
        let text = format!("{INSTRUMENTS}{shards}");
        Loaded::text("v.toml", &text).and_then(Loaded::finish).map_err(|why| why.to_string())
    }

    fn shard(name: &str, symbols: &[&str]) -> String {
        format!("[[shard]]\nname = \"{name}\"\nsymbols = {symbols:?}\n")
    }

    #[test]
    fn each_instrument_is_on_the_shard_that_names_it() {
        let text = shard("one", &["CCC"]) + &shard("two", &["AAA", "BBB"]);
        let config = read(&text).expect("good").with_shard(ShardId(1));
        let place = config.shard_place();
        assert_eq!((place.id, place.shards), (ShardId(1), 2));
        assert_eq!(place.of, [1, 1, 0].map(ShardId));
        assert_eq!(config.shards.find("two"), Some(ShardId(1)));
        assert_eq!((config.shards.find("1"), config.shards.find("3")), (Some(ShardId(0)), None));
        let spread = Shards::spread(2, &config);
        assert_eq!(spread.0[0].symbols, ["AAA", "CCC"]);
        assert_eq!(spread.0[1].symbols, ["BBB"]);
        // Control: without any there is one, which has all.
        let config = read("").expect("good");
        assert_eq!((config.shard_place(), config.shards.count()), (ShardPlace::default(), 1));
    }

    #[test]
    fn what_can_not_be_is_refused_with_line_and_key() {
        let all = shard("one", &["AAA", "BBB"]);
        for (text, said) in [
            (all.clone(), "shard[0].symbols: \"CCC\" is on none"),
            (
                all.clone() + &shard("two", &["BBB", "CCC"]),
                "v.toml:12: shard[1].symbols: \"BBB\" is on one already",
            ),
            (
                all.clone() + &shard("two", &["CCC", "DDD"]),
                "shard[1].symbols: \"DDD\" is no [[instrument]]",
            ),
            (all.clone() + &shard("one", &["CCC"]), "shard[1].name: \"one\" is there twice"),
            (all.clone() + &shard("t wo", &["CCC"]), "shard[1].name: must be 1 to 32 letters"),
            (
                all.clone() + "[[shard]]\nname = \"two\"\n",
                "shard[1].symbols: two has no instrument",
            ),
            (all.clone() + "[[shard]]\nsymbols = [\"CCC\"]\n", "shard[1].name: is missing"),
            (
                all.clone() + "[[shard]]\nname = \"two\"\nsymbols = \"CCC\"\n",
                "must be a list of 1 to 8",
            ),
            (
                all + &shard("two", &["CCC"])
                    + "[memory]\nwhen_full = \"recycle\"\ndisk_mib = 4096\n",
                "shard[0].name: a gateway reads",
            ),
        ] {
            let why = read(&text).expect_err(&text);
            assert!(why.contains(said), "{why}");
            assert_eq!(why.lines().count(), 1, "{why}");
        }
    }
}
