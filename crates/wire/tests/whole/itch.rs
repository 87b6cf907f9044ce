//! ITCH 5.0: golden bytes of everything the encoder makes, round trips, and hostile bytes.

use proptest::prelude::*;
use types::limits::{PRICE_MAX, QTY_MAX};
use types::{
    CrossKind, ImbalanceSide, Instrument, InstrumentId, MarketEvent, MatchNumber, Nanos, OrderRef,
    Price, Qty, Side, Symbol, SystemEventCode, TradingState,
};
use wire::EncodeError;
use wire::itch::{Encoder, ItchError, Message, Time, parse};

const MIDNIGHT: Nanos = Nanos(1_778_000_000_000_000_000);
/// 09:30:00.000000001 after midnight, 0x1F1A_CED9_F001.
const NOW: Nanos = Nanos(MIDNIGHT.0 + 34_200 * Nanos::SECOND + 1);

fn encoder() -> Encoder {
    let instrument = |id, name| Instrument {
        id: InstrumentId(id),
        symbol: Symbol::new(name).unwrap(),
        tick: Price(100),
        price_max: Price(PRICE_MAX),
        qty_max: Qty(QTY_MAX),
        lot_decimals: 8,
    };
    Encoder::new(&[instrument(1, "BTCUSD"), instrument(2, "ETHUSD")], MIDNIGHT)
}

fn encode(event: &MarketEvent) -> Vec<u8> {
    let mut out = Vec::new();
    let len = encoder().encode(event, NOW, &mut out).unwrap();
    assert_eq!(len, out.len());
    out
}

/// Header with the test's time, then the body.
fn golden(kind: u8, locate: u16, body: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&locate.to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0x1F, 0x1A, 0xCE, 0xD9, 0xF0, 0x01]);
    bytes.extend_from_slice(&body.concat());
    bytes
}

const INSTRUMENT: InstrumentId = InstrumentId(1);
const ORDER: OrderRef = OrderRef(0x0102_0304_0506_0708);

#[test]
fn golden_administrative_messages() {
    let codes = [
        (SystemEventCode::StartOfMessages, b'O'),
        (SystemEventCode::StartOfSystemHours, b'S'),
        (SystemEventCode::StartOfMarketHours, b'Q'),
        (SystemEventCode::EndOfMarketHours, b'M'),
        (SystemEventCode::EndOfSystemHours, b'E'),
        (SystemEventCode::EndOfMessages, b'C'),
    ];
    for (code, byte) in codes {
        assert_eq!(encode(&MarketEvent::SystemEvent { code }), golden(b'S', 0, &[&[byte]]));
    }
    let directory = encode(&MarketEvent::Directory { instrument: InstrumentId(2) });
    let body: [&[u8]; 3] = [b"ETHUSD   N\0\0\0\x01", b"NQZ PNN N", b"\0\0\0\0N"];
    assert_eq!(directory, golden(b'R', 2, &body));
    let states = [
        (TradingState::Halted, b'H'),
        (TradingState::Paused, b'P'),
        (TradingState::QuotationOnly, b'Q'),
        (TradingState::Trading, b'T'),
    ];
    for (state, byte) in states {
        let action = encode(&MarketEvent::TradingAction { instrument: INSTRUMENT, state });
        assert_eq!(action, golden(b'H', 1, &[b"BTCUSD  ", &[byte], b"     "]));
    }
}

