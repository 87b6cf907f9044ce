//! A group of roots with journals on simulated disks, and around it the exchange's own nodes over
//! links that lose, repeat and reorder. Everything follows from the seed.
//!
//! `NodeId(0)` is the leader: what is sent there goes to whoever led last in the highest term.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use exchange::{ExchangeConfig, Life, Role, Root, Secret, deploy, listener};
use feed::Subscriber;
use overlay::sealed_link::Fleet;
use replication::ReplicaId;
use types::{
    Channel, ClockReading, ConnId, Nanos, Node, NodeId, Op, Outbox, Peer, Side, SplitMix64, Symbol,
};
use wire::{
    moldudp::Packet,
    soupbin::{ClientEvent, ClientSession},
};

use crate::{
    LIFE,
    common::{MS, START, enter_for, enter_until},
    machine::{Machine, Said},
};

/// Where receiver `n` releases to.
const FEED: u64 = 1_000;
/// Members of the group.
pub const MEMBERS: usize = 3;
/// A write is durable after so long, ns.
const DISK_NS: u64 = 200 * Nanos::MICRO;

/// Of a thousand datagrams of the overlay and of messages of the group: lost and sent twice.
#[derive(Clone, Copy)]
pub struct Links {
    pub loss: u64,
    pub twice: u64,
    pub jitter_ns: u64,
}

pub const CALM: Links = Links { loss: 0, twice: 0, jitter_ns: 40_000 };
pub const ROUGH: Links = Links { loss: 15, twice: 15, jitter_ns: 300_000 };

/// A participant.
pub struct Client {
    pub soup: ClientSession,
    pub edge: usize,
    pub sent: u32,
    /// By its own number: acceptances and rejections.
    pub answers: BTreeMap<u32, u32>,
    /// Messages of its stream.
    pub sequenced: u64,
    pub closed: bool,
}

enum Input {
    Datagram(Channel, Vec<u8>),
    Timer,
    /// Of another member.
    Message(Vec<u8>),
    Written(u64),
    Fetched(u64, Vec<replication::Entry>),
    Kept(replication::Kept),
    Read(replication::SnapshotRead, Vec<u8>),
}

/// Places: the members first, then the nodes of the deployment by their ids less one.
type Due = Reverse<(u64, u64, usize)>;

/// Everything, in virtual time.
pub struct Group {
    pub config: ExchangeConfig,
    pub machines: Vec<Machine>,
    pub nodes: Vec<Option<Role>>,
    first_edge: usize,
    pub links: Links,
    pub rng: SplitMix64,
    pub now: u64,
    queue: BinaryHeap<Due>,
    inputs: BTreeMap<u64, (u32, Input)>,
    pushed: u64,
    timers: Vec<u64>,
    /// By place: it does nothing before this time.
    asleep: Vec<u64>,
    /// Members that hear no other one, and aren't heard by them.
    pub alone: [bool; MEMBERS],
    pub clients: Vec<Client>,
    /// By edge: the next message that must be released.
    pub released: Vec<u64>,
    pub ears: Vec<Subscriber>,
    symbols: Vec<Symbol>,
    /// Datagrams that members sent to nodes, with the term: the last few thousand.
    pub spoken: Vec<(u64, usize, Vec<u8>)>,
    /// The highest term anybody led in, and who.
    pub led: (u64, usize),
    /// Datagrams to the leader go nowhere.
    pub root_cut: bool,
    /// What members send to nodes is noted and goes nowhere.
    pub mute: bool,
}

impl Group {
    /// The exchange of `config`, with a leader.
    pub fn new(config: &ExchangeConfig, links: Links, seed: u64) -> Group {
        Group::with(config, links, seed, 0..MEMBERS)
    }

