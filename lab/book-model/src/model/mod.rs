//! The rules of docs/matching.md, the plain way.
//!
//! A market is one unsorted list of orders. Every question (the best price, who is first in a
//! queue, which stop is due) is answered by looking at all of them; nothing is linked, counted or
//! kept sorted. Numbers in comments are those of the rules. The whole of a command is carried out
//! on the list itself, and what is told is appended to [`Model::told`].
//!
//! Book numbers beyond those given to [`Model::new`] are a caller's bug and panic.

mod auction;
mod checks;
mod conditional;
mod entry;
mod matching;
mod order;

pub use order::{Order, Place, Told};

use types::{
    Allocation, CancelReason, MatchNumber, Nanos, NewOrder, OrderEvent, OrderRef, Phase, Price,
    RejectReason, Side, TickTable, Trigger,
};

/// Settings of one instrument's book.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Price steps of the instrument, used by [`types::ORDER_POST_ONLY_SLIDE`].
    pub ticks: TickTable,
    /// How lots are shared among the orders of a level.
    pub allocation: Allocation,
    /// Price that triggers stop orders.
    pub trigger: Trigger,
}

/// Bounds of the books (docs/matching.md, rule 10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Most open orders of all books together.
    pub orders: u32,
    /// Most price levels per side and book.
    pub levels: u32,
    /// Most stop orders per book.
    pub stops: u32,
    /// Most pegged orders per book.
    pub pegs: u32,
}

/// The market of one instrument (docs/matching.md, rule 1.1).
#[derive(Clone, Debug)]
pub struct Market {
    pub(crate) config: Config,
    pub(crate) orders: Vec<Order>,
    pub(crate) phase: Phase,
    pub(crate) last_price: Price,
    pub(crate) reference: Price,
    pub(crate) collar: Option<(Price, Price)>,
    /// Best displayed bid and ask at the start of the last peg pass; `None`: the next command
    /// makes a pass in any case (7.3).
    pegs_saw: Option<(Option<Price>, Option<Price>)>,
}

/// The model of all books of a shard.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) markets: Vec<Market>,
    pub(crate) capacity: Capacity,
    last_ref: u64,
    last_match: u64,
    last_turn: u64,
    /// Everything told since [`Model::clear_told`], in order.
    pub told: Vec<Told>,
    /// The phase of its market when each of these was told.
    pub told_in: Vec<Phase>,
}

impl Market {
    /// Phase of the market at present.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Price of the last trade; 0 none.
    pub fn last_price(&self) -> Price {
        self.last_price
    }

    /// The reference price; 0 none.
    pub fn reference(&self) -> Price {
        self.reference
    }

    /// Dynamic collar: lowest and highest price; `None`: none.
    pub fn collar(&self) -> Option<(Price, Price)> {
        self.collar
    }

    /// What was chosen for it.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// All open orders, in no order.
    pub fn open_orders(&self) -> &[Order] {
        &self.orders
    }

    /// The orders of a side in one place, first come first.
    pub fn queue(&self, side: Side, place: Place) -> Vec<Order> {
        let mut queue: Vec<Order> =
            self.orders.iter().filter(|o| o.side() == side && o.place == place).copied().collect();
        queue.sort_by_key(|o| o.turn);
        queue
    }

    /// The prices of a side that have a level, best first.
    pub fn prices(&self, side: Side) -> Vec<Price> {
        let mut prices: Vec<Price> = self
            .orders
            .iter()
            .filter(|o| o.side() == side && o.in_level())
            .map(|o| o.price)
            .collect();
        prices.sort();
        prices.dedup();
        if side == Side::Buy {
            prices.reverse();
        }
        prices
    }

    /// The orders of one level: displayed before hidden, first come first (1.2).
    pub fn level(&self, side: Side, price: Price) -> Vec<Order> {
        let mut level: Vec<Order> = self
            .orders
            .iter()
            .filter(|o| o.side() == side && o.in_level() && o.price == price)
            .copied()
            .collect();
        level.sort_by_key(|o| (o.place, o.turn));
        level
    }

    /// All orders in levels of a side: best price first, displayed before hidden, first come first.
    pub fn resting(&self, side: Side) -> Vec<Order> {
        let rests = |o: &&Order| o.side() == side && o.in_level();
        let mut resting: Vec<Order> = self.orders.iter().filter(rests).copied().collect();
        resting.sort_by_key(|o| {
            let price = if side == Side::Buy { -o.price.0 } else { o.price.0 };
            (price, o.place, o.turn)
        });
        resting
    }

    /// The best price of a side, hidden orders included.
    pub fn best(&self, side: Side) -> Option<Price> {
        best_of(side, self.orders.iter().filter(|o| o.side() == side && o.in_level()))
    }

    /// The best displayed price of a side.
    pub fn best_displayed(&self, side: Side) -> Option<Price> {
        let displayed = |o: &&Order| o.side() == side && o.place == Place::Displayed;
        best_of(side, self.orders.iter().filter(displayed))
    }

