//! `fairbell reproduce`: the Jasper paper's experiments and the TreeBuilder thesis' in modelled
//! clouds, each figure beside the published one.
//!
//! A result is a table on standard output, or with `--json` one document, and its figures as SVG
//! and PNG files. The command fails when a demand that belongs to the experiment is not met.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use sim::cloud::report::{Check, Experiment, Options, Report, Row, Run};
use sim::cloud::{EXPERIMENTS, experiment, nodes, table1};

use crate::Failure;

mod canvas;
mod page;
pub(crate) mod plot;

/// Steps of the progress bar.
const STEPS: u64 = 1_000;

/// Options of `fairbell reproduce`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell reproduce list                 what there is\n  \
    fairbell reproduce table1               one experiment as a table, its figures as files\n  \
    fairbell reproduce fairness --seeds 5   quicker, wider confidence intervals\n  \
    fairbell reproduce table1 --json        one JSON document on standard output\n  \
    fairbell reproduce fairness --seed-offset 1000   seeds that nobody has looked at\n  \
    fairbell reproduce scale --receivers 2000 --depth 3 --hedge 1 --loss 0.1   a tree of yours\n  \
    fairbell reproduce page jasper          the tables of docs/jasper.md, as Markdown\n  \
    fairbell reproduce all                  everything, about half an hour\n  \
    fairbell reproduce speed                events a second of the simulator itself")]
pub struct ReproduceArgs {
    /// Name of an experiment, or `list`, `all`, `speed`, `page`
    pub name: String,
    /// With `page`: jasper or treebuilder
    pub page: Option<String>,
    /// One JSON document on standard output instead of tables
    #[arg(long)]
    pub json: bool,
    /// Seeds 0 up to this many [default: the experiment's own number]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: Option<u64>,
    /// The first seed [default: 0]
    #[arg(long, value_name = "S", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    pub seed_offset: u64,
    /// Receivers of the one tree that `scale` measures
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub receivers: Option<u32>,
    /// Its depth [default: by the paper's rule]
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub depth: Option<u32>,
    /// Its fan-out [default: 10]
    #[arg(long, value_name = "F", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub fanout: Option<u32>,
    /// Its H [default: 2]
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub hedge: Option<u32>,
    /// Copies lost, percent, of scale, hedging, components and dynamic [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub loss: Option<f64>,
    /// Folder for figures
    #[arg(long, default_value = "out/reproduce")]
    pub out: PathBuf,
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=50.0).contains(value));
    value.ok_or_else(|| "a number from 0 to 50".into())
}

/// Experiments that take `--loss`; the tree's options are of `scale` alone.
const LOSSY: [&str; 4] = ["scale", "hedging", "components", "dynamic"];

/// What was asked for, if the experiments take it.
fn options(args: &ReproduceArgs, experiments: &[Experiment]) -> Result<Options, Failure> {
    let some = |value: Option<u32>| value.map(|value| value as usize);
    let options = Options {
        receivers: some(args.receivers),
        depth: some(args.depth),
        fanout: some(args.fanout),
        hedge: some(args.hedge),
        loss_ppm: args.loss.map(|percent| (percent * 1e4).round() as u32),
        first_seed: args.seed_offset,
    };
    for one in experiments {
        if options.has_tree() && one.name != "scale" {
            let what = "--receivers, --depth, --fanout and --hedge are of scale";
            return Err(Failure::Usage(format!("{}: {what}", one.name)));
        }
        if options.loss_ppm.is_some() && !LOSSY.contains(&one.name) {
            let takers = LOSSY.join(", ");
            return Err(Failure::Usage(format!("{}: --loss is of {takers}", one.name)));
        }
    }
    if options.has_tree() {
        let receivers = options.receivers.unwrap_or(1_000);
        let depth = options.depth.unwrap_or(table1::rule_depth(receivers)) as u32;
        let last = options.fanout.unwrap_or(10).checked_pow(depth - 1);
        if last.is_none_or(|proxies| proxies > receivers) {
            let what = "more proxies in the last layer than receivers";
            return Err(Failure::Usage(format!("--depth, --fanout: {what}")));
        }
    }
    Ok(options)
}

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    match args.name.as_str() {
        "list" => {
            list(args.json);
            Ok(())
        }
        "speed" => speed(args.json),
        "page" => page::run(args),
        "all" => several(args, EXPERIMENTS),
        name => match experiment(name) {
            Some(experiment) => several(args, std::slice::from_ref(experiment)),
            None => {
                let names: Vec<&str> = EXPERIMENTS.iter().map(|one| one.name).collect();
                let names = names.join(", ");
                Err(Failure::Usage(format!(
                    "no experiment {name:?}; there are: list, all, speed, page, {names}"
                )))
            }
        },
    }
}

fn list(as_json: bool) {
    if as_json {
        let one = |e: &Experiment| json!({"name": e.name, "about": e.about, "seeds": e.seeds});
        println!("{}", Value::from(EXPERIMENTS.iter().map(one).collect::<Vec<_>>()));
        return;
    }
    for experiment in EXPERIMENTS {
        println!("{:20} {}", experiment.name, experiment.about);
    }
}

