//! The MoldUDP64 client on a bad network, with a retransmission server that loses packets too.

use crate::common::{Stream, ids};
use feed::{CaptureConfig, CatchUpConfig, Checkpoints, Listener, ListenerConfig, StreamDigest};
use proptest::prelude::*;
use types::{Channel, ClockReading, FeedSeq, Nanos, Node, Op, Outbox, Peer, SplitMix64};
use wire::moldudp::{self, PacketBuilder, Request, Session};

const SESSION: Session = Session(*b"FAIRBELL01");
const SERVER: Peer = Peer::Addr(7);
const RECEIVER: Peer = Peer::Addr(8);
const THREE: [Peer; 3] = [Peer::Addr(11), Peer::Addr(12), Peer::Addr(13)];

fn config() -> ListenerConfig {
    let mut config = ListenerConfig::new(SESSION, vec![SERVER], ids());
    config.checkpoint_every = 50;
    config.prints_max = 10_000;
    config.capture = Some(CaptureConfig {
        to: ([233, 252, 0, 1], 26_400),
        packet_bytes_max: 1 << 20,
        message_bytes_max: Some(1 << 20),
        quote_every: 100,
        quotes_max: 1_000,
    });
    config
}

fn at(now: u64) -> ClockReading {
    ClockReading { now: Nanos(now), bound_ns: 0 }
}

/// Packets of up to `count` messages each, from message `seq` on.
fn packets(messages: &[Vec<u8>], seq: u64, count: usize) -> Vec<Vec<u8>> {
    let mut builder = PacketBuilder::new(SESSION, seq, 1_392);
    let mut packets = Vec::new();
    for chunk in messages.chunks(count) {
        for message in chunk {
            assert!(builder.push(message));
        }
        packets.push(builder.bytes().to_vec());
        builder.advance();
    }
    packets
}

/// Everything that the listener sends is a request; the server answers with one packet.
fn answers(stream: &Stream, out: &Outbox) -> Vec<Vec<u8>> {
    let mut answers = Vec::new();
    for op in out.ops() {
        let Op::Datagram { channel: Channel::FEED, to: SERVER, bytes } = op else {
            panic!("unexpected {op:?}");
        };
        let request = Request::parse(&out.bytes(*bytes)[..moldudp::HEADER_LEN]).expect("a request");
        let start = request.seq as usize - 1;
        let end = (start + usize::from(request.count)).min(stream.messages.len()).min(start + 20);
        answers.extend(packets(&stream.messages[start..end], request.seq, 20));
    }
    answers
}

#[test]
fn loss_duplication_and_reordering_leave_no_trace_in_the_books() {
    let mut duplicates = 0;
    for seed in 0..30 {
        let mut stream = Stream::new(seed);
        stream.auction(ids()[0]);
        let mut model = Checkpoints::new(50, 4_096, ids().len());
        let mut digest = StreamDigest::default();
        stream.messages.iter().for_each(|message| digest.push(message));
        for _ in 0..1_000 {
            stream.step();
            let seq = FeedSeq(stream.messages.len() as u64);
            digest.push(stream.messages.last().expect("one"));
            model.record(seq, digest.value(), stream.digests());
        }
        let mut rng = SplitMix64::new(seed);
        let mut listener = Listener::new(config());
        let mut now = 1_000_000;
        // In flight: (when it arrives, who sent it, bytes).
        let mut flight: Vec<(u64, Peer, Vec<u8>)> = Vec::new();
        for (index, packet) in packets(&stream.messages, 1, 3).into_iter().enumerate() {
            for _ in 0..1 + u64::from(rng.permille(50)) {
                if !rng.permille(100) {
                    let arrives = now + index as u64 * 100_000 + rng.below(1_000_000);
                    flight.push((arrives, RECEIVER, packet.clone()));
                }
            }
        }
        let mut heartbeat = Vec::new();
        moldudp::encode_heartbeat(SESSION, stream.messages.len() as u64 + 1, &mut heartbeat);
        flight.push((now + 100_000_000, RECEIVER, heartbeat));
        let mut out = Outbox::default();
        let mut calls = 0;
        while listener.next_seq().0 <= stream.messages.len() as u64 {
            calls += 1;
            assert!(calls < 20_000, "seed {seed}: stuck at {:?}", listener.next_seq());
            out.clear();
            let first = flight.iter().enumerate().min_by_key(|(_, packet)| packet.0);
            let timer = listener.next_timeout().0;
            match first.map(|(index, packet)| (index, packet.0)) {
                Some((index, arrives)) if arrives <= timer => {
                    let (_, from, bytes) = flight.swap_remove(index);
                    now = now.max(arrives);
                    listener.handle_datagram(at(now), Channel::FEED, from, &bytes, &mut out);
                }
                _ => {
                    assert_ne!(timer, u64::MAX, "seed {seed}: nothing left to happen");
                    now = now.max(timer);
                    listener.handle_timeout(at(now), &mut out);
                }
            }
            for answer in answers(&stream, &out) {
                if !rng.permille(200) {
                    flight.push((now + 200_000, SERVER, answer));
                }
            }
        }
        let counters = listener.counters();
        assert_eq!(listener.digests().collect::<Vec<_>>(), stream.digests(), "seed {seed}");
        assert_eq!(listener.stream_digest(), digest.value(), "seed {seed}");
        let agreement = listener.checkpoints().compare(&model);
        assert!(agreement.compared >= 20, "seed {seed}: {agreement:?}");
        assert_eq!(agreement.first_difference, None, "seed {seed}");
        assert_eq!((counters.parse_errors, counters.image_errors), (0, 0), "seed {seed}");
        assert!(counters.gaps > 0 && counters.requests > 0 && counters.repaired > 0);
        assert!(counters.early > 0, "seed {seed}");
        duplicates += counters.duplicates;
        assert_eq!(listener.next_timeout(), Nanos::NEVER);
        let executions = stream.messages.iter().filter(|message| b"ECP".contains(&message[0]));
        assert_eq!(listener.prints().len(), executions.count());
        let capture = listener.capture().expect("configured");
        let bytes: usize = stream.messages.iter().map(|message| message.len() + 2).sum();
        assert_eq!(capture.messages().len(), bytes);
        assert_eq!(capture.quotes().len(), stream.messages.len() / 100 * ids().len());
    }
    assert!(duplicates > 0);
}

