//! Nasdaq TotalView-ITCH 5.0: the public feed.
//!
//! [`parse`] makes a checked view of any of the 23 message types; [`Encoder`] writes the fourteen
//! this exchange sends, one for each [`types::MarketEvent`], which carries all an event says, so
//! that [`Message::to_event`] gives it back. Fields mean what the specification says, but:
//!
//! - stock locate is the [`types::InstrumentId`] (0 in system events), tracking number is 0, the
//!   timestamp is engine time since the midnight the encoder was given;
//! - quantities are lots of the instrument, prices are 1/10000 of the quote currency in 32 bits;
//! - a directory entry says: market category not available, financial status normal, round lot 1,
//!   odd lots taken, "other" security without sub-type, live, no short-sale threshold, no IPO, no
//!   limit-up limit-down tier, no exchange-traded product, leverage 0, not inverse;
//! - a trading action has a blank reserved byte and reason; paused is a volatility call;
//! - `P` names no order (reference 0) and has the side of the resting one; `Q` and `I` say `H` for
//!   the auction after a halt or a volatility call, and `I` for a batch auction;
//! - the price variation of `I` is worked out from near and reference price, blank without either;
//!   price 0 means none; `J` is the collar of continuous trading, not of an auction;
//! - no message corrects a trade: it is broken by `B`, the right one printed by `P` or `Q`.

mod encode;
mod event;
mod field;
mod messages;

pub use encode::Encoder;
pub use field::{EventCode, Printable, Side, State, Time, cross_kind, imbalance_side};
pub use messages::{
    AddOrder, AddOrderMpid, BrokenTrade, CrossTrade, DirectListing, Header, IpoQuotingPeriod,
    LuldAuctionCollar, MarketParticipantPosition, Message, MwcbDeclineLevel, MwcbStatus,
    NetOrderImbalance, OperationalHalt, OrderCancel, OrderDelete, OrderExecuted,
    OrderExecutedWithPrice, OrderReplace, RegShoRestriction, RetailInterest, StockDirectory,
    StockTradingAction, SystemEvent, Trade,
};

/// Why bytes are not an ITCH message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ItchError {
    /// The message has no bytes, so no type.
    Empty,
    /// No message has this type byte.
    UnknownType(u8),
    /// The wrong number of bytes for the type.
    Length {
        /// Type byte of the message.
        kind: u8,
        /// Length of the message, bytes.
        len: usize,
    },
    /// A coded field (side, event, state, printable) has a value outside its list.
    Field {
        /// Type byte of the message.
        kind: u8,
    },
}

impl std::fmt::Display for ItchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            ItchError::Empty => f.write_str("empty ITCH message"),
            ItchError::UnknownType(kind) => write!(f, "unknown ITCH type {kind:#04x}"),
            ItchError::Length { kind, len } => {
                write!(f, "ITCH '{}' of {len} bytes", kind.escape_ascii())
            }
            ItchError::Field { kind } => {
                write!(f, "ITCH '{}' with an invalid code", kind.escape_ascii())
            }
        }
    }
}

impl std::error::Error for ItchError {}

/// Reads exactly one message (without the length in front of it).
pub fn parse(bytes: &[u8]) -> Result<Message<'_>, ItchError> {
    messages::parse(bytes)
}
