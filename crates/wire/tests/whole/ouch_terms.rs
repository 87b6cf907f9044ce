//! OUCH 5.0: the terms of orders beyond price and quantity, mass cancels, and the answers that tell
//! of them.

use proptest::prelude::*;
use types::limits::{PRICE_MARKET, PRICE_MAX, QTY_MAX};
use types::{
    ClOrdId, Command, CommandKind, ExecutionKind, ExecutionReport, Instrument, InstrumentId, Nanos,
    ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, OrderType, Price, Qty, RejectReason,
    SelfTrade, Side, Symbol, TimeInForce, UserRefNum,
};
use wire::ouch::{
    Encoder, NewOrder, Outbound, RefusedRequest, ReplaceRequest, Terms, encode_cancel,
    encode_enter_order_with, encode_mass_cancel, encode_replace_with, parse_inbound,
    parse_outbound, tag, to_command,
};
use wire::{EncodeError, SymbolTable};

const NOW: Nanos = Nanos(1_778_000_000_000_000_000);

fn instruments() -> [Instrument; 1] {
    [Instrument {
        id: InstrumentId(1),
        symbol: symbol(),
        tick: Price(100),
        price_max: Price(PRICE_MAX),
        qty_max: Qty(QTY_MAX),
        lot_decimals: 8,
    }]
}

fn symbol() -> Symbol {
    Symbol::new("BTCUSD").unwrap()
}

fn order() -> NewOrder {
    NewOrder {
        user_ref: UserRefNum(7),
        side: Side::Buy,
        qty: Qty(9),
        symbol: symbol(),
        price: Some(Price(0xB1B2)),
        time_in_force: TimeInForce::Day,
        post_only: false,
        cl_ord_id: ClOrdId(*b"MY-ORDER-1    "),
    }
}

fn replace() -> ReplaceRequest {
    ReplaceRequest {
        orig_user_ref: UserRefNum(5),
        user_ref: UserRefNum(7),
        qty: Qty(9),
        price: Price(0xB1B2),
        time_in_force: TimeInForce::Day,
        post_only: false,
        cl_ord_id: ClOrdId(*b"MY-ORDER-1    "),
    }
}

fn enter(order: &NewOrder, terms: &Terms) -> Vec<u8> {
    let mut out = Vec::new();
    encode_enter_order_with(order, terms, &mut out).unwrap();
    out
}

fn command(bytes: &[u8]) -> Result<Command, RefusedRequest> {
    to_command(&parse_inbound(bytes).unwrap(), &SymbolTable::new(&instruments()), NOW)
}

/// An order's bytes with the given elements as its appendage, and a time in force.
fn with_elements(time_in_force: u8, elements: &[u8]) -> Vec<u8> {
    let mut message = enter(&order(), &Terms::default());
    message.truncate(45);
    message[26] = time_in_force;
    message.extend_from_slice(&(elements.len() as u16).to_be_bytes());
    message.extend_from_slice(elements);
    message
}

fn refused(bytes: &[u8]) -> RejectReason {
    command(bytes).unwrap_err().reason
}

