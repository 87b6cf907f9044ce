//! Many children, one parent with a small inbox: what pacing and credits save, and what causality
//! and fairness cost nothing of.

use std::collections::{BTreeSet, VecDeque};

use overlay::{
    control::ControlHeader,
    egress::QueueConfig,
    frame::{self, FrameKind, HopHeader, ORDER_DEFERRED, OrderBody},
    pacing::PacerConfig,
    proxy::{Proxy, ProxyConfig},
    topology::{ROOT, Topology, Tree},
    upstream_queue::{Pace, UpstreamConfig},
};
use types::{
    AccountId, Channel, ClockReading, Command, CommandKind, GatewayId, Incarnation, Nanos, Node,
    NodeId, Op, Outbox, Peer, Price, ShardId, Side, Source, SplitMix64, UserRefNum,
};
use zerocopy::IntoBytes;

const CHILDREN: u16 = 8;
const WIRE_NS: u64 = 20 * Nanos::MICRO;

/// A tree 1 - 1 - 8 - 64: the eight are the senders, their one parent the bottleneck.
fn tree() -> Tree {
    let topology = Topology::from_layers(&[1, 8, 64]).unwrap();
    Tree { topology, hedge: 0, dynamic: true, epoch: 1, stream: 0, round_ns: 50 * Nanos::MILLI }
}

fn order(gateway: u16, seq: u64, t_in: u64, price: i64) -> Vec<u8> {
    let source =
        Source { gateway: GatewayId(gateway), shard: ShardId(0), incarnation: Incarnation(1), seq };
    let mut command = Command::new(CommandKind::NewOrder);
    command.account = AccountId(gateway);
    command.user_ref = UserRefNum(seq as u32);
    command.price = Price(price.abs());
    command.side = if price < 0 { Side::Sell } else { Side::Buy };
    let body = OrderBody { source, depends_on: 0, t_in: Nanos(t_in) };
    let header = HopHeader::new(FrameKind::Order, NodeId(10 + gateway), 1);
    let mut bytes = Vec::new();
    frame::encode(&mut bytes, header, &body, command.as_bytes());
    bytes
}

#[derive(Default)]
struct Totals {
    offered: u64,
    arrived: u64,
    dropped: u64,
    shed: u64,
    deferred: u64,
    repeated: u64,
    wait_max_ns: u64,
}

/// Bursts of orders at eight proxies, whose parent takes one datagram in 15 us and has room for 64.
fn burst(upstream: Option<UpstreamConfig>, seed: u64) -> Totals {
    let (tree, mut rng) = (tree(), SplitMix64::new(seed));
    let config = ProxyConfig { upstream, filter_slots: 64, ..ProxyConfig::default() };
    let mut children: Vec<Proxy> =
        (0..CHILDREN).map(|index| Proxy::new(tree, NodeId(2 + index), config)).collect();
    let mut parent = Proxy::new(tree, NodeId(1), config);
    let mut totals = Totals::default();
    let mut wire: Vec<(u64, u16, Vec<u8>)> = Vec::new();
    let mut inbox: VecDeque<Vec<u8>> = VecDeque::new();
    let mut seen = BTreeSet::new();
    let (mut seqs, start) = ([0u64; CHILDREN as usize], Nanos::SECOND);
    let mut out = Outbox::default();
    let send = |out: &Outbox, now: u64, wire: &mut Vec<(u64, u16, Vec<u8>)>| {
        for op in out.ops() {
            if let Op::Datagram { to: Peer::Node(to), bytes, .. } = *op {
                wire.push((now + WIRE_NS, to.0, out.bytes(bytes).to_vec()));
            }
        }
    };
    for step in 0..120_000u64 {
        let now = start + step * 5_000;
        let clock = ClockReading { now: Nanos(now), bound_ns: 0 };
        // 50 ms of bursts at 1.5 times what the parent can take, then quiet.
        let bursting = step % 20_000 < 10_000 && step < 40_000;
        for index in 0..CHILDREN {
            if bursting && rng.permille(62) {
                seqs[usize::from(index)] += 1;
                totals.offered += 1;
                let price = 90 + rng.below(20) as i64;
                let price = if rng.below(2) == 0 { price } else { -price };
                let bytes = order(index * 8 + 1, seqs[usize::from(index)], now, price);
                out.clear();
                children[usize::from(index)].handle_datagram(
                    clock,
                    Channel::OVERLAY,
                    Peer::Addr(0),
                    &bytes,
                    &mut out,
                );
                send(&out, now, &mut wire);
            }
            let child = &mut children[usize::from(index)];
            if child.next_timeout() <= clock.now {
                out.clear();
                child.handle_timeout(clock, &mut out);
                send(&out, now, &mut wire);
            }
        }
        let (due, later): (Vec<_>, Vec<_>) = wire.drain(..).partition(|(at, ..)| *at <= now);
        wire = later;
        for (_, to, bytes) in due {
            if to == 1 && inbox.len() >= 64 {
                totals.dropped += 1;
            } else if to == 1 {
                inbox.push_back(bytes);
            } else if to == 0 {
                let (header, rest) = HopHeader::read(&bytes).unwrap();
                let (body, _) = frame::body::<OrderBody>(rest).unwrap();
                totals.repeated += u64::from(!seen.insert((body.source.gateway, body.source.seq)));
                totals.arrived += 1;
                totals.deferred += u64::from(header.flags & ORDER_DEFERRED != 0);
                totals.wait_max_ns = totals.wait_max_ns.max(Nanos(now) - body.t_in);
            } else {
                assert!(ControlHeader::is_control(&bytes), "only reports go down");
                out.clear();
                children[usize::from(to - 2)].handle_datagram(
                    clock,
                    Channel::OVERLAY,
                    Peer::Addr(0),
                    &bytes,
                    &mut out,
                );
                send(&out, now, &mut wire);
            }
        }
        out.clear();
        if step % 3 == 0
            && let Some(bytes) = inbox.pop_front()
        {
            parent.handle_datagram(clock, Channel::OVERLAY, Peer::Addr(0), &bytes, &mut out);
        }
        if parent.next_timeout() <= clock.now {
            parent.handle_timeout(clock, &mut out);
        }
        send(&out, now, &mut wire);
    }
    for proxy in children.iter().chain([&parent]) {
        let queue = proxy.stats().upstream.queue;
        totals.shed += queue.shed_full + queue.shed_account;
        assert_eq!(proxy.stats().malformed, 0);
        assert_eq!(queue.taken - queue.served, 0, "seed {seed}: some still wait");
    }
    assert_eq!(
        totals.offered,
        totals.arrived + totals.dropped + totals.shed,
        "seed {seed}: every order is accounted for"
    );
    assert_eq!(totals.repeated, 0);
    totals
}

