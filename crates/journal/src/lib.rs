//! A journal: records in order, durable before anybody is told, found again after a crash.
//!
//! It does not know what records mean. Contract:
//! - [`Journal::append`] gives each record its position, dense from 1; [`Journal::flush`] makes
//!   whatever was appended since the last one durable with one write and one sync (group commit)
//!   and says up to where. Nothing may be told to anybody beyond that position.
//! - After a crash [`Journal::open`] finds every record that was ever durable, perhaps some that
//!   were only appended, in order, without a gap, and never anything else. What a write cut short
//!   is above the commit watermark: it is cut and reported. Damage at or below the watermark, or
//!   before a whole frame, can't come from that: it is refused, with segment and offset.
//! - One log for everybody (corner 10): [`Journal::truncate`] takes an uncommitted suffix back by
//!   a record of its own, and the hash chain goes on from the last record kept. Term and vote are
//!   kept apart ([`Journal::set_vote`]), each in two copies written one after the other.
//! - A record is the application's, or one of the group's own ([`Journal::append_group`]), which
//!   readers of the application see as an empty one. What the last of those says is written down with
//!   every snapshot, so it is known wherever the log begins ([`Journal::group_at`]).
//! - A start reads all of the log, or leaves segments that are closed for later ([`Config::read_later`]):
//!   then they are read beside the work, and damage in them is found then.
//! - No clock, no thread, no randomness here; files only behind [`Storage`], which is a folder
//!   ([`Folder`]) or a simulated disk that fails on purpose ([`SimDisk`]).
//! - Memory: one batch, one window to read through, a line per segment.
//! - [`Follower`] reads what is committed while somebody else writes.
//!
//! After an error of the storage a journal takes nothing more: what a failed sync left on the disk
//! is unknown. It has to be opened again. [`JournalError::Full`] is the exception.
//! Not promised: proof against a forger (checksum and chain find accidents), or survival of a disk
//! that loses what it has synced: that is found and refused ([`mend()`] lets a server of a group get it
//! again from the others), and an older copy of the folder is found ([`Journal::is_set_back`]). How the
//! last acknowledged batch is covered before the next write says so: [`Marks`].

mod batch;
mod buffer;
mod commit;
mod config;
mod error;
mod examine;
mod folder;
mod follow;
mod group;
mod inspect;
mod install;
mod journal;
mod known;
mod layout;
mod life;
mod mend;
mod peers;
mod recover;
mod register;
mod ring;
mod scan;
mod sim_disk;
mod snapshot;
mod storage;
mod waypoints;
mod whole;

pub use batch::Record;
pub use buffer::AlignedBuf;
pub use config::{Config, Marks};
pub use error::{Damage, JournalError};
pub use folder::{Folder, FolderConfig, Syncing};
pub use follow::{Follower, HELD_MAX};
pub use inspect::{
    SegmentReport, Verified, export, identify, label, newest_snapshot, read_all, restore_vote,
    verify, watermark,
};
pub use install::Installed;
pub use journal::{Journal, Stats};
pub use layout::{BLOCK_MAX, BLOCK_MIN, FORMAT, FORMAT_GROUP, GROUP_MAX, LABEL_LEN};
pub use mend::{Mended, Promises, TERMS_UNHEARD, begin_in_doubt, mend, promises, yield_to};
pub use peers::Peer;
pub use recover::{Recovery, Tail};
pub use register::{PEERS_MAX, Vote};
pub use sim_disk::{DiskFaults, DiskStats, SimDisk};
pub use snapshot::{SnapshotInfo, snapshot_digest};
pub use storage::{Begun, DiskError, DiskErrorKind, FileId, Stamp, Storage};
