//! Whether a DBN file was cut off: its records as they pass by.
//!
//! Decoders of DBN take the end of a file in the middle of a record for its end. [`DbnFrames`] stands
//! between the unpacked bytes and the decoder and follows the format's frames: eight bytes with the
//! length of what describes the file, that, and records whose first byte is their length in words of
//! four bytes.

use std::io::{ErrorKind, Read};

/// Length of the head of a file: `DBN`, the version, and the length of what follows
/// (little-endian).
const HEAD: u64 = 8;

/// Where a file was cut off within a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DbnCut {
    /// Number of unpacked bytes that the file has.
    pub at: u64,
    /// Offset of the frame that is cut: a record, or 0 for the metadata.
    pub begins: u64,
    /// Number of whole records before it.
    pub records: u64,
}

impl std::fmt::Display for DbnCut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DbnCut { at, begins, records } = self;
        write!(f, "cut off at byte {at} (unpacked), ")?;
        match records {
            0 if *begins == 0 => f.write_str("in its metadata"),
            _ => write!(f, "behind {records} whole records: one begins at byte {begins}"),
        }
        .and_then(|()| f.write_str("; get the whole file again"))
    }
}

/// Passes unpacked bytes of DBN on and notes where they end.
#[derive(Debug)]
pub struct DbnFrames<R> {
    from: R,
    head: [u8; HEAD as usize],
    /// Number of bytes that have passed.
    at: u64,
    /// Offset of the frame that is passing.
    begins: u64,
    /// Offset of that frame's end; `None`: its length is not known yet.
    ends: Option<u64>,
    records: u64,
    /// Whether the bytes have ended, or the packed stream was cut.
    over: bool,
    torn: bool,
}

impl<R: Read> DbnFrames<R> {
    /// Over unpacked bytes from the file's beginning.
    pub fn new(from: R) -> DbnFrames<R> {
        let (head, ends) = ([0; HEAD as usize], None);
        let (at, begins, records, over, torn) = (0, 0, 0, false, false);
        DbnFrames { from, head, at, begins, ends, records, over, torn }
    }

    /// Where the file was cut, if its bytes have ended, and not between two records.
    pub fn cut(&self) -> Option<DbnCut> {
        let DbnFrames { at, begins, records, .. } = *self;
        let known = self.head.iter().zip(b"DBN").zip(0..at).all(|((here, due), _)| here == due);
        let inside = at > begins || self.torn;
        (self.over && known && inside).then_some(DbnCut { at, begins, records })
    }

    fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            let Some(ends) = self.ends else {
                // What describes the file has its length at its end, a record at its beginning.
                if self.begins == 0 {
                    if let Some(place) = self.head.get_mut(self.at as usize) {
                        *place = *first;
                    }
                    if self.at + 1 == HEAD {
                        let [.., a, b, c, d] = self.head;
                        let length = u64::from(u32::from_le_bytes([a, b, c, d]));
                        self.ends = Some(HEAD + length);
                    }
                } else {
                    // A record without a length is the decoder's to refuse.
                    self.ends = Some(self.begins + u64::from(*first).max(1) * 4);
                }
                (self.at, bytes) = (self.at + 1, rest);
                self.close();
                continue;
            };
            let here = (bytes.len() as u64).min(ends - self.at);
            self.at += here;
            bytes = bytes.get(here as usize..).unwrap_or(&[]);
            self.close();
        }
    }

    fn close(&mut self) {
        if self.ends == Some(self.at) {
            self.records += u64::from(self.begins > 0);
            (self.begins, self.ends) = (self.at, None);
        }
    }
}

impl<R: Read> Read for DbnFrames<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self.from.read(into) {
            Ok(0) => {
                self.over |= !into.is_empty();
                Ok(0)
            }
            Ok(count) => {
                self.pass(into.get(..count).unwrap_or(&[]));
                Ok(count)
            }
            Err(error) => {
                self.torn |= error.kind() == ErrorKind::UnexpectedEof;
                self.over |= self.torn;
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_is_between_records_or_said_so_however_the_bytes_come() {
        let mut file = b"DBN\x03\x05\0\0\0abcde".to_vec();
        let mut borders = vec![file.len()];
        for words in [4_u8, 20, 14, 1, 255] {
            file.push(words);
            file.extend(vec![7; usize::from(words) * 4 - 1]);
            borders.push(file.len());
        }
        for (end, step) in (0..=file.len()).flat_map(|end| [(end, 1), (end, 7), (end, 4096)]) {
            let mut frames = DbnFrames::new(&file[..end]);
            let mut some = vec![0; step];
            while frames.read(&mut some).expect("memory") > 0 {
                assert_eq!(frames.cut(), None, "not over yet");
            }
            let whole = borders.iter().filter(|border| **border <= end).count();
            let due = (end > 0 && !borders.contains(&end)).then(|| DbnCut {
                at: end as u64,
                begins: whole.checked_sub(1).map_or(0, |last| borders[last] as u64),
                records: whole.saturating_sub(1) as u64,
            });
            assert_eq!(frames.cut(), due, "{end} in steps of {step}");
        }
        let said = DbnCut { at: 20, begins: 13, records: 0 }.to_string();
        assert!(said.contains("byte 20") && said.contains("0 whole") && said.contains("byte 13"));
        assert!(DbnCut { at: 9, begins: 0, records: 0 }.to_string().contains("metadata"));
    }
}
