//! A simulated node's clock: true time plus an offset and a drift, with the error bound it claims.
//!
//! Readings never run backwards while true time does not: after a step back the clock stands until
//! the time it showed comes again, as a node sees it that guards its readings. Turning a reading back into true time
//! rounds up, so that a timer never fires before its own clock shows the time asked for. Whether
//! the claimed bound is honest is up to whoever builds the clock: [`SimClock::error_ns`] says.

use types::{ClockReading, Nanos};

const BILLION: i128 = 1_000_000_000;

/// Largest drift a clock may have: 10 %, far beyond any oscillator.
pub const DRIFT_PPB_MAX: i64 = 100_000_000;

/// One clock. The default one is perfect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimClock {
    /// True time at which the clock is exactly `offset_ns` off.
    pub origin: Nanos,
    /// Reading minus true time at the origin.
    pub offset_ns: i64,
    /// Nanoseconds gained per second, within ± [`DRIFT_PPB_MAX`].
    pub drift_ppb: i64,
    /// The error bound it reports with every reading.
    pub bound_ns: u64,
    /// It never reads less than this.
    pub floor: Nanos,
}

impl Default for SimClock {
    fn default() -> Self {
        SimClock { origin: Nanos(0), offset_ns: 0, drift_ppb: 0, bound_ns: 0, floor: Nanos(0) }
    }
}

impl SimClock {
    /// This clock once it has been stepped at true time `at`, so that it is `offset_ns` off there.
    pub fn stepped(&self, at: Nanos, offset_ns: i64) -> SimClock {
        SimClock { origin: at, offset_ns, floor: self.now(at), ..*self }
    }

    /// The reading at true time `at`.
    pub fn read(&self, at: Nanos) -> ClockReading {
        ClockReading { now: self.now(at), bound_ns: self.bound_ns }
    }

    /// The first true time at which the clock reads `reading` or more ([`Nanos::NEVER`] for never).
    pub fn true_time(&self, reading: Nanos) -> Nanos {
        if reading == Nanos::NEVER {
            return Nanos::NEVER;
        }
        if self.floor != Nanos(0) && reading <= self.floor {
            return Nanos(0);
        }
        let straight = i128::from(reading.0) - i128::from(self.offset_ns);
        if self.drift_ppb == 0 {
            return clamp(straight);
        }
        // The division inverts the drift to within a few ns; the loops make it exact.
        let origin = i128::from(self.origin.0);
        let elapsed = (straight - origin) * BILLION / (BILLION + i128::from(self.drift()));
        let wanted = i128::from(reading.0);
        let mut at = origin + elapsed;
        while self.exact(at) < wanted {
            at += 1;
        }
        while self.exact(at - 1) >= wanted {
            at -= 1;
        }
        clamp(at)
    }

    /// How far the clock is from the truth at true time `at`; an honest bound is no smaller.
    pub fn error_ns(&self, at: Nanos) -> u64 {
        self.now(at).0.abs_diff(at.0)
    }

    fn drift(&self) -> i64 {
        self.drift_ppb.clamp(-DRIFT_PPB_MAX, DRIFT_PPB_MAX)
    }

    fn now(&self, at: Nanos) -> Nanos {
        clamp(self.exact(i128::from(at.0))).max(self.floor)
    }

    /// The reading, were there no end to the range of instants.
    fn exact(&self, at: i128) -> i128 {
        if self.drift_ppb == 0 {
            return at + i128::from(self.offset_ns);
        }
        let elapsed = at - i128::from(self.origin.0);
        let gained = (elapsed * i128::from(self.drift())).div_euclid(BILLION);
        at + i128::from(self.offset_ns) + gained
    }
}

/// Into the range of instants, below [`Nanos::NEVER`].
fn clamp(ns: i128) -> Nanos {
    Nanos(ns.clamp(0, i128::from(u64::MAX) - 1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: u64 = 86_400 * Nanos::SECOND;

    proptest! {
        #[test]
        fn a_timer_is_never_early_and_at_most_one_step_late(
            offset_ns in -1_000_000_000i64..1_000_000_000,
            drift_ppb in -DRIFT_PPB_MAX..=DRIFT_PPB_MAX,
            at in 0..DAY,
        ) {
            let origin = Nanos(20_000 * DAY);
            let clock = SimClock { origin, offset_ns, drift_ppb, ..SimClock::default() };
            let wanted = Nanos(origin.0 + at);
            let fires = clock.true_time(wanted);
            prop_assert!(clock.read(fires).now >= wanted);
            prop_assert!(clock.read(Nanos(fires.0 - 1)).now < wanted);
            let later = Nanos(fires.0 + 1);
            prop_assert!(clock.read(later).now >= clock.read(fires).now);
        }
    }

    #[test]
    fn a_step_back_stops_the_clock_until_its_time_comes_again() {
        let clock = SimClock { offset_ns: 500, drift_ppb: 1_000, ..SimClock::default() };
        let at = Nanos(10_000);
        let stepped = clock.stepped(at, -1_000);
        assert_eq!(stepped.read(at).now, clock.read(at).now);
        assert_eq!(stepped.read(Nanos(11_400)).now, Nanos(10_500));
        assert_eq!(stepped.read(Nanos(11_600)).now, Nanos(10_600));
        assert_eq!(stepped.true_time(Nanos(10_600)), Nanos(11_600));
        assert!(stepped.true_time(Nanos(10_500)) <= at, "it reads that already");
        assert_eq!(clock.stepped(at, 3_000).read(at).now, Nanos(13_000));
    }

    #[test]
    fn never_stays_never_and_errors_are_seen() {
        let clock =
            SimClock { offset_ns: -50, drift_ppb: 1_000, bound_ns: 60, ..SimClock::default() };
        assert_eq!(clock.true_time(Nanos::NEVER), Nanos::NEVER);
        assert_eq!(clock.true_time(Nanos(0)), Nanos(50));
        assert_eq!(clock.read(Nanos(10)).now, Nanos(0), "a clock never reads below zero");
        assert_eq!(clock.error_ns(Nanos(1_000_000)), 49);
    }
}
