//! Files to which a running exchange spills what it does not keep in memory.
//!
//! The log's is the one that every run leaves behind, written as it grows. That of the private
//! streams has no name: it is of no use to a later start, which makes the streams anew from the log.
//!
//! What is given up (`memory.when_full = "recycle"`) becomes holes in them, which take no room. The
//! log's header then says how many inputs are gone, and beside it lie snapshots of the engine,
//! `exchange.log.at-<inputs>`, with the oldest of which what is left can be replayed.

use std::io::{BufWriter, Result, Write};
use std::path::{Path, PathBuf};

use engine::log_file::{HEADER_LEN, LogHeader, write_header, write_input};
use exchange::{Role, Root, Snapshots};
use types::{Input, NodeId, Outbox, SpillStore};

use crate::config::Memory;
use crate::failure::{Failure, on};
use crate::files;

mod writer;

pub use writer::{FileSpill, SpillWriter};

/// Where the private streams' file is made.
const STREAMS_FILE: &str = "streams.tmp";

/// Between the log's name and the inputs that a snapshot beside it stands for.
const SNAPSHOT: &str = ".at-";
/// Snapshots of the engine beside a log.
struct Beside {
    log: PathBuf,
    writer: SpillWriter,
    /// Inputs that those stand for which were kept and not forgotten.
    kept: Vec<u64>,
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
        let taken = self.writer.replace(self.name(applied), snapshot);
        self.kept.extend(taken.then_some(applied));
        taken
    }

    fn forget_before(&mut self, applied: u64) {
        let mut kept = std::mem::take(&mut self.kept);
        kept.retain(|old| *old >= applied || !self.writer.remove(self.name(*old)));
        self.kept = kept;
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

fn log_spill(path: &Path, root: &Root) -> Result<FileSpill> {
    // Those of an earlier log.
    for (_, path) in snapshots(path) {
        std::fs::remove_file(path)?;
    }
    let mut file = files::create(path)?;
    let header = header(root);
    write_header(&mut file, &header)?;
    FileSpill::new(file, HEADER_LEN as u64, Some(header))
}

fn nameless(path: &Path) -> Result<FileSpill> {
    let file = files::create(path)?;
    std::fs::remove_file(path)?;
    FileSpill::new(file, 0, None)
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
    if !memory.spills() {
        return Ok(());
    }
    let folder = log.parent().unwrap_or(Path::new("."));
    files::folder(folder)?;
    let streams = folder.join(STREAMS_FILE);
    let root = nodes.iter().find_map(|role| role.as_root()).ok_or_else(no_root)?;
    let inputs = log_spill(log, root).map_err(|error| on(log, error))?;
    let streams = nameless(&streams).map_err(|error| on(&streams, error))?;
    let writer = inputs.writer();
    let mut spills = Some(((Box::new(inputs) as _, memory.inputs as usize), streams));
    let attached = nodes.iter_mut().find_map(|role| {
        role.with_root(&mut Outbox::default(), |root, _| {
            let (inputs, streams) = spills.take()?;
            let attached = root.spill_to(inputs, (Box::new(streams), memory.reports));
            if let Some((inputs, streams)) = memory.disk() {
                let beside =
                    Beside { log: log.to_path_buf(), writer: writer.clone(), kept: Vec::new() };
                let snapshots = memory.recycles().then(|| Box::new(beside) as Box<dyn Snapshots>);
                root.bound_spills(inputs, streams, snapshots);
            }
            Some(attached)
        })
        .flatten()
    });
    attached.filter(|attached| *attached).map(|_| ()).ok_or_else(no_root)
}

/// Writes the rest of a log that is spilled as it grows; what was never applied, because it was never
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
    Failure::Run("no root whose log could be spilled".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::log_file::RECORD_LEN;

    #[test]
    fn a_nameless_file_is_read_back_and_leaves_nothing() {
        let name = format!("fairbell-files-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut spill = nameless(&path).expect("a file");
        assert!(!path.exists());
        let mut read = [0; 3];
        assert!(spill.put(1_000, b"abc") && spill.get(1_000, &mut read));
        assert_eq!(&read, b"abc");
        assert!(!spill.get(1_001, &mut read), "it ends before that");
    }

    #[test]
    fn what_a_log_gives_up_takes_no_room_and_is_passed_over_by_its_reader() {
        use engine::log_file::LogReader;
        use std::fs::File;
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
        let mut spill = FileSpill::new(file, HEADER_LEN as u64, Some(header)).expect("a thread");
        let writer = spill.writer();
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
            assert!(spill.put((seq - 1) * record, input(seq).as_bytes()));
        }
        assert!(spill.flush());
        let blocks = || std::fs::metadata(&path).expect("there").blocks() * 512;
        let before = blocks();
        assert!(spill.free(0, 4_096 * record) && spill.free(4_096 * record, 4_096 * record));
        assert!(spill.flush());
        assert!(blocks() + 8_000 * record < before, "{} of {before} bytes left", blocks());
        let reader = LogReader::over(File::open(&path).expect("there")).expect("a log");
        let read: Vec<u64> = reader.map(|input| input.expect("whole").seq.0).collect();
        assert!(read.into_iter().eq(8_193..=10_000));
        let mut beside = Beside { log: path.clone(), writer: writer.clone(), kept: Vec::new() };
        for applied in [4_096, 8_200, 9_000] {
            assert!(beside.keep(applied, b"x"));
        }
        assert!(writer.wait());
        std::fs::write(folder.join("exchange.log.at-9500.new"), b"x").expect("room");
        assert_eq!(snapshot_from(&path, 8_192).map(|found| found.0), Some(8_200));
        assert_eq!(snapshot_from(&path, 9_001), None);
        beside.forget_before(8_200);
        assert!(writer.wait());
        let left: Vec<u64> = snapshots(&path).into_iter().map(|found| found.0).collect();
        assert_eq!(left, [8_200, 9_000]);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
