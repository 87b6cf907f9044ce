//! Deadline estimators, as the root runs them on what receivers report.
//!
//! Per message the root needs one number D (deadline = t_sent + D). Three ways to it:
//! the paper's, the maximum over receivers of each one's percentile of its own delays over the last
//! window; a percentile of the per-message maximum, for which receivers report the delays of the
//! window by message and every proxy passes on the element-wise maximum; and a controller that
//! hears one bit a message, whether any receiver missed it.

use std::collections::VecDeque;

use super::stats::percentile;

/// Messages of a tumbling window (paper §8 leaves it open).
pub const WINDOW: usize = 1_000;
/// Messages that pass between the end of a window and the first that uses its result.
const LAG: usize = 25;

/// Which estimator, and what it aims at (a share, 0 to 1).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// Maximum over receivers of this percentile of their delays; the paper's is 0.95.
    MaxOfPercentiles(f64),
    /// This percentile of the per-message maximum.
    OfMaximum(f64),
    /// One-bit controller that aims at this share of messages without a miss.
    OneBit(f64),
}

impl Kind {
    /// A name for tables.
    pub fn name(&self) -> String {
        match self {
            Kind::MaxOfPercentiles(share) => format!("max of p{:.4}s", trim(share * 100.0)),
            Kind::OfMaximum(share) => format!("p{:.4} of the maximum", trim(share * 100.0)),
            Kind::OneBit(share) => format!("one-bit, target {:.4} %", trim(share * 100.0)),
        }
        .replace(".0000", "")
    }
}

fn trim(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// An estimator at work.
pub struct Estimator {
    kind: Kind,
    /// Result in force, in ns; `None` before the first.
    current: Option<u64>,
    /// Results on their way to the root: (message from which they hold, value).
    coming: VecDeque<(usize, u64)>,
    /// The controller's value, exact.
    level: f64,
    /// Whether messages were missed by somebody, until the root hears of it.
    misses: VecDeque<bool>,
    /// Messages so far.
    messages: usize,
}

impl Estimator {
    /// One that has heard nothing.
    pub fn new(kind: Kind) -> Estimator {
        Estimator {
            kind,
            current: None,
            coming: VecDeque::new(),
            level: 0.0,
            misses: VecDeque::new(),
            messages: 0,
        }
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// D for the next message.
    pub fn delay_ns(&mut self) -> Option<u64> {
        while let Some((_, value)) = self.coming.pop_front_if(|(from, _)| *from <= self.messages) {
            match self.kind {
                // The controller starts from the first window and then goes its own way.
                Kind::OneBit(_) if self.current.is_some() => {}
                Kind::OneBit(_) => self.level = value as f64,
                _ => {}
            }
            if !matches!(self.kind, Kind::OneBit(_)) || self.current.is_none() {
                self.current = Some(value);
            }
        }
        self.current
    }

    /// The message is over; by the receivers' clocks the last of them had it `needed_ns` after it
    /// was sent, so it was missed when D was less.
    pub fn learn(&mut self, needed_ns: u64) {
        self.messages += 1;
        let (Kind::OneBit(target), Some(current)) = (self.kind, self.current) else { return };
        self.misses.push_back(needed_ns > current);
        if self.misses.len() <= LAG {
            return;
        }
        // A step up per miss and a small one down otherwise balance where the share of misses is
        // 1 - target. Steps are relative, so that no scale has to be known beforehand.
        let step = 0.02 * self.level;
        match self.misses.pop_front() {
            Some(true) => self.level += step * target,
            _ => self.level -= step * (1.0 - target),
        }
        self.current = Some(self.level as u64);
    }

    /// A window is over: `by_receiver` gives a percentile's maximum over receivers, `maxima` are
    /// the per-message maxima of the window.
    pub fn close_window(&mut self, by_receiver: &mut impl FnMut(f64) -> u64, maxima: &mut [u64]) {
        let value = match self.kind {
            Kind::MaxOfPercentiles(share) => by_receiver(share),
            Kind::OfMaximum(share) | Kind::OneBit(share) => percentile(maxima, share),
        };
        self.coming.push_back((self.messages + LAG, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::SplitMix64;

    fn hits(kind: Kind, messages: usize, drift: u64) -> f64 {
        let (mut estimator, mut rng) = (Estimator::new(kind), SplitMix64::new(3));
        let (mut window, mut hit, mut stamped) = (Vec::new(), 0, 0);
        for message in 0..messages {
            let needed = 100_000 + rng.below(50_000) + drift * message as u64;
            if let Some(delay) = estimator.delay_ns() {
                stamped += 1;
                hit += usize::from(needed <= delay);
            }
            estimator.learn(needed);
            window.push(needed);
            if window.len() == WINDOW {
                let mut copy = window.clone();
                estimator.close_window(&mut |share| percentile(&mut copy, share), &mut window);
                window.clear();
            }
        }
        assert_eq!(stamped, messages - WINDOW - LAG);
        hit as f64 / stamped as f64
    }

    #[test]
    fn percentiles_and_controller_meet_their_targets() {
        assert!((hits(Kind::OfMaximum(0.95), 40_000, 0) - 0.95).abs() < 0.01);
        assert!((hits(Kind::MaxOfPercentiles(0.95), 40_000, 0) - 0.95).abs() < 0.01);
        assert!((hits(Kind::OneBit(0.95), 40_000, 0) - 0.95).abs() < 0.01);
    }

    #[test]
    fn the_controller_follows_a_drift_that_windows_miss() {
        assert!(hits(Kind::OneBit(0.95), 40_000, 20) > 0.9);
        assert!(hits(Kind::OfMaximum(0.95), 40_000, 20) < 0.6, "control: always a window late");
    }
}
