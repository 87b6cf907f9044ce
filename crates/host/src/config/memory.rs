//! `[memory]`: what a run keeps in memory of what grows with time, and what it lays down in files.

use engine::log::InputLog;
use overlay::retransmission::StoreConfig;
use serde::{Deserialize, Serialize};

use super::Config;
use super::journal::DURABILITIES;
use super::load::Both;

/// Largest capacity of a log that is in memory as a whole: 6.4 GB.
const WHOLE_MAX: u64 = 50_000_000;
/// Least capacity, where there is one.
const CAPACITY_MIN: u64 = 1_000;
/// Least room on the disk, where it is bounded, MiB.
const DISK_MIN: u64 = 64;
/// Of the room on the disk so much is the log's, in percent; the rest is the private streams'.
const LOG_PERCENT: u64 = 35;
/// What happens when the room on the disk is used up.
pub const WHEN_FULL: &[&str] = &["refuse", "recycle"];
/// Datagrams that the retransmission store has room for, per MiB of them.
const DATAGRAMS_PER_MIB: usize = 1 << 13;

/// Bounds of what grows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Newest inputs of the log in memory; all are in its file from the start. 0: all are in
    /// memory, up to `engine.log_capacity`, and in the file at the end.
    pub inputs: u64,
    /// Newest messages of private streams in memory, all accounts together; the older ones are in
    /// a file. 0: all are in memory.
    pub reports: u64,
    /// Feed that the retransmission server has, MiB.
    pub repair_mib: u32,
    /// Most that log and private streams take on the disk together, MiB. 0: what it has.
    pub disk_mib: u64,
    /// What happens at that: orders wait until there is room, or the oldest part goes, with replicas
    /// that of the private streams alone.
    pub when_full: String,
    /// Whether the process's memory is kept from being paged out, and is its own from the moment it is asked for
    /// ([`crate::limits::lock_memory`]).
    pub lock: bool,
}

impl Default for Memory {
    fn default() -> Self {
        Memory {
            inputs: 131_072,
            reports: 262_144,
            repair_mib: 64,
            disk_mib: 0,
            when_full: WHEN_FULL[0].to_string(),
            lock: false,
        }
    }
}

impl Memory {
    /// Whether anything is spilled to files while the exchange runs.
    pub fn spills(&self) -> bool {
        self.inputs > 0
    }

    /// Most inputs of the log and messages of private streams in memory.
    pub fn newest(&self) -> (usize, u64) {
        let all = |value: u64| if value == 0 { u64::MAX } else { value };
        (usize::try_from(all(self.inputs)).unwrap_or(usize::MAX), all(self.reports))
    }

    /// Whether the oldest part of log and streams goes when their room is used up.
    pub fn recycles(&self) -> bool {
        self.when_full == WHEN_FULL[1]
    }

    /// Most inputs of the log, and bytes of private streams, on the disk; `None`: what it has.
    pub fn disk(&self) -> Option<(usize, u64)> {
        let bytes = self.disk_mib << 20;
        let log = bytes / 100 * LOG_PERCENT;
        let inputs = usize::try_from(log / size_of::<types::Input>() as u64);
        (bytes > 0).then(|| (inputs.unwrap_or(usize::MAX), bytes - log))
    }

    /// The retransmission server's store; touched at the start where memory is bounded, so that the
    /// process is as large then as it will be.
    pub fn store(&self) -> StoreConfig {
        let mib = self.repair_mib as usize;
        let touched = self.spills();
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
    if memory.inputs == 0 && !(1..=WHOLE_MAX).contains(&capacity) {
        both(
            (
                "engine.log_capacity",
                format!("0 or above {WHOLE_MAX} needs memory.inputs above 0, is {capacity}"),
            ),
            ("memory.inputs", format!("must be above 0 with engine.log_capacity {capacity}")),
        );
    }
    if (1..CAPACITY_MIN).contains(&capacity) {
        let why = format!("must be 0 (no end) or at least {CAPACITY_MIN}, is {capacity}");
        both(("engine.log_capacity", why.clone()), ("engine.log_capacity", why));
    }
    if (1..DISK_MIN).contains(&memory.disk_mib) {
        let why =
            format!("must be 0 (what there is) or at least {DISK_MIN}, is {}", memory.disk_mib);
        both(("memory.disk_mib", why.clone()), ("memory.disk_mib", why));
    }
    if !memory.recycles() {
        return;
    }
    if memory.disk_mib == 0 || memory.inputs == 0 {
        let key = if memory.disk_mib == 0 { "memory.disk_mib" } else { "memory.inputs" };
        let why = format!("\"recycle\" needs {key} above 0");
        both(("memory.when_full", why.clone()), (key, "must be above 0 to recycle".to_string()));
    }
    // With replicas the streams are bounded, and the log is each replica's journal.
    if config.journal.durability == DURABILITIES[1] {
        both(
            (
                "memory.when_full",
                "\"recycle\" needs journal.durability = \"none\" or \"replicated\", it is \"local\""
                    .to_string(),
            ),
            (
                "journal.durability",
                "must be \"none\" or \"replicated\" with memory.when_full = \"recycle\"".into(),
            ),
        );
    }
}
