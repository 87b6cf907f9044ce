//! Orders from gateways through two proxies to a log: each exactly once, each session in order.

use overlay::{
    frame::{self, FrameKind, GrantBody, HelloBody, HopHeader, OrderAckBody, OrderBody},
    ingress::{Ingress, IngressConfig, Verdict},
    order_ack::{AckScheduler, Progress},
    sequencer::SequencerConfig,
    uplink::{SubmitError, Uplink, UplinkConfig},
};
use types::{
    AccountId, GatewayId, Incarnation, Nanos, NodeId, Outbox, Seen, SeqWindow, ShardId, Source,
    SplitMix64,
};

use crate::lossy::{Faults, Lossy};

const ROOT: NodeId = NodeId(0);
const PROXIES: [NodeId; 2] = [NodeId(1), NodeId(2)];
const GATEWAYS: u16 = 3;
const SESSIONS: u64 = 3;

/// What the root keeps of a gateway: boot nonce, life, and what of it is in the log.
struct Life {
    nonce: u32,
    incarnation: Incarnation,
    logged: SeqWindow,
}

/// One logged order: its transport key, account, number within the account, flags.
struct Logged {
    source: Source,
    account: u16,
    number: u64,
}

struct World {
    net: Lossy,
    ingress: Ingress,
    acks: AckScheduler,
    lives: Vec<Life>,
    log: Vec<Logged>,
    uplinks: Vec<Uplink>,
    /// Next number of each account, by gateway and session.
    numbers: Vec<u64>,
    rng: SplitMix64,
    seed: u64,
    out: Outbox,
    /// Off in the negative control.
    timers: bool,
}

fn gateway_node(gateway: u16) -> NodeId {
    NodeId(10 + gateway)
}

fn uplink(gateway: u16, nonce: u32) -> Uplink {
    let config = UplinkConfig::new(GatewayId(gateway), gateway_node(gateway), ROOT, nonce);
    Uplink::new(config, PROXIES.to_vec())
}

impl World {
    fn new(seed: u64, faults: Faults, window_ns: u64) -> World {
        let sequencer = SequencerConfig { window_ns, capacity: 2_048, ..Default::default() };
        let config =
            IngressConfig { shard: ShardId(0), gateways: usize::from(GATEWAYS), sequencer };
        let mut world = World {
            net: Lossy::new(seed, faults),
            ingress: Ingress::new(&config),
            acks: AckScheduler::new(ROOT, 1, usize::from(GATEWAYS)),
            lives: Vec::new(),
            log: Vec::new(),
            uplinks: (1..=GATEWAYS)
                .map(|gateway| uplink(gateway, 70 + u32::from(gateway)))
                .collect(),
            numbers: vec![0; usize::from(GATEWAYS) * SESSIONS as usize],
            rng: SplitMix64::new(seed),
            seed,
            out: Outbox::default(),
            timers: true,
        };
        world.lives.resize_with(usize::from(GATEWAYS), || Life {
            nonce: 0,
            incarnation: Incarnation(0),
            logged: SeqWindow::default(),
        });
        for gateway in 1..=GATEWAYS {
            world.boot(gateway);
        }
        world
    }

    fn boot(&mut self, gateway: u16) {
        self.uplinks[usize::from(gateway) - 1].start(self.net.clock(), &mut self.out);
        self.net.send_all(gateway_node(gateway), &mut self.out);
    }

    /// Submits one order of a random session; false when its gateway takes none now.
    fn submit(&mut self) -> bool {
        let (gateway, session) = (self.rng.below(GATEWAYS.into()), self.rng.below(SESSIONS));
        let account = gateway * SESSIONS + session;
        let number = self.numbers[account as usize] + 1;
        let mut payload = [0; 10];
        payload[..2].copy_from_slice(&(account as u16).to_le_bytes());
        payload[2..].copy_from_slice(&number.to_le_bytes());
        let now = self.net.clock();
        let uplink = &mut self.uplinks[gateway as usize];
        let session = AccountId(account as u16);
        let result = uplink.submit(now, session, now.now, &payload, &mut self.out);
        self.net.send_all(gateway_node(gateway as u16 + 1), &mut self.out);
        match result {
            Ok(_) => self.numbers[account as usize] = number,
            Err(error) => {
                assert!(matches!(error, SubmitError::Full | SubmitError::NotReady), "{error:?}");
            }
        }
        result.is_ok()
    }

