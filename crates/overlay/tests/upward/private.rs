//! Private streams from the root to gateways: in order, exactly once, across a change of gateway.

use overlay::{
    frame::{self, AttachBody, AttachReplyBody, FrameKind, HopHeader, PrivateAckBody, PrivateBody},
    private_receiver::{PrivateEvent, PrivateReceiver, PrivateReceiverConfig},
    private_sender::{AppendError, PrivateStreams, PrivateStreamsConfig},
};
use types::{
    AccountId, ClockReading, Incarnation, MemorySpill, Nanos, NodeId, Outbox, SpillStore,
    SplitMix64,
};

use crate::lossy::{Faults, Lossy};

const ROOT: NodeId = NodeId(0);
const RECORD: usize = 96;
const ACCOUNTS: u16 = 4;

/// A gateway and everything it was told.
struct Gateway {
    node: NodeId,
    receiver: PrivateReceiver,
    /// Positions delivered, by account.
    delivered: Vec<Vec<u64>>,
    /// Other events, in order.
    events: Vec<String>,
}

struct World {
    net: Lossy,
    streams: PrivateStreams,
    gateways: Vec<Gateway>,
    out: Outbox,
    seed: u64,
    rng: SplitMix64,
    /// Off in the negative control, together with acknowledgements.
    timers: bool,
}

/// Every record says whose it is and where it stands.
fn record(account: u16, position: u64) -> [u8; RECORD] {
    let mut bytes = [account as u8; RECORD];
    bytes[8..16].copy_from_slice(&position.to_le_bytes());
    bytes
}

impl Gateway {
    fn new(node: NodeId, life: u32) -> Gateway {
        let mut receiver = PrivateReceiver::new(PrivateReceiverConfig::new(node, ROOT, RECORD));
        let now = ClockReading { now: Nanos(0), bound_ns: 0 };
        receiver.begin_life(now, Incarnation(life), &mut Outbox::default());
        Gateway {
            node,
            receiver,
            delivered: vec![Vec::new(); usize::from(ACCOUNTS) + 1],
            events: Vec::new(),
        }
    }
}

/// Notes an event and checks that a record is the one its position says.
fn note(event: PrivateEvent<'_>, delivered: &mut [Vec<u64>], events: &mut Vec<String>) {
    match event {
        PrivateEvent::Record { account, position, record: bytes } => {
            assert_eq!(bytes, record(account.0, position));
            delivered[usize::from(account.0)].push(position);
        }
        other => events.push(format!("{other:?}")),
    }
}

impl World {
    fn new(seed: u64, faults: Faults) -> World {
        let config = PrivateStreamsConfig::new(ROOT, ACCOUNTS, RECORD, 100_000);
        World {
            net: Lossy::new(seed, faults),
            streams: PrivateStreams::new(config).unwrap(),
            gateways: vec![Gateway::new(NodeId(10), 1), Gateway::new(NodeId(11), 1)],
            out: Outbox::default(),
            seed,
            rng: SplitMix64::new(seed),
            timers: true,
        }
    }

    fn attach(&mut self, gateway: usize, account: u16, from: u64) {
        let target = &mut self.gateways[gateway];
        target.receiver.attach(self.net.clock(), AccountId(account), from, &mut self.out);
        self.net.send_all(target.node, &mut self.out);
    }

    fn append(&mut self, account: u16) {
        let position = self.streams.next_position(AccountId(account));
        let appended = self.streams.append(AccountId(account), &record(account, position));
        assert_eq!(appended, Ok(position));
    }

    fn deliver(&mut self, to: NodeId, bytes: &[u8]) {
        let (header, rest) = HopHeader::read(bytes).unwrap();
        let now = self.net.clock();
        if to == ROOT {
            match header.kind {
                FrameKind::Attach => {
                    let (body, _) = frame::body::<AttachBody>(rest).unwrap();
                    self.streams.handle_attach(now, header.sender, &body, &mut self.out);
                }
                FrameKind::PrivateAck if !self.timers => {}
                FrameKind::PrivateAck => {
                    let (body, _) = frame::body::<PrivateAckBody>(rest).unwrap();
                    self.streams.handle_ack(now, header.sender, &body, &mut self.out);
                }
                kind => panic!("seed {}: the root got {kind:?}", self.seed),
            }
            return;
        }
        let Gateway { receiver, delivered, events, .. } =
            &mut self.gateways[usize::from(to.0) - 10];
        let on_event = |event: PrivateEvent<'_>| note(event, delivered, events);
        match header.kind {
            FrameKind::AttachReply => {
                let (body, _) = frame::body::<AttachReplyBody>(rest).unwrap();
                receiver.handle_reply(now, &body, on_event);
            }
            FrameKind::Private => {
                let (body, payload) = frame::body::<PrivateBody>(rest).unwrap();
                receiver.handle_private(&body, payload, on_event);
            }
            kind => panic!("seed {}: a gateway got {kind:?}", self.seed),
        }
    }