    /// The same, of which only some members are started.
    pub fn with(
        config: &ExchangeConfig,
        links: Links,
        seed: u64,
        members: std::ops::Range<usize>,
    ) -> Group {
        let feed_of = |index: usize| Peer::Addr(FEED + index as u64);
        let mut nodes = deploy(config, Life::of(LIFE), feed_of).expect("a possible exchange");
        nodes.remove(0);
        let first_edge = nodes.iter().position(|role| role.as_edge().is_some()).expect("edges");
        let client = |n: usize| {
            let account = &config.accounts[n];
            let soup = ClientSession::new(&account.username, &account.password).expect("short");
            let (answers, edge) = (BTreeMap::new(), MEMBERS + first_edge + n);
            Client { soup, edge, sent: 0, answers, sequenced: 0, closed: false }
        };
        let ear = |_| {
            let settings = listener(config, vec![Peer::Addr(2)]);
            Subscriber::new(&feed::ListenerConfig { checkpoint_every: 4, ..settings }, [])
        };
        let places = MEMBERS + nodes.len();
        let count = config.receivers.min(config.accounts.len());
        let mut group = Group {
            machines: (0..MEMBERS).map(|n| Machine::new(n, seed)).collect(),
            timers: vec![u64::MAX; places],
            asleep: vec![0; places],
            nodes: nodes.into_iter().map(Some).collect(),
            first_edge,
            links,
            rng: SplitMix64::new(seed),
            now: START.0,
            queue: BinaryHeap::new(),
            inputs: BTreeMap::new(),
            pushed: 0,
            alone: [false; MEMBERS],
            clients: (0..count).map(client).collect(),
            released: vec![1; config.receivers],
            ears: (0..config.receivers).map(ear).collect(),
            symbols: config.instruments.iter().map(|of| of.symbol).collect(),
            spoken: Vec::new(),
            led: (0, 0),
            root_cut: false,
            mute: false,
            config: config.clone(),
        };
        members.for_each(|n| group.start(n).expect("an empty disk"));
        (MEMBERS..places).for_each(|place| group.set_timer(place));
        group.run(1_500 * MS);
        group
    }

    /// A member starts from what is on its disk.
    pub fn start(&mut self, n: usize) -> Result<(), exchange::MemberError> {
        let now = self.clock();
        let config = self.config.clone();
        self.machines[n].start(&config, now)?;
        self.set_timer(n);
        Ok(())
    }

    /// A member is no more; its disk stays.
    pub fn kill(&mut self, n: usize) {
        self.machines[n].stop();
        self.timers[n] = u64::MAX;
    }

    /// An edge is no more.
    pub fn kill_edge(&mut self, index: usize) {
        let node = self.first_edge + index;
        self.nodes[node] = None;
        let of_edge = |client: &&mut Client| client.edge == MEMBERS + node;
        self.clients.iter_mut().filter(of_edge).for_each(|client| client.closed = true);
    }

    /// Who leads now in the highest term.
    pub fn leader(&self) -> Option<usize> {
        let leads = |n: &usize| self.machines[*n].leading().is_some();
        (0..MEMBERS).filter(leads).max_by_key(|n| self.machines[*n].leading())
    }

    pub fn root(&self, n: usize) -> &Root {
        self.machines[n].root().expect("it runs")
    }

    fn clock(&self) -> ClockReading {
        ClockReading { now: Nanos(self.now), bound_ns: 250 }
    }

    /// Participant `n` logs in at its edge.
    pub fn login(&mut self, n: usize) {
        let (edge, mut bytes) = (self.clients[n].edge, Vec::new());
        self.clients[n].soup.connect(Nanos(0), &mut bytes).expect("a login");
        self.clients[n].closed = false;
        self.call(edge, |role, now, out| role.handle_connect(now, ConnId(n as u32), out));
        self.write(n, &bytes);
        self.run(300 * MS);
        assert!(self.clients[n].soup.is_active(), "participant {n} is in");
    }

    pub fn login_all(&mut self) {
        (0..self.clients.len()).for_each(|n| self.login(n));
    }

    /// Participant `n` orders one at this price; every fourth of its orders is good for a while only.
    pub fn order(&mut self, n: usize, side: Side, price: i64) {
        let sent = u64::from(self.clients[n].sent);
        let end = self.now + (3 + sent * 37 % 400) * MS;
        self.order_until(n, side, price, (sent % 4 == 3).then_some(Nanos(end)));
    }

    /// The same with an end, if any.
    pub fn order_until(&mut self, n: usize, side: Side, price: i64, end: Option<Nanos>) {
        let client = &mut self.clients[n];
        if client.closed {
            return;
        }
        client.sent += 1;
        let (mut message, mut bytes) = (Vec::new(), Vec::new());
        let symbol = self.symbols[client.sent as usize % self.symbols.len()];
        let terms = (client.sent, side, price, 1);
        match end {
            Some(end) => enter_until(symbol, terms, end, &mut message),
            None => enter_for(symbol, terms, &mut message),
        }
        let now = Nanos(self.now);
        client.soup.send_unsequenced(now, &message, &mut bytes).expect("logged in");
        self.write(n, &bytes);
    }

