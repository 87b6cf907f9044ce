//! The journal's group commit beside a bare loop of `pwrite` and `fdatasync`, in the same run.
//!
//! Both write blocks of the same size to a file of their own in the same folder, opened and
//! prepared the same way, and take turns, so that they meet the same disk. The floor writes a
//! buffer that is ready; the journal takes records one by one, chains and checks them: once it waits
//! for each batch, and once it fills the next one while the kernel writes the last (`io_uring`), as
//! group commit does. A second thread keeps a core busy throughout, because an idle machine may be
//! slow to wake after a write. The latency that is added is the difference of two medians for one batch.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use journal::{Config, Folder, FolderConfig, Journal, JournalError, Syncing};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use telemetry::Recorder;

use host::failure::{Failure, on};

/// Bytes of a record: those of an input of the engine.
pub(super) const RECORD: usize = size_of::<types::Input>();
/// Records of a batch.
const BATCHES: [usize; 5] = [1, 8, 64, 512, 4_096];
/// Bytes of a file of either side.
pub(super) const FILE_BYTES: u64 = 64 << 20;
/// Blocks of both sides.
pub(super) const BLOCK: usize = 4_096;

/// Options of `fairbell-lab bench journal`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench journal                   batches of 1 to 4,096 records beside a bare loop\n  \
    fairbell-lab bench journal --dir journal-bench --runs 9 --json\n  \
    fairbell-lab bench journal --direct off      through the page cache")]
pub struct JournalArgs {
    /// Folder on the disk to be measured; its files are removed again
    #[arg(long, value_name = "DIR", default_value = "out/bench-journal")]
    pub dir: PathBuf,
    /// Turns of each measurement
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// Batches of a turn, at most what one file of 64 MiB holds
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub batches: u32,
    /// Whether files are written past the page cache
    #[arg(long, value_name = "SWITCH", default_value = "on")]
    pub direct: fairbell::options::Switch,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The sides: the bare loop, the journal batch by batch, the journal with the next batch filled
/// meanwhile.
const SIDES: usize = 3;
const NAMES: [&str; SIDES] = ["floor", "journal", "overlapped"];

/// One size of batch.
struct Row {
    records: usize,
    /// Records per second of each turn.
    rates: [Vec<f64>; SIDES],
    /// Time of a batch, from its first record until it is durable.
    latencies: [Recorder; SIDES],
}

/// Measures and prints.
pub fn run(args: &JournalArgs) -> Result<(), Failure> {
    let rows = {
        let _files = Removed(&args.dir);
        measure(args)?
    };
    let best = best_rate(&rows);
    if args.json {
        let document = serde_json::json!({
            "record_bytes": RECORD,
            "block_bytes": BLOCK,
            "runs": args.runs,
            "batches": args.batches,
            "direct": direct(args),
            "core_kept_busy": true,
            "best_rate_x_floor": best,
            "bar_x_floor": 0.9,
            "bar_met": best >= 0.9,
            "rows": rows.iter().map(document_of).collect::<Vec<_>>(),
        });
        println!("{document:#}");
        return Ok(());
    }
    print!("records");
    NAMES.iter().for_each(|name| print!("  {name:>10}/s  p50/p99 us    x floor"));
    println!();
    for row in &rows {
        print!("{:>7}", row.records);
        for (side, rates) in row.rates.iter().enumerate() {
            let us = |q: f64| row.latencies[side].quantile(q) as f64 / 1e3;
            let (rate, p50, p99) = (median(rates), us(0.5), us(0.99));
            print!("  {rate:>12.0}  {p50:>5.0} {p99:>6.0}  {:>7.2}", ratio(row, side));
        }
        println!();
    }
    println!("the best rate of the journal is {best:.2} of the best of the floor (bar 0.9)");
    Ok(())
}

fn document_of(row: &Row) -> serde_json::Value {
    let mut document = serde_json::json!({ "records": row.records });
    for (side, name) in NAMES.into_iter().enumerate() {
        let p = |q: f64| row.latencies[side].quantile(q);
        document[format!("{name}_records_per_s")] = median(&row.rates[side]).into();
        document[format!("{name}_batch_ns")] = serde_json::json!({"p50": p(0.5), "p99": p(0.99)});
        if side > 0 {
            document[format!("{name}_x_floor")] = ratio(row, side).into();
            let floor = row.latencies[0].quantile(0.5);
            document[format!("{name}_added_ns_p50")] = (p(0.5) as i64 - floor as i64).into();
        }
    }
    document
}

/// The best rate of the journal, whichever way and in whichever batches, over that of the floor.
fn best_rate(rows: &[Row]) -> f64 {
    let best = |sides: std::ops::Range<usize>| {
        let rates = rows.iter().flat_map(|row| row.rates.get(sides.clone()).unwrap_or(&[]));
        rates.map(|rates| median(rates)).fold(0.0, f64::max)
    };
    best(1..SIDES) / best(0..1).max(1e-9)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Median over the turns of a side to the floor, pair by pair.
fn ratio(row: &Row, side: usize) -> f64 {
    let [floor, ..] = &row.rates;
    let pairs = floor.iter().zip(&row.rates[side]).map(|(floor, rate)| rate / floor.max(1e-9));
    median(&pairs.collect::<Vec<f64>>())
}

/// Removes the folder at the end, whatever happens.
pub(super) struct Removed<'a>(pub &'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        // Left behind, it is only in the way of the next run.
        let _ = std::fs::remove_dir_all(self.0);
    }
}

