//! `[journal]`: whether the input log survives the process.

use serde::{Deserialize, Serialize};

/// How long an input lasts before anybody hears what became of it.
pub const DURABILITIES: &[&str] = &["none", "local"];

/// The journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Journal {
    /// `none`: the log is in memory. `local`: it is on this machine's disk before anything that
    /// follows from it leaves, and a restart goes on with it.
    pub durability: String,
    /// Folder of the journal.
    pub dir: String,
}

impl Default for Journal {
    fn default() -> Self {
        Journal { durability: DURABILITIES[0].to_string(), dir: "out/journal".to_string() }
    }
}

impl Journal {
    /// Whether there is one.
    pub fn is_local(&self) -> bool {
        self.durability == "local"
    }
}
