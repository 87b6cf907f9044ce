//! `[[strategy]]`: participants' programs that run beside the receiver of an edge; `[enclaves]`: those that run in one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use strategy::enclave::attestation::{self, Measurement};
use strategy::{Limits, signature};

use super::Config;
use super::load::Both;

/// Enclaves of this machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Enclaves {
    /// File of the root's certificate, PEM; `nitro`: Amazon's.
    pub root: String,
    /// File of the private key of that root, PEM, by which this machine attests its enclaves itself; `none`: it does not.
    pub attestor: String,
    /// What the slowest boundary of the venue takes, us: no enclave of any machine hears sooner after a release.
    pub boundary_us: u32,
}

impl Default for Enclaves {
    fn default() -> Enclaves {
        Enclaves { root: "nitro".to_string(), attestor: "none".to_string(), boundary_us: 0 }
    }
}

/// One program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StrategyEntry {
    /// User name of its account.
    pub account: String,
    /// File of the module.
    pub module: String,
    /// Public key of the account, by which the module is signed.
    pub key: String,
    /// File of the signature; empty: the module's name with `.sig`.
    #[serde(default)]
    pub signature: String,
    /// Of a program for an enclave: what it measures, 96 hexadecimal digits; empty: it is a module for the cage.
    #[serde(default)]
    pub measurement: String,
    /// How long a program in an enclave may take for an answer, ms.
    #[serde(default = "answer_ms")]
    pub answer_ms: u32,
    /// What the program is told at its start.
    #[serde(default)]
    pub settings: String,
    /// Number of the edge that it runs at.
    #[serde(default = "one")]
    pub edge: u32,
    /// Fuel for each piece of news.
    #[serde(default = "fuel")]
    pub fuel: u64,
    /// Memory, KiB.
    #[serde(default = "memory_kib")]
    pub memory_kib: u32,
    /// Actions in answer to one piece of news.
    #[serde(default = "actions")]
    pub actions: u32,
    /// Requests without an answer.
    #[serde(default = "unanswered")]
    pub unanswered: u32,
    /// Size of the module, KiB.
    #[serde(default = "module_kib")]
    pub module_kib: u32,
    /// File that gets what it hears and asks for; empty: none.
    #[serde(default)]
    pub record: String,
}

fn one() -> u32 {
    1
}

fn answer_ms() -> u32 {
    1_000
}

fn fuel() -> u64 {
    Limits::default().fuel
}

fn memory_kib() -> u32 {
    (Limits::default().memory_bytes >> 10) as u32
}

fn actions() -> u32 {
    Limits::default().actions as u32
}

fn unanswered() -> u32 {
    Limits::default().unanswered as u32
}

fn module_kib() -> u32 {
    (Limits::default().module_bytes >> 10) as u32
}

impl Default for StrategyEntry {
    fn default() -> StrategyEntry {
        StrategyEntry {
            account: String::new(),
            module: String::new(),
            key: String::new(),
            signature: String::new(),
            measurement: String::new(),
            answer_ms: answer_ms(),
            settings: String::new(),
            edge: one(),
            fuel: fuel(),
            memory_kib: memory_kib(),
            actions: actions(),
            unanswered: unanswered(),
            module_kib: module_kib(),
            record: String::new(),
        }
    }
}

impl StrategyEntry {
    /// What it may use.
    pub fn limits(&self) -> Limits {
        Limits {
            fuel: self.fuel,
            memory_bytes: (self.memory_kib as usize) << 10,
            actions: self.actions as usize,
            unanswered: self.unanswered as usize,
            module_bytes: (self.module_kib as usize) << 10,
        }
    }

    /// What a program for an enclave has to measure; `None`: it is a module for the cage.
    pub fn expected(&self) -> Option<Measurement> {
        attestation::measurement(&self.measurement)
    }

