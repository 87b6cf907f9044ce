//! An input log as bytes: a header, then one 128-byte record per input.
//!
//! Header, 32 bytes little-endian: magic `FBELLLOG`, format version, rules version, configuration
//! digest, records before the first that is there: those were given up, and their places in the file
//! are holes ([`LogReader::over`] passes over them). Reading streams: one block of records is held at a time, whatever the length. Each
//! record's position and time must follow from the one before, so that damage is found and named
//! by its offset. Files are the caller's: this is over `Read` and `Write`.

use std::io::{self, Read, Seek, SeekFrom, Write};

use types::{Input, Nanos, Seq};
use zerocopy::{IntoBytes, TryFromBytes};

/// The first bytes of a log.
pub const MAGIC: &[u8; 8] = b"FBELLLOG";
/// Version of the layout.
pub const FORMAT: u32 = 1;
/// Bytes of the header.
pub const HEADER_LEN: usize = 32;
/// Bytes of a record.
pub const RECORD_LEN: usize = size_of::<Input>();
/// Records read at a time (64 KiB).
const BLOCK: usize = 512;

const _: () = assert!(RECORD_LEN == 128, "the layout that is documented");
const _: () = assert!(HEADER_LEN == MAGIC.len() + 3 * 8 && HEADER_LEN.is_multiple_of(8));

/// What the header of a log says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogHeader {
    /// Version of the rules the inputs were applied under.
    pub rules_version: u32,
    /// Digest of the configuration they were applied under; see [`crate::Config::digest`].
    pub config_digest: u64,
    /// Records before the first that is there.
    pub given_up: u64,
}

impl LogHeader {
    /// Its bytes.
    pub fn bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.rules_version.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.config_digest.to_le_bytes());
        bytes[24..].copy_from_slice(&self.given_up.to_le_bytes());
        bytes
    }
}

/// Why a log can't be read on.
#[derive(Debug)]
pub enum LogError {
    /// Reading failed.
    Io(io::Error),
    /// It does not begin as a log does.
    Magic,
    /// Another format version.
    Format(u32),
    /// It ends within the record at this offset (a write that was cut short).
    Torn(u64),
    /// The record at this offset holds what no engine was given.
    Damaged(u64),
}

impl std::fmt::Display for LogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LogError::Io(error) => write!(f, "reading the log: {error}"),
            LogError::Magic => f.write_str("this is no input log"),
            LogError::Format(format) => write!(f, "log format {format} is not known"),
            LogError::Torn(at) => write!(f, "the log ends within the record at byte {at}"),
            LogError::Damaged(at) => write!(f, "the record at byte {at} of the log is damaged"),
        }
    }
}

impl std::error::Error for LogError {}

/// Writes the header, once, at the start.
///
/// # Errors
/// Those of the writer.
pub fn write_header(to: &mut impl Write, header: &LogHeader) -> io::Result<()> {
    to.write_all(&header.bytes())
}

/// Writes one record.
///
/// # Errors
/// Those of the writer.
pub fn write_input(to: &mut impl Write, input: &Input) -> io::Result<()> {
    to.write_all(input.as_bytes())
}

/// Reads a log record by record: an iterator that ends at the end or after the first error.
pub struct LogReader<R> {
    from: R,
    header: LogHeader,
    block: Vec<u8>,
    /// Bytes of the block in use, and those taken of them.
    filled: usize,
    taken: usize,
    offset: u64,
    last: (Seq, Nanos),
    failed: bool,
}

impl<R: Read> LogReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`LogError`] when it is not that of a log in this format.
    pub fn new(mut from: R) -> Result<LogReader<R>, LogError> {
        let mut bytes = [0; HEADER_LEN];
        if fill(&mut from, &mut bytes).map_err(LogError::Io)? < HEADER_LEN || bytes[..8] != *MAGIC {
            return Err(LogError::Magic);
        }
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if word(8) != FORMAT {
            return Err(LogError::Format(word(8)));
        }
        let config_digest = u64::from(word(20)) << 32 | u64::from(word(16));
        let given_up = u64::from(word(28)) << 32 | u64::from(word(24));
        Ok(LogReader {
            from,
            header: LogHeader { rules_version: word(12), config_digest, given_up },
            block: vec![0; BLOCK * RECORD_LEN],
            filled: 0,
            taken: 0,
            offset: HEADER_LEN as u64,
            last: (Seq(given_up), Nanos(0)),
            failed: false,
        })
    }

    /// What the header says.
    pub fn header(&self) -> LogHeader {
        self.header
    }

    /// Offset of the next record.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn read(&mut self) -> Result<Option<Input>, LogError> {
        if self.taken == self.filled {
            self.filled = fill(&mut self.from, &mut self.block).map_err(LogError::Io)?;
            self.taken = 0;
            if self.filled == 0 {
                return Ok(None);
            }
        }
        assert!(self.taken < self.filled && self.filled <= self.block.len());
        let at = self.offset;
        let end = self.taken + RECORD_LEN;
        let held = self.block.get(..self.filled).unwrap_or(&[]);
        let bytes = held.get(self.taken..end).ok_or(LogError::Torn(at))?;
        let input = Input::try_read_from_bytes(bytes).map_err(|_| LogError::Damaged(at))?;
        // The first record of a log that was cut may have any position; after it they are dense.
        let follows = input.seq.0 != 0
            && (self.last.0.0 == 0 || Some(input.seq.0) == self.last.0.0.checked_add(1))
            && input.t_seq >= self.last.1;
        if !follows {
            return Err(LogError::Damaged(at));
        }
        self.taken = end;
        self.offset += RECORD_LEN as u64;
        self.last = (input.seq, input.t_seq);
        Ok(Some(input))
    }
}

