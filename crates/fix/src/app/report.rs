//! Executions and refusals in the words of each version.
//!
//! ExecID(17) is `E` and the position in the account's stream, for trades `T`, the match number and
//! the side, so that a correction can name what it corrects; both are the same whichever gateway
//! sends them. On a drop-copy session `E`, the position and the number of the account.

use types::{
    AccountId, CancelReason, ExecutionKind, Liquidity, ORDER_HIDDEN, ORDER_POST_ONLY,
    ORDER_POST_ONLY_SLIDE, OrderRef, OrderTerms, OrderType, Price, RejectReason, Side, TimeInForce,
};

use super::ledger::{Asked, Execution, Status};
use super::request::{Refusal, peg_offset};
use super::{
    BUSINESS_MESSAGE_REJECT, EXECUTION_REPORT, ORDER_CANCEL_REJECT, ORDER_MASS_CANCEL_REPORT,
    Symbols,
};
use crate::encode::{Figure, Writer};
use crate::session::MsgType;
use crate::tag;
use crate::value::Places;
use crate::version::Version;
use crate::view::Message;

/// MsgType(35) of the message that tells an execution.
pub fn msg_type(execution: &Execution) -> MsgType {
    match execution.kind {
        Some(ExecutionKind::CancelRejected) if execution.asked == Asked::Mass => {
            ORDER_MASS_CANCEL_REPORT
        }
        Some(ExecutionKind::CancelRejected) => ORDER_CANCEL_REJECT,
        Some(ExecutionKind::Rejected) if execution.asked == Asked::Replace => ORDER_CANCEL_REJECT,
        Some(ExecutionKind::MassCanceled) => ORDER_MASS_CANCEL_REPORT,
        _ => EXECUTION_REPORT,
    }
}

/// Writes the body of [`msg_type`]'s message.
#[inline]
pub fn write(version: Version, execution: &Execution, symbols: &Symbols, writer: &mut Writer<'_>) {
    match msg_type(execution) {
        ORDER_CANCEL_REJECT => cancel_reject(version, execution, writer),
        ORDER_MASS_CANCEL_REPORT => mass_cancel_report(version, execution, writer),
        _ => writer.own(|writer| execution_report(version, execution, symbols, writer)),
    }
}

/// Writes OrderID(37): the order's public reference.
#[inline]
fn order_id(order_ref: OrderRef, writer: &mut Writer<'_>) {
    if order_ref.0 == 0 {
        writer.text(tag::ORDER_ID, b"NONE");
    } else {
        writer.uint(tag::ORDER_ID, order_ref.0);
    }
}

/// Writes ClOrdID(11) and OrigClOrdID(41). An identifier that came over another door (OUCH) may
/// hold any bytes.
#[inline]
fn identifiers(execution: &Execution, writer: &mut Writer<'_>) {
    writer.padded(tag::CL_ORD_ID, &execution.cl_ord_id.0);
    if let Some(original) = &execution.original {
        writer.padded(tag::ORIG_CL_ORD_ID, &original.0);
    }
}

#[inline]
fn trade_suffix(side: Side) -> &'static [u8] {
    match side {
        Side::Buy => b"B",
        Side::Sell => b"S",
    }
}

