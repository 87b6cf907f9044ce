//! `fairbell-lab feed arbitrate`: a line and its copy over two lossy ways, from a seed.
//!
//! Every scenario says what must come of it: nothing lost but what both sides lost, nothing at all
//! where there is retransmission or where one side lives, an alarm for the dead one, and never a
//! message missing without a report. The command fails where that is not so. The plots show how long
//! a message takes from its sender to whoever wants it in sequence, with one side and with both.

use std::path::PathBuf;
use telemetry::plot::{Curve, Figure};

use clap::Args;
use feed::lab::{ArbitrationResult, GOOD, Play, Repair, Way, play};
use feed::{ArbiterConfig, Notice};
use types::Nanos;

use host::failure::Failure;
use telemetry::plot;

/// Options of `fairbell-lab feed arbitrate`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab feed arbitrate                          all scenarios from seed 1\n  \
    fairbell-lab feed arbitrate --seed 7 --packets 10000000 --json\n  \
    fairbell-lab feed arbitrate --plot plots             also delays with one side and with both")]
pub struct ArbitrateArgs {
    /// Seed of everything
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Packets of each scenario, two messages each, 100,000 a second
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub packets: u64,
    /// Write plots of the delays to FOLDER, as SVG and PNG
    #[arg(long, value_name = "FOLDER")]
    pub plot: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What must come of a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Must {
    /// Lost is what both sides lost, no more.
    LoseWhatBothLose,
    /// Nothing is lost.
    LoseNothing,
    /// Nothing is lost, and this side is called dead once.
    Alarm(usize),
}

struct Scenario {
    name: &'static str,
    play: Play,
    must: Must,
}

/// One percent, drawn for each packet and side.
const INDEPENDENT: Way = Way { loss_ppm: 10_000, ..GOOD };
/// A line with a tail: one packet in a thousand is up to 2 ms late.
const TAILED: Way = Way { jitter_ns: 20_000, spike_ppm: 1_000, spike_ns: 2_000_000, ..INDEPENDENT };
/// Answers come after 200 us, and one percent of them is lost.
const REPAIR: Repair = Repair { delay_ns: 200_000, loss_ppm: 10_000 };

fn trailing(way: Way, ns: u64) -> Way {
    Way { delay_ns: way.delay_ns + ns, ..way }
}

/// Waits longer than the sides are ever apart.
fn waiting() -> ArbiterConfig {
    ArbiterConfig { stale: Nanos(20_000_000), ..ArbiterConfig::default() }
}

fn asking(wait: u64) -> ArbiterConfig {
    ArbiterConfig { wait: Nanos(wait), give_up: Some(Nanos(50_000_000)), ..waiting() }
}

fn scenarios(args: &ArbitrateArgs) -> Vec<Scenario> {
    let base = Play {
        seed: args.seed,
        packets: args.packets,
        every_ns: 10_000,
        ways: [INDEPENDENT; 2],
        common: (0, 0),
        config: waiting(),
        repair: None,
    };
    let ways = |b: Way| [INDEPENDENT, b];
    let bursts = Way { burst_ppm: 500, burst: 30, ..INDEPENDENT };
    let disorder = Way { jitter_ns: 200_000, ..INDEPENDENT };
    let dying = |side: usize| {
        let mut ways = [GOOD, trailing(GOOD, 100_000)];
        ways[side].dead_from = args.packets / 4;
        ways
    };
    let lossy = Must::LoseWhatBothLose;
    let repaired = Play { config: asking(10_000_000), repair: Some(REPAIR), ..base };
    let of = |name, must, play| Scenario { name, play, must };
    let late = |ns| Play { ways: ways(trailing(INDEPENDENT, ns)), ..base };
    let burst = [bursts, trailing(bursts, 100_000)];
    let common = Play { ways: burst, common: (100, 20), ..base };
    let repair = |play: Play| Play { config: repaired.config, repair: repaired.repair, ..play };
    let none = Must::LoseNothing;
    vec![
        of("1 % each, B as fast", lossy, base),
        of("1 % each, B 100 us later", lossy, late(100_000)),
        of("1 % each, B 5 ms later", lossy, late(5_000_000)),
        of("bursts on each side", lossy, Play { ways: burst, ..base }),
        of("bursts on both at once", lossy, common),
        of("reordering", lossy, Play { ways: [disorder; 2], ..base }),
        of("1 % each, retransmission", none, repaired),
        of("B 5 ms later, retransmission", none, repair(late(5_000_000))),
        of("bursts, retransmission", none, repair(common)),
        of("A dies", Must::Alarm(0), Play { ways: dying(0), ..base }),
        of("B dies", Must::Alarm(1), Play { ways: dying(1), ..base }),
    ]
}

/// What is not as it must be.
fn complaint(must: Must, outcome: &ArbitrationResult) -> Option<String> {
    let lost = outcome.stats.lost;
    if outcome.unreported + outcome.wrong > 0 {
        let ArbitrationResult { unreported, wrong, .. } = outcome;
        return Some(format!("{unreported} missing without a report, {wrong} wrong"));
    }
    let most = if must == Must::LoseWhatBothLose { 2 * outcome.lost_by_both } else { 0 };
    if lost > most {
        return Some(format!("{lost} messages lost, not {most}"));
    }
    let expected = match must {
        Must::Alarm(side) => vec![Notice::Stale { side }],
        _ => Vec::new(),
    };
    // A trailing side is heard later by nature; only a dead one may be called so.
    (outcome.alarms != expected).then(|| format!("alarms {:?}", outcome.alarms))
}

/// Between which rates the true one lies with 95 % confidence, in a million: counts of independent
/// events are Poisson; chi-square quantiles as Wilson and Hilferty approximate them.
fn interval(count: u64, of: u64) -> (f64, f64) {
    let bound = |count: f64, sign: f64| {
        let root = 1.0 - 1.0 / (9.0 * count) + sign * 1.96 / (3.0 * count.sqrt());
        count * root.powi(3) * 1e6 / of.max(1) as f64
    };
    let count = count as f64;
    let low = if count > 0.0 { bound(count, -1.0) } else { 0.0 };
    (low, bound(count + 1.0, 1.0))
}

/// The value below which this part of a thousand thousand is, in microseconds.
fn percentile(sorted: &[u32], ppm: u64) -> f64 {
    let at = (sorted.len() as u64 * ppm / 1_000_000) as usize;
    let value = sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0);
    f64::from(value) / 1e3
}

