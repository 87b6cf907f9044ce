//! What fills up: an alarm at four fifths of a bound, another word when it is reached, and one when
//! there is room again. What happens at each bound says the operator's table.

use std::path::Path;

use exchange::Capacity;
use serde_json::{Value, json};

use crate::alarms::Alarms;
use crate::config::Config;

/// From this share on it is told, in percent, and below this one it is over.
const NEAR: u64 = 80;
const OVER: u64 = 70;

/// How a capacity stands, in a word.
fn state(of: &Capacity) -> &'static str {
    match of.percent() {
        0..NEAR => "room",
        NEAR..100 => "near its bound",
        _ => "full",
    }
}

fn line(of: &Capacity) -> String {
    format!("{}: {} of {} ({} %), {}", of.name, of.used, of.bound, of.percent(), state(of))
}

/// Of each name the fullest, in the order of their first.
pub fn fullest(all: impl IntoIterator<Item = Capacity>) -> Vec<Capacity> {
    let mut kept: Vec<Capacity> = Vec::new();
    for one in all {
        match kept.iter_mut().find(|known| known.name == one.name) {
            Some(known) => *known = known.fuller(one),
            None => kept.push(one),
        }
    }
    kept
}

/// Raises an alarm of what is nearly full, in other words of what is, and ends those that are over.
pub fn watch(all: &[Capacity], alarms: &Alarms) {
    for of in all {
        let key = |kind: &str| format!("capacity-{kind}-{}", of.name.replace(' ', "-"));
        let (near, full) = (key("near"), key("full"));
        match of.percent() {
            0..OVER => {
                alarms.clear(&full, line(of));
                alarms.clear(&near, line(of));
            }
            OVER..NEAR => {}
            NEAR..100 => alarms.raise(&near, line(of)),
            _ => {
                alarms.raise(&near, line(of));
                alarms.raise(&full, line(of));
            }
        }
    }
}

/// For `admin status`: lines of what is nearly full, and all for programs.
pub fn told(all: &[Capacity]) -> (Vec<String>, Value) {
    let near = all.iter().filter(|of| of.percent() >= NEAR).map(line).collect();
    let document = |of: &Capacity| {
        json!({
            "name": of.name, "used": of.used, "bound": of.bound, "percent": of.percent(),
            "state": state(of),
        })
    };
    (near, all.iter().map(document).collect())
}

/// The disk that a journal grows on, where there is one.
pub fn journal_disk(config: &Config) -> Option<Capacity> {
    let kept = config.journal.is_local() || config.journal.is_replicated();
    kept.then(|| disk(Path::new(&config.journal.dir))).flatten()
}

/// The file system that a folder, or the nearest one above it that is there, lies on.
fn disk(folder: &Path) -> Option<Capacity> {
    let mut found = folder.ancestors().map(|path| match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    });
    let of = found.find_map(|path| rustix::fs::statvfs(path).ok())?;
    let block = of.f_frsize.max(1);
    // As df counts: what is kept for root is of no use to the exchange, and of no other.
    let used = of.f_blocks.saturating_sub(of.f_bfree).saturating_mul(block);
    let bound = used.saturating_add(of.f_bavail.saturating_mul(block));
    Some(Capacity { name: "bytes of the journal's disk", used, bound })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(used: u64) -> Capacity {
        Capacity { name: "open orders", used, bound: 1_000 }
    }

    #[test]
    fn an_alarm_at_four_fifths_one_when_full_and_a_word_when_it_is_over() {
        let alarms = Alarms::default();
        let told = |used| {
            watch(&[of(used)], &alarms);
            alarms.take_lines()
        };
        assert!(told(799).is_empty());
        let near = told(800);
        assert_eq!(near.len(), 1);
        assert!(near[0].contains("open orders: 800 of 1000 (80 %), near its bound"), "{near:?}");
        assert!(told(950).is_empty(), "told once");
        assert!(told(1_000)[0].contains("full"));
        assert!(told(750).is_empty(), "not over yet: no flutter");
        assert_eq!(alarms.standing().len(), 2);
        assert_eq!(told(600).len(), 2);
        assert!(alarms.standing().is_empty());
    }

    #[test]
    fn the_fullest_of_a_name_stands_for_all() {
        let other = Capacity { name: "x", used: 1, bound: 2 };
        assert_eq!(fullest([of(3), other, of(7), of(5)]), [of(7), other]);
        let (lines, document) = super::told(&[of(3), of(1_000)]);
        assert_eq!(lines, ["open orders: 1000 of 1000 (100 %), full"]);
        assert_eq!(document[0]["state"], "room");
    }

    #[test]
    fn a_folder_that_is_not_there_yet_has_the_disk_of_the_one_above() {
        let missing = std::env::temp_dir().join("fairbell-not-there").join("nor-this");
        let found = disk(&missing).expect("a file system");
        assert!(found.bound > 0 && found.used <= found.bound);
        assert_eq!(found.bound, disk(&std::env::temp_dir()).expect("a file system").bound);
    }
}
