//! Who has no key gets nothing in and nothing out, and who has one can be nobody else.

use overlay::{
    aes_gcm::{AesGcm, KeySource},
    frame::{self, AttachBody, FrameKind, HopHeader, OrderBody},
    guard::Fleet as Nodes,
    private_receiver::first_token,
    seal::{Origin, SEALED_VERSION, SealError, Sealer},
};
use proptest::prelude::*;
use roles::{OverlayOptions, Secret, deploy};
use types::{AccountId, GatewayId, Incarnation, Nanos, NodeId, Peer, Source};
use zerocopy::IntoBytes;

use crate::{
    common::MS,
    plain, sealed,
    world::{CALM, FEED, Fleet, ROUGH},
};

const EVERY: u64 = 400 * Nanos::MICRO;
/// As `deploy` is given in these tests.
const START: u32 = 1_000;
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
            let stats = fleet.guard(node);
            assert_eq!((stats.clear, stats.forged, stats.forbidden, stats.unsent), (0, 0, 0, 0));
            sealed += stats.sealed;
            opened += stats.opened;
            replayed += stats.replayed;
        }
        assert!(opened > 5_000 && opened < sealed);
        assert!(replayed > 20, "what links repeat is refused: {replayed}");
        for (_, _, bytes) in &fleet.seen {
            assert_eq!(bytes[0], SEALED_VERSION);
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
    let mut roles = deploy(&config, START, feed_of).expect("an exchange");
    let mut other = config.clone();
    other.options.secret = Some(Secret([8; 32]));
    let strange = deploy(&other, START, feed_of).expect("an exchange").pop();
    *roles.last_mut().expect("edges") = strange.expect("edges");
    let mut fleet = Fleet::of(&config, roles, CALM, 1);
    fleet.login();
    fleet.trade(200 * MS, EVERY);
    fleet.run(500 * MS);
    let end = fleet.root().engine().feed_next().0;
    assert!(fleet.released[..LAST].iter().all(|next| next[0] == end), "the others miss nothing");
    assert_eq!(fleet.released[LAST][0], 1, "not one message");
    let stranger = fleet.guard(fleet.edge_node(LAST));
    assert_eq!((stranger.opened, fleet.edge(LAST).gateway().uplink().ready()), (0, false));
    assert!(stranger.forged > 1_000, "market data came and stayed shut: {stranger:?}");
    let root = fleet.guard(0);
    assert!(root.forged > 5, "it asked for repairs and for a life: {root:?}");
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
    assert_eq!(fleet.guard(0).clear, 1);
    // A gateway with keys of its own that says it is another.
    let sealed_as = |sender: usize| {
        let (own, pair) = (fleet.edge_node(LAST), pair_key(fleet.edge_node(LAST), 0));
        let clear = detach(sender);
        let mut out = Vec::new();
        let origin = Origin { stream: own as u16, epoch: START + 1, number: 1 };
        let mut sealer = Sealer::new(NodeId(own as u16), START + 1);
        let parts = clear.split_at(16);
        assert!(sealer.seal((&pair, &pair), origin, parts, &mut out));
        out
    };
    let (as_victim, as_itself) = (sealed_as(victim), sealed_as(fleet.edge_node(LAST)));
    fleet.inject(0, &as_victim);
    assert_eq!(fleet.guard(0).forbidden, 1);
    // What the real gateway sent, again.
    let of_victim = |(from, to, _): &&(usize, usize, Vec<u8>)| (*from, *to) == (victim, 0);
    let again = fleet.seen.iter().find(of_victim).expect("it logged in").2.clone();
    fleet.inject(0, &again);
    assert_eq!(fleet.guard(0).replayed, 1);
    // The control of the forger: as itself it is let in, and gets nothing it has no right to.
    let opened = fleet.guard(0).opened;
    fleet.inject(0, &as_itself);
    assert_eq!(fleet.guard(0).opened, opened + 1);
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
    let order = |gateway: u16| {
        let header = HopHeader::new(FrameKind::Order, NodeId(own as u16), 1);
        let source = Source { gateway: GatewayId(gateway), seq: 1, ..Source::default() };
        let body = OrderBody { source, depends_on: 0, t_in: Nanos(1) };
        let key = KeySource::new(&[7; 32]);
        let [a, b] = (own as u16).to_le_bytes();
        let orders = key.key(&[&START.to_le_bytes()[..], b"ordr", &[a, b, 0, 0]].concat());
        let mut out = Vec::new();
        let origin = Origin { stream: own as u16, epoch: START + 1, number: u64::from(gateway) };
        let mut sealer = Sealer::new(NodeId(own as u16), START + u32::from(gateway));
        let keys = (&pair_key(own, 1), &orders.expect("a key"));
        assert!(sealer.seal(keys, origin, (header.as_bytes(), body.as_bytes()), &mut out));
        out
    };
    let before = fleet.guard(1);
    fleet.inject(1, &order(1));
    assert_eq!(fleet.guard(1).forbidden, before.forbidden + 1);
    fleet.inject(1, &order(LAST as u16 + 1));
    assert_eq!(fleet.guard(1).opened, before.opened + 1, "its own may pass");
    fleet.trade(20 * MS, EVERY);
    fleet.run(300 * MS);
    fleet.check(1);
}

