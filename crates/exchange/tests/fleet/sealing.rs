//! Who has no key gets nothing in and nothing out, and who has one can be nobody else.

use exchange::{Life, OverlayOptions, Role, Secret, SlowProxy, deploy};
use overlay::{
    aes_gcm::AesGcm,
    frame::{self, AttachBody, FrameKind, HopHeader, OrderBody},
    key_ring::KeyRing,
    lives::{HELLO_VERSION, Hello, Shared, of_pair, of_shared},
    private_receiver::first_token,
    seal::{Origin, SEALED_VERSION, SealError, Sealer},
    sealed_link::{Fleet as Nodes, SealedLink},
    tap::Tap,
};
use proptest::prelude::*;
use types::{AccountId, ClockReading, GatewayId, Incarnation, Nanos, Node, NodeId, Peer, Source};
use zerocopy::IntoBytes;

use crate::{
    common::MS,
    plain, sealed,
    world::{CALM, FEED, Fleet, ROUGH},
};

const EVERY: u64 = 400 * Nanos::MICRO;
/// As `deploy` is given in these tests.
const START: u64 = 1_000;
/// A receiver nobody trades at.
const LAST: usize = 5;

#[test]
fn a_sealed_exchange_over_bad_links_says_nothing_in_clear() {
    for seed in 0..3 {
        let mut fleet = Fleet::new(&sealed(), ROUGH, seed);
        fleet.login();
        fleet.trade(200 * MS, EVERY);
        fleet.run(1_500 * MS);
        fleet.check(seed);
        let (mut sealed, mut opened, mut replayed) = (0, 0, 0);
        for node in 0..fleet.nodes.len() {
            let stats = fleet.link(node);
            assert_eq!((stats.clear, stats.forged, stats.forbidden, stats.unsent), (0, 0, 0, 0));
            sealed += stats.sealed;
            opened += stats.opened;
            replayed += stats.replayed;
        }
        assert!(opened > 5_000 && opened < sealed);
        assert!(replayed > 20, "what links repeat is refused: {replayed}");
        for (_, _, bytes) in &fleet.seen {
            let hello = bytes[0] == HELLO_VERSION && Hello::read(bytes).is_some();
            assert!(hello || bytes[0] == SEALED_VERSION);
            let clear = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
            assert!(!clear(b"FAIRBELL01") && !clear(b"BTCUSD"), "something in clear");
        }
    }
    // The control: without sealing the session's name is on every datagram of the feed.
    let mut fleet = Fleet::new(&plain(), CALM, 1);
    fleet.login();
    fleet.trade(50 * MS, EVERY);
    let clear = |bytes: &Vec<u8>| bytes.windows(10).any(|window| window == b"FAIRBELL01");
    assert!(fleet.seen.iter().any(|(_, _, bytes)| clear(bytes)));
}

#[test]
fn a_node_with_another_key_hears_nothing_and_is_not_heard() {
    let config = sealed();
    let feed_of = |index: usize| Peer::Addr(FEED + index as u64);
    let mut roles = deploy(&config, Life::of(START), feed_of).expect("an exchange");
    let mut other = config.clone();
    other.options.secret = Some(Secret([8; 32]));
    let strange = deploy(&other, Life::of(START), feed_of).expect("an exchange").pop();
    *roles.last_mut().expect("edges") = strange.expect("edges");
    let mut fleet = Fleet::of(&config, roles, CALM, 1);
    fleet.login();
    fleet.trade(200 * MS, EVERY);
    fleet.run(500 * MS);
    let end = fleet.root().engine().feed_next().0;
    assert!(fleet.released[..LAST].iter().all(|next| next[0] == end), "the others miss nothing");
    assert_eq!(fleet.released[LAST][0], 1, "not one message");
    let stranger = fleet.link(fleet.edge_node(LAST));
    assert_eq!((stranger.opened, fleet.edge(LAST).gateway().uplink().ready()), (0, false));
    assert!(stranger.early > 5, "it sends nothing to who has not met it: {stranger:?}");
    assert!(stranger.forged > 5, "nobody's hello is one: {stranger:?}");
    let root = fleet.link(0);
    assert!(root.forged > 5, "it said hello again and again: {root:?}");
    assert_eq!((root.clear, root.replayed, root.forbidden), (0, 0, 0));
}

fn detach(sender: usize) -> Vec<u8> {
    let header = HopHeader::new(FrameKind::Attach, NodeId(sender as u16), 1);
    // Newer than all of the first life.
    let token = first_token(Incarnation(2));
    let body = AttachBody { account: AccountId(1), attach: 0, token, from: 0 };
    let mut bytes = Vec::new();
    frame::encode(&mut bytes, header, &body, &[]);
    bytes
}

