//! A node that follows the released feed and serves snapshots of its books over SoupBinTCP.
//!
//! A login asks for a session of the feed (blank: the one there is) from message 1; user name and
//! password are not looked at, since all that is shown is public: the books are those of a
//! [`Subscriber`] to a receiver's released feed. The answer is one [`Frozen`] copy as sequenced
//! messages, end of session, and the connection is closed.
//!
//! A frozen copy rather than a walk along the living books: only a copy is of one instant whatever
//! trades meanwhile, and it costs the feed one pass over the orders. Copies are shared by logins
//! that come within `share_ns`, further apart when [`COPIES_MAX`] are being sent, and their memory is
//! used again. All connections together get `slice_bytes` per `slice_ns`, the same for every address
//! that has some. Who does not log in or does not read in time is cut off, the latter by the driver's
//! bound on unread bytes too; and when places are short the address that holds the most of them
//! gives one up, so that nobody keeps others from their snapshots by being there.

use std::collections::BTreeMap;

use types::{
    Address, Admission, AdmissionConfig, Channel, ClockReading, ConnId, Nanos, Node, Outbox, Peer,
    Remote, Yields,
};
use wire::soupbin::{RejectCode, ServerEvent, ServerSession};

use crate::{snapshot::Frozen, subscriber::Subscriber};

/// Copies of one session's books that are made while others are still being sent; then the newest is
/// sent to whoever logs in.
const COPIES_MAX: usize = 16;

/// Limits of a snapshot server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotServerConfig {
    /// Snapshots being sent at one time: whoever logs in beyond that is turned away, or the latest of
    /// the address that gets the most.
    pub connections_max: usize,
    /// Places of connections that have not logged in, and the time that they have for it.
    pub strangers: AdmissionConfig,
    /// Longest time from the login to the end of the snapshot, ns.
    pub sending_ns: u64,
    /// Time within which logins get the same copy, ns.
    pub share_ns: u64,
    /// Most bytes sent at once, over all connections.
    pub slice_bytes: usize,
    /// Time between two slices, ns.
    pub slice_ns: u64,
}

impl Default for SnapshotServerConfig {
    fn default() -> Self {
        SnapshotServerConfig {
            connections_max: 64,
            strangers: AdmissionConfig {
                places: 128,
                places_per_source: 96,
                patience_ns: 2 * Nanos::SECOND,
                yields: Yields::Oldest,
            },
            sending_ns: 10 * Nanos::SECOND,
            share_ns: 20 * Nanos::MILLI,
            slice_bytes: 64 << 10,
            slice_ns: Nanos::MILLI,
        }
    }
}

/// What a snapshot server has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SnapshotServerCounters {
    /// Number of connections taken.
    pub connections: u64,
    /// Number of connections closed because their place was needed or taken.
    pub refused: u64,
    /// Number of logins refused: another session, or another number than the first.
    pub rejected: u64,
    /// Number of copies of the books made.
    pub copies: u64,
    /// Number of snapshots sent to their end.
    pub sent: u64,
    /// Number of connections cut: no login or not done in time, or against the protocol.
    pub cut: u64,
    /// Number of connections that the other side closed before the end.
    pub left: u64,
}

/// A copy of the books, and the number of connections that it is sent to.
#[derive(Debug, Default)]
struct Shared {
    /// Index of the listener whose books the copy is of.
    of: usize,
    frozen: Frozen,
    taken_at: Nanos,
    readers: usize,
}

/// The state of one connection.
struct Serving {
    session: ServerSession,
    from: Option<Address>,
    /// Index of the copy, and how many bytes of it were sent; `None`: not logged in.
    sending: Option<(usize, usize)>,
}

/// What the bytes of a client amount to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    /// With the client whose books are wanted, if there is one.
    Login(Option<usize>),
    Leave,
    Wrong,
}

/// A node that follows the released feed and serves snapshots of its books.
pub struct SnapshotServer {
    feed: Subscriber,
    config: SnapshotServerConfig,
    connections: BTreeMap<ConnId, Serving>,
    /// Connections that have not logged in.
    strangers: Admission<ConnId>,
    /// Connections that have logged in.
    served: Admission<ConnId>,
    copies: Vec<Shared>,
    slice_at: Nanos,
    /// Connection that got the last slice.
    turn: ConnId,
    counters: SnapshotServerCounters,
}

impl SnapshotServer {
    /// Serves the books of what `feed` follows.
    pub fn new(feed: Subscriber, config: SnapshotServerConfig) -> SnapshotServer {
        let served = AdmissionConfig {
            places: config.connections_max,
            places_per_source: config.connections_max,
            patience_ns: config.sending_ns,
            yields: Yields::Newest,
        };
        SnapshotServer {
            feed,
            config,
            connections: BTreeMap::new(),
            strangers: Admission::new(config.strangers),
            served: Admission::new(served),
            copies: Vec::new(),
            slice_at: Nanos::NEVER,
            turn: ConnId(0),
            counters: SnapshotServerCounters::default(),
        }
    }

