//! OUCH 5.0: golden bytes of every answer and request, round trips, and hostile bytes.

use proptest::prelude::*;
use types::limits::{PRICE_MARKET, PRICE_MAX, QTY_MAX};
use types::{
    AccountId, CancelReason, ClOrdId, Command, CommandKind, ExecutionKind, ExecutionReport,
    FeedSeq, Instrument, InstrumentId, Liquidity, MatchNumber, Nanos, ORDER_HIDDEN,
    ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, OrderRef, OrderTerms, OrderType, Price, Qty,
    RejectReason, Side, Symbol, TimeInForce, UserRefNum,
};
use wire::ouch::{
    Appendage, Encoder, Inbound, NewOrder, OuchError, Outbound, RefusedRequest, ReplaceRequest,
    cancel_reason, encode_cancel, encode_enter_order, encode_replace, liquidity, parse_inbound,
    parse_outbound, reject_reason, tag, time_in_force, to_command,
};
use wire::{EncodeError, SymbolTable};

const MIDNIGHT: Nanos = Nanos(1_778_000_000_000_000_000);
/// When requests are received.
const NOW: Nanos = Nanos(MIDNIGHT.0 + 3_600 * Nanos::SECOND);

fn instruments() -> [Instrument; 1] {
    [Instrument {
        id: InstrumentId(1),
        symbol: Symbol::new("BTCUSD").unwrap(),
        tick: Price(100),
        price_max: Price(PRICE_MAX),
        qty_max: Qty(QTY_MAX),
        lot_decimals: 8,
    }]
}

/// A report whose fields are all told apart.
pub fn report(kind: ExecutionKind) -> ExecutionReport {
    ExecutionReport {
        kind,
        side: Side::Sell,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::GoodTillCancelled,
        flags: 0,
        reject: RejectReason::None,
        cancel_reason: CancelReason::None,
        liquidity: Liquidity::None,
        account: AccountId(1),
        instrument: InstrumentId(1),
        user_ref: UserRefNum(0x0102_0304),
        orig_user_ref: UserRefNum(0x0102_0303),
        session_seq: 0,
        qty: Qty(0xA1A2_A3A4),
        leaves: Qty(0xA1A2_A3A4),
        price: Price(0xB1B2_B3B4),
        order_ref: OrderRef(5),
        match_number: MatchNumber(6),
        public_after: FeedSeq(0),
        t_seq: MIDNIGHT + 0x0807_0605_0403,
        cl_ord_id: ClOrdId(*b"MY-ORDER-1    "),
        reserved2: [0; 2],
        terms: OrderTerms::default(),
    }
}

fn encode(report: &ExecutionReport) -> Result<Vec<u8>, EncodeError> {
    let mut out = vec![9];
    let result = Encoder::new(&instruments(), MIDNIGHT).encode_report(report, &mut out);
    let body = out.split_off(1);
    assert_eq!(result.unwrap_or(0), body.len());
    result.map(|_| body)
}

const TIME: &[u8] = b"\0\0\x08\x07\x06\x05\x04\x03";
const REF: &[u8] = b"\x01\x02\x03\x04";
const LOTS: &[u8] = b"\xA1\xA2\xA3\xA4";
const PRICE: &[u8] = b"\0\0\0\0\xB1\xB2\xB3\xB4";
const FIVE: &[u8] = b"\0\0\0\0\0\0\0\x05";

#[test]
fn golden_acceptance_and_replacement() {
    let mut accepted = report(ExecutionKind::Accepted);
    let head = [b"A", TIME, REF, b"S", LOTS, b"BTCUSD  "].concat();
    let tail = [b"1Y", FIVE, b"ONNLMY-ORDER-1    "].concat();
    assert_eq!(encode(&accepted).unwrap(), [&head, PRICE, &tail, b"\0\0"].concat());
    accepted.flags = ORDER_POST_ONLY;
    assert_eq!(encode(&accepted).unwrap(), [&head, PRICE, &tail, b"\0\x03\x02\x0cP"].concat());
    accepted.flags = 0;
    accepted.order_type = OrderType::Market;
    accepted.price = Price(0);
    let market = b"\x7f\xff\xff\xff\xff\xff\xff\xff".as_slice();
    assert_eq!(encode(&accepted).unwrap(), [&head, market, &tail, b"\0\0"].concat());

    let mut replaced = report(ExecutionKind::Replaced);
    let head = [b"U", TIME, b"\x01\x02\x03\x03", REF, b"S", LOTS, b"BTCUSD  ", PRICE].concat();
    assert_eq!(encode(&replaced).unwrap(), [&head, tail.as_slice(), b"\0\0"].concat());
    replaced.leaves = Qty(0);
    let dead = [b"1Y", FIVE, b"ONNDMY-ORDER-1    "].concat();
    assert_eq!(encode(&replaced).unwrap(), [&head, dead.as_slice(), b"\0\0"].concat());
}

