//! A folder of ticks: what was appended is what is read, also by who comes while it is written, after
//! the writer was killed, and whatever happened to the bytes.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fast::opra::{Best, Price, Series};
use feed::plant::{Kind, Update, symbol};
use ticks::{Filter, ReadReport, Tick, TickWriter, WriterConfig, read};
use types::{Nanos, SplitMix64};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("fairbell-ticks-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }

    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut found: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|of| of == ending)).collect();
        found.sort();
        found
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Updates of all kinds, in order of time.
fn updates(seed: u64, count: u64) -> Vec<Update> {
    let mut random = SplitMix64::new(seed);
    let names = ["AAA", "BTCUSD", "C"].map(|name| symbol(name).expect("a symbol"));
    let one = |at: u64, random: &mut SplitMix64| {
        let kind = Kind::ALL[random.below(Kind::ALL.len() as u64) as usize];
        let mut best = || {
            let (price, size) =
                (Price((random.below(1 << 31) << 9) as i64), random.below(1 << 20) as u32);
            (random.below(4) > 0).then_some(Best { participant: 0, price, size })
        };
        let (best_bid, best_offer) = (best(), best());
        let series = match kind.is_tick() {
            true => Series { symbol: names[random.below(3) as usize], ..Series::default() },
            false => Series::default(),
        };
        Update {
            participant: 0,
            bbo: [0, b'B', b'S'][random.below(3) as usize],
            sequence: at,
            time: at * 3,
            series,
            bid: Price((random.below(1 << 31) << 9) as i64),
            bid_size: random.below(1 << 31) << 9,
            offer: Price((random.below(1 << 31) << 9) as i64),
            best_bid,
            best_offer,
            ..Update::of_line(kind, random.below(4) as u8, Nanos(1_000 + at * 10))
        }
    };
    (1..=count).map(|at| one(at, &mut random)).collect()
}

fn all(path: &Path, filter: &Filter) -> (Vec<Tick>, ReadReport) {
    let mut ticks = Vec::new();
    let report = read(path, filter, |tick| {
        ticks.push(tick);
        ControlFlow::Continue(())
    });
    (ticks, report.expect("readable"))
}

fn rows(updates: &[Update]) -> Vec<Tick> {
    updates.iter().map(Tick::of).collect()
}

fn config(rows: usize) -> WriterConfig {
    WriterConfig { rows, ..WriterConfig::default() }
}

#[test]
fn what_was_appended_is_read_in_order_from_parquet_and_from_what_is_open() {
    let scratch = Scratch::new("order");
    let updates = updates(1, 2_500);
    let mut writer = TickWriter::open(&scratch.0, config(1_000)).expect("a folder");
    for chunk in updates.chunks(37) {
        writer.append(chunk).expect("appended");
    }
    writer.flush().expect("flushed");
    assert_eq!((scratch.files("parquet").len(), scratch.files("open").len()), (2, 1));
    let (ticks, report) = all(&scratch.0, &Filter::default());
    assert!(ticks == rows(&updates), "while it is written");
    assert_eq!((report.files, report.ticks, report.torn), (3, 2_500, false));
    writer.finish().expect("finished");
    assert_eq!((scratch.files("parquet").len(), scratch.files("open").len()), (3, 0));
    assert_eq!(writer.counters().ticks, 2_500);
    assert!(all(&scratch.0, &Filter::default()).0 == rows(&updates), "afterwards");
    let (ticks, _) = all(&scratch.files("parquet")[1], &Filter::default());
    assert!(ticks == rows(&updates[1_000..2_000]), "one file alone");
}

