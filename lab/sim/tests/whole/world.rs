//! The world keeps the contract of `types::Node` whatever the seed.

use proptest::prelude::*;
use sim::{Fault, LinkModel, NoTap, Place, Sent, SimClock, Tap, Verdict, World, address};
use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer, SplitMix64};

const START: Nanos = Nanos(1_800_000_000 * Nanos::SECOND);

/// Sends numbered datagrams to its peers on a timer, and writes a byte sequence to a stream.
struct Chatter {
    peers: Vec<Peer>,
    dial: Option<Peer>,
    every_ns: u64,
    next: Nanos,
    left: u32,
    written: u8,
    wants: bool,
    heard: Vec<(Peer, u8)>,
    read: Vec<u8>,
    connects: u32,
    closes: u32,
    early: u32,
    backwards: u32,
    last: Nanos,
}

impl Chatter {
    fn new(peers: Vec<Peer>, dial: Option<Peer>, left: u32) -> Chatter {
        Chatter {
            peers,
            dial,
            every_ns: 50_000,
            next: Nanos(0),
            left,
            written: 0,
            wants: true,
            heard: Vec::new(),
            read: Vec::new(),
            connects: 0,
            closes: 0,
            early: 0,
            backwards: 0,
            last: Nanos(0),
        }
    }

    fn look(&mut self, now: ClockReading) {
        self.backwards += u32::from(now.now < self.last);
        self.last = now.now;
    }
}

impl Node for Chatter {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        _channel: Channel,
        from: Peer,
        bytes: &[u8],
        _out: &mut Outbox,
    ) {
        self.look(now);
        self.heard.push((from, bytes[0]));
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.look(now);
        self.early += u32::from(now.now < self.next);
        self.wants = !self.wants;
        if let Some(peer) = self.dial.take() {
            out.connect(ConnId(1), peer);
        }
        let span = out.store(&[self.left as u8; 32]);
        for &peer in &self.peers {
            out.datagram(Channel::OVERLAY, peer, span);
        }
        let (from, to) = (self.written, self.written.wrapping_add(self.left as u8));
        let bytes = out.write(|buffer| buffer.extend(from..to.max(from)));
        out.stream(ConnId(1), bytes);
        self.written = to.max(from);
        self.left -= 1;
        self.next = if self.left > 0 { now.now.after(self.every_ns) } else { Nanos::NEVER };
        if self.left == 0 {
            self.wants = true;
            out.close(ConnId(1));
        }
    }

    fn next_timeout(&self) -> Nanos {
        self.next
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, _out: &mut Outbox) {
        self.look(now);
        assert!(conn == ConnId(1) || conn.0 >= 1 << 31);
        self.connects += 1;
    }

    fn handle_stream(&mut self, now: ClockReading, _: ConnId, bytes: &[u8], _: &mut Outbox) {
        self.look(now);
        assert!(self.wants && !bytes.is_empty());
        self.read.extend_from_slice(bytes);
    }

    fn handle_close(&mut self, now: ClockReading, _conn: ConnId, _out: &mut Outbox) {
        self.look(now);
        self.closes += 1;
    }

    fn wants_stream(&self, _conn: ConnId) -> bool {
        self.wants
    }
}

fn rough() -> LinkModel {
    LinkModel {
        base_ns: 20_000,
        jitter_ns: 15_000,
        jitter_sigma: 0.447,
        loss_permille: 10,
        duplicate_permille: 10,
        reorder_permille: 10,
        reorder_ns: 300_000,
    }
}

