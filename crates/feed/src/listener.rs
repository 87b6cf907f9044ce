//! A MoldUDP64 client as a sans-I/O node: what any member of the public can run.
//!
//! Datagrams come in on [`Channel::FEED`] from a receiver's released socket. Messages are applied
//! to the [`BookImage`] strictly in sequence; packets that come too early wait in a bounded buffer
//! while the gap is asked for at a retransmission server (MoldUDP64 1.0, "Request Packet"): first
//! after a short wait, then again, at the next server if there are several, with a timeout that
//! doubles after three requests while nothing comes. Packets of another session, old and malformed ones
//! are dropped and counted, and so is what comes from anybody but the receivers and servers that it was
//! told of: a stranger's packet of a valid session and number would else become part of the books. A
//! server is shown the token that it gave, so that it may answer more than sparingly. A message that does not parse or contradicts the image is counted, the
//! first one kept, and the stream goes on: the digests tell. With a snapshot server a listener may
//! start late or fall far behind: see [`Joined`].
//!
//! Each trading day is a session of its own, whose name follows from that of the day before. A listener goes
//! from one to the next by itself, whatever it is told first: messages are counted on over all of them
//! ([`Listener::next_seq`]), and what is missing around a roll is asked for like anything else.

mod joining;
mod servers;
mod sessions;

use types::{
    Channel, ClockReading, ConnId, FeedSeq, InstrumentId, MatchNumber, Nanos, Node, Outbox, Peer,
    limits,
};
use wire::{
    itch::Message,
    moldudp::{self, Packet, Request, Session},
};

pub use joining::Joined;
use servers::Servers;
use sessions::{Named, Sessions};

use crate::{
    capture::{Capture, CaptureConfig},
    catch_up::{CatchUp, CatchUpConfig},
    checkpoint::{Checkpoints, StreamDigest},
    image::{BookImage, FeedError},
    plant::Update,
    reorder::Reorder,
    ticker::Ticker,
};

/// A position that is larger than that of any message.
const BEYOND: u64 = 1 << 62;
/// A packet with a token is longer than this, bytes.
const TOKEN_FROM: usize = moldudp::HEADER_LEN;
/// Requests without an answer before the time between them grows. Silence is most often a lost packet,
/// and a server that keeps little has forgotten what is missing while one waits longer and longer.
const REQUESTS_AT_ONCE: u32 = 3;

/// Settings of a listener.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// MoldUDP64 session to follow first.
    pub session: Session,
    /// Where the feed comes from: the addresses that receivers release from. What comes from anybody
    /// else but them and `servers` is dropped. `None`: from anybody, where only those can send at all.
    pub sources: Option<Vec<Peer>>,
    /// Number of the first message wanted in that session.
    pub first: FeedSeq,
    /// Retransmission servers: the next one is asked when one is silent or no longer has the message.
    pub servers: Vec<Peer>,
    /// Instruments whose digests are noted, in this order.
    pub instruments: Vec<InstrumentId>,
    /// Most resting orders that the image holds.
    pub orders_max: usize,
    /// Most packets kept while a gap is open.
    pub reorder_max: usize,
    /// Distance of the feed positions at which digests are noted.
    pub checkpoint_every: u64,
    /// Most checkpoints kept (see [`Checkpoints`]).
    pub checkpoints_max: usize,
    /// Wait from noticing a gap to the first request, ns, since the packet may only be late.
    pub request_delay_ns: u64,
    /// From a request without any answer to the next one; after three of them it
    /// doubles whenever all servers were asked.
    pub request_timeout_ns: u64,
    /// Longest wait from a request to the next one, ns.
    pub request_timeout_max_ns: u64,
    /// Most messages asked for at once.
    pub request_messages: u16,
    /// Most executions whose time of arrival is noted (0: none).
    pub prints_max: usize,
    /// Bounds of what is kept for other readers; `None`: nothing is kept.
    pub capture: Option<CaptureConfig>,
    /// Where and when snapshots are fetched; `None`: never.
    pub catch_up: Option<CatchUpConfig>,
    /// Time of the listener's clock before which it ignores everything, to simulate a late start.
    pub hears_from: Nanos,
}

