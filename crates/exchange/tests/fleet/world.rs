//! A whole fleet of the very nodes over links that lose, repeat and reorder; participants order
//! all the time. Everything follows from the seed.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use exchange::{ExchangeConfig, Role, Root, deploy};
use overlay::sealed_link::SealedLinkStats;
use types::{
    Channel, ClockReading, ConnId, Nanos, Node, NodeId, Op, Outbox, Peer, Side, SplitMix64, Symbol,
};
use wire::{
    moldudp::Packet,
    soupbin::{ClientEvent, ClientSession},
};

use crate::common::{MS, START, enter_for};

/// Where receiver `n` releases to.
pub const FEED: u64 = 1_000;

/// Of a thousand datagrams: lost, sent twice; and how much they are delayed at random, in ns.
#[derive(Clone, Copy)]
pub struct Links {
    pub loss: u64,
    pub twice: u64,
    pub jitter_ns: u64,
}

pub const CALM: Links = Links { loss: 0, twice: 0, jitter_ns: 40_000 };
pub const ROUGH: Links = Links { loss: 10, twice: 10, jitter_ns: 300_000 };

/// A participant on the edge with the same index.
struct Client {
    soup: ClientSession,
    edge: usize,
    sent: u32,
    answers: BTreeMap<u32, u32>,
}

enum Input {
    Datagram(Vec<u8>),
    Timer,
}

type Due = Reverse<(u64, u64, usize)>;

/// Everything, in virtual time.
pub struct Fleet {
    pub nodes: Vec<Option<Role>>,
    first_edge: usize,
    links: Links,
    rng: SplitMix64,
    now: u64,
    queue: BinaryHeap<Due>,
    inputs: BTreeMap<u64, Input>,
    pushed: u64,
    timers: Vec<u64>,
    /// By node: it does nothing before this time.
    asleep: Vec<u64>,
    /// By node: what every hop into or out of it takes longer, in ns.
    pub slow: Vec<u64>,
    clients: Vec<Client>,
    /// By receiver and stream: the next message it must release.
    pub released: Vec<[u64; 2]>,
    /// What is traded, order by order in turn.
    symbols: Vec<Symbol>,
    /// Datagrams of the overlay: sender, receiver, bytes; the last few thousand.
    pub seen: Vec<(usize, usize, Vec<u8>)>,
}

impl Fleet {
    /// The exchange of `config`, its participants logged in.
    pub fn new(config: &ExchangeConfig, links: Links, seed: u64) -> Fleet {
        let feed_of = |index: usize| Peer::Addr(FEED + index as u64);
        let roles =
            deploy(config, exchange::Life::of(1_000), feed_of).expect("a possible exchange");
        Fleet::of(config, roles, links, seed)
    }

    pub fn of(config: &ExchangeConfig, roles: Vec<Role>, links: Links, seed: u64) -> Fleet {
        let first_edge = roles.iter().position(|role| role.as_edge().is_some()).expect("edges");
        let client = |n: usize| {
            let account = &config.accounts[n];
            let soup = ClientSession::new(&account.username, &account.password).expect("short");
            Client { soup, edge: first_edge + n, sent: 0, answers: BTreeMap::new() }
        };
        let count = config.receivers.min(config.accounts.len());
        let mut fleet = Fleet {
            timers: vec![u64::MAX; roles.len()],
            asleep: vec![0; roles.len()],
            slow: vec![0; roles.len()],
            nodes: roles.into_iter().map(Some).collect(),
            first_edge,
            links,
            rng: SplitMix64::new(seed),
            now: START.0,
            queue: BinaryHeap::new(),
            inputs: BTreeMap::new(),
            pushed: 0,
            clients: (0..count).map(client).collect(),
            released: vec![[1; 2]; config.receivers],
            symbols: config.instruments.iter().map(|of| of.symbol).collect(),
            seen: Vec::new(),
        };
        (0..fleet.nodes.len()).for_each(|node| fleet.set_timer(node));
        fleet.run(200 * MS);
        fleet
    }

    /// Every participant logs in.
    pub fn login(&mut self) {
        for n in 0..self.clients.len() {
            let mut bytes = Vec::new();
            let edge = self.clients[n].edge;
            self.clients[n].soup.connect(Nanos(0), &mut bytes).expect("a login");
            self.call(edge, |role, now, out| role.handle_connect(now, ConnId(n as u32), out));
            self.write(n, &bytes);
        }
        self.run(500 * MS);
        assert!(self.clients.iter().all(|client| client.soup.is_active()), "everybody is in");
    }

