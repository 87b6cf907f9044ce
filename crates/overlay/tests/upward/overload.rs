//! Re-sends when the way up is slow, full, lossy or dead: a gateway, a queue with a server, a root.
//!
//! The model is small on purpose: every copy takes the server's time, whether it is of use or not,
//! so a sender that repeats itself takes the room of its own new orders. Each check fails when what
//! it relies on (the copy named in acknowledgements, the budget, what it earns) is switched off.

use std::collections::VecDeque;

use overlay::{
    frame::{self, HopHeader, OrderAckBody, OrderBody},
    ingress::{Ingress, IngressConfig, Verdict},
    order_ack::{AckScheduler, Progress},
    resend_budget::BudgetConfig,
    sequencer::SequencerConfig,
    uplink::{Uplink, UplinkConfig},
};
use types::{
    AccountId, ClockReading, GatewayId, Incarnation, Nanos, NodeId, Op, Outbox, Peer, SeqWindow,
    ShardId, SplitMix64,
};

const ROOT: NodeId = NodeId(0);
const PARENTS: [NodeId; 2] = [NodeId(1), NodeId(2)];
const GATEWAY: GatewayId = GatewayId(1);
const LIFE: Incarnation = Incarnation(1);
const START: u64 = 1_790_000_000_000_000_000;
const MS: u64 = Nanos::MILLI;
const UNLIMITED: BudgetConfig =
    BudgetConfig { share_permille: 1_000_000, per_second: 1_000_000, burst: 1_000_000 };

/// What is switched off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Off {
    Nothing,
    /// Acknowledgements name no copy.
    Echo,
    /// Re-sends cost nothing.
    Budget,
    EchoAndBudget,
    /// Useful re-sends earn nothing.
    Useful,
    /// Nobody hears that another root leads.
    Term,
}

/// Copies on their way one way, in the order of their arrival.
#[derive(Default)]
struct Pipe(VecDeque<(u64, Vec<u8>)>);

impl Pipe {
    fn next(&self) -> u64 {
        self.0.front().map_or(u64::MAX, |(at, _)| *at)
    }
}

struct Model {
    now: u64,
    off: Off,
    uplink: Uplink,
    ingress: Ingress,
    acks: AckScheduler,
    logged: SeqWindow,
    log_len: u64,
    up: Pipe,
    down: Pipe,
    /// The server is busy until then.
    busy_until: u64,
    service_ns: u64,
    one_way_ns: u64,
    loss_permille: u64,
    dead: Option<NodeId>,
    copies: u64,
    /// Orders of clients that wait to be read.
    waiting: u64,
    rng: SplitMix64,
}

impl Model {
    fn new(seed: u64, off: Off) -> Model {
        let mut config = UplinkConfig::new(GATEWAY, NodeId(9), ROOT, 1);
        if matches!(off, Off::Budget | Off::EchoAndBudget) {
            config.budget = UNLIMITED;
        }
        if matches!(off, Off::Echo | Off::EchoAndBudget) {
            // What it had learnt while the path was fast.
            config.rto_initial_ns = config.rto_floor_ns;
        }
        let mut uplink = Uplink::new(config, PARENTS.to_vec());
        uplink.handle_grant(&frame::GrantBody {
            gateway: GATEWAY,
            reserved: 0,
            boot_nonce: 1,
            incarnation: LIFE,
        });
        let sequencer = SequencerConfig { window_ns: 500_000, ..Default::default() };
        let mut ingress =
            Ingress::new(&IngressConfig { shard: ShardId(0), gateways: 1, sequencer });
        ingress.set_incarnation(GATEWAY, LIFE);
        Model {
            now: START,
            off,
            uplink,
            ingress,
            acks: AckScheduler::new(ROOT, 1, 1),
            logged: SeqWindow::default(),
            log_len: 0,
            up: Pipe::default(),
            down: Pipe::default(),
            busy_until: START,
            service_ns: 10_000,
            one_way_ns: MS / 2,
            loss_permille: 0,
            dead: None,
            copies: 0,
            waiting: 0,
            rng: SplitMix64::new(SplitMix64::mix(seed)),
        }
    }

