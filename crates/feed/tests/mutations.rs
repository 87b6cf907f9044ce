//! Structure-aware mutations, lengths and counts repaired, into the MoldUDP64 client and the client
//! of the snapshot server: no panic, memory flat, and what is asked for or taken over is right.

mod common;
#[path = "../../wire/tests/mutations/faults.rs"]
mod faults;

use common::{Stream, ids};
use faults::{Faults, Tally, mutate};
use feed::{CatchUpConfig, Frozen, Listener, ListenerConfig};
use types::{Channel, ClockReading, ConnId, FeedSeq, Nanos, Node, Op, Outbox, Peer};
use wire::moldudp::{self, Packet, Request, Session};
use wire::soupbin::{ServerPacket, SessionName};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const SESSION: Session = Session(*b"FAIRBELL01");
const SERVER: Peer = Peer::Addr(7);
const RECEIVER: Peer = Peer::Addr(8);
const SNAPSHOTS: Peer = Peer::Addr(9);
/// Datagrams of a seed.
const ROUNDS: u64 = 400;

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
    let mut config = ListenerConfig::new(SESSION, SERVER, ids());
    (config.orders_max, config.reorder_max) = (1_024, 32);
    (config.checkpoint_every, config.checkpoints_max) = (50, 16);
    config
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
        let request = Request::parse(out.bytes(*bytes)).expect("a request");
        assert_eq!(request.session, SESSION, "seed {seed}");
        assert_eq!(request.seq, listener.next_seq().0, "seed {seed}");
        assert!((1..=512).contains(&request.count), "seed {seed}: {request:?}");
        tally.judged += 1;
    }
}

#[test]
fn the_moldudp64_client_takes_what_is_right_and_asks_for_the_rest() {
    let stream = stream();
    mutate("MoldUDP64 client", 60_000, |seed| {
        let (mut faults, mut tally) = (Faults::new(seed), Tally::default());
        let mut listener = Listener::new(config());
        let (mut out, mut now) = (Outbox::default(), 1_000);
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
        let all = counters.packets + counters.malformed + counters.other_session;
        assert_eq!((all, counters.packets), (ROUNDS, tally.framed), "seed {seed}");
        tally
    });
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
    for (seq, message) in (1..).zip(&stream.messages) {
        let mut builder = moldudp::PacketBuilder::new(SESSION, seq, 1_392);
        assert!(builder.push(message));
        let mut out = Outbox::default();
        source.handle_datagram(at(0), Channel::FEED, RECEIVER, builder.bytes(), &mut out);
    }
    let mut frozen = Frozen::default();
    frozen.take(source.image(), source.next_seq());
    let packets = dialogue(&frozen);
    assert!(packets.len() > 30);
    let digests: Vec<u64> = source.digests().collect();
    assert_eq!(digests, stream.digests());
    mutate("GLIMPSE client", 60_000, |seed| {
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
