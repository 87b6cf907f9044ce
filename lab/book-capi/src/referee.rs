//! The book behind the interface: messages in, reports out. No pointers here.

use book::{BookConfig, Books, Capacity, Order, Sink};
use types::{Allocation, OrderEvent, Phase, Price, Side, TickTable, Trigger};

use crate::abi::{
    self, CANCEL_ACK, CANCEL_REJECT, CancelMessage, MODIFY_ACK, MODIFY_REJECT, Message,
    ModifyMessage, NewMessage, ORDER_ACK, Report, TRADE,
};
use crate::ring::{Producer, first_word};

/// Most orders that may rest at one time.
const ORDERS: u32 = 1 << 16;
/// Most price levels of one side.
const LEVELS: u32 = 1 << 15;
/// Prices at which an order rests for a moment before the first message, so that the memory of
/// their levels is there.
const WARM_UP: u64 = 1_024;

/// Receives the reports of the book.
pub(crate) trait Outlet {
    /// One report; of a trade `order_id` is the resting order, and the incoming one is that of the
    /// ack before.
    fn report(&mut self, kind: u8, side: u8, sequence: u64, order_id: u64, price: i64, qty: u32);
    /// A message has been handled.
    fn message_done(&mut self);
    /// Nothing may be held back any longer.
    fn flush(&mut self);
}

impl Outlet for Producer {
    #[inline(always)]
    fn report(&mut self, kind: u8, side: u8, sequence: u64, order_id: u64, price: i64, qty: u32) {
        self.write([first_word(kind, side, qty), sequence, order_id, price as u64]);
    }

    #[inline(always)]
    fn message_done(&mut self) {
        self.publish_group();
    }

    fn flush(&mut self) {
        self.publish();
    }
}

/// Takes whole reports, like somebody else's queue.
pub(crate) trait Push {
    /// Takes one report.
    fn push(&mut self, report: &Report);
}

impl<F: FnMut(&Report)> Push for F {
    fn push(&mut self, report: &Report) {
        self(report);
    }
}

/// Hands whole reports on.
pub(crate) struct Pusher<P> {
    push: P,
    taker: u64,
}

impl<P: Push> Pusher<P> {
    pub(crate) fn new(push: P) -> Pusher<P> {
        Pusher { push, taker: 0 }
    }
}

impl<P: Push> Outlet for Pusher<P> {
    #[inline(always)]
    fn report(&mut self, kind: u8, side: u8, sequence: u64, order_id: u64, price: i64, qty: u32) {
        let (mut maker, mut taker) = (0, 0);
        if kind == TRADE {
            (maker, taker) = (order_id, self.taker);
        } else {
            self.taker = order_id;
        }
        let first = u64::from(kind) | u64::from(side) << 8;
        let words = [first, sequence, order_id, price as u64, qty.into(), maker, taker, 0];
        self.push.push(&Report::of_words(words));
    }

    fn message_done(&mut self) {}

    fn flush(&mut self) {}
}

/// The book of one instrument behind the C interface.
pub(crate) struct Referee {
    books: Books,
}

impl Referee {
    /// An empty book in continuous trading.
    pub(crate) fn new() -> Referee {
        let config = BookConfig {
            ticks: TickTable::uniform(Price(1)),
            allocation: Allocation::PriceTime,
            trigger: Trigger::LastTrade,
        };
        let capacity = Capacity { orders: ORDERS, levels: LEVELS, stops: 16, pegs: 16 };
        let mut books = Books::new(&[config], capacity);
        books.set_phase(0, Phase::Continuous, &mut Nobody);
        let mut referee = Referee { books };
        referee.warm_up();
        referee
    }

    fn warm_up(&mut self) {
        let mut nowhere = Pusher::new(|_: &Report| {});
        for order_id in 0..2 * WARM_UP {
            let new = NewMessage {
                order_id,
                sequence_number: 0,
                price_ticks: (order_id * 32 + 1) as i64,
                quantity: 1,
                side: (order_id & 1) as u8,
                ioc: 0,
                reserved: [0; 2],
            };
            self.new_order(&new, &mut nowhere);
            self.cancel(&CancelMessage { order_id, sequence_number: 0 }, &mut nowhere);
        }
    }

    #[inline(always)]
    pub(crate) fn new_order(&mut self, message: &NewMessage, out: &mut impl Outlet) {
        let mut told = Told { out, sequence: message.sequence_number };
        // A refused order has no report of its own in this interface.
        let _ = self.books.submit(0, &message.order(), &mut told);
        told.out.message_done();
    }

    #[inline(always)]
    pub(crate) fn cancel(&mut self, message: &CancelMessage, out: &mut impl Outlet) {
        let sequence = message.sequence_number;
        let mut told = Told { out, sequence };
        if self.books.cancel(abi::key(message.order_id), &mut told).is_err() {
            told.out.report(CANCEL_REJECT, 0, sequence, message.order_id, 0, 0);
        }
        told.out.message_done();
    }

    #[inline(always)]
    pub(crate) fn modify(&mut self, message: &ModifyMessage, out: &mut impl Outlet) {
        let sequence = message.sequence_number;
        let mut told = Told { out, sequence };
        let order = message.order();
        if self.books.replace(order.key, &order, false, &mut told).is_err() {
            told.out.report(MODIFY_REJECT, 0, sequence, message.order_id, 0, 0);
        }
        told.out.message_done();
    }

    /// Messages in order, each done before the next is looked at. Kinds that do not exist are
    /// skipped.
    pub(crate) fn batch(&mut self, messages: &[Message], out: &mut impl Outlet) {
        for message in messages {
            match message.kind {
                0 => self.new_order(&message.new_message(), out),
                1 => self.cancel(&message.cancel_message(), out),
                2 => self.modify(&message.modify_message(), out),
                _ => {}
            }
        }
        out.flush();
    }

    /// Best price of a side.
    pub(crate) fn best(&self, side: Side) -> Option<i64> {
        self.books.best(0, side).map(|depth| depth.price.0)
    }

    /// Lots open at a price of a side.
    pub(crate) fn depth_at(&self, side: Side, price: i64) -> u64 {
        self.books.level(0, side, Price(price)).map_or(0, |level| level.qty.0)
    }
}

/// Turns what the book tells into reports.
struct Told<'a, O> {
    out: &'a mut O,
    sequence: u64,
}

impl<O: Outlet> Told<'_, O> {
    #[inline(always)]
    fn about(&mut self, kind: u8, order: &Order, qty: u32) {
        let (side, id) = (order.side() as u8, abi::order_id(order.key()));
        self.out.report(kind, side, self.sequence, id, order.price().0, qty);
    }
}

impl<O: Outlet> Sink for Told<'_, O> {
    #[inline(always)]
    fn tell(&mut self, event: OrderEvent, order: &Order, _other: Option<&Order>) {
        match event {
            OrderEvent::Accepted => self.about(ORDER_ACK, order, order.open()),
            OrderEvent::Replaced { .. } => self.about(MODIFY_ACK, order, order.open()),
            OrderEvent::Canceled { qty, .. } => self.about(CANCEL_ACK, order, qty),
            OrderEvent::Traded { qty, price, .. } => {
                let maker = abi::order_id(order.key());
                self.out.report(TRADE, 0, self.sequence, maker, price.0, qty);
            }
            _ => {}
        }
    }
}

struct Nobody;

impl Sink for Nobody {
    fn tell(&mut self, _event: OrderEvent, _order: &Order, _other: Option<&Order>) {}
}