impl ListenerConfig {
    /// Follows `session` from message 1, repairing from `servers`, with limits that suit the default
    /// deployment, from anybody who sends it.
    pub fn new(
        session: Session,
        servers: Vec<Peer>,
        instruments: Vec<InstrumentId>,
    ) -> ListenerConfig {
        ListenerConfig {
            session,
            sources: None,
            first: FeedSeq(1),
            servers,
            instruments,
            orders_max: 1 << 16,
            reorder_max: 4_096,
            checkpoint_every: 1_000,
            checkpoints_max: 4_096,
            request_delay_ns: Nanos::MILLI / 2,
            request_timeout_ns: 10 * Nanos::MILLI,
            request_timeout_max_ns: 320 * Nanos::MILLI,
            request_messages: 512,
            prints_max: 0,
            capture: None,
            catch_up: None,
            hears_from: Nanos(0),
        }
    }
}

/// What a listener has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ListenerCounters {
    /// Number of well-formed packets of the session.
    pub packets: u64,
    /// Number of messages taken in sequence, whether or not they could be applied.
    pub messages: u64,
    /// Number of packets that brought nothing new.
    pub duplicates: u64,
    /// Number of packets that came before their turn.
    pub early: u64,
    /// Number of packets dropped because the buffer was full.
    pub evicted: u64,
    /// Number of gaps that opened.
    pub gaps: u64,
    /// Number of requests sent to retransmission servers.
    pub requests: u64,
    /// Number of messages taken after they had been asked for.
    pub repaired: u64,
    /// Number of datagrams that were no MoldUDP64 packet, or came on another channel.
    pub malformed: u64,
    /// Number of packets of another session.
    pub other_session: u64,
    /// Number of datagrams from addresses that neither feed nor repairs come from.
    pub foreign: u64,
    /// Number of tokens that servers gave.
    pub tokens: u64,
    /// Number of messages that were not ITCH messages.
    pub parse_errors: u64,
    /// Number of messages that contradicted the image.
    pub image_errors: u64,
}

impl std::ops::Add for ListenerCounters {
    type Output = ListenerCounters;

    fn add(self, other: ListenerCounters) -> ListenerCounters {
        ListenerCounters {
            packets: self.packets + other.packets,
            messages: self.messages + other.messages,
            duplicates: self.duplicates + other.duplicates,
            early: self.early + other.early,
            evicted: self.evicted + other.evicted,
            gaps: self.gaps + other.gaps,
            requests: self.requests + other.requests,
            repaired: self.repaired + other.repaired,
            malformed: self.malformed + other.malformed,
            other_session: self.other_session + other.other_session,
            foreign: self.foreign + other.foreign,
            tokens: self.tokens + other.tokens,
            parse_errors: self.parse_errors + other.parse_errors,
            image_errors: self.image_errors + other.image_errors,
        }
    }
}

/// A MoldUDP64 client with the books it has rebuilt.
#[derive(Debug)]
pub struct Listener {
    config: ListenerConfig,
    image: BookImage,
    stream: StreamDigest,
    checkpoints: Checkpoints,
    capture: Option<Capture>,
    ticker: Option<Ticker>,
    /// Messages taken and not told yet, each behind its length, 16 bits; `None`: nobody wants them.
    taken: Option<Vec<u8>>,
    prints: Vec<(MatchNumber, Nanos)>,
    reorder: Reorder,
    counters: ListenerCounters,
    first_error: Option<(FeedSeq, FeedError)>,
    /// Position of the next message to apply.
    next: u64,
    sessions: Sessions,
    /// Position behind the last message known to exist.
    known: u64,
    /// Position behind the last message asked for.
    asked: u64,
    request_at: Nanos,
    timeout_ns: u64,
    catch_up: Option<CatchUp>,
    joined: Option<Joined>,
    servers: Servers,
    /// Number of requests since anything new came.
    unanswered: u32,
}

impl Listener {
    /// A listener that has not heard anything.
    pub fn new(mut config: ListenerConfig) -> Listener {
        let next = config.first.0.max(1);
        let instruments = config.instruments.len();
        Listener {
            image: BookImage::new(config.orders_max),
            stream: StreamDigest::default(),
            checkpoints: Checkpoints::new(
                config.checkpoint_every,
                config.checkpoints_max,
                instruments,
            ),
            capture: config.capture.map(Capture::new),
            ticker: None,
            taken: None,
            prints: Vec::with_capacity(config.prints_max.min(1 << 20)),
            reorder: Reorder::new(config.reorder_max),
            counters: ListenerCounters::default(),
            first_error: None,
            next,
            sessions: Sessions::new(config.session),
            known: next,
            asked: 0,
            request_at: Nanos::NEVER,
            timeout_ns: config.request_timeout_ns,
            catch_up: config
                .catch_up
                .clone()
                .and_then(|catch_up| CatchUp::new(catch_up, config.session.0, config.orders_max)),
            joined: None,
            servers: Servers::new(std::mem::take(&mut config.servers)),
            unanswered: 0,
            config,
        }
    }

