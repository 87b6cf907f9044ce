//! Modules in the cage: those of `sdk/strategy/examples`, as `scripts/build-strategies.sh` makes them.

mod common;

use feed::Level;
use proptest::prelude::*;
use strategy::heard::{self, Opening};
use strategy::{
    Action, Cage, CageError, Limits, Module, News, Program, Programmed, Report, ReportKind,
    Request, Seat, Strategy,
};
use types::{Instrument, InstrumentId, Nanos, Price, Qty, Side, TimeInForce};

use common::{ONE, instruments};

const MAKER: &[u8] = include_bytes!("guests/maker.wasm");
/// The same in C: `sdk/strategy/c`.
const MAKER_C: &[u8] = include_bytes!("guests/maker-c.wasm");
const TAKER: &[u8] = include_bytes!("guests/taker.wasm");
const MISBEHAVE: &[u8] = include_bytes!("guests/misbehave.wasm");
/// A module that imports a function: preamble, a type, an import.
const IMPORTS: &[u8] = &[
    0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, // module
    0x01, 0x05, 0x01, 0x60, 0x00, 0x01, 0x7e, // type 0: (func (result i64))
    0x02, 0x0d, 0x01, 3, b'e', b'n', b'v', 5, b'c', b'l', b'o', b'c', b'k', 0x00, 0x00,
];
/// A module with a function that gives 0.0.
const FLOATS: &[u8] = &[
    0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, // module
    0x01, 0x05, 0x01, 0x60, 0x00, 0x01, 0x7c, // type 0: (func (result f64))
    0x03, 0x02, 0x01, 0x00, // function 0 is of type 0
    0x0a, 0x0d, 0x01, 0x0b, 0x00, 0x44, 0, 0, 0, 0, 0, 0, 0, 0, 0x0b, // f64.const 0
];
const EMPTY: &[u8] = &[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];
fn cage(bytes: &[u8], settings: &str, limits: &Limits) -> Result<Cage, CageError> {
    Cage::new(&Module::new("it", bytes, limits)?, settings, limits)
}

fn started(bytes: &[u8], settings: &str) -> Programmed<Cage> {
    let limits = Limits::default();
    let cage = cage(bytes, settings, &limits).expect("a module");
    Programmed::start(cage, (&instruments(), 4), (limits.actions, limits.unanswered))
}

/// Feed messages: a directory entry, and orders that come.
fn encoder() -> wire::itch::Encoder {
    wire::itch::Encoder::new(&instruments(), Nanos(0))
}

fn directory(seat: &mut Seat) {
    let mut bytes = Vec::new();
    let event = types::MarketEvent::Directory { instrument: ONE };
    encoder().encode(&event, Nanos(1), &mut bytes).expect("a directory");
    seat.message(0, &bytes);
}

fn add(seat: &mut Seat, order: u64, side: Side, qty: u64, price: i64) {
    let mut bytes = Vec::new();
    let event = types::MarketEvent::AddOrder {
        instrument: ONE,
        order_ref: types::OrderRef(order),
        side,
        qty: Qty(qty),
        price: Price(price),
    };
    encoder().encode(&event, Nanos(order), &mut bytes).expect("an order");
    seat.message(0, &bytes);
}

/// Tells a strategy of a market of two orders, and then of one more at a time; what it asked for.
fn play(strategy: &mut dyn Strategy, times: u64) -> Vec<Request> {
    let mut seat = Seat::new(1, 1 << 10, Some(Nanos(0)));
    directory(&mut seat);
    add(&mut seat, 1, Side::Buy, 10, 10_000);
    add(&mut seat, 2, Side::Sell, 10, 10_200);
    seat.tell(Nanos(5), strategy);
    for time in 0..times {
        add(&mut seat, 10 + time, Side::Buy, 1, 9_000);
        seat.tell(Nanos(10 + time), strategy);
    }
    seat.requests().collect()
}

#[test]
fn a_maker_quotes_beside_the_best_prices() {
    let mut maker = started(MAKER, "lots=2 offset=100");
    assert_eq!(maker.failure(), None);
    let asked = play(&mut maker, 3);
    let order = |id, side, price| Request::Order {
        id,
        instrument: ONE,
        side,
        qty: 2,
        price: Price(price),
        life: TimeInForce::Day,
        rests: true,
    };
    assert_eq!(asked, [order(1, Side::Buy, 9_900), order(2, Side::Sell, 10_300)]);
    let used = maker.program_mut().used();
    assert!((100..100_000).contains(&used), "{used} fuel");
}

