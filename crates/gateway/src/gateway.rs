//! The gateway of one VM: many connections, one way up, private streams down.

use std::collections::VecDeque;

use overlay::{
    frame::{self, AttachReplyBody, FrameKind, GrantBody, HopHeader, OrderAckBody, PrivateBody},
    private_receiver::{PrivateEvent, PrivateReceiver, PrivateReceiverConfig},
    uplink::{Uplink, UplinkConfig},
};
use types::{
    AccountId, Channel, ClockReading, Command, CommandKind, ConnId, ExecutionReport, FeedSeq,
    Nanos, Outbox, Remote, ShardId, VenueClock, limits::ACCOUNTS_MAX,
};
use wire::ouch;

use crate::{
    access::throttle::Throttles,
    access::{AccessControl, Refusals},
    cancel_on_disconnect::CancelOnDisconnect,
    config::{GatewayConfig, ShardPath},
    context::{GatewayContext, GatewayCounters, WayUp},
    fix::application::FixCounters,
    fix::door::FixDoor,
    hold::Watermarks,
    ouch::door::OuchDoor,
    routes::Routes,
    session::{Dismissal, Ending, Sessions},
    streams::Streams,
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
    pub(crate) streams: Streams,
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
        let accounts_max = config.accounts_max().min(ACCOUNTS_MAX);
        let paths = || (0..).map(ShardId).zip(&config.shards);
        let receivers = paths().map(|(shard, path)| receiver(shard, path)).collect();
        let ways = paths().map(|(shard, path)| way_up(&config, shard, path)).collect();
        let routes = Routes::new(config.shards.len(), config.shard_of.clone(), accounts_max);
        Gateway {
            streams: Streams::new(receivers, accounts_max),
            sessions: Sessions {
                ouch: OuchDoor::default(),
                fix: FixDoor::new(&config),
                subscriptions: Default::default(),
            },
            conn_of: vec![None; accounts_max + 1],
            cancel_on_disconnect: CancelOnDisconnect::default(),
            locked: vec![false; accounts_max + 1],
            watermarks: Watermarks::new(config.stream_of.clone(), config.streams),
            started: false,
            fresh: Vec::new(),
            context: GatewayContext {
                access: AccessControl::new(config.access, &config.logins),
                ways,
                routes,
                held: VecDeque::new(),
                encoder: ouch::Encoder::new(&config.instruments, config.midnight),
                counters: GatewayCounters::default(),
                tickets: 0,
                came: None,
                suspended: false,
                ahead: Vec::new(),
                venue_clock: VenueClock::default(),
                throttles: Throttles::new(
                    config.logins.iter().map(|login| (login.account, login.throttle)),
                    accounts_max,
                ),
                config,
            },
        }
    }

    /// What happened so far.
    pub fn counters(&self) -> GatewayCounters {
        self.context.counters
    }

    /// The clock that the venue's day goes by.
    pub fn venue_clock(&self) -> VenueClock {
        self.context.venue_clock
    }

    /// From now on the venue's clock is so far ahead of this node's, ns; it never goes back. Times that
    /// orders are good for count by it, and refusals are dated with it.
    pub fn go_ahead(&mut self, ahead_ns: u64) {
        self.context.venue_clock.go_ahead(ahead_ns);
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
    pub fn set_candidates(&mut self, shard: ShardId, epoch: u32, candidates: Vec<types::NodeId>) {
        let shard = usize::from(shard.0);
        if let Some(way) = self.context.ways.get_mut(shard) {
            way.uplink.set_candidates(epoch, candidates);
            self.streams.set_epoch(shard, epoch);
        }
    }

    /// The way up to the first shard, for its totals.
    ///
    /// # Panics
    /// For a gateway of no shard.
    pub fn uplink(&self) -> &Uplink {
        &self.context.ways[0].uplink
    }

    /// The ways up, by shard, for their totals.
    pub fn uplinks(&self) -> impl Iterator<Item = &Uplink> {
        self.context.ways.iter().map(|way| &way.uplink)
    }

    /// The private streams of the first shard, for their totals.
    ///
    /// # Panics
    /// For a gateway of no shard.
    pub fn private(&self) -> &PrivateReceiver {
        &self.streams.receivers()[0]
    }

    /// Connections that may be open.
    pub fn connections_max(&self) -> usize {
        self.context.config.connections_max
    }

    /// Connections now open.
    pub fn connections(&self) -> usize {
        self.sessions.len()
    }

    /// A frame of a shard for the gateway; others are counted.
    pub fn handle_frame(
        &mut self,
        now: ClockReading,
        (shard, header): (ShardId, &HopHeader),
        rest: &[u8],
        out: &mut Outbox,
    ) {
        let shard = usize::from(shard.0);
        let Some(way) = self.context.ways.get_mut(shard) else {
            self.context.counters.malformed += 1;
            return;
        };
        way.heard = now.now;
        match header.kind {
            FrameKind::Grant => match frame::body::<GrantBody>(rest) {
                Ok((grant, [])) => {
                    way.uplink.handle_grant(&grant);
                    if let Some(life) = way.uplink.incarnation() {
                        self.streams.begin_life(now, shard, life, out);
                    }
                }
                _ => self.context.counters.malformed += 1,
            },
            FrameKind::OrderAck => match frame::body::<OrderAckBody>(rest) {
                Ok((ack, [])) => way.uplink.handle_ack(now, &ack),
                _ => self.context.counters.malformed += 1,
            },
            FrameKind::AttachReply => match frame::body::<AttachReplyBody>(rest) {
                Ok((reply, [])) => {
                    let routes = &mut self.context.routes;
                    self.streams.handle_reply(now, shard, &reply, routes, out);
                }
                _ => self.context.counters.malformed += 1,
            },
            FrameKind::Private => match frame::body::<PrivateBody>(rest) {
                Ok((body, records)) => self.handle_private(now, shard, (&body, records)),
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
            self.streams.flush(now, out);
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
        let Some(mut session) = self.sessions.get(conn) else {
            self.context.came = None;
            return;
        };
        let outcome = session.handle_bytes(now, conn, bytes, &mut self.context, out);
        self.context.came = None;
        self.settle(now, conn, outcome, out);
        self.finish(now, out);
    }

    /// The bytes of a participant that come next were on the machine at `came`: that is when their
    /// requests came in.
    pub fn expect_arrival(&mut self, came: Nanos) {
        self.context.came = Some(came);
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
            self.context.ways.iter_mut().for_each(|way| way.uplink.start(now, out));
        }
        self.context.ways.iter_mut().for_each(|way| way.uplink.handle_timeout(now, out));
        self.context.throttles.wake(now.now);
        self.streams.handle_timeout(now, out);
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
        let ways = self.context.ways.iter().map(|way| way.uplink.next_timeout()).min();
        let timers = [
            ways.unwrap_or(Nanos::NEVER),
            self.context.throttles.next_timeout(),
            self.streams.next_timeout(),
            self.sessions.next_timeout(),
            self.cancel_on_disconnect.next_timeout(),
            self.context.access.next_timeout(),
        ];
        timers.into_iter().min().unwrap_or(Nanos::NEVER)
    }

    /// What the streams say to sessions.
    fn tell_events(&mut self, now: ClockReading, out: &mut Outbox) {
        while let Some(event) = self.streams.take_event() {
            let (PrivateEvent::Attached { account, .. }
            | PrivateEvent::Refused { account }
            | PrivateEvent::Detached { account }
            | PrivateEvent::Behind { account, .. }
            | PrivateEvent::Record { account, .. }) = event;
            match self.conn(account) {
                Some(conn) => {
                    self.handle_event_of(now, conn, &event, out);
                    if self.context.ways.len() > 1 {
                        self.note_fresh(account);
                    }
                }
                None => self.handle_event_without_session(now, account, &event, out),
            }
        }
    }

    fn note_fresh(&mut self, account: AccountId) {
        if !self.fresh.contains(&account) {
            self.fresh.push(account);
        }
    }

    /// The answer to our giving a stream back, or to our asking for that of an account that left:
    /// when we get it, the account is logged in nowhere.
    fn handle_event_without_session(
        &mut self,
        now: ClockReading,
        account: AccountId,
        event: &PrivateEvent<'_>,
        out: &mut Outbox,
    ) {
        let ours = match event {
            PrivateEvent::Attached { .. } => Some(true),
            PrivateEvent::Refused { .. } | PrivateEvent::Detached { .. } => Some(false),
            PrivateEvent::Record { .. } | PrivateEvent::Behind { .. } => None,
        };
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
            self.streams.detach(now, account, out);
        }
    }

    /// Gives the streams back of accounts whose cancels are in the log.
    fn release_leavers(&mut self, now: ClockReading, out: &mut Outbox) {
        let Gateway { cancel_on_disconnect, context, streams, .. } = self;
        while let Some(account) =
            cancel_on_disconnect.take_done(|account| context.is_pending(account))
        {
            streams.detach(now, account, out);
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
                self.streams.ask(now, account, out);
            }
        }
    }

    fn handle_private(
        &mut self,
        now: ClockReading,
        shard: usize,
        (body, records): (&PrivateBody, &[u8]),
    ) {
        let Some(conn) = self.conn(body.account) else { return };
        let Some(mut session) = self.sessions.get(conn) else { return };
        let routes = &mut self.context.routes;
        let take = |account, report| session.push(now.now, account, (ShardId(0), report));
        let private = (body, records);
        self.context.counters.unencodable +=
            self.streams.handle_private(now.now, shard, private, routes, take);
        self.note_fresh(body.account);
    }

    /// Lets out what the call produced: records, acknowledgements, waiting orders.
    pub(crate) fn finish(&mut self, now: ClockReading, out: &mut Outbox) {
        self.tell_events(now, out);
        let mut fresh = std::mem::take(&mut self.fresh);
        for account in fresh.drain(..) {
            let Some(conn) = self.conn(account) else { continue };
            if let Some(mut session) = self.sessions.get(conn) {
                let push = |shard, report| session.push(now.now, account, (shard, report));
                self.streams.drain(account, push);
            }
            self.release(now, conn, account, out);
        }
        self.fresh = fresh;
        self.context.drain_spill(now, out);
        self.release_leavers(now, out);
        self.streams.flush(now, out);
        self.context.access.ask_worker(now.now, out);
    }

    pub(crate) fn conn(&self, account: AccountId) -> Option<ConnId> {
        self.conn_of.get(usize::from(account.0)).copied().flatten()
    }
}

/// What receives an account's streams of one shard.
fn receiver(shard: ShardId, path: &ShardPath) -> PrivateReceiver {
    let record_len = size_of::<ExecutionReport>();
    let mut private = PrivateReceiverConfig::new(path.node, path.root, record_len);
    private.epoch = path.epoch;
    private.channel = Channel::of_shard(shard);
    private.ack_delay_ns = PRIVATE_ACK_DELAY_NS;
    PrivateReceiver::new(private)
}

fn way_up(config: &GatewayConfig, shard: ShardId, path: &ShardPath) -> WayUp {
    let mut uplink = UplinkConfig::new(config.gateway, path.node, path.root, config.boot_nonce);
    (uplink.shard, uplink.channel) = (shard, Channel::of_shard(shard));
    uplink.epoch = path.epoch;
    uplink.ways = config.ways;
    uplink.outstanding = config.outstanding;
    WayUp::new(Uplink::new(uplink, path.candidates.clone()))
}
