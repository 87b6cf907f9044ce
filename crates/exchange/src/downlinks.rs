//! The root's ways down: a publisher and a roll call per stream of the feed.
//!
//! The engine numbers all events of the market in one sequence. With several streams each event
//! goes to the one that carries its instrument, and what concerns the whole market to all; each
//! stream has its own session, sequence, deadlines, repairs and dead proxies. Which stream an event
//! goes to follows from the configuration and where in it from the log, so a replay finds the same
//! ([`StreamRouter`]). An execution waits for its tick in the stream of its own instrument. With
//! one stream its positions are the engine's.
//!
//! Each trading day is a session of its own in every stream: the message that begins a day is the first of
//! it. Positions go on over it.

use overlay::{
    control::{ControlHeader, StatusBody},
    frame::{self, DelayBody, FrameKind, HopHeader, RepairRequestBody},
    membership::Membership,
    mold,
    publisher::{FeedRelease, Publisher, PublisherConfig},
    topology::Tree,
};
use types::{
    ClockReading, ExecutionReport, FeedSeq, InstrumentId, MarketEvent, Nanos, Outbox, Packer, Peer,
    SpillStore, SystemEventCode, Unpacker, sessions_later,
};
use wire::itch;
use zerocopy::FromBytes;

use crate::{ExchangeConfig, OverlayOptions, TreeShape};

/// Routes the events of the market to their streams, and numbers them there.
#[derive(Clone, Debug)]
pub struct StreamRouter {
    /// By instrument less one.
    stream_of: Vec<u16>,
    /// By stream: the number its next message gets.
    next: Vec<FeedSeq>,
}

impl StreamRouter {
    /// Nothing is dealt out yet.
    pub fn new(config: &ExchangeConfig) -> StreamRouter {
        let streams = config.options.streams();
        let last = streams - 1;
        let stream_of = |place| config.options.stream_of(place).min(last);
        StreamRouter {
            stream_of: (0..config.instruments.len()).map(stream_of).collect(),
            next: vec![FeedSeq(1); usize::from(streams)],
        }
    }

    /// The stream that carries an instrument; the first one for what is no instrument.
    pub fn stream_of(&self, instrument: InstrumentId) -> usize {
        let place = usize::from(instrument.0).checked_sub(1);
        place.and_then(|place| self.stream_of.get(place)).map_or(0, |stream| (*stream).into())
    }

    /// Where the next event goes: calls `put` with each stream and the number it has there.
    pub fn deal(&mut self, event: &MarketEvent, mut put: impl FnMut(usize, FeedSeq)) {
        let streams = match event.instrument() {
            Some(instrument) => {
                let stream = self.stream_of(instrument);
                stream..stream + 1
            }
            None => 0..self.next.len(),
        };
        for stream in streams {
            if let Some(next) = self.next.get_mut(stream) {
                put(stream, *next);
                next.0 += 1;
            }
        }
    }

    /// The same before the first event.
    pub fn anew(&self) -> StreamRouter {
        StreamRouter { next: vec![FeedSeq(1); self.next.len()], ..self.clone() }
    }

    /// As this one was before it dealt out what the other has, from the first on.
    pub fn before(&self, later: &StreamRouter) -> StreamRouter {
        assert_eq!(self.next.len(), later.next.len(), "of the same feed");
        let before = |(all, some): (&FeedSeq, &FeedSeq)| FeedSeq(all.0.saturating_sub(some.0 - 1));
        let next = self.next.iter().zip(&later.next).map(before).collect();
        StreamRouter { next, ..self.clone() }
    }

    /// By stream: the number its next message gets.
    pub fn next(&self) -> &[FeedSeq] {
        &self.next
    }
}

/// One stream's way down.
struct Downlink {
    publisher: Publisher,
    /// Who answers, and which tree they know; with a roll call only.
    membership: Option<Membership>,
}

/// All streams of the feed that a root publishes.
pub(crate) struct Downlinks {
    streams: Vec<Downlink>,
    router: StreamRouter,
    /// Of the last input: each event's position, its stream and its number there; kept with
    /// several streams only.
    placed: Vec<(FeedSeq, usize, FeedSeq)>,
    scratch: Vec<u8>,
}

