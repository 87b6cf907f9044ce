//! Attacks on the doors: each is contained while honest clients trade on, and is found out where
//! its defence is taken away. Times are judged by the command, not here.

use std::sync::Mutex;

use fairbell_lab::attack::{Attacked, Play, attacks};

const ORDERS: u32 = 200;
/// One at a time: the memory of the process is judged.
static ALONE: Mutex<()> = Mutex::new(());

fn table(all: &[Attacked]) -> String {
    let row = |one: &Attacked| {
        let seen = one.seen.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{}: {seen}, {:?}\n", one.name, one.complaints)
    };
    all.iter().map(row).collect()
}

#[test]
fn every_attack_is_contained_and_changes_nothing_for_the_others() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let all = attacks("all", Play { orders: ORDERS, control: false, times: false });
    let all = all.expect("an exchange");
    assert_eq!(all.len(), 13);
    for one in &all {
        assert!(one.complaints.is_empty() && one.accepted == 2 * ORDERS, "{}", table(&all));
    }
}

#[test]
fn control_without_its_defence_every_attack_is_found_out() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let all = attacks("all", Play { orders: ORDERS, control: true, times: false });
    let all = all.expect("an exchange");
    assert_eq!(all.len(), 13);
    for one in all.iter().filter(|one| one.seen.is_some()) {
        assert!(!one.complaints.is_empty(), "{} was not found out:\n{}", one.name, table(&all));
    }
}