#[test]
fn golden_order_messages() {
    let (instrument, order_ref, qty) = (INSTRUMENT, ORDER, Qty(0xA1A2_A3A4));
    let price = Price(0xB1B2_B3B4);
    let reference: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8];
    let (shares, units): (&[u8], &[u8]) = (&[0xA1, 0xA2, 0xA3, 0xA4], &[0xB1, 0xB2, 0xB3, 0xB4]);
    for (side, byte) in [(Side::Buy, b'B'), (Side::Sell, b'S')] {
        let add = MarketEvent::AddOrder { instrument, order_ref, side, qty, price };
        let body = [reference, &[byte], shares, b"BTCUSD  ", units];
        assert_eq!(encode(&add), golden(b'A', 1, &body));
    }
    let match_number = MatchNumber(9);
    let executed = MarketEvent::OrderExecuted { instrument, order_ref, qty, match_number };
    let body = [reference, shares, &[0, 0, 0, 0, 0, 0, 0, 9]];
    assert_eq!(encode(&executed), golden(b'E', 1, &body));
    let cancel = MarketEvent::OrderCancel { instrument, order_ref, qty };
    assert_eq!(encode(&cancel), golden(b'X', 1, &[reference, shares]));
    let delete = MarketEvent::OrderDelete { instrument, order_ref };
    assert_eq!(encode(&delete), golden(b'D', 1, &[reference]));
    let new_ref = OrderRef(0x1102_0304_0506_0708);
    let replace = MarketEvent::OrderReplace { instrument, old_ref: ORDER, new_ref, qty, price };
    let body = [reference, &[0x11, 2, 3, 4, 5, 6, 7, 8], shares, units];
    assert_eq!(encode(&replace), golden(b'U', 1, &body));
}

#[test]
fn golden_trade_messages() {
    let (instrument, order_ref, qty) = (INSTRUMENT, ORDER, Qty(0xA1A2_A3A4));
    let (price, match_number) = (Price(0xB1B2_B3B4), MatchNumber(0x0900));
    let reference: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8];
    let (shares, units): (&[u8], &[u8]) = (&[0xA1, 0xA2, 0xA3, 0xA4], &[0xB1, 0xB2, 0xB3, 0xB4]);
    let number: &[u8] = &[0, 0, 0, 0, 0, 0, 9, 0];
    for (printable, byte) in [(true, b'Y'), (false, b'N')] {
        let event = MarketEvent::OrderExecutedWithPrice {
            instrument,
            order_ref,
            qty,
            match_number,
            printable,
            price,
        };
        let body = [reference, shares, number, &[byte], units];
        assert_eq!(encode(&event), golden(b'C', 1, &body));
    }
    for (side, byte) in [(Side::Buy, b'B'), (Side::Sell, b'S')] {
        let event = MarketEvent::Trade { instrument, side, qty, price, match_number };
        let none: &[u8] = &[0; 8];
        let body = [none, &[byte], shares, b"BTCUSD  ", units, number];
        assert_eq!(encode(&event), golden(b'P', 1, &body));
    }
    for (kind, byte) in KINDS {
        let qty = Qty(0xC1A2_A3A4_A5A6_A7A8);
        let event = MarketEvent::CrossTrade { instrument, qty, price, match_number, kind };
        let wide = b"\xc1\xa2\xa3\xa4\xa5\xa6\xa7\xa8".as_slice();
        let body = [wide, b"BTCUSD  ", units, number, &[byte]];
        assert_eq!(encode(&event), golden(b'Q', 1, &body));
    }
    let broken = MarketEvent::BrokenTrade { instrument, match_number };
    assert_eq!(encode(&broken), golden(b'B', 1, &[number]));
}

const KINDS: [(CrossKind, u8); 4] = [
    (CrossKind::Opening, b'O'),
    (CrossKind::Closing, b'C'),
    (CrossKind::Resuming, b'H'),
    (CrossKind::Intraday, b'I'),
];

