//! Recorded markets played with strategies in them.

use std::collections::BTreeMap;

use backtest::{Config, Delay, Fees, ItchReader, Outcome, Printed, Record, Recording, What, run};
use feed::{BookImage, Level};
use proptest::prelude::*;
use strategy::{
    Cage, Desk, Idle, Limits, Maker, MakerConfig, Module, Programmed, Strategy, Taker, TakerConfig,
};
use types::{InstrumentId, Liquidity, Nanos, Price, Qty, Side, SplitMix64, Symbol, TimeInForce};
use wire::itch;

const ONE: InstrumentId = InstrumentId(1);

fn tape(events: &[(u64, What)]) -> Recording {
    let mut recording = Recording::new(4);
    recording.instrument(Symbol::new("A").unwrap()).unwrap();
    for &(time, what) in events {
        let record = Record { time: Nanos(time), instrument: ONE, what };
        recording.push(record, 1_000_000).unwrap();
    }
    recording
}

fn add(order: u64, side: Side, qty: u32, price: u32) -> What {
    What::Add { order, side, qty, price }
}

fn execute(order: u64, qty: u32) -> What {
    What::Execute { order, qty, printed: Printed::AtLimit }
}

/// One instant, and no delay.
fn prompt() -> Config {
    let none = Delay::default();
    Config { feed: none, orders: none, ..Config::default() }
}

type Levels = Vec<(Side, i64, u64, u32)>;

fn all(depth: impl Iterator<Item = (Side, Level)>) -> Levels {
    depth.map(|(side, l)| (side, l.price.0, l.qty.0, l.orders)).collect()
}

fn levels(image: &BookImage) -> Levels {
    let side = |side| image.depth(ONE, side).map(move |level| (side, level));
    all(side(Side::Buy).chain(side(Side::Sell)))
}

fn seen(desk: &Desk<'_>) -> Levels {
    let side = |side| desk.depth(ONE, side).map(move |level| (side, level));
    all(side(Side::Buy).chain(side(Side::Sell)))
}

/// Notes the book as it is after each time.
#[derive(Default)]
struct Watcher(BTreeMap<Nanos, Levels>);

impl Strategy for Watcher {
    fn name(&self) -> &str {
        "watcher"
    }

    fn on_book(&mut self, _: InstrumentId, desk: &mut Desk<'_>) {
        self.0.insert(desk.now(), seen(desk));
    }
}

/// Sends one order when the best bid is `at`.
struct Once {
    at: i64,
    order: (Side, u32, i64, TimeInForce),
    sent: bool,
}

impl Strategy for Once {
    fn name(&self) -> &str {
        "once"
    }

    fn on_book(&mut self, instrument: InstrumentId, desk: &mut Desk<'_>) {
        let bid = desk.best(instrument, Side::Buy).map(|level| level.price.0);
        if bid == Some(self.at) && !self.sent {
            self.sent = true;
            let (side, qty, price, life) = self.order;
            desk.send(instrument, side, (qty, Price(price)), life, false);
        }
    }
}

