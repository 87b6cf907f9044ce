//! Two shards and two edges that serve both, in memory: FIX sessions over both, copies of their reports,
//! and what no datagram between roots may do.

use std::collections::BTreeMap;

use exchange::{
    Edge, ExchangeConfig, FIX_DOOR, Role, Root, Secret, ShardPlace, Venue, deploy_venue,
};
use types::{
    Channel, ClockReading, Command, CommandKind, ConnId, Instrument, InstrumentId, Nanos, Node,
    NodeId, Op, Outbox, Peer, Price, ShardId, SplitMix64, Symbol,
};

use crate::common::{LISTENERS, MS, START};
use crate::fix_client::FixClient;
use crate::fix_world::fix_config;

const SHARDS: usize = 2;
const EDGES: usize = 2;

fn config() -> ExchangeConfig {
    let mut config = fix_config(EDGES);
    let first = config.instruments[0];
    let symbol = Symbol::new("ETHUSD").expect("valid");
    config.instruments.push(Instrument { id: InstrumentId(2), symbol, ..first });
    config.shard = ShardPlace { shards: SHARDS as u16, ..ShardPlace::default() };
    config
}

/// Who gets a datagram: a root, or an edge by a channel.
type To = (usize, Channel);

struct World {
    roots: Vec<Box<Root>>,
    edges: Vec<Edge>,
    now: ClockReading,
    clients: Vec<FixClient>,
    at: Vec<Option<(usize, ConnId)>>,
    /// Of a thousand datagrams.
    lost_permille: u64,
    /// A shard whose root neither hears nor speaks.
    away: Option<usize>,
    rng: SplitMix64,
    /// Datagrams between roots so far.
    between: Vec<Vec<u8>>,
    on_the_way: BTreeMap<(Nanos, u64), (To, Vec<u8>)>,
    serial: u64,
    out: Outbox,
}

impl World {
    fn new(config: &ExchangeConfig, seed: u64) -> World {
        let life = exchange::Life::of(1_000);
        let Venue { shards, edges } = deploy_venue(config, life, |_| LISTENERS).expect("possible");
        let root = |nodes: Vec<Option<Role>>| match nodes.into_iter().next() {
            Some(Some(Role::Root(root))) => root,
            _ => panic!("a root"),
        };
        let edge = |role| match role {
            Role::Edge(edge) => *edge,
            _ => panic!("an edge"),
        };
        let clients = [("ONE", "secret1"), ("TWO", "secret2"), ("COPY", "secret4")];
        let mut world = World {
            roots: shards.into_iter().map(root).collect(),
            edges: edges.into_iter().map(edge).collect(),
            now: ClockReading { now: START, bound_ns: 0 },
            at: vec![None; clients.len()],
            clients: clients.map(|(name, password)| FixClient::new(name, password)).into(),
            lost_permille: 0,
            away: None,
            rng: SplitMix64::new(seed),
            between: Vec::new(),
            on_the_way: BTreeMap::new(),
            serial: 0,
            out: Outbox::default(),
        };
        world.run(300 * MS);
        world
    }

    /// Roots are places 0 and 1, edges follow.
    fn node(&mut self, place: usize) -> &mut dyn Node {
        match place.checked_sub(SHARDS) {
            None => &mut *self.roots[place],
            Some(edge) => &mut self.edges[edge],
        }
    }

