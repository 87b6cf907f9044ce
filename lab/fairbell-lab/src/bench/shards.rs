//! `fairbell-lab bench engine --shards N`: engines on threads of their own, beside one.
//!
//! Each shard's thread does what a shard's input path does: decode, sequence, write the log's records
//! (into memory: no disk, no network), apply with every risk check on, encode feed and reports. Every
//! shard plays the whole of W1 for itself, with its part of the limits. Slices with one thread and
//! slices with all of them alternate within one run, so that both see the same machine; what they
//! print must be right and the same every time. `ratio_to_one` is the commands per second of all
//! shards together, over those of one.

use std::sync::Barrier;
use std::thread;

use book_model::tape::{Ids, Tape, Workload};
use fairbell::report::numbers;
use host::failure::Failure;

use super::pipeline::{EngineArgs, PARTICIPANTS, Requests, Run, play_shard};

/// What the issue asks of two shards on two cores.
const BAR_OF_TWO: f64 = 1.8;

/// Commands per second of each slice: one shard alone, all shards together.
struct Slices {
    one: Vec<f64>,
    all: Vec<f64>,
}

/// Measures, checks and prints.
pub(super) fn run(args: &EngineArgs) -> Result<(), Failure> {
    let tape = Workload::W1.tape(Ids::Dense);
    let requests = Requests::encode(&tape)?;
    let slices = measure(&requests, &tape, args.shards, args.runs, !args.json)?;
    print(args, &tape, &slices);
    Ok(())
}

/// Commands per second of so many engines at once, for each of `counts`, in turns: the runs of each. Each
/// engine plays W1 with so many `orders` in the book and `commands`.
///
/// # Errors
/// An engine that is wrong, or not like the others.
pub(crate) fn rates(
    counts: &[u16],
    runs: u64,
    (orders, commands): (usize, usize),
) -> Result<Vec<Vec<f64>>, Failure> {
    let tape = Workload::W1.sized(orders, commands).tape(Ids::Dense);
    let requests = Requests::encode(&tape)?;
    let commands = (tape.commands.len() - tape.prefill) as f64;
    let mut rates = vec![Vec::new(); counts.len()];
    for _ in 0..runs {
        for (count, rates) in counts.iter().zip(&mut rates) {
            let (seconds, _) = slice(&requests, &tape, *count)?;
            rates.push(commands * f64::from(*count) / seconds);
        }
    }
    Ok(rates)
}

fn measure(
    requests: &Requests,
    tape: &Tape,
    shards: u16,
    runs: u32,
    tell: bool,
) -> Result<Slices, Failure> {
    let commands = (tape.commands.len() - tape.prefill) as f64;
    let mut slices = Slices { one: Vec::new(), all: Vec::new() };
    // By shard, of the first slice: each numbers orders and trades in a range of its own.
    let mut first: Vec<([u64; 2], [u64; 2])> = Vec::new();
    for run in 0..runs {
        if tell {
            eprintln!("slice {} of {runs}: one, then {shards}", run + 1);
        }
        for count in [1, shards] {
            let (seconds, runs) = slice(requests, tape, count)?;
            let outputs = runs.iter().map(|run| (run.hashes, run.messages));
            first.extend(outputs.clone().skip(first.len()));
            if outputs.clone().ne(first.iter().take(runs.len()).copied()) {
                return Err(Failure::Run("a shard gave two different outputs".to_string()));
            }
            if outputs.clone().any(|(_, messages)| messages != first[0].1) {
                return Err(Failure::Run(
                    "two shards gave different numbers of messages".to_string(),
                ));
            }
            let rate = commands * f64::from(count) / seconds;
            if count == 1 { slices.one.push(rate) } else { slices.all.push(rate) }
        }
    }
    Ok(slices)
}

