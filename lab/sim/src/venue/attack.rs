//! Participants up to no good, and what others have to bear of it.
//!
//! The attacker has an account and a connection of its own; who lies about time also owns the
//! receiver and the gateway it is connected to, the last ones. A run with the attack is compared
//! with one in which the same participant sits still, same seeds, and each attack has bounds on
//! what honest participants and receivers may lose.

use exchange::{Account, ExchangeConfig, OverlayOptions};
use overlay::{
    all_reduce::DelayLimits,
    egress::{QueueConfig, QueuePolicy},
    frame::{self, DelayBody, FrameKind, HopHeader},
    upstream_queue::{Pace, UpstreamConfig},
};
use participant::{
    Action, ClientConfig, Driver, DriverConfig, FlowMessage, Schedule, Source, Special,
};
use types::{Channel, InstrumentId, Nanos, OrderType, Price, Qty, Side, TimeInForce};

use super::{
    actor::Actor,
    faults::START_DELAY_NS,
    run_timed,
    scenario::{Places, Scenario},
    timings::{Service, Timings},
};
use crate::{
    link::LinkModel,
    world::{Fault, Sent, Verdict, World},
};

/// Orders a second of a spammer: twice what a proxy lets through.
const SPAM_PER_S: u64 = 20_000;
/// Time between two orders that a proxy sends up while queues are under attack, ns.
const GAP_NS: u64 = 100 * Nanos::MICRO;
/// Places in a proxy's queue.
const PLACES: usize = 1_024;
/// Of them, of one account.
const ACCOUNT_MAX: usize = 32;
/// How far a tampered clock jumps, ns.
const JUMP_NS: i64 = 2 * Nanos::MILLI as i64;
/// What the root believes at most of a delay in these scenarios, ns.
const CAP_NS: u64 = Nanos::MILLI;
/// What a stream holds for a reader that does not read, bytes.
const STREAM_BYTES: usize = 16 << 10;
/// Messages handed on within so many ns by all are fair: clocks are within 300 ns here.
const FAIR_NS: u64 = 2 * Nanos::MICRO;
/// Bound of all clocks, ns.
const CLOCK_BOUND_NS: u64 = 450;

macro_rules! attacks {
    ($($attack:ident = $name:literal, $about:literal;)*) => {
        /// What an attacker does.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum AttackKind {
            $(#[doc = $about] $attack,)*
        }

        impl AttackKind {
            /// All variants, in their order.
            pub const ALL: &[AttackKind] = &[$(AttackKind::$attack,)*];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(AttackKind::$attack => $name,)* }
            }

            /// What it is.
            pub fn about(self) -> &'static str {
                match self { $(AttackKind::$attack => $about,)* }
            }
        }
    };
}

attacks! {
    DelayHigh = "delay-high", "a receiver reports an endless delay";
    DelayLow = "delay-low", "a receiver reports no delay at all";
    ClockAhead = "clock-ahead", "the clock of a receiver and its gateway is set 2 ms ahead";
    ClockBehind = "clock-behind", "the clock of a receiver and its gateway is set 2 ms back";
    ClockBound = "clock-bound", "a receiver claims an endless clock bound";
    OrderSpam = "order-spam", "an account sends twice the orders that a proxy lets through";
    CancelFlood = "cancel-flood", "an account enters and cancels orders as fast as it can";
    SlowReader = "slow-reader", "a participant asks for much and reads nothing";
}

/// An attacker, at work or sitting still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attack {
    /// What it does.
    pub kind: AttackKind,
    /// Whether it does it.
    pub active: bool,
    /// Whether the exchange has what bounds the harm: the cap of delays, and queues with a share
    /// for each account. Without them is the control of a test.
    pub bounded: bool,
}

impl AttackKind {
    /// The attack of this name.
    pub fn named(name: &str) -> Option<AttackKind> {
        AttackKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Whether receiver and gateway are the attacker's own.
    fn owns_edge(self) -> bool {
        use AttackKind::*;
        matches!(self, DelayHigh | DelayLow | ClockAhead | ClockBehind | ClockBound)
    }

    /// Whether it is about the queues on the way up.
    fn on_queues(self) -> bool {
        matches!(self, AttackKind::OrderSpam | AttackKind::CancelFlood)
    }
}

impl Attack {
    /// The edge that is not honest.
    pub(super) fn dishonest_edge(self, places: Places) -> Option<usize> {
        self.kind.owns_edge().then(|| places.edge(places.receivers - 1))
    }

    /// Forges what a dishonest edge says.
    pub(super) fn forger(self, places: Places) -> Forger {
        Forger { attack: self, edge: places.edge(places.receivers - 1) }
    }

