//! `[journal]`: whether the input log survives the process.

use std::path::Path;

use ::journal::{Folder, FolderConfig, Syncing};
use serde::{Deserialize, Serialize};

use super::Config;
use super::load::Both;
use crate::failure::{Failure, on};

/// How long an input lasts before anybody hears what became of it.
pub const DURABILITIES: &[&str] = &["none", "local", "replicated"];
/// How writes become durable.
pub const SYNCINGS: &[&str] = &["fdatasync", "dsync", "io_uring"];

/// The journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Journal {
    /// `none`: the log is in memory. `local`: it is on this machine's disk before anything that
    /// follows from it leaves, and a restart goes on with it. `replicated`: it is on the disks of
    /// most of a group of replicas before that.
    pub durability: String,
    /// Folder of the journal, or of the replicas' folders.
    pub dir: String,
    /// Replicas of the root, 3 or 5, where it is replicated.
    pub replicas: u32,
    /// Places for replicas that may come in the place of others (`fairbell admin replicas`).
    pub reserve: u32,
    /// Size of its segments, MiB: their room is taken when one is begun.
    pub segment_mib: u32,
    /// Positions of a replica's log between two snapshots, 0 for none.
    pub snapshot_every: u64,
    /// How writes become durable: `fdatasync` after each; `dsync`, files opened with `O_DSYNC`;
    /// `io_uring`, where the kernel does it while the next batch is made.
    pub syncing: String,
    /// Positions of a replica's log between two checkpoints of its root, 0 for none.
    pub checkpoint_every: u64,
}

impl Default for Journal {
    fn default() -> Self {
        Journal {
            durability: DURABILITIES[0].to_string(),
            dir: "out/journal".to_string(),
            replicas: 3,
            reserve: 0,
            segment_mib: 64,
            snapshot_every: 0,
            checkpoint_every: 50_000,
            syncing: SYNCINGS[0].to_string(),
        }
    }
}

impl Journal {
    /// What journals are told, but for who they are.
    pub fn settings(&self, id: u64, label: [u8; 32]) -> ::journal::Config {
        let segment_bytes = u64::from(self.segment_mib) << 20;
        ::journal::Config { segment_bytes, ..::journal::Config::new(id, label) }
    }

    /// Opens the folder of a journal, to be written as it says here.
    ///
    /// # Errors
    /// When it can't be made, opened or locked, or the kernel offers no `io_uring`.
    pub fn folder(&self, dir: &Path) -> Result<Folder, Failure> {
        let syncing = match self.syncing.as_str() {
            "dsync" => Syncing::Dsync,
            "io_uring" => Syncing::Uring,
            _ => Syncing::Fdatasync,
        };
        let opened = Folder::open(dir, FolderConfig { syncing, ..FolderConfig::default() });
        opened.map_err(|error| match syncing {
            Syncing::Uring if error.doing.contains("io_uring") => {
                on(dir, format!("{error}; journal.syncing = \"fdatasync\" does without"))
            }
            _ => on(dir, error),
        })
    }

    /// Whether there is one, and no replicas.
    pub fn is_local(&self) -> bool {
        self.durability == "local"
    }

    /// Whether the root is a group of replicas, each with a journal.
    pub fn is_replicated(&self) -> bool {
        self.durability == "replicated"
    }
}

/// What does not go together with the journal.
pub(super) fn relations(config: &Config, both: &mut Both<'_>) {
    let Config { journal, store, .. } = config;
    if store.follow && !journal.is_local() && !journal.is_replicated() {
        let given = &journal.durability;
        let either = "\"local\" or \"replicated\"";
        both(
            ("store.follow", format!("needs journal.durability = {either}, it is {given:?}")),
            ("journal.durability", format!("must be {either} with store.follow = true")),
        );
    }
    if journal.replicas.is_multiple_of(2) {
        let why = format!("must be 3 or 5, is {}", journal.replicas);
        both(("journal.replicas", why.clone()), ("journal.replicas", why));
    }
}
