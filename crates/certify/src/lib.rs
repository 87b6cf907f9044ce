//! Certification of a participant's own client, over FIX or OUCH.
//!
//! [`Certifier`] is a sans-I/O node between the client and the gateway of an exchange with test
//! instruments. It relays whole messages both ways, notes what both sides say, and works through a
//! script ([`Step`]): some steps only wait for the client to do something, in others the certifier
//! trades against it, loses a message, holds bytes back or cuts the line, and watches how the
//! client copes. What the exchange answers is the exchange's own; the certifier writes no message of
//! its own to the client, so that every number stays right.
//!
//! The outcome is a [`Report`]. One client is judged at a time; memory is bounded by the open orders
//! of the exchange, one message per direction and [`HELD_MAX`] bytes held back.

mod certifier;
mod counter;
mod facts;
mod fix_watch;
mod ouch_watch;
mod report;
mod steps;

pub use certifier::{Certifier, CertifierConfig, HELD_MAX};
pub use report::{Report, Status, StepReport};
pub use steps::Step;

/// Protocol of the client that is certified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// OUCH 5.0 over SoupBinTCP, as docs/ouch.md has it.
    Ouch,
    /// FIX, in the version that the client logs on with.
    Fix,
}
