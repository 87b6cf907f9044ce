//! Participants that subscribe at an edge: the same packets at the same instant, up to 64 places, until
//! their connections end.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use exchange::{ExchangeConfig, SUBSCRIPTION_DOOR, SubscriptionTerms};
use types::{Address, ConnId, Nanos, Node, Peer, Remote, Side};
use wire::moldudp::Packet;
use wire::soupbin::{ClientEvent, ClientPacket, ClientSession};
use wire::subscription::{Answer, NOWHERE, Refusal, Request, Ring, Subscribed, Way};

use crate::common::{LISTENERS, MS, Outside, Pair, config, enter};

const GROUP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(239, 1, 1, 3)), 7_100);

/// Who is outside: what each was told, and what was sent to whom and when.
#[derive(Default)]
struct Outsiders {
    now: Nanos,
    clients: BTreeMap<ConnId, ClientSession>,
    told: BTreeMap<ConnId, Vec<Answer>>,
    closed: Vec<ConnId>,
    fed: BTreeMap<Peer, Vec<(Nanos, Vec<u8>)>>,
}

impl Outside for Outsiders {
    fn to_root(&mut self, _bytes: &[u8]) {}

    fn to_edge(&mut self, _bytes: &[u8]) -> bool {
        true
    }

    fn feed(&mut self, to: Peer, bytes: &[u8]) {
        self.fed.entry(to).or_default().push((self.now, bytes.to_vec()));
    }

    fn stream(&mut self, conn: ConnId, bytes: &[u8]) {
        let told = self.told.entry(conn).or_default();
        let client = self.clients.get_mut(&conn).expect("connected");
        client.handle_bytes(self.now, bytes, |event| {
            if let ClientEvent::Unsequenced(message) = event {
                told.extend(Answer::parse(message));
            }
        });
    }

    fn closed(&mut self, conn: ConnId) {
        self.closed.push(conn);
    }
}

struct World {
    pair: Pair,
    outside: Outsiders,
}

impl World {
    fn new() -> World {
        let mut pair = Pair::new(&ExchangeConfig { connections_max: 200, ..config() });
        pair.edge.offer_subscriptions(SubscriptionTerms {
            groups: vec![GROUP],
            per_account: 100,
            from: GROUP,
            from_for_groups: vec![GROUP],
            repair: vec![GROUP],
            snapshots: vec![],
            ring: None,
        });
        let mut world = World { pair, outside: Outsiders::default() };
        world.run(200 * MS);
        world
    }

    fn run(&mut self, ns: u64) {
        let end = self.pair.now.now.after(ns);
        while self.pair.now.now < end {
            let next = self.pair.now.now.after(MS / 4).min(end);
            self.outside.now = next;
            self.pair.run(next, &mut self.outside);
        }
    }

    fn write(&mut self, conn: ConnId, bytes: &[u8]) {
        let Pair { edge, edge_out, now, .. } = &mut self.pair;
        edge.handle_stream(*now, conn, bytes, edge_out);
        self.pair.settle(&mut self.outside);
    }

    fn connect(&mut self, conn: ConnId, account: u32) {
        let address = Some(Address::v4(Ipv4Addr::LOCALHOST.to_bits()));
        let remote = Remote { address, certificate: None };
        let (user, password) = (format!("USER{account}"), format!("secret{account}"));
        let mut soup = ClientSession::new(&user, &password).expect("short");
        let mut bytes = Vec::new();
        soup.connect(self.pair.now.now, &mut bytes).expect("a login");
        self.outside.clients.insert(conn, soup);
        let Pair { edge, edge_out, now, .. } = &mut self.pair;
        edge.handle_accept(*now, conn, &remote, edge_out);
        self.write(conn, &bytes);
    }

    /// Connection `n` asks for the feed there; what it is told.
    fn subscribe(&mut self, n: u32, way: Way, to: SocketAddr) -> Answer {
        let conn = ConnId(u32::from(SUBSCRIPTION_DOOR) << ConnId::DOOR_SHIFT | n);
        self.connect(conn, 1 + n % 3);
        let (mut message, mut bytes) = (Vec::new(), Vec::new());
        Request::Subscribe { way, to }.encode(&mut message);
        ClientPacket::Unsequenced(&message).encode(&mut bytes).expect("short");
        self.write(conn, &bytes);
        self.outside.told[&conn].last().cloned().expect("an answer")
    }

    fn leave(&mut self, n: u32) {
        let conn = ConnId(u32::from(SUBSCRIPTION_DOOR) << ConnId::DOOR_SHIFT | n);
        let Pair { edge, edge_out, now, .. } = &mut self.pair;
        edge.handle_close(*now, conn, edge_out);
        self.pair.settle(&mut self.outside);
    }

    /// Account 1 orders a few times, numbered from there on.
    fn trade(&mut self, from: u32) {
        let conn = ConnId(1);
        if !self.outside.clients.contains_key(&conn) {
            self.connect(conn, 1);
        }
        for n in from..from + 5 {
            let (mut message, mut bytes) = (Vec::new(), Vec::new());
            enter(n, Side::Buy, 100 + i64::from(n % 7), 1, &mut message);
            ClientPacket::Unsequenced(&message).encode(&mut bytes).expect("short");
            self.write(conn, &bytes);
            self.run(2 * MS);
        }
    }

