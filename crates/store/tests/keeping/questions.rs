//! Questions: what they find, while it is fed, and whatever a person types.

use proptest::prelude::*;
use store::{Filter, Query, Table};

use crate::{Kind, Scratch, log, on_both, store_writer, whole};

fn orders(query: &Query, filter: &Filter) -> Vec<store::OrderLine> {
    let mut found = Vec::new();
    query.orders(filter, |line| found.push(line)).expect("rows");
    found
}

on_both!(a_filter_finds_what_reading_all_of_it_finds);

fn a_filter_finds_what_reading_all_of_it_finds(kind: Kind) {
    let scratch = Scratch::new("filters", kind);
    let (seed, inputs) = (21, log(21, 600));
    let path = scratch.at("a");
    whole(&path, seed, &inputs);
    let query = Query::open(&path).expect("a store");
    let all = orders(&query, &Filter::default());
    let text = |text: &str| Some(text.to_string());
    let middle = all[all.len() / 2].t_ns as u64;
    let symbol = all[0].symbol.clone();
    type Check<'a> = Box<dyn Fn(&store::OrderLine) -> bool + 'a>;
    let day = all[all.len() / 2].day;
    let cases: [(Filter, Check<'_>); 6] = [
        (
            Filter { day: u32::try_from(day).ok(), ..Filter::default() },
            Box::new(|line| line.day == day),
        ),
        (
            Filter { participant: text("USER2"), ..Filter::default() },
            Box::new(|line| line.account == 2),
        ),
        (
            Filter { participant: text("FIRM"), state: text("filled"), ..Filter::default() },
            Box::new(|line| line.account < 3 && line.state == "filled"),
        ),
        (
            Filter { participant: text("4"), since: Some(middle), ..Filter::default() },
            Box::new(|line| line.account == 4 && line.t_ns as u64 >= middle),
        ),
        (
            Filter { until: Some(middle), ..Filter::default() },
            Box::new(|line| (line.t_ns as u64) < middle),
        ),
        (
            Filter { instrument: text(&symbol), ..Filter::default() },
            Box::new(|line| line.symbol == symbol),
        ),
    ];
    for (filter, check) in &cases {
        let due: Vec<store::OrderLine> = all.iter().filter(|line| check(line)).cloned().collect();
        assert!(!due.is_empty(), "{filter:?}");
        assert_eq!(&orders(&query, filter), &due, "{filter:?}");
        let last = Filter { limit: Some(3), ..filter.clone() };
        assert_eq!(orders(&query, &last), due[due.len() - 3..], "{filter:?}");
    }
    let (mut both, filter) = (0, cases[1].0.clone());
    let of_two = |line: store::TradeLine| {
        both += usize::from(line.buy.account == 2 || line.sell.account == 2);
    };
    let found = query.trades(&filter, of_two).expect("rows");
    assert!(found > 3 && found == both);
}

on_both!(it_answers_while_it_is_fed);

fn it_answers_while_it_is_fed(kind: Kind) {
    let scratch = Scratch::new("fed", kind);
    let (seed, inputs) = (22, log(22, 400));
    let path = scratch.at("a");
    let mut store_writer = store_writer(&path, seed).with_batches(usize::MAX);
    let query = Query::open(&path).expect("a store");
    let mut before = 0;
    for (input, at) in inputs.iter().zip(1..) {
        store_writer.take(input).expect("the next");
        if at % 50 == 0 {
            // What waits is not seen; what was written is, all of it.
            assert_eq!(query.progress().expect("a row").applied, at - 50);
            store_writer.flush().expect("room");
            assert_eq!(query.progress().expect("a row").applied, at);
            let now = query.count(Table::Orders).expect("a number");
            assert!(now > before);
            before = now;
        }
    }
}

/// A store, open for asking, and the orders in it.
type Asked = (Scratch, Query, u64);

fn typed(kind: Kind) -> Asked {
    let scratch = Scratch::new("typed", kind);
    let path = scratch.at("a");
    whole(&path, 23, &log(23, 100));
    let query = Query::open(&path).expect("a store");
    let orders = query.count(Table::Orders).expect("a number");
    (scratch, query, orders)
}

proptest! {
    #[test]
    fn whatever_is_typed_is_a_value_and_never_a_command(
        name in ".{0,20}",
        quoted in any::<bool>(),
    ) {
        thread_local! {
            static STORES: Vec<Asked> = {
                [Some(Kind::Sqlite), Kind::postgres()].into_iter().flatten().map(typed).collect()
            };
        }
        let name = if quoted { format!("{name}' OR 1 = 1; DROP TABLE orders; --") } else { name };
        STORES.with(|stores| {
            for (_, query, count) in stores {
                let text = || Some(name.clone());
                let (participant, instrument, state) = (text(), text(), text());
                let filter = Filter { participant, instrument, state, ..Filter::default() };
                prop_assert_eq!(query.orders(&filter, |_| {}).expect("an answer"), 0);
                prop_assert_eq!(query.trades(&filter, |_| {}).expect("an answer"), 0);
                prop_assert!(query.count(Table::Orders).expect("a number") == *count && *count > 0);
            }
            Ok(())
        })?;
    }
}
