//! Records in files of a folder: `MACHINE.STREAM.LIFE.FIRST.records`, each begun anew at 8 MiB, the oldest
//! of a stream deleted when all of them together are too long. A file begins with [`MAGIC`]; entries follow.
//!
//! Nothing is synced: records are no journal. A file that a crash cut short is read up to its last whole
//! entry; what is missing shows in the numbers.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::entry::{COUNT_MAX, Entry, HEAD};
use crate::record::RECORD;

/// First bytes of a file.
pub const MAGIC: [u8; 8] = *b"fbrec 1\n";
/// Length at which another file is begun, bytes.
const SEGMENT: u64 = 8 << 20;
/// Longest file that is read, bytes.
const LONGEST: u64 = SEGMENT + (HEAD + COUNT_MAX * RECORD + MAGIC.len()) as u64;
const ENDING: &str = "records";

/// A file of records, by its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Segment {
    /// `MACHINE:STREAM`.
    pub stream: String,
    /// When its producer began, ms since 1970.
    pub life: u64,
    /// Number of its first record.
    pub first: u64,
    /// Where it is.
    pub path: PathBuf,
}

impl Segment {
    fn of(path: PathBuf) -> Option<Segment> {
        let name = path.file_name()?.to_str()?;
        let mut parts = name.rsplitn(5, '.');
        let ending = parts.next()?;
        let (first, life) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let (stream, machine) = (parts.next()?, parts.next()?);
        let stream = format!("{machine}:{stream}");
        (ending == ENDING).then_some(Segment { stream, life, first, path })
    }
}

/// The files of records in a folder, by stream, oldest first.
///
/// # Errors
/// The folder can't be read.
pub fn segments(folder: &Path) -> Result<Vec<Segment>, String> {
    let on = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(on)? {
        found.extend(Segment::of(entry.map_err(on)?.path()));
    }
    found.sort();
    Ok(found)
}

/// What a file held from a place on.
pub struct Contents {
    /// Whole entries.
    pub entries: Vec<Entry>,
    /// Where to go on in it.
    pub at: u64,
    /// There are bytes behind that are no whole entry, yet or at all.
    pub torn: bool,
}

/// The entries of a file from a place on; 0: all.
///
/// # Errors
/// It can't be read, or is none of ours.
pub fn read(path: &Path, at: u64) -> Result<Contents, String> {
    let on = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(on)?;
    let from = if at == 0 {
        let mut magic = [0; MAGIC.len()];
        match file.read_exact(&mut magic) {
            Ok(()) if magic == MAGIC => MAGIC.len() as u64,
            // It was begun and nothing written.
            Err(_) => return Ok(Contents { entries: Vec::new(), at: 0, torn: true }),
            Ok(()) => return Err(format!("{}: it holds no records", path.display())),
        }
    } else {
        file.seek(SeekFrom::Start(at)).map_err(on)?
    };
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).map_err(on)?;
    let (mut entries, mut used) = (Vec::new(), 0);
    while let Some((entry, length)) = Entry::decode(&bytes[used..]) {
        entries.push(entry);
        used += length;
    }
    Ok(Contents { entries, at: from + used as u64, torn: used < bytes.len() })
}

/// A file being written.
struct Open {
    file: File,
    length: u64,
}

/// The files of one stream.
#[derive(Default)]
struct Stream {
    life: u64,
    open: Option<Open>,
    /// The files that there are, oldest first, and their lengths; the last one is open.
    kept: Vec<(PathBuf, u64)>,
}

/// Files that a machine's records are written to.
pub struct Files {
    folder: PathBuf,
    machine: String,
    began: u64,
    keep_bytes: u64,
    streams: BTreeMap<String, Stream>,
    bytes: Vec<u8>,
}

