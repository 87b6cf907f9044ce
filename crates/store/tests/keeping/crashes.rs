//! A crash at any point of writing: the files as they stood then, opened again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use store::Place;

use crate::{Kind, Scratch, compare, log, store_writer, whole};

/// How long a transaction may wait.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn after_a_crash_at_any_point_every_input_counts_once() {
    let scratch = Scratch::new("crashes", Kind::Sqlite);
    let (seed, inputs) = (7, log(7, 300));
    let (once, live) = (scratch.at("once"), scratch.at("live"));
    whole(&once, seed, &inputs);
    let mut writing = store_writer(&live, seed).with_batches(25);
    let mut held = BTreeSet::from([0]);
    for input in &inputs {
        writing.take(input).expect("the next");
        held.insert(writing.stored().applied);
    }
    // The writer is still there: all of it stands in the write-ahead log, and of that a crash
    // leaves any part, with the frame cut in two that was being written.
    let file = std::fs::read(scratch.file("live.db")).expect("a file");
    let ahead = std::fs::read(scratch.file("live.db-wal")).expect("a write-ahead log");
    let (mut places, mut opened) = (BTreeSet::new(), 0);
    let mut cut = 0;
    while cut <= ahead.len() {
        let crashed = scratch.file(&format!("{cut}.db"));
        std::fs::write(&crashed, &file).expect("room");
        std::fs::write(scratch.file(&format!("{cut}.db-wal")), &ahead[..cut]).expect("room");
        let crashed = Place::from(&crashed);
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

/// The feeder's connection ends in the middle of a transaction, again and again, as when it is killed.
#[test]
fn a_connection_that_is_lost_at_any_point_leaves_whole_batches() {
    let Some(kind) = Kind::postgres() else { return };
    let scratch = Scratch::new("lost", kind);
    let (seed, inputs) = (8, log(8, 700));
    let (once, live) = (scratch.at("once"), scratch.at("live"));
    whole(&once, seed, &inputs);
    let (mut places, mut lost) = (BTreeSet::new(), 0);
    drop(store_writer(&live, seed));
    let mut watcher = scratch.client(&live);
    for round in 0..12 {
        let mut writing = store_writer(&live, seed).with_batches(25);
        let from = writing.stored().applied;
        places.insert(from);
        // Whoever holds a row lets the next transaction wait in its middle; then its connection ends.
        let until = (from + 20 + 7 * round).min(inputs.len() as u64) as usize;
        let fed = inputs[..until].iter().try_for_each(|input| writing.take(input).map(drop));
        fed.expect("the next");
        writing.flush().expect("room");
        let next = &inputs[until..(until + 20).min(inputs.len())];
        next.iter().for_each(|input| assert!(writing.take(input).is_ok()));
        let held = writing.stored().applied;
        let mut other = scratch.client(&live);
        let mut waiting = other.transaction().expect("a transaction");
        waiting.execute("LOCK TABLE trades IN EXCLUSIVE MODE", &[]).expect("locked");
        waiting.execute("LOCK TABLE cancels IN EXCLUSIVE MODE", &[]).expect("locked");
        let mut waiting = Some(waiting);
        let failed = std::thread::scope(|scope| {
            let flushed = scope.spawn(move || writing.flush().is_err());
            let ends = "SELECT count(*) FILTER (WHERE pg_terminate_backend(l.pid)) \
                        FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
                        JOIN pg_namespace n ON n.oid = c.relnamespace \
                        WHERE NOT l.granted AND n.nspname = current_schema()";
            let since = Instant::now();
            while !flushed.is_finished() {
                let _: i64 = watcher.query_one(ends, &[]).expect("asked").get(0);
                std::thread::sleep(Duration::from_millis(5));
                if since.elapsed() > PATIENCE {
                    waiting = None;
                }
            }
            flushed.join().expect("no panic")
        });
        assert!(waiting.take().is_some(), "round {round}: its connection did not end");
        lost += u64::from(failed);
        let stored = store_writer(&live, seed).stored().applied;
        assert!(!failed || stored == held, "round {round}: {stored} after {held}");
    }
    assert!(places.len() > 5 && lost > 5, "{lost} lost at {places:?}");
    let mut next = store_writer(&live, seed);
    inputs.iter().for_each(|input| assert!(next.take(input).expect("the next")));
    next.flush().expect("room");
    let found = compare(&once, &live);
    assert_eq!(found.count, 0, "{:?}", found.first);
}