#[test]
fn golden_executions_cancels_and_rejects() {
    let mut executed = report(ExecutionKind::Executed);
    for (side, flag) in [(Liquidity::Added, b"A"), (Liquidity::Removed, b"R")] {
        executed.liquidity = side;
        let six = b"\0\0\0\0\0\0\0\x06";
        let golden = [b"E", TIME, REF, LOTS, PRICE, flag, six, b"\0\0"].concat();
        assert_eq!(encode(&executed).unwrap(), golden);
    }
    let mut canceled = report(ExecutionKind::Canceled);
    let reasons = [
        (CancelReason::Requested, b"U"),
        (CancelReason::ImmediateOrCancel, b"I"),
        (CancelReason::EndOfDay, b"T"),
        (CancelReason::NotEnough, b"n"),
        (CancelReason::SelfTrade, b"Q"),
        (CancelReason::MassCancel, b"m"),
        (CancelReason::Disconnect, b"d"),
        (CancelReason::Expired, b"x"),
        (CancelReason::AuctionOver, b"a"),
        (CancelReason::Killed, b"S"),
        (CancelReason::Collar, b"K"),
        (CancelReason::Capacity, b"Z"),
    ];
    for (reason, code) in reasons {
        canceled.cancel_reason = reason;
        assert_eq!(encode(&canceled).unwrap(), [b"C", TIME, REF, LOTS, code].concat());
    }
    let mut rejected = report(ExecutionKind::Rejected);
    let reasons = [
        (RejectReason::InvalidPrice, b"\x00\x1d"),
        (RejectReason::PostOnlyWouldTrade, b"\x46\x01"),
    ];
    for (reason, code) in reasons {
        rejected.reject = reason;
        let golden = [b"J", TIME, REF, code, b"MY-ORDER-1    "].concat();
        assert_eq!(encode(&rejected).unwrap(), golden);
    }
    let cancel_rejected = report(ExecutionKind::CancelRejected);
    assert_eq!(encode(&cancel_rejected).unwrap(), [b"I", TIME, REF].concat());
}

#[test]
fn a_report_that_does_not_fit_appends_nothing() {
    let refused = |kind, change: fn(&mut ExecutionReport)| {
        let mut report = report(kind);
        change(&mut report);
        encode(&report).unwrap_err()
    };
    use ExecutionKind::{
        Accepted, CancelRejected, Canceled, Executed, MassCanceled, Rejected, Replaced, Restated,
        TradeBroken, TradeCorrected, Triggered,
    };
    for kind in [Executed, Canceled, Rejected] {
        assert_eq!(refused(kind, |_| ()), EncodeError::MissingCode);
    }
    for kind in [Accepted, Replaced, Executed, Canceled, TradeCorrected, MassCanceled] {
        assert_eq!(refused(kind, |r| r.qty = Qty(1 << 32)), EncodeError::Quantity(Qty(1 << 32)));
    }
    for kind in [Accepted, Replaced, Executed, Restated, TradeCorrected] {
        assert_eq!(refused(kind, |r| r.price = Price(-1)), EncodeError::Price(Price(-1)));
    }
    for kind in [Accepted, Replaced, MassCanceled] {
        let unknown = InstrumentId(2);
        let error = EncodeError::UnknownInstrument(unknown);
        assert_eq!(refused(kind, |r| r.instrument = InstrumentId(2)), error);
    }
    let all = [Accepted, Replaced, Executed, Canceled, Rejected, CancelRejected, Restated];
    for kind in all.into_iter().chain([Triggered, TradeBroken, TradeCorrected, MassCanceled]) {
        assert_eq!(refused(kind, |r| r.t_seq = Nanos(1)), EncodeError::Time(Nanos(1)));
    }
}

