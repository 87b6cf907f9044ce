//! The root's side of private streams: each account's records, in order, to the gateway that has
//! the account attached (corner 2: any gateway can replay a stream from the log's own positions).
//!
//! Contract: a stream has one live attachment. Another gateway may take it over once nothing was
//! heard of the present one for a lease; the same gateway replaces its own with a newer token.
//! Tokens name attachments, also across the lives of a gateway; they count round (see `newer`).
//! Records are sent from the position asked for, at most `in_flight_max` ahead of what is
//! acknowledged, and again when the gateway reports a gap or makes no progress for a timeout.
//! After a timeout one datagram at a time is tried, and when the lease has run out nothing is sent
//! until the gateway is heard again: a dead gateway costs nothing.
//!
//! Everything is O(dirty accounts); memory is bounded by `records_max`, and with a spill store by
//! what [`PrivateStreams::spill_to`] says: all records can still be had, or those that were not
//! given up ([`PrivateStreams::bound_spill`]). Calls only note what to send;
//! [`PrivateStreams::flush`] sends.
//!
//! Not guaranteed: that a refused or detached gateway is told more than once per question.

use types::{
    AccountId, ClockReading, Nanos, NodeId, Outbox, Packer, SpillStore, Unpacker,
    limits::DATAGRAM_BUILT_MAX,
};
use zerocopy::IntoBytes;

use crate::{
    emit::send,
    frame::{AttachBody, AttachReplyBody, FrameKind, HopHeader, PrivateAckBody, PrivateBody},
    private::record_store::RecordStore,
};

/// [`AttachBody::attach`]: the stream is given back.
pub const DETACH: u16 = 0;
/// [`AttachBody::attach`]: the stream is wanted, unless it is live at another gateway.
pub const ATTACH: u16 = 1;
/// [`AttachBody::attach`]: the stream is wanted wherever it is.
pub const TAKE_OVER: u16 = 2;

/// [`AttachReplyBody::status`]: the stream is attached to the gateway.
pub const ATTACHED: u16 = 1;
/// [`AttachReplyBody::status`]: refused; no such account, or live at another gateway.
pub const REFUSED: u16 = 2;
/// [`AttachReplyBody::status`]: not (or no longer) attached.
pub const DETACHED: u16 = 3;
/// [`AttachReplyBody::status`]: no gateway has the stream attached, because another root leads now;
/// it may be asked for again. Answers an acknowledgement, or is sent unasked (for account 0, which
/// means all).
pub const UNKNOWN: u16 = 4;

/// Sizes and patience; times in nanoseconds.
#[derive(Clone, Debug)]
pub struct PrivateStreamsConfig {
    /// The root's node, written into headers.
    pub node: NodeId,
    /// Epoch of the tree.
    pub epoch: u32,
    /// Highest account number that has a stream.
    pub accounts: u16,
    /// Length of every record in bytes; at least one must fit a datagram.
    pub record_len: usize,
    /// Records of all accounts together; [`u64::MAX`]: without end.
    pub records_max: u64,
    /// Longest datagram; less where the way there adds something.
    pub datagram_max: usize,
    /// Records sent to a gateway beyond what it has acknowledged.
    pub in_flight_max: u64,
    /// An attachment unheard for so long may be taken over.
    pub lease_ns: u64,
    /// First re-send timeout without progress, ns; it doubles.
    pub rto_ns: u64,
    /// Longest re-send timeout, ns.
    pub rto_ceiling_ns: u64,
    /// Gap reports of an account closer together than this count once.
    pub gap_guard_ns: u64,
}

impl PrivateStreamsConfig {
    /// Defaults for one data centre: 512 records in flight, a lease of 500 ms.
    pub fn new(node: NodeId, accounts: u16, record_len: usize, records_max: u64) -> Self {
        PrivateStreamsConfig {
            node,
            epoch: 1,
            accounts,
            record_len,
            records_max,
            datagram_max: DATAGRAM_BUILT_MAX,
            in_flight_max: 512,
            lease_ns: 500 * Nanos::MILLI,
            rto_ns: 20 * Nanos::MILLI,
            rto_ceiling_ns: 200 * Nanos::MILLI,
            gap_guard_ns: 2 * Nanos::MILLI,
        }
    }
}

/// Why a record was not appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendError {
    /// The account number is above the configured one.
    UnknownAccount,
    /// The record is not `record_len` bytes long.
    Length,
    /// The store is full: it holds `records_max` records.
    Full,
}

