//! Restored books go on exactly as those that were written; damaged bytes are refused.

use book::{BookConfig, Books, Capacity, Order, Sink, SnapshotError};
use book_agreement::Compared;
use book_model::compare::{BookView, SystemUnderTest, run_seed};
use book_model::coverage::Coverage;
use book_model::flow::{Filter, Flow, Profile, Step};
use book_model::model::{self, Model, Told};
use proptest::prelude::*;
use types::{
    CancelReason, Digest, Nanos, NewOrder, OrderEvent, Phase, Price, RejectReason, Side, SplitMix64,
};

/// How often the books of a run are written and read again: every so many commands.
const EVERY: u64 = 5;

fn configs(books: &[model::Config]) -> Vec<BookConfig> {
    let config = |config: &model::Config| BookConfig {
        ticks: config.ticks,
        allocation: config.allocation,
        trigger: config.trigger,
    };
    books.iter().map(config).collect()
}

fn capacity_of(capacity: model::Capacity) -> Capacity {
    let model::Capacity { orders, levels, stops, pegs } = capacity;
    Capacity { orders, levels, stops, pegs }
}

fn digest(books: &Books) -> Digest {
    let mut digest = Digest::default();
    books.fold(&mut digest);
    digest
}

/// Books that are replaced by what their snapshot gives, again and again.
struct Restored {
    subject: Compared,
    books: Vec<BookConfig>,
    capacity: Capacity,
    commands: u64,
}

impl Restored {
    fn new(books: &[model::Config], capacity: model::Capacity) -> Restored {
        let subject = Compared::new(books, capacity);
        Restored { subject, books: configs(books), capacity: capacity_of(capacity), commands: 0 }
    }

    fn turn(&mut self) -> &mut Compared {
        self.commands += 1;
        if self.commands.is_multiple_of(EVERY) {
            let mut bytes = Vec::new();
            self.subject.0.write_snapshot(&mut bytes);
            let restored = Books::read_snapshot(&self.books, self.capacity, &bytes);
            let mut restored = restored.expect("the books' own snapshot is sound");
            restored.keep_identifiers();
            assert_eq!(digest(&restored), digest(&self.subject.0));
            self.subject = Compared(restored);
        }
        &mut self.subject
    }
}

impl SystemUnderTest for Restored {
    fn submit(&mut self, b: u16, o: &NewOrder, t: &mut Vec<Told>) -> Result<(), RejectReason> {
        self.turn().submit(b, o, t)
    }

    fn replace(
        &mut self,
        old_key: u64,
        order: &NewOrder,
        may_keep_place: bool,
        told: &mut Vec<Told>,
    ) -> Result<(), RejectReason> {
        self.turn().replace(old_key, order, may_keep_place, told)
    }

    fn cancel(&mut self, key: u64, told: &mut Vec<Told>) -> Result<(), RejectReason> {
        self.turn().cancel(key, told)
    }

    fn reduce(&mut self, key: u64, open: u32, told: &mut Vec<Told>) -> Result<(), RejectReason> {
        self.turn().reduce(key, open, told)
    }

    fn cancel_where(
        &mut self,
        book: u16,
        reason: CancelReason,
        filter: &Filter,
        told: &mut Vec<Told>,
    ) -> u64 {
        self.turn().cancel_where(book, reason, filter, told)
    }

    fn expire(&mut self, now: Nanos, told: &mut Vec<Told>) -> u64 {
        self.turn().expire(now, told)
    }

    fn set_phase(&mut self, book: u16, phase: Phase, told: &mut Vec<Told>) {
        self.turn().set_phase(book, phase, told);
    }

    fn uncross(&mut self, book: u16, told: &mut Vec<Told>) {
        self.turn().uncross(book, told);
    }

    fn set_reference(&mut self, book: u16, price: Price) {
        self.turn().set_reference(book, price);
    }

    fn set_collar(&mut self, book: u16, collar: Option<(Price, Price)>) {
        self.turn().set_collar(book, collar);
    }

    fn view(&self, book: u16) -> BookView {
        self.subject.view(book)
    }

    fn check(&self) -> Result<(), String> {
        self.subject.check()
    }
}

#[test]
fn restored_books_go_on_like_the_model() {
    let mut coverage = Coverage::default();
    for seed in 0..1_500 {
        if let Err(difference) = run_seed(seed, Restored::new, &mut coverage) {
            panic!("{difference}");
        }
    }
}