impl Downlinks {
    /// The downlinks of `trees`, one per stream and at least one.
    pub(crate) fn new(config: &ExchangeConfig, trees: &[Tree]) -> Downlinks {
        let roll_call = config.options.roll_call;
        let stream = |tree: &Tree| {
            let mut publisher = Publisher::new(*tree, publisher_config(config, tree.stream));
            if let Some((salt, maker)) = config.options.token_maker() {
                publisher.prove_by(salt, maker);
            }
            let membership = roll_call.map(|calls| Membership::new(*tree, calls));
            Downlink { publisher, membership }
        };
        let router = StreamRouter::new(config);
        assert_eq!(trees.len(), router.next.len(), "one publisher for each stream of the feed");
        Downlinks {
            streams: trees.iter().map(stream).collect(),
            router,
            placed: Vec::with_capacity(256),
            scratch: Vec::with_capacity(64),
        }
    }

    pub(crate) fn router(&self) -> &StreamRouter {
        &self.router
    }

    pub(crate) fn first(&self) -> &Publisher {
        &self.streams[0].publisher
    }

    pub(crate) fn publishers(&self) -> impl ExactSizeIterator<Item = &Publisher> {
        self.streams.iter().map(|stream| &stream.publisher)
    }

    pub(crate) fn memberships(&self) -> impl Iterator<Item = &Membership> {
        self.streams.iter().filter_map(|stream| stream.membership.as_ref())
    }

    /// Pushes the events of one input; how many could not be published as they should.
    pub(crate) fn publish(
        &mut self,
        now: ClockReading,
        (t_seq, events): (Nanos, &[(FeedSeq, MarketEvent)]),
        itch: &itch::Encoder,
        out: &mut Outbox,
    ) -> u64 {
        let Downlinks { streams, router, placed, scratch } = self;
        let dense = |of: &[(FeedSeq, MarketEvent)]| match of {
            [first, .., last] => last.0.0 - first.0.0 + 1 == of.len() as u64,
            _ => true,
        };
        assert!(dense(events), "events of an input have positions in a row");
        let several = streams.len() > 1;
        let mut failed = 0;
        placed.clear();
        for (position, event) in events {
            scratch.clear();
            let written = itch.encode(event, t_seq, scratch).is_ok();
            if matches!(event, MarketEvent::SystemEvent { code: SystemEventCode::StartOfMessages })
            {
                streams.iter_mut().for_each(|stream| stream.publisher.begin_session(now, out));
            }
            router.deal(event, |stream, seq| {
                let publisher = streams.get_mut(stream).map(|stream| &mut stream.publisher);
                let pushed = publisher.map(|publisher| publisher.push_message(now, scratch, out));
                let there = pushed == Some(Ok(seq)) && (several || seq == *position);
                failed += u64::from(!written || !there);
                if several {
                    placed.push((*position, stream, seq));
                }
            });
        }
        failed
    }

    /// A report of the input published last, waiting for its tick where its instrument's ticks
    /// are. A tick that is not there makes it wait for all that its stream has.
    pub(crate) fn placed(&self, report: &ExecutionReport) -> ExecutionReport {
        if self.streams.len() == 1 || report.public_after == FeedSeq(0) {
            return *report;
        }
        let stream = self.router.stream_of(report.instrument);
        let end = self.placed.partition_point(|(position, ..)| *position <= report.public_after);
        let own = self.placed.iter().take(end).rev().find(|(_, of, _)| *of == stream);
        let all = || self.router.next.get(stream).map_or(0, |next| next.0.saturating_sub(1));
        let public_after = own.map_or_else(|| FeedSeq(all()), |(.., seq)| *seq);
        ExecutionReport { public_after, ..*report }
    }

    /// Spills what can be asked for again, each stream in a spill store of its own. False when
    /// there are not as many, or something was published before.
    pub(crate) fn spill_to(&mut self, spills: Vec<Box<dyn SpillStore>>) -> bool {
        let enough = spills.len() == self.streams.len();
        let mut pairs = self.streams.iter_mut().zip(spills);
        enough && pairs.all(|(stream, spill)| stream.publisher.spill_to(spill))
    }