    /// Every participant orders every `every_ns` for `ns`: half buy, half sell, all at one price
    /// and one instrument after the other.
    pub fn trade(&mut self, ns: u64, every_ns: u64) {
        let end = self.now + ns;
        while self.now < end {
            for n in 0..self.clients.len() {
                let client = &mut self.clients[n];
                client.sent += 1;
                let side = if n % 2 == 0 { Side::Buy } else { Side::Sell };
                let (mut message, mut bytes) = (Vec::new(), Vec::new());
                let symbol = self.symbols[client.sent as usize % self.symbols.len()];
                enter_for(symbol, (client.sent, side, 100, 1), &mut message);
                let now = Nanos(self.now);
                client.soup.send_unsequenced(now, &message, &mut bytes).expect("logged in");
                self.write(n, &bytes);
            }
            self.run(every_ns);
        }
    }

    /// Lets time pass.
    pub fn run(&mut self, ns: u64) {
        let end = self.now + ns;
        while let Some(Reverse((at, number, node))) = self.queue.peek().copied()
            && at <= end
        {
            self.queue.pop();
            self.now = at;
            if self.asleep[node] > at
                && let Some(input) = self.inputs.remove(&number)
            {
                let late = self.asleep[node];
                if matches!(input, Input::Timer) && self.timers[node] == at {
                    self.timers[node] = late;
                }
                self.push(late, node, input);
                continue;
            }
            match self.inputs.remove(&number) {
                Some(Input::Datagram(bytes)) => {
                    // Who sent it is the link's business, not the transport's.
                    self.call(node, |role, now, out| {
                        role.handle_datagram(now, Channel::OVERLAY, Peer::Addr(7), &bytes, out);
                    });
                }
                Some(Input::Timer) if self.timers[node] == at => {
                    self.timers[node] = u64::MAX;
                    self.call(node, |role, now, out| role.handle_timeout(now, out));
                }
                _ => {}
            }
        }
        self.now = end;
        for n in 0..self.clients.len() {
            let mut bytes = Vec::new();
            self.clients[n].soup.handle_timeout(Nanos(self.now), &mut bytes);
            if !bytes.is_empty() {
                self.write(n, &bytes);
            }
        }
    }

    /// Gives a node a datagram of somebody else.
    pub fn inject(&mut self, node: usize, bytes: &[u8]) {
        self.call(node, |role, now, out| {
            role.handle_datagram(now, Channel::OVERLAY, Peer::Addr(7), bytes, out);
        });
    }

    /// The node does nothing for so long; what comes waits.
    pub fn sleep(&mut self, node: usize, ns: u64) {
        self.asleep[node] = self.now + ns;
        self.run(ns);
    }

    pub fn kill(&mut self, node: usize) {
        self.nodes[node] = None;
    }

    pub fn on_root<T>(
        &mut self,
        call: impl FnOnce(&mut Root, ClockReading, &mut Outbox) -> T,
    ) -> T {
        let mut result = None;
        self.call(0, |role, now, out| {
            result = role.with_root(out, |root, out| call(root, now, out));
        });
        result.expect("the root lives")
    }

    pub fn root(&self) -> &Root {
        self.nodes[0].as_ref().and_then(Role::as_root).expect("the root lives")
    }

    pub fn edge(&self, index: usize) -> &exchange::Edge {
        let node = self.nodes[self.first_edge + index].as_ref();
        node.and_then(Role::as_edge).expect("an edge")
    }

    pub fn edge_node(&self, index: usize) -> usize {
        self.first_edge + index
    }

    pub fn link(&self, node: usize) -> SealedLinkStats {
        self.nodes[node].as_ref().and_then(Role::link).expect("a guarded node")
    }

    /// Repairs asked for by receivers.
    pub fn repairs(&self) -> u64 {
        let edges = 0..self.released.len();
        let of = |edge: &exchange::Edge| {
            let receivers = edge.receivers().iter();
            receivers.map(|receiver| receiver.stats().repairs_requested).sum::<u64>()
        };
        edges.map(|n| of(self.edge(n))).sum()
    }

    /// Orders that gateways sent again.
    pub fn resent(&self) -> u64 {
        let edges = 0..self.released.len();
        edges.map(|n| self.edge(n).gateway().uplink().counters().resent).sum()
    }

