//! The tree of a group of roots: changed, proxies replaced, while leaders go and come.

use exchange::{ExchangeConfig, ReplaceError, TreeShape};
use overlay::membership::RollCallConfig;
use types::{Nanos, NodeId};

use crate::{
    common::MS,
    plain, sealed,
    world::{CALM, Group, Links, MEMBERS, ROUGH},
};

const EVERY: u64 = 2 * MS;
const FIRST: TreeShape = TreeShape { depth: 2, fanout: 2 };
const WIDE: TreeShape = TreeShape { depth: 2, fanout: 1 };

/// Proxies 1 and 2 of the first tree; 3 and 4, which only the wide one has work for; 5 and 6 that stand by.
fn changeable(config: ExchangeConfig) -> ExchangeConfig {
    let mut config = config;
    config.options.roll_call = Some(RollCallConfig::default());
    config.options.shapes = vec![FIRST, WIDE];
    config.options.standby = 2;
    config
}

fn begun(config: &ExchangeConfig, links: Links, seed: u64) -> Group {
    let mut group = Group::new(config, links, seed);
    assert!(group.leader().is_some(), "seed {seed}: somebody leads");
    group.login_all();
    group.trade(100 * MS, EVERY);
    group
}

fn leader(group: &Group) -> usize {
    group.leader().expect("a leader")
}

/// What the leader says of a replacement.
fn replace(group: &mut Group, old: u16, new: Option<u16>) -> Result<NodeId, ReplaceError> {
    let (n, mut told) = (leader(group), Err(ReplaceError::Busy));
    group.on_root(n, |root, now, out| {
        told = root.replace_proxy(now, NodeId(old), new.map(NodeId), out);
    });
    told
}

fn change(group: &mut Group, shape: TreeShape) -> bool {
    let (n, mut begun) = (leader(group), false);
    group.on_root(n, |root, now, out| begun = root.change_tree(now, shape, out));
    begun
}

/// All roots have the tree that their log says, and all nodes that live have it too.
fn one_tree(group: &Group, what: &str) -> u32 {
    let record = group.root(leader(group)).engine().nodes().tree().clone();
    let epoch = record.changes + 1;
    let tree = *group.root(leader(group)).membership().expect("a roll call").tree();
    assert_eq!(tree.epoch, epoch, "{what}");
    for machine in group.machines.iter().filter(|machine| machine.role.is_some()) {
        let root = machine.root().expect("a root");
        let own = root.membership().expect("a roll call").tree();
        assert_eq!((root.engine().nodes().tree(), own), (&record, &tree), "{what}");
    }
    for role in group.nodes.iter().flatten() {
        if let Some(edge) = role.as_edge() {
            assert_eq!(edge.receiver().tree().topology, tree.topology, "{what}");
            assert_eq!(edge.receiver().tree().epoch, epoch, "{what}");
        }
    }
    epoch
}

#[test]
fn a_group_changes_its_tree_and_replaces_proxies_whoever_leads() {
    for seed in 0..6 {
        let (config, links) = if seed % 2 == 0 { (plain(), CALM) } else { (sealed(), ROUGH) };
        let mut group = begun(&changeable(config), links, seed);
        let what = format!("seed {seed}");
        assert_eq!(one_tree(&group, &what), 1);
        assert!(change(&mut group, WIDE), "{what}");
        assert!(!change(&mut group, FIRST), "{what}: one at a time");
        group.trade(200 * MS, EVERY);
        assert_eq!(one_tree(&group, &what), 2);
        assert!(change(&mut group, FIRST), "{what}");
        group.trade(200 * MS, EVERY);
        // Another leads: what it has is what the log says.
        let old = leader(&group);
        group.sleep(old, 1_200 * MS);
        group.run(1_000 * MS);
        let other = leader(&group);
        group.run(700 * MS);
        group.trade(200 * MS, EVERY);
        assert!(other != old && leader(&group) == other, "{what}");
        assert_eq!(one_tree(&group, &what), 3);
        assert!(replace(&mut group, 1, None).is_ok(), "{what}");
        group.trade(200 * MS, EVERY);
        assert_eq!(one_tree(&group, &what), 4);
        assert_eq!(group.root(other).benched(), [NodeId(1)], "{what}");
        group.run(1_500 * MS);
        group.check(&what);
    }
}

