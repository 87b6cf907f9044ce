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
use sim::cloud::report::{Check, Experiment, Report, Row, Run};
use sim::cloud::{EXPERIMENTS, experiment, nodes, table1};

use crate::Failure;

mod canvas;
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
    fairbell reproduce all                  everything, about half an hour\n  \
    fairbell reproduce speed                events a second of the simulator itself")]
pub struct ReproduceArgs {
    /// Name of an experiment, or `list`, `all`, `speed`
    pub name: String,
    /// One JSON document on standard output instead of tables
    #[arg(long)]
    pub json: bool,
    /// Seeds 0 up to this many [default: the experiment's own number]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: Option<u64>,
    /// Folder for figures
    #[arg(long, default_value = "out/reproduce")]
    pub out: PathBuf,
}

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    match args.name.as_str() {
        "list" => {
            list(args.json);
            Ok(())
        }
        "speed" => speed(args.json),
        "all" => several(args, EXPERIMENTS),
        name => match experiment(name) {
            Some(experiment) => several(args, std::slice::from_ref(experiment)),
            None => {
                let names: Vec<&str> = EXPERIMENTS.iter().map(|one| one.name).collect();
                let names = names.join(", ");
                Err(Failure::Usage(format!(
                    "no experiment {name:?}; there are: list, all, speed, {names}"
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
    let mut documents = Vec::new();
    let mut failed: Vec<String> = Vec::new();
    for experiment in experiments {
        let seeds = args.seeds.unwrap_or(experiment.seeds);
        let bar = progress(experiment.name);
        let mut set = |part: f64| bar.set_position((part * STEPS as f64) as u64);
        let mut report = (experiment.run)(&mut Run { seeds, progress: &mut set });
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
            documents.push(document(&report, &files));
        } else {
            print(&report, &files);
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
        "ns" if value.abs() >= 1e7 => format!("{:.2} ms", value / 1e6),
        "ns" => format!("{:.2} us", value / 1e3),
        "VMs" | "trades" | "packets" | "messages" | "1/s" => format!("{value:.0} {unit}"),
        "%" => format!("{value:.2} %"),
        _ => format!("{value:.3} {unit}"),
    }
}

fn print(report: &Report, files: &[PathBuf]) {
    println!("\n{}\n", report.title);
    println!("model: {}", report.model);
    println!("seeds: 0..{}; +- is the 95 % confidence interval over seeds\n", report.seeds);
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

fn document(report: &Report, files: &[PathBuf]) -> Value {
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
        "seeds": (0..report.seeds).collect::<Vec<u64>>(),
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
        let document = document(&report, &[]);
        assert_eq!(document["rms_error"], 0.5);
        assert_eq!(document["rows"][0]["ours_ns"], 91.0);
        assert_eq!(document["rows"][0]["published_ns"], 100.0);
        assert_eq!(document["rows"][1]["ours"], 7.0);
        assert_eq!(document["rows"][1]["published"], Value::Null);
        assert_eq!(document["passes"], false);
        assert_eq!(document["seeds"], json!([0, 1]));
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let args =
            ReproduceArgs { name: "tableX".into(), json: false, seeds: None, out: PathBuf::new() };
        let error = run(&args).unwrap_err();
        assert!(matches!(&error, Failure::Usage(line) if line.contains("hedging-montecarlo")));
    }

    #[test]
    fn figures_are_shown_in_fitting_units() {
        assert_eq!(shown(139_000.0, "ns"), "139.00 us");
        assert_eq!(shown(29_000_000.0, "ns"), "29.00 ms");
        assert_eq!(shown(30.0, "VMs"), "30 VMs");
    }
}
