//! The frontier of hold-and-release: P(F) against release OML, technique by technique.
//!
//! Each technique is a setting of a deployment and runs here in the overlay's own code (child order,
//! hedging, estimators) or, placement, by probes as `cluster plan` makes them. All are compared in the
//! same clouds with the paper's Jasper: H siblings, children in the tree's order, the maximum of 95th percentiles.
//! Beside them stands what no rule can better: the best constant delay chosen in hindsight, and an oracle
//! that knows the delays of each message before it is sent.

use telemetry::plot::{Curve, Figure};

use super::{
    clock_errors::Clocks,
    deadline::Kind,
    hold_release::{self, Arrivals, Outcome, Setup, Techniques, WARM_UP},
    link::Profile,
    report::{Check, Report, Row, Run, Takes},
    seeds,
    stats::{Estimate, median, percentile},
    table1,
};

/// The paper's estimator, whose release OML is what others are compared with.
const PAPER: Kind = Kind::MaxOfPercentiles(950);
/// Estimators of each curve: what a deployment chooses by `hold.estimator` and `hold.target_percent`.
const KINDS: [Kind; 10] = [
    PAPER,
    Kind::OfMaximum(800),
    Kind::OfMaximum(900),
    Kind::OfMaximum(950),
    Kind::OfMaximum(970),
    BAR,
    Kind::OfMaximum(990),
    Kind::OfMaximum(995),
    Kind::OneBit(950),
    Kind::OneBit(990),
];
/// The one that the demand is made of, and its place among [`KINDS`]: of messages later than the deadline two of
/// five are released within the clocks' error all the same, so 98.7 % on time are 99.2 % fair. Chosen on seeds
/// from 40,000, between what 97 and 99 % gave there.
const BAR: Kind = Kind::OfMaximum(987);
const BAR_AT: usize = 5;
/// Receivers, and messages a seed.
const SIZES: [(usize, usize); 3] = [(100, 8_000), (1_000, 8_000), (5_000, 5_500)];
/// From so many receivers on only the combinations are run, which take minutes as it is.
const LARGE: usize = 5_000;
/// Demands, of trees of so many receivers and more: least P(F) in percent, most release OML over the paper's.
const DEMANDED_FROM: usize = 1_000;
const LEAST_FAIR: f64 = 99.0;
const MOST_OML: f64 = 1.1;
/// Of the share left out, in thousandths of receivers.
const LEFT_OUT_PERMILLE: usize = 5;

const NONE: Techniques =
    Techniques { slowest_first: false, path_disjoint: false, placed: false, left_out_permille: 0 };
const FIRST: Techniques = Techniques { slowest_first: true, ..NONE };
const DISJOINT: Techniques = Techniques { path_disjoint: true, ..NONE };
const BOTH: Techniques = Techniques { path_disjoint: true, ..FIRST };
const ALL: Techniques = Techniques { placed: true, ..BOTH };

/// Techniques each and combined; those of the demands at [`PAPERS_AT`] and [`DEMANDED_AT`], and what settings
/// alone do of the latter at [`SETTINGS_AT`].
const TECHNIQUES: [(&str, Techniques); 7] = [
    ("the paper's tree", NONE),
    ("slowest first", FIRST),
    ("path-disjoint", DISJOINT),
    ("placed proxies", Techniques { placed: true, ..NONE }),
    ("slowest first, path-disjoint", BOTH),
    ("slowest first, path-disjoint, placed proxies", ALL),
    ("all, slowest receivers left out", Techniques { left_out_permille: LEFT_OUT_PERMILLE, ..ALL }),
];
const PAPERS_AT: usize = 0;
const SETTINGS_AT: usize = 4;
const DEMANDED_AT: usize = 5;
/// Those that are run in large trees, and in the short form.
const OF_LARGE: [usize; 4] = [PAPERS_AT, SETTINGS_AT, DEMANDED_AT, 6];
const OF_FAST: [usize; 3] = [PAPERS_AT, SETTINGS_AT, DEMANDED_AT];
/// Receivers, and messages a seed of the short form.
const FAST_SIZES: [(usize, usize); 2] = [(1_000, WARM_UP + 1_500), (LARGE, WARM_UP + 500)];