    fn with(&mut self, place: usize, call: impl FnOnce(&mut dyn Node, ClockReading, &mut Outbox)) {
        let (now, mut out) = (self.now, std::mem::take(&mut self.out));
        call(self.node(place), now, &mut out);
        for op in out.ops() {
            match *op {
                Op::Datagram { channel, to: Peer::Node(NodeId(to)), bytes } => {
                    let bytes = out.bytes(bytes);
                    let shard = if place < SHARDS { place } else { usize::from(shard_of(channel)) };
                    let target = match (channel, to) {
                        (Channel::SHARDS, _) => {
                            self.between.push(bytes.to_vec());
                            (usize::from(to), channel)
                        }
                        (_, 0) => (shard, Channel::OVERLAY),
                        _ => {
                            let id = ShardId(shard as u16);
                            (SHARDS + usize::from(to) - 1, Channel::of_shard(id))
                        }
                    };
                    let away = self.away.is_some_and(|away| away == place || away == target.0);
                    if !away && self.rng.below(1_000) >= self.lost_permille {
                        self.serial += 1;
                        let delay = 20_000 + self.rng.below(300_000);
                        let key = (self.now.now.after(delay), self.serial);
                        self.on_the_way.insert(key, (target, bytes.to_vec()));
                    }
                }
                Op::Stream { conn, bytes } => {
                    let client = self.at.iter().position(|at| *at == Some((place, conn)));
                    if let Some(client) = client {
                        self.clients[client].hear(now.now, out.bytes(bytes));
                    }
                }
                Op::Close { conn } => {
                    let client = self.at.iter().position(|at| *at == Some((place, conn)));
                    if let Some(client) = client {
                        self.clients[client].logged_on = false;
                        self.at[client] = None;
                    }
                }
                _ => {}
            }
        }
        out.clear();
        self.out = out;
    }

    fn run(&mut self, ns: u64) {
        let end = self.now.now.after(ns);
        for _ in 0..1_000_000 {
            for client in 0..self.clients.len() {
                let Some((place, conn)) = self.at[client] else { continue };
                if self.clients[client].out.is_empty() || !self.node(place).wants_stream(conn) {
                    continue;
                }
                let bytes = std::mem::take(&mut self.clients[client].out);
                self.with(place, |node, now, out| node.handle_stream(now, conn, &bytes, out));
            }
            let places = 0..SHARDS + EDGES;
            let due = places.map(|place| (self.node(place).next_timeout(), place)).min();
            let (due, place) = due.expect("nodes");
            let arrival = self.on_the_way.first_key_value().map_or(Nanos::NEVER, |(key, _)| key.0);
            if due.min(arrival) > end {
                self.now.now = end;
                return;
            }
            self.now.now = self.now.now.max(due.min(arrival));
            if arrival <= due {
                let (_, ((to, channel), bytes)) = self.on_the_way.pop_first().expect("one");
                self.with(to, |node, now, out| {
                    node.handle_datagram(now, channel, Peer::Addr(9), &bytes, out);
                });
            } else {
                self.with(place, |node, now, out| node.handle_timeout(now, out));
            }
        }
        panic!("a timer spins at {:?}", self.now.now);
    }

    fn logon(&mut self, client: usize, edge: usize) {
        for _ in 0..30 {
            self.serial += 1;
            let door = u32::from(FIX_DOOR) << ConnId::DOOR_SHIFT;
            let conn = ConnId(1 << 31 | door | self.serial as u32 & 0xff_ffff);
            self.clients[client].connected();
            self.at[client] = Some((SHARDS + edge, conn));
            self.with(SHARDS + edge, |node, now, out| node.handle_connect(now, conn, out));
            let now = self.now.now;
            self.clients[client].logon(now, "");
            self.run(300 * MS);
            if self.clients[client].logged_on {
                return;
            }
            self.hang_up(client);
        }
        panic!("client {client} does not get in: {:?}", self.clients[client].logouts);
    }

    fn hang_up(&mut self, client: usize) {
        if let Some((place, conn)) = self.at[client].take() {
            self.with(place, |node, now, out| node.handle_close(now, conn, out));
        }
    }

    /// An order in one of the instruments.
    fn order(&mut self, client: usize, id: &str, symbol: &str, side: char, qty: u64) {
        let now = self.now.now;
        let client = &mut self.clients[client];
        client.orders.insert(id.to_string(), Default::default());
        let body =
            format!("11={id}|55={symbol}|54={side}|60=20260101-10:00:00|38={qty}|40=2|44=100|");
        client.send(now, "D", &body);
    }

    fn cum(&self, client: usize, id: &str) -> u64 {
        self.clients[client].orders[id].cum
    }
}

fn shard_of(channel: Channel) -> u16 {
    channel.shard().expect("a channel of a shard").0
}

