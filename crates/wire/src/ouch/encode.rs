//! Encodes execution reports as the OUCH messages that participants get.

use std::mem::offset_of;

use types::limits::PRICE_MARKET;
use types::{
    ClOrdId, ExecutionKind, ExecutionReport, Instrument, InstrumentId, Nanos, ORDER_POST_ONLY,
    ORDER_POST_ONLY_SLIDE, OrderTerms, OrderType, Price, Qty, RejectReason, TimeInForce,
    UserRefNum,
};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};

use super::appendage::{Writer, tag};
use super::codes::{Side, cancel_code, is_hidden, life_codes, liquidity_code, reject_code};
use super::messages::{
    BrokenTrade, CancelReject, MassCancelResponse, OrderAccepted, OrderCanceled, OrderExecuted,
    OrderRejected, OrderReplaced, OrderRestated,
};
use super::terms::{DAY_S, put_type};
use crate::error::{qty_u32, since_midnight};
use crate::place::{appended, fill};
use crate::{EncodeError, SymbolTable};

/// Order state of an answer: open, or done before the answer was written.
const LIVE: u8 = b'L';
const DEAD: u8 = b'D';
/// Reason codes of Order Restated: `P` the price changed (of a peg; a peg is not displayed, but no
/// other code is closer), and, ours, `S` a stop became active.
const RESTATED_PRICE: u8 = b'P';
const RESTATED_TRIGGERED: u8 = b'S';
/// Reason codes of Broken Trade: `S` broken by the exchange, and, ours, `c` corrected.
const BROKEN: u8 = b'S';
const CORRECTED: u8 = b'c';

/// Encodes the private streams of one trading day; see the module above for its choices.
#[derive(Clone, Debug)]
pub struct Encoder {
    symbols: SymbolTable,
    midnight: Nanos,
}

impl Encoder {
    /// An encoder for `instruments`; times count from the last midnight, of which `midnight` is the first.
    pub fn new(instruments: &[Instrument], midnight: Nanos) -> Encoder {
        Encoder { symbols: SymbolTable::new(instruments), midnight }
    }

    /// The instruments by name, as [`super::to_command`] wants them.
    pub fn symbols(&self) -> &SymbolTable {
        &self.symbols
    }

    /// Appends reports, one message after another. On an error those before it are appended.
    pub fn encode_reports(
        &self,
        reports: &[ExecutionReport],
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        for report in reports {
            match report.kind {
                ExecutionKind::Accepted => self.put_accepted(report, out)?,
                ExecutionKind::Canceled => self.put_canceled(report, out)?,
                ExecutionKind::Executed => self.put_executed(report, out)?,
                _ => _ = self.encode_report(report, out)?,
            }
        }
        Ok(())
    }

    /// Appends `report` as exactly one message and returns its length in bytes. On an error
    /// nothing is appended.
    pub fn encode_report(
        &self,
        report: &ExecutionReport,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        let start = out.len();
        match report.kind {
            ExecutionKind::Accepted => self.put_accepted(report, out)?,
            ExecutionKind::Canceled => self.put_canceled(report, out)?,
            ExecutionKind::Executed => self.put_executed(report, out)?,
            ExecutionKind::Replaced => self.put_replaced(report, out)?,
            ExecutionKind::Rejected => {
                let ExecutionReport { user_ref, reject, cl_ord_id, t_seq, .. } = *report;
                self.encode_rejected(user_ref, reject, cl_ord_id, t_seq, out)?;
            }
            ExecutionKind::CancelRejected => {
                self.encode_cancel_rejected(report.user_ref, report.t_seq, out)?;
            }
            ExecutionKind::Restated => {
                let price = units(report.price).map(U64::new)?;
                append(&self.restated(report, RESTATED_PRICE)?, out);
                Writer::new(out).put(tag::DISPLAY_PRICE, price.as_bytes());
            }
            ExecutionKind::Triggered => {
                append(&self.restated(report, RESTATED_TRIGGERED)?, out);
                Writer::new(out);
            }
            ExecutionKind::TradeBroken => append(&self.broken(report, BROKEN)?, out),
            ExecutionKind::TradeCorrected => {
                let (qty, price) = (lots(report.qty)?, units(report.price).map(U64::new)?);
                append(&self.broken(report, CORRECTED)?, out);
                Writer::new(out)
                    .put(tag::RIGHT_QUANTITY, qty.as_bytes())
                    .put(tag::RIGHT_PRICE, price.as_bytes());
            }
            ExecutionKind::MassCanceled => {
                let orders = lots(report.qty)?;
                append(&self.mass_canceled(report)?, out);
                Writer::new(out).put(tag::ORDERS, orders.as_bytes());
            }
            // Of a FIX session; an account has sessions of one protocol. And a reference is none's.
            ExecutionKind::SessionSlot | ExecutionKind::StreamReference => {
                return Err(EncodeError::Foreign);
            }
        }
        Ok(out.len() - start)
    }

