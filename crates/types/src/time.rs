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
    /// Nanoseconds of one microsecond.
    pub const MICRO: u64 = 1_000;
    /// Nanoseconds of one millisecond.
    pub const MILLI: u64 = 1_000_000;
    /// Nanoseconds of one second.
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
    /// Time that the clock shows, ns since the Unix epoch.
    pub now: Nanos,
    /// Largest error of `now` in nanoseconds.
    pub bound_ns: u64,
}

/// The venue's clock, which sets the venue's day and dates its log. It shows the node's clock,
/// unless it was told to run ahead over times in which nothing happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VenueClock {
    ahead_ns: u64,
}

impl VenueClock {
    /// Sets the lead over the node's clock to `ahead_ns`, ns; a smaller lead than before is
    /// ignored, so that the clock never goes back.
    pub fn go_ahead(&mut self, ahead_ns: u64) {
        self.ahead_ns = self.ahead_ns.max(ahead_ns);
    }

    /// Lead of the venue's clock over the node's, ns.
    pub fn ahead_ns(self) -> u64 {
        self.ahead_ns
    }

    /// What the venue's clock shows when the node's clock shows `now`.
    pub fn at(self, now: Nanos) -> Nanos {
        now.after(self.ahead_ns)
    }

    /// What the node's clock shows when the venue's clock shows `at`; [`Nanos::NEVER`] stays
    /// [`Nanos::NEVER`], and a time that would lie before 0 becomes 0.
    pub fn when(self, at: Nanos) -> Nanos {
        if at == Nanos::NEVER { at } else { Nanos(at.0.saturating_sub(self.ahead_ns)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_venues_clock_goes_ahead_and_never_back() {
        let mut clock = VenueClock::default();
        assert_eq!((clock.at(Nanos(7)), clock.when(Nanos(7))), (Nanos(7), Nanos(7)));
        clock.go_ahead(100);
        clock.go_ahead(40);
        assert_eq!((clock.at(Nanos(7)), clock.when(Nanos(107))), (Nanos(107), Nanos(7)));
        assert_eq!(clock.when(Nanos::NEVER), Nanos::NEVER);
        assert_eq!((clock.when(Nanos(3)), clock.at(Nanos::NEVER)), (Nanos(0), Nanos::NEVER));
    }
}
