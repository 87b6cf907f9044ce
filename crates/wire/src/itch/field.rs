//! The field types of ITCH 5.0 that are more than a big-endian integer.
//!
//! Each enum lists every value its field may have; a byte outside it makes the message invalid.

use types::{CrossKind, ImbalanceSide, SystemEventCode, TradingState};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes, Unaligned};

/// Nanoseconds since midnight in six bytes, big-endian.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct Time([u8; 6]);

impl Time {
    /// Largest value: about 78 hours.
    pub const MAX: u64 = (1 << 48) - 1;

    /// `ns` as six bytes; `None` above [`Time::MAX`].
    pub fn new(ns: u64) -> Option<Time> {
        let [0, 0, bytes @ ..] = ns.to_be_bytes() else { return None };
        Some(Time(bytes))
    }

    /// The time as a number, ns since midnight (0..=[`Time::MAX`]).
    pub fn get(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

/// Defines one-byte codes: name, meaning, byte.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, Debug, TryFromBytes, IntoBytes, KnownLayout, Immutable,
            Unaligned,
        )]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant = $code,)* }
    };
}

codes! {
    /// Side of a displayed order.
    Side {
        /// `B`: the order buys.
        Buy = b'B',
        /// `S`: the order sells.
        Sell = b'S',
    }
}

codes! {
    /// Step of the day (§1.1).
    EventCode {
        /// `O`: start of messages, always the first message of the day.
        StartOfMessages = b'O',
        /// `S`: system hours begin; orders are accepted from now on.
        StartOfSystemHours = b'S',
        /// `Q`: market hours begin.
        StartOfMarketHours = b'Q',
        /// `M`: market hours have ended.
        EndOfMarketHours = b'M',
        /// `E`: system hours have ended; no more orders are accepted today.
        EndOfSystemHours = b'E',
        /// `C`: end of messages, always the last message of the day.
        EndOfMessages = b'C',
    }
}

codes! {
    /// Trading state of an instrument (§1.2.2).
    State {
        /// `H`: trading is halted at all markets.
        Halted = b'H',
        /// `P`: trading is paused at all markets.
        Paused = b'P',
        /// `Q`: quotation only; orders are taken and do not trade.
        QuotationOnly = b'Q',
        /// `T`: the instrument is trading.
        Trading = b'T',
    }
}

codes! {
    /// Whether an execution counts in time-and-sales (§1.4.2).
    Printable {
        /// `Y`: the execution counts in time and sales.
        Yes = b'Y',
        /// `N`: the execution does not count; a later bulk print covers it.
        No = b'N',
    }
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
    fn from(side: Side) -> types::Side {
        match side {
            Side::Buy => types::Side::Buy,
            Side::Sell => types::Side::Sell,
        }
    }
}

impl From<SystemEventCode> for EventCode {
    fn from(code: SystemEventCode) -> EventCode {
        match code {
            SystemEventCode::StartOfMessages => EventCode::StartOfMessages,
            SystemEventCode::StartOfSystemHours => EventCode::StartOfSystemHours,
            SystemEventCode::StartOfMarketHours => EventCode::StartOfMarketHours,
            SystemEventCode::EndOfMarketHours => EventCode::EndOfMarketHours,
            SystemEventCode::EndOfSystemHours => EventCode::EndOfSystemHours,
            SystemEventCode::EndOfMessages => EventCode::EndOfMessages,
        }
    }
}

impl From<EventCode> for SystemEventCode {
    fn from(code: EventCode) -> SystemEventCode {
        match code {
            EventCode::StartOfMessages => SystemEventCode::StartOfMessages,
            EventCode::StartOfSystemHours => SystemEventCode::StartOfSystemHours,
            EventCode::StartOfMarketHours => SystemEventCode::StartOfMarketHours,
            EventCode::EndOfMarketHours => SystemEventCode::EndOfMarketHours,
            EventCode::EndOfSystemHours => SystemEventCode::EndOfSystemHours,
            EventCode::EndOfMessages => SystemEventCode::EndOfMessages,
        }
    }
}

impl From<TradingState> for State {
    fn from(state: TradingState) -> State {
        match state {
            TradingState::Halted => State::Halted,
            TradingState::Paused => State::Paused,
            TradingState::QuotationOnly => State::QuotationOnly,
            TradingState::Trading => State::Trading,
        }
    }
}

impl From<State> for TradingState {
    fn from(state: State) -> TradingState {
        match state {
            State::Halted => TradingState::Halted,
            State::Paused => TradingState::Paused,
            State::QuotationOnly => TradingState::QuotationOnly,
            State::Trading => TradingState::Trading,
        }
    }
}

/// The auction of a cross type byte; `None` for those this exchange does not hold.
pub fn cross_kind(code: u8) -> Option<CrossKind> {
    let all = [CrossKind::Opening, CrossKind::Closing, CrossKind::Resuming, CrossKind::Intraday];
    all.into_iter().find(|&kind| kind as u8 == code)
}

/// The side of an imbalance direction byte; `None` for those this exchange does not send.
pub fn imbalance_side(code: u8) -> Option<ImbalanceSide> {
    let all =
        [ImbalanceSide::Buy, ImbalanceSide::Sell, ImbalanceSide::None, ImbalanceSide::Insufficient];
    all.into_iter().find(|&side| side as u8 == code)
}

#[cfg(test)]
mod tests {
    use super::Time;

    #[test]
    fn time_is_48_bits() {
        for ns in [0, 1, 0x0102_0304_0506, Time::MAX] {
            assert_eq!(Time::new(ns).map(Time::get), Some(ns));
        }
        assert_eq!(Time::new(Time::MAX + 1), None);
    }
}