    fn fed(&self, to: Peer) -> &[(Nanos, Vec<u8>)] {
        self.outside.fed.get(&to).map_or(&[], Vec::as_slice)
    }
}

fn place(n: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 7_000 + n as u16))
}

fn peer(of: SocketAddr) -> Peer {
    Peer::from(of)
}

#[test]
fn all_get_the_same_packets_at_the_same_instant_from_the_message_that_they_were_told() {
    let mut world = World::new();
    world.trade(1);
    let Answer::Subscribed(Subscribed { streams, .. }) = world.subscribe(1, Way::Unicast, place(1))
    else {
        panic!("refused");
    };
    assert!(matches!(world.subscribe(2, Way::Group, GROUP), Answer::Subscribed(_)));
    world.trade(6);
    let (one, all) = (world.fed(peer(place(1))).to_vec(), world.fed(LISTENERS));
    let first = Packet::parse(&one[0].1).expect("a packet");
    assert_eq!((first.session().0, first.seq()), streams[0], "told before the first packet");
    assert!(streams[0].1 > 1 && one.len() >= 5, "{} packets from {streams:?}", one.len());
    assert_eq!(one, world.fed(peer(GROUP)), "bytes and instants");
    assert_eq!(one, all[all.len() - one.len()..]);
}

#[test]
fn packets_stop_when_the_connection_is_cut_and_not_for_those_of_the_operator() {
    let mut world = World::new();
    world.subscribe(1, Way::Unicast, place(1));
    world.subscribe(2, Way::Group, GROUP);
    // A place that the operator has configured, too.
    world.pair.edge.subscribe(peer(place(9)));
    world.subscribe(3, Way::Unicast, place(9));
    world.trade(1);
    let before = [place(1), GROUP, place(9)].map(|at| world.fed(peer(at)).len());
    assert!(before.iter().all(|count| *count >= 5), "{before:?}");
    world.leave(1);
    world.leave(3);
    world.trade(6);
    let after = [place(1), GROUP, place(9)].map(|at| world.fed(peer(at)).len());
    assert_eq!(after[0], before[0], "cut");
    assert!(after[1] > before[1] && after[2] > before[2], "{before:?} {after:?}");
    // A drain ends all of them.
    let Pair { edge, edge_out, now, .. } = &mut world.pair;
    assert_eq!(edge.end_subscriptions(*now, edge_out), 1);
    world.pair.settle(&mut world.outside);
    world.trade(11);
    assert_eq!(world.fed(peer(GROUP)).len(), after[1]);
    assert!(world.fed(LISTENERS).len() > after[2]);
}

#[test]
fn the_ring_has_every_packet_once_however_many_read_it_and_stays_when_they_leave() {
    let mut world = World::new();
    assert_eq!(world.subscribe(1, Way::Ring, NOWHERE), Answer::Refused(Refusal::Ring), "control");
    let ring = Ring { generation: 5, path: "/dev/shm/edge/edge-1.ring".to_string() };
    world.pair.edge.offer_subscriptions(SubscriptionTerms {
        groups: vec![],
        per_account: 100,
        from: GROUP,
        from_for_groups: vec![GROUP],
        repair: vec![],
        snapshots: vec![],
        ring: Some(ring.clone()),
    });
    assert!(world.pair.edge.subscribe(Peer::RING), "as whoever opens the ring does");
    for n in 2..=4 {
        let Answer::Subscribed(told) = world.subscribe(n, Way::Ring, NOWHERE) else {
            panic!("refused")
        };
        assert_eq!(told.ring.as_ref(), Some(&ring));
    }
    world.trade(1);
    let all = world.fed(LISTENERS);
    let in_ring = world.fed(Peer::RING);
    assert!(in_ring.len() >= 5 && in_ring == &all[all.len() - in_ring.len()..]);
    let before = in_ring.len();
    (2..=4).for_each(|n| world.leave(n));
    world.trade(6);
    assert!(world.fed(Peer::RING).len() > before, "it is the edge's, not theirs");
}

#[test]
fn there_is_room_for_64_and_for_the_next_when_one_has_left() {
    let mut world = World::new();
    // The one that the edge was made with takes a place, too.
    for n in 1..=63 {
        let answer = world.subscribe(n, Way::Unicast, place(n));
        assert!(matches!(answer, Answer::Subscribed(_)), "{n}: {answer:?}");
    }
    assert_eq!(world.subscribe(64, Way::Unicast, place(64)), Answer::Refused(Refusal::Full));
    // A place that is served already needs none.
    let again = world.subscribe(65, Way::Unicast, place(5));
    assert!(matches!(again, Answer::Subscribed(_)), "{again:?}");
    world.leave(5);
    world.trade(1);
    assert!(!world.fed(peer(place(5))).is_empty(), "another connection still wants it");
    world.leave(7);
    let next = world.subscribe(66, Way::Unicast, place(66));
    assert!(matches!(next, Answer::Subscribed(_)), "{next:?}");
}
