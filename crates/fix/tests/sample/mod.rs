//! The crate's samples, and what tests do with them. `|` stands for the separator.

#![allow(dead_code, unused_imports, reason = "each user takes what it needs")]

use fix::Version;
use fix::app::{Symbols, report};
use fix::session::{MemoryStore, Outbound};
use types::{
    AccountId, CancelReason, ClOrdId, ExecutionKind, ExecutionReport, FeedSeq, InstrumentId,
    Liquidity, MatchNumber, OrderRef, OrderTerms, OrderType, Price, Qty, RejectReason, Side,
    TimeInForce, UserRefNum,
};

pub use fix::sample::{EXECUTION_REPORT, NEW_ORDER, execution, instrument, now, outbound, wire};

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

/// Sends the report.
pub fn encode(outbound: &mut Outbound<MemoryStore>, out: &mut Vec<u8>) {
    let execution = execution();
    let symbols = Symbols::new(&[instrument()]);
    outbound.send(now(), report::msg_type(&execution), out, |writer| {
        report::write(Version::Fix50Sp2, &execution, &symbols, writer);
    });
}

/// A report about order `user_ref`.
pub fn told(kind: ExecutionKind, user_ref: u32, id: &[u8; 14]) -> ExecutionReport {
    ExecutionReport {
        kind,
        side: Side::Buy,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        flags: 0,
        reject: RejectReason::None,
        cancel_reason: CancelReason::None,
        liquidity: Liquidity::None,
        account: AccountId(7),
        instrument: InstrumentId(1),
        user_ref: UserRefNum(user_ref),
        orig_user_ref: UserRefNum(0),
        session_seq: 0,
        qty: Qty(100),
        leaves: Qty(100),
        price: Price(1_000_000),
        order_ref: OrderRef(u64::from(user_ref) + 1_000),
        match_number: MatchNumber(0),
        public_after: FeedSeq(0),
        t_seq: now(),
        cl_ord_id: ClOrdId(*id),
        reserved2: [0; 2],
        terms: OrderTerms::default(),
    }
}
