//! Decoder and agent against arbitrary, mutated and forged bytes.

use clock::hull::Point;
use clock::wire::{
    self, Bound, Collect, Correction, Message, Probe, REPORT_MAX, ReportWriter, decode,
    encode_collect, encode_correction, encode_probe,
};
use clock::{Agent, AgentConfig};
use proptest::collection::vec;
use proptest::prelude::*;
use types::{Channel, ClockReading, Nanos, Node, NodeId, Outbox, Peer};

fn report(points: &[Point]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ReportWriter::new(NodeId(2), 7, &mut bytes);
    assert!(writer.is_empty());
    writer.push(NodeId(1), (30, 4), points);
    writer.push(NodeId(0), (1, 0), &[]);
    bytes
}

fn messages() -> Vec<Vec<u8>> {
    let (mut probe, mut collect, mut correction) = (Vec::new(), Vec::new(), Vec::new());
    let sent = Nanos(1_000_000);
    let (from, to) = (NodeId(1), NodeId(0));
    encode_probe(&Probe { from, to, number: 9, second: true, sent }, &mut probe);
    encode_collect(&Collect { from, window: 7 }, &mut collect);
    encode_correction(
        &Correction { node: to, window: 7, ..Correction::default() },
        &mut correction,
    );
    let points: Vec<Point> = (0..20).map(|n| Point { x: n * 1_000, y: n * n }).collect();
    vec![probe, collect, correction, report(&points)]
}

fn agent(me: u16, reference: u16) -> Agent {
    let members: Vec<NodeId> = (0..4).map(NodeId).collect();
    Agent::new(AgentConfig::new(NodeId(me), &members, NodeId(reference)))
}

fn feed(agent: &mut Agent, at: u64, from: NodeId, bytes: &[u8]) {
    let mut out = Outbox::default();
    let now = ClockReading { now: Nanos(at), bound_ns: 0 };
    agent.handle_datagram(now, Channel::OVERLAY, Peer::Node(from), bytes, &mut out);
    agent.handle_timeout(now, &mut out);
    agent.reading(Nanos(at));
}

proptest! {
    #[test]
    fn arbitrary_and_mutated_bytes_never_panic(
        noise in vec(vec(any::<u8>(), 0..200), 0..20),
        changes in vec((0usize..4, any::<prop::sample::Index>(), any::<u8>(), 0usize..30), 0..60),
        me in 0u16..5,
        reference in 0u16..5,
    ) {
        let mut agent = agent(me, reference);
        let (good, mut at) = (messages(), 1_000_000_000u64);
        for bytes in &noise {
            let _ = decode(bytes);
            feed(&mut agent, at, NodeId(0), bytes);
        }
        for (which, place, value, cut) in changes {
            let mut bytes = good[which].clone();
            let place = place.index(bytes.len());
            bytes[place] = value;
            if cut < 5 {
                bytes.truncate(place);
            }
            at += 40_000_000;
            feed(&mut agent, at, NodeId(place as u16 % 4), &bytes);
        }
    }

    #[test]
    fn chains_come_back_as_they_were(
        steps in vec((0u32..10_000_000, -1_000_000i32..1_000_000), 0..80),
        base in any::<i64>(),
    ) {
        let mut x = base / 2;
        let points: Vec<Point> = steps
            .iter()
            .map(|(dx, y)| {
                x += i64::from(*dx);
                Point { x, y: i64::from(*y) }
            })
            .collect();
        let bytes = report(&points);
        prop_assert!(bytes.len() <= REPORT_MAX);
        let Some(Message::Report(report)) = decode(&bytes) else { panic!("a report") };
        let chain = report.chains().next().expect("two chains");
        let back: Vec<Point> = chain.points().collect();
        prop_assert!(back.len() <= wire::CHAIN_MAX);
        let every = points.len().div_ceil(wire::CHAIN_MAX).max(1);
        prop_assert_eq!(back, points.into_iter().step_by(every).collect::<Vec<_>>());
        prop_assert_eq!((report.from, report.window), (NodeId(2), 7));
        prop_assert_eq!((chain.sender, chain.pairs), (NodeId(1), (30, 4)));
    }
}

