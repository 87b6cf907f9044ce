//! From the free-running clock to the disciplined one: slewed, never stepped, always with a bound.
//!
//! A correction names a line: at free-running reading `anchor` the clock was `offset` ahead and
//! drifts away by `drift`. The first one sets the disciplined clock, which nobody has read before;
//! every later one is approached at a bounded rate, so that readings are continuous and never run
//! backwards, whatever the corrections say. The published bound is the correction's, grown since
//! its anchor, plus what is still to be slewed: it only grows while no correction comes, and says
//! so. A correction that differs from the line in force by more than the bounds of both says that
//! one of the two is wrong. It is counted, followed only when [`CONFIRMED`] in a row say the same,
//! and until then the published bound includes the difference. Integer arithmetic alone.

use types::{ClockReading, Nanos};

use crate::wire::{Bound, Correction};

/// Parts of 10^12 that make up 1.
const PPT: i128 = 1_000_000_000_000;
/// Largest drift that is believed: 1,000 ppm, in parts of 10^12.
pub const DRIFT_MAX_PPT: i64 = 1_000_000_000;
/// Largest rate of slewing: 10 %, in parts of 10^12.
pub const SLEW_MAX_PPT: i64 = 100_000_000_000;

/// Corrections in a row that have to agree before a step beyond the bounds is followed.
pub const CONFIRMED: u32 = 3;

/// A step of the clock beyond the bounds, which is not followed yet.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// The last correction that asks for the step.
    correction: Correction,
    /// Number of corrections in a row that agree on the step.
    agreeing: u32,
    /// Difference between the correction and the line that is followed, ns.
    gap_ns: u64,
}

/// The disciplined clock of one node.
#[derive(Clone, Debug)]
pub struct Discipline {
    slew_ppt: i64,
    correction: Option<Correction>,
    /// Part of the correction that is still to be slewed at `since`, ns: reading less corrected
    /// time.
    rest_ns: i64,
    since: Nanos,
    /// The largest reading given so far; no later one is smaller.
    last: Nanos,
    /// Number of corrections refused for an impossible drift.
    refused: u64,
    doubt: Option<Doubt>,
    /// Number of corrections that were beyond the bounds.
    beyond: u64,
    /// The next correction is another reference's, which numbers windows by its own clock.
    renewed: bool,
}

impl Discipline {
    /// A clock without correction yet that will slew by at most `slew_ppt`.
    pub fn new(slew_ppt: i64) -> Discipline {
        Discipline {
            slew_ppt: slew_ppt.clamp(1, SLEW_MAX_PPT),
            correction: None,
            rest_ns: 0,
            since: Nanos(0),
            last: Nanos(0),
            refused: 0,
            doubt: None,
            beyond: 0,
            renewed: false,
        }
    }

    /// Another reference corrects from now on: its first correction is newer than any before.
    pub fn renew(&mut self) {
        (self.renewed, self.doubt) = (true, None);
    }

    /// Whether no correction of a new reference was followed yet.
    pub fn is_renewed(&self) -> bool {
        self.renewed
    }

    /// This clock is what the others follow from now on: it goes on along its line as if that were
    /// the truth, from `raw` on; where it has none, as the free-running clock. Gives the error that it
    /// had until now, ns.
    pub fn lead(&mut self, raw: Nanos, own: Bound) -> u64 {
        let doubted_ns = self.doubt.take().map_or(0, |doubt| doubt.gap_ns);
        let Some(line) = self.correction else {
            self.correction = Some(Correction { anchor: raw, bound: own, ..Correction::default() });
            self.since = raw;
            return 0;
        };
        let offset_ns = saturate(i128::from(raw.0) - target(&line, raw));
        self.correction = Some(Correction { anchor: raw, offset_ns, bound: own, ..line });
        bound(&line, raw).saturating_add(doubted_ns)
    }

