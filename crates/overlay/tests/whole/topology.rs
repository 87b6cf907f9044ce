//! Who serves whom: exactly one parent, distinct senders, both directions agree, for every policy.

use std::collections::BTreeSet;

use overlay::{
    hedging::{HedgePolicy, Hedging},
    topology::{DEPTH_MAX, ROOT, Topology, TopologyError, Tree},
};
use proptest::prelude::*;
use types::NodeId;

#[test]
fn default_tree_has_three_proxies_for_nine_receivers() {
    let tree = Topology::new(2, 3, 9).unwrap();
    assert_eq!((tree.layers(), tree.nodes()), (&[3, 9][..], 13));
    assert_eq!(tree.node_id(1, 8), Some(NodeId(12)));
    assert_eq!(tree.node_id(1, 9), None);
    assert_eq!(tree.locate(NodeId(4)), Some((1, 0)));
    assert_eq!((tree.locate(ROOT), tree.locate(NodeId(13))), (None, None));
    let children: Vec<_> = tree.children(NodeId(1), 0, 1, true).map(|node| node.0).collect();
    assert_eq!(children, [4, 5, 6, 7, 8, 9], "own children first, then the nieces");
    let wrapped: Vec<_> = tree.children(NodeId(3), 0, 1, true).map(|node| node.0).collect();
    assert_eq!(wrapped, [10, 11, 12, 4, 5, 6]);
}

#[test]
fn impossible_shapes_are_refused() {
    assert_eq!(Topology::new(0, 3, 9), Err(TopologyError::Depth(0)));
    assert_eq!(Topology::new(9, 3, 9), Err(TopologyError::Depth(9)));
    assert_eq!(Topology::new(2, 0, 9), Err(TopologyError::Fanout));
    assert_eq!(Topology::new(2, 3, 0), Err(TopologyError::EmptyLayer(0)));
    assert_eq!(Topology::new(2, 1, 40_000), Err(TopologyError::TooManyNodes(80_001)));
    assert!(Topology::new(1, 1, 65_534).is_ok());
}

#[test]
fn every_pair_of_layer_sizes_partitions_the_lower_one() {
    for (parents, children) in (1..=60).flat_map(|n| (1..=60).map(move |m| (n, m))) {
        let tree = Topology::from_layers(&[parents, children]).unwrap();
        for id in [0, 1, 7, 59, 3_601] {
            let mut seen = vec![0; children];
            for parent in 0..parents {
                let node = tree.node_id(0, parent).unwrap();
                for child in tree.children(node, id, 0, true) {
                    seen[tree.locate(child).unwrap().1] += 1;
                    assert_eq!(tree.parents(child, id, 0, true).next(), Some(node));
                }
            }
            assert!(seen.iter().all(|count| *count == 1), "{parents} -> {children}, id {id}");
        }
    }
}

#[test]
fn equals_the_papers_rule_where_sizes_are_multiples() {
    for (parents, fanout) in (1..=12).flat_map(|n| (1..=6).map(move |f| (n, f))) {
        let tree = Topology::from_layers(&[parents, parents * fanout]).unwrap();
        for (id, i) in (0..40).flat_map(|m| (0..parents).map(move |i| (m, i))) {
            let node = tree.node_id(0, i).unwrap();
            let ours: Vec<_> = tree.children(node, id, 0, true).collect();
            let paper: Vec<_> = (0..fanout)
                .map(|k| ((id as usize + i) * fanout + k) % (parents * fanout))
                .map(|index| tree.node_id(1, index).unwrap())
                .collect();
            assert_eq!(ours, paper);
        }
    }
}

#[test]
fn mixed_radix_reaches_every_path_to_every_leaf() {
    let tree = Topology::new(4, 2, 16).unwrap();
    let all: usize = tree.layers()[..3].iter().map(|size| *size as usize).product();
    for leaf in tree.receiver_ids() {
        let paths: BTreeSet<Vec<u16>> = (0..all as u64)
            .map(|id| {
                let above = |node: &NodeId| tree.parents(*node, id, 0, true).next();
                std::iter::successors(Some(leaf), above).map(|node| node.0).collect()
            })
            .collect();
        assert_eq!(paths.len(), all);
    }
}

