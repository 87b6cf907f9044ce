//! A listener of a feed that is spread over several MoldUDP64 sessions, one per tree.
//!
//! Each session has its own client with its own sequence, gaps, digests and books; which one a
//! datagram is for its session says. What is of no known session goes to the first client, which
//! counts it. With one session this is that client and nothing more.

use types::{
    Channel, ClockReading, ConnId, InstrumentId, Nanos, Node, Outbox, Peer, sessions_later,
};
use wire::moldudp::Session;

use crate::{
    catch_up::{CatchUpCounters, NAME_RANGES},
    listener::{Listener, ListenerConfig, ListenerCounters},
    plant::Update,
};

/// Listeners for the sessions of a feed, one for each.
#[derive(Debug)]
pub struct Subscriber {
    sessions: Vec<Session>,
    clients: Vec<Listener>,
}

impl Subscriber {
    /// Follows these sessions, the first 16, each for its instruments; all else is as in `settings`,
    /// whose own session and instruments are followed when there are none.
    pub fn new(
        settings: &ListenerConfig,
        channels: impl IntoIterator<Item = (Session, Vec<InstrumentId>)>,
    ) -> Subscriber {
        let (mut sessions, mut clients) = (Vec::new(), Vec::new());
        for (names, (session, instruments)) in (0..NAME_RANGES).zip(channels) {
            sessions.push(session);
            let mut settings = ListenerConfig { session, instruments, ..settings.clone() };
            if let Some(catch_up) = &mut settings.catch_up {
                catch_up.names = names;
            }
            if let Some(capture) = &mut settings.capture {
                // So that files of several sessions can be merged into one.
                capture.to.0[3] = capture.to.0[3].wrapping_add(names as u8);
            }
            clients.push(Listener::new(settings));
        }
        if clients.is_empty() {
            sessions.push(settings.session);
            clients.push(Listener::new(settings.clone()));
        }
        Subscriber { sessions, clients }
    }

    /// The listeners, in the order of their sessions.
    pub fn channels(&self) -> &[Listener] {
        &self.clients
    }

    /// Takes the packets recorded since the last time, by session ([`crate::Capture::take_packets`]).
    pub fn take_captured(&mut self) -> Vec<Vec<u8>> {
        let captures = self.clients.iter_mut().filter_map(Listener::capture_mut);
        captures.map(crate::Capture::take_packets).collect()
    }

    /// The client of the session that carries an instrument: the one whose directory of the day has it, for it may have
    /// moved to another shard between two days. Where none has, as between the begin of a day and its directory, the
    /// one of the stream that had it `before`, or the one that was told to follow it, or the first.
    pub fn carrying(&self, of: InstrumentId, before: Option<Session>) -> Option<&Listener> {
        let lists = |client: &&Listener| client.image().directory_entry(of).is_some();
        let had = |client: &&Listener| Some(client.first_session()) == before;
        let told = |client: &&Listener| client.instruments().contains(&of);
        let all = || self.clients.iter();
        let unlisted = || all().find(had).or_else(|| all().find(told));
        all().find(lists).or_else(unlisted).or(self.clients.first())
    }

    /// The client of a session, or of one of the same stream on an earlier day.
    pub fn of_session(&self, session: Session) -> Option<&Listener> {
        self.clients.get(self.place(&session.0)?)
    }

    /// Sets the addresses that the feed comes from; others but the servers' are ignored from now
    /// on.
    pub fn set_sources(&mut self, sources: Vec<Peer>) {
        self.clients.iter_mut().for_each(|client| client.set_sources(sources.clone()));
    }

    /// From now on trades and changes of best prices are told as updates, those of each session as of
    /// a line of its own, in the order of the sessions.
    pub fn tell_ticks(&mut self) {
        (0..).zip(&mut self.clients).for_each(|(line, client)| client.tell_ticks(line));
    }

    /// Moves the updates that are new to the end of `to`.
    pub fn take_ticks(&mut self, to: &mut Vec<Update>) {
        self.clients.iter_mut().for_each(|client| client.take_ticks(to));
    }

    /// From now on messages are kept until somebody takes them ([`Subscriber::take_messages`]).
    pub fn tell_messages(&mut self) {
        self.clients.iter_mut().for_each(Listener::tell_messages);
    }

    /// Tells the messages taken in sequence since the last time, each with the index of its session's listener.
    pub fn take_messages(&mut self, mut told: impl FnMut(usize, &[u8])) {
        for (index, client) in self.clients.iter_mut().enumerate() {
            client.take_messages(|message| told(index, message));
        }
    }

