//! One FIX session at a gateway: its application, its held reports, how far its stream has come.
//!
//! It is empty while nobody is logged on here. With the Logon the account's stream is read
//! from its first record on, which rebuilds everything: the ledger, both directions' numbers, what
//! may have to be resent. Memory: the ledger's and the store's bounds, for those logged on.

use fix::Version;
use fix::app::{FixApplication, LedgerLimits};
use types::{AccountId, ConnId, Nanos};

use crate::access::bucket::{Bucket, Rate};
use crate::config::{FixLogin, FixRole, Login};
use crate::fix::market_data::MarketSubscriptions;
use crate::hold::HoldQueue;
use crate::operate::{SessionInfo, Tally};

/// How far the logon of a session has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Nobody is logged on here.
    Empty,
    /// A Logon with the right credentials came; the root has not yet given us the stream.
    Attaching,
    /// The stream is read, up to this position.
    Reading(u64),
    /// Everything up to now is known.
    Ready,
}

/// What a gateway keeps of one account's FIX session.
pub(crate) struct FixSessionState {
    pub(crate) account: AccountId,
    pub(crate) username: Vec<u8>,
    version: Version,
    role: FixRole,
    /// So that participants can't choose identifiers that are slow to find.
    salt: u64,
    pub(crate) application: FixApplication,
    /// Of a market-data session, which has no stream and is always ready.
    pub(crate) market: Option<MarketSubscriptions>,
    pub(crate) hold: HoldQueue,
    pub(crate) tally: Tally,
    pub(crate) conn: Option<ConnId>,
    pub(crate) progress: Progress,
    pub(crate) paused: bool,
    /// Position of the next record.
    pub(crate) position: u64,
    /// Messages received until numbers last began at 1, and in all, as far as the stream tells.
    pub(crate) before: u32,
    pub(crate) received: u32,
    /// Slots that may be asked for.
    allowance: Bucket,
    /// It asked for too many and is being closed.
    pub(crate) flooded: bool,
    /// Refusals of requests above the rate whose slots are not asked for yet; they are paid from a
    /// bucket of their own.
    refusals: usize,
    /// That bucket is empty: the session is to be ended.
    pub(crate) over_rate: bool,
}

/// Slots that a session may ask for.
const SLOTS: Rate = Rate { per_s: 100, burst: 512 };

impl FixSessionState {
    /// An empty state of an account's session.
    pub(crate) fn new(login: &Login, session: &FixLogin, salt: u64) -> FixSessionState {
        FixSessionState::empty(
            login.account,
            login.username.clone(),
            (session.version, session.role),
            salt,
        )
    }

    fn empty(
        account: AccountId,
        username: Vec<u8>,
        (version, role): (Version, FixRole),
        salt: u64,
    ) -> FixSessionState {
        let limits = LedgerLimits { salt, ..LedgerLimits::default() };
        let application = match role {
            FixRole::DropCopy => FixApplication::drop_copy(version, limits),
            FixRole::Orders => FixApplication::new(version, limits),
            FixRole::MarketData => FixApplication::market_data(version),
        };
        let market = (role == FixRole::MarketData).then(MarketSubscriptions::default);
        let progress = if market.is_some() { Progress::Ready } else { Progress::Empty };
        FixSessionState {
            account,
            username,
            version,
            role,
            salt,
            application,
            market,
            hold: HoldQueue::default(),
            tally: Tally::default(),
            conn: None,
            progress,
            paused: false,
            position: 1,
            before: 0,
            received: 0,
            allowance: Bucket::new(SLOTS),
            flooded: false,
            refusals: 0,
            over_rate: false,
        }
    }

    /// As new, but for what it may still ask for.
    pub(crate) fn leave(&mut self) {
        let username = std::mem::take(&mut self.username);
        let fresh =
            FixSessionState::empty(self.account, username, (self.version, self.role), self.salt);
        *self = FixSessionState { allowance: self.allowance, ..fresh };
    }

    /// A request above the rate is refused; `paid`: its bucket had room for that.
    pub(crate) fn note_refusal(&mut self, paid: bool) {
        self.refusals += 1;
        self.over_rate |= !paid;
    }

    /// Whether one more slot may be asked for.
    pub(crate) fn allows_slot(&mut self, now: Nanos) -> bool {
        if let Some(left) = self.refusals.checked_sub(1) {
            self.refusals = left;
            return true;
        }
        self.allowance.take(now)
    }

    /// The session as operators see it, if it is logged on.
    pub(crate) fn info(&self) -> Option<SessionInfo> {
        let conn = self.conn.filter(|_| self.progress == Progress::Ready)?;
        Some(self.tally.info(self.account, conn, self.hold.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_gives_a_burst_of_slots_and_then_a_hundred_a_second() {
        let agreed = (Version::Fix44, FixRole::Orders);
        let mut state = FixSessionState::empty(AccountId(1), b"user".to_vec(), agreed, 7);
        let now = Nanos(1_000 * Nanos::SECOND);
        let burst = (0..1_000).filter(|_| state.allows_slot(now)).count();
        assert_eq!(burst as u64, SLOTS.burst);
        state.leave();
        assert!(!state.allows_slot(now), "logging on again buys nothing");
        let later = now.after(Nanos::SECOND);
        assert_eq!((0..1_000).filter(|_| state.allows_slot(later)).count(), 100);
    }
}