    /// Everybody orders every `every_ns` for `ns`.
    pub fn trade(&mut self, ns: u64, every_ns: u64) {
        let end = self.now + ns;
        while self.now < end {
            for n in 0..self.clients.len() {
                let side = if self.rng.below(2) == 0 { Side::Buy } else { Side::Sell };
                let price = 95 + self.rng.below(10) as i64;
                self.order(n, side, price);
            }
            self.run(every_ns);
        }
    }

    /// Lets time pass.
    pub fn run(&mut self, ns: u64) {
        let end = self.now + ns;
        while let Some(Reverse((at, number, place))) = self.queue.peek().copied()
            && at <= end
        {
            self.queue.pop();
            self.now = at;
            let Some((life, input)) = self.inputs.remove(&number) else { continue };
            if self.asleep[place] > at {
                let late = self.asleep[place];
                if matches!(input, Input::Timer) && self.timers[place] == at {
                    self.timers[place] = late;
                }
                self.push(late, place, life, input);
                continue;
            }
            self.happen(at, place, life, input);
        }
        self.now = end;
        for n in 0..self.clients.len() {
            let mut bytes = Vec::new();
            self.clients[n].soup.handle_timeout(Nanos(self.now), &mut bytes);
            if !bytes.is_empty() && !self.clients[n].closed {
                self.write(n, &bytes);
            }
        }
    }

    fn happen(&mut self, at: u64, place: usize, life: u32, input: Input) {
        if place < MEMBERS
            && self.machines[place].life != life
            && !matches!(input, Input::Datagram(..))
        {
            return;
        }
        match input {
            // Who sent it is the link's business, not the transport's.
            Input::Datagram(channel, bytes) => self.call(place, |role, now, out| {
                role.handle_datagram(now, channel, Peer::Addr(7), &bytes, out);
            }),
            Input::Timer if self.timers[place] == at => {
                self.timers[place] = u64::MAX;
                self.call(place, |role, now, out| role.handle_timeout(now, out));
            }
            Input::Timer => {}
            Input::Message(bytes) => self.member(place, |member, now, out| {
                member.handle_message(now, &bytes, out);
            }),
            Input::Written(number) => self.member(place, |member, now, out| {
                member.handle_written(now, number, out);
            }),
            Input::Fetched(number, entries) => self.member(place, |member, now, out| {
                member.handle_fetched(now, (number, entries), out);
            }),
            Input::Kept(kept) => self.member(place, |member, now, out| {
                member.handle_kept(now, &kept, out);
            }),
            Input::Read(wanted, bytes) => self.member(place, |member, now, out| {
                member.handle_snapshot_read(now, (&wanted, &bytes), out);
            }),
        }
    }

    pub fn member(
        &mut self,
        n: usize,
        call: impl FnOnce(&mut exchange::Member, ClockReading, &mut Outbox),
    ) {
        self.call(n, |role, now, out| {
            if let Some(member) = role.as_member_mut() {
                call(member, now, out);
            }
        });
    }

    /// A member, or another node, gets its ring of a secret; `false`: it does not take it.
    pub fn rekey(&mut self, place: usize, secret: &Secret, life: u64) -> bool {
        let fleet = Fleet::of(&self.config.tree().expect("a tree").topology);
        let node = place.checked_sub(MEMBERS).map_or(0, |node| node as u16 + 1);
        let (ring, mut taken) = (secret.ring(NodeId(node), &fleet), false);
        self.call(place, |role, now, _| taken = role.rekey(now, ring, Life::of(life)));
        taken
    }

    /// Calls a member's root as an operator would.
    pub fn on_root(&mut self, n: usize, call: impl FnOnce(&mut Root, ClockReading, &mut Outbox)) {
        self.call(n, |role, now, out| {
            role.with_root(out, |root, out| call(root, now, out));
        });
    }

    /// Participant `n` is gone.
    pub fn hang_up(&mut self, n: usize) {
        let edge = self.clients[n].edge;
        self.clients[n].closed = true;
        self.clients[n].soup.handle_close();
        self.call(edge, |role, now, out| role.handle_close(now, ConnId(n as u32), out));
    }

    /// The place does nothing for so long; what comes waits.
    pub fn sleep(&mut self, place: usize, ns: u64) {
        self.asleep[place] = self.now + ns;
    }

