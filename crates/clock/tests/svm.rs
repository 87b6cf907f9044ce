//! The walk along two chains against the quadratic programme that defines the line, solved by an
//! interior-point solver, and against every line that touches the points.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSolver, IPSolver, SolverStatus, SupportedConeT::NonnegativeConeT,
};
use clock::hull::{Point, Side, reduce};
use clock::line::{Line, support_vector};
use types::SplitMix64;

const ORIGIN: Point = Point { x: 0, y: 0 };

/// Points of one direction around a line: delays above 0, seldom small.
fn points(rng: &mut SplitMix64, count: usize, slope: f64, offset: f64, sign: f64) -> Vec<Point> {
    let delay = |rng: &mut SplitMix64| 500.0 + 9_000.0 * (0..3).map(|_| rng.unit()).sum::<f64>();
    let point = |rng: &mut SplitMix64| {
        let x = rng.below(100_000) as i64 - 50_000;
        Point { x, y: (offset + slope * x as f64 + sign * delay(rng)) as i64 }
    };
    (0..count).map(|_| point(rng)).collect()
}

/// The hard-margin support-vector machine, all points at once: minimise (w_x^2 + w_y^2) / 2 with
/// w . p + b >= 1 above and <= -1 below, x in units of `unit` ns. Both axes are scaled by 1 / size
/// for the solver's sake, which changes nothing.
fn programme(above: &[Point], below: &[Point], unit: f64) -> Option<Line> {
    let size = 10_000.0;
    let rows = above.len() + below.len();
    let signed = above.iter().map(|p| (p, 1.0)).chain(below.iter().map(|p| (p, -1.0)));
    // Cones hold b - A z: each row is -sign (w . p + b) + s = -1, s >= 0.
    let mut columns: [Vec<f64>; 3] = Default::default();
    for (point, sign) in signed {
        columns[0].push(-sign * point.x as f64 / unit / size);
        columns[1].push(-sign * point.y as f64 / size);
        columns[2].push(-sign);
    }
    let cells: Vec<[f64; 3]> =
        (0..rows).map(|row| [columns[0][row], columns[1][row], columns[2][row]]).collect();
    let a = CscMatrix::from(&cells);
    let p = CscMatrix::from(&[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]);
    let settings = DefaultSettings {
        verbose: false,
        tol_gap_abs: 1e-11,
        tol_gap_rel: 1e-11,
        tol_feas: 1e-11,
        ..DefaultSettings::default()
    };
    let cones = [NonnegativeConeT(rows)];
    let mut solver =
        DefaultSolver::new(&p, &[0.0; 3], &a, &vec![-1.0; rows], &cones, settings).ok()?;
    solver.solve();
    if !matches!(solver.solution.status, SolverStatus::Solved | SolverStatus::AlmostSolved) {
        return None;
    }
    let (wx, wy, b) = (solver.solution.x[0], solver.solution.x[1], solver.solution.x[2]);
    Some(Line { slope: -wx / wy / unit, at_origin: -b / wy * size, gap_ns: 2.0 / wy * size })
}

fn walked(above: &[Point], below: &[Point], unit: f64) -> Option<Line> {
    let (mut above, mut below) = (above.to_vec(), below.to_vec());
    reduce(&mut above, Side::Below);
    reduce(&mut below, Side::Above);
    support_vector(&above, &below, ORIGIN, unit)
}

#[test]
fn the_walk_solves_the_quadratic_programme() {
    for seed in 0..300 {
        let mut rng = SplitMix64::new(seed);
        let slope = (rng.unit() - 0.5) * [2e-4, 0.1, 1.0][seed as usize % 3];
        let offset = (rng.unit() - 0.5) * 20_000.0;
        let counts = [3 + rng.below(60) as usize, 3 + rng.below(60) as usize];
        let above = points(&mut rng, counts[0], slope, offset, 1.0);
        let below = points(&mut rng, counts[1], slope, offset, -1.0);
        let unit = [1.0, 10.0, 0.1][seed as usize / 3 % 3];
        let (Some(own), Some(exact)) =
            (walked(&above, &below, unit), programme(&above, &below, unit))
        else {
            panic!("seed {seed}: no line");
        };
        // The programme is solved to a part in 1e8 or so of the figure's extent.
        assert!((own.gap_ns - exact.gap_ns).abs() < 0.02, "seed {seed}: {own:?} {exact:?}");
        assert!((own.at_origin - exact.at_origin).abs() < 0.5, "seed {seed}: {own:?} {exact:?}");
        assert!((own.slope - exact.slope).abs() < 2e-5, "seed {seed}: {own:?} {exact:?}");
    }
}

/// Margin of the best line of a slope.
fn margin(above: &[Point], below: &[Point], slope: f64, unit: f64) -> f64 {
    let rest = |p: &Point| p.y as f64 - slope * p.x as f64;
    let up = above.iter().map(rest).fold(f64::INFINITY, f64::min);
    let down = below.iter().map(rest).fold(f64::NEG_INFINITY, f64::max);
    (up - down) / (1.0 + (slope * unit) * (slope * unit)).sqrt()
}

