//! [`Books`] beside `book_model`, for the tests here and for `fairbell-lab check book`.

use book_model::compare::{BookView, LevelView, OrderView, SystemUnderTest};
use book_model::flow::Filter;
use book_model::model::{self, Told};
use types::{CancelReason, ClOrdId, Nanos, NewOrder, OrderEvent, Phase, Price, RejectReason, Side};

use book::{BookConfig, Books, Capacity, Order, Sink};

/// More books than the flow has.
const BOOKS_MAX: u16 = 8;

/// Books under comparison.
#[derive(Debug)]
pub struct Compared(pub Books);

/// Writes down what is told.
struct Notes<'a>(&'a mut Vec<Told>);

impl Sink for Notes<'_> {
    fn tell(&mut self, event: OrderEvent, order: &Order, other: Option<&Order>) {
        self.0.push(Told { event, order: order.facts(), other: other.map(Order::facts) });
    }
}

impl Compared {
    /// Empty books like those of the model.
    pub fn new(books: &[model::Config], capacity: model::Capacity) -> Compared {
        let config = |config: &model::Config| BookConfig {
            ticks: config.ticks,
            allocation: config.allocation,
            trigger: config.trigger,
        };
        let books: Vec<BookConfig> = books.iter().map(config).collect();
        let model::Capacity { orders, levels, stops, pegs } = capacity;
        let mut books = Books::new(&books, Capacity { orders, levels, stops, pegs });
        books.keep_identifiers();
        Compared(books)
    }

    /// Whether the books know exactly the identifiers of their open orders, of the accounts and identifiers that
    /// the flow draws from.
    fn knows_identifiers(&self) -> bool {
        let open = |book: u16| {
            self.0.all_orders(book).map(|order| (order.key() >> 32, *order.cl_ord_id()))
        };
        let open: Vec<(u64, ClOrdId)> = (0..BOOKS_MAX).flat_map(open).collect();
        let drawn = (b'a'..=b'z').map(|letter| ClOrdId([letter; 14]));
        drawn.chain([ClOrdId::BLANK]).all(|id| {
            (1..=4u64).all(|account| {
                let expected = id != ClOrdId::BLANK && open.contains(&(account, id));
                let key = account << 32;
                self.0.has_identifier(key, &id, self.0.hash_identifier(key, &id)) == expected
            })
        })
    }
}

fn order_view(order: &Order) -> OrderView {
    OrderView {
        facts: order.facts(),
        time_in_force: order.time_in_force(),
        flags: order.flags(),
        self_trade: order.self_trade(),
        group: order.group(),
        session: order.session(),
        display_qty: order.display_qty(),
        min_qty: order.min_qty(),
        stop_price: OrderView::stop_price_of(order.order_type(), order.stop_price()),
        waits_for: order.trigger_price(),
        expire_at: order.expire_at(),
        cl_ord_id: *order.cl_ord_id(),
    }
}

impl SystemUnderTest for Compared {
    fn submit(
        &mut self,
        book: u16,
        order: &NewOrder,
        told: &mut Vec<Told>,
    ) -> Result<(), RejectReason> {
        self.0.submit(book, order, &mut Notes(told))
    }

    fn replace(
        &mut self,
        old_key: u64,
        order: &NewOrder,
        may_keep_place: bool,
        told: &mut Vec<Told>,
    ) -> Result<(), RejectReason> {
        self.0.replace(old_key, order, may_keep_place, &mut Notes(told))
    }

    fn cancel(&mut self, key: u64, told: &mut Vec<Told>) -> Result<(), RejectReason> {
        self.0.cancel(key, &mut Notes(told))
    }

    fn reduce(&mut self, key: u64, open: u32, told: &mut Vec<Told>) -> Result<(), RejectReason> {
        self.0.reduce(key, open, &mut Notes(told))
    }

    fn cancel_where(
        &mut self,
        book: u16,
        reason: CancelReason,
        filter: &Filter,
        told: &mut Vec<Told>,
    ) -> u64 {
        let wanted = |o: &Order| filter.wants(o.key(), o.side(), o.session());
        self.0.cancel_where(book, reason, wanted, &mut Notes(told))
    }

    fn expire(&mut self, now: Nanos, told: &mut Vec<Told>) -> u64 {
        let mut ended = 0;
        while let Some(book) = self.0.expiring(now) {
            ended += self.0.expire(book, &mut Notes(told));
        }
        ended
    }

    fn set_phase(&mut self, book: u16, phase: Phase, told: &mut Vec<Told>) {
        self.0.set_phase(book, phase, &mut Notes(told));
    }

    fn uncross(&mut self, book: u16, told: &mut Vec<Told>) {
        self.0.uncross(book, &mut Notes(told));
    }

    fn set_reference(&mut self, book: u16, price: Price) {
        self.0.set_reference(book, price);
    }

    fn set_collar(&mut self, book: u16, collar: Option<(Price, Price)>) {
        self.0.set_collar(book, collar);
    }

    fn view(&self, book: u16) -> BookView {
        let books = &self.0;
        let both = [Side::Buy, Side::Sell];
        let level = |depth: book::Depth| LevelView {
            price: depth.price,
            open: depth.qty.0,
            shown: depth.shown.0,
            orders: u64::from(depth.orders),
        };
        BookView {
            phase: books.phase(book),
            last_price: books.last_price(book),
            reference: books.reference(book),
            indicative: books.indicative(book),
            displayed: both.map(|side| books.best_displayed(book, side).map(|depth| depth.price)),
            levels: both.map(|side| books.depth(book, side).map(level).collect()),
            resting: both.map(|side| books.orders(book, side).map(Order::key).collect()),
            orders: books.all_orders(book).map(order_view).collect(),
            digest: books.displayed_digest(book),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.0.check().map_err(|fault| fault.to_string())?;
        match self.knows_identifiers() {
            true => Ok(()),
            false => Err("the identifiers are not those of the open orders".to_string()),
        }
    }
}