impl<R: Read + Seek> LogReader<R> {
    /// Reads the header, and goes on where the first record is.
    ///
    /// # Errors
    /// As [`LogReader::new`].
    pub fn over(from: R) -> Result<LogReader<R>, LogError> {
        let mut reader = LogReader::new(from)?;
        let given_up = reader.header.given_up;
        if given_up > 0 {
            let holes = given_up.checked_mul(RECORD_LEN as u64);
            let first = holes.and_then(|holes| holes.checked_add(HEADER_LEN as u64));
            let first = first.filter(|at| i64::try_from(*at).is_ok());
            let first = first.ok_or(LogError::Damaged(24))?;
            reader.from.seek(SeekFrom::Start(first)).map_err(LogError::Io)?;
            reader.offset = first;
        }
        Ok(reader)
    }
}

impl<R: Read> Iterator for LogReader<R> {
    type Item = Result<Input, LogError>;

    fn next(&mut self) -> Option<Result<Input, LogError>> {
        if self.failed {
            return None;
        }
        let read = self.read();
        self.failed = read.is_err();
        read.transpose()
    }
}

/// Reads until the buffer is full or nothing comes; says how much.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::{Command, CommandKind, Source};

    const HEADER: LogHeader =
        LogHeader { rules_version: 2, config_digest: 0x1234_5678_9abc_def0, given_up: 0 };

    fn log(records: u64) -> (Vec<Input>, Vec<u8>) {
        let mut bytes = Vec::new();
        write_header(&mut bytes, &HEADER).expect("memory takes all");
        let input = |n| Input {
            seq: Seq(n),
            t_in: Nanos(n),
            t_seq: Nanos(n / 2),
            source: Source::default(),
            flags: 0,
            command: Command::new(CommandKind::NewOrder),
        };
        let inputs: Vec<Input> = (1..=records).map(input).collect();
        inputs.iter().for_each(|input| write_input(&mut bytes, input).expect("memory takes all"));
        (inputs, bytes)
    }

    #[test]
    fn what_was_written_is_read() {
        let (inputs, bytes) = log(1_300);
        let mut reader = LogReader::new(bytes.as_slice()).expect("a header");
        assert_eq!(reader.header(), HEADER);
        let read: Result<Vec<Input>, LogError> = reader.by_ref().collect();
        assert_eq!(read.expect("a whole log"), inputs);
        assert_eq!(reader.offset(), bytes.len() as u64);
    }

    #[test]
    fn damage_is_named_by_its_offset() {
        let (_, bytes) = log(600);
        let at = HEADER_LEN + 555 * RECORD_LEN;
        let last = |bytes: &[u8]| LogReader::new(bytes).expect("a header").last();
        let torn = last(&bytes[..at + 5]);
        assert!(matches!(torn, Some(Err(LogError::Torn(offset))) if offset == at as u64));
        let mut wrong = bytes.clone();
        wrong[at] ^= 1;
        let damaged = last(&wrong);
        assert!(matches!(damaged, Some(Err(LogError::Damaged(offset))) if offset == at as u64));
        assert!(matches!(LogReader::new(&bytes[1..]), Err(LogError::Magic)));
        let mut newer = bytes;
        newer[8] = 9;
        assert!(matches!(LogReader::new(newer.as_slice()), Err(LogError::Format(9))));
    }

    #[test]
    fn what_was_given_up_is_passed_over() {
        let (inputs, mut bytes) = log(900);
        let cut = 700;
        bytes[HEADER_LEN..HEADER_LEN + cut * RECORD_LEN].fill(0);
        bytes[..HEADER_LEN].copy_from_slice(&LogHeader { given_up: cut as u64, ..HEADER }.bytes());
        let mut reader = LogReader::over(io::Cursor::new(&bytes)).expect("a header");
        assert_eq!(reader.header().given_up, cut as u64);
        let read: Result<Vec<Input>, LogError> = reader.by_ref().collect();
        assert_eq!(read.expect("whole"), inputs[cut..]);
        assert_eq!(reader.offset(), bytes.len() as u64);
        // Read from the front, as by who can't pass over anything, its holes are no records.
        let first = LogReader::new(bytes.as_slice()).expect("a header").next();
        assert!(matches!(first, Some(Err(LogError::Damaged(32)))));
        for given_up in [1 << 60, u64::MAX, u64::MAX / 128] {
            bytes[24..32].copy_from_slice(&u64::to_le_bytes(given_up));
            let read = LogReader::over(io::Cursor::new(&bytes));
            assert!(read.is_err() || read.is_ok_and(|reader| reader.count() == 0), "{given_up}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            at in 0usize..(HEADER_LEN + 3 * RECORD_LEN),
            value: u8,
            cut in 0usize..(HEADER_LEN + 3 * RECORD_LEN),
        ) {
            let (_, mut bytes) = log(3);
            bytes[at] = value;
            bytes.truncate(cut.max(HEADER_LEN));
            if let Ok(reader) = LogReader::new(bytes.as_slice()) {
                prop_assert!(reader.count() <= 4);
            }
            if let Ok(reader) = LogReader::over(io::Cursor::new(&bytes)) {
                prop_assert!(reader.count() <= 4);
            }
        }
    }
}
