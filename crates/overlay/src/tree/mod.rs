//! Who serves whom: the shape of the proxy tree, its members, who stands where in it.

pub mod child_sequence;
pub mod failover_routes;
pub mod hedging;
pub mod membership;
pub mod seating;
pub mod shape;
pub mod topology;
pub(crate) mod tree_position;
pub mod trips;
