//! A node's ring holds the secrets of its own links and of what it reads, and nothing else; bytes
//! are a ring or an error, never a panic.

#![cfg(feature = "aead")]

use std::collections::BTreeSet;

use overlay::{
    aes_gcm::KeySource,
    key_ring::{KeyRing, RING_BYTES_MAX, RING_ENTRIES_MAX, RING_VERSION, RingError, RingHeader},
    lives::{Keys, Scope, Shared},
    sealed_link::Fleet,
    topology::{ROOT, Topology},
};
use proptest::prelude::*;
use types::NodeId;
use zerocopy::IntoBytes;

/// A root, three proxies, nine edges.
fn fleet() -> (Topology, Fleet) {
    let topology = Topology::new(2, 3, 9).expect("a tree");
    (topology, Fleet::of(&topology))
}

fn source() -> KeySource {
    KeySource::new(&[0xAB; 32])
}

#[test]
fn a_ring_has_the_links_of_its_node_and_what_it_reads() {
    let (topology, fleet) = fleet();
    let proxies: BTreeSet<NodeId> = topology.proxy_ids().collect();
    let edges: BTreeSet<NodeId> = topology.receiver_ids().collect();
    for node in fleet.nodes() {
        let ring = source().ring(node, &fleet);
        let mut due = BTreeSet::new();
        let is_edge = edges.contains(&node);
        for peer in fleet.nodes().filter(|peer| *peer != node) {
            if !(is_edge && edges.contains(&peer)) {
                due.insert(Scope::Link(node, peer));
            }
        }
        let markets = proxies.iter().copied().chain([ROOT]);
        due.extend(markets.map(|of| Scope::Shared(Shared::Market, of)));
        let orders = edges.iter().copied().filter(|of| !is_edge || *of == node);
        due.extend(orders.map(|of| Scope::Shared(Shared::Orders, of)));
        assert_eq!(ring.scopes().collect::<BTreeSet<_>>(), due, "node {}", node.0);
        // Of all scopes that there are it derives from these and from no other.
        for (a, b) in fleet.nodes().flat_map(|a| fleet.nodes().map(move |b| (a, b))) {
            let other = if a == node { b } else { a };
            let own = (a == node || b == node) && due.contains(&Scope::Link(node, other));
            assert_eq!(ring.derive(Scope::Link(a, b), b"x").is_some(), own, "{a:?} {b:?}");
        }
    }
}

#[test]
fn both_ends_of_a_link_hold_the_same_secret_and_rings_agree_with_their_source() {
    let (_, fleet) = fleet();
    let all = source();
    for node in fleet.nodes() {
        let ring = all.ring(node, &fleet);
        for scope in ring.scopes() {
            assert_eq!(ring.derive(scope, b"name"), all.derive(scope, b"name"), "{scope:?}");
        }
    }
    // What a secret is made of.
    let link = all.tag(b"link\x01\x00\x0C\x00");
    let (ring, scope) = (all.ring(NodeId(12), &fleet), Scope::Link(NodeId(12), NodeId(1)));
    assert_eq!(ring.derive(scope, b"name"), Some(KeySource::new(&link).tag(b"name")));
    let market = KeySource::new(&all.tag(b"mark\x01\x00")).tag(b"name");
    assert_eq!(ring.derive(Scope::Shared(Shared::Market, NodeId(1)), b"name"), Some(market));
}

#[test]
fn a_ring_is_never_printed() {
    let (_, fleet) = fleet();
    let ring = source().ring(NodeId(12), &fleet);
    assert_eq!(format!("{ring:?}"), "KeyRing(of 12, [4, 4, 1] secrets)");
}

#[test]
fn nothing_of_a_peer_that_is_not_permitted_any_more_is_left() {
    let (_, fleet) = fleet();
    let ring = source().ring(NodeId(12), &fleet).without(NodeId(2));
    let of_peer = |scope: Scope| match scope {
        Scope::Link(a, b) => a == NodeId(2) || b == NodeId(2),
        Scope::Shared(_, of) => of == NodeId(2),
    };
    assert!(!ring.scopes().any(of_peer));
    assert_eq!(ring.peers().collect::<Vec<_>>(), [NodeId(0), NodeId(1), NodeId(3)]);
}

fn encoded(ring: &KeyRing) -> Vec<u8> {
    let mut bytes = Vec::new();
    ring.encode(&mut bytes).expect("bounded");
    bytes
}

#[test]
fn rings_come_back_as_they_were_and_what_is_none_is_refused() {
    let (_, fleet) = fleet();
    for node in fleet.nodes() {
        let ring = source().ring(node, &fleet);
        assert_eq!(KeyRing::decode(&encoded(&ring)), Ok(ring));
    }
    let bytes = encoded(&source().ring(NodeId(12), &fleet));
    assert_eq!(bytes.len(), 10 + (4 + 4 + 1) * 34);
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        KeyRing::decode(&bytes).expect_err("changed")
    };
    assert_eq!(changed(0, RING_VERSION + 1), RingError::Version);
    assert_eq!(changed(1, 1), RingError::Version);
    assert_eq!(changed(8, 2), RingError::Length, "more orders secrets than there are");
    assert_eq!(changed(10, 1), RingError::Order, "node 1 twice");
    assert_eq!(changed(10 + 3 * 34, 12), RingError::Itself);
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(KeyRing::decode(&longer), Err(RingError::Length));
    // A list that is too long, with all its bytes.
    let links = RING_ENTRIES_MAX as u16 + 1;
    let (version, node) = (RING_VERSION, NodeId(0));
    let header = RingHeader { version, reserved: 0, node, links, market: 0, orders: 0 };
    let mut many = header.as_bytes().to_vec();
    for node in 1..=links {
        many.extend_from_slice(&node.to_le_bytes());
        many.extend_from_slice(&[0; 32]);
    }
    assert_eq!(KeyRing::decode(&many), Err(RingError::Length));
    assert!(many.len() < RING_BYTES_MAX);
}

proptest! {
    #[test]
    fn bytes_are_a_ring_or_an_error(
        noise in prop::collection::vec(any::<u8>(), 0..400),
        at in any::<prop::sample::Index>(), xor in 1u8..=255, cut in any::<prop::sample::Index>(),
    ) {
        // Whatever is read is written as it was.
        let check = |bytes: &[u8]| match KeyRing::decode(bytes) {
            Ok(ring) => encoded(&ring) == bytes,
            Err(_) => true,
        };
        prop_assert!(check(&noise));
        let mut likely = noise.clone();
        let head = [RING_VERSION, 0, 7, 0, (noise.len() % 9) as u8, 0, 1, 0, 1, 0];
        likely.splice(..likely.len().min(10), head);
        prop_assert!(check(&likely));
        let (_, fleet) = fleet();
        let mut bytes = encoded(&source().ring(NodeId(3), &fleet));
        prop_assert!(KeyRing::decode(&bytes[..cut.index(bytes.len())]).is_err());
        let at = at.index(bytes.len());
        bytes[at] ^= xor;
        prop_assert!(check(&bytes));
    }
}