    /// Queues and pace at the proxies, where the attack is on them.
    pub(super) fn defend(self, options: &mut OverlayOptions) {
        if self.kind.on_queues() {
            let mut queue = QueueConfig { capacity: PLACES, ..QueueConfig::default() };
            (queue.policy, queue.account_max) = match self.bounded {
                true => (QueuePolicy::LimitOrder, ACCOUNT_MAX),
                false => (QueuePolicy::Fifo, PLACES),
            };
            options.upstream = Some(UpstreamConfig { queue, pace: Pace::Free, gap_ns: GAP_NS });
        }
    }

    /// What the attacker does to clocks and streams from `from` on.
    pub(super) fn strike(self, world: &mut World<Actor>, places: Places, from: Nanos) {
        let (edge, attacker) = (places.edge(places.receivers - 1), places.attacker());
        match self.kind {
            _ if !self.active => {}
            AttackKind::ClockAhead => world.fault(from, Fault::StepClock(edge, JUMP_NS)),
            AttackKind::ClockBehind => world.fault(from, Fault::StepClock(edge, -JUMP_NS)),
            AttackKind::SlowReader => {
                world.limit_streams(STREAM_BYTES);
                world.fault(from, Fault::StopReading(attacker));
            }
            _ => {}
        }
    }

    /// The node of the attacker as a participant.
    pub(super) fn driver(
        self,
        scenario: &Scenario,
        config: &ExchangeConfig,
        account: &Account,
        places: Places,
    ) -> Driver {
        let index = usize::from(scenario.participants);
        let gateways = scenario.gateways(index, places);
        let mut client = ClientConfig::new(&account.username, &account.password, gateways);
        client.orders_max = 1 << 16;
        let mut settings = DriverConfig::new(config.instruments.clone(), vec![client]);
        settings.start_delay_ns = START_DELAY_NS;
        let length_ns = scenario.flow_ns();
        let per_s = match self.kind {
            _ if !self.active => 0,
            AttackKind::OrderSpam | AttackKind::CancelFlood => SPAM_PER_S,
            AttackKind::SlowReader => SPAM_PER_S / 4,
            _ => 0,
        };
        let count = per_s * length_ns / Nanos::SECOND;
        let cancels = self.kind == AttackKind::CancelFlood;
        let flow = (0..count).map(|number| spam(number, cancels)).collect();
        let mut schedule = Schedule::default();
        schedule.add(Source::Recorded(flow), per_s);
        Driver::new(settings, Vec::new(), schedule).expect("logins of the scenario fit SoupBinTCP")
    }
}

/// Orders that trade with nobody; every second message cancels the one before, if asked for.
fn spam(number: u64, cancels: bool) -> FlowMessage {
    let cancel = cancels && number % 2 == 1;
    let time_in_force = match cancels {
        true => TimeInForce::Day,
        false => TimeInForce::ImmediateOrCancel,
    };
    let action = match cancel {
        true => Action::Cancel,
        false => Action::New {
            side: Side::Buy,
            qty: Qty(1),
            price: Price(100),
            order_type: OrderType::Limit,
            post_only: false,
            time_in_force,
        },
    };
    let id = (1 << 40) + number - u64::from(cancel);
    let (participant, instrument, special) = (0, InstrumentId(1), Special::None);
    FlowMessage { id, participant, instrument, action, special }
}

/// Changes what a dishonest receiver reports.
pub(super) struct Forger {
    attack: Attack,
    edge: usize,
}

impl Forger {
    pub(super) fn datagram(&mut self, sent: &Sent<'_>) -> Verdict {
        let lies = matches!(
            self.attack.kind,
            AttackKind::DelayHigh | AttackKind::DelayLow | AttackKind::ClockBound
        );
        let own = sent.from == self.edge && sent.channel == Channel::OVERLAY;
        if !(self.attack.active && lies && own) {
            return Verdict::Pass;
        }
        match self.forge(sent.bytes) {
            Some(bytes) => Verdict::Rewrite(bytes),
            None => Verdict::Pass,
        }
    }

    fn forge(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (header, rest) = HopHeader::read(bytes).ok()?;
        if header.kind != FrameKind::Delay {
            return None;
        }
        let (mut body, samples) = frame::body::<DelayBody>(rest).ok()?;
        match self.attack.kind {
            AttackKind::DelayHigh => body.owd_ns = u64::MAX,
            AttackKind::DelayLow => body.owd_ns = 0,
            _ => body.bound_ns = u64::MAX,
        }
        let mut forged = Vec::new();
        frame::encode(&mut forged, header, &body, samples);
        Some(forged)
    }
}

/// A bound on what an attack may do to others.
#[derive(Clone, PartialEq, Debug)]
pub struct HarmCheck {
    /// What is bounded, with its unit.
    pub what: &'static str,
    /// Without the attack.
    pub without: f64,
    /// With it.
    pub with: f64,
    /// Least and most allowed with it.
    pub allowed: (f64, f64),
}

impl HarmCheck {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.allowed.0 <= self.with && self.with <= self.allowed.1
    }
}

