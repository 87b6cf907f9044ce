//! What a strategy is to its host, and what it sees and does.

use feed::{Level, StreamBooks};
use types::{InstrumentId, Nanos, Price, Side, TimeInForce};

use crate::blotter::Blotter;
use crate::report::{MarketTrade, Report};
use crate::seat::Request;

/// Reacts to the market. Called at the time at which news reaches it.
pub trait Strategy {
    /// Its name, for people.
    fn name(&self) -> &str;
    /// The displayed book of an instrument has changed.
    fn on_book(&mut self, instrument: InstrumentId, desk: &mut Desk<'_>);
    /// One of its own orders has something to tell; `desk` knows already.
    fn on_report(&mut self, report: &Report, desk: &mut Desk<'_>) {
        let _ = (report, desk);
    }
    /// A trade of the market. In a backtest those of the record: trades of the strategy's own are told by
    /// [`Strategy::on_report`] alone there.
    fn on_trade(&mut self, trade: &MarketTrade, desk: &mut Desk<'_>) {
        let _ = (trade, desk);
    }
    /// Why it can't go on; nothing is told to it any more then.
    fn failure(&self) -> Option<&str> {
        None
    }
}

/// An order of the strategy, as far as the strategy has heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Number of the order, given by the strategy.
    pub id: u32,
    /// Instrument that the order is for.
    pub instrument: InstrumentId,
    /// Whether the order buys or sells.
    pub side: Side,
    /// Limit price of the order.
    pub price: Price,
    /// Lots that may still trade.
    pub open: u64,
    /// The exchange has taken it.
    pub working: bool,
    /// A cancel is on its way.
    pub leaving: bool,
}

/// What a strategy sees and does.
#[derive(Debug)]
pub struct Desk<'a> {
    pub(crate) now: Nanos,
    pub(crate) books: &'a StreamBooks,
    pub(crate) blotter: &'a mut Blotter,
    pub(crate) requests: &'a mut Vec<Request>,
}

impl Desk<'_> {
    /// The time at which this is known.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Price levels of a side, best first, the strategy's own orders included.
    pub fn depth(&self, instrument: InstrumentId, side: Side) -> impl Iterator<Item = Level> + '_ {
        let image = self.books.of(instrument);
        image.into_iter().flat_map(move |image| image.depth(instrument, side))
    }

    /// The best level of a side, the strategy's own orders included.
    pub fn best(&self, instrument: InstrumentId, side: Side) -> Option<Level> {
        self.books.of(instrument)?.best(instrument, side)
    }

    /// The best level of a side without the strategy's own orders.
    pub fn others(&self, instrument: InstrumentId, side: Side) -> Option<Level> {
        self.depth(instrument, side).find_map(|mut level| {
            let at =
                |order: &&Order| order.working && order.side == side && order.price == level.price;
            let own = self.orders(instrument).filter(at);
            let (count, lots) = own.fold((0, 0), |(n, lots), order| (n + 1, lots + order.open));
            level.qty.0 = level.qty.0.saturating_sub(lots);
            level.orders = level.orders.saturating_sub(count);
            (level.qty.0 > 0).then_some(level)
        })
    }

    /// Quantity of the instrument held, lots; negative: short.
    pub fn lots(&self, instrument: InstrumentId) -> i64 {
        self.blotter.held(instrument)
    }

    /// The strategy's orders that may still trade.
    pub fn orders(&self, instrument: InstrumentId) -> impl Iterator<Item = &Order> + '_ {
        self.blotter.orders.values().filter(move |order| order.instrument == instrument)
    }

    /// Requests of the strategy that have no answer yet.
    pub fn unanswered(&self) -> usize {
        self.blotter.unanswered()
    }

    /// Sends an order; gives its number. `rests`: it is refused rather than trade at once.
    pub fn send(
        &mut self,
        instrument: InstrumentId,
        side: Side,
        (qty, price): (u32, Price),
        life: TimeInForce,
        rests: bool,
    ) -> u32 {
        self.blotter.last = self.blotter.last.saturating_add(1);
        let id = self.blotter.last;
        self.requests.push(Request::Order { id, instrument, side, qty, price, life, rests });
        let open = u64::from(qty);
        let order = Order { id, instrument, side, price, open, working: false, leaving: false };
        self.blotter.orders.insert(id, order);
        id
    }

    /// Asks for an order to go; once is enough.
    pub fn cancel(&mut self, id: u32) {
        let Some(order) = self.blotter.orders.get_mut(&id).filter(|order| !order.leaving) else {
            return;
        };
        order.leaving = true;
        self.requests.push(Request::Cancel { id });
    }
}
