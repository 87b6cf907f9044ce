//! The venue's day as data: which command is due when, on days of 23, 24 and 25 hours.
//!
//! A plan says what happens at which time of the venue's clock. [`Zone`] says what that clock
//! shows; its changes (summer time) are data too. A planned time that the clock skips is due at
//! the skip, one that it shows twice is due the first time: each entry happens once a day, in
//! the order of the plan's times. A day that closes early has its closing entries moved, and leaves
//! out what would come after them. A day that was missed as a whole is not made up for; what one
//! that has begun still lacks is. Nothing here acts: the root asks [`Schedule::next_due`], logs
//! what [`Schedule::pop_due`] gives, and the log is the truth from then on (corner 5).

use types::{ClOrdId, Command, CommandKind, InstrumentId, Nanos, Packer, Phase, Unpacker};

/// Nanoseconds of a day of 24 hours.
pub const DAY_NS: u64 = 86_400 * Nanos::SECOND;
/// Most entries of a plan.
pub const ENTRIES_MAX: usize = 256;
/// Days that are looked ahead for one that is traded on.
const LOOK_AHEAD: i64 = 400;

const _: () = assert!(LOOK_AHEAD > 366, "a day that is traded once a year is found");

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
    /// It moves with the close, on days that close early.
    pub closing: bool,
    /// What is due.
    pub command: Command,
}

/// A day that closes early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EarlyClose {
    /// The day, counted from 1970-01-01.
    pub day: i64,
    /// How much earlier than on other days its closing entries are due, ns.
    pub earlier_ns: u64,
}

/// What happens on every day of trading.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Entries; those of the same instant are due in this order.
    pub entries: Vec<Entry>,
    /// Bit per day of the week, Monday first: traded on.
    pub weekdays: u8,
    /// Days without trading, counted from 1970-01-01.
    pub holidays: Vec<i64>,
    /// Days that close early.
    pub early_closes: Vec<EarlyClose>,
}