#[test]
fn golden_terms() {
    let terms = Terms {
        order_type: OrderType::StopLimit,
        slide: false,
        hidden: true,
        display_qty: 3,
        min_qty: 2,
        stop_price: Price(0x0102_0304),
        live_s: 0x0001_0203,
        expire_at: Nanos(0),
        self_trade: SelfTrade::Decrement,
    };
    let gtd = NewOrder { time_in_force: TimeInForce::GoodTillDate, ..order() };
    let head = b"O\0\0\0\x07B\0\0\0\x09BTCUSD  \0\0\0\0\0\0\xb1\xb26NANNMY-ORDER-1    ";
    let elements: [&[u8]; 6] = [
        b"\0\x22\x05\x03\0\0\0\x02",
        b"\x05\x05\0\0\0\x03",
        b"\x05\x0f\0\x01\x02\x03",
        b"\x02\xe0L",
        b"\x09\xe1\0\0\0\0\x01\x02\x03\x04",
        b"\x02\xe2D",
    ];
    assert_eq!(enter(&gtd, &terms), [head.as_slice(), &elements.concat()].concat());

    let terms = Terms { order_type: OrderType::PegMid, stop_price: Price(-2), ..Terms::default() };
    let close = NewOrder {
        price: None,
        time_in_force: TimeInForce::AtTheClose,
        post_only: true,
        side: Side::Sell,
        ..order()
    };
    let head = b"O\0\0\0\x07S\0\0\0\x09BTCUSD  \x7f\xff\xff\xff\xff\xff\xff\xff3YANCMY-ORDER-1    ";
    let elements = b"\0\x0c\x02\x06M\x05\x07\xff\xff\xff\xfe\x02\x0cP";
    assert_eq!(enter(&close, &terms), [head.as_slice(), elements].concat());

    let mut out = Vec::new();
    let open = ReplaceRequest { time_in_force: TimeInForce::AtTheOpen, ..replace() };
    let expiry = Terms { slide: true, expire_at: Nanos(0x0A0B), ..Terms::default() };
    encode_replace_with(&open, &expiry, &mut out).unwrap();
    let head = b"U\0\0\0\x05\0\0\0\x07\0\0\0\x09\0\0\0\0\0\0\xb1\xb23YNMY-ORDER-1    ";
    let elements = b"\0\x10\x02\xe5O\x09\xe4\0\0\0\0\0\0\x0a\x0b\x02\x0cS";
    assert_eq!(out, [head.as_slice(), elements].concat());
}

#[test]
fn golden_mass_cancels_and_what_they_ask() {
    let mut expected = Command::new(CommandKind::MassCancel);
    expected.user_ref = UserRefNum(7);
    let cases = [
        (None, None, b"C\0\0\0\x07            ".to_vec()),
        (Some(symbol()), None, b"C\0\0\0\x07    BTCUSD  ".to_vec()),
        (None, Some(Side::Buy), b"C\0\0\0\x07            \0\x03\x02\x1bB".to_vec()),
        (Some(symbol()), Some(Side::Sell), b"C\0\0\0\x07    BTCUSD  \0\x03\x02\x1bS".to_vec()),
    ];
    for (symbol, side, golden) in cases {
        let mut out = Vec::new();
        encode_mass_cancel(UserRefNum(7), symbol, side, &mut out);
        assert_eq!(out, golden);
        expected.instrument = InstrumentId(u16::from(symbol.is_some()));
        expected.param = side.map_or(0, |side| if side == Side::Buy { 1 } else { 2 });
        assert_eq!(command(&out), Ok(expected));
    }
    assert_eq!(refused(b"C\0\0\0\x07    DOGEUSD "), RejectReason::UnknownInstrument);
    let odd: [&[u8]; 3] = [b"\0\x03\x02\x1bT", b"\0\x03\x02\x0cP", b"\0\x06\x05\x03\0\0\0\x01"];
    for appendage in odd {
        let bytes = [b"C\0\0\0\x07            ".as_slice(), appendage].concat();
        assert_eq!(refused(&bytes), RejectReason::Unsupported);
    }
}

