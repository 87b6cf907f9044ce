//! P1: the order book alone, on tapes whose trades are known.
//!
//! The tape is generated before anything is timed. A run plays its prefill untimed, then all other
//! commands in one timed stretch, every trade hashed inside it, in the very type the engine uses
//! with every order type compiled in; the run counts only if trades, final book and invariants are
//! the tape's check values. Latencies come from one more play with a clock read around each
//! command, so they include the clock; what that costs is measured in the same run and stated.

use std::hint::black_box;
use std::time::Instant;

use book::{BookConfig, Books, Capacity, Order, Sink, Trace};
use book_model::tape::{Checks, Ids, Tape, TapeCommand, TapeKind, TradeSum, Workload};
use clap::{Args, ValueEnum};
use telemetry::{LatencySummary, Recorder};
use types::{
    Allocation, NewOrder, OrderEvent, Phase, Price, RejectReason, Side, TickTable, TimeInForce,
    Trigger,
};

use crate::resident::resident;
use fairbell::report::numbers;
use host::failure::Failure;

/// Options of `fairbell-lab bench book`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench book --workload w1                    10,000 resting orders\n  \
    fairbell-lab bench book --workload w2 --ids permuted     a million, ids over 64 bits\n  \
    fairbell-lab bench book --workload swing --runs 9 --json")]
pub struct BookArgs {
    /// Which tape
    #[arg(long, value_name = "TAPE")]
    pub workload: TapeName,
    /// How orders are numbered
    #[arg(long, value_name = "IDS", default_value = "dense")]
    pub ids: IdKind,
    /// Timed runs, each in new books
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// Tell the books which orders the next commands are about, as whoever reads a log can
    #[arg(long)]
    pub look_ahead: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The tapes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapeName {
    /// 10,000 orders close to the middle of a narrow range
    W1,
    /// A million orders on eighteen thousand levels
    W2,
    /// 10,000 orders around a middle that swings over 600,000 ticks
    Swing,
}

/// How orders are numbered.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdKind {
    /// From 1, ascending
    Dense,
    /// Spread over 64 bits
    Permuted,
}

impl IdKind {
    fn name(self) -> &'static str {
        match self {
            IdKind::Dense => "dense",
            IdKind::Permuted => "permuted",
        }
    }
}

impl TapeName {
    fn workload(self) -> Workload {
        match self {
            TapeName::W1 => Workload::W1,
            TapeName::W2 => Workload::W2,
            TapeName::Swing => Workload::SWING,
        }
    }

    fn name(self) -> &'static str {
        match self {
            TapeName::W1 => "w1",
            TapeName::W2 => "w2",
            TapeName::Swing => "swing",
        }
    }
}

/// Kinds of command whose latencies are told apart, in the order of their numbers.
const KINDS: [(TapeKind, &str); 4] = [
    (TapeKind::New, "new"),
    (TapeKind::ImmediateOrCancel, "immediate_or_cancel"),
    (TapeKind::Replace, "replace"),
    (TapeKind::Cancel, "cancel"),
];

/// What all runs gave.
struct Measured {
    /// Nanoseconds per command, of each run.
    ns: Vec<f64>,
    sum: TradeSum,
    /// In the order of [`KINDS`].
    latency: [LatencySummary; 4],
    timer_ns: u64,
    /// Resident bytes that the books took, prefill and timed part played.
    resident_bytes: u64,
    resting: usize,
}

impl Measured {
    fn bytes_per_order(&self) -> u64 {
        self.resident_bytes / (self.resting as u64).max(1)
    }
}

/// Measures, checks and prints.
pub fn run(args: &BookArgs) -> Result<(), Failure> {
    let workload = args.workload.workload();
    let ids = match args.ids {
        IdKind::Dense => Ids::Dense,
        IdKind::Permuted => Ids::Permuted,
    };
    let tape = workload.tape(ids);
    if ids == Ids::Dense && workload.published_checks().is_some_and(|known| known != tape.checks) {
        return Err(Failure::Run("the tape is not the published one".to_string()));
    }
    let mut ns = Vec::new();
    let mut resident_bytes = 0;
    for run in 0..args.runs {
        if !args.json {
            eprintln!("run {} of {}", run + 1, args.runs);
        }
        let before = resident()?;
        let (time, books) = timed_run(&tape, args.look_ahead)?;
        if run == 0 {
            resident_bytes = resident()?.saturating_sub(before);
        }
        ns.push(time);
        drop(books);
    }
    let latency = latencies(&tape)?;
    let measured = Measured {
        ns,
        sum: tape.checks.sum,
        latency,
        timer_ns: timer_ns(),
        resident_bytes,
        resting: tape.checks.resting,
    };
    print(args, &tape, &measured);
    Ok(())
}

