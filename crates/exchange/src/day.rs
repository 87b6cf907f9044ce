//! The day as the feed tells it: auctions and halts, for reports. Bounded: the first of each are
//! kept, the others counted.

use types::{
    CrossKind, InstrumentId, MarketEvent, Nanos, Packer, Price, Qty, SystemEventCode, TradingState,
    Unpacker,
};

/// Auctions and halts kept.
const KEPT_MAX: usize = 4_096;

/// An auction that traded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Auction {
    /// Of which instrument.
    pub instrument: InstrumentId,
    /// Which one of the day.
    pub kind: CrossKind,
    /// Its price.
    pub price: Price,
    /// Lots traded.
    pub qty: Qty,
    /// Engine time.
    pub at: Nanos,
}

/// A time without trading in the middle of the day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Halt {
    /// Of which instrument.
    pub instrument: InstrumentId,
    /// Engine time at which it began.
    pub from: Nanos,
    /// Engine time at which orders were taken again.
    pub to: Nanos,
}

/// Auctions and halts so far.
#[derive(Clone, Debug, Default)]
pub struct DayRecord {
    auctions: Vec<Auction>,
    halts: Vec<Halt>,
    /// By instrument id less one: since when it is halted.
    halted: Vec<Option<Nanos>>,
    /// By instrument id less one: whether orders are collected without trading.
    calls: Vec<bool>,
    open: bool,
    left_out: u64,
}

impl DayRecord {
    /// Auctions that traded, in order.
    pub fn auctions(&self) -> &[Auction] {
        &self.auctions
    }

    /// Halts that are over, in order of their ends.
    pub fn halts(&self) -> &[Halt] {
        &self.halts
    }

    /// Auctions and halts that found no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether an instrument (0: any) is in a call.
    pub fn in_call(&self, instrument: InstrumentId) -> bool {
        match usize::from(instrument.0).checked_sub(1) {
            Some(place) => self.calls.get(place).copied().unwrap_or(false),
            None => self.calls.contains(&true),
        }
    }

    pub(crate) fn pack(&self, to: &mut Packer<'_>) {
        to.u8(u8::from(self.open));
        to.u64(self.left_out);
        to.count(self.auctions.len());
        for Auction { instrument, kind, price, qty, at } in &self.auctions {
            to.u32(instrument.0.into());
            to.u8(*kind as u8);
            [price.0.cast_unsigned(), qty.0, at.0].into_iter().for_each(|word| to.u64(word));
        }
        to.count(self.halts.len());
        for Halt { instrument, from, to: until } in &self.halts {
            to.u32(instrument.0.into());
            [from.0, until.0].into_iter().for_each(|word| to.u64(word));
        }
        to.count(self.halted.len());
        for (since, call) in self.halted.iter().zip(&self.calls) {
            to.u8(u8::from(*call));
            to.u8(u8::from(since.is_some()));
            to.u64(since.map_or(0, |since| since.0));
        }
    }

    /// `None` for anything that no record packs.
    pub(crate) fn unpack(from: &mut Unpacker<'_>) -> Option<DayRecord> {
        let mut day = DayRecord { open: from.bool()?, ..DayRecord::default() };
        day.left_out = from.u64()?;
        let kept = |count: usize| Some(count).filter(|count| *count <= KEPT_MAX);
        for _ in 0..kept(from.count(29)?)? {
            let instrument = InstrumentId(u16::try_from(from.u32()?).ok()?);
            let kind = kind_of(from.u8()?)?;
            let price = Price(from.u64()?.cast_signed());
            let (qty, at) = (Qty(from.u64()?), Nanos(from.u64()?));
            day.auctions.push(Auction { instrument, kind, price, qty, at });
        }
        for _ in 0..kept(from.count(20)?)? {
            let instrument = InstrumentId(u16::try_from(from.u32()?).ok()?);
            day.halts.push(Halt { instrument, from: Nanos(from.u64()?), to: Nanos(from.u64()?) });
        }
        let instruments = from.count(10)?;
        if instruments > usize::from(u16::MAX) {
            return None;
        }
        for _ in 0..instruments {
            day.calls.push(from.bool()?);
            let (halted, since) = (from.bool()?, Nanos(from.u64()?));
            if !halted && since != Nanos(0) {
                return None;
            }
            day.halted.push(halted.then_some(since));
        }
        Some(day)
    }

