//! A leader and two followers, once warm: what a turn of the group allocates does not grow with the
//! orders that it carries. What is left are the consensus library's lists of entries and messages,
//! which are new in each turn, and the bytes of each message.
//!
//! Counts allocations, hence a test binary of its own.

#[allow(dead_code)]
mod common;

use common::{MS, START, config, enter};
use exchange::{Edge, ExchangeConfig, Life, Member, Role, deploy, group_root};
use journal::{Config as JournalConfig, Journal, SimDisk};
use replication::{Action, Config, ReplicaId, perform};
use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Op, Outbox, Peer, Side};
use wire::soupbin::{ClientPacket, LoginRequest};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const MEMBERS: usize = 3;
/// Orders in a long turn; one allocation for each of them, in one replica, would be too many.
const ORDERS: u32 = 64;
/// Allocations that a long turn may have more than a turn of one order: lists that grow in steps.
const GROWTH: u64 = 30;
const _: () = assert!(GROWTH < ORDERS as u64);

struct Replica {
    member: Member,
    journal: Journal<SimDisk>,
}

/// Three members and an edge, joined by hops that lose nothing and take no time. Counts what the
/// members allocate, and nothing of what is around them.
struct Group {
    replicas: Vec<Replica>,
    edge: Box<Edge>,
    edge_out: Outbox,
    out: Outbox,
    now: ClockReading,
    actions: Vec<(usize, Action)>,
    allocations: u64,
    reports: u64,
    user_ref: u32,
}

impl Group {
    fn new() -> Group {
        let config = ExchangeConfig { log_capacity: 1 << 16, ..config() };
        let now = ClockReading { now: START, bound_ns: 0 };
        let replicas = (1..=MEMBERS as u8).map(|id| {
            let settings = JournalConfig::new(1, *b"a group that counts allocations.");
            let disk = SimDisk::new(u64::from(id));
            let (mut journal, _) = Journal::open(disk, &settings).expect("an empty disk");
            let (root, link) = group_root(&config, || None).expect("a possible exchange");
            let group = Config::new(7, ReplicaId(id), MEMBERS as u8);
            let genesis = b"an exchange under test".to_vec();
            let member = Member::open(root, group, genesis, &mut journal, (now, link));
            Replica { member: member.expect("an empty journal"), journal }
        });
        let replicas = replicas.collect();
        let roles = deploy(&config, Life::of(1), |_| Peer::Addr(1)).expect("a possible exchange");
        let edge = roles.into_iter().find_map(|role| match role {
            Role::Edge(edge) => Some(edge),
            _ => None,
        });
        let (edge_out, out) = (Outbox::default(), Outbox::default());
        let mut group = Group {
            replicas,
            edge: edge.expect("an edge"),
            edge_out,
            out,
            now,
            actions: Vec::new(),
            allocations: 0,
            reports: 0,
            user_ref: 0,
        };
        group.call(0, |member, now, out| member.campaign(now, out));
        group.run(2_000 * MS);
        assert!(group.replicas[0].member.leading().is_some(), "the first one leads");
        group
    }

    /// Calls a member, and takes what it wants done.
    fn call(&mut self, n: usize, call: impl FnOnce(&mut Member, ClockReading, &mut Outbox)) {
        let Replica { member, .. } = &mut self.replicas[n];
        let before = counting::allocations();
        call(member, self.now, &mut self.out);
        self.allocations += counting::allocations() - before;
        self.actions.extend(member.take_actions().map(|action| (n, action)));
        for op in self.out.ops() {
            if let Op::Datagram { channel: Channel::OVERLAY, bytes, .. } = *op {
                let (bytes, from) = (self.out.bytes(bytes), Peer::Node(ExchangeConfig::ROOT));
                let out = &mut self.edge_out;
                self.edge.handle_datagram(self.now, Channel::OVERLAY, from, bytes, out);
            }
        }
        self.out.clear();
    }