#[test]
fn golden_imbalances_and_collars() {
    let sides = [
        (ImbalanceSide::Buy, b'B'),
        (ImbalanceSide::Sell, b'S'),
        (ImbalanceSide::None, b'N'),
        (ImbalanceSide::Insufficient, b'O'),
    ];
    for ((side, direction), (kind, cross)) in sides.into_iter().zip(KINDS) {
        let event = MarketEvent::Imbalance {
            instrument: INSTRUMENT,
            paired: Qty(0x1_0000_0001),
            imbalance: Qty(7),
            side,
            far: Price(0x0A0B_0C0D),
            near: Price(1_095),
            reference: Price(1_000),
            kind,
        };
        let quantities = b"\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x07".as_slice();
        let prices = b"\x0a\x0b\x0c\x0d\0\0\x04\x47\0\0\x03\xe8".as_slice();
        let body = [quantities, &[direction], b"BTCUSD  ", prices, &[cross, b'9']];
        assert_eq!(encode(&event), golden(b'I', 1, &body));
    }
    let collar = MarketEvent::Collar {
        instrument: INSTRUMENT,
        reference: Price(0x0102_0304),
        upper: Price(0x0202_0304),
        lower: Price(0x0002_0304),
        extension: 0x0900,
    };
    let prices = b"\x01\x02\x03\x04\x02\x02\x03\x04\0\x02\x03\x04".as_slice();
    let body = [b"BTCUSD  ".as_slice(), prices, &[0, 0, 9, 0]];
    assert_eq!(encode(&collar), golden(b'J', 1, &body));
}

#[test]
fn price_variation_is_a_letter_of_the_deviation() {
    let letter = |near, reference| {
        let event = MarketEvent::Imbalance {
            instrument: INSTRUMENT,
            paired: Qty(1),
            imbalance: Qty(0),
            side: ImbalanceSide::None,
            far: Price(near),
            near: Price(near),
            reference: Price(reference),
            kind: CrossKind::Opening,
        };
        encode(&event)[49]
    };
    let reference = 10_000;
    let cases = [
        (10_000, b'L'),
        (10_099, b'L'),
        (9_901, b'L'),
        (10_100, b'1'),
        (9_900, b'1'),
        (10_999, b'9'),
        (9_000, b'A'),
        (11_999, b'A'),
        (12_000, b'B'),
        (7_000, b'C'),
        (PRICE_MAX, b'C'),
        (0, b' '),
    ];
    for (near, expected) in cases {
        assert_eq!(letter(near, reference), expected, "{near}");
    }
    assert_eq!(letter(10_000, 0), b' ');
}

#[test]
fn codes_this_exchange_does_not_use_are_no_events() {
    let mut paused = encode(&MarketEvent::Imbalance {
        instrument: INSTRUMENT,
        paired: Qty(1),
        imbalance: Qty(0),
        side: ImbalanceSide::None,
        far: Price(1),
        near: Price(1),
        reference: Price(1),
        kind: CrossKind::Opening,
    });
    assert!(parse(&paused).unwrap().to_event().is_some());
    paused[27] = b'P';
    assert_eq!(parse(&paused).unwrap().to_event(), None);
    let (instrument, qty, price) = (INSTRUMENT, Qty(1), Price(1));
    let (match_number, kind) = (MatchNumber(1), CrossKind::Opening);
    let mut cross = encode(&MarketEvent::CrossTrade { instrument, qty, price, match_number, kind });
    cross[39] = b'A';
    assert_eq!(parse(&cross).unwrap().to_event(), None);
}

#[test]
fn refuses_what_does_not_fit_and_appends_nothing() {
    let (instrument, order_ref, side) = (INSTRUMENT, ORDER, Side::Buy);
    let add = |instrument, qty, price| MarketEvent::AddOrder {
        instrument,
        order_ref,
        side,
        qty: Qty(qty),
        price: Price(price),
    };
    let refused = |event: MarketEvent, at| {
        let mut out = vec![7];
        let error = encoder().encode(&event, at, &mut out).unwrap_err();
        assert_eq!(out, [7]);
        error
    };
    assert_eq!(refused(add(instrument, 1 << 32, 1), NOW), EncodeError::Quantity(Qty(1 << 32)));
    for price in [1 << 32, -1, i64::MIN, i64::MAX] {
        assert_eq!(refused(add(instrument, 1, price), NOW), EncodeError::Price(Price(price)));
    }
    let unknown = InstrumentId(3);
    assert_eq!(refused(add(unknown, 1, 1), NOW), EncodeError::UnknownInstrument(unknown));
    let before = Nanos(MIDNIGHT.0 - 1);
    assert_eq!(refused(add(instrument, 1, 1), before), EncodeError::Time(before));
    // Of whatever day: a time counts from the last midnight.
    let day = 86_400 * Nanos::SECOND;
    for (after, expected) in [(day - 1, day - 1), (day, 0), (9 * day + 5, 5), (365 * day + 1, 1)] {
        let mut out = Vec::new();
        encoder().encode(&add(instrument, 1, 1), MIDNIGHT + after, &mut out).expect("a time");
        let ns = out[5..11].iter().fold(0, |ns, byte| ns << 8 | u64::from(*byte));
        assert_eq!(ns, expected, "{after}");
    }
    let extreme = add(instrument, QTY_MAX, PRICE_MAX);
    assert!(encoder().encode(&extreme, MIDNIGHT + Time::MAX, &mut Vec::new()).is_ok());
}

