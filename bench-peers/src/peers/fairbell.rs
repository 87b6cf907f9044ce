//! Our own book, the type the engine uses, with all its order types compiled in.

use book::{BookConfig, Books, Capacity, Order, Sink};
use book_model::tape::{Tape, TapeCommand, TapeKind, TradeSum};
use types::{Allocation, NewOrder, OrderEvent, Phase, Price, TickTable, TimeInForce, Trigger};

use super::Peer;

/// [`Books`] with one instrument in continuous trading.
pub struct Ours(Books);

impl Ours {
    /// With twice the room that the tape is about.
    pub fn new(tape: &Tape) -> Ours {
        let config = BookConfig {
            ticks: TickTable::uniform(Price(1)),
            allocation: Allocation::PriceTime,
            trigger: Trigger::LastTrade,
        };
        let orders = tape.prefill as u32 * 2;
        let capacity = Capacity { orders, levels: 1 << 16, stops: 1_000, pegs: 1_000 };
        let mut books = Books::new(&[config], capacity);
        books.set_phase(0, Phase::Continuous, &mut Hashed(&mut TradeSum::default()));
        Ours(books)
    }
}

struct Hashed<'a>(&'a mut TradeSum);

impl Sink for Hashed<'_> {
    #[inline(always)]
    fn tell(&mut self, event: OrderEvent, order: &Order, other: Option<&Order>) {
        if let (OrderEvent::Traded { qty, price, .. }, Some(taker)) = (event, other) {
            self.0.add(taker.key(), order.key(), price.0, qty);
        }
    }
}

impl Peer for Ours {
    fn play(&mut self, commands: &[TapeCommand], sum: &mut TradeSum) {
        let books = &mut self.0;
        let mut sink = Hashed(sum);
        for command in commands {
            let terms =
                || NewOrder::limit(command.id, command.side, Price(command.price), command.qty);
            let done = match command.kind {
                TapeKind::New => books.submit(0, &terms(), &mut sink),
                TapeKind::ImmediateOrCancel => {
                    let time_in_force = TimeInForce::ImmediateOrCancel;
                    books.submit(0, &NewOrder { time_in_force, ..terms() }, &mut sink)
                }
                TapeKind::Replace => books.replace(command.id, &terms(), false, &mut sink),
                TapeKind::Cancel => books.cancel(command.id, &mut sink),
            };
            assert_eq!(done, Ok(()), "{command:?}");
        }
    }
}
