//! The whole exchange with three roots that serve in turn: a slice of seeds passes, and all that can
//! happen to roots happens.

use sim::venue::{FaultKind, Scenario, run_each_of, run_seed};

/// The kinds of what happens to roots, as reports name them.
const KINDS: [&str; 8] = [
    "replica_crashes",
    "leader_crashes",
    "disk_crashes",
    "replica_pauses",
    "replica_partitions",
    "replicas_cut_off",
    "replica_messages",
    "disk_faults",
];

fn scenario(seed: u64) -> Scenario {
    Scenario::random(seed).with_replicas(seed)
}

#[test]
fn a_slice_of_seeds_with_three_roots_passes() {
    let seeds = match std::env::var("FAIRBELL_REPLICATED_SEEDS").ok() {
        Some(text) => {
            let (first, end) = text.split_once("..").expect("A..B");
            first.parse().expect("A..B")..end.parse().expect("A..B")
        }
        None => 0..40,
    };
    let count = seeds.end - seeds.start;
    let summary = run_each_of(seeds, 2, &scenario, &|_, _| {});
    let reports: Vec<String> = summary.reports.iter().map(ToString::to_string).collect();
    assert_eq!((summary.seeds, summary.failed), (count, 0), "{}", reports.join("\n"));
    let of = |name: &str| summary.total.iter().find(|(known, _)| *known == name).map(|(_, n)| n);
    let happened: Vec<_> = KINDS.iter().map(|kind| (*kind, of(kind).unwrap_or(0))).collect();
    println!("{count} seeds: {happened:?}, {:?} terms", of("terms_led"));
    assert!(count < 40 || happened.iter().all(|(_, n)| *n > 0), "{happened:?}");
    // More than the first leader of each.
    assert!(count < 40 || of("terms_led") > Some(count + count / 2));
    assert!(count < 40 || of("states_compared") > Some(count));
}

#[test]
fn a_seed_with_three_roots_can_be_repeated() {
    let (first, again) = (run_seed(3, &scenario(3)), run_seed(3, &scenario(3)));
    assert_eq!(first, again);
    assert!(FaultKind::OF_REPLICAS.iter().all(|kind| FaultKind::ALL.contains(kind)));
}
