//! Compositions of the rooms below into the nodes of an exchange.
//!
//! The simulator and the binary run these very objects: [`Root`] (ingress, sequencer, log, engine,
//! publishers, private streams), [`Edge`] (receiver and gateway of one VM), and [`Role`], any node
//! of a run. [`Sealed`] puts a link before any of them that lets in and out sealed datagrams only.
//! [`deploy`] makes all of them from one [`ExchangeConfig`]; [`audit`] says afterwards
//! whether every book is the engine's; [`offline`] plays a sample through the engine alone.

mod audit;
mod capacities;
mod checkpoint;
mod config;
mod confirmed;
mod day;
mod dead_gateway_cancels;
mod deploy;
mod downlinks;
mod drop_copies;
mod edge;
mod expiry;
mod input_snapshot;
mod market;
mod member;
mod offline;
mod options;
mod role;
mod root_node;
mod sealed;
mod slow_proxy;
mod timetable;

pub use audit::{Audit, JoinedLate, Past, Unequal, audit, audit_with};
pub use capacities::{Capacity, gateway_capacities};
pub use checkpoint::Checkpoint;
pub use config::{Account, ExchangeConfig, ExchangeError, STREAMS_MAX, ShardPlace};
pub use day::{Auction, DayRecord, Halt};
pub use deploy::{
    Venue, deploy, deploy_venue, edge_in_clear, group_root, listener, overlay_node, share_loop,
    subscriber, venue_edge,
};
pub use downlinks::StreamRouter;
pub use edge::Edge;
pub use expiry::{Ending, Expiries};
pub use gateway::{
    AccessConfig, AccessKey, CertificateRule, EdgeLoad, FIX_DOOR, FixCounters, FixLogin, FixRole,
    FixVersion, LoginTerms, OUCH_DOOR, OUTSTANDING, Rate, Refusal, Refusals, Refused,
    SUBSCRIPTION_DOOR, SessionInfo, SubscriptionTerms, Throttle, decode_work,
};
pub use input_snapshot::{compact, compacted_from, compacted_genesis, compacted_inputs};
pub use member::{Keep, Member, MemberError};
pub use offline::{Offline, offline};
pub use options::{OverlayOptions, Secret, Spread, TreeShape};
pub use overlay::{aes_gcm::random_life, lives::Life};
pub use role::Role;
pub use root_node::{
    BetweenCounters, CheckpointError, DirectError, Fill, LogGap, ReplaceError, ResumeError, Root,
    RootCounters, Snapshots,
};
pub use sealed::{NewLink, Sealed};
pub use slow_proxy::{Lag, SlowProxy};
pub use timetable::{Timetable, set_phase};
