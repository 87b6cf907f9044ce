//! Statements day by day, and what is found when a fill is left out of them.

use engine::daily::{Daily, DayDifference, DayStatement};
use engine::{Applied, Engine, Output};
use types::{AccountId, Command, CommandKind, ExecutionKind, Input, Qty, TimeInForce};

use crate::bench::{Bench, ONE, TWO, buy, config, sell};

/// Three days with trades on each, one of them broken in the night behind its day, and a fourth one that
/// goes on.
fn log() -> Vec<Input> {
    let mut bench = Bench::new();
    let stays =
        |command: Command| Command { time_in_force: TimeInForce::GoodTillCancelled, ..command };
    let roll = |bench: &mut Bench| {
        assert_eq!(bench.operate(CommandKind::EndOfDay, |_| {}), Applied::Done);
    };
    bench.taken(stays(buy(1, 1, 9, 100)));
    bench.taken(sell(2, 1, 3, 100));
    let broken = bench.out.executions[1].match_number.0;
    bench.taken(sell(3, 1, 2, 100));
    roll(&mut bench);
    assert_eq!(bench.operate(CommandKind::BustTrade, |c| c.qty = Qty(broken)), Applied::Done);
    bench.operate(CommandKind::StartOfDay, |_| {});
    bench.taken(sell(2, 5, 4, 100));
    bench.taken(Command { instrument: TWO, ..buy(2, 6, 7, 50) });
    bench.taken(Command { instrument: TWO, ..sell(1, 7, 7, 50) });
    roll(&mut bench);
    bench.operate(CommandKind::StartOfDay, |_| {});
    roll(&mut bench);
    bench.operate(CommandKind::StartOfDay, |_| {});
    bench.taken(buy(3, 9, 1, 100));
    bench.taken(sell(1, 9, 1, 100));
    bench.log.clone()
}

/// The days of a log, with every report passed through `change`, which may leave it out.
fn days(log: &[Input], mut change: impl FnMut(&mut Output)) -> Vec<DayStatement> {
    let (mut engine, mut out, mut daily) = (Engine::new(config()), Output::default(), Daily::new());
    for input in log {
        out.clear();
        let applied = engine.apply(input, &mut out);
        change(&mut out);
        daily.take(input, applied, &out, &engine);
    }
    daily.finish(&engine).0
}

#[test]
fn each_day_opens_with_what_the_one_before_closed_with() {
    let days = days(&log(), |_| ());
    let all: Vec<_> = days.iter().flat_map(|day| day.differences.clone()).collect();
    assert_eq!((days.len(), all), (4, vec![]));
    let ended: Vec<bool> = days.iter().map(|day| day.ended.is_some()).collect();
    assert_eq!(ended, [true, true, true, false]);
    assert_eq!(days.iter().map(|day| day.trades).collect::<Vec<_>>(), [2, 2, 0, 1]);
    let of = |day: usize, account: u16, instrument| {
        days[day].lines.get(&(AccountId(account), instrument)).copied().unwrap_or_default()
    };
    let first = of(0, 1, ONE);
    assert_eq!((first.opening, first.bought, first.closing, first.orders), (0, 5, 5, 1));
    assert_eq!((first.closing_cash(), first.open_orders, first.open_lots), (-500, 1, 4));
    // Broken in the night: a matter of the second day.
    let second = of(1, 1, ONE);
    assert_eq!((second.opening, second.bought, second.amended, second.closing), (5, 4, -3, 6));
    assert_eq!(
        (second.opening_cash, second.amended_cash, second.closing_cash()),
        (-500, 300, -600)
    );
    assert_eq!((of(1, 2, TWO).closing, of(1, 2, TWO).closing_cash()), (7, -350));
    // Nothing was dealt on the third day, and what is held goes on.
    assert_eq!((of(2, 1, ONE).opening, of(2, 1, ONE).closing), (6, 6));
    assert_eq!((of(3, 1, ONE).opening, of(3, 1, ONE).closing), (6, 5));
    assert_eq!((of(3, 3, ONE).opening, of(3, 3, ONE).closing), (-2, -1));
}

#[test]
fn control_a_fill_that_is_left_out_is_found_on_its_day() {
    let log = log();
    let all = days(&log, |_| ());
    let fills: u64 = 2 * all.iter().map(|day| day.trades).sum::<u64>();
    for left_out in 0..fills {
        let mut seen = 0;
        let days = days(&log, |out| {
            out.executions.retain(|report| {
                let fill = report.kind == ExecutionKind::Executed;
                seen += u64::from(fill);
                !fill || seen != left_out + 1
            });
        });
        let closing = |day: &DayStatement| {
            day.differences.iter().any(|of| matches!(of, DayDifference::Closing(..)))
        };
        let on: Vec<u32> = days.iter().filter(|day| closing(day)).map(|day| day.day).collect();
        let due = [1, 1, 1, 1, 2, 2, 2, 2, 4, 4][left_out as usize];
        assert_eq!(on.first(), Some(&due), "fill {left_out}: {days:?}");
        let cash = |of: &DayDifference| matches!(of, DayDifference::Cash(..));
        assert!(days[due as usize - 1].differences.iter().any(cash), "fill {left_out}");
    }
    assert_eq!(fills, 10);
}
