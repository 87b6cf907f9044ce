//! Every lot accounted for, from the execution reports alone: what came in rests, has traded or
//! was cancelled; and each request has exactly one answer.

use std::collections::HashMap;

use types::{
    AccountId, CancelReason, Command, CommandKind, ExecutionKind, ExecutionReport, UserRefNum,
};

#[derive(Default)]
pub struct Ledger {
    /// Open lots by identity, as the account's own stream tells them.
    open: HashMap<(AccountId, UserRefNum), u64>,
    entered: u64,
    traded: u64,
    cancelled: u64,
}

impl Ledger {
    /// Takes the reports that followed from `command`.
    pub fn follow(&mut self, command: &Command, reports: &[ExecutionReport]) {
        // What ended before is told of first.
        let ended = |report: &&ExecutionReport| report.cancel_reason == CancelReason::Expired;
        self.check_answer(command, &reports[reports.iter().take_while(ended).count()..]);
        for report in reports {
            let key = (report.account, report.user_ref);
            match report.kind {
                ExecutionKind::Accepted => {
                    assert_eq!(self.open.insert(key, report.qty.0), None, "accepted twice");
                    self.entered += report.qty.0;
                }
                ExecutionKind::Replaced => {
                    let old = (report.account, report.orig_user_ref);
                    let before = self.open.remove(&old).expect("the replaced order was open");
                    self.cancelled += before.saturating_sub(report.qty.0);
                    self.entered += report.qty.0.saturating_sub(before);
                    assert_eq!(self.open.insert(key, report.qty.0), None, "a live identity");
                }
                ExecutionKind::Executed => {
                    self.reduce(report);
                    self.traded += report.qty.0;
                    assert!(report.public_after.0 > 0, "a fill without a public trade");
                }
                ExecutionKind::Canceled => {
                    self.reduce(report);
                    self.cancelled += report.qty.0;
                }
                ExecutionKind::Rejected | ExecutionKind::CancelRejected => {
                    assert_eq!(report.leaves.0, 0);
                }
                other => panic!("{other:?} does not come of plain orders"),
            }
            let open = self.open.get(&key).copied().unwrap_or(0);
            let refused =
                matches!(report.kind, ExecutionKind::Rejected | ExecutionKind::CancelRejected);
            assert!(refused || report.leaves.0 == open, "leaves of {report:?}");
        }
        let resting: u64 = self.open.values().sum();
        assert_eq!(self.entered, resting + self.traded + self.cancelled, "lots were lost or made");
    }

    /// Open lots of an identity.
    pub fn open(&self, account: AccountId, user_ref: UserRefNum) -> u64 {
        self.open.get(&(account, user_ref)).copied().unwrap_or(0)
    }

    /// Identities with open lots.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    fn reduce(&mut self, report: &ExecutionReport) {
        let key = (report.account, report.user_ref);
        let open = self.open.get_mut(&key).expect("the order was open");
        *open -= report.qty.0;
        if *open == 0 {
            self.open.remove(&key);
        }
    }

    fn check_answer(&self, command: &Command, reports: &[ExecutionReport]) {
        let is_answer = |report: &ExecutionReport| match report.kind {
            ExecutionKind::Executed => false,
            ExecutionKind::Canceled => report.cancel_reason == CancelReason::Requested,
            _ => true,
        };
        let answers = reports.iter().filter(|report| is_answer(report)).count();
        let request = matches!(
            command.kind,
            CommandKind::NewOrder | CommandKind::Replace | CommandKind::Cancel
        );
        assert_eq!(answers, usize::from(request), "answers to {command:?}");
        if request {
            let first = &reports[0];
            assert!(is_answer(first), "the answer comes first");
            let key = (first.account, first.user_ref);
            assert_eq!(key, (command.account, command.user_ref));
        }
    }
}
