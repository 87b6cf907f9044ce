//! Phases of the instruments' markets, auctions, collars: by command of schedule or operator.
//!
//! What a change of phase does to orders is the book's (docs/matching.md, 8 and 9). Here is what
//! the public is told: the trading state (before trading begins, or after it has ended), the
//! cross, indicative prices, and the price range whenever it is laid anew by command, at the start
//! of a day, and when a volatility call ends (not after each trade).

use types::{
    Command, ImbalanceSide, InstrumentId, InstrumentParam, MarketEvent, Phase, Price, Qty, Side,
    SystemEventCode, TradingState,
};

use crate::apply::{Applied, Day, Engine, cross_kind};
use crate::output::Output;

/// What the feed calls a phase.
pub(crate) fn trading_state(phase: Phase) -> TradingState {
    match phase {
        Phase::Closed | Phase::Halt => TradingState::Halted,
        Phase::Continuous => TradingState::Trading,
        Phase::VolatilityCall => TradingState::Paused,
        Phase::PreOpen | Phase::OpeningCall | Phase::ClosingCall | Phase::Batch => {
            TradingState::QuotationOnly
        }
    }
}

impl Engine {
    pub(crate) fn set_phase(&mut self, command: &Command, out: &mut Output) -> Applied {
        let (phase, slots) = (Phase::from_code(command.param), self.slots(command.instrument));
        let (Some(phase), Some(slots), Day::Open) = (phase, slots, self.day) else {
            return Applied::Refused;
        };
        if phase == Phase::Continuous && !self.market_hours {
            self.market_hours = true;
            self.system_event(SystemEventCode::StartOfMarketHours, out);
        }
        for slot in slots {
            self.change_phase(slot, phase, out);
        }
        Applied::Done
    }

    /// Changes a phase and tells the public; nothing when it is the same.
    pub(crate) fn change_phase(&mut self, slot: usize, to: Phase, out: &mut Output) {
        let from = self.books.phase(slot as u16);
        if from == to {
            return;
        }
        let (instrument, state) = (InstrumentId(slot as u16 + 1), trading_state(to));
        let told = MarketEvent::TradingAction { instrument, state };
        if to == Phase::Continuous {
            self.feed.publish(told, out);
            self.enter_phase(slot, to, out);
        } else {
            self.enter_phase(slot, to, out);
            self.feed.publish(told, out);
        }
        if from == Phase::VolatilityCall {
            self.publish_collar(slot, out);
        }
    }

    /// Changes a phase without a word about it.
    pub(crate) fn enter_phase(&mut self, slot: usize, to: Phase, out: &mut Output) {
        if to == Phase::Continuous {
            self.collar_for_uncrossing(slot);
        }
        let (books, mut events) = self.events(slot, out);
        events.crosses = cross_kind(books.phase(slot as u16));
        books.set_phase(slot as u16, to, &mut events);
        let interrupted = events.interrupted;
        let expected = if interrupted { Phase::VolatilityCall } else { to };
        assert_eq!(self.books.phase(slot as u16), expected, "a phase is entered or interrupted");
        self.settle(slot, interrupted, out);
    }

    /// The collar is laid around the price of the uncrossing that comes, so that what trades right
    /// after it is not held against the price before.
    fn collar_for_uncrossing(&mut self, slot: usize) {
        let market = &self.markets[slot];
        if market.dynamic_bp != 0
            && let Some(price) = self.books.indicative(slot as u16).price
        {
            let collar = market.dynamic_collar(price);
            self.books.set_collar(slot as u16, collar);
        }
    }

    pub(crate) fn uncross(&mut self, command: &Command, out: &mut Output) -> Applied {
        let Some(slots) = self.slots(command.instrument) else { return Applied::Refused };
        let mut done = false;
        for slot in slots {
            if self.books.phase(slot as u16) != Phase::Batch {
                continue;
            }
            done = true;
            let (books, mut events) = self.events(slot, out);
            events.crosses = cross_kind(Phase::Batch);
            books.uncross(slot as u16, &mut events);
            let interrupted = events.interrupted;
            self.settle(slot, interrupted, out);
        }
        if done || command.instrument.0 == 0 { Applied::Done } else { Applied::Refused }
    }

