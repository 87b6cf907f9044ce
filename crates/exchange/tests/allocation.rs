//! Once warm, an order's journey through edge and root and back allocates nothing, in clear and
//! with every node behind its link, in one shard and over several.
//!
//! Counts allocations, hence a test binary of its own.

mod common;
#[path = "common/endless.rs"]
mod endless;
#[path = "common/several.rs"]
mod several;

use common::{LISTENERS, MS, Outside, Pair, START, config, enter, enter_until, symbol};
use exchange::{ExchangeConfig, Role, Secret, deploy};
use overlay::{epochs::GRACE_NS, sealed_link::Fleet};
use types::{Channel, ClockReading, ConnId, Node, NodeId, Op, Outbox, Peer, Side};
use wire::soupbin::{ClientPacket, LoginRequest};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Counts and forgets.
#[derive(Default)]
struct Tally {
    packets: u64,
    writes: u64,
}

impl Outside for Tally {
    fn to_root(&mut self, _bytes: &[u8]) {}

    fn to_edge(&mut self, _bytes: &[u8]) -> bool {
        true
    }

    fn feed(&mut self, _to: Peer, _bytes: &[u8]) {
        self.packets += 1;
    }

    fn stream(&mut self, _conn: ConnId, _bytes: &[u8]) {
        self.writes += 1;
    }

    fn closed(&mut self, conn: ConnId) {
        panic!("{conn:?} was closed");
    }
}

struct Day {
    pair: Pair,
    tally: Tally,
    message: Vec<u8>,
    bytes: Vec<u8>,
}

fn login(account: u8) -> LoginRequest {
    let mut login = LoginRequest {
        username: *b"USER0 ",
        password: *b"secret0   ",
        session: [b' '; 10],
        sequence: 1,
    };
    (login.username[4], login.password[6]) = (b'0' + account, b'0' + account);
    login
}

impl Day {
    fn write(&mut self, conn: u32) {
        let Pair { edge, edge_out, now, .. } = &mut self.pair;
        edge.handle_stream(*now, ConnId(conn), &self.bytes, edge_out);
        self.pair.settle(&mut self.tally);
        let end = self.pair.now.now.after(MS);
        self.pair.run(end, &mut self.tally);
    }

    fn login(&mut self, account: u8) {
        self.bytes.clear();
        ClientPacket::Login(login(account)).encode(&mut self.bytes).expect("fits");
        let Pair { edge, edge_out, now, .. } = &mut self.pair;
        edge.handle_connect(*now, ConnId(account.into()), edge_out);
        self.write(account.into());
    }

    fn order(&mut self, account: u32, user_ref: u32, side: Side) {
        self.message.clear();
        self.bytes.clear();
        let message = &mut self.message;
        match user_ref % 2 {
            0 => enter(user_ref, side, 100, 1, message),
            _ => {
                let end = self.pair.now.now.after(50 * MS);
                enter_until(symbol(), (user_ref, side, 100, 1), end, message);
            }
        }
        ClientPacket::Unsequenced(&self.message).encode(&mut self.bytes).expect("fits");
        self.write(account);
    }

    /// One sells, the other buys: two acceptances, one trade.
    fn step(&mut self, n: u32) {
        self.order(1, n, Side::Sell);
        self.order(2, n, Side::Buy);
    }
}

#[test]
fn steady_state_allocates_nothing() {
    let (message, bytes) = (Vec::new(), Vec::new());
    let mut day = Day { pair: Pair::new(&config()), tally: Tally::default(), message, bytes };
    let end = day.pair.now.now.after(100 * MS);
    day.pair.run(end, &mut day.tally);
    day.login(1);
    day.login(2);
    // Measured between two growths of log and record store: the log's second chunk begins with
    // input 4,097; the store's chunk lists double at 32 and 64 chunks of 64 records an account.
    (1..=1_100).for_each(|n| day.step(n));
    let before = counting::allocations();
    (1_101..=2_000).for_each(|n| day.step(n));
    let allocations = counting::allocations() - before;
    let counters = day.pair.root.engine().counters();
    assert_eq!((counters.accepted, day.pair.root.engine().open_orders()), (4_000, 0));
    assert_eq!(day.pair.edge.gateway().counters().reports, 8_000);
    assert_eq!(day.pair.edge.gateway().counters().overdue, 0);
    assert!(day.tally.packets >= 4_000 && day.tally.writes >= 4_000);
    assert_eq!(allocations, 0, "in 1,800 orders and 900 trades");
}

/// A root, a proxy and an edge behind their links, joined by hops that lose nothing.
struct Sealed {
    config: ExchangeConfig,
    roles: Vec<Role>,
    outs: Vec<Outbox>,
    spare: Outbox,
    now: ClockReading,
    message: Vec<u8>,
    bytes: Vec<u8>,
    written: u64,
}

