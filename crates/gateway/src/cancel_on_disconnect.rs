//! Accounts whose session ended and whose orders shall go, unless they come back in time.
//!
//! When an account's time is up the gateway asks the root for its stream, as a login would: the
//! root refuses while the account is logged in elsewhere, and then nothing is cancelled. With the
//! stream it sends the cancel, behind the account's own requests, and keeps the stream until that
//! is in the log: so the cancel may be of all the account's orders, whatever gateway they came
//! through, and can never reach those of a session after it. At most one entry per account. Of a
//! gateway that dies the root cancels itself.

use types::{AccountId, Nanos};

/// How far an account is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Its time is not up.
    Waiting,
    /// The root has been asked and has not answered.
    Asking,
    /// The cancel is on its way to the log.
    Canceling,
}

struct Leaver {
    account: AccountId,
    /// When its time is up.
    due: Nanos,
    step: Step,
}

/// Accounts that left and whose orders are to be cancelled, one entry each.
#[derive(Default)]
pub(crate) struct CancelOnDisconnect {
    accounts: Vec<Leaver>,
}

impl CancelOnDisconnect {
    /// An account left, or is to be looked at again; its time is up at `due`.
    pub(crate) fn put(&mut self, account: AccountId, due: Nanos) {
        self.forget(account);
        self.accounts.push(Leaver { account, due, step: Step::Waiting });
    }

    /// An account is back, or its orders are cancelled.
    pub(crate) fn forget(&mut self, account: AccountId) {
        self.accounts.retain(|leaver| leaver.account != account);
    }

    /// An account whose time is up and that nobody asked for yet; it counts as asked for now.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<AccountId> {
        let due = |leaver: &&mut Leaver| leaver.step == Step::Waiting && leaver.due <= now;
        let leaver = self.accounts.iter_mut().find(due)?;
        leaver.step = Step::Asking;
        Some(leaver.account)
    }

    /// The cancel of an account was sent.
    pub(crate) fn sent(&mut self, account: AccountId) {
        let asked = self.accounts.iter_mut().find(|leaver| leaver.account == account);
        if let Some(leaver) = asked {
            leaver.step = Step::Canceling;
        }
    }

    /// An account whose cancel is in the log, as `pending` says; it is forgotten now.
    pub(crate) fn take_done(&mut self, pending: impl Fn(AccountId) -> bool) -> Option<AccountId> {
        let done = |leaver: &Leaver| leaver.step == Step::Canceling && !pending(leaver.account);
        let place = self.accounts.iter().position(done)?;
        Some(self.accounts.swap_remove(place).account)
    }

    /// The stream of an account is asked for by a login now, not on our own account: should that
    /// come to nothing, its time is up again at `due`. What is being cancelled is past that.
    pub(crate) fn interrupt(&mut self, account: AccountId, due: Nanos) {
        self.accounts.retain(|leaver| leaver.account != account || leaver.step != Step::Canceling);
        let asked = |leaver: &&mut Leaver| leaver.account == account && leaver.step == Step::Asking;
        if let Some(leaver) = self.accounts.iter_mut().find(asked) {
            (leaver.step, leaver.due) = (Step::Waiting, due);
        }
    }

    /// Whether the root has been asked for this account.
    pub(crate) fn is_asking(&self, account: AccountId) -> bool {
        let asked = |leaver: &Leaver| leaver.account == account && leaver.step == Step::Asking;
        self.accounts.iter().any(asked)
    }

    /// When the next account's time is up.
    pub(crate) fn next_timeout(&self) -> Nanos {
        let waiting = self.accounts.iter().filter(|leaver| leaver.step == Step::Waiting);
        waiting.map(|leaver| leaver.due).min().unwrap_or(Nanos::NEVER)
    }
}
