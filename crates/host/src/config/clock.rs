//! `[clock]`: who keeps the nodes' clocks, and how wrong they may be.

use serde::{Deserialize, Serialize};

/// Who keeps the clocks.
pub const SOURCES: &[&str] = &["system", "chrony", "phc", "huygens"];

/// The clocks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Clocks {
    /// `system`: the machine's own, as right as `hold.clock_bound_ns` says. `chrony`: the same, as
    /// right as chrony says. `phc`: a PTP hardware clock. `huygens`: agents keep the clocks together and say how wrong they are.
    pub source: String,
    /// With `phc`: the hardware clock's device.
    pub phc: String,
    /// With `phc`: how far it is ahead of UTC, seconds; 37 where it keeps TAI.
    pub phc_ahead_s: u64,
    /// How much longer one direction of a path may always take than the other, microseconds.
    pub asymmetry_us: u64,
    /// With `phc` and `huygens`: largest standard deviation of a drift's change within a second, parts of 10^9.
    pub wander_max_ppb: u32,
    /// Edges whose clock claims a larger error are in quarantine, microseconds; 0: none is.
    pub quarantine_us: u64,
    /// With `huygens`: neighbours that each machine chooses to probe.
    pub neighbours: u32,
    /// With `huygens`: time between two pairs of probes to the same neighbour, milliseconds.
    pub probe_every_ms: u64,
    /// With `huygens`: change of the spacing of a pair of probes up to which it counts, microseconds.
    pub pure_us: u64,
    /// With `huygens`, on trial: how far the clocks of edges and participants are off.
    pub virtual_offset_us: u64,
    /// With `huygens`, on trial: how much they gain, parts of 10^9.
    pub virtual_drift_ppb: u32,
}

impl Default for Clocks {
    fn default() -> Self {
        Clocks {
            source: SOURCES[0].to_string(),
            phc: "/dev/ptp0".to_string(),
            phc_ahead_s: 0,
            asymmetry_us: 0,
            wander_max_ppb: 500,
            quarantine_us: 0,
            neighbours: 10,
            probe_every_ms: 10,
            pure_us: 10,
            virtual_offset_us: 0,
            virtual_drift_ppb: 0,
        }
    }
}