    /// Appends the refusal of a new order or a replace, at time `at`; for refusals that have no
    /// report because a gateway made them.
    pub fn encode_rejected(
        &self,
        user_ref: UserRefNum,
        reason: RejectReason,
        cl_ord_id: ClOrdId,
        at: Nanos,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let message = OrderRejected {
            kind: OrderRejected::KIND,
            time: self.time(at)?,
            user_ref: U32::new(user_ref.0),
            reason: U16::new(reject_code(reason)?),
            cl_ord_id: cl_ord_id.0,
        };
        append(&message, out);
        Ok(())
    }

    /// Appends the refusal of a cancel, at time `at`.
    pub fn encode_cancel_rejected(
        &self,
        user_ref: UserRefNum,
        at: Nanos,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let message = CancelReject {
            kind: CancelReject::KIND,
            time: self.time(at)?,
            user_ref: U32::new(user_ref.0),
        };
        append(&message, out);
        Ok(())
    }

    #[inline(always)]
    fn put_accepted(&self, report: &ExecutionReport, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let time = since_midnight(report.t_seq, self.midnight)?;
        let (quantity, symbol) = (qty_u32(report.qty)?, self.symbol(report)?);
        let price = price_or_none(report)?;
        let to = appended(&ACCEPTED, out);
        fill!(to, OrderAccepted.time, time.to_be_bytes());
        fill!(to, OrderAccepted.user_ref, report.user_ref.0.to_be_bytes());
        fill!(to, OrderAccepted.side, [Side::from(report.side) as u8]);
        fill!(to, OrderAccepted.quantity, quantity.to_be_bytes());
        fill!(to, OrderAccepted.symbol, symbol);
        fill!(to, OrderAccepted.price, price.to_be_bytes());
        let [life, cross_type] = life_codes(report.time_in_force);
        fill!(to, OrderAccepted.time_in_force, [life]);
        fill!(to, OrderAccepted.display, [display(report)]);
        fill!(to, OrderAccepted.order_ref, report.order_ref.0.to_be_bytes());
        fill!(to, OrderAccepted.cross_type, [cross_type]);
        fill!(to, OrderAccepted.order_state, [order_state(report)]);
        fill!(to, OrderAccepted.cl_ord_id, report.cl_ord_id.0);
        put_rare_terms(report, out);
        Ok(())
    }

    #[inline]
    fn put_replaced(&self, report: &ExecutionReport, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let time = since_midnight(report.t_seq, self.midnight)?;
        let (quantity, symbol) = (qty_u32(report.qty)?, self.symbol(report)?);
        let price = price_or_none(report)?;
        let to = appended(&REPLACED, out);
        fill!(to, OrderReplaced.time, time.to_be_bytes());
        fill!(to, OrderReplaced.orig_user_ref, report.orig_user_ref.0.to_be_bytes());
        fill!(to, OrderReplaced.user_ref, report.user_ref.0.to_be_bytes());
        fill!(to, OrderReplaced.side, [Side::from(report.side) as u8]);
        fill!(to, OrderReplaced.quantity, quantity.to_be_bytes());
        fill!(to, OrderReplaced.symbol, symbol);
        fill!(to, OrderReplaced.price, price.to_be_bytes());
        let [life, cross_type] = life_codes(report.time_in_force);
        fill!(to, OrderReplaced.time_in_force, [life]);
        fill!(to, OrderReplaced.display, [display(report)]);
        fill!(to, OrderReplaced.order_ref, report.order_ref.0.to_be_bytes());
        fill!(to, OrderReplaced.cross_type, [cross_type]);
        fill!(to, OrderReplaced.order_state, [order_state(report)]);
        fill!(to, OrderReplaced.cl_ord_id, report.cl_ord_id.0);
        put_rare_terms(report, out);
        Ok(())
    }

