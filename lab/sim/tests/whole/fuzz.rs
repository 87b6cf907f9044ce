//! Random scenarios: a slice of them passes, and bugs of the code are caught from outside.
//!
//! The checkers compare what was sent, logged and heard when a run is over; none of them is an
//! assertion of the code under test, so a build without assertions finds the same.

use sim::venue::{Checker, FAULTS, OPTIONS, Sabotage, Scenario, fuzz_seeds, run_seed};

#[test]
fn a_slice_of_random_scenarios_passes_and_all_kinds_of_faults_happen() {
    let seeds = match std::env::var("FAIRBELL_FUZZ_SEEDS").ok() {
        Some(text) => {
            let (first, end) = text.split_once("..").expect("A..B");
            first.parse().expect("A..B")..end.parse().expect("A..B")
        }
        None => 0..150,
    };
    let count = seeds.end - seeds.start;
    let summary = fuzz_seeds(seeds, 2, &|_, _| {});
    let reports: Vec<String> = summary.reports.iter().map(ToString::to_string).collect();
    assert_eq!((summary.seeds, summary.failed), (count, 0), "{}", reports.join("\n"));
    let of = |name: &str| summary.total.iter().find(|(known, _)| *known == name).map(|(_, n)| n);
    let watched = [
        "feed_watched",
        "retransmissions_watched",
        "snapshots_watched",
        "executions_watched",
        "copies_watched",
        "market_data_watched",
    ];
    let watched = watched.map(|name| (name, of(name).unwrap_or(0)));
    println!("{count} seeds: {watched:?}");
    assert!(watched.iter().all(|(_, looks)| *looks > 0), "{watched:?}");
    let ended = of("orders_expired").unwrap_or(0);
    assert!(ended > 2 * count, "{ended} orders ended at their time");
    let faults: Vec<_> = summary.total.faults().collect();
    assert_eq!(faults.len(), FAULTS.len());
    assert!(faults.iter().all(|(_, count)| *count > 0), "{faults:?}");
    let options: Vec<_> = summary.total.options().collect();
    assert_eq!(options.len(), OPTIONS.len());
    assert!(options.iter().all(|(_, count)| *count > 0), "{options:?}");
}

#[test]
fn a_sealed_node_that_starts_anew_twice_is_heard() {
    for seed in [1_375, 1_496] {
        let report = run_seed(seed, &Scenario::random(seed));
        assert!(report.failures.is_empty(), "{report}");
        assert!(report.figures.with_sealing == 1 && report.figures.proxies_restarted > 1);
    }
}

/// Bugs of the code, and who has to find each of them.
const BUGS: [(Sabotage, Checker); 7] = [
    (Sabotage::ChildSetOffByOne, Checker::ChildSet),
    (Sabotage::EarlyRelease, Checker::ReleaseTrueTime),
    (Sabotage::LoseResends, Checker::AnsweredOnce),
    (Sabotage::ForgetLeavers, Checker::CancelOnDisconnect),
    (Sabotage::ForgetLost, Checker::CancelOnDisconnect),
    (Sabotage::SameLife, Checker::FreshNonces),
    (Sabotage::ForgetExpiry, Checker::NothingExpired),
];

#[test]
fn seeded_bugs_are_caught_within_a_thousand_seeds() {
    for (sabotage, checker) in BUGS {
        let finds = |seed: &u64| {
            let report = run_seed(*seed, &Scenario { sabotage, ..Scenario::random(*seed) });
            report.failures.iter().any(|failure| failure.checker == checker)
        };
        let found = (0..1_000).find(finds);
        assert!(found.is_some(), "{sabotage:?} was not caught by {checker} in 1,000 seeds");
    }
}
