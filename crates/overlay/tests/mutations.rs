//! Structure-aware mutations into the retransmission server: what it answers to whom is right, held
//! messages stay held, and memory stays flat.

#[path = "../../wire/tests/mutations/faults.rs"]
mod faults;

use faults::{Faults, Tally, Target, mutate};
use overlay::{
    answers::PublicRequest,
    frame::{self, DATA_OLDEST, DataBody, HopHeader, RepairRequestBody},
    mold::{self, Header, Packet},
    retransmission::{REPAIR_DATAGRAMS_MAX, RetransmissionStore, StoreConfig},
    topology::{Topology, Tree},
};
use types::{Channel, FeedSeq, Nanos, NodeId, Op, Outbox, Peer};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const SESSION: [u8; 10] = *b"FAIRBELL01";
const ASKER: Peer = Peer::Addr(9);
/// Requests of a seed.
const ROUNDS: u64 = 500;
/// Time between two datagrams, how long receivers hold one, and the bound of their clocks, ns.
const STEP: u64 = 1_000;
const HOLD: u64 = 20 * STEP;
const BOUND: u32 = 10;

/// A store, and how far the feed is.
struct Server {
    store: RetransmissionStore,
    now: u64,
    next: u64,
    /// When each datagram was sent, and its first message.
    datagrams: Vec<(u64, u64)>,
}

impl Server {
    fn new() -> Server {
        let topology = Topology::new(2, 3, 9).expect("a tree");
        let tree =
            Tree { topology, hedge: 1, dynamic: true, epoch: 1, stream: 0, round_ns: 1_000_000 };
        let config =
            StoreConfig { datagrams: 100, bytes: 4_000, touched: true, ..StoreConfig::default() };
        let store = RetransmissionStore::new(tree, SESSION, config);
        Server { store, now: 1, next: 1, datagrams: Vec::new() }
    }

    /// The feed goes on: messages of 8 bytes that say their numbers.
    fn publish(&mut self, messages: u64) {
        let mut packet =
            Header { session: SESSION, seq: self.next, count: messages as u16 }.bytes().to_vec();
        for message in self.next..self.next + messages {
            packet.extend_from_slice(&8u16.to_be_bytes());
            packet.extend_from_slice(&message.to_be_bytes());
        }
        self.datagrams.push((self.now, self.next));
        let (t_sent, deadline) = (Nanos(self.now), Nanos(self.now + HOLD));
        let body = DataBody {
            id: self.datagrams.len() as u64,
            t_sent,
            deadline,
            bound_ns: BOUND,
            stream: 0,
            hedge: 0,
            flags: 0,
        };
        self.store.keep(&body, &packet);
        self.next += messages;
        self.now += STEP;
    }

    /// The first message that receivers may still hold.
    fn held(&self) -> u64 {
        let held = |(sent, _): &&(u64, u64)| sent + HOLD + u64::from(BOUND) > self.now;
        self.datagrams.iter().rev().take_while(held).last().map_or(self.next, |(_, first)| *first)
    }
}

/// The numbers that a packet's messages say; they follow from its header.
fn numbers(seed: u64, packet: &Packet<'_>) -> std::ops::Range<u64> {
    let (mut blocks, mut next) = (packet.blocks, packet.header.seq);
    while let Some((block, rest)) = mold::block(blocks) {
        assert_eq!(block[2..], next.to_be_bytes(), "seed {seed}");
        (blocks, next) = (rest, next + 1);
    }
    assert_eq!(next - packet.header.seq, u64::from(packet.messages()), "seed {seed}");
    packet.header.seq..next
}

/// The one datagram that answers a request of the public, if there is one, against the request;
/// `held` is the first number that nobody may have yet.
fn judge_public(seed: u64, out: &Outbox, request: Option<Header>, held: u64) -> u64 {
    let [op] = out.ops() else {
        assert!(out.is_empty(), "seed {seed}");
        return 0;
    };
    let Op::Datagram { channel: Channel::FEED, to: ASKER, bytes } = op else {
        panic!("seed {seed}: {op:?}");
    };
    let request = request.expect("an answer to no request");
    let packet = Packet::parse(out.bytes(*bytes)).expect("a packet");
    assert_eq!(packet.header.session, SESSION, "seed {seed}");
    let told = numbers(seed, &packet);
    match told.is_empty() {
        true => assert!(packet.header.seq > request.seq, "seed {seed}: what is still there"),
        false => assert_eq!(packet.header.seq, request.seq, "seed {seed}"),
    }
    assert!(told.end - told.start <= u64::from(request.count), "seed {seed}");
    assert!(told.end <= held, "seed {seed}: {told:?}, but {held} is held");
    1
}

