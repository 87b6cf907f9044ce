//! Days with auctions, halts and interruptions, as the feed and the accounts hear of them.

use engine::{Applied, Config, InstrumentRules};
use types::{
    CancelReason, Command, CommandKind, CrossKind, ExecutionKind as Kind, ImbalanceSide, Liquidity,
    MarketEvent, ORDER_HIDDEN, OrderRef, OrderType, Phase, Price, Qty, Side, SystemEventCode,
    TimeInForce, TradingState,
};

use crate::bench::{Bench, ONE, buy, cancel, config, instruments, sell};

fn call_day() -> Bench {
    let mut bench = Bench::closed(config());
    assert_eq!(bench.operate(CommandKind::StartOfDay, |c| c.param = 1), Applied::Done);
    bench
}

fn states(bench: &Bench) -> Vec<TradingState> {
    let state = |event: &MarketEvent| match *event {
        MarketEvent::TradingAction { instrument: ONE, state } => Some(state),
        _ => None,
    };
    bench.events().iter().filter_map(state).collect()
}

#[test]
fn an_opening_auction_prints_once_and_tells_both_sides() {
    let mut bench = call_day();
    assert_eq!(states(&bench), [TradingState::QuotationOnly]);
    let hours = MarketEvent::SystemEvent { code: SystemEventCode::StartOfMarketHours };
    assert!(!bench.events().contains(&hours));
    bench.taken(buy(1, 1, 5, 110));
    bench.phase(Phase::OpeningCall);
    bench.taken(sell(2, 1, 3, 100));
    bench.taken(Command { flags: ORDER_HIDDEN, ..sell(3, 1, 4, 105) });
    let told = bench.operate(CommandKind::PublishIndicative, |c| c.instrument = ONE);
    assert_eq!(told, Applied::Done);
    let [MarketEvent::Imbalance { paired, imbalance, side, near, kind, .. }] = bench.events()[..]
    else {
        panic!("{:?}", bench.out);
    };
    assert_eq!((paired, imbalance, near), (Qty(5), Qty(2), Price(105)));
    assert_eq!((side, kind), (ImbalanceSide::Sell, CrossKind::Opening));

    bench.phase(Phase::Continuous);
    let events = bench.events();
    assert_eq!(events[0], hours);
    assert_eq!(states(&bench), [TradingState::Trading, TradingState::Trading][..1]);
    let cross = events.iter().position(|e| matches!(e, MarketEvent::CrossTrade { .. }));
    let cross = cross.expect("a cross");
    let MarketEvent::CrossTrade { qty, price, kind, match_number, .. } = events[cross] else {
        panic!("just found");
    };
    assert_eq!((qty, price, kind), (Qty(5), Price(105), CrossKind::Opening));
    assert_eq!(match_number.0, 3, "after those of its two trades");
    let shown = |e: &&MarketEvent| matches!(e, MarketEvent::OrderExecutedWithPrice { .. });
    assert_eq!(events.iter().filter(shown).count(), 3, "the hidden seller is not seen");
    let printed = bench.out.market[cross].0;
    let executed: Vec<_> =
        bench.out.executions.iter().filter(|r| r.kind == Kind::Executed).collect();
    assert_eq!(executed.len(), 4);
    assert!(executed.iter().all(|r| r.public_after == printed && r.price == Price(105)));
    assert!(executed.iter().all(|r| r.liquidity == Liquidity::OpeningCross));
}

#[test]
fn a_halt_and_a_closing_auction_in_one_day() {
    let mut bench = Bench::new();
    bench.taken(buy(1, 1, 5, 100));
    let at_close = |command| Command { time_in_force: TimeInForce::AtTheClose, ..command };
    bench.taken(at_close(sell(2, 1, 9, 95)));
    assert_eq!(bench.out.market, [], "waits unseen");
    bench.phase(Phase::Halt);
    assert_eq!(states(&bench), [TradingState::Halted]);
    bench.send(cancel(1, 1));
    assert_eq!(bench.cancels().len(), 1);
    bench.phase(Phase::Continuous);
    bench.taken(buy(1, 2, 5, 100));
    bench.phase(Phase::ClosingCall);
    assert_eq!(states(&bench), [TradingState::QuotationOnly]);
    let added = |e: &&MarketEvent| matches!(e, MarketEvent::AddOrder { qty: Qty(9), .. });
    assert_eq!(bench.events().iter().filter(added).count(), 1, "now in the book");
    assert_eq!(bench.operate(CommandKind::EndOfDay, |_| {}), Applied::Done);
    let closing =
        |e: &MarketEvent| matches!(e, MarketEvent::CrossTrade { kind: CrossKind::Closing, .. });
    assert!(bench.events().iter().any(closing));
    assert_eq!(bench.cancels(), [(2, 1, CancelReason::AuctionOver)]);
    let last = bench.engine.last_price(ONE);
    assert!(last.0 > 0);
    assert_eq!((bench.engine.closing_price(ONE), bench.engine.reference_price(ONE)), (last, last));
}

