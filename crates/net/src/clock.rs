//! The process's clock: monotonic time moved to the Unix epoch once.
//!
//! Every loop of a process shares one [`Clock`], so readings of different loops compare. It never
//! steps and never runs backwards; a step of the system's wall clock after start is not followed.
//! A [`Timekeeper`] may stand before it: who knows how wrong the clock is, or corrects it.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use types::{ClockReading, Nanos};

/// Makes readings of the process's time.
pub trait Timekeeper: Send + Sync + std::fmt::Debug {
    /// The time, and how wrong it may be, when the process's clock reads `process`. Must not run
    /// backwards: that of a later `process` is no earlier one.
    fn reading(&self, process: Nanos) -> ClockReading;
}

/// `CLOCK_MONOTONIC` plus a constant; a reading costs about 40 ns.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset_ns: u64,
    bound_ns: u64,
    keeper: Option<&'static dyn Timekeeper>,
}

impl Clock {
    /// Fixes the offset to the epoch now. `bound_ns`: largest error to claim in readings; 0 within
    /// one process, where all nodes read the same clock.
    pub fn start(bound_ns: u64) -> Clock {
        Clock {
            offset_ns: anchor(|| (monotonic_ns(), epoch_ns(), monotonic_ns())),
            bound_ns,
            keeper: None,
        }
    }

    /// The same process's time as `keeper` has it. It stays as long as the process does, because
    /// clocks are copied freely.
    pub fn kept_by(self, keeper: &'static dyn Timekeeper) -> Clock {
        Clock { keeper: Some(keeper), ..self }
    }

    /// The process's time, whoever keeps the clock.
    pub fn process(&self) -> Nanos {
        Nanos(monotonic_ns().wrapping_add(self.offset_ns))
    }

    /// What CLOCK_MONOTONIC read, ns, when the process's time was `process`.
    pub fn monotonic(&self, process: Nanos) -> u64 {
        process.0.wrapping_sub(self.offset_ns)
    }

    /// Nanoseconds since the Unix epoch.
    pub fn now(&self) -> Nanos {
        match self.keeper {
            None => self.process(),
            Some(keeper) => keeper.reading(self.process()).now,
        }
    }

    /// The time and how wrong it may be, as nodes get it.
    pub fn reading(&self) -> ClockReading {
        match self.keeper {
            None => ClockReading { now: self.process(), bound_ns: self.bound_ns },
            Some(keeper) => keeper.reading(self.process()),
        }
    }
}

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * Nanos::SECOND + time.tv_nsec as u64
}

/// Readings of both clocks at a start; and the time between two of the one, ns, at which no more are taken.
const ANCHORS: usize = 64;
const TIGHT_NS: u64 = 500;

/// What the wall clock is ahead of the monotonic one, ns. `read` reads the monotonic one, the wall clock and
/// the monotonic one again: a thread that loses its core in between would be off by as long as it waits, and
/// a process that starts again would have another time than before, so the closest readings count.
fn anchor(mut read: impl FnMut() -> (u64, u64, u64)) -> u64 {
    let mut best = (u64::MAX, 0);
    for _ in 0..ANCHORS {
        let (before, epoch, after) = read();
        let apart = after.saturating_sub(before);
        if apart < best.0 {
            best = (apart, epoch.saturating_sub(before + apart / 2));
        }
        if apart <= TIGHT_NS {
            break;
        }
    }
    best.1
}

/// The wall clock, ns; before 1970 it is 0: times are then since boot, still consistent.
fn epoch_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Ahead(u64);

    impl Timekeeper for Ahead {
        fn reading(&self, process: Nanos) -> ClockReading {
            ClockReading { now: process.after(self.0), bound_ns: 5 }
        }
    }

    #[test]
    fn a_keeper_has_the_last_word() {
        static AHEAD: Ahead = Ahead(3_600 * Nanos::SECOND);
        let clock = Clock::start(7).kept_by(&AHEAD);
        let (process, reading) = (clock.process(), clock.reading());
        assert!(reading.now.since(process) >= AHEAD.0 && reading.bound_ns == 5);
        assert!(clock.now() >= reading.now && clock.process() < reading.now);
    }

    #[test]
    fn who_loses_its_core_while_it_starts_has_the_same_time_nevertheless() {
        // The wall clock is ahead by 1,000,000; the first reading waits for 541 us behind it, the second before.
        let mut reads =
            [(100, 1_000_110, 541_120), (600_000, 2_141_000, 1_141_010), (2_000, 1_002_020, 2_040)]
                .into_iter()
                .chain(std::iter::repeat((9_000, 1_009_000, 50_000)));
        assert_eq!(anchor(|| reads.next().expect("endless")), 1_000_000);
        let mut slow = std::iter::repeat((9_000, 1_029_000, 49_000));
        assert_eq!(anchor(|| slow.next().expect("endless")), 1_000_000, "never tight");
    }

    #[test]
    fn starts_at_the_wall_clock_and_never_runs_backwards() {
        let clock = Clock::start(7);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
        assert!((wall as u64).abs_diff(clock.now().0) < Nanos::SECOND);
        assert_eq!(clock.reading().bound_ns, 7);
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