    /// What people know it as: its file's name.
    pub fn name(&self) -> String {
        let stem = std::path::Path::new(&self.module).file_stem();
        stem.map_or_else(String::new, |name| name.to_string_lossy().into())
    }

    /// The file of its signature.
    pub fn signature_file(&self) -> String {
        match self.signature.as_str() {
            "" => format!("{}.sig", self.module),
            file => file.to_string(),
        }
    }
}

/// The programs, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Strategies(pub Vec<StrategyEntry>);

/// What does not fit together.
pub(super) fn relations(config: &Config, both: &mut Both<'_>) {
    let mut seen = BTreeSet::new();
    let edges = config.overlay.receivers;
    for (index, entry) in config.strategies.0.iter().enumerate() {
        let mut complain = |key: &str, why: String| {
            let path = format!("strategy[{index}].{key}");
            both((&path, why.clone()), (&path, why));
        };
        let named = config.accounts.0.iter().position(|one| one.username == entry.account);
        match named.and_then(|at| Some((at, config.accounts.0.get(at)?))) {
            None => complain("account", format!("{:?} is no [[account]]", entry.account)),
            Some((at, _)) if at < config.flow.participants as usize => {
                complain(
                    "account",
                    "a built-in participant's account runs no strategy".to_string(),
                );
            }
            Some((_, account)) if !account.fix_comp_id.is_empty() => {
                complain("account", "its sessions are FIX, a strategy's are OUCH".to_string());
            }
            Some((_, account)) if account.password.is_empty() => {
                complain(
                    "account",
                    "it needs its password: a strategy logs in with it".to_string(),
                );
            }
            Some(_) => {}
        }
        if !seen.insert(&entry.account) {
            complain("account", format!("{:?} is there twice", entry.account));
        }
        if !signature::is_key(&entry.key) {
            let why = "must be 64 hexadecimal digits, as `fairbell strategy key` prints them";
            complain("key", why.to_string());
        }
        if !entry.measurement.is_empty() && entry.expected().is_none() {
            let why = "must be 96 hexadecimal digits, as `fairbell strategy sign` prints them";
            complain("measurement", why.to_string());
        }
        if entry.edge > edges {
            let why = format!("must be at most overlay.receivers ({edges}), is {}", entry.edge);
            complain("edge", why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Loaded;

    fn complaint(strategy: &str) -> Option<String> {
        let key = "0".repeat(64);
        let text = strategy.replace("KEY", &key);
        let read = Loaded::text("v.toml", &text).and_then(Loaded::finish);
        read.err().map(|why| why.to_string())
    }

    #[test]
    fn a_strategy_is_of_an_account_that_can_log_in() {
        let good = "[[strategy]]\naccount = \"GUEST\"\nmodule = \"m.wasm\"\nkey = \"KEY\"\n";
        assert_eq!(complaint(good), None);
        let other = |account: &str| good.replace("GUEST", account);
        for (text, said) in [
            (other("NOBODY"), "v.toml:2: strategy[0].account: \"NOBODY\" is no [[account]]"),
            (other("FLOW01"), "strategy[0].account: a built-in participant's account"),
            (other("FIXGST"), "strategy[0].account: its sessions are FIX"),
            (good.repeat(2), "v.toml:6: strategy[1].account: \"GUEST\" is there twice"),
            (good.replace("KEY", "abc"), "strategy[0].key: must be 64 hexadecimal digits"),
            (
                good.to_string() + "edge = 10\n",
                "strategy[0].edge: must be at most overlay.receivers",
            ),
            (good.to_string() + "measurement = \"ab\"\n", "measurement: must be 96 hexadecimal"),
            (good.to_string() + "fuel = 0\n", "v.toml:5: strategy[0].fuel: must be 1000..="),
            (good.to_string() + "modul = 1\n", "strategy[0].modul: unknown key"),
        ] {
            let why = complaint(&text).expect(said);
            assert!(why.contains(said), "{why}");
        }
    }
}
