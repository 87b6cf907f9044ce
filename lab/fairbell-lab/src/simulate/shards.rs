//! `fairbell-lab sim fuzz --shards N`: venues of several shards under faults.

use std::ops::Range;

use host::failure::Failure;
use serde_json::{Value, json};
use sim::shards::{Options, run_seeds};
use sim::venue::sharded;

use super::{progress, threads, told};

/// Times that everything must have happened from [`MANY_SEEDS`] on.
const LEAST: u64 = 100;
/// Seeds from which on that is asked for.
const MANY_SEEDS: u64 = 1_000;

/// What came of the seeds in both worlds.
struct Outcome {
    seeds: u64,
    failed: u64,
    found: Vec<(u64, String)>,
    counts: Vec<(&'static str, u64)>,
}

pub(super) fn run(seeds: Range<u64>, shards: u16, as_json: bool) -> Result<(), Failure> {
    let bar = progress(seeds.end.saturating_sub(seeds.start), "shards");
    let options = Options { shards, sabotage: None };
    let engines = run_seeds(seeds.clone(), threads(), &options, &told(&bar));
    bar.finish_and_clear();
    let bar = progress(seeds.end.saturating_sub(seeds.start), "venues");
    let options = sharded::Options { shards, mistake: None };
    let venues = sharded::run_seeds(seeds.clone(), threads(), &options, &told(&bar));
    bar.finish_and_clear();
    let mut outcome = Outcome {
        seeds: venues.seeds,
        failed: engines.failed + venues.failed,
        found: engines.found,
        counts: engines.counts.all(),
    };
    outcome.found.extend(venues.found);
    outcome.found.sort();
    outcome.counts.extend(venues.counts.all());
    let asked = outcome.seeds >= MANY_SEEDS;
    let least = |(_, count): &&(&str, u64)| asked && *count < LEAST;
    let rare: Vec<&str> = outcome.counts.iter().filter(least).map(|(name, _)| *name).collect();
    match as_json {
        true => println!("{:#}", document(&outcome, &seeds, shards, &rare)),
        false => print(&outcome, shards),
    }
    if let Some((seed, what)) = outcome.found.first() {
        let again = format!("fairbell-lab sim fuzz --shards {shards} --seed {seed}");
        let failed = outcome.failed;
        return Err(Failure::Run(format!("{failed} seeds failed; {again}: {what}")));
    }
    match rare.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("fewer than {LEAST} times: {}", rare.join(", ")))),
    }
}

fn document(outcome: &Outcome, seeds: &Range<u64>, shards: u16, rare: &[&str]) -> Value {
    let counts = outcome.counts.iter();
    let counts = counts.map(|(name, count)| ((*name).to_string(), Value::from(*count)));
    let found = |(seed, what): &(u64, String)| json!({ "seed": seed, "what": what });
    json!({
        "shards": shards,
        "first_seed": seeds.start,
        "seeds": outcome.seeds,
        "failed": outcome.failed,
        "found": outcome.found.iter().map(found).collect::<Vec<_>>(),
        "counts": counts.collect::<serde_json::Map<_, _>>(),
        "rare": rare,
    })
}

fn print(outcome: &Outcome, shards: u16) {
    println!("{} venues of {shards} shards, {} failed", outcome.seeds, outcome.failed);
    for (seed, what) in &outcome.found {
        println!("  seed {seed}: {what}");
    }
    super::table(outcome.counts.iter().copied());
}
