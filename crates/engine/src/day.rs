//! The trading day: a logged command at each end (corner 8).
//!
//! Between the two, orders are taken. The numbers of requests start again with each day but the
//! first; until then a repeated request of the day before is still known as one. The feed's
//! positions, order references and match numbers run on, and orders that live longer than a day
//! stay in the book with their priority.
//!
//! To readers each day is a session of the feed of its own, which says all there is: start of
//! messages, the instruments, their states, and the displayed orders that are still open, best
//! price first and in the order of their queues. After the end of messages nothing is told until
//! then, whatever ends between two days, but of trades that are broken or corrected. Instruments that change at the roll: module `listing`.
//!
//! A venue that never closes ends its day with `param` 1: the next day begins within the same
//! command, phases stay as they are, and the numbers of requests run on.

use types::{
    CancelReason, Command, InstrumentId, MarketEvent, Phase, Side, SystemEventCode, TimeInForce,
};

use crate::apply::{Applied, Day, Engine};
use crate::output::Output;
use crate::phases::trading_state;

impl Engine {
    pub(crate) fn start_of_day(&mut self, command: &Command, out: &mut Output) -> Applied {
        if self.day == Day::Open || command.param > 1 {
            return Applied::Refused;
        }
        if self.day == Day::Closed {
            self.begin_day_of_moves();
            self.accounts.rotate();
            self.carried_over = !self.books.is_empty();
        }
        let first = if command.param == 0 { Phase::Continuous } else { Phase::PreOpen };
        self.open_day(Some(first), out);
        let slots = self.slots(InstrumentId(0)).unwrap_or_default();
        for slot in slots {
            self.enter_phase(slot, first, out);
        }
        assert_eq!(self.day, Day::Open);
        Applied::Done
    }

    /// Tells the feed that a day begins; the phases are `first`, or stay as they are.
    fn open_day(&mut self, first: Option<Phase>, out: &mut Output) {
        self.day = Day::Open;
        self.feed.silent = false;
        self.system_event(SystemEventCode::StartOfMessages, out);
        self.system_event(SystemEventCode::StartOfSystemHours, out);
        let slots = self.slots(InstrumentId(0)).unwrap_or_default();
        for &slot in &slots {
            let instrument = InstrumentId(slot as u16 + 1);
            self.feed.publish(MarketEvent::Directory { instrument }, out);
        }
        for &slot in &slots {
            let instrument = InstrumentId(slot as u16 + 1);
            let phase = first.unwrap_or(self.books.phase(slot as u16));
            let state = trading_state(phase);
            self.feed.publish(MarketEvent::TradingAction { instrument, state }, out);
        }
        for &slot in &slots {
            self.markets[slot].extensions = 0;
            self.refer(slot);
            self.publish_collar(slot, out);
        }
        for &slot in &slots {
            self.announce_orders(slot, out);
        }
        self.market_hours = first != Some(Phase::PreOpen);
        if self.market_hours {
            self.system_event(SystemEventCode::StartOfMarketHours, out);
        }
    }

    pub(crate) fn end_of_day(&mut self, command: &Command, out: &mut Output) -> Applied {
        if self.day != Day::Open || command.param > 1 {
            return Applied::Refused;
        }
        let goes_on = command.param == 1;
        for slot in self.slots(InstrumentId(0)).unwrap_or_default() {
            if !goes_on {
                self.change_phase(slot, Phase::Closed, out);
            }
            let ends_today = |order: &book::Order| {
                matches!(
                    order.time_in_force(),
                    TimeInForce::Day | TimeInForce::AtTheOpen | TimeInForce::AtTheClose
                )
            };
            self.cancel_where(slot, CancelReason::EndOfDay, ends_today, out);
            let phase = self.books.phase(slot as u16);
            assert!(goes_on || phase == Phase::Closed, "nothing trades between two days");
            let last = self.books.last_price(slot as u16);
            let market = &mut self.markets[slot];
            if last.0 != 0 {
                market.closing = last;
                market.refer_to(last);
            }
        }
        self.roll_instruments(goes_on, out);
        self.roll_moves(goes_on, out);
        self.day = Day::Closed;
        self.system_event(SystemEventCode::EndOfMarketHours, out);
        self.system_event(SystemEventCode::EndOfSystemHours, out);
        self.system_event(SystemEventCode::EndOfMessages, out);
        self.feed.silent = true;
        if goes_on {
            self.open_day(None, out);
        }
        assert_eq!(self.day == Day::Open, goes_on, "a day ends, or goes over into the next");
        Applied::Done
    }

    /// Tells of the displayed orders of a book.
    pub(crate) fn announce_orders(&mut self, slot: usize, out: &mut Output) {
        let instrument = InstrumentId(slot as u16 + 1);
        for side in [Side::Buy, Side::Sell] {
            for (order_ref, price, qty) in self.books.displayed(slot as u16, side) {
                let event = MarketEvent::AddOrder { instrument, order_ref, side, qty, price };
                self.feed.publish(event, out);
            }
        }
    }

    pub(crate) fn system_event(&mut self, code: SystemEventCode, out: &mut Output) {
        self.feed.publish(MarketEvent::SystemEvent { code }, out);
    }
}
