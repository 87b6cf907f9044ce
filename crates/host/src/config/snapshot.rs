//! `[snapshot]`: the snapshot server, and when listeners turn to it.

use feed::{CatchUpConfig, CatchUpRule, SnapshotServerConfig};
use serde::{Deserialize, Serialize};
use types::{Nanos, Peer};

/// Snapshots of the books.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Snapshots that the server sends at one time.
    pub connections: u32,
    /// What it sends per millisecond, all connections together, in KiB.
    pub kib_per_ms: u32,
    /// Messages per second that a listener expects from the retransmission server.
    pub repair_per_s: u64,
    /// What it expects of a snapshot's stream per second, in KiB.
    pub stream_kib_per_s: u64,
    /// What it expects connecting and logging in to take, in milliseconds.
    pub setup_ms: u64,
}

/// On one machine a repair is quick, and a listener that takes a snapshot leaves the audit less to
/// compare.
const REPAIR_PER_S: u64 = 200_000;
/// See [`REPAIR_PER_S`].
const SETUP_MS: u64 = 50;

impl Default for Snapshot {
    fn default() -> Self {
        let (server, rule) = (SnapshotServerConfig::default(), CatchUpRule::default());
        Snapshot {
            connections: server.connections_max as u32,
            kib_per_ms: (server.slice_bytes >> 10) as u32,
            repair_per_s: REPAIR_PER_S,
            stream_kib_per_s: rule.snapshot_bytes_per_s >> 10,
            setup_ms: SETUP_MS,
        }
    }
}

impl Snapshot {
    /// The server's limits.
    pub fn server(&self) -> SnapshotServerConfig {
        SnapshotServerConfig {
            connections_max: self.connections as usize,
            slice_bytes: (self.kib_per_ms as usize) << 10,
            ..SnapshotServerConfig::default()
        }
    }

    /// How a listener catches up with the help of these servers, asked in turn; of none it does not.
    pub fn catch_up(&self, servers: Vec<Peer>) -> CatchUpConfig {
        let rule = CatchUpRule {
            repair_per_s: self.repair_per_s,
            snapshot_bytes_per_s: self.stream_kib_per_s << 10,
            snapshot_setup_ns: self.setup_ms * Nanos::MILLI,
            ..CatchUpRule::default()
        };
        CatchUpConfig { rule, servers, ..CatchUpConfig::default() }
    }
}
