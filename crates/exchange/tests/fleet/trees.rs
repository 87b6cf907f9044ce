//! Trees change and proxies die under load: nothing is lost, repeated or reordered.

use exchange::{ExchangeConfig, ReplaceError, Role, Spread};
use overlay::hedging::Hedging;
use types::{Instrument, InstrumentId, Nanos, NodeId, Symbol};

use crate::{
    DEEP, FIRST, WIDE,
    common::MS,
    plain, sealed,
    world::{CALM, Fleet, Links, ROUGH},
};

const EVERY: u64 = 400 * Nanos::MICRO;

#[test]
fn trees_change_under_load_without_a_repair_or_a_second_copy() {
    for seed in 0..4 {
        let mut fleet = Fleet::new(&sealed(), CALM, seed);
        fleet.login();
        fleet.trade(100 * MS, EVERY);
        let before = (fleet.repairs(), fleet.resent());
        for (epoch, shape) in [(2, WIDE), (3, DEEP), (4, FIRST), (5, DEEP)] {
            assert!(fleet.on_root(|root, now, out| root.change_tree(now, shape, out)));
            assert!(
                !fleet.on_root(|root, now, out| root.change_tree(now, WIDE, out)),
                "one at a time"
            );
            fleet.trade(60 * MS, EVERY);
            let membership = fleet.root().membership().expect("a roll call");
            let change = *membership.changed().last().expect("changed");
            assert_eq!((change.epoch, membership.is_changing()), (epoch, false), "seed {seed}");
            assert!(change.settled_ns > 0 && change.settled_ns < 50 * MS, "{change:?}");
            assert_eq!(membership.tree().topology.depth(), shape.depth);
        }
        fleet.run(500 * MS);
        fleet.check(seed);
        assert_eq!((fleet.repairs(), fleet.resent()), before, "seed {seed}: nothing went astray");
        let edges = (0..6).map(|n| fleet.edge(n).receiver());
        assert!(edges.clone().all(|receiver| receiver.tree().epoch == 5));
        assert!(edges.clone().all(|receiver| receiver.stats().filter.stale_epoch == 0));
    }
}

/// Proxies 1 and 2 in the first tree; 3 is idle but in the wide one, 4 stands by; without a hedge
/// that hides a slow one.
fn with_standby() -> ExchangeConfig {
    let mut config = sealed();
    config.hedge = 0;
    config.options.shapes = vec![FIRST, WIDE];
    config.options.standby = 1;
    config
}

#[test]
fn a_straggler_is_replaced_under_load_and_nothing_is_lost() {
    for seed in 0..4 {
        let mut fleet = Fleet::new(&with_standby(), CALM, seed);
        let (slow, slower) = (NodeId(2), NodeId(4));
        fleet.slow[2] = 60_000;
        // One of those without a place is slower still: the other one is taken.
        fleet.slow[4] = 90_000;
        fleet.login();
        fleet.trade(2_000 * MS, EVERY);
        let trips: Vec<_> = fleet.root().membership().expect("a roll call").round_trips().collect();
        let of = |node: NodeId| trips.iter().find(|(of, _)| *of == node).and_then(|(_, ns)| *ns);
        assert!(of(slow) > of(NodeId(1)).map(|ns| ns + 90_000), "{trips:?}");
        assert!(of(slower) > of(slow), "{trips:?}");
        let owd = |fleet: &mut Fleet| {
            fleet.on_root(|root, now, _| root.publisher().delay().owd_g(now.now)).expect("rounds")
        };
        let (before, lost) = (owd(&mut fleet), (fleet.repairs(), fleet.resent()));
        let came = fleet.on_root(|root, now, out| root.replace_proxy(now, slow, None, out));
        assert_eq!(came, Ok(NodeId(3)), "seed {seed}");
        fleet.trade(1_000 * MS, EVERY);
        let after = owd(&mut fleet);
        assert!(after + 100_000 < before, "seed {seed}: {after} after {before}");
        let stats = |fleet: &Fleet, node: usize| {
            fleet.nodes[node].as_ref().and_then(Role::as_proxy).expect("a proxy").stats()
        };
        let (left, taken) = (stats(&fleet, 2).forwarded, stats(&fleet, 3).forwarded);
        assert!(taken > 500, "seed {seed}: {taken}");
        // In another shape, too, and back in the first.
        for shape in [WIDE, FIRST] {
            assert!(fleet.on_root(|root, now, out| root.change_tree(now, shape, out)));
            fleet.trade(100 * MS, EVERY);
        }
        fleet.run(500 * MS);
        fleet.check(seed);
        // What a slow one passes on last comes after the first that a quick one does, so it may be
        // asked for again: at most once by each of six receivers at each of three changes.
        assert_eq!(fleet.resent(), lost.1, "seed {seed}: nothing went astray");
        assert!(fleet.repairs() - lost.0 <= 18, "seed {seed}: {}", fleet.repairs() - lost.0);
        assert_eq!(stats(&fleet, 2).forwarded, left, "seed {seed}: it stays away");
        assert_eq!(fleet.root().benched(), [slow]);
    }
}

