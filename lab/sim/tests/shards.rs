//! Venues of several shards under faults, and mistakes that have to be found.

use engine::AllotFault;
use sim::shards::{Counts, Options, Sabotage, Tally, run, run_seeds};

const PLAIN: Options = Options { shards: 3, sabotage: None };

#[test]
fn every_seed_passes_and_everything_happens() {
    let mut counts = Counts::default();
    for (shards, seeds) in [(2, 0..40), (3, 40..100), (4, 100..140), (7, 140..150)] {
        let options = Options { shards, ..PLAIN };
        let summary = run_seeds(seeds, 2, &options, &|_, _| {});
        assert_eq!(summary.found, [], "{shards} shards");
        counts.add(&summary.counts);
    }
    let all = counts.all();
    assert!(all.iter().all(|(_, count)| *count > 50), "{all:?}");
}

#[test]
fn a_seed_gives_the_same_twice() {
    for seed in 0..4 {
        let (first, again) = (run(seed, &PLAIN), run(seed, &PLAIN));
        assert_eq!(first, again);
        assert_ne!(first.digest, run(seed + 1, &PLAIN).digest);
    }
}

#[test]
fn control_seeded_mistakes_are_found() {
    for (mistake, found_in, what) in [
        (Sabotage::Engine(AllotFault::AcceptAdds), 20, "limit"),
        (Sabotage::Engine(AllotFault::ReturnsWhatIsUsed), 3, ""),
        (Sabotage::Engine(AllotFault::GrantsTwice), 20, "limit"),
        (Sabotage::SpeaksEarly, 3, "limit"),
        (Sabotage::WaitsForOthers, 3, "hangs"),
    ] {
        let options = Options { sabotage: Some(mistake), ..PLAIN };
        let summary = run_seeds(0..60, 2, &options, &|_, _| {});
        assert!(summary.failed >= found_in, "{mistake:?}: {}", summary.failed);
        let named = |(_, found): &&(u64, String)| found.contains(what);
        let named = summary.found.iter().filter(named).count();
        assert!(named > 2, "{mistake:?}: {:?}", summary.found);
    }
}

mod whole {
    //! Venues of several shards as they are deployed.

    use sim::shards::Tally;
    use sim::venue::sharded::{Counts, Mistake, Options, run};

    #[test]
    fn every_seed_passes_and_everything_happens() {
        let mut counts = Counts::default();
        for (shards, seeds) in [(2, 0..6), (3, 6..14), (4, 14..16)] {
            for seed in seeds {
                let report = run(seed, &Options { shards, mistake: None });
                assert_eq!(report.failed, None, "seed {seed}, {shards} shards");
                counts.add(&report.counts);
            }
        }
        let all = counts.all();
        assert!(all.iter().all(|(_, count)| *count > 0), "{all:?}");
    }

    #[test]
    fn a_seed_gives_the_same_twice() {
        let options = Options { shards: 3, mistake: None };
        assert_eq!(run(5, &options), run(5, &options));
        assert_ne!(run(5, &options).digest, run(6, &options).digest);
    }

    #[test]
    fn control_seeded_mistakes_are_found() {
        for (mistake, what) in [
            (Mistake::MergesEarly, ""),
            (Mistake::RoutesWrong, "another shard"),
            (Mistake::GrantsDoubled, "parts of"),
            (Mistake::TellsEarly, "before their tick"),
            (Mistake::LeavesOrder, ""),
            (Mistake::KeepsOrders, "not what its log says"),
            (Mistake::AnswersForGone, "answers"),
            (Mistake::ForgetsSeen, "answers"),
        ] {
            let options = Options { shards: 3, mistake: Some(mistake) };
            let mut all = Vec::new();
            let is_found = (0..20).any(|seed| {
                let found = run(seed, &options).failed.unwrap_or_default();
                let is_found = !found.is_empty() && found.contains(what);
                all.push(found);
                is_found
            });
            assert!(is_found, "{mistake:?}: {all:?}");
        }
    }
}