fn config(pace: Pace) -> Option<UpstreamConfig> {
    let queue = QueueConfig { capacity: 16_384, account_max: 16_384, ..QueueConfig::default() };
    Some(UpstreamConfig { queue, pace, gap_ns: 15_000 })
}

#[test]
fn bursts_overflow_the_parent_without_a_pace() {
    for upstream in [None, config(Pace::Free)] {
        let totals = burst(upstream, 1);
        assert!(totals.dropped * 5 > totals.offered, "{} dropped", totals.dropped);
    }
}

/// A median over 50 ms turns only when half of what is in it is bad: between two bursts of its own
/// making the rule comes back to a quantum of zero and sends all that waits.
#[test]
fn the_papers_rule_alone_goes_on_losing_in_a_long_burst() {
    let pacer = PacerConfig { threshold_ns: 60_000, ..PacerConfig::default() };
    let (free, paced) = (burst(config(Pace::Free), 2), burst(config(Pace::Paper(pacer)), 2));
    assert!(paced.dropped > 0 && paced.dropped < 2 * free.dropped, "{}", paced.dropped);
    assert!(paced.wait_max_ns > 10 * free.wait_max_ns, "what is not lost waits");
}

#[test]
fn credits_lose_nothing() {
    for seed in 0..3 {
        let totals = burst(config(Pace::Credits { rate: 60 }), seed);
        assert_eq!((totals.dropped, totals.shed), (0, 0), "seed {seed}");
        assert!(totals.deferred > 0);
    }
}

#[test]
fn a_full_queue_sheds_and_says_so() {
    let small = QueueConfig { capacity: 256, account_max: 64, ..QueueConfig::default() };
    let upstream = UpstreamConfig { queue: small, pace: Pace::Credits { rate: 60 }, gap_ns: 0 };
    let totals = burst(Some(upstream), 4);
    assert!(totals.shed > 0);
    assert_eq!(totals.dropped, 0, "what is shed is shed at the first hop");
}

#[test]
fn a_parent_that_never_reports_is_sent_to_freely() {
    let tree = tree();
    let upstream =
        config(Pace::Credits { rate: 10 }).map(|upstream| UpstreamConfig { gap_ns: 0, ..upstream });
    let mut child = Proxy::new(
        tree,
        NodeId(1),
        ProxyConfig { upstream, filter_slots: 64, ..Default::default() },
    );
    let (mut out, mut sent) = (Outbox::default(), 0);
    for step in 0..100u64 {
        let clock = ClockReading { now: Nanos(Nanos::SECOND + step * Nanos::MILLI), bound_ns: 0 };
        let mut bytes = order(1, step + 1, clock.now.0, 5);
        bytes[4] = 2;
        bytes[5] = 0;
        out.clear();
        child.handle_datagram(clock, Channel::OVERLAY, Peer::Addr(0), &bytes, &mut out);
        child.handle_timeout(clock, &mut out);
        sent += out
            .ops()
            .iter()
            .filter(|op| matches!(op, Op::Datagram { to: Peer::Node(ROOT), .. }))
            .count();
    }
    assert_eq!(sent, 100);
    assert!(child.stats().upstream.impatient > 0);
}
