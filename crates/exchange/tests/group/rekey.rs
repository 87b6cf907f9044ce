//! A group's keys are exchanged: whoever leads next speaks under the new ones, and in the meantime
//! to those who have no newer ones, too.

use exchange::{ExchangeConfig, Secret};
use overlay::epochs::GRACE_NS;
use types::Nanos;

use crate::{
    common::MS,
    sealed,
    world::{CALM, Group, MEMBERS},
};

const EVERY: u64 = 2 * MS;
const NEXT: Secret = Secret([8; 32]);

fn begun() -> Group {
    let mut group = Group::new(&sealed(), CALM, 3);
    group.login_all();
    group.trade(100 * MS, EVERY);
    group
}

fn rekey(group: &mut Group, places: std::ops::Range<usize>) {
    for place in places {
        let life = 5_000 + place as u64;
        assert!(group.rekey(place, &NEXT, life), "place {place}");
        assert!(!group.rekey(place, &NEXT, life + 500), "handed out twice: place {place}");
    }
}

/// The leader is no more; somebody else leads within a moment.
fn fail_over(group: &mut Group) -> usize {
    let old = group.leader().expect("a leader");
    group.kill(old);
    group.run(1_500 * MS);
    assert_ne!(group.leader().expect("another"), old);
    old
}

#[test]
fn whoever_leads_after_an_exchange_speaks_under_the_new_keys() {
    let mut group = begun();
    let places = MEMBERS + group.nodes.len();
    rekey(&mut group, 0..places);
    group.trade(GRACE_NS + 100 * MS, 50 * EVERY);
    let old = fail_over(&mut group);
    group.trade(100 * MS, EVERY);
    group.run(1_000 * MS);
    group.check("with two");
    // A member that starts again is given what is in force.
    group.config.options.secret = Some(NEXT);
    group.start(old).expect("its own journal");
    group.trade(100 * MS, EVERY);
    group.run(1_500 * MS);
    group.check("with three");
}

#[test]
fn whoever_leads_during_an_exchange_is_heard_by_those_who_have_no_new_keys_yet() {
    let mut group = begun();
    let places = MEMBERS + group.nodes.len();
    rekey(&mut group, 0..MEMBERS);
    fail_over(&mut group);
    // All nodes have their former keys.
    let before = heard(&group);
    group.trade(100 * MS, EVERY);
    assert!(heard(&group) > before + 50, "the new leader is heard");
    rekey(&mut group, MEMBERS..places);
    group.trade(GRACE_NS + 100 * MS, 50 * EVERY);
    group.run(1_000 * MS);
    group.check("in the end");
    // The control: a leader whose nodes get no new keys is heard by nobody when the grace is over, and
    // another leader within it changes nothing.
    for another in [false, true] {
        let mut group = begun();
        rekey(&mut group, 0..MEMBERS);
        let end = group.now + GRACE_NS + 10 * MS;
        if another {
            fail_over(&mut group);
        }
        let before = heard(&group);
        group.run(end - group.now);
        let after = heard(&group);
        assert!(after > before, "in the grace it is heard");
        group.run(500 * MS);
        assert_eq!(heard(&group), after, "another leader: {another}");
    }
}

/// Datagrams of the root that all nodes have let in.
fn heard(group: &Group) -> u64 {
    let of_root = |role: &exchange::Role| role.heard(ExchangeConfig::ROOT).expect("a link");
    group.nodes.iter().flatten().map(of_root).sum()
}

const _: () = assert!(GRACE_NS > 2 * Nanos::SECOND, "the new leader is there before it is over");
