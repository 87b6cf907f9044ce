//! One writer, any number of readers in other processes: a ring of records in a mapped file.
//!
//! The writer never waits and never learns of its readers. A reader that is too slow is told how many
//! records it has lost and goes on with one that is still there. Each record stands behind its number,
//! which is odd while it is being written, so that a reader never takes half of one.
//!
//! File, in little-endian words: magic and layout, number of slots, epoch of the writer, closed; then
//! from word 16 the number of records written and when the writer last said that it lives; then from
//! word 32 the slots. A file is made under another name first, so that whoever opens it finds it whole.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use types::Nanos;

use crate::mapped::Mapped;

/// Words of a record.
pub const RECORD_WORDS: usize = 15;
/// A record.
pub type Record = [u64; RECORD_WORDS];

/// Words of a slot: its number and a record.
const SLOT: usize = RECORD_WORDS + 1;
/// Says what the file is, and that slots are of 16 words.
const MAGIC: u64 = 0x4642_5249_4E47_0110;
const SLOTS: usize = 1;
const EPOCH: usize = 2;
const CLOSED: usize = 3;
const WRITTEN: usize = 16;
const ALIVE: usize = 17;
const HEADER: usize = 32;
/// Slots of the largest ring: 2 GiB.
const SLOTS_MAX: u64 = 1 << 24;

const _: () = assert!(MAGIC & 0xFF == SLOT as u64, "the layout that the magic names");
const _: () = assert!(CLOSED < WRITTEN && ALIVE < HEADER, "words of the header are apart");
const _: () = assert!(SLOT.is_power_of_two() && HEADER.is_multiple_of(SLOT));

/// The end that writes.
#[derive(Debug)]
pub struct RingWriter {
    mapped: Mapped,
    slots: u64,
    written: u64,
}

impl RingWriter {
    /// Makes the file with room for at least `records`, in place of one that is there. `epoch` tells
    /// this writer from earlier ones; the time it starts will do.
    ///
    /// # Errors
    /// More than 2^24 records, and what the file system says.
    pub fn create(path: &Path, records: u64, epoch: u64) -> io::Result<RingWriter> {
        let slots = records.max(2).checked_next_power_of_two();
        let slots = slots.filter(|&slots| slots <= SLOTS_MAX);
        let slots = slots.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let words = HEADER + slots as usize * SLOT;
        let making = path.with_extension("making");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o644);
        let file = options.open(&making)?;
        file.set_len(words as u64 * 8)?;
        let mapped = Mapped::new(&file, words, true)?;
        for (at, value) in [(SLOTS, slots), (EPOCH, epoch), (0, MAGIC)] {
            mapped.words()[at].store(value, Ordering::Release);
        }
        std::fs::rename(&making, path)?;
        assert!(slots.is_power_of_two() && mapped.words().len() == words, "a place per record");
        Ok(RingWriter { mapped, slots, written: 0 })
    }

    /// Appends a record.
    #[inline]
    pub fn push(&mut self, record: &Record) {
        let words = self.mapped.words();
        let at = HEADER + (self.written & (self.slots - 1)) as usize * SLOT;
        let (Some([number, slot @ ..]), Some(written)) =
            (words.get(at..at + SLOT), words.get(WRITTEN))
        else {
            unreachable!("the file has all slots");
        };
        number.store(2 * self.written + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (place, value) in slot.iter().zip(record) {
            place.store(*value, Ordering::Relaxed);
        }
        number.store(2 * self.written + 2, Ordering::Release);
        self.written += 1;
        written.store(self.written, Ordering::Release);
    }

    /// Says that the writer lives.
    pub fn alive(&self, now: Nanos) {
        self.mapped.words()[ALIVE].store(now.0, Ordering::Relaxed);
    }

    /// Records written.
    pub fn written(&self) -> u64 {
        self.written
    }
}

impl Drop for RingWriter {
    fn drop(&mut self) {
        self.mapped.words()[CLOSED].store(1, Ordering::Release);
    }
}

/// What a reader finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// The next record.
    Record(Record),
    /// Nothing new.
    Nothing,
    /// This many records were overwritten before they were read.
    Lost(u64),
    /// Nothing new, and there will not be: the writer has ended.
    Closed,
}

/// An end that reads.
#[derive(Debug)]
pub struct RingReader {
    mapped: Mapped,
    slots: u64,
    /// Number of the next record.
    next: u64,
    epoch: u64,
}

