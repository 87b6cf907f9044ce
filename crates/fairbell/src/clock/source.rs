//! `fairbell clock status`: which clock this machine has, who keeps it, and what the agent says.
//!
//! Read, never set: the kernel's clock source, PTP hardware clocks, chrony's tracking report. The
//! best source that says how wrong it may be is named: agent, then chrony, then nothing.

use clap::Args;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use super::agent::Sample;
use crate::failure::Failure;

/// Options of `fairbell clock status`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell clock status                          what the kernel has\n  \
    fairbell clock status --agent clock.json --json    and what the agent says")]
pub struct StatusArgs {
    /// The file that the agent keeps with --status
    #[arg(long, value_name = "FILE")]
    pub agent: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Where the kernel lists PTP hardware clocks.
const PTP: &str = "/sys/class/ptp";
/// What the kernel counts time with.
const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// What chrony says of itself.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Tracking {
    /// Whom it follows.
    pub reference: String,
    /// How far that is from a clock of its own.
    pub stratum: u32,
    /// Largest error against UTC: offset, half the root delay and the root dispersion, in ns.
    pub bound_ns: u64,
    drift_ppm: f64,
}

/// Prints what there is.
pub fn run(args: &StatusArgs) -> Result<(), Failure> {
    let agent = match &args.agent {
        Some(path) => Some(agent(path)?),
        None => None,
    };
    let hardware = ptp_clocks();
    let counter = std::fs::read_to_string(SOURCE).map(|text| text.trim().to_string()).ok();
    let chrony = chrony();
    let bound = agent.as_ref().and_then(|sample| sample.bound_ns);
    let (used, bound_ns) = match (&agent, bound, &chrony) {
        (Some(_), Some(bound), _) => ("agent", Some(bound)),
        (_, _, Some(tracking)) => ("chrony", Some(tracking.bound_ns)),
        _ => ("system clock, nobody says how wrong", None),
    };
    let document = json!({
        "source": used,
        "bound_ns": bound_ns,
        "counter": counter,
        "ptp_clocks": hardware,
        "chrony": chrony.as_ref().map(|t| json!({"reference": t.reference, "stratum": t.stratum,
            "bound_ns": t.bound_ns, "drift_ppm": t.drift_ppm})),
        "agent": agent,
    });
    if args.json {
        println!("{document:#}");
        return Ok(());
    }
    let shown = bound_ns.map_or(String::new(), |ns| format!(", within {:.3} us", ns as f64 / 1e3));
    println!("source: {used}{shown}");
    println!("counter: {}", counter.as_deref().unwrap_or("unknown"));
    let list = if hardware.is_empty() { "none".to_string() } else { hardware.join(", ") };
    println!("PTP hardware clocks: {list}");
    match &chrony {
        None => println!("chrony: does not answer"),
        Some(t) => println!(
            "chrony: follows {} at stratum {}, within {:.3} us of UTC, drift {:.3} ppm",
            t.reference,
            t.stratum,
            t.bound_ns as f64 / 1e3,
            t.drift_ppm
        ),
    }
    if let Some(sample) = &agent {
        let us = |ns: Option<u64>| ns.map_or("-".into(), |ns| format!("{:.3} us", ns as f64 / 1e3));
        println!(
            "agent: node {} follows {}; bound {}, by causality alone {}; drift {:.3} ppm; {} \
             corrections, {} pairs pure, {} impure, {} skipped",
            sample.node,
            sample.reference,
            us(sample.bound_ns),
            us(sample.causal_ns),
            sample.drift_ppb.unwrap_or(0.0) / 1e3,
            sample.corrections,
            sample.pairs_pure,
            sample.pairs_impure,
            sample.pairs_skipped
        );
    }
    Ok(())
}

fn agent(path: &Path) -> Result<Sample, Failure> {
    let wrong = |why: String| Failure::Run(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}

/// Names of the PTP clocks of this machine, like `ptp0 (KVM virtual PTP)`.
pub(crate) fn ptp_clocks() -> Vec<String> {
    hardware(Path::new(PTP))
}

fn hardware(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let name = |entry: std::fs::DirEntry| {
        let device = entry.file_name().to_string_lossy().into_owned();
        match std::fs::read_to_string(entry.path().join("clock_name")) {
            Ok(name) => format!("{device} ({})", name.trim()),
            Err(_) => device,
        }
    };
    let mut names: Vec<String> = entries.flatten().map(name).collect();
    names.sort();
    names
}

/// What chrony says, if it answers and is synchronised.
pub(crate) fn chrony() -> Option<Tracking> {
    let output = Command::new("chronyc").args(["-c", "tracking"]).output().ok()?;
    tracking(std::str::from_utf8(&output.stdout).ok().filter(|_| output.status.success())?)
}

/// The fields of `chronyc -c tracking`: id, name, stratum, time, system offset, last offset, RMS
/// offset, frequency, residual, skew, root delay, root dispersion, interval, leap status.
fn tracking(line: &str) -> Option<Tracking> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok().filter(|n| n.is_finite());
    let stratum = fields.get(2)?.parse().ok()?;
    if stratum == 0 || fields.get(13).is_none_or(|leap| *leap == "Not synchronised") {
        return None;
    }
    let bound = number(4)?.abs() + number(10)? / 2.0 + number(11)?;
    Some(Tracking {
        reference: fields.get(1)?.to_string(),
        stratum,
        bound_ns: (bound * 1e9).clamp(0.0, 1e18).ceil() as u64,
        drift_ppm: number(7)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chrony_is_believed_only_when_it_is_synchronised() {
        let line = "A9FEA97B,169.254.169.123,4,1700000000.1,0.000002000,0.000001,0.000004,-12.5,\
                    0.001,0.03,0.000400000,0.000100000,16.1,Normal\n";
        let known = tracking(line).unwrap();
        assert_eq!((known.reference.as_str(), known.stratum), ("169.254.169.123", 4));
        assert!((known.bound_ns as i64 - 302_000).abs() <= 1 && known.drift_ppm == -12.5);
        assert_eq!(tracking(&line.replace("Normal", "Not synchronised")), None);
        for bad in ["", "a,b", "x,y,0,,,,,,,,,,,Normal", &line.replace("0.0001", "nan")] {
            assert_eq!(tracking(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_folder_means_no_hardware() {
        assert!(hardware(Path::new("there/is/none")).is_empty());
    }
}
