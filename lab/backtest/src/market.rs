//! The recorded orders in the engine's books, and the recorded trades.
//!
//! A recorded trade of an order is an immediate-or-cancel order of the other side that trades with
//! whoever is first, one order of the book at a time: the strategy's orders that stand before the
//! recorded one, then that one. After every event an order is at most as large as recorded. In a
//! call nothing trades by itself: orders shrink by what the record says that they traded.

use std::collections::BTreeMap;

use types::{
    AccountId, Command, CommandKind, ExecutionKind, InstrumentId, Liquidity, Nanos, Price, Qty,
    Side, TimeInForce, UserRefNum,
};

use crate::calls::Turn;
use crate::record::{Printed, Record, What};
use crate::venue::{COMERS, RECORDED, STRATEGY, Told, Venue};
use strategy::MarketTrade;

/// Counts of a recording being played into the books.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MarketCounters {
    /// Number of events of the recording that were taken.
    pub records: u64,
    /// Events about orders that are not known.
    pub unknown: u64,
    /// Orders that the engine refused.
    pub refused: u64,
    /// Lots of recorded trades that happened.
    pub traded: u64,
    /// Lots of recorded trades that the strategy's orders had instead.
    pub to_strategy: u64,
    /// Trades of orders that were not first in the book: venues with another priority, auctions.
    pub out_of_turn: u64,
    /// Lots that recorded orders traded among each other as they came, unlike recorded.
    pub crossed: u64,
    /// Lots that left recorded orders in auctions, as recorded; both sides count.
    pub called: u64,
    /// Calls that the data implies by a crossed or locked book.
    pub calls_implied: u64,
    /// States that the data tells, that end or begin continuous trading.
    pub states: u64,
}

/// One recorded order that has not ended by the record.
#[derive(Clone, Copy, Debug)]
struct Resting {
    user_ref: UserRefNum,
    side: Side,
    price: u32,
    /// Lots traded in the engine.
    traded: u64,
    /// Lots open in the engine.
    open: u64,
    /// Lots open by the record.
    left: u64,
}

type Key = (InstrumentId, u64);

/// The recorded market as a participant of the engine.
#[derive(Debug, Default)]
pub struct Market {
    orders: BTreeMap<Key, Resting>,
    keys: BTreeMap<u32, Key>,
    last: u32,
    counters: MarketCounters,
}

/// An order that is first on its side.
#[derive(Clone, Copy, Debug)]
struct Front {
    account: AccountId,
    user_ref: UserRefNum,
    price: u32,
    open: u64,
}

fn front(venue: &Venue, instrument: InstrumentId, side: Side) -> Option<Front> {
    let book = instrument.0.checked_sub(1)?;
    let order = venue.engine.books().orders(book, side).next()?;
    Some(Front {
        account: AccountId((order.key() >> 32) as u16),
        user_ref: UserRefNum(order.key() as u32),
        price: u32::try_from(order.price().0).ok()?,
        open: u64::from(order.open()),
    })
}

/// Whether an order of `side` at `price` goes before all at `than`; by price alone.
fn better(side: Side, price: u32, than: u32) -> bool {
    match side {
        Side::Buy => price > than,
        Side::Sell => price < than,
    }
}

impl Market {
    /// How it went so far.
    pub fn counters(&self) -> MarketCounters {
        self.counters
    }

    /// Recorded orders that live, and lots of them that the books lack.
    pub fn missing(&self) -> (usize, u64) {
        let lacking = self.orders.values().map(|order| order.left.saturating_sub(order.open));
        (self.orders.len(), lacking.sum())
    }

    /// An implied call begins or ends.
    pub(crate) fn turn(&mut self, now: Nanos, turn: &Turn, venue: &mut Venue) {
        self.counters.calls_implied += u64::from(turn.begins);
        venue.call(now, turn.instrument, turn.begins);
        self.heed(venue);
    }

