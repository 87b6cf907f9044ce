//! How long answers took: one distribution per kind of request, and a point per second.

use telemetry::Recorder;
use types::Nanos;

use super::requests::Kind;

/// Answers whose requests were due within one second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SecondPoint {
    /// Which second, since the first answer that counted.
    pub second: u64,
    /// Answers that came during it.
    pub count: u64,
    /// Median, 99th percentile and largest of their times, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns; see `p50_ns`.
    pub p99_ns: u64,
    /// Maximum, ns; see `p50_ns`.
    pub max_ns: u64,
}

/// A moment, and when the first answer came to a request that was due after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Time of the mark.
    pub at: Nanos,
    /// The answer; `None`: none yet.
    pub answered: Option<Nanos>,
}

/// Response times of one run: requests under way, and distributions of those answered.
#[derive(Debug)]
pub struct Timings {
    marks: Vec<Mark>,
    by_kind: [Recorder; 3],
    first: Option<Nanos>,
    second: u64,
    current: Recorder,
    seconds: Vec<SecondPoint>,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings {
            marks: Vec::new(),
            by_kind: std::array::from_fn(|_| Recorder::new()),
            first: None,
            second: 0,
            current: Recorder::coarse(),
            seconds: Vec::new(),
        }
    }
}

impl Timings {
    /// Remembers a moment. Earlier ones without an answer stay without.
    pub fn mark(&mut self, at: Nanos) {
        self.marks.push(Mark { at, answered: None });
    }

    /// Marks, in order of time.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// An answer at `now` to a request that was due at `due`.
    pub fn record(&mut self, kind: Kind, due: Nanos, now: Nanos) {
        let ns = now.since(due);
        if let Some(mark) = self.marks.last_mut().filter(|mark| due >= mark.at) {
            mark.answered.get_or_insert(now);
        }
        let first = *self.first.get_or_insert(now);
        let second = now.since(first) / Nanos::SECOND;
        if second != self.second {
            self.finish();
            self.second = second;
        }
        self.by_kind[kind as usize].record(ns);
        self.current.record(ns);
    }

    /// Closes the second under way.
    pub fn finish(&mut self) {
        let of = self.current.summary();
        if of.count > 0 {
            self.seconds.push(SecondPoint {
                second: self.second,
                count: of.count,
                p50_ns: of.p50,
                p99_ns: of.p99,
                max_ns: of.max,
            });
            self.current.clear();
        }
    }

    /// The distribution of one kind of request.
    pub fn of(&self, kind: Kind) -> &Recorder {
        &self.by_kind[kind as usize]
    }

    /// Response times of all kinds of requests together.
    pub fn all(&self) -> Recorder {
        let mut all = Recorder::new();
        self.by_kind.iter().for_each(|of| all.merge(of));
        all
    }

    /// A point for every second in which there were answers.
    pub fn seconds(&self) -> &[SecondPoint] {
        &self.seconds
    }
}
