//! Orders that are good for a while only: nothing trades with one at its end or later, none is ended
//! before that, and when all is quiet none is left over.
//!
//! When an order ends is read in what was asked for, as it is in the log; what became of it in what
//! its account was told, and when by the place in the log that the report names.

use std::collections::BTreeMap;

use types::{
    AccountId, CancelReason, CommandKind, ExecutionKind, ExecutionReport, Nanos, TimeInForce,
    UserRefNum,
};
use zerocopy::TryFromBytes;

use super::{
    checks::Cast,
    report::{Checker, Failures},
};

/// Looks through all reports; how many orders ended by their date.
pub(super) fn check(cast: &Cast<'_>, failures: &mut Failures) -> u64 {
    let mut ends: BTreeMap<(AccountId, UserRefNum), Nanos> = BTreeMap::new();
    for input in cast.root.log().iter() {
        let command = &input.command;
        let enters = matches!(command.kind, CommandKind::NewOrder | CommandKind::Replace);
        if enters && command.time_in_force == TimeInForce::GoodTillDate {
            ends.insert((command.account, command.user_ref), command.expire_at);
        }
    }
    let mut ended = 0;
    for account in 1..=cast.root.engine().config().accounts_max as u16 {
        let account = AccountId(account);
        let private = cast.root.private();
        for position in 1..private.next_position(account) {
            let bytes = private.record(account, position);
            let Some(report) = bytes.and_then(|b| ExecutionReport::try_read_from_bytes(b).ok())
            else {
                failures.add(Checker::NothingExpired, || {
                    format!("account {}: no record {position}", account.0)
                });
                continue;
            };
            // Copies are looked at where their originals are.
            if report.account == account {
                let end = ends.get(&(account, report.user_ref));
                ended += judge(&report, end.copied(), failures);
            }
        }
    }
    ended
}

/// Looks at one report of an order with this end; whether it ended by that.
fn judge(report: &ExecutionReport, end: Option<Nanos>, failures: &mut Failures) -> u64 {
    let (account, order, at) = (report.account.0, report.user_ref.0, report.t_seq);
    let late = report.kind == ExecutionKind::Executed && end.is_some_and(|end| at >= end);
    failures.check(Checker::NothingExpired, !late, || {
        format!("account {account}, order {order}: traded at {at:?}, ended at {end:?}")
    });
    if report.cancel_reason != CancelReason::Expired {
        return 0;
    }
    let early = end.is_none_or(|end| at < end);
    failures.check(Checker::NothingExpired, !early, || {
        format!("account {account}, order {order}: ended at {at:?}, and should at {end:?}")
    });
    1
}

/// Whether an order is open that should have ended before `now`.
pub(super) fn left_over(cast: &Cast<'_>, now: Nanos) -> bool {
    cast.root.engine().next_expiry().after(SLACK_NS) <= now
}

/// The root's resolution, an input's way through the group of roots, and what clocks are off.
const SLACK_NS: u64 = 10 * Nanos::MILLI;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_trades_too_late_or_ends_too_early_is_found() {
        let mut bytes = [0; size_of::<ExecutionReport>()];
        bytes[0] = ExecutionKind::Accepted as u8;
        let mut report = ExecutionReport::try_read_from_bytes(&bytes).expect("a report");
        report.t_seq = Nanos(10);
        let found = |report: &ExecutionReport, end| {
            let mut failures = Failures::default();
            let ended = judge(report, end, &mut failures);
            (ended, failures.into_vec().len())
        };
        report.kind = ExecutionKind::Executed;
        let looks = [None, Some(Nanos(11)), Some(Nanos(10))].map(|end| found(&report, end));
        assert_eq!(looks, [(0, 0), (0, 0), (0, 1)]);
        (report.kind, report.cancel_reason) = (ExecutionKind::Canceled, CancelReason::Expired);
        let looks = [None, Some(Nanos(11)), Some(Nanos(10))].map(|end| found(&report, end));
        assert_eq!(looks, [(1, 1), (1, 1), (1, 0)]);
    }
}