/// Writes ExecID(17) of a copy that is no trade. Account and position are both part of it, as
/// copies come from the streams of several accounts.
#[cold]
#[inline(never)]
fn copied_id(execution: &Execution, writer: &mut Writer<'_>) {
    let (mut suffix, mut at, mut rest) = ([b'-'; 6], 6, execution.account.0);
    while rest > 0 && at > 1 {
        at -= 1;
        suffix[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let suffix = suffix.get(at - 1..).unwrap_or(&[]);
    writer.id(tag::EXEC_ID, b'E', execution.position, suffix);
}

/// Writes ExecID(17) and what goes with it: ExecTransType(20) in FIX 4.2, ExecRefID(19) of a broken or
/// corrected trade, TrdMatchID(880) in FIX 5.0 SP2.
#[inline]
fn exec_ids(version: Version, execution: &Execution, writer: &mut Writer<'_>) {
    let suffix = trade_suffix(execution.side);
    let number = execution.match_number.0;
    match execution.kind {
        Some(ExecutionKind::Executed) => writer.id(tag::EXEC_ID, b'T', number, suffix),
        None => writer.id(tag::EXEC_ID, b'S', execution.position, b""),
        Some(_) if execution.account != AccountId(0) => copied_id(execution, writer),
        Some(_) => writer.id(tag::EXEC_ID, b'E', execution.position, b""),
    }
    let (trade, changed) = match execution.kind {
        Some(ExecutionKind::TradeBroken) => (b'1', true),
        Some(ExecutionKind::TradeCorrected) => (b'2', true),
        None => (b'3', false),
        _ => (b'0', false),
    };
    if version == Version::Fix42 {
        writer.char(tag::EXEC_TRANS_TYPE, trade);
    }
    if changed {
        writer.id(tag::EXEC_REF_ID, b'T', number, suffix);
    }
    if version == Version::Fix50Sp2 && number != 0 {
        writer.uint(tag::TRD_MATCH_ID, number);
    }
}

/// OrdStatus(39) of the order, by the codes of `version`.
#[inline]
fn status(version: Version, execution: &Execution) -> u8 {
    match execution.status {
        Status::New if version == Version::Fix42 && execution.original.is_some() => b'5',
        Status::Pending | Status::New => b'0',
        Status::PartiallyFilled => b'1',
        Status::Filled => b'2',
        Status::Canceled => b'4',
        Status::Expired => b'C',
        Status::Rejected => b'8',
    }
}

/// ExecType(150) of the event, by the codes of `version`.
#[inline]
fn exec_type(version: Version, execution: &Execution) -> u8 {
    let old = version == Version::Fix42;
    let Some(kind) = execution.kind else {
        return if old { status(version, execution) } else { b'I' };
    };
    match kind {
        ExecutionKind::Accepted => b'0',
        ExecutionKind::Executed if !old => b'F',
        ExecutionKind::Executed if execution.leaves.0 == 0 => b'2',
        ExecutionKind::Executed => b'1',
        ExecutionKind::Replaced => b'5',
        ExecutionKind::Rejected | ExecutionKind::CancelRejected | ExecutionKind::MassCanceled => {
            b'8'
        }
        // Part of the open quantity went: the order goes on.
        ExecutionKind::Canceled if execution.leaves.0 > 0 => b'D',
        ExecutionKind::Canceled if execution.status == Status::Expired => b'C',
        ExecutionKind::Canceled => b'4',
        ExecutionKind::Restated => b'D',
        // The older versions have no word for it.
        ExecutionKind::Triggered if version != Version::Fix50Sp2 => b'D',
        ExecutionKind::Triggered => b'L',
        ExecutionKind::TradeBroken if !old => b'H',
        ExecutionKind::TradeCorrected if !old => b'G',
        ExecutionKind::TradeBroken
        | ExecutionKind::TradeCorrected
        | ExecutionKind::SessionSlot
        | ExecutionKind::StreamReference => status(version, execution),
    }
}

/// OrdType(40) of an order type, by the codes of `version`.
#[inline]
fn order_type(version: Version, order_type: OrderType) -> u8 {
    match order_type {
        OrderType::Market => b'1',
        // FIX 4.2 has no word for it.
        OrderType::MarketToLimit if version == Version::Fix42 => b'1',
        OrderType::MarketToLimit => b'K',
        OrderType::Limit => b'2',
        OrderType::Stop => b'3',
        OrderType::StopLimit => b'4',
        OrderType::TrailingStop | OrderType::PegPrimary | OrderType::PegMid => b'P',
    }
}

/// TimeInForce(59) of the order; `None`: the field is left out.
#[inline]
fn life(version: Version, life: TimeInForce) -> Option<u8> {
    Some(match life {
        TimeInForce::Day => b'0',
        TimeInForce::GoodTillCancelled => b'1',
        TimeInForce::AtTheOpen => b'2',
        TimeInForce::ImmediateOrCancel => b'3',
        TimeInForce::FillOrKill => b'4',
        TimeInForce::GoodTillDate => b'6',
        TimeInForce::AtTheClose if version == Version::Fix42 => return None,
        TimeInForce::AtTheClose => b'7',
    })
}

#[inline]
fn execution_report(
    version: Version,
    execution: &Execution,
    symbols: &Symbols,
    writer: &mut Writer<'_>,
) {
    order_id(execution.order_ref, writer);
    identifiers(execution, writer);
    exec_ids(version, execution, writer);
    writer.char(tag::EXEC_TYPE, exec_type(version, execution));
    writer.char(tag::ORD_STATUS, status(version, execution));
    if execution.status == Status::Rejected {
        let reason = order_reject_reason(version, execution.reject);
        writer.uint(tag::ORD_REJ_REASON, u64::from(reason));
    }
    if let Some(reason) = restatement(version, execution) {
        writer.char(tag::EXEC_RESTATEMENT_REASON, reason);
    }
    match symbols.name(execution.instrument) {
        Some(symbol) => writer.padded(tag::SYMBOL, &symbol.0),
        None => writer.text(tag::SYMBOL, b"UNKNOWN"),
    }
    writer.char(tag::SIDE, b'1' + execution.side as u8);
    writer.uint(tag::ORDER_QTY, execution.qty.0);
    writer.char(tag::ORD_TYPE, order_type(version, execution.order_type));
    // Often the order's price, the trade's and the average are one.
    let figure = Figure::new(execution.price);
    if execution.price != Price(0) {
        writer.figure(tag::PRICE, &figure);
    }
    terms(version, execution, writer);
    let trade = matches!(
        execution.kind,
        Some(ExecutionKind::Executed | ExecutionKind::TradeBroken | ExecutionKind::TradeCorrected)
    );
    if trade {
        writer.uint(tag::LAST_QTY, execution.last_qty.0);
        if execution.last_price == execution.price {
            writer.figure(tag::LAST_PX, &figure);
        } else {
            writer.price(tag::LAST_PX, execution.last_price);
        }
        if let Some(code) = liquidity(version, execution.liquidity) {
            writer.char(tag::LAST_LIQUIDITY_IND, code);
        }
    }
    writer.uint(tag::LEAVES_QTY, execution.leaves.0);
    writer.uint(tag::CUM_QTY, execution.cum.0);
    average(execution, &figure, writer);
    writer.stamp(tag::TRANSACT_TIME, execution.at);
    if let Some(text) = explanation(version, execution) {
        writer.text(tag::TEXT, text.as_bytes());
    }
}

/// Writes the order's time in force and the other terms it was entered with.
#[inline]
fn terms(version: Version, execution: &Execution, writer: &mut Writer<'_>) {
    if let Some(code) = life(version, execution.time_in_force) {
        writer.char(tag::TIME_IN_FORCE, code);
    }
    if !plain(execution) {
        rare_terms(version, execution, writer);
    }
}

/// Whether the order has only the terms that most orders have.
#[inline]
fn plain(execution: &Execution) -> bool {
    use OrderType::{Limit, Market};
    matches!(execution.order_type, Limit | Market)
        && execution.flags == 0
        && execution.terms.is_none()
}

/// Echoes the terms that only some orders have, in the fields by which they are asked for.
#[cold]
#[inline(never)]
fn rare_terms(version: Version, execution: &Execution, writer: &mut Writer<'_>) {
    let OrderTerms { display_qty, min_qty, stop_price, expire_at } = execution.terms;
    let exec_inst = match execution.order_type {
        OrderType::PegPrimary => Some(b'R'),
        OrderType::PegMid => Some(b'M'),
        // FIX 4.2 has no word for it.
        OrderType::TrailingStop if version != Version::Fix42 => Some(b'a'),
        _ => None,
    };
    let post_only = execution.flags & (ORDER_POST_ONLY | ORDER_POST_ONLY_SLIDE) != 0;
    if let Some(code) = exec_inst.or(post_only.then_some(b'6')) {
        writer.char(tag::EXEC_INST, code);
    }
    match execution.order_type {
        OrderType::Stop | OrderType::StopLimit => writer.price(tag::STOP_PX, stop_price),
        OrderType::PegPrimary | OrderType::TrailingStop if stop_price != Price(0) => {
            let offset = peg_offset(execution.order_type, execution.side, stop_price);
            writer.price(tag::PEG_DIFFERENCE, offset);
        }
        _ => {}
    }
    if min_qty != 0 {
        writer.uint(tag::MIN_QTY, u64::from(min_qty));
    }
    let displayed = match version {
        Version::Fix50Sp2 => tag::DISPLAY_QTY,
        _ => tag::MAX_FLOOR,
    };
    if display_qty != 0 || execution.flags & ORDER_HIDDEN != 0 {
        writer.uint(displayed, u64::from(display_qty));
    }
    if execution.time_in_force == TimeInForce::GoodTillDate {
        writer.stamp(tag::EXPIRE_TIME, expire_at);
    }
}

/// AvgPx(6) with up to eight decimals, cut off. `figure`: of the order's price.
#[inline]
fn average(execution: &Execution, figure: &Figure, writer: &mut Writer<'_>) {
    let (cum, value) = (execution.cum.0, execution.value);
    if cum == 0 {
        return writer.char(tag::AVG_PX, b'0');
    }
    if i128::from(figure.price.0) * i128::from(cum) == value {
        return writer.figure(tag::AVG_PX, figure);
    }
    let (value, places) = match u64::try_from(value) {
        // The usual case, in 64 bits: both factors of each product have at most 32.
        Ok(value) if cum <= u64::from(u32::MAX) => {
            let (whole, rest) = (value / cum, value % cum);
            let whole = i64::try_from(whole).unwrap_or(i64::MAX);
            let part = (rest * 10_000 / cum) as i64;
            match rest {
                0 => (whole, Places::Four),
                _ => (whole.saturating_mul(10_000).saturating_add(part), Places::Eight),
            }
        }
        _ => {
            let value = value.saturating_mul(10_000) / i128::from(cum);
            (i64::try_from(value).unwrap_or(i64::MAX), Places::Eight)
        }
    };
    writer.decimal(tag::AVG_PX, value, places);
}

/// LastLiquidityInd(851) of a trade; `None`: the version has no code for it.
fn liquidity(version: Version, liquidity: Liquidity) -> Option<u8> {
    match liquidity {
        _ if version == Version::Fix42 => None,
        Liquidity::None => None,
        Liquidity::Added => Some(b'1'),
        Liquidity::Removed => Some(b'2'),
        // FIX 4.4 has no word for auctions.
        _ if version == Version::Fix44 => None,
        _ => Some(b'4'),
    }
}

/// ExecRestatementReason(378) of a change told with ExecType(150) D; `None`: the field is left out.
fn restatement(version: Version, execution: &Execution) -> Option<u8> {
    match execution.kind? {
        ExecutionKind::Restated => Some(b'3'),
        ExecutionKind::Canceled if execution.leaves.0 > 0 => Some(b'5'),
        ExecutionKind::Triggered if version == Version::Fix42 => Some(b'4'),
        ExecutionKind::Triggered if version == Version::Fix44 => Some(b'8'),
        _ => None,
    }
}

/// OrdRejReason(103); codes a version does not have become its most general one.
pub fn order_reject_reason(version: Version, reason: RejectReason) -> u8 {
    let code = match reason {
        RejectReason::UnknownInstrument => 1,
        RejectReason::MarketClosed | RejectReason::Halted | RejectReason::NotInThisPhase => 2,
        RejectReason::OrderQuantityLimit
        | RejectReason::OrderNotionalLimit
        | RejectReason::OpenOrdersLimit
        | RejectReason::PositionLimit
        | RejectReason::CreditLimit
        | RejectReason::MessageRate
        | RejectReason::ShardAllotment
        | RejectReason::PriceCollar
        | RejectReason::FatFinger => 3,
        RejectReason::UnknownOrder => 5,
        RejectReason::DuplicateClOrdId | RejectReason::DuplicateOrder => 6,
        RejectReason::Unsupported => 11,
        RejectReason::InvalidQuantity | RejectReason::InvalidQuantityTerms => 13,
        _ => 99,
    };
    general(version, code)
}

fn general(version: Version, code: u8) -> u8 {
    if version == Version::Fix42 && code > 6 { 0 } else { code }
}

/// CxlRejReason(102) of a refused cancel or replace, by the codes of `version`.
fn cancel_reject_reason(version: Version, reason: RejectReason) -> u8 {
    match reason {
        RejectReason::UnknownOrder => 1,
        RejectReason::NothingLeft => 0,
        _ if version == Version::Fix42 => 2,
        _ => 99,
    }
}

/// Text(58): the reason of a refusal or cancellation in the exchange's words; `None`: there is
/// none.
fn explanation(version: Version, execution: &Execution) -> Option<&'static str> {
    if execution.reject != RejectReason::None {
        return Some(refused_for(execution));
    }
    if execution.kind == Some(ExecutionKind::Triggered) && version != Version::Fix50Sp2 {
        return Some("Stop triggered");
    }
    match execution.cancel_reason {
        CancelReason::None | CancelReason::Requested => None,
        CancelReason::ImmediateOrCancel => Some("Not filled at once"),
        CancelReason::EndOfDay => Some("End of the trading day"),
        CancelReason::NotEnough => Some("Quantity not available"),
        CancelReason::SelfTrade => Some("Self-trade prevention"),
        CancelReason::MassCancel => Some("Mass cancel"),
        CancelReason::Disconnect => Some("Session lost"),
        CancelReason::Expired => Some("Expired"),
        CancelReason::AuctionOver => Some("Auction over"),
        CancelReason::Killed => Some("Kill switch"),
        CancelReason::Collar => Some("Price collar"),
        CancelReason::Capacity => Some("Capacity reached"),
        CancelReason::Delisted => Some("Instrument is no longer traded"),
        CancelReason::TickSize => Some("Price is off the new tick"),
    }
}

/// Text(58) of a reject reason: a phrase for people.
pub fn reject_text(reason: RejectReason) -> &'static str {
    match reason {
        RejectReason::None => "",
        RejectReason::UnknownInstrument => "Unknown symbol",
        RejectReason::InvalidQuantity => "Invalid quantity",
        RejectReason::InvalidPrice => "Price is not a multiple of the tick",
        RejectReason::PriceTooHigh => "Price too high",
        RejectReason::PostOnlyWouldTrade => "Post-only order would have traded",
        RejectReason::UnknownOrder => "Unknown order",
        RejectReason::MarketClosed => "Market closed",
        RejectReason::CapacityReached => "Capacity reached",
        RejectReason::NothingLeft => "Nothing would be left open",
        RejectReason::Unsupported => "Unsupported combination of terms",
        RejectReason::NotInThisPhase => "Not taken in this phase",
        RejectReason::Halted => "Trading is halted",
        RejectReason::PriceCollar => "Price outside the collar",
        RejectReason::FatFinger => "Price too far from the market",
        RejectReason::OrderQuantityLimit => "Order quantity limit",
        RejectReason::OrderNotionalLimit => "Order value limit",
        RejectReason::OpenOrdersLimit => "Open orders limit",
        RejectReason::PositionLimit => "Position limit",
        RejectReason::CreditLimit => "Credit limit",
        RejectReason::MessageRate => "Message rate limit",
        RejectReason::DuplicateClOrdId => "ClOrdID is that of another order",
        RejectReason::Killed => "Blocked by kill switch",
        RejectReason::InvalidStopPrice => "Invalid stop price",
        RejectReason::InvalidQuantityTerms => "Invalid MinQty or displayed quantity",
        RejectReason::InvalidExpiry => "Invalid expiry",
        RejectReason::DuplicateOrder => "Order number in use",
        RejectReason::ShardAllotment => "Share of a limit used up here, try again",
    }
}

