//! The journal's group commit beside a bare loop of `pwrite` and `fdatasync`, in the same run.
//!
//! Both write blocks of the same size to a file of their own in the same folder, opened and
//! prepared the same way, and take turns, so that they meet the same disk. The floor writes a
//! buffer that is ready; the journal takes records one by one, chains and checks them. A second
//! thread keeps a core busy throughout, because an idle machine may be slow to wake after a write.
//! The latency that is added is the difference of the two medians for one batch.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use journal::{Config, Folder, FolderConfig, Journal, JournalError, Syncing};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use telemetry::Recorder;

use crate::Failure;
use crate::log::on;

/// Bytes of a record: those of an input of the engine.
pub(super) const RECORD: usize = size_of::<types::Input>();
/// Records of a batch.
const BATCHES: [usize; 5] = [1, 8, 64, 512, 4_096];
/// Bytes of a file of either side.
pub(super) const FILE_BYTES: u64 = 64 << 20;
/// Blocks of both sides.
pub(super) const BLOCK: usize = 4_096;

/// Options of `fairbell bench journal`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell bench journal                   batches of 1 to 4,096 records beside a bare loop\n  \
    fairbell bench journal --dir journal-bench --runs 9 --json\n  \
    fairbell bench journal --direct off      through the page cache")]
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
    pub direct: crate::cli::Switch,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// One size of batch.
struct Row {
    records: usize,
    /// Records per second of each turn: floor, journal.
    rates: [Vec<f64>; 2],
    /// Time of a batch: floor, journal.
    latencies: [Recorder; 2],
}

/// Measures and prints.
pub fn run(args: &JournalArgs) -> Result<(), Failure> {
    let rows = {
        let _files = Removed(&args.dir);
        measure(args)?
    };
    let best = rows.iter().map(ratio).fold(f64::MIN, f64::max);
    let at_best_rate =
        rows.iter().max_by(|a, b| median(&a.rates[1]).total_cmp(&median(&b.rates[1])));
    let at_best_rate = at_best_rate.map_or(0.0, ratio);
    if args.json {
        let row = |row: &Row| {
            let p = |side: usize, q: f64| row.latencies[side].quantile(q);
            serde_json::json!({
                "records": row.records,
                "floor_records_per_s": median(&row.rates[0]),
                "journal_records_per_s": median(&row.rates[1]),
                "journal_x_floor": ratio(row),
                "floor_batch_ns": {"p50": p(0, 0.5), "p99": p(0, 0.99)},
                "journal_batch_ns": {"p50": p(1, 0.5), "p99": p(1, 0.99)},
                "added_ns_p50": p(1, 0.5) as i64 - p(0, 0.5) as i64,
            })
        };
        let document = serde_json::json!({
            "record_bytes": RECORD,
            "block_bytes": BLOCK,
            "runs": args.runs,
            "batches": args.batches,
            "direct": direct(args),
            "core_kept_busy": true,
            "best_rate_x_floor": at_best_rate,
            "bar_x_floor": 0.9,
            "bar_met": at_best_rate >= 0.9,
            "rows": rows.iter().map(row).collect::<Vec<_>>(),
        });
        println!("{document:#}");
        return Ok(());
    }
    println!("records  floor/s     journal/s   ratio  floor p50/p99 us  journal p50/p99 us");
    for row in &rows {
        let us = |side: usize, q: f64| row.latencies[side].quantile(q) as f64 / 1e3;
        println!(
            "{:>7}  {:>10.0}  {:>10.0}  {:>5.2}  {:>7.0} {:>7.0}   {:>7.0} {:>7.0}",
            row.records,
            median(&row.rates[0]),
            median(&row.rates[1]),
            ratio(row),
            us(0, 0.5),
            us(0, 0.99),
            us(1, 0.5),
            us(1, 0.99),
        );
    }
    println!("at the best rate {at_best_rate:.2} of the floor (bar 0.9), best ratio {best:.2}");
    Ok(())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Median over the turns of journal to floor, pair by pair.
fn ratio(row: &Row) -> f64 {
    let [floor, journal] = &row.rates;
    let pairs = floor.iter().zip(journal).map(|(floor, journal)| journal / floor.max(1e-9));
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
    let mut row = Row {
        records,
        rates: [Vec::new(), Vec::new()],
        latencies: [Recorder::new(), Recorder::new()],
    };
    for _ in 0..args.runs {
        let batches = batches(args, records);
        let per_second = |seconds: f64| f64::from(batches) * records as f64 / seconds.max(1e-9);
        let seconds = floor(args, records, &mut row.latencies[0])?;
        row.rates[0].push(per_second(seconds));
        let seconds = group_commit(args, records, &mut row.latencies[1])?;
        row.rates[1].push(per_second(seconds));
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
    args.direct == crate::cli::Switch::On
}

fn folder_config(args: &JournalArgs) -> FolderConfig {
    FolderConfig { direct: direct(args), syncing: Syncing::Fdatasync, zeroed: true }
}

fn group_commit(
    args: &JournalArgs,
    records: usize,
    latency: &mut Recorder,
) -> Result<f64, Failure> {
    let wrong = |error: JournalError| on(&args.dir, error);
    let path = args.dir.join("journal");
    let _ = std::fs::remove_dir_all(&path);
    let folder = Folder::open(&path, folder_config(args)).map_err(|error| on(&path, error))?;
    let config = Config {
        segment_bytes: FILE_BYTES,
        batch_bytes: 1 << 20,
        ..Config::new(1, *b"records of a measurement        ")
    };
    let (mut journal, _) = Journal::open(folder, &config).map_err(wrong)?;
    let record = [0x5a; RECORD];
    let mut seconds = 0.0;
    for _ in 0..batches(args, records) {
        let began = Instant::now();
        for _ in 0..records {
            journal.append(1, &record).map_err(wrong)?;
        }
        journal.flush().map_err(wrong)?;
        let took = began.elapsed();
        latency.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        seconds += took.as_secs_f64();
    }
    Ok(seconds)
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
    let (mut at, mut seconds) = (0, 0.0);
    for _ in 0..batches(args, records) {
        let began = Instant::now();
        rustix::io::pwrite(&file, &*bytes, at).map_err(wrong)?;
        rustix::fs::fdatasync(&file).map_err(wrong)?;
        let took = began.elapsed();
        latency.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        seconds += took.as_secs_f64();
        at += len as u64;
    }
    Ok(seconds)
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
