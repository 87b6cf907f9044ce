//! PTP hardware clocks: read beside the system's clock by the kernel's requests, never set.
//!
//! Three ways, the narrowest that the driver has: both clocks at one instant (`PTP_SYS_OFFSET_PRECISE`), the
//! system's clock right before and right after the hardware's by the driver (`PTP_SYS_OFFSET_EXTENDED`), or
//! around the driver (`PTP_SYS_OFFSET`). Of several readings the one between the closest two counts.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use types::Nanos;

/// Readings of a request.
const SAMPLES: usize = 25;
/// Of those, how many are asked for.
const WANTED: u32 = 9;

/// A hardware clock between two readings of the system's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// CLOCK_REALTIME before, ns.
    pub before: Nanos,
    /// The hardware's clock, ns since its epoch.
    pub hardware: Nanos,
    /// CLOCK_REALTIME after, ns.
    pub after: Nanos,
}

impl Sample {
    /// CLOCK_REALTIME less the hardware's clock, ns.
    pub fn offset_ns(&self) -> i64 {
        let middle = i128::from(self.before.0 + self.bound_ns());
        (middle - i128::from(self.hardware.0)) as i64
    }

    /// How wrong that may be, ns: half of the time between the two readings.
    pub fn bound_ns(&self) -> u64 {
        self.after.since(self.before).div_ceil(2)
    }
}

/// Who reads a hardware clock: a device, or something that stands for one.
pub trait Hardware: Send {
    /// Reads it.
    ///
    /// # Errors
    /// The kernel's, or readings that can't be.
    fn sample(&mut self) -> io::Result<Sample>;
}

/// How a device is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Both at one instant.
    Precise,
    /// Right before and after, by the driver.
    Extended,
    /// Around the driver.
    Plain,
}

/// A device, like `/dev/ptp0`.
pub struct Device {
    file: File,
    way: Way,
}

impl Device {
    /// The device of that name, and the narrowest way in which it can be read.
    ///
    /// # Errors
    /// No such device, or one that is no PTP clock.
    pub fn open(path: &str) -> io::Result<Device> {
        let mut device = Device { file: File::open(path)?, way: Way::Precise };
        loop {
            match (device.sample(), device.way) {
                (Ok(_), _) => return Ok(device),
                (Err(_), Way::Precise) => device.way = Way::Extended,
                (Err(_), Way::Extended) => device.way = Way::Plain,
                (Err(error), Way::Plain) => return Err(error),
            }
        }
    }

    /// How it is read.
    pub fn way(&self) -> Way {
        self.way
    }
}

impl Hardware for Device {
    fn sample(&mut self) -> io::Result<Sample> {
        let read = match self.way {
            Way::Precise => {
                let mut both = Precise::default();
                request::<PRECISE, _>(&self.file, &mut both)?;
                both.sample()
            }
            Way::Extended => {
                let mut triples = Extended::new();
                request::<EXTENDED, _>(&self.file, &mut triples)?;
                triples.sample()
            }
            Way::Plain => {
                let mut chain = Plain::new();
                request::<PLAIN, _>(&self.file, &mut chain)?;
                chain.sample()
            }
        };
        read.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// `struct ptp_clock_time` of `linux/ptp_clock.h`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Time {
    seconds: i64,
    nanos: u32,
    reserved: u32,
}

impl Time {
    /// None for a time before 1970, one after 2554 and one with too many nanoseconds.
    fn nanos(&self) -> Option<Nanos> {
        let whole = u64::try_from(self.seconds).ok()?.checked_mul(Nanos::SECOND)?;
        let part = Some(u64::from(self.nanos)).filter(|part| *part < Nanos::SECOND)?;
        whole.checked_add(part).map(Nanos)
    }
}

/// `struct ptp_sys_offset_precise`.
#[derive(Default)]
#[repr(C)]
struct Precise {
    hardware: Time,
    realtime: Time,
    raw: Time,
    reserved: [u32; 4],
}

impl Precise {
    fn sample(&self) -> Option<Sample> {
        let at = self.realtime.nanos()?;
        Some(Sample { before: at, hardware: self.hardware.nanos()?, after: at })
    }
}

/// `struct ptp_sys_offset_extended`.
#[repr(C)]
struct Extended {
    samples: u32,
    /// Zero: CLOCK_REALTIME, and reserved before there was a choice.
    clock: i32,
    reserved: [u32; 2],
    times: [[Time; 3]; SAMPLES],
}

impl Extended {
    fn new() -> Extended {
        let times = [[Time::default(); 3]; SAMPLES];
        Extended { samples: WANTED, clock: 0, reserved: [0; 2], times }
    }

    fn sample(&self) -> Option<Sample> {
        let read = self.times.iter().take(WANTED as usize);
        closest(read.map(|[before, hardware, after]| [*before, *hardware, *after]))
    }
}

/// `struct ptp_sys_offset`: the system's clock, the hardware's, the system's and so on.
#[repr(C)]
struct Plain {
    samples: u32,
    reserved: [u32; 3],
    times: [Time; 2 * SAMPLES + 1],
}

impl Plain {
    fn new() -> Plain {
        let times = [Time::default(); 2 * SAMPLES + 1];
        Plain { samples: WANTED, reserved: [0; 3], times }
    }

