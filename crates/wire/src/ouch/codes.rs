//! One-byte and two-byte codes of OUCH 5.0 and what they mean here; the module above has the table.

use types::{CancelReason, Liquidity, RejectReason, TimeInForce};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes, Unaligned};

use crate::EncodeError;

/// Side of an order, as outbound messages carry it.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, TryFromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(u8)]
pub enum Side {
    /// Buy.
    Buy = b'B',
    /// Sell.
    Sell = b'S',
    /// Sell short; not served here.
    SellShort = b'T',
    /// Sell short exempt; not served here.
    SellShortExempt = b'E',
}

impl From<types::Side> for Side {
    fn from(side: types::Side) -> Side {
        match side {
            types::Side::Buy => Side::Buy,
            types::Side::Sell => Side::Sell,
        }
    }
}

impl From<Side> for types::Side {
    /// All kinds of selling are selling.
    fn from(side: Side) -> types::Side {
        match side {
            Side::Buy => types::Side::Buy,
            Side::Sell | Side::SellShort | Side::SellShortExempt => types::Side::Sell,
        }
    }
}

/// What a time-in-force byte means; `None` for those not served.
pub fn time_in_force(code: u8) -> Option<TimeInForce> {
    match code {
        b'0' => Some(TimeInForce::Day),
        b'1' => Some(TimeInForce::GoodTillCancelled),
        b'3' => Some(TimeInForce::ImmediateOrCancel),
        _ => None,
    }
}

/// The byte of a time in force.
pub fn time_in_force_code(time_in_force: TimeInForce) -> u8 {
    match time_in_force {
        TimeInForce::Day => b'0',
        TimeInForce::GoodTillCancelled => b'1',
        TimeInForce::ImmediateOrCancel => b'3',
    }
}

/// What a reject code means; `None` for codes this exchange does not send.
pub fn reject_reason(code: u16) -> Option<RejectReason> {
    match code {
        0x0002 => Some(RejectReason::MarketClosed),
        0x0006 => Some(RejectReason::PriceTooHigh),
        0x000A => Some(RejectReason::CapacityReached),
        0x000F => Some(RejectReason::Unsupported),
        0x0013 => Some(RejectReason::InvalidQuantity),
        0x0015 => Some(RejectReason::UnknownOrder),
        0x0017 => Some(RejectReason::UnknownInstrument),
        0x001D => Some(RejectReason::InvalidPrice),
        0x4601 => Some(RejectReason::PostOnlyWouldTrade),
        0x4602 => Some(RejectReason::NothingLeft),
        _ => None,
    }
}

/// The code of a reject reason.
pub fn reject_code(reason: RejectReason) -> Result<u16, EncodeError> {
    Ok(match reason {
        RejectReason::None => return Err(EncodeError::MissingCode),
        RejectReason::UnknownInstrument => 0x0017,
        RejectReason::InvalidQuantity => 0x0013,
        RejectReason::InvalidPrice => 0x001D,
        RejectReason::PriceTooHigh => 0x0006,
        RejectReason::PostOnlyWouldTrade => 0x4601,
        RejectReason::UnknownOrder => 0x0015,
        RejectReason::MarketClosed => 0x0002,
        RejectReason::CapacityReached => 0x000A,
        RejectReason::NothingLeft => 0x4602,
        RejectReason::Unsupported => 0x000F,
    })
}

/// What a cancel code means; `None` for codes this exchange does not send.
pub fn cancel_reason(code: u8) -> Option<CancelReason> {
    match code {
        b'U' => Some(CancelReason::Requested),
        b'I' => Some(CancelReason::ImmediateOrCancel),
        b'T' => Some(CancelReason::EndOfDay),
        _ => None,
    }
}

/// The code of a cancel reason.
pub fn cancel_code(reason: CancelReason) -> Result<u8, EncodeError> {
    match reason {
        CancelReason::None => Err(EncodeError::MissingCode),
        CancelReason::Requested => Ok(b'U'),
        CancelReason::ImmediateOrCancel => Ok(b'I'),
        CancelReason::EndOfDay => Ok(b'T'),
    }
}

/// What a liquidity flag means; `None` for flags this exchange does not send.
pub fn liquidity(code: u8) -> Option<Liquidity> {
    match code {
        b'A' => Some(Liquidity::Added),
        b'R' => Some(Liquidity::Removed),
        _ => None,
    }
}

/// The flag of an execution's liquidity.
pub fn liquidity_code(liquidity: Liquidity) -> Result<u8, EncodeError> {
    match liquidity {
        Liquidity::None => Err(EncodeError::MissingCode),
        Liquidity::Added => Ok(b'A'),
        Liquidity::Removed => Ok(b'R'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_no_two_are_equal() {
        use RejectReason::{
            CapacityReached, InvalidPrice, InvalidQuantity, MarketClosed, NothingLeft,
            PostOnlyWouldTrade, PriceTooHigh, UnknownInstrument, UnknownOrder, Unsupported,
        };
        let reasons = [
            UnknownInstrument,
            InvalidQuantity,
            InvalidPrice,
            PriceTooHigh,
            PostOnlyWouldTrade,
            UnknownOrder,
            MarketClosed,
            CapacityReached,
            NothingLeft,
            Unsupported,
        ];
        for reason in reasons {
            assert_eq!(reject_code(reason).map(reject_reason), Ok(Some(reason)));
        }
        assert_eq!(reject_code(RejectReason::None), Err(EncodeError::MissingCode));
        let sent = (0..=u16::MAX).filter(|&code| reject_reason(code).is_some()).count();
        assert_eq!(sent, reasons.len());
        for code in 0..=u8::MAX {
            if let Some(reason) = cancel_reason(code) {
                assert_eq!(cancel_code(reason), Ok(code));
            }
            if let Some(flag) = liquidity(code) {
                assert_eq!(liquidity_code(flag), Ok(code));
            }
            if let Some(life) = time_in_force(code) {
                assert_eq!(time_in_force_code(life), code);
            }
        }
        assert!(cancel_code(CancelReason::None).is_err());
        assert!(liquidity_code(Liquidity::None).is_err());
    }
}
