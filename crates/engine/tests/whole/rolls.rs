//! Days that follow one another: what stays, what is told of it, and instruments that change between.

use engine::{Applied, Config, Engine, InstrumentRules, Output, replay_digests};
use types::{
    CancelReason, Command, CommandKind, FeedSeq, InstrumentId, InstrumentParam, MarketEvent, Nanos,
    OrderRef, OrderType, Phase, Price, Qty, RejectReason, Side, SplitMix64, SystemEventCode,
    TimeInForce,
};

use crate::bench::{Bench, ONE, TWO, buy, config, instruments, order, sell};

fn good_till_cancelled(command: Command) -> Command {
    Command { time_in_force: TimeInForce::GoodTillCancelled, ..command }
}

fn set(bench: &mut Bench, of: InstrumentId, param: InstrumentParam, value: i64) -> Applied {
    bench.operate(CommandKind::SetInstrument, |c| {
        (c.instrument, c.param) = (of, param as u8);
        (c.price, c.qty) = (Price(value), Qty(value as u64));
        if param == InstrumentParam::Listed {
            c.price = Price(0);
        }
    })
}

fn added(events: &[MarketEvent]) -> Vec<(u16, u64, Side, u64, i64)> {
    let added = |event: &MarketEvent| match *event {
        MarketEvent::AddOrder { instrument, order_ref, side, qty, price } => {
            Some((instrument.0, order_ref.0, side, qty.0, price.0))
        }
        _ => None,
    };
    events.iter().filter_map(added).collect()
}

/// The second of two instruments is not traded from the start.
fn one_of_two() -> Config {
    let rules = instruments().iter().map(InstrumentRules::of).collect::<Vec<_>>();
    let rules = vec![rules[0], InstrumentRules { held: false, ..rules[1] }];
    Config { rules, ..config() }
}

#[test]
fn a_new_day_tells_of_every_order_that_is_still_open_in_its_place() {
    let mut bench = Bench::new();
    for (user_ref, price) in [(1, 100), (2, 105), (3, 105)] {
        bench.taken(good_till_cancelled(buy(1, user_ref, 5, price)));
    }
    bench.taken(buy(2, 1, 5, 105));
    bench.taken(good_till_cancelled(sell(2, 2, 9, 110)));
    assert_eq!(bench.operate(CommandKind::EndOfDay, |_| {}), Applied::Done);
    let last = MarketEvent::SystemEvent { code: SystemEventCode::EndOfMessages };
    assert_eq!(bench.events().last(), Some(&last));
    assert_eq!(bench.cancels(), [(2, 1, CancelReason::EndOfDay)]);
    let next = bench.engine.feed_next();

    // Between two days nothing is told, and what is done is.
    bench.operate(CommandKind::Kill, |c| (c.account.0, c.param) = (2, 1));
    assert_eq!(bench.cancels(), [(2, 2, CancelReason::Killed)]);
    assert_eq!((bench.events(), bench.engine.feed_next()), (vec![], next));

    bench.operate(CommandKind::StartOfDay, |_| {});
    let events = bench.events();
    let first = MarketEvent::SystemEvent { code: SystemEventCode::StartOfMessages };
    assert_eq!(events[0], first);
    let buy = Side::Buy;
    assert_eq!(added(&events), [(1, 2, buy, 5, 105), (1, 3, buy, 5, 105), (1, 1, buy, 5, 100)]);
    assert_eq!(bench.out.market[0].0, next, "positions go on");

    // Priority went over the roll: the first at the best price trades first.
    bench.taken(sell(3, 1, 7, 100));
    let traded = |event: &MarketEvent| match *event {
        MarketEvent::OrderExecuted { order_ref: OrderRef(order), qty, .. } => Some((order, qty.0)),
        _ => None,
    };
    let traded: Vec<_> = bench.events().iter().filter_map(traded).collect();
    assert_eq!(traded, [(2, 5), (3, 2)]);
    let positions: Vec<FeedSeq> = (0..bench.engine.feed_next().0).map(FeedSeq).collect();
    let replay = replay_digests(config(), &bench.log, &positions).expect("one story");
    assert_eq!(replay.at.len() as u64, bench.engine.feed_next().0);
    assert_eq!(replay.end, [1, 2].map(|id| bench.engine.displayed_digest(InstrumentId(id))));
}

#[test]
fn a_day_that_goes_over_into_the_next_tells_of_its_orders_too() {
    let mut bench = Bench::new();
    bench.taken(good_till_cancelled(buy(1, 1, 5, 100)));
    bench.taken(buy(1, 2, 5, 100));
    bench.operate(CommandKind::EndOfDay, |c| c.param = 1);
    let events = bench.events();
    let code = |code| events.iter().position(|e| *e == MarketEvent::SystemEvent { code });
    let (end, start) =
        (code(SystemEventCode::EndOfMessages), code(SystemEventCode::StartOfMessages));
    assert_eq!(end.map(|end| end + 1), start, "one session after the other");
    assert_eq!(added(&events), [(1, 1, Side::Buy, 5, 100)]);
    bench.taken(sell(2, 1, 5, 100));
    assert_eq!(bench.position(1), 5, "it never closed");
}