fn order() -> NewOrder {
    NewOrder {
        user_ref: UserRefNum(0x0102_0304),
        side: Side::Buy,
        qty: Qty(0xA1A2_A3A4),
        symbol: Symbol::new("BTCUSD").unwrap(),
        price: Some(Price(0xB1B2_B3B4)),
        time_in_force: TimeInForce::Day,
        post_only: false,
        cl_ord_id: ClOrdId(*b"MY-ORDER-1    "),
    }
}

fn enter(order: &NewOrder) -> Vec<u8> {
    let mut out = Vec::new();
    encode_enter_order(order, &mut out).unwrap();
    out
}

fn command(bytes: &[u8]) -> Result<Command, RefusedRequest> {
    to_command(&parse_inbound(bytes).unwrap(), &SymbolTable::new(&instruments()), NOW)
}

#[test]
fn golden_requests() {
    let golden = [b"O", REF, b"B", LOTS, b"BTCUSD  ", PRICE, b"0YANNMY-ORDER-1    \0\0"].concat();
    assert_eq!(enter(&order()), golden);
    let mut out = Vec::new();
    let request = ReplaceRequest {
        orig_user_ref: UserRefNum(5),
        user_ref: UserRefNum(0x0102_0304),
        qty: Qty(0xA1A2_A3A4),
        price: Price(0xB1B2_B3B4),
        time_in_force: TimeInForce::ImmediateOrCancel,
        post_only: true,
        cl_ord_id: ClOrdId(*b"MY-ORDER-1    "),
    };
    encode_replace(&request, &mut out).unwrap();
    let tail = b"3YNMY-ORDER-1    \0\x03\x02\x0cP";
    assert_eq!(out, [b"U\0\0\0\x05", REF, LOTS, PRICE, tail].concat());
    out.clear();
    encode_cancel(UserRefNum(0x0102_0304), Qty(0xA1A2_A3A4), &mut out).unwrap();
    assert_eq!(out, [b"X", REF, LOTS].concat());
    out.clear();
    let wide = NewOrder { qty: Qty(1 << 32), ..order() };
    assert_eq!(encode_enter_order(&wide, &mut out), Err(EncodeError::Quantity(wide.qty)));
    for price in [Price(-1), Price(PRICE_MARKET as i64)] {
        let odd = NewOrder { price: Some(price), ..order() };
        assert_eq!(encode_enter_order(&odd, &mut out), Err(EncodeError::Price(price)));
    }
    assert!(out.is_empty());
}

#[test]
fn requests_become_commands() {
    let mut expected = Command::new(CommandKind::NewOrder);
    expected.instrument = InstrumentId(1);
    expected.user_ref = UserRefNum(0x0102_0304);
    expected.qty = Qty(0xA1A2_A3A4);
    expected.price = Price(0xB1B2_B3B4);
    expected.cl_ord_id = ClOrdId(*b"MY-ORDER-1    ");
    assert_eq!(command(&enter(&order())), Ok(expected));
    expected.flags = ORDER_POST_ONLY;
    expected.side = Side::Sell;
    expected.time_in_force = TimeInForce::GoodTillCancelled;
    let time_in_force = TimeInForce::GoodTillCancelled;
    let post = NewOrder { post_only: true, side: Side::Sell, time_in_force, ..order() };
    assert_eq!(command(&enter(&post)), Ok(expected));
    let market = command(&enter(&NewOrder { price: None, ..order() })).unwrap();
    assert_eq!((market.order_type, market.price), (OrderType::Market, Price(0)));
    // Prices that only the engine can judge pass.
    let far = command(&enter(&NewOrder { price: Some(Price(i64::MAX - 1)), ..order() })).unwrap();
    assert_eq!((far.order_type, far.price), (OrderType::Limit, Price(i64::MAX - 1)));
    let mut out = Vec::new();
    encode_cancel(UserRefNum(3), Qty(4), &mut out).unwrap();
    let mut cancel = Command::new(CommandKind::Cancel);
    (cancel.user_ref, cancel.qty) = (UserRefNum(3), Qty(4));
    assert_eq!(command(&out), Ok(cancel));
}

/// The order's bytes with one place changed.
fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut message = enter(&order());
    message[at..at + bytes.len()].copy_from_slice(bytes);
    message
}

/// The order's bytes with another appendage.
fn with_elements(elements: &[u8]) -> Vec<u8> {
    let mut message = enter(&order());
    message.truncate(45);
    message.extend_from_slice(&(elements.len() as u16).to_be_bytes());
    message.extend_from_slice(elements);
    message
}

