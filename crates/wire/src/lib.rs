//! The published formats at the exchange's edges: ITCH 5.0 in MoldUDP64 out, OUCH 5.0 over
//! SoupBinTCP in and out, book snapshots after the model of GLIMPSE 5.0, subscriptions.
//!
//! Per format: views that lie on the bytes and are checked when they are made, a typed message
//! over them, and an encoder. Sessions ([`soupbin`]) are sans-I/O state machines. Nothing here
//! knows a socket, the engine or the overlay.
//!
//! Contract: no input bytes panic; a refusal says why; parsing borrows and encoding appends to a
//! caller's buffer, so neither allocates once that buffer is warm. An encoder that refuses has
//! appended nothing.

mod error;
pub mod glimpse;
pub mod itch;
mod layout;
pub mod moldudp;
pub mod ouch;
mod place;
pub mod soupbin;
pub mod subscription;
mod symbols;

pub use error::EncodeError;
pub use layout::{FieldLayout, Layout};
pub use symbols::SymbolTable;
