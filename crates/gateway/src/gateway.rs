//! The gateway of one VM: many connections, one way up, private streams down.

use std::collections::BTreeMap;

use overlay::{
    frame::{self, AttachReplyBody, FrameKind, GrantBody, HopHeader, OrderAckBody, PrivateBody},
    private_receiver::{PrivateEvent, PrivateReceiver, PrivateReceiverConfig},
    uplink::{Uplink, UplinkConfig},
};
use types::{
    AccountId, ClockReading, Command, CommandKind, ConnId, ExecutionReport, FeedSeq, Nanos, Outbox,
    Remote, limits::ACCOUNTS_MAX,
};
use wire::ouch;
use zerocopy::TryFromBytes;

use crate::{
    access::throttle::Throttles,
    access::{AccessControl, Refusal, Refusals},
    cancel_on_disconnect::CancelOnDisconnect,
    config::GatewayConfig,
    context::{Ahead, GatewayContext, GatewayCounters},
    fix::application::FixCounters,
    fix::door::FixDoor,
    hold::Watermarks,
    ouch::session::{Ending, Session, State},
};

/// How long the acknowledgement of private records may wait for more; the root re-sends after
/// 20 ms at the earliest.
const PRIVATE_ACK_DELAY_NS: u64 = 4 * Nanos::MILLI;

/// Door of OUCH connections, see [`ConnId::door`].
pub const OUCH_DOOR: u8 = 0;
/// Door of FIX connections.
pub const FIX_DOOR: u8 = 1;

/// The gateway; a component of the edge role, which feeds it frames, streams and watermarks.
pub struct Gateway {
    pub(crate) context: GatewayContext,
    pub(crate) private: PrivateReceiver,
    pub(crate) fix: FixDoor,
    pub(crate) sessions: BTreeMap<ConnId, Session>,
    /// By account number: the connection it is logged in on.
    pub(crate) conn_of: Vec<Option<ConnId>>,
    pub(crate) cancel_on_disconnect: CancelOnDisconnect,
    /// By account number: may not log on.
    pub(crate) locked: Vec<bool>,
    pub(crate) watermarks: Watermarks,
    started: bool,
    /// Accounts with new records, to be served at the end of the call.
    fresh: Vec<AccountId>,
    /// No session is due before this; may be early.
    sessions_due: Nanos,
}

impl Gateway {
    /// A gateway without connections; its first timeout is due at once.
    pub fn new(config: GatewayConfig) -> Gateway {
        let mut uplink =
            UplinkConfig::new(config.gateway, config.node, config.root, config.boot_nonce);
        uplink.epoch = config.epoch;
        uplink.ways = config.ways;
        uplink.outstanding = config.outstanding;
        let record_len = size_of::<ExecutionReport>();
        let mut private = PrivateReceiverConfig::new(config.node, config.root, record_len);
        private.epoch = config.epoch;
        private.ack_delay_ns = PRIVATE_ACK_DELAY_NS;
        Gateway {
            private: PrivateReceiver::new(private),
            fix: FixDoor::new(&config),
            sessions: BTreeMap::new(),
            conn_of: vec![None; config.accounts_max().min(ACCOUNTS_MAX) + 1],
            cancel_on_disconnect: CancelOnDisconnect::default(),
            locked: vec![false; config.accounts_max().min(ACCOUNTS_MAX) + 1],
            watermarks: Watermarks::new(config.stream_of.clone()),
            started: false,
            fresh: Vec::new(),
            sessions_due: Nanos::NEVER,
            context: GatewayContext {
                access: AccessControl::new(config.access, &config.logins),
                uplink: Uplink::new(uplink, config.candidates.clone()),
                encoder: ouch::Encoder::new(&config.instruments, config.midnight),
                counters: GatewayCounters::default(),
                spill: Default::default(),
                tickets: 0,
                suspended: false,
                ahead: Vec::new(),
                throttles: Throttles::new(
                    config.logins.iter().map(|login| (login.account, login.throttle)),
                    config.accounts_max().min(ACCOUNTS_MAX),
                ),
                config,
            },
        }
    }

    /// What happened so far.
    pub fn counters(&self) -> GatewayCounters {
        self.context.counters
    }

    /// What happened at the FIX door.
    pub fn fix_counters(&self) -> FixCounters {
        self.fix.counters
    }

    /// Who was refused at either door, and why.
    pub fn refusals(&self) -> &Refusals {
        &self.context.access.refusals
    }

