//! Why a value does not fit its wire format.

use types::{InstrumentId, Nanos, Price, Qty};

/// An encoder's refusal. The engine's own limits ([`types::limits`]) keep every event it emits
/// within the formats, so for engine output each of these means a fault in the exchange, to be
/// counted and reported, never to be hidden by wrapping or saturating.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncodeError {
    /// The encoder was not given an instrument of this number.
    UnknownInstrument(InstrumentId),
    /// The price is negative or wider than the field.
    Price(Price),
    /// The quantity is wider than 32 bits.
    Quantity(Qty),
    /// The time lies before the encoder's midnight.
    Time(Nanos),
    /// The value of a required code field is `None`, which has no byte in the format.
    MissingCode,
    /// The record belongs to another protocol's session (FIX) and has no OUCH message.
    Foreign,
}

impl std::fmt::Display for EncodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EncodeError::UnknownInstrument(id) => write!(f, "no instrument {id} on this wire"),
            EncodeError::Price(price) => write!(f, "price {price} does not fit the field"),
            EncodeError::Quantity(qty) => write!(f, "quantity {qty} does not fit 32 bits"),
            EncodeError::Time(at) => write!(f, "time {} ns is not in the trading day", at.0),
            EncodeError::Foreign => f.write_str("a record of another protocol's session"),
            EncodeError::MissingCode => f.write_str("a reason or liquidity code is missing"),
        }
    }
}

impl std::error::Error for EncodeError {}

/// A quantity as the 32 bits that ITCH and OUCH give it.
#[inline]
pub(crate) fn qty_u32(qty: Qty) -> Result<u32, EncodeError> {
    u32::try_from(qty.0).map_err(|_| EncodeError::Quantity(qty))
}

/// Nanoseconds of one day of 86,400 seconds.
pub(crate) const DAY_NS: u64 = 86_400 * Nanos::SECOND;

/// Nanoseconds from the last midnight to `at`, less than a day's; `midnight` is the first one. An
/// exchange that runs for weeks never leaves the range of its messages' times.
#[inline]
pub(crate) fn since_midnight(at: Nanos, midnight: Nanos) -> Result<u64, EncodeError> {
    let ns = at.0.checked_sub(midnight.0).ok_or(EncodeError::Time(at))?;
    Ok(if ns < DAY_NS { ns } else { ns % DAY_NS })
}
