//! `fairbell-lab sim fuzz --shards N`: venues of several shards under faults.

use std::ops::Range;

use host::failure::Failure;
use serde_json::{Value, json};
use sim::shards::{Options, Summary, run_seeds};

use super::{progress, threads, told};

/// Times that everything must have happened from [`MANY_SEEDS`] on.
const LEAST: u64 = 100;
/// Seeds from which on that is asked for.
const MANY_SEEDS: u64 = 1_000;

pub(super) fn run(seeds: Range<u64>, shards: u16, as_json: bool) -> Result<(), Failure> {
    let bar = progress(seeds.end.saturating_sub(seeds.start), "venues");
    let options = Options { shards, sabotage: None };
    let summary = run_seeds(seeds.clone(), threads(), &options, &told(&bar));
    bar.finish_and_clear();
    let asked = summary.seeds >= MANY_SEEDS;
    let all = summary.counts.all();
    let rare: Vec<&str> =
        all.iter().filter(|(_, count)| asked && *count < LEAST).map(|(name, _)| *name).collect();
    match as_json {
        true => println!("{:#}", document(&summary, &seeds, shards, &rare)),
        false => print(&summary, shards),
    }
    if let Some((seed, what)) = summary.found.first() {
        let again = format!("fairbell-lab sim fuzz --shards {shards} --seed {seed}");
        let failed = summary.failed;
        return Err(Failure::Run(format!("{failed} seeds failed; {again}: {what}")));
    }
    match rare.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("fewer than {LEAST} times: {}", rare.join(", ")))),
    }
}

fn document(summary: &Summary, seeds: &Range<u64>, shards: u16, rare: &[&str]) -> Value {
    let counts = summary.counts.all().into_iter();
    let counts = counts.map(|(name, count)| (name.to_string(), Value::from(count)));
    let found = |(seed, what): &(u64, String)| json!({ "seed": seed, "what": what });
    json!({
        "shards": shards,
        "first_seed": seeds.start,
        "seeds": summary.seeds,
        "failed": summary.failed,
        "found": summary.found.iter().map(found).collect::<Vec<_>>(),
        "counts": counts.collect::<serde_json::Map<_, _>>(),
        "rare": rare,
    })
}

fn print(summary: &Summary, shards: u16) {
    println!("{} venues of {shards} shards, {} failed", summary.seeds, summary.failed);
    for (seed, what) in &summary.found {
        println!("  seed {seed}: {what}");
    }
    super::table(summary.counts.all().into_iter());
}
