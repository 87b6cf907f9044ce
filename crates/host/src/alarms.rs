//! Alarms: what operators have to know at once, from wherever it is noticed, told in three places.
//!
//! Whoever notices something raises an alarm under a key and clears it when it is over. Output gets
//! a line for each ([`Alarms::take_lines`]), `fairbell admin status` lists those that stand
//! ([`Alarms::standing`]), and the audit file gets a record of both ([`Alarms::first_record`]).
//! Raising never waits and never fails: it writes to no file, so that a full disk can be told of.
//!
//! An alarm that is raised again while it stands is counted and gets the newer text; it is told once.
//! Bounds: [`STANDING_MAX`] alarms stand, [`WAITING_MAX`] lines and records wait; what is beyond is
//! counted and said.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Most alarms that stand at a time.
pub const STANDING_MAX: usize = 256;
/// Most lines, and most records, that wait to be taken.
pub const WAITING_MAX: usize = 1_024;

/// How often it is looked for lines.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An alarm that stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alarm {
    /// What it is about, like `journal-full`: the same key is the same alarm.
    pub key: String,
    /// One line for people, of the last time it was raised.
    pub text: String,
    /// When it was raised first, ns since the Unix epoch.
    pub since_ns: u64,
    /// How often it was raised.
    pub times: u64,
}

/// What happened to an alarm, for the audit file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// When, ns since the Unix epoch.
    pub at_ns: u64,
    /// Its key.
    pub key: String,
    /// What happened to it.
    pub stage: Stage,
    /// What was said.
    pub text: String,
}

/// What happened to an alarm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It stands from now on.
    Raised,
    /// It is over.
    Over,
    /// Something happened that does not last: told, and over at once.
    Noted,
}

impl Stage {
    /// In the audit file.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Raised => "alarm",
            Stage::Over => "over",
            Stage::Noted => "noted",
        }
    }
}

#[derive(Default, Debug)]
struct Board {
    standing: BTreeMap<String, Alarm>,
    lines: VecDeque<String>,
    records: VecDeque<Record>,
    /// Lines, and records, that found no room.
    lost: [u64; 2],
}

/// All alarms of a process; copies are the same ones.
#[derive(Clone, Default, Debug)]
pub struct Alarms(Arc<Mutex<Board>>);

impl Alarms {
    /// Something is wrong. The first time it is told, later ones only change the text.
    pub fn raise(&self, key: &str, text: impl Into<String>) {
        let (text, at_ns) = (text.into(), now_ns());
        let mut board = self.lock();
        if let Some(alarm) = board.standing.get_mut(key) {
            alarm.times += 1;
            alarm.text = text;
            return;
        }
        if board.standing.len() < STANDING_MAX {
            let key = key.to_string();
            let alarm = Alarm { key: key.clone(), text: text.clone(), since_ns: at_ns, times: 1 };
            board.standing.insert(key, alarm);
        }
        board.tell(Record { at_ns, key: key.to_string(), stage: Stage::Raised, text });
    }

    /// Something has happened that operators have to know and that does not last.
    pub fn note(&self, key: &str, text: impl Into<String>) {
        let (key, text) = (key.to_string(), text.into());
        self.lock().tell(Record { at_ns: now_ns(), key, stage: Stage::Noted, text });
    }

    /// It is over; nothing for an alarm that does not stand.
    pub fn clear(&self, key: &str, text: impl Into<String>) {
        let mut board = self.lock();
        if board.standing.remove(key).is_some() {
            let (key, text) = (key.to_string(), text.into());
            board.tell(Record { at_ns: now_ns(), key, stage: Stage::Over, text });
        }
    }

    /// Whether an alarm stands.
    pub fn stands(&self, key: &str) -> bool {
        self.lock().standing.contains_key(key)
    }

    /// Those that stand, by key.
    pub fn standing(&self) -> Vec<Alarm> {
        self.lock().standing.values().cloned().collect()
    }

    /// Lines for people since the last time.
    pub fn take_lines(&self) -> Vec<String> {
        let mut board = self.lock();
        let lost = std::mem::take(&mut board.lost[0]);
        let lines = board.lines.drain(..).collect::<Vec<_>>();
        let beyond = (lost > 0).then(|| format!("ALARM: {lost} more alarms found no room here"));
        lines.into_iter().chain(beyond).collect()
    }

