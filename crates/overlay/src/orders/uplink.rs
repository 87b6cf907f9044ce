//! The gateway's way up: every order is kept until the log has it.
//!
//! Contract: [`Uplink::submit`] numbers orders densely from 1 within the incarnation that the root
//! granted, names the session's previous order as the one it depends on, and keeps a copy until an
//! [`OrderAckBody`] says that it is in the log. An order not acknowledged in time goes again, to the
//! next parent candidate, with its `t_in` unchanged (corner 5). A session's parent changes only
//! when several orders in a row timed out on it, or with a new epoch (corner 3).
//!
//! Re-sends must not feed on themselves. Acknowledgements name the copy that was taken, so every
//! path is timed, however slow ([`RoundTrip`]); what waits at the root is not sent again; what was
//! of no use is paid from a budget ([`ResendBudget`]), and while that is empty nothing new is read:
//! a sender slows down rather than repeat itself. A root of a later term starts all that anew: it
//! holds nothing but the log. A timeout that comes late because this node stood
//! still is put off, since the acknowledgements are still in its socket.
//!
//! Bounded: at most `window` orders are in flight; upstream asks [`Uplink::has_room_for`] a session
//! before it reads more of that. Only the orders an acknowledgement can speak of (256 after the contiguous part) are
//! ever re-sent, at most `resend_batch` per timeout. Nothing allocates after the first order of the
//! highest account number.
//!
//! Not guaranteed: that orders of different sessions reach the log in submission order.

use std::collections::VecDeque;

use types::{
    AccountId, Channel, ClockReading, GatewayId, Incarnation, Nanos, NodeId, Outbox, ShardId,
    Source,
    limits::{ACCOUNTS_MAX, UPLINK_WINDOW},
};

use crate::{
    emit::send_by,
    frame::{FrameKind, GrantBody, HelloBody, HopHeader, OrderAckBody, OrderBody},
    orders::order_ack::ACK_REACH,
    orders::payload::Payload,
    orders::resend_budget::{BudgetConfig, ResendBudget},
    orders::round_trip::RoundTrip,
};

/// Identity of a gateway and its timeouts, ns.
#[derive(Clone, Debug)]
pub struct UplinkConfig {
    /// Number of the gateway, from 1.
    pub gateway: GatewayId,
    /// Node of the gateway, written into headers.
    pub node: NodeId,
    /// Node to which Hello is sent.
    pub root: NodeId,
    /// The engine shard orders are for.
    pub shard: ShardId,
    /// Channel that its datagrams are sent from.
    pub channel: Channel,
    /// Fresh at every start of the gateway.
    pub boot_nonce: u32,
    /// Epoch of the tree.
    pub epoch: u32,
    /// Most orders in flight, 1 to [`UPLINK_WINDOW`].
    pub window: usize,
    /// Most of them of one session; 0: sessions share the window as they come. See
    /// [`Uplink::has_room_for`].
    pub outstanding: usize,
    /// [`Uplink::has_room`] is false with fewer free slots than this: what one read from a client
    /// can carry must still fit.
    pub reserve: usize,
    /// Re-send timeout before the first round trip was timed, ns.
    pub rto_initial_ns: u64,
    /// Shortest re-send timeout, ns.
    pub rto_floor_ns: u64,
    /// Longest timeout by backoff alone, also of Hello; see [`RoundTrip::new`].
    pub rto_ceiling_ns: u64,
    /// Bounds on the number of re-sends.
    pub budget: BudgetConfig,
    /// Most re-sends per call of [`Uplink::handle_timeout`].
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
            channel: Channel::OVERLAY,
            boot_nonce,
            epoch: 1,
            window: UPLINK_WINDOW,
            outstanding: UPLINK_WINDOW,
            reserve: UPLINK_WINDOW / 4,
            rto_initial_ns: 30 * Nanos::MILLI,
            rto_floor_ns: 10 * Nanos::MILLI,
            rto_ceiling_ns: 200 * Nanos::MILLI,
            budget: BudgetConfig::default(),
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
    /// No incarnation has been granted yet.
    NotReady,
    /// The payload is longer than [`crate::payload::ORDER_PAYLOAD_MAX`].
    TooLong,
    /// The account number is above [`ACCOUNTS_MAX`].
    UnknownAccount,
}

/// What the uplink has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UplinkCounters {
    /// Number of orders submitted.
    pub sent: u64,
    /// Number of copies that were sent again.
    pub resent: u64,
    /// Orders known to be in the log.
    pub acked: u64,
    /// Times the preferred parent changed because of timeouts.
    pub parent_changes: u64,
    /// Times a re-send that was due had to wait for the budget.
    pub withheld: u64,
    /// Number of round trips that were timed.
    pub timed: u64,
    /// Acknowledgements or grants for another life, or of orders never sent.
    pub ignored: u64,
}