/// ITCH bytes of an exchange with random orders, and the book after each time.
fn exchange(seed: u64, steps: u64) -> (Vec<Vec<u8>>, BTreeMap<Nanos, Levels>) {
    let mut random = SplitMix64::new(seed);
    let (mut messages, mut books) = (Vec::new(), BTreeMap::new());
    let mut image = BookImage::new(100_000);
    let mut live: Vec<(u64, Side, u32, u32)> = Vec::new();
    let mut next = 0;
    let mut say = |time: u64, event: types::MarketEvent, image: &mut BookImage| {
        let symbol = Symbol::new("A").unwrap();
        let instrument = tape(&[]).instruments()[0];
        let encoder = itch::Encoder::new(&[types::Instrument { symbol, ..instrument }], Nanos(0));
        let mut bytes = Vec::new();
        encoder.encode(&event, Nanos(time), &mut bytes).unwrap();
        image.apply(&bytes).unwrap();
        books.insert(Nanos(time), levels(image));
        messages.push(bytes);
    };
    say(1, types::MarketEvent::Directory { instrument: ONE }, &mut image);
    for step in 0..steps {
        let time = 1_000 + 1_000 * step;
        let instrument = ONE;
        let price = |side: Side, random: &mut SplitMix64| match side {
            Side::Buy => 1_000 - random.below(20) as u32,
            Side::Sell => 1_001 + random.below(20) as u32,
        };
        match (random.below(8), live.is_empty()) {
            (0..=3, _) | (_, true) => {
                let side = if random.permille(500) { Side::Buy } else { Side::Sell };
                let (qty, price) = (1 + random.below(50) as u32, price(side, &mut random));
                next += 1;
                live.push((next, side, qty, price));
                let (order_ref, qty) = (types::OrderRef(next), Qty(u64::from(qty)));
                let price = Price(i64::from(price));
                let event =
                    types::MarketEvent::AddOrder { instrument, order_ref, side, qty, price };
                say(time, event, &mut image);
            }
            // The first of the best price trades.
            (4 | 5, _) => {
                let (_, side, ..) = live[random.below(live.len() as u64) as usize];
                let first = image.orders(ONE, side).next().unwrap();
                let lots = 1 + random.below(first.2.0);
                let slot = live.iter().position(|order| order.0 == first.0.0).unwrap();
                live[slot].2 -= lots as u32;
                if live[slot].2 == 0 {
                    live.remove(slot);
                }
                let (order_ref, qty) = (first.0, Qty(lots));
                let match_number = types::MatchNumber(step);
                let event =
                    types::MarketEvent::OrderExecuted { instrument, order_ref, qty, match_number };
                say(time, event, &mut image);
            }
            (kind, _) => {
                let slot = random.below(live.len() as u64) as usize;
                let (old, side, qty, _) = live[slot];
                let old_ref = types::OrderRef(old);
                if kind == 6 && qty > 1 {
                    live[slot].2 -= 1;
                    let (order_ref, qty) = (old_ref, Qty(1));
                    let event = types::MarketEvent::OrderCancel { instrument, order_ref, qty };
                    say(time, event, &mut image);
                } else if random.permille(500) {
                    live.remove(slot);
                    let order_ref = old_ref;
                    let event = types::MarketEvent::OrderDelete { instrument, order_ref };
                    say(time, event, &mut image);
                } else {
                    next += 1;
                    let (qty, price) = (1 + random.below(50) as u32, price(side, &mut random));
                    live[slot] = (next, side, qty, price);
                    let (new_ref, qty) = (types::OrderRef(next), Qty(u64::from(qty)));
                    let price = Price(i64::from(price));
                    let event = types::MarketEvent::OrderReplace {
                        instrument,
                        old_ref,
                        new_ref,
                        qty,
                        price,
                    };
                    say(time, event, &mut image);
                }
            }
        }
    }
    (messages, books)
}

fn recording(messages: &[Vec<u8>]) -> Recording {
    let mut reader = ItchReader::new(Vec::new(), 1_000_000);
    messages.iter().for_each(|message| reader.take(message).unwrap());
    reader.finish()
}

#[test]
fn without_a_strategy_the_books_are_the_recorded_ones_at_every_time() {
    for seed in 0..5 {
        let (messages, books) = exchange(seed, 4_000);
        let recording = recording(&messages);
        let mut watcher = Watcher::default();
        let outcome = run(&recording, prompt(), &mut watcher).unwrap();
        let counters = outcome.market;
        assert_eq!((counters.unknown, counters.refused, counters.out_of_turn), (0, 0, 0), "{seed}");
        assert_eq!((counters.crossed, counters.to_strategy, outcome.missing.1), (0, 0, 0));
        assert!(counters.traded > 1_000, "{seed}: {counters:?}");
        for (time, book) in &watcher.0 {
            // The engine's own opening comes with the first order.
            if time.0 > 1_000 {
                assert_eq!(Some(book), books.get(time), "seed {seed} {time:?}");
            }
        }
        assert!(watcher.0.len() > 3_000);
    }
}

