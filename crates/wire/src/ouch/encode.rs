//! Execution reports to the messages a participant gets.

use types::limits::PRICE_MARKET;
use types::{
    ClOrdId, ExecutionKind, ExecutionReport, Instrument, InstrumentId, Nanos, ORDER_POST_ONLY,
    ORDER_POST_ONLY_SLIDE, OrderTerms, OrderType, Price, Qty, RejectReason, TimeInForce,
    UserRefNum,
};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};

use super::appendage::{Writer, tag};
use super::codes::{
    cancel_code, cross_type_code, is_hidden, liquidity_code, reject_code, time_in_force_code,
};
use super::messages::{
    BrokenTrade, CancelReject, MassCancelResponse, OrderAccepted, OrderCanceled, OrderExecuted,
    OrderRejected, OrderReplaced, OrderRestated,
};
use super::terms::{DAY_S, put_type};
use crate::error::{qty_u32, since_midnight};
use crate::{EncodeError, SymbolTable};

/// Order state of an answer: open, or done before the answer was written.
const LIVE: u8 = b'L';
const DEAD: u8 = b'D';
/// Why an order is restated: another price (of a peg; it is not displayed, but the code fits), or,
/// ours, a stop order became active.
const RESTATED_PRICE: u8 = b'P';
const RESTATED_TRIGGERED: u8 = b'S';
/// Why a trade is broken: by the exchange, or, ours, to be corrected.
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

    /// Appends `report` as exactly one message and returns its length in bytes. On an error
    /// nothing is appended.
    pub fn encode_report(
        &self,
        report: &ExecutionReport,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        let start = out.len();
        match report.kind {
            ExecutionKind::Accepted => {
                append_with_terms(self.accepted(report)?, report, out);
            }
            ExecutionKind::Replaced => {
                append_with_terms(self.replaced(report)?, report, out);
            }
            ExecutionKind::Executed => {
                append(&Bare::new(self.executed(report)?), out);
            }
            ExecutionKind::Canceled => {
                let message = OrderCanceled {
                    kind: OrderCanceled::KIND,
                    time: self.time(report.t_seq)?,
                    user_ref: U32::new(report.user_ref.0),
                    quantity: lots(report.qty)?,
                    reason: cancel_code(report.cancel_reason)?,
                };
                append(&message, out);
            }
            ExecutionKind::Rejected => {
                let ExecutionReport { user_ref, reject, cl_ord_id, t_seq, .. } = *report;
                self.encode_rejected(user_ref, reject, cl_ord_id, t_seq, out)?;
            }
            ExecutionKind::CancelRejected => {
                self.encode_cancel_rejected(report.user_ref, report.t_seq, out)?;
            }
            ExecutionKind::Restated => {
                let price = units(report.price)?;
                append(&self.restated(report, RESTATED_PRICE)?, out);
                Writer::new(out).put(tag::DISPLAY_PRICE, price.as_bytes());
            }
            ExecutionKind::Triggered => {
                append(&self.restated(report, RESTATED_TRIGGERED)?, out);
                Writer::new(out);
            }
            ExecutionKind::TradeBroken => append(&self.broken(report, BROKEN)?, out),
            ExecutionKind::TradeCorrected => {
                let (qty, price) = (lots(report.qty)?, units(report.price)?);
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

    fn accepted(&self, report: &ExecutionReport) -> Result<OrderAccepted, EncodeError> {
        Ok(OrderAccepted {
            kind: OrderAccepted::KIND,
            time: self.time(report.t_seq)?,
            user_ref: U32::new(report.user_ref.0),
            side: report.side.into(),
            quantity: lots(report.qty)?,
            symbol: self.symbol(report)?,
            price: price_or_none(report)?,
            time_in_force: time_in_force_code(report.time_in_force),
            display: display(report),
            order_ref: U64::new(report.order_ref.0),
            capacity: b'O',
            sweep: b'N',
            cross_type: cross_type_code(report.time_in_force),
            order_state: if report.leaves.0 == 0 { DEAD } else { LIVE },
            cl_ord_id: report.cl_ord_id.0,
        })
    }

    fn replaced(&self, report: &ExecutionReport) -> Result<OrderReplaced, EncodeError> {
        Ok(OrderReplaced {
            kind: OrderReplaced::KIND,
            time: self.time(report.t_seq)?,
            orig_user_ref: U32::new(report.orig_user_ref.0),
            user_ref: U32::new(report.user_ref.0),
            side: report.side.into(),
            quantity: lots(report.qty)?,
            symbol: self.symbol(report)?,
            price: price_or_none(report)?,
            time_in_force: time_in_force_code(report.time_in_force),
            display: display(report),
            order_ref: U64::new(report.order_ref.0),
            capacity: b'O',
            sweep: b'N',
            cross_type: cross_type_code(report.time_in_force),
            order_state: if report.leaves.0 == 0 { DEAD } else { LIVE },
            cl_ord_id: report.cl_ord_id.0,
        })
    }

    fn executed(&self, report: &ExecutionReport) -> Result<OrderExecuted, EncodeError> {
        Ok(OrderExecuted {
            kind: OrderExecuted::KIND,
            time: self.time(report.t_seq)?,
            user_ref: U32::new(report.user_ref.0),
            quantity: lots(report.qty)?,
            price: units(report.price)?,
            liquidity: liquidity_code(report.liquidity, report.order_type, report.flags)?,
            match_number: U64::new(report.match_number.0),
        })
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

    fn symbol(&self, report: &ExecutionReport) -> Result<[u8; 8], EncodeError> {
        let symbol = self.symbols.symbol(report.instrument).map(|symbol| symbol.0);
        symbol.ok_or(EncodeError::UnknownInstrument(report.instrument))
    }
}

/// A message and an appendage without elements, whose length is 0.
#[derive(IntoBytes, Immutable)]
#[repr(C, packed)]
struct Bare<M> {
    message: M,
    appendage: [u8; 2],
}

impl<M> Bare<M> {
    #[inline]
    fn new(message: M) -> Bare<M> {
        Bare { message, appendage: [0, 0] }
    }
}

/// Most orders have no terms but those of the fixed fields.
#[inline]
fn append_with_terms<M>(message: M, report: &ExecutionReport, out: &mut Vec<u8>)
where
    Bare<M>: IntoBytes + Immutable,
{
    append(&Bare::new(message), out);
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

fn units(price: Price) -> Result<U64, EncodeError> {
    u64::try_from(price.0).map(U64::new).map_err(|_| EncodeError::Price(price))
}

/// The limit price, or the value that means there is none.
fn price_or_none(report: &ExecutionReport) -> Result<U64, EncodeError> {
    match report.order_type {
        OrderType::Limit | OrderType::StopLimit => units(report.price),
        OrderType::PegPrimary | OrderType::PegMid if report.price.0 != 0 => units(report.price),
        _ => Ok(U64::new(PRICE_MARKET)),
    }
}

fn display(report: &ExecutionReport) -> u8 {
    if is_hidden(report.order_type, report.flags) { b'N' } else { b'Y' }
}

/// Echoes the terms that the fixed fields don't have, in the fields they are asked for by. When a
/// good-till-date order ends is said both ways: in seconds from its acceptance, which is what was
/// asked for if it was asked for so, and exactly.
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

/// To the nearest second, because the clock that took the request and the engine's differ and the
/// way between them takes its time; 0 where the field has no room for them.
fn seconds_to_live(accepted: Nanos, end: Nanos) -> u32 {
    let seconds = (end.since(accepted) + Nanos::SECOND / 2) / Nanos::SECOND;
    u32::try_from(seconds).ok().filter(|&seconds| seconds < DAY_S).unwrap_or(0)
}
