//! The TreeBuilder thesis, "VM Selection Heuristic for Financial Exchanges in the Cloud" (2024).

use super::Aim::{Less, More, Same};
use super::Kind::{Computed, Simulated};
use super::{Item, Ours, Session};
use host::failure::Failure;
use planner::Shape;

const DRAWING: &str = "a drawing of the program's design without a measurement; ours is described in docs/treebuilder.md";
const SECONDS: &str = "the modelled cloud has no time of day: its messages are independent draws, so a series by seconds would be noise of the \
     generator; the row `stddev` beside table 5.4 has the spread";
const ORDER: &str = "on clouds of the same kind the strategy of the lowest 90th percentile beats the one that weighs the standard \
     deviation, which rare spikes decide";
const ONE_STEP: &str = "the thesis' FAQ stops after one step; the corrected one goes on (`fairbell-lab reproduce page lemondrop`)";

/// A figure of a kind of tree.
const fn worst(what: (&'static str, &'static str), published: f64, run: super::Runner) -> Item {
    Item::new(what, (published, "us"), Less, Simulated, run)
}

/// The thesis' tree: depth 3, fan-out 2.
fn shape() -> Result<Shape, Failure> {
    Shape::new(3, 2).ok_or_else(|| Failure::Run("no tree of depth 3 and fan-out 2".to_string()))
}

fn counted(count: usize) -> Result<Ours, Failure> {
    Ok(Ours { value: count as f64, interval: None })
}

/// How far one kind of tree is below another, which the source says for a gain.
const fn gain(what: (&'static str, &'static str), published: f64, run: super::Runner) -> Item {
    Item::new(what, (published, "%"), More, Simulated, run)
}

/// 90th percentile of the worst leaf of one kind below another's, %.
fn below(session: &mut Session, of: &str, to: &str) -> Result<Ours, Failure> {
    let [of, to] = [of, to].map(|name| format!("{name}: worst leaf, p90"));
    let ratio = session.ratio("treebuilder", &of, &to)?;
    let gain = |ratio: f64| (1.0 - ratio) * 100.0;
    let interval = ratio.interval.map(|[low, high]| [gain(high), gain(low)]);
    Ok(Ours { value: gain(ratio.value), interval })
}

