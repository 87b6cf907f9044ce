//! `[calendar]`: the venue's sessions by its own clock: time zone, hours, holidays, early closes.

use engine::schedule::{DAY_NS, DayTimes, EarlyClose, Plan, Schedule, Zone};
use jiff::Timestamp;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::{Offset, TimeZone};
use serde::{Deserialize, Serialize};
use types::{InstrumentId, Nanos, Phase};

use super::Config;
use super::load::Both;

/// No calendar, and empty lists.
pub const NONE: &str = "none";
/// Whether days end.
pub const DAYS: &[&str] = &["sessions", "never-closing"];
/// Changes of a zone's offset that are known ahead: two a year for a century.
const CHANGES_MAX: usize = 200;

/// The venue's sessions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Calendar {
    /// Time zone of all times here: an IANA name like `America/New_York`, `UTC`, a fixed offset like
    /// `+05:30`, or `none`: there is no calendar, the day is as `[day]` says.
    pub zone: String,
    /// `sessions`: days begin and end. `never-closing`: a day goes over into the next at `end`.
    pub days: String,
    /// Days of the week that are traded on.
    pub weekdays: String,
    /// The day begins; orders are collected.
    pub pre_open: String,
    /// The opening call; indicative prices.
    pub opening_call: String,
    /// The opening auction; orders trade as they come.
    pub open: String,
    /// The closing call.
    pub closing_call: String,
    /// The closing auction; nothing more trades.
    pub close: String,
    /// The day ends: day orders expire.
    pub end: String,
    /// Breaks of every day: `12:00-12:30`, separated by commas.
    pub halts: String,
    /// Days without trading: `2026-12-25`, separated by commas.
    pub holidays: String,
    /// Days that close early, and when: `2026-12-24 13:00`, separated by commas.
    pub early_closes: String,
}

impl Default for Calendar {
    fn default() -> Self {
        let text = str::to_string;
        Calendar {
            zone: text(NONE),
            days: text(DAYS[0]),
            weekdays: text("mon tue wed thu fri"),
            pre_open: text("08:00"),
            opening_call: text("09:00"),
            open: text("09:30"),
            closing_call: text("16:00"),
            close: text("16:05"),
            end: text("17:00"),
            halts: text(NONE),
            holidays: text(NONE),
            early_closes: text(NONE),
        }
    }
}