/// The edge of [`Sealed`].
const EDGE: usize = 2;

impl Sealed {
    fn new() -> Sealed {
        let mut config = config();
        config.depth = 2;
        config.options.secret = Some(Secret([7; 32]));
        let roles =
            deploy(&config, exchange::Life::of(1_000), |_| LISTENERS).expect("a possible exchange");
        assert!(roles.len() == 3 && roles.iter().all(|role| role.link().is_some()));
        let (mut outs, now) = (Vec::new(), ClockReading { now: START, bound_ns: 0 });
        outs.resize_with(roles.len(), Outbox::default);
        let (message, bytes, spare) = (Vec::new(), Vec::new(), Outbox::default());
        Sealed { config, roles, outs, spare, now, message, bytes, written: 0 }
    }

    /// Delivers everything, and the answers to it, until all is quiet.
    fn settle(&mut self) {
        while let Some(from) = self.outs.iter().position(|out| !out.is_empty()) {
            std::mem::swap(&mut self.outs[from], &mut self.spare);
            for op in self.spare.ops() {
                match *op {
                    Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(to), bytes } => {
                        let (bytes, to) = (self.spare.bytes(bytes), usize::from(to.0));
                        let from = Peer::Node(NodeId(from as u16));
                        let out = &mut self.outs[to];
                        self.roles[to].handle_datagram(
                            self.now,
                            Channel::OVERLAY,
                            from,
                            bytes,
                            out,
                        );
                    }
                    Op::Datagram { .. } => {}
                    Op::Stream { .. } => self.written += 1,
                    other => panic!("{other:?}"),
                }
            }
            self.spare.clear();
        }
    }

    fn run(&mut self, ns: u64) {
        let end = self.now.now.after(ns);
        while let Some(due) = self.roles.iter().map(Node::next_timeout).min()
            && due <= end
        {
            self.now.now = self.now.now.max(due);
            for (role, out) in self.roles.iter_mut().zip(&mut self.outs) {
                if role.next_timeout() <= self.now.now {
                    role.handle_timeout(self.now, out);
                }
            }
            self.settle();
        }
        self.now.now = end;
    }

    fn write(&mut self, conn: u32) {
        let (edge, out) = (&mut self.roles[EDGE], &mut self.outs[EDGE]);
        edge.handle_stream(self.now, ConnId(conn), &self.bytes, out);
        self.settle();
        self.run(MS);
    }

    fn login(&mut self, account: u8) {
        self.bytes.clear();
        ClientPacket::Login(login(account)).encode(&mut self.bytes).expect("fits");
        let (edge, out) = (&mut self.roles[EDGE], &mut self.outs[EDGE]);
        edge.handle_connect(self.now, ConnId(account.into()), out);
        self.write(account.into());
    }

    /// All nodes begin a key epoch, and the one before is over.
    fn rekey(&mut self) {
        let tree = self.config.tree().expect("a tree");
        let fleet = Fleet::of(&tree.topology);
        for (node, role) in self.roles.iter_mut().enumerate() {
            let node = NodeId(node as u16);
            let ring = Secret([8; 32]).ring(node, &fleet);
            assert!(role.rekey(self.now, ring, exchange::Life::of(2_000)));
        }
        self.run(GRACE_NS + MS);
    }

    fn step(&mut self, n: u32) {
        for (account, side) in [(1, Side::Sell), (2, Side::Buy)] {
            self.message.clear();
            self.bytes.clear();
            enter(n, side, 100, 1, &mut self.message);
            ClientPacket::Unsequenced(&self.message).encode(&mut self.bytes).expect("fits");
            self.write(account);
        }
    }
}

#[test]
fn sealed_nodes_in_steady_state_allocate_nothing() {
    steady(false);
}

#[test]
fn sealed_nodes_allocate_nothing_once_an_exchange_of_keys_is_over() {
    steady(true);
}

fn steady(rekey: bool) {
    let mut day = Sealed::new();
    day.run(100 * MS);
    day.login(1);
    day.login(2);
    // As above.
    (1..=1_000).for_each(|n| day.step(n));
    if rekey {
        day.rekey();
    }
    (1_001..=1_100).for_each(|n| day.step(n));
    let before = counting::allocations();
    (1_101..=2_000).for_each(|n| day.step(n));
    let allocations = counting::allocations() - before;
    let engine = day.roles[0].as_root().expect("the root").engine();
    assert_eq!((engine.counters().accepted, engine.open_orders()), (4_000, 0));
    assert!(day.written >= 4_000, "{}", day.written);
    for role in &day.roles {
        let link = role.link().expect("a link");
        assert!(link.sealed > 4_000 && link.opened > 4_000 && link.refused() == 0, "{link:?}");
    }
    assert_eq!(allocations, 0, "in 1,800 orders and 900 trades");
}