    fn flush(&mut self) {
        let now = self.net.clock();
        self.streams.flush(now, &mut self.out);
        if self.timers {
            self.streams.handle_timeout(now, &mut self.out);
        }
        self.net.send_all(ROOT, &mut self.out);
        for gateway in &mut self.gateways {
            gateway.receiver.flush(now, &mut self.out);
            if self.timers {
                gateway.receiver.handle_timeout(now, &mut self.out);
            }
            self.net.send_all(gateway.node, &mut self.out);
        }
    }

    fn run(&mut self, ns: u64) {
        let until = self.net.now + ns;
        self.flush();
        loop {
            let timers = self.gateways.iter().map(|gateway| gateway.receiver.next_timeout());
            let timers = timers.chain([self.streams.next_timeout()]).filter(|_| self.timers);
            let timer = timers.min().unwrap_or(Nanos::NEVER).0;
            let next = timer.min(self.net.next_arrival().unwrap_or(u64::MAX));
            if next > until {
                break;
            }
            self.net.now = self.net.now.max(next);
            while let Some((to, bytes)) = self.net.arrived() {
                self.deliver(to, &bytes);
            }
            self.flush();
        }
        self.net.now = until;
    }

    /// Appends `records` to random accounts over time.
    fn play(&mut self, records: u64) {
        for _ in 0..records {
            let account = 1 + self.rng.below(ACCOUNTS.into()) as u16;
            self.append(account);
            if self.rng.permille(100) {
                let pause = self.rng.below(3_000_000);
                self.run(pause);
            }
        }
    }

    fn check(&self, gateway: usize, account: u16, from: u64) {
        let next = self.streams.next_position(AccountId(account));
        let delivered = &self.gateways[gateway].delivered[usize::from(account)];
        let want: Vec<u64> = (from..next).collect();
        assert!(*delivered == want, "seed {}: account {account}: {delivered:?}", self.seed);
    }
}

#[test]
fn records_come_in_order_exactly_once() {
    let (mut resent, mut early, mut gaps) = (0, 0, 0);
    for seed in 0..60 {
        let mut world = World::new(seed, Faults::drawn(&mut SplitMix64::new(!seed)));
        world.play(100);
        for account in 1..=ACCOUNTS {
            world.attach(0, account, 1);
        }
        world.play(1_500);
        world.run(20 * Nanos::SECOND);
        for account in 1..=ACCOUNTS {
            world.check(0, account, 1);
        }
        assert_eq!(world.gateways[0].events.len(), usize::from(ACCOUNTS), "seed {seed}");
        let counters = world.gateways[0].receiver.counters();
        resent += world.streams.counters().records_resent;
        (early, gaps) = (early + counters.early, gaps + counters.gaps);
    }
    assert!(resent > 0 && early > 0 && gaps > 0, "{resent} {early} {gaps}");
}

#[test]
fn a_lossless_network_needs_no_resend_and_packs_records() {
    let mut world = World::new(3, Faults::NONE);
    world.attach(0, 1, 0);
    world.run(Nanos::MILLI);
    for _ in 0..2_000 {
        world.append(1);
    }
    world.run(Nanos::SECOND);
    world.check(0, 1, 1);
    let counters = world.streams.counters();
    assert_eq!((counters.records_sent, counters.records_resent), (2_000, 0));
    assert!(counters.frames <= 2_000 / 14 + 8, "{counters:?}");
}

