//! A whole exchange in a world: its nodes, their clocks and links, the flow and the faults, all
//! made up from one seed.
//!
//! Node indexes: the exchange's nodes under their overlay numbers, then a listener per edge, then
//! the one node that plays all participants, then who attacks or leaves, then who eavesdrops.

use std::collections::VecDeque;

use exchange::{
    AccessConfig, Account, ExchangeConfig, FixLogin, FixRole, FixVersion, Life, LoginTerms,
    OverlayOptions, Role, Secret, Throttle, deploy, listener, subscriber,
};
use feed::{CatchUpConfig, SnapshotServer, SnapshotServerConfig};
use overlay::{aes_gcm::KeySource, retransmission::StoreConfig, sealed_link::Fleet, tap::Tap};
use participant::{
    Action, ClientConfig, Driver, DriverConfig, FlowMessage, Generator, GeneratorConfig, Schedule,
    Source,
};
use types::{
    AccountId, Channel, Instrument, InstrumentId, Nanos, NodeId, Peer, Price, Qty, SplitMix64,
    Symbol,
};

use super::{
    actor::Actor,
    attack::Attack,
    eavesdropper::{self, Eavesdropper},
    faults::{FaultSpec, START_DELAY_NS, Striker, below},
    leave::{self, Departure, Left},
    rekey::Rekeys,
    sabotage::Sabotage,
    seat::ReplicaGroup,
};
use crate::{
    clock::SimClock,
    link::{LinkModel, Links, Weather},
    world::{Fault, Place, World, address},
};

/// True time at which every world begins: ten in the morning.
pub const START: Nanos = Nanos(1_767_261_600 * Nanos::SECOND);

/// The life of a node that starts, or leads, then.
pub(super) fn life(seed: u64, at: Nanos) -> Life {
    Life::of(SplitMix64::mix(seed) ^ at.0)
}

/// The channel a gateway's address has; its streams are told apart by nothing else.
const ENTRY: Channel = Channel(2);
/// Its door for FIX.
const FIX_ENTRY: Channel = Channel(3);
/// A listener notes its books' digests so often.
pub(super) const CHECKPOINT_EVERY: u64 = 64;

const ROOT: u8 = 0;
const PROXY: u8 = 1;
const EDGE: u8 = 2;
const LISTENER: u8 = 3;
const PARTICIPANT: u8 = 4;

