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
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::asm::{Alu, Assembler, If, Insn, Reg, Width};
use super::bpf::{self, Place};
use super::memory::Memory;
use super::ways::{LinkLayer, Ways};
use super::xdp::{self, DATAGRAM, DROP, PASS, in_memory};
use super::{PlaneError, PlaneKind};

/// No data plane.
const FILTER: Option<PlaneKind> = None;

/// Numbers of a stream that are remembered.
pub const WINDOW: u64 = 1 << 16;
/// Copies that were dropped and of which nobody has taken the report yet.
pub const REPORTS: u64 = 1 << 14;
/// Times that a word is tried to be exchanged.
const TRIES: usize = 3;
const UDP_HEADER: i16 = 8;

/// Byte offsets of the counters, eight bytes each, and of the first word.
const FIRST: i16 = 0;
const DUPLICATE: i16 = 8;
const LATE: i16 = 16;
const CONTENDED: i16 = 24;
const OTHER: i16 = 32;
/// Reports there have been.
const REPORTED: i16 = 40;
const WORDS: usize = 64;
const REPORTS_AT: usize = WORDS + WINDOW as usize * 8;
const BYTES: usize = REPORTS_AT + REPORTS as usize * 8;
/// Reports that may be under way on other cores.
const UNDER_WAY: u64 = 64;
/// Times in reports are CLOCK_MONOTONIC shifted by so many bits, units of 1,024 ns, of which 31 bits are kept.
const UNIT_BITS: u32 = 10;
const TIME_MASK: u64 = (1 << 31) - 1;
const KTIME_GET_NS: i32 = 5;

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
    /// Offset of who sent this copy, two bytes.
    pub sender: u8,
}

impl DuplicateKey {
    /// Bytes up to the end of the last of them.
    fn reach(&self) -> i32 {
        let others = (self.epoch + 4).max(self.sender + 2);
        i32::from((self.stream.0 + 2).max(self.number + 8).max(others))
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
    /// Of the duplicates those whose report was lost before it was taken.
    pub untold: u64,
    /// Times that the program was attached again.
    pub attached_again: u64,
}

/// A copy that was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// The epoch of its datagram.
    pub epoch: u32,
    /// The lower half of its number.
    pub number: u32,
    /// Who says to have sent this copy.
    pub sender: u16,
    /// How long ago it came, ns.
    pub ago_ns: u64,
}

