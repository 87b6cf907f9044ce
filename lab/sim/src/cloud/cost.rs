//! Table 3: what the proxies cost.

use overlay::topology::Topology;

use super::report::{Check, Report, Row, Run};

/// A c5.2xlarge of the paper, in dollars an hour.
const VM_HOUR: f64 = 0.34;

/// (N, proxies at H=0, proxies at H=2, dollars an hour at H=2).
const PUBLISHED: [(usize, f64, f64, f64); 2] =
    [(100, 10.0, 30.0, 10.2), (1_000, 110.0, 330.0, 112.2)];

/// Proxies of a tree, with H more trees that give back what hedging takes.
pub fn proxies(layers: &[usize], hedge: usize) -> usize {
    let one = Topology::from_layers(layers).map_or(0, |tree| tree.proxy_ids().count());
    one * (hedge + 1)
}

/// The experiment.
pub fn run(run: &mut Run) -> Report {
    let mut rows = Vec::new();
    let asked = run.options.has_tree();
    let sizes = match asked {
        true => vec![1_000],
        false => vec![100, 1_000, 5_000],
    };
    for receivers in sizes {
        let layers = run.options.layers(receivers);
        let receivers = layers.last().copied().unwrap_or(0);
        let published = PUBLISHED.iter().find(|(n, ..)| *n == receivers && !asked);
        let hedged = run.options.hedge.unwrap_or(2);
        for hedge in [0, hedged] {
            let what = format!("N={receivers} H={hedge}: proxy VMs");
            let theirs = published.map(|p| if hedge == 0 { p.1 } else { p.2 });
            rows.push(Row::single(what, "VMs", theirs, proxies(&layers, hedge) as f64));
        }
        let dollars = proxies(&layers, hedged) as f64 * VM_HOUR;
        let what = format!("N={receivers} H={hedged}: dollars an hour");
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
        computed: true,
        notes: vec![
            "Nothing is measured here: the rows are the formula, (H + 1) times the proxies of one tree, \
             times the price of a VM. That they equal the published table says that the paper's \
             table is this formula too."
                .into(),
            "Goodput 1/(H+1) holds per proxy. The receivers still take H+1 copies of every message, \
             whichever trees they come by."
                .into(),
            "Layers are of F, F^2 and so on proxies from the root down. A tree of `fairbell` itself, as its \
             receivers need them, has fewer where these are no power of F."
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
        assert!(report.computed, "and says that it is no measurement");
    }
}