#[test]
fn another_gateway_takes_over_where_the_dead_one_stopped() {
    for seed in 0..40 {
        let mut world = World::new(seed, Faults::drawn(&mut SplitMix64::new(!seed)));
        world.attach(0, 1, 1);
        world.play(400);
        world.run(50 * Nanos::MILLI);
        let got = world.gateways[0].delivered[1].len() as u64;
        world.net.dead.push(NodeId(10));
        world.play(200);
        // The participant comes back at the other gateway and says what it has.
        let mut tries = 0;
        while !world.gateways[1].receiver.is_attached(AccountId(1)) {
            tries += 1;
            assert!(tries < 50, "seed {seed}: never attached");
            if !world.gateways[1].events.is_empty() || tries == 1 {
                assert!(world.gateways[1].events.drain(..).all(|event| event.contains("Refused")));
                world.attach(1, 1, got + 1);
            }
            world.run(100 * Nanos::MILLI);
        }
        world.play(200);
        world.run(20 * Nanos::SECOND);
        world.check(1, 1, got + 1);
        let first: Vec<u64> = (1..=got).collect();
        assert_eq!(world.gateways[0].delivered[1], first, "seed {seed}");
        assert_eq!(world.streams.counters().takeovers, 1, "seed {seed}");
        // The first gateway was only cut off: once back it is told, and changes nothing.
        world.net.dead.clear();
        world.run(5 * Nanos::SECOND);
        let told = world.gateways[0].events.last().unwrap();
        assert!(told.starts_with("Detached"), "seed {seed}: {told}");
        assert_eq!(world.streams.attached_at(AccountId(1)), Some(NodeId(11)), "seed {seed}");
    }
}

/// Another root takes over, which has the same records and knows no gateway.
fn take_over(world: &mut World, told: bool) {
    world.streams.forget_attachments();
    if told {
        for gateway in &world.gateways {
            world.streams.ask_anew(gateway.node, &mut world.out);
        }
        world.net.send_all(ROOT, &mut world.out);
    }
}

#[test]
fn streams_go_on_at_another_root_and_sessions_hear_nothing_of_it() {
    for seed in 0..40 {
        let mut world = World::new(seed, Faults::drawn(&mut SplitMix64::new(!seed)));
        for account in 1..=ACCOUNTS {
            world.attach(usize::from(account % 2), account, 1);
        }
        world.play(300);
        world.run(Nanos::SECOND);
        for round in 0..5 {
            // In every other seed the gateways are told by answers to what they say only.
            take_over(&mut world, seed % 2 == 0);
            world.play(100 * (1 + round % 2));
            let pause = world.rng.below(400) * Nanos::MILLI;
            world.run(pause);
        }
        world.run(20 * Nanos::SECOND);
        for account in 1..=ACCOUNTS {
            world.check(usize::from(account % 2), account, 1);
        }
        for gateway in &world.gateways {
            let attached = |event: &String| event.starts_with("Attached");
            assert!(gateway.events.iter().all(attached), "seed {seed}: {:?}", gateway.events);
            assert_eq!(gateway.events.len(), usize::from(ACCOUNTS) / 2, "seed {seed}");
        }
    }
}

/// Negative control: a root that says of what it does not know that it is over ends sessions.
#[test]
fn control_a_root_that_ends_what_it_does_not_know_ends_sessions() {
    let mut world = World::new(1, Faults::NONE);
    world.attach(0, 1, 1);
    world.play(50);
    world.run(Nanos::SECOND);
    let config = PrivateStreamsConfig::new(ROOT, ACCOUNTS, RECORD, 100_000);
    world.streams = PrivateStreams::new(config).unwrap();
    // As one that has ended the attachment itself.
    let token = overlay::private_receiver::first_token(Incarnation(1));
    let body = AttachBody { account: AccountId(1), attach: 0, token, from: 0 };
    world.streams.handle_attach(world.net.clock(), NodeId(10), &body, &mut world.out);
    world.out.clear();
    world.run(Nanos::SECOND);
    let told = world.gateways[0].events.last().unwrap();
    assert!(told.starts_with("Detached"), "{told}");
}

#[test]
fn a_live_attachment_is_not_evicted_but_given_back_or_replaced() {
    let mut world = World::new(1, Faults::NONE);
    world.attach(0, 1, 1);
    world.run(3 * Nanos::SECOND);
    world.attach(1, 1, 1);
    world.run(10 * Nanos::MILLI);
    assert_eq!(world.gateways[1].events, ["Refused { account: AccountId(1) }"]);
    // The same gateway replaces its own at once, from the start.
    (0..30).for_each(|_| world.append(1));
    world.run(10 * Nanos::MILLI);
    world.check(0, 1, 1);
    world.gateways[0].delivered[1].clear();
    world.attach(0, 1, 11);
    world.run(10 * Nanos::MILLI);
    world.check(0, 1, 11);
    // Given back, it is free for the other at once.
    world.gateways[0].receiver.detach(world.net.clock(), AccountId(1), &mut world.out);
    world.net.send_all(NodeId(10), &mut world.out);
    world.run(10 * Nanos::MILLI);
    world.attach(1, 1, 31);
    world.append(1);
    world.run(10 * Nanos::MILLI);
    world.check(1, 1, 31);
    assert!(!world.gateways[0].events.iter().any(|event| event.contains("Detached")));
    // Its next life gets in at once, an earlier one not before its own lease has run out.
    world.gateways[1] = Gateway::new(NodeId(11), 2);
    world.attach(1, 1, 1);
    world.run(10 * Nanos::MILLI);
    world.check(1, 1, 1);
    world.gateways[1] = Gateway::new(NodeId(11), 0);
    world.attach(1, 1, 1);
    world.run(10 * Nanos::MILLI);
    assert!(world.gateways[1].events.pop().unwrap().contains("Refused"));
    world.gateways[1] = Gateway::new(NodeId(11), 0);
    world.run(Nanos::SECOND);
    world.attach(1, 1, 1);
    world.run(Nanos::SECOND);
    world.check(1, 1, 1);
}

