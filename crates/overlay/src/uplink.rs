//! The gateway's way up: every order is kept until the log has it.
//!
//! Contract: [`Uplink::submit`] numbers orders densely from 1 within the incarnation that the root
//! granted, names the session's previous order as the one it depends on, and keeps a copy until an
//! [`OrderAckBody`] says that it is in the log. An order not acknowledged in time goes again, to the
//! next parent candidate, with its `t_in` unchanged (corner 5). A session's parent changes only
//! when several orders in a row timed out on it, or with a new epoch (corner 3).
//!
//! Bounded: at most `window` orders are in flight; upstream asks [`Uplink::has_room`] before it
//! reads more. Only the orders an acknowledgement can speak of (256 after the contiguous part) are
//! ever re-sent, at most `resend_batch` per timeout. Nothing allocates after the first order of the
//! highest account number.
//!
//! Not guaranteed: that orders of different sessions reach the log in submission order.

use std::collections::VecDeque;

use types::{
    AccountId, ClockReading, GatewayId, Incarnation, Nanos, NodeId, Outbox, ShardId, Source,
    limits::{ACCOUNTS_MAX, UPLINK_WINDOW},
};

use crate::{
    emit::send,
    frame::{FrameKind, GrantBody, HelloBody, HopHeader, OrderAckBody, OrderBody},
    order_ack::ACK_REACH,
    payload::Payload,
    round_trip::RoundTrip,
};

/// Who the gateway is and how patient; times in nanoseconds.
#[derive(Clone, Debug)]
pub struct UplinkConfig {
    /// The gateway.
    pub gateway: GatewayId,
    /// Its node, written into headers.
    pub node: NodeId,
    /// Where Hello goes.
    pub root: NodeId,
    /// The engine shard orders are for.
    pub shard: ShardId,
    /// Fresh at every start of the gateway.
    pub boot_nonce: u32,
    /// Tree epoch.
    pub epoch: u32,
    /// Most orders in flight, 1 to [`UPLINK_WINDOW`].
    pub window: usize,
    /// [`Uplink::has_room`] is false with fewer free slots than this: what one read from a client
    /// can carry must still fit.
    pub reserve: usize,
    /// Timeout before the first sample.
    pub rto_initial_ns: u64,
    /// Shortest timeout.
    pub rto_floor_ns: u64,
    /// Longest timeout, also of Hello.
    pub rto_ceiling_ns: u64,
    /// Most re-sends per timeout call.
    pub resend_batch: usize,
    /// So many timeouts in a row, none of the preferred parent's orders acknowledged between
    /// them, make the next candidate the preferred one.
    pub parent_patience: u32,
    /// Copies of an order sent at a time, each by another candidate: what one way loses or delays
    /// another brings, and the root drops the rest. 1 to the number of candidates.
    pub ways: usize,
}

impl UplinkConfig {
    /// Shard 0, epoch 1, the full window, and timeouts for one data centre.
    pub fn new(gateway: GatewayId, node: NodeId, root: NodeId, boot_nonce: u32) -> UplinkConfig {
        UplinkConfig {
            gateway,
            node,
            root,
            shard: ShardId(0),
            boot_nonce,
            epoch: 1,
            window: UPLINK_WINDOW,
            reserve: UPLINK_WINDOW / 4,
            rto_initial_ns: 30 * Nanos::MILLI,
            rto_floor_ns: 10 * Nanos::MILLI,
            rto_ceiling_ns: 200 * Nanos::MILLI,
            resend_batch: 64,
            parent_patience: 3,
            ways: 1,
        }
    }
}

/// Why an order was not taken; the caller still has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubmitError {
    /// The window is full: wait for acknowledgements.
    Full,
    /// No incarnation granted yet.
    NotReady,
    /// Longer than [`crate::payload::ORDER_PAYLOAD_MAX`].
    TooLong,
    /// The account number is above [`ACCOUNTS_MAX`].
    UnknownAccount,
}