/// So many shards at once: from when all are ready until the last is done.
fn slice(requests: &Requests, tape: &Tape, shards: u16) -> Result<(f64, Vec<Run>), Failure> {
    let ready = Barrier::new(usize::from(shards));
    let play = |shard| {
        let wait = || {
            ready.wait();
        };
        play_shard(requests, tape, shard, shards, wait)
    };
    let runs: Result<Vec<Run>, Failure> = thread::scope(|scope| {
        let play = &play;
        let threads: Vec<_> = (0..shards).map(|shard| scope.spawn(move || play(shard))).collect();
        let gone = |_| Failure::Run("a shard's thread panicked".to_string());
        threads.into_iter().map(|thread| thread.join().map_err(gone)?).collect()
    });
    let runs = runs?;
    let began = runs.iter().map(|run| run.began).min();
    let ended = runs.iter().map(|run| run.ended).max();
    let (Some(began), Some(ended)) = (began, ended) else {
        return Err(Failure::Run("no shard".to_string()));
    };
    Ok((ended.duration_since(began).as_secs_f64(), runs))
}

/// The middle one, and the range.
fn spread(rates: &[f64]) -> (f64, f64, f64) {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    let at = |index: usize| rates.get(index).copied().unwrap_or(0.0);
    (at(rates.len() / 2), at(0), at(rates.len().saturating_sub(1)))
}

fn print(args: &EngineArgs, tape: &Tape, slices: &Slices) {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let (one, one_low, one_high) = spread(&slices.one);
    let (all, all_low, all_high) = spread(&slices.all);
    let ratios: Vec<f64> = slices.all.iter().zip(&slices.one).map(|(all, one)| all / one).collect();
    let (ratio, low, high) = spread(&ratios);
    let shards = args.shards;
    if args.json {
        let mut document = serde_json::json!({
            "workload": "w1",
            "participants": PARTICIPANTS,
            "shards": shards,
            "cores": cores,
            "slices": slices.one.len(),
            "commands_per_shard": tape.commands.len() - tape.prefill,
            "one_commands_per_s": one,
            "one_commands_per_s_min": one_low,
            "one_commands_per_s_max": one_high,
            "all_commands_per_s": all,
            "all_commands_per_s_min": all_low,
            "all_commands_per_s_max": all_high,
            "ratio_to_one": ratio,
            "ratio_to_one_min": low,
            "ratio_to_one_max": high,
        });
        if shards == 2 {
            document["bar_ratio_to_one"] = BAR_OF_TWO.into();
            document["bar_met"] = (ratio >= BAR_OF_TWO).into();
        }
        println!("{document:#}");
        return;
    }
    let text = |rate: f64| numbers::grouped(rate as u64);
    println!("one shard: {} commands/s, {} to {}", text(one), text(one_low), text(one_high));
    println!("{shards} shards: {} commands/s, {} to {}", text(all), text(all_low), text(all_high));
    println!(
        "ratio {ratio:.2}, {low:.2} to {high:.2} in {} slices on {cores} cores; \
         decoding, log records, risk, matching, encoding; no disk, no network",
        ratios.len()
    );
    if shards == 2 {
        let met = if ratio >= BAR_OF_TWO { "met" } else { "not met" };
        println!("bar (two cores of their own) {BAR_OF_TWO}: {met}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_beside_one_give_right_outputs_and_wrong_ones_are_not_measured() {
        let short = Workload::W1.sized(500, 5_000);
        let mut tape = short.tape(Ids::Dense);
        let requests = Requests::encode(&tape).expect("requests");
        let slices = measure(&requests, &tape, 3, 2, false).expect("slices");
        assert_eq!((slices.one.len(), slices.all.len()), (2, 2));
        assert!(slices.one.iter().chain(&slices.all).all(|rate| *rate > 0.0));
        tape.checks.sum.volume += 1;
        assert!(matches!(measure(&requests, &tape, 2, 1, false), Err(Failure::Run(_))));
    }

    #[test]
    fn every_number_of_shards_has_its_runs() {
        let found = rates(&[1, 2], 1, (500, 5_000)).expect("engines");
        assert!(found.len() == 2 && found.iter().all(|runs| runs.len() == 1 && runs[0] > 0.0));
    }

    #[test]
    fn the_middle_of_the_slices_counts() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), (2.0, 1.0, 3.0));
        assert_eq!(spread(&[]), (0.0, 0.0, 0.0));
    }
}
