//! Figure 10: what each component of Jasper does to the latency.

use super::{
    clock_errors::Clocks,
    deadline::Kind,
    dissemination::{Case, Medians},
    hold_release::{self, Setup, WARM_UP},
    link::Profile,
    report::{Check, Report, Row, Run},
    seeds,
};
use telemetry::plot::{Curve, Figure};

const MESSAGES: usize = 5_000;

/// The experiment.
pub fn run(run: &mut Run) -> Report {
    let standard = run.lossy(Profile::standard());
    let profile = || standard.clone();
    let layers = run.options.layers(100);
    let receivers = layers.last().copied().unwrap_or(0);
    let published = |value: f64| (!run.options.has_tree()).then_some(value);
    let hedge = run.options.hedge.unwrap_or(2);
    let clocks = Clocks::of_run(run, &standard, receivers);
    let tree = |hedge| Case { profile: profile(), layers: layers.clone(), hedge, dynamic: true };
    let cases = [
        ("direct unicast".into(), Case::direct(profile(), receivers), published(254e3)),
        ("tree, fixed parents".into(), Case { dynamic: false, ..tree(0) }, published(139e3)),
        ("tree, changing parents".into(), tree(0), None),
        ("and hedging H=1".into(), tree(1), None),
        (format!("and hedging H={hedge}"), tree(hedge), published(129e3)),
    ];
    let mut rows = Vec::new();
    for (done, (name, case, published)) in cases.into_iter().enumerate() {
        let medians = Medians::of(&case, run.range(), MESSAGES as u64);
        rows.extend(medians.rows(&name, published));
        (run.progress)((done + 1) as f64 / 7.0);
    }
    for (name, kind, published) in [
        (
            "and hold-and-release, the paper's estimator",
            Kind::MaxOfPercentiles(950),
            published(175e3),
        ),
        ("and hold-and-release, p95 of the maximum", Kind::OfMaximum(950), None),
    ] {
        let oml = |seed| {
            let setup = Setup::standard(1, hedge, WARM_UP + MESSAGES, seed);
            let (layers, clock_errors) = (layers.clone(), clocks.of_seed(seed));
            let setup = Setup { profile: profile(), layers, clock_errors, ..setup };
            hold_release::run(&setup, &[kind]).1[0].oml_release_ns
        };
        let omls: Vec<f64> = seeds::map(run.range(), oml);
        rows.push(Row::new(format!("{name}: median release OML"), "ns", published, &omls));
    }
    (run.progress)(1.0);
    let of_oml = || rows.iter().filter(|row| row.unit == "ns");
    let mean = |index: usize| of_oml().nth(index).map_or(f64::NAN, |row| row.ours.mean);
    // What is demanded of the paper's tree, another one need not have.
    let checks = match run.options.has_tree() {
        true => Vec::new(),
        false => vec![
            Check::new("tree over direct unicast", mean(1) / mean(0), 0.0, 0.6),
            Check::new("tree with H=2 over the tree alone", mean(4) / mean(2), 0.0, 1.0),
            Check::new("hold-and-release over the tree with H=2", mean(5) / mean(4), 1.0, 1.4),
        ],
    };
    let points = (1..).zip(of_oml()).map(|(x, row)| (f64::from(x), row.ours.mean / 1e3)).collect();
    rows.extend(clocks.rows());
    Report {
        name: "components",
        title: "Figure 10: OML as each component is introduced",
        model: format!(
            "profile standard, layers of {layers:?} below the root, {MESSAGES} messages a seed at 5,000 \
             a second; clocks as the last rows say"
        ),
        seeds: run.seeds,
        rows,
        checks,
        figures: vec![Figure {
            file: "figure10",
            title: format!("Figure 10: median OML, N={receivers}"),
            x: "1 unicast, 2 tree, 3 dynamic, 4 H=1, 5 H=2, 6 hold, 7 hold (ours)",
            y: "median OML (us)",
            curves: vec![Curve { name: "ours".into(), points }],
        }],
        notes: vec![
            "Figure 10 prints no numbers. Beside our rows stand the paper's numbers for the same \
             systems from other places: 254 and 129 us (figure 5), 139 us (table 1), 175 us (table \
             2)."
            .into(),
            "Changing parents do not lower the median where bursts on paths are independent; see \
             `dynamic` for what they do."
                .into(),
        ],
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::{ClockSource, Options};
    use super::*;

    #[test]
    fn a_tree_of_ones_own_has_no_demand_of_the_papers() {
        let clocks = Some(ClockSource::Assumed);
        let options = Options { receivers: Some(4), clocks, ..Options::default() };
        let report = super::run(&mut Run { seeds: 1, options, progress: &mut |_| () });
        assert!(report.checks.is_empty() && report.figures[0].title.ends_with("N=4"));
    }
}