/// Runs the command.
pub fn run(args: &ArbitrateArgs) -> Result<(), Failure> {
    let mut complaints = Vec::new();
    let mut rows = Vec::new();
    if !args.json {
        println!(
            "{:<29} {:>7} {:>7} {:>6} {:>9} {:>15} {:>9} {:>8} {:>8}",
            "scenario",
            "lost A",
            "lost B",
            "both",
            "lost ppm",
            "95 %",
            "requests",
            "p50 us",
            "p99.9"
        );
    }
    for Scenario { name, play: scenario, must } in scenarios(args) {
        let mut outcome = play(&scenario);
        outcome.delays.sort_unstable();
        if let Some(complaint) = complaint(must, &outcome) {
            complaints.push(format!("{name}: {complaint}"));
        }
        if args.json {
            rows.push(row(name, &outcome, args.packets));
            continue;
        }
        // Bursts are not independent, so there is no such interval for them.
        let (low, high) = interval(outcome.stats.lost / 2, args.packets);
        let independent = scenario.ways[0].burst_ppm == 0 && scenario.common.0 == 0;
        let range = if independent { format!("{low:.1}-{high:.1}") } else { "-".to_string() };
        println!(
            "{name:<29} {:>7} {:>7} {:>6} {:>9.1} {range:>15} {:>9} {:>8.1} {:>8.1}",
            outcome.lost_by[0],
            outcome.lost_by[1],
            outcome.lost_by_both,
            outcome.lost_ppm(),
            outcome.stats.requests,
            percentile(&outcome.delays, 500_000),
            percentile(&outcome.delays, 999_000),
        );
    }
    let files = match &args.plot {
        Some(folder) => plot::write(&figures(args), folder)
            .map_err(|error| Failure::Run(format!("{}: {error}", folder.display())))?,
        None => Vec::new(),
    };
    if args.json {
        let document = serde_json::json!({
            "seed": args.seed, "packets": args.packets, "scenarios": rows, "complaints": complaints,
            "plots": files,
        });
        println!("{document:#}");
    } else {
        println!(
            "{} packets of two messages each, seed {}; two losses of 1 % leave 100 ppm; nothing \
             missing without a report",
            args.packets, args.seed
        );
        files.iter().for_each(|file| println!("{}", file.display()));
    }
    if complaints.is_empty() { Ok(()) } else { Err(Failure::Run(complaints.join("\n"))) }
}

