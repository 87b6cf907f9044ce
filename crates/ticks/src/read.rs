//! Reads the ticks of a file or of a folder.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::parquet_file::TickFile;
use crate::row::Tick;
use crate::spool::SpoolReader;
use crate::writer::{PARQUET, SPOOL};

/// Conditions on the ticks to be read; a condition that is `None` or empty matches all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Only ticks of this symbol.
    pub symbol: Option<String>,
    /// Only ticks of these kinds (words of [`Tick::kind`]); empty: all kinds.
    pub kinds: Vec<String>,
    /// Only ticks heard at this time or later, ns since the epoch.
    pub from: Option<i64>,
    /// Only ticks heard before this time, ns since the epoch.
    pub until: Option<i64>,
    /// Only ticks sent at this time of day or later, ns since the venue's midnight.
    pub day_from: Option<i64>,
    /// Only ticks sent before this time of day, ns since the venue's midnight.
    pub day_until: Option<i64>,
}

impl Filter {
    fn takes(&self, tick: &Tick) -> bool {
        let symbol = |wanted: &String| tick.symbol.as_ref() == Some(wanted);
        self.symbol.as_ref().is_none_or(symbol)
            && (self.kinds.is_empty() || self.kinds.contains(&tick.kind))
            && self.from.is_none_or(|from| from <= tick.heard)
            && self.until.is_none_or(|until| tick.heard < until)
            && self.day_from.is_none_or(|from| from <= tick.time)
            && self.day_until.is_none_or(|until| tick.time < until)
    }

    /// Whether anything heard between these times may be wanted.
    fn meets(&self, (first, last): (i64, i64)) -> bool {
        self.from.is_none_or(|from| from <= last) && self.until.is_none_or(|until| first < until)
    }
}

/// What reading a file or folder came across.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadReport {
    /// Number of ticks compared with the conditions.
    pub ticks: u64,
    /// Number of files read, a spool included.
    pub files: u64,
    /// Number of row groups that were passed over because none of their ticks can match.
    pub passed_over: u64,
    /// Whether a spool ended within a record, as a writer that was killed leaves it.
    pub torn: bool,
    /// Files that could not be read, each with the reason.
    pub complaints: Vec<String>,
}

/// Files of a folder with this ending, in order of their names.
pub(crate) fn with_ending(dir: &Path, ending: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let ours =
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ticks-"));
        if ours && path.extension().is_some_and(|of| of == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Gives the ticks of a file or folder that are wanted, in the order they were written, until `each`
/// says stop. A file that cannot be read is a complaint; the others are read all the same.
///
/// # Errors
/// There is no such file or folder, or the folder holds no ticks.
pub fn read(
    path: &Path,
    filter: &Filter,
    mut each: impl FnMut(Tick) -> ControlFlow<()>,
) -> std::io::Result<ReadReport> {
    let mut report = ReadReport::default();
    let mut files = vec![path.to_path_buf()];
    if std::fs::metadata(path)?.is_dir() {
        files = with_ending(path, PARQUET)?;
        // One that is being sealed is there twice.
        let open = with_ending(path, SPOOL)?.into_iter();
        files.extend(open.filter(|spool| !spool.with_extension(PARQUET).exists()));
        files.sort();
        if files.is_empty() {
            let kind = std::io::ErrorKind::NotFound;
            return Err(std::io::Error::new(kind, "no ticks are here"));
        }
    }
    for file in files {
        report.files += 1;
        let flow = match file.extension().is_some_and(|ending| ending == SPOOL) {
            true => spool(&file, filter, &mut report, &mut each),
            false => parquet(&file, filter, &mut report, &mut each),
        };
        match flow {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(error) => report.complaints.push(format!("{}: {error}", file.display())),
        }
    }
    Ok(report)
}

fn spool(
    path: &Path,
    filter: &Filter,
    report: &mut ReadReport,
    each: &mut impl FnMut(Tick) -> ControlFlow<()>,
) -> std::io::Result<ControlFlow<()>> {
    let mut reader = match SpoolReader::open(path) {
        // Its writer has made a Parquet file of it since the folder was looked at.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return parquet(&path.with_extension(PARQUET), filter, report, each);
        }
        reader => reader?,
    };
    for update in reader.by_ref() {
        report.ticks += 1;
        let tick = Tick::of(&update);
        if filter.takes(&tick) && each(tick).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    report.torn |= reader.torn;
    Ok(ControlFlow::Continue(()))
}

fn parquet(
    path: &Path,
    filter: &Filter,
    report: &mut ReadReport,
    each: &mut impl FnMut(Tick) -> ControlFlow<()>,
) -> std::io::Result<ControlFlow<()>> {
    let file = guarded(|| TickFile::open(path))?;
    for group in 0..file.groups() {
        if file.heard(group).is_some_and(|heard| !filter.meets(heard)) {
            report.passed_over += 1;
            continue;
        }
        for tick in guarded(|| file.group(group))? {
            report.ticks += 1;
            if filter.takes(&tick) && each(tick).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// A file may be anything, and whoever decodes it further down may give up loudly: that is an error of
/// the file, and no more.
fn guarded<T>(work: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    caught.unwrap_or_else(|_| Err(std::io::Error::other("its bytes make no sense")))
}
