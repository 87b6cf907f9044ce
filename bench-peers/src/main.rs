//! Order books of the public registries beside ours: one tape, one run, one table. Then QuickFIX/J's
//! codec and decoders of FAST beside ours.
//!
//! Every book plays the same commands, generated before the clock starts; its trades are hashed
//! inside the timed region and compared with the tape's check values, and a book whose trades are
//! wrong is shown as wrong, not as fast. Books take turns, so that all of them meet the same
//! machine. A book that needs longer than `--limit` seconds for a run is stopped there, and its
//! figure is that of the commands until then.

mod codec;
mod decoders;
mod java;
mod peers;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use book_model::tape::{Ids, Tape, TradeSum, Workload};

use peers::Peer;

/// Commands between two looks at the clock.
const SLICE: usize = 1 << 14;

/// What one run of one book gave.
struct Run {
    /// Nanoseconds per timed command.
    ns: f64,
    sum: TradeSum,
    /// Timed commands played.
    played: usize,
}

struct Options {
    workloads: Vec<String>,
    ids: Ids,
    runs: usize,
    limit: Duration,
    only: Option<String>,
    /// Class path of the Java part; without it exchange-core is left out.
    java: Option<String>,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(complaint) => {
            eprintln!("{complaint}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut right = true;
    let elsewhere = [codec::NAME, "fast"];
    let books = options.only.as_ref().is_none_or(|only| !elsewhere.contains(&only.as_str()));
    for name in options.workloads.iter().filter(|_| books) {
        let Some(workload) = Workload::by_name(name) else {
            eprintln!("{name}: no such workload");
            return ExitCode::from(2);
        };
        right &= compare(name, &workload, &options);
    }
    if let Some(classes) = &options.java
        && options.only.as_ref().is_none_or(|only| only == codec::NAME)
    {
        right &= codec::compare(classes, options.runs);
    }
    if options.only.as_ref().is_none_or(|only| only == "fast") {
        right &= decoders::compare(options.java.as_deref(), options.runs);
    }
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const USAGE: &str = "bench-peers [--workload w1|w2|swing]... [--ids dense|permuted] [--runs N] \
                     [--limit SECONDS] [--only NAME] [--java CLASSPATH]";

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        workloads: Vec::new(),
        ids: Ids::Dense,
        runs: 5,
        limit: Duration::from_secs(20),
        only: None,
        java: None,
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word}: a value is missing"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word} {value}: not a number"));
        match word.as_str() {
            "--workload" => options.workloads.push(value),
            "--ids" if value == "dense" => options.ids = Ids::Dense,
            "--ids" if value == "permuted" => options.ids = Ids::Permuted,
            "--runs" => options.runs = number()?.max(1) as usize,
            "--limit" => options.limit = Duration::from_secs(number()?),
            "--only" => options.only = Some(value),
            "--java" => options.java = Some(value),
            _ => return Err(format!("{word} {value}: not understood")),
        }
    }
    if options.workloads.is_empty() {
        options.workloads = vec!["w1".to_string(), "w2".to_string()];
    }
    Ok(options)
}

/// Plays one workload with every book and prints the table; whether ours gave the right trades.
fn compare(name: &str, workload: &Workload, options: &Options) -> bool {
    let tape = workload.tape(options.ids);
    let java_tape = options.java.as_ref().map(|_| java::TapeFile::write(&tape));
    let wanted = |peer: &str| options.only.as_ref().is_none_or(|only| only == peer);
    let mut rows: Vec<(&str, Vec<Run>)> = Vec::new();
    for round in 0..options.runs {
        for &(peer, make) in peers::ALL.iter().filter(|(peer, _)| wanted(peer)) {
            let row = row(&mut rows, peer);
            // One stopped run says enough of a slow book.
            if row.last().is_none_or(|run| run.played == workload.commands) {
                eprintln!("{name}: round {} of {}: {peer}", round + 1, options.runs);
                row.push(play(make(&tape).as_mut(), &tape, options.limit));
            }
        }
        if let (Some(classes), Some(file)) = (&options.java, &java_tape)
            && wanted(java::NAME)
        {
            eprintln!("{name}: round {} of {}: {}", round + 1, options.runs, java::NAME);
            match java::play(classes, file) {
                Ok(run) => row(&mut rows, java::NAME).push(run),
                Err(complaint) => eprintln!("{}: {complaint}", java::NAME),
            }
        }
    }
    print(name, &tape, &rows, options);
    let ours = rows.iter().find(|(peer, _)| *peer == peers::OURS);
    ours.is_none_or(|(_, runs)| runs.iter().all(|run| run.sum == tape.checks.sum))
}

fn row<'a>(rows: &'a mut Vec<(&'static str, Vec<Run>)>, peer: &'static str) -> &'a mut Vec<Run> {
    let at = rows.iter().position(|(known, _)| *known == peer).unwrap_or(rows.len());
    if at == rows.len() {
        rows.push((peer, Vec::new()));
    }
    &mut rows[at].1
}

fn play(peer: &mut dyn Peer, tape: &Tape, limit: Duration) -> Run {
    let mut sum = TradeSum::default();
    let (prefill, timed) = tape.commands.split_at(tape.prefill);
    let began = Instant::now();
    for slice in prefill.chunks(SLICE) {
        if began.elapsed() > limit {
            return Run { ns: f64::INFINITY, sum, played: 0 };
        }
        peer.play(slice, &mut sum);
    }
    let start = Instant::now();
    let mut played = 0;
    for slice in timed.chunks(SLICE) {
        if start.elapsed() > limit {
            break;
        }
        peer.play(slice, &mut sum);
        played += slice.len();
    }
    Run { ns: start.elapsed().as_nanos() as f64 / played.max(1) as f64, sum, played }
}

fn median(runs: &[Run]) -> f64 {
    let mut all: Vec<f64> = runs.iter().map(|run| run.ns).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn print(name: &str, tape: &Tape, rows: &[(&str, Vec<Run>)], options: &Options) {
    let ours = rows.iter().find(|(peer, _)| *peer == peers::OURS).map(|(_, runs)| median(runs));
    println!(
        "\n{} {:?} ids, {} timed commands after a prefill of {}, runs: {}",
        name.to_uppercase(),
        options.ids,
        tape.commands.len() - tape.prefill,
        tape.prefill,
        options.runs
    );
    println!("{:<24} {:>10} {:>19} {:>9}  trades", "book", "ns/command", "min-max", "x ours");
    for (peer, runs) in rows {
        let (low, high) = runs
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), run| (low.min(run.ns), high.max(run.ns)));
        let middle = median(runs);
        let range = format!("{low:.1}-{high:.1}");
        let ratio = ours.map_or("-".to_string(), |ours| format!("{:.2}", middle / ours));
        println!("{peer:<24} {middle:>10.1} {range:>19} {ratio:>9}  {}", verdict(tape, runs));
    }
}

fn verdict(tape: &Tape, runs: &[Run]) -> String {
    let timed = tape.commands.len() - tape.prefill;
    let expected = tape.checks.sum;
    if let Some(run) = runs.iter().find(|run| run.played < timed) {
        return format!("too slow: stopped after {} commands", run.played);
    }
    match runs.iter().find(|run| run.sum != expected) {
        None => format!("right: {} trades, hash {:016x}", expected.trades, expected.hash),
        Some(run) => {
            let TradeSum { trades, volume, hash } = run.sum;
            let right = format!("{}/{}/{:016x}", expected.trades, expected.volume, expected.hash);
            format!("WRONG trades/volume/hash {trades}/{volume}/{hash:016x}, not {right}")
        }
    }
}