/// Longest run of messages for which a leaf keeps its parent.
fn longest_run(tree: &Topology, leaf: NodeId, messages: u64, dynamic: bool) -> u64 {
    let parent = |id| tree.parents(leaf, id, 0, dynamic).next();
    let (mut run, mut longest) = (1, 1);
    for id in 1..messages {
        run = if parent(id) == parent(id - 1) { run + 1 } else { 1 };
        longest = longest.max(run);
    }
    longest
}

proptest! {
    #[test]
    fn a_leaf_has_another_parent_for_every_message(layers in layers(), first in any::<u32>()) {
        let tree = Topology::from_layers(&layers).unwrap();
        let above = layers.len().checked_sub(2).map_or(1, |above| layers[above]);
        let leaf = tree.receiver_ids().nth(first as usize % tree.receivers()).unwrap();
        let longest = longest_run(&tree, leaf, 3_000, true);
        prop_assert_eq!(longest, if above > 1 { 1 } else { 3_000 });
        // The control: a leaf whose parents do not change.
        prop_assert_eq!(longest_run(&tree, leaf, 3_000, false), 3_000);
    }
}

#[test]
fn a_leaf_of_the_usual_trees_has_another_parent_for_every_message() {
    // By the digits the other way round it was 10 and 100 messages.
    for layers in [&[10, 100, 1_000][..], &[10, 100, 1_000, 10_000]] {
        let tree = Topology::from_layers(layers).unwrap();
        let leaf = tree.receiver_ids().nth(7).unwrap();
        assert_eq!(longest_run(&tree, leaf, 20_000, true), 1);
    }
}

#[test]
fn attempts_walk_through_every_way_up() {
    let tree = Topology::new(3, 3, 27).unwrap();
    for (leaf, hedge) in tree.receiver_ids().flat_map(|leaf| (0..3).map(move |h| (leaf, h))) {
        let ways: BTreeSet<Vec<u16>> = (0..((hedge + 1) * (hedge + 1)) as u8)
            .map(|attempt| {
                let up = |node: &NodeId| tree.up_hop(*node, hedge, 5, attempt);
                std::iter::successors(Some(leaf), up).map(|node| node.0).collect()
            })
            .collect();
        assert_eq!(ways.len(), (hedge + 1) * (hedge + 1));
        assert!(ways.iter().all(|way| way.len() == 4 && way[3] == 0));
        let first = tree.up_candidates(leaf, hedge, 5).nth(hedge);
        assert_eq!(tree.up_hop(leaf, hedge, 5, hedge as u8), first);
    }
}

fn layers() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1usize..60, 1..5)
}

proptest! {
    #[test]
    fn children_and_parents_are_inverse(
        layers in layers(), id in any::<u64>(), hedge in 0usize..5, dynamic in any::<bool>(),
    ) {
        let tree = Topology::from_layers(&layers).unwrap();
        let mut sent = BTreeSet::new();
        for node in (0..tree.nodes() as u16).map(NodeId) {
            let own: Vec<_> = tree.children(node, id, 0, dynamic).collect();
            let all: Vec<_> = tree.children(node, id, hedge, dynamic).collect();
            prop_assert!(all.starts_with(&own));
            for (position, child) in own.iter().enumerate() {
                let found = tree.own_child(node, *child, id, dynamic);
                prop_assert_eq!(found, Some((position, own.len())));
            }
            for child in all {
                prop_assert!(sent.insert((node, child)), "one copy per sender and child");
            }
        }
        let mut heard = BTreeSet::new();
        for node in (1..tree.nodes() as u16).map(NodeId) {
            let (layer, _) = tree.locate(node).unwrap();
            let parents: Vec<_> = tree.parents(node, id, hedge, dynamic).collect();
            let above = if layer == 0 { 1 } else { layers[layer - 1] };
            prop_assert_eq!(parents.len(), hedge.min(above - 1) + 1);
            prop_assert_eq!(tree.copies(node, hedge), parents.len());
            heard.extend(parents.into_iter().map(|parent| (parent, node)));
        }
        prop_assert_eq!(sent, heard);
    }

    #[test]
    fn unknown_nodes_have_no_relations(layers in layers(), node in any::<u16>()) {
        let tree = Topology::from_layers(&layers).unwrap();
        if node as usize >= tree.nodes() {
            prop_assert_eq!(tree.children(NodeId(node), 1, 1, true).count(), 0);
            prop_assert_eq!(tree.parents(NodeId(node), 1, 1, true).count(), 0);
            prop_assert_eq!(tree.up_hop(NodeId(node), 1, 1, 1), None);
            prop_assert_eq!(tree.own_child(NodeId(node), NodeId(1), 1, true), None);
        }
    }
}

