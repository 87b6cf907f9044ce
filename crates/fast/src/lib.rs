//! Market data formats from descriptions.
//!
//! FAST 1.1: [`Templates`] are compiled from XML, a [`Decoder`] hands the fields of a stream to a
//! [`Sink`], an [`Encoder`] takes [`Record`]s. Errors carry the codes of the specification. Templates
//! known when a program is built become a decoder of their own: [`built`].
//!
//! Other formats are descriptions, too, from which decoders are generated when this is compiled:
//! [`mod@layout`] for fields at fixed places ([`opra::binary`], [`itch`]), [`slots`] for messages that
//! share presence bits and previous values ([`opra`]).
//!
//! Nothing here knows sockets or clocks. Bytes are never trusted: every decoder is bounded by the
//! bytes it is given and reports, not panics.

mod bits;
pub mod built;
pub mod convert;
mod decode;
mod dictionary;
mod encode;
mod error;
pub mod itch;
pub mod layout;
pub mod opra;
mod program;
mod record;
mod sink;
pub mod slots;
pub mod template;
mod value;
pub mod xml;

pub use bits::{PresenceMap, Reader};
pub use decode::Decoder;
pub use encode::Encoder;
pub use error::{Code, ErrorCounts, FastError, TemplateError};
pub use program::{FieldInfo, Kind, TemplateInfo, Templates};
pub use record::{Item, Record, Recorder};
pub use sink::{Limits, Sink};
pub use value::{Decimal, Owned, Type, Value};
