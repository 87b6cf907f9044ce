//! The venue's day as data: which command is due when, on days of 23, 24 and 25 hours.
//!
//! A plan says what happens at which time of the venue's clock. [`Zone`] says what that clock
//! shows; its changes (summer time) are data too. A planned time that the clock skips is due at
//! the skip, one that it shows twice is due the first time: each entry happens once a day, in
//! the order of the plan's times. Nothing here acts: the root asks [`Schedule::next_due`], logs
//! what [`Schedule::pop_due`] gives, and the log is the truth from then on (corner 5).

use types::{ClOrdId, Command, CommandKind, Nanos, Phase};

/// Nanoseconds of a day of 24 hours.
pub const DAY_NS: u64 = 86_400 * Nanos::SECOND;
/// Most entries of a plan.
pub const ENTRIES_MAX: usize = 256;
/// Days that are looked ahead for one that is traded on.
const LOOK_AHEAD: i64 = 400;

/// A clock's distance from UTC, and when it changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone {
    /// (UTC instant, seconds east of UTC from then on), ascending, the first from 0.
    offsets: Vec<(Nanos, i32)>,
}

impl Zone {
    /// UTC itself.
    pub fn utc() -> Zone {
        Zone { offsets: vec![(Nanos(0), 0)] }
    }

    /// A clock `offset_s` seconds east of UTC until the first of `changes` (UTC instant, seconds
    /// east from then on). `None` unless the instants ascend and offsets are within a day.
    pub fn new(offset_s: i32, changes: &[(Nanos, i32)]) -> Option<Zone> {
        let mut offsets = vec![(Nanos(0), offset_s)];
        offsets.extend_from_slice(changes);
        let ascending = offsets.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let sound = offsets.iter().all(|(_, offset)| offset.unsigned_abs() < 86_400);
        (ascending && sound).then_some(Zone { offsets })
    }

    /// What the clock shows: nanoseconds since its own 1970-01-01.
    fn shown(&self, at: Nanos) -> i128 {
        let in_force = self.offsets.iter().rev().find(|(from, _)| *from <= at);
        let offset = in_force.map_or(0, |(_, offset)| *offset);
        i128::from(at.0) + i128::from(offset) * i128::from(Nanos::SECOND)
    }

    /// The first instant at which the clock shows `time` or later.
    fn first_at(&self, time: i128) -> Option<Nanos> {
        for (index, (from, offset)) in self.offsets.iter().enumerate() {
            let at = (time - i128::from(*offset) * i128::from(Nanos::SECOND)).max(from.0.into());
            let until = self.offsets.get(index + 1).map_or(Nanos::NEVER, |(next, _)| *next);
            if at < i128::from(until.0) {
                return u64::try_from(at).ok().map(Nanos);
            }
        }
        None
    }

    /// The day the clock shows, counted from 1970-01-01.
    pub fn day_of(&self, at: Nanos) -> i64 {
        self.shown(at).div_euclid(DAY_NS.into()) as i64
    }

    /// When a day begins by this clock; `None` beyond the range of [`Nanos`].
    pub fn midnight(&self, day: i64) -> Option<Nanos> {
        self.first_at(i128::from(day) * i128::from(DAY_NS))
    }

    /// When the clock of a day first shows `time` nanoseconds since midnight.
    pub fn at(&self, day: i64, time: u64) -> Option<Nanos> {
        self.first_at(i128::from(day) * i128::from(DAY_NS) + i128::from(time))
    }
}

/// How often an entry is due again on its day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repeat {
    /// Nanoseconds from one to the next, above 0.
    pub every_ns: u64,
    /// Time of the venue's clock before which the last one is due, ns since midnight.
    pub until: u64,
}

/// One line of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Time of the venue's clock, ns since midnight.
    pub at: u64,
    /// Due again, as of an auction interval.
    pub repeat: Option<Repeat>,
    /// What is due.
    pub command: Command,
}

/// What happens on every day of trading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Entries; those of the same instant are due in this order.
    pub entries: Vec<Entry>,
    /// Bit per day of the week, Monday first: traded on.
    pub weekdays: u8,
    /// Days without trading, counted from 1970-01-01.
    pub holidays: Vec<i64>,
}

/// Why a plan can't be followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// More than [`ENTRIES_MAX`] entries.
    TooLong(usize),
    /// The entry at this index has a time beyond the day, or a repetition that never ends.
    Entry(usize),
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PlanError::TooLong(count) => {
                write!(f, "a plan of {count} entries; {ENTRIES_MAX} are possible")
            }
            PlanError::Entry(index) => {
                let number = index + 1;
                write!(f, "entry {number} of the plan: time or repetition out of range")
            }
        }
    }
}