/// The example of `sdk/strategy` as a module, and the built-in strategy that does the same.
#[test]
fn a_module_asks_for_what_the_same_strategy_in_rust_asks_for() {
    const MAKER: &[u8] = include_bytes!("../../../crates/strategy/tests/guests/maker.wasm");
    let limits = Limits::default();
    let module = Module::new("maker", MAKER, &limits).unwrap();
    for seed in 0..3 {
        let recording = recording(&exchange(seed, 2_000).0);
        let delay = Delay { ns: 1_500, jitter_ns: 700 };
        let config = Config { feed: delay, orders: delay, seed, ..Config::default() };
        let play = |offset: i64| {
            let settings = format!("lots=3 offset={offset} most=9");
            let cage = Cage::new(&module, &settings, &limits).unwrap();
            let market = (recording.instruments(), 4);
            let mut caged = Programmed::start(cage, market, (limits.actions, limits.unanswered));
            let outcome = run(&recording, config, &mut caged).unwrap();
            assert_eq!(caged.failure(), None);
            outcome
        };
        let caged = play(0);
        let mut maker = Maker(MakerConfig { qty: 3, offset: 0, lots_max: 9 });
        let built_in = run(&recording, config, &mut maker).unwrap();
        let figures = |of: &Outcome| (of.digest, of.orders, of.cancels, of.fills.len());
        assert_eq!(figures(&caged), figures(&built_in), "seed {seed}");
        assert!(caged.orders > 100 && caged.fills.len() > 20, "seed {seed}: {:?}", figures(&caged));
        // Control: other settings, another outcome.
        assert_ne!(play(1).digest, built_in.digest, "seed {seed}");
    }
}

#[test]
fn who_stands_before_the_recorded_order_trades_first_and_it_shrinks_as_recorded() {
    let order = (Side::Buy, 5, 100, TimeInForce::Day);
    let tape = tape(&[
        (10, add(1, Side::Sell, 10, 110)),
        (11, add(2, Side::Buy, 10, 100)),
        // Behind order 2: its trade passes the strategy by.
        (20, execute(2, 4)),
        (21, add(3, Side::Buy, 10, 100)),
        (22, What::Delete { order: 2 }),
        // Before order 3.
        (30, execute(3, 4)),
        (40, execute(3, 4)),
        (50, What::Delete { order: 3 }),
    ]);
    let outcome = run(&tape, prompt(), &mut Once { at: 100, order, sent: false }).unwrap();
    let fills: Vec<_> =
        outcome.fills.iter().map(|fill| (fill.time.0, fill.price.0, fill.qty.0)).collect();
    assert_eq!(fills, [(30, 100, 4), (40, 100, 1)]);
    assert!(outcome.fills.iter().all(|fill| fill.liquidity == Liquidity::Added));
    assert_eq!((outcome.market.to_strategy, outcome.market.traded), (5, 4 + 3));
    assert_eq!((outcome.missing, outcome.market.out_of_turn), ((1, 0), 0));
    assert_eq!(outcome.account.holding(ONE).lots, 5);
}

#[test]
fn lots_that_the_strategy_took_are_not_there_for_the_recorded_trade() {
    let order = (Side::Buy, 6, 110, TimeInForce::ImmediateOrCancel);
    let tape = tape(&[
        (10, add(1, Side::Sell, 10, 110)),
        (11, add(2, Side::Buy, 10, 100)),
        (20, execute(1, 8)),
        (30, execute(1, 2)),
        (40, add(3, Side::Sell, 1, 120)),
    ]);
    let outcome = run(&tape, prompt(), &mut Once { at: 100, order, sent: false }).unwrap();
    assert_eq!(outcome.fills.len(), 1);
    assert_eq!((outcome.fills[0].qty, outcome.fills[0].liquidity), (Qty(6), Liquidity::Removed));
    // Four were left of ten, for a trade of eight and one of two.
    assert_eq!(outcome.market.traded, 4);
    assert_eq!(outcome.missing.0, 2);
    // Six lots bought at 110, the middle of 100 and 120 is 110.
    assert_eq!(outcome.equity, 0);
}