/// Both instruments are traded, each at its shard; what happens while a session is away is told at the
/// other edge, in the same numbers.
fn trade_over_both(lost_permille: u64, seed: u64) {
    let mut world = World::new(&config(), seed);
    world.lost_permille = lost_permille;
    world.logon(0, 0);
    world.logon(1, 0);
    world.logon(2, 1);
    world.order(0, "a", "BTCUSD", '1', 5);
    world.order(0, "b", "ETHUSD", '1', 5);
    world.run(600 * MS);
    for (shard, root) in world.roots.iter().enumerate() {
        let best = root.engine().best(InstrumentId(shard as u16 + 1), types::Side::Buy);
        assert_eq!(best.map(|level| level.price), Some(Price::from_whole(100)), "shard {shard}");
        assert!(root.engine().best(InstrumentId(2 - shard as u16), types::Side::Buy).is_none());
    }
    world.order(1, "c", "BTCUSD", '2', 2);
    world.order(1, "d", "ETHUSD", '2', 2);
    world.run(600 * MS);
    assert_eq!((world.cum(0, "a"), world.cum(0, "b")), (2, 2), "seed {seed}");
    world.hang_up(0);
    world.run(20 * MS);
    world.order(1, "e", "BTCUSD", '2', 1);
    world.order(1, "f", "ETHUSD", '2', 1);
    world.run(600 * MS);
    world.logon(0, 1);
    world.run(900 * MS);
    assert_eq!((world.cum(0, "a"), world.cum(0, "b")), (3, 3), "seed {seed}");
    let now = world.now.now;
    world.clients[0].cancel(now, "x", "a", '1');
    let body = "41=b|11=y|55=ETHUSD|54=1|60=20260101-10:00:00|";
    world.clients[0].send(now, "F", body);
    world.run(900 * MS);
    let mut canceled = world.clients[0].canceled.clone();
    canceled.sort();
    let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
    assert_eq!(canceled, [pair("x", "a"), pair("y", "b")], "seed {seed}");
    for client in &world.clients {
        assert_eq!(client.violations, Vec::<String>::new(), "{}, seed {seed}", client.comp_id);
    }
    // Each report of both accounts has one copy.
    let reports =
        |client: usize| world.clients[client].told.iter().filter(|one| one.2 != "9").count();
    assert_eq!(reports(2), reports(0) + reports(1), "seed {seed}: copies of all");
}

#[test]
fn a_fix_session_trades_over_both_shards_and_goes_on_at_another_edge() {
    trade_over_both(0, 1);
    (2..6).for_each(|seed| trade_over_both(100, seed));
}

#[test]
fn a_command_for_all_reaches_both_and_its_number_outlives_who_gave_it() {
    let mut world = World::new(&config(), 3);
    world.logon(0, 0);
    world.order(0, "a", "BTCUSD", '1', 5);
    world.order(0, "b", "ETHUSD", '1', 5);
    world.run(100 * MS);
    // One shard is away: the other carries the command out at once.
    world.away = Some(1);
    let kill = Command { param: 1, ..Command::new(CommandKind::Kill) };
    let (now, mut out) = (world.now, Outbox::default());
    assert_eq!(world.roots[0].direct(now, kill, &mut out), Ok(1));
    assert!(world.roots[1].direct(now, kill, &mut out).is_err(), "the first gives the numbers");
    world.run(400 * MS);
    let killed = |world: &World| world.roots.iter().map(|root| root.engine().is_killed()).collect();
    let now_killed: Vec<bool> = killed(&world);
    assert_eq!(now_killed, [true, false]);
    assert_eq!(world.clients[0].orders["a"].leaves, 0);
    // A new root of the first shard goes on from its log alone.
    let config = config();
    let trees = config.trees().expect("trees");
    let mut again = Box::new(Root::new(&config, &trees).expect("a root"));
    let log: Vec<_> = world.roots[0].log().records().collect();
    again.resume(world.now, log).expect("its own log");
    world.roots[0] = again;
    world.away = None;
    world.run(700 * MS);
    let now_killed: Vec<bool> = killed(&world);
    assert_eq!(now_killed, [true, true]);
    assert_eq!(world.clients[0].orders["b"].leaves, 0);
    let allow = Command::new(CommandKind::Kill);
    assert_eq!(world.roots[0].direct(world.now, allow, &mut out), Ok(2));
    world.run(700 * MS);
    let now_killed: Vec<bool> = killed(&world);
    assert_eq!(now_killed, [false, false]);
    // What both engines made of it is known to the first, and of one that they refuse, too.
    let known = |world: &World, number: u32| {
        [0, 1].map(|shard| world.roots[0].directed(ShardId(shard), number))
    };
    assert_eq!(known(&world, 2), [Some(true); 2]);
    let again = Command::new(CommandKind::StartOfDay);
    assert_eq!(world.roots[0].direct(world.now, again, &mut out), Ok(3));
    world.run(700 * MS);
    assert_eq!(known(&world, 3), [Some(false); 2], "the day is open");
    assert_eq!(known(&world, 4), [None; 2]);
}

