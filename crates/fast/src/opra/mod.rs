//! OPRA: options quotes and trades of the US exchanges.
//!
//! [`V1`] and [`V2`] describe FAST for OPRA as it was sent from 2007 to 2014, [`binary`] is the
//! format sent today. All give the same [`Event`]s. [`stream`] makes streams with the statistics
//! published for the real ones.
//!
//! What the formats leave open, and how it is settled here: a message may not begin with a field
//! left out whose value the packet has not yet told (D5); an unknown BBO indicator, and a type of
//! underlying values that is not listed, make the message invalid (D11), because it cannot be known
//! what follows; fields of version 1 follow in the order of their slots.

pub mod binary;
pub mod by_hand;
pub mod checksum;
mod event;
mod formats;
pub mod stream;
mod templates;

pub use event::{
    Best, Control, Event, Header, Price, Quote, Sale, Series, Spot, Summary, price_of, to_event,
};
pub use formats::{Names, Opra, V1, V2};
pub use templates::fast_templates;