impl std::error::Error for PlanError {}

/// Times of an ordinary day, ns since the venue's midnight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DayTimes {
    /// The day begins; orders are collected.
    pub pre_open: u64,
    /// Indicative prices are published.
    pub opening_call: u64,
    /// The opening auction; continuous trading.
    pub open: u64,
    /// The closing call.
    pub closing_call: u64,
    /// The closing auction.
    pub close: u64,
    /// The day ends.
    pub end: u64,
    /// Between two publications of indicative prices, ns; 0: none.
    pub indicative_every_ns: u64,
}

/// A command of the schedule: `cl_ord_id` says so in the log.
pub fn command(kind: CommandKind, param: u8) -> Command {
    let cl_ord_id = ClOrdId(*b"schedule      ");
    Command { param, cl_ord_id, ..Command::new(kind) }
}

impl Plan {
    /// Every day of the week.
    pub const ALL_DAYS: u8 = 0x7f;
    /// Monday to Friday.
    pub const WORKING_DAYS: u8 = 0x1f;

    /// The day of a venue with an opening and a closing auction.
    pub fn with_auctions(times: &DayTimes) -> Plan {
        let entry = |at, command| Entry { at, repeat: None, command };
        let phase = |at, phase: Phase| entry(at, command(CommandKind::SetPhase, phase as u8));
        let mut entries = vec![
            entry(times.pre_open, command(CommandKind::ExpireOrders, 0)),
            entry(times.pre_open, command(CommandKind::StartOfDay, 1)),
            phase(times.opening_call, Phase::OpeningCall),
            phase(times.open, Phase::Continuous),
            phase(times.closing_call, Phase::ClosingCall),
            phase(times.close, Phase::Closed),
            entry(times.end, command(CommandKind::EndOfDay, 0)),
        ];
        if times.indicative_every_ns > 0 {
            let calls = [(times.opening_call, times.open), (times.closing_call, times.close)];
            entries.extend(calls.map(|(at, until)| Entry {
                at,
                repeat: Some(Repeat { every_ns: times.indicative_every_ns, until }),
                command: command(CommandKind::PublishIndicative, 0),
            }));
        }
        Plan { entries, weekdays: Plan::WORKING_DAYS, holidays: Vec::new() }
    }

    /// A venue that never closes: every day rolls over into the next at a time of its clock, and
    /// orders whose date is past have expired then.
    pub fn never_closing(roll_at: u64) -> Plan {
        let entry =
            |kind, param| Entry { at: roll_at, repeat: None, command: command(kind, param) };
        let entries = vec![entry(CommandKind::ExpireOrders, 0), entry(CommandKind::EndOfDay, 1)];
        Plan { entries, weekdays: Plan::ALL_DAYS, holidays: Vec::new() }
    }

    /// With a batch auction at every interval from one time of the day to before another.
    pub fn with_batches(mut self, from: u64, until: u64, every_ns: u64) -> Plan {
        let repeat = Some(Repeat { every_ns, until });
        // The first interval ends after it has begun.
        let at = from.saturating_add(every_ns);
        let command = command(CommandKind::Uncross, 0);
        self.entries.push(Entry { at, repeat, command });
        self
    }

    fn check(&self) -> Result<(), PlanError> {
        if self.entries.len() > ENTRIES_MAX {
            return Err(PlanError::TooLong(self.entries.len()));
        }
        let sound = |entry: &Entry| {
            entry.at < DAY_NS
                && entry.repeat.is_none_or(|repeat| repeat.every_ns > 0 && repeat.until <= DAY_NS)
        };
        match self.entries.iter().position(|entry| !sound(entry)) {
            Some(index) => Err(PlanError::Entry(index)),
            None => Ok(()),
        }
    }

    fn trades_on(&self, day: i64) -> bool {
        // 1970-01-01 was a Thursday.
        let weekday = (day + 3).rem_euclid(7);
        self.weekdays >> weekday & 1 == 1 && !self.holidays.contains(&day)
    }
}

/// A plan under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    plan: Plan,
    zone: Zone,
    /// By entry: when it is due next and on which day of the venue.
    next: Vec<Option<(Nanos, i64)>>,
    /// The earliest of them and its entry.
    first: Option<(Nanos, usize)>,
}