/// Text(58) of a refusal, in the words of what was asked for: the engine has one reason for StopPx(99)
/// and PegOffsetValue(211).
fn refused_for(execution: &Execution) -> &'static str {
    use OrderType::{PegMid, PegPrimary, TrailingStop};
    match (execution.reject, execution.order_type) {
        (RejectReason::InvalidStopPrice, PegPrimary | PegMid | TrailingStop) => {
            "Invalid PegOffsetValue"
        }
        (reason, _) => reject_text(reason),
    }
}

fn cancel_reject(version: Version, execution: &Execution, writer: &mut Writer<'_>) {
    order_id(execution.order_ref, writer);
    let original = execution.original.unwrap_or(execution.cl_ord_id);
    identifiers(&Execution { original: Some(original), ..*execution }, writer);
    writer.char(tag::ORD_STATUS, status(version, &Execution { original: None, ..*execution }));
    writer.char(
        tag::CXL_REJ_RESPONSE_TO,
        if execution.asked == Asked::Replace { b'2' } else { b'1' },
    );
    // The engine forgets orders that are done, the ledger does not at once.
    let done = matches!(execution.status, Status::Filled | Status::Canceled | Status::Expired);
    let (reason, text) = match execution.reject {
        RejectReason::UnknownOrder if done => (0, Refusal::TOO_LATE.text),
        reason => (cancel_reject_reason(version, reason), refused_for(execution)),
    };
    writer.uint(tag::CXL_REJ_REASON, u64::from(reason));
    writer.stamp(tag::TRANSACT_TIME, execution.at);
    writer.foreign(tag::TEXT, text.as_bytes());
}

