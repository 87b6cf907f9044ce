//! Section 11.5: how many messages a second one tree carries.

use super::{
    flow::{Flow, LOST},
    link::{Cloud, Profile},
    report::{Check, Curve, Figure, Report, Row, Run},
    stats::median,
    table1,
};

const MESSAGES: u64 = 6_000;
/// Packets a second that the provider lets a VM send: 35,000 x 30, where the paper sees the limit.
const PACKETS_LIMIT: f64 = 1.05e6;
/// A tree carries a rate when the median of the last tenth is at most so many times that of the
/// first: queues do not grow.
const GROWTH: f64 = 1.25;

/// Median OML in the first and in the last tenth of a run at `rate` messages a second.
fn growth(rate: f64, hedge: usize, threads: usize, seed: u64) -> (f64, f64) {
    let tree = table1::tree(&[10, 100], hedge, true);
    let profile = Profile { threads, ..Profile::table1() };
    let mut flow = Flow::new(tree, Cloud::new(&profile, seed, tree.topology.layers(), 0));
    let oml = |id: u64| {
        let sent_at = 1 + (id as f64 * 1e9 / rate) as u64;
        let last = flow.send(id, sent_at, hedge).iter().max().copied().unwrap_or(LOST);
        last - sent_at
    };
    let mut omls: Vec<u64> = (1..=MESSAGES).map(oml).collect();
    let tenth = omls.len() / 10;
    let from = omls.len() - tenth;
    let last = median(&mut omls[from..]) as f64;
    (median(&mut omls[..tenth]) as f64, last)
}

/// The highest rate of a grid of 2.5 % steps that is carried.
fn most(hedge: usize, threads: usize, seed: u64) -> f64 {
    let (mut rate, mut best) = (2_000.0, 0.0);
    while rate < 400_000.0 {
        let (first, last) = growth(rate, hedge, threads, seed);
        if last > first * GROWTH {
            break;
        }
        best = rate;
        rate *= 1.025;
    }
    best
}

/// The experiment.
pub fn run(run: &mut Run) -> Report {
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    let mut limited = 0.0;
    for hedge in 0..=2 {
        let rates: Vec<f64> = (0..run.seeds).map(|seed| most(hedge, 6, seed)).collect();
        let what = format!("H={hedge}, six sending threads: most messages a second");
        rows.push(Row::new(what, "1/s", None, &rates));
        points.push((hedge as f64, rows[rows.len() - 1].ours.mean / 1e3));
        // A proxy of layer 0 sends F copies of each message per H + 1.
        let copies = (10 * (hedge + 1)) as f64;
        let capped: Vec<f64> = rates.iter().map(|rate| rate.min(PACKETS_LIMIT / copies)).collect();
        let published = (hedge == 2).then_some(35_000.0);
        let what = format!("H={hedge}, and at most 1.05 M packets a second and VM");
        let row = Row::new(what, "1/s", published, &capped);
        limited = row.ours.mean;
        rows.push(row);
        (run.progress)((hedge + 1) as f64 / 4.0);
    }
    let single: Vec<f64> = (0..run.seeds).map(|seed| most(2, 1, seed)).collect();
    rows.push(Row::new("H=2, one sending thread", "1/s", None, &single));
    (run.progress)(1.0);
    Report {
        name: "throughput",
        title: "Section 11.5: messages a second through one tree, N=100",
        model: format!(
            "profile table1, D=2, F=10, {MESSAGES} messages a seed; a rate is carried when the \
             median OML of the last tenth is at most {GROWTH} times that of the first"
        ),
        seeds: run.seeds,
        rows,
        checks: vec![Check::new("H=2 with the packet limit", limited, 33_000.0, 37_000.0)],
        figures: vec![Figure {
            file: "throughput",
            title: "Messages a second by H, six sending threads, no packet limit".into(),
            x: "H",
            y: "thousand messages a second",
            curves: vec![Curve { name: "ours".into(), points }],
        }],
        notes: vec![
            "By sending time alone (30 copies of 3.28 us on six threads) a tree with H=2 would carry \
             about 61,000 messages a second. The paper stops at 35,000, suspects the provider's \
             packet limit and leaves it open; our second row takes that limit from the paper (30 \
             copies x 35,000), so its agreement shows only that sending time is not what stops it."
                .into(),
        ],
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_that_of_the_sending_threads() {
        let ideal = 6e9 / (30.0 * 3_280.0);
        let ours = most(2, 6, 1);
        assert!((0.85..1.05).contains(&(ours / ideal)), "{ours}");
        let (first, last) = growth(1.2 * ideal, 2, 6, 1);
        assert!(last > 2.0 * first, "control: an overloaded tree falls behind");
    }
}
