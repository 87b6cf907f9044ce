//! The nodes of the tree and what seals them, from outside.

mod downlink;
mod egress;
mod estimators;
mod key_ring;
mod lives;
mod receiver;
mod seal;
mod topology;
mod upstream_queue;
