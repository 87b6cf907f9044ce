//! What a strategy hears beside the books: trades of the market, and what became of its own orders.

use types::{ExecutionKind, ExecutionReport, InstrumentId, Liquidity, Nanos, Price, Qty, Side};

/// A trade that the public was told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarketTrade {
    /// When it happened at the exchange.
    pub time: Nanos,
    /// Instrument that traded.
    pub instrument: InstrumentId,
    /// In price units.
    pub price: Price,
    /// Lots that traded; of an auction counted once.
    pub qty: Qty,
    /// Side of the order that came; `None` in an auction.
    pub aggressor: Option<Side>,
}

/// What a report tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportKind {
    /// The exchange has taken the order.
    Accepted,
    /// Lots of it traded.
    Executed,
    /// It was refused.
    Rejected,
    /// A cancel came too late, or named no order.
    CancelRejected,
    /// It changed and may still trade.
    Changed,
    /// It is gone.
    Ended,
}

impl ReportKind {
    /// Every kind, in order.
    pub const ALL: [ReportKind; 6] = [
        ReportKind::Accepted,
        ReportKind::Executed,
        ReportKind::Rejected,
        ReportKind::CancelRejected,
        ReportKind::Changed,
        ReportKind::Ended,
    ];
}

/// What became of an order of the strategy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// What happened.
    pub kind: ReportKind,
    /// When, by the exchange's clock.
    pub happened: Nanos,
    /// Number of the order, as the strategy counts them.
    pub id: u32,
    /// Instrument of the order.
    pub instrument: InstrumentId,
    /// Side of the order.
    pub side: Side,
    /// Limit price of the order, or price of the trade.
    pub price: Price,
    /// Lots that the report is about.
    pub qty: Qty,
    /// Lots that may still trade.
    pub left: Qty,
    /// Of a trade: the order rested in the book.
    pub rested: bool,
}

impl From<&ExecutionReport> for Report {
    fn from(report: &ExecutionReport) -> Report {
        let executed = report.kind == ExecutionKind::Executed;
        Report {
            kind: match report.kind {
                ExecutionKind::Accepted => ReportKind::Accepted,
                ExecutionKind::Executed => ReportKind::Executed,
                ExecutionKind::Rejected => ReportKind::Rejected,
                ExecutionKind::CancelRejected => ReportKind::CancelRejected,
                _ if report.leaves.0 == 0 => ReportKind::Ended,
                _ => ReportKind::Changed,
            },
            happened: report.t_seq,
            id: report.user_ref.0,
            instrument: report.instrument,
            side: report.side,
            price: report.price,
            qty: report.qty,
            left: report.leaves,
            rested: executed && report.liquidity == Liquidity::Added,
        }
    }
}
