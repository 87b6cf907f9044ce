//! Section 5: what parents that change with every message buy, under bursts of delay that come by
//! themselves and under those that load causes.

use super::{
    flow::{Flow, LOST},
    link::{Cloud, Profile, QueueModel, SpikeModel},
    report::{Check, Report, Row, Run},
    seeds,
    stats::{cdf_us, median, percentile},
    table1,
};
use telemetry::plot::{Curve, Figure};

/// Trees: D = 2, and bursts by themselves at D = 3 and 4, too.
const TREES: [&[usize]; 3] = [&[10, 100], &[10, 100, 1_000], &[10, 100, 1_000, 5_000]];
/// Messages of a burst, and time between them.
const BURST: u64 = 60;
const BURST_NS: u64 = 20_000;
/// A burst every so often; between bursts 5,000 messages a second.
const PERIOD: u64 = 200;
const CALM_NS: u64 = 200_000;
/// A message is slow when it takes a receiver longer than this for each hop.
const SLOW_NS: u64 = 125_000;

#[derive(Default)]
struct Outcome {
    omls: Vec<u64>,
    /// OML of the messages sent in bursts, or during a spike for spikes.
    stressed: Vec<u64>,
    /// Maximum over receivers of each one's p95.
    owd_g: u64,
    /// Longest run of slow messages at one receiver.
    longest_run: u64,
}

/// What is compared.
struct Case {
    name: &'static str,
    file: &'static str,
    profile: Profile,
    layers: Vec<usize>,
    hedge: usize,
    messages: u64,
    bursts: bool,
}

fn measure(case: &Case, dynamic: bool, seed: u64) -> Outcome {
    let Case { profile, layers, messages, bursts, .. } = case;
    let (messages, bursts, slow_ns) = (*messages, *bursts, SLOW_NS * layers.len() as u64);
    let tree = table1::tree(layers, case.hedge, dynamic);
    let run_ns = messages * CALM_NS;
    let mut flow = Flow::new(tree, Cloud::new(profile, seed, tree.topology.layers(), run_ns));
    let receivers = tree.topology.receivers();
    let mut delays = vec![Vec::new(); receivers];
    let mut runs = vec![0; receivers];
    let (mut outcome, mut sent_at) = (Outcome::default(), 0);
    for id in 1..=messages {
        let bursting = bursts && id % PERIOD < BURST;
        sent_at += if bursting { BURST_NS } else { CALM_NS };
        let mut oml = 0;
        for (index, arrival) in flow.send(id, sent_at, case.hedge).iter().enumerate() {
            // A loss is repaired some time later; here it counts as slow only.
            let delay = if *arrival == LOST { slow_ns + 1 } else { arrival - sent_at };
            delays[index].push(delay);
            runs[index] = if delay > slow_ns { runs[index] + 1 } else { 0 };
            outcome.longest_run = outcome.longest_run.max(runs[index]);
            oml = oml.max(delay);
        }
        outcome.omls.push(oml);
        if bursting || (!bursts && oml > slow_ns) {
            outcome.stressed.push(oml);
        }
    }
    let p95 = |delays: &mut Vec<u64>| percentile(delays, 0.95);
    outcome.owd_g = delays.iter_mut().map(p95).max().unwrap_or(0);
    outcome
}

