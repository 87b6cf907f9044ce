//! The trading day: a logged command at each end (corner 8).
//!
//! Between the two, orders are taken. The numbers of requests start again with each day but the
//! first; until then a repeated request of the day before is still known as one. The feed's
//! positions, order references and match numbers run on, and good-till-cancelled orders stay in
//! the book and in every reader's, so that nothing has to be announced twice.

use types::{
    CancelReason, ExecutionKind, InstrumentId, MarketEvent, Qty, SystemEventCode, TimeInForce,
    TradingState,
};

use crate::apply::{Applied, Engine, Phase};
use crate::output::{Output, about_order};

impl Engine {
    pub(crate) fn start_of_day(&mut self, out: &mut Output) -> Applied {
        if self.phase == Phase::Open {
            return Applied::Refused;
        }
        if self.phase == Phase::Closed {
            self.accounts.rotate();
        }
        self.phase = Phase::Open;
        self.system_event(SystemEventCode::StartOfMessages, out);
        self.system_event(SystemEventCode::StartOfSystemHours, out);
        for instrument in self.instrument_ids() {
            self.numbers.publish(MarketEvent::Directory { instrument }, out);
        }
        for instrument in self.instrument_ids() {
            let state = TradingState::Trading;
            self.numbers.publish(MarketEvent::TradingAction { instrument, state }, out);
        }
        self.system_event(SystemEventCode::StartOfMarketHours, out);
        Applied::Done
    }

    pub(crate) fn end_of_day(&mut self, out: &mut Output) -> Applied {
        if self.phase != Phase::Open {
            return Applied::Refused;
        }
        for slot in 0..self.books.len() {
            self.cancel_day_orders(slot, out);
        }
        self.phase = Phase::Closed;
        self.system_event(SystemEventCode::EndOfMarketHours, out);
        self.system_event(SystemEventCode::EndOfSystemHours, out);
        self.system_event(SystemEventCode::EndOfMessages, out);
        Applied::Done
    }

    fn cancel_day_orders(&mut self, slot: usize, out: &mut Output) {
        let instrument = self.config.instruments[slot].id;
        let now = self.now;
        let Engine { books, index, numbers, .. } = self;
        let ends_today = |order: &book::Order| order.time_in_force == TimeInForce::Day;
        books[slot].remove_where(ends_today, |order| {
            index.remove(order.owner.account, order.owner.user_ref);
            let mut report = about_order(ExecutionKind::Canceled, instrument, order, now);
            report.cancel_reason = CancelReason::EndOfDay;
            report.qty = order.open();
            report.leaves = Qty(0);
            out.executions.push(report);
            let order_ref = order.order_ref;
            numbers.publish(MarketEvent::OrderDelete { instrument, order_ref }, out);
        });
    }

    fn instrument_ids(&self) -> impl Iterator<Item = InstrumentId> + use<> {
        (1..=self.books.len() as u16).map(InstrumentId)
    }

    fn system_event(&mut self, code: SystemEventCode, out: &mut Output) {
        self.numbers.publish(MarketEvent::SystemEvent { code }, out);
    }
}