/// Why a plan can't be followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// More than [`ENTRIES_MAX`] entries.
    TooLong(usize),
    /// The entry at this index has a time beyond the day, or a repetition that never ends.
    Entry(usize),
    /// The early close at this index would be before the day begins.
    EarlyClose(usize),
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
            PlanError::EarlyClose(index) => {
                write!(f, "early close {}: before the day begins", index + 1)
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

/// What names the schedule's commands in the log.
const NAME: ClOrdId = ClOrdId(*b"schedule      ");

/// A command of the schedule: `cl_ord_id` says so in the log.
pub fn command(kind: CommandKind, param: u8) -> Command {
    Command { param, cl_ord_id: NAME, ..Command::new(kind) }
}

impl Plan {
    /// Every day of the week.
    pub const ALL_DAYS: u8 = 0x7f;
    /// Monday to Friday.
    pub const WORKING_DAYS: u8 = 0x1f;

    /// The day of a venue with an opening and a closing auction.
    pub fn with_auctions(times: &DayTimes) -> Plan {
        let opening = |at, command| Entry { at, repeat: None, closing: false, command };
        let closing = |at, command| Entry { closing: true, ..opening(at, command) };
        let phase = |phase: Phase| command(CommandKind::SetPhase, phase as u8);
        let mut entries = vec![
            opening(times.pre_open, command(CommandKind::ExpireOrders, 0)),
            opening(times.pre_open, command(CommandKind::StartOfDay, 1)),
            opening(times.opening_call, phase(Phase::OpeningCall)),
            opening(times.open, phase(Phase::Continuous)),
            closing(times.closing_call, phase(Phase::ClosingCall)),
            closing(times.close, phase(Phase::Closed)),
            closing(times.end, command(CommandKind::EndOfDay, 0)),
        ];
        if times.indicative_every_ns > 0 {
            let calls =
                [(times.opening_call, times.open, false), (times.closing_call, times.close, true)];
            entries.extend(calls.map(|(at, until, closing)| Entry {
                at,
                repeat: Some(Repeat { every_ns: times.indicative_every_ns, until }),
                closing,
                command: command(CommandKind::PublishIndicative, 0),
            }));
        }
        Plan { entries, weekdays: Plan::WORKING_DAYS, ..Plan::default() }
    }

    /// With a change of phase of one instrument (0: of all) at a time of every day that it comes
    /// before the close, after what is due then already.
    pub fn with_phase(mut self, at: u64, instrument: InstrumentId, phase: Phase) -> Plan {
        let command = Command { instrument, ..command(CommandKind::SetPhase, phase as u8) };
        self.entries.push(Entry { at, repeat: None, closing: false, command });
        self
    }

    /// A venue that never closes: every day rolls over into the next at a time of its clock, and
    /// orders whose date is past have expired then.
    pub fn never_closing(roll_at: u64) -> Plan {
        let entry = |kind, param| {
            let command = command(kind, param);
            Entry { at: roll_at, repeat: None, closing: false, command }
        };
        let entries = vec![entry(CommandKind::ExpireOrders, 0), entry(CommandKind::EndOfDay, 1)];
        Plan { entries, weekdays: Plan::ALL_DAYS, ..Plan::default() }
    }

    /// With a batch auction at every interval from one time of the day to before another.
    pub fn with_batches(mut self, from: u64, until: u64, every_ns: u64) -> Plan {
        let repeat = Some(Repeat { every_ns, until });
        // The first interval ends after it has begun.
        let at = from.saturating_add(every_ns);
        let command = command(CommandKind::Uncross, 0);
        self.entries.push(Entry { at, repeat, closing: false, command });
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
        if let Some(index) = self.entries.iter().position(|entry| !sound(entry)) {
            return Err(PlanError::Entry(index));
        }
        let first = self.first_closing().unwrap_or(0);
        match self.early_closes.iter().position(|early| early.earlier_ns > first) {
            Some(index) => Err(PlanError::EarlyClose(index)),
            None => Ok(()),
        }
    }

    /// When the first closing entry of an ordinary day is due.
    fn first_closing(&self) -> Option<u64> {
        self.entries.iter().filter(|entry| entry.closing).map(|entry| entry.at).min()
    }

    /// When an entry is due on a day and, where it repeats, before when the last time; `None`: not
    /// on this day.
    fn times(&self, index: usize, day: i64) -> Option<(u64, u64)> {
        let entry = self.entries.get(index).filter(|_| self.trades_on(day))?;
        let until = entry.repeat.map_or(0, |repeat| repeat.until);
        let Some(early) = self.early_closes.iter().find(|early| early.day == day) else {
            return Some((entry.at, until));
        };
        let sooner = |time: u64| time.saturating_sub(early.earlier_ns);
        if entry.closing {
            return Some((sooner(entry.at), sooner(until)));
        }
        let closes = self.first_closing().map_or(u64::MAX, sooner);
        (entry.at < closes).then_some((entry.at, until.min(closes)))
    }

    /// Every day begins and ends; otherwise one goes over into the next.
    fn begins_days(&self) -> bool {
        self.entries.iter().any(|entry| entry.command.kind == CommandKind::StartOfDay)
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
        self.skip_missed(now);
        let (due, index) = self.first.filter(|(due, _)| *due <= now)?;
        let (at, day) = self.next[index]?;
        assert_eq!(at, due, "the first is one of the next");
        self.next[index] = self.after(index, due, day, now.0);
        self.find_first();
        Some(self.plan.entries[index].command)
    }

    /// Somebody else has given a command at `at`: if it is what is due here first, it is done here,
    /// too.
    pub fn passed(&mut self, at: Nanos, given: &Command) {
        if given.cl_ord_id != NAME {
            return;
        }
        self.skip_missed(at);
        let due = self.first.filter(|(due, _)| *due <= at);
        let command = due.and_then(|(_, index)| self.plan.entries.get(index));
        if command.is_some_and(|entry| entry.command == *given) {
            self.pop_due(at);
        }
    }

    /// Passes over days of which nothing was done and nothing is left to do, and all but the last
    /// of those that only go over into the next.
    fn skip_missed(&mut self, now: Nanos) {
        while let Some((_, first)) = self.first.filter(|(due, _)| *due <= now) {
            let Some((_, day)) = self.next[first] else { return };
            let missed = match self.plan.begins_days() {
                true => self.is_untouched(day) && self.ends_by(day, now),
                false => self
                    .on_day(day)
                    .all(|index| self.due_from(index, day + 1).is_some_and(|(due, _)| due <= now)),
            };
            if !missed {
                return;
            }
            let entries: Vec<usize> = self.on_day(day).collect();
            for index in entries {
                self.next[index] = self.due_from(index, day + 1);
            }
            self.find_first();
        }
    }

    /// Entries that are due next on this day.
    fn on_day(&self, day: i64) -> impl Iterator<Item = usize> {
        let next = self.next.iter().enumerate();
        next.filter(move |(_, next)| next.is_some_and(|(_, of)| of == day)).map(|(index, _)| index)
    }

    /// Nothing of a day has been given.
    fn is_untouched(&self, day: i64) -> bool {
        (0..self.next.len()).all(|index| match self.plan.times(index, day) {
            Some((at, _)) => self.next[index] == self.zone.at(day, at).map(|at| (at, day)),
            None => true,
        })
    }

    /// The last entry of a day is due by `now`.
    fn ends_by(&self, day: i64, now: Nanos) -> bool {
        let times = (0..self.next.len()).filter_map(|index| self.plan.times(index, day));
        let last = times.map(|(at, until)| at.max(until)).max();
        last.and_then(|last| self.zone.at(day, last)).is_some_and(|end| end <= now)
    }

    /// How far it is, for a start that goes on with it.
    pub fn pack(&self, to: &mut Packer<'_>) {
        to.count(self.next.len());
        for next in &self.next {
            let (at, day) = next.unwrap_or((Nanos::NEVER, i64::MAX));
            to.u64(at.0);
            to.u64(day as u64);
        }
    }

    /// Goes on where one of the same entries was packed; days are those of this plan, which may have
    /// other holidays and hours. `None` for anything that none packs.
    pub fn unpack(&mut self, from: &mut Unpacker<'_>) -> Option<()> {
        if from.count(16)? != self.next.len() {
            return None;
        }
        for index in 0..self.next.len() {
            let (at, day) = (Nanos(from.u64()?), from.u64()? as i64);
            let repeats = self.plan.entries[index].repeat.is_some();
            let same = repeats && self.plan.times(index, day).is_some();
            self.next[index] = match at {
                Nanos::NEVER => None,
                at if same => Some((at, day)),
                _ => self.due_from(index, day),
            };
        }
        self.find_first();
        Some(())
    }

    /// The commands of its plan.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.plan.entries.iter().map(|entry| &entry.command)
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
        let days = day..day.saturating_add(LOOK_AHEAD);
        let (day, time) =
            days.into_iter().find_map(|day| Some((day, self.plan.times(index, day)?.0)))?;
        Some((self.zone.at(day, time)?, day))
    }

    /// When an entry is due after it was due at `due`, if it has been dealt with up to `now`.
    fn after(&self, index: usize, due: Nanos, day: i64, now: u64) -> Option<(Nanos, i64)> {
        let entry = &self.plan.entries[index];
        if let Some(repeat) = entry.repeat {
            let missed = now.saturating_sub(due.0) / repeat.every_ns;
            let next = due.0.saturating_add((missed + 1).saturating_mul(repeat.every_ns));
            let until = self.plan.times(index, day).map_or(0, |(_, until)| until);
            if self.zone.at(day, until).is_some_and(|until| next < until.0) {
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
        // Friday to Monday around the change of 8 March, a Sunday.
        let plan = Plan::with_auctions(&times());
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

    fn times() -> DayTimes {
        DayTimes {
            pre_open: 8 * HOUR,
            opening_call: 9 * HOUR,
            open: 9 * HOUR + HOUR / 2,
            closing_call: 16 * HOUR,
            close: 16 * HOUR + HOUR / 12,
            end: 17 * HOUR,
            indicative_every_ns: HOUR / 4,
        }
    }

    #[test]
    fn holidays_early_closes_and_summer_time_make_a_week() {
        // Thanksgiving 2026: Thursday 26 November is a holiday, Friday closes at 13:05. A break from
        // 12:00 to 12:30 and a call at 15:00 that Friday has not.
        let thursday = (day(2026, 10, 25).0 / DAY_NS) as i64;
        let early = EarlyClose { day: thursday + 1, earlier_ns: 3 * HOUR };
        let all = InstrumentId(0);
        let plan = Plan {
            holidays: vec![thursday],
            early_closes: vec![early],
            ..Plan::with_auctions(&times())
        };
        let plan = plan
            .with_phase(12 * HOUR, all, Phase::Halt)
            .with_phase(12 * HOUR + HOUR / 2, all, Phase::Continuous)
            .with_phase(15 * HOUR, all, Phase::VolatilityCall);
        // From Wednesday 00:00 to Saturday 00:00 in New York, five hours behind UTC.
        let zone = 5 * HOUR;
        let seen = run(plan, day(2026, 10, 24) + zone, day(2026, 10, 27) + zone);
        let hours = |of: u64| -> Vec<(u64, u8)> {
            let from = day(2026, 10, of) + zone;
            let phases = seen.iter().filter(|(due, kind, _)| {
                *kind == CommandKind::SetPhase && *due >= from && *due < from + DAY_NS
            });
            phases.map(|(due, _, param)| ((due.0 - from.0) / (HOUR / 12), *param)).collect()
        };
        let [opening, continuous, halt, call, closing, closed] = [
            Phase::OpeningCall,
            Phase::Continuous,
            Phase::Halt,
            Phase::VolatilityCall,
            Phase::ClosingCall,
            Phase::Closed,
        ]
        .map(|phase| phase as u8);
        let morning = [(108, opening), (114, continuous), (144, halt), (150, continuous)];
        let wednesday = [&morning[..], &[(180, call), (192, closing), (193, closed)]].concat();
        assert_eq!(hours(24), wednesday);
        assert_eq!(hours(25), [], "a holiday");
        let friday = [&morning[..], &[(156, closing), (157, closed)]].concat();
        assert_eq!(hours(26), friday, "an early close, and what comes after it is left out");
        let ends = seen.iter().filter(|(_, kind, _)| *kind == CommandKind::EndOfDay);
        let ends: Vec<u64> = ends.map(|(due, ..)| (due.0 - zone) % DAY_NS / HOUR).collect();
        assert_eq!(ends, [17, 14]);
        // Indicative prices: two in the opening calls, one in each closing call.
        let indicative =
            |seen: &&(Nanos, CommandKind, u8)| seen.1 == CommandKind::PublishIndicative;
        assert_eq!(seen.iter().filter(indicative).count(), 6);
        // The plan of the days around 8 March opens by the new clock; see the test above.
    }

    #[test]
    fn a_day_that_has_begun_is_ended_and_one_that_was_missed_is_not_made_up_for() {
        let kinds = |schedule: &mut Schedule, now: Nanos| -> Vec<(CommandKind, u8)> {
            let due = std::iter::from_fn(|| schedule.pop_due(now));
            due.map(|command| (command.kind, command.param)).collect()
        };
        let monday = day(2026, 5, 0) + 4 * HOUR;
        let begin =
            || Schedule::new(Plan::with_auctions(&times()), new_york(), monday).expect("sound");
        let phase = |phase: Phase| (CommandKind::SetPhase, phase as u8);
        let opened = [
            (CommandKind::ExpireOrders, 0),
            (CommandKind::StartOfDay, 1),
            phase(Phase::OpeningCall),
            (CommandKind::PublishIndicative, 0),
            phase(Phase::Continuous),
        ];
        // Who starts at noon opens at once.
        let mut late = begin();
        assert_eq!(kinds(&mut late, monday + 12 * HOUR), opened);
        // Who was away until the next noon ends the day and begins the next.
        let closed = [
            phase(Phase::ClosingCall),
            (CommandKind::PublishIndicative, 0),
            phase(Phase::Closed),
            (CommandKind::EndOfDay, 0),
        ];
        let tuesday = monday + DAY_NS;
        assert_eq!(kinds(&mut late.clone(), tuesday + 12 * HOUR), [&closed[..], &opened].concat());
        // Who starts after the end of the day waits for the next one; two days away are none, too.
        for (mut schedule, now) in
            [(begin(), 0), (late.clone(), 2)].map(|(s, n)| (s, monday + n * DAY_NS + 20 * HOUR))
        {
            let done = kinds(&mut schedule, now);
            assert!(done.is_empty() || done == closed, "{done:?}");
            assert_eq!(schedule.next_due(), Some(Nanos(now.0 - 20 * HOUR + DAY_NS + 8 * HOUR)));
        }
        // What another one gave is done here, too, missed days included; others' commands are not.
        let (mut leads, mut follows) = (late.clone(), late);
        let now = tuesday + DAY_NS + 12 * HOUR;
        while let Some(command) = leads.pop_due(now) {
            follows.passed(now, &Command { cl_ord_id: ClOrdId::default(), ..command });
            follows.passed(now, &command);
        }
        assert_eq!(follows, leads);
        // A venue that never closes rolls once, however many rolls were missed.
        let mut rolls =
            Schedule::new(Plan::never_closing(17 * HOUR), new_york(), monday).expect("sound");
        let roll = [(CommandKind::ExpireOrders, 0), (CommandKind::EndOfDay, 1)];
        assert_eq!(kinds(&mut rolls, monday + 3 * DAY_NS + 20 * HOUR), roll);
    }

    #[test]
    fn a_schedule_goes_on_where_it_was_packed_by_the_new_calendar() {
        let monday = day(2026, 5, 0) + 4 * HOUR;
        let mut old =
            Schedule::new(Plan::with_auctions(&times()), new_york(), monday).expect("sound");
        while old.pop_due(monday + 20 * HOUR).is_some() {}
        while old.pop_due(monday + 9 * HOUR).is_some() {}
        let mut bytes = Vec::new();
        old.pack(&mut Packer::new(&mut bytes));
        let fresh = |holidays: Vec<i64>| {
            let plan = Plan { holidays, ..Plan::with_auctions(&times()) };
            Schedule::new(plan, new_york(), monday).expect("sound")
        };
        let mut same = fresh(Vec::new());
        assert_eq!(same.unpack(&mut Unpacker::new(&bytes)), Some(()));
        assert_eq!(same, old);
        let tuesday = (day(2026, 5, 1).0 / DAY_NS) as i64;
        let mut other = fresh(vec![tuesday]);
        assert_eq!(other.unpack(&mut Unpacker::new(&bytes)), Some(()));
        assert_eq!(other.next_due(), Some(monday + 2 * DAY_NS + 8 * HOUR));
        let mut rolls = Schedule::new(Plan::never_closing(0), Zone::utc(), monday).expect("sound");
        assert_eq!(rolls.unpack(&mut Unpacker::new(&bytes)), None, "of other entries");
        for short in 0..bytes.len() {
            assert_eq!(fresh(Vec::new()).unpack(&mut Unpacker::new(&bytes[..short])), None);
        }
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
