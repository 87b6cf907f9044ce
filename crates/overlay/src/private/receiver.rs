//! The gateway's side of private streams: attach, receive in order exactly once, acknowledge.
//!
//! Contract: for each account attached here, records are handed to the caller's closure in stream
//! order, each once per attachment, starting at the position asked for. Datagrams that come early
//! wait in a small pool all accounts share; beyond it they are dropped and asked for again.
//! Handlers only note what to acknowledge; [`PrivateReceiver::flush`] sends at most one
//! acknowledgement per account, and idle accounts send one every `keep_alive_ns`, which keeps the
//! root's lease.
//!
//! Tokens rise with every attachment and from life to life: the high bits are those of the
//! incarnation that the log granted ([`first_token`]), so nothing of an earlier life looks new.
//! Before [`PrivateReceiver::begin_life`] nothing is asked for; what was wanted goes out then.
//!
//! Not guaranteed: delivery of records while an account is paused; they come after it.

use types::{
    AccountId, Channel, ClockReading, Incarnation, Nanos, NodeId, Outbox, limits::DATAGRAM_MAX,
};

use crate::{
    emit::send_by,
    frame::{AttachBody, AttachReplyBody, FrameKind, HopHeader, PrivateAckBody, PrivateBody},
    private::sender::{ATTACH, ATTACHED, DETACH, DETACHED, REFUSED, TAKE_OVER, UNKNOWN},
};

/// Sizes and patience; times in nanoseconds.
#[derive(Clone, Debug)]
pub struct PrivateReceiverConfig {
    /// The gateway's node, written into headers.
    pub node: NodeId,
    /// Node of the root that the streams come from.
    pub root: NodeId,
    /// Channel that its datagrams are sent from.
    pub channel: Channel,
    /// Epoch of the tree.
    pub epoch: u32,
    /// Length of every record in bytes.
    pub record_len: usize,
    /// An attach or detach request is repeated after this, doubling.
    pub request_ns: u64,
    /// Longest time between repeated requests, ns.
    pub request_ceiling_ns: u64,
    /// Repetitions of a detach request before giving up; the lease does the rest.
    pub detach_tries: u32,
    /// An account with nothing to acknowledge says so this often.
    pub keep_alive_ns: u64,
    /// An acknowledgement without a gap may wait this long for more to acknowledge; 0: not at all.
    /// Far below the root's timeout.
    pub ack_delay_ns: u64,
    /// With so many records unacknowledged it does not wait; far below what may be in flight.
    pub ack_records: u32,
    /// A gap of an account is reported this often at most.
    pub gap_guard_ns: u64,
    /// Early datagrams kept, all accounts together.
    pub early_max: usize,
}

impl PrivateReceiverConfig {
    /// The default settings for one data centre.
    pub fn new(node: NodeId, root: NodeId, record_len: usize) -> Self {
        PrivateReceiverConfig {
            node,
            root,
            channel: Channel::OVERLAY,
            epoch: 1,
            record_len,
            request_ns: 20 * Nanos::MILLI,
            request_ceiling_ns: 200 * Nanos::MILLI,
            detach_tries: 5,
            keep_alive_ns: 100 * Nanos::MILLI,
            ack_delay_ns: 0,
            ack_records: 64,
            gap_guard_ns: 2 * Nanos::MILLI,
            early_max: 32,
        }
    }
}

/// Bits of a token that count the attachments of one life; those above say which life.
const TOKEN_BITS: u32 = 20;

/// The token of a life's first attachment. Lives are told apart as long as they are less than 2,048
/// grants apart; a life with more than a million attachments goes on into the tokens of the next
/// one, whose own are then refused until its lease has run out.
pub fn first_token(life: Incarnation) -> u32 {
    life.0.wrapping_shl(TOKEN_BITS).wrapping_add(1)
}