const POLICIES: [HedgePolicy; 3] =
    [HedgePolicy::Sibling, HedgePolicy::PathDisjoint, HedgePolicy::ExtraFanout];

/// What the definition says, node by node: who sends message `id` to whom.
fn sent(tree: &Topology, id: u64, hedge: usize, dynamic: bool) -> Vec<(NodeId, NodeId)> {
    (0..tree.nodes() as u16)
        .map(NodeId)
        .flat_map(|node| tree.children(node, id, hedge, dynamic).map(move |child| (node, child)))
        .collect()
}

#[test]
fn every_node_has_one_parent_for_all_sizes_up_to_200() {
    for (parents, children) in (1..=200).flat_map(|n| (1..=200).map(move |m| (n, m))) {
        let tree = Topology::from_layers(&[parents, children]).unwrap();
        let ids: &[u64] = if parents * children < 900 { &[0, 1, 2, 5] } else { &[] };
        let some = (parents as u64 * 7 + children as u64) % 211;
        for id in ids.iter().copied().chain([some]) {
            let mut seen = vec![0; children];
            for parent in 0..parents {
                let node = tree.node_id(0, parent).unwrap();
                for child in tree.children(node, id, 0, true) {
                    seen[tree.locate(child).unwrap().1] += 1;
                    assert_eq!(tree.parents(child, id, 0, true).next(), Some(node));
                }
            }
            assert!(seen.iter().all(|count| *count == 1), "{parents} -> {children}, id {id}");
        }
    }
}

#[test]
fn every_message_of_a_whole_turn_is_a_rotation() {
    // For one pair of sizes m enters as m mod parents only, so a turn stands for all m.
    for (parents, children) in [(7, 11), (11, 7), (13, 13), (199, 200), (200, 199), (1, 200)] {
        let tree = Topology::from_layers(&[parents, children]).unwrap();
        for id in 0..parents as u64 {
            let far = id + 1_000_003 * parents as u64;
            assert_eq!(sent(&tree, id, 0, true), sent(&tree, far, 0, true));
            let heard: BTreeSet<NodeId> =
                sent(&tree, id, 0, true).into_iter().map(|(_, child)| child).collect();
            assert_eq!(heard.len(), parents + children);
        }
    }
}

#[test]
fn further_parents_are_distinct_and_as_many_as_there_can_be() {
    for (policy, parents) in [HedgePolicy::Sibling, HedgePolicy::PathDisjoint]
        .into_iter()
        .flat_map(|policy| (1..=200).map(move |n: usize| (policy, n)))
    {
        let layers = [parents.div_ceil(10), parents, 2 * parents + 1];
        let hedging = Hedging { policy, ..Hedging::default() };
        let tree = Topology::from_layers(&layers).unwrap().with_hedging(hedging).unwrap();
        for hedge in [0, 1, 2, 3, parents + 5] {
            let receiver = tree.receiver_ids().nth(parents / 2).unwrap();
            let senders: Vec<NodeId> = tree.parents(receiver, 12_345, hedge, true).collect();
            let distinct: BTreeSet<NodeId> = senders.iter().copied().collect();
            assert_eq!(
                (senders.len(), distinct.len()),
                (hedge.min(parents - 1) + 1, senders.len())
            );
            for sender in senders {
                let mut children = tree.children(sender, 12_345, hedge, true);
                assert!(children.any(|child| child == receiver), "{policy:?} {parents} {hedge}");
            }
        }
    }
}

