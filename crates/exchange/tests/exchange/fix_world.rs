//! A root and several edges with delays and losses between them, FIX participants outside.

use std::collections::BTreeMap;

use engine::Applied;
use exchange::{Edge, ExchangeConfig, FIX_DOOR, FixLogin, FixRole, FixVersion, Role, Root, deploy};
use feed::BookImage;
use types::{
    AccountId, Channel, ClockReading, Command, ConnId, ExecutionKind, ExecutionReport, Nanos, Node,
    NodeId, Op, Outbox, Peer, Side, SplitMix64,
};
use wire::moldudp::Packet;
use zerocopy::TryFromBytes;

use crate::common::{LISTENERS, MS, START, config};
use crate::fix_client::FixClient;

/// Accounts 1 and 2 are the FIX sessions `ONE` and `TWO`, account 3 is an OUCH login, and account 4
/// the drop-copy session `COPY` of the firm that the first two are of; account 5 is the session
/// `DATA` for market data.
pub fn fix_config(edges: usize) -> ExchangeConfig {
    let mut config = config();
    (config.receivers, config.fanout) = (edges, edges);
    for (n, name, role) in [(4, "COPY", FixRole::DropCopy), (5, "DATA", FixRole::MarketData)] {
        let mut account = config.accounts[2].clone();
        (account.id, account.firm) = (AccountId(n), "HOUSE".to_string());
        (account.username, account.password) = (format!("USER{n}"), format!("secret{n}"));
        account.fix = Some(FixLogin::new(name, FixVersion::Fix44, role));
        config.accounts.push(account);
    }
    for (account, comp_id) in config.accounts.iter_mut().zip(["ONE", "TWO"]) {
        account.firm = "HOUSE".to_string();
        account.fix = Some(FixLogin::new(comp_id, FixVersion::Fix44, FixRole::Orders));
    }
    config
}

/// The root is place 0, edges follow.
type Datagram = (usize, Channel, NodeId, Vec<u8>);

pub struct World {
    pub root: Box<Root>,
    pub edges: Vec<Option<Box<Edge>>>,
    pub now: ClockReading,
    pub clients: Vec<FixClient>,
    /// By client: its edge and connection.
    pub at: Vec<Option<(usize, ConnId)>>,
    /// Of a thousand datagrams.
    pub lost_permille: u64,
    pub rng: SplitMix64,
    /// By edges.
    pub allocations: u64,
    /// A client that does not read, and what lies before it.
    pub slow: Option<usize>,
    pub unread: Vec<u8>,
    /// By edge: the books by what it has released.
    pub public: BTreeMap<usize, BookImage>,
    /// What is told on connections that are no client's, where somebody wants to know.
    pub heard: BTreeMap<(usize, ConnId), Vec<u8>>,
    on_the_way: BTreeMap<(Nanos, u64), Datagram>,
    serial: u64,
    out: Outbox,
}

impl World {
    /// The exchange of [`fix_config`], its day begun, and one participant per FIX session.
    pub fn new(edges: usize, seed: u64) -> World {
        World::of(&fix_config(edges), seed)
    }

    /// The same with a configuration of one's own.
    pub fn of(config: &ExchangeConfig, seed: u64) -> World {
        let mut nodes = deploy(config, exchange::Life::of(1_000), |_| LISTENERS).expect("possible");
        let edge = |role| match role {
            Role::Edge(edge) => Some(edge),
            _ => panic!("an edge"),
        };
        let rest = nodes.split_off(1);
        let Some(Role::Root(root)) = nodes.pop() else { panic!("a root") };
        let clients =
            [("ONE", "secret1"), ("TWO", "secret2"), ("COPY", "secret4"), ("DATA", "secret5")];
        let clients: Vec<_> =
            clients.iter().map(|(name, password)| FixClient::new(name, password)).collect();
        let mut world = World {
            root,
            edges: rest.into_iter().map(edge).collect(),
            now: ClockReading { now: START, bound_ns: 0 },
            at: vec![None; clients.len()],
            clients,
            lost_permille: 0,
            rng: SplitMix64::new(seed),
            allocations: 0,
            slow: None,
            unread: Vec::new(),
            public: BTreeMap::new(),
            heard: BTreeMap::new(),
            on_the_way: BTreeMap::new(),
            serial: 0,
            out: Outbox::default(),
        };
        world.run(200 * MS);
        world
    }