#[test]
fn a_hidden_trade_serves_better_priced_orders_of_the_strategy() {
    let order = (Side::Buy, 5, 105, TimeInForce::Day);
    let events = |price, side| {
        tape(&[
            (10, add(1, Side::Sell, 10, 110)),
            (11, add(2, Side::Buy, 10, 100)),
            (20, What::Trade { side, qty: 3, price }),
        ])
    };
    // Where the side is not known, a better price served either side.
    for side in [Some(Side::Buy), None] {
        let run = |price| {
            let mut once = Once { at: 100, order, sent: false };
            run(&events(price, side), prompt(), &mut once).unwrap()
        };
        let lots: Vec<u64> = run(104).fills.iter().map(|fill| fill.qty.0).collect();
        assert_eq!(lots, [3], "{side:?}");
        assert!(run(105).fills.is_empty());
    }
}

#[test]
fn a_holding_counts_at_the_last_middle_while_one_side_of_the_book_is_empty() {
    // Buys all that is offered: nobody offers for an hour then.
    let order = (Side::Buy, 5, 101, TimeInForce::ImmediateOrCancel);
    let hour = 3_600 * Nanos::SECOND;
    let events = [
        (0, add(9, Side::Buy, 1, 50)),
        (hour, add(2, Side::Sell, 5, 101)),
        (hour + 20, add(1, Side::Buy, 10, 99)),
        (hour + 1_000, What::Delete { order: 1 }),
        (hour + hour / 2, add(4, Side::Buy, 1, 98)),
        (2 * hour, add(3, Side::Sell, 5, 101)),
    ];
    let mut once = Once { at: 99, order, sent: false };
    let outcome = run(&tape(&events), prompt(), &mut once).unwrap();
    assert_eq!(outcome.fills.len(), 1);
    // Five lots at 101, worth 100 and at the end 99.5 each.
    assert_eq!((outcome.drawdown, outcome.equity), (8, -8));
    assert!(outcome.unpriced.is_empty());
    // Nobody ever offers: what it paid is the only price there is.
    let side = Some(Side::Buy);
    let events = [
        (0, add(2, Side::Buy, 10, 100)),
        (hour, What::Trade { side, qty: 3, price: 104 }),
        (2 * hour, add(3, Side::Buy, 10, 90)),
    ];
    let order = (Side::Buy, 5, 105, TimeInForce::Day);
    let mut once = Once { at: 100, order, sent: false };
    let outcome = run(&tape(&events), prompt(), &mut once).unwrap();
    assert_eq!((outcome.fills.len(), outcome.drawdown, outcome.equity), (1, 0, 0));
    assert_eq!(outcome.unpriced, [ONE]);
}

/// Messages `P` of Nasdaq say `B` of every order; those of a venue that tells sides have both.
#[test]
fn hidden_trades_of_one_side_alone_say_no_side() {
    let encoder = itch::Encoder::new(tape(&[]).instruments(), Nanos(0));
    let read = |sides: &[Side], believed: bool| {
        let mut reader = ItchReader::new(Vec::new(), 1_000);
        if believed {
            reader = reader.with_hidden_sides();
        }
        for (number, &side) in sides.iter().enumerate() {
            let (qty, price) = (Qty(5), Price(100));
            let match_number = types::MatchNumber(number as u64);
            let event =
                types::MarketEvent::Trade { instrument: ONE, side, qty, price, match_number };
            let mut bytes = Vec::new();
            encoder.encode(&event, Nanos(number as u64), &mut bytes).unwrap();
            reader.take(&bytes).unwrap();
        }
        let side = |record: &Record| match record.what {
            What::Trade { side, .. } => side,
            _ => panic!("{record:?}"),
        };
        reader.finish().records().iter().map(side).collect::<Vec<_>>()
    };
    let (buy, sell) = (Side::Buy, Side::Sell);
    assert_eq!(read(&[buy, buy], false), [None, None]);
    assert_eq!(read(&[buy, sell], false), [Some(buy), Some(sell)]);
    assert_eq!(read(&[buy, buy], true), [Some(buy), Some(buy)]);
}