/// What an attack did to others.
#[derive(Clone, Debug)]
pub struct Harm {
    /// The attack.
    pub kind: AttackKind,
    /// Seeds run, each with and without.
    pub seeds: u64,
    /// What others had without it.
    pub without: Service,
    /// And with it.
    pub with: Service,
    /// The bounds.
    pub checks: Vec<HarmCheck>,
    /// What the checkers of a run said, either way.
    pub failures: Vec<String>,
}

impl Harm {
    /// Whether all bounds hold and no checker found anything.
    pub fn holds(&self) -> bool {
        self.failures.is_empty() && self.checks.iter().all(HarmCheck::holds)
    }
}

/// The scenario in which attacks are measured.
fn scenario(attack: Attack, orders: u64) -> Scenario {
    Scenario {
        orders,
        link: LinkModel {
            base_ns: 10_100,
            jitter_ns: 15_600,
            jitter_sigma: 0.447,
            ..LinkModel::default()
        },
        faults: Some(Vec::new()),
        auctions_every: 0,
        specials_every: 0,
        clock_bound_ns: CLOCK_BOUND_NS,
        delay_cap_ns: if attack.bounded { CAP_NS } else { 100 * CAP_NS },
        attack: Some(attack),
        ..Scenario::default()
    }
}

/// Runs an attack and its absence on the same seeds, on an exchange that bounds the harm or, for
/// control, on one that does not.
pub fn harm(
    kind: AttackKind,
    bounded: bool,
    (seeds, orders): (u64, u64),
    progress: &mut dyn FnMut(u64),
) -> Harm {
    let mut failures = Vec::new();
    let mut done = 0;
    let mut service = |active: bool| {
        let scenario = scenario(Attack { kind, active, bounded }, orders);
        let mut all = Timings::default();
        for seed in 0..seeds {
            let (report, timings) = run_timed(seed, &scenario);
            let told = report.failures.iter();
            let when = if active { "with" } else { "without" };
            failures
                .extend(told.map(|f| format!("seed {seed} {when}: {}: {}", f.checker, f.reason)));
            all.add(timings);
            done += 1;
            progress(done);
        }
        all.service(FAIR_NS)
    };
    let (without, with) = (service(false), service(true));
    let checks = bounds(kind, &without, &with);
    Harm { kind, seeds, without, with, checks, failures }
}

/// The bounds of an attack. Times in us.
fn bounds(kind: AttackKind, without: &Service, with: &Service) -> Vec<HarmCheck> {
    let us = |ns: u64| ns as f64 / 1e3;
    let hop_us = us(with.oml_ns.1.min(without.oml_ns.1));
    // What the attack may add to deadlines, to orders, and take from fairness.
    let (deadline_us, order_us, fair) = match kind {
        // No report counts for more than the cap.
        AttackKind::DelayHigh | AttackKind::ClockAhead => (us(CAP_NS), us(CAP_NS), 0.02),
        // Deadlines follow the honest receivers alone: each of them is in time in 95 of 100 cases.
        AttackKind::DelayLow | AttackKind::ClockBehind => (0.1 * hop_us, 0.25 * hop_us, 0.1),
        // No bound counts for more than 10 ms. A percentile of orders is not the same order's in both runs.
        AttackKind::ClockBound => {
            let most = us(DelayLimits::default().bound_max_ns);
            (most, most + 0.25 * hop_us, 0.02)
        }
        // An order may find the account's share of the places before it, at one gap each; as lanes
        // take turns, as many of another lane go between.
        AttackKind::OrderSpam | AttackKind::CancelFlood => {
            (0.25 * hop_us, us(2 * ACCOUNT_MAX as u64 * GAP_NS), 0.1)
        }
        AttackKind::SlowReader => (0.25 * hop_us, 0.25 * hop_us, 0.1),
    };
    let check = |what, without: f64, with: f64, least: f64, most: f64| HarmCheck {
        what,
        without,
        with,
        allowed: (least, most),
    };
    let time = |what, before: u64, after: u64, more_us: f64| {
        check(what, us(before), us(after), 0.0, us(before) + more_us)
    };
    vec![
        time("median OML (us)", without.oml_ns.0, with.oml_ns.0, deadline_us),
        time("p99 OML (us)", without.oml_ns.1, with.oml_ns.1, deadline_us),
        time("median order latency (us)", without.latency_ns.0, with.latency_ns.0, order_us),
        time("p99 order latency (us)", without.latency_ns.1, with.latency_ns.1, order_us),
        check("P(F)", without.p_fair, with.p_fair, without.p_fair - fair, 1.0),
    ]
}