    /// Does what members want, hands on what the edge says, until all is quiet.
    fn settle(&mut self) {
        loop {
            for (n, action) in std::mem::take(&mut self.actions) {
                match action {
                    Action::Send { to: ReplicaId(to), bytes } => {
                        let to = usize::from(to) - 1;
                        self.call(to, |member, now, out| member.handle_message(now, &bytes, out));
                    }
                    Action::Write { number, write } => {
                        perform(&mut self.replicas[n].journal, &write).expect("a disk that works");
                        self.call(n, |member, now, out| member.handle_written(now, number, out));
                    }
                    Action::Lead { .. } | Action::Follow { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            if self.edge_out.is_empty() {
                if self.actions.is_empty() {
                    return;
                }
                continue;
            }
            let said = std::mem::take(&mut self.edge_out);
            let leader = self.replicas.iter().position(|of| of.member.leading().is_some());
            for op in said.ops() {
                match *op {
                    Op::Datagram { channel: Channel::OVERLAY, bytes, .. } => {
                        let (bytes, from) = (said.bytes(bytes), Peer::Node(NodeId(1)));
                        let Some(leader) = leader else { continue };
                        self.call(leader, |member, now, out| {
                            member.expect_more();
                            member.handle_datagram(now, Channel::OVERLAY, from, bytes, out);
                        });
                    }
                    Op::Stream { .. } => self.reports += 1,
                    _ => {}
                }
            }
            if let Some(leader) = leader {
                self.call(leader, |member, now, out| member.handle_batch(now, out));
            }
        }
    }

    fn run(&mut self, ns: u64) {
        let end = self.now.now.after(ns);
        let due = |group: &Group| {
            let members = group.replicas.iter().map(|of| of.member.next_timeout());
            members.chain([group.edge.next_timeout()]).min().unwrap_or(Nanos::NEVER)
        };
        while due(self) <= end {
            self.now.now = self.now.now.max(due(self));
            for n in 0..MEMBERS {
                if self.replicas[n].member.next_timeout() <= self.now.now {
                    self.call(n, |member, now, out| member.handle_timeout(now, out));
                }
            }
            if self.edge.next_timeout() <= self.now.now {
                self.edge.handle_timeout(self.now, &mut self.edge_out);
            }
            self.settle();
        }
        self.now.now = end;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.edge.handle_stream(self.now, ConnId(1), bytes, &mut self.edge_out);
        self.settle();
        self.run(MS);
    }

    fn login(&mut self) {
        let login = LoginRequest {
            username: *b"USER1 ",
            password: *b"secret1   ",
            session: [b' '; 10],
            sequence: 1,
        };
        let mut bytes = Vec::new();
        ClientPacket::Login(login).encode(&mut bytes).expect("fits");
        self.edge.handle_connect(self.now, ConnId(1), &mut self.edge_out);
        self.write(&bytes);
    }

    /// So many orders in one piece of a stream, every second one trades with the one before.
    fn turn(&mut self, orders: u32) {
        let (mut message, mut bytes) = (Vec::new(), Vec::new());
        for _ in 0..orders {
            self.user_ref += 1;
            let side = if self.user_ref.is_multiple_of(2) { Side::Buy } else { Side::Sell };
            message.clear();
            enter(self.user_ref, side, 100, 1, &mut message);
            ClientPacket::Unsequenced(&message).encode(&mut bytes).expect("fits");
        }
        self.write(&bytes);
    }

    /// Allocations of the members in turns of so many orders, per turn.
    fn measure(&mut self, turns: u32, orders: u32) -> u64 {
        let (before, commits) = (self.allocations, self.applied());
        (0..turns).for_each(|_| self.turn(orders));
        assert_eq!(self.applied() - commits, u64::from(turns * orders), "each order is applied");
        (self.allocations - before) / u64::from(turns)
    }

    fn applied(&self) -> u64 {
        let applied = |of: &Replica| of.member.role().as_root().expect("a root").engine().applied();
        let applied: Vec<u64> = self.replicas.iter().map(applied).collect();
        assert!(applied.iter().all(|n| *n == applied[0]), "all are level: {applied:?}");
        applied[0]
    }
}

#[test]
fn a_groups_allocations_do_not_grow_with_its_orders() {
    let mut group = Group::new();
    group.login();
    (0..100).for_each(|_| group.turn(ORDERS));
    let [one, many] = [group.measure(200, 1), group.measure(20, ORDERS)];
    println!(
        "allocations of three replicas: {one} in a turn of 1 order, {many} in one of {ORDERS}"
    );
    assert!(one > 0, "what a turn allocates is counted");
    assert!(many <= one + GROWTH, "{one} in a turn of 1 order, {many} in one of {ORDERS}");
}