#[test]
fn what_is_not_served_is_refused_by_number() {
    let refused = |bytes: &[u8], reason| {
        let expected =
            RefusedRequest { user_ref: order().user_ref, cl_ord_id: order().cl_ord_id, reason };
        assert_eq!(command(bytes), Err(expected), "{}", bytes.escape_ascii());
    };
    refused(&changed(10, b"DOGEUSD "), RejectReason::UnknownInstrument);
    refused(&changed(18, &[0x80]), RejectReason::PriceTooHigh);
    for (at, codes) in [(5, b"TE?".as_slice()), (26, b"27E"), (27, b"AZ?"), (28, b"?")] {
        codes.iter().for_each(|&c| refused(&changed(at, &[c]), RejectReason::Unsupported));
    }
    refused(&changed(29, b"?"), RejectReason::Unsupported);
    b"HSREA?".iter().for_each(|&c| refused(&changed(30, &[c]), RejectReason::Unsupported));
    let changing: [&[u8]; 8] = [
        b"\x05\x0d\0\0\0\x01",         // random reserve
        b"\x02\x11I",                  // imbalance only
        b"\x02\x06P",                  // pegged to the other side
        b"\x05\x0f\0\0\0\x01",         // expires
        b"\x02\x0cX",                  // post only, unclear
        b"\x02\x1bS",                  // another side
        b"\x02\x1c\x01",               // another number space
        b"\x09\x09\0\0\0\0\0\0\0\x01", // discretion
    ];
    changing.iter().for_each(|e| refused(&with_elements(e), RejectReason::Unsupported));
    let neutral: [&[u8]; 5] =
        [b"\x05\x03\0\0\0\0", b"\x02\x06L", b"\x05\x02LIME", b"\x02\x0cN", b"\x03\xc8??"];
    let plain = command(&enter(&order())).unwrap();
    neutral.iter().for_each(|e| assert_eq!(command(&with_elements(e)), Ok(plain)));

    let others: [(&[u8], u32); 5] = [
        (b"M\0\0\0\x07S\0\0\0\x01", 7),
        (b"D\0\0\0\x07FIRM", 7),
        (b"E\0\0\0\x07FIRM", 7),
        (b"Q", 0),
        (b"X\0\0\0\x07\0\0\0\0\0\x03\x02\x1c\x01", 7),
    ];
    for (bytes, number) in others {
        let refused = command(bytes).unwrap_err();
        assert_eq!(refused.user_ref, UserRefNum(number));
        assert_eq!(refused.reason, RejectReason::Unsupported);
    }
    let mut replace = [b"U\0\0\0\x05".as_slice(), REF, LOTS, PRICE, b"0YN"].concat();
    replace.extend_from_slice(b"MY-ORDER-1    \0\0");
    assert_eq!(command(&replace).unwrap().orig_user_ref, UserRefNum(5));
    replace[13..21].copy_from_slice(&PRICE_MARKET.to_be_bytes());
    assert_eq!(command(&replace).unwrap().price, Price(0), "the engine knows the order's type");
}

#[test]
fn refuses_wrong_types_lengths_and_appendages() {
    assert_eq!(parse_inbound(&[]), Err(OuchError::Empty));
    assert_eq!(parse_inbound(b"A"), Err(OuchError::UnknownType(b'A')));
    assert_eq!(parse_outbound(b"O"), Err(OuchError::UnknownType(b'O')));
    assert_eq!((Inbound::LENGTHS.len(), Outbound::LENGTHS.len()), (8, 17));
    let short = |kind, len| Some(OuchError::Length { kind, len });
    for &(kind, len) in Inbound::LENGTHS {
        for cut in 1..len {
            let bytes = [&[kind], vec![b'S'; cut - 1].as_slice()].concat();
            assert_eq!(parse_inbound(&bytes).err(), short(kind, cut));
        }
    }
    for &(kind, len) in Outbound::LENGTHS {
        for cut in 1..len {
            let bytes = [&[kind], vec![b'S'; cut - 1].as_slice()].concat();
            assert_eq!(parse_outbound(&bytes).err(), short(kind, cut));
        }
    }
    let message = enter(&order());
    let appendage_missing = OuchError::Length { kind: b'O', len: 45 };
    assert_eq!(parse_inbound(&message[..45]), Err(appendage_missing));
    let malformed = OuchError::Appendage { kind: b'O' };
    assert_eq!(parse_inbound(&with_elements(&[1, 12])), Err(malformed));
    let mut side = encode(&report(ExecutionKind::Accepted)).unwrap();
    side[13] = b'X';
    assert_eq!(parse_outbound(&side), Err(OuchError::Field { kind: b'A' }));
}