    /// The stops of a side in their order (6.1). A trailing stop without a price is last.
    pub fn stops(&self, side: Side) -> Vec<Order> {
        let mut stops = self.queue(side, Place::StopList);
        stops.sort_by_key(|o| {
            let price = o.effective_stop.map_or(i64::MAX, |price| match side {
                Side::Buy => price.0,
                Side::Sell => -price.0,
            });
            (price, o.arrival)
        });
        stops
    }

    /// The pegs in the order of their list, priced or parked.
    pub fn pegs(&self) -> Vec<Order> {
        let mut pegs: Vec<Order> = self.orders.iter().filter(|o| o.is_peg()).copied().collect();
        pegs.sort_by_key(|o| o.arrival);
        pegs
    }

    /// The orders that wait for the close, by arrival.
    pub fn waiting(&self) -> Vec<Order> {
        let waits = |o: &&Order| o.place == Place::Waiting;
        let mut waiting: Vec<Order> = self.orders.iter().filter(waits).copied().collect();
        waiting.sort_by_key(|o| o.arrival);
        waiting
    }

    /// Every open order in the order of a mass cancel (5.5).
    pub fn all_orders(&self) -> Vec<Order> {
        let mut all = self.resting(Side::Buy);
        all.extend(self.resting(Side::Sell));
        all.extend(self.queue(Side::Buy, Place::MarketQueue));
        all.extend(self.queue(Side::Sell, Place::MarketQueue));
        all.extend(self.stops(Side::Buy));
        all.extend(self.stops(Side::Sell));
        all.extend(self.pegs().into_iter().filter(|o| o.place == Place::Parked));
        all.extend(self.waiting());
        all
    }

    /// Whether a trade at this price is inside the collar (4.7).
    fn collar_allows(&self, price: Price) -> bool {
        self.collar.is_none_or(|(low, high)| low <= price && price <= high)
    }

    /// The open order with this key.
    pub fn find(&self, key: u64) -> Option<&Order> {
        self.orders.iter().find(|o| o.key() == key)
    }

    fn find_mut(&mut self, key: u64) -> &mut Order {
        self.orders.iter_mut().find(|o| o.key() == key).expect("an order just looked at is open")
    }

    fn remove(&mut self, key: u64) -> Order {
        let at = self.orders.iter().position(|o| o.key() == key);
        self.orders.remove(at.expect("an order just looked at is open"))
    }
}

fn best_of<'a>(side: Side, orders: impl Iterator<Item = &'a Order>) -> Option<Price> {
    let prices = orders.map(|o| o.price);
    if side == Side::Buy { prices.max() } else { prices.min() }
}

impl Model {
    /// A model with these books, all empty and closed.
    pub fn new(books: &[Config], capacity: Capacity) -> Model {
        let market = |config: &Config| Market {
            config: *config,
            orders: Vec::new(),
            phase: Phase::Closed,
            last_price: Price(0),
            reference: Price(0),
            collar: None,
            pegs_saw: None,
        };
        Model {
            markets: books.iter().map(market).collect(),
            capacity,
            last_ref: 0,
            last_match: 0,
            last_turn: 0,
            told: Vec::new(),
            told_in: Vec::new(),
        }
    }

    /// The market of the book with this number.
    pub fn market(&self, book: u16) -> &Market {
        &self.markets[usize::from(book)]
    }

    /// How many books there are.
    pub fn books(&self) -> u16 {
        self.markets.len() as u16
    }

    /// Open orders of all books (10.1).
    pub fn len(&self) -> usize {
        self.markets.iter().map(|market| market.orders.len()).sum()
    }

    /// Whether no order is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The book of an open order.
    pub fn book_of(&self, key: u64) -> Option<u16> {
        let book = self.markets.iter().position(|market| market.find(key).is_some());
        book.map(|book| book as u16)
    }

    /// The open order with this key; `None`: there is none.
    pub fn get(&self, key: u64) -> Option<&Order> {
        self.markets.iter().find_map(|market| market.find(key))
    }

    /// A new order (2, 3).
    ///
    /// # Errors
    /// The first reason of rule 2 that applies; nothing has changed then.
    pub fn submit(&mut self, book: u16, new: &NewOrder) -> Result<(), RejectReason> {
        let book = usize::from(book);
        let terms = self.check(book, new, None)?;
        let order = Order::incoming(terms, self.take_ref());
        self.tell(book, OrderEvent::Accepted, &order);
        self.enter(book, order, None);
        self.after_command(book);
        Ok(())
    }

