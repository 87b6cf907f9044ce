//! How the writer of a journal stands: at work, without room, slow, or at its end.
//!
//! The writer's thread says what it does; whoever watches asks ([`Health::look`]) and steers the
//! gateways by the answer, since a thread that waits for its disk can't say that it does. Alarms are
//! raised and cleared here, so that a standstill is told once however it came about.

use std::fmt::Display;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::alarms::Alarms;

/// A write that takes so long is told of, and requests are refused meanwhile.
pub const SLOW: Duration = Duration::from_secs(1);

/// What a writer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It writes what comes.
    Works,
    /// It waits for a slow disk, and goes on by itself.
    Slow,
    /// It waits for room, which somebody has to make; then it goes on by itself.
    Full,
    /// It will never write again.
    Failed,
}

/// How a journal's writes go, and the alarms that follow from it.
pub struct Health {
    alarms: Alarms,
    /// Whose journal, as it begins the alarms' keys.
    name: String,
    began: Instant,
    /// When the work under way began, ns since `began` and 1; 0: none is.
    busy_since: AtomicU64,
    failed: AtomicBool,
    /// Since when there has been no room.
    full_since: Mutex<Option<Instant>>,
}

impl Health {
    /// Of a journal that works, with a name like `journal`.
    pub fn new(alarms: &Alarms, name: &str) -> Health {
        Health {
            alarms: alarms.clone(),
            name: name.to_string(),
            began: Instant::now(),
            busy_since: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            full_since: Mutex::new(None),
        }
    }

    /// Does something that may have to wait for the disk.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.busy_since.store(ns(self.began.elapsed()) + 1, Ordering::Relaxed);
        let done = work();
        self.busy_since.store(0, Ordering::Relaxed);
        done
    }

    /// There is no room for another segment.
    pub fn no_room(&self, error: &dyn Display) {
        let mut since = self.full_since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.is_none() {
            *since = Some(Instant::now());
            let text = format!("{error}; until then nothing is acknowledged");
            self.alarms.raise(&self.key("full"), text);
        }
    }

    /// A write found room.
    pub fn has_room(&self) {
        let mut since = self.full_since.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = since.take() {
            let seconds = since.elapsed().as_secs_f64();
            let text =
                format!("there is room again: it goes on after {seconds:.1} s, nothing is lost");
            self.alarms.clear(&self.key("full"), text);
        }
    }

    /// It is over with this journal: what a failed write or sync left on the disk is unknown.
    pub fn failed(&self, error: &dyn Display) {
        self.failed.store(true, Ordering::Relaxed);
        self.alarms.raise(&self.key("failed"), error.to_string());
    }

    /// How it stands; tells of a slow disk.
    pub fn look(&self) -> Standing {
        if self.failed.load(Ordering::Relaxed) {
            return Standing::Failed;
        }
        let since = self.busy_since.load(Ordering::Relaxed);
        let busy_ns = if since == 0 { 0 } else { ns(self.began.elapsed()).saturating_sub(since) };
        let slow = busy_ns >= ns(SLOW);
        let key = self.key("slow");
        if slow {
            let seconds = busy_ns / 1_000_000_000;
            let text = format!("a write has taken {seconds} s so far: nothing is acknowledged");
            self.alarms.raise(&key, text);
        } else {
            self.alarms.clear(&key, "the disk has answered: it goes on");
        }
        let full = self.full_since.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        match (full, slow) {
            (true, _) => Standing::Full,
            (false, true) => Standing::Slow,
            (false, false) => Standing::Works,
        }
    }

    fn key(&self, what: &str) -> String {
        format!("{}-{what}", self.name)
    }
}

fn ns(of: Duration) -> u64 {
    u64::try_from(of.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_room_is_told_when_it_begins_and_when_it_ends() {
        let alarms = Alarms::default();
        let health = Health::new(&alarms, "journal");
        assert_eq!(health.look(), Standing::Works);
        health.no_room(&"making log-2: no room left on the disk");
        health.no_room(&"making log-2: no room left on the disk");
        assert_eq!(health.look(), Standing::Full);
        assert!(alarms.stands("journal-full"));
        let lines = alarms.take_lines();
        assert!(lines.len() == 1 && lines[0].contains("no room left"), "{lines:?}");
        health.has_room();
        health.has_room();
        assert_eq!(health.look(), Standing::Works);
        let lines = alarms.take_lines();
        assert!(lines.len() == 1 && lines[0].contains("goes on after"), "{lines:?}");
    }

    #[test]
    fn a_slow_disk_is_told_of_while_it_is_waited_for() {
        let alarms = Alarms::default();
        let mut health = Health::new(&alarms, "journal");
        health.during(|| assert_eq!(health.look(), Standing::Works, "it has only begun"));
        // As if that had been a while ago.
        health.began -= 3 * SLOW;
        health.busy_since.store(1, Ordering::Relaxed);
        assert_eq!(health.look(), Standing::Slow);
        assert!(alarms.stands("journal-slow"));
        health.busy_since.store(0, Ordering::Relaxed);
        assert_eq!(health.look(), Standing::Works);
        assert!(!alarms.stands("journal-slow"));
    }

    #[test]
    fn after_a_failure_it_never_works_again() {
        let alarms = Alarms::default();
        let health = Health::new(&alarms, "replica-2-journal");
        health.failed(&"syncing log-1: Input/output error");
        health.has_room();
        assert_eq!(health.look(), Standing::Failed);
        assert!(alarms.stands("replica-2-journal-failed"));
    }
}