    fn deliver(&mut self, to: NodeId, bytes: &[u8]) {
        let (header, rest) = HopHeader::read(bytes).expect("only whole frames travel here");
        if PROXIES.contains(&to) {
            self.net.send(to, ROOT, bytes);
        } else if to == ROOT {
            self.at_root(&header, rest);
        } else {
            let uplink = &mut self.uplinks[usize::from(to.0) - 11];
            match header.kind {
                FrameKind::OrderAck => {
                    let (ack, _) = frame::body::<OrderAckBody>(rest).unwrap();
                    uplink.handle_ack(self.net.clock(), &ack);
                }
                FrameKind::Grant => {
                    uplink.handle_grant(&frame::body::<GrantBody>(rest).unwrap().0);
                }
                kind => panic!("seed {}: a gateway got {kind:?}", self.seed),
            }
        }
    }

    fn at_root(&mut self, header: &HopHeader, rest: &[u8]) {
        match header.kind {
            FrameKind::Hello => self.grant(&frame::body::<HelloBody>(rest).unwrap().0),
            FrameKind::Order => {
                let (order, payload) = frame::body::<OrderBody>(rest).unwrap();
                let now = self.net.clock();
                let verdict = self.ingress.handle_order(now, header, &order, payload);
                if matches!(verdict, Verdict::Duplicate | Verdict::Parked) {
                    self.acks.mark(order.source.gateway);
                }
            }
            kind => panic!("seed {}: the root got {kind:?}", self.seed),
        }
    }

    fn grant(&mut self, hello: &HelloBody) {
        let life = &mut self.lives[usize::from(hello.gateway.0) - 1];
        if life.nonce != hello.boot_nonce {
            let incarnation = Incarnation(life.incarnation.0 + 1);
            *life = Life { nonce: hello.boot_nonce, incarnation, logged: SeqWindow::default() };
            self.ingress.set_incarnation(hello.gateway, incarnation);
        }
        let body = GrantBody {
            gateway: hello.gateway,
            reserved: 0,
            boot_nonce: hello.boot_nonce,
            incarnation: life.incarnation,
        };
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, HopHeader::new(FrameKind::Grant, ROOT, 1), &body, &[]);
        self.net.send(ROOT, gateway_node(hello.gateway.0), &bytes);
    }

    fn log_what_is_due(&mut self) {
        while let Some(order) = self.ingress.pop_due(self.net.clock()) {
            let source = order.source;
            let life = &mut self.lives[usize::from(source.gateway.0) - 1];
            assert_eq!(source.incarnation, life.incarnation, "seed {}", self.seed);
            assert_eq!(life.logged.record(source.seq), Seen::New, "seed {}: twice", self.seed);
            let payload = order.payload.as_slice();
            self.log.push(Logged {
                source,
                account: u16::from_le_bytes(payload[..2].try_into().unwrap()),
                number: u64::from_le_bytes(payload[2..].try_into().unwrap()),
            });
            self.acks.mark_logged(&order);
        }
        let (lives, ingress) = (&self.lives, &self.ingress);
        let lookup = |gateway: GatewayId| {
            let life = &lives[usize::from(gateway.0) - 1];
            let (to, incarnation, logged) =
                (gateway_node(gateway.0), life.incarnation, &life.logged);
            Some(Progress { to, incarnation, logged, arrivals: ingress.arrivals(gateway) })
        };
        self.acks.flush(lookup, &mut self.out);
        self.net.send_all(ROOT, &mut self.out);
    }

    /// Runs everything that happens until `until`.
    fn run(&mut self, until: u64) {
        loop {
            let timers = self.uplinks.iter().filter(|_| self.timers).map(Uplink::next_timeout);
            let timer = timers.chain([self.ingress.next_timeout()]).min().unwrap().0;
            let next = timer.min(self.net.next_arrival().unwrap_or(u64::MAX));
            if next > until {
                break;
            }
            self.net.now = self.net.now.max(next);
            while let Some((to, bytes)) = self.net.arrived() {
                self.deliver(to, &bytes);
            }
            self.log_what_is_due();
            for gateway in 1..=GATEWAYS {
                if self.timers {
                    let uplink = &mut self.uplinks[usize::from(gateway) - 1];
                    uplink.handle_timeout(self.net.clock(), &mut self.out);
                    self.net.send_all(gateway_node(gateway), &mut self.out);
                }
            }
        }
        self.net.now = until;
    }

    /// Submits `orders` at random moments over about 200 ms.
    fn play(&mut self, orders: u64) {
        let mut left = orders;
        while left > 0 {
            left -= u64::from(self.submit());
            if self.rng.permille(700) {
                let pause = self.rng.below(400_000_000 / orders);
                self.run(self.net.now + pause);
            }
        }
    }

    /// Runs until every order is acknowledged, at most `seconds`; returns how long that took, in ns.
    fn settle(&mut self, seconds: u64) -> u64 {
        let start = self.net.now;
        let end = start + seconds * Nanos::SECOND;
        while self.net.now < end && self.uplinks.iter().any(|uplink| uplink.in_flight() > 0) {
            self.run(self.net.now + 10 * Nanos::MILLI);
        }
        self.net.now - start
    }

    fn resent(&self) -> u64 {
        self.uplinks.iter().map(|uplink| uplink.counters().resent).sum()
    }

    /// Everything submitted is in the log, once, in the order of its session.
    fn check_complete(&self) {
        let mut seen = vec![0; self.numbers.len()];
        for logged in &self.log {
            let last = &mut seen[usize::from(logged.account)];
            let (seed, source) = (self.seed, logged.source);
            assert_eq!(logged.number, *last + 1, "seed {seed}: {source:?} out of its order");
            *last += 1;
        }
        assert_eq!(seen, self.numbers, "seed {}", self.seed);
        for uplink in &self.uplinks {
            assert_eq!(uplink.in_flight(), 0, "seed {}: not acknowledged", self.seed);
            assert_eq!(uplink.counters().acked, uplink.counters().sent, "seed {}", self.seed);
        }
        assert_eq!(self.ingress.sequencer().held(), 0, "seed {}", self.seed);
    }
}

