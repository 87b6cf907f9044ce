//! The gateway's dealings with its FIX door: attachments, records, and who leaves.

use overlay::private_receiver::PrivateEvent;
use types::{AccountId, ClockReading, ConnId, Nanos, Outbox};

use crate::access::Refusal;
use crate::config::FixRole;
use crate::context::Ahead;
use crate::fix::market::{Books, ReleasedMarket};
use crate::gateway::Gateway;
use crate::session::Ending;

impl Gateway {
    /// Word about the stream of an account whose Logon came on `conn`.
    pub(crate) fn handle_fix_event(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        event: &PrivateEvent<'_>,
        out: &mut Outbox,
    ) {
        let (mut attached, mut lost) = (None, None);
        let context = &mut self.context;
        match *event {
            PrivateEvent::Attached { account, next, .. } => attached = Some((account, next)),
            PrivateEvent::Refused { account } | PrivateEvent::Detached { account } => {
                lost = Some(account);
            }
            PrivateEvent::Behind { account, asked, next } => {
                context.note_ahead(Ahead { account, asked, next });
                lost = Some(account);
            }
            PrivateEvent::Record { .. } => {}
        }
        if let Some((account, next)) = attached {
            self.cancel_on_disconnect.forget(account);
            let outcome = self.sessions.fix.attached(now, account, next, &mut self.context, out);
            self.settle(now, conn, outcome, out);
        } else if let Some(account) = lost {
            // It is logged on elsewhere: its orders are not ours to cancel.
            let mut ending = Ending::Dropped;
            if self.sessions.fix.is_live(account) {
                self.context.counters.taken_over += 1;
            } else {
                self.context.access.refuse(now.now, conn, account, Refusal::SecondLogon, "");
                ending = Ending::Refused(Refusal::SecondLogon);
            }
            self.end(now, conn, ending, out);
            self.cancel_on_disconnect.forget(account);
        }
    }

    /// Lets out what may be told of an account's records.
    pub(crate) fn release_fix(&mut self, now: ClockReading, account: AccountId, out: &mut Outbox) {
        let Some(conn) = self.conn(account) else { return };
        let outcome =
            self.sessions.fix.release(now, account, &self.watermarks, &mut self.context, out);
        let paused = self.sessions.fix.settle_pause(account);
        self.streams.set_paused(account, paused);
        self.settle(now, conn, outcome, out);
    }

    /// All accounts' records whose tick may have become public, or overdue.
    pub(crate) fn release_all_fix(&mut self, now: ClockReading, out: &mut Outbox) {
        // Account numbers begin at 1.
        let mut last = AccountId(0);
        while let Some(account) = self.sessions.fix.holding_after(last) {
            self.release_fix(now, account, out);
            last = account;
        }
    }

    /// Whether a session of this gateway is one for market data, so that it has to know the feed.
    pub fn wants_market(&self) -> bool {
        let sessions = self.context.config.logins.iter().filter_map(|login| login.fix.as_ref());
        sessions.into_iter().any(|session| session.role == FixRole::MarketData)
    }

    /// Market-data sessions are told of these books, which know nothing of the feed yet.
    pub fn set_market(&mut self, books: Box<dyn Books>) {
        self.sessions.fix.market = Some(ReleasedMarket::new(books));
    }

    /// The receiver of a stream, those of all shards in one row, has released messages of the feed on this VM; `None`:
    /// some are missing.
    pub fn handle_released<'a>(
        &mut self,
        (now, stream): (Nanos, usize),
        messages: Option<impl Iterator<Item = &'a [u8]>>,
    ) {
        match (&mut self.sessions.fix.market, messages) {
            (Some(market), Some(messages)) => {
                messages.for_each(|message| market.apply(now, stream, message))
            }
            (Some(market), None) => market.lost = true,
            (None, _) => {}
        }
    }

    /// After [`Gateway::handle_released`]: market-data sessions are told.
    pub fn refresh_market(&mut self, now: ClockReading, out: &mut Outbox) {
        self.sessions.fix.refresh_market(now.now, out);
    }

    /// Timers of the door.
    pub(crate) fn serve_fix(&mut self, now: ClockReading, out: &mut Outbox) {
        if now.now < self.sessions.fix.next_timeout() {
            return;
        }
        self.release_all_fix(now, out);
        for (conn, outcome) in self.sessions.fix.handle_timeout(now, &mut self.context, out) {
            self.settle(now, conn, outcome, out);
        }
    }
}
