//! Convex chains over probe points, in exact integer arithmetic and linear time.
//!
//! A point is a moment and the apparent delay of one probe. All that a support-vector line can
//! touch of a direction is the convex chain on its near side, so a path keeps, sends and merges
//! only that: a few points stand for thousands of probes and nothing is lost.

/// One probe's moment and apparent delay.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Point {
    /// When, in ns on the clock of the edge's first end.
    pub x: i64,
    /// Second end's clock less first end's clock between the two stamps of the probe, in ns.
    pub y: i64,
}

/// Which side of its points a chain runs along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Below: probes from the first end to the second, whose delay adds to the clocks' offset.
    Below,
    /// Above: probes from the second end to the first, whose delay is subtracted.
    Above,
}

impl Side {
    /// Whether `b` lies off the chain from `a` to `c`: on its wrong side, or on it.
    fn spare(self, a: Point, b: Point, c: Point) -> bool {
        let step = |from: i64, to: i64| i128::from(to) - i128::from(from);
        let cross = step(a.x, b.x) * step(a.y, c.y) - step(a.y, b.y) * step(a.x, c.x);
        match self {
            Side::Below => cross <= 0,
            Side::Above => cross >= 0,
        }
    }

    /// The point nearer to the other direction's points, of two of one moment.
    fn nearer(self, a: Point, b: Point) -> Point {
        match self {
            Side::Below => Point { y: a.y.min(b.y), ..a },
            Side::Above => Point { y: a.y.max(b.y), ..a },
        }
    }
}

/// Reduces points to the chain along their given side, from left to right. Points that are sorted
/// by x already take linear time.
pub fn reduce(points: &mut Vec<Point>, side: Side) {
    if !points.is_sorted_by_key(|point| point.x) {
        points.sort_unstable_by_key(|point| point.x);
    }
    let mut kept = 0usize;
    for at in 0..points.len() {
        let mut point = points[at];
        if kept > 0 && points[kept - 1].x == point.x {
            point = side.nearer(points[kept - 1], point);
            kept -= 1;
        }
        while kept >= 2 && side.spare(points[kept - 2], points[kept - 1], point) {
            kept -= 1;
        }
        points[kept] = point;
        kept += 1;
    }
    points.truncate(kept);
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Whether a line of some slope through `points[at]` has no point on its wrong side, by trying
    /// all slopes to other points: the definition, cubic.
    fn is_corner(points: &[Point], at: usize, side: Side) -> bool {
        let sign = if side == Side::Below { 1 } else { -1 };
        let a = points[at];
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        for b in points {
            let (dx, dy) = ((b.x - a.x) as f64, (sign * (b.y - a.y)) as f64);
            if dx > 0.0 {
                high = high.min(dy / dx);
            } else if dx < 0.0 {
                low = low.max(dy / dx);
            } else if dy < 0.0 {
                return false;
            }
        }
        low < high
    }

    proptest! {
        #[test]
        fn a_chain_is_exactly_the_corners(
            raw in vec((-30i64..30, -30i64..30), 0..40),
            above: bool,
        ) {
            let side = if above { Side::Above } else { Side::Below };
            let mut points: Vec<Point> = raw.iter().map(|&(x, y)| Point { x, y }).collect();
            let mut corners: Vec<Point> = (0..points.len())
                .filter(|&at| is_corner(&points, at, side))
                .map(|at| points[at])
                .collect();
            corners.sort_unstable();
            corners.dedup();
            reduce(&mut points, side);
            prop_assert_eq!(points, corners);
        }

        #[test]
        fn chains_of_parts_make_the_chain_of_the_whole(
            raw in vec((0i64..1_000, -1_000i64..1_000), 1..60),
            cut in 0usize..60,
        ) {
            let mut whole: Vec<Point> = raw.iter().map(|&(x, y)| Point { x, y }).collect();
            let mut left = whole.clone();
            let mut right = left.split_off(cut.min(left.len()));
            reduce(&mut left, Side::Below);
            reduce(&mut right, Side::Below);
            left.append(&mut right);
            reduce(&mut left, Side::Below);
            reduce(&mut whole, Side::Below);
            prop_assert_eq!(left, whole);
        }
    }

    #[test]
    fn extreme_values_do_not_overflow() {
        let far = i64::MAX / 2;
        let mut points = vec![
            Point { x: -far, y: far },
            Point { x: 0, y: -far },
            Point { x: far, y: far },
            Point { x: 1, y: far },
        ];
        reduce(&mut points, Side::Below);
        assert_eq!(points.len(), 3);
    }
}