    fn clock(&self) -> ClockReading {
        ClockReading { now: Nanos(self.now), bound_ns: 0 }
    }

    /// What the gateway sends queues up for the server; loss and the dead come before the queue.
    fn send_up(&mut self, out: &mut Outbox) {
        for op in out.ops() {
            let Op::Datagram { to: Peer::Node(to), bytes, .. } = *op else { panic!("{op:?}") };
            self.copies += 1;
            if self.rng.permille(self.loss_permille) || self.dead == Some(to) {
                continue;
            }
            let served = self.busy_until.max(self.now + self.one_way_ns) + self.service_ns;
            self.busy_until = served;
            self.up.0.push_back((served, out.bytes(bytes).to_vec()));
        }
        out.clear();
    }

    fn at_root(&mut self, bytes: &[u8]) {
        let (header, rest) = HopHeader::read(bytes).unwrap();
        let (order, payload) = frame::body::<OrderBody>(rest).unwrap();
        let verdict = self.ingress.handle_order(self.clock(), &header, &order, payload);
        if matches!(verdict, Verdict::Duplicate | Verdict::Parked) {
            self.acks.mark(GATEWAY);
        }
    }

    fn pump(&mut self) {
        while let Some(order) = self.ingress.pop_due(self.clock()) {
            self.logged.record(order.source.seq);
            self.log_len += 1;
            self.acks.mark_logged(&order);
        }
        let progress = Progress {
            to: NodeId(9),
            incarnation: LIFE,
            logged: &self.logged,
            arrivals: self.ingress.arrivals(GATEWAY),
        };
        let mut out = Outbox::default();
        self.acks.flush_due(Nanos(self.now), |_| Some(progress), &mut out);
        for op in out.ops() {
            let Op::Datagram { bytes, .. } = *op else { panic!("{op:?}") };
            if !self.rng.permille(self.loss_permille) {
                self.down.0.push_back((self.now + self.one_way_ns, out.bytes(bytes).to_vec()));
            }
        }
    }

    fn at_gateway(&mut self, bytes: &[u8]) {
        let (_, rest) = HopHeader::read(bytes).unwrap();
        let (mut ack, _) = frame::body::<OrderAckBody>(rest).unwrap();
        if matches!(self.off, Off::Echo | Off::EchoAndBudget) {
            ack.echo = 0;
        }
        if self.off == Off::Useful {
            ack.useful = 0;
        }
        self.uplink.handle_ack(self.clock(), &ack);
    }

    /// Reads what clients sent, as far as the uplink has room.
    fn read(&mut self) {
        let mut out = Outbox::default();
        while self.waiting > 0 && self.uplink.has_room() {
            self.waiting -= 1;
            let session = AccountId(1 + self.rng.below(40) as u16);
            self.uplink.submit(self.clock(), session, Nanos(self.now), &[1], &mut out).unwrap();
        }
        self.send_up(&mut out);
    }

    /// The root dies, and for 300 ms nobody is there; the next one has nothing but the log.
    fn fail_over(&mut self, rate: u64) {
        self.up.0.clear();
        let alive = std::mem::replace(&mut self.loss_permille, 1_000);
        self.play(300, rate);
        self.loss_permille = alive;
        let sequencer = SequencerConfig { window_ns: 500_000, ..Default::default() };
        self.ingress = Ingress::new(&IngressConfig { shard: ShardId(0), gateways: 1, sequencer });
        self.ingress.resume(GATEWAY, LIFE, &self.logged);
        self.acks = AckScheduler::new(ROOT, 1, 1);
        if self.off != Off::Term {
            self.acks.begin_term(2);
        }
    }

