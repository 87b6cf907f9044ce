//! An open-loop timetable: message k of a source is due at k / rate, whatever the exchange does.
//!
//! A late sender charges its own lateness to the system under test (no coordinated omission):
//! latencies are taken from these times, not from when a message was really sent.

use std::collections::VecDeque;

use crate::{flow::FlowMessage, generator::Generator};
use types::Nanos;

/// Source of messages.
#[derive(Clone, Debug)]
pub enum Source {
    /// A recorded list, played once.
    Recorded(VecDeque<FlowMessage>),
    /// A list with a time for each, ns after the start, in order; the rate of its line does not count.
    Scripted(VecDeque<(u64, FlowMessage)>),
    /// A generator, cut off after `left` messages.
    Generated {
        /// The flow.
        flow: Box<Generator>,
        /// Number of messages still to come.
        left: u64,
    },
}

impl Source {
    fn next(&mut self) -> Option<FlowMessage> {
        match self {
            Source::Recorded(list) => list.pop_front(),
            Source::Scripted(list) => list.pop_front().map(|(_, message)| message),
            Source::Generated { flow, left } => {
                *left = left.checked_sub(1)?;
                Some(flow.next_message())
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Source::Recorded(list) => list.is_empty(),
            Source::Scripted(list) => list.is_empty(),
            Source::Generated { left, .. } => *left == 0,
        }
    }
}

#[derive(Clone, Debug)]
struct Line {
    source: Source,
    rate_per_s: u64,
    played: u64,
}

impl Line {
    /// When the next message is due, in nanoseconds after the start.
    fn due(&self) -> Option<u64> {
        match &self.source {
            Source::Scripted(list) => return list.front().map(|(at, _)| *at),
            other if other.is_empty() => return None,
            _ => {}
        }
        let nanos = u128::from(self.played) * u128::from(Nanos::SECOND);
        u64::try_from(nanos / u128::from(self.rate_per_s)).ok()
    }
}

/// Several sources merged by due time; at equal times the source added first goes first.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    lines: Vec<Line>,
}

impl Schedule {
    /// Adds a source at `rate_per_s` messages per second (at least 1).
    pub fn add(&mut self, source: Source, rate_per_s: u64) {
        self.lines.push(Line { source, rate_per_s: rate_per_s.max(1), played: 0 });
    }

    /// When the next message is due, in nanoseconds after the start; `None` when all are played.
    pub fn next_due(&self) -> Option<u64> {
        self.lines.iter().filter_map(Line::due).min()
    }

    /// The next message with its due time, in nanoseconds after the start.
    pub fn pop(&mut self) -> Option<(u64, FlowMessage)> {
        let (due, index) = self
            .lines
            .iter()
            .enumerate()
            .filter_map(|(index, line)| line.due().map(|due| (due, index)))
            .min()?;
        let line = self.lines.get_mut(index)?;
        line.played += 1;
        line.source.next().map(|message| (due, message))
    }

    /// Messages handed out so far.
    pub fn played(&self) -> u64 {
        self.lines.iter().map(|line| line.played).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{flow::Action, special::Special};
    use types::InstrumentId;

    fn recorded(instrument: u16, count: u64) -> Source {
        let message = |id| FlowMessage {
            id,
            participant: 0,
            instrument: InstrumentId(instrument),
            action: Action::Cancel,
            special: Special::None,
        };
        Source::Recorded((0..count).map(message).collect())
    }

    #[test]
    fn merges_by_due_time_and_keeps_each_source_in_order() {
        let mut schedule = Schedule::default();
        schedule.add(recorded(1, 5), 1_000);
        schedule.add(recorded(2, 2), 400);
        let mut seen = Vec::new();
        while let Some((due, message)) = schedule.pop() {
            seen.push((due, message.instrument.0, message.id));
        }
        let ms = 1_000_000;
        let expect = [
            (0, 1, 0),
            (0, 2, 0),
            (ms, 1, 1),
            (2 * ms, 1, 2),
            (2 * ms + ms / 2, 2, 1),
            (3 * ms, 1, 3),
            (4 * ms, 1, 4),
        ];
        assert_eq!(seen, expect);
        assert_eq!((schedule.next_due(), schedule.played()), (None, 7));
    }

    #[test]
    fn a_script_keeps_its_own_times() {
        let mut schedule = Schedule::default();
        let Source::Recorded(list) = recorded(1, 3) else { return };
        schedule.add(Source::Scripted([7, 7, 1_500_000].into_iter().zip(list).collect()), 1);
        schedule.add(recorded(2, 2), 1_000);
        let all: Vec<_> = std::iter::from_fn(|| schedule.pop()).collect();
        let seen: Vec<_> = all.iter().map(|(due, of)| (*due, of.instrument.0, of.id)).collect();
        assert_eq!(seen, [(0, 2, 0), (7, 1, 0), (7, 1, 1), (1_000_000, 2, 1), (1_500_000, 1, 2)]);
        assert_eq!((schedule.next_due(), schedule.played()), (None, 5));
    }

    #[test]
    fn times_do_not_drift() {
        let mut schedule = Schedule::default();
        schedule.add(recorded(1, 30_001), 3_000);
        let last = std::iter::from_fn(|| schedule.pop()).last().map(|(due, _)| due);
        assert_eq!(last, Some(10 * Nanos::SECOND));
    }
}