impl Schedule {
    /// Follows a plan from an instant on; what was due before it is not made up for.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(plan: Plan, zone: Zone, from: Nanos) -> Result<Schedule, PlanError> {
        plan.check()?;
        let mut schedule = Schedule { next: Vec::new(), plan, zone, first: None };
        // The day before may have times that the clock shows after midnight's jump.
        let today = schedule.zone.day_of(from) - 1;
        for index in 0..schedule.plan.entries.len() {
            let mut due = schedule.due_from(index, today);
            while let Some((at, day)) = due.filter(|(at, _)| *at < from) {
                due = schedule.after(index, at, day, from.0 - 1);
            }
            schedule.next.push(due);
        }
        schedule.find_first();
        Ok(schedule)
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Nanos> {
        self.first.map(|(due, _)| due)
    }

    /// The next command that is due by `now`; ask again until there is none. Repetitions that were
    /// missed by being asked late are left out, but for one.
    pub fn pop_due(&mut self, now: Nanos) -> Option<Command> {
        let (due, index) = self.first.filter(|(due, _)| *due <= now)?;
        let (_, day) = self.next[index]?;
        self.next[index] = self.after(index, due, day, now.0);
        self.find_first();
        Some(self.plan.entries[index].command)
    }

    /// Venue midnight of the day that an instant lies in, for formats that count from it.
    pub fn midnight_before(&self, at: Nanos) -> Option<Nanos> {
        self.zone.midnight(self.zone.day_of(at))
    }

    fn find_first(&mut self) {
        let due = self.next.iter().enumerate();
        self.first = due.filter_map(|(index, next)| Some(((*next)?.0, index))).min();
    }

    /// When an entry is due on the first day of trading from `day` on.
    fn due_from(&self, index: usize, day: i64) -> Option<(Nanos, i64)> {
        let day = (day..day + LOOK_AHEAD).find(|&day| self.plan.trades_on(day))?;
        Some((self.zone.at(day, self.plan.entries[index].at)?, day))
    }