/// A day that ended is over, by how little the next one begins earlier.
#[test]
fn a_session_that_begins_after_an_end_is_another_day() {
    let encoder = itch::Encoder::new(tape(&[]).instruments(), Nanos(0));
    let hour = 3_600 * Nanos::SECOND;
    for (end, day) in [(Some('C'), 1), (Some('E'), 1), (None, 0)] {
        let mut reader = ItchReader::new(Vec::new(), 1_000);
        let mut say = |time: u64, event| {
            let mut bytes = Vec::new();
            encoder.encode(&event, Nanos(time), &mut bytes).unwrap();
            reader.take(&bytes).unwrap();
        };
        let begin = types::SystemEventCode::StartOfMessages;
        for at in [9 * hour, 9 * hour + 1] {
            let begun = if at == 9 * hour { at } else { at + 5 * Nanos::SECOND };
            say(begun, types::MarketEvent::SystemEvent { code: begin });
            say(begun, types::MarketEvent::Directory { instrument: ONE });
            let (side, qty, price) = (Side::Buy, Qty(3), Price(50));
            let (instrument, order_ref) = (ONE, types::OrderRef(1));
            let event = types::MarketEvent::AddOrder { instrument, order_ref, side, qty, price };
            say(begun + 60 * Nanos::SECOND, event);
            if let Some(end) = end {
                let code = match end {
                    'C' => types::SystemEventCode::EndOfMessages,
                    _ => types::SystemEventCode::EndOfSystemHours,
                };
                say(begun + 60 * Nanos::SECOND, types::MarketEvent::SystemEvent { code });
            }
        }
        assert_eq!(reader.ended(), Some(end == Some('C')));
        let recording = reader.finish();
        let last = recording.records().last().unwrap().time.0;
        assert_eq!(last / hour, 24 * day + 9, "{end:?}");
        assert_eq!(recording.out_of_time, u64::from(day == 0), "{end:?}");
    }
}

#[test]
fn news_and_orders_are_late_by_their_delays() {
    let order = (Side::Buy, 5, 110, TimeInForce::ImmediateOrCancel);
    let events = |gone| {
        tape(&[
            (10, add(1, Side::Sell, 10, 110)),
            (11, add(2, Side::Buy, 10, 100)),
            (gone, What::Delete { order: 1 }),
        ])
    };
    let delay = |ns| Delay { ns, jitter_ns: 0 };
    let config = Config { feed: delay(30), orders: delay(50), ..Config::default() };
    let late = run(&events(91), config, &mut Once { at: 100, order, sent: false }).unwrap();
    // Recorded events go first at their own time.
    assert!(late.fills.is_empty());
    let early = run(&events(92), config, &mut Once { at: 100, order, sent: false }).unwrap();
    assert_eq!(early.fills.iter().map(|fill| fill.time.0).collect::<Vec<_>>(), [91]);
}

fn played(seed: u64, jitter_ns: u64) -> (Outcome, Outcome) {
    let (messages, _) = exchange(3, 20_000);
    let recording = recording(&messages);
    let delay = Delay { ns: 1_000, jitter_ns };
    let fees = Fees { maker: -20, taker: 30 };
    let config = Config { feed: delay, orders: delay, seed, fees, ..Config::default() };
    let mut maker = Maker(MakerConfig { qty: 5, offset: 0, lots_max: 50 });
    let mut taker = Taker(TakerConfig { qty: 5, lots_max: 50, threshold_permille: 800 });
    (run(&recording, config, &mut maker).unwrap(), run(&recording, config, &mut taker).unwrap())
}

