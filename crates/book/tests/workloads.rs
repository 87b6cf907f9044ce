//! The order-book workloads through the books: exact check values, and no allocation once the
//! books are warm.

use book::{BookConfig, Books, Capacity, Order, Sink};
use book_model::tape::{Checks, Ids, Tape, TapeCommand, TapeKind, TradeSum, Workload};
use counting::allocations;
use types::{
    Allocation, NewOrder, OrderEvent, Phase, Price, Side, TickTable, TimeInForce, Trigger,
};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

struct Summed<'a>(&'a mut TradeSum);

impl Sink for Summed<'_> {
    fn tell(&mut self, event: OrderEvent, order: &Order, other: Option<&Order>) {
        if let (OrderEvent::Traded { qty, price, .. }, Some(taker)) = (event, other) {
            self.0.add(taker.key(), order.key(), price.0, qty);
        }
    }
}

fn books(tape: &Tape) -> Books {
    let config = BookConfig {
        ticks: TickTable::uniform(Price(1)),
        allocation: Allocation::PriceTime,
        trigger: Trigger::LastTrade,
    };
    let orders = tape.prefill as u32 + tape.prefill as u32 / 2;
    let capacity = Capacity { orders, levels: 40_000, stops: 100, pegs: 100 };
    let mut books = Books::new(&[config], capacity);
    books.set_phase(0, Phase::Continuous, &mut Summed(&mut TradeSum::default()));
    books
}

fn play(books: &mut Books, commands: &[TapeCommand], sum: &mut TradeSum) {
    let mut sink = Summed(sum);
    for command in commands {
        let terms = NewOrder::limit(command.id, command.side, Price(command.price), command.qty);
        let done = match command.kind {
            TapeKind::New => books.submit(0, &terms, &mut sink),
            TapeKind::ImmediateOrCancel => {
                let time_in_force = TimeInForce::ImmediateOrCancel;
                books.submit(0, &NewOrder { time_in_force, ..terms }, &mut sink)
            }
            TapeKind::Replace => books.replace(command.id, &terms, false, &mut sink),
            TapeKind::Cancel => books.cancel(command.id, &mut sink),
        };
        assert_eq!(done, Ok(()), "{command:?}");
    }
}

fn found(books: &Books, sum: TradeSum, tape: &Tape) -> Checks {
    let sides = [Side::Buy, Side::Sell];
    let lots = |side| books.depth(0, side).map(|level| level.qty.0).sum::<u64>();
    Checks {
        sum,
        resting: books.len_of(0),
        resting_qty: sides.map(lots).iter().sum(),
        levels: sides.map(|side| books.depth(0, side).count()),
        best: sides.map(|side| books.best(0, side).map_or(0, |level| level.price.0)),
        // The tape's own: the books are given the numbers.
        max_id: tape.checks.max_id,
    }
}

/// Plays a tape; the books must end as it says, and allocate nothing after its prefill.
fn plays_exactly(workload: Workload, ids: Ids) -> Checks {
    let tape = workload.tape(ids);
    let mut books = books(&tape);
    let mut sum = TradeSum::default();
    let (prefill, timed) = tape.commands.split_at(tape.prefill);
    play(&mut books, prefill, &mut sum);
    let before = allocations();
    play(&mut books, timed, &mut sum);
    assert_eq!(allocations() - before, 0, "allocations once warm");
    assert_eq!(books.check(), Ok(()));
    let checks = found(&books, sum, &tape);
    assert_eq!(checks, tape.checks);
    checks
}

#[test]
fn w1_gives_its_check_values_without_allocating() {
    assert_eq!(Some(plays_exactly(Workload::W1, Ids::Dense)), Workload::W1.published_checks());
}

#[test]
fn w2_gives_its_check_values_without_allocating() {
    assert_eq!(Some(plays_exactly(Workload::W2, Ids::Dense)), Workload::W2.published_checks());
}

#[test]
fn w1_with_ids_over_64_bits_ends_as_its_tape_says() {
    plays_exactly(Workload::W1, Ids::Permuted);
}

#[test]
fn swinging_prices_end_as_their_tape_says() {
    plays_exactly(Workload::SWING, Ids::Dense);
}
