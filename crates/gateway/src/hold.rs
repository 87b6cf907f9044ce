//! Keeps a session's messages back until their tick is public (corner 16), in stream order.
//!
//! Public is what the receiver on the same VM has handed on. A receiver may be behind: after the
//! maximum hold it is enough to know that others were free to hand the tick on, which follows from
//! any later datagram of the feed whose release time has passed. What is not known to be public
//! waits on, however long that takes.
//!
//! A SoupBinTCP stream is numbered and the same from every gateway, so nothing overtakes: a message
//! that prints nothing waits only when one before it in the same stream waits.

use std::collections::VecDeque;

use types::{ExecutionReport, FeedSeq, InstrumentId, Nanos, ShardId};

/// With this many waiting the stream is paused upstream.
const PAUSE_AT: usize = 8_192;
/// A paused stream goes on with this many waiting.
const RESUME_AT: usize = 2_048;

/// What is overdue and not known to be public is looked at again after this, ns.
const LOOK_AGAIN_NS: u64 = 5 * Nanos::MILLI;

/// How far the feed is public, stream by stream: each instrument's ticks are in one of them.
#[derive(Default, Debug)]
pub struct Watermarks {
    /// By stream; 0 for those not heard of.
    public: Vec<FeedSeq>,
    /// The same of what others were free to hand on.
    elsewhere: Vec<FeedSeq>,
    /// By instrument less one; those left out have stream 0.
    stream_of: Vec<u16>,
    /// Streams of each shard.
    streams: u16,
}

impl Watermarks {
    /// Nothing is public yet; `stream_of` says which of a shard's `streams` carries an instrument, by its
    /// number less one. Those of all shards are numbered in one row.
    pub fn new(stream_of: Vec<u16>, streams: u16) -> Watermarks {
        Watermarks { public: Vec::new(), elsewhere: Vec::new(), stream_of, streams }
    }

    /// A stream is public up to and including `watermark`; whether that is news.
    pub fn raise(&mut self, stream: u16, watermark: FeedSeq) -> bool {
        let stream = usize::from(stream);
        if stream >= self.public.len() {
            self.public.resize(stream + 1, FeedSeq(0));
        }
        let news = watermark > self.public[stream];
        self.public[stream] = self.public[stream].max(watermark);
        news
    }

    /// Receivers were free to hand a stream on up to and including `watermark`.
    pub fn raise_elsewhere(&mut self, stream: u16, watermark: FeedSeq) {
        let stream = usize::from(stream);
        if stream >= self.elsewhere.len() {
            self.elsewhere.resize(stream + 1, FeedSeq(0));
        }
        self.elsewhere[stream] = self.elsewhere[stream].max(watermark);
    }

    /// The stream that prints what a shard tells of an instrument.
    fn stream(&self, shard: ShardId, instrument: InstrumentId) -> usize {
        let place = usize::from(instrument.0).checked_sub(1);
        let of = place.and_then(|place| self.stream_of.get(place)).copied().unwrap_or(0);
        usize::from(shard.0) * usize::from(self.streams) + usize::from(of)
    }

    fn of(&self, stream: usize) -> FeedSeq {
        self.public.get(stream).copied().unwrap_or(FeedSeq(0))
    }

    fn elsewhere(&self, stream: usize) -> FeedSeq {
        self.elsewhere.get(stream).copied().unwrap_or(FeedSeq(0))
    }
}

/// The waiting line of one session.
#[derive(Default, Debug)]
pub struct HoldQueue {
    /// With the shard that told each of them: an instrument may move.
    waiting: VecDeque<(Nanos, ShardId, ExecutionReport)>,
    /// The first one is overdue, and looked at again then.
    again: Nanos,
}

/// Why a message left the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// Its tick is public, or it has none.
    Public,
    /// It waited as long as it should; its tick is public, but was not handed on here.
    Overdue,
}

impl HoldQueue {
    /// Adds a message of a shard that arrived at `now`.
    pub fn push(&mut self, now: Nanos, shard: ShardId, report: ExecutionReport) {
        self.waiting.push_back((now, shard, report));
    }

    /// The next message that may go out at `now` with the feed public up to `watermarks`.
    pub fn pop(
        &mut self,
        now: Nanos,
        watermarks: &Watermarks,
        hold_max_ns: u64,
    ) -> Option<(Release, ExecutionReport)> {
        let (since, shard, report) = self.waiting.front()?;
        let stream = watermarks.stream(*shard, report.instrument);
        let release = if report.public_after <= watermarks.of(stream) {
            Release::Public
        } else if now >= *since + hold_max_ns {
            if report.public_after > watermarks.elsewhere(stream) {
                self.again = now + LOOK_AGAIN_NS;
                return None;
            }
            Release::Overdue
        } else {
            return None;
        };
        let report = *report;
        self.waiting.pop_front();
        Some((release, report))
    }

    /// When the first message becomes overdue, or is looked at again.
    pub fn next_timeout(&self, hold_max_ns: u64) -> Nanos {
        let due = |(since, ..): &(Nanos, _, _)| (*since + hold_max_ns).max(self.again);
        self.waiting.front().map_or(Nanos::NEVER, due)
    }

