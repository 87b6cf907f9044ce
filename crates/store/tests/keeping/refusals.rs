//! What a store refuses, and what is found when somebody has changed it.

use rusqlite::Connection;
use store::{Difference, Origin, Query, Store, StoreError, StoreWriter};

use crate::{Scratch, compare, flow, log, open, origin, store_writer, whole};

fn change(path: &std::path::Path, text: &str) -> usize {
    Connection::open(path).and_then(|db| db.execute(text, [])).expect("changed")
}

#[test]
fn other_schemas_programs_logs_and_gaps_are_refused() {
    let scratch = Scratch::new("refusals");
    let (seed, inputs) = (3, log(3, 200));
    let path = scratch.at("a.db");
    assert!(matches!(Query::open(&path), Err(StoreError::Missing)));
    whole(&path, seed, &inputs);
    let other = Origin { midnight: 1, ..origin(seed) };
    let refused = Store::open(&path, &other, &[], &[]);
    assert!(matches!(refused, Err(StoreError::Origin("day"))));
    // The same name and day, and other inputs.
    let mut changed = inputs.clone();
    changed[5..].iter_mut().for_each(|input| input.command.qty.0 += 1);
    let mut store_writer = store_writer(&path, seed);
    let told = changed.iter().find_map(|input| store_writer.take(input).err());
    assert!(matches!(told, Some(StoreError::Reports(200))), "{told:?}");
    let mut short = StoreWriter::new(open(&path, seed).expect("a store"), flow::config(seed));
    let gap = short.as_mut().map(|short| short.take(&inputs[4]));
    assert!(matches!(gap, Ok(Err(StoreError::Gap(1, 5)))));
    change(&path, "PRAGMA user_version = 99");
    for refused in [Query::open(&path).err(), open(&path, seed).err()] {
        let line = refused.map(|error| error.to_string()).unwrap_or_default();
        assert!(line.contains("version 99") && line.contains("store rebuild"), "{line}");
    }
    let strange = scratch.at("b.db");
    change(&strange, "CREATE TABLE orders (id INTEGER)");
    assert!(matches!(open(&strange, seed), Err(StoreError::Foreign)));
    std::fs::write(&strange, b"no database at all, but long enough to be looked at").expect("room");
    assert!(matches!(open(&strange, seed), Err(StoreError::Sqlite(_))));
}

#[test]
fn a_batch_that_fails_in_its_middle_leaves_nothing_behind() {
    let scratch = Scratch::new("middle");
    let (seed, inputs) = (4, log(4, 400));
    let (whole_path, path) = (scratch.at("whole.db"), scratch.at("a.db"));
    whole(&whole_path, seed, &inputs);
    let mut writer = store_writer(&path, seed).with_batches(usize::MAX);
    inputs[..200].iter().for_each(|input| assert!(writer.take(input).is_ok()));
    writer.flush().expect("room");
    // A row that the next batch puts in is there already: after its orders, before its cancels.
    let trade = Connection::open(&whole_path).and_then(|db| {
        let next = "SELECT min(match_number) FROM trades WHERE seq > 220";
        db.query_row(next, [], |row| row.get::<_, i64>(0))
    });
    let trade = trade.expect("a trade");
    let copy = format!(
        "INSERT INTO trades SELECT {trade}, seq, t_ns, instrument, price, qty, \
        traded_price, traded_qty, state, kind, aggressor, feed_position, buy_account, buy_order, \
        buy_user_ref, buy_cl_ord_id, sell_account, sell_order, sell_user_ref, sell_cl_ord_id \
        FROM trades LIMIT 1"
    );
    assert_eq!(change(&path, &copy), 1);
    inputs[200..].iter().for_each(|input| assert!(writer.take(input).is_ok()));
    let failed = writer.flush();
    assert!(matches!(failed, Err(StoreError::Sqlite(_))), "{failed:?}");
    let query = Query::open(&path).expect("a store");
    assert_eq!(query.progress().expect("a row").applied, 200);
    drop((writer, query));
    change(&path, &format!("DELETE FROM trades WHERE match_number = {trade}"));
    let mut again = store_writer(&path, seed);
    inputs.iter().for_each(|input| assert!(again.take(input).is_ok()));
    again.flush().expect("room");
    assert_eq!(compare(&whole_path, &path).count, 0);
}

#[test]
fn two_who_feed_it_at_once_do_not_feed_it_twice() {
    let scratch = Scratch::new("two");
    let (seed, inputs) = (5, log(5, 200));
    let (whole_path, path) = (scratch.at("whole.db"), scratch.at("a.db"));
    whole(&whole_path, seed, &inputs);
    let (mut one, mut two) = (store_writer(&path, seed), store_writer(&path, seed));
    inputs[..150].iter().for_each(|input| assert!(one.take(input).is_ok()));
    inputs.iter().for_each(|input| assert!(two.take(input).is_ok()));
    one.flush().expect("room");
    assert!(matches!(two.flush(), Err(StoreError::Moved(0))));
    inputs[150..].iter().for_each(|input| assert!(one.take(input).is_ok()));
    one.flush().expect("room");
    assert_eq!(compare(&whole_path, &path).count, 0);
}

#[test]
fn every_row_that_was_changed_is_named() {
    let scratch = Scratch::new("changed");
    let (seed, inputs) = (6, log(6, 300));
    let (due, found) = (scratch.at("due.db"), scratch.at("found.db"));
    whole(&due, seed, &inputs);
    whole(&found, seed, &inputs);
    assert_eq!(compare(&due, &found).count, 0);
    let changes = [
        "DELETE FROM trades WHERE match_number = 3",
        "UPDATE orders SET filled = filled + 1 WHERE id = (SELECT min(id) FROM orders)",
        "UPDATE cancels SET id = 1000000 WHERE id = (SELECT max(id) FROM cancels)",
    ];
    for text in changes {
        assert_eq!(change(&found, text), 1, "{text}");
    }
    let differing = compare(&due, &found);
    assert_eq!(differing.count, 4, "{:?}", differing.first);
    let named = |of: &Difference| {
        matches!(of, Difference::Missing("trades", 3) | Difference::Surplus("cancels", 1_000_000))
            || matches!(of, Difference::Missing("cancels", _))
            || matches!(of, Difference::Column("orders", _, column, ..) if column == "filled")
    };
    assert!(differing.first.iter().all(named), "{:?}", differing.first);
}
