//! Table 3: what the proxies cost.

use overlay::topology::Topology;

use super::{
    report::{Check, Report, Row, Run},
    table1,
};

/// A c5.2xlarge of the paper, in dollars an hour.
const VM_HOUR: f64 = 0.34;

/// (N, proxies at H=0, proxies at H=2, dollars an hour at H=2).
const PUBLISHED: [(usize, f64, f64, f64); 2] =
    [(100, 10.0, 30.0, 10.2), (1_000, 110.0, 330.0, 112.2)];

/// Proxies of a tree by the rule, with H more trees that give back what hedging takes.
pub fn proxies(receivers: usize, hedge: usize) -> usize {
    let layers = table1::layers(receivers, table1::rule_depth(receivers), 10);
    let one = Topology::from_layers(&layers).map_or(0, |tree| tree.proxy_ids().count());
    one * (hedge + 1)
}

/// The experiment.
pub fn run(run: &mut Run) -> Report {
    let mut rows = Vec::new();
    for receivers in [100, 1_000, 5_000] {
        let published = PUBLISHED.iter().find(|(n, ..)| *n == receivers);
        for hedge in [0, 2] {
            let what = format!("N={receivers} H={hedge}: proxy VMs");
            let theirs = published.map(|p| if hedge == 0 { p.1 } else { p.2 });
            rows.push(Row::single(what, "VMs", theirs, proxies(receivers, hedge) as f64));
        }
        let dollars = proxies(receivers, 2) as f64 * VM_HOUR;
        let what = format!("N={receivers} H=2: dollars an hour");
        rows.push(Row::single(what, "$/h", published.map(|p| p.3), dollars));
    }
    (run.progress)(1.0);
    let worst = rows.iter().filter_map(Row::difference).map(f64::abs).fold(0.0, f64::max);
    Report {
        name: "cost",
        title: "Table 3: cost of the proxies",
        model: format!("trees by the rule F=10, H+1 parallel trees, ${VM_HOUR} a VM and hour"),
        seeds: run.seeds,
        checks: vec![Check::new("largest relative difference", worst, 0.0, 1e-9)],
        rows,
        notes: vec![
            "Goodput 1/(H+1) holds per proxy. The receivers still take H+1 copies of every message, \
             whichever trees they come by."
                .into(),
        ],
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_published_table() {
        let report = run(&mut Run::new(1, &mut |_| ()));
        let close = |row: &Row| row.difference().is_none_or(|d| d.abs() < 1e-9);
        assert!(report.rows.iter().all(close), "{report:?}");
    }
}
