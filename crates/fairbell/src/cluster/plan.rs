//! `fairbell cluster plan`: measures the machines of a venue while it trades, shows which trees there
//! could be, with what each takes and costs, and has one.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use telemetry::plot::{Curve, Figure, picture};

use host::failure::{Failure, on};
use host::files;
use host::fleet::file::ClusterFile;
use host::fleet::messages::Operation;
use host::fleet::plan::{Measured, PlanReport, PlanRequest, Predicted, TreeLine, is_never};

use super::prices::{Cost, Prices, Provided, cost, provide};
use super::{At, operator, shards};

/// Beyond the time that probes take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The price list beside the cluster file.
const PRICES: &str = "prices.toml";

/// Options of `fairbell cluster plan`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster plan                                  measure, and show the trees that there could be\n  \
    fairbell cluster plan --apply                          and have the best one, if its gain is more than noise\n  \
    fairbell cluster plan --apply --strategy REVISE        have this one, whatever it gains\n  \
    fairbell cluster plan --subtree proxy-2 --apply        choose only the proxies at and below proxy-2 anew\n  \
    fairbell cluster plan --last                           what the last one came to: predicted beside measured\n  \
    fairbell cluster plan --prices prices.toml --provision machines.toml --strategy MODEL-2x4\n\n\
    Trading goes on meanwhile. `[plan]` of cluster.toml bounds the probes, and `every = \"10m\"` there does\n\
    it by itself.")]
pub struct PlanArgs {
    /// Make the best tree the next epoch, or that of --strategy
    #[arg(long)]
    pub apply: bool,
    /// Which tree --apply and --provision take [default: the best that can be]
    #[arg(long, value_name = "NAME")]
    pub strategy: Option<String>,
    /// Choose only the proxies at and below this one anew
    #[arg(long, value_name = "NODE")]
    pub subtree: Option<String>,
    /// Probes of each pair of machines [default: as cluster.toml says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=512))]
    pub probes: Option<u32>,
    /// Fixes all draws
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Measure nothing: what the last plan came to
    #[arg(long, conflicts_with_all = ["apply", "strategy", "subtree", "probes"])]
    pub last: bool,
    /// Show the delays of all pairs, too
    #[arg(long)]
    pub pairs: bool,
    /// What machines cost [default: prices.toml beside the cluster file, if it is there]
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Write the machines that the tree needs, with zones and roles: TOML, or JSON by the name's ending
    #[arg(long, value_name = "FILE")]
    pub provision: Option<PathBuf>,
    /// Draw the trees' predictions
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// The trees of this shard, by name or number [default: the first]
    #[arg(long, value_name = "SHARD")]
    pub shard: Option<String>,
    /// For machines
    #[arg(long)]
    pub json: bool,
    /// Which cluster
    #[command(flatten)]
    pub at: At,
}

/// The machines of a tree, for whoever makes them.
#[derive(Serialize)]
struct Provision<'a> {
    cluster: &'a str,
    strategy: &'a str,
    depth: usize,
    fanout: usize,
    edges: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<&'a str>,
    machine: Vec<Provided>,
}