    /// This clock is followed no more, from `raw` on: it goes on along its line until the next
    /// reference corrects it, who is one of `heirs`.
    pub fn stand_down(&mut self, raw: Nanos, heirs: Bound) {
        if let Some(line) = self.correction {
            self.lead(raw, line.bound);
        }
        if let Some(line) = &mut self.correction {
            line.heirs = heirs;
        }
        self.renew();
    }

    /// What the line in force says that the clock is ahead at `raw`, in ns, and its drift, in parts of
    /// 10^12.
    pub fn line(&self, raw: Nanos) -> (i64, i64) {
        let Some(line) = self.correction else { return (0, 0) };
        (saturate(i128::from(raw.0) - target(&line, raw)), line.drift_ppt)
    }

    /// Follows a correction from free-running reading `raw` on. One that is older than the last, of
    /// impossible drift, or beyond the bounds and not confirmed yet is left aside.
    pub fn correct(&mut self, raw: Nanos, correction: &Correction) -> bool {
        if correction.drift_ppt.unsigned_abs() > DRIFT_MAX_PPT as u64 {
            self.refused += 1;
            return false;
        }
        let old = self.correction.is_some_and(|last| !newer(correction.window, last.window));
        if old && !self.renewed {
            return false;
        }
        if self.is_doubtful(raw, correction) {
            return false;
        }
        self.doubt = None;
        self.rest_ns = match self.correction {
            None => 0,
            Some(last) => {
                let shown = target(&last, raw) + i128::from(self.rest(raw));
                saturate(shown - target(correction, raw))
            }
        };
        self.since = raw;
        self.renewed = false;
        self.correction = Some(*correction);
        true
    }

    /// Whether a correction is beyond the bounds, and too few before it said the same.
    fn is_doubtful(&mut self, raw: Nanos, correction: &Correction) -> bool {
        let Some(gap_ns) = self.correction.and_then(|last| contradiction(&last, correction, raw))
        else {
            return false;
        };
        let before = self.doubt.filter(|doubt| newer(correction.window, doubt.correction.window));
        if self.doubt.is_some() && before.is_none() {
            return true;
        }
        self.beyond += 1;
        let agrees =
            before.filter(|doubt| contradiction(&doubt.correction, correction, raw).is_none());
        let agreeing = agrees.map_or(1, |doubt| doubt.agreeing + 1);
        self.doubt = Some(Doubt { correction: *correction, agreeing, gap_ns });
        agreeing < CONFIRMED
    }

    /// Corrections that differed from the line in force by more than the bounds of both: one of the
    /// two was wrong.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// The difference of a step beyond the bounds that is not followed yet, in ns.
    pub fn doubted_ns(&self) -> Option<u64> {
        self.doubt.map(|doubt| doubt.gap_ns)
    }

    /// The reading at free-running reading `raw`, which must not be before an earlier one; `None`
    /// before the first correction.
    pub fn read(&mut self, raw: Nanos) -> Option<ClockReading> {
        let correction = self.correction?;
        let rest = self.rest(raw);
        let now = target(&correction, raw) + i128::from(rest);
        let now = Nanos(now.clamp(0, i128::from(u64::MAX - 1)) as u64).max(self.last);
        self.last = now;
        Some(ClockReading {
            now,
            bound_ns: bound(&correction, raw)
                .saturating_add(rest.unsigned_abs())
                .saturating_add(self.doubted_ns().unwrap_or(0)),
        })
    }

    /// The correction that is followed; `None`: none yet.
    pub fn correction(&self) -> Option<&Correction> {
        self.correction.as_ref()
    }

    /// Number of corrections refused for an impossible drift.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Correction that is still to be slewed at `raw`, ns.
    pub fn rest(&self, raw: Nanos) -> i64 {
        let done = i128::from(raw.since(self.since)) * i128::from(self.slew_ppt) / PPT;
        let left = (i128::from(self.rest_ns.unsigned_abs()) - done).max(0);
        saturate(left * i128::from(self.rest_ns.signum()))
    }
}

