//! From reports to rows: what each report says of its order, its trade, its refusal.
//!
//! Every report of the log has a number, dense from 1; rows are named by the report that told of
//! them first, so that the same log always makes the same rows. Open orders are kept here, and
//! written when a batch is sealed: an order that changed ten times in a batch is written once.

use std::collections::HashMap;

use engine::daily::DayCount;
use engine::{Moved, Output, Told};
use types::{
    CancelReason, Digest, ExecutionKind, ExecutionReport, Input, Liquidity, Qty,
    REFUSED_MASS_CANCEL, RejectReason, Side,
};
use zerocopy::IntoBytes;

use crate::feeder::Batch;
use crate::rows::{Amendment, Cancel, Order, OrderState, Party, Refusal, Terms, Trade};

/// Turns execution reports into rows; keeps the open orders in memory.
#[derive(Default)]
pub(crate) struct RowBuilder {
    /// Open orders, by account and participant's number.
    open: HashMap<u64, Order>,
    /// Keys of the orders that have changed; an order may be named twice, or be closed by now.
    touched: Vec<u64>,
    /// The report and party of a trade whose other side has not been told yet.
    half: Option<(ExecutionReport, Party)>,
    /// Number of reports so far.
    pub(crate) reports: u64,
    /// Digest of all reports so far.
    pub(crate) digest: Digest,
    /// Number of reports about orders that this log never opened.
    pub(crate) strangers: u64,
    /// Counts the venue's days: which day the next input is of.
    pub(crate) days: DayCount,
}

fn key_of(report: &ExecutionReport) -> u64 {
    u64::from(report.account.0) << 32 | u64::from(report.user_ref.0)
}

impl RowBuilder {
    /// Turns what an input caused into rows.
    pub(crate) fn take(&mut self, input: &Input, out: &Output, batch: &mut Batch) {
        for told in out.in_order() {
            let report = match told {
                Told::Report(report) => report,
                Told::Moved(moved) => {
                    self.take_moved(input, moved, batch);
                    continue;
                }
            };
            self.reports += 1;
            let (words, _) = report.as_bytes().as_chunks::<8>();
            words.iter().for_each(|word| self.digest.fold(u64::from_le_bytes(*word)));
            self.take_one(input, report, batch);
        }
    }

    /// Takes what came from another shard with an instrument, or went: an order that came has a row as if it
    /// were new, which says what is open of it; in the other shard's tables it is moved.
    fn take_moved(&mut self, input: &Input, moved: &Moved, batch: &mut Batch) {
        let Moved::Order { came, report } = moved else { return };
        if *came {
            self.reports += 1;
            let mut order = self.order(input, report, 0);
            order.terms = Terms::of_open(report);
            self.begin(report, order);
        } else if let Some(order) = self.open.remove(&key_of(report)) {
            batch.orders.push(Order { state: OrderState::Moved, t_last: report.t_seq, ..order });
        }
    }

    fn take_one(&mut self, input: &Input, report: &ExecutionReport, batch: &mut Batch) {
        match report.kind {
            ExecutionKind::Accepted => {
                let order = self.order(input, report, 0);
                self.begin(report, order);
            }
            ExecutionKind::Replaced => self.replace(input, report, batch),
            ExecutionKind::Rejected => {
                let mut order = self.order(input, report, report.orig_user_ref.0);
                (order.state, order.reject) = (OrderState::Rejected, report.reject);
                batch.orders.push(order);
            }
            ExecutionKind::Executed => self.execute(input, report, batch),
            ExecutionKind::Canceled => self.cancel(input, report, batch),
            ExecutionKind::Restated | ExecutionKind::Triggered => {
                self.change(report, batch, |order| order.price = report.price);
            }
            ExecutionKind::TradeBroken | ExecutionKind::TradeCorrected => {
                self.amend(input, report, batch);
            }
            ExecutionKind::CancelRejected => batch.refusals.push(Refusal {
                id: self.reports,
                seq: input.seq.0,
                account: report.account,
                instrument: report.instrument,
                user_ref: report.user_ref,
                cl_ord_id: report.cl_ord_id,
                mass: report.flags & REFUSED_MASS_CANCEL != 0,
                reason: report.reject,
                t_seq: report.t_seq,
            }),
            // The cancels tell what it did; and a session's own message is no matter of trades.
            ExecutionKind::MassCanceled
            | ExecutionKind::SessionSlot
            | ExecutionKind::StreamReference => {}
        }
    }

    /// The row that begins with a report; `replaces` is the number of the order before it.
    fn order(&self, input: &Input, report: &ExecutionReport, replaces: u32) -> Order {
        let former = u64::from(report.account.0) << 32 | u64::from(replaces);
        let former = self.open.get(&former).filter(|_| replaces != 0);
        Order {
            id: self.reports,
            seq: input.seq.0,
            root: former.map_or(self.reports, |former| former.root),
            replaces: former.map_or(0, |former| former.id),
            account: report.account,
            instrument: report.instrument,
            user_ref: report.user_ref,
            cl_ord_id: report.cl_ord_id,
            side: report.side,
            terms: Terms::of(&input.command, report),
            price: report.price,
            qty: report.qty,
            filled: 0,
            cancelled: 0,
            leaves: report.leaves,
            state: OrderState::Open,
            reject: RejectReason::None,
            cancel: CancelReason::None,
            order_ref: report.order_ref,
            gateway: input.source.gateway.0,
            t_in: input.t_in,
            t_seq: report.t_seq,
            t_last: report.t_seq,
            day: self.days.day(),
            stored: false,
            dirty: true,
        }
    }

