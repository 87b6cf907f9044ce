//! The gateway of one VM: many connections, one way up, private streams down.

use std::collections::{BTreeMap, VecDeque};

use overlay::{
    frame::{self, AttachReplyBody, FrameKind, GrantBody, HopHeader, OrderAckBody, PrivateBody},
    private_receiver::{PrivateEvent, PrivateReceiver, PrivateReceiverConfig},
    uplink::{SubmitError, Uplink, UplinkConfig},
};
use types::{
    AccountId, ClockReading, Command, ConnId, ExecutionReport, FeedSeq, Nanos, Outbox,
    limits::ACCOUNTS_MAX,
};
use wire::ouch;
use zerocopy::{IntoBytes, TryFromBytes};

use crate::{
    config::GatewayConfig,
    session::{Ending, Session, State},
};

/// Orders that found no room upward and wait here, all sessions together. Reading stops while any
/// do; one read of every connection still fits.
const SPILL_MAX: usize = 65_536;

/// How long the acknowledgement of private records may wait for more; the root re-sends after
/// 20 ms at the earliest.
const PRIVATE_ACK_DELAY_NS: u64 = 4 * Nanos::MILLI;

/// What a gateway did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GatewayCounters {
    /// Logins accepted.
    pub logins: u64,
    /// Logins refused: wrong credentials, wrong session, or live elsewhere.
    pub logins_refused: u64,
    /// Connections closed at once because there were too many.
    pub connections_refused: u64,
    /// Requests passed on.
    pub requests: u64,
    /// Requests refused here, outside the numbered stream.
    pub requests_refused: u64,
    /// Sessions ended because the client broke a protocol.
    pub violations: u64,
    /// Sessions ended because another gateway took the stream over.
    pub taken_over: u64,
    /// Messages sent to participants.
    pub reports: u64,
    /// Executions sent before their tick was public, after the maximum hold.
    pub overdue: u64,
    /// Messages that could not be encoded; never above zero unless limits are wrong.
    pub unencodable: u64,
    /// Orders that waited here for room upward.
    pub spilled: u64,
    /// Datagrams that were unreadable or not for a gateway.
    pub malformed: u64,
}

/// Everything but the connections, so that a connection's bytes can be handled in place.
pub(crate) struct Desk {
    pub(crate) config: GatewayConfig,
    pub(crate) uplink: Uplink,
    pub(crate) encoder: ouch::Encoder,
    pub(crate) counters: GatewayCounters,
    spill: VecDeque<(Nanos, Command)>,
}

impl Desk {
    /// Passes a request up, or keeps it until there is room. False when there is none to keep it
    /// either, which takes a read larger than any driver's.
    #[must_use]
    pub(crate) fn submit(&mut self, now: ClockReading, command: Command, out: &mut Outbox) -> bool {
        if !self.spill.is_empty() || !self.try_submit(now, now.now, &command, out) {
            if self.spill.len() >= SPILL_MAX {
                return false;
            }
            self.counters.spilled += 1;
            self.spill.push_back((now.now, command));
        }
        self.counters.requests += 1;
        true
    }

    fn try_submit(
        &mut self,
        now: ClockReading,
        t_in: Nanos,
        command: &Command,
        out: &mut Outbox,
    ) -> bool {
        match self.uplink.submit(now, command.account, t_in, command.as_bytes(), out) {
            Ok(_) => true,
            Err(SubmitError::Full | SubmitError::NotReady) => false,
            // A command fits, and accounts come from the configuration.
            Err(SubmitError::TooLong | SubmitError::UnknownAccount) => true,
        }
    }

    fn drain_spill(&mut self, now: ClockReading, out: &mut Outbox) {
        while let Some((t_in, command)) = self.spill.front().copied() {
            if !self.try_submit(now, t_in, &command, out) {
                return;
            }
            self.spill.pop_front();
        }
    }
}

/// The gateway; a component of the edge role, which feeds it frames, streams and watermarks.
pub struct Gateway {
    desk: Desk,
    private: PrivateReceiver,
    sessions: BTreeMap<ConnId, Session>,
    /// By account number: the connection it is logged in on.
    conn_of: Vec<Option<ConnId>>,
    watermark: FeedSeq,
    started: bool,
    /// Connections with new records, to be served at the end of the call.
    fresh: Vec<ConnId>,
    /// No session is due before this; may be early.
    sessions_due: Nanos,
}

