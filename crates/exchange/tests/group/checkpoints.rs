//! Members that begin behind checkpoints: the whole group stops, and goes on.

use crate::common::MS;
use crate::plain;
use crate::world::{CALM, Group, MEMBERS, ROUGH};

/// All members stop at once, and start from what they have; how many inputs checkpoints stood for.
fn restart(group: &mut Group) -> Vec<u64> {
    (0..MEMBERS).for_each(|n| group.kill(n));
    group.run(20 * MS);
    (0..MEMBERS).for_each(|n| group.start(n).expect("a sound disk"));
    group.run(1_500 * MS);
    group.machines.iter().map(|machine| machine.restored).collect()
}

fn group(links: crate::world::Links, seed: u64) -> Group {
    let mut group = Group::new(&plain(), links, seed);
    for n in 0..MEMBERS {
        group.kill(n);
        group.machines[n].checkpoint_every = 20;
        group.start(n).expect("a sound disk");
    }
    group.run(1_500 * MS);
    group.login_all();
    group
}

/// Everybody applies all inputs, and all that must hold does.
fn check_whole(group: &mut Group, what: &str) {
    let digests = |group: &Group| -> Vec<u64> {
        (0..MEMBERS).map(|n| group.root(n).state_digest()).collect()
    };
    let before = digests(group);
    group.machines.iter_mut().for_each(|machine| machine.checkpoint_every = 0);
    assert_eq!(restart(group), [0; MEMBERS], "{what}");
    assert_eq!(digests(group), before, "{what}: a start by all inputs makes the same");
    group.run(1_000 * MS);
    group.check(what);
}

#[test]
fn a_group_that_stops_as_a_whole_goes_on_behind_its_checkpoints() {
    for (seed, links) in [(1, CALM), (2, CALM), (3, ROUGH), (4, ROUGH)] {
        let mut group = group(links, seed);
        for round in 0..4 {
            group.trade(150 * MS, 5 * MS);
            let taken = restart(&mut group);
            let applied = group.root(0).engine().applied();
            let near = |inputs: &&u64| applied - **inputs < 60;
            let many = taken.iter().filter(near).count();
            assert!(many >= 2, "seed {seed}, round {round}: {taken:?} of {applied}");
            assert!(group.root(0).log().lacks() > 0, "what was before is not in memory");
            group.trade(50 * MS, 5 * MS);
            group.run(1_500 * MS);
        }
        check_whole(&mut group, &format!("seed {seed}"));
    }
}

#[test]
fn lives_that_are_shorter_than_the_time_between_two_leave_some_all_the_same() {
    let mut group = group(CALM, 5);
    group.machines.iter_mut().for_each(|machine| machine.checkpoint_every = 300);
    restart(&mut group);
    let mut best = 0;
    for _ in 0..12 {
        // Some 60 inputs in a life.
        group.trade(150 * MS, 5 * MS);
        best = restart(&mut group).into_iter().max().unwrap_or(0).max(best);
    }
    let applied = group.root(0).engine().applied();
    assert!(applied > 600 && best >= 300, "{best} of {applied}");
    check_whole(&mut group, "short lives");
}

#[test]
fn leaders_change_among_members_of_which_some_began_behind_one() {
    let mut group = group(CALM, 7);
    for round in 0..6 {
        group.trade(100 * MS, 5 * MS);
        let leader = group.leader().expect("one leads");
        group.kill(leader);
        group.trade(600 * MS, 25 * MS);
        group.start(leader).expect("a sound disk");
        group.run(800 * MS);
        assert!(round == 0 || group.machines[leader].restored > 0, "round {round}");
    }
    check_whole(&mut group, "leaders changed");
}

#[test]
fn a_checkpoint_that_does_not_fit_is_passed_over() {
    let mut group = group(CALM, 9);
    group.trade(300 * MS, 5 * MS);
    group.run(500 * MS);
    // Of one the newest is damaged, of another all are; those of the third are another's records.
    let flip = |bytes: &mut Vec<u8>| {
        let at = bytes.len() / 2;
        bytes[at] ^= 8;
    };
    let known = group.machines[0].checkpoints.lock().expect("whole").len();
    assert!(known > 2, "{known} checkpoints");
    group.machines[0].checkpoints.lock().expect("whole").last_mut().map(flip);
    group.machines[1].checkpoints.lock().expect("whole").iter_mut().for_each(flip);
    for bytes in group.machines[2].checkpoints.lock().expect("whole").iter_mut() {
        let mut other = exchange::Checkpoint::read(bytes).expect("whole");
        other.chain ^= 1;
        *bytes = other.bytes();
    }
    let taken = restart(&mut group);
    assert!(taken[0] > 0 && taken[1..] == [0, 0], "{taken:?}");
    group.trade(100 * MS, 5 * MS);
    group.run(1_000 * MS);
    check_whole(&mut group, "damaged checkpoints");
}

#[test]
fn spills_that_lost_what_they_had_are_found_out() {
    let mut group = group(CALM, 11);
    // More of it than fits into a checkpoint itself.
    group.trade(1_500 * MS, 5 * MS);
    group.run(500 * MS);
    for machine in &mut group.machines {
        machine.feed = crate::machine::Lasting::default();
    }
    let taken = restart(&mut group);
    let applied = group.root(0).engine().applied();
    // Only the earliest ones, which hold all of the feed themselves, are of use.
    let early = |inputs: &u64| *inputs < 200;
    assert!(applied > 600 && taken.iter().all(early), "{taken:?} of {applied}");
    group.trade(100 * MS, 5 * MS);
    group.run(1_000 * MS);
    check_whole(&mut group, "lost spill stores");
}

#[test]
fn short_logs_and_snapshots_go_together_with_checkpoints() {
    let mut group = group(CALM, 13);
    for n in 0..MEMBERS {
        group.kill(n);
        group.machines[n].snapshot_every = 40;
        group.start(n).expect("a sound disk");
    }
    group.run(1_500 * MS);
    for _ in 0..3 {
        group.trade(800 * MS, 4 * MS);
        group.run(500 * MS);
        let taken = restart(&mut group);
        assert!(taken.iter().filter(|inputs| **inputs > 0).count() >= 2, "{taken:?}");
    }
    assert!(group.machines.iter().any(|machine| machine.first() > 1), "logs were given up");
    check_whole(&mut group, "short logs");
}