/// Whatever bytes come: nothing panics; and with a secret nothing that is not authentic is heard.
#[test]
fn no_bytes_between_roots_do_harm() {
    let seed = 0x5AD7;
    for secret in [None, Some(Secret([5; 32]))] {
        let mut config = config();
        let sealed = secret.is_some();
        config.options.secret = secret;
        let nodes = deploy_venue(&config, exchange::Life::of(7), |_| LISTENERS).expect("possible");
        let mut clear = config.clone();
        clear.options.secret = None;
        let mut world = World::new(&clear, 1);
        world.logon(0, 0);
        world.order(0, "b", "ETHUSD", '1', 5);
        world.run(100 * MS);
        let samples = world.between.clone();
        assert!(samples.len() > 20);
        let mut roots: Vec<Role> =
            nodes.shards.into_iter().filter_map(|nodes| nodes.into_iter().next()?).collect();
        let mut dice = SplitMix64::new(seed);
        let mut out = Outbox::default();
        for round in 0..20_000 {
            let mut bytes = samples[dice.below(samples.len() as u64) as usize].clone();
            for _ in 0..dice.below(4) {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] = dice.next_u64() as u8;
            }
            if dice.below(4) == 0 {
                bytes.truncate(dice.below(bytes.len() as u64 + 1) as usize);
            }
            let at = round % 2;
            out.clear();
            let root = &mut roots[at];
            root.handle_datagram(world.now, Channel::SHARDS, Peer::Addr(1), &bytes, &mut out);
        }
        for root in &roots {
            let root = root.as_root().expect("a root");
            let between = root.between();
            assert!(between.refused > 1_000, "{between:?}");
            assert_eq!(between.heard == 0, sealed, "{between:?}");
            assert!(root.log().len() < 10_000);
        }
    }
}

/// Requests for a shard that does not answer fill a session's room on the way up; then those for the other
/// one wait until it counts as away, and no longer.
#[test]
fn a_shard_that_is_away_holds_nothing_up_for_long() {
    let mut config = config();
    config.outstanding = 8;
    let mut world = World::new(&config, 4);
    world.logon(0, 0);
    world.away = Some(1);
    world.order(0, "first", "BTCUSD", '1', 5);
    world.run(50 * MS);
    assert_eq!(world.clients[0].orders["first"].leaves, 5, "nothing waits for the other shard");
    for n in 0..20 {
        world.order(0, &format!("away-{n}"), "ETHUSD", '1', 1);
        world.run(MS);
    }
    world.order(0, "held", "BTCUSD", '1', 5);
    world.run(150 * MS);
    assert_eq!(world.clients[0].orders["held"].leaves, 0, "what came before has no room");
    world.run(700 * MS);
    assert_eq!(world.clients[0].orders["held"].leaves, 5, "{:?}", world.clients[0].refused);
    world.away = None;
    world.run(900 * MS);
    let told = (0..20).filter(|n| {
        let id = format!("away-{n}");
        world.clients[0].orders.get(&id).is_some_and(|order| order.leaves == 1)
            || world.clients[0].refused.iter().any(|(about, _)| *about == id)
    });
    assert_eq!(told.count(), 20, "each order has an answer");
    assert_eq!(world.clients[0].violations, Vec::<String>::new());
}
