//! An engine from its journal: time against length of the log, without and with snapshots.
//!
//! Two journals get the same generated inputs, one of them a snapshot of the engine every so many
//! commands, after which it forgets the segments that nothing needs any more. At each length both
//! are opened again, as after a crash, and an engine is made of each; their digests must be the
//! digest of the engine that wrote them. This is the engine's part of a restart: an exchange keeps
//! private streams and feed positions besides.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use engine::{Engine, Output};
use journal::{Config, Folder, FolderConfig, Journal, JournalError, Syncing};
use types::Input;
use zerocopy::IntoBytes;

use crate::log::{Generated, generated};
use fairbell::log::progress;
use fairbell::report::numbers::grouped;
use host::failure::{Failure, on};
use host::journal::kept::input_of;

/// What the records are.
const LABEL: [u8; 32] = *b"fairbell: inputs of a benchmark ";
/// Records of a batch.
const BATCH: u64 = 4_096;

/// Options of `fairbell-lab bench recovery`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench recovery                    up to 2,000,000 commands, a snapshot every 100,000\n  \
    fairbell-lab bench recovery --commands 500000 --snapshot-every 50000 --json")]
pub struct RecoveryArgs {
    /// Commands of the longest log
    #[arg(long, value_name = "N", default_value_t = 2_000_000,
          value_parser = clap::value_parser!(u64).range(1_000..=50_000_000))]
    pub commands: u64,
    /// Commands between two snapshots
    #[arg(long, value_name = "N", default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(100..=50_000_000))]
    pub snapshot_every: u64,
    /// Folder for the journals, which are removed again
    #[arg(long, value_name = "DIR", default_value = "out/bench-recovery")]
    pub dir: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// A folder that goes with the run.
struct Removed<'a>(&'a PathBuf);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        // What can't be removed now is made anew next time.
        let _ = std::fs::remove_dir_all(self.0);
    }
}

/// One way of keeping the log.
struct Kept {
    dir: PathBuf,
    journal: Option<Journal<Folder>>,
}

/// What a recovery gave.
#[derive(Clone, Copy)]
struct Recovered {
    seconds: f64,
    replayed: u64,
    state: u64,
    bytes: u64,
}

impl Kept {
    fn open(dir: PathBuf) -> Result<Kept, Failure> {
        let journal = Some(opened(&dir).map_err(|error| on(&dir, error))?);
        Ok(Kept { dir, journal })
    }

    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Journal<Folder>) -> Result<T, JournalError>,
    ) -> Result<T, Failure> {
        let journal = self.journal.as_mut().ok_or_else(|| on(&self.dir, "is not open"))?;
        act(journal).map_err(|error| on(&self.dir, error))
    }

    /// Closes it, and makes an engine of what is there.
    fn recover(&mut self) -> Result<Recovered, Failure> {
        drop(self.journal.take());
        let started = Instant::now();
        let (engine, replayed, journal) =
            restored(&self.dir).map_err(|error| on(&self.dir, error))?;
        let seconds = started.elapsed().as_secs_f64();
        self.journal = Some(journal);
        let files = std::fs::read_dir(&self.dir).map_err(|error| on(&self.dir, error))?;
        let len = |file: std::io::Result<std::fs::DirEntry>| {
            file.and_then(|file| file.metadata()).map_or(0, |file| file.len())
        };
        let bytes = files.map(len).sum();
        Ok(Recovered { seconds, replayed, state: engine.state_digest(), bytes })
    }
}

/// What survives the process is enough here: the disk's own speed is no part of it.
fn opened(dir: &Path) -> Result<Journal<Folder>, JournalError> {
    let config = FolderConfig { direct: false, syncing: Syncing::Never, zeroed: false };
    let folder = Folder::open(dir, config)?;
    Ok(Journal::open(folder, &Config { segment_bytes: 16 << 20, ..Config::new(1, LABEL) })?.0)
}

/// The engine, inputs replayed for it, and the journal.
fn restored(dir: &Path) -> Result<(Engine, u64, Journal<Folder>), JournalError> {
    let mut journal = opened(dir)?;
    let newest = journal.snapshots().last().map(|info| info.position);
    let engine = match newest {
        Some(position) => {
            Engine::read_snapshot(generated::config(), &journal.read_snapshot(position)?)
                .map_err(|_| JournalError::Snapshot(position))?
        }
        None => Engine::new(generated::config()),
    };
    let (mut engine, mut out, mut replayed) = (engine, Output::default(), 0);
    let (from, to) = (engine.applied() + 1, journal.durable());
    journal.read(from, to, |record| {
        if let Some(input) = input_of(record.bytes) {
            out.clear();
            let _ = engine.apply(&input, &mut out);
            replayed += 1;
        }
    })?;
    Ok((engine, replayed, journal))
}

