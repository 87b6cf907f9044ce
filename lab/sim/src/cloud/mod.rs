//! A model of a public cloud and the Jasper paper's experiments on it.
//!
//! [`link`] says what a cloud is like, [`flow`] how one message spreads in it (the overlay's rules,
//! without an event queue), [`nodes`] runs the overlay's own nodes in it, and the other modules are
//! the experiments, each giving a [`report::Report`] of published and own figures side by side. A
//! seed decides everything, to the bit, on every machine ([`math`]).

pub mod clock_errors;
pub mod clock_mesh;
pub mod components;
pub mod cost;
pub mod deadline;
pub mod dissemination;
pub mod dynamic;
pub mod fairness;
pub mod fancypq;
pub mod flow;
pub mod frontier;
pub mod hold_release;
pub mod inbound;
pub mod lemondrop;
pub mod link;
pub mod market;
pub mod math;
pub mod montecarlo;
pub mod nodes;
pub mod pacing;
pub mod profit;
pub mod races;
pub mod report;
pub mod seeds;
pub mod stats;
pub mod table1;
pub mod throughput;
pub mod treebuilder;
pub mod wheel;

use report::{Experiment, Report, Run, Takes};

/// A tree.
const TREE: &[Takes] = &[Takes::Receivers, Takes::Depth, Takes::Fanout, Takes::Hedge];
/// A tree and a cloud.
const WITHOUT_HOLD: &[Takes] = &[
    Takes::Receivers,
    Takes::Depth,
    Takes::Fanout,
    Takes::Hedge,
    Takes::Loss,
    Takes::Stragglers,
    Takes::StragglerExtra,
];
/// A tree, a cloud and clocks.
const ALL: &[Takes] = &[
    Takes::Receivers,
    Takes::Depth,
    Takes::Fanout,
    Takes::Hedge,
    Takes::Loss,
    Takes::Clocks,
    Takes::Stragglers,
    Takes::StragglerExtra,
];