/// Event that the gateway is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrivateEvent<'a> {
    /// The stream is attached to this gateway.
    Attached {
        /// Account whose private stream it is.
        account: AccountId,
        /// Position of the first record that will be delivered.
        from: u64,
        /// Position the next new record will have.
        next: u64,
    },
    /// The root refused: no such account, or it is live at another gateway.
    Refused {
        /// Account whose private stream it is.
        account: AccountId,
    },
    /// The root ended the attachment: another gateway took the stream over. Not told after
    /// [`PrivateReceiver::detach`].
    Detached {
        /// Account whose private stream it is.
        account: AccountId,
    },
    /// The root that serves now lacks records that were delivered here: nothing more is until the
    /// stream is detached and attached anew.
    Behind {
        /// Account whose private stream it is.
        account: AccountId,
        /// Position of the record that comes next here.
        asked: u64,
        /// Position the next new record has there.
        next: u64,
    },
    /// The next record of a stream.
    Record {
        /// Account whose private stream it is.
        account: AccountId,
        /// Position of the record; one more than the one before.
        position: u64,
        /// Contents of the record, `record_len` bytes.
        record: &'a [u8],
    },
}

/// What the gateway's side has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrivateReceiverCounters {
    /// Number of records that were delivered.
    pub delivered: u64,
    /// Number of datagrams that contained nothing new.
    pub duplicates: u64,
    /// Datagrams that arrived before an earlier one.
    pub early: u64,
    /// Early datagrams that were dropped because the pool was full.
    pub early_dropped: u64,
    /// Number of gaps that were reported to the root.
    pub gaps: u64,
    /// Datagrams of no attachment of ours, or malformed.
    pub ignored: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Requesting,
    Attached,
    /// The stream was attached at a root that no longer serves and has to be attached again.
    Rejoining,
    Detaching,
}

struct Stream {
    account: AccountId,
    token: u32,
    state: State,
    paused: bool,
    /// Whether the stream is asked for wherever it is attached.
    takes_over: bool,
    /// Wanted position while requesting, then the next one to deliver.
    next: u64,
    /// Repetition of a request, or the next keep-alive.
    due: Nanos,
    tries: u32,
    owes_ack: bool,
    /// Records delivered since the last acknowledgement.
    unacked: u32,
    /// Something is missing and should be reported.
    gap: bool,
    gap_reported: Nanos,
    /// Records came before the answer to our request, and were dropped.
    missed: bool,
}

/// A datagram that came early. An empty one is a free place.
#[derive(Default)]
struct Early {
    account: AccountId,
    first: u64,
    records: Vec<u8>,
}

/// The gateway's private streams; see the module.
pub struct PrivateReceiver {
    config: PrivateReceiverConfig,
    /// `None` before a life has been granted.
    next_token: Option<u32>,
    /// The streams, in ascending order of accounts.
    streams: Vec<Stream>,
    early: Vec<Early>,
    /// Accounts whose records are to be acknowledged.
    dirty: Vec<AccountId>,
    /// Lower bound of the next due time.
    next_due: Nanos,
    counters: PrivateReceiverCounters,
}

impl PrivateReceiver {
    /// A receiver without attached streams.
    pub fn new(mut config: PrivateReceiverConfig) -> PrivateReceiver {
        config.record_len = config.record_len.max(1);
        let mut early = Vec::new();
        // Room from the start: an early datagram is no reason to allocate.
        let room = || Early { records: Vec::with_capacity(DATAGRAM_MAX), ..Early::default() };
        early.resize_with(config.early_max, room);
        PrivateReceiver {
            next_token: None,
            config,
            streams: Vec::new(),
            early,
            dirty: Vec::new(),
            next_due: Nanos::NEVER,
            counters: PrivateReceiverCounters::default(),
        }
    }

    /// The gateway lives in this epoch from now on.
    pub fn set_epoch(&mut self, epoch: u32) {
        self.config.epoch = epoch;
    }

    /// Sets the incarnation that the log granted this gateway, and sends the requests that waited
    /// for it. The incarnation it has already changes nothing.
    pub fn begin_life(&mut self, now: ClockReading, life: Incarnation, out: &mut Outbox) {
        if self.next_token.is_some() {
            return;
        }
        self.next_token = Some(first_token(life));
        for at in 0..self.streams.len() {
            self.streams[at].token = self.take_token();
            self.request(now.now, at, out);
        }
    }

    fn take_token(&mut self) -> u32 {
        let token = self.next_token.unwrap_or(0);
        self.next_token = self.next_token.map(|token| token.wrapping_add(1));
        token
    }