    /// When an entry is due after it was due at `due`, if it has been dealt with up to `now`.
    fn after(&self, index: usize, due: Nanos, day: i64, now: u64) -> Option<(Nanos, i64)> {
        let entry = &self.plan.entries[index];
        if let Some(repeat) = entry.repeat {
            let missed = now.saturating_sub(due.0) / repeat.every_ns;
            let next = due.0.saturating_add((missed + 1).saturating_mul(repeat.every_ns));
            if self.zone.at(day, repeat.until).is_some_and(|until| next < until.0) {
                return Some((Nanos(next), day));
            }
        }
        self.due_from(index, day + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600 * Nanos::SECOND;

    /// New York in 2026: an hour forward on 8 March at 07:00 UTC, back on 1 November at 06:00 UTC.
    fn new_york() -> Zone {
        let (march, november) = (day(2026, 2, 7) + 7 * HOUR, day(2026, 10, 0) + 6 * HOUR);
        Zone::new(-5 * 3_600, &[(march, -4 * 3_600), (november, -5 * 3_600)]).expect("ascending")
    }

    /// Midnight UTC of a day given by month and day, both from 0, of a year that is no leap year.
    fn day(year: u64, month: usize, day: u64) -> Nanos {
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month];
        let leap_days = (year - 1969) / 4;
        Nanos(((year - 1970) * 365 + leap_days + before + day) * DAY_NS)
    }

    #[test]
    fn days_have_23_and_25_hours() {
        let zone = new_york();
        let length = |utc_noon: Nanos| {
            let day = zone.day_of(utc_noon + 12 * HOUR);
            let of = |day| zone.midnight(day).expect("in range");
            (of(day + 1) - of(day)) / HOUR
        };
        assert_eq!(length(day(2026, 2, 6)), 24);
        assert_eq!(length(day(2026, 2, 7)), 23);
        assert_eq!(length(day(2026, 10, 0)), 25);
        assert_eq!(length(day(2026, 10, 1)), 24);
        let utc = Zone::utc();
        assert_eq!(utc.midnight(3), Some(Nanos(3 * DAY_NS)));
    }

    fn run(plan: Plan, from: Nanos, until: Nanos) -> Vec<(Nanos, CommandKind, u8)> {
        let mut schedule = Schedule::new(plan, new_york(), from).expect("a sound plan");
        let mut seen = Vec::new();
        while let Some(due) = schedule.next_due().filter(|due| *due < until) {
            assert_eq!(schedule.pop_due(Nanos(due.0 - 1)), None, "not before its time");
            let command = schedule.pop_due(due).expect("due");
            seen.push((due, command.kind, command.param));
        }
        assert!(seen.is_sorted_by_key(|(due, ..)| *due));
        seen
    }

    #[test]
    fn the_clock_of_the_venue_opens_and_closes() {
        let times = DayTimes {
            pre_open: 8 * HOUR,
            opening_call: 9 * HOUR,
            open: 9 * HOUR + HOUR / 2,
            closing_call: 16 * HOUR,
            close: 16 * HOUR + HOUR / 12,
            end: 17 * HOUR,
            indicative_every_ns: HOUR / 4,
        };
        // Friday to Monday around the change of 8 March, a Sunday.
        let plan = Plan::with_auctions(&times);
        let seen = run(plan, day(2026, 2, 5) + 5 * HOUR, day(2026, 2, 9) + 4 * HOUR);
        let continuous = |(_, kind, param): &&(Nanos, CommandKind, u8)| {
            (*kind, *param) == (CommandKind::SetPhase, Phase::Continuous as u8)
        };
        let opened: Vec<Nanos> = seen.iter().filter(continuous).map(|seen| seen.0).collect();
        let half_past = 9 * HOUR + HOUR / 2;
        let friday = day(2026, 2, 5) + 5 * HOUR + half_past;
        let monday = day(2026, 2, 8) + 4 * HOUR + half_past;
        assert_eq!(opened, [friday, monday], "not at the weekend, and by the new clock");
        // Each day: seven steps, two indicative prices in the opening call, one in the closing.
        assert_eq!(seen.len(), 2 * (7 + 2 + 1));
        assert_eq!(seen[0].1, CommandKind::ExpireOrders);
        assert_eq!(seen[1], (seen[0].0, CommandKind::StartOfDay, 1));
    }

    #[test]
    fn a_skipped_time_is_due_at_the_skip_and_a_repeated_one_once() {
        let at_half_past = |hour: u64| Plan::never_closing(hour * HOUR + HOUR / 2);
        // 02:30 does not exist on 8 March: the clock goes from 02:00 to 03:00 at 07:00 UTC.
        let seen = run(at_half_past(2), day(2026, 2, 7) + 5 * HOUR, day(2026, 2, 8) + 4 * HOUR);
        assert_eq!(seen.len(), 2, "expiry and roll, once");
        assert_eq!(seen[1].0, day(2026, 2, 7) + 7 * HOUR);
        // 01:30 comes twice on 1 November: at 05:30 and at 06:30 UTC.
        let seen = run(at_half_past(1), day(2026, 10, 0) + 4 * HOUR, day(2026, 10, 1) + 5 * HOUR);
        assert_eq!(seen.len(), 2, "once on a day of 25 hours");
        assert_eq!(seen[1].0, day(2026, 10, 0) + 5 * HOUR + HOUR / 2);
        assert_eq!(seen[1].2, 1, "rolls without a halt");
    }

    #[test]
    fn batches_come_at_their_interval_and_are_not_made_up_for() {
        let second = Nanos::SECOND;
        let plan = Plan { entries: vec![], ..Plan::never_closing(0) };
        let plan = plan.with_batches(10 * HOUR, 11 * HOUR, second);
        let from = day(2026, 5, 1) + 4 * HOUR;
        let seen = run(plan.clone(), from, from + DAY_NS);
        assert_eq!(seen.len(), 3_599);
        assert_eq!(seen[0].0, from + 10 * HOUR + second);

        let mut late = Schedule::new(plan, new_york(), from).expect("a sound plan");
        let now = from + 10 * HOUR + 90 * second + second / 2;
        assert!(late.pop_due(now).is_some());
        assert_eq!(late.pop_due(now), None, "one for all that were missed");
        assert_eq!(late.next_due(), Some(from + 10 * HOUR + 91 * second));
        let begun = Schedule::new(late.plan.clone(), new_york(), now).expect("a sound plan");
        assert_eq!(begun.next_due(), Some(from + 10 * HOUR + 91 * second));
    }

    #[test]
    fn what_can_not_be_followed_is_named() {
        let mut plan = Plan::never_closing(DAY_NS);
        let follow = |plan: &Plan| Schedule::new(plan.clone(), Zone::utc(), Nanos(0)).map(|_| ());
        assert_eq!(follow(&plan), Err(PlanError::Entry(0)));
        plan = Plan::never_closing(0).with_batches(0, DAY_NS, 0);
        assert_eq!(follow(&plan), Err(PlanError::Entry(2)));
        plan.entries = vec![plan.entries[0]; ENTRIES_MAX + 1];
        assert_eq!(follow(&plan), Err(PlanError::TooLong(ENTRIES_MAX + 1)));
        assert_eq!(Zone::new(0, &[(Nanos(5), 0), (Nanos(5), 0)]), None);
        let never = Plan { weekdays: 0, ..Plan::never_closing(0) };
        let idle = Schedule::new(never, Zone::utc(), Nanos(0)).expect("a sound plan");
        assert_eq!(idle.next_due(), None);
    }
}
