//! `[store]`: orders and trades in tables that can be asked.

use serde::{Deserialize, Serialize};

use super::Config;

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

/// An address as it may be told: of a URL its kind and what follows the last `@`, without parameters. Whatever
/// else has a password is not told at all.
pub fn shown_address(address: &str) -> String {
    match address.split_once("://") {
        Some((kind, rest)) => {
            let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
            format!("{kind}://{}", place.split('?').next().unwrap_or_default())
        }
        None if address.to_lowercase().contains("password") => "(not shown)".to_string(),
        None => address.to_string(),
    }
}

impl Config {
    /// The same without passwords, for reports: those of accounts are never written.
    pub fn shown(&self) -> Config {
        let mut shown = self.clone();
        shown.store.url = shown_address(&self.store.url);
        shown.telemetry.redis_url = shown_address(&self.telemetry.redis_url);
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_have_no_password_of_a_store_or_of_redis() {
        let mut config = Config::default();
        for (url, shown) in [
            ("postgres://me:s3cret@db:5432/venue", "postgres://db:5432/venue"),
            ("postgres://me:s3@cret@db/venue?password=s3cret", "postgres://db/venue"),
            ("host=db user=me Password=s3cret", "(not shown)"),
            ("", ""),
        ] {
            (config.store.url, config.telemetry.redis_url) = (url.to_string(), url.to_string());
            let told = config.shown();
            assert_eq!((&*told.store.url, &*told.telemetry.redis_url), (shown, shown));
        }
        config.store.url = "postgres://me:s3cret@db/venue".to_string();
        let text = serde_json::to_string(&config.shown()).expect("a document");
        assert!(!text.contains("s3cret"), "{text}");
    }
}
