//! What every transport is measured by: the timetable of a slice, and its gateway's account of the
//! answers.

use std::thread;
use std::time::{Duration, Instant};

use telemetry::Recorder;
use types::Nanos;

use super::engine_host;

/// Answers to requests due within this time of the start give no latency: caches are still cold.
const WARM_UP_NS: u64 = 200 * Nanos::MILLI;
/// From the transport's being ready to the first request.
const LEAD: Duration = Duration::from_millis(20);
/// How long the last answers may take.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// One slice's timetable: open loop, evenly spaced.
#[derive(Clone, Copy, Debug)]
pub struct Timetable {
    /// Requests per second, at least 1.
    pub rate: u64,
    /// Requests in all.
    pub requests: u32,
}

impl Timetable {
    /// When request `number` (from 1) is due, from the start of the slice, ns.
    pub fn due_ns(&self, number: u32) -> u64 {
        u64::from(number.saturating_sub(1)) * Nanos::SECOND / self.rate
    }

    /// From the first request to the last, ns.
    pub fn length_ns(&self) -> u64 {
        self.due_ns(self.requests)
    }

    /// How long the warm-up is, ns: a quarter of a short slice.
    fn warm_up_ns(&self) -> u64 {
        WARM_UP_NS.min(self.length_ns() / 4)
    }

    /// Requests that are timed.
    #[cfg(test)]
    pub fn timed(&self) -> u64 {
        (1..=self.requests).filter(|n| self.due_ns(*n) >= self.warm_up_ns()).count() as u64
    }
}

/// A timetable that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    timetable: Timetable,
    at: Instant,
}

impl Start {
    /// Begins soon.
    pub fn soon(timetable: Timetable) -> Start {
        Start { timetable, at: Instant::now() + LEAD }
    }

    /// When request `number` is due.
    pub fn due(&self, number: u32) -> Instant {
        self.at + Duration::from_nanos(self.timetable.due_ns(number))
    }

    /// Sleeps until request `number` is due, if it is not yet.
    pub fn wait_for(&self, number: u32) {
        let wait = self.due(number).saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            thread::sleep(wait);
        }
    }

    /// Nothing is waited for after this.
    pub fn end(&self) -> Instant {
        self.due(self.timetable.requests) + PATIENCE
    }

    /// Time since the start, ns.
    pub fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.at.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What a slice leaves.
pub struct Slice {
    /// From due to answered.
    pub latency: Recorder,
    /// Requests without an answer when patience ended.
    pub unanswered: u64,
    /// Answers that refuse, answer nothing that was asked, or come again.
    pub wrong: u64,
}

/// Which requests were answered, and how late.
pub struct Tally {
    timetable: Timetable,
    /// By number, from 1.
    answered: Vec<bool>,
    unanswered: u32,
    wrong: u64,
    latency: Recorder,
}

impl Tally {
    /// Nothing answered yet.
    pub fn new(timetable: Timetable) -> Tally {
        Tally {
            timetable,
            answered: vec![false; timetable.requests as usize],
            unanswered: timetable.requests,
            wrong: 0,
            latency: Recorder::new(),
        }
    }

    /// An execution report came so long after the start of the slice.
    pub fn take(&mut self, report: &[u8], at_ns: u64) {
        let number = engine_host::answered(report);
        let place = number.and_then(|number| (number as usize).checked_sub(1));
        match place.and_then(|place| self.answered.get_mut(place)) {
            Some(known) if !*known => *known = true,
            _ => {
                self.wrong += 1;
                return;
            }
        }
        self.unanswered -= 1;
        let due_ns = number.map_or(0, |number| self.timetable.due_ns(number));
        if due_ns >= self.timetable.warm_up_ns() {
            self.latency.record(at_ns.saturating_sub(due_ns));
        }
    }

    /// Whether every request has its answer.
    pub fn is_done(&self) -> bool {
        self.unanswered == 0
    }

    /// The slice is over.
    pub fn finish(self) -> Slice {
        let unanswered = u64::from(self.unanswered);
        Slice { latency: self.latency, unanswered, wrong: self.wrong }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn requests_are_due_evenly() {
        let timetable = Timetable { rate: 10_000, requests: 5 };
        assert_eq!([1, 2, 3].map(|n| timetable.due_ns(n)), [0, 100_000, 200_000]);
        assert_eq!((timetable.length_ns(), timetable.timed()), (400_000, 4));
    }

    #[test]
    fn every_answer_counts_once_from_when_it_was_due() {
        let clock = net::Clock::start(0);
        let mut host = engine_host::Host::new(&engine_host::exchange(&clock, 10)).unwrap();
        let mut answer = |number| {
            let command = engine_host::command(number);
            host.handle(Nanos(u64::from(number)), command.as_bytes()).to_vec()
        };
        let mut tally = Tally::new(Timetable { rate: 1_000, requests: 4 });
        // Nothing to cancel yet.
        tally.take(&answer(2), 0);
        tally.take(b"no report", 0);
        tally.take(&answer(5), 0);
        assert_eq!(tally.wrong, 3);
        let third = answer(3);
        tally.take(&third, 5_000_000);
        tally.take(&third, 6_000_000);
        assert!(!tally.is_done());
        let slice = tally.finish();
        assert_eq!((slice.unanswered, slice.wrong), (3, 4));
        assert_eq!((slice.latency.count(), slice.latency.summary().max), (1, 3_000_000));
    }
}