#[test]
fn nobody_gives_anothers_stream_back() {
    // The control: in clear anybody who can reach the root can.
    let mut fleet = Fleet::new(&plain(), CALM, 1);
    fleet.login();
    let victim = fleet.edge_node(0);
    let attached = |fleet: &Fleet| fleet.edge(0).gateway().connections();
    fleet.inject(0, &detach(victim));
    fleet.run(100 * MS);
    assert_eq!(attached(&fleet), 0, "its session is over");
    // Sealed, the same bytes are nothing.
    let mut fleet = Fleet::new(&sealed(), CALM, 1);
    fleet.login();
    fleet.inject(0, &detach(victim));
    assert_eq!(fleet.link(0).clear, 1);
    // A gateway with keys of its own that says it is another.
    let mut forger = Forger::new(fleet.edge_node(LAST), 0);
    let mut sealed_as = |sender: usize| {
        let clear = detach(sender);
        let (header, body) = clear.split_at(16);
        forger.seal((header, body), false)
    };
    let (as_victim, as_itself) = (sealed_as(victim), sealed_as(fleet.edge_node(LAST)));
    fleet.inject(0, &as_victim);
    assert_eq!(fleet.link(0).forbidden, 1);
    // What the real gateway sent, again.
    let of_victim = |(from, to, bytes): &&(usize, usize, Vec<u8>)| {
        (*from, *to, bytes[0]) == (victim, 0, SEALED_VERSION)
    };
    let again = fleet.seen.iter().find(of_victim).expect("it logged in").2.clone();
    fleet.inject(0, &again);
    assert_eq!(fleet.link(0).replayed, 1);
    // The control of the forger: as itself it is let in, and gets nothing it has no right to.
    let opened = fleet.link(0).opened;
    fleet.inject(0, &as_itself);
    assert_eq!(fleet.link(0).opened, opened + 1);
    fleet.trade(50 * MS, EVERY);
    fleet.run(300 * MS);
    assert_eq!(attached(&fleet), 1, "the session goes on");
    fleet.check(1);
}

#[test]
fn nobody_orders_or_asks_for_a_life_in_anothers_name() {
    let mut fleet = Fleet::new(&sealed(), CALM, 1);
    fleet.login();
    fleet.trade(20 * MS, EVERY);
    let own = fleet.edge_node(LAST);
    let mut forger = Forger::new(own, 1);
    let mut order = |gateway: u16| {
        let header = HopHeader::new(FrameKind::Order, NodeId(own as u16), 1);
        let source = Source { gateway: GatewayId(gateway), seq: 1, ..Source::default() };
        let body = OrderBody { source, depends_on: 0, t_in: Nanos(1) };
        forger.seal((header.as_bytes(), body.as_bytes()), true)
    };
    let before = fleet.link(1);
    fleet.inject(1, &order(1));
    assert_eq!(fleet.link(1).forbidden, before.forbidden + 1);
    fleet.inject(1, &order(LAST as u16 + 1));
    assert_eq!(fleet.link(1).opened, before.opened + 1, "its own may pass");
    fleet.trade(20 * MS, EVERY);
    fleet.run(300 * MS);
    fleet.check(1);
}

/// Somebody with the keys of one node, who sends another what that node would not.
struct Forger {
    own: NodeId,
    sealer: Sealer,
    pair: AesGcm,
    orders: AesGcm,
    number: u64,
}

impl Forger {
    /// All nodes of the fleet have the life of one process.
    fn new(own: usize, to: usize) -> Forger {
        let (own, to, life) = (NodeId(own as u16), NodeId(to as u16), Life::of(START));
        let ring = Secret([7; 32]).ring(own, &nodes());
        let (pair, tag) = of_pair(&ring, (own, life), (to, life)).expect("a link of its own");
        let orders = of_shared(&ring, Shared::Orders, (own, life)).expect("orders of its own");
        let [pair, orders] = [pair, orders].map(|bytes| AesGcm::new(&bytes).expect("a cipher"));
        let mut forger = Forger { own, sealer: Sealer::new(own, tag), pair, orders, number: 0 };
        // The node itself has used some numbers.
        (0..500).for_each(|_| drop(forger.seal((&[], &[]), false)));
        forger
    }

    fn seal(&mut self, parts: (&[u8], &[u8]), order: bool) -> Vec<u8> {
        self.number += 1;
        let life = Life::of(START).tag();
        let origin = Origin { stream: self.own.0, life, number: self.number };
        let key = if order { &self.orders } else { &self.pair };
        let mut out = Vec::new();
        assert!(self.sealer.seal((&self.pair, key), origin, parts, &mut out));
        out
    }
}

