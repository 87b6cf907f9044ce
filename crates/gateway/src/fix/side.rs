//! The gateway's dealings with its FIX door: attachments, records, and who leaves.

use fix::session::Ending;
use overlay::{frame::AttachReplyBody, private_receiver::PrivateEvent};
use types::{AccountId, ClockReading, ConnId, Nanos, Outbox};

use crate::access::Refusal;
use crate::config::FixRole;
use crate::context::Ahead;
use crate::fix::door::Outcome;
use crate::fix::market::{Books, Market};
use crate::gateway::Gateway;

impl Gateway {
    /// Does what the door wants done for a connection.
    pub(crate) fn settle_fix(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        outcome: Outcome,
        out: &mut Outbox,
    ) {
        match outcome {
            Outcome::Stays => {}
            Outcome::WantsIn(account) if self.is_locked(account) => {
                self.context.access.refuse(now.now, conn, account, Refusal::Locked, "");
                self.fix.count(fix::session::Ending::NotAuthorized);
                self.leave_fix(now, conn, true, out);
            }
            Outcome::WantsIn(account) => match self.conn_of.get_mut(usize::from(account.0)) {
                Some(slot @ None) => {
                    *slot = Some(conn);
                    self.context.access.enter(conn);
                    let again = now.now.after(self.context.config.cancel_grace_ns);
                    self.cancel_on_disconnect.interrupt(account, again);
                    self.private.attach(now, account, 1, out);
                }
                _ => {
                    self.context.access.refuse(now.now, conn, account, Refusal::SecondLogon, "");
                    self.fix.count(Ending::AlreadyLoggedOn);
                    self.leave_fix(now, conn, true, out);
                }
            },
            Outcome::Ends(ending) => {
                self.fix.count(ending);
                self.note_refusal(now, conn, ending);
                self.leave_fix(now, conn, true, out);
            }
        }
    }

    /// Access control hears why a connection was not let in.
    fn note_refusal(&mut self, now: ClockReading, conn: ConnId, ending: Ending) {
        let why = match ending {
            Ending::Garbled | Ending::NotLogon => Refusal::NoLogon,
            Ending::LogonTimeout => Refusal::TooSlow,
            Ending::AlreadyLoggedOn => Refusal::SecondLogon,
            // The door has said so already, or access control itself has refused it.
            _ => return,
        };
        if self.context.access.is_stranger(conn) {
            self.context.access.fail(now.now, conn, b"", why);
        }
    }

    /// A FIX connection is gone, or `closes` now.
    pub(crate) fn leave_fix(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        closes: bool,
        out: &mut Outbox,
    ) {
        if let Some((account, live)) = self.fix.close(conn) {
            if live && self.context.config.cancels_on_disconnect(account) {
                self.cancel_on_disconnect
                    .put(account, now.now.after(self.context.config.cancel_grace_ns));
            }
            if self.conn(account) == Some(conn) {
                self.conn_of[usize::from(account.0)] = None;
                self.private.detach(now, account, out);
            }
        }
        self.context.access.forget(conn);
        if closes {
            out.close(conn);
        }
    }

    /// The root's word about the stream of an account whose Logon came on `conn`.
    pub(crate) fn handle_fix_reply(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        reply: &AttachReplyBody,
        out: &mut Outbox,
    ) {
        let (mut attached, mut lost) = (None, None);
        let context = &mut self.context;
        self.private.handle_reply(now, reply, |event| match event {
            PrivateEvent::Attached { account, next, .. } => attached = Some((account, next)),
            PrivateEvent::Refused { account } | PrivateEvent::Detached { account } => {
                lost = Some(account);
            }
            PrivateEvent::Behind { account, asked, next } => {
                context.note_ahead(Ahead { account, asked, next });
                lost = Some(account);
            }
            PrivateEvent::Record { .. } => {}
        });
        if let Some((account, next)) = attached {
            self.cancel_on_disconnect.forget(account);
            let outcome = self.fix.attached(now, account, next, &mut self.context, out);
            self.settle_fix(now, conn, outcome, out);
        } else if let Some(account) = lost {
            // It is logged on elsewhere: its orders are not ours to cancel.
            if self.fix.is_live(account) {
                self.context.counters.taken_over += 1;
            } else {
                self.context.access.refuse(now.now, conn, account, Refusal::SecondLogon, "");
                self.fix.count(Ending::AlreadyLoggedOn);
            }
            self.leave_fix(now, conn, true, out);
            self.cancel_on_disconnect.forget(account);
        }
    }

    /// Lets out what may be told of an account's records.
    pub(crate) fn release_fix(&mut self, now: ClockReading, account: AccountId, out: &mut Outbox) {
        let Some(conn) = self.conn(account) else { return };
        let outcome = self.fix.release(now, account, &self.watermarks, &mut self.context, out);
        let paused = self.fix.settle_pause(account);
        self.private.set_paused(account, paused);
        self.settle_fix(now, conn, outcome, out);
    }

    /// All accounts' records whose tick may have become public, or overdue.
    pub(crate) fn release_all_fix(&mut self, now: ClockReading, out: &mut Outbox) {
        // Account numbers begin at 1.
        let mut last = AccountId(0);
        while let Some(account) = self.fix.holding_after(last) {
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
        self.fix.market = Some(Market::new(books));
    }

    /// The receivers on this VM have released messages of the feed; `None`: some are missing.
    pub fn handle_released<'a>(
        &mut self,
        now: Nanos,
        messages: Option<impl Iterator<Item = &'a [u8]>>,
    ) {
        match (&mut self.fix.market, messages) {
            (Some(market), Some(messages)) => {
                messages.for_each(|message| market.apply(now, message))
            }
            (Some(market), None) => market.lost = true,
            (None, _) => {}
        }
    }

    /// After [`Gateway::handle_released`]: market-data sessions are told.
    pub fn refresh_market(&mut self, now: ClockReading, out: &mut Outbox) {
        self.fix.refresh_market(now.now, out);
    }

    /// Timers of the door.
    pub(crate) fn serve_fix(&mut self, now: ClockReading, out: &mut Outbox) {
        self.release_all_fix(now, out);
        for (conn, ending) in self.fix.handle_timeout(now, &mut self.context, out) {
            self.settle_fix(now, conn, Outcome::Ends(ending), out);
        }
    }
}
