//! The support-vector line between the probes of the two directions of an edge.
//!
//! The points of one direction lie above the difference of the two clocks by their delays, those of
//! the other below. The line that keeps the widest margin from both sets is the estimate: its value
//! is the clocks' offset, its slope their drift against each other (Geng et al., NSDI 2018, section
//! 3.2). That is the hard-margin support-vector machine in the plane, a quadratic programme; over
//! two convex chains its optimum is found by one walk along both, because the margin as a function
//! of the slope rises to one peak. `tests/svm.rs` proves the walk equal to the programme.
//!
//! What is left between the two sets is the edge's bound by causality alone: no probe arrived
//! before it was sent, so the true line, too, lies between them, whatever the delays' symmetry
//! ([`Line::causal`]). In the middle that is about half the gap to either side; far from the probes,
//! or with few of them, it is much more, because other slopes fit in as well.

use crate::hull::Point;

/// A line between the two directions' points, and how far it is from them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Line {
    /// Slope of the line, ns of offset per ns of time.
    pub slope: f64,
    /// Offset at the origin given to [`support_vector`], in ns.
    pub at_origin: f64,
    /// Vertical distance between the upper and the lower bound, in ns. Below 0: the sets overlap,
    /// and the line is the one that is wrong by the least.
    pub gap_ns: f64,
}

impl Line {
    /// Offset on the line `x` ns after the origin, ns.
    pub fn at(&self, x: f64) -> f64 {
        self.at_origin + self.slope * x
    }

    /// What all lines that pass between the chains, this one among them, have in common: between
    /// which values they are `x` ns after the origin, and between which slopes. Arguments as
    /// [`support_vector`]'s; no line steeper than `slope_max` is counted.
    pub fn causal(
        &self,
        above: &[Point],
        below: &[Point],
        origin: Point,
        x: f64,
        slope_max: f64,
    ) -> Causal {
        let seen = |point: &Point| {
            let ahead = point.x.wrapping_sub(origin.x) as f64 - x;
            (ahead, point.y.wrapping_sub(origin.y) as f64)
        };
        let above: Vec<(f64, f64)> = above.iter().map(seen).collect();
        let below: Vec<(f64, f64)> = below.iter().map(seen).collect();
        let slopes = (
            steepest(&above, &below, self.slope, self.slope.min(-slope_max)),
            steepest(&above, &below, self.slope, self.slope.max(slope_max)),
        );
        let within = |slope: f64| slope.max(slopes.0).min(slopes.1);
        // Highest along the lower chain where that passes the moment, lowest along the upper one;
        // where a chain does not reach so far, the steepest line is.
        let (high, _) = room(&above, within(slope_here(&above, f64::INFINITY)), ABOVE);
        let (low, _) = room(&below, within(slope_here(&below, f64::NEG_INFINITY)), BELOW);
        Causal { offsets: (low, high), slopes }
    }
}

/// Bounds that causality puts on an edge at a moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Causal {
    /// Least and largest offset, in ns.
    pub offsets: (f64, f64),
    /// Least and largest slope, in ns per ns.
    pub slopes: (f64, f64),
}

const ABOVE: f64 = 1.0;
const BELOW: f64 = -1.0;

/// Height at 0 of the line of a slope that touches the chain, which is on that side of it; and
/// where it touches.
fn room(chain: &[(f64, f64)], slope: f64, side: f64) -> (f64, f64) {
    let nearest = |(near, at): (f64, f64), &(x, y): &(f64, f64)| {
        let height = y - slope * x;
        if side * height < side * near { (height, x) } else { (near, at) }
    };
    chain.iter().fold((side * f64::INFINITY, 0.0), nearest)
}

/// The slope nearest to `limit` of all lines between the chains, where one of slope `inside` is.
/// The room for a line is a concave function of its slope, with corners where another point is
/// touched, so Newton's steps from outside never go too far and end after as many as there are
/// corners; a few, mostly.
fn steepest(above: &[(f64, f64)], below: &[(f64, f64)], inside: f64, limit: f64) -> f64 {
    let mut slope = limit;
    for _ in 0..above.len() + below.len() {
        let ((high, upper), (low, lower)) = (room(above, slope, ABOVE), room(below, slope, BELOW));
        let next = slope + (high - low) / (upper - lower);
        // Rounding may end it, too.
        let nearer =
            (next > inside) == (slope > inside) && (next - inside).abs() < (slope - inside).abs();
        if high >= low || !nearer {
            break;
        }
        slope = next;
    }
    slope
}