/// All seeds of one technique.
struct Series {
    /// Its place among [`TECHNIQUES`].
    at: usize,
    arrivals: Vec<Arrivals>,
    /// By seed, then by kind.
    outcomes: Vec<Vec<Outcome>>,
}

impl Series {
    fn name(&self) -> &'static str {
        TECHNIQUES[self.at].0
    }

    fn values(&self, kind: usize, field: fn(&Outcome) -> f64) -> Vec<f64> {
        self.outcomes.iter().map(|kinds| field(&kinds[kind])).collect()
    }

    fn mean(&self, kind: usize, field: fn(&Outcome) -> f64) -> f64 {
        Estimate::of(&self.values(kind, field)).mean
    }

    fn of_arrivals(&self, field: impl Fn(&Arrivals) -> f64) -> Vec<f64> {
        self.arrivals.iter().map(field).collect()
    }
}

fn oml(outcome: &Outcome) -> f64 {
    outcome.oml_release_ns
}

fn fair(outcome: &Outcome) -> f64 {
    outcome.p_fair * 100.0
}

/// By how many percent `ours` are above `paper`, cloud by cloud.
fn over(ours: &[f64], paper: &[f64]) -> Vec<f64> {
    ours.iter().zip(paper).map(|(ours, paper)| (ours / paper - 1.0) * 100.0).collect()
}

/// The least constant delay that would have done for this share of the messages.
fn hindsight(arrivals: &Arrivals, share: f64) -> f64 {
    percentile(&mut arrivals.least_ns.clone(), share) as f64
}

/// A delay for each class of messages that take the same ways over the last hop: its median in the first
/// half of a run, and over all classes as much more as 99 % of the second half need. The median of these
/// delays: what deadlines by class could do, learned without error but for the medians.
fn by_class(arrivals: &Arrivals, classes: usize) -> f64 {
    let (first, second) = arrivals.least_ns.split_at(arrivals.least_ns.len() / 2);
    let mut of_class: Vec<Vec<u64>> = vec![Vec::new(); classes.max(1)];
    let class = |at: usize| at % classes.max(1);
    first.iter().enumerate().for_each(|(at, least)| of_class[class(at)].push(*least));
    let all = median(&mut first.to_vec());
    let usual = |list: &mut Vec<u64>| if list.is_empty() { all } else { median(list) };
    let medians: Vec<u64> = of_class.iter_mut().map(usual).collect();
    let of = |at: usize| medians[class(at + first.len())];
    // From 0 on: the largest shortfall is below the largest delay.
    let base = second.iter().chain(&medians).copied().max().unwrap_or(0);
    let mut more: Vec<u64> =
        second.iter().enumerate().map(|(at, least)| base + least - of(at)).collect();
    let more = percentile(&mut more, LEAST_FAIR / 100.0);
    let mut delays: Vec<u64> =
        (0..second.len()).map(|at| (of(at) + more).saturating_sub(base)).collect();
    median(&mut delays) as f64
}

/// The experiment with all sizes.
pub fn run(run: &mut Run) -> Report {
    let all: Vec<usize> = (0..TECHNIQUES.len()).collect();
    of_sizes(run, &SIZES, &all)
}

/// The same with fewer messages, and of techniques those of the demands: some seconds a seed.
pub fn fast(run: &mut Run) -> Report {
    of_sizes(run, &FAST_SIZES, &OF_FAST)
}

