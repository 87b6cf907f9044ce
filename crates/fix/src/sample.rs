//! The two sample messages on which the cost of the codec is measured, and single steps of each
//! measurement. Callers bring the clock.

use types::{
    CancelReason, ClOrdId, ExecutionKind, Instrument, InstrumentId, Liquidity, MatchNumber, Nanos,
    OrderRef, OrderTerms, OrderType, Price, Qty, RejectReason, Side, Symbol, TimeInForce,
};

use crate::app::ledger::{Asked, Status};
use crate::app::{Execution, Symbols, report, request};
use crate::dictionary::{Checker, CustomTags, DictionaryError, Rules, builtin};
use crate::frame::SOH;
use crate::session::{MemoryStore, Outbound, Store};
use crate::{FieldIndex, Version};

/// NewOrderSingle of 185 bytes and 20 fields, `|` for the separator.
pub const NEW_ORDER: &str = include_str!("../vectors/new-order-single.fix").trim_ascii();
/// ExecutionReport of 264 bytes and 28 fields, `|` for the separator.
pub const EXECUTION_REPORT: &str = include_str!("../vectors/execution-report.fix").trim_ascii();

/// SendingTime of the report: 2026-11-22 09:30:00.250 UTC.
const AT: Nanos = Nanos(1_795_339_800_250 * Nanos::MILLI);

/// The text with SOH in place of `|`.
pub fn wire(text: &str) -> Vec<u8> {
    text.bytes().map(|byte| if byte == b'|' { SOH } else { byte }).collect()
}

/// The instrument that the samples are about.
pub fn instrument() -> Instrument {
    Instrument {
        id: InstrumentId(1),
        symbol: Symbol(*b"BTCUSD  "),
        tick: Price(100),
        price_max: Price(4_000_000_000),
        qty_max: Qty(4_000_000_000),
        lot_decimals: 8,
    }
}

/// Time at which the sample report is sent.
pub fn now() -> Nanos {
    Nanos(AT.0 + Nanos::MILLI)
}

/// Execution that the sample report tells of.
pub fn execution() -> Execution {
    Execution {
        kind: Some(ExecutionKind::Executed),
        position: 4_711,
        account: types::AccountId(0),
        cl_ord_id: ClOrdId(*b"A17-043       "),
        original: Some(ClOrdId(*b"A17-042       ")),
        status: Status::PartiallyFilled,
        instrument: InstrumentId(1),
        side: Side::Sell,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        flags: 0,
        terms: OrderTerms::default(),
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
        at: AT,
    }
}

/// A session that has sent 4710 messages.
pub fn outbound() -> Outbound<MemoryStore> {
    let mut store = MemoryStore::new(1_024, 1 << 20);
    store.skip_to(4_711);
    let mut outbound = Outbound::new(Version::Fix50Sp2, "FAIR", "MEM7", store, 64 << 10);
    outbound.connect();
    outbound
}

/// The steps that are measured. Each returns a figure about its work, so that the compiler cannot
/// leave the work out.
#[derive(Clone, Debug)]
pub struct Steps {
    order: Vec<u8>,
    places: [u32; 64],
    symbols: Symbols,
    index: FieldIndex,
    checker: Checker,
    rules: Rules,
    outbound: Outbound<MemoryStore>,
    execution: Execution,
    out: Vec<u8>,
}

impl Steps {
    /// Everything that a step needs; an error if the crate's own dictionaries are wrong.
    pub fn new() -> Result<Steps, DictionaryError> {
        Ok(Steps {
            order: wire(NEW_ORDER),
            places: [0; 64],
            symbols: Symbols::new(&[instrument()]),
            index: FieldIndex::default(),
            checker: Checker::default(),
            rules: builtin(Version::Fix50Sp2)?,
            outbound: outbound(),
            execution: execution(),
            out: Vec::with_capacity(1_024),
        })
    }

    /// The lower bound: finds the separators and `=` of the order byte by byte, and the sum of its
    /// bytes.
    pub fn floor(&mut self) -> u32 {
        let (mut found, mut sum) = (0usize, 0u8);
        for (at, &byte) in self.order.iter().enumerate() {
            sum = sum.wrapping_add(byte);
            if byte == SOH || byte == b'=' {
                if let Some(place) = self.places.get_mut(found) {
                    *place = at as u32;
                }
                found += 1;
            }
        }
        u32::from(sum) + found as u32
    }

    /// Decodes the order to a typed request; returns its quantity, lots.
    pub fn parse(&mut self) -> Option<u64> {
        let message = self.index.parse(&self.order).ok()?;
        match request::parse(&message, &self.symbols).ok()?? {
            request::Request::New { terms, .. } => Some(terms.qty.0),
            _ => None,
        }
    }

    /// [`Steps::parse`], and a check of the order against the dictionaries of FIX 5.0 SP2.
    pub fn parse_checked(&mut self) -> Option<u64> {
        let message = self.index.parse(&self.order).ok()?;
        self.checker.check(&self.rules, CustomTags::Refused, &message).ok()?;
        match request::parse(&message, &self.symbols).ok()?? {
            request::Request::New { terms, .. } => Some(terms.qty.0),
            _ => None,
        }
    }

    /// Encodes the report, numbers it and stores it for resends; returns its length, bytes.
    pub fn encode(&mut self) -> usize {
        self.out.clear();
        let Steps { outbound, execution, symbols, out, .. } = self;
        outbound.send(now(), report::msg_type(execution), out, |writer| {
            report::write(Version::Fix50Sp2, execution, symbols, writer);
        });
        out.len()
    }
}