    /// Every order was accepted exactly once, and every receiver has released the whole feed.
    pub fn check(&mut self, seed: u64) {
        let end: Vec<u64> = self.root().router().next().iter().map(|next| next.0).collect();
        assert!(end.iter().all(|end| *end > 100), "seed {seed}: something was traded");
        for (n, next) in self.released.iter().enumerate() {
            assert_eq!(next[..end.len()], end, "seed {seed}: receiver {n} lacks messages");
        }
        for (n, client) in self.clients.iter().enumerate() {
            let once = client.answers.values().filter(|count| **count == 1).count();
            assert_eq!(once as u32, client.sent, "seed {seed}: answers of participant {n}");
        }
        let audit = exchange::audit(self.root(), []);
        assert!(audit.problems.is_empty(), "seed {seed}: {:?}", audit.problems);
    }

    fn write(&mut self, client: usize, bytes: &[u8]) {
        let (edge, conn) = (self.clients[client].edge, ConnId(client as u32));
        self.call(edge, |role, now, out| role.handle_stream(now, conn, bytes, out));
    }

    fn call(&mut self, node: usize, call: impl FnOnce(&mut Role, ClockReading, &mut Outbox)) {
        let now = ClockReading { now: Nanos(self.now), bound_ns: 250 };
        let mut out = Outbox::default();
        let Some(role) = self.nodes[node].as_mut() else { return };
        call(role, now, &mut out);
        self.drain(node, &out);
        self.set_timer(node);
    }

    fn drain(&mut self, node: usize, out: &Outbox) {
        for op in out.ops() {
            match *op {
                Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(NodeId(to)), bytes } => {
                    self.send(node, to.into(), out.bytes(bytes));
                }
                Op::Datagram { to: Peer::Addr(to), bytes, .. } if to >= FEED => {
                    self.hear((to - FEED) as usize, out.bytes(bytes));
                }
                Op::Stream { conn, bytes } => self.read(conn, out.bytes(bytes)),
                Op::Close { conn } => self.clients[conn.0 as usize].soup.handle_close(),
                ref other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, bytes: &[u8]) {
        if self.seen.len() < 5_000 {
            self.seen.push((from, to, bytes.to_vec()));
        }
        if self.rng.permille(self.links.loss) {
            return;
        }
        for _ in 0..1 + u64::from(self.rng.permille(self.links.twice)) {
            let slow = self.slow[from] + self.slow[to];
            let at = self.now + 30 * Nanos::MICRO + self.rng.below(self.links.jitter_ns) + slow;
            self.push(at, to, Input::Datagram(bytes.to_vec()));
        }
    }

    fn push(&mut self, at: u64, node: usize, input: Input) {
        self.pushed += 1;
        self.queue.push(Reverse((at, self.pushed, node)));
        self.inputs.insert(self.pushed, input);
    }

    fn set_timer(&mut self, node: usize) {
        let Some(role) = &self.nodes[node] else { return };
        let at = role.next_timeout().0;
        if at == u64::MAX {
            self.timers[node] = at;
        } else if self.timers[node] != at.max(self.now) {
            self.timers[node] = at.max(self.now);
            self.push(at.max(self.now), node, Input::Timer);
        }
    }

    /// No receiver ever skips or repeats a message.
    fn hear(&mut self, receiver: usize, bytes: &[u8]) {
        let packet = Packet::parse(bytes).expect("a packet");
        let stream = usize::from(packet.session().0[9] - b'1');
        let next = &mut self.released[receiver][stream];
        if packet.next_seq() > packet.seq() {
            assert_eq!(packet.seq(), *next, "receiver {receiver} broke the sequence");
            *next = packet.next_seq();
        }
    }

    fn read(&mut self, conn: ConnId, bytes: &[u8]) {
        let client = &mut self.clients[conn.0 as usize];
        let answers = &mut client.answers;
        client.soup.handle_bytes(Nanos(self.now), bytes, |event| match event {
            // An acceptance: its type, eight bytes of time, the participant's own number.
            ClientEvent::Sequenced { message, .. } if message[0] == b'A' => {
                let number =
                    u32::from_be_bytes([message[9], message[10], message[11], message[12]]);
                *answers.entry(number).or_default() += 1;
            }
            ClientEvent::Violation(violation) => panic!("the edge misbehaves: {violation}"),
            _ => {}
        });
    }
}
