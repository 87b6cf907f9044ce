//! `fairbell-lab reproduce`: published experiments repeated, each figure beside the published one. `all` is every
//! table and figure of five sources (module `papers`), a name one experiment in a modelled cloud.
//!
//! A result is a table on standard output, or with `--json` one document, and its figures as SVG
//! and PNG files. The command fails when a demand that belongs to the experiment is not met.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use sim::cloud::report::{Check, ClockSource, Experiment, Kind, Options, Report, Row, Run};
use sim::cloud::{EXPERIMENTS, experiment, nodes, table1};

use host::failure::Failure;

mod page;
mod papers;
mod throughput;
mod timing;

/// Steps of the progress bar.
const STEPS: u64 = 1_000;

/// Options of `fairbell-lab reproduce`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab reproduce list                 what there is\n  \
    fairbell-lab reproduce table1               one experiment as a table, its figures as files\n  \
    fairbell-lab reproduce fairness --seeds 5   quicker, wider confidence intervals\n  \
    fairbell-lab reproduce table1 --json        one JSON document on standard output\n  \
    fairbell-lab reproduce fairness --seed-offset 1000   seeds that nobody has looked at\n  \
    fairbell-lab reproduce scale --receivers 2000 --depth 3 --hedge 1 --loss 0.1   a tree of yours\n  \
    fairbell-lab reproduce fairness --receivers 500 --clocks assumed   clocks of 300 ns p99\n  \
    fairbell-lab reproduce page jasper          the tables of docs/jasper.md, as Markdown\n  \
    fairbell-lab reproduce page clock --into docs/clock.md   put into the document\n  \
    fairbell-lab reproduce all --fast           every table and figure of five sources, ours beside theirs\n  \
    fairbell-lab reproduce all --only \"jasper: table 1\" --json   those of one table\n  \
    fairbell-lab reproduce all --full --into docs/papers   long; the result file, figures and pages\n  \
    fairbell-lab reproduce speed                events a second of the simulator itself")]
pub struct ReproduceArgs {
    /// Name of an experiment, or `list`, `all`, `speed`, `page`
    pub name: String,
    /// With `page`: jasper, treebuilder, clock, or an experiment
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
    /// Receivers of the one tree that is asked for, where an experiment has a tree
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub receivers: Option<u32>,
    /// Its depth [default: by the paper's rule]
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub depth: Option<u32>,
    /// Its fan-out [default: 10]
    #[arg(long, value_name = "F", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub fanout: Option<u32>,
    /// Its H [default: the experiment's own]
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub hedge: Option<u32>,
    /// Copies lost, percent [default: 0.1 with hold-and-release, 0 elsewhere]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub loss: Option<f64>,
    /// Whose errors the hosts' clocks have [default: agents]
    #[arg(long, value_enum, value_name = "SOURCE")]
    pub clocks: Option<Clocks>,
    /// VMs that are stragglers, percent [default: 5]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub stragglers: Option<f64>,
    /// How much longer a straggler's delays are in the mean, percent [default: 40]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub straggler_extra: Option<u32>,
    /// With `page`: put each table into this file, between its marks, instead of printing it. With `all`: the folder
    /// of the sources' pages, for the result file, figures and tables; with --only some rows of these are put in the place
    /// of those there, and say so
    #[arg(long, value_name = "PATH")]
    pub into: Option<PathBuf>,
    /// With `all`: items whose page, table and name contain TEXT
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// With `all`: few seeds and short measurements; so it is without --full
    #[arg(long, conflicts_with = "full")]
    pub fast: bool,
    /// With `all`: the length of a published result
    #[arg(long)]
    pub full: bool,
    /// Folder for figures
    #[arg(long, default_value = "out/reproduce")]
    pub out: PathBuf,
}

/// Where clocks' errors come from.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clocks {
    /// What the clock agents leave, simulated in a cloud of the same kind
    Agents,
    /// Drawn once for each host: 300 ns at the 99th percentile
    Assumed,
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=50.0).contains(value));
    value.ok_or_else(|| "a number from 0 to 50".into())
}