fn orders() -> impl Strategy<Value = NewOrder> {
    let life = prop::sample::select(vec![
        TimeInForce::Day,
        TimeInForce::GoodTillCancelled,
        TimeInForce::ImmediateOrCancel,
    ]);
    let side = prop::sample::select(vec![Side::Buy, Side::Sell]);
    let price = prop::option::of((0..i64::MAX).prop_map(Price));
    (any::<u32>(), side, 0..=QTY_MAX, price, life, any::<bool>(), any::<[u8; 14]>()).prop_map(
        |(user_ref, side, qty, price, time_in_force, post_only, cl_ord_id)| NewOrder {
            user_ref: UserRefNum(user_ref),
            side,
            qty: Qty(qty),
            price,
            time_in_force,
            post_only,
            cl_ord_id: ClOrdId(cl_ord_id),
            ..order()
        },
    )
}

/// Every kind of report with its code set, and quantities and prices over their whole range.
fn reports() -> impl Strategy<Value = ExecutionReport> {
    let kinds = prop::sample::select(KINDS.to_vec());
    let codes = (
        prop::sample::select(RejectReason::ALL.to_vec()),
        prop::sample::select(CANCELS.to_vec()),
        prop::sample::select(LIQUIDITY.to_vec()),
        prop::sample::select(LIVES.to_vec()),
        prop::sample::select(TYPES.to_vec()),
    );
    (kinds, any::<(u32, u64, bool)>(), 0u8..8, 0..=QTY_MAX, 0..=PRICE_MAX, codes).prop_map(
        |(kind, (user_ref, number, flag), flags, qty, price, codes)| ExecutionReport {
            side: if flag { Side::Buy } else { Side::Sell },
            flags,
            reject: codes.0,
            cancel_reason: codes.1,
            liquidity: codes.2,
            time_in_force: codes.3,
            order_type: codes.4,
            user_ref: UserRefNum(user_ref),
            qty: Qty(qty),
            price: Price(price),
            order_ref: OrderRef(number),
            match_number: MatchNumber(number),
            ..report(kind)
        },
    )
}

const KINDS: [ExecutionKind; 11] = [
    ExecutionKind::Accepted,
    ExecutionKind::Rejected,
    ExecutionKind::Canceled,
    ExecutionKind::Executed,
    ExecutionKind::Replaced,
    ExecutionKind::CancelRejected,
    ExecutionKind::Restated,
    ExecutionKind::Triggered,
    ExecutionKind::TradeBroken,
    ExecutionKind::TradeCorrected,
    ExecutionKind::MassCanceled,
];

const CANCELS: [CancelReason; 12] = [
    CancelReason::Requested,
    CancelReason::ImmediateOrCancel,
    CancelReason::EndOfDay,
    CancelReason::NotEnough,
    CancelReason::SelfTrade,
    CancelReason::MassCancel,
    CancelReason::Disconnect,
    CancelReason::Expired,
    CancelReason::AuctionOver,
    CancelReason::Killed,
    CancelReason::Collar,
    CancelReason::Capacity,
];

const LIQUIDITY: [Liquidity; 6] = [
    Liquidity::Added,
    Liquidity::Removed,
    Liquidity::OpeningCross,
    Liquidity::ClosingCross,
    Liquidity::ResumingCross,
    Liquidity::IntradayCross,
];

const LIVES: [TimeInForce; 7] = [
    TimeInForce::Day,
    TimeInForce::GoodTillCancelled,
    TimeInForce::ImmediateOrCancel,
    TimeInForce::FillOrKill,
    TimeInForce::GoodTillDate,
    TimeInForce::AtTheOpen,
    TimeInForce::AtTheClose,
];

const TYPES: [OrderType; 8] = [
    OrderType::Limit,
    OrderType::Market,
    OrderType::MarketToLimit,
    OrderType::Stop,
    OrderType::StopLimit,
    OrderType::TrailingStop,
    OrderType::PegPrimary,
    OrderType::PegMid,
];

