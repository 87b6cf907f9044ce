//! `fairbell-lab sim soak`: days of trading with a fault every minute, in minutes; nothing lost, memory flat.
//!
//! The whole venue, its participants and the check are in this process, so its memory is theirs. It is looked at every ten minutes of
//! trading; the first day is the warm-up, in which what is bounded fills. All of it is locked, where that is allowed: what was
//! taken at the start and is written to days later does not look like growth.

use clap::Args;
use host::failure::Failure;
use serde_json::json;
use sim::days::{MINUTES_MAX, Soak, SoakReport, soak};

use super::progress;
use crate::flat::{self, Judged, Series};
use crate::resident::resident;

/// Options of `fairbell-lab sim soak`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab sim soak                          seven days of trading, a fault and 60 requests a minute\n  \
    fairbell-lab sim soak --days 3 --minutes 480 --per-minute 20 --json\n  \
    fairbell-lab sim soak --days 2 --control leak  must be found not flat\n  \
    fairbell-lab sim soak --days 1 --minutes 30 --control lost   must be found to have lost an answer\n\n\
    Exit code 1 when memory was not flat within 2 % after the first day, a request has no answer, books differ, or\n\
    the log does not give the live engine's state.")]
pub struct SoakArgs {
    /// Days
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub days: u32,
    /// Minutes of trading each day, with a fault each
    #[arg(long, value_name = "N", default_value_t = MINUTES_MAX,
          value_parser = clap::value_parser!(u32).range(10..=i64::from(MINUTES_MAX)))]
    pub minutes: u32,
    /// Requests a minute, all participants together
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=6_000))]
    pub per_minute: u32,
    /// Open orders of a participant at which it cancels one before it enters another
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub open_max: u32,
    /// Fixes everything that is drawn
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Have something to find: this process keeps 64 KiB more every ten minutes of trading, or an answer is lost
    #[arg(long, value_name = "NAME")]
    pub control: Option<Control>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What a control has the judges find.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// This process grows
    Leak,
    /// An answer is lost
    Lost,
}

/// What the control keeps more each time, bytes.
const LEAK: usize = 64 << 10;
/// Seconds of a minute and of ten minutes of trading.
const MINUTE_S: f64 = 60.0;

/// Runs it, and prints what came of it.
///
/// # Errors
/// What did not hold.
pub fn run(args: &SoakArgs) -> Result<(), Failure> {
    let soaked = Soak {
        days: args.days,
        minutes: args.minutes,
        per_minute: args.per_minute,
        open_max: args.open_max,
        loses: args.control == Some(Control::Lost),
    };
    let locked = host::limits::lock_memory().is_ok();
    let bar = progress(u64::from(args.days * args.minutes), "minutes of trading");
    let mut series = Series { name: "simulator".to_string(), samples: Vec::new() };
    series.samples.reserve((args.days * args.minutes) as usize / 10 + 1);
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let report = soak(args.seed, &soaked, &mut |minute| {
        if args.control == Some(Control::Leak) {
            // Written to, so that it is there.
            kept.push(vec![1; LEAK]);
        }
        bar.set_position(minute);
        series.samples.push((minute as f64 * MINUTE_S, resident().unwrap_or(0)));
    });
    bar.finish_and_clear();
    std::hint::black_box(&kept);
    let day_s = f64::from(args.minutes) * MINUTE_S;
    // A single day has itself as its warm-up, half of it.
    let warm_up_s = if args.days > 1 { day_s } else { day_s / 2.0 };
    let memory = flat::judge(&series, warm_up_s);
    let complaints = complaints(&report, &memory);
    let found = Found { report, memory, locked, complaints };
    match args.json {
        true => println!("{:#}", document(args, &found)),
        false => print(args, &found),
    }
    match found.complaints.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("seed {}: {}", args.seed, found.complaints.join("; ")))),
    }
}

/// What came of it.
struct Found {
    report: SoakReport,
    memory: Judged,
    /// All memory of the process was locked.
    locked: bool,
    complaints: Vec<String>,
}

fn complaints(report: &SoakReport, memory: &Judged) -> Vec<String> {
    let mut found = report.failures.clone();
    let (asked, answered) = report.requests;
    if answered != asked || asked == 0 {
        found.push(format!("lost: {} of {asked} requests have no answer", asked - answered));
    }
    found.extend(memory.complaint());
    found
}

fn document(args: &SoakArgs, found: &Found) -> serde_json::Value {
    let Found { report, memory, locked, complaints } = found;
    let faults = report.faults.iter().map(|(name, count)| (name.to_string(), (*count).into()));
    json!({
        "seed": args.seed,
        "days": report.days,
        "minutes_of_trading_a_day": args.minutes,
        "requests": report.requests.0,
        "answered": report.requests.1,
        "lost": report.requests.0 - report.requests.1,
        "faults": faults.collect::<serde_json::Map<String, serde_json::Value>>(),
        "inputs": report.inputs.0,
        "inputs_given_up": report.inputs.1,
        "open_orders_at_the_end_of_each_day": report.open_orders,
        "feed_messages": report.messages,
        "logins": report.logins,
        "settled": report.settled,
        "events": report.events,
        "memory": memory,
        "memory_locked": locked,
        "band_percent": flat::BAND,
        "complaints": complaints,
    })
}

fn print(args: &SoakArgs, found: &Found) {
    let Found { report, memory, locked, complaints } = found;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{} of {} days of {} minutes of trading, seed {}",
        report.days, args.days, args.minutes, args.seed
    );
    let (asked, answered) = report.requests;
    super::table(
        [
            ("requests", asked),
            ("without an answer", asked - answered),
            ("inputs of the log", report.inputs.0),
            ("of them given up", report.inputs.1),
            ("open orders at the end", report.open_orders.last().copied().unwrap_or(0)),
            ("messages of the feed", report.messages),
            ("logins", report.logins),
            ("times that the log gave the live state", report.settled),
            ("events simulated", report.events),
        ]
        .into_iter(),
    );
    super::table(report.faults.iter().copied());
    println!(
        "memory: {:.2} MiB behind the warm-up, {:.2} at the end, {:+.2} %, by its slope {:+.2} %, over {} looks{}",
        mib(memory.first_bytes),
        mib(memory.last_bytes),
        memory.change_percent,
        memory.slope_percent,
        memory.samples,
        if *locked { "" } else { "; not locked (ulimit -l), so first writes count as growth" }
    );
    complaints.iter().for_each(|what| println!("{what}"));
    println!("{}", if complaints.is_empty() { "PASS" } else { "FAIL" });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_and_what_grows_is_told_and_nothing_else() {
        let memory = Judged { flat: true, ..Judged::default() };
        let report = SoakReport { requests: (9, 9), ..SoakReport::default() };
        assert_eq!(complaints(&report, &memory), Vec::<String>::new());
        let lost = SoakReport { requests: (9, 8), ..SoakReport::default() };
        assert!(complaints(&lost, &memory)[0].starts_with("lost: 1 of 9"));
        let grown = Judged { flat: false, samples: 100, ..Judged::default() };
        assert!(complaints(&report, &grown)[0].contains("is not flat"));
        let nothing = SoakReport::default();
        assert_eq!(complaints(&nothing, &memory).len(), 1, "nothing was asked");
    }
}
