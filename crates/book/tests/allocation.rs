//! No command of any kind allocates: counted by an allocator that wraps the system's, over the
//! random days of the model comparison.

use book::{BookConfig, Books, Capacity, Order, Sink};
use book_model::flow::{Flow, Profile, Step};
use book_model::model::{self, Model};
use counting::allocations;
use types::{CancelReason, OrderEvent};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Counts events.
struct Count(u64);

impl Sink for Count {
    fn tell(&mut self, _event: OrderEvent, _order: &Order, _other: Option<&Order>) {
        self.0 += 1;
    }
}

/// The commands of a seed, drawn beside the model.
fn day(seed: u64, profile: &Profile) -> Vec<Step> {
    let mut flow = Flow::new(seed, profile.clone());
    let mut model = Model::new(&profile.books, profile.capacity);
    let mut steps = Vec::new();
    for _ in 0..profile.length {
        let step = flow.next_step(&model);
        steps.push(step);
        model.clear_told();
        match step {
            Step::Submit { book, order } => _ = model.submit(book, &order),
            Step::SetPhase { book, phase } => model.set_phase(book, phase),
            Step::Uncross { book } => model.uncross(book),
            Step::SetReference { book, price } => model.set_reference(book, price),
            Step::SetCollar { book, collar } => model.set_collar(book, collar),
            Step::Cancel { key } => _ = model.cancel(key),
            Step::Expire { now } => _ = model.expire(now),
            Step::Replace { .. } | Step::Reduce { .. } | Step::CancelWhere { .. } => {}
        }
    }
    steps
}

fn play(books: &mut Books, step: &Step, sink: &mut Count) {
    match *step {
        Step::Submit { book, order } => _ = books.submit(book, &order, sink),
        Step::Replace { old_key, order, may_keep_place } => {
            _ = books.replace(old_key, &order, may_keep_place, sink);
        }
        Step::Cancel { key } => _ = books.cancel(key, sink),
        Step::Reduce { key, open } => _ = books.reduce(key, open, sink),
        Step::CancelWhere { book, filter } => {
            let wanted = |o: &Order| filter.wants(o.key(), o.side(), o.session());
            books.cancel_where(book, CancelReason::MassCancel, wanted, sink);
        }
        Step::Expire { now } => {
            while let Some(book) = books.expiring(now) {
                books.expire(book, sink);
            }
        }
        Step::SetPhase { book, phase } => books.set_phase(book, phase, sink),
        Step::Uncross { book } => books.uncross(book, sink),
        Step::SetReference { book, price } => books.set_reference(book, price),
        Step::SetCollar { book, collar } => books.set_collar(book, collar),
    }
}

#[test]
fn no_command_allocates() {
    let (mut sink, mut commands) = (Count(0), 0);
    for seed in 0..600 {
        let profile = Profile::of_seed(seed);
        let steps = day(seed, &profile);
        let config = |config: &model::Config| BookConfig {
            ticks: config.ticks,
            allocation: config.allocation,
            trigger: config.trigger,
        };
        let configs: Vec<BookConfig> = profile.books.iter().map(config).collect();
        let model::Capacity { orders, levels, stops, pegs } = profile.capacity;
        let mut books = Books::new(&configs, Capacity { orders, levels, stops, pegs });
        let before = allocations();
        steps.iter().for_each(|step| play(&mut books, step, &mut sink));
        assert_eq!(allocations() - before, 0, "seed {seed} allocates");
        commands += steps.len();
    }
    assert!(commands > 50_000 && sink.0 > 50_000, "{commands} commands, {} events", sink.0);
}