    #[inline(always)]
    fn put_executed(&self, report: &ExecutionReport, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let time = since_midnight(report.t_seq, self.midnight)?;
        let (quantity, price) = (qty_u32(report.qty)?, units(report.price)?);
        let liquidity = liquidity_code(report.liquidity, report.order_type, report.flags)?;
        let to = appended(&EXECUTED, out);
        fill!(to, OrderExecuted.time, time.to_be_bytes());
        fill!(to, OrderExecuted.user_ref, report.user_ref.0.to_be_bytes());
        fill!(to, OrderExecuted.quantity, quantity.to_be_bytes());
        fill!(to, OrderExecuted.price, price.to_be_bytes());
        fill!(to, OrderExecuted.liquidity, [liquidity]);
        fill!(to, OrderExecuted.match_number, report.match_number.0.to_be_bytes());
        Ok(())
    }

    #[inline(always)]
    fn put_canceled(&self, report: &ExecutionReport, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let time = since_midnight(report.t_seq, self.midnight)?;
        let quantity = qty_u32(report.qty)?;
        let reason = cancel_code(report.cancel_reason)?;
        let to = appended(&CANCELED, out);
        fill!(to, OrderCanceled.time, time.to_be_bytes());
        fill!(to, OrderCanceled.user_ref, report.user_ref.0.to_be_bytes());
        fill!(to, OrderCanceled.quantity, quantity.to_be_bytes());
        fill!(to, OrderCanceled.reason, [reason]);
        Ok(())
    }

    fn restated(&self, report: &ExecutionReport, reason: u8) -> Result<OrderRestated, EncodeError> {
        Ok(OrderRestated {
            kind: OrderRestated::KIND,
            time: self.time(report.t_seq)?,
            user_ref: U32::new(report.user_ref.0),
            reason,
        })
    }

    fn broken(&self, report: &ExecutionReport, reason: u8) -> Result<BrokenTrade, EncodeError> {
        Ok(BrokenTrade {
            kind: BrokenTrade::KIND,
            time: self.time(report.t_seq)?,
            user_ref: U32::new(report.user_ref.0),
            match_number: U64::new(report.match_number.0),
            reason,
            cl_ord_id: report.cl_ord_id.0,
        })
    }

    fn mass_canceled(&self, report: &ExecutionReport) -> Result<MassCancelResponse, EncodeError> {
        let all = report.instrument == InstrumentId(0);
        Ok(MassCancelResponse {
            kind: MassCancelResponse::KIND,
            time: self.time(report.t_seq)?,
            user_ref: U32::new(report.user_ref.0),
            firm: [b' '; 4],
            symbol: if all { [b' '; 8] } else { self.symbol(report)? },
        })
    }

    fn time(&self, at: Nanos) -> Result<U64, EncodeError> {
        since_midnight(at, self.midnight).map(U64::new)
    }

    #[inline]
    fn symbol(&self, report: &ExecutionReport) -> Result<[u8; 8], EncodeError> {
        let symbol = self.symbols.symbol(report.instrument).map(|symbol| symbol.0);
        symbol.ok_or(EncodeError::UnknownInstrument(report.instrument))
    }
}

/// A message of this type with the fields that are alike in all: capacity `O` (other) and sweep
/// `N`. The zeros behind the fixed fields are an appendage of length 0.
const fn prepared<const N: usize>(kind: u8, capacity: usize, sweep: usize) -> [u8; N] {
    let mut bytes = [0; N];
    (bytes[capacity], bytes[sweep]) = (b'O', b'N');
    bytes[0] = kind;
    bytes
}

const ACCEPTED: [u8; size_of::<OrderAccepted>() + 2] = prepared(
    OrderAccepted::KIND,
    offset_of!(OrderAccepted, capacity),
    offset_of!(OrderAccepted, sweep),
);
const REPLACED: [u8; size_of::<OrderReplaced>() + 2] = prepared(
    OrderReplaced::KIND,
    offset_of!(OrderReplaced, capacity),
    offset_of!(OrderReplaced, sweep),
);
const EXECUTED: [u8; size_of::<OrderExecuted>() + 2] = prepared(OrderExecuted::KIND, 0, 0);
const CANCELED: [u8; size_of::<OrderCanceled>()] = prepared(OrderCanceled::KIND, 0, 0);