    /// Asks for an account's stream from a position (0: only what is new), repeated until
    /// answered. An attachment the account has here is replaced.
    pub fn attach(&mut self, now: ClockReading, account: AccountId, from: u64, out: &mut Outbox) {
        self.attach_as(now, account, (from, false), out);
    }

    /// As [`PrivateReceiver::attach`], also where another gateway has the stream: for a gateway
    /// that was told elsewhere that the account is now its own.
    pub fn take_over(
        &mut self,
        now: ClockReading,
        account: AccountId,
        from: u64,
        out: &mut Outbox,
    ) {
        self.attach_as(now, account, (from, true), out);
    }

    fn attach_as(
        &mut self,
        now: ClockReading,
        account: AccountId,
        (from, takes_over): (u64, bool),
        out: &mut Outbox,
    ) {
        let token = self.take_token();
        let fresh = Stream {
            account,
            token,
            state: State::Requesting,
            paused: false,
            takes_over,
            next: from,
            due: now.now,
            tries: 0,
            owes_ack: false,
            unacked: 0,
            gap: false,
            gap_reported: Nanos(0),
            missed: false,
        };
        match self.find(account) {
            Ok(at) => {
                self.streams[at] = fresh;
                self.drop_early(account);
                self.request(now.now, at, out);
            }
            Err(at) => {
                self.streams.insert(at, fresh);
                self.request(now.now, at, out);
            }
        }
    }

    /// Gives an account's stream back; nothing more is delivered of it.
    pub fn detach(&mut self, now: ClockReading, account: AccountId, out: &mut Outbox) {
        let Ok(at) = self.find(account) else { return };
        if self.next_token.is_none() {
            // It has not been asked for yet.
            return self.remove(at);
        }
        let stream = &mut self.streams[at];
        if stream.state != State::Detaching {
            stream.state = State::Detaching;
            stream.tries = 0;
            self.drop_early(account);
            self.request(now.now, at, out);
        }
    }

    /// Back-pressure: while paused an account's records are dropped unacknowledged, and asked for
    /// when it goes on. The attachment stays alive.
    pub fn set_paused(&mut self, account: AccountId, paused: bool) {
        let Ok(at) = self.find(account) else { return };
        let resumes = self.streams[at].paused && !paused;
        self.streams[at].paused = paused;
        if resumes && self.streams[at].state == State::Attached {
            self.streams[at].gap = true;
            self.streams[at].gap_reported = Nanos(0);
            self.owe_ack(at);
        }
    }

    /// Whether an account's stream is attached here.
    pub fn is_attached(&self, account: AccountId) -> bool {
        self.find(account).is_ok_and(|at| self.streams[at].state == State::Attached)
    }

    /// What was counted since the start.
    pub fn counters(&self) -> PrivateReceiverCounters {
        self.counters
    }