#[test]
fn messages_keep_their_bytes() {
    let lengths: Vec<usize> = messages().iter().map(Vec::len).collect();
    assert_eq!(lengths, [20, 12, 92, 12 + 24 + 20 * 8 + 24]);
    let mut bytes = Vec::new();
    let correction = Correction {
        node: NodeId(3),
        window: 5,
        anchor: Nanos(u64::MAX),
        offset_ns: -7,
        drift_ppt: i64::MIN,
        bound: Bound { ns: 9, growth_ppt: 11, wander_ppt: 12 },
        heirs: Bound { ns: 14, growth_ppt: 15, wander_ppt: 16 },
        causal_ns: 13,
    };
    encode_correction(&correction, &mut bytes);
    assert_eq!(decode(&bytes), Some(Message::Correction(correction)));
    bytes.push(0);
    assert_eq!(decode(&bytes), None, "nothing may follow");
}

#[test]
fn only_neighbours_and_the_reference_are_listened_to() {
    let mut agent = agent(1, 0);
    let (reference, other) = (NodeId(0), NodeId(3));
    let mut bytes = [const { Vec::new() }; 5];
    let [others, own, collect, probe, stranger] = &mut bytes;
    let correction = |node| Correction { node, window: 1, ..Correction::default() };
    encode_correction(&correction(NodeId(2)), others);
    encode_correction(&correction(NodeId(1)), own);
    encode_collect(&Collect { from: other, window: 1 }, collect);
    let of = |from| Probe { from, to: NodeId(1), number: 1, second: false, sent: Nanos(5) };
    encode_probe(&of(NodeId(0)), probe);
    encode_probe(&of(NodeId(77)), stranger);
    // Another's correction; one that the reference did not send; a collection by somebody else;
    // a probe in another's name; a stranger's.
    let senders = [reference, other, other, other, NodeId(77)];
    for (at, (from, bytes)) in (5..).zip(senders.into_iter().zip(&bytes)) {
        feed(&mut agent, at, from, bytes);
    }
    assert_eq!((agent.stats().refused, agent.stats().corrections), (5, 0));
    assert_eq!(agent.reading(Nanos(20)), None);
    // Control: the same, of those whom they are said to be of.
    feed(&mut agent, 21, reference, &bytes[1]);
    feed(&mut agent, 22, reference, &bytes[3]);
    assert_eq!((agent.stats().refused, agent.stats().corrections), (5, 1));
}

#[test]
fn a_busy_machine_is_probed_from_less_often() {
    let (mut agent, mut out) = (agent(1, 0), Outbox::default());
    let mut count = |step_ns: u64| {
        let (mut now, before) = (Nanos(agent.next_timeout().0.max(1)), agent.stats());
        while now.0 < before.probes_sent + 2 * Nanos::SECOND {
            now = now.after(step_ns).max(agent.next_timeout());
            agent.handle_timeout(ClockReading { now, bound_ns: 0 }, &mut out);
        }
        (agent.stats().probes_sent - before.probes_sent, agent.stats().pairs_skipped)
    };
    let (idle, skipped) = count(1_000);
    assert!((1_000..1_400).contains(&idle) && skipped == 0, "{idle} {skipped}");
    let mut busy = agent_of_two();
    let mut now = Nanos(1);
    let mut turns = 0;
    while now.0 < 2 * Nanos::SECOND {
        // The loop comes back 5 ms late, every time.
        now = busy.next_timeout().max(now).after(5 * Nanos::MILLI);
        busy.handle_timeout(ClockReading { now, bound_ns: 0 }, &mut out);
        turns += 1;
    }
    assert!(busy.stats().pairs_skipped > 0 && busy.stats().probes_sent * 3 < idle, "{turns}");
}

fn agent_of_two() -> Agent {
    agent(2, 0)
}
