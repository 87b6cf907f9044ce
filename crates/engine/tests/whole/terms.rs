//! Reports carry the terms of their order, so that whoever tells of it needs to know nothing else.

use engine::Output;
use types::{
    Command, ExecutionKind as Kind, Nanos, OrderTerms, OrderType, Price, RejectReason, TimeInForce,
};

use crate::bench::{Bench, buy, cancel, replace, sell};

/// An iceberg for a day or two that must trade a little.
fn iceberg() -> Command {
    Command {
        display_qty: 10,
        min_qty: 5,
        time_in_force: TimeInForce::GoodTillDate,
        expire_at: Nanos(1_000_000),
        ..buy(1, 1, 100, 200)
    }
}

fn terms(out: &Output, kind: Kind) -> OrderTerms {
    let found = out.executions.iter().find(|r| r.kind == kind && r.account.0 == 1);
    found.expect("told").terms
}

#[test]
fn every_report_about_an_order_carries_its_terms() {
    let mut bench = Bench::new();
    bench.taken(sell(2, 1, 20, 200));
    let asked = iceberg();
    assert_eq!(bench.taken(asked).terms, asked.terms());
    assert_eq!(terms(&bench.out, Kind::Executed), asked.terms());
    let maker = bench.out.executions.iter().find(|r| r.account.0 == 2).expect("told");
    assert!(maker.terms.is_none());

    // A replace states its own, also one that keeps its place.
    let kept = Command { display_qty: 10, min_qty: 0, ..replace(1, 1, 2, 90, 200) };
    assert_eq!(bench.taken(kept).terms, OrderTerms { display_qty: 10, ..Default::default() });
    let moved = Command { display_qty: 30, ..replace(1, 2, 3, 90, 190) };
    assert_eq!(bench.taken(moved).terms, OrderTerms { display_qty: 30, ..Default::default() });
    bench.send(cancel(1, 3));
    assert_eq!(terms(&bench.out, Kind::Canceled).display_qty, 30);

    // What is refused is told as it was asked.
    let refused = Command { display_qty: 1_000, ..buy(1, 4, 100, 200) };
    assert_eq!(bench.refused(refused), RejectReason::InvalidQuantityTerms);
    assert_eq!(terms(&bench.out, Kind::Rejected), refused.terms());
}

#[test]
fn a_peg_and_a_stop_are_accepted_as_they_were_asked_for() {
    let mut bench = Bench::new();
    bench.taken(buy(2, 1, 5, 100));
    let peg = |user_ref, limit| Command {
        order_type: OrderType::PegPrimary,
        stop_price: Price(15),
        ..buy(1, user_ref, 10, limit)
    };
    let accepted = bench.taken(peg(1, 95));
    assert_eq!((accepted.price, accepted.terms.stop_price), (Price(95), Price(15)));
    let restated = bench.out.executions[1];
    assert_eq!((restated.kind, restated.price), (Kind::Restated, Price(85)), "where it rests");
    assert_eq!(bench.taken(peg(2, 0)).price, Price(0), "no limit");
    let again = Command { stop_price: Price(20), ..replace(1, 1, 3, 10, 90) };
    let replaced = bench.taken(again);
    assert_eq!((replaced.price, replaced.terms.stop_price), (Price(90), Price(20)));
    let stop =
        Command { order_type: OrderType::StopLimit, stop_price: Price(150), ..buy(1, 4, 10, 160) };
    let accepted = bench.taken(stop);
    assert_eq!((accepted.price, accepted.terms.stop_price), (Price(160), Price(150)));
}
