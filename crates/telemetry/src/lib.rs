//! Figures of a running exchange: latency distributions, what the feed's delivery was worth, and
//! drawings of both ([`plot`]).
//!
//! A [`DeliveryLedger`] consumes [`types::Trace`]s of the publisher and of all receivers, in any
//! order across nodes, and answers the questions of corner 14: when the last copy arrived, when it
//! was handed on, how far apart the receivers were, who was late and why. A [`Recorder`] holds one
//! latency distribution; a [`LatencySummary`] is what reports print of it.
//!
//! All memory is bounded at construction and nothing is allocated by recording. Times of different
//! nodes are compared as they are: their clocks' error belongs into the window of fairness that
//! the caller gives. Nothing here reads a clock.

mod canvas;
mod latency;
mod ledger;
mod measure;
pub mod plot;
mod series;

pub use latency::{LatencySummary, Recorder};
pub use ledger::{DeliveryLedger, LedgerConfig, TraceCounts};
pub use measure::{Delivery, ReceiverMeasure};
pub use series::WindowPoint;
