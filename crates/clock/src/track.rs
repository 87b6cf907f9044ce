//! One node's offset and drift from window to window.
//!
//! A window's fit knows an offset well and a drift badly; a Kalman filter over the fits knows both.
//! The drift is taken to walk at random (white noise on its rate), by as much as is configured; when
//! all nodes together are surprised by more than that allows, it is taken to walk further.

/// Offset, drift and their covariance at a moment of the reference's clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Track {
    at_ns: i64,
    offset: f64,
    drift: f64,
    p: [f64; 3],
}

/// What a window's fit says of a node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fix {
    /// Offset in ns.
    pub offset: f64,
    /// Drift in ns per s.
    pub drift: f64,
    /// Variance of the offset, in ns^2.
    pub offset_variance: f64,
    /// Variance of the drift, in (ns/s)^2.
    pub drift_variance: f64,
}

/// A surprise beyond so many variances is a step of the clock, not a drift: begin anew.
const STEP: f64 = 400.0;

impl Track {
    /// A track that begins with its first fix.
    pub fn new(at_ns: i64, fix: &Fix) -> Track {
        let p = [fix.offset_variance, 0.0, fix.drift_variance];
        Track { at_ns, offset: fix.offset, drift: fix.drift, p }
    }

    /// Offset in ns, drift in ns per s, and the covariance (offset, both, drift), at a moment.
    pub fn at(&self, at_ns: i64, wander: f64) -> (f64, f64, [f64; 3]) {
        let dt = at_ns.wrapping_sub(self.at_ns) as f64 / 1e9;
        let [p00, p01, p11] = self.p;
        let (q, t) = (wander * wander, dt.abs());
        let p = [
            p00 + 2.0 * dt * p01 + dt * dt * p11 + q * t * t * t / 3.0,
            p01 + dt * p11 + q * t * dt / 2.0,
            p11 + q * t,
        ];
        (self.offset + self.drift * dt, self.drift, p)
    }

    /// Takes a fix; gives how surprising its offset was: the square of the difference in variances,
    /// about 1 on average. `wander`: the drift's standard deviation of a second, in ns per s.
    pub fn update(&mut self, at_ns: i64, fix: &Fix, wander: f64) -> Option<f64> {
        let (mut offset, mut drift, mut p) = self.at(at_ns, wander);
        let variance = p[0] + fix.offset_variance;
        let wrong = fix.offset - offset;
        let surprise = wrong * wrong / variance.max(1e-9);
        if surprise > STEP {
            *self = Track::new(at_ns, fix);
            return None;
        }
        let gain = [p[0] / variance, p[1] / variance];
        (offset, drift) = (offset + gain[0] * wrong, drift + gain[1] * wrong);
        p = [(1.0 - gain[0]) * p[0], (1.0 - gain[0]) * p[1], p[2] - gain[1] * p[1]];
        let variance = p[2] + fix.drift_variance;
        let gain = [p[1] / variance, p[2] / variance];
        let wrong = fix.drift - drift;
        (offset, drift) = (offset + gain[0] * wrong, drift + gain[1] * wrong);
        p = [p[0] - gain[0] * p[1], (1.0 - gain[1]) * p[1], (1.0 - gain[1]) * p[2]];
        *self = Track { at_ns, offset, drift, p };
        Some(surprise)
    }
}

#[cfg(test)]
mod tests {
    use types::SplitMix64;

    use super::*;

    const WANDER: f64 = 20.0;

    #[test]
    fn it_knows_more_than_its_fixes_and_how_much() {
        let mut rng = SplitMix64::new(9);
        let mut normal = |sigma: f64| sigma * ((0..12).map(|_| rng.unit()).sum::<f64>() - 6.0);
        let (mut offset, mut drift) = (5e6, 30_000.0);
        let mut track = None;
        let (mut errors, mut told, mut surprise) = (0.0, 0.0, 0.0);
        for step in 0..2_000i64 {
            let (dt, at_ns) = (0.5, step * 500_000_000);
            offset += drift * dt;
            drift += normal(WANDER * 0.5f64.sqrt());
            let fix = Fix {
                offset: offset + normal(300.0),
                drift: drift + normal(500.0),
                offset_variance: 9e4,
                drift_variance: 25e4,
            };
            let track = track.get_or_insert(Track::new(at_ns, &fix));
            surprise += track.update(at_ns, &fix, WANDER).unwrap();
            let (shown, _, p) = track.at(at_ns, WANDER);
            errors += (shown - offset) * (shown - offset);
            told += p[0];
        }
        assert!(errors < 0.25 * 9e4 * 2_000.0, "{errors}");
        assert!((0.7..1.4).contains(&(errors / told)), "{errors} {told}");
        assert!((0.8..1.2).contains(&(surprise / 2_000.0)), "{surprise}");
    }

    #[test]
    fn a_step_of_the_clock_begins_a_new_track() {
        let fix = |offset| Fix { offset, drift: 0.0, offset_variance: 1e4, drift_variance: 1e4 };
        let mut track = Track::new(0, &fix(0.0));
        assert!(track.update(1_000_000_000, &fix(50.0), WANDER).is_some());
        assert_eq!(track.update(2_000_000_000, &fix(1e6), WANDER), None);
        assert_eq!(track.at(2_000_000_000, WANDER).0, 1e6);
    }
}
