//! Each reason for a refusal, by the shortest way to it.

use engine::{Applied, Config, InstrumentRules};
use types::{
    ClOrdId, Command, CommandKind, INPUT_T_IN_CAPPED, Input, InstrumentId, InstrumentParam,
    LimitKind, Nanos, ORDER_POST_ONLY, OrderType, Phase, Price, Qty, RejectReason, Seq, Side,
    Source, TimeInForce,
};

use crate::bench::{Bench, ONE, buy, cancel, config, instruments, replace, sell};

/// The reason that a changed order is refused for; the plain one would be taken.
fn reason(bench: &mut Bench, change: impl FnOnce(&mut Command)) -> RejectReason {
    let number = bench.engine.applied() as u32 + 1;
    let mut command = buy(1, number, 5, 100);
    change(&mut command);
    bench.refused(command)
}

#[test]
fn faults_of_the_request_itself() {
    let mut bench = Bench::new();
    let b = &mut bench;
    assert_eq!(reason(b, |c| c.instrument = InstrumentId(3)), RejectReason::UnknownInstrument);
    assert_eq!(reason(b, |c| c.qty = Qty(0)), RejectReason::InvalidQuantity);
    assert_eq!(reason(b, |c| c.qty = Qty(1_001)), RejectReason::InvalidQuantity);
    assert_eq!(reason(b, |c| c.price = Price(101)), RejectReason::InvalidPrice);
    assert_eq!(reason(b, |c| c.price = Price(10_005)), RejectReason::PriceTooHigh);
    assert_eq!(reason(b, |c| c.flags = 128), RejectReason::Unsupported);
    assert_eq!(reason(b, |c| c.display_qty = 6), RejectReason::InvalidQuantityTerms);
    let stop = |stop_price| {
        move |c: &mut Command| {
            (c.order_type, c.price) = (OrderType::Stop, Price(0));
            c.stop_price = Price(stop_price);
        }
    };
    for wrong in [0, -5, 101, 10_005] {
        assert_eq!(reason(b, stop(wrong)), RejectReason::InvalidStopPrice, "{wrong}");
    }
    let until = |at| {
        move |c: &mut Command| {
            (c.time_in_force, c.expire_at) = (TimeInForce::GoodTillDate, Nanos(at));
        }
    };
    assert_eq!(reason(b, until(0)), RejectReason::InvalidExpiry);
    assert_eq!(reason(b, until(1_000)), RejectReason::InvalidExpiry, "now is too late");
    assert_eq!(reason(b, |c| c.expire_at = Nanos(5_000)), RejectReason::InvalidExpiry);
    b.taken(Command {
        expire_at: Nanos(1_001),
        time_in_force: TimeInForce::GoodTillDate,
        ..buy(1, 90, 5, 100)
    });
    let cl_ord_id = ClOrdId([b'x'; 14]);
    b.taken(Command { cl_ord_id, ..buy(1, 91, 5, 100) });
    b.taken(Command { cl_ord_id, ..buy(1, 92, 5, 100) });
}

#[test]
fn states_of_market_and_orders() {
    let mut bench = Bench::new();
    bench.taken(buy(1, 1, 5, 100));
    assert_eq!(bench.refused(replace(1, 9, 2, 5, 100)), RejectReason::UnknownOrder);
    assert_eq!(bench.refused(cancel(1, 9)), RejectReason::UnknownOrder);
    bench.taken(sell(2, 1, 3, 100));
    assert_eq!(bench.refused(replace(1, 1, 3, 3, 100)), RejectReason::NothingLeft);
    let post_only = Command { flags: ORDER_POST_ONLY, ..sell(2, 2, 1, 100) };
    assert_eq!(bench.refused(post_only), RejectReason::PostOnlyWouldTrade);
    bench.phase(Phase::Halt);
    assert_eq!(bench.refused(sell(2, 3, 1, 100)), RejectReason::Halted);
    bench.phase(Phase::OpeningCall);
    let ioc = Command { time_in_force: TimeInForce::FillOrKill, ..sell(2, 4, 1, 100) };
    assert_eq!(bench.refused(ioc), RejectReason::NotInThisPhase);
    bench.phase(Phase::Closed);
    assert_eq!(bench.refused(sell(2, 5, 1, 100)), RejectReason::MarketClosed);

    let room = book::Capacity { orders: 1, ..config().book };
    let mut small = Bench::with(Config { book: room, ..config() });
    small.taken(buy(1, 1, 5, 100));
    assert_eq!(small.refused(buy(1, 2, 5, 95)), RejectReason::CapacityReached);
}