/// What a seed is played with.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Hops from the root to a receiver (D).
    pub depth: usize,
    /// Fan-out (F).
    pub fanout: usize,
    /// Receivers, each with a gateway and a listener (N).
    pub receivers: usize,
    /// Hedging factor (H).
    pub hedge: usize,
    /// Participants.
    pub participants: u8,
    /// New orders of the timed part, at least.
    pub orders: u64,
    /// Timed requests per instrument and second.
    pub rate_per_s: u64,
    /// Nothing is played later than this after the first order; `None`: all orders are.
    pub duration_ns: Option<u64>,
    /// Every link while faults last.
    pub link: LinkModel,
    /// Of how many seeds one loses a proxy; 0 for none.
    pub kill_every: u64,
    /// Of how many seeds one has auctions, halts and operators at work; 0 for none.
    pub auctions_every: u64,
    /// Of how many seeds one has orders of all kinds in its flow; 0 for none.
    pub specials_every: u64,
    /// What strikes at a time; `None`: a little of everything, by the seed.
    pub faults: Option<Vec<FaultSpec>>,
    /// What differs by path and time.
    pub weather: Weather,
    /// Straggling nodes, drawn from the seed.
    pub stragglers: usize,
    /// A proxy (from 0) that straggles whatever the seed.
    pub slow_proxy: Option<usize>,
    /// Their delays, in thousandths of what they would be.
    pub straggler_permille: u64,
    /// Delays as measured, in ns, in place of the link model's; none: as modelled.
    pub measured_ns: Vec<u64>,
    /// Time a node of the exchange needs to send one datagram, ns.
    pub egress_ns: u64,
    /// Bound that every clock claims, ns; errors stay below seven tenths of it.
    pub clock_bound_ns: u64,
    /// Of a thousand clocks, so many are wrong.
    pub wrong_clocks_permille: u64,
    /// No delay estimate above this is believed, ns.
    pub delay_cap_ns: u64,
    /// Datagrams that the retransmission server keeps; then the last listener serves snapshots, and
    /// no fault is aimed at it or its receiver. `None`: all of them, and nobody needs snapshots.
    pub store: Option<usize>,
    /// Roots that serve in turn, with journals on disks of their own; 0: one, without a journal.
    pub replicas: u8,
    /// What is used of the overlay beyond the plain tree.
    pub options: OverlayOptions,
    /// Somebody who is up to no good.
    pub attack: Option<Attack>,
    /// Somebody besides the participants who leaves for good, and how. Not together with an attack.
    pub leaver: Option<Departure>,
    /// Somebody asks all retransmission servers for what comes next, and listens to market data and
    /// drop copies over FIX.
    pub eavesdropper: bool,
    /// Keys of sealed datagrams are exchanged in the middle of the traffic.
    pub rekeys: Option<Rekeys>,
    /// An injected bug, for tests of the checkers.
    pub sabotage: Sabotage,
    /// The command that repeats a seed, without the seed.
    pub command: String,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            depth: 2,
            fanout: 3,
            receivers: 9,
            hedge: 1,
            participants: 8,
            orders: 500,
            rate_per_s: 400,
            duration_ns: None,
            link: LinkModel {
                base_ns: 10_100,
                jitter_ns: 15_600,
                jitter_sigma: 0.447,
                loss_permille: 10,
                duplicate_permille: 10,
                reorder_permille: 10,
                reorder_ns: Nanos::MILLI,
            },
            kill_every: 10,
            auctions_every: 2,
            specials_every: 3,
            faults: None,
            weather: Weather::default(),
            stragglers: 0,
            slow_proxy: None,
            straggler_permille: 1_000,
            measured_ns: Vec::new(),
            egress_ns: 1_000,
            clock_bound_ns: 20 * Nanos::MICRO,
            wrong_clocks_permille: 500,
            delay_cap_ns: 5 * Nanos::MILLI,
            store: None,
            replicas: 0,
            options: OverlayOptions::default(),
            attack: None,
            leaver: None,
            eavesdropper: false,
            rekeys: None,
            sabotage: Sabotage::Nothing,
            command: "fairbell-lab sim".to_string(),
        }
    }
}

/// Where the nodes of a world are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Places {
    pub(super) root: usize,
    pub(super) proxies: usize,
    pub(super) receivers: usize,
}

impl Places {
    pub(super) fn edge(&self, index: usize) -> usize {
        1 + self.proxies + index
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = usize> + use<> {
        let first = 1 + self.proxies;
        first..first + self.receivers
    }

    pub(super) fn listener(&self, index: usize) -> usize {
        1 + self.proxies + self.receivers + index
    }

    pub(super) fn driver(&self) -> usize {
        1 + self.proxies + 2 * self.receivers
    }

    /// The participant who attacks, or leaves, where there is one.
    pub(super) fn attacker(&self) -> usize {
        self.driver() + 1
    }

    /// Who eavesdrops, behind `strangers` like those.
    pub(super) fn eavesdropper(&self, strangers: usize) -> usize {
        self.driver() + 1 + strangers
    }
}

/// What will go wrong, for the report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    pub(super) proxies_killed: u64,
    pub(super) proxies_restarted: u64,
    pub(super) edges_restarted: u64,
    pub(super) listeners_restarted: u64,
    pub(super) one_way_partitions: u64,
    pub(super) partitions: u64,
    pub(super) isolations: u64,
    pub(super) cut_off: u64,
    pub(super) cuts_planned: u64,
    pub(super) left: Option<Left>,
}

/// The instruments of every run.
pub fn instruments() -> Vec<Instrument> {
    let names = ["AAA", "BBB", "CCC"];
    let instrument = |(index, name): (usize, &&str)| Instrument {
        id: InstrumentId(index as u16 + 1),
        symbol: Symbol::new(name).expect("three letters are a symbol"),
        tick: Price(100),
        price_max: Price(types::limits::PRICE_MAX),
        qty_max: Qty(types::limits::QTY_MAX),
        lot_decimals: 8,
    };
    names.iter().enumerate().map(instrument).collect()
}