/// A filter on one interface, for one port.
pub struct DuplicateFilter {
    table: Memory,
    program: OwnedFd,
    interface: u32,
    place: Place,
    /// Holds the program there; `None`: it was taken away.
    link: Option<OwnedFd>,
    /// Reports that were taken or lost.
    taken: u64,
    untold: u64,
    attached_again: u64,
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
        PlaneError::check_kernel(FILTER, (5, 12))?;
        let failed = |step| move |error| PlaneError::new(FILTER, step, &error);
        let map = bpf::map(BYTES as u32).map_err(failed("making a map"))?;
        let table = Memory::of(&map, BYTES, 0).map_err(failed("mapping a map"))?;
        let program = program(link, port, key, learning, map.as_raw_fd());
        let program = bpf::load("fairbell_dedup", place, &program);
        let program = program.map_err(failed("loading the program"))?;
        Ok(DuplicateFilter {
            table,
            program,
            interface: 0,
            place,
            link: None,
            taken: 0,
            untold: 0,
            attached_again: 0,
        })
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
        let failed = |step| move |error| PlaneError::new(FILTER, step, &error);
        let step = "asking for the interface";
        let mut ways = Ways::open().map_err(failed(step))?;
        let link = ways.interface(interface).map_err(failed(step))?.link;
        let mut refused = None;
        for place in [Place::XdpDriver, Place::XdpGeneric] {
            let mut filter = DuplicateFilter::load(link, port, key, learning, place)?;
            match bpf::attach(&filter.program, interface, place) {
                Ok(link) => {
                    (filter.link, filter.interface) = (Some(link), interface);
                    return Ok(filter);
                }
                Err(error) => {
                    let busy = error.raw_os_error() == Some(libc::EBUSY);
                    refused = Some(failed("attaching the program")(error));
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
        self.place == Place::XdpGeneric
    }

    /// Looks whether the program is still where it was attached, and attaches it again where it is not
    /// and the place is free; whether it is there now.
    pub fn watch(&mut self) -> bool {
        if self.link.as_ref().is_some_and(bpf::is_attached) {
            return true;
        }
        self.link = bpf::attach(&self.program, self.interface, self.place).ok();
        self.attached_again += u64::from(self.link.is_some());
        self.link.is_some()
    }

    /// For drills: takes the program away, as an administrator might.
    ///
    /// # Errors
    /// The kernel's.
    #[doc(hidden)]
    pub fn detach(&self) -> io::Result<()> {
        self.link.as_ref().map_or(Ok(()), bpf::detach)
    }

    /// The node has opened a datagram: further copies of it are dropped.
    pub fn confirm(&self, epoch: u32, number: u64) {
        let word = word_of(epoch, number);
        self.table.words()[WORDS / 8 + (number % WINDOW) as usize].store(word, Relaxed);
    }

    /// Takes the reports of copies that were dropped since the last call, at most [`REPORTS`] of them.
    pub fn take_dropped(&mut self, mut each: impl FnMut(Dropped)) {
        let words = self.table.words();
        let reported = words[REPORTED as usize / 8].load(Acquire);
        if reported == self.taken {
            return;
        }
        let now = monotonic_ns() >> UNIT_BITS;
        let over = (reported - self.taken).saturating_sub(REPORTS);
        self.untold += over;
        self.taken += over;
        while self.taken < reported {
            let place = (self.taken % REPORTS) as usize;
            let report = words[REPORTS_AT / 8 + place].swap(0, AcqRel);
            if report == 0 && reported - self.taken <= UNDER_WAY {
                // Another core is about to write it.
                return;
            }
            self.taken += 1;
            if report == 0 {
                self.untold += 1;
                continue;
            }
            let word = words[WORDS / 8 + (report >> 16 & (WINDOW - 1)) as usize].load(Relaxed);
            let ago = now.wrapping_sub(report >> 32) & TIME_MASK;
            each(Dropped {
                epoch: (word >> 32) as u32,
                number: word as u32,
                sender: report as u16,
                // One that came since the clock was read has come now.
                ago_ns: if ago > TIME_MASK / 2 { 0 } else { ago << UNIT_BITS },
            });
        }
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
            untold: self.untold,
            attached_again: self.attached_again,
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

/// Numbers of the interfaces by which packets to these addresses leave, each once: by which theirs come, where
/// ways are the same both ways. The loopback interface only where there is no other.
///
/// # Errors
/// When the kernel can't be asked.
pub fn interfaces_to(peers: &[IpAddr]) -> Result<Vec<u32>, PlaneError> {
    let failed = |step| move |error| PlaneError::new(FILTER, step, &error);
    let mut ways = Ways::open().map_err(failed("asking for routes"))?;
    let (mut found, mut loopback) = (Vec::new(), None);
    for peer in peers {
        // One that has no way now has none that copies could come by.
        let Ok(interface) = ways.interface_to(peer.to_canonical()) else { continue };
        let Ok(known) = ways.interface(interface) else { continue };
        match known.link {
            LinkLayer::Loopback => loopback = Some(interface),
            _ if found.contains(&interface) => {}
            _ => found.push(interface),
        }
    }
    if found.is_empty() {
        found.extend(loopback);
    }
    Ok(found)
}

/// CLOCK_MONOTONIC, by which reports are stamped.
fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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
    // The report: that it is one, when, which place of the table, and who sent it.
    asm.load(Width::Eight, PLACE, DATAGRAM, at(key.number));
    asm.alu_with(Alu::And, PLACE, WINDOW as i32 - 1);
    asm.alu_with(Alu::ShiftLeft, PLACE, 16);
    asm.load(Width::Two, 1, DATAGRAM, at(key.sender));
    asm.alu(Alu::Or, PLACE, 1);
    asm.call(KTIME_GET_NS);
    asm.alu_with(Alu::ShiftRight, 0, UNIT_BITS as i32);
    asm.alu_with(Alu::ShiftLeft, 0, 33);
    asm.alu_with(Alu::ShiftRight, 0, 1);
    asm.alu(Alu::Or, PLACE, 0);
    asm.set(0, 1);
    asm.alu_with(Alu::ShiftLeft, 0, 63);
    asm.alu(Alu::Or, PLACE, 0);
    asm.set(1, 1);
    asm.atomic_fetch_add(TABLE, REPORTED, 1);
    asm.alu_with(Alu::And, 1, REPORTS as i32 - 1);
    asm.alu_with(Alu::ShiftLeft, 1, 3);
    asm.alu_with(Alu::Add, 1, REPORTS_AT as i32);
    asm.alu(Alu::Add, 1, TABLE);
    asm.store(Width::Eight, 1, 0, PLACE);
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

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: DuplicateKey =
        DuplicateKey { version: 0x82, stream: (2, 0), epoch: 4, number: 8, sender: 16 };

    fn frame(epoch: u32, number: u64, sender: u16) -> Vec<u8> {
        let mut frame = vec![0u8; 42 + 40];
        frame[12..14].copy_from_slice(&0x0800u16.to_be_bytes());
        frame[14] = 0x45;
        frame[23] = 17;
        frame[36..38].copy_from_slice(&7u16.to_be_bytes());
        frame[42] = KEY.version;
        frame[46..50].copy_from_slice(&epoch.to_le_bytes());
        frame[50..58].copy_from_slice(&number.to_le_bytes());
        frame[58..60].copy_from_slice(&sender.to_le_bytes());
        frame
    }

    fn taken(filter: &mut DuplicateFilter) -> Vec<(u32, u32, u16)> {
        let mut all = Vec::new();
        filter.take_dropped(|one| {
            assert!(one.ago_ns < 60_000_000_000, "{one:?}");
            all.push((one.epoch, one.number, one.sender));
        });
        all
    }

    /// `None` where the kernel refuses programs.
    fn filter(learning: Learning) -> Option<DuplicateFilter> {
        DuplicateFilter::detached(7, KEY, learning)
            .inspect_err(|why| println!("not tested: {why}"))
            .ok()
    }

    #[test]
    fn of_each_copy_that_is_dropped_there_is_one_report_with_its_sender() {
        let Some(mut filter) = filter(Learning::Confirmed) else { return };
        let passes = |filter: &DuplicateFilter, of: &[u8]| filter.verdict(of).expect("a verdict");
        // Nothing is dropped, and so nothing reported, before the node has confirmed it.
        assert!(passes(&filter, &frame(9, 5, 1)) && passes(&filter, &frame(9, 5, 2)));
        assert_eq!(taken(&mut filter), []);
        filter.confirm(9, 5);
        filter.confirm(9, (3 << 32) + 65_539);
        assert!(!passes(&filter, &frame(9, 5, 2)));
        assert!(!passes(&filter, &frame(9, (3 << 32) + 65_539, 700)));
        assert!(!passes(&filter, &frame(9, 5, 3)));
        assert!(passes(&filter, &frame(8, 5, 3)), "of another life");
        assert_eq!(taken(&mut filter), [(9, 5, 2), (9, 65_539, 700), (9, 5, 3)]);
        assert_eq!(taken(&mut filter), []);
        assert_eq!((filter.figures().duplicates, filter.figures().untold), (3, 0));
    }

    #[test]
    fn reports_that_nobody_takes_are_lost_and_counted_and_later_ones_are_not() {
        let Some(mut filter) = filter(Learning::Confirmed) else { return };
        filter.confirm(1, 2);
        let all = REPORTS + 100;
        for number in 0..all {
            assert!(!filter.verdict(&frame(1, 2, number as u16)).expect("a verdict"));
        }
        let told = taken(&mut filter);
        let senders: Vec<u16> = told.iter().map(|(.., sender)| *sender).collect();
        assert_eq!(senders, (100..all).map(|number| number as u16).collect::<Vec<_>>());
        assert_eq!(filter.figures().untold, 100);
        assert!(!filter.verdict(&frame(1, 2, 77)).expect("a verdict"));
        assert_eq!(taken(&mut filter), [(1, 2, 77)]);
    }

    #[test]
    fn peers_on_this_machine_alone_are_reached_by_the_loopback_interface() {
        let own = IpAddr::from(std::net::Ipv4Addr::LOCALHOST);
        assert_eq!(interfaces_to(&[own, own]).expect("asked"), [1]);
        assert_eq!(interfaces_to(&[]).expect("asked"), [0; 0]);
    }

    #[test]
    fn a_program_that_is_attached_nowhere_says_so() {
        let Some(mut filter) = filter(Learning::Passing) else { return };
        assert!(!filter.watch(), "there is no interface 0");
        assert_eq!(filter.figures().attached_again, 0);
    }
}