#[test]
fn another_tick_waits_for_the_roll_and_takes_what_does_not_fit() {
    let mut bench = Bench::new();
    for (user_ref, price) in [(1, 100), (2, 105), (3, 110)] {
        bench.taken(good_till_cancelled(buy(1, user_ref, 5, price)));
    }
    let stop = Command {
        order_type: OrderType::Stop,
        stop_price: Price(205),
        ..good_till_cancelled(buy(2, 1, 5, 0))
    };
    bench.taken(stop);
    bench.taken(Command { stop_price: Price(210), user_ref: types::UserRefNum(2), ..stop });
    assert_eq!(set(&mut bench, ONE, InstrumentParam::Tick, 0), Applied::Refused);
    assert_eq!(set(&mut bench, ONE, InstrumentParam::Tick, 10_001), Applied::Refused);
    assert_eq!(set(&mut bench, InstrumentId(3), InstrumentParam::Tick, 10), Applied::Refused);
    assert_eq!(set(&mut bench, ONE, InstrumentParam::Tick, 10), Applied::Done);
    bench.taken(good_till_cancelled(buy(1, 4, 5, 95)));
    bench.operate(CommandKind::EndOfDay, |_| {});
    let off = CancelReason::TickSize;
    assert_eq!(bench.cancels(), [(1, 2, off), (1, 4, off), (2, 1, off)]);
    // A snapshot between the days goes on alike.
    let mut bytes = Vec::new();
    bench.engine.write_snapshot(&mut bytes);
    let mut restored = Engine::read_snapshot(config(), &bytes).expect("whole");
    bench.operate(CommandKind::StartOfDay, |_| {});
    assert_eq!(bench.refused(buy(3, 1, 5, 105)), RejectReason::InvalidPrice);
    bench.taken(buy(3, 2, 5, 120));
    let mut out = Output::default();
    for input in &bench.log[bench.log.len() - 3..] {
        out.clear();
        restored.apply(input, &mut out);
    }
    assert_eq!(out, bench.out);
    assert_eq!(restored.state_digest(), bench.engine.state_digest());
    // A finer one between two days is in force at once.
    bench.operate(CommandKind::EndOfDay, |_| {});
    assert_eq!(set(&mut bench, ONE, InstrumentParam::Tick, 1), Applied::Done);
    assert_eq!(bench.cancels(), []);
    bench.operate(CommandKind::StartOfDay, |_| {});
    assert_eq!(added(&bench.events()).len(), 2);
    bench.taken(buy(3, 3, 5, 103));
}

#[test]
fn an_instrument_is_traded_no_longer_and_another_one_from_a_roll_on() {
    let mut bench = Bench::with(one_of_two());
    let directory = |bench: &Bench| -> Vec<u16> {
        let told = |event: &MarketEvent| match event {
            MarketEvent::Directory { instrument } => Some(instrument.0),
            _ => None,
        };
        bench.events().iter().filter_map(told).collect()
    };
    assert_eq!(directory(&bench), [1]);
    let second = |command: Command| Command { instrument: TWO, ..command };
    assert_eq!(bench.refused(second(buy(1, 1, 5, 100))), RejectReason::UnknownInstrument);
    bench.taken(good_till_cancelled(buy(1, 2, 5, 100)));
    bench.taken(good_till_cancelled(sell(2, 1, 2, 100)));
    bench.taken(buy(1, 3, 5, 95));
    assert_eq!(set(&mut bench, ONE, InstrumentParam::Listed, 2), Applied::Refused);
    for (of, listed) in [(ONE, 0), (TWO, 1)] {
        assert_eq!(set(&mut bench, of, InstrumentParam::Listed, listed), Applied::Done);
    }
    bench.taken(buy(1, 4, 5, 90));
    bench.operate(CommandKind::EndOfDay, |_| {});
    let (day, gone) = (CancelReason::EndOfDay, CancelReason::Delisted);
    assert_eq!(bench.cancels(), [(1, 3, day), (1, 4, day), (1, 2, gone)]);
    assert_eq!(bench.engine.books().phase(1), Phase::Closed, "nothing trades between two days");
    bench.operate(CommandKind::StartOfDay, |_| {});
    assert_eq!(directory(&bench), [2]);
    assert_eq!(bench.refused(buy(1, 5, 5, 100)), RejectReason::UnknownInstrument);
    bench.taken(second(buy(1, 6, 5, 100)));
    assert_eq!((bench.position(1), bench.position(2)), (2, -2), "what was bought stays");
    let replay = replay_digests(one_of_two(), &bench.log, &[]).expect("one story");
    assert_eq!(replay.state, bench.engine.state_digest());
    // And back again.
    assert_eq!(set(&mut bench, ONE, InstrumentParam::Listed, 1), Applied::Done);
    bench.operate(CommandKind::EndOfDay, |c| c.param = 1);
    bench.taken(buy(1, 7, 5, 100));
}

