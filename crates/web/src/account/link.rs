//! The account's way in: connections, logins, and where the replay of its stream ends.
//!
//! A login's answer tells the number of the next message that comes, so a login that asks for what comes
//! from now on (0) is told where the stream ends. Each way in begins with one. If nothing was missed, that
//! session is the one; otherwise it is logged out of, and the next login, at the same gateway and as soon as
//! that has closed, asks for what is missing: the replay is over when the end is reached that was told,
//! whatever comes behind it and however long it takes. Before that nothing is sent, because numbers of
//! requests are not known to be free, and answers to requests that were under way are among what is missing.

use types::{ConnId, Nanos, Outbox, Peer};

use super::Account;
use crate::error::ApiError;

/// From a login to the first request at least: what was under way on the connection before may still be
/// answered, and need not go again.
const GRACE_NS: u64 = 250 * Nanos::MILLI;
/// Between two attempts to connect.
const RETRY_NS: u64 = 500 * Nanos::MILLI;
/// From a logout to the gateway's end of the connection at most.
const LEAVE_NS: u64 = 2 * Nanos::SECOND;

/// How the account's session stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Link {
    /// Nobody has asked for anything yet.
    Idle,
    /// Connects at this time.
    Down(Nanos),
    Connecting,
    LoggingIn,
    /// Logged out, to log in again for what is missing; at this time the gateway is not waited for any more.
    Leaving(Nanos),
    /// Logged in; requests go from this time on, once the stream is read to the end that was told.
    Replaying(Nanos),
    Up,
}

impl Account {
    pub(super) fn link_timeout(&self) -> Nanos {
        match self.link {
            Link::Idle | Link::Connecting | Link::Up | Link::LoggingIn => Nanos::NEVER,
            Link::Replaying(_) if !self.has_all() => Nanos::NEVER,
            Link::Down(at) | Link::Leaving(at) | Link::Replaying(at) => at,
        }
    }

    /// The stream has been read to the end that was told.
    fn has_all(&self) -> bool {
        self.end.is_some_and(|end| self.soup.next_seq() >= end)
    }

    /// Timers of the connection. True: it has opened the connection `next_conn`.
    pub(super) fn serve_link(&mut self, now: Nanos, next_conn: ConnId, out: &mut Outbox) -> bool {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let dead = self.soup.handle_timeout(now, &mut bytes).is_some();
        self.write(&bytes, out);
        self.scratch = bytes;
        if dead {
            self.drop_connection(now, "the gateway is silent", out);
        }
        if matches!(self.link, Link::Leaving(at) if at <= now) {
            if let Some(conn) = self.conn {
                out.close(conn);
            }
            self.left(now);
        }
        self.begin_if_over(now, out);
        match self.link {
            Link::Down(at) if at <= now => {
                let to = self.login.gateways.get(self.gateway).copied().unwrap_or(Peer::NOBODY);
                out.connect(next_conn, to);
                (self.conn, self.link) = (Some(next_conn), Link::Connecting);
                true
            }
            _ => false,
        }
    }

    /// Its connection is open.
    pub fn handle_connect(&mut self, now: Nanos, out: &mut Outbox) {
        // 0: where does the stream end?
        let from = if self.end.is_some() { self.seq + 1 } else { 0 };
        self.soup.resume_from(self.soup.session(), from);
        let mut bytes = Vec::new();
        if self.soup.connect(now, &mut bytes).is_ok() {
            self.link = Link::LoggingIn;
        }
        self.write(&bytes, out);
    }

    /// Its login was accepted, and `next` is the number of the next message. False: it is not the one; nothing
    /// of what comes on it counts.
    pub(super) fn logged_in(&mut self, now: Nanos, next: u64, out: &mut Outbox) -> bool {
        if self.end.is_none() {
            self.end = Some(next);
            if next != self.seq + 1 {
                let mut bytes = Vec::new();
                // A session that is over already is left all the same.
                let _ = self.soup.logout(&mut bytes);
                self.write(&bytes, out);
                self.link = Link::Leaving(now.after(LEAVE_NS));
                return false;
            }
        }
        self.link = Link::Replaying(now.after(GRACE_NS));
        true
    }

    /// Its connection is gone.
    pub fn handle_close(&mut self, now: Nanos) {
        let why = "the gateway has ended the connection, or can not be reached";
        match self.link {
            Link::Idle => {}
            Link::Leaving(_) => self.left(now),
            _ => self.close(now, why),
        }
    }

    /// The session that told the end of the stream is over: the next login is for what is missing.
    fn left(&mut self, now: Nanos) {
        self.soup.handle_close();
        (self.conn, self.link) = (None, Link::Down(now));
    }

    fn close(&mut self, now: Nanos, why: &str) {
        self.soup.handle_close();
        (self.conn, self.end) = (None, None);
        self.gateway = (self.gateway + 1) % self.login.gateways.len().max(1);
        self.link = Link::Down(now.after(RETRY_NS));
        self.why = why.to_string();
        // Nothing of it was sent: whoever asked may ask again.
        for (_, reply) in std::mem::take(&mut self.queued) {
            reply.send(Err(ApiError::new("session_down", why)));
        }
    }

    pub(super) fn drop_connection(&mut self, now: Nanos, why: &str, out: &mut Outbox) {
        if let Some(conn) = self.conn {
            out.close(conn);
        }
        self.close(now, why);
    }

    fn write(&self, bytes: &[u8], out: &mut Outbox) {
        if let (Some(conn), false) = (self.conn, bytes.is_empty()) {
            let span = out.store(bytes);
            out.stream(conn, span);
        }
    }

    /// Once the replay is over what has no answer goes again, then what waited.
    pub(super) fn begin_if_over(&mut self, now: Nanos, out: &mut Outbox) {
        if !matches!(self.link, Link::Replaying(at) if at <= now) || !self.has_all() {
            return;
        }
        (self.link, self.caught_up) = (Link::Up, true);
        let again: Vec<Vec<u8>> = self.unanswered.iter().map(|of| of.message.clone()).collect();
        again.iter().for_each(|message| self.send(now, message, out));
        for (ask, reply) in std::mem::take(&mut self.queued) {
            self.ask(now, ask, reply, out);
        }
    }

    pub(super) fn send(&mut self, now: Nanos, message: &[u8], out: &mut Outbox) {
        let mut bytes = Vec::new();
        // Not active: it goes again with the next login.
        if self.soup.send_unsequenced(now, message, &mut bytes).is_ok() {
            self.write(&bytes, out);
        }
    }
}