#[test]
fn path_disjoint_parents_have_different_parents() {
    let hedging = Hedging { policy: HedgePolicy::PathDisjoint, ..Hedging::default() };
    let tree = Topology::new(3, 10, 1_000).unwrap().with_hedging(hedging).unwrap();
    let plain = Topology::new(3, 10, 1_000).unwrap();
    let mut shared = [0, 0];
    for id in 0..200 {
        let receiver = NodeId(tree.receiver_ids().nth(id as usize * 5).unwrap().0);
        for (slot, tree) in [&tree, &plain].into_iter().enumerate() {
            let above: BTreeSet<NodeId> = tree
                .parents(receiver, id, 2, true)
                .map(|parent| tree.parents(parent, id, 0, true).next().unwrap())
                .collect();
            shared[slot] += usize::from(above.len() < 3);
        }
    }
    assert_eq!(shared[0], 0, "never two with the same parent");
    assert!(shared[1] > 150, "neighbours mostly have");
}

#[test]
fn spare_proxies_send_the_second_copies() {
    let hedging = Hedging { policy: HedgePolicy::ExtraFanout, spares: 1, ..Hedging::default() };
    let tree = Topology::new(3, 3, 27).unwrap().with_hedging(hedging).unwrap();
    assert_eq!(tree.spare_ids().count(), 4, "one in layer 0, three in layer 1, as in the paper");
    assert_eq!((tree.nodes(), tree.proxy_ids().count()), (44, 16));
    for id in 0..30 {
        for (spare, nieces) in tree.spare_ids().zip([9, 9, 9, 9]) {
            assert_eq!(tree.children(spare, id, 1, true).count(), nieces, "F^2");
        }
        for receiver in tree.receiver_ids() {
            let parents: Vec<NodeId> = tree.parents(receiver, id, 1, true).collect();
            assert_eq!(parents.len(), 2);
            assert!(tree.spare_ids().any(|spare| spare == parents[1]));
            let of_own = tree.parents(parents[0], id, 0, true).next();
            assert_eq!(tree.parents(parents[1], id, 1, true).next(), of_own, "the group's parent");
        }
    }
    let planes = Hedging { planes: 2, ..hedging };
    assert_eq!(tree.with_hedging(planes), Err(TopologyError::SparesAndPlanes));
}

#[test]
fn planes_share_the_messages_and_the_receivers() {
    let hedging = Hedging { planes: 3, ..Hedging::default() };
    let tree = Topology::new(3, 3, 27).unwrap().with_hedging(hedging).unwrap();
    assert_eq!((tree.layers(), tree.nodes()), (&[9, 27, 27][..], 64));
    for id in 0..30u64 {
        let busy: BTreeSet<NodeId> =
            sent(&tree, id, 1, true).into_iter().map(|(node, _)| node).collect();
        assert_eq!(busy.len(), 1 + 3 + 9, "one plane and the root");
        let heard = sent(&tree, id, 1, true).into_iter().filter(|(_, to)| tree.is_receiver(*to));
        assert_eq!(heard.count(), 2 * 27);
        for node in busy.iter().filter(|node| **node != ROOT) {
            let next = tree.dense_id(*node, id + 3);
            assert_eq!(next, tree.dense_id(*node, id) + 1);
        }
    }
    let up: BTreeSet<NodeId> =
        tree.receiver_ids().filter_map(|node| tree.up_hop(node, 1, 1, 0)).collect();
    assert!(up.len() > 18, "orders spread over all planes");
    for node in tree.receiver_ids().chain(tree.proxy_ids()) {
        let way = std::iter::successors(Some(node), |node| tree.up_hop(*node, 1, 1, 0));
        assert_eq!(way.last(), Some(ROOT));
    }
}

