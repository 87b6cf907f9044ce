//! Two lossy lines between a publisher and the plant, with the retransmission stores and the snapshot
//! server that a venue has, in simulated time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use feed::plant::{Update, VenueFeed};
use feed::{CatchUpConfig, ListenerConfig, SnapshotServer, SnapshotServerConfig, Subscriber};
use overlay::answers::Token;
use overlay::frame::DataBody;
use overlay::retransmission::{RetransmissionStore, StoreConfig};
use overlay::topology::{Topology, Tree};
use types::limits::MOLD_PACKET_MAX;
use types::{Channel, ClockReading, ConnId, Nanos, Node, Op, Outbox, Peer, SplitMix64};
use wire::moldudp::Session;
use zerocopy::FromZeros;

/// How it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinesConfig {
    pub seed: u64,
    /// Packets each line loses, in a million; requests and answers, too.
    pub loss_ppm: u32,
    pub streams: u8,
    /// Nothing of the first messages comes to the plant.
    pub join_at: u64,
    /// Both lines lose the packet with this message.
    pub both_lose: Option<u64>,
    /// Whether there are retransmission and snapshots.
    pub repair: bool,
}

/// Counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    pub packets: u64,
    pub lost: [u64; 2],
    pub lost_by_both: u64,
    pub first: [u64; 2],
    pub duplicates: u64,
    pub gaps: u64,
    pub requests: u64,
    pub repaired: u64,
    /// Messages that the plant lacks in the end.
    pub missing: u64,
    pub image_errors: u64,
}

/// Where things come from.
const SIDES: [Peer; 2] = [Peer::Addr(1), Peer::Addr(2)];
const STORE: Peer = Peer::Addr(3);
const SNAPSHOTS: Peer = Peer::Addr(4);
const PLANT: Peer = Peer::Addr(5);
/// Least delay of each line, and what comes on top at most: more than the distance of packets.
const DELAYS: [(u64, u64); 2] = [(50_000, 30_000), (90_000, 200_000)];
/// To servers and back.
const SERVER_DELAY: u64 = 100_000;
/// What a packet has room for, behind its header.
const PACKET_BYTES: usize = MOLD_PACKET_MAX - 20;
/// How long the end may take.
const PATIENCE: u64 = 60 * Nanos::SECOND;
/// Between two announcements of the end.
const BEAT: u64 = 100 * Nanos::MILLI;
/// The plant's wait for the other line.
const WAIT: u64 = 2 * Nanos::MILLI;

/// Something on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Line(usize, Rc<[u8]>),
    Request(Rc<[u8]>),
    Answer(Rc<[u8]>),
    Connect(u32),
    Accepted(u32),
    ToServer(u32, Rc<[u8]>),
    ToPlant(u32, Rc<[u8]>),
    LeaveServer(u32),
    LeavePlant(u32),
}

/// A session's publisher.
struct Source {
    session: Session,
    /// Number of the first message in the packet, and how many it has.
    first: u64,
    count: u16,
    body: Vec<u8>,
    store: RetransmissionStore,
}

/// See the module.
pub struct Lines {
    config: LinesConfig,
    random: SplitMix64,
    now: Nanos,
    order: u64,
    flying: BinaryHeap<Reverse<(Nanos, u64, What)>>,
    sources: Vec<Source>,
    snapshots: SnapshotServer,
    plant: VenueFeed,
    out: Outbox,
    sent: u64,
    totals: Totals,
}

fn reading(now: Nanos) -> ClockReading {
    ClockReading { now, bound_ns: 0 }
}

fn session(stream: u8) -> Session {
    Session([b'F', b'A', b'I', b'R', b'B', b'E', b'L', b'L', b'0', b'1' + stream])
}

/// No secret; in simulated time there is nobody to keep it from.
fn token(bytes: &[u8]) -> Token {
    let sum = bytes.iter().fold(7_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x9E37));
    let mut token = Token::default();
    let (one, two) = (sum.to_be_bytes(), (!sum).to_be_bytes());
    token.iter_mut().zip(one.iter().chain(&two)).for_each(|(to, byte)| *to = *byte);
    token
}