    /// Gives a node, by its id, a datagram of somebody else; how much it has to say to that, but
    /// for its link's asking for the sender's life.
    pub fn inject(&mut self, node: usize, bytes: &[u8]) -> usize {
        let mut said = 0;
        self.call(MEMBERS + node - 1, |role, now, out| {
            role.handle_datagram(now, Channel::OVERLAY, Peer::Addr(7), bytes, out);
            let hello = |op: &&Op| match op {
                Op::Datagram { bytes, .. } => {
                    out.bytes(*bytes).first() == Some(&overlay::lives::HELLO_VERSION)
                }
                _ => false,
            };
            said = out.ops().len() - out.ops().iter().filter(hello).count();
        });
        said
    }

    fn write(&mut self, client: usize, bytes: &[u8]) {
        let (edge, conn) = (self.clients[client].edge, ConnId(client as u32));
        self.call(edge, |role, now, out| role.handle_stream(now, conn, bytes, out));
    }

    fn call(&mut self, place: usize, call: impl FnOnce(&mut Role, ClockReading, &mut Outbox)) {
        let (now, mut out) = (self.clock(), Outbox::default());
        let before = if place < MEMBERS { self.machines[place].leading() } else { None };
        let role = match place.checked_sub(MEMBERS) {
            None => self.machines[place].role.as_mut(),
            Some(node) => self.nodes[node].as_mut(),
        };
        let Some(role) = role else { return };
        call(role, now, &mut out);
        if place < MEMBERS {
            assert!(out.journaled().is_empty(), "a member's records go to the group");
            let after = self.machines[place].leading();
            if let Some(term) = after.filter(|term| *term > self.led.0) {
                self.led = (term, place);
            }
            self.drain(place, before.max(after), &out);
            self.backstage(place);
        } else {
            self.drain(place, None, &out);
        }
        self.set_timer(place);
    }

    /// Does what a replica wants.
    fn backstage(&mut self, n: usize) {
        for said in self.machines[n].work() {
            let life = self.machines[n].life;
            match said {
                Said::Send(ReplicaId(to), bytes) => {
                    let to = usize::from(to) - 1;
                    if !self.alone[n] && !self.alone[to] {
                        let life = self.machines[to].life;
                        self.carry(to, life, Input::Message, &bytes);
                    }
                }
                Said::Written(number) => {
                    self.push(self.now + DISK_NS, n, life, Input::Written(number));
                }
                Said::Fetched(number, entries) => {
                    self.push(self.now + DISK_NS, n, life, Input::Fetched(number, entries));
                }
                Said::Kept(kept) => self.push(self.now + DISK_NS, n, life, Input::Kept(kept)),
                Said::Read(wanted, bytes) => {
                    self.push(self.now + DISK_NS, n, life, Input::Read(wanted, bytes));
                }
            }
        }
    }