#[test]
fn no_other_slope_has_a_wider_margin() {
    for seed in 0..2_000 {
        let mut rng = SplitMix64::new(seed ^ 0xABCD);
        let slope = (rng.unit() - 0.5) * 0.5;
        let above = points(&mut rng, 20, slope, 0.0, 1.0);
        let below = points(&mut rng, 20, slope, 0.0, -1.0);
        let unit = [0.1, 1.0, 30.0][seed as usize % 3];
        let line = walked(&above, &below, unit).expect("they overlap in time");
        let best = margin(&above, &below, line.slope, unit);
        for step in -2_000..=2_000 {
            let other = line.slope + f64::from(step) * f64::from(step).abs() * 2.5e-7;
            assert!(margin(&above, &below, other, unit) <= best + 1e-6, "seed {seed} {other}");
        }
    }
}

/// Extremes at `x` of all lines between the sets that are no steeper than `most`, and of their
/// slopes: a linear programme in the plane, whose optima are at lines through two points or of the
/// steepest slopes through one; all of them are tried.
fn extremes(above: &[Point], below: &[Point], x: f64, most: f64) -> [(f64, f64); 2] {
    let points: Vec<&Point> = above.iter().chain(below).collect();
    let mut slopes = vec![-most, most];
    for (at, a) in points.iter().enumerate() {
        let with_a = points[at + 1..].iter().filter(|b| b.x != a.x);
        slopes.extend(with_a.map(|b| (b.y - a.y) as f64 / (b.x - a.x) as f64));
    }
    let mut found = [(f64::INFINITY, f64::NEG_INFINITY); 2];
    for slope in slopes.into_iter().filter(|slope| slope.abs() <= most) {
        let rest = |p: &Point| p.y as f64 + slope * (x - p.x as f64);
        let up = above.iter().map(rest).fold(f64::INFINITY, f64::min);
        let down = below.iter().map(rest).fold(f64::NEG_INFINITY, f64::max);
        if down <= up + 1e-6 {
            found[0] = (found[0].0.min(down), found[0].1.max(up));
            found[1] = (found[1].0.min(slope), found[1].1.max(slope));
        }
    }
    found
}

#[test]
fn what_causality_leaves_is_what_all_lines_between_the_sets_have_in_common() {
    let (mut limited, mut wider) = (0, 0);
    for seed in 0..1_000 {
        let mut rng = SplitMix64::new(seed ^ 0xCA05);
        let slope = (rng.unit() - 0.5) * 0.5;
        // A steady line fits few points in many ways, many points in few.
        let counts = [0, 1].map(|_| 2 + rng.below([3, 40][seed as usize % 2]) as usize);
        let above = points(&mut rng, counts[0], slope, 3_000.0, 1.0);
        let below = points(&mut rng, counts[1], slope, 3_000.0, -1.0);
        let Some(line) = walked(&above, &below, 1.0) else { continue };
        let (mut lower, mut upper) = (above.clone(), below.clone());
        reduce(&mut lower, Side::Below);
        reduce(&mut upper, Side::Above);
        for x in [-90_000.0, -20_000.0, 0.0, 31_000.0, 80_000.0] {
            let most = 0.4;
            let own = line.causal(&lower, &upper, ORIGIN, x, most);
            let wanted = extremes(&above, &below, x, most.max(line.slope.abs()));
            let near = |a: f64, b: f64, by: f64| (a - b).abs() <= by;
            let same = near(own.offsets.0, wanted[0].0, 0.1)
                && near(own.offsets.1, wanted[0].1, 0.1)
                && near(own.slopes.0, wanted[1].0, 1e-6)
                && near(own.slopes.1, wanted[1].1, 1e-6);
            if line.slope.abs() <= most {
                assert!(same, "seed {seed}, {x}: {own:?} {wanted:?}");
            }
            // The line that the points were made around is among them.
            let truth = 3_000.0 + slope * x;
            assert!(own.offsets.0 <= truth + 1.0 && truth <= own.offsets.1 + 1.0, "seed {seed}");
            // In many the steepest line is one that is allowed; in many half a gap is too little.
            limited += u32::from(own.slopes.1 == most);
            let half = line.gap_ns / 2.0;
            wider += u32::from(truth < line.at(x) - half || line.at(x) + half < truth);
        }
    }
    assert!(limited > 100 && wider > 100, "{limited} {wider}");
}

#[test]
fn sets_that_overlap_get_the_line_that_is_wrong_by_the_least() {
    let mut rng = SplitMix64::new(5);
    let above = points(&mut rng, 40, 0.01, 0.0, 1.0);
    let mut below = points(&mut rng, 40, 0.01, 0.0, -1.0);
    // A stamp that claims arrival before sending.
    below.push(Point { x: 100, y: 30_000 });
    let line = walked(&above, &below, 1.0).unwrap();
    assert!(line.gap_ns < 0.0);
    assert!(programme(&above, &below, 1.0).is_none(), "the hard margin has no solution");
    let overlap = |slope: f64| margin(&above, &below, slope, 0.0);
    for step in -1_000..1_000 {
        assert!(overlap(line.slope + f64::from(step) * 1e-3) <= line.gap_ns + 1e-6);
    }
}

#[test]
fn nothing_lies_between_sets_of_different_times() {
    let early = [Point { x: 0, y: 5 }, Point { x: 10, y: 5 }];
    let late = [Point { x: 10, y: -5 }, Point { x: 20, y: -5 }];
    assert_eq!(support_vector(&early, &late, ORIGIN, 1.0), None);
    assert_eq!(support_vector(&early, &[], ORIGIN, 1.0), None);
    assert!(support_vector(&early, &[Point { x: 9, y: -5 }, late[1]], ORIGIN, 1.0).is_some());
}