#[test]
fn every_order_is_logged_exactly_once_in_session_order() {
    let (mut dropped, mut resent, mut parked) = (0, 0, 0);
    for seed in 0..60 {
        let faults = Faults::drawn(&mut SplitMix64::new(!seed));
        let mut world = World::new(seed, faults, [0, 300_000, 2_000_000][seed as usize % 3]);
        world.play(600);
        world.settle(30);
        world.check_complete();
        dropped += world.net.dropped;
        resent += world.resent();
        parked += world.ingress.sequencer().counters().parked;
    }
    assert!(dropped > 0 && resent > 0 && parked > 0, "{dropped} {resent} {parked}");
}

#[test]
fn a_lossless_network_needs_no_resend() {
    let mut world = World::new(7, Faults { jitter_ns: 100_000, ..Faults::NONE }, 400_000);
    world.run(world.net.now + Nanos::MILLI);
    world.play(2_000);
    world.settle(5);
    world.check_complete();
    assert_eq!(world.resent(), 0);
    assert_eq!(world.ingress.sequencer().counters().late, 0);
}

#[test]
fn when_one_candidate_dies_the_other_carries() {
    for seed in 0..20 {
        let mut world = World::new(seed, Faults::NONE, 200_000);
        world.play(300);
        world.net.dead.push(PROXIES[0]);
        world.play(300);
        let settling = world.settle(30);
        assert!(settling <= 300 * Nanos::MILLI, "seed {seed}: {settling} ns to recover");
        world.check_complete();
        for uplink in &world.uplinks {
            assert_eq!(uplink.counters().parent_changes, 1, "seed {seed}");
        }
        let before = world.resent();
        assert!(before > 0, "seed {seed}");
        world.play(300);
        world.settle(30);
        world.check_complete();
        assert_eq!(world.resent(), before, "seed {seed}: the other parent is preferred now");
    }
}

#[test]
fn a_burst_that_fills_the_windows_recovers_from_loss() {
    for seed in 0..5 {
        let faults = Faults { drop_permille: 100, jitter_ns: 200_000, ..Faults::NONE };
        let mut world = World::new(seed, faults, 200_000);
        world.run(world.net.now + 500 * Nanos::MILLI);
        let mut left = 6_000;
        while left > 0 {
            match world.submit() {
                true => left -= 1,
                false => world.run(world.net.now + Nanos::MILLI),
            }
        }
        let settling = world.settle(60);
        // The root has no room for all that come early: what it drops comes again.
        assert!(world.ingress.counters().full > 0, "seed {seed}");
        assert!(settling <= 5 * Nanos::SECOND, "seed {seed}: {settling} ns to recover");
        world.check_complete();
    }
}

