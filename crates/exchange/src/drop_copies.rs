//! Which accounts' reports are copied into which streams: drop-copy sessions get those of their
//! firm's accounts.
//!
//! The copies are records of the drop-copy account's own stream, appended by the root in the order
//! of the log, so that they are numbered, resent and taken over by another gateway like everything
//! else there (corner 2), and held for the same ticks (corner 16). A copy names the account it is
//! of and, instead of a number of that one's session, its position in that one's stream.

use gateway::FixRole;
use overlay::private_sender::PrivateStreams;
use types::{AccountId, ExecutionKind, ExecutionReport, REFUSED_MASS_CANCEL, ShardId};
use zerocopy::IntoBytes;

use crate::Account;

/// In a copy the number of its shard stands above its position.
const SHARD_SHIFT: u32 = 28;

const _: () = assert!(types::limits::SHARDS_MAX <= 1 << (32 - SHARD_SHIFT));

/// For each account the streams that get copies of its reports.
#[derive(Debug)]
pub(crate) struct DropCopies {
    /// By account number: where copies of its reports go.
    to: Vec<Vec<AccountId>>,
    shard: ShardId,
}

impl DropCopies {
    /// The copies that a shard makes.
    pub(crate) fn new(shard: ShardId, accounts: &[Account]) -> DropCopies {
        let most = accounts.iter().map(|account| account.id.0).max().unwrap_or(0);
        let mut to = vec![Vec::new(); usize::from(most) + 1];
        let listens = |account: &Account| {
            account.fix.as_ref().is_some_and(|session| session.role == FixRole::DropCopy)
        };
        for account in accounts.iter().filter(|account| !listens(account)) {
            let of_firm = |other: &&Account| {
                !account.firm.is_empty() && other.firm == account.firm && listens(other)
            };
            if let Some(to) = to.get_mut(usize::from(account.id.0)) {
                to.extend(accounts.iter().filter(of_firm).map(|other| other.id));
            }
        }
        DropCopies { to, shard }
    }

    /// Where copies of an account's reports go.
    pub(crate) fn to(&self, account: AccountId) -> &[AccountId] {
        self.to.get(usize::from(account.0)).map_or(&[][..], Vec::as_slice)
    }

    /// The largest number of copies of one report.
    pub(crate) fn most(&self) -> u64 {
        self.to.iter().map(Vec::len).max().unwrap_or(0) as u64
    }

    /// Appends the copies of a report that has this position in its own stream; how many could not
    /// be appended.
    pub(crate) fn append(
        &self,
        report: &ExecutionReport,
        position: u64,
        private: &mut PrivateStreams,
    ) -> u64 {
        let to = self.to.get(usize::from(report.account.0)).map_or(&[][..], Vec::as_slice);
        if to.is_empty() || !is_copied(report) {
            return 0;
        }
        // Message numbers of FIX have 32 bits, too.
        let session_seq = u32::try_from(position).unwrap_or(u32::MAX);
        // Positions of several shards meet in the stream of the copies.
        let session_seq = session_seq ^ u32::from(self.shard.0) << SHARD_SHIFT;
        let copy = ExecutionReport { session_seq, ..*report };
        let append = |account: &&AccountId| private.append(**account, copy.as_bytes()).is_err();
        to.iter().filter(append).count() as u64
    }
}

/// Whether a report is about an order; answers to mass cancels are not, the cancels are.
fn is_copied(report: &ExecutionReport) -> bool {
    match report.kind {
        ExecutionKind::SessionSlot
        | ExecutionKind::MassCanceled
        | ExecutionKind::StreamReference => false,
        ExecutionKind::CancelRejected => report.flags & REFUSED_MASS_CANCEL == 0,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use gateway::{FixLogin, FixVersion};

    use super::*;

    #[test]
    fn reports_go_to_the_drop_copies_of_their_firm_whatever_the_door() {
        let account = |number: u16, firm: &str, role: Option<FixRole>| Account {
            id: AccountId(number),
            username: String::new(),
            password: String::new(),
            cancel_on_disconnect: false,
            terms: crate::LoginTerms::default(),
            throttle: crate::Throttle::default(),
            fix: role.map(|role| FixLogin::new(&number.to_string(), FixVersion::Fix44, role)),
            firm: firm.to_string(),
        };
        let (orders, copy) = (Some(FixRole::Orders), Some(FixRole::DropCopy));
        let copies = DropCopies::new(
            ShardId(0),
            &[
                account(1, "A", orders),
                account(2, "A", None),
                account(3, "A", copy),
                account(4, "B", copy),
                account(5, "", None),
                account(6, "A", copy),
            ],
        );
        let to: Vec<Vec<u16>> =
            copies.to.iter().map(|to| to.iter().map(|account| account.0).collect()).collect();
        assert_eq!(to, [vec![], vec![3, 6], vec![3, 6], vec![], vec![], vec![], vec![]]);
        assert_eq!(copies.most(), 2);
    }
}
