//! Groups of replicas under faults: a slice of the seeds, repeatability, and seeded bugs.

use sim::replicas::{Bug, Checker, Counts, Options, run, run_seeds};

#[test]
fn a_calm_group_answers_everything_without_an_election_too_many() {
    let options = Options { calm: true, faults_ns: 1_000_000_000, ..Options::default() };
    for seed in 0..4 {
        let report = run(seed, &options);
        assert!(report.found.is_empty(), "seed {seed}: {:?}", report.found);
        assert_eq!(report.counts.terms_led, 1, "seed {seed}");
        assert_eq!(report.counts.answered, 150, "seed {seed}: {:?}", report.counts);
    }
}

#[test]
fn nothing_acknowledged_is_lost_whatever_goes_wrong() {
    let summary = run_seeds(0..300, 1, &Options::default(), &|_, _| ());
    let first = summary.failed.first();
    assert!(first.is_none(), "{} failed; first: {first:#?}", summary.failures);
    // Both copies of a vote go bad once in thousands of seeds.
    let rare = |name: &str| name == "refused";
    let all = summary.counts.faults().chain(summary.counts.outcomes());
    let unseen: Vec<&str> =
        all.filter(|(name, n)| *n == 0 && !rare(name)).map(|(name, _)| name).collect();
    assert!(unseen.is_empty(), "never happened: {unseen:?}");
}

/// Machines of several versions: one that is upgraded among silent followers takes part, and one whose disk
/// has forgotten what it promised does when those are upgraded whom it has to ask.
#[test]
fn whoever_waits_for_others_of_an_earlier_version_comes_back() {
    let among_silent = [1_703, 2_451, 2_785, 3_303];
    let forgetful =
        [943, 1_243, 1_405, 1_738, 2_639, 3_023, 3_566, 3_756, 4_073, 4_117, 4_199, 4_530];
    for seed in among_silent.into_iter().chain(forgetful) {
        let report = run(seed, &Options::default());
        assert!(report.found.is_empty(), "seed {seed}: {:?}", report.found);
    }
}

#[test]
fn a_seed_decides_everything() {
    for seed in [3, 4, 5] {
        let (a, b) = (run(seed, &Options::default()), run(seed, &Options::default()));
        assert_eq!((a.digest, a.counts), (b.digest, b.counts), "seed {seed}");
        assert_ne!(a.digest, run(seed + 100, &Options::default()).digest);
    }
    assert_ne!(Counts::default(), run(1, &Options::default()).counts);
}

/// Each bug, and the checker that is for it; nothing is compared on the way.
#[test]
fn control_every_seeded_bug_is_seen_in_the_end_state() {
    let caught = |bug: Bug, by: Checker| {
        let options = Options { bug: Some(bug), digest_every: 0, ..Options::default() };
        let sees = |seed: &u64| run(*seed, &options).found.iter().any(|found| found.checker == by);
        assert!((0..400).any(|seed| sees(&seed)), "{bug:?} was never caught by {by:?}");
    };
    caught(Bug::AckBeforeCopy, Checker::AcknowledgedPresent);
    caught(Bug::UnfencedLeader, Checker::AcknowledgedPresent);
    caught(Bug::NoDedupeAfterFailover, Checker::ExactlyOnce);
    caught(Bug::TornTailAccepted, Checker::NothingInvented);
    caught(Bug::SnapshotMissesOrder, Checker::ReplicasEqual);
    caught(Bug::SentSnapshotMissesOrder, Checker::ReplicasEqual);
    caught(Bug::ChangeBeforeCommit, Checker::MembersEqual);
    caught(Bug::SnapshotForgetsMembers, Checker::MembersEqual);
    caught(Bug::VoteForgotten, Checker::TermsUnique);
    caught(Bug::MarkNotDurable, Checker::AcknowledgedPresent);
    caught(Bug::TermRepeated, Checker::AcknowledgedPresent);
}

/// With digests compared on the way, a replica whose state differs stops.
#[test]
fn a_replica_that_diverges_stops_loudly() {
    let options = Options { bug: Some(Bug::SnapshotMissesOrder), ..Options::default() };
    let stops = |seed: u64| {
        let found = run(seed, &options).found;
        found.iter().any(|f| f.checker == Checker::NobodyStopped && f.what.contains("is not that"))
    };
    assert!((0..200).any(stops), "no replica stopped");
}
