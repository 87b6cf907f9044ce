//! Good-till-date orders end at their time: the first input at or after it finds them gone.

use engine::{Applied, Engine};
use types::{
    CancelReason, Command, CommandKind, ExecutionKind as Kind, Nanos, ORDER_HIDDEN, OrderType,
    Phase, Price, RejectReason, TimeInForce,
};

use crate::bench::{Bench, TWO, buy, cancel, config, replace, sell};

fn until(at: u64, command: Command) -> Command {
    let time_in_force = TimeInForce::GoodTillDate;
    Command { time_in_force, expire_at: Nanos(at), ..command }
}

#[test]
fn an_input_at_the_end_of_an_order_does_not_trade_with_it() {
    let mut bench = Bench::new();
    bench.taken(until(2_000, sell(1, 1, 5, 100)));
    bench.taken(sell(1, 2, 5, 105));
    bench.now = 1_999;
    assert_eq!(bench.taken(buy(2, 1, 1, 105)).kind, Kind::Accepted);
    assert_eq!(bench.reports()[1..], [(Kind::Executed, 1, 1, 4), (Kind::Executed, 2, 1, 0)]);
    bench.now = 2_000;
    assert_eq!(bench.send(buy(2, 2, 1, 105)), Applied::Done);
    let told = [
        (Kind::Canceled, 1, 4, 0),
        (Kind::Accepted, 2, 1, 1),
        (Kind::Executed, 1, 1, 4),
        (Kind::Executed, 2, 1, 0),
    ];
    assert_eq!(bench.reports(), told, "its end comes before what the input asks for");
    assert_eq!(bench.cancels(), [(1, 1, CancelReason::Expired)]);
    assert_eq!(bench.out.executions[2].user_ref.0, 2, "the one that is left trades");
}

/// Whatever input it is, and whatever becomes of it.
#[test]
fn an_input_that_is_nothing_itself_ends_what_is_due() {
    let mut bench = Bench::new();
    bench.taken(until(2_000, buy(1, 1, 5, 100)));
    bench.taken(until(3_000, buy(1, 2, 5, 100)));
    bench.now = 2_000;
    assert_eq!(bench.send(buy(1, 1, 5, 100)), Applied::DuplicateRequest);
    assert_eq!(bench.cancels(), [(1, 1, CancelReason::Expired)]);
    bench.now = 3_000;
    assert_eq!(bench.operate(CommandKind::ExpireOrders, |_| {}), Applied::Done);
    assert_eq!(bench.cancels(), [(1, 2, CancelReason::Expired)]);
    assert_eq!(bench.engine.next_expiry(), Nanos::NEVER);
}

#[test]
fn orders_end_wherever_they_are() {
    let mut bench = Bench::new();
    bench.taken(buy(3, 1, 1, 90));
    bench.taken(sell(3, 2, 1, 120));
    let typed = |order_type, command| Command { order_type, ..command };
    let stop = Command { stop_price: Price(110), ..buy(1, 3, 5, 0) };
    let iceberg = Command { display_qty: 2, ..buy(1, 5, 5, 80) };
    let waits = [
        until(2_000, buy(1, 1, 5, 85)),
        until(2_000, Command { flags: ORDER_HIDDEN, ..buy(1, 2, 5, 80) }),
        until(2_000, typed(OrderType::Stop, stop)),
        until(2_000, typed(OrderType::PegPrimary, buy(1, 4, 5, 0))),
        until(2_000, iceberg),
        until(2_000, Command { instrument: TWO, ..sell(1, 6, 5, 120) }),
    ];
    waits.into_iter().for_each(|command| _ = bench.taken(command));
    assert_eq!(bench.engine.next_expiry(), Nanos(2_000));
    bench.phase(Phase::Halt);
    bench.now = 1_999;
    bench.operate(CommandKind::ExpireOrders, |_| {});
    assert_eq!(bench.cancels(), []);
    bench.now = 2_000;
    bench.operate(CommandKind::ExpireOrders, |_| {});
    let ended: Vec<u32> = bench.cancels().iter().map(|(_, number, _)| *number).collect();
    assert_eq!(ended, [1, 2, 3, 4, 5, 6], "book by book, by end and arrival");
    assert_eq!(bench.engine.open_orders(), 2);
}