    /// False when something waits for a spill store, or there is none.
    pub(crate) fn pack(&self, to: &mut Packer<'_>) -> bool {
        to.count(self.streams.len());
        self.router.next.iter().for_each(|next| to.u64(next.0));
        // All are packed: what follows is read in its place.
        self.streams.iter().fold(true, |all, stream| stream.publisher.pack(to) & all)
    }

    /// `None` for anything that no downlinks of as many streams pack.
    pub(crate) fn unpack(&mut self, from: &mut Unpacker<'_>) -> Option<()> {
        if from.count(8)? != self.streams.len() {
            return None;
        }
        for next in &mut self.router.next {
            *next = FeedSeq(from.u64()?);
        }
        for (stream, next) in self.streams.iter_mut().zip(&self.router.next) {
            stream.publisher.unpack(from)?;
            if stream.publisher.feed_next() != *next {
                return None;
            }
        }
        Some(())
    }

    /// See [`Publisher::begin_term`] and [`Publisher::take_over`].
    pub(crate) fn begin_term(&mut self, now: ClockReading, term: u64) {
        for stream in &mut self.streams {
            stream.publisher.begin_term(term);
            stream.membership.iter_mut().for_each(Membership::begin);
        }
        self.take_over(now, true);
    }

    /// See [`Publisher::take_over`].
    pub(crate) fn take_over(&mut self, now: ClockReading, several: bool) {
        self.streams.iter_mut().for_each(|stream| stream.publisher.take_over(now, several));
    }

    /// By stream: see [`Publisher::sent`].
    pub(crate) fn sent(&self) -> Vec<FeedSeq> {
        self.streams.iter().map(|stream| stream.publisher.sent()).collect()
    }

    /// See [`Publisher::confirm`].
    pub(crate) fn confirm(&mut self, ends: &[FeedSeq]) -> bool {
        let pairs = self.streams.iter_mut().zip(ends);
        pairs.fold(false, |news, (stream, end)| stream.publisher.confirm(*end) | news)
    }

