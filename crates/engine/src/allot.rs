//! Questions about, and records of, limits that span shards; the rules are in `risk::allotments`.

use types::{AccountId, AllotRecord, Command, Input, LimitKind, Nanos, ShardId};

use crate::apply::{Applied, Engine};
use crate::output::Output;
use crate::risk::{AllotFault, AllotTotals, AllotWant, Directive};

/// A limit that spans shards, as one shard knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allotment {
    /// The shard that owns the limit.
    pub home: ShardId,
    /// The whole limit, as far as this shard has been told.
    pub limit: u64,
    /// What this shard may use of it.
    pub part: u64,
    /// What this shard uses of it.
    pub used: u128,
    /// What of its part came with instruments from other shards, less what went with some.
    pub carried: i128,
}

impl Engine {
    /// A shared limit of an account; `None` for other kinds, for an account that can't exist, and in
    /// a venue of one shard. `at` is the time for which messages of the last second are counted.
    pub fn allotment(&self, account: AccountId, kind: LimitKind, at: Nanos) -> Option<Allotment> {
        if !self.accounts.exists(account) {
            return None;
        }
        let (home, limit, part) = self.risk.part(account, kind)?;
        let used = self.risk.used(account, kind, at.max(self.now).0);
        let carried = self.risk.carried(account, kind);
        Some(Allotment { home: ShardId(home as u16), limit, part, used, carried })
    }

    /// What the account's home and another shard have moved; `None` when this shard is neither, and
    /// where [`Engine::allotment`] is `None`.
    pub fn allot_totals(
        &self,
        account: AccountId,
        kind: LimitKind,
        shard: ShardId,
    ) -> Option<AllotTotals> {
        let exists = self.accounts.exists(account);
        exists.then(|| self.risk.totals(account, kind, usize::from(shard.0))).flatten()
    }

    /// Takes one of the last refusals for lack of a part, until there is none. Kept for at most 64
    /// pairs of account and limit, and no part of the state.
    pub fn next_want(&mut self) -> Option<AllotWant> {
        self.risk.next_want()
    }

    /// Number of the last command for all shards that this one has carried out; see
    /// [`types::CommandKind`].
    pub fn directive(&self) -> u32 {
        self.risk.directive()
    }

    /// A deliberate mistake, for tests of the checks that have to find it.
    #[doc(hidden)]
    pub fn allot_wrongly(&mut self, fault: AllotFault) {
        self.risk.sabotage(fault);
    }

    pub(crate) fn allot(&mut self, command: &Command) -> Applied {
        let record = AllotRecord::of(command).filter(|r| self.accounts.exists(r.account));
        match record {
            Some(record) if self.risk.allot(&record, self.now.0) => Applied::Done,
            _ => Applied::Refused,
        }
    }

    /// A command of an operator for all shards: each carries it out once, in the order of their
    /// numbers.
    #[cold]
    pub(crate) fn directed(&mut self, input: &Input, out: &mut Output) -> Applied {
        match self.risk.take_directive(input.command.session_seq) {
            Some(Directive::Next) | None => {
                if let Some(between) = &mut self.between {
                    between.keep(&input.command);
                }
                self.dispatch(input, out)
            }
            Some(Directive::Seen) => Applied::DuplicateRequest,
            Some(Directive::Early) => Applied::TooFarAhead,
        }
    }
}