    /// Connections that are not logged on.
    pub fn strangers(&self) -> usize {
        self.context.access.strangers()
    }

    /// Another tree has taken over: orders go up through these from now on, the preferred one first.
    pub fn set_candidates(&mut self, epoch: u32, candidates: Vec<types::NodeId>) {
        self.context.uplink.set_candidates(epoch, candidates);
        self.private.set_epoch(epoch);
    }

    /// The way up, for its totals.
    pub fn uplink(&self) -> &Uplink {
        &self.context.uplink
    }

    /// See [`Uplink::lose_resends`].
    #[doc(hidden)]
    pub fn lose_resends(&mut self) {
        self.context.uplink.lose_resends();
    }

    /// A deliberate fault, for tests of the checks that have to find it: no order goes with its
    /// session.
    #[doc(hidden)]
    pub fn forget_leavers(&mut self) {
        self.cancel_on_disconnect.forget_all();
    }

    /// The private streams, for their totals.
    pub fn private(&self) -> &PrivateReceiver {
        &self.private
    }

    /// Connections that may be open.
    pub fn connections_max(&self) -> usize {
        self.context.config.connections_max
    }

    /// Connections now open.
    pub fn connections(&self) -> usize {
        self.sessions.len() + self.fix.connections()
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
                Ok((grant, [])) => {
                    self.context.uplink.handle_grant(&grant);
                    if let Some(life) = self.context.uplink.incarnation() {
                        self.private.begin_life(now, life, out);
                    }
                }
                _ => self.context.counters.malformed += 1,
            },
            FrameKind::OrderAck => match frame::body::<OrderAckBody>(rest) {
                Ok((ack, [])) => self.context.uplink.handle_ack(now, &ack),
                _ => self.context.counters.malformed += 1,
            },
            FrameKind::AttachReply => match frame::body::<AttachReplyBody>(rest) {
                Ok((reply, [])) => self.handle_reply(now, &reply, out),
                _ => self.context.counters.malformed += 1,
            },
            FrameKind::Private => match frame::body::<PrivateBody>(rest) {
                Ok((body, records)) => self.handle_private(now, &body, records),
                _ => self.context.counters.malformed += 1,
            },
            _ => self.context.counters.malformed += 1,
        }
        self.finish(now, out);
    }

    /// The co-located receiver has released a stream of the feed up to and including `watermark`.
    pub fn set_watermark(
        &mut self,
        now: ClockReading,
        stream: u16,
        watermark: FeedSeq,
        out: &mut Outbox,
    ) {
        if self.watermarks.raise(stream, watermark) {
            for (conn, session) in &mut self.sessions {
                if !session.hold.is_empty() {
                    session.release(now.now, &self.watermarks, &mut self.context, *conn, out);
                    session.settle_pause(&mut self.private);
                }
            }
            self.release_all_fix(now, out);
            self.private.flush(now, out);
        }
    }

    /// Receivers were free to hand a stream of the feed on up to and including `watermark`, whether
    /// the one here has or not. To be told before a timeout.
    pub fn set_public(&mut self, stream: u16, watermark: FeedSeq) {
        self.watermarks.raise_elsewhere(stream, watermark);
    }

    /// A participant connected, of whom nothing is known.
    pub fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.handle_accept(now, conn, &Remote::default(), out);
    }

    /// A participant connected.
    pub fn handle_accept(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        remote: &Remote,
        out: &mut Outbox,
    ) {
        if self.connections() >= self.context.config.connections_max {
            self.context.counters.connections_refused += 1;
            out.close(conn);
            return;
        }
        if let Some(oldest) = self.context.access.admit(now.now, conn, remote) {
            self.drop_stranger(now, oldest, out);
        }
        if conn.door() == FIX_DOOR {
            self.fix.connect(now.now, conn);
            return;
        }
        let session = Session::new(now.now);
        self.sessions_due = self.sessions_due.min(session.next_timeout(&self.context));
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
        if self.fix.has(conn) {
            let outcome = self.fix.handle_bytes(now, conn, bytes, &mut self.context, out);
            self.settle_fix(now, conn, outcome, out);
            return self.finish(now, out);
        }
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let ending = session.handle_bytes(now, bytes, &mut self.context, conn, out);
        self.settle_ouch(now, conn, ending, out);
        self.finish(now, out);
    }

    /// What a connection's bytes, or the answer to its password, have led to.
    fn settle_ouch(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        mut ending: Option<Ending>,
        out: &mut Outbox,
    ) {
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        if let Some((account, from)) = session.wants_in.take() {
            let locked = self.locked.get(usize::from(account.0)).copied().unwrap_or(false);
            match self.conn_of.get_mut(usize::from(account.0)) {
                _ if locked => {
                    self.context.access.refuse(now.now, conn, account, Refusal::Locked, "");
                    ending = Some(Ending::NotAuthorized);
                }
                Some(slot @ None) => {
                    *slot = Some(conn);
                    session.state = State::Attaching(account);
                    session.asked_from = from;
                    self.context.access.enter(conn);
                    self.cancel_on_disconnect
                        .interrupt(account, now.now.after(self.context.config.cancel_grace_ns));
                    self.private.attach(now, account, from, out);
                }
                _ => {
                    self.context.access.refuse(now.now, conn, account, Refusal::SecondLogon, "");
                    ending = Some(Ending::Unavailable);
                }
            }
        }
        if let Some(ending) = ending {
            self.end(now, conn, ending, out);
        }
    }

    /// The worker has compared a password with its hash.
    pub fn handle_work(&mut self, now: ClockReading, ticket: u64, answer: &[u8], out: &mut Outbox) {
        if let Some(conn) = self.context.access.answer(now.now, ticket, answer == [1]) {
            if self.fix.has(conn) {
                let outcome = self.fix.try_again(now, conn, &mut self.context, out);
                self.settle_fix(now, conn, outcome, out);
            } else if let Some(session) = self.sessions.get_mut(&conn) {
                let ending = session.handle_answer(now.now, conn, &mut self.context);
                self.settle_ouch(now, conn, ending, out);
            }
        }
        self.finish(now, out);
    }

    /// A connection that is not logged on has to go, without a word.
    fn drop_stranger(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.context.access.forget(conn);
        if self.fix.has(conn) {
            self.leave_fix(now, conn, true, out);
        } else {
            self.end(now, conn, Ending::Left, out);
        }
    }

    /// A participant's connection is gone.
    pub fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if let Some(session) = self.sessions.remove(&conn) {
            self.note_leaver(now, &session);
            self.give_back(now, &session, out);
        }
        if self.fix.has(conn) {
            self.leave_fix(now, conn, false, out);
        }
        self.context.access.forget(conn);
        self.finish(now, out);
    }

    /// A participant leaves most of what may wait for it unread: its session ends, and it is told
    /// why behind what it has not read.
    pub fn handle_unread(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if !self.fix.has(conn) {
            self.end(now, conn, Ending::Slow, out);
        } else if self.fix.log_out(now, conn, "Too much left unread", &mut self.context, out) {
            self.context.counters.slow_consumers += 1;
        }
        self.finish(now, out);
    }

    /// Whether bytes of participants are taken now; false while orders wait for room upward.
    pub fn wants_stream(&self) -> bool {
        self.context.reads_strangers()
    }

    /// Whether bytes of this participant are taken now. Those of one that has much on its way, or
    /// was refused too much, wait in its own socket while the others are served; a FIX session's
    /// wait while a resend goes out to it, too.
    ///
    /// While nothing can be logged OUCH sessions are read on: their refusals need no room.
    pub fn wants_stream_of(&self, conn: ConnId) -> bool {
        if let Some(session) = self.sessions.get(&conn) {
            return session.is_read(&self.context);
        }
        let account = self.fix.account_of(conn);
        account.map_or_else(|| self.wants_stream(), |account| self.context.wants(account))
            && self.fix.wants_input(conn)
    }

    /// Heartbeats, re-sends, holds that end.
    pub fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if !self.started {
            self.started = true;
            self.context.uplink.start(now, out);
        }
        self.context.uplink.handle_timeout(now, out);
        self.context.throttles.wake(now.now);
        self.private.handle_timeout(now, out);
        if now.now >= self.sessions_due {
            self.serve_sessions(now, out);
        }
        if now.now >= self.fix.next_timeout() {
            self.serve_fix(now, out);
        }
        self.serve_leavers(now, out);
        while let Some(late) = self.context.access.take_late(now.now) {
            self.drop_stranger(now, late, out);
        }
        self.finish(now, out);
    }

    /// When [`Gateway::handle_timeout`] is wanted next.
    pub fn next_timeout(&self) -> Nanos {
        if !self.started {
            return Nanos(0);
        }
        let timers = [
            self.context.uplink.next_timeout(),
            self.context.throttles.next_timeout(),
            self.private.next_timeout(),
            self.sessions_due,
            self.fix.next_timeout(),
            self.cancel_on_disconnect.next_timeout(),
            self.context.access.next_timeout(),
        ];
        timers.into_iter().min().unwrap_or(Nanos::NEVER)
    }

    fn serve_sessions(&mut self, now: ClockReading, out: &mut Outbox) {
        let mut over = Vec::new();
        for (conn, session) in &mut self.sessions {
            session.release(now.now, &self.watermarks, &mut self.context, *conn, out);
            session.settle_pause(&mut self.private);
            session.note_reading(now.now, &self.context);
            if let Some(ending) = session.handle_timeout(now.now, *conn, out) {
                over.push((*conn, ending));
            }
        }
        for (conn, ending) in over {
            self.end(now, conn, ending, out);
        }
        let due = self.sessions.values().map(|session| session.next_timeout(&self.context)).min();
        self.sessions_due = due.unwrap_or(Nanos::NEVER);
    }

    fn handle_reply(&mut self, now: ClockReading, reply: &AttachReplyBody, out: &mut Outbox) {
        let Some(conn) = self.conn(reply.account) else {
            return self.handle_reply_without_session(now, reply, out);
        };
        if self.fix.has(conn) {
            return self.handle_fix_reply(now, conn, reply, out);
        }
        let (sessions, context, due) =
            (&mut self.sessions, &mut self.context, &mut self.sessions_due);
        let cancel_on_disconnect = &mut self.cancel_on_disconnect;
        let mut ending = None;
        self.private.handle_reply(now, reply, |event| {
            let Some(session) = sessions.get_mut(&conn) else { return };
            match event {
                // What was told is not in the log: to go on would pass over that in silence.
                PrivateEvent::Attached { account, next, .. } if session.asked_from > next => {
                    let asked = session.asked_from;
                    context.refuse_ahead(now.now, conn, Ahead { account, asked, next });
                    ending = Some(Ending::Ahead { asked, next });
                }
                PrivateEvent::Attached { account, from, .. } => {
                    cancel_on_disconnect.forget(account);
                    session.accept(now.now, account, from, context, conn, out);
                    *due = session.next_timeout(context).min(*due);
                }
                PrivateEvent::Behind { account, asked, next } => {
                    context.refuse_ahead(now.now, conn, Ahead { account, asked, next });
                    ending = Some(Ending::Ahead { asked, next });
                }
                PrivateEvent::Detached { .. } if matches!(session.state, State::Live(_)) => {
                    ending = Some(Ending::TakenOver);
                }
                PrivateEvent::Refused { account } | PrivateEvent::Detached { account } => {
                    // It is logged in elsewhere.
                    cancel_on_disconnect.forget(account);
                    context.access.refuse(now.now, conn, account, Refusal::SecondLogon, "");
                    ending = Some(Ending::Unavailable);
                }
                PrivateEvent::Record { .. } => {}
            }
        });
        if let Some(ending) = ending {
            self.end(now, conn, ending, out);
        }
    }

    /// The answer to our giving a stream back, or to our asking for that of an account that left:
    /// when we get it, the account is logged in nowhere.
    fn handle_reply_without_session(
        &mut self,
        now: ClockReading,
        reply: &AttachReplyBody,
        out: &mut Outbox,
    ) {
        let mut ours = None;
        self.private.handle_reply(now, reply, |event| match event {
            PrivateEvent::Attached { .. } => ours = Some(true),
            PrivateEvent::Refused { .. } | PrivateEvent::Detached { .. } => ours = Some(false),
            PrivateEvent::Record { .. } | PrivateEvent::Behind { .. } => {}
        });
        let account = reply.account;
        let Some(ours) = ours.filter(|_| self.cancel_on_disconnect.is_asking(account)) else {
            return;
        };
        if !ours {
            return self.cancel_on_disconnect.forget(account);
        }
        let mut command = Command::new(CommandKind::MassCancel);
        command.account = account;
        command.reserved = 1;
        if self.context.submit(now, command, out) {
            self.context.counters.disconnect_cancels += 1;
            self.cancel_on_disconnect.sent(account);
        } else {
            self.cancel_on_disconnect
                .put(account, now.now.after(self.context.config.cancel_grace_ns.max(1)));
            self.private.detach(now, account, out);
        }
    }

    /// Gives the streams back of accounts whose cancels are in the log.
    fn release_leavers(&mut self, now: ClockReading, out: &mut Outbox) {
        let Gateway { cancel_on_disconnect, context, private, .. } = self;
        while let Some(account) =
            cancel_on_disconnect.take_done(|account| context.is_pending(account))
        {
            private.detach(now, account, out);
        }
    }

    /// Looks whether accounts whose time is up are logged in elsewhere.
    fn serve_leavers(&mut self, now: ClockReading, out: &mut Outbox) {
        while let Some(account) = self.cancel_on_disconnect.take_due(now.now) {
            if self.conn(account).is_some() {
                // A login is under way; if it comes to nothing, we look again.
                self.cancel_on_disconnect
                    .put(account, now.now.after(self.context.config.cancel_grace_ns.max(1)));
            } else {
                self.private.attach(now, account, 0, out);
            }
        }
    }

    fn handle_private(&mut self, now: ClockReading, body: &PrivateBody, records: &[u8]) {
        let Some(conn) = self.conn(body.account) else { return };
        let mut session = self.sessions.get_mut(&conn);
        let (fix, counters) = (&mut self.fix, &mut self.context.counters);
        self.private.handle_private(body, records, |event| {
            if let PrivateEvent::Record { record, account, .. } = event {
                match (ExecutionReport::try_read_from_bytes(record), &mut session) {
                    (Ok(report), Some(session)) => session.hold.push(now.now, report),
                    (Ok(report), None) => fix.push(now.now, account, report),
                    (Err(_), _) => counters.unencodable += 1,
                }
            }
        });
        if !self.fresh.contains(&body.account) {
            self.fresh.push(body.account);
        }
    }

    /// Lets out what the call produced: records, acknowledgements, waiting orders.
    pub(crate) fn finish(&mut self, now: ClockReading, out: &mut Outbox) {
        let mut fresh = std::mem::take(&mut self.fresh);
        for account in fresh.drain(..) {
            let Some(conn) = self.conn(account) else { continue };
            let Some(session) = self.sessions.get_mut(&conn) else {
                self.release_fix(now, account, out);
                continue;
            };
            session.release(now.now, &self.watermarks, &mut self.context, conn, out);
            self.sessions_due = self.sessions_due.min(session.next_timeout(&self.context));
            session.settle_pause(&mut self.private);
        }
        self.fresh = fresh;
        self.context.drain_spill(now, out);
        self.release_leavers(now, out);
        self.private.flush(now, out);
        self.context.access.ask_worker(now.now, out);
    }

    pub(crate) fn conn(&self, account: AccountId) -> Option<ConnId> {
        self.conn_of.get(usize::from(account.0)).copied().flatten()
    }

    pub(crate) fn end(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        ending: Ending,
        out: &mut Outbox,
    ) {
        let Some(mut session) = self.sessions.remove(&conn) else { return };
        if ending == Ending::Violation && session.state == State::Stranger {
            self.context.access.fail(now.now, conn, b"", Refusal::NoLogon);
        }
        self.context.access.forget(conn);
        match ending {
            Ending::NotAuthorized | Ending::Unavailable | Ending::Ahead { .. } => {
                self.context.counters.logins_refused += 1;
            }
            Ending::Violation => self.context.counters.violations += 1,
            Ending::TakenOver => self.context.counters.taken_over += 1,
            Ending::Slow => self.context.counters.slow_consumers += 1,
            Ending::Operator => self.context.counters.disconnected += 1,
            Ending::Left => {}
        }
        if ending != Ending::TakenOver {
            self.note_leaver(now, &session);
        }
        session.say_goodbye(ending, conn, out);
        self.give_back(now, &session, out);
        out.close(conn);
    }

    /// A session that was logged in has ended.
    fn note_leaver(&mut self, now: ClockReading, session: &Session) {
        if let State::Live(account) = session.state
            && self.context.config.cancels_on_disconnect(account)
        {
            self.cancel_on_disconnect
                .put(account, now.now.after(self.context.config.cancel_grace_ns));
        }
    }

    fn give_back(&mut self, now: ClockReading, session: &Session, out: &mut Outbox) {
        if let State::Attaching(account) | State::Live(account) = session.state {
            self.conn_of[usize::from(account.0)] = None;
            self.private.detach(now, account, out);
        }
    }
}