    /// Whether the stream should be paused upstream, given that it is or is not now. The pause
    /// takes effect with the next datagram, which bounds the line.
    pub fn wants_pause(&self, paused: bool) -> bool {
        self.waiting.len() > if paused { RESUME_AT } else { PAUSE_AT }
    }

    /// Messages that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{
        AccountId, CancelReason, ClOrdId, ExecutionKind, InstrumentId, Liquidity, MatchNumber,
        OrderRef, OrderTerms, OrderType, Price, Qty, RejectReason, Side, TimeInForce, UserRefNum,
    };

    fn report(kind: ExecutionKind, public_after: u64) -> ExecutionReport {
        ExecutionReport {
            kind,
            side: Side::Buy,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            flags: 0,
            reject: RejectReason::None,
            cancel_reason: CancelReason::None,
            liquidity: Liquidity::None,
            account: AccountId(1),
            instrument: InstrumentId(1),
            user_ref: UserRefNum(1),
            orig_user_ref: UserRefNum(0),
            session_seq: 0,
            qty: Qty(1),
            leaves: Qty(0),
            price: Price(1),
            order_ref: OrderRef(1),
            match_number: MatchNumber(0),
            public_after: FeedSeq(public_after),
            t_seq: Nanos(0),
            cl_ord_id: ClOrdId::default(),
            reserved2: [0; 2],
            terms: OrderTerms::default(),
        }
    }

    #[test]
    fn an_execution_waits_for_its_tick_and_what_follows_waits_with_it() {
        let mut queue = HoldQueue::default();
        queue.push(Nanos(0), ShardId(0), report(ExecutionKind::Accepted, 0));
        queue.push(Nanos(0), ShardId(0), report(ExecutionKind::Executed, 7));
        queue.push(Nanos(0), ShardId(0), report(ExecutionKind::Accepted, 0));
        let mut marks = Watermarks::default();
        let mut pop = |watermark| {
            marks.raise(0, FeedSeq(watermark));
            queue.pop(Nanos(1), &marks, 100).map(|(r, _)| r)
        };
        assert_eq!(pop(6), Some(Release::Public));
        assert_eq!(pop(6), None);
        assert_eq!(pop(7), Some(Release::Public));
        assert_eq!(pop(7), Some(Release::Public));
        assert_eq!(pop(7), None);
    }

    #[test]
    fn an_execution_waits_for_the_stream_of_its_instrument() {
        let mut marks = Watermarks::new(vec![1, 0], 2);
        let mut queue = HoldQueue::default();
        queue.push(Nanos(0), ShardId(0), report(ExecutionKind::Executed, 7));
        assert!(marks.raise(0, FeedSeq(99)), "the other stream is far ahead");
        assert!(queue.pop(Nanos(1), &marks, 100).is_none());
        assert!(marks.raise(1, FeedSeq(7)) && !marks.raise(1, FeedSeq(6)));
        assert_eq!(queue.pop(Nanos(1), &marks, 100).unwrap().0, Release::Public);
    }

    #[test]
    fn what_another_shard_told_waits_for_that_shards_stream() {
        let mut marks = Watermarks::new(vec![1, 0], 2);
        let mut queue = HoldQueue::default();
        queue.push(Nanos(0), ShardId(0), report(ExecutionKind::Executed, 9));
        queue.push(Nanos(0), ShardId(1), report(ExecutionKind::Executed, 7));
        assert!(marks.raise(3, FeedSeq(7)), "where the instrument is now");
        assert!(queue.pop(Nanos(1), &marks, 100).is_none(), "what was told where it was");
        assert!(marks.raise(1, FeedSeq(9)));
        assert!(queue.pop(Nanos(1), &marks, 100).is_some());
        assert!(queue.pop(Nanos(1), &marks, 100).is_some());
    }

    #[test]
    fn waiting_ends_at_the_maximum_and_says_so() {
        let mut queue = HoldQueue::default();
        queue.push(Nanos(10), ShardId(0), report(ExecutionKind::Executed, 7));
        assert_eq!(queue.next_timeout(100), Nanos(110));
        let mut marks = Watermarks::default();
        marks.raise_elsewhere(0, FeedSeq(7));
        assert!(queue.pop(Nanos(109), &marks, 100).is_none());
        assert_eq!(queue.pop(Nanos(110), &marks, 100).unwrap().0, Release::Overdue);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_is_not_known_to_be_public_waits_beyond_the_maximum() {
        let mut queue = HoldQueue::default();
        queue.push(Nanos(10), ShardId(0), report(ExecutionKind::Executed, 7));
        let mut marks = Watermarks::new(vec![1], 2);
        marks.raise_elsewhere(1, FeedSeq(6));
        marks.raise_elsewhere(0, FeedSeq(9));
        let mut now = Nanos(110);
        for _ in 0..1_000 {
            assert!(queue.pop(now, &marks, 100).is_none());
            assert!(queue.next_timeout(100) > now, "no timer that is due at once");
            now = queue.next_timeout(100);
        }
        marks.raise_elsewhere(1, FeedSeq(7));
        assert_eq!(queue.pop(now, &marks, 100).unwrap().0, Release::Overdue);
    }
}