#[test]
fn negative_control_without_timers_orders_are_lost() {
    let mut incomplete = 0;
    for seed in 0..10 {
        let faults = Faults { drop_permille: 100, ..Faults::NONE };
        let mut world = World::new(seed, Faults::NONE, 200_000);
        world.run(world.net.now + Nanos::MILLI);
        world.net.faults = faults;
        world.timers = false;
        world.play(300);
        world.settle(5);
        incomplete += u32::from((world.log.len() as u64) < world.numbers.iter().sum());
    }
    assert_eq!(incomplete, 10);
}

#[test]
fn a_restarted_gateway_cannot_revive_its_old_orders() {
    for seed in 0..20 {
        let faults = Faults::drawn(&mut SplitMix64::new(!seed));
        let mut world = World::new(seed, faults, 2_000_000);
        world.play(200);
        // Copies of the old life are still on their way when the new one starts.
        world.uplinks[0] = uplink(1, 99);
        world.boot(1);
        while !world.uplinks[0].ready() {
            world.run(world.net.now + Nanos::MILLI);
        }
        let old: Vec<u64> = world.numbers[..SESSIONS as usize].to_vec();
        let kept = |world: &World, incarnation: u32| {
            let of_life = |l: &&Logged| {
                l.source.gateway == GatewayId(1) && l.source.incarnation.0 == incarnation
            };
            world.log.iter().filter(of_life).count()
        };
        let first_life = kept(&world, 1);
        world.play(200);
        world.settle(30);
        assert_eq!(kept(&world, 1), first_life, "seed {seed}: an old order came late");
        let fresh: u64 =
            world.numbers[..SESSIONS as usize].iter().sum::<u64>() - old.iter().sum::<u64>();
        assert_eq!(kept(&world, 2) as u64, fresh, "seed {seed}");
    }
}

#[test]
fn a_full_window_pushes_back_and_drains() {
    let mut config = UplinkConfig::new(GatewayId(1), gateway_node(1), ROOT, 5);
    (config.window, config.reserve) = (8, 3);
    let mut uplink = Uplink::new(config, vec![]);
    let (net, mut out) = (Lossy::new(1, Faults::NONE), Outbox::default());
    let now = net.clock();
    let mut submit =
        |uplink: &mut Uplink| uplink.submit(now, AccountId(1), now.now, &[1], &mut out);
    assert_eq!(submit(&mut uplink), Err(SubmitError::NotReady));
    assert!(!uplink.has_room());
    let grant = GrantBody {
        gateway: GatewayId(1),
        reserved: 0,
        boot_nonce: 5,
        incarnation: Incarnation(4),
    };
    uplink.handle_grant(&GrantBody { boot_nonce: 6, ..grant });
    assert!(!uplink.ready());
    uplink.handle_grant(&grant);
    for seq in 1..=8 {
        assert_eq!(uplink.has_room(), seq <= 6, "before number {seq}");
        assert_eq!(submit(&mut uplink), Ok(seq));
    }
    assert_eq!(submit(&mut uplink), Err(SubmitError::Full));
    let ack = |contiguous, selective| OrderAckBody {
        contiguous,
        selective: [selective, 0, 0, 0],
        held: [0; 4],
        incarnation: Incarnation(4),
        echo: 0,
        useful: 0,
        term: 0,
    };
    uplink.handle_ack(now, &OrderAckBody { incarnation: Incarnation(3), ..ack(8, 0) });
    uplink.handle_ack(now, &ack(9, 0));
    assert_eq!((uplink.in_flight(), uplink.counters().ignored), (8, 3));
    uplink.handle_ack(now, &ack(2, 0b110));
    assert_eq!((uplink.in_flight(), uplink.counters().acked), (6, 4));
    uplink.handle_ack(now, &ack(1, 0));
    uplink.handle_ack(now, &ack(3, 0));
    assert_eq!((uplink.in_flight(), uplink.counters().acked), (3, 5));
    uplink.handle_ack(now, &ack(8, u64::MAX));
    assert_eq!((uplink.in_flight(), uplink.counters().acked), (0, 8));
    assert_eq!(uplink.next_timeout(), Nanos::NEVER);
    assert_eq!(submit(&mut uplink), Ok(9));
}
