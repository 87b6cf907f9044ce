//! Random histories against a plain list of records, with a crash at every operation of the disk
//! and with every fault it has; each checker is shown to see what it is for.

use crate::common::{Checker, Fault, Life, Outcome, Script, play};
use journal::{DiskFaults, Marks};

/// Plays a script with a crash at each of its operations.
fn at_every_operation(script: &Script) -> Vec<(u64, Outcome)> {
    let whole = play(script, &[Life::default()]);
    let operations = whole.operations;
    let mut outcomes = vec![(u64::MAX, whole)];
    for at in 0..operations {
        let lives = [Life { crash_at: Some(at), ..Life::default() }, Life::default()];
        outcomes.push((at, play(script, &lives)));
    }
    outcomes
}

#[test]
fn a_crash_at_any_operation_loses_nothing_acknowledged() {
    let (mut torn, mut lost, mut crashes, mut unread) = (0, 0, 0, 0);
    for seed in 0..8 {
        let script = Script::random(seed, 40);
        for (at, outcome) in at_every_operation(&script) {
            assert!(outcome.found.is_empty(), "seed {seed}, crash at {at}: {:?}", outcome.found);
            torn += outcome.disk.torn;
            lost += outcome.disk.lost;
            crashes += outcome.disk.crashes;
            unread += outcome.unread;
        }
    }
    assert!(crashes > 1_000 && torn > 100 && lost > 50, "{crashes} {torn} {lost}");
    assert!(unread > 100, "{unread}");
}

/// Suffixes taken back, snapshots and what they make superfluous, over and over.
#[test]
fn a_log_that_begins_later_knows_what_stood_before_it() {
    let mut later = 0;
    let scripts = (0..6_000).map(|seed| (seed, Script::random(seed ^ 0xba5e, 120)));
    for (seed, script) in scripts.filter(|(_, script)| script.replicated) {
        let lives = [Life { crash_at: Some(300 + seed % 300), ..Life::default() }, Life::default()];
        let outcome = play(&script, &lives);
        assert!(outcome.found.is_empty(), "seed {seed}: {:?}", outcome.found);
        later += u64::from(outcome.began_later);
    }
    assert!(later > 100, "{later}");
}

#[test]
fn crashes_in_a_row_also_during_recovery() {
    let mut tails = 0;
    for seed in 0..1_200 {
        let script = Script::random(seed ^ 0xc0ffee, 60);
        let lives: Vec<Life> = (0..6)
            .map(|n| Life {
                crash_at: (n < 5).then_some((seed * 7 + n * 13) % (20 + n * 30)),
                ..Life::default()
            })
            .collect();
        let outcome = play(&script, &lives);
        assert!(outcome.found.is_empty(), "seed {seed}: {:?}", outcome.found);
        tails += outcome.tails;
    }
    assert!(tails > 20, "{tails} torn tails");
}

/// Faults after which the disk still tells the truth: all that was acknowledged must be there.
#[test]
fn errors_short_writes_full_and_slow_disks_lose_nothing_acknowledged() {
    let faults = DiskFaults { short: 30, failing: 10, slow: 50, room: 46_288, ..<_>::default() };
    let mut seen = [0; 4];
    for seed in 0..340 {
        let script = Script::random(seed ^ 0xbad, 60);
        let life = |n: u64| Life { faults, crash_at: Some((seed * 11 + n * 17) % 150) };
        let outcome = play(&script, &[life(0), life(1), life(2), Life::default()]);
        assert!(outcome.found.is_empty(), "seed {seed}: {:?}", outcome.found);
        let disk = outcome.disk;
        let all = [disk.short, disk.failed, disk.slow, disk.full];
        seen.iter_mut().zip(all).for_each(|(sum, count)| *sum += count);
    }
    assert!(seen.iter().all(|count| *count >= 100), "short, failed, slow, full: {seen:?}");
}

/// Faults after which the disk has lied: what was acknowledged is there, or the journal refuses.
#[test]
fn a_disk_that_lies_is_found_out() {
    let mut seen = [0; 3];
    let (mut refused, mut healthy) = (0, 0);
    for seed in 0..900 {
        let faults = match seed % 3 {
            0 => DiskFaults { misdirected: 15, ..<_>::default() },
            1 => DiskFaults { lying: 15, ..<_>::default() },
            _ => DiskFaults { corrupt: 8, ..<_>::default() },
        };
        let script = Script {
            marks: Marks::BeforeAck,
            lies: true,
            replicated: false,
            ..Script::random(seed, 60)
        };
        let life = |n: u64| Life { faults, crash_at: Some((seed * 5 + n * 29) % 140) };
        let outcome = play(&script, &[life(0), life(1), Life::default()]);
        assert!(outcome.found.is_empty(), "seed {seed}: {:?}", outcome.found);
        let all = [outcome.disk.misdirected, outcome.disk.lies, outcome.disk.corrupted];
        seen.iter_mut().zip(all).for_each(|(sum, count)| *sum += count);
        refused += u64::from(outcome.refused.is_some());
        healthy += u64::from(outcome.refused.is_none());
    }
    assert!(seen.iter().all(|count| *count >= 100), "misdirected, lies, corrupted: {seen:?}");
    assert!(refused > 50 && healthy > 50, "{refused} refused, {healthy} not");
}

/// Six seeded bugs and the checker that names each.
#[test]
fn control_seeded_bugs_are_caught_by_the_checker_for_them() {
    let caught = |fault: Fault, by: Checker| {
        let plays = (0..12).flat_map(|seed| (20..260).step_by(11).map(move |at| (seed, at)));
        let times = plays.filter(|(seed, at)| {
            let script = Script { fault: Some(fault), ..Script::random(*seed, 160) };
            let crash = Life { crash_at: Some(*at), ..Life::default() };
            let outcome = play(&script, &[crash, Life::default()]);
            outcome.found.iter().any(|(checker, _)| *checker == by)
        });
        assert!(times.count() > 0, "{fault:?} was never caught by {by:?}");
    };
    caught(Fault::AckBeforeSync, Checker::AcknowledgedIsThere);
    caught(Fault::TornTailAccepted, Checker::NothingInvented);
    caught(Fault::SnapshotMissesRecord, Checker::SnapshotIsThePrefix);
    caught(Fault::VoteForgotten, Checker::VoteIsKept);
    caught(Fault::SegmentForgottenTooEarly, Checker::Opens);
    caught(Fault::InstalledUnsynced, Checker::Opens);
    caught(Fault::InstalledWithoutGroup, Checker::GroupIsKnown);
}