impl Gateway {
    /// A gateway without connections; its first timeout is due at once.
    pub fn new(config: GatewayConfig) -> Gateway {
        let mut uplink =
            UplinkConfig::new(config.gateway, config.node, config.root, config.boot_nonce);
        uplink.epoch = config.epoch;
        let record_len = size_of::<ExecutionReport>();
        let mut private =
            PrivateReceiverConfig::new(config.node, config.root, record_len, config.first_token);
        private.epoch = config.epoch;
        private.ack_delay_ns = PRIVATE_ACK_DELAY_NS;
        Gateway {
            private: PrivateReceiver::new(private),
            sessions: BTreeMap::new(),
            conn_of: vec![None; config.accounts_max().min(ACCOUNTS_MAX) + 1],
            watermark: FeedSeq(0),
            started: false,
            fresh: Vec::new(),
            sessions_due: Nanos::NEVER,
            desk: Desk {
                uplink: Uplink::new(uplink, config.candidates.clone()),
                encoder: ouch::Encoder::new(&config.instruments, config.midnight),
                counters: GatewayCounters::default(),
                spill: VecDeque::new(),
                config,
            },
        }
    }

    /// What happened so far.
    pub fn counters(&self) -> GatewayCounters {
        self.desk.counters
    }

    /// The way up, for its totals.
    pub fn uplink(&self) -> &Uplink {
        &self.desk.uplink
    }

    /// The private streams, for their totals.
    pub fn private(&self) -> &PrivateReceiver {
        &self.private
    }

    /// Connections now open.
    pub fn connections(&self) -> usize {
        self.sessions.len()
    }

    /// A frame for the gateway; others are counted.
    pub fn handle_frame(
        &mut self,
        now: ClockReading,
        header: &HopHeader,
        rest: &[u8],
        out: &mut Outbox,
    ) {
        match header.kind {
            FrameKind::Grant => match frame::body::<GrantBody>(rest) {
                Ok((grant, [])) => self.desk.uplink.handle_grant(&grant),
                _ => self.desk.counters.malformed += 1,
            },
            FrameKind::OrderAck => match frame::body::<OrderAckBody>(rest) {
                Ok((ack, [])) => self.desk.uplink.handle_ack(now, &ack),
                _ => self.desk.counters.malformed += 1,
            },
            FrameKind::AttachReply => match frame::body::<AttachReplyBody>(rest) {
                Ok((reply, [])) => self.handle_reply(now, &reply, out),
                _ => self.desk.counters.malformed += 1,
            },
            FrameKind::Private => match frame::body::<PrivateBody>(rest) {
                Ok((body, records)) => self.handle_private(now, &body, records),
                _ => self.desk.counters.malformed += 1,
            },
            _ => self.desk.counters.malformed += 1,
        }
        self.finish(now, out);
    }

    /// The co-located receiver has released the feed up to and including `watermark`.
    pub fn set_watermark(&mut self, now: ClockReading, watermark: FeedSeq, out: &mut Outbox) {
        if watermark > self.watermark {
            self.watermark = watermark;
            for (conn, session) in &mut self.sessions {
                if !session.hold.is_empty() {
                    session.release(now.now, watermark, &mut self.desk, *conn, out);
                    session.settle_pause(&mut self.private);
                }
            }
            self.private.flush(now, out);
        }
    }