    /// The root's answer to a request, or word that the stream has moved.
    pub fn handle_reply(
        &mut self,
        now: ClockReading,
        reply: &AttachReplyBody,
        mut on_event: impl FnMut(PrivateEvent<'_>),
    ) {
        let account = reply.account;
        if (account, reply.status) == (AccountId(0), UNKNOWN) {
            return self.rejoin_all(now);
        }
        let found = self.find(account).ok().filter(|at| self.streams[*at].token == reply.token);
        let Some(at) = found.filter(|_| self.next_token.is_some()) else {
            self.counters.ignored += 1;
            return;
        };
        let stream = &mut self.streams[at];
        match (stream.state, reply.status) {
            (State::Requesting, ATTACHED) if (1..=reply.next).contains(&reply.from) => {
                stream.state = State::Attached;
                stream.next = reply.from;
                stream.gap = stream.missed;
                stream.due = now.now + self.config.keep_alive_ns;
                self.next_due = self.next_due.min(stream.due);
                self.owe_ack(at);
                on_event(PrivateEvent::Attached { account, from: reply.from, next: reply.next });
            }
            (State::Rejoining, ATTACHED) if reply.next < stream.next => {
                let asked = stream.next;
                on_event(PrivateEvent::Behind { account, asked, next: reply.next });
            }
            (State::Rejoining, ATTACHED) if (1..=stream.next).contains(&reply.from) => {
                stream.state = State::Attached;
                stream.gap = stream.missed;
                stream.due = now.now + self.config.keep_alive_ns;
                self.next_due = self.next_due.min(stream.due);
                self.owe_ack(at);
            }
            (State::Attached, UNKNOWN) => self.rejoin(now.now, at),
            (State::Requesting, REFUSED) => {
                self.remove(at);
                on_event(PrivateEvent::Refused { account });
            }
            (State::Detaching, DETACHED) => self.remove(at),
            (State::Rejoining, REFUSED)
            | (State::Requesting | State::Attached | State::Rejoining, DETACHED) => {
                self.remove(at);
                on_event(PrivateEvent::Detached { account });
            }
            _ => self.counters.ignored += 1,
        }
    }

    /// All streams that were attached at a root that serves no more are asked for again.
    fn rejoin_all(&mut self, now: ClockReading) {
        for at in 0..self.streams.len() {
            if self.streams[at].state == State::Attached {
                self.rejoin(now.now, at);
            }
        }
    }

    /// The next timeout asks for the stream again, from where it stands.
    fn rejoin(&mut self, now: Nanos, at: usize) {
        let stream = &mut self.streams[at];
        (stream.state, stream.tries, stream.due) = (State::Rejoining, 0, now);
        (stream.owes_ack, stream.missed) = (false, false);
        self.next_due = self.next_due.min(now);
    }

    /// Handles a datagram with records of a stream.
    pub fn handle_private(
        &mut self,
        body: &PrivateBody,
        payload: &[u8],
        mut on_event: impl FnMut(PrivateEvent<'_>),
    ) {
        let count = u64::from(body.count);
        let whole = usize::from(body.count).checked_mul(self.config.record_len);
        let end = body.first.checked_add(count);
        let found = self.find(body.account).ok().filter(|at| self.streams[*at].token == body.token);
        let (Some(at), Some(end), true) = (found, end, count > 0 && whole == Some(payload.len()))
        else {
            self.counters.ignored += 1;
            return;
        };
        let stream = &mut self.streams[at];
        if stream.state != State::Attached || stream.paused {
            stream.missed = true;
            self.counters.ignored += 1;
            return;
        }
        if end <= stream.next {
            self.counters.duplicates += 1;
        } else if body.first <= stream.next {
            self.deliver(at, body.first, payload, &mut on_event);
            self.deliver_early(at, &mut on_event);
        } else {
            stream.gap = true;
            self.keep_early(body, payload);
        }
        self.owe_ack(at);
    }

    /// Sends the acknowledgements owed, one per account, or has them wait a little for more.
    pub fn flush(&mut self, now: ClockReading, out: &mut Outbox) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for account in dirty.drain(..) {
            let Ok(at) = self.find(account) else { continue };
            let stream = &mut self.streams[at];
            let waits = self.config.ack_delay_ns > 0
                && !stream.gap
                && stream.unacked < self.config.ack_records;
            if waits {
                stream.owes_ack = false;
                stream.due = stream.due.min(now.now + self.config.ack_delay_ns);
                self.next_due = self.next_due.min(stream.due);
            } else {
                self.acknowledge(now.now, at, out);
            }
        }
        self.dirty = dirty;
    }

    /// Repeats requests and sends the keep-alives that are due.
    pub fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if now.now < self.next_due {
            return;
        }
        self.next_due = Nanos::NEVER;
        let mut at = 0;
        while let Some(stream) = self.streams.get_mut(at) {
            if stream.due > now.now {
                self.next_due = self.next_due.min(stream.due);
            } else if stream.state == State::Attached {
                stream.owes_ack = true;
                self.acknowledge(now.now, at, out);
            } else if stream.state == State::Detaching && stream.tries > self.config.detach_tries {
                self.remove(at);
                continue;
            } else {
                self.request(now.now, at, out);
            }
            at += 1;
        }
    }

