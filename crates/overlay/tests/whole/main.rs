//! The nodes of the tree and what seals them, from outside.

mod downlink;
mod egress;
mod estimators;
#[cfg(feature = "aead")]
mod fleet;
mod key_ring;
mod lives;
mod receiver;
mod rekey;
mod seal;
mod separation;
mod topology;
mod upstream_queue;