/// The experiment for these numbers of receivers and messages a seed, more than [`WARM_UP`], and these
/// techniques.
fn of_sizes(run: &mut Run, sizes: &[(usize, usize)], techniques: &[usize]) -> Report {
    let profile = run.profile(Profile::standard());
    let hedge = run.options.hedge.unwrap_or(2);
    let own = run.options.layers(1_000);
    let sizes: Vec<(Vec<usize>, usize)> = match run.options.has_tree() {
        true => {
            let large = own.last().is_some_and(|receivers| *receivers >= LARGE);
            vec![(own, if large { SIZES[2].1 } else { SIZES[1].1 })]
        }
        false => {
            let layers = |n| table1::layers(n, table1::rule_depth(n), 10);
            sizes.iter().map(|(n, messages)| (layers(*n), *messages)).collect()
        }
    };
    let most = sizes.iter().filter_map(|(layers, _)| layers.last().copied()).max().unwrap_or(0);
    let clocks = Clocks::of_run(run, &profile, most);
    let mut report = Report {
        name: "frontier",
        title: "P(F) against release OML: what each technique brings",
        model: format!(
            "profile standard, D by the paper's rule, F=10, H={hedge}, dynamic parents, 5,000 messages a \
             second, the first {WARM_UP} of a seed not measured; clocks as the first rows say; in the rows \
             {} unless they say otherwise; placed: the quickest of 10 % more VMs by 200 probes; left out: \
             the slowest {} of a thousand receivers when measuring begins",
            BAR.name(),
            LEFT_OUT_PERMILLE,
        ),
        seeds: run.seeds,
        rows: clocks.rows(),
        ..Report::default()
    };
    (run.progress)(0.05);
    let steps = (sizes.len() * TECHNIQUES.len()) as f64;
    for (size, (layers, messages)) in sizes.iter().enumerate() {
        let mut all: Vec<Series> = Vec::new();
        let large = layers.last().is_some_and(|receivers| *receivers >= LARGE);
        for at in techniques.iter().copied().filter(|at| !large || OF_LARGE.contains(at)) {
            let (_, techniques) = TECHNIQUES[at];
            let setup = |seed| Setup {
                profile: profile.clone(),
                layers: layers.clone(),
                clock_errors: clocks.of_seed(seed),
                techniques,
                ..Setup::standard(1, hedge, *messages, seed)
            };
            let runs = seeds::map(run.range(), |seed| hold_release::run(&setup(seed), &KINDS));
            let (arrivals, outcomes) = runs.into_iter().unzip();
            all.push(Series { at, arrivals, outcomes });
            let done = size * TECHNIQUES.len() + at + 1;
            (run.progress)(0.05 + 0.95 * done as f64 / steps);
        }
        tell(&mut report, layers, hedge, &all);
    }
    // Demands are made of the experiment as it is.
    if !run.options.given().iter().all(|option| *option == Takes::Clocks) {
        report.checks.clear();
    }
    report.notes.extend([
        "Slowest first and path-disjoint are `overlay.slowest_first = true` and `overlay.hedging = \
         \"path-disjoint\"`, the estimator is `hold.estimator = \"message-percentile\"` with \
         `hold.target_percent = 98.7`. None of them sends a copy more than the paper's tree."
            .into(),
        "Best constant delay in hindsight: no deadline that doesn't depend on the very message can do with less \
         in that tree and cloud. An oracle that knows each message's delays before it is sent is fair for \
         every message at its median OML: between the two lies what is unpredictable."
            .into(),
        "Deadlines by class: messages that come to a receiver by the same parents are one class and get a \
         delay of their own. They save little: most of what differs from message to message is not its \
         way but the moment."
            .into(),
        "Parity and repair before the deadline could help messages only that somebody lost; the row says how many \
         those are. A gap shows when the next message comes, 200 us later, which is past the deadline."
            .into(),
        "Placed: what `cluster plan` and `cluster provision` do; the VMs that are not kept are given back."
            .into(),
        "Left out: those receivers get every message, some later than the others, and nobody waits for them. \
         The row is for comparison, and no demand is made of it."
            .into(),
    ]);
    report
}

fn of(all: &[Series], at: usize) -> Option<&Series> {
    all.iter().find(|series| series.at == at)
}

