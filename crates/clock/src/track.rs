//! One node's offset and drift from window to window.
//!
//! A window's fit knows an offset well and a drift badly; a Kalman filter over the fits knows both.
//! The drift is taken to walk at random (white noise on its rate), by as much as residuals allow
//! ([`crate::wander`]); when all nodes together are surprised by more, it is taken to walk further.

/// Covariance of offset and drift: offset's variance, both, drift's variance.
type Covariance = [f64; 3];

/// Offset and drift at a moment of the reference's clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Track {
    at_ns: i64,
    offset: f64,
    drift: f64,
    /// By the likely wander: decides how much a fix moves.
    likely: Covariance,
    /// Of the same estimate, what errors of fits are to blame for.
    erred: Covariance,
    /// And what a wander of 1 ns per s would be: so the past can be judged by any wander, also by
    /// one that only came out later.
    walked: Covariance,
}

/// Estimate of a node's clock from the fit of a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fix {
    /// Offset of the node's clock, ns.
    pub offset: f64,
    /// Drift of the node's clock, ns per s.
    pub drift: f64,
    /// Variance of the offset, in ns^2.
    pub offset_variance: f64,
    /// Variance of the drift, in (ns/s)^2.
    pub drift_variance: f64,
    /// Half of the time that the fit was laid through, in s.
    pub half_s: f64,
}

impl Fix {
    /// Variances of offset and drift. A drift that walks bends what a line is laid through: by
    /// w^2 h^3 / 40 and 0.12 w^2 h for a line of least squares; twice that for the widest margin's.
    fn variances(&self, wander: f64) -> (f64, f64) {
        let (q, h) = (wander * wander, self.half_s);
        (self.offset_variance + q * h * h * h / 20.0, self.drift_variance + q * h / 4.0)
    }
}

/// How far a drift walks within a second, as a standard deviation in ns per s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Walk {
    /// The best estimate: decides how much a fix moves the track.
    pub likely: f64,
    /// The upper limit, at least `likely`: bounds are made with it.
    pub most: f64,
}

/// A surprise beyond so many variances is a step of the clock, not a drift: begin anew.
const STEP: f64 = 400.0;

/// The covariance `dt` seconds later, when the drift walks by `wander` ns per s within a second.
fn later([p00, p01, p11]: Covariance, dt: f64, wander: f64) -> Covariance {
    let (q, t) = (wander * wander, dt.abs());
    [
        p00 + 2.0 * dt * p01 + dt * dt * p11 + q * t * t * t / 3.0,
        p01 + dt * p11 + q * t * dt / 2.0,
        p11 + q * t,
    ]
}

/// A covariance after offset (or drift) was seen with an error of `variance` and offset and drift
/// moved by `gain` of the difference: right for any gain, not just the best (Joseph's form).
fn seen([p00, p01, p11]: Covariance, [g, h]: [f64; 2], drift: bool, variance: f64) -> Covariance {
    match drift {
        false => [
            (1.0 - g) * (1.0 - g) * p00 + variance * g * g,
            (1.0 - g) * (p01 - h * p00) + variance * g * h,
            p11 - 2.0 * h * p01 + h * h * p00 + variance * h * h,
        ],
        true => [
            p00 - 2.0 * g * p01 + g * g * p11 + variance * g * g,
            (1.0 - h) * (p01 - g * p11) + variance * g * h,
            (1.0 - h) * (1.0 - h) * p11 + variance * h * h,
        ],
    }
}

impl Track {
    /// A track that begins with its first fix.
    pub fn new(at_ns: i64, fix: &Fix, walk: Walk) -> Track {
        let begun = |(offset, drift)| [offset, 0.0, drift];
        Track {
            at_ns,
            offset: fix.offset,
            drift: fix.drift,
            likely: begun(fix.variances(walk.likely)),
            erred: begun(fix.variances(0.0)),
            walked: begun(Fix { offset_variance: 0.0, drift_variance: 0.0, ..*fix }.variances(1.0)),
        }
    }

    fn seconds(&self, at_ns: i64) -> f64 {
        at_ns.wrapping_sub(self.at_ns) as f64 / 1e9
    }

    /// Offset in ns, drift in ns per s, and the covariance (offset, both, drift), at a moment, for
    /// a wander in ns per s.
    pub fn at(&self, at_ns: i64, wander: f64) -> (f64, f64, [f64; 3]) {
        let dt = self.seconds(at_ns);
        let (erred, walked) = (later(self.erred, dt, 0.0), later(self.walked, dt, 1.0));
        let both = |at: usize| erred[at] + wander * wander * walked[at];
        (self.offset + self.drift * dt, self.drift, [both(0), both(1), both(2)])
    }

