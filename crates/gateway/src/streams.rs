//! Private streams of accounts at a gateway: of one shard as they come, of several merged into one.
//!
//! With several shards an account's session has the stream of its home, which nobody else has then,
//! and takes over the others by that. All are read from their beginning: the home's says the number
//! of each record (`overlay::private_merge`), the others which orders are open where. A session is told
//! that it is in when the merged stream is known as far as it asks for, and the other streams are read
//! as far as they were; those of a shard that is away are waited for [`PATIENCE_NS`].
//!
//! Bounded: what waits for another shard's records stays below [`MERGE_EARLY_MAX`] of each shard, by
//! pausing streams.

use overlay::frame::{AttachReplyBody, PrivateBody};
use overlay::private_merge::{HomeItem, MERGE_EARLY_MAX, StreamMerger};
use overlay::private_receiver::{PrivateEvent, PrivateReceiver};
use types::{
    AccountId, ClockReading, ExecutionReport, Incarnation, MergeRecord, Nanos, Outbox, PlaceRecord,
    ShardId,
};
use zerocopy::TryFromBytes;

use crate::routes::Routes;

/// How long a login waits for streams of other shards than the account's home.
const PATIENCE_NS: u64 = 500 * Nanos::MILLI;
/// A stream of another shard that another gateway has is asked for again after this.
const AGAIN_NS: u64 = 100 * Nanos::MILLI;
/// With so many records waiting a stream is paused, and goes on with so many.
const PAUSE_AT: usize = 400;
const RESUME_AT: usize = 100;

// A root sends at most 512 records beyond what is acknowledged.
const _: () = assert!(PAUSE_AT + 512 < MERGE_EARLY_MAX, "what comes before a pause finds room");

/// What a session has been told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    /// It is in, and reads from the beginning; where that ends is not known yet.
    Begun,
    /// It is in.
    All,
}

/// A stream that is not the home's.
#[derive(Clone, Copy)]
struct Other {
    /// Position of the next record when it was attached; 0: it is not known.
    until: u64,
    read: bool,
    /// It is asked for again then.
    again: Nanos,
    paused: bool,
}

/// The streams of one account with a session.
struct Merge {
    home: ShardId,
    merger: StreamMerger<ExecutionReport>,
    /// Last number of the merged stream as far as the home's has been heard, and by shard how many
    /// records are in it.
    number: u64,
    merged: Vec<u64>,
    /// First number that the session wants; 0: only what is new.
    asked: u64,
    /// It reads everything, and then wants to know how much that was.
    whole: bool,
    /// Position of the home's next record when it was attached; 0: it is not yet.
    until: u64,
    told: Told,
    /// By shard.
    others: Vec<Other>,
    patient_until: Nanos,
    session_paused: bool,
}

/// The private streams that this gateway reads, one receiver for each shard.
pub(crate) struct Streams {
    /// By shard.
    receivers: Vec<PrivateReceiver>,
    /// By account number; with several shards.
    merges: Vec<Option<Box<Merge>>>,
    events: Vec<PrivateEvent<'static>>,
    /// Nothing is due of the merging before this; may be early.
    due: Nanos,
}

impl Streams {
    /// A receiver for each shard, at least one.
    pub(crate) fn new(receivers: Vec<PrivateReceiver>, accounts_max: usize) -> Streams {
        let accounts = if receivers.len() > 1 { accounts_max + 1 } else { 0 };
        let merges = (0..accounts).map(|_| None).collect();
        Streams { receivers, merges, events: Vec::with_capacity(16), due: Nanos::NEVER }
    }

    /// The receivers, by shard, for their totals.
    pub(crate) fn receivers(&self) -> &[PrivateReceiver] {
        &self.receivers
    }

    fn home(&self, account: AccountId) -> usize {
        usize::from(account.0.saturating_sub(1)) % self.receivers.len()
    }

    fn merge(&mut self, account: AccountId) -> Option<&mut Merge> {
        self.merges.get_mut(usize::from(account.0))?.as_deref_mut()
    }

    /// See [`PrivateReceiver::set_epoch`].
    pub(crate) fn set_epoch(&mut self, shard: usize, epoch: u32) {
        if let Some(receiver) = self.receivers.get_mut(shard) {
            receiver.set_epoch(epoch);
        }
    }

