//! Which VM shall stand where in the tree: measurements in, trees out.
//!
//! Pure and seeded: no socket, clock or thread. [`stats`] summarises one-way delays, [`score`] says
//! how bad a VM looks, [`build`] grows a tree by probing K candidates for one parent at a time,
//! [`faq`], [`polish`] and [`anneal`] place the whole tree at once from an all-to-all mesh,
//! [`revise`] changes a live tree as little as possible. [`propose`] does all of it for the proxies of
//! a tree whose parents change ([`routes`]), and [`noise`] says whether a gain is more than chance. [`cloud`] is a synthetic cloud whose
//! stragglers are known, [`campaign`] a whole experiment as a state machine: jobs out, reports in.
//! All delays are nanoseconds.

pub mod anneal;
pub mod assignment_solver;
pub mod build;
pub mod campaign;
pub mod cloud;
pub mod faq;
pub mod matrix;
pub mod noise;
pub mod objective;
pub mod polish;
pub mod propose;
pub mod report;
pub mod revise;
pub mod routes;
pub mod schema;
pub mod score;
pub mod stats;
pub mod tree;

pub use build::{Builder, Pick, PlanError, Question};
pub use matrix::Square;
pub use score::{Score, Strategy};
pub use stats::Summary;
pub use tree::{Shape, Tree};