proptest! {
    /// Trees in parallel: every (stream, message) gives each node of its plane exactly one parent
    /// (and H more), nodes of other planes nothing, and what the plane's own tree would give.
    #[test]
    fn parallel_trees_share_the_receivers_and_nothing_else(
        layers in prop::collection::vec(1usize..20, 1..5),
        planes in 1u16..5,
        id in any::<u64>(),
        hedge in 0usize..4,
        dynamic in any::<bool>(),
    ) {
        let single = Topology::from_layers(&layers).unwrap();
        let whole = single.with_hedging(Hedging { planes, ..Hedging::default() }).unwrap();
        prop_assert_eq!(whole.with_only_plane(planes), None);
        let mut used = BTreeSet::new();
        for plane in 0..planes {
            let tree = whole.with_only_plane(plane).unwrap();
            let of_plane = |node: NodeId| match whole.plane_of_proxy(node) {
                Some(own) => own == plane,
                None => true,
            };
            let all = sent(&tree, id, hedge, dynamic);
            for (from, to) in &all {
                prop_assert!(of_plane(*from) && of_plane(*to), "{:?} to {:?}", from, to);
            }
            let own = sent(&tree, id, 0, dynamic);
            let mut heard: Vec<NodeId> = own.iter().map(|(_, to)| *to).collect();
            heard.sort_unstable();
            let due: Vec<NodeId> =
                (1..tree.nodes() as u16).map(NodeId).filter(|node| of_plane(*node)).collect();
            prop_assert_eq!(heard, due, "exactly one parent each");
            for node in (1..tree.nodes() as u16).map(NodeId) {
                let parents: BTreeSet<_> = tree.parents(node, id, hedge, dynamic).collect();
                let senders: BTreeSet<_> =
                    all.iter().filter(|(_, to)| *to == node).map(|(from, _)| *from).collect();
                prop_assert_eq!(parents, senders);
            }
            let alone = sent(&single, id, hedge, dynamic).len();
            prop_assert_eq!(all.len(), alone, "as the one tree would send it");
            prop_assert_eq!(tree.proxy_ids().count() * usize::from(planes), whole.proxy_ids().count());
            used.extend(tree.proxy_ids());
        }
        prop_assert_eq!(used, whole.proxy_ids().collect::<BTreeSet<_>>(), "each in one tree");
        // Negative control: planes that messages take turns in do not keep to one.
        let next = sent(&whole, id.wrapping_add(1), hedge, dynamic);
        let shared = planes == 1 || layers.len() == 1;
        prop_assert!(shared || id == u64::MAX || next != sent(&whole, id, hedge, dynamic));
    }
}

#[test]
fn layers_may_have_an_h_of_their_own_and_messages_too() {
    let mut layers = [Hedging::TREE; DEPTH_MAX];
    layers[2] = 2;
    let hedging = Hedging { layers, ..Hedging::default() };
    let topology = Topology::new(3, 3, 27).unwrap().with_hedging(hedging).unwrap();
    let tree = Tree { topology, hedge: 1, dynamic: true, epoch: 1, stream: 0, round_ns: 1 };
    let (inner, leaf) = (NodeId(4), topology.receiver_ids().next().unwrap());
    assert_eq!((tree.copies(NodeId(1)), tree.copies(inner), tree.copies(leaf)), (1, 2, 3));
    assert_eq!((tree.children(NodeId(1), 5).count(), tree.children(inner, 5).count()), (6, 9));
    assert_eq!(tree.parents(leaf, 5).count(), 3);
    assert_eq!(tree.children_stamped(inner, 5, 1).count(), 3, "a stamp of 1 is H = 0");
    assert_eq!(tree.parents_stamped(leaf, 5, 2).count(), 2);
    assert_eq!(tree.parents_stamped(leaf, 5, 0).count(), 3, "no stamp");
}

fn hedgings() -> impl Strategy<Value = Hedging> {
    (0usize..3, 0u8..4, 1u16..4).prop_map(|(policy, spares, planes)| {
        let policy = POLICIES[policy];
        let planes = if policy == HedgePolicy::ExtraFanout { 1 } else { planes };
        Hedging { policy, spares, planes, ..Hedging::default() }
    })
}