/// Days of random orders with changes of instruments at the rolls: restored at every roll, replayed,
/// and told to a reader who has only the present session.
#[test]
fn random_weeks_are_one_story() {
    let seed = 0x2026_1126;
    println!("seed {seed:#x}");
    let mut rng = SplitMix64::new(seed);
    let mut bench = Bench::with(one_of_two());
    let (mut user_ref, mut open) = (0, 0);
    for day in 0..24 {
        for _ in 0..60 {
            user_ref += 1;
            bench.now += 1 + rng.below(1_000);
            let side = [Side::Buy, Side::Sell][rng.below(2) as usize];
            let account = 1 + rng.below(8) as u16;
            let price = 1 + rng.below(40) as i64;
            let mut command = order(account, user_ref, side, 1 + rng.below(9), 500 + 5 * price);
            command.instrument = [ONE, TWO][rng.below(2) as usize];
            match rng.below(8) {
                0 => command.time_in_force = TimeInForce::Day,
                1 => {
                    command.time_in_force = TimeInForce::GoodTillDate;
                    command.expire_at = Nanos(bench.now + 1 + rng.below(90_000));
                }
                2 => {
                    command = good_till_cancelled(command);
                    (command.order_type, command.price) = (OrderType::PegMid, Price(0));
                }
                3 => {
                    command = good_till_cancelled(command);
                    (command.order_type, command.price) = (OrderType::Stop, Price(0));
                    command.stop_price = Price(500 + 5 * price);
                }
                _ => command = good_till_cancelled(command),
            }
            bench.send(command);
        }
        let planned = rng.below(2) == 0;
        let changes = |bench: &mut Bench, rng: &mut SplitMix64| {
            let of = [ONE, TWO][rng.below(2) as usize];
            let tick = [5, 10, 25, 1][rng.below(4) as usize];
            set(bench, of, InstrumentParam::Tick, tick);
            let of = [ONE, TWO][rng.below(2) as usize];
            set(bench, of, InstrumentParam::Listed, i64::from(rng.below(3) > 0));
        };
        if planned {
            changes(&mut bench, &mut rng);
        }
        let over = rng.below(3) == 0;
        bench.operate(CommandKind::EndOfDay, |c| c.param = u8::from(over));
        if !planned && !over {
            changes(&mut bench, &mut rng);
        }
        let mut bytes = Vec::new();
        bench.engine.write_snapshot(&mut bytes);
        let restored = Engine::read_snapshot(one_of_two(), &bytes).expect("whole");
        assert_eq!(restored.state_digest(), bench.engine.state_digest(), "day {day}");
        bench.engine = restored;
        if !over {
            bench.now += 50_000;
            bench.operate(CommandKind::ExpireOrders, |_| {});
            bench.operate(CommandKind::StartOfDay, |_| {});
        }
        open += added(&bench.events()).len();
    }
    assert!(open > 100, "{open} orders went over the rolls");
    let positions: Vec<FeedSeq> = (0..bench.engine.feed_next().0).map(FeedSeq).collect();
    let replay = replay_digests(one_of_two(), &bench.log, &positions).expect("one story");
    assert_eq!(replay.state, bench.engine.state_digest());
}

/// The last price and an older reference may be off the tick: of pegs to the middle the one, of a tick
/// that is new the other.
#[test]
fn the_reference_of_a_new_day_is_a_price_of_its_tick() {
    let mut bench = Bench::new();
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(sell(2, 1, 5, 115));
    bench.taken(Command { order_type: OrderType::PegMid, price: Price(0), ..buy(1, 2, 5, 0) });
    bench.taken(sell(3, 1, 3, 105));
    assert_eq!(bench.engine.last_price(ONE), Price(107), "in the middle");
    assert_eq!(bench.operate(CommandKind::EndOfDay, |_| {}), Applied::Done);
    let prices = |bench: &Bench| {
        let engine = &bench.engine;
        (engine.closing_price(ONE).0, engine.reference_price(ONE).0)
    };
    assert_eq!(prices(&bench), (107, 105));
    // Between two days at once, and at the end of one.
    assert_eq!(set(&mut bench, ONE, InstrumentParam::Tick, 10), Applied::Done);
    assert_eq!(prices(&bench), (107, 100));
    bench.operate(CommandKind::StartOfDay, |_| {});
    assert_eq!(set(&mut bench, ONE, InstrumentParam::Tick, 30), Applied::Done);
    assert_eq!(prices(&bench), (107, 100));
    assert_eq!(bench.operate(CommandKind::EndOfDay, |c| c.param = 1), Applied::Done);
    assert_eq!(prices(&bench).1, 90);
    // A restored engine is the same, collars included.
    let again = bench.engine.clone();
    assert_eq!(again.state_digest(), bench.engine.state_digest());
    // None is left where the tick is larger than it.
    assert_eq!(set(&mut bench, ONE, InstrumentParam::Tick, 1_000), Applied::Done);
    assert_eq!(bench.operate(CommandKind::EndOfDay, |_| {}), Applied::Done);
    assert_eq!(prices(&bench).1, 0);
}