    /// Hands each line to `told`, soon after it has come, until `stop`.
    pub fn tell(&self, stop: &AtomicBool, told: impl Fn(&str)) {
        let mut over = false;
        while !over {
            over = stop.load(Ordering::Relaxed);
            self.take_lines().iter().for_each(|line| told(line));
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The oldest record that is not in the audit file; it stays until [`Alarms::drop_record`].
    pub fn first_record(&self) -> Option<Record> {
        self.lock().records.front().cloned()
    }

    /// The oldest record has been written.
    pub fn drop_record(&self) {
        let mut board = self.lock();
        board.records.pop_front();
        let lost = std::mem::take(&mut board.lost[1]);
        if lost > 0 {
            let text = format!("{lost} records of alarms found no room before this one");
            let key = "records-lost".to_string();
            let stage = Stage::Raised;
            board.records.push_back(Record { at_ns: now_ns(), key, stage, text });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Board {
    fn tell(&mut self, record: Record) {
        let word = match record.stage {
            Stage::Raised => "ALARM",
            Stage::Over => "alarm over",
            Stage::Noted => "note",
        };
        match self.lines.len() < WAITING_MAX {
            true => self.lines.push_back(format!("{word}: {}: {}", record.key, record.text)),
            false => self.lost[0] += 1,
        }
        match self.records.len() < WAITING_MAX {
            true => self.records.push_back(record),
            false => self.lost[1] += 1,
        }
    }
}

/// Alarms that stand as operators are told of them: lines for people, and the same for programs.
pub fn told(standing: &[Alarm]) -> (Vec<String>, Value) {
    let line = |alarm: &Alarm| {
        let seconds = now_ns().saturating_sub(alarm.since_ns) / 1_000_000_000;
        format!("ALARM {}: {} (for {seconds} s, {} times)", alarm.key, alarm.text, alarm.times)
    };
    let document = |alarm: &Alarm| {
        json!({
            "key": alarm.key, "text": alarm.text, "since_ns": alarm.since_ns, "times": alarm.times,
        })
    };
    (standing.iter().map(line).collect(), standing.iter().map(document).collect())
}

pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_told_once_until_it_is_over() {
        let alarms = Alarms::default();
        let elsewhere = alarms.clone();
        elsewhere.raise("journal-full", "no room");
        elsewhere.raise("journal-full", "no room for 2 s");
        assert_eq!(alarms.take_lines(), ["ALARM: journal-full: no room"]);
        let standing = alarms.standing();
        assert_eq!((standing.len(), standing[0].times), (1, 2));
        assert_eq!(standing[0].text, "no room for 2 s");
        alarms.clear("journal-full", "goes on");
        alarms.clear("journal-full", "goes on");
        assert_eq!(alarms.take_lines(), ["alarm over: journal-full: goes on"]);
        assert!(alarms.standing().is_empty());
        alarms.raise("journal-full", "again");
        assert_eq!(alarms.take_lines().len(), 1, "another time is told again");
        let mut stages = Vec::new();
        while let Some(record) = alarms.first_record() {
            stages.push((record.stage, record.text));
            alarms.drop_record();
        }
        alarms.note("logon-refused", "GUEST");
        assert_eq!(alarms.take_lines(), ["note: logon-refused: GUEST"]);
        let last = alarms.first_record().map(|record| record.stage.name());
        assert_eq!((last, alarms.standing().len()), (Some("noted"), 1), "it does not stand");
        let of = |stage, text: &str| (stage, text.to_string());
        use Stage::{Over, Raised};
        assert_eq!(stages, [of(Raised, "no room"), of(Over, "goes on"), of(Raised, "again")]);
    }

    #[test]
    fn nothing_grows_without_bound_and_what_is_lost_is_said() {
        let alarms = Alarms::default();
        for number in 0..3 * WAITING_MAX {
            alarms.raise(&format!("{number:05}"), "x");
        }
        assert_eq!(alarms.standing().len(), STANDING_MAX);
        let lines = alarms.take_lines();
        assert_eq!(lines.len(), WAITING_MAX + 1);
        assert!(lines[WAITING_MAX].contains(&(2 * WAITING_MAX).to_string()), "{lines:?}");
        alarms.drop_record();
        let mut count = 0;
        let mut last = None;
        while let Some(record) = alarms.first_record() {
            (count, last) = (count + 1, Some(record));
            alarms.drop_record();
        }
        assert_eq!(count, WAITING_MAX);
        assert_eq!(last.map(|record| record.key).as_deref(), Some("records-lost"));
    }
}