impl Scenario {
    /// What the nodes agree on.
    pub fn config(&self, seed: u64) -> ExchangeConfig {
        let firm = if self.eavesdropper { "F" } else { "" };
        let account = |index: u8| Account {
            firm: firm.to_string(),
            id: AccountId(u16::from(index) + 1),
            username: format!("P{index}"),
            password: format!("secret{index}"),
            terms: LoginTerms::default(),
            cancel_on_disconnect: self.leaver.is_some() && index == self.participants,
            throttle: Throttle::UNLIMITED,
            fix: None,
        };
        let first = self.participants + u8::from(self.has_stranger());
        let mut accounts: Vec<Account> = (0..first).map(account).collect();
        if self.eavesdropper {
            let listens = |(index, role)| {
                let fix = Some(FixLogin::new(&format!("EAR{index}"), FixVersion::Fix44, role));
                Account { fix, cancel_on_disconnect: false, ..account(index) }
            };
            let roles = [FixRole::DropCopy, FixRole::MarketData];
            accounts.extend((first..).zip(roles).map(listens));
        }
        ExchangeConfig {
            depth: self.depth,
            fanout: self.fanout,
            receivers: self.receivers,
            hedge: self.hedge,
            dynamic_parents: true,
            round_ns: 50 * Nanos::MILLI,
            delay_window: 200,
            delay_permille: 950,
            delay_cap_ns: self.delay_cap_ns,
            sequencer_window_ns: 300 * Nanos::MICRO,
            linger_ns: 0,
            execution_hold_max_ns: 5 * Nanos::SECOND,
            store: StoreConfig {
                datagrams: self.store.unwrap_or(StoreConfig::default().datagrams),
                ..StoreConfig::default()
            },
            durable: true,
            cancel_grace_ns: self.leaver.map_or(Nanos::SECOND, |_| leave::GRACE_NS),
            outstanding: 1_024,
            connections_max: 64,
            access: AccessConfig::default(),
            log_capacity: 1 << 16,
            open_orders_max: 1 << 12,
            // A level holds an order. A group of roots in a venue of several shards has a dozen engines:
            // tables for all levels and trades of a venue were half of what a seed wrote to.
            unique_ids: false,
            levels_max: 1 << 12,
            trades_kept: 1 << 10,
            instruments: instruments(),
            rules: Vec::new(),
            limits: engine::Limits::NONE,
            self_trade: Vec::new(),
            timetable: super::day::timetable(seed, self),
            accounts,
            shard: Default::default(),
            fix_comp_id: "FAIRBELL".to_string(),
            session: *b"FAIRBELL01",
            midnight: Nanos(START.0 / (86_400 * Nanos::SECOND) * (86_400 * Nanos::SECOND)),
            seed,
            options: self.options(),
        }
    }

    /// Whether there is somebody besides the participants.
    fn has_stranger(&self) -> bool {
        self.attack.is_some() || self.leaver.is_some()
    }

    /// What is used of the overlay beyond the plain tree.
    fn options(&self) -> OverlayOptions {
        let mut options = self.options.clone();
        options.tokens = Some(Secret([0x70; 32]));
        if let Some(attack) = self.attack {
            attack.defend(&mut options);
        }
        options
    }

    /// What opens datagrams between nodes; `None` where nothing is sealed.
    pub(super) fn tap(&self, seed: u64) -> Option<Tap<KeySource>> {
        let config = self.config(seed);
        let keys = config.options.secret.as_ref()?.keys();
        let tree = config.tree().ok()?;
        let mut tap = Tap::new(Fleet::of(&tree.topology), keys);
        let secrets = self.rekeys.into_iter().flat_map(|rekeys| rekeys.secrets(seed));
        secrets.for_each(|secret| tap.add_epoch(secret.keys()));
        Some(tap)
    }