#[test]
fn collars_of_the_instrument() {
    let rules = InstrumentRules {
        static_collar_bp: 1_000,
        reference: Price(1_000),
        ..InstrumentRules::of(&instruments()[0])
    };
    let mut bench = Bench::with(Config { rules: vec![rules], ..config() });
    assert_eq!(bench.refused(buy(1, 1, 5, 1_105)), RejectReason::PriceCollar);
    assert_eq!(bench.refused(buy(1, 2, 5, 895)), RejectReason::PriceCollar);
    bench.taken(buy(1, 3, 5, 1_100));
    bench.taken(buy(1, 4, 5, 900));
    let moved = bench.operate(CommandKind::SetInstrument, |c| {
        c.instrument = InstrumentId(1);
        c.param = InstrumentParam::Reference as u8;
        c.price = Price(2_000);
    });
    assert_eq!(moved, Applied::Done);
    let [event] = bench.events()[..] else { panic!("the collar is told: {:?}", bench.out) };
    let types::MarketEvent::Collar { reference, upper, lower, .. } = event else {
        panic!("{event:?}");
    };
    assert_eq!((reference, lower, upper), (Price(2_000), Price(1_800), Price(2_200)));
    assert_eq!(bench.refused(buy(1, 5, 5, 1_100)), RejectReason::PriceCollar);
    let wide = bench.operate(CommandKind::SetInstrument, |c| {
        c.instrument = InstrumentId(1);
        (c.param, c.qty) = (InstrumentParam::StaticCollar as u8, Qty(10_001));
    });
    assert_eq!(wide, Applied::Refused);
}

/// An auction may trade at the reference price, so that one is a price that an order could have.
#[test]
fn a_reference_price_off_the_tick_or_beyond_the_limits_is_refused() {
    let reference = |bench: &mut Bench, price| {
        bench.operate(CommandKind::SetInstrument, |c| {
            (c.instrument, c.param) = (ONE, InstrumentParam::Reference as u8);
            c.price = Price(price);
        })
    };
    let mut bench = Bench::new();
    assert_eq!(reference(&mut bench, 100), Applied::Done);
    for price in [102, 99, 1, -5, 10_005, i64::MAX, i64::MIN] {
        assert_eq!(reference(&mut bench, price), Applied::Refused, "{price}");
        assert_eq!((bench.out.executions.len(), bench.events()), (0, vec![]), "{price}");
        assert_eq!(bench.engine.reference_price(ONE), Price(100), "{price}: it stays");
    }
    // What trades at any price from 95 to 110 does so at the price nearest to the reference.
    bench.phase(Phase::OpeningCall);
    bench.taken(buy(1, 1, 5, 110));
    bench.taken(sell(2, 1, 5, 95));
    bench.phase(Phase::Continuous);
    let last = bench.engine.last_price(ONE);
    assert_eq!(last, Price(100));
    // 0 is none, and the largest price is one.
    for price in [0, 10_000] {
        assert_eq!(reference(&mut bench, price), Applied::Done, "{price}");
    }
    // The tick of the band that the price is in.
    let bands = [(Price(0), Price(5)), (Price(100), Price(50))];
    let ticks = types::TickTable::new(&bands).expect("a sound table");
    let rules = InstrumentRules { ticks, ..InstrumentRules::of(&instruments()[0]) };
    let mut banded = Bench::with(Config { rules: vec![rules], ..config() });
    for (price, applied) in [(95, Applied::Done), (105, Applied::Refused), (150, Applied::Done)] {
        assert_eq!(reference(&mut banded, price), applied, "{price}");
    }
    // Nor does a configuration have such a one.
    let off = InstrumentRules { reference: Price(102), ..InstrumentRules::of(&instruments()[0]) };
    assert!(Config { rules: vec![off], ..config() }.check().is_err());
}