    /// Takes the packets that its listeners recorded ([`Subscriber::take_captured`]).
    pub fn take_captured(&mut self) -> Vec<Vec<u8>> {
        self.feed.take_captured()
    }

    /// The listeners whose books are served.
    pub fn feed(&self) -> &Subscriber {
        &self.feed
    }

    /// What was counted so far.
    pub fn counters(&self) -> SnapshotServerCounters {
        self.counters
    }

    /// Number of connections at present.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Bytes of all copies together.
    pub fn copied_bytes(&self) -> usize {
        self.copies.iter().map(|copy| copy.frozen.len()).sum()
    }

    /// The place of a copy of a client's books for a login now.
    fn copy(&mut self, now: Nanos, of: usize) -> usize {
        let fresh = |copy: &Shared| {
            let young = now.since(copy.taken_at) <= self.config.share_ns;
            copy.of == of && !copy.frozen.is_empty() && young
        };
        let used = |copy: &&Shared| copy.of == of && copy.readers > 0 && !copy.frozen.is_empty();
        let found = self.copies.iter().position(fresh).or_else(|| {
            let many = self.copies.iter().filter(used).count() >= COPIES_MAX;
            let all = self.copies.iter().enumerate().filter(|(_, copy)| many && used(copy));
            all.max_by_key(|(_, copy)| copy.taken_at).map(|(place, _)| place)
        });
        let place = found.or_else(|| self.copies.iter().position(|copy| copy.readers == 0));
        let place = place.unwrap_or_else(|| {
            self.copies.push(Shared::default());
            self.copies.len() - 1
        });
        let client = self.feed.channels().get(of);
        if let (None, Some(copy), Some(client)) = (found, self.copies.get_mut(place), client) {
            copy.frozen.take(client.image(), client.session_next());
            (copy.of, copy.taken_at) = (of, now);
            self.counters.copies += 1;
        }
        if let Some(copy) = self.copies.get_mut(place) {
            copy.readers += 1;
        }
        place
    }

    fn forget(&mut self, conn: ConnId) -> Option<Serving> {
        self.strangers.leave(conn);
        self.served.leave(conn);
        let serving = self.connections.remove(&conn)?;
        if let Some(copy) = serving.sending.and_then(|(place, _)| self.copies.get_mut(place)) {
            copy.readers = copy.readers.saturating_sub(1);
        }
        Some(serving)
    }

    fn cut(&mut self, conn: ConnId, out: &mut Outbox) {
        if self.forget(conn).is_some() {
            self.counters.cut += 1;
            out.close(conn);
        }
    }

    /// Closes a connection whose place is needed.
    fn turn_away(&mut self, conn: ConnId, out: &mut Outbox) {
        if self.forget(conn).is_some() {
            self.counters.refused += 1;
            out.close(conn);
        }
    }

    /// Answers a login: accepts it and chooses a copy, or refuses it.
    fn answer(&mut self, now: Nanos, conn: ConnId, wanted: Option<usize>, out: &mut Outbox) {
        self.strangers.leave(conn);
        let from = self.connections.get(&conn).and_then(|serving| serving.from);
        let goes = wanted.and_then(|_| self.served.arrive(now, conn, from));
        if let Some(goes) = goes {
            self.turn_away(goes, out);
        }
        if !self.connections.contains_key(&conn) {
            return;
        }
        let place = wanted.map(|of| self.copy(now, of));
        let client = wanted.and_then(|of| self.feed.channels().get(of));
        let name = client.map(|client| client.session().0);
        let Some(serving) = self.connections.get_mut(&conn) else { return };
        let session = &mut serving.session;
        let span = out.write(|buffer| {
            let answered = match name {
                Some(name) => session.accept_login(now, name, 1, buffer),
                None => session.reject_login(RejectCode::SessionNotAvailable, buffer),
            };
            // Fails in no state in which a login is reported.
            debug_assert!(answered.is_ok());
        });
        out.stream(conn, span);
        match place {
            Some(place) => {
                serving.sending = Some((place, 0));
                self.slice_at = self.slice_at.min(now);
            }
            None => {
                self.counters.rejected += 1;
                self.forget(conn);
                out.close(conn);
            }
        }
    }