    /// Session of the next message.
    pub fn session(&self) -> Session {
        self.sessions.present().0
    }

    /// Number of the next message in its session.
    pub fn session_next(&self) -> FeedSeq {
        FeedSeq(self.next.saturating_sub(self.sessions.present().1))
    }

    /// Session that the listener was told to follow first.
    pub fn first_session(&self) -> Session {
        self.config.session
    }

    /// The position of a message of a session, as [`Listener::next_seq`] counts them; `None` for one of a
    /// session that it does not count now.
    pub fn position(&self, session: Session, number: u64) -> Option<u64> {
        self.sessions.offset_of(session)?.checked_add(number)
    }

    /// The displayed books, as rebuilt so far.
    pub fn image(&self) -> &BookImage {
        &self.image
    }

    /// Instruments whose digests are noted, in this order.
    pub fn instruments(&self) -> &[InstrumentId] {
        &self.config.instruments
    }

    /// Digests noted so far.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Displayed-book digests of all instruments now, in the order of the configuration.
    pub fn digests(&self) -> impl Iterator<Item = u64> + '_ {
        self.config.instruments.iter().map(|&instrument| self.image.digest(instrument))
    }

    /// Digest of every message taken so far, of those since it last joined by a snapshot if it did.
    pub fn stream_digest(&self) -> u64 {
        self.stream.value()
    }

    /// Position of the next message; positions go on over all sessions.
    pub fn next_seq(&self) -> FeedSeq {
        FeedSeq(self.next)
    }

    /// Whether the end of the session was announced and everything before it has been taken.
    pub fn ended(&self) -> bool {
        self.sessions.is_over() && self.next >= self.known
    }

    /// What was counted so far.
    pub fn counters(&self) -> ListenerCounters {
        self.counters
    }

    /// Position of the first message that could not be applied, and why; `None`: all could.
    pub fn first_error(&self) -> Option<(FeedSeq, FeedError)> {
        self.first_error
    }

    /// When executions were heard, by the listener's clock: the first `prints_max` of them.
    pub fn prints(&self) -> &[(MatchNumber, Nanos)] {
        &self.prints
    }

    /// What was kept for other readers; `None`: nothing is kept.
    pub fn capture(&self) -> Option<&Capture> {
        self.capture.as_ref()
    }

    /// As [`Listener::capture`], for whoever takes from it.
    pub(crate) fn capture_mut(&mut self) -> Option<&mut Capture> {
        self.capture.as_mut()
    }

    /// From now on trades and changes of best prices are told as updates of that line.
    pub(crate) fn tell_ticks(&mut self, line: u8) {
        self.ticker = Some(Ticker::new(line));
    }

    /// Moves the updates that are new to the end of `to`.
    pub(crate) fn take_ticks(&mut self, to: &mut Vec<Update>) {
        self.ticker.iter_mut().for_each(|ticker| ticker.take(to));
    }

    /// From now on messages are kept until somebody takes them.
    pub(crate) fn tell_messages(&mut self) {
        self.taken = Some(Vec::new());
    }

    /// Tells the messages taken since the last time, in sequence.
    pub(crate) fn take_messages(&mut self, mut told: impl FnMut(&[u8])) {
        let Some(taken) = &mut self.taken else { return };
        let mut rest = &taken[..];
        while let Some((&len, body)) = rest.split_first_chunk::<2>() {
            let (message, later) =
                body.split_at(usize::from(u16::from_be_bytes(len)).min(body.len()));
            told(message);
            rest = later;
        }
        taken.clear();
    }

    /// Sets the addresses that the feed comes from; see [`crate::Subscriber::set_sources`].
    pub(crate) fn set_sources(&mut self, sources: Vec<Peer>) {
        self.config.sources = Some(sources);
    }

    fn take_packet(&mut self, now: Nanos, first: u64, packet: &Packet<'_>) {
        for (seq, message) in (first..).zip(packet.messages()) {
            if seq == self.next {
                self.take_message(now, message);
            }
        }
    }

    fn take_message(&mut self, now: Nanos, bytes: &[u8]) {
        let seq = self.next;
        self.next += 1;
        self.sessions.taken(self.next);
        self.counters.messages += 1;
        self.counters.repaired += u64::from(seq < self.asked);
        self.stream.push(bytes);
        if let Some(capture) = &mut self.capture {
            capture.message(bytes);
        }
        if let Some(taken) = &mut self.taken {
            // A message is part of a datagram, so that its length fits.
            taken.extend((bytes.len() as u16).to_be_bytes());
            taken.extend(bytes);
        }
        match self.image.apply(bytes) {
            Ok(message) => {
                if let Some(ticker) = &mut self.ticker {
                    ticker.applied(now, seq, &message, &self.image);
                }
                self.note_print(now, &message);
            }
            Err(error) => {
                match error {
                    FeedError::Parse(_) => self.counters.parse_errors += 1,
                    FeedError::Image(_) => self.counters.image_errors += 1,
                }
                self.first_error.get_or_insert((FeedSeq(seq), error));
            }
        }
        if self.checkpoints.due(FeedSeq(seq)) {
            let image = &mut self.image;
            let books =
                self.config.instruments.iter().map(|&instrument| image.digest_kept(instrument));
            self.checkpoints.record(FeedSeq(seq), self.stream.value(), books);
        }
        if let Some(capture) = &mut self.capture {
            capture.quote(seq, &self.config.instruments, &self.image);
        }
    }

    fn note_print(&mut self, now: Nanos, message: &Message<'_>) {
        let number = match message {
            Message::OrderExecuted(m) => m.match_number,
            Message::OrderExecutedWithPrice(m) => m.match_number,
            Message::Trade(m) => m.match_number,
            _ => return,
        };
        if self.prints.len() < self.config.prints_max {
            self.prints.push((MatchNumber(number.get()), now));
        }
    }

    fn take_ready(&mut self, now: Nanos) {
        while let Some((first, bytes)) = self.reorder.take_ready(self.next) {
            if let Ok(packet) = Packet::parse(&bytes) {
                self.take_packet(now, first, &packet);
            }
            self.reorder.recycle(bytes);
        }
    }

    /// A packet of a session that begins behind `offset` and is the last known, or not.
    fn take(
        &mut self,
        now: Nanos,
        from: Peer,
        (offset, last): (u64, bool),
        (packet, bytes): (&Packet<'_>, &[u8]),
    ) {
        let bounds = (offset.checked_add(packet.seq()), offset.checked_add(packet.next_seq()));
        let (Some(first), Some(end)) = bounds else { return };
        if last {
            self.known = self.known.max(end);
            if packet.is_end_of_session() {
                self.sessions.end(self.known);
            }
        }
        if packet.count() == 0 {
            // A heartbeat says only which number comes next; a server's, which one it still has.
            if !packet.is_end_of_session() || end > self.next {
                self.heard_of_store(now, from, first);
            }
        } else if end <= self.next {
            self.counters.duplicates += 1;
        } else if first <= self.next {
            self.take_packet(now, first, packet);
            self.take_ready(now);
        } else {
            self.counters.early += 1;
            self.counters.evicted += u64::from(!self.reorder.insert(first, bytes));
        }
    }

    /// Whether the feed or its repairs come from this address.
    fn hears(&self, from: Peer) -> bool {
        let Some(sources) = &self.config.sources else { return true };
        sources.contains(&from) || self.servers.has(from)
    }

    /// Sets, moves or clears the request timer after `next` or `known` may have moved.
    fn watch_gap(&mut self, now: Nanos, before: u64) {
        self.unanswered = if self.next > before { 0 } else { self.unanswered };
        if self.next >= self.known && !self.sessions.awaits_end() {
            self.request_at = Nanos::NEVER;
            self.timeout_ns = self.config.request_timeout_ns;
        } else if self.request_at == Nanos::NEVER {
            self.counters.gaps += 1;
            self.request_at = now.after(self.config.request_delay_ns);
        } else if self.next > before {
            // Something came: what is missing now has its own chance to be just late, unless the
            // answer to the last request is complete and more of that gap is left.
            self.timeout_ns = self.config.request_timeout_ns;
            let answered = before < self.asked && self.next >= self.asked;
            let wait = if answered { 0 } else { self.config.request_delay_ns };
            self.request_at = now.after(wait);
        }
    }

    fn request(&mut self, now: Nanos, out: &mut Outbox) {
        if let Some(again) = self.prefer_snapshot(now, out) {
            self.request_at = again;
            return;
        }
        if self.unanswered > 0 {
            self.servers.go_on(self.next);
        }
        self.unanswered = self.unanswered.saturating_add(1);
        self.ask(out);
        self.request_at = now.after(self.timeout_ns);
        let all_asked = self.unanswered.is_multiple_of(self.servers.count().max(1));
        if all_asked && self.unanswered >= REQUESTS_AT_ONCE {
            let longest = self.config.request_timeout_max_ns.max(self.config.request_timeout_ns);
            self.timeout_ns = self.timeout_ns.saturating_mul(2).min(longest);
        }
    }

    /// Asks the server whose turn it is for the first messages that are missing.
    fn ask(&mut self, out: &mut Outbox) {
        let Some(server) = self.servers.asked() else { return };
        let missing = self.next < self.known && !self.servers.none_has(self.next);
        if self.sessions.awaits_end() && !missing {
            // What comes after its last message, wherever that is.
            let request = Request { session: self.sessions.last(), seq: BEYOND, count: 1 };
            let token = self.servers.token();
            let span = out.write(|buffer| {
                request.encode(buffer);
                buffer.extend_from_slice(&token);
            });
            out.datagram(Channel::FEED, server, span);
            self.counters.requests += 1;
            return;
        }
        let (session, seq, end) = self.sessions.of(self.next, self.known);
        let end = self.reorder.first().unwrap_or(end).min(end);
        let missing = end.saturating_sub(self.next).max(1);
        let count = missing.min(u64::from(self.config.request_messages.max(1))) as u16;
        let request = Request { session, seq, count };
        let token = self.servers.token();
        let span = out.write(|buffer| {
            request.encode(buffer);
            buffer.extend_from_slice(&token);
        });
        out.datagram(Channel::FEED, server, span);
        self.asked = self.asked.max(self.next + u64::from(count));
        self.counters.requests += 1;
    }
}

