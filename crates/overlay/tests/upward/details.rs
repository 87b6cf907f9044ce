//! Behaviour that a lossy run would hide, because another mechanism makes up for it later.

use overlay::{
    frame::{self, *},
    private_receiver::{PrivateEvent, PrivateReceiver, PrivateReceiverConfig, first_token},
    private_sender::{ATTACHED, DETACHED, PrivateStreams, PrivateStreamsConfig, REFUSED, UNKNOWN},
    uplink::{Uplink, UplinkConfig},
};
use types::{AccountId, ClockReading, GatewayId, Incarnation, Nanos, NodeId, Op, Outbox, Peer};

const ROOT: NodeId = NodeId(0);
const GATEWAY: NodeId = NodeId(9);
const ACCOUNT: AccountId = AccountId(1);
const START: u64 = 1_790_000_000_000_000_000;

fn at(us: u64) -> ClockReading {
    ClockReading { now: Nanos(START + us * Nanos::MICRO), bound_ns: 0 }
}

/// Takes the datagrams out of an outbox: receiver, header, body and payload.
fn taken(out: &mut Outbox) -> Vec<(NodeId, HopHeader, Vec<u8>)> {
    let all = out.ops().iter().map(|op| {
        let Op::Datagram { to: Peer::Node(to), bytes, .. } = *op else { panic!("{op:?}") };
        let (header, rest) = HopHeader::read(out.bytes(bytes)).unwrap();
        (to, header, rest.to_vec())
    });
    let all = all.collect();
    out.clear();
    all
}

fn acks(out: &mut Outbox) -> Vec<PrivateAckBody> {
    let acks = taken(out).into_iter().filter(|(_, header, _)| header.kind == FrameKind::PrivateAck);
    acks.map(|(_, _, rest)| frame::body(&rest).unwrap().0).collect()
}

/// A receiver that asked for the account from position 1, unanswered yet.
fn requesting(out: &mut Outbox) -> PrivateReceiver {
    let mut receiver = PrivateReceiver::new(PrivateReceiverConfig::new(GATEWAY, ROOT, 8));
    receiver.begin_life(at(0), Incarnation(0), out);
    receiver.attach(at(0), ACCOUNT, 1, out);
    out.clear();
    receiver
}

fn attached(out: &mut Outbox) -> PrivateReceiver {
    let mut receiver = requesting(out);
    accept(&mut receiver, at(0));
    receiver.flush(at(0), out);
    out.clear();
    receiver
}

fn accept(receiver: &mut PrivateReceiver, now: ClockReading) {
    let reply = AttachReplyBody { account: ACCOUNT, status: ATTACHED, token: 1, from: 1, next: 1 };
    receiver.handle_reply(now, &reply, |_| ());
}

/// Hands in two records from `first` on; returns the positions delivered.
fn two_records(receiver: &mut PrivateReceiver, first: u64) -> Vec<u64> {
    let mut positions = Vec::new();
    let body = PrivateBody { account: ACCOUNT, count: 2, token: 1, first };
    let bytes = [first.to_le_bytes(), (first + 1).to_le_bytes()].concat();
    receiver.handle_private(&body, &bytes, |event| match event {
        PrivateEvent::Record { position, record, .. } => {
            assert_eq!(record, position.to_le_bytes());
            positions.push(position);
        }
        other => panic!("{other:?}"),
    });
    positions
}