/// Which key is wrong, and how.
type Wrong = (&'static str, String);

impl Calendar {
    /// Whether the day follows it.
    pub fn is_on(&self) -> bool {
        self.zone != NONE
    }

    /// Whether it begins and ends days.
    pub fn begins_days(&self) -> bool {
        self.is_on() && self.days == DAYS[0]
    }

    /// The schedule from the venue's midnight before `from` on; `None` without a calendar.
    /// Instruments with batch auctions, by number, trade in batches.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    pub fn schedule(
        &self,
        from: Nanos,
        batches: impl Iterator<Item = InstrumentId>,
    ) -> Result<Option<Schedule>, Wrong> {
        if !self.is_on() {
            return Ok(None);
        }
        let zone = zone(&self.zone, from)?;
        let plan = match self.days == DAYS[0] {
            true => self.sessions(batches)?,
            false => Plan::never_closing(time("calendar.end", &self.end)?),
        };
        let midnight = zone.midnight(zone.day_of(from)).unwrap_or(from);
        let schedule = Schedule::new(plan, zone, midnight);
        schedule.map(Some).map_err(|error| ("calendar.early_closes", error.to_string()))
    }

    /// The date, `2026-11-27`, that the venue's clock shows; by UTC without a calendar.
    pub fn date(&self, at: Nanos) -> String {
        let shown = if self.is_on() { zone(&self.zone, at).ok() } else { None };
        let day = shown.unwrap_or_else(Zone::utc).day_of(at);
        let second = day.saturating_mul((DAY_NS / Nanos::SECOND) as i64);
        let date = Timestamp::from_second(second).map(|of| of.strftime("%Y-%m-%d").to_string());
        date.unwrap_or_default()
    }

    fn sessions(&self, batches: impl Iterator<Item = InstrumentId>) -> Result<Plan, Wrong> {
        let [pre_open, opening_call, open, closing_call, close, end] = [
            ("calendar.pre_open", &self.pre_open),
            ("calendar.opening_call", &self.opening_call),
            ("calendar.open", &self.open),
            ("calendar.closing_call", &self.closing_call),
            ("calendar.close", &self.close),
            ("calendar.end", &self.end),
        ]
        .map(|(key, text)| time(key, text).map(|at| (key, at)));
        let steps = [pre_open?, opening_call?, open?, closing_call?, close?, end?];
        for pair in steps.windows(2) {
            let ((before, first), (key, second)) = (pair[0], pair[1]);
            if first > second {
                return Err((key, format!("must not be before {before}")));
            }
        }
        let [pre_open, opening_call, open, closing_call, close, end] = steps.map(|(_, at)| at);
        let indicative_every_ns = 0;
        let times = DayTimes {
            pre_open,
            opening_call,
            open,
            closing_call,
            close,
            end,
            indicative_every_ns,
        };
        let mut plan = Plan {
            weekdays: weekdays(&self.weekdays)?,
            holidays: dates("calendar.holidays", &self.holidays)?,
            early_closes: self.early(open, closing_call, close)?,
            ..Plan::with_auctions(&times)
        };
        let batches: Vec<InstrumentId> = batches.collect();
        let resume = |mut plan: Plan, at: u64| {
            for instrument in &batches {
                plan = plan.with_phase(at, *instrument, Phase::Batch);
            }
            plan
        };
        plan = resume(plan, open);
        for (from, until) in self.breaks(open, closing_call)? {
            plan = plan.with_phase(from, InstrumentId(0), Phase::Halt);
            plan = plan.with_phase(until, InstrumentId(0), Phase::Continuous);
            plan = resume(plan, until);
        }
        Ok(plan)
    }

    fn breaks(&self, open: u64, closing_call: u64) -> Result<Vec<(u64, u64)>, Wrong> {
        const KEY: &str = "calendar.halts";
        let mut breaks = Vec::new();
        let mut last = open;
        for text in list(&self.halts) {
            let (from, until) = text.split_once('-').ok_or_else(|| {
                (KEY, format!("{text:?}: write when it begins and ends, like 12:00-12:30"))
            })?;
            let (from, until) = (time(KEY, from)?, time(KEY, until)?);
            if from < last || until <= from || until > closing_call {
                let why = "must follow each other between calendar.open and calendar.closing_call";
                return Err((KEY, format!("{text:?}: breaks {why}")));
            }
            last = until;
            breaks.push((from, until));
        }
        Ok(breaks)
    }

    fn early(&self, open: u64, call: u64, close: u64) -> Result<Vec<EarlyClose>, Wrong> {
        const KEY: &str = "calendar.early_closes";
        let mut found = Vec::new();
        for text in list(&self.early_closes) {
            let (date, at) = text.split_once(' ').ok_or_else(|| {
                (KEY, format!("{text:?}: write a day and a time, like 2026-12-24 13:00"))
            })?;
            let at = time(KEY, at.trim())?;
            let earlier_ns = close.saturating_sub(at);
            if earlier_ns == 0 || call.saturating_sub(earlier_ns) < open {
                let why = "with its closing call after calendar.open";
                return Err((KEY, format!("{text:?}: must be before calendar.close, {why}")));
            }
            found.push(EarlyClose { day: day(KEY, date)?, earlier_ns });
        }
        Ok(found)
    }
}

/// What is between commas.
fn list(text: &str) -> impl Iterator<Item = &str> {
    let some = (text != NONE).then_some(text);
    some.into_iter().flat_map(|text| text.split(',')).map(str::trim)
}

/// Nanoseconds since midnight of `HH:MM` or `HH:MM:SS`.
fn time(key: &'static str, text: &str) -> Result<u64, Wrong> {
    let wrong = || (key, format!("{text:?}: write a time of the day, like 09:30 or 09:30:15"));
    let time: Time = text.trim().parse().map_err(|_| wrong())?;
    let seconds = i64::from(time.hour()) * 3_600 + i64::from(time.minute()) * 60;
    let seconds = u64::try_from(seconds + i64::from(time.second())).map_err(|_| wrong())?;
    Ok(seconds * Nanos::SECOND)
}

/// A date as the number of its day since 1970-01-01.
fn day(key: &'static str, text: &str) -> Result<i64, Wrong> {
    let date: Date = text
        .trim()
        .parse()
        .map_err(|_| (key, format!("{text:?}: write a day as year-month-day, like 2026-12-25")))?;
    let midnight = TimeZone::UTC.to_timestamp(date.at(0, 0, 0, 0));
    let midnight = midnight.map_err(|error| (key, error.to_string()))?;
    Ok(midnight.as_second().div_euclid((DAY_NS / Nanos::SECOND) as i64))
}

fn dates(key: &'static str, text: &str) -> Result<Vec<i64>, Wrong> {
    list(text).map(|date| day(key, date)).collect()
}

