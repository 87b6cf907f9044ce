//! The samples, shared by tests and the cost example. `|` stands for the separator.

#![allow(dead_code, reason = "each user takes what it needs")]

use fix::app::ledger::{Asked, Status};
use fix::app::{Execution, Symbols, report};
use fix::session::{MemoryStore, Outbound};
use fix::{Version, value};
use types::{
    CancelReason, ClOrdId, ExecutionKind, Instrument, InstrumentId, Liquidity, MatchNumber, Nanos,
    OrderRef, OrderType, Price, Qty, RejectReason, Side, Symbol, TimeInForce,
};

/// 185 bytes, 20 fields.
pub const NEW_ORDER: &str = include_str!("../../vectors/new-order-single.fix").trim_ascii();
/// 264 bytes, 28 fields.
pub const EXECUTION_REPORT: &str = include_str!("../../vectors/execution-report.fix").trim_ascii();

/// A text with separators in place of bars.
pub fn wire(text: &str) -> Vec<u8> {
    text.replace('|', "\x01").into_bytes()
}

/// A text with BodyLength and CheckSum set right; its first field stays.
pub fn repaired(text: &str) -> String {
    let (begin, rest) = text.split_once('|').unwrap();
    let (length, rest) = rest.split_once('|').unwrap();
    let body = match rest.rfind("|10=") {
        Some(at) if length.starts_with("9=") => &rest[..=at],
        _ => rest,
    };
    let head = format!("{begin}|9={}|{body}", body.len());
    let sum = fix::checksum(&wire(&head));
    format!("{head}10={sum:03}|")
}

/// What the samples are about.
pub fn instrument() -> Instrument {
    Instrument {
        id: InstrumentId(1),
        symbol: Symbol::new("BTCUSD").unwrap(),
        tick: Price(100),
        price_max: Price(4_000_000_000),
        qty_max: Qty(4_000_000_000),
        lot_decimals: 8,
    }
}

fn time(text: &str) -> Nanos {
    value::timestamp(text.as_bytes()).unwrap()
}

/// When the report is sent.
pub fn now() -> Nanos {
    time("20261122-09:30:00.251")
}

/// What the report tells.
pub fn execution() -> Execution {
    Execution {
        kind: Some(ExecutionKind::Executed),
        position: 4_711,
        cl_ord_id: ClOrdId(*b"A17-043       "),
        original: Some(ClOrdId(*b"A17-042       ")),
        status: Status::PartiallyFilled,
        instrument: InstrumentId(1),
        side: Side::Sell,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        order_ref: OrderRef(1_000_042),
        qty: Qty(2_500),
        leaves: Qty(1_300),
        cum: Qty(1_200),
        value: 783_505_000 * 1_200,
        price: Price(783_505_000),
        last_qty: Qty(1_200),
        last_price: Price(783_505_000),
        match_number: MatchNumber(81_504),
        liquidity: Liquidity::Added,
        reject: RejectReason::None,
        cancel_reason: CancelReason::None,
        asked: Asked::Order,
        at: time("20261122-09:30:00.250"),
    }
}

/// A session that has sent 4710 messages.
pub fn outbound() -> Outbound<MemoryStore> {
    let mut store = MemoryStore::new(1_024, 1 << 20);
    fix::session::Store::skip_to(&mut store, 4_711);
    let mut outbound = Outbound::new(Version::Fix50Sp2, "FAIR", "MEM7", store, 64 << 10);
    outbound.connect();
    outbound
}

/// Sends the report.
pub fn encode(outbound: &mut Outbound<MemoryStore>, out: &mut Vec<u8>) {
    let execution = execution();
    let symbols = Symbols::new(&[instrument()]);
    outbound.send(now(), report::msg_type(&execution), out, |writer| {
        report::write(Version::Fix50Sp2, &execution, &symbols, writer);
    });
}