    /// Takes in what the feed says at engine time `at`.
    pub fn note(&mut self, at: Nanos, event: &MarketEvent) {
        match *event {
            MarketEvent::CrossTrade { instrument, qty, price, kind, .. } => {
                let auction = Auction { instrument, kind, price, qty, at };
                keep(&mut self.auctions, auction, &mut self.left_out);
            }
            MarketEvent::TradingAction { instrument, state } => self.state(at, instrument, state),
            MarketEvent::SystemEvent { code: SystemEventCode::StartOfMarketHours } => {
                self.open = true;
            }
            MarketEvent::SystemEvent { code: SystemEventCode::EndOfMarketHours } => {
                self.open = false;
                self.halted.fill(None);
            }
            _ => {}
        }
    }

    fn state(&mut self, at: Nanos, instrument: InstrumentId, state: TradingState) {
        let Some(place) = usize::from(instrument.0).checked_sub(1) else { return };
        if self.halted.len() <= place {
            self.halted.resize(place + 1, None);
            self.calls.resize(place + 1, false);
        }
        assert_eq!(self.halted.len(), self.calls.len(), "both are by instrument");
        self.calls[place] = matches!(state, TradingState::QuotationOnly | TradingState::Paused);
        if state == TradingState::Halted {
            let since = self.halted[place].or(self.open.then_some(at));
            self.halted[place] = since;
        } else if let Some(from) = self.halted[place].take() {
            keep(&mut self.halts, Halt { instrument, from, to: at }, &mut self.left_out);
        }
    }
}

fn kind_of(code: u8) -> Option<CrossKind> {
    let kinds = [CrossKind::Opening, CrossKind::Closing, CrossKind::Resuming, CrossKind::Intraday];
    kinds.into_iter().find(|kind| *kind as u8 == code)
}

fn keep<T>(list: &mut Vec<T>, item: T, left_out: &mut u64) {
    if list.len() < KEPT_MAX {
        list.push(item);
    } else {
        *left_out += 1;
    }
    assert!(list.len() <= KEPT_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut day = DayRecord::default();
        let trade = MarketEvent::CrossTrade {
            instrument: InstrumentId(1),
            qty: Qty(1),
            price: Price(1),
            kind: CrossKind::Intraday,
            match_number: types::MatchNumber(1),
        };
        for at in 0..KEPT_MAX as u64 + 10 {
            day.note(Nanos(at), &trade);
        }
        assert_eq!((day.auctions().len(), day.left_out()), (KEPT_MAX, 10));
        assert_eq!(day.auctions()[0].at, Nanos(0), "the first are kept");
    }

    #[test]
    fn a_halt_is_between_two_states_of_an_open_day() {
        let (mut day, one) = (DayRecord::default(), InstrumentId(1));
        let mut tell = |at: u64, event| day.note(Nanos(at), &event);
        let action = |state| MarketEvent::TradingAction { instrument: one, state };
        tell(1, action(TradingState::Halted));
        tell(2, MarketEvent::SystemEvent { code: SystemEventCode::StartOfMarketHours });
        tell(3, action(TradingState::Trading));
        tell(5, action(TradingState::Halted));
        tell(6, action(TradingState::Halted));
        tell(9, action(TradingState::Paused));
        tell(10, action(TradingState::Halted));
        tell(11, MarketEvent::SystemEvent { code: SystemEventCode::EndOfMarketHours });
        tell(12, action(TradingState::Trading));
        assert_eq!(day.halts(), [Halt { instrument: one, from: Nanos(5), to: Nanos(9) }]);
        assert_eq!((day.auctions().len(), day.left_out()), (0, 0));
    }
}