/// Rows, checks and the figure of one tree.
fn tell(report: &mut Report, layers: &[usize], hedge: usize, all: &[Series]) {
    let (Some(papers), Some(demanded)) = (of(all, PAPERS_AT), of(all, DEMANDED_AT)) else { return };
    let receivers = layers.last().copied().unwrap_or(0);
    let tree = format!("N={receivers} H={hedge}");
    let paper = papers.values(0, oml);
    let row =
        |what: &str, unit, values: &[f64]| Row::new(format!("{tree}, {what}"), unit, None, values);
    let rows = &mut report.rows;
    rows.push(row("the paper's tree, max of p95s: P(F)", "%", &papers.values(0, fair)));
    rows.push(row("the paper's tree, max of p95s: median release OML", "ns", &paper));
    for series in all {
        let name = series.name();
        let dearer = over(&series.values(BAR_AT, oml), &paper);
        rows.push(row(&format!("{name}: P(F)"), "%", &series.values(BAR_AT, fair)));
        let on_time = series.values(BAR_AT, |outcome| outcome.p_on_time * 100.0);
        rows.push(row(&format!("{name}: nobody late by own clock"), "%", &on_time));
        rows.push(row(&format!("{name}: median release OML"), "ns", &series.values(BAR_AT, oml)));
        rows.push(row(&format!("{name}: release OML against the paper's"), "%", &dearer));
    }
    let classes = layers.iter().rev().nth(1).copied().unwrap_or(1);
    for series in all {
        let name = series.name();
        let against = |values: Vec<f64>| over(&values, &paper);
        let constant = against(series.of_arrivals(|a| hindsight(a, LEAST_FAIR / 100.0)));
        let classed = against(series.of_arrivals(|a| by_class(a, classes)));
        let oracle = against(series.of_arrivals(|a| hindsight(a, 0.5)));
        rows.push(row(
            &format!("{name}: best constant delay for 99 %, against the paper's"),
            "%",
            &constant,
        ));
        rows.push(row(
            &format!("{name}: delays by class for 99 %, against the paper's"),
            "%",
            &classed,
        ));
        rows.push(row(
            &format!("{name}: oracle of each message for 100 %, against the paper's"),
            "%",
            &oracle,
        ));
    }
    let lost =
        papers.of_arrivals(|a| 100.0 * a.repaired as f64 / (WARM_UP + a.least_ns.len()) as f64);
    rows.push(row("messages that somebody lost", "%", &lost));
    report.figures.push(figure(receivers, &tree, all, papers, demanded));
    if receivers < DEMANDED_FROM {
        return;
    }
    let (share, cost) = (demanded.values(BAR_AT, fair), demanded.values(BAR_AT, oml));
    let (share, cost) = (Estimate::of(&share), Estimate::of(&over(&cost, &paper)));
    let name = format!("{tree}, {}", TECHNIQUES[DEMANDED_AT].0);
    let what = format!("{name}: P(F), lower end of the interval (%)");
    report.checks.push(Check::new(what, share.mean - share.half_width, LEAST_FAIR, 100.0));
    let what = format!("{name}: release OML over the paper's, upper end of the interval (%)");
    let most = cost.mean + cost.half_width;
    report.checks.push(Check::new(what, most, -100.0, (MOST_OML - 1.0) * 100.0));
    let plain = Estimate::of(&over(&papers.values(BAR_AT, oml), &paper)).mean;
    let what = format!("{tree}: what the techniques save of what P(F) of 99 % costs (points)");
    report.checks.push(Check::new(what, plain - cost.mean, 0.0, 100.0));
}

