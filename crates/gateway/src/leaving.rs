//! Accounts whose session ended and whose orders shall go, unless they come back in time.
//!
//! When an account's time is up the gateway asks the root for its stream, as a login would: the
//! root refuses while the account is logged in elsewhere, and then nothing is cancelled. At most
//! one entry per account.

use types::{AccountId, Nanos};

struct Leaver {
    account: AccountId,
    /// When its time is up.
    due: Nanos,
    /// The root has been asked and has not answered.
    asking: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Leaving {
    accounts: Vec<Leaver>,
}

impl Leaving {
    /// An account left, or is to be looked at again; its time is up at `due`.
    pub(crate) fn put(&mut self, account: AccountId, due: Nanos) {
        self.forget(account);
        self.accounts.push(Leaver { account, due, asking: false });
    }

    /// An account is back, or its orders are cancelled.
    pub(crate) fn forget(&mut self, account: AccountId) {
        self.accounts.retain(|leaver| leaver.account != account);
    }

    /// An account whose time is up and that nobody asked for yet; it counts as asked for now.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<AccountId> {
        let due = |leaver: &&mut Leaver| !leaver.asking && leaver.due <= now;
        let leaver = self.accounts.iter_mut().find(due)?;
        leaver.asking = true;
        Some(leaver.account)
    }

    /// The stream of an account is asked for by a login now, not on our own account: should that
    /// come to nothing, its time is up again at `due`.
    pub(crate) fn interrupt(&mut self, account: AccountId, due: Nanos) {
        let asked = |leaver: &&mut Leaver| leaver.account == account && leaver.asking;
        if let Some(leaver) = self.accounts.iter_mut().find(asked) {
            (leaver.asking, leaver.due) = (false, due);
        }
    }

    /// Whether the root has been asked for this account.
    pub(crate) fn is_asking(&self, account: AccountId) -> bool {
        self.accounts.iter().any(|leaver| leaver.account == account && leaver.asking)
    }

    /// When the next account's time is up.
    pub(crate) fn next_timeout(&self) -> Nanos {
        let waiting = self.accounts.iter().filter(|leaver| !leaver.asking);
        waiting.map(|leaver| leaver.due).min().unwrap_or(Nanos::NEVER)
    }
}
