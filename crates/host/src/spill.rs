//! Files that a running exchange lays down what it does not keep in memory.
//!
//! The log's is the one that every run leaves behind, written as it grows. That of the private
//! streams has no name: it is of no use to a later start, which makes the streams anew from the log.
//!
//! What is given up (`memory.when_full = "recycle"`) becomes holes in them, which take no room. The
//! log's header then says how many inputs are gone, and beside it lie snapshots of the engine,
//! `exchange.log.at-<inputs>`, with the oldest of which what is left can be replayed.

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use engine::log_file::{HEADER_LEN, LogHeader, RECORD_LEN, write_header, write_input};
use exchange::{Role, Root, Snapshots};
use rustix::fs::{FallocateFlags, fallocate};
use types::{Input, NodeId, Outbox, SpillStore};

use crate::config::Memory;
use crate::failure::{Failure, on};
use crate::files;

/// Where the private streams' file is made.
const STREAMS_FILE: &str = "streams.tmp";

/// Between the log's name and the inputs that a snapshot beside it stands for.
const SNAPSHOT: &str = ".at-";
/// Behind the name of a snapshot that is being written.
const UNFINISHED: &str = ".new";

/// A file, from an offset on.
pub struct Paper {
    file: File,
    from: u64,
    /// Of a log, whose header says what was given up.
    header: Option<LogHeader>,
}

impl Paper {
    /// The whole file.
    pub fn of(file: File) -> Paper {
        Paper { file, from: 0, header: None }
    }
}

impl SpillStore for Paper {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        let at = self.from.checked_add(at);
        at.is_some_and(|at| self.file.write_all_at(bytes, at).is_ok())
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        let at = self.from.checked_add(at);
        at.is_some_and(|at| self.file.read_exact_at(into, at).is_ok())
    }

    fn free(&mut self, at: u64, len: u64) -> bool {
        let (Some(from), Some(end)) = (self.from.checked_add(at), at.checked_add(len)) else {
            return false;
        };
        // What says that it is gone comes before it goes.
        if let Some(header) = &mut self.header {
            header.given_up = end / RECORD_LEN as u64;
            if self.file.write_all_at(&header.bytes(), 0).is_err() {
                return false;
            }
        }
        let holes = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        len == 0 || fallocate(&self.file, holes, from, len).is_ok()
    }
}

/// Snapshots of the engine beside a log.
struct Beside {
    log: PathBuf,
}

impl Beside {
    fn name(&self, applied: u64) -> PathBuf {
        let mut name = self.log.clone().into_os_string();
        name.push(format!("{SNAPSHOT}{applied}"));
        PathBuf::from(name)
    }
}

impl Snapshots for Beside {
    fn keep(&mut self, applied: u64, snapshot: &[u8]) -> bool {
        let name = self.name(applied);
        let mut unfinished = name.clone().into_os_string();
        unfinished.push(UNFINISHED);
        let written = files::create(Path::new(&unfinished));
        let written = written.and_then(|mut file| file.write_all(snapshot));
        let kept = written.and_then(|()| std::fs::rename(&unfinished, &name)).is_ok();
        if !kept {
            // What there is of it would keep room from others.
            let _ = std::fs::remove_file(&unfinished);
        }
        kept
    }

