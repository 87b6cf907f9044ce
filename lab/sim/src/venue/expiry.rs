//! Orders that are good for a while only: nothing trades with one at its end or later, none is ended
//! before that, and when all is quiet none is left over.
//!
//! When an order ends is read in what was asked for, as it is in the log; what became of it in what
//! its account was told, and when by the place in the log that the report names.

use exchange::{Ending, Expiries};
use types::{AccountId, CancelReason, ExecutionReport, Nanos};
use zerocopy::TryFromBytes;

use super::{
    checks::Cast,
    report::{Checker, Failures},
};

/// Looks through all reports; how many orders ended by their date.
pub(super) fn check(cast: &Cast<'_>, failures: &mut Failures) -> u64 {
    let mut expiries = Expiries::default();
    cast.root.log().iter().for_each(|input| expiries.note(&input.command));
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
                ended += judge(&report, expiries.judge(&report), failures);
            }
        }
    }
    ended
}

/// Notes what is wrong with a report; whether it ended its order by its date.
fn judge(report: &ExecutionReport, ending: Ending, failures: &mut Failures) -> u64 {
    let (account, order, at) = (report.account.0, report.user_ref.0, report.t_seq);
    let right = matches!(ending, Ending::None | Ending::Expired);
    failures.check(Checker::NothingExpired, right, || {
        format!("account {account}, order {order}, at {at:?}: {ending:?}")
    });
    u64::from(ending != Ending::None && report.cancel_reason == CancelReason::Expired)
}

/// Whether an order is open that should have ended before `now`.
pub(super) fn left_over(cast: &Cast<'_>, now: Nanos) -> bool {
    cast.root.engine().next_expiry().after(SLACK_NS) <= now
}

/// The root's resolution, an input's way through the group of roots, and what clocks are off.
const SLACK_NS: u64 = 10 * Nanos::MILLI;

#[cfg(test)]
mod tests {
    use types::ExecutionKind;

    use super::*;

    #[test]
    fn what_trades_too_late_or_ends_too_early_fails() {
        let mut bytes = [0; size_of::<ExecutionReport>()];
        bytes[0] = ExecutionKind::Accepted as u8;
        let report = ExecutionReport::try_read_from_bytes(&bytes).expect("a report");
        let endings =
            [Ending::None, Ending::Expired, Ending::TradedLate(Nanos(1)), Ending::EndedEarly(None)];
        let failed = endings.map(|ending| {
            let mut failures = Failures::default();
            judge(&report, ending, &mut failures);
            failures.into_vec().len()
        });
        assert_eq!(failed, [0, 0, 1, 1]);
    }
}
