//! The gateway of one VM: many connections, one way up, private streams down.

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
    access::{AccessControl, Refusals},
    cancel_on_disconnect::CancelOnDisconnect,
    config::GatewayConfig,
    context::{GatewayContext, GatewayCounters},
    fix::application::FixCounters,
    fix::door::FixDoor,
    hold::Watermarks,
    ouch::door::OuchDoor,
    session::{Dismissal, Ending, Sessions},
};

/// How long the acknowledgement of private records may wait for more; the root re-sends after
/// 20 ms at the earliest.
const PRIVATE_ACK_DELAY_NS: u64 = 4 * Nanos::MILLI;

/// Door of OUCH connections, see [`ConnId::door`].
pub const OUCH_DOOR: u8 = 0;
/// Door of FIX connections.
pub const FIX_DOOR: u8 = 1;
/// Door of connections that subscribe to the feed.
pub const SUBSCRIPTION_DOOR: u8 = 2;

/// The gateway; a component of the edge role, which feeds it frames, streams and watermarks.
pub struct Gateway {
    pub(crate) context: GatewayContext,
    pub(crate) private: PrivateReceiver,
    pub(crate) sessions: Sessions,
    /// By account number: the connection it is logged in on.
    pub(crate) conn_of: Vec<Option<ConnId>>,
    pub(crate) cancel_on_disconnect: CancelOnDisconnect,
    /// By account number: may not log on.
    pub(crate) locked: Vec<bool>,
    pub(crate) watermarks: Watermarks,
    started: bool,
    /// Accounts with new records, to be served at the end of the call.
    fresh: Vec<AccountId>,
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
            sessions: Sessions {
                ouch: OuchDoor::default(),
                fix: FixDoor::new(&config),
                subscriptions: Default::default(),
            },
            conn_of: vec![None; config.accounts_max().min(ACCOUNTS_MAX) + 1],
            cancel_on_disconnect: CancelOnDisconnect::default(),
            locked: vec![false; config.accounts_max().min(ACCOUNTS_MAX) + 1],
            watermarks: Watermarks::new(config.stream_of.clone()),
            started: false,
            fresh: Vec::new(),
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
        self.sessions.fix.counters
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
            self.release_all_ouch(now, out);
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
        self.sessions.connect(now.now, conn, &self.context);
    }

    /// Bytes of a participant.
    pub fn handle_stream(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let Some(mut session) = self.sessions.get(conn) else { return };
        let outcome = session.handle_bytes(now, conn, bytes, &mut self.context, out);
        self.settle(now, conn, outcome, out);
        self.finish(now, out);
    }

    /// The worker has compared a password with its hash.
    pub fn handle_work(&mut self, now: ClockReading, ticket: u64, answer: &[u8], out: &mut Outbox) {
        if let Some(conn) = self.context.access.answer(now.now, ticket, answer == [1])
            && let Some(mut session) = self.sessions.get(conn)
        {
            let outcome = session.handle_answer(now, conn, &mut self.context, out);
            self.settle(now, conn, outcome, out);
        }
        self.finish(now, out);
    }

    /// A connection that is not logged on has to go, without a word.
    fn drop_stranger(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.context.access.forget(conn);
        self.end(now, conn, Ending::Dropped, out);
    }

    /// A participant's connection is gone.
    pub fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.leave(now, conn, false, out);
        self.finish(now, out);
    }

    /// A participant leaves most of what may wait for it unread: its session ends, and it is told
    /// why behind what it has not read.
    pub fn handle_unread(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.dismiss(now, conn, Dismissal::Slow, out);
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
        self.sessions.wants_input(conn, &self.context)
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
        self.serve_ouch(now, out);
        self.serve_fix(now, out);
        self.serve_subscriptions(now, out);
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
            self.sessions.next_timeout(),
            self.cancel_on_disconnect.next_timeout(),
            self.context.access.next_timeout(),
        ];
        timers.into_iter().min().unwrap_or(Nanos::NEVER)
    }

    fn handle_reply(&mut self, now: ClockReading, reply: &AttachReplyBody, out: &mut Outbox) {
        let Some(conn) = self.conn(reply.account) else {
            return self.handle_reply_without_session(now, reply, out);
        };
        self.handle_reply_of(now, conn, reply, out);
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
        let Some(mut session) = self.sessions.get(conn) else { return };
        let counters = &mut self.context.counters;
        self.private.handle_private(body, records, |event| {
            if let PrivateEvent::Record { record, account, .. } = event {
                match ExecutionReport::try_read_from_bytes(record) {
                    Ok(report) => session.push(now.now, account, report),
                    Err(_) => counters.unencodable += 1,
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
            if let Some(conn) = self.conn(account) {
                self.release(now, conn, account, out);
            }
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
}
