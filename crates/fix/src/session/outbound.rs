//! The sending half of a session: numbers, headers, the store, and resends.
//!
//! A resend is a job that goes on over several calls when it is long or its store has to fetch;
//! meanwhile nothing is read from the counterparty, and what the application sends is numbered and
//! stored and leaves right after the job, so that numbers on the wire never jump ahead.
//!
//! Numbers are given at once, or by an account's stream: then a message that is no record of the
//! stream waits for its slot ([`super::slots`]).

use types::Nanos;

use super::slots::{ANSWER_BYTES_MAX, ANSWERS_MAX, Slots};
use super::store::{Bodies, MsgType, Store, Stored};
use crate::encode::{self, Pen, Piece, Writer};
use crate::tag;
use crate::version::Version;

/// The sending half of a session: numbers, headers, store and resends.
#[derive(Clone, Debug)]
pub struct Outbound<S> {
    pub(super) version: Version,
    names: Names,
    pub(super) store: S,
    pub(super) pen: Pen,
    pub(super) scratch: Vec<u8>,
    pub(super) job: Option<Job>,
    /// Whether a connection exists; otherwise messages are only stored.
    pub(super) connected: bool,
    pub(super) last_sent: Nanos,
    slice: usize,
    /// Messages that wait for their numbers, where an account's stream gives these.
    pub(super) slots: Option<Slots>,
    /// Application messages that had or asked for a slot, by ticket, also in earlier connections.
    pub(super) answers: Bodies,
}

/// Header fields that are the same in all messages of a session.
#[derive(Clone, Debug)]
struct Names {
    beginning: Piece,
    /// `49=...<SOH>52=`: our CompID and the tag of SendingTime.
    sender: Piece,
    /// `56=...<SOH>`: the counterparty's CompID.
    target: Piece,
}

impl Names {
    /// Begins a message with its standard header.
    #[inline]
    fn head(
        &self,
        now: Nanos,
        msg_type: &[u8],
        seq: u32,
        duplicate: Duplicate,
        writer: &mut Writer<'_>,
    ) {
        writer.own(|writer| {
            writer.begin(&self.beginning);
            writer.type_and_number(msg_type, seq);
            if duplicate.is_some() {
                writer.flag(tag::POSS_DUP_FLAG, true);
            }
            writer.piece(&self.sender);
            writer.stamp_value(now);
            writer.piece(&self.target);
            if let Some(first) = duplicate {
                writer.stamp(tag::ORIG_SENDING_TIME, first);
            }
        });
    }
}

/// A resend that is going on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    next: u32,
    /// Messages from this number on leave for the first time; those below are possible duplicates.
    fresh_from: u32,
    /// First number after those that were asked for.
    end: u32,
}

/// For a possible duplicate, the time at which it was first sent, OrigSendingTime(122).
type Duplicate = Option<Nanos>;

impl<S: Store> Outbound<S> {
    /// The sending half of a session between two CompIDs; `slice`: bytes of a resend written at a
    /// time.
    pub fn new(version: Version, own: &str, their: &str, store: S, slice: usize) -> Outbound<S> {
        Outbound {
            version,
            names: Names {
                beginning: encode::beginning(version.begin_string()),
                sender: Piece::new(format!("49={own}\x0152=").into_bytes()),
                target: Piece::new(format!("56={their}\x01").into_bytes()),
            },
            store,
            pen: Pen::default(),
            scratch: Vec::new(),
            job: None,
            connected: false,
            last_sent: Nanos(0),
            slice,
            slots: None,
            answers: Bodies::new(ANSWERS_MAX, ANSWER_BYTES_MAX),
        }
    }

    /// Reserves the memory that a live session may need.
    pub(super) fn prepare(&mut self) {
        self.store.prepare();
        self.answers.prepare();
    }

    /// FIX version of the session.
    pub fn version(&self) -> Version {
        self.version
    }

    /// MsgSeqNum(34) of the next message.
    pub fn next(&self) -> u32 {
        let resets = self.slots.as_ref().is_some_and(|slots| slots.reset_next);
        if resets { 1 } else { self.store.next() }
    }

    /// Whether a resend is under way.
    pub fn is_resending(&self) -> bool {
        self.job.is_some() && self.connected
    }