    /// Next time at which [`PrivateReceiver::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Nanos {
        self.next_due
    }

    fn find(&self, account: AccountId) -> Result<usize, usize> {
        self.streams.binary_search_by_key(&account, |stream| stream.account)
    }

    fn remove(&mut self, at: usize) {
        let stream = self.streams.remove(at);
        self.drop_early(stream.account);
    }

    fn owe_ack(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        if !stream.owes_ack {
            stream.owes_ack = true;
            self.dirty.push(stream.account);
        }
    }

    fn request(&mut self, now: Nanos, at: usize, out: &mut Outbox) {
        if self.next_token.is_none() {
            self.streams[at].due = Nanos::NEVER;
            return;
        }
        let stream = &mut self.streams[at];
        let attach = match stream.state {
            State::Detaching => DETACH,
            _ if stream.takes_over => TAKE_OVER,
            _ => ATTACH,
        };
        let from = if attach == DETACH { 0 } else { stream.next };
        let body = AttachBody { account: stream.account, attach, token: stream.token, from };
        let wait = self.config.request_ns.saturating_mul(1 << stream.tries.min(16));
        stream.due = now + wait.clamp(1, self.config.request_ceiling_ns.max(1));
        stream.tries = stream.tries.saturating_add(1);
        self.next_due = self.next_due.min(stream.due);
        let header = HopHeader::new(FrameKind::Attach, self.config.node, self.config.epoch);
        send_by((out, self.config.channel), self.config.root, header, &body, &[]);
    }

    fn acknowledge(&mut self, now: Nanos, at: usize, out: &mut Outbox) {
        let stream = &mut self.streams[at];
        if !std::mem::take(&mut stream.owes_ack) || stream.state != State::Attached {
            return;
        }
        let report = stream.gap && now - stream.gap_reported >= self.config.gap_guard_ns;
        if report {
            stream.gap_reported = now;
            self.counters.gaps += 1;
        }
        // What is still missing then is noticed by the next early datagram, or by the root's
        // timeout.
        stream.gap = false;
        let body = PrivateAckBody {
            account: stream.account,
            gap: u16::from(report),
            token: stream.token,
            next: stream.next,
        };
        stream.unacked = 0;
        stream.due = now + self.config.keep_alive_ns;
        self.next_due = self.next_due.min(stream.due);
        let header = HopHeader::new(FrameKind::PrivateAck, self.config.node, self.config.epoch);
        send_by((out, self.config.channel), self.config.root, header, &body, &[]);
    }

    /// Hands on the records from the stream's next position; `first` is at or before it.
    fn deliver(
        &mut self,
        at: usize,
        first: u64,
        records: &[u8],
        on_event: &mut impl FnMut(PrivateEvent<'_>),
    ) {
        let stream = &mut self.streams[at];
        let known = usize::try_from(stream.next - first).unwrap_or(usize::MAX);
        for record in records.chunks_exact(self.config.record_len).skip(known) {
            let position = stream.next;
            stream.next += 1;
            stream.unacked = stream.unacked.saturating_add(1);
            self.counters.delivered += 1;
            on_event(PrivateEvent::Record { account: stream.account, position, record });
        }
    }

    fn deliver_early(&mut self, at: usize, on_event: &mut impl FnMut(PrivateEvent<'_>)) {
        let account = self.streams[at].account;
        loop {
            let next = self.streams[at].next;
            let ready = self.early.iter().position(|early| {
                !early.records.is_empty() && early.account == account && early.first <= next
            });
            let Some(place) = ready else { return };
            let mut records = std::mem::take(&mut self.early[place].records);
            self.deliver(at, self.early[place].first, &records, on_event);
            records.clear();
            self.early[place].records = records;
        }
    }

    fn keep_early(&mut self, body: &PrivateBody, payload: &[u8]) {
        self.counters.early += 1;
        let known = self.early.iter().any(|early| {
            early.account == body.account
                && early.first == body.first
                && early.records.len() >= payload.len()
        });
        if known {
            return;
        }
        let free = self.early.iter().position(|early| early.records.is_empty());
        if free.is_none() {
            self.counters.early_dropped += 1;
        }
        // A full pool keeps what is needed soonest.
        let place = free.or_else(|| {
            let of_account = (0..self.early.len())
                .filter(|place| self.early[*place].account == body.account)
                .max_by_key(|place| self.early[*place].first);
            of_account.filter(|place| self.early[*place].first > body.first)
        });
        if let Some(early) = place.and_then(|place| self.early.get_mut(place)) {
            (early.account, early.first) = (body.account, body.first);
            early.records.clear();
            early.records.extend_from_slice(payload);
        }
    }

    fn drop_early(&mut self, account: AccountId) {
        for early in self.early.iter_mut().filter(|early| early.account == account) {
            early.records.clear();
        }
    }
}
