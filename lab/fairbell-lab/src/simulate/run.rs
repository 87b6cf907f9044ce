//! `fairbell-lab sim --scenario FILE`: the seeds of one scenario, with its times as tables and figures.

use std::path::Path;
use telemetry::plot::{Curve, Figure};

use serde_json::json;
use sim::cloud::stats::cdf_us;
use sim::venue::{Summary, Timings, run_timed};

use super::SimArgs;
use super::{attacks::service, document, print, progress, scenario, verdict};
use host::failure::Failure;
use telemetry::plot;

/// Points of a distribution in a figure.
const POINTS: usize = 200;
/// Points of a course of time in a figure.
const STEPS: usize = 100;

pub(super) fn run(args: &SimArgs, file: &Path) -> Result<(), Failure> {
    let scenario = scenario::file(file)?;
    if let Err(error) = scenario.config(0).tree() {
        return Err(Failure::Usage(format!("{}: exchange: {error}", file.display())));
    }
    let seeds = args.seeds();
    let bar = progress(seeds.end - seeds.start, "seeds");
    let (mut summary, mut all, mut first) = (Summary::default(), Timings::default(), None);
    for seed in seeds.clone() {
        let (report, timings) = run_timed(seed, &scenario);
        summary.add(report);
        first.get_or_insert_with(|| timings.clone());
        all.add(timings);
        bar.inc(1);
    }
    bar.finish_and_clear();
    // As in the reports of the live exchange: 1 us plus what the clocks may differ by.
    let window_ns = 1_000 + 2 * scenario.clock_bound_ns;
    let figures = figures(&all, &first.unwrap_or_default());
    let files = plot::write(&figures, &args.out).map_err(|error| {
        Failure::Run(format!("cannot write figures to {}: {error}", args.out.display()))
    })?;
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let figures = all.service(window_ns);
    if args.json {
        let mut document = document(&summary, &seeds);
        document["scenario"] = file.display().to_string().into();
        document["service"] = service(&figures);
        document["fair_window_ns"] = window_ns.into();
        document["figures"] = json!(files);
        println!("{document:#}");
    } else {
        print(&summary);
        let us = |ns: u64| ns as f64 / 1e3;
        let (oml, latency) = (figures.oml_ns, figures.latency_ns);
        println!("release OML         {:>10.1} us median {:>10.1} us p99", us(oml.0), us(oml.1));
        println!(
            "order to answer     {:>10.1} us median {:>10.1} us p99",
            us(latency.0),
            us(latency.1)
        );
        println!("P(F)                {:>10.3} within {:.1} us", figures.p_fair, us(window_ns));
        files.iter().for_each(|file| println!("figure: {file}"));
    }
    verdict(&summary)
}

fn figures(all: &Timings, first: &Timings) -> Vec<Figure> {
    let oml: Vec<u64> = all.complete().map(|d| d.last.since(d.at)).collect();
    let spread: Vec<u64> = all.complete().map(|d| d.last.since(d.first)).collect();
    let latency: Vec<u64> = all.answers.iter().map(|answer| answer.ns).collect();
    let curve = |name: &str, points| Curve { name: name.into(), points };
    let start = first.deliveries.first().map_or(types::Nanos(0), |delivery| delivery.at);
    let ms = |at: types::Nanos| at.since(start) as f64 / 1e6;
    let course = |points: Vec<(f64, f64)>| worst(&points);
    let market = first.complete().map(|d| (ms(d.at), d.last.since(d.at) as f64 / 1e3));
    let orders = first.answers.iter().map(|answer| (ms(answer.at), answer.ns as f64 / 1e3));
    vec![
        Figure {
            file: "scenario-distributions",
            title: "Market data and orders, all seeds".into(),
            x: "us",
            y: "share",
            curves: vec![
                curve("release OML", cdf_us(&oml, POINTS)),
                curve("spread of releases", cdf_us(&spread, POINTS)),
                curve("order to answer", cdf_us(&latency, POINTS)),
            ],
        },
        Figure {
            file: "scenario-course",
            title: "The first seed over time, worst of each step".into(),
            x: "ms",
            y: "us",
            curves: vec![
                curve("release OML", course(market.collect())),
                curve("order to answer", course(orders.collect())),
            ],
        },
    ]
}

/// The largest value of each of [`STEPS`] steps.
fn worst(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let end = points.iter().map(|point| point.0).fold(0.0, f64::max).max(1e-9);
    let mut steps: Vec<Option<f64>> = vec![None; STEPS];
    for (at, value) in points {
        let step = &mut steps[((at / end * STEPS as f64) as usize).min(STEPS - 1)];
        *step = Some(step.unwrap_or(0.0).max(*value));
    }
    let middle = |step: usize| (step as f64 + 0.5) / STEPS as f64 * end;
    let known = steps.iter().enumerate().filter_map(|(step, v)| v.map(|v| (middle(step), v)));
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_keeps_the_worst_of_each_step() {
        let points: Vec<(f64, f64)> =
            (0..1_000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        let course = worst(&points);
        assert_eq!(course.len(), STEPS);
        assert!(course.iter().all(|(_, value)| *value == 6.0));
        assert!(worst(&[]).is_empty());
    }
}