impl Files {
    /// Of a machine whose process began at a time, ms since 1970. `keep_bytes`: of a stream at most, about.
    ///
    /// # Errors
    /// The folder can't be made.
    pub fn new(folder: &Path, machine: &str, began: u64, keep_bytes: u64) -> Result<Files, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // Dots divide the parts of a name.
        let machine = machine.replace(['.', '/'], "_");
        let folder = folder.to_path_buf();
        let (streams, bytes) = (BTreeMap::new(), Vec::new());
        Ok(Files { folder, machine, began, keep_bytes, streams, bytes })
    }

    /// Adds an entry to a stream's files.
    ///
    /// # Errors
    /// The system's, the file in front: the entry is not there then.
    pub fn write(&mut self, stream: &str, entry: &Entry) -> Result<(), String> {
        if !self.streams.contains_key(stream) {
            let begun = self.begin(stream)?;
            self.streams.insert(stream.to_string(), begun);
        }
        let Some(of) = self.streams.get_mut(stream) else { return Ok(()) };
        if of.open.as_ref().is_none_or(|open| open.length >= SEGMENT) {
            of.open = None;
            let name =
                format!("{}.{stream}.{}.{:020}.{ENDING}", self.machine, of.life, entry.first);
            let path = self.folder.join(name);
            let on = |error: std::io::Error| format!("{}: {error}", path.display());
            let mut file = OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(true)
                .open(&path)
                .map_err(on)?;
            file.write_all(&MAGIC).map_err(on)?;
            let length = MAGIC.len() as u64;
            of.open = Some(Open { file, length });
            of.kept.retain(|(known, _)| *known != path);
            of.kept.push((path, length));
        }
        let (Some(open), Some(kept)) = (of.open.as_mut(), of.kept.last_mut()) else {
            return Ok(());
        };
        self.bytes.clear();
        entry.encode(&mut self.bytes);
        if let Err(error) = open.file.write_all(&self.bytes) {
            // What is cut short would hide what follows.
            let back = open.file.set_len(open.length);
            let back = back.and_then(|()| open.file.seek(SeekFrom::Start(open.length)).map(drop));
            let why = format!("{}: {error}", kept.0.display());
            if back.is_err() {
                of.open = None;
            }
            return Err(why);
        }
        open.length += self.bytes.len() as u64;
        kept.1 = open.length;
        let mut all: u64 = of.kept.iter().map(|(_, length)| length).sum();
        while all > self.keep_bytes && of.kept.len() > 1 {
            let (path, length) = of.kept.remove(0);
            // Gone already, or it stays.
            let _ = fs::remove_file(path);
            all -= length;
        }
        Ok(())
    }

    /// What there is of a stream from earlier.
    fn begin(&self, stream: &str) -> Result<Stream, String> {
        let name = format!("{}:{stream}", self.machine);
        let own = segments(&self.folder)?.into_iter().filter(|of| of.stream == name);
        let mut begun = Stream { life: self.began, ..Stream::default() };
        for segment in own {
            begun.life = begun.life.max(segment.life.saturating_add(1));
            let length = fs::metadata(&segment.path).map_or(0, |of| of.len());
            begun.kept.push((segment.path, length));
        }
        Ok(begun)
    }
}

#[cfg(test)]
mod tests {
    use crate::record::RecordKind;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn entry(first: u64, count: usize) -> Entry {
        Entry { kind: RecordKind::Orders, first, data: vec![first as u8; count * RECORD] }
    }

    #[test]
    fn files_are_read_as_written_turned_over_and_the_oldest_go() {
        let folder = folder("records");
        let keep = 3 * SEGMENT;
        let mut files = Files::new(&folder, "edge.1", 77, keep).expect("a folder");
        let mut first = 1;
        // Five files' worth.
        for _ in 0..5 * SEGMENT / (COUNT_MAX * RECORD) as u64 {
            files.write("orders", &entry(first, COUNT_MAX)).expect("written");
            first += COUNT_MAX as u64;
        }
        let found = segments(&folder).expect("a folder");
        assert!(found.len() >= 2 && found.len() <= 4, "{}", found.len());
        assert!(found.iter().all(|of| of.stream == "edge_1:orders" && of.life == 77));
        assert!(found[0].first > 1, "the oldest is gone");
        let mut next = found[0].first;
        for of in &found {
            let read = read(&of.path, 0).expect("a file of ours");
            assert!(!read.torn);
            for one in read.entries {
                assert_eq!((one.first, one.count()), (next, COUNT_MAX as u64));
                next = one.end();
            }
        }
        assert_eq!(next, first);
        // A later process of the machine, whose clock is behind.
        let mut again = Files::new(&folder, "edge.1", 5, keep).expect("a folder");
        again.write("orders", &entry(1, 1)).expect("written");
        assert!(segments(&folder).expect("a folder").iter().any(|of| of.life == 78));
        let _ = fs::remove_dir_all(folder);
    }

    #[test]
    fn a_file_that_was_cut_short_is_read_up_to_there_and_on_when_there_is_more() {
        let folder = folder("torn");
        let mut files = Files::new(&folder, "m", 1, 1 << 20).expect("a folder");
        files.write("orders", &entry(1, 3)).expect("written");
        files.write("orders", &entry(4, 2)).expect("written");
        let path = segments(&folder).expect("a folder").remove(0).path;
        let bytes = fs::read(&path).expect("a file");
        for cut in 0..bytes.len() {
            fs::write(&path, &bytes[..cut]).expect("written");
            let read = read(&path, 0).expect("a file of ours");
            let whole = [MAGIC.len(), MAGIC.len() + HEAD + 3 * RECORD, bytes.len()];
            assert_eq!(read.torn, !whole.contains(&cut), "{cut}");
            assert_eq!(read.entries.len(), whole[1..].iter().filter(|end| **end <= cut).count());
            fs::write(&path, &bytes).expect("written");
            let rest = super::read(&path, read.at).expect("a file of ours");
            assert_eq!(read.entries.len() + rest.entries.len(), 2, "{cut}");
        }
        fs::write(&path, b"something else").expect("written");
        assert!(super::read(&path, 0).is_err());
        let _ = fs::remove_dir_all(folder);
    }
}
