//! Orders at rising rates: what each rate costs, and where it begins to cost much more.

use std::time::Duration;

use host::failure::Failure;
use serde::Serialize;
use telemetry::plot::{Curve, Figure};

use super::scenario::OrderScenario;
use super::{completed_per_s, quantile, totals};
use crate::bench::rtt::ioc::{self, IocFlow, Stamps};

/// A rate is carried when its last answer came at most so long behind its last order, as a share of the time that it was played,
/// and so many ns more: who is late by a moment at the end falls behind no further.
const BEHIND: (f64, f64) = (0.03, 5e7);

/// Runs of each rate.
const RUNS: usize = 3;

/// What a rate came to.
#[derive(Serialize, Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Orders a second that were due.
    pub rate: u64,
    /// Orders a second that were answered, from the first one's being due to the last answer.
    pub answered_per_s: f64,
    /// The last answer came soon behind the last order.
    pub carried: bool,
    /// Latency, us.
    pub p50_us: f64,
    /// See `p50_us`.
    pub p99_us: f64,
}

impl Point {
    fn of(rate: u64, stamps: &[Stamps], played: Duration) -> Point {
        let sorted = totals(stamps);
        Point {
            rate,
            answered_per_s: completed_per_s(stamps),
            carried: is_carried(stamps, played),
            p50_us: quantile(&sorted, 500) / 1e3,
            p99_us: quantile(&sorted, 990) / 1e3,
        }
    }
}

/// Of an odd number of runs of one rate, the one with the median 99th percentile: on a shared machine one run in some has a
/// moment that is not its own.
fn median(mut runs: Vec<Point>) -> Point {
    runs.sort_by(|a, b| a.p99_us.total_cmp(&b.p99_us));
    runs[runs.len() / 2]
}

/// Whether the last answer came soon behind the last order.
fn is_carried(stamps: &[Stamps], played: Duration) -> bool {
    let due = stamps.iter().map(|of| of.due).max().unwrap_or(0);
    let answered = stamps.iter().map(|of| of.completed).max().unwrap_or(u64::MAX);
    answered.saturating_sub(due) as f64 <= BEHIND.0 * played.as_nanos() as f64 + BEHIND.1
}

/// Where a curve bends.
#[derive(Serialize, Clone, Copy, PartialEq, Debug)]
pub struct Knee {
    /// The last rate before it.
    pub rate: u64,
    /// Its 99th percentile, us.
    pub p99_us: f64,
    /// A rate beyond it was played: the knee is there, and not where the sweep ended.
    pub beyond: bool,
}

/// Rates of one number of clients and one size.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Swept {
    /// FIX sessions.
    pub clients: usize,
    /// Bytes of an order that were asked for; 0: as it comes.
    pub bytes: usize,
    /// Mean bytes of an order.
    pub bytes_sent: usize,
    /// The rates in order, the first that is not carried the last.
    pub points: Vec<Point>,
    /// The knee; none where not even the first rate is carried.
    pub knee: Option<Knee>,
}

/// The knee of a curve: from the rate with the least 99th percentile upwards, the last one that is
/// carried with one of at most `times` that.
pub fn knee(points: &[Point], times: f64) -> Option<Knee> {
    let carried = points.iter().take_while(|point| point.carried).count();
    let all = points.get(..carried)?;
    let least = all.iter().enumerate().min_by(|(_, a), (_, b)| a.p99_us.total_cmp(&b.p99_us))?;
    let (from, bar) = (least.0, least.1.p99_us * times);
    let before = all.iter().skip(from).take_while(|point| point.p99_us <= bar).count();
    let last = (from + before).checked_sub(1)?;
    let point = all.get(last)?;
    Some(Knee { rate: point.rate, p99_us: point.p99_us, beyond: last + 1 < points.len() })
}

/// Plays the sweep of a scenario.
///
/// # Errors
/// Sockets, and orders without their answer at the first rate of a curve.
pub fn play(
    scenario: &OrderScenario,
    (clients, bytes): (&[usize], &[usize]),
    duration: Duration,
    mut told: impl FnMut(&Swept),
) -> Result<Vec<Swept>, Failure> {
    let mut all = Vec::new();
    for clients in clients.iter().copied() {
        for bytes in bytes.iter().copied() {
            let mut swept = Swept { clients, bytes, bytes_sent: 0, points: Vec::new(), knee: None };
            for rate in scenario.sweep.rates.iter().copied() {
                let flow = IocFlow { rate, clients, bytes, ..scenario.flow(duration) };
                let mut runs = Vec::with_capacity(RUNS);
                for _ in 0..RUNS {
                    let (_, found) = ioc::without_floor(flow)?;
                    swept.bytes_sent = found.bytes[0];
                    runs.push(Point::of(rate, &found.stamps, duration));
                }
                let point = median(runs);
                swept.points.push(point);
                if !point.carried {
                    break;
                }
            }
            swept.knee = knee(&swept.points, scenario.sweep.knee);
            told(&swept);
            all.push(swept);
        }
    }
    Ok(all)
}