/// What the snapshots cost whoever has the engine.
#[derive(Clone, Copy, Default)]
struct Taken {
    bytes: usize,
    longest_ms: f64,
    open_orders: usize,
}

impl Taken {
    fn by(&mut self, engine: &Engine) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes + self.bytes / 8);
        let from = Instant::now();
        engine.write_snapshot(&mut bytes);
        self.longest_ms = self.longest_ms.max(from.elapsed().as_secs_f64() * 1e3);
        (self.bytes, self.open_orders) = (bytes.len(), engine.open_orders());
        bytes
    }
}

/// Lengths at which both are opened again: the longest, its half, and so on.
fn lengths(commands: u64) -> Vec<u64> {
    let mut lengths: Vec<u64> = (0..5).map(|n| commands >> n).filter(|n| *n > 0).collect();
    lengths.reverse();
    lengths
}

/// Measures and prints.
pub fn run(args: &RecoveryArgs) -> Result<(), Failure> {
    let _ = std::fs::remove_dir_all(&args.dir);
    let _files = Removed(&args.dir);
    let mut plain = Kept::open(args.dir.join("whole"))?;
    let mut short = Kept::open(args.dir.join("snapshots"))?;
    let (mut engine, mut out) = (Engine::new(generated::config()), Output::default());
    let (lengths, bar) = (lengths(args.commands), progress(args.commands));
    let (mut rows, mut taken) = (Vec::new(), Taken::default());
    for input in Generated::new(1, args.commands).take(args.commands as usize) {
        let at = input.seq.0;
        out.clear();
        let _ = engine.apply(&input, &mut out);
        let (snapshot, look) = (at.is_multiple_of(args.snapshot_every), lengths.contains(&at));
        for kept in [&mut plain, &mut short] {
            let flush = snapshot || look || at.is_multiple_of(BATCH);
            kept.with(|journal| append(journal, &input, flush))?;
        }
        if snapshot {
            let bytes = taken.by(&engine);
            short.with(|journal| journal.write_snapshot(at, &bytes))?;
        }
        if look {
            rows.push((at, engine.state_digest(), plain.recover()?, short.recover()?));
            bar.set_position(at);
        }
    }
    bar.finish_and_clear();
    let equal = rows.iter().all(|(_, state, a, b)| a.state == *state && b.state == *state);
    show(args, &rows, taken, equal);
    if equal { Ok(()) } else { Err(Failure::Run("a recovered engine is another".to_string())) }
}

fn append(journal: &mut Journal<Folder>, input: &Input, flush: bool) -> Result<(), JournalError> {
    journal.append(1, input.as_bytes())?;
    if flush {
        journal.flush()?;
    }
    Ok(())
}

fn show(args: &RecoveryArgs, rows: &[(u64, u64, Recovered, Recovered)], taken: Taken, equal: bool) {
    if args.json {
        let way = |of: &Recovered| {
            serde_json::json!({
                "seconds": of.seconds, "replayed": of.replayed, "disk_bytes": of.bytes,
            })
        };
        let row = |(commands, state, plain, short): &(u64, u64, Recovered, Recovered)| {
            serde_json::json!({
                "commands": commands,
                "state_digest": format!("{state:016x}"),
                "without_snapshot": way(plain),
                "with_snapshots": way(short),
            })
        };
        let document = serde_json::json!({
            "snapshot_every": args.snapshot_every,
            "snapshot_bytes": taken.bytes,
            "snapshot_open_orders": taken.open_orders,
            "snapshot_longest_ms": taken.longest_ms,
            "lengths": rows.iter().map(row).collect::<Vec<_>>(),
            "digests_equal": equal,
        });
        println!("{document:#}");
        return;
    }
    println!(
        "{:>12}  {:>12} {:>12} {:>9}  {:>12} {:>12} {:>9}",
        "commands", "whole log", "replayed", "MiB", "snapshots", "replayed", "MiB"
    );
    for (commands, _, plain, short) in rows {
        println!(
            "{:>12}  {:>10.3} s {:>12} {:>9}  {:>10.3} s {:>12} {:>9}",
            grouped(*commands),
            plain.seconds,
            grouped(plain.replayed),
            plain.bytes >> 20,
            short.seconds,
            grouped(short.replayed),
            short.bytes >> 20,
        );
    }
    println!(
        "the last snapshot: {} bytes of {} open orders; written in memory in {:.1} ms at most",
        grouped(taken.bytes as u64),
        grouped(taken.open_orders as u64),
        taken.longest_ms
    );
    println!("digests {}", if equal { "equal" } else { "DIFFER" });
}