/// What the uplink did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UplinkCounters {
    /// Orders submitted.
    pub sent: u64,
    /// Copies sent again.
    pub resent: u64,
    /// Orders known to be in the log.
    pub acked: u64,
    /// Times the preferred parent changed because of timeouts.
    pub parent_changes: u64,
    /// Acknowledgements or grants for another life, or of orders never sent.
    pub ignored: u64,
}

/// Timer granularity: a burst of orders due one after the other costs one pass, not many.
const TICK_NS: u64 = Nanos::MILLI / 2;

struct InFlight {
    depends_on: u64,
    t_in: Nanos,
    sent_at: Nanos,
    due: Nanos,
    /// How often it has been re-sent.
    attempt: u32,
    /// Candidate of the first copy.
    parent: usize,
    acked: bool,
    payload: Payload,
}

/// The gateway side of order transport; see the module.
pub struct Uplink {
    config: UplinkConfig,
    candidates: Vec<NodeId>,
    preferred: usize,
    /// Timeouts in a row on the preferred parent.
    misses: u32,
    /// Timeouts count against the parent once all orders below this are acknowledged: those of the
    /// former parent hold up their sessions' later ones, whatever way these take.
    blame_from: u64,
    /// Orders below this may have waited at the root for a re-sent one, so how long they took says
    /// nothing of the path.
    clear_from: u64,
    /// When the timeout was last doubled.
    doubled_at: Nanos,
    incarnation: Option<Incarnation>,
    hello_attempt: u32,
    /// Numbers `base .. base + orders.len()`; the first is never acknowledged.
    orders: VecDeque<InFlight>,
    base: u64,
    /// Last order of each session, by account number.
    last_of: Vec<u64>,
    round_trip: RoundTrip,
    /// No order is due before this; may be early.
    next_due: Nanos,
    /// See [`Uplink::lose_resends`].
    lossy: bool,
    counters: UplinkCounters,
}

impl Uplink {
    /// An uplink through `candidates`, first one preferred; without any it sends to the root.
    pub fn new(mut config: UplinkConfig, candidates: Vec<NodeId>) -> Uplink {
        config.window = config.window.clamp(1, UPLINK_WINDOW);
        config.reserve = config.reserve.clamp(1, config.window);
        let round_trip =
            RoundTrip::new(config.rto_initial_ns, config.rto_floor_ns, config.rto_ceiling_ns);
        let mut uplink = Uplink {
            orders: VecDeque::with_capacity(config.window),
            config,
            candidates: Vec::new(),
            preferred: 0,
            misses: 0,
            blame_from: 0,
            clear_from: 0,
            doubled_at: Nanos(0),
            incarnation: None,
            hello_attempt: 0,
            base: 1,
            last_of: Vec::new(),
            round_trip,
            next_due: Nanos::NEVER,
            lossy: false,
            counters: UplinkCounters::default(),
        };
        uplink.set_candidates(uplink.config.epoch, candidates);
        uplink
    }

    /// A new epoch gives new parents; orders in flight keep their timers and go to the new ones
    /// when re-sent.
    pub fn set_candidates(&mut self, epoch: u32, mut candidates: Vec<NodeId>) {
        if candidates.is_empty() {
            candidates.push(self.config.root);
        }
        self.config.epoch = epoch;
        self.candidates = candidates;
        self.preferred = 0;
        self.misses = 0;
        self.blame_from = self.next_seq();
    }

    /// A deliberate fault, for tests of the checks that have to find it: a re-send is noted as made
    /// and never leaves. No deployment asks for it.
    #[doc(hidden)]
    pub fn lose_resends(&mut self) {
        self.lossy = true;
    }

    /// Asks for an incarnation; repeated by [`Uplink::handle_timeout`] until granted.
    pub fn start(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.incarnation.is_none() {
            self.send_hello(now.now, out);
        }
    }

    /// Whether an incarnation has been granted, so that orders can be taken.
    pub fn ready(&self) -> bool {
        self.incarnation.is_some()
    }

