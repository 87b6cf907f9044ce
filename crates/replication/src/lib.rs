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
//! - A replica that is further behind than the leader's log reaches collects the leader's newest
//!   snapshot in parts; an [`Action::Write`] puts it in the place of the log, and then
//!   [`Action::Restore`] in the place of the state.
//! - Replicas of versions from [`OLDEST`] on work together: each speaks with each other one as both
//!   can ([`Replica::agreed_version`]).
//! - One that is started asks the others what they know of its disk; set back to an older copy, it
//!   elects nobody before it has again what it had ([`Waits`]).
//! - Memory: records not yet applied, a window of earlier ones, a line per term, one snapshot of
//!   another replica while it comes. Per record nothing is allocated ([`EntryData`]).
//! - Who is in the group is said by the log ([`Membership`]) and changed by records of the group's
//!   own, one at a time ([`Replica::change`]), which whoever applies records sees as empty ones.
//! - Three files know the library behind it: `raft_group`, `log_view` and `wire`.

mod changes;
mod config;
mod consensus;
mod digests;
mod disk;
mod invariants;
mod log_view;
mod members;
mod notice;
mod raft_group;
mod replica;
mod start;
mod stop;
mod transfer;
mod versions;
mod wire;

pub use changes::Refusal;
pub use config::{Config, ConfigError, ReplicaId};
pub use consensus::{Entry, Fetch, Install, Refused, Standing, Work, Write};
pub use disk::{Kept, Recovered, fetch, kept, perform, recover, recover_after};
pub use members::{Change, Member, Membership, PLACE_MAX, VOTERS_MAX};
pub use raft::eraftpb::EntryData;
pub use replica::{Action, Counts, ProposeError, Replica, SnapshotRead};
pub use start::Waits;
pub use stop::Stop;
pub use wire::{DecodeError, NOTICE_MAX, OLDEST, PART_MAX, VERSION, unfenced_answer};
