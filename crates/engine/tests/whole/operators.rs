//! Kill switches, mass cancels, expiry, broken and corrected trades, dry runs.

use engine::{Applied, Config};
use types::{
    AccountId, CancelReason, Command, CommandKind, ExecutionKind as Kind, GatewayId, Incarnation,
    InstrumentId, MarketEvent, MatchNumber, Nanos, Price, Qty, RejectReason, Side, Source,
    TimeInForce, UserRefNum,
};

use crate::bench::{Bench, ONE, TWO, buy, cancel, config, replace, sell};

fn kill(account: u16, on: bool) -> impl FnOnce(&mut Command) {
    move |c| (c.account, c.param) = (AccountId(account), u8::from(on))
}

#[test]
fn a_kill_switch_cancels_and_blocks_until_it_is_taken_back() {
    let mut bench = Bench::new();
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(Command { instrument: TWO, ..sell(1, 2, 5, 200) });
    bench.taken(buy(2, 1, 5, 100));
    assert_eq!(bench.operate(CommandKind::Kill, kill(1, true)), Applied::Done);
    assert_eq!(bench.cancels(), [(1, 1, CancelReason::Killed), (1, 2, CancelReason::Killed)]);
    assert_eq!(bench.refused(buy(1, 3, 5, 100)), RejectReason::Killed);
    bench.taken(buy(2, 2, 5, 100));
    assert_eq!(bench.operate(CommandKind::Kill, kill(1, false)), Applied::Done);
    bench.taken(buy(1, 4, 5, 100));

    assert_eq!(bench.operate(CommandKind::Kill, kill(0, true)), Applied::Done);
    assert_eq!(bench.cancels().len(), 3);
    assert!(bench.engine.is_killed() && bench.engine.open_orders() == 0);
    for account in [1, 2] {
        assert_eq!(bench.refused(buy(account, 9, 5, 100)), RejectReason::Killed);
    }
    assert_eq!(bench.refused(replace(2, 1, 10, 5, 100)), RejectReason::Killed);
    assert_eq!(bench.operate(CommandKind::Kill, kill(0, false)), Applied::Done);
    bench.taken(buy(1, 11, 5, 100));
    assert_eq!(bench.operate(CommandKind::Kill, kill(99, true)), Applied::Refused);
}

#[test]
fn a_participant_cancels_its_own_and_is_told_how_many() {
    let mut bench = Bench::new();
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(sell(1, 2, 5, 200));
    bench.taken(Command { instrument: TWO, ..buy(1, 3, 5, 100) });
    bench.taken(buy(2, 1, 5, 100));
    let all = |account, user_ref| Command {
        kind: CommandKind::MassCancel,
        instrument: InstrumentId(0),
        ..buy(account, user_ref, 0, 0)
    };
    assert_eq!(bench.send(Command { param: 1, instrument: ONE, ..all(1, 4) }), Applied::Done);
    assert_eq!(bench.reports()[0], (Kind::MassCanceled, 1, 1, 0));
    assert_eq!(bench.cancels(), [(1, 1, CancelReason::MassCancel)]);
    assert_eq!(bench.send(all(1, 5)), Applied::Done);
    assert_eq!(bench.reports()[0], (Kind::MassCanceled, 1, 2, 0));
    assert_eq!(bench.send(all(1, 5)), Applied::DuplicateRequest);
    assert_eq!(bench.engine.open_orders(), 1);
    let nowhere = Command { instrument: InstrumentId(9), ..all(1, 6) };
    assert_eq!(bench.refused(nowhere), RejectReason::UnknownInstrument);
    // The exchange cancels whatever it names, and nobody asked.
    bench.operate(CommandKind::MassCancel, |_| {});
    assert_eq!(bench.reports().len(), 1);
    assert_eq!(bench.engine.open_orders(), 0);
}

#[test]
fn a_lost_session_takes_its_orders_with_it() {
    let mut bench = Bench::new();
    for gateway in [1, 2] {
        let hello = Command::new(CommandKind::GrantIncarnation);
        let source = Source { gateway: GatewayId(gateway), ..Source::default() };
        bench.send_from(source, hello);
    }
    let from = |gateway, seq| Source {
        gateway: GatewayId(gateway),
        incarnation: Incarnation(1),
        seq,
        ..Source::default()
    };
    bench.send_from(from(1, 1), buy(1, 1, 5, 100));
    bench.send_from(from(2, 1), buy(1, 2, 5, 100));
    let lost = Command {
        kind: CommandKind::MassCancel,
        instrument: InstrumentId(0),
        orig_user_ref: UserRefNum(1),
        reserved: 1,
        ..buy(1, 0, 0, 0)
    };
    let nobody = Command { account: AccountId(0), ..lost };
    assert_eq!(bench.send_from(from(1, 2), nobody), Applied::Refused);
    assert_eq!(bench.send_from(from(1, 3), lost), Applied::Done);
    assert_eq!(bench.cancels(), [(1, 1, CancelReason::Disconnect)]);
    assert_eq!(bench.out.executions.len(), 1, "nobody is there to be answered");
    let kill = Command { param: 1, ..Command::new(CommandKind::Kill) };
    assert_eq!(bench.send_from(from(1, 4), kill), Applied::Refused, "not a gateway's to say");
}

#[test]
fn orders_expire_by_command_once_their_date_is_past() {
    let mut bench = Bench::new();
    let until = |command: Command, at| Command {
        time_in_force: TimeInForce::GoodTillDate,
        expire_at: Nanos(at),
        ..command
    };
    bench.taken(until(buy(1, 1, 5, 100), 2_000));
    bench.taken(until(buy(1, 2, 5, 100), 2_001));
    bench.taken(buy(1, 3, 5, 100));
    bench.now = 2_000;
    bench.operate(CommandKind::ExpireOrders, |_| {});
    assert_eq!(bench.cancels(), [(1, 1, CancelReason::Expired)]);
    bench.operate(CommandKind::EndOfDay, |_| {});
    assert_eq!(bench.cancels(), [(1, 3, CancelReason::EndOfDay)]);
    assert_eq!(bench.engine.open_orders(), 1);
}