    /// See [`Publisher::follow`].
    pub(crate) fn follow(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.publisher.follow());
    }

    /// Datagrams so far, in all streams.
    pub(crate) fn datagrams(&self) -> u64 {
        self.streams.iter().map(|stream| stream.publisher.stats().datagrams).sum()
    }

    /// Appends what followers have to know of release times: for each stream the numbers of a
    /// [`FeedRelease`], in its order, little-endian.
    pub(crate) fn write_releases(&self, now: Nanos, to: &mut Packer<'_>) {
        for stream in &self.streams {
            let FeedRelease { end, release, owd_ns, bound_ns } = stream.publisher.release(now);
            [end.0, release.0, owd_ns, bound_ns].into_iter().for_each(|number| to.u64(number));
        }
    }

    /// Takes what the one that publishes has said; `None`, with nothing learned, for anything that
    /// downlinks of as many streams do not write.
    pub(crate) fn learn_releases(&mut self, now: ClockReading, bytes: &[u8]) -> Option<()> {
        let mut from = Unpacker::new(bytes);
        let bounded = |number: u64| Some(number).filter(|number| *number < 1 << 62);
        let mut told = Vec::with_capacity(self.streams.len());
        for _ in &self.streams {
            let (end, release) = (bounded(from.u64()?)?, bounded(from.u64()?)?);
            let (owd_ns, bound_ns) = (bounded(from.u64()?)?, bounded(from.u64()?)?);
            let (end, release) = (FeedSeq(end), Nanos(release));
            told.push(FeedRelease { end, release, owd_ns, bound_ns });
        }
        from.end()?;
        let pairs = self.streams.iter_mut().zip(&told);
        pairs.for_each(|(stream, told)| stream.publisher.learn(now, told));
        Some(())
    }

    pub(crate) fn flush(&mut self, now: ClockReading, out: &mut Outbox) {
        self.streams.iter_mut().for_each(|stream| stream.publisher.flush(now, out));
    }

    pub(crate) fn end_session(&mut self, now: ClockReading, out: &mut Outbox) {
        self.streams.iter_mut().for_each(|stream| stream.publisher.end_session(now, out));
    }

    /// A delay report or a repair request, for the stream that it names; the first one counts what
    /// names none.
    pub(crate) fn handle_frame(
        &mut self,
        now: ClockReading,
        header: &HopHeader,
        rest: &[u8],
        out: &mut Outbox,
    ) {
        let named = match header.kind {
            FrameKind::Delay => frame::body::<DelayBody>(rest).map(|(body, _)| body.stream),
            _ => frame::body::<RepairRequestBody>(rest).map(|(body, _)| body.stream),
        };
        let known = |stream: &u16| usize::from(*stream) < self.streams.len();
        let stream = named.ok().filter(known).unwrap_or(0);
        if let Some(stream) = self.streams.get_mut(usize::from(stream)) {
            stream.publisher.handle_frame(now, header, rest, out);
        }
    }

    /// A request of anybody, for the session that it names; the first one counts what names none.
    pub(crate) fn handle_public_request(
        &mut self,
        now: ClockReading,
        from: Peer,
        bytes: &[u8],
        sessions: &[[u8; 10]],
        out: &mut Outbox,
    ) {
        let named = mold::Header::read(bytes);
        let known = |(request, _): (mold::Header, _)| {
            sessions.iter().position(|of| sessions_later(*of, request.session).is_some())
        };
        let stream = named.and_then(known).unwrap_or(0);
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.publisher.handle_public_request(now, from, bytes, out);
        }
    }

    /// An answer to a roll call; false for one that nobody asked for.
    pub(crate) fn handle_status(
        &mut self,
        now: Nanos,
        header: &ControlHeader,
        rest: &[u8],
        out: &mut Outbox,
    ) -> bool {
        let stream = self.streams.get_mut(usize::from(header.stream));
        let status = StatusBody::read_from_bytes(rest);
        let (Some(Downlink { publisher, membership: Some(membership) }), Ok(status)) =
            (stream, status)
        else {
            return false;
        };
        membership.handle_status(now, header.sender, &status, publisher, out);
        true
    }

    /// Begins a change of tree, if there is but one stream.
    pub(crate) fn change_tree(&mut self, now: Nanos, tree: Tree, out: &mut Outbox) -> bool {
        match &mut self.streams[..] {
            [Downlink { membership: Some(membership), .. }] => {
                membership.change_tree(now, tree, out)
            }
            _ => false,
        }
    }

    /// Has a tree that another root told of, or that it told of itself before, if there is but one
    /// stream.
    pub(crate) fn adopt_tree(&mut self, tree: Tree) -> bool {
        match &mut self.streams[..] {
            [Downlink { membership: Some(membership), publisher }] => {
                membership.adopt(tree, publisher)
            }
            _ => false,
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        for stream in &mut self.streams {
            stream.publisher.handle_timeout(now, out);
        }
    }

    pub(crate) fn call_roll(&mut self, now: Nanos, out: &mut Outbox) {
        for Downlink { publisher, membership } in &mut self.streams {
            if let Some(membership) = membership {
                membership.handle_timeout(now, publisher, out);
            }
        }
    }

    pub(crate) fn next_timeout(&self) -> Nanos {
        let of = |stream: &Downlink| {
            let roll_call =
                stream.membership.as_ref().map_or(Nanos::NEVER, Membership::next_timeout);
            stream.publisher.next_timeout().min(roll_call)
        };
        self.streams.iter().map(of).min().unwrap_or(Nanos::NEVER)
    }
}

/// The shapes that the one tree may change to.
pub(crate) fn shapes(
    config: &ExchangeConfig,
) -> Result<Vec<(TreeShape, Tree)>, crate::ExchangeError> {
    let of = |shape: &TreeShape| Ok((*shape, config.tree_of(*shape)?));
    config.options.shapes.iter().map(of).collect()
}

fn publisher_config(config: &ExchangeConfig, stream: u16) -> PublisherConfig {
    let options: &OverlayOptions = &config.options;
    let mut publisher = PublisherConfig::new(config.session_of(stream));
    publisher.linger_ns = config.linger_ns;
    publisher.delay.owd_max_ns = config.delay_cap_ns;
    publisher.delay.samples = options.samples();
    publisher.store = config.store;
    publisher.packet_max = options.packet_max();
    publisher.estimator = options.estimator;
    publisher.hedge = options.hedge_mode;
    publisher.parity = options.parity;
    publisher.slowest_first = options.slowest_first;
    publisher.shard = config.shard.id;
    publisher
}