#[test]
fn refuses_wrong_lengths_types_and_codes() {
    assert_eq!(parse(&[]), Err(ItchError::Empty));
    assert_eq!(parse(b"Z"), Err(ItchError::UnknownType(b'Z')));
    let mut kinds: Vec<_> = Message::LENGTHS.iter().map(|&(kind, _)| kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 23);
    for &(kind, right) in Message::LENGTHS {
        for len in (1..60).filter(|&len| len != right) {
            let mut bytes = vec![b'B'; len];
            bytes[0] = kind;
            assert_eq!(parse(&bytes), Err(ItchError::Length { kind, len }));
        }
    }
    let coded = [(b'S', 12, 11), (b'H', 25, 19), (b'A', 36, 19), (b'F', 40, 19), (b'P', 44, 19)];
    for (kind, len, at) in coded.into_iter().chain([(b'C', 36, 31)]) {
        let taken: Vec<u8> = (0..=u8::MAX)
            .filter(|&code| {
                let mut bytes = vec![0; len];
                (bytes[0], bytes[at]) = (kind, code);
                let parsed = parse(&bytes);
                assert!(parsed.is_ok() || parsed == Err(ItchError::Field { kind }));
                parsed.is_ok()
            })
            .collect();
        let expected: &[u8] = match kind {
            b'S' => b"CEMOQS",
            b'H' => b"HPQT",
            b'C' => b"NY",
            _ => b"BS",
        };
        assert_eq!(taken, expected, "type {}", kind.escape_ascii());
    }
}

/// Every variant with every code, quantities and prices over their whole range.
fn event() -> impl Strategy<Value = MarketEvent> {
    let codes = (
        prop::sample::select(vec![
            SystemEventCode::StartOfMessages,
            SystemEventCode::StartOfMarketHours,
            SystemEventCode::EndOfMessages,
        ]),
        prop::sample::select(vec![
            TradingState::Halted,
            TradingState::Paused,
            TradingState::QuotationOnly,
            TradingState::Trading,
        ]),
        prop::sample::select(KINDS.to_vec()),
        prop::sample::select(vec![
            ImbalanceSide::Buy,
            ImbalanceSide::Sell,
            ImbalanceSide::None,
            ImbalanceSide::Insufficient,
        ]),
    );
    let sides = prop::sample::select(vec![Side::Buy, Side::Sell]);
    let prices = (0..=PRICE_MAX, 0..=PRICE_MAX, 0..=PRICE_MAX);
    let numbers = any::<(u64, u64, u64, u32)>();
    (0u8..VARIANTS, 1u16..=2, sides, 0..=QTY_MAX, prices, numbers, codes).prop_map(
        |(variant, id, side, qty, prices, numbers, (code, state, (kind, _), imbalance_side))| {
            let (instrument, qty, price) = (InstrumentId(id), Qty(qty), Price(prices.0));
            let (order_ref, match_number) = (OrderRef(numbers.0), MatchNumber(numbers.1));
            let (old_ref, new_ref) = (order_ref, OrderRef(numbers.2));
            match variant {
                0 => MarketEvent::SystemEvent { code },
                1 => MarketEvent::Directory { instrument },
                2 => MarketEvent::TradingAction { instrument, state },
                3 => MarketEvent::AddOrder { instrument, order_ref, side, qty, price },
                4 => MarketEvent::OrderExecuted { instrument, order_ref, qty, match_number },
                5 => MarketEvent::OrderCancel { instrument, order_ref, qty },
                6 => MarketEvent::OrderDelete { instrument, order_ref },
                7 => MarketEvent::OrderReplace { instrument, old_ref, new_ref, qty, price },
                8 => MarketEvent::OrderExecutedWithPrice {
                    instrument,
                    order_ref,
                    qty,
                    match_number,
                    printable: numbers.3 % 2 == 0,
                    price,
                },
                9 => MarketEvent::Trade { instrument, side, qty, price, match_number },
                10 => MarketEvent::CrossTrade {
                    instrument,
                    qty: Qty(numbers.2),
                    price,
                    match_number,
                    kind,
                },
                11 => MarketEvent::BrokenTrade { instrument, match_number },
                12 => MarketEvent::Imbalance {
                    instrument,
                    paired: Qty(numbers.0),
                    imbalance: Qty(numbers.1),
                    side: imbalance_side,
                    far: Price(prices.1),
                    near: price,
                    reference: Price(prices.2),
                    kind,
                },
                _ => MarketEvent::Collar {
                    instrument,
                    reference: price,
                    upper: Price(prices.1),
                    lower: Price(prices.2),
                    extension: numbers.3,
                },
            }
        },
    )
}

