//! Cancel on disconnect for accounts whose gateway died: nobody else is left to ask for it.
//!
//! A gateway keeps its accounts' streams by signs of life. One that is silent for the lease and the
//! grace time counts as gone with its sessions, once for each silence; an account that is attached
//! elsewhere by then is heard of there. One that nobody has attached counts as silent from when that
//! was seen: its session has ended, and the gateway that was to cancel its orders may be gone. Only
//! accounts that want it and that have orders are looked at.

use types::{AccountId, ClOrdId, Command, CommandKind, Nanos};

/// How often is looked.
const EVERY_NS: u64 = 100 * Nanos::MILLI;

struct Account {
    account: AccountId,
    /// The last sign of life before a silence that has been dealt with.
    done: Nanos,
    /// Until somebody has it attached, it counts as heard of then.
    since: Option<Nanos>,
}

/// Accounts whose gateway may be dead, and when that is looked at next.
pub(crate) struct DeadGatewayCancels {
    accounts: Vec<Account>,
    patience_ns: u64,
    next: Nanos,
}

impl DeadGatewayCancels {
    /// Looks after these accounts; a silence of `patience_ns` is the end of a session.
    pub(crate) fn new(
        accounts: impl Iterator<Item = AccountId>,
        patience_ns: u64,
    ) -> DeadGatewayCancels {
        let accounts = accounts.map(|account| Account { account, done: Nanos(0), since: None });
        let accounts: Vec<Account> = accounts.collect();
        let next = if accounts.is_empty() { Nanos::NEVER } else { Nanos(0) };
        DeadGatewayCancels { accounts, patience_ns, next }
    }

    /// This root serves from now on, after another one.
    pub(crate) fn begin(&mut self, now: Nanos) {
        for account in &mut self.accounts {
            (account.done, account.since) = (Nanos(0), Some(now));
        }
    }

    /// Somebody has an account attached: from now on its own signs of life count, and how its
    /// session ends is that gateway's business.
    pub(crate) fn attached(&mut self, account: AccountId) {
        if let Some(known) = self.accounts.iter_mut().find(|known| known.account == account) {
            known.since = None;
        }
    }

    /// When [`DeadGatewayCancels::take`] is wanted next.
    pub(crate) fn next_timeout(&self) -> Nanos {
        self.next
    }

    /// The commands that are due now; `heard` says when an account's gateway was last heard of, and
    /// `trades` whether it has orders.
    pub(crate) fn take(
        &mut self,
        now: Nanos,
        heard: impl Fn(AccountId) -> Option<Nanos>,
        trades: impl Fn(AccountId) -> bool,
    ) -> Vec<Command> {
        let mut due = Vec::new();
        if now < self.next {
            return due;
        }
        self.next = now.after(EVERY_NS);
        for account in &mut self.accounts {
            if !trades(account.account) {
                continue;
            }
            let at = match heard(account.account) {
                Some(at) => at,
                None => *account.since.get_or_insert(now),
            };
            if at > account.done && now.since(at) >= self.patience_ns {
                account.done = at;
                due.push(cancel(account.account));
            }
        }
        due
    }
}

fn cancel(account: AccountId) -> Command {
    let mut command = Command::new(CommandKind::MassCancel);
    (command.account, command.reserved) = (account, 1);
    command.cl_ord_id = ClOrdId(*b"GATEWAY LOST  ");
    command
}
