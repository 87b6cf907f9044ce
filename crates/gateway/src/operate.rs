//! What operators see and do at a gateway: who is logged on, disconnecting, locking.
//!
//! Nothing here touches the engine's state or its log. Locks are the gateway's own: whoever steers
//! an exchange tells every gateway, and again after one is started anew.

use types::{AccountId, ClockReading, ConnId, Nanos, Outbox};

use crate::context::Ahead;
use crate::gateway::Gateway;
use crate::session::Dismissal;

/// A session that is logged on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionInfo {
    /// The account that is logged on.
    pub account: AccountId,
    /// Its connection, which says the door.
    pub conn: ConnId,
    /// When it logged on.
    pub since: Nanos,
    /// Requests it sent, those refused included.
    pub messages_in: u64,
    /// Messages of its stream that it was told; for FIX those read at the logon, too.
    pub messages_out: u64,
    /// Messages that wait for their public tick.
    pub waiting: usize,
}

/// What a session is counted by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) since: Nanos,
    pub(crate) messages_in: u64,
    pub(crate) messages_out: u64,
}

impl Tally {
    pub(crate) fn info(&self, account: AccountId, conn: ConnId, waiting: usize) -> SessionInfo {
        let Tally { since, messages_in, messages_out } = *self;
        SessionInfo { account, conn, since, messages_in, messages_out, waiting }
    }
}

impl Gateway {
    /// Everybody who is logged on here, OUCH before FIX.
    pub fn logged_on(&self) -> Vec<SessionInfo> {
        self.sessions.logged_on()
    }

    /// Requests that wait here for room upward, and those sent that are not known to be in the log.
    pub fn requests_waiting(&self) -> (usize, usize) {
        let ways = self.context.ways.iter();
        ways.fold((0, 0), |(waiting, sent), way| {
            (waiting + way.spill.len(), sent + way.uplink.in_flight())
        })
    }

    /// Ends an account's session and subscriptions, with the reason; false when it has none here. Its orders
    /// go or stay as with any other end.
    pub fn disconnect(&mut self, now: ClockReading, account: AccountId, out: &mut Outbox) -> bool {
        let mut ended = self.end_subscriptions(now, Some(account), out) > 0;
        if let Some(conn) = self.conn(account) {
            self.dismiss(now, conn, Dismissal::Operator, out);
            ended = true;
        }
        self.finish(now, out);
        ended
    }

    /// From now on an account may not log on here, or may again. A session that is there stays.
    /// False for accounts nobody has.
    pub fn lock(&mut self, account: AccountId, locked: bool) -> bool {
        let known = self.context.config.logins.iter().any(|login| login.account == account);
        let entry = self.locked.get_mut(usize::from(account.0)).filter(|_| known);
        entry.map(|entry| *entry = locked).is_some()
    }

    /// From now on nothing can be logged, or it can again: meanwhile requests are refused, orders and
    /// cancels alike. Those passed on before wait and are answered when the log goes on. OUCH sessions
    /// are told of the change by a debug packet; a FIX session's messages get their numbers from the
    /// log, so its refusals are told afterwards.
    pub fn suspend(&mut self, now: ClockReading, suspended: bool, out: &mut Outbox) {
        if std::mem::replace(&mut self.context.suspended, suspended) == suspended {
            return;
        }
        // FIX sessions are told by the refusals themselves.
        self.sessions.ouch.tell_suspended(suspended, out);
        self.finish(now, out);
    }

    /// Whether requests are refused because nothing can be logged.
    pub fn is_suspended(&self) -> bool {
        self.context.suspended
    }

    /// Who named messages of their streams that were never sent, since the last time.
    pub fn take_ahead(&mut self) -> Vec<Ahead> {
        std::mem::take(&mut self.context.ahead)
    }

    /// Whether an account may not log on here.
    pub fn is_locked(&self, account: AccountId) -> bool {
        self.locked.get(usize::from(account.0)).copied().unwrap_or(false)
    }
}