/// Makes a plan, or shows the last one.
///
/// # Errors
/// Why there is none; what is wrong with a price list; a file that can't be written.
pub fn run(args: &PlanArgs) -> Result<(), Failure> {
    let file = shards::one(&args.at, args.shard.as_deref())?;
    let prices = prices(args, &file)?;
    let operation = match args.last {
        true => Operation::LastPlan,
        false => Operation::Plan(PlanRequest {
            probes: args.probes.unwrap_or(0),
            seed: args.seed,
            subtree: args.subtree.clone().unwrap_or_default(),
            apply: args.apply,
            strategy: args.strategy.clone().filter(|_| args.apply).unwrap_or_default(),
        }),
    };
    let probes = u64::from(args.probes.unwrap_or(file.plan.probes));
    let seconds = probes * file.nodes.len() as u64 / u64::from(file.plan.probes_per_s);
    let patience = PATIENCE + Duration::from_secs(seconds);
    let (_, data) = operator(&file)?.operate(&operation, patience)?;
    let plan: PlanReport = serde_json::from_value(data)
        .map_err(|error| Failure::Run(format!("the root's plan can't be read: {error}")))?;
    let trees = plan.trees.iter().map(|tree| {
        let machines = provide(&file, &plan, tree, prices.as_ref())?;
        Ok((tree, cost(&machines), machines))
    });
    let trees: Vec<(&TreeLine, Cost, Vec<Provided>)> = trees.collect::<Result<_, Failure>>()?;
    if let Some(path) = &args.svg {
        write(path, &picture(&figure(&plan)))?;
    }
    if let Some(path) = &args.provision {
        let name = args.strategy.as_ref().unwrap_or(&plan.verdict.strategy);
        let Some((tree, _, machines)) = trees.iter().find(|(tree, ..)| tree.strategy == *name)
        else {
            let all: Vec<&str> = trees.iter().map(|(tree, ..)| &tree.strategy[..]).collect();
            return Err(Failure::Usage(format!("no strategy {name}: {}", all.join(", "))));
        };
        let provision = Provision {
            cluster: &file.name,
            strategy: name,
            depth: tree.depth,
            fanout: tree.fanout,
            edges: plan.edges.len(),
            currency: prices.as_ref().map(|prices| &prices.currency[..]),
            machine: machines.clone(),
        };
        write(path, &provisioned(path, &provision)?)?;
    }
    match args.json {
        true => {
            let costs: Vec<&Cost> = trees.iter().map(|(_, cost, _)| cost).collect();
            let currency = prices.as_ref().map(|prices| &prices.currency);
            let mut document = json!({ "plan": plan, "costs": costs, "currency": currency });
            document["plan"].as_object_mut().into_iter().flatten().for_each(|(key, value)| {
                // A number that was given, not a time.
                if key != "seed" {
                    without_never(value);
                }
            });
            println!("{document}");
        }
        false => print!("{}", text(&plan, &trees, prices.as_ref(), args.pairs)),
    }
    Ok(())
}

fn prices(args: &PlanArgs, file: &ClusterFile) -> Result<Option<Prices>, Failure> {
    let beside = file.path.with_file_name(PRICES);
    match &args.prices {
        Some(path) => Prices::read(path).map(Some),
        None if beside.exists() => Prices::read(&beside).map(Some),
        None => Ok(None),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    files::replace(path, text.as_bytes()).map_err(|error| on(path, error))
}

fn provisioned(path: &Path, provision: &Provision<'_>) -> Result<String, Failure> {
    let failed = |error: String| Failure::Run(format!("{}: {error}", path.display()));
    match path.extension().is_some_and(|of| of == "json") {
        true => serde_json::to_string_pretty(provision).map_err(|error| failed(error.to_string())),
        false => toml::to_string(provision).map_err(|error| failed(error.to_string())),
    }
}

/// Each tree's interval with its median, the quickest lowest.
fn figure(plan: &PlanReport) -> Figure {
    let curve = |(at, tree): (usize, &TreeLine)| {
        let Predicted { p50_ns, low_ns, high_ns, .. } = tree.predicted;
        let at = at as f64 + 1.0;
        let points =
            [(low_ns, at), (p50_ns, at - 0.15), (p50_ns, at + 0.15), (p50_ns, at), (high_ns, at)];
        Curve {
            name: tree.strategy.clone(),
            points: points
                .iter()
                .filter(|(ns, _)| !is_never(*ns))
                .map(|(ns, at)| (ns / 1e3, *at))
                .collect(),
        }
    };
    Figure {
        file: "plan",
        title: format!("Predicted time to the last arrival of {} trees", plan.trees.len()),
        x: "median time to the last arrival, with its interval (us)",
        y: "trees, the quickest first",
        curves: plan.trees.iter().enumerate().map(curve).collect(),
    }
}

fn us(ns: f64) -> String {
    match is_never(ns) {
        true => "-".to_string(),
        false => format!("{:.1}", ns / 1e3),
    }
}

fn interval(of: &Predicted) -> String {
    format!("{} to {}", us(of.low_ns), us(of.high_ns))
}

/// Times that are beyond what arrived are null for machines.
fn without_never(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(without_never),
        Value::Object(all) => all.values_mut().for_each(without_never),
        Value::Number(number) if number.as_f64().is_some_and(is_never) => *value = Value::Null,
        _ => {}
    }
}