pub(super) const ITEMS: &[Item] = &[
    Item::impossible(("figures 2.1 to 4.16", "design"), DRAWING),
    Item::new(
        ("table 5.1", "VMs of the tree, D=3 F=2"),
        (15.0, "VMs"),
        Same(0.0),
        Computed,
        |_| counted(shape()?.positions()),
    ),
    Item::new(
        ("table 5.3", "strategies that the planner knows by these names"),
        (3.0, "strategies"),
        Same(0.0),
        Computed,
        |_| {
            let names = ["WEIGHTED", "P90", "P50"];
            counted(names.iter().filter(|name| planner::Strategy::parse(name).is_ok()).count())
        },
    ),
    worst(("table 5.4", "BEST-WEIGHTED, worst leaf, p90"), 358.0, |s| {
        s.row("treebuilder", "BEST-WEIGHTED: worst leaf, p90", "us")
    }),
    worst(("table 5.4", "BEST-WEIGHTED, worst leaf, p50"), 247.0, |s| {
        s.row("treebuilder", "BEST-WEIGHTED: worst leaf, p50", "us")
    }),
    worst(("table 5.4", "BEST-WEIGHTED, worst leaf, mean"), 261.4, |s| {
        s.row("treebuilder", "BEST-WEIGHTED: worst leaf, mean", "us")
    }),
    worst(("table 5.4", "BEST-WEIGHTED, worst leaf, standard deviation"), 78.95, |s| {
        s.row("treebuilder", "BEST-WEIGHTED: worst leaf, stddev", "us")
    }),
    Item::new(
        ("table 5.4", "WORST-P90, worst leaf, p90"),
        (498.0, "us"),
        Same(0.2),
        Simulated,
        |s| s.row("treebuilder", "WORST-P90: worst leaf, p90", "us"),
    ),
    Item::new(
        ("table 5.4", "WORST-P90, worst leaf, p50"),
        (318.0, "us"),
        Same(0.2),
        Simulated,
        |s| s.row("treebuilder", "WORST-P90: worst leaf, p50", "us"),
    ),
    Item::new(
        ("table 5.4", "WORST-P90, worst leaf, mean"),
        (353.66, "us"),
        Same(0.2),
        Simulated,
        |s| s.row("treebuilder", "WORST-P90: worst leaf, mean", "us"),
    ),
    Item::new(
        ("table 5.4", "WORST-P90, worst leaf, standard deviation"),
        (352.29, "us"),
        Same(0.2),
        Simulated,
        |s| s.row("treebuilder", "WORST-P90: worst leaf, stddev", "us"),
    )
    .note("the thesis' spread comes from spikes of its cluster, of which the model has fewer"),
    gain(("figures 5.1 to 5.3", "BEST-WEIGHTED below WORST-P90 at p90"), 28.1, |s| {
        below(s, "BEST-WEIGHTED", "WORST-P90")
    }),
    Item::impossible(
        ("figures 5.4 to 5.6", "standard deviation by seconds, at most 707.76 and 1337.13 us"),
        SECONDS,
    ),
    Item::new(("figure 5.9", "RAND, worst leaf, p90"), (383.0, "us"), Same(0.1), Simulated, |s| {
        s.row("treebuilder", "RAND: worst leaf, p90", "us")
    }),
    Item::new(("figure 5.9", "RAND, worst leaf, p50"), (256.0, "us"), Same(0.1), Simulated, |s| {
        s.row("treebuilder", "RAND: worst leaf, p50", "us")
    }),
    Item::new(
        ("figure 5.9", "RAND, worst leaf, mean"),
        (281.05, "us"),
        Same(0.1),
        Simulated,
        |s| s.row("treebuilder", "RAND: worst leaf, mean", "us"),
    ),
    Item::new(
        ("figure 5.9", "RAND, worst leaf, standard deviation"),
        (308.29, "us"),
        Same(0.2),
        Simulated,
        |s| s.row("treebuilder", "RAND: worst leaf, stddev", "us"),
    )
    .note("the thesis' spread comes from spikes of its cluster, of which the model has fewer"),
    gain(("figures 5.10 to 5.13", "BEST-WEIGHTED below RAND at p90"), 6.52, |s| {
        below(s, "BEST-WEIGHTED", "RAND")
    }),
    Item::impossible(
        ("figure 5.12", "standard deviation by seconds, RAND at most 863.30 us"),
        SECONDS,
    ),
    worst(("table 5.5", "BEST-P90, worst leaf, p90"), 364.0, |s| {
        s.row("treebuilder", "BEST-P90: worst leaf, p90", "us")
    }),
    worst(("table 5.5", "BEST-P90, worst leaf, p50"), 246.0, |s| {
        s.row("treebuilder", "BEST-P90: worst leaf, p50", "us")
    }),
    worst(("table 5.5", "BEST-P90, worst leaf, mean"), 262.11, |s| {
        s.row("treebuilder", "BEST-P90: worst leaf, mean", "us")
    }),
    worst(("table 5.5", "BEST-P90, worst leaf, standard deviation"), 159.16, |s| {
        s.row("treebuilder", "BEST-P90: worst leaf, stddev", "us")
    }),
    worst(("table 5.5", "BEST-P50, worst leaf, p90"), 392.0, |s| {
        s.row("treebuilder", "BEST-P50: worst leaf, p90", "us")
    }),
    worst(("table 5.5", "BEST-P50, worst leaf, p50"), 269.0, |s| {
        s.row("treebuilder", "BEST-P50: worst leaf, p50", "us")
    }),
    worst(("table 5.5", "BEST-P50, worst leaf, mean"), 282.57, |s| {
        s.row("treebuilder", "BEST-P50: worst leaf, mean", "us")
    }),
    worst(("table 5.5", "BEST-P50, worst leaf, standard deviation"), 83.57, |s| {
        s.row("treebuilder", "BEST-P50: worst leaf, stddev", "us")
    }),
    gain(("figures 5.14 to 5.19", "BEST-WEIGHTED below BEST-P90 at p90"), 1.65, |s| {
        below(s, "BEST-WEIGHTED", "BEST-P90")
    })
    .note(ORDER),
    Item::impossible(
        ("figure 5.15", "standard deviation by seconds, 103.53, 183.28 and 521 us"),
        SECONDS,
    ),
    worst(("figures 5.20 to 5.28", "BEST-WEIGHTED, other root, worst leaf, p90"), 312.0, |s| {
        s.row("treebuilder", "BEST-WEIGHTED, other root: worst leaf, p90", "us")
    }),
    worst(("table 5.6", "LEMON, worst leaf, p90 (the worse of two runs; 325 us)"), 338.0, |s| {
        s.row("treebuilder", "LEMON: worst leaf, p90", "us")
    }),
    worst(("table 5.6", "LEMON, worst leaf, p50 (the same run; 223 us)"), 236.0, |s| {
        s.row("treebuilder", "LEMON: worst leaf, p50", "us")
    }),
    worst(("table 5.6", "LEMON, worst leaf, mean (the same run; 236.7 us)"), 249.5, |s| {
        s.row("treebuilder", "LEMON: worst leaf, mean", "us")
    }),
    worst(
        ("table 5.6", "LEMON, worst leaf, standard deviation (the same run; 76.39 us)"),
        94.94,
        |s| s.row("treebuilder", "LEMON: worst leaf, stddev", "us"),
    ),
    gain(
        ("table 5.6", "BEST-WEIGHTED, other root, below LEMON at p90 (derived: 312 of 338 us)"),
        7.7,
        |s| below(s, "BEST-WEIGHTED, other root", "LEMON"),
    )
    .note(ONE_STEP),
    Item::unprinted(
        ("table 5.6", "LEMON placed for the worst leaf, worst leaf, p90"),
        "us",
        Simulated,
        |s| s.row("treebuilder", "LEMON, worst leaf: worst leaf, p90", "us"),
    ),
    Item::impossible(
        ("figures 5.29 to 5.34", "curves of the same trees"),
        "drawn as `treebuilder.svg` below, over clouds instead of one cluster's leaves",
    ),
    Item::impossible(
        ("figures A.3 to A.20", "curves of each tree alone"),
        "drawn as `treebuilder.svg` below, over clouds instead of one cluster's leaves",
    ),
    Item::new(
        ("figure A.24", "LEMON-A, one iteration, worst leaf, p90"),
        (295.0, "us"),
        Less,
        Simulated,
        |s| s.row("lemondrop", "1 iteration (the thesis' listing): worst leaf, p90", "us"),
    ),
    Item::new(
        ("figure A.24", "LEMON-A, one iteration, worst leaf, standard deviation"),
        (83.35, "us"),
        Less,
        Simulated,
        |s| s.row("lemondrop", "1 iteration (the thesis' listing): worst leaf, stddev", "us"),
    ),
    Item::new(
        ("figure A.24", "LEMON-B, the listing at 2,000 iterations, worst leaf, p90"),
        (273.0, "us"),
        Less,
        Simulated,
        |s| s.row("lemondrop", "the listing, 2,000 iterations: worst leaf, p90", "us"),
    ),
    Item::new(
        ("figure A.24", "LEMON-B, the listing at 2,000 iterations, worst leaf, standard deviation"),
        (64.19, "us"),
        Less,
        Simulated,
        |s| s.row("lemondrop", "the listing, 2,000 iterations: worst leaf, stddev", "us"),
    ),
    Item::new(
        ("figure A.24", "LEMON-C, 30 iterations and 2-opt of ours, worst leaf, p90"),
        (285.0, "us"),
        Less,
        Simulated,
        |s| s.row("lemondrop", "30 iterations and 2-opt: worst leaf, p90", "us"),
    ),
    Item::new(
        ("figure A.24", "LEMON-C, 30 iterations and 2-opt of ours, worst leaf, standard deviation"),
        (57.64, "us"),
        Less,
        Simulated,
        |s| s.row("lemondrop", "30 iterations and 2-opt: worst leaf, stddev", "us"),
    ),
    Item::new(
        ("figures A.25 to A.34", "time of LEMON-A, one iteration"),
        (38.1, "ms"),
        Less,
        super::Kind::Measured,
        |s| s.row("lemondrop-time", "at most 1 iterations: time on this machine", "ms"),
    ),
    Item::new(
        (
            "figures A.25 to A.34",
            "time of LEMON-B, 1,000 iterations of ours (the thesis': max_i = 10,000)",
        ),
        (11_260.0, "ms"),
        Less,
        super::Kind::Measured,
        |s| s.row("lemondrop-time", "at most 1000 iterations: time on this machine", "ms"),
    ),
    Item::new(("figure A.35", "leaves, D=3 F=2"), (8.0, "VMs"), Same(0.0), Computed, |_| {
        counted(shape()?.leaves().len())
    }),
    Item::new(("figure A.35", "inner nodes, D=3 F=2"), (7.0, "VMs"), Same(0.0), Computed, |_| {
        counted(shape()?.internal())
    }),
];
