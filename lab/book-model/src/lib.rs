//! The rules of docs/matching.md a second time, the plain way, and the command streams both
//! implementations are driven with.
//!
//! [`model`] is the reference: reviewed against the document rule by rule. [`flow`] draws commands
//! that make orders meet, [`compare`] gives them to the model and to another implementation, and
//! [`coverage`] counts what they reached of what [`possible`] says can happen. Nothing here knows
//! the crate under comparison.

pub mod compare;
pub mod coverage;
pub mod flow;
pub mod kind;
pub mod model;
pub mod possible;
pub mod tape;