#[test]
fn a_flipped_byte_shows_in_the_verdict() {
    let mut stream = Stream::new(5);
    (0..300).for_each(|_| stream.step());
    let listen = |flip: Option<(usize, usize)>| {
        let mut listener = Listener::new(config());
        let mut out = Outbox::default();
        for (index, mut packet) in packets(&stream.messages, 1, 4).into_iter().enumerate() {
            if let Some((_, byte)) = flip.filter(|&(wrong, _)| wrong == index) {
                packet[22 + byte] ^= 0x10;
            }
            listener.handle_datagram(at(1), Channel::FEED, RECEIVER, &packet, &mut out);
        }
        listener
    };
    let clean = listen(None);
    for flip in (0..60).flat_map(|packet| (0..18).map(move |byte| (packet, byte))) {
        let bad = listen(Some(flip));
        let agreement = bad.checkpoints().compare(clean.checkpoints());
        let counters = bad.counters();
        let seen = agreement.first_difference.is_some()
            || counters.parse_errors + counters.image_errors + counters.malformed > 0;
        assert!(seen, "{flip:?} was not seen");
    }
    assert_eq!(clean.first_error(), None);
    assert_eq!(clean.checkpoints().compare(clean.checkpoints()).first_difference, None);
}

#[test]
fn requests_back_off_while_the_server_is_silent() {
    let stream = Stream::new(1);
    let mut listener = Listener::new(config());
    let mut out = Outbox::default();
    let packet = &packets(&stream.messages, 1, 2)[1];
    listener.handle_datagram(at(0), Channel::FEED, RECEIVER, packet, &mut out);
    assert!(out.is_empty());
    let mut sent = Vec::new();
    for _ in 0..8 {
        let due = listener.next_timeout();
        listener.handle_timeout(at(due.0 - 1), &mut out);
        assert!(out.is_empty(), "early timer calls do nothing");
        listener.handle_timeout(at(due.0), &mut out);
        let [Op::Datagram { bytes, .. }] = out.ops() else { panic!("one request") };
        let request = Request::parse(&out.bytes(*bytes)[..moldudp::HEADER_LEN]).expect("a request");
        assert_eq!((request.seq, request.count), (1, 2), "only the hole is asked for");
        sent.push(due.0);
        out.clear();
    }
    let waits: Vec<u64> = sent.windows(2).map(|pair| (pair[1] - pair[0]) / Nanos::MILLI).collect();
    // The first three as for a lost packet.
    assert_eq!(waits, [10, 10, 10, 20, 40, 80, 160]);
}

/// Whom the listener asks at its next timer, and how long after `since`.
fn next_asked(listener: &mut Listener, since: &mut u64) -> (Peer, u64) {
    let mut out = Outbox::default();
    let due = listener.next_timeout();
    listener.handle_timeout(at(due.0), &mut out);
    let [Op::Datagram { to, .. }] = out.ops() else { panic!("one request, not {:?}", out.ops()) };
    let waited = due.0 - std::mem::replace(since, due.0);
    (*to, waited / Nanos::MILLI)
}

