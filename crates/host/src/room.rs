//! How full the disk is with what grows, and what operators are told of it.

use std::path::Path;

use exchange::Fill;

use crate::alarms::Alarms;

/// Percent of the room at which operators are told.
const LOW_PERCENT: u64 = 80;
/// The two alarms.
const LOW: &str = "log-room";
const FULL: &str = "log-full";

/// The most that is used of any of the bounds, in percent: those of the two files, those of the disk,
/// on which `free` bytes are left, and that of the log's inputs, of which `inputs` are taken and
/// `left` may come.
pub fn percent(fill: &Fill, free: Option<u64>, (inputs, left): (u64, Option<u64>)) -> u64 {
    let of = |used: u64, most: u64| {
        let percent = u128::from(used) * 100 / u128::from(most.max(1));
        u64::try_from(percent).unwrap_or(u64::MAX)
    };
    let used = fill.log.0.saturating_add(fill.streams.0);
    // What recycles stands near its bound for ever.
    let recycles = fill.given_up > 0 && !fill.held_back;
    let own = if recycles { 0 } else { of(fill.log.0, fill.log.1) };
    let streams = recycles || (fill.streams_recycle && !fill.held_back);
    let streams = if streams { 0 } else { of(fill.streams.0, fill.streams.1) };
    let disk =
        free.map_or(0, |free| if used == 0 { 0 } else { of(used, used.saturating_add(free)) });
    let log = left.map_or(0, |left| of(inputs, inputs.saturating_add(left)));
    own.max(streams).max(disk).max(log)
}

/// Bytes that are free on the disk of a folder; `None` when it can't be said.
pub fn free(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

/// Raises the alarms that stand now, and clears the others.
pub fn tell(alarms: &Alarms, folder: &Path, fill: &Fill, percent: u64) {
    let mib = fill.log.0.saturating_add(fill.streams.0) >> 20;
    let place = folder.display();
    if percent >= LOW_PERCENT {
        let text = format!(
            "log and private streams take {mib} MiB in {place}, {percent} % of their room: make room \
             (memory.disk_mib, engine.log_capacity, the disk), or orders will wait"
        );
        alarms.raise(LOW, text);
    } else {
        alarms.clear(LOW, format!("{percent} % of the room for log and private streams is used"));
    }
    if fill.held_back {
        let text = format!(
            "no room for log and private streams in {place}: orders wait at their gateways, \
             operators' commands have a reserve; all goes on by itself when there is room"
        );
        alarms.raise(FULL, text);
    } else {
        alarms.clear(FULL, "there is room again: orders go on");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(log: (u64, u64), streams: (u64, u64), held_back: bool) -> Fill {
        Fill { log, streams, held_back, ..Fill::default() }
    }

    #[test]
    fn the_tightest_bound_counts() {
        let any = u64::MAX;
        let of = |fill: &Fill, free, log| percent(fill, free, log);
        let none = (5, None);
        assert_eq!(of(&fill((0, any), (0, any), false), Some(0), none), 0, "nothing is used");
        assert_eq!(of(&fill((30, 100), (0, any), false), None, none), 30);
        assert_eq!(of(&fill((30, 100), (81, 100), false), None, none), 81);
        assert_eq!(of(&fill((30, any), (50, any), false), Some(20), none), 80, "of the disk");
        assert_eq!(of(&fill((0, any), (0, any), false), None, (90, Some(10))), 90, "of the inputs");
        let recycles = Fill { given_up: 1, ..fill((99, 100), (99, 100), false) };
        assert_eq!(of(&recycles, Some(9_999), none), 1, "it stands there for ever");
        let group = Fill { streams_recycle: true, ..fill((0, u64::MAX), (99, 100), false) };
        assert_eq!(of(&group, Some(9_999), none), 0, "so do the streams of a group");
        let group = Fill { held_back: true, ..group };
        assert_eq!(of(&group, None, none), 99);
        let stuck = Fill { held_back: true, ..recycles };
        assert_eq!(of(&stuck, None, none), 99);
        assert_eq!(of(&fill((any, any), (any, any), false), Some(any), (any, Some(any))), 100);
    }

    #[test]
    fn operators_are_told_at_eighty_percent_and_when_orders_wait_and_when_it_is_over() {
        let (alarms, folder) = (Alarms::default(), Path::new("/nowhere"));
        let low = fill((79, 100), (0, u64::MAX), false);
        tell(&alarms, folder, &low, 79);
        assert!(alarms.take_lines().is_empty());
        tell(&alarms, folder, &low, 80);
        tell(&alarms, folder, &low, 81);
        let lines = alarms.take_lines();
        assert!(lines.len() == 1 && lines[0].starts_with("ALARM: log-room: "), "{lines:?}");
        tell(&alarms, folder, &fill((100, 100), (0, 100), true), 100);
        assert!(alarms.stands("log-full") && alarms.stands("log-room"));
        tell(&alarms, folder, &low, 50);
        assert!(!alarms.stands("log-full") && !alarms.stands("log-room"));
        let lines = alarms.take_lines();
        assert_eq!(lines.iter().filter(|line| line.starts_with("alarm over")).count(), 2);
        assert!(free(Path::new(".")).is_some_and(|free| free > 0));
        assert_eq!(free(folder), None);
    }
}