/// What the root's side has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrivateStreamsCounters {
    /// Number of datagrams sent that contained records.
    pub frames: u64,
    /// Number of records sent, repetitions included.
    pub records_sent: u64,
    /// Records of these that had been sent before.
    pub records_resent: u64,
    /// Attachments made, replacements and takeovers included.
    pub attached: u64,
    /// Takeovers from a gateway whose lease had run out.
    pub takeovers: u64,
    /// Number of attach requests that were refused.
    pub refused: u64,
    /// Acknowledgements of nothing attached, or of records never sent.
    pub ignored: u64,
    /// Attachments ended because a record could not be read back.
    pub unreadable: u64,
    /// Attachments ended because a record was asked for that has been given up.
    pub too_old: u64,
}

struct Attachment {
    node: NodeId,
    token: u32,
    /// First position that is sent for this attachment.
    from: u64,
    /// First position that is not acknowledged.
    acked: u64,
    /// Next position to be sent.
    sent: u64,
    /// Next position never sent for this attachment.
    fresh: u64,
    heard: Nanos,
    /// Time without progress is up; [`Nanos::NEVER`] when nothing is outstanding.
    due: Nanos,
    rto_ns: u64,
    /// After a timeout: one datagram at a time.
    probing: bool,
    /// Lease ran out: silent until heard again.
    suspended: bool,
    rewound_at: Nanos,
}

#[derive(Default)]
struct Account {
    attachment: Option<Attachment>,
    /// Newest attachment that ended of the gateway that had one last: late copies of the Attach of
    /// this one and of older ones must not revive them.
    ended: Option<(NodeId, u32)>,
    dirty: bool,
    timed: bool,
    reading: bool,
}

impl Account {
    /// What an acknowledgement of an attachment that is not the present one hears.
    fn without(&self, node: NodeId, token: u32) -> u16 {
        let ended = |(at, last)| at == node && !newer(token, last);
        match self.attachment.is_none() && !self.ended.is_some_and(ended) {
            true => UNKNOWN,
            false => DETACHED,
        }
    }

    fn end(&mut self, node: NodeId, token: u32) {
        let known = |(at, last)| at == node && newer(last, token);
        if !self.ended.is_some_and(known) {
            self.ended = Some((node, token));
        }
    }
}