#[test]
fn lives_are_read_and_expiry_counts_from_the_receipt() {
    let life = |code, cross_type| {
        let mut bytes = with_elements(code, b"");
        bytes[30] = cross_type;
        command(&bytes).map(|command| command.time_in_force).map_err(|refused| refused.reason)
    };
    assert_eq!(life(b'5', b'N'), Ok(TimeInForce::Day));
    assert_eq!(life(b'F', b'N'), Ok(TimeInForce::FillOrKill));
    for code in *b"035" {
        assert_eq!(life(code, b'O'), Ok(TimeInForce::AtTheOpen));
        assert_eq!(life(code, b'C'), Ok(TimeInForce::AtTheClose));
    }
    for code in *b"1F" {
        assert_eq!(life(code, b'O'), Err(RejectReason::Unsupported));
    }
    assert_eq!(life(b'6', b'N'), Err(RejectReason::InvalidExpiry));
    let expiry = |code, elements: &[u8]| {
        let command = command(&with_elements(code, elements));
        command.map(|command| command.expire_at).map_err(|refused| refused.reason)
    };
    assert_eq!(expiry(b'6', b"\x05\x0f\0\0\0\x02"), Ok(NOW + 2 * Nanos::SECOND));
    let day = [b"\x05\x0f".as_slice(), &86_399u32.to_be_bytes()].concat();
    assert_eq!(expiry(b'6', &day), Ok(NOW + 86_399 * Nanos::SECOND));
    let longer = [b"\x05\x0f".as_slice(), &86_400u32.to_be_bytes()].concat();
    assert_eq!(expiry(b'6', &longer), Err(RejectReason::InvalidExpiry));
    let at = b"\x09\xe4\0\0\0\0\0\0\x0a\x0b";
    assert_eq!(expiry(b'6', at), Ok(Nanos(0x0A0B)));
    assert_eq!(expiry(b'6', &[&day, at.as_slice()].concat()), Err(RejectReason::Unsupported));
    assert_eq!(expiry(b'0', &day), Err(RejectReason::Unsupported));
    assert_eq!(expiry(b'0', at), Err(RejectReason::Unsupported));
}

#[test]
fn terms_that_contradict_or_are_not_served_are_refused() {
    let cases: [&[u8]; 12] = [
        b"\x02\x06M\x02\xe0S",                           // two types
        b"\x02\x06L\x02\xe0S\x02\xe3Y",                  // two types
        b"\x05\x07\0\0\0\x01\x09\xe1\0\0\0\0\0\0\0\x01", // offset and stop price
        b"\x02\x06Q",                                    // market maker peg
        b"\x02\xe0X",                                    // no such stop
        b"\x02\xe2X",                                    // no such prevention
        b"\x02\xe3X",                                    // neither yes nor no
        b"\x02\xe5O",                                    // the field says it
        b"\x02\x1bB",                                    // side twice
        b"\x02\x11I",                                    // imbalance only
        b"\x02\x0aR",                                    // discretion
        b"\x02\x0cX",                                    // post only, unclear
    ];
    for elements in cases {
        let bytes = with_elements(b'0', elements);
        assert_eq!(refused(&bytes), RejectReason::Unsupported, "{}", elements.escape_ascii());
    }
    let huge = with_elements(b'0', b"\x09\xe1\x80\0\0\0\0\0\0\0");
    assert_eq!(refused(&huge), RejectReason::InvalidStopPrice);
    let neutral = b"\x02\x06L\x02\xe3N\x02\xe2A\x02\x11 \x02\x10Y\x02\xe5N\x05\x07\0\0\0\0";
    assert_eq!(command(&with_elements(b'0', neutral)), command(&with_elements(b'0', b"")));
    // The type of an order stays: a replace may not name one, nor a side.
    for elements in [b"\x02\x06M", b"\x02\xe0S", b"\x02\xe3Y", b"\x02\x1bS"] {
        let mut bytes = Vec::new();
        encode_replace_with(&replace(), &Terms::default(), &mut bytes).unwrap();
        assert!(command(&bytes).is_ok());
        bytes.truncate(38);
        bytes.extend_from_slice(&[0, 3]);
        bytes.extend_from_slice(elements);
        assert_eq!(refused(&bytes), RejectReason::Unsupported);
    }
    let mut cancel = Vec::new();
    encode_cancel(UserRefNum(3), Qty(0), &mut cancel).unwrap();
    cancel.extend_from_slice(b"\0\x06\x05\x03\0\0\0\x01");
    assert_eq!(refused(&cancel), RejectReason::Unsupported);
}

#[test]
fn terms_that_do_not_fit_append_nothing() {
    let mut out = vec![9];
    let peg = |offset| {
        let order_type = OrderType::PegPrimary;
        Terms { order_type, stop_price: Price(offset), ..Terms::default() }
    };
    let wide = 1 << 31;
    let cases = [peg(wide), peg(-wide - 1), Terms { stop_price: Price(-1), ..Terms::default() }];
    for terms in cases {
        let error = Err(EncodeError::Price(terms.stop_price));
        assert_eq!(encode_enter_order_with(&order(), &terms, &mut out), error);
        assert_eq!(encode_replace_with(&replace(), &terms, &mut out), error);
    }
    assert_eq!(out, [9]);
    assert!(encode_enter_order_with(&order(), &peg(wide - 1), &mut out).is_ok());
}