#[test]
fn what_it_is_told_reaches_it() {
    let mut taker = started(TAKER, "lots=3 most=3 threshold=400");
    let mut seat = Seat::new(1, 16, Some(Nanos(0)));
    directory(&mut seat);
    add(&mut seat, 1, Side::Buy, 10, 10_000);
    add(&mut seat, 2, Side::Sell, 10, 10_200);
    seat.tell(Nanos(5), &mut taker);
    let buy = Request::Order {
        id: 1,
        instrument: ONE,
        side: Side::Buy,
        qty: 3,
        price: Price(10_200),
        life: TimeInForce::ImmediateOrCancel,
        rests: false,
    };
    assert_eq!(seat.requests().collect::<Vec<_>>(), [buy]);
    // It waits for the order it has, and holds three lots afterwards: no more may be bought.
    add(&mut seat, 3, Side::Buy, 1, 10_000);
    seat.tell(Nanos(6), &mut taker);
    assert_eq!(seat.requests().count(), 0);
    let report = |kind, qty, left| Report {
        kind,
        happened: Nanos(7),
        id: 1,
        instrument: ONE,
        side: Side::Buy,
        price: Price(10_200),
        qty: Qty(qty),
        left: Qty(left),
        rested: false,
    };
    seat.report(report(ReportKind::Accepted, 3, 3));
    seat.report(report(ReportKind::Executed, 3, 0));
    add(&mut seat, 4, Side::Buy, 100, 10_000);
    seat.tell(Nanos(8), &mut taker);
    assert_eq!((seat.requests().count(), seat.open_orders()), (0, 0));
    // Control: more offered than bid, and it sells what it holds.
    add(&mut seat, 5, Side::Sell, 1_000, 10_200);
    seat.tell(Nanos(9), &mut taker);
    let asked: Vec<_> = seat.requests().collect();
    assert!(matches!(asked[..], [Request::Order { side: Side::Sell, qty: 3, .. }]), "{asked:?}");
    assert_eq!(taker.failure(), None);
}

#[test]
fn who_loops_allocates_traps_or_floods_is_stopped_and_told() {
    for (settings, said) in [
        ("loop", "out of fuel (2000000) on a book"),
        ("allocate", "on a book"),
        ("trap", "trapped on a book: wasm `unreachable` instruction executed"),
        ("divide", "trapped on a book"),
        ("recurse", "on a book"),
        ("many", "on a book"),
        ("flood", "of its requests have no answer, above 256"),
        ("stranger", "ordered instrument 9999, which there is not"),
        ("refuse", "refused to start: refusesto start"),
        ("loop-at-start", "out of fuel (2000000) at its start"),
    ] {
        let mut bad = started(MISBEHAVE, settings);
        // A second one of the same module, which is told the same, goes on.
        let mut good = started(MISBEHAVE, "nothing");
        let asked = play(&mut bad, 40);
        assert!(play(&mut good, 40).is_empty());
        let why = bad.failure().unwrap_or_else(|| panic!("{settings} goes on")).to_string();
        assert!(why.contains(said), "{settings}: {why}");
        assert_eq!(good.failure(), None);
        assert!(asked.len() <= 256 + 16, "{settings}: {} requests", asked.len());
        // Nothing is told to it any more, and the reason stays.
        assert!(play(&mut bad, 3).is_empty());
        assert_eq!(bad.failure(), Some(&why[..]));
    }
}

#[test]
fn memory_is_bounded_by_what_the_account_may_have() {
    let mut limits = Limits { memory_bytes: 4 << 20, fuel: 1_000_000_000, ..Limits::default() };
    let allocates = |limits: &Limits| {
        let cage = cage(MISBEHAVE, "allocate", limits).expect("a module");
        let mut bad = Programmed::start(cage, (&instruments(), 4), (64, 256));
        play(&mut bad, 5);
        bad.failure().map(str::to_string).expect("it allocates without end")
    };
    let why = allocates(&limits);
    assert!(!why.contains("fuel"), "{why}");
    // Too little for it to start at all.
    limits.memory_bytes = 1 << 16;
    assert!(matches!(cage(MISBEHAVE, "", &limits), Err(CageError::Start(_))));
}

