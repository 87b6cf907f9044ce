//! `fairbell clock report`: agents' traces judged as regulators and the paper's benchmarks do.
//!
//! Skew is a clock less the reference's at one moment. Of the free-running clock the agent itself
//! measures it. Of the disciplined clock the truth is known only where all agents share a machine,
//! whose monotonic clock then tells; elsewhere the published bound stands for the error.

use crate::options::duration;
use clap::Args;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use telemetry::plot::{Curve, Figure};

use serde_json::{Value, json};

use super::RTS25_NS;
use super::agent::Sample;
use host::failure::Failure;
use telemetry::plot;

/// Options of `fairbell clock report`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell clock report a.jsonl b.jsonl c.jsonl      all agents' traces, the reference's too\n  \
    fairbell clock report out/clock/*.jsonl --same-machine --json   the truth is known")]
pub struct ReportArgs {
    /// Traces
    #[arg(value_name = "FILE", required = true)]
    pub traces: Vec<PathBuf>,
    /// All agents ran on one machine: judge readings by its one clock
    #[arg(long)]
    pub same_machine: bool,
    /// Leave out so much after each agent's first reading
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub settle: Duration,
    /// Folder for figures
    #[arg(long, value_name = "DIR", default_value = "out/clock")]
    pub out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Errors of one kind of clock.
#[derive(Clone, PartialEq, Debug, Default)]
struct Skews {
    /// Absolute, in ns, ascending.
    sorted: Vec<u64>,
}

impl Skews {
    fn of(values: impl Iterator<Item = i64>) -> Skews {
        let mut sorted: Vec<u64> = values.map(i64::unsigned_abs).collect();
        sorted.sort_unstable();
        Skews { sorted }
    }

    fn at(&self, permille: usize) -> u64 {
        clock::simulate::quantile(&self.sorted, permille)
    }

    fn within(&self, ns: u64) -> f64 {
        self.sorted.partition_point(|skew| *skew <= ns) as f64 / self.sorted.len().max(1) as f64
    }

    fn document(&self) -> Value {
        json!({"readings": self.sorted.len(), "within_100us": self.within(RTS25_NS),
            "p50_ns": self.at(500), "p99_ns": self.at(990), "max_ns": self.at(1_000)})
    }
}

/// What the traces say.
struct Findings {
    nodes: usize,
    free: Skews,
    /// Error of the disciplined clocks, where it is known.
    error: Option<Skews>,
    bound: Skews,
    held: Option<f64>,
    /// Per node: (id, drift in parts of 10^9 at the end).
    drifts: Vec<(u16, f64)>,
    figure: Figure,
}

/// Reads, judges and prints.
pub fn run(args: &ReportArgs) -> Result<(), Failure> {
    let mut traces = Vec::new();
    for path in &args.traces {
        traces.push(read(path)?);
    }
    distinct(&args.traces, &traces)?;
    let settle_ns = u64::try_from(args.settle.as_nanos()).unwrap_or(u64::MAX);
    let findings = judge(&traces, settle_ns, args.same_machine)?;
    let files =
        plot::write(std::slice::from_ref(&findings.figure), &args.out).map_err(|error| {
            Failure::Run(format!("cannot write to {}: {error}", args.out.display()))
        })?;
    let judged = findings.error.as_ref().unwrap_or(&findings.bound);
    let complies = !judged.sorted.is_empty() && judged.at(1_000) <= RTS25_NS;
    if args.json {
        let drifts: Vec<Value> = findings
            .drifts
            .iter()
            .map(|(node, ppb)| json!({"node": node, "drift_ppb": ppb}))
            .collect();
        let document = json!({
            "nodes": findings.nodes,
            "free_running_skew": findings.free.document(),
            "disciplined_error": findings.error.as_ref().map(Skews::document),
            "bound": findings.bound.document(),
            "bound_held": findings.held,
            "drift": drifts,
            "rts25_limit_ns": RTS25_NS,
            "rts25_judged_by": if findings.error.is_some() { "error" } else { "bound" },
            "rts25_complies": complies,
        });
        println!("{document:#}");
    } else {
        print(&findings, complies);
        files.iter().for_each(|file| println!("figure: {}", file.display()));
    }
    match complies {
        true => Ok(()),
        false => Err(Failure::Run("clocks are not within the 100 us of RTS 25".to_string())),
    }
}

fn read(path: &Path) -> Result<Vec<Sample>, Failure> {
    let wrong = |why: String| Failure::Run(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let mut samples = Vec::new();
    let count = text.lines().count();
    for (number, line) in (1..).zip(text.lines()) {
        match serde_json::from_str(line) {
            Ok(sample) => samples.push(sample),
            // An agent that was stopped may leave half a line.
            Err(_) if number == count => {}
            Err(error) => return Err(wrong(format!("line {number}: {error}"))),
        }
    }
    Ok(samples)
}

/// No file, and no agent, twice: it would count twice.
fn distinct(files: &[PathBuf], traces: &[Vec<Sample>]) -> Result<(), Failure> {
    let places: Vec<_> = files.iter().map(|file| file.canonicalize().ok()).collect();
    for (at, file) in files.iter().enumerate() {
        let node = |at: usize| traces.get(at)?.first().map(|sample| sample.node);
        for (before, other) in files.iter().enumerate().take(at) {
            let place = places.get(at).filter(|place| place.is_some());
            let why = if place.is_some() && place == places.get(before) {
                "is named twice".to_string()
            } else if let Some(node) = node(at).filter(|_| node(at) == node(before)) {
                format!("is of node {node}, as is {}", other.display())
            } else {
                continue;
            };
            return Err(Failure::Usage(format!("{}: {why}", file.display())));
        }
    }
    Ok(())
}

/// From the first to the last line of a trace, in seconds.
fn length_s(trace: &[Sample]) -> f64 {
    let at = |sample: Option<&Sample>| sample.map_or(0, |sample| sample.monotonic_ns);
    at(trace.last()).saturating_sub(at(trace.first())) as f64 / 1e9
}

fn difference(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b) as i64
}

fn judge(traces: &[Vec<Sample>], settle_ns: u64, same_machine: bool) -> Result<Findings, Failure> {
    let is_reference = |trace: &&Vec<Sample>| trace.first().is_some_and(|s| s.node == s.reference);
    // On one machine the reference's clock is the monotonic one and a constant.
    let base = traces.iter().find(is_reference).and_then(|trace| trace.first());
    let base = base.map(|sample| difference(sample.raw_ns, sample.monotonic_ns));
    if same_machine && base.is_none() {
        return Err(Failure::Run("the reference's trace is missing".to_string()));
    }
    let mut findings = Findings {
        nodes: traces.len(),
        free: Skews::default(),
        error: None,
        bound: Skews::default(),
        held: None,
        drifts: Vec::new(),
        figure: Figure {
            file: "clock_skew",
            title: "Clocks against the reference".into(),
            x: "time, s",
            y: if same_machine { "error, us" } else { "bound, us" },
            curves: Vec::new(),
        },
    };
    let (mut free, mut errors, mut bounds, mut held) = (Vec::new(), Vec::new(), Vec::new(), 0usize);
    let start = traces.iter().flatten().map(|sample| sample.monotonic_ns).min().unwrap_or(0);
    for trace in traces.iter().filter(|trace| !is_reference(trace)) {
        let ready = trace.iter().find(|sample| sample.now_ns.is_some());
        let Some(ready) = ready.map(|sample| sample.monotonic_ns.saturating_add(settle_ns)) else {
            return Err(Failure::Run("a trace has no reading of a disciplined clock".to_string()));
        };
        let (mut points, taken) = (Vec::new(), bounds.len());
        for sample in trace.iter().filter(|sample| sample.monotonic_ns >= ready) {
            let (Some(now), Some(bound)) = (sample.now_ns, sample.bound_ns) else { continue };
            free.push(difference(sample.raw_ns, now));
            let bound = i64::try_from(bound).unwrap_or(i64::MAX);
            bounds.push(bound);
            let at = sample.monotonic_ns.saturating_sub(start) as f64 / 1e9;
            let shown = match base.filter(|_| same_machine) {
                None => bound,
                Some(base) => {
                    let error = difference(now, sample.monotonic_ns) - base;
                    held += usize::from(error.unsigned_abs() <= bound.unsigned_abs());
                    errors.push(error);
                    error
                }
            };
            points.push((at, shown as f64 / 1e3));
        }
        if bounds.len() == taken {
            let node = trace.first().map_or(0, |sample| sample.node);
            return Err(Failure::Run(format!(
                "node {node}: no reading is left after --settle {}s, its trace has {:.1} s: a longer trace, \
                 or a shorter --settle",
                settle_ns as f64 / 1e9,
                length_s(trace)
            )));
        }
        if let Some((sample, drift)) = trace.last().and_then(|s| Some((s, s.drift_ppb?))) {
            findings.drifts.push((sample.node, drift));
            let name = format!("node {}", sample.node);
            findings.figure.curves.push(Curve { name, points });
        }
    }
    if bounds.is_empty() {
        let why = "nothing to judge: only the reference's trace is there, or an empty one";
        return Err(Failure::Run(why.to_string()));
    }
    // More lines than colours would be a tangle.
    findings.figure.curves.truncate(8);
    if same_machine {
        findings.held = Some(held as f64 / errors.len().max(1) as f64);
        findings.error = Some(Skews::of(errors.into_iter()));
    }
    findings.free = Skews::of(free.into_iter());
    findings.bound = Skews::of(bounds.into_iter());
    Ok(findings)
}

fn print(findings: &Findings, complies: bool) {
    println!("{} agents, {} readings", findings.nodes, findings.bound.sorted.len());
    println!("{:34}{:>12}{:>12}{:>12}{:>14}", "us", "p50", "p99", "max", "within 100 us");
    let row = |name: &str, skews: &Skews| {
        let us = |permille| skews.at(permille) as f64 / 1e3;
        println!(
            "{name:34}{:>12.3}{:>12.3}{:>12.3}{:>12.2} %",
            us(500),
            us(990),
            us(1_000),
            skews.within(RTS25_NS) * 100.0
        );
    };
    row("skew of the free-running clocks", &findings.free);
    if let Some(error) = &findings.error {
        row("error of the disciplined clocks", error);
    }
    row("published bound", &findings.bound);
    if let Some(held) = findings.held {
        println!("readings within their bound: {:.3} %", held * 100.0);
    }
    for (node, drift) in &findings.drifts {
        println!("node {node}: free-running clock drifts by {:.3} ppm", drift / 1e3);
    }
    let by = if findings.error.is_some() { "error" } else { "bound" };
    let verdict = if complies { "complies" } else { "does NOT comply" };
    println!("RTS 25, 100 us, judged by the largest {by}: {verdict}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(node: u16, error_ns: i64, bound_ns: u64) -> Vec<Sample> {
        let sample = |step: u64| {
            let monotonic_ns = step * 100_000_000;
            let raw_ns = 5_000_000_000 + monotonic_ns;
            let now_ns = raw_ns.checked_add_signed(error_ns).filter(|_| step > 2);
            Sample {
                node,
                reference: 0,
                monotonic_ns,
                raw_ns: raw_ns + u64::from(node) * 3_000_000,
                now_ns,
                bound_ns: now_ns.map(|_| bound_ns),
                drift_ppb: Some(1_500.0),
                ..Sample::default()
            }
        };
        (0..100).map(sample).collect()
    }

    #[test]
    fn errors_bounds_and_skews_are_told_apart() {
        let traces = [trace(0, 0, 0), trace(1, -700, 1_000), trace(2, 2_000, 1_000)];
        let found = judge(&traces, 1_000_000_000, true).unwrap();
        let error = found.error.unwrap();
        assert_eq!((error.at(500), error.at(1_000)), (700, 2_000));
        assert_eq!(found.held, Some(0.5));
        assert_eq!(found.bound.at(1_000), 1_000);
        assert!(found.free.at(500) > 2_990_000 && found.free.within(RTS25_NS) == 0.0);
        let unknown = judge(&traces[1..], 0, false).unwrap();
        assert!(unknown.error.is_none() && unknown.held.is_none());
        assert!(judge(&traces[1..], 0, true).is_err());
        assert!(judge(&[trace(0, 0, 0), vec![Sample::default()]], 0, false).is_err());
    }

    #[test]
    fn without_readings_there_is_no_verdict() {
        let traces = [trace(0, 0, 0), trace(1, -700, 1_000)];
        // The first reading is at 0.3 s, the last one at 9.9 s.
        for (settle_ms, left) in [(9_600, true), (9_601, false), (60_000, false)] {
            let found = judge(&traces, settle_ms * 1_000_000, true);
            assert_eq!(found.is_ok(), left, "{settle_ms}");
            let why = found.err().map(|failure| failure.to_string()).unwrap_or_default();
            let told = why.contains("node 1: no reading is left after --settle")
                && why.contains("its trace has 9.9 s");
            assert!(left || told, "{why}");
        }
        assert!(judge(&traces[..1], 0, true).is_err(), "the reference alone");
        // One agent without readings is not passed over.
        let mut short = trace(2, 0, 0);
        short.truncate(20);
        let [a, b] = traces;
        assert!(judge(&[a, b, short], 5_000_000_000, true).is_err());
    }

    #[test]
    fn nobody_is_counted_twice() {
        let files = ["a.jsonl", "b.jsonl"].map(PathBuf::from);
        assert_eq!(distinct(&files, &[trace(0, 0, 0), trace(1, 0, 0)]), Ok(()));
        let why = distinct(&files, &[trace(1, 0, 0), trace(1, 0, 0)]).unwrap_err().to_string();
        assert_eq!(why, "b.jsonl: is of node 1, as is a.jsonl");
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let twice = [file.clone(), file.join(".")];
        let why = distinct(&twice, &[trace(0, 0, 0), trace(1, 0, 0)]).unwrap_err().to_string();
        assert!(why.ends_with("is named twice"), "{why}");
    }
}