/// Whether a gateway used token `a` after token `b`.
fn newer(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// The root's private streams; see the module.
pub struct PrivateStreams {
    config: PrivateStreamsConfig,
    per_frame: u64,
    store: RecordStore,
    /// The streams, by account number.
    accounts: Vec<Account>,
    dirty: Vec<u16>,
    /// Accounts that may have a timeout pending.
    timed: Vec<u16>,
    /// Accounts whose records are on their way from the spill store.
    reading: Vec<u16>,
    /// No timeout before this; may be early.
    next_due: Nanos,
    counters: PrivateStreamsCounters,
}

/// Timer granularity: timeouts of many accounts share a pass.
const TICK_NS: u64 = Nanos::MILLI / 2;
/// After so long records are asked for again that had to be waited for.
const READ_NS: u64 = Nanos::MILLI;

impl PrivateStreams {
    /// Empty streams of accounts 0 to `config.accounts`. `None` when no record, or none of that
    /// length, fits a datagram.
    pub fn new(config: PrivateStreamsConfig) -> Option<PrivateStreams> {
        let room = config.datagram_max.min(DATAGRAM_BUILT_MAX);
        let room = room.checked_sub(size_of::<HopHeader>() + size_of::<PrivateBody>())?;
        let per_frame = room.checked_div(config.record_len)? as u64;
        if per_frame == 0 {
            return None;
        }
        let count = usize::from(config.accounts) + 1;
        let mut accounts = Vec::new();
        accounts.resize_with(count, Account::default);
        Some(PrivateStreams {
            per_frame: per_frame.min(u64::from(u16::MAX)),
            store: RecordStore::new(count, config.record_len, config.records_max),
            accounts,
            dirty: Vec::with_capacity(count),
            timed: Vec::with_capacity(count),
            reading: Vec::new(),
            next_due: Nanos::NEVER,
            counters: PrivateStreamsCounters::default(),
            config,
        })
    }

    /// Spills records to a spill store as they come, and keeps the newest `memory_max` in memory,
    /// all accounts together, besides up to 64 of each account. False when there are records
    /// already.
    #[must_use]
    pub fn spill_to(&mut self, spill: Box<dyn SpillStore>, memory_max: u64) -> bool {
        self.store.spill_to(spill, memory_max)
    }

    /// At most so many bytes in the spill store: at that the oldest records of the longest stream
    /// go, or there is no room.
    pub fn bound_spill(&mut self, bytes: u64, gives_up: bool) {
        self.store.bound_spill(bytes, gives_up);
    }

    /// Lets the spill store return only room that the checkpoint before the last knows to be given
    /// up, so that a start from either of the two newest checkpoints finds all it needs.
    pub fn free_behind_checkpoints(&mut self) {
        self.store.free_behind_checkpoints();
    }

    /// What was packed last is a checkpoint.
    pub fn written_down(&mut self) {
        self.store.written_down();
    }

    /// Number of bytes in the spill store.
    pub fn in_spill_store(&self) -> u64 {
        self.store.in_spill_store()
    }

    /// Whether there is room for the records of another input; records that come all the same are
    /// kept.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.store.has_room()
    }

    /// The first position of an account that can be had.
    pub fn first_position(&self, account: AccountId) -> u64 {
        self.store.first(usize::from(account.0))
    }

    /// Bytes of one put in the spill store: a whole number of records.
    pub fn spill_block(record_len: usize) -> usize {
        RecordStore::chunk_len(record_len)
    }

    /// Writes down what there is of the streams beside the spill store, but not who has them
    /// attached. False without a spill store, or while that takes nothing.
    #[must_use]
    pub fn pack(&self, to: &mut Packer<'_>) -> bool {
        self.store.pack(to)
    }

    /// Restores packed streams. They must be empty and have the same spill store. `None`, after
    /// which they must not be used, when the bytes are no packed streams.
    #[must_use]
    pub fn unpack(&mut self, from: &mut Unpacker<'_>) -> Option<()> {
        self.store.unpack(from)
    }

    /// The root lives in this epoch from now on.
    pub fn set_epoch(&mut self, epoch: u32) {
        self.config.epoch = epoch;
    }

    /// Appends a record to an account's stream and returns its position.
    pub fn append(&mut self, account: AccountId, record: &[u8]) -> Result<u64, AppendError> {
        let index = usize::from(account.0);
        if index >= self.accounts.len() {
            return Err(AppendError::UnknownAccount);
        }
        if record.len() != self.config.record_len {
            return Err(AppendError::Length);
        }
        let position = self.store.append(index, record).ok_or(AppendError::Full)?;
        self.mark(account.0);
        Ok(position)
    }

    /// The position the next record of an account will have; 1 for unknown accounts.
    pub fn next_position(&self, account: AccountId) -> u64 {
        self.store.next(usize::from(account.0))
    }

    /// Most records in memory, besides chunks that fill; `u64::MAX`: all.
    pub fn memory_max(&self) -> u64 {
        self.store.memory_max()
    }

    /// Records that there is memory in use for.
    pub fn in_memory(&self) -> u64 {
        self.store.in_memory()
    }

    /// A stored record, if it is in memory.
    pub fn record(&self, account: AccountId, position: u64) -> Option<&[u8]> {
        Some(self.store.run(usize::from(account.0), position, 1)).filter(|run| !run.is_empty())
    }

    /// The node an account is attached at.
    pub fn attached_at(&self, account: AccountId) -> Option<NodeId> {
        let account = self.accounts.get(usize::from(account.0))?;
        account.attachment.as_ref().map(|attachment| attachment.node)
    }

    /// When the gateway was last heard of that an account is attached at.
    pub fn heard_at(&self, account: AccountId) -> Option<Nanos> {
        let account = self.accounts.get(usize::from(account.0))?;
        account.attachment.as_ref().map(|attachment| attachment.heard)
    }

    /// After so long an attachment that is not heard of may be taken over, in nanoseconds.
    pub fn lease_ns(&self) -> u64 {
        self.config.lease_ns
    }

    /// What was counted since the start.
    pub fn counters(&self) -> PrivateStreamsCounters {
        self.counters
    }

    /// A gateway wants a stream, or gives it back.
    pub fn handle_attach(
        &mut self,
        now: ClockReading,
        from: NodeId,
        request: &AttachBody,
        out: &mut Outbox,
    ) {
        let Some(account) = self.accounts.get_mut(usize::from(request.account.0)) else {
            self.counters.refused += 1;
            return self.reply(from, request.account, request.token, REFUSED, out);
        };
        let ours = account.attachment.as_ref().filter(|held| held.node == from);
        if request.attach == DETACH {
            if ours.is_some_and(|held| !newer(held.token, request.token)) {
                account.attachment = None;
            }
            account.end(from, request.token);
            return self.reply(from, request.account, request.token, DETACHED, out);
        }
        if ours.is_some_and(|held| held.token == request.token) {
            return self.reply(from, request.account, request.token, ATTACHED, out);
        }
        let ended = |(node, token)| node == from && !newer(request.token, token);
        if account.ended.is_some_and(ended) {
            return self.reply(from, request.account, request.token, DETACHED, out);
        }
        let replaces = ours.is_some_and(|held| newer(request.token, held.token));
        let live = account
            .attachment
            .as_ref()
            .is_some_and(|held| now.now - held.heard < self.config.lease_ns);
        if live && !replaces && request.attach != TAKE_OVER {
            self.counters.refused += 1;
            return self.reply(from, request.account, request.token, REFUSED, out);
        }
        self.attach(now.now, from, request, out);
    }

    /// A gateway says how far it has a stream; also its sign of life.
    pub fn handle_ack(
        &mut self,
        now: ClockReading,
        from: NodeId,
        ack: &PrivateAckBody,
        out: &mut Outbox,
    ) {
        let rto_ns = self.config.rto_ns;
        let account = self.accounts.get_mut(usize::from(ack.account.0));
        let status = account.as_ref().map_or(DETACHED, |account| account.without(from, ack.token));
        let held = account
            .and_then(|account| account.attachment.as_mut())
            .filter(|held| held.node == from && held.token == ack.token);
        let Some(held) = held else {
            self.counters.ignored += 1;
            return self.reply(from, ack.account, ack.token, status, out);
        };
        if ack.next > held.fresh {
            self.counters.ignored += 1;
            return;
        }
        held.heard = now.now;
        if ack.next > held.acked {
            held.acked = ack.next;
            held.sent = held.sent.max(ack.next);
            held.rto_ns = rto_ns;
            held.probing = false;
            held.due = Nanos::NEVER;
        }
        // A report older than the newest acknowledgement is of a gap that has closed.
        let gap = ack.gap != 0 && ack.next == held.acked;
        let guarded = now.now - held.rewound_at < self.config.gap_guard_ns;
        if (gap && !guarded) || held.suspended {
            held.sent = held.acked;
            held.rewound_at = now.now;
            held.probing = false;
            held.suspended = false;
            held.due = Nanos::NEVER;
        }
        self.mark(ack.account.0);
    }

    /// Forgets who has which stream: another root has served meanwhile.
    pub fn forget_attachments(&mut self) {
        for account in &mut self.accounts {
            (account.attachment, account.ended) = (None, None);
        }
    }

    /// Tells a gateway that this root knows of none of its attachments.
    pub fn ask_anew(&self, gateway: NodeId, out: &mut Outbox) {
        self.reply(gateway, AccountId(0), 0, UNKNOWN, out);
    }

    /// Sends what may be sent to the gateways of all accounts with news.
    pub fn flush(&mut self, now: ClockReading, out: &mut Outbox) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for account in dirty.drain(..) {
            self.accounts[usize::from(account)].dirty = false;
            self.send_records(now.now, account, out);
        }
        self.dirty = dirty;
    }

    /// Tries again where there was no progress in time.
    pub fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if now.now < self.next_due {
            return;
        }
        let (mut at, mut earliest) = (0, Nanos::NEVER);
        while let Some(&number) = self.timed.get(at) {
            let account = &mut self.accounts[usize::from(number)];
            let due = account.attachment.as_ref().map_or(Nanos::NEVER, |held| held.due);
            if due == Nanos::NEVER {
                account.timed = false;
                self.timed.swap_remove(at);
                continue;
            }
            at += 1;
            if due > now.now {
                earliest = earliest.min(due);
                continue;
            }
            if let Some(held) = account.attachment.as_mut() {
                held.due = Nanos::NEVER;
                if now.now - held.heard >= self.config.lease_ns {
                    held.suspended = true;
                } else {
                    held.rto_ns = (held.rto_ns * 2).min(self.config.rto_ceiling_ns);
                    held.sent = held.acked;
                    held.rewound_at = now.now;
                    held.probing = true;
                }
            }
            self.mark(number);
        }
        while let Some(number) = self.reading.pop() {
            self.accounts[usize::from(number)].reading = false;
            self.mark(number);
        }
        self.next_due = earliest;
        self.flush(now, out);
        if self.next_due != Nanos::NEVER {
            self.next_due = self.next_due.max(now.now + TICK_NS);
        }
    }

    /// Next time at which [`PrivateStreams::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Nanos {
        self.next_due
    }

    fn mark(&mut self, account: u16) {
        if let Some(entry) = self.accounts.get_mut(usize::from(account)).filter(|a| !a.dirty) {
            entry.dirty = true;
            self.dirty.push(account);
        }
    }

    fn attach(&mut self, now: Nanos, from: NodeId, request: &AttachBody, out: &mut Outbox) {
        let next = self.store.next(usize::from(request.account.0));
        let first = if request.from == 0 { next } else { request.from.min(next) };
        let Some(account) = self.accounts.get_mut(usize::from(request.account.0)) else { return };
        let former = account.attachment.replace(Attachment {
            node: from,
            token: request.token,
            from: first,
            acked: first,
            sent: first,
            fresh: first,
            heard: now,
            due: Nanos::NEVER,
            rto_ns: self.config.rto_ns,
            probing: false,
            suspended: false,
            rewound_at: Nanos(0),
        });
        self.counters.attached += 1;
        if let Some(former) = former.filter(|former| former.node != from) {
            account.end(former.node, former.token);
            self.counters.takeovers += 1;
            self.reply(former.node, request.account, former.token, DETACHED, out);
        }
        self.reply(from, request.account, request.token, ATTACHED, out);
        self.mark(request.account.0);
    }

    fn reply(&self, to: NodeId, account: AccountId, token: u32, status: u16, out: &mut Outbox) {
        let held = self.accounts.get(usize::from(account.0)).and_then(|a| a.attachment.as_ref());
        let next = self.next_position(account);
        let from = held.filter(|_| status == ATTACHED).map_or(next, |held| held.from);
        let header = HopHeader::new(FrameKind::AttachReply, self.config.node, self.config.epoch);
        send(out, to, header, &AttachReplyBody { account, status, token, from, next }, &[]);
    }

    fn send_records(&mut self, now: Nanos, number: u16, out: &mut Outbox) {
        let index = usize::from(number);
        let next = self.store.next(index);
        let header = HopHeader::new(FrameKind::Private, self.config.node, self.config.epoch);
        let Some(account) = self.accounts.get_mut(index) else { return };
        let Some(held) = account.attachment.as_mut().filter(|held| !held.suspended) else { return };
        let ahead = if held.probing { self.per_frame } else { self.config.in_flight_max.max(1) };
        let end = next.min(held.acked.saturating_add(ahead));
        let (mut unreadable, mut waits) = (false, false);
        while held.sent < end {
            let mut count = (end - held.sent).min(self.per_frame);
            let mut body = PrivateBody {
                account: AccountId(number),
                count: count as u16,
                token: held.token,
                first: held.sent,
            };
            let bytes = out.write(|buffer| {
                buffer.extend_from_slice(header.as_bytes());
                let at = buffer.len();
                buffer.extend_from_slice(body.as_bytes());
                // A run ends where its chunk does.
                let mut done = 0;
                while done < count && !unreadable {
                    let Some(run) = self.store.fetch(index, held.sent + done, count - done) else {
                        waits = true;
                        break;
                    };
                    buffer.extend_from_slice(run);
                    done += (run.len() / self.config.record_len) as u64;
                    unreadable = run.is_empty();
                }
                if waits {
                    // What is there goes now: the disk may be asked for it only once.
                    (count, body.count) = (done, done as u16);
                    if let Some(place) = buffer.get_mut(at..at + size_of::<PrivateBody>()) {
                        place.copy_from_slice(body.as_bytes());
                    }
                }
            });
            if unreadable || count == 0 {
                break;
            }
            out.datagram(types::Channel::OVERLAY, types::Peer::Node(held.node), bytes);
            self.counters.frames += 1;
            self.counters.records_sent += count;
            self.counters.records_resent +=
                held.fresh.min(held.sent + count) - held.sent.min(held.fresh);
            held.sent += count;
            held.fresh = held.fresh.max(held.sent);
            if waits {
                break;
            }
        }
        if unreadable {
            // Nobody is left waiting for what does not come: the session ends.
            let (node, token) = (held.node, held.token);
            let too_old = held.sent < self.store.first(index);
            account.attachment = None;
            account.end(node, token);
            match too_old {
                true => self.counters.too_old += 1,
                false => self.counters.unreadable += 1,
            }
            return self.reply(node, AccountId(number), token, DETACHED, out);
        }
        if waits {
            self.next_due = self.next_due.min(now + READ_NS);
            if !std::mem::replace(&mut account.reading, true) {
                self.reading.push(number);
            }
        }
        if held.acked < held.sent && held.due == Nanos::NEVER {
            held.due = now + held.rto_ns;
            self.next_due = self.next_due.min(held.due);
            if !account.timed {
                account.timed = true;
                self.timed.push(number);
            }
        }
    }
}
