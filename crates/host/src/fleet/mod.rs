//! A venue on many machines: one process a machine, each a node of `cluster.toml`.
//!
//! The replicas of the root are the control plane: what nodes there are, their lives and keys is in
//! their log. Every other node keeps a control connection to the one that leads ([`client`],
//! [`server`]) and gets its keys there; without a root it goes on with those it has.

pub mod addresses;
pub mod bundle;
pub mod client;
pub mod clock;
pub mod connection;
pub mod credentials;
pub mod doctor;
pub mod file;
pub mod join;
pub mod keys;
pub mod messages;
mod names;
pub mod node;
pub mod observer;
mod overlay;
pub mod plan;
pub mod reference;
pub mod scale;
pub mod server;
pub mod shards;
pub mod subscriptions;
mod terms;
pub mod token;
pub mod traces;
