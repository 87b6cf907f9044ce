//! Who serves whom: the shape of the proxy tree, its members, who stands where in it.

pub mod detour;
pub mod hedging;
pub mod membership;
pub(crate) mod seat;
pub mod seating;
pub mod send_order;
pub mod shape;
pub mod topology;
pub mod trips;