fn report(kind: ExecutionKind) -> ExecutionReport {
    ExecutionReport {
        time_in_force: TimeInForce::Day,
        orig_user_ref: UserRefNum(0),
        leaves: Qty(1),
        t_seq: NOW + 0x0807_0605_0403,
        ..crate::ouch::report(kind)
    }
}

fn encode(report: &ExecutionReport) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(&instruments(), NOW).encode_report(report, &mut out).unwrap();
    out
}

#[test]
fn golden_answers() {
    let head = b"\0\0\x08\x07\x06\x05\x04\x03\x01\x02\x03\x04".as_slice();
    let golden = |kind: &[u8], rest: &[u8]| [kind, head, rest].concat();
    let restated = encode(&report(ExecutionKind::Restated));
    assert_eq!(restated, golden(b"R", b"P\0\x0a\x09\x17\0\0\0\0\xb1\xb2\xb3\xb4"));
    assert_eq!(encode(&report(ExecutionKind::Triggered)), golden(b"R", b"S\0\0"));
    let broken = encode(&report(ExecutionKind::TradeBroken));
    assert_eq!(broken, golden(b"B", b"\0\0\0\0\0\0\0\x06SMY-ORDER-1    "));
    let corrected = encode(&report(ExecutionKind::TradeCorrected));
    let right = b"\0\x10\x05\xe7\xa1\xa2\xa3\xa4\x09\xe8\0\0\0\0\xb1\xb2\xb3\xb4";
    let rest = [b"\0\0\0\0\0\0\0\x06cMY-ORDER-1    ".as_slice(), right].concat();
    assert_eq!(corrected, golden(b"B", &rest));
    let mut answer = report(ExecutionKind::MassCanceled);
    let orders = b"\0\x06\x05\xe6\xa1\xa2\xa3\xa4";
    let one = [b"    BTCUSD  ".as_slice(), orders].concat();
    assert_eq!(encode(&answer), golden(b"X", &one));
    answer.instrument = InstrumentId(0);
    let all = [b"            ".as_slice(), orders].concat();
    assert_eq!(encode(&answer), golden(b"X", &all));
}

#[test]
fn golden_echo_of_terms() {
    let tail = |change: fn(&mut ExecutionReport)| {
        let mut report = report(ExecutionKind::Accepted);
        change(&mut report);
        let bytes = encode(&report);
        let price = u64::from_be_bytes(bytes[26..34].try_into().unwrap());
        (price, bytes[34..36].to_vec(), bytes[46], bytes[62..].to_vec())
    };
    let plain = (0xB1B2_B3B4, b"0Y".to_vec(), b'N', b"\0\0".to_vec());
    assert_eq!(tail(|_| ()), plain);
    assert_eq!(tail(|r| r.flags = ORDER_HIDDEN).1, b"0N");
    let (price, life, cross_type, elements) = tail(|r| {
        (r.order_type, r.time_in_force) = (OrderType::Market, TimeInForce::AtTheClose);
    });
    assert_eq!((price, life.as_slice(), cross_type), (PRICE_MARKET, b"3Y".as_slice(), b'C'));
    assert_eq!(elements, b"\0\0");
    let slide = tail(|r| {
        (r.order_type, r.flags, r.price) = (OrderType::PegPrimary, ORDER_POST_ONLY_SLIDE, Price(0));
    });
    assert_eq!((slide.0, slide.1), (PRICE_MARKET, b"0N".to_vec()));
    assert_eq!(slide.3, b"\0\x06\x02\x06R\x02\x0cS");
    let offset = tail(|r| {
        (r.order_type, r.terms.stop_price) = (OrderType::PegPrimary, Price(0x0102));
    });
    assert_eq!(offset.3, b"\0\x09\x02\x06R\x05\x07\0\0\x01\x02");
    let wide = tail(|r| {
        (r.order_type, r.terms.stop_price) = (OrderType::PegPrimary, Price(1 << 32));
    });
    assert_eq!(wide.3, b"\0\x03\x02\x06R", "of another door");
    let iceberg = tail(|r| (r.terms.min_qty, r.terms.display_qty) = (0x0304, 0x0506));
    assert_eq!(iceberg.3, b"\0\x0c\x05\x03\0\0\x03\x04\x05\x05\0\0\x05\x06");
    let stop = tail(|r| (r.order_type, r.terms.stop_price) = (OrderType::Stop, Price(0x0708)));
    assert_eq!(stop.3, b"\0\x0d\x02\xe0S\x09\xe1\0\0\0\0\0\0\x07\x08");
}