    fn sample(&self) -> Option<Sample> {
        let read = self.times.array_windows::<3>().step_by(2).take(WANTED as usize);
        closest(read.copied())
    }
}

/// Of readings before, between and after, the one between the closest two; none where one is no time or a
/// clock runs backwards, as it does while it is set.
fn closest(read: impl Iterator<Item = [Time; 3]>) -> Option<Sample> {
    let mut all = Vec::with_capacity(WANTED as usize);
    for [before, hardware, after] in read {
        let [before, hardware, after] = [before.nanos()?, hardware.nanos()?, after.nanos()?];
        all.push(Sample { before, hardware, after });
    }
    let forward = all.iter().all(|one| one.before <= one.after);
    all.into_iter().filter(|_| forward).min_by_key(|one| one.after.since(one.before))
}

const PRECISE: Opcode = opcode::read_write::<Precise>(b'=', 8);
const EXTENDED: Opcode = opcode::read_write::<Extended>(b'=', 9);
const PLAIN: Opcode = opcode::write::<Plain>(b'=', 5);

/// Makes the request of number `OPCODE`; private to this file, whose callers pair numbers and types.
fn request<const OPCODE: Opcode, T>(device: impl AsFd, value: &mut T) -> io::Result<()> {
    // SAFETY: the callers above give each number the structure that the kernel's header names for it, in C
    // layout and of full size (the numbers contain the sizes), borrowed for the whole call; nothing in it is a
    // pointer and all bytes are values. On a file of another kind the kernel refuses the number.
    unsafe { Ok(ioctl(device, Updater::<OPCODE, T>::new(value))?) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn time(ns: u64) -> Time {
        let (seconds, nanos) = (ns / Nanos::SECOND, ns % Nanos::SECOND);
        Time { seconds: seconds as i64, nanos: nanos as u32, reserved: 0 }
    }

    #[test]
    fn requests_have_the_numbers_of_the_kernels_header() {
        assert_eq!(size_of::<Time>(), 16);
        // As printed by a C program: PTP_SYS_OFFSET, _PRECISE, _EXTENDED.
        assert_eq!([PLAIN, PRECISE, EXTENDED], [0x4340_3D05, 0xC040_3D08, 0xC4C0_3D09]);
    }

    #[test]
    fn the_reading_between_the_closest_two_counts() {
        let second = 1_700_000_000 * Nanos::SECOND;
        let mut chain = Plain::new();
        // 900, 800, ... 100 ns between the system's readings.
        let mut at = second;
        for turn in 0..=WANTED as usize {
            chain.times[2 * turn] = time(at);
            at += 900 - 100 * (turn as u64).min(8);
            chain.times[2 * turn + 1] = time(second + 37 * Nanos::SECOND + turn as u64);
        }
        let found = chain.sample().expect("times");
        assert_eq!(found.after.since(found.before), 100);
        assert_eq!((found.bound_ns(), found.offset_ns()), (50, 4_442 - 37_000_000_000));
        assert_eq!(found.hardware, Nanos(second + 37 * Nanos::SECOND + 8));
        let mut triples = Extended::new();
        for (turn, triple) in triples.times.iter_mut().take(WANTED as usize).enumerate() {
            let at = second + 10_000 * turn as u64;
            *triple = [time(at), time(at + 7), time(at + if turn == 4 { 50 } else { 90 })];
        }
        let found = triples.sample().expect("times");
        assert_eq!(found.before, Nanos(second + 40_000));
        triples.times[2][2] = time(second);
        assert_eq!(triples.sample(), None, "the clock ran backwards");
        let both =
            Precise { hardware: time(second), realtime: time(second + 5), ..Precise::default() };
        let told = both.sample().expect("times");
        assert_eq!((told.before, told.after), (Nanos(second + 5), told.before));
    }

    #[test]
    fn what_is_no_clock_is_refused() {
        assert!(Device::open("/dev/there/is/none").is_err());
        assert!(Device::open("/dev/null").is_err());
    }

    #[test]
    fn a_device_of_this_machine_is_read() {
        let Ok(mut device) = Device::open("/dev/ptp0") else {
            println!("no /dev/ptp0 here: not read");
            return;
        };
        for _ in 0..10 {
            let read = device.sample().expect("a reading");
            assert!(read.before <= read.after && read.after.since(read.before) < Nanos::SECOND);
        }
    }

    proptest! {
        #[test]
        fn any_times_are_read_or_refused(
            times in proptest::collection::vec((any::<i64>(), any::<u32>()), 60),
            near in any::<bool>(),
        ) {
            let mut all = times.iter().map(|(seconds, nanos)| match near {
                true => Time { seconds: seconds & 0xFF, nanos: nanos % 1_000_000_000, reserved: 0 },
                false => Time { seconds: *seconds, nanos: *nanos, reserved: 7 },
            });
            let mut chain = Plain::new();
            chain.times.iter_mut().zip(all.by_ref()).for_each(|(place, time)| *place = time);
            let mut triples = Extended::new();
            let rest = chain.times;
            triples.times.iter_mut().flatten().zip(rest).for_each(|(place, time)| *place = time);
            for found in [chain.sample(), triples.sample()].into_iter().flatten() {
                prop_assert!(found.before <= found.after);
            }
        }
    }
}