fn measure(args: &JournalArgs) -> Result<Vec<Row>, Failure> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Whatever else wants the core gets it; as far as that is allowed.
            let _ = rustix::process::setpriority_process(None, 19);
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let rows = BATCHES.iter().map(|records| one_size(args, *records)).collect();
        stop.store(true, Ordering::Relaxed);
        rows
    })
}

fn one_size(args: &JournalArgs, records: usize) -> Result<Row, Failure> {
    let (rates, latencies) = Default::default();
    let mut row = Row { records, rates, latencies };
    for _ in 0..args.runs {
        for (side, rates) in row.rates.iter_mut().enumerate() {
            let latency = &mut row.latencies[side];
            let seconds = match side {
                0 => floor(args, records, latency),
                side => group_commit(args, records, side > 1, latency),
            };
            let count = f64::from(batches(args, records)) * records as f64;
            rates.push(count / seconds?.max(1e-9));
        }
    }
    Ok(row)
}

/// Bytes of a batch in the journal, which the floor writes as well.
pub(super) fn batch_bytes(records: usize) -> usize {
    (64 + records * (16 + RECORD)).next_multiple_of(BLOCK)
}

/// Batches of a turn: no more than fit into one file, so that neither side has to make another.
fn batches(args: &JournalArgs, records: usize) -> u32 {
    let most = (FILE_BYTES - BLOCK as u64) / batch_bytes(records) as u64;
    args.batches.min(u32::try_from(most).unwrap_or(u32::MAX))
}

fn direct(args: &JournalArgs) -> bool {
    args.direct == fairbell::options::Switch::On
}

fn group_commit(
    args: &JournalArgs,
    records: usize,
    overlapped: bool,
    latency: &mut Recorder,
) -> Result<f64, Failure> {
    let wrong = |error: JournalError| on(&args.dir, error);
    let path = args.dir.join("journal");
    let _ = std::fs::remove_dir_all(&path);
    let syncing = if overlapped { Syncing::Uring } else { Syncing::Fdatasync };
    let folder = FolderConfig { direct: direct(args), syncing, zeroed: true };
    let folder = Folder::open(&path, folder).map_err(|error| on(&path, error))?;
    let config = Config {
        segment_bytes: FILE_BYTES,
        batch_bytes: 1 << 20,
        ..Config::new(1, *b"records of a measurement        ")
    };
    let (mut journal, _) = Journal::open(folder, &config).map_err(wrong)?;
    let record = [0x5a; RECORD];
    let mut tell = |since: Instant| {
        latency.record(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX));
    };
    let began = Instant::now();
    let mut before = None;
    for _ in 0..batches(args, records) {
        let since = Instant::now();
        for _ in 0..records {
            journal.append(1, &record).map_err(wrong)?;
        }
        // What was begun before is durable when this returns.
        journal.begin_flush().map_err(wrong)?;
        before.replace(since).into_iter().for_each(&mut tell);
        if !journal.is_writing() {
            before.take().into_iter().for_each(&mut tell);
        }
    }
    journal.settle().map_err(wrong)?;
    before.into_iter().for_each(&mut tell);
    Ok(began.elapsed().as_secs_f64())
}

fn floor(args: &JournalArgs, records: usize, latency: &mut Recorder) -> Result<f64, Failure> {
    let path = args.dir.join("floor");
    let wrong = |error: rustix::io::Errno| on(&path, std::io::Error::from(error));
    std::fs::create_dir_all(&args.dir).map_err(|error| on(&args.dir, error))?;
    let file = prepared(&path, direct(args)).map_err(wrong)?;
    let len = batch_bytes(records);
    let mut buffer = vec![0x5a; len + BLOCK];
    let skip = buffer.as_ptr().align_offset(BLOCK);
    let bytes = buffer.get_mut(skip..skip + len).unwrap_or(&mut []);
    let mut at = 0;
    let first = Instant::now();
    for _ in 0..batches(args, records) {
        let began = Instant::now();
        rustix::io::pwrite(&file, &*bytes, at).map_err(wrong)?;
        rustix::fs::fdatasync(&file).map_err(wrong)?;
        let took = began.elapsed();
        latency.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        at += len as u64;
    }
    Ok(first.elapsed().as_secs_f64())
}

/// A file like a segment: its room reserved and written once.
pub(super) fn prepared(path: &Path, direct: bool) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let open = |extra| rustix::fs::open(path, flags | extra, mode);
    let file = match direct {
        true => open(OFlags::DIRECT).or_else(|_| open(OFlags::empty()))?,
        false => open(OFlags::empty())?,
    };
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES) {
        Err(rustix::io::Errno::OPNOTSUPP) => rustix::fs::ftruncate(&file, FILE_BYTES)?,
        reserved => reserved?,
    }
    let mut zeros = vec![0; (1 << 20) + BLOCK];
    let skip = zeros.as_ptr().align_offset(BLOCK);
    let zeros = zeros.get_mut(skip..skip + (1 << 20)).unwrap_or(&mut []);
    for at in (0..FILE_BYTES).step_by(1 << 20) {
        rustix::io::pwrite(&file, &*zeros, at)?;
    }
    rustix::fs::fdatasync(&file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_write_as_much() {
        for records in BATCHES {
            assert_eq!(batch_bytes(records) % BLOCK, 0);
            assert!(batch_bytes(records) >= 64 + records * (16 + RECORD));
        }
        assert_eq!(batch_bytes(1), BLOCK);
    }
}