proptest! {
    #[test]
    fn children_and_parents_are_inverse_under_every_policy(
        layers in prop::collection::vec(1usize..40, 1..5),
        hedging in hedgings(),
        id in any::<u64>(),
        hedge in 0usize..5,
        dynamic in any::<bool>(),
    ) {
        let tree = Topology::from_layers(&layers).unwrap().with_hedging(hedging).unwrap();
        let all = sent(&tree, id, hedge, dynamic);
        let sent: BTreeSet<_> = all.iter().copied().collect();
        prop_assert_eq!(all.len(), sent.len(), "one copy per sender and child");
        let mut heard = BTreeSet::new();
        for node in (1..tree.nodes() as u16).map(NodeId) {
            let parents: Vec<_> = tree.parents(node, id, hedge, dynamic).collect();
            prop_assert!(parents.len() <= tree.copies(node, hedge));
            heard.extend(parents.into_iter().map(|parent| (parent, node)));
        }
        let spare = |node: &NodeId| tree.spare_ids().any(|spare| spare == *node);
        let idle = |(from, _): &(NodeId, NodeId)| {
            spare(from) && tree.parents(*from, id, hedge, dynamic).next().is_none()
        };
        let sent: BTreeSet<_> = sent.into_iter().filter(|pair| !idle(pair)).collect();
        let heard: BTreeSet<_> = heard.into_iter().filter(|pair| !idle(pair)).collect();
        prop_assert_eq!(sent, heard);
    }
}

proptest! {
    /// Whoever changes places takes over everything that was the other's, and nobody else notices.
    #[test]
    fn an_exchange_is_a_renaming(
        layers in prop::collection::vec(1usize..12, 2..5), hedging in hedgings(),
        idle in 1u16..6, swaps in prop::collection::vec((1u16..20, 1u16..20), 1..5),
        id in any::<u64>(), hedge in 0usize..4, dynamic in any::<bool>(), attempt in any::<u8>(),
    ) {
        let tree = Topology::from_layers(&layers).unwrap();
        let Ok(tree) = tree.with_hedging(hedging) else { return Ok(()) };
        let first = tree.receiver_ids().next().unwrap().0;
        let Ok(plain) = tree.with_receivers_at(NodeId(first + idle)) else { return Ok(()) };
        let mut seated = plain;
        for (a, b) in swaps {
            let proxies = a < first + idle && b < first + idle;
            let next = seated.with_exchanged(NodeId(a), NodeId(b));
            prop_assert!(proxies || a == b || next.is_none());
            seated = next.unwrap_or(seated);
        }
        let seating = *seated.seating();
        let renamed = |nodes: Vec<NodeId>| -> Vec<NodeId> {
            nodes.into_iter().map(|node| seating.node(node.0.into())).collect()
        };
        prop_assert!(seated.receiver_ids().eq(plain.receiver_ids()));
        prop_assert_eq!(seated.idle_ids().count(), usize::from(idle));
        prop_assert!(seated.idle_ids().all(|node| seated.locate(node).is_none()));
        for place in (0..plain.id_end() as u16).map(NodeId) {
            let node = seating.node(place.0.into());
            prop_assert_eq!(seated.locate(node), plain.locate(place));
            let down = |tree: &Topology, node| tree.children(node, id, hedge, dynamic).collect();
            prop_assert_eq!(down(&seated, node), renamed(down(&plain, place)));
            let up = |tree: &Topology, node| tree.parents(node, id, hedge, dynamic).collect();
            prop_assert_eq!(up(&seated, node), renamed(up(&plain, place)));
            let ways = |tree: &Topology, node| tree.up_candidates(node, hedge, 3).collect();
            prop_assert_eq!(ways(&seated, node), renamed(ways(&plain, place)));
            let hop = |tree: &Topology, node| {
                tree.up_hop(node, hedge, 3, attempt).into_iter().collect()
            };
            prop_assert_eq!(hop(&seated, node), renamed(hop(&plain, place)));
            for child in plain.children(place, id, 0, dynamic) {
                let theirs = seated.own_child(node, seating.node(child.0.into()), id, dynamic);
                prop_assert_eq!(theirs, plain.own_child(place, child, id, dynamic));
            }
        }
    }
}
