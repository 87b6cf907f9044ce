//! Instruments that change at a roll of the day: one is traded from then on, one no longer, one has
//! another tick.
//!
//! [`types::InstrumentParam::Listed`] and [`types::InstrumentParam::Tick`] are given by command at any
//! time. While a day is on they wait for its end, in the state and in snapshots; between two days and
//! before the first they are carried out at once. The rules:
//!
//! - Who is no longer traded: all its orders are cancelled ([`CancelReason::Delisted`]), and from then
//!   on requests for it are refused as for an unknown instrument. Positions stay, its trades can't be
//!   broken any more. The next day's directory is without it.
//! - Who is traded from now on begins with an empty book and is in the next day's directory. Its symbol
//!   and rules are in the configuration from the start, with `held` off: nobody has to learn a symbol
//!   while the venue runs.
//!   With several shards the command goes to the one that is to have it.
//! - Another tick is the same at all prices, also where there was a table of ticks. Orders of which any
//!   price (limit, stop, or where it rests now) is no multiple of it are cancelled
//!   ([`CancelReason::TickSize`]), until none is left; all others stay with reference and priority. The
//!   instrument's reference price is rounded down to it.
//!
//! An end of day cancels the day's orders first, then does this in the order of the instruments, tick
//! before listing.

use types::{CancelReason, Command, InstrumentId, InstrumentParam, MarketEvent, Phase};

use crate::apply::{Applied, Day, Engine};
use crate::market::Market;
use crate::output::Output;
use crate::phases::trading_state;

/// Whether a price of an order is off the tick.
fn off_tick(market: &Market, order: &book::Order) -> bool {
    let off = |price: types::Price| price.0 != 0 && !market.fits(price);
    let stop = order.trigger_price().is_some_and(off);
    stop || off(order.price()) || off(order.limit())
}

impl Engine {
    pub(crate) fn plan_for_roll(
        &mut self,
        param: InstrumentParam,
        command: &Command,
        out: &mut Output,
    ) -> Applied {
        let slot = usize::from(command.instrument.0).wrapping_sub(1);
        let Some(market) = self.markets.get_mut(slot) else { return Applied::Refused };
        if !market.set(param, command.price, command.qty) {
            return Applied::Refused;
        }
        if self.day != Day::Open {
            self.carry_out_plan(slot, false, out);
        }
        Applied::Done
    }

    /// Carries out what was planned for all instruments; `goes_on`: the day goes over into the next.
    pub(crate) fn roll_instruments(&mut self, goes_on: bool, out: &mut Output) {
        (0..self.markets.len()).for_each(|slot| self.carry_out_plan(slot, goes_on, out));
    }

    fn carry_out_plan(&mut self, slot: usize, goes_on: bool, out: &mut Output) {
        let market = &mut self.markets[slot];
        let tick = std::mem::take(&mut market.next_tick);
        let listed = market.next_listed.take();
        if tick.0 != 0 {
            market.set_tick(tick);
            market.refer_to(market.reference);
            self.cancel_off_tick(slot, out);
            let ticks = self.markets[slot].ticks;
            assert!(self.books.set_ticks(slot as u16, ticks), "what is left fits the new tick");
        }
        match listed {
            Some(false) if self.markets[slot].held => self.delist(slot, out),
            Some(true) if !self.markets[slot].held => self.list(slot, goes_on, out),
            _ => {}
        }
    }

    /// Cancels what does not fit the tick; what follows the best price may move, and not fit then.
    fn cancel_off_tick(&mut self, slot: usize, out: &mut Output) {
        loop {
            let market = &self.markets[slot];
            let keys: Vec<u64> = self
                .books
                .all_orders(slot as u16)
                .filter(|order| off_tick(market, order))
                .map(book::Order::key)
                .collect();
            if keys.is_empty() {
                return;
            }
            let wanted = |order: &book::Order| keys.contains(&order.key());
            let gone = self.cancel_where(slot, CancelReason::TickSize, wanted, out);
            assert!(gone > 0, "an order that is open can be cancelled");
        }
    }

    fn delist(&mut self, slot: usize, out: &mut Output) {
        let instrument = InstrumentId(slot as u16 + 1);
        self.change_phase(slot, Phase::Closed, out);
        self.cancel_where(slot, CancelReason::Delisted, |_| true, out);
        assert_eq!(self.books.len_of(slot as u16), 0, "nobody has orders in it any more");
        self.trades.forget(slot);
        self.markets[slot].held = false;
        let state = trading_state(Phase::Closed);
        self.feed.publish(MarketEvent::TradingAction { instrument, state }, out);
    }

    /// It trades by the phase that the next day begins with; where a day goes over into the next,
    /// continuously at once.
    fn list(&mut self, slot: usize, goes_on: bool, out: &mut Output) {
        assert_eq!(self.books.len_of(slot as u16), 0, "what was not traded has no orders");
        self.markets[slot].held = true;
        self.refer(slot);
        if goes_on {
            self.enter_phase(slot, Phase::Continuous, out);
        }
    }

    /// What the books are made of, with the ticks of now.
    pub(crate) fn book_configs(&self) -> Vec<book::BookConfig> {
        let mut books = self.config.books();
        for (book, market) in books.iter_mut().zip(&self.markets) {
            book.ticks = market.ticks;
        }
        books
    }
}