impl RingReader {
    /// Opens a ring; the next record is the next one to be written.
    ///
    /// # Errors
    /// A file that is no ring, and what the file system says.
    pub fn open(path: &Path) -> io::Result<RingReader> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
        let file = OpenOptions::new().read(true).open(path)?;
        let header = Mapped::new(&file, HEADER, false)?;
        let [magic, slots, epoch] =
            [0, SLOTS, EPOCH].map(|at| header.words()[at].load(Ordering::Acquire));
        if magic != MAGIC || !slots.is_power_of_two() || !(2..=SLOTS_MAX).contains(&slots) {
            return Err(invalid("not a ring of records"));
        }
        let mapped = Mapped::new(&file, HEADER + slots as usize * SLOT, false)?;
        let next = mapped.words()[WRITTEN].load(Ordering::Acquire);
        Ok(RingReader { mapped, slots, next, epoch })
    }

    /// The epoch of the writer; another one means that the file has been made anew.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// When the writer last said that it lives.
    pub fn alive(&self) -> Nanos {
        Nanos(self.mapped.words()[ALIVE].load(Ordering::Relaxed))
    }

    /// The next record.
    #[inline]
    pub fn read(&mut self) -> Read {
        let words = self.mapped.words();
        let at = HEADER + (self.next & (self.slots - 1)) as usize * SLOT;
        let Some([number, slot @ ..]) = words.get(at..at + SLOT) else { return Read::Nothing };
        let complete = 2 * self.next + 2;
        let before = number.load(Ordering::Acquire);
        if before < complete {
            return self.nothing(words);
        }
        let mut record = [0; RECORD_WORDS];
        for (value, place) in record.iter_mut().zip(slot) {
            *value = place.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        if before == complete && number.load(Ordering::Relaxed) == complete {
            self.next += 1;
            return Read::Record(record);
        }
        // Overrun: on in the middle of the ring, where there is time to catch up.
        let written = words.get(WRITTEN).map_or(0, |written| written.load(Ordering::Acquire));
        let to = written.saturating_sub(self.slots / 2).max(self.next + 1);
        let lost = to - self.next;
        self.next = to;
        Read::Lost(lost)
    }

    fn nothing(&self, words: &[AtomicU64]) -> Read {
        let is = |at: usize, value| words.get(at).map(|w| w.load(Ordering::Acquire)) == Some(value);
        // Closed is stored last, so nothing can have come before it unseen.
        if is(CLOSED, 1) && is(WRITTEN, self.next) { Read::Closed } else { Read::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(std::path::PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            Place(std::env::temp_dir().join(format!("ring-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn record(number: u64) -> Record {
        std::array::from_fn(|at| number.wrapping_mul(31).wrapping_add(at as u64))
    }

    #[test]
    fn records_are_read_as_they_were_written_and_losses_are_told() {
        let place = Place::new("order");
        let mut writer = RingWriter::create(&place.0, 5, 9).unwrap();
        writer.push(&record(0));
        let mut reader = RingReader::open(&place.0).unwrap();
        assert_eq!((reader.epoch(), reader.read()), (9, Read::Nothing), "it begins with the next");
        for number in 1..=8 {
            writer.push(&record(number));
        }
        for number in 1..=8 {
            assert_eq!(reader.read(), Read::Record(record(number)));
        }
        for number in 9..=20 {
            writer.push(&record(number));
        }
        // Eight slots: 13 to 20 are there, and it goes on with 17.
        assert_eq!(reader.read(), Read::Lost(8));
        assert_eq!(reader.read(), Read::Record(record(17)));
        writer.alive(Nanos(77));
        assert_eq!((reader.alive(), writer.written()), (Nanos(77), 21));
        drop(writer);
        for number in 18..=20 {
            assert_eq!(reader.read(), Read::Record(record(number)));
        }
        assert_eq!(reader.read(), Read::Closed);
    }

    #[test]
    fn no_record_is_torn_while_another_thread_writes() {
        let place = Place::new("torn");
        let mut writer = RingWriter::create(&place.0, 64, 1).unwrap();
        let mut reader = RingReader::open(&place.0).unwrap();
        let total = 300_000_u64;
        let writing = std::thread::spawn(move || {
            for number in 0..total {
                writer.push(&record(number));
                if number % 512 == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let (mut read, mut lost) = (0, 0);
        loop {
            match reader.read() {
                Read::Record(got) => {
                    assert_eq!(got, record(read + lost), "after {read} read and {lost} lost");
                    read += 1;
                }
                Read::Lost(count) => lost += count,
                Read::Nothing => std::thread::yield_now(),
                Read::Closed => break,
            }
        }
        writing.join().unwrap();
        assert_eq!(read + lost, total);
        assert!(read > 0);
    }

    #[test]
    fn other_files_are_refused() {
        let place = Place::new("other");
        assert!(RingReader::open(&place.0).is_err(), "no file");
        for bytes in [vec![], vec![0; 4_096], vec![0xFF; 4_096]] {
            std::fs::write(&place.0, &bytes).unwrap();
            assert!(RingReader::open(&place.0).is_err());
        }
        // A header that promises more slots than there are.
        let mut bytes = vec![0; 4_096];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&(1_u64 << 20).to_le_bytes());
        std::fs::write(&place.0, &bytes).unwrap();
        assert!(RingReader::open(&place.0).is_err());
        assert!(RingWriter::create(&place.0, 1 << 30, 0).is_err(), "too large");
    }
}