fn text(
    plan: &PlanReport,
    trees: &[(&TreeLine, Cost, Vec<Provided>)],
    prices: Option<&Prices>,
    pairs: bool,
) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a string can't fail.
        let _ = writeln!(out, "{text}");
    };
    line(format!(
        "{} probes between {}, {} proxies and {} edges in {:.1} s; the tree was of epoch {}; seed {}",
        plan.probes,
        plan.root,
        plan.pool.len(),
        plan.edges.len(),
        plan.took_ms as f64 / 1e3,
        plan.epoch,
        plan.seed
    ));
    for (name, why) in &plan.absent {
        line(format!("{name} did not take part: {why}"));
    }
    if pairs {
        line(format!(
            "\n{:<16} {:<16} {:>9} {:>9} {:>9} {:>7} {:>9}",
            "from", "to", "p50 us", "p90", "p99", "lost %", "+- us"
        ));
        for of in &plan.pairs {
            line(format!(
                "{:<16} {:<16} {:>9} {:>9} {:>9} {:>7.2} {:>9}",
                of.from,
                of.to,
                us(of.p50_ns),
                us(of.p90_ns),
                us(of.p99_ns),
                100.0 * of.loss,
                us(of.uncertainty_ns as f64)
            ));
        }
    }
    let money = prices.map_or("cost/h", |prices| &prices.currency[..]);
    line(format!(
        "\n{:<20} {:>6} {:>6} {:>4} {:>9} {:>20} {:>9} {:>6} {:>9}  {}",
        "tree", "DxF", "moves", "new", "p50 us", "between", "p90", "VMs", money, ""
    ));
    for (tree, cost, _) in trees {
        let per_hour = cost.per_hour.map_or("-".to_string(), |of| format!("{of:.2}/h"));
        line(format!(
            "{:<20} {:>6} {:>6} {:>4} {:>9} {:>20} {:>9} {:>6} {:>9}  {}",
            tree.strategy,
            format!("{}x{}", tree.depth, tree.fanout),
            tree.moves,
            tree.new,
            us(tree.predicted.p50_ns),
            interval(&tree.predicted),
            us(tree.predicted.p90_ns),
            cost.machines,
            per_hour,
            tree.obstacle
        ));
    }
    line(format!(
        "\npredicted: time to the last arrival at an edge; nodes take {} us a hop beyond what probes do",
        us(plan.node_ns)
    ));
    let verdict = &plan.verdict;
    line(format!(
        "best that can be: {}; gains {} us ({:.1} %), p = {:.4}: {}",
        verdict.strategy,
        us(verdict.gain_ns),
        100.0 * verdict.share,
        verdict.p,
        if verdict.counts { "more than noise" } else { "within noise, or too small" }
    ));
    if let Some(applied) = &plan.applied {
        let measured = |of: &Option<Measured>| match of {
            Some(of) => format!("{} ({} datagrams)", us(of.p50_ns as f64), of.messages),
            None => "not measured yet".to_string(),
        };
        line(format!(
            "{} is epoch {}, by {} steps",
            applied.strategy, applied.epoch, applied.steps
        ));
        line(format!("measured before, p50 us: {}", measured(&applied.before)));
        line(format!(
            "predicted:               {} ({})",
            us(applied.predicted.p50_ns),
            interval(&applied.predicted)
        ));
        line(format!("measured with it:        {}", measured(&applied.after)));
    } else if !plan.kept.is_empty() {
        line(format!("the tree stays: {}", plan.kept));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::fleet::plan::{AppliedLine, PairLine};

    fn plan() -> PlanReport {
        let tree = |strategy: &str, p50_ns: f64| TreeLine {
            strategy: strategy.to_string(),
            depth: 2,
            fanout: 3,
            proxies: vec!["proxy-1".to_string()],
            predicted: Predicted {
                p50_ns,
                p90_ns: 2.0 * p50_ns,
                low_ns: p50_ns - 1e3,
                high_ns: p50_ns + 1e3,
                incomplete: 0.0,
            },
            ..TreeLine::default()
        };
        PlanReport {
            root: "root-1".to_string(),
            absent: vec![("edge-9".to_string(), "it is away".to_string())],
            pairs: vec![PairLine {
                from: "root-1".into(),
                to: "proxy-1".into(),
                ..PairLine::default()
            }],
            trees: vec![tree("REVISE", 90e3), tree("<PRESENT>", 120e3)],
            applied: Some(AppliedLine {
                strategy: "REVISE".to_string(),
                epoch: 2,
                before: Some(Measured { messages: 99, p50_ns: 121_000, ..Measured::default() }),
                ..AppliedLine::default()
            }),
            ..PlanReport::default()
        }
    }

    #[test]
    fn predicted_and_measured_stand_beside_each_other() {
        let plan = plan();
        let none = Cost { machines: 5, proxies: 1, per_hour: Some(1.7), proxies_per_hour: None };
        let trees: Vec<_> = plan.trees.iter().map(|tree| (tree, none, Vec::new())).collect();
        let said = text(&plan, &trees, None, true);
        for part in [
            "edge-9 did not take part: it is away",
            "90.0",
            "89.0 to 91.0",
            "1.70/h",
            "121.0 (99",
            "not measured yet",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let svg = picture(&figure(&plan));
        assert!(svg.contains("REVISE") && !svg.contains("<PRESENT>"), "{svg}");
    }

    #[test]
    fn times_beyond_what_arrived_are_no_numbers() {
        let mut plan = plan();
        let never = planner::routes::LOST as f64;
        plan.trees[0].predicted.p90_ns = never;
        let lost = Predicted {
            p50_ns: never + 4e3,
            p90_ns: never + 4e3,
            low_ns: 50e3,
            high_ns: never + 5e3,
            incomplete: 0.6,
        };
        plan.trees[1].predicted = lost;
        let none = Cost { machines: 5, proxies: 1, per_hour: None, proxies_per_hour: None };
        let trees: Vec<_> = plan.trees.iter().map(|tree| (tree, none, Vec::new())).collect();
        let said = text(&plan, &trees, None, true);
        let row = |name: &str| {
            let row = said.lines().find(|line| line.starts_with(name)).expect("a row");
            row.split_whitespace().map(str::to_string).collect::<Vec<_>>()
        };
        assert_eq!(row("REVISE")[4..9], ["90.0", "89.0", "to", "91.0", "-"]);
        assert_eq!(row("<PRESENT>")[4..9], ["-", "50.0", "to", "-", "-"]);
        let mut document = json!(plan);
        without_never(&mut document);
        let predicted = |at: usize| document["trees"][at]["predicted"].clone();
        assert_eq!(
            (&predicted(0)["p90_ns"], &predicted(0)["p50_ns"]),
            (&Value::Null, &json!(90e3))
        );
        assert_eq!(
            (&predicted(1)["p50_ns"], &predicted(1)["low_ns"]),
            (&Value::Null, &json!(50e3))
        );
        assert!(!picture(&figure(&plan)).contains("9223372"), "no axis to eternity");
    }

    #[test]
    fn a_provisioning_file_is_read_back_in_both_forms() {
        let machine = Provided {
            name: "proxy-3".to_string(),
            address: String::new(),
            zone: "b".to_string(),
            roles: vec![host::fleet::file::NodeRole::Proxy],
            kind: "usual".to_string(),
            per_hour: Some(0.34),
            exists: false,
        };
        let provision = Provision {
            cluster: "lab",
            strategy: "MODEL-2x4",
            depth: 2,
            fanout: 4,
            edges: 9,
            currency: Some("USD"),
            machine: vec![machine],
        };
        let toml = provisioned(Path::new("m.toml"), &provision).expect("text");
        let toml: toml::Value = toml::from_str(&toml).expect("TOML");
        let json = provisioned(Path::new("m.json"), &provision).expect("text");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(toml["machine"][0]["zone"].as_str(), Some("b"));
        assert_eq!(json["machine"][0]["roles"][0], "proxy");
        assert_eq!(json["machine"][0]["type"], "usual");
        assert_eq!(json["machine"][0].get("address"), None);
    }
}