    /// Takes a fix; gives how surprising its offset was: the square of the difference in variances,
    /// about 1 on average.
    pub fn update(&mut self, at_ns: i64, fix: &Fix, walk: Walk) -> Option<f64> {
        let dt = self.seconds(at_ns);
        let (mut offset, mut drift, covered) = self.at(at_ns, walk.most);
        let wrong = fix.offset - offset;
        let surprise = wrong * wrong / (covered[0] + fix.variances(walk.most).0).max(1e-9);
        if surprise > STEP {
            *self = Track::new(at_ns, fix, walk);
            return None;
        }
        let mut likely = later(self.likely, dt, walk.likely);
        let mut erred = later(self.erred, dt, 0.0);
        let mut walked = later(self.walked, dt, 1.0);
        let (usual, sure) = (fix.variances(walk.likely), fix.variances(0.0));
        let unit = Fix { offset_variance: 0.0, drift_variance: 0.0, ..*fix }.variances(1.0);
        let gain = [likely[0], likely[1]].map(|p| p / (likely[0] + usual.0));
        (offset, drift) = (offset + gain[0] * wrong, drift + gain[1] * wrong);
        likely = seen(likely, gain, false, usual.0);
        erred = seen(erred, gain, false, sure.0);
        walked = seen(walked, gain, false, unit.0);
        let gain = [likely[1], likely[2]].map(|p| p / (likely[2] + usual.1));
        let wrong = fix.drift - drift;
        (offset, drift) = (offset + gain[0] * wrong, drift + gain[1] * wrong);
        likely = seen(likely, gain, true, usual.1);
        erred = seen(erred, gain, true, sure.1);
        walked = seen(walked, gain, true, unit.1);
        *self = Track { at_ns, offset, drift, likely, erred, walked };
        Some(surprise)
    }
}

#[cfg(test)]
mod tests {
    use types::SplitMix64;

    use super::*;

    const WANDER: f64 = 20.0;
    const WALK: Walk = Walk { likely: WANDER, most: WANDER };

    /// A fix with errors of 300 ns and 500 ns per s.
    fn seen_as(offset: f64, drift: f64) -> Fix {
        Fix { offset, drift, offset_variance: 9e4, drift_variance: 25e4, half_s: 0.0 }
    }

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
            let fix = seen_as(offset + normal(300.0), drift + normal(500.0));
            let track = track.get_or_insert(Track::new(at_ns, &fix, WALK));
            surprise += track.update(at_ns, &fix, WALK).unwrap();
            let (shown, _, p) = track.at(at_ns, WANDER);
            errors += (shown - offset) * (shown - offset);
            told += p[0];
        }
        assert!(errors < 0.25 * 9e4 * 2_000.0, "{errors}");
        assert!((0.7..1.4).contains(&(errors / told)), "{errors} {told}");
        assert!((0.8..1.2).contains(&(surprise / 2_000.0)), "{surprise}");
    }

    #[test]
    fn what_is_covered_is_right_though_the_likely_wander_is_too_small() {
        let mut rng = SplitMix64::new(11);
        let mut normal = |sigma: f64| sigma * ((0..12).map(|_| rng.unit()).sum::<f64>() - 6.0);
        let (mut offset, mut drift, mut track) = (0.0, 0.0, None);
        let (mut errors, mut told) = (0.0, 0.0);
        let walk = Walk { likely: 20.0, most: 200.0 };
        for step in 0..4_000i64 {
            offset += drift * 0.5;
            drift += normal(200.0 * 0.5f64.sqrt());
            let fix = seen_as(offset + normal(300.0), drift + normal(500.0));
            let track = track.get_or_insert(Track::new(step * 500_000_000, &fix, walk));
            track.update(step * 500_000_000, &fix, walk);
            let (shown, _, p) = track.at(step * 500_000_000, 200.0);
            errors += (shown - offset) * (shown - offset);
            told += p[0];
        }
        assert!((0.7..1.4).contains(&(errors / told)), "{errors} {told}");
        assert!(errors / 4_000.0 > 2.0 * 9e4, "the likely wander was far too small");
    }

    #[test]
    fn a_step_of_the_clock_begins_a_new_track() {
        let fix = |offset| Fix {
            offset,
            drift: 0.0,
            offset_variance: 1e4,
            drift_variance: 1e4,
            half_s: 0.0,
        };
        let mut track = Track::new(0, &fix(0.0), WALK);
        assert!(track.update(1_000_000_000, &fix(50.0), WALK).is_some());
        assert_eq!(track.update(2_000_000_000, &fix(1e6), WALK), None);
        assert_eq!(track.at(2_000_000_000, WANDER).0, 1e6);
    }
}