    /// Does what a node asked for; `from` is its place.
    fn drain(&mut self, from: usize) {
        let mut out = std::mem::take(&mut self.out);
        for op in out.ops() {
            match *op {
                Op::Datagram { channel, to: Peer::Node(to), bytes } => {
                    let lost = self.rng.next_u64() % 1_000 < self.lost_permille;
                    let delay = 20_000 + self.rng.next_u64() % 300_000;
                    if !lost {
                        self.serial += 1;
                        let key = (self.now.now.after(delay), self.serial);
                        let node = NodeId(from as u16);
                        let bytes = out.bytes(bytes).to_vec();
                        self.on_the_way.insert(key, (usize::from(to.0), channel, node, bytes));
                    }
                }
                Op::Datagram { bytes, .. } => {
                    // Released by an edge's receiver, for everybody.
                    let public = self.public.entry(from).or_insert_with(|| BookImage::new(10_000));
                    let packet = Packet::parse(out.bytes(bytes)).expect("a packet");
                    for message in packet.messages() {
                        public.apply(message).expect("in sequence");
                    }
                }
                Op::Stream { conn, bytes } => {
                    let (now, bytes) = (self.now.now, out.bytes(bytes));
                    let client = self.client_on(from, conn);
                    if client.is_some() && client == self.slow {
                        self.unread.extend_from_slice(bytes);
                    } else if let Some(client) = client {
                        self.clients[client].hear(now, bytes);
                        self.look(from, client);
                    } else if let Some(heard) = self.heard.get_mut(&(from, conn)) {
                        heard.extend_from_slice(bytes);
                    }
                }
                Op::Close { conn } => {
                    if let Some(client) = self.client_on(from, conn) {
                        self.clients[client].closed = true;
                        self.clients[client].logged_on = false;
                        self.at[client] = None;
                    }
                }
                Op::Connect { .. } => panic!("nobody is called"),
                Op::Work { .. } => {}
            }
        }
        out.clear();
        self.out = out;
    }

    /// What a client was told of a book last is what is public at its edge at this very moment.
    fn look(&mut self, place: usize, client: usize) {
        let client = &mut self.clients[client];
        let public = self.public.get(&place);
        for (symbol, depth) in client.book.refreshed.drain(..) {
            let public = public.expect("something is public");
            let instruments: Vec<_> = public.instruments().collect();
            let found = instruments.iter().find(|(_, name)| name.as_str() == symbol);
            let (instrument, _) = found.expect("a known symbol");
            let mut expected = BTreeMap::new();
            for side in [Side::Buy, Side::Sell] {
                for level in public.depth(*instrument, side).take(depth) {
                    let price = level.price.0.to_string();
                    expected
                        .insert((symbol.clone(), side as u8, price), (level.qty.0, level.orders));
                }
            }
            let known: BTreeMap<_, _> =
                client.book.levels.clone().into_iter().filter(|(key, _)| key.0 == symbol).collect();
            assert_eq!(known, expected, "the book of {symbol}");
            client.book.compared += 1;
        }
    }

    fn client_on(&self, place: usize, conn: ConnId) -> Option<usize> {
        self.at.iter().position(|at| *at == Some((place, conn)))
    }

    pub fn with(
        &mut self,
        place: usize,
        call: impl FnOnce(&mut dyn Node, ClockReading, &mut Outbox),
    ) {
        let node: &mut dyn Node = match place.checked_sub(1) {
            None => &mut *self.root,
            Some(edge) => match self.edges.get_mut(edge) {
                Some(Some(edge)) => &mut **edge,
                _ => return,
            },
        };
        let before = counting::allocations();
        call(node, self.now, &mut self.out);
        if place > 0 {
            self.allocations += counting::allocations() - before;
        }
        self.drain(place);
    }

    /// What the participants want to say is said.
    pub fn flush(&mut self) {
        for client in 0..self.clients.len() {
            while !self.clients[client].out.is_empty() {
                let bytes = std::mem::take(&mut self.clients[client].out);
                let Some((place, conn)) = self.at[client] else { break };
                self.with(place, |node, now, out| node.handle_stream(now, conn, &bytes, out));
            }
        }
    }

    /// Lets time pass.
    pub fn run(&mut self, ns: u64) {
        let end = self.now.now.after(ns);
        for _ in 0..1_000_000 {
            self.flush();
            let timer = |place: usize, world: &World| match place.checked_sub(1) {
                None => world.root.next_timeout(),
                Some(edge) => {
                    world.edges[edge].as_ref().map_or(Nanos::NEVER, |edge| edge.next_timeout())
                }
            };
            let places = 0..=self.edges.len();
            let (due, place) =
                places.map(|place| (timer(place, self), place)).min().expect("a root");
            let arrival = self.on_the_way.first_key_value().map_or(Nanos::NEVER, |(key, _)| key.0);
            let next = due.min(arrival);
            if next > end {
                self.now.now = end;
                return;
            }
            self.now.now = self.now.now.max(next);
            if arrival <= due {
                let Some((_, (to, channel, from, bytes))) = self.on_the_way.pop_first() else {
                    return;
                };
                self.with(to, |node, now, out| {
                    node.handle_datagram(now, channel, Peer::Node(from), &bytes, out);
                });
            } else {
                self.with(place, |node, now, out| node.handle_timeout(now, out));
            }
        }
        panic!("a timer spins at {:?}", self.now.now);
    }

