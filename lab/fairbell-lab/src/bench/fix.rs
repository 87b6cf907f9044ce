//! The FIX codec on the two samples committed beside it: an order from bytes to typed request, with
//! and without its dictionary, and a report from execution to bytes.
//!
//! The floor is a plain loop over the order's bytes that notes every separator and every `=` and
//! adds up the sum, which any parser has to do. All four take turns, so that they meet the same
//! machine, and what counts are ratios to the floor of the same run.

use std::hint::black_box;
use std::time::Instant;

use clap::Args;
use fix::sample::Steps;

use host::failure::Failure;

/// Options of `fairbell-lab bench fix`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench fix                   parse, parse and check, encode, beside a bare scan\n  \
    fairbell-lab bench fix --runs 51 --json")]
pub struct FixArgs {
    /// Turns of each measurement
    #[arg(long, value_name = "N", default_value_t = 15,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: u32,
    /// Messages in a turn
    #[arg(long, value_name = "N", default_value_t = 20_000,
          value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub messages: u32,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What is measured, in the order of the figures.
const NAMES: [&str; 4] = ["floor", "parse", "parse_checked", "encode"];
/// Bars in nanoseconds, where there are.
const BARS: [Option<f64>; 4] = [None, Some(250.0), None, Some(200.0)];

/// Measures and prints.
pub fn run(args: &FixArgs) -> Result<(), Failure> {
    let found = measure(args)?;
    let floor = found[0].max(f64::MIN_POSITIVE);
    if args.json {
        let mut document = serde_json::json!({
            "runs": args.runs,
            "messages": args.messages,
            "order_bytes": 185,
            "report_bytes": 264,
        });
        for ((name, ns), bar) in NAMES.iter().zip(found).zip(BARS) {
            document[format!("{name}_ns")] = ns.into();
            document[format!("{name}_x_floor")] = (ns / floor).into();
            if let Some(bar) = bar {
                document[format!("{name}_bar_ns")] = bar.into();
                document[format!("{name}_bar_met")] = (ns <= bar).into();
            }
        }
        println!("{document:#}");
        return Ok(());
    }
    println!("{:<16} {:>8} {:>8}  bar", "step", "ns", "x floor");
    for ((name, ns), bar) in NAMES.iter().zip(found).zip(BARS) {
        let bar = bar.map_or(String::new(), |bar| {
            format!("{bar:.0} ns: {}", if ns <= bar { "met" } else { "not met" })
        });
        println!("{name:<16} {ns:>8.1} {:>8.2}  {bar}", ns / floor);
    }
    println!("medians of {} turns of {} messages", args.runs, args.messages);
    Ok(())
}

/// Nanoseconds per message: medians, in the order of [`NAMES`].
fn measure(args: &FixArgs) -> Result<[f64; 4], Failure> {
    let mut steps = Steps::new().map_err(|error| Failure::Run(error.to_string()))?;
    let right = (steps.parse(), steps.parse_checked(), steps.encode());
    if right != (Some(2_500), Some(2_500), 264) {
        return Err(Failure::Run(format!("the samples are read or written wrongly: {right:?}")));
    }
    let mut turns: [Vec<f64>; 4] = Default::default();
    // One more than counts, to warm up.
    for turn in 0..=args.runs {
        for (what, found) in turns.iter_mut().enumerate() {
            let start = Instant::now();
            for _ in 0..args.messages {
                let steps = black_box(&mut steps);
                match what {
                    0 => u64::from(black_box(steps.floor())),
                    1 => black_box(steps.parse()).unwrap_or(0),
                    2 => black_box(steps.parse_checked()).unwrap_or(0),
                    _ => black_box(steps.encode()) as u64,
                };
            }
            if turn > 0 {
                found.push(start.elapsed().as_nanos() as f64 / f64::from(args.messages));
            }
        }
    }
    Ok(turns.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(0.0)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_does_its_work_and_takes_time() {
        let args = FixArgs { runs: 2, messages: 50, json: true };
        let found = measure(&args).unwrap_or_default();
        assert!(found.iter().all(|&ns| ns > 0.0), "{found:?}");
        assert!(run(&args).is_ok());
        assert!(run(&FixArgs { json: false, ..args }).is_ok());
    }
}