    /// Plays `ms` with clients that send `rate` orders per second.
    fn play(&mut self, ms: u64, rate: u64) {
        let (end, gap) = (self.now + ms * MS, Nanos::SECOND.checked_div(rate).unwrap_or(u64::MAX));
        let mut next_order = self.now.saturating_add(gap);
        loop {
            let timers = [self.ingress.next_timeout(), self.acks.next_timeout()];
            let timer = timers.into_iter().chain([self.uplink.next_timeout()]).min().unwrap().0;
            let next = timer.min(next_order).min(self.up.next()).min(self.down.next());
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            while self.up.next() <= self.now {
                let (_, bytes) = self.up.0.pop_front().unwrap();
                self.at_root(&bytes);
            }
            self.pump();
            while self.down.next() <= self.now {
                let (_, bytes) = self.down.0.pop_front().unwrap();
                self.at_gateway(&bytes);
            }
            if next_order <= self.now {
                self.waiting += 1;
                next_order = next_order.saturating_add(gap);
            }
            self.read();
            let (now, mut out) = (self.clock(), Outbox::default());
            self.uplink.handle_timeout(now, &mut out);
            self.send_up(&mut out);
        }
        self.now = end;
    }

    /// Milliseconds until everything is in the log and known to be, at most `most`.
    fn settle(&mut self, most: u64) -> u64 {
        let since = self.now;
        while self.waiting + self.uplink.in_flight() as u64 > 0 && self.now < since + most * MS {
            self.play(1, 0);
        }
        (self.now - since) / MS
    }

    fn resent(&self) -> u64 {
        self.uplink.counters().resent
    }

    fn sent(&self) -> u64 {
        self.uplink.counters().sent
    }
}

/// The path's round trip steps from 1 ms to `slow_ms` and stays; re-sends per thousand orders from
/// five of the new round trips on.
fn resent_after_step(seed: u64, off: Off, slow_ms: u64) -> u64 {
    let mut model = Model::new(seed, off);
    model.play(500, 4_000);
    assert_eq!(model.resent(), 0, "seed {seed}");
    model.one_way_ns = slow_ms * MS / 2;
    model.play(5 * slow_ms, 4_000);
    let (resent, sent) = (model.resent(), model.sent());
    model.play(1_000, 4_000);
    1_000 * (model.resent() - resent) / (model.sent() - sent)
}

#[test]
fn resends_settle_when_the_path_becomes_slow() {
    for (seed, slow_ms) in [(1, 80), (2, 20), (3, 80), (4, 300)] {
        let permille = resent_after_step(seed, Off::Nothing, slow_ms);
        assert!(permille < 50, "seed {seed}: {permille} of a thousand at {slow_ms} ms");
    }
}

#[test]
fn negative_control_without_the_echo_a_slow_path_is_never_found_out() {
    let permille = resent_after_step(1, Off::Echo, 80);
    assert!(permille >= 50, "{permille} of a thousand");
    let permille = resent_after_step(1, Off::EchoAndBudget, 80);
    assert!(permille >= 800, "{permille} of a thousand: about one per order");
}

/// A server at nine tenths of what it can do stands still for 300 ms. Returns copies per thousand
/// orders and how long after the last order everything is done, in ms.
fn stall(seed: u64, off: Off) -> (u64, u64) {
    let mut model = Model::new(seed, off);
    model.service_ns = 200_000;
    model.play(500, 4_500);
    model.busy_until = model.busy_until.max(model.now) + 300 * MS;
    model.play(3_500, 4_500);
    let left = model.settle(20_000);
    assert_eq!(model.log_len, model.sent(), "seed {seed}");
    (1_000 * model.copies / model.sent(), left)
}

#[test]
fn a_server_that_stood_still_catches_up() {
    for seed in 0..4 {
        let (copies, left) = stall(seed, Off::Nothing);
        assert!(copies <= 1_200 && left <= 100, "seed {seed}: {copies} copies, {left} ms");
    }
}

#[test]
fn negative_control_without_echo_and_budget_it_works_on_copies() {
    let (copies, left) = stall(1, Off::EchoAndBudget);
    assert!(copies > 1_200 && left > 100, "{copies} copies, {left} ms");
    assert!(stall(1, Off::Budget).0 > stall(1, Off::Nothing).0, "the budget does something");
}