/// Timer granularity: a burst of orders due one after the other costs one pass, not many.
const TICK_NS: u64 = Nanos::MILLI / 2;
/// Delay of a timer, ns, beyond which this node itself stood still, so that missing answers prove
/// nothing.
const LATE_NS: u64 = 5 * Nanos::MILLI;
/// Latest copies of an order whose times of sending are known.
const COPIES: usize = 4;

#[derive(Clone)]
struct InFlight {
    session: AccountId,
    depends_on: u64,
    t_in: Nanos,
    /// When copies were sent, attempt `n` at `n % COPIES`.
    sent_at: [Nanos; COPIES],
    /// Doublings of the common timeout when the last copy was sent.
    doublings: u32,
    /// Time before which it is not re-sent, because it waits at the root.
    held_until: Nanos,
    /// How often it has been re-sent.
    attempt: u32,
    /// Sent copies that went to roots that no longer lead.
    forgiven: u32,
    /// Index of the candidate that the first copy was sent to.
    parent: usize,
    acked: bool,
    payload: Payload,
}

impl InFlight {
    /// When the copy of this attempt was sent, if that is still known.
    fn sent_at(&self, attempt: u32) -> Option<Nanos> {
        let known = attempt <= self.attempt && self.attempt - attempt < COPIES as u32;
        known.then(|| self.sent_at[attempt as usize % COPIES])
    }

    /// When it is to be sent again, as far as the path is known by now.
    fn due(&self, round_trip: &RoundTrip) -> Nanos {
        let shift = (self.attempt - self.forgiven).saturating_add(self.doublings);
        let sent = self.sent_at[self.attempt as usize % COPIES];
        sent.after(round_trip.timeout_ns(shift)).max(self.held_until)
    }
}

/// Orders of one session that are not acknowledged.
#[derive(Clone, Copy, Default)]
struct SessionOrders {
    /// Number of its last order; 0: none yet.
    last: u64,
    /// Orders not known to be in the log.
    pending: u32,
}

/// The gateway side of order transport; see the module.
#[derive(Clone)]
pub struct Uplink {
    config: UplinkConfig,
    candidates: Vec<NodeId>,
    preferred: usize,
    /// Timeouts in a row on the preferred parent.
    misses: u32,
    /// Timeouts count against the parent once all orders below this are acknowledged: those of the
    /// former parent hold up their sessions' later ones, whatever way these take.
    blame_from: u64,
    /// When the timeout was last doubled.
    doubled_at: Nanos,
    incarnation: Option<Incarnation>,
    hello_attempt: u32,
    /// Numbers `base .. base + orders.len()`; the first is never acknowledged.
    orders: VecDeque<InFlight>,
    base: u64,
    /// What is known of each session, by account number.
    sessions: Vec<SessionOrders>,
    round_trip: RoundTrip,
    budget: ResendBudget,
    /// Re-sends of this life known to have been of use; counts round.
    useful: u32,
    /// The newest term of the root that is known.
    term: u32,
    /// A re-send is due and the budget is empty.
    starved: bool,
    /// The last call for a timeout was put off.
    excused: bool,
    /// No order is due before this; may be early.
    next_due: Nanos,
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
            budget: ResendBudget::new(config.budget),
            config,
            candidates: Vec::new(),
            preferred: 0,
            misses: 0,
            blame_from: 0,
            doubled_at: Nanos(0),
            incarnation: None,
            hello_attempt: 0,
            base: 1,
            sessions: Vec::new(),
            round_trip,
            useful: 0,
            term: 0,
            starved: false,
            excused: false,
            next_due: Nanos::NEVER,
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

    /// Incarnation that was granted; `None`: none yet.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    /// Whether more should be read from clients: ready, at least `reserve` slots are free, and no
    /// re-send waits for its budget.
    pub fn has_room(&self) -> bool {
        self.ready()
            && !self.starved
            && self.config.window - self.orders.len() >= self.config.reserve
    }

    /// Whether more should be read from the client of a session: there is room at all, it has
    /// fewer than `outstanding` orders on their way, and no more of them than there are places left
    /// beyond the reserve. So however many sessions send without end, each keeps as much as is left
    /// for the others, and one that has nothing on its way always finds a place.
    pub fn has_room_for(&self, session: AccountId) -> bool {
        if self.config.outstanding == 0 {
            return self.has_room();
        }
        let left = (self.config.window - self.orders.len()).saturating_sub(self.config.reserve);
        let pending = self.pending_of(session);
        self.has_room() && pending < self.config.outstanding && pending <= left
    }

