//! `[memory]`: what a run keeps in memory of what grows with time, and what it lays down in files.

use engine::log::InputLog;
use overlay::retransmission::StoreConfig;
use serde::{Deserialize, Serialize};

use super::Config;
use super::load::Both;

/// Largest capacity of a log that is in memory as a whole: 6.4 GB.
const WHOLE_MAX: u64 = 50_000_000;
/// Datagrams that the retransmission store has room for, per MiB of them.
const DATAGRAMS_PER_MIB: usize = 1 << 13;

/// Bounds of what grows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Newest inputs of the log in memory; all are in its file from the start. 0: all are in
    /// memory, and in the file at the end.
    pub inputs: u64,
    /// Newest messages of private streams in memory, all accounts together; the older ones are in
    /// a file. 0: all are in memory.
    pub reports: u64,
    /// Feed that the retransmission server has, MiB.
    pub repair_mib: u32,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { inputs: 0, reports: 0, repair_mib: 128 }
    }
}

impl Memory {
    /// Whether anything is laid down in files while the exchange runs.
    pub fn lays_down(&self) -> bool {
        self.inputs > 0
    }

    /// The retransmission server's store; touched at the start where memory is bounded, so that the
    /// process is as large then as it will be.
    pub fn store(&self) -> StoreConfig {
        let mib = self.repair_mib as usize;
        let touched = self.lays_down();
        StoreConfig {
            datagrams: mib * DATAGRAMS_PER_MIB,
            bytes: mib << 20,
            touched,
            ..StoreConfig::default()
        }
    }
}

/// What does not fit together.
pub(super) fn relations(config: &Config, both: &mut Both<'_>) {
    let (memory, capacity) = (&config.memory, config.engine.log_capacity);
    let least = InputLog::MEMORY_MIN as u64;
    for (key, value) in [("memory.inputs", memory.inputs), ("memory.reports", memory.reports)] {
        if (1..least).contains(&value) {
            let why = format!("must be 0 (all) or at least {least}, is {value}");
            both((key, why.clone()), (key, why));
        }
    }
    if (memory.inputs == 0) != (memory.reports == 0) {
        let why = "memory.inputs and memory.reports are both 0 or both above".to_string();
        both(("memory.inputs", why.clone()), ("memory.reports", why));
    }
    if memory.inputs == 0 && capacity > WHOLE_MAX {
        both(
            (
                "engine.log_capacity",
                format!("above {WHOLE_MAX} it needs memory.inputs above 0, is {capacity}"),
            ),
            ("memory.inputs", format!("must be above 0 with engine.log_capacity {capacity}")),
        );
    }
}
