//! Structure-aware mutations, lengths and counts repaired, into the MoldUDP64 client, the snapshot
//! server and its client: no panic, memory flat, and what is asked for, sent or taken over is right.

mod common;
#[path = "../../wire/tests/mutations/faults.rs"]
mod faults;

use common::{Stream, ids};
use faults::{Faults, Tally, Target, mutate};
use feed::{
    CatchUpConfig, Frozen, Listener, ListenerConfig, SnapshotServer, SnapshotServerConfig,
    Subscriber,
};
use types::{
    Channel, ClockReading, ConnId, FeedSeq, Nanos, Node, Op, Outbox, Peer, limits, sessions_later,
};
use wire::moldudp::{self, Packet, Request, Session};
use wire::soupbin::{ClientPacket, LoginRequest, RejectCode, ServerPacket, SessionName};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const SESSION: Session = Session(*b"FAIRBELL01");
const SERVER: Peer = Peer::Addr(7);
const RECEIVER: Peer = Peer::Addr(8);
const SNAPSHOTS: Peer = Peer::Addr(9);
/// Datagrams of a seed.
const ROUNDS: u64 = 400;
/// Ladders of the books and packets that wait: which seed fills them most is chance.
const BOOKS_MAX: i64 = 16 << 10;

fn at(now: u64) -> ClockReading {
    ClockReading { now: Nanos(now), bound_ns: 0 }
}

fn stream() -> Stream {
    let mut stream = Stream::new(1);
    for step in 0..600 {
        stream.step();
        if step % 97 == 50 {
            stream.auction(ids()[step % 3]);
        }
    }
    stream
}

fn config() -> ListenerConfig {
    let mut config = ListenerConfig::new(SESSION, vec![SERVER], ids());
    (config.orders_max, config.reorder_max) = (1_024, 32);
    (config.checkpoint_every, config.checkpoints_max) = (50, 16);
    config
}

/// A directory entry for the highest instrument there can be: a listener that heard it has its table
/// of books at full length, and faults in others cannot make it longer.
fn last_entry(messages: &[Vec<u8>]) -> Vec<u8> {
    let entry = messages.iter().find(|message| message[0] == b'R');
    let mut entry = entry.expect("a directory").clone();
    entry[1..3].copy_from_slice(&(limits::INSTRUMENTS_MAX as u16).to_be_bytes());
    entry[11..19].copy_from_slice(b"LAST    ");
    entry
}

/// A packet near what the client wants next, mostly in order.
fn packet(messages: &[Vec<u8>], next: u64, faults: &mut Faults) -> Vec<u8> {
    let near = faults.pick(&[0, 0, 0, 0, 0, 0, 1, 2, 9, 300]);
    let seq = if faults.chance(8) { next.saturating_sub(near) } else { next + near };
    let mut blocks = Vec::new();
    for place in 0..faults.below(5) as u64 {
        let index = (seq + place).saturating_sub(1) as usize % messages.len();
        let mut message = messages[index].clone();
        if faults.chance(6) {
            faults.spoil(&mut message);
        }
        if faults.chance(20) {
            faults.spoil_length(&mut message);
        }
        blocks.push(message);
    }
    let mut count = blocks.len() as u16;
    if faults.chance(20) {
        count = faults.pick(&[0, 1, count + 1, 0xFFFE, 0xFFFF]);
    }
    let mut bytes = SESSION.0.to_vec();
    bytes.extend(seq.to_be_bytes());
    bytes.extend(count.to_be_bytes());
    for block in &blocks {
        bytes.extend((block.len() as u16).to_be_bytes());
        bytes.extend(block);
    }
    if faults.chance(10) {
        faults.spoil(&mut bytes);
    }
    if faults.chance(40) {
        faults.spoil_length(&mut bytes);
    }
    bytes
}

/// Whatever the client sends is a request for what it wants next.
fn judge_requests(seed: u64, listener: &Listener, out: &Outbox, tally: &mut Tally) {
    for op in out.ops() {
        let Op::Datagram { channel: Channel::FEED, to: SERVER, bytes } = op else {
            panic!("seed {seed}: {op:?}");
        };
        let request = Request::parse(&out.bytes(*bytes)[..moldudp::HEADER_LEN]).expect("a request");
        // Of the session of the next message, or for the end of one that is over.
        let later = sessions_later(SESSION.0, request.session.0);
        assert!(later.is_some(), "seed {seed}: {request:?}");
        let next = request.session == listener.session();
        let next = next && request.seq == listener.session_next().0;
        assert!(next || request.seq == 1 << 62, "seed {seed}: {request:?}");
        assert!((1..=512).contains(&request.count), "seed {seed}: {request:?}");
        tally.judged += 1;
    }
}