#[test]
fn a_filter_takes_what_it_says_and_passes_over_groups_outside_its_time() {
    let scratch = Scratch::new("filter");
    let updates = updates(2, 3_000);
    let mut writer = TickWriter::open(&scratch.0, config(500)).expect("a folder");
    writer.append(&updates).expect("appended");
    let filter = Filter {
        symbol: Some("BTCUSD".to_string()),
        kinds: vec!["trade".to_string(), "quote".to_string()],
        from: Some(1_000 + 1_001 * 10),
        until: Some(1_000 + 1_800 * 10),
        day_from: Some(3 * 1_100),
        day_until: None,
    };
    let (ticks, report) = all(&scratch.0, &filter);
    let btc = symbol("BTCUSD");
    let wanted: Vec<Update> = updates
        .iter()
        .filter(|update| {
            Some(update.series.symbol) == btc
                && matches!(update.kind, Kind::Trade | Kind::Quote)
                && (1_100..1_800).contains(&update.sequence)
        })
        .copied()
        .collect();
    assert!(wanted.len() > 20, "a control");
    assert!(ticks == rows(&wanted));
    assert_eq!(report.passed_over, 4, "of six groups");
    let mut seen = 0;
    let report = read(&scratch.0, &Filter::default(), |_| {
        seen += 1;
        if seen == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((seen, report.expect("readable").files), (10, 1), "no more is read than is wanted");
}

#[test]
fn a_killed_writer_leaves_what_it_had_appended_and_the_next_one_makes_a_table_of_it() {
    let scratch = Scratch::new("killed");
    let updates = updates(3, 700);
    let mut writer = TickWriter::open(&scratch.0, config(500)).expect("a folder");
    writer.append(&updates).expect("appended");
    writer.flush().expect("flushed");
    assert!(TickWriter::open(&scratch.0, config(500)).is_err(), "a second writer is refused");
    // As a kill does: nothing is finished.
    drop(writer);
    let open = scratch.files("open").remove(0);
    let mut bytes = std::fs::read(&open).expect("a spool");
    bytes.truncate(bytes.len() - 5);
    std::fs::write(&open, &bytes).expect("torn");
    std::fs::write(scratch.0.join("ticks-00000000000000000001.partial"), b"half").expect("a file");
    let (ticks, report) = all(&scratch.0, &Filter::default());
    assert!(ticks == rows(&updates[..699]) && report.torn);
    let mut next =
        TickWriter::open(&scratch.0, config(500)).expect("the lock went with its holder");
    assert_eq!((next.counters().mended, scratch.files("open").len()), (1, 0));
    assert!(scratch.files("partial").is_empty());
    next.append(&updates[699..]).expect("appended");
    next.finish().expect("finished");
    let (ticks, report) = all(&scratch.0, &Filter::default());
    assert!(ticks == rows(&updates) && !report.torn);
}

#[test]
fn the_oldest_files_go_where_only_some_are_kept() {
    let scratch = Scratch::new("kept");
    let updates = updates(4, 1_000);
    let config = WriterConfig { rows: 100, files: 3 };
    let mut writer = TickWriter::open(&scratch.0, config).expect("a folder");
    writer.append(&updates).expect("appended");
    assert_eq!((scratch.files("parquet").len(), writer.counters().removed), (3, 7));
    assert!(all(&scratch.0, &Filter::default()).0 == rows(&updates[700..]));
}

#[test]
fn broken_files_are_complaints_and_harm_no_other() {
    let scratch = Scratch::new("broken");
    let updates = updates(5, 600);
    let mut writer = TickWriter::open(&scratch.0, config(200)).expect("a folder");
    writer.append(&updates[..599]).expect("appended");
    writer.flush().expect("flushed");
    let victim = scratch.files("parquet").remove(0);
    let (open, seed) = (scratch.files("open").remove(0), 0x71C5);
    println!("seed {seed:#x}");
    let (parquet, spool) =
        (std::fs::read(&victim).expect("a file"), std::fs::read(&open).expect("a file"));
    let mut random = SplitMix64::new(seed);
    let mut complaints = 0;
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for round in 0..400 {
        let (path, right) = if round % 4 == 0 { (&open, &spool) } else { (&victim, &parquet) };
        let mut bytes = right.clone();
        for _ in 0..1 + random.below(4) {
            // The end of a file says where everything is.
            let near_end = random.below(2) == 0;
            let reach = if near_end { bytes.len().min(600) } else { bytes.len() } as u64;
            let at = bytes.len() - 1 - random.below(reach) as usize;
            match random.below(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] ^= 1 << random.below(8),
                _ => bytes[at] = random.below(256) as u8,
            }
        }
        std::fs::write(path, &bytes).expect("written");
        let (ticks, report) = all(&scratch.0, &Filter::default());
        complaints += report.complaints.len() + usize::from(report.torn);
        assert!(ticks.len() <= 2 * 65_536 + 400, "bounded");
        let other = rows(&updates[200..400]);
        let found = ticks.windows(other.len()).any(|part| part == other);
        assert!(found, "round {round}: the file between is whole");
        std::fs::write(path, right).expect("written");
    }
    std::panic::set_hook(quiet);
    assert!(complaints > 100, "{complaints}");
    assert!(all(&scratch.0, &Filter::default()).0 == rows(&updates[..599]), "a control");
}

#[test]
fn other_files_are_refused_by_name() {
    let scratch = Scratch::new("others");
    assert!(
        read(&scratch.0, &Filter::default(), |_| ControlFlow::Continue(())).is_err(),
        "no folder"
    );
    std::fs::create_dir_all(&scratch.0).expect("a folder");
    assert!(
        read(&scratch.0, &Filter::default(), |_| ControlFlow::Continue(())).is_err(),
        "no ticks"
    );
    let path = scratch.0.join("ticks-1.parquet");
    std::fs::write(&path, b"PAR1 and nothing else PAR1").expect("a file");
    let (ticks, report) = all(&scratch.0, &Filter::default());
    assert!(ticks.is_empty() && report.complaints.len() == 1, "{report:?}");
    assert!(report.complaints[0].contains("ticks-1.parquet"), "{report:?}");
}