/// Whether window `a` is after window `b`: windows are counted for ever, in 32 bits.
pub(crate) fn newer(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

fn saturate(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// The reference's reading at free-running reading `raw`, by a correction's line.
fn target(correction: &Correction, raw: Nanos) -> i128 {
    let passed = i128::from(raw.0) - i128::from(correction.anchor.0);
    let drifted = (passed * i128::from(correction.drift_ppt)).div_euclid(PPT);
    i128::from(raw.0) - i128::from(correction.offset_ns) - drifted
}

/// By how much two corrections contradict one another at `raw`, in ns: `None` where the reference's
/// clock may be within the bounds of both.
fn contradiction(one: &Correction, other: &Correction, raw: Nanos) -> Option<u64> {
    let gap = (target(one, raw) - target(other, raw)).unsigned_abs();
    let bounds = bound(one, raw).saturating_add(bound(other, raw));
    (gap > u128::from(bounds)).then(|| u64::try_from(gap).unwrap_or(u64::MAX))
}

/// Largest error of the line at `raw`.
fn bound(correction: &Correction, raw: Nanos) -> u64 {
    correction.bound.at(raw.0.abs_diff(correction.anchor.0))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const START: u64 = 1_000 * Nanos::SECOND;

    proptest! {
        #[test]
        fn readings_never_step_whatever_is_to_be_corrected(
            steps in vec(
                (any::<i64>(), any::<i64>(), any::<u64>(), 1u64..3 * Nanos::SECOND), 1..30),
            slew in any::<i64>(),
        ) {
            let mut clock = Discipline::new(slew);
            let (mut raw, mut last) = (Nanos(START), None::<(Nanos, Nanos)>);
            for (window, (offset, drift, anchor, passed)) in (1..).zip(steps) {
                let (offset_ns, anchor) = (offset % 1_000_000_000_000, Nanos(anchor >> 8));
                let drift_ppt = drift % (2 * DRIFT_MAX_PPT);
                let bound = Bound { ns: i64::MAX as u64, ..Bound::default() };
                let default = Correction::default();
                let correction =
                    Correction { window, anchor, offset_ns, drift_ppt, bound, ..default };
                clock.correct(raw, &correction);
                for part in [0, passed / 3, passed] {
                    let at = Nanos(raw.0 + part);
                    if let Some(reading) = clock.read(at) {
                        if let Some((before, shown)) = last {
                            let (passed, gone) = (at.0 - before.0, reading.now.since(shown));
                            prop_assert!(reading.now >= shown);
                            // Drift and slew are bounded; 3 ns of rounding.
                            let most = passed as f64 * 1.1011 + 3.0;
                            prop_assert!(gone as f64 <= most, "{gone} in {passed}");
                        }
                        last = Some((at, reading.now));
                    }
                }
                raw = Nanos(raw.0 + passed);
            }
        }
    }

    fn correction(window: u32, offset_ns: i64) -> Correction {
        Correction {
            window,
            anchor: Nanos(START),
            offset_ns,
            bound: Bound { ns: 600_000, growth_ppt: 1_000_000, wander_ppt: 0 },
            ..Correction::default()
        }
    }

    #[test]
    fn the_first_correction_sets_and_later_ones_are_slewed_to() {
        let mut clock = Discipline::new(500_000_000);
        assert_eq!(clock.read(Nanos(START)), None);
        assert!(clock.correct(Nanos(START), &correction(1, 5_000_000)));
        let first = clock.read(Nanos(START)).unwrap();
        assert_eq!((first.now, first.bound_ns), (Nanos(START - 5_000_000), 600_000));
        // 1 ms further back: 500 ppm take two seconds, and the bound covers what is left.
        assert!(clock.correct(Nanos(START), &correction(2, 6_000_000)));
        let second = Nanos::SECOND;
        let half = clock.read(Nanos(START + second)).unwrap();
        assert_eq!(half.now, Nanos(START + second - 5_500_000));
        assert_eq!(half.bound_ns, 600_000 + 1_000 + 500_000);
        let done = clock.read(Nanos(START + 3 * second)).unwrap();
        assert_eq!(done.now, Nanos(START + 3 * second - 6_000_000));
        assert_eq!(done.bound_ns, 600_000 + 3_000);
    }

    #[test]
    fn old_and_impossible_corrections_are_left_aside_and_the_bound_grows() {
        let mut clock = Discipline::new(500_000_000);
        assert!(clock.correct(Nanos(START), &correction(5, 0)));
        assert!(!clock.correct(Nanos(START), &correction(5, 9)));
        assert!(!clock.correct(Nanos(START), &correction(4, 9)));
        let wild = Correction { drift_ppt: 2 * DRIFT_MAX_PPT, ..correction(6, 9) };
        assert!(!clock.correct(Nanos(START), &wild));
        assert_eq!(clock.refused(), 1);
        let mut before = 0;
        for seconds in 0..100 {
            let bound = clock.read(Nanos(START + seconds * Nanos::SECOND)).unwrap().bound_ns;
            assert!(bound > before);
            before = bound;
        }
    }

    #[test]
    fn a_step_beyond_the_bounds_is_told_and_followed_only_when_it_is_confirmed() {
        let mut clock = Discipline::new(500_000_000);
        assert!(clock.correct(Nanos(START), &correction(1, 0)));
        // As a recorded one: alone. What is shown does not move, and its bound says what is in doubt.
        let step = 3_000_000_000;
        assert!(!clock.correct(Nanos(START), &correction(2, step)));
        assert_eq!((clock.beyond(), clock.doubted_ns()), (1, Some(step as u64)));
        let reading = clock.read(Nanos(START)).unwrap();
        assert_eq!((reading.now, reading.bound_ns), (Nanos(START), 600_000 + step as u64));
        assert!(!clock.correct(Nanos(START), &correction(2, step)), "told twice");
        assert_eq!(clock.beyond(), 1);
        assert!(clock.correct(Nanos(START), &correction(3, 1_000)));
        assert_eq!((clock.doubted_ns(), clock.correction().unwrap().window), (None, 3));
        // Others that don't agree confirm nothing.
        for (window, offset) in (4..20).zip([step, -step].into_iter().cycle()) {
            assert!(!clock.correct(Nanos(START), &correction(window, offset)));
        }
        // Three that agree: the reference's clock did step.
        for window in 20..22 {
            assert!(!clock.correct(Nanos(START), &correction(window, 2 * step)));
        }
        assert!(clock.correct(Nanos(START), &correction(22, 2 * step)));
        assert_eq!((clock.beyond(), clock.doubted_ns()), (1 + 16 + 3, None));
    }

    #[test]
    fn who_leads_goes_on_along_its_line_and_says_how_wrong_that_was() {
        let mut clock = Discipline::new(500_000_000);
        assert!(clock.correct(Nanos(START), &correction(1, 7_000)));
        // What was in doubt is in doubt still.
        assert!(!clock.correct(Nanos(START), &correction(2, 3_000_000_000)));
        let before = clock.read(Nanos(START)).unwrap();
        assert_eq!(clock.lead(Nanos(START), Bound::default()), before.bound_ns);
        let after = clock.read(Nanos(START)).unwrap();
        assert_eq!((after.now, after.bound_ns), (before.now, 0));
        assert_eq!(clock.line(Nanos(START)).0, 7_000);
    }

    #[test]
    fn control_a_step_within_the_bounds_is_followed_at_once() {
        let mut clock = Discipline::new(500_000_000);
        assert!(clock.correct(Nanos(START), &correction(1, 0)));
        assert!(clock.correct(Nanos(START), &correction(2, 1_200_000)));
        assert!(!clock.correct(Nanos(START), &correction(3, 1_200_000 + 1_200_001)));
        assert_eq!(clock.beyond(), 1);
    }
}
