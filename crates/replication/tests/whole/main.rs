//! Groups of replicas without a network.

#[path = "../common/mod.rs"]
mod common;
mod engine;
mod group;
mod members;
mod set_back;
mod snapshots;
mod versions;