impl Lines {
    pub fn new(config: LinesConfig) -> Lines {
        let topology = Topology::new(1, 1, 1).unwrap_or_else(|_| unreachable!("one of each"));
        let tree = |stream: u8| Tree {
            topology,
            hedge: 0,
            dynamic: false,
            epoch: 1,
            stream: stream.into(),
            round_ns: Nanos::MILLI,
        };
        let source = |stream: u8| {
            let size =
                StoreConfig { datagrams: 1 << 16, bytes: 16 << 20, ..StoreConfig::default() };
            let mut store = RetransmissionStore::new(tree(stream), session(stream).0, size);
            store.prove_by(config.seed, Box::new(token));
            Source { session: session(stream), first: 1, count: 0, body: Vec::new(), store }
        };
        let sessions = || (0..config.streams).map(|stream| (session(stream), Vec::new()));
        let mut settings = ListenerConfig::new(session(0), Vec::new(), Vec::new());
        settings.orders_max = 1 << 18;
        let server = Subscriber::new(&settings, sessions());
        let snapshots = SnapshotServer::new(server, SnapshotServerConfig::default());
        settings.request_delay_ns = WAIT;
        if config.repair {
            settings.servers = vec![STORE];
            settings.catch_up = Some(CatchUpConfig::new(SNAPSHOTS));
        }
        let quiet = Nanos(PATIENCE);
        let mut plant = VenueFeed::new(&settings, sessions(), (quiet, quiet), Nanos(0));
        SIDES.iter().enumerate().for_each(|(side, from)| plant.set_side(side, Some(*from)));
        Lines {
            config,
            random: SplitMix64::new(config.seed ^ 0x0FEE_D0FE),
            now: Nanos(0),
            order: 0,
            flying: BinaryHeap::new(),
            sources: (0..config.streams).map(source).collect(),
            snapshots,
            plant,
            out: Outbox::default(),
            sent: 0,
            totals: Totals::default(),
        }
    }

    /// Messages published, all sessions together.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The plant.
    pub fn plant(&self) -> &VenueFeed {
        &self.plant
    }

    /// Snapshots that the plant took.
    pub fn snapshots(&self) -> u64 {
        self.plant.subscriber().catch_up().loaded
    }

    /// Everything counted.
    pub fn totals(&self) -> Totals {
        let counters = self.plant.subscriber().counters();
        let health = self.plant.health();
        let first = |side: usize| health.iter().map(|of| of.sides[side].first).sum();
        let lacks = self.sources.iter().zip(&health).map(|(source, of)| source.first - of.next);
        Totals {
            first: [first(0), first(1)],
            duplicates: counters.duplicates,
            gaps: counters.gaps,
            requests: counters.requests,
            repaired: counters.repaired,
            missing: lacks.sum(),
            image_errors: counters.image_errors + counters.parse_errors,
            ..self.totals
        }
    }