/// A listener of three servers that has heard the second packet of a stream, not the first.
fn with_a_gap(catch_up: Option<CatchUpConfig>) -> (Listener, Vec<Vec<u8>>) {
    let packets = packets(&Stream::new(1).messages, 1, 2);
    let mut listener =
        Listener::new(ListenerConfig { servers: THREE.to_vec(), catch_up, ..config() });
    listener.handle_datagram(at(0), Channel::FEED, RECEIVER, &packets[1], &mut Outbox::default());
    (listener, packets)
}

#[test]
fn silent_servers_are_asked_in_turn_and_the_one_that_answers_is_kept() {
    let [a, b, c] = THREE;
    let (mut listener, packets) = with_a_gap(None);
    let mut since = 0;
    let asked: Vec<_> = (0..8).map(|_| next_asked(&mut listener, &mut since)).collect();
    let turns = [(a, 0), (b, 10), (c, 10), (a, 10), (b, 20), (c, 20), (a, 20), (b, 40)];
    assert_eq!(asked, turns);
    // The answer to the first gap comes, and another one opens.
    let mut out = Outbox::default();
    listener.handle_datagram(at(since + 1), Channel::FEED, b, &packets[0], &mut out);
    assert_eq!((listener.next_seq(), listener.next_timeout()), (FeedSeq(5), Nanos::NEVER));
    let mut later = Vec::new();
    moldudp::encode_heartbeat(SESSION, 9, &mut later);
    listener.handle_datagram(at(since + 1), Channel::FEED, RECEIVER, &later, &mut out);
    let again: Vec<_> = (0..3).map(|_| next_asked(&mut listener, &mut since)).collect();
    assert_eq!(again, [(b, 0), (c, 10), (a, 10)]);
}

#[test]
fn a_server_that_lacks_it_is_passed_over_and_a_snapshot_is_for_what_all_lack() {
    let [a, b, c] = THREE;
    let mut lacks = Vec::new();
    moldudp::encode_heartbeat(SESSION, 3, &mut lacks);
    for catch_up in [None, Some(CatchUpConfig::new(Peer::Addr(99)))] {
        let (mut listener, _) = with_a_gap(catch_up.clone());
        let (mut since, mut out) = (0, Outbox::default());
        assert_eq!(next_asked(&mut listener, &mut since).0, a);
        // A stranger's heartbeat is none of a server.
        listener.handle_datagram(at(since), Channel::FEED, RECEIVER, &lacks, &mut out);
        assert!(out.is_empty());
        for (lacking, next) in [(a, b), (b, c)] {
            listener.handle_datagram(at(since), Channel::FEED, lacking, &lacks, &mut out);
            let [Op::Datagram { to, .. }] = out.ops() else { panic!("asked at once") };
            assert_eq!(*to, next);
            out.clear();
        }
        listener.handle_datagram(at(since), Channel::FEED, c, &lacks, &mut out);
        match catch_up {
            None => {
                assert!(out.is_empty(), "nobody has it: no storm of requests");
                assert_eq!(next_asked(&mut listener, &mut since).0, a);
            }
            Some(_) => {
                let fetched = matches!(out.ops(), [Op::Connect { to: Peer::Addr(99), .. }]);
                assert!(fetched, "{:?}", out.ops());
            }
        }
    }
}

#[test]
fn foreign_and_broken_packets_are_counted_and_dropped() {
    let stream = Stream::new(1);
    let mut listener = Listener::new(config());
    let mut out = Outbox::default();
    let good = packets(&stream.messages, 1, 4).remove(0);
    let mut foreign = good.clone();
    foreign[0] ^= 1;
    for (channel, bytes) in [
        (Channel::FEED, &foreign[..]),
        (Channel::FEED, &good[..19]),
        (Channel::FEED, &good[..good.len() - 1]),
        (Channel::OVERLAY, &good[..]),
    ] {
        listener.handle_datagram(at(1), channel, RECEIVER, bytes, &mut out);
    }
    let counters = listener.counters();
    assert_eq!((counters.other_session, counters.malformed, counters.messages), (1, 3, 0));
    assert_eq!((listener.next_seq(), out.is_empty()), (FeedSeq(1), true));
    let mut end = Vec::new();
    listener.handle_datagram(at(1), Channel::FEED, RECEIVER, &good, &mut out);
    moldudp::encode_end_of_session(SESSION, 5, &mut end);
    assert!(!listener.ended());
    listener.handle_datagram(at(1), Channel::FEED, RECEIVER, &end, &mut out);
    assert!(listener.ended());
}