#[test]
fn positions_asked_for_are_kept_within_the_stream() {
    let mut world = World::new(1, Faults::NONE);
    (0..5).for_each(|_| (1..=3).for_each(|account| world.append(account)));
    for (account, from) in [(1, 0), (2, 99), (3, 4)] {
        world.attach(0, account, from);
    }
    world.attach(0, ACCOUNTS + 1, 1);
    world.run(10 * Nanos::MILLI);
    assert_eq!(
        world.gateways[0].events,
        [
            "Attached { account: AccountId(1), from: 6, next: 6 }",
            "Attached { account: AccountId(2), from: 6, next: 6 }",
            "Attached { account: AccountId(3), from: 4, next: 6 }",
            "Refused { account: AccountId(5) }",
        ]
    );
    (1..=3).for_each(|account| world.append(account));
    world.run(10 * Nanos::MILLI);
    for (account, from) in [(1, 6), (2, 6), (3, 4)] {
        world.check(0, account, from);
    }
}

#[test]
fn a_paused_account_loses_nothing_and_keeps_its_lease() {
    for seed in 0..10 {
        let mut world = World::new(seed, Faults::drawn(&mut SplitMix64::new(!seed)));
        world.attach(0, 1, 1);
        world.play(200);
        world.run(Nanos::SECOND);
        world.gateways[0].receiver.set_paused(AccountId(1), true);
        let before = world.gateways[0].delivered[1].len();
        world.play(400);
        world.run(3 * Nanos::SECOND);
        assert_eq!(world.gateways[0].delivered[1].len(), before, "seed {seed}");
        world.gateways[0].receiver.set_paused(AccountId(1), false);
        world.run(5 * Nanos::SECOND);
        world.check(0, 1, 1);
        assert_eq!(world.streams.attached_at(AccountId(1)), Some(NodeId(10)), "seed {seed}");
    }
}

#[test]
fn a_dead_gateway_is_not_sent_to_for_ever() {
    let mut world = World::new(1, Faults::NONE);
    world.attach(0, 1, 1);
    world.run(10 * Nanos::MILLI);
    world.net.dead.push(NodeId(10));
    (0..1_000).for_each(|_| world.append(1));
    world.run(2 * Nanos::SECOND);
    let frames = world.streams.counters().frames;
    world.append(1);
    world.run(60 * Nanos::SECOND);
    assert_eq!(world.streams.counters().frames, frames);
    assert!(frames < 60, "one window, then probes: {frames}");
    world.net.dead.clear();
    world.run(Nanos::SECOND);
    world.check(0, 1, 1);
}

#[test]
fn negative_control_without_resends_records_are_lost() {
    let mut incomplete = 0;
    for seed in 0..10 {
        let mut world = World::new(seed, Faults::NONE);
        world.attach(0, 1, 1);
        world.run(10 * Nanos::MILLI);
        world.net.faults.drop_permille = 200;
        world.timers = false;
        world.play(300);
        world.run(5 * Nanos::SECOND);
        let next = world.streams.next_position(AccountId(1));
        incomplete += u32::from((world.gateways[0].delivered[1].len() as u64) < next - 1);
    }
    assert_eq!(incomplete, 10);
}

#[test]
fn the_store_is_bounded_and_checks_what_it_is_given() {
    let config = PrivateStreamsConfig::new(ROOT, 2, 8, 3);
    let mut streams = PrivateStreams::new(config.clone()).unwrap();
    assert_eq!(streams.append(AccountId(3), &[0; 8]), Err(AppendError::UnknownAccount));
    assert_eq!(streams.append(AccountId(1), &[0; 7]), Err(AppendError::Length));
    for position in 1..=3 {
        assert_eq!(streams.append(AccountId(1), &[position as u8; 8]), Ok(position));
    }
    assert_eq!(streams.append(AccountId(2), &[0; 8]), Err(AppendError::Full));
    assert_eq!(streams.record(AccountId(1), 2), Some(&[2; 8][..]));
    assert_eq!(streams.record(AccountId(1), 4), None);
    for record_len in [0, 1_441] {
        assert!(
            PrivateStreams::new(PrivateStreamsConfig { record_len, ..config.clone() }).is_none()
        );
    }
}

