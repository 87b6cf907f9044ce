//! What a replica of the root says of its leadership: a line when it begins to lead and when it leads no more, and an
//! alarm while leaders change often.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::alarms::Alarms;

/// Terms are counted over so long.
const OVER: Duration = Duration::from_secs(60);
/// So many new terms in that time are an alarm.
const MANY: u64 = 4;
const ALARM: &str = "elections";

/// Terms that a replica has seen.
#[derive(Default, Debug)]
pub struct Terms {
    leads: bool,
    /// When each newest term was first seen, those of the last minute and the one before.
    seen: VecDeque<(Instant, u64)>,
}

impl Terms {
    /// Takes note of the newest term and of whether the replica leads in it; a line when that has changed.
    pub fn look(
        &mut self,
        now: Instant,
        (term, leads): (u64, bool),
        alarms: &Alarms,
    ) -> Option<String> {
        if self.seen.back().is_none_or(|(_, last)| *last < term) {
            self.seen.push_back((now, term));
        }
        while self.seen.get(1).is_some_and(|(at, _)| now.duration_since(*at) > OVER) {
            self.seen.pop_front();
        }
        let new = self.seen.front().map_or(0, |(_, first)| term.saturating_sub(*first));
        if new >= MANY {
            let text = format!(
                "{new} elections in the last minute, now term {term}: the roots hear too little of who leads \
                 (processors, disks, network), and orders wait meanwhile"
            );
            alarms.raise(ALARM, text);
        } else if new == 0 {
            alarms.clear(ALARM, format!("one leader for a minute, in term {term}"));
        }
        if std::mem::replace(&mut self.leads, leads) == leads {
            return None;
        }
        Some(match leads {
            true => format!("leads in term {term}"),
            false => format!("leads no more; the newest term is {term}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_begins_to_lead_says_so_and_many_elections_are_an_alarm() {
        let (alarms, mut terms, begun) = (Alarms::default(), Terms::default(), Instant::now());
        let at = |s| begun + Duration::from_secs(s);
        let mut look = |s, term, leads| terms.look(at(s), (term, leads), &alarms);
        assert_eq!(look(0, 7, false), None, "it was always so");
        assert_eq!(look(1, 8, true), Some("leads in term 8".to_string()));
        assert_eq!(look(2, 8, true), None);
        assert_eq!(look(40, 9, false), Some("leads no more; the newest term is 9".to_string()));
        assert!(!alarms.stands(ALARM), "two new terms");
        assert_eq!(look(50, 11, false), None);
        assert!(alarms.stands(ALARM), "four new terms in fifty seconds");
        assert_eq!(look(105, 11, false), None);
        assert!(alarms.stands(ALARM), "two of them in the last minute");
        assert_eq!(look(111, 11, false), None);
        assert!(!alarms.stands(ALARM), "a minute without any");
    }
}
