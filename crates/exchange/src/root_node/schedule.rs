//! What the root gives by the clock, and how far the day has come.

use types::{Command, Nanos};

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