#[test]
fn an_auction_does_not_trade_what_has_ended() {
    let mut bench = Bench::new();
    bench.phase(Phase::OpeningCall);
    bench.taken(until(2_000, sell(1, 1, 5, 95)));
    bench.taken(until(2_000, sell(1, 2, 5, 100)));
    bench.taken(until(2_001, sell(1, 3, 2, 100)));
    bench.taken(buy(2, 1, 20, 100));
    bench.now = 2_000;
    bench.phase(Phase::Continuous);
    let expired = |number| (1, number, CancelReason::Expired);
    assert_eq!(bench.cancels(), [expired(1), expired(2)]);
    assert_eq!((bench.position(1), bench.position(2)), (-2, 2));
}

/// A replace gives another end, a cancel and a trade none; only what is left can be due.
#[test]
fn the_next_expiry_is_that_of_an_open_order() {
    let mut bench = Bench::new();
    bench.taken(until(2_000, buy(1, 1, 5, 100)));
    bench.taken(until(3_000, buy(1, 2, 5, 100)));
    assert_eq!(bench.engine.next_expiry(), Nanos(2_000));
    // In its place, and with a new one.
    bench.taken(until(4_000, replace(1, 1, 3, 5, 100)));
    assert_eq!(bench.engine.next_expiry(), Nanos(3_000));
    bench.taken(until(5_000, replace(1, 2, 4, 5, 95)));
    assert_eq!(bench.engine.next_expiry(), Nanos(4_000));
    bench.taken(sell(2, 1, 5, 100));
    assert_eq!(bench.engine.next_expiry(), Nanos(5_000));
    bench.send(cancel(1, 4));
    assert_eq!(bench.engine.next_expiry(), Nanos::NEVER);
    bench.taken(buy(1, 5, 5, 100));
    assert_eq!(bench.engine.next_expiry(), Nanos::NEVER);
    bench.taken(until(6_000, replace(1, 5, 6, 5, 100)));
    assert_eq!(bench.engine.next_expiry(), Nanos(6_000));
    bench.taken(replace(1, 6, 7, 5, 100));
    assert_eq!(bench.engine.next_expiry(), Nanos::NEVER);
    // One that comes too late is refused, and so is a replace, whose order stays.
    bench.now = 7_000;
    assert_eq!(bench.refused(until(7_000, buy(1, 8, 5, 100))), RejectReason::InvalidExpiry);
    assert_eq!(bench.refused(until(7_000, replace(1, 7, 9, 5, 100))), RejectReason::InvalidExpiry);
    assert_eq!(bench.engine.open_orders(), 1);
}

#[test]
fn a_restored_engine_ends_them_alike() {
    let mut bench = Bench::new();
    for n in 1..=9 {
        let at = 2_000 + u64::from(n * 7 % 4);
        bench.taken(until(at, buy(1, n, 5, 100 - 5 * i64::from(n % 3))));
    }
    bench.send(cancel(1, 4));
    let mut snapshot = Vec::new();
    bench.engine.write_snapshot(&mut snapshot);
    let mut restored = Engine::read_snapshot(config(), &snapshot).expect("its own");
    assert_eq!(restored.next_expiry(), bench.engine.next_expiry());
    for at in 2_000..2_004 {
        bench.now = at;
        bench.operate(CommandKind::PublishIndicative, |_| {});
        let mut out = engine::Output::default();
        restored.apply(bench.log.last().expect("an input"), &mut out);
        assert_eq!((&out.executions, &out.market), (&bench.out.executions, &bench.out.market));
        assert_eq!(restored.state_digest(), bench.engine.state_digest());
    }
    assert_eq!(bench.engine.open_orders(), 0);
}
