//! Synchronized clocks by Huygens: coded probe pairs over a mesh, support-vector lines per pair of
//! nodes, correction over loops, and a clock that is only ever slewed and says how wrong it may be.
//!
//! Sans-I/O: [`agent::Agent`] is a node like all others. It is called with readings of a clock that
//! runs freely and gives readings of one that follows the reference's. What the estimate rests on:
//! the two directions of a path have the same least delay. Where they have not, no protocol can
//! tell, and the configured asymmetry is part of the bound. See docs/clock.md.
//!
//! | file | what |
//! |---|---|
//! | [`wire`] | datagrams |
//! | [`mesh`], [`path`], [`hull`] | who probes whom; pairs, and what is kept of them |
//! | [`mod@line`], [`graph`] | one pair of nodes, the whole mesh |
//! | [`track`], [`wander`], [`solver`] | one node over time, how far oscillators wander, corrections |
//! | [`discipline`], [`agent`] | the slewed clock, the node |
//! | [`star`] | estimators to compare with: NTP's way, and a Kalman filter |
//! | [`world`], [`simulate`] | wandering clocks, virtual time, whole meshes judged by the truth |

pub mod agent;
pub mod discipline;
pub mod graph;
pub mod hull;
pub mod line;
pub mod mesh;
pub mod path;
pub mod simulate;
pub mod solver;
pub mod star;
pub mod track;
pub mod wander;
pub mod wire;
pub mod world;

pub use agent::{Agent, AgentConfig, AgentStats};
pub use discipline::Discipline;
pub use solver::{SolverConfig, SolverStats};
pub use wire::Correction;