/// What was asked for, if the experiments take it.
fn options(args: &ReproduceArgs, experiments: &[Experiment]) -> Result<Options, Failure> {
    let some = |value: Option<u32>| value.map(|value| value as usize);
    let ppm = |percent: Option<f64>| percent.map(|percent| (percent * 1e4).round() as u32);
    let options = Options {
        receivers: some(args.receivers),
        depth: some(args.depth),
        fanout: some(args.fanout),
        hedge: some(args.hedge),
        loss_ppm: ppm(args.loss),
        clocks: args.clocks.map(|clocks| match clocks {
            Clocks::Agents => ClockSource::Agents,
            Clocks::Assumed => ClockSource::Assumed,
        }),
        straggler_ppm: ppm(args.stragglers),
        straggler_extra_permille: args.straggler_extra.map(|percent| percent * 10),
        first_seed: args.seed_offset,
    };
    for one in experiments {
        for given in options.given() {
            if !one.takes.contains(&given) {
                let takers = EXPERIMENTS.iter().filter(|other| other.takes.contains(&given));
                let takers: Vec<&str> = takers.map(|other| other.name).collect();
                let (name, option, takers) = (one.name, given.name(), takers.join(", "));
                let line = format!("{name} has no {option}; those that have it: {takers}");
                return Err(Failure::Usage(line));
            }
        }
        if let Some(fault) = (one.fault)(&options) {
            return Err(Failure::Usage(format!("{}: {fault}", one.name)));
        }
    }
    Ok(options)
}

/// What was given that the command would pass over, in one line.
fn ignored(args: &ReproduceArgs) -> Option<String> {
    let name = &args.name[..];
    let single = experiment(name).is_some();
    let tree = ReproduceArgs { seed_offset: 0, ..args.clone() };
    let tree = options(&tree, &[]).map(|options| options.given()).unwrap_or_default();
    let seeds = [("--seeds", args.seeds.is_some()), ("--seed-offset", args.seed_offset > 0)];
    let seeds = seeds.into_iter().filter(|(_, given)| *given).map(|(option, _)| option);
    let mut given: Vec<&str> = Vec::new();
    if matches!(name, "list" | "speed") {
        given.extend(seeds);
    }
    if matches!(name, "list" | "speed" | "all") {
        given.extend(tree.iter().map(|option| option.name()));
    }
    if single || matches!(name, "list" | "speed") {
        given.extend(args.into.is_some().then_some("--into"));
    }
    if name == "page" {
        given.extend(args.json.then_some("--json"));
    }
    let known = single || matches!(name, "list" | "speed" | "all");
    match &args.page {
        Some(page) if known => Some(format!("{name} takes no further name, not {page:?}")),
        _ => (!given.is_empty()).then(|| format!("{name} has no {}", given.join(", "))),
    }
}

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    if args.name != "all" && (args.only.is_some() || args.fast || args.full) {
        let line = format!("--only, --fast, --full: of `all`, not of {:?}", args.name);
        return Err(Failure::Usage(line));
    }
    if let Some(line) = ignored(args) {
        return Err(Failure::Usage(line));
    }
    match args.name.as_str() {
        "list" => {
            list(args.json);
            Ok(())
        }
        "speed" => speed(args.json),
        "page" => page::run(args),
        "all" => papers::run(args, options(args, &[])?),
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
        let report = report_of(experiment, seeds, options, &mut set)?;
        bar.finish_and_clear();
        let files = telemetry::plot::write(&report.figures, &args.out).map_err(|error| {
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

/// Runs an experiment: the simulator's part, and what only a clock can tell.
///
/// # Errors
/// Of what is measured: the system's.
fn report_of(
    experiment: &Experiment,
    seeds: u64,
    options: Options,
    progress: &mut dyn FnMut(f64),
) -> Result<Report, Failure> {
    let mut report = (experiment.run)(&mut Run { seeds, options, progress });
    match report.name {
        "lemondrop" => timing::add(&mut report),
        "throughput" => throughput::add(&mut report, options.first_seed, progress)?,
        _ => {}
    }
    Ok(report)
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
        "VMs" | "trades" | "packets" | "messages" | "1/s" | "ppb" => format!("{value:.0} {unit}"),
        "%" => format!("{value:.2} %"),
        _ => format!("{value:.3} {unit}"),
    }
}

/// What the figures of a report are.
fn kind(report: &Report) -> &'static str {
    match report.computed {
        true => "computed",
        false if report.rows.iter().any(is_measured) => "measured and simulated",
        false => "simulated",
    }
}

fn is_measured(row: &Row) -> bool {
    row.kind == Some(Kind::Measured)
}

fn print(report: &Report, first: u64, files: &[PathBuf]) {
    println!("\n{}\n", report.title);
    println!("model: {}", report.model);
    let end = first + report.seeds;
    println!("seeds: {first}..{end}; +- is the 95 % confidence interval over seeds\n");
    let width = report.rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
    let ours = if report.rows.iter().any(is_measured) { "ours" } else { kind(report) };
    println!("{:width$}  {:>14}  {:>14}  {:>12}  {:>8}", "", "published", ours, "+-", "diff");
    for row in &report.rows {
        let published = row.published.map_or("-".into(), |value| shown(value, row.unit));
        let ours = shown(row.ours.mean, row.unit);
        let half = match report.seeds {
            1 => "-".into(),
            _ => shown(row.ours.half_width, row.unit),
        };
        let difference =
            row.difference().map_or("-".into(), |part| format!("{:+.1} %", part * 100.0));
        let what = &row.what;
        println!("{what:width$}  {published:>14}  {ours:>14}  {half:>12}  {difference:>8}");
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
    // One run has no interval.
    let several = row.values.len() > 1;
    let half_width = several.then_some(row.ours.half_width);
    fields.insert(format!("half_width_95{suffix}"), json!(half_width));
    fields.insert("relative_difference".into(), json!(row.difference()));
    if let Some(kind) = row.kind {
        fields.insert("kind".into(), json!(kind.name()));
    }
    if let Some((low, high)) = row.interval.filter(|_| several) {
        fields.insert(format!("interval_low{suffix}"), json!(low));
        fields.insert(format!("interval_high{suffix}"), json!(high));
    }
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
        "kind": kind(report),
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

/// Events a second that the simulator has to reach in the median of its runs.
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
    let holds = fast_enough(&rates);
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
            "the median of {RUNS} runs is below {:.0} M events/s",
            SPEED_LEAST / 1e6
        ))),
    }
}