/// Five nodes in a ring of datagrams; each also streams to the next.
fn ring(seed: u64) -> World<Chatter> {
    let mut rng = SplitMix64::new(seed);
    let mut world = World::new(seed, START, rough());
    for index in 0..5 {
        let peers = vec![Peer::Node(NodeId((index + 1) % 5)), Peer::Node(NodeId((index + 2) % 5))];
        let dial = Some(address(usize::from((index + 1) % 5), Channel(9)));
        let clock = SimClock {
            origin: START,
            offset_ns: rng.below(2_000_000) as i64 - 1_000_000,
            drift_ppb: rng.below(200_000) as i64 - 100_000,
            bound_ns: 2_000_000,
            ..SimClock::default()
        };
        let place = Place {
            overlay: Some(NodeId(index)),
            clock,
            group: 0,
            egress_ns: 3_280,
            listens: true,
        };
        world.add(Chatter::new(peers, dial, 200), place);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_contract_of_a_node_holds(seed in any::<u64>()) {
        let mut world = ring(seed);
        world.run_until(START.after(Nanos::SECOND), &mut NoTap);
        for node in world.nodes().flatten() {
            prop_assert_eq!((node.early, node.backwards, node.left), (0, 0, 0));
            prop_assert_eq!((node.connects, node.closes), (2, 1));
            let expect: Vec<u8> = (0..node.read.len()).map(|i| i as u8).collect();
            prop_assert_eq!(&node.read, &expect);
            prop_assert!(node.read.len() > 200, "{} bytes of the stream came", node.read.len());
        }
        prop_assert_eq!(world.pending(), (0, 0));
        let (total, heard) = (world.links().total(), world.nodes().flatten());
        prop_assert_eq!(total.sent, 5 * 2 * 200);
        prop_assert_eq!(total.delivered, total.sent - total.dropped + total.duplicated);
        prop_assert_eq!(total.delivered, heard.map(|node| node.heard.len() as u64).sum::<u64>());
    }

    #[test]
    fn a_seed_decides_everything(seed in any::<u64>()) {
        let run = |seed: u64, step: u64| {
            let mut world = ring(seed);
            world.run_until_idle(START.after(Nanos::SECOND), step, &mut NoTap, |_| false);
            (world.event_hash(), world.stats(), world.links().total())
        };
        prop_assert_eq!(run(seed, Nanos::SECOND), run(seed, 77_777));
        prop_assert_ne!(run(seed, Nanos::SECOND).0, run(seed ^ 1, Nanos::SECOND).0);
    }
}

#[test]
fn the_dead_hear_nothing_and_their_streams_end() {
    let mut world = ring(3);
    world.fault(START.after(5_000_000), Fault::Kill(1));
    world.fault(START.after(5_000_000), Fault::CutStreams(3));
    let fresh = |now: Nanos| Chatter { next: now, ..Chatter::new(vec![], None, 1) };
    world.fault(START.after(8_000_000), Fault::Restart(1, Box::new(fresh)));
    world.run_until(START.after(7_000_000), &mut NoTap);
    assert!(world.node(1).is_none());
    assert!(world.links().total().to_dead > 10);
    world.run_until(START.after(Nanos::SECOND), &mut NoTap);
    assert!(world.node(1).is_some_and(|node| node.left == 0 && node.read.is_empty()));
    let closes: Vec<u32> = world.nodes().flatten().map(|node| node.closes).collect();
    // 0 lost its stream to 1, 2 those from 1 and to 3, 3 both, 4 that from 3; 4 closed that to 0.
    assert_eq!(closes, [2, 0, 2, 2, 1]);
    assert_eq!(world.stats().streams_cut, 2);
}

#[test]
fn a_connect_to_nobody_is_answered_by_a_close() {
    let mut world = World::new(1, START, rough());
    world.add(Chatter::new(vec![], Some(address(9, Channel(0))), 2), Place::default());
    world.add(Chatter::new(vec![], Some(address(0, Channel(0))), 2), Place::default());
    world.run_until(START.after(Nanos::SECOND), &mut NoTap);
    // Closing before the answer comes means that there is none: `left` is 2, so both heard it.
    assert!(world.nodes().flatten().all(|node| (node.connects, node.closes) == (0, 1)));
    assert_eq!(world.stats().streams_refused, 2);
}

#[test]
fn partitions_and_taps_take_their_part() {
    struct Forger(u64);
    impl Tap<Chatter> for Forger {
        fn datagram(&mut self, sent: Sent<'_>) -> Verdict {
            match (sent.from, sent.to) {
                (0, 1) => {
                    self.0 += 1;
                    Verdict::Rewrite(vec![255])
                }
                (0, 2) => Verdict::Drop,
                _ => Verdict::Pass,
            }
        }
    }
    let mut world = ring(4);
    world.links_mut().block(4, 1, START, START.after(Nanos::SECOND));
    let mut forger = Forger(0);
    world.run_until(START.after(Nanos::SECOND), &mut forger);
    assert_eq!(forger.0, 200);
    assert_eq!(world.links().total().blocked, 400);
    let heard = |node: usize, from: u16| {
        let heard = world.node(node).map(|node| node.heard.clone()).unwrap_or_default();
        heard.into_iter().filter(move |(peer, _)| *peer == Peer::Node(NodeId(from)))
    };
    assert!(heard(1, 0).count() > 180 && heard(1, 0).all(|(_, byte)| byte == 255));
    assert_eq!((heard(2, 0).count(), heard(1, 4).count()), (0, 0));
}

#[test]
fn a_paused_node_gets_everything_later_and_nothing_before() {
    let (from, until) = (START.after(4 * Nanos::MILLI), START.after(6 * Nanos::MILLI));
    struct Watcher(Nanos, Nanos, u32);
    impl Tap<Chatter> for Watcher {
        fn after(&mut self, at: Nanos, node: usize, _: &Chatter) {
            self.2 += u32::from(node == 1 && self.0 <= at && at < self.1);
        }
    }
    let mut world = ring(5);
    world.fault(from, Fault::Pause(1, 2 * Nanos::MILLI));
    world.fault(from.after(1), Fault::Pause(1, 10));
    let mut watcher = Watcher(from.after(1), until, 0);
    world.run_until(START.after(Nanos::SECOND), &mut watcher);
    assert_eq!(watcher.2, 0, "it was called during its pause");
    assert_eq!(world.stats().pauses, 2);
    for node in world.nodes().flatten() {
        assert_eq!((node.early, node.backwards, node.left), (0, 0, 0));
    }
    let total = world.links().total();
    assert_eq!(total.delivered, total.sent - total.dropped + total.duplicated);
    assert_eq!(world.pending(), (0, 0));
}

#[test]
fn a_node_that_dies_during_its_pause_leaves_nothing_behind() {
    let mut world = ring(6);
    world.fault(START.after(4_000_000), Fault::Pause(1, 3 * Nanos::MILLI));
    world.fault(START.after(5_000_000), Fault::Kill(1));
    let fresh = |now: Nanos| Chatter { next: now, ..Chatter::new(vec![], None, 1) };
    world.fault(START.after(6_000_000), Fault::Restart(1, Box::new(fresh)));
    world.run_until(START.after(Nanos::SECOND), &mut NoTap);
    assert_eq!(world.pending(), (0, 0));
    assert!(world.node(1).is_some_and(|node| node.left == 0));
    assert_eq!((world.stats().kills, world.stats().restarts), (1, 1));
}

#[test]
fn stepped_clocks_never_run_backwards_and_fire_no_timer_early() {
    for seed in 0..16 {
        let mut world = ring(seed);
        let mut rng = SplitMix64::new(seed);
        for step in 1..40 {
            let (node, offset) = (rng.below(5) as usize, rng.below(3_000_000) as i64 - 1_500_000);
            world.fault(START.after(step * 250_000), Fault::StepClock(node, offset));
        }
        world.run_until(START.after(Nanos::SECOND), &mut NoTap);
        assert_eq!(world.stats().clock_steps, 39);
        for node in world.nodes().flatten() {
            assert_eq!((node.early, node.backwards, node.left), (0, 0, 0), "seed {seed}");
        }
    }
}

#[test]
fn who_does_not_read_is_cut_off_once_too_much_waits() {
    let mut world = ring(7);
    world.limit_streams(240);
    world.fault(START, Fault::StopReading(1));
    world.run_until(START.after(Nanos::SECOND), &mut NoTap);
    assert_eq!(world.stats().streams_cut, 1);
    let read: Vec<usize> = world.nodes().flatten().map(|node| node.read.len()).collect();
    assert!(read[1] < 200 && read[2] > 200, "{read:?}");
}
