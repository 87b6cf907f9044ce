//! A ring of packets in a mapped file: one process writes them, any number of others read them.
//!
//! As [`crate::ring`], for packets of any length up to [`PACKET_MAX`]. The writer never waits and never
//! learns of its readers, who map the file for reading only. A reader that is too slow is told how many
//! packets it has lost. Each packet stands behind its number, which is odd while it is being written, so
//! that nobody takes half of one. Whatever stands in the file, a reader's call ends at once and gives
//! no more than a slot holds.
//!
//! File, in little-endian words: magic and layout, slots, generation of the writer, closed; from word 16
//! the number of packets written; from word 32 the slots, each the packet's number, its length in bytes
//! and its bytes. A writer makes its file under another name first and then takes the place of an
//! earlier one: a reader finds out by [`PacketRingReader::follow`]. The file goes with its writer.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::fs::{FallocateFlags, fallocate};
use types::limits::DATAGRAM_MAX;

use crate::mapped::Mapped;

/// Bytes of the longest packet.
pub const PACKET_MAX: usize = DATAGRAM_MAX;

/// Words of a slot: number, length, packet.
const SLOT: usize = 2 + PACKET_MAX.div_ceil(8);
/// Says what the file is; the low 16 bits are the words of a slot.
const MAGIC: u64 = 0x4642_504B_5452_0000 | SLOT as u64;
const SLOTS: usize = 1;
const GENERATION: usize = 2;
const CLOSED: usize = 3;
const WRITTEN: usize = 16;
const HEADER: usize = 32;
/// Words of a page.
const PAGE: usize = 512;
/// Slots of the largest ring: 744 MiB.
const SLOTS_MAX: u64 = 1 << 19;
/// Who else than its owner may write a ring may make it shorter under its readers.
const OTHERS_MAY_WRITE: u32 = 0o022;

const _: () = assert!(SLOT < 1 << 16 && CLOSED < WRITTEN && WRITTEN < HEADER);

/// The end that writes.
#[derive(Debug)]
pub struct PacketRingWriter {
    path: PathBuf,
    /// Device and number of the file.
    file: (u64, u64),
    mapped: Mapped,
    slots: u64,
    written: u64,
}