fn figure(
    receivers: usize,
    tree: &str,
    all: &[Series],
    papers: &Series,
    demanded: &Series,
) -> Figure {
    let curve = |series: &Series| {
        let percentiles = (0..KINDS.len()).filter(|at| matches!(KINDS[*at], Kind::OfMaximum(_)));
        let point = |at| (series.mean(at, oml) / 1e3, series.mean(at, fair));
        Curve { name: series.name().into(), points: percentiles.map(point).collect() }
    };
    let mut curves: Vec<Curve> = all.iter().map(curve).collect();
    let best = |share: f64| Estimate::of(&demanded.of_arrivals(|a| hindsight(a, share))).mean / 1e3;
    let shares = [0.8, 0.9, 0.95, 0.97, 0.99, 0.995];
    curves.push(Curve {
        name: format!("{}, best in hindsight", demanded.name()),
        points: shares.map(|share| (best(share), share * 100.0)).to_vec(),
    });
    curves.push(Curve {
        name: "the paper's tree and estimator".into(),
        points: vec![(papers.mean(0, oml) / 1e3, papers.mean(0, fair))],
    });
    Figure {
        file: match receivers {
            100 => "frontier-100",
            1_000 => "frontier-1000",
            5_000 => "frontier-5000",
            _ => "frontier",
        },
        title: format!("P(F) against release OML, {tree}"),
        x: "median release OML (us)",
        y: "P(F) (%)",
        curves,
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::ClockSource;
    use super::*;

    #[test]
    fn techniques_make_fairness_cheaper_and_nothing_is_below_the_oracle() {
        let setup = |techniques| Setup { techniques, ..Setup::standard(320, 2, 7_000, 3) };
        let of = |techniques| hold_release::run(&setup(techniques), &[PAPER, BAR]);
        let ((arrivals, plain), (_, both)) = (of(NONE), of(BOTH));
        assert!(both[1].oml_release_ns < plain[1].oml_release_ns, "{}", both[1].oml_release_ns);
        assert!(both[1].p_fair > 0.97, "{}", both[1].p_fair);
        let (oracle, constant) = (hindsight(&arrivals, 0.5), hindsight(&arrivals, 0.99));
        assert!(oracle < constant && constant < 1.1 * plain[1].oml_release_ns);
        let left_out = of(Techniques { left_out_permille: 10, ..BOTH });
        assert!(left_out.1[1].oml_release_ns < both[1].oml_release_ns, "fewer to wait for");
    }

    #[test]
    fn classes_help_where_classes_differ_and_only_there() {
        let arrivals = |least: fn(u64) -> u64| {
            let least_ns = (0..4_000).map(least).collect();
            Arrivals { oml_ns: 0.0, clocks_ns: 0, repaired: 0, least_ns }
        };
        let unlike = arrivals(|at| 100_000 + at % 2 * 50_000 + types::SplitMix64::mix(at) % 1_000);
        assert!(by_class(&unlike, 2) < hindsight(&unlike, 0.99) - 20_000.0);
        let alike = arrivals(|at| 100_000 + types::SplitMix64::mix(at) % 50_000);
        let change = by_class(&alike, 2) / hindsight(&alike, 0.99);
        assert!((0.99..1.01).contains(&change), "{change}");
    }

    #[test]
    fn a_short_run_has_all_rows_and_a_figure() {
        let mut told = |_| {};
        let mut run = Run::new(2, &mut told);
        run.options.clocks = Some(ClockSource::Assumed);
        let all: Vec<usize> = (0..TECHNIQUES.len()).collect();
        let report = of_sizes(&mut run, &[(100, WARM_UP + 500)], &all);
        assert_eq!(report.figures[0].curves.len(), TECHNIQUES.len() + 2);
        assert!(report.rows.iter().all(|row| row.ours.mean.is_finite()), "{:?}", report.rows);
        let cost = |report: &Report, n: usize| {
            let what = format!(
                "N={n} H=2, {}: release OML against the paper's",
                TECHNIQUES[DEMANDED_AT].0
            );
            let row = report.rows.iter().find(|row| row.what == what);
            row.expect("a row").ours
        };
        let few = of_sizes(&mut run, &[(100, WARM_UP + 500)], &OF_FAST);
        assert_eq!(cost(&few, 100), cost(&report, 100), "what is left out changes nothing else");
        assert!(few.rows.len() < report.rows.len() && report.checks.is_empty());
        // A demand is made of the end of the interval that is against us.
        let large = of_sizes(&mut run, &[(DEMANDED_FROM, WARM_UP + 200)], &OF_FAST);
        assert_eq!(large.checks.len(), 3);
        let Estimate { mean, half_width } = cost(&large, DEMANDED_FROM);
        assert!(half_width > 0.0 && large.checks[1].ours == mean + half_width, "{mean}");
    }

    #[test]
    fn the_bar_is_one_of_the_estimators_and_lies_below_its_demand() {
        assert_eq!(KINDS[BAR_AT], BAR);
        let Kind::OfMaximum(permille) = BAR else { panic!("{BAR:?}") };
        assert!(f64::from(permille) < LEAST_FAIR * 10.0, "fair is more than on time");
    }
}
