//! The books against the model of docs/matching.md: the same random commands, every event and the
//! whole books compared after each. A failing seed is printed with the few commands that show it;
//! `FAIRBELL_AGREEMENT_SEEDS=FIRST..END` runs others.

use std::ops::Range;

use book_agreement::Compared;
use book_model::compare::{Difference, RunStats, run_seed};
use book_model::coverage::Coverage;
use book_model::model::{Capacity, Config};
use types::{Allocation, Trigger};

/// Enough for two million commands and for every cell of the table.
const SEEDS: Range<u64> = 0..24_000;

/// Seeds asked for by the environment.
fn asked_for() -> Option<Range<u64>> {
    let text = std::env::var("FAIRBELL_AGREEMENT_SEEDS").ok()?;
    let (first, end) = text.split_once("..").expect("FAIRBELL_AGREEMENT_SEEDS is FIRST..END");
    let number = |text: &str| text.parse().expect("FAIRBELL_AGREEMENT_SEEDS holds numbers");
    Some(number(first)..number(end))
}

type Outcome = Result<(RunStats, Coverage), Box<Difference>>;

fn run(seeds: impl Iterator<Item = u64>) -> Outcome {
    let (mut stats, mut coverage) = (RunStats::default(), Coverage::default());
    for seed in seeds {
        stats.add(&run_seed(seed, Compared::new, &mut coverage)?);
    }
    Ok((stats, coverage))
}

#[test]
fn books_and_model_agree_on_two_million_commands_and_every_cell() {
    let asked = asked_for();
    let seeds = asked.clone().unwrap_or(SEEDS);
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| run(seeds.clone().skip(1).step_by(2)));
        let even = run(seeds.clone().step_by(2));
        (even, odd.join().expect("a run ends with a result"))
    });
    let both = even.and_then(|even| odd.map(|odd| (even, odd)));
    let ((mut stats, mut coverage), odd) = both.unwrap_or_else(|difference| panic!("{difference}"));
    stats.add(&odd.0);
    coverage.add(&odd.1);
    if asked.is_some() {
        return;
    }
    assert!(stats.commands >= 2_000_000, "only {} commands", stats.commands);
    let (empty, impossible) = (coverage.empty(), coverage.impossible());
    assert!(empty.is_empty(), "cells that can occur and did not: {empty:#?}");
    assert!(impossible.is_empty(), "cells that cannot occur and did: {impossible:#?}");
}

/// The negative control: books that keep to slightly other rules do not pass.
#[test]
fn books_with_other_rules_are_found_with_few_commands() {
    let others: [fn(&mut Config, &mut Capacity); 4] = [
        |config, _| {
            config.trigger = match config.trigger {
                Trigger::LastTrade => Trigger::Touch,
                Trigger::Touch => Trigger::LastTrade,
            }
        },
        |config, _| {
            if let Allocation::ProRata { min_allocation, .. } = &mut config.allocation {
                *min_allocation += 1;
            }
        },
        |config, _| {
            if let Allocation::ProRata { top_order, .. } = &mut config.allocation {
                *top_order = !*top_order;
            }
        },
        |_, capacity| capacity.levels += 1,
    ];
    for (number, change) in others.into_iter().enumerate() {
        let build = |books: &[Config], capacity: Capacity| {
            let (mut books, mut capacity) = (books.to_vec(), capacity);
            books.iter_mut().for_each(|config| change(config, &mut capacity));
            Compared::new(&books, capacity)
        };
        let mut coverage = Coverage::default();
        let found = (0..400).find_map(|seed| run_seed(seed, build, &mut coverage).err());
        let difference = found.unwrap_or_else(|| panic!("change {number} was not found"));
        assert!(difference.steps.len() < 25, "change {number} was not shortened: {difference}");
        assert!(difference.to_string().contains(&format!("seed {}", difference.seed)));
    }
}
