//! A participant's program beside an edge of the simulated exchange, in a market that others make.
//!
//! Checked: what reaches the strategy's listener from its edge never leaves that before the common deadline in
//! true time; repairs have nothing that the edge has not released to it; every order is the account's own in
//! the log; the books at the end are the root's. What it heard and asked for is recorded, so that the same
//! module elsewhere can be told the same.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use engine::{InstrumentRules, Limits};
use exchange::{
    AccessConfig, Account, ExchangeConfig, Life, LoginTerms, OverlayOptions, Role, Root, Throttle,
    Timetable, deploy, listener, subscriber,
};
use participant::{
    Action, ClientConfig, Driver, DriverConfig, Generator, GeneratorConfig, Phase, Schedule, Source,
};
use strategy::heard::{Opening, STREAMS_MAX};
use strategy::{Login, Strategy, StrategyNode, StrategySettings, StrategyStatus};
use types::{
    AccountId, Channel, CommandKind, Instrument, InstrumentId, Nanos, NodeId, Price, Qty,
    SplitMix64, Symbol, Trace, TracePoint, limits,
};
use wire::moldudp::Packet;

use crate::clock::SimClock;
use crate::link::LinkModel;
use crate::world::{Place, Sent, Tap, Verdict, World, address};

const MILLI: u64 = Nanos::MILLI;
const DAY_NS: u64 = 86_400 * Nanos::SECOND;
/// 2 March 2026, ten o'clock.
const START: Nanos = Nanos(20_514 * DAY_NS + 36_000 * Nanos::SECOND);
const RECEIVERS: usize = 3;
const TRADERS: usize = 3;
/// Channel of order entry.
const ENTRY: Channel = Channel(2);
const STEP_NS: u64 = 5 * MILLI;
/// Patience beyond the time that the orders take.
const PATIENCE_NS: u64 = 30 * Nanos::SECOND;
/// Orders that others enter before play.
const OPENING: usize = 30;
const FAILURES_MAX: usize = 8;

/// How a seed is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Orders of the others.
    pub orders: u64,
    /// Of them in a second.
    pub rate_per_s: u64,
    /// The clock of the strategy's edge is so far ahead, ns, and does not say so: a bug that is to be found.
    pub ahead_ns: i64,
}

impl Default for Options {
    fn default() -> Options {
        Options { orders: 1_500, rate_per_s: 1_000, ahead_ns: 0 }
    }
}

/// What a seed came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was wrong.
    pub failures: Vec<String>,
    /// How the strategy was at the end.
    pub status: StrategyStatus,
    /// The record of what it heard and asked for.
    pub heard: Vec<u8>,
    /// Packets of its edge that were compared with their deadline.
    pub releases: u64,
    /// Packets of the retransmission server.
    pub repairs: u64,
    /// Inputs of its account in the log.
    pub inputs: u64,
    /// Messages of the feed.
    pub messages: u64,
}

/// A node of this world.
enum Actor {
    Role(Box<Role>),
    Strategy(Box<StrategyNode>),
}

macro_rules! each {
    ($actor:expr, $node:ident => $call:expr) => {
        match $actor {
            Actor::Role($node) => $call,
            Actor::Strategy($node) => $call,
        }
    };
}

types::forward_node!(Actor, each);

impl Actor {
    fn role(&self) -> Option<&Role> {
        match self {
            Actor::Role(role) => Some(role),
            Actor::Strategy(_) => None,
        }
    }

    fn strategy(&self) -> Option<&StrategyNode> {
        match self {
            Actor::Strategy(node) => Some(node),
            Actor::Role(_) => None,
        }
    }
}

/// Sees what reaches the strategy.
struct Eyes {
    edge: usize,
    strategy: usize,
    /// The latest deadline of what the edge has released.
    deadline: Nanos,
    /// Behind the last message that it released.
    released: u64,
    report: Report,
}

impl Eyes {
    fn fail(&mut self, what: String) {
        if self.report.failures.len() < FAILURES_MAX {
            self.report.failures.push(what);
        }
    }
}

impl Tap<Actor> for Eyes {
    fn trace(&mut self, _: Nanos, node: usize, trace: &Trace) {
        let released = matches!(
            trace.point,
            TracePoint::Released | TracePoint::ReleasedLate | TracePoint::ReleasedBlocked
        );
        if released && node == self.edge {
            self.deadline = self.deadline.max(Nanos(trace.value));
        }
    }