impl PacketRingWriter {
    /// Makes the file with room for at least `packets`, mode 0640, in place of one that is there.
    /// `generation` tells this writer from all others; `group`: the number of the group that may read,
    /// the process's own without it.
    ///
    /// # Errors
    /// More than 2^19 packets; no room; what else the file system says.
    pub fn create(
        path: &Path,
        packets: u64,
        generation: u64,
        group: Option<u32>,
    ) -> io::Result<PacketRingWriter> {
        let slots = packets.max(2).checked_next_power_of_two();
        let slots = slots.filter(|&slots| slots <= SLOTS_MAX);
        let slots = slots.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let words = HEADER + slots as usize * SLOT;
        let making = path.with_extension("making");
        // What a process that ended meanwhile has left; anybody else's file or link stays and is refused.
        let _ = std::fs::remove_file(&making);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&making)?;
        let made = fill(&file, (words, slots, generation), group).and_then(|mapped| {
            std::fs::rename(&making, path)?;
            Ok((mapped, identity(&file.metadata()?)))
        });
        let (mapped, file) = made.inspect_err(|_| drop(std::fs::remove_file(&making)))?;
        assert!(slots.is_power_of_two() && mapped.words().len() == words, "a place per packet");
        Ok(PacketRingWriter { path: path.to_path_buf(), file, mapped, slots, written: 0 })
    }

    /// Appends a packet; false, and nothing is done, for one longer than [`PACKET_MAX`].
    #[inline]
    pub fn push(&mut self, packet: &[u8]) -> bool {
        if packet.len() > PACKET_MAX {
            return false;
        }
        let words = self.mapped.words();
        let at = HEADER + (self.written & (self.slots - 1)) as usize * SLOT;
        let (Some([number, length, slot @ ..]), Some(written)) =
            (words.get(at..at + SLOT), words.get(WRITTEN))
        else {
            unreachable!("the file has all slots");
        };
        number.store(2 * self.written + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        length.store(packet.len() as u64, Ordering::Relaxed);
        for (place, bytes) in slot.iter().zip(packet.chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            place.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        number.store(2 * self.written + 2, Ordering::Release);
        self.written += 1;
        written.store(self.written, Ordering::Release);
        true
    }

    /// Packets written.
    pub fn written(&self) -> u64 {
        self.written
    }
}

impl Drop for PacketRingWriter {
    fn drop(&mut self) {
        self.mapped.words()[CLOSED].store(1, Ordering::Release);
        // Those who read it still have it. Another writer's stays.
        if std::fs::metadata(&self.path).is_ok_and(|of| identity(&of) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and number of a file: what tells it from another of the same name.
fn identity(of: &Metadata) -> (u64, u64) {
    (of.dev(), of.ino())
}

/// Gives a new file its room, header and readers.
fn fill(
    file: &File,
    (words, slots, generation): (usize, u64, u64),
    group: Option<u32>,
) -> io::Result<Mapped> {
    // All of it now: a page that is not to be had later would end the process.
    fallocate(file, FallocateFlags::empty(), 0, words as u64 * 8)?;
    if group.is_some() {
        fchown(file, None, group)?;
    }
    // Whatever the process's mask is.
    file.set_permissions(Permissions::from_mode(0o640))?;
    let mapped = Mapped::new(file, words, true)?;
    // A page that is first touched when a packet comes costs more than the packet.
    mapped.words().iter().step_by(PAGE).for_each(|word| word.store(0, Ordering::Relaxed));
    for (at, value) in [(SLOTS, slots), (GENERATION, generation), (0, MAGIC)] {
        mapped.words()[at].store(value, Ordering::Release);
    }
    Ok(mapped)
}

/// What a reader finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketRead {
    /// The next packet, of so many bytes.
    Packet(usize),
    /// Nothing new.
    Nothing,
    /// This many packets were overwritten before they were read, or are none.
    Lost(u64),
    /// Nothing new, and there will not be: the writer has ended.
    Closed,
}

/// An end that reads.
#[derive(Debug)]
pub struct PacketRingReader {
    path: PathBuf,
    /// Device and number of the file.
    file: (u64, u64),
    mapped: Mapped,
    slots: u64,
    /// Number of the next packet.
    next: u64,
    generation: u64,
}

impl PacketRingReader {
    /// Opens a ring; the next packet is the oldest one in its newer half, because the older half may be
    /// overwritten in a moment.
    ///
    /// # Errors
    /// A file that is no ring or that others than its owner may write; what the file system says.
    pub fn open(path: &Path) -> io::Result<PacketRingReader> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
        let file = OpenOptions::new().read(true).open(path)?;
        let of = file.metadata()?;
        if !of.is_file() {
            return Err(invalid("not a file"));
        }
        if of.mode() & OTHERS_MAY_WRITE != 0 {
            return Err(invalid("others than its owner may write it"));
        }
        let header = Mapped::new(&file, HEADER, false)?;
        let [magic, slots, generation] =
            [0, SLOTS, GENERATION].map(|at| header.words()[at].load(Ordering::Acquire));
        if magic != MAGIC || !slots.is_power_of_two() || !(2..=SLOTS_MAX).contains(&slots) {
            return Err(invalid("not a ring of packets"));
        }
        let mapped = Mapped::new(&file, HEADER + slots as usize * SLOT, false)?;
        let written = mapped.words()[WRITTEN].load(Ordering::Acquire);
        let touched = mapped.words().iter().step_by(PAGE).map(|word| word.load(Ordering::Relaxed));
        std::hint::black_box(touched.fold(0, u64::wrapping_add));
        let next = written.saturating_sub(slots / 2);
        let file = identity(&of);
        Ok(PacketRingReader { path: path.to_path_buf(), file, mapped, slots, next, generation })
    }

    /// The writer's; see [`PacketRingWriter::create`].
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Reads the next packet into `into`.
    #[inline]
    pub fn read(&mut self, into: &mut [u8; PACKET_MAX]) -> PacketRead {
        let words = self.mapped.words();
        let at = HEADER + (self.next & (self.slots - 1)) as usize * SLOT;
        let Some([number, length, slot @ ..]) = words.get(at..at + SLOT) else {
            return PacketRead::Nothing;
        };
        let complete = self.next.wrapping_mul(2).wrapping_add(2);
        let before = number.load(Ordering::Acquire);
        if before < complete {
            return self.nothing(words);
        }
        let len = usize::try_from(length.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        if let Some(bytes) = into.get_mut(..len) {
            for (bytes, place) in bytes.chunks_mut(8).zip(slot) {
                let word = place.load(Ordering::Relaxed).to_le_bytes();
                bytes.copy_from_slice(&word[..bytes.len()]);
            }
        }
        fence(Ordering::Acquire);
        if before != complete || number.load(Ordering::Relaxed) != complete {
            return self.overrun();
        }
        self.next = self.next.wrapping_add(1);
        // No writer of ours has written one that is longer.
        if len <= PACKET_MAX { PacketRead::Packet(len) } else { PacketRead::Lost(1) }
    }

    /// On in the middle of the ring, where there is time to catch up.
    fn overrun(&mut self) -> PacketRead {
        let words = self.mapped.words();
        let written = words.get(WRITTEN).map_or(0, |written| written.load(Ordering::Acquire));
        let to = written.saturating_sub(self.slots / 2).max(self.next.saturating_add(1));
        let lost = to - self.next;
        self.next = to;
        PacketRead::Lost(lost)
    }

    fn nothing(&self, words: &[AtomicU64]) -> PacketRead {
        let is = |at: usize, value| words.get(at).map(|w| w.load(Ordering::Acquire)) == Some(value);
        // Closed is stored last, so nothing can have come before it unseen.
        let over = is(CLOSED, 1) && is(WRITTEN, self.next);
        if over { PacketRead::Closed } else { PacketRead::Nothing }
    }

    /// Goes over to the ring that has the name now, if that is another one; says whether it is. What was
    /// not read of the earlier one is left.
    ///
    /// # Errors
    /// As [`PacketRingReader::open`]; the earlier ring stays then.
    pub fn follow(&mut self) -> io::Result<bool> {
        let of = std::fs::metadata(&self.path)?;
        if identity(&of) == self.file {
            return Ok(false);
        }
        *self = PacketRingReader::open(&self.path)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let own = format!("packet-ring-{name}-{}", std::process::id());
            Place(std::env::temp_dir().join(own))
        }

        fn writer(&self, packets: u64, generation: u64) -> PacketRingWriter {
            PacketRingWriter::create(&self.0, packets, generation, None).expect("a ring")
        }

        fn reader(&self) -> PacketRingReader {
            PacketRingReader::open(&self.0).expect("a ring")
        }

        /// A file that only its owner may write.
        fn write(&self, bytes: &[u8]) {
            let _ = std::fs::remove_file(&self.0);
            std::fs::write(&self.0, bytes).expect("written");
            std::fs::set_permissions(&self.0, Permissions::from_mode(0o640)).expect("set");
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// A packet whose length and bytes follow from its number.
    fn packet(number: u64) -> Vec<u8> {
        let len = (number.wrapping_mul(7_919) % (PACKET_MAX as u64 + 1)) as usize;
        (0..len).map(|at| (number.wrapping_mul(31) as usize + at) as u8).collect()
    }

    fn read(reader: &mut PacketRingReader) -> Result<Vec<u8>, PacketRead> {
        let mut into = [0; PACKET_MAX];
        match reader.read(&mut into) {
            PacketRead::Packet(len) => Ok(into[..len].to_vec()),
            other => Err(other),
        }
    }

    #[test]
    fn packets_of_any_length_are_read_as_they_were_written_and_losses_are_told() {
        let place = Place::new("order");
        let mut writer = place.writer(5, 9);
        let mut reader = place.reader();
        assert_eq!((reader.generation(), read(&mut reader)), (9, Err(PacketRead::Nothing)));
        for bytes in [vec![], vec![1], vec![2; 8], vec![3; 9], vec![4; PACKET_MAX]] {
            assert!(writer.push(&bytes));
            assert_eq!(read(&mut reader), Ok(bytes));
        }
        assert!(!writer.push(&[0; PACKET_MAX + 1]) && writer.written() == 5);
        assert_eq!(read(&mut reader), Err(PacketRead::Nothing));
        (5..20).for_each(|number| assert!(writer.push(&packet(number))));
        // Eight slots: 12 to 19 are there, and it goes on with 16, as does whoever comes now.
        assert_eq!(read(&mut reader), Err(PacketRead::Lost(11)));
        let mut late = place.reader();
        for number in 16..20 {
            assert_eq!(read(&mut reader), Ok(packet(number)));
            assert_eq!(read(&mut late), Ok(packet(number)));
        }
        drop(writer);
        assert_eq!(read(&mut reader), Err(PacketRead::Closed));
    }

    #[test]
    fn no_packet_is_torn_while_another_thread_writes() {
        let place = Place::new("torn");
        let mut writer = place.writer(64, 1);
        let mut reader = place.reader();
        let total = 200_000_u64;
        let writing = std::thread::spawn(move || {
            for number in 0..total {
                writer.push(&packet(number));
                if number % 64 == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let (mut taken, mut lost) = (0, 0);
        loop {
            match read(&mut reader) {
                Ok(bytes) => {
                    assert_eq!(bytes, packet(taken + lost), "after {taken} and {lost} lost");
                    taken += 1;
                }
                Err(PacketRead::Lost(count)) => lost += count,
                Err(PacketRead::Closed) => break,
                Err(_) => std::thread::yield_now(),
            }
        }
        writing.join().expect("no panic");
        assert!(taken + lost == total && taken > 0, "{taken} + {lost}");
    }

    #[test]
    fn a_ring_made_anew_is_followed_and_one_that_is_not_is_not() {
        let place = Place::new("anew");
        let mut writer = place.writer(4, 1);
        let mut reader = place.reader();
        writer.push(b"first");
        // It was killed: nothing says that it has ended.
        std::mem::forget(writer);
        assert_eq!(read(&mut reader), Ok(b"first".to_vec()));
        assert_eq!((reader.follow().expect("there"), reader.generation()), (false, 1));
        let mut writer = place.writer(4, 2);
        writer.push(b"second");
        assert_eq!(read(&mut reader), Err(PacketRead::Nothing), "control: the old one is silent");
        assert_eq!((reader.follow().expect("there"), reader.generation()), (true, 2));
        assert_eq!(read(&mut reader), Ok(b"second".to_vec()));
        // What is no ring takes nobody away from one.
        place.write(&[7; 64]);
        assert!(reader.follow().is_err());
        writer.push(b"third");
        assert_eq!(read(&mut reader), Ok(b"third".to_vec()));
    }

    #[test]
    fn readers_can_only_read_and_strangers_not_even_that() {
        let place = Place::new("rights");
        let _writer = place.writer(4, 1);
        let of = std::fs::metadata(&place.0).expect("there");
        assert_eq!(of.mode() & 0o7777, 0o640);
        let reader = place.reader();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
        let name = place.0.file_name().expect("a name").to_str().expect("ASCII");
        let rights: Vec<&str> = (maps.lines().filter(|line| line.ends_with(name)))
            .filter_map(|line| line.split(' ').nth(1))
            .collect();
        assert_eq!(rights.iter().filter(|of| **of == "r--s").count(), 1, "{rights:?}");
        assert_eq!(rights.iter().filter(|of| **of == "rw-s").count(), 1, "{rights:?}");
        drop(reader);
        std::fs::set_permissions(&place.0, Permissions::from_mode(0o660)).expect("set");
        let why = PacketRingReader::open(&place.0).expect_err("its group may write").to_string();
        assert!(why.contains("others than its owner"), "{why}");
    }

    #[test]
    fn other_files_are_refused_and_nothing_is_left_of_a_ring_that_could_not_be_made() {
        let place = Place::new("other");
        assert!(PacketRingReader::open(&place.0).is_err(), "no file");
        assert!(PacketRingReader::open(&std::env::temp_dir()).is_err(), "a folder");
        for bytes in [vec![], vec![0; 4_096], vec![0xFF; 4_096]] {
            place.write(&bytes);
            assert!(PacketRingReader::open(&place.0).is_err());
        }
        // A header that promises more slots than there are.
        let mut bytes = vec![0; 4_096];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&16_u64.to_le_bytes());
        place.write(&bytes);
        assert!(PacketRingReader::open(&place.0).is_err());
        assert!(PacketRingWriter::create(&place.0, 1 << 30, 0, None).is_err(), "too large");
        let nowhere = place.0.join("below-a-file");
        assert!(PacketRingWriter::create(&nowhere, 4, 0, None).is_err());
        // A folder stands where the ring would: what was begun goes.
        let folder = std::env::temp_dir().join(format!("packet-ring-dir-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("ring/full")).expect("made");
        assert!(PacketRingWriter::create(&folder.join("ring"), 4, 0, None).is_err());
        assert!(!folder.join("ring.making").exists());
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whatever stands in the file, and whatever changes in it: calls end, packets fit, and what
        /// is lost is counted upwards.
        #[test]
        fn a_hostile_ring_is_read_without_harm(
            words in vec(prop_oneof![any::<u64>(), 0u64..20, Just(u64::MAX), Just(1 << 63)], 0..400),
            places in vec((0usize..HEADER + 4 * SLOT, any::<u64>()), 0..60),
            cut in 0usize..(HEADER + 4 * SLOT) * 8, sound in any::<bool>(),
        ) {
            let place = Place::new(&format!("hostile-{:?}", std::thread::current().id()));
            let mut all = vec![0_u64; HEADER + 4 * SLOT];
            for (at, word) in words.iter().enumerate() {
                // Most of them where numbers and lengths are.
                let slot = HEADER + at % 4 * SLOT + at / 4 % SLOT;
                all[if at % 50 == 0 { at / 50 } else { slot }] = *word;
            }
            if sound {
                [all[0], all[SLOTS]] = [MAGIC, 4];
            }
            let mut bytes: Vec<u8> = all.iter().flat_map(|word| word.to_le_bytes()).collect();
            if !sound {
                bytes.truncate(cut);
            }
            place.write(&bytes);
            let opened = PacketRingReader::open(&place.0);
            prop_assert!(!sound || opened.is_ok(), "{opened:?}");
            let Ok(mut reader) = opened else { return Ok(()) };
            let file = OpenOptions::new().read(true).write(true).open(&place.0).expect("ours");
            let hostile = Mapped::new(&file, all.len(), true).expect("mapped");
            let mut into = [0; PACKET_MAX];
            for (at, word) in places {
                let before = reader.next;
                match reader.read(&mut into) {
                    PacketRead::Packet(len) => prop_assert!(len <= PACKET_MAX),
                    PacketRead::Lost(count) => prop_assert!(count >= 1 || before == u64::MAX),
                    PacketRead::Nothing | PacketRead::Closed => {
                        prop_assert_eq!(before, reader.next);
                    }
                }
                if at > SLOTS {
                    hostile.words()[at].store(word, Ordering::Relaxed);
                }
            }
        }
    }
}
