//! How a listener that is too far behind joins the feed again: by a snapshot, when that beats
//! repair (see [`crate::CatchUpRule`]). The feed is buffered meanwhile, in the same bounded buffer
//! as for a gap; what does not fit there is repaired afterwards.

use types::{ConnId, FeedSeq, Nanos, Outbox, Peer};
use wire::moldudp::Session;

use super::Listener;
use crate::{
    catch_up::{Behind, CatchUp, CatchUpCounters, Progress, range_of},
    checkpoint::StreamDigest,
    snapshot::Loading,
};

/// Where a listener joined the feed by a snapshot, or by the beginning of a day because nobody had the rest
/// of the one before: it has not heard what came before, and its digest of the feed's bytes begins anew
/// there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joined {
    /// Position of the first message heard after the first snapshot.
    pub first: FeedSeq,
    /// Position of the first message heard after the last snapshot.
    pub last: FeedSeq,
    /// Number of snapshots loaded.
    pub times: u64,
}

impl Listener {
    /// Where it joined by snapshots; `None` when it heard the feed from its first message on.
    pub fn joined(&self) -> Option<Joined> {
        self.joined
    }

    /// What the snapshot client has counted so far.
    pub fn catch_up(&self) -> CatchUpCounters {
        self.catch_up.as_ref().map(|catch_up| catch_up.counters).unwrap_or_default()
    }

    /// Whether a stream is one that this listener opened.
    pub(crate) fn owns(&self, conn: ConnId) -> bool {
        self.catch_up.as_ref().is_some_and(|catch_up| range_of(conn) == Some(catch_up.names()))
    }

    /// A server answered that its first message is one after what was asked for: it said so with
    /// a heartbeat, which another sender's would not be. Another server, or a snapshot, may help.
    pub(super) fn heard_of_store(&mut self, now: Nanos, from: Peer, first: u64) {
        let asked = self.asked > self.next && first > self.next;
        if !asked || !self.servers.note(from, first) {
            return;
        }
        let helped = match self.servers.none_has(self.next) {
            true => self.catch_up.is_some(),
            false => self.servers.asked() == Some(from),
        };
        if helped {
            self.request_at = now;
        }
        if self.catch_up.is_none() && self.servers.none_has(self.next) {
            self.skip_to_day(now);
        }
    }

    /// Nobody has what is missing of a day that is over: goes on with the next one, which begins by
    /// telling all there is.
    fn skip_to_day(&mut self, now: Nanos) {
        let Some(start) = self.sessions.next_start() else { return };
        let before = std::mem::replace(&mut self.next, start);
        self.sessions.taken(start);
        self.servers.forget();
        self.unanswered = 0;
        self.stream = StreamDigest::default();
        let seq = FeedSeq(start);
        let joined = self.joined.get_or_insert(Joined { first: seq, last: seq, times: 0 });
        (joined.last, joined.times) = (seq, joined.times + 1);
        if let Some(capture) = &mut self.capture {
            capture.interrupt();
        }
        if let Some(ticker) = &mut self.ticker {
            ticker.joined(now, (before, start), &self.image);
        }
        self.take_ready(now);
    }

    fn behind(&self, unanswered_max: u32) -> Behind {
        let resting = self.image.resting() as u64;
        let missing = self.known.saturating_sub(self.next);
        let rounds = unanswered_max.max(1).saturating_mul(self.servers.count().max(1));
        Behind {
            missing,
            gone: self.servers.none_has(self.next) || self.unanswered >= rounds,
            // A message adds one order at most.
            orders: resting.saturating_add(missing).min(self.config.orders_max as u64),
        }
    }

    /// Fetches a snapshot instead of asking for messages, if that is better; when it does, this is
    /// when to look again.
    pub(super) fn prefer_snapshot(&mut self, now: Nanos, out: &mut Outbox) -> Option<Nanos> {
        let unanswered_max = self.catch_up.as_ref()?.rule().unanswered_max;
        let behind = self.behind(unanswered_max);
        let again = now.after(self.config.request_timeout_max_ns.max(1));
        let catch_up = self.catch_up.as_mut()?;
        if !catch_up.is_busy() && catch_up.rule().snapshot_wins(&behind) {
            catch_up.start(now, out);
        }
        match catch_up.is_busy() {
            true => Some(again),
            // Between two attempts repair may do, unless no server has it.
            false if self.servers.none_has(self.next) => {
                Some(catch_up.retry_at().max(Nanos(now.0 + 1)))
            }
            false => None,
        }
    }

    pub(super) fn with_catch_up(
        &mut self,
        now: Nanos,
        call: impl FnOnce(&mut CatchUp) -> Progress,
    ) {
        let Some(catch_up) = &mut self.catch_up else { return };
        match call(catch_up) {
            Progress::Going => return,
            Progress::Failed => {}
            Progress::Came(loading, session, seq) => {
                self.load(now, &loading, Session(session), seq)
            }
        }
        if self.request_at != Nanos::NEVER {
            self.request_at = now;
        }
    }

    /// Takes over the books of a snapshot and goes on from message `seq`.
    fn load(&mut self, now: Nanos, loading: &Loading, session: Session, number: FeedSeq) {
        let offset = self.sessions.offset_of(session);
        let counted = match offset {
            Some(offset) => offset.checked_add(number.0),
            // Behind all that is known, wherever that ends.
            None if session == self.sessions.latest() => self.known.checked_add(number.0),
            None => None,
        };
        let Some(seq) = counted.map(FeedSeq) else { return };
        let newer = seq.0 > self.next && seq.0 - self.next < u64::from(u32::MAX);
        let useful = newer && self.image.adopt(loading.image()).is_ok();
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.judged(now, useful);
            catch_up.counters.skipped += if useful { seq.0 - self.next } else { 0 };
        }
        if !useful {
            return;
        }
        if offset.is_none() {
            // How many messages lie between is not known: what is noted is of another count.
            self.checkpoints.clear();
        }
        let before = self.next;
        let position = self.sessions.jump(session, number.0, seq.0);
        debug_assert_eq!(position, seq.0, "it was counted alike before");
        self.next = seq.0;
        self.sessions.taken(self.next);
        self.known = self.known.max(self.next);
        self.servers.forget();
        self.unanswered = 0;
        self.stream = StreamDigest::default();
        let joined = self.joined.get_or_insert(Joined { first: seq, last: seq, times: 0 });
        (joined.last, joined.times) = (seq, joined.times + 1);
        if let Some(capture) = &mut self.capture {
            capture.interrupt();
        }
        if let Some(ticker) = &mut self.ticker {
            ticker.joined(now, (before, seq.0), &self.image);
        }
        self.take_ready(now);
        self.watch_gap(now, before);
    }
}
