//! OUCH 5.0: order entry, inside SoupBinTCP (unsequenced in, sequenced out).
//!
//! [`parse_inbound`] and [`parse_outbound`] make checked views of every message of either side;
//! [`to_command`] turns the three requests this exchange serves into [`types::Command`]s;
//! [`Encoder`] turns execution reports into answers; `encode_*` write a client's requests.
//!
//! Where we extend or narrow the specification:
//!
//! - **Time in force**: `0` day, `3` immediate or cancel, and our own `1` good till cancelled.
//! - **Market order**: price [`types::limits::PRICE_MARKET`], the largest signed 64-bit number
//!   (Nasdaq's own value is a price like any other here). Not for replaces.
//! - **Post only**: appendage tag 12 with `P`; echoed in the acceptance.
//! - **Quantity** is lots of the instrument, **price** 1/10000 of the quote currency.
//! - Served are sides `B` and `S`, display `Y`, cross type `N`; capacity and sweep eligibility are
//!   read but mean nothing, answers carry `O` (other) and `N`. Anything that would change how an
//!   order trades and is not served is refused, never ignored; unknown tags are ignored.
//! - **Cancel reject** `I` answers every cancel that names no open order. It carries no reason.
//! - **Reject reasons**, Nasdaq's codes where one fits: unknown instrument 0x17, quantity 0x13,
//!   price 0x1D, price too high 0x06 (fat finger), unknown order 0x15 (replace not allowed), market
//!   closed 0x02 (destination closed), capacity 0x0A (processing error), unsupported 0x0F (other);
//!   ours: post-only would trade 0x4601, nothing left to replace 0x4602.
//! - **Cancel reasons**: requested `U`, immediate or cancel `I`, end of day `T`.
//! - **Liquidity**: added `A`, removed `R`.

mod appendage;
mod client;
mod codes;
mod command;
mod encode;
mod messages;

pub use appendage::{Appendage, Element, tag};
pub use client::{NewOrder, ReplaceRequest, encode_cancel, encode_enter_order, encode_replace};
pub use codes::{
    Side, cancel_code, cancel_reason, liquidity, liquidity_code, reject_code, reject_reason,
    time_in_force, time_in_force_code,
};
pub use command::{RefusedRequest, to_command};
pub use encode::Encoder;
pub use messages::{
    AccountQuery, AccountQueryResponse, AiqCanceled, BrokenTrade, CancelOrder, CancelPending,
    CancelReject, DisableOrderEntry, DisableOrderEntryResponse, EnableOrderEntry,
    EnableOrderEntryResponse, EnterOrder, Inbound, MassCancel, MassCancelResponse, ModifyOrder,
    OrderAccepted, OrderCanceled, OrderExecuted, OrderModified, OrderRejected, OrderReplaced,
    OrderRestated, Outbound, PriorityUpdate, ReplaceOrder, SystemEvent,
};

/// Why bytes are not an OUCH message of the side they came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OuchError {
    /// No bytes.
    Empty,
    /// That side sends no messages of this type.
    UnknownType(u8),
    /// Too few or too many bytes for the type.
    Length {
        /// Type byte.
        kind: u8,
        /// Bytes given.
        len: usize,
    },
    /// A coded field of an outbound message has a value outside its list.
    Field {
        /// Type byte.
        kind: u8,
    },
    /// The appendage does not end where it says, holds an element of length 0, one tag twice, or
    /// a known tag with a value of the wrong size.
    Appendage {
        /// Type byte.
        kind: u8,
    },
}

impl std::fmt::Display for OuchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            OuchError::Empty => f.write_str("empty OUCH message"),
            OuchError::UnknownType(kind) => write!(f, "unknown OUCH type {kind:#04x}"),
            OuchError::Length { kind, len } => {
                write!(f, "OUCH '{}' of {len} bytes", kind.escape_ascii())
            }
            OuchError::Field { kind } => {
                write!(f, "OUCH '{}' with an invalid code", kind.escape_ascii())
            }
            OuchError::Appendage { kind } => {
                write!(f, "OUCH '{}' with a malformed appendage", kind.escape_ascii())
            }
        }
    }
}

impl std::error::Error for OuchError {}

/// Reads exactly one message from a client.
///
/// Coded fields are not checked here, so that a request with a wrong one can be refused by number;
/// [`to_command`] checks them.
pub fn parse_inbound(bytes: &[u8]) -> Result<Inbound<'_>, OuchError> {
    Inbound::parse(bytes)
}

/// Reads exactly one message from an exchange.
pub fn parse_outbound(bytes: &[u8]) -> Result<Outbound<'_>, OuchError> {
    Outbound::parse(bytes)
}
