//! Joining late, or falling far behind, with a snapshot server and a store that has forgotten the rest.

use feed::{
    CatchUpConfig, CatchUpRule, Listener, ListenerConfig, SnapshotServer, SnapshotServerConfig,
    Subscriber,
};
use types::{Channel, ConnId, Nanos, Node, Op, Outbox, SplitMix64};
use wire::moldudp::{self, Request};

use crate::common::{Stream, ids};
use crate::snapshots::{
    RECEIVER, SERVED, SESSION, SNAPSHOTS, STORE, at, config, fetch, image, load, messages, packet,
    same, server, stream, written,
};

/// Who catches up, a snapshot server and a store that keeps the last messages only.
struct Net<L = Listener> {
    stream: Stream,
    store: u64,
    server: SnapshotServer,
    listener: L,
    rng: SplitMix64,
    now: u64,
    /// Streams as the listener and as the server name them.
    conns: (Option<ConnId>, u32),
}

impl Net {
    fn new(seed: u64, steps: usize, store: u64) -> Net {
        Net::of(Listener::new(catching_up()), seed, steps, store)
    }

    fn is_equal(&self) -> bool {
        let whole = image(&self.stream.messages);
        let checkpoints = self.listener.checkpoints();
        let agreed = checkpoints.iter().all(|at| {
            let image = image(&self.stream.messages[..at.seq.0 as usize]);
            ids().iter().zip(at.books).all(|(id, book)| image.digest(*id) == *book)
        });
        self.listener.next_seq().0 == self.stream.messages.len() as u64 + 1
            && same(self.listener.image(), &whole)
            && agreed
    }
}

fn catching_up() -> ListenerConfig {
    ListenerConfig { catch_up: Some(CatchUpConfig::new(SNAPSHOTS)), ..config() }
}

impl<L: Node> Net<L> {
    fn of(listener: L, seed: u64, steps: usize, store: u64) -> Net<L> {
        let stream = stream(seed, steps);
        let server = server(&stream, 1, SnapshotServerConfig::default());
        let (rng, conns) = (SplitMix64::new(seed), (None, SERVED.0));
        Net { stream, store, server, listener, rng, now: 1, conns }
    }

    /// Carries out what the listener wants, until it wants nothing more at this moment.
    fn carry(&mut self, mut out: Outbox) {
        while !out.ops().is_empty() {
            let (mut next, mut served) = (Outbox::default(), Outbox::default());
            let conn = ConnId(self.conns.1);
            for op in out.ops() {
                match op {
                    Op::Datagram { to: STORE, bytes, .. } => {
                        let request = Request::parse(&out.bytes(*bytes)[..moldudp::HEADER_LEN])
                            .expect("a request");
                        let answer = self.answer(request);
                        let now = at(self.now);
                        if !self.rng.permille(200) {
                            self.listener.handle_datagram(
                                now,
                                Channel::FEED,
                                STORE,
                                &answer,
                                &mut next,
                            );
                        }
                    }
                    Op::Connect { conn: theirs, to: SNAPSHOTS } => {
                        self.conns = (Some(*theirs), self.conns.1 + 1);
                        let conn = ConnId(self.conns.1);
                        self.server.handle_connect(at(self.now), conn, &mut served);
                        self.listener.handle_connect(at(self.now), *theirs, &mut next);
                    }
                    Op::Stream { bytes, .. } => {
                        self.server.handle_stream(
                            at(self.now),
                            conn,
                            out.bytes(*bytes),
                            &mut served,
                        );
                    }
                    Op::Close { .. } => self.server.handle_close(at(self.now), conn, &mut served),
                    other => panic!("unexpected {other:?}"),
                }
            }
            while self.server.next_timeout().0 <= self.now {
                self.server.handle_timeout(at(self.now), &mut served);
            }
            self.hand_over(&served, &mut next);
            out = next;
        }
    }

    fn hand_over(&mut self, served: &Outbox, next: &mut Outbox) {
        let (bytes, closed) = written(served, ConnId(self.conns.1));
        let Some(theirs) = self.conns.0 else { return };
        for piece in bytes.chunks(700) {
            self.listener.handle_stream(at(self.now), theirs, piece, next);
        }
        if closed {
            self.listener.handle_close(at(self.now), theirs, next);
            self.conns.0 = None;
        }
    }

    fn answer(&self, request: Request) -> Vec<u8> {
        let end = self.server.feed().channels()[0].next_seq().0;
        let first = end.saturating_sub(self.store).max(1);
        if request.seq < first {
            let mut bytes = Vec::new();
            moldudp::encode_heartbeat(SESSION, first, &mut bytes);
            return bytes;
        }
        packet(&self.stream, request.seq, usize::from(request.count).min(10))
    }