struct Hashed<'a>(&'a mut TradeSum);

impl Sink for Hashed<'_> {
    #[inline(always)]
    fn tell(&mut self, event: OrderEvent, order: &Order, other: Option<&Order>) {
        if let (OrderEvent::Traded { qty, price, .. }, Some(taker)) = (event, other) {
            self.0.add(taker.key(), order.key(), price.0, qty);
        }
    }
}

fn empty_books(tape: &Tape) -> Result<Books, Failure> {
    let config = BookConfig {
        ticks: TickTable::uniform(Price(1)),
        allocation: Allocation::PriceTime,
        trigger: Trigger::LastTrade,
    };
    let orders = tape.prefill + tape.prefill / 2;
    let orders = u32::try_from(orders).map_err(|_| Failure::Run("too long a tape".to_string()))?;
    let capacity = Capacity { orders, levels: 40_000, stops: 1_000, pegs: 1_000 };
    let mut books = Books::new(&[config], capacity);
    books.set_phase(0, Phase::Continuous, &mut Hashed(&mut TradeSum::default()));
    Ok(books)
}

#[inline(always)]
fn apply(
    books: &mut Books,
    command: &TapeCommand,
    sink: &mut Hashed<'_>,
) -> Result<(), RejectReason> {
    let terms = || NewOrder::limit(command.id, command.side, Price(command.price), command.qty);
    match command.kind {
        TapeKind::New => books.submit(0, &terms(), sink),
        TapeKind::ImmediateOrCancel => {
            let time_in_force = TimeInForce::ImmediateOrCancel;
            books.submit(0, &NewOrder { time_in_force, ..terms() }, sink)
        }
        TapeKind::Replace => books.replace(command.id, &terms(), false, sink),
        TapeKind::Cancel => books.cancel(command.id, sink),
    }
}

/// Plays commands; how many were refused, which must be none.
#[inline(never)]
fn play(books: &mut Books, commands: &[TapeCommand], sum: &mut TradeSum) -> usize {
    let mut sink = Hashed(sum);
    commands.iter().filter(|command| apply(books, command, &mut sink).is_err()).count()
}

/// As [`play`], with the memory of orders fetched while the commands before theirs are handled.
fn play_ahead(books: &mut Books, commands: &[TapeCommand], sum: &mut TradeSum) -> usize {
    let mut sink = Hashed(sum);
    let mut refused = 0;
    // Of the commands to come.
    let mut traces = [Trace::default(); 8];
    for (at, command) in commands.iter().enumerate() {
        if let Some(later) = commands.get(at + 6) {
            traces[(at + 6) % 8] = books.prefetch(later.id);
        }
        if at >= 2 {
            books.prefetch_order(&mut traces[(at + 4) % 8]);
        }
        if at >= 4 {
            books.prefetch_neighbours(&traces[(at + 2) % 8]);
        }
        refused += usize::from(apply(books, command, &mut sink).is_err());
    }
    refused
}

/// One run in new books: nanoseconds per command, and the books as they ended.
fn timed_run(tape: &Tape, look_ahead: bool) -> Result<(f64, Books), Failure> {
    let play = if look_ahead { play_ahead } else { play };
    let mut books = empty_books(tape)?;
    let mut sum = TradeSum::default();
    let (prefill, timed) = tape.commands.split_at(tape.prefill);
    let mut refused = play(&mut books, prefill, &mut sum);
    let start = Instant::now();
    refused += play(&mut books, black_box(timed), &mut sum);
    let time = start.elapsed();
    verify(&books, sum, refused, tape)?;
    Ok((time.as_nanos() as f64 / timed.len().max(1) as f64, books))
}

fn verify(books: &Books, sum: TradeSum, refused: usize, tape: &Tape) -> Result<(), Failure> {
    let sides = [Side::Buy, Side::Sell];
    let lots = |side| books.depth(0, side).map(|level| level.qty.0).sum::<u64>();
    let found = Checks {
        sum,
        resting: books.len_of(0),
        resting_qty: sides.map(lots).iter().sum(),
        levels: sides.map(|side| books.depth(0, side).count()),
        best: sides.map(|side| books.best(0, side).map_or(0, |level| level.price.0)),
        // The tape's own: the books are given the numbers.
        max_id: tape.checks.max_id,
    };
    if found != tape.checks || refused != 0 {
        let line = format!("wrong: {found:?} with {refused} refused, not {:?}", tape.checks);
        return Err(Failure::Run(line));
    }
    books.check().map_err(|fault| Failure::Run(format!("the books broke a rule: {fault:?}")))
}

