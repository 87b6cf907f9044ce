//! Members whose journals give up what a snapshot holds.

use exchange::ExchangeConfig;

use crate::{
    common::MS,
    plain, sealed,
    world::{CALM, Group, Links, MEMBERS, ROUGH},
};

const TRADE_EVERY: u64 = 2 * MS;

fn begun(config: &ExchangeConfig, links: Links, seed: u64, snapshot_every: u64) -> Group {
    let mut group = Group::new(config, links, seed);
    for n in 0..MEMBERS {
        group.machines[n].snapshot_every = snapshot_every;
        group.member(n, |member, _, _| member.take_snapshots_every(snapshot_every));
    }
    group.login_all();
    group
}

fn installed(group: &Group, n: usize) -> u64 {
    group.machines[n].member().expect("it runs").replica().counts().installed
}

/// A member that was away while the others gave up what it lacks; who leads, and who it is.
fn one_far_behind(config: &ExchangeConfig, links: Links, seed: u64) -> (Group, usize, usize) {
    let mut group = begun(config, links, seed, 40);
    group.trade(100 * MS, TRADE_EVERY);
    let leader = group.leader().expect("a leader");
    let away = (leader + 1) % MEMBERS;
    let had = group.machines[away].member().expect("it runs").replica().last();
    group.kill(away);
    group.trade(1_200 * MS, TRADE_EVERY);
    let first = group.machines[leader].first();
    assert!(first > had + 1, "seed {seed}: the leader's log begins at {first}, {had} were there");
    (group, leader, away)
}

#[test]
fn one_that_was_away_gets_a_snapshot_and_takes_part_again() {
    for (config, links, seed) in [(plain(), CALM, 1), (sealed(), ROUGH, 2), (plain(), ROUGH, 3)] {
        let (mut group, leader, away) = one_far_behind(&config, links, seed);
        group.start(away).expect("its disk is whole");
        group.trade(300 * MS, TRADE_EVERY);
        group.run(1_500 * MS);
        group.check(&format!("seed {seed}, it is back"));
        assert!(installed(&group, away) >= 1, "seed {seed}");

        // Without the one that led, the others go on, and everybody's stream is whole.
        group.kill(leader);
        group.run(1_500 * MS);
        group.trade(200 * MS, TRADE_EVERY);
        group.run(1_000 * MS);
        group.start(leader).expect("its disk is whole");
        group.run(1_500 * MS);
        group.check(&format!("seed {seed}, the leader was away"));
    }
}

#[test]
fn all_go_on_from_their_snapshots() {
    let (mut group, leader, away) = one_far_behind(&plain(), CALM, 5);
    let before = group.root(leader).log().len();
    for n in (0..MEMBERS).filter(|n| *n != away) {
        group.kill(n);
    }
    (0..MEMBERS).for_each(|n| group.start(n).expect("its disk is whole"));
    group.run(2_000 * MS);
    group.trade(100 * MS, TRADE_EVERY);
    group.run(1_500 * MS);
    group.check("after a stop of all");
    assert!(group.root(leader).log().len() > before && before > 500, "{before} inputs");
    assert_eq!(group.machines.iter().filter(|machine| machine.first() > 1).count(), MEMBERS);
}

/// The same without snapshots: the log brings everything, and nothing is installed.
#[test]
fn control_a_whole_log_needs_none() {
    let mut group = begun(&plain(), CALM, 1, 0);
    group.trade(100 * MS, TRADE_EVERY);
    let away = (group.leader().expect("a leader") + 1) % MEMBERS;
    group.kill(away);
    group.trade(1_200 * MS, TRADE_EVERY);
    group.start(away).expect("its disk is whole");
    group.run(1_500 * MS);
    group.check("by the log");
    assert_eq!(installed(&group, away), 0);
    assert!(group.machines.iter().all(|machine| machine.first() == 1));
}

#[test]
fn another_exchange_s_snapshot_is_refused() {
    let (mut group, leader, _) = one_far_behind(&plain(), CALM, 4);
    group.kill(leader);
    let own = std::mem::replace(&mut group.machines[leader].genesis, b"another exchange".to_vec());
    let refused = group.start(leader).expect_err("another exchange").to_string();
    assert!(refused.contains("of another exchange"), "{refused}");
    group.machines[leader].genesis = own;
    group.start(leader).expect("its own");
}