/// The experiment.
pub fn run(run: &mut Run) -> Report {
    let messages = 8_000;
    // Bursts of delay long and often enough that every run has several on its 1,010 paths.
    let spikes = SpikeModel { every_ns: 30e9, length_ns: 20e6, extra_ns: 500e3 };
    let independent = Profile { spikes: Some(spikes), ..Profile::standard() };
    let queue = QueueModel { service_ns: 30_000, limit_ns: 2_000_000, at_root: false };
    let loaded = |at_root| {
        let queue = Some(QueueModel { at_root, ..queue });
        Profile { queue, spikes: None, ..Profile::standard() }
    };
    let (asked, hedge) = (run.options.has_tree(), run.options.hedge.unwrap_or(0));
    let case = |name, file, profile: Profile, layers: &[usize], messages, bursts| {
        let (profile, layers) = (run.lossy(profile), layers.to_vec());
        Case { name, file, profile, layers, hedge, messages, bursts }
    };
    let [two, three, four] = TREES;
    let own = run.options.layers(100);
    let two = if asked { own.as_slice() } else { two };
    let mut cases = vec![
        case("independent", "dynamic-independent", independent.clone(), two, messages, false),
        case("load-induced", "dynamic-load", loaded(false), two, messages, true),
        case("load-induced, root too", "dynamic-load-root", loaded(true), two, messages, true),
    ];
    if !asked {
        let independent = |name, file, layers, messages| {
            case(name, file, independent.clone(), layers, messages, false)
        };
        cases.push(independent("independent, D=3", "dynamic-independent-3", three, messages / 2));
        cases.push(independent("independent, D=4", "dynamic-independent-4", four, messages / 4));
    }
    let count = cases.len() as f64;
    let mut report = Report {
        name: "dynamic",
        title: "Section 5: fixed against changing parents",
        model: format!(
            "profile standard without loss, layers of {two:?} below the root (D=3: N=1000; D=4: \
             N=5000), H={hedge}, {messages} messages a seed (half; a quarter); slow: above 125 us a hop; independent: a \
             path has a burst of 20 ms with 0.5 ms more delay every 30 s; load-induced: a path \
             serves a packet in {} us and every {PERIOD} messages {BURST} come {} us apart",
            queue.service_ns / 1_000,
            BURST_NS / 1_000
        ),
        seeds: run.seeds,
        ..Report::default()
    };
    for (index, case) in cases.iter().enumerate() {
        let (name, bursts) = (case.name, case.bursts);
        let mut curves = Vec::new();
        let mut medians = Vec::new();
        for dynamic in [false, true] {
            let [mut omls, mut stressed, mut owds, mut longest] = <[Vec<f64>; 4]>::default();
            let mut all = Vec::new();
            for mut outcome in seeds::map(run.range(), |seed| measure(case, dynamic, seed)) {
                omls.push(median(&mut outcome.omls) as f64);
                if bursts {
                    stressed.push(median(&mut outcome.stressed) as f64);
                }
                owds.push(outcome.owd_g as f64);
                longest.push(outcome.longest_run as f64);
                all.append(&mut outcome.omls);
            }
            let parents = if dynamic { "changing" } else { "fixed" };
            let row = |what: &str, unit, values: &[f64]| {
                Row::new(format!("{name}, {parents} parents: {what}"), unit, None, values)
            };
            report.rows.push(row("median OML", "ns", &omls));
            if bursts {
                report.rows.push(row("median OML in bursts", "ns", &stressed));
            }
            report.rows.push(row("OWD_G (max of p95s)", "ns", &owds));
            let what = "longest run of slow messages at a receiver";
            report.rows.push(row(what, "messages", &longest));
            curves.push(Curve { name: format!("{parents} parents"), points: cdf_us(&all, 300) });
            medians.push((omls, stressed));
        }
        let change = |fixed: &[f64], changing: &[f64]| -> Vec<f64> {
            fixed.iter().zip(changing).map(|(f, c)| (c / f - 1.0) * 100.0).collect()
        };
        let what = format!("{name}: change of the median OML");
        let values = change(&medians[0].0, &medians[1].0);
        report.rows.push(Row::new(what, "%", Some(-10.0), &values));
        if bursts {
            let values = change(&medians[0].1, &medians[1].1);
            let what = format!("{name}: change of the median OML in bursts (paper, up to)");
            report.rows.push(Row::new(what, "%", Some(-80.0), &values));
            if index == 1 && run.options.given().is_empty() {
                let ours = report.rows[report.rows.len() - 1].ours.mean;
                let what = "load-induced: change of the median OML in bursts (%)";
                report.checks.push(Check::new(what, ours, -80.0, -30.0));
            }
        }
        report.figures.push(Figure {
            file: case.file,
            title: format!("Fixed and changing parents, {name} bursts of delay"),
            x: "OML (us)",
            y: "share of messages",
            curves,
        });
        (run.progress)((index + 1) as f64 / count);
    }
    report.notes.extend([
        "With bursts of delay that strike paths independently of what we send, changing parents \
         don't lower the median OML: at any moment just as many paths in use are slow. What they \
         change is who suffers and for how long: a receiver's run of slow messages and with it the \
         p95s that deadlines are made of."
            .into(),
        "When load causes the delay (queues on paths that one VM pair shares), changing parents \
         spread a burst over ten times as many paths, and the median in bursts falls as the paper \
         reports."
            .into(),
        "That holds for paths below the first layer. The root's own paths carry every message \
         whoever the parents are: with the same queues there, next to nothing is gained, as the \
         last rows show."
            .into(),
    ]);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changing_parents_help_against_load_and_spread_independent_bursts() {
        let report = run(&mut Run::new(2, &mut |_| ()));
        let ours = |what: &str| {
            let row = report.rows.iter().find(|row| row.what == what);
            row.map(|row| row.ours.mean).unwrap_or_else(|| panic!("{what}"))
        };
        assert!(ours("load-induced: change of the median OML in bursts (paper, up to)") < -30.0);
        assert!(ours("independent: change of the median OML").abs() < 5.0);
        let run = "longest run of slow messages at a receiver";
        let (fixed, changing) = (
            ours(&format!("independent, fixed parents: {run}")),
            ours(&format!("independent, changing parents: {run}")),
        );
        assert!(changing < fixed / 2.0, "{fixed} {changing}");
        // A leaf's parent changes with every message whatever the depth.
        for depth in ["D=3", "D=4"] {
            let longest = ours(&format!("independent, {depth}, changing parents: {run}"));
            let fixed = ours(&format!("independent, {depth}, fixed parents: {run}"));
            assert!(longest < fixed / 4.0, "{depth}: {fixed} {longest}");
        }
    }
}