#[test]
fn a_leader_dies_at_any_moment_of_a_change_and_the_next_one_goes_on_with_it() {
    let mut committed = 0;
    for seed in 0..24 {
        let (config, links) = if seed % 2 == 0 { (plain(), CALM) } else { (sealed(), ROUGH) };
        let mut group = begun(&changeable(config), links, seed);
        let what = format!("seed {seed}");
        let (old, before) = (leader(&group), 1);
        match seed % 3 {
            0 => assert!(change(&mut group, WIDE), "{what}"),
            1 => assert!(replace(&mut group, 1, Some(3)).is_ok(), "{what}"),
            _ => {
                group.alone[old] = true;
                assert!(replace(&mut group, 2, Some(4)).is_ok(), "{what}");
            }
        }
        // From before anybody has it in the log to after everybody has changed.
        group.run(seed * 150 * Nanos::MICRO);
        group.kill(old);
        group.run(1_500 * MS);
        assert_ne!(leader(&group), old, "{what}");
        group.trade(200 * MS, EVERY);
        let epoch = one_tree(&group, &what);
        assert!(seed % 3 != 2 || epoch == before, "{what}: nobody committed it");
        committed += u32::from(epoch > before);
        // And it is changed again, by the new one.
        assert!(replace(&mut group, if epoch > before { 2 } else { 1 }, None).is_ok(), "{what}");
        group.trade(200 * MS, EVERY);
        group.alone = [false; MEMBERS];
        group.start(old).expect("its own journal");
        group.trade(200 * MS, EVERY);
        group.run(1_500 * MS);
        assert_eq!(one_tree(&group, &what), epoch + 1, "{what}");
        assert!(group.clients.iter().all(|client| !client.closed), "{what}: sessions go on");
        group.check(&what);
    }
    assert!(committed > 8, "changes survive leaders: {committed}");
}

/// As an operator replaces a zone's proxies at once: one change of the tree.
#[test]
fn two_proxies_are_replaced_in_one_change_or_none() {
    let mut group = begun(&changeable(plain()), CALM, 3);
    let all = |group: &mut Group, wanted: &[(u16, Option<u16>)]| {
        let wanted: Vec<_> =
            wanted.iter().map(|(old, new)| (NodeId(*old), new.map(NodeId))).collect();
        let (n, mut told) = (leader(group), Err(ReplaceError::Busy));
        group.on_root(n, |root, now, out| told = root.replace_proxies(now, &wanted, out));
        told
    };
    let standby: Vec<NodeId> = {
        let root = group.root(leader(&group));
        root.membership().expect("a roll call").tree().topology.idle_ids().collect()
    };
    assert_eq!(standby.len(), 4, "{standby:?}");
    assert_eq!(all(&mut group, &[(1, None), (99, None)]), Err(ReplaceError::NoPlace));
    assert_eq!(all(&mut group, &[(1, Some(2))]), Err(ReplaceError::NoStandby));
    let come = all(&mut group, &[(1, None), (2, None)]).expect("two stand by");
    assert!(come.len() == 2 && come.iter().all(|node| standby.contains(node)), "{come:?}");
    group.trade(200 * MS, EVERY);
    let root = group.root(leader(&group));
    assert_eq!(root.membership().expect("a roll call").changed().len(), 1);
    assert_eq!(root.benched(), [NodeId(1), NodeId(2)]);
    assert_eq!(one_tree(&group, "two"), 3);
    group.run(1_500 * MS);
    group.check("two");
}