#[test]
fn what_can_not_be_replaced_is_refused_and_rough_links_lose_nothing() {
    for seed in 0..3 {
        let mut config = with_standby();
        config.hedge = 1;
        let mut fleet = Fleet::new(&config, ROUGH, seed);
        fleet.login();
        let mut replace = |old, new: Option<u16>| {
            fleet.on_root(|root, now, out| {
                root.replace_proxy(now, NodeId(old), new.map(NodeId), out)
            })
        };
        // Not the root, no receiver, nobody who stands by, nobody by one with a place.
        for node in [0, 3, 5, 99] {
            assert_eq!(replace(node, None), Err(ReplaceError::NoPlace), "{node}");
        }
        assert_eq!(replace(1, Some(2)), Err(ReplaceError::NoStandby));
        assert_eq!(replace(1, Some(4)), Ok(NodeId(4)));
        assert_eq!(replace(2, None), Err(ReplaceError::Busy));
        for old in [2, 4, 3] {
            fleet.trade(150 * MS, EVERY);
            let came = fleet.on_root(|root, now, out| {
                let first = root.benched().first().copied().filter(|_| old != 2);
                root.replace_proxy(now, NodeId(old), first, out)
            });
            assert!(came.is_ok(), "seed {seed}: {old} by {came:?}");
        }
        fleet.trade(150 * MS, EVERY);
        fleet.run(2_000 * MS);
        fleet.check(seed);
        let membership = fleet.root().membership().expect("a roll call");
        assert_eq!((membership.changed().len(), membership.deaths().len()), (4, 0), "seed {seed}");
    }
    let mut fleet = Fleet::new(&plain(), CALM, 0);
    let came = fleet.on_root(|root, now, out| root.replace_proxy(now, NodeId(1), None, out));
    assert_eq!(came, Err(ReplaceError::NoRollCall));
}

#[test]
fn a_dead_proxy_is_replaced_too() {
    let mut fleet = Fleet::new(&with_standby(), CALM, 3);
    fleet.login();
    fleet.kill(2);
    fleet.trade(600 * MS, EVERY);
    let came = fleet.on_root(|root, now, out| root.replace_proxy(now, NodeId(2), None, out));
    assert!(came.is_ok(), "{came:?}");
    fleet.trade(100 * MS, EVERY);
    let before = fleet.repairs();
    fleet.trade(200 * MS, EVERY);
    fleet.run(2_000 * MS);
    fleet.check(3);
    assert_eq!(fleet.repairs(), before, "its place is filled");
}

#[test]
fn rough_links_delay_a_change_and_lose_nothing() {
    for seed in 0..4 {
        let mut fleet = Fleet::new(&sealed(), ROUGH, seed);
        fleet.login();
        for shape in [WIDE, DEEP, FIRST] {
            assert!(fleet.on_root(|root, now, out| root.change_tree(now, shape, out)));
            fleet.trade(120 * MS, EVERY);
        }
        fleet.run(2_000 * MS);
        fleet.check(seed);
        let membership = fleet.root().membership().expect("a roll call");
        assert_eq!((membership.changed().len(), membership.deaths().len()), (3, 0), "seed {seed}");
        assert!(fleet.resent() > 0, "the links were bad");
    }
}