#[test]
fn the_end_of_an_order_is_echoed_in_seconds_and_exactly() {
    let tail = |early_ns: i64, live_ns: u64| {
        let mut report = report(ExecutionKind::Replaced);
        report.time_in_force = TimeInForce::GoodTillDate;
        let received = Nanos(report.t_seq.0.wrapping_add_signed(early_ns));
        report.terms.expire_at = received.after(live_ns);
        let bytes = encode(&report);
        let Ok(Outbound::OrderReplaced(_, more)) = parse_outbound(&bytes) else { panic!("read") };
        assert_eq!(more.number(tag::EXPIRE_AT), Some(report.terms.expire_at.0));
        more.number(tag::EXPIRE_TIME)
    };
    // Received a while before it was accepted, or by a clock that is ahead.
    for early_ns in [0, -1, 1, -300_000_000, 300_000_000] {
        assert_eq!(tail(early_ns, 60 * Nanos::SECOND), Some(60), "{early_ns}");
        assert_eq!(tail(early_ns, 86_399 * Nanos::SECOND), Some(86_399), "{early_ns}");
    }
    assert_eq!(tail(0, 86_400 * Nanos::SECOND), None, "the field has no room");
    assert_eq!(tail(0, 1), None);
}

fn lives() -> impl Strategy<Value = TimeInForce> {
    prop::sample::select(vec![
        TimeInForce::Day,
        TimeInForce::GoodTillCancelled,
        TimeInForce::ImmediateOrCancel,
        TimeInForce::FillOrKill,
        TimeInForce::GoodTillDate,
        TimeInForce::AtTheOpen,
        TimeInForce::AtTheClose,
    ])
}

/// Terms that go with a life.
fn terms() -> impl Strategy<Value = (TimeInForce, Terms)> {
    let types = prop::sample::select(vec![
        OrderType::Limit,
        OrderType::MarketToLimit,
        OrderType::Stop,
        OrderType::StopLimit,
        OrderType::TrailingStop,
        OrderType::PegPrimary,
        OrderType::PegMid,
    ]);
    let self_trades = prop::sample::select(vec![
        SelfTrade::Allow,
        SelfTrade::CancelNewest,
        SelfTrade::CancelOldest,
        SelfTrade::CancelBoth,
        SelfTrade::Decrement,
    ]);
    let expiry = (1u32..86_400, 1u64.., any::<bool>());
    let quantities = any::<(u32, u32)>();
    (lives(), types, any::<(bool, bool)>(), quantities, any::<i32>(), expiry, self_trades).prop_map(
        |(life, order_type, (slide, hidden), quantities, price, expiry, self_trade)| {
            let (live_s, at, by_date) = expiry;
            let gtd = life == TimeInForce::GoodTillDate;
            let peg = matches!(order_type, OrderType::PegPrimary | OrderType::PegMid);
            let stop_price = if peg { price.into() } else { i64::from(price).abs() << 20 };
            let terms = Terms {
                order_type,
                slide,
                hidden,
                display_qty: quantities.0,
                min_qty: quantities.1,
                stop_price: Price(stop_price),
                live_s: if gtd && !by_date { live_s } else { 0 },
                expire_at: Nanos(if gtd && by_date { at } else { 0 }),
                self_trade,
            };
            (life, terms)
        },
    )
}