fn several(args: &ReproduceArgs, experiments: &[Experiment]) -> Result<(), Failure> {
    let options = options(args, experiments)?;
    let mut documents = Vec::new();
    let mut failed: Vec<String> = Vec::new();
    for experiment in experiments {
        let seeds = args.seeds.unwrap_or(experiment.seeds);
        let bar = progress(experiment.name);
        let mut set = |part: f64| bar.set_position((part * STEPS as f64) as u64);
        let mut report = (experiment.run)(&mut Run { seeds, options, progress: &mut set });
        if report.name == "lemondrop" {
            crate::plan::timing::add(&mut report);
        }
        bar.finish_and_clear();
        let files = plot::write(&report.figures, &args.out).map_err(|error| {
            Failure::Run(format!("cannot write figures to {}: {error}", args.out.display()))
        })?;
        let missed = report.checks.iter().filter(|check| !check.holds());
        failed.extend(missed.map(|check| format!("{}: {}", report.name, check.what)));
        if args.json {
            documents.push(document(&report, args.seed_offset, &files));
        } else {
            print(&report, args.seed_offset, &files);
        }
    }
    match documents.len() {
        0 => {}
        1 => println!("{}", documents.remove(0)),
        _ => println!("{}", Value::from(documents)),
    }
    match failed.first() {
        None => Ok(()),
        Some(first) => {
            Err(Failure::Run(format!("{} demands not met, first {first}", failed.len())))
        }
    }
}

