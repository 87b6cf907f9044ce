//! `fairbell clock status`: which clock this machine has, who keeps it, and what the agent says.
//!
//! Read, never set: the kernel's clock source, PTP hardware clocks, chrony's tracking report. The
//! best source that says how wrong it may be is named: agent, then chrony, then nothing.

use clap::Args;
use std::path::Path;
use std::path::PathBuf;

use serde_json::json;

use super::agent::Sample;
use host::clock_sources::{chrony, ptp_clocks};
use host::failure::Failure;
use host::phc::{Device, Hardware};

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

/// What the kernel counts time with.
const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Prints what there is.
pub fn run(args: &StatusArgs) -> Result<(), Failure> {
    let agent = match &args.agent {
        Some(path) => Some(agent(path)?),
        None => None,
    };
    let hardware: Vec<String> = ptp_clocks().iter().map(|name| hardware(name)).collect();
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

/// A hardware clock by its name in the list, and how the system's clock stands beside it.
fn hardware(listed: &str) -> String {
    let device = listed.split(' ').next().unwrap_or(listed);
    let read = Device::open(&format!("/dev/{device}")).and_then(|mut clock| clock.sample());
    match read {
        Ok(read) => {
            let (off_ns, bound_ns) = (read.offset_ns(), read.bound_ns());
            format!("{listed}: system clock {off_ns} ns ahead, within {bound_ns} ns")
        }
        Err(error) => format!("{listed}: {error}"),
    }
}

fn agent(path: &Path) -> Result<Sample, Failure> {
    let wrong = |why: String| Failure::Run(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}