#[test]
fn the_same_seed_gives_the_same_and_holdings_keep_within_their_limits() {
    let (maker, taker) = played(1, 700);
    assert_eq!((&maker, &taker), (&played(1, 700).0, &played(1, 700).1));
    assert_ne!(maker.digest, played(2, 700).0.digest);
    assert!(maker.fills.len() > 100 && taker.fills.len() > 100);
    assert!(maker.fills.iter().all(|fill| fill.liquidity == Liquidity::Added));
    assert!(taker.fills.iter().all(|fill| fill.liquidity == Liquidity::Removed));
    // Two quotes of a side may be on their way.
    assert!(maker.lots_max <= 50 + 10 && taker.lots_max <= 50 + 5, "{}", maker.lots_max);
    for outcome in [&maker, &taker] {
        let lots: i64 = outcome.fills.iter().map(|fill| fill.lots()).sum();
        assert_eq!(lots, outcome.account.holding(ONE).lots);
        assert!(outcome.market.traded > 0);
        assert!(outcome.points.len() > 500 && outcome.points.len() <= 1_003);
    }
    // Whoever rests is paid for it.
    assert!(maker.account.paid() < 0 && taker.account.paid() > 0);
}

/// Three days of one venue, which end with one and the same order open; the strategy buys on each.
#[test]
fn a_new_day_begins_with_empty_books_and_the_open_orders_and_times_go_on() {
    let instrument = tape(&[]).instruments()[0];
    let encoder = itch::Encoder::new(&[instrument], Nanos(0));
    let mut reader = ItchReader::new(Vec::new(), 1_000);
    let mut say = |time: u64, event| {
        let mut bytes = Vec::new();
        encoder.encode(&event, Nanos(time), &mut bytes).unwrap();
        reader.take(&bytes).unwrap();
    };
    let order = |order_ref, side, qty, price| types::MarketEvent::AddOrder {
        instrument: ONE,
        order_ref: types::OrderRef(order_ref),
        side,
        qty: Qty(qty),
        price: Price(price),
    };
    let hour = 3_600 * Nanos::SECOND;
    for day in 0..3 {
        let code = types::SystemEventCode::StartOfMessages;
        // The second day is a short one.
        let open = if day == 1 { 10 * hour } else { 9 * hour };
        say(open, types::MarketEvent::SystemEvent { code });
        say(open, types::MarketEvent::Directory { instrument: ONE });
        // Open since the first day, also by another reference.
        say(open + 1, order(if day == 2 { 70 } else { 7 }, Side::Buy, 10, 100));
        say(open + 2, order(100 + day, Side::Sell, 5, 110 + day as i64));
        // The strategy's rests behind.
        let goes = types::OrderRef(100 + day);
        say(17 * hour, types::MarketEvent::OrderDelete { instrument: ONE, order_ref: goes });
        let code = types::SystemEventCode::EndOfMessages;
        say(17 * hour, types::MarketEvent::SystemEvent { code });
    }
    let recording = reader.finish();
    assert_eq!((recording.out_of_time, recording.instruments().len()), (0, 1));
    let days: Vec<u64> = recording
        .records()
        .iter()
        .filter(|record| record.what == What::NewDay)
        .map(|record| record.time.0 / hour)
        .collect();
    assert_eq!(days, [24 + 10, 48 + 9]);
    let mut watcher = Watcher::default();
    let outcome = run(&recording, prompt(), &mut watcher).unwrap();
    assert_eq!((outcome.missing.0, outcome.market.unknown, outcome.market.refused), (1, 0, 0));
    let last = watcher.0.last_key_value().unwrap().1;
    assert_eq!(*last, [(Side::Buy, 100, 10, 1)], "not once for each day");
    assert_eq!(outcome.equality.outside.events, outcome.equality.outside.levels);
    // A strategy's order of the first day is not there on the second.
    let order = (Side::Buy, 5, 99, TimeInForce::Day);
    let mut left = Left { once: Once { at: 100, order, sent: false }, orders: BTreeMap::new() };
    run(&recording, prompt(), &mut left).unwrap();
    let at = |time| left.orders.range(..=Nanos(time)).next_back().map(|(_, count)| *count);
    assert_eq!((at(17 * hour), at(34 * hour + 1)), (Some(1), Some(0)));
}

/// Notes how many orders it has.
struct Left {
    once: Once,
    orders: BTreeMap<Nanos, usize>,
}

impl Strategy for Left {
    fn name(&self) -> &str {
        "left"
    }