/// Takes everything, loses what it took when `broken`, and reads nothing before it was asked so often.
struct Worn {
    spill: MemorySpill,
    broken: bool,
    waits: u32,
    asked: std::sync::atomic::AtomicU32,
}

impl SpillStore for Worn {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.spill.put(at, bytes)
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        !self.broken && self.spill.get(at, into)
    }

    fn get_now(&self, at: u64, into: &mut [u8]) -> Option<bool> {
        use std::sync::atomic::Ordering;
        if self.asked.fetch_add(1, Ordering::Relaxed) % (self.waits + 1) < self.waits {
            return None;
        }
        Some(self.get(at, into))
    }

    fn free(&mut self, at: u64, len: u64) -> bool {
        self.spill.free(at, len)
    }
}

/// Two accounts with many records, few of them in memory.
fn spilled(broken: bool, waits: u32) -> World {
    let mut world = World::new(1, Faults::NONE);
    let spill = Worn { spill: MemorySpill::default(), broken, waits, asked: 0.into() };
    assert!(world.streams.spill_to(Box::new(spill), 256));
    for n in 0..20_000 {
        world.append(1 + n % 2);
    }
    assert!(world.streams.in_memory() <= 256 + 64 * u64::from(ACCOUNTS));
    world
}

#[test]
fn what_is_spilled_is_sent_to_whoever_asks_for_it() {
    let mut world = spilled(false, 0);
    world.attach(0, 1, 1);
    world.attach(1, 2, 5_000);
    world.run(5 * Nanos::SECOND);
    world.append(1);
    world.run(Nanos::SECOND);
    assert!(world.gateways[0].delivered[1].iter().copied().eq(1..=10_001));
    assert!(world.gateways[1].delivered[2].iter().copied().eq(5_000..=10_000));
    assert_eq!(world.streams.counters().unreadable, 0);
}

#[test]
fn a_disk_that_has_to_be_waited_for_delays_a_stream_and_nobody_else() {
    let mut world = spilled(false, 4);
    world.attach(0, 1, 1);
    world.attach(1, 2, 9_990);
    world.run(20 * Nanos::MILLI);
    let [slow, quick] = [0, 1].map(|n| world.gateways[n].delivered[n + 1].len());
    assert!(slow < 10_000 && quick == 11, "{slow} and {quick}");
    world.run(20 * Nanos::SECOND);
    assert!(world.gateways[0].delivered[1].iter().copied().eq(1..=10_000));
    assert_eq!(world.streams.counters().unreadable, 0);
}

#[test]
fn who_asks_for_what_was_given_up_is_detached_and_comes_back_behind_it() {
    let mut world = spilled(false, 0);
    world.streams.bound_spill(64 * 64 * RECORD as u64, true);
    (0..20_000).for_each(|n| world.append(1 + n % 2));
    let first = world.streams.first_position(AccountId(1));
    assert!(first > 5_000 && world.streams.has_room(), "{first}");
    world.attach(0, 1, first - 1);
    world.run(Nanos::SECOND);
    assert!(world.gateways[0].delivered[1].is_empty());
    assert!(world.gateways[0].events.last().is_some_and(|last| last.starts_with("Detached")));
    let counters = world.streams.counters();
    assert_eq!((counters.too_old, counters.unreadable), (1, 0));
    world.attach(0, 1, first);
    world.run(20 * Nanos::SECOND);
    assert!(world.gateways[0].delivered[1].iter().copied().eq(first..=20_000));
}

#[test]
fn what_can_not_be_read_back_ends_the_attachment() {
    let mut world = spilled(true, 0);
    world.attach(0, 1, 1);
    world.run(Nanos::SECOND);
    assert!(world.gateways[0].delivered[1].is_empty());
    assert!(world.gateways[0].events.last().is_some_and(|last| last.starts_with("Detached")));
    assert_eq!(world.streams.counters().unreadable, 1);
    // What is in memory is there for whoever asks for that.
    world.attach(0, 1, 9_999);
    world.run(Nanos::SECOND);
    assert_eq!(world.gateways[0].delivered[1], [9_999, 10_000]);
}