    fn drain(&mut self, place: usize, term: Option<u64>, out: &Outbox) {
        for op in out.ops() {
            match *op {
                Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(NodeId(to)), bytes } => {
                    let bytes = out.bytes(bytes);
                    assert!(place >= MEMBERS || term.is_some(), "only a leader speaks");
                    if let Some(term) = term.filter(|_| self.spoken.len() < 50_000) {
                        self.spoken.push((term, usize::from(to), bytes.to_vec()));
                    }
                    if place < MEMBERS && self.mute {
                        continue;
                    }
                    let to = match usize::from(to).checked_sub(1) {
                        Some(node) => MEMBERS + node,
                        None if self.root_cut => continue,
                        None => self.led.1,
                    };
                    self.carry(to, 0, |bytes| Input::Datagram(Channel::OVERLAY, bytes), bytes);
                }
                Op::Datagram { to: Peer::Addr(to), bytes, .. } if to >= FEED => {
                    self.hear((to - FEED) as usize, out.bytes(bytes));
                }
                Op::Datagram { .. } | Op::Work { .. } => {}
                Op::Stream { conn, bytes } => self.read(conn, out.bytes(bytes)),
                Op::Close { conn } => {
                    let client = &mut self.clients[conn.0 as usize];
                    client.soup.handle_close();
                    client.closed = true;
                }
                ref other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn carry(&mut self, to: usize, life: u32, make: impl Fn(Vec<u8>) -> Input, bytes: &[u8]) {
        if self.rng.permille(self.links.loss) {
            return;
        }
        for _ in 0..1 + u64::from(self.rng.permille(self.links.twice)) {
            let at = self.now + 30 * Nanos::MICRO + self.rng.below(self.links.jitter_ns);
            self.push(at, to, life, make(bytes.to_vec()));
        }
    }

    fn push(&mut self, at: u64, place: usize, life: u32, input: Input) {
        self.pushed += 1;
        self.queue.push(Reverse((at, self.pushed, place)));
        self.inputs.insert(self.pushed, (life, input));
    }

    fn set_timer(&mut self, place: usize) {
        let (role, life) = match place.checked_sub(MEMBERS) {
            None => (self.machines[place].role.as_ref(), self.machines[place].life),
            Some(node) => (self.nodes[node].as_ref(), 0),
        };
        let Some(role) = role else { return };
        let at = role.next_timeout().0;
        if at == u64::MAX {
            self.timers[place] = at;
        } else if self.timers[place] != at.max(self.now) {
            self.timers[place] = at.max(self.now);
            self.push(at.max(self.now), place, life, Input::Timer);
        }
    }

    /// No receiver ever skips or repeats a message.
    fn hear(&mut self, receiver: usize, bytes: &[u8]) {
        let packet = Packet::parse(bytes).expect("a packet");
        let next = &mut self.released[receiver];
        if packet.next_seq() > packet.seq() {
            assert_eq!(packet.seq(), *next, "receiver {receiver} broke the sequence");
            *next = packet.next_seq();
        }
        let (now, from, mut out) = (self.clock(), Peer::Addr(1), Outbox::default());
        self.ears[receiver].handle_datagram(now, Channel::FEED, from, bytes, &mut out);
        assert!(out.is_empty(), "nothing is lost behind a receiver");
    }

    fn read(&mut self, conn: ConnId, bytes: &[u8]) {
        let client = &mut self.clients[conn.0 as usize];
        let (answers, sequenced) = (&mut client.answers, &mut client.sequenced);
        client.soup.handle_bytes(Nanos(self.now), bytes, |event| match event {
            ClientEvent::Sequenced { seq, message } => {
                *sequenced += 1;
                assert_eq!(seq, *sequenced, "a stream without gaps");
                // An acceptance or a rejection: its type, eight bytes of time, the participant's
                // own number.
                if matches!(message[0], b'A' | b'J') {
                    let number = message[9..13].try_into().expect("four bytes");
                    *answers.entry(u32::from_be_bytes(number)).or_default() += 1;
                }
            }
            ClientEvent::Violation(violation) => panic!("the edge misbehaves: {violation}"),
            _ => {}
        });
    }

    /// All that runs is equal, everybody is told everything once, and the feed is the engine's.
    pub fn check(&mut self, what: &str) {
        let lead = self.leader().unwrap_or_else(|| panic!("{what}: nobody leads"));
        for machine in self.machines.iter().filter(|machine| machine.role.is_some()) {
            assert_eq!(machine.stopped(), None, "{what}: member {}", machine.number);
            let (root, ours) = (machine.root().expect("a root"), self.root(lead));
            assert!(root.log().iter().eq(ours.log().iter()), "{what}: logs differ");
            assert_eq!(root.state_digest(), ours.state_digest(), "{what}: states differ");
            assert_eq!(root.waiting(), 0, "{what}: all is applied");
            for account in &self.config.accounts {
                let next = |root: &Root| root.private().next_position(account.id);
                assert_eq!(next(root), next(ours), "{what}: streams differ");
            }
        }
        let expiry = self.root(lead).engine().next_expiry();
        assert!(expiry.after(10 * MS) > Nanos(self.now), "{what}: an order has not ended");
        let end = self.root(lead).engine().feed_next().0;
        assert!(self.released.iter().all(|next| *next == end), "{what}: {:?}", self.released);
        for (n, client) in self.clients.iter().enumerate() {
            let twice = client.answers.values().filter(|count| **count != 1).count();
            assert_eq!(twice, 0, "{what}: participant {n} was answered twice");
            if !client.closed {
                assert_eq!(client.answers.len() as u32, client.sent, "{what}: participant {n}");
                let account = self.config.accounts[n].id;
                let next = self.root(lead).private().next_position(account);
                assert_eq!(client.sequenced + 1, next, "{what}: the stream of participant {n}");
            }
        }
        let heard = self.ears.iter().map(|ear| ear.channels());
        let audit = exchange::audit(self.root(lead), heard);
        assert!(audit.books_equal, "{what}: {audit:?}");
    }
}