fn nodes() -> Nodes {
    Nodes::of(&sealed().tree().expect("a tree").topology)
}

fn link(node: NodeId, life: u64) -> SealedLink<KeyRing> {
    Secret([7; 32]).link(node, &nodes(), Life::of(life), false).expect("a link")
}

/// Delivers hellos until there are none, and gives back all of them.
fn meet(now: Nanos, nodes: &mut [(NodeId, &mut SealedLink<KeyRing>)]) -> Vec<(NodeId, Vec<u8>)> {
    let mut all = Vec::new();
    loop {
        let mut said = Vec::new();
        for (_, link) in nodes.iter_mut() {
            link.handle_timeout(now);
            link.take_hellos(|to, bytes| said.push((to, bytes.to_vec())));
        }
        if said.is_empty() {
            return all;
        }
        for (to, bytes) in &said {
            if let Some((_, link)) = nodes.iter_mut().find(|(node, _)| node == to) {
                assert_eq!(link.open(now, bytes), Ok(None));
            }
        }
        all.extend(said);
    }
}

#[test]
fn keys_differ_from_life_to_life_and_are_never_shown() {
    let to = fleet_edge();
    let (mut root, mut edge) = (link(NodeId(0), 1), link(to, 2));
    let mut sent = Vec::new();
    assert!(!root.seal(Nanos(0), to, (&hello_reply(to), false), &mut sent), "not met yet");
    meet(Nanos(0), &mut [(NodeId(0), &mut root), (to, &mut edge)]);
    assert!(root.seal(Nanos(0), to, (&hello_reply(to), false), &mut sent));
    assert_eq!(edge.open(Nanos(0), &sent), Ok(Some(&hello_reply(to)[..])));
    // The same two nodes, the one or the other in another life.
    for lives in [(1, 3), (4, 2), (4, 3)] {
        let (mut root, mut edge) = (link(NodeId(0), lives.0), link(to, lives.1));
        meet(Nanos(0), &mut [(NodeId(0), &mut root), (to, &mut edge)]);
        assert_eq!(edge.open(Nanos(0), &sent), Err(SealError::Life), "{lives:?}");
    }
    // The control: what keeps it out is the lives.
    let (mut root, mut edge) = (link(NodeId(0), 1), link(to, 2));
    meet(Nanos(0), &mut [(NodeId(0), &mut root), (to, &mut edge)]);
    assert_eq!(edge.open(Nanos(0), &sent), Ok(Some(&hello_reply(to)[..])));
    let secret = Some(Secret([7; 32]));
    let options = OverlayOptions { secret, ..OverlayOptions::default() };
    assert!(!format!("{options:?}").contains('7'));
}

fn fleet_edge() -> NodeId {
    sealed().tree().expect("a tree").topology.receiver_ids().next().expect("a receiver")
}

fn hello_reply(to: NodeId) -> Vec<u8> {
    let header = HopHeader::new(FrameKind::Grant, NodeId(0), 1);
    let mut bytes = Vec::new();
    let body = overlay::frame::GrantBody {
        gateway: GatewayId(to.0),
        reserved: 0,
        boot_nonce: 1,
        incarnation: types::Incarnation(1),
    };
    frame::encode(&mut bytes, header, &body, &[]);
    bytes
}

