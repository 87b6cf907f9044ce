//! `[telemetry]`: what running nodes tell other people's tools.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::Config;
use super::load::Both;
use crate::failure::Failure;

/// Where records go.
pub const RECORDS: &[&str] = &["off", "redis", "files"];
/// No door.
const OFF: &str = "off";

/// Metrics and records.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// Where Prometheus reads metrics, an address with a port, or `off`.
    pub listen: String,
    /// Where records of requests and of sampled datagrams go: `off`, `redis` or `files`.
    pub records: String,
    /// The Redis server, perhaps with a password: no machine tells it another one.
    pub redis_url: String,
    /// What the keys of its streams begin with.
    pub prefix: String,
    /// Entries of a stream that the server keeps, about.
    pub stream_entries: u64,
    /// Folder of the files.
    pub dir: String,
    /// What the files of a stream take together, MiB.
    pub files_mib: u64,
    /// Records of a stream that may wait: as many in the queue, and as many behind it.
    pub queue_records: u64,
}

impl Default for Telemetry {
    fn default() -> Self {
        Telemetry {
            listen: OFF.to_string(),
            records: RECORDS[0].to_string(),
            redis_url: "redis://127.0.0.1:6379/0".to_string(),
            prefix: "fairbell".to_string(),
            stream_entries: 100_000,
            dir: "out/telemetry".to_string(),
            files_mib: 1_024,
            queue_records: 65_536,
        }
    }
}

impl Telemetry {
    /// Where it listens; `None`: nowhere, or at no address.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listen.parse().ok()
    }

    /// From now on it listens there, as an option says.
    ///
    /// # Errors
    /// That is no address.
    pub fn listen_at(&mut self, option: &str, at: &str) -> Result<(), Failure> {
        self.listen = at.to_string();
        let wrong = || Failure::Usage(format!("{option}: {}", self.wrong_address()));
        if self.listens_well() { Ok(()) } else { Err(wrong()) }
    }

    fn listens_well(&self) -> bool {
        self.listen == OFF || self.address().is_some()
    }

    fn wrong_address(&self) -> String {
        let form = "must be an address with a port like 127.0.0.1:9464, or \"off\"";
        format!("{form}, is {:?}", self.listen)
    }

    /// Whether records go anywhere.
    pub fn has_records(&self) -> bool {
        self.records != RECORDS[0]
    }
}

/// What does not go together with it.
pub(super) fn relations(config: &Config, both: &mut Both<'_>) {
    let telemetry = &config.telemetry;
    if !telemetry.listens_well() {
        let why = telemetry.wrong_address();
        both(("telemetry.listen", why.clone()), ("telemetry.listen", why));
    }
    if telemetry.records == "redis"
        && let Err(why) = monitoring::streams::Server::new(&telemetry.redis_url)
    {
        both(("telemetry.redis_url", why.clone()), ("telemetry.redis_url", why));
    }
}