fn weekdays(text: &str) -> Result<u8, Wrong> {
    const NAMES: [(&str, Weekday); 7] = [
        ("mon", Weekday::Monday),
        ("tue", Weekday::Tuesday),
        ("wed", Weekday::Wednesday),
        ("thu", Weekday::Thursday),
        ("fri", Weekday::Friday),
        ("sat", Weekday::Saturday),
        ("sun", Weekday::Sunday),
    ];
    let mut bits = 0;
    for word in text.split_whitespace() {
        let found = NAMES.iter().find(|(name, _)| *name == word);
        let (_, day) = found.ok_or_else(|| {
            let why = "write days like mon tue wed thu fri sat sun";
            ("calendar.weekdays", format!("{word:?}: {why}"))
        })?;
        bits |= 1 << day.to_monday_zero_offset();
    }
    Ok(bits)
}

/// A zone and its changes from `from` on, as far as its rules are known.
fn zone(name: &str, from: Nanos) -> Result<Zone, Wrong> {
    const KEY: &str = "calendar.zone";
    let unknown = || (KEY, format!("{name:?}: no IANA time zone and no offset like +05:30"));
    let found = match offset(name) {
        Some(offset) => TimeZone::fixed(offset),
        None => TimeZone::get(name).map_err(|_| unknown())?,
    };
    // From two days before, so that the day of the start is as long as it was.
    let begin = Timestamp::from_second((from.0 / Nanos::SECOND) as i64 - 2 * 86_400);
    let begin = begin.map_err(|error| (KEY, error.to_string()))?;
    let changes = found.following(begin).take(CHANGES_MAX).filter_map(|change| {
        let at = u64::try_from(change.timestamp().as_nanosecond()).ok()?;
        Some((Nanos(at), change.offset().seconds()))
    });
    let changes: Vec<(Nanos, i32)> = changes.collect();
    Zone::new(found.to_offset(begin).seconds(), &changes).ok_or_else(unknown)
}

/// `+05:30`, `-03:00`.
fn offset(text: &str) -> Option<Offset> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = text.strip_prefix(['+', '-'])?.split_once(':')?;
    let number = |text: &str| (text.len() == 2).then(|| text.parse::<i32>().ok())?;
    let (hours, minutes) = (number(hours)?, number(minutes).filter(|minutes| *minutes < 60)?);
    Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).ok()
}

/// What is no calendar.
pub(super) fn relations(config: &Config, both: &mut Both<'_>) {
    // Whatever the day, the same mistakes are found.
    if let Err((key, why)) = config.calendar.schedule(Nanos(DAY_NS * 20_000), std::iter::empty()) {
        both((key, why.clone()), (key, why));
    }
}

#[cfg(test)]
mod tests {
    use types::CommandKind;

    use super::*;

    /// Nanoseconds since the epoch of an instant in RFC 3339.
    fn at(text: &str) -> Nanos {
        Nanos(text.parse::<Timestamp>().expect("an instant").as_nanosecond() as u64)
    }

    fn new_york() -> Calendar {
        Calendar { zone: "America/New_York".to_string(), ..Calendar::default() }
    }

    /// What happens by a calendar from one instant to before another: when, and the phase or what
    /// else it is.
    fn week(calendar: &Calendar, from: &str, until: &str) -> Vec<(String, String)> {
        let batches = [InstrumentId(7)].into_iter();
        let schedule = calendar.schedule(at(from), batches).expect("sound");
        let mut schedule = schedule.expect("a calendar");
        let mut seen = Vec::new();
        while let Some(due) = schedule.next_due().filter(|due| *due < at(until)) {
            let command = schedule.pop_due(due).expect("due");
            let what = match command.kind {
                CommandKind::SetPhase => {
                    let phase = crate::admin::action::PHASES[usize::from(command.param)];
                    format!("{} {phase}", command.instrument.0)
                }
                kind => format!("{kind:?}"),
            };
            let instant = Timestamp::from_nanosecond(i128::from(due.0)).expect("in range");
            seen.push((instant.strftime("%m-%d %H:%M").to_string(), what));
        }
        seen
    }