    /// See [`PrivateReceiver::begin_life`].
    pub(crate) fn begin_life(
        &mut self,
        now: ClockReading,
        shard: usize,
        life: Incarnation,
        out: &mut Outbox,
    ) {
        if let Some(receiver) = self.receivers.get_mut(shard) {
            receiver.begin_life(now, life, out);
        }
    }

    /// A session wants its account's stream from a number on (0: only what is new); `whole`: it reads
    /// everything from 1 on first, and is told a second time that it is in, with how much that is.
    pub(crate) fn attach(
        &mut self,
        now: ClockReading,
        account: AccountId,
        (from, whole): (u64, bool),
        routes: &mut Routes,
        out: &mut Outbox,
    ) {
        let (home, shards) = (self.home(account), self.receivers.len());
        if let Some(slot) = self.merges.get_mut(usize::from(account.0)) {
            routes.begin(account);
            let other = Other { until: 0, read: false, again: Nanos::NEVER, paused: false };
            let mut merger = StreamMerger::new(ShardId(home as u16), shards as u16);
            merger.skip_to(if from == 0 { u64::MAX } else { from });
            *slot = Some(Box::new(Merge {
                home: ShardId(home as u16),
                merger,
                number: 0,
                merged: vec![0; shards],
                asked: from,
                whole,
                until: 0,
                told: Told::Nothing,
                others: vec![other; shards],
                patient_until: Nanos::NEVER,
                session_paused: false,
            }));
            self.receivers[home].attach(now, account, 1, out);
        } else {
            self.receivers[home].attach(now, account, from, out);
        }
    }

    /// Asks for an account's stream to learn whether it is logged on somewhere.
    pub(crate) fn ask(&mut self, now: ClockReading, account: AccountId, out: &mut Outbox) {
        let home = self.home(account);
        self.receivers[home].attach(now, account, 0, out);
    }

    /// Gives an account's streams back.
    pub(crate) fn detach(&mut self, now: ClockReading, account: AccountId, out: &mut Outbox) {
        if let Some(slot) = self.merges.get_mut(usize::from(account.0)) {
            *slot = None;
        }
        self.receivers.iter_mut().for_each(|receiver| receiver.detach(now, account, out));
    }

