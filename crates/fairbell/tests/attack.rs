//! Attacks on the doors: each is contained while honest clients trade on, and shows where the
//! limits are off.

use fairbell::attack::{Attacked, attacks};

const ORDERS: u32 = 200;

fn table(all: &[Attacked]) -> String {
    let row = |one: &Attacked| {
        let rtt = one.rtt.summary();
        format!("{}: p99 {} ns, {}, {:?}\n", one.name, rtt.p99, one.seen, one.complaints)
    };
    all.iter().map(row).collect()
}

#[test]
fn every_attack_is_contained_and_changes_nothing_for_the_others() {
    let all = attacks("all", ORDERS, true).expect("an exchange");
    assert_eq!(all.len(), 9);
    for one in &all {
        assert!(one.complaints.is_empty() && one.accepted == ORDERS, "{}", table(&all));
    }
}

#[test]
fn control_without_limits_the_check_fails() {
    let all = attacks("half-open", ORDERS, false).expect("an exchange");
    let [_, open] = &all[..] else { panic!("{}", table(&all)) };
    assert!(open.complaints.iter().any(|c| c.contains("not logged on")), "{}", table(&all));
}