fn mass_cancel_report(version: Version, execution: &Execution, writer: &mut Writer<'_>) {
    writer.padded(tag::CL_ORD_ID, &execution.cl_ord_id.0);
    writer.id(tag::ORDER_ID, b'E', execution.position, b"");
    if version == Version::Fix50Sp2 {
        writer.id(tag::MASS_ACTION_REPORT_ID, b'E', execution.position, b"");
    }
    let kind = if execution.instrument.0 == 0 { b'7' } else { b'1' };
    writer.char(tag::MASS_CANCEL_REQUEST_TYPE, kind);
    let refused = execution.reject != RejectReason::None;
    writer.char(tag::MASS_CANCEL_RESPONSE, if refused { b'0' } else { kind });
    if refused {
        let reason = match execution.reject {
            RejectReason::UnknownInstrument => b'1',
            RejectReason::MarketClosed => b'6',
            _ => b'0',
        };
        writer.char(tag::MASS_CANCEL_REJECT_REASON, reason);
    }
    writer.uint(tag::TOTAL_AFFECTED_ORDERS, execution.cum.0);
    writer.stamp(tag::TRANSACT_TIME, execution.at);
    writer.foreign(tag::TEXT, reject_text(execution.reject).as_bytes());
}

/// MsgType(35) of the message that refuses a request before it reaches the engine.
pub fn refusal_type(message: &Message<'_>) -> MsgType {
    match message.msg_type() {
        b"D" | b"H" => EXECUTION_REPORT,
        b"F" | b"G" => ORDER_CANCEL_REJECT,
        _ => BUSINESS_MESSAGE_REJECT,
    }
}

