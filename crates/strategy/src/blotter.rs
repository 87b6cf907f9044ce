//! A strategy's own orders and holdings, as far as it has heard.

use std::collections::BTreeMap;

use types::{InstrumentId, Side};

use crate::report::{Report, ReportKind};
use crate::strategy::Order;

/// Orders by number, the last number given out, and lots held.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blotter {
    pub orders: BTreeMap<u32, Order>,
    pub last: u32,
    held: BTreeMap<InstrumentId, i64>,
}

impl Blotter {
    /// Takes note of a report.
    pub fn heed(&mut self, report: &Report) {
        let id = report.id;
        match report.kind {
            // The order is in whatever state it is; its own report tells.
            ReportKind::CancelRejected => return,
            ReportKind::Rejected => {
                self.orders.remove(&id);
                return;
            }
            ReportKind::Executed => {
                let lots = i64::try_from(report.qty.0).unwrap_or(i64::MAX);
                let lots = if report.side == Side::Buy { lots } else { -lots };
                let held = self.held.entry(report.instrument).or_default();
                *held = held.saturating_add(lots);
            }
            _ => {}
        }
        if let Some(order) = self.orders.get_mut(&id) {
            order.working = true;
            order.open = report.left.0;
            if order.open == 0 && report.kind != ReportKind::Accepted {
                self.orders.remove(&id);
            }
        }
    }

    /// Lots held of an instrument; negative: short.
    pub fn held(&self, instrument: InstrumentId) -> i64 {
        self.held.get(&instrument).copied().unwrap_or(0)
    }

    /// Requests that the exchange has not answered yet, as far as heard.
    pub fn unanswered(&self) -> usize {
        let waits = |order: &&Order| !order.working || order.leaving;
        self.orders.values().filter(waits).count()
    }
}
