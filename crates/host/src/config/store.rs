//! `[store]`: orders and trades in tables that can be asked.

use serde::{Deserialize, Serialize};

/// The post-trade store.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Store {
    /// A running exchange feeds it from its journal, or from one of its replicas'.
    pub follow: bool,
    /// Its file.
    pub file: String,
    /// Between two looks at the journal, milliseconds: how old an answer may be.
    pub poll_ms: u64,
}

impl Default for Store {
    fn default() -> Self {
        Store { follow: false, file: "out/store.db".to_string(), poll_ms: 100 }
    }
}