    /// A participant connected.
    pub fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if self.sessions.len() >= self.desk.config.connections_max {
            self.desk.counters.connections_refused += 1;
            out.close(conn);
            return;
        }
        let session = Session::new(now.now);
        self.sessions_due = self.sessions_due.min(session.next_timeout(&self.desk));
        self.sessions.insert(conn, session);
    }

    /// Bytes of a participant.
    pub fn handle_stream(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let mut ending = session.handle_bytes(now, bytes, &mut self.desk, conn, out);
        if let Some((account, from)) = session.wants_in.take() {
            match self.conn_of.get_mut(usize::from(account.0)) {
                Some(slot @ None) => {
                    *slot = Some(conn);
                    session.state = State::Attaching(account);
                    self.private.attach(now, account, from, out);
                }
                _ => ending = Some(Ending::Unavailable),
            }
        }
        if let Some(ending) = ending {
            self.end(now, conn, ending, out);
        }
        self.finish(now, out);
    }

    /// A participant's connection is gone.
    pub fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if let Some(session) = self.sessions.remove(&conn) {
            self.give_back(now, &session, out);
        }
        self.finish(now, out);
    }

    /// Whether bytes of participants are taken now; false while orders wait for room upward.
    pub fn wants_stream(&self) -> bool {
        self.desk.spill.is_empty() && self.desk.uplink.has_room()
    }

    /// Heartbeats, re-sends, holds that end.
    pub fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if !self.started {
            self.started = true;
            self.desk.uplink.start(now, out);
        }
        self.desk.uplink.handle_timeout(now, out);
        self.private.handle_timeout(now, out);
        if now.now >= self.sessions_due {
            self.serve_sessions(now, out);
        }
        self.finish(now, out);
    }

    /// When [`Gateway::handle_timeout`] is wanted next.
    pub fn next_timeout(&self) -> Nanos {
        if !self.started {
            return Nanos(0);
        }
        let timers =
            [self.desk.uplink.next_timeout(), self.private.next_timeout(), self.sessions_due];
        timers.into_iter().min().unwrap_or(Nanos::NEVER)
    }

    fn serve_sessions(&mut self, now: ClockReading, out: &mut Outbox) {
        let mut over = Vec::new();
        for (conn, session) in &mut self.sessions {
            session.release(now.now, self.watermark, &mut self.desk, *conn, out);
            session.settle_pause(&mut self.private);
            if let Some(ending) = session.handle_timeout(now.now, *conn, out) {
                over.push((*conn, ending));
            }
        }
        for (conn, ending) in over {
            self.end(now, conn, ending, out);
        }
        let due = self.sessions.values().map(|session| session.next_timeout(&self.desk)).min();
        self.sessions_due = due.unwrap_or(Nanos::NEVER);
    }

    fn handle_reply(&mut self, now: ClockReading, reply: &AttachReplyBody, out: &mut Outbox) {
        // Without a session it may still be the answer to our giving the stream back.
        let Some(conn) = self.conn(reply.account) else {
            return self.private.handle_reply(now, reply, |_| ());
        };
        let (sessions, desk, due) = (&mut self.sessions, &mut self.desk, &mut self.sessions_due);
        let mut ending = None;
        self.private.handle_reply(now, reply, |event| {
            let Some(session) = sessions.get_mut(&conn) else { return };
            match event {
                PrivateEvent::Attached { account, from, .. } => {
                    session.accept(now.now, account, from, desk, conn, out);
                    *due = session.next_timeout(desk).min(*due);
                }
                PrivateEvent::Detached { .. } if matches!(session.state, State::Live(_)) => {
                    ending = Some(Ending::TakenOver);
                }
                PrivateEvent::Refused { .. } | PrivateEvent::Detached { .. } => {
                    ending = Some(Ending::Unavailable);
                }
                PrivateEvent::Record { .. } => {}
            }
        });
        if let Some(ending) = ending {
            self.end(now, conn, ending, out);
        }
    }

    fn handle_private(&mut self, now: ClockReading, body: &PrivateBody, records: &[u8]) {
        let Some(conn) = self.conn(body.account) else { return };
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let counters = &mut self.desk.counters;
        self.private.handle_private(body, records, |event| {
            if let PrivateEvent::Record { record, .. } = event {
                match ExecutionReport::try_read_from_bytes(record) {
                    Ok(report) => session.hold.push(now.now, report),
                    Err(_) => counters.unencodable += 1,
                }
            }
        });
        if !self.fresh.contains(&conn) {
            self.fresh.push(conn);
        }
    }

    /// Lets out what the call produced: records, acknowledgements, waiting orders.
    fn finish(&mut self, now: ClockReading, out: &mut Outbox) {
        for conn in self.fresh.drain(..) {
            let Some(session) = self.sessions.get_mut(&conn) else { continue };
            session.release(now.now, self.watermark, &mut self.desk, conn, out);
            self.sessions_due = self.sessions_due.min(session.next_timeout(&self.desk));
            session.settle_pause(&mut self.private);
        }
        self.desk.drain_spill(now, out);
        self.private.flush(now, out);
    }

    fn conn(&self, account: AccountId) -> Option<ConnId> {
        self.conn_of.get(usize::from(account.0)).copied().flatten()
    }

    fn end(&mut self, now: ClockReading, conn: ConnId, ending: Ending, out: &mut Outbox) {
        let Some(mut session) = self.sessions.remove(&conn) else { return };
        match ending {
            Ending::NotAuthorized | Ending::Unavailable => self.desk.counters.logins_refused += 1,
            Ending::Violation => self.desk.counters.violations += 1,
            Ending::TakenOver => self.desk.counters.taken_over += 1,
            Ending::Left => {}
        }
        session.say_goodbye(now.now, ending, conn, out);
        self.give_back(now, &session, out);
        out.close(conn);
    }

    fn give_back(&mut self, now: ClockReading, session: &Session, out: &mut Outbox) {
        if let State::Attaching(account) | State::Live(account) = session.state {
            self.conn_of[usize::from(account.0)] = None;
            self.private.detach(now, account, out);
        }
    }
}
