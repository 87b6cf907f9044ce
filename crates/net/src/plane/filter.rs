//! A filter of duplicates in front of the stack: an XDP program that lets each datagram pass once.
//!
//! It looks at three clear numbers at fixed places of a datagram, [`DuplicateKey`]: which stream (only one is
//! filtered), which epoch of its sender, and the datagram's number in it, from 1. A table of [`WINDOW`] words has
//! for each number, taken modulo, the last (epoch, number) seen; what is found there is a duplicate. Words are
//! exchanged atomically, so that two cores with copies of one datagram let one pass. The table is not ordered:
//! a restarted sender is told by its epoch and begins anew, and a late original passes.
//!
//! What is promised: no first copy is dropped, ever, as long as nobody forges and numbers of one epoch are less
//! than 2^32 apart. A duplicate is dropped if its first copy is among the last [`WINDOW`] numbers of its stream
//! and no other epoch has had its place since; of a copy that loses a race three times, both pass. Behind the
//! filter the node has its own, which is exact.
//!
//! The three numbers are not authentic before the datagram has been opened: whoever can send to the port could
//! have numbers dropped that are still to come. So there are two ways ([`Learning`]): the program learns from
//! what passes, where everybody who can send is trusted; or it only drops what the node itself has opened and
//! told it ([`DuplicateFilter::confirm`]), which no forgery can abuse, because that one is there already.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use super::asm::{Alu, Assembler, If, Insn, Reg, Width};
use super::bpf::{self, Place};
use super::memory::Memory;
use super::ways::{LinkLayer, Ways};
use super::xdp::{self, DATAGRAM, DROP, PASS, in_memory};
use super::{PlaneError, PlaneKind};

/// Numbers of a stream that are remembered.
pub const WINDOW: u64 = 1 << 16;
/// Times that a word is tried to be exchanged.
const TRIES: usize = 3;
const UDP_HEADER: i16 = 8;

/// Byte offsets of the counters, eight bytes each, and of the first word.
const FIRST: i16 = 0;
const DUPLICATE: i16 = 8;
const LATE: i16 = 16;
const CONTENDED: i16 = 24;
const OTHER: i16 = 32;
const WORDS: usize = 64;
const BYTES: usize = WORDS + WINDOW as usize * 8;

/// Where in a datagram its names are; all little-endian, as nodes write them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DuplicateKey {
    /// Its first byte.
    pub version: u8,
    /// Offset of the stream, two bytes, and the one that is filtered.
    pub stream: (u8, u16),
    /// Offset of the epoch, four bytes.
    pub epoch: u8,
    /// Offset of the number, eight bytes.
    pub number: u8,
}

impl DuplicateKey {
    /// Bytes up to the end of the last of them.
    fn reach(&self) -> i32 {
        i32::from((self.stream.0 + 2).max(self.epoch + 4).max(self.number + 8).max(1))
    }
}

/// How the filter comes to know what has been there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Learning {
    /// From what passes: everybody who can send to the port is trusted.
    Passing,
    /// From the node alone.
    Confirmed,
}

/// What the program did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DuplicateFigures {
    /// Datagrams that were seen for the first time.
    pub first: u64,
    /// Duplicates that were dropped.
    pub duplicates: u64,
    /// Datagrams behind the window: passed, whatever they are.
    pub late: u64,
    /// Passed because other cores changed their word each time.
    pub contended: u64,
    /// Datagrams of the port that are none of the stream: passed.
    pub other: u64,
}

/// A filter on one interface, for one port.
pub struct DuplicateFilter {
    table: Memory,
    program: OwnedFd,
    /// Holds the program there.
    link: Option<OwnedFd>,
    generic: bool,
}

impl DuplicateFilter {
    /// A program that is attached nowhere: for tests, which give it frames by [`DuplicateFilter::verdict`].
    ///
    /// # Errors
    /// Why there is none.
    pub fn detached(
        port: u16,
        key: DuplicateKey,
        learning: Learning,
    ) -> Result<DuplicateFilter, PlaneError> {
        DuplicateFilter::load(LinkLayer::Ethernet, port, key, learning, Place::XdpGeneric)
    }