    #[test]
    fn new_york_around_its_holidays_and_its_clock_changes() {
        let calendar = Calendar {
            halts: "12:00-12:30".to_string(),
            holidays: "2026-11-26, 2026-12-25".to_string(),
            early_closes: "2026-11-27 11:05".to_string(),
            ..new_york()
        };
        // Thanksgiving is a holiday, Friday closes before the break; then a weekend.
        let seen = week(&calendar, "2026-11-26T12:00:00Z", "2026-11-30T14:00:00Z");
        let seen: Vec<(&str, &str)> =
            seen.iter().map(|(at, what)| (at.as_str(), what.as_str())).collect();
        let expected = [
            ("11-27 13:00", "ExpireOrders"),
            ("11-27 13:00", "StartOfDay"),
            ("11-27 14:00", "0 opening"),
            ("11-27 14:30", "0 continuous"),
            ("11-27 14:30", "7 batch"),
            ("11-27 16:00", "0 closing"),
            ("11-27 16:05", "0 closed"),
            ("11-27 17:00", "EndOfDay"),
            ("11-30 13:00", "ExpireOrders"),
            ("11-30 13:00", "StartOfDay"),
        ];
        assert_eq!(seen, expected);
        // An hour earlier by UTC once summer time has begun, on Sunday 8 March.
        let seen = week(&calendar, "2026-03-06T05:00:00Z", "2026-03-10T03:00:00Z");
        let opened =
            |(at, what): &(String, String)| what.starts_with("0 continuous").then(|| at.clone());
        let opened: Vec<String> = seen.iter().filter_map(opened).collect();
        // Opening and the end of the break, on Friday and on Monday.
        assert_eq!(opened, ["03-06 14:30", "03-06 17:30", "03-09 13:30", "03-09 16:30"]);
    }

    #[test]
    fn a_venue_that_never_closes_rolls_by_its_clock() {
        let days = DAYS[1].to_string();
        let calendar = Calendar { days, end: "17:00".to_string(), ..new_york() };
        let seen = week(&calendar, "2026-10-31T05:00:00Z", "2026-11-02T05:00:00Z");
        let rolls: Vec<&str> = seen.iter().map(|(at, _)| at.as_str()).collect();
        assert_eq!(rolls, ["10-31 21:00", "10-31 21:00", "11-01 22:00", "11-01 22:00"]);
    }

    #[test]
    fn zones_are_names_or_offsets() {
        for (name, opens) in [("UTC", "09:30"), ("+05:30", "04:00"), ("-03:00", "12:30")] {
            let calendar = Calendar { zone: name.to_string(), ..Calendar::default() };
            let seen = week(&calendar, "2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z");
            let continuous = seen.iter().find(|(_, what)| what.contains("continuous"));
            let (at, _) = continuous.expect("a Monday");
            assert!(at.ends_with(opens), "{name}: {at}");
        }
        assert!(!Calendar::default().is_on());
    }

    #[test]
    fn a_day_has_the_venues_date() {
        let late = at("2026-11-27T02:30:00Z");
        assert_eq!(new_york().date(late), "2026-11-26");
        assert_eq!(Calendar::default().date(late), "2026-11-27");
        let tokyo = Calendar { zone: "+09:00".to_string(), ..Calendar::default() };
        assert_eq!(tokyo.date(at("2026-11-26T16:00:00Z")), "2026-11-27");
    }

    #[test]
    fn mistakes_name_their_key() {
        type Spoil = fn(&mut Calendar);
        let mistakes: [(Spoil, &str, &str); 11] = [
            (|c| c.zone = "Mars/Olympus".into(), "calendar.zone", "no IANA time zone"),
            (|c| c.open = "9.30".into(), "calendar.open", "write a time"),
            (|c| c.open = "08:59".into(), "calendar.open", "must not be before"),
            (|c| c.end = "24:30".into(), "calendar.end", "write a time"),
            (|c| c.weekdays = "mon fry".into(), "calendar.weekdays", "\"fry\""),
            (|c| c.holidays = "2026-02-30".into(), "calendar.holidays", "write a day"),
            (|c| c.early_closes = "2026-12-24".into(), "calendar.early_closes", "a day and a time"),
            (|c| c.early_closes = "2026-12-24 09:31".into(), "calendar.early_closes", "after"),
            (|c| c.early_closes = "2026-12-24 16:05".into(), "calendar.early_closes", "before"),
            (|c| c.halts = "12:00".into(), "calendar.halts", "begins and ends"),
            (|c| c.halts = "12:00-12:30, 12:15-13:00".into(), "calendar.halts", "follow"),
        ];
        for (spoil, key, why) in mistakes {
            let mut calendar = new_york();
            spoil(&mut calendar);
            let wrong = calendar.schedule(at("2026-06-01T00:00:00Z"), std::iter::empty());
            let (named, told) = wrong.expect_err(why);
            assert!(named == key && told.contains(why), "{named}: {told}");
        }
    }
}
