//! The comparison itself, with the model on both sides: equal twins agree, and a twin that tells
//! one thing wrongly is found and its commands shortened.

use book_model::compare::{BookView, SystemUnderTest, model_view, run_seed};
use book_model::coverage::Coverage;
use book_model::flow::Filter;
use book_model::model::{Capacity, Config, Model, Order, Told};
use types::{CancelReason, Nanos, NewOrder, OrderEvent, Phase, Price, RejectReason};

/// The model behind the interface of a subject, changing what is told if asked to.
struct Twin {
    model: Model,
    spoil: fn(&mut Told),
}

impl Twin {
    fn telling<T>(&mut self, told: &mut Vec<Told>, act: impl FnOnce(&mut Model) -> T) -> T {
        self.model.clear_told();
        let answer = act(&mut self.model);
        self.model.told.iter_mut().for_each(self.spoil);
        told.extend(&self.model.told);
        answer
    }
}

impl SystemUnderTest for Twin {
    fn submit(
        &mut self,
        book: u16,
        order: &NewOrder,
        told: &mut Vec<Told>,
    ) -> Result<(), RejectReason> {
        self.telling(told, |model| model.submit(book, order))
    }

    fn replace(
        &mut self,
        old_key: u64,
        order: &NewOrder,
        may_keep_place: bool,
        told: &mut Vec<Told>,
    ) -> Result<(), RejectReason> {
        self.telling(told, |model| model.replace(old_key, order, may_keep_place))
    }

    fn cancel(&mut self, key: u64, told: &mut Vec<Told>) -> Result<(), RejectReason> {
        self.telling(told, |model| model.cancel(key))
    }

    fn reduce(&mut self, key: u64, open: u32, told: &mut Vec<Told>) -> Result<(), RejectReason> {
        self.telling(told, |model| model.reduce(key, open))
    }

    fn cancel_where(
        &mut self,
        book: u16,
        reason: CancelReason,
        filter: &Filter,
        told: &mut Vec<Told>,
    ) -> u64 {
        self.telling(told, |model| {
            let wants = |o: &Order| filter.wants(o.key(), o.side(), o.terms.session);
            model.cancel_where(book, reason, wants)
        })
    }

    fn expire(&mut self, now: Nanos, told: &mut Vec<Told>) -> u64 {
        self.telling(told, |model| model.expire(now))
    }

    fn set_phase(&mut self, book: u16, phase: Phase, told: &mut Vec<Told>) {
        self.telling(told, |model| model.set_phase(book, phase));
    }

    fn uncross(&mut self, book: u16, told: &mut Vec<Told>) {
        self.telling(told, |model| model.uncross(book));
    }

    fn set_reference(&mut self, book: u16, price: Price) {
        self.model.set_reference(book, price);
    }

    fn set_collar(&mut self, book: u16, collar: Option<(Price, Price)>) {
        self.model.set_collar(book, collar);
    }

    fn view(&self, book: u16) -> BookView {
        model_view(&self.model, book)
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

fn twin(spoil: fn(&mut Told)) -> impl Fn(&[Config], Capacity) -> Twin {
    move |books, capacity| Twin { model: Model::new(books, capacity), spoil }
}

#[test]
fn equal_twins_agree() {
    let mut coverage = Coverage::default();
    for seed in 0..100 {
        run_seed(seed, twin(|_| ()), &mut coverage).unwrap_or_else(|found| panic!("{found}"));
    }
    assert_eq!(coverage.impossible(), []);
    let text = coverage.render();
    assert!(text.contains("post-only, sliding") && text.contains("0 reached that cannot"));
}

#[test]
fn a_twin_that_tells_one_lot_more_is_found_in_few_commands() {
    let spoil = |told: &mut Told| {
        if let OrderEvent::Replenished { .. } = told.event {
            told.order.shown += 1;
        }
    };
    let mut coverage = Coverage::default();
    let found = (0..400).find_map(|seed| run_seed(seed, twin(spoil), &mut coverage).err());
    let difference = found.expect("four hundred runs replenish an iceberg");
    assert!(difference.steps.len() <= 6, "not shortened: {difference}");
}