/// Latencies by kind, the clock included.
fn latencies(tape: &Tape) -> Result<[LatencySummary; 4], Failure> {
    let mut books = empty_books(tape)?;
    let mut sum = TradeSum::default();
    let (prefill, timed) = tape.commands.split_at(tape.prefill);
    let mut refused = play(&mut books, prefill, &mut sum);
    let mut recorders = KINDS.map(|_| Recorder::new());
    let mut sink = Hashed(&mut sum);
    for command in timed {
        let start = Instant::now();
        let done = apply(&mut books, command, &mut sink);
        let time = start.elapsed();
        refused += usize::from(done.is_err());
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(recorder) = recorders.get_mut(command.kind as usize) {
            recorder.record(time_ns);
        }
    }
    verify(&books, sum, refused, tape)?;
    Ok(recorders.map(|recorder| recorder.summary()))
}

/// What two readings of the clock in a row say: the share of it in a latency. Median of many.
fn timer_ns() -> u64 {
    let mut recorder = Recorder::new();
    for _ in 0..100_000 {
        let start = Instant::now();
        recorder.record(black_box(start.elapsed()).as_nanos() as u64);
    }
    recorder.quantile(0.5)
}

/// Smallest, middle and largest.
fn spread(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
    [at(0), at(sorted.len() / 2), at(sorted.len().saturating_sub(1))]
}

fn print(args: &BookArgs, tape: &Tape, measured: &Measured) {
    if args.json {
        println!("{:#}", document(args, tape, measured));
        return;
    }
    let [low, ns, high] = spread(&measured.ns);
    let TradeSum { trades, volume, hash } = measured.sum;
    println!(
        "{}, {} ids{}: {ns:.1} ns per command, {low:.1} to {high:.1} in {} runs; {} commands/s",
        args.workload.name(),
        args.ids.name(),
        if args.look_ahead { ", looking ahead" } else { "" },
        args.runs,
        numbers::grouped((1e9 / ns) as u64)
    );
    let [trades, volume] = [trades, volume].map(numbers::grouped);
    println!("right: {trades} trades, volume {volume}, hash {hash:016x}");
    println!(
        "memory: {} bytes resident, {} per resting order",
        numbers::grouped(measured.resident_bytes),
        measured.bytes_per_order()
    );
    let timer = format!("latency, ns, clock of {} ns included", measured.timer_ns);
    println!("{timer:<44} {:>6} {:>6} {:>7} {:>10}", "p50", "p99", "p99.9", "max");
    for ((_, name), of) in KINDS.iter().zip(&measured.latency) {
        println!("  {name:<42} {:>6} {:>6} {:>7} {:>10}", of.p50, of.p99, of.p999, of.max);
    }
}

fn document(args: &BookArgs, tape: &Tape, measured: &Measured) -> serde_json::Value {
    let [low, ns, high] = spread(&measured.ns);
    let TradeSum { trades, volume, hash } = measured.sum;
    let latency: serde_json::Map<String, serde_json::Value> = KINDS
        .iter()
        .zip(&measured.latency)
        .map(|((_, name), of)| {
            let value = serde_json::json!({
                "count": of.count, "p50": of.p50, "p99": of.p99, "p99_9": of.p999, "max": of.max,
            });
            (name.to_string(), value)
        })
        .collect();
    serde_json::json!({
        "workload": args.workload.name(),
        "ids": args.ids.name(),
        "look_ahead": args.look_ahead,
        "runs": args.runs,
        "commands": tape.commands.len() - tape.prefill,
        "prefill": tape.prefill,
        "ns_per_command": ns,
        "ns_per_command_min": low,
        "ns_per_command_max": high,
        "commands_per_s": 1e9 / ns,
        "trades": trades,
        "volume": volume,
        "hash": format!("{hash:016x}"),
        "latency_ns": latency,
        "timer_ns": measured.timer_ns,
        "timer_included": true,
        "resident_bytes": measured.resident_bytes,
        "resting_orders": measured.resting,
        "resident_bytes_per_order": measured.bytes_per_order(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_tape_is_played_and_a_wrong_result_is_not_measured() {
        let mut short = Workload::W1;
        (short.target, short.commands) = (500, 5_000);
        let mut tape = short.tape(Ids::Permuted);
        assert!(timed_run(&tape, false).is_ok() && timed_run(&tape, true).is_ok());
        assert!(latencies(&tape).is_ok());
        tape.checks.sum.hash ^= 1;
        assert!(matches!(timed_run(&tape, false), Err(Failure::Run(_))));
    }
}