/// Appends the terms that only few orders have to the appendage, which is empty so far.
#[inline(always)]
fn put_rare_terms(report: &ExecutionReport, out: &mut Vec<u8>) {
    let plain = matches!(report.order_type, OrderType::Limit | OrderType::Market);
    if !plain
        || !report.terms.is_none()
        || report.flags & (ORDER_POST_ONLY | ORDER_POST_ONLY_SLIDE) != 0
    {
        put_terms(report, &mut Writer::reopen(out));
    }
}

#[inline]
fn append(message: &(impl IntoBytes + Immutable), out: &mut Vec<u8>) {
    out.extend_from_slice(message.as_bytes());
}

fn lots(qty: Qty) -> Result<U32, EncodeError> {
    qty_u32(qty).map(U32::new)
}

#[inline]
fn units(price: Price) -> Result<u64, EncodeError> {
    u64::try_from(price.0).map_err(|_| EncodeError::Price(price))
}

/// The limit price, or the value that means there is none.
#[inline]
fn price_or_none(report: &ExecutionReport) -> Result<u64, EncodeError> {
    // First what nearly all are: no table of types has to be looked into.
    if report.order_type == OrderType::Limit {
        return units(report.price);
    }
    rare_price(report)
}

#[cold]
#[inline(never)]
fn rare_price(report: &ExecutionReport) -> Result<u64, EncodeError> {
    match report.order_type {
        OrderType::Limit | OrderType::StopLimit => units(report.price),
        OrderType::PegPrimary | OrderType::PegMid if report.price.0 != 0 => units(report.price),
        _ => Ok(PRICE_MARKET),
    }
}

#[inline]
fn display(report: &ExecutionReport) -> u8 {
    if is_hidden(report.order_type, report.flags) { b'N' } else { b'Y' }
}

#[inline]
fn order_state(report: &ExecutionReport) -> u8 {
    if report.leaves.0 == 0 { DEAD } else { LIVE }
}

/// Echoes the terms that the fixed fields do not have, under the tags by which they are asked for.
/// The end of a good-till-date order is told twice: in seconds from its acceptance, as ExpireTime
/// asks for it, and as the exact time.
#[cold]
fn put_terms(report: &ExecutionReport, writer: &mut Writer<'_>) {
    let OrderTerms { display_qty, min_qty, stop_price, expire_at } = report.terms;
    let ends = report.time_in_force == TimeInForce::GoodTillDate;
    put_u32(tag::MIN_QTY, min_qty, writer);
    put_u32(tag::MAX_FLOOR, display_qty, writer);
    if ends {
        put_u32(tag::EXPIRE_TIME, seconds_to_live(report.t_seq, expire_at), writer);
    }
    put_type(report.order_type, writer);
    match report.order_type {
        // One that came over another door and does not fit is left out.
        OrderType::PegPrimary | OrderType::PegMid => {
            put_u32(tag::PEG_OFFSET, u32::try_from(stop_price.0).unwrap_or(0), writer);
        }
        OrderType::Stop | OrderType::StopLimit | OrderType::TrailingStop => {
            writer.put(tag::STOP_PRICE, &stop_price.0.to_be_bytes());
        }
        OrderType::Limit | OrderType::Market | OrderType::MarketToLimit => {}
    }
    if ends {
        writer.put(tag::EXPIRE_AT, &expire_at.0.to_be_bytes());
    }
    if report.flags & ORDER_POST_ONLY_SLIDE != 0 {
        writer.put(tag::POST_ONLY, b"S");
    } else if report.flags & ORDER_POST_ONLY != 0 {
        writer.put(tag::POST_ONLY, b"P");
    }
}

/// Appends a number that is not zero.
fn put_u32(tag: u8, value: u32, writer: &mut Writer<'_>) {
    if value != 0 {
        writer.put(tag, &value.to_be_bytes());
    }
}

/// Seconds from acceptance to end, rounded to the nearest, because the clocks of gateway and engine
/// differ and the way between them takes time; 0 when the field has no room for them.
fn seconds_to_live(accepted: Nanos, end: Nanos) -> u32 {
    let seconds = (end.since(accepted) + Nanos::SECOND / 2) / Nanos::SECOND;
    u32::try_from(seconds).ok().filter(|&seconds| seconds < DAY_S).unwrap_or(0)
}