    fn datagram(&mut self, sent: Sent<'_>) -> Verdict {
        if sent.to != self.strategy || sent.channel != Channel::FEED {
            return Verdict::Pass;
        }
        let Ok(packet) = Packet::parse(sent.bytes) else { return Verdict::Pass };
        if sent.from == self.edge {
            self.released = self.released.max(packet.next_seq());
            self.report.releases += u64::from(self.deadline > Nanos(0));
            if sent.at < self.deadline {
                let early = self.deadline.since(sent.at);
                let what = format!("message {} was heard {early} ns early", packet.seq());
                self.fail(what);
            }
        } else if packet.count() > 0 {
            self.report.repairs += 1;
            if packet.next_seq() > self.released {
                let what = format!("message {} came without its release", packet.seq());
                self.fail(what);
            }
        }
        Verdict::Pass
    }
}

/// What is traded.
pub fn instruments() -> Vec<Instrument> {
    let instrument = |(index, name): (usize, &&str)| Instrument {
        id: InstrumentId(index as u16 + 1),
        symbol: Symbol::new(name).expect("a symbol"),
        tick: Price(100),
        price_max: Price(limits::PRICE_MAX),
        qty_max: Qty(limits::QTY_MAX),
        lot_decimals: 0,
    };
    ["ALFA", "BRAVO"].iter().enumerate().map(instrument).collect()
}

fn config(seed: u64, options: &Options) -> ExchangeConfig {
    let account = |index: usize| Account {
        firm: String::new(),
        id: AccountId(index as u16 + 1),
        username: format!("P{index}"),
        password: format!("secret{index}"),
        terms: LoginTerms::default(),
        cancel_on_disconnect: false,
        throttle: Throttle::UNLIMITED,
        fix: None,
    };
    ExchangeConfig {
        depth: 2,
        fanout: 2,
        receivers: RECEIVERS,
        hedge: 1,
        dynamic_parents: true,
        round_ns: 20 * MILLI,
        delay_window: 200,
        delay_permille: 990,
        delay_cap_ns: 5 * MILLI,
        sequencer_window_ns: 300 * Nanos::MICRO,
        linger_ns: 0,
        execution_hold_max_ns: 5 * Nanos::SECOND,
        cancel_grace_ns: Nanos::SECOND,
        durable: false,
        outstanding: 1_024,
        connections_max: 64,
        access: AccessConfig::default(),
        store: overlay::retransmission::StoreConfig::default(),
        log_capacity: (1 << 16) + 8 * options.orders as usize,
        open_orders_max: 1 << 14,
        unique_ids: false,
        levels_max: 1 << 12,
        trades_kept: 1 << 12,
        instruments: instruments(),
        rules: instruments().iter().map(InstrumentRules::of).collect(),
        limits: Limits::NONE,
        self_trade: Vec::new(),
        timetable: Timetable::open_at_once(),
        accounts: (0..=TRADERS).map(account).collect(),
        fix_comp_id: "FAIRBELL".to_string(),
        session: *b"FAIRBELL01",
        midnight: Nanos(START.0 / DAY_NS * DAY_NS),
        seed,
        shard: Default::default(),
        options: OverlayOptions::default(),
    }
}

/// Those who make the market.
fn driver(seed: u64, config: &ExchangeConfig, options: &Options, first_edge: usize) -> Driver {
    let client = |(index, account): (usize, &Account)| {
        let gateway = |step| address(first_edge + (index + step) % RECEIVERS, ENTRY);
        let gateways = (0..RECEIVERS).map(gateway).collect();
        let mut client = ClientConfig::new(&account.username, &account.password, gateways);
        client.orders_max = (1 << 12) + 2 * options.orders as usize;
        client
    };
    let clients = config.accounts.iter().take(TRADERS).enumerate().map(client).collect();
    let mut settings = DriverConfig::new(config.instruments.clone(), clients);
    settings.window = 16;
    let (mut opening, mut schedule) = (Vec::new(), Schedule::default());
    let share = config.instruments.len() as u64;
    for instrument in &config.instruments {
        let seed = SplitMix64::mix(seed ^ u64::from(instrument.id.0) << 48);
        let mut mix = GeneratorConfig::new(*instrument, Price::from_whole(100), seed);
        mix.participants = TRADERS as u8;
        (mix.market_permille, mix.marketable_permille) = (40, 200);
        let mut generator = Generator::new(mix);
        opening.extend(generator.opening(OPENING));
        let (mut timed, mut orders) = (VecDeque::new(), 0);
        while orders < options.orders / share {
            let message = generator.next_message();
            orders += u64::from(matches!(message.action, Action::New { .. }));
            timed.push_back(message);
        }
        schedule.add(Source::Recorded(timed), options.rate_per_s / share);
    }
    Driver::new(settings, opening, schedule).expect("logins fit SoupBinTCP")
}