#[test]
fn the_moldudp64_client_takes_what_is_right_and_asks_for_the_rest() {
    let stream = stream();
    let mut first = moldudp::PacketBuilder::new(SESSION, 1, 1_392);
    assert!(first.push(&last_entry(&stream.messages)));
    mutate(&Target { name: "MoldUDP64 client", slice: 60_000, grown_max: BOOKS_MAX }, |seed| {
        let (mut faults, mut tally) = (Faults::new(seed), Tally::default());
        let mut listener = Listener::new(config());
        let (mut out, mut now, mut later) = (Outbox::default(), 1_000, 0);
        listener.handle_datagram(at(0), Channel::FEED, RECEIVER, first.bytes(), &mut out);
        assert_eq!(listener.next_seq(), FeedSeq(2), "the first message is of this session");
        for _ in 0..ROUNDS {
            let bytes = packet(&stream.messages, listener.next_seq().0, &mut faults);
            let before = listener.next_seq();
            out.clear();
            let from = faults.pick(&[RECEIVER, RECEIVER, RECEIVER, SERVER]);
            listener.handle_datagram(at(now), Channel::FEED, from, &bytes, &mut out);
            judge_requests(seed, &listener, &out, &mut tally);
            tally.sent += 1;
            let parsed = Packet::parse(&bytes).ok();
            tally.framed += u64::from(parsed.is_some_and(|packet| packet.session() == SESSION));
            let named = parsed.and_then(|packet| sessions_later(SESSION.0, packet.session().0));
            later += u64::from(named.is_some_and(|later| later > 0));
            assert!(listener.next_seq() >= before, "seed {seed}");
            now += faults.pick(&[1_000, 100_000, 1_000_000, 20_000_000]);
            out.clear();
            if listener.next_timeout().0 <= now {
                listener.handle_timeout(at(now), &mut out);
                judge_requests(seed, &listener, &out, &mut tally);
            }
            tally.peak = tally.peak.max(counting::live_bytes());
        }
        let counters = listener.counters();
        let all = counters.packets + counters.malformed + counters.other_session + counters.tokens;
        assert_eq!(all, ROUNDS + 1, "seed {seed}");
        // A damaged name may be that of the next session behind the end of this one.
        let accepted = tally.framed + 1..=tally.framed + 1 + later;
        assert!(accepted.contains(&counters.packets), "seed {seed}: {counters:?}");
        tally
    });
}

/// Hears the whole stream.
fn follow(node: &mut impl Node, stream: &Stream) {
    for (seq, message) in (1..).zip(&stream.messages) {
        let mut builder = moldudp::PacketBuilder::new(SESSION, seq, 1_392);
        assert!(builder.push(message));
        let mut out = Outbox::default();
        node.handle_datagram(at(0), Channel::FEED, RECEIVER, builder.bytes(), &mut out);
    }
}

/// What a snapshot server says, a packet each.
fn dialogue(frozen: &Frozen) -> Vec<Vec<u8>> {
    let session: SessionName = SESSION.0;
    let mut packets = vec![Vec::new()];
    ServerPacket::LoginAccepted { session, sequence: 1 }.encode(&mut packets[0]).expect("short");
    for message in frozen.messages() {
        let mut bytes = Vec::new();
        ServerPacket::Sequenced(message).encode(&mut bytes).expect("short");
        packets.push(bytes);
    }
    let mut end = Vec::new();
    ServerPacket::EndOfSession.encode(&mut end).expect("short");
    packets.push(end);
    packets
}

/// A listener far behind, which has just connected to the snapshot server.
fn connected() -> (Listener, ConnId) {
    let mut config = config();
    config.catch_up = Some(CatchUpConfig::new(SNAPSHOTS));
    let (mut listener, mut out) = (Listener::new(config), Outbox::default());
    let mut heartbeat = Vec::new();
    moldudp::encode_heartbeat(SESSION, 1_000_000, &mut heartbeat);
    listener.handle_datagram(at(1_000), Channel::FEED, RECEIVER, &heartbeat, &mut out);
    let due = listener.next_timeout().0;
    listener.handle_timeout(at(due), &mut out);
    let conn = out.ops().iter().find_map(|op| match op {
        Op::Connect { conn, to: SNAPSHOTS } => Some(*conn),
        _ => None,
    });
    let conn = conn.expect("a snapshot is faster");
    listener.handle_connect(at(due), conn, &mut out);
    (listener, conn)
}