    /// Has the next event of the record happen.
    pub(crate) fn apply(&mut self, record: &Record, venue: &mut Venue) {
        self.counters.records += 1;
        let (now, instrument) = (record.time, record.instrument);
        match record.what {
            What::Add { order, side, qty, price } => {
                self.add((instrument, order), (side, qty, price), now, venue);
            }
            What::Execute { order, qty, .. } => {
                self.execute((instrument, order), qty, now, venue);
            }
            What::Print { .. } => {}
            What::Trade { side, qty, price } => {
                // Whichever side it rested on, who had a better price would have traded: on the
                // same side first, on the other one with that order.
                for one in [Side::Buy, Side::Sell] {
                    if side.is_none_or(|side| side == one) {
                        self.hidden(instrument, one, (qty, price), now, venue);
                    }
                }
            }
            What::Reduce { order, qty } => self.reduce((instrument, order), qty, now, venue),
            What::Delete { order } => self.reduce((instrument, order), u32::MAX, now, venue),
            What::Replace { old, new, qty, price } => {
                let side = self.orders.get(&(instrument, old)).map(|order| order.side);
                self.reduce((instrument, old), u32::MAX, now, venue);
                if let Some(side) = side {
                    self.add((instrument, new), (side, qty, price), now, venue);
                }
            }
            What::Trading(open) => {
                self.counters.states += 1;
                venue.trading(now, instrument, open);
            }
            What::Clear => self.clear(instrument, now, venue),
            What::NewDay => {
                self.clear(instrument, now, venue);
                venue.end_orders(now, instrument);
            }
        }
        self.heed(venue);
    }

    /// The trade that the next event of the record tells, if it tells one; `open`: not in a call.
    pub(crate) fn trade(&self, record: &Record, open: bool) -> Option<MarketTrade> {
        let instrument = record.instrument;
        let (aggressor, qty, price) = match record.what {
            What::Print { aggressor, qty, price } => (aggressor, qty, price),
            What::Trade { side, qty, price } => (side.map(Side::opposite), qty, price),
            What::Execute { order, qty, printed } => {
                let order = self.orders.get(&(instrument, order))?;
                let price = match printed {
                    Printed::AtLimit => order.price,
                    Printed::At(price) => price,
                    Printed::Apart => return None,
                };
                (open.then(|| order.side.opposite()), qty, price)
            }
            _ => return None,
        };
        let (qty, price) = (Qty(u64::from(qty)), Price(i64::from(price)));
        Some(MarketTrade { time: record.time, instrument, price, qty, aggressor })
    }

    fn add(&mut self, key: Key, terms: (Side, u32, u32), now: Nanos, venue: &mut Venue) {
        let (side, qty, price) = terms;
        // A reference that comes again names another order.
        if self.orders.contains_key(&key) {
            self.reduce(key, u32::MAX, now, venue);
        }
        self.last += 1;
        let user_ref = UserRefNum(self.last);
        let mut command = Command::new(CommandKind::NewOrder);
        command.account = RECORDED;
        command.instrument = key.0;
        (command.user_ref, command.side) = (user_ref, side);
        (command.qty, command.price) = (Qty(u64::from(qty)), Price(i64::from(price)));
        let left = u64::from(qty);
        self.orders.insert(key, Resting { user_ref, side, price, traded: 0, open: 0, left });
        self.keys.insert(user_ref.0, key);
        let told = venue.told.len();
        venue.request(now, &command);
        let traded = |lots: u64, told: &Told| match told {
            Told::Report(report) if report.kind == ExecutionKind::Executed => lots + report.qty.0,
            _ => lots,
        };
        let lots = venue.told.iter().skip(told).fold(0, traded);
        self.counters.to_strategy += lots;
        self.counters.crossed -= lots.min(self.heed(venue));
    }

