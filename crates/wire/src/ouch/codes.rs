//! One-byte and two-byte codes of OUCH 5.0 and what they mean here; the module above has the table.

use types::{CancelReason, Liquidity, ORDER_HIDDEN, OrderType, RejectReason, TimeInForce};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes, Unaligned};

use crate::EncodeError;

/// Side of an order, as outbound messages carry it.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, TryFromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(u8)]
pub enum Side {
    /// `B`: the order buys.
    Buy = b'B',
    /// `S`: the order sells.
    Sell = b'S',
    /// `T`: the order sells short; not served here.
    SellShort = b'T',
    /// `E`: the order sells short, exempt from the price test; not served here.
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
    /// Every way of selling becomes a sale.
    fn from(side: Side) -> types::Side {
        match side {
            Side::Buy => types::Side::Buy,
            Side::Sell | Side::SellShort | Side::SellShortExempt => types::Side::Sell,
        }
    }
}

/// By byte: the meaning of a time in force. A table, since nobody foresees which one comes.
const LIVES: [Option<TimeInForce>; 256] = {
    let mut lives = [None; 256];
    lives[b'0' as usize] = Some(TimeInForce::Day);
    lives[b'5' as usize] = Some(TimeInForce::Day);
    lives[b'1' as usize] = Some(TimeInForce::GoodTillCancelled);
    lives[b'3' as usize] = Some(TimeInForce::ImmediateOrCancel);
    lives[b'6' as usize] = Some(TimeInForce::GoodTillDate);
    lives[b'F' as usize] = Some(TimeInForce::FillOrKill);
    lives
};

/// By byte: the side of an order that is entered.
const SIDES: [Option<types::Side>; 256] = {
    let mut sides = [None; 256];
    sides[b'B' as usize] = Some(types::Side::Buy);
    sides[b'S' as usize] = Some(types::Side::Sell);
    sides
};

/// What a time-in-force byte means; `None` for those not served. Extended hours are part of the
/// day here.
#[inline]
pub fn time_in_force(code: u8) -> Option<TimeInForce> {
    LIVES[usize::from(code)]
}

/// What the side byte of a new order means; `None` for those not served.
#[inline]
pub(super) fn side(code: u8) -> Option<types::Side> {
    SIDES[usize::from(code)]
}

/// The byte of a time in force. Orders for an auction are immediate or cancel, their cross type
/// ([`cross_type_code`]) says the rest.
pub fn time_in_force_code(time_in_force: TimeInForce) -> u8 {
    match time_in_force {
        TimeInForce::Day => b'0',
        TimeInForce::GoodTillCancelled => b'1',
        TimeInForce::ImmediateOrCancel | TimeInForce::AtTheOpen | TimeInForce::AtTheClose => b'3',
        TimeInForce::GoodTillDate => b'6',
        TimeInForce::FillOrKill => b'F',
    }
}

/// The cross type byte of a time in force: `O`, `C`, or `N` for the continuous market.
pub fn cross_type_code(time_in_force: TimeInForce) -> u8 {
    match time_in_force {
        TimeInForce::AtTheOpen => b'O',
        TimeInForce::AtTheClose => b'C',
        _ => b'N',
    }
}

/// [`time_in_force_code`] and [`cross_type_code`] of a time in force, from one table.
#[inline]
pub(super) fn life_codes(time_in_force: TimeInForce) -> [u8; 2] {
    // By number of the time in force.
    const CODES: [[u8; 2]; 7] = [*b"0N", *b"1N", *b"3N", *b"FN", *b"6N", *b"3O", *b"3C"];
    CODES[time_in_force as usize]
}