/// What a command must say of terms.
fn assert_terms(command: &Command, life: TimeInForce, terms: &Terms, post_only: bool) {
    assert_eq!(command.time_in_force, life);
    assert_eq!((command.display_qty, command.min_qty), (terms.display_qty, terms.min_qty));
    assert_eq!((command.stop_price, command.self_trade), (terms.stop_price, terms.self_trade));
    let seconds = u64::from(terms.live_s) * Nanos::SECOND;
    let expiry = if terms.live_s > 0 { NOW + seconds } else { terms.expire_at };
    assert_eq!(command.expire_at, expiry);
    let post = match (terms.slide, post_only) {
        (true, _) => ORDER_POST_ONLY_SLIDE,
        (false, true) => ORDER_POST_ONLY,
        (false, false) => 0,
    };
    let hidden = if terms.hidden { ORDER_HIDDEN } else { 0 };
    assert_eq!(command.flags, post | hidden);
}

proptest! {
    #[test]
    fn orders_with_terms_round_trip(
        (life, terms) in terms(), price in prop::option::of(0..PRICE_MAX), post_only: bool,
    ) {
        let price = price.map(Price);
        let order = NewOrder { time_in_force: life, price, post_only, ..order() };
        let bytes = enter(&order, &terms);
        let command = command(&bytes).unwrap();
        assert_terms(&command, life, &terms, post_only);
        let by_price = if price.is_none() { OrderType::Market } else { OrderType::Limit };
        let limit = terms.order_type == OrderType::Limit;
        prop_assert_eq!(command.order_type, if limit { by_price } else { terms.order_type });
        prop_assert_eq!(command.price, price.unwrap_or(Price(0)));
        let mut again = Vec::new();
        parse_inbound(&bytes).unwrap().encode(&mut again);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn replaces_with_terms_round_trip((life, terms) in terms(), post_only: bool) {
        let request = ReplaceRequest { time_in_force: life, post_only, ..replace() };
        let mut bytes = Vec::new();
        encode_replace_with(&request, &terms, &mut bytes).unwrap();
        let command = command(&bytes).unwrap();
        assert_terms(&command, life, &terms, post_only);
        prop_assert_eq!(command.kind, CommandKind::Replace);
        prop_assert_eq!((command.orig_user_ref, command.price), (UserRefNum(5), request.price));
    }

    #[test]
    fn mutated_requests_never_panic(
        (life, terms) in terms(), at in any::<prop::sample::Index>(), byte: u8, side: bool,
        extra in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let side = if side { Side::Buy } else { Side::Sell };
        let mut mass = Vec::new();
        encode_mass_cancel(UserRefNum(1), Some(symbol()), Some(side), &mut mass);
        for mut bytes in [enter(&NewOrder { time_in_force: life, ..order() }, &terms), mass] {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.extend_from_slice(&extra);
            if let Ok(message) = parse_inbound(&bytes) {
                let _ = to_command(&message, &SymbolTable::new(&instruments()), NOW);
            }
        }
    }

    #[test]
    fn arbitrary_elements_never_panic(
        elements in prop::collection::vec(
            (0u8..=255, prop::sample::select(vec![1usize, 4, 8]), any::<[u8; 8]>()), 0..8,
        ),
        kind in prop::sample::select(vec![(b'O', 45), (b'U', 38), (b'X', 9), (b'C', 17)]),
        fixed in any::<[u8; 32]>(),
    ) {
        let mut appendage = Vec::new();
        for (tag, len, value) in elements {
            appendage.extend_from_slice(&[1 + len as u8, tag]);
            appendage.extend_from_slice(&value[..len]);
        }
        let mut bytes = enter(&order(), &Terms::default());
        bytes.truncate(kind.1);
        bytes[0] = kind.0;
        bytes.extend_from_slice(&(appendage.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&appendage);
        for (to, from) in bytes.iter_mut().skip(1).zip(fixed.iter().take(2)) {
            *to = *from;
        }
        if let Ok(message) = parse_inbound(&bytes) {
            let _ = to_command(&message, &SymbolTable::new(&instruments()), NOW);
        }
    }
}