#[test]
fn a_node_takes_its_own_new_ring_behind_its_lag_too_and_no_other() {
    let feed_of = |index: usize| Peer::Addr(FEED + index as u64);
    let now = ClockReading { now: Nanos(Nanos::SECOND), bound_ns: 0 };
    let next = Secret([8; 32]);
    let roles = deploy(&sealed(), Life::of(START), feed_of).expect("an exchange");
    for (node, role) in roles.into_iter().enumerate() {
        let ring = next.ring(NodeId(node as u16), &nodes());
        let others = next.ring(NodeId(node as u16 + 1), &nodes());
        let mut role = match role.as_proxy() {
            Some(_) => Role::SlowProxy(Box::new(SlowProxy::new(role, Box::new(|_| 0)))),
            None => role,
        };
        assert!(!role.rekey(now, others, Life::of(1)), "another's: node {node}");
        assert!(!role.rekey(now, ring.clone(), Life::of(START)), "its life: node {node}");
        assert!(role.rekey(now, ring.clone(), Life::of(2)), "node {node}");
        assert!(!role.rekey(now, ring, Life::of(3)), "handed out twice: node {node}");
        assert!(role.next_timeout() <= now.now, "it greets the others at once");
    }
    let plain = deploy(&plain(), Life::of(START), feed_of).expect("an exchange");
    for (node, mut role) in plain.into_iter().enumerate() {
        let ring = next.ring(NodeId(node as u16), &nodes());
        assert!(!role.rekey(now, ring, Life::of(2)), "in clear");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn changed_datagrams_are_refused_and_never_panic(
        at in any::<prop::sample::Index>(), xor in 1u8..=255, cut in prop::option::of(0usize..120),
        noise in prop::collection::vec(any::<u8>(), 0..120), hello in any::<bool>(),
    ) {
        let (now, to) = (Nanos(0), fleet_edge());
        let (mut root, mut edge) = (link(NodeId(0), 1), link(to, 2));
        let hellos = meet(now, &mut [(NodeId(0), &mut root), (to, &mut edge)]);
        let mut bytes = Vec::new();
        if hello {
            bytes = hellos.iter().find(|(node, _)| *node == to).expect("it was greeted").1.clone();
        } else {
            prop_assert!(root.seal(now, to, (&hello_reply(to), false), &mut bytes));
        }
        let whole = bytes.clone();
        match cut {
            Some(len) if len < bytes.len() => bytes.truncate(len),
            _ => {
                let at = at.index(bytes.len());
                bytes[at] ^= xor;
            }
        }
        prop_assert!(edge.open(now, &bytes).is_err());
        prop_assert!(edge.open(now, &noise).is_err());
        let stats = edge.stats();
        prop_assert_eq!(stats.refused() + stats.other_life, 2);
        prop_assert!(edge.open(now, &whole).is_ok());
        if !hello {
            prop_assert_eq!(edge.open(now, &whole), Err(SealError::Replay));
        }
    }
}

/// What became of fleets of one folder, one after the other.
#[derive(Default)]
struct Starts {
    /// Pairs of key and nonce.
    pairs: u64,
    /// Those that sealed two texts.
    repeated: u64,
    /// Datagrams of the start before that were taken.
    let_in: u64,
}

/// Fleets of one folder, one after the other, which trade for `trading_ns` each: every datagram of
/// all of them passes a tap. `check`: that all was answered.
fn starts(lives: impl Iterator<Item = Life>, trading_ns: u64, check: bool) -> Starts {
    let config = sealed();
    let keys = config.options.secret.as_ref().expect("sealed").keys();
    let mut tap = Tap::new(nodes(), keys);
    let mut recorded: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut let_in = 0;
    for (start, life) in lives.enumerate() {
        let feed_of = |index: usize| Peer::Addr(FEED + index as u64);
        let roles = deploy(&config, life, feed_of).expect("an exchange");
        let mut fleet = Fleet::of(&config, roles, CALM, 1);
        fleet.login();
        // What an earlier start sent, while this one is young.
        for (to, bytes) in &recorded {
            let opened = fleet.link(*to).opened;
            fleet.inject(*to, bytes);
            let_in += fleet.link(*to).opened - opened;
        }
        fleet.trade(trading_ns, EVERY);
        for (_, to, bytes) in &fleet.seen {
            let opened = tap.open(NodeId(*to as u16), bytes);
            assert!(opened.is_ok(), "start {start}: {opened:?}");
        }
        let sealed = fleet.seen.iter().filter(|(_, _, bytes)| bytes[0] == SEALED_VERSION);
        recorded = sealed.rev().map(|(_, to, bytes)| (*to, bytes.clone())).take(2_000).collect();
        if check {
            fleet.run(300 * MS);
            fleet.check(start as u64);
        }
    }
    Starts { pairs: tap.pairs(), repeated: tap.repeated(), let_in }
}

#[test]
fn a_folder_started_twice_repeats_no_nonce_and_takes_nothing_of_the_start_before() {
    let two = starts([1, 2].into_iter().map(Life::of), 20 * MS, true);
    assert!(two.pairs > 3_000, "{}", two.pairs);
    assert_eq!((two.repeated, two.let_in), (0, 0));
    // The control: with the life of the start before, both go wrong.
    let same = starts([1, 1].into_iter().map(Life::of), 20 * MS, false);
    assert!(same.repeated > 100 && same.let_in > 100, "{} {}", same.repeated, same.let_in);
}

#[test]
fn a_thousand_starts_of_copies_of_one_folder_repeat_no_key_and_nonce() {
    let random = || exchange::random_life().expect("randomness");
    let all = starts(std::iter::repeat_with(random).take(1_000), MS, false);
    assert!(all.pairs > 50_000, "{}", all.pairs);
    assert_eq!((all.repeated, all.let_in), (0, 0));
}