    /// Sends an application message whose fields `build` writes, and stores it. Nothing is sent
    /// while nobody is connected, or a resend is under way: then it goes out later.
    #[inline]
    pub fn send(
        &mut self,
        now: Nanos,
        msg_type: MsgType,
        out: &mut Vec<u8>,
        build: impl FnOnce(&mut Writer<'_>),
    ) {
        if self.connected && self.job.is_none() {
            let seq = self.store.next();
            let mut writer = Writer::fields(out, &mut self.pen);
            self.names.head(now, msg_type.as_bytes(), seq, None, &mut writer);
            let body = writer.written();
            build(&mut writer);
            self.store.push_application(now, msg_type, writer.since(body));
            writer.finish();
            self.last_sent = now;
        } else {
            self.scratch.clear();
            build(&mut Writer::fields(&mut self.scratch, &mut self.pen));
            self.store.push_application(now, msg_type, &self.scratch);
        }
    }

    /// Uses up the next number for something that the version has no message for; a gap fill covers
    /// it.
    pub fn pass(&mut self, now: Nanos, out: &mut Vec<u8>) {
        let seq = self.store.next();
        self.store.push_admin();
        if self.connected && self.job.is_none() {
            self.fill(now, seq, seq.saturating_add(1), out);
        }
    }

    /// Sends a message of the session layer, which is not stored.
    pub(super) fn send_admin(
        &mut self,
        now: Nanos,
        msg_type: &[u8],
        out: &mut Vec<u8>,
        build: impl FnOnce(&mut Writer<'_>),
    ) {
        if self.slots.is_some() {
            return self.wait(now, MsgType::of(msg_type).unwrap_or_default(), false, build);
        }
        self.whole(now, msg_type, self.store.next(), None, out, build);
        self.store.push_admin();
    }

    /// Sends an application message that is not a record of an account's stream. Where the stream
    /// gives the numbers, the message waits for one.
    pub fn answer(
        &mut self,
        now: Nanos,
        msg_type: MsgType,
        out: &mut Vec<u8>,
        build: impl FnOnce(&mut Writer<'_>),
    ) {
        if self.slots.is_some() {
            self.wait(now, msg_type, true, build);
        } else {
            self.send(now, msg_type, out, build);
        }
    }

    /// Writes a complete message, header to CheckSum(10).
    pub(super) fn whole(
        &mut self,
        now: Nanos,
        msg_type: &[u8],
        seq: u32,
        duplicate: Duplicate,
        out: &mut Vec<u8>,
        build: impl FnOnce(&mut Writer<'_>),
    ) {
        let mut writer = Writer::fields(out, &mut self.pen);
        self.names.head(now, msg_type, seq, duplicate, &mut writer);
        build(&mut writer);
        writer.finish();
        self.last_sent = now;
    }

    /// Begins to resend `from..=to`, `to` 0 for all; replaces a resend under way.
    pub(super) fn resend(&mut self, from: u32, to: u32) {
        let next = self.store.next();
        let end = if to == 0 { next } else { to.saturating_add(1).min(next) };
        if from < end {
            self.job = Some(Job { next: from, fresh_from: next, end });
        }
    }

    /// Goes on with a resend until it is done, its store has to wait, or a slice is full.
    pub(super) fn pump(&mut self, now: Nanos, out: &mut Vec<u8>) {
        if !self.connected {
            return;
        }
        let limit = out.len() + self.slice;
        let Some(mut job) = self.job.take() else { return };
        loop {
            if job.next >= job.end {
                job.next = job.next.max(job.fresh_from);
            }
            let fresh = job.next >= job.fresh_from;
            let end = if fresh { self.store.next() } else { job.end };
            if job.next >= end {
                return;
            }
            if out.len() >= limit || !self.step(&mut job, end, fresh, now, out) {
                self.job = Some(job);
                return;
            }
        }
    }

    /// Writes one message of a resend, or the gap fill up to the next one; false: the store has to
    /// wait.
    fn step(
        &mut self,
        job: &mut Job,
        end: u32,
        fresh: bool,
        now: Nanos,
        out: &mut Vec<u8>,
    ) -> bool {
        let gap_from = job.next;
        while job.next < end {
            if self.is_granted(job.next) {
                self.fill(now, gap_from, job.next, out);
                self.send_granted(now, out);
                job.next += 1;
                return true;
            }
            self.scratch.clear();
            match self.store.read(job.next, &mut self.scratch) {
                Stored::Nothing => job.next += 1,
                Stored::Pending => {
                    self.fill(now, gap_from, job.next, out);
                    return false;
                }
                Stored::Application { msg_type, at } => {
                    self.fill(now, gap_from, job.next, out);
                    let duplicate = (!fresh).then_some(at);
                    self.repeat(now, msg_type, job.next, duplicate, out);
                    job.next += 1;
                    return true;
                }
            }
        }
        self.fill(now, gap_from, job.next, out);
        true
    }

    pub(super) fn fill(&mut self, now: Nanos, from: u32, to: u32, out: &mut Vec<u8>) {
        if from < to {
            self.gap_fill(now, from, to, out);
        }
    }

    /// Sends a SequenceReset-GapFill over `from..to`.
    fn gap_fill(&mut self, now: Nanos, from: u32, to: u32, out: &mut Vec<u8>) {
        self.whole(now, b"4", from, Some(now), out, |writer| {
            writer.uint(tag::NEW_SEQ_NO, u64::from(to));
            writer.flag(tag::GAP_FILL_FLAG, true);
        });
    }

    /// Writes the message whose body is in the scratch buffer once more.
    fn repeat(
        &mut self,
        now: Nanos,
        msg_type: MsgType,
        seq: u32,
        duplicate: Duplicate,
        out: &mut Vec<u8>,
    ) {
        let body = std::mem::take(&mut self.scratch);
        self.whole(now, msg_type.as_bytes(), seq, duplicate, out, |writer| writer.raw(&body));
        self.scratch = body;
    }

    /// Begins a connection: messages are written from now on, not only stored. Where a stream gives
    /// the numbers, they are written from the answer to the Logon on.
    pub fn connect(&mut self) {
        self.connected = self.slots.is_none();
    }

    /// Ends the resend that is going on, if one is.
    pub(super) fn give_up_resend(&mut self) {
        self.job = None;
        if let Some(slots) = &mut self.slots {
            slots.granted.clear();
        }
    }

    /// Handles the end of the connection.
    pub(super) fn disconnect(&mut self) {
        self.connected = false;
        self.job = None;
        self.end_slots();
    }

    /// Begins the numbers at 1 again; where a stream gives them, with the slot of the next message.
    pub(super) fn reset(&mut self) {
        match &mut self.slots {
            Some(slots) => slots.reset_next = true,
            None => self.store.reset(),
        }
        self.job = None;
    }
}