#[test]
fn early_datagrams_wait_and_are_not_needed_again() {
    let mut receiver = attached(&mut Outbox::default());
    for first in [5, 3, 6, 9] {
        assert_eq!(two_records(&mut receiver, first), []);
    }
    assert_eq!(two_records(&mut receiver, 1), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(two_records(&mut receiver, 7), [8, 9, 10]);
    assert_eq!(two_records(&mut receiver, 9), []);
    let counters = receiver.counters();
    assert_eq!((counters.delivered, counters.early, counters.duplicates), (10, 4, 1));
}

#[test]
fn a_full_pool_keeps_what_is_needed_soonest() {
    let mut receiver = attached(&mut Outbox::default());
    for first in (3..200).rev().step_by(2) {
        assert_eq!(two_records(&mut receiver, first), []);
    }
    assert!(receiver.counters().early_dropped > 0);
    let kept = 2 * PrivateReceiverConfig::new(GATEWAY, ROOT, 8).early_max as u64;
    assert_eq!(two_records(&mut receiver, 1), (1..=2 + kept).collect::<Vec<_>>());
}

#[test]
fn a_gap_is_reported_once_per_guard_time() {
    let mut out = Outbox::default();
    let mut receiver = attached(&mut out);
    let mut reported = |receiver: &mut PrivateReceiver, us| {
        receiver.flush(at(us), &mut out);
        acks(&mut out).iter().map(|ack| (ack.next, ack.gap)).collect::<Vec<_>>()
    };
    two_records(&mut receiver, 3);
    two_records(&mut receiver, 5);
    assert_eq!(reported(&mut receiver, 0), [(1, 1)]);
    two_records(&mut receiver, 7);
    assert_eq!(reported(&mut receiver, 1_000), [(1, 0)]);
    two_records(&mut receiver, 9);
    assert_eq!(reported(&mut receiver, 2_000), [(1, 1)]);
    two_records(&mut receiver, 1);
    assert_eq!(reported(&mut receiver, 9_000), [(11, 0)]);
    assert_eq!(reported(&mut receiver, 9_000), [], "nothing new to say");
}

#[test]
fn records_that_overtook_the_attach_reply_are_asked_for_again() {
    let mut out = Outbox::default();
    for overtaken in [false, true] {
        let mut receiver = requesting(&mut out);
        if overtaken {
            assert_eq!(two_records(&mut receiver, 1), []);
        }
        accept(&mut receiver, at(10));
        receiver.flush(at(10), &mut out);
        let gaps: Vec<_> = acks(&mut out).iter().map(|ack| ack.gap).collect();
        assert_eq!(gaps, [u16::from(overtaken)]);
    }
}

fn attach(token: u32, attach: u16) -> AttachBody {
    AttachBody { account: ACCOUNT, attach, token, from: 1 }
}

fn streams(records: u64) -> PrivateStreams {
    let mut streams = PrivateStreams::new(PrivateStreamsConfig::new(ROOT, 1, 8, 1_000)).unwrap();
    for position in 1..=records {
        streams.append(ACCOUNT, &position.to_le_bytes()).unwrap();
    }
    streams
}

/// However much an account has to be told, only so much of it is on its way at a time, and a gateway
/// that does not take it keeps nobody else waiting.
#[test]
fn records_on_their_way_to_a_gateway_are_bounded() {
    const OTHER: NodeId = NodeId(10);
    let config = PrivateStreamsConfig::new(ROOT, 2, 8, 4_000);
    let most = config.in_flight_max;
    let (mut streams, mut out) = (PrivateStreams::new(config).unwrap(), Outbox::default());
    for account in [ACCOUNT, AccountId(2)] {
        for position in 1..=2_000u64 {
            streams.append(account, &position.to_le_bytes()).unwrap();
        }
    }
    let sent = |out: &mut Outbox, to: NodeId| -> u64 {
        let frames = taken(out)
            .into_iter()
            .filter(|(node, header, _)| *node == to && header.kind == FrameKind::Private);
        frames
            .map(|(_, _, rest)| u64::from(frame::body::<PrivateBody>(&rest).unwrap().0.count))
            .sum()
    };
    streams.handle_attach(at(0), GATEWAY, &attach(5, 1), &mut out);
    streams.flush(at(0), &mut out);
    assert_eq!(sent(&mut out, GATEWAY), most);
    streams.flush(at(1), &mut out);
    assert_eq!(sent(&mut out, GATEWAY), 0, "not acknowledged, so no more");
    // Another account's gateway takes all it has.
    let body = AttachBody { account: AccountId(2), ..attach(1, 1) };
    streams.handle_attach(at(2), OTHER, &body, &mut out);
    let (mut next, mut all) = (1, 0);
    while next <= 2_000 {
        streams.flush(at(3), &mut out);
        let part = sent(&mut out, OTHER);
        assert!(part > 0 && part <= most);
        (next, all) = (next + part, all + part);
        let ack = PrivateAckBody { account: AccountId(2), gap: 0, token: 1, next };
        streams.handle_ack(at(3), OTHER, &ack, &mut out);
    }
    assert_eq!(all, 2_000);
}

#[test]
fn a_late_copy_of_attach_does_not_revive_what_was_given_back() {
    let (mut streams, mut out) = (streams(1), Outbox::default());
    let mut ask = |body: AttachBody| {
        streams.handle_attach(at(0), GATEWAY, &body, &mut out);
        let (_, _, rest) = taken(&mut out).pop().unwrap();
        let (reply, _) = frame::body::<AttachReplyBody>(&rest).unwrap();
        (reply.status, reply.token)
    };
    assert_eq!(ask(attach(5, 1)), (ATTACHED, 5));
    assert_eq!(ask(attach(5, 1)), (ATTACHED, 5), "asked again because the answer was lost");
    assert_eq!(ask(attach(4, 0)), (DETACHED, 4), "a late copy of an older request");
    assert_eq!(ask(attach(5, 0)), (DETACHED, 5));
    assert_eq!(ask(attach(5, 1)), (DETACHED, 5));
    assert_eq!(ask(attach(6, 1)), (ATTACHED, 6));
}

#[test]
fn nothing_is_asked_for_before_the_life_is_granted() {
    let mut out = Outbox::default();
    let mut receiver = PrivateReceiver::new(PrivateReceiverConfig::new(GATEWAY, ROOT, 8));
    for account in 1..=3 {
        receiver.attach(at(0), AccountId(account), 7, &mut out);
    }
    receiver.detach(at(1), AccountId(2), &mut out);
    receiver.handle_timeout(at(900_000), &mut out);
    accept(&mut receiver, at(900_000));
    assert!(out.is_empty() && receiver.next_timeout() == Nanos::NEVER);
    assert!(!receiver.is_attached(ACCOUNT), "nobody can have accepted what was not asked for");
    for life in [5, 6] {
        receiver.begin_life(at(900_000), Incarnation(life), &mut out);
    }
    let asked = taken(&mut out).into_iter().map(|(_, _, rest)| {
        let (body, _) = frame::body::<AttachBody>(&rest).unwrap();
        (body.account.0, body.attach, body.token - first_token(Incarnation(5)), body.from)
    });
    assert_eq!(asked.collect::<Vec<_>>(), [(1, 1, 0, 7), (3, 1, 1, 7)]);
}

#[test]
fn nothing_of_an_earlier_life_looks_new() {
    let (first, second) = (first_token(Incarnation(1)), first_token(Incarnation(2)));
    let around = [Incarnation(u32::MAX), Incarnation(0)].map(first_token);
    for (old, new) in [(first, second), (first + 999_999, second), (around[0], around[1])] {
        let (mut streams, mut out) = (streams(1), Outbox::default());
        let mut ask = |us, body: AttachBody| {
            streams.handle_attach(at(us), GATEWAY, &body, &mut out);
            let (_, _, rest) = taken(&mut out).pop().unwrap();
            frame::body::<AttachReplyBody>(&rest).unwrap().0.status
        };
        assert_eq!(ask(0, attach(old, 1)), ATTACHED);
        assert_eq!(ask(1, attach(new, 1)), ATTACHED, "at once, whatever the lease");
        assert_eq!(ask(2, attach(old, 1)), REFUSED, "a late copy of the old life's");
        assert_eq!(ask(3, attach(old, 0)), DETACHED);
        assert_eq!(ask(4, attach(new, 1)), ATTACHED, "still");
        assert_eq!(ask(5, attach(new, 0)), DETACHED);
        assert_eq!(ask(2_000_000, attach(old, 1)), DETACHED, "not even when nobody has it");
        assert_eq!(ask(2_000_001, attach(new + 1, 1)), ATTACHED);
    }
}

/// What a receiver hears by way of an answer.
fn told(receiver: &mut PrivateReceiver, now: ClockReading, reply: AttachReplyBody) -> Vec<String> {
    let mut events = Vec::new();
    receiver.handle_reply(now, &reply, |event| events.push(format!("{event:?}")));
    events
}

fn requests(out: &mut Outbox) -> Vec<(u16, u32, u64)> {
    let attach = |(_, header, rest): (NodeId, HopHeader, Vec<u8>)| {
        let body: AttachBody = frame::body(&rest).unwrap().0;
        (header.kind == FrameKind::Attach).then_some((body.attach, body.token, body.from))
    };
    taken(out).into_iter().filter_map(attach).collect()
}

#[test]
fn a_stream_that_nobody_knows_any_more_is_asked_for_again_from_where_it_stands() {
    let unknown = |account, token| AttachReplyBody {
        account: AccountId(account),
        status: UNKNOWN,
        token,
        from: 3,
        next: 3,
    };
    let answer =
        |status, from, next| AttachReplyBody { account: ACCOUNT, status, token: 1, from, next };
    // Told of this one stream, or of all at once.
    for all in [false, true] {
        let mut out = Outbox::default();
        let mut receiver = attached(&mut out);
        assert_eq!(two_records(&mut receiver, 1), [1, 2]);
        receiver.flush(at(1), &mut out);
        out.clear();
        let word = if all { unknown(0, 0) } else { unknown(1, 1) };
        assert!(told(&mut receiver, at(2), word).is_empty(), "the session hears of nothing");
        assert!(!receiver.is_attached(ACCOUNT));
        receiver.handle_timeout(at(2), &mut out);
        assert_eq!(requests(&mut out), [(1, 1, 3)]);
        // Word that comes again while it asks changes nothing; nor does a record, but that it is
        // asked for later.
        assert!(told(&mut receiver, at(3), word).is_empty());
        receiver.handle_timeout(at(3), &mut out);
        assert!(requests(&mut out).is_empty(), "it is not due again yet");
        assert!(two_records(&mut receiver, 3).is_empty());
        receiver.handle_timeout(at(30_000), &mut out);
        assert_eq!(requests(&mut out), [(1, 1, 3)], "the answer may have been lost");
        // An answer that would leave a hole is none.
        assert!(told(&mut receiver, at(30_001), answer(ATTACHED, 4, 9)).is_empty());
        assert!(!receiver.is_attached(ACCOUNT));
        assert!(told(&mut receiver, at(30_002), answer(ATTACHED, 2, 5)).is_empty());
        assert!(receiver.is_attached(ACCOUNT));
        receiver.flush(at(30_002), &mut out);
        let acks = acks(&mut out);
        assert_eq!((acks[0].next, acks[0].gap), (3, 1), "what it missed is asked for");
        assert_eq!(two_records(&mut receiver, 2), [3], "each once");
    }
    // Who has no stream here any more, or gives it back, asks for nothing.
    let mut out = Outbox::default();
    let mut receiver = attached(&mut out);
    receiver.detach(at(1), ACCOUNT, &mut out);
    out.clear();
    told(&mut receiver, at(2), unknown(0, 0));
    receiver.handle_timeout(at(30_000), &mut out);
    assert_eq!(requests(&mut out), [(0, 1, 0)]);
}

#[test]
fn a_session_ends_when_another_gateway_was_quicker() {
    for status in [REFUSED, DETACHED] {
        let mut out = Outbox::default();
        let mut receiver = attached(&mut out);
        let word =
            AttachReplyBody { account: AccountId(0), status: UNKNOWN, token: 0, from: 1, next: 1 };
        told(&mut receiver, at(1), word);
        let answer = AttachReplyBody { account: ACCOUNT, status, token: 1, from: 1, next: 1 };
        assert_eq!(told(&mut receiver, at(2), answer), ["Detached { account: AccountId(1) }"]);
    }
}

/// A root that took over knows of no attachment: it says so to whoever had one, but not to those
/// whose attachment it has ended itself, or while somebody else has the stream.
#[test]
fn only_who_may_ask_again_hears_that_a_stream_is_unknown() {
    let mut out = Outbox::default();
    let mut streams = streams(10);
    let other = NodeId(10);
    let ask = |streams: &mut PrivateStreams, from, token, out: &mut Outbox| {
        let ack = PrivateAckBody { account: ACCOUNT, gap: 0, token, next: 1 };
        streams.handle_ack(at(1), from, &ack, out);
        let all = taken(out);
        all.iter()
            .map(|(_, _, rest)| frame::body::<AttachReplyBody>(rest).unwrap().0.status)
            .collect()
    };
    let asked: Vec<u16> = ask(&mut streams, GATEWAY, 5, &mut out);
    assert_eq!(asked, [UNKNOWN]);
    streams.handle_attach(at(1), GATEWAY, &attach(5, 1), &mut out);
    out.clear();
    let asked: Vec<u16> = ask(&mut streams, GATEWAY, 5, &mut out);
    assert!(asked.is_empty());
    let asked: Vec<u16> = ask(&mut streams, other, 7, &mut out);
    assert_eq!(asked, [DETACHED], "somebody has it");
    streams.handle_attach(at(1), GATEWAY, &attach(5, 0), &mut out);
    out.clear();
    let asked: Vec<u16> = ask(&mut streams, GATEWAY, 5, &mut out);
    assert_eq!(asked, [DETACHED], "it was given back");
    let asked: Vec<u16> = ask(&mut streams, GATEWAY, 6, &mut out);
    assert_eq!(asked, [UNKNOWN], "a later one was not");
    // Another root serves meanwhile.
    streams.forget_attachments();
    let asked: Vec<u16> = ask(&mut streams, GATEWAY, 5, &mut out);
    assert_eq!(asked, [UNKNOWN]);
    streams.ask_anew(GATEWAY, &mut out);
    let (to, _, rest) = taken(&mut out).remove(0);
    let word: AttachReplyBody = frame::body(&rest).unwrap().0;
    assert_eq!((to, word.account, word.status), (GATEWAY, AccountId(0), UNKNOWN));
    // Accounts that are none stay none.
    let ack = PrivateAckBody { account: AccountId(999), gap: 0, token: 1, next: 1 };
    streams.handle_ack(at(2), GATEWAY, &ack, &mut out);
    let none: AttachReplyBody = frame::body(&taken(&mut out)[0].2).unwrap().0;
    assert_eq!(none.status, DETACHED);
}

#[test]
fn acknowledgements_of_what_was_never_sent_change_nothing() {
    let (mut streams, mut out) = (streams(3), Outbox::default());
    streams.handle_attach(at(0), GATEWAY, &attach(1, 1), &mut out);
    let mut ack = PrivateAckBody { account: ACCOUNT, gap: 0, token: 1, next: 2 };
    streams.handle_ack(at(1), GATEWAY, &ack, &mut out);
    assert_eq!(streams.counters().ignored, 1, "nothing has been flushed yet");
    streams.flush(at(2), &mut out);
    assert_eq!(streams.counters().records_sent, 3);
    for next in [5, u64::MAX] {
        ack.next = next;
        streams.handle_ack(at(3), GATEWAY, &ack, &mut out);
    }
    assert_eq!(streams.counters().ignored, 3);
    // Somebody else's acknowledgement is answered, so that a gateway that lost the stream knows.
    out.clear();
    streams.handle_ack(at(4), NodeId(8), &PrivateAckBody { next: 4, ..ack }, &mut out);
    let (to, _, rest) = taken(&mut out).pop().unwrap();
    let (reply, _) = frame::body::<AttachReplyBody>(&rest).unwrap();
    assert_eq!((to, reply.status), (NodeId(8), DETACHED));
}

#[test]
fn repeated_gap_reports_cause_one_resend_per_guard_time() {
    let (mut streams, mut out) = (streams(30), Outbox::default());
    streams.handle_attach(at(0), GATEWAY, &attach(1, 1), &mut out);
    streams.flush(at(0), &mut out);
    let ack = PrivateAckBody { account: ACCOUNT, gap: 1, token: 1, next: 11 };
    let mut resent = |us| {
        streams.handle_ack(at(us), GATEWAY, &ack, &mut out);
        streams.flush(at(us), &mut out);
        streams.counters().records_resent
    };
    assert_eq!([100, 200, 1_900, 2_200].map(&mut resent), [20, 20, 20, 40]);
}

#[test]
fn a_dead_gateway_needs_no_timer() {
    let (mut streams, mut out) = (streams(30), Outbox::default());
    streams.handle_attach(at(0), GATEWAY, &attach(1, 1), &mut out);
    streams.flush(at(0), &mut out);
    let mut wakes = 0;
    while streams.next_timeout() != Nanos::NEVER {
        let now = ClockReading { now: streams.next_timeout(), bound_ns: 0 };
        streams.handle_timeout(now, &mut out);
        wakes += 1;
        assert!(wakes < 20, "silent after the lease");
    }
    streams.append(ACCOUNT, &[0; 8]).unwrap();
    out.clear();
    streams.flush(at(9_000_000), &mut out);
    assert!(out.is_empty());
}

fn uplink() -> Uplink {
    let config = UplinkConfig::new(GatewayId(1), GATEWAY, ROOT, 1);
    let mut uplink = Uplink::new(config, vec![NodeId(1), NodeId(2)]);
    let (gateway, incarnation) = (GatewayId(1), Incarnation(1));
    uplink.handle_grant(&GrantBody { gateway, reserved: 0, boot_nonce: 1, incarnation });
    uplink
}

fn logged(contiguous: u64) -> OrderAckBody {
    let (selective, held, incarnation) = ([0; 4], [0; 4], Incarnation(1));
    OrderAckBody { contiguous, selective, held, incarnation, echo: 0, useful: 0, term: 0 }
}

#[test]
fn every_next_copy_takes_another_way_even_when_the_preferred_one_changed() {
    let (mut uplink, mut out) = (uplink(), Outbox::default());
    let mut ways = vec![Vec::new(); 20];
    let mut us = 0;
    for n in 0..20 {
        us += 4_000;
        uplink.submit(at(us), AccountId(n), at(us).now, &[], &mut out).unwrap();
        uplink.handle_timeout(at(us), &mut out);
        for (to, header, rest) in taken(&mut out) {
            let (order, _) = frame::body::<OrderBody>(&rest).unwrap();
            let way = &mut ways[order.source.seq as usize - 1];
            assert_eq!(usize::from(header.attempt), way.len());
            assert_eq!(order.t_in, at(4_000 * order.source.seq).now, "kept when re-sent");
            way.push(to);
        }
    }
    assert_eq!(uplink.counters().parent_changes, 1);
    assert!(ways.iter().any(|way| way.len() > 1 && way[0] == NodeId(1)));
    for way in ways {
        assert!(way.windows(2).all(|pair| pair[0] != pair[1]), "{way:?}");
    }
}

#[test]
fn orders_that_waited_for_a_resent_one_do_not_slow_the_timer() {
    let (mut uplink, mut out) = (uplink(), Outbox::default());
    let mut submit = |uplink: &mut Uplink, us| {
        uplink.submit(at(us), ACCOUNT, at(us).now, &[], &mut out).unwrap();
    };
    submit(&mut uplink, 0);
    submit(&mut uplink, 5_000);
    uplink.handle_timeout(at(30_000), &mut Outbox::default());
    assert_eq!(uplink.counters().resent, 1);
    // The second waited at the root for 26 ms; that is not how long the way takes.
    let mut twin = uplink.clone();
    uplink.handle_ack(at(31_000), &logged(2));
    submit(&mut uplink, 40_000);
    assert_eq!(uplink.next_timeout(), at(40_000 + 60_000).now, "doubled once, no sample");
    // Of the first the copy is known: a sample of 1 ms.
    twin.handle_ack(at(31_000), &OrderAckBody { echo: frame::echo(1, 1), ..logged(2) });
    submit(&mut twin, 40_000);
    assert_eq!(twin.next_timeout(), at(40_000 + 10_000).now, "the floor");
}

#[test]
fn orders_that_come_into_reach_are_resent_at_once() {
    let (mut uplink, mut out) = (uplink(), Outbox::default());
    for _ in 0..600 {
        uplink.submit(at(0), ACCOUNT, at(0).now, &[], &mut out).unwrap();
    }
    let mut us = 30_000;
    while uplink.counters().resent < 256 {
        let before = uplink.counters().resent;
        uplink.handle_timeout(at(us), &mut out);
        assert!(uplink.counters().resent - before <= 64, "bounded per call");
        us += 500;
    }
    assert!(uplink.next_timeout() > at(us).now);
    uplink.handle_ack(at(us), &OrderAckBody { useful: 10, ..logged(10) });
    assert!(uplink.next_timeout() <= at(us).now);
    uplink.handle_timeout(at(us), &mut out);
    assert_eq!(uplink.counters().resent, 266);
}

#[test]
fn several_ways_carry_an_order_at_a_time_and_resends_take_the_next_ones() {
    let parents = [NodeId(1), NodeId(2), NodeId(3)];
    for (ways, expected) in [(1, vec![1, 2, 3]), (2, vec![1, 2, 3, 1, 2, 3]), (9, vec![1, 2, 3])] {
        let config = UplinkConfig { ways, ..UplinkConfig::new(GatewayId(1), GATEWAY, ROOT, 1) };
        let (mut uplink, mut out) = (Uplink::new(config, parents.to_vec()), Outbox::default());
        let grant = GrantBody {
            gateway: GatewayId(1),
            reserved: 0,
            boot_nonce: 1,
            incarnation: Incarnation(1),
        };
        uplink.start(at(0), &mut out);
        uplink.handle_grant(&grant);
        out.clear();
        uplink.submit(at(1), ACCOUNT, at(1).now, b"order", &mut out).unwrap();
        let (mut sent, mut now) = (taken(&mut out), at(1));
        while sent.len() < expected.len() {
            now = ClockReading { now: uplink.next_timeout(), ..now };
            uplink.handle_timeout(now, &mut out);
            sent.append(&mut taken(&mut out));
        }
        let to: Vec<u16> = sent.iter().map(|(to, ..)| to.0).collect();
        assert_eq!(to, expected, "{ways}");
        let attempts: Vec<usize> =
            sent.iter().map(|(_, header, _)| header.attempt.into()).collect();
        assert_eq!(attempts, (0..expected.len()).collect::<Vec<_>>(), "{ways}");
    }
}