fn progress(name: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{prefix:20} [{bar:40}] {percent}% {eta} left");
    let bar = ProgressBar::new(STEPS).with_prefix(name);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// A figure for people: ns as us, everything else as it is.
fn shown(value: f64, unit: &str) -> String {
    match unit {
        _ if value.is_nan() => "none".into(),
        "ns" if value.abs() >= 1e7 => format!("{:.2} ms", value / 1e6),
        "ns" => format!("{:.2} us", value / 1e3),
        "VMs" | "trades" | "packets" | "messages" | "1/s" => format!("{value:.0} {unit}"),
        "%" => format!("{value:.2} %"),
        _ => format!("{value:.3} {unit}"),
    }
}

fn print(report: &Report, first: u64, files: &[PathBuf]) {
    println!("\n{}\n", report.title);
    println!("model: {}", report.model);
    let end = first + report.seeds;
    println!("seeds: {first}..{end}; +- is the 95 % confidence interval over seeds\n");
    let width = report.rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
    println!("{:width$}  {:>14}  {:>14}  {:>12}  {:>8}", "", "published", "ours", "+-", "diff");
    for row in &report.rows {
        let published = row.published.map_or("-".into(), |value| shown(value, row.unit));
        let ours = shown(row.ours.mean, row.unit);
        let half = match report.seeds {
            1 => "-".into(),
            _ => shown(row.ours.half_width, row.unit),
        };
        let difference =
            row.difference().map_or("-".into(), |part| format!("{:+.1} %", part * 100.0));
        println!("{:width$}  {published:>14}  {ours:>14}  {half:>12}  {difference:>8}", row.what);
    }
    for (name, value) in &report.scalars {
        println!("{name}: {value:.4}");
    }
    println!();
    for check in &report.checks {
        let verdict = if check.holds() { "holds" } else { "MISSED" };
        println!("{verdict:6} {}: {}", check.what, bounds(check));
    }
    for note in &report.notes {
        println!("note: {note}");
    }
    for file in files {
        println!("figure: {}", file.display());
    }
}

fn bounds(check: &Check) -> String {
    format!("{:.4} (allowed {:.4} to {:.4})", check.ours, check.allowed.0, check.allowed.1)
}

fn row(row: &Row) -> Value {
    let mut fields = Map::new();
    fields.insert("what".into(), json!(row.what));
    fields.insert("unit".into(), json!(row.unit));
    let suffix = if row.unit == "ns" { "_ns" } else { "" };
    fields.insert(format!("published{suffix}"), json!(row.published));
    fields.insert(format!("ours{suffix}"), json!(row.ours.mean));
    fields.insert(format!("half_width_95{suffix}"), json!(row.ours.half_width));
    fields.insert("relative_difference".into(), json!(row.difference()));
    Value::Object(fields)
}

fn document(report: &Report, first: u64, files: &[PathBuf]) -> Value {
    let check = |check: &Check| {
        json!({
            "what": check.what, "ours": check.ours, "least": check.allowed.0,
            "most": check.allowed.1, "holds": check.holds(),
        })
    };
    let mut fields = Map::new();
    for (name, value) in &report.scalars {
        fields.insert((*name).into(), json!(value));
    }
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let rest = json!({
        "name": report.name,
        "title": report.title,
        "model": report.model,
        "seeds": (first..first + report.seeds).collect::<Vec<u64>>(),
        "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
        "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
        "passes": report.passes(),
        "notes": report.notes,
        "figures": files,
    });
    if let Value::Object(rest) = rest {
        fields.extend(rest);
    }
    Value::Object(fields)
}

/// Events a second that the simulator has to reach in its best run.
const SPEED_LEAST: f64 = 3e6;

/// P6: events a second with the real overlay nodes, N = 1,000, H = 2, one thread, sealer off.
fn speed(as_json: bool) -> Result<(), Failure> {
    const RUNS: u64 = 5;
    const MESSAGES: u64 = 1_000;
    let mut rates = Vec::new();
    let mut events = 0;
    for seed in 0..RUNS {
        let tree = table1::tree(&table1::layers(1_000, 3, 10), 2, true);
        let mut world = nodes::speed_world(tree, seed);
        // Warm-up: buffers grow, the first deadlines come.
        let (interval_ns, quiet_ns) = (200_000, 1_000_000);
        world.run(0, 400, interval_ns, quiet_ns);
        let (before, begin) = (world.events(), Instant::now());
        world.run(400 * interval_ns + quiet_ns, MESSAGES, interval_ns, quiet_ns);
        events = world.events() - before;
        rates.push(events as f64 / begin.elapsed().as_secs_f64());
        if world.finished().len() as u64 != 400 + MESSAGES {
            return Err(Failure::Run("messages were not delivered to everybody".into()));
        }
    }
    rates.sort_by(f64::total_cmp);
    let (median, least, most) = (rates[RUNS as usize / 2], rates[0], rates[RUNS as usize - 1]);
    let holds = most >= SPEED_LEAST;
    if as_json {
        println!(
            "{}",
            json!({"receivers": 1_000, "hedge": 2, "events": events, "events_per_s": median,
                "least": least, "most": most, "runs": RUNS, "sealed": false, "passes": holds})
        );
    } else {
        println!(
            "N=1000 H=2, one thread, not sealed: {:.2} M events/s (median of {RUNS}; {:.2} to \
             {:.2}), {events} events a run",
            median / 1e6,
            least / 1e6,
            most / 1e6
        );
    }
    match holds {
        true => Ok(()),
        false => Err(Failure::Run(format!(
            "the best of {RUNS} runs is below {:.0} M events/s",
            SPEED_LEAST / 1e6
        ))),
    }
}

/// Where a figure's file goes.
fn file(folder: &Path, name: &str, extension: &str) -> PathBuf {
    folder.join(format!("{name}.{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_carry_nanoseconds_by_name_and_scalars_at_the_top() {
        let report = Report {
            name: "x",
            seeds: 2,
            rows: vec![
                Row::new("a", "ns", Some(100.0), &[90.0, 92.0]),
                Row::single("b", "%", None, 7.0),
            ],
            scalars: vec![("rms_error", 0.5)],
            checks: vec![Check::new("c", 2.0, 0.0, 1.0)],
            ..Report::default()
        };
        let document = document(&report, 5, &[]);
        assert_eq!(document["rms_error"], 0.5);
        assert_eq!(document["rows"][0]["ours_ns"], 91.0);
        assert_eq!(document["rows"][0]["published_ns"], 100.0);
        assert_eq!(document["rows"][1]["ours"], 7.0);
        assert_eq!(document["rows"][1]["published"], Value::Null);
        assert_eq!(document["passes"], false);
        assert_eq!(document["seeds"], json!([5, 6]));
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let error = run(&args("tableX")).unwrap_err();
        assert!(matches!(&error, Failure::Usage(line) if line.contains("hedging-montecarlo")));
    }

    fn args(name: &str) -> ReproduceArgs {
        ReproduceArgs {
            name: name.into(),
            page: None,
            json: false,
            seeds: None,
            seed_offset: 0,
            receivers: None,
            depth: None,
            fanout: None,
            hedge: None,
            loss: None,
            out: PathBuf::new(),
        }
    }

    #[test]
    fn options_are_refused_where_nothing_takes_them() {
        let refused = |args: &ReproduceArgs| matches!(run(args), Err(Failure::Usage(_)));
        assert!(refused(&ReproduceArgs { hedge: Some(1), ..args("table1") }));
        assert!(refused(&ReproduceArgs { loss: Some(0.1), ..args("fairness") }));
        let narrow = ReproduceArgs { receivers: Some(50), depth: Some(3), ..args("scale") };
        assert!(refused(&narrow), "100 proxies for 50 receivers");
        assert!(percent("0.1").is_ok() && percent("51").is_err() && percent("nan").is_err());
        let scale = experiment("scale").map(std::slice::from_ref).unwrap();
        let asked = options(&ReproduceArgs { loss: Some(0.1), ..args("scale") }, scale);
        assert_eq!(asked.ok().and_then(|asked| asked.loss_ppm), Some(1_000));
    }

    #[test]
    fn figures_are_shown_in_fitting_units() {
        assert_eq!(shown(139_000.0, "ns"), "139.00 us");
        assert_eq!(shown(29_000_000.0, "ns"), "29.00 ms");
        assert_eq!(shown(30.0, "VMs"), "30 VMs");
    }
}