fn row(name: &str, outcome: &ArbitrationResult, packets: u64) -> serde_json::Value {
    let (low, high) = interval(outcome.stats.lost / 2, packets);
    let quantile = |ppm| percentile(&outcome.delays, ppm);
    serde_json::json!({
        "scenario": name,
        "messages": outcome.messages,
        "lost_by_a": outcome.lost_by[0],
        "lost_by_b": outcome.lost_by[1],
        "lost_by_both": outcome.lost_by_both,
        "unrecovered": outcome.stats.lost,
        "unrecovered_ppm": outcome.lost_ppm(),
        "interval_95_ppm": [low, high],
        "gaps": outcome.stats.gaps,
        "unreported": outcome.unreported,
        "wrong": outcome.wrong,
        "requests": outcome.stats.requests,
        "alarms": outcome.alarms.len(),
        "first_a": outcome.sides[0].first,
        "first_b": outcome.sides[1].first,
        "p50_us": quantile(500_000),
        "p99_us": quantile(990_000),
        "p999_us": quantile(999_000),
    })
}

/// Delays by rank, with one side and with both; retransmission in all of them.
fn figures(args: &ArbitrateArgs) -> Vec<Figure> {
    let of = |ways: [Way; 2], wait: u64| {
        let config = ArbiterConfig { stale: Nanos(u64::MAX), ..asking(wait) };
        let (seed, packets) = (args.seed, args.packets);
        let repair = Some(REPAIR);
        let mut outcome =
            play(&Play { seed, packets, every_ns: 10_000, ways, common: (0, 0), config, repair });
        outcome.delays.sort_unstable();
        let nines = (0..=16).map(|quarter| f64::from(quarter) / 4.0);
        let point = |nines: f64| {
            let ppm = 1e6 * (1.0 - 10_f64.powf(-nines));
            (nines, percentile(&outcome.delays, ppm as u64))
        };
        nines.map(point).collect::<Vec<_>>()
    };
    let silent = Way { dead_from: 0, ..TAILED };
    let figure = |file, title: &str, ns: u64| {
        let b = trailing(TAILED, ns);
        let curve = |name: &str, points| Curve { name: name.to_string(), points };
        Figure {
            file,
            title: format!("In sequence, 1 % lost on each side, B later by {title}"),
            x: "nines: 2 is 99 % of the packets",
            y: "us from sending to delivery, at most",
            curves: vec![
                curve("A alone, asking after 50 us", of([TAILED, silent], 50_000)),
                curve("B alone, asking after 50 us", of([silent, b], 50_000)),
                curve("A and B, waiting for B", of([TAILED, b], 10_000_000)),
                curve("A and B, asking after 50 us", of([TAILED, b], 50_000)),
            ],
        }
    };
    vec![
        figure("arbitration-0", "nothing", 0),
        figure("arbitration-100us", "100 us", 100_000),
        figure("arbitration-5ms", "5 ms", 5_000_000),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_as_they_must_be_and_others_are_told() {
        let folder = std::env::temp_dir().join(format!("arbitrate-{}", std::process::id()));
        let mut args =
            ArbitrateArgs { seed: 3, packets: 20_000, plot: Some(folder.clone()), json: true };
        assert!(run(&args).is_ok());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 6);
        std::fs::remove_dir_all(&folder).unwrap();
        (args.json, args.plot, args.packets) = (false, None, 5_000);
        assert!(run(&args).is_ok());
        let all = scenarios(&args);
        let outcome = play(&all[1].play);
        assert_eq!(complaint(Must::LoseWhatBothLose, &outcome), None);
        assert!(complaint(Must::Alarm(0), &outcome).is_some(), "a control: nobody died");
        let wrong = ArbitrationResult { unreported: 1, ..outcome };
        assert!(complaint(Must::LoseWhatBothLose, &wrong).is_some(), "a control");
    }

    #[test]
    fn intervals_are_those_of_the_tables() {
        // 10 events: 4.80 to 18.39; none: 0 to 3.69.
        let (low, high) = interval(10, 1_000_000);
        assert!((low - 4.80).abs() < 0.05 && (high - 18.39).abs() < 0.05, "{low} {high}");
        let (low, high) = interval(0, 1_000_000);
        assert!(low == 0.0 && (high - 3.69).abs() < 0.1, "{high}");
    }
}
