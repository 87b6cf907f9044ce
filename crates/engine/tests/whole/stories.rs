//! One order's story from the log, statements, and the proof that all accounts of it agree.

use engine::explain::{ExplainedEvent, Which, explain};
use engine::statement::{Difference, Ledger, Tape, draw_up, reconcile};
use types::{
    AccountId, Command, CommandKind, ExecutionKind as Kind, Input, MarketEvent, OrderRef, Phase,
    Price, Qty, UserRefNum,
};

use crate::bench::{Bench, ONE, TWO, buy, cancel, config, replace, sell};

/// Each line in a word.
fn words(lines: &[ExplainedEvent]) -> Vec<String> {
    let word = |line: &ExplainedEvent| match line {
        ExplainedEvent::Input { input, .. } => format!("{:?} {}", input.command.kind, input.seq),
        ExplainedEvent::Report(report) => format!("{:?} {}", report.kind, report.qty),
        ExplainedEvent::Tick { position, event } => {
            let name = format!("{event:?}");
            let name = name.split([' ', '{']).next().unwrap_or("").to_string();
            format!("{name} @{position}")
        }
    };
    lines.iter().map(word).collect()
}

fn told() -> (Bench, Vec<Input>) {
    let mut bench = Bench::new();
    bench.taken(Command { display_qty: 2, ..buy(1, 1, 6, 100) });
    bench.taken(buy(3, 1, 6, 95));
    bench.taken(sell(2, 1, 3, 100));
    bench.taken(replace(1, 1, 2, 6, 90));
    bench.send(cancel(3, 1));
    bench.operate(CommandKind::BustTrade, |c| c.qty = Qty(2));
    bench.send(cancel(1, 2));
    let log = bench.log.clone();
    (bench, log)
}

#[test]
fn a_story_follows_an_order_through_replaces_and_replenishments() {
    let (_, log) = told();
    let story = explain(&config(), &log, Which::Request(AccountId(1), UserRefNum(2)));
    let expected = [
        "NewOrder 2",
        "Accepted 6",
        "AddOrder @8",
        "NewOrder 4",
        "Executed 2",
        "Executed 1",
        "OrderExecuted @10",
        "AddOrder @11",
        "OrderExecuted @12",
        "Replace 5",
        "Replaced 3",
        "OrderReplace @13",
        "BustTrade 7",
        "TradeBroken 1",
        "BrokenTrade @15",
        "Cancel 8",
        "Canceled 3",
        "OrderDelete @16",
    ];
    assert_eq!(words(&story), expected);
    // By its first number, or any reference it had: the same story.
    let first = explain(&config(), &log, Which::Request(AccountId(1), UserRefNum(1)));
    assert_eq!(first, story);
    for order_ref in [1, 4, 5] {
        let found = explain(&config(), &log, Which::Reference(OrderRef(order_ref)));
        assert_eq!(words(&found), expected, "reference {order_ref}");
    }
    assert_eq!(explain(&config(), &log, Which::Reference(OrderRef(99))), []);
}

#[test]
fn statements_say_what_each_account_did() {
    let mut bench = Bench::new();
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(sell(2, 1, 3, 100));
    bench.taken(Command { instrument: TWO, ..buy(2, 2, 5, 50) });
    bench.operate(CommandKind::CorrectTrade, |c| {
        (c.qty, c.price, c.min_qty) = (Qty(1), Price(90), 2)
    });
    let outcome = draw_up(config(), &bench.log);
    let statements = outcome.ledger.statements();
    let one = statements[&(AccountId(1), ONE)];
    assert_eq!((one.orders, one.bought, one.sold, one.position()), (1, 2, 0, 2));
    assert_eq!((one.bought_value, one.open_orders, one.open_lots), (180, 1, 2));
    let two = statements[&(AccountId(2), ONE)];
    assert_eq!((two.sold, two.notional(), two.open_orders), (2, 180, 0));
    assert_eq!(statements[&(AccountId(2), TWO)].open_lots, 5);
    let [trade] = outcome.ledger.trades().collect::<Vec<_>>()[..] else { panic!("one trade") };
    assert_eq!((trade.price, trade.qty, trade.traded_qty), (Price(90), Qty(2), Qty(3)));
    assert_eq!((trade.buy.0, trade.sell.0, trade.broken), (AccountId(1), AccountId(2), false));
    assert_eq!(reconcile(&outcome.ledger, &outcome.tape, &outcome.engine), []);

    bench.operate(CommandKind::EndOfDay, |_| {});
    let ended = draw_up(config(), &bench.log);
    assert_eq!(ended.closing, [Price(100), Price(0)]);
    assert!(ended.ledger.statements().values().all(|statement| statement.open_orders == 0));
}

/// The control of the control: whatever is left out or changed is found.
#[test]
fn a_difference_of_one_lot_is_found() {
    let mut bench = Bench::new();
    bench.phase(Phase::OpeningCall);
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(sell(2, 1, 3, 100));
    bench.phase(Phase::Continuous);
    bench.taken(sell(3, 1, 1, 100));
    let log = bench.log.clone();
    let good = draw_up(config(), &log);
    assert_eq!(reconcile(&good.ledger, &good.tape, &good.engine), []);

    let (mut reports, mut events) = (Vec::new(), Vec::new());
    engine::replay(config(), &log, |_, _, _, out| {
        reports.extend(out.executions.iter().copied());
        events.extend(out.market.iter().map(|(_, event)| *event));
    });
    let with = |change: &dyn Fn(&mut Vec<types::ExecutionReport>, &mut Vec<MarketEvent>)| {
        let (mut reports, mut events) = (reports.clone(), events.clone());
        change(&mut reports, &mut events);
        let (mut ledger, mut tape) = (Ledger::default(), Tape::default());
        reports.iter().for_each(|report| ledger.take(report));
        events.iter().for_each(|event| tape.take(event));
        reconcile(&ledger, &tape, &good.engine)
    };
    assert_eq!(with(&|_, _| {}), []);
    let executed: Vec<usize> =
        (0..reports.len()).filter(|&at| reports[at].kind == Kind::Executed).collect();
    assert_eq!(executed.len(), 4);
    for at in executed {
        let without = with(&|reports, _| {
            reports.remove(at);
        });
        assert_ne!(without, [], "report {at} is missing");
        assert_ne!(with(&|reports, _| reports[at].qty.0 += 1), [], "a lot more in report {at}");
    }
    let silent = Ledger::default();
    let found = reconcile(&silent, &good.tape, &good.engine);
    assert!(found.contains(&Difference::Position(AccountId(1), ONE, 0, 4)), "{found:?}");
    let cross = |event: &mut MarketEvent| {
        if let MarketEvent::CrossTrade { qty, .. } = event {
            qty.0 -= 1;
        }
    };
    let found = with(&|_, events| events.iter_mut().for_each(cross));
    assert!(matches!(found[..], [Difference::Cross(_, 3, 2)]), "{found:?}");
    let print = |event: &MarketEvent| !matches!(event, MarketEvent::OrderExecuted { .. });
    let found = with(&|_, events| events.retain(print));
    assert!(matches!(found[..], [Difference::Trade(_, 1, 0)]), "{found:?}");
}