    /// The world at its start.
    ///
    /// # Panics
    /// When the scenario makes no exchange.
    pub(super) fn build(&self, seed: u64) -> (World<Actor>, Places) {
        let config = self.config(seed);
        let topology = config.tree().expect("the scenario's tree is possible").topology;
        let proxies = topology.proxy_ids().count();
        let places = Places { root: 0, proxies, receivers: self.receivers };
        let mut rng = SplitMix64::new(seed ^ 0xC10C);
        let mut world = World::new(seed, START, self.link);
        self.set_weather(seed, world.links_mut(), places);
        let feed_of = |index: usize| address(places.listener(index), Channel::FEED);
        let nodes = self.sabotage.build(&config, |config| {
            deploy(config, life(seed, START), feed_of).expect("the scenario's exchange is possible")
        });
        for (id, node) in nodes.into_iter().enumerate() {
            let group = match node.plain() {
                Role::Root(_) => ROOT,
                Role::Proxy(_) => PROXY,
                _ => EDGE,
            };
            let overlay = Some(NodeId(id as u16));
            let listens = group == EDGE;
            let (clock, egress_ns) = (self.clock(&mut rng), self.egress_ns);
            let actor = match group {
                ROOT if self.replicas > 0 => {
                    let bound_ns = self.clock_bound_ns;
                    let group = ReplicaGroup::new(&config, self.replicas, bound_ns, self.sabotage);
                    Actor::Group(Box::new(group))
                }
                _ => Actor::Role(node),
            };
            world.add(actor, Place { overlay, clock, group, egress_ns, listens });
        }
        for index in 0..self.receivers {
            let node = self.listener(&config, places, index);
            let (clock, listens) = (self.clock(&mut rng), node.as_snapshots().is_some());
            let place = Place { group: LISTENER, clock, listens, ..Place::default() };
            world.add(Actor::Role(node), place);
        }
        let driver = Actor::Role(Role::Driver(Box::new(self.driver(seed, &config, places))));
        let clock = self.clock(&mut rng);
        world.add(driver, Place { group: PARTICIPANT, clock, ..Place::default() });
        if let Some(attack) = self.attack {
            let account = &config.accounts[usize::from(self.participants)];
            let node = Role::Driver(Box::new(attack.driver(self, &config, account, places)));
            world.add(Actor::Role(node), Place { group: PARTICIPANT, ..Place::default() });
        } else if self.leaver.is_some() {
            let leaver = Departure::driver(self, &config, places).expect("logins fit SoupBinTCP");
            let node = Role::Driver(Box::new(leaver));
            world.add(Actor::Role(node), Place { group: PARTICIPANT, ..Place::default() });
        }
        if let Some(index) = self.eavesdropper_at(places) {
            let node = Actor::Eavesdropper(Box::new(self.eavesdropper(&config, places)));
            let added = world.add(node, Place { group: LISTENER, ..Place::default() });
            debug_assert_eq!(added, index);
        }
        self.name_links(&mut world);
        (world, places)
    }

    /// Who eavesdrops, if anybody does.
    pub(super) fn eavesdropper_at(&self, places: Places) -> Option<usize> {
        self.eavesdropper.then(|| places.eavesdropper(usize::from(self.has_stranger())))
    }

    /// Who serves snapshots, if anybody does.
    pub(super) fn snapshots_at(&self, places: Places) -> Option<usize> {
        self.store.map(|_| places.listener(self.receivers - 1))
    }

    /// It asks every root's server and the snapshot server, and listens at the last edge.
    fn eavesdropper(&self, config: &ExchangeConfig, places: Places) -> Eavesdropper {
        let servers = match self.replicas {
            0 => vec![address(places.root, Channel::FEED)],
            some => (0..some).map(|n| address(places.root, ReplicaGroup::door(n))).collect(),
        };
        let sessions = (0..config.options.streams()).map(|stream| config.session_of(stream));
        let login = |account: &Account| {
            let fix = account.fix.as_ref()?;
            let all = || config.instruments.iter().map(|one| one.symbol.as_str().to_string());
            let symbols = match fix.role {
                FixRole::MarketData => all().collect(),
                _ => Vec::new(),
            };
            let (username, password) = (account.username.clone(), account.password.clone());
            Some(eavesdropper::Login { comp_id: fix.comp_id.clone(), username, password, symbols })
        };
        let gateway = address(places.edge(self.receivers - 1), FIX_ENTRY);
        let logins = config.accounts.iter().filter_map(login).collect();
        let snapshots = self.snapshots_at(places).map(|server| address(server, ENTRY));
        let servers = (servers, snapshots);
        Eavesdropper::new(servers, sessions.collect(), (gateway, &config.fix_comp_id), logins)
    }

    /// Proxies, those that stand by included.
    pub fn proxies(&self) -> usize {
        let topology = self.config(0).tree().map(|tree| tree.topology);
        topology.map_or(0, |topology| topology.proxy_ids().count())
    }