    /// Sends everybody the next part, beginning behind the one who came last; addresses share alike.
    fn slice(&mut self, now: Nanos, out: &mut Outbox) {
        let mut readers: Vec<ConnId> = self.connections.keys().copied().collect();
        let first = readers.partition_point(|conn| *conn <= self.turn);
        readers.rotate_left(first);
        let source = |conn: &ConnId| {
            let serving = self.connections.get(conn).filter(|serving| serving.sending.is_some())?;
            Some(serving.from.map(|from| from.source()))
        };
        let mut sources: BTreeMap<Option<Address>, usize> = BTreeMap::new();
        readers.retain(|conn| {
            source(conn).is_some_and(|of| {
                *sources.entry(of).or_default() += 1;
                true
            })
        });
        let each = self.config.slice_bytes / sources.len().max(1);
        let shares: Vec<usize> = readers
            .iter()
            .map(|conn| source(conn).and_then(|of| sources.get(&of)).map_or(0, |of| each / of))
            .collect();
        for (conn, share) in readers.into_iter().zip(shares) {
            self.turn = conn;
            if self.send_part(now, conn, share, out) {
                self.counters.sent += 1;
                self.forget(conn);
                out.close(conn);
            }
        }
        let waiting = self.connections.values().any(|serving| serving.sending.is_some());
        self.slice_at = if waiting { now.after(self.config.slice_ns.max(1)) } else { Nanos::NEVER };
    }

    /// Sends one connection at least one message, up to `share` bytes; true at the end.
    fn send_part(&mut self, now: Nanos, conn: ConnId, share: usize, out: &mut Outbox) -> bool {
        let Some(serving) = self.connections.get_mut(&conn) else { return false };
        let Some((copy, mut place)) = serving.sending else { return false };
        let Some(frozen) = self.copies.get(copy).map(|copy| &copy.frozen) else { return false };
        let (session, from, mut done) = (&mut serving.session, place, false);
        let span = out.write(|buffer| {
            while place == from || place - from < share {
                let Some((message, next)) = frozen.message(place) else {
                    done = session.end_session(now, buffer).is_ok();
                    break;
                };
                // The session is active and no message too long.
                if session.send_sequenced(now, message, buffer).is_err() {
                    break;
                }
                place = next;
            }
        });
        out.stream(conn, span);
        serving.sending = Some((copy, place));
        done
    }
}

impl Node for SnapshotServer {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.feed.handle_datagram(now, channel, from, bytes, out);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.feed.handle_timeout(now, out);
        let now = now.now;
        while let Some(conn) = self.strangers.expire(now).or_else(|| self.served.expire(now)) {
            self.cut(conn, out);
        }
        if self.slice_at <= now {
            self.slice(now, out);
        }
    }

    fn next_timeout(&self) -> Nanos {
        let until = self.strangers.next_timeout().min(self.served.next_timeout());
        let own = self.slice_at.min(until);
        own.min(self.feed.next_timeout())
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.handle_accept(now, conn, &Remote::default(), out);
    }

    fn handle_accept(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        remote: &Remote,
        out: &mut Outbox,
    ) {
        if self.feed.owns(conn) {
            self.feed.handle_connect(now, conn, out);
            return;
        }
        self.counters.connections += 1;
        let (session, from) = (ServerSession::new(now.now), remote.address);
        self.connections.insert(conn, Serving { session, from, sending: None });
        if let Some(oldest) = self.strangers.arrive(now.now, conn, from) {
            self.turn_away(oldest, out);
        }
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        if self.feed.owns(conn) {
            self.feed.handle_stream(now, conn, bytes, out);
            return;
        }
        let channels = self.feed.channels();
        let named = |name: &[u8]| match (name, channels) {
            // No name says which when there are several.
            ([], [_]) => Some(0),
            ([], _) => None,
            _ => channels.iter().position(|of| of.session().0.trim_ascii_end() == name),
        };
        let Some(serving) = self.connections.get_mut(&conn) else { return };
        let mut said = Said::Nothing;
        serving.session.handle_bytes(now.now, bytes, |event| match event {
            ServerEvent::Login { session, sequence, .. } => {
                said = Said::Login(named(session).filter(|_| sequence <= 1));
            }
            ServerEvent::Unsequenced(_) => {}
            ServerEvent::LogoutRequest => said = Said::Leave,
            ServerEvent::Violation(_) | ServerEvent::Dead => said = Said::Wrong,
        });
        match said {
            Said::Nothing => {}
            Said::Login(wanted) => self.answer(now.now, conn, wanted, out),
            Said::Leave => {
                self.counters.left += 1;
                self.forget(conn);
                out.close(conn);
            }
            Said::Wrong => self.cut(conn, out),
        }
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if self.feed.owns(conn) {
            self.feed.handle_close(now, conn, out);
        } else if self.forget(conn).is_some() {
            self.counters.left += 1;
        }
    }
}