/// All experiments: the Jasper paper's in its order, those of the TreeBuilder thesis, the clocks'.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "table1",
        about: "median OML by depth and fan-out (table 1)",
        seeds: 5,
        takes: TREE,
        fault: |options| options.tree_fault(1_000),
        run: table1::run,
    },
    Experiment {
        name: "hedging-montecarlo",
        about: "delay under hedging, literal recursion and shared tree (appendix F, figure 14)",
        seeds: 3,
        takes: &[Takes::Fanout],
        fault: montecarlo::fault,
        run: montecarlo::run,
    },
    Experiment {
        name: "figure5",
        about: "direct unicast against the tree (figure 5)",
        seeds: 10,
        takes: &[Takes::Receivers, Takes::Depth, Takes::Fanout],
        fault: |options| options.tree_fault(100),
        run: dissemination::figure5,
    },
    Experiment {
        name: "hedging",
        about: "OML, delivery window and receivers' delays by H (figures 6, 7)",
        seeds: 20,
        takes: &[
            Takes::Receivers,
            Takes::Depth,
            Takes::Fanout,
            Takes::Loss,
            Takes::Stragglers,
            Takes::StragglerExtra,
        ],
        fault: |options| options.tree_fault(100),
        run: dissemination::hedging,
    },
    Experiment {
        name: "scale",
        about: "100 to 5,000 receivers (figure 8)",
        seeds: 10,
        takes: WITHOUT_HOLD,
        fault: |options| options.tree_fault(1_000),
        run: dissemination::scale,
    },
    Experiment {
        name: "fairness",
        about: "hold-and-release and its estimators (figure 9, tables 2 and 4)",
        seeds: 20,
        takes: ALL,
        fault: |options| options.tree_fault(1_000),
        run: fairness::run,
    },
    Experiment {
        name: "frontier",
        about: "P(F) against release OML by technique, with its bounds (table 2)",
        seeds: 20,
        takes: ALL,
        fault: |options| options.tree_fault(1_000),
        run: frontier::run,
    },
    Experiment {
        name: "stragglers",
        about: "P(F) of the paper's estimator by N and stragglers (table 2)",
        seeds: 10,
        takes: &[Takes::Loss, Takes::Clocks],
        fault: |_| None,
        run: fairness::stragglers,
    },
    Experiment {
        name: "components",
        about: "latency as each component is introduced (figure 10)",
        seeds: 10,
        takes: ALL,
        fault: |options| options.tree_fault(100),
        run: components::run,
    },
    Experiment {
        name: "dynamic",
        about: "fixed against changing parents (section 5)",
        seeds: 10,
        takes: WITHOUT_HOLD,
        fault: |options| options.tree_fault(100),
        run: dynamic::run,
    },
    Experiment {
        name: "fancypq",
        about: "the limit-order queue under bursts (figures 11, 12)",
        seeds: 5,
        takes: &[],
        fault: |_| None,
        run: fancypq::run,
    },
    Experiment {
        name: "pacing",
        about: "losses by incast: the paper's rule and credits (section 7.1)",
        seeds: 5,
        takes: &[],
        fault: |_| None,
        run: pacing::run,
    },
    Experiment {
        name: "throughput",
        about: "messages a second through trees, orders a second through shards (section 11.5)",
        seeds: 3,
        takes: &[],
        fault: |_| None,
        run: throughput::run,
    },
    Experiment {
        name: "cost",
        about: "VMs and dollars (table 3), computed",
        seeds: 1,
        takes: TREE,
        fault: |options| options.tree_fault(1_000),
        run: cost::run,
    },
    Experiment {
        name: "profit-share",
        about: "who wins the races (appendix C)",
        seeds: 20,
        takes: ALL,
        fault: profit::fault,
        run: profit::run,
    },
    Experiment {
        name: "races",
        about: "profits of eight accounts at four distances in the engine (appendix C)",
        seeds: 20,
        takes: ALL,
        fault: races::fault,
        run: races::run,
    },
    Experiment {
        name: "inbound-order",
        about: "order of generation for 99.99 % of pairs: ways, windows, draws",
        seeds: 20,
        takes: &[
            Takes::Receivers,
            Takes::Fanout,
            Takes::Hedge,
            Takes::Loss,
            Takes::Clocks,
            Takes::Stragglers,
            Takes::StragglerExtra,
        ],
        fault: inbound::fault,
        run: inbound::order,
    },
    Experiment {
        name: "inbound-fairness",
        about: "orders processed as generated, against added latency",
        seeds: 20,
        takes: &[
            Takes::Receivers,
            Takes::Fanout,
            Takes::Hedge,
            Takes::Loss,
            Takes::Clocks,
            Takes::Stragglers,
            Takes::StragglerExtra,
        ],
        fault: inbound::fault,
        run: inbound::run,
    },
    Experiment {
        name: "treebuilder",
        about: "trees by strategy, root and K (TreeBuilder thesis, tables 5.4 to 5.6)",
        seeds: 60,
        takes: &[Takes::Depth, Takes::Fanout],
        fault: treebuilder::fault,
        run: treebuilder::run,
    },
    Experiment {
        name: "lemondrop",
        about: "LemonDrop's accuracy and time by iterations (TreeBuilder thesis, A.5.6)",
        seeds: 60,
        takes: &[Takes::Depth, Takes::Fanout],
        fault: treebuilder::fault,
        run: lemondrop::run,
    },
    Experiment {
        name: "clock-errors",
        about: "errors and bounds of clocks that agents keep together, beside comparators",
        seeds: 5,
        takes: &[],
        fault: |_| None,
        run: clock_mesh::errors,
    },
    Experiment {
        name: "clock-wander",
        about: "whether bounds hold however oscillators wander",
        seeds: 20,
        takes: &[],
        fault: |_| None,
        run: clock_mesh::wander,
    },
];

/// The experiment of this name.
pub fn experiment(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

/// The short form of an experiment that takes minutes with one seed, for a look at all of them.
pub fn short(name: &str) -> Option<fn(&mut Run) -> Report> {
    (name == "frontier").then_some(frontier::fast)
}
