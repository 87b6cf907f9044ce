//! `[store]`: orders and trades in tables that can be asked.

use serde::{Deserialize, Serialize};

/// Who may keep its tables.
pub const ENGINES: &[&str] = &["sqlite", "postgres"];

/// The post-trade store.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Store {
    /// A running exchange feeds it from its journal, or from one of its replicas'.
    pub follow: bool,
    /// Who keeps its tables: `sqlite` or `postgres`.
    pub engine: String,
    /// SQLite's file.
    pub file: String,
    /// Address of the PostgreSQL server, perhaps with a password: no machine tells it another one.
    pub url: String,
    /// Between two looks at the journal, milliseconds: how old an answer may be.
    pub poll_ms: u64,
}

impl Default for Store {
    fn default() -> Self {
        Store {
            follow: false,
            engine: ENGINES[0].to_string(),
            file: "out/store.db".to_string(),
            url: "postgres://fairbell@localhost/fairbell".to_string(),
            poll_ms: 100,
        }
    }
}

impl Store {
    /// Whether its tables are on a server.
    pub fn is_on_server(&self) -> bool {
        self.engine == "postgres"
    }
}