/// Slope of the chain at 0; `beyond` behind its end, the negative of it before its start.
fn slope_here(chain: &[(f64, f64)], beyond: f64) -> f64 {
    let next = chain.partition_point(|(x, _)| *x <= 0.0);
    match (next.checked_sub(1).and_then(|at| chain.get(at)), chain.get(next)) {
        (None, _) => -beyond,
        (_, None) => beyond,
        (Some((ax, ay)), Some((bx, by))) => (by - ay) / (bx - ax),
    }
}

/// The walk's position: one corner of each chain.
struct Walk<'a> {
    above: &'a [Point],
    below: &'a [Point],
    origin: Point,
    /// Index into `above`; grows with the slope.
    up: usize,
    /// Index into `below`; falls as the slope grows.
    down: usize,
}

impl Walk<'_> {
    fn corner(&self, point: Point) -> (f64, f64) {
        let x = point.x.wrapping_sub(self.origin.x);
        (x as f64, point.y.wrapping_sub(self.origin.y) as f64)
    }

    fn slope(&self, a: Point, b: Point) -> f64 {
        let ((ax, ay), (bx, by)) = (self.corner(a), self.corner(b));
        (by - ay) / (bx - ax)
    }

    /// Slope at which the next corner takes over, and whether it is the upper chain's.
    fn next(&self) -> (f64, bool) {
        let up = match self.above.get(self.up..self.up + 2) {
            Some(pair) => self.slope(pair[0], pair[1]),
            None => f64::INFINITY,
        };
        let down = match self.down.checked_sub(1).and_then(|at| self.below.get(at..at + 2)) {
            Some(pair) => self.slope(pair[0], pair[1]),
            None => f64::INFINITY,
        };
        (up.min(down), up <= down)
    }

    /// Walks to the corners between which the margin is widest; gives the slope. For the corners
    /// here the vertical gap is d - s e and the margin (d - s e) / sqrt(1 + (s / r)^2), r the rate
    /// between the units of y and x; the margin's derivative has the sign of -e - s d / r^2, which
    /// is 0 at s = -e r^2 / d. Where no gap is above 0, the widest gap is the least overlap.
    fn widest(&mut self, rate_squared: f64) -> Option<f64> {
        let mut slope = f64::NEG_INFINITY;
        loop {
            let (d, e) = self.gap();
            if e >= 0.0 && (d <= 0.0 || d - slope * e <= 0.0) {
                return Some(slope);
            }
            let (end, upper) = self.next();
            if d > 0.0 {
                let best = -e * rate_squared / d;
                if best <= slope {
                    return Some(slope);
                }
                if best <= end {
                    return Some(best);
                }
            }
            slope = end;
            // Both chains end only where the sets share no moment.
            match upper {
                true if self.up + 1 < self.above.len() => self.up += 1,
                false => self.down = self.down.checked_sub(1)?,
                true => return None,
            }
        }
    }

    /// The gap of slope 0 and how much of it a unit of slope takes, for the corners here.
    fn gap(&self) -> (f64, f64) {
        let (ux, uy) = self.corner(self.above[self.up]);
        let (lx, ly) = self.corner(self.below[self.down]);
        (uy - ly, ux - lx)
    }
}

/// The widest margin between `above` (the lower chain of the points above) and `below` (the upper
/// chain of those below), both as [`crate::hull::reduce`] leaves them; the line's values are
/// relative to `origin`. Distances are Euclidean where `unit_ns` of x count as much as one ns of y:
/// the larger the unit, the more a slope is held against a line. `None` when the sets share no
/// stretch of time, so that nothing is between them.
pub fn support_vector(
    above: &[Point],
    below: &[Point],
    origin: Point,
    unit_ns: f64,
) -> Option<Line> {
    let (first, last) = (above.first()?, above.last()?);
    let (low, high) = (below.first()?, below.last()?);
    if first.x.max(low.x) >= last.x.min(high.x) {
        return None;
    }
    let mut walk = Walk { above, below, origin, up: 0, down: below.len() - 1 };
    let slope = walk.widest(1.0 / (unit_ns * unit_ns))?;
    let (d, e) = walk.gap();
    let gap_ns = d - slope * e;
    let (x, y) = walk.corner(walk.above[walk.up]);
    Some(Line { slope, at_origin: y - slope * x - gap_ns / 2.0, gap_ns })
}