#[test]
fn what_is_no_strategy_is_refused() {
    let limits = Limits::default();
    let refused = |bytes: &[u8], limits: &Limits| {
        let why = cage(bytes, "", limits).expect_err("no strategy").to_string();
        assert_eq!(why.lines().count(), 1, "{why}");
        why
    };
    let tight = Limits { module_bytes: 1_000, ..limits };
    assert!(refused(MAKER, &tight).contains("above 1000"));
    assert!(refused(IMPORTS, &limits).contains("it imports clock of env"));
    let why = refused(FLOATS, &limits);
    assert!(why.contains("float"), "{why}");
    assert!(refused(EMPTY, &limits).contains("it exports no memory"));
    assert!(refused(b"", &limits).contains("no module"));
    // A component, and a module that was cut.
    assert!(refused(b"\0asm\x0d\0\x01\0", &limits).contains("no module"));
    assert!(refused(&MAKER[..MAKER.len() / 2], &limits).contains("no module"));
    let starved = Limits { fuel: 10, ..limits };
    let cage = cage(MAKER, "", &starved);
    let told = cage.map(|cage| {
        let told = Programmed::start(cage, (&instruments(), 4), (64, 256));
        told.failure().is_some_and(|why| why.contains("out of fuel"))
    });
    assert!(matches!(told, Ok(true) | Err(CageError::Start(_))), "{told:?}");
}

/// What a maker heard and asked for, recorded.
fn recorded(times: u64, settings: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let opening = Opening {
        price_decimals: 4,
        streams: 1,
        orders_max: 1 << 10,
        midnight: Nanos(0),
        history: [0; 16],
    };
    heard::begin(&mut bytes, &opening, &instruments());
    let mut maker = started(MAKER, settings);
    let mut seat = Seat::new(1, 1 << 10, Some(Nanos(0)));
    let (encoder, mut message) = (encoder(), Vec::new());
    for time in 0..times {
        message.clear();
        let event = match time {
            0 => types::MarketEvent::Directory { instrument: ONE },
            _ => types::MarketEvent::AddOrder {
                instrument: ONE,
                order_ref: types::OrderRef(time),
                side: [Side::Buy, Side::Sell][time as usize % 2],
                qty: Qty(1 + time % 7),
                price: Price(10_000 + 100 * (time % 2) as i64 - 100 * (time % 5) as i64),
            },
        };
        encoder.encode(&event, Nanos(time), &mut message).expect("an event");
        heard::message(&mut bytes, 0, &message);
        seat.message(0, &message);
        seat.tell(Nanos(time), &mut maker);
        heard::told(&mut bytes, Nanos(time));
        let asked: Vec<_> = seat.requests().collect();
        asked.iter().for_each(|request| heard::request(&mut bytes, request));
        // Every order is taken, and every cancel carried out; what is heard is told, also at the end.
        for request in asked.into_iter().filter(|_| time + 1 < times) {
            let (id, kind) = match request {
                Request::Order { id, .. } => (id, ReportKind::Accepted),
                Request::Cancel { id } => (id, ReportKind::Ended),
            };
            let order = *seat.order(id).expect("an open order");
            let report = Report {
                kind,
                happened: Nanos(time),
                id,
                instrument: ONE,
                side: order.side,
                price: order.price,
                qty: Qty(order.open),
                left: Qty(if kind == ReportKind::Ended { 0 } else { order.open }),
                rested: false,
            };
            heard::report(&mut bytes, &report);
            seat.report(report);
        }
    }
    bytes
}

fn again(
    module: &[u8],
    bytes: &[u8],
    settings: &str,
) -> Result<heard::Replayed, heard::HeardError> {
    heard::replay(bytes, |instruments, decimals| {
        let limits = Limits::default();
        let cage = cage(module, settings, &limits).map_err(|why| why.to_string())?;
        let bounds = (limits.actions, limits.unanswered);
        Ok(Box::new(Programmed::start(cage, (instruments, decimals), bounds)))
    })
}

#[test]
fn a_replay_asks_for_the_same_bit_for_bit() {
    let bytes = recorded(300, "lots=2");
    let replayed = again(MAKER, &bytes, "lots=2").expect("a record");
    assert!(replayed.is_equal(), "{replayed:?}");
    assert_eq!((replayed.messages, replayed.told), (300, 300));
    assert!(replayed.orders > 5 && replayed.cancels > 3, "{replayed:?}");
    // Control: with other settings it asks for something else, and that is found at the first place.
    let other = again(MAKER, &bytes, "lots=3").expect("a record");
    assert!(!other.is_equal() && other.first_difference.is_some());
    assert_ne!(other.digest, replayed.digest);
}

