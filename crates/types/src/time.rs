//! Time as a value: nothing below `net` ever asks a clock.

use std::ops::{Add, Sub};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Nanoseconds since the Unix epoch on the exchange's disciplined clock.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
)]
#[repr(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Later than every instant: "no timer".
    pub const NEVER: Nanos = Nanos(u64::MAX);
    /// One microsecond in nanoseconds.
    pub const MICRO: u64 = 1_000;
    /// One millisecond in nanoseconds.
    pub const MILLI: u64 = 1_000_000;
    /// One second in nanoseconds.
    pub const SECOND: u64 = 1_000_000_000;

    /// Nanoseconds from `earlier` to `self`, 0 when `self` is the earlier one.
    pub fn since(self, earlier: Nanos) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This instant `ns` later, never past [`Nanos::NEVER`].
    pub fn after(self, ns: u64) -> Nanos {
        Nanos(self.0.saturating_add(ns))
    }
}

impl Add<u64> for Nanos {
    type Output = Nanos;
    fn add(self, ns: u64) -> Nanos {
        self.after(ns)
    }
}

impl Sub for Nanos {
    type Output = u64;
    fn sub(self, earlier: Nanos) -> u64 {
        self.since(earlier)
    }
}

/// What a clock says, and how far it may be from the truth: true time lies within
/// `now - bound_ns ..= now + bound_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReading {
    /// Reading of the clock.
    pub now: Nanos,
    /// Largest error of `now` in nanoseconds.
    pub bound_ns: u64,
}