/// Reasons and their codes: below 0x4600 Nasdaq's (appendix D), above it ours.
const REJECTS: [(RejectReason, u16); RejectReason::ALL.len()] = [
    (RejectReason::MarketClosed, 0x0002),
    (RejectReason::PriceTooHigh, 0x0006),
    (RejectReason::Halted, 0x0007),
    (RejectReason::CapacityReached, 0x000A),
    (RejectReason::Unsupported, 0x000F),
    (RejectReason::InvalidQuantity, 0x0013),
    (RejectReason::UnknownOrder, 0x0015),
    (RejectReason::UnknownInstrument, 0x0017),
    (RejectReason::InvalidPrice, 0x001D),
    (RejectReason::OrderQuantityLimit, 0x001E),
    (RejectReason::OrderNotionalLimit, 0x001F),
    (RejectReason::CreditLimit, 0x0020),
    (RejectReason::FatFinger, 0x0026),
    (RejectReason::MessageRate, 0x0029),
    (RejectReason::PostOnlyWouldTrade, 0x4601),
    (RejectReason::NothingLeft, 0x4602),
    (RejectReason::NotInThisPhase, 0x4603),
    (RejectReason::PriceCollar, 0x4604),
    (RejectReason::OpenOrdersLimit, 0x4605),
    (RejectReason::PositionLimit, 0x4606),
    (RejectReason::DuplicateClOrdId, 0x4607),
    (RejectReason::Killed, 0x4608),
    (RejectReason::InvalidStopPrice, 0x4609),
    (RejectReason::InvalidQuantityTerms, 0x460A),
    (RejectReason::InvalidExpiry, 0x460B),
    (RejectReason::DuplicateOrder, 0x460C),
    (RejectReason::ShardAllotment, 0x460D),
];

/// What a reject code means; `None` for codes this exchange does not send.
pub fn reject_reason(code: u16) -> Option<RejectReason> {
    REJECTS.iter().find(|(_, known)| *known == code).map(|&(reason, _)| reason)
}

/// The code of a reject reason.
pub fn reject_code(reason: RejectReason) -> Result<u16, EncodeError> {
    let found = REJECTS.iter().find(|(known, _)| *known == reason);
    found.map(|&(_, code)| code).ok_or(EncodeError::MissingCode)
}

/// Reasons and their codes: upper case Nasdaq's (appendix C), lower case ours.
const CANCELS: [(CancelReason, u8); 14] = [
    (CancelReason::Requested, b'U'),
    (CancelReason::ImmediateOrCancel, b'I'),
    (CancelReason::EndOfDay, b'T'),
    (CancelReason::SelfTrade, b'Q'),
    (CancelReason::Killed, b'S'),
    (CancelReason::Collar, b'K'),
    (CancelReason::Capacity, b'Z'),
    (CancelReason::NotEnough, b'n'),
    (CancelReason::MassCancel, b'm'),
    (CancelReason::Disconnect, b'd'),
    (CancelReason::Expired, b'x'),
    (CancelReason::AuctionOver, b'a'),
    (CancelReason::Delisted, b'D'),
    (CancelReason::TickSize, b't'),
];

/// What a cancel code means; `None` for codes this exchange does not send.
pub fn cancel_reason(code: u8) -> Option<CancelReason> {
    CANCELS.iter().find(|(_, known)| *known == code).map(|&(reason, _)| reason)
}

/// Code of each reason, by the reason's number; 0: the reason has no code.
const CANCEL_CODES: [u8; CANCELS.len() + 1] = {
    let mut codes = [0; CANCELS.len() + 1];
    let mut at = 0;
    while at < CANCELS.len() {
        codes[CANCELS[at].0 as usize] = CANCELS[at].1;
        at += 1;
    }
    codes
};

/// The code of a cancel reason.
#[inline]
pub fn cancel_code(reason: CancelReason) -> Result<u8, EncodeError> {
    match CANCEL_CODES[reason as usize] {
        0 => Err(EncodeError::MissingCode),
        code => Ok(code),
    }
}

/// What a liquidity flag means; `None` for flags this exchange does not send.
pub fn liquidity(code: u8) -> Option<Liquidity> {
    match code {
        b'A' | b'J' | b'k' => Some(Liquidity::Added),
        b'R' => Some(Liquidity::Removed),
        b'O' => Some(Liquidity::OpeningCross),
        b'C' => Some(Liquidity::ClosingCross),
        b'H' => Some(Liquidity::ResumingCross),
        b'I' => Some(Liquidity::IntradayCross),
        _ => None,
    }
}