/// The packets with faults in some, behind lengths that are right mostly; how many are in order.
fn spoilt(packets: &[Vec<u8>], faults: &mut Faults, tally: &mut Tally) -> (Vec<u8>, bool) {
    let (mut bytes, mut changed) = (Vec::new(), false);
    let whole = faults.chance(4);
    for packet in packets {
        tally.sent += 1;
        let mut body = packet[2..].to_vec();
        let fault = if whole { 0 } else { faults.below(60) };
        match fault {
            1 => faults.spoil(&mut body),
            2 => faults.spoil_length(&mut body),
            3 => body[0] = faults.pick(b"+AJSUHZ?"),
            4 => continue,
            5 => bytes.extend_from_slice(packet),
            _ => {}
        }
        changed |= body != packet[2..] || fault == 5;
        let length = if fault == 6 { faults.next() as u16 } else { body.len() as u16 };
        changed |= usize::from(length) != body.len();
        tally.framed += u64::from(ServerPacket::parse(&body).is_ok());
        bytes.extend(length.to_be_bytes());
        bytes.extend(&body);
    }
    // One that was left out.
    changed |= bytes.len() != packets.iter().map(Vec::len).sum::<usize>();
    (bytes, changed)
}

#[test]
fn the_snapshot_client_takes_over_whole_snapshots_only() {
    let stream = stream();
    let mut source = Listener::new(config());
    follow(&mut source, &stream);
    let mut frozen = Frozen::default();
    frozen.take(source.image(), source.next_seq());
    let mut packets = dialogue(&frozen);
    assert!(packets.len() > 30);
    let mut entry = Vec::new();
    let last = last_entry(&stream.messages);
    ServerPacket::Sequenced(&last).encode(&mut entry).expect("short");
    packets.insert(2, entry);
    let digests: Vec<u64> = source.digests().collect();
    assert_eq!(digests, stream.digests());
    mutate(&Target { name: "GLIMPSE client", slice: 60_000, grown_max: BOOKS_MAX }, |seed| {
        let (mut faults, mut tally) = (Faults::new(seed), Tally::default());
        for _ in 0..4 {
            let (mut listener, conn) = connected();
            let (bytes, changed) = spoilt(&packets, &mut faults, &mut tally);
            let (mut rest, mut out) = (bytes.as_slice(), Outbox::default());
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(1 + faults.below(rest.len()));
                listener.handle_stream(at(2_000_000), conn, piece, &mut out);
                rest = behind;
            }
            listener.handle_close(at(3_000_000), conn, &mut out);
            tally.peak = tally.peak.max(counting::live_bytes());
            let counters = listener.catch_up();
            let ends = counters.failures + counters.loaded + counters.useless;
            assert_eq!((counters.attempts, ends), (1, 1), "seed {seed}: {counters:?}");
            if !changed {
                assert_eq!(counters.loaded, 1, "seed {seed}");
                assert_eq!(listener.next_seq(), FeedSeq(source.next_seq().0), "seed {seed}");
                assert!(listener.digests().eq(digests.iter().copied()), "seed {seed}");
            }
            tally.judged += 1;
        }
        tally
    });
}

/// What a client of the snapshot server says first, or afterwards.
fn asked(faults: &mut Faults) -> Vec<u8> {
    let login = LoginRequest {
        username: *b"GUEST ",
        password: *b"          ",
        session: faults.pick(&[SESSION.0, SESSION.0, [b' '; 10], *b"FAIRBELL02"]),
        sequence: faults.pick(&[0, 1, 1, 1, 2, u64::MAX]),
    };
    let packet = match faults.below(8) {
        0 => ClientPacket::Heartbeat,
        1 => ClientPacket::Debug(b"a word"),
        2 if faults.chance(3) => ClientPacket::Logout,
        2 => ClientPacket::Unsequenced(b"O"),
        _ => ClientPacket::Login(login),
    };
    let mut bytes = Vec::new();
    packet.encode(&mut bytes).expect("short");
    let mut body = bytes.split_off(2);
    if faults.chance(8) {
        faults.spoil(&mut body);
    }
    if faults.chance(16) {
        faults.spoil_length(&mut body);
    }
    let length = if faults.chance(40) { faults.next() as u16 } else { body.len() as u16 };
    [length.to_be_bytes().as_slice(), &body].concat()
}