impl Node for Listener {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let now = now.now;
        if now < self.config.hears_from {
            return;
        }
        if !self.hears(from) {
            self.counters.foreign += 1;
            return;
        }
        let named =
            bytes.first_chunk().map(|name| Session(*name)).filter(|_| bytes.len() > TOKEN_FROM);
        let named = named.filter(|of| self.sessions.offset_of(*of).is_some());
        if let Some(token) = named.and_then(|session| moldudp::parse_token(session, bytes)) {
            self.counters.tokens += 1;
            if self.servers.give_token(from, token) && self.request_at != Nanos::NEVER {
                // Now the whole answer is to be had.
                self.ask(out);
            }
            return;
        }
        let packet = Packet::parse(bytes);
        let (Ok(packet), Channel::FEED, ..=limits::DATAGRAM_MAX) = (packet, channel, bytes.len())
        else {
            self.counters.malformed += 1;
            return;
        };
        let before = self.next;
        let mut named = self.sessions.named(packet.session());
        match named {
            Named::Other => {
                self.counters.other_session += 1;
                return;
            }
            Named::Past => {
                self.counters.packets += 1;
                self.counters.duplicates += 1;
                return;
            }
            Named::Later => {
                self.sessions.go_on(self.known);
                if self.sessions.last() == packet.session() {
                    named = self.sessions.named(packet.session());
                }
            }
            Named::At { .. } => {}
        }
        self.counters.packets += 1;
        if let Some(capture) = &mut self.capture {
            capture.packet(now, bytes);
        }
        match named {
            Named::At { offset, last } => self.take(now, from, (offset, last), (&packet, bytes)),
            // Where it begins is not known yet: it is asked for then.
            _ => self.counters.early += 1,
        }
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.follow(self.sessions.latest().0);
        }
        self.watch_gap(now, before);
        if self.request_at <= now {
            self.request(now, out);
        }
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.with_catch_up(now.now, |catch_up| catch_up.handle_timeout(now.now, out));
        if self.request_at <= now.now {
            self.request(now.now, out);
        }
    }

    fn next_timeout(&self) -> Nanos {
        let catch_up = self.catch_up.as_ref().map_or(Nanos::NEVER, CatchUp::next_timeout);
        self.request_at.min(catch_up)
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.handle_connect(now.now, conn, out);
        }
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        let taken = |catch_up: &mut CatchUp| catch_up.handle_stream(now.now, conn, bytes, out);
        self.with_catch_up(now.now, taken);
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, _out: &mut Outbox) {
        self.with_catch_up(now.now, |catch_up| catch_up.handle_close(now.now, conn));
    }
}
