//! The engine beyond matching: phases, limits, operators, snapshots, shards, and what a log amounts
//! to. Random flows of everything are held against plain models; single rules have their own cases.

mod allotments;
mod bench;
mod daily;
mod expiry;
mod flow;
mod moves;
mod operators;
mod overload;
mod phases;
mod random;
mod reasons;
mod risk_model;
mod rolls;
mod sessions;
mod shards;
mod snapshots;
mod stories;
mod terms;