    /// What is not as it must be.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let totals = self.totals();
        if totals.missing > 0 {
            complaints.push(format!("{} messages are missing", totals.missing));
        }
        if !self.plant.subscriber().ended() {
            complaints.push("the end of the sessions was not heard".to_string());
        }
        if totals.image_errors > 0 {
            complaints.push(format!("{} messages contradict the books", totals.image_errors));
        }
        complaints
    }

    /// Publishes a message on a stream; on all of them what is about none.
    pub fn push(&mut self, now: Nanos, stream: Option<usize>, message: &[u8]) {
        for at in 0..self.sources.len() {
            if stream.is_some_and(|stream| stream != at) {
                continue;
            }
            if self.sources[at].body.len() + 2 + message.len() > PACKET_BYTES {
                self.release(now, at);
            }
            let source = &mut self.sources[at];
            source.body.extend_from_slice(&(message.len() as u16).to_be_bytes());
            source.body.extend_from_slice(message);
            source.count += 1;
            self.sent += 1;
        }
    }

    /// Lets time pass up to `now`; what waits goes out, now and then with what comes next.
    pub fn run(&mut self, now: Nanos, updates: &mut Vec<Update>) {
        for at in 0..self.sources.len() {
            if self.random.below(3) > 0 {
                self.release(now, at);
            }
        }
        self.pass(now);
        self.plant.take_updates(updates);
    }

    /// The sessions end; the plant has its time to hear of it.
    pub fn finish(&mut self, updates: &mut Vec<Update>) {
        let end = self.now.after(PATIENCE);
        for at in 0..self.sources.len() {
            self.release(self.now, at);
        }
        while self.now < end && !self.plant.subscriber().ended() {
            for at in 0..self.sources.len() {
                let source = &self.sources[at];
                let packet = packet(source.session, source.first, u16::MAX, &[]);
                self.send(self.now, &packet, false);
            }
            self.pass(self.now.after(BEAT));
            self.plant.take_updates(updates);
        }
    }

    fn release(&mut self, now: Nanos, at: usize) {
        let source = &mut self.sources[at];
        if source.count == 0 {
            return;
        }
        let packet = packet(source.session, source.first, source.count, &source.body);
        let count = u64::from(source.count);
        source.store.keep(&DataBody::new_zeroed(), &packet);
        source.first += count;
        (source.count, self.totals.packets) = (0, self.totals.packets + 1);
        source.body.clear();
        self.snapshots.handle_datagram(
            reading(now),
            Channel::FEED,
            SIDES[0],
            &packet,
            &mut self.out,
        );
        self.out.clear();
        let unheard = self.sent <= self.config.join_at;
        if unheard {
            return;
        }
        let chosen = self.config.both_lose.is_some_and(|n| self.sent >= n && self.sent - n < count);
        self.send(now, &packet, chosen);
    }

    fn loses(&mut self) -> bool {
        self.random.below(1_000_000) < u64::from(self.config.loss_ppm)
    }

    fn send(&mut self, now: Nanos, packet: &Rc<[u8]>, both_lose: bool) {
        let mut lost = [false; 2];
        for (side, (least, more)) in DELAYS.into_iter().enumerate() {
            let at = now.after(least + self.random.below(more));
            lost[side] = self.loses() || both_lose;
            match lost[side] {
                true => self.totals.lost[side] += 1,
                false => self.fly(at, What::Line(side, Rc::clone(packet))),
            }
        }
        self.totals.lost_by_both += u64::from(lost == [true; 2]);
    }

    fn fly(&mut self, at: Nanos, what: What) {
        self.order += 1;
        self.flying.push(Reverse((at, self.order, what)));
    }

    fn pass(&mut self, until: Nanos) {
        loop {
            let arrival = self.flying.peek().map_or(Nanos::NEVER, |Reverse((at, ..))| *at);
            let timers = self.plant.next_timeout().min(self.snapshots.next_timeout());
            let at = arrival.min(timers).max(self.now);
            if at > until {
                break;
            }
            self.now = at;
            if arrival <= timers {
                if let Some(Reverse((_, _, what))) = self.flying.pop() {
                    self.arrive(what);
                }
            } else if self.plant.next_timeout() <= at {
                self.plant.handle_timeout(reading(at), &mut self.out);
                self.carry(true);
            } else {
                self.snapshots.handle_timeout(reading(at), &mut self.out);
                self.carry(false);
            }
        }
        self.now = self.now.max(until);
    }

    fn arrive(&mut self, what: What) {
        let (now, out) = (reading(self.now), &mut self.out);
        let plant = match what {
            What::Line(side, bytes) => {
                self.plant.handle_datagram(now, Channel::FEED, SIDES[side], &bytes, out);
                true
            }
            What::Answer(bytes) => {
                self.plant.handle_datagram(now, Channel::FEED, STORE, &bytes, out);
                true
            }
            What::Request(bytes) => {
                let of = |source: &&mut Source| bytes.starts_with(&source.session.0);
                if let Some(source) = self.sources.iter_mut().find(of) {
                    source.store.handle_public_request(now.now, PLANT, &bytes, out);
                }
                false
            }
            What::Accepted(conn) => {
                self.plant.handle_connect(now, ConnId(conn), out);
                true
            }
            What::Connect(conn) => {
                self.snapshots.handle_connect(now, ConnId(conn), out);
                self.fly(self.now.after(SERVER_DELAY), What::Accepted(conn));
                false
            }
            What::ToServer(conn, bytes) => {
                self.snapshots.handle_stream(now, ConnId(conn), &bytes, out);
                false
            }
            What::ToPlant(conn, bytes) => {
                self.plant.handle_stream(now, ConnId(conn), &bytes, out);
                true
            }
            What::LeaveServer(conn) => {
                self.snapshots.handle_close(now, ConnId(conn), out);
                false
            }
            What::LeavePlant(conn) => {
                self.plant.handle_close(now, ConnId(conn), out);
                true
            }
        };
        self.carry(plant);
    }

    /// Sends what the plant, or a server, wants sent.
    fn carry(&mut self, plant: bool) {
        let ops: Vec<Op> = self.out.ops().to_vec();
        let at = self.now.after(SERVER_DELAY);
        for op in ops {
            let what = match op {
                Op::Datagram { bytes, .. } => {
                    let bytes = self.out.bytes(bytes).into();
                    if self.loses() {
                        continue;
                    }
                    if plant { What::Request(bytes) } else { What::Answer(bytes) }
                }
                Op::Stream { conn, bytes } => {
                    let bytes = self.out.bytes(bytes).into();
                    match plant {
                        true => What::ToServer(conn.0, bytes),
                        false => What::ToPlant(conn.0, bytes),
                    }
                }
                Op::Connect { conn, .. } => What::Connect(conn.0),
                Op::Close { conn } if plant => What::LeaveServer(conn.0),
                Op::Close { conn } => What::LeavePlant(conn.0),
                Op::Work { .. } => continue,
            };
            self.fly(at, what);
        }
        self.out.clear();
    }
}

fn packet(session: Session, first: u64, count: u16, body: &[u8]) -> Rc<[u8]> {
    let mut bytes = Vec::with_capacity(20 + body.len());
    bytes.extend_from_slice(&session.0);
    bytes.extend_from_slice(&first.to_be_bytes());
    bytes.extend_from_slice(&count.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes.into()
}