/// Twice what the server can do, for two seconds. Returns orders done in the second half of them
/// per thousand that the server could do, and copies per thousand orders.
fn overload(seed: u64, off: Off) -> (u64, u64) {
    let mut model = Model::new(seed, off);
    model.service_ns = 200_000;
    model.play(1_000, 10_000);
    let done = model.log_len;
    model.play(1_000, 10_000);
    let goodput = (model.log_len - done) * 1_000 / 5_000;
    model.settle(20_000);
    assert_eq!((model.log_len, model.waiting), (model.sent(), 0), "seed {seed}");
    (goodput, 1_000 * model.copies / model.sent())
}

#[test]
fn overload_costs_no_goodput() {
    for seed in 0..4 {
        let (goodput, copies) = overload(seed, Off::Nothing);
        assert!(goodput >= 900 && copies <= 1_200, "seed {seed}: {goodput}, {copies} copies");
    }
}

#[test]
fn negative_control_overload_without_echo_and_budget_does() {
    let (goodput, copies) = overload(1, Off::EchoAndBudget);
    assert!(goodput < 900 && copies > 1_200, "{goodput}, {copies} copies");
}

/// A share of everything is lost for `ms`, either way; how long after that all is done, in ms.
fn lossy(seed: u64, off: Off, loss_permille: u64, ms: u64, rate: u64) -> u64 {
    let mut model = Model::new(seed, off);
    model.play(300, rate);
    model.loss_permille = loss_permille;
    model.play(ms, rate);
    model.loss_permille = 0;
    let left = model.settle(20_000);
    assert_eq!((model.log_len, model.waiting), (model.sent(), 0), "seed {seed}");
    left
}

#[test]
fn a_burst_of_loss_is_made_up_for_at_once() {
    for seed in 0..8 {
        for rate in [300, 2_000, 8_000] {
            let left = lossy(seed, Off::Nothing, 300, 200, rate);
            assert!(left <= 300, "seed {seed}: {left} ms at {rate}/s");
        }
    }
}

#[test]
fn total_loss_is_made_up_for_soon() {
    for seed in 0..4 {
        for ms in [50, 1_000] {
            let left = lossy(seed, Off::Nothing, 1_000, ms, 2_000);
            assert!(left <= 700, "seed {seed}: {left} ms after {ms} ms");
        }
    }
}

#[test]
fn negative_control_if_useful_resends_earned_nothing() {
    let left = lossy(1, Off::Useful, 1_000, 1_000, 2_000);
    assert!(left > 700, "{left} ms");
}

/// How long after a failover all is done, in ms; the way up had been losing something before.
fn failed_over(seed: u64, off: Off, rate: u64) -> u64 {
    let mut model = Model::new(seed, off);
    model.loss_permille = 100;
    model.play(2_000, rate);
    model.loss_permille = 0;
    model.play(500, rate);
    model.fail_over(rate);
    let left = model.settle(20_000);
    assert_eq!((model.log_len, model.waiting), (model.sent(), 0), "seed {seed}");
    left
}

#[test]
fn a_new_root_has_everything_soon() {
    for seed in 0..4 {
        for rate in [500, 2_000, 8_000] {
            let left = failed_over(seed, Off::Nothing, rate);
            assert!(left <= 100, "seed {seed}: {left} ms at {rate}/s");
        }
    }
}

#[test]
fn negative_control_if_nobody_hears_of_the_new_root() {
    let left = failed_over(1, Off::Term, 2_000);
    assert!(left > 1_000, "{left} ms");
}

#[test]
fn a_parent_that_dies_costs_a_timeout_not_the_budget() {
    for seed in 0..4 {
        let mut model = Model::new(seed, Off::Nothing);
        model.play(300, 4_000);
        model.dead = Some(PARENTS[0]);
        model.play(100, 4_000);
        let left = model.settle(5_000);
        assert!(left <= 30, "seed {seed}: {left} ms");
        assert_eq!(model.uplink.counters().parent_changes, 1, "seed {seed}");
        assert_eq!(model.log_len, model.sent(), "seed {seed}");
    }
}