#[test]
fn a_record_that_is_cut_is_no_equal_one() {
    let bytes = recorded(20, "lots=2");
    let whole = again(MAKER, &bytes, "lots=2").expect("a record");
    assert!(whole.is_equal() && whole.cut.is_none(), "{whole:?}");
    let (mut begins, mut at) = (Vec::new(), heard::MAGIC.len());
    while at < bytes.len() {
        begins.push(at);
        at += 3 + usize::from(u16::from_le_bytes([bytes[at + 1], bytes[at + 2]]));
    }
    // The opening and the instruments are needed before anything is replayed.
    for end in begins[1]..bytes.len() {
        let Ok(cut) = again(MAKER, &bytes[..end], "lots=2") else { continue };
        let (last, whole) = match begins.iter().copied().rfind(|begin| *begin <= end) {
            Some(begin) if begin == end => (begins.iter().copied().rfind(|at| *at < end), true),
            last => (last, false),
        };
        let last = last.expect("the opening");
        // What was heard and not told is a cut, too.
        let untold = matches!(bytes[last], b'M' | b'R');
        let expected = match (whole, untold) {
            (false, _) => Some((last, end - last)),
            (true, true) => Some((end, 0)),
            (true, false) => None,
        };
        assert_eq!(cut.cut, expected, "{end}");
        assert!(expected.is_none() || !cut.is_equal(), "{end}");
    }
    // Between two of them: what was asked for in the rest of an answer is missing, and told.
    let request = begins.iter().copied().rfind(|at| bytes[*at] == b'O').expect("an order");
    let short = again(MAKER, &bytes[..request], "lots=2").expect("a record");
    assert!(short.cut.is_none() && !short.is_equal(), "{short:?}");
    assert_eq!(
        short.first_difference.map(|(at, then, _)| (at, then)),
        Some((request, "nothing".into()))
    );
}

#[test]
fn a_strategy_in_c_asks_for_what_the_same_in_rust_asks_for() {
    for settings in ["", "lots=2", "lots=3 offset=100 most=7", "offset=-100"] {
        let bytes = recorded(1_000, settings);
        let replayed = again(MAKER_C, &bytes, settings).expect("a record");
        assert!(replayed.is_equal(), "{settings}: {replayed:?}");
        assert!(replayed.orders > 5 && replayed.cancels > 3, "{settings}: {replayed:?}");
        // Control: asked otherwise it answers otherwise.
        let other = again(MAKER_C, &bytes, "lots=4 offset=200").expect("a record");
        assert!(!other.is_equal(), "{settings}");
    }
    let said = |settings| started(MAKER_C, settings).failure().map(str::to_string);
    assert_eq!(said("most=3 lots=2"), None);
    assert_eq!(said("lots=two").as_deref(), Some("refused to start: a setting is no number"));
    assert_eq!(said("lots=0").as_deref(), Some("refused to start: lots: 1 to 1000000"));
}

#[test]
fn a_program_is_told_no_more_than_there_is() {
    // A book without a directory entry is none.
    let mut maker = started(MAKER, "");
    let news = News::Book {
        now: Nanos(1),
        instrument: ONE,
        bids: &[Level { price: Price(1), qty: Qty(1), orders: 1 }],
        asks: &[],
        held: 0,
        orders: &[],
    };
    let mut answer = Vec::new();
    maker.program_mut().tell(&news, &mut answer).expect("it runs");
    assert!(matches!(answer[..], [Action::Order { side: Side::Buy, .. }]), "{answer:?}");
}

/// Asks for nothing.
struct Quiet;

impl Strategy for Quiet {
    fn name(&self) -> &str {
        "quiet"
    }

    fn on_book(&mut self, _: InstrumentId, _: &mut strategy::Desk<'_>) {}
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_refused_or_replayed(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        place in any::<proptest::sample::Index>(),
        value in any::<u8>(),
    ) {
        let limits = Limits::default();
        prop_assert!(Module::new("any", &bytes, &limits).is_err());
        let idle = |_: &[Instrument], _| Ok(Box::new(Quiet) as Box<dyn Strategy>);
        let _ = heard::replay(&bytes, idle);
        let mut damaged = recorded(20, "");
        let at = place.index(damaged.len());
        damaged[at] = value;
        let _ = heard::replay(&damaged, idle);
        let _ = heard::replay(&damaged[..at], idle);
    }
}
