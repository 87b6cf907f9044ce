//! OUCH 5.0: order entry, inside SoupBinTCP (unsequenced in, sequenced out).
//!
//! [`parse_inbound`] and [`parse_outbound`] make checked views of every message of either side;
//! [`to_command`] turns the four requests this exchange serves into [`types::Command`]s;
//! [`Encoder`] turns execution reports into answers; `encode_*` write a client's requests.
//! docs/participant.md has the tables of codes. Where we extend or narrow the specification:
//!
//! - **Quantity** is lots of the instrument, **price** 1/10000 of the quote currency. No price is
//!   [`types::limits::PRICE_MARKET`], the largest signed 64-bit number: a market order (Nasdaq's
//!   own values are prices like any other here), or a stop or peg without limit.
//! - **Time in force**: `5` is `0`; ours: `1` good till cancelled, `F` fill or kill. Cross types
//!   `O` and `C` go with `0` and `3` and are answered with `3`.
//! - **Post only** `S` slides. **PriceType**: `M` and `R`, offset away from the market whichever
//!   the side. Tags from 224 are ours ([`tag`]): stops, self-trade prevention, market to limit,
//!   expiry.
//! - **Mass cancel** takes the side field; its answer has the number of orders.
//! - Capacity and sweep eligibility are read but mean nothing, answers carry `O` (other) and `N`.
//!   Anything else that would change how an order trades and is not served is refused, never
//!   ignored; unknown tags are ignored.
//! - **Answers** echo all terms but self-trade prevention, where the account's own rule may have
//!   been meant. ExpireTime is in whole seconds from the acceptance; ours has the exact end.
//! - **Cancel reject** `I` answers every cancel that names no open order. **Restated** `S`: a stop
//!   became active. **Broken** `c`: corrected, with the right terms in our tags. Self-trade
//!   prevention is told by Order Canceled `Q`: the price it was at is not in a report.

mod appendage;
mod client;
mod codes;
mod command;
mod encode;
mod messages;
mod plain;
mod terms;

pub use appendage::{Appendage, Element, tag};
pub use client::{
    NewOrder, ReplaceRequest, encode_cancel, encode_enter_order, encode_enter_order_with,
    encode_mass_cancel, encode_replace, encode_replace_with,
};
pub use codes::{
    Side, cancel_code, cancel_reason, cross_type_code, liquidity, liquidity_code, reject_code,
    reject_reason, time_in_force, time_in_force_code,
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
pub use plain::read_plain;
pub use terms::Terms;

/// Why bytes are not an OUCH message of the side they came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OuchError {
    /// The message has no bytes, so no type.
    Empty,
    /// That side sends no messages of this type.
    UnknownType(u8),
    /// Too few or too many bytes for the type.
    Length {
        /// Type byte of the message.
        kind: u8,
        /// Length of the message, bytes.
        len: usize,
    },
    /// A coded field of an outbound message has a value outside its list.
    Field {
        /// Type byte of the message.
        kind: u8,
    },
    /// The appendage does not end where it says, holds an element of length 0, one tag twice, or
    /// a known tag with a value of the wrong size.
    Appendage {
        /// Type byte of the message.
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
#[inline]
pub fn parse_inbound(bytes: &[u8]) -> Result<Inbound<'_>, OuchError> {
    Inbound::parse(bytes)
}

/// Reads exactly one message from an exchange.
pub fn parse_outbound(bytes: &[u8]) -> Result<Outbound<'_>, OuchError> {
    Outbound::parse(bytes)
}
