//! A crash at any point of writing: the files as they stood then, opened again.

use std::collections::BTreeSet;

use crate::{Scratch, compare, log, store_writer, whole};

#[test]
fn after_a_crash_at_any_point_every_input_counts_once() {
    let scratch = Scratch::new("crashes");
    let (seed, inputs) = (7, log(7, 300));
    let (once, live) = (scratch.at("once.db"), scratch.at("live.db"));
    whole(&once, seed, &inputs);
    let mut writing = store_writer(&live, seed).with_batches(25);
    let mut held = BTreeSet::from([0]);
    for input in &inputs {
        writing.take(input).expect("the next");
        held.insert(writing.stored().applied);
    }
    // The writer is still there: all of it stands in the write-ahead log, and of that a crash
    // leaves any part, with the frame cut in two that was being written.
    let file = std::fs::read(&live).expect("a file");
    let ahead = std::fs::read(scratch.at("live.db-wal")).expect("a write-ahead log");
    let (mut places, mut opened) = (BTreeSet::new(), 0);
    let mut cut = 0;
    while cut <= ahead.len() {
        let crashed = scratch.at(&format!("{cut}.db"));
        std::fs::write(&crashed, &file).expect("room");
        std::fs::write(scratch.at(&format!("{cut}.db-wal")), &ahead[..cut]).expect("room");
        let mut next = store_writer(&crashed, seed);
        let applied = next.stored().applied;
        assert!(held.contains(&applied), "cut at {cut}: at {applied}, within a batch");
        places.insert(applied);
        opened += 1;
        inputs.iter().for_each(|input| assert!(next.take(input).expect("the next")));
        next.flush().expect("room");
        drop(next);
        let found = compare(&once, &crashed);
        assert_eq!(found.count, 0, "cut at {cut}: {:?}", found.first);
        cut += 29_989;
    }
    assert!(opened > 20 && places.len() > 5, "{opened} crashes at {places:?}");
}