    /// The life granted.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    /// Whether more should be read from clients: ready, and at least `reserve` slots are free.
    pub fn has_room(&self) -> bool {
        self.ready() && self.config.window - self.orders.len() >= self.config.reserve
    }

    /// Orders from the first not acknowledged to the last submitted.
    pub fn in_flight(&self) -> usize {
        self.orders.len()
    }

    /// What happened so far.
    pub fn counters(&self) -> UplinkCounters {
        self.counters
    }

    /// Sends an order of a session (an account) and keeps it until it is in the log.
    /// Returns its transport number.
    pub fn submit(
        &mut self,
        now: ClockReading,
        session: AccountId,
        t_in: Nanos,
        payload: &[u8],
        out: &mut Outbox,
    ) -> Result<u64, SubmitError> {
        if !self.ready() {
            return Err(SubmitError::NotReady);
        }
        if self.orders.len() >= self.config.window {
            return Err(SubmitError::Full);
        }
        let payload = Payload::new(payload).ok_or(SubmitError::TooLong)?;
        let account = usize::from(session.0);
        if account > ACCOUNTS_MAX {
            return Err(SubmitError::UnknownAccount);
        }
        if self.last_of.len() <= account {
            self.last_of.resize(account + 1, 0);
        }
        let seq = self.next_seq();
        let depends_on = std::mem::replace(&mut self.last_of[account], seq);
        let due = now.now + self.round_trip.timeout_ns(0);
        self.orders.push_back(InFlight {
            depends_on,
            t_in,
            sent_at: now.now,
            due,
            attempt: 0,
            parent: self.preferred,
            acked: false,
            payload,
        });
        self.next_due = self.next_due.min(due);
        self.counters.sent += 1;
        self.send_order(self.orders.len() - 1, out);
        Ok(seq)
    }

    /// The root's answer to Hello.
    pub fn handle_grant(&mut self, grant: &GrantBody) {
        let ours =
            grant.gateway == self.config.gateway && grant.boot_nonce == self.config.boot_nonce;
        if !ours || self.incarnation.is_some_and(|known| known != grant.incarnation) {
            self.counters.ignored += 1;
            return;
        }
        if self.incarnation.is_none() {
            self.incarnation = Some(grant.incarnation);
            self.next_due = Nanos::NEVER;
        }
    }