#[test]
fn a_dead_proxy_is_found_and_routed_around() {
    let mut config = sealed();
    config.hedge = 0;
    let mut fleet = Fleet::new(&config, CALM, 1);
    fleet.login();
    fleet.trade(50 * MS, EVERY);
    fleet.kill(2);
    fleet.trade(500 * MS, EVERY);
    let (repairs, dead) =
        (fleet.repairs(), fleet.root().publisher().failover_routes().dead().to_vec());
    assert_eq!(dead, [types::NodeId(2)]);
    assert!(repairs > 0, "without a hedge its receivers had to ask");
    let death = fleet.root().membership().expect("a roll call").deaths()[0];
    assert!((250 * MS..450 * MS).contains(&death.silent_ns), "{death:?}");
    fleet.run(300 * MS);
    let before = fleet.repairs();
    fleet.trade(200 * MS, EVERY);
    fleet.run(3_000 * MS);
    fleet.check(1);
    assert_eq!(fleet.repairs(), before, "everybody goes around it");
    // It stays dead in the next tree, which has it, too.
    assert!(fleet.on_root(|root, now, out| root.change_tree(now, WIDE, out)));
    fleet.trade(100 * MS, EVERY);
    fleet.run(500 * MS);
    fleet.check(1);
    assert_eq!(fleet.root().publisher().failover_routes().dead(), dead);
    assert_eq!(fleet.edge(0).receiver().tree().epoch, 2);
}

/// Two instruments, each with a tree of its own: proxies 1 and 2, and 3 and 4.
fn parallel() -> ExchangeConfig {
    let mut config = sealed();
    config.hedge = 0;
    let first = config.instruments[0];
    let symbol = Symbol::new("OTHER").expect("valid");
    config.instruments.push(Instrument { id: InstrumentId(2), symbol, ..first });
    config.options.shapes.clear();
    config.options.hedging = Hedging { planes: 2, ..Hedging::default() };
    config.options.spread = Spread::Symbols(Vec::new());
    config
}

#[test]
fn a_dead_proxy_of_one_tree_does_not_hurt_the_other() {
    let mut fleet = Fleet::new(&parallel(), CALM, 1);
    let asked = |fleet: &Fleet, stream: usize| {
        let of = |n| fleet.edge(n).receivers()[stream].stats().repairs_requested;
        (0..6).map(of).sum::<u64>()
    };
    // What the root says before anybody has met is repaired.
    let first = asked(&fleet, 1);
    fleet.login();
    fleet.trade(50 * MS, EVERY);
    fleet.kill(2);
    fleet.trade(500 * MS, EVERY);
    fleet.run(3_000 * MS);
    fleet.check(1);
    let root = fleet.root();
    let dead: Vec<_> = root.publishers().map(|of| of.failover_routes().dead().to_vec()).collect();
    assert_eq!(dead, [vec![types::NodeId(2)], Vec::new()]);
    let deaths: Vec<usize> = root.memberships().map(|known| known.deaths().len()).collect();
    assert_eq!(deaths, [1, 0]);
    assert!(asked(&fleet, 0) > first, "without a hedge its receivers had to ask");
    assert_eq!(asked(&fleet, 1), first);
    let stats = |node: usize| fleet.nodes[node].as_ref().and_then(exchange::Role::as_proxy);
    for node in [1, 3, 4] {
        let stats = stats(node).expect("a proxy").stats();
        assert!(stats.forwarded > 100 && stats.malformed == 0, "proxy {node}: {stats:?}");
    }
}

#[test]
fn parallel_trees_keep_their_shape_and_lose_nothing_over_rough_links() {
    for seed in 0..3 {
        let mut config = parallel();
        config.hedge = 1;
        let mut fleet = Fleet::new(&config, ROUGH, seed);
        fleet.login();
        assert!(!fleet.on_root(|root, now, out| root.change_tree(now, WIDE, out)));
        fleet.trade(300 * MS, EVERY);
        fleet.run(1_500 * MS);
        fleet.check(seed);
        let estimates = fleet.root().publishers().map(|of| of.stats().deadlines);
        assert!(estimates.into_iter().all(|deadlines| deadlines > 0), "a deadline in each");
    }
}

#[test]
fn nobody_watches_where_nobody_should() {
    let mut config = plain();
    config.hedge = 0;
    let mut fleet = Fleet::new(&config, CALM, 1);
    fleet.login();
    fleet.kill(2);
    fleet.trade(600 * MS, EVERY);
    fleet.run(3_000 * MS);
    fleet.check(1);
    assert!(fleet.root().publisher().failover_routes().is_empty());
    assert!(!fleet.on_root(|root, now, out| root.change_tree(now, WIDE, out)));
}

#[test]
fn a_root_that_slept_thinks_nobody_dead() {
    let links = Links { jitter_ns: 10_000, ..CALM };
    let mut fleet = Fleet::new(&sealed(), links, 1);
    fleet.login();
    let before = fleet.root().membership().expect("a roll call").stats();
    fleet.sleep(0, 3_000 * MS);
    fleet.run(500 * MS);
    let membership = fleet.root().membership().expect("a roll call");
    assert!(membership.stats().answers > before.answers);
    assert!(membership.deaths().is_empty());
}