/// The key of two nodes, as the deployment makes it.
fn pair_key(a: usize, b: usize) -> AesGcm {
    let [a, b] = [a.min(b) as u16, a.max(b) as u16].map(u16::to_le_bytes);
    let name = [&START.to_le_bytes()[..], b"pair", &a, &b].concat();
    KeySource::new(&[7; 32]).key(&name).expect("a key")
}

#[test]
fn keys_differ_from_start_to_start_and_are_never_shown() {
    let fleet = Nodes::of(&sealed().tree().expect("a tree").topology);
    let secret = Secret([7; 32]);
    let guard = |start| secret.guard(NodeId(0), &fleet, start, false).expect("a guard");
    let to = fleet_edge(&fleet);
    let mut sent = Vec::new();
    assert!(guard(1).seal(to, &hello_reply(to), false, &mut sent));
    let receive = |start| {
        let mut guard = secret.guard(to, &fleet, start, false).expect("a guard");
        guard.open(&sent).map(<[u8]>::to_vec)
    };
    assert_eq!(receive(2), Err(SealError::HopTag));
    assert_eq!(receive(1), Ok(hello_reply(to)));
    let options = OverlayOptions { secret: Some(secret), ..OverlayOptions::default() };
    assert!(!format!("{options:?}").contains('7'));
}

fn fleet_edge(_: &Nodes) -> NodeId {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn changed_datagrams_are_refused_and_never_panic(
        at in any::<prop::sample::Index>(), xor in 1u8..=255, cut in prop::option::of(0usize..120),
        noise in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let fleet = Nodes::of(&sealed().tree().unwrap().topology);
        let (secret, to) = (Secret([7; 32]), fleet_edge(&fleet));
        let mut root = secret.guard(NodeId(0), &fleet, 1, false).unwrap();
        let mut edge = secret.guard(to, &fleet, 1, false).unwrap();
        let mut bytes = Vec::new();
        prop_assert!(root.seal(to, &hello_reply(to), false, &mut bytes));
        let whole = bytes.clone();
        match cut {
            Some(len) if len < bytes.len() => bytes.truncate(len),
            _ => {
                let at = at.index(bytes.len());
                bytes[at] ^= xor;
            }
        }
        prop_assert!(edge.open(&bytes).is_err());
        prop_assert!(edge.open(&noise).is_err());
        prop_assert_eq!(edge.stats().refused(), 2);
        prop_assert!(edge.open(&whole).is_ok());
        prop_assert_eq!(edge.open(&whole), Err(SealError::Replay));
    }
}
