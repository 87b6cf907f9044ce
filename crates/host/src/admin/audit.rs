//! The audit file: who asked for what, when, and what came of it; a line of JSON each, only ever
//! appended.
//!
//! Alarms of the exchange and refused logons are in it, too (`alarm`, `over`, `noted`): see
//! [`crate::alarms`].
//!
//! An action is written down before it is tried (`asked`) and again with its outcome (`done`,
//! `refused`), so a line without an outcome says that the exchange ended in between. What can't be
//! written down is not done.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::alarms::Record;

/// Whoever is at the other end of the socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Who {
    /// User id, as the kernel says.
    pub uid: u32,
    /// Process id, likewise.
    pub pid: i32,
    /// The user's name, if the system has one.
    pub user: Option<String>,
    /// The name it gave itself.
    pub operator: Option<String>,
}

impl Who {
    /// For people: `root (uid 0) as alice`.
    pub fn text(&self) -> String {
        let user = self.user.as_deref().unwrap_or("?");
        let behalf = self.operator.as_ref().map(|name| format!(" as {name}"));
        format!("{user} (uid {}){}", self.uid, behalf.unwrap_or_default())
    }

    /// For the log's commands: 14 bytes, the name given, else the user's, else its number.
    pub fn tag(&self) -> [u8; 14] {
        let name = self.operator.clone().or_else(|| self.user.clone());
        let name = name.unwrap_or_else(|| format!("UID {}", self.uid));
        let mut tag = [b' '; 14];
        let plain = name.bytes().map(|byte| match byte {
            b' '..=b'~' => byte,
            _ => b'?',
        });
        tag.iter_mut().zip(plain).for_each(|(place, byte)| *place = byte);
        tag
    }
}

/// The file.
pub struct Audit {
    file: File,
    written: u64,
}

impl Audit {
    /// Opens it for appending, or makes it, readable by its owner only.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<Audit> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        // One that was there may have been open to others.
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(Audit { file, written: 0 })
    }

    /// Appends a line; it is on the disk when this returns.
    ///
    /// # Errors
    /// The system's; nothing of it is there then.
    pub fn write(&mut self, who: &Who, stage: &str, what: &Value, outcome: &str) -> io::Result<()> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let at_ns = since.map_or(0, |since| since.as_nanos() as u64);
        self.append(json!({
            "n": self.written + 1,
            "at": date(at_ns),
            "at_ns": at_ns,
            "uid": who.uid,
            "user": who.user,
            "pid": who.pid,
            "as": who.operator,
            "stage": stage,
            "action": what,
            "outcome": outcome,
        }))
    }

    /// Appends what happened to an alarm, likewise.
    ///
    /// # Errors
    /// The system's; nothing of it is there then.
    pub fn write_alarm(&mut self, record: &Record) -> io::Result<()> {
        self.append(json!({
            "n": self.written + 1,
            "at": date(record.at_ns),
            "at_ns": record.at_ns,
            "stage": record.stage.name(),
            "action": record.key,
            "outcome": record.text,
        }))
    }

    /// A line whole, or nothing of it.
    fn append(&mut self, line: Value) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        if let Err(error) = written.and_then(|()| self.file.sync_data()) {
            // A full disk takes part of a line: the next one must not go on in it.
            return Err(self.file.set_len(before).err().unwrap_or(error));
        }
        self.written += 1;
        Ok(())
    }
}

/// `2026-01-31T10:00:00.000Z`: days to a date by the civil calendar's cycle of 400 years.
fn date(at_ns: u64) -> String {
    let (ms, seconds) = (at_ns / 1_000_000 % 1_000, at_ns / 1_000_000_000);
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    // Years begin with March, so that the leap day is the last one.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (clock / 3_600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let of = |seconds: u64| date(seconds * 1_000_000_000 + 7_000_000);
        assert_eq!(of(0), "1970-01-01T00:00:00.007Z");
        assert_eq!(of(951_782_400), "2000-02-29T00:00:00.007Z");
        assert_eq!(of(1_767_261_600), "2026-01-01T10:00:00.007Z");
        assert_eq!(of(4_107_542_399), "2100-02-28T23:59:59.007Z");
        assert_eq!(of(4_107_542_400), "2100-03-01T00:00:00.007Z");
    }

    #[test]
    fn the_tag_in_the_log_is_the_name_given_else_the_users() {
        let mut who = Who { uid: 7, pid: 1, user: None, operator: None };
        assert_eq!(&who.tag(), b"UID 7         ");
        who.user = Some("somebody".to_string());
        assert_eq!(&who.tag(), b"somebody      ");
        who.operator = Some("alice.of.the.desk".to_string());
        assert_eq!(&who.tag(), b"alice.of.the.d");
        assert_eq!(who.text(), "somebody (uid 7) as alice.of.the.desk");
    }
}