/// The 99th percentile over the rate, up to a little above the highest knee; what is higher is cut off there.
pub fn figure(all: &[Swept], times: f64) -> Figure {
    let knees = all.iter().filter_map(|of| of.knee);
    let top = knees.map(|knee| knee.p99_us).fold(1.0, f64::max) * times;
    let mut curves = Vec::new();
    for of in all {
        let at = |rate: u64| rate as f64 / 1e3;
        let point = |point: &Point| (at(point.rate), point.p99_us.min(top));
        let bytes = of.bytes_sent;
        // Of no order there is no latency to draw.
        let there = of.points.iter().filter(|point| point.p99_us.is_finite());
        curves.push(Curve {
            name: format!("{} clients, {bytes} bytes", of.clients),
            points: there.map(point).collect(),
        });
        if let Some(knee) = of.knee {
            let name = if knee.beyond { "knee" } else { "no knee up to" };
            curves.push(Curve {
                name: format!("{name} {:.0} thousand/s", at(knee.rate)),
                points: vec![(at(knee.rate), 0.0), (at(knee.rate), knee.p99_us)],
            });
        }
    }
    Figure {
        file: "order-sweep",
        title: "Orders through the FIX door: 99th percentile over the rate".into(),
        x: "orders a second (thousands)",
        y: "p99 (us), cut off at the top",
        curves,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(rate: u64, p99_us: f64) -> Point {
        Point { rate, answered_per_s: rate as f64, carried: true, p50_us: 1.0, p99_us }
    }

    #[test]
    fn the_knee_is_the_last_rate_before_it_costs_so_many_times_the_least() {
        let points = [point(1, 300.0), point(2, 90.0), point(4, 110.0), point(8, 250.0)];
        let at = |times| knee(&points, times).map(|knee| (knee.rate, knee.beyond));
        assert_eq!(at(2.0), Some((4, true)));
        assert_eq!(at(1.0), Some((2, true)), "the least itself");
        assert_eq!(at(3.0), Some((8, false)), "a control: no rate was too much");
        // What is slow at a low rate, because who waits sleeps, is none.
        assert_eq!(knee(&points[..2], 3.0).map(|knee| knee.rate), Some(2));
    }

    #[test]
    fn one_run_with_a_moment_of_another_program_does_not_count() {
        let runs = vec![point(5, 90.0), point(5, 9_000.0), point(5, 70.0)];
        assert_eq!(median(runs).p99_us, 90.0);
    }

    #[test]
    fn a_rate_that_is_not_carried_is_beyond_the_knee_whatever_it_costs() {
        let lagging = Point { carried: false, ..point(4, 91.0) };
        let found = knee(&[point(1, 100.0), point(2, 90.0), lagging, point(8, 80.0)], 3.0);
        assert_eq!(found, Some(Knee { rate: 2, p99_us: 90.0, beyond: true }));
        assert_eq!(knee(&[lagging], 3.0), None);
        assert_eq!(knee(&[], 3.0), None);
    }

    #[test]
    fn carried_is_what_is_answered_soon_behind_its_last_order() {
        let stamps =
            |lag: u64| [7, 9].map(|due| Stamps { due, completed: due + lag, ..Stamps::default() });
        let second = Duration::from_secs(1);
        assert!(
            is_carried(&stamps(80_000_000), second) && !is_carried(&stamps(80_000_001), second)
        );
        assert!(!is_carried(&[], second), "nothing was answered");
    }

    #[test]
    fn every_curve_is_drawn_with_its_knee_and_none_leaves_the_drawing() {
        let none = point(3_000, f64::NAN);
        let points = vec![point(1_000, 90.0), point(2_000, 100.0), none, point(4_000, 1e7)];
        let knee = knee(&points, 3.0);
        let swept = Swept { clients: 8, bytes: 0, bytes_sent: 159, points, knee };
        let figure = figure(&[swept.clone(), Swept { knee: None, ..swept }], 3.0);
        let names: Vec<&str> = figure.curves.iter().map(|curve| &curve.name[..]).collect();
        assert_eq!(names, ["8 clients, 159 bytes", "knee 2 thousand/s", "8 clients, 159 bytes"]);
        let all = figure.curves.iter().flat_map(|curve| &curve.points);
        assert!(all.clone().all(|(_, y)| *y <= 300.0));
        assert!(all.into_iter().all(|(x, _)| *x != 3.0), "a rate without a latency is not drawn");
    }
}