    /// A packet goes to the server and, unless it is deaf, to the listener.
    fn publish(&mut self, deaf: bool) {
        let seq = self.server.feed().channels()[0].next_seq().0;
        let bytes = packet(&self.stream, seq, 3);
        let mut out = Outbox::default();
        self.server.handle_datagram(at(self.now), Channel::FEED, RECEIVER, &bytes, &mut out);
        if !deaf && !self.rng.permille(50) {
            let now = at(self.now);
            self.listener.handle_datagram(now, Channel::FEED, RECEIVER, &bytes, &mut out);
        }
        self.carry(out);
        self.pass(Nanos::MILLI);
    }

    /// Lets time pass with all timers of both.
    fn pass(&mut self, ns: u64) {
        let end = self.now + ns;
        loop {
            let (mine, its) = (self.listener.next_timeout().0, self.server.next_timeout().0);
            let due = mine.min(its);
            if due > end {
                break;
            }
            self.now = self.now.max(due);
            let (mut out, mut served) = (Outbox::default(), Outbox::default());
            self.listener.handle_timeout(at(self.now), &mut out);
            self.server.handle_timeout(at(self.now), &mut served);
            self.hand_over(&served, &mut out);
            self.carry(out);
        }
        self.now = end;
    }

    fn finish(&mut self) {
        while self.server.feed().channels()[0].next_seq().0 <= self.stream.messages.len() as u64 {
            self.publish(false);
        }
        let mut bytes = Vec::new();
        let next = self.stream.messages.len() as u64 + 1;
        moldudp::encode_heartbeat(SESSION, next, &mut bytes);
        let mut out = Outbox::default();
        self.listener.handle_datagram(at(self.now), Channel::FEED, RECEIVER, &bytes, &mut out);
        self.carry(out);
        self.pass(10 * Nanos::SECOND);
    }
}

#[test]
fn who_starts_late_or_falls_behind_joins_by_a_snapshot() {
    for seed in 0..20 {
        let mut net = Net::new(seed, 500, 30);
        (0..50).for_each(|_| net.publish(true));
        (0..40).for_each(|_| net.publish(false));
        // The store's answers may be lost several times in a row.
        net.pass(5 * Nanos::SECOND);
        assert!(net.listener.joined().is_some(), "seed {seed}: {:?}", net.listener.catch_up());
        // A second time, in the middle.
        (0..40).for_each(|_| net.publish(true));
        net.finish();
        assert!(net.is_equal(), "seed {seed}: {:?}", net.listener);
        let (joined, counters) = (net.listener.joined().unwrap(), net.listener.catch_up());
        assert!(counters.loaded >= 2 && counters.skipped >= 120, "seed {seed}: {counters:?}");
        assert_eq!((joined.times, net.listener.first_error()), (counters.loaded, None));
    }
}

#[test]
fn a_server_that_starts_late_has_its_books_of_another() {
    for seed in 0..20 {
        let served = |config: ListenerConfig| {
            let limits = SnapshotServerConfig::default();
            let late = SnapshotServer::new(Subscriber::new(&config, []), limits);
            let mut net = Net::of(late, seed, 500, 30);
            (0..50).for_each(|_| net.publish(true));
            (0..40).for_each(|_| net.publish(false));
            net.finish();
            assert_eq!(net.listener.connections() + net.server.connections(), 0, "seed {seed}");
            let sent = messages(&fetch(&mut net.listener, SERVED, SESSION.0).0).0;
            let (loading, next) = load(sent.iter().map(Vec::as_slice)).expect("whole");
            let whole = image(&net.stream.messages);
            (same(loading.image(), &whole), net.stream.messages.len() as u64 + 1 - next.0)
        };
        assert_eq!(served(catching_up()), (true, 0), "seed {seed}");
        // The control: alone it never has them.
        let (equal, behind) = served(config());
        assert!(!equal && behind > 300, "seed {seed}: {behind} messages behind");
    }
}

#[test]
fn a_small_gap_is_repaired_and_needs_no_snapshot() {
    let mut net = Net::new(77, 500, 1_000);
    (0..30).for_each(|_| net.publish(true));
    net.finish();
    assert!(net.is_equal());
    assert_eq!((net.listener.joined(), net.listener.catch_up().attempts), (None, 0));
    assert!(net.listener.counters().repaired >= 80);
    // The same gap is not worth repairing where the rule says so.
    let mut net = Net::new(77, 500, 1_000);
    let mut config = config();
    let rule = CatchUpRule { repair_per_s: 1, ..CatchUpRule::default() };
    config.catch_up = Some(CatchUpConfig { rule, ..CatchUpConfig::new(SNAPSHOTS) });
    net.listener = Listener::new(config);
    (0..30).for_each(|_| net.publish(true));
    net.finish();
    assert!(net.is_equal() && net.listener.joined().is_some());
}