    pub(crate) fn publish_indicative(&mut self, command: &Command, out: &mut Output) -> Applied {
        let Some(slots) = self.slots(command.instrument) else { return Applied::Refused };
        let mut done = false;
        for slot in slots {
            let phase = self.books.phase(slot as u16);
            // In the phase before a call nothing is told about a price.
            if phase.is_call() && phase != Phase::PreOpen {
                done = true;
                self.publish_imbalance(slot, out);
            }
        }
        if done || command.instrument.0 == 0 { Applied::Done } else { Applied::Refused }
    }

    fn publish_imbalance(&mut self, slot: usize, out: &mut Output) {
        let indicative = self.books.indicative(slot as u16);
        let (side, imbalance) = match (indicative.price, indicative.surplus) {
            (None, _) => (ImbalanceSide::Insufficient, Qty(0)),
            (Some(_), None) => (ImbalanceSide::None, Qty(0)),
            (Some(_), Some((Side::Buy, qty))) => (ImbalanceSide::Buy, qty),
            (Some(_), Some((Side::Sell, qty))) => (ImbalanceSide::Sell, qty),
        };
        let price = indicative.price.unwrap_or(Price(0));
        let event = MarketEvent::Imbalance {
            instrument: InstrumentId(slot as u16 + 1),
            paired: indicative.volume,
            imbalance,
            side,
            far: price,
            near: price,
            reference: self.markets[slot].reference,
            kind: cross_kind(self.books.phase(slot as u16)),
        };
        self.feed.publish(event, out);
    }

    /// The rest of what is told when the dynamic collar stopped trading.
    #[cold]
    pub(crate) fn tell_interruption(&mut self, slot: usize, out: &mut Output) {
        let market = &mut self.markets[slot];
        market.extensions = market.extensions.saturating_add(1);
        self.publish_imbalance(slot, out);
    }

    pub(crate) fn set_instrument(&mut self, command: &Command, out: &mut Output) -> Applied {
        let param = InstrumentParam::from_code(command.param);
        match param {
            Some(InstrumentParam::Shard) => return self.plan_move(command, out),
            Some(InstrumentParam::Placed) => return self.place(command, out),
            _ => {}
        }
        if let Some(param @ (InstrumentParam::Tick | InstrumentParam::Listed)) = param {
            return self.plan_for_roll(param, command, out);
        }
        let (Some(param), Some(slot)) = (param, self.slot(command.instrument)) else {
            return Applied::Refused;
        };
        if !self.markets[slot].set(param, command.price, command.qty) {
            return Applied::Refused;
        }
        match param {
            InstrumentParam::Reference
            | InstrumentParam::StaticCollar
            | InstrumentParam::DynamicCollar => {
                self.refer(slot);
                self.publish_collar(slot, out);
            }
            InstrumentParam::QtyMin
            | InstrumentParam::QtyMax
            | InstrumentParam::Tick
            | InstrumentParam::Listed
            | InstrumentParam::Shard
            | InstrumentParam::Placed => {}
        }
        Applied::Done
    }

    /// Lays both collars by the market's present parameters and tells the book the reference.
    pub(crate) fn refer(&mut self, slot: usize) {
        let market = &mut self.markets[slot];
        market.collar();
        let collar = market.dynamic_collar(market.price());
        self.books.set_reference(slot as u16, market.reference);
        self.books.set_collar(slot as u16, collar);
    }

    /// Tells the price range, if there is one.
    pub(crate) fn publish_collar(&mut self, slot: usize, out: &mut Output) {
        let market = &self.markets[slot];
        let fixed = market.static_bp != 0 && market.reference.0 != 0;
        let (reference, (lower, upper)) = match market.dynamic_collar(market.price()) {
            Some((low, high)) => (market.price(), (low.max(market.low), high.min(market.high))),
            None if fixed => (market.reference, (market.low, market.high)),
            None => return,
        };
        let instrument = InstrumentId(slot as u16 + 1);
        let extension = market.extensions;
        let event = MarketEvent::Collar { instrument, reference, upper, lower, extension };
        self.feed.publish(event, out);
    }
}
