//! What a store refuses, and what is found when somebody has changed it.

use store::{Difference, Origin, Place, Query, Store, StoreError, StoreWriter};

use crate::{Kind, Scratch, compare, flow, log, on_both, open, origin, store_writer, whole};

on_both!(other_schemas_programs_logs_and_gaps_are_refused);

fn other_schemas_programs_logs_and_gaps_are_refused(kind: Kind) {
    let scratch = Scratch::new("refusals", kind);
    let (seed, inputs) = (3, log(3, 200));
    let path = scratch.at("a");
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
    scratch.change(
        &path,
        match path.is_server() {
            true => "UPDATE store_version SET version = 99",
            false => "PRAGMA user_version = 99",
        },
    );
    for refused in [Query::open(&path).err(), open(&path, seed).err()] {
        let line = refused.map(|error| error.to_string()).unwrap_or_default();
        assert!(line.contains("version 99") && line.contains("store rebuild"), "{line}");
    }
    let strange = scratch.at("b");
    let Place::File(file) = &strange else {
        let told = strange.to_string();
        let schema = told.rsplit('#').next().expect("a schema");
        let foreign = format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.orders (id BIGINT)");
        scratch.client(&strange).batch_execute(&foreign).expect("made");
        assert!(matches!(open(&strange, seed), Err(StoreError::Foreign)));
        stays(&path, &strange, seed);
        let row = scratch
            .client(&strange)
            .query_one(&format!("SELECT count(*) FROM {schema}.orders"), &[]);
        assert!(row.is_ok(), "the table of somebody else is there");
        return;
    };
    scratch.change(&strange, "CREATE TABLE orders (id INTEGER)");
    assert!(matches!(open(&strange, seed), Err(StoreError::Foreign)));
    stays(&path, &strange, seed);
    let text = b"no database at all, but long enough to be looked at";
    std::fs::write(file, text).expect("room");
    assert!(matches!(open(&strange, seed), Err(StoreError::Sqlite(_))));
    stays(&path, &strange, seed);
    assert_eq!(std::fs::read(file).expect("there"), text);
    // Control: nothing is in the way of an empty file, and of a store that is damaged.
    std::fs::write(file, b"").expect("room");
    store::remove(&strange).expect("removed");
    let Place::File(damaged) = &path else { return };
    let mut bytes = std::fs::read(damaged).expect("a store");
    bytes[4_096..].fill(7);
    std::fs::write(damaged, bytes).expect("room");
    store::remove(&path).expect("removed");
    assert!(!damaged.exists());
}

/// What is no store is neither removed nor replaced by one.
fn stays(path: &Place, strange: &Place, seed: u64) {
    assert!(matches!(store::remove(strange), Err(StoreError::Foreign)), "seed {seed}");
    let made = path.beside("made");
    whole(&made, seed, &log(seed, 200));
    assert!(matches!(store::replace(strange, &made), Err(StoreError::Foreign)), "seed {seed}");
    store::remove(&made).expect("removed");
}

on_both!(a_batch_that_fails_in_its_middle_leaves_nothing_behind);

fn a_batch_that_fails_in_its_middle_leaves_nothing_behind(kind: Kind) {
    let scratch = Scratch::new("middle", kind);
    let (seed, inputs) = (4, log(4, 400));
    let (whole_path, path) = (scratch.at("whole"), scratch.at("a"));
    whole(&whole_path, seed, &inputs);
    let mut writer = store_writer(&path, seed).with_batches(usize::MAX);
    inputs[..200].iter().for_each(|input| assert!(writer.take(input).is_ok()));
    writer.flush().expect("room");
    // A row that the next batch puts in is there already: after its orders, before its cancels.
    let next = "SELECT min(match_number) FROM trades WHERE seq > 220";
    let trade = scratch.number(&whole_path, next);
    let copy = format!(
        "INSERT INTO trades SELECT {trade}, seq, t_ns, instrument, price, qty, \
        traded_price, traded_qty, state, kind, aggressor, feed_position, buy_account, buy_order, \
        buy_user_ref, buy_cl_ord_id, sell_account, sell_order, sell_user_ref, sell_cl_ord_id, \
        day FROM trades LIMIT 1"
    );
    assert_eq!(scratch.change(&path, &copy), 1);
    inputs[200..].iter().for_each(|input| assert!(writer.take(input).is_ok()));
    let failed = writer.flush();
    let told = matches!(failed, Err(StoreError::Sqlite(_) | StoreError::Postgres(_)));
    assert!(told, "{failed:?}");
    let query = Query::open(&path).expect("a store");
    assert_eq!(query.progress().expect("a row").applied, 200);
    drop((writer, query));
    scratch.change(&path, &format!("DELETE FROM trades WHERE match_number = {trade}"));
    let mut again = store_writer(&path, seed);
    inputs.iter().for_each(|input| assert!(again.take(input).is_ok()));
    again.flush().expect("room");
    assert_eq!(compare(&whole_path, &path).count, 0);
}

on_both!(two_who_feed_it_at_once_do_not_feed_it_twice);