/// The flag of an execution: its liquidity, and for an order that rested whether it was displayed
/// (`A`), hidden (`J`) or pegged to the middle (`k`).
#[inline]
pub fn liquidity_code(
    liquidity: Liquidity,
    order_type: OrderType,
    flags: u8,
) -> Result<u8, EncodeError> {
    // By number of the liquidity; 0: it has no flag.
    const FLAGS: [u8; 7] = *b"\0AROCHI";
    match FLAGS[liquidity as usize] {
        0 => Err(EncodeError::MissingCode),
        b'A' if is_hidden(order_type, flags) => {
            Ok(if order_type == OrderType::PegMid { b'k' } else { b'J' })
        }
        flag => Ok(flag),
    }
}

/// Whether an order is not displayed; pegs never are.
#[inline]
pub(super) fn is_hidden(order_type: OrderType, flags: u8) -> bool {
    flags & ORDER_HIDDEN != 0 || matches!(order_type, OrderType::PegPrimary | OrderType::PegMid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_no_two_are_equal() {
        for reason in RejectReason::ALL {
            assert_eq!(reject_code(reason).map(reject_reason), Ok(Some(reason)));
        }
        assert_eq!(reject_code(RejectReason::None), Err(EncodeError::MissingCode));
        let sent = (0..=u16::MAX).filter(|&code| reject_reason(code).is_some()).count();
        assert_eq!(sent, RejectReason::ALL.len());
        let mut cancels = 0;
        for code in 0..=u8::MAX {
            if let Some(reason) = cancel_reason(code) {
                assert_eq!(cancel_code(reason), Ok(code));
                cancels += 1;
            }
            if let Some(life) = time_in_force(code) {
                assert_eq!(time_in_force_code(life), if code == b'5' { b'0' } else { code });
                assert_eq!(life_codes(life), [time_in_force_code(life), cross_type_code(life)]);
            }
        }
        assert_eq!((cancels, CancelReason::TickSize as usize), (CANCELS.len(), CANCELS.len()));
        assert!(cancel_code(CancelReason::None).is_err());
    }

    #[test]
    fn two_bytes_are_sides_that_are_served_and_six_are_lives() {
        let sides = (0..=u8::MAX).filter_map(|code| Some((code, side(code)?)));
        let known = [(b'B', types::Side::Buy), (b'S', types::Side::Sell)];
        assert_eq!(sides.collect::<Vec<_>>(), known);
        let lives = (0..=u8::MAX).filter(|&code| time_in_force(code).is_some());
        assert_eq!(lives.collect::<Vec<_>>(), *b"01356F");
    }

    #[test]
    fn orders_for_an_auction_are_immediate_and_name_their_cross() {
        assert_eq!(life_codes(TimeInForce::AtTheOpen), *b"3O");
        assert_eq!(life_codes(TimeInForce::AtTheClose), *b"3C");
        for life in [TimeInForce::AtTheOpen, TimeInForce::AtTheClose] {
            assert_eq!(life_codes(life), [time_in_force_code(life), cross_type_code(life)]);
        }
    }

    #[test]
    fn liquidity_flags_read_back() {
        let mut seen = Vec::new();
        for liquidity_was in [
            Liquidity::Added,
            Liquidity::Removed,
            Liquidity::OpeningCross,
            Liquidity::ClosingCross,
            Liquidity::ResumingCross,
            Liquidity::IntradayCross,
        ] {
            let cases =
                [(OrderType::Limit, 0), (OrderType::Limit, ORDER_HIDDEN), (OrderType::PegMid, 0)];
            for (order_type, flags) in cases {
                let code = liquidity_code(liquidity_was, order_type, flags);
                assert_eq!(code.map(liquidity), Ok(Some(liquidity_was)));
                seen.extend(code);
            }
        }
        seen.dedup();
        assert_eq!(seen, b"AJkROCHI");
        assert!(liquidity_code(Liquidity::None, OrderType::Limit, 0).is_err());
        assert_eq!((0..=u8::MAX).filter(|&code| liquidity(code).is_some()).count(), seen.len());
    }
}