#[test]
fn a_broken_trade_leaves_no_trace_in_the_sums() {
    let mut bench = Bench::new();
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(sell(2, 1, 3, 100));
    let number = bench.out.executions[1].match_number;
    assert_eq!(number, MatchNumber(1));
    assert_eq!((bench.position(1), bench.position(2)), (3, -3));
    let bust = |c: &mut Command| c.qty = Qty(number.0);
    assert_eq!(bench.operate(CommandKind::BustTrade, bust), Applied::Done);
    let broken = [(Kind::TradeBroken, 1, 3, 0), (Kind::TradeBroken, 2, 3, 0)];
    assert_eq!(bench.reports(), broken);
    assert_eq!(
        bench.events(),
        [MarketEvent::BrokenTrade { instrument: ONE, match_number: number }]
    );
    let first = &bench.out.executions[0];
    assert_eq!((first.price, first.user_ref), (Price(100), UserRefNum(1)));
    assert_eq!(first.public_after, bench.out.market[0].0);
    assert_eq!((bench.position(1), bench.position(2)), (0, 0));
    let counts = bench.engine.instrument_counters(ONE).expect("an instrument");
    assert_eq!((counts.trades, counts.volume), (0, 0));
    assert_eq!(bench.operate(CommandKind::BustTrade, bust), Applied::Refused, "once");
    assert_eq!(bench.operate(CommandKind::BustTrade, |_| {}), Applied::Refused);
    // What is open of the buyer is untouched.
    assert_eq!(
        bench.engine.standing(AccountId(1)).map(|s| (s.open_orders, s.exposure)),
        Some((1, 200))
    );
}

#[test]
fn a_corrected_trade_is_told_again_as_it_should_have_been() {
    let mut bench = Bench::new();
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(sell(2, 1, 3, 100));
    let correct = |c: &mut Command| (c.qty, c.price, c.min_qty) = (Qty(1), Price(90), 2);
    assert_eq!(bench.operate(CommandKind::CorrectTrade, correct), Applied::Done);
    let corrected = [(Kind::TradeCorrected, 1, 2, 0), (Kind::TradeCorrected, 2, 2, 0)];
    assert_eq!(bench.reports(), corrected);
    assert!(matches!(
        bench.events()[..],
        [
            MarketEvent::BrokenTrade { match_number: MatchNumber(1), .. },
            MarketEvent::Trade { qty: Qty(2), price: Price(90), side: Side::Buy, .. },
        ]
    ));
    assert_eq!((bench.position(1), bench.position(2)), (2, -2));
    let bust = |c: &mut Command| c.qty = Qty(1);
    assert_eq!(bench.operate(CommandKind::BustTrade, bust), Applied::Done);
    assert_eq!((bench.position(1), bench.position(2)), (0, 0));
}

/// Corrects a trade of 3 lots at 100, of an instrument whose tick is 20.
fn corrections() -> impl FnMut(i64, u32) -> Applied {
    let mut instruments = config().instruments;
    instruments[0].tick = Price(20);
    let mut bench = Bench::with(Config { rules: Vec::new(), ..Config::new(instruments) });
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(sell(2, 1, 3, 100));
    move |price, lots| {
        let correct = |c: &mut Command| (c.qty, c.price, c.min_qty) = (Qty(1), Price(price), lots);
        bench.operate(CommandKind::CorrectTrade, correct)
    }
}

#[test]
fn a_trade_is_corrected_to_a_price_that_an_order_could_have_and_to_no_more_lots() {
    let (mut correct, price_max) = (corrections(), config().instruments[0].price_max.0);
    for (price, lots) in [(90, 3), (0, 3), (-20, 3), (price_max + 20, 3), (100, 4), (80, 0)] {
        assert_eq!(correct(price, lots), Applied::Refused, "{lots} at {price}");
    }
    for (price, lots) in [(80, 1), (120, 3), (120, 2), (100, 3)] {
        assert_eq!(correct(price, lots), Applied::Done, "{lots} at {price}");
    }
}

#[test]
fn trades_further_back_than_kept_can_not_be_broken() {
    let mut bench = Bench::new();
    for n in 1..=65 {
        bench.taken(buy(1, n, 1, 100));
        bench.taken(sell(2, n, 1, 100));
    }
    let mut bust = |n| bench.operate(CommandKind::BustTrade, |c| c.qty = Qty(n));
    assert_eq!(bust(1), Applied::Refused);
    assert_eq!(bust(2), Applied::Done);
    assert_eq!(bust(65), Applied::Done);
    assert_eq!(bust(66), Applied::Refused);
}

#[test]
fn a_dry_run_says_what_would_happen_and_does_nothing() {
    let mut bench = Bench::new();
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(buy(2, 1, 5, 95));
    let digest = bench.engine.state_digest();
    let mut all = Command::new(CommandKind::Kill);
    all.param = 1;
    let (applied, would) = bench.engine.dry_run(&all);
    assert_eq!((applied, would.executions.len(), would.market.len()), (Applied::Done, 2, 2));
    assert_eq!(bench.engine.state_digest(), digest);
    bench.send(all);
    assert_eq!(bench.out, would);
    let (applied, would) = bench.engine.dry_run(&cancel(1, 1));
    assert_eq!((applied, would.executions.len()), (Applied::Done, 1));
}