    /// Index of the listener that a session is of.
    pub(crate) fn place(&self, session: &[u8; 10]) -> Option<usize> {
        self.sessions.iter().position(|of| sessions_later(of.0, *session).is_some())
    }

    /// Whether one of the listeners opened this stream.
    pub(crate) fn owns(&self, conn: ConnId) -> bool {
        self.clients.iter().any(|client| client.owns(conn))
    }

    /// What the snapshot clients of all sessions have counted, in sum.
    pub fn catch_up(&self) -> CatchUpCounters {
        let counters = self.clients.iter().map(Listener::catch_up);
        counters.fold(CatchUpCounters::default(), |sum, each| sum + each)
    }

    /// Whether every session has ended and all of it was taken.
    pub fn ended(&self) -> bool {
        self.clients.iter().all(Listener::ended)
    }

    /// What the listeners of all sessions have counted, in sum.
    pub fn counters(&self) -> ListenerCounters {
        let counters = self.clients.iter().map(Listener::counters);
        counters.fold(ListenerCounters::default(), |sum, each| sum + each)
    }
}

impl Node for Subscriber {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let known = bytes.first_chunk().and_then(|session| self.place(session));
        if let Some(client) = self.clients.get_mut(known.unwrap_or(0)) {
            client.handle_datagram(now, channel, from, bytes, out);
        }
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.clients.iter_mut().for_each(|client| client.handle_timeout(now, out));
    }

    fn next_timeout(&self) -> Nanos {
        let due = self.clients.iter().map(Node::next_timeout).min();
        due.unwrap_or(Nanos::NEVER)
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.owns(conn)) {
            client.handle_connect(now, conn, out);
        }
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.owns(conn)) {
            client.handle_stream(now, conn, bytes, out);
        }
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.owns(conn)) {
            client.handle_close(now, conn, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Instrument, MarketEvent, Op, Price, Qty, Symbol, SystemEventCode};
    use wire::itch::Encoder;
    use wire::moldudp::{Request, TOKEN_LEN};

    const NOW: ClockReading = ClockReading { now: Nanos(1), bound_ns: 0 };

    fn packet(session: &[u8; 10], seq: u64, count: u16) -> Vec<u8> {
        let mut bytes = session.to_vec();
        bytes.extend(seq.to_be_bytes());
        bytes.extend(count.to_be_bytes());
        // A system event that means nothing to a book.
        let message = [b'S', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'O'];
        for _ in 0..count {
            bytes.extend((message.len() as u16).to_be_bytes());
            bytes.extend(message);
        }
        bytes
    }

    #[test]
    fn sessions_are_told_apart_and_gaps_are_asked_for_by_session() {
        let (one, two) = (Session(*b"FAIRBELL01"), Session(*b"FAIRBELL02"));
        let settings = ListenerConfig::new(one, vec![Peer::Addr(9)], Vec::new());
        let ids = [vec![InstrumentId(1), InstrumentId(3)], vec![InstrumentId(2)]];
        let mut ear = Subscriber::new(&settings, [one, two].into_iter().zip(ids));
        let mut out = Outbox::default();
        let mut give = |ear: &mut Subscriber, session: &[u8; 10], seq, count| {
            let bytes = packet(session, seq, count);
            ear.handle_datagram(NOW, Channel::FEED, Peer::Addr(1), &bytes, &mut out);
        };
        give(&mut ear, b"FAIRBELL01", 1, 3);
        give(&mut ear, b"FAIRBELL02", 2, 1);
        give(&mut ear, b"FAIRBELL07", 1, 1);
        let next: Vec<u64> = ear.channels().iter().map(|client| client.next_seq().0).collect();
        assert_eq!(next, [4, 1]);
        let counters = ear.counters();
        assert_eq!((counters.messages, counters.early, counters.other_session), (3, 1, 1));
        let due = ear.next_timeout();
        ear.handle_timeout(ClockReading { now: due, bound_ns: 0 }, &mut out);
        let [Op::Datagram { to: Peer::Addr(9), bytes, .. }] = out.ops() else {
            panic!("one request");
        };
        let request = Request::parse(&out.bytes(*bytes)[..20]).unwrap();
        assert_eq!((request.session, request.seq, request.count), (two, 1, 1));
        // The token that the server gives is for that session.
        let token = [packet(b"FAIRBELL02", 1, 0), vec![7; TOKEN_LEN]].concat();
        ear.handle_datagram(NOW, Channel::FEED, Peer::Addr(9), &token, &mut Outbox::default());
        assert_eq!((ear.counters().tokens, ear.counters().malformed), (1, 0));
        let of = |id| ear.carrying(InstrumentId(id), None).map(Listener::session);
        assert_eq!([of(2), of(4)], [Some(two), Some(one)], "the one that was told, or the first");
    }

    #[test]
    fn an_instrument_is_carried_by_the_session_whose_directory_has_it() {
        let sessions = [Session(*b"FAIRBELL01"), Session(*b"FAIRBELL02")];
        let of = Instrument {
            id: InstrumentId(1),
            symbol: Symbol(*b"AAA     "),
            tick: Price(1),
            price_max: Price(1 << 20),
            qty_max: Qty(100),
            lot_decimals: 0,
        };
        let encoder = Encoder::new(&[of], Nanos(0));
        let message = |event: MarketEvent| {
            let mut bytes = Vec::new();
            encoder.encode(&event, NOW.now, &mut bytes).expect("valid");
            bytes
        };
        let begin = message(MarketEvent::SystemEvent { code: SystemEventCode::StartOfMessages });
        let directory = message(MarketEvent::Directory { instrument: of.id });
        let settings = ListenerConfig::new(sessions[0], Vec::new(), Vec::new());
        // As the configuration has it for good.
        let told = [vec![of.id], Vec::new()];
        let mut ear = Subscriber::new(&settings, sessions.into_iter().zip(told));
        let give = |ear: &mut Subscriber, session: Session, seq: u64, messages: &[&Vec<u8>]| {
            let mut bytes = session.0.to_vec();
            bytes.extend(seq.to_be_bytes());
            bytes.extend((messages.len() as u16).to_be_bytes());
            for message in messages {
                bytes.extend((message.len() as u16).to_be_bytes());
                bytes.extend(*message);
            }
            let mut out = Outbox::default();
            ear.handle_datagram(NOW, Channel::FEED, Peer::Addr(1), &bytes, &mut out);
        };
        let carrying =
            |ear: &Subscriber, before| ear.carrying(of.id, before).map(Listener::session);
        assert_eq!(carrying(&ear, None), Some(sessions[0]), "told, and nothing heard");
        give(&mut ear, sessions[0], 1, &[&begin, &directory]);
        give(&mut ear, sessions[1], 1, &[&begin]);
        assert_eq!(carrying(&ear, None), Some(sessions[0]));
        // It moves between two days.
        give(&mut ear, sessions[0], 3, &[&begin]);
        assert_eq!(carrying(&ear, Some(sessions[1])), Some(sessions[1]), "where it was before");
        give(&mut ear, sessions[1], 2, &[&begin, &directory]);
        assert_eq!(carrying(&ear, None), Some(sessions[1]));
    }

    #[test]
    fn captures_of_two_sessions_have_destinations_of_their_own() {
        use crate::pcap::{Payload, Pcap};
        let sessions = [*b"FAIRBELL01", *b"FAIRBELL02"];
        let mut settings = ListenerConfig::new(Session(sessions[0]), Vec::new(), Vec::new());
        settings.capture = Some(crate::CaptureConfig {
            to: ([233, 252, 0, 1], 26_400),
            packet_bytes_max: 1 << 10,
            message_bytes_max: Some(0),
            quote_every: 0,
            quotes_max: 0,
        });
        let channels = sessions.map(|session| (Session(session), Vec::new()));
        let mut ear = Subscriber::new(&settings, channels);
        for session in &sessions {
            let (bytes, mut out) = (packet(session, 1, 1), Outbox::default());
            ear.handle_datagram(NOW, Channel::FEED, Peer::Addr(1), &bytes, &mut out);
        }
        for (channel, last) in ear.channels().iter().zip([1, 2]) {
            let capture = channel.capture().expect("configured").packets();
            let frames: Vec<_> = Pcap::new(capture).expect("pcap").collect();
            let [Ok(frame)] = &frames[..] else { panic!("one frame: {frames:?}") };
            assert!(
                matches!(frame.payload, Payload::Udp([233, 252, 0, at], 26_400, _) if at == last)
            );
        }
        let captures = ear.channels().iter().filter_map(Listener::capture);
        let kept: Vec<Vec<u8>> = captures.map(|capture| capture.packets().to_vec()).collect();
        assert_eq!(ear.take_captured(), kept);
        assert_eq!(ear.take_captured(), [[0u8; 0]; 2], "taken once");
    }
}