    /// The order `old_key` goes on by the terms `new` (5.3).
    ///
    /// # Errors
    /// `UnknownOrder`, or the first reason of rule 2 that applies; nothing has changed then.
    pub fn replace(
        &mut self,
        old_key: u64,
        new: &NewOrder,
        may_keep_place: bool,
    ) -> Result<(), RejectReason> {
        let book = usize::from(self.book_of(old_key).ok_or(RejectReason::UnknownOrder)?);
        let old = *self.markets[book].find(old_key).expect("it was found in this book");
        let new = NewOrder { side: old.side(), order_type: old.order_type, ..*new };
        let new = NewOrder { traded: old.traded, ..new };
        let kept = may_keep_place && old.keeps_place(&new);
        let terms = self.check(book, &new, Some((&old, kept)))?;
        if kept {
            self.replace_in_place(book, &old, &terms);
        } else {
            self.markets[book].remove(old_key);
            let order = Order::incoming(terms, self.take_ref());
            let old_ref = old.order_ref;
            self.tell(book, OrderEvent::Replaced { old_key, old_ref, kept, shown_less: 0 }, &order);
            self.enter(book, order, (old.place == Place::Displayed).then_some(old_ref));
        }
        self.after_command(book);
        Ok(())
    }

    fn replace_in_place(&mut self, book: usize, old: &Order, terms: &NewOrder) {
        let order = self.markets[book].find_mut(old.key());
        let shown_less = order.shrink_to(terms.qty);
        order.terms = *terms;
        let order = *order;
        let (old_key, old_ref) = (old.key(), old.order_ref);
        self.tell(book, OrderEvent::Replaced { old_key, old_ref, kept: true, shown_less }, &order);
    }

    /// Cancels an open order, in every phase (5.1).
    ///
    /// # Errors
    /// `UnknownOrder`.
    pub fn cancel(&mut self, key: u64) -> Result<(), RejectReason> {
        let book = usize::from(self.book_of(key).ok_or(RejectReason::UnknownOrder)?);
        let order = self.markets[book].remove(key);
        self.tell_canceled(book, order, CancelReason::Requested);
        self.after_command(book);
        Ok(())
    }

    /// Reduces an open order to `open` lots, above 0 and below what is open (5.2).
    ///
    /// # Errors
    /// `UnknownOrder`.
    pub fn reduce(&mut self, key: u64, open: u32) -> Result<(), RejectReason> {
        let book = usize::from(self.book_of(key).ok_or(RejectReason::UnknownOrder)?);
        let order = self.markets[book].find_mut(key);
        let qty = order.open - open;
        let shown = order.shrink_to(open);
        let order = *order;
        let reason = CancelReason::Requested;
        self.tell(book, OrderEvent::Reduced { qty, shown, reason }, &order);
        self.after_command(book);
        Ok(())
    }

    /// Cancels every order of a book that is wanted (5.5); how many.
    pub fn cancel_where(
        &mut self,
        book: u16,
        reason: CancelReason,
        mut wanted: impl FnMut(&Order) -> bool,
    ) -> u64 {
        let book = usize::from(book);
        let mut count = 0;
        for order in self.markets[book].all_orders() {
            if wanted(&order) {
                self.markets[book].remove(order.key());
                self.tell_canceled(book, order, reason);
                count += 1;
            }
        }
        self.after_command(book);
        count
    }

    /// Ends the good-till-date orders whose end is not after `now` (5.6); how many.
    pub fn expire(&mut self, now: Nanos) -> u64 {
        let mut count = 0;
        for book in 0..self.markets.len() {
            let mut due = self.markets[book].orders.clone();
            due.retain(|order| order.ends_by(now));
            due.sort_by_key(|order| (order.terms.expire_at, order.order_ref));
            if due.is_empty() {
                continue;
            }
            for order in &due {
                self.markets[book].remove(order.key());
                self.tell_canceled(book, *order, CancelReason::Expired);
            }
            count += due.len() as u64;
            self.after_command(book);
        }
        count
    }

    /// Sets the reference price; 0 none.
    pub fn set_reference(&mut self, book: u16, price: Price) {
        self.markets[usize::from(book)].reference = price;
    }

    /// Sets the dynamic collar of a book; `None`: none.
    pub fn set_collar(&mut self, book: u16, collar: Option<(Price, Price)>) {
        self.markets[usize::from(book)].collar = collar;
    }

    /// Forgets what has been told.
    pub fn clear_told(&mut self) {
        self.told.clear();
        self.told_in.clear();
    }

    fn take_ref(&mut self) -> OrderRef {
        self.last_ref += 1;
        OrderRef(self.last_ref)
    }

    fn take_match_number(&mut self) -> MatchNumber {
        self.last_match += 1;
        MatchNumber(self.last_match)
    }

    fn tell(&mut self, book: usize, event: OrderEvent, order: &Order) {
        self.told.push(Told { event, order: order.facts(), other: None });
        self.told_in.push(self.markets[book].phase);
    }

    fn tell_trade(&mut self, book: usize, event: OrderEvent, order: &Order, other: &Order) {
        self.told.push(Told { event, order: order.facts(), other: Some(other.facts()) });
        self.told_in.push(self.markets[book].phase);
    }

    /// Tells that all open lots of an order, which is in no list any more, are gone; the order as
    /// it is then.
    fn tell_canceled(&mut self, book: usize, mut order: Order, reason: CancelReason) -> Order {
        let (qty, shown) = (order.open, order.shown);
        order.shrink_to(0);
        self.tell(book, OrderEvent::Canceled { qty, shown, reason }, &order);
        order
    }
}