    fn on_book(&mut self, instrument: InstrumentId, desk: &mut Desk<'_>) {
        self.once.on_book(instrument, desk);
        self.orders.insert(desk.now(), desk.orders(instrument).filter(|o| o.open > 0).count());
    }
}

/// The days of two venues in one capture: each begins its own.
#[test]
fn a_day_of_one_feed_leaves_the_books_of_another_alone() {
    let symbols = ["A", "B"].map(|name| Symbol::new(name).unwrap());
    let one = tape(&[]).instruments()[0];
    let instruments = [1, 2].map(|id| types::Instrument {
        id: InstrumentId(id),
        symbol: symbols[id as usize - 1],
        ..one
    });
    let encoder = itch::Encoder::new(&instruments, Nanos(0));
    let mut reader = ItchReader::new(Vec::new(), 1_000);
    let mut say = |time: u64, event| {
        let mut bytes = Vec::new();
        encoder.encode(&event, Nanos(time), &mut bytes).unwrap();
        reader.take(&bytes).unwrap();
    };
    // The second one's clock is a little behind.
    for (id, time) in [(1, 2_000), (2, 1_000)] {
        let code = types::SystemEventCode::StartOfMessages;
        let (instrument, side, qty, price) = (InstrumentId(id), Side::Buy, Qty(3), Price(50));
        let order_ref = types::OrderRef(u64::from(id));
        say(time, types::MarketEvent::SystemEvent { code });
        say(time, types::MarketEvent::Directory { instrument });
        say(time, types::MarketEvent::AddOrder { instrument, order_ref, side, qty, price });
    }
    let recording = reader.finish();
    let adds = |record: &Record| matches!(record.what, What::Add { .. });
    assert_eq!(recording.records().len(), 2);
    assert!(recording.records().iter().all(adds));
    assert!(recording.records()[1].time < Nanos(Nanos::SECOND));
}

fn any_what() -> impl Strategy_<Value = What> {
    let order = 0..12_u64;
    let side = prop_oneof![Just(Side::Buy), Just(Side::Sell)];
    let qty = prop_oneof![Just(0), 1..20_u32, Just(u32::MAX)];
    let price = prop_oneof![Just(0), 95..105_u32, Just(u32::MAX)];
    prop_oneof![
        4 => (order.clone(), side.clone(), qty.clone(), price.clone())
            .prop_map(|(order, side, qty, price)| What::Add { order, side, qty, price }),
        3 => (order.clone(), qty.clone()).prop_map(|(order, qty)| execute(order, qty)),
        1 => (prop::option::of(side), qty.clone(), price.clone())
            .prop_map(|(side, qty, price)| What::Trade { side, qty, price }),
        1 => (order.clone(), qty.clone()).prop_map(|(order, qty)| What::Reduce { order, qty }),
        1 => order.clone().prop_map(|order| What::Delete { order }),
        1 => (order.clone(), order, qty, price)
            .prop_map(|(old, new, qty, price)| What::Replace { old, new, qty, price }),
        1 => any::<bool>().prop_map(What::Trading),
        1 => Just(What::Clear),
        1 => Just(What::NewDay),
    ]
}

use proptest::strategy::Strategy as Strategy_;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_was_recorded_can_be_played(whats in prop::collection::vec(any_what(), 1..120)) {
        let events: Vec<(u64, What)> =
            whats.into_iter().enumerate().map(|(n, what)| (10 + n as u64, what)).collect();
        let tape = tape(&events);
        let idle = run(&tape, prompt(), &mut Idle);
        prop_assert!(idle.is_none_or(|outcome| outcome.fills.is_empty()));
        let mut maker = Maker(MakerConfig { qty: 3, offset: 0, lots_max: 9 });
        if let Some(outcome) = run(&tape, prompt(), &mut maker) {
            let lots: i64 = outcome.fills.iter().map(|fill| fill.lots()).sum();
            prop_assert_eq!(lots, outcome.account.holding(ONE).lots);
        }
    }

    #[test]
    fn whatever_is_no_message_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut reader = ItchReader::new(Vec::new(), 10);
        let _ = reader.take(&bytes);
        prop_assert!(reader.finish().records().len() <= 1);
    }
}