    /// Client `client` connects to an edge, by its number from 1.
    pub fn connect(&mut self, client: usize, place: usize) {
        self.serial += 1;
        let door = u32::from(FIX_DOOR) << ConnId::DOOR_SHIFT;
        let conn = ConnId(1 << 31 | door | self.serial as u32 & 0xff_ffff);
        self.clients[client].connected();
        self.at[client] = Some((place, conn));
        self.with(place, |node, now, out| node.handle_connect(now, conn, out));
    }

    /// Connects and logs on, again and again for up to three seconds.
    pub fn logon(&mut self, client: usize, place: usize) {
        for _ in 0..30 {
            self.connect(client, place);
            let now = self.now.now;
            self.clients[client].logon(now, "");
            self.run(100 * MS);
            if self.clients[client].logged_on {
                return;
            }
            self.hang_up(client);
        }
        panic!("client {client} does not get in: {:?}", self.clients[client].logouts);
    }

    /// The client leaves too much unread.
    pub fn unread(&mut self, client: usize) {
        if let Some((place, conn)) = self.at[client] {
            self.with(place, |node, now, out| node.handle_unread(now, conn, out));
        }
    }

    /// The slow client reads everything at once.
    pub fn read_on(&mut self) {
        if let Some(client) = self.slow.take() {
            let (now, unread) = (self.now.now, std::mem::take(&mut self.unread));
            self.clients[client].hear(now, &unread);
            // Of then, not of now.
            self.clients[client].book.refreshed.clear();
        }
    }

    /// A command of the exchange's operators.
    pub fn operate(&mut self, command: Command) {
        let applied = self.root.operator(self.now, command, &mut self.out);
        assert_eq!(applied, Some(Applied::Done));
        self.drain(0);
    }

    /// The client's line is cut.
    pub fn hang_up(&mut self, client: usize) {
        if let Some((place, conn)) = self.at[client].take() {
            self.with(place, |node, now, out| node.handle_close(now, conn, out));
        }
    }

    /// An edge is no more.
    pub fn kill(&mut self, place: usize) {
        self.edges[place - 1] = None;
        for client in 0..self.at.len() {
            if self.at[client].is_some_and(|(at, _)| at == place) {
                self.at[client] = None;
                self.clients[client].closed = true;
                self.clients[client].logged_on = false;
            }
        }
    }

    /// All records of a client's account.
    pub fn records(&self, client: usize) -> Vec<ExecutionReport> {
        let account = AccountId(client as u16 + 1);
        let private = self.root.private();
        let records = (1..private.next_position(account)).map(|position| {
            let bytes = private.record(account, position).expect("a record");
            ExecutionReport::try_read_from_bytes(bytes).expect("a report")
        });
        records.collect()
    }

    /// What the client knows is what the engine says; the seed for those who read the failure.
    pub fn check(&self, client: usize, seed: u64) {
        let known = &self.clients[client];
        assert_eq!(known.violations, Vec::<String>::new(), "seed {seed}");
        let mut fills = Vec::new();
        let mut orders: BTreeMap<String, (u64, u64, u32)> = BTreeMap::new();
        let (mut names, mut canceled) = (BTreeMap::new(), Vec::new());
        for report in self.records(client) {
            let told_as = String::from_utf8_lossy(&report.cl_ord_id.0).trim().to_string();
            if report.kind == ExecutionKind::Accepted {
                names.insert(report.user_ref, told_as.clone());
            }
            // Of a cancel it is the request's.
            let id = names.get(&report.user_ref).unwrap_or(&told_as).clone();
            match report.kind {
                ExecutionKind::Accepted => {
                    let order = orders.entry(id).or_default();
                    (order.1, order.2) = (report.leaves.0, order.2 + 1);
                }
                ExecutionKind::Executed => {
                    let order = orders.entry(id).or_default();
                    (order.0, order.1) = (order.0 + report.qty.0, report.leaves.0);
                    let side = if report.side == types::Side::Buy { 'B' } else { 'S' };
                    fills.push(format!("T{}{side}", report.match_number.0));
                }
                ExecutionKind::Canceled => {
                    if told_as != id {
                        canceled.push((told_as, id.clone()));
                    }
                    orders.entry(id).or_default().1 = report.leaves.0;
                }
                _ => {}
            }
        }
        let told: Vec<String> =
            known.executions.iter().filter(|id| id.starts_with('T')).cloned().collect();
        fills.sort();
        assert_eq!(known.canceled, canceled, "seed {seed}: cancels of client {client}");
        assert_eq!(told, fills, "seed {seed}: fills of client {client}");
        let known: BTreeMap<String, (u64, u64, u32)> = known
            .orders
            .iter()
            .map(|(id, order)| (id.clone(), (order.cum, order.leaves, order.accepted)))
            .collect();
        assert_eq!(known, orders, "seed {seed}: orders of client {client}");
        assert!(known.values().all(|order| order.2 == 1), "seed {seed}: each is taken once");
    }
}
