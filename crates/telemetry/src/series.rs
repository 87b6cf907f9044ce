//! How the delivery window changes over time.

use std::collections::VecDeque;

use types::Nanos;

use crate::Recorder;

/// The delivery windows of the messages sent in one interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowPoint {
    /// Start of the interval.
    pub at: Nanos,
    /// Number of messages in the interval.
    pub messages: u64,
    /// Median window, nanoseconds, within 1 %.
    pub p50_ns: u64,
    /// 99 % are at or below.
    pub p99_ns: u64,
    /// Largest value, exact, ns.
    pub max_ns: u64,
}

/// The last so many intervals. A message that completes after a later interval has begun counts
/// in that one.
pub(crate) struct Series {
    interval_ns: u64,
    points_max: usize,
    points: VecDeque<WindowPoint>,
    current_at: Nanos,
    current: Recorder,
}

impl Series {
    pub fn new(interval_ns: u64, points_max: usize) -> Series {
        Series {
            interval_ns: interval_ns.max(1),
            points_max: points_max.max(1),
            points: VecDeque::with_capacity(points_max.max(1)),
            current_at: Nanos(0),
            current: Recorder::coarse(),
        }
    }

    pub fn add(&mut self, sent: Nanos, dws_ns: u64) {
        let start = Nanos(sent.0 - sent.0 % self.interval_ns);
        if start > self.current_at {
            self.close();
            self.current_at = start;
        }
        self.current.record(dws_ns);
    }

    fn close(&mut self) {
        if let Some(point) = self.open_point() {
            if self.points.len() >= self.points_max {
                self.points.pop_front();
            }
            self.points.push_back(point);
            self.current.clear();
        }
    }

    fn open_point(&self) -> Option<WindowPoint> {
        (self.current.count() > 0).then(|| {
            let summary = self.current.summary();
            WindowPoint {
                at: self.current_at,
                messages: summary.count,
                p50_ns: summary.p50,
                p99_ns: summary.p99,
                max_ns: summary.max,
            }
        })
    }

    pub fn clear(&mut self) {
        self.points.clear();
        self.current.clear();
        self.current_at = Nanos(0);
    }

    /// All points in order of time; the last one is unfinished.
    pub fn points(&self) -> impl Iterator<Item = WindowPoint> {
        self.points.iter().copied().chain(self.open_point())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_by_interval_and_keeps_the_latest() {
        let mut series = Series::new(100, 3);
        for (sent, dws) in [(110, 5), (199, 7), (201, 9), (150, 1), (700, 2), (800, 3), (900, 4)] {
            series.add(Nanos(sent), dws);
        }
        let points: Vec<_> =
            series.points().map(|point| (point.at.0, point.messages, point.max_ns)).collect();
        // The straggler of interval 100 counts in 200; of five intervals the first has gone.
        assert_eq!(points, [(200, 2, 9), (700, 1, 2), (800, 1, 3), (900, 1, 4)]);
        series.clear();
        assert_eq!(series.points().count(), 0);
    }
}
