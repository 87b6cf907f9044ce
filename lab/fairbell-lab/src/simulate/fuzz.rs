//! `fairbell-lab sim fuzz`: seeds that are whole scenarios, and whether enough went wrong in them.

use std::ops::Range;

use clap::Args;
use serde_json::Value;
use sim::venue::{Scenario, run_each_of};

use super::{document, print, progress, threads, told, verdict};
use host::failure::Failure;

/// Times that every kind of fault must have had an effect.
const LEAST: u64 = 100;
/// Seeds from which on that is asked for.
const MANY_SEEDS: u64 = 1_000;

/// Options of `fairbell-lab sim fuzz`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab sim fuzz                    seeds 0 to 9,999\n  \
    fairbell-lab sim fuzz --seed 42          one seed again\n  \
    fairbell-lab sim fuzz --seeds 0..200 --json\n  \
    fairbell-lab sim fuzz --replicas 3 --seeds 0..500     three roots in every seed\n  \
    fairbell-lab sim fuzz --rekey --seeds 0..200          keys are exchanged in every seed\n  \
    fairbell-lab sim fuzz --shards 3 --seeds 0..2000      venues of three shards\n\n\
    A seed decides tree, links, weather, clocks, faults and orders. It passes when every checker\n\
    does; docs/simulator.md lists them. From 1,000 seeds on every kind of fault has to have had an\n\
    effect at least 100 times.")]
pub struct FuzzArgs {
    /// Seeds to run, first..last, the last one not included
    #[arg(long, value_name = "A..B", value_parser = fairbell::options::seeds, default_value = "0..10000")]
    pub seeds: Range<u64>,
    /// This seed alone
    #[arg(long, value_name = "S", value_parser = fairbell::options::seed, conflicts_with = "seeds")]
    pub seed: Option<u64>,
    /// Give every seed so many roots that serve in turn [default: 3 in some seeds, else one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=3))]
    pub replicas: Option<u8>,
    /// Exchange all keys of every seed's nodes one to three times while orders flow; seals those that
    /// are in clear
    #[arg(long)]
    pub rekey: bool,
    /// Instead: venues of so many shards, their limits, operators' commands and restarts
    #[arg(long, value_name = "N", conflicts_with_all = ["replicas", "rekey"],
          value_parser = clap::value_parser!(u16).range(2..=types::limits::SHARDS_MAX as i64))]
    pub shards: Option<u16>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(args: &FuzzArgs) -> Result<(), Failure> {
    let seeds = args.seed.map_or(args.seeds.clone(), |seed| seed..seed + 1);
    if let Some(shards) = args.shards {
        return super::shards::run(seeds, shards, args.json);
    }
    let bar = progress(seeds.end - seeds.start, "scenarios");
    let of = |seed| {
        let mut scenario = Scenario::random(seed);
        if args.replicas.is_some() {
            scenario = scenario.with_replicas(seed);
        }
        if args.rekey { scenario.with_rekeys(seed) } else { scenario }
    };
    let summary = run_each_of(seeds.clone(), threads(), &of, &told(&bar));
    bar.finish_and_clear();
    let asked = summary.seeds >= MANY_SEEDS;
    let rare: Vec<&str> =
        summary.total.faults().filter(|(_, n)| asked && *n < LEAST).map(|(name, _)| name).collect();
    if args.json {
        let mut document = document(&summary, &seeds);
        let faults = summary.total.faults().map(|(name, n)| (name.to_string(), Value::from(n)));
        document["faults"] = faults.collect();
        let options = summary.total.options().map(|(name, n)| (name.to_string(), Value::from(n)));
        document["options"] = options.collect();
        document["rare_faults"] = rare.clone().into();
        println!("{document:#}");
    } else {
        print(&summary);
        println!("faults, by how often they had an effect:");
        super::table(summary.total.faults());
        println!("options of the overlay, by seeds that had them, and what they did:");
        super::table(summary.total.options());
    }
    verdict(&summary)?;
    match rare.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("fewer than {LEAST} times: {}", rare.join(", ")))),
    }
}
