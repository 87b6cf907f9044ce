//! `fairbell-lab sim replicas`: groups of replicas under faults, and whether enough went wrong.

use std::ops::Range;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use sim::replicas::{Bug, Options, Report, Summary, run_seeds};

use super::{progress, table, threads, told};
use host::failure::Failure;

/// Times that every kind of fault must have come.
const LEAST: u64 = 100;
/// Seeds from which on that is asked for.
const MANY_SEEDS: u64 = 2_000;

/// Options of `fairbell-lab sim replicas`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab sim replicas                seeds 0 to 9,999\n  \
    fairbell-lab sim replicas --seed 42      one seed again\n  \
    fairbell-lab sim replicas --seeds 0..200 --replicas 5 --json\n  \
    fairbell-lab sim replicas --seeds 0..50 --bug ack-before-copy   which checker sees it\n\n\
    A seed decides group, network, disks, faults and clients. It passes when every checker does;\n\
    docs/replication.md lists them. From 2,000 seeds on every kind of fault has to have come at\n\
    least 100 times.")]
pub struct ReplicasArgs {
    /// Seeds to run, first..last, the last one not included
    #[arg(long, value_name = "A..B", value_parser = fairbell::options::seeds, default_value = "0..10000")]
    pub seeds: Range<u64>,
    /// This seed alone
    #[arg(long, value_name = "S", value_parser = fairbell::options::seed, conflicts_with = "seeds")]
    pub seed: Option<u64>,
    /// Replicas, 3 or 5 [default: the seed says]
    #[arg(long, value_name = "N", value_parser = ["3", "5"])]
    pub replicas: Option<String>,
    /// How long logs are: given up right behind every snapshot, or never [default: the seed says]
    #[arg(long, value_name = "LENGTH", value_parser = ["short", "long"])]
    pub logs: Option<String>,
    /// Put a bug in on purpose: a checker has to see it
    #[arg(long, value_name = "BUG", value_parser = bugs())]
    pub bug: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

fn bugs() -> PossibleValuesParser {
    PossibleValuesParser::new(Bug::ALL.map(Bug::name))
}

impl ReplicasArgs {
    fn options(&self) -> Options {
        let replicas = self.replicas.as_deref().and_then(|n| n.parse().ok()).unwrap_or(0);
        let bug = Bug::ALL.into_iter().find(|bug| Some(bug.name()) == self.bug.as_deref());
        let usual = Options::default();
        // A bug has to be seen in the end, so nothing is compared on the way.
        let digest_every = if bug.is_some() { 0 } else { usual.digest_every };
        let short_logs = self.logs.as_deref().map(|length| length == "short");
        Options { replicas, bug, digest_every, short_logs, ..usual }
    }
}

pub(super) fn run(args: &ReplicasArgs) -> Result<(), Failure> {
    let seeds = args.seed.map_or(args.seeds.clone(), |seed| seed..seed + 1);
    let options = args.options();
    let bar = progress(seeds.end.saturating_sub(seeds.start), "groups");
    let summary = run_seeds(seeds.clone(), threads(), &options, &told(&bar));
    bar.finish_and_clear();
    let asked = summary.seeds >= MANY_SEEDS;
    let rare = summary.counts.faults().filter(|(_, n)| asked && *n < LEAST);
    let rare: Vec<&str> = rare.map(|(name, _)| name).collect();
    if args.json {
        println!("{:#}", document(&summary, &seeds, &rare, &options));
    } else {
        print(&summary, &options);
    }
    if summary.failures > 0 {
        let text = format!("{} of {} seeds failed", summary.failures, summary.seeds);
        return Err(Failure::Run(text));
    }
    match rare.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("fewer than {LEAST} times: {}", rare.join(", ")))),
    }
}

fn failover(summary: &Summary) -> (u64, u64) {
    let all = &summary.failovers_ns;
    let median = all.get(all.len() / 2).copied().unwrap_or(0);
    (median, all.last().copied().unwrap_or(0))
}

/// The one command that runs a seed again.
fn again(seed: u64, options: &Options) -> String {
    let mut command = format!("fairbell-lab sim replicas --seed {seed}");
    if options.replicas > 0 {
        command += &format!(" --replicas {}", options.replicas);
    }
    if let Some(short) = options.short_logs {
        command += if short { " --logs short" } else { " --logs long" };
    }
    if let Some(bug) = options.bug {
        command += &format!(" --bug {}", bug.name());
    }
    command
}

fn print(summary: &Summary, options: &Options) {
    println!("{} seeds, {} failed", summary.seeds, summary.failures);
    table(summary.counts.outcomes());
    println!("faults, by how often they came:");
    table(summary.counts.faults());
    let (median, most) = failover(summary);
    let ms = |ns: u64| ns as f64 / 1e6;
    println!(
        "from a leader's death to the next answer, virtual: {:.0} ms median, {:.0} ms at most",
        ms(median),
        ms(most)
    );
    for report in &summary.failed {
        println!("seed {} failed; again: {}", report.seed, again(report.seed, options));
        report.found.iter().for_each(|found| println!("  {:?}: {}", found.checker, found.what));
    }
}

fn document(summary: &Summary, seeds: &Range<u64>, rare: &[&str], options: &Options) -> Value {
    let failed = |report: &Report| {
        let found = report.found.iter();
        let found: Vec<Value> = found
            .map(|f| json!({ "checker": format!("{:?}", f.checker), "reason": f.what }))
            .collect();
        json!({ "seed": report.seed, "again": again(report.seed, options), "failures": found })
    };
    let (median, most) = failover(summary);
    json!({
        "first_seed": seeds.start,
        "seeds": summary.seeds,
        "failed": summary.failures,
        "sums": object(summary.counts.outcomes()),
        "faults": object(summary.counts.faults()),
        "rare_faults": rare,
        "failover_virtual_ns": { "p50": median, "max": most },
        "failures": summary.failed.iter().map(failed).collect::<Vec<_>>(),
    })
}

fn object(list: impl Iterator<Item = (&'static str, u64)>) -> Value {
    list.map(|(name, n)| (name.to_string(), Value::from(n))).collect()
}
