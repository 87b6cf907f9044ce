//! The store is what a naive reading of the log makes of it, whatever the batches, restarts,
//! repeats and crashes; and what is wrong with it is found.

#[path = "../../../engine/tests/whole/bench.rs"]
#[allow(dead_code)]
mod bench;
mod crashes;
mod engines;
#[path = "../../../engine/tests/whole/flow.rs"]
#[allow(dead_code)]
mod flow;
mod model;
mod questions;
mod refusals;

use engine::{Engine, Output};
use store::{Account, Found, Origin, Place, Query, Store, StoreError, StoreWriter, differences};
use types::{Input, SplitMix64};

pub(crate) use engines::{Kind, Scratch, on_both};

/// A random log of everything.
pub(crate) fn log(seed: u64, inputs: usize) -> Vec<Input> {
    let mut flow = flow::Flow::new(seed);
    let (mut engine, mut out) = (Engine::new(flow::config(seed)), Output::default());
    let next = |_| {
        let input = flow.next_input(engine.books().last_match_number().0);
        out.clear();
        let _ = engine.apply(&input, &mut out);
        input
    };
    (0..inputs).map(next).collect()
}

pub(crate) fn origin(seed: u64) -> Origin {
    let config_digest = flow::config(seed).digest();
    let session = "FAIR000001".to_string();
    Origin { rules_version: 4, config_digest, log: seed, session, midnight: 0 }
}

pub(crate) fn open(place: &Place, seed: u64) -> Result<Store, StoreError> {
    let account = |id: u16| Account {
        id,
        name: format!("USER{id}"),
        comp_id: String::new(),
        firm: if id < 3 { "FIRM".to_string() } else { String::new() },
    };
    let accounts: Vec<Account> = (1..=flow::ACCOUNTS).map(account).collect();
    let store = Store::open(place, &origin(seed), &accounts, &flow::config(seed).instruments)?;
    // These tests lose processes, not machines.
    store.hurry()?;
    Ok(store)
}

pub(crate) fn store_writer(place: &Place, seed: u64) -> StoreWriter {
    let store = open(place, seed).expect("a store");
    StoreWriter::new(store, flow::config(seed)).expect("a store")
}

/// The store of a log, made at once.
pub(crate) fn whole(place: &Place, seed: u64, inputs: &[Input]) {
    let mut store_writer = store_writer(place, seed);
    inputs.iter().for_each(|input| assert!(store_writer.take(input).expect("the next")));
    store_writer.flush().expect("room");
    store_writer.into_parts().1.close().expect("a store");
}

pub(crate) fn compare(due: &Place, found: &Place) -> Found {
    let (due, found) = (Query::open(due).expect("a store"), Query::open(found).expect("a store"));
    let mut differing = Found::keeping(5);
    differences(&due, &found, &mut differing).expect("two stores");
    differing
}

on_both!(batches_restarts_and_repeats_change_nothing);

fn batches_restarts_and_repeats_change_nothing(kind: Kind) {
    let scratch = Scratch::new("batches", kind);
    for seed in 0..12 {
        let inputs = log(seed, 400);
        let (once, often) = (scratch.at(&format!("a_{seed}")), scratch.at(&format!("b_{seed}")));
        whole(&once, seed, &inputs);
        let mut random = SplitMix64::new(seed);
        let mut from = 0;
        // Each life feeds the log from its beginning, as a follower does, and dies somewhere.
        while from < inputs.len() {
            let rows = 1 + random.below(60) as usize;
            let mut store_writer = store_writer(&often, seed).with_batches(rows);
            assert!(store_writer.stored().applied <= from as u64);
            let until = (from + random.below(150) as usize).min(inputs.len());
            for input in &inputs[..until] {
                assert!(store_writer.take(input).expect("the next"));
                if random.below(9) == 0 {
                    assert!(!store_writer.take(input).expect("known"), "seed {seed}: taken twice");
                }
                // What waits is bounded, whatever comes.
                assert!(store_writer.feeder().waiting() < rows, "seed {seed}");
            }
            if random.below(2) == 0 || until == inputs.len() {
                store_writer.flush().expect("room");
                assert_eq!(store_writer.stored(), store_writer.taken());
            }
            from = until;
        }
        let found = compare(&once, &often);
        assert!(found.rows > 200 && found.count == 0, "seed {seed}: {:?}", found.first);
    }
}