const STRANGER: Peer = Peer::Addr(66);

/// A listener that knows its receiver, or takes the feed from anybody.
fn knowing(sources: Option<Vec<Peer>>) -> Listener {
    Listener::new(ListenerConfig { sources, ..config() })
}

/// What a stranger's packets, of the session and with the next numbers, make of the books.
fn forged(mut listener: Listener) -> (u64, bool, feed::ListenerCounters) {
    let mut stream = Stream::new(3);
    let mut out = Outbox::default();
    for packet in packets(&stream.messages, 1, 4) {
        listener.handle_datagram(at(1), Channel::FEED, RECEIVER, &packet, &mut out);
    }
    let (next, books) = (listener.next_seq(), listener.digests().collect::<Vec<_>>());
    (0..16).for_each(|_| stream.step());
    let mut sent = packets(&stream.messages[next.0 as usize - 1..], next.0, 1);
    let mut far = Vec::new();
    moldudp::encode_heartbeat(SESSION, 1 << 40, &mut far);
    moldudp::encode_end_of_session(SESSION, next.0, &mut far);
    sent.extend(far.chunks(20).map(<[u8]>::to_vec));
    sent.push([&far[..18], &[0; 2 + moldudp::TOKEN_LEN]].concat());
    for packet in &sent {
        listener.handle_datagram(at(1), Channel::FEED, STRANGER, packet, &mut out);
    }
    let unchanged = listener.digests().eq(books.iter().copied())
        && listener.next_timeout() == Nanos::NEVER
        && !listener.ended();
    (listener.next_seq().0 - next.0, unchanged, listener.counters())
}

#[test]
fn forged_packets_of_a_stranger_change_nothing_and_are_counted() {
    let (taken, unchanged, counters) = forged(knowing(Some(vec![RECEIVER])));
    assert_eq!((taken, unchanged, counters.foreign), (0, true, 19), "{counters:?}");
}

#[test]
fn control_without_the_check_forged_orders_are_in_the_books() {
    let (taken, unchanged, counters) = forged(knowing(None));
    assert_eq!((taken, unchanged, counters.foreign), (16, false, 0), "{counters:?}");
}

#[test]
fn a_token_is_shown_to_the_server_that_gave_it() {
    let mut listener = knowing(Some(vec![RECEIVER]));
    let stream = Stream::new(1);
    let packets = packets(&stream.messages, 1, 2);
    let mut out = Outbox::default();
    listener.handle_datagram(at(0), Channel::FEED, RECEIVER, &packets[1], &mut out);
    let due = listener.next_timeout();
    listener.handle_timeout(at(due.0), &mut out);
    let shown = |out: &Outbox| match out.ops() {
        [Op::Datagram { to: SERVER, bytes, .. }] => out.bytes(*bytes)[20..].to_vec(),
        ops => panic!("one request, not {ops:?}"),
    };
    assert_eq!(shown(&out), [0; 16], "it asks for one");
    let mut token = Vec::new();
    moldudp::encode_heartbeat(SESSION, 1, &mut token);
    token.extend([9; 16]);
    for (from, asks) in [(RECEIVER, false), (STRANGER, false), (SERVER, true), (SERVER, false)] {
        out.clear();
        listener.handle_datagram(at(due.0 + 1), Channel::FEED, from, &token, &mut out);
        assert_eq!(!out.is_empty(), asks, "{from:?}");
        if asks {
            assert_eq!(shown(&out), [9; 16], "at once");
        }
    }
    let counters = listener.counters();
    assert_eq!((counters.tokens, counters.foreign, counters.requests), (3, 1, 2));
}

proptest! {
    #[test]
    fn arbitrary_datagrams_never_panic(
        seed in 0u64..100,
        mutations in prop::collection::vec((any::<u16>(), any::<u16>(), any::<u8>()), 0..50),
        junk in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..20),
    ) {
        let mut stream = Stream::new(seed);
        (0..100).for_each(|_| stream.step());
        let mut packets = packets(&stream.messages, 1, 3);
        for (packet, byte, value) in mutations {
            let count = packets.len();
            let packet = &mut packets[usize::from(packet) % count];
            let len = packet.len();
            packet[usize::from(byte) % len] = value;
        }
        let mut listener = Listener::new(ListenerConfig { reorder_max: 4, ..config() });
        let mut out = Outbox::default();
        for (now, packet) in packets.iter().chain(&junk).enumerate() {
            let now = at(now as u64 * 1_000_000);
            listener.handle_datagram(now, Channel::FEED, RECEIVER, packet, &mut out);
            listener.handle_timeout(now, &mut out);
        }
    }
}
