//! What Huygens is compared with: each node asks the reference itself, and trusts single exchanges.
//!
//! Both estimators take round trips of four stamps. The minimum-delay one does as NTP's clock
//! filter (RFC 5905, section 10) with a line through the chosen exchanges, as chrony fits one. The
//! Kalman filter follows offset and drift, and believes an exchange the less the longer it took.

use std::collections::VecDeque;

use types::Nanos;

/// Time stamps of one round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// Request sent, by the own clock.
    pub sent: Nanos,
    /// Request received, by the reference's clock.
    pub arrived: Nanos,
    /// Reply sent, by the reference's clock.
    pub replied: Nanos,
    /// Reply received, by the own clock.
    pub returned: Nanos,
}

impl Exchange {
    fn difference(later: Nanos, earlier: Nanos) -> f64 {
        later.0.wrapping_sub(earlier.0) as i64 as f64
    }

    /// Own clock less the reference's, were both directions alike, in ns.
    pub fn offset_ns(&self) -> f64 {
        let out = Exchange::difference(self.sent, self.arrived);
        (out + Exchange::difference(self.returned, self.replied)) / 2.0
    }

    /// Time on the way, both directions, in ns.
    pub fn delay_ns(&self) -> f64 {
        Exchange::difference(self.returned, self.sent)
            - Exchange::difference(self.replied, self.arrived)
    }

    fn seconds(&self, origin: Nanos) -> f64 {
        Exchange::difference(self.returned, origin) / 1e9
    }
}

/// Follows the reference by round trips.
pub trait Estimator {
    /// Takes one round trip into the estimate.
    fn exchange(&mut self, exchange: &Exchange);

    /// Own clock less the reference's at an own reading, in ns; `None` before the first exchange.
    fn offset_ns(&self, at: Nanos) -> Option<f64>;
}

/// The least delay of each of the last windows, and a line through those.
#[derive(Clone, Debug)]
pub struct MinimumDelay {
    window_ns: u64,
    windows: usize,
    chosen: VecDeque<(u64, Exchange)>,
}

impl MinimumDelay {
    /// An estimator over so many windows of a length.
    pub fn new(window_ns: u64, windows: usize) -> MinimumDelay {
        MinimumDelay {
            window_ns: window_ns.max(1),
            windows: windows.max(1),
            chosen: VecDeque::new(),
        }
    }
}

impl Estimator for MinimumDelay {
    fn exchange(&mut self, exchange: &Exchange) {
        let window = exchange.returned.0 / self.window_ns;
        match self.chosen.back_mut() {
            Some((known, best)) if *known == window => {
                if exchange.delay_ns() < best.delay_ns() {
                    *best = *exchange;
                }
            }
            _ => self.chosen.push_back((window, *exchange)),
        }
        while self.chosen.len() > self.windows {
            self.chosen.pop_front();
        }
    }

    fn offset_ns(&self, at: Nanos) -> Option<f64> {
        let origin = self.chosen.back()?.1.returned;
        let points = || self.chosen.iter().map(|(_, e)| (e.seconds(origin), e.offset_ns()));
        let n = self.chosen.len() as f64;
        let (sx, sy) = points().fold((0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1));
        let (mx, my) = (sx / n, sy / n);
        let (sxx, sxy) = points().fold((0.0, 0.0), |sum, (x, y)| {
            (sum.0 + (x - mx) * (x - mx), sum.1 + (x - mx) * (y - my))
        });
        let slope = if sxx > 1e-6 { sxy / sxx } else { 0.0 };
        Some(my + slope * (Exchange::difference(at, origin) / 1e9 - mx))
    }
}

/// Offset and drift by a Kalman filter.
#[derive(Clone, Debug)]
pub struct Kalman {
    /// Drift's standard deviation of a second, in ns per s.
    wander: f64,
    /// Last exchange's own reading, offset in ns, drift in ns per s.
    state: Option<(Nanos, f64, f64)>,
    covariance: [[f64; 2]; 2],
    least_delay: f64,
}

impl Kalman {
    /// A filter for drifts that change by `wander_ppb` within a second.
    pub fn new(wander_ppb: f64) -> Kalman {
        // Drifts are first believed to be within some 100 ppm.
        let covariance = [[1e12, 0.0], [0.0, 1e10]];
        Kalman { wander: wander_ppb, state: None, covariance, least_delay: f64::INFINITY }
    }
}

impl Estimator for Kalman {
    fn exchange(&mut self, exchange: &Exchange) {
        // The least delay is forgotten slowly, so that a changed route is found out.
        self.least_delay = (self.least_delay * 1.000_1).min(exchange.delay_ns());
        let Some((last, offset, drift)) = self.state else {
            self.state = Some((exchange.returned, exchange.offset_ns(), 0.0));
            return;
        };
        let dt = Exchange::difference(exchange.returned, last) / 1e9;
        let [[p00, p01], [_, p11]] = self.covariance;
        let q = self.wander * self.wander;
        let p00 = p00 + 2.0 * dt * p01 + dt * dt * p11 + q * dt * dt * dt / 3.0;
        let p01 = p01 + dt * p11 + q * dt * dt / 2.0;
        let p11 = p11 + q * dt;
        let predicted = offset + drift * dt;
        // Half of what the trip took too long may be the error; 1 us is there anyway.
        let excess = (exchange.delay_ns() - self.least_delay) / 2.0;
        let noise = 1e6 + excess * excess;
        let gain = (p00 / (p00 + noise), p01 / (p00 + noise));
        let wrong = exchange.offset_ns() - predicted;
        self.state = Some((exchange.returned, predicted + gain.0 * wrong, drift + gain.1 * wrong));
        let (c00, c01) = ((1.0 - gain.0) * p00, (1.0 - gain.0) * p01);
        self.covariance = [[c00, c01], [c01, p11 - gain.1 * p01]];
    }

    fn offset_ns(&self, at: Nanos) -> Option<f64> {
        let (last, offset, drift) = self.state?;
        Some(offset + drift * Exchange::difference(at, last) / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use types::SplitMix64;

    use super::*;

    /// Exchanges of a clock 5 ms ahead that gains 30 ppm, with delays of 20 us and more.
    fn follow(estimator: &mut dyn Estimator) -> f64 {
        let mut rng = SplitMix64::new(4);
        let own = |at: u64| Nanos(at + 5_000_000 + at * 30 / 1_000_000);
        let mut at = 0;
        for _ in 0..2_000 {
            at += 5_000_000;
            let delay = [0, 1].map(|_| 20_000 + rng.below(20_000));
            estimator.exchange(&Exchange {
                sent: own(at),
                arrived: Nanos(at + delay[0]),
                replied: Nanos(at + delay[0] + 500),
                returned: own(at + delay[0] + 500 + delay[1]),
            });
        }
        let at = at + 100_000_000;
        let truth = (own(at).0 - at) as f64;
        (estimator.offset_ns(own(at)).expect("there were exchanges") - truth).abs()
    }

    #[test]
    fn both_follow_offset_and_drift_within_microseconds() {
        let mut minimum = MinimumDelay::new(500_000_000, 8);
        assert_eq!(minimum.offset_ns(Nanos(5)), None);
        assert!(follow(&mut minimum) < 3_000.0);
        let mut kalman = Kalman::new(20.0);
        assert_eq!(kalman.offset_ns(Nanos(5)), None);
        assert!(follow(&mut kalman) < 3_000.0);
    }
}