    /// Frees what the log has.
    pub fn handle_ack(&mut self, now: ClockReading, ack: &OrderAckBody) {
        let end = self.next_seq();
        if self.incarnation != Some(ack.incarnation) || ack.contiguous >= end {
            self.counters.ignored += 1;
            return;
        }
        for seq in self.base..=ack.contiguous {
            self.mark_acked(now.now, seq);
        }
        for (word, bits) in ack.selective.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let bit = u64::from(bits.trailing_zeros());
                self.mark_acked(now.now, ack.contiguous + 1 + 64 * word as u64 + bit);
                bits &= bits - 1;
            }
        }
        let mut freed = 0;
        while self.orders.front().is_some_and(|order| order.acked) {
            self.orders.pop_front();
            freed += 1;
        }
        self.base += freed as u64;
        // Orders that just came into reach may have been due for long.
        for order in self.orders.iter().take(ACK_REACH).skip(ACK_REACH.saturating_sub(freed)) {
            self.next_due = self.next_due.min(order.due);
        }
        if self.orders.is_empty() {
            self.next_due = Nanos::NEVER;
        }
    }

    /// Re-sends what is due, or Hello.
    pub fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if now.now < self.next_due {
            return;
        }
        if self.ready() {
            self.resend_due(now.now, out);
        } else {
            self.send_hello(now.now, out);
        }
    }

    /// When [`Uplink::handle_timeout`] should be called.
    pub fn next_timeout(&self) -> Nanos {
        self.next_due
    }

    fn next_seq(&self) -> u64 {
        self.base + self.orders.len() as u64
    }

    fn mark_acked(&mut self, now: Nanos, seq: u64) {
        let Some(at) = seq.checked_sub(self.base) else { return };
        let Some(order) = self.orders.get_mut(at as usize).filter(|order| !order.acked) else {
            return;
        };
        order.acked = true;
        self.counters.acked += 1;
        if order.attempt == 0 {
            if seq >= self.clear_from {
                self.round_trip.sample(now - order.sent_at);
            }
            if order.parent == self.preferred {
                self.misses = 0;
            }
        }
    }

    fn resend_due(&mut self, now: Nanos, out: &mut Outbox) {
        let mut earliest = Nanos::NEVER;
        let mut left = self.config.resend_batch.max(1);
        // When the youngest first copy was sent that timed out, and whether on the preferred way.
        let (mut first_sent, mut on_preferred) = (None, false);
        for at in 0..self.orders.len().min(ACK_REACH) {
            let order = &mut self.orders[at];
            if order.acked {
                continue;
            }
            if order.due > now {
                earliest = earliest.min(order.due);
                continue;
            }
            if left == 0 {
                earliest = now;
                break;
            }
            left -= 1;
            if order.attempt == 0 {
                first_sent = first_sent.max(Some(order.sent_at));
                on_preferred |= order.parent == self.preferred;
            }
            order.attempt = order.attempt.saturating_add(1);
            order.due = now + self.round_trip.timeout_ns(order.attempt);
            earliest = earliest.min(order.due);
            self.counters.resent += 1;
            self.clear_from = self.base + self.orders.len() as u64;
            if !self.lossy {
                self.send_order(at, out);
            }
        }
        // Once per timeout, not once per order that ran into the same one.
        if first_sent.is_some_and(|sent| sent >= self.doubled_at) {
            self.round_trip.timed_out();
            self.doubled_at = now;
        }
        if on_preferred && self.base >= self.blame_from {
            self.blame_parent();
        }
        self.next_due = earliest.max(now + TICK_NS);
    }

    fn blame_parent(&mut self) {
        self.misses = self.misses.saturating_add(1);
        if self.misses >= self.config.parent_patience && self.candidates.len() > 1 {
            self.preferred = (self.preferred + 1) % self.candidates.len();
            self.misses = 0;
            self.blame_from = self.next_seq();
            self.counters.parent_changes += 1;
        }
    }

    fn send_order(&self, at: usize, out: &mut Outbox) {
        let (Some(order), Some(incarnation)) = (self.orders.get(at), self.incarnation) else {
            return;
        };
        let source = Source {
            gateway: self.config.gateway,
            shard: self.config.shard,
            incarnation,
            seq: self.base + at as u64,
        };
        let body = OrderBody { source, depends_on: order.depends_on, t_in: order.t_in };
        let ways = self.config.ways.clamp(1, self.candidates.len());
        for way in 0..ways {
            let attempt = (order.attempt as usize).saturating_mul(ways).saturating_add(way);
            let header = HopHeader {
                attempt: attempt.min(usize::from(u8::MAX)) as u8,
                ..HopHeader::new(FrameKind::Order, self.config.node, self.config.epoch)
            };
            // Counted from the candidate of the first copy, not from the one preferred by now, so
            // that a further copy never takes the way the first one failed on.
            let to = self.candidates[(order.parent + attempt) % self.candidates.len()];
            send(out, to, header, &body, order.payload.as_slice());
        }
    }

    fn send_hello(&mut self, now: Nanos, out: &mut Outbox) {
        let header = HopHeader::new(FrameKind::Hello, self.config.node, self.config.epoch);
        let body = HelloBody {
            gateway: self.config.gateway,
            reserved: 0,
            boot_nonce: self.config.boot_nonce,
        };
        send(out, self.config.root, header, &body, &[]);
        self.next_due = now + self.round_trip.timeout_ns(self.hello_attempt);
        self.hello_attempt = self.hello_attempt.saturating_add(1);
    }
}