/// Runs one seed with a strategy that plays for the last account.
///
/// # Panics
/// When the built-in venue makes no exchange, which a test would find.
pub fn run_seed(seed: u64, options: &Options, strategy: Box<dyn Strategy + Send>) -> Report {
    let config = config(seed, options);
    let link = LinkModel {
        base_ns: 200 * Nanos::MICRO,
        jitter_ns: 40 * Nanos::MICRO,
        jitter_sigma: 0.6,
        loss_permille: 5,
        duplicate_permille: 5,
        reorder_permille: 5,
        reorder_ns: MILLI,
    };
    let mut world = World::new(seed, START, link);
    let tree = config.tree().expect("a possible tree").topology;
    let first_edge = 1 + tree.proxy_ids().count();
    let first_listener = first_edge + RECEIVERS;
    let at = first_listener;
    let feed_of = |index: usize| address(first_listener + index, Channel::FEED);
    let nodes = deploy(&config, Life::of(SplitMix64::mix(seed)), feed_of).expect("an exchange");
    for (id, node) in nodes.into_iter().enumerate() {
        let overlay = Some(NodeId(id as u16));
        let listens = node.as_edge().is_some();
        let offset_ns = if id == first_edge { options.ahead_ns } else { 0 };
        let clock = SimClock { offset_ns, ..SimClock::default() };
        world.add(
            Actor::Role(Box::new(node)),
            Place { overlay, listens, clock, ..Place::default() },
        );
    }
    let server = address(0, Channel::FEED);
    let hears = |index: usize| {
        let mut settings = listener(&config, vec![server]);
        settings.sources = Some(vec![address(first_edge + index, Channel::FEED)]);
        subscriber(&config, &settings)
    };
    let account = config.accounts.last().expect("accounts");
    let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
    let record = Arc::clone(&heard);
    let settings = StrategySettings {
        login: Login {
            username: account.username.clone(),
            password: account.password.clone(),
            gateways: vec![address(first_edge, ENTRY)],
        },
        instruments: config.instruments.clone(),
        opening: Opening {
            price_decimals: 4,
            streams: 1,
            orders_max: config.open_orders_max as u32,
            midnight: config.midnight,
            history: [0; STREAMS_MAX as usize],
        },
        record: Some(Box::new(move |bytes: &[u8]| {
            record.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        })),
    };
    let node = StrategyNode::new(hears(0), strategy, settings).expect("logins fit SoupBinTCP");
    world.add(Actor::Strategy(Box::new(node)), Place::default());
    for index in 1..RECEIVERS {
        let node = Role::Listener(Box::new(hears(index)));
        world.add(Actor::Role(Box::new(node)), Place::default());
    }
    let players = driver(seed, &config, options, first_edge);
    let driver =
        world.add(Actor::Role(Box::new(Role::Driver(Box::new(players)))), Place::default());
    let mut eyes = Eyes {
        edge: first_edge,
        strategy: at,
        deadline: Nanos(0),
        released: 0,
        report: Report::default(),
    };
    let flow_ns = options.orders * Nanos::SECOND / options.rate_per_s.max(1);
    let limit = START.after(2 * flow_ns + PATIENCE_NS);
    let over = |world: &World<Actor>| {
        let idle = match world.node(driver).and_then(Actor::role) {
            Some(Role::Driver(driver)) => driver.phase() == Phase::Idle,
            _ => false,
        };
        let told = root(world).map_or(0, |root| root.engine().feed_next().0 - 1);
        let status = world.node(at).and_then(Actor::strategy).map(StrategyNode::status);
        idle && status.is_some_and(|of| of.messages == told && of.unanswered == 0)
    };
    if !world.run_until_idle(limit, STEP_NS, &mut eyes, over) {
        eyes.fail("it did not come to an end".to_string());
    }
    // What its last requests cause is heard, too.
    let later = world.now().after(200 * MILLI);
    world.run_until(later, &mut eyes);
    let node = world.node(at).and_then(Actor::strategy).expect("it lives");
    let mut report = eyes.report;
    report.status = node.status();
    let root = root(&world).expect("it lives");
    let own = AccountId(TRADERS as u16 + 1);
    for input in root.applied().filter(|input| input.command.account == own) {
        let asked = matches!(input.command.kind, CommandKind::NewOrder | CommandKind::Cancel);
        report.inputs += u64::from(asked);
    }
    report.messages = root.engine().feed_next().0 - 1;
    let asked = report.status.orders + report.status.cancels;
    if report.inputs != asked {
        let what = format!("{asked} requests of the strategy, {} in the log", report.inputs);
        report.failures.push(what);
    }
    if report.status.contradictions > 0 {
        report.failures.push(format!("{} contradictions", report.status.contradictions));
    }
    report.heard = std::mem::take(&mut heard.lock().unwrap_or_else(PoisonError::into_inner));
    report
}

fn root(world: &World<Actor>) -> Option<&Root> {
    world.node(0)?.role()?.as_root()
}
