//! Files that a running exchange lays down what it does not keep in memory.
//!
//! The log's is the one that every run leaves behind, written as it grows. That of the private
//! streams has no name: it is of no use to a later start, which makes the streams anew from the log.

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use engine::log_file::{HEADER_LEN, LogHeader, write_header, write_input};
use roles::{Role, Root};
use types::{Input, NodeId, Outbox, Shelf};

use crate::Failure;
use crate::config::Memory;
use crate::files;
use crate::log::on;

/// Where the private streams' file is made.
const STREAMS_FILE: &str = "streams.tmp";

/// A file, from an offset on.
pub struct Paper {
    file: File,
    from: u64,
}

impl Paper {
    /// The whole file.
    pub fn of(file: File) -> Paper {
        Paper { file, from: 0 }
    }
}

impl Shelf for Paper {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        let at = self.from.checked_add(at);
        at.is_some_and(|at| self.file.write_all_at(bytes, at).is_ok())
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        let at = self.from.checked_add(at);
        at.is_some_and(|at| self.file.read_exact_at(into, at).is_ok())
    }
}

/// What the header of the root's log says.
pub fn header(root: &Root) -> LogHeader {
    LogHeader {
        rules_version: engine::RULES_VERSION,
        config_digest: root.engine().config().digest(),
    }
}

fn log_shelf(path: &Path, root: &Root) -> Result<Paper> {
    let mut file = files::create(path)?;
    write_header(&mut file, &header(root))?;
    Ok(Paper { file, from: HEADER_LEN as u64 })
}

fn nameless(path: &Path) -> Result<Paper> {
    let file = files::create(path)?;
    std::fs::remove_file(path)?;
    Ok(Paper { file, from: 0 })
}

/// Has the root of a new exchange lay down its log in the file at `log` and its private streams
/// beside it, if the configuration wants that.
///
/// # Errors
/// When there can't be such files.
pub fn lay_down(
    memory: &Memory,
    log: &Path,
    nodes: &mut [Role],
) -> std::result::Result<(), Failure> {
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
            let (log, streams) = papers.take()?;
            Some(root.lay_down(log, (Box::new(streams), memory.reports)))
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
            let beyond = root.log().is_laid_down() && root.waiting() > 0;
            let bytes = HEADER_LEN as u64 + root.engine().applied() * size_of::<Input>() as u64;
            root.finish_log().map(|()| beyond.then_some(bytes))
        })
    });
    let beyond = finished.unwrap_or(Ok(None)).map_err(|error| on(path, error))?;
    let cut = |bytes: u64| std::fs::OpenOptions::new().write(true).open(path)?.set_len(bytes);
    beyond.map_or(Ok(()), cut).map_err(|error| on(path, error))
}

/// Writes the root's input log; nothing when the root did not survive, or it is there already.
pub fn write_log(path: &Path, nodes: &[(NodeId, Role)]) -> Result<()> {
    let Some(root) = nodes.iter().find_map(|(_, role)| role.as_root()) else { return Ok(()) };
    if root.log().is_laid_down() {
        return Ok(());
    }
    let mut file = BufWriter::with_capacity(1 << 18, files::create(path)?);
    write_header(&mut file, &header(root))?;
    root.applied().try_for_each(|input| write_input(&mut file, &input))?;
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
}
