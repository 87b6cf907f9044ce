//! A group of replicas with one log: what is committed is on the disks of most of them.
//!
//! It does not know what records mean. A [`Replica`] is a plain state machine, three or five of
//! which make a group: messages, ends of writes and timers go in, [`Action`]s come out. No clock, no
//! thread, no socket, no file; election timeouts are drawn from a seed. Contract:
//! - [`Replica::propose`] takes records at the leader. [`Action::Apply`] gives every committed one
//!   to every replica, in order, each once per life. What follows from a record may be told to
//!   others only then (corner 9), and by the leader only: between [`Action::Lead`] and
//!   [`Action::Follow`], under the term named there, which fences earlier leaders.
//! - One log (corner 10): an [`Action::Write`] goes to the replica's [`journal::Journal`] as it is
//!   ([`perform`]), whenever the disk is free; positions are the journal's. Term and vote are
//!   durable before anything that depends on them is sent. The leader sends records while it
//!   writes them itself; a write, copies and applying of earlier ones overlap.
//! - Every replica tells a digest of its state every so many positions. One that differs from
//!   most stops, and says so ([`Stop::Diverged`]).
//! - Messages may be lost, repeated and reordered. What was damaged on its way is refused; a replica
//!   that lies is not defended against: all are of one operator.
//! - Memory: records not yet applied, a window of earlier ones, a line per term.
//!
//! Which consensus is behind it is known to one file ([`Consensus`] is the boundary). Not offered:
//! changes of membership, snapshots for replicas that are further behind than the log reaches.

mod config;
mod consensus;
mod digests;
mod disk;
mod log_view;
mod raft_group;
mod replica;
mod wire;

pub use config::{Config, ConfigError, ReplicaId};
pub use consensus::{Consensus, Entry, Fetch, Refused, Standing, Work, Write};
pub use disk::{Recovered, fetch, perform, recover};
pub use raft_group::RaftGroup;
pub use replica::{Action, Counts, ProposeError, Replica, Stop};
pub use wire::{DecodeError, VERSION, unfenced_answer};