    fn forget_before(&mut self, applied: u64) {
        for (_, path) in snapshots(&self.log).into_iter().filter(|(of, _)| *of < applied) {
            // What can't be removed is of no use, and does no harm.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The snapshots beside a log and the inputs that they stand for, in order.
fn snapshots(log: &Path) -> Vec<(u64, PathBuf)> {
    let folder = log.parent().filter(|folder| !folder.as_os_str().is_empty());
    let files = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten();
    let prefix = log.file_name().and_then(|name| name.to_str()).unwrap_or("");
    let of = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let number = name.strip_prefix(prefix)?.strip_prefix(SNAPSHOT)?.parse().ok()?;
        Some((number, path))
    };
    let mut found: Vec<_> = files.flatten().filter_map(|file| of(file.path())).collect();
    found.sort_unstable();
    found
}

/// The oldest snapshot beside a log with which it can be replayed although so many of its inputs
/// were given up: the inputs that it stands for, and its file.
pub fn snapshot_from(log: &Path, given_up: u64) -> Option<(u64, PathBuf)> {
    snapshots(log).into_iter().find(|(applied, _)| *applied >= given_up)
}

/// What the header of the root's log says.
pub fn header(root: &Root) -> LogHeader {
    LogHeader {
        rules_version: engine::RULES_VERSION,
        config_digest: root.engine().config().digest(),
        given_up: 0,
    }
}

fn log_shelf(path: &Path, root: &Root) -> Result<Paper> {
    // Those of an earlier log.
    for (_, path) in snapshots(path) {
        std::fs::remove_file(path)?;
    }
    let mut file = files::create(path)?;
    let header = header(root);
    write_header(&mut file, &header)?;
    Ok(Paper { file, from: HEADER_LEN as u64, header: Some(header) })
}

fn nameless(path: &Path) -> Result<Paper> {
    let file = files::create(path)?;
    std::fs::remove_file(path)?;
    Ok(Paper::of(file))
}

/// A file without a name in a folder, for private streams.
///
/// # Errors
/// The disk's.
pub fn streams_in(folder: &Path) -> std::result::Result<Box<dyn SpillStore>, Failure> {
    let path = folder.join(STREAMS_FILE);
    std::fs::create_dir_all(folder).map_err(|error| on(folder, error))?;
    Ok(Box::new(nameless(&path).map_err(|error| on(&path, error))?))
}

/// Has the root of a new exchange spill its log to the file at `log` and its private streams
/// beside it, if the configuration wants that.
///
/// # Errors
/// When there can't be such files.
pub fn attach(memory: &Memory, log: &Path, nodes: &mut [Role]) -> std::result::Result<(), Failure> {
    if !memory.lays_down() {
        return Ok(());
    }
    let folder = log.parent().unwrap_or(Path::new("."));
    files::folder(folder)?;
    let streams = folder.join(STREAMS_FILE);
    let papers = nodes.iter().find_map(|role| {
        let root = role.as_root()?;
        let papers = log_shelf(log, root).map_err(|error| on(log, error));
        Some(papers.and_then(|paper| {
            Ok((paper, nameless(&streams).map_err(|error| on(&streams, error))?))
        }))
    });
    let (paper, streams) = papers.ok_or_else(no_root)??;
    let mut papers = Some(((Box::new(paper) as _, memory.inputs as usize), streams));
    let laid = nodes.iter_mut().find_map(|role| {
        role.with_root(&mut Outbox::default(), |root, _| {
            let (papers, streams) = papers.take()?;
            let laid = root.spill_to(papers, (Box::new(streams), memory.reports));
            if let Some((inputs, streams)) = memory.disk() {
                let beside = Beside { log: log.to_path_buf() };
                let snapshots = memory.recycles().then(|| Box::new(beside) as Box<dyn Snapshots>);
                root.bound_spills(inputs, streams, snapshots);
            }
            Some(laid)
        })
        .flatten()
    });
    laid.filter(|laid| *laid).map(|_| ()).ok_or_else(no_root)
}

/// Writes the rest of a log that is laid down as it grows; what was never applied, because it was never
/// durable, is in no log.
///
/// # Errors
/// When its file does not take it.
pub fn finish_log(path: &Path, nodes: &mut [(NodeId, Role)]) -> std::result::Result<(), Failure> {
    let finished = nodes.iter_mut().find_map(|(_, role)| {
        role.with_root(&mut Outbox::default(), |root, _| {
            let beyond = root.log().is_spilled() && root.waiting() > 0;
            let bytes = HEADER_LEN as u64 + root.engine().applied() * size_of::<Input>() as u64;
            root.finish_log().map(|()| beyond.then_some(bytes))
        })
    });
    let beyond = finished.unwrap_or(Ok(None)).map_err(|error| on(path, error))?;
    let cut = |bytes: u64| std::fs::OpenOptions::new().write(true).open(path)?.set_len(bytes);
    beyond.map_or(Ok(()), cut).map_err(|error| on(path, error))
}

/// Writes the root's input log, from wherever its inputs are; nothing when the root did not survive,
/// or it is there already.
pub fn write_log(
    path: &Path,
    nodes: &[(NodeId, Role)],
    elsewhere: Option<impl Iterator<Item = Input>>,
) -> Result<()> {
    let Some(root) = nodes.iter().find_map(|(_, role)| role.as_root()) else { return Ok(()) };
    if root.log().is_spilled() {
        return Ok(());
    }
    let mut file = BufWriter::with_capacity(1 << 18, files::create(path)?);
    write_header(&mut file, &header(root))?;
    match elsewhere {
        Some(mut inputs) => inputs.try_for_each(|input| write_input(&mut file, &input))?,
        None => root.applied().try_for_each(|input| write_input(&mut file, &input))?,
    }
    file.flush()
}

fn no_root() -> Failure {
    Failure::Run("no root whose log could be laid down".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nameless_file_is_read_back_and_leaves_nothing() {
        let name = format!("fairbell-files-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut paper = nameless(&path).expect("a file");
        assert!(!path.exists());
        let mut read = [0; 3];
        assert!(paper.put(1_000, b"abc") && paper.get(1_000, &mut read));
        assert_eq!(&read, b"abc");
        assert!(!paper.get(1_001, &mut read), "it ends before that");
        assert!(!paper.put(u64::MAX, b"abc"), "there is no such place");
    }

    #[test]
    fn what_a_log_gives_up_takes_no_room_and_is_passed_over_by_its_reader() {
        use engine::log_file::LogReader;
        use std::os::unix::fs::MetadataExt as _;
        use types::{Command, CommandKind, Nanos, Seq, Source};
        use zerocopy::IntoBytes as _;

        let name = format!("fairbell-holes-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("exchange.log");
        let header = LogHeader { rules_version: 1, config_digest: 2, given_up: 0 };
        let mut file = files::create(&path).expect("a file");
        write_header(&mut file, &header).expect("room");
        let mut paper = Paper { file, from: HEADER_LEN as u64, header: Some(header) };
        let input = |seq: u64| Input {
            seq: Seq(seq),
            t_in: Nanos(seq),
            t_seq: Nanos(seq),
            source: Source::default(),
            flags: 0,
            command: Command::new(CommandKind::StartOfDay),
        };
        let record = RECORD_LEN as u64;
        for seq in 1..=10_000 {
            assert!(paper.put((seq - 1) * record, input(seq).as_bytes()));
        }
        let blocks = || std::fs::metadata(&path).expect("there").blocks() * 512;
        let before = blocks();
        assert!(paper.free(0, 4_096 * record) && paper.free(4_096 * record, 4_096 * record));
        assert!(blocks() + 8_000 * record < before, "{} of {before} bytes left", blocks());
        let reader = LogReader::over(File::open(&path).expect("there")).expect("a log");
        let read: Vec<u64> = reader.map(|input| input.expect("whole").seq.0).collect();
        assert!(read.into_iter().eq(8_193..=10_000));
        let mut beside = Beside { log: path.clone() };
        for applied in [4_096, 8_200, 9_000] {
            assert!(beside.keep(applied, b"x"));
        }
        std::fs::write(folder.join("exchange.log.at-9500.new"), b"x").expect("room");
        assert_eq!(snapshot_from(&path, 8_192).map(|found| found.0), Some(8_200));
        assert_eq!(snapshot_from(&path, 9_001), None);
        beside.forget_before(8_200);
        let left: Vec<u64> = snapshots(&path).into_iter().map(|found| found.0).collect();
        assert_eq!(left, [8_200, 9_000]);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
