//! Two shards and an edge in both: once warm, orders for both shards and streams merged of both allocate
//! nothing.

use exchange::{Edge, Role, Root, ShardPlace, Venue, deploy_venue};
use types::{
    Channel, ClockReading, ConnId, Instrument, InstrumentId, Nanos, Node, NodeId, Op, Outbox, Peer,
    ShardId, Side, Symbol,
};
use wire::soupbin::ClientPacket;

use crate::common::{LISTENERS, MS, START, config, enter_for};
use crate::login;

const SHARDS: usize = 2;

struct Several {
    roots: Vec<Box<Root>>,
    edge: Box<Edge>,
    /// Of the roots, and of the edge last.
    outs: Vec<Outbox>,
    spare: Outbox,
    now: ClockReading,
    symbols: [Symbol; SHARDS],
    message: Vec<u8>,
    bytes: Vec<u8>,
    written: u64,
}

impl Several {
    fn new() -> Several {
        let mut config = config();
        let first = config.instruments[0];
        let symbol = Symbol::new("ETHUSD").expect("valid");
        config.instruments.push(Instrument { id: InstrumentId(2), symbol, ..first });
        config.shard = ShardPlace { shards: SHARDS as u16, ..ShardPlace::default() };
        let life = exchange::Life::of(1_000);
        let Venue { shards, edges } = deploy_venue(&config, life, |_| LISTENERS).expect("possible");
        let root = |nodes: Vec<Option<Role>>| match nodes.into_iter().next() {
            Some(Some(Role::Root(root))) => root,
            _ => panic!("a root"),
        };
        let Some(Role::Edge(edge)) = edges.into_iter().next() else { panic!("an edge") };
        let roots: Vec<Box<Root>> = shards.into_iter().map(root).collect();
        let mut outs = Vec::new();
        outs.resize_with(SHARDS + 1, Outbox::default);
        let (message, bytes, spare) = (Vec::new(), Vec::new(), Outbox::default());
        let now = ClockReading { now: START, bound_ns: 0 };
        let symbols = [first.symbol, symbol];
        Several { roots, edge, outs, spare, now, symbols, message, bytes, written: 0 }
    }

    fn settle(&mut self) {
        while let Some(from) = self.outs.iter().position(|out| !out.is_empty()) {
            std::mem::swap(&mut self.outs[from], &mut self.spare);
            for op in self.spare.ops() {
                let (channel, to, bytes) = match *op {
                    Op::Datagram { channel, to: Peer::Node(to), bytes } => (channel, to, bytes),
                    Op::Datagram { .. } | Op::Work { .. } => continue,
                    Op::Stream { .. } => {
                        self.written += 1;
                        continue;
                    }
                    other => panic!("{other:?}"),
                };
                let (bytes, now) = (self.spare.bytes(bytes), self.now);
                if channel == Channel::SHARDS {
                    let (root, sender) = (usize::from(to.0), Peer::Node(NodeId(from as u16)));
                    let out = &mut self.outs[root];
                    self.roots[root].handle_datagram(now, channel, sender, bytes, out);
                } else if from < SHARDS {
                    let (channel, sender) = (Channel::of_shard(ShardId(from as u16)), NodeId(0));
                    let (out, sender) = (&mut self.outs[SHARDS], Peer::Node(sender));
                    self.edge.handle_datagram(now, channel, sender, bytes, out);
                } else if let Some(shard) = channel.shard() {
                    let root = usize::from(shard.0);
                    let (out, sender) = (&mut self.outs[root], Peer::Node(NodeId(1)));
                    self.roots[root].handle_datagram(now, Channel::OVERLAY, sender, bytes, out);
                }
            }
            self.spare.clear();
        }
    }

    fn run(&mut self, ns: u64) {
        let end = self.now.now.after(ns);
        loop {
            let roots = self.roots.iter().map(|root| root.next_timeout()).min();
            let due = roots.unwrap_or(Nanos::NEVER).min(self.edge.next_timeout());
            if due > end {
                break;
            }
            self.now.now = self.now.now.max(due);
            for (root, out) in self.roots.iter_mut().zip(&mut self.outs) {
                if root.next_timeout() <= self.now.now {
                    root.handle_timeout(self.now, out);
                }
            }
            if self.edge.next_timeout() <= self.now.now {
                self.edge.handle_timeout(self.now, &mut self.outs[SHARDS]);
            }
            self.settle();
        }
        self.now.now = end;
    }

    fn write(&mut self, conn: u32) {
        let out = &mut self.outs[SHARDS];
        self.edge.handle_stream(self.now, ConnId(conn), &self.bytes, out);
        self.settle();
        self.run(MS);
    }

    fn login(&mut self, account: u8) {
        self.bytes.clear();
        ClientPacket::Login(login(account)).encode(&mut self.bytes).expect("fits");
        let out = &mut self.outs[SHARDS];
        self.edge.handle_connect(self.now, ConnId(account.into()), out);
        self.write(account.into());
    }

    /// One sells, the other buys, in one shard and then in the other.
    fn step(&mut self, n: u32) {
        for (account, side) in [(1, Side::Sell), (2, Side::Buy)] {
            self.message.clear();
            self.bytes.clear();
            let symbol = self.symbols[n as usize % SHARDS];
            enter_for(symbol, (n, side, 100, 1), &mut self.message);
            ClientPacket::Unsequenced(&self.message).encode(&mut self.bytes).expect("fits");
            self.write(account);
        }
    }
}

#[test]
fn several_shards_in_steady_state_allocate_nothing() {
    let mut day = Several::new();
    day.run(100 * MS);
    day.login(1);
    day.login(2);
    day.run(1_000 * MS);
    (1..=1_100).for_each(|n| day.step(n));
    let mut counts = Vec::with_capacity(7);
    for window in 11..18 {
        let before = counting::allocations();
        (window * 100 + 1..=window * 100 + 100).for_each(|n| day.step(n));
        counts.push(counting::allocations() - before);
    }
    day.run(1_000 * MS);
    let accepted: Vec<u64> =
        day.roots.iter().map(|root| root.engine().counters().accepted).collect();
    assert_eq!(accepted, [1_800, 1_800]);
    assert!(day.roots.iter().all(|root| root.between().merged > 500), "streams are merged");
    assert_eq!(day.edge.gateway().counters().reports, 7_200);
    assert!(day.written > 3_600, "{}", day.written);
    // The list of an account's chunks of private records (overlay::private) doubles once; nothing else grows.
    let busy = counts.iter().filter(|count| **count > 0).count();
    assert!(busy <= 1 && counts.iter().all(|count| *count <= 1), "{counts:?}");
}