/// Whether the median of runs in ascending order is fast enough; the best one says nothing.
fn fast_enough(rates: &[f64]) -> bool {
    rates.get(rates.len() / 2).is_some_and(|median| *median >= SPEED_LEAST)
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
        assert!(document["rows"][0]["half_width_95_ns"].is_number());
        assert_eq!(document["rows"][1]["half_width_95"], Value::Null, "one seed");
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
            clocks: None,
            stragglers: None,
            straggler_extra: None,
            into: None,
            only: None,
            fast: false,
            full: false,
            out: PathBuf::new(),
        }
    }

    #[test]
    fn options_are_refused_where_nothing_takes_them() {
        let refused = |args: &ReproduceArgs| matches!(run(args), Err(Failure::Usage(_)));
        assert!(refused(&ReproduceArgs { fast: true, ..args("table1") }));
        assert!(refused(&ReproduceArgs { only: Some("table 77".into()), ..args("all") }));
        let why = |args: &ReproduceArgs| run(args).err().map(|error| error.to_string());
        let line = why(&ReproduceArgs { hedge: Some(1), ..args("pacing") }).unwrap_or_default();
        assert!(line.contains("pacing has no --hedge; those that have it: table1"), "{line}");
        assert!(refused(&ReproduceArgs { loss: Some(0.1), ..args("figure5") }));
        assert!(refused(&ReproduceArgs { clocks: Some(Clocks::Assumed), ..args("hedging") }));
        assert!(refused(&ReproduceArgs { stragglers: Some(1.0), ..args("table1") }));
        for (args, what) in [
            (
                ReproduceArgs { json: true, page: Some("table1".into()), ..args("page") },
                "page has no --json",
            ),
            (ReproduceArgs { into: Some("x.md".into()), ..args("table1") }, "table1 has no --into"),
            (
                ReproduceArgs { page: Some("page".into()), ..args("table1") },
                "table1 takes no further name",
            ),
            (
                ReproduceArgs { seeds: Some(4), receivers: Some(7), ..args("speed") },
                "speed has no --seeds, --receivers",
            ),
            (ReproduceArgs { seeds: Some(3), ..args("list") }, "list has no --seeds"),
            (
                ReproduceArgs { only: Some("jasper".into()), receivers: Some(7), ..args("all") },
                "all has no --receivers",
            ),
            (ReproduceArgs { into: Some("x".into()), ..args("tableX") }, "no experiment"),
        ] {
            let line = why(&args).unwrap_or_default();
            assert!(line.contains(what) && !line.contains('\n'), "{line}");
        }
        let narrow = ReproduceArgs { receivers: Some(50), depth: Some(3), ..args("scale") };
        assert!(refused(&narrow), "100 proxies for 50 receivers");
        assert!(refused(&ReproduceArgs { receivers: Some(9), ..args("inbound-fairness") }));
        assert!(refused(&ReproduceArgs { depth: Some(5), ..args("treebuilder") }), "63 VMs of 25");
        assert!(refused(&ReproduceArgs { fanout: Some(11), ..args("hedging-montecarlo") }));
        assert!(percent("0.1").is_ok() && percent("51").is_err() && percent("nan").is_err());
        // Negative control: what an experiment has is taken.
        let taken = |name: &str, args: ReproduceArgs| {
            options(&args, experiment(name).map(std::slice::from_ref).unwrap()).unwrap()
        };
        let asked = ReproduceArgs { loss: Some(0.1), receivers: Some(300), ..args("fairness") };
        let asked = taken("fairness", asked);
        assert_eq!((asked.loss_ppm, asked.receivers), (Some(1_000), Some(300)));
        let asked = ReproduceArgs { stragglers: Some(20.0), ..args("hedging") };
        let asked = ReproduceArgs { straggler_extra: Some(120), ..asked };
        let asked = taken("hedging", asked);
        let of = (asked.straggler_ppm, asked.straggler_extra_permille);
        assert_eq!(of, (Some(200_000), Some(1_200)));
        let asked = ReproduceArgs { depth: Some(2), ..args("lemondrop") };
        assert_eq!(taken("lemondrop", asked).depth, Some(2));
    }

    #[test]
    fn options_change_what_an_experiment_does() {
        let asked = |name: &str, options: Options| {
            let mut told = |_| {};
            let experiment = experiment(name).unwrap();
            (experiment.run)(&mut Run { seeds: 1, options, progress: &mut told })
        };
        let tree = Options { receivers: Some(40), fanout: Some(4), ..Options::default() };
        for name in ["table1", "figure5", "cost", "dynamic", "profit-share"] {
            let clocks = Some(ClockSource::Assumed);
            let (own, other) =
                (asked(name, Options { clocks, ..tree }), asked(name, Options { clocks, ..tree }));
            assert_eq!(own.rows, other.rows, "{name}");
            let hedge = Some(3);
            let fewer = Options { clocks, hedge, receivers: Some(20), ..tree };
            assert_ne!(own.rows, asked(name, fewer).rows, "{name}");
        }
    }

    #[test]
    fn the_median_run_decides_about_speed() {
        assert!(!fast_enough(&[1e6, 2e6, 2.9e6, 5e6, 6e6]), "the best one does not help");
        assert!(fast_enough(&[1e6, 2e6, 3e6, 5e6, 6e6]));
    }

    #[test]
    fn figures_are_shown_in_fitting_units() {
        assert_eq!(shown(139_000.0, "ns"), "139.00 us");
        assert_eq!(shown(29_000_000.0, "ns"), "29.00 ms");
        assert_eq!(shown(30.0, "VMs"), "30 VMs");
    }
}
