//! The message types that the consensus library (`raft` 0.7) is compiled against, written by hand.
//!
//! The published crate of this name makes them from a description with a compiler of its own
//! (`protoc`, run or required at build time) and some forty crates. They are plain structs with
//! getters and setters, so they stand here instead, put in its place by `[patch]` in the
//! workspace. Nobody sends them as they are: `replication` has a bounded format of its own. Sizes are
//! those in memory, near enough for the library's limits per message. Changes of membership have a
//! written form of ours, of the newer kind alone.

mod change;
mod data;
pub mod eraftpb;
mod message;

pub use change::{ConfChangeI, conf_state_eq, new_conf_change_single};

/// What the library's own prelude passes on.
pub mod prelude {
    pub use crate::eraftpb::{
        ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2,
        ConfState, Entry, EntryType, HardState, Message, MessageType, Snapshot, SnapshotMetadata,
    };
}