/// As a plan is applied: a whole seating in one change, more often than a record has room for.
#[test]
fn a_seating_is_changed_at_once_as_often_as_is_wanted() {
    let mut group = begun(&changeable(plain()), CALM, 5);
    let arrange = |group: &mut Group, wanted: &[u16]| {
        let wanted: Vec<NodeId> = wanted.iter().copied().map(NodeId).collect();
        let (n, mut told) = (leader(group), Err(ReplaceError::Busy));
        group.on_root(n, |root, now, out| told = root.arrange_proxies(now, &wanted, out));
        told
    };
    let seated = |group: &Group| -> Vec<u16> {
        let tree = *group.root(leader(group)).membership().expect("a roll call").tree();
        (0..2).filter_map(|at| tree.topology.node_id(0, at)).map(|node| node.0).collect()
    };
    assert_eq!(seated(&group), [1, 2]);
    assert_eq!(arrange(&mut group, &[1, 2]), Ok(0));
    assert_eq!(arrange(&mut group, &[1]), Err(ReplaceError::NoPlace));
    assert_eq!(arrange(&mut group, &[5, 5]), Err(ReplaceError::NoPlace));
    assert_eq!(arrange(&mut group, &[1, 99]), Err(ReplaceError::NoStandby));
    for round in 0..14u16 {
        // Two exchange their places; others come; those leave again.
        for wanted in [[2, 1], [5, 6], [1, 2]] {
            let steps = arrange(&mut group, &wanted).expect("they answer");
            assert!(steps >= 2, "round {round}: {steps}");
            group.trade(60 * MS, EVERY);
            assert_eq!(seated(&group), wanted, "round {round}");
        }
    }
    // A leader that comes later has the same tree from the log.
    group.trade(200 * MS, EVERY);
    let epoch = one_tree(&group, "seating");
    assert!(epoch > 64, "the record began anew on the way: {epoch}");
    group.run(1_500 * MS);
    group.check("seating");
}

/// As a plan of another shape is applied: the options need not have it.
#[test]
fn a_tree_of_any_shape_that_the_proxies_suffice_for_is_begun_at_once() {
    let mut group = begun(&changeable(plain()), CALM, 6);
    let arrange = |group: &mut Group, shape: TreeShape, wanted: &[u16]| {
        let wanted: Vec<NodeId> = wanted.iter().copied().map(NodeId).collect();
        let (n, mut told) = (leader(group), Err(ReplaceError::Busy));
        group.on_root(n, |root, now, out| told = root.arrange_tree(now, shape, &wanted, out));
        told
    };
    let receivers = {
        let root = group.root(leader(&group));
        root.membership().expect("a roll call").tree().topology.receivers()
    };
    let shape = |depth, fanout| TreeShape { depth, fanout };
    let too_deep = arrange(&mut group, shape(4, 1), &[1]);
    assert_eq!(
        too_deep,
        Err(ReplaceError::NoShape),
        "three layers of {receivers}, and six proxies"
    );
    // One proxy above all others; none at all; the first shape again.
    let deep = [5, 1, 2];
    for (shape, wanted) in [(shape(3, 2), &deep[..]), (shape(1, receivers), &[]), (FIRST, &[2, 6])]
    {
        let steps = arrange(&mut group, shape, wanted).expect("they answer");
        assert!(steps >= 1, "{shape:?}");
        group.trade(100 * MS, EVERY);
        let tree = *group.root(leader(&group)).membership().expect("a roll call").tree();
        assert_eq!(tree.topology.depth(), shape.depth);
        let layers = 0..shape.depth - 1;
        let placed = layers
            .flat_map(|layer| (0..).map_while(move |at| tree.topology.node_id(layer, at)))
            .map(|node| node.0);
        assert_eq!(placed.collect::<Vec<_>>(), wanted, "{shape:?}");
        one_tree(&group, "shaped");
    }
    group.run(1_500 * MS);
    group.check("shaped");
}

#[test]
fn control_a_follower_changes_nothing() {
    let mut group = begun(&changeable(plain()), CALM, 4);
    let follower = (leader(&group) + 1) % MEMBERS;
    let mut told = None;
    group.on_root(follower, |root, now, out| {
        told =
            Some((root.replace_proxy(now, NodeId(1), None, out), root.change_tree(now, WIDE, out)));
    });
    assert_eq!(told, Some((Err(ReplaceError::Follows), false)));
    group.trade(100 * MS, EVERY);
    assert_eq!(one_tree(&group, "control"), 1);
}