    /// Orders of a session that are not known to be in the log.
    pub fn pending_of(&self, session: AccountId) -> usize {
        self.sessions.get(usize::from(session.0)).map_or(0, |orders| orders.pending as usize)
    }

    /// Orders from the first not acknowledged to the last submitted.
    pub fn in_flight(&self) -> usize {
        self.orders.len()
    }

    /// What was counted since the start.
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
        if self.sessions.len() <= account {
            self.sessions.resize(account + 1, SessionOrders::default());
        }
        let seq = self.next_seq();
        let orders = &mut self.sessions[account];
        let depends_on = std::mem::replace(&mut orders.last, seq);
        orders.pending += 1;
        let doublings = self.round_trip.doublings();
        self.next_due = self.next_due.min(now.now + self.round_trip.timeout_ns(doublings));
        self.orders.push_back(InFlight {
            session,
            depends_on,
            t_in,
            sent_at: [now.now; COPIES],
            doublings,
            held_until: Nanos(0),
            attempt: 0,
            forgiven: 0,
            parent: self.preferred,
            acked: false,
            payload,
        });
        self.budget.sent();
        self.counters.sent += 1;
        self.child_sequence(self.orders.len() - 1, out);
        Ok(seq)
    }

    /// Handles the root's answer to a Hello.
    pub fn handle_grant(&mut self, grant: &GrantBody) {
        let ours =
            grant.gateway == self.config.gateway && grant.boot_nonce == self.config.boot_nonce;
        if !ours || self.incarnation.is_some_and(|known| known != grant.incarnation) {
            self.counters.ignored += 1;
            return;
        }
        if self.incarnation.is_none() {
            self.incarnation = Some(grant.incarnation);
            self.useful = 0;
            self.next_due = Nanos::NEVER;
        }
    }

    /// Handles an acknowledgement: frees the slots of orders that are in the log.
    pub fn handle_ack(&mut self, now: ClockReading, ack: &OrderAckBody) {
        let end = self.next_seq();
        let ours = self.incarnation == Some(ack.incarnation) && ack.contiguous < end;
        if !ours || ack.term < self.term {
            self.counters.ignored += 1;
            return;
        }
        if ack.term > self.term {
            self.begin_term(now.now, ack.term);
        }
        self.time(now.now, ack.echo);
        let useful = ack.useful.wrapping_sub(self.useful);
        // Of two acknowledgements that overtook one another the later one said it all.
        if useful <= u32::MAX / 2 {
            self.useful = ack.useful;
            self.budget.useful(useful);
        }
        for seq in self.base..=ack.contiguous {
            self.mark_acked(seq);
        }
        each_bit(&ack.selective, |bit| self.mark_acked(ack.contiguous + 1 + bit));
        // The root loses nothing that it holds; should it yet, this ends.
        let held_until = now.now + self.config.rto_ceiling_ns;
        each_bit(&ack.held, |bit| {
            let at = (ack.contiguous + 1 + bit).checked_sub(self.base);
            if let Some(order) = at.and_then(|at| self.orders.get_mut(at as usize)) {
                order.held_until = held_until;
            }
        });
        let mut freed = 0;
        while self.orders.front().is_some_and(|order| order.acked) {
            self.orders.pop_front();
            freed += 1;
        }
        self.base += freed as u64;
        // Orders that just came into reach may have been due for long.
        for order in self.orders.iter().take(ACK_REACH).skip(ACK_REACH.saturating_sub(freed)) {
            self.next_due = self.next_due.min(order.due(&self.round_trip));
        }
        if self.orders.is_empty() {
            (self.next_due, self.starved) = (Nanos::NEVER, false);
        }
    }

    /// Begins the term of another root, which has only what is in the log. Timeouts start anew, so
    /// that orders on their way are sent again soon; re-sends counted as useful by the former root
    /// count no more.
    fn begin_term(&mut self, now: Nanos, term: u32) {
        (self.term, self.useful) = (term, 0);
        self.budget.refill();
        self.round_trip.forgive();
        for order in &mut self.orders {
            order.forgiven = order.attempt;
            (order.doublings, order.held_until) = (0, Nanos(0));
        }
        if !self.orders.is_empty() {
            self.next_due = now;
        }
    }

    /// Re-sends what is due, or Hello.
    pub fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if now.now < self.next_due {
            return;
        }
        if !self.ready() {
            self.send_hello(now.now, out);
            return;
        }
        let late = now.now - self.next_due;
        self.excused = late > LATE_NS && !self.excused;
        if self.excused {
            self.next_due = now.now + late.min(self.config.rto_floor_ns);
        } else {
            self.resend_due(now.now, out);
        }
    }

    /// Next time at which [`Uplink::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Nanos {
        self.next_due
    }

    fn next_seq(&self) -> u64 {
        self.base + self.orders.len() as u64
    }

    /// Takes the time of the copy that an acknowledgement names (see [`frame::echo`]).
    fn time(&mut self, now: Nanos, echo: u32) {
        let at = (echo >> 8).wrapping_sub(self.base as u32) & (u32::MAX >> 8);
        let Some(order) = self.orders.get(at as usize).filter(|_| echo != 0) else { return };
        let attempt = (echo & 0xFF) as usize;
        // The largest number stands for all above it.
        if order.acked || attempt == usize::from(u8::MAX) {
            return;
        }
        if (order.parent + attempt) % self.candidates.len() == self.preferred {
            self.misses = 0;
        }
        let Some(sent) = order.sent_at((attempt / self.ways()) as u32) else { return };
        let before = self.round_trip.timeout_ns(0);
        self.round_trip.sample(now - sent);
        self.counters.timed += 1;
        // All others were sent later than the first, or again since.
        if let Some(first) = self.orders.front().filter(|_| self.round_trip.timeout_ns(0) < before)
        {
            let due = first.sent_at[0].after(self.round_trip.timeout_ns(0));
            self.next_due = self.next_due.min(due.max(now));
        }
    }

    fn mark_acked(&mut self, seq: u64) {
        let Some(at) = seq.checked_sub(self.base) else { return };
        let Some(order) = self.orders.get_mut(at as usize).filter(|order| !order.acked) else {
            return;
        };
        order.acked = true;
        if let Some(orders) = self.sessions.get_mut(usize::from(order.session.0)) {
            orders.pending -= 1;
        }
        self.counters.acked += 1;
        if order.attempt == 0 && order.parent == self.preferred {
            self.misses = 0;
        }
    }

    fn resend_due(&mut self, now: Nanos, out: &mut Outbox) {
        let mut earliest = Nanos::NEVER;
        let mut left = self.config.resend_batch.max(1);
        // When the youngest first copy was sent that timed out, and whether on the preferred way.
        let (mut first_sent, mut on_preferred) = (None, false);
        self.starved = false;
        for at in 0..self.orders.len().min(ACK_REACH) {
            let order = &mut self.orders[at];
            if order.acked {
                continue;
            }
            let due = order.due(&self.round_trip);
            if due > now {
                earliest = earliest.min(due);
                continue;
            }
            if left == 0 {
                earliest = now;
                break;
            }
            if !self.budget.pay(now) {
                self.starved = true;
                self.counters.withheld += 1;
                earliest = earliest.min(self.budget.next_at());
                break;
            }
            left -= 1;
            if order.attempt == 0 {
                first_sent = first_sent.max(Some(order.sent_at[0]));
                on_preferred |= order.parent == self.preferred;
            }
            order.attempt = order.attempt.saturating_add(1);
            order.sent_at[order.attempt as usize % COPIES] = now;
            order.doublings = self.round_trip.doublings();
            earliest = earliest.min(order.due(&self.round_trip));
            self.counters.resent += 1;
            self.child_sequence(at, out);
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

    fn child_sequence(&self, at: usize, out: &mut Outbox) {
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
        let ways = self.ways();
        for way in 0..ways {
            let attempt = (order.attempt as usize).saturating_mul(ways).saturating_add(way);
            let header = HopHeader {
                attempt: attempt.min(usize::from(u8::MAX)) as u8,
                ..HopHeader::new(FrameKind::Order, self.config.node, self.config.epoch)
            };
            // Counted from the candidate of the first copy, not from the one preferred by now, so
            // that a further copy never takes the way the first one failed on.
            let to = self.candidates[(order.parent + attempt) % self.candidates.len()];
            send_by((out, self.config.channel), to, header, &body, order.payload.as_slice());
        }
    }

    fn ways(&self) -> usize {
        self.config.ways.clamp(1, self.candidates.len())
    }

    fn send_hello(&mut self, now: Nanos, out: &mut Outbox) {
        let header = HopHeader::new(FrameKind::Hello, self.config.node, self.config.epoch);
        let body = HelloBody {
            gateway: self.config.gateway,
            reserved: 0,
            boot_nonce: self.config.boot_nonce,
        };
        send_by((out, self.config.channel), self.config.root, header, &body, &[]);
        self.next_due = now + self.round_trip.timeout_ns(self.hello_attempt);
        self.hello_attempt = self.hello_attempt.saturating_add(1);
    }
}

/// Calls for every bit that is set, counted through the words.
fn each_bit(words: &[u64], mut act: impl FnMut(u64)) {
    for (offset, word) in (0..).step_by(64).zip(words) {
        let mut bits = *word;
        while bits != 0 {
            act(offset + u64::from(bits.trailing_zeros()));
            bits &= bits - 1;
        }
    }
}
