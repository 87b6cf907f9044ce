//! The journal on simulated disks and in folders.

#[path = "../common/mod.rs"]
mod common;
mod flips;
mod folder;
mod follow;
mod group;
mod histories;
mod install;
mod later;
mod life;
mod missing;
mod ranges;