    fn execute(&mut self, key: Key, qty: u32, now: Nanos, venue: &mut Venue) {
        let Some(order) = self.orders.get_mut(&key) else {
            self.counters.unknown += 1;
            return;
        };
        let mut rest = u64::from(qty).min(order.left);
        order.left -= rest;
        let order = *order;
        if !venue.is_trading(key.0) {
            self.counters.called += rest;
        }
        while rest > 0 && venue.is_trading(key.0) {
            let Some(first) = front(venue, key.0, order.side) else { break };
            let own = first.account == RECORDED && first.user_ref == order.user_ref;
            let served = first.account == STRATEGY && !better(order.side, order.price, first.price);
            if !own && !served {
                self.counters.out_of_turn += u64::from(order.open > order.left);
                break;
            }
            let lots = rest.min(first.open);
            self.come(key.0, order.side, (lots, first.price), now, venue);
            rest -= lots;
            if own {
                self.counters.traded += lots;
                break;
            }
            self.counters.to_strategy += lots;
        }
        self.heed(venue);
        self.fit(key, now, venue);
    }

    /// Lots of an order that nobody saw traded: who stands before it in price trades first.
    fn hidden(
        &mut self,
        instrument: InstrumentId,
        side: Side,
        (qty, price): (u32, u32),
        now: Nanos,
        venue: &mut Venue,
    ) {
        let mut rest = u64::from(qty);
        while rest > 0 && venue.is_trading(instrument) {
            let first = front(venue, instrument, side)
                .filter(|first| first.account == STRATEGY && better(side, first.price, price));
            let Some(first) = first else { return };
            let lots = rest.min(first.open);
            self.come(instrument, side, (lots, first.price), now, venue);
            self.counters.to_strategy += lots;
            rest -= lots;
        }
    }

    /// Somebody comes and trades so many lots with what rests at a price of a side.
    fn come(
        &mut self,
        instrument: InstrumentId,
        side: Side,
        (lots, price): (u64, u32),
        now: Nanos,
        venue: &mut Venue,
    ) {
        let mut command = Command::new(CommandKind::NewOrder);
        (command.account, command.instrument) = (COMERS, instrument);
        (command.user_ref, command.side) = (venue.next_comer(), side.opposite());
        (command.qty, command.price) = (Qty(lots), Price(i64::from(price)));
        command.time_in_force = TimeInForce::ImmediateOrCancel;
        venue.request(now, &command);
    }

    fn reduce(&mut self, key: Key, qty: u32, now: Nanos, venue: &mut Venue) {
        match self.orders.get_mut(&key) {
            Some(order) => order.left = order.left.saturating_sub(u64::from(qty)),
            None => self.counters.unknown += 1,
        }
        self.fit(key, now, venue);
    }

    fn clear(&mut self, instrument: InstrumentId, now: Nanos, venue: &mut Venue) {
        let all = (instrument, 0)..=(instrument, u64::MAX);
        let keys: Vec<Key> = self.orders.range(all).map(|(key, _)| *key).collect();
        for key in keys {
            self.reduce(key, u32::MAX, now, venue);
        }
    }

    /// The order is at most as large as recorded.
    fn fit(&mut self, key: Key, now: Nanos, venue: &mut Venue) {
        let Some(order) = self.orders.get(&key) else { return };
        if order.open > order.left {
            let mut command = Command::new(CommandKind::Cancel);
            (command.account, command.user_ref) = (RECORDED, order.user_ref);
            if order.left > 0 {
                command.qty = Qty(order.traded + order.left);
            }
            venue.request(now, &command);
            self.heed(venue);
        }
        if let Some(order) = self.orders.get(&key).filter(|order| order.left == 0) {
            self.keys.remove(&order.user_ref.0);
            self.orders.remove(&key);
        }
    }

    /// What the engine says of the recorded orders; lots that they traded as they came.
    pub(crate) fn heed(&mut self, venue: &mut Venue) -> u64 {
        let mut came = 0;
        for report in venue.recorded.drain(..) {
            let key = self.keys.get(&report.user_ref.0);
            let Some(order) = key.and_then(|key| self.orders.get_mut(key)) else { continue };
            match report.kind {
                ExecutionKind::Executed => {
                    order.traded += report.qty.0;
                    if report.liquidity == Liquidity::Removed {
                        came += report.qty.0;
                    }
                }
                ExecutionKind::Rejected => self.counters.refused += 1,
                _ => {}
            }
            order.open = report.leaves.0;
        }
        self.counters.crossed += came;
        came
    }
}