fn two_who_feed_it_at_once_do_not_feed_it_twice(kind: Kind) {
    let scratch = Scratch::new("two", kind);
    let (seed, inputs) = (5, log(5, 200));
    let (whole_path, path) = (scratch.at("whole"), scratch.at("a"));
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

on_both!(every_row_that_was_changed_is_named);

fn every_row_that_was_changed_is_named(kind: Kind) {
    let scratch = Scratch::new("changed", kind);
    let (seed, inputs) = (6, log(6, 300));
    let (due, found) = (scratch.at("due"), scratch.at("found"));
    whole(&due, seed, &inputs);
    whole(&found, seed, &inputs);
    assert_eq!(compare(&due, &found).count, 0);
    let changes = [
        "DELETE FROM trades WHERE match_number = 3",
        "UPDATE orders SET filled = filled + 1 WHERE id = (SELECT min(id) FROM orders)",
        "UPDATE cancels SET id = 1000000 WHERE id = (SELECT max(id) FROM cancels)",
    ];
    for text in changes {
        assert_eq!(scratch.change(&found, text), 1, "{text}");
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

/// Of a server one feeds it at a time; another one's turn comes when that one is gone.
#[test]
fn whoever_feeds_a_server_s_store_is_the_only_one_until_he_is_gone() {
    let Some(kind) = Kind::postgres() else { return };
    let scratch = Scratch::new("claims", kind);
    let (seed, inputs) = (9, log(9, 120));
    let (path, other) = (scratch.at("a"), scratch.at("b"));
    let [one, two, elsewhere] = [&path, &path, &other].map(|at| open(at, seed).expect("a store"));
    assert!(one.claim().expect("asked"));
    assert!(!two.claim().expect("asked"));
    assert!(elsewhere.claim().expect("asked"), "another schema is another store");
    let mut one = StoreWriter::new(one, flow::config(seed)).expect("a store");
    inputs[..100].iter().for_each(|input| assert!(one.take(input).is_ok()));
    one.flush().expect("room");
    drop(one);
    // Its connection may end a moment later.
    let ours = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        two.claim().expect("asked")
    });
    let mut two = StoreWriter::new(two, flow::config(seed)).expect("a store");
    assert!(ours && two.stored().applied == 100);
    inputs.iter().for_each(|input| assert!(two.take(input).expect("the next")));
    two.flush().expect("room");
    assert_eq!(two.stored().applied, 120);
}

/// A store of one engine and of the other, of the same log, are held against each other.
#[test]
fn both_engines_hold_the_same_rows() {
    let Some(kind) = Kind::postgres() else { return };
    let (scratch, files) = (Scratch::new("same", kind), Scratch::new("same", Kind::Sqlite));
    for seed in 30..36 {
        let inputs = log(seed, 400);
        let (server, file) = (scratch.at(&format!("of_{seed}")), files.at(&format!("of_{seed}")));
        whole(&server, seed, &inputs);
        whole(&file, seed, &inputs);
        let found = compare(&file, &server);
        assert!(found.rows > 200 && found.count == 0, "seed {seed}: {:?}", found.first);
        let change = "UPDATE trades SET price = price + 5 \
                      WHERE match_number = (SELECT min(match_number) FROM trades)";
        assert_eq!(scratch.change(&server, change), 1);
        assert_eq!(compare(&file, &server).count, 1);
        // Made anew beside it, it takes its place.
        let made = server.beside("new");
        whole(&made, seed, &inputs);
        store::replace(&server, &made).expect("replaced");
        assert_eq!(compare(&file, &server).count, 0);
        assert!(matches!(Query::open(&made), Err(StoreError::Missing)));
        // What others have beside a store stays; what they made of it keeps it from being dropped.
        let told = server.to_string();
        let schema = told.rsplit('#').next().expect("a schema");
        let run = |text: &str| scratch.client(&server).batch_execute(text);
        run(&format!("CREATE TABLE {schema}.payroll (id BIGINT)")).expect("made");
        run(&format!("GRANT SELECT ON {schema}.trades, {schema}.fills TO PUBLIC"))
            .expect("granted");
        run(&format!("CREATE VIEW {schema}.mine AS SELECT * FROM {schema}.trades")).expect("made");
        whole(&made, seed, &inputs);
        let refused = store::replace(&server, &made).expect_err("a view needs it").to_string();
        assert!(refused.contains("mine"), "{refused}");
        run(&format!("DROP VIEW {schema}.mine")).expect("dropped");
        store::replace(&server, &made).expect("replaced");
        assert_eq!(compare(&file, &server).count, 0);
        let may = |table: &str| {
            let text =
                format!("SELECT has_table_privilege('public', '{schema}.{table}', 'SELECT')");
            scratch.client(&server).query_one(&text, &[]).expect("a row").get::<_, bool>(0)
        };
        assert_eq!(["trades", "fills", "orders"].map(may), [true, true, false]);
        store::remove(&server).expect("removed");
        run(&format!("SELECT * FROM {schema}.payroll; DROP SCHEMA {schema} CASCADE"))
            .expect("there");
    }
}