#[test]
fn limits_of_the_account() {
    let mut bench = Bench::new();
    let b = &mut bench;
    b.limit(1, LimitKind::OrderQuantity, 4);
    assert_eq!(reason(b, |_| {}), RejectReason::OrderQuantityLimit);
    b.limit(1, LimitKind::OrderQuantity, 5);
    b.limit(1, LimitKind::OrderNotional, 499);
    assert_eq!(reason(b, |_| {}), RejectReason::OrderNotionalLimit);
    b.limit(1, LimitKind::OrderNotional, 500);
    b.taken(buy(1, 49, 5, 100));
    b.send(cancel(1, 49));
    b.limit(1, LimitKind::OrderNotional, u64::MAX);
    b.limit(1, LimitKind::OpenOrders, 0);
    assert_eq!(reason(b, |_| {}), RejectReason::OpenOrdersLimit);
    b.limit(1, LimitKind::OpenOrders, 2);
    b.taken(buy(1, 50, 5, 100));
    b.limit(1, LimitKind::Position, 9);
    assert_eq!(reason(b, |_| {}), RejectReason::PositionLimit, "5 open and 5 more");
    b.taken(Command { side: Side::Sell, ..buy(1, 51, 5, 200) });
    assert_eq!(b.refused(replace(1, 50, 52, 10, 45)), RejectReason::OrderQuantityLimit);
    b.limit(1, LimitKind::Position, u64::MAX);
    b.limit(1, LimitKind::OpenOrders, u64::MAX);
    b.limit(1, LimitKind::Credit, 1_999);
    assert_eq!(reason(b, |_| {}), RejectReason::CreditLimit, "500 and 1,000 and 500 more");
    b.limit(1, LimitKind::Credit, 2_000);
    b.taken(buy(1, 53, 5, 100));
    b.limit(1, LimitKind::Credit, u64::MAX);

    // The other side of a position counts against the limit only beyond it.
    b.taken(sell(2, 1, 10, 100));
    assert_eq!((b.position(1), b.position(2)), (10, -10));
    b.limit(1, LimitKind::Position, 10);
    assert_eq!(reason(b, |_| {}), RejectReason::PositionLimit);
    b.taken(sell(1, 60, 5, 300));
    b.taken(sell(1, 61, 5, 300));

    b.limit(0, LimitKind::FatFinger, 1_000);
    assert_eq!(b.refused(buy(3, 1, 1, 115)), RejectReason::FatFinger);
    assert_eq!(b.refused(buy(3, 2, 1, 85)), RejectReason::FatFinger);
    b.taken(buy(3, 3, 1, 90));
}

#[test]
fn message_rates_follow_the_gateways_time() {
    let mut bench = Bench::new();
    bench.limit(1, LimitKind::MessageRate, 2);
    bench.now = 5_000_000_000;
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(buy(1, 2, 5, 100));
    assert_eq!(bench.refused(buy(1, 3, 5, 100)), RejectReason::MessageRate);
    bench.send(cancel(1, 1));
    assert_eq!(bench.cancels().len(), 1, "taking away is never refused");
    bench.taken(buy(2, 1, 5, 100));
    bench.now += 500_000_000;
    bench.taken(buy(1, 4, 5, 100));
    assert_eq!(bench.refused(buy(1, 5, 5, 100)), RejectReason::MessageRate);
    // A stamp that was not believed counts as engine time.
    let (seq, t_seq) = (Seq(0), Nanos(bench.now));
    let (source, command) = (Source::default(), buy(1, 6, 5, 100));
    let flags = INPUT_T_IN_CAPPED;
    let input = Input { seq, t_in: Nanos(u64::MAX), t_seq, source, flags, command };
    bench.out.clear();
    bench.engine.apply(&input, &mut bench.out);
    assert_eq!(bench.out.executions[0].reject, RejectReason::MessageRate);
}

#[test]
fn identifiers_are_unique_where_that_is_asked_for() {
    let mut bench = Bench::with(Config { unique_cl_ord_id: true, ..config() });
    let named = |command: Command, id: u8| Command { cl_ord_id: ClOrdId([id; 14]), ..command };
    bench.taken(named(buy(1, 1, 5, 100), b'a'));
    assert_eq!(bench.refused(named(buy(1, 2, 5, 100), b'a')), RejectReason::DuplicateClOrdId);
    bench.taken(named(buy(2, 1, 5, 100), b'a'));
    bench.taken(named(buy(1, 3, 5, 100), b'b'));
    let taken = named(replace(1, 3, 4, 5, 95), b'a');
    assert_eq!(bench.refused(taken), RejectReason::DuplicateClOrdId);
    bench.taken(named(replace(1, 1, 5, 5, 95), b'a'));
    bench.send(cancel(1, 5));
    bench.taken(named(buy(1, 6, 5, 100), b'a'));
    bench.taken(buy(1, 7, 5, 100));
    bench.taken(buy(1, 8, 5, 100));
}