    fn load(
        link: LinkLayer,
        port: u16,
        key: DuplicateKey,
        learning: Learning,
        place: Place,
    ) -> Result<DuplicateFilter, PlaneError> {
        let kind = PlaneKind::TcClone;
        PlaneError::check_kernel(kind, (5, 12))?;
        let failed = |step| move |error| PlaneError::new(kind, step, &error);
        let map = bpf::map(BYTES as u32).map_err(failed("making a map"))?;
        let table = Memory::of(&map, BYTES, 0).map_err(failed("mapping a map"))?;
        let program = program(link, port, key, learning, map.as_raw_fd());
        let program = bpf::load("fairbell_dedup", place, &program);
        let program = program.map_err(failed("loading the filter of duplicates"))?;
        Ok(DuplicateFilter { table, program, link: None, generic: place == Place::XdpGeneric })
    }

    /// A filter for datagrams to `port` that come in on an interface: in its driver, or behind it where that
    /// has no place for programs.
    ///
    /// # Errors
    /// Why there is none: a right, the kernel, another owner.
    pub fn attach(
        interface: u32,
        port: u16,
        key: DuplicateKey,
        learning: Learning,
    ) -> Result<DuplicateFilter, PlaneError> {
        let failed = |step| move |error| PlaneError::new(PlaneKind::TcClone, step, &error);
        let step = "asking for the interface";
        let mut ways = Ways::open().map_err(failed(step))?;
        let link = ways.interface(interface).map_err(failed(step))?.link;
        let mut refused = None;
        for place in [Place::XdpDriver, Place::XdpGeneric] {
            let mut filter = DuplicateFilter::load(link, port, key, learning, place)?;
            match bpf::attach(&filter.program, interface, place) {
                Ok(link) => {
                    filter.link = Some(link);
                    return Ok(filter);
                }
                Err(error) => {
                    let busy = error.raw_os_error() == Some(libc::EBUSY);
                    refused = Some(failed("attaching the filter of duplicates")(error));
                    if busy {
                        break;
                    }
                }
            }
        }
        let none = || failed("attaching")(io::ErrorKind::Unsupported.into());
        Err(refused.unwrap_or_else(none))
    }

    /// Whether it is behind the driver and not in it.
    pub fn is_generic(&self) -> bool {
        self.generic
    }

    /// The node has opened a datagram: further copies of it are dropped.
    pub fn confirm(&self, epoch: u32, number: u64) {
        let word = word_of(epoch, number);
        self.table.words()[WORDS / 8 + (number % WINDOW) as usize].store(word, Relaxed);
    }

    /// What it did so far.
    pub fn figures(&self) -> DuplicateFigures {
        let at = |offset: i16| self.table.words()[offset as usize / 8].load(Relaxed);
        DuplicateFigures {
            first: at(FIRST),
            duplicates: at(DUPLICATE),
            late: at(LATE),
            contended: at(CONTENDED),
            other: at(OTHER),
        }
    }

    /// Whether the program would let a frame pass, which it then counts as seen; any thread may ask.
    ///
    /// # Errors
    /// The kernel's.
    pub fn verdict(&self, frame: &[u8]) -> io::Result<bool> {
        bpf::test_run(&self.program, frame).map(|verdict| verdict == PASS as u32)
    }
}

/// What a word has of a datagram's names.
fn word_of(epoch: u32, number: u64) -> u64 {
    u64::from(epoch) << 32 | number & 0xFFFF_FFFF
}

/// The filter as arithmetic, of one core: what [`Learning::Passing`] promises, to be compared with.
#[derive(Clone, Debug)]
pub struct DuplicateModel {
    words: Vec<u64>,
}

impl Default for DuplicateModel {
    fn default() -> Self {
        DuplicateModel { words: vec![0; WINDOW as usize] }
    }
}

impl DuplicateModel {
    /// Whether a datagram passes.
    pub fn passes(&mut self, epoch: u32, number: u64) -> bool {
        if number == 0 {
            return true;
        }
        let (word, seen) = (word_of(epoch, number), &mut self.words[(number % WINDOW) as usize]);
        if *seen == word {
            return false;
        }
        let behind = (*seen as u32).wrapping_sub(number as u32) as i32;
        if *seen >> 32 == u64::from(epoch) && *seen != 0 && behind > 0 {
            return true;
        }
        *seen = word;
        true
    }
}

