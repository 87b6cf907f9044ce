//! Orders that are good for a while only: nothing trades with one at its end or later, and none is
//! ended before that.
//!
//! When an order ends is read in what was asked for, as it is in the log; what became of it in what
//! its account was told.

use std::collections::BTreeMap;

use types::{
    AccountId, CancelReason, Command, CommandKind, ExecutionKind, ExecutionReport, Nanos,
    TimeInForce, UserRefNum,
};

/// Ends of the good-till-date orders of a log, by account and its number for the order.
#[derive(Clone, Default, Debug)]
pub struct Expiries {
    ends: BTreeMap<(AccountId, UserRefNum), Nanos>,
}

/// What a report says of an order's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It says nothing of one: neither a trade at or behind the end nor an expiry.
    None,
    /// It was over, at its end or later.
    Expired,
    /// It traded at this end or later.
    TradedLate(Nanos),
    /// It was ended as expired before this end, or without having one.
    EndedEarly(Option<Nanos>),
}

impl Expiries {
    /// Notes a command of the log. Of several with one number the first counts: the engine answers the others as
    /// duplicates, whatever they ask for. A client that sent an order again may have computed another end for it.
    pub fn note(&mut self, command: &Command) {
        let enters = matches!(command.kind, CommandKind::NewOrder | CommandKind::Replace);
        if enters && command.time_in_force == TimeInForce::GoodTillDate {
            let end = self.ends.entry((command.account, command.user_ref));
            end.or_insert(command.expire_at);
        }
    }

    /// A report to the account that owns the order.
    pub fn judge(&self, report: &ExecutionReport) -> Ending {
        let end = self.ends.get(&(report.account, report.user_ref)).copied();
        let reached = end.filter(|end| report.t_seq >= *end);
        match (report.kind, report.cancel_reason) {
            (ExecutionKind::Executed, _) => reached.map_or(Ending::None, Ending::TradedLate),
            (_, CancelReason::Expired) if reached.is_some() => Ending::Expired,
            (_, CancelReason::Expired) => Ending::EndedEarly(end),
            _ => Ending::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::TryFromBytes;

    use super::*;

    #[test]
    fn the_first_command_with_a_number_decides_when_its_order_ends() {
        let mut expiries = Expiries::default();
        let mut order = Command::new(CommandKind::NewOrder);
        order.time_in_force = TimeInForce::GoodTillDate;
        for end in [9, 5, 12] {
            order.expire_at = Nanos(end);
            expiries.note(&order);
        }
        assert_eq!(expiries.ends.into_values().collect::<Vec<_>>(), [Nanos(9)]);
    }

    #[test]
    fn what_trades_too_late_or_ends_too_early_is_found() {
        let mut bytes = [0; size_of::<ExecutionReport>()];
        bytes[0] = ExecutionKind::Accepted as u8;
        let mut report = ExecutionReport::try_read_from_bytes(&bytes).expect("a report");
        report.t_seq = Nanos(10);
        let judged = |report: &ExecutionReport| {
            [None, Some(Nanos(11)), Some(Nanos(10))].map(|end| {
                let mut expiries = Expiries::default();
                let ends = end.map(|end| ((report.account, report.user_ref), end));
                expiries.ends.extend(ends);
                expiries.judge(report)
            })
        };
        assert_eq!(judged(&report), [Ending::None; 3]);
        report.kind = ExecutionKind::Executed;
        let late = Ending::TradedLate(Nanos(10));
        assert_eq!(judged(&report), [Ending::None, Ending::None, late]);
        (report.kind, report.cancel_reason) = (ExecutionKind::Canceled, CancelReason::Expired);
        let early = [None, Some(Nanos(11))].map(Ending::EndedEarly);
        assert_eq!(judged(&report), [early[0], early[1], Ending::Expired]);
    }
}
