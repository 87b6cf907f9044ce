//! What the root gives by the clock, and how far the day has come.

use types::{Command, Nanos, VenueClock};

use super::Root;
use crate::day::DayRecord;
use crate::timetable::Timetable;

/// The root's timetable and what has come of it.
pub(super) struct Schedule {
    /// What is to be given next.
    pub(super) timetable: Timetable,
    /// In a group: without what the group has committed, and nothing else.
    pub(super) planned: Timetable,
    /// The same but for a timetable that was set later: what a start from the log would have.
    pub(super) logged: Timetable,
    /// Digest of the configured timetable.
    pub(super) configured: u64,
    pub(super) day: DayRecord,
    /// The feed's session is over.
    pub(super) ended: bool,
    /// The feed's session ends with the last input that waits for its commit.
    pub(super) ends_when_applied: bool,
    /// No command that ends orders is given before this.
    pub(super) expires_from: Nanos,
}

impl Schedule {
    pub(super) fn new(timetable: &Timetable) -> Schedule {
        Schedule {
            timetable: timetable.clone(),
            planned: timetable.clone(),
            logged: timetable.clone(),
            configured: timetable.digest(),
            day: DayRecord::default(),
            ended: false,
            ends_when_applied: false,
            expires_from: Nanos(0),
        }
    }

    /// Another timetable takes the place of what is not done yet.
    pub(super) fn replace(&mut self, timetable: Timetable) {
        self.planned.replace_due(timetable.clone());
        self.timetable.replace_due(timetable);
    }

    /// The group has committed a command of the exchange's own.
    pub(super) fn committed(&mut self, at: Nanos, command: &Command) {
        self.planned.passed(at, command);
        self.logged.passed(at, command);
    }

    /// When the next command of the timetable is due.
    pub(super) fn next_due(&self) -> Nanos {
        if self.ended { Nanos::NEVER } else { self.timetable.next_due() }
    }
}

impl Root {
    /// The clock that the venue's day goes by.
    pub fn venue_clock(&self) -> VenueClock {
        self.venue_clock
    }

    /// From now on the venue's clock is so far ahead of the node's, ns; it never goes back. What came due
    /// meanwhile is done at the next timeout, in order and dated with the time that there is then. In a
    /// group every root has to be told, and the gateways, which read times of orders by it.
    pub fn go_ahead(&mut self, ahead_ns: u64) {
        self.venue_clock.go_ahead(ahead_ns);
    }

    /// When the next step of the venue's calendar is due by the venue's clock; [`Nanos::NEVER`] without one.
    pub fn next_step(&self) -> Nanos {
        if self.schedule.ended { Nanos::NEVER } else { self.schedule.timetable.next_step() }
    }
}