/// Repairs: whole datagrams, in order, that hold something of what was asked for.
fn judge_repairs(seed: u64, out: &Outbox, request: &RepairRequestBody, to: NodeId) -> u64 {
    let end = request.from.0.saturating_add(u64::from(request.count));
    assert!(out.ops().len() <= REPAIR_DATAGRAMS_MAX + 1, "seed {seed}");
    for op in out.ops() {
        let Op::Datagram { to: Peer::Node(node), bytes, .. } = op else {
            panic!("seed {seed}: {op:?}");
        };
        assert_eq!(*node, to, "seed {seed}");
        let (_, rest) = HopHeader::read(out.bytes(*bytes)).expect("a header");
        let (body, rest) = frame::body::<DataBody>(rest).expect("a body");
        let packet = Packet::parse(rest).expect("a packet");
        let told = numbers(seed, &packet);
        let useful = told.start < end && told.end > request.from.0;
        assert!(useful || body.flags & DATA_OLDEST != 0, "seed {seed}: {told:?}");
    }
    out.ops().len() as u64
}

/// A number near what the store has.
fn near(server: &Server, faults: &mut Faults) -> u64 {
    match faults.below(16) {
        0 => faults.next(),
        1 => u64::MAX - faults.below(3) as u64,
        _ => server.next.saturating_sub(faults.below(700) as u64).saturating_add(20),
    }
}

fn ask_publicly(seed: u64, server: &mut Server, faults: &mut Faults, out: &mut Outbox) -> [u64; 2] {
    let count = faults.pick(&[0, 1, 2, 3, 50, 0xFFFE, 0xFFFF]);
    let seq = near(server, faults);
    let mut bytes = Header { session: SESSION, seq, count }.bytes().to_vec();
    // Plain, with a token that nobody gave, or padded.
    bytes.resize(bytes.len() + faults.pick(&[0, 0, 16, 17, 480, 1_372]), seq as u8);
    if faults.chance(8) {
        faults.spoil(&mut bytes);
    }
    if faults.chance(16) {
        faults.spoil_length(&mut bytes);
    }
    let read = PublicRequest::read(&bytes).map(|request| request.wanted);
    let framed = read.is_some_and(|header| header.session == SESSION);
    server.store.handle_public_request(Nanos(server.now), ASKER, &bytes, out);
    [u64::from(framed), judge_public(seed, out, read, server.held())]
}

fn ask_for_repair(seed: u64, server: &mut Server, faults: &mut Faults, out: &mut Outbox) -> u64 {
    let request = RepairRequestBody {
        from: FeedSeq(near(server, faults)),
        count: faults.pick(&[0, 1, 3, 64, 10_000, u32::MAX]),
        stream: faults.pick(&[0, 0, 0, 0, 1]),
        reserved: 0,
    };
    let sender = NodeId(faults.pick(&[4, 5, 12, 1, 0xFFFF]));
    server.store.handle_repair_request(sender, &request, out);
    judge_repairs(seed, out, &request, sender)
}

#[test]
fn the_retransmission_server_answers_what_is_asked_and_public() {
    let target = Target { name: "retransmission requests", slice: 60_000, grown_max: 4 << 10 };
    mutate(&target, |seed| {
        let (mut faults, mut tally) = (Faults::new(seed), Tally::default());
        let (mut server, mut out) = (Server::new(), Outbox::default());
        server.datagrams.reserve(ROUNDS as usize);
        for _ in 0..ROUNDS {
            server.publish(1 + faults.below(3) as u64);
            out.clear();
            tally.sent += 1;
            if faults.chance(4) {
                tally.judged += ask_for_repair(seed, &mut server, &mut faults, &mut out);
                tally.framed += 1;
            } else {
                let [framed, judged] = ask_publicly(seed, &mut server, &mut faults, &mut out);
                tally.framed += framed;
                tally.judged += judged;
            }
            tally.peak = tally.peak.max(counting::live_bytes());
        }
        let stats = server.store.stats();
        assert!(stats.public_replies > 0 && stats.repaired_datagrams > 0, "seed {seed}: {stats:?}");
        let answers = server.store.answers();
        assert!(answers.unproven_out <= 3 * answers.unproven_in, "seed {seed}: {answers:?}");
        assert!(answers.proven == 0 && answers.unproven_out > 0, "seed {seed}: {answers:?}");
        assert!(stats.too_old > 0 && stats.too_early > 0 && stats.refused > 0, "seed {seed}");
        tally
    });
}

#[test]
fn the_judge_condemns_what_is_held_and_what_was_not_asked_for() {
    let judged = |request: Option<Header>, held: u64| {
        let mut server = Server::new();
        (0..30).for_each(|_| server.publish(1));
        let mut out = Outbox::default();
        let mut asked = Header { session: SESSION, seq: 3, count: 5 }.bytes().to_vec();
        asked.resize(100, 0);
        server.store.handle_public_request(Nanos(server.now), ASKER, &asked, &mut out);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            judge_public(1, &out, request, held)
        }));
        std::panic::set_hook(hook);
        judged.ok()
    };
    let asked = Header { session: SESSION, seq: 3, count: 5 };
    assert_eq!(judged(Some(asked), 9), Some(1));
    assert_eq!(judged(Some(asked), 7), None);
    assert_eq!(judged(Some(Header { seq: 2, ..asked }), 9), None);
    assert_eq!(judged(Some(Header { count: 4, ..asked }), 9), None);
    assert_eq!(judged(None, 9), None);
}