/// All that one connection was sent so far is the beginning of a snapshot, or a refusal.
fn judge_sent(seed: u64, sent: &[u8], whole: &[u8], refusal: &[u8]) {
    assert!(whole.starts_with(sent) || refusal == sent, "seed {seed}: {}", sent.escape_ascii());
}

/// A server that heard the stream.
fn server(stream: &Stream) -> SnapshotServer {
    let limits = SnapshotServerConfig { connections_max: 4, ..SnapshotServerConfig::default() };
    let mut server = SnapshotServer::new(Subscriber::new(&config(), []), limits);
    follow(&mut server, stream);
    server
}

/// One connection's life: what it was sent, and whether it is open at the end.
fn visit(
    server: &mut SnapshotServer,
    (conn, now): (ConnId, &mut u64),
    faults: &mut Faults,
    tally: &mut Tally,
) -> (Vec<u8>, bool) {
    let (mut sent, mut open, mut out) = (Vec::new(), true, Outbox::default());
    server.handle_connect(at(*now), conn, &mut out);
    for _ in 0..1 + faults.below(3) {
        let bytes = asked(faults);
        tally.sent += 1;
        let whole = bytes.len() == 2 + usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        tally.framed += u64::from(whole && ClientPacket::parse(&bytes[2..]).is_ok());
        server.handle_stream(at(*now), conn, &bytes, &mut out);
        *now += faults.pick(&[1_000, 1_000_000, 30_000_000, 3_000_000_000]);
        server.handle_timeout(at(*now), &mut out);
        open &= !take_sent(&mut out, conn, &mut sent);
    }
    (sent, open)
}

#[test]
fn the_snapshot_server_sends_snapshots_or_refuses() {
    let stream = stream();
    let mut frozen = Frozen::default();
    let first = server(&stream);
    let followed = &first.feed().channels()[0];
    frozen.take(followed.image(), followed.next_seq());
    let whole = dialogue(&frozen).concat();
    let mut refusal = Vec::new();
    let code = RejectCode::SessionNotAvailable;
    ServerPacket::LoginRejected(code).encode(&mut refusal).expect("short");
    let target = Target { name: "GLIMPSE server", slice: 60_000, grown_max: 4 << 10 };
    mutate(&target, |seed| {
        let (mut faults, mut tally) = (Faults::new(seed), Tally::default());
        let (mut server, mut now) = (server(&stream), 1_000);
        for conn in (1 << 31)..(1 << 31) + 200 {
            let (sent, open) =
                visit(&mut server, (ConnId(conn), &mut now), &mut faults, &mut tally);
            judge_sent(seed, &sent, &whole, &refusal);
            assert!(server.copied_bytes() <= 4 * frozen.len(), "seed {seed}");
            assert_eq!(server.connections(), usize::from(open), "seed {seed}");
            server.handle_close(at(now), ConnId(conn), &mut Outbox::default());
            tally.peak = tally.peak.max(counting::live_bytes());
            tally.judged += 1;
        }
        let counters = server.counters();
        assert!(counters.sent > 0 && counters.rejected > 0 && counters.cut > 0, "seed {seed}");
        tally
    });
}

/// Takes what was written; whether the connection was closed.
fn take_sent(out: &mut Outbox, conn: ConnId, sent: &mut Vec<u8>) -> bool {
    let mut closed = false;
    for op in out.ops() {
        match op {
            Op::Stream { conn: to, bytes } if *to == conn => {
                assert!(!closed, "bytes after the close");
                sent.extend_from_slice(out.bytes(*bytes));
            }
            Op::Close { conn: of } => closed |= *of == conn,
            _ => {}
        }
    }
    out.clear();
    closed
}

#[test]
fn the_judge_of_snapshots_condemns_what_is_none() {
    let judged = |sent: &[u8]| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let judged = std::panic::catch_unwind(|| judge_sent(1, sent, b"whole", b"no"));
        std::panic::set_hook(hook);
        judged.is_ok()
    };
    assert!(judged(b"") && judged(b"who") && judged(b"no"));
    assert!(!judged(b"n") && !judged(b"wholes") && !judged(b"hole"));
}