    /// What sessions have to be told, in order.
    pub(crate) fn take_event(&mut self) -> Option<PrivateEvent<'static>> {
        (!self.events.is_empty()).then(|| self.events.remove(0))
    }

    /// A root's answer, or its word that a stream has moved.
    pub(crate) fn handle_reply(
        &mut self,
        now: ClockReading,
        shard: usize,
        reply: &AttachReplyBody,
        routes: &mut Routes,
        out: &mut Outbox,
    ) {
        let Some(receiver) = self.receivers.get_mut(shard) else { return };
        let mut told = None;
        receiver.handle_reply(now, reply, |event| {
            told = match event {
                PrivateEvent::Attached { account, from, next } => {
                    Some(PrivateEvent::Attached { account, from, next })
                }
                PrivateEvent::Refused { account } => Some(PrivateEvent::Refused { account }),
                PrivateEvent::Detached { account } => Some(PrivateEvent::Detached { account }),
                PrivateEvent::Behind { account, asked, next } => {
                    Some(PrivateEvent::Behind { account, asked, next })
                }
                PrivateEvent::Record { .. } => None,
            };
        });
        let Some(event) = told else { return };
        match self.merge(reply.account).map(|merge| usize::from(merge.home.0)) {
            None => self.events.push(event),
            Some(home) if home == shard => match event {
                PrivateEvent::Attached { account, next, .. } => {
                    self.home_attached(now, account, next, out);
                }
                other => self.events.push(other),
            },
            Some(_) => self.other_told(now, shard, event),
        }
        self.note_read(reply.account, shard, routes);
        self.tell(now.now, reply.account);
    }

    /// Looks whether a stream is read as far as it was when it was attached.
    fn note_read(&mut self, account: AccountId, shard: usize, routes: &mut Routes) {
        let Some(merge) = self.merge(account) else { return };
        let id = ShardId(shard as u16);
        let read = match id == merge.home {
            true => merge.until > 0 && merge.merger.next_home() >= merge.until,
            false => {
                let other = &mut merge.others[shard];
                other.read |= other.until > 0 && merge.merger.next_of(id) >= other.until;
                other.read
            }
        };
        if read {
            routes.note_read(account, shard);
        }
    }

    /// The account is this gateway's: so are its streams elsewhere.
    fn home_attached(
        &mut self,
        now: ClockReading,
        account: AccountId,
        next: u64,
        out: &mut Outbox,
    ) {
        let patient_until = now.now.after(PATIENCE_NS);
        let Some(merge) = self.merge(account) else { return };
        (merge.until, merge.patient_until) = (next, patient_until);
        let home = usize::from(merge.home.0);
        self.due = self.due.min(patient_until);
        for (shard, receiver) in self.receivers.iter_mut().enumerate() {
            if shard != home {
                receiver.take_over(now, account, 1, out);
            }
        }
    }

    /// Another shard's answer.
    fn other_told(&mut self, now: ClockReading, shard: usize, event: PrivateEvent<'static>) {
        let again = now.now.after(AGAIN_NS);
        match event {
            PrivateEvent::Attached { account, next, .. } => {
                let other = self.merge(account).and_then(|merge| merge.others.get_mut(shard));
                if let Some(other) = other.filter(|other| other.until == 0) {
                    other.until = next;
                }
            }
            PrivateEvent::Refused { account } | PrivateEvent::Detached { account } => {
                // Somebody who was long on the way, or who has the account at home by now, of which
                // the home will tell.
                if let Some(merge) = self.merge(account) {
                    merge.others[shard].again = again;
                    self.due = self.due.min(again);
                }
            }
            PrivateEvent::Behind { .. } => self.events.push(event),
            PrivateEvent::Record { .. } => {}
        }
    }

    /// Tells a session that it is in, when it is time for that.
    fn tell(&mut self, now: Nanos, account: AccountId) {
        let Some(merge) = self.merges.get_mut(usize::from(account.0)).and_then(Option::as_mut)
        else {
            return;
        };
        if merge.until == 0 || merge.told == Told::All {
            return;
        }
        let (next, known) = (merge.number + 1, merge.merger.next_home() >= merge.until);
        if merge.whole {
            if merge.told == Told::Nothing && !known {
                merge.told = Told::Begun;
                self.events.push(PrivateEvent::Attached { account, from: 1, next: u64::MAX });
            } else if known {
                merge.told = Told::All;
                self.events.push(PrivateEvent::Attached { account, from: 1, next });
            }
            return;
        }
        if !known && (merge.asked == 0 || merge.asked > next) {
            return;
        }
        let home = usize::from(merge.home.0);
        let others = merge.others.iter().enumerate().filter(|(shard, _)| *shard != home);
        if now < merge.patient_until && others.into_iter().any(|(_, other)| !other.read) {
            return;
        }
        let from = if merge.asked == 0 { next } else { merge.asked };
        merge.merger.skip_to(from);
        merge.told = Told::All;
        self.events.push(PrivateEvent::Attached { account, from, next });
    }

    /// Records of a stream: those of the only shard go to `take`, those of several wait for
    /// [`Streams::drain`]. Records that are none are counted in what is given back.
    pub(crate) fn handle_private(
        &mut self,
        now: Nanos,
        shard: usize,
        (body, records): (&PrivateBody, &[u8]),
        routes: &mut Routes,
        mut take: impl FnMut(AccountId, ExecutionReport),
    ) -> u64 {
        let mut unreadable = 0;
        let Some(receiver) = self.receivers.get_mut(shard) else { return 0 };
        let merge = self.merges.get_mut(usize::from(body.account.0)).and_then(Option::as_mut);
        let Some(merge) = merge else {
            receiver.handle_private(body, records, |event| {
                if let PrivateEvent::Record { record, account, .. } = event {
                    match ExecutionReport::try_read_from_bytes(record) {
                        Ok(report) => take(account, report),
                        Err(_) => unreadable += 1,
                    }
                }
            });
            return unreadable;
        };
        let from = ShardId(shard as u16);
        receiver.handle_private(body, records, |event| {
            let PrivateEvent::Record { record, account, position } = event else { return };
            let Ok(report) = ExecutionReport::try_read_from_bytes(record) else {
                unreadable += 1;
                return;
            };
            routes.learn(account, shard, &report);
            let taken = match from == merge.home {
                true => merge.take_home(position, report),
                false => merge.merger.take(from, position, report),
            };
            unreadable += u64::from(!taken);
        });
        self.note_read(body.account, shard, routes);
        self.settle_pauses(body.account);
        self.tell(now, body.account);
        unreadable
    }

    /// Hands out the merged records that an account's session may have by now, each with its shard.
    pub(crate) fn drain(
        &mut self,
        account: AccountId,
        mut take: impl FnMut(ShardId, ExecutionReport),
    ) {
        let Some(merge) = self.merge(account).filter(|merge| merge.told != Told::Nothing) else {
            return;
        };
        while let Some(merged) = merge.merger.next_record() {
            take(merged.shard, merged.record);
        }
    }

    /// Back-pressure of a session.
    pub(crate) fn set_paused(&mut self, account: AccountId, paused: bool) {
        match self.merge(account) {
            Some(merge) => {
                merge.session_paused = paused;
                self.settle_pauses(account);
            }
            None => {
                let home = self.home(account);
                self.receivers[home].set_paused(account, paused);
            }
        }
    }

    /// Streams of which enough waits are paused.
    fn settle_pauses(&mut self, account: AccountId) {
        let merge = self.merges.get_mut(usize::from(account.0)).and_then(Option::as_mut);
        let Some(merge) = merge else { return };
        for (shard, receiver) in self.receivers.iter_mut().enumerate() {
            let waiting = merge.merger.waiting_of(ShardId(shard as u16));
            let other = &mut merge.others[shard];
            other.paused = waiting > if other.paused { RESUME_AT } else { PAUSE_AT };
            receiver.set_paused(account, other.paused || merge.session_paused);
        }
    }

    /// Sends what is owed.
    pub(crate) fn flush(&mut self, now: ClockReading, out: &mut Outbox) {
        self.receivers.iter_mut().for_each(|receiver| receiver.flush(now, out));
    }

    /// Repeats requests; ends patience.
    pub(crate) fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.receivers.iter_mut().for_each(|receiver| receiver.handle_timeout(now, out));
        if now.now < self.due {
            return;
        }
        self.due = Nanos::NEVER;
        for number in 1..self.merges.len() {
            let account = AccountId(number as u16);
            let Some(merge) = self.merges[number].as_mut() else { continue };
            for (shard, other) in merge.others.iter_mut().enumerate() {
                if other.again <= now.now {
                    other.again = Nanos::NEVER;
                    let next = merge.merger.next_of(ShardId(shard as u16));
                    self.receivers[shard].attach(now, account, next, out);
                }
                self.due = self.due.min(other.again);
            }
            if merge.told == Told::Nothing && merge.patient_until > now.now {
                self.due = self.due.min(merge.patient_until);
            }
            self.tell(now.now, account);
        }
    }

    /// When [`Streams::handle_timeout`] is wanted next.
    pub(crate) fn next_timeout(&self) -> Nanos {
        let receivers = self.receivers.iter().map(PrivateReceiver::next_timeout).min();
        receivers.unwrap_or(Nanos::NEVER).min(self.due)
    }
}

impl Merge {
    /// A record of the home's stream; false when there is no room, or none like it can be.
    fn take_home(&mut self, position: u64, report: ExecutionReport) -> bool {
        if PlaceRecord::told(&report).is_some() {
            // For the routes alone: a reference to nothing new.
            let other = ShardId(u16::from(self.home == ShardId(0)));
            return self.merger.take_home(position, HomeItem::Refer { shard: other, up_to: 0 });
        }
        let Some(MergeRecord { shard, up_to, .. }) = MergeRecord::told(&report) else {
            let taken = self.merger.take_home(position, HomeItem::Record(report));
            self.number += u64::from(taken);
            return taken;
        };
        let taken = self.merger.take_home(position, HomeItem::Refer { shard, up_to });
        if let Some(merged) = self.merged.get_mut(usize::from(shard.0)).filter(|_| taken) {
            self.number += up_to.saturating_sub(*merged);
            *merged = up_to.max(*merged);
        }
        taken
    }
}
