//! Little-endian words for snapshots, and a reader that no bytes can make panic.

/// Bytes that are no snapshot of this engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotError {
    /// It does not begin as a snapshot of this kind does.
    Magic,
    /// Another format.
    Format(u32),
    /// Written under other rules: only an engine of these may go on with it.
    Rules(u32),
    /// Written by an engine of another configuration.
    Config,
    /// It ends early, or holds what no engine writes, at this byte.
    Damaged(usize),
    /// The part that holds the books does not fit.
    Book(book::SnapshotError),
    /// The bytes are not those their digest was made of.
    Digest,
}

impl std::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SnapshotError::Magic => f.write_str("this is no snapshot of an engine"),
            SnapshotError::Format(format) => write!(f, "snapshot format {format} is not known"),
            SnapshotError::Rules(rules) => write!(f, "written under rules version {rules}"),
            SnapshotError::Config => f.write_str("written by an engine of another configuration"),
            SnapshotError::Damaged(at) => write!(f, "the snapshot is damaged at byte {at}"),
            SnapshotError::Book(error) => write!(f, "the books of the snapshot: {error:?}"),
            SnapshotError::Digest => f.write_str("the snapshot's digest is not that of its bytes"),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// Appends words to a buffer.
pub(crate) struct Writer<'a> {
    pub(crate) bytes: &'a mut Vec<u8>,
}

impl Writer<'_> {
    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.u64(value as u64);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Its length first.
    pub(crate) fn section(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        self.u64(0);
        fill(self.bytes);
        assert!(self.bytes.len() >= at + 8, "a section only appends");
        let length = (self.bytes.len() - at - 8) as u64;
        self.bytes[at..at + 8].copy_from_slice(&length.to_le_bytes());
    }
}

/// Takes words from a slice.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    pub(crate) fn damaged(&self) -> SnapshotError {
        SnapshotError::Damaged(self.at)
    }

    pub(crate) fn raw(&mut self, length: usize) -> Result<&'a [u8], SnapshotError> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let taken = rest.get(..length).ok_or(self.damaged())?;
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, SnapshotError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn bool(&mut self) -> Result<bool, SnapshotError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damaged()),
        }
    }

    pub(crate) fn u32(&mut self) -> Result<u32, SnapshotError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, SnapshotError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A count that is at most `most`.
    pub(crate) fn count(&mut self, most: usize) -> Result<usize, SnapshotError> {
        let count = self.u64()?;
        usize::try_from(count).ok().filter(|&count| count <= most).ok_or(self.damaged())
    }

    pub(crate) fn section(&mut self) -> Result<&'a [u8], SnapshotError> {
        let length = self.count(self.bytes.len())?;
        self.raw(length)
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        self.at = self.bytes.len();
        rest
    }

    /// Nothing may be left.
    pub(crate) fn end(&self) -> Result<(), SnapshotError> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.damaged()) }
    }
}

/// Digest of bytes, eight at a time, the length last.
pub fn digest_of(bytes: &[u8]) -> u64 {
    let mut digest = types::Digest::default();
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        digest.fold(u64::from_le_bytes(word));
    }
    digest.fold(bytes.len() as u64);
    digest.0
}
