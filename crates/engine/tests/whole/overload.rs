//! Bounds of books filled to the last place: who is refused, with what reason, and that everybody
//! else goes on.

use types::{ExecutionKind, OrderType, Price, RejectReason, Side, TimeInForce, UserRefNum};

use crate::bench::{Bench, buy, cancel, config, order, sell};

#[test]
fn a_full_book_refuses_orders_trades_on_and_takes_more_when_some_go() {
    let mut bench = Bench::new();
    let room = config().book.orders;
    for n in 1..=room {
        bench.taken(buy(1, n, 1, 100));
    }
    assert_eq!(bench.refused(buy(1, room + 1, 1, 100)), RejectReason::CapacityReached);
    assert_eq!(bench.refused(sell(2, 1, 1, 200)), RejectReason::CapacityReached);
    assert_eq!(bench.engine.open_orders(), room as usize, "no more than there is room for");
    // Whoever wants to leave may, and that makes room for others.
    bench.send(cancel(1, 1));
    assert_eq!(bench.cancels().len(), 1);
    bench.taken(sell(2, 2, 1, 200));
    bench.send(cancel(2, 2));
    let ioc = order(3, 1, Side::Sell, 1, 100);
    bench.taken(types::Command { time_in_force: TimeInForce::ImmediateOrCancel, ..ioc });
    let kinds: Vec<ExecutionKind> = bench.out.executions.iter().map(|r| r.kind).collect();
    assert!(kinds.contains(&ExecutionKind::Executed), "the book trades: {kinds:?}");
}

#[test]
fn a_side_full_of_prices_refuses_new_ones_only() {
    let mut bench = Bench::new();
    let levels = config().book.levels;
    for n in 1..=levels {
        bench.taken(buy(1, n, 1, 5 * i64::from(n)));
    }
    let beyond = 5 * i64::from(levels + 1);
    assert_eq!(bench.refused(buy(1, levels + 1, 1, beyond)), RejectReason::CapacityReached);
    bench.taken(buy(2, 1, 1, 5));
    bench.taken(sell(2, 2, 1, beyond));
    let all = |n: &u32| bench.engine.depth(crate::bench::ONE, Side::Buy).count() == *n as usize;
    assert!(all(&levels), "one level for each price and no more");
    bench.send(cancel(1, levels));
    bench.taken(buy(1, levels + 2, 1, beyond - 5));
}

#[test]
fn stops_and_pegs_have_rooms_of_their_own() {
    let mut bench = Bench::new();
    let stop = |account, n| types::Command {
        order_type: OrderType::Stop,
        price: Price(0),
        stop_price: Price(500),
        ..buy(account, n, 1, 0)
    };
    let peg = |account, n| types::Command {
        order_type: OrderType::PegPrimary,
        price: Price(0),
        ..buy(account, n, 1, 0)
    };
    bench.taken(buy(2, 1, 1, 100));
    bench.taken(sell(2, 2, 1, 200));
    let (stops, pegs) = (config().book.stops, config().book.pegs);
    for n in 1..=stops {
        bench.taken(stop(1, n));
    }
    assert_eq!(bench.refused(stop(1, stops + 1)), RejectReason::CapacityReached);
    assert_eq!(bench.refused(stop(3, 1)), RejectReason::CapacityReached);
    for n in 1..=pegs {
        bench.taken(peg(4, n));
    }
    assert_eq!(bench.refused(peg(4, pegs + 1)), RejectReason::CapacityReached);
    bench.taken(buy(2, 3, 1, 95));
    bench.send(types::Command { user_ref: UserRefNum(1), ..cancel(1, 1) });
    assert_eq!(bench.cancels().len(), 1);
    bench.taken(stop(3, 2));
}

#[test]
fn one_account_can_not_fill_what_all_share() {
    let mut config = config();
    let share = config.book.orders / 4;
    config.limits = config.limits.with(types::LimitKind::OpenOrders, u64::from(share));
    config.limits = config.limits.with(types::LimitKind::MessageRate, u64::from(2 * share));
    let mut bench = Bench::with(config);
    for n in 1..=share {
        bench.taken(buy(1, n, 1, 100));
    }
    for n in share + 1..=2 * share {
        assert_eq!(bench.refused(buy(1, n, 1, 100)), RejectReason::OpenOrdersLimit);
    }
    assert_eq!(bench.refused(buy(1, 2 * share + 1, 1, 100)), RejectReason::MessageRate);
    // Everybody else trades on, and it may cancel.
    bench.taken(sell(2, 1, 1, 200));
    bench.taken(buy(3, 1, 1, 200));
    bench.send(cancel(1, 1));
    assert_eq!(bench.cancels().len(), 1);
}

#[test]
fn what_a_market_to_limit_order_has_no_level_for_was_never_valued() {
    let few = book::Capacity { levels: 1, ..config().book };
    let mut bench = Bench::with(engine::Config { book: few, ..config() });
    bench.taken(buy(1, 1, 5, 95));
    bench.taken(sell(2, 1, 1, 100));
    let to_limit = order(3, 1, Side::Buy, 10, 0);
    bench.taken(types::Command { order_type: OrderType::MarketToLimit, ..to_limit });
    assert_eq!(bench.cancels(), [(3, 1, types::CancelReason::Capacity)]);
    let standing = bench.engine.standing(types::AccountId(3)).expect("it exists");
    assert_eq!((standing.open_orders, standing.exposure), (0, 100), "the lot that it holds");
}