#[test]
fn a_trade_beyond_the_dynamic_collar_begins_a_volatility_call() {
    let rules = InstrumentRules {
        dynamic_collar_bp: 500,
        reference: Price(1_000),
        ..InstrumentRules::of(&instruments()[0])
    };
    let mut bench = Bench::with(Config { rules: vec![rules], ..config() });
    let collar = |events: &[MarketEvent]| {
        events.iter().find_map(|event| match *event {
            MarketEvent::Collar { lower, upper, extension, .. } => {
                Some((lower.0, upper.0, extension))
            }
            _ => None,
        })
    };
    assert_eq!(collar(&bench.events()), Some((950, 1_050, 0)));
    bench.taken(sell(1, 1, 5, 1_050));
    bench.taken(sell(1, 2, 5, 1_100));
    bench.taken(sell(1, 3, 5, 1_200));
    bench.taken(buy(2, 1, 20, 1_200));
    assert_eq!(bench.reports().len(), 3, "accepted, and one trade within the collar");
    assert_eq!(states(&bench), [TradingState::Paused]);
    let last = *bench.events().last().expect("an event");
    let MarketEvent::Imbalance { paired, kind, .. } = last else { panic!("{last:?}") };
    assert_eq!((paired, kind), (Qty(10), CrossKind::Resuming));
    assert_eq!(bench.engine.phase(ONE), Some(Phase::VolatilityCall));
    bench.phase(Phase::Continuous);
    assert_eq!(bench.engine.phase(ONE), Some(Phase::Continuous));
    let price = bench.engine.last_price(ONE).0;
    let half = price * 5 / 100;
    assert_eq!(collar(&bench.events()), Some((price - half, price + half, 1)));
}

#[test]
fn batches_uncross_at_each_interval() {
    let mut bench = Bench::new();
    assert_eq!(bench.operate(CommandKind::Uncross, |c| c.instrument = ONE), Applied::Refused);
    bench.phase(Phase::Batch);
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(sell(2, 1, 5, 100));
    assert_eq!(bench.reports().len(), 1, "no trade before the interval ends");
    let ioc = Command { time_in_force: TimeInForce::ImmediateOrCancel, ..sell(2, 2, 5, 200) };
    bench.taken(ioc);
    assert_eq!(bench.operate(CommandKind::Uncross, |_| {}), Applied::Done);
    let crossed =
        |e: &MarketEvent| matches!(e, MarketEvent::CrossTrade { kind: CrossKind::Intraday, .. });
    assert!(bench.events().iter().any(crossed));
    assert_eq!(bench.cancels(), [(2, 2, CancelReason::AuctionOver)]);
    assert_eq!(bench.engine.phase(ONE), Some(Phase::Batch));
}

#[test]
fn stops_pegs_and_icebergs_are_told_as_they_live() {
    let mut bench = Bench::new();
    bench.taken(Command { display_qty: 2, ..buy(1, 1, 5, 100) });
    assert!(matches!(bench.events()[..], [MarketEvent::AddOrder { qty: Qty(2), .. }]));
    let stop = Command { order_type: OrderType::Stop, stop_price: Price(100), ..sell(2, 1, 1, 0) };
    bench.taken(stop);
    assert_eq!(bench.out.market, []);
    let peg = Command { order_type: OrderType::PegPrimary, ..buy(4, 1, 1, 0) };
    bench.taken(peg);
    let kinds: Vec<Kind> = bench.out.executions.iter().map(|r| r.kind).collect();
    assert_eq!(kinds, [Kind::Accepted, Kind::Restated]);
    assert_eq!(bench.out.executions[1].price, Price(100));
    assert_eq!(bench.out.market, [], "pegs are never seen");

    bench.taken(sell(3, 1, 2, 100));
    let kinds: Vec<Kind> = bench.out.executions.iter().map(|r| r.kind).collect();
    let expected = [
        Kind::Accepted,
        Kind::Executed,
        Kind::Executed,
        Kind::Triggered,
        Kind::Executed,
        Kind::Executed,
    ];
    assert_eq!(kinds, expected, "the stop follows the trade");
    let MarketEvent::AddOrder { order_ref, qty, .. } = bench.events()[1] else {
        panic!("the next lots of the iceberg: {:?}", bench.out.market);
    };
    assert!(order_ref != OrderRef(1) && qty == Qty(2));
    // A hidden trade prints by itself.
    bench.send(cancel(1, 1));
    bench.taken(Command { flags: ORDER_HIDDEN, ..buy(1, 2, 3, 90) });
    bench.taken(sell(3, 2, 3, 90));
    let prints = bench.events();
    assert!(
        matches!(prints[..], [MarketEvent::Trade { side: Side::Buy, qty: Qty(3), .. }]),
        "{prints:?}"
    );
}

#[test]
fn a_venue_that_never_closes_rolls_without_a_halt() {
    let mut bench = Bench::new();
    bench.taken(buy(1, 1, 5, 100));
    let gtc = Command { time_in_force: TimeInForce::GoodTillCancelled, ..buy(1, 2, 5, 95) };
    bench.taken(gtc);
    assert_eq!(bench.operate(CommandKind::EndOfDay, |c| c.param = 1), Applied::Done);
    assert_eq!(bench.cancels(), [(1, 1, CancelReason::EndOfDay)]);
    assert_eq!(states(&bench), [TradingState::Trading]);
    let system = |code| MarketEvent::SystemEvent { code };
    let events = bench.events();
    let at = |code| events.iter().position(|event| *event == system(code)).expect("told");
    assert!(at(SystemEventCode::EndOfMessages) < at(SystemEventCode::StartOfMessages));
    assert!(bench.engine.is_open());
    assert_eq!(bench.engine.phase(ONE), Some(Phase::Continuous));
    assert_eq!(bench.send(buy(1, 1, 5, 100)), Applied::DuplicateRequest, "numbers run on");
    bench.taken(buy(1, 3, 5, 100));
}