/// What the price field of an acceptance says.
fn price_field(report: &ExecutionReport) -> u64 {
    let peg = matches!(report.order_type, OrderType::PegPrimary | OrderType::PegMid);
    let limit = matches!(report.order_type, OrderType::Limit | OrderType::StopLimit);
    if limit || (peg && report.price.0 != 0) { report.price.0 as u64 } else { PRICE_MARKET }
}

/// The fields that say type and flags of an order.
fn assert_echo(
    (display, cross_type, life): (u8, u8, u8),
    appendage: &Appendage<'_>,
    report: &ExecutionReport,
) {
    let order_type = report.order_type;
    let peg = matches!(order_type, OrderType::PegPrimary | OrderType::PegMid);
    assert_eq!(display == b'N', peg || report.flags & ORDER_HIDDEN != 0);
    let cross = match report.time_in_force {
        TimeInForce::AtTheOpen => b'O',
        TimeInForce::AtTheClose => b'C',
        _ => b'N',
    };
    assert_eq!(cross_type, cross);
    let expected =
        if cross == b'N' { report.time_in_force } else { TimeInForce::ImmediateOrCancel };
    assert_eq!(time_in_force(life), Some(expected));
    let post = ORDER_POST_ONLY | ORDER_POST_ONLY_SLIDE;
    assert_eq!(appendage.post_only(), report.flags & post != 0);
    let of = |tag, code: &[u8]| appendage.get(tag) == Some(code);
    assert_eq!(of(tag::POST_ONLY, b"S"), report.flags & ORDER_POST_ONLY_SLIDE != 0);
    assert_eq!(of(tag::MARKET_TO_LIMIT, b"Y"), order_type == OrderType::MarketToLimit);
    assert_eq!(of(tag::STOP_TYPE, b"S"), order_type == OrderType::Stop);
    assert_eq!(of(tag::STOP_TYPE, b"L"), order_type == OrderType::StopLimit);
    assert_eq!(of(tag::STOP_TYPE, b"T"), order_type == OrderType::TrailingStop);
    assert_eq!(of(tag::PRICE_TYPE, b"R"), order_type == OrderType::PegPrimary);
    assert_eq!(of(tag::PRICE_TYPE, b"M"), order_type == OrderType::PegMid);
}

/// Compares what an answer says with the report it was made from.
fn assert_says(message: &Outbound<'_>, report: &ExecutionReport) {
    let (qty, price) = (report.qty.0 as u32, report.price.0 as u64);
    let (number, user_ref) = (report.order_ref.0, report.user_ref.0);
    match (message, report.kind) {
        (Outbound::OrderAccepted(m, appendage), ExecutionKind::Accepted) => {
            let said = (m.user_ref.get(), m.quantity.get(), m.price.get());
            assert_eq!(said, (user_ref, qty, price_field(report)));
            assert_eq!((Side::from(m.side), m.order_ref.get()), (report.side, number));
            assert_echo((m.display, m.cross_type, m.time_in_force), appendage, report);
        }
        (Outbound::OrderReplaced(m, appendage), ExecutionKind::Replaced) => {
            let said = (m.user_ref.get(), m.quantity.get(), m.price.get());
            assert_eq!(said, (user_ref, qty, price_field(report)));
            assert_eq!((Side::from(m.side), m.order_ref.get()), (report.side, number));
            assert_eq!(m.orig_user_ref.get(), report.orig_user_ref.0);
            assert_echo((m.display, m.cross_type, m.time_in_force), appendage, report);
        }
        (Outbound::OrderExecuted(m, _), ExecutionKind::Executed) => {
            assert_eq!((m.user_ref.get(), m.quantity.get(), m.price.get()), (user_ref, qty, price));
            assert_eq!(liquidity(m.liquidity), Some(report.liquidity));
            assert_eq!(m.match_number.get(), number);
        }
        (Outbound::OrderCanceled(m, _), ExecutionKind::Canceled) => {
            assert_eq!((m.user_ref.get(), m.quantity.get()), (user_ref, qty));
            assert_eq!(cancel_reason(m.reason), Some(report.cancel_reason));
        }
        (Outbound::OrderRejected(m, _), ExecutionKind::Rejected) => {
            assert_eq!((m.user_ref.get(), m.cl_ord_id), (user_ref, report.cl_ord_id.0));
            assert_eq!(reject_reason(m.reason.get()), Some(report.reject));
        }
        (Outbound::CancelReject(m, _), ExecutionKind::CancelRejected) => {
            assert_eq!(m.user_ref.get(), user_ref);
        }
        (Outbound::OrderRestated(m, appendage), ExecutionKind::Restated) => {
            assert_eq!((m.user_ref.get(), m.reason), (user_ref, b'P'));
            assert_eq!(appendage.number(tag::DISPLAY_PRICE), Some(price));
        }
        (Outbound::OrderRestated(m, appendage), ExecutionKind::Triggered) => {
            assert_eq!((m.user_ref.get(), m.reason), (user_ref, b'S'));
            assert_eq!(appendage.iter().count(), 0);
        }
        (Outbound::BrokenTrade(m, appendage), ExecutionKind::TradeBroken) => {
            assert_eq!((m.user_ref.get(), m.match_number.get()), (user_ref, number));
            assert_eq!((m.reason, appendage.iter().count()), (b'S', 0));
        }
        (Outbound::BrokenTrade(m, appendage), ExecutionKind::TradeCorrected) => {
            assert_eq!((m.user_ref.get(), m.match_number.get()), (user_ref, number));
            assert_eq!(m.reason, b'c');
            assert_eq!(appendage.number(tag::RIGHT_QUANTITY), Some(qty.into()));
            assert_eq!(appendage.number(tag::RIGHT_PRICE), Some(price));
        }
        (Outbound::MassCancelResponse(m, appendage), ExecutionKind::MassCanceled) => {
            assert_eq!((m.user_ref.get(), &m.symbol), (user_ref, b"BTCUSD  "));
            assert_eq!(appendage.number(tag::ORDERS), Some(qty.into()));
        }
        (other, kind) => panic!("{kind:?} became {other:?}"),
    }
}

