//! From configuration to running nodes: the one place that makes sockets, loops, clocks, keys,
//! spill files and the day's timetable.
//!
//! [`deployment`] builds all roles of an exchange on one machine, [`replica`] one replica of its root,
//! [`group`] such replicas in one process, [`fleet`] what one machine of many does. Who runs them decides what is shown, played and reported.

pub mod admin;
pub mod alarms;
pub mod authority;
pub mod capacities;
pub mod clock_agent;
pub mod clock_sources;
pub mod clocks;
pub mod config;
pub mod core;
pub mod day;
pub mod deployment;
pub mod enclave;
pub mod failure;
pub mod feed_ring;
pub mod files;
pub mod fleet;
pub mod followed_clock;
pub mod group;
pub mod journal;
pub mod limits;
pub mod nodes;
pub mod password;
pub mod phc;
pub mod refused;
pub mod replica;
pub mod room;
pub mod serve;
pub mod sockets;
pub mod spill;
pub mod strategies;
pub mod subscriber;
pub mod telemetry;
pub mod tls;