/// Books in the middle of a random day, and what made them.
fn busy(seed: u64) -> (Books, Vec<BookConfig>, Capacity) {
    let profile = Profile::of_seed(seed);
    let mut flow = Flow::new(seed, profile.clone());
    let mut model = Model::new(&profile.books, profile.capacity);
    let mut subject = Compared::new(&profile.books, profile.capacity);
    let mut told = Vec::new();
    for _ in 0..profile.length {
        told.clear();
        model.clear_told();
        match flow.next_step(&model) {
            Step::Submit { book, order } => {
                let _ = model.submit(book, &order);
                let _ = subject.submit(book, &order, &mut told);
            }
            Step::SetPhase { book, phase } => {
                model.set_phase(book, phase);
                subject.set_phase(book, phase, &mut told);
            }
            _ => {}
        }
    }
    (subject.0, configs(&profile.books), capacity_of(profile.capacity))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_snapshots_never_panic(seed in 0u64..400, damage: u64, tail in 0usize..9) {
        let (books, config, capacity) = busy(seed);
        let mut bytes = Vec::new();
        books.write_snapshot(&mut bytes);
        let mut one = Vec::new();
        books.write_book(0, &mut one);
        let mut rng = SplitMix64::new(damage);
        for round in 0..60 {
            for original in [&bytes, &one] {
                let mut damaged = original.clone();
                for _ in 0..=rng.below(3) {
                    let at = rng.below(damaged.len() as u64) as usize;
                    damaged[at] = match rng.below(3) {
                        0 => damaged[at] ^ 1 << rng.below(8),
                        1 => rng.below(8) as u8,
                        _ => rng.below(256) as u8,
                    };
                }
                if round % 8 == 0 {
                    damaged.truncate(rng.below(damaged.len() as u64) as usize);
                }
                // What is read all the same is sound, and is written as it was.
                if let Ok(read) = Books::read_snapshot(&config, capacity, &damaged) {
                    let mut again = Vec::new();
                    read.write_snapshot(&mut again);
                    prop_assert_eq!(again, damaged.clone());
                    prop_assert_eq!(read.check(), Ok(()));
                }
                let mut empty = Books::new(&config, capacity);
                let result = empty.read_book(0, &damaged);
                prop_assert_eq!(empty.check(), Ok(()));
                prop_assert!(result.is_ok() || empty.is_empty());
            }
        }
        bytes.extend(std::iter::repeat_n(0, tail + 1));
        let result = Books::read_snapshot(&config, capacity, &bytes);
        prop_assert_eq!(result.err(), Some(SnapshotError::Length));
    }

    #[test]
    fn arbitrary_bytes_are_no_snapshot(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let (_, config, capacity) = busy(1);
        prop_assert!(Books::read_snapshot(&config, capacity, &bytes).is_err());
        prop_assert!(Books::new(&config, capacity).read_book(0, &bytes).is_err());
    }

    #[test]
    fn a_book_moves_to_another_shard(seed in 0u64..400, before in 0u64..50) {
        struct Deaf;
        impl Sink for Deaf {
            fn tell(&mut self, _: OrderEvent, _: &Order, _: Option<&Order>) {}
        }
        let (mut from, config, capacity) = busy(seed);
        let mut to = Books::new(&config, capacity);
        to.set_phase(0, Phase::PreOpen, &mut Deaf);
        for key in 1..=before {
            // The other shard has a past of its own.
            let _ = to.submit(0, &NewOrder::limit(key << 8, Side::Buy, Price(100), 1), &mut Deaf);
            let _ = to.cancel(key << 8, &mut Deaf);
        }
        let mut bytes = Vec::new();
        from.write_book(0, &mut bytes);
        prop_assert_eq!(to.read_book(0, &bytes), Ok(()));
        let terms = |books: &Books| -> Vec<_> {
            let facts = books.all_orders(0).map(|o| (o.key(), o.price(), o.open(), o.shown()));
            facts.collect()
        };
        prop_assert_eq!(terms(&to), terms(&from));
        prop_assert_eq!(to.phase(0), from.phase(0));
        prop_assert_eq!(to.read_book(0, &bytes).is_err(), from.len_of(0) > 0);
        let mut refs: Vec<_> = to.all_orders(0).map(|o| o.order_ref().0).collect();
        refs.sort_unstable();
        let first = to.last_order_ref().0 - refs.len() as u64 + 1;
        prop_assert!(refs.into_iter().eq(first..=to.last_order_ref().0));
        from.remove_book(0);
        prop_assert_eq!((from.len_of(0), from.check()), (0, Ok(())));
    }
}