    /// Proxies that have a place in the tree, which come first.
    pub(super) fn placed(&self) -> usize {
        self.proxies().saturating_sub(usize::from(self.options.standby))
    }

    /// Receivers, and their listeners, that faults may strike.
    pub(super) fn struck(&self) -> usize {
        self.receivers - usize::from(self.store.is_some())
    }

    /// The listener of an edge that has heard nothing yet.
    pub(super) fn listener(&self, config: &ExchangeConfig, places: Places, index: usize) -> Role {
        let mut settings = listener(config, vec![address(places.root, Channel::FEED)]);
        settings.sources = Some(vec![address(places.edge(index), Channel::FEED)]);
        settings.checkpoint_every = CHECKPOINT_EVERY;
        let last = self.receivers - 1;
        match self.store {
            Some(_) if index == last => {
                let limits = SnapshotServerConfig::default();
                let feed = subscriber(config, &settings);
                Role::Snapshots(Box::new(SnapshotServer::new(feed, limits)))
            }
            store => {
                let server = address(places.listener(last), ENTRY);
                settings.catch_up = store.map(|_| CatchUpConfig::new(server));
                Role::Listener(Box::new(subscriber(config, &settings)))
            }
        }
    }

    fn set_weather(&self, seed: u64, links: &mut Links, places: Places) {
        let slow = self.slow_proxy.filter(|proxy| *proxy < places.proxies);
        let fair = self.weather == Weather::default() && self.stragglers == 0 && slow.is_none();
        if !fair {
            links.set_weather(self.weather, seed);
        }
        let mut rng = SplitMix64::new(seed ^ 0x57A6);
        for _ in 0..self.stragglers {
            // The root is chosen with care, the others as they come.
            let node = 1 + rng.below(places.driver() as u64 - 1) as usize;
            links.slow_node(node, self.straggler_permille);
        }
        if let Some(proxy) = slow {
            links.slow_node(1 + proxy, self.straggler_permille);
        }
        if !self.measured_ns.is_empty() {
            links.measured(self.measured_ns.clone());
        }
    }

    /// The gateways of participant `index`, its first choice first.
    pub(super) fn gateways(&self, index: usize, places: Places) -> Vec<Peer> {
        let gateway = |step| address(places.edge((index + step) % self.receivers), ENTRY);
        (0..self.receivers).map(gateway).collect()
    }

    /// Twice the time that the timed part takes, about.
    pub(super) fn flow_ns(&self) -> u64 {
        match self.duration_ns {
            Some(ns) => 2 * ns,
            None => self.orders * Nanos::SECOND / self.rate_per_s.max(1),
        }
    }

    fn name_links(&self, world: &mut World<Actor>) {
        let links = world.links_mut();
        let classes = [
            (ROOT, PROXY, "root-proxy"),
            (ROOT, EDGE, "root-edge"),
            (ROOT, LISTENER, "root-listener"),
            (PROXY, EDGE, "proxy-edge"),
            (PROXY, PROXY, "proxy-proxy"),
            (EDGE, LISTENER, "edge-listener"),
            (EDGE, PARTICIPANT, "edge-participant"),
        ];
        for (a, b, name) in classes {
            links.between(a, b, name, self.link);
            if a != b {
                links.between(b, a, name, self.link);
            }
        }
    }

    fn driver(&self, seed: u64, config: &ExchangeConfig, places: Places) -> Driver {
        let client = |(index, account): (usize, &Account)| {
            let gateways = self.gateways(index, places);
            let mut client = ClientConfig::new(&account.username, &account.password, gateways);
            client.orders_max = 1 << 16;
            client
        };
        let honest = usize::from(self.participants);
        let clients = config.accounts.iter().take(honest).enumerate().map(client).collect();
        let mut settings = DriverConfig::new(config.instruments.clone(), clients);
        settings.window = 16;
        settings.duration_ns = self.duration_ns;
        settings.start_delay_ns = START_DELAY_NS;
        settings.load_timeout_ns = 8 * Nanos::SECOND;
        settings.drain_timeout_ns = 8 * Nanos::SECOND;
        let (mut opening, mut schedule) = (Vec::new(), Schedule::default());
        let specials = self.specials_every > 0 && seed.is_multiple_of(self.specials_every);
        for instrument in &config.instruments {
            let seed = SplitMix64::mix(seed ^ u64::from(instrument.id.0) << 48);
            let (first, timed) = self.flow(*instrument, seed, specials);
            opening.extend(first);
            schedule.add(Source::Recorded(timed), self.rate_per_s);
        }
        Driver::new(settings, opening, schedule).expect("logins of the scenario fit SoupBinTCP")
    }