proptest! {
    #[test]
    fn orders_round_trip(order in orders()) {
        let bytes = enter(&order);
        let command = command(&bytes).unwrap();
        prop_assert_eq!(command.kind, CommandKind::NewOrder);
        prop_assert_eq!((command.user_ref, command.cl_ord_id), (order.user_ref, order.cl_ord_id));
        prop_assert_eq!((command.side, command.qty), (order.side, order.qty));
        prop_assert_eq!(command.time_in_force, order.time_in_force);
        prop_assert_eq!(command.post_only(), order.post_only);
        prop_assert_eq!(command.price, order.price.unwrap_or(Price(0)));
        prop_assert_eq!(command.order_type == OrderType::Market, order.price.is_none());
        let mut again = Vec::new();
        parse_inbound(&bytes).unwrap().encode(&mut again);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn reports_round_trip(report in reports()) {
        let bytes = encode(&report).unwrap();
        let message = parse_outbound(&bytes).unwrap();
        assert_says(&message, &report);
        let mut again = Vec::new();
        message.encode(&mut again);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn mutated_messages_never_panic(
        report in reports(), order in orders(), at in any::<prop::sample::Index>(), byte: u8,
        extra in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        for mut bytes in [encode(&report).unwrap(), enter(&order)] {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.extend_from_slice(&extra);
            let mut again = Vec::new();
            if let Ok(message) = parse_outbound(&bytes) {
                message.encode(&mut again);
                prop_assert_eq!(&again, &bytes);
                again.clear();
            }
            if let Ok(message) = parse_inbound(&bytes) {
                message.encode(&mut again);
                prop_assert_eq!(&again, &bytes);
                let _ = to_command(&message, &SymbolTable::new(&instruments()), NOW);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        inbound in prop::sample::select(Inbound::LENGTHS),
        outbound in prop::sample::select(Outbound::LENGTHS),
        mut body in prop::collection::vec(any::<u8>(), 80),
        tail in prop::collection::vec(0u8..4, 0..12),
    ) {
        let _ = (parse_inbound(&body), parse_outbound(&body));
        for (kind, len) in [inbound, outbound] {
            body[0] = kind;
            let bytes = [&body[..len], &[0, tail.len() as u8], &tail].concat();
            if let Ok(message) = parse_inbound(&bytes) {
                let _ = to_command(&message, &SymbolTable::new(&instruments()), NOW);
            }
            let _ = parse_outbound(&bytes);
            let _ = (parse_inbound(&body[..len]), parse_outbound(&body[..len]));
        }
    }
}
