//! The host's part of a strategy: what it was told becomes books, orders and holdings, and then the strategy is
//! asked.
//!
//! What comes together is told together: reports first, then trades, then the books that have changed, each
//! once, in the order in which they changed first. Requests come out in the order in which they were asked for.

use feed::StreamBooks;
use types::{InstrumentId, Nanos, Price, Qty, Side, TimeInForce};
use wire::itch::{Message, Printable};

use crate::blotter::Blotter;
use crate::report::{MarketTrade, Report};
use crate::strategy::{Desk, Order, Strategy};

const DAY_NS: u64 = 86_400 * Nanos::SECOND;

/// What a strategy asks the exchange for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// A new order.
    Order {
        /// Its number, from 1.
        id: u32,
        /// Instrument of the order.
        instrument: InstrumentId,
        /// Whether it buys or sells.
        side: Side,
        /// Lots of the order.
        qty: u32,
        /// Limit price of the order.
        price: Price,
        /// How long it lives.
        life: TimeInForce,
        /// It is refused rather than trade at once.
        rests: bool,
    },
    /// The order of this number is to go.
    Cancel {
        /// Its number.
        id: u32,
    },
}

/// What a strategy knows, and what it is about to be told.
#[derive(Debug)]
pub struct Seat {
    books: StreamBooks,
    blotter: Blotter,
    reports: Vec<Report>,
    trades: Vec<MarketTrade>,
    touched: Vec<InstrumentId>,
    requests: Vec<Request>,
    contradictions: u64,
    /// First midnight that times of the feed count from; `None`: its trades are told by somebody else.
    midnight: Option<Nanos>,
    /// Of each stream the messages that were sent before the strategy began and are not heard yet.
    history: Vec<u64>,
}

impl Seat {
    /// A seat that has heard nothing, of a feed of so many streams with room for so many orders each. With a
    /// `midnight`, the first one that its times count from, its public trades are told, too.
    pub fn new(streams: usize, orders_max: usize, midnight: Option<Nanos>) -> Seat {
        Seat {
            books: StreamBooks::new(streams, orders_max),
            blotter: Blotter::default(),
            reports: Vec::new(),
            trades: Vec::new(),
            touched: Vec::new(),
            requests: Vec::new(),
            contradictions: 0,
            midnight,
            history: Vec::new(),
        }
    }

    /// The same, of a feed of whose streams so many first messages were sent before the strategy began: they make
    /// its books and are no news. Nothing is told before all of them are heard.
    #[must_use]
    pub fn behind(self, history: &[u64]) -> Seat {
        Seat { history: history.to_vec(), ..self }
    }

    /// Applies a message of the feed.
    pub fn message(&mut self, stream: usize, bytes: &[u8]) {
        let old = self.history.get_mut(stream).filter(|left| **left > 0);
        let news = old.map(|left| *left -= 1).is_none();
        let Ok(message) = self.books.apply(stream, bytes) else {
            self.contradictions += 1;
            return;
        };
        let instrument = InstrumentId(message.header().locate.get());
        if instrument.0 == 0 {
            return;
        }
        let image = self.books.image(stream);
        if let (Some(_), Some(qty), Some(image), true) =
            (self.midnight, traded(&message), image, news)
        {
            let stats = image.stats(instrument);
            // Of the day: which one is known when it is told.
            let time = Nanos(message.header().time.get());
            let (price, aggressor) = (stats.last_price, stats.last_aggressor);
            self.trades.push(MarketTrade { time, instrument, price, qty, aggressor });
        }
        if !self.touched.contains(&instrument) {
            self.touched.push(instrument);
        }
    }

    /// Takes note of what became of an order.
    pub fn report(&mut self, report: Report) {
        self.blotter.heed(&report);
        self.reports.push(report);
    }

    /// Takes note of a trade that is not in the feed's messages.
    pub fn trade(&mut self, trade: MarketTrade) {
        self.trades.push(trade);
    }

    /// Whether there is anything that the strategy is to be told.
    pub fn has_news(&self) -> bool {
        let is_heard = self.history.iter().all(|left| *left == 0);
        is_heard && !(self.reports.is_empty() && self.trades.is_empty() && self.touched.is_empty())
    }

    /// Tells the strategy what came since the last time, as of `now`.
    pub fn tell(&mut self, now: Nanos, strategy: &mut dyn Strategy) {
        if !self.has_news() {
            return;
        }
        let (blotter, requests) = (&mut self.blotter, &mut self.requests);
        let mut desk = Desk { now, books: &self.books, blotter, requests };
        for report in self.reports.drain(..) {
            if strategy.failure().is_none() {
                strategy.on_report(&report, &mut desk);
            }
        }
        let today = self.midnight.map(|midnight| Nanos(now.0 - now.since(midnight) % DAY_NS));
        for mut trade in self.trades.drain(..) {
            trade.time = today.map_or(trade.time, |today| today.after(trade.time.0));
            if strategy.failure().is_none() {
                strategy.on_trade(&trade, &mut desk);
            }
        }
        for instrument in self.touched.drain(..) {
            if strategy.failure().is_none() {
                strategy.on_book(instrument, &mut desk);
            }
        }
    }

    /// What it asked for and nobody has taken yet, in order.
    pub fn requests(&mut self) -> std::vec::Drain<'_, Request> {
        self.requests.drain(..)
    }

    /// An order that may still trade.
    pub fn order(&self, id: u32) -> Option<&Order> {
        self.blotter.orders.get(&id)
    }

    /// Cancels of all orders that may still trade and are not leaving, for whoever has stopped the strategy.
    pub(crate) fn cancels(&mut self) -> Vec<Request> {
        let staying = self.blotter.orders.values_mut().filter(|order| !order.leaving);
        let cancel = |order: &mut Order| {
            order.leaving = true;
            Request::Cancel { id: order.id }
        };
        staying.map(cancel).collect()
    }

    /// How many orders may still trade.
    pub fn open_orders(&self) -> usize {
        self.blotter.orders.len()
    }

    /// Messages of the feed that were none, or contradicted the books.
    pub fn contradictions(&self) -> u64 {
        self.contradictions
    }
}

/// Lots of the public trade that a message is, if it is one.
fn traded(message: &Message<'_>) -> Option<Qty> {
    match message {
        Message::OrderExecuted(m) => Some(Qty(m.shares.get().into())),
        Message::OrderExecutedWithPrice(m) if m.printable == Printable::Yes => {
            Some(Qty(m.shares.get().into()))
        }
        Message::Trade(m) => Some(Qty(m.shares.get().into())),
        Message::CrossTrade(m) => Some(Qty(m.shares.get())),
        _ => None,
    }
}
