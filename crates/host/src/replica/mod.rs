//! One replica of an exchange's root: its loop, its disk, its streams to the others, its certificates.

pub mod certificates;
pub mod checkpoints;
pub mod claims;
pub mod cluster;
pub mod gate;
pub mod line;
mod links;
pub mod node;
pub mod places;
pub mod recovery;
pub mod shut;
mod writer;