    fn begin(&mut self, report: &ExecutionReport, order: Order) {
        let key = key_of(report);
        self.touched.push(key);
        self.open.insert(key, order);
    }

    fn replace(&mut self, input: &Input, report: &ExecutionReport, batch: &mut Batch) {
        let order = self.order(input, report, report.orig_user_ref.0);
        let old = u64::from(report.account.0) << 32 | u64::from(report.orig_user_ref.0);
        match self.open.remove(&old) {
            Some(former) => {
                let (state, t_last) = (OrderState::Replaced, report.t_seq);
                batch.orders.push(Order { leaves: Qty(0), state, t_last, ..former });
            }
            None => self.strangers += 1,
        }
        self.begin(report, order);
    }

    /// Changes an open order, which is removed when nothing of it is open any more; returns its
    /// [`Order::id`], or 0.
    fn change(
        &mut self,
        report: &ExecutionReport,
        batch: &mut Batch,
        change: impl FnOnce(&mut Order),
    ) -> u64 {
        let key = key_of(report);
        let Some(order) = self.open.get_mut(&key) else {
            self.strangers += 1;
            return 0;
        };
        (order.leaves, order.t_last) = (report.leaves, report.t_seq);
        change(order);
        let id = order.id;
        if order.leaves == Qty(0) {
            batch.orders.extend(self.open.remove(&key));
        } else if !order.dirty {
            order.dirty = true;
            self.touched.push(key);
        }
        id
    }

    fn execute(&mut self, input: &Input, report: &ExecutionReport, batch: &mut Batch) {
        let order = self.change(report, batch, |order| {
            order.filled += report.qty.0;
            if report.leaves == Qty(0) {
                order.state = OrderState::Filled;
            }
        });
        let (account, user_ref, cl_ord_id) = (report.account, report.user_ref, report.cl_ord_id);
        let party = Party { account, order, user_ref, cl_ord_id };
        let first = self.half.take().filter(|(half, _)| half.match_number == report.match_number);
        let Some((half, other)) = first else {
            self.half = Some((*report, party));
            return;
        };
        let (buy, sell) = match report.side {
            Side::Buy => (party, other),
            Side::Sell => (other, party),
        };
        let came = [&half, report].into_iter().find(|one| one.liquidity == Liquidity::Removed);
        batch.trades.push(Trade {
            match_number: report.match_number,
            seq: input.seq.0,
            t_seq: report.t_seq,
            instrument: report.instrument,
            price: report.price,
            qty: report.qty,
            aggressor: came.map(|one| one.side),
            liquidity: report.liquidity,
            public_after: report.public_after.0,
            day: self.days.day(),
            buy,
            sell,
        });
    }

    fn cancel(&mut self, input: &Input, report: &ExecutionReport, batch: &mut Batch) {
        let order = self.change(report, batch, |order| {
            order.cancelled += report.qty.0;
            order.cancel = report.cancel_reason;
            if report.leaves == Qty(0) {
                order.state = OrderState::Cancelled;
            }
        });
        batch.cancels.push(Cancel {
            id: self.reports,
            seq: input.seq.0,
            order,
            account: report.account,
            instrument: report.instrument,
            user_ref: report.user_ref,
            cl_ord_id: report.cl_ord_id,
            qty: report.qty,
            leaves: report.leaves,
            reason: report.cancel_reason,
            t_seq: report.t_seq,
        });
    }

    /// Adds one row for a broken or corrected trade, although both of its sides are told.
    fn amend(&mut self, input: &Input, report: &ExecutionReport, batch: &mut Batch) {
        let (seq, match_number) = (input.seq.0, report.match_number);
        let told = |last: &Amendment| last.seq == seq && last.match_number == match_number;
        if batch.amendments.last().is_some_and(told) {
            return;
        }
        let broken = report.kind == ExecutionKind::TradeBroken;
        batch.amendments.push(Amendment {
            id: self.reports,
            seq,
            match_number,
            broken,
            price: report.price,
            qty: if broken { Qty(0) } else { report.qty },
            operator: input.command.cl_ord_id,
            t_seq: report.t_seq,
        });
    }

    /// Adds the open orders that have changed to the batch, and sorts it.
    pub(crate) fn seal(&mut self, batch: &mut Batch) {
        for key in self.touched.drain(..) {
            if let Some(order) = self.open.get_mut(&key).filter(|order| order.dirty) {
                batch.orders.push(*order);
                (order.stored, order.dirty) = (true, false);
            }
        }
        batch.orders.sort_unstable_by_key(|order| order.id);
    }

    /// Approximate number of the batch's rows for changed orders.
    pub(crate) fn touched(&self) -> usize {
        self.touched.len()
    }

    /// Number of open orders.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }
}