    /// Opening book and timed messages of one instrument: more trading than in the field.
    fn flow(
        &self,
        instrument: Instrument,
        seed: u64,
        specials: bool,
    ) -> (Vec<FlowMessage>, VecDeque<FlowMessage>) {
        let mut mix = GeneratorConfig::new(instrument, Price::from_whole(100), seed);
        mix.participants = self.participants;
        mix.market_permille = 40;
        mix.marketable_permille = 200;
        mix.post_only_permille = 200;
        mix.replace_permille = 100;
        mix.special_permille = if specials { 150 } else { 0 };
        mix.brief_permille = 60;
        let mut generator = Generator::new(mix);
        let opening = generator.opening(30);
        let wanted = self.orders.div_ceil(instruments().len() as u64);
        let (mut timed, mut orders) = (VecDeque::new(), 0);
        while orders < wanted {
            let message = generator.next_message();
            orders += u64::from(matches!(message.action, Action::New { .. }));
            timed.push_back(message);
        }
        (opening, timed)
    }

    /// Schedules what goes wrong between two true times, drawn from the seed.
    pub(super) fn plan(
        &self,
        seed: u64,
        world: &mut World<Actor>,
        places: Places,
        (from, until): (Nanos, Nanos),
    ) -> Plan {
        let mut plan = Plan::default();
        if let Some(leaver) = self.leaver.filter(|_| self.attack.is_none()) {
            let (scenario, rng) = (self, SplitMix64::new(seed ^ 0x1EA7));
            let mut striker = Striker { seed, scenario, world, places, from, until, rng };
            plan.left = Some(leaver.strike(&mut striker, &mut plan));
        }
        let mut rng = SplitMix64::new(seed ^ 0xFA17);
        if let Some(faults) = &self.faults {
            let scenario = self;
            let mut striker = Striker { seed, scenario, world, places, from, until, rng };
            faults.iter().for_each(|spec| striker.strike(spec, &mut plan));
            return plan;
        }
        let span = until.since(from).max(1);
        let mut when = || from.after(below(&mut rng, span));
        let (kill_at, cut_at, block_at, block_ns) =
            (when(), when(), when(), 1 + when().since(from) / 8);
        if self.kill_every > 0 && seed.is_multiple_of(self.kill_every) && places.proxies > 0 {
            let victim = 1 + rng.below(places.proxies as u64) as usize;
            world.fault(kill_at, Fault::Kill(victim));
            plan.proxies_killed = 1;
        }
        match seed % 4 {
            1 => world.fault(cut_at, Fault::CutStream(places.driver(), rng.next_u64())),
            2 if seed % 16 == 2 => world.fault(cut_at, Fault::CutStreams(places.driver())),
            _ => {}
        }
        plan.cuts_planned = u64::from(seed % 4 == 1 || seed % 16 == 2);
        if seed % 5 == 2 {
            // The root and one edge do not hear each other for a while; the tree goes on.
            let edge = places.edge(rng.below(places.receivers as u64) as usize);
            let links = world.links_mut();
            links.block(places.root, edge, block_at, block_at.after(block_ns));
            links.block(edge, places.root, block_at, block_at.after(block_ns));
            plan.partitions = 1;
        }
        plan
    }

    /// A clock, perhaps perfect, else wrong within the bound, drift included (20 s of it).
    fn clock(&self, rng: &mut SplitMix64) -> SimClock {
        let offset_max = self.clock_bound_ns * 7 / 10;
        let drift_max = self.clock_bound_ns * 15 / 1_000;
        let wrong = rng.below(1_000) < self.wrong_clocks_permille;
        let (offset, drift) = (rng.below(2 * offset_max + 1), rng.below(2 * drift_max + 1));
        let sign = i64::from(wrong);
        SimClock {
            origin: START,
            offset_ns: sign * (offset as i64 - offset_max as i64),
            drift_ppb: sign * (drift as i64 - drift_max as i64),
            bound_ns: self.clock_bound_ns,
            ..SimClock::default()
        }
    }
}
