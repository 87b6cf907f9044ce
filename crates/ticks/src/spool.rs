//! The file that is being written: a header, then records of one size, each with its checksum.
//!
//! A writer that is killed leaves whole records, and perhaps a part of one, which readers leave out.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use feed::plant::{UPDATE_BYTES, Update};

/// First bytes of a spool: format and version.
const MAGIC: [u8; 8] = *b"FBTICKS1";
/// Length of a record, bytes: an update as in datagrams, and its CRC-32.
const RECORD: usize = UPDATE_BYTES + 4;
/// Number of bytes that are collected before they are written.
const BUFFER: usize = 1 << 18;

/// A spool that records are appended to.
#[derive(Debug)]
pub(crate) struct Spool {
    file: BufWriter<File>,
    record: Vec<u8>,
    pub rows: usize,
}

impl Spool {
    /// A new file; nothing else may be there.
    pub fn create(path: &Path) -> std::io::Result<Spool> {
        let mut file = BufWriter::with_capacity(BUFFER, File::create_new(path)?);
        file.write_all(&MAGIC)?;
        Ok(Spool { file, record: Vec::with_capacity(RECORD), rows: 0 })
    }

    pub fn append(&mut self, update: &Update) -> std::io::Result<()> {
        self.record.clear();
        update.put(&mut self.record);
        let sum = crc32fast::hash(&self.record);
        self.record.extend_from_slice(&sum.to_be_bytes());
        self.rows += 1;
        self.file.write_all(&self.record)
    }

    /// Everything appended so far is with the operating system: a kill of this process loses none of it.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Reads the records of a spool, up to the first that is not whole.
pub(crate) struct SpoolReader {
    file: BufReader<File>,
    /// Whether bytes at the end were not a whole record.
    pub torn: bool,
}

impl SpoolReader {
    /// Opens one; a file too short for its first bytes has no records.
    ///
    /// # Errors
    /// It cannot be read, or is no spool.
    pub fn open(path: &Path) -> std::io::Result<SpoolReader> {
        let mut file = BufReader::with_capacity(BUFFER, File::open(path)?);
        let mut magic = Vec::new();
        file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic)?;
        if !MAGIC.starts_with(&magic) {
            let kind = std::io::ErrorKind::InvalidData;
            return Err(std::io::Error::new(kind, "no spool of ticks"));
        }
        Ok(SpoolReader { file, torn: false })
    }
}

impl Iterator for SpoolReader {
    type Item = Update;

    fn next(&mut self) -> Option<Update> {
        if self.torn {
            return None;
        }
        let mut record = Vec::with_capacity(RECORD);
        // An error of the disk ends what can be read, as a torn record does.
        let read = self.file.by_ref().take(RECORD as u64).read_to_end(&mut record);
        if read.is_ok() && record.is_empty() {
            return None;
        }
        let update = || {
            let (bytes, sum) = record.split_first_chunk::<UPDATE_BYTES>()?;
            let sum = u32::from_be_bytes(*sum.first_chunk()?);
            (crc32fast::hash(bytes) == sum).then(|| Update::read(bytes)).flatten()
        };
        let update = update();
        self.torn = update.is_none();
        update
    }
}