/// Registers that hold what is compared.
const TABLE: Reg = 7;
const PLACE: Reg = 9;
const WORD: Reg = 4;

fn program(
    link: LinkLayer,
    port: u16,
    key: DuplicateKey,
    learning: Learning,
    table: i32,
) -> Vec<Insn> {
    let mut asm = Assembler::default();
    let (pass, other) = (asm.label(), asm.label());
    let (first, duplicate, late) = (asm.label(), asm.label(), asm.label());
    xdp::find_datagram(&mut asm, link, i32::from(UDP_HEADER) + key.reach(), pass);
    asm.load(Width::Two, 0, DATAGRAM, 2);
    asm.jump_if_number(0, If::Not, in_memory(port), pass);
    asm.map_value(TABLE, table);
    let at = |offset: u8| UDP_HEADER + i16::from(offset);
    asm.load(Width::One, 0, DATAGRAM, UDP_HEADER);
    asm.jump_if_number(0, If::Not, key.version.into(), other);
    asm.load(Width::Two, 0, DATAGRAM, at(key.stream.0));
    let stream = u16::from_ne_bytes(key.stream.1.to_le_bytes());
    asm.jump_if_number(0, If::Not, stream.into(), other);
    asm.load(Width::Eight, 2, DATAGRAM, at(key.number));
    asm.jump_if_number(2, If::Equal, 0, other);
    // Its place.
    asm.copy(PLACE, 2);
    asm.alu_with(Alu::And, PLACE, WINDOW as i32 - 1);
    asm.alu_with(Alu::ShiftLeft, PLACE, 3);
    asm.alu_with(Alu::Add, PLACE, WORDS as i32);
    asm.alu(Alu::Add, PLACE, TABLE);
    // Its word: the epoch, and the number's lower half.
    asm.load(Width::Four, WORD, DATAGRAM, at(key.epoch));
    asm.alu_with(Alu::ShiftLeft, WORD, 32);
    asm.alu_with(Alu::ShiftLeft, 2, 32);
    asm.alu_with(Alu::ShiftRight, 2, 32);
    asm.alu(Alu::Or, WORD, 2);
    asm.load(Width::Eight, 0, PLACE, 0);
    asm.jump_if(0, If::Equal, WORD, duplicate);
    if learning == Learning::Passing {
        for _ in 0..TRIES {
            let newer = asm.label();
            // Of the same epoch, and later: this one is behind the window.
            asm.jump_if_number(0, If::Equal, 0, newer);
            asm.copy(3, 0);
            asm.alu(Alu::Xor, 3, WORD);
            asm.alu_with(Alu::ShiftRight, 3, 32);
            asm.jump_if_number(3, If::Not, 0, newer);
            asm.copy(3, 0);
            asm.alu(Alu::Sub, 3, WORD);
            asm.alu_with(Alu::ShiftLeft, 3, 32);
            // Half of the numbers are ahead, half behind.
            asm.alu_with(Alu::ShiftRight, 3, 63);
            asm.jump_if_number(3, If::Equal, 0, late);
            asm.place(newer);
            asm.copy(5, 0);
            asm.compare_exchange(PLACE, 0, WORD);
            asm.jump_if(0, If::Equal, 5, first);
            asm.jump_if(0, If::Equal, WORD, duplicate);
        }
        count(&mut asm, CONTENDED, pass);
        asm.place(late);
        count(&mut asm, LATE, pass);
    } else {
        asm.jump(first);
        asm.place(late);
    }
    asm.place(first);
    count(&mut asm, FIRST, pass);
    asm.place(other);
    count(&mut asm, OTHER, pass);
    asm.place(duplicate);
    asm.set(1, 1);
    asm.atomic_add(TABLE, DUPLICATE, 1);
    asm.set(0, DROP);
    asm.exit();
    asm.place(pass);
    asm.set(0, PASS);
    asm.exit();
    asm.finish()
}

fn count(asm: &mut Assembler, counter: i16, then: super::asm::Label) {
    asm.set(1, 1);
    asm.atomic_add(TABLE, counter, 1);
    asm.jump(then);
}