/// Variants of [`MarketEvent`]; the match below fails to compile when there is another.
const VARIANTS: u8 = 14;

/// The message type of an event.
fn kind_of(event: &MarketEvent) -> u8 {
    match event {
        MarketEvent::SystemEvent { .. } => b'S',
        MarketEvent::Directory { .. } => b'R',
        MarketEvent::TradingAction { .. } => b'H',
        MarketEvent::AddOrder { .. } => b'A',
        MarketEvent::OrderExecuted { .. } => b'E',
        MarketEvent::OrderCancel { .. } => b'X',
        MarketEvent::OrderDelete { .. } => b'D',
        MarketEvent::OrderReplace { .. } => b'U',
        MarketEvent::OrderExecutedWithPrice { .. } => b'C',
        MarketEvent::Trade { .. } => b'P',
        MarketEvent::CrossTrade { .. } => b'Q',
        MarketEvent::BrokenTrade { .. } => b'B',
        MarketEvent::Imbalance { .. } => b'I',
        MarketEvent::Collar { .. } => b'J',
    }
}

proptest! {
    #[test]
    fn events_round_trip(event in event(), ns in 0..=Time::MAX) {
        let mut out = Vec::new();
        encoder().encode(&event, MIDNIGHT + ns, &mut out).unwrap();
        let message = parse(&out).unwrap();
        prop_assert_eq!(message.to_event(), Some(event));
        prop_assert_eq!(message.header().kind, kind_of(&event));
        prop_assert_eq!(message.header().time.get(), ns % (86_400 * Nanos::SECOND));
        prop_assert_eq!(message.as_bytes(), out.as_slice());
    }

    #[test]
    fn mutated_messages_never_panic(
        event in event(), at in any::<prop::sample::Index>(), byte: u8, cut in 0usize..4,
    ) {
        let mut bytes = encode(&event);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut);
        if let Ok(message) = parse(&bytes) {
            prop_assert_eq!(message.as_bytes(), bytes.as_slice());
            let _ = (message.to_event(), message.symbol(), message.header());
        }
    }

    #[test]
    fn arbitrary_bytes_of_the_right_length_never_panic(
        which in any::<prop::sample::Index>(), body in prop::collection::vec(any::<u8>(), 60),
    ) {
        let &(kind, len) = which.get(Message::LENGTHS);
        let mut bytes = body[..len].to_vec();
        bytes[0] = kind;
        let _ = parse(&body);
        if let Ok(message) = parse(&bytes) {
            prop_assert_eq!(message.as_bytes(), bytes.as_slice());
            let _ = (message.to_event(), message.symbol());
        }
    }
}