/// Writes the body of [`refusal_type`]'s message, which echoes the fields of the request as they
/// were written. `known`: status of the order that a cancel or replace names, if the order is
/// known.
pub fn write_refusal(
    version: Version,
    message: &Message<'_>,
    refusal: &Refusal,
    known: Option<&Execution>,
    now: types::Nanos,
    writer: &mut Writer<'_>,
) {
    let echo = |tag: tag::Tag, writer: &mut Writer<'_>| {
        writer.foreign(tag, message.get(tag.number).unwrap_or(&[]));
    };
    let seq = u64::from(message.seq_num().unwrap_or(0));
    let general_answer = *refusal == Refusal::UNSUPPORTED_TYPE;
    match refusal_type(message) {
        EXECUTION_REPORT if !general_answer => {
            let asked = message.msg_type() == b"H";
            writer.text(tag::ORDER_ID, b"NONE");
            echo(tag::CL_ORD_ID, writer);
            // Outside the stream: the request's own number makes it unique within a session.
            writer.id(tag::EXEC_ID, b'R', seq, b"");
            if version == Version::Fix42 {
                writer.char(tag::EXEC_TRANS_TYPE, if asked { b'3' } else { b'0' });
            }
            let kind = if asked && version != Version::Fix42 { b'I' } else { b'8' };
            writer.char(tag::EXEC_TYPE, kind);
            writer.char(tag::ORD_STATUS, b'8');
            writer.uint(tag::ORD_REJ_REASON, u64::from(general(version, refusal.order)));
            for tag in [tag::SYMBOL, tag::SIDE, tag::ORDER_QTY, tag::ORD_TYPE] {
                echo(tag, writer);
            }
            writer.char(tag::LEAVES_QTY, b'0');
            writer.char(tag::CUM_QTY, b'0');
            writer.char(tag::AVG_PX, b'0');
            writer.stamp(tag::TRANSACT_TIME, now);
        }
        ORDER_CANCEL_REJECT => {
            order_id(known.map_or(OrderRef(0), |order| order.order_ref), writer);
            echo(tag::CL_ORD_ID, writer);
            echo(tag::ORIG_CL_ORD_ID, writer);
            let standing = known.map(|order| Execution { original: None, ..*order });
            writer.char(tag::ORD_STATUS, standing.map_or(b'8', |order| status(version, &order)));
            let replace = message.msg_type() == b"G";
            writer.char(tag::CXL_REJ_RESPONSE_TO, if replace { b'2' } else { b'1' });
            let old = version == Version::Fix42 && refusal.cancel > 3;
            writer.uint(tag::CXL_REJ_REASON, if old { 2 } else { u64::from(refusal.cancel) });
            writer.stamp(tag::TRANSACT_TIME, now);
        }
        _ => {
            writer.uint(tag::REF_SEQ_NUM, seq);
            writer.foreign(tag::REF_MSG_TYPE, message.msg_type());
            writer.foreign(tag::BUSINESS_REJECT_REF_ID, reference(message));
            writer.uint(tag::BUSINESS_REJECT_REASON, u64::from(refusal.business));
        }
    }
    writer.text(tag::TEXT, refusal.text.as_bytes());
}

/// The identifier of a request of any type; empty when it has none.
fn reference<'a>(message: &Message<'a>) -> &'a [u8] {
    let ids = [
        tag::CL_ORD_ID,
        tag::MD_REQ_ID,
        tag::SECURITY_REQ_ID,
        tag::TRAD_SES_REQ_ID,
        tag::SECURITY_STATUS_REQ_ID,
    ];
    ids.iter().find_map(|tag| message.get(tag.number)).unwrap_or(&[])
}
