//! FIX 4.2, 4.4 and 5.0 SP2 over FIXT 1.1: codec, dictionaries, the session layer of an acceptor,
//! and the exchange's application messages. docs/fix.md has the rules for participants.
//!
//! No I/O, no clock, no threads: bytes and time come in as arguments, bytes and the next timer go
//! out. [`Framer`] cuts a stream into messages, [`FieldIndex`] checks one and finds its fields,
//! [`dictionary`] judges it, [`session`] keeps sequence numbers, [`Acceptor`] ties sessions to
//! connections, [`app`] turns orders into engine commands and reports into messages. Whatever comes
//! in, nothing panics and memory stays bounded; on the way of an order nothing is allocated once
//! buffers have grown.

mod acceptor;
pub mod app;
pub mod dictionary;
mod digits;
pub mod encode;
mod frame;
pub mod sample;
mod scan;
pub mod session;
pub mod tag;
pub mod value;
mod version;
mod view;

pub use acceptor::{Acceptor, Ahead, Counters, Limits, RefusedLogon};
pub use frame::{Frame, Framer, SOH};
pub use scan::checksum;
pub use version::Version;
pub use view::{FIELDS_MAX, Field, FieldIndex, Garbled, Group, Message, data_tag};
